"""Volumes, claims for them, classes and CSI objects as observed, with the indexes that plugins read.

Rules of this module
  1. The newest revision wins (`versions`).
  2. What is assumed of a volume or a claim stands until something newer is observed, or until it is taken back. It
     changes the indexes as if it had been observed.
  3. Each StorageClass has a version of its available volumes: those that any claim may still have. Rolling back an
     assumed volume restores the version it had, so remembered answers stay valid.

Not here: which nodes are touched by a change (`store`).

Cost: O(1) per object, but O(log n) and a shift for the names of one class. The volumes of a class are listed anew after
a change of its version, when somebody asks.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, TypeVar

from scheduler.core.ground.indexes import drop
from scheduler.core.ground.newest_objects import UNCHANGED, Unchanged
from scheduler.core.ground.versions import Versions
from scheduler.model.keys import NodeName, ObjectKey, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.model.storage import (
    AnyStorageObject,
    CapacitiesOfClass,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
    VolumesOfClass,
    claim_of_volume,
    volume_claims,
)

_T = TypeVar("_T")
_NO_VOLUMES: Final = VolumesOfClass()
_NO_CAPACITIES: Final = CapacitiesOfClass()
_VERSIONS_MAX: Final = 512
"""Versions of one class that may come back."""
_AWAY_MAX: Final = 256
"""With more volumes assumed to be in use each version is a new one."""
_NAMES_READ_MAX: Final = 5_000
STORAGE_KINDS: Final[dict[str, type]] = {
    one.__name__: one
    for one in (
        *(PersistentVolume, PersistentVolumeClaim, StorageClass, CSINode),
        *(CSIDriver, CSIStorageCapacity, VolumeAttachment),
    )
}


class _Group:
    """The members of one index entry in order of keys, with a version; the members' values are kept elsewhere."""

    __slots__ = ("keys", "listed", "version")

    def __init__(self, version: int) -> None:
        self.keys: list[ObjectKey] = []
        self.version = version
        self.listed: Any = None


