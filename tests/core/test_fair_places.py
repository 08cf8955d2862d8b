"""Places are shared by namespaces: nobody takes all, and whoever has none gets one."""

from __future__ import annotations

import pytest

from scheduler.core.ground.fair_places import FairPlaces


def taken(places: FairPlaces, namespace: str, wanted: int = 1_000) -> int:
    """How many of the wanted places a namespace gets when it asks for one after another."""
    for count in range(wanted):
        if not places.may_take(namespace):
            return count
        places.take(namespace)
    return wanted


@pytest.mark.parametrize(("size", "wanted"), [(1, 1), (2, 2), (3, 3), (48, 36), (64, 48), (256, 192)])
def test_a_namespace_alone_gets_three_quarters(size, wanted):
    assert taken(FairPlaces(size), "a") == wanted


def test_whoever_comes_next_gets_some_of_what_is_left():
    places = FairPlaces(64)
    assert [taken(places, name) for name in "abcdef"] == [48, 12, 3, 1, 1, 1]
    assert places.free == -2


def test_whoever_has_none_gets_one_up_to_the_end():
    places = FairPlaces(4, most=6)
    assert [taken(places, f"n{number}") for number in range(6)] == [3, 1, 1, 1, 0, 0]
    places.give_back("n1")
    assert taken(places, "n4") == 1


def test_what_has_become_too_many_is_not_taken_again():
    """Who has more than three times what is free gets none of what it gives back, until the others have enough."""
    places = FairPlaces(64)
    counts = {name: taken(places, name) for name in "abcd"}
    for _ in range(100):
        for name in [name for name in counts if counts[name]]:
            places.give_back(name)
            counts[name] -= 1
        while takers := [name for name in counts if places.may_take(name)]:
            for name in takers:
                if places.may_take(name):
                    places.take(name)
                    counts[name] += 1
    assert min(counts.values()) >= 12, counts
    assert places.free >= 4


def test_places_taken_without_asking_count():
    places = FairPlaces(8)
    for _ in range(20):
        places.take("a")
    assert not places.may_take("a")
    assert taken(places, "b") == 1
