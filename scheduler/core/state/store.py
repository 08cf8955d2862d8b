"""Observed objects by key and revision, with the indexes that plugins and the core read.

Rules of this module
  1. The newest revision wins; duplicates, late and out-of-order reports change nothing (`versions`).
  2. The uid is an object's identity: a re-created pod, claim or node of the same name is another object, and observing
     it means that the earlier one is gone.
  3. A pod counts on the node it is bound to, or else on the node it is assumed on; a finished pod counts nowhere.
  4. `NodeInfo.generation` grows, and the change log gets an entry, exactly when a plugin could see a difference.

Not here: devices in use (`claim_overlay`), what a change wakes (`scheduling_queue`), what it means for writes.

Cost: an observation costs O(1) and the nodes it touches; only a slice or allocation of a pool that is not tied to
named nodes touches all nodes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from allocator import ClaimSpec, DeviceClass, Features, Inventory, PoolId, ResourceSlice
from allocator.values.remembered import MemoryLedger
from scheduler.core.counting.pod_counts import PodCounts
from scheduler.core.ground.change_log import ChangeLog
from scheduler.core.ground.indexes import drop
from scheduler.core.ground.newest_objects import UNCHANGED, NewestObjects, ObjectsByUid, Unchanged
from scheduler.core.ground.versions import Versions
from scheduler.core.state.budget_index import DisruptionBudgets
from scheduler.core.state.group_members import GroupMembers
from scheduler.core.state.node_images import NodeImages
from scheduler.core.state.nominations import Nominations
from scheduler.core.state.pod_priorities import PodPriorities
from scheduler.core.state.pod_selector_objects import Services
from scheduler.core.state.storage_objects import StorageObjects
from scheduler.core.state.tainted_slices import Put, TaintedSlices
from scheduler.model.claim import ResourceClaim
from scheduler.model.device_taint_rules import DeviceTaintRule
from scheduler.model.disruption_budget import DISRUPTION_BUDGET
from scheduler.model.keys import ClaimKey, ClaimUid, NodeName, ObjectKey, PodGroupKey, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Namespace, Node, NodeAllocatableClaim, Pod
from scheduler.model.pod_group import PodGroup
from scheduler.model.pod_selectors import SERVICE
from scheduler.model.resources import counted_amounts
from scheduler.model.special_claim import asks_extended_resources, special_claim_key
from scheduler.model.storage import AnyStorageObject


class Store:
    """What the cluster looks like, as far as it has been observed."""

    def __init__(self, features: Features, remembered_bytes: int | None = None) -> None:
        """`remembered_bytes`: as `CoreSettings.remembered_bytes_max`."""
        self.features: Final = features
        self.ledger: Final = MemoryLedger(lambda: remembered_bytes or _remembered_bytes(len(self.node_infos)))
        self.inventory: Final = Inventory(ledger=self.ledger)
        self.tainted: Final = TaintedSlices(self.inventory)
        self.changes: Final = ChangeLog()
        # The part of it that changes what pods and labels there are.
        self.population: Final = ChangeLog()
        self.node_infos: Final[dict[NodeName, NodeInfo]] = {}
        self.pods: Final[ObjectsByUid[PodUid, Pod]] = ObjectsByUid()
        self.claims: Final[ObjectsByUid[ClaimUid, ResourceClaim]] = ObjectsByUid()
        self.claim: Final[Callable[[ClaimKey], ResourceClaim | None]] = self.claims.by_key
        self._claim_names: Final[dict[str, dict[ClaimUid, str]]] = {}
        self.namespaces: Final[NewestObjects[str, Namespace]] = NewestObjects()
        self.pod_counts: Final = PodCounts(self.node_infos, self.population, self.namespaces, self.ledger)
        self.pod_groups: Final[NewestObjects[PodGroupKey, PodGroup]] = NewestObjects(may_return=True)
        self.assumed: Final[dict[PodUid, NodeName]] = {}
        # What the claims of assumed pods take of their nodes, for those that take anything.
        self.assumed_claims: Final[dict[PodUid, tuple[NodeAllocatableClaim, ...]]] = {}
        self._wanting: Final[dict[ClaimSpec, int]] = {}
        self._pods_by_claim: Final[dict[ClaimKey, dict[PodUid, None]]] = {}
        self._claims_by_pod: Final[dict[PodUid, tuple[ClaimKey, ...]]] = {}
        self.gangs: Final = GroupMembers()
        self.nominations: Final = Nominations()
        self._counted_on: Final[dict[PodUid, NodeName]] = {}
        self._counted_by_node: Final[dict[NodeName, dict[PodUid, Pod]]] = {}
        self.priorities: Final = PodPriorities()
        self.storage: Final = StorageObjects(self._counted_on, self.node_infos)
        self.services: Final = Services()
        self.disruption_budgets: Final = DisruptionBudgets()
        # By kind, of kinds whose changes wake no pod: these two with an index, the others as they are.
        self.kept: Final[defaultdict[str, NewestObjects[ObjectKey, Any]]] = defaultdict(
            partial(NewestObjects, may_return=True),
            {SERVICE: self.services, DISRUPTION_BUDGET: self.disruption_budgets},
        )
        self.images: Final = NodeImages()
        self._node_order: Final[list[NodeName]] = []
        self._node_order_now: tuple[NodeName, ...] | None = ()
        self._generation = 0
        self._node_versions: Final[Versions[NodeName]] = Versions()
        self._slice_versions: Final[Versions[str]] = Versions()
        self._class_versions: Final[Versions[str]] = Versions()
        self._taint_rule_versions: Final[Versions[str]] = Versions(may_return=True)

    # Pods

    def observe_pod(self, pod: Pod) -> Pod | Unchanged | None:
        """What `ObjectsByUid.observe` says."""
        uid = pod.uid
        old = self.pods.observe(uid, pod.metadata.revision, pod)
        if old is UNCHANGED:
            return old
        if pod.metadata.labels or pod.spec.scheduling_group is not None or self.gangs:
            self.gangs.observe(old, pod)
        if old is None:
            self._link_claims(pod)
            if pod.spec.volumes:
                self.storage.link_pod(pod)
        elif old.status.resource_claim_statuses != pod.status.resource_claim_statuses:
            self._unlink_claims(uid)
            self._link_claims(pod)
        if pod.spec.node_name:
            self.assumed.pop(uid, None)
            self.assumed_claims.pop(uid, None)
        self._count(uid)
        return old

    def delete_pod(self, uid: PodUid, revision: int) -> Pod | None:
        """The last state of the pod, None when it was not known or the deletion is older than what is."""
        pod = self.pods.delete(uid, revision)
        if pod is not None:
            self.gangs.observe(pod, None)
            self.assumed.pop(uid, None)
            self.assumed_claims.pop(uid, None)
            self._unlink_claims(uid)
            if pod.spec.volumes:
                self.storage.unlink_pod(pod)
            self._count(uid)
        return pod

    def assume(self, uid: PodUid, node: NodeName, claims: tuple[NodeAllocatableClaim, ...] = ()) -> None:
        """Count the pod on `node` before its binding is observed, with what its claims take of the node."""
        self.assumed[uid] = node
        self.assumed_claims.pop(uid, None)
        if claims:
            self.assumed_claims[uid] = claims
        self._count(uid)

    def node_of(self, uid: PodUid) -> NodeName | None:
        """The node the pod counts on; rule 3."""
        return self._counted_on.get(uid)

    def forget_assumed(self, uid: PodUid) -> None:
        """Undo `assume`; harmless when the binding has been observed meanwhile."""
        if self.assumed.pop(uid, None) is not None:
            self.assumed_claims.pop(uid, None)
            self._count(uid)

    def as_counted(self, pod: Pod) -> Pod:
        """The pod as it counts on its node: while it is assumed, its claims take what was found for them."""
        if pod.spec.node_name:
            return pod
        claims = self.assumed_claims.get(pod.uid) if self.assumed_claims else None
        if not claims and not pod.status.node_allocatable_resource_claim_statuses:
            return pod
        status = replace(pod.status, node_allocatable_resource_claim_statuses=claims)
        return replace(pod, status=status)

    def pods_using(self, claim: ClaimKey) -> Sequence[Pod]:
        users = self._pods_by_claim.get(claim)
        return [self.pods[uid] for uid in users] if users else []

    def users_of(self, claim: ClaimKey) -> Sequence[PodUid]:
        return tuple(self._pods_by_claim.get(claim, ()))

    def claims_of(self, uid: PodUid) -> tuple[ClaimKey, ...]:
        """The claims that a known pod refers to by name, as far as they have names yet."""
        return self._claims_by_pod.get(uid, ())

    def _link_claims(self, pod: Pod) -> None:
        claims = claims_of(pod)
        if claims:
            self._claims_by_pod[pod.uid] = claims
            for claim in claims:
                self._pods_by_claim.setdefault(claim, {})[pod.uid] = None

    def _unlink_claims(self, uid: PodUid) -> None:
        for claim in self._claims_by_pod.pop(uid, ()):
            drop(self._pods_by_claim, claim, uid)

    def _count(self, uid: PodUid) -> None:
        """Bring the pod's place in node sums in line with what is known of it."""
        pod = self.pods.get(uid)
        node = None if pod is None or pod.is_terminal else pod.node_name or self.assumed.get(uid)
        if (pod is not None and pod.status.nominated_node_name) or self.nominations.concerns(uid):
            self._nominate(uid, pod, is_waiting=node is None)
        counted = self._counted_on.get(uid)
        if counted is not None and counted != node:
            del self._counted_on[uid]
            self.priorities.remove(self._counted_by_node[counted][uid].priority)
            drop(self._counted_by_node, counted, uid)
            info = self.node_infos.get(counted)
            if info is not None:
                info.remove_pod(uid)
                self._repopulate(info)
        if node is None:
            return
        assert pod is not None
        if self.assumed_claims or pod.status.node_allocatable_resource_claim_statuses:
            pod = self.as_counted(pod)
        here = self._counted_by_node.setdefault(node, {})
        before = here.get(uid)
        if before is None or before.priority != pod.priority:
            self.priorities.add(pod.priority)
            if before is not None:
                self.priorities.remove(before.priority)
        here[uid] = pod
        self._counted_on[uid] = node
        info = self.node_infos.get(node)
        if info is None or before is pod:
            return
        if before is not None and _looks_alike(before, pod):
            info.pods[uid] = pod
            return
        info.add_pod(pod)
        self._repopulate(info)

    def _nominate(self, uid: PodUid, pod: Pod | None, *, is_waiting: bool, is_kept_anew: bool = False) -> None:
        wanted = self.nominations.wanted(pod) if pod is not None and is_waiting and not pod.is_terminal else ""
        for name in self.nominations.set(uid, pod, wanted, is_kept_anew=is_kept_anew):
            info = self.node_infos.get(name)
            if info is not None:
                self._touch(info)

    def renominate(self, uid: PodUid) -> None:
        """What the nominations know of the pod beside its status has changed."""
        self._nominate(uid, self.pods.get(uid), is_waiting=uid not in self._counted_on, is_kept_anew=True)

    # Nodes

    @property
    def node_order(self) -> tuple[NodeName, ...]:
        """All node names, sorted."""
        if self._node_order_now is None:
            self._node_order_now = tuple(self._node_order)
        return self._node_order_now

    def observe_node(self, node: Node) -> Node | Unchanged | None:
        """The state this one replaces, None for a new node, UNCHANGED also when no plugin can see a difference."""
        name = node.name
        if not self._node_versions.observe(name, node.metadata.revision):
            return UNCHANGED
        has_other_images = self.images.observe(name, node.status.images or ())
        if node.status.images is not None:
            node = replace(node, status=replace(node.status, images=None))
        info = self.node_infos.get(name)
        if info is None:
            info = self.node_infos[name] = NodeInfo(node)
            insort(self._node_order, name)
            self._node_order_now = None
            for pod in self._counted_by_node.get(name, {}).values():
                info.add_pod(pod)
            self._repopulate(info)
            return None
        old, info.node = info.node, node
        before, after = old.metadata, node.metadata
        if (
            not has_other_images
            and old.spec == node.spec
            and old.status == node.status
            and before.labels == after.labels
            and before.annotations == after.annotations
            and before.uid == after.uid
        ):
            return UNCHANGED
        self._repopulate(info)
        return old

    def delete_node(self, name: NodeName, revision: int) -> Node | None:
        """The last state of the node, None when it was not known or the deletion is older than what is."""
        if not self._node_versions.delete(name, revision):
            return None
        node = self.node_infos.pop(name).node
        self.images.forget(name)
        del self._node_order[bisect_left(self._node_order, name)]
        self._node_order_now = None
        self.changes.note(name)
        self.population.note(name)
        return node

    def _repopulate(self, info: NodeInfo) -> None:
        """Note that the node itself or its pods changed."""
        self.population.note(info.name)
        self._touch(info)

    def _touch(self, info: NodeInfo) -> None:
        self._generation += 1
        info.generation = self._generation
        self.changes.note(info.name)

    # Claims

    def observe_claim(self, claim: ResourceClaim) -> ResourceClaim | Unchanged | None:
        """What `ObjectsByUid.observe` says."""
        old = self.claims.observe(claim.uid, claim.revision, claim)
        if old is UNCHANGED:
            return old
        if old is None or old.spec is not claim.spec or (old.allocation is None) is not (claim.allocation is None):
            self._want(claim, 1)
            if old is not None:
                self._want(old, -1)
        if old is None:
            self._claim_names.setdefault(claim.key.namespace, {})[claim.uid] = claim.key.name
        return old

    def delete_claim(self, uid: ClaimUid, revision: int) -> ResourceClaim | None:
        """The last state of the claim, None when it was not known or the deletion is older than what is."""
        claim = self.claims.delete(uid, revision)
        if claim is not None:
            self._want(claim, -1)
            drop(self._claim_names, claim.key.namespace, uid)
        return claim

    def claim_names(self, namespace: str) -> Collection[str]:
        return self._claim_names.get(namespace, {}).values()

    def _want(self, claim: ResourceClaim, change: int) -> None:
        """Count the claims of a spec that still want devices; when it is none, what is remembered for it may go."""
        spec = claim.spec
        if spec is None or claim.allocation is not None:
            return
        wanting = self._wanting.get(spec, 0) + change
        if wanting:
            self._wanting[spec] = wanting
        else:
            self._wanting.pop(spec, None)
            self.inventory.plans.retire(spec)

    # Slices and classes

    def observe_slice(self, slice_: ResourceSlice, revision: int) -> ResourceSlice | Unchanged | None:
        """The state this one replaces, None for a new slice. Tainted by rules."""
        if not self._slice_versions.observe(slice_.name, revision):
            return UNCHANGED
        old = self.inventory.slices.get(slice_.name)
        self._touch_named(self.tainted.put_slice(slice_))
        return old

    def delete_slice(self, name: str, revision: int) -> ResourceSlice | None:
        """The last state of the slice, None when it was not known or the deletion is older than what is."""
        if not self._slice_versions.delete(name, revision):
            return None
        old = self.inventory.slices[name]
        self._touch_named(self.tainted.remove_slice(name))
        return old

    def observe_taint_rule(self, rule: DeviceTaintRule, revision: int) -> list[tuple[ResourceSlice, ResourceSlice]]:
        """The slices, before and after, whose devices the rule taints differently now."""
        if not self._taint_rule_versions.observe(rule.name, revision):
            return []
        return self._touch_tainted(self.tainted.put_rule(rule))

    def delete_taint_rule(self, name: str, revision: int) -> list[tuple[ResourceSlice, ResourceSlice]]:
        """The slices, before and after, that lose the rule's taint."""
        if not self._taint_rule_versions.delete(name, revision):
            return []
        return self._touch_tainted(self.tainted.remove_rule(name))

    def _touch_tainted(self, puts: Iterable[Put]) -> list[tuple[ResourceSlice, ResourceSlice]]:
        changed = []
        for put in puts:
            self._touch_named(put.nodes)
            changed.append((put.old, put.new))
        return changed

    def touch_pool(self, pool: PoolId) -> None:
        """Note that devices of `pool` came into or out of use, on every node that can see the pool."""
        slices = self.inventory.slices_of_pool(pool)
        # What nobody publishes now may still count, on the node whose name such pools have (`two_stacks`).
        nodes: dict[str, None] = {} if slices else {pool.pool: None}
        for slice_ in slices.values():
            if len(slices) == 1 and slice_.node_name:
                self._touch_named((slice_.node_name,))
                return
            if slice_.node_name:
                nodes[slice_.node_name] = None
            elif slice_.per_device_node_selection and all(device.node_name for device in slice_.devices):
                nodes.update((device.node_name, None) for device in slice_.devices if device.node_name)
            else:
                self._touch_named(None)
                return
        self._touch_named(nodes)

    def _touch_named(self, nodes: Collection[str] | None) -> None:
        """Touch these nodes in a fixed order, or all for None."""
        if nodes is None:
            self._generation += 1
            for every in self.node_infos.values():
                every.generation = self._generation
            # One entry for all: readers start over, which costs them what they look at and not what there is.
            self.changes.note_all()
            return
        for name in sorted(nodes) if len(nodes) > 1 else nodes:
            info = self.node_infos.get(NodeName(name))
            if info is not None:
                self._touch(info)

    def observe_class(self, device_class: DeviceClass, revision: int) -> DeviceClass | Unchanged | None:
        """The state this one replaces, None for a new class."""
        if not self._class_versions.observe(device_class.name, revision):
            return UNCHANGED
        old = self.inventory.classes.get(device_class.name)
        self.inventory.put_class(device_class)
        self._touch_named(None)
        return old

    def delete_class(self, name: str, revision: int) -> DeviceClass | None:
        """The last state of the class, None when it was not known or the deletion is older than what is."""
        if not self._class_versions.delete(name, revision):
            return None
        old = self.inventory.classes[name]
        self.inventory.remove_class(name)
        self._touch_named(None)
        return old

    # Volumes

    def observe_storage(self, new: AnyStorageObject) -> AnyStorageObject | Unchanged | None:
        """What `StorageObjects.observe` says."""
        old = self.storage.observe(new)
        if old is not UNCHANGED:
            self._touch_named(self.storage.nodes_that_see(old, new))
        return old

    def delete_storage(self, kind: str, key: ObjectKey, revision: int) -> AnyStorageObject | None:
        """The last state of the object, None when it was not known or the deletion is older than what is."""
        old = self.storage.delete(kind, key, revision)
        if old is not None:
            self._touch_named(self.storage.nodes_that_see(old, None))
        return old

    # For `invariants`

    def claim_users(self) -> Mapping[ClaimKey, Mapping[PodUid, None]]:
        return self._pods_by_claim


