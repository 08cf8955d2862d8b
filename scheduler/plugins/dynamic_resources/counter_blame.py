"""Partitions that are published and free, and blocked: which counter set lacks what, or is of which groups, by whose.

Cost: O(devices of the pools) for the blocked devices, of which the one that lacks least is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from allocator import Device, DeviceId, Funnel, Stage
from allocator.answers.together import CountersShort, GroupsApart
from allocator.pools.compatibility import refusing
from allocator.pools.pools import CounterId, PoolView
from allocator.values.masks import positions_of
from allocator.values.model import DeviceSelector
from cel.quantity import Quantity
from scheduler.plugins.dynamic_resources.changed_claims import with_request
from scheduler.plugins.dynamic_resources.holder_blame import unused_claim
from scheduler.plugins.dynamic_resources.near_node import NearNode, free_of, some_devices
from scheduler.why.reasons import Fix, Reason, plain_fix, plain_reason

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
    def lacks(self) -> int:
        return self.takes - self.left


def blame_partitions(found: NearNode, funnel: Funnel) -> Reason:
    """Devices that nobody uses and nobody can be given, as partitions of the same device are in use."""
    blocked = list(_blocked(found, funnel))
    about = ("counters", funnel.claim, funnel.request)
    if not blocked:
        which = some_devices([one.id for one in funnel.devices(funnel.step(Stage.COUNTERS).removed)])
        return plain_reason("partition-blocked", f"{which}: the counters of the pool are overdrawn", about)
    first = min(blocked, key=lambda one: (one.takes > one.whole, one.lacks / max(one.takes, 1), one.position))
    set_, counter = first.counter
    what = f"{some_devices([first.device.id])}"
    takes, left = _amount(first, first.takes), _amount(first, first.left)
    if first.takes > first.whole:
        whole = _amount(first, first.whole)
        cause = f"{what} takes {takes} of counter {counter}, and counter set {set_} has {whole}"
        return plain_reason("counters-short", cause, about)
    users = _users(found, first)
    cause = f"{what} is free and blocked: it takes {counter} {takes}, counter set {set_} has {left} left"
    start, rest = f"{cause}; {some_devices(users)} of ", f" {'takes' if len(users) == 1 else 'take'} the rest"
    if holders := found.holding(users):
        cause = found.briefly(lambda pods: f"{start}{pods}{rest}", holders)
    elif claim := unused_claim(found, users):
        cause = f"{start}{claim},{rest}"
    else:
        cause += free_of(funnel, found.named(funnel.slot))
    changes = [*found.fewer(funnel.slot, funnel.left), *found.ends(users, 1), *_other_profiles(found, funnel, first)]
    if funnel.lacks > 1:
        every = sorted({user for one in blocked for user in _users(found, one)})
        changes += found.ends(every, len(every))
    return plain_reason("partition-blocked", cause, (*about, set_, counter), tuple(changes))


def blame_together(found: NearNode, short: CountersShort) -> Reason:
    """Requests of the pod that a pool's counters cannot serve together."""
    names = " and ".join(dict.fromkeys(found.named(slot) for slot in short.slots))
    set_, counter = short.counter
    left = _written(short.pool, short.counter, short.left)
    more = f", and {short.more} more {'is' if short.more == 1 else 'are'} short, too" if short.more else ""
    cause = (
        f"{names}: at most {short.possible} of {short.needed} devices fit together on node {found.node.name}; "
        f"counter set {set_} has {counter} {left} left{more}"
    )
    about = ("counters together", *[slot.label for slot in short.slots], set_, counter)
    changes = [*found.fewer(short.slots[0], short.possible)] if len(short.slots) == 1 else []
    users = [one.id for one in short.pool.devices if _takes(one, short.counter)]
    held = [one for one in users if found.holding([one])]
    return plain_reason("counters-short", cause, about, (*changes, *found.ends(held, 1), *found.ends(held, len(held))))


