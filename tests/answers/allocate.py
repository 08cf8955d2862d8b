"""Cases of `allocate`: one question to the allocator, answered by it alone.

The form is that of the recorded cases in tests/allocator: objects of the API (`slices`, `classes`, `claims`
of one pod with defaults filled in, `node`), devices in use (`allocated`, `allocatedShared`), and `features`
that differ from the defaults. Share ids are `share-1`, `share-2`, … in order of appearance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, Final

from allocator import (
    INVALID_POOLS,
    Allocated,
    AllocationError,
    AllocationRequest,
    BudgetExhausted,
    Claim,
    DecodeError,
    DeviceId,
    Features,
    InUse,
    Inventory,
    NodeView,
    allocate,
    decode_claim_spec,
    decode_class,
    decode_slice,
    encode_allocation,
)
from cel.quantity import Quantity
from scheduler.cli.gate_options import gate_named
from scheduler.model.api_rules import FIELD_BY_GATE

_ALIASES: Final = {"DeviceBindingAndStatus": "DRADeviceBindingConditions"}
"""Upstream's tests have one flag for this gate and DRAResourceClaimDeviceStatus."""


class CaseError(ValueError):
    """A case that cannot be asked; the text names the field."""


def share_ids() -> Iterator[str]:
    """share-1, share-2, …"""
    return (f"share-{number}" for number in count(1))


def read_features(flags: Mapping[str, Any], kubernetes: str) -> Features:
    """Features from upstream's names. Raises CaseError."""
    wrong = [name for name, value in flags.items() if not isinstance(value, bool)]
    if wrong:
        raise CaseError(f"features.{wrong[0]}: expected true or false, got {flags[wrong[0]]!r}")
    try:
        return Features(
            **{FIELD_BY_GATE[gate_named(_ALIASES.get(name, name))]: value for name, value in flags.items()},
            kubernetes=kubernetes,
        )
    except ValueError as error:
        raise CaseError(f"features: {error}") from None


def answer(case: Any, *, budget_steps: int, kubernetes: str) -> dict[str, Any]:
    """The answer to a case: `name`, `outcome` (allocated, none, error), `steps`, and `allocations` or `error`."""
    name = case.get("name", "") if isinstance(case, Mapping) else ""
    try:
        return {"name": name, **_ask(case, budget_steps, kubernetes)}
    except AllocationError as error:
        return {"name": name, "outcome": "error", "error": str(error), "steps": error.steps}
    except (CaseError, DecodeError) as error:
        return {"name": name, "outcome": "error", "error": str(error), "steps": 0}


def _ask(case: Any, budget_steps: int, kubernetes: str) -> dict[str, Any]:
    if not isinstance(case, Mapping):
        raise CaseError("a case is a JSON object")
    question = AllocationRequest(
        [_claim(index, claim) for index, claim in enumerate(_list(case, "claims"))],
        _node(case),
        Inventory(map(decode_slice, _list(case, "slices")), map(decode_class, _list(case, "classes"))),
        _in_use(case),
        read_features(case.get("features") or {}, str(case.get("kubernetes") or kubernetes)),
        budget_steps,
        share_ids(),
    )
    outcome = allocate(question)
    steps = outcome.steps
    if isinstance(outcome, Allocated):
        allocations = [encode_allocation(allocation) for allocation in outcome.allocations]
        return {"outcome": "allocated", "allocations": allocations, "steps": steps}
    if isinstance(outcome, BudgetExhausted):
        text = f"no answer within {budget_steps} steps: nothing is known; allow more with --budget-steps"
        return {"outcome": "error", "error": text, "steps": steps}
    if outcome.invalid_pools:
        return {"outcome": "error", "error": INVALID_POOLS, "nodeOnly": True, "steps": steps}
    return {"outcome": "none", "steps": steps}


def _list(case: Mapping[str, Any], key: str) -> list[Any]:
    value = case.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise CaseError(f"{key}: expected a list")
    return value


def _claim(index: int, claim: Any) -> Claim:
    if not isinstance(claim, Mapping) or not isinstance(claim.get("metadata"), Mapping):
        raise CaseError(f"claims[{index}]: expected a ResourceClaim with metadata")
    metadata = claim["metadata"]
    return Claim(
        str(metadata.get("namespace") or ""),
        str(metadata.get("name") or ""),
        decode_claim_spec(claim.get("spec") or {}),
    )


def _node(case: Mapping[str, Any]) -> NodeView:
    node = case.get("node")
    metadata = node.get("metadata") if isinstance(node, Mapping) else None
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
        raise CaseError("node: expected a Node with metadata.name")
    declared = (node.get("status") or {}).get("declaredFeatures") or () if isinstance(node, Mapping) else ()
    return NodeView(metadata["name"], metadata.get("labels") or {}, tuple(declared))


def _in_use(case: Mapping[str, Any]) -> InUse:
    in_use = InUse()
    for index, held in enumerate(_list(case, "allocated")):
        in_use.add_device(_device_id(f"allocated[{index}]", held))
    for index, share in enumerate(_list(case, "allocatedShared")):
        path = f"allocatedShared[{index}]"
        device = _device_id(path, share)
        consumed = []
        for name, value in (share.get("consumedCapacity") or {}).items():
            try:
                consumed.append((name, Quantity.parse(value)))
            except (ValueError, TypeError, AttributeError) as error:
                raise CaseError(f"{path}.consumedCapacity[{name}]: {value!r} is not a quantity: {error}") from None
        in_use.add_share(device, str(share.get("shareID") or ""), consumed)
    return in_use


def _device_id(path: str, held: Any) -> DeviceId:
    names = [held.get(key) if isinstance(held, Mapping) else None for key in ("driver", "pool", "device")]
    known = [name for name in names if isinstance(name, str)]
    if len(known) != 3:
        raise CaseError(f"{path}: expected driver, pool and device")
    return DeviceId(*known)
