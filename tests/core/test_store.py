"""The store: newest wins, uids are identities, nodes are touched exactly when a plugin could see a difference."""

from __future__ import annotations

import msgspec
import pytest

from allocator import Features
from scheduler.core.ground.newest_objects import UNCHANGED
from scheduler.core.state.claim_overlay import ClaimOverlay
from scheduler.core.state.core_view import CoreView
from scheduler.core.state.store import Store, claims_of
from scheduler.model.held import Held
from scheduler.model.keys import ClaimKey, NodeName, PodUid
from scheduler.model.objects import Pod
from tests import builders


@pytest.fixture
def store() -> Store:
    store = Store(Features())
    for name in ("a", "b"):
        store.observe_node(builders.node(name))
        store.observe_slice(builders.resource_slice(f"slice-{name}", node=name), builders.next_revision())
    return store


def touched(store: Store, action) -> list[str]:
    """Nodes that `action` touches."""
    position = store.changes.position
    action()
    changed = store.changes.since(position)
    return list(store.node_order if changed is None else changed)  # None: everything


def test_an_older_pod_changes_nothing(store):
    new = builders.pod("p", node="a")
    old = builders.pod("p", revision=1)
    store.observe_pod(new)
    assert store.observe_pod(old) is UNCHANGED
    assert store.pods[new.uid] is new


def test_a_pod_of_the_same_name_that_is_older_is_not_believed(store):
    store.observe_pod(builders.pod("p", uid="new"))
    assert store.observe_pod(builders.pod("p", uid="old", revision=1)) is UNCHANGED
    assert list(store.pods) == ["new"]


def test_a_pod_of_the_same_name_that_is_newer_replaces_the_one_before(store):
    old = builders.pod("p", uid="old")
    store.observe_pod(old)
    new = builders.pod("p", uid="new")
    assert store.pods.replaced_by(new.uid, new.metadata.revision, new) == "old"
    assert store.pods.replaced_by(old.uid, old.metadata.revision, old) is None


def test_a_pod_counts_on_its_node_until_it_is_gone_or_finished(store):
    info = store.node_infos[NodeName("a")]
    store.observe_pod(builders.pod("p", node="a", requests={"cpu": "2"}))
    assert info.requested == {"cpu": 2000, "pods": 1}
    store.observe_pod(builders.pod("p", node="a", requests={"cpu": "2"}, phase="Failed"))
    assert info.requested == {}
    store.observe_pod(builders.pod("q", node="a", requests={"cpu": "1"}))
    store.delete_pod(PodUid("uid-default-q"), 0)
    assert info.requested == {}


def test_an_assumed_pod_counts_until_it_is_forgotten_or_seen_elsewhere(store):
    a, b = (store.node_infos[NodeName(name)] for name in "ab")
    pod = builders.pod("p", requests={"cpu": "1"})
    store.observe_pod(pod)
    store.assume(pod.uid, NodeName("a"))
    assert a.requested["cpu"] == 1000
    store.observe_pod(builders.pod("p", node="b", requests={"cpu": "1"}))
    assert (a.requested, b.requested["cpu"]) == ({}, 1000)
    store.forget_assumed(pod.uid)
    assert b.requested["cpu"] == 1000


