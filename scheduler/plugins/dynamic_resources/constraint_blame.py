"""Constraints that no devices satisfy: which attribute, how many devices share a value, and how many are needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from allocator import DeviceId, Funnel, Stage
from allocator.answers.constraint_room import Counted, Unmet
from allocator.values.masks import positions_of
from allocator.values.model import Constraint
from allocator.values.pool_attribute import Value
from scheduler.model.claim import ResourceClaim
from scheduler.model.nearest import near
from scheduler.plugins.dynamic_resources.near_node import NearNode, ids_of, some_devices
from scheduler.why.reasons import Fix, Reason, plain_fix, plain_reason

_VALUES_NAMED: Final = 3
_DEVICES_READ: Final = 2_000
"""Of a request; their attributes are read for a name like the one that is missing."""


def blame_unmet(found: NearNode, unmet: Unmet) -> Reason:
    """One constraint that the node's devices cannot satisfy."""
    about = ("constraint", unmet.claim, unmet.index, unmet.attribute)
    missing = next((one for one in unmet.counted if not one.present), None)
    if missing is not None:
        other = _other_name(found, missing, unmet)
        cause = _missing(found, missing, unmet, other)
        return plain_reason("constraint-attribute-missing", cause, about, tuple(_changes(found, unmet, 0, other[0])))
    if unmet.asked > 1:
        return plain_reason(
            "constraint-unmet", _too_few_groups(found, unmet), about, tuple(_changes(found, unmet, 0, ""))
        )
    if not unmet.is_match:
        values = {value for one in unmet.counted for value in one.counts}
        cause = (
            f"{_names(found, unmet)}: {unmet.needed} devices with different {unmet.attribute} are needed; node "
            f"{found.node.name} has {_some(values)}"
        )
        return plain_reason("constraint-unmet", cause, about, tuple(_changes(found, unmet, len(values), "")))
    if len(unmet.counted) > 1:
        taken = _taken(found, unmet)
        cause = _taken_text(found, unmet, taken) or _no_common(found, unmet)
        changes = [*_changes(found, unmet, 0, "", 7 if taken else 5), *found.ends(taken, len(taken))]
        return plain_reason("constraint-unmet", cause, about, tuple(changes))
    (counted,) = unmet.counted
    most, value = min([(count, value) for value, count in counted.counts.items()], default=(0, ("", "")), key=_most)
    free, in_use = _in_use_with(found, counted)
    cause = (
        f"{found.named(counted.slot)}: {counted.needed} devices with the same {unmet.attribute} are needed; the most "
        f"{'that are free ' if free else ''}on node {found.node.name} is {most}{_of(value)}"
    )
    changes = [*_changes(found, unmet, most, ""), *in_use]
    return plain_reason("constraint-unmet", cause, about, tuple(changes))


def blame_several(found: NearNode, funnel: Funnel) -> Reason:
    """Constraints of which each could be satisfied, and that leave the request too little together."""
    constraints = [
        found.explanation.problem.plan.claims[funnel.slot.claim].constraints[index] for index in funnel.slot.constraints
    ]
    names = " and ".join(dict.fromkeys(one.match_attribute or one.distinct_attribute or "" for one in constraints))
    where = f"{funnel.needed} devices on node {found.node.name}"
    cause = f"{found.named(funnel.slot)}: no {where} satisfy its constraints on {names}"
    claim = found.claim(funnel.slot)
    changes = [_without(found, claim, one) for one in constraints] if claim is not None else []
    about = ("constraints", funnel.claim, funnel.request)
    return plain_reason("constraint-unmet", cause, about, (*found.fewer(funnel.slot, funnel.needed - 1), *changes))


def _most(one: tuple[int, Value]) -> tuple[int, str]:
    return -one[0], _text(one[1])


def _text(value: Value) -> str:
    return str(value[1]) if isinstance(value, tuple) else str(value)


def _of(value: Value) -> str:
    return f" (value {_text(value)})" if _text(value) else ""


def _some(values: set[Value]) -> str:
    """`2 values (0, 1)`."""
    texts = sorted(map(_text, values))
    named = ", ".join(texts[:_VALUES_NAMED])
    more = f" and {len(texts) - _VALUES_NAMED} more" if len(texts) > _VALUES_NAMED else ""
    return f"{len(texts)} value{'' if len(texts) == 1 else 's'} ({named}{more})"


