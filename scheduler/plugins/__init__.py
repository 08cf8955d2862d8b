"""The scheduling plugins, under upstream's names.

Order and weights are those of kube-scheduler's default profile 1.36 (apis/config/v1/default_plugins.go), so that
reasons come in the same order and scores weigh the same. DynamicResources stands directly before DefaultPreemption:
freeing an idle claim is better than evicting a pod. UnsupportedFields stands in for the plugins of that profile that do
not exist here yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from scheduler.framework.api import Plugin
from scheduler.model.label_selectors import TextSelector
from scheduler.plugins.dynamic_resources import DynamicResources
from scheduler.plugins.node_affinity import NodeAffinity
from scheduler.plugins.node_name import NodeNamePlugin
from scheduler.plugins.node_resources_fit import NodeResourcesFit
from scheduler.plugins.node_unschedulable import NodeUnschedulable
from scheduler.plugins.own_nodes import OwnNodes
from scheduler.plugins.scheduling_gates import SchedulingGates
from scheduler.plugins.taint_toleration import TaintToleration
from scheduler.plugins.unsupported_fields import UnsupportedFields

__all__ = ["default_plugins"]


@dataclass(frozen=True, slots=True)
class _Arguments:
    """What the configuration says to plugins, as in `default_plugins`."""

    budget_steps: int
    binding_timeout_ms: int
    nodes: TextSelector | None
    slices: TextSelector | None
    ignored_fields: frozenset[str]


# A plugin is one row. tests/plugins/test_registry.py compares the methods of each row with its extension points.
_IN_ORDER: Final[tuple[Callable[[_Arguments], Plugin | None], ...]] = (
    lambda given: OwnNodes(given.nodes) if given.nodes is not None else None,
    lambda _: SchedulingGates(),
    lambda given: UnsupportedFields(given.ignored_fields),
    lambda _: NodeUnschedulable(),
    lambda _: NodeNamePlugin(),
    lambda _: TaintToleration(),
    lambda _: NodeAffinity(),
    lambda _: NodeResourcesFit(),
    lambda given: DynamicResources(
        budget_steps=given.budget_steps,
        binding_timeout_ms=given.binding_timeout_ms,
        slices=given.slices.text if given.slices is not None else "",
    ),
)


def default_plugins(
    *,
    budget_steps: int = 200_000,
    binding_timeout_ms: int = 600_000,
    nodes: TextSelector | None = None,
    slices: TextSelector | None = None,
    ignored_fields: Iterable[str] = (),
) -> tuple[Plugin, ...]:
    """The plugins in upstream's default order, each with upstream's default weight.

    Args:
        budget_steps: DynamicResources' largest search per pod and node, in (request, device) trials, > 0.
        binding_timeout_ms: DynamicResources' wait for binding conditions, >= 1,000.
        nodes: The only nodes to use, None for all; with it the plugin OwnNodes comes first.
        slices: The only slices of the inventory, None for all; DynamicResources names the option in its reasons.
        ignored_fields: UnsupportedFields' names of fields that refuse no pod.

    Raises:
        ValueError: an argument is out of its range.
    """
    if budget_steps < 1:
        raise ValueError(f"budget_steps: {budget_steps} must be at least 1")
    if binding_timeout_ms < 1_000:
        raise ValueError(f"binding_timeout_ms: {binding_timeout_ms} must be at least 1000 (1 s)")
    given = _Arguments(budget_steps, binding_timeout_ms, nodes, slices, frozenset(ignored_fields))
    built = (build(given) for build in _IN_ORDER)
    return tuple(plugin for plugin in built if plugin is not None)
