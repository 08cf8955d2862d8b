"""The scheduling plugins, under upstream's names.

Order, weights and extension points are those of kube-scheduler's default profile (apis/config/v1/
default_plugins.go), so that reasons come in the same order and scores weigh the same; since 1.37 NodeName stands before
NodeUnschedulable. DynamicResources stands directly before DefaultPreemption: freeing an idle claim is better than
evicting a pod. GangScheduling, behind a gate upstream, is always there and last, where upstream's gate puts it.

Not here: what a configuration makes of the default profile (`scheduler.config`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from allocator import Features
from scheduler.framework.api import Plugin
from scheduler.model.label_selectors import TextSelector
from scheduler.plugins import (
    default_preemption,
    dynamic_resources,
    inter_pod_affinity,
    node_affinity,
    node_resources_balanced_allocation,
    node_resources_fit,
    pod_topology_spread,
    volume_binding,
)
from scheduler.plugins.default_preemption import DefaultPreemption
from scheduler.plugins.dynamic_resources import DynamicResources
from scheduler.plugins.gang_scheduling import GangScheduling
from scheduler.plugins.image_locality import ImageLocality
from scheduler.plugins.inter_pod_affinity import InterPodAffinity
from scheduler.plugins.node_affinity import NodeAffinity
from scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from scheduler.plugins.node_name import NodeNamePlugin
from scheduler.plugins.node_ports import NodePorts
from scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from scheduler.plugins.node_resources_fit import NodeResourcesFit
from scheduler.plugins.node_unschedulable import NodeUnschedulable
from scheduler.plugins.node_volume_limits import NodeVolumeLimits
from scheduler.plugins.own_nodes import OwnNodes
from scheduler.plugins.pod_topology_spread import PodTopologySpread
from scheduler.plugins.scheduling_gates import SchedulingGates
from scheduler.plugins.taint_toleration import TaintToleration
from scheduler.plugins.volume_binding import VolumeBinding
from scheduler.plugins.volume_restrictions import VolumeRestrictions
from scheduler.plugins.volume_zone import VolumeZone
from scheduler.validation.field_errors import FieldError

__all__ = ["DEFAULT_PROFILE", "ROW_BY_NAME", "Row", "build_plugins", "default_names", "default_plugins"]


@dataclass(frozen=True, slots=True)
class Row:
    """A plugin of the default profile.

    Attributes:
        name: Upstream's.
        points: Upstream's extension points, as configuration files write them. Ours may have one more (NodeName's
            PreFilter): that is called where the plugin is on at all.
        build: Makes the plugin of its arguments, which are fields of its dataclass; None: the core does its work, or it
            does not exist here yet.
        weight: Of its scores, 0 where it has none.
        argument_errors: What is wrong with the arguments of a built plugin, by paths within them.
    """

    name: str
    points: str
    build: Callable[..., Plugin] | None = None
    weight: int = 0
    argument_errors: Callable[[Any], list[FieldError]] | None = None


# A plugin is one row. tests/plugins/test_registry.py compares the methods of each row with its extension points.
DEFAULT_PROFILE: Final[tuple[Row, ...]] = (
    Row("SchedulingGates", "preEnqueue", SchedulingGates),
    Row("PrioritySort", "queueSort"),
    Row("NodeName", "filter", NodeNamePlugin),
    Row("NodeUnschedulable", "filter", NodeUnschedulable),
    Row("TaintToleration", "filter preScore score", TaintToleration, weight=3),
    Row("NodeAffinity", "preFilter filter preScore score", NodeAffinity, 2, node_affinity.argument_errors),
    Row("NodePorts", "preFilter filter", NodePorts),
    Row(
        "NodeResourcesFit",
        "preFilter filter preScore score placementScore",
        NodeResourcesFit,
        1,
        node_resources_fit.argument_errors,
    ),
    Row("VolumeRestrictions", "preFilter filter", VolumeRestrictions),
    Row("NodeVolumeLimits", "preFilter filter", NodeVolumeLimits),
    Row(
        "VolumeBinding",
        "preFilter filter reserve preBind preScore score",
        VolumeBinding,
        1,
        volume_binding.argument_errors,
    ),
    Row("VolumeZone", "preFilter filter", VolumeZone),
    Row(
        "PodTopologySpread",
        "preFilter filter preScore score",
        PodTopologySpread,
        2,
        pod_topology_spread.argument_errors,
    ),
    Row("InterPodAffinity", "preFilter filter preScore score", InterPodAffinity, 2, inter_pod_affinity.argument_errors),
    Row(
        "DynamicResources",
        "preEnqueue preFilter filter postFilter score reserve preBind podGroupPostFilter",
        DynamicResources,
        2,
        dynamic_resources.argument_errors,
    ),
    Row(
        "DefaultPreemption",
        "preEnqueue postFilter podGroupPostFilter",
        DefaultPreemption,
        argument_errors=default_preemption.argument_errors,
    ),
    Row(
        "NodeResourcesBalancedAllocation",
        "preScore score",
        NodeResourcesBalancedAllocation,
        1,
        node_resources_balanced_allocation.argument_errors,
    ),
    Row("ImageLocality", "score", ImageLocality, weight=1),
    Row("DefaultBinder", "bind"),
    Row("NodeDeclaredFeatures", "preFilter filter", NodeDeclaredFeatures),
)
ROW_BY_NAME: Final[Mapping[str, Row]] = {row.name: row for row in DEFAULT_PROFILE}


def default_names(features: Features) -> tuple[str, ...]:
    """The names of `DEFAULT_PROFILE` in the order of the release: where two refuse, the first is heard."""
    names = [row.name for row in DEFAULT_PROFILE]
    if not features.has_137_semantics:
        first = names.index("NodeName")
        names[first : first + 2] = reversed(names[first : first + 2])
    return tuple(names)


def build_plugins(
    names: Iterable[str],
    *,
    args: Mapping[str, Mapping[str, Any]],
    nodes: TextSelector | None = None,
    slices: TextSelector | None = None,
) -> tuple[Plugin, ...]:
    """The plugins of these names, in this order, behind those that no configuration switches off.

    Args:
        names: Of `DEFAULT_PROFILE`; others, and those the core does the work of, are passed over.
        args: By name of a plugin the fields of its dataclass that are not its defaults.
        nodes: The only nodes to use, None for all; with it the plugin OwnNodes comes first.
        slices: The only slices of the inventory, None for all; DynamicResources names the option in its reasons.
    """
    built: list[Plugin] = [OwnNodes(nodes)] if nodes is not None else []
    for name in names:
        row = ROW_BY_NAME.get(name)
        if row is not None and (build := row.build) is not None:
            given = dict(args.get(name, {}))
            if build is DynamicResources and slices is not None:
                given["slices"] = slices.text
            built.append(build(**given))
    return (*built, GangScheduling())


def default_plugins(
    *,
    features: Features = Features(),  # noqa: B008 - frozen
    budget_steps: int = 200_000,
    binding_timeout_ms: int = 600_000,
    nodes: TextSelector | None = None,
    slices: TextSelector | None = None,
) -> tuple[Plugin, ...]:
    """The plugins in upstream's default order, each with upstream's default weight.

    Args:
        features: Say which release is followed.
        budget_steps: DynamicResources' largest search per pod and node, in (request, device) trials, > 0.
        binding_timeout_ms: DynamicResources' wait for binding conditions, >= 1,000.
        nodes, slices: As for `build_plugins`.

    Raises:
        ValueError: an argument is out of its range.
    """
    if budget_steps < 1:
        raise ValueError(f"budget_steps: {budget_steps} must be at least 1")
    if binding_timeout_ms < 1_000:
        raise ValueError(f"binding_timeout_ms: {binding_timeout_ms} must be at least 1000 (1 s)")
    return build_plugins(
        default_names(features),
        args={"DynamicResources": {"budget_steps": budget_steps, "binding_timeout_ms": binding_timeout_ms}},
        nodes=nodes,
        slices=slices,
    )
