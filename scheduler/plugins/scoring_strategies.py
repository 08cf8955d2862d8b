"""How full a node may be: the scoring strategies of resources, and their arguments.

A strategy makes a score in 0..100 of how much is used of each resource after the pod was placed.

Not here: which resources count and what is used of them (`node_resources_fit`).

Source: pkg/scheduler/framework/plugins/noderesources/{least_allocated,most_allocated,requested_to_capacity_ratio}.go,
plugins/helper/shape_score.go and apis/config/validation/validation_pluginargs.go v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from scheduler.model.objects import Record
from scheduler.model.resources import CPU, MEMORY
from scheduler.plugins.normalize import NODE_SCORE_MAX
from scheduler.validation.field_errors import FieldError, forbidden, invalid, not_supported, required

LEAST_ALLOCATED: Final = "LeastAllocated"
MOST_ALLOCATED: Final = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO: Final = "RequestedToCapacityRatio"
_SHAPE_SCORE_MAX: Final = 10


class ResourceSpec(Record, frozen=True):
    """A resource by name, and how much it matters beside the others."""

    name: str = ""
    weight: int = 1


CPU_AND_MEMORY: Final = (ResourceSpec(CPU), ResourceSpec(MEMORY))


class ShapePoint(Record, frozen=True):
    """The score (0..10) of a resource of which so many percent are used."""

    utilization: int = 0
    score: int = 0


class RequestedToCapacityRatio(Record, frozen=True):
    """Points with utilization in increasing order; scores between them are on straight lines."""

    shape: tuple[ShapePoint, ...] = ()


class ScoringStrategy(Record, frozen=True):
    """One of the strategies for these resources; without `strategy_errors`."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = CPU_AND_MEMORY
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None


LEAST_ALLOCATED_CPU_AND_MEMORY: Final = ScoringStrategy(LEAST_ALLOCATED)


Usage: TypeAlias = tuple[int, int, int]
"""Of one resource of a node: what is used with the pod on it, of a total > 0, and its weight."""


def strategy_score(strategy: ScoringStrategy, usages: Iterable[Usage]) -> int:
    """The score of a node, 0..100; 0 when there is nothing to count."""
    return _SCORES[strategy.type](strategy, usages)


def _least_allocated(strategy: ScoringStrategy, usages: Iterable[Usage]) -> int:
    weighted = weights = 0
    for used, total, weight in usages:
        weighted += weight * ((total - used) * NODE_SCORE_MAX // total if used <= total else 0)
        weights += weight
    return weighted // weights if weights else 0


def _most_allocated(strategy: ScoringStrategy, usages: Iterable[Usage]) -> int:
    weighted = weights = 0
    for used, total, weight in usages:
        weighted += weight * (min(used, total) * NODE_SCORE_MAX // total)
        weights += weight
    return weighted // weights if weights else 0


def _requested_to_capacity_ratio(strategy: ScoringStrategy, usages: Iterable[Usage]) -> int:
    ratio = strategy.requested_to_capacity_ratio
    assert ratio is not None  # `strategy_errors`
    weighted = weights = 0
    for used, total, weight in usages:
        score = score_on_shape(ratio.shape, used * 100 // total if used <= total else 100)
        if score > 0:  # upstream's rule: a resource that scores 0 does not lower the average
            weighted += weight * score
            weights += weight
    return (2 * weighted + weights) // (2 * weights) if weights else 0


_SCORES: Final[Mapping[str, Callable[[ScoringStrategy, Iterable[Usage]], int]]] = {
    LEAST_ALLOCATED: _least_allocated,
    MOST_ALLOCATED: _most_allocated,
    REQUESTED_TO_CAPACITY_RATIO: _requested_to_capacity_ratio,
}


def score_on_shape(shape: Sequence[ShapePoint], utilization: int) -> int:
    """0..100 where so many percent are used; `shape` has at least one point, without `shape_errors`."""
    scale = NODE_SCORE_MAX // _SHAPE_SCORE_MAX
    for index, point in enumerate(shape):
        if utilization <= point.utilization:
            if index == 0:
                return point.score * scale
            before = shape[index - 1]
            rise = (point.score - before.score) * scale * (utilization - before.utilization)
            width = point.utilization - before.utilization
            # Towards zero, as Go divides.
            return before.score * scale + (rise // width if rise >= 0 else -(-rise // width))
    return shape[-1].score * scale


def strategy_errors(path: str, strategy: ScoringStrategy) -> list[FieldError]:
    """What is wrong with a strategy at `path`, in upstream's words."""
    errors: list[FieldError] = []
    if strategy.type not in _SCORES:
        errors.append(not_supported(f"{path}.type", strategy.type, _SCORES))
    for index, resource in enumerate(strategy.resources):
        if not 0 < resource.weight <= 100:
            detail = f"resource weight of {resource.name} not in valid range (0, 100]"
            errors.append(invalid(f"{path}.resources[{index}].weight", resource.weight, detail))
    ratio, field = strategy.requested_to_capacity_ratio, f"{path}.requestedToCapacityRatio"
    if strategy.type == REQUESTED_TO_CAPACITY_RATIO:
        if ratio is None:
            errors.append(required(field, "must be specified when type is RequestedToCapacityRatio"))
        else:
            errors += shape_errors(f"{field}.shape", ratio.shape)
    elif ratio is not None:
        errors.append(forbidden(field, "must be nil when type is not RequestedToCapacityRatio"))
    return errors


def shape_errors(path: str, shape: Sequence[ShapePoint]) -> list[FieldError]:
    """What is wrong with a shape at `path`, in upstream's words."""
    if not shape:
        return [required(path, "at least one point must be specified")]
    errors: list[FieldError] = []
    for index in range(1, len(shape)):
        if shape[index - 1].utilization >= shape[index].utilization:
            detail = "values must be sorted in increasing order"
            errors.append(invalid(f"{path}[{index}].utilization", shape[index].utilization, detail))
            break
    for index, point in enumerate(shape):
        for name, value, largest in (
            ("utilization", point.utilization, 100),
            ("score", point.score, _SHAPE_SCORE_MAX),
        ):
            if not 0 <= value <= largest:
                errors.append(invalid(f"{path}[{index}].{name}", value, f"not in valid range [0, {largest}]"))
    return errors
