"""Causes for which a pod cannot be scheduled, and some that only look like one: objects, one pod named `asked`.

Each is what a user would write or a cluster would hold; what comes of it is asked twice, of a cluster's scheduler and
of `simulate`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler.embedded.cluster import EmbeddedCluster
from scheduler.embedded.kinds.catalog import POD

Obj = dict[str, Any]

DRIVER = CLASS = "gpu.example.com"
DRA = "resource.k8s.io/v1"


@dataclass(frozen=True)
class Cause:
    """One question.

    Args:
        deleted: Kind and name of objects to delete once all are stored.
        has_history: Some objects take the place of others, one after the other: only a dump shows what is left.
        gates: Feature gates that differ from the defaults.
        needs_controllers: Claims are made from templates.
        want: The outcome that nobody doubts.
    """

    name: str
    want: str
    objects: Sequence[Obj]
    deleted: Sequence[tuple[str, str]] = ()
    gates: Mapping[str, bool] = field(default_factory=dict)
    needs_controllers: bool = False
    has_history: bool = False

    async def build(self, cluster: EmbeddedCluster) -> None:
        """Store the objects, the asked pod included."""
        await store(cluster, self.objects)
        for kind, name in self.deleted:
            registry = cluster.api.registry
            found = next(one for one in registry.kinds if one.kind == kind)
            cluster.api.delete(found, "default" if found.is_namespaced else "", name)


async def store(cluster: EmbeddedCluster, objects: Sequence[Obj]) -> None:
    """Create them; the server gives pods their uids, and claims are reserved for these."""
    uids: dict[str, str] = {}
    for given in objects:
        obj = copy.deepcopy(given)
        obj["metadata"].pop("resourceVersion", None)
        uid = obj["metadata"].pop("uid", "")
        for user in obj.get("status", {}).get("reservedFor") or ():
            user["uid"] = uids.get(user["uid"], user["uid"])
        await cluster.apply([obj])
        if uid and obj["kind"] == "Pod":
            stored = cluster.api.find(POD.kind_id, obj["metadata"]["namespace"], obj["metadata"]["name"])
            uids[uid] = stored["metadata"]["uid"]


# --- objects --------------------------------------------------------------------------------------------------


def node(name: str = "node-1", *, cpu: str = "8", pods: str = "10", labels: Obj | None = None, **spec: Any) -> Obj:
    resources = {"cpu": cpu, "memory": "16Gi", "pods": pods}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {"capacity": resources, "allocatable": resources},
    }


def gpu(name: str = "gpu-0", **more: Any) -> Obj:
    attributes = {"model": {"string": "A100"}, "index": {"int": int(name[-1])}}
    return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}, **more}


def slice_(*devices: Obj, name: str = "", where: str = "node-1", pool: Obj | None = None, **spec: Any) -> Obj:
    place = {} if {"nodeSelector", "allNodes", "perDeviceNodeSelection"} & set(spec) else {"nodeName": where}
    return {
        "apiVersion": DRA,
        "kind": "ResourceSlice",
        "metadata": {"name": name or f"slice-{where}"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": where, "generation": 1, "resourceSliceCount": 1, **(pool or {})},
            **place,
            **({"devices": list(devices)} if devices else {}),
            **spec,
        },
    }


def device_class(expression: str = "", **spec: Any) -> Obj:
    selectors = {"selectors": [{"cel": {"expression": expression}}]} if expression else {}
    return {"apiVersion": DRA, "kind": "DeviceClass", "metadata": {"name": CLASS}, "spec": {**selectors, **spec}}


def request(expression: str = "", **more: Any) -> Obj:
    selectors = {"selectors": [{"cel": {"expression": expression}}]} if expression else {}
    return {"name": "gpu", "exactly": {"deviceClassName": CLASS, **selectors, **more}}


def claim(*requests: Obj, name: str = "gpu", namespace: str = "default", **devices: Any) -> Obj:
    return {
        "apiVersion": DRA,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"devices": {"requests": list(requests) or [request()], **devices}},
    }


def template(*requests: Obj, name: str = "gpu", namespace: str = "default") -> Obj:
    spec = {"devices": {"requests": list(requests) or [request()]}}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": DRA, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": {"spec": spec}}


def allocated(obj: Obj, *devices: str, where: str = "node-1", users: Sequence[str] = ("runs",), **result: Any) -> Obj:
    """The claim with these devices, reserved for pods of these names, with the uids that `running` gives them."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [where]}] if where else []
    selector = {"nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]}} if fields else {}
    results = [{"request": "gpu", "driver": DRIVER, "pool": "node-1", "device": name, **result} for name in devices]
    status = {
        "allocation": {"devices": {"results": results}, **selector},
        "reservedFor": [{"resource": "pods", "name": user, "uid": f"uid-{user}"} for user in users],
    }
    return {**obj, "status": status}


def pod(*claims: str, name: str = "asked", namespace: str = "default", requests: Obj | None = None, **spec: Any) -> Obj:
    """A pod with these claims: a claim's name, or `template:NAME`."""
    entries = []
    for index, text in enumerate(claims):
        kind = "resourceClaimTemplateName" if text.startswith("template:") else "resourceClaimName"
        entries.append({"name": f"gpu-{index}" if index else "gpu", kind: text.removeprefix("template:")})
    resources: Obj = {"requests": {"cpu": "100m", **(requests or {})}}
    if claims:
        resources["claims"] = [{"name": entry["name"]} for entry in entries]
    limits = {key: value for key, value in (requests or {}).items() if "/" in key}
    if limits:
        resources["limits"] = limits
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "schedulerName": "dra-scheduler",
            "containers": [{"name": "main", "image": "registry.example/work:1", "resources": resources}],
            **({"resourceClaims": entries} if entries else {}),
            **spec,
        },
    }


