"""What claims take of a node's own resources: the rules of upstream's table tests, in our own words."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from allocator import Features, Inventory, decode_allocation, decode_slice
from scheduler.framework.status import Code, Status
from scheduler.model.claim import Consumer
from scheduler.model.keys import ClaimKey
from scheduler.model.objects import NodeAllocatableClaim
from scheduler.model.resources import amounts_with_claims, counted_amounts, take_the_same
from scheduler.plugins.dynamic_resources.node_allocatable import (
    note_of,
    refuse_shared,
    refuse_too_much,
    resources_of,
    shape_of_node,
)
from tests.plugins.objects import node_info, pod

DRIVER = "cpu.example.com"


def device(name, **mappings):
    """A device; each mapping is a multiplier, or (capacity, multiplier)."""
    shares = {}
    for resource, value in mappings.items():
        capacity, amount = value if isinstance(value, tuple) else (None, value)
        shares[resource.replace("_", "-")] = (
            ({"capacityKey": capacity} if capacity else {}) | ({"allocationMultiplier": amount} if amount else {})
        )  # fmt: skip
    return {"name": name, "nodeAllocatableResourceMappings": shares}


def inventory(*devices, driver=DRIVER, pool="pool", generation=1, name="s"):
    made = Inventory()
    put(made, *devices, driver=driver, pool=pool, generation=generation, name=name)
    return made


def put(made, *devices, driver=DRIVER, pool="pool", generation=1, name="s"):
    spec = {
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": 1},
        "nodeName": "node",
        "devices": list(devices),
    }
    made.put_slice(decode_slice({"metadata": {"name": name}, "spec": spec}))


def allocation(*devices, **consumed):
    """An allocation of devices by name; `consumed` is what each consumes of its capacities."""
    results = [
        {"request": "r", "driver": DRIVER, "pool": "pool", "device": name}
        | ({"consumedCapacity": consumed, "shareID": "s"} if consumed else {})
        for name in devices
    ]
    return decode_allocation({"devices": {"results": results}})


HUGE = "hugepages-2Mi"
TAKEN = {
    "no-mapping": ([{"name": "gpu"}], allocation("gpu"), {}),
    "per-device": ([device("cpu", cpu="2")], allocation("cpu"), {"cpu": "2"}),
    "several-devices-add-up": (
        [device("a", cpu="2"), device("b", cpu="500m")],
        allocation("a", "b"),
        {"cpu": "2500m"},
    ),
    "only-the-chosen-alternative": ([{"name": "gpu"}, device("cpu", cpu="8")], allocation("gpu"), {}),
    "auxiliary-memory-of-a-device": (
        [device("gpu", memory="2Gi", ephemeral_storage="1Gi")],
        allocation("gpu"),
        {"memory": "2Gi", "ephemeral-storage": "1Gi"},
    ),
    "binary-amounts-stay-binary": (
        [device("a", memory="1536Mi"), device("b", memory="512Mi")],
        allocation("a", "b"),
        {"memory": "2Gi"},
    ),
    "what-is-consumed-of-a-capacity": ([device("d", cpu=("cores", None))], allocation("d", cores="3"), {"cpu": "3"}),
    "consumed-times-multiplier": ([device("d", cpu=("cores", "2"))], allocation("d", cores="4"), {"cpu": "8"}),
    "consumed-times-a-fraction": ([device("d", cpu=("cores", "500m"))], allocation("d", cores="3"), {"cpu": "1500m"}),
    "a-capacity-that-was-not-consumed": (
        [device("d", cpu=("cores", None), memory="1Gi")],
        allocation("d", bandwidth="1G"),
        {"memory": "1Gi"},
    ),
    "hugepages": ([{"name": "d", "nodeAllocatableResourceMappings": {HUGE: {"allocationMultiplier": "4Mi"}}}],
                  allocation("d"), {HUGE: "4Mi"}),
    "a-device-that-is-gone": ([device("other", cpu="2")], allocation("cpu"), {}),
}  # fmt: skip


@pytest.mark.parametrize("case", TAKEN)
def test_what_an_allocation_takes(case) -> None:
    devices, given, taken = TAKEN[case]
    assert mapped(given, inventory(*devices)) == taken


def mapped(given, made):
    """What devices map by 1.36's form."""
    found = resources_of(given, made)
    return found.by_136 if found is not None else {}


