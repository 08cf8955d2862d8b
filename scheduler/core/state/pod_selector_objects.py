"""Services and owners of pods as observed, and what they select together: the default of spread constraints.

Rules of this module
  1. A Service is found by one of the labels it demands, so that a pod asks only the Services that share one with it.

Cost: an observation O(its selector). A question O(labels of the pod, and the Services found by one of them).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.core.ground.indexes import drop
from scheduler.core.ground.newest_objects import NewestObjects
from scheduler.model.keys import ObjectKey
from scheduler.model.objects import LabelSelector, Pod
from scheduler.model.pod_selectors import PodSelector, merged, owner_of


class Services(NewestObjects[ObjectKey, PodSelector]):
    """The selectors of Services, found by a label."""

    def __init__(self) -> None:
        super().__init__(may_return=True)
        self._by_label: Final[dict[tuple[str, str, str], dict[ObjectKey, PodSelector]]] = {}

    def selecting(self, pod: Pod) -> list[PodSelector]:
        labels, namespace = pod.metadata.labels or {}, pod.metadata.namespace
        return [
            service
            for key, value in sorted(labels.items())
            for service in self._by_label.get((namespace, key, value), {}).values()
            if all(labels.get(name) == wanted for name, wanted in service.labels)
        ]

    def _replaced(self, old: PodSelector | None, new: PodSelector | None) -> None:
        if old is not None and old.labels:
            drop(self._by_label, _found_by(old), old.key)
        if new is not None and new.labels:
            self._by_label.setdefault(_found_by(new), {})[new.key] = new


def selector_of(
    pod: Pod, services: Services, owners: Mapping[str, Mapping[ObjectKey, PodSelector]]
) -> LabelSelector | None:
    """What all Services that select `pod`, and its owner, demand; None for nothing. `owners`: by kind."""
    found = services.selecting(pod) if services else []
    owner = owner_of(pod)
    if owner is not None and (selector := owners[owner[0]].get(owner[1])) is not None:
        found.append(selector)
    return merged(found) if found else None


def _found_by(service: PodSelector) -> tuple[str, str, str]:
    return (service.key.namespace, *service.labels[0])
