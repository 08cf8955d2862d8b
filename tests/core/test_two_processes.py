"""Two processes of one name: what one has bound, or is about to bind, the other does not take away.

Each test drives two machines step by step against one server, in the orders that a process which slept or was cut off
brings about. `tests/sim` looks for the orders that nobody thought of.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from scheduler.core.ground.inputs import WriteOutcomeUnknown, WriteRejected
from scheduler.core.writes.taking_back import fence_of
from scheduler.framework.decisions import BindPod, PatchPodStatus, ReadPod, WriteClaimStatus
from scheduler.model.api_rules import FINALIZER
from scheduler.model.keys import ClaimKey, PodKey
from scheduler.plugins import default_plugins
from tests import builders
from tests.core.rig import Rig

CLAIM = ClaimKey("default", "claim")
POD = PodKey("default", "p")
PATIENCE_MS = 5_000


def process(first: Rig | None = None, **settings) -> Rig:
    """One process; with `first`, another of its name, which has listed all that there is now."""
    rig = Rig(*default_plugins(), is_listed=first is None, **settings)
    if first is not None:
        rig.server, rig.now_ms = first.server, first.now_ms
        rig._told = len(rig.server.log)
        for given in rig.server.list_all():
            rig.tell(given)
    return rig


def cluster(**settings) -> Rig:
    """A process, one node with two devices, and a pod that wants one."""
    rig = process(**settings)
    rig.add_nodes("a")
    rig.server.put_class(builders.device_class())
    rig.server.put_slice(builders.resource_slice("s", node="a", devices=2))
    rig.server.put_claim(builders.claim("claim", finalizers=(FINALIZER,)))
    rig.add_pod("p", claims=("claim",))
    rig.watch()
    return rig


def about_to_bind(**settings) -> Rig:
    """The same: allocation and reservation are stored, the binding has been decided and not sent."""
    rig = cluster(**settings)
    rig.tick()
    rig.execute()
    assert [type(one) for one in rig.pending] == [BindPod]
    return rig


def contest(rig: Rig) -> None:
    """Somebody else was given the same device before."""
    device = next(iter(rig.server.claims[CLAIM].allocation.device_ids())).device
    rig.server.put_claim(builders.claim("theirs", allocation=builders.allocation(device, pool="a")))


def assert_bound_with_its_claim(rig: Rig) -> None:
    claim, pod = rig.server.claims[CLAIM], rig.server.pods[POD]
    assert pod.node_name == "a"
    assert claim.allocation is not None
    assert claim.is_reserved_for(pod.uid)


def edit(rig: Rig, label: str) -> None:
    pod = rig.server.pods[POD]
    meta = msgspec.structs.replace(pod.metadata, labels={"edited": label})
    rig.server.put_pod(msgspec.structs.replace(pod, metadata=meta))


def taken_back(rig: Rig) -> bool:
    return any(
        isinstance(one, WriteClaimStatus) and (one.clear_allocation or one.reserved_for == ()) for one in rig.decided
    )


@pytest.mark.parametrize("is_contested", [False, True])
def test_who_wakes_up_takes_nothing_from_what_the_other_has_bound(is_contested):
    sleeper = about_to_bind()
    if is_contested:
        contest(sleeper)
    other = process(sleeper)
    pod = sleeper.server.pods[POD]
    other.server.put_pod(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="a")))
    sleeper.wait(20_000)
    other.wait(20_000)
    assert not taken_back(sleeper)
    assert not taken_back(other)
    assert_bound_with_its_claim(sleeper)


def test_a_pod_bound_in_the_middle_of_another_attempt_keeps_its_claim():
    """One has reserved the claim for the pod; the other finds it so, and binds the pod first."""
    first = about_to_bind()
    second = process(first)
    second.settle()
    assert_bound_with_its_claim(first)
    first.wait(20_000)
    assert not taken_back(first)
    assert_bound_with_its_claim(first)


def test_what_lost_the_race_for_an_allocation_leaves_it_alone():
    """Both have decided; the other's write is stored. Ours must not undo what it never did."""
    first = cluster()
    second = process(first)
    first.tick()
    second.tick()
    second.execute()
    first.execute()
    first.settle()
    assert not taken_back(first)
    second.settle()
    assert_bound_with_its_claim(first)


