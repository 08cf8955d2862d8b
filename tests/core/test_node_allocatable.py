"""Claims that take of a node's own cpu, from the pod to its binding: counted at once, noted before, taken back."""

from __future__ import annotations

import msgspec
import pytest

from allocator import Features
from scheduler.core.ground.inputs import WriteConflicted, WriteOutcomeUnknown, WriteRejected
from scheduler.core.writes.pod_writes import DROPPED_NODE_ALLOCATABLE
from scheduler.framework.decisions import BindPod, PatchNodeAllocatable, PatchPodStatus, WriteClaimStatus
from scheduler.model.keys import NodeName
from scheduler.model.objects import NodeAllocatableClaim
from scheduler.plugins import default_plugins
from tests import builders
from tests.core.rig import Rig

MAIN = [{"name": "main", "resources": {"claims": [{"name": "claim-0"}], "requests": {"cpu": "1"}}}]


def takes(name, cpu):
    return {"name": name, "nodeAllocatableResourceMappings": {"cpu": {"allocationMultiplier": cpu}}}


def rig_with(*names, devices=("4", "4"), **settings) -> Rig:
    """Nodes of 8 CPUs, with devices that take so many of them."""
    rig = Rig(*default_plugins(), **settings)
    rig.add_nodes(*names)
    published = tuple(takes(f"cpu-{index}", cpu) for index, cpu in enumerate(devices))
    for name in names:
        rig.server.put_slice(builders.resource_slice(f"slice-{name}", node=name, devices=published))
    rig.server.put_class(builders.device_class())
    return rig


def claimed(rig: Rig, name="p", **fields):
    """A pod that asks for 1 CPU itself, and has a claim of its own."""
    rig.server.put_claim(builders.claim(f"c-{name}"))
    rig.add_pod(name, claims=(f"c-{name}",), containers=MAIN, **fields)


def pod_of(rig: Rig, name="p"):
    return next(pod for key, pod in rig.server.pods.items() if key.name == name)


def note_of(rig: Rig, name="p"):
    return pod_of(rig, name).status.node_allocatable_resource_claim_statuses


def until(rig: Rig, kind):
    """Go on until a decision of this kind is pending, and take it."""
    for _ in range(40):
        if any(isinstance(decision, kind) for decision in rig.pending):
            return rig.take(kind)
        if rig.pending:
            rig.execute()
        else:
            rig.watch()
            rig.tick()
    raise AssertionError(f"no {kind.__name__} among {rig.decided}")


def requested_cpu(rig: Rig, node="a"):
    return rig.machine.store.node_infos[NodeName(node)].requested.get("cpu", 0)


def test_the_note_is_stored_before_the_pod_is_bound():
    rig = rig_with("a")
    claimed(rig)
    rig.settle()
    writes = [type(one) for one in rig.decided if hasattr(one, "id") and not isinstance(one, PatchPodStatus)]
    assert writes[-1] is BindPod
    assert PatchNodeAllocatable in writes
    assert note_of(rig) == (NodeAllocatableClaim("c-p", ("main",), {"cpu": "4"}),)
    assert rig.node_of("p") == "a"


def test_what_a_claim_takes_counts_from_the_decision_on():
    """1 CPU of the container and 4 of the claim, before anything is stored; then 4 do not fit beside them."""
    rig = rig_with("a")
    claimed(rig)
    until(rig, WriteClaimStatus)
    assert requested_cpu(rig) == 5000
    rig.add_pod("plain", requests={"cpu": "4"})
    rig.watch()
    rig.tick()
    assert (
        rig.take(PatchPodStatus).message == "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are "
        "available: 1 No preemption victims found for incoming pod."
    )


def test_it_counts_once_all_the_way():
    rig = rig_with("a")
    claimed(rig)
    rig.settle()
    assert requested_cpu(rig) == 5000
    rig.server.delete_pod(pod_of(rig).key)
    rig.settle()
    assert requested_cpu(rig) == 0


def test_pods_of_one_shape_are_told_apart_by_what_is_left():
    rig = rig_with("a", "b", devices=("2", "2", "2"))
    for name in "pqrst":
        claimed(rig, name)
    rig.settle()
    assert sorted(str(rig.node_of(name)) for name in "pqrs") == ["a", "a", "b", "b"]
    assert rig.node_of("t") is None
    assert "2 Insufficient cpu" in rig.condition_of("t")[1]


def test_pods_of_equal_sums_are_told_apart_by_who_uses_the_claim():
    rig = rig_with("a")
    unused = [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]
    rig.server.put_claim(builders.claim("c-idle"))
    rig.add_pod("idle", claims=("c-idle",), containers=unused)
    rig.settle()
    assert "claim c-idle: node-allocatable resource claim not referenced" in rig.condition_of("idle")[1]
    claimed(rig)
    rig.settle()
    assert rig.node_of("p") == "a"


def test_a_note_that_somebody_changes_on_a_bound_pod_counts():
    rig = rig_with("a")
    claimed(rig)
    rig.settle()
    pod = pod_of(rig)
    changed = (NodeAllocatableClaim("c-p", ("main",), {"cpu": "2"}),)
    status = msgspec.structs.replace(pod.status, node_allocatable_resource_claim_statuses=changed)
    rig.server.put_pod(msgspec.structs.replace(pod, status=status))
    rig.settle()
    assert requested_cpu(rig) == 3000


def test_what_was_assumed_once_is_not_assumed_again():
    rig = rig_with("a")
    claimed(rig)
    rig.watch()
    store, uid = rig.machine.store, pod_of(rig).uid
    store.assume(uid, NodeName("a"), (NodeAllocatableClaim("c-p", ("main",), {"cpu": "4"}),))
    assert requested_cpu(rig) == 5000
    store.forget_assumed(uid)
    assert not store.assumed_claims
    store.assume(uid, NodeName("a"))
    assert requested_cpu(rig) == 1000
    store.forget_assumed(uid)


