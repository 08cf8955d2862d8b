"""Devices that would do, and are in use, tainted, too small or not understood: which, by whom, what would help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import structs

from allocator import OPTIONAL_NODE_OPERATIONS, Device, DeviceTaint, DeviceToleration, Funnel, Stage, prevent_allocation
from allocator.requests.requests import Slot
from allocator.values.masks import positions_of
from cel.quantity import Quantity
from scheduler.framework.diagnosis import taint_text, toleration_text
from scheduler.framework.two_stacks import stacks_seen
from scheduler.model.nearest import near
from scheduler.model.owners import is_rolled_out
from scheduler.model.resources import counted_amounts
from scheduler.plugins.dynamic_resources.near_node import NearNode, ids_of, listed
from scheduler.plugins.dynamic_resources.selector_reasons import of_class
from scheduler.plugins.dynamic_resources.survey import Requests, Survey
from scheduler.why.reasons import Fix, Reason
from scheduler.why.say import Pods, names

_NANO: Final = 10**9


def diagnose_holders(found: NearNode, funnel: Funnel) -> Reason:
    """Devices that pods have."""
    step = funnel.step(Stage.IN_USE)
    devices = ids_of(funnel.devices(step.removed))
    holders, facts = found.holding(devices), found.facts(funnel, Stage.IN_USE)
    fixes = (*found.fewer(funnel.slot, funnel.left), *found.ends(devices, funnel.lacks))
    if (left_alone := _left_alone(found, funnel, fixes)) is not None:
        return left_alone
    if (own := next((one for one in holders if found.is_own(one)), None)) is not None:
        which = listed(sorted(own.devices.intersection(devices)))
        return Reason("own-claims-compete", {**facts, "devices": which, "claim": own.claim.key}, "allocated", fixes)
    theirs = [one for one in holders if not found.is_planned(one)]
    if holders and not theirs:
        planned = {**facts, "count": len(devices), "devices": listed(devices)}
        return Reason("devices-in-use", planned, "planned", fixes)
    if holders and all(map(found.is_siblings, holders)):
        form = "rollout" if all(found.is_siblings(one, is_rolled_out) for one in holders) else "siblings"
        fields = {**facts, "devices": names(listed(devices), 1), "pods": found.users(devices), "owner": found.owner}
        return Reason("devices-in-use", fields, form, fixes)
    # Beside devices of pods those of claims that no pod here uses are named by themselves.
    used = [one for one in devices if any(one in holder.devices for holder in theirs)] or devices
    claim = found.own_claim(theirs) if len(used) == 1 else ""
    fields = {**facts, "devices": listed(used), "claim": claim, "pods": found.users(used)}
    return Reason("devices-in-use", fields, "claim" if claim else "", fixes)


def _left_alone(found: NearNode, funnel: Funnel, fixes: tuple[Fix, ...]) -> Reason | None:
    """Devices that the node's device plugin may have given."""
    node, taken = found.node, funnel.step(Stage.IN_USE).removed
    for one in stacks_seen(node, found.view, found.cycle) or ():
        if left := one.left_alone & taken & ~one.used:
            fields = {"resource": one.resource, "total": one.total, "held": one.held}
            fields["devices"] = listed(ids_of(funnel.devices(left)))
            allocatable = {**(node.node.status.allocatable or {}), one.resource: "0"}
            plain = structs.replace(node.node, status=structs.replace(node.node.status, allocatable=allocatable))
            pods = [pod for pod in node.pods.values() if one.held and one.resource in counted_amounts(pod).requests]
            said = {"resource": one.resource, "node": node.name, "pods": Pods.of(pods) if pods else ""}
            gone = tuple([pod.uid for pod in pods])
            fix = Fix("plugin-removed", said, found.on, node=plain, removed=gone)
            form = "leave" if one.mode == "leave" else ""
            return Reason("two-stacks", {**found.facts(funnel, Stage.IN_USE), **fields}, form, (fix, *fixes))
    return None


def diagnose_unread(found: NearNode, funnel: Funnel) -> Reason:
    """Devices with a field that nobody here acts on."""
    by_path: dict[str, list[Device]] = {}
    for device in funnel.devices(funnel.step(Stage.UNREAD).removed):
        by_path.setdefault(device.unread[0], []).append(device)
    found.cycle.charge(1)
    path, devices = max(by_path.items(), key=lambda one: len(one[1]))
    fields = {**found.facts(funnel), "devices": listed(ids_of(devices)), "path": path, "more": len(by_path) - 1}
    return Reason("field-unread", fields, "devices", tuple(found.fewer(funnel.slot, funnel.left)))


