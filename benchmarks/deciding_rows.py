"""Deciding alone, on the rows of a table: the machine with a null shell in the clusters that `compare --table` makes.

    python -m benchmarks.deciding_rows                                  # all rows of scheduler-perf
    python -m benchmarks.deciding_rows --row partitionable --pods 500
    python -m benchmarks.deciding_rows --row consumable --profile       # where the time goes, by cProfile
    python -m benchmarks.deciding_rows --table preemption               # less important pods go, and are gone at once

Says what a row costs the scheduler without an API server, in seconds: where a row is slow for a reason of its own, it
shows here. Closed loops take the pods of one turn together; backlogs all pods at once. The first pods, for which
everything is computed, are told apart. Changes of slices (`--change-slices`) come before each turn, or each ten pods.
"""

from __future__ import annotations

import argparse
import copy
import cProfile
import itertools
import pstats
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import msgspec

from allocator import decode_allocation, decode_class, decode_slice
from benchmarks.fleet import NAMESPACE, Fleet, Object
from benchmarks.loads import Loop
from benchmarks.machine import NullShell, counted, defaulted
from benchmarks.tables import Entry, table, table_names
from scheduler.core.ground.inputs import Deleted, Input, WriteAccepted
from scheduler.framework.decisions import (
    BindPod,
    CreateClaim,
    DeletePod,
    PatchExtendedResources,
    PatchPodDisruption,
    PatchPodStatus,
)
from scheduler.model.api_rules import EXTENDED_RESOURCE_ANNOTATION, FINALIZER
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import ClaimKey, PodKey
from scheduler.model.objects import Node, Pod
from scheduler.plugins.dynamic_resources.extended_resources import decoded_spec
from tests import builders
from tests.observed import observed

FIRST = 10  # pods that are told apart
HIGH, LOW = 1_000, 10  # priorities, where there are victims
ROOM_MS = 60_000  # until pods have the places of their victims


