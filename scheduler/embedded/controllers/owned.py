"""What workload controllers share: who owns which objects, pods from templates, and statuses."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable, Mapping
from typing import Final

from scheduler.embedded.controllers.reactors import ObjectKey
from scheduler.embedded.kinds.catalog import POD
from scheduler.embedded.kinds.pod_kinds import TERMINAL_PHASES
from scheduler.embedded.server.object_store import Change, ChangeType, Stored
from scheduler.embedded.server.rest import Api, DeleteOptions
from scheduler.embedded.server.served_kinds import ServedKind
from scheduler.embedded.server.strategy import Object
from scheduler.validation.field_errors import Json

PODS_MAX: Final = 100_000
"""Pods that are made for one owner; each takes some 10 KB and 0.3 ms."""


class Owned:
    """The objects that controllers own, found by the owner, and what is done to them.

    Args:
        pods_per_look: Pods that a look makes at most, so that others have their turn; as each makes another look due,
            the rest follows.
    """

    def __init__(self, api: Api, pods_per_look: int) -> None:
        self._api = api
        self._pods_per_look = pods_per_look
        self._keys_by_uid: dict[str, set[ObjectKey]] = {}

    def notice(self, kind_id: str, change: Change) -> Iterable[ObjectKey]:
        """Where the owners are, old and new, of an object that changed; of a pod, where it counts otherwise by that.

        A look reads all pods of an owner: one after each binding and each claim would cost the square of their number.
        """
        before, now = change.previous, None if change.type is ChangeType.DELETED else change.current
        if kind_id == POD.kind_id and before is not None and now is not None and _counted(before) == _counted(now):
            return
        key = ObjectKey(kind_id, change.current.namespace, change.current.name)
        for version in (before, now):
            owner = controller_of(version.obj) if version is not None else None
            if owner is None:
                continue
            keys = self._keys_by_uid.setdefault(owner["uid"], set())
            (keys.discard if version is before else keys.add)(key)
            if not keys:
                del self._keys_by_uid[owner["uid"]]
            kind = self._api.registry.by_kind(owner["apiVersion"], owner["kind"])
            if kind is not None:
                yield ObjectKey(kind.kind_id, key.namespace, owner["name"])

    def listed(self, owner: Stored, kind: ServedKind) -> list[Stored]:
        """The objects of a kind that `owner` controls, by name; objects that are being deleted are among them."""
        keys = sorted(key for key in self._keys_by_uid.get(owner.uid, ()) if key.kind_id == kind.kind_id)
        found = (self._api.store.get(key.kind_id, key.namespace, key.name) for key in keys)
        return [one for one in found if one is not None]

    def active_pods(self, owner: Stored) -> list[Stored]:
        """The pods that count for `owner`."""
        return [pod for pod in self.listed(owner, POD) if is_active(pod)]

    def missing(self, wanted: int, there: int) -> int:
        """How many pods a look makes where an owner wants so many and so many are there."""
        return min(min(wanted, PODS_MAX) - there, self._pods_per_look)

    def create_pod(self, namespace: str, pod: Object) -> None:
        self._api.create(POD, namespace, pod)

    def delete_pod(self, pod: Stored) -> None:
        """Delete a pod that is not being deleted yet."""
        if not pod.obj["metadata"].get("deletionTimestamp"):
            self._api.delete(POD, pod.namespace, pod.name, DeleteOptions(uid=pod.uid))

    def write_status(self, kind: ServedKind, owner: Stored, status: Mapping[str, Json]) -> None:
        """Replace an owner's status."""

        def change(obj: Object) -> Object:
            obj["status"] = dict(status)
            return obj

        self._api.update(kind, owner.namespace, owner.name, change, sub_resource="status")


def pods_wanted(obj: Mapping[str, Json], nodes: int) -> tuple[str, int]:
    """The field of a well shaped workload that says how many pods it has beside each other, and that number."""
    spec = obj.get("spec") or {}
    if obj["kind"] == "DaemonSet":
        return "a pod on each node", nodes
    field = "parallelism" if obj["kind"] == "Job" else "replicas"
    count = spec.get(field)
    return f"spec.{field}", min(1 if count is None else max(count, 0), spec.get("completions") or sys.maxsize)


def pod_of_template(kind: ServedKind, owner: Stored) -> Object:
    """A pod from the owner's template, without a name."""
    template = copy.deepcopy(owner.obj["spec"]["template"])
    metadata = {key: value for key, value in (template.get("metadata") or {}).items() if key != "creationTimestamp"}
    return {"metadata": {**metadata, "ownerReferences": [owner_reference(kind, owner)]}, "spec": template["spec"]}


def controller_of(obj: Mapping[str, Json]) -> dict[str, Json] | None:
    """The owner reference of the object's controller."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            found: dict[str, Json] = owner
            return found
    return None


def owner_reference(kind: ServedKind, owner: Stored) -> dict[str, Json]:
    head = {"apiVersion": kind.api_version, "kind": kind.kind, "name": owner.name, "uid": owner.uid}
    return {**head, "controller": True, "blockOwnerDeletion": True}


def counts(**count_by_field: int) -> dict[str, Json]:
    """Go leaves zero counts out."""
    return {field: count for field, count in count_by_field.items() if count}


def _counted(pod: Stored) -> tuple[object, ...]:
    """All that a look at its owner reads of a pod that is there; where it runs and its claims are not among it."""
    phase = (pod.obj.get("status") or {}).get("phase")
    return (controller_of(pod.obj) or {}).get("uid"), phase, is_active(pod), is_ready(pod)


def is_active(pod: Stored) -> bool:
    """Whether a pod counts for its owner: it has not ended and is not being deleted."""
    phase = (pod.obj.get("status") or {}).get("phase")
    return phase not in TERMINAL_PHASES and "deletionTimestamp" not in pod.obj["metadata"]


def is_ready(pod: Stored) -> bool:
    """Whether a pod's condition says so."""
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in (pod.obj.get("status") or {}).get("conditions") or ()
    )