class StorageObjects:
    """Satisfies `framework.storage_view.StorageView`. What is read of pods and nodes belongs to the store."""

    def __init__(self, counted_on: Mapping[PodUid, NodeName], node_infos: Mapping[NodeName, NodeInfo]) -> None:
        """Args:
        counted_on: The node of each pod that has one, or is assumed on one.
        """
        self._counted_on: Final = counted_on
        self._node_infos: Final = node_infos
        self._volumes: Final[dict[ObjectKey, PersistentVolume]] = {}
        self._claims: Final[dict[ObjectKey, PersistentVolumeClaim]] = {}
        self._claim_names: Final[dict[str, dict[str, None]]] = {}
        self._classes: Final[dict[ObjectKey, StorageClass]] = {}
        self._csi_nodes: Final[dict[ObjectKey, CSINode]] = {}
        self._csi_drivers: Final[dict[ObjectKey, CSIDriver]] = {}
        self._attachments: Final[dict[ObjectKey, VolumeAttachment]] = {}
        self._objects: Final[dict[type, dict[ObjectKey, Any]]] = {
            PersistentVolume: self._volumes,
            PersistentVolumeClaim: self._claims,
            StorageClass: self._classes,
            CSINode: self._csi_nodes,
            CSIDriver: self._csi_drivers,
            CSIStorageCapacity: {},
            VolumeAttachment: self._attachments,
        }
        self._versions: Final[Versions[tuple[type, ObjectKey]]] = Versions(may_return=True)
        # What was observed last of the objects that something is assumed of.
        self._observed: Final[dict[tuple[type, ObjectKey], AnyStorageObject]] = {}
        self._groups: Final[dict[tuple[type, str], _Group]] = {}
        # Volumes that are not to be had only because of what is assumed, and versions by them, as observed at present.
        self._away: Final[dict[str, frozenset[ObjectKey]]] = {}
        self._versions_by_away: Final[dict[str, dict[frozenset[ObjectKey], int]]] = {}
        self._last_version = 0
        self._claimed: Final[dict[ObjectKey, dict[str, None]]] = {}
        self._attached: Final[dict[str, dict[ObjectKey, None]]] = {}
        self._users: Final[dict[ObjectKey, dict[PodUid, None]]] = {}
        self._supposed: dict[ObjectKey, int] = {}

    # For plugins

    def persistent_volume(self, name: str) -> PersistentVolume | None:
        return self._volumes.get(ObjectKey("", name))

    def persistent_volumes_of_class(self, class_name: str) -> VolumesOfClass:
        return self._of_class(PersistentVolume, class_name, VolumesOfClass, _NO_VOLUMES)

    def persistent_volumes_claimed_for(self, claim: ObjectKey) -> Sequence[PersistentVolume]:
        names = self._claimed.get(claim)
        return [self._volumes[ObjectKey("", name)] for name in sorted(names)] if names else ()

    def persistent_volume_claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        return self._claims.get(ObjectKey(namespace, name))

    def stored_volume(self, name: str) -> PersistentVolume | None:
        stored = self._observed.get((PersistentVolume, ObjectKey("", name)))
        return stored if isinstance(stored, PersistentVolume) else self.persistent_volume(name)

    def stored_claim(self, key: ObjectKey) -> PersistentVolumeClaim | None:
        stored = self._observed.get((PersistentVolumeClaim, key))
        return stored if isinstance(stored, PersistentVolumeClaim) else self._claims.get(key)

    def users_of(self, claim: ObjectKey) -> Sequence[PodUid]:
        return tuple(self._users.get(claim, ()))

    def is_used_on_a_node(self, claim: ObjectKey) -> bool:
        return any(self._counted_on.get(uid) in self._node_infos for uid in self._users.get(claim, ()))

    def supposed_uses(self, claim: ObjectKey) -> int:
        return self._supposed.get(claim, 0)

    @contextmanager
    def as_if(self, *, added: Iterable[Pod], removed: Iterable[Pod]) -> Iterator[None]:
        """While it lasts, these pods count as users of their claims, or count no more: once for each volume."""
        for pods, sign in ((added, 1), (removed, -1)):
            for pod in pods:
                for volume in pod.spec.volumes or ():
                    claim = ObjectKey(pod.metadata.namespace, claim_of_volume(pod, volume) or "")
                    self._supposed[claim] = self._supposed.get(claim, 0) + sign
        try:
            yield
        finally:
            self._supposed = {}

    def storage_class(self, name: str) -> StorageClass | None:
        return self._classes.get(ObjectKey("", name))

    def claim_names(self, namespace: str) -> Sequence[str]:
        return list(islice(self._claim_names.get(namespace, ()), _NAMES_READ_MAX))

    def class_names(self) -> Sequence[str]:
        return [key.name for key in islice(self._classes, _NAMES_READ_MAX)]

    def csi_node(self, name: str) -> CSINode | None:
        return self._csi_nodes.get(ObjectKey("", name))

    def csi_driver(self, name: str) -> CSIDriver | None:
        return self._csi_drivers.get(ObjectKey("", name))

    def csi_storage_capacities(self, class_name: str) -> CapacitiesOfClass:
        return self._of_class(CSIStorageCapacity, class_name, CapacitiesOfClass, _NO_CAPACITIES)

    def volume_attachments(self, node: NodeName) -> Sequence[VolumeAttachment]:
        keys = self._attached.get(node)
        return [self._attachments[key] for key in sorted(keys)] if keys else ()

    # For the core

    def observe(self, new: AnyStorageObject) -> AnyStorageObject | Unchanged | None:
        """The state this one replaces (an assumed one included), None for a new object, UNCHANGED for nothing new."""
        kind, key = type(new), new.key
        if not self._versions.observe((kind, key), new.revision):
            return UNCHANGED
        self._no_longer_away(self._observed.pop((kind, key), None))
        return self._put(new)

    def delete(self, kind: str, key: ObjectKey, revision: int) -> AnyStorageObject | None:
        """The last state, None when the object was not known or the deletion is older than what is."""
        of = STORAGE_KINDS[kind]
        if not self._versions.delete((of, key), revision):
            return None
        self._no_longer_away(self._observed.pop((of, key), None))
        old: AnyStorageObject = self._objects[of].pop(key)
        self._unlink(old)
        return old

    def assume(self, new: PersistentVolume | PersistentVolumeClaim) -> bool:
        """Let `new` stand for what was observed; False when it was made from a state that is not the newest."""
        kind, key = type(new), new.key
        if self._versions.newest((kind, key)) != new.revision:
            return False
        old = self._objects[kind][key]
        self._suppose(old, new)
        self._observed.setdefault((kind, key), old)
        return True

    def forget_assumed(self, kind: type[PersistentVolume] | type[PersistentVolumeClaim], key: ObjectKey) -> None:
        """Undo `assume`: what was observed stands again."""
        observed = self._observed.pop((kind, key), None)
        if observed is not None:
            self._suppose(self._objects[kind][key], observed)

    def _suppose(self, old: AnyStorageObject, new: AnyStorageObject) -> None:
        """Put `new` in the stead of `old`. Neither is news, so the version of the class follows from who is away."""
        before, after = _group_name(old), _group_name(new)
        name = before if after is None else after
        if name is None or (before is None) is (after is None):
            self._put(new)
            return
        at, away = (type(new), name), self._away.get(name, frozenset())
        versions = self._versions_by_away.get(name, {})
        versions.setdefault(away, self._version_of(at))
        self._put(new)
        away = away | {new.key} if after is None else away - {new.key}
        version = versions.setdefault(away, self._version_of(at))
        if at in self._groups:
            self._groups[at].version = version
        if len(versions) > _VERSIONS_MAX:
            del versions[next(iter(versions))]
        self._away[name] = away
        if len(away) <= _AWAY_MAX:
            self._versions_by_away[name] = versions

    def _version_of(self, at: tuple[type, str]) -> int:
        group = self._groups.get(at)
        return group.version if group is not None else 0

    def _no_longer_away(self, observed: AnyStorageObject | None) -> None:
        """What was observed of an object before something was assumed of it does not count any more."""
        name = _group_name(observed) if isinstance(observed, PersistentVolume) else None
        if observed is not None and name is not None and observed.key in self._away.get(name, ()):
            self._away[name] -= {observed.key}
            self._versions_by_away.pop(name, None)

    def newest_revision(self, kind: type, key: ObjectKey) -> int | None:
        """Of what was observed, whatever is assumed; None for an object that is not known, or is gone."""
        return self._versions.newest((kind, key))

    def link_pod(self, pod: Pod) -> None:
        """Remember that `pod` uses its claims; pods' volumes never change."""
        for claim in volume_claims(pod):
            self._users.setdefault(claim, {})[pod.uid] = None

    def unlink_pod(self, pod: Pod) -> None:
        for claim in volume_claims(pod):
            drop(self._users, claim, pod.uid)

    def nodes_that_see(self, old: AnyStorageObject | None, new: AnyStorageObject | None) -> Collection[str] | None:
        """The nodes about which a plugin may answer differently after this change; None for all."""
        one = new if new is not None else old
        match one:
            case CSINode():
                return (one.name,)
            case VolumeAttachment():
                return {at.spec.node_name for at in (old, new) if isinstance(at, VolumeAttachment)}
            case StorageClass():
                is_other = old is None or new is None or _provisioner(old) != _provisioner(new)
                return None if is_other else ()
            case PersistentVolumeClaim():
                return self._nodes_of_users(one.key) if _binding(old) != _binding(new) else ()
            case PersistentVolume() if one.spec.claim_ref is not None:
                reference = one.spec.claim_ref
                return self._nodes_of_users(ObjectKey(reference.namespace, reference.name))
            case _:
                return ()

    def users_of_changed(self, *states: AnyStorageObject | None) -> Collection[PodUid]:
        """The pods whose claim it is, or whose claim the volume is or was promised to."""
        users: dict[PodUid, None] = {}
        for one in states:
            if isinstance(one, PersistentVolumeClaim):
                users.update(self._users.get(one.key, {}))
            elif isinstance(one, PersistentVolume) and one.spec.claim_ref is not None:
                reference = one.spec.claim_ref
                users.update(self._users.get(ObjectKey(reference.namespace, reference.name), {}))
        return tuple(users)

    def _of_class(self, kind: type, class_name: str, listed: Callable[[int, tuple[Any, ...]], _T], empty: _T) -> _T:
        group = self._groups.get((kind, class_name))
        if group is None:
            return empty
        if group.listed is None:
            objects = self._objects[kind]
            group.listed = listed(group.version, tuple([objects[key] for key in group.keys]))
        found: _T = group.listed
        return found

    def _nodes_of_users(self, claim: ObjectKey) -> Collection[str]:
        users = self._users.get(claim, ())
        return {node for uid in users if (node := self._counted_on.get(uid)) is not None}

    # Indexes

    def _put(self, new: AnyStorageObject) -> AnyStorageObject | None:
        objects = self._objects[type(new)]
        old: AnyStorageObject | None = objects.get(new.key)
        if old is not None and _place(old) == _place(new):
            objects[new.key] = new
            # The list holds the objects themselves; its version stays.
            if (group := self._group_of(new)) is not None:
                group.listed = None
            return old
        if old is not None:
            self._unlink(old)
        objects[new.key] = new
        self._link(new)
        return old

    def _group_of(self, one: AnyStorageObject) -> _Group | None:
        name = _group_name(one)
        return self._groups.get((type(one), name)) if name is not None else None

    def _link(self, new: AnyStorageObject) -> None:
        name = _group_name(new)
        if name is not None:
            group = self._groups.get((type(new), name))
            if group is None:
                group = self._groups[type(new), name] = _Group(self._next_version())
            insort(group.keys, new.key)
            self._has_changed(group, name)
        if isinstance(new, PersistentVolume) and new.spec.claim_ref is not None:
            ref = new.spec.claim_ref
            self._claimed.setdefault(ObjectKey(ref.namespace, ref.name), {})[new.name] = None
        elif isinstance(new, PersistentVolumeClaim):
            self._claim_names.setdefault(new.key.namespace, {})[new.key.name] = None
        elif isinstance(new, VolumeAttachment):
            self._attached.setdefault(new.spec.node_name, {})[new.key] = None

    def _unlink(self, old: AnyStorageObject) -> None:
        name = _group_name(old)
        if name is not None:
            group = self._groups[type(old), name]
            del group.keys[bisect_left(group.keys, old.key)]
            self._has_changed(group, name)
            if not group.keys:
                del self._groups[type(old), name]
        if isinstance(old, PersistentVolume) and old.spec.claim_ref is not None:
            ref = old.spec.claim_ref
            drop(self._claimed, ObjectKey(ref.namespace, ref.name), old.name)
        elif isinstance(old, PersistentVolumeClaim):
            drop(self._claim_names, old.key.namespace, old.key.name)
        elif isinstance(old, VolumeAttachment):
            drop(self._attached, old.spec.node_name, old.key)

    def _has_changed(self, group: _Group, name: str) -> None:
        group.version, group.listed = self._next_version(), None
        self._versions_by_away.pop(name, None)

    def _next_version(self) -> int:
        self._last_version += 1
        return self._last_version


def _provisioner(one: AnyStorageObject) -> str:
    return one.provisioner if isinstance(one, StorageClass) else ""


def _binding(one: AnyStorageObject | None) -> object:
    """To which volume a claim is bound, and where a volume that it still wants would come from."""
    if not isinstance(one, PersistentVolumeClaim):
        return None
    return (one.spec.volume_name, one.is_bound, one.class_name)


def _group_name(one: AnyStorageObject) -> str | None:
    """The class under which the object is listed."""
    if isinstance(one, PersistentVolume):
        return one.class_name if one.is_available else None
    return one.storage_class_name if isinstance(one, CSIStorageCapacity) else None


def _place(one: AnyStorageObject) -> object:
    """What the indexes depend on: equal places, equal entries and versions."""
    if isinstance(one, PersistentVolume):
        reference = one.spec.claim_ref
        where = (reference.namespace, reference.name) if reference is not None else None
        return (_group_name(one), where, (one.spec, one.labels) if one.is_available else None)
    if isinstance(one, CSIStorageCapacity):
        return (one.storage_class_name, one.node_topology, one.capacity, one.maximum_volume_size)
    return one.spec.node_name if isinstance(one, VolumeAttachment) else None
