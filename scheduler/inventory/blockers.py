"""What keeps a device from being given out: who has it, which partitions took its counters, its taints, nodes and pool.

Rules of this module
  1. All that blocks a device is said, not the first thing only: whoever frees it has to know.
  2. Long lists are cut: the first few are named, and how many more there are.

Cost: O(1) for each device, and O(devices held) once for each view of a pool of which a device lacks counters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from allocator import Device, DeviceId, DeviceTaint, Ledger, prevent_allocation
from allocator.pools.compatibility import refusing
from allocator.pools.pools import PoolView
from scheduler.framework.diagnosis import taint_text
from scheduler.framework.two_stacks import TwoStacks
from scheduler.inventory.device_answer import Blocker, User
from scheduler.inventory.users import amount_text
from scheduler.model.keys import NodeName
from scheduler.model.nearest import some

Users: TypeAlias = Mapping[DeviceId, tuple[User, ...]]
NAMED_MAX: Final = 4


class Blockers:
    """Finds them, for one state of a cluster."""

    def __init__(self, users: Users, in_use: Ledger) -> None:
        self._users: Final = users
        self._in_use: Final = in_use
        self._takers: Final[dict[int, tuple[PoolView, Mapping[int, Sequence[str]]]]] = {}  # by the view's id

    def holders(self, device: DeviceId) -> Iterator[Blocker]:
        """The claims that hold it, with their pods; admin access holds nothing."""
        users = [user for user in self._users.get(device, ()) if not user.admin]
        for user in users[:NAMED_MAX]:
            yield Blocker(kind="claim", name=user.claim, text=_user_text(user))
        if len(users) > NAMED_MAX:
            yield Blocker(kind="claim", name="", text=f"{len(users) - NAMED_MAX} more claims")

    def counters(self, view: PoolView, index: int) -> Iterator[Blocker]:
        """The counters that are short, and the partitions that take them."""
        entry = self._in_use.pools.get(view.id)
        left = view.counters_left(entry)
        needed = view.consumption[index]
        short = [(counter, amount) for counter, amount in needed if amount > left[counter]]
        if not short and (refused := refusing(view.groups_left(entry), view.groups.of.get(index, ()))) is not None:
            number, mask = refused
            text = f"it is of {view.groups.text(number, mask)}, and the partitions in use are of others"
            yield Blocker(kind="counter", name=view.groups.set_name(number), text=text)
            return
        if not short:  # another counter of the pool is overdrawn, and then no partition of it is given
            short = [(counter, 0) for counter, rest in enumerate(left) if rest < 0]
        for counter, amount in short[:1]:
            name, total = ".".join(view.counter_ids[counter]), view.counters[counter]
            text = f"counter {name}: {_rest_text(left[counter], total)}, {amount_text(amount)} needed"
            if not amount:
                text = f"counter {name}: {_rest_text(left[counter], total)}"
            more = f" (and {len(short) - 1} more counters)" if len(short) > 1 else ""
            yield Blocker(kind="counter", name=name, text=text + more)
        takers = self._takers_of(view)
        taking = list(dict.fromkeys(name for counter, _ in short for name in takers.get(counter, ())))
        for name in taking[:NAMED_MAX]:
            users = [user for user in self._users.get(DeviceId(*view.id, name), ()) if not user.admin]
            who = f" ({_user_text(users[0])})" if users else ""
            yield Blocker(kind="partition", name=name, text=f"partition {name}{who}")
        if len(taking) > NAMED_MAX:
            yield Blocker(kind="partition", name="", text=f"{len(taking) - NAMED_MAX} more partitions")

    def _takers_of(self, view: PoolView) -> Mapping[int, Sequence[str]]:
        """Counter -> names of the devices in use that take of it, those of other nodes' slices too."""
        known = self._takers.get(id(view))
        if known is None:
            found: dict[int, list[str]] = {}
            entry = self._in_use.pools.get(view.id)
            for name in sorted(entry.held()) if entry is not None else ():
                index = view.index_of(name)
                charges = [view.consumption.get(index, ())] if index is not None else []
                for amounts in (*charges, *view.elsewhere.get(name, ())):
                    for counter, amount in amounts:
                        if amount:
                            found.setdefault(counter, []).append(name)
            known = self._takers[id(view)] = view, found
        return known[1]


def taint_blockers(taints: Sequence[DeviceTaint]) -> Iterator[Blocker]:
    """The taints that keep claims off."""
    for taint in taints:
        if prevent_allocation((taint,), ()):
            yield Blocker(kind="taint", name=taint.key, text=f"taint {taint_text(taint)}")


def plugin_blocker(node: NodeName, one: TwoStacks) -> Blocker:
    """The device plugin that serves the device."""
    held = f", {one.held} in use" if one.held else ""
    text = f"the device plugin of node {node} ({one.total} {one.resource}{held})"
    return Blocker(kind="plugin", name=one.resource, text=text)


def unread_blockers(device: Device) -> Iterator[Blocker]:
    """The fields for which the device is given to nobody."""
    for path in device.unread[:NAMED_MAX]:
        yield Blocker(kind="field", name=path, text=f"field {path} is not known to this scheduler")


def _user_text(user: User) -> str:
    if not user.pods:
        return f"claim {user.claim}"
    return f"claim {user.claim}, pod {some(user.pods, 1)}"


def _rest_text(left: int, total: int) -> str:
    if left < 0:
        return f"{amount_text(total - left)} of {amount_text(total)} taken"
    return f"{amount_text(left)} of {amount_text(total)} left"
