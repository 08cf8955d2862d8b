"""Arguments of plugins that have parts of their own, under upstream's names.

Simple arguments are fields of the plugins' dataclasses. `addedAffinity` of NodeAffinity is `objects.NodeAffinityTerms`.

Source: k8s.io/kube-scheduler v0.36.3 config/v1/types_pluginargs.go; defaults from pkg/scheduler/apis/config/v1 v1.36.3.
"""

from __future__ import annotations

from typing import Final

from scheduler.model.objects import Record


class ResourceSpec(Record, frozen=True):
    """A resource that scores are made of; weight 1..100."""

    name: str
    weight: int = 1


class UtilizationShapePoint(Record, frozen=True):
    """A corner of a scoring function: utilization 0..100, score 0..10."""

    utilization: int
    score: int


class RequestedToCapacityRatio(Record, frozen=True):
    """The scoring function of that strategy: at least one point, by rising utilization."""

    shape: tuple[UtilizationShapePoint, ...] = ()


DEFAULT_RESOURCES: Final = (ResourceSpec("cpu"), ResourceSpec("memory"))


class ScoringStrategy(Record, frozen=True):
    """How NodeResourcesFit scores: `LeastAllocated`, `MostAllocated` or `RequestedToCapacityRatio`."""

    type: str = "LeastAllocated"
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None
