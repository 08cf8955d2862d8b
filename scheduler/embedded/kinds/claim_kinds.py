"""ResourceClaims and their templates on their way in.

Rules of this module
  1. The spec of a claim never changes; its status is written through the sub-resource only.
  2. An allocation is set once, and taken back whole; it is never changed in place.
  3. `reservedFor` needs an allocation, has at most 256 entries, and takes no new ones on a deleted claim.

Source: k8s.io/kubernetes v1.36.3 pkg/apis/resource/validation/validation.go,
pkg/apis/resource/v1/defaults.go, pkg/registry/resource/resourceclaim/strategy.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from allocator import RESULTS_MAX
from scheduler.embedded.kinds.decoding import check_quantities
from scheduler.embedded.server.quotas import DEVICES_OF_CLASS, REQUESTS
from scheduler.embedded.server.strategy import Object, Strategy, StrategyView, check_immutable
from scheduler.model.api_rules import ADMIN_ACCESS_LABEL, EXTENDED_RESOURCE_ANNOTATION
from scheduler.model.resources import IMPLICIT_PREFIX
from scheduler.validation.claim_refusals import (
    default_claim_spec,
    device_key,
    quantities_of_claim,
    request_names,
    results_of,
    validate_claim_spec,
    validate_claim_status,
)
from scheduler.validation.field_errors import FieldError, Json, forbidden
from scheduler.validation.name_rules import validate_metadata


class ClaimStrategy(Strategy):
    """resource.k8s.io/v1 ResourceClaim."""

    returns_deleted_object = True

    def default(self, obj: Object, cluster: StrategyView) -> None:
        _default_spec(obj.setdefault("spec", {}), "ResourceClaim")

    def validate_create(self, obj: Object, cluster: StrategyView) -> list[FieldError]:
        spec = obj["spec"]
        errors = _check_admin_requests(spec, obj["metadata"].get("namespace", ""), cluster)
        return errors + validate_claim_spec(spec, "spec", cluster.minor)

    def validate_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> list[FieldError]:
        return check_immutable(new, old, "spec")

    def prepare_status_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> None:
        super().prepare_status_update(new, old, cluster)
        status = new.setdefault("status", {})
        consumed = (result.get("consumedCapacity") or {} for result in results_of(status))
        check_quantities("ResourceClaim", (value for each in consumed for value in each.values()))
        for field in ("reservedFor", "devices"):
            if field in status and not status[field]:
                del status[field]
        if status.get("allocation", "") is None:
            del status["allocation"]
        for entry in status.get("devices") or ():
            entry.setdefault("conditions", None)
        _drop_status_of_freed_devices(status, old.get("status") or {})

    def validate_status_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> list[FieldError]:
        status, old_status = new["status"], old.get("status") or {}
        errors = _check_admin_results(status, old_status, new["metadata"].get("namespace", ""), cluster)
        names = request_names(new["spec"])
        is_deleted = bool(new["metadata"].get("deletionTimestamp"))
        return errors + validate_claim_status(status, old_status, names, cluster.minor, is_deleted=is_deleted)

    def usage(self, obj: Mapping[str, Json]) -> Mapping[str, int]:
        """The most devices of each class that it may get. What a pod's extended resources made is the pod's."""
        found: Counter[str] = Counter()
        for request in obj["spec"].get("devices", {}).get("requests") or ():
            most: dict[str, int] = {}
            for one in request.get("firstAvailable") or (request.get("exactly") or {},):
                count = RESULTS_MAX if one.get("allocationMode") == "All" else one.get("count") or 0
                name = one.get("deviceClassName", "")
                most[name] = max(count, most.get(name, 0))
            found.update(most)
        usage = {f"{name}{DEVICES_OF_CLASS}": count for name, count in found.items()}
        if (obj["metadata"].get("annotations") or {}).get(EXTENDED_RESOURCE_ANNOTATION) != "true":
            usage |= {f"{REQUESTS}{IMPLICIT_PREFIX}{name}": count for name, count in found.items()}
        return usage


class ClaimTemplateStrategy(Strategy):
    """resource.k8s.io/v1 ResourceClaimTemplate."""

    returns_deleted_object = True

    def default(self, obj: Object, cluster: StrategyView) -> None:
        _default_spec(obj.setdefault("spec", {}).setdefault("spec", {}), "ResourceClaimTemplate")

    def validate_create(self, obj: Object, cluster: StrategyView) -> list[FieldError]:
        spec = obj["spec"]["spec"]
        errors = _check_admin_requests(spec, obj["metadata"].get("namespace", ""), cluster)
        metadata = obj["spec"].get("metadata") or {}
        # A template's metadata has no name of its own.
        named = {**metadata, "name": "x"}
        for error in validate_metadata(named, namespaced=True, rule=lambda text: []):
            errors.append(FieldError(error.reason, f"spec.{error.field}", error.body))
        return errors + validate_claim_spec(spec, "spec.spec", cluster.minor)

    def validate_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> list[FieldError]:
        return check_immutable(new, old, "spec")


def _default_spec(spec: Object, kind: str) -> None:
    check_quantities(kind, quantities_of_claim(spec))
    default_claim_spec(spec)


def _check_admin_requests(spec: Mapping[str, Json], namespace: str, cluster: StrategyView) -> list[FieldError]:
    for index, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        if (request.get("exactly") or {}).get("adminAccess"):
            return _check_admin_namespace(f"spec.devices.requests[{index}].adminAccess", namespace, cluster)
    return []


def _check_admin_namespace(path: str, namespace: str, cluster: StrategyView) -> list[FieldError]:
    found = cluster.find("namespaces", "", namespace) or {}
    if ((found.get("metadata") or {}).get("labels") or {}).get(ADMIN_ACCESS_LABEL) == "true":
        return []
    detail = f"admin access to devices requires the `{ADMIN_ACCESS_LABEL}: true` label on the containing namespace"
    return [forbidden(path, detail)]


def _drop_status_of_freed_devices(status: Object, old_status: Mapping[str, Json]) -> None:
    freed = {device_key(r) for r in results_of(old_status)} - {device_key(r) for r in results_of(status)}
    if not freed or not status.get("devices"):
        return
    kept = [entry for entry in status["devices"] if device_key(entry) not in freed]
    if kept:
        status["devices"] = kept
    else:
        del status["devices"]


def _check_admin_results(
    status: Mapping[str, Json], old_status: Mapping[str, Json], namespace: str, cluster: StrategyView
) -> list[FieldError]:
    if any(result.get("adminAccess") for result in results_of(old_status)):
        return []
    for index, result in enumerate(results_of(status)):
        if result.get("adminAccess"):
            path = f"status.allocation.devices.results[{index}].adminAccess"
            return _check_admin_namespace(path, namespace, cluster)
    return []
