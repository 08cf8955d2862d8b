"""How much of a cluster's devices each `placement` gets allocated, through real claims and the real core.

Experiment A: a production GPU trace (`benchmarks.openb`). Pods arrive one by one and stay; one that fits nowhere is
lost. Nodes are compared in an order drawn once per seed. With `--load` pods come and go instead: drawn from the list at
random, at random moments, for lifetimes of mean 1; so many GPUs are asked for at a time, in shares of all there are.

    python -m benchmarks.placement --data FOLDER [--placement fgd,bestFit] [--seeds 42] [--list default] [--percent 130]
    python -m benchmarks.placement --data FOLDER --load 1.0 [--arrivals 30000] [--known]

`--known`: ranks are given the shapes of the whole list beforehand, as the authors of fgd do; else they learn them.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import sys
from dataclasses import replace
from pathlib import Path

from allocator.placement.ranks import Strategy
from allocator.placement.workload import PodShape, Workload
from benchmarks import openb
from benchmarks.machine import NullShell
from scheduler.config.profile_config import ProfileConfig
from scheduler.core.ground.core_settings import CoreSettings
from scheduler.core.ground.inputs import Deleted, RelistFinished
from scheduler.core.observation import KINDS
from scheduler.garbage_collector import settle
from scheduler.model.keys import ClaimKey, PodKey
from scheduler.plugins.dynamic_resources.placing import PlacementMemory
from scheduler.plugins.dynamic_resources.plugin import DynamicResources
from tests import builders
from tests.observed import observed

BETWEEN_PODS_MS = 10_000
STRATEGIES = ("firstFit", "bestFit", "fgd", "fragmentation", "leastWaste")


class Shell(NullShell):
    """Pods of a trace, one after the other."""

    def __init__(self, placement: str, workload: Workload | None = None) -> None:
        config = {"pluginConfig": [{"name": "DynamicResources", "args": {"placement": placement}}]}
        profile = ProfileConfig.model_validate({"schedulerName": builders.SCHEDULER, **config}).profile()
        if workload is not None:
            memory = PlacementMemory(Strategy(placement), workload)
            profile = replace(
                profile,
                plugins=tuple(
                    replace(one, memory=memory) if isinstance(one, DynamicResources) else one for one in profile.plugins
                ),
            )
        super().__init__(profile, CoreSettings(is_strict=True))

    def see(self, objects) -> None:
        pairs = list(objects)
        self.feed([observed(node) for node, _ in pairs])
        self.feed([observed(builders.device_class(openb.DRIVER, driver=openb.DRIVER), 1)])
        self.feed([observed(slice_, 1) for _, slice_ in pairs])
        self.feed([RelistFinished(kind) for kind in KINDS])

    def offer(self, name: str, spec, requests) -> bool:
        """Whether the pod was placed. One that was not is gone afterwards.

        Time passes between pods: where the clock stands still, a namespace that has had 2 s in all waits for more.
        """
        self.now_ms += BETWEEN_PODS_MS
        self.feed(self.add(name, spec, requests))
        self.run_until_idle()
        pod = self.pods[PodKey("default", name)]
        if pod.key in self.bound:
            return True
        self.feed([Deleted("Pod", pod.key, pod.uid, self.revision)])
        return False

    def remove(self, name: str) -> None:
        """The pod has ended, and its claim goes with it."""
        self.revision += 1
        pod = self.pods.pop(PodKey("default", name))
        self.bound.pop(pod.key)
        given: list = [Deleted("Pod", pod.key, pod.uid, self.revision)]
        claim = self.claims.pop(ClaimKey("default", f"{name}-gpu"), None)
        if claim is not None:
            given.append(Deleted("ResourceClaim", claim.key, claim.uid, self.revision))
        self.feed(given)


def known_workload(pods: list[openb.TracePod]) -> Workload:
    """How often each shape is in a list."""
    counts: dict[PodShape, int] = {}
    for pod in pods:
        spec = openb.claim_spec(pod)
        parsed = builders.claim("any", spec=spec).spec if spec is not None else None
        shape = PodShape(pod.cpu_milli, (parsed,) if parsed is not None else ())
        counts[shape] = counts.get(shape, 0) + 1
    return Workload(counts)


def shell_with_nodes(nodes: list[openb.TraceNode], placement: str, seed: int, workload: Workload | None) -> Shell:
    names = [f"node-{index:04}" for index in range(len(nodes))]
    random.Random(seed + 1000).shuffle(names)
    shell = Shell(placement, workload)
    shell.see(openb.node_objects(nodes, names))
    settle()  # as the live scheduler does when it has read everything
    shell.spent_s = shell.longest_s = 0.0
    return shell


def run_steady(
    folder: Path, placement: str, seed: int, listed: str, load: float, arrivals: int, *, is_known: bool
) -> dict:
    """Pods come and go; what is accepted of those that come after the first 14 of 30."""
    nodes, pods = openb.read_nodes(folder), openb.read_pods(folder, listed)
    rate = load * sum(node.gpus for node in nodes) * openb.WHOLE * len(pods) / sum(pod.asked for pod in pods)
    shell = shell_with_nodes(nodes, placement, seed, known_workload(pods) if is_known else None)
    draw, now, going = random.Random(seed), 0.0, []
    offered = dict.fromkeys(("pods", "gpus", "multi"), 0)
    accepted = dict(offered)
    for number in range(arrivals):
        now += draw.expovariate(rate)
        pod, until = pods[draw.randrange(len(pods))], now + draw.expovariate(1.0)
        while going and going[0][0] <= now:
            shell.remove(heapq.heappop(going)[1])
        is_placed = shell.offer(f"pod-{number}", openb.claim_spec(pod), openb.requests(pod))
        if is_placed:
            heapq.heappush(going, (until, f"pod-{number}"))
        if number >= arrivals * 14 // 30:
            for key, amount in (("pods", 1), ("gpus", pod.asked), ("multi", pod.gpus > 1)):
                offered[key] += amount
                accepted[key] += is_placed * amount
    return {
        "placement": placement,
        "list": listed,
        "seed": seed,
        "load": load,
        **{f"accepted_{key}": round(100 * accepted[key] / max(1, offered[key]), 2) for key in offered},
        "us_per_decision": round(shell.spent_s / arrivals * 1e6),
        "longest_ms": round(shell.longest_s * 1e3, 1),
    }


def run_trace(folder: Path, placement: str, seed: int, listed: str, percent: int, *, is_known: bool = False) -> dict:
    """One seed of experiment A."""
    nodes = openb.read_nodes(folder)
    capacity = openb.WHOLE * sum(node.gpus for node in nodes)
    whole_list = openb.read_pods(folder, listed)
    pods = openb.arrivals(whole_list, capacity, seed, percent)
    shell = shell_with_nodes(nodes, placement, seed, known_workload(whole_list) if is_known else None)
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
    parser.add_argument("--load", type=float, help="pods come and go")
    parser.add_argument("--arrivals", type=int, default=30_000, help="with --load")
    parser.add_argument("--known", action="store_true", help="the shapes of the list are known beforehand")
    args = parser.parse_args()
    first, _, last = args.seeds.partition("-")
    seeds = range(int(first), int(last) + 1) if last else [int(one) for one in args.seeds.split(",")]
    for placement in args.placement.split(","):
        for seed in seeds:
            if args.load is not None:
                found = run_steady(args.data, placement, seed, args.list, args.load, args.arrivals, is_known=args.known)
            else:
                found = run_trace(args.data, placement, seed, args.list, args.percent, is_known=args.known)
            print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
