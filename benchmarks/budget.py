"""The longest input of hostile loads, for the machine alone (ADR 0016).

    python -m benchmarks.budget [--ticks 600] [--row packed]

Each load is put to a machine with a null shell, with an ordinary pod of another namespace every ten ticks, on a clock
that follows the CPU time spent. Printed: the longest input, how many ticks an ordinary pod waited at most, how many
steps (of about 4 us) were counted for each tick. The same loads on a cluster: `benchmarks.hostile_cluster`.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from typing import Any, Final

from benchmarks.deciding import HOST, START_MS, NullShell
from benchmarks.pools import packed_shares
from scheduler.core.ground.inputs import RelistFinished, TimerFired
from scheduler.core.observation import KINDS
from scheduler.model.gang import GROUP_LABEL, MIN_COUNT_LABEL
from scheduler.model.keys import PodGroupKey, PodKey
from scheduler.model.pod_group import PodGroup
from tests import builders
from tests.observed import observed

_LIST: Final = ",".join(map(str, range(28)))
_ENDLESS: Final = f"[{_LIST}].all(a,[{_LIST}].all(b,[0,1,2,3].all(c,a+b+c+1>=0)))"
_UUID: Final = "device.attributes['gpu.example.com'].uuid"
_PACKED: Final = "packed.example.com"


def expensive(text: str) -> str:
    """242 characters that take milliseconds for each device."""
    return f"{_ENDLESS}&&{_UUID}!='{text}'"


class Shell(NullShell):
    """With a clock that follows the CPU time of the machine.

    Attributes:
        cpu_s: CPU time of the machine; the clock is ahead of it where nothing was to be done.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cpu_s = 0.0

    def handle(self, given: Any) -> None:
        queue = [given]
        while queue:
            now_ms = START_MS + int(self.spent_s * 1000)
            begun_s = time.process_time()
            decisions = self.machine.handle(queue.pop(0), now_ms=now_ms)
            took_s = time.process_time() - begun_s
            self.spent_s += took_s
            self.cpu_s += took_s
            self.longest_s = max(self.longest_s, took_s)
            for decision in decisions:
                queue.extend(self.answer(decision))

    def add_ordinary(self, number: int) -> None:
        name = f"ordinary-{number}"
        pod = builders.pod(
            name, namespace="ordinary", templates={"gpu": f"{name}-gpu"}, requests={"cpu": "1m"}, priority=0
        )
        claim = builders.claim(f"{name}-gpu", namespace="ordinary", spec=builders.claim_spec_object(), owner_pod=pod)
        self.pods[pod.key] = pod
        self.claims[claim.key] = claim
        self.handle(observed(claim))
        self.handle(observed(pod))


def one_selector() -> list[dict[str, Any]]:
    return [builders.claim_spec_object(builders.request_object(selector=expensive("x1"), count=9))]


def many_selectors() -> list[dict[str, Any]]:
    requests = [
        {
            "name": f"r{request}",
            "firstAvailable": [
                {
                    "name": f"way-{way}",
                    "deviceClassName": builders.CLASS,
                    "allocationMode": "ExactCount",
                    "count": 1,
                    "selectors": [{"cel": {"expression": expensive(f"{request}-{way}-{part}")}} for part in range(9)],
                }
                for way in range(8)
            ],
        }
        for request in range(24)
    ]
    return [builders.claim_spec_object(*requests)]


def packed() -> list[dict[str, Any]]:
    """Twenty claims that almost fill shared devices, in no way that is found soon."""
    specs = []
    for seed in range(20):
        requests = []
        for index, share in enumerate(packed_shares(seed)):
            request = builders.request_object(f"r{index}", device_class=_PACKED)
            request["exactly"]["capacity"] = {"requests": {"memory": share}}
            requests.append(request)
        specs.append(builders.claim_spec_object(*requests))
    return specs


def distinct() -> list[dict[str, Any]]:
    return [
        builders.claim_spec_object(builders.request_object(selector=f"{_UUID} != 'job-{number}'", count=9))
        for number in range(100)
    ]


def long_selectors() -> list[dict[str, Any]]:
    """Nearly 10 KiB each."""
    return [
        builders.claim_spec_object(
            builders.request_object(selector="&&".join(f"{_UUID}!='j{number}-{part}'" for part in range(170)), count=9)
        )
        for number in range(20)
    ]


