"""Profiles: scheduler names with the plugins of each, as KubeSchedulerProfile writes them.

Rules of this module
  1. A profile is what kube-scheduler makes of it: the default profile, merged and expanded (`plugin_sets`).
  2. Disabled plugins are not built, so they are asked nothing anywhere.

Source: k8s.io/kube-scheduler v0.36.3 config/v1/types.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final

from msgspec.structs import replace
from pydantic import Field, ValidationInfo, field_validator

from allocator import Features
from scheduler.config.fields import FieldsError, SchedulerName, Section
from scheduler.config.plugin_args import (
    ARGS_BY_PLUGIN,
    DynamicResourcesArgs,
    Int32,
    PluginArgs,
    plugin_fields,
)
from scheduler.config.plugin_sets import POINTS_OF, Expanded, PluginSet, expand, merged
from scheduler.framework.api import Plugin, Profile
from scheduler.framework.profiles import extension_points
from scheduler.model.gone_plugins import INSTEAD_OF, REMOVED
from scheduler.model.group import GANG_SCHEDULING
from scheduler.model.label_selectors import TextSelector
from scheduler.plugins import ROW_BY_NAME, build_plugins
from scheduler.validation.field_errors import FieldError, duplicate, invalid

SPREADING: Final = frozenset({"NodeResourcesFit", "NodeResourcesBalancedAllocation"})
"""They score nodes by the cpu and memory left: against `placement`, so they do not, unless the profile weighs them."""
_ANY: Final = Features()  # where the order of plugins does not matter


class PluginEntry(Section):
    """A plugin, and the weight of its scores (0: 1, as if it were not there)."""

    name: str
    weight: Int32 | None = None


class PluginSetSection(Section):
    """What is switched on and off at an extension point; "*" switches all off."""

    enabled: tuple[PluginEntry, ...] = Field(default=(), strict=False)
    disabled: tuple[PluginEntry, ...] = Field(default=(), strict=False)


class PluginsSection(Section):
    """The extension points; `multiPoint` is all of them."""

    multi_point: PluginSetSection | None = None
    pre_enqueue: PluginSetSection | None = None
    queue_sort: PluginSetSection | None = None
    pre_filter: PluginSetSection | None = None
    filter: PluginSetSection | None = None
    post_filter: PluginSetSection | None = None
    pre_score: PluginSetSection | None = None
    score: PluginSetSection | None = None
    reserve: PluginSetSection | None = None
    permit: PluginSetSection | None = None
    pre_bind: PluginSetSection | None = None
    bind: PluginSetSection | None = None
    post_bind: PluginSetSection | None = None
    placement_generate: PluginSetSection | None = None
    placement_score: PluginSetSection | None = None
    placement_feasible: PluginSetSection | None = None
    pod_group_post_filter: PluginSetSection | None = None


class PluginConfig(Section):
    """Arguments of one plugin; of plugins that we do not know they are not read."""

    name: str
    args: Any = None

    @field_validator("args", mode="plain")
    @classmethod
    def _of_the_plugin(cls, value: Any, info: ValidationInfo) -> Any:
        kind = ARGS_BY_PLUGIN.get(info.data.get("name", ""))
        if kind is None or isinstance(value, PluginArgs):
            return value
        args = kind.model_validate({} if value is None else value, context=info.context)
        if args.kind not in (None, f"{info.data['name']}Args"):
            raise FieldsError([invalid("kind", args.kind, f"must be {info.data['name']}Args")])
        return args


class ProfileConfig(Section):
    """One scheduler name, and its plugins."""

    scheduler_name: SchedulerName = "dra-scheduler"
    percentage_of_nodes_to_score: Annotated[int, Field(ge=0, le=100)] | None = None
    percentage_of_placements_to_score: Annotated[int, Field(ge=0, le=100)] | None = None
    plugins: PluginsSection | None = None
    plugin_config: Annotated[tuple[PluginConfig, ...], Field(strict=False)] = ()

    @property
    def dynamic_resources(self) -> DynamicResourcesArgs:
        found = self.args_by_plugin().get("DynamicResources")
        return found if isinstance(found, DynamicResourcesArgs) else DynamicResourcesArgs()

    def args_by_plugin(self) -> dict[str, PluginArgs]:
        return {one.name: one.args for one in self.plugin_config if isinstance(one.args, PluginArgs)}

    def _errors(self) -> Iterator[FieldError]:
        found = expand(self.plugin_sets(), "plugins", _ANY)
        yield from found if isinstance(found, list) else ()
        seen = set()
        for index, one in enumerate(self.plugin_config):
            path = f"pluginConfig[{index}]"
            if one.name in seen:
                yield duplicate(path, one.name)
            seen.add(one.name)
            if one.name in REMOVED:
                yield invalid(path, one.name, f"there is no such plugin any more; instead: {INSTEAD_OF[one.name]}")
            row = ROW_BY_NAME.get(one.name)
            if isinstance(one.args, PluginArgs) and row is not None and row.build and row.argument_errors:
                for error in row.argument_errors(row.build(**plugin_fields(one.name, one.args))):
                    yield replace(error, field=f"{path}.args.{error.field}")

    def plugin_sets(self, features: Features = _ANY) -> dict[str, PluginSet]:
        """What is written, merged with the default profile of the release that `features` say."""
        written = self.plugins.model_dump(by_alias=True, exclude_none=True) if self.plugins is not None else {}
        return merged(written, "plugins", features)

    def queue_sort(self) -> tuple[str, ...]:
        """What is written of that extension point, which all profiles share."""
        own = self.plugins.queue_sort if self.plugins is not None else None
        return tuple(entry.name for entry in (*own.enabled, *own.disabled)) if own is not None else ()

    def expanded(self, features: Features = _ANY) -> Expanded:
        """The plugins that are on, in the order of the release that `features` say."""
        found = expand(self.plugin_sets(features), "plugins", features)
        assert not isinstance(found, list)  # checked when this was made
        return found

    def profile(
        self,
        *,
        nodes: TextSelector | None = None,
        slices: TextSelector | None = None,
        features: Features = _ANY,
    ) -> Profile:
        """The profile, ready to run; arguments as for `build_plugins`, and the release that is followed."""
        expanded = self.expanded(features)
        fields = {name: plugin_fields(name, args) for name, args in self.args_by_plugin().items()}
        for name, weight in expanded.weights.items():
            fields.setdefault(name, {})["weight"] = weight
        plugins = build_plugins(expanded.names, args=fields, nodes=nodes, slices=slices)
        percentage = self.percentage_of_nodes_to_score or 0
        order = _order(expanded, plugins)
        if self.dynamic_resources.placement != "firstFit":
            against = SPREADING - self._weighted()
            order["Score"] = tuple(name for name in order.get("Score", ()) if name not in against)
        return Profile(self.scheduler_name, plugins, order, percentage)

    def _weighted(self) -> frozenset[str]:
        """Plugins to which the profile itself gives a weight."""
        sets = (self.plugins.multi_point, self.plugins.score) if self.plugins is not None else ()
        return frozenset(entry.name for one in sets if one is not None for entry in one.enabled if entry.weight)


def _order(expanded: Expanded, plugins: Sequence[Plugin]) -> dict[str, tuple[str, ...]]:
    """By point, as the runner names it. A point that only our plugin has is called where the plugin is on.

    GangScheduling is on always, whatever the configuration says of upstream's.
    """
    points = {plugin.name: extension_points(plugin) for plugin in plugins}
    order = {}
    for written, on in expanded.by_point.items():
        point = written[0].upper() + written[1:]
        ours = [name for name in points if point in points[name] and written not in POINTS_OF.get(name, ())]
        order[point] = (*ours, *(name for name in on if name in points and name != GANG_SCHEDULING))
        if point in points.get(GANG_SCHEDULING, ()):
            order[point] += (GANG_SCHEDULING,)
    return order