def newer(name, **resources):
    """A device of 1.37: of each resource its mapping and overhead."""
    said = {resource.replace("_", "-"): one for resource, one in resources.items()}
    return {"name": name, "nodeAllocatableResources": said}


def maps(device=None, of=None, times="1"):
    return {"mapping": {"capacityKey": of, "capacityMultiplier": times} if of else {"deviceMultiplier": device}}


def costs(**overhead):
    return {"overhead": overhead}


NEWER = {
    "mapped": ([newer("a", cpu=maps("2"))], allocation("a"), {"cpu": "2"}, {}),
    "of-a-capacity": (
        [newer("a", cpu=maps(of="cores", times="500m"))],
        allocation("a", cores="3"),
        {"cpu": "1500m"},
        {},
    ),
    "of-a-capacity-spelled-with-its-driver": (
        [newer("a", cpu=maps(of="cores"))],
        allocation("a", **{f"{DRIVER}/cores": "3"}),
        {"cpu": "3"},
        {},
    ),
    "of-a-capacity-that-the-device-spells-so": (
        [newer("a", cpu=maps(of=f"{DRIVER}/cores"))],
        allocation("a", cores="3"),
        {"cpu": "3"},
        {},
    ),
    "of-a-capacity-not-consumed": ([newer("a", cpu=maps(of="cores"))], allocation("a", bandwidth="1G"), None, None),
    "nothing-said": ([newer("a", cpu={"mapping": {}})], allocation("a"), None, None),
    "overhead": (
        [newer("a", cpu=costs(perPod="100m"), memory=costs(perContainer="1Gi"))],
        allocation("a"),
        {},
        {"cpu": ("100m", None), "memory": (None, "1Gi")},
    ),
    "both-of-several": (
        [
            newer("a", cpu=maps("1") | costs(perPod="1")),
            newer("b", cpu=maps("2") | costs(perPod="1", perContainer="2")),
        ],
        allocation("a", "b"),
        {"cpu": "3"},
        {"cpu": ("2", "2")},
    ),
    "beside-1.36": ([device("a", cpu="1"), newer("b", cpu=maps("2"))], allocation("a", "b"), {"cpu": "2"}, {}),
    "unreadable": (
        [newer("a", cpu=maps("x") | costs(perPod="y", perContainer="1"), memory="z", disk={"mapping": "w"})],
        allocation("a"),
        {},
        {"cpu": (None, "1")},
    ),
}


@pytest.mark.parametrize("case", NEWER)
def test_what_an_allocation_takes_in_1_37(case) -> None:
    devices, given, mapping, overhead = NEWER[case]
    found = resources_of(given, inventory(*devices))
    if mapping is None:
        assert found is None
    else:
        assert found is not None
        assert found.mapping == mapping
        assert {
            name: tuple(str(amount) if amount is not None else None for amount in amounts)
            for name, amounts in found.overhead.items()
        } == overhead


def test_a_dedicated_device_that_maps_a_capacity_fails_the_pod_in_1_37() -> None:
    verdict = note_of(pod(), [(ClaimKey("ns", "c"), allocation("d"))], inventory(newer("d", cpu=maps(of="cores"))))
    assert isinstance(verdict, Status)
    assert verdict.message == (
        "claim ns/c, device d: ConsumedCapacity is nil, but Capacity key 'cores' is set in NodeAllocatableResources "
        "for resource cpu"
    )


