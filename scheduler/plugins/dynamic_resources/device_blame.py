"""Devices that would do, and are in use, tainted, too small or not understood: which, by whom, what would help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from allocator import OPTIONAL_NODE_OPERATIONS, Device, DeviceTaint, DeviceToleration, Funnel, Stage, prevent_allocation
from cel.quantity import Quantity
from scheduler.framework.diagnosis import taint_text, toleration_text
from scheduler.model.claim import ResourceClaim
from scheduler.model.nearest import near
from scheduler.plugins.dynamic_resources.changed_claims import with_request
from scheduler.plugins.dynamic_resources.near_node import NearNode, free_of, ids_of, some_devices
from scheduler.why.reasons import Fix, Reason, plain_fix, plain_reason

_NANO: Final = 10**9


def blame_holders(found: NearNode, funnel: Funnel) -> Reason:
    """Devices that pods have."""
    name, removed = found.named(funnel.slot), funnel.step(Stage.IN_USE).removed
    devices = ids_of(funnel.devices(removed))
    holders = found.holding(devices)
    changes = (*found.fewer(funnel.slot, funnel.left), *found.ends(devices, funnel.lacks))
    about = ("in use", funnel.claim, funnel.request, tuple(devices))
    if (own := next((one for one in holders if found.is_own(one)), None)) is not None:
        which = some_devices(sorted(own.devices.intersection(devices)))
        text = f"{which}: ResourceClaim {own.claim.key}, which the pod uses too, has what {name} asks for"
        return plain_reason("own-claims-compete", text, about, changes)
    # Beside devices of pods those of claims that no pod here uses are named by themselves.
    theirs = [one for one in devices if any(one in holder.devices for holder in holders)] or devices
    what, is_one = some_devices(theirs), len(theirs) == 1
    is_named = is_one and len(holders) == 1 and found.may_name(holders[0].claim.key)
    claim = f"ResourceClaim {holders[0].claim.key}" if is_named else ""
    start, rest = f"{what} {'is' if is_one else 'are'} in use by ", free_of(funnel, name)

    def cause(pods: str) -> str:
        return f"{start}{f'{claim} ({pods})' if claim else pods or 'other claims'}{rest}"

    return plain_reason("devices-in-use", found.briefly(cause, holders), about, changes)


def blame_unread(found: NearNode, funnel: Funnel) -> Reason:
    """Devices with a field that nobody here acts on."""
    fields: dict[str, list[Device]] = {}
    for device in funnel.devices(funnel.step(Stage.UNREAD).removed):
        fields.setdefault(device.unread[0], []).append(device)
    found.cycle.charge(1)
    path, devices = max(fields.items(), key=lambda one: len(one[1]))
    has = "has" if len(devices) == 1 else "have"
    more = f" (and others have {len(fields) - 1} more)" if len(fields) > 1 else ""
    cause = (
        f"{some_devices(ids_of(devices))} {has} the field {path}, which this scheduler does not know{more}"
        f"{free_of(funnel, found.named(funnel.slot))}"
    )
    changes = found.fewer(funnel.slot, funnel.left)
    return plain_reason("field-unread", cause, ("unread", funnel.claim, funnel.request, tuple(fields)), tuple(changes))


def blame_operations(found: NearNode, funnel: Funnel) -> Reason:
    """Devices for which the kubelet is to skip calls of the driver, where it does not say that it can."""
    devices = ids_of(funnel.devices(funnel.step(Stage.OPERATIONS).removed))
    needs = "needs" if len(devices) == 1 else "need"
    cause = (
        f"{some_devices(devices)} {needs} a node that declares {OPTIONAL_NODE_OPERATIONS} (spec.skipNodeOperations of "
        f"the ResourceSlice), and node {found.node.name} does not{free_of(funnel, found.named(funnel.slot))}"
    )
    changes = found.fewer(funnel.slot, funnel.left)
    return plain_reason("devices-short", cause, ("operations", funnel.claim, funnel.request), tuple(changes))


def blame_taints(found: NearNode, funnel: Funnel) -> Reason:
    """Devices with taints that the request does not tolerate."""
    slot, removed = funnel.slot, funnel.step(Stage.TAINT).removed
    taints: dict[DeviceTaint, list[Device]] = {}
    for device in funnel.devices(removed):
        for taint in device.taints:
            if prevent_allocation((taint,), slot.details.tolerations):
                taints.setdefault(taint, []).append(device)
    texts = []
    for taint, devices in taints.items():
        found.cycle.charge(1)
        has = "has" if len(devices) == 1 else "have"
        rule = found.view.taint_rule(devices[0].id, taint)
        whose = f" of DeviceTaintRule {rule}" if rule else ""
        texts.append(f"{some_devices(ids_of(devices))} {has} the taint {taint_text(taint)}{whose}")
    more = f" (and {len(texts) - 1} more taint{'s' if len(texts) > 2 else ''})" if len(texts) > 1 else ""
    cause = f"{texts[0]}{more}, which {found.named(slot)} does not tolerate{free_of(funnel, found.named(slot))}"
    about = ("taint", funnel.claim, funnel.request, tuple(taints))
    changes = (*tolerated(found, funnel, taints), *found.fewer(slot, funnel.left))
    return plain_reason("device-tainted", cause, about, changes)


def tolerated(found: NearNode, funnel: Funnel, taints: dict[DeviceTaint, list[Device]]) -> Iterator[Fix]:
    """Tolerating one of the taints, or all of them."""
    claim = found.claim(funnel.slot)
    for some in [*([one] for one in taints), list(taints)][: len(taints) + (len(taints) > 1)]:
        if claim is None:
            return
        changed, texts = claim, []
        for taint in some:
            toleration = DeviceToleration(
                taint.key, "Equal" if taint.value else "Exists", taint.value, taint.effect, None
            )
            changed = with_request(changed, funnel.request, tolerations=toleration)
            texts.append(toleration_text(taint))
        what = f"toleration{'s' if len(some) > 1 else ''} {' and '.join(texts)}"
        yield plain_fix(
            2 + len(some) - 1,
            f"add the {what} to {found.label(funnel.slot)}, or have the taint removed",
            (found.node.name,),
            claims=(changed,),
        )


def blame_capacity(found: NearNode, funnel: Funnel) -> Reason:
    """Devices without the capacity that the request asks for, or of which others have left too little."""
    slot, name = funnel.slot, found.named(funnel.slot)
    consumed, large = funnel.step(Stage.CAPACITY).removed, funnel.step(Stage.SIZE).removed
    about = ("capacity", funnel.claim, funnel.request, tuple(slot.capacity))
    changes = tuple(_less_capacity(found, funnel))
    if not consumed:
        return plain_reason("capacity-short", _too_small(found, funnel, list(funnel.devices(large))), about, changes)
    best: tuple[int, str] = (-(1 << 200), "")
    for device, position in _with_positions(funnel, consumed):
        for what, amount, value in found.explanation.consumption(slot, position).nanos:
            left = value - found.explanation.problem.consumed(position).get(what, 0)
            if amount > left:
                whole = device.capacity[what].value
                text = (
                    f"{some_devices([device.id])} has {what} {_amount(left, whole)} left of {whole}, "
                    f"{name} takes {_amount(amount, whole)}"
                )
                best = max(best, (left - amount, f"{text}{_shared_by(found, device)}"))
    cause = best[1] or f"{some_devices(ids_of(funnel.devices(consumed)))}: others' shares leave too little for {name}"
    devices = ids_of(funnel.devices(consumed))
    return plain_reason("capacity-short", cause, about, (*changes, *found.ends(devices, funnel.lacks)))


def _shared_by(found: NearNode, device: Device) -> str:
    holders = found.holding([device.id])
    return f"; {found.pods(holders)} {'has' if len(holders) == 1 else 'have'} the rest" if holders else ""


def _with_positions(funnel: Funnel, mask: int) -> Iterator[tuple[Device, int]]:
    while mask:
        bit = mask & -mask
        mask ^= bit
        yield funnel.pools.device(bit.bit_length() - 1), bit.bit_length() - 1


def _amount(nano: int, like: Quantity) -> Quantity:
    return (
        Quantity.from_int(nano // _NANO, like.format) if nano % _NANO == 0 else Quantity(nano, -9, False, like.format)
    )


def _too_small(found: NearNode, funnel: Funnel, devices: Sequence[Device]) -> str:
    """What the devices have of what is asked for, though nobody uses them."""
    name, count = found.named(funnel.slot), len(devices)
    for what, amount in funnel.slot.capacity.items():
        having = [device for device in devices if what in device.capacity]
        if not having:
            known = sorted({other for device in devices for other in device.capacity})
            other = near(what.rpartition("/")[2], known) or next(iter(known), "")
            return f"no device of {name} has the capacity {what}; {count} {'have ' + other if other else 'have none'}"
        largest = max(having, key=lambda device: device.capacity[what].value.nano)
        if largest.capacity[what].value.nano < amount.nano:
            most = f", the most of {count} devices; {name}" if count > 1 else f", and {name}"
            return f"{some_devices([largest.id])} has {what} {largest.capacity[what].value}{most} asks for {amount}"
    texts = " and ".join(f"{what} {amount}" for what, amount in funnel.slot.capacity.items())
    return (
        f"{some_devices(ids_of(devices))}: the driver's request policy does not allow {texts or 'a share'} for {name}"
    )


def _less_capacity(found: NearNode, funnel: Funnel) -> Iterator[Fix]:
    """What devices have, and what is left of it beside what others consume, the most first."""
    claim, slot = found.claim(funnel.slot), funnel.slot
    requests = slot.details.capacity_requests or ()
    for place, (name, amount) in enumerate(requests if claim is not None else ()):
        left: set[int] = set()
        for device, position in _with_positions(funnel, funnel.before(Stage.SIZE)):
            if (capacity := device.capacity.get(name)) is not None:
                consumed = found.explanation.problem.consumed(position).get(name, 0)
                left |= {capacity.value.nano, capacity.value.nano - consumed}
        fewer = sorted((nano for nano in left if 0 < nano < amount.nano), reverse=True)
        for less in [Quantity.from_int(nano // _NANO, amount.format) for nano in fewer[: found.limits.counts]]:
            yield _asking(found, funnel, claim, (*requests[:place], (name, less), *requests[place + 1 :]), name, amount)


def _asking(  # noqa: PLR0917
    found: NearNode,
    funnel: Funnel,
    claim: ResourceClaim | None,
    requests: tuple[tuple[str, Quantity], ...],
    name: str,
    amount: Quantity,
) -> Fix:
    assert claim is not None
    return plain_fix(
        3,
        f"ask for {name} {dict(requests)[name]} instead of {amount} in {found.label(funnel.slot)}",
        (found.node.name,),
        claims=(with_request(claim, funnel.request, capacity_requests=requests),),
    )
