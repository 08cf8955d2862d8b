"""What an observation leads to: store and overlay take it over, writes and bindings go on, waiting pods wake.

Rules of this module
  1. Order: store, then overlay, then writes and bindings, then the queue. Whoever is asked sees the new state whole.
  2. A claim or pod in an answer is an observation like any other.
  3. Holds that end without an allocation are told as if the allocation had been removed: its devices are free again.

Not here: numbering and order of decisions (`outbox`), when pods are tried (`machine`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

import msgspec

from allocator import DeviceClass, ResourceSlice
from scheduler.core.binding import BindingCycle
from scheduler.core.binding_cycle import BindingCycles
from scheduler.core.claim_overlay import ClaimOverlay, footprint
from scheduler.core.claim_writes import ClaimWrites
from scheduler.core.device_conflicts import DeviceConflicts
from scheduler.core.inputs import WriteRejected
from scheduler.core.outbox import Outbox
from scheduler.core.problems import Problems
from scheduler.core.repartitioned_pools import RepartitionedPools
from scheduler.core.scheduling_cycle import SchedulingCycles
from scheduler.core.scheduling_queue import SchedulingQueue, pod_changes
from scheduler.core.store import Store, claims_of
from scheduler.core.stranded_claims import StrandedClaims
from scheduler.core.taking_back import TakingBack
from scheduler.core.timers import Timers
from scheduler.framework.api import Action, ClusterEvent, Held, Resource
from scheduler.framework.decisions import (
    Answered,
    BindPod,
    PatchExtendedResources,
    PatchNodeAllocatable,
    PatchPodStatus,
    ReadPod,
    WriteClaimStatus,
)
from scheduler.framework.runner import Runner
from scheduler.framework.status import Status
from scheduler.model.claim import ResourceClaim
from scheduler.model.device_taint_rules import DeviceTaintRule
from scheduler.model.keys import ClaimKey, ClaimUid, NodeName, PodKey, PodUid
from scheduler.model.objects import Node, Pod
from scheduler.model.special_claim import is_provisional


class Observations:
    """Takes observations and tells everyone concerned. Satisfies `binding_cycle.Surroundings`."""

    queue: SchedulingQueue
    bindings: BindingCycles
    cycles: SchedulingCycles
    writes: ClaimWrites
    taking_back: TakingBack

    def __init__(
        self,
        *,
        store: Store,
        overlay: ClaimOverlay,
        timers: Timers,
        outbox: Outbox,
        problems: Problems,
        runners: Mapping[str, Runner],
        conflicts: DeviceConflicts,
        stranded: StrandedClaims,
        repartitioned: RepartitionedPools,
    ) -> None:
        self._store: Final = store
        self._overlay: Final = overlay
        self._timers: Final = timers
        self._outbox: Final = outbox
        self._problems: Final = problems
        self._runners: Final = runners
        self._conflicts: Final = conflicts
        self._stranded: Final = stranded
        self._repartitioned: Final = repartitioned

    def connect(
        self,
        *,
        queue: SchedulingQueue,
        writes: ClaimWrites,
        bindings: BindingCycles,
        cycles: SchedulingCycles,
        taking_back: TakingBack,
    ) -> None:
        """Set those whom observations concern; they need this object first."""
        self.queue, self.writes, self.bindings, self.cycles = queue, writes, bindings, cycles
        self.taking_back = taking_back
        self._conflicts.connect(writes=writes, bindings=bindings, taking_back=taking_back)

    # Pods

    def pod_observed(self, pod: Pod) -> None:
        replaced = self._store.pod_replaced_by(pod)
        if replaced is not None:
            self.pod_deleted(replaced.uid, pod.metadata.revision)
        old = self._store.observe_pod(pod)
        if isinstance(old, bool):
            return
        if pod.node_name is not None:
            self._bound_pod_observed(old, pod)
            if pod.spec.resource_claims:
                self._stranded.pod_observed(pod, was_waiting=old is not None and old.node_name is None)
        elif pod.spec.scheduler_name in self._runners:
            self._our_pod_observed(old, pod)
        if pod.spec.scheduler_name in self._runners:
            self._conflicts.pod_seen(pod)

    def _bound_pod_observed(self, old: Pod | None, pod: Pod) -> None:
        uid = pod.uid
        if old is None or old.node_name is None:
            assert pod.node_name is not None
            self.bindings.pod_observed_bound(uid, pod.node_name)
            if uid not in self.bindings:
                self._leave(uid)
            self._change(Resource.ASSIGNED_POD, Action.ADD, None, pod)
        elif pod.is_terminal and not old.is_terminal:
            self._change(Resource.ASSIGNED_POD, Action.DELETE, old, None)
        else:
            action = pod_changes(old, pod)
            if action is not None:
                self._change(Resource.ASSIGNED_POD, action, old, pod)

    def _our_pod_observed(self, old: Pod | None, pod: Pod) -> None:
        uid, now_ms = pod.uid, self._timers.now_ms
        if pod.is_deleting or pod.is_terminal:
            self.bindings.pod_gone(uid)
            if uid not in self.bindings:
                self._leave(uid)
        elif uid in self._store.assumed and uid not in self.bindings:
            pass  # bound, as we were told; the observation of that is still to come
        elif uid not in self.queue:
            self.queue.add(pod, self._runners[pod.spec.scheduler_name], now_ms)
        elif old is not None:
            self.queue.update(old, pod, now_ms)
            self.bindings.pod_changed(uid)

    def pod_deleted(self, uid: PodUid, revision: int) -> None:
        pod = self._store.delete_pod(uid, revision)
        if pod is None:
            return
        self.bindings.pod_gone(uid)
        self._outbox.forget_troubles(pod)
        self._stranded.pod_gone(uid)
        if uid not in self.bindings:
            self._leave(uid)
        if pod.node_name is not None and not pod.is_terminal:
            self._change(Resource.ASSIGNED_POD, Action.DELETE, pod, None)

    def _leave(self, uid: PodUid) -> None:
        self.queue.remove(uid, self._timers.now_ms)
        self.cycles.forget(uid)

    # Nodes, slices, classes

    def node_observed(self, node: Node) -> None:
        old = self._store.observe_node(node)
        if isinstance(old, bool):
            return
        action = node_changes(old, node)
        if action is not None:
            self._change(Resource.NODE, action, old, node)

    def node_deleted(self, name: NodeName, revision: int) -> None:
        node = self._store.delete_node(name, revision)
        if node is not None:
            self._change(Resource.NODE, Action.DELETE, node, None)

    def slice_observed(self, slice_: ResourceSlice, revision: int) -> None:
        old = self._store.observe_slice(slice_, revision)
        if not isinstance(old, bool):
            new = self._store.inventory.slices[slice_.name]
            self._repartitioned.slice_changed(old, new)
            self._change(Resource.SLICE, Action.ADD if old is None else Action.UPDATE, old, new)

    def slice_deleted(self, name: str, revision: int) -> None:
        old = self._store.delete_slice(name, revision)
        if old is not None:
            self._repartitioned.slice_changed(old)
            self._change(Resource.SLICE, Action.DELETE, old, None)

    def taint_rule_observed(self, rule: DeviceTaintRule, revision: int) -> None:
        self._slices_tainted(self._store.observe_taint_rule(rule, revision))

    def taint_rule_deleted(self, name: str, revision: int) -> None:
        self._slices_tainted(self._store.delete_taint_rule(name, revision))

    def _slices_tainted(self, changed: Iterable[tuple[ResourceSlice, ResourceSlice]]) -> None:
        for old, new in changed:
            self._change(Resource.SLICE, Action.UPDATE, old, new)

    def class_observed(self, device_class: DeviceClass, revision: int) -> None:
        old = self._store.observe_class(device_class, revision)
        if not isinstance(old, bool):
            self._change(Resource.CLASS, Action.ADD if old is None else Action.UPDATE, old, device_class)

    def class_deleted(self, name: str, revision: int) -> None:
        old = self._store.delete_class(name, revision)
        if old is not None:
            self._change(Resource.CLASS, Action.DELETE, old, None)

    # Claims

    def claim_observed(self, claim: ResourceClaim) -> None:
        if self._store.has_seen_claim(claim):
            return
        replaced = self._store.claim_replaced_by(claim)
        if replaced is not None:
            self.claim_deleted(replaced.uid, claim.revision)
        old = self._store.observe_claim(claim)
        if isinstance(old, bool):
            return
        is_foreign = self._overlay.observe(claim)
        self.writes.observed(claim)
        if is_foreign:
            self._conflicts.allocation_seen(claim.uid)
        else:
            self._conflicts.claim_observed(claim)
        self.bindings.claim_changed(claim.key)
        if claim.allocation is None or old is None or old.allocation is None:
            self._stranded.claim_changed(claim)
            self._repartitioned.allocation_changed(old, claim, is_foreign=is_foreign)
        self._change(Resource.CLAIM, Action.ADD if old is None else Action.UPDATE, old, claim)

    def claim_deleted(self, uid: ClaimUid, revision: int) -> None:
        claim = self._store.delete_claim(uid, revision)
        if claim is None:
            return
        hold = self._overlay.holds.get(uid)
        self._overlay.forget(uid)
        self._conflicts.claim_gone(uid)
        self._repartitioned.allocation_changed(claim, None, is_foreign=False)
        self._outbox.forget_troubles(claim)
        self.writes.deleted(uid)
        self.bindings.claim_gone(claim.key)
        self._stranded.claim_changed(claim)
        if hold is not None and claim.allocation is None:
            claim = replace(claim, allocation=hold.held.allocation)
        self._change(Resource.CLAIM, Action.DELETE, claim, None)

    # What binding cycles tell

    def claim_read(self, claim: ResourceClaim) -> None:
        self.claim_observed(claim)

    def claim_missing(self, key: ClaimKey, uid: ClaimUid) -> None:
        self.claim_deleted(uid, 0)

    def pod_read(self, pod: Pod) -> None:
        self.pod_observed(pod)

    def pod_missing(self, key: PodKey, uid: PodUid) -> None:
        self.pod_deleted(uid, 0)

    def write_refused(self, refusal: WriteRejected) -> None:
        self._problems.refused(refusal)

    def request_fails(self, decision: Answered, text: str) -> None:
        """A request has been failing for a while: tell the pods that wait for it."""
        match decision:
            case BindPod() | ReadPod() | PatchExtendedResources() | PatchNodeAllocatable():
                pod = self._store.pod_by_key(decision.pod)
                uids: Iterable[PodUid] = () if pod is None else (pod.uid,)
            case PatchPodStatus():
                return  # it is what would tell
            case _:
                uids = self._store.users_of(decision.claim)
        for uid in uids:
            if uid in self.bindings:
                self.cycles.tell_trouble(uid, text)

    def write_settled(self, key: ClaimKey) -> None:
        self.bindings.claim_changed(key)
        self.taking_back.write_settled(key)

    def devices_released(self, held: Iterable[Held]) -> None:
        for one in held:
            claim = self._store.claims.get(one.uid)
            if claim is None and is_provisional(one.uid):
                claim = ResourceClaim(one.claim, one.uid, revision=0, spec=None)  # it was never created
            stored = claim.allocation if claim is not None else None
            if claim is not None and (stored is None or footprint(stored) != footprint(one.allocation)):
                with_devices, without = replace(claim, allocation=one.allocation), replace(claim, allocation=None)
                self._change(Resource.CLAIM, Action.UPDATE, with_devices, without)

    def pod_unassumed(self, pod: Pod, node: NodeName) -> None:
        was = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))
        self._change(Resource.ASSIGNED_POD, Action.DELETE, was, None)

    def is_barred(self, binding: BindingCycle, claims: Iterable[ClaimKey]) -> Status | None:
        return self._conflicts.is_barred(binding.pod, claims)

    def withdrawals(self, binding: BindingCycle) -> tuple[WriteClaimStatus, ...]:
        was = claims_of(binding.pod)
        # One claim can be both. What comes second is found in the next round.
        return self._conflicts.withdrawals(binding.uid, was) or tuple(self._replaced(binding.uid, was))

    def _replaced(self, uid: PodUid, was: Iterable[ClaimKey]) -> Iterator[WriteClaimStatus]:
        """The writes that take allocations back from generated claims that the pod's status names no longer.

        Nobody else may use them, and the resource claim controller deletes them with the pod, not before.
        """
        pod = self._store.pods.get(uid)
        if pod is None or pod.node_name is not None:
            return
        for key in was:
            claim = self._store.claim(key)
            if key in self._store.claims_of(uid) or claim is None or claim.allocation is None:
                continue
            is_own = claim.controller is not None and claim.controller.uid == uid
            if is_own and all(consumer.pod_uid == uid for consumer in claim.reserved_for):
                yield WriteClaimStatus(key, claim.uid, claim.revision, clear_allocation=True)

    def pod_waits(self, uid: PodUid, reason: str, message: str) -> None:
        self.cycles.tell_wait(uid, reason, message)

    def pod_bound(self, binding: BindingCycle) -> None:
        self._problems.succeeded()
        self._leave(binding.uid)

    def pod_failed(self, binding: BindingCycle) -> None:
        """The binding cycle ended without a binding: queue the pod again, if it is still there and still ours."""
        uid = binding.uid
        pod = self._store.pods.get(uid)
        queued = self.queue.find(uid)
        if pod is None or pod.node_name is not None or pod.is_deleting or pod.is_terminal:
            self._leave(uid)
        elif queued is not None:
            self.cycles.fail(queued, binding.failure or Status.error("binding failed"), binding.retry_ms)
        self._conflicts.given_up(claims_of(binding.pod))

    def _change(self, resource: Resource, action: Action, old: object | None, new: object | None) -> None:
        if self.queue.has_waiting:
            self.queue.change(ClusterEvent(resource, action, old, new), self._timers.now_ms)


def node_changes(old: Node | None, node: Node) -> Action | None:
    """Which changes of a node can make a pod schedulable; None when there is none of them."""
    if old is None:
        return Action.ADD
    action = Action(0)
    if old.status.allocatable != node.status.allocatable:
        action |= Action.UPDATE_NODE_ALLOCATABLE
    if old.metadata.labels != node.metadata.labels:
        action |= Action.UPDATE_NODE_LABEL
    if old.spec != node.spec:
        action |= Action.UPDATE_NODE_TAINT  # cordoning too: upstream turns it into a taint
    return action or None
