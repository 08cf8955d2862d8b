"""Pools that all labelled nodes see, as scheduler_perf's test driver publishes them: not tied to a node.

Rebuilt from what its test cases say (partitionable devices, backtracking, consumable capacity); the names are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

Object = dict[str, Any]

POOL_DRIVER: Final = "gpu.example.com"
DRIVEN: Final = {"node-with-dra": "true"}
DRIVEN_TERM: Final[Object] = {"matchExpressions": [{"key": "node-with-dra", "operator": "In", "values": ["true"]}]}


def pool_name(number: int) -> str:
    return f"pool-{number:05}"


def partitionable(number: int) -> Iterator[Object]:
    """Four counters; two devices take two of them each, four devices take one each."""
    counters = {f"counter{index}": {"value": "1"} for index in range(1, 5)}
    yield _slice(number, "counters", {"sharedCounters": [{"name": "counters", "counters": counters}]})
    taken = ((1, 2), (3, 4), (1,), (2,), (3,), (4,))
    devices = [
        {
            "name": f"device-{index}",
            "attributes": {"preallocate": {"bool": index == 1}, "dra.example.com/slice": {"int": number}},
            "capacity": {"counters": {"value": str(len(which))}},
            "consumesCounters": [
                {"counterSet": "counters", "counters": {f"counter{counter}": {"value": "1"} for counter in which}}
            ],
        }
        for index, which in enumerate(taken, 1)
    ]
    yield _slice(number, "devices", {"devices": devices})


def backtracking(number: int) -> Iterator[Object]:
    """Eight devices of which only the last seven fit together: the first takes too much of the memory."""
    cpus = {f"cpu{index}": {"value": "1"} for index in range(1, 9)}
    sets = [{"name": "cpus", "counters": cpus}, {"name": "memory", "counters": {"mem": {"value": "70Gi"}}}]
    yield _slice(number, "counters", {"sharedCounters": sets})
    devices = [
        {
            "name": f"device-{index}",
            "consumesCounters": [
                {"counterSet": "cpus", "counters": {f"cpu{index}": {"value": "1"}}},
                {"counterSet": "memory", "counters": {"mem": {"value": "20Gi" if index == 1 else "10Gi"}}},
            ],
        }
        for index in range(1, 9)
    ]
    yield _slice(number, "devices", {"devices": devices})


def consumable(number: int) -> Iterator[Object]:
    """One device of 80Gi that several allocations share, at least 1Gi each."""
    policy = {"default": "1Gi", "validRange": {"min": "1Gi"}}
    device = {
        "name": "shareable-device",
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": "80Gi", "requestPolicy": policy}},
    }
    yield _slice(number, "devices", {"devices": [device]}, slices=1)


POOLS: Final[dict[str, Callable[[int], Iterator[Object]]]] = {
    "partitionable-pools": partitionable,
    "backtracking-pools": backtracking,
    "consumable-pools": consumable,
}


def _slice(number: int, suffix: str, content: Object, slices: int = 2) -> Object:
    name = pool_name(number)
    return {
        "metadata": {"name": f"{name}-{suffix}"},
        "spec": {
            "driver": POOL_DRIVER,
            "nodeSelector": {"nodeSelectorTerms": [DRIVEN_TERM]},
            "pool": {"name": name, "generation": 1, "resourceSliceCount": slices},
            **content,
        },
    }
