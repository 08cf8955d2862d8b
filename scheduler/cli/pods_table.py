"""`dra-scheduler explain -A`: all pods that wait, a line each: the pod, the kind of its cause, and the cause.

Not here: asking about them (`scheduler.explain.waiting`), one pod explained, with what helps (`explain`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from scheduler.cli.cluster_question import CommandInput, Key
from scheduler.cli.subjects import Meant
from scheduler.cli.tables import print_document, print_table
from scheduler.cli.terminal import caution, echo, print_left_out, working
from scheduler.model.nearest import some

if TYPE_CHECKING:
    from scheduler.explain.waiting import AllWaiting

_CAUSE_MAX: Final = 160
"""Characters of a cause in a table."""
_NAMES_MAX: Final = 3
_GOOD: Final = ("fits", "waits")


def _ask(asked: CommandInput, now_ms: int, only: Collection[Key] | None = None) -> AllWaiting:
    """Those of -n alone, where that is all that is asked about."""
    from scheduler.explain.waiting import ask_all

    scope = asked.namespace if asked.is_strict and only is None else None
    return ask_all(asked.given, now_ms=now_ms, features=asked.features, config=asked.config, scope=scope, only=only)


def explain_all(asked: CommandInput, output: str, now_ms: int) -> int:
    """Print a line for each pod that waits; the exit code: 0 where all would fit."""
    with working("asking the scheduler"):
        found = _ask(asked, now_ms)
    if output in ("table", "wide"):
        print_left_out(found.problems)
        _print(found, cause_max=_CAUSE_MAX if output == "table" else None)
    else:
        print_document({"waiting": found.count, "pods": [one.document() for one in found.pods]}, output)
    for note in found.notes:
        caution(f"note: {note}", is_error=True)
    for problem in found.problems:
        caution(f"warning: {problem}", is_error=True)
    return 0 if all(one.outcome in _GOOD for one in found.pods) else 1


def _print(found: AllWaiting, cause_max: int | None) -> None:
    from scheduler.explain.waiting import alike

    rows = []
    for pods in alike(found.pods):
        one = pods[0]
        nodes = [*dict.fromkeys(pod.node for pod in pods)]
        cause = one.cause or f"fits: it would run on node{'s' * (len(nodes) > 1)} {some(nodes, _NAMES_MAX)}"
        cut = cause if cause_max is None or len(cause) <= cause_max else f"{cause[: cause_max - 1]}…"
        kind = f"[{one.kind}]" if one.kind else f"({one.outcome})"
        rows.append((one.maker.named(one.key, len(pods)), kind + ", first look" * one.is_first_look, cut))
    if rows:
        print_table(("POD", "KIND", "CAUSE"), rows)
    kinds = Counter(f"[{one.kind}]" if one.kind else f"({one.outcome})" for one in found.pods).most_common()
    verb = "pod waits" if found.count == 1 else "pods wait"
    counted = f": {', '.join(f'{count} {kind}' for kind, count in kinds)}" if kinds else ""
    left = found.count - len(found.pods)
    echo(f"{found.count or 'no'} {verb}{counted}{f', {left} not asked about' if left > 0 else ''}")


def of_workload(asked: CommandInput, workload: Meant, now_ms: int) -> tuple[Key, tuple[str, ...]]:
    """Which of a workload's pods to explain, and what to say of the others: each cause once, with its pods."""
    if not workload.waiting:
        return workload.key, (f"{workload.workload}: none of its {_pods(len(workload.pods))} waits",)
    from scheduler.explain.waiting import alike

    found = _ask(asked, now_ms, workload.waiting)
    if not found.pods:
        return workload.key, ()
    by_need = sorted(alike(found.pods), key=lambda pods: pods[0].outcome in _GOOD)
    fit = sum(one.outcome in _GOOD for one in found.pods)
    waits = "waits" if len(workload.waiting) == 1 else "wait"
    counted = f"{fit} of them fit, {len(found.pods) - fit} do not" if fit < len(found.pods) else "all of them fit"
    notes = [f"{workload.workload}: {len(workload.waiting)} of its {_pods(len(workload.pods))} {waits}, {counted}"]
    for pods in by_need:
        names = some([one.key[1] for one in pods], _NAMES_MAX)
        first = pods[0]
        kind = f"[{first.kind}] " if first.kind else ""
        own = f"{kind}this one's cause" if first.outcome not in _GOOD else "would fit"
        why = own if pods is by_need[0] else f"{kind}{first.cause}" if first.cause else "would fit"
        notes.append(f"{_pods(len(pods))} of them ({names}): {why}")
    return by_need[0][0].key, tuple(notes)


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"
