"""The workload kinds on their way in: defaults and the rules their controllers rely on.

Source: k8s.io/kubernetes v1.36.3 pkg/apis/{apps,batch}/v1/defaults.go, pkg/registry/{apps,batch}.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.embedded.kinds.pod_kinds import default_pod_spec, validate_pod_spec
from scheduler.embedded.server.strategy import Object, Strategy, StrategyView, check_immutable, set_default
from scheduler.model.label_selectors import compile_label_selector
from scheduler.model.objects import LabelSelector
from scheduler.validation.field_errors import FieldError, Json, invalid, not_supported, required

DAEMON_SET_STATUS: Final = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")


def _default_template(spec: Object) -> None:
    template = spec.setdefault("template", {})
    metadata = template.setdefault("metadata", {})
    metadata.setdefault("creationTimestamp", None)
    default_pod_spec(template.setdefault("spec", {}))


def _validate_template(spec: Mapping[str, Json]) -> list[FieldError]:
    errors: list[FieldError] = []
    selector = spec.get("selector")
    if not selector:
        errors.append(required("spec.selector"))
    else:
        labels = spec["template"].get("metadata", {}).get("labels") or {}
        if not compile_label_selector(msgspec.convert(selector, LabelSelector)).matches(labels):
            errors.append(
                invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
            )
    return errors + validate_pod_spec(spec["template"]["spec"], "spec.template.spec")


def _default_rolling(spec: Object, field: str, **defaults: Json) -> None:
    strategy = spec.setdefault(field, {})
    set_default(strategy, "type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = defaults | (strategy.get("rollingUpdate") or {})


class _AppsStrategy(Strategy):
    """What the kinds of apps/v1 have in common."""

    bumps_generation = True

    def validate_create(self, obj: Object, cluster: StrategyView) -> list[FieldError]:
        return _validate_template(obj["spec"])

    def validate_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> list[FieldError]:
        return self.validate_create(new, cluster) + check_immutable(new, old, "spec.selector")


class DaemonSetStrategy(_AppsStrategy):
    """apps/v1 DaemonSet."""

    def default(self, obj: Object, cluster: StrategyView) -> None:
        spec = obj.setdefault("spec", {})
        _default_template(spec)
        _default_rolling(spec, "updateStrategy", maxUnavailable=1, maxSurge=0)
        set_default(spec, "revisionHistoryLimit", 10)

    def prepare_create(self, obj: Object, cluster: StrategyView) -> None:
        obj["status"] = dict.fromkeys(DAEMON_SET_STATUS, 0)


class ReplicaSetStrategy(_AppsStrategy):
    """apps/v1 ReplicaSet."""

    def default(self, obj: Object, cluster: StrategyView) -> None:
        spec = obj.setdefault("spec", {})
        set_default(spec, "replicas", 1)
        _default_template(spec)

    def prepare_create(self, obj: Object, cluster: StrategyView) -> None:
        obj["status"] = {"replicas": 0}

    def validate_create(self, obj: Object, cluster: StrategyView) -> list[FieldError]:
        spec = obj["spec"]
        errors = super().validate_create(obj, cluster)
        if spec["replicas"] < 0:
            errors.append(invalid("spec.replicas", spec["replicas"], "must be greater than or equal to 0"))
        return errors


class DeploymentStrategy(ReplicaSetStrategy):
    """apps/v1 Deployment."""

    def default(self, obj: Object, cluster: StrategyView) -> None:
        super().default(obj, cluster)
        spec = obj["spec"]
        _default_rolling(spec, "strategy", maxUnavailable="25%", maxSurge="25%")
        set_default(spec, "revisionHistoryLimit", 10)
        set_default(spec, "progressDeadlineSeconds", 600)

    def prepare_create(self, obj: Object, cluster: StrategyView) -> None:
        obj["status"] = {}


class StatefulSetStrategy(ReplicaSetStrategy):
    """apps/v1 StatefulSet."""

    def default(self, obj: Object, cluster: StrategyView) -> None:
        super().default(obj, cluster)
        spec = obj["spec"]
        set_default(spec, "podManagementPolicy", "OrderedReady")
        _default_rolling(spec, "updateStrategy", partition=0)
        set_default(spec, "revisionHistoryLimit", 10)
        retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        set_default(retention, "whenDeleted", "Retain")
        set_default(retention, "whenScaled", "Retain")


class JobStrategy(Strategy):
    """batch/v1 Job; selector and pod labels are made here, as manualSelector is not supported."""

    bumps_generation = True

    def default(self, obj: Object, cluster: StrategyView) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("completions") is None and spec.get("parallelism") is None:
            spec["completions"] = spec["parallelism"] = 1
        elif spec.get("parallelism") is None:
            spec["parallelism"] = 1
        set_default(spec, "backoffLimit", 6)
        set_default(spec, "completionMode", "NonIndexed")
        set_default(spec, "suspend", False)
        set_default(spec, "podReplacementPolicy", "TerminatingOrFailed")
        set_default(spec, "manualSelector", False)
        _default_template(spec)

    def prepare_create(self, obj: Object, cluster: StrategyView) -> None:
        spec = obj["spec"]
        uid, name = obj["metadata"]["uid"], obj["metadata"].get("name", "")
        labels = spec["template"]["metadata"].setdefault("labels", {})
        for prefix in ("batch.kubernetes.io/", ""):
            labels |= {f"{prefix}controller-uid": uid, f"{prefix}job-name": name}
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
        obj["status"] = {}

    def validate_create(self, obj: Object, cluster: StrategyView) -> list[FieldError]:
        spec = obj["spec"]
        errors = _validate_template(spec)
        policy = spec["template"]["spec"].get("restartPolicy")
        if policy not in ("OnFailure", "Never"):
            errors.append(not_supported("spec.template.spec.restartPolicy", policy, ("OnFailure", "Never")))
        return errors

    def validate_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> list[FieldError]:
        immutable = ("spec.completions", "spec.selector", "spec.template", "spec.completionMode")
        return check_immutable(new, old, *immutable)
