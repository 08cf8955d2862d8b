"""Preemption decided alone: the machine with an API server that answers every write at once, without I/O.

Every node is full with pods; then come more important ones, all of one Deployment. Measures the CPU time spent inside
`Machine.handle`, in all and for the longest input, until each has the place of its victims, or is known to find none.

    python -m benchmarks.deciding_preemption [--nodes 500,5000] [--pods 1000] [--victims 2] [--devices] [--hopeless]
        [--forgetful]
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import sys
import time

import msgspec

from allocator import Allocation, Features
from scheduler.core.ground.inputs import Input, RelistFinished, TimerFired
from scheduler.core.machine import Machine
from scheduler.core.observation import KINDS
from scheduler.core.trying.dry_run_memory import DryRunMemories
from scheduler.framework.api import Profile
from scheduler.framework.decisions import DeletePod, RecordEvent
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import PodKey
from scheduler.model.objects import Pod
from scheduler.plugins import default_plugins
from tests import builders
from tests.sim.api_server import FakeApiServer

START_MS = 1_800_000_000_000
CPU = 8
HIGH = 1_000


class Cluster:
    """A machine and its server; time stands still but for timers that are due.

    Attributes:
        spent_s, longest_s: CPU time inside the machine, in all and for one input.
        victims: Pods that were removed.
    """

    def __init__(self) -> None:
        uids = itertools.count(1)
        self.machine = Machine(
            [Profile(builders.SCHEDULER, default_plugins())], features=Features(), new_uid=lambda: f"uid-{next(uids)}"
        )
        self.server = FakeApiServer()
        self.now_ms = START_MS
        self.spent_s = self.longest_s = 0.0
        self.longest = ""
        self.handled = self.victims = 0
        self._told = 0
        self._stopping: list[PodKey] = []

    def feed(self, given: Input) -> None:
        """Handle an input; its decisions are executed and what happens is observed."""
        waiting = [given]
        while waiting:
            one = waiting.pop(0)
            start = time.process_time()
            decisions = self.machine.handle(one, now_ms=self.now_ms)
            took = time.process_time() - start
            self.spent_s += took
            if took > self.longest_s:
                self.longest_s, self.longest = took, type(one).__name__
            self.handled += 1
            for decision in decisions:
                if isinstance(decision, DeletePod):
                    self._stopping.append(decision.pod)
                if not isinstance(decision, RecordEvent):
                    waiting.append(self.server.execute(decision))
            waiting += self._observed()

    def _observed(self) -> list[Input]:
        observed = self.server.log[self._told :]
        self._told = len(self.server.log)
        return observed

    def watch(self) -> None:
        """Deliver what was put on the server."""
        for one in self._observed():
            self.feed(one)

    def rest(self, *, until_ms: int = 0) -> None:
        """Go on until nothing is due; pods that were told to stop are gone at once."""
        while (deadline := self.machine.next_deadline_ms()) is not None and deadline <= max(self.now_ms, until_ms):
            self.now_ms = max(self.now_ms, deadline)
            self.feed(TimerFired())
            self._stop_pods()

    def _stop_pods(self) -> None:
        stopping, self._stopping = self._stopping, []
        for key in stopping:
            self.server.delete_pod(key)
            self.victims += 1
        self.server.collect_garbage()
        self.watch()


def fill(cluster: Cluster, nodes: int, victims: int, priority: int, *, devices: bool) -> None:
    """Nodes, and pods that leave no room on them: of their cpu, or of their devices, of which each pod has one."""
    share = "1m" if devices else f"{CPU * 1000 // victims}m"
    cluster.server.put_class(builders.device_class())
    for kind in sorted(KINDS):
        cluster.feed(RelistFinished(kind))
    for index in range(nodes):
        name = f"node-{index:05}"
        cluster.server.put_node(builders.node(name, allocatable={"cpu": str(CPU), "memory": "64Gi", "pods": "110"}))
        if devices:
            cluster.server.put_slice(builders.resource_slice(f"{name}-gpus", node=name, devices=victims))
        for number in range(victims):
            requests = {"cpu": share}
            pod = builders.pod(
                f"low-{index}-{number}",
                node=name,
                requests=requests,
                priority=priority,
                phase="Running",
                claims=(f"low-{index}-{number}",) if devices else (),
            )
            if devices:
                cluster.server.put_claim(_claim_of(pod, builders.allocation(f"gpu-{number}", pool=name)))
            started = msgspec.structs.replace(pod.status, start_time="2026-01-01T00:00:00Z")
            cluster.server.put_pod(msgspec.structs.replace(pod, status=started))
    cluster.watch()
    cluster.rest()


def _claim_of(pod: Pod, allocation: Allocation | None = None) -> ResourceClaim:
    """The pod's claim for a device; with an allocation it is reserved for the pod."""
    return builders.claim(
        pod.metadata.name, owner_pod=pod, allocation=allocation, reserved_for=(pod,) if allocation else ()
    )


def measure(nodes: int, args: argparse.Namespace) -> dict[str, object]:
    cluster = Cluster()
    fill(cluster, nodes, args.victims, HIGH if args.hopeless else 0, devices=args.devices)
    requests = {"cpu": "1m" if args.devices else f"{CPU * 1000 // args.victims}m"}
    for index in range(args.pods):
        name = f"high-{index}"
        pod = builders.pod(name, requests=requests, priority=HIGH, claims=(name,) if args.devices else ())
        pod = cluster.server.put_pod(pod)
        if args.devices:
            cluster.server.put_claim(_claim_of(pod))
    cluster.spent_s = cluster.longest_s = 0.0
    cluster.handled = 0
    gc.collect()
    gc.freeze()
    gc.disable()
    begun = time.process_time()
    cluster.watch()
    cluster.rest(until_ms=0 if args.hopeless else START_MS + 60_000)
    gc.enable()
    return {
        "nodes": nodes,
        "pods": args.pods,
        "bound": sum(pod.spec.node_name != "" and pod.spec.priority == HIGH for pod in cluster.server.pods.values())
        - (nodes * args.victims if args.hopeless else 0),
        "victims": cluster.victims,
        "ms_per_pod": round(cluster.spent_s * 1000 / args.pods, 3),
        "longest_ms": round(cluster.longest_s * 1000, 2),
        "longest": cluster.longest,
        "inputs": cluster.handled,
        "steps": cluster.machine.feasibility.steps,
        "all_s": round(time.process_time() - begun, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="500")
    parser.add_argument("--pods", type=int, default=1_000)
    parser.add_argument("--victims", type=int, default=2, help="Pods that fill a node.")
    parser.add_argument("--devices", action="store_true", help="They have the devices, not the cpu.")
    parser.add_argument("--hopeless", action="store_true", help="Those pods are as important.")
    parser.add_argument("--forgetful", action="store_true", help="Pods share nothing of what dry runs found.")
    args = parser.parse_args()
    if args.forgetful:
        of = DryRunMemories.of
        DryRunMemories.of = lambda self, runner, pod, plan: of(self, runner, pod, None)
    for nodes in args.nodes.split(","):
        json.dump(measure(int(nodes), args), sys.stdout)
        print()


if __name__ == "__main__":
    main()
