"""Which plugins of a profile are called where: the sets of its extension points merged with the default profile.

Rules of this module
  1. First each set is merged with the default one (only multiPoint has defaults), then multiPoint is expanded: what a
     point enables itself and multiPoint has too comes first, then the rest of multiPoint, then the rest of the point.
  2. What kube-scheduler refuses is refused, with the place of the entry.

Not here: arguments of plugins (`plugin_args`), building them (`scheduler.plugins`).

Source: pkg/scheduler/apis/config/v1/default_plugins.go (mergePluginSet) and framework/runtime/framework.go
(NewFramework, expandMultiPointPlugins, getValidScoreWeights) v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from allocator import Features
from scheduler.config.fields import suggestion
from scheduler.model.gone_plugins import INSTEAD_OF
from scheduler.plugins import DEFAULT_PROFILE, ROW_BY_NAME, default_names
from scheduler.validation.field_errors import FieldError, duplicate, invalid

MULTI_POINT: Final = "multiPoint"
ALL: Final = "*"
POINTS: Final = (
    *("preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score", "reserve", "permit"),
    *("preBind", "bind", "postBind", "placementGenerate", "placementFeasible", "placementScore", "podGroupPostFilter"),
)
# Behind gates that are off: they may be named, and do nothing.
_GATED: Final[Mapping[str, str]] = {
    "GangScheduling": "preEnqueue permit placementFeasible",
    "TopologyPlacementGenerator": "placementGenerate",
    "PodGroupPodsCount": "placementScore",
}
POINTS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    **{row.name: tuple(row.points.split()) for row in DEFAULT_PROFILE},
    **{name: tuple(points.split()) for name, points in _GATED.items()},
}
_WEIGHTS_SUM_MAX: Final = (2**63 - 1) // 100  # a total of scores is an int64


@dataclass(frozen=True, slots=True)
class Enabled:
    """An entry of a set, and where it stands in the profile as it was written (default entries nowhere)."""

    name: str
    weight: int = 0
    path: str = ""


@dataclass(frozen=True, slots=True)
class PluginSet:
    """What is enabled at a point, in order, and the names that multiPoint must not bring there."""

    enabled: tuple[Enabled, ...] = ()
    disabled: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Expanded:
    """The plugins of a profile.

    Attributes:
        by_point: For each of `POINTS` the names in the order in which they are called.
        weights: Of those that score.
        names: All that are on somewhere, in the order of the default profile, others behind it.
    """

    by_point: Mapping[str, tuple[str, ...]]
    weights: Mapping[str, int]
    names: tuple[str, ...]


def merged(plugins: Mapping[str, Any], path: str, features: Features) -> dict[str, PluginSet]:
    """The sets of `plugins` (KubeSchedulerProfile.plugins), by point, merged with the release's default profile."""
    defaults = tuple(Enabled(name, ROW_BY_NAME[name].weight) for name in default_names(features))
    return {
        point: _merged(defaults if point == MULTI_POINT else (), plugins.get(point) or {}, f"{path}.{point}")
        for point in (MULTI_POINT, *POINTS)
    }


def _merged(defaults: Sequence[Enabled], written: Mapping[str, Any], path: str) -> PluginSet:
    disabled = frozenset(entry["name"] for entry in written.get("disabled") or ())
    custom = [
        Enabled(entry["name"], entry.get("weight") or 0, f"{path}.enabled[{index}]")
        for index, entry in enumerate(written.get("enabled") or ())
    ]
    by_name = {entry.name: entry for entry in custom}  # of two, upstream takes the later one
    kept = [one for one in defaults if not {ALL, one.name} & disabled]
    in_place = [by_name.get(one.name, one) for one in kept]
    return PluginSet((*in_place, *(one for one in custom if one not in in_place)), disabled)


def expand(sets: Mapping[str, PluginSet], path: str, features: Features) -> Expanded | list[FieldError]:
    """The order at each point; or what is wrong.

    Args:
        features: Say which release is followed.
        path: Of the profile's `plugins`, for errors that concern no single entry.
    """
    errors = [*_unknown(sets), *_twice(sets), *_negative(sets)]
    if errors:
        return errors
    by_point = {point: _expanded(sets[point], sets[MULTI_POINT], point) for point in POINTS}
    if len(by_point["queueSort"]) != 1:
        errors.append(
            invalid(f"{path}.queueSort", list(by_point["queueSort"]), "exactly one is needed, such as PrioritySort")
        )
    if not by_point["bind"]:
        errors.append(invalid(f"{path}.bind", [], "at least one is needed, such as DefaultBinder"))
    weights = _weights(sets)
    if sum(weights.values()) > _WEIGHTS_SUM_MAX:
        errors.append(invalid(f"{path}.score", sum(weights.values()), "total score of Score plugins could overflow"))
    if errors:
        return errors
    on = {name for names in by_point.values() for name in names}
    order = [*default_names(features), *_GATED]
    return Expanded(by_point, weights, tuple(name for name in order if name in on))


def _entries(sets: Mapping[str, PluginSet]) -> Iterator[tuple[str, Enabled]]:
    for point, one in sets.items():
        for entry in one.enabled:
            yield point, entry


def _unknown(sets: Mapping[str, PluginSet]) -> Iterator[FieldError]:
    for point, entry in _entries(sets):
        points = POINTS_OF.get(entry.name)
        if points is None:
            yield invalid(f"{entry.path}.name", entry.name, f"there is no such plugin{_instead_of(entry.name)}")
        elif point not in (MULTI_POINT, *points):
            yield invalid(
                f"{entry.path}.name", entry.name, f"does not extend {point}; its extension points: {', '.join(points)}"
            )


def _instead_of(name: str) -> str:
    if name in INSTEAD_OF:
        return f" any more; instead: {INSTEAD_OF[name]}"
    return suggestion(name, POINTS_OF)


def _negative(sets: Mapping[str, PluginSet]) -> Iterator[FieldError]:
    for _, entry in _entries(sets):
        if entry.weight < 0:
            yield invalid(f"{entry.path}.weight", entry.weight, "must not be negative; 0 counts as 1")


def _twice(sets: Mapping[str, PluginSet]) -> Iterator[FieldError]:
    for one in sets.values():
        seen = set()
        for entry in one.enabled:
            if entry.name in seen:
                yield duplicate(f"{entry.path}.name", entry.name)
            seen.add(entry.name)


def _expanded(own: PluginSet, multi: PluginSet, point: str) -> tuple[str, ...]:
    names = [entry.name for entry in own.enabled]
    if ALL in own.disabled:
        return tuple(names)
    everywhere = [
        entry.name for entry in multi.enabled if point in POINTS_OF[entry.name] and entry.name not in own.disabled
    ]
    first = [name for name in names if name in everywhere]
    return tuple(dict.fromkeys([*first, *everywhere, *names]))


def _weights(sets: Mapping[str, PluginSet]) -> dict[str, int]:
    weights: dict[str, int] = {}
    for entry in (*sets["score"].enabled, *sets[MULTI_POINT].enabled):
        if "score" in POINTS_OF[entry.name]:
            weights.setdefault(entry.name, entry.weight or 1)
    return weights