def diagnose_features(found: NearNode, funnel: Funnel) -> Reason:
    """Devices that nobody is given where a feature gate is off."""
    devices = list(funnel.devices(funnel.step(Stage.FEATURE).removed))
    is_bound = devices[0].binding_conditions and not found.view.features.device_binding_and_status
    gate = "DRADeviceBindingConditions" if is_bound else "DRAPartitionableDevices"
    fields = {**found.facts(funnel), "devices": listed(ids_of(devices)), "gate": gate}
    return Reason("devices-short", fields, "gate", tuple(found.fewer(funnel.slot, funnel.left, even_all=True)))


def diagnose_operations(found: NearNode, funnel: Funnel) -> Reason:
    """Devices for which the kubelet is to skip calls of the driver, where it does not say that it can."""
    devices = listed(ids_of(funnel.devices(funnel.step(Stage.OPERATIONS).removed)))
    fields = {**found.facts(funnel), "devices": devices, "feature": OPTIONAL_NODE_OPERATIONS}
    return Reason("devices-short", fields, "operations", tuple(found.fewer(funnel.slot, funnel.left)))


def diagnose_taints(found: NearNode, funnel: Funnel) -> Reason:
    """Devices with taints that the request does not tolerate."""
    slot = funnel.slot
    taints: dict[DeviceTaint, list[Device]] = {}
    for device in funnel.devices(funnel.step(Stage.TAINT).removed):
        for taint in device.taints:
            if prevent_allocation((taint,), slot.details.tolerations):
                taints.setdefault(taint, []).append(device)
    found.cycle.charge(len(taints))
    taint, devices = next(iter(taints.items()))
    fields = {
        **found.facts(funnel, Stage.TAINT),
        "devices": listed(ids_of(devices)),
        "taint": taint_text(taint),
        "rule": found.view.taint_rule(devices[0].id, taint),
        "more": len(taints) - 1,
    }
    fixes = (*_tolerated(found, funnel, list(taints)), *found.fewer(slot, funnel.left))
    return Reason("device-tainted", fields, "", fixes)


def _tolerated(found: NearNode, funnel: Funnel, taints: Sequence[DeviceTaint]) -> Iterator[Fix]:
    """Tolerating one of the taints, or all of them."""
    slot = funnel.slot
    for some in [*([one] for one in taints), *([taints] if len(taints) > 1 else ())]:
        tolerations = [*slot.details.tolerations]
        for one in some:
            operator = "Equal" if one.value else "Exists"
            tolerations.append(DeviceToleration(one.key, operator, one.value, one.effect, None))
        fields = {"tolerations": names(map(toleration_text, some), len(some))}
        more, changed = len(some) - 1, tuple(tolerations)
        yield from found.asking(slot, "tolerate-device-taint", fields, more, tolerations=changed)


def diagnose_capacity(found: NearNode, funnel: Funnel) -> Reason:
    """Devices without the capacity that the request asks for, or of which others have left too little."""
    slot, consumed = funnel.slot, funnel.step(Stage.CAPACITY).removed
    facts, fixes = found.facts(funnel), tuple(less_capacity(found, funnel))
    if not consumed:
        return _too_small(found, funnel, list(funnel.devices(funnel.step(Stage.SIZE).removed)), fixes)
    devices = ids_of(funnel.devices(consumed))
    fixes = (*fixes, *found.ends(devices, funnel.lacks))
    short = [
        (value - found.explanation.problem.consumed(position).get(name, 0), takes, position, name)
        for position in positions_of(consumed)
        for name, takes, value in found.explanation.consumption(slot, position).nanos
    ]
    left, takes, position, name = max(short, key=lambda one: (one[0] < one[1], one[0] - one[1]), default=(0, 0, 0, ""))
    if left >= takes:
        return Reason("capacity-short", {**facts, "devices": listed(devices)}, "shares-of-others", fixes)
    device = funnel.pools.device(position)
    whole = device.capacity[name].value
    pods = found.pods(found.holding([device.id]))
    fields = {"device": listed([device.id]), "capacity": name, "takes": _amount(takes, whole), "pods": pods}
    form = "consumed" if name in dict(slot.details.capacity_requests or ()) else "not-asked-for"
    return Reason("capacity-short", {**facts, **fields, "free": _amount(left, whole), "whole": whole}, form, fixes)


def _amount(nano: int, like: Quantity) -> Quantity:
    whole, part = divmod(nano, _NANO)
    return Quantity(nano, -9, False, like.format) if part else Quantity.from_int(whole, like.format)


