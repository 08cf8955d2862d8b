"""What goes with pods when they go, whether that could help, and what a pod would be given then."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from msgspec.structs import replace as with_fields

from scheduler.framework.api import Profile
from scheduler.framework.runner import Runner
from scheduler.framework.status import SUCCESS, Code, Status
from scheduler.model.claim import Consumer
from scheduler.model.held import Held
from scheduler.model.keys import ClaimKey, NodeName, PodUid
from scheduler.model.objects import PodResourceClaim
from scheduler.model.pod_group import PodGroup
from scheduler.model.special_claim import provisional_uid, special_claim_key
from scheduler.plugins.dynamic_resources import DynamicResources
from scheduler.plugins.dynamic_resources.node_search import REASON_NO_SOLUTION
from tests.answers.verdicts import Cases
from tests.plugins.cluster import (
    Cluster,
    NoDryRun,
    allocation,
    claim,
    cycle_of,
    exactly,
    gpu,
    info_of,
    node_slice,
    pod_with,
)
from tests.plugins.objects import node_info
from tests.plugins.test_pod_groups import GROUP, OF_GROUP

PLUGIN = DynamicResources()
REFUSED = Status.unresolvable(REASON_NO_SOLUTION)
P = pod_with("wanted", name="p", priority=100)


def running(name: str, *claims: str, on: str = "node", priority: int = 0, **more: Any):
    return pod_with(*claims, name=name, nodeName=on, priority=priority, **more)


def leaving(name: str, *claims: str, **more: Any):
    one = running(name, *claims, **more)
    return replace_metadata(one, deletion_timestamp="2026-01-01T00:00:00Z")


def replace_metadata(one, **fields):
    return with_fields(one, metadata=with_fields(one.metadata, **fields))


def finished(name: str, *claims: str):
    one = running(name, *claims)
    return with_fields(one, status=with_fields(one.status, phase="Succeeded"))


def used(name: str, *pods, devices=("gpu-0",), node: str = "node", **more: Any):
    """A claim that is allocated, and reserved for these pods."""
    return claim(name, allocation=allocation(node, *devices, **more), reserved_for=pods)


A, B = running("a", "c"), running("b", "c")


@dataclass
class World:
    """Which of the pods `removed` (names) release claims."""

    pods: tuple[Any, ...]
    claims: tuple[Any, ...]
    released: tuple[str, ...]
    removed: tuple[str, ...] = ("a",)
    slices: tuple[Any, ...] = (node_slice("node", gpu("gpu-0"), gpu("gpu-1")),)
    group: PodGroup | None = None
    pending: tuple[Any, ...] = ()

    def view(self) -> Cluster:
        view = Cluster(node_info(), node_info("other"), slices=self.slices, claims=(*self.claims, claim("wanted")))
        if self.group is not None:
            view.store.pod_groups[self.group.key] = self.group
        view.put_pods(*self.pods, *self.pending)
        return view


PER_DEVICE = {"nodeName": None, "perDeviceNodeSelection": True}
WORLDS = {
    "the-only-holder-goes": World((A,), (used("c", A),), ("c",)),
    "nobody-goes": World((A,), (used("c", A),), (), removed=()),
    "both-holders-go": World((A, B), (used("c", A, B),), ("c",), removed=("a", "b")),
    "one-of-two-holders-goes": World((A, B), (used("c", A, B),), ()),
    "the-other-is-leaving": World((A, leaving("b", "c")), (used("c", A, B),), ("c",)),
    "the-other-has-finished": World((A, finished("b", "c")), (used("c", A, B),), ("c",)),
    "the-other-is-gone": World((A,), (used("c", A, B),), ("c",)),
    "who-is-leaving-does-not-go-by-itself": World((leaving("b", "c"),), (used("c", B),), (), removed=()),
    "who-is-leaving-goes": World((leaving("b", "c"),), (used("c", B),), ("c",), removed=("b",)),
    "bound-but-not-reserved-yet": World((A,), (used("c"),), ("c",)),
    "the-other-is-bound-but-not-reserved-yet": World((A, B), (used("c", A),), ()),
    "the-other-waits-and-holds-nothing": World((A,), (used("c", A),), ("c",), pending=(pod_with("c", name="b"),)),
    "the-other-is-elsewhere": World((A, running("b", "c", on="other")), (used("c", A, B),), ()),
    "the-other-is-elsewhere-unreserved": World((A, running("b", "c", on="other")), (used("c", A),), ()),
    "the-other-is-no-pod": World(
        (A,), (replace(used("c", A), reserved_for=(Consumer("things", "x", "x", "example.com"),)),), ()
    ),
    "the-pod-uses-it-itself": World((running("a", "wanted"),), (), ()),
    "two-claims": World(
        (running("a", "c", "d"),), (used("c", A), used("d", A, devices=["gpu-1"])), ("c", "d"), removed=("a",)
    ),
    "one-of-two-claims-is-shared": World(
        (running("a", "c", "d"), running("b", "d")), (used("c", A), used("d", A, B, devices=["gpu-1"])), ("c",)
    ),
    "not-allocated": World((A,), (claim("c", reserved_for=(A,)),), ()),
    "the-claim-is-gone": World((A,), (), ()),
    "admin-access-only": World((A,), (used("c", A, adminAccess=True),), ()),
    "of-the-group": World((A,), (replace(used("c"), reserved_for=(OF_GROUP,)),), ()),
    "of-the-group-and-not-reserved-yet": World(
        (running("a", "shared", schedulingGroup={"podGroupName": "group"}),), (used("shared"),), (), group=GROUP
    ),
    "of-its-own-in-a-group": World(
        (running("a", "c", schedulingGroup={"podGroupName": "group"}),),
        (used("c", A),),
        ("c",),
        group=replace(GROUP, claims=(PodResourceClaim("r0", "shared"),)),
    ),
    "a-device-of-no-slice": World((A,), (used("c", A, devices=["gpu-9"]),), ()),
    "a-device-that-all-nodes-see": World(
        (A,), (used("c", A),), (), slices=(node_slice("node", gpu(), nodeName=None, allNodes=True),)
    ),
    "a-device-of-the-node-and-one-that-all-see": World(
        (A,),
        (used("c", A, devices=["gpu-0", "gpu-1"]),),
        (),
        slices=(node_slice("node", gpu("gpu-0", nodeName="node"), gpu("gpu-1", allNodes=True), **PER_DEVICE),),
    ),
    "a-device-that-names-the-node-itself": World(
        (A,), (used("c", A),), ("c",), slices=(node_slice("node", gpu("gpu-0", nodeName="node"), **PER_DEVICE),)
    ),
    "a-device-that-names-another-node-itself": World(
        (A,), (used("c", A),), (), slices=(node_slice("node", gpu("gpu-0", nodeName="other"), **PER_DEVICE),)
    ),
    "a-pool-that-is-being-updated": World(
        (A,),
        (used("c", A),),
        (),
        slices=(node_slice("node", gpu()),),
    ),
}
WORLDS["a-pool-that-is-being-updated"].slices[0]["spec"]["pool"] = {
    "name": "node",
    "generation": 2,
    "resourceSliceCount": 2,
}


def names(helds: tuple[Held, ...]) -> tuple[str, ...]:
    return tuple(held.claim.name for held in helds)


def uids(*names: str) -> set[PodUid]:
    return {PodUid(f"uid-of-{name}") for name in names}


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())
def test_what_is_released(world: World) -> None:
    view = world.view()
    released = PLUGIN.released(P, info_of(view), uids(*world.removed), view)
    assert names(released) == world.released
    for held in released:
        view.overlay.in_use.remove(held.allocation)  # raises unless exactly that is counted


def test_what_is_in_flight_is_released_with_its_pod() -> None:
    view = Cluster(node_info(), slices=[node_slice("node", gpu())], claims=[claim("c"), claim("wanted")])
    one = pod_with("c", name="a")
    view.put_pods(one)
    view.store.assume(one.uid, NodeName("node"))
    held = Held(ClaimKey("default", "c"), view.claims[ClaimKey("default", "c")].uid, allocation("node", "gpu-0"))
    view.overlay.hold(one.uid, [held])
    assert PLUGIN.released(P, info_of(view), {one.uid}, view) == (held,)
    assert PLUGIN.released(P, info_of(view), set(), view) == ()


def test_a_special_claim_that_does_not_exist_yet_is_released_with_its_pod() -> None:
    view = Cluster(node_info(), slices=[node_slice("node", gpu())], claims=[claim("wanted")])
    one = pod_with(name="a", containers=[{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}])
    view.put_pods(one)
    view.store.assume(one.uid, NodeName("node"))
    held = Held(special_claim_key(one), provisional_uid(one.uid), allocation("node", "gpu-0"))
    view.overlay.hold(one.uid, [held])
    assert PLUGIN.released(P, info_of(view), {one.uid}, view) == (held,)


def may_help(view: Cluster, one=P, status: Status | None = None, plugin: DynamicResources = PLUGIN) -> bool:
    cycle = cycle_of(one)
    assert plugin.pre_filter(cycle, view).status.is_success
    found = plugin.filter(cycle, info_of(view), view)
    assert found.message.startswith(REASON_NO_SOLUTION) or status is not None
    return plugin.may_help(cycle, info_of(view), status or found, view)


def full(*pods, wanted=None, devices=2) -> Cluster:
    """A node each of whose devices is a running pod's, and the claim `wanted` of P."""
    view = Cluster(
        node_info(),
        slices=[node_slice("node", *[gpu(f"gpu-{index}") for index in range(devices)])],
        claims=[wanted or claim("wanted")],
    )
    for index, one in enumerate(pods):
        view.put(used(f"c{index}", one, devices=[f"gpu-{index}"]))
    view.put_pods(*pods)
    return view


