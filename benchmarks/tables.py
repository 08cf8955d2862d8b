"""Whole tables (tables.yaml), and how long they take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks.arrivals import Search
from benchmarks.fleet import Fleet, Size, workloads
from benchmarks.loads import Arriving, Backlog, Load, Loop, Steady
from benchmarks.stages import Staged

TABLES: Final = Path(__file__).with_name("tables.yaml")

# For estimates alone, as measured on 2 cores: pods/s of ours and of bare writes, and what a stage costs.
_DRA_SPEED, _PLAIN_SPEED = 170.0, 400.0
_VOLUME_SPEED = 70.0  # the volume controller's, whoever schedules
_START_S, _CREATED_PER_S, _CLAIMS_PER_S = 5.0, 450.0, 180.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One row for each contender.

    Attributes:
        name: As in the table.
        expect: pods/s of kube-scheduler, for the estimate; 0 when the load fixes the time.
        kube_pods: kube-scheduler gets at most so many pods of it; None: all.
    """

    name: str
    fleet: Fleet
    load: Load
    contenders: tuple[str, ...]
    expect: float = 0.0
    kube_pods: int | None = None

    def seconds(self, contender: str) -> float:
        """About how long one run takes."""
        size, load = self.fleet.size, self.load
        slices = sum(1 for _ in self.fleet.slices())
        kinds = len(self.fleet.workload.before) or 1
        created = (
            size.nodes
            + slices
            + kinds * size.placed
            + 2 * size.taken / max((self.fleet.workload.bare or {}).get("take", 1), 1)
        )
        stage = _START_S + created / _CREATED_PER_S
        if isinstance(load, Steady | Loop):
            return stage + load.seconds + 4
        if isinstance(load, Search):
            return stage + 60 * (load.minutes + 1)
        pods = size.pods + (load.waiting if isinstance(load, Arriving) else 0)
        stage += pods / _CREATED_PER_S + (pods / _CLAIMS_PER_S if self.fleet.has_generated_claims else 0)
        has_devices = self.fleet.workload.claim is not None or self.fleet.workload.extended is not None
        speed = _DRA_SPEED if has_devices else _PLAIN_SPEED
        if contender == "kube":
            speed = self.expect or 40.0
        if self.fleet.workload.volume:
            speed = min(speed, _VOLUME_SPEED)
        return stage + pods / speed + 2

    def of(self, contender: str) -> Entry:
        """With the pods that it gets."""
        if contender != "kube" or self.kube_pods is None:
            return self
        size = self.fleet.size
        return replace(self, fleet=Fleet(self.fleet.workload, replace(size, pods=min(size.pods, self.kube_pods))))

    def quick(self) -> Entry:
        """As small as it can be and still work."""
        size, load = self.fleet.size, self.load
        is_shared = self.fleet.workload.sharing > 0
        nodes, pods = min(size.nodes, 10), min(size.pods, 20)
        share = size.taken / (size.nodes * size.devices)
        taken = min(int(nodes * size.devices * share), nodes * size.devices - (pods if not is_shared else 8))
        if isinstance(load, Steady):
            load = replace(load, rate=min(load.rate, 10), seconds=2)
        elif isinstance(load, Search):
            load = Search(5, 2, 0.3)
        elif isinstance(load, Loop):
            load = Loop(min(load.pods, 2), 2)
        elif isinstance(load, Arriving):
            load = replace(load, waiting=min(load.waiting, 20))
        placed = min(size.placed, 2)
        pods = min(pods, nodes - 2 * placed) if self.fleet.workload.apart else pods
        fleet = Fleet(self.fleet.workload, Size(nodes, size.devices, pods, max(taken, 0), placed))
        return replace(self, fleet=fleet, load=load)


def table(name: str) -> list[Entry]:
    """The entries of one table. Raises KeyError for a table that is not there."""
    return [entry for given in _tables()[name] for entry in _entries(given)]


def table_names() -> tuple[str, ...]:
    return tuple(_tables())


@cache
def _tables() -> Mapping[str, Any]:
    return yaml.safe_load(TABLES.read_text())


def _entries(given: Mapping[str, Any]) -> Iterator[Entry]:
    names = given["workload"] if isinstance(given["workload"], list) else [given["workload"]]
    load = _load(given.get("load", "backlog"))
    for name in names:
        size = Size(
            given.get("nodes", 500),
            given.get("devices", 8),
            given.get("pods", 1000),
            given.get("taken", 0),
            given.get("placed", 0),
        )
        label = f"{name}{load.label}{given.get('label', '')}"
        fleet = Fleet(workloads()[name], size)
        yield Entry(label, fleet, load, tuple(given["contenders"]), given.get("expect", 0.0), given.get("kube_pods"))


def _load(given: str | Mapping[str, Any]) -> Load:
    match given:
        case "backlog":
            return Backlog()
        case {"steady": rate, "seconds": seconds, **more}:
            return Steady(rate, seconds, bool(more.get("stay")))
        case {"search": first, "seconds": seconds, "minutes": minutes}:
            return Search(first, seconds, minutes)
        case {"loop": pods, "seconds": seconds}:
            return Loop(pods, seconds)
        case "stages":
            return Staged()
        case {"waiting": waiting, **more}:
            return Arriving(waiting, bool(more.get("foreign")), bool(more.get("gated")), more.get("churn", ""))
        case _:
            raise ValueError(f"tables.yaml: load {given!r} is not known")


def runs(entries: Sequence[Entry], rounds: int) -> Iterator[tuple[int, Entry, str]]:
    """Round by round all entries, and for each its contenders in turn, so that an interruption hurts all equally."""
    for round_number in range(1, rounds + 1):
        for entry in entries:
            for contender in entry.contenders:
                if contender != "bare" or entry.fleet.can_write_bare():
                    yield round_number, entry.of(contender), contender
