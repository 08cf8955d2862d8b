"""Pods whose manifest sets `spec.nodeName`: left alone, counted, and told when a claim of theirs is nobody's work."""

from __future__ import annotations

import pytest

from tests.integration.world import UNDER_TEST, World, devices_of


@pytest.mark.skipif(UNDER_TEST != "ours", reason="kube-scheduler says nothing about such pods")
async def test_a_pod_that_was_put_on_a_node_is_left_alone_and_its_claim_told_on_both(world: World) -> None:
    (node,) = await world.add_nodes(1, devices=1)
    await world.add_class()
    await world.add_template()
    await world.start_scheduler()
    await world.add_pod("placed", template="one-gpu", nodeName=node)

    def told(events: dict) -> set[str]:
        return {one["regarding"]["kind"] for one in events.values() if one.get("reason") == "ClaimNotAllocated"}

    events = await world.wait_for("events", lambda events: len(told(events)) == 2, what="both told")
    assert told(events) == {"Pod", "ResourceClaim"}
    claim = await world.claim_of("placed")
    assert "allocation" not in (claim.get("status") or {})
    notes = [one["note"] for one in events.values() if one.get("reason") == "ClaimNotAllocated"]
    assert len(notes) == 2
    assert all(node in note and "spec.nodeName" in note for note in notes)

    # The device is free for a pod that leaves the node to the scheduler.
    await world.add_pod("scheduled", template="one-gpu")
    await world.wait_bound("scheduled")


async def test_devices_of_a_pod_that_was_put_on_a_node_are_counted(world: World) -> None:
    """It shares the claim of a scheduled pod, which goes: the claim is still in use, and the device not free."""
    (node,) = await world.add_nodes(1, devices=1)
    await world.add_class()
    await world.add_template()
    await world.add_claim("shared")
    await world.start_scheduler()
    await world.add_pod("first", claim="shared")
    await world.wait_bound("first")
    await world.add_pod("placed", claim="shared", nodeName=node)
    await world.wait_for(
        "resourceclaims", lambda claims: len(claims["shared"]["status"]["reservedFor"]) == 2, what="both reserved"
    )
    await world.api.delete("pods", "first", world.namespace)
    await world.wait_for(
        "resourceclaims", lambda claims: len(claims["shared"]["status"]["reservedFor"]) == 1, what="one reserved"
    )
    await world.add_pod("waits", template="one-gpu")
    await world.wait_unschedulable("waits")

    assert devices_of(await world.claim_of("placed")) == [(node, "gpu-0")]
    await world.api.delete("pods", "placed", world.namespace)
    await world.wait_bound("waits")
    assert await world.violations() == []
