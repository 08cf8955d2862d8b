"""Pods that share a claim and are decided together are reserved by one write, whatever becomes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.ground.inputs import WriteConflicted, WriteOutcomeUnknown, WriteRejected
from scheduler.framework.decisions import BindPod, WriteClaimStatus
from scheduler.model.api_rules import FINALIZER, RESERVED_FOR_MAX
from scheduler.model.keys import ClaimKey, PodKey
from scheduler.plugins import default_plugins
from tests import builders
from tests.core.rig import Rig
from tests.core.test_all_claims_count import CLAIM, consumers, world

TAKEN = builders.allocation("gpu-0", pool="a")


def sharing(names: str, **claim) -> Rig:
    """Pods that share an allocated claim, each in its binding cycle and waiting for its reservation."""
    rig = world(allocation=TAKEN, finalizers=(FINALIZER,), **claim)
    for name in names:
        rig.add_pod(name, claims=("claim",))
    rig.watch()
    rig.tick()
    return rig


def reserved(rig: Rig) -> list[str]:
    return sorted(one.name for one in rig.server.claims[CLAIM].reserved_for)


def status_writes(rig: Rig) -> list[WriteClaimStatus]:
    return [decision for decision in rig.decided if isinstance(decision, WriteClaimStatus)]


def test_one_write_reserves_a_claim_for_all_pods_that_were_decided_together():
    rig = sharing("pqr")
    assert [one.name for one in rig.take(WriteClaimStatus).reserved_for] == ["p", "q", "r"]

    rig = sharing("pqr")
    rig.settle()
    assert {rig.node_of(name) for name in "pqr"} == {"a"}
    assert (len(status_writes(rig)), reserved(rig)) == (1, ["p", "q", "r"])


def test_a_pod_that_comes_when_the_write_has_left_waits_for_its_answer():
    rig = sharing("pq")
    rig.add_pod("r", claims=("claim",))
    rig.add_pod("s", claims=("claim",))
    rig.watch()
    rig.tick()
    assert [one.name for one in rig.take(WriteClaimStatus).reserved_for] == ["p", "q"]
    rig = sharing("pq")
    rig.add_pod("r", claims=("claim",))
    rig.add_pod("s", claims=("claim",))
    rig.settle()
    assert [[one.name for one in write.reserved_for] for write in status_writes(rig)] == [["p", "q"], [*"pqrs"]]
    assert {rig.node_of(name) for name in "pqrs"} == {"a"}


@pytest.mark.parametrize("has_landed", [True, False])
def test_a_lost_answer_binds_nobody_until_the_reservations_are_seen(has_landed):
    rig = sharing("pqr")
    write = rig.take(WriteClaimStatus)
    if has_landed:
        rig.server.execute(write)
    rig.tell(WriteOutcomeUnknown(write.id))
    assert not [decision for decision in rig.pending if isinstance(decision, BindPod)]
    rig.wait(5_000)
    assert {rig.node_of(name) for name in "pqr"} == {"a"}
    assert reserved(rig) == ["p", "q", "r"]


def test_a_conflict_takes_no_other_reservation_away_and_all_try_again_together():
    rig = sharing("pqr")
    write = rig.take(WriteClaimStatus)
    other = consumers(1)
    rig.server.put_claim(replace(rig.server.claims[CLAIM], reserved_for=other))
    rig.tell(WriteConflicted(write.id))
    rig.settle()
    assert {rig.node_of(name) for name in "pqr"} == {"a"}
    assert reserved(rig) == ["p", "q", "r", "user-0"]
    assert len(status_writes(rig)) == 2


def test_a_late_write_of_several_cannot_take_back_what_was_reserved_since():
    rig = sharing("pq")
    late = rig.take(WriteClaimStatus)
    rig.tell(WriteOutcomeUnknown(late.id))
    rig.wait(5_000)
    assert reserved(rig) == ["p", "q"]
    rig.add_pod("r", claims=("claim",))
    rig.settle()
    assert isinstance(rig.server.execute(late), WriteConflicted)
    assert (reserved(rig), rig.node_of("r")) == (["p", "q", "r"], "a")


def test_a_pod_that_goes_away_meanwhile_leaves_the_others_their_reservations():
    rig = sharing("pqr")
    rig.server.delete_pod(PodKey("default", "p"))
    rig.watch()
    rig.settle()
    assert [rig.node_of(name) for name in "qr"] == ["a", "a"]
    assert reserved(rig) == ["q", "r"]


def test_a_refused_write_gives_all_of_its_pods_up():
    rig = sharing("pq")
    write = rig.take(WriteClaimStatus)
    rig.tell(WriteRejected(write.id, 422, "Invalid", "no"))
    rig.execute()
    assert [rig.node_of(name) for name in "pq"] == [None, None]
    assert reserved(rig) == []
    rig.wait(600_000)
    assert [rig.node_of(name) for name in "pq"] == ["a", "a"]


def test_no_write_reserves_for_more_than_there_may_be():
    rig = world(allocation=TAKEN, finalizers=(FINALIZER,))
    rig.server.put_claim(replace(rig.server.claims[CLAIM], reserved_for=consumers(RESERVED_FOR_MAX - 2)))
    for name in "pqr":
        rig.add_pod(name, claims=("claim",))
    rig.wait(10_000)
    assert sum(rig.node_of(name) == "a" for name in "pqr") == 2
    assert len(rig.server.claims[CLAIM].reserved_for) == RESERVED_FOR_MAX
    assert max(len(write.reserved_for) for write in status_writes(rig)) == RESERVED_FOR_MAX


def test_a_pod_with_two_shared_claims_joins_both_writes():
    rig = Rig(*default_plugins())
    rig.add_nodes("a")
    rig.server.put_class(builders.device_class())
    rig.server.put_slice(builders.resource_slice("s", node="a", devices=2))
    for name, device in (("claim", "gpu-0"), ("other", "gpu-1")):
        rig.server.put_claim(
            builders.claim(name, allocation=builders.allocation(device, pool="a"), finalizers=(FINALIZER,))
        )
    rig.add_pod("p", claims=("claim",))
    rig.add_pod("q", claims=("other",))
    rig.add_pod("r", claims=("claim", "other"))
    rig.settle()
    assert {rig.node_of(name) for name in "pqr"} == {"a"}
    assert len(status_writes(rig)) == 2
    assert sorted(one.name for one in rig.server.claims[ClaimKey("default", "other")].reserved_for) == ["q", "r"]
