"""Rejected by what, woken by what: upstream's own table of changes, put to our queue and plugins.

The cases are those of `CoreResourceEnqueueTestCases` (test/integration/scheduler/queueing/queue.go v1.36.3), recorded
by a program that created their objects and ran their triggers against client-go's fake client, and wrote down what it
was asked to store. Images, nodes' capacity and empty fields are left out. `want` is upstream's `WantRequeuedPods`.

A plugin that does not exist here yet is in `MISSING`, a case that ends differently in `DIFFERENT`: both are exact.
"""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

from allocator import Features
from scheduler.core.ground.core_settings import CoreSettings
from scheduler.core.ground.inputs import Deleted, Input, RelistFinished, TimerFired
from scheduler.core.machine import Machine
from scheduler.core.observation import KINDS
from scheduler.core.queue.queued_pod import Place, QueuedPod
from scheduler.framework.api import Plugin, Profile
from scheduler.kube.codec import Codec
from scheduler.kube.watched_kind import Seen
from scheduler.model import storage
from scheduler.model.keys import ObjectKey, PodUid
from scheduler.plugins import default_plugins
from scheduler.plugins.node_volume_limits import NodeVolumeLimits
from scheduler.plugins.volume_binding.plugin import VolumeBinding
from scheduler.plugins.volume_restrictions import VolumeRestrictions
from scheduler.plugins.volume_zone import VolumeZone
from tests.observed import observed

DATA = Path(__file__).parent / "data" / "wake-cases.jsonl.gz"
CASES = [json.loads(line) for line in gzip.decompress(DATA.read_bytes()).splitlines()]
NAMESPACE = "ns"
START_MS = 1_800_000_000_000
KIND_BY_RESOURCE = {
    "nodes": "Node",
    "pods": "Pod",
    "deviceclasses": "DeviceClass",
    "podgroups": "PodGroup",
    "persistentvolumes": "PersistentVolume",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "storageclasses": "StorageClass",
    "csinodes": "CSINode",
    "csidrivers": "CSIDriver",
    "csistoragecapacities": "CSIStorageCapacity",
    "volumeattachments": "VolumeAttachment",
}
NAMESPACED = {"pods", "persistentvolumeclaims", "csistoragecapacities", "podgroups"}
WITH_STATUS = {"nodes", "pods", "persistentvolumes", "persistentvolumeclaims"}
VOLUME_PLUGINS = (VolumeRestrictions(), NodeVolumeLimits(), VolumeBinding(), VolumeZone())
PLUGINS = {plugin.name: plugin for plugin in (*default_plugins(), *VOLUME_PLUGINS)}
DEFAULT = {plugin.name for plugin in default_plugins()}
MISSING: set[str] = set()
_MADE_UP = "upstream replaces the features by one that is made up; test_node_declared_features has real ones"
DIFFERENT = {
    "Pod rejected by the NodeResourcesFit plugin is requeued when a Node does not have the extended resource, and "
    "DRAExtendedResource is enabled": "nothing that the pod asks for has grown, and Fit says so",
    "Pods with PodTopologySpread should be requeued when a Node with a topology label is deleted (QHint: disabled)": (
        "upstream wakes whom the hint would not; hints are always on here"
    ),
    "Pod rejected by the GangScheduling plugin is requeued when a new pod with matching scheduling group is created": (
        "upstream takes it out of the queue's unschedulable pods to gate it again: their PodGroup does not exist"
    ),
    "pod becomes schedulable after node update with required feature": _MADE_UP,
    "pod remains unschedulable after node update that does not update declared features": _MADE_UP,
    "pod becomes schedulable after pod update that removes feature requirement": _MADE_UP,
    "pod remains unschedulable after pod update that does not remove feature requirement": _MADE_UP,
}


