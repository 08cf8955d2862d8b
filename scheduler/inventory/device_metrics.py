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
from scheduler.kube.device_families import DeviceNumbers
from scheduler.model.objects import Pod
from scheduler.model.timestamps import parse_rfc3339_ms
from scheduler.why.kinds import KINDS
from scheduler.why.reasons import FIRST_LOOK

log = logging.getLogger(__name__)

_Labels: TypeAlias = tuple[str, ...]
_Numbers: TypeAlias = dict[_Labels, float]

OTHER: Final = "other"
UNKNOWN: Final = "unknown"
_SERIES_MAX: Final = 100
_LENGTH_MAX: Final = 100  # of a profile's name; one without is named by its counters
_STATES: Final[tuple[State, ...]] = get_args(State)
_AGES_S: Final = ((60, "<1m"), (600, "<10m"), (3600, "<1h"), (float("inf"), ">=1h"))
_PART: Final = 1_000
"""Pods or claims that are looked at in one part, some 3 ms."""

_PART_S: Final = 0.005
_PART_STEPS: Final = 1_250  # about as long, of what the inventory's meter counts
_REST: Final = 9
_LONG_RUN: Final = 50
_GAP_S: Final = 5.0
_SPENT_S_MAX: Final = 30.0


class CountedDevices:
    """The numbers of a machine's cluster. Made and used in a running event loop.

    Args:
        node_label: Label of nodes whose value is their node pool; None: there are no pools.
        now_ms: Unix time.
    """

    def __init__(self, machine: Machine, node_label: str | None, now_ms: Callable[[], int]) -> None:
        self._machine: Final = machine
        self._node_label: Final = node_label
        self._now_ms: Final = now_ms
        self._loop: Final = asyncio.get_running_loop()
        self._going: Parts[DeviceNumbers] | None = None
        self._next_part: asyncio.TimerHandle | None = None
        self._spent_s = self._next_s = 0.0
        self._made: DeviceNumbers | None = None
        self._begun_ms = self._made_ms = 0

    def newest(self) -> DeviceNumbers | None:
        """What was counted last, None before that; begins to count when it is time, and ends at once if it can."""
        if self._going is None and self._loop.time() >= self._next_s:
            self._spent_s, self._begun_ms = 0.0, self._now_ms()
            self._going = count_devices(self._machine, self._node_label, self._begun_ms)
            self._go_on()
        if self._made is None:
            return None
        return {**self._made, "counted_age_seconds": {(): max(0, self._now_ms() - self._made_ms) / 1000}}

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
            self._made, self._made_ms = ended.value, self._begun_ms
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
    devices: dict[_Labels, Counter[State]] = {}
    partitions, tainted = [], {}
    for batch in listing.batches():
        for seen, state in batch:
            device = seen.device
            pool = _node_pool(machine, seen.slice.node_name or device.node_name, node_label)
            for name in seen.classes or ("",):
                devices.setdefault((device.id.driver, name, pool), Counter())[state] += 1
            if device.consumes_counters:
                partitions.append((seen, state))
            if device.taints and prevent_allocation(device.taints, ()):
                tainted[device.id] = device
        yield
    largest: _Numbers = {}
    for name in listing.classes:
        largest[name,] = (yield from listing.largest(name)).count
    by_profile: dict[_Labels, Counter[State]] = {}
    together: _Numbers = {}
    for one in (yield from listing.profiles(partitions)):
        named = one.profile or ", ".join(f"{counter}={amount}" for counter, amount in one.counters.items())
        labels = one.driver, named[:_LENGTH_MAX]
        by_profile.setdefault(labels, Counter()).update(structs.asdict(one.states))
        together[labels] = together.get(labels, 0) + one.together
    held = (yield from _tainted_held(machine, tainted, now_ms)) if tainted else {}
    pods = _waiting(machine) if waiting is None else waiting
    counts, oldest, wanted = yield from _waits(machine, pods, now_ms)
    return {
        "devices": bounded(_by_state(devices), apart=1),
        "largest_request": bounded(largest, join=max),
        "partitions": bounded(_by_state(by_profile), apart=1),
        "partitions_free_together": bounded(together),
        "tainted_device_held_seconds": bounded(held, join=max),
        "waiting_pods": bounded(counts, apart=1),
        "waiting_pods_oldest_seconds": bounded(oldest, join=max),
        "waiting_pods_smallest_request": bounded(wanted, join=min),
        "counted_age_seconds": {(): 0.0},
    }


