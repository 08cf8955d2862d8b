"""A pod's event and condition say why it fits no node, and what would let it in; what they say is then done."""

from __future__ import annotations

from scheduler.framework.diagnosis import LENGTH_MAX, cause_of, without_cause
from tests.integration.api import Object
from tests.integration.world import World, condition_of, gpu, node


def of_model(world: World, model: str) -> Object:
    """A request for one device of this model."""
    return world.request(selectors=[{"cel": {"expression": f"device.attributes['{world.driver}'].model == '{model}'"}}])


async def plant(world: World) -> dict[str, tuple[str, str]]:
    """Pods that fit nowhere, by name: words of the cause, and of the change."""
    await world.create("nodes", node(world.node_name(9)))
    await world.add_nodes(1, devices=2)
    (cordoned,) = await world.add_nodes(1, devices=4, first=1)
    await world.cordon(cordoned)
    (tainted, held) = await world.add_nodes(2, first=2)
    taint = {"key": "example.com/hot", "effect": "NoSchedule"}
    await world.publish(tainted, [{**gpu(0, model={"string": "HOT"}), "taints": [taint]}])
    await world.publish(held, [gpu(0, model={"string": "HELD"})])
    await world.add_class()
    await world.add_claim("first", of_model(world, "HELD"))
    await world.start_scheduler()
    await world.add_pod("first", claim="first")
    await world.wait_bound("first")

    claims = {
        "class": {"name": "gpu", "exactly": {"deviceClassName": f"{world.class_name}s"}},
        "selector": of_model(world, "NOBODY-HAS-IT"),
        "cordon": world.request(count=3),
        "count": world.request(count=9),
        "taint": of_model(world, "HOT"),
        "holder": of_model(world, "HELD"),
    }
    for name, request in claims.items():
        await world.add_claim(name, request)
        await world.add_pod(name, claim=name)
    await world.add_pod("label", nodeSelector={"example.com/zone": "nowhere"})
    pod = world.pod("cpu")
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100"}}
    await world.create("pods", pod)
    space = world.namespace
    return {
        "class": (
            f"names DeviceClass {world.class_name}s, which does not exist",
            f"write deviceClassName: {world.class_name} instead of",
        ),
        "selector": ("model equal to the string 'NOBODY-HAS-IT'", "in the selector of request gpu"),
        "cordon": (f"node {cordoned} is cordoned", f"kubectl uncordon {cordoned}"),
        "count": ("asks for 9", f"instead of 9 in request gpu of ResourceClaim {space}/count"),
        "taint": (
            f"{tainted}/gpu-0 has the taint example.com/hot:NoSchedule",
            "add the toleration {key: example.com/hot",
        ),
        "holder": (
            f"{held}/gpu-0 is in use by ResourceClaim {space}/first (pod {space}/first",
            f"end pod {space}/first",
        ),
        "label": ("the label example.com/zone, which the nodeSelector of pod", "drop example.com/zone: nowhere"),
        "cpu": (
            f"has 64 cpu free, and pod {space}/cpu asks for 100",
            "ask for cpu 64 instead of 100 in container main",
        ),
    }


async def test_events_and_conditions_say_the_cause_and_the_change_and_the_change_helps(world: World) -> None:
    planted = await plant(world)

    def noted(events: dict[str, Object]) -> dict[str, list[str]]:
        notes: dict[str, list[str]] = {name: [] for name in planted}
        for event in events.values():
            if event["reason"] == "FailedScheduling" and event["regarding"]["name"] in notes:
                notes[event["regarding"]["name"]].append(event["note"])
        return notes

    def all_told(events: dict[str, Object]) -> bool:
        return all(any(cause_of(note) for note in notes) for notes in noted(events).values())

    notes = noted(await world.wait_for("events", all_told, what="the cause in an event of each pod"))

    def all_say_so(pods: dict[str, Object]) -> bool:
        return all(cause_of((condition_of(pods[name]) or {}).get("message", "")) for name in planted)

    pods = await world.wait_for("pods", all_say_so, what="the cause in the condition of each pod")

    for name, (cause, change) in planted.items():
        message = (condition_of(pods[name]) or {})["message"]
        assert message in notes[name]
        assert len(message.encode()) <= LENGTH_MAX
        assert without_cause(message).startswith("0/5 nodes are available: ")
        found, _, advice = cause_of(message).partition("; to make it fit: ")
        assert cause in found, name
        assert change in advice, name
    await world.cordon(world.node_name(1), False)
    await world.api.delete("pods", "first", world.namespace)
    await world.wait_bound("cordon", "holder")
    assert await world.violations() == []
