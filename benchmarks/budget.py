"""The longest input of hostile loads, for the machine alone (ADR 0016).

    python -m benchmarks.budget [--ticks 600] [--row packed]

Each load is put to a machine with a null shell, with an ordinary pod of another namespace every ten ticks, on a clock
that follows the CPU time spent. Printed: the longest input, how many ticks an ordinary pod waited at most, how many
steps (of about 4 us) were counted for each tick. The aim is 20 ms. Loads on a cluster: `benchmarks.hostile`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from benchmarks.hostile_loads import (
    PACKED,
    UUID,
    asking,
    expensive,
    of_a_group,
    of_alternatives,
    one_selector,
    packed,
    request,
    ruling_out,
)
from benchmarks.machine import HOST, START_MS, ZONE, NullShell, Object, counted, defaulted, node_name
from benchmarks.pools import packed_devices
from scheduler.core.ground.inputs import TimerFired
from scheduler.model.group import GROUP_LABEL, MIN_COUNT_LABEL
from scheduler.model.keys import PodGroupKey, PodKey
from scheduler.model.pod_group import PodGroup
from tests import builders
from tests.observed import observed

Pods = Iterator[tuple[Object | None, dict[str, Any]]]
"""The spec of each pod's claim, and the fields of the pod."""


class Row(NamedTuple):
    """A load on so many nodes."""

    name: str
    nodes: int
    pods: Callable[[], Pods]


class Shell(NullShell):
    """With a clock that follows the CPU time of the machine.

    Attributes:
        idle_s: How far the clock is ahead of it, as nothing was to be done.
    """

    idle_s = 0.0

    def at_ms(self) -> int:
        return START_MS + int((self.spent_s + self.idle_s) * 1000)


# -- loads ----------------------------------------------------------------------------------------------------------


def alone(claims: list[Object]) -> Pods:
    return ((claim, {}) for claim in claims)


def grouped(group: str, claims: list[Object]) -> Pods:
    labels = {GROUP_LABEL: group, MIN_COUNT_LABEL: str(len(claims))}
    return ((claim, {"labels": labels}) for claim in claims)


def long_selectors() -> Pods:
    """Nearly 10 KiB each."""
    texts = ("&&".join(f"{UUID}!='j{number}-{part}'" for part in range(170)) for number in range(20))
    return alone([asking(request("gpu", text, count=9)) for text in texts])


def derived() -> Pods:
    """Twenty claims, each with 32 costly expressions that constraints compare; no API server takes them all."""
    for number in range(20):
        names = [f"derived/n{part}" for part in range(32)]
        attributes = [{"name": name, "expression": expensive(f"{number}-{name}")} for name in names]
        spec = asking(request("gpu", count=9, derivedAttributes=attributes))
        spec["devices"]["constraints"] = [{"matchAttribute": name} for name in names]
        yield spec, {}


def ten_groups() -> Pods:
    for group in range(10):
        yield from grouped(f"six-{group}", of_a_group(group, 100))


def groups_of_one_host() -> Pods:
    """Twenty PodGroups of 64 pods, on one host each; a pod wants five of its eight devices: they fit nowhere."""
    for group in range(20):
        yield from [(asking(request("gpu", count=5)), {"schedulingGroup": {"podGroupName": f"g{group}"}})] * 64


def of_apps(pod: int, term: Object) -> list[Object]:
    """60 distinct ones."""
    return [{**term, "labelSelector": {"matchLabels": {"app": f"app-{pod}-{index}"}}} for index in range(60)]


def constraints() -> Pods:
    one = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    return ((None, {"topologySpreadConstraints": of_apps(pod, one)}) for pod in range(20))


def terms() -> Pods:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    for pod in range(20):
        yield None, {"affinity": {"podAntiAffinity": {required: of_apps(pod, {"topologyKey": HOST})}}}


