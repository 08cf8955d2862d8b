"""Upstream's oddities (spec 7.4), each decided on purpose: docs/adr/0003-allocator-oddities.md has the reasons."""

from __future__ import annotations

import pytest

from allocator import Features
from tests.allocator.build import answer, asks, case, claim, device, first_of, picked, pool, request
from tests.allocator.cases import ask

DISTINCT = [{"distinctAttribute": "driver-a/slot"}]


def shared_device(name: str, memory: str = "8", policy: dict | None = None) -> dict:
    capacity = {"value": memory, **({"requestPolicy": policy} if policy else {})}
    return device(name, memory=capacity, allowMultipleAllocations=True)


def test_01_counters_are_kept_per_driver_and_pool() -> None:
    """Upstream 0.36 keys them by pool name: the second driver's counters would be taken for the first's."""
    slices = [
        pool(counters={"memory": 8}, driver="driver-a", size=2, slice_name="a-counters"),
        pool(device("a", counters={"memory": 8}), driver="driver-a", size=2, slice_name="a-devices"),
        pool(counters={"memory": 8}, driver="driver-b", size=2, slice_name="b-counters"),
        pool(device("b", counters={"memory": 8}), driver="driver-b", size=2, slice_name="b-devices"),
    ]
    both = claim(request("r0", cls="class-a"), request("r1", cls="class-b"))

    assert picked(answer(slices, [both])) == ["r0=a", "r1=b"]


def test_02_distinct_remembers_every_device_of_a_request() -> None:
    """Upstream remembers the last one only, so with count 3 it accepts the values 1, 2, 1."""
    devices = [device("a", slot=1), device("b", slot=2), device("c", slot=1), device("d", slot=3)]

    assert picked(answer([pool(*devices)], [claim(request(count=3), constraints=DISTINCT)])) == [
        "req-0=a",
        "req-0=b",
        "req-0=d",
    ]
    assert picked(answer([pool(*devices[:3])], [claim(request(count=3), constraints=DISTINCT)])) == ["none"]


def test_03_list_intersection_is_restored_when_a_device_is_given_up() -> None:
    """a and b share only `x`, which leads nowhere; giving b up must bring `y` back."""
    devices = [
        device("a", links=["x", "y"]),
        device("b", links=["x"]),
        device("c", links=["y"]),
        device("d", links=["y"]),
    ]
    wanted = claim(request(count=3), constraints=[{"matchAttribute": "driver-a/links"}])
    features = Features(list_type_attributes=True)

    assert picked(answer([pool(*devices)], [wanted], features=features)) == ["req-0=a", "req-0=c", "req-0=d"]


def test_07_list_attributes_reach_the_constraints_when_the_gate_is_on() -> None:
    """1.36's plugin forgets to pass the gate on; then a list is a value of unknown kind, good for one device."""
    devices = [device("a", links=["x", "y"]), device("b", links=["y"])]
    wanted = claim(request(count=2, cls="any"), constraints=[{"matchAttribute": "driver-a/links"}])
    classes = [{"metadata": {"name": "any"}, "spec": {}}]

    on = answer([pool(*devices)], [wanted], classes=classes, features=Features(list_type_attributes=True))
    off = answer([pool(*devices)], [wanted], classes=classes)

    assert picked(on) == ["req-0=a", "req-0=b"]
    assert picked(off) == ["none"]


def test_08_capacity_requests_are_checked_on_dedicated_devices() -> None:
    devices = [device("small", memory="4Gi"), device("large", memory="8Gi")]
    reply = answer([pool(*devices)], [claim(request(memory="6Gi"))])

    assert picked(reply) == ["req-0=large"]
    (result,) = reply["allocations"][0]["devices"]["results"]
    assert "shareID" not in result
    assert "consumedCapacity" not in result


def test_09_admin_access_consumes_counters() -> None:
    slices = [
        pool(counters={"memory": 8}, size=2, slice_name="counters"),
        pool(device("a", counters={"memory": 8}), size=2, slice_name="devices"),
    ]

    reply = answer(slices, [claim(request(adminAccess=True))], held=["driver-a/pool-1/a"])

    assert picked(reply) == ["none"]


