"""What a person reads of a pod that does not fit: the cause in the first line, what to do in the second.

Rules of this module
  1. The first line is the pod, the kind of the cause in brackets, and at most `CAUSE_MAX` characters of the cause,
     which begins with the object that makes it so.
  2. The second line is a command where there is one; else what to do, and what cannot be edited in place.
  3. What a controller made is not edited: its owner is.
  4. The scheduler's own sentence is said once.

Not here: which change helps (`fix_search`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from scheduler.embedded.loading import is_from_a_server
from scheduler.explain.asked_objects import Objects
from scheduler.explain.fix_search import Found
from scheduler.explain.fix_search import Step as Fix
from scheduler.explain.object_edits import ObjectEdit
from scheduler.explain.pod_explanation import Explanation, SelectorFailure, Step
from scheduler.explain.world import Ruling
from scheduler.framework.diagnosis import Fix as PluginChange
from scheduler.framework.diagnosis import edited_object, without_cause
from scheduler.offline import PodResult

CAUSE_MAX: Final = 160
_CUT: Final = "…"
_MADE: Final = re.compile(r"ResourceClaim ([^\s/]+)/\S+ \(made from template ([^\s)]+)\)")
_POD_IN_PLACE: Final = "add the toleration"
"""Tolerations may be added to a pod that is there, which lets nothing else be edited."""
_ANEW: Final = {
    "pod": "; make the pod anew, as this field cannot be edited",
    "job": "; make the job anew, as its template cannot be edited",
}
_CLAIM_STATUS: Final = ("claim-full", "claim-pinned")
"""Here the claim's status changes, not what it asks for."""


def explanation_of(found: Found, ruling: Ruling, objects: Objects, failures: Sequence[SelectorFailure]) -> Explanation:
    """All but nodes and notes."""
    assert ruling.verdict is not None
    verdict, steps = ruling.verdict, tuple(_steps(found.steps, ruling, objects))
    kind, cause = _cause(found, ruling, failures)
    cause = _by_template(cause)
    waits = "does not start yet" if verdict.outcome is PodResult.WAITS else "does not fit"
    message = without_cause(verdict.reason)
    commands = [step.command for step in steps]
    advice = "; then ".join(step.change for step in steps)
    anew = "".join(dict.fromkeys(_made_anew(objects, found.steps)))
    return Explanation(
        subject=f"pod/{'/'.join(objects.world.pod)}",
        fits=False,
        outcome=verdict.outcome.value,
        node=verdict.node or None,
        message="" if message in cause else message,
        kind=kind,
        cause=cause,
        objects=tuple(dict.fromkeys(one for step in steps for one in step.objects)),
        verdict=f"pod {'/'.join(objects.world.pod)} {waits} [{kind}]: {cut(cause)}",
        advice=f"to make it fit: {advice}{anew}" if steps else _nothing(found, kind),
        command=" && ".join(commands) if commands and all(commands) else "",
        changes=steps,
        also=tuple(_steps(found.also, ruling, objects)),
        questions=found.asked,
        exhausted=found.is_exhausted,
        failures=tuple(failures),
    )


def cut(cause: str) -> str:
    """At most `CAUSE_MAX` characters of it, whole words."""
    if len(cause) <= CAUSE_MAX:
        return cause
    return cause[: CAUSE_MAX - len(_CUT) + 1].rpartition(" ")[0].rstrip(",;:") + _CUT


def _cause(found: Found, ruling: Ruling, failures: Sequence[SelectorFailure]) -> tuple[str, str]:
    """Kind and cause: of the changes that help, else what the plugins say, else what the scheduler does."""
    assert ruling.verdict is not None
    failing = [f"{one.of}: the selector fails for device {one.device}: {one.message}" for one in failures]
    problem = ruling.loaded.claim_problems.get(ruling.verdict.uid)
    # A claim that the API server refuses is not merely missing.
    if problem is not None and (not found.steps or found.steps[0].kind == "claim-missing"):
        return "claim-not-made", f"its ResourceClaim cannot be made: {problem}"
    if found.steps:
        return found.steps[0].kind, "; and then ".join(step.cause for step in found.steps)
    if found.why is not None:
        return found.why.kind, found.why.cause
    if failing:
        return "selector-error", failing[0]
    kind = "pod-refused" if ruling.verdict.outcome is PodResult.REFUSED else "unexplained"
    return kind, without_cause(ruling.verdict.reason)


