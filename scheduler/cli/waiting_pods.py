"""`dra-scheduler explain -A`: all pods that wait, a line each: the pod, the kind of its cause, and the cause.

The pods are tried one after the other as the scheduler would try them, and each takes what it gets.

Not here: one pod explained, with what helps (`explain`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.cluster_question import Asked, Key
from scheduler.cli.subjects import Meant
from scheduler.cli.tables import print_document, print_table
from scheduler.cli.terminal import caution, working
from scheduler.framework.blame import TO_MAKE_IT_FIT, cause_of, without_cause

if TYPE_CHECKING:
    from scheduler.offline import Verdict

_PODS_MAX: Final = 1_000
"""Pods that are asked about; the others are counted."""
_CAUSE_MAX: Final = 160
"""Characters of a cause in a table."""
_NAMES_MAX: Final = 3
_BUDGET_STEPS: Final = 200_000
_KIND: Final = re.compile(r"\[([a-z0-9-]+)\] ?")
_GOOD: Final = ("fits", "waits")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod that waits.

    Attributes:
        outcome: As `simulate` has it.
        kind: Of its cause (`framework.cause_kinds`), "" where none is known.
        cause: What keeps it out, or the scheduler's sentence; "" where it fits.
        node: Where it would run.
    """

    key: Key
    outcome: str
    kind: str
    cause: str
    node: str

    def document(self) -> dict[str, Any]:
        """For programs."""
        namespace, name = self.key
        told = {"outcome": self.outcome, "node": self.node or None, "kind": self.kind or None, "cause": self.cause}
        return {"namespace": namespace, "name": name, **told}


@dataclass(frozen=True, slots=True)
class AllWaiting:
    """The pods that were asked about, by name; how many wait in all; what was wrong with objects."""

    pods: Sequence[Waiting]
    count: int
    problems: Sequence[str]


def ask_all(asked: Asked, now_ms: int, only: Collection[Key] | None = None) -> AllWaiting:
    """Ask about the pods that wait: all, those of -n, or of `only`."""
    from scheduler.offline import OfflineCluster, decide

    cluster = OfflineCluster(now_ms)
    loaded = cluster.load(asked.given)
    there = [(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in cluster.pods() if _waits(pod)]
    there += [problem.pod for problem in loaded.problems if problem.pod is not None]
    scope = asked.namespace if asked.is_strict and only is None else None
    wanted = [key for key in dict.fromkeys(there) if scope in (None, key[0]) and (only is None or key in only)]
    answers = decide(
        cluster,
        features=asked.features,
        budget_steps=_BUDGET_STEPS,
        config=asked.config,
        asked={*wanted[:_PODS_MAX]},
        reports_causes=True,
    )
    return AllWaiting(
        [_waiting(one) for one in answers.verdicts], len(wanted), [*map(str, loaded.problems), *answers.left_out.texts]
    )


def _waits(pod: Mapping[str, Any]) -> bool:
    from scheduler.offline import is_waiting

    return is_waiting(pod) and not pod["spec"].get("nodeName")


def _waiting(verdict: Verdict) -> Waiting:
    cause = cause_of(verdict.reason).partition(TO_MAKE_IT_FIT)[0]
    kind = _KIND.match(cause)
    text = cause[kind.end() :] if kind else cause or without_cause(verdict.reason)
    return Waiting(verdict.pod, str(verdict.outcome), kind[1] if kind else "", text, verdict.node)


def tell_all(asked: Asked, output: str, now_ms: int) -> int:
    """Print a line for each pod that waits; the exit code: 0 where all would fit."""
    with working("asking the scheduler"):
        told = ask_all(asked, now_ms)
    if output in ("table", "wide"):
        _print(told, cause_max=_CAUSE_MAX if output == "table" else None)
    else:
        print_document({"waiting": told.count, "pods": [one.document() for one in told.pods]}, output)
    for problem in told.problems:
        click.echo(caution(f"warning: {problem}"), err=True)
    return 0 if all(one.outcome in _GOOD for one in told.pods) else 1


def _print(told: AllWaiting, cause_max: int | None) -> None:
    rows = []
    for one in told.pods:
        cause = one.cause or f"fits: it would run on node {one.node}"
        cut = cause if cause_max is None or len(cause) <= cause_max else f"{cause[: cause_max - 1]}…"
        rows.append(("/".join(one.key), f"[{one.kind}]" if one.kind else f"({one.outcome})", cut))
    if rows:
        print_table(("POD", "KIND", "CAUSE"), rows)
    kinds = Counter(row[1] for row in rows).most_common()
    verb = "pod waits" if told.count == 1 else "pods wait"
    counted = f": {', '.join(f'{count} {kind}' for kind, count in kinds)}" if kinds else ""
    left = told.count - len(told.pods)
    click.echo(f"{told.count or 'no'} {verb}{counted}{f', {left} not asked about' if left > 0 else ''}")


def of_workload(asked: Asked, workload: Meant, now_ms: int) -> tuple[Key, tuple[str, ...]]:
    """Which of a workload's pods to explain, and what to say of the others: each cause once, with its pods."""
    if not workload.waiting:
        return workload.key, (f"{workload.workload}: none of its {_pods(len(workload.pods))} waits",)
    told = ask_all(asked, now_ms, workload.waiting)
    groups: dict[tuple[str, str], list[Waiting]] = {}
    for one in told.pods:
        groups.setdefault((one.kind or one.outcome, _anonymous(one)), []).append(one)
    if not groups:
        return workload.key, ()
    by_need = sorted(groups.values(), key=lambda pods: pods[0].outcome in _GOOD)
    waits = "waits" if len(workload.waiting) == 1 else "wait"
    notes = [f"{workload.workload}: {len(workload.waiting)} of its {_pods(len(workload.pods))} {waits}"]
    for pods in by_need:
        names = ", ".join(one.key[1] for one in pods[:_NAMES_MAX])
        more = f" and {len(pods) - _NAMES_MAX} more" if len(pods) > _NAMES_MAX else ""
        first = pods[0]
        cause = f"[{first.kind}] {first.cause}" if first.kind else first.cause or "would fit"
        why = "this one's cause" if pods is by_need[0] else cause
        notes.append(f"{_pods(len(pods))} of them ({names}{more}): {why}")
    return by_need[0][0].key, tuple(notes)


def _anonymous(one: Waiting) -> str:
    """The cause without the pod's name, which its own claims' names begin with; of no two pods that fit differently."""
    return re.sub(rf"\b{re.escape(one.key[1])}[-a-z0-9.]*", "*", one.cause)


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"
