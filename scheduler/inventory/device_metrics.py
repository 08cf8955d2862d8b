"""Numbers of devices, and of pods that wait, for Prometheus: counted as `dra-scheduler devices` counts them.

Rules of this module
  1. States, largest requests and partitions are those of `listing`; nothing here judges a device.
  2. Labels are bounded: of a family `_SERIES_MAX` combinations are told, the largest; the others together, as `other`.
  3. `CountedDevices` counts only while somebody asks, in parts of some milliseconds, and takes at most a tenth of the
     time meanwhile and a fiftieth in the long run. The machine goes on between two parts: what a number says was so
     when it was counted, and two may be of different moments. What takes too long is given up, and the age says so.

Not here: names and texts of the metrics (`kube.device_families`).
"""

from __future__ import annotations

import asyncio
import logging
import operator
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias, get_args

from msgspec import structs

from allocator import Device, DeviceId, prevent_allocation
from scheduler.core.machine import Machine
from scheduler.core.queue.queued_pod import Place
from scheduler.core.reports.pod_conditions import condition_of
from scheduler.framework.diagnosis import cause_of
from scheduler.inventory.device_answer import State
from scheduler.inventory.listing import Filter, Listing
from scheduler.inventory.parts import Parts
from scheduler.kube.device_families import DeviceNumbers, Values
from scheduler.model.keys import NodeName
from scheduler.model.objects import Pod
from scheduler.model.special_claim import asks_extended_resources, special_claim_key
from scheduler.model.timestamps import parse_rfc3339_ms
from scheduler.plugins.dynamic_resources.extended_resources import (
    class_by_resource,
    requested_resources,
    special_requests,
)
from scheduler.why.kinds import KINDS
from scheduler.why.reasons import FIRST_LOOK

log = logging.getLogger(__name__)

Labels: TypeAlias = tuple[str, ...]

OTHER: Final = "other"
UNKNOWN: Final = "unknown"
_SERIES_MAX: Final = 100
_LENGTH_MAX: Final = 100  # of a profile's name; one without is named by its counters
_STATES: Final[tuple[State, ...]] = get_args(State)
_AGES_S: Final = ((60, "<1m"), (600, "<10m"), (3600, "<1h"), (float("inf"), ">=1h"))
_PART: Final = 1_000  # pods or claims, some 3 ms
_PART_S: Final = 0.005
_PART_STEPS: Final = 1_250  # about as long, of what the inventory's meter counts
_REST: Final = 9
_LONG_RUN: Final = 50
_GAP_S: Final = 5.0
_SPENT_S_MAX: Final = 30.0


