"""Constraints that no devices satisfy: which attribute, how many devices share a value, and how many are needed."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from allocator import DeviceId, Funnel, Stage
from allocator.answers.constraint_room import Counted, Unmet
from allocator.values.masks import positions_of
from allocator.values.model import Constraint
from allocator.values.pool_attribute import Value, lookup_attribute
from scheduler.model.claim import ResourceClaim
from scheduler.model.nearest import near
from scheduler.plugins.dynamic_resources.changed_claims import label_of
from scheduler.plugins.dynamic_resources.near_node import NearNode, ids_of, listed
from scheduler.plugins.dynamic_resources.survey import Requests
from scheduler.why.reasons import Fix, Reason

_DEVICES_READ: Final = 2_000
"""Of a request; their attributes are read for a name like the one that is missing."""


def _lists(found: NearNode, unmet: Unmet) -> list[DeviceId]:
    """Devices whose attribute is a list, which has no value for a constraint where the gate is off."""
    if found.view.features.list_type_attributes:
        return []
    device = found.explanation.problem.pools.device
    having = [device(position) for one in unmet.counted for position in positions_of(one.present)]
    read = [(one.id, lookup_attribute(one, unmet.attribute)) for one in having]
    return [name for name, attribute in read if attribute is not None and isinstance(attribute.value, tuple)]


def diagnose_unmet(found: NearNode, unmet: Unmet) -> Reason:
    """One constraint that the node's devices cannot satisfy."""
    facts: dict[str, object] = {
        "of": (unmet.claim, unmet.index),
        "attribute": unmet.attribute,
        "node": found.node.name,
        "requests": found.all_named(one.slot for one in unmet.counted),
        "needed": unmet.needed,
    }
    reason = _diagnose(found, unmet, facts)
    if not (lists := _lists(found, unmet)):
        return reason
    return Reason("constraint-unmet", {**facts, "devices": listed(lists)}, "lists", reason.fixes)


def _diagnose(found: NearNode, unmet: Unmet, facts: dict[str, object]) -> Reason:
    missing = next((one for one in unmet.counted if not one.present), None)
    if missing is not None:
        other, count = _other_name(found, missing, unmet)
        free, request = _left(found, missing), found.named(missing.slot)
        fields = {**facts, "request": request, "free": free, "other": other, "count": count}
        return Reason("constraint-attribute-missing", fields, "", tuple(_changes(found, unmet, 0, other)))
    if unmet.asked > 1:
        facts |= _too_few_groups(found, unmet)
        return Reason("constraint-unmet", facts, "groups", tuple(_changes(found, unmet, 0)))
    if not unmet.is_match:
        values = sorted({_text(value) for one in unmet.counted for value in one.counts})
        facts |= {"count": len(values), "values": tuple(values)}
        return Reason("constraint-unmet", facts, "distinct", tuple(_changes(found, unmet, len(values))))
    if len(unmet.counted) > 1:
        return _apart(found, unmet, facts)
    (counted,) = unmet.counted
    most, value = min([(count, value) for value, count in counted.counts.items()], default=(0, ("", "")), key=_most)
    fields = {**facts, "free": _left(found, counted), "most": most, "value": _text(value)}
    return Reason("constraint-unmet", fields, "", (*_changes(found, unmet, most), *found.ends(*_taken(found, unmet))))


def diagnose_several(found: NearNode, funnel: Funnel) -> Reason:
    """Constraints of which each could be satisfied, and that leave the request too little together."""
    constraints = [found.plan.claims[funnel.slot.claim].constraints[index] for index in funnel.slot.constraints]
    claim = found.claim(funnel.slot)
    fixes = [fix for one in constraints for fix in without_constraint(found, claim, one)] if claim is not None else []
    attributes = " and ".join(dict.fromkeys(one.attribute for one in constraints))
    fixes += found.fewer(funnel.slot, funnel.needed - 1)
    fields = {**found.facts(funnel), "needed": funnel.needed, "attributes": attributes}
    return Reason("constraint-unmet", fields, "several", tuple(fixes))


