"""Services and owners of pods as observed, and what they select together: the default of spread constraints.

Rules of this module
  1. A Service is found by one of the labels it demands, so that a pod asks only the Services that share one with it.

Cost: an observation O(its selector). A question O(labels of the pod, and the Services found by one of them).
"""

from __future__ import annotations

from typing import Final

from scheduler.core.ground.newest_objects import NewestObjects
from scheduler.model.keys import ObjectKey
from scheduler.model.objects import LabelSelector, Pod
from scheduler.model.pod_selectors import SERVICE, PodSelector, merged, owner_of


class PodSelectorObjects(NewestObjects[tuple[str, ObjectKey], PodSelector]):
    """The selectors by kind and key."""

    def __init__(self) -> None:
        super().__init__(may_return=True)
        self._services: Final[dict[tuple[str, str, str], dict[ObjectKey, PodSelector]]] = {}

    def of(self, pod: Pod) -> LabelSelector | None:
        """What all Services that select `pod`, and its owner, demand; None for nothing."""
        if not self:
            return None
        labels, namespace = pod.metadata.labels or {}, pod.metadata.namespace
        found = [
            service
            for key, value in sorted(labels.items())
            for service in self._services.get((namespace, key, value), {}).values()
            if all(labels.get(name) == wanted for name, wanted in service.labels)
        ]
        owner = owner_of(pod)
        if owner is not None and (selector := self.get(owner)) is not None:
            found.append(selector)
        return merged(found) if found else None

    def _replaced(self, old: PodSelector | None, new: PodSelector | None) -> None:
        if old is not None and old.kind == SERVICE and old.labels:
            at = _found_by(old)
            del self._services[at][old.key]
            if not self._services[at]:
                del self._services[at]
        if new is not None and new.kind == SERVICE and new.labels:
            self._services.setdefault(_found_by(new), {})[new.key] = new


def _found_by(service: PodSelector) -> tuple[str, str, str]:
    return (service.key.namespace, *service.labels[0])
