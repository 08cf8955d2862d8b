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

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import structs

from scheduler.embedded.loading import is_from_a_server
from scheduler.explain.asked_objects import Objects
from scheduler.explain.pod_explanation import Explanation, SelectorFailure, Step
from scheduler.explain.world import Ruling
from scheduler.framework.diagnosis import without_cause
from scheduler.model.claim import template_of
from scheduler.model.keys import PodUid
from scheduler.model.owners import edited_object
from scheduler.offline import PodResult
from scheduler.why.reasons import MAKING_ROOM, NOTHING_TO_DO, Diagnosis, Fix, Reason
from scheduler.why.say import EVERYBODY

CAUSE_MAX: Final = 160
_CUT: Final = "…"
_POD_IN_PLACE: Final = ("toleration-added", "gate-removed")
"""What may be done to a pod that is there, which lets nothing else be edited."""
ANEW: Final = {
    "pod": "; make the pod anew, as this field cannot be edited",
    "job": "; make the job anew, as its template cannot be edited",
}
_CLAIM_STATUS: Final = ("claim-full", "claim-pinned")
"""Here the claim's status changes, not what it asks for."""


def explanation_of(
    found: Diagnosis, ruling: Ruling, objects: Objects, failures: Sequence[SelectorFailure]
) -> tuple[Explanation, Diagnosis]:
    """All but nodes and notes, and the reasons as values."""
    assert ruling.verdict is not None
    verdict, steps = ruling.verdict, tuple(_steps(found.fixes, ruling, objects))
    why = _why(found, ruling, failures)
    kind, cause = why.kind, why.cause(EVERYBODY)
    waits = "does not start yet" if verdict.outcome is PodResult.WAITS else "does not fit"
    message = without_cause(verdict.reason)
    commands = [step.command for step in steps]
    advice = "; then ".join(step.change for step in steps)
    anew = "".join(dict.fromkeys(_made_anew(objects, ruling, found.fixes)))
    answer = Explanation(
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
    return answer, why


def cut(cause: str) -> str:
    """At most `CAUSE_MAX` characters of it, whole words."""
    if len(cause) <= CAUSE_MAX:
        return cause
    return cause[: CAUSE_MAX - len(_CUT) + 1].rpartition(" ")[0].rstrip(",;:") + _CUT


def _why(found: Diagnosis, ruling: Ruling, failures: Sequence[SelectorFailure]) -> Diagnosis:
    """What was found; where plugins say nothing, what the scheduler does."""
    assert ruling.verdict is not None
    problem = ruling.loaded.claim_problems.get(ruling.verdict.uid)
    # A claim that the API server refuses is not merely missing.
    if problem is not None and (not found.fixes or found.kind == "claim-missing"):
        return structs.replace(found, reasons=(Reason("claim-not-made", {"problem": problem}, "refused"),), fixes=())
    if found.decisive:
        return found
    reason = Reason(
        "pod-refused" if ruling.verdict.outcome is PodResult.REFUSED else "unexplained",
        {"message": without_cause(ruling.verdict.reason)},
    )
    if failures:
        first = failures[0]
        fields = {"owner": first.of, "device": first.device, "error": first.message}
        reason = Reason("selector-error", fields, "fails")
    return structs.replace(found, reasons=(reason,))


def kind_of(outcome: PodResult) -> str:
    """The kind of a cause of which only the scheduler's sentence is known."""
    return {PodResult.GATED: "scheduling-gate", PodResult.REFUSED: "pod-refused"}.get(outcome, "unexplained")


def unserved(scheduler: str, known: str) -> Step:
    """That nobody seems to look at a pod that names this scheduler, and what to write."""
    reason = Reason("scheduler-unknown", {"scheduler": scheduler, "meant": known})
    change = Fix("scheduler-name", reason.fields).text(EVERYBODY)
    return Step(kind=reason.kind, cause=reason.text(EVERYBODY), change=change)


def _nothing(found: Diagnosis, kind: str) -> str:
    if kind == MAKING_ROOM:
        return NOTHING_TO_DO
    if not found.asked and not found.is_exhausted:
        if kind == "pod-refused":
            return "correct what the API server refuses; the scheduler cannot help"
        return "no change is known here that could help"
    tried = f"{found.asked} {'change' if found.asked == 1 else 'changes'}"
    if found.is_exhausted:
        return f"no change found: the budget is used up after {tried}"
    return f"no change found: {tried} {'was' if found.asked == 1 else 'were'} tried, alone and two together"


def _steps(fixes: Sequence[Fix], ruling: Ruling, objects: Objects) -> Iterator[Step]:
    for one in fixes:
        assert one.reason is not None
        reason, text = one.reason, one.text(EVERYBODY)
        template = _template(one, ruling)
        command = one.command or (_editing(one, template) if is_from_a_server(objects.pod) and not one.objects else "")
        text = text if command in text else f"{text}: {command}"
        about = one.objects or tuple(_objects(one, ruling, template))
        yield Step(kind=reason.kind, cause=reason.text(EVERYBODY), change=text, command=command, objects=about)


def _objects(fix: Fix, ruling: Ruling, template: str) -> Iterator[str]:
    pods = ruling.answers.machine.store.pods
    if template:
        yield f"resourceclaimtemplate/{fix.claims[0].key.namespace}/{template}"
    else:
        yield from (f"resourceclaim/{one.key}" for one in fix.claims)
    yield from (f"pod/{pods[uid].key}" for uid in fix.removed if uid in pods)
    if fix.node is not None:
        yield f"node/{fix.node.name}"
    if fix.pod is not None:
        yield edited_object(fix.pod).replace(" ", "/")


def _template(fix: Fix, ruling: Ruling) -> str:
    """What the claim was made from, "" where it was not."""
    assert ruling.verdict is not None
    pod = ruling.answers.machine.store.pods.get(PodUid(ruling.verdict.uid))
    return template_of(fix.claims[0], pod) if fix.claims and pod is not None else ""


def _editing(fix: Fix, template: str) -> str:
    """What opens the object whose pods or claims are otherwise made alike: a controller's, or a template."""
    if template:
        return shlex.join(("kubectl", "edit", f"resourceclaimtemplate/{template}", "-n", fix.claims[0].key.namespace))
    kind, _, key = edited_object(fix.pod).partition(" ") if fix.pod is not None else ("pod", "", "")
    namespace, _, name = key.partition("/")
    return shlex.join(("kubectl", "edit", f"{kind}/{name}", "-n", namespace)) if kind not in ("pod", "job") else ""


def _made_anew(objects: Objects, ruling: Ruling, fixes: Sequence[Fix]) -> Iterator[str]:
    """What the API server would not let anybody edit in place; of what is in a file there is nothing to say."""
    stored = is_from_a_server(objects.pod)
    for one in fixes:
        kind = one.reason.kind if one.reason is not None else ""
        if one.edits:
            if kind == "priority-class-missing" and stored:
                yield ANEW["pod"]
            continue
        if _template(one, ruling) and stored:
            yield "; then make the pod anew"
        elif kind not in _CLAIM_STATUS and any(_is_stored(claim.key, objects) for claim in one.claims):
            yield "; make the claim anew, as its spec cannot be edited"
        if one.pod is not None and stored and one.kind not in _POD_IN_PLACE:
            yield ANEW.get(edited_object(one.pod).partition(" ")[0], "")


def _is_stored(key: tuple[str, str], objects: Objects) -> bool:
    found = objects.find("ResourceClaim", key[1], key[0])
    return found is not None and is_from_a_server(found[1])
