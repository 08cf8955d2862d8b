"""The recorded cases and how they are asked."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

from allocator import (
    ALL_SHORTCUTS,
    Allocated,
    AllocationError,
    AllocationRequest,
    AllocationResult,
    BudgetExhausted,
    Claim,
    DeviceId,
    Features,
    InUse,
    Inventory,
    NodeView,
    Shortcuts,
    allocate,
    decode_claim_spec,
    decode_class,
    decode_slice,
    encode_allocation,
)
from cel.quantity import Quantity

DATA = Path(__file__).parent / "data" / "allocator-cases.json.gz"
BUDGET = 1_000_000

_FLAGS = {
    "AdminAccess": "admin_access",
    "PrioritizedList": "prioritized_list",
    "PartitionableDevices": "partitionable_devices",
    "DeviceTaints": "device_taints",
    "DeviceBindingAndStatus": "device_binding_and_status",
    "ConsumableCapacity": "consumable_capacity",
    "ListTypeAttributes": "list_type_attributes",
    "FractionalCapacityRange": "fractional_capacity_range",
    "CompatibilityGroups": "compatibility_groups",
    "OptionalNodeOperations": "optional_node_operations",
    "DerivedAttributes": "derived_attributes",
}

LOCKED_138 = ("DeviceBindingAndStatus", "DeviceTaints", "PartitionableDevices")
"""What nobody can turn off in 1.38."""


@lru_cache(maxsize=1)
def recorded() -> tuple[dict[str, Any], ...]:
    """All recorded cases."""
    with gzip.open(DATA) as file:
        return tuple(json.load(file)["cases"])


def features_of(case: Mapping[str, Any], kubernetes: str = "1.36", **changes: Any) -> Features:
    flags = {_FLAGS[name]: value for name, value in (case.get("features") or {}).items()}
    return Features(**flags, kubernetes=kubernetes, **changes)


def in_use_of(case: Mapping[str, Any]) -> InUse:
    in_use = InUse()
    for device in case.get("allocated") or ():
        in_use.add_device(DeviceId(device["driver"], device["pool"], device["device"]))
    for share in case.get("allocatedShared") or ():
        in_use.add_share(
            DeviceId(share["driver"], share["pool"], share["device"]),
            share["shareID"],
            [(name, Quantity.parse(value)) for name, value in (share.get("consumedCapacity") or {}).items()],
        )
    return in_use


def inventory_of(case: Mapping[str, Any]) -> Inventory:
    return Inventory(map(decode_slice, case["slices"]), map(decode_class, case["classes"]))


def claims_of(case: Mapping[str, Any]) -> list[Claim]:
    return [
        Claim(claim["metadata"].get("namespace", ""), claim["metadata"]["name"], decode_claim_spec(claim["spec"]))
        for claim in case["claims"]
    ]


def node_of(case: Mapping[str, Any]) -> NodeView:
    metadata = case["node"]["metadata"]
    declared = case["node"].get("status", {}).get("declaredFeatures") or ()
    return NodeView(metadata["name"], metadata.get("labels") or {}, tuple(declared))


def share_ids() -> Iterator[str]:
    return (f"share-{number}" for number in count(1))


def question_of(
    case: Mapping[str, Any],
    claims: Sequence[Claim],
    inventory: Inventory,
    in_use: InUse,
    *,
    features: Features | None = None,
    budget_steps: int,
) -> AllocationRequest:
    """A case's question about objects that may be asked about again, as a scheduler has them."""
    return AllocationRequest(
        claims,
        node_of(case),
        inventory,
        in_use,
        features=features or features_of(case),
        budget_steps=budget_steps,
        share_ids=share_ids(),
    )


def ask(
    case: Mapping[str, Any],
    *,
    features: Features | None = None,
    shortcuts: Shortcuts = ALL_SHORTCUTS,
    budget_steps: int = BUDGET,
) -> dict[str, Any]:
    """Answer a case in the form of `expect`."""
    try:
        outcome = allocate(
            question_of(
                case, claims_of(case), inventory_of(case), in_use_of(case), features=features, budget_steps=budget_steps
            ),
            shortcuts=shortcuts,
        )
    except AllocationError as error:
        return {"outcome": "error", "error": str(error), **({"nodeOnly": True} if error.is_of_node else {})}
    return answer_of(outcome)


def answer_of(outcome: AllocationResult) -> dict[str, Any]:
    """An outcome in the form of `expect`."""
    if isinstance(outcome, Allocated):
        allocations = [encode_allocation(allocation) for allocation in outcome.allocations]
        return {"outcome": "allocated", "allocations": allocations, "steps": outcome.steps}
    if isinstance(outcome, BudgetExhausted):
        return {"outcome": "exhausted", "steps": outcome.steps}
    if outcome.invalid_pools:
        text = "invalid resource pools were encountered"
        return {"outcome": "error", "error": text, "nodeOnly": True, "steps": outcome.steps}
    return {"outcome": "none", "steps": outcome.steps}
