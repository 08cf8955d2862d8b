"""What plugins may read: the store and the overlay behind the plugins' own interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final

from allocator import Allocation, DeviceId, DeviceTaint, Features, Inventory, Ledger
from scheduler.core.state.claim_overlay import ClaimOverlay
from scheduler.core.state.pod_selector_objects import selector_of
from scheduler.core.state.running_groups import running_group
from scheduler.core.state.store import Store
from scheduler.framework.pod_counts_view import PodCountsView
from scheduler.framework.preemption import Preemption, RunningGroup
from scheduler.framework.storage_view import StorageView
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import ClaimKey, ClaimUid, NodeName, PodGroupKey, PodKey, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import LabelSelector, Namespace, Pod
from scheduler.model.pod_group import PodGroup
from scheduler.model.stacks import REFUSING, Stacks

_RULES_READ_MAX: Final = 1_000
_HOLDERS_READ_MAX: Final = 200
_CLAIMS_READ_MAX: Final = 5_000
"""Of a namespace: half a millisecond."""


class CoreView:
    """Satisfies the plugins' `ClusterView`. Nothing is copied: within one `handle` nothing changes behind a plugin.

    What is asked for often is handed over as it is, without a call in between.
    """

    def __init__(
        self, store: Store, overlay: ClaimOverlay, new_uid: Callable[[], str], stacks: Stacks = REFUSING
    ) -> None:
        self._store: Final = store
        self._overlay: Final = overlay
        self.features: Final[Features] = store.features
        self.stacks: Final = stacks
        # Others while something is supposed (`supposition`).
        self.inventory: Inventory = store.inventory
        self.in_use: Ledger = overlay.in_use
        self.node_infos: Final[Mapping[NodeName, NodeInfo]] = store.node_infos
        self.storage: Final[StorageView] = store.storage
        self.pod_counts: Final[PodCountsView] = store.pod_counts
        self.claim = store.claim
        self.image = store.images.find
        self.disruption_budgets = store.disruption_budgets.of
        self.users_of = store.users_of
        self.claims_of = store.claims_of
        self.node_of = store.node_of
        self.gang_members = store.gangs.of
        self.group_size = store.gangs.size
        self.new_uid = new_uid

    def claim_names(self, namespace: str) -> Sequence[str]:
        return list(islice(self._store.claim_names(namespace), _CLAIMS_READ_MAX))

    def holders(self, device: DeviceId) -> Sequence[ResourceClaim]:
        held, claims = self._overlay.double_allocations.holders.get(device, {}), self._store.claims
        return [claim for uid in islice(held, _HOLDERS_READ_MAX) if (claim := claims.get(uid)) is not None]

    def taint_rule(self, device: DeviceId, taint: DeviceTaint) -> str:
        rules = islice(self._store.tainted.rules.values(), _RULES_READ_MAX)
        return min((one.name for one in rules if one.taint == taint and one.matches(device)), default="")

    def pod_named(self, key: PodKey) -> Pod | None:
        return self._store.pods.by_key(key)

    def is_held(self, claim: ClaimUid) -> bool:
        return self._overlay.is_held(claim)

    def counted(self, claim: ClaimUid) -> Sequence[Allocation]:
        return self._overlay.counted.get(claim, ())

    def pod(self, uid: PodUid) -> Pod | None:
        return self._store.pods.get(uid)

    def preemption_of(self, uid: PodUid) -> Preemption | None:
        return self._store.nominations.preempting.get(uid)

    def knows_disruption_budgets(self) -> bool:
        return self._store.disruption_budgets.is_readable

    def running_group(self, pod: Pod) -> RunningGroup | None:
        return running_group(self._store, pod)

    def awaiting_release(self, claim: ClaimKey) -> Pod | None:
        waiting = self._store.nominations.awaited.get(claim)
        if not waiting:
            return None
        pods = [pod for uid in waiting if (pod := self._store.pods.get(uid)) is not None]
        return max(pods, key=lambda pod: pod.priority, default=None)

    def was_awaited_in_vain(self, claim: ClaimKey) -> bool:
        return claim in self._store.nominations.given_away

    def namespace(self, name: str) -> Namespace | None:
        return self._store.namespaces.get(name)

    def selectors_of(self, pod: Pod) -> LabelSelector | None:
        return selector_of(pod, self._store.services, self._store.kept)

    def pod_group(self, key: PodGroupKey) -> PodGroup | None:
        return self._store.pod_groups.get(key)
