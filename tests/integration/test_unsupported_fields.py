"""A pod with a requirement that this scheduler does not look at is not bound as if it had none: it is told which."""

from __future__ import annotations

import pytest

from tests.integration.api import Object
from tests.integration.world import UNDER_TEST, World

pytestmark = pytest.mark.skipif(UNDER_TEST != "ours", reason="kube-scheduler looks at all of these")

ON_HOST = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}


def required(kind: str) -> Object:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [ON_HOST]}}}


def preferred(kind: str) -> Object:
    terms = [{"weight": 1, "podAffinityTerm": ON_HOST}]
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}


def spread(when: str) -> Object:
    return {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": when, **ON_HOST}]}


def volume(**source: Object) -> Object:
    return {"volumes": [{"name": "config", "emptyDir": {}}, {"name": "data", **source}]}


STORAGE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
REFUSED: dict[str, tuple[Object, str]] = {
    "claimed": (
        volume(persistentVolumeClaim={"claimName": "data"}),
        "spec.volumes[1].persistentVolumeClaim",
    ),
    "scratch": (volume(ephemeral={"volumeClaimTemplate": {"spec": STORAGE}}), "spec.volumes[1].ephemeral"),
    "disk": (volume(gcePersistentDisk={"pdName": "disk-1"}), "spec.volumes[1].gcePersistentDisk"),
}
LIKED = {
    "likes": preferred("podAffinity"),
    "anti": required("podAntiAffinity"),
    "spreads": spread("DoNotSchedule"),
    "inline": volume(csi={"driver": "secrets.example.com"}),
}


async def test_requirements_that_are_not_looked_at_are_refused_by_name_and_preferences_are_not(world: World) -> None:
    await world.add_nodes(1)
    await world.start_scheduler()
    for name, (spec, _) in REFUSED.items():
        await world.add_pod(name, **spec)
    for name, spec in LIKED.items():
        await world.add_pod(name, **spec)

    await world.wait_bound(*LIKED)
    for name, (_, path) in REFUSED.items():
        message = (await world.wait_unschedulable(name))["message"]
        assert f"nodes are available: {path} is not looked at by this scheduler" in message
    pods = {pod["metadata"]["name"]: pod for pod in await world.api.list("pods", world.namespace)}
    assert [name for name in REFUSED if pods[name]["spec"].get("nodeName")] == []

    def told(events: dict[str, Object]) -> bool:
        failed = {one["regarding"]["name"] for one in events.values() if one["reason"] == "FailedScheduling"}
        return failed >= REFUSED.keys()

    await world.wait_for("events", told, what="an event for each")


async def test_a_setting_lifts_it_field_by_field(world: World) -> None:
    config = world.configuration()
    config.write_text(f"{config.read_text()}ignoredPodFields: [persistentVolumeClaim, gcePersistentDisk]\n")
    await world.add_nodes(1)
    await world.start_scheduler(f"--config={config}")
    for name in ("claimed", "disk", "scratch"):
        await world.add_pod(name, **REFUSED[name][0])

    await world.wait_bound("claimed", "disk")
    assert REFUSED["scratch"][1] in (await world.wait_unschedulable("scratch"))["message"]
