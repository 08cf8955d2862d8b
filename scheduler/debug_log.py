"""`--log-level debug`: each scheduling attempt, what was decided, and what became of it, one line each.

    pod default/train-0: node node-3, devices gpu.example.com/node-3/gpu-1 for claim default/train-0-gpu
    #7 WriteClaimStatus default/train-0-gpu at revision 812: allocates gpu.example.com/node-3/gpu-1, reserved for …
    #7 accepted

A log in JSON has the keys to search for beside the message: `pod`, `claim`, `cycle` (the number of the scheduling cycle
in which an attempt began) and `decision` (#7).

Cost: nothing when off; the app has no `DebugLog` then, and the core takes no notes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from scheduler.core.ground.inputs import Input, WriteAccepted, WriteConflicted, WriteOutcomeUnknown, WriteRejected
from scheduler.core.ground.outbox import Note
from scheduler.framework.decisions import (
    BindPersistentVolume,
    BindPod,
    Decision,
    DeletePod,
    PatchExtendedResources,
    PatchNodeAllocatable,
    PatchPodDisruption,
    PatchPodGroupStatus,
    PatchPodStatus,
    ReadPod,
    RecordEvent,
    SelectNode,
    WriteClaimStatus,
)

log: Final = logging.getLogger(__name__)


class DebugLog:
    """Writes the lines. Only made when they are wanted."""

    def attempts(self, notes: list[Note]) -> None:
        """What the core noted; the list is emptied."""
        for note in notes:
            log.debug("pod %s: %s", note.pod, note.text, extra=fields(pod=str(note.pod), cycle=note.cycle))
        notes.clear()

    def decisions(self, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            log.debug("%s", describe(decision), extra=_about(decision))

    def answer(self, given: Input) -> None:
        match given:
            case WriteAccepted():
                said = "accepted"
            case WriteConflicted():
                said = f"conflict: {given.message}"
            case WriteRejected():
                said = f"rejected: {given.code} {given.reason}: {given.message}"
            case WriteOutcomeUnknown():
                said = f"outcome unknown: {given.message}"
            case _:
                return  # an observation
        log.debug("#%d %s", given.id, said, extra=fields(decision=given.id))


def fields(**values: str | int) -> dict[str, object]:
    """What a log in JSON has beside the message: pass it as `extra`."""
    return {"fields": values}


def _about(decision: Decision) -> dict[str, object]:
    """Which pod or claim a decision is about, and its number, with which the answer comes."""
    if isinstance(decision, RecordEvent):
        name = f"{decision.namespace}/{decision.name}"
        return fields(claim=name) if decision.kind == "ResourceClaim" else fields(pod=name)
    about = {name: str(key) for name in ("pod", "claim") if (key := getattr(decision, name, None)) is not None}
    return fields(decision=decision.id, **about)


def describe(decision: Decision) -> str:
    """One decision in a line."""
    if isinstance(decision, RecordEvent):
        about = f"{decision.kind} {decision.namespace}/{decision.name}"
        return f"event {decision.reason} about {about}: {decision.note}"
    head = f"#{decision.id} {type(decision).__name__}"
    match decision:
        case BindPod():
            return f"{head} {decision.pod} to node {decision.node}"
        case PatchPodStatus():
            node = decision.nominated_node
            nominated = f", nominated node {node or 'none'}" if node is not None else ""
            said = f": {decision.reason}: {decision.message}" if decision.reason else ""
            return f"{head} {decision.pod}{said}{nominated}"
        case PatchPodGroupStatus():
            return f"{head} {decision.group}: {decision.reason}: {decision.message}"
        case PatchExtendedResources() | PatchNodeAllocatable() | PatchPodDisruption() | DeletePod() | ReadPod():
            return f"{head} {decision.pod}"
        case BindPersistentVolume():
            return f"{head} {decision.volume} to {decision.claim}"
        case SelectNode():
            return f"{head} {decision.claim}: {decision.node}"
        case WriteClaimStatus():
            return f"{head} {decision.claim} at revision {decision.expect_revision}: {_status(decision)}"
        case _:
            return f"{head} {decision.claim}"


def _status(decision: WriteClaimStatus) -> str:
    if decision.clear_allocation:
        return "takes the allocation back"
    said = []
    if decision.allocation is not None:
        said.append(f"allocates {', '.join(map(str, decision.allocation.device_ids())) or 'nothing'}")
    if decision.reserved_for is not None:
        said.append(f"reserved for {', '.join(one.name for one in decision.reserved_for) or 'nobody'}")
    return ", ".join(said)
