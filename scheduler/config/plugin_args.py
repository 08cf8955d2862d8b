"""Arguments of the plugins, as a profile's `pluginConfig` writes them: their fields, kinds and defaults.

Rules of this module
  1. Names and defaults are upstream's (kind `<Plugin>Args`); DynamicResources has one of ours more.
  2. An argument reaches its plugin as the field of the same name in snake case, in the type of that field.

Not here: ranges and rules across fields (`Row.argument_errors`, beside the plugins).

Source: k8s.io/kube-scheduler v0.36.3 config/v1/types_pluginargs.go; pkg/scheduler/apis/config/v1/defaults.go v1.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, get_type_hints

import msgspec
from pydantic import Field

from allocator.placement.ranks import Strategy
from scheduler.config.fields import Seconds, Section
from scheduler.plugins import ROW_BY_NAME
from scheduler.plugins.scoring_strategies import ScoringStrategy

Int32 = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class PluginArgs(Section):
    """What every kind of arguments may say; of plugins without arguments, all they may say."""

    api_version: Literal["kubescheduler.config.k8s.io/v1"] | None = None
    kind: str | None = None


class ResourceSpecArgs(Section):
    name: str = ""
    weight: Int64 = 0


class ShapePointArgs(Section):
    utilization: Int32 = 0
    score: Int32 = 0


class RequestedToCapacityRatioArgs(Section):
    shape: tuple[ShapePointArgs, ...] = Field(default=(), strict=False)


class ScoringStrategyArgs(Section):
    type: str = ""
    resources: tuple[ResourceSpecArgs, ...] = Field(default=(), strict=False)
    requested_to_capacity_ratio: RequestedToCapacityRatioArgs | None = None


class DefaultPreemptionArgs(PluginArgs):
    """Upstream's, and `preemptPodsOfOtherSchedulers`.

    Attributes:
        min_candidate_nodes_percentage, min_candidate_nodes_absolute: How many candidates are found, in percent of the
            nodes and in number, before the best of them is taken.
        preempt_pods_of_other_schedulers: Whether pods that another scheduler placed may be victims.
    """

    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100
    preempt_pods_of_other_schedulers: bool = True


class InterPodAffinityArgs(PluginArgs):
    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class RequirementArgs(Section):
    """Of a node selector or a label selector."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = Field(default=(), strict=False)


class NodeSelectorTermArgs(Section):
    match_expressions: tuple[RequirementArgs, ...] = Field(default=(), strict=False)
    match_fields: tuple[RequirementArgs, ...] = Field(default=(), strict=False)


class NodeSelectorArgs(Section):
    node_selector_terms: tuple[NodeSelectorTermArgs, ...] = Field(default=(), strict=False)


class PreferredSchedulingTermArgs(Section):
    weight: Int32 = 0
    preference: NodeSelectorTermArgs = NodeSelectorTermArgs()


class AddedAffinityArgs(Section):
    required_during_scheduling_ignored_during_execution: NodeSelectorArgs | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTermArgs, ...] | None = Field(
        default=None, strict=False
    )


class NodeAffinityArgs(PluginArgs):
    added_affinity: AddedAffinityArgs | None = None


class NodeResourcesFitArgs(PluginArgs):
    ignored_resources: tuple[str, ...] = Field(default=(), strict=False)
    ignored_resource_groups: tuple[str, ...] = Field(default=(), strict=False)
    scoring_strategy: ScoringStrategyArgs | None = None


class NodeResourcesBalancedAllocationArgs(PluginArgs):
    resources: tuple[ResourceSpecArgs, ...] = Field(default=(), strict=False)


class LabelSelectorArgs(Section):
    match_labels: dict[str, str] = Field(default_factory=dict)
    match_expressions: tuple[RequirementArgs, ...] = Field(default=(), strict=False)


class TopologySpreadConstraintArgs(Section):
    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelectorArgs | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = Field(default=(), strict=False)


class PodTopologySpreadArgs(PluginArgs):
    default_constraints: tuple[TopologySpreadConstraintArgs, ...] = Field(default=(), strict=False)
    defaulting_type: str = "System"


