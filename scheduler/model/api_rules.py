"""The limits and fixed words of the APIs that several of our parts keep to: resource.k8s.io/v1 and its neighbours.

Who needs one of these takes it from here: the scheduler itself, lint, and the embedded API server.
What concerns the allocator as well stands there (`allocator.RESULTS_MAX`), what a name may look like in
`allocator.values.names`. A new release of Kubernetes is read against this page.

Source: k8s.io/kubernetes v1.36.3 pkg/apis/resource/types.go, k8s.io/api v0.36.3 resource/v1/types.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# -- claims -----------------------------------------------------------------------------------------

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
POD_CLAIM_NAME_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
EXTENDED_RESOURCE_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
ADMIN_ACCESS_LABEL: Final = "resource.kubernetes.io/admin-access"
"""`"true"` on a namespace whose claims may ask for admin access."""

REQUESTS_MAX: Final = 32
SUB_REQUESTS_MAX: Final = 8
SELECTORS_MAX: Final = 32
CONSTRAINTS_MAX: Final = 32
CONFIG_MAX: Final = 32
RESERVED_FOR_MAX: Final = 256
CONDITIONS_MAX: Final = 8  # of one allocated device, of one DeviceTaintRule

EXPRESSION_LENGTH_MAX: Final = 10 * 1024  # bytes
PARAMETERS_LENGTH_MAX: Final = 10 * 1024  # bytes of JSON

ALLOCATION_MODES: Final = ("ExactCount", "All")

# -- slices -----------------------------------------------------------------------------------------

DRIVER_NAME_LENGTH_MAX: Final = 63
POOL_NAME_LENGTH_MAX: Final = 253
ID_LENGTH_MAX: Final = 32  # of an attribute or capacity, without its domain

DEVICES_MAX: Final = 128
ADVANCED_DEVICES_MAX: Final = 64  # where one has taints, consumesCounters or list attributes
COUNTER_SETS_MAX: Final = 8
COUNTERS_MAX: Final = 32
CONSUMPTIONS_MAX: Final = 2
ATTRIBUTES_AND_CAPACITIES_MAX: Final = 32
ATTRIBUTE_VALUES_MAX: Final = 48
ATTRIBUTE_VALUE_LENGTH_MAX: Final = 64  # bytes
BINDING_CONDITIONS_MAX: Final = 4
TAINTS_MAX: Final = 16
VALID_VALUES_MAX: Final = 10

SCALAR_ATTRIBUTES: Final = ("bool", "int", "string", "version")
LIST_ATTRIBUTES: Final = ("bools", "ints", "strings", "versions")
TAINT_EFFECTS: Final = ("NoSchedule", "NoExecute", "None")

# -- events -----------------------------------------------------------------------------------------

NOTE_LENGTH_MAX: Final = 1024  # bytes; events.k8s.io/v1 NoteLengthLimit
_CUT: Final = " ..."

FIELD_BY_GATE: Final[Mapping[str, str]] = {
    "DRAAdminAccess": "admin_access",
    "DRAPrioritizedList": "prioritized_list",
    "DRAPartitionableDevices": "partitionable_devices",
    "DRADeviceTaints": "device_taints",
    "DRADeviceBindingConditions": "device_binding_and_status",
    "DRAConsumableCapacity": "consumable_capacity",
    "DRAListTypeAttributes": "list_type_attributes",
    "DRAFractionalCapacityRange": "fractional_capacity_range",
    "DRAExtendedResource": "extended_resource",
    "DRANodeAllocatableResources": "node_allocatable_resources",
    "DRAOptionalNodeOperations": "optional_node_operations",
    "DRADerivedAttributes": "derived_attributes",
    "DRADeviceCompatibilityGroups": "compatibility_groups",
}
"""The feature gates that decide what is allocated, and their fields of `allocator.Features`."""

UPSTREAM_FIELDS: Final = (
    *("parallelism", "leaderElection", "clientConnection", "enableProfiling", "enableContentionProfiling"),
    *("percentageOfNodesToScore", "percentageOfPlacementsToScore", "podInitialBackoffSeconds"),
    *("podMaxBackoffSeconds", "profiles", "extenders", "delayCacheUntilActive"),
)
"""Of a KubeSchedulerConfiguration of v1."""

LOCKED_GATES: Final[Mapping[str, frozenset[str]]] = {
    "1.38": frozenset(
        {"DRAAdminAccess", "DRADeviceBindingConditions", "DRADeviceTaints", "DRAExtendedResource"}
        | {"DRAPartitionableDevices", "DRAPrioritizedList"}
    )
}
"""By release those of them that nobody can turn off."""


def cut_note(note: str) -> str:
    """`note` as long as an event's may be, cut as kube-scheduler cuts it."""
    if 4 * len(note) <= NOTE_LENGTH_MAX:
        return note  # nearly all are short, and each pod has one
    encoded = note.encode()
    if len(encoded) <= NOTE_LENGTH_MAX:
        return note
    return encoded[: NOTE_LENGTH_MAX - len(_CUT)].decode("utf-8", "ignore") + _CUT
