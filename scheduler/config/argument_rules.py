"""What kube-scheduler refuses in the arguments of plugins, in its words.

Rules of this module
  1. Paths are relative to `args`.

Not here: unknown fields and wrong kinds (`plugin_args`); plugins with rules of their own (`Row.argument_errors`).

Source: pkg/scheduler/apis/config/validation/validation_pluginargs.go v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from scheduler.config.plugin_args import PluginArgs, plugin_fields, with_defaults
from scheduler.plugins import ROW_BY_NAME
from scheduler.validation.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from scheduler.validation.names import check_text, label_key


def argument_errors(name: str, args: PluginArgs) -> list[FieldError]:
    """What is wrong with the arguments of the plugin `name`."""
    if rules := _RULES.get(name):
        return list(rules(with_defaults(args)))
    row = ROW_BY_NAME[name]
    if row.build is None or row.argument_errors is None:
        return []
    return row.argument_errors(row.build(**plugin_fields(name, args)))


def _inter_pod_affinity(args: Mapping[str, Any]) -> Iterator[FieldError]:
    if not 0 <= args["hardPodAffinityWeight"] <= 100:
        yield invalid("hardPodAffinityWeight", args["hardPodAffinityWeight"], "not in valid range [0, 100]")


def _pod_topology_spread(args: Mapping[str, Any]) -> Iterator[FieldError]:
    kind, constraints = args["defaultingType"], args["defaultConstraints"]
    if kind not in ("System", "List"):
        yield not_supported("defaultingType", kind, ("System", "List"))
    elif kind == "System" and constraints:
        yield invalid("defaultingType", kind, "when .defaultConstraints are not empty")
    seen = set()
    for index, one in enumerate(constraints):
        path = f"defaultConstraints[{index}]"
        if one["maxSkew"] <= 0:
            yield invalid(f"{path}.maxSkew", one["maxSkew"], "not in valid range (0, inf)")
        if not one["topologyKey"]:
            yield required(f"{path}.topologyKey", "can not be empty")
        else:
            yield from check_text(label_key, one["topologyKey"], f"{path}.topologyKey")
        action = one["whenUnsatisfiable"]
        if not action:
            yield required(f"{path}.whenUnsatisfiable", "can not be empty")
        elif action not in ("DoNotSchedule", "ScheduleAnyway"):
            yield not_supported(f"{path}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway"))
        if "labelSelector" in one:
            text = "constraint must not define a selector, as they deduced for each pod"
            yield forbidden(f"{path}.labelSelector", text)
        if (one["topologyKey"], action) in seen:
            yield duplicate(path, f"{{{one['topologyKey']}, {action}}}")
        seen.add((one["topologyKey"], action))


def _volume_binding(args: Mapping[str, Any]) -> Iterator[FieldError]:
    if args["bindTimeoutSeconds"] < 0:
        text = "invalid BindTimeoutSeconds, should not be a negative value"
        yield invalid("bindTimeoutSeconds", args["bindTimeoutSeconds"], text)
    if "shape" in args:
        text = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        yield invalid("shape", args["shape"], text)


_RULES: Final[Mapping[str, Callable[[Mapping[str, Any]], Iterator[FieldError]]]] = {
    "InterPodAffinity": _inter_pod_affinity,
    "PodTopologySpread": _pod_topology_spread,
    "VolumeBinding": _volume_binding,
}