class RowShell(NullShell):
    """A machine that has seen a fleet, and the pods of its workload."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__()
        self.fleet = fleet
        self.done: list[PodKey] = []
        self.numbers = itertools.count()
        self.slices = [_complete(one) for one in fleet.slices()]
        self.feed(observed(msgspec.convert(_complete(node), Node)) for node in fleet.nodes())
        self.feed(observed(decode_class(_complete(one)), 1) for one in fleet.device_classes())
        self.feed(observed(decode_slice(one), 1) for one in self.slices)
        self.feed(self._taken())
        self.feed(observed(self._put(one["metadata"]["name"], one["spec"])) for one in fleet.shared_claims())
        self.feed(self._victims())
        self.listed()

    def _taken(self) -> Iterator[Input]:
        for _, claim, status in self.fleet.taken():
            found = self._put(claim["metadata"]["name"], claim["spec"])
            yield observed(replace(found, allocation=decode_allocation(status["allocation"])))

    def _victims(self) -> Iterator[Input]:
        """Pods that run, and their claims."""
        for given, claim, status in self.fleet.victims():
            name = given["metadata"]["name"]
            pod = self._pod(name, given, {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}, LOW)
            if claim is not None:
                made = decode_allocation(status["allocation"])
                yield observed(self._put(name, claim["spec"], allocation=made, reserved_for=(pod,)))
            yield observed(pod)

    def _pod(self, name: str, given: Object, status: Object, priority: int) -> Pod:
        metadata = builders.metadata(name, namespace=NAMESPACE, labels=given["metadata"]["labels"])
        spec = {**given["spec"], **({"priority": priority} if self.fleet.workload.victims else {})}
        pod = self.pods[PodKey(NAMESPACE, name)] = msgspec.convert(
            {"metadata": metadata, "spec": spec, "status": status}, Pod
        )
        return pod

    def _put(self, name: str, spec: Any, **fields: Any) -> ResourceClaim:
        claim = builders.claim(name, namespace=NAMESPACE, spec=defaulted(spec), **fields)
        self.claims[claim.key] = claim
        return claim

    def pod_comes(self) -> list[Input]:
        """The next pod of the workload, with its claim."""
        name = f"pod-{next(self.numbers):05}"
        named = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}] if self.fleet.has_generated_claims else []
        pod = self._pod(name, self.fleet.pod(name, builders.SCHEDULER), {"resourceClaimStatuses": named}, HIGH)
        if not self.fleet.has_generated_claims:
            return [observed(pod)]
        claim = self._put(f"{name}-gpu", self.fleet.workload.claim, owner_pod=pod)
        return [observed(claim), observed(pod)]

    def bound_pods_go(self) -> None:
        """Bound pods are deleted, and their claims freed and deleted."""
        given: list[Input] = []
        for key in self.done:
            pod = self.pods.pop(key)
            names = [status.resource_claim_name for status in pod.status.resource_claim_statuses or ()]
            given += self._gone(pod, *(ClaimKey(NAMESPACE, name or "") for name in names))
        self.done.clear()
        self.feed(given)

    def _gone(self, pod: Pod, *claims: ClaimKey) -> Iterator[Input]:
        yield Deleted("Pod", pod.key, pod.uid, self._next())
        for key in claims:
            claim = self.claims.pop(key)
            yield observed(replace(claim, allocation=None, reserved_for=(), finalizers=(), revision=self._next()))
            yield Deleted("ResourceClaim", claim.key, claim.uid, self._next())

    def _with_status(self, key: PodKey, **fields: Any) -> Pod:
        pod = self.pods[key]
        meta = msgspec.structs.replace(pod.metadata, resource_version=str(self._next()))
        status = msgspec.structs.replace(pod.status, **fields)
        pod = self.pods[key] = msgspec.structs.replace(pod, metadata=meta, status=status)
        return pod

    def slice_changes(self) -> None:
        """A slice is published again with another attribute."""
        obj = copy.deepcopy(self.slices[self.revision % len(self.slices)])
        for device in obj["spec"].get("devices", ()):
            device.setdefault("attributes", {})["published"] = {"int": self._next()}
        self.feed([observed(decode_slice(obj), self._next())])

    def _next(self) -> int:
        self.revision += 1
        return self.revision

    def answer(self, decision: Any) -> list[Input]:
        match decision:
            case CreateClaim():
                found = builders.claim(
                    decision.claim.name,
                    namespace=NAMESPACE,
                    owner_pod=self.pods[decision.pod],
                    revision=self._next(),
                    finalizers=(FINALIZER,),
                )
                spec = decoded_spec(decision.requests)
                claim = replace(found, spec=spec, annotations=((EXTENDED_RESOURCE_ANNOTATION, "true"),))
                self.claims[claim.key] = claim
                return [WriteAccepted(decision.id, claim=claim), observed(claim)]
            case PatchExtendedResources():
                pod = self._with_status(decision.pod, extended_resource_claim_status=decision.status)
                return [WriteAccepted(decision.id, pod=pod), observed(pod)]
            case PatchPodStatus(nominated_node=str() as node):
                pod = self._with_status(decision.pod, nominated_node_name=node)
                return [WriteAccepted(decision.id), observed(pod)]
            case PatchPodDisruption():
                return [WriteAccepted(decision.id)]
            case DeletePod():
                pod = self.pods.pop(decision.pod)
                own = ClaimKey(NAMESPACE, decision.pod.name)
                return [WriteAccepted(decision.id), *self._gone(pod, *([own] if own in self.claims else []))]
            case BindPod():
                self.done.append(decision.pod)
            case _:
                pass
        answers: list[Input] = super().answer(decision)
        return answers


def _complete(obj: Object) -> Object:
    """With the metadata that the API server adds."""
    given = obj["metadata"]
    return {**obj, "metadata": builders.metadata(given["name"], labels=given.get("labels") or {})}


def play(shell: RowShell, entry: Entry, pods: int, *, change_slices: bool) -> None:
    """Let so many pods come, and be bound."""
    is_loop = isinstance(entry.load, Loop)
    turn = entry.load.pods if isinstance(entry.load, Loop) else 10 if change_slices else pods
    for _ in range(0, pods, turn):
        if change_slices:
            shell.slice_changes()
        before = len(shell.bound)
        shell.feed(list(itertools.chain.from_iterable(shell.pod_comes() for _ in range(turn))))
        shell.run_until_idle(shell.now_ms + ROOM_MS if shell.fleet.workload.victims else 0)
        if len(shell.bound) - before < turn:
            raise SystemExit(f"{entry.name}: only {len(shell.bound) - before} of {turn} pods were bound")
        if is_loop:
            shell.bound_pods_go()


def measure(entry: Entry, pods: int, *, change_slices: bool, profile: cProfile.Profile | None) -> dict[str, Any]:
    shell = RowShell(entry.fleet)
    shell.spent_s = 0.0
    play(shell, entry, FIRST, change_slices=False)
    first_s, bound = shell.spent_s, len(shell.bound)
    with counted(shell), profile or nullcontext():
        play(shell, entry, pods, change_slices=change_slices)
    done = len(shell.bound) - bound
    return {
        "row": entry.name,
        "pods": done,
        "pods_per_s": round(done / shell.spent_s),
        "ms_per_pod": round(1000 * shell.spent_s / done, 3),
        "longest_handle_ms": round(1000 * shell.longest_s, 1),
        "first_pods_ms": round(1000 * first_s),
    }


def chosen(name: str, rows: Iterable[str]) -> Iterator[Entry]:
    wanted = tuple(rows)
    for entry in table(name):
        if not wanted or any(row in entry.name for row in wanted):
            yield entry


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", choices=table_names(), default="scheduler-perf")
    parser.add_argument("--row", action="append", default=[], help="a part of its name; repeatable")
    parser.add_argument("--pods", type=int, default=300)
    parser.add_argument("--change-slices", action="store_true", help="slices are published anew meanwhile")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    args = parser.parse_args()
    for entry in chosen(args.table, args.row):
        profile = cProfile.Profile() if args.profile else None
        result = measure(entry, args.pods, change_slices=args.change_slices, profile=profile)
        print(", ".join(f"{key} {value}" for key, value in result.items()), flush=True)
        if profile is not None:
            pstats.Stats(profile, stream=sys.stdout).sort_stats("cumulative").print_stats(40)
    return 0


if __name__ == "__main__":
    sys.exit(main())
