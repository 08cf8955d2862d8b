"""The claim that the resource claim controller made for a pod is replaced by another one while the pod is being bound.

kube-controller-manager up to 1.36 does that when its watch of claims lags far behind that of pods
(https://github.com/kubernetes/kubernetes/issues/140217): it makes a second claim and writes its name over the first's.
The kubelet looks at the pod's status alone, so a pod bound with the first claim can never start.
"""

from __future__ import annotations

import msgspec
import pytest

from scheduler.core.ground.inputs import WriteConflicted, WriteOutcomeUnknown
from scheduler.framework.decisions import AddClaimFinalizer, BindPod, ReadPod, WriteClaimStatus
from scheduler.model.keys import ClaimKey, PodKey
from scheduler.plugins.dynamic_resources import DynamicResources
from tests import builders
from tests.core.rig import Rig

POD = PodKey("default", "p")
FIRST, SECOND = ClaimKey("default", "p-gpu-first"), ClaimKey("default", "p-gpu-second")


def add_claim(rig: Rig, key: ClaimKey) -> None:
    rig.server.put_claim(builders.claim(key.name, owner_pod=rig.server.pods[POD]))


def replace_claim(rig: Rig) -> None:
    """What the controller does; whether the machine sees it is up to the test."""
    add_claim(rig, SECOND)
    rig.server.name_claim(rig.server.pods[POD], SECOND.name)


def until(kind: type) -> Rig:
    """A rig with one device, whose only pod is about to make this kind of write."""
    rig = Rig(DynamicResources())
    rig.add_nodes("a")
    rig.server.put_class(builders.device_class())
    rig.server.put_slice(builders.resource_slice("slice-a", node="a", devices=1))
    rig.add_pod("p", templates={"gpu": FIRST.name})
    add_claim(rig, FIRST)
    rig.watch()
    rig.tick()
    for _ in range(10):
        if any(isinstance(decision, kind) for decision in rig.pending):
            return rig
        rig.execute()
    raise AssertionError(rig.pending)


def assert_bound_with_the_second(rig: Rig) -> None:
    """There is one device, so the first claim must have given it back."""
    pod, second = rig.server.pods[POD], rig.server.claims[SECOND]
    assert pod.node_name == "a"
    assert second.allocation is not None
    assert [one.uid for one in second.reserved_for] == [pod.uid]
    first = rig.server.claims[FIRST]
    assert first.allocation is None
    assert first.reserved_for == ()


@pytest.mark.parametrize("kind", [AddClaimFinalizer, WriteClaimStatus])
@pytest.mark.parametrize("is_seen_first", [True, False])
def test_a_replacement_seen_before_the_binding_is_sent(kind, is_seen_first):
    rig = until(kind)
    replace_claim(rig)
    if is_seen_first:
        rig.watch()
    rig.execute()
    rig.wait(60_000)
    assert_bound_with_the_second(rig)
    assert not any(isinstance(one, BindPod) and one.expect_revision is None for one in rig.decided)


def test_a_replacement_that_the_machine_has_not_seen_makes_the_server_refuse_the_binding():
    rig = until(BindPod)
    replace_claim(rig)
    rig.execute(watch=False)
    assert rig.node_of("p") is None
    assert [type(one) for one in rig.pending] == [ReadPod]
    rig.wait(60_000)
    assert_bound_with_the_second(rig)


def test_a_replacement_while_the_binding_is_in_doubt():
    """The sending that nobody has heard of cannot land any more: it was for the pod as it was before."""
    rig = until(BindPod)
    bind = rig.take(BindPod)
    rig.tell(WriteOutcomeUnknown(bind.id))
    replace_claim(rig)
    rig.wait(10_000)
    rig.server.execute(bind)  # late
    rig.wait(60_000)
    assert_bound_with_the_second(rig)
    assert len(rig.server.bindings) == 1


def test_a_replacement_after_the_binding_has_landed_changes_nothing_of_it():
    rig = until(BindPod)
    bind = rig.take(BindPod)
    rig.server.execute(bind)
    rig.tell(WriteOutcomeUnknown(bind.id))
    replace_claim(rig)
    rig.wait(1_000)
    assert rig.events == ["Scheduled: Successfully assigned default/p to a"]
    assert rig.server.claims[FIRST].reserved_for


def test_a_replaced_claim_that_is_contested_too_is_taken_back_once():
    rig = until(BindPod)
    rig.pending.clear()  # the binding is on its way for ever
    first = rig.server.claims[FIRST]
    rig.tell(WriteConflicted(rig.decided[-1].id))
    replace_claim(rig)
    rig.server.put_claim(builders.claim("rival", allocation=first.allocation))
    rig.watch()
    rig.execute(watch=False)  # the pod is read, and given up
    rig.execute(watch=False)  # nobody else can bind it with the first claim any more
    taken = [one for one in rig.pending if isinstance(one, WriteClaimStatus) and one.clear_allocation]
    assert [one.claim for one in taken] == [FIRST]


def test_a_pod_changed_otherwise_is_bound_as_decided():
    rig = until(BindPod)
    pod = rig.server.pods[POD]
    rig.server.put_pod(
        msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels={"some": "label"}))
    )
    rig.execute(watch=False)
    assert rig.node_of("p") is None
    rig.settle()  # at once
    assert rig.node_of("p") == "a"
    assert rig.events == ["Scheduled: Successfully assigned default/p to a"]
    assert rig.server.claims[FIRST].reserved_for


def test_pods_without_claims_are_bound_whatever_their_revision():
    rig = Rig(DynamicResources())
    rig.add_nodes("a")
    rig.server.put_class(builders.device_class())
    rig.server.put_slice(builders.resource_slice("slice-a", node="a", devices=1))
    rig.server.put_claim(builders.claim("claim"))
    rig.add_pod("p", claims=("claim",))
    rig.add_pod("plain")
    revision = rig.server.pods[POD].metadata.revision
    rig.settle()
    assert {one.pod.name: one.expect_revision for one in rig.decided if isinstance(one, BindPod)} == {
        "p": revision,
        "plain": None,
    }