def claims_of(pod: Pod) -> tuple[ClaimKey, ...]:
    """The claims that `pod` refers to by name, as far as they have names yet; last the name of its special claim."""
    entries = pod.spec.resource_claims
    special = (special_claim_key(pod),) if asks_extended_resources(pod) else ()
    if not entries:
        return special
    namespace = pod.metadata.namespace
    generated = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses or ()}
    claims: dict[ClaimKey, None] = {}
    for entry in entries:
        name = entry.resource_claim_name or generated.get(entry.name)
        if name:
            claims[ClaimKey(namespace, name)] = None
    return (*claims, *special)


def _remembered_bytes(nodes: int) -> int:
    """How much may be remembered in a cluster of so many nodes: 37 MiB for 100, 266 MiB for 5,000."""
    return min(32 * 2**20 + 48 * 2**10 * nodes, 512 * 2**20)


def _looks_alike(before: Pod, after: Pod) -> bool:
    """Whether no plugin can distinguish the two states of a pod, both counted on the same node."""
    if before.metadata.labels != after.metadata.labels or before.is_deleting != after.is_deleting:
        return False
    old, new = before.spec, after.spec
    was = before.status.node_allocatable_resource_claim_statuses
    now = after.status.node_allocatable_resource_claim_statuses
    if was is not now and was != now and (was or now):
        return False
    return (old == new or replace(old, node_name=new.node_name) == new) and _takes_the_same(before, after)


def _takes_the_same(before: Pod, after: Pod) -> bool:
    """Whether pods of equal specs count alike on their node; they do not while one is resized."""
    was, now = before.status, after.status
    if not (was.container_statuses or now.container_statuses or was.resources or now.resources):
        return not (was.init_container_statuses or now.init_container_statuses)
    return counted_amounts(before) == counted_amounts(after)
