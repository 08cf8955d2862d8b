"""The ledger of what is remembered: nothing is lost from the sums, and what goes first."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from allocator.values.remembered import Cache, MemoryLedger

LIMIT = 640
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.sampled_from("abc"), st.just(0)),
        st.tuples(st.sampled_from(("put", "get", "grow", "forget")), st.integers(0, 9), st.integers(0, 400)),
    ),
    max_size=60,
)


@dataclass(eq=False)
class Value:
    kept: int


@given(STEPS)
def test_the_sums_are_those_of_what_is_kept_and_within_the_limit_but_for_what_the_last_turn_used(steps: list) -> None:
    gone: list[Value] = []
    ledger = MemoryLedger(lambda: LIMIT)
    caches: list[Cache[int, Value]] = [Cache(ledger, what, forgotten=gone.append) for what in "xy"]
    used: set[Value] = set()
    for index, (what, which, size) in enumerate(steps):
        cache = caches[index % 2]
        before = dict(cache.items()).get(which)
        if what == "begin":
            ledger.begin(which)
            there = {value for one in caches for _, value in one.items()}
            assert used <= there
            assert ledger.size == sum(value.kept for value in there) == sum(ledger.by_what.values())
            assert ledger.size <= LIMIT or {value for value in there if value.kept} <= used
            used.clear()
        elif what == "put":
            used.add(cache.put(which, Value(size)))
        elif what == "forget":
            assert cache.forget(which) is before
        elif (value := cache.get(which)) is not None:
            used.add(value)
            value.kept += size if what == "grow" else 0
        if what in ("put", "forget") and before is not None:
            assert gone[-1] is before
            used.discard(before)
    for cache in caches:
        cache.clear()
    assert ledger.size == 0
    assert set(ledger.by_what.values()) == {0}


def small() -> tuple[MemoryLedger, Cache[object, Value]]:
    ledger = MemoryLedger(lambda: 100)
    return ledger, Cache(ledger, "x")


def test_who_has_most_loses_what_it_used_longest_ago() -> None:
    ledger, cache = small()
    ledger.begin("little")
    for number in range(3):
        cache.put(f"little-{number}", Value(10))
    for number in range(30):
        ledger.begin("much")
        cache.put(f"much-{number}", Value(10))
    ledger.begin("much")
    assert list(cache) == ["little-0", "little-1", "little-2", *(f"much-{number}" for number in range(24, 30))]


def test_two_that_have_as_much_share_what_there_is() -> None:
    ledger, cache = small()
    for number in range(40):
        ledger.begin("ab"[number % 2])
        cache.put(number, Value(10))
    ledger.begin("")
    odd = [number for number in cache if isinstance(number, int) and number % 2]
    assert len(odd) in (4, 5, 6)
    assert 9 <= len(cache) <= 10


def test_what_is_used_again_stays() -> None:
    ledger, cache = small()
    for number in range(20):
        ledger.begin("a")
        cache.put(number, Value(20))
        cache.get(0)
    ledger.begin("a")
    assert list(cache) == [0, 17, 18, 19]


def test_a_value_larger_than_all_that_may_be_stays_while_it_is_used() -> None:
    ledger, cache = small()
    ledger.begin("a")
    cache.put("large", Value(1_000))
    for turn in range(3):
        ledger.begin("b")
        assert cache.get("large") is not None, turn
    ledger.begin("b")
    cache.put("next", Value(10))
    ledger.begin("b")
    assert list(cache) == ["next"]


def test_the_limit_is_asked_for_each_time_and_may_shrink() -> None:
    limit = 100
    ledger = MemoryLedger(lambda: limit)
    cache: Cache[int, Value] = Cache(ledger, "x")
    for number in range(10):
        ledger.begin("a")
        cache.put(number, Value(10))
    ledger.begin("a")
    assert len(cache) == 10
    limit = 35
    ledger.begin("a")
    assert list(cache) == [7, 8, 9]


def test_whoever_is_told_may_forget_more() -> None:
    """As plans do, with which slots go."""
    ledger = MemoryLedger(lambda: 30)
    second: Cache[int, Value] = Cache(ledger, "y")
    first: Cache[int, Value] = Cache(ledger, "x", forgotten=lambda value: second.forget(value.kept))
    for number in range(9):
        ledger.begin("a")
        second.put(number, Value(0))
        first.put(number, Value(number))
    ledger.begin("a")
    assert list(first) == list(second) == [4, 5, 6, 7, 8]


def test_what_is_remembered_in_words() -> None:
    ledger = MemoryLedger()
    assert ledger.text() == "remembered to answer sooner: about 0.0 MiB"
    Cache[int, Value](ledger, "x").put(1, Value(3 * 2**19))
    Cache[int, Value](ledger, "y")
    ledger.begin("")
    assert ledger.text() == "remembered to answer sooner: about 1.5 MiB (x 1.5)"
