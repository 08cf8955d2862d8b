"""Preemption in the simulated world: pods that terminate for a while, and what must never happen to them.

Checked are, from what the machines decide and the server stores
  1. nobody is removed for a pod that is not more important;
  2. nobody is removed for a pod for which others are being removed already, unless those were for a place that a more
     important pod has taken, or a request was refused, or somebody else has nominated the pod;
  3. when all is quiet nobody is being made room for;
  4. in the moment of the decision the pod fits without the victims, and would not if any one of them stayed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from scheduler.core.inputs import Input, WriteRejected
from scheduler.core.outbox import GONE
from scheduler.framework.decisions import BindPod, Decision, DeletePod, PatchPodDisruption, PatchPodStatus, RecordEvent
from scheduler.model.keys import PodKey, PodUid
from scheduler.plugins.default_preemption import DefaultPreemption
from tests import builders
from tests.sim.api_server import FakeApiServer
from tests.sim.process import Process

PREEMPTION_ACTIONS = {"end_pod": 6, "nominate_by_somebody_else": 0.2, "change_budget": 0.5}
APPS = ("a", "b")


@dataclass(frozen=True)
class WatchedPreemption(DefaultPreemption):
    """PostFilter: the real plugin, and what must hold of its answer in the moment in which it gives it."""

    def post_filter(self, cycle, verdicts, view, dry_run):
        answer = super().post_filter(cycle, verdicts, view, dry_run)
        if answer.preemption is not None:
            steps_left, cycle.steps_left = cycle.steps_left, 10**9
            check_choice(cycle.pod, answer.preemption, dry_run)
            cycle.steps_left = steps_left
        return answer


def check_choice(pod, preemption, dry_run) -> None:
    """All victims are less important, without them the pod fits, and with any of them it does not."""
    victims = {one.uid: one for one in preemption.victims}
    for victim in victims.values():
        if _rank(victim) >= _rank(pod):
            raise UnfairError(f"{victim.key} ({_rank(victim)}) is a victim of {pod.key} ({_rank(pod)})")
        trial = dry_run.without(preemption.node, sorted(victims.keys() - {victim.uid}))
        if trial.status.is_success:
            raise UnfairError(f"{pod.key} fits on {preemption.node} with {victim.key}, which is a victim")
    trial = dry_run.without(preemption.node, sorted(victims))
    if not victims or not trial.status.is_success:
        raise UnfairError(f"{pod.key} does not fit on {preemption.node} without {sorted(victims)}: {trial.status}")
    if {one.claim for one in trial.released} != {one.claim for one in preemption.released}:
        raise UnfairError(f"{pod.key} waits for {preemption.released}, and {trial.released} will be released")


def _rank(pod) -> int:
    return pod.spec.priority or 0


class UnfairError(AssertionError):
    """A pod was removed that should not have been."""


@dataclass
class Removal:
    """Pods that are removed for one pod, as one process decided it; `record` is that process' own."""

    node: str
    record: object
    victims: dict[PodUid, PodKey] = field(default_factory=dict)