LOW = running("low", "c0"), running("low-2", "c1")


@pytest.mark.parametrize(
    ("view", "helps"),
    [
        pytest.param(full(*LOW), True, id="one-of-two"),
        pytest.param(full(*LOW, wanted=claim("wanted", exactly(count=2))), True, id="both"),
        pytest.param(full(*LOW, wanted=claim("wanted", exactly(count=3))), False, id="more-than-there-are"),
        pytest.param(
            full(*LOW, wanted=claim("wanted", exactly(count=2), exactly("more"))), False, id="more-in-two-requests"
        ),
        pytest.param(
            full(LOW[0], running("b", "c1", priority=100), wanted=claim("wanted", exactly(count=2))),
            False,
            id="one-pod-is-as-important",
        ),
        pytest.param(full(running("a", "c0", priority=100), running("b", "c1", priority=200)), False, id="none-lower"),
        pytest.param(
            full(*LOW, wanted=claim("wanted", exactly(selectors=[{"cel": {"expression": "false"}}]))),
            False,
            id="no-device-matches",
        ),
        pytest.param(
            full(*LOW, wanted=claim("wanted", {"name": "r", "firstAvailable": [
                {"name": "x", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 9},
                {"name": "y", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
            ]})),
            True,
            id="another-alternative",
        ),
    ],
)  # fmt: skip
def test_pods_may_help_only_with_enough_devices(view: Cluster, helps: bool) -> None:
    assert may_help(view) is helps


@pytest.mark.parametrize(
    "reason",
    [
        "resourceclaim not available on the node",
        "timed out trying to allocate devices (search budget of 7 steps)",
        "invalid resource pools were encountered",
        "cannot schedule extended resource claim",
    ],
)
def test_other_refusals_are_for_good(reason: str) -> None:
    assert not may_help(full(*LOW), status=Status.unresolvable(reason))


def test_the_refusal_may_name_the_option() -> None:
    assert may_help(full(*LOW), plugin=DynamicResources(slices="driver=x"))


def test_an_own_claim_elsewhere_is_not_helped() -> None:
    view = full(*LOW)
    view.put(used("elsewhere", node="other"))
    assert not may_help(view, pod_with("wanted", "elsewhere", name="p", priority=100))


def test_what_would_be_given_is_what_filter_found() -> None:
    view = full(LOW[0])
    cycle = cycle_of(P)
    PLUGIN.pre_filter(cycle, view)
    assert PLUGIN.filter(cycle, info_of(view), view) is SUCCESS
    (held,) = PLUGIN.given(cycle, info_of(view))
    assert (held.claim.name, [one.device for one in held.allocation.device_ids()]) == ("wanted", ["gpu-1"])


def test_a_pod_without_claims_is_given_nothing() -> None:
    view = full(LOW[0])
    cycle = cycle_of(pod_with(name="p"))
    PLUGIN.pre_filter(cycle, view)
    assert PLUGIN.given(cycle, info_of(view)) == ()
    assert not PLUGIN.may_help(cycle, info_of(view), REFUSED, view)


# What the setting turns off


OFF = DynamicResources(preempts_for_devices=False)


def test_off_nothing_is_released_kept_or_hoped_for() -> None:
    view = full(LOW[0])
    cycle = cycle_of(P)
    OFF.pre_filter(cycle, view)
    assert OFF.filter(cycle, info_of(view), view) is SUCCESS
    runner = Runner(Profile("s", (OFF,)))
    assert runner.given(cycle, info_of(view)) == ()
    assert runner.released(P, info_of(view), uids("low"), view) == ()
    assert not runner.releasing


@pytest.mark.parametrize(("plugin", "code"), [(PLUGIN, Code.UNSCHEDULABLE_AND_UNRESOLVABLE), (OFF, Code.UNSCHEDULABLE)])
def test_who_frees_its_own_claim_preempts_nobody_in_that_attempt(plugin: DynamicResources, code: Code) -> None:
    """The runner asks no further PostFilter plugin after one that says UNSCHEDULABLE_AND_UNRESOLVABLE."""
    view = Cluster(node_info(), slices=[node_slice("node", gpu())], claims=[used("wanted", node="other")])
    cycle = cycle_of(P)
    plugin.pre_filter(cycle, view)
    status = plugin.filter(cycle, info_of(view), view)
    result = plugin.post_filter(cycle, {NodeName("node"): status}, view, NoDryRun())
    assert (len(result.decisions), result.status.code) == (1, code)
    assert result.status.message == "deallocation of ResourceClaim completed"


def test_cases_are_answered_without_it() -> None:
    runner = Cases()._runner(None)
    (devices,) = [one for one in runner.plugins.values() if isinstance(one, DynamicResources)]
    assert not devices.preempts_for_devices
