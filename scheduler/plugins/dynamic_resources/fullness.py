"""How full a node's devices are with the pod: the score of `scoringStrategy`.

Rules of this module
  1. A resource counts where the pod would take of it on this node, by the devices found for it there.
  2. What a node has of a class is what it could give: also devices that are shared with other nodes.

Not here: the strategies (`plugins.scoring_strategies`); what exists and what is held
(`allocator.answers.class_usage`).

Source: none upstream; arguments are written as NodeResourcesFit's (docs/adr/0023-nodes-scored-by-devices.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from allocator import Allocation, class_usage
from scheduler.framework.cluster_view import ClusterView
from scheduler.model.node_info import NodeInfo
from scheduler.plugins.dynamic_resources.resolved_claims import PodClaims
from scheduler.plugins.scoring_strategies import (
    ScoringStrategy,
    Usage,
    strategy_errors,
    strategy_score,
)
from scheduler.validation.field_errors import FieldError, invalid, required
from scheduler.validation.name_rules import check_text, dns_subdomain

_FIELD: Final = "scoringStrategy"


def fullness(strategy: ScoringStrategy, node: NodeInfo, view: ClusterView, found: Sequence[Allocation]) -> int:
    """0..100; 0 when the pod takes nothing that counts.

    Args:
        found: What the pod would be given on the node.
    """
    taken = {one.device_id: one for allocation in found for one in allocation.results if not one.admin_access}
    usages: list[Usage] = []
    for resource in strategy.resources if taken else ():
        usage = class_usage(
            resource.name,
            node.host,
            inventory=view.inventory,
            in_use=view.in_use,
            features=view.features,
            taken=taken,
        )
        if usage.taken:
            usages.append((usage.used + usage.taken, usage.total, resource.weight))
    return strategy_score(strategy, usages)


def has_alternatives(claims: PodClaims, view: ClusterView) -> bool:
    """Whether a claim that is still to be allocated leaves a choice."""
    return view.features.prioritized_list and any(
        request.first_available for claim in claims.wanted for request in claim.spec.requests
    )


def strategy_argument_errors(strategy: ScoringStrategy | None) -> list[FieldError]:
    """What is wrong with the argument, by paths within the arguments."""
    if strategy is None:
        return []
    errors = strategy_errors(_FIELD, strategy)
    if not strategy.resources:
        errors.append(required(f"{_FIELD}.resources", "names of device classes, or CLASS/CAPACITY"))
    for index, resource in enumerate(strategy.resources):
        path = f"{_FIELD}.resources[{index}].name"
        device_class, slash, capacity = resource.name.partition("/")
        errors += check_text(dns_subdomain, device_class, path)
        if slash and not capacity:
            errors.append(invalid(path, resource.name, "the name of a capacity must follow the slash"))
    return errors
