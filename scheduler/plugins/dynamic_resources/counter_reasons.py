"""Partitions that are published and free, and blocked: which counter set lacks what, or is of which groups, by whose.

Cost: O(devices of the pools) for the blocked devices, of which the one that lacks least is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from allocator import Device, DeviceId, Funnel, Stage
from allocator.answers.together import CountersShort, GroupsApart
from allocator.pools.compatibility import refusing
from allocator.pools.pools import CounterCosts, CounterId, PoolView
from allocator.values.masks import positions_of
from allocator.values.model import DeviceSelector
from cel.quantity import Quantity
from scheduler.model.selector_reading import Selector
from scheduler.plugins.dynamic_resources.holder_reasons import unused_claim
from scheduler.plugins.dynamic_resources.near_node import NearNode, ids_of, listed
from scheduler.why.reasons import Fix, Reason

_NANO: Final = 10**9


class _Blocked(NamedTuple):
    """A device and a counter that has too little left for it; amounts in units of 10^-9."""

    device: Device
    position: int
    view: PoolView
    counter: CounterId
    takes: int
    left: int
    whole: int

    @property
    def lacks(self) -> float:
        return (self.takes - self.left) / max(self.takes, 1)


def diagnose_partitions(found: NearNode, funnel: Funnel) -> Reason:
    """Devices that nobody uses and nobody can be given, as partitions of the same device are in use."""
    blocked, facts = list(_blocked(found, funnel)), found.facts(funnel, Stage.COUNTERS)
    if not blocked:
        which = listed(ids_of(funnel.devices(funnel.step(Stage.COUNTERS).removed)))
        return Reason("partition-blocked", {**facts, "devices": which}, "overdrawn")
    likely = sorted(blocked, key=lambda one: (one.takes > one.whole, one.lacks, one.position))[: found.limits.counts]
    first = min(likely, key=lambda one: (one.takes > one.whole, _is_siblings(found, one)))
    takes, left, whole = (_written(first.view, first.counter, one) for one in (first.takes, first.left, first.whole))
    fields = {**facts, "device": listed([first.device.id]), "set": first.counter[0], "counter": first.counter[1]}
    if first.takes > first.whole:
        return Reason("counters-short", {**fields, "takes": takes, "whole": whole}, "whole")
    users = _users(found, first)
    fields |= {"takes": takes, "free": left, "devices": listed(users)}
    fields |= {"pods": found.pods(found.holding(users)), "claim": unused_claim(found, users)}
    fixes = [
        *found.fewer(funnel.slot, funnel.left),
        *found.ends(users, 1),
        *_other_profiles(found, funnel, first.device),
    ]
    if funnel.lacks > 1:
        every = sorted({user for one in blocked for user in _users(found, one)})
        fixes += found.ends(every, len(every))
    form = "" if fields["pods"] else "unused" if fields["claim"] else "free"
    return Reason("partition-blocked", fields, form, tuple(fixes))


def diagnose_together(found: NearNode, short: CountersShort) -> Reason:
    """Requests of the pod that a pool's counters cannot serve together."""
    (set_, counter), first = short.counter, short.slots[0]
    fields = {
        "requests": found.all_named(short.slots),
        "node": found.node.name,
        "possible": short.possible,
        "needed": short.needed,
        "set": set_,
        "counter": counter,
        "free": _written(short.pool, short.counter, short.left),
        "more": short.more,
    }
    fixes = [*found.fewer(first, short.possible, even_all=True)] if len(short.slots) == 1 else []
    held = [one.id for one in short.pool.devices if _takes(one, short.counter) and found.holding([one.id])]
    return Reason(
        "counters-short", fields, "", (*fixes, *found.ends(held, 1), *(found.ends(held, len(held)) if held[1:] else ()))
    )


def diagnose_groups(found: NearNode, funnel: Funnel) -> Reason:
    """Devices that nobody uses or can be given, as devices of other compatibility groups draw on their counters."""
    position = next(positions_of(funnel.step(Stage.GROUPS).removed))
    _, view, index = funnel.pools.locate(position)
    device, use = view.devices[index], found.view.in_use.pools.get(view.id)
    common, held = view.groups_left(use), found.held(view.id)
    number, mask = refusing(common, view.groups.of[index]) or view.groups.of[index][0]
    set_ = view.groups.set_name(number)
    users = [
        one.id
        for one in view.devices
        if one.name in held and any(each.counter_set == set_ for each in one.consumes_counters)
    ]
    fields = {
        **found.facts(funnel, Stage.GROUPS),
        "device": listed([device.id]),
        "group": view.groups.text(number, mask),
        "set": set_,
        "devices": listed(users),
        "groups": view.groups.text(number, common.get(number, 0)),
        "pods": found.pods(found.holding(users)),
    }
    fixes = [*found.fewer(funnel.slot, funnel.left), *found.ends(users, 1), *found.ends(users, len(users))]
    return Reason("partition-blocked", fields, "groups", tuple(fixes))


def diagnose_apart(found: NearNode, apart: GroupsApart) -> Reason:
    """A request of which each device would do, and no compatibility group has as many."""
    fields: dict[str, object] = {"request": found.named(apart.slot), "node": found.node.name}
    fields |= {"possible": apart.possible, "needed": apart.needed}
    return Reason("devices-short", fields, "groups", tuple(found.fewer(apart.slot, apart.possible, even_all=True)))