def _names(found: NearNode, unmet: Unmet) -> str:
    names = list(dict.fromkeys(found.named(one.slot) for one in unmet.counted))
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return " and ".join(names[:2]) + more


def _missing(found: NearNode, missing: Counted, unmet: Unmet, other: tuple[str, int]) -> str:
    free = "" if missing.candidates == _matched(found, missing) else "free "
    known = f"; {other[1]} {'has' if other[1] == 1 else 'have'} {other[0]}" if other[0] else ""
    return f"no {free}device of {found.named(missing.slot)} on node {found.node.name} has {unmet.attribute}{known}"


def _matched(found: NearNode, counted: Counted) -> int:
    """The request's devices, whatever is in use."""
    return found.explanation.requests[counted.slot.index].before(Stage.TAINT)


def _other_name(found: NearNode, missing: Counted, unmet: Unmet) -> tuple[str, int]:
    """The attribute that was probably meant, and how many devices have it: of the same name, or of one like it."""
    funnel = found.explanation.requests[missing.slot.index]
    names: Counter[str] = Counter()
    for number, device in enumerate(funnel.devices(missing.candidates)):
        if number >= _DEVICES_READ:
            break
        names.update([name if "/" in name else f"{device.id.driver}/{name}" for name in device.attributes])
    bare = {name: name.rpartition("/")[2] for name in names}
    wanted = unmet.attribute.rpartition("/")[2]
    same = [name for name, one in bare.items() if one.casefold() == wanted.casefold()]
    if not same:
        close = near(wanted, sorted(set(bare.values())))
        same = [name for name, one in bare.items() if one == close]
    meant = max(same, key=lambda name: names[name], default="")
    return meant, names[meant]


def _no_common(found: NearNode, unmet: Unmet) -> str:
    """Devices of several requests that have no value in common, or too few."""
    attribute = unmet.attribute
    kinds = [sorted({str(value[0]) for value in one.counts if isinstance(value, tuple)}) for one in unmet.counted]
    for one, kind in zip(unmet.counted, kinds, strict=True):
        if kind and kinds[0] and not set(kind) & set(kinds[0]):
            first, other = found.named(unmet.counted[0].slot), found.named(one.slot)
            return f"{attribute} is of type {kinds[0][0]} for {first} and {kind[0]} for {other}: no values are equal"
    values = {value for one in unmet.counted for value in one.counts}
    served = {value: sum(min(one.needed, one.counts.get(value, 0)) for one in unmet.counted) for value in values}
    best = min(values, key=lambda value: (-served[value], _text(value)))
    lacking = next(one for one in unmet.counted if one.counts.get(best, 0) < one.needed)
    has = lacking.counts.get(best, 0)
    return (
        f"{_names(found, unmet)}: no {attribute} on node {found.node.name} has enough devices of each; "
        f"{_text(best)} has {has} of {lacking.needed} for {found.named(lacking.slot)}"
    )


def _taken(found: NearNode, unmet: Unmet) -> list[DeviceId]:
    """Devices that are not free, without which the requests would have a value in common: the fewest of them."""
    pools = found.explanation.problem.pools
    lacking: dict[Value, list[int]] = {}
    served: Counter[Value] = Counter()
    for one in unmet.counted:
        by_value: dict[Value, list[int]] = {}
        for position in positions_of(_matched(found, one) & ~one.candidates):
            for value in one.index.values_of(position):
                by_value.setdefault(value, []).append(position)
        for value in {*by_value, *one.counts}:
            lacks, more = max(0, one.needed - one.counts.get(value, 0)), by_value.get(value, [])
            if lacks <= len(more):
                served[value] += 1
                lacking.setdefault(value, []).extend(more[:lacks])
    ways = [positions for value, positions in lacking.items() if served[value] == len(unmet.counted) and positions]
    return ids_of(map(pools.device, min(ways, key=len) if ways else ()))


def _taken_text(found: NearNode, unmet: Unmet, taken: Sequence[DeviceId]) -> str:
    holders = found.holding(taken)
    if not holders:
        return ""
    is_one, names = len(taken) == 1, _names(found, unmet)
    start = f"{some_devices(taken)} {'is' if is_one else 'are'} in use by "
    rest = f"; without {'it' if is_one else 'them'} {names} have no {unmet.attribute} in common"
    return found.briefly(lambda pods: f"{start}{pods}{rest}", holders)


