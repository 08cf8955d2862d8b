"""Turns: what is kept of them is bounded, and order within a namespace stays."""

from __future__ import annotations

from scheduler.core.queue import turns
from scheduler.core.queue.turns import Turns


def test_a_namespace_that_comes_later_is_not_put_back_to_the_beginning():
    given = Turns()
    assert [given.give(0, "a") for _ in range(3)] == [0, 1, 2]
    given.begin(0, 2)
    assert given.give(0, "b") == 2
    assert given.give(0, "a") == 3
    assert given.give(1, "a") == 0


def test_what_is_over_is_forgotten_and_nothing_else():
    given = Turns()
    for number in range(5 * turns._KEPT_MAX):
        given.begin(0, given.give(0, f"passing-{number}"))
        given.begin(0, given.give(0, "steady"))
    assert len(given._last) <= 2 * turns._KEPT_MAX
    last = given.give(0, "steady")
    assert given.give(0, "steady") == last + 1