def _by_template(text: str) -> str:
    """A claim that was made from a template by the template's name, which is what a person edits."""
    return _MADE.sub(r"ResourceClaimTemplate \1/\2", text)


def _nothing(found: Found, kind: str) -> str:
    if not found.asked and not found.is_exhausted:
        if kind == "pod-refused":
            return "correct what the API server refuses; the scheduler cannot help"
        return "no change is known here that could help"
    tried = f"{found.asked} {'change' if found.asked == 1 else 'changes'}"
    if found.is_exhausted:
        return f"no change found: the budget is used up after {tried}"
    return f"no change found: {tried} {'was' if found.asked == 1 else 'were'} tried, alone and two together"


def _steps(changes: Sequence[Fix], ruling: Ruling, objects: Objects) -> Iterator[Step]:
    for one in changes:
        if isinstance(one, ObjectEdit):
            yield Step(kind=one.kind, cause=one.cause, change=one.text, command=one.command, objects=one.objects)
            continue
        command = one.command or (_editing(one) if is_from_a_server(objects.pod) else "")
        text = _by_template(one.text)
        text = text if command in text else f"{text}: {command}"
        cause, about = _by_template(one.cause), tuple(_objects(one, ruling))
        yield Step(kind=one.kind, cause=cause, change=text, command=command, objects=about)


def _objects(change: PluginChange, ruling: Ruling) -> Iterator[str]:
    pods, template = ruling.answers.machine.store.pods, _template(change)
    yield from (f"resourceclaim/{one.key}" for one in change.claims if not template)
    if template:
        yield f"resourceclaimtemplate/{'/'.join(template)}"
    yield from (f"pod/{pods[uid].key}" for uid in change.removed if uid in pods)
    if change.node is not None:
        yield f"node/{change.node.name}"
    if change.pod is not None:
        yield edited_object(change.pod).replace(" ", "/")


def _template(change: PluginChange) -> tuple[str, str] | None:
    """Namespace and name of what the claim was made from."""
    found = _MADE.search(change.text) if change.claims else None
    return (found[1], found[2]) if found else None


def _editing(change: PluginChange) -> str:
    """What opens the object whose pods or claims are otherwise made alike: a controller's, or a template."""
    if template := _template(change):
        return shlex.join(("kubectl", "edit", f"resourceclaimtemplate/{template[1]}", "-n", template[0]))
    kind, _, key = edited_object(change.pod).partition(" ") if change.pod is not None else ("pod", "", "")
    namespace, _, name = key.partition("/")
    return shlex.join(("kubectl", "edit", f"{kind}/{name}", "-n", namespace)) if kind not in ("pod", "job") else ""


def _made_anew(objects: Objects, changes: Sequence[Fix]) -> Iterator[str]:
    """What the API server would not let anybody edit in place; of what is in a file there is nothing to say."""
    stored = is_from_a_server(objects.pod)
    for one in changes:
        if isinstance(one, ObjectEdit):
            if one.kind == "priority-class-missing" and stored:
                yield _ANEW["pod"]
            continue
        if _template(one) and stored:
            yield "; then make the pod anew"
        elif one.kind not in _CLAIM_STATUS and any(_is_stored(claim.key, objects) for claim in one.claims):
            yield "; make the claim anew, as its spec cannot be edited"
        if one.pod is not None and stored and not one.text.startswith(_POD_IN_PLACE):
            yield _ANEW.get(edited_object(one.pod).partition(" ")[0], "")


def _is_stored(key: tuple[str, str], objects: Objects) -> bool:
    found = objects.find("ResourceClaim", key[1], key[0])
    return found is not None and is_from_a_server(found[1])