def derived() -> list[dict[str, Any]]:
    """Twenty claims, each with 32 costly expressions that constraints compare; no API server takes them all."""
    specs = []
    for number in range(20):
        names = [f"derived/n{part}" for part in range(32)]
        request = builders.request_object(count=9)
        request["exactly"]["derivedAttributes"] = [
            {"name": name, "expression": f"({_ENDLESS}) && {_UUID} != '{number}-{name}'"} for name in names
        ]
        spec = builders.claim_spec_object(request)
        spec["devices"]["constraints"] = [{"matchAttribute": name} for name in names]
        specs.append(spec)
    return specs


Load = list[tuple[dict[str, Any] | None, dict[str, Any]]]


def _group(name: str, size: int) -> dict[str, Any]:
    return {"labels": {GROUP_LABEL: name, MIN_COUNT_LABEL: str(size)}}


def group_of_eights() -> Load:
    """128 pods of one group, each with eight devices of a node of its own and a selector of its own: it fits."""
    return [
        (
            builders.claim_spec_object(
                *(builders.request_object(f"r{part}", selector=f"{_UUID} != 'x{number}-{part}'") for part in range(8))
            ),
            _group("eights", 128),
        )
        for number in range(128)
    ]


def group_of_costly() -> Load:
    """100 pods of one group, each with one selector that takes milliseconds for each device."""
    return [
        (builders.claim_spec_object(builders.request_object(selector=expensive(f"g{number}"))), _group("costly", 100))
        for number in range(100)
    ]


def ten_groups() -> Load:
    """Ten groups of 100 pods with six plain selectors."""
    return [
        (
            builders.claim_spec_object(
                *(
                    builders.request_object(f"r{part}", selector=f"{_UUID} != 'x{group}-{number}-{part}'")
                    for part in range(6)
                )
            ),
            _group(f"six-{group}", 100),
        )
        for group in range(10)
        for number in range(100)
    ]


def groups_of_one_host() -> Load:
    """Twenty PodGroups of 64 pods, on one host each; a pod wants five of its eight devices: they fit nowhere."""
    return [
        (
            builders.claim_spec_object(builders.request_object(count=5)),
            {"schedulingGroup": {"podGroupName": f"g{group}"}},
        )
        for group in range(20)
        for _ in range(64)
    ]


def packed_group() -> Load:
    """Two pods of the claims of `packed`."""
    return [(spec, _group("packed", 2)) for spec in packed()[:2]]


def many_constraints() -> list[dict[str, Any]]:
    """60 distinct ones for each of 20 pods."""
    one = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    return [
        {
            "topologySpreadConstraints": [
                {**one, "labelSelector": {"matchLabels": {"app": f"app-{pod}-{index}"}}} for index in range(60)
            ]
        }
        for pod in range(20)
    ]


