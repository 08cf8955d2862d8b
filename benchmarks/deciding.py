"""Deciding alone: the CPU time that the machine takes for each pod (`benchmarks.machine` says what counts).

python -m benchmarks.deciding [--nodes 500,5000,20000] [--pods N] [--workload W] [--new-shapes] [--waiting N]
python -m benchmarks.deciding --workload spread-zone --placed 20000
"""

from __future__ import annotations

import argparse
import sys
from typing import Any, Final

from benchmarks.machine import HOST, ZONE, NullShell, Object, counted, node_name
from scheduler.model.keys import ObjectKey
from scheduler.model.pod_selectors import SERVICE, PodSelector
from tests import builders
from tests.observed import observed

BATCH: Final = 20
"""Pods that arrive together."""
REPLICAS: Final = 100
"""Pods that keep away from each other; then come the next."""
CLAIMS: Final[dict[str, Object | None]] = {
    "plain": None,
    "device": builders.claim_spec_object(),
    "selector": builders.claim_spec_object(
        builders.request_object(selector="device.attributes['gpu.example.com'].index >= 4")
    ),
    "numa-four": builders.claim_spec_object(
        builders.request_object(count=4),
        constraints=({"requests": ["gpu"], "matchAttribute": "gpu.example.com/numa"},),
    ),
}
_PREFERRED: Final = [
    {"weight": weight, "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}}
    for zone, weight in (("zone-1", 10), ("zone-2", 5))
]
SPREAD: Final = {
    "spread-zone": (ZONE, "DoNotSchedule"),
    "spread-zone-soft": (ZONE, "ScheduleAnyway"),
    "spread-host": (HOST, "DoNotSchedule"),
}
WORKLOADS: Final = (
    *CLAIMS,
    *SPREAD,
    *("spread-default", "anti-affinity-host", "affinity-zone"),
    "preferred-node-affinity",
)


def demands(workload: str, number: int) -> dict[str, Any]:
    """Labels, and what the pod of that number demands of nodes and other pods."""
    if workload in CLAIMS:
        return {}
    app = f"apart-{number // REPLICAS}" if workload == "anti-affinity-host" else "web"
    selector = {"labelSelector": {"matchLabels": {"app": app}}}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    spec: dict[str, Any] = {"labels": {"app": app}}
    if workload == "anti-affinity-host":
        spec["affinity"] = {"podAntiAffinity": {required: [{"topologyKey": HOST, **selector}]}}
    elif workload == "affinity-zone":
        spec["affinity"] = {"podAffinity": {required: [{"topologyKey": ZONE, **selector}]}}
    elif workload == "preferred-node-affinity":
        spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": _PREFERRED}}
    elif workload in SPREAD:
        key, when = SPREAD[workload]
        one = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, **selector}
        spec["topologySpreadConstraints"] = [one]
    return spec


def place(shell: NullShell, count: int, nodes: int) -> None:
    """Pods that run already, of 100 kinds, one of them that of the pods to come, which a Service selects."""
    service = PodSelector(SERVICE, ObjectKey("default", "web"), (("app", "web"),))
    shell.feed([observed(service, 1)])
    for index in range(count):
        labels = {"app": "web" if index % 100 == 0 else f"app-{index % 100}"}
        node = node_name(index % nodes)
        shell.feed([observed(builders.pod(f"placed-{index}", labels=labels, requests={"cpu": "50m"}, node=node))])


def gpu(node: int, index: int) -> Object:
    return builders.device_object(f"gpu-{index}", index=index, numa=index // 4, model="A100")


def measure(args: argparse.Namespace, nodes: int) -> dict[str, Any]:
    shell = NullShell()
    shell.see_cluster(nodes, gpu, args.devices)
    shell.listed()
    spec = CLAIMS.get(args.workload)
    if args.placed:
        place(shell, args.placed, nodes)
    for index in range(args.waiting):
        shell.feed(shell.add(f"waiting-{index}", spec, {"cpu": "1000"}))
    shell.run_until_idle()
    for index in range(100 if not args.new_shapes else 5):  # warm up: the shape becomes known
        requests = {"cpu": f"{index + 1}m"} if args.new_shapes else {"cpu": "50m"}
        shell.feed(shell.add(f"warm-{index}", spec, requests, **demands(args.workload, index)))
    shell.run_until_idle()
    pods = []
    for index in range(args.pods):
        requests = {"memory": str(1024 * (index + 1))} if args.new_shapes else {"cpu": "50m"}
        pods.append(shell.add(f"pod-{index}", spec, requests, **demands(args.workload, 100 + index)))
    bound = len(shell.bound)
    with counted(shell):
        for start in range(0, len(pods), BATCH):
            shell.feed([given for one in pods[start : start + BATCH] for given in one])
            shell.run_until_idle()
    done = len(shell.bound) - bound
    if done != args.pods:
        raise SystemExit(f"only {done} of {args.pods} pods were bound")
    return {
        "nodes": nodes,
        "pods": done,
        "pods_per_s": round(done / shell.spent_s),
        "us_per_pod": round(shell.spent_s / done * 1e6),
        "inputs_per_pod": round(shell.handled / done, 1),
        "longest_handle_ms": round(shell.longest_s * 1e3, 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="500,5000,20000")
    parser.add_argument("--devices", type=int, default=8, help="on each node")
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--workload", choices=WORKLOADS, default="device")
    parser.add_argument("--placed", type=int, default=0, help="pods that run already")
    parser.add_argument("--new-shapes", action="store_true", help="every pod asks for another amount")
    parser.add_argument("--waiting", type=int, default=0, help="unschedulable pods that wait meanwhile")
    args = parser.parse_args()
    print(f"workload {args.workload}, {'every pod a new shape' if args.new_shapes else 'one shape'}")
    for nodes in args.nodes.split(","):
        print("  " + ", ".join(f"{key} {value}" for key, value in measure(args, int(nodes)).items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
