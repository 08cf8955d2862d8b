"""Preemption in the simulated world: pods that terminate for a while, and what must never happen to them.

Checked are, from what the machines decide and the server stores
  1. nobody is removed for a pod that is not more important;
  2. nobody is removed for a pod for which others are being removed already, unless those were for a place that a more
     important pod has taken, or a request was refused, or somebody else has nominated the pod;
  3. when all is quiet nobody is being made room for;
  4. in the moment of the decision the pod fits without the victims, and would not if any one of them stayed;
  5. nobody who is not more important is given a share of a claim that is waited for;
  6. nobody is removed for a claim for which others were removed in vain, as long as it has not changed hands.

Removed pods that use claims by name belong to a controller, mostly, which makes others in their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from scheduler.core.ground.inputs import Deleted, Input, Observed, WriteRejected
from scheduler.core.ground.outbox import GONE
from scheduler.core.preempting.preemption_records import Record
from scheduler.core.state.store import claims_of
from scheduler.framework.decisions import (
    BindPod,
    Decision,
    DeletePod,
    PatchPodDisruption,
    PatchPodStatus,
    RecordEvent,
    WriteClaimStatus,
)
from scheduler.model.claim import Consumer
from scheduler.model.keys import ClaimKey, PodKey, PodUid
from scheduler.model.objects import Pod
from scheduler.plugins.default_preemption import DefaultPreemption
from tests import builders
from tests.sim.api_server import FakeApiServer
from tests.sim.process import Process
from tests.sim.records import place_of

PREEMPTION_ACTIONS = {
    "end_pod": 6,
    "nominate_by_somebody_else": 0.2,
    "change_budget": 0.5,
    "replace_removed": 4,
    "share_by_somebody_else": 0.5,
}
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


def named_claims(pod) -> tuple[str, ...]:
    """The claims that a pod shares by their names."""
    return tuple(one.resource_claim_name for one in pod.spec.resource_claims or () if one.resource_claim_name)


class UnfairError(AssertionError):
    """A pod was removed that should not have been."""


@dataclass
class Removal:
    """Pods that are removed for one pod, as one process decided it; `record` is that process' own."""

    node: str
    record: object
    machine: object
    victims: dict[PodUid, PodKey] = field(default_factory=dict)


@dataclass
class Hands:
    """Through how many hands a claim has gone, and what it has."""

    count: int = 0
    has: object = None


@dataclass
class Awaited:
    """Pods that one process removes for a claim, as it is in the hands of that count."""

    record: Record
    machine: object
    hands: int
    victims: set[PodUid] = field(default_factory=set)

    @property
    def was_in_vain(self) -> bool:
        """Whether nothing is waited for any more; in vain, if the claim is still in the same hands."""
        return not self.record.victims and not self.record.claims


class PreemptionActions:
    """Part of `World`."""

    server: FakeApiServer
    process: Process
    trace: list[str]
    rnd: Any
    preempts: int
    names: Iterator[int]
    processes: list[Process]

    def found_preemption(self) -> None:
        self.removals: dict[PodUid, list[Removal]] = {}
        self.excused: set[PodUid] = set()
        self.owed_pods: dict[PodUid, Pod] = {}
        self.replaced: set[PodUid] = set()
        self.hands: dict[ClaimKey, Hands] = {}
        self.hands_read = 0
        self.awaited: dict[ClaimKey, Awaited] = {}

    # Controllers, and another scheduler

    def share_by_somebody_else(self) -> None:
        """Another scheduler gives a waiting pod a share of its claims, which are allocated, and binds it."""
        for pod in self.server.pods.values():
            claims = [self.server.claims.get(ClaimKey("default", name)) for name in named_claims(pod)]
            places = {place_of(one) if one is not None and one.allocation is not None else None for one in claims}
            is_waiting = pod.node_name is None and not pod.is_deleting and not pod.is_terminal
            if not is_waiting or len(places) != 1 or not (places & self.server.nodes.keys()):
                continue
            (node,) = places
            for claim in claims:
                user = Consumer("pods", pod.metadata.name, pod.uid)
                self.server.put_claim(replace(claim, reserved_for=(*claim.reserved_for, user)))
            self.server.put_pod(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node)))
            return

    def replace_removed(self) -> None:
        """A controller makes another pod in the place of one that is gone or going."""
        if self.owed_pods:
            self.replace(self.rnd.choice(sorted(self.owed_pods)))

    def replace_all_removed(self) -> None:
        for uid in list(self.owed_pods):
            self.replace(uid)

    def replace(self, uid: PodUid) -> None:
        old = self.owed_pods[uid]
        there = self.server.pods.get(old.key)
        if there is not None and there.uid == uid and not there.is_deleting:
            return  # its deletion has not landed
        del self.owed_pods[uid]
        name = f"pod-{next(self.names)}"
        self.trace.append(f"replace {old.key} by {name}")
        self.server.put_pod(
            builders.pod(name, claims=named_claims(old), priority=old.spec.priority, labels=old.metadata.labels)
        )

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
                case WriteClaimStatus(reserved_for=tuple()):
                    self.check_sharing(decision)
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
                known.append(Removal(record.node, record, machine))
            known[-1].victims[deletion.uid] = deletion.pod
            self.check_hands(record, victim)
        if named_claims(victim) and victim.uid not in self.replaced and self.rnd.random() < 0.7:
            self.owed_pods[victim.uid] = victim
        self.replaced.add(victim.uid)

    def check_hands(self, record, victim) -> None:
        """No second set for a claim that has not changed hands since the first went in vain."""
        self.read_hands()
        for key in record.claims:
            if key not in claims_of(victim):
                continue
            hands, machine, before = self.hands[key].count, self.process.machine, self.awaited.get(key)
            if before is None or before.record is not record:
                if before is not None and before.was_in_vain and (before.machine, before.hands) == (machine, hands):
                    raise UnfairError(f"{victim.key} is removed for {key}, as were {before.victims}, who went in vain")
                before = self.awaited[key] = Awaited(record, machine, hands)
            before.victims.add(victim.uid)

    def read_hands(self) -> None:
        for given in self.server.log[self.hands_read :]:
            match given:
                case Observed("ResourceClaim", object=claim):
                    key, has = claim.key, (claim.uid, claim.allocation)
                case Deleted("ResourceClaim", key):
                    has = None
                case _:
                    continue
            hands = self.hands.setdefault(key, Hands())
            if hands.has != has:
                hands.count, hands.has = hands.count + 1, has
        self.hands_read = len(self.server.log)

    def check_sharing(self, write: WriteClaimStatus) -> None:
        """Only a more important pod is given a share of what is waited for."""
        store = self.process.machine.store
        claim = store.claim(write.claim)
        for record in self.process.machine.preemptions.records.of_claim(write.claim):
            for user in write.reserved_for:
                pod = store.pods.get(user.uid)
                is_new = pod is not None and not claim.is_reserved_for(pod.uid) and pod.uid not in record.victims
                if is_new and _rank(pod) <= record.priority:
                    raise UnfairError(f"{pod.key} shares {write.claim}, for which {record.pod.key} waits")

    def check_first_set(self, record, known: list[Removal]) -> None:
        store = self.process.machine.store
        for removal in known:
            left = [
                uid
                for uid in removal.victims
                if uid not in record.victims and (pod := store.pods.get(uid)) is not None and pod.is_deleting
            ]
            # Another process of the name may have decided the other set before it saw this one's.
            is_own = removal.machine is self.process.machine
            if left and is_own and record.uid not in self.excused:
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
