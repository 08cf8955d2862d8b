"""Pods whose manifest sets `spec.nodeName`: left alone, and counted."""

from __future__ import annotations

from tests.integration.world import World, devices_of


async def test_a_pod_that_was_put_on_a_node_leaves_its_device_to_others(world: World) -> None:
    (node,) = await world.add_nodes(1, devices=1)
    await world.add_class()
    await world.add_template()
    await world.start_scheduler()
    await world.add_pod("placed", template="one-gpu", nodeName=node)
    await world.wait_for("resourceclaims", lambda claims: len(claims) == 1, what="its claim")
    await world.add_pod("scheduled", template="one-gpu")
    await world.wait_bound("scheduled")
    assert "allocation" not in ((await world.claim_of("placed")).get("status") or {})


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
