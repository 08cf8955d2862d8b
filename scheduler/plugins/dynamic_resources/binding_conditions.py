"""Binding conditions: devices that must report ready before a pod may be bound to its node.

Rules of this module
  1. A claim is ready when every binding condition of every allocated device is True in `status.devices`.
  2. A failure condition that is True wins over conditions that are not True yet.
  3. The wait of a claim ends `binding_timeout_ms` after its allocation.

Not here: the consequences of a failed or late claim. It is unavailable in Filter (`plugin`), freed in PostFilter
(`deallocation`), and an error in PreBind (`binding_wait`).

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go (isClaimReadyForBinding, isClaimTimeout)
1.36.3. Differs on purpose: rule 2 holds across devices; upstream stops at the first device without a status entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from msgspec import Struct

from allocator import DeviceResult
from scheduler.model.claim import DeviceCondition, ResourceClaim
from scheduler.model.timestamps import parse_rfc3339_ms


class Readiness(Enum):
    READY = "ready"
    WAITING = "waiting"
    FAILED = "failed"


class BindingState(Struct, frozen=True):
    """Where a claim's binding conditions stand; `message` says why FAILED."""

    readiness: Readiness
    message: str = ""


_READY = BindingState(Readiness.READY)
_WAITING = BindingState(Readiness.WAITING)


def has_binding_conditions(claim: ResourceClaim) -> bool:
    """Whether any allocated device of `claim` has conditions to wait for."""
    if claim.allocation is not None:
        for result in claim.allocation.results:
            if result.binding_conditions:
                return True
    return False


def binding_state(claim: ResourceClaim) -> BindingState:
    """Compare the device conditions with what the allocation waits for. A claim without allocation: WAITING."""
    if claim.allocation is None:
        return _WAITING
    is_ready = True
    for result in claim.allocation.results:
        if not result.binding_conditions:
            continue
        true_by_type = {
            condition.type: condition for condition in _conditions_of(claim, result) if condition.status == "True"
        }
        for failure in result.binding_failure_conditions:
            if failure in true_by_type:
                condition = true_by_type[failure]
                return BindingState(
                    Readiness.FAILED,
                    f"device binding failed: claim={claim.key.name}, reason={condition.reason}, "
                    f'message="{condition.message}"',
                )
        is_ready = is_ready and all(condition in true_by_type for condition in result.binding_conditions)
    return _READY if is_ready else _WAITING


def missing_conditions(claim: ResourceClaim) -> Iterator[str]:
    """For each device that keeps a claim WAITING: driver, pool, device and the conditions that are not True."""
    for result in claim.allocation.results if claim.allocation is not None else ():
        conditions = list(_conditions_of(claim, result))
        true = {condition.type for condition in conditions if condition.status == "True"}
        missing = [condition for condition in result.binding_conditions if condition not in true]
        if missing:
            said = {one.type: f" ({one.status}: {one.message or one.reason})" for one in conditions}
            listed = ", ".join(f"{condition}{said.get(condition, '')}" for condition in missing)
            yield f"device {result.device} of pool {result.pool}, driver {result.driver}: {listed}"


def binding_deadline_ms(claim: ResourceClaim, binding_timeout_ms: int) -> int | None:
    """When waiting for `claim` ends (Unix ms); None when its allocation carries no readable timestamp."""
    started_ms = parse_rfc3339_ms(claim.allocation_timestamp) if claim.allocation_timestamp is not None else None
    return started_ms + binding_timeout_ms if started_ms is not None else None


def is_given_up(claim: ResourceClaim, binding_timeout_ms: int, now_ms: int) -> bool:
    """Whether an allocated claim failed its binding conditions, or has been waiting for them for too long."""
    state = binding_state(claim)
    if state.readiness is Readiness.WAITING:
        deadline_ms = binding_deadline_ms(claim, binding_timeout_ms)
        return deadline_ms is not None and deadline_ms <= now_ms
    return state.readiness is Readiness.FAILED


def _conditions_of(claim: ResourceClaim, result: DeviceResult) -> Iterator[DeviceCondition]:
    """Conditions of one allocated device. Share ids are not compared: drivers may leave them out."""
    return (
        condition
        for condition in claim.device_conditions
        if (condition.driver, condition.pool, condition.device) == (result.driver, result.pool, result.device)
    )
