"""Feature gates of the API server, read from its metrics: a field whose gate is off is dropped from what users write.

The server drops a field without a word, so a claim may ask for less than its author wrote. Only the metrics show why.
Reading them needs `get` on the non-resource URL /metrics; without that right nothing is reported.

The server drops fields of our writes, too: an allocation without its shareID takes the whole device, and without its
bindingConditions the pod would be bound too early. Where the gates can be read, `features_left` keeps the allocator
from making such allocations; elsewhere `dropped_fields` finds the loss in the server's reply.

Source: component-base/metrics/prometheus/feature (`kubernetes_feature_enabled`), pkg/registry/resource/*/strategy.go
(dropDisabledFields) v1.36.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from allocator import Allocation, Features
from scheduler.kube.api_requests import ApiClient
from scheduler.kube.outcomes import Accepted

METRICS_PATH: Final = "/metrics"

LOST_BY_GATE: Final[Mapping[str, str]] = {
    "DRAPrioritizedList": "requests[].firstAvailable of claims",
    "DRAAdminAccess": "requests[].exactly.adminAccess of claims",
    "DRAExtendedResource": "extendedResourceName of classes and status.extendedResourceClaimStatus of pods",
    "DRAPartitionableDevices": "sharedCounters, consumesCounters and perDeviceNodeSelection of slices",
    "DRADeviceTaints": "taints of slices and tolerations of claims",
    "DRADeviceBindingConditions": "bindsToNode, bindingConditions and bindingFailureConditions of slices",
    "DRAResourceClaimDeviceStatus": "status.devices of claims",
    "DRAConsumableCapacity": "allowMultipleAllocations and request policies of slices, capacity requests of claims",
}
# Without these an allocation would be stored with less than it says; and nobody reads of which PodGroup a pod is.
_FEATURE_BY_GATE: Final[Mapping[str, str]] = {
    "DRAAdminAccess": "admin_access",
    "DRAConsumableCapacity": "consumable_capacity",
    "DRADeviceBindingConditions": "device_binding_and_status",
    "DRAResourceClaimDeviceStatus": "device_binding_and_status",
    "GenericWorkload": "generic_workload",
}
_FRACTIONS: Final = "DRAFractionalCapacityRange"
# Of a DeviceResult: its attribute, the API's name, the gate.
_GATED_FIELDS: Final = (
    ("admin_access", "adminAccess", "DRAAdminAccess"),
    ("binding_conditions", "bindingConditions", "DRADeviceBindingConditions"),
    ("binding_failure_conditions", "bindingFailureConditions", "DRADeviceBindingConditions"),
    ("consumed_capacity", "consumedCapacity", "DRAConsumableCapacity"),
    ("share_id", "shareID", "DRAConsumableCapacity"),
    ("tolerations", "tolerations", "DRADeviceTaints"),
)
_SAMPLE: Final = re.compile(rb'^kubernetes_feature_enabled\{name="([^"]+)",stage="[^"]*"\} ([01])', re.MULTILINE)


async def read_gates(client: ApiClient) -> Mapping[str, bool]:
    """The server's gates by name; empty when it does not say."""
    outcome = await client.send("GET", METRICS_PATH)
    if not isinstance(outcome, Accepted):
        return {}
    return {name.decode(): value == b"1" for name, value in _SAMPLE.findall(outcome.body)}


def dropped_by(gates: Mapping[str, bool]) -> tuple[str, ...]:
    """For each gate that is off, what the server drops and so nobody gets; sorted."""
    return tuple(
        f"the API server's feature gate {gate} is off: it drops {lost} without a word, so what manifests say there has "
        "no effect"
        for gate, lost in sorted(LOST_BY_GATE.items())
        if gates.get(gate) is False
    )


def features_left(features: Features, gates: Mapping[str, bool]) -> Features:
    """The allocator's features without those whose allocations the server would not store as they are.

    How shares are rounded is what the server says, if it does: it depends on a version that only its operator knows.
    """
    said: dict[str, Any] = {field: False for gate, field in _FEATURE_BY_GATE.items() if gates.get(gate) is False}
    if _FRACTIONS in gates:
        said["fractional_capacity_range"] = gates[_FRACTIONS]
    return replace(features, **said)


def dropped_fields(written: Allocation, stored: Allocation | None) -> tuple[str, ...]:
    """What an accepted write of an allocation lost, sorted: "shareID (feature gate DRAConsumableCapacity)".

    An allocation that is missing or has other results is not explained here: PreBind compares it again.
    """
    if stored is None or len(stored.results) != len(written.results):
        return ()
    results = tuple(zip(written.results, stored.results, strict=True))
    return tuple(
        f"{name} (feature gate {gate})"
        for attribute, name, gate in _GATED_FIELDS
        if any(getattr(ours, attribute) and not getattr(theirs, attribute) for ours, theirs in results)
    )