class Cluster:
    """A machine, and the objects as the API server would store them."""

    def __init__(self, case: dict[str, Any]) -> None:
        uids = itertools.count(1)
        self.machine = Machine(
            [Profile("default-scheduler", tuple(plugins_of(case)))],
            features=Features(extended_resource="DRAExtendedResource" in case["gates"]),
            new_uid=lambda: f"new-{next(uids)}",
            settings=CoreSettings(checks_invariants=True, is_strict=True),
        )
        self._kinds = {kind.name: kind for kind in Codec().kinds}
        self._objects: dict[tuple[str, str], dict[str, Any]] = {}
        self._revision = 0

    def tell(self, given: Input) -> None:
        self.machine.handle(given, now_ms=START_MS)

    def apply(self, step: dict[str, Any]) -> None:
        """One request, as the API server executes it."""
        self._revision += 1
        resource = step["kind"]
        if step["do"] == "delete":
            self._delete(resource, step["name"])
            return
        new = step["object"]
        name = new["metadata"]["name"]
        old = self._objects.get((resource, name), {})
        if step.get("of") == "status":
            new = {**old, "status": new.get("status", {})}
        elif step.get("of") == "resize":
            new = {**old, "spec": {**old["spec"], "containers": new["spec"]["containers"]}}
        elif step["do"] == "update" and resource in WITH_STATUS:
            new = {**new, "status": old.get("status", {})}
        metadata = {**new["metadata"], "uid": f"{resource}-{name}", "resourceVersion": str(self._revision)}
        if resource in NAMESPACED:
            metadata["namespace"] = NAMESPACE
        new = self._objects[resource, name] = {"spec": {}, **new, "metadata": metadata}
        self.tell(self._observed(resource, new))

    def _observed(self, resource: str, obj: dict[str, Any]) -> Input:
        name = KIND_BY_RESOURCE[resource]
        if name not in self._kinds:
            return observed(msgspec.convert(obj, getattr(storage, name)))
        seen = self._kinds[name].decode_object(orjson.dumps(obj))
        assert isinstance(seen, Seen), seen
        return seen.input

    def _delete(self, resource: str, name: str) -> None:
        kind = KIND_BY_RESOURCE[resource]
        del self._objects[resource, name]
        key = ObjectKey(NAMESPACE if resource in NAMESPACED else "", name)
        self.tell(Deleted(kind, key, f"{resource}-{name}", self._revision))

    def queued(self, name: str) -> QueuedPod:
        found = self.machine.queue.find(PodUid(f"pods-{name}"))
        assert found is not None, f"pod {name} is not queued"
        return found

    def is_woken(self, name: str) -> bool:
        """Whether the pod, or one of its shape for it, will be tried."""
        queued = self.queued(name)
        return queued.place in (Place.ACTIVE, Place.BACKOFF) or (
            queued.group is not None and queued.group.leader is not None
        )


def plugins_of(case: dict[str, Any]) -> list[Plugin]:
    return [plugin for name, plugin in PLUGINS.items() if not case["plugins"] or name in case["plugins"]]


def started(case: dict[str, Any]) -> Cluster:
    """Every pod of the case has been tried."""
    cluster = Cluster(case)
    for step in case["initial"]:
        cluster.apply(step)
    for kind in sorted(KINDS):
        cluster.tell(RelistFinished(kind))
    cluster.tell(TimerFired())
    return cluster


def outcome(case: dict[str, Any]) -> str:
    """Empty when the case ends as upstream's."""
    cluster = started(case)
    waits_in = Place.GATED if case.get("gated") else Place.UNSCHEDULABLE
    if fit := [name for name in case["pods"] if cluster.queued(name).place is not waits_in]:
        return f"not rejected: {fit}"
    for step in case["changes"]:
        cluster.apply(step)
    woken = sorted(name for name in case["pods"] if cluster.is_woken(name))
    return "" if woken == case["want"] else f"woken: {woken}, upstream: {case['want']}"


def is_missing(case: dict[str, Any]) -> bool:
    """A case that names no plugins is about the default profile, which has no volume plugins yet."""
    if not case["plugins"]:
        return not {plugin.name for plugin in VOLUME_PLUGINS} <= DEFAULT
    return not MISSING.isdisjoint(case["plugins"])


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if not is_missing(case) and case["name"] not in DIFFERENT],
    ids=lambda case: case["name"],
)
def test_a_change_wakes_the_pods_that_it_wakes_upstream(case: dict[str, Any]) -> None:
    assert outcome(case) == ""


@pytest.mark.parametrize("name", DIFFERENT)
def test_cases_that_end_differently_do(name: str) -> None:
    case = next(case for case in CASES if case["name"] == name)
    assert outcome(case) != ""


def test_plugins_that_are_missing_are_missing() -> None:
    named = {name for case in CASES for name in case["plugins"]}
    assert named - set(PLUGINS) == MISSING
