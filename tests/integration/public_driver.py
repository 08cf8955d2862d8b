"""What the public dra-example-driver publishes (github.com/kubernetes-sigs/dra-example-driver), profile by profile.

Names, attributes, capacities and policies are the driver's own as of July 2026; what a test passes as `driver` stands
in for gpu.example.com, net.example.com or cpu.example.com (the driver's name is a setting of its chart, and its newest
commits use another default). The objects are written here; nothing is copied.

It publishes neither resource.kubernetes.io/numaNode nor any device smaller than 80Gi.
"""

from __future__ import annotations

from tests.integration.api import Object

GPUS = 8
"""GPUs a node, the chart's default."""

_GPU_CAPACITY = {"memory": 80 * 2**30, "compute": 100}
_STEPS = {"memory": "1Gi", "compute": "1"}


def gpus(
    driver: str, node: str, count: int = GPUS, *, partitions: int = 0, shared: bool = False, binding: bool = False
) -> list[Object]:
    """The slices of a node.

    Args:
        partitions: gpuPartitions, how many each GPU is cut into; the whole one is offered beside them.
        shared: gpuAllowMultipleAllocations.
        binding: bindingConditions, which the driver's controller reports after the allocation.
    """
    devices: list[Object] = []
    counters: list[Object] = []
    for index in range(count):
        attributes: Object = {
            "index": {"int": index},
            "uuid": {"string": f"gpu-{node}-{index}"},
            "model": {"string": "LATEST-GPU-MODEL"},
            "driverVersion": {"version": "1.0.0"},
        }
        if not partitions:
            devices.append(_gpu(f"gpu-{index}", attributes, 1, shared))
            continue
        counter_set = f"gpu-{index}-counters"
        counters.append({"name": counter_set, "counters": _counters(1)})
        for part in range(partitions):
            more = {"partition": {"int": part}, "partitionable": {"bool": True}}
            one = _gpu(f"gpu-{index}-partition-{part}", attributes | more, partitions, shared)
            devices.append(one | _consumes(counter_set, partitions))
        whole = _gpu(
            f"gpu-{index}-full", attributes | {"partitionable": {"bool": True}, "full": {"bool": True}}, 1, shared
        )
        devices.append(whole | _consumes(counter_set, 1))
    if binding:
        conditions = {
            "bindingConditions": ["BindingConditions"],
            "bindingFailureConditions": ["BindingFailureConditions"],
        }
        devices = [device | conditions for device in devices]
    contents: list[Object] = [{"sharedCounters": counters}] if counters else []
    return _slices(driver, node, [*contents, {"devices": devices}])


def networks(driver: str, node: str, count: int = GPUS) -> list[Object]:
    """The net profile: cards with bandwidth in both directions, to be shared."""
    bandwidth = {
        "value": "100Gi",
        "requestPolicy": {"default": "1Gi", "validRange": {"min": "100Mi", "max": "100Gi", "step": "1Mi"}},
    }
    functions = {"value": "100", "requestPolicy": {"default": "1", "validValues": ["1"]}}
    devices = [
        {
            "name": f"nic-{index}",
            "allowMultipleAllocations": True,
            "attributes": {
                "index": {"int": index},
                "uuid": {"string": f"net-{node}-{index}"},
                "model": {"string": "LATEST-NET-MODEL"},
                "driverVersion": {"version": "1.0.0"},
            },
            "capacity": {"vfs": functions, "ingressBandwidth": bandwidth, "egressBandwidth": bandwidth},
        }
        for index in range(count)
    ]
    return _slices(driver, node, [{"devices": devices}])


def cpus(driver: str, node: str, numa_nodes: int = 8, each: int = 4) -> list[Object]:
    """The cpu profile: a device a NUMA node, whose capacity is CPUs of the node itself."""
    key = f"{driver}/cpu"
    devices = [
        {
            "name": f"numa-{index}",
            "allowMultipleAllocations": True,
            "attributes": {"numaNodeID": {"int": index}},
            "capacity": {key: {"value": str(each)}},
            "nodeAllocatableResourceMappings": {"cpu": {"capacityKey": key}},
        }
        for index in range(numa_nodes)
    ]
    return _slices(driver, node, [{"devices": devices}])


def _gpu(name: str, attributes: Object, part_of: int, shared: bool) -> Object:
    capacity: Object = {}
    for key, amount in _GPU_CAPACITY.items():
        value = str(amount // part_of)
        capacity[key] = {"value": value}
        if shared:
            valid = {"min": _STEPS[key], "step": _STEPS[key], "max": value}
            capacity[key]["requestPolicy"] = {"default": value, "validRange": valid}
    return {"name": name, "attributes": attributes, "capacity": capacity, "allowMultipleAllocations": shared}


def _counters(part_of: int) -> Object:
    return {key: {"value": str(amount // part_of)} for key, amount in _GPU_CAPACITY.items()}


def _consumes(counter_set: str, part_of: int) -> Object:
    return {"consumesCounters": [{"counterSet": counter_set, "counters": _counters(part_of)}]}


def _slices(driver: str, node: str, contents: list[Object]) -> list[Object]:
    pool = {"name": node, "generation": 1, "resourceSliceCount": len(contents)}
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-{driver}-{number}"},
            "spec": {"driver": driver, "nodeName": node, "pool": pool, **content},
        }
        for number, content in enumerate(contents)
    ]
