"""What a namespace may have: so many at once, then at intervals, whatever others have."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.reports.allowances import Allowances


@given(
    waits=st.lists(st.integers(0, 500), min_size=1, max_size=60),
    at_once=st.integers(1, 5),
    every_ms=st.integers(1, 300),
)
def test_never_more_than_at_once_and_the_intervals_and_never_less(waits, at_once, every_ms) -> None:
    allowances, now_ms, taken = Allowances(at_once, every_ms), 1_000, []
    for wait in waits:
        now_ms += wait
        may_ms = allowances.next_ms("a")
        if allowances.take("a", now_ms):
            taken.append(now_ms)
            assert may_ms <= now_ms
        else:
            assert may_ms > now_ms
            assert len(taken) >= at_once
    for first, begin in enumerate(taken):
        for last, end in enumerate(taken[first:], first):
            assert last - first + 1 <= at_once + (end - begin) // every_ms


def test_namespaces_have_their_own() -> None:
    allowances = Allowances(2, 100)
    assert [allowances.take("a", 0) for _ in range(3)] == [True, True, False]
    assert allowances.take("b", 0)
    assert allowances.next_ms("a") == 100
    assert not allowances.take("a", 99)
    assert allowances.take("a", 100)


def test_who_has_waited_long_enough_is_forgotten() -> None:
    allowances = Allowances(1, 100)
    for number in range(10_000):
        assert allowances.take(f"namespace-{number}", number)
    assert len(allowances._paid_until_ms) <= 1_000
    assert not allowances.take("namespace-9999", 9_999)
