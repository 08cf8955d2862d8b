"""Requests of a pod that have enough devices each by itself, and not together: what they are all short of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allocator import Stage
from allocator.answers.together import Competing, CountersShort, GroupsApart, SharesShort
from allocator.requests.requests import Slot
from scheduler.plugins.dynamic_resources.constraint_blame import without_constraints
from scheduler.plugins.dynamic_resources.counter_blame import blame_apart, blame_together
from scheduler.plugins.dynamic_resources.near_node import NearNode, ids_of, some_devices
from scheduler.why.reasons import Reason, plain_reason

_NAMED: Final = 3


def blame_all(found: NearNode) -> Reason:
    """What the node's devices do not suffice for."""
    match found.explanation.together:
        case Competing() as short:
            return _competing(found, short)
        case CountersShort() as short:
            return blame_together(found, short)
        case GroupsApart() as apart:
            return blame_apart(found, apart)
        case SharesShort(slots):
            texts = [f"{found.named(slot)} {_shares(slot)}" for slot in slots[:_NAMED]]
            cause = f"devices of node {found.node.name} have too little capacity left for {', '.join(texts)} together"
            return plain_reason("capacity-short", cause, ("shares", *[slot.label for slot in slots]))
        case None:
            return _unfit(found)


def _competing(found: NearNode, short: Competing) -> Reason:
    """Fewer devices than the requests need, though any of these would do for one of them."""
    funnels = [
        one for one in found.explanation.requests if any(one.slot.request == slot.request for slot in short.slots)
    ]
    names = _names(found, short.slots)
    devices = ids_of(funnels[0].devices(short.devices))
    taken = 0
    for funnel in funnels:
        taken |= funnel.step(Stage.IN_USE).removed
    in_use = ids_of(funnels[0].devices(taken))
    lacks = short.needed - len(devices)
    changes = [change for slot in short.slots for change in found.fewer(slot, slot.count - lacks)]
    about = ("compete", *[(slot.claim, slot.label) for slot in short.slots])
    which, free = some_devices(devices), "free " if in_use else ""
    only = f"is the only {free}one" if len(devices) == 1 else f"are all {free}ones"
    cause = f"{which} {only} on node {found.node.name} for {names}, which need {short.needed}"
    if not in_use:
        return plain_reason("own-claims-compete", cause, about, tuple(changes))
    holders = found.pods(found.holding(in_use)) or "other claims"
    cause += f"; {holders} {'has' if len(in_use) == 1 else 'have'} {len(in_use)} more"
    return plain_reason("devices-in-use", cause, about, (*changes, *found.ends(in_use, lacks)))


def _unfit(found: NearNode) -> Reason:
    """Only the search knows that they do not fit together."""
    node = found.node.name
    funnels = [one for one in found.explanation.requests if not one.lacks]
    changes = [change for one in funnels for change in found.fewer(one.slot, one.slot.count - 1)]
    changes += without_constraints(found)
    names = _names(found, [one.slot for one in funnels])
    if len(funnels) == 1:
        one = funnels[0]
        cause = f"{names}: no {one.needed} of the {one.left} devices on node {node} that would do fit together"
    else:
        cause = f"node {node} has enough devices for each of {names}, and not for all together"
    return plain_reason("devices-short", cause, ("together", names), tuple(changes))


def _names(found: NearNode, slots: Iterable[Slot]) -> str:
    names = list(dict.fromkeys(found.named(slot) for slot in slots))
    if len(names) > _NAMED:
        return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
    return " and ".join(names)


def _shares(slot: Slot) -> str:
    return " and ".join(f"{name} {amount}" for name, amount in slot.capacity.items()) or "a share"
