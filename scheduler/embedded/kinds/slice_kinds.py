"""ResourceSlices, DeviceClasses and DeviceTaintRules on their way in.

Source: k8s.io/kubernetes v1.36.3 pkg/apis/resource/validation/validation.go,
pkg/apis/resource/v1/defaults.go, pkg/registry/resource/{resourceslice,deviceclass,devicetaintrule}.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scheduler.embedded.kinds.decoding import check_quantities
from scheduler.embedded.server.strategy import Object, Strategy, StrategyView
from scheduler.model.api_rules import CONDITIONS_MAX
from scheduler.validation.field_errors import FieldError, Json, too_many
from scheduler.validation.refused_since_138 import SINCE
from scheduler.validation.slice_rules import (
    quantities_of,
    validate_class_spec,
    validate_rule_spec,
    validate_slice_spec,
    warnings_of_rule,
)


class SliceStrategy(Strategy):
    """resource.k8s.io/v1 ResourceSlice."""

    bumps_generation = True
    returns_deleted_object = True

    def default(self, obj: Object, cluster: StrategyView) -> None:
        _default_slice(obj.setdefault("spec", {}), cluster)

    def validate_create(self, obj: Object, cluster: StrategyView) -> list[FieldError]:
        return validate_slice_spec(obj["spec"], None, cluster.minor)

    def validate_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> list[FieldError]:
        return validate_slice_spec(new["spec"], old["spec"], cluster.minor)


class DeviceClassStrategy(Strategy):
    """resource.k8s.io/v1 DeviceClass."""

    bumps_generation = True
    returns_deleted_object = True

    def default(self, obj: Object, cluster: StrategyView) -> None:
        obj.setdefault("spec", {})

    def validate_create(self, obj: Object, cluster: StrategyView) -> list[FieldError]:
        return validate_class_spec(obj["spec"], {})

    def validate_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> list[FieldError]:
        return validate_class_spec(new["spec"], old["spec"])


class DeviceTaintRuleStrategy(Strategy):
    """resource.k8s.io/v1 DeviceTaintRule."""

    bumps_generation = True
    returns_deleted_object = True

    def default(self, obj: Object, cluster: StrategyView) -> None:
        _default_taint(obj.setdefault("spec", {}).setdefault("taint", {}), cluster)

    def validate_create(self, obj: Object, cluster: StrategyView) -> list[FieldError]:
        return validate_rule_spec(obj["spec"])

    def warnings(self, obj: Mapping[str, Json], cluster: StrategyView) -> list[str]:
        return warnings_of_rule(obj["spec"]) if cluster.minor >= SINCE else []

    def prepare_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> None:
        taint, before = new["spec"]["taint"], old["spec"]["taint"]
        if taint.get("effect") != before.get("effect") and taint.get("timeAdded") == before.get("timeAdded"):
            taint["timeAdded"] = cluster.now()  # it says since when there is this effect

    def validate_status_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> list[FieldError]:
        conditions = (new.get("status") or {}).get("conditions") or []
        is_long = len(conditions) > CONDITIONS_MAX
        return [too_many("status.conditions", len(conditions), CONDITIONS_MAX)] if is_long else []


def _default_taint(taint: Object, cluster: StrategyView) -> None:
    if taint.get("timeAdded") is None:
        taint["timeAdded"] = cluster.now()


def missing_defaults(spec: Mapping[str, Json]) -> Iterator[tuple[Object, str]]:
    """Parts of a slice, and the field that each lacks and gets."""
    for device in spec.get("devices") or ():
        for taint in device.get("taints") or ():
            if taint.get("timeAdded") is None:
                yield taint, "timeAdded"
        for mapping in (device.get("nodeAllocatableResourceMappings") or {}).values():
            if mapping.get("allocationMultiplier") is None:
                yield mapping, "allocationMultiplier"


def _default_slice(spec: Object, cluster: StrategyView) -> None:
    check_quantities("ResourceSlice", quantities_of(spec))
    for part, field in missing_defaults(spec):
        part[field] = "1" if field == "allocationMultiplier" else cluster.now()
