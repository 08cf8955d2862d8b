"""What is wrong with PodTopologySpread's arguments, by paths within them, in upstream's words.

Source: pkg/scheduler/apis/config/validation/validation_pluginargs.go v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.model.objects import TopologySpreadConstraint
from scheduler.plugins.pod_topology_spread.plugin import LIST, SYSTEM, PodTopologySpread
from scheduler.plugins.pod_topology_spread.spread_constraints import DO_NOT_SCHEDULE, SCHEDULE_ANYWAY
from scheduler.validation.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from scheduler.validation.name_rules import check_text, label_key


def argument_errors(plugin: PodTopologySpread) -> list[FieldError]:
    """Those of a built plugin."""
    return list(_errors(plugin))


def _errors(plugin: PodTopologySpread) -> Iterator[FieldError]:
    kind, constraints = plugin.defaulting_type, plugin.default_constraints
    if kind not in (SYSTEM, LIST):
        yield not_supported("defaultingType", kind, (SYSTEM, LIST))
    elif kind == SYSTEM and constraints:
        yield invalid("defaultingType", kind, "when .defaultConstraints are not empty")
    seen = set()
    for index, one in enumerate(constraints):
        path = f"defaultConstraints[{index}]"
        yield from _of_constraint(one, path)
        if (one.topology_key, one.when_unsatisfiable) in seen:
            yield duplicate(path, f"{{{one.topology_key}, {one.when_unsatisfiable}}}")
        seen.add((one.topology_key, one.when_unsatisfiable))


def _of_constraint(one: TopologySpreadConstraint, path: str) -> Iterator[FieldError]:
    if one.max_skew <= 0:
        yield invalid(f"{path}.maxSkew", one.max_skew, "not in valid range (0, inf)")
    if not one.topology_key:
        yield required(f"{path}.topologyKey", "can not be empty")
    else:
        yield from check_text(label_key, one.topology_key, f"{path}.topologyKey")
    if not one.when_unsatisfiable:
        yield required(f"{path}.whenUnsatisfiable", "can not be empty")
    elif one.when_unsatisfiable not in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY):
        yield not_supported(f"{path}.whenUnsatisfiable", one.when_unsatisfiable, (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY))
    if one.label_selector is not None:
        text = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden(f"{path}.labelSelector", text)
