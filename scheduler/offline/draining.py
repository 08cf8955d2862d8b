"""Draining a device: who holds it, where each of them would go, and in which order.

DeviceTaintRules keep new claims off it. Then its holders are evicted, one step after the other, and the scheduler
places each before the next one goes. Pods that share a claim on it, and the pods of one group, go in one step.

Rules of this module
  1. A plan was played from its first step to its last, on a cluster as it is.
  2. Three outcomes, never confused: a plan (or nobody holds it); none, though every order was tried, or as somebody may
     not move; unknown, as the questions or the steps were used up.
  3. A step takes at most as many pods as each PodDisruptionBudget allows now; the eviction API asks again before each.
  4. A device that takes its counter sets whole is the hardware itself: its partitions are drained with it.
  5. Deterministic: equal objects give equal plans.

Not here: what a move is (`moving`), words and commands (`drain_plan`).

Cost: some 10 ms for each pod that is played.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

from allocator import DeviceId, Features
from cel.quantity import Quantity
from scheduler.config.settings import Config
from scheduler.core.ground.core_settings import CoreSettings
from scheduler.core.state.store import Store
from scheduler.embedded.server.object_store import Stored
from scheduler.embedded.server.statuses import ApiError
from scheduler.framework.cycle import UNLIMITED_STEPS
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import PodUid
from scheduler.offline.altered import NoSuchObjectError, device_named
from scheduler.offline.group_mates import group_of
from scheduler.offline.moving import PLAY, Board, Move, MovePlan, Outcome, budgets_used, why_it_stays
from scheduler.offline.offline_cluster import OfflineCluster, SourceObject
from scheduler.offline.playing import BEGIN_MS
from scheduler.offline.verdicts import TURN_STEPS

TAINT: Final = {"key": "dra-scheduler/drained", "effect": "NoSchedule"}
_ORDERED_MAX: Final = 50
"""Steps of which other orders are tried than the first."""

_PARTS_MAX: Final = 500
_NOT_ASKED: Final = "was not asked about: the questions or steps were used up"
_NAME_MAX: Final = 253
_OWN_LENGTH: Final = 8

_Key: TypeAlias = tuple[str, str]
_Unit: TypeAlias = tuple[_Key, ...]


@dataclass(frozen=True, slots=True)
class Stay:
    """A holder that has no other place, and why."""

    namespace: str
    name: str
    node: str
    devices: list[dict[str, Any]]
    why: str


@dataclass(slots=True, kw_only=True)
class Drain(MovePlan):
    """The answer; without a plan, its steps are those who could go, one after the other.

    Attributes:
        devices: The device, and the partitions that are drained with it.
        rules: The DeviceTaintRules that keep new claims off them.
        stays: Who holds it and does not go.
    """

    devices: tuple[DeviceId, ...]
    rules: list[dict[str, Any]]
    stays: list[Stay] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def drain_device(
    objects: Sequence[SourceObject],
    written: str,
    config: Config | None,
    features: Features,
    *,
    questions_max: int,
    steps_max: int = UNLIMITED_STEPS,
) -> Drain:
    """Find out who holds a device and where they would go.

    Args:
        written: POOL/DEVICE or DRIVER/POOL/DEVICE.
        config: Says which plugins answer; None: the default ones.
        steps_max: Steps of costly searches, about 4 us each, for all questions.

    Raises:
        NoSuchObjectError: No such device is published or held, no taint keeps anybody off it, or a part of the objects
            is none that an API server would have.
    """
    if not features.device_taints:
        raise NoSuchObjectError(f"{written}: the feature gate DRADeviceTaints is off, so no taint keeps claims off it")
    try:
        return _Search(partial(_Table, objects, written, config, features), questions_max, steps_max).find()
    except ApiError as error:  # of a dump that no API server wrote
        raise NoSuchObjectError(f"an API server refuses a part of the objects: {error.message}") from error


class _Table(Board):
    """The cluster with the device tainted, and the pods that run."""

    def __init__(
        self, objects: Sequence[SourceObject], written: str, config: Config | None, features: Features
    ) -> None:
        cluster = OfflineCluster(BEGIN_MS)
        cluster.load(objects)
        super().__init__(cluster, config, features, settings=CoreSettings(reports_causes=True))
        published = {device.id for one in self.store.inventory.slices.values() for device in one.devices}
        holders = self.machine.overlay.double_allocations.holders
        self.drained: Final = _with_parts(self.store, device_named(written, published | holders.keys()))
        if len(self.drained) > _PARTS_MAX:
            parts = f"it has {len(self.drained) - 1} partitions, and {_PARTS_MAX - 1} at most are drained with it"
            raise NoSuchObjectError(f"{written}: {parts}")
        self.rules: Final = [_rule(device, features) for device in self.drained]
        cluster.add([SourceObject("the rule", rule) for rule in self.rules])
        self._decide()

    def stay(self, key: _Key, why: str) -> Stay:
        (pod,) = self.stored([key])
        return Stay(*key, str(pod.obj["spec"].get("nodeName")), self.devices(pod), why)


def _with_parts(store: Store, device: DeviceId) -> tuple[DeviceId, ...]:
    slices = [one for one in store.inventory.slices.values() if (one.driver, one.pool) == device.pool_id]
    totals = {each.name: _nano(each.counters) for one in slices for each in one.shared_counters}
    taken = [(each.id, each.consumes_counters) for one in slices for each in one.devices]
    whole = {
        each.counter_set
        for name, sets in taken
        for each in sets
        if name == device and _nano(each.counters) == totals.get(each.counter_set)
    }
    parts = {name for name, sets in taken if any(each.counter_set in whole for each in sets)}
    return device, *sorted(parts - {device})


def join_units(units: dict[str, set[str]], uids: Iterable[str]) -> None:
    """Make one of the units of these pods, in `units`, which has for each pod's uid all that go with it.

    A group of 2,000 with a claim each took a minute, so the smaller ones are moved into the largest: of n pods, none is
    moved more than log2(n) times.
    """
    largest, *others = sorted({id(units[uid]): units[uid] for uid in uids}.values(), key=len, reverse=True) or [set()]
    for one in others:
        largest |= one
        units |= dict.fromkeys(one, largest)


def _nano(counters: Iterable[tuple[str, Quantity]]) -> dict[str, int]:
    return {name: amount.nano for name, amount in counters}


def _rule(device: DeviceId, features: Features) -> dict[str, Any]:
    return {
        "apiVersion": f"resource.k8s.io/{'v1' if features.has_137_semantics else 'v1beta2'}",
        "kind": "DeviceTaintRule",
        "metadata": {"name": _rule_name(device)},
        "spec": {"deviceSelector": device._asdict(), "taint": dict(TAINT)},
    }


def _rule_name(device: DeviceId) -> str:
    """Names that are cut, or read alike when they are joined, differ in its end."""
    read = re.sub("[^a-z0-9]", "-", f"drain-{device.device}-{device.pool}-{device.driver}".lower())
    own = hashlib.sha256(str(device).encode()).hexdigest()[:_OWN_LENGTH]
    return f"{read[: _NAME_MAX - 1 - _OWN_LENGTH]}-{own}"


class _Search:
    """One search.

    Args:
        new_table: Gives the cluster as it is, with the device tainted.
    """

    def __init__(self, new_table: Callable[[], _Table], questions_max: int, steps_max: int) -> None:
        self._new_table: Final = new_table
        table = self._table = new_table()
        self._questions_max: Final = questions_max
        table.run.turns_left = steps_max // TURN_STEPS
        self._drain: Final = Drain(outcome=Outcome.FREE, devices=table.drained, rules=table.rules)
        self._is_over = False

    def find(self) -> Drain:
        drain, table = self._drain, self._table
        going: list[_Unit] = []
        for unit in self._units():
            cannot = self._cannot(unit)
            drain.stays += (table.stay(key, why) for key, why in cannot.items())
            going += [] if cannot else [unit]
        must_stay = bool(drain.stays)
        drain.budgets = budgets_used(table.store, [pod.uid for unit in going for pod in table.stored(unit)])
        waiting = self._go_in_first_order(going)
        if waiting and not must_stay and 1 < len(going) <= _ORDERED_MAX and not self._is_over:
            self._take_a_new_table()
            found = self._ordered(going)
            if found is not None and (replayed := self._replayed(found)) is not None:
                drain.steps, waiting = replayed, {}
        drain.stays += (self._table.stay(key, why) for unit, why in waiting.items() for key in unit)
        if waiting and not must_stay and (self._is_over or len(going) > _ORDERED_MAX):
            drain.outcome = Outcome.UNKNOWN
        elif drain.stays:
            drain.outcome = Outcome.NONE
        elif drain.steps:
            drain.outcome = Outcome.PLAN
        drain.is_out_of_steps = not self._table.run.turns_left
        drain.problems = table.problems
        return drain

    # -- who goes ----------------------------------------------------------------------------------

    def _units(self) -> list[_Unit]:
        """Who goes at once: those of most devices first, then the most important."""
        table = self._table
        # Those without a node are left out of the store.
        there = {uid for uid, pod in table.store.pods.items() if not pod.is_terminal}
        running = {pod.uid: pod for pod in table.cluster.stored_pods() if pod.uid in there}
        groups: dict[object, set[str]] = {}
        units: dict[str, set[str]] = {}  # of each uid: who goes with it
        for uid, pod in running.items():
            units[uid] = groups.setdefault(group_of(pod.obj) or uid, set())
            units[uid].add(uid)
        holders = table.machine.overlay.double_allocations.holders
        uids = {uid for device in table.drained for uid in holders.get(device, ())}
        holding: set[str] = set()
        for claim in sorted([table.store.claims[uid] for uid in uids], key=lambda one: one.key):
            users = self._users(claim, running)
            join_units(units, users)
            holding |= users

        def rank(unit: set[str]) -> tuple[int, int, _Unit]:
            devices = sum(len(table.devices(running[uid])) for uid in unit)
            priority = max(table.store.pods[PodUid(uid)].priority for uid in unit)
            return -devices, -priority, tuple(sorted((running[uid].namespace, running[uid].name) for uid in unit))

        return [names for _, _, names in sorted(map(rank, {id(units[uid]): units[uid] for uid in holding}.values()))]

    def _users(self, claim: ResourceClaim, running: Mapping[str, Stored]) -> set[str]:
        """Uids of the pods that a claim is reserved for; whoever else has it stays, and is told."""
        namespace, name = claim.key.namespace, claim.key.name
        if not claim.reserved_for:
            self._drain.notes.append(f"claim {namespace}/{name} has it, and is reserved for nobody")
        for one in claim.reserved_for:
            if one.pod_uid is None:
                why = f"keeps claim {name} as long as this {one.resource.removesuffix('s')} is there"
                self._drain.stays.append(Stay(namespace, one.name, "", [], why))
            elif one.uid not in running:
                why = f"has claim {name}, and is no pod that runs among the objects"
                self._drain.stays.append(Stay(namespace, one.name, "", [], why))
        return {one.uid for one in claim.reserved_for if one.pod_uid is not None and one.uid in running}

    def _cannot(self, unit: _Unit) -> dict[_Key, str]:
        """Why each of these pods stays, where one of them must."""
        table = self._table
        pods = table.stored(unit)
        whys = {(pod.namespace, pod.name): why_it_stays(table.cluster, pod) for pod in pods}
        stays = ["/".join(key) for key, why in whys.items() if why]
        if stays:
            return {key: why or f"goes together with {stays[0]}, which stays" for key, why in whys.items()}
        for (namespace, name), (used, allowed) in budgets_used(table.store, [pod.uid for pod in pods]).items():
            if used > allowed:
                at_once = f", and {used} would go at once" if used > 1 else ""
                why = f"PodDisruptionBudget {namespace}/{name} allows {allowed} of its pods to go now{at_once}"
                return dict.fromkeys(unit, why)
        return {}

    def _take_a_new_table(self) -> None:
        """The cluster as it was; what was used up stays so."""
        turns_left = self._table.run.turns_left
        self._table = self._new_table()
        self._table.run.turns_left = turns_left

    # -- where they go -----------------------------------------------------------------------------

    def _go_in_first_order(self, units: Sequence[_Unit]) -> dict[_Unit, str]:
        """Play each that can go, whether or not those before it could; those that cannot, and why."""
        waiting: dict[_Unit, str] = {}
        for unit in units:
            moved = self._moved(unit)
            if isinstance(moved, str):
                waiting[unit] = moved
            else:
                self._drain.steps.append(moved)
        return waiting

    def _ordered(self, units: Sequence[_Unit]) -> list[_Unit] | None:
        """An order in which all can go; then they have gone."""
        for unit in units:
            saved = self._table.snapshot(self._table.stored(unit))
            if isinstance(self._moved(unit), str):
                continue
            rest = [one for one in units if one is not unit]
            if (found := self._ordered(rest) if rest else []) is not None:
                return [unit, *found]
            self._table.restore(saved)
        return None

    def _replayed(self, units: Sequence[_Unit]) -> list[list[Move]] | None:
        """The same on a new cluster, where nothing that was tried in vain has left a trace."""
        self._take_a_new_table()
        steps = [moved for unit in units if not isinstance(moved := self._moved(unit), str)]
        return steps if len(steps) == len(units) else None

    def _moved(self, unit: _Unit) -> list[Move] | str:
        """Who goes, gone; or why one of them would not get away, and then nobody went."""
        table, drain = self._table, self._drain
        most = self._questions_max - PLAY * len(unit)
        self._is_over = self._is_over or not table.run.turns_left or drain.questions > most
        if self._is_over:
            return _NOT_ASKED
        drain.questions += PLAY * len(unit)
        pods = table.stored(unit)
        saved = table.snapshot(pods)
        moved = table.move(pods)
        if not isinstance(moved, list):
            why = f"would wait: {moved.reason}"
            self._is_over = not table.run.turns_left
        elif any((one["driver"], one["pool"], one["device"]) in table.drained for move in moved for one in move.given):
            why = f"tolerates the taint {TAINT['key']}, and would be given the device again"
        else:
            return moved
        table.restore(saved)
        return _NOT_ASKED if self._is_over else why