@pytest.mark.parametrize("consumed", ["-3", "3"])
@pytest.mark.parametrize("times", ["1", "-1"])
def test_2_8_nothing_takes_less_than_nothing_of_a_node(consumed: str, times: str) -> None:
    made = inventory(newer("d", cpu=maps(of="cores", times=times)))
    verdict = note_of(pod(), [(ClaimKey("ns", "c"), allocation("d", cores=consumed))], made)

    assert isinstance(verdict, Status) is ((consumed == "-3") != (times == "-1"))
    if isinstance(verdict, Status):
        assert verdict.message == (
            "claim ns/c, device d: computed node-allocatable footprint for resource cpu must not be negative, got -3"
        )


def test_the_note_of_1_37_and_what_it_counts() -> None:
    made = inventory(newer("a", cpu=maps("2") | costs(perPod="100m", perContainer="200m"), memory=costs(perPod="1Mi")))
    used = pod_with([using("x", name="one"), using("x", name="two")])
    given = [(ClaimKey("default", "claim-x"), allocation("a"))]
    (note,) = note_of(used, given, made)
    assert note == NodeAllocatableClaim(
        "claim-x",
        ("one", "two"),
        mapping=({"name": "cpu", "quantity": "2"},),
        overhead=({"name": "cpu", "perPod": "100m", "perContainer": "200m"}, {"name": "memory", "perPod": "1Mi"}),
    )
    assert amounts_with_claims(used, (note,)).requests == {"cpu": 2500, "memory": 2**20}
    (unused,) = note_of(pod_with([using("y")]), given, made)
    assert amounts_with_claims(pod(), (unused,)).requests["cpu"] == 2100, "no container uses it"


def test_a_dedicated_device_that_maps_a_capacity_fails_the_pod() -> None:
    made = inventory(device("d", cpu=("cores", None)))
    verdict = note_of(pod(), [(ClaimKey("ns", "c"), allocation("d"))], made)

    assert isinstance(verdict, Status)
    assert verdict.code is Code.ERROR
    assert verdict.message == (
        "claim ns/c, device d: ConsumedCapacity is nil, but Capacity key 'cores' is set in "
        "NodeAllocatableResourceMappings for resource cpu"
    )


def test_a_device_is_looked_up_with_its_driver_and_in_the_newest_generation() -> None:
    """Upstream takes the first slice with that pool and device name (its oddity 6)."""
    made = inventory(device("d", cpu="1"), generation=1, name="old")
    put(made, device("d", cpu="9"), driver="other.example.com", name="a-other")
    assert mapped(allocation("d"), made) == {"cpu": "1"}
    put(made, device("d", cpu="2"), generation=2, name="z-new")
    assert mapped(allocation("d"), made) == {"cpu": "2"}
    made.remove_slice("z-new")
    assert mapped(allocation("d"), made) == {"cpu": "1"}


def test_the_inventory_knows_whether_any_device_takes_of_its_node() -> None:
    made = inventory({"name": "gpu"})
    assert not made.takes_of_nodes
    put(made, device("d", cpu="1"), name="t")
    assert made.takes_of_nodes
    put(made, {"name": "d"}, name="t")
    assert not made.takes_of_nodes
    put(made, device("d", cpu="1"), name="t")
    made.remove_slice("t")
    assert not made.takes_of_nodes


# The note

CPU_DEVICES = (device("a", cpu="1"), device("b", cpu="2"), {"name": "gpu"})


def using(*entries, name="main", **more):
    return {"name": name, "resources": {"claims": [{"name": entry} for entry in entries]}, **more}


def pod_with(containers, inits=(), claims=("x", "y"), **spec):
    entries = [{"name": name, "resourceClaimName": f"claim-{name}"} for name in claims]
    return pod(containers=list(containers), initContainers=list(inits), resourceClaims=entries, **spec)


def notes(one, **devices):
    """The note of a pod whose claims have these devices."""
    allocations = [(ClaimKey("default", f"claim-{name}"), allocation(given)) for name, given in devices.items()]
    return note_of(one, allocations, inventory(*CPU_DEVICES))