def many_terms() -> list[dict[str, Any]]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return [
        {
            "affinity": {
                "podAntiAffinity": {
                    required: [
                        {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": f"app-{pod}-{index}"}}}
                        for index in range(60)
                    ]
                }
            }
        }
        for pod in range(20)
    ]


POD_LOADS: Final[dict[str, tuple[int, Callable[[], list[dict[str, Any]]]]]] = {
    "60 distinct spread constraints, 500 nodes": (500, many_constraints),
    "60 distinct spread constraints, 5,000 nodes": (5_000, many_constraints),
    "60 distinct anti-affinity terms, 5,000 nodes": (5_000, many_terms),
}
"""What pods without claims demand."""
LOADS: Final[dict[str, tuple[int, Callable[[], list[dict[str, Any]]]]]] = {
    "one selector, 75 nodes": (75, one_selector),
    "one selector, 500 nodes": (500, one_selector),
    "one selector, 5,000 nodes": (5_000, one_selector),
    "24 x 8 x 9 selectors, 75 nodes": (75, many_selectors),
    "20 packed claims, 500 nodes": (500, packed),
    "100 distinct selectors, 5,000 nodes": (5_000, distinct),
    "20 selectors of 10 KiB, 500 nodes": (500, long_selectors),
    "20 claims of 32 derived attributes, 500 nodes": (500, derived),
}


GROUP_LOADS: Final[dict[str, tuple[int, Callable[[], Load]]]] = {
    "a group of 128, each a node's devices, 500 nodes": (500, group_of_eights),
    "a group of 100 costly selectors, 500 nodes": (500, group_of_costly),
    "ten groups of 100, six selectors, 500 nodes": (500, ten_groups),
    "a group of two packed claims, 24 nodes": (24, packed_group),
    "twenty groups of 64 on one host, 2,000 nodes": (2_000, groups_of_one_host),
}


def world(nodes: int) -> Shell:
    shell = Shell()
    for index in range(nodes):
        shell.handle(observed(builders.node(f"node-{index:05}", labels={"zone": f"zone-{index % 3}"})))
    shell.handle(observed(builders.device_class(), 1))
    shell.handle(observed(builders.device_class(_PACKED, driver=_PACKED), 1))
    for index in range(nodes):
        node = f"node-{index:05}"
        gpus = tuple(builders.device_object(f"gpu-{gpu}", uuid=f"GPU-{index}-{gpu}") for gpu in range(8))
        shell.handle(observed(builders.resource_slice(f"gpus-{node}", node=node, devices=gpus), 1))
        shares = tuple(
            {"name": f"d{size}", "allowMultipleAllocations": True, "capacity": {"memory": {"value": str(100 + size)}}}
            for size in range(6)
        )
        shell.handle(observed(builders.resource_slice(f"packed-{node}", node=node, driver=_PACKED, devices=shares), 1))
    for kind in sorted(KINDS):
        shell.handle(RelistFinished(kind))
    return shell


def _staged(name: str) -> tuple[Shell, Load]:
    if name in GROUP_LOADS:
        nodes, groups = GROUP_LOADS[name]
        return world(nodes), groups()
    nodes, load = (LOADS | POD_LOADS)[name]
    return world(nodes), [(one, {}) if name in LOADS else (None, one) for one in load()]


def measure(name: str, ticks: int) -> str:
    shell, load = _staged(name)
    for group in {fields["schedulingGroup"]["podGroupName"]: None for _, fields in load if "schedulingGroup" in fields}:
        key = PodGroupKey("default", group)
        shell.handle(observed(PodGroup(key, f"uid-{group}", min_count=64, topology_key=HOST), 1))
    for number, (spec, fields) in enumerate(load):
        for given in shell.add(f"hostile-{number}", spec, {"cpu": "1m"}, **fields):
            shell.handle(given)
    gc.collect()
    gc.freeze()
    gc.disable()
    meter = shell.machine.store.inventory.meter
    shell.longest_s, begun_s, begun, shell.cpu_s = 0.0, shell.spent_s, meter.spent, 0.0
    waits, waiting, number, ordinary = [], 0, 0, 0
    for tick in range(ticks):
        if tick % 10 == 0 and not waiting:
            number += 1
            shell.add_ordinary(number)
            waiting = tick + 1
        shell.handle(TimerFired())
        if waiting and PodKey("ordinary", f"ordinary-{number}") in shell.bound:
            waits.append(tick + 2 - waiting)
            waiting = 0
            ordinary += 1
        deadline = shell.machine.next_deadline_ms()
        if deadline is not None:
            shell.spent_s = max(shell.spent_s, (deadline - START_MS) / 1000)
    gc.enable()
    gc.unfreeze()
    spent = meter.spent - begun
    return (
        f"{name}: longest input {shell.longest_s * 1000:.1f} ms, {number} ordinary pods waited {max(waits, default=0)} "
        f"ticks at most, {spent / 100 / ticks:.0f} steps a tick, {shell.cpu_s:.1f} s of CPU in "
        f"{(shell.spent_s - begun_s):.1f} s, {len(shell.bound) - ordinary} of {len(load)} hostile pods bound"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ticks", type=int, default=600)
    parser.add_argument("--row", default="", help="a part of its name")
    args = parser.parse_args()
    for name in (*LOADS, *POD_LOADS, *GROUP_LOADS):
        if args.row in name:
            print(measure(name, args.ticks), flush=True)


if __name__ == "__main__":
    main()
