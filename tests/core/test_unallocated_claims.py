"""Claims of pods that were put on a node by hand: told once, on the pod and on the claim."""

from __future__ import annotations

import pytest

from scheduler.core.ground.inputs import RelistFinished
from scheduler.core.observation import KINDS
from scheduler.framework.decisions import RecordEvent
from scheduler.plugins.dynamic_resources import DynamicResources
from tests import builders
from tests.core.rig import Rig

SILENT_MS = 5_000


def cluster(*, is_listed: bool = True) -> Rig:
    rig = Rig(DynamicResources(), is_listed=is_listed)
    rig.add_nodes("a")
    rig.server.put_class(builders.device_class())
    rig.server.put_slice(builders.resource_slice("slice-a", node="a", devices=1))
    return rig


def told(rig: Rig) -> list[str]:
    """Who was told that a claim is not allocated."""
    return [
        f"{one.kind} {one.name}"
        for one in rig.decided
        if isinstance(one, RecordEvent) and one.reason == "ClaimNotAllocated"
    ]


BOTH = ["Pod p", "ResourceClaim c"]


def test_the_pod_and_its_claim_are_told_once_and_the_pod_is_left_alone():
    rig = cluster()
    rig.server.put_claim(builders.claim("c"))
    rig.add_pod("p", claims=("c",), node="a")
    rig.wait(SILENT_MS - 1)
    assert told(rig) == []
    rig.wait(1)
    assert told(rig) == BOTH
    assert rig.machine.unallocated.count == 1
    assert "is on node a already" in rig.events[0]

    rig.server.put_claim(builders.claim("c", finalizers=("someones",)))
    rig.add_pod("p", claims=("c",), node="a", labels={"changed": "yes"})
    rig.wait(600_000)
    assert told(rig) == BOTH
    assert rig.pending == []


def test_a_claim_that_appears_after_its_pod_is_told_too():
    rig = cluster()
    rig.add_pod("p", claims=("c",), node="a")
    rig.wait(60_000)
    assert told(rig) == []
    rig.server.put_claim(builders.claim("c"))
    rig.wait(SILENT_MS)
    assert told(rig) == BOTH


@pytest.mark.parametrize("change", ["allocated", "pod-deleted", "pod-finished", "claim-deleted"])
def test_what_is_mended_in_time_is_not_told_and_what_was_told_is_not_counted_any_more(change):
    def mend(rig: Rig) -> None:
        match change:
            case "allocated":
                rig.server.put_claim(builders.claim("c", allocation=builders.allocation("gpu-0", pool="a")))
            case "pod-deleted":
                rig.server.delete_pod(builders.pod("p").key)
            case "pod-finished":
                rig.add_pod("p", claims=("c",), node="a", phase="Succeeded")
            case "claim-deleted":
                rig.server.delete_claim(builders.claim("c").key)
        rig.watch()

    for wait_ms, want in ((SILENT_MS - 1, []), (SILENT_MS, BOTH)):
        rig = cluster()
        rig.server.put_claim(builders.claim("c"))
        rig.add_pod("p", claims=("c",), node="a")
        rig.wait(wait_ms)
        mend(rig)
        rig.wait(600_000)
        assert told(rig) == want
        assert rig.machine.unallocated.count == 0


def test_a_claim_that_a_pending_pod_shares_is_waited_for_and_told_when_nobody_is_left():
    rig = cluster()
    rig.server.put_slice(builders.resource_slice("slice-a", node="a", devices=0))
    rig.server.put_claim(builders.claim("c"))
    rig.add_pod("p", claims=("c",), node="a")
    rig.add_pod("pending", claims=("c",))
    rig.wait(600_000)
    assert told(rig) == []
    rig.server.delete_pod(builders.pod("pending").key)
    rig.wait(60_000)
    assert told(rig) == BOTH


def test_a_pending_pod_that_shares_the_claim_allocates_it_for_both():
    rig = cluster()
    rig.server.put_claim(builders.claim("c"))
    rig.add_pod("p", claims=("c",), node="a")
    rig.add_pod("pending", claims=("c",))
    rig.wait(600_000)
    assert told(rig) == []
    assert rig.node_of("pending") == "a"


def test_pods_of_other_schedulers_and_pods_that_we_bound_are_not_told():
    rig = cluster()
    rig.server.put_claim(builders.claim("c"))
    rig.server.put_claim(builders.claim("ours"))
    rig.add_pod("p", claims=("c",), node="a", scheduler="default-scheduler")
    rig.add_pod("q", claims=("ours",))
    rig.wait(600_000)
    assert rig.node_of("q") == "a"
    assert told(rig) == []


def test_devices_of_a_pod_that_was_put_on_a_node_are_counted():
    rig = cluster()
    pod = builders.pod("p", claims=("c",), node="a")
    rig.server.put_pod(pod)
    rig.server.put_claim(builders.claim("c", allocation=builders.allocation("gpu-0", pool="a"), reserved_for=(pod,)))
    rig.server.put_claim(builders.claim("other"))
    rig.add_pod("waits", claims=("other",))
    rig.settle()
    assert rig.node_of("waits") is None


def test_nothing_is_told_before_everything_was_listed():
    rig = cluster(is_listed=False)
    rig.server.put_claim(builders.claim("c"))
    rig.add_pod("p", claims=("c",), node="a")
    rig.watch()
    rig.wait(60_000)
    assert told(rig) == []
    for kind in sorted(KINDS):
        rig.tell(RelistFinished(kind))
    rig.wait(SILENT_MS)
    assert told(rig) == BOTH


def test_a_pod_that_was_bound_in_sight_is_not_said_to_have_set_its_node():
    """Its manifest is in order: it waited for a scheduler, and one put it on the node."""
    rig = cluster()
    rig.server.put_claim(builders.claim("c", deleting=True, finalizers=("someones",)))  # so ours does not bind it
    rig.add_pod("p", claims=("c",))
    rig.settle()
    rig.server.put_claim(builders.claim("c"))
    rig.add_pod("p", claims=("c",), node="a")
    rig.watch()
    rig.wait(SILENT_MS)
    assert told(rig) == BOTH
    notes = [one.note for one in rig.decided if isinstance(one, RecordEvent) and one.reason == "ClaimNotAllocated"]
    assert not any("spec.nodeName" in note for note in notes)
    assert "a scheduler has bound the pod to node a without it" in notes[0]
    assert "Delete the pod" in notes[0]