ROWS: Final = (
    Row("one selector, 75 nodes", 75, lambda: alone(one_selector())),
    Row("one selector, 500 nodes", 500, lambda: alone(one_selector())),
    Row("one selector, 5,000 nodes", 5_000, lambda: alone(one_selector())),
    Row("24 x 8 x 9 selectors, 75 nodes", 75, lambda: alone([of_alternatives(0, 24, [9] * 8)])),
    Row("20 packed claims, 500 nodes", 500, lambda: alone(packed())),
    Row(
        "100 distinct selectors, 5,000 nodes",
        5_000,
        lambda: alone([asking(request("gpu", f"{UUID} != 'job-{number}'", count=9)) for number in range(100)]),
    ),
    Row("20 selectors of 10 KiB, 500 nodes", 500, long_selectors),
    Row("20 claims of 32 derived attributes, 500 nodes", 500, derived),
    Row("60 distinct spread constraints, 500 nodes", 500, constraints),
    Row("60 distinct spread constraints, 5,000 nodes", 5_000, constraints),
    Row("60 distinct anti-affinity terms, 5,000 nodes", 5_000, terms),
    Row(
        "a group of 128, each a node's devices, 500 nodes",
        500,
        lambda: grouped("eights", [ruling_out(*(f"x{pod}-{part}" for part in range(8))) for pod in range(128)]),
    ),
    Row(
        "a group of 100 costly selectors, 500 nodes",
        500,
        lambda: grouped("costly", [asking(request("gpu", expensive(f"g{number}"))) for number in range(100)]),
    ),
    Row("ten groups of 100, six selectors, 500 nodes", 500, ten_groups),
    Row("a group of two packed claims, 24 nodes", 24, lambda: grouped("packed", packed(2))),
    Row("twenty groups of 64 on one host, 2,000 nodes", 2_000, groups_of_one_host),
)


# -- what is measured -----------------------------------------------------------------------------------------------


def world(nodes: int) -> Shell:
    shell = Shell()
    shell.see_cluster(nodes, lambda node, gpu: builders.device_object(f"gpu-{gpu}", uuid=f"GPU-{node}-{gpu}"), 8)
    shell.feed([observed(builders.device_class(PACKED, driver=PACKED), 1)])
    for index in range(nodes):
        name, devices = node_name(index), tuple(packed_devices())
        shell.feed([observed(builders.resource_slice(f"packed-{name}", node=name, driver=PACKED, devices=devices), 1)])
    shell.listed()
    return shell


def measure(row: Row, ticks: int) -> str:
    shell, pods = world(row.nodes), list(row.pods())
    for group in {fields["schedulingGroup"]["podGroupName"]: None for _, fields in pods if "schedulingGroup" in fields}:
        key = PodGroupKey("default", group)
        shell.feed([observed(PodGroup(key, f"uid-{group}", min_count=64, topology_key=HOST), 1)])
    for number, (spec, fields) in enumerate(pods):
        shell.feed(shell.add(f"hostile-{number}", spec and defaulted(spec), {"cpu": "1m"}, **fields))
    meter = shell.machine.store.inventory.meter
    waits, since, number, begun = [], None, 0, meter.spent
    with counted(shell):
        shell.idle_s = (shell.now_ms - START_MS) / 1000
        for tick in range(ticks):
            if tick % 10 == 0 and since is None:
                number, since = number + 1, tick
                spec = builders.claim_spec_object()
                shell.feed(shell.add(f"ordinary-{number}", spec, {"cpu": "1m"}, namespace="ordinary"))
            shell.feed([TimerFired()])
            if since is not None and PodKey("ordinary", f"ordinary-{number}") in shell.bound:
                waits.append(tick + 1 - since)
                since = None
            deadline = shell.machine.next_deadline_ms()
            if deadline is not None:
                shell.idle_s += max(0.0, (deadline - shell.at_ms()) / 1000)
    return (
        f"{row.name}: longest input {shell.longest_s * 1000:.1f} ms, {number} ordinary pods waited "
        f"{max(waits, default=0)} ticks at most, {(meter.spent - begun) / 100 / ticks:.0f} steps a tick, "
        f"{shell.spent_s:.1f} s of CPU in {shell.spent_s + shell.idle_s:.1f} s, {len(shell.bound) - len(waits)} of "
        f"{len(pods)} hostile pods bound"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ticks", type=int, default=600)
    parser.add_argument("--row", default="", help="a part of its name")
    args = parser.parse_args()
    for row in ROWS:
        if args.row in row.name:
            print(measure(row, args.ticks), flush=True)


if __name__ == "__main__":
    main()
