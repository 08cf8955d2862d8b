"""Requests of a pod that have enough devices each by itself, and not together: what they are all short of."""

from __future__ import annotations

from msgspec import structs

from allocator import Stage
from allocator.answers.together import Competing, CountersShort, GroupsApart, SharesShort
from scheduler.plugins.dynamic_resources.constraint_reasons import diagnose_unsolved
from scheduler.plugins.dynamic_resources.counter_reasons import diagnose_apart, diagnose_overdrawn, diagnose_together
from scheduler.plugins.dynamic_resources.device_reasons import less_capacity, share_of
from scheduler.plugins.dynamic_resources.near_node import NearNode, ids_of, listed
from scheduler.why.reasons import Reason


def diagnose_all(found: NearNode) -> Reason:
    """What the node's devices do not suffice for."""
    match found.explanation.together:
        case Competing() as short:
            return _competing(found, short)
        case CountersShort() as short:
            return diagnose_together(found, short)
        case GroupsApart() as apart:
            return diagnose_apart(found, apart)
        case SharesShort(slots):
            shares = tuple([f"{found.named(slot)} {share_of(slot)}" for slot in slots])
            funnels = [found.explanation.requests[one.index] for one in slots]
            devices = [*dict.fromkeys(id_ for one in funnels for id_ in ids_of(one.devices(one.steps[-1].left)))]
            fixes = [fix for one in funnels for fix in less_capacity(found, one, slots)]
            fields = {"node": found.node.name, "shares": shares, "devices": listed(devices)}
            return Reason("capacity-short", fields, "together", (*fixes, *found.ends(devices, 1)))
        case None:
            return _unfit(found)


def _competing(found: NearNode, short: Competing) -> Reason:
    """Fewer devices than the requests need, though any of these would do for one of them."""
    funnels = [
        one for one in found.explanation.requests if any(one.slot.request == slot.request for slot in short.slots)
    ]
    devices = ids_of(funnels[0].devices(short.devices))
    taken = 0
    for funnel in funnels:
        taken |= funnel.step(Stage.IN_USE).removed
    in_use = ids_of(funnels[0].devices(taken))
    lacks = short.needed - len(devices)
    fields = {
        "of": tuple([(slot.claim, slot.label) for slot in short.slots]),
        "devices": listed(devices),
        "node": found.node.name,
        "requests": found.all_named(short.slots),
        "needed": short.needed,
        "free": "free" if in_use else "",
        "used": len(in_use),
        "pods": found.users(in_use),
    }
    fixes = tuple([fix for slot in short.slots for fix in found.fewer(slot, slot.count - lacks)])
    if not in_use:
        return Reason("own-claims-compete", fields, "", fixes)
    return Reason("devices-in-use", fields, "compete", (*fixes, *found.ends(in_use, lacks)))


def _unfit(found: NearNode) -> Reason:
    """Only the search knows that they do not fit together: a constraint or a counter, where there is one."""
    funnels = [one for one in found.explanation.requests if not one.lacks]
    is_one, first = len(funnels) == 1, funnels[0]
    fields = {
        "node": found.node.name,
        "requests": found.all_named(one.slot for one in funnels),
        "would": first.left if is_one else 0,
        "needed": sum(one.needed for one in funnels),
        "fit": 0,
    }
    reason = (
        diagnose_unsolved(found, funnels, fields)
        or diagnose_overdrawn(found, funnels, fields)
        or Reason("devices-short", fields, "unsolved" if is_one else "unsolved-all")
    )
    told = Reason("devices-short", {**fields, "request": fields["requests"]}, "together")
    told = reason if reason.kind != "devices-short" or not is_one else told
    fewer = [fix for one in funnels for fix in found.fewer(one.slot, one.needed - 1, told, even_all=True)]
    return structs.replace(reason, fixes=(*fewer, *reason.fixes))
