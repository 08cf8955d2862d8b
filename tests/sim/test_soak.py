"""Hours of pods that come and go, in seconds: what the machine keeps follows what there is, not what there has been.

No two pods, claims, groups or nodes here are alike: names, labels, the selectors of claims, affinity and spreading are
each one's own. Some pods wait until they are deleted, some come in groups, some share a claim, and nodes are replaced
with their slices. At any time the cluster is equally large. The one machine decides, as a leader's; the other is told
what somebody else decided, and no timer fires, as a standby's.

After a quarter of the inputs, and at the end: what Python has allocated (tracemalloc), and how many objects of each of
our own types are alive. Neither memory that the process holds nor time is asked about.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
import pytest

from benchmarks.machine import NullShell
from scheduler.core.ground import versions
from scheduler.core.ground.core_settings import CoreSettings
from scheduler.core.ground.inputs import Deleted, Input, RelistFinished, WriteAccepted
from scheduler.core.observation import KINDS
from scheduler.framework.decisions import PatchPodGroupStatus, RecordEvent
from scheduler.model import pod_terms
from scheduler.model.claim import Consumer, ResourceClaim
from scheduler.model.group import GROUP_LABEL, MIN_COUNT_LABEL
from scheduler.model.keys import NodeName, PodGroupKey
from scheduler.model.objects import Pod
from scheduler.model.pod_group import PodGroup
from scheduler.model.sized_cache import SizedCache
from scheduler.plugins.pod_topology_spread import spread_constraints
from tests import builders
from tests.growth import check_stays, kept, traced
from tests.observed import deleted, observed

HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
NODES, DEVICES, ALIVE = 8, 4, 10  # ALIVE: batches of one or two pods that we are asked to place
FOREIGN: Final = 8  # pods of each batch that others place; in a cluster most inputs are about such
STEP_MS: Final = 1_000
NODE_EVERY: Final = 25  # batches until a node is replaced


def settings() -> CoreSettings:
    """Of the machines here. What may be remembered is set here, so small that it is full after a quarter."""
    return CoreSettings(reports_causes=True, remembered_bytes_max=2_000_000)


class Shell(NullShell):
    """Every decision but an event is answered: what waits for an answer would stay."""

    def answer(self, decision: Any) -> list[Input]:
        if isinstance(decision, PatchPodGroupStatus):
            return [WriteAccepted(decision.id)]
        answers: list[Input] = super().answer(decision)
        assert answers or isinstance(decision, RecordEvent), f"nobody answers {decision}"
        return answers


@dataclass
class Batch:
    """What comes together and goes together."""

    pods: list[Pod] = field(default_factory=list)
    claims: list[ResourceClaim] = field(default_factory=list)
    groups: list[PodGroup] = field(default_factory=list)
    foreign: list[Pod] = field(default_factory=list)
    is_hopeless: bool = False


class Churn:
    """The cluster, and the machine that is told of it. `first`: the number in the name of what comes first."""

    def __init__(self, *, is_leader: bool, first: int = 0) -> None:
        self.is_leader = is_leader
        self.shell = Shell(settings=settings())
        self.batches: deque[Batch] = deque()
        self.nodes: deque[str] = deque()
        self.numbers = itertools.count(first)
        self.shell.feed([observed(builders.device_class(), 1)])
        for _ in range(NODES):
            self.add_node()
        self.shell.feed([RelistFinished(kind) for kind in sorted(KINDS)])

    def run(self, inputs: int) -> None:
        """Until the machine has had so many."""
        while self.shell.handled < inputs:
            number = next(self.numbers)
            batch = batch_of(number)
            batch.foreign += [foreign_pod(number, index, self.nodes[index % NODES]) for index in range(FOREIGN)]
            self.shell.pods |= {pod.key: pod for pod in batch.pods}
            self.shell.claims |= {claim.key: claim for claim in batch.claims}
            groups = [observed(group, builders.next_revision()) for group in batch.groups]
            self.shell.feed([*groups, *map(observed, batch.claims), *map(observed, batch.pods)])
            self.shell.feed([*map(observed, batch.foreign), *map(observed, map(newer, batch.foreign))])
            self.batches.append(batch)
            self.shell.now_ms += STEP_MS
            if self.is_leader:
                self.shell.run_until_idle()
            elif not batch.is_hopeless:
                self.shell.feed(bound_elsewhere(batch, self.nodes[number % NODES], number))
            if len(self.batches) > ALIVE:
                self.remove(self.batches.popleft())
            if number % NODE_EVERY == 0:
                name = self.nodes.popleft()
                self.shell.feed([deleted("ResourceSlice", f"slice-{name}"), deleted("Node", name)])
                self.add_node()

    def add_node(self) -> None:
        name = f"node-{next(self.numbers)}"
        labels = {ZONE: f"zone-{len(self.nodes) % 3}", f"only-{name}": "yes"}
        gpus = tuple(builders.device_object(f"gpu-{i}", index=i, uuid=f"{name}-{i}") for i in range(DEVICES))
        self.shell.feed([observed(builders.node(name, labels=labels))])
        part = builders.resource_slice(f"slice-{name}", node=name, devices=gpus)
        self.shell.feed([observed(part, builders.next_revision())])
        self.nodes.append(name)

    def remove(self, batch: Batch) -> None:
        self.shell.revision += 1_000
        pods = [Deleted("Pod", pod.key, pod.uid, self.shell.revision) for pod in (*batch.pods, *batch.foreign)]
        claims = [Deleted("ResourceClaim", one.key, one.uid, self.shell.revision) for one in batch.claims]
        groups = [Deleted("PodGroup", one.key, one.uid, self.shell.revision) for one in batch.groups]
        self.shell.feed([*pods, *claims, *groups])
        for pod in batch.pods:
            del self.shell.pods[pod.key]
            self.shell.bound.pop(pod.key, None)
        for claim in batch.claims:
            del self.shell.claims[claim.key]


def batch_of(number: int) -> Batch:
    """One pod or two: of a group by labels, of a PodGroup, with one claim for both, or one that fits nowhere."""
    name = f"job-{number}"
    selector = f"device.attributes['{builders.DRIVER}'].uuid != '{name}'"
    batch = Batch(is_hopeless=number % 10 == 3)
    count = 99 if batch.is_hopeless else 1
    fields: dict[str, Any] = {}
    labels = {"app": name, f"only-{name}": "yes"}
    if number % 10 == 0:
        labels |= {GROUP_LABEL: name, MIN_COUNT_LABEL: "2"}
    elif number % 10 == 1:
        batch.groups.append(PodGroup(PodGroupKey("default", name), f"uid-{name}", min_count=2))
        fields = {"schedulingGroup": {"podGroupName": name}}
    pods = 2 if number % 10 < 3 else 1
    for index in range(pods):
        if not (index and number % 10 == 2):
            spec = builders.claim_spec_object(builders.request_object(selector=selector, count=count))
            batch.claims.append(builders.claim(f"{name}-{index}", spec=spec))
        claims = (batch.claims[-1].key.name,)
        batch.pods.append(
            builders.pod(
                f"{name}-{index}", labels=labels, claims=claims, requests={"cpu": "10m"}, **fields, **demands(name)
            )
        )
    return batch


def foreign_pod(number: int, index: int, node: str) -> Pod:
    """It runs already; nobody else has its labels or its affinity."""
    name = f"other-{number}-{index}"
    labels = {"app": name, f"only-{name}": "yes"}
    return builders.pod(name, namespace="others", scheduler="other", node=node, labels=labels, **demands(name))


def newer(pod: Pod, **spec: Any) -> Pod:
    meta = msgspec.structs.replace(pod.metadata, resource_version=str(builders.next_revision()))
    return msgspec.structs.replace(pod, metadata=meta, spec=msgspec.structs.replace(pod.spec, **spec))


def demands(name: str) -> dict[str, Any]:
    """What a pod says of others, in selectors of its own. Two of a batch may be on one node."""
    other, near = ({"labelSelector": {"matchLabels": {"app": f"{what}{name}"}}} for what in ("foe-of-", ""))
    return {
        "affinity": {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": HOST, **other}]},
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "podAffinityTerm": {"topologyKey": ZONE, **near}}
                ]
            },
        },
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", **near}
        ],
    }


def bound_elsewhere(batch: Batch, node: str, number: int) -> Iterable[Input]:
    """What is observed when another process allocates for these pods and binds them."""
    consumers = tuple(Consumer("pods", pod.metadata.name, pod.metadata.uid) for pod in batch.pods)
    for index, claim in enumerate(batch.claims):
        allocation = builders.allocation(f"gpu-{(number + index) % DEVICES}", pool=node)
        reserved = consumers if len(batch.claims) < len(batch.pods) else consumers[index : index + 1]
        yield observed(replace(claim, allocation=allocation, reserved_for=reserved, revision=builders.next_revision()))
    for pod in batch.pods:
        yield observed(newer(pod, node_name=NodeName(node)))


@pytest.mark.parametrize("is_leader", [True, False], ids=["leader", "standby"])
@pytest.mark.parametrize(
    "inputs", [20_000, pytest.param(1_000_000, marks=[pytest.mark.nightly, pytest.mark.timeout(7_200)])]
)
@pytest.mark.slow
def test_what_is_kept_follows_what_there_is(inputs, is_leader, monkeypatch) -> None:
    monkeypatch.setattr(pod_terms, "_KEPT", SizedCache(1_000_000))
    monkeypatch.setattr(spread_constraints, "_KEPT", SizedCache(50_000))
    monkeypatch.setattr(versions, "_TOMBSTONES_MIN", 500)
    with traced():
        churn = Churn(is_leader=is_leader, first=inputs * (1 + is_leader))  # no name that another test had
        churn.run(inputs // 4)
        before = kept()
        churn.run(inputs)
        after = kept()
    assert bool(churn.shell.bound) == is_leader
    check_stays(before, after)
