"""What plugins may read: the store and the overlay behind the plugins' own interface."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from allocator import Features, InUse, Inventory
from scheduler.core.claims import ClaimOverlay
from scheduler.core.store import Store
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import ClaimKey, ClaimUid, NodeName, PodGroupKey, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Namespace, Pod
from scheduler.model.pod_group import PodGroup


@dataclass(frozen=True, slots=True)
class CoreView:
    """Satisfies `framework.api.ClusterView`. Nothing is copied: within one `handle` nothing changes behind a plugin."""

    store: Store
    overlay: ClaimOverlay
    new_uid: Callable[[], str]

    @property
    def features(self) -> Features:
        return self.store.features

    @property
    def inventory(self) -> Inventory:
        return self.store.inventory

    @property
    def in_use(self) -> InUse:
        return self.overlay.in_use

    @property
    def node_infos(self) -> Mapping[NodeName, NodeInfo]:
        return self.store.node_infos

    def claim(self, key: ClaimKey) -> ResourceClaim | None:
        return self.store.claim(key)

    def is_held(self, claim: ClaimUid) -> bool:
        return self.overlay.is_held(claim)

    def pod(self, uid: PodUid) -> Pod | None:
        return self.store.pods.get(uid)

    def namespace(self, name: str) -> Namespace | None:
        return self.store.namespaces.get(name)

    def pod_group(self, key: PodGroupKey) -> PodGroup | None:
        return self.store.pod_groups.get(key)

    def pods_using(self, claim: ClaimKey) -> Iterable[Pod]:
        return self.store.pods_using(claim)
