"""The wait for binding conditions in PreBind: when it ends, how, and which events report it.

Rules of this module
  1. An attempt whose claims have binding conditions ends its wait exactly once, as success, failure, timeout or error.
     An event on the pod reports the end, and carries the measurement for the metrics.
  2. The wait begins when PreBind has nothing left to write, and lasts at most the timeout. For each claim the timeout
     counts from its allocation, too.

Not here: what a claim's conditions are (`binding_conditions`); that its devices are given up then (`pre_filter`).

Source: dynamicresources.go (PreBind, from "BindingConditionsPending" on) and pkg/scheduler/metrics 1.36.3. Differs on
purpose: upstream records an event for the beginning only, and also for a wait that is over at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from scheduler.framework.api import PRE_BIND_DONE, PreBindDone, PreBindFailed, PreBindStep, PreBindWait
from scheduler.framework.cycle import Cycle
from scheduler.framework.decisions import BindingWait, RecordEvent, WaitStatus
from scheduler.framework.diagnosis import with_cause
from scheduler.framework.status import Status
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import NodeName
from scheduler.plugins.dynamic_resources.binding_conditions import (
    Readiness,
    binding_deadline_ms,
    binding_state,
    has_binding_conditions,
    missing_conditions,
)
from scheduler.why.reasons import Diagnosis, Fix, Reason
from scheduler.why.say import EVERYBODY

# The reason of the event that begins the wait, and of the pod's condition. Not "Unschedulable": the cluster autoscaler
# adds nodes for pods with that reason, and this pod has a node. Not "SchedulerError": nothing is wrong. Upstream leaves
# the condition as it was, so on the first attempt there is none.
PENDING: Final = "BindingConditionsPending"
_NAMED_MAX: Final = 4


class BindingWaitState(Struct):
    """A wait for binding conditions.

    Attributes:
        since_ms: When PreBind began to wait.
        drivers: The driver of each device it began to wait for.
        has_ended: An event has reported the wait's end.
    """

    since_ms: int
    drivers: tuple[str, ...]
    has_ended: bool = False


def await_binding_conditions(
    stored: Sequence[ResourceClaim], cycle: Cycle, node: NodeName, *, timeout_ms: int
) -> PreBindStep:
    """The next step of a pod whose claims are all `stored`: go on waiting, give up, or done."""
    conditioned = [claim for claim in stored if has_binding_conditions(claim)]
    if not conditioned:
        return PRE_BIND_DONE
    waiting: list[ResourceClaim] = []
    for claim in conditioned:
        state = binding_state(claim)
        if state.readiness is Readiness.FAILED:
            return PreBindFailed(
                Status.error(state.message), _end(cycle, node, "failure", conditioned, message=state.message)
            )
        if state.readiness is Readiness.WAITING:
            waiting.append(claim)
    if not waiting:
        return PreBindDone(_end(cycle, node, "success", conditioned))
    begun: tuple[RecordEvent, ...] = ()
    wait = cycle.find(BindingWaitState)
    if wait is None:
        wait = BindingWaitState(cycle.now_ms, _drivers(conditioned))
        cycle.put(wait)
        sentence = f"waiting for binding conditions for device on node {node}"
        found = awaited(waiting)
        note = with_cause(sentence, found.text(EVERYBODY) if found is not None else "")
        begun = (_event(cycle, "Normal", PENDING, note),)
    wait.since_ms = min(wait.since_ms, cycle.now_ms)  # set back, the clock begins the wait anew
    overall_ms = wait.since_ms + timeout_ms
    deadlines_ms = [binding_deadline_ms(claim, timeout_ms) or overall_ms for claim in waiting]
    for claim, deadline_ms in zip(waiting, deadlines_ms, strict=True):
        if min(deadline_ms, overall_ms) <= cycle.now_ms:
            message = f"device binding timeout: claim={claim.key.name}"
            return PreBindFailed(Status.error(message), _end(cycle, node, "timeout", conditioned, message=message))
    return PreBindWait(
        min(*deadlines_ms, overall_ms), tuple(claim.key for claim in waiting), begun, PENDING, _message(waiting, node)
    )


def _message(waiting: Iterable[ResourceClaim], node: NodeName) -> str:
    missing = [f"claim {claim.key.name}, {text}" for claim in waiting for text in missing_conditions(claim)]
    more = f"; and {len(missing) - _NAMED_MAX} more devices" if len(missing) > _NAMED_MAX else ""
    return f"waiting on node {node} for drivers to set binding conditions: {'; '.join(missing[:_NAMED_MAX])}{more}"


def awaited(claims: Iterable[ResourceClaim]) -> Diagnosis | None:
    """What has to happen before a pod with these claims is bound. Nothing needs to be tried: the wait is for that."""
    for claim in claims:
        for text in missing_conditions(claim):
            device, _, condition = text.partition(": ")
            fields = {"claim": claim.key, "condition": condition, "device": device, "driver": "", "failed": ""}
            reason = Reason("binding-condition-unset", fields)
            return Diagnosis((reason,), (Fix("condition-set", fields, (), reason=reason),))
    return None


def broken_off(cycle: Cycle, node: NodeName, message: str) -> tuple[RecordEvent, ...]:
    """The event that reports a lost claim: a wait, if there was one, ended in an error."""
    return () if cycle.find(BindingWaitState) is None else _end(cycle, node, "error", (), message=message)


def _end(
    cycle: Cycle, node: NodeName, status: WaitStatus, claims: Iterable[ResourceClaim], *, message: str = ""
) -> tuple[RecordEvent, ...]:
    """The event of the wait's end; nothing when an earlier one has reported it."""
    drivers = _drivers(claims)
    wait = cycle.find(BindingWaitState) or BindingWaitState(cycle.now_ms, drivers)
    if wait.has_ended:
        return ()
    wait.has_ended = True
    cycle.put(wait)
    waited_ms = max(0, cycle.now_ms - wait.since_ms)
    measured = BindingWait(cycle.pod.spec.scheduler_name, drivers or wait.drivers, status, waited_ms)
    after = f"on node {node} after {waited_ms / 1000:.1f} s"
    if status == "success":
        return (_event(cycle, "Normal", "BindingConditionsMet", f"binding conditions met {after}", measured),)
    reason = {"failure": "BindingConditionsFailed", "timeout": "BindingConditionsTimeout"}
    return (_event(cycle, "Warning", reason.get(status, "BindingConditionsError"), f"{message} ({after})", measured),)


def _drivers(claims: Iterable[ResourceClaim]) -> tuple[str, ...]:
    """The driver of each device with binding conditions."""
    return tuple(
        result.driver
        for claim in claims
        if claim.allocation is not None
        for result in claim.allocation.results
        if result.binding_conditions
    )


def _event(cycle: Cycle, type_: str, reason: str, note: str, measured: BindingWait | None = None) -> RecordEvent:
    meta = cycle.pod.metadata
    reporter = cycle.pod.spec.scheduler_name
    return RecordEvent(
        "Pod", meta.namespace, meta.name, meta.uid, type_, reason, "Scheduling", note, measured, reporter
    )
