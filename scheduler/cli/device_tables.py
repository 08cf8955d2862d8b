"""What `dra-scheduler devices` prints: short, wide, and as names.

Rules of this module
  1. Names of a dump may be anything: where no table shows them, `one_line` does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import structs, to_builtins

from scheduler.cli.tables import print_document, print_table
from scheduler.cli.terminal import echo, print_left_out
from scheduler.inventory.device_answer import (
    DeviceList,
    DeviceSummary,
    Largest,
    NodeSummary,
    PoolFault,
    ProfileSummary,
    State,
    States,
)

_WITHIN: Final = {"node": "on one node"}
_TAKEN: Final = ("used", "blocked", "tainted", "closed", "unusable")
_LISTED: Final[frozenset[State]] = frozenset(("blocked", "tainted"))
_LISTED_MAX: Final = 50
"""Devices that the short table lists; the others are in the rows of their node and pool."""


def print_devices(found: DeviceList, output: str) -> None:
    """Print an answer in one of the forms of `-o`."""
    if output in ("table", "wide"):
        print_left_out(found.left_out)
    _PRINT[output](found)


def _print_short(found: DeviceList) -> None:
    _print_classes(found)
    _print_profiles(found.profiles)
    users = _users_by_node_and_class(found.devices)
    states = _states_by_node_and_class(found.devices)
    rows = [_node_row(one, users, states) for one in found.nodes]
    _section(("NODE", "CLASS", "FREE", "USED BY", "BLOCKED BY"), rows)
    listed = [one for one in found.devices if one.state in _LISTED]
    _section(
        ("DEVICE", "STATE", "BLOCKED BY"), [(_name(one), one.state, _blocked_text(one)) for one in listed[:_LISTED_MAX]]
    )
    if len(listed) > _LISTED_MAX:
        echo(f"... and {len(listed) - _LISTED_MAX} more: -o wide lists all")
    _print_faults(found.faults)


def _section(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if rows:
        echo()
        print_table(titles, rows)


def _print_classes(found: DeviceList) -> None:
    for one in found.classes:
        of_class = (device for device in found.devices if one.name in device.classes and device.state == "used")
        shared = next(
            (device for device in of_class if any(each.left != "0" for each in device.capacity.values())), None
        )
        fits = "; nothing more fits"
        if shared is not None:  # a request that names no amounts takes all of it
            fits = f"; only shares fit: {_name(shared)} has {_left_text(shared)} left"
        if one.largest[0].count:
            fits = "; largest request that fits: " + ", ".join(map(_largest_text, one.largest))
        states = _states_text(one.states)
        text = f"{one.name}: {one.free} of {one.devices} free{states}{fits if one.devices else ''}"
        echo(text)
    if not found.classes:
        echo("there are no device classes")


def _states_text(states: States) -> str:
    """What the devices are that are not free."""
    counts = structs.asdict(states)
    return "".join(f", {counts[name]} {name}" for name in _TAKEN if counts[name])


def _largest_text(largest: Largest) -> str:
    least = "" if largest.exact else "at least "
    within = _WITHIN.get(largest.within, f"of one {largest.within}")
    return f"{least}{largest.count} {within} ({largest.node})"


def _print_profiles(profiles: Sequence[ProfileSummary]) -> None:
    rows = []
    for one in profiles:
        counters = ", ".join(f"{name}={amount}" for name, amount in one.counters.items())
        rows.append(
            (
                one.profile or counters,
                one.driver,
                f"{one.free} of {one.devices}",
                f"{'' if one.is_exact else 'at most '}{one.together}",
                (counters if one.profile else "-") + _states_text(one.states),
            )
        )
    _section(("PROFILE", "DRIVER", "FREE", "TOGETHER", "COUNTERS"), rows)


_Key = tuple[str, str]
"""Node ("" for devices of several) and class."""


def _node_row(
    one: NodeSummary, users: Mapping[_Key, Sequence[str]], states: Mapping[_Key, Counter[State]]
) -> tuple[str, ...]:
    key = one.node, one.device_class
    counts = states.get(key, Counter())
    blocked = [one.closed] if one.closed else []
    blocked += [f"{counts[state]} {state}" for state in ("blocked", "tainted") if counts[state]]
    return (
        one.node,
        one.device_class,
        f"{one.free} of {one.devices}",
        ", ".join(users.get(key, ())) or "-",
        ", ".join(blocked) or "-",
    )


def _users_by_node_and_class(listed: Sequence[DeviceSummary]) -> Mapping[_Key, list[str]]:
    """Who uses how many devices: pods, or the claim where no pod has it."""
    counts: dict[_Key, Counter[str]] = {}
    for key, one in _by_node_and_class(listed):
        users = counts.setdefault(key, Counter())
        for user in one.users:
            users.update(user.pods or (f"claim {user.claim}",))
    return {
        key: [f"{who} ({count})" if count > 1 else who for who, count in users.items()] for key, users in counts.items()
    }


def _states_by_node_and_class(listed: Sequence[DeviceSummary]) -> Mapping[_Key, Counter[State]]:
    counts: dict[_Key, Counter[State]] = {}
    for key, one in _by_node_and_class(listed):
        counts.setdefault(key, Counter())[one.state] += 1
    return counts


def _by_node_and_class(listed: Sequence[DeviceSummary]) -> Iterator[tuple[_Key, DeviceSummary]]:
    for one in listed:
        for name in one.classes:
            yield (one.node or "", name), one


def _print_faults(faults: Sequence[PoolFault]) -> None:
    _section(
        ("POOL", "FAULT", "WHICH SLICES, AND HOW"), [(f"{one.driver}/{one.pool}", one.kind, one.text) for one in faults]
    )


def _print_wide(found: DeviceList) -> None:
    _print_classes(found)
    _print_profiles(found.profiles)
    _section(
        ("NODE", "DEVICE", "CLASSES", "STATE", "CAPACITY LEFT", "TAINTS", "USED BY", "BLOCKED BY"),
        [_device_row(one) for one in found.devices],
    )
    _section(
        ("POOL", "NODES", "GENERATION", "SLICES", "DEVICES", "STATE", "COUNTERS LEFT"),
        [
            (
                f"{one.driver}/{one.pool}",
                ",".join(one.nodes[:3]) + (f" and {len(one.nodes) - 3} more" if len(one.nodes) > 3 else "") or "-",
                str(one.generation),
                f"{one.slices} of {one.expected}" + (f", {one.superseded} old" if one.superseded else ""),
                str(one.devices),
                one.state,
                ", ".join(f"{each.counter_set}.{each.counter} {each.left} of {each.total}" for each in one.counters)
                or "-",
            )
            for one in found.pools
        ],
    )
    _print_faults(found.faults)


def _device_row(one: DeviceSummary) -> tuple[str, ...]:
    users = [
        f"{', '.join(user.pods) or 'no pod'} by claim {user.claim}"
        + "".join(f" {name}={amount}" for name, amount in user.consumed.items())
        + (" (admin access)" if user.admin else "")
        for user in one.users
    ]
    return (
        one.node or "-",
        _name(one),
        ",".join(one.classes) or "-",
        one.state,
        _left_text(one) or "-",
        ",".join(one.taints) or "-",
        "; ".join(users) or "-",
        _blocked_text(one),
    )


def _blocked_text(one: DeviceSummary) -> str:
    return "; ".join(each.text for each in one.blocked_by) or "-"


def _print_names(found: DeviceList) -> None:
    for one in found.devices:
        echo(_name(one))


def _left_text(one: DeviceSummary) -> str:
    return ",".join(f"{name}={amount.left}" for name, amount in one.capacity.items())


def _name(one: DeviceSummary) -> str:
    return f"{one.driver}/{one.pool}/{one.device}"


_PRINT: Final[Mapping[str, Callable[[DeviceList], None]]] = {
    "table": _print_short,
    "wide": _print_wide,
    "name": _print_names,
    "json": lambda found: print_document(to_builtins(found), "json"),
    "yaml": lambda found: print_document(to_builtins(found), "yaml"),
}