def test_pods_seen_before_their_node_are_counted_when_it_comes(store):
    store.observe_pod(builders.pod("p", node="late"))
    store.observe_node(builders.node("late"))
    assert list(store.node_infos[NodeName("late")].pods) == ["uid-default-p"]


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(lambda s: s.observe_node(builders.node("a")), [], id="a-heartbeat"),
        pytest.param(lambda s: s.observe_node(builders.node("a", labels={"x": "y"})), ["a"], id="labels"),
        pytest.param(lambda s: s.observe_node(builders.node("a", unschedulable=True)), ["a"], id="cordon"),
        pytest.param(lambda s: s.observe_node(builders.node("a", uid="another")), ["a"], id="made-again"),
        pytest.param(lambda s: s.observe_node(builders.node("c")), ["c"], id="new"),
        pytest.param(lambda s: s.delete_node(NodeName("a"), 0), ["a"], id="gone"),
        pytest.param(lambda s: s.observe_pod(builders.pod("p")), [], id="unbound-pod"),
        pytest.param(lambda s: s.observe_pod(builders.pod("p", node="a")), ["a"], id="bound-pod"),
        pytest.param(lambda s: s.observe_pod(builders.pod("p", node="nowhere")), [], id="pod-on-unknown-node"),
        pytest.param(
            lambda s: s.observe_slice(builders.resource_slice("slice-a", node="a", generation=2), 10**6),
            ["a"],
            id="slice-of-a-node",
        ),
        pytest.param(lambda s: s.delete_slice("slice-b", 0), ["b"], id="slice-withdrawn"),
        pytest.param(
            lambda s: s.observe_slice(builders.resource_slice("net", node=None, pool="net", allNodes=True), 10**6),
            ["a", "b"],
            id="slice-for-all-nodes",
        ),
        pytest.param(lambda s: s.observe_class(builders.device_class(), 10**6), ["a", "b"], id="class"),
    ],
)
def test_what_touches_which_nodes(store, change, want):
    assert touched(store, lambda: change(store)) == want


def test_running_is_no_difference_but_deleting_is(store):
    store.observe_pod(builders.pod("p", node="a"))
    assert touched(store, lambda: store.observe_pod(builders.pod("p", node="a", phase="Running"))) == []
    assert touched(store, lambda: store.observe_pod(builders.pod("p", node="a", deleting=True))) == ["a"]


def test_a_pod_counts_with_what_its_kubelet_says_while_it_is_resized(store):
    def at(cpu: str):
        one = builders.pod_object("p", node="a", requests={"cpu": "1"})
        amounts = {"resources": {"requests": {"cpu": cpu}}, "allocatedResources": {"cpu": cpu}}
        statuses = [{"name": container["name"], **amounts} for container in one["spec"]["containers"]]
        return msgspec.convert({**one, "status": {**one["status"], "containerStatuses": statuses}}, Pod)

    for cpu, want, nodes in (("2", 2000, ["a"]), ("2", 2000, []), ("1", 1000, ["a"])):
        assert touched(store, lambda cpu=cpu: store.observe_pod(at(cpu))) == nodes
        assert store.node_infos[NodeName("a")].requested["cpu"] == want


def test_images_are_kept_by_name_and_not_with_the_node(store):
    images = [{"names": ["a:1", "a@sha256:0"], "sizeBytes": 7}, {"names": None}]
    for name in ("a", "b"):
        assert touched(store, lambda name=name: store.observe_node(builders.node(name, images=images))) == [name]
    assert touched(store, lambda: store.observe_node(builders.node("a", images=images))) == []
    assert store.node_infos[NodeName("a")].node.status.images is None
    known = store.images.find("a:1")
    assert known is not None
    assert (known.size_bytes, known.nodes) == (7, {"a", "b"})

    store.observe_node(builders.node("a"))
    store.delete_node(NodeName("b"), 0)
    assert store.images.find("a:1") is None


def test_generations_grow_and_are_never_used_twice(store):
    first = store.node_infos[NodeName("a")].generation
    store.delete_node(NodeName("a"), 0)
    store.observe_node(builders.node("a"))
    assert store.node_infos[NodeName("a")].generation > first


def test_claims_of_a_pod_are_those_with_names(store):
    pod = builders.pod("p", claims=("direct", "direct"), templates={"x": "generated", "y": None})
    assert claims_of(pod) == (ClaimKey("default", "direct"), ClaimKey("default", "generated"))
    store.observe_pod(pod)
    assert store.pods_using(ClaimKey("default", "generated")) == [pod]
    assert store.users_of(ClaimKey("default", "generated")) == (pod.uid,)
    store.observe_pod(builders.pod("p", claims=("direct", "direct"), templates={"x": "other", "y": None}))
    assert store.pods_using(ClaimKey("default", "generated")) == []
    assert store.users_of(ClaimKey("default", "generated")) == ()
    store.delete_pod(pod.uid, 0)
    assert store.claim_users() == {}


# The overlay


