"""DeviceTaintRules: what an administrator takes out of service stays out, on every cluster that serves them."""

from __future__ import annotations

from typing import Any

from tests.integration.api import Object
from tests.integration.world import World, devices_of

KEY = "example.com/maintenance"


def taint_rule(world: World, name: str = "rule", effect: str = "NoSchedule", **selector: str) -> Object:
    """A rule for this test's devices only, narrowed by `selector`."""
    return {
        "metadata": {"name": f"{world.tag}-{name}"},
        "spec": {
            "deviceSelector": {"driver": world.driver, **selector},
            "taint": {"key": KEY, "value": "yes", "effect": effect},
        },
    }


def tolerating(world: World, **more: Any) -> Object:
    return world.request(tolerations=[{"key": KEY, "operator": "Exists", **more}])


async def test_a_rule_keeps_pods_off_its_devices_until_it_is_removed(world: World) -> None:
    """Two nodes, the first one's only device tainted: one pod fits, the next waits for the rule to go."""
    tainted, free = await world.add_nodes(2, devices=1)
    await world.create("devicetaintrules", taint_rule(world, pool=tainted))
    await world.add_class()
    await world.add_template()
    await world.start_scheduler()
    await world.add_pod("first", template="one-gpu")
    await world.wait_bound("first")
    await world.add_pod("second", template="one-gpu")
    condition = await world.wait_unschedulable("second")

    assert devices_of(await world.claim_of("first")) == [(free, "gpu-0")]
    assert "cannot allocate all claims" in condition["message"]
    await world.api.delete("devicetaintrules", f"{world.tag}-rule")
    await world.wait_bound("second")
    assert devices_of(await world.claim_of("second")) == [(tainted, "gpu-0")]
    assert await world.violations() == []


async def test_a_rule_that_comes_while_the_scheduler_runs_is_seen_and_tolerated_by_those_who_say_so(
    world: World,
) -> None:
    (node,) = await world.add_nodes(1, devices=3)
    await world.add_class()
    await world.add_template()
    await world.add_template("tolerant", tolerating(world))
    await world.start_scheduler()
    await world.add_pod("before", template="one-gpu")
    await world.wait_bound("before")
    rule = await world.create("devicetaintrules", taint_rule(world))
    await world.add_pod("waits", template="one-gpu")
    await world.wait_unschedulable("waits")
    await world.add_pod("tolerant", template="tolerant")
    await world.wait_bound("tolerant")

    # An effect that keeps nobody away is as good as no rule.
    await world.api.merge_patch("devicetaintrules", rule["metadata"]["name"], {"spec": {"taint": {"effect": "None"}}})
    pods = await world.wait_bound("waits")
    assert {pod["spec"]["nodeName"] for pod in pods.values()} == {node}
    assert await world.violations() == []