def test_09_a_device_under_admin_access_is_not_given_to_a_later_request_of_the_pod() -> None:
    slices = [pool(device("a"))]
    admin = request("admin", adminAccess=True)

    assert picked(answer(slices, [claim(admin, name="c0"), claim(request(), name="c1")])) == ["none"]
    assert picked(answer(slices, [claim(request(), name="c0"), claim(admin, name="c1")])) == ["req-0=a", "admin=a"]


def test_10_sharing_without_capacities_is_unlimited() -> None:
    slices = [pool(device("a", allowMultipleAllocations=True))]
    claims = [claim(request(), name=f"c{number}") for number in range(5)]

    reply = answer(slices, claims)

    assert picked(reply) == ["req-0=a"] * 5
    assert [a["devices"]["results"][0]["shareID"] for a in reply["allocations"]] == [f"share-{n}" for n in range(1, 6)]


def test_11_the_default_is_recognised_by_its_value() -> None:
    """`1024Mi` is the default `1Gi`: accepted though the range says otherwise. Go compares representations."""
    policy = {"default": "1Gi", "validRange": {"min": "2Gi", "step": "2Gi"}}

    reply = answer([pool(shared_device("a", "8Gi", policy))], [claim(request())])

    assert reply["allocations"][0]["devices"]["results"][0]["consumedCapacity"] == {"memory": "1Gi"}


@pytest.mark.parametrize(
    ("features", "consumed"),
    [
        (Features(kubernetes="1.36", fractional_capacity_range=True), "1"),
        (Features(kubernetes="1.37"), "1"),
        (Features(kubernetes="1.37", fractional_capacity_range=True), "500m"),
    ],
)
def test_12_fractions_are_rounded_up_to_integers_but_where_1_37s_gate_is_on(features: Features, consumed: str) -> None:
    policy = {"default": "500m", "validRange": {"min": "250m", "step": "250m"}}
    reply = answer([pool(shared_device("a", "8", policy))], [claim(request(memory="300m"))], features=features)

    assert reply["allocations"][0]["devices"]["results"][0]["consumedCapacity"] == {"memory": consumed}


def test_13_too_many_slices_make_a_pool_incomplete() -> None:
    slices = [pool(device("a"), size=1, slice_name="s1"), pool(device("b"), size=1, slice_name="s2")]

    assert picked(answer(slices, [claim(request())])) == ["none"]
    assert picked(answer(slices, [claim(request(count=None))])) == [
        "claim default/claim-0, request req-0: asks for all devices, but resource pool driver-a/pool-1 is currently "
        "being updated"
    ]


@pytest.mark.parametrize("order", [1, -1])
def test_14_slices_that_disagree_about_the_pools_size_make_it_incomplete(order: int) -> None:
    """k/k issue 141117: upstream believes the first of its list, so the verdict depends on the order."""
    slices = [pool(device("a"), size=2, slice_name="s1"), pool(device("b"), size=3, slice_name="s2")][::order]

    assert picked(answer(slices, [claim(request())])) == ["none"]


def test_14_a_nodes_own_slices_tell_the_size_before_those_of_all_nodes() -> None:
    """As upstream, whatever the order of its list: it looks at the node's own slices first."""
    slices = [
        pool(device("b"), size=3, slice_name="s2", allNodes=True),
        pool(device("a"), size=2, slice_name="s1"),
    ]

    assert picked(answer(slices, [claim(request(count=2))])) == ["req-0=a", "req-0=b"]


