"""Measured cycles: what they decide is what others decide, and what they measure is each call."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, replace

import pytest

from scheduler.framework.api import Profile
from scheduler.framework.cycle import Cycle
from scheduler.framework.runner import Runner
from scheduler.framework.status import SUCCESS, Status
from scheduler.framework.timed_runner import Durations, TimedRunner, is_measured, measured
from scheduler.plugins import default_plugins
from tests import builders
from tests.core.plugins import Emptier, Gate, Prefer, Reject, Scaled, Slots, Zoned
from tests.core.rig import Rig


def ticking():
    """Each reading is a second later."""
    return itertools.count().__next__


def calls(durations: Durations) -> dict[tuple[str, ...], int]:
    return {key: one.count for key, one in durations.plugins.items()}


def scenario(monkeypatch: pytest.MonkeyPatch, *, clock=None, one_in: int = 1) -> Rig:
    monkeypatch.setattr("scheduler.framework.timed_runner.is_measured", lambda cycle: cycle % one_in == 0)
    rig = Rig(Slots(3), Zoned(5), Prefer(), Scaled(weight=2), Emptier(), clock=clock)
    for index in range(12):
        rig.add_nodes(f"n{index}", labels={"zone": "xyz"[index % 3], "score": str(index % 4)})
    for index in range(40):
        rig.add_pod(f"p{index}", labels={"a": str(index % 3)})
        rig.settle()
    return rig


def test_measuring_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = scenario(monkeypatch)
    some = scenario(monkeypatch, clock=ticking(), one_in=3)
    every = scenario(monkeypatch, clock=ticking())

    assert plain.decided == some.decided == every.decided
    assert not plain.machine.measured.durations.plugins
    assert some.machine.measured.durations.plugins
    asked = [sum(asked_of(rig).values(), Counter()) for rig in (plain, some, every)]
    assert asked[0] == asked[1] == asked[2]


def asked_of(rig: Rig) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for runner in (*rig.machine.runners.values(), *rig.machine.measured.runners.values()):
        for point, of in runner.evaluations.by_point().items():
            found[point] = found.get(point, Counter()) + of
    return found


def test_each_call_is_counted_with_what_it_said_and_what_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = scenario(monkeypatch, clock=ticking())

    counted, durations = calls(rig.machine.measured.durations), rig.machine.measured.durations
    slots, zoned, *_ = rig.machine.runners[builders.SCHEDULER].profile.plugins
    assert isinstance(slots, Slots)
    assert isinstance(zoned, Zoned)
    said = sum(count for (name, point, _), count in counted.items() if (name, point) == ("Slots", "Filter"))
    # The distrust of `is_paranoid` asks again; both write into one list.
    assert 0 < said <= len(slots.calls)
    assert counted["Slots", "Filter", "Success"] > 0
    assert counted["Zoned", "Filter", "Unschedulable"] > 0
    assert 0 < counted["Zoned", "Filter", "Success"] <= len(zoned.calls) + len(zoned.facts)
    assert {"Filter", "PreScore", "Score"} <= {point for point, _, _ in durations.points}
    assert all(one.total == one.count for one in durations.plugins.values())  # a second between two readings
    # Once a cycle, the sum of its calls: at least a second for each of them, of which there may be many.
    filters = durations.points["Filter", "Success", builders.SCHEDULER]
    assert filters.count == 40
    assert filters.total > 2 * filters.count


def test_an_exception_counts_as_an_error_and_is_the_pods_alone() -> None:
    @dataclass(frozen=True)
    class Breaking(Reject):
        name: str = "Breaking"

        def filter(self, cycle, node, view):
            raise ValueError("broken")

    durations = Durations()
    timed = TimedRunner(Runner(Profile(builders.SCHEDULER, (Breaking(),))), ticking(), durations)
    rig = Rig()
    rig.add_nodes("a")
    rig.settle()
    cycle = Cycle(builders.pod(), 0)
    plan = timed.plan(cycle, None, timed.pre_filter(cycle, None))
    status = timed.filter(plan.filters, cycle, rig.machine.store.node_infos["a"], None)
    timed.end_cycle()

    assert status == Status.error('running Filter plugin "Breaking": ValueError: broken').by("Breaking")
    assert calls(durations) == {("Breaking", "Filter", "Error"): 1}
    assert durations.points["Filter", "Error", builders.SCHEDULER].count == 1


def test_a_measured_plugin_is_one_of_its_kind_and_implements_what_it_did() -> None:
    profile = Profile(builders.SCHEDULER, default_plugins())
    timed = TimedRunner(Runner(profile), ticking(), Durations())

    for before, after in zip(profile.plugins, timed.profile.plugins, strict=True):
        assert isinstance(after, type(before))
        assert {name for name in dir(before) if not name.startswith("_")} == {
            name for name in dir(after) if not name.startswith("_")
        }
        assert replace(before) == before
    gate = measured(Gate(), ticking(), durations := Durations())
    assert gate.pre_enqueue(builders.pod(), None) is SUCCESS or not durations.plugins


def test_one_cycle_in_a_hundred_is_measured_whatever_takes_turns() -> None:
    assert is_measured(1)  # cycles are numbered from 1: a short life shows something too
    assert sum(map(is_measured, range(1, 10_001))) == pytest.approx(100, rel=0.02)
    for turns in (2, 3, 5, 7, 10, 20, 50, 72, 100):
        for whose in range(0, turns, 7):
            theirs = range(whose, 10_000 * turns, turns)
            assert sum(map(is_measured, theirs)) / len(theirs) == pytest.approx(0.01, rel=0.02), (turns, whose)


def test_cycles_of_a_machine_with_a_clock_are_measured_from_the_first_on() -> None:
    rig = Rig(Slots(300), clock=ticking())
    rig.add_nodes("a")
    for index in range(210):
        rig.add_pod(f"p{index}")
    rig.settle()

    looked = rig.machine.measured.durations.points["PreFilter", "Success", builders.SCHEDULER]
    assert looked.count == 3
