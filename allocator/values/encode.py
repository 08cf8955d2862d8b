"""Model values to API JSON, field for field as Go's encoder writes them: empty fields are left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from allocator.values.json_fields import camel_case
from allocator.values.model import (
    Allocation,
    AllocationConfig,
    DeviceResult,
    DeviceToleration,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)

_RESULT: Final = {name: camel_case(name) for name in DeviceResult.__struct_fields__} | {"share_id": "shareID"}
_TOLERATION: Final = {name: camel_case(name) for name in DeviceToleration._fields}
_REQUIREMENT: Final = {name: name for name in NodeSelectorRequirement._fields}


def encode_allocation(allocation: Allocation) -> dict[str, Any]:
    """The value for a claim's `status.allocation`."""
    devices: dict[str, Any] = {}
    if allocation.results:
        devices["results"] = [*map(_result, allocation.results)]
    if allocation.config:
        devices["config"] = [*map(_config, allocation.config)]
    encoded: dict[str, Any] = {"devices": devices}
    if allocation.node_selector is not None:
        encoded["nodeSelector"] = encode_node_selector(allocation.node_selector)
    if allocation.allocation_timestamp is not None:
        encoded["allocationTimestamp"] = allocation.allocation_timestamp
    return encoded


def encode_node_selector(selector: NodeSelector) -> dict[str, Any]:
    """A core/v1 NodeSelector."""
    return {"nodeSelectorTerms": [*map(_term, selector.terms)]}


def _fields(value: object, names: Mapping[str, str]) -> dict[str, Any]:
    """The fields that are not empty, by their names in the API."""
    encoded = {}
    for name, key in names.items():
        one = getattr(value, name)
        if one is not None and one not in ("", ()):
            encoded[key] = [*one] if type(one) is tuple else one
    return encoded


def _result(result: DeviceResult) -> dict[str, Any]:
    encoded = _fields(result, _RESULT)
    if result.tolerations:
        encoded["tolerations"] = [_fields(one, _TOLERATION) for one in result.tolerations]
    if result.consumed_capacity:
        encoded["consumedCapacity"] = {name: str(amount) for name, amount in result.consumed_capacity}
    return encoded


def _config(config: AllocationConfig) -> dict[str, Any]:
    return {**_fields(config, {"source": "source", "requests": "requests"}), **config.configuration}


def _term(term: NodeSelectorTerm) -> dict[str, Any]:
    encoded = _fields(term, {"match_expressions": "matchExpressions", "match_fields": "matchFields"})
    return {key: [_fields(one, _REQUIREMENT) for one in some] for key, some in encoded.items()}
