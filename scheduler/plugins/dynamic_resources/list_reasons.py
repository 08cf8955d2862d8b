"""A prioritized list of which no alternative fits: why each fails, in a few words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from allocator import Funnel, Stage
from allocator.requests.selectors import OPTIONAL_HINT
from scheduler.plugins.dynamic_resources.near_node import NearNode, ids_of
from scheduler.why.reasons import Reason
from scheduler.why.say import names

_KIND: Final = "alternatives-unmet"
_PLACES: Final = ("first", "second", "third")


def diagnose_alternatives(
    found: NearNode, funnels: Sequence[Funnel], of_one: Callable[[NearNode, Funnel], Reason]
) -> Reason:
    """What keeps all alternatives of one request from the node.

    Args:
        of_one: The reason of one of them.
    """
    fixes = tuple([fix for funnel in funnels for fix in of_one(found, funnel).fixes])
    removed = tuple([tuple(one.removed) for one in funnels])
    facts: dict[str, object] = {
        "of": (funnels[0].claim, funnels[0].slot.base, removed),
        "request": funnels[0].slot.base,
    }
    taken = 0
    if all(one.end is not None and one.end.stage is Stage.IN_USE for one in funnels):
        for funnel in funnels:
            taken |= funnel.step(Stage.IN_USE).removed
        devices = ids_of(funnels[0].devices(taken))
        fields = {**facts, "every": "" if any(one.left for one in funnels) else "all ", "count": len(devices)}
        fields |= {"alternatives": len(funnels), "pods": found.users(devices)}
        return Reason(_KIND, fields, "taken", fixes)
    ways: dict[tuple[str, str], tuple[Reason, list[str]]] = {}
    for funnel in funnels:
        reason = _in_short(found, funnel)
        ways.setdefault((reason.form, str(reason.fields)), (reason, []))[1].append(funnel.slot.name)
    said = [Reason(_KIND, {"names": names(some, len(some)), "why": one.sentence}, "way") for one, some in ways.values()]
    told = {place: one.sentence for place, one in zip(_PLACES, said, strict=False)}
    rest = tuple([name for _, some in list(ways.values())[len(_PLACES) :] for name in some])
    fields = {**facts, "node": found.node.name, **dict.fromkeys(_PLACES), **told, "rest": rest}
    return Reason(_KIND, fields, "", fixes)


def _in_short(found: NearNode, funnel: Funnel) -> Reason:
    """Why an alternative fails."""
    end, slot = funnel.end, funnel.slot
    fields: dict[str, object] = {"there": funnel.step(Stage.SIZE).left.bit_count(), "needed": funnel.needed}
    if end is None:
        return Reason(_KIND, fields, "short")
    fields |= {"gone": end.removed.bit_count(), "all": funnel.before(end.stage).bit_count()}
    match end.stage:
        case Stage.CLASS_SELECTOR if not end.left:
            return Reason(_KIND, {"class": slot.device_class.name}, "class")
        case Stage.REQUEST_SELECTOR if not end.left:
            return Reason(_KIND, {}, "selectors")
        case Stage.UNDECIDED:
            failure = found.explanation.failure_of(funnel)
            return Reason(_KIND, {"failure": failure.rpartition("error: ")[2].removesuffix(OPTIONAL_HINT)}, "undecided")
        case Stage.SIZE | Stage.CAPACITY:
            return Reason(_KIND, {"capacity": " and ".join(slot.capacity) or "capacity"}, "capacity")
        case Stage.IN_USE:
            return Reason(_KIND, {**fields, "pods": found.users(ids_of(funnel.devices(end.removed)))}, "in-use")
        case Stage.UNREAD | Stage.TAINT | Stage.GROUPS | Stage.COUNTERS:
            return Reason(_KIND, fields, end.stage.name.lower())
        case Stage.CONSTRAINT:
            return Reason(_KIND, {}, "constraint")
        case _:
            return Reason(_KIND, fields, "short")