def blame_groups(found: NearNode, funnel: Funnel) -> Reason:
    """Devices that nobody uses or can be given, as devices of other compatibility groups draw on their counters."""
    position = next(positions_of(funnel.step(Stage.GROUPS).removed))
    _, view, index = funnel.pools.locate(position)
    device, use = view.devices[index], found.view.in_use.pools.get(view.id)
    common, held = view.groups_left(use), use.held() if use is not None else set[str]()
    number, mask = refusing(common, view.groups.of[index]) or view.groups.of[index][0]
    set_ = view.groups.set_name(number)
    users = [
        one.id
        for one in view.devices
        if one.name in held and any(each.counter_set == set_ for each in one.consumes_counters)
    ]
    theirs = view.groups.text(number, common.get(number, 0))
    start = (
        f"{some_devices([device.id])} is free and blocked: it is of {view.groups.text(number, mask)}, and counter set "
        f"{set_} is used by {some_devices(users)} of {theirs}"
    )
    holders = found.holding(users)
    cause = found.briefly(lambda pods: f"{start}, which {pods} has", holders) if holders else start
    changes = [*found.fewer(funnel.slot, funnel.left), *found.ends(users, 1), *found.ends(users, len(users))]
    return plain_reason("partition-blocked", cause, ("groups", funnel.claim, funnel.request, set_), tuple(changes))


def blame_apart(found: NearNode, apart: GroupsApart) -> Reason:
    """A request of which each device would do, and no compatibility group has as many."""
    cause = (
        f"{found.named(apart.slot)}: at most {apart.possible} of {apart.needed} devices fit together on node "
        f"{found.node.name}, as the devices of a counter set must have a compatibility group in common"
    )
    changes = tuple(found.fewer(apart.slot, apart.possible))
    return plain_reason("devices-short", cause, ("groups together", apart.slot.label), changes)


def _blocked(found: NearNode, funnel: Funnel) -> Iterator[_Blocked]:
    """Each blocked device with the counter of which it lacks the largest part."""
    pools, in_use = funnel.pools, found.view.in_use
    for position in positions_of(funnel.step(Stage.COUNTERS).removed):
        _, view, index = pools.locate(position)
        left, worst = view.counters_left(in_use.pools.get(view.id)), None
        for counter, takes in view.consumption.get(index, ()):
            if takes > left[counter]:
                whole, name = view.counters[counter], view.counter_ids[counter]
                one = _Blocked(view.devices[index], position, view, name, takes, left[counter], whole)
                if worst is None or one.lacks * worst.takes > worst.lacks * one.takes:
                    worst = one
        if worst is not None:
            yield worst


def _users(found: NearNode, blocked: _Blocked) -> list[DeviceId]:
    """Devices of the pool that are held and take of the counter."""
    use = found.view.in_use.pools.get(blocked.view.id)
    held = use.held() if use is not None else set()
    return [one.id for one in blocked.view.devices if one.name in held and _takes(one, blocked.counter)]


def _takes(device: Device, counter: CounterId) -> bool:
    return any(one.counter_set == counter[0] and counter[1] in dict(one.counters) for one in device.consumes_counters)


def _written(view: PoolView, counter: CounterId, nano: int) -> Quantity:
    """An amount in the form in which devices of the pool write theirs."""
    for device in view.devices:
        for one in device.consumes_counters:
            if one.counter_set == counter[0] and (amount := dict(one.counters).get(counter[1])) is not None:
                return Quantity.from_int(nano // _NANO, amount.format)
    return Quantity.from_int(nano // _NANO)


def _amount(blocked: _Blocked, nano: int) -> Quantity:
    return _written(blocked.view, blocked.counter, nano)


def _other_profiles(found: NearNode, funnel: Funnel, blocked: _Blocked) -> Iterator[Fix]:
    """Naming another value in the request's selector, which free devices have: a smaller partition."""
    claim, selectors = found.claim(funnel.slot), funnel.slot.details.selectors
    if claim is None or not selectors:
        return
    done: set[str] = set()
    for device in funnel.devices(funnel.step(Stage.REQUEST_SELECTOR).removed):
        for attribute, value in blocked.device.attributes.items():
            other = device.attributes.get(attribute)
            if other is None or not isinstance(value.value, str) or not isinstance(other.value, str):
                continue
            if other.value in done or other.value == value.value or len(done) >= found.limits.counts:
                continue
            changed = tuple([_naming(selector, value.value, other.value) for selector in selectors])
            if changed != selectors:
                done.add(other.value)
                yield plain_fix(
                    4,
                    f"write '{other.value}' instead of '{value.value}' in the selector of {found.label(funnel.slot)}",
                    (found.node.name,),
                    claims=(with_request(claim, funnel.request, selectors=changed),),
                )


def _naming(selector: DeviceSelector, before: str, after: str) -> DeviceSelector:
    text = selector.expression or ""
    for quote in ("'", '"'):
        text = text.replace(f"{quote}{before}{quote}", f"{quote}{after}{quote}")
    return selector if text == selector.expression else DeviceSelector(text)
