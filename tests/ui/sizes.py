"""A cluster as people have it, in any size: GPUs in use and free, partitions, taints, pods that wait for six reasons.

Names and numbers follow from the number of devices, and ages are the same each time: pictures can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tests.offline.causes import DRIVER, Obj, claim, device_class, node, pod, request, slice_

SLICES: Final = 7
_GPUS: Final = 8
_PARTITIONED: Final = 9  # devices of a node with partitions: a GPU, its seven slices, and three of these at once
_RACK: Final = 16
_TAKEN: Final = (0, 2, 3)  # of each five nodes: all GPUs are in use
_MIG: Final = "mig.example.com"
_NAMESPACES: Final = tuple(
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    for name in ("research", "serving", "team-a", "team-b")
)
_WEEK: Final = ("mon", "tue", "wed", "thu", "fri")


def cluster(devices: int) -> list[Obj]:
    """Objects of a cluster with so many devices; with none of them, three nodes whose driver is not there yet.

    Args:
        devices: 0, or at least 9 and enough for nodes of nine (a remainder of eight) and of eight.
    """
    if not devices:
        waits = _waiting("hello", "team-a", 1, "Job", [request()])
        return [device_class(), *_NAMESPACES, *map(_node, range(3)), *waits]
    partitioned = devices % _GPUS + _GPUS * (devices // 1200)
    whole, rest = divmod(devices - _PARTITIONED * partitioned, _GPUS)
    assert whole >= 0
    assert not rest
    expression = f"device.driver == '{DRIVER}' && !('profile' in device.attributes['{DRIVER}'])"
    made = [device_class(expression), _class_of_slices(), *_NAMESPACES]
    for number in range(whole):
        made += _node_of_gpus(number, is_used=number % 5 in _TAKEN)
    for number in range(partitioned):
        made += _node_of_slices(number, is_used=number % 2 == 0)
    for waits in _who_waits(1 if devices < 100 else 40):
        made += waits
    return made


def _node(number: int, name: str = "gpu-node") -> Obj:
    return node(f"{name}-{number:04}", cpu="64", pods="110", labels={"example.com/rack": f"r{number // _RACK:03}"})


def _node_of_gpus(number: int, *, is_used: bool) -> list[Obj]:
    """Eight GPUs on two NUMA nodes. All are a training's, or three are in use; some are tainted, or lack a slice."""
    where = f"gpu-node-{number:04}"
    devices = [_gpu(index, "H100" if number % 2 else "A100") for index in range(_GPUS)]
    if number % 5 == 1:
        devices[5]["taints"] = [
            {"key": "example.com/ecc-errors", "effect": "NoSchedule", "timeAdded": _ago(90 + number)}
        ]
    pool = {"resourceSliceCount": 2} if number % 100 == 19 else {}
    made = [_node(number), slice_(*devices, where=where, pool=pool)]
    held = [devices] if is_used else [[one] for one in devices[:3]]
    kinds = [("Job", "research", f"train-{_WEEK[number % 5]}")] if is_used else _SERVED
    for index, (together, owner) in enumerate(zip(held, kinds, strict=True)):
        made += _running(f"{owner[2]}-{number:04}{'abc'[index]}", owner, where, [one["name"] for one in together])
    return made


_SERVED: Final = (
    ("StatefulSet", "serving", "chat"),
    ("StatefulSet", "serving", "embeddings"),
    ("Job", "team-a", "notebook"),
)