def test_a_binding_decided_before_the_fence_is_refused():
    binder = about_to_bind()
    contest(binder)
    other = process(binder)
    other.tick()
    other.execute(watch=False)  # the fence stands, the allocation is not removed yet
    assert fence_of(other.server.pods[POD]) is not None
    assert other.server.claims[CLAIM].allocation is not None
    binder.tell(binder.server.execute(binder.take(BindPod)))
    assert binder.node_of("p") is None
    binder.settle()
    other.settle()
    assert binder.node_of("p") is None
    assert other.server.claims[CLAIM].allocation is None
    for _ in range(10):
        binder.wait(3_000)
        other.wait(3_000)
    assert_bound_with_its_claim(binder)
    (device,) = binder.server.claims[CLAIM].allocation.device_ids()
    assert device.device == "gpu-1"


def test_a_binding_that_comes_first_stops_the_fence():
    binder = about_to_bind()
    contest(binder)
    other = process(binder)
    other.tick()
    fence = other.take(PatchPodStatus)
    binder.tell(binder.server.execute(binder.take(BindPod)))
    other.tell(other.server.execute(fence))
    other.settle()
    assert not taken_back(other)
    assert_bound_with_its_claim(binder)


def test_a_fence_whose_answer_is_lost_is_not_taken_for_one():
    rig = process(about_to_bind())
    contest(rig)
    rig.watch()
    rig.tick()
    fence = rig.take(PatchPodStatus)
    rig.tell(WriteOutcomeUnknown(fence.id))
    assert not taken_back(rig)
    rig.tick(200)
    again = rig.take(PatchPodStatus)
    assert again.fence_ms == fence.fence_ms
    rig.tell(rig.server.execute(again))
    assert taken_back(rig)


@pytest.mark.parametrize("code", [403, 422])
def test_where_no_fence_can_be_put_up_nothing_is_taken(code):
    rig = process(about_to_bind())
    contest(rig)
    rig.watch()
    rig.tick()
    fences = 0
    while any(isinstance(one, PatchPodStatus) and one.fence_ms is not None for one in rig.pending):
        fence = next(one for one in rig.pending if isinstance(one, PatchPodStatus) and one.fence_ms is not None)
        rig.pending.remove(fence)
        rig.tell(WriteRejected(fence.id, code, "Forbidden", "no", is_configuration=code == 403))
        fences += 1
    assert 1 <= fences <= 3  # for the claim that looks idle, for the pod's attempt, and when that has failed
    assert not taken_back(rig)
    assert len(rig.machine.bindings) == 0


def test_a_fence_is_put_up_again_when_the_pod_has_changed():
    rig = process(about_to_bind())
    contest(rig)
    rig.watch()
    rig.tick()
    for label in ("once", "twice", "thrice"):
        edit(rig, label)
        rig.tell(rig.server.execute(rig.take(PatchPodStatus)))
        rig.tell(rig.server.execute(rig.take(ReadPod)))
        rig.tick(1_000)
        assert not taken_back(rig)
    rig.settle()
    assert rig.server.claims[CLAIM].allocation is None


def test_what_was_derived_before_the_claim_changed_is_not_sent():
    """Somebody has reserved the claim anew since: perhaps another process, which saw our fence before."""
    rig = process(about_to_bind())
    contest(rig)
    rig.watch()
    rig.tick()
    fence = rig.take(PatchPodStatus)
    claim = rig.server.claims[CLAIM]
    rig.tell(rig.server.execute(fence))
    rig.server.put_claim(replace(claim, annotations=(("edited", "yes"),)))
    removal = next(one for one in rig.pending if isinstance(one, WriteClaimStatus))
    assert removal.expect_revision == claim.revision
    rig.tell(rig.server.execute(removal))
    assert rig.server.claims[CLAIM].allocation is not None


def test_what_changed_while_the_fence_was_put_up_is_fenced_anew():
    rig = process(about_to_bind())
    contest(rig)
    rig.watch()
    rig.tick()
    fence = rig.take(PatchPodStatus)
    rig.server.put_claim(replace(rig.server.claims[CLAIM], annotations=(("edited", "yes"),)))
    rig.watch()
    rig.tell(rig.server.execute(fence))
    assert not taken_back(rig)
    again = rig.take(PatchPodStatus)
    assert again.fence_ms > fence.fence_ms
    rig.tell(rig.server.execute(again))
    assert taken_back(rig)


