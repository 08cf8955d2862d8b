"""What an observation leads to: store and overlay take it over, writes and bindings go on, waiting pods wake.

Rules of this module
  1. Order: store, then overlay, then writes and bindings, then the queue. Whoever is asked sees the new state whole.

Not here: answers, which are observations first (`machine`); how attempts end (`aftermath`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from allocator import DeviceClass, ResourceSlice
from scheduler.core.binding.aftermath import Aftermath
from scheduler.core.binding.binding_cycle import BindingCycles
from scheduler.core.binding.device_conflicts import DeviceConflicts
from scheduler.core.ground.inputs import (
    DisruptionBudgetDeleted,
    DisruptionBudgetObserved,
    ForPlugins,
    PodSelectorDeleted,
    PodSelectorObserved,
    StorageDeleted,
    StorageObserved,
)
from scheduler.core.ground.newest_objects import UNCHANGED
from scheduler.core.preempting.preemptions import Preemptions
from scheduler.core.queue.helpful_changes import node_changes, pod_changes
from scheduler.core.queue.scheduling_queue import SchedulingQueue
from scheduler.core.reports.repartitioned_pools import RepartitionedPools
from scheduler.core.reports.troubles import Troubles
from scheduler.core.reports.unallocated_claims import UnallocatedClaims
from scheduler.core.state.ground import Ground
from scheduler.core.writes.claim_writes import ClaimWrites
from scheduler.framework.api import Action, Resource
from scheduler.framework.runner import Runner
from scheduler.model.claim import ResourceClaim
from scheduler.model.device_taint_rules import DeviceTaintRule
from scheduler.model.gang import GangKey, gang_key
from scheduler.model.keys import ClaimUid, NodeName, PodUid
from scheduler.model.objects import Namespace, Node, Pod
from scheduler.model.pod_group import PodGroup


class Observations:
    """Takes observations over and passes them on to everything that they concern."""

    def __init__(
        self,
        ground: Ground,
        *,
        runners: Mapping[str, Runner],
        queue: SchedulingQueue,
        writes: ClaimWrites,
        binding_cycles: BindingCycles,
        aftermath: Aftermath,
        troubles: Troubles,
        conflicts: DeviceConflicts,
        unallocated: UnallocatedClaims,
        repartitioned: RepartitionedPools,
        preemptions: Preemptions,
    ) -> None:
        self._store: Final = ground.store
        self._overlay: Final = ground.overlay
        self._volumes: Final = ground.volumes
        self._timers: Final = ground.timers
        self._runners: Final = runners
        self._queue: Final = queue
        self._writes: Final = writes
        self._bindings: Final = binding_cycles.bindings
        self._binding_cycles: Final = binding_cycles
        self._aftermath: Final = aftermath
        self._troubles: Final = troubles
        self._conflicts: Final = conflicts
        self._unallocated: Final = unallocated
        self._repartitioned: Final = repartitioned
        self._preemptions: Final = preemptions

    # Pods

    def pod_observed(self, pod: Pod) -> None:
        replaced = self._store.pods.replaced_by(pod.uid, pod.metadata.revision, pod)
        if replaced is not None:
            self.pod_deleted(replaced, pod.metadata.revision)
        old = self._store.observe_pod(pod)
        if old is UNCHANGED:
            return
        if pod.node_name is not None:
            self._bound_pod_observed(old, pod)
            if pod.spec.resource_claims:
                self._unallocated.pod_observed(pod, was_waiting=old is not None and old.node_name is None)
        else:
            if old is not None and old.status.nominated_node_name not in ("", pod.status.nominated_node_name):
                self._change(Resource.ASSIGNED_POD, Action.DELETE, old, None)  # the place it was nominated for is free
            if pod.spec.scheduler_name in self._runners:
                self._our_pod_observed(old, pod)
        if pod.spec.scheduler_name in self._runners:
            self._conflicts.pod_observed(pod)
        if self._preemptions.records:
            self._preemptions.pod_observed(old, pod)
        if self._store.gangs:
            self._gang_observed(old, pod)

    def _bound_pod_observed(self, old: Pod | None, pod: Pod) -> None:
        uid = pod.uid
        if old is None or old.node_name is None:
            assert pod.node_name is not None
            self._binding_cycles.pod_observed_bound(uid, pod.node_name)
            if uid not in self._bindings:
                self._aftermath.leave(uid)
            if pod.is_terminal:
                self._change(Resource.ASSIGNED_POD, Action.DELETE, pod, None)  # it may have been assumed until now
            else:
                self._change(Resource.ASSIGNED_POD, Action.ADD, None, pod)
        elif pod.is_terminal:
            if not old.is_terminal:
                self._change(Resource.ASSIGNED_POD, Action.DELETE, old, None)
        else:
            action = pod_changes(old, pod)
            if action is not None:
                self._change(Resource.ASSIGNED_POD, action, old, pod)

    def _our_pod_observed(self, old: Pod | None, pod: Pod) -> None:
        uid, now_ms = pod.uid, self._timers.now_ms
        if pod.is_deleting or pod.is_terminal:
            self._binding_cycles.pod_gone(uid)
            if uid not in self._bindings:
                self._aftermath.leave(uid)
        elif uid in self._store.assumed and uid not in self._bindings:
            pass  # bound, as the answer says; the observation of that is still to come
        elif uid not in self._queue:
            self._queue.add(pod, self._runners[pod.spec.scheduler_name], now_ms)
        elif old is not None:
            self._queue.update(old, pod, now_ms)
            self._binding_cycles.pod_changed(uid)

    def pod_deleted(self, uid: PodUid, revision: int) -> None:
        assumed_on = self._store.assumed.get(uid)
        pod = self._store.delete_pod(uid, revision)
        if pod is None:
            return
        self._binding_cycles.pod_gone(uid)
        self._troubles.forget(pod.key)
        self._unallocated.pod_gone(uid)
        if uid not in self._bindings:
            self._aftermath.leave(uid)
        if assumed_on is not None:
            self._aftermath.pod_unassumed(pod, assumed_on)
        elif (pod.node_name is not None or pod.status.nominated_node_name) and not pod.is_terminal:
            self._change(Resource.ASSIGNED_POD, Action.DELETE, pod, None)
        if self._preemptions.records:
            self._preemptions.pod_deleted(uid)
        if self._store.gangs:
            self._gang_observed(pod, None)

    def _gang_observed(self, old: Pod | None, new: Pod | None) -> None:
        """What the other pods of a gang wait for may have come, or is no longer needed."""
        if old is not None and new is not None and _says_same_of_gang(old, new):
            return
        keys = {gang_key(pod) for pod in (old, new) if pod is not None}
        for key in keys:
            # A pod beyond those that are needed is tried for itself, and with it its gang.
            if key is not None and (old is not None or self._store.gangs.size(key).living <= self._needed(key)):
                self._change(Resource.POD_GROUP, Action.UPDATE, None, key)

    def _needed(self, key: GangKey) -> int:
        group = self._store.pod_groups.get(key.pod_group) if key.is_pod_group else None
        return self._store.gangs.size(key).said if group is None else group.min_count or 0

    def pod_group_observed(self, group: PodGroup, revision: int) -> None:
        old = self._store.pod_groups.get(group.key)
        self._store.pod_groups.observe(group.key, revision, group)
        if self._store.pod_groups.get(group.key) is not old:
            key = GangKey(group.key.namespace, group.key.name, is_pod_group=True)
            self._change(Resource.POD_GROUP, Action.ADD if old is None else Action.UPDATE, None, key)

    # Nodes, slices, classes

    def node_observed(self, node: Node) -> None:
        old = self._store.observe_node(node)
        if old is UNCHANGED:
            return
        action = node_changes(old, node)
        if action is not None:
            self._change(Resource.NODE, action, old, node)

    def node_deleted(self, name: NodeName, revision: int) -> None:
        node = self._store.delete_node(name, revision)
        if node is not None:
            self._change(Resource.NODE, Action.DELETE, node, None)

    def namespace_observed(self, namespace: Namespace) -> None:
        namespaces, name = self._store.namespaces, namespace.metadata.name
        old = namespaces.get(name)
        namespaces.observe(name, namespace.metadata.revision, namespace)
        if namespaces[name] is old:
            return
        if old is None:
            self._change(Resource.NAMESPACE, Action.ADD, None, namespace)
        elif old.metadata.labels != namespace.metadata.labels:
            self._change(Resource.NAMESPACE, Action.UPDATE, old, namespace)

    def namespace_deleted(self, name: str, revision: int) -> None:
        old = self._store.namespaces.get(name)
        self._store.namespaces.delete(name, revision)
        if old is not None and name not in self._store.namespaces:
            self._change(Resource.NAMESPACE, Action.DELETE, old, None)

    def slice_observed(self, slice_: ResourceSlice, revision: int) -> None:
        old = self._store.observe_slice(slice_, revision)
        if old is not UNCHANGED:
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
        if old is not UNCHANGED:
            self._change(Resource.CLASS, Action.ADD if old is None else Action.UPDATE, old, device_class)

    def class_deleted(self, name: str, revision: int) -> None:
        old = self._store.delete_class(name, revision)
        if old is not None:
            self._change(Resource.CLASS, Action.DELETE, old, None)

    # Claims

    def claim_observed(self, claim: ResourceClaim) -> None:
        uid, revision = claim.uid, claim.revision
        if self._store.claims.has_observed(uid, revision):
            return
        replaced = self._store.claims.replaced_by(uid, revision, claim)
        if replaced is not None:
            self.claim_deleted(replaced, revision)
        old = self._store.observe_claim(claim)
        if old is UNCHANGED:
            return
        is_foreign = self._overlay.observe(claim)
        self._writes.observed(claim.key)
        if is_foreign:
            self._conflicts.allocation_observed(claim.uid)
        else:
            self._conflicts.claim_observed(claim)
        self._binding_cycles.claim_changed(claim.key)
        if claim.allocation is None or old is None or old.allocation is None:
            self._unallocated.claim_changed(claim)
            self._repartitioned.allocation_changed(old, claim, is_foreign=is_foreign)
        self._change(Resource.CLAIM, Action.ADD if old is None else Action.UPDATE, old, claim)
        self._preemptions.claim_changed(claim.key)

    def claim_deleted(self, uid: ClaimUid, revision: int) -> None:
        claim = self._store.delete_claim(uid, revision)
        if claim is None:
            return
        hold = self._overlay.holds.get(uid)
        self._overlay.forget(uid)
        self._conflicts.claim_gone(uid)
        self._repartitioned.allocation_changed(claim, None, is_foreign=False)
        self._troubles.forget(claim.key)
        self._writes.observed(claim.key)
        self._binding_cycles.claim_gone(claim.key)
        self._unallocated.claim_changed(claim)
        if hold is not None and claim.allocation is None:
            claim = replace(claim, allocation=hold.held.allocation)
        self._change(Resource.CLAIM, Action.DELETE, claim, None)
        self._preemptions.claim_changed(claim.key)

    # Volumes, what selects pods, and what guards them

    def observed_for_plugins(self, given: ForPlugins) -> None:
        match given:
            case StorageObserved(new):
                was = self._store.observe_storage(new)
                if was is not UNCHANGED:
                    self._volumes.observe(new.key)
                    self._binding_cycles.storage_changed(was, new)
                    self._change(Resource(type(new).__name__), Action.ADD if was is None else Action.UPDATE, was, new)
            case StorageDeleted(kind, key, revision):
                last = self._store.delete_storage(kind, key, revision)
                if last is not None:
                    self._volumes.observe(key)
                    self._binding_cycles.storage_changed(last, None)
                    self._change(Resource(kind), Action.DELETE, last, None)
            case PodSelectorObserved(selector, revision):
                self._store.pod_selectors.observe(selector, revision)
            case PodSelectorDeleted(kind, key, revision):
                self._store.pod_selectors.delete(kind, key, revision)
            case DisruptionBudgetObserved(budget, revision):
                self._store.disruption_budgets.observe(budget, revision)
            case DisruptionBudgetDeleted(key, revision):
                self._store.disruption_budgets.delete(key, revision)

    def _change(self, resource: Resource, action: Action, old: object | None, new: object | None) -> None:
        self._queue.change(resource, action, old, new, self._timers.now_ms)


def _says_same_of_gang(old: Pod, new: Pod) -> bool:
    return (old.metadata.labels, old.node_name, old.is_deleting, old.status.phase) == (
        *(new.metadata.labels, new.node_name, new.is_deleting, new.status.phase),
    )
