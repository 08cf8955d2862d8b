"""Spellings, signs and shares by which a device was given out twice (kube-scheduler mended most of them in 1.38).

docs/differences.md has the list. The law: what is given out of a capacity never exceeds what is published, however the
request, the slice and the statuses of claims spell and sign it.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator import RELEASES
from cel.quantity import Quantity
from tests.allocator.build import DRIVER, case, claim, device, picked, pool, request
from tests.allocator.cases import ask, features_of

PLAIN, QUALIFIED = "memory", f"{DRIVER}/memory"
SPELLINGS = st.sampled_from((PLAIN, QUALIFIED))


def shared(name: str, published: dict[str, str], **more: Any) -> dict[str, Any]:
    one = device(name, allowMultipleAllocations=True, **more)
    return {**one, "capacity": {spelling: {"value": amount} for spelling, amount in published.items()}}


def share(name: str, consumed: dict[str, str], number: int = 0) -> dict[str, Any]:
    return {
        **{"driver": DRIVER, "pool": "pool-1", "device": name},
        **{"shareID": f"old-{number}", "consumedCapacity": consumed},
    }


def wanting(requests: dict[str, str]) -> dict[str, Any]:
    return claim(request("r0", capacity={"requests": requests}))


def said(slices: list[Any], wanted: Any, release: str, *held: dict[str, Any]) -> list[str]:
    question = case(slices, [wanted], allocatedShared=list(held))
    reply = ask(question, features=features_of(question, kubernetes=release))
    return ["error"] if reply.get("error") else picked(reply)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("asked", [PLAIN, QUALIFIED])
@pytest.mark.parametrize("published", [PLAIN, QUALIFIED])
@pytest.mark.parametrize("held", [PLAIN, QUALIFIED])
def test_a_capacity_has_one_name(asked: str, published: str, held: str, release: str) -> None:
    slices = [pool(shared("a", {published: "80Gi"}))]

    assert said(slices, wanting({asked: "60Gi"}), release, share("a", {held: "60Gi"})) == ["none"]
    assert said(slices, wanting({asked: "60Gi"}), release, share("a", {held: "20Gi"})) == ["r0=a"]


@pytest.mark.parametrize("release", RELEASES)
def test_the_qualified_name_counts_where_both_are_written(release: str) -> None:
    both = {PLAIN: "80Gi", QUALIFIED: "8Gi"}

    assert said([pool(shared("a", both))], wanting({PLAIN: "60Gi"}), release) == ["none"]
    assert said([pool(shared("a", {PLAIN: "80Gi"}))], wanting(both), release) == ["error"]
    assert said([pool(shared("a", {PLAIN: "80Gi"}))], wanting({PLAIN: "60Gi"}), release, share("a", both)) == ["r0=a"]


@pytest.mark.parametrize("release", RELEASES)
def test_a_device_is_not_given_whole_while_a_share_of_it_lives(release: str) -> None:
    """Its driver has stopped sharing it."""
    slices = [pool(device("a"), device("b"))]

    assert said(slices, claim(request("r0")), release, share("a", {})) == ["r0=b"]
    assert said(slices, claim(request("r0", None)), release, share("a", {})) == ["none"]
    assert said(slices, claim(request("r0", 2)), release, share("a", {})) == ["none"]


@pytest.mark.parametrize("release", RELEASES)
def test_what_a_status_has_below_zero_leaves_the_device_out(release: str) -> None:
    slices = [pool(shared("a", {PLAIN: "80Gi"}), shared("b", {PLAIN: "80Gi"}))]

    assert said(slices, wanting({PLAIN: "60Gi"}), release, share("a", {PLAIN: "-60Gi"})) == ["r0=b"]


@pytest.mark.parametrize("release", RELEASES)
def test_nobody_asks_for_less_than_nothing(release: str) -> None:
    policy = {"value": "80Gi", "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi"}}}
    one = {**device("a", allowMultipleAllocations=True), "capacity": {PLAIN: policy}}

    assert said([pool(one)], wanting({PLAIN: "-5"}), release) == (["none"] if release == "1.36" else ["error"])


@pytest.mark.parametrize("release", RELEASES)
def test_what_a_device_takes_of_a_counter_is_not_below_zero(release: str) -> None:
    """It would make room for others; nobody is given such a device."""
    slices = [
        pool(counters={"mem": 10}, size=2, slice_name="counters"),
        pool(device("a", counters={"mem": -10}), device("b", counters={"mem": 15}), size=2, slice_name="devices"),
    ]

    assert said(slices, claim(request("r0", 2)), release) == ["none"]
    assert said(slices, claim(request("r0")), release) == ["none"]


@pytest.mark.parametrize("more", [{}, {"fieldOfTomorrow": True}], ids=["", "unknown-field"])
@pytest.mark.parametrize("release", RELEASES)
def test_a_device_that_is_held_makes_no_room_in_a_counter_either(release: str, more: dict[str, Any]) -> None:
    slices = [
        pool(counters={"mem": 0}, size=2, slice_name="counters"),
        pool({**device("a", counters={"mem": -8}), **more}, device("b", counters={"mem": 8}), size=2, slice_name="d"),
    ]
    question = case(slices, [claim(request("r0"))], allocated=[{"driver": DRIVER, "pool": "pool-1", "device": "a"}])

    assert picked(ask(question, features=features_of(question, kubernetes=release))) == ["none"]


@given(
    published=st.integers(1, 20),
    spelling=SPELLINGS,
    held=st.lists(st.tuples(SPELLINGS, st.integers(-5, 10)), max_size=4),
    asked=st.lists(st.tuples(SPELLINGS, st.integers(-3, 12)), min_size=1, max_size=3),
    release=st.sampled_from(RELEASES),
    is_shared=st.booleans(),
)
def test_no_more_is_given_than_is_published(
    published: int,
    spelling: str,
    held: list[tuple[str, int]],
    asked: list[tuple[str, int]],
    release: str,
    is_shared: bool,
) -> None:
    one = shared("a", {spelling: str(published)})
    one["allowMultipleAllocations"] = is_shared
    shares = [share("a", {name: str(amount)}, number) for number, (name, amount) in enumerate(held)]
    requests = [request(f"r{n}", capacity={"requests": {name: str(amount)}}) for n, (name, amount) in enumerate(asked)]
    question = case([pool(one)], [claim(*requests)], allocatedShared=shares)

    reply = ask(question, features=features_of(question, kubernetes=release))

    if reply["outcome"] == "allocated":
        results = [result for allocation in reply["allocations"] for result in allocation["devices"]["results"]]
        new = [Quantity.parse(text).nano for result in results for text in result.get("consumedCapacity", {}).values()]
        assert all(nano >= 0 for nano in new)
        assert sum(new) + sum(max(0, amount) for _, amount in held) * 10**9 <= published * 10**9
        assert is_shared or (len(results) == 1 and not held)
