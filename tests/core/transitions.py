"""What a machine does with places of queued pods and stages of bindings, as rows: state, call, next state."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import pytest

from scheduler.core.binding.binding import Bindings
from scheduler.core.binding.binding_cycle import BindingCycles
from scheduler.core.binding.unreserving import Unreserving
from scheduler.core.machine import Machine
from scheduler.core.queue.scheduling_queue import SchedulingQueue
from scheduler.model.keys import PodUid

Row = tuple[str, str, str]
NONE = "-"
QUEUE_CALLS = (
    *("add", "update", "remove", "pop", "pop_searching", "fly", "rejected", "failed", "postponed", "rest"),
    *("returned", "assumed", "change", "activate", "tick", "has_active"),
)
BINDING_CALLS = (
    *((BindingCycles, name) for name in ("start", "_bind_when_certain", "_give_up", "_succeed")),
    *((Unreserving, name) for name in ("begin", "_take_back")),
)


def table(module: ModuleType) -> list[Row]:
    """The rows of the table in the module's docstring; several calls of one row are parted by commas."""
    lines = (module.__doc__ or "").splitlines()
    (head,) = [number for number, line in enumerate(lines) if re.match(r"    \S+ +call +to +when$", line)]
    rows = [re.split(r" {2,}", line.strip()) for line in itertools.takewhile(bool, lines[head + 1 :])]
    return [(state, calls, to) for state, calls, to, _ in rows]


def compare(rows: Sequence[Row], seen: Mapping[Row, int]) -> tuple[set[Row], set[Row]]:
    """What was seen and is in no row; and rows of which nothing was seen."""
    meant = {(state, call, to): (state, calls, to) for state, calls, to in rows for call in calls.split(", ")}
    return {*seen} - {*meant}, {*rows} - {meant[one] for one in seen if one in meant}


class Transitions:
    """Records them while `monkeypatch` lasts.

    Attributes:
        places, stages: How often each row was seen. A place changes by the outermost call, a stage by the innermost.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.places: Counter[Row] = Counter()
        self.stages: Counter[Row] = Counter()
        self._depth = 0
        self._calls: list[str] = []
        self._machines: dict[int, tuple[Bindings, dict[PodUid, str]]] = {}
        for name in QUEUE_CALLS:
            monkeypatch.setattr(SchedulingQueue, name, self._queue_call(name, getattr(SchedulingQueue, name)))
        for owner, name in BINDING_CALLS:
            monkeypatch.setattr(owner, name, self._binding_call(name, getattr(owner, name)))
        monkeypatch.setattr(Machine, "handle", self._handle(Machine.handle))

    def _queue_call(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(queue: SchedulingQueue, *given: Any, **named: Any) -> Any:
            if self._depth:
                return call(queue, *given, **named)
            before = _places(queue)
            self._depth += 1
            try:
                return call(queue, *given, **named)
            finally:
                self._depth -= 1
                self.places.update(_differences(before, _places(queue), name))

        return recorded

    def _binding_call(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(cycles: Any, *given: Any, **named: Any) -> Any:
            bindings = cycles.bindings if isinstance(cycles, BindingCycles) else cycles._bindings
            self._note(bindings)
            self._calls.append(name)
            try:
                return call(cycles, *given, **named)
            finally:
                self._note(bindings)
                self._calls.pop()

        return recorded

    def _note(self, bindings: Bindings) -> None:
        """Whatever has changed was changed by the call under way."""
        _, before = self._machines.setdefault(id(bindings), (bindings, {}))
        after = {uid: one.stage.value for uid, one in bindings.items()}
        self.stages.update(_differences(before, after, self._calls[-1] if self._calls else "nobody"))
        before.clear()
        before.update(after)

    def _handle(self, handle: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(machine: Machine, *given: Any, **named: Any) -> Any:
            decisions = handle(machine, *given, **named)
            self._note(machine.bindings)
            return decisions

        return recorded


def _places(queue: SchedulingQueue) -> dict[PodUid, str]:
    return {queued.uid: queued.place.value for queued in queue.all()}


def _differences(before: Mapping[PodUid, str], after: Mapping[PodUid, str], call: str) -> Iterator[Row]:
    for uid in {**before, **after}:
        row = before.get(uid, NONE), call, after.get(uid, NONE)
        if row[0] != row[2]:
            yield row
