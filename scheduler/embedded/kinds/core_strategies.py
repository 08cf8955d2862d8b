"""Nodes, namespaces and the small kinds: what they get on their way in.

Source: k8s.io/kubernetes v1.36.3 pkg/registry/core/{node,namespace}/strategy.go,
pkg/apis/core/v1/defaults.go, pkg/registry/coordination.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.embedded.server.strategy import Object, Strategy, StrategyView, keep_all_but_status
from scheduler.validation.field_errors import FieldError, Json, not_supported
from scheduler.validation.name_rules import check_text, dns_label, label_key, label_value

_TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")

NODE_INFO: Final = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


class NodeStrategy(Strategy):
    """core/v1 Node: a node may be created with its status, as kubelets do."""

    resets_status_on_create = False

    def default(self, obj: Object, cluster: StrategyView) -> None:
        obj.setdefault("spec", {})

    def prepare_create(self, obj: Object, cluster: StrategyView) -> None:
        status = obj.setdefault("status", {})
        status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
        known = status.get("nodeInfo") or {}
        status["nodeInfo"] = {field: known.get(field, "") for field in NODE_INFO} | known
        # As the API defaults it: a node that gives no allocatable has all of its capacity.
        if status.get("capacity") and not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])

    def validate_create(self, obj: Object, cluster: StrategyView) -> list[FieldError]:
        errors: list[FieldError] = []
        for index, taint in enumerate(obj["spec"].get("taints") or ()):
            path = f"spec.taints[{index}]"
            errors += check_text(label_key, taint.get("key", ""), f"{path}.key")
            errors += check_text(label_value, taint.get("value") or "", f"{path}.value")
            if taint.get("effect") not in _TAINT_EFFECTS:
                errors.append(not_supported(f"{path}.effect", taint.get("effect", ""), _TAINT_EFFECTS))
        return errors

    def prepare_status_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> None:
        keep_all_but_status(new, old)


class NamespaceStrategy(Strategy):
    """core/v1 Namespace: it lives until its controller has emptied it and taken off the finalizer."""

    name_rule = staticmethod(dns_label)

    def prepare_create(self, obj: Object, cluster: StrategyView) -> None:
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}
        labels = obj["metadata"].setdefault("labels", {})
        labels["kubernetes.io/metadata.name"] = obj["metadata"].get("name", "")

    def prepare_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> None:
        new["spec"] = {**new.get("spec", {}), "finalizers": old.get("spec", {}).get("finalizers", [])}
        new["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = new["metadata"]["name"]


class LeaseStrategy(Strategy):
    """coordination.k8s.io/v1 Lease: must be updated with a resourceVersion.

    The gate CoordinatedLeaderElection is off, as in 1.36: its fields are dropped.
    """

    allows_unconditional_update = False
    allows_create_on_update = True

    def default(self, obj: Object, cluster: StrategyView) -> None:
        spec = obj.setdefault("spec", {})
        for field in ("strategy", "preferredHolder"):
            spec.pop(field, None)

    def validate_create(self, obj: Object, cluster: StrategyView) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors: list[FieldError] = []
        for field in ("leaseDurationSeconds", "leaseTransitions"):
            value = spec.get(field)
            is_positive_wanted = field == "leaseDurationSeconds"
            if value is not None and (value <= 0 if is_positive_wanted else value < 0):
                detail = "must be greater than 0" if is_positive_wanted else "must be greater than or equal to 0"
                errors.append(FieldError("FieldValueInvalid", f"spec.{field}", f"Invalid value: {value}: {detail}"))
        return errors