def allocated(name: str, *devices: str, pool: str = "a", **fields):
    return builders.claim(name, allocation=builders.allocation(*devices, pool=pool), **fields)


def observe(store: Store, overlay: ClaimOverlay, claim) -> None:
    store.observe_claim(claim)
    overlay.observe(claim)


def held(claim, *devices: str) -> Held:
    return Held(claim.key, claim.uid, builders.allocation(*devices, pool="a"))


def in_use(overlay: ClaimOverlay) -> list[str]:
    return [device.device for device in overlay.in_use.devices()]


def test_all_claims_count_whoever_allocated_them(store):
    overlay = ClaimOverlay(store)
    observe(store, overlay, allocated("theirs", "gpu-0"))
    assert in_use(overlay) == ["gpu-0"]
    claim = allocated("theirs", "gpu-1")
    observe(store, overlay, claim)
    assert in_use(overlay) == ["gpu-1"]
    store.delete_claim(claim.uid, 0)
    overlay.forget(claim.uid)
    assert in_use(overlay) == []


def test_held_and_observed_count_once_and_the_hold_ends(store):
    overlay = ClaimOverlay(store)
    claim = builders.claim("c")
    observe(store, overlay, claim)
    assert touched(store, lambda: overlay.hold(PodUid("p"), [held(claim, "gpu-0")])) == ["a"]
    assert overlay.is_held(claim.uid)
    assert touched(store, lambda: observe(store, overlay, allocated("c", "gpu-0"))) == []
    assert not overlay.is_held(claim.uid)
    assert overlay.release(PodUid("p")) == ()
    assert in_use(overlay) == ["gpu-0"]


def test_held_and_observed_otherwise_both_count(store):
    overlay = ClaimOverlay(store)
    claim = builders.claim("c")
    observe(store, overlay, claim)
    overlay.hold(PodUid("p"), [held(claim, "gpu-0")])
    observe(store, overlay, allocated("c", "gpu-1"))
    assert in_use(overlay) == ["gpu-0", "gpu-1"]
    assert [one.claim.name for one in overlay.release(PodUid("p"))] == ["c"]
    assert in_use(overlay) == ["gpu-1"]


def test_one_device_in_two_claims_is_free_only_when_both_are_gone(store):
    overlay = ClaimOverlay(store)
    ours, theirs = allocated("ours", "gpu-0"), allocated("theirs", "gpu-0")
    observe(store, overlay, ours)
    observe(store, overlay, theirs)
    store.delete_claim(ours.uid, 0)
    overlay.forget(ours.uid)
    assert in_use(overlay) == ["gpu-0"]


def test_a_claim_cannot_be_held_twice(store):
    overlay = ClaimOverlay(store)
    claim = builders.claim("c")
    observe(store, overlay, claim)
    overlay.hold(PodUid("p"), [held(claim, "gpu-0")])
    with pytest.raises(AssertionError, match="held twice"):
        overlay.hold(PodUid("q"), [held(claim, "gpu-1")])


def test_only_what_is_held_for_the_pod_may_be_written(store):
    overlay = ClaimOverlay(store)
    claim = builders.claim("c")
    observe(store, overlay, claim)
    overlay.hold(PodUid("p"), [held(claim, "gpu-0")])
    assert overlay.is_held_for(claim.uid, PodUid("p"), builders.allocation("gpu-0", pool="a"))
    assert not overlay.is_held_for(claim.uid, PodUid("p"), builders.allocation("gpu-1", pool="a"))
    assert not overlay.is_held_for(claim.uid, PodUid("q"), builders.allocation("gpu-0", pool="a"))


def test_the_claims_of_a_namespace_are_named_however_many_another_has(store):
    """A person who has mistyped one reads "there are: none" otherwise."""
    view = CoreView(store, ClaimOverlay(store), lambda: "")
    for number in range(5_001):
        store.observe_claim(builders.claim(f"c-{number}", namespace="crowd"))
    claim = builders.claim("gpu", namespace="team")
    store.observe_claim(claim)
    assert view.claim_names("team") == ["gpu"]

    store.delete_claim(claim.uid, builders.next_revision())
    assert view.claim_names("team") == []