@pytest.mark.parametrize(
    ("kubernetes", "requests"), [("1.36", [["r0", "r1"], ["r0", "r1"]]), ("1.37", [None])], ids=["1.36", "1.37"]
)
def test_15_claim_configuration_is_repeated_per_request_before_1_37(kubernetes: str, requests: list) -> None:
    config = [{"requests": ["r0", "r1"], "opaque": {"driver": "driver-a", "parameters": {}}}]
    reply = answer(
        [pool(device("a"), device("b"))],
        [claim(request("r0"), request("r1"), config=config)],
        features=Features(kubernetes=kubernetes),
    )

    entries = reply["allocations"][0]["devices"]["config"]
    assert [entry.get("requests") for entry in entries] == requests


@pytest.mark.parametrize(("kubernetes", "expected"), [("1.36", "none"), ("1.37", "req-0=a")])
def test_a_share_without_capacity_is_charged_counters_again_before_1_37(kubernetes: str, expected: str) -> None:
    """0.36 asks the consumed capacity whether a device is shared, and this one has none."""
    slices = [
        pool(counters={"memory": 8}, size=2, slice_name="counters"),
        pool(device("a", counters={"memory": 8}, allowMultipleAllocations=True), size=2, slice_name="devices"),
    ]
    shared = [{"driver": "driver-a", "pool": "pool-1", "device": "a", "shareID": "old"}]

    reply = answer(slices, [claim(request())], allocatedShared=shared, features=Features(kubernetes=kubernetes))

    assert picked(reply) == [expected]


def test_quantities_with_decimals_are_exact_and_never_changed() -> None:
    """Upstream changes 2.5Gi in place: 8.5Gi came out of a counter of 8Gi."""
    question = case(
        [pool(shared_device("a", "8Gi"))], [claim(request("r0", memory="2.5Gi"), request("r1", memory="2.5Gi"))]
    )

    first = ask(question)

    results = first["allocations"][0]["devices"]["results"]
    assert [result["consumedCapacity"] for result in results] == [{"memory": "2560Mi"}] * 2
    assert ask(question) == first


def test_a_refused_constraint_of_an_all_request_aborts_even_with_alternatives_left() -> None:
    devices = [device("a", numa=0), device("b", numa=1)]
    wanted = claim(first_of("req", asks(None), asks(1)), constraints=[{"matchAttribute": "driver-a/numa"}])

    assert picked(answer([pool(*devices)], [wanted])) == [
        "claim default/claim-0, request sub-0: cannot add device driver-a/pool-1/b because a claim constraint would "
        "not be satisfied"
    ]


def test_the_qualified_attribute_wins_over_the_bare_one_everywhere() -> None:
    """With both, upstream's CEL sees one at random; its constraints take the qualified name."""
    both = device("a", numa=0)
    both["attributes"]["driver-a/numa"] = {"int": 1}
    for attributes in (both["attributes"], dict(reversed(both["attributes"].items()))):
        slices = [pool({**both, "attributes": attributes}, device("b", numa=1))]
        wanted = claim(
            request(count=2, cel='device.attributes["driver-a"].numa == 1'),
            constraints=[{"matchAttribute": "driver-a/numa"}],
        )
        assert picked(answer(slices, [wanted])) == ["req-0=a", "req-0=b"]


def test_an_unparsable_node_selector_aborts_the_pod() -> None:
    selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpus", "operator": "Gt", "values": ["many"]}]}]}

    (text,) = picked(answer([pool(device("a"), nodeSelector=selector)], [claim(request())]))

    assert text.startswith("gather pool information: failed to perform node selection for slice pool-1-driver-a: ")
    assert text.endswith("values[0]: Invalid value: \"many\": for 'Gt', 'Lt' operators, the value must be an integer")


def test_an_overdrawn_counter_blocks_all_partitions_of_its_pool() -> None:
    """Upstream compares every counter of the pool, also those that the device does not consume."""
    slices = [
        pool(counters={"memory": 4, "cores": 8}, size=2, slice_name="counters"),
        pool(
            device("a", counters={"memory": 6}),
            device("b", counters={"cores": 1}),
            device("c"),
            size=2,
            slice_name="devices",
        ),
    ]

    assert picked(answer(slices, [claim(request())], held=["driver-a/pool-1/a"])) == ["req-0=c"]