def diagnose_unsolved(found: NearNode, funnels: Sequence[Funnel], facts: Mapping[str, object]) -> Reason | None:
    """Constraints that could be satisfied, by devices that do not fit together as far as the search knows."""
    drops, said = list[Fix](), list[Reason]()
    for plan in found.plan.claims:
        slots = [one.slot for one in funnels if one.slot.claim == plan.index]
        claim = found.claim(slots[0]) if slots else None
        if claim is None:
            continue
        for index, constraint in enumerate(plan.constraints):
            counted = [one for one in funnels if one.slot in slots and index in one.slot.constraints]
            is_match = constraint.match_attribute is not None
            counts = _values(counted[0], constraint.attribute) if is_match and len(counted) == 1 else Counter[str]()
            value, most = min(counts.items(), key=lambda one: (-one[1], one[0]), default=("", 0))
            fields = {
                **facts,
                "of": (str(claim.key), index),
                "requests": found.all_named([one.slot for one in counted]),
                "needed": sum(one.needed for one in counted),
                "how": "the same" if is_match else "different",
                "attribute": constraint.attribute,
                "most": most,
                "value": value,
            }
            said.append(Reason("constraint-unmet", fields, "unsolved"))
            drops += [structs.replace(one, reason=said[-1]) for one in without_constraint(found, claim, constraint)]
    return structs.replace(said[0], fixes=tuple(drops)) if said else None


def _values(funnel: Funnel, attribute: str) -> Counter[str]:
    """How many of the devices that would do have each value of an attribute, as it is published."""
    read = itertools.islice(funnel.devices(funnel.steps[-1].left), _DEVICES_READ)
    return Counter([str(one.value) for device in read if (one := lookup_attribute(device, attribute)) is not None])


def _apart(found: NearNode, unmet: Unmet, facts: Mapping[str, object]) -> Reason:
    """Devices of several requests that have no value in common, or too few."""
    taken, lacks = _taken(found, unmet)
    if holders := found.holding(taken):
        fields = {**facts, "devices": listed(taken), "pods": found.pods(holders)}
        fixes = (*_changes(found, unmet, 0, drops=2), *found.ends(taken, lacks))
        return Reason("constraint-unmet", fields, "taken", fixes)
    first, *others = unmet.counted
    kinds = _types(first)
    for one in others:
        if kinds and (differing := _types(one)) and not set(kinds) & set(differing):
            fields = {**facts, "request": found.named(first.slot), "type": kinds[0]}
            fields |= {"other": found.named(one.slot), "other_type": differing[0]}
            return Reason("constraint-unmet", fields, "types", tuple(_changes(found, unmet, 0)))
    values = {value for one in unmet.counted for value in one.counts}
    served = {value: sum(min(one.needed, one.counts.get(value, 0)) for one in unmet.counted) for value in values}
    best = min(values, key=lambda value: (-served[value], _text(value)))
    lacking = next(one for one in unmet.counted if one.counts.get(best, 0) < one.needed)
    has = lacking.counts.get(best, 0)
    fields = {**facts, "value": _text(best), "has": has, "wanted": lacking.needed, "request": found.named(lacking.slot)}
    fixes = (*found.fewer(lacking.slot, has), *_changes(found, unmet, 0))
    return Reason("constraint-unmet", fields, "apart", fixes)


def _types(counted: Counted) -> list[str]:
    return sorted({str(value[0]) for value in counted.counts if isinstance(value, tuple)})


def _most(one: tuple[int, Value]) -> tuple[int, str]:
    return -one[0], _text(one[1])


def _text(value: Value) -> str:
    return str(value[1]) if isinstance(value, tuple) else str(value)


def _left(found: NearNode, counted: Counted) -> str:
    """What the devices are that were counted, where others of the request were not."""
    is_tainted = Stage.TAINT in found.explanation.requests[counted.slot.index].removed
    return "" if counted.candidates == _matched(found, counted) else "usable" if is_tainted else "free"


def _matched(found: NearNode, counted: Counted) -> int:
    """The request's devices, whatever is in use."""
    return found.explanation.requests[counted.slot.index].before(Stage.TAINT)


def _other_name(found: NearNode, missing: Counted, unmet: Unmet) -> tuple[str, int]:
    """The attribute that was probably meant, and how many devices have it: of the same name, or of one like it."""
    funnel = found.explanation.requests[missing.slot.index]
    read = itertools.islice(funnel.devices(missing.candidates), _DEVICES_READ)
    names = Counter([name if "/" in name else f"{one.id.driver}/{name}" for one in read for name in one.attributes])
    bare = {name: name.rpartition("/")[2] for name in names}
    wanted = unmet.attribute.rpartition("/")[2]
    same = [name for name, one in bare.items() if one.casefold() == wanted.casefold()]
    if not same:
        close = near(wanted, sorted(set(bare.values())))
        same = [name for name, one in bare.items() if one == close]
    meant = max(same, key=lambda name: names[name], default="")
    return meant, names[meant]