def test_a_pod_that_leaves_wakes_one_that_waits_for_what_its_claim_takes():
    rig = rig_with("a")
    rig.add_pod("plain", requests={"cpu": "4"})
    rig.settle()
    claimed(rig)
    rig.settle()
    assert "1 Insufficient cpu" in rig.condition_of("p")[1]
    rig.server.delete_pod(pod_of(rig, "plain").key)
    rig.wait(2_000)
    assert rig.node_of("p") == "a"


@pytest.mark.parametrize("has_landed", [True, False])
def test_a_note_of_unknown_outcome_is_written_until_it_is_known(has_landed):
    rig = rig_with("a")
    claimed(rig)
    lost = until(rig, PatchNodeAllocatable)
    if has_landed:
        rig.server.execute(lost)
    rig.execute(watch=False)
    rig.tell(WriteOutcomeUnknown(lost.id))
    assert not any(isinstance(one, BindPod) for one in rig.decided)
    rig.wait(1_000)
    assert rig.node_of("p") == "a"
    assert note_of(rig)[0].resources == {"cpu": "4"}


def test_a_note_on_a_pod_that_has_changed_is_written_again():
    rig = rig_with("a")
    claimed(rig)
    patch = until(rig, PatchNodeAllocatable)
    rig.server.put_pod(pod_of(rig))
    rig.execute(watch=False)
    rig.tell(rig.server.execute(patch))
    assert isinstance(rig.server.execute(patch), WriteConflicted)
    rig.settle()
    assert rig.node_of("p") == "a"
    assert note_of(rig)[0].resources == {"cpu": "4"}


def test_a_server_that_drops_the_note_is_named_and_nothing_is_bound():
    rig = rig_with("a")
    rig.server.keeps_node_allocatable = False
    claimed(rig)
    rig.settle()
    assert rig.condition_of("p") == ("SchedulerError", f"the API server refuses: Dropped: {DROPPED_NODE_ALLOCATABLE}")
    assert rig.node_of("p") is None
    assert requested_cpu(rig) == 0
    rig.server.keeps_node_allocatable = True
    rig.wait(61_000)
    assert rig.node_of("p") == "a"


def test_a_binding_that_is_refused_takes_the_note_back():
    rig = rig_with("a")
    claimed(rig)
    bind = until(rig, BindPod)
    assert note_of(rig)
    rig.tell(WriteRejected(bind.id, 403, "Forbidden", "no", is_configuration=True))
    rig.settle()
    assert note_of(rig) is None
    assert requested_cpu(rig) == 0


def test_a_claim_that_was_allocated_before_counts_too():
    """By an attempt that ended without a binding, or a scheduler that was stopped; upstream would not count it."""
    rig = rig_with("a")
    rig.add_pod("plain", requests={"cpu": "4"}, node="a")
    stored = builders.allocation("cpu-0", pool="a")
    rig.server.put_claim(
        builders.claim("c-p", allocation=stored, finalizers=("resource.kubernetes.io/delete-protection",))
    )
    rig.add_pod("p", claims=("c-p",), containers=MAIN)
    rig.settle()
    assert "1 Insufficient cpu" in rig.condition_of("p")[1]
    rig.server.delete_pod(pod_of(rig, "plain").key)
    rig.wait(2_000)
    assert note_of(rig)[0].resources == {"cpu": "4"}
    assert requested_cpu(rig) == 5000


def test_a_note_of_an_earlier_attempt_is_replaced_and_does_not_count_for_the_pod():
    rig = rig_with("a", devices=("2",))
    claimed(rig)
    stale = (NodeAllocatableClaim("c-p", ("main",), {"cpu": "7"}),)
    pod = pod_of(rig)
    status = msgspec.structs.replace(pod.status, node_allocatable_resource_claim_statuses=stale)
    rig.server.put_pod(msgspec.structs.replace(pod, status=status))
    rig.settle()
    assert rig.node_of("p") == "a"
    assert note_of(rig)[0].resources == {"cpu": "2"}
    assert requested_cpu(rig) == 3000


def test_a_second_scheduler_counts_what_the_first_has_noted():
    first = rig_with("a")
    claimed(first)
    first.settle()
    second = Rig(*default_plugins(), is_listed=False)
    for given in first.server.list_all():
        second.tell(given)
    assert requested_cpu(second) == 5000


def test_a_shared_claim_is_for_the_first_pod():
    rig = rig_with("a")
    rig.server.put_claim(builders.claim("c"))
    for name in "pq":
        rig.add_pod(name, claims=("c",), containers=MAIN)
    rig.settle()
    placed = [name for name in "pq" if rig.node_of(name)]
    (other,) = {"p", "q"} - set(placed)
    assert len(placed) == 1
    assert "node allocatable resource claim c is already used by another pod" in rig.condition_of(other)[1]


def test_with_the_feature_off_nothing_is_noted_or_counted():
    rig = rig_with("a", features=Features(node_allocatable_resources=False))
    claimed(rig)
    rig.settle()
    assert rig.node_of("p") == "a"
    assert note_of(rig) is None
    assert requested_cpu(rig) == 1000


def test_slices_without_such_devices_cost_no_write():
    rig = Rig(*default_plugins())
    rig.add_nodes("a")
    rig.server.put_slice(builders.resource_slice("s", node="a"))
    rig.server.put_class(builders.device_class())
    claimed(rig)
    rig.settle()
    assert rig.node_of("p") == "a"
    assert not any(isinstance(one, PatchNodeAllocatable) for one in rig.decided)
