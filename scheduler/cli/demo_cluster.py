"""The demo's nodes and ResourceSlices: like those the public dra-example-driver publishes.

Driver gpu.example.com; 8 GPUs a node with attributes index, uuid, model, driverVersion and capacity memory 80Gi, and,
which that driver does not publish, the standard attribute numaNode: GPUs 0..3 on NUMA node 0, 4..7 on 1.
"""

from __future__ import annotations

import uuid
from typing import Any, Final

DRIVER: Final = "gpu.example.com"
DEVICES_PER_NODE: Final = 8
_NAMESPACE_UUID: Final = uuid.UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")  # RFC 4122's OID namespace: stable uuids
_GPU_TAINT: Final = {"key": "example.com/gpu", "value": "small", "effect": "NoSchedule"}


def fleet(large_nodes: int, small_nodes: int) -> list[dict[str, Any]]:
    """Nodes with their slices: `large_nodes` with 80Gi GPUs, and `small_nodes` with 20Gi ones behind a node taint."""
    objects: list[dict[str, Any]] = []
    for index in range(large_nodes):
        objects += _node(f"gpu-node-{index}", model="LATEST-GPU-MODEL", memory="80Gi", taints=[])
    for index in range(small_nodes):
        objects += _node(f"small-gpu-node-{index}", model="SMALL-GPU-MODEL", memory="20Gi", taints=[_GPU_TAINT])
    return objects


def _node(name: str, *, model: str, memory: str, taints: list[dict[str, str]]) -> list[dict[str, Any]]:
    resources = {"cpu": "64", "memory": "512Gi", "pods": "110", "ephemeral-storage": "1Ti"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "example.com/gpu-model": model}},
        "spec": {"taints": taints} if taints else {},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }
    devices = [_gpu(name, index, model=model, memory=memory) for index in range(DEVICES_PER_NODE)]
    resource_slice = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-{DRIVER}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }
    return [node, resource_slice]


def _gpu(node: str, index: int, *, model: str, memory: str) -> dict[str, Any]:
    return {
        "name": f"gpu-{index}",
        "attributes": {
            "index": {"int": index},
            "uuid": {"string": f"gpu-{uuid.uuid5(_NAMESPACE_UUID, f'{node}/{index}')}"},
            "model": {"string": model},
            "driverVersion": {"version": "1.0.0"},
            "resource.kubernetes.io/numaNode": {"int": index // (DEVICES_PER_NODE // 2)},
        },
        "capacity": {"memory": {"value": memory}},
    }