def bounded(
    numbers: Mapping[_Labels, float], *, apart: int = 0, join: Callable[[float, float], float] = operator.add
) -> _Numbers:
    """The numbers of the largest combinations of labels, and what `join` makes of the others.

    Args:
        apart: So many labels at the end have few values, and are told of `other`, too.
    """
    sizes: _Numbers = {}
    for labels, number in numbers.items():
        key = labels[: len(labels) - apart]
        sizes[key] = join(sizes[key], number) if key in sizes else number
    told = set(sorted(sizes, key=lambda key: (-sizes[key], key))[:_SERIES_MAX])
    found: _Numbers = {}
    for labels, number in numbers.items():
        key = labels[: len(labels) - apart]
        to = labels if key in told else (*(OTHER for _ in key), *labels[len(key) :])
        found[to] = join(found[to], number) if to in found else number
    return found


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
    info = machine.store.node_infos.get(node) if label is not None and node else None
    return (info.node.metadata.labels or {}).get(label or "", "") if info is not None else ""


def _by_state(counts: Mapping[_Labels, Counter[State]]) -> _Numbers:
    """With each state: a series that ends is not one that says 0."""
    return {(*labels, state): counted[state] for labels, counted in counts.items() for state in _STATES}


def _tainted_held(machine: Machine, tainted: Mapping[DeviceId, Device], now_ms: int) -> Parts[_Numbers]:
    """Seconds since devices were tainted that a claim holds which does not tolerate it."""
    found: _Numbers = {}
    for number, claim in enumerate(tuple(machine.store.claims.values()), 1):
        if not number % _PART:
            yield
        for result in claim.allocation.results if claim.allocation is not None else ():
            device = tainted.get(result.device_id)
            if device is None or result.admin_access:
                continue
            against = [one.time_added for one in device.taints if prevent_allocation((one,), result.tolerations)]
            if against:
                since_ms = min(parse_rfc3339_ms(added or "") or now_ms for added in against)
                found[device.id] = max(found.get(device.id, 0.0), (now_ms - since_ms) / 1000)
    return found


def _waiting(machine: Machine) -> Iterable[tuple[Pod, str]]:
    pods = [one.pod for one in machine.queue.all() if one.place is not Place.IN_FLIGHT]
    return ((pod, cause_kind(pod)) for pod in pods)


def _waits(
    machine: Machine, waiting: Iterable[tuple[Pod, str]], now_ms: int
) -> Parts[tuple[_Numbers, _Numbers, _Numbers]]:
    """By cause how many wait and how old the oldest is; by class the fewest devices that one of them asks for."""
    counts: _Numbers = {}
    oldest: _Numbers = {}
    wanted: _Numbers = {}
    for number, (pod, cause) in enumerate(waiting, 1):
        if not number % _PART:
            yield
        since_ms = parse_rfc3339_ms(pod.metadata.creation_timestamp or "") or now_ms
        age_s = max(0.0, (now_ms - since_ms) / 1000)
        labels = cause, next(name for limit_s, name in _AGES_S if age_s < limit_s)
        counts[labels] = counts.get(labels, 0) + 1
        oldest[cause,] = max(oldest.get((cause,), 0.0), age_s)
        for name, count in _asked(machine, pod).items():
            wanted[name,] = min(wanted.get((name,), count), count)
    return counts, oldest, wanted


def _asked(machine: Machine, pod: Pod) -> Counter[str]:
    """How many devices of each class the pod's claims still ask for; alternatives and "all" are not counted."""
    found: Counter[str] = Counter()
    for key in machine.store.claims_of(pod.uid):
        claim = machine.store.claims.get(key)
        if claim is None or claim.spec is None or claim.allocation is not None:
            continue
        for request in claim.spec.requests:
            one = request.exactly
            if one is not None and one.allocation_mode == "ExactCount" and not one.admin_access:
                found[one.device_class_name] += one.count
    return found
