"""Feature gates of the API server, read from its metrics: a field whose gate is off is dropped from what users write.

The server says nothing when it drops a field, so a claim may ask for less than its author wrote. This is the only place
where a client can see why. Reading it needs `get` on the non-resource URL /metrics; without it nothing is said.

Source: component-base/metrics/prometheus/feature (`kubernetes_feature_enabled`), pkg/registry/resource/*/strategy.go
(dropDisabledFields) v1.36.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from scheduler.kube.requests import Accepted, ApiClient

METRICS_PATH: Final = "/metrics"

LOST_BY_GATE: Final[Mapping[str, str]] = {
    "DRAPrioritizedList": "requests[].firstAvailable of claims",
    "DRAAdminAccess": "requests[].exactly.adminAccess of claims",
    "DRAPartitionableDevices": "sharedCounters, consumesCounters and perDeviceNodeSelection of slices",
    "DRADeviceTaints": "taints of slices and tolerations of claims",
    "DRADeviceBindingConditions": "bindsToNode, bindingConditions and bindingFailureConditions of slices",
    "DRAResourceClaimDeviceStatus": "status.devices of claims",
    "DRAConsumableCapacity": "allowMultipleAllocations and request policies of slices, capacity requests of claims",
}
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
