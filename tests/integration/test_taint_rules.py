"""DeviceTaintRules: what an administrator takes out of service stays out, on every cluster that serves them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.integration.api import Object
from tests.integration.world import World, devices_of, gpu

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


def an_hour_ago() -> str:
    return (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")


async def add_running(world: World, **tolerations: Object | None) -> None:
    """A pod of each name, bound one after the other, whose request has that toleration (with effect NoExecute)."""
    for name, toleration in tolerations.items():
        request = world.request() if toleration is None else tolerating(world, effect="NoExecute", **toleration)
        await world.add_template(name, request)
        await world.add_pod(name, template=name)
        await world.wait_bound(name)


async def wait_evicted(world: World, *names: str) -> None:
    await world.wait_for("pods", lambda pods: not set(names) & set(pods), what=f"{names} evicted")


async def wait_condition(world: World, name: str, reason: str) -> Object:
    """Until the rule's EvictionInProgress has that reason; the condition."""

    def found(rules: dict[str, Object]) -> Object | None:
        conditions = (rules[name].get("status") or {}).get("conditions") or ()
        return next((one for one in conditions if one["reason"] == reason), None)

    rules = await world.wait_for("devicetaintrules", lambda rules: found(rules) is not None, what=f"rule {reason}")
    condition = found(rules)
    assert condition is not None
    assert condition["type"] == "EvictionInProgress"
    return condition


async def notes_of(world: World, name: str) -> list[str]:
    """What the eviction controller said about a pod."""
    return [
        event["note"]
        for event in await world.api.list("events", world.namespace)
        if event["regarding"].get("name") == name and event["reason"] == "DeviceTaintManagerEviction"
    ]


async def test_a_rule_with_no_execute_evicts_running_pods_when_their_tolerations_end(world: World) -> None:
    """The taint is an hour old: who tolerates nothing or a minute goes at once, who tolerates more stays."""
    await world.add_nodes(1, devices=4)
    await world.add_class()
    await world.start_scheduler()
    await add_running(
        world,
        none=None,
        minute={"tolerationSeconds": 60},
        day={"tolerationSeconds": 86_400},
        ever={},
    )
    rule = taint_rule(world, effect="NoExecute")
    rule["spec"]["taint"]["timeAdded"] = an_hour_ago()
    await world.create("devicetaintrules", rule)
    name = rule["metadata"]["name"]
    await wait_evicted(world, "none", "minute")
    condition = await wait_condition(world, name, "PodsPendingEviction")

    assert condition["status"] == "True"
    assert condition["message"].startswith(("3 pods need", "2 pods need", "1 pod needs"))
    await world.wait_for(
        "devicetaintrules",
        lambda rules: (
            rules[name]["status"]["conditions"][0]["message"]
            == "1 pod needs to be evicted in 1 namespace. 2 pods evicted since starting the controller."
        ),
        what="the rule counts its evictions",
    )
    assert await notes_of(world, "none") == ["Marking for deletion"]
    # A new pod gets no device of these, and the one that waited for its end stays when the rule goes.
    await world.add_template("new")
    await world.add_pod("new", template="new")
    await world.wait_unschedulable("new")
    await world.api.delete("devicetaintrules", name)
    pods = await world.wait_bound("new", "day", "ever")
    assert set(pods) == {"new", "day", "ever"}
    await world.wait_for(
        "events", lambda events: any(one["note"] == "Cancelling deletion" for one in events.values()), what="cancelled"
    )
    assert await world.violations() == []


async def test_a_drivers_own_taint_evicts_as_a_rules_does(world: World) -> None:
    (node,) = await world.add_nodes(1)
    name = await world.publish(node, [gpu(0), gpu(1)])
    await world.add_class()
    await world.start_scheduler()
    await add_running(world, first=None, second=None)
    ((_, lost),) = devices_of(await world.claim_of("first"))
    broken = {"taints": [{"key": KEY, "effect": "NoExecute"}]}
    devices = [{**one, **(broken if one["name"] == lost else {})} for one in (gpu(0), gpu(1))]
    await world.api.merge_patch("resourceslices", name, {"spec": {"devices": devices}})
    await wait_evicted(world, "first")

    await world.add_pod("third", template="first")
    await world.wait_unschedulable("third")
    await world.api.merge_patch("resourceslices", name, {"spec": {"devices": [gpu(0), gpu(1)]}})
    pods = await world.wait_bound("third")
    assert set(pods) == {"second", "third"}
    assert await world.violations() == []


async def test_a_rule_without_effect_says_what_it_would_do(world: World) -> None:
    tainted, _ = await world.add_nodes(2, devices=2)
    await world.add_class()
    await world.start_scheduler()
    await add_running(world, only=None)
    ((pool, _),) = devices_of(await world.claim_of("only"))
    dry = await world.create("devicetaintrules", taint_rule(world, "dry", effect="None", pool=pool))
    kept = await world.create("devicetaintrules", taint_rule(world, "kept", pool=tainted))
    condition = await wait_condition(world, dry["metadata"]["name"], "NoEffect")

    assert condition["status"] == "False"
    assert condition["message"] == (
        "2 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if the "
        "effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an "
        "update."
    )
    condition = await wait_condition(world, kept["metadata"]["name"], "OtherEffect")
    assert condition["message"] == "Eviction only happens for the NoExecute effect."
    assert set(await world.wait_bound("only")) == {"only"}
