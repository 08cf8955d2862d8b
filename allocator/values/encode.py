"""Model values to API JSON, field for field as Go's encoder writes them: empty fields are left out."""

from __future__ import annotations

from typing import Any

from allocator.values.model import (
    Allocation,
    AllocationConfig,
    DeviceResult,
    DeviceToleration,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)


def encode_allocation(allocation: Allocation) -> dict[str, Any]:
    """The value for a claim's `status.allocation`."""
    devices: dict[str, Any] = {}
    if allocation.results:
        devices["results"] = [_result(result) for result in allocation.results]
    if allocation.config:
        devices["config"] = [_config(config) for config in allocation.config]
    encoded: dict[str, Any] = {"devices": devices}
    if allocation.node_selector is not None:
        encoded["nodeSelector"] = encode_node_selector(allocation.node_selector)
    if allocation.allocation_timestamp is not None:
        encoded["allocationTimestamp"] = allocation.allocation_timestamp
    return encoded


def encode_node_selector(selector: NodeSelector) -> dict[str, Any]:
    """A core/v1 NodeSelector."""
    return {"nodeSelectorTerms": [_term(term) for term in selector.terms]}


def _result(result: DeviceResult) -> dict[str, Any]:
    encoded: dict[str, Any] = {
        "request": result.request,
        "driver": result.driver,
        "pool": result.pool,
        "device": result.device,
    }
    if result.admin_access is not None:
        encoded["adminAccess"] = result.admin_access
    if result.tolerations:
        encoded["tolerations"] = [_toleration(toleration) for toleration in result.tolerations]
    if result.binding_conditions:
        encoded["bindingConditions"] = list(result.binding_conditions)
    if result.binding_failure_conditions:
        encoded["bindingFailureConditions"] = list(result.binding_failure_conditions)
    if result.share_id is not None:
        encoded["shareID"] = result.share_id
    if result.consumed_capacity:
        encoded["consumedCapacity"] = {name: str(amount) for name, amount in result.consumed_capacity}
    if result.skip_node_operations:
        encoded["skipNodeOperations"] = list(result.skip_node_operations)
    return encoded


def _toleration(toleration: DeviceToleration) -> dict[str, Any]:
    fields = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    encoded: dict[str, Any] = {key: value for key, value in fields.items() if value}
    if toleration.toleration_seconds is not None:
        encoded["tolerationSeconds"] = toleration.toleration_seconds
    return encoded


def _config(config: AllocationConfig) -> dict[str, Any]:
    encoded: dict[str, Any] = {"source": config.source}
    if config.requests:
        encoded["requests"] = list(config.requests)
    encoded.update(config.configuration)
    return encoded


def _term(term: NodeSelectorTerm) -> dict[str, Any]:
    encoded: dict[str, Any] = {}
    if term.match_expressions:
        encoded["matchExpressions"] = [_requirement(requirement) for requirement in term.match_expressions]
    if term.match_fields:
        encoded["matchFields"] = [_requirement(requirement) for requirement in term.match_fields]
    return encoded


def _requirement(requirement: NodeSelectorRequirement) -> dict[str, Any]:
    encoded: dict[str, Any] = {"key": requirement.key, "operator": requirement.operator}
    if requirement.values:
        encoded["values"] = list(requirement.values)
    return encoded
