"""Volumes at work: claims find their volumes, a driver of the cluster makes them, and pods get their generated claims.

What a cluster has in three parts: the volume controller, the ephemeral volume controller, and a provisioner, which here
serves every class but those of `kubernetes.io/no-provisioner`.

A StorageClass with the annotation `embedded.dra-scheduler/provisioning-fails-on` has a provisioner that fails: for the
nodes named there, separated by commas, or for all with `*`. As from an external provisioner whose driver has no room
(sig-storage-lib-external-provisioner, rescheduleProvisioning), the claim gets an event and loses its selected node, so
that the scheduler chooses again.

Simpler than the real ones where a scheduler sees no difference: a provisioner fails for no other reason, a volume that
it makes reaches the selected node's zone (all nodes, where the node has none), and what a claim leaves behind is
deleted or released at once.

Source: k8s.io/kubernetes v1.36.3 pkg/controller/volume/{persistentvolume,ephemeral} (annotations, names, phases).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from scheduler.embedded.controllers.reactors import ObjectKey
from scheduler.embedded.kinds.catalog import EVENT, NODE, POD, STORAGE_CLASS, VOLUME, VOLUME_CLAIM
from scheduler.embedded.kinds.events import event_about
from scheduler.embedded.server.object_store import Change, Stored
from scheduler.embedded.server.rest import Api, DeleteOptions
from scheduler.embedded.server.strategy import Object
from scheduler.model.label_selectors import compile_label_selector
from scheduler.model.storage import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    NO_PROVISIONER,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
)
from scheduler.validation.field_errors import Json

FAILS_ON: Final = "embedded.dra-scheduler/provisioning-fails-on"
ZONE: Final = "topology.kubernetes.io/zone"
_PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
_FAILED: Final = "ProvisioningFailed"
_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"


class Volumes:
    """The controllers of volumes; a `Reactor`."""

    def __init__(self, api: Api) -> None:
        self._api: Final = api

    def notice(self, kind_id: str, change: Change) -> Iterable[ObjectKey]:
        current = change.current
        is_pod = kind_id == POD.kind_id and _generates_claims(current.obj)
        if is_pod or kind_id in (VOLUME.kind_id, VOLUME_CLAIM.kind_id):
            yield ObjectKey(kind_id, current.namespace, current.name)
        if kind_id == VOLUME.kind_id:
            reference = current.obj["spec"].get("claimRef")
            if reference is not None:
                yield ObjectKey(VOLUME_CLAIM.kind_id, reference.get("namespace", ""), reference.get("name", ""))
            elif (current.obj.get("status") or {}).get("phase") == "Available":
                yield from self._claims(lambda claim: not claim["spec"].get("volumeName"))
        elif kind_id == VOLUME_CLAIM.kind_id:
            for volume in self._api.store.listed(VOLUME.kind_id):
                reference = volume.obj["spec"].get("claimRef") or {}
                if (reference.get("namespace"), reference.get("name")) == (current.namespace, current.name):
                    yield ObjectKey(VOLUME.kind_id, "", volume.name)
        elif kind_id == STORAGE_CLASS.kind_id:
            yield from self._claims(lambda claim: claim["spec"].get("storageClassName") == current.name)

    def look(self, key: ObjectKey) -> None:
        stored = self._api.store.get(key.kind_id, key.namespace, key.name)
        if stored is None or stored.obj["metadata"].get("deletionTimestamp"):
            return
        if key.kind_id == VOLUME.kind_id:
            self._look_at_volume(stored)
        elif key.kind_id == VOLUME_CLAIM.kind_id:
            self._look_at_claim(stored)
        elif key.kind_id == POD.kind_id:
            self._make_claims(stored)

    def _claims(self, is_wanted: Callable[[Mapping[str, Json]], bool]) -> Iterable[ObjectKey]:
        for claim in self._api.store.listed(VOLUME_CLAIM.kind_id):
            if is_wanted(claim.obj):
                yield ObjectKey(VOLUME_CLAIM.kind_id, claim.namespace, claim.name)

    # -- volumes -----------------------------------------------------------------------------------

    def _look_at_volume(self, volume: Stored) -> None:
        reference = volume.obj["spec"].get("claimRef")
        if reference is None:
            self._set_phase(volume, "Available")
            return
        claim = self._api.find(VOLUME_CLAIM.kind_id, reference.get("namespace", ""), reference.get("name", ""))
        if not reference.get("uid"):
            if claim is None:
                self._set_phase(volume, "Available")  # promised by hand to a claim that is still to come
        elif claim is None or claim["metadata"]["uid"] != reference["uid"]:
            if volume.obj["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
                self._api.delete(VOLUME, "", volume.name, DeleteOptions(uid=volume.uid))
            else:
                self._set_phase(volume, "Released")

    def _set_phase(self, volume: Stored, phase: str) -> None:
        if (volume.obj.get("status") or {}).get("phase") != phase:
            self._api.update(VOLUME, "", volume.name, _with_status({"phase": phase}), sub_resource="status")

    # -- claims ------------------------------------------------------------------------------------

    def _look_at_claim(self, stored: Stored) -> None:
        claim = _claim(stored)
        if claim.is_bound:
            volume = self._volume(claim.spec.volume_name)
            if claim.status.phase != "Lost" and volume is None:
                self._write_claim_status(stored, {"phase": "Lost"})
            return
        if claim.spec.volume_name:
            volume = self._volume(claim.spec.volume_name)
        else:
            volume = self._promised(claim) or self._matching(claim)
        if volume is not None and _may_have(claim, volume):
            self._bind(stored, claim, volume)
        elif not claim.spec.volume_name:
            self._provision(stored, claim)

    def _volume(self, name: str) -> PersistentVolume | None:
        stored = self._api.store.get(VOLUME.kind_id, "", name)
        return _volume(stored) if stored is not None else None

    def _volumes(self) -> Iterable[PersistentVolume]:
        return [_volume(stored) for stored in self._api.store.listed(VOLUME.kind_id)]

    def _promised(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        return next((one for one in self._volumes() if one.spec.claim_ref and _may_have(claim, one)), None)

    def _matching(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """The smallest volume for a claim that waits for no pod."""
        if self._waits(claim):
            return None
        wanted = claim.spec
        found = [
            one
            for one in self._volumes()
            if one.is_available
            and one.class_name == claim.class_name
            and one.capacity_nano >= (claim.requested_nano or 0)
            and (one.spec.volume_mode or "Filesystem") == (wanted.volume_mode or "Filesystem")
            and set(wanted.access_modes or ()) <= set(one.spec.access_modes or ())
            and (wanted.selector is None or compile_label_selector(wanted.selector).matches(one.labels))
        ]
        return min(found, key=lambda one: (one.capacity_nano, one.name), default=None)

    def _class(self, claim: PersistentVolumeClaim) -> Mapping[str, Json] | None:
        return self._api.find(STORAGE_CLASS.kind_id, "", claim.class_name) if claim.class_name else None

    def _waits(self, claim: PersistentVolumeClaim) -> bool:
        mode = (self._class(claim) or {}).get("volumeBindingMode")
        return mode == WAIT_FOR_FIRST_CONSUMER and SELECTED_NODE not in claim.annotations

    def _bind(self, stored: Stored, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        """Both directions, then both phases; each step is skipped where it is done."""
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:

            def promise(obj: Object) -> Object:
                if reference is None:
                    obj["metadata"].setdefault("annotations", {})[BOUND_BY_CONTROLLER] = "yes"
                obj["spec"]["claimRef"] = {
                    **{"apiVersion": "v1", "kind": "PersistentVolumeClaim"},
                    **{"namespace": stored.namespace, "name": stored.name, "uid": stored.uid},
                }
                return obj

            self._api.update(VOLUME, "", volume.name, promise)
        kept = self._api.get(VOLUME, "", volume.name)
        self._set_phase(kept, "Bound")

        def take(obj: Object) -> Object:
            annotations = obj["metadata"].setdefault("annotations", {})
            annotations[BIND_COMPLETED] = "yes"
            if not claim.spec.volume_name:
                annotations[BOUND_BY_CONTROLLER] = "yes"
            obj["spec"]["volumeName"] = volume.name
            return obj

        self._api.update(VOLUME_CLAIM, stored.namespace, stored.name, take)
        spec = kept.obj["spec"]
        status = {"phase": "Bound", "accessModes": spec.get("accessModes"), "capacity": spec.get("capacity")}
        self._write_claim_status(stored, status)

    def _write_claim_status(self, claim: Stored, status: Mapping[str, Json]) -> None:
        self._api.update(VOLUME_CLAIM, claim.namespace, claim.name, _with_status(status), sub_resource="status")

    # -- the provisioner ---------------------------------------------------------------------------

    def _provision(self, stored: Stored, claim: PersistentVolumeClaim) -> None:
        class_ = self._class(claim)
        driver = (class_ or {}).get("provisioner", "")
        if class_ is None or driver in ("", NO_PROVISIONER) or self._waits(claim):
            return
        if self._volume(f"pvc-{stored.uid}") is not None:
            return
        if claim.annotations.get(_PROVISIONER) != driver:

            def note(obj: Object) -> Object:
                obj["metadata"].setdefault("annotations", {})[_PROVISIONER] = driver
                return obj

            self._api.update(VOLUME_CLAIM, stored.namespace, stored.name, note)
        if _fails(class_, claim.annotations.get(SELECTED_NODE, "")):
            self._fail(stored, claim, driver)
        else:
            self._make(stored, claim, class_, driver)

    def _fail(self, stored: Stored, claim: PersistentVolumeClaim, driver: str) -> None:
        """Say so, and leave the choice of a node to the scheduler again."""
        node = claim.annotations.get(SELECTED_NODE)
        where = f"node {node}" if node else "any node"
        text = (
            f'failed to provision volume with StorageClass "{claim.class_name}": rpc error: code = ResourceExhausted '
            f"desc = no room for {where} ({FAILS_ON})"
        )
        about = {field: stored.obj["metadata"][field] for field in ("namespace", "name", "uid")}
        event = event_about(
            "PersistentVolumeClaim", about, "Warning", _FAILED, text, now=self._api.now(), component=driver
        )
        self._api.create(EVENT, stored.namespace, event)
        if node is None:
            return

        def reschedule(obj: Object) -> Object:
            obj["metadata"].get("annotations", {}).pop(SELECTED_NODE, None)
            return obj

        self._api.update(VOLUME_CLAIM, stored.namespace, stored.name, reschedule)

    def _make(self, stored: Stored, claim: PersistentVolumeClaim, class_: Mapping[str, Json], driver: str) -> None:
        name = f"pvc-{stored.uid}"
        spec: Object = {
            "capacity": {"storage": (claim.spec.resources.requests or {}).get("storage")},
            "accessModes": list(claim.spec.access_modes or ()),
            "persistentVolumeReclaimPolicy": class_.get("reclaimPolicy", "Delete"),
            "storageClassName": claim.class_name,
            "volumeMode": claim.spec.volume_mode,
            "csi": {"driver": driver, "volumeHandle": name},
            "claimRef": {
                **{"apiVersion": "v1", "kind": "PersistentVolumeClaim"},
                **{"namespace": stored.namespace, "name": stored.name, "uid": stored.uid},
            },
        }
        node = self._api.find(NODE.kind_id, "", claim.annotations.get(SELECTED_NODE, "")) or {"metadata": {}}
        zone = (node["metadata"].get("labels") or {}).get(ZONE)
        if zone:
            term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
        metadata = {"name": name, "annotations": {_PROVISIONED_BY: driver}}
        self._api.create(VOLUME, "", {"metadata": metadata, "spec": spec})

    # -- generic ephemeral volumes -----------------------------------------------------------------

    def _make_claims(self, pod: Stored) -> None:
        for volume in pod.obj["spec"].get("volumes") or ():
            template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
            name = f"{pod.name}-{volume['name']}"
            if template is None or self._api.find(VOLUME_CLAIM.kind_id, pod.namespace, name) is not None:
                continue
            copied = {
                field: dict(value)
                for field in ("labels", "annotations")
                if (value := (template.get("metadata") or {}).get(field))
            }
            owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
            metadata = {**copied, "name": name, "ownerReferences": [{**owner, "controller": True}]}
            made: Object = Stored("", "", {"metadata": metadata, "spec": template["spec"]}, 0).copy()
            self._api.create(VOLUME_CLAIM, pod.namespace, made)


def _fails(class_: Mapping[str, Json], node: str) -> bool:
    failing = (class_["metadata"].get("annotations") or {}).get(FAILS_ON, "")
    return failing == "*" or (bool(node) and node in [name.strip() for name in failing.split(",")])


def _generates_claims(pod: Mapping[str, Json]) -> bool:
    return any("ephemeral" in volume for volume in pod["spec"].get("volumes") or ())


def _may_have(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether the volume is nobody's, or promised to this very claim."""
    reference = volume.spec.claim_ref
    if reference is None:
        return True
    is_named = (reference.namespace, reference.name) == claim.key
    return is_named and reference.uid in ("", claim.metadata.uid)


def _with_status(status: Mapping[str, Json]) -> Callable[[Object], Object]:
    def change(obj: Object) -> Object:
        obj["status"] = {**(obj.get("status") or {}), **status}
        return obj

    return change


def _claim(stored: Stored) -> PersistentVolumeClaim:
    return msgspec.convert(stored.obj, PersistentVolumeClaim)


def _volume(stored: Stored) -> PersistentVolume:
    return msgspec.convert(stored.obj, PersistentVolume)