def _taken(found: NearNode, unmet: Unmet) -> tuple[list[DeviceId], int]:
    """Devices that are not free, of the value that lacks fewest of them; and how many it lacks."""
    is_one, device = len(unmet.counted) == 1, found.explanation.problem.pools.device
    lacking: dict[Value, list[int]] = {}
    lacks, served = Counter[Value](), Counter[Value]()
    for one in unmet.counted:
        by_value: dict[Value, list[int]] = {}
        for position in positions_of(_matched(found, one) & ~one.candidates):
            for value in one.index.values_of(position):
                by_value.setdefault(value, []).append(position)
        for value in {*by_value, *one.counts}:
            few, more = max(0, one.needed - one.counts.get(value, 0)), by_value.get(value, [])
            if few <= len(more):
                served[value] += 1
                lacks[value] += few
                lacking.setdefault(value, []).extend(more if is_one else more[:few])
    ways = [value for value, count in served.items() if count == len(unmet.counted) and lacking[value]]
    nearest = min(ways, key=lambda value: (lacks[value], _text(value)), default=None)
    return ids_of(map(device, lacking.get(nearest, ()))), lacks[nearest]


def _too_few_groups(found: NearNode, unmet: Unmet) -> Mapping[str, object]:
    """Pairs (or larger groups) of which there are fewer than are asked for, and a device that has no other."""
    fields: dict[str, object] = {"possible": unmet.possible, "asked": unmet.asked, "device": ()}
    fields |= {"pairs": "pairs"} if unmet.needed == 2 else {"size": unmet.needed}
    for one in unmet.counted:
        for other in unmet.counted:
            for value in sorted(one.counts, key=_text):
                if one is not other and (has := other.counts.get(value, 0)) < other.needed:
                    name = found.named(other.slot)
                    fields |= {"device": _device_with(found, one, value), "value": _text(value), "has": has}
                    return fields | {"wanted": other.needed, "other": name, "none": "" if has else name}
    return fields


def _device_with(found: NearNode, counted: Counted, value: Value) -> tuple[str, ...]:
    pools = found.explanation.problem.pools
    return next(
        listed([pools.device(position).id])
        for position in positions_of(counted.present)
        if value in counted.index.values_of(position)
    )


def _changes(found: NearNode, unmet: Unmet, most: int, other: str = "", drops: int = 0) -> Iterator[Fix]:
    """Another attribute's name, fewer devices, no constraint (which asks `drops` more of people than usually)."""
    slot = unmet.counted[0].slot
    claim = found.claim(slot)
    if claim is None:
        return
    if other:
        match, distinct = (other, None) if unmet.is_match else (None, other)
        changed = unmet.constraint._replace(match_attribute=match, distinct_attribute=distinct)
        fields = {"attribute": other, "instead": unmet.attribute, "claim": label_of(claim, found.pod)}
        yield Fix("write-attribute", fields, found.on, claims=(_with(claim, unmet.constraint, changed),))
    if len(unmet.counted) == 1:
        yield from found.fewer(slot, most)
    yield from without_constraint(found, claim, unmet.constraint, drops)


def without_constraint(found: Requests, claim: ResourceClaim, constraint: Constraint, more: int = 0) -> Iterator[Fix]:
    """Nothing where a request derives the attribute: the API server wants a constraint for each that is derived."""
    assert claim.spec is not None
    asked = [one for request in claim.spec.requests for one in request.alternatives]
    if any(one.name == constraint.attribute for alternative in asked for one in alternative.derived):
        return
    what = "matchAttribute" if constraint.match_attribute is not None else "distinctAttribute"
    fields = {"what": what, "attribute": constraint.attribute, "claim": label_of(claim, found.pod)}
    yield Fix("drop-constraint", fields, found.on, more=more, claims=(_with(claim, constraint, None),))


def _with(claim: ResourceClaim, constraint: Constraint, changed: Constraint | None) -> ResourceClaim:
    assert claim.spec is not None
    constraints = [changed if one is constraint else one for one in claim.spec.constraints]
    left = tuple([one for one in constraints if one is not None])
    return replace(claim, spec=replace(claim.spec, constraints=left))