class Counted:
    """The numbers that were counted last.

    Args:
        now_ms: Unix time.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms: Final = now_ms
        self._made: tuple[DeviceNumbers, int] | None = None

    def keep(self, numbers: DeviceNumbers, made_ms: int) -> None:
        """They are of that time."""
        self._made = numbers, made_ms

    def newest(self) -> DeviceNumbers | None:
        """With their age; None before there are any."""
        if self._made is None:
            return None
        numbers, made_ms = self._made
        return {**numbers, "counted_age_seconds": {(): max(0, self.now_ms() - made_ms) / 1000}}


class CountedDevices(Counted):
    """Those of a machine's cluster, counted while somebody asks. Made and used in a running event loop.

    Args:
        node_label: Label of nodes whose value is their node pool; None: there are no pools.
    """

    def __init__(self, machine: Machine, node_label: str | None, now_ms: Callable[[], int]) -> None:
        super().__init__(now_ms)
        self._machine: Final = machine
        self._node_label: Final = node_label
        self._loop: Final = asyncio.get_running_loop()
        self._going: Parts[DeviceNumbers] | None = None
        self._next_part: asyncio.TimerHandle | None = None
        self._spent_s = self._next_s = 0.0
        self._begun_ms = 0

    def newest(self) -> DeviceNumbers | None:
        """Begins to count when it is time, and ends at once if it can."""
        if self._going is None and self._loop.time() >= self._next_s:
            self._spent_s, self._begun_ms = 0.0, self.now_ms()
            self._going = count_devices(self._machine, self._node_label, self._begun_ms)
            self._go_on()
        return super().newest()

    def stop(self) -> None:
        """Count no more."""
        if self._next_part is not None:
            self._next_part.cancel()

    def _go_on(self) -> None:
        going, meter = self._going, self._machine.store.inventory.meter
        assert going is not None
        begun_s = time.perf_counter()
        is_done = True
        try:
            while True:
                meter.allow(_PART_STEPS)
                next(going)
                if time.perf_counter() - begun_s >= _PART_S:
                    is_done = False
                    break
        except StopIteration as ended:
            self.keep(ended.value, self._begun_ms)
        except Exception:
            log.exception("devices cannot be counted for metrics; this is a defect of the scheduler")
        finally:
            meter.allow_all()
        spent_s = time.perf_counter() - begun_s
        self._spent_s += spent_s
        if is_done or self._spent_s >= _SPENT_S_MAX:
            self._going = self._next_part = None
            self._next_s = self._loop.time() + max(_GAP_S, _LONG_RUN * self._spent_s)
        else:
            self._next_part = self._loop.call_later(_REST * spent_s, self._go_on)


def count_devices(
    machine: Machine, node_label: str | None, now_ms: int, waiting: Iterable[tuple[Pod, str]] | None = None
) -> Parts[DeviceNumbers]:
    """All numbers.

    Args:
        waiting: The pods that wait, each with the kind of its cause; None: the machine's own, as their conditions say.
    """
    listing = Listing(machine, Filter())
    yield from listing.look()
    devices, partitions, together = Counter[Labels](), Counter[Labels](), Counter[Labels]()
    parts = []
    tainted: dict[DeviceId, Device] = {}
    for batch in listing.batches():
        for seen, state in batch:
            device = seen.device
            pool = _node_pool(machine, seen.slice.node_name or device.node_name, node_label)
            for name in seen.classes or ("",):
                devices[device.id.driver, name, pool, state] += 1
            if device.consumes_counters:
                parts.append((seen, state))
            if device.taints and prevent_allocation(device.taints, ()):
                tainted[device.id] = device
        yield
    for labels in tuple(devices):  # a series that ends is not one that says 0
        devices.update({(*labels[:-1], state): 0 for state in _STATES})
    largest: dict[Labels, float] = {}
    for name in listing.classes:
        largest[name,] = (yield from listing.largest(name)).count
        yield
    for one in (yield from listing.profiles(parts)):
        named = one.profile or ", ".join(f"{counter}={amount}" for counter, amount in one.counters.items())
        labels = one.driver, named[:_LENGTH_MAX]
        partitions.update({(*labels, state): count for state, count in structs.asdict(one.states).items()})
        together[labels] += one.together
    parts.clear()
    yield from listing.forget()
    held = (yield from _tainted_held(machine, tainted, now_ms)) if tainted else {}
    pods = _waiting(machine) if waiting is None else waiting
    counts, oldest, wanted = yield from _waits(machine, pods, now_ms)
    return {
        "devices": bounded(devices, apart=1),
        "largest_request": bounded(largest, join=max),
        "partitions": bounded(partitions, apart=1),
        "partitions_free_together": bounded(together),
        "tainted_device_held_seconds": bounded(held, join=max),
        "waiting_pods": bounded(counts, apart=1),
        "waiting_pods_oldest_seconds": bounded(oldest, join=max),
        "waiting_pods_smallest_request": bounded(wanted, join=min),
        "counted_age_seconds": {(): 0.0},
    }


def bounded(numbers: Values, *, apart: int = 0, join: Callable[[float, float], float] = operator.add) -> Values:
    """The numbers of the largest combinations of labels, and what `join` makes of the others.

    Args:
        apart: So many labels at the end have few values, and are told of `other`, too.
    """

    def joined(named: Callable[[Labels], Labels]) -> dict[Labels, float]:
        found: dict[Labels, float] = {}
        for labels, number in numbers.items():
            to = named(labels)
            found[to] = join(found[to], number) if to in found else number
        return found

    width = max(map(len, numbers), default=0) - apart
    sizes = joined(lambda labels: labels[:width])
    told = set(sorted(sizes, key=lambda key: (-sizes[key], key))[:_SERIES_MAX])
    return joined(lambda labels: labels if labels[:width] in told else (*[OTHER] * width, *labels[width:]))


def cause_kind(pod: Pod) -> str:
    """The kind of the cause that a pod's condition says, `unknown` where it says none."""
    said = condition_of(pod)
    if said is None:
        return UNKNOWN
    if said.reason == "SchedulingGated":
        return "scheduling-gate"
    kind = cause_of(said.message).partition("]")[0].removeprefix("[").removesuffix(FIRST_LOOK)
    return kind if kind in KINDS else UNKNOWN


