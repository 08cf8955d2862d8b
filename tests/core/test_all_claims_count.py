"""Every claim of the cluster counts, whoever allocated it and whatever happens to it while a pod is being placed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.framework.decisions import AddClaimFinalizer, BindPod, WriteClaimStatus
from scheduler.model.api_rules import FINALIZER, RESERVED_FOR_MAX
from scheduler.model.claim import Consumer
from scheduler.model.keys import ClaimKey, PodKey
from scheduler.plugins import default_plugins
from tests import builders
from tests.core.rig import Rig
from tests.observed import observed

CLAIM = ClaimKey("default", "claim")
OTHER = ClaimKey("default", "other")
TAKEN = builders.allocation("gpu-0", pool="a")


def world(*, devices: int = 1, **claim) -> Rig:
    """One node, and a claim that no pod uses yet."""
    rig = Rig(*default_plugins())
    rig.add_nodes("a")
    rig.server.put_class(builders.device_class())
    rig.server.put_slice(builders.resource_slice("s", node="a", devices=devices))
    rig.server.put_claim(builders.claim("claim", **claim))
    return rig


def consumers(count: int) -> tuple[Consumer, ...]:
    return tuple(Consumer("pods", f"user-{number}", f"uid-user-{number}") for number in range(count))


@pytest.mark.parametrize(
    "foreign",
    [
        pytest.param({"allocation": TAKEN}, id="never-reserved"),
        pytest.param({"allocation": TAKEN, "reserved_for": consumers(1)}, id="reserved-for-a-pod-we-do-not-know"),
        pytest.param(
            {"allocation": TAKEN, "reserved_for": (Consumer("widgets", "w", "uid-w", "example.com"),)},
            id="reserved-for-something-else",
        ),
        pytest.param({"allocation": TAKEN, "deletion_timestamp": "2026-01-01T00:01:00Z"}, id="being-deleted"),
        pytest.param({"allocation": TAKEN, "spec": None, "problem": "spec.devices: unknown"}, id="not-readable-spec"),
    ],
)
def test_what_any_claim_holds_is_not_given_again_until_it_is_gone(foreign):
    rig = world()
    rig.server.put_claim(replace(builders.claim("other"), **{"finalizers": (FINALIZER,), **foreign}))
    rig.add_pod("p", claims=("claim",))
    rig.settle()
    assert rig.server.claims[CLAIM].allocation is None
    assert "cannot allocate all claims" in rig.condition_of("p")[1]

    rig.server.put_claim(replace(rig.server.claims[OTHER], finalizers=()))
    rig.server.delete_claim(OTHER)
    rig.wait(2_000)
    assert rig.node_of("p") == "a"


def test_a_claim_that_is_being_deleted_is_not_allocated():
    rig = world(deleting=True, finalizers=(FINALIZER,))
    rig.add_pod("p", claims=("claim",))
    rig.wait(6_000)
    assert 'resourceclaim "claim" is being deleted' in rig.condition_of("p")[1]
    assert rig.server.claims[CLAIM].allocation is None


@pytest.mark.parametrize("moment", [AddClaimFinalizer, WriteClaimStatus])
def test_a_claim_that_is_replaced_in_the_middle_is_another_claim(moment):
    """Deleted and made again under its name: what was decided for the first is not written to the second."""
    rig = world()
    rig.add_pod("p", claims=("claim",))
    rig.watch()
    rig.tick()
    while not any(isinstance(one, moment) for one in rig.pending):
        rig.execute()
    rig.server.put_claim(replace(rig.server.claims[CLAIM], finalizers=()))
    rig.server.delete_claim(CLAIM)
    rig.server.put_claim(builders.claim("claim", uid="second"))
    rig.wait(5_000)
    assert rig.node_of("p") == "a"
    stored = rig.server.claims[CLAIM]
    assert (stored.uid, len(stored.reserved_for)) == ("second", 1)
    assert len(list(rig.machine.overlay.in_use.devices())) == 1


def test_a_claim_that_is_freed_in_the_middle_is_not_bound_to():
    rig = world()
    rig.add_pod("p", claims=("claim",))
    rig.watch()
    rig.tick()
    rig.execute()  # the finalizer
    write = rig.take(WriteClaimStatus)
    rig.tell(rig.server.execute(write))  # stored, the watch has not told yet
    rig.server.put_claim(replace(rig.server.claims[CLAIM], allocation=None, reserved_for=()))
    rig.skip_watch()
    rig.tell(observed(rig.server.claims[CLAIM]))
    assert not any(isinstance(one, BindPod) for one in rig.pending)
    rig.wait(5_000)
    assert rig.node_of("p") == "a"
    assert rig.server.claims[CLAIM].is_reserved_for(rig.server.pods[PodKey("default", "p")].uid)


def test_the_claim_of_an_earlier_pod_of_the_same_name_is_not_used():
    rig = world(devices=2)
    first = builders.pod("p", templates={"gpu": None}, uid="first")
    rig.server.put_claim(builders.claim("p-gpu-old", owner_pod=first, allocation=TAKEN, finalizers=(FINALIZER,)))
    rig.server.put_pod(builders.pod("p", templates={"gpu": "p-gpu-old"}, uid="second"))
    rig.wait(6_000)
    assert "was not created for Pod default/p (Pod is not owner)" in rig.condition_of("p")[1]
    second = rig.server.pods[PodKey("default", "p")]
    rig.server.put_claim(builders.claim("p-gpu-new", owner_pod=second))
    rig.server.put_pod(builders.pod("p", templates={"gpu": "p-gpu-new"}, uid="second"))
    rig.wait(2_000)
    assert rig.node_of("p") == "a"
    assert [one.device for one in rig.server.claims[ClaimKey("default", "p-gpu-new")].allocation.device_ids()] == [
        "gpu-1"
    ]


def test_pods_that_share_a_claim_are_all_reserved():
    rig = world()
    for name in "pqr":
        rig.add_pod(name, claims=("claim",))
    rig.wait(10_000)
    assert {rig.node_of(name) for name in "pqr"} == {"a"}
    assert sorted(one.name for one in rig.server.claims[CLAIM].reserved_for) == ["p", "q", "r"]


def test_a_full_claim_takes_no_more_consumers_until_one_leaves():
    rig = world(allocation=TAKEN, finalizers=(FINALIZER,))
    rig.server.put_claim(replace(rig.server.claims[CLAIM], reserved_for=consumers(RESERVED_FOR_MAX)))
    rig.add_pod("p", claims=("claim",))
    rig.settle()
    assert "resourceclaim in use: default/claim has 256 consumers already" in rig.condition_of("p")[1]

    rig.server.put_claim(replace(rig.server.claims[CLAIM], reserved_for=consumers(RESERVED_FOR_MAX - 1)))
    rig.wait(2_000)
    assert rig.node_of("p") == "a"
    assert len(rig.server.claims[CLAIM].reserved_for) == RESERVED_FOR_MAX


def test_a_claim_that_fills_up_in_the_middle_sends_the_pod_back():
    rig = world(allocation=TAKEN, finalizers=(FINALIZER,))
    rig.server.put_claim(replace(rig.server.claims[CLAIM], reserved_for=consumers(RESERVED_FOR_MAX - 1)))
    rig.add_pod("p", claims=("claim",))
    rig.watch()
    rig.tick()
    write = rig.take(WriteClaimStatus)
    assert len(write.reserved_for) == RESERVED_FOR_MAX
    rig.server.put_claim(replace(rig.server.claims[CLAIM], reserved_for=consumers(RESERVED_FOR_MAX)))
    rig.pending.append(write)
    rig.wait(3_000)
    assert rig.node_of("p") is None
    assert len(rig.server.claims[CLAIM].reserved_for) == RESERVED_FOR_MAX