def running(name: str = "runs", where: str = "node-1", cpu: str = "1", *, uses: Sequence[str] = ()) -> Obj:
    """A pod that runs and uses these claims; its uid is that for which `allocated` reserves them."""
    runs = {**pod(*uses, name=name, requests={"cpu": cpu}, nodeName=where), "status": {"phase": "Running"}}
    return {**runs, "metadata": {**runs["metadata"], "uid": f"uid-{name}"}}


def rule(device: str) -> Obj:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "rule"},
        "spec": {
            "deviceSelector": {"driver": DRIVER, "pool": "node-1", "device": device},
            "taint": {"key": "example.com/broken", "effect": "NoSchedule"},
        },
    }


TAINT = {"key": "example.com/only", "value": "others", "effect": "NoSchedule"}
WORLD = (node(), slice_(gpu()), device_class())
"""A node with a device, and its class: `pod("gpu")` with `claim()` fits."""
TWO = (node(), slice_(gpu("gpu-0"), gpu("gpu-1")), device_class())


def affinity(key: str) -> Obj:
    term = {"matchExpressions": [{"key": key, "operator": "Exists"}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def labelled(pod: Obj) -> Obj:
    """With the label that `anti_affinity` keeps away from."""
    return {**pod, "metadata": {**pod["metadata"], "labels": {"a": "b"}}}


def anti_affinity() -> Obj:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def counted(name: str, amount: str) -> Obj:
    return gpu(name, consumesCounters=[{"counterSet": "all", "counters": {"memory": {"value": amount}}}])


COUNTERS = [{"name": "all", "counters": {"memory": {"value": "80Gi"}}}]
PARTITIONED = (
    node(),
    slice_(counted("part-0", "60Gi"), counted("part-1", "60Gi"), pool={"resourceSliceCount": 2}),
    slice_(name="counters", pool={"resourceSliceCount": 2}, sharedCounters=COUNTERS),
    device_class(),
)
SHARED = gpu(allowMultipleAllocations=True, capacity={"memory": {"value": "80Gi", "requestPolicy": {"default": "1Gi"}}})
BINDING = gpu(
    bindsToNode=True, bindingConditions=["example.com/ready"], bindingFailureConditions=["example.com/failed"]
)
ALTERNATIVES = {
    "name": "gpu",
    "firstAvailable": [
        {"name": "new", "deviceClassName": CLASS, "selectors": [{"cel": {"expression": "false"}}]},
        {"name": "old", "deviceClassName": CLASS},
    ],
}
EXTENDED = "example.com/gpu"
TEAM_OF_ADMINS = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "team", "labels": {"resource.kubernetes.io/admin-access": "true"}},
}

