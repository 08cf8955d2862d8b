"""What an observation leads to: store and overlay take it over, writes and bindings go on, waiting pods wake.

Rules of this module
  1. Order: store, then overlay, then writes and bindings, then the queue. Whoever is asked sees the new state whole.
  2. `KINDS` has a row for each kind that a machine can observe, and nobody else lists them.

Not here: answers, which are observations first (`machine`); how attempts end (`aftermath`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from allocator import ResourceSlice
from scheduler.core.binding.aftermath import Aftermath
from scheduler.core.binding.binding_cycle import BindingCycles
from scheduler.core.binding.device_conflicts import DeviceConflicts
from scheduler.core.ground.inputs import Deleted, Observed
from scheduler.core.ground.newest_objects import UNCHANGED
from scheduler.core.preempting.preemptions import Preemptions
from scheduler.core.queue.helpful_changes import node_changes, pod_changes
from scheduler.core.queue.scheduling_queue import SchedulingQueue
from scheduler.core.reports.troubles import Troubles
from scheduler.core.state.ground import Ground, Part
from scheduler.core.state.storage_objects import STORAGE_KINDS
from scheduler.core.writes.claim_writes import ClaimWrites
from scheduler.framework.api import Action, Resource
from scheduler.framework.runner import Runner
from scheduler.model.claim import ResourceClaim
from scheduler.model.disruption_budget import DISRUPTION_BUDGET
from scheduler.model.group import GroupKey, declared_count, key_of_group
from scheduler.model.keys import ClaimUid, NodeName, PodGroupKey, PodUid
from scheduler.model.objects import Namespace, Node, Pod
from scheduler.model.pod_group import PodGroup
from scheduler.model.pod_selectors import SELECTOR_KINDS
from scheduler.model.storage import AnyStorageObject


class Observations(Part):
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
        preemptions: Preemptions,
    ) -> None:
        super().__init__(ground)
        self._runners: Final = runners
        self._queue: Final = queue
        self._writes: Final = writes
        self._bindings: Final = binding_cycles.bindings
        self._binding_cycles: Final = binding_cycles
        self._aftermath: Final = aftermath
        self._troubles: Final = troubles
        self._conflicts: Final = conflicts
        self._preemptions: Final = preemptions

    # Pods

    def pod_observed(self, given: Observed) -> None:
        pod: Pod = given.object
        replaced = self._store.pods.replaced_by(pod.uid, given.revision, pod)
        if replaced is not None:
            self.pod_deleted(Deleted("Pod", pod.key, replaced, given.revision))
        old = self._store.observe_pod(pod)
        if old is UNCHANGED:
            return
        if pod.node_name is not None:
            self._bound_pod_observed(old, pod)
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

    def pod_deleted(self, given: Deleted) -> None:
        uid = PodUid(given.uid)
        assumed_on = self._store.assumed.get(uid)
        pod = self._store.delete_pod(uid, given.revision)
        if pod is None:
            return
        self._binding_cycles.pod_gone(uid)
        self._troubles.forget(pod.key)
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
        keys = {key_of_group(pod) for pod in (old, new) if pod is not None}
        for key in keys:
            # A pod beyond those that are needed is tried for itself, and with it its gang.
            if key is not None and (old is not None or self._may_be_needed(key)):
                self._change(Resource.POD_GROUP, Action.UPDATE, None, key)

    def _may_be_needed(self, key: GroupKey) -> bool:
        size = self._store.gangs.size(key)
        return size.living <= (declared_count(key, size, self._store.pod_groups.get(key.pod_group)) or 0)

    def pod_group_observed(self, given: Observed) -> None:
        group: PodGroup = given.object
        old = self._store.pod_groups.observe(group.key, given.revision, group)
        if old is not UNCHANGED and old != group:
            key = GroupKey(*group.key, is_pod_group=True)
            self._change(Resource.POD_GROUP, _action(old), None, key)

    def pod_group_deleted(self, given: Deleted) -> None:
        self._store.pod_groups.delete(PodGroupKey(*given.key), given.revision)

    # Nodes, slices, classes

    def node_observed(self, given: Observed) -> None:
        node: Node = given.object
        old = self._store.observe_node(node)
        if old is UNCHANGED:
            return
        action = node_changes(old, node)
        if action is not None:
            self._change(Resource.NODE, action, old, node)

    def node_deleted(self, given: Deleted) -> None:
        node = self._store.delete_node(NodeName(given.key.name), given.revision)
        if node is not None:
            self._change(Resource.NODE, Action.DELETE, node, None)

    def namespace_observed(self, given: Observed) -> None:
        namespace: Namespace = given.object
        old = self._store.namespaces.observe(given.key.name, given.revision, namespace)
        if old is not UNCHANGED and (old is None or old.metadata.labels != namespace.metadata.labels):
            self._change(Resource.NAMESPACE, _action(old), old, namespace)

    def namespace_deleted(self, given: Deleted) -> None:
        old = self._store.namespaces.delete(given.key.name, given.revision)
        if old is not None:
            self._change(Resource.NAMESPACE, Action.DELETE, old, None)

    def slice_observed(self, given: Observed) -> None:
        old = self._store.observe_slice(given.object, given.revision)
        if old is not UNCHANGED:
            new = self._store.inventory.slices[given.key.name]
            self._change(Resource.SLICE, _action(old), old, new)

    def slice_deleted(self, given: Deleted) -> None:
        old = self._store.delete_slice(given.key.name, given.revision)
        if old is not None:
            self._change(Resource.SLICE, Action.DELETE, old, None)

    def taint_rule_observed(self, given: Observed) -> None:
        self._slices_tainted(self._store.observe_taint_rule(given.object, given.revision))

    def taint_rule_deleted(self, given: Deleted) -> None:
        self._slices_tainted(self._store.delete_taint_rule(given.key.name, given.revision))

    def _slices_tainted(self, changed: Iterable[tuple[ResourceSlice, ResourceSlice]]) -> None:
        for old, new in changed:
            self._change(Resource.SLICE, Action.UPDATE, old, new)

    def class_observed(self, given: Observed) -> None:
        old = self._store.observe_class(given.object, given.revision)
        if old is not UNCHANGED:
            self._change(Resource.CLASS, _action(old), old, given.object)

    def class_deleted(self, given: Deleted) -> None:
        old = self._store.delete_class(given.key.name, given.revision)
        if old is not None:
            self._change(Resource.CLASS, Action.DELETE, old, None)

    # Claims

    def claim_watched(self, given: Observed) -> None:
        self.claim_observed(given.object)
        self._binding_cycles.claims_watched(given.revision)

    def claim_observed(self, claim: ResourceClaim) -> None:
        uid, revision = claim.uid, claim.revision
        if self._store.claims.has_observed(uid, revision):
            return
        replaced = self._store.claims.replaced_by(uid, revision, claim)
        if replaced is not None:
            self.claim_deleted(Deleted("ResourceClaim", claim.key, replaced, revision))
        old = self._store.observe_claim(claim)
        if old is UNCHANGED:
            return
        is_foreign = self._overlay.observe(claim)  # first: the others ask what is held now
        self._writes.observed(claim.key)  # settles what is overtaken; a binding waits while a write may land
        if is_foreign:  # before its binding goes on: devices that are another's too are given back
            self._conflicts.allocation_observed(claim.uid)
        else:
            self._conflicts.claim_observed(claim)
        self._binding_cycles.claim_changed(claim.key)  # whom it gives up has left its node when others are woken
        self._change(Resource.CLAIM, _action(old), old, claim)  # hints see all of that
        self._preemptions.claim_changed(claim.key)  # last: it has a pod tried whatever its backoff

    def claim_deleted(self, given: Deleted) -> None:
        uid = ClaimUid(given.uid)
        claim = self._store.delete_claim(uid, given.revision)
        if claim is None:
            return
        hold = self._overlay.holds.get(uid)
        self._overlay.forget(uid)
        self._conflicts.claim_gone(uid)
        self._troubles.forget(claim.key)
        self._writes.observed(claim.key)
        self._binding_cycles.claim_gone(claim.key)
        if hold is not None and claim.allocation is None:
            claim = replace(claim, allocation=hold.held.allocation)
        self._change(Resource.CLAIM, Action.DELETE, claim, None)
        self._preemptions.claim_changed(claim.key)

    # Volumes, what selects pods, and what guards them

    def storage_observed(self, given: Observed) -> None:
        new: AnyStorageObject = given.object
        old = self._store.observe_storage(new)
        if old is not UNCHANGED:
            self._volumes.observe(new.key)
            self._binding_cycles.storage_changed(old, new)
            self._change(Resource(given.kind), _action(old), old, new)

    def storage_deleted(self, given: Deleted) -> None:
        old = self._store.delete_storage(given.kind, given.key, given.revision)
        if old is not None:
            self._volumes.observe(given.key)
            self._binding_cycles.storage_changed(old, None)
            self._change(Resource(given.kind), Action.DELETE, old, None)

    def only_kept(self, given: Observed) -> None:
        self._store.kept[given.kind].observe(given.object.key, given.revision, given.object)

    def no_longer_kept(self, given: Deleted) -> None:
        self._store.kept[given.kind].delete(given.key, given.revision)

    def _change(self, resource: Resource, action: Action, old: object | None, new: object | None) -> None:
        self._queue.change(resource, action, old, new, self._timers.now_ms)


def _says_same_of_gang(old: Pod, new: Pod) -> bool:
    return (old.metadata.labels, old.node_name, old.is_deleting, old.status.phase) == (
        *(new.metadata.labels, new.node_name, new.is_deleting, new.status.phase),
    )


def _action(old: object | None) -> Action:
    return Action.ADD if old is None else Action.UPDATE


class Kind(NamedTuple):
    """What to do when an object of a kind is observed, and when it is gone."""

    observed: Callable[[Observations, Observed], None]
    deleted: Callable[[Observations, Deleted], None]


ALWAYS_WATCHED: Final[Mapping[str, Kind]] = {
    "Pod": Kind(Observations.pod_observed, Observations.pod_deleted),
    "Node": Kind(Observations.node_observed, Observations.node_deleted),
    "Namespace": Kind(Observations.namespace_observed, Observations.namespace_deleted),
    "ResourceClaim": Kind(Observations.claim_watched, Observations.claim_deleted),
    "ResourceSlice": Kind(Observations.slice_observed, Observations.slice_deleted),
    "DeviceClass": Kind(Observations.class_observed, Observations.class_deleted),
    "DeviceTaintRule": Kind(Observations.taint_rule_observed, Observations.taint_rule_deleted),
    "PodGroup": Kind(Observations.pod_group_observed, Observations.pod_group_deleted),
}
_STORAGE: Final = Kind(Observations.storage_observed, Observations.storage_deleted)
_KEPT: Final = Kind(Observations.only_kept, Observations.no_longer_kept)
KINDS: Final[Mapping[str, Kind]] = {
    **ALWAYS_WATCHED,
    # Watched where a plugin reads them (`Plugin.reads`).
    **dict.fromkeys(STORAGE_KINDS, _STORAGE),
    **dict.fromkeys(SELECTOR_KINDS, _KEPT),
    DISRUPTION_BUDGET: _KEPT,
}