def test_behind_a_fence_a_pod_is_bound_only_with_what_was_reserved_since():
    """The fence was put up, its owner stopped: the removal it wanted may still land."""
    late = process(about_to_bind())
    contest(late)
    late.watch()
    late.tick()
    late.execute(watch=False)
    removal = late.take(WriteClaimStatus)
    assert removal.clear_allocation
    late.server.delete_claim(ClaimKey("default", "theirs"))

    rig = process(late)
    rig.wait(PATIENCE_MS - 1)
    assert not any(isinstance(one, BindPod) for one in rig.decided)
    assert not taken_back(rig)  # another process may bind it
    rig.wait(10_000)
    assert_bound_with_its_claim(rig)
    rig.server.execute(removal)
    assert_bound_with_its_claim(rig)


def test_the_same_pod_is_not_delayed_where_nothing_was_ever_taken_back():
    """A restart between reservation and binding."""
    rig = process(about_to_bind())
    rig.settle()
    assert_bound_with_its_claim(rig)


def test_what_post_filter_frees_is_fenced_too():
    """The claim's node is cordoned, and only this pod has it: it is freed, unless the pod is bound meanwhile."""
    binder = about_to_bind()
    rig = process(binder)
    node = rig.server.nodes["a"]
    rig.server.put_node(msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, unschedulable=True)))
    rig.add_nodes("b")
    rig.server.put_slice(builders.resource_slice("s-b", node="b", devices=1))
    rig.watch()
    rig.tick()
    fence = next(one for one in rig.pending if isinstance(one, PatchPodStatus) and one.fence_ms is not None)
    binder.tell(binder.server.execute(binder.take(BindPod)))
    rig.tell(rig.server.execute(fence))
    rig.settle()
    assert not taken_back(rig)
    assert_bound_with_its_claim(rig)


def test_fences_only_grow():
    """Two within one second are told apart, or a binding decided between them would pass for one decided after."""
    rig = process(about_to_bind())
    pod = rig.server.pods[POD]
    later = builders.pod_object("p")["status"] | {
        "conditions": [{"type": "PodScheduled", "status": "False", "lastProbeTime": "2040-01-01T00:00:00Z"}]
    }
    status = msgspec.convert(later, type(pod.status))
    rig.server.put_pod(msgspec.structs.replace(pod, status=status))
    contest(rig)
    rig.watch()
    rig.wait(PATIENCE_MS)
    fences = [one.fence_ms for one in rig.decided if isinstance(one, PatchPodStatus) and one.fence_ms is not None]
    assert fences[0] == fence_of(msgspec.structs.replace(pod, status=status)) + 1000


def test_pods_that_share_a_claim_give_it_back_one_after_the_other():
    """All bindings are refused at once: each takes its reservation back with one fence and one write."""
    count = 12
    rig = process()
    rig.add_nodes("a")
    rig.server.put_class(builders.device_class())
    rig.server.put_slice(builders.resource_slice("s", node="a", devices=1))
    rig.server.put_claim(builders.claim("claim", finalizers=(FINALIZER,)))
    for number in range(count):
        rig.add_pod(f"p-{number}", claims=("claim",))
    rig.watch()
    binds: list[BindPod] = []
    for _ in range(20):
        rig.tick(100)
        binds += [one for one in rig.pending if isinstance(one, BindPod)]
        rig.pending = [one for one in rig.pending if not isinstance(one, BindPod)]
        rig.execute()
    assert len(binds) == count
    assert len(rig.server.claims[CLAIM].reserved_for) == count
    rig.decided.clear()
    for bind in binds:
        rig.tell(WriteRejected(bind.id, 422, "Invalid", "no"))
    for _ in range(40):
        rig.execute()
    fences = [one for one in rig.decided if isinstance(one, PatchPodStatus) and one.fence_ms is not None]
    removals = [one for one in rig.decided if isinstance(one, WriteClaimStatus)]
    assert len({one.pod for one in fences}) == len(fences) == count
    assert len(removals) == count
    assert rig.server.claims[CLAIM].reserved_for == ()