def test_a_note_names_claim_containers_and_resources() -> None:
    assert notes(pod_with([using("x")]), x="a") == (NodeAllocatableClaim("claim-x", ("main",), {"cpu": "1"}),)


def test_notes_are_sorted_by_claim_and_others_have_none() -> None:
    one = pod_with([using("x", "y", "z")], claims=("z", "y", "x"))
    assert [note.resource_claim_name for note in notes(one, z="b", y="gpu", x="a")] == ["claim-x", "claim-z"]


def test_init_containers_come_first_and_each_container_once() -> None:
    one = pod_with(
        [using("x", "x", name="main"), using("y", name="other")],
        [using("x", name="side", restartPolicy="Always"), using("x", name="first")],
    )
    assert [note.containers for note in notes(one, x="a", y="b")] == [("side", "first", "main"), ("other",)]


def test_a_claim_that_no_container_uses_is_refused() -> None:
    verdict = notes(pod_with([using("y")]), x="a", y="b")

    assert isinstance(verdict, Status)
    assert verdict.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert verdict.message == (
        "claim claim-x: node-allocatable resource claim not referenced by any container within the pod"
    )


@pytest.mark.parametrize(
    ("left", "right", "are_same"),
    [
        ({"cpu": "2"}, {"cpu": "2000m"}, True),
        ({"cpu": "2"}, {"cpu": "3"}, False),
        ({"cpu": "2"}, {"cpu": "2", "memory": "1"}, False),
    ],
)
def test_notes_are_compared_by_what_they_mean(left, right, are_same) -> None:
    pair = [(NodeAllocatableClaim("c", ("a", "b"), left),), (NodeAllocatableClaim("c", ("b", "a"), right),)]
    assert take_the_same(*pair) is are_same
    assert not take_the_same(pair[0], ())


# Sharing


def on_node(name, *claims, **requests):
    status = {
        "nodeAllocatableResourceClaimStatuses": [
            {"resourceClaimName": claim, "containers": ["c"], "resources": amounts} for claim, amounts in claims
        ]
    }
    return pod(name, status=status, containers=[{"name": "c", "resources": {"requests": requests}}])


def shared(name, info, made=None, *, namespace="default", reserved=()):
    """What is said of a pod that wants the claim of device d, allocated already."""
    made = made or inventory(device("d", cpu="1"))
    claim = SimpleNamespace(
        key=ClaimKey(namespace, name),
        allocation=allocation("d"),
        reserved_for=tuple([Consumer("pods", one, f"uid-of-{one}") for one in reserved]),
        is_reserved_for=lambda uid: uid in {f"uid-of-{one}" for one in reserved},
    )
    claims = SimpleNamespace(claims=[claim], takes_of_nodes=made.takes_of_nodes)
    return refuse_shared(claims, pod("mine"), info, SimpleNamespace(features=Features(), inventory=made))


def test_a_claim_is_for_one_pod_of_a_node() -> None:
    info = node_info(pods=[on_node("a", ("used", {"cpu": "1"}))])
    assert (shared("mine", info), shared("used", info, namespace="elsewhere")) == (None, None)
    assert shared("used", info) == Status.unresolvable(
        "node allocatable resource claim used is already used by another pod"
    )
    info.add_pod(on_node("b", ("used", {"cpu": "1"})))
    assert shared("used", info) == Status.unresolvable("node allocatable resource claim used shared by multiple pods")
    for name in ("a", "b"):
        info.remove_pod(f"uid-of-{name}")
    assert shared("used", info) is None
    assert info.claim_users == {}


def test_pods_have_one_shape_only_where_as_many_containers_use_the_claim() -> None:
    """Overhead counts for each of them; what is found for one pod would be said of the other."""

    def shape(*containers):
        claims = SimpleNamespace(
            claims=[SimpleNamespace(key=ClaimKey("default", "claim-x"), allocation=None)], special=None
        )
        return shape_of_node(pod_with(containers), claims, SimpleNamespace(inventory=Inventory()))

    one, idle, other = using("x", name="one"), {"name": "two", "resources": {}}, using("x", name="two")
    assert shape(one, idle) != shape(one, other)
    assert shape(one, idle) == shape(idle, one)


