"""What happens to objects when others go: garbage collection by owner, and the end of namespaces.

Source: k8s.io/kubernetes v1.36.3 pkg/controller/garbagecollector, pkg/controller/namespace/deletion.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scheduler.embedded.controllers.reactors import ObjectKey
from scheduler.embedded.kinds.catalog import NAMESPACE
from scheduler.embedded.kinds.sub_resources import finalize_namespace
from scheduler.embedded.server.object_store import Change, ChangeType, Stored
from scheduler.embedded.server.rest import (
    FINALIZER_FOREGROUND,
    FINALIZER_ORPHAN,
    NAMESPACES,
    Api,
    DeleteOptions,
)
from scheduler.embedded.server.strategy import Object
from scheduler.validation.field_errors import Json

_BACKGROUND: Final = DeleteOptions(propagation="Background")
_GRACELESS: Final = DeleteOptions(grace_period_s=0)


class GarbageCollector:
    """Deletes objects whose owners are all gone; obeys the propagation policies."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._key_by_uid: dict[str, ObjectKey] = {}
        self._dependents_by_uid: dict[str, set[ObjectKey]] = {}
        for kind_id, stored in api.store:
            self._index(ObjectKey(kind_id, stored.namespace, stored.name), None, stored)

    def _index(self, key: ObjectKey, previous: Stored | None, current: Stored | None) -> None:
        for uid in _owner_uids(previous):
            self._dependents_by_uid.get(uid, set()).discard(key)
        for uid in _owner_uids(current):
            self._dependents_by_uid.setdefault(uid, set()).add(key)
        if current is not None:
            self._key_by_uid[current.uid] = key
        elif previous is not None:
            self._key_by_uid.pop(previous.uid, None)

    def notice(self, kind_id: str, change: Change) -> Iterable[ObjectKey]:
        current = change.current
        key = ObjectKey(kind_id, current.namespace, current.name)
        is_gone = change.type is ChangeType.DELETED
        self._index(key, change.previous, None if is_gone else current)
        if is_gone:
            dependents = self._dependents_by_uid.get(current.uid)
            if dependents:
                yield from tuple(dependents)
            else:
                self._dependents_by_uid.pop(current.uid, None)
            # An owner that waits for its dependents.
            for uid in _owner_uids(current):
                if uid in self._key_by_uid:
                    yield self._key_by_uid[uid]
        elif current.obj["metadata"].get("ownerReferences") or current.obj["metadata"].get("deletionTimestamp"):
            yield key

    def look(self, key: ObjectKey) -> None:
        stored = self._api.store.get(key.kind_id, key.namespace, key.name)
        if stored is None:
            return
        metadata = stored.obj["metadata"]
        if metadata.get("deletionTimestamp"):
            finalizers = metadata.get("finalizers") or ()
            if FINALIZER_FOREGROUND in finalizers:
                self._end_foreground(key, stored)
            elif FINALIZER_ORPHAN in finalizers:
                self._orphan_dependents(key, stored)
            return
        owners = metadata.get("ownerReferences") or ()
        if owners and all(self._is_gone(owner) for owner in owners):
            self._api.delete(self._api.registry.by_storage(key.kind_id), key.namespace, key.name, _BACKGROUND)

    def _is_gone(self, owner: dict[str, Json]) -> bool:
        if owner.get("uid") in self._key_by_uid:
            return False
        # Owners of kinds this server does not know may well exist somewhere: leave their dependents alone.
        return self._api.registry.by_kind(owner.get("apiVersion", ""), owner.get("kind", "")) is not None

    def _end_foreground(self, key: ObjectKey, stored: Stored) -> None:
        dependents = self._dependents_by_uid.get(stored.uid, set())
        for dependent in sorted(dependents):
            found = self._api.store.get(dependent.kind_id, dependent.namespace, dependent.name)
            if found is not None and not found.obj["metadata"].get("deletionTimestamp"):
                kind = self._api.registry.by_storage(dependent.kind_id)
                self._api.delete(kind, dependent.namespace, dependent.name, DeleteOptions(propagation="Foreground"))
        if not self._dependents_by_uid.get(stored.uid):
            self._take_off(key, FINALIZER_FOREGROUND)

    def _orphan_dependents(self, key: ObjectKey, stored: Stored) -> None:
        for dependent in sorted(self._dependents_by_uid.get(stored.uid, set())):

            def disown(obj: Object) -> Object:
                owners = obj["metadata"].get("ownerReferences") or []
                obj["metadata"]["ownerReferences"] = [owner for owner in owners if owner.get("uid") != stored.uid]
                return obj

            kind = self._api.registry.by_storage(dependent.kind_id)
            self._api.update(kind, dependent.namespace, dependent.name, disown)
        self._take_off(key, FINALIZER_ORPHAN)

    def _take_off(self, key: ObjectKey, finalizer: str) -> None:
        def without(obj: Object) -> Object:
            kept = [name for name in obj["metadata"].get("finalizers") or () if name != finalizer]
            obj["metadata"]["finalizers"] = kept
            return obj

        kind = self._api.registry.by_storage(key.kind_id)
        self._api.update(kind, key.namespace, key.name, without)


def _owner_uids(stored: Stored | None) -> list[str]:
    if stored is None:
        return []
    return [owner.get("uid", "") for owner in stored.obj["metadata"].get("ownerReferences") or ()]


class NamespaceEnd:
    """Empties a namespace that is being deleted, then lets it go."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._namespaced = [kind for kind in api.registry.kinds if kind.is_namespaced and not kind.storage]

    def notice(self, kind_id: str, change: Change) -> Iterable[ObjectKey]:
        if kind_id == NAMESPACES:
            yield ObjectKey(kind_id, "", change.current.name)
        elif change.type is ChangeType.DELETED and change.current.namespace:
            namespace = self._api.find(NAMESPACES, "", change.current.namespace)
            if namespace is not None and namespace["metadata"].get("deletionTimestamp"):
                yield ObjectKey(NAMESPACES, "", change.current.namespace)

    def look(self, key: ObjectKey) -> None:
        if key.kind_id != NAMESPACES:
            return
        stored = self._api.store.get(NAMESPACES, "", key.name)
        if stored is None or not stored.obj["metadata"].get("deletionTimestamp"):
            return
        is_empty = True
        for kind in self._namespaced:
            for found in self._api.store.listed(kind.kind_id, key.name):
                if not found.obj["metadata"].get("deletionTimestamp"):
                    self._api.delete(kind, found.namespace, found.name, _GRACELESS)
            is_empty = is_empty and not self._api.store.listed(kind.kind_id, key.name)
        if is_empty:
            finalize_namespace(self._api, NAMESPACE, "", key.name, {})
