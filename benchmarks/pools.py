"""A node's pool with partitions or shares, as the test driver of scheduler_perf (1.37) publishes it.

Rebuilt from what its test cases say (Partitionable, PartitionableBacktracking, CompatibilityGroups,
ConsumableCapacity); the names are ours. And the packed one, ours altogether: what is asked of it nearly fills it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

Object = dict[str, Any]


def partitionable(groups: tuple[str, ...] = ()) -> list[Object]:
    """Four counters, and two devices that take two of them each; both are of these compatibility groups."""
    counters = {f"counter{index}": _amount("1") for index in range(1, 5)}
    more = {"compatibilityGroups": list(groups)} if groups else {}
    devices = [
        {
            "name": f"device-{index}",
            "consumesCounters": [
                {"counterSet": "counters", "counters": {f"counter{one}": _amount("1") for one in taken}, **more}
            ],
        }
        for index, taken in enumerate(((1, 2), (3, 4)), 1)
    ]
    return [{"sharedCounters": [{"name": "counters", "counters": counters}]}, {"devices": devices}]


def backtracking() -> list[Object]:
    """Eight devices of which only the last seven fit together: the first takes too much of the memory."""
    cpus = {f"cpu{index}": _amount("1") for index in range(1, 9)}
    sets = [{"name": "cpus", "counters": cpus}, {"name": "memory", "counters": {"mem": _amount("70Gi")}}]
    devices = [
        {
            "name": f"device-{index}",
            "consumesCounters": [
                {"counterSet": "cpus", "counters": {f"cpu{index}": _amount("1")}},
                {"counterSet": "memory", "counters": {"mem": _amount("20Gi" if index == 1 else "10Gi")}},
            ],
        }
        for index in range(1, 9)
    ]
    return [{"sharedCounters": sets}, {"devices": devices}]


def packed_devices(moved: int = 0) -> list[Object]:
    """Six devices that several claims may use: as much in all whatever `moved` is, never in the same parts."""
    sizes = (100 + moved, 101 - moved, 102, 103, 104, 105)
    return [
        {"name": f"device-{index}", "allowMultipleAllocations": True, "capacity": {"memory": _amount(str(size))}}
        for index, size in enumerate(sizes)
    ]


def packed_shares(seed: int) -> list[str]:
    """Capacities of 20 requests that almost fill these devices, in no way that a search finds soon."""
    draw = random.Random(seed)
    sizes = [draw.randrange(24, 41) for _ in range(20)]
    scale = 0.999 * sum(range(100, 106)) / sum(sizes)
    return [str(round(size * scale)) for size in sizes]


def consumable() -> list[Object]:
    """Four devices of 10G bandwidth that several allocations share."""
    bandwidth = {**_amount("10G"), "requestPolicy": {"default": "1M", "validRange": {"min": "1M", "step": "8"}}}
    devices = [
        {
            "name": f"device-{index}",
            "allowMultipleAllocations": True,
            "attributes": {"dra.example.com/index": {"int": index}},
            "capacity": {"bandwidth": bandwidth},
        }
        for index in range(1, 5)
    ]
    return [{"devices": devices}]


POOLS: Final[dict[str, Callable[[], list[Object]]]] = {
    "partitionable": partitionable,
    "backtracking": backtracking,
    "compatibility-groups": lambda: partitionable(("mig",)),
    "consumable": consumable,
}
"""By kind of devices: what the slices of one node's pool have."""


def _amount(value: str) -> Object:
    return {"value": value}
