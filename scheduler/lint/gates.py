"""Fields that the API server drops, without an error, because their feature gate is off.

Whose gates: the cluster's, where it was read (`Published.gates`); else the defaults of the release that is meant.

Source: k8s.io/kubernetes v1.36.3 pkg/features/kube_features.go, pkg/registry/resource/*/strategy.go (dropDisabled…).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from scheduler.lint.context import Context
from scheduler.lint.findings import FieldPath
from scheduler.lint.view import View, claim_specs, mapping, mappings, request_parts

# The release since which a gate is on unless somebody turns it off.
_ON_SINCE: Final = {
    "DRAAdminAccess": 34,
    "DRAConsumableCapacity": 36,
    "DRADeviceBindingConditions": 36,
    "DRADeviceTaints": 36,
    "DRAExtendedResource": 36,
    "DRAPartitionableDevices": 36,
    "DRAPrioritizedList": 34,
}
_OF_REQUEST: Final = {
    "adminAccess": "DRAAdminAccess",
    "capacity": "DRAConsumableCapacity",
    "tolerations": "DRADeviceTaints",
}
_OF_SLICE: Final = {"perDeviceNodeSelection": "DRAPartitionableDevices", "sharedCounters": "DRAPartitionableDevices"}
_OF_DEVICE: Final = {
    "allowMultipleAllocations": "DRAConsumableCapacity",
    "bindingConditions": "DRADeviceBindingConditions",
    "bindingFailureConditions": "DRADeviceBindingConditions",
    "bindsToNode": "DRADeviceBindingConditions",
    "consumesCounters": "DRAPartitionableDevices",
    "taints": "DRADeviceTaints",
}


def check_gates(view: View, context: Context) -> None:
    """Name each field that is lost, where it is first written."""
    named: set[tuple[str, str]] = set()
    for gate, path in _gated_fields(view):
        field = str(path[-1])
        why = _why_off(gate, context)
        if why and (gate, field) not in named:
            named.add((gate, field))
            view.warning(
                "gate-off",
                path,
                f"the API server drops {field} without an error: the feature gate {gate} is off {why}",
                f"--feature-gates={gate}=true for the control plane and the kubelets",
                key=True,
            )


def _why_off(gate: str, context: Context) -> str:
    """Where it is off, empty when it is on."""
    known = context.gate(gate)
    if known is not None:
        given = gate in context.settings.gates
        return "" if known else "as --feature-gates says" if given else "in this cluster"
    kubernetes = context.settings.kubernetes
    return f"by default in Kubernetes {kubernetes}" if context.settings.minor < _ON_SINCE[gate] else ""


def _gated_fields(view: View) -> Iterator[tuple[str, FieldPath]]:
    """Gate and path of what is set and needs one."""
    if not view.is_dra:
        return
    spec = mapping(view.obj.get("spec"))
    if view.kind == "DeviceClass":
        yield from _set(spec, {"extendedResourceName": "DRAExtendedResource"}, ("spec",))
    elif view.kind == "ResourceSlice":
        yield from _set(spec, _OF_SLICE, ("spec",))
        for index, device in mappings(spec.get("devices")):
            here: FieldPath = ("spec", "devices", index)
            yield from _set(device, _OF_DEVICE, here)
            for name, capacity in mapping(device.get("capacity")).items():
                policy = {"requestPolicy": "DRAConsumableCapacity"}
                yield from _set(mapping(capacity), policy, (*here, "capacity", name))
    for path, claim in claim_specs(view):
        devices = mapping(claim.get("devices"))
        for index, request in mappings(devices.get("requests")):
            alternatives = {"firstAvailable": "DRAPrioritizedList"}
            yield from _set(request, alternatives, (*path, "devices", "requests", index))
        for here, _, part in request_parts(path, claim):
            yield from _set(part, _OF_REQUEST, here)
        for index, constraint in mappings(devices.get("constraints")):
            distinct = {"distinctAttribute": "DRAConsumableCapacity"}
            yield from _set(constraint, distinct, (*path, "devices", "constraints", index))


def _set(part: dict[str, Any], gate_by_field: dict[str, str], path: FieldPath) -> Iterator[tuple[str, FieldPath]]:
    for field, gate in gate_by_field.items():
        if part.get(field):
            yield gate, (*path, field)
