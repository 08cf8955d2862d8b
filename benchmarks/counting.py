"""What it costs to count devices for /metrics, on the event loop of a scheduler that has other things to do.

    python -m benchmarks.counting                                # 5,000 nodes of 8 devices, half of them held
    python -m benchmarks.counting --classes 20
    python -m benchmarks.counting --partitions                   # a GPU of seven parts instead of eight devices

The machine alone with a null shell. `count` is CPU time in one go, as the page and `devices` have it. `longest` is the
longest time for which the loop came to nothing else while it was counted in parts, and `until told` how long that
took. The exit code is 0 where the longest part took less than 20 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
from typing import Final

import uvloop

from benchmarks.machine import NullShell, Object, counted, defaulted, node_name, resident_mb
from scheduler.inventory.device_metrics import CountedDevices, count_devices
from scheduler.inventory.parts import whole
from tests import builders
from tests.observed import observed

GOAL_S: Final = 0.020
ONE: Final = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": builders.CLASS, "count": 1}}]}}
MANY: Final = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": builders.CLASS, "count": 9}}]}}
WAITING: Final = 500
PARTS: Final = (1, 1, 1, 1, 2, 2, 4)  # of the seven slices that a GPU has: what each takes


def gpu(node: int, index: int) -> Object:
    return builders.device_object(f"gpu-{index}", index=index, uuid=f"GPU-{node}-{index}", model="A100")


def part(node: int, index: int) -> Object:
    takes = {"slices": {"value": str(PARTS[index])}}
    return gpu(node, index) | {"consumesCounters": [{"counterSet": "gpu", "counters": takes}]}


def clustered(arguments: argparse.Namespace) -> NullShell:
    """A cluster with half of its devices held, and some pods that wait."""
    shell = NullShell()
    if arguments.partitions:
        names = [node_name(index) for index in range(arguments.nodes)]
        shell.feed(observed(builders.node(name)) for name in names)
        shell.feed([observed(builders.device_class(), 1)])
        sets = [{"name": "gpu", "counters": {"slices": {"value": "7"}}}]
        for index, name in enumerate(names):
            devices = tuple(part(index, number) for number in range(len(PARTS)))
            both = (
                builders.resource_slice(f"sets-{name}", node=name, slices=2, devices=(), sharedCounters=sets),
                builders.resource_slice(f"parts-{name}", node=name, slices=2, devices=devices),
            )
            shell.feed(observed(one, 1) for one in both)
    else:
        shell.see_cluster(arguments.nodes, gpu, 8)
    more = (builders.device_class(f"class-{number}") for number in range(1, arguments.classes))
    shell.feed([observed(one, 1) for one in more])
    shell.listed()
    for index in range(arguments.nodes * (1 if arguments.partitions else 4)):
        shell.feed(shell.add(f"pod-{index}", defaulted(ONE), {"cpu": "1m"}))
    shell.run_until_idle()
    for index in range(WAITING):
        shell.feed(shell.add(f"waits-{index}", defaulted(MANY), {"cpu": "1m"}))
    shell.run_until_idle()
    return shell


async def measured(shell: NullShell) -> tuple[float, float]:
    """The longest time for which the loop was held, and until the numbers were there."""
    begun_s = last_s = time.perf_counter()
    devices = CountedDevices(shell.machine, None, lambda: shell.now_ms)
    longest_s = 0.0
    while devices.newest() is None:
        now_s = time.perf_counter()
        longest_s, last_s = max(longest_s, now_s - last_s), now_s
        await asyncio.sleep(0)
    return max(longest_s, time.perf_counter() - last_s), time.perf_counter() - begun_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--classes", type=int, default=1)
    parser.add_argument("--partitions", action="store_true")
    arguments = parser.parse_args()
    shell = clustered(arguments)
    gc.collect()
    before_mb = resident_mb()
    with counted(shell):
        for run in ("first", "again"):
            begun_s = time.process_time()
            numbers = whole(count_devices(shell.machine, None, shell.now_ms))
            print(f"count {run}: {time.process_time() - begun_s:.2f} s, {resident_mb() - before_mb} MB more")
        longest_s, told_s = uvloop.run(measured(shell))
    print(f"longest: {longest_s * 1000:.1f} ms, until told: {told_s:.1f} s")
    print({state: number for (_, _, _, state), number in numbers["devices"].items() if number})
    return int(longest_s >= GOAL_S)


if __name__ == "__main__":
    sys.exit(main())