def _gpu(index: int, model: str) -> Obj:
    attributes = {"model": {"string": model}, "numaNode": {"int": index // 4}}
    return {"name": f"gpu-{index}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}


def _class_of_slices() -> Obj:
    expression = f"device.driver == '{DRIVER}' && 'profile' in device.attributes['{DRIVER}']"
    made = device_class(expression)
    return made | {"metadata": {"name": _MIG}}


def _node_of_slices(number: int, *, is_used: bool) -> list[Obj]:
    """A GPU of which three slices in one, or each alone, may be used; on every other node two are."""
    where = f"a100-mig-{number:04}"
    slices = {f"slice-{one}": {"value": "1"} for one in range(SLICES)}
    pool = {"resourceSliceCount": 2}
    sets = slice_(where=where, name=f"sets-{where}", pool=pool, sharedCounters=[{"name": "gpu-0", "counters": slices}])
    sizes = [("gpu-0", "", range(SLICES)), ("gpu-0-3g-0", "3g.40gb", range(3))]
    sizes += [(f"gpu-0-1g-{first}", "1g.10gb", range(first, first + 1)) for first in range(SLICES)]
    devices = []
    for name, profile, taken in sizes:
        attributes = {"model": {"string": "A100"}} | ({"profile": {"string": profile}} if profile else {})
        counters = {f"slice-{one}": {"value": "1"} for one in taken}
        consumes = [{"counterSet": "gpu-0", "counters": counters}]
        devices.append({"name": name, "attributes": attributes, "consumesCounters": consumes})
    made = [_node(number, "a100-mig"), sets, slice_(*devices, where=where, pool=pool)]
    for name in ("gpu-0-1g-4", "gpu-0-1g-6") if is_used else ():
        made += _running(f"notebook-{number:04}-{name[-1]}", ("Job", "team-b", "notebooks"), where, [name])
    return made


def _running(name: str, owner: tuple[str, str, str], where: str, devices: list[str]) -> list[Obj]:
    """A pod of this owner that has these devices of the node since a while, and its claim."""
    _, namespace, _ = owner
    held = claim(request(count=len(devices)), name=name, namespace=namespace)
    results = [{"request": "gpu", "driver": DRIVER, "pool": where, "device": one} for one in devices]
    since = _ago(200 + 97 * int(where[-2:]) + 11 * len(name))
    held["status"] = {
        "allocation": {"devices": {"results": results}, "allocationTimestamp": since},
        "reservedFor": [{"resource": "pods", "name": name, "uid": f"uid-{name}"}],
    }
    runs = _owned(pod(name, name=name, namespace=namespace, requests={"cpu": "4"}, nodeName=where), owner, since)
    return [held, runs | {"status": {"phase": "Running"}}]


def _owned(made: Obj, owner: tuple[str, str, str], created: str) -> Obj:
    kind, _, name = owner
    group = "batch/v1" if kind == "Job" else "apps/v1"
    by = {"apiVersion": group, "kind": kind, "name": name, "uid": f"uid-{kind}-{name}", "controller": True}
    made["metadata"] |= {"uid": f"uid-{made['metadata']['name']}", "resourceVersion": "1"}
    made["metadata"] |= {"creationTimestamp": created, "ownerReferences": [by]}
    return made


def _ago(minutes: int) -> str:
    return (datetime.now(UTC) - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _who_waits(many: int) -> Iterator[list[Obj]]:
    """Owners whose pods wait, each for a reason of its own; the first has most pods."""
    yield _waiting("sweep", "research", 3 * many, "Job", [request(count=_GPUS)])
    yield _waiting("chat-large", "serving", 2 * many, "StatefulSet", [_modelled("B200")])
    yield _waiting("render", "team-b", many, "Job", [_sliced("3g.40gb", 3)])
    yield _waiting("recover", "team-a", 1, "Job", [request(count=9)])
    yield _waiting("etl", "team-a", many, "Job", [request()], cpu="99")
    lost = pod("gone", name="lost", namespace="team-a")
    yield [_owned(lost, ("Job", "team-a", "lost"), _ago(3000))]


def _modelled(model: str) -> Obj:
    return request(f"device.attributes['{DRIVER}'].model == '{model}'")


def _sliced(profile: str, count: int) -> Obj:
    asked: Any = request(f"device.attributes['{DRIVER}'].profile == '{profile}'", count=count)
    asked["exactly"]["deviceClassName"] = _MIG
    return asked


def _waiting(name: str, namespace: str, count: int, kind: str, requests: list[Obj], cpu: str = "4") -> list[Obj]:
    """Pods of one owner that wait, and the claims they name."""
    made: list[Obj] = []
    for number in range(count):
        called = f"{name}-{number}"
        made.append(claim(*requests, name=called, namespace=namespace))
        waits = pod(called, name=called, namespace=namespace, requests={"cpu": cpu})
        made.append(_owned(waits, (kind, namespace, name), _ago(len(name) ** 3 + number)))
    return made