def diagnose_overdrawn(found: NearNode, funnels: Sequence[Funnel], facts: Mapping[str, object]) -> Reason | None:
    """The counter that the devices which would do overdraw most, taken together; None where they overdraw none."""
    room, pools = 0, funnels[0].pools
    for one in funnels:
        room |= one.step(Stage.CONSTRAINT).left
    short: list[tuple[int, int, int, CounterCosts]] = []
    for number in pools.numbers_among(room & pools.counting):
        view, local = pools.usable[number][0], pools.among(room, number)
        left = view.counters_left(found.view.in_use.pools.get(view.id))
        for costs in view.counter_costs:
            takes = sum(amount for amount, index in costs.by_amount if local >> index & 1)
            short.append((takes - left[costs.counter], takes, number, costs))
    worst = max(short, key=lambda one: one[0], default=None)
    if worst is None or worst[0] <= 0:
        return None
    excess, takes, number, costs = worst
    view, local = pools.usable[number][0], pools.among(room, number)
    devices = listed([view.devices[index].id for index in positions_of(local & costs.consumers)])
    name, least = view.counter_ids[costs.counter], sum(_least(one, number, costs) for one in funnels)
    fields = {**facts, "set": name[0], "counter": name[1], "devices": devices}
    fields |= {"free": _written(view, name, takes - excess), "takes": _written(view, name, takes)}
    if is_certain := least > takes - excess:
        fields["takes"] = _written(view, name, least)
    firsts = [(one, next(one.devices(one.step(Stage.CONSTRAINT).left))) for one in funnels]
    fixes = tuple([fix for one, device in firsts for fix in _other_profiles(found, one, device)])
    return Reason("counters-short", fields, "least" if is_certain else "all", fixes)


def _least(funnel: Funnel, number: int, costs: CounterCosts) -> int:
    """What the request takes of a counter, whichever of the devices that would do it is given."""
    left = funnel.step(Stage.CONSTRAINT).left
    local = funnel.pools.among(left, number)
    amounts = [amount for amount, index in costs.by_amount if local >> index & 1]
    return sum(amounts[: max(0, funnel.needed - (left.bit_count() - len(amounts)))])


def _blocked(found: NearNode, funnel: Funnel) -> Iterator[_Blocked]:
    """Each blocked device with the counter of which it lacks the largest part."""
    for position in positions_of(funnel.step(Stage.COUNTERS).removed):
        _, view, index = funnel.pools.locate(position)
        left = view.counters_left(found.view.in_use.pools.get(view.id))
        short = [
            _Blocked(view.devices[index], position, view, view.counter_ids[one], takes, left[one], view.counters[one])
            for one, takes in view.consumption.get(index, ())
            if takes > left[one]
        ]
        if short:
            yield max(short, key=lambda one: one.lacks)


def _users(found: NearNode, blocked: _Blocked) -> list[DeviceId]:
    """Devices of the pool that are held and take of the counter."""
    held = found.held(blocked.view.id)
    return [one.id for one in blocked.view.devices if one.name in held and _takes(one, blocked.counter)]


def _is_siblings(found: NearNode, blocked: _Blocked) -> bool:
    """Whether those who would have to end are made as the pod is, all of them."""
    holders = found.holding(_users(found, blocked)) if found.owner else []
    return bool(holders) and all(map(found.is_siblings, holders))


def _takes(device: Device, counter: CounterId) -> bool:
    return any(one.counter_set == counter[0] and counter[1] in dict(one.counters) for one in device.consumes_counters)


def _written(view: PoolView, counter: CounterId, nano: int) -> Quantity:
    """An amount in the form in which devices of the pool write theirs."""
    for device in view.devices:
        for one in device.consumes_counters:
            if one.counter_set == counter[0] and (amount := dict(one.counters).get(counter[1])) is not None:
                return Quantity.from_int(nano // _NANO, amount.format)
    return Quantity.from_int(nano // _NANO)


def _other_profiles(found: NearNode, funnel: Funnel, would_do: Device) -> Iterator[Fix]:
    """Naming another value in the request's selector, which other devices have: a smaller partition."""
    selectors, done = funnel.slot.details.selectors, set[str]()
    for device in funnel.devices(funnel.step(Stage.REQUEST_SELECTOR).removed):
        for attribute, value in would_do.attributes.items():
            other = device.attributes.get(attribute)
            if other is None or not isinstance(value.value, str) or not isinstance(other.value, str):
                continue
            if other.value in done or other.value == value.value or len(done) >= found.limits.counts:
                continue
            changed = tuple([_naming(selector, value.value, other.value) for selector in selectors])
            if changed != selectors:
                done.add(other.value)
                fields = {"value": other.value, "instead": value.value}
                yield from found.asking(funnel.slot, "write-value", fields, selectors=changed)


def _naming(selector: DeviceSelector, before: str, after: str) -> DeviceSelector:
    """With another text where an attribute is compared with this one."""
    read = Selector(selector.expression or "")
    part = next((one for _, texts in read.comparisons for one in texts if one.text == before), None)
    return DeviceSelector(read.put(part, after)) if part is not None else selector
