"""The volume overlay: volumes that are promised, and nodes that are selected, by our own bindings under way.

What is held is seen by all as if it had been observed (`StorageObjects.assume`): a later cycle gives a held volume to
no other claim, and sends no user of a claim to another node than the one that is held for it.

Rules of this module
  1. A hold stands until what it holds is observed, or something that excludes it. Any other change of the object, seen
     while our write is under way, leaves it standing.
  2. It ends, too, when its pod is bound or given up; nobody gives up on a write before its outcome is known
     (`volume_writes`). Nothing that is stored is taken back. Another pod with the same claim, which relied on the hold,
     finds that out in PreBind.

Cost: O(1) for each hold and observation.

Source: pkg/scheduler/framework/plugins/volumebinding/passive_assume_cache.go v1.36.3. Differs on purpose: there, any
newer state of an object ends what is assumed of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from msgspec import Struct, structs

from scheduler.core.ground.indexes import drop
from scheduler.core.state.store import Store
from scheduler.model.keys import ObjectKey, PodUid
from scheduler.model.storage import SELECTED_NODE, PersistentVolume, PersistentVolumeClaim

Holdable: TypeAlias = PersistentVolume | PersistentVolumeClaim


class StorageHold(Struct, eq=False):
    """An object as it will be written, and for whom."""

    held: Holdable
    pod: PodUid


class VolumeOverlay:
    """Holds on volumes (which are in no namespace) and claims."""

    def __init__(self, store: Store) -> None:
        self._storage: Final = store.storage
        self._holds: Final[dict[ObjectKey, StorageHold]] = {}
        self._by_pod: Final[dict[PodUid, dict[ObjectKey, None]]] = {}

    @property
    def holds(self) -> Mapping[ObjectKey, StorageHold]:
        return self._holds

    def hold(self, pod: PodUid, objects: Iterable[Holdable]) -> None:
        """Let these stand for what is observed. They must have been made from what is seen now."""
        for held in objects:
            key = held.key
            assert key not in self._holds, f"{type(held).__name__} {key} is held already"
            self._holds[key] = StorageHold(held, pod)
            self._by_pod.setdefault(pod, {})[key] = None
            self._assume(held)

    def may_hold_again(self, held: Holdable) -> bool:
        """Whether a hold that has ended can be made again: nobody holds the object, and it is the one held before."""
        seen = self._seen(held)
        return (
            held.key not in self._holds
            and seen is not None
            and (seen.metadata.uid, seen.revision) == (held.metadata.uid, held.revision)
        )

    def release(self, pod: PodUid) -> list[tuple[Holdable, Holdable]]:
        """End the pod's holds. The objects that are seen as they are stored again, each as it was held and is now."""
        changed = []
        for key in tuple(self._by_pod.get(pod, ())):
            held = self._holds[key].held
            self._drop(key)
            self._storage.forget_assumed(type(held), key)
            now = self._seen(held)
            assert now is not None
            changed.append((held, now))
        return changed

    def observe(self, key: ObjectKey) -> None:
        """Bring the hold in line with an object that the store has just taken over, or has lost."""
        hold = self._holds.get(key)
        if hold is None:
            return
        seen = self._seen(hold.held)
        if seen is None or seen.metadata.uid != hold.held.metadata.uid or _is_settled(seen, hold.held):
            self._drop(key)
        else:
            hold.held = _as_held(seen, hold.held)
            self._assume(hold.held)

    def problems(self) -> Iterator[str]:
        """What contradicts itself (for `invariants`)."""
        for key, hold in self._holds.items():
            if self._seen(hold.held) != hold.held:
                yield f"{type(hold.held).__name__} {key} is not seen as it is held"

    def _drop(self, key: ObjectKey) -> None:
        drop(self._by_pod, self._holds.pop(key).pod, key)

    def _seen(self, held: Holdable) -> Holdable | None:
        if isinstance(held, PersistentVolume):
            return self._storage.persistent_volume(held.name)
        return self._storage.persistent_volume_claim(*held.key)

    def _assume(self, held: Holdable) -> None:
        is_newest = self._storage.assume(held)
        assert is_newest, f"{type(held).__name__} {held.key} has changed"


def _as_held(seen: Holdable, held: Holdable) -> Holdable:
    """The newest state of the object with what is held of it."""
    if isinstance(seen, PersistentVolume):
        assert isinstance(held, PersistentVolume)
        return structs.replace(seen, spec=structs.replace(seen.spec, claim_ref=held.spec.claim_ref))
    annotations = seen.annotations | {SELECTED_NODE: held.annotations[SELECTED_NODE]}
    return structs.replace(seen, metadata=structs.replace(seen.metadata, annotations=annotations))


def _is_settled(seen: Holdable, held: Holdable) -> bool:
    """Whether the object says itself whose it is, or where it goes: as it is held, or otherwise."""
    if isinstance(seen, PersistentVolumeClaim):
        return SELECTED_NODE in seen.annotations
    assert isinstance(held, PersistentVolume)
    reference, promised = seen.spec.claim_ref, held.spec.claim_ref
    if reference is None or promised is None:
        return False
    # Promised by name only, as it may have been when it was chosen.
    is_promise = not reference.uid and (reference.namespace, reference.name) == (promised.namespace, promised.name)
    return not is_promise