CAUSES = [
    Cause("a-device-is-free", "fits", [*WORLD, claim(), pod("gpu")]),
    Cause("no-claim-at-all", "fits", [node(), pod()]),
    Cause("claim-that-asks-for-nothing", "fits", [*WORLD, {**claim(), "spec": {}}, pod("gpu")]),
    # Nodes
    Cause("node-taint", "unschedulable", [node(taints=[TAINT]), *WORLD[1:], claim(), pod("gpu")]),
    Cause(
        "node-taint-tolerated",
        "fits",
        [node(taints=[TAINT]), *WORLD[1:], claim(), pod("gpu", tolerations=[{"operator": "Exists"}])],
    ),
    Cause("cordon", "unschedulable", [node(unschedulable=True), *WORLD[1:], claim(), pod("gpu")]),
    Cause("node-selector", "unschedulable", [*WORLD, claim(), pod("gpu", nodeSelector={"zone": "a"})]),
    Cause("node-affinity", "unschedulable", [*WORLD, claim(), pod("gpu", affinity=affinity("zone"))]),
    Cause("cpu", "unschedulable", [*WORLD, claim(), pod("gpu", requests={"cpu": "9"})]),
    Cause("memory", "unschedulable", [*WORLD, claim(), pod("gpu", requests={"memory": "17Gi"})]),
    Cause("cpu-of-running-pods", "unschedulable", [*WORLD, running(cpu="7950m"), claim(), pod("gpu")]),
    Cause(
        "limits-count-as-requests",
        "unschedulable",
        [node(), pod(requests={}, containers=[{"name": "main", "image": "i", "resources": {"limits": {"cpu": "9"}}}])],
    ),
    Cause("too-many-pods", "unschedulable", [node(pods="1"), *WORLD[1:], running(), claim(), pod("gpu")]),
    Cause("resource-nobody-has", "unschedulable", [node(), pod(requests={"example.com/tpu": "1"})]),
    Cause("node-without-devices", "unschedulable", [node("node-2"), *WORLD[1:], claim(), pod("gpu")]),
    Cause(
        "each-node-for-another-reason",
        "unschedulable",
        [
            *WORLD,
            node("node-2", unschedulable=True),
            node("node-3", cpu="1"),
            node("node-4", taints=[TAINT]),
            slice_(gpu(), where="node-3"),
            claim(),
            pod("gpu", requests={"cpu": "9"}),
        ],
    ),
    Cause("node-name-for-a-claim-nobody-allocates", "unschedulable", [*WORLD, claim(), pod("gpu", nodeName="node-1")]),
    # Claims
    Cause("claim-missing", "unschedulable", [*WORLD, pod("gpu")]),
    Cause(
        "claim-being-deleted",
        "unschedulable",
        [*WORLD, {**claim(), "metadata": {"name": "gpu", "finalizers": ["example.com/kept"]}}, pod("gpu")],
        deleted=[("ResourceClaim", "gpu")],
    ),
    Cause(
        "claim-full",
        "unschedulable",
        [*WORLD, allocated(claim(), "gpu-0", users=[f"user-{number}" for number in range(256)]), pod("gpu")],
    ),
    Cause(
        "claim-shared-with-a-running-pod",
        "fits",
        [*WORLD, node("node-0"), running(uses=["gpu"]), allocated(claim(), "gpu-0"), pod("gpu")],
    ),
    Cause(
        "claim-pinned-to-a-cordoned-node",
        "unschedulable",
        [
            node(unschedulable=True),
            node("node-2"),
            *WORLD[1:],
            running(uses=["gpu"]),
            allocated(claim(), "gpu-0"),
            pod("gpu"),
        ],
    ),
    Cause(
        "claim-pinned-elsewhere",
        "unschedulable",
        [
            *WORLD,
            node("node-2"),
            running(uses=["gpu"]),
            allocated(claim(), "gpu-0"),
            pod("gpu", nodeSelector={"kubernetes.io/hostname": "node-2"}),
        ],
    ),
    Cause("template-missing", "unschedulable", [*WORLD, pod("template:nowhere")], needs_controllers=True),
    Cause("template", "fits", [*WORLD, template(), pod("template:gpu")], needs_controllers=True),
    Cause(
        "template-of-another-namespace",
        "unschedulable",
        [
            *WORLD,
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
            template(namespace="team"),
            pod("template:gpu"),
        ],
        needs_controllers=True,
    ),
    Cause(
        "admin-label-missing",
        "unschedulable",
        [
            *WORLD,
            TEAM_OF_ADMINS,
            template(request(adminAccess=True), namespace="team"),
            {
                **TEAM_OF_ADMINS,
                "metadata": {"name": "team", "labels": {"resource.kubernetes.io/admin-access": "false"}},
            },
            pod("template:gpu", namespace="team"),
        ],
        needs_controllers=True,
        has_history=True,
    ),
    Cause(
        "admin-label-there",
        "fits",
        [
            *WORLD,
            running(uses=["theirs"]),
            allocated(claim(name="theirs"), "gpu-0"),
            TEAM_OF_ADMINS,
            claim(request(adminAccess=True), namespace="team"),
            pod("gpu", namespace="team"),
        ],
    ),
    Cause(
        "second-claim-does-not-fit",
        "unschedulable",
        [*WORLD, claim(), claim(request("false"), name="other"), pod("gpu", "other")],
    ),
    Cause("two-claims-one-device", "unschedulable", [*WORLD, claim(), claim(name="other"), pod("gpu", "other")]),
    # Classes and selectors
    Cause("class-missing", "unschedulable", [*WORLD[:2], claim(), pod("gpu")]),
    Cause(
        "class-selector-false", "unschedulable", [*WORLD[:2], device_class("device.driver == 'x'"), claim(), pod("gpu")]
    ),
    Cause(
        "selector-false",
        "unschedulable",
        [*WORLD, claim(request("device.attributes['gpu.example.com'].model == 'H100'")), pod("gpu")],
    ),
    Cause(
        "cel-error",
        "error",
        [*WORLD, claim(request("device.attributes['gpu.example.com'].nothing == 'x'")), pod("gpu")],
    ),
    Cause(
        "cel-error-in-the-class",
        "error",
        [*WORLD[:2], device_class("device.attributes['gpu.example.com'].nothing == 'x'"), claim(), pod("gpu")],
    ),
    Cause("alternatives", "fits", [*WORLD, claim(ALTERNATIVES), pod("gpu")]),
    # Devices
    Cause("count-too-large", "unschedulable", [*TWO, claim(request(count=3)), pod("gpu")]),
    Cause(
        "all-devices-in-use",
        "unschedulable",
        [*WORLD, running(uses=["theirs"]), allocated(claim(name="theirs"), "gpu-0"), claim(), pod("gpu")],
    ),
    Cause(
        "all-mode-with-one-in-use",
        "unschedulable",
        [
            *TWO,
            running(uses=["theirs"]),
            allocated(claim(name="theirs"), "gpu-0"),
            claim(request(allocationMode="All")),
            pod("gpu"),
        ],
    ),
    Cause(
        "capacity-too-small",
        "unschedulable",
        [
            *WORLD,
            claim(request("device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('100Gi'))")),
            pod("gpu"),
        ],
    ),
    Cause(
        "shared-capacity-too-small",
        "unschedulable",
        [node(), slice_(SHARED), device_class(), claim(request(capacity={"requests": {"memory": "81Gi"}})), pod("gpu")],
    ),
    Cause(
        "shared-capacity-consumed",
        "unschedulable",
        [
            node(),
            slice_(SHARED),
            device_class(),
            running(uses=["theirs"]),
            allocated(
                claim(name="theirs"),
                "gpu-0",
                shareID="5a4b1f9c-70a7-4b52-9c5b-6f9f3a0f6f21",
                consumedCapacity={"memory": "50Gi"},
            ),
            claim(request(capacity={"requests": {"memory": "40Gi"}})),
            pod("gpu"),
        ],
    ),
    Cause(
        "counters",
        "unschedulable",
        [*PARTITIONED, running(uses=["theirs"]), allocated(claim(name="theirs"), "part-0"), claim(), pod("gpu")],
    ),
    Cause(
        "match-attribute",
        "unschedulable",
        [
            *TWO,
            claim(request(count=2), constraints=[{"requests": ["gpu"], "matchAttribute": "gpu.example.com/index"}]),
            pod("gpu"),
        ],
    ),
    Cause(
        "distinct-attribute",
        "unschedulable",
        [
            *TWO,
            claim(request(count=2), constraints=[{"requests": ["gpu"], "distinctAttribute": "gpu.example.com/model"}]),
            pod("gpu"),
        ],
    ),
    Cause(
        "incomplete-pool",
        "unschedulable",
        [node(), slice_(gpu(), pool={"resourceSliceCount": 2}), device_class(), claim(), pod("gpu")],
    ),
    Cause(
        "older-generation",
        "unschedulable",
        [*WORLD, slice_(name="newer", pool={"generation": 2}, devices=[]), claim(), pod("gpu")],
    ),
    Cause(
        "pool-with-a-name-twice",
        "unschedulable",
        [
            node(),
            slice_(gpu(), pool={"resourceSliceCount": 2}),
            slice_(gpu(), name="again", pool={"resourceSliceCount": 2}),
            device_class(),
            claim(),
            pod("gpu"),
        ],
    ),
    Cause(
        "slice-for-other-nodes",
        "unschedulable",
        [
            node(),
            device_class(),
            claim(),
            pod("gpu"),
            slice_(
                gpu(),
                nodeSelector={"nodeSelectorTerms": [{"matchExpressions": [{"key": "fabric", "operator": "Exists"}]}]},
            ),
        ],
    ),
    Cause(
        "device-taint",
        "unschedulable",
        [
            node(),
            slice_(gpu(taints=[{"key": "example.com/hot", "effect": "NoSchedule"}])),
            device_class(),
            claim(),
            pod("gpu"),
        ],
    ),
    Cause("device-taint-rule", "unschedulable", [*WORLD, rule("gpu-0"), claim(), pod("gpu")]),
    Cause(
        "device-taint-rule-tolerated",
        "fits",
        [*WORLD, rule("gpu-0"), claim(request(tolerations=[{"operator": "Exists"}])), pod("gpu")],
    ),
    Cause("device-taint-rule-for-another", "fits", [*TWO, rule("gpu-0"), claim(), pod("gpu")]),
    Cause("binding-conditions", "waits", [node(), slice_(BINDING), device_class(), claim(), pod("gpu")]),
    Cause(
        "extended-resource",
        "fits",
        [*WORLD[:2], device_class(extendedResourceName=EXTENDED), pod(requests={EXTENDED: "1"})],
    ),
    Cause(
        "extended-resource-in-use",
        "unschedulable",
        [
            *WORLD[:2],
            device_class(extendedResourceName=EXTENDED),
            running(uses=["theirs"]),
            allocated(claim(name="theirs"), "gpu-0"),
            pod(requests={EXTENDED: "1"}),
        ],
    ),
    # Gates and features
    Cause("scheduling-gate", "gated", [*WORLD, claim(), pod("gpu", schedulingGates=[{"name": "example.com/wait"}])]),
    Cause(
        "admin-access-off",
        "error",
        [
            TEAM_OF_ADMINS,
            *WORLD,
            claim(request(adminAccess=True), namespace="team"),
            pod("gpu", namespace="team"),
        ],
        gates={"DRAAdminAccess": False},
    ),
    Cause(
        "prioritized-list-off",
        "unschedulable",
        [*WORLD, claim(ALTERNATIVES), pod("gpu")],
        gates={"DRAPrioritizedList": False},
    ),
    Cause(
        "partitions-off", "unschedulable", [*PARTITIONED, claim(), pod("gpu")], gates={"DRAPartitionableDevices": False}
    ),
    Cause(
        "binding-conditions-off",
        "unschedulable",
        [node(), slice_(BINDING), device_class(), claim(), pod("gpu")],
        gates={"DRADeviceBindingConditions": False},
    ),
    Cause("device-taints-off", "fits", [*WORLD, rule("gpu-0"), claim(), pod("gpu")], gates={"DRADeviceTaints": False}),
    Cause(
        "pod-anti-affinity",
        "unschedulable",
        [*WORLD, claim(), labelled(pod(name="first", nodeName="node-1")), pod("gpu", affinity=anti_affinity())],
    ),
    # What the API server refuses
    Cause("priority-class-missing", "refused", [*WORLD, claim(), pod("gpu", priorityClassName="nowhere")]),
    Cause(
        "node-name-and-gate",
        "refused",
        [*WORLD, pod(nodeName="node-1", schedulingGates=[{"name": "example.com/wait"}])],
    ),
    # Others
    Cause(
        "another-pod-is-first",
        "unschedulable",
        [*WORLD, claim(name="theirs"), claim(), pod("theirs", name="first", priority=None), pod("gpu")],
    ),
    Cause(
        "another-pod-is-more-important",
        "unschedulable",
        [
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "high"},
                "value": 1000,
            },
            *WORLD,
            claim(name="theirs"),
            claim(),
            pod("gpu"),
            pod("theirs", name="zulu", priorityClassName="high"),
        ],
    ),
]
