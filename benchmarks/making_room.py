"""How often moves make room, and how long finding them takes: pods with eight GPUs that a production trace has refused.

The trace (`benchmarks.openb`) is played through `simulate`'s cluster, each pod offered once; then room is asked for
pods that were refused.

    python -m benchmarks.making_room --data FOLDER [--pods 20] [--gpus 8] [--seed 42] [--percent 130] [--moves-max 3]
"""

from __future__ import annotations

import argparse
import copy
import itertools
import time
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from allocator import Features
from benchmarks import openb
from scheduler.config.profile_config import ProfileConfig
from scheduler.embedded.kinds.catalog import CLAIM, NODE, POD
from scheduler.offline.making_room import make_room
from scheduler.offline.offline_cluster import OfflineCluster, SourceObject
from scheduler.offline.simulation import Arrival, Simulation
from scheduler.offline.verdicts import Answers, Run, new_machine

Obj = dict[str, Any]
NAME = "dra-scheduler"
START_MS = 1_800_000_000_000
CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": openb.DRIVER},
    "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{openb.DRIVER}"'}}]},
}
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "trace", "uid": "trace", "controller": True}


def profile(name: str) -> Any:
    off = {"multiPoint": {"disabled": [{"name": "DefaultPreemption"}]}}
    return ProfileConfig.model_validate({"schedulerName": name, "plugins": off}).profile()


def node_objects(nodes: list[openb.TraceNode]) -> Iterator[Obj]:
    for node in nodes:
        made, slice_ = openb.raw_objects(node, node.name)
        yield {**made, "apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name}}
        more = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": f"slice-{node.name}"}}
        yield {**slice_, **more}


def pod_objects(pod: openb.TracePod, name: str) -> list[Obj]:
    claim, objects = openb.claim_spec(pod), []
    resources: Obj = {"requests": openb.requests(pod)}
    spec: Obj = {"schedulerName": NAME, "containers": [{"name": "main", "image": "none", "resources": resources}]}
    if claim is not None:
        kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
        objects.append({**kind, "metadata": {"name": name}, "spec": claim})
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    metadata = {"name": name, "ownerReferences": [OWNER]}
    return [*objects, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}]


def given(objects: list[Obj]) -> tuple[SourceObject, ...]:
    return tuple(SourceObject("trace", obj) for obj in objects)


def filled(folder: Path, seed: int, percent: int) -> tuple[list[SourceObject], list[openb.TracePod], float]:
    """The objects of the full cluster, the pods that were refused, and how much is given out."""
    nodes = openb.read_nodes(folder)
    order = openb.arrivals(openb.read_pods(folder), 1000 * sum(node.gpus for node in nodes), seed, percent)
    cluster = OfflineCluster(START_MS)
    cluster.load(given([CLASS, *node_objects(nodes)]))
    machine = new_machine({NAME}, profile, Features())
    simulation = Simulation(cluster, Run(cluster, Answers(machine, cluster, set())), is_offered_once=True)
    names = [f"p{number}" for number in range(len(order))]
    played = simulation.play(
        Arrival(Fraction(number), None, given(pod_objects(pod, name)))
        for number, (pod, name) in enumerate(zip(order, names, strict=True))
    )
    refused = [order[int(pod.name[1:])] for pod in played.pods if pod.bound_s is None]
    objects: list[Obj] = []
    for kind in (NODE, CLAIM, POD):
        version = "v1" if kind is not CLAIM else "resource.k8s.io/v1"
        for stored in cluster.api.store.listed(kind.kind_id):
            metadata = {**stored.obj["metadata"], "resourceVersion": str(stored.revision)}
            objects.append(
                {"apiVersion": version, "kind": kind.kind, **copy.deepcopy(stored.obj), "metadata": metadata}
            )
    slices = [one for one in node_objects(nodes) if one["kind"] == "ResourceSlice"]
    return list(given([CLASS, *slices, *objects])), refused, float(played.allocated[openb.DRIVER].share)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the openb trace")
    parser.add_argument("--pods", type=int, default=20)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--percent", type=int, default=130, help="how much is asked for, of all GPUs")
    parser.add_argument("--moves-max", type=int, default=3)
    parser.add_argument("--questions-max", type=int, default=20_000)
    args = parser.parse_args()
    began = time.process_time()
    objects, refused, share = filled(args.data, args.seed, args.percent)
    print(f"{100 * share:.2f} % allocated, {len(refused)} refused; {time.process_time() - began:.0f} s of CPU to fill")
    outcomes: Counter[str] = Counter()
    for pod in itertools.islice((one for one in refused if one.gpus == args.gpus), args.pods):
        began = time.process_time()
        room = make_room(
            objects,
            given(pod_objects(pod, "asked")),
            None,
            Features(),
            moves_max=args.moves_max,
            questions_max=args.questions_max,
        )
        took = time.process_time() - began
        outcomes[f"{room.outcome} of {len(room.steps)}"] += 1
        text = f"{room.questions} questions, {room.nodes} nodes,  {took:.1f} s of CPU"
        print(f"{pod.name}: {room.outcome}, {len(room.steps)} moves, {text}", flush=True)
    print(dict(outcomes))


if __name__ == "__main__":
    main()