def _node_pool(machine: Machine, node: str | None, label: str | None) -> str:
    """Of a device that one node has; "" for one of several nodes, and without pools."""
    info = machine.store.node_infos.get(NodeName(node)) if label and node else None
    return (info.node.metadata.labels or {}).get(label or "", "") if info is not None else ""


def _tainted_held(machine: Machine, tainted: Mapping[DeviceId, Device], now_ms: int) -> Parts[dict[Labels, float]]:
    """Seconds since devices were tainted that a claim holds which does not tolerate it."""
    found: dict[Labels, float] = {}
    for number, claim in enumerate(tuple(machine.store.claims.values()), 1):
        if not number % _PART:
            yield
        for result in claim.allocation.results if claim.allocation is not None else ():
            device = tainted.get(result.device_id)
            if device is None or result.admin_access:
                continue
            against = [one.time_added for one in device.taints if prevent_allocation((one,), result.tolerations)]
            if against:
                age_s = max(_age_s(added, now_ms) for added in against)
                found[device.id] = max(found.get(device.id, 0.0), age_s)
    return found


def _waiting(machine: Machine) -> Iterable[tuple[Pod, str]]:
    pods = [one.pod for one in machine.queue.all() if one.place is not Place.IN_FLIGHT]
    return ((pod, cause_kind(pod)) for pod in pods)


def _waits(machine: Machine, waiting: Iterable[tuple[Pod, str]], now_ms: int) -> Parts[tuple[Values, Values, Values]]:
    """By cause how many wait and how old the oldest is; by class the fewest devices that one of them asks for."""
    counts: Counter[Labels] = Counter()
    oldest: dict[Labels, float] = {}
    wanted: dict[Labels, float] = {}
    for number, (pod, cause) in enumerate(waiting, 1):
        if not number % _PART:
            yield
        age_s = _age_s(pod.metadata.creation_timestamp, now_ms)
        counts[cause, next(name for limit_s, name in _AGES_S if age_s < limit_s)] += 1
        oldest[cause,] = max(oldest.get((cause,), 0.0), age_s)
        for name, count in _asked(machine, pod).items():
            wanted[name,] = min(wanted.get((name,), count), count)
    return counts, oldest, wanted


def _age_s(timestamp: str | None, now_ms: int) -> float:
    """0 where nobody says since when."""
    return max(0, now_ms - (parse_rfc3339_ms(timestamp or "") or now_ms)) / 1000


def _asked(machine: Machine, pod: Pod) -> Counter[str]:
    """How many devices of each class the pod still asks for; alternatives and "all" of claims are not counted."""
    store = machine.store
    claims = filter(None, map(store.claim, store.claims_of(pod.uid)))
    specs = [claim.spec for claim in claims if claim.spec is not None and claim.allocation is None]
    found: Counter[str] = Counter()
    for one in (request.exactly for spec in specs for request in spec.requests):
        if one is not None and one.allocation_mode == "ExactCount" and not one.admin_access:
            found[one.device_class_name] += one.count
    if asks_extended_resources(pod) and store.claim(special_claim_key(pod)) is None:
        by_resource = class_by_resource(store.inventory) if store.features.extended_resource else {}
        named = {name: by_resource[name] for name in requested_resources(pod) if name in by_resource}
        for asked in special_requests(pod, named).requests:
            found[asked.device_class] += asked.count
    return found
