"""Picks to allocations: results, configuration, node selector.

Source: second half of `Allocate`, `createNodeSelector` of structured/internal/incubating v0.36.3; what 1.37
changed about configuration entries from v0.37.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from allocator.requests.requests import ClaimPlan, Slot
from allocator.search.problem import Problem
from allocator.values.features import Features
from allocator.values.model import (
    Allocation,
    AllocationConfig,
    AllocationError,
    DeviceResult,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from cel.quantity import Quantity


def build_allocations(
    problem: Problem, picks: Sequence[tuple[Slot, int]], node_name: str, share_ids: Iterator[str]
) -> tuple[Allocation, ...]:
    """One allocation per claim, in order.

    Raises:
        AllocationError: a slice's node selector has more than one term.
    """
    by_claim: list[list[tuple[Slot, int]]] = [[] for _ in problem.claims]
    for pick in picks:
        by_claim[pick[0].claim].append(pick)
    allocations = []
    for claim_plan, picked in zip(problem.plan.claims, by_claim, strict=True):
        results = tuple([_result(problem, slot, position, share_ids) for slot, position in picked])
        selector = _node_selector(problem, picked, node_name)
        allocations.append(Allocation(results, _config(problem, claim_plan, picked), selector))
    return tuple(allocations)


def _result(problem: Problem, slot: Slot, position: int, share_ids: Iterator[str]) -> DeviceResult:
    _, view, index = problem.pools.locate(position)
    device = view.devices[index]
    features = problem.features
    share_id = None
    consumed: tuple[tuple[str, Quantity], ...] = ()
    if problem.pools.shareable >> position & 1:
        share_id = next(share_ids)
        consumed = problem.consumption(slot, position).amounts
    has_conditions = features.device_binding_and_status
    return DeviceResult(
        slot.label,
        *device.id,
        True if slot.is_admin else None,
        slot.details.tolerations,
        (device.binding_conditions or ()) if has_conditions else (),
        (device.binding_failure_conditions or ()) if has_conditions else (),
        share_id,
        consumed,
        view.slices[index].skip_node_operations,
    )


def _config(problem: Problem, claim: ClaimPlan, picked: Sequence[tuple[Slot, int]]) -> tuple[AllocationConfig, ...]:
    """Class entries once per class, then the claim's; only for alternatives that were chosen."""
    if not claim.has_config:
        return ()
    chosen = _chosen(claim, picked)
    key = tuple(chosen.values())
    known = claim.configs.get(key)
    if known is None:
        known = claim.configs[key] = _build_config(claim, chosen, problem.features)
    return known


def _chosen(claim: ClaimPlan, picked: Sequence[tuple[Slot, int]]) -> Mapping[int, Slot]:
    """The slot that serves each request. A request that needed no device counts as its first alternative."""
    by_request = {slot.request: slot for slot, _ in picked}
    return {request.index: by_request.get(request.index, request.slots[0]) for request in claim.requests}


def _build_config(claim: ClaimPlan, chosen: Mapping[int, Slot], features: Features) -> tuple[AllocationConfig, ...]:
    names_by_class: dict[str, list[str]] = {}
    for slot in chosen.values():
        names_by_class.setdefault(slot.device_class.name, []).append(slot.label)
    entries: list[AllocationConfig] = []
    classes = {slot.device_class.name: slot.device_class for slot in chosen.values()}
    for name, requests in names_by_class.items():
        entries += [
            AllocationConfig("FromClass", tuple(requests), configuration) for configuration in classes[name].config
        ]
    for config in claim.spec.config:
        entry = AllocationConfig("FromClaim", config.requests, config.configuration)
        copies = 1 if not config.requests else sum(_names(config.requests, slot) for slot in chosen.values())
        # 1.36 repeats an entry once per request it names.
        entries += [entry] * (min(copies, 1) if features.has_137_semantics else copies)
    if features.has_137_semantics:
        entries = [
            AllocationConfig(entry.source, (), entry.configuration)
            if entry.requests and all(_names(entry.requests, slot) for slot in chosen.values())
            else entry
            for entry in entries
        ]
    return tuple(entries)


def _names(requests: Sequence[str], slot: Slot) -> bool:
    return slot.base in requests or slot.label in requests


def _node_selector(problem: Problem, picked: Sequence[tuple[Slot, int]], node_name: str) -> NodeSelector | None:
    """Where the claim can be used: this node when a device is bound to it, else all the devices' selectors."""
    expressions: list[NodeSelectorRequirement] = []
    fields: list[NodeSelectorRequirement] = []
    pools = problem.pools
    for slot, position in picked:
        _, view, index = pools.locate(position)
        device, slice_ = view.devices[index], view.slices[index]
        is_per_device = bool(slice_.per_device_node_selection)
        own_name = device.node_name if is_per_device else slice_.node_name
        binds = device.binds_to_node and not problem.features.is_stable_variant
        if own_name is not None or binds:
            return on_node(node_name)
        selector = device.node_selector if is_per_device else slice_.node_selector
        if selector is None or not selector.terms:
            continue
        if len(selector.terms) > 1:
            raise AllocationError(
                f"create NodeSelector for claim {problem.claims[slot.claim].name}: "
                f"unsupported ResourceSlice.NodeSelector with {len(selector.terms)} terms"
            )
        _add_new(selector.terms[0].match_fields, fields)
        _add_new(selector.terms[0].match_expressions, expressions)
    if not (expressions or fields):
        return None
    return NodeSelector((NodeSelectorTerm(tuple(expressions), tuple(fields)),))


def on_node(name: str) -> NodeSelector:
    """For what can be used on this node only."""
    return NodeSelector((NodeSelectorTerm((), (NodeSelectorRequirement("metadata.name", "In", (name,)),)),))


def _add_new(requirements: Sequence[NodeSelectorRequirement], known: list[NodeSelectorRequirement]) -> None:
    """Requirements with the same set of values are the same, whatever the order."""
    for requirement in requirements:
        if not any(
            other.key == requirement.key
            and other.operator == requirement.operator
            and set(other.values) == set(requirement.values)
            for other in known
        ):
            known.append(requirement)