class VolumeBindingArgs(PluginArgs):
    bind_timeout_seconds: Int64 = 600
    scoring_shape: tuple[ShapePointArgs, ...] = Field(default=(), strict=False, alias="shape")


class DynamicResourcesArgs(PluginArgs):
    """Upstream's, `searchSteps`, `preemptForDevices`, `scoringStrategy` and `placement`.

    Attributes:
        binding_timeout: How long to wait for binding conditions.
        filter_timeout: Has no effect: `search_steps` is in its place.
        search_steps: Largest search per pod and node, in (request, device) trials. A count, so that the same cluster
            gives the same answer on a slow machine.
        preempt_for_devices: Whether pods of lower priority may be preempted for the devices of their claims.
        scoring_strategy: As NodeResourcesFit's, of device classes (`CLASS`) and capacities (`CLASS/CAPACITY`).
        placement: By which rank devices and nodes are chosen.
    """

    binding_timeout: Annotated[Seconds, Field(ge=1)] = 600.0
    filter_timeout: Annotated[Seconds, Field(ge=0)] | None = None
    search_steps: Annotated[int, Field(ge=1)] = 200_000
    preempt_for_devices: bool = True
    scoring_strategy: ScoringStrategyArgs | None = None
    placement: Literal["firstFit", "bestFit", "fgd", "fragmentation", "leastWaste"] = "firstFit"


ARGS_BY_PLUGIN: Final[Mapping[str, type[PluginArgs]]] = {
    "DefaultPreemption": DefaultPreemptionArgs,
    "DynamicResources": DynamicResourcesArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "VolumeBinding": VolumeBindingArgs,
}
"""Those that take arguments."""


_DEFAULT_RESOURCES: Final = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]


def with_defaults(args: PluginArgs) -> dict[str, Any]:
    """The arguments as JSON, with all defaults; what has none is left out."""
    values: dict[str, Any] = args.model_dump(
        by_alias=True, exclude_none=True, exclude={"api_version", "kind"}, mode="json"
    )
    if isinstance(args, NodeResourcesBalancedAllocationArgs):
        values["resources"] = _weighted(values["resources"] or _DEFAULT_RESOURCES)
    if isinstance(args, NodeResourcesFitArgs):
        strategy = values.setdefault("scoringStrategy", {"type": "LeastAllocated", "resources": []})
        strategy["resources"] = _weighted(strategy["resources"] or _DEFAULT_RESOURCES)
    if isinstance(args, DynamicResourcesArgs) and args.scoring_strategy is not None:
        values["scoringStrategy"]["resources"] = _weighted(values["scoringStrategy"]["resources"])
    if isinstance(args, VolumeBindingArgs) and not values["shape"]:
        del values["shape"]  # the plugin's own, which releases before 1.37 do not have
    if isinstance(args, PodTopologySpreadArgs):
        values["defaultingType"] = values["defaultingType"] or "System"
    return values


def _weighted(resources: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**one, "weight": one["weight"] or 1} for one in resources]


def plugin_fields(name: str, args: PluginArgs) -> dict[str, Any]:
    """What `args` says, as fields of the plugin's dataclass."""
    build = ROW_BY_NAME[name].build
    if build is None:
        return {}
    if isinstance(args, DynamicResourcesArgs):
        fields = {
            "budget_steps": args.search_steps,
            "binding_timeout_ms": int(args.binding_timeout * 1000),
            "preempts_for_devices": args.preempt_for_devices,
            "placement": Strategy(args.placement),
        }
        if args.scoring_strategy is None:
            return fields
        return {**fields, "scoring_strategy": msgspec.convert(with_defaults(args)["scoringStrategy"], ScoringStrategy)}
    values, types = with_defaults(args), get_type_hints(build)
    aliases = {field: str(info.alias) for field, info in type(args).model_fields.items()}
    return {
        field: msgspec.convert(values[alias], types[field])
        for field, alias in aliases.items()
        if alias in values and field in types
    }
