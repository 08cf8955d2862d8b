"""The machine alone: a null shell answers every write at once, without I/O, and counts the CPU time inside the machine.

What counts is all that a pod causes: its and its claim's observation, the scheduling cycle, the answers to its writes,
and the watch events that these writes cause. Commands ask it: `deciding`, `deciding_rows`, `budget`, `memory`,
`placement`.
"""

from __future__ import annotations

import copy
import gc
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from allocator import Features
from scheduler.core.ground.core_settings import CoreSettings
from scheduler.core.ground.inputs import Input, RelistFinished, TimerFired, WriteAccepted
from scheduler.core.machine import Machine
from scheduler.core.observation import KINDS
from scheduler.framework.api import Profile
from scheduler.framework.decisions import AddClaimFinalizer, BindPod, PatchPodStatus, WriteClaimStatus
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import ClaimKey, PodKey
from scheduler.model.objects import Pod
from scheduler.plugins import default_plugins
from tests import builders
from tests.observed import observed

Object = dict[str, Any]
ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
START_MS: Final = 1_800_000_000_000


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
        clock = time.process_time
        self._overhead_s = min(-clock() + clock() for _ in range(1_000))  # reading this clock is a system call

    def see_cluster(self, nodes: int, device: Callable[[int, int], Object], devices: int) -> None:
        """Nodes, their slices and the class; `device` makes one by the numbers of its node and itself."""
        names = [(node_name(index), f"zone-{index % 3}") for index in range(nodes)]
        self.feed(observed(builders.node(name, labels={ZONE: zone})) for name, zone in names)
        self.feed([observed(builders.device_class(), 1)])
        for index, (name, _) in enumerate(names):
            made = tuple(device(index, number) for number in range(devices))
            self.feed([observed(builders.resource_slice(f"slice-{name}", node=name, devices=made), 1)])

    def listed(self) -> None:
        """All kinds are listed: pods may be placed."""
        self.feed([RelistFinished(kind) for kind in sorted(KINDS)])

    def at_ms(self) -> int:
        """The time of the next input."""
        return self.now_ms

    def feed(self, inputs: Iterable[Input]) -> None:
        """Handle these, and everything that follows from them."""
        machine, clock, overhead = self.machine, time.process_time, self._overhead_s
        queue = list(inputs)
        while queue:
            following: list[Input] = []
            for given in queue:
                now_ms = self.at_ms()
                start = clock()
                decisions = machine.handle(given, now_ms=now_ms)
                took = clock() - start - overhead
                self.spent_s += took
                self.longest_s = max(self.longest_s, took)
                self.handled += 1
                for decision in decisions:
                    following.extend(self.answer(decision))
            queue = following

    def answer(self, decision: Any) -> list[Input]:
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

    def add(self, name: str, spec: Object | None, requests: dict[str, str], **fields: Any) -> list[Input]:
        """A pod, and the claim with this spec that it has; given to `feed` they arrive."""
        space = {"namespace": fields["namespace"]} if "namespace" in fields else {}
        templates = {"gpu": f"{name}-gpu"} if spec else None
        pod = builders.pod(name, templates=templates, requests=requests, priority=0, **fields)
        self.pods[pod.key] = pod
        if spec is None:
            return [observed(pod)]
        claim = builders.claim(f"{name}-gpu", spec=spec, owner_pod=pod, **space)
        self.claims[claim.key] = claim
        return [observed(claim), observed(pod)]

    def run_until_idle(self, until_ms: int = 0) -> None:
        """Until nothing is due, now or later up to a time that the clock then has."""
        while (deadline := self.machine.next_deadline_ms()) is not None and deadline <= max(self.now_ms, until_ms):
            self.now_ms = max(self.now_ms, deadline)
            self.feed([TimerFired()])


@contextmanager
def counted(shell: NullShell) -> Iterator[None]:
    """Counters begin at 0, and no garbage is collected: most of it is the harness's."""
    shell.spent_s = shell.longest_s = 0.0
    shell.handled = 0
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


def defaulted(spec: Object) -> Object:
    """A claim's spec with the fields that the API server fills in."""
    spec = copy.deepcopy(spec)
    for request in spec["devices"]["requests"]:
        for details in (request.get("exactly"), *request.get("firstAvailable", ())):
            if details is not None:
                details.setdefault("allocationMode", "ExactCount")
                details.setdefault("count", 1)
    return spec


def resident_mb() -> int:
    """Of this process."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) // 1024


def node_name(index: int) -> str:
    return f"node-{index:05}"
