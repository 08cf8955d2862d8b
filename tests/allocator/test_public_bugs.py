"""Regression tests for bugs of other allocators that are public; the design's table names the structures."""

from __future__ import annotations

import random

from allocator import Allocated, AllocationRequest, Features, InUse, allocate
from tests.allocator.build import answer, case, claim, device, picked, pool, request
from tests.allocator.cases import ask, claims_of, in_use_of, inventory_of, node_of, share_ids


def test_kk_136269_one_device_is_never_given_to_two_claims() -> None:
    """Two pods, one device: what the first allocation took is in the ledger before the second is asked."""
    question = case([pool(device("a"))], [claim(request())])
    inventory, in_use = inventory_of(question), InUse()

    def ask_once() -> object:
        return allocate(
            AllocationRequest(
                claims_of(question),
                node_of(question),
                inventory,
                in_use,
                features=Features(),
                budget_steps=100,
                share_ids=share_ids(),
            )
        )

    first = ask_once()
    assert isinstance(first, Allocated)
    in_use.add(first.allocations[0])
    assert not isinstance(ask_once(), Allocated)
    in_use.remove(first.allocations[0])
    assert isinstance(ask_once(), Allocated)


def test_kk_137897_shares_are_counted_per_allocation() -> None:
    """The same share held twice is held until both are gone."""
    question = case([pool(device("a", memory="8Gi", allowMultipleAllocations=True))], [claim(request(memory="8Gi"))])
    in_use = InUse()
    first = allocate(
        AllocationRequest(
            claims_of(question),
            node_of(question),
            inventory_of(question),
            in_use,
            features=Features(),
            budget_steps=100,
            share_ids=share_ids(),
        )
    )
    assert isinstance(first, Allocated)
    (allocation,) = first.allocations
    in_use.add(allocation)
    in_use.add(allocation)
    in_use.remove(allocation)
    assert in_use.holds(allocation.results[0].device_id)
    in_use.remove(allocation)
    assert in_use == InUse()


def test_kk_133587_and_karpenter_293a4d7_a_call_leaves_no_state_behind() -> None:
    """Questions asked alternately get the answers they get alone."""
    slices = [
        pool(counters={"memory": 8}, size=2, slice_name="counters"),
        pool(*(device(f"d{n}", counters={"memory": 4}) for n in range(4)), size=2, slice_name="devices"),
    ]
    one, two = case(slices, [claim(request(count=1))]), case(slices, [claim(request(count=3))])
    inventory = inventory_of(one)
    replies = []
    for question in (one, two, one, two, one):
        outcome = allocate(
            AllocationRequest(
                claims_of(question),
                node_of(question),
                inventory,
                in_use_of(question),
                features=Features(),
                budget_steps=1000,
                share_ids=share_ids(),
            )
        )
        replies.append(outcome.allocations if isinstance(outcome, Allocated) else None)

    assert replies[0] == replies[2] == replies[4] != replies[1]
    assert replies[1] == replies[3] is None


def test_kk_140434_two_drivers_may_use_the_same_pool_name() -> None:
    slices = [
        pool(counters={"memory": 4}, driver="driver-a", size=2, slice_name="a-counters"),
        pool(device("a", counters={"memory": 4}), driver="driver-a", size=2, slice_name="a"),
        pool(counters={"memory": 16}, driver="driver-b", size=2, slice_name="b-counters"),
        pool(*(device(f"b{n}", counters={"memory": 4}) for n in range(4)), driver="driver-b", size=2, slice_name="b"),
    ]
    wanted = claim(request("r0", cls="class-a"), request("r1", 4, cls="class-b"))

    assert picked(answer(slices, [wanted])) == ["r0=a", "r1=b0", "r1=b1", "r1=b2", "r1=b3"]


def test_kk_138885_all_devices_of_a_pool_with_counters() -> None:
    slices = [
        pool(counters={"memory": 8}, size=2, slice_name="counters"),
        pool(device("a", counters={"memory": 4}), device("b", counters={"memory": 4}), size=2, slice_name="devices"),
    ]

    assert picked(answer(slices, [claim(request(count=None))])) == ["req-0=a", "req-0=b"]
    assert picked(
        answer(
            [
                slices[0]
                | {
                    "spec": slices[0]["spec"]
                    | {"sharedCounters": [{"name": "set", "counters": {"memory": {"value": "7"}}}]}
                },
                slices[1],
            ],
            [claim(request(count=None))],
        )
    ) == ["none"]


def test_kk_139040_a_shared_partition_is_charged_once_and_not_given_as_a_whole() -> None:
    """Partitions and sharing together: shares of one partition need its counters once."""
    slices = [
        pool(counters={"memory": 8}, size=2, slice_name="counters"),
        pool(
            device("a", memory="8Gi", counters={"memory": 8}, allowMultipleAllocations=True),
            device("b", counters={"memory": 4}),
            size=2,
            slice_name="devices",
        ),
    ]
    three = [claim(request(memory="2Gi"), name=f"c{number}") for number in range(3)]

    assert picked(answer(slices, three)) == ["req-0=a"] * 3
    assert picked(answer(slices, [*three, claim(request(cel="!device.allowMultipleAllocations"), name="c3")])) == [
        "none"
    ]


def test_kk_141117_the_order_of_slices_decides_nothing() -> None:
    slices = [pool(device(f"d{n}"), size=size, slice_name=f"s{n}") for n, size in enumerate((2, 2, 3))]
    replies = set()
    rnd = random.Random(1)
    for _ in range(6):
        rnd.shuffle(slices)
        replies.add(tuple(picked(answer(slices, [claim(request())]))))

    assert replies == {("none",)}


def test_kai_1217_the_ledger_equals_one_that_is_built_again() -> None:
    """Adding and removing in any order leaves what a fresh ledger of the remaining allocations has."""
    question = case(
        [pool(*(device(f"d{n}", memory="8Gi", allowMultipleAllocations=n % 2 == 0) for n in range(4)))],
        [claim(request("a", memory="1Gi"), request("b", 2, memory="500Mi"))],
    )
    reply = ask(question)
    assert reply["outcome"] == "allocated"
    rnd = random.Random(4)
    outcome = allocate(
        AllocationRequest(
            claims_of(question),
            node_of(question),
            inventory_of(question),
            InUse(),
            features=Features(),
            budget_steps=100,
            share_ids=share_ids(),
        )
    )
    assert isinstance(outcome, Allocated)
    pile = list(outcome.allocations) * 3
    held, in_use = [], InUse()
    for _ in range(200):
        if held and rnd.random() < 0.5:
            in_use.remove(held.pop(rnd.randrange(len(held))))
        else:
            held.append(rnd.choice(pile))
            in_use.add(held[-1])
        assert in_use == InUse(held)


def test_karpenter_a_selector_that_fails_is_an_error_and_not_a_mismatch() -> None:
    wanted = [claim(request(cel='device.attributes["driver-a"].missing == 1'))]

    assert picked(answer([pool(device("a"))], wanted)) == [
        "claim default/claim-0: selector #0: CEL runtime error: no such key: missing"
    ]
