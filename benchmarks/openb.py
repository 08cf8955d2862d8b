"""The openb trace as objects: nodes with GPUs that pods share, and pods in the order of one experiment.

The data is another project's (`shared/data/openb`, its README says whose): it is read there and never committed. What
becomes what is in the table of placement.md 5.1; the protocol of `arrivals` in its README.
"""

from __future__ import annotations

import csv
import gzip
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from allocator.values.decode import decode_slice
from scheduler.model.objects import Node
from tests import builders

DRIVER = "gpu.openb.example"
WHOLE = 1000


class TraceNode(NamedTuple):
    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


class TracePod(NamedTuple):
    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    models: str

    @property
    def asked(self) -> int:
        """Of a GPU, in thousandths."""
        return self.gpus * self.gpu_milli


def read_nodes(folder: Path) -> list[TraceNode]:
    with (folder / "openb_node_list_gpu_node.csv").open() as file:
        return [
            TraceNode(row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
            for row in csv.DictReader(file)
        ]


def read_pods(folder: Path, listed: str = "default") -> list[TracePod]:
    """The pods of a list, by name."""
    plain = folder / f"openb_pod_list_{listed}.csv"
    packed = folder / f"openb_pod_list_{listed}.csv.gz"
    with plain.open() if plain.exists() else gzip.open(packed, "rt") as file:
        pods = [
            TracePod(
                row["name"],
                int(row["cpu_milli"]),
                int(row["memory_mib"]),
                int(row["num_gpu"]),
                int(row["gpu_milli"]),
                row.get("gpu_spec") or "",
            )
            for row in csv.DictReader(file)
        ]
    return sorted(pods, key=lambda pod: pod.name)


def arrivals(pods: list[TracePod], capacity: int, seed: int, percent: int = 130) -> list[TracePod]:
    """Shuffled, then cut or cloned until they ask for `percent` of `capacity` thousandths of a GPU."""
    draw = random.Random(seed)
    order = list(pods)
    draw.shuffle(order)
    wanted, asked = capacity * percent // 100, sum(pod.asked for pod in order)
    while asked > wanted:
        asked -= order.pop(draw.randrange(len(order))).asked
    originals = len(order)
    while True:
        clone = order[draw.randrange(originals)]
        if asked + clone.asked > wanted:
            return order
        asked += clone.asked
        order.append(clone._replace(name=f"{clone.name}-clone-{len(order)}"))


def node_objects(nodes: list[TraceNode], names: list[str]) -> Iterator[tuple[Any, Any]]:
    """For each node, under these names, the Node and its ResourceSlice."""
    for node, name in zip(nodes, names, strict=True):
        made, slice_ = raw_objects(node, name)
        yield msgspec.convert(made, Node), decode_slice(slice_)


def raw_objects(node: TraceNode, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same as files have them."""
    allocatable = {"cpu": f"{node.cpu_milli}m", "memory": f"{node.memory_mib}Mi", "pods": "1001"}
    capacity = {
        "share": {
            "value": str(WHOLE),
            "requestPolicy": {
                "default": str(WHOLE),
                "validRange": {"min": "10", "max": str(WHOLE), "step": "10"},
            },
        }
    }
    devices = tuple(
        {
            **builders.device_object(f"gpu-{index}", model=node.model),
            "allowMultipleAllocations": True,
            "capacity": capacity,
        }
        for index in range(node.gpus)
    )
    return (
        builders.node_object(name, labels={"model": node.model}, allocatable=allocatable),
        builders.slice_object(f"slice-{name}", node=name, driver=DRIVER, devices=devices),
    )


def claim_spec(pod: TracePod) -> dict[str, Any] | None:
    """What its claim asks for; None for a pod without GPUs."""
    if not pod.gpus:
        return None
    exactly: dict[str, Any] = {
        "deviceClassName": DRIVER,
        "allocationMode": "ExactCount",
        "count": pod.gpus,
        "capacity": {"requests": {"share": str(pod.gpu_milli)}},
    }
    if pod.models:
        listed = ", ".join(f'"{model}"' for model in pod.models.split("|"))
        exactly["selectors"] = [{"cel": {"expression": f'device.attributes["{DRIVER}"].model in [{listed}]'}}]
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def requests(pod: TracePod) -> dict[str, str]:
    return {"cpu": f"{pod.cpu_milli}m", "memory": f"{pod.memory_mib}Mi"}
