"""Volumes, claims for them and storage classes on their way in: defaults and the rules that controllers rely on.

Source: k8s.io/kubernetes v1.36.3 pkg/apis/{core,storage}/v1/defaults.go, pkg/apis/core/validation/validation.go
(ValidatePersistentVolume*), pkg/registry/core/persistentvolume*, plugin/pkg/admission/storage/storageclass/setdefault.
Differs on purpose: a claim that came before its default class stays without one, and no protection finalizers are
added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.embedded.server.strategy import Object, Strategy, StrategyView, check_immutable, set_default
from scheduler.model.resources import parse_nano
from scheduler.validation.field_errors import FieldError, Json, forbidden, invalid, not_supported, required

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
STORAGE_CLASSES: Final = "storageclasses.storage.k8s.io"
_IS_DEFAULT: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_CLASS_OF_OLD: Final = "volume.beta.kubernetes.io/storage-class"
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")


class PersistentVolumeStrategy(Strategy):
    """core/v1 PersistentVolume."""

    def default(self, obj: Object, cluster: StrategyView) -> None:
        spec = obj.setdefault("spec", {})
        set_default(spec, "persistentVolumeReclaimPolicy", "Retain")
        set_default(spec, "volumeMode", "Filesystem")

    def prepare_create(self, obj: Object, cluster: StrategyView) -> None:
        obj["status"] = {"phase": "Pending"}

    def validate_create(self, obj: Object, cluster: StrategyView) -> list[FieldError]:
        spec = obj["spec"]
        return _check_storage(spec.get("capacity"), "spec.capacity") + _check_modes(spec)

    def validate_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> list[FieldError]:
        return self.validate_create(new, cluster) + check_immutable(new, old, "spec.volumeMode", "spec.csi")


class PersistentVolumeClaimStrategy(Strategy):
    """core/v1 PersistentVolumeClaim: what is asked for stays, but for the size."""

    def default(self, obj: Object, cluster: StrategyView) -> None:
        set_default(obj.setdefault("spec", {}), "volumeMode", "Filesystem")

    def prepare_create(self, obj: Object, cluster: StrategyView) -> None:
        obj["status"] = {"phase": "Pending"}
        _admit_class(obj, cluster)

    def validate_create(self, obj: Object, cluster: StrategyView) -> list[FieldError]:
        spec = obj["spec"]
        requests = (spec.get("resources") or {}).get("requests")
        return _check_modes(spec) + _check_storage(requests, "spec.resources")

    def validate_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> list[FieldError]:
        was, now = old["spec"], new["spec"]
        changed = {field for field in {*was, *now} - {"resources"} if was.get(field) != now.get(field)}
        if not was.get("volumeName"):
            changed.discard("volumeName")
        errors = self.validate_create(new, cluster)
        if changed:
            text = (
                "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound "
                "claims"
            )
            errors.append(forbidden("spec", text))
        return errors


class StorageClassStrategy(Strategy):
    """storage.k8s.io/v1 StorageClass: only its mode and policy have defaults, and nothing may change later."""

    def default(self, obj: Object, cluster: StrategyView) -> None:
        set_default(obj, "reclaimPolicy", "Delete")
        set_default(obj, "volumeBindingMode", "Immediate")

    def validate_create(self, obj: Object, cluster: StrategyView) -> list[FieldError]:
        errors = [] if obj.get("provisioner") else [required("provisioner")]
        mode = obj["volumeBindingMode"]
        return errors + ([] if mode in _BINDING_MODES else [not_supported("volumeBindingMode", mode, _BINDING_MODES)])

    def validate_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> list[FieldError]:
        changed = [
            field
            for field in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
            if new.get(field) != old.get(field)
        ]
        return [forbidden(field, "updates to this field are forbidden.") for field in changed]


def _admit_class(claim: Object, cluster: StrategyView) -> None:
    """Give a claim that says nothing of a class the default one: the newest, of equals the first by name.

    One that asks for no class, by the empty name, stays without.
    """
    if claim["spec"].get("storageClassName") is not None or _CLASS_OF_OLD in _annotations(claim):
        return
    found = [one["metadata"] for one in cluster.listed(STORAGE_CLASSES) if _is_default(one)]
    newest = max((one["creationTimestamp"] for one in found), default="")
    names = [one["name"] for one in found if one["creationTimestamp"] == newest]
    if names:
        claim["spec"]["storageClassName"] = min(names)


def _is_default(storage_class: Mapping[str, Json]) -> bool:
    return any(_annotations(storage_class).get(name) == "true" for name in _IS_DEFAULT)


def _annotations(obj: Mapping[str, Json]) -> Mapping[str, str]:
    return obj["metadata"].get("annotations") or {}


def _check_storage(amounts: Json, path: str) -> list[FieldError]:
    amount = (amounts or {}).get("storage")
    if amount is None:
        return [required(f"{path}[storage]")]
    nano = parse_nano(amount)
    return [] if nano is not None and nano > 0 else [invalid(f"{path}[storage]", amount, "must be greater than zero")]


def _check_modes(spec: Mapping[str, Json]) -> list[FieldError]:
    modes = spec.get("accessModes") or ()
    if not modes:
        return [required("spec.accessModes", "at least 1 access mode is required")]
    return [not_supported("spec.accessModes", mode, _ACCESS_MODES) for mode in modes if mode not in _ACCESS_MODES]
