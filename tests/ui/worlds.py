"""Small clusters as objects, for the page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from allocator import Features
from scheduler.offline import SourceObject
from scheduler.ui.data_source import Objects, Source
from tests.offline.causes import Obj, allocated, claim, device_class, gpu, node, pod, request, slice_

HOSTILE: Final = "<img src=x onerror=globalThis.hurt=1>\u202egnp"


def objects() -> list[Obj]:
    """Two nodes with three GPUs each, one used and one tainted; and a pod that wants three on one node."""
    taint = {"key": "example.com/hot", "effect": "NoSchedule"}
    made: list[Obj] = [device_class()]
    for where in ("node-1", "node-2"):
        devices = [gpu(f"gpu-{number}") for number in range(3)]
        if where == "node-2":
            devices[2]["taints"] = [taint]
        made += [node(where), slice_(*devices, where=where)]
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:07Z"}
    runs = {
        **pod("held", name="runs", nodeName="node-1"),
        "status": {"phase": "Running", "conditions": [scheduled]},
    }
    runs["metadata"] |= {"uid": "uid-runs", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:05Z"}
    waits = pod("three", name="waits")
    return [*made, allocated(claim(name="held"), "gpu-0"), runs, claim(request(count=3), name="three"), waits]


def hostile() -> list[Obj]:
    """What a user may write into fields that the page shows: markup, marks that turn text round, long names."""
    labelled = gpu("gpu-9", attributes={"model": {"string": HOSTILE}, "note": {"string": "x" * 64}})
    long = "x" * 253
    wants = claim(request(f"device.attributes['gpu.example.com'].model == '{HOSTILE}no'"), name=long)
    return [node("node-9"), slice_(labelled, where="node-9"), wants, pod(long, name="y" * 253)]


def shared() -> list[Obj]:
    """A node with a device of which a claim has a quarter; room is being made there for a pod."""
    policy = {"default": "1Gi", "validRange": {"min": "1Gi"}}
    capacity = {"memory": {"value": "8Gi", "requestPolicy": policy}}
    one = gpu("gpu-7", allowMultipleAllocations=True, capacity=capacity)
    quarter = claim(name="quarter")
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-s", "device": "gpu-7"}
    result |= {"shareID": "8d6a2f3e-0000-4000-8000-000000000001", "consumedCapacity": {"memory": "2Gi"}}
    quarter["status"] = {"allocation": {"devices": {"results": [result]}}, "reservedFor": []}
    important = {**pod("three", name="important"), "status": {"phase": "Pending", "nominatedNodeName": "node-s"}}
    important["metadata"] |= {"uid": "uid-important", "resourceVersion": "1"}
    return [node("node-s"), slice_(one, where="node-s"), quarter, important]


def partitioned() -> list[Obj]:
    """Two nodes of one rack and one of another, with two GPUs in seven slices each on two NUMA nodes; some are held."""
    slices = {f"slice-{number}": {"value": "1"} for number in range(7)}
    sets = [{"name": f"set-{number}", "counters": slices} for number in range(2)]
    made: list[Obj] = []
    for number, rack in enumerate(("r1", "r1", "r2")):
        where = f"mig-{number}"
        labels = {"example.com/rack": rack}
        made += [node(where, labels=labels), slice_(where=where, name=f"sets-{where}", pool=_TWO, sharedCounters=sets)]
        made.append(slice_(*_partitions(), where=where, pool=_TWO))
    held = allocated(claim(name="part"), "gpu-0-one-2", where="mig-0", users=("runs",), pool="mig-0")
    held["status"]["allocation"]["allocationTimestamp"] = "2026-01-01T00:00:06Z"
    whole = allocated(claim(name="whole"), "gpu-1", where="mig-0", users=("trains-0",), pool="mig-0")
    trains = {**pod("whole", name="trains-0", nodeName="mig-0"), "status": {"phase": "Running"}}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "trains", "uid": "uid-job", "controller": True}
    trains["metadata"] |= {"uid": "uid-trains-0", "resourceVersion": "1", "ownerReferences": [owner]}
    return [*made, held, whole, trains]


_TWO: Final = {"resourceSliceCount": 2}


def _partitions() -> list[Obj]:
    devices = []
    for gpu_ in range(2):
        near = {"attributes": {"numaNode": {"int": gpu_}}}
        ones = [(f"-one-{first}", first, 1) for first in range(7)]
        sizes = [("", 0, 7), *ones, ("-three-0", 0, 3), ("-three-3", 3, 3)]
        for name, first, count in sizes:
            taken = {f"slice-{first + number}": {"value": "1"} for number in range(count)}
            one = {"name": f"gpu-{gpu_}{name}", "consumesCounters": [{"counterSet": f"set-{gpu_}", "counters": taken}]}
            devices.append(one if name else one | near)
    return devices


def fleet(nodes: int) -> list[Obj]:
    """So many nodes with eight devices each on two NUMA nodes, in racks of sixteen."""
    made: list[Obj] = []
    for number in range(nodes):
        where = f"fleet-{number:04}"
        devices = [{"name": f"gpu-{index}", "attributes": {"numaNode": {"int": index // 4}}} for index in range(8)]
        made.append(node(where, labels={"example.com/rack": f"r{number // 16}"}))
        made.append(slice_(*devices, where=where))
    return made


def workload(count: int, name: str = "web", day: int = 1) -> list[Obj]:
    """Pods of a Deployment that wait, the last of which has waited longest; no node has room for one."""
    pods = [pod(name=f"{name}-abc-{number}", namespace="team-a", requests={"cpu": "99"}) for number in range(count)]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{name}-abc", "uid": f"uid-{name}"}
    last = datetime(2026, 1, day, 0, 0, 50, tzinfo=UTC)
    for number, one in enumerate(pods):
        one["metadata"] |= {"uid": f"uid-{name}-{number}", "resourceVersion": "1"}
        one["metadata"] |= {"creationTimestamp": (last - timedelta(seconds=number)).isoformat().replace("+00:00", "Z")}
        one["metadata"] |= {"ownerReferences": [owner | {"controller": True}], "labels": {"pod-template-hash": "abc"}}
    return pods


def many_claims(count: int) -> list[Obj]:
    """A pod that names so many claims, none of them there."""
    names = [f"claim-{number}" for number in range(count)]
    entries = [{"name": name, "resourceClaimName": name} for name in names]
    greedy = pod("three", name="greedy")
    greedy["spec"]["resourceClaims"] = entries
    greedy["metadata"] |= {"uid": "uid-greedy", "resourceVersion": "1"}
    return [greedy]


def crowd(count: int) -> list[Obj]:
    """So many more nodes with a device each."""
    names = [f"more-{number}" for number in range(count)]
    return [obj for name in names for obj in (node(name), slice_(gpu(), where=name))]


def source(*more: Obj) -> Source:
    given = [SourceObject(f"object {number}", one) for number, one in enumerate([*objects(), *more])]
    return Source.of_files("world.yaml", Objects(given, Features()), None)
