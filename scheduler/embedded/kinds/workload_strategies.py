"""The workload kinds on their way in: defaults and the rules their controllers rely on.

Source: k8s.io/kubernetes v1.36.3 pkg/apis/{apps,batch}/v1/defaults.go, pkg/registry/{apps,batch}.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scheduler.embedded.kinds.pods import default_pod_spec, validate_pod_spec
from scheduler.embedded.server.strategy import ClusterView, Object, Strategy, set_default
from scheduler.model.selectors import LabelSelector, compile_label_selector
from scheduler.validation.field_errors import FieldError, Json, invalid, required


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


class ReplicaSetStrategy(Strategy):
    """apps/v1 ReplicaSet."""

    bumps_generation = True

    def prepare_create(self, obj: Object, cluster: ClusterView) -> None:
        spec = obj.setdefault("spec", {})
        set_default(spec, "replicas", 1)
        _default_template(spec)
        obj["status"] = {"replicas": 0}

    def prepare_update(self, new: Object, old: Mapping[str, Json], cluster: ClusterView) -> None:
        spec = new.setdefault("spec", {})
        set_default(spec, "replicas", 1)
        _default_template(spec)

    def validate_create(self, obj: Object, cluster: ClusterView) -> list[FieldError]:
        spec = obj["spec"]
        errors = _validate_template(spec)
        if spec["replicas"] < 0:
            errors.append(invalid("spec.replicas", spec["replicas"], "must be greater than or equal to 0"))
        return errors

    def validate_update(self, new: Object, old: Mapping[str, Json], cluster: ClusterView) -> list[FieldError]:
        errors = self.validate_create(new, cluster)
        if new["spec"].get("selector") != old["spec"].get("selector"):
            errors.append(invalid("spec.selector", new["spec"].get("selector"), "field is immutable"))
        return errors


class DeploymentStrategy(ReplicaSetStrategy):
    """apps/v1 Deployment."""

    def prepare_create(self, obj: Object, cluster: ClusterView) -> None:
        super().prepare_create(obj, cluster)
        self._default_spec(obj["spec"])
        obj["status"] = {}

    def prepare_update(self, new: Object, old: Mapping[str, Json], cluster: ClusterView) -> None:
        super().prepare_update(new, old, cluster)
        self._default_spec(new["spec"])

    @staticmethod
    def _default_spec(spec: Object) -> None:
        strategy = spec.setdefault("strategy", {})
        set_default(strategy, "type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.get("rollingUpdate") or {}
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
            strategy["rollingUpdate"] = rolling
        set_default(spec, "revisionHistoryLimit", 10)
        set_default(spec, "progressDeadlineSeconds", 600)


class StatefulSetStrategy(ReplicaSetStrategy):
    """apps/v1 StatefulSet."""

    def prepare_create(self, obj: Object, cluster: ClusterView) -> None:
        super().prepare_create(obj, cluster)
        self._default_spec(obj["spec"])

    def prepare_update(self, new: Object, old: Mapping[str, Json], cluster: ClusterView) -> None:
        super().prepare_update(new, old, cluster)
        self._default_spec(new["spec"])

    @staticmethod
    def _default_spec(spec: Object) -> None:
        set_default(spec, "podManagementPolicy", "OrderedReady")
        strategy = spec.setdefault("updateStrategy", {})
        set_default(strategy, "type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
        set_default(spec, "revisionHistoryLimit", 10)
        retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        set_default(retention, "whenDeleted", "Retain")
        set_default(retention, "whenScaled", "Retain")


class DaemonSetStrategy(Strategy):
    """apps/v1 DaemonSet."""

    bumps_generation = True

    def prepare_create(self, obj: Object, cluster: ClusterView) -> None:
        self._default_spec(obj.setdefault("spec", {}))
        obj["status"] = dict.fromkeys(
            ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0
        )

    def prepare_update(self, new: Object, old: Mapping[str, Json], cluster: ClusterView) -> None:
        self._default_spec(new.setdefault("spec", {}))

    def validate_create(self, obj: Object, cluster: ClusterView) -> list[FieldError]:
        return _validate_template(obj["spec"])

    def validate_update(self, new: Object, old: Mapping[str, Json], cluster: ClusterView) -> list[FieldError]:
        errors = self.validate_create(new, cluster)
        if new["spec"].get("selector") != old["spec"].get("selector"):
            errors.append(invalid("spec.selector", new["spec"].get("selector"), "field is immutable"))
        return errors

    @staticmethod
    def _default_spec(spec: Object) -> None:
        _default_template(spec)
        strategy = spec.setdefault("updateStrategy", {})
        set_default(strategy, "type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.get("rollingUpdate") or {}
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
            strategy["rollingUpdate"] = rolling
        set_default(spec, "revisionHistoryLimit", 10)


class JobStrategy(Strategy):
    """batch/v1 Job; selector and pod labels are made here, as manualSelector is not supported."""

    bumps_generation = True

    def prepare_create(self, obj: Object, cluster: ClusterView) -> None:
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
        uid, name = obj["metadata"]["uid"], obj["metadata"].get("name", "")
        labels = spec["template"]["metadata"].setdefault("labels", {})
        for prefix in ("batch.kubernetes.io/", ""):
            labels |= {f"{prefix}controller-uid": uid, f"{prefix}job-name": name}
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
        obj["status"] = {}

    def prepare_update(self, new: Object, old: Mapping[str, Json], cluster: ClusterView) -> None:
        new.setdefault("spec", {})

    def validate_create(self, obj: Object, cluster: ClusterView) -> list[FieldError]:
        spec = obj["spec"]
        errors = _validate_template(spec)
        policy = spec["template"]["spec"].get("restartPolicy")
        if policy not in ("OnFailure", "Never"):
            errors.append(
                FieldError(
                    "FieldValueNotSupported",
                    "spec.template.spec.restartPolicy",
                    f'Unsupported value: "{policy}": supported values: "OnFailure", "Never"',
                )
            )
        return errors

    def validate_update(self, new: Object, old: Mapping[str, Json], cluster: ClusterView) -> list[FieldError]:
        immutable = ("completions", "selector", "template", "completionMode")
        return [
            invalid(f"spec.{field}", new["spec"].get(field), "field is immutable")
            for field in immutable
            if new["spec"].get(field) != old["spec"].get(field)
        ]
