"""Deciding alone: the machine with a null shell that answers every write at once, without I/O.

Measures the CPU time spent inside `Machine.handle` for everything a pod causes: its and its claim's observation, the
scheduling cycle, the answers to three writes, and the watch events these writes cause.

    python -m benchmarks.deciding [--nodes 500,5000,20000] [--pods N] [--workload W] [--new-shapes] [--waiting N]
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import sys
import time
from dataclasses import replace

import msgspec

from allocator import Features
from scheduler.core.ground.inputs import RelistFinished, TimerFired, WriteAccepted
from scheduler.core.ground.settings import CoreSettings
from scheduler.core.machine import Machine
from scheduler.core.observation import KINDS
from scheduler.framework.api import Profile
from scheduler.framework.decisions import AddClaimFinalizer, BindPod, PatchPodStatus, WriteClaimStatus
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import ClaimKey, ObjectKey, PodKey
from scheduler.model.objects import Pod
from scheduler.model.pod_selectors import SERVICE, PodSelector
from scheduler.plugins import default_plugins
from tests import builders
from tests.observed import observed

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
OF_TOPOLOGY = (
    *("spread-zone", "spread-zone-soft", "spread-host", "spread-default"),
    *("anti-affinity-host", "affinity-zone", "preferred-node-affinity"),
)
REPLICAS = 100
"""Pods that keep away from each other; then come the next."""
START_MS = 1_800_000_000_000
WORKLOADS = {
    "plain": None,
    "device": builders.claim_spec_object(),
    "selector": builders.claim_spec_object(
        builders.request_object(selector="device.attributes['gpu.example.com'].index >= 4")
    ),
    "numa-four": builders.claim_spec_object(
        builders.request_object(count=4),
        constraints=({"requests": ["gpu"], "matchAttribute": "gpu.example.com/numa"},),
    ),
    **dict.fromkeys(OF_TOPOLOGY),
}


def of_topology(workload: str, number: int, groups: int) -> dict:
    """Labels, and what pods of a workload that is about other pods demand."""
    app = f"apart-{number // REPLICAS}" if workload == "anti-affinity-host" else "web"
    if groups > 1:
        app += f"-{number % groups}"
    selector = {"labelSelector": {"matchLabels": {"app": app}}}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    match workload:
        case "spread-default":
            spec = {}
        case "anti-affinity-host":
            spec = {"affinity": {"podAntiAffinity": {required: [{"topologyKey": HOST, **selector}]}}}
        case "preferred-node-affinity":
            preferred = [
                {
                    "weight": weight,
                    "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]},
                }
                for zone, weight in (("zone-1", 10), ("zone-2", 5))
            ]
            spec = {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}
        case "affinity-zone":
            spec = {"affinity": {"podAffinity": {required: [{"topologyKey": ZONE, **selector}]}}}
        case _:
            key = HOST if workload == "spread-host" else ZONE
            when = "ScheduleAnyway" if workload.endswith("soft") else "DoNotSchedule"
            one = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, **selector}
            spec = {"topologySpreadConstraints": [one]}
    return {"labels": {"app": app}, **spec}


class NullShell:
    """Answers each write at once, and counts the CPU time inside the machine.

    Attributes:
        now_ms: The machine's clock; it stands still unless somebody moves it.
        bound: The pods that were bound, each with its node.
    """

    def __init__(self, profile: Profile | None = None, settings: CoreSettings | None = None) -> None:
        uids = itertools.count(1)
        self.machine = Machine(
            [profile or Profile(builders.SCHEDULER, default_plugins())],
            features=Features(),
            new_uid=lambda: f"uid-{next(uids)}",
            settings=settings or CoreSettings(reports_causes=True),  # as `run` has it
        )
        self.now_ms = START_MS
        self.revision = 1_000_000
        self.spent_s = 0.0
        self.longest_s = 0.0
        self.handled = 0
        self.bound: dict[PodKey, str] = {}
        self.pods: dict[PodKey, Pod] = {}
        self.claims: dict[ClaimKey, ResourceClaim] = {}

    def see_cluster(self, nodes: int, devices: int, *, are_everywhere: bool = False, zones: int = 3) -> None:
        """All there is beside pods and claims."""
        names = [(f"node-{index:05}", f"zone-{index % zones}") for index in range(nodes)]
        self.feed([observed(builders.node(name, labels={ZONE: zone})) for name, zone in names])
        self.feed([observed(builders.device_class(), 1)])
        slices = []
        for index in range(nodes):
            name = f"node-{index:05}"
            gpus = tuple(builders.device_object(f"gpu-{i}", index=i, numa=i // 4, model="A100") for i in range(devices))
            where = {"node": None, "allNodes": True, "pool": name} if are_everywhere else {"node": name}
            slices.append(observed(builders.resource_slice(f"slice-{name}", devices=gpus, **where), 1))
        self.feed(slices)
        self.feed([RelistFinished(kind) for kind in KINDS])

    def feed(self, inputs) -> None:
        """Handle these, and everything that follows from them."""
        machine, clock = self.machine, time.process_time
        overhead = min(-clock() + clock() for _ in range(100))  # reading this clock is a system call
        queue = list(inputs)
        while queue:
            following = []
            for given in queue:
                start = clock()
                decisions = machine.handle(given, now_ms=self.now_ms)
                took = clock() - start - overhead
                self.spent_s += took
                self.longest_s = max(self.longest_s, took)
                self.handled += 1
                for decision in decisions:
                    following.extend(self.answer(decision))
            queue = following

    def answer(self, decision):
        self.revision += 1
        match decision:
            case AddClaimFinalizer():
                claim = replace(self.claims[decision.claim], finalizers=decision.finalizers, revision=self.revision)
            case WriteClaimStatus():
                claim = replace(
                    self.claims[decision.claim],
                    allocation=decision.allocation or self.claims[decision.claim].allocation,
                    reserved_for=decision.reserved_for,
                    revision=self.revision,
                )
            case BindPod():
                pod = self.pods[decision.pod]
                self.bound[decision.pod] = decision.node
                meta = msgspec.structs.replace(pod.metadata, resource_version=str(self.revision))
                spec = msgspec.structs.replace(pod.spec, node_name=decision.node)
                return [
                    WriteAccepted(decision.id),
                    observed(msgspec.structs.replace(pod, metadata=meta, spec=spec)),
                ]
            case PatchPodStatus():
                return [WriteAccepted(decision.id)]
            case _:
                return []
        self.claims[decision.claim] = claim
        return [WriteAccepted(decision.id, claim=claim), observed(claim)]

    def place(self, count: int, nodes: int) -> None:
        """Pods that run already, of 100 kinds, one of them that of the pods to come, which a Service selects."""
        service = PodSelector(SERVICE, ObjectKey("default", "web"), (("app", "web"),))
        self.feed([observed(service, 1)])
        for index in range(count):
            labels = {"app": "web" if index % 100 == 0 else f"app-{index % 100}"}
            node = f"node-{index % nodes:05}"
            pod = builders.pod(f"placed-{index}", labels=labels, requests={"cpu": "50m"}, node=node)
            self.feed([observed(pod)])

    def add(self, name: str, spec, requests, **fields) -> list:
        templates = {"gpu": f"{name}-gpu"} if spec else None
        pod = builders.pod(name, templates=templates, requests=requests, priority=0, **fields)
        self.pods[pod.key] = pod
        if spec is None:
            return [observed(pod)]
        claim = builders.claim(f"{name}-gpu", spec=spec, owner_pod=pod)
        self.claims[claim.key] = claim
        return [observed(claim), observed(pod)]

    def run_until_idle(self) -> None:
        while (deadline := self.machine.next_deadline_ms()) is not None and deadline <= self.now_ms:
            self.feed([TimerFired()])


def measure(args, nodes: int) -> dict:
    shell = NullShell()
    if args.measured:
        shell.machine.measure(time.perf_counter)
    shell.see_cluster(nodes, args.devices, are_everywhere=args.everywhere, zones=args.zones)
    spec = WORKLOADS[args.workload]
    if args.placed:
        shell.place(args.placed, nodes)

    def demands(number: int) -> dict:
        return of_topology(args.workload, number, args.groups) if args.workload in OF_TOPOLOGY else {}

    if args.waiting:
        hopeless = {"cpu": "1000"}
        for index in range(args.waiting):
            shell.feed(shell.add(f"waiting-{index}", spec, hopeless))
        shell.run_until_idle()
    for index in range(100 if not args.new_shapes else 5):  # warm up: the shape becomes known
        requests = {"cpu": f"{index + 1}m"} if args.new_shapes else {"cpu": "50m"}
        shell.feed(shell.add(f"warm-{index}", spec, requests, **demands(index)))
    shell.run_until_idle()
    batches = []
    for index in range(args.pods):
        requests = {"cpu": f"{100 + index}u"} if args.new_shapes else {"cpu": "50m"}
        if args.new_shapes:
            requests = {"memory": str(1024 * (index + 1))}
        batches.append(shell.add(f"pod-{index}", spec, requests, **demands(100 + index)))
    bound = len(shell.bound)
    shell.spent_s = shell.longest_s = 0.0
    shell.handled = 0
    gc.collect()
    gc.freeze()
    gc.disable()
    for start in range(0, len(batches), args.batch):
        shell.feed([given for batch in batches[start : start + args.batch] for given in batch])
        shell.run_until_idle()
    gc.enable()
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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", default="500,5000,20000")
    parser.add_argument("--devices", type=int, default=8, help="on each node")
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=20, help="pods that arrive together")
    parser.add_argument("--workload", choices=WORKLOADS, default="device")
    parser.add_argument("--placed", type=int, default=0, help="pods that run already")
    parser.add_argument("--zones", type=int, default=3, help="of nodes")
    parser.add_argument("--groups", type=int, default=1, help="of pods, each about itself; workloads about other pods")
    parser.add_argument("--everywhere", action="store_true", help="pools are not tied to nodes: all see all of them")
    parser.add_argument("--new-shapes", action="store_true", help="every pod asks for another amount")
    parser.add_argument("--waiting", type=int, default=0, help="unschedulable pods that wait meanwhile")
    parser.add_argument(
        "--measured", action="store_true", help="plugins are timed in one cycle of a hundred, as in `run`"
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    args = parser.parse_args()
    results = [measure(args, int(nodes)) for nodes in args.nodes.split(",")]
    if args.output == "json":
        print(json.dumps({"workload": args.workload, "results": results}))
        return 0
    print(f"workload {args.workload}, {'every pod a new shape' if args.new_shapes else 'one shape'}")
    for result in results:
        print("  " + ", ".join(f"{key} {value}" for key, value in result.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