MAPPED = Status.unresolvable(
    "node allocatable resource claim used has a mapped device and cannot be shared across pods"
)


@pytest.mark.parametrize(
    ("said", "reserved", "verdict"),
    [
        (maps("1"), ("other",), MAPPED),
        (maps("1"), ("mine",), None),
        (maps("1"), (), None),
        (costs(perPod="1"), ("other",), None),
        (maps("1") | costs(perPod="1"), ("other",), MAPPED),
    ],
)
def test_in_1_37_a_mapped_claim_is_for_one_pod_and_overhead_may_be_shared(said, reserved, verdict) -> None:
    assert shared("used", node_info(), inventory(newer("d", cpu=said)), reserved=reserved) == verdict


def test_pods_on_a_node_that_share_overhead_are_no_users_of_the_claim() -> None:
    entry = {"resourceClaimName": "used", "containers": ["c"], "overhead": [{"name": "cpu", "perPod": "1"}]}
    one = pod("a", status={"nodeAllocatableResourceClaimStatuses": [entry]}, containers=[{"name": "c"}])
    assert node_info(pods=[one]).claim_users == {}


# Sums and fit


def test_a_pod_on_a_node_counts_with_what_its_claims_take() -> None:
    info = node_info(pods=[on_node("a", ("x", {"cpu": "2", "memory": "1Gi"}), ("y", {"cpu": "500m"}), cpu="1")])
    assert info.requested == {"cpu": 3500, "memory": 2**30, "pods": 1}
    assert info.scoring_requested == {"cpu": 3500, "memory": 2**30 + 200 * 2**20}


def of_1_37(containers=("c", "d"), **entries):
    """A pod of 1 cpu whose status another scheduler wrote, of Kubernetes 1.37."""
    entry = {"resourceClaimName": "x", "containers": [*containers], **entries}
    status = {"nodeAllocatableResourceClaimStatuses": [entry]}
    return pod("a", status=status, containers=[{"name": "c", "resources": {"requests": {"cpu": "1"}}}])


@pytest.mark.parametrize(
    ("one", "cpu", "memory"),
    [
        pytest.param(of_1_37(mapping=[{"name": "cpu", "quantity": "2"}]), 3000, 0, id="mapped"),
        pytest.param(of_1_37(mapping=[{"name": "cpu", "quantity": "x"}]), 1000, 0, id="no-quantity"),
        pytest.param(of_1_37(overhead=[{"name": "cpu", "perPod": "250m"}]), 1250, 0, id="for-the-pod"),
        pytest.param(of_1_37(overhead=[{"name": "cpu", "perContainer": "250m"}]), 1500, 0, id="for-each-container"),
        pytest.param(of_1_37((), overhead=[{"name": "cpu", "perContainer": "250m"}]), 1000, 0, id="for-no-container"),
        pytest.param(
            of_1_37(
                mapping=[{"name": "memory", "quantity": "1Gi"}, {"name": "cpu", "quantity": "1"}],
                overhead=[{"name": "memory", "perPod": "1Ki", "perContainer": "2Ki"}],
            ),
            2000,
            2**30 + 5 * 2**10,
            id="all",
        ),
    ],
)
def test_what_1_37_says_of_claims_counts(one, cpu, memory) -> None:
    """addDRANodeAllocatableClaimResources of 1.37."""
    requested = node_info(pods=[one]).requested
    assert (requested["cpu"], requested.get("memory", 0)) == (cpu, memory)


def test_what_1_37_says_is_compared_by_amount() -> None:
    mapped = NodeAllocatableClaim("x", ("c",), mapping=({"name": "cpu", "quantity": "1"},))
    assert take_the_same((mapped,), (NodeAllocatableClaim("x", ("c",), {"cpu": "1000m"}),))
    assert not take_the_same((mapped,), (NodeAllocatableClaim("x", ("c",)),))