class PreemptionActions:
    """Part of `World`."""

    server: FakeApiServer
    process: Process
    trace: list[str]
    rnd: Any
    preempts: int
    processes: list[Process]

    def found_preemption(self) -> None:
        self.removals: dict[PodUid, list[Removal]] = {}
        self.excused: set[PodUid] = set()

    # Kubelets, and others who nominate

    def end_pod(self) -> None:
        """A kubelet has stopped a pod that terminates."""
        ending = [pod for pod in self.server.pods.values() if pod.is_deleting and pod.node_name is not None]
        if ending:
            self.server.delete_pod(self.rnd.choice(ending).key)

    def end_all_pods(self) -> None:
        for pod in list(self.server.pods.values()):
            if pod.is_deleting:
                self.server.delete_pod(pod.key)

    def nominate_by_somebody_else(self) -> None:
        waiting = [pod for pod in self.server.pods.values() if pod.node_name is None and not pod.is_deleting]
        if waiting:
            pod = self.rnd.choice(waiting)
            self.excused.add(pod.uid)
            name = self.rnd.choice(["", *sorted(self.server.nodes)])
            status = msgspec.structs.replace(pod.status, nominated_node_name=name)
            self.server.put_pod(msgspec.structs.replace(pod, status=status))

    def labels(self) -> dict[str, str] | None:
        """Of a new pod: some are covered by a budget."""
        return {"app": self.rnd.choice(APPS)} if self.preempts and self.rnd.random() < 0.7 else None

    def change_budget(self) -> None:
        """The disruption controller has counted, or somebody creates or deletes a budget."""
        name = self.rnd.choice(APPS)
        if self.rnd.random() < 0.2:
            self.server.delete_budget(name)
        else:
            self.server.put_budget(builders.budget(name, labels={"app": name}, allowed=self.rnd.choice([0, 0, 1, 2])))

    # What must not happen

    def check_decided(self, decisions: Iterable[Decision]) -> None:
        """What a machine has just decided."""
        for decision in decisions:
            match decision:
                case PatchPodStatus(nominated_node=str(node)) if node:
                    self.excuse_lower(decision.uid, node)
                case BindPod(node=node):
                    self.excuse_lower(decision.uid, node)
                case DeletePod():
                    self.check_removal(decision)
                case RecordEvent(reason="Preempted", related=(namespace, name, uid)):
                    self.check_rank(PodKey(decision.namespace, decision.name), PodKey(namespace, name), uid)

    def excuse_lower(self, uid: PodUid, node: str) -> None:
        """A more important pod takes places on the node."""
        store = self.process.machine.store
        pod = store.pods.get(uid)
        for other, removals in self.removals.items():
            lower = store.pods.get(other)
            is_lower = pod is not None and lower is not None and _rank(lower) < _rank(pod)
            if is_lower and any(one.node == node for one in removals):
                self.excused.add(other)

    def check_rank(self, victim: PodKey, preemptor: PodKey, uid: str) -> None:
        low, high = self.server.pods.get(victim), self.server.pods.get(preemptor)
        if low is not None and high is not None and high.uid == uid and _rank(low) >= _rank(high):
            raise UnfairError(f"{victim} ({_rank(low)}) is removed for {preemptor} ({_rank(high)})")

    def check_removal(self, deletion: DeletePod) -> None:
        machine = self.process.machine
        records = machine.preemptions.records.of_victim(deletion.uid)
        victim = machine.store.pods.get(deletion.uid)
        if victim is None or all(_rank(victim) >= record.priority for record in records):
            raise UnfairError(f"{deletion.pod} is removed for nobody who is more important")
        for record in records:
            known = self.removals.setdefault(record.uid, [])
            if not known or known[-1].record is not record:
                self.check_first_set(record, known)
                known.append(Removal(record.node, record))
            known[-1].victims[deletion.uid] = deletion.pod

    def check_first_set(self, record, known: list[Removal]) -> None:
        store = self.process.machine.store
        for removal in known:
            left = [
                uid
                for uid in removal.victims
                if uid not in record.victims and (pod := store.pods.get(uid)) is not None and pod.is_deleting
            ]
            if left and record.uid not in self.excused:
                raise UnfairError(f"a second set is removed for {record.pod.key}: {left} are not gone yet")

    def note_refusal(self, decision: Decision, answer: Input) -> None:
        if not isinstance(answer, WriteRejected) or answer.code == GONE or answer.is_retriable:
            return
        if isinstance(decision, PatchPodDisruption | DeletePod):
            for record in self.process.machine.preemptions.records.of_victim(decision.uid):
                self.excused.add(record.uid)
        elif isinstance(decision, PatchPodStatus):
            self.excused.add(decision.uid)

    def check_no_room_kept(self) -> None:
        """All is quiet, and nobody terminates any more."""
        for process in self.processes:
            machine = process.machine
            for record in machine.preemptions.records:
                waits_for = [*record.victims, *record.claims]
                raise UnfairError(f"room is kept for {record.pod.key} on {record.node}, waiting for {waits_for}")
