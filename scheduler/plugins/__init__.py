"""The scheduling plugins, under upstream's names.

Order and weights are those of kube-scheduler's default profile 1.36 (apis/config/v1/default_plugins.go), so that
reasons come in the same order and scores weigh the same. DynamicResources stands directly before DefaultPreemption:
freeing an idle claim is better than evicting a pod. UnsupportedFields stands for the plugins of that profile which are
not here yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from scheduler.framework.api import Plugin
from scheduler.model.selector_text import TextSelector
from scheduler.plugins import (
    dynamic_resources,
    node_affinity,
    node_name,
    node_resources_fit,
    node_unschedulable,
    own_nodes,
    scheduling_gates,
    taint_toleration,
    unsupported_fields,
)

if TYPE_CHECKING:
    # Protocols are satisfied structurally and isinstance sees only names: here mypy compares the signatures.
    from scheduler.framework.api import (
        FilterPlugin,
        PostFilterPlugin,
        PreBindPlugin,
        PreEnqueuePlugin,
        PreFilterPlugin,
        ReservePlugin,
        ScorePlugin,
        TargetedHints,
    )

    _devices = dynamic_resources.DynamicResources()
    _fit = node_resources_fit.NodeResourcesFit()
    _affinity = node_affinity.NodeAffinity()
    _taints = taint_toleration.TaintToleration()
    _name = node_name.NodeName()
    _pre_enqueue: tuple[PreEnqueuePlugin, ...] = (scheduling_gates.SchedulingGates(), _devices)
    _pre_filter: tuple[PreFilterPlugin, ...] = (
        unsupported_fields.UnsupportedFields(),
        _name,
        _affinity,
        _fit,
        _devices,
    )
    _filter: tuple[FilterPlugin, ...] = (
        node_unschedulable.NodeUnschedulable(),
        _name,
        _taints,
        _affinity,
        _fit,
        _devices,
        own_nodes.OwnNodes(TextSelector("", ())),
    )
    _post_filter: PostFilterPlugin = _devices
    _score: tuple[ScorePlugin, ...] = (_taints, _affinity, _fit, _devices)
    _reserve: ReservePlugin = _devices
    _pre_bind: PreBindPlugin = _devices
    _hints: TargetedHints = _devices

__all__ = ["default_plugins", "plugin_factories"]


def plugin_factories(
    *,
    budget_steps: int = 200_000,
    binding_timeout_ms: int = 600_000,
    nodes: TextSelector | None = None,
    slices: TextSelector | None = None,
    ignored_fields: Iterable[str] = (),
) -> Mapping[str, Callable[[], Plugin]]:
    """Factories by plugin name, in upstream's default order, each with upstream's default weight.

    Args:
        budget_steps: DynamicResources' largest search per pod and node, in (request, device) trials, > 0.
        binding_timeout_ms: DynamicResources' wait for binding conditions, >= 1,000.
        nodes: The only nodes to use, None for all; with it the plugin OwnNodes comes first.
        slices: The only slices that are told, None for all; for DynamicResources' words only.
        ignored_fields: UnsupportedFields' names of fields that refuse no pod.

    Raises:
        ValueError: an argument is out of its range.
    """
    if budget_steps < 1:
        raise ValueError(f"budget_steps: {budget_steps} must be at least 1")
    if binding_timeout_ms < 1_000:
        raise ValueError(f"binding_timeout_ms: {binding_timeout_ms} must be at least 1000 (1 s)")
    own: dict[str, Callable[[], Plugin]] = {}
    if nodes is not None:
        own[own_nodes.NAME] = lambda: own_nodes.OwnNodes(nodes)
    return own | {
        scheduling_gates.NAME: scheduling_gates.SchedulingGates,
        unsupported_fields.NAME: lambda: unsupported_fields.UnsupportedFields(frozenset(ignored_fields)),
        node_unschedulable.NAME: node_unschedulable.NodeUnschedulable,
        node_name.NAME: node_name.NodeName,
        taint_toleration.NAME: taint_toleration.TaintToleration,
        node_affinity.NAME: node_affinity.NodeAffinity,
        node_resources_fit.NAME: node_resources_fit.NodeResourcesFit,
        dynamic_resources.NAME: lambda: dynamic_resources.DynamicResources(
            budget_steps=budget_steps,
            binding_timeout_ms=binding_timeout_ms,
            slices=slices.text if slices is not None else "",
        ),
    }


def default_plugins(
    *,
    budget_steps: int = 200_000,
    binding_timeout_ms: int = 600_000,
    nodes: TextSelector | None = None,
    slices: TextSelector | None = None,
    ignored_fields: Iterable[str] = (),
) -> tuple[Plugin, ...]:
    """The plugins of `plugin_factories`, built, in upstream's default order."""
    factories = plugin_factories(
        budget_steps=budget_steps,
        binding_timeout_ms=binding_timeout_ms,
        nodes=nodes,
        slices=slices,
        ignored_fields=ignored_fields,
    )
    return tuple(build() for build in factories.values())