def test_claims_are_added_after_init_containers_and_are_within_pod_level_requests() -> None:
    claims = (NodeAllocatableClaim("c", ("main",), {"cpu": "2"}),)

    def cpu(**spec):
        return amounts_with_claims(pod(**spec), claims).requests["cpu"]

    def asks(amount):
        return [{"name": "c", "resources": {"requests": {"cpu": amount}}}]

    assert cpu(containers=asks("1"), initContainers=asks("4")) == 6000
    assert cpu(containers=asks("1"), resources={"requests": {"cpu": "5"}}) == 5000
    assert cpu(containers=asks("1"), overhead={"cpu": "250m"}) == 3250
    one = pod(containers=asks("1"))
    assert counted_amounts(one) == amounts_with_claims(one, ())


FIT = {
    "nothing-asked": ({}, {}, None),
    "enough": ({"cpu": "1"}, {"cpu": "1", "memory": "1Gi"}, None),
    "too-little-cpu-left": ({"cpu": "1"}, {"cpu": "2"}, Status.unschedulable("Insufficient cpu")),
    "more-than-the-node-has": ({"cpu": "1"}, {"cpu": "4"}, Status.unresolvable("Insufficient cpu")),
    "several": (
        {"cpu": "1"},
        {"memory": "8Gi", "cpu": "2", "ephemeral-storage": "2Gi", "hugepages-1Gi": "2Gi"},
        Status.unresolvable(
            *("Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage"), "Insufficient hugepages-1Gi"
        ),
    ),
    "hugepages-left": ({}, {HUGE: "4Mi"}, None),
    "hugepages-taken": ({}, {HUGE: "6Mi"}, Status.unschedulable(f"Insufficient {HUGE}")),
    "what-only-containers-ask-is-for-another-plugin": ({"example.com/gpu": "1"}, {"cpu": "1"}, None),
}


@pytest.mark.parametrize("case", FIT)
def test_requests_and_claims_must_fit_together(case) -> None:
    """A node of 4 CPUs, with a pod that takes one of them, and half of the small pages."""
    requests, taken, verdict = FIT[case]
    allocatable = {"cpu": "4", "memory": "4Gi", "ephemeral-storage": "1Gi", HUGE: "8Mi", "hugepages-1Gi": "1Gi"}
    info = node_info(allocatable=allocatable, pods=[on_node("a", ("x", {"cpu": "500m"}), cpu="1", **{HUGE: "4Mi"})])
    one = pod(containers=[{"name": "c", "resources": {"requests": requests}}])

    assert refuse_too_much(one, (NodeAllocatableClaim("c", ("c",), taken),), info) == verdict


PER_CONTAINER = [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]
LEVELS = {
    "no-pod-level": (None, None, None),
    "enough": ({"cpu": "3", "memory": "1Gi"}, None, None),
    "too-little-of-one": ({"cpu": "2", "memory": "2Gi"}, None, "cpu"),
    "too-little-of-several": ({"cpu": "2", "memory": "1Mi"}, None, "cpu"),
    "overhead-is-not-the-containers": ({"cpu": "3"}, {"cpu": "500m"}, None),
    "limits-only": ({}, None, None),
}


@pytest.mark.parametrize("case", LEVELS)
def test_pod_level_requests_must_cover_containers_and_claims(case) -> None:
    requests, overhead, short = LEVELS[case]
    spec = {"containers": PER_CONTAINER} | ({"resources": {"requests": requests}} if requests is not None else {})
    one = pod(**spec, **({"overhead": overhead} if overhead else {}))
    verdict = refuse_too_much(
        one,
        (NodeAllocatableClaim("c", ("c",), {"cpu": "2"}),),
        node_info(allocatable={"cpu": "8", "memory": "8Gi"}),
    )

    expected = (
        f"pod level request for {short} is insufficient to cover the aggregated container and node-allocatable DRA "
        "requests"
    )
    assert verdict == (Status.unresolvable(expected) if short else None)
