"""Deadlines on a clock that is set back and forward."""

from __future__ import annotations

from scheduler.core.ground.change_log import ChangeLog
from scheduler.core.ground.timers import Timers


def test_deadlines_fire_in_order_and_once():
    timers, fired = Timers(), []
    timers.advance(1_000)
    timers.at(1_200, lambda: fired.append("b"))
    timers.at(1_100, lambda: fired.append("a"))
    timers.at(1_200, lambda: fired.append("c"))
    timers.advance(1_199)
    timers.fire()
    assert fired == ["a"]
    timers.advance(1_200)
    timers.fire()
    timers.fire()
    assert fired == ["a", "b", "c"]
    assert timers.next_deadline_ms() is None


def test_a_cancelled_deadline_is_forgotten():
    timers, fired = Timers(), []
    timer = timers.at(10, lambda: fired.append("never"))
    timers.cancel(timer)
    timers.cancel(None)
    timers.advance(20)
    timers.fire()
    assert fired == []


def test_what_is_set_while_firing_waits_for_the_next_time():
    timers, fired = Timers(), []
    timers.advance(5)
    timers.at(5, lambda: timers.at(0, lambda: fired.append("again")))
    timers.fire()
    assert fired == []
    timers.fire()
    assert fired == ["again"]


def test_a_clock_set_back_does_not_postpone_deadlines():
    timers = Timers()
    timers.advance(10_000)
    timers.at(timers.now_ms + 100, lambda: None)
    timers.advance(4_000)
    assert timers.now_ms == 10_000
    assert timers.to_wall(timers.next_deadline_ms()) == 4_100
    assert timers.from_wall(4_100) == timers.next_deadline_ms()


def test_the_change_log_tells_each_node_once_and_admits_what_it_dropped():
    log = ChangeLog(nodes_max=4)
    start = log.position
    for name in ("a", "b"):
        log.note(name)
        assert log.position
    log.note("a")
    assert list(log.since(start)) == ["a", "b"]
    assert list(log.since(log.position)) == []
    for name in ("c", "d", "e"):
        before_it = log.position
        log.note(name)
    assert log.since(start) is None
    assert list(log.since(before_it)) == ["e"]
