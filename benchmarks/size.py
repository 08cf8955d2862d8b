"""How large a cluster may be: memory, the first decision and the longest input, with objects decoded from bytes.

    python -m benchmarks.size [--nodes 5000,10000,30000] [--running 100000] [--pods 2000]

Each size has a process of its own. The running pods hold a device each, of those that the nodes have (as many pods as
devices at most). Memory is this process's, after all was listed and after the pods; CPU is the machine's alone. `first`
is the first pod of its kind, from its observation to its binding; each of the pods after it is of a known shape. Then a
node's labels change, a slice is published again, a node goes and comes: `change` is the longest of that, with the pod
that is scheduled after each. At last comes a pod that fits nowhere: `hopeless`, until it has been told why.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import sys
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from benchmarks.deciding import BATCH, CLAIMS, demands
from benchmarks.machine import ZONE, NullShell, Object, counted, node_name, resident_mb
from scheduler import garbage_collector
from scheduler.core.ground.inputs import Deleted, Input
from scheduler.kube.codec import Codec
from scheduler.model.keys import ObjectKey
from scheduler.model.objects import Pod
from tests import builders

DEVICES: Final = 8
"""On each node."""
WORKLOADS: Final = ("plain", "device", "selector", "numa-four", "spread-zone", "affinity-zone", "anti-affinity-host")


class Watched:
    """Objects as the API server sends them."""

    def __init__(self) -> None:
        self._kinds: Final = {kind.name: kind for kind in Codec().kinds}

    def input(self, kind: str, obj: Object) -> Input:
        seen: Any = self._kinds[kind].decode_object(msgspec.json.encode(obj))
        return seen.input


def node_object(index: int, **labels: str) -> Object:
    name = node_name(index)
    return builders.node_object(
        name, labels={ZONE: f"zone-{index % 3}", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **labels}
    )


def slice_object(index: int, generation: int = 1) -> Object:
    name = node_name(index)
    devices = [
        {
            **builders.device_object(
                f"gpu-{number}", index=number, numa=number // 4, model="A100", uuid=f"{name}-{number}"
            ),
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for number in range(DEVICES)
    ]
    return builders.slice_object(f"slice-{name}", node=name, devices=tuple(devices), generation=generation)


def running(number: int, nodes: int) -> tuple[Object, Object]:
    """A claim and its pod, which run."""
    name, node, device = f"run-{number}", node_name(number % nodes), f"gpu-{number // nodes}"
    pod = builders.pod_object(
        name,
        templates={"gpu": f"{name}-gpu"},
        requests={"cpu": "50m"},
        node=node,
        phase="Running",
        priority=0,
        labels={"app": f"app-{number % 100}"},
    )
    claim = builders.claim_object(f"{name}-gpu", owner_pod=msgspec.convert(pod, Pod))
    claim["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    where = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    result = {"request": "gpu", "driver": builders.DRIVER, "pool": node, "device": device}
    claim["status"] = {
        "allocation": {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": where}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}],
    }
    return claim, pod


def listed(watched: Watched, nodes: int, pods: int) -> Iterator[Input]:
    for index in range(nodes):
        yield watched.input("Node", node_object(index))
    for index in range(nodes):
        yield watched.input("ResourceSlice", slice_object(index))
    yield watched.input("DeviceClass", builders.class_object())
    for number in range(pods):
        claim, pod = running(number, nodes)
        yield watched.input("ResourceClaim", claim)
        yield watched.input("Pod", pod)


HOPELESS: Final = builders.claim_spec_object(
    builders.request_object(selector=f"device.attributes['gpu.example.com'].index >= {DEVICES}")
)


def decide(shell: NullShell, name: str, workload: str, number: int = 0) -> None:
    shell.feed(shell.add(name, CLAIMS.get(workload), {"cpu": "50m"}, **demands(workload, number)))
    shell.run_until_idle()


def measure(nodes: int, pods: int, placed: int, workloads: list[str]) -> None:
    before = resident_mb()
    shell, watched = NullShell(), Watched()
    gc.disable()
    with counted(shell):
        for given in listed(watched, nodes, placed * nodes):
            shell.feed([given])
        longest_ms, listing_s = shell.longest_s * 1e3, shell.spent_s
        shell.longest_s = 0.0
        shell.listed()
        first_turn_ms = shell.longest_s * 1e3
    garbage_collector.settle()
    print(
        f"{nodes} nodes, {nodes * DEVICES} devices: listed {listing_s:.1f} s of CPU, longest {longest_ms:.1f} ms, "
        f"told so {first_turn_ms:.1f} ms, {resident_mb() - before} MiB",
        flush=True,
    )
    for workload in workloads:
        with counted(shell):
            decide(shell, f"first-{workload}", workload)
            first_ms, first_longest = shell.spent_s * 1e3, shell.longest_s * 1e3
        for index in range(100):
            decide(shell, f"warm-{workload}-{index}", workload, index)
        with counted(shell):
            for start in range(0, pods, BATCH):
                for index in range(start, start + BATCH):
                    name = f"pod-{workload}-{index}"
                    shell.feed(shell.add(name, CLAIMS.get(workload), {"cpu": "50m"}, **demands(workload, 100 + index)))
                shell.run_until_idle()
            us, longest_ms = shell.spent_s / pods * 1e6, shell.longest_s * 1e3
        changes = {}
        for what in ("labels", "slice", "gone", "back"):
            with counted(shell):
                for index in range(5):
                    number = nodes // 7 * (index + 1)
                    shell.feed([changed(watched, what, number)])
                    decide(shell, f"{what}-{workload}-{index}", workload)
                changes[what] = round(shell.longest_s * 1e3, 1)
        print(
            f"  {workload:18} first {first_ms:6.1f} ms (longest {first_longest:5.1f}), then {us:4.0f} us a pod, "
            f"longest {longest_ms:5.1f} ms, changes {changes}, {resident_mb() - before} MiB",
            flush=True,
        )
    with counted(shell):
        shell.feed(shell.add("hopeless", HOPELESS, {"cpu": "50m"}))
        shell.run_until_idle(shell.now_ms + 1_000)
    print(f"  hopeless           {shell.spent_s * 1e3:.1f} ms, longest {shell.longest_s * 1e3:.1f} ms", flush=True)


def changed(watched: Watched, what: str, number: int) -> Input:
    match what:
        case "labels":
            return watched.input("Node", node_object(number, changed=str(builders.next_revision())))
        case "slice":
            return watched.input("ResourceSlice", slice_object(number, builders.next_revision()))
        case "gone":
            name = ObjectKey("", node_name(number))
            return Deleted("Node", name, f"uid-{name.name}", builders.next_revision())
        case _:
            return watched.input("Node", node_object(number))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="5000,10000,30000")
    parser.add_argument("--running", type=int, default=4, help="pods on each node")
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    args = parser.parse_args()
    for nodes in args.nodes.split(","):
        one = multiprocessing.Process(
            target=measure, args=(int(nodes), args.pods, args.running, args.workloads.split(","))
        )
        one.start()
        one.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