def _too_small(found: NearNode, funnel: Funnel, devices: Sequence[Device], fixes: tuple[Fix, ...]) -> Reason:
    """What the devices have of what is asked for, though nobody uses them."""
    facts = {**found.facts(funnel), "count": len(devices)}
    for what, amount in funnel.slot.capacity.items():
        having = [device for device in devices if what in device.capacity]
        fields = {"capacity": what, "takes": amount}
        if not having:
            known = sorted({other for device in devices for other in device.capacity})
            other = near(what.rpartition("/")[2], known) or next(iter(known), "none")
            return Reason("capacity-short", {**facts, **fields, "other": other}, "missing", fixes)
        largest = max(having, key=lambda device: device.capacity[what].value.nano)
        whole = largest.capacity[what].value
        if whole.nano < amount.nano:
            form = "small" if len(devices) == 1 else "largest"
            return Reason(
                "capacity-short", {**facts, **fields, "device": listed([largest.id]), "whole": whole}, form, fixes
            )
    fields = {"devices": listed(ids_of(devices)), "asked": share_of(funnel.slot)}
    for what, amount in funnel.slot.capacity.items():
        for some, is_range in (_allowed(device, what) for device in devices):
            if some and some[-1].nano < amount.nano:
                fields |= {"least": some[0], "most": some[-1]} if is_range else {"allowed": some}
    return Reason("capacity-short", {**facts, **fields}, "policy", fixes)


def share_of(slot: Slot) -> str:
    """What the request asks for of a device that is shared."""
    return " and ".join(f"{what} {amount}" for what, amount in slot.capacity.items()) or "a share"


def _allowed(device: Device, what: str) -> tuple[Sequence[Quantity], bool]:
    """The amounts of a capacity that its request policy allows; or, then True, the ends of their range."""
    capacity = device.capacity.get(what)
    if capacity is None or (policy := capacity.policy) is None:
        return (), False
    if (ends := policy.valid_range) is not None:
        return [one for one in (ends.min, ends.max) if one is not None], True
    return policy.valid_values, False


def less_capacity(found: NearNode, funnel: Funnel, beside: Sequence[Slot] = ()) -> Iterator[Fix]:
    """What devices have, what others and the shares of requests `beside` it leave, what policies allow: most first."""
    slot = funnel.slot
    requests = dict(slot.details.capacity_requests or ())
    for name, amount in requests.items():
        left: set[int] = set()
        others = sum(one.count * one.capacity[name].nano for one in beside if one is not slot and name in one.capacity)
        for position in positions_of(funnel.before(Stage.SIZE)):
            device = funnel.pools.device(position)
            if (capacity := device.capacity.get(name)) is not None:
                left |= {one.nano for one in _allowed(device, name)[0]}
                consumed = found.explanation.problem.consumed(position).get(name, 0)
                left |= {capacity.value.nano, (free := capacity.value.nano - consumed), free - others}
        fewer = sorted((nano for nano in left if 0 < nano < amount.nano), reverse=True)
        for less in [Quantity.from_int(nano // _NANO, amount.format) for nano in fewer[: found.limits.counts]]:
            yield from _asking_for_less(found, slot, name, less)


def diagnose_unrounded(looked: Survey) -> Iterator[Reason]:
    """Amounts so far beyond what devices have that no node can be decided about."""
    for slot in looked.plan.slots:
        having = of_class(looked, slot)
        for name, amount in slot.details.capacity_requests or ():
            sizes = [(one.capacity[name].value, one.id) for one in having if name in one.capacity]
            whole, device = max(sizes, key=lambda one: one[0].nano, default=(amount, None))
            if device is None or whole.nano >= amount.nano:
                continue
            fields: dict[str, object] = {"of": (slot.claim, slot.label), "request": looked.named(slot)}
            fields |= {"capacity": name, "whole": whole, "count": len(sizes), "takes": amount}
            fields["device"] = listed([device])
            fixes = tuple(_asking_for_less(looked, slot, name, whole))
            yield Reason("capacity-short", fields, "small" if len(sizes) == 1 else "largest", fixes)


def _asking_for_less(looked: Requests, slot: Slot, name: str, less: Quantity) -> Iterator[Fix]:
    asked = dict(slot.details.capacity_requests or ())
    fields, changed = {"capacity": name, "less": less, "instead": asked[name]}, {**asked, name: less}
    return looked.asking(slot, "ask-for-less", fields, capacity_requests=tuple(changed.items()))
