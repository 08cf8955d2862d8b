"""How much of a cluster's devices each `placement` gets allocated, through real claims and the real core.

Experiment A: a production GPU trace (`benchmarks.openb`). Pods arrive one by one and stay; one that fits nowhere is
lost. Nodes are compared in an order drawn once per seed.

    python -m benchmarks.placement --data FOLDER [--placement fgd,bestFit] [--seeds 42] [--list default] [--percent 130]
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import time
from dataclasses import replace
from pathlib import Path

import msgspec

from allocator import Features
from benchmarks import openb
from scheduler.config.profiles import profile_plugins
from scheduler.core.inputs import (
    ClaimObserved,
    ClassObserved,
    NodeObserved,
    PodDeleted,
    PodObserved,
    RelistFinished,
    SliceObserved,
    TimerFired,
    WriteAccepted,
)
from scheduler.core.machine import KINDS, Machine
from scheduler.core.settings import CoreSettings
from scheduler.framework.decisions import AddClaimFinalizer, BindPod, PatchPodStatus, WriteClaimStatus
from scheduler.garbage_collector import settle
from tests import builders

START_MS = 1_800_000_000_000
STRATEGIES = ("firstFit", "bestFit", "fgd", "fragmentation", "leastWaste")


class Shell:
    """Answers every write at once, and counts the CPU time inside the machine."""

    def __init__(self, placement: str) -> None:
        uids = itertools.count(1)
        config = {"pluginConfig": [{"name": "DynamicResources", "args": {"placement": placement}}]}
        self.machine = Machine(
            [profile_plugins({"schedulerName": builders.SCHEDULER, **config})],
            features=Features(),
            new_uid=lambda: f"uid-{next(uids)}",
            settings=CoreSettings(is_strict=True),
        )
        self.now_ms = START_MS
        self.revision = 1_000_000
        self.spent_s = 0.0
        self.longest_s = 0.0
        self.pods: dict = {}
        self.claims: dict = {}
        self.bound: dict = {}

    def feed(self, inputs) -> None:
        queue = list(inputs)
        while queue:
            following: list = []
            for given in queue:
                start = time.process_time()
                decisions = self.machine.handle(given, now_ms=self.now_ms)
                took = time.process_time() - start
                self.spent_s += took
                self.longest_s = max(self.longest_s, took)
                for decision in decisions:
                    following += self.answer(decision)
            queue = following

    def answer(self, decision) -> list:
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
                    PodObserved(msgspec.structs.replace(pod, metadata=meta, spec=spec)),
                ]
            case PatchPodStatus():
                return [WriteAccepted(decision.id)]
            case _:
                return []
        self.claims[decision.claim] = claim
        return [WriteAccepted(decision.id, claim=claim), ClaimObserved(claim)]

    def see(self, objects) -> None:
        pairs = list(objects)
        self.feed([NodeObserved(node) for node, _ in pairs])
        self.feed([ClassObserved(builders.device_class(openb.DRIVER, driver=openb.DRIVER), 1)])
        self.feed([SliceObserved(slice_, 1) for _, slice_ in pairs])
        self.feed([RelistFinished(kind) for kind in KINDS])
        settle()

    def offer(self, name: str, spec, requests) -> bool:
        """Whether the pod was placed. One that was not is gone afterwards."""
        templates = {"gpu": f"{name}-gpu"} if spec else None
        pod = builders.pod(name, templates=templates, requests=requests, priority=0)
        self.pods[pod.key] = pod
        given: list = [PodObserved(pod)]
        if spec is not None:
            claim = builders.claim(f"{name}-gpu", spec=spec, owner_pod=pod)
            self.claims[claim.key] = claim
            given.insert(0, ClaimObserved(claim))
        self.feed(given)
        while (deadline := self.machine.next_deadline_ms()) is not None and deadline <= self.now_ms:
            self.feed([TimerFired()])
        if pod.key in self.bound:
            return True
        self.feed([PodDeleted(pod.key, pod.uid, self.revision)])
        return False


def run_trace(folder: Path, placement: str, seed: int, listed: str, percent: int) -> dict:
    """One seed of experiment A."""
    nodes = openb.read_nodes(folder)
    capacity = openb.WHOLE * sum(node.gpus for node in nodes)
    pods = openb.arrivals(openb.read_pods(folder, listed), capacity, seed, percent)
    names = [f"node-{index:04}" for index in range(len(nodes))]
    random.Random(seed + 1000).shuffle(names)
    shell = Shell(placement)
    shell.see(openb.node_objects(nodes, names))
    shell.spent_s = shell.longest_s = 0.0
    asked = allocated = early = several = several_placed = placed = 0
    at_end: list[float] = []
    for number, pod in enumerate(pods):
        asked += pod.asked
        is_placed = shell.offer(f"pod-{number}", openb.claim_spec(pod), openb.requests(pod))
        placed += is_placed
        allocated += is_placed * pod.asked
        several += pod.gpus > 1
        several_placed += is_placed and pod.gpus > 1
        early += not is_placed and asked * 100 < capacity * 90
        if round(100 * asked / capacity) == percent:
            at_end.append(100 * allocated / capacity)
    return {
        "placement": placement,
        "list": listed,
        "seed": seed,
        "pods": len(pods),
        "placed": placed,
        "allocation": round(sum(at_end) / max(1, len(at_end)), 2),
        "multi": round(100 * several_placed / max(1, several), 1),
        "early": early,
        "us_per_decision": round(shell.spent_s / len(pods) * 1e6),
        "longest_ms": round(shell.longest_s * 1e3, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the trace")
    parser.add_argument("--placement", default=",".join(STRATEGIES))
    parser.add_argument("--seeds", default="42", help="numbers, or a range as 42-51")
    parser.add_argument("--list", default="default")
    parser.add_argument("--percent", type=int, default=130, help="of all GPUs that pods ask for")
    args = parser.parse_args()
    first, _, last = args.seeds.partition("-")
    seeds = range(int(first), int(last) + 1) if last else [int(one) for one in args.seeds.split(",")]
    for placement in args.placement.split(","):
        for seed in seeds:
            print(json.dumps(run_trace(args.data, placement, seed, args.list, args.percent)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