def _too_few_groups(found: NearNode, unmet: Unmet) -> str:
    """Pairs (or larger groups) of which there are fewer than are asked for, and a device that has no other."""
    what = "pairs" if unmet.needed == 2 else f"groups of {unmet.needed} devices"
    possible = f"at most {unmet.possible} of {unmet.asked} {what} with the same value"
    text = f"{unmet.attribute}: {possible} on node {found.node.name}"
    for one in unmet.counted:
        for other in unmet.counted:
            for value in sorted(one.counts, key=_text):
                if one is not other and other.counts.get(value, 0) < other.needed:
                    device = _device_with(found, one, value)
                    has = "no device" if not other.counts.get(value) else f"{other.counts[value]} of {other.needed}"
                    return f"{text}; {device} ({_text(value)}) has {has} of {found.named(other.slot)}"
    return text


def _device_with(found: NearNode, counted: Counted, value: Value) -> str:
    pools = found.explanation.problem.pools
    return next(
        some_devices([pools.device(position).id])
        for position in positions_of(counted.present)
        if value in counted.index.values_of(position)
    )


def _in_use_with(found: NearNode, counted: Counted) -> tuple[bool, Iterator[Fix]]:
    """Whether enough devices share a value with those that are not free, and ending who has them."""
    funnel, index = found.explanation.requests[counted.slot.index], counted.index
    counts: Counter[Value] = Counter()
    matched = _matched(found, counted)
    for position in positions_of(matched):
        counts.update(index.values_of(position))
    large = [value for value, count in counts.items() if count >= counted.needed]
    if not large:
        return matched != counted.candidates, iter(())
    nearest = min(large, key=lambda value: (-counted.counts.get(value, 0), _text(value)))
    taken = [one for one in positions_of(matched & ~counted.candidates) if nearest in index.values_of(one)]
    devices = ids_of([funnel.pools.device(position) for position in taken])
    lacks = counted.needed - counted.counts.get(nearest, 0)
    return matched != counted.candidates, found.ends(devices, lacks)


def _changes(found: NearNode, unmet: Unmet, most: int, other: str, drops: int = 5) -> Iterator[Fix]:
    """Another attribute's name, fewer devices, no constraint (a change of size `drops`)."""
    slot = unmet.counted[0].slot
    claim = found.claim(slot)
    if claim is None:
        return
    label = found.label(slot).partition(" of ")[2]
    if other:
        match, distinct = (other, None) if unmet.is_match else (None, other)
        changed = unmet.constraint._replace(match_attribute=match, distinct_attribute=distinct)
        text = f"write {other} instead of {unmet.attribute} in the constraint of {label}"
        yield plain_fix(1, text, (found.node.name,), claims=(_with(claim, unmet.constraint, changed),))
    if len(unmet.counted) == 1 or found.limits.also:
        yield from found.fewer(slot, most)
    yield _without(found, claim, unmet.constraint, drops)


def without_constraints(found: NearNode) -> Iterator[Fix]:
    """Each constraint dropped, for what only the search knows; a change of size 5."""
    for plan in found.explanation.problem.plan.claims:
        claim = next((found.claim(slot) for request in plan.requests for slot in request.slots), None)
        if claim is not None:
            yield from (_without(found, claim, constraint) for constraint in plan.constraints)


def _without(found: NearNode, claim: ResourceClaim, constraint: Constraint, size: int = 5) -> Fix:
    what = "matchAttribute" if constraint.match_attribute is not None else "distinctAttribute"
    attribute = constraint.match_attribute or constraint.distinct_attribute
    slots = found.explanation.problem.plan.slots
    label = next(found.label(one).partition(" of ")[2] for one in slots if found.claim(one) is claim)
    text = f"drop the constraint {what}: {attribute} of {label}"
    return plain_fix(size, text, (found.node.name,), claims=(_with(claim, constraint, None),))


def _with(claim: ResourceClaim, constraint: Constraint, changed: Constraint | None) -> ResourceClaim:
    assert claim.spec is not None
    constraints = [changed if one is constraint else one for one in claim.spec.constraints]
    left = tuple([one for one in constraints if one is not None])
    return replace(claim, spec=replace(claim.spec, constraints=left))
