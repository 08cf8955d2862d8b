"""What selects pods: Services, and the owners of pods; the default constraints of PodTopologySpread read it.

Rules of this module
  1. A Service without a selector selects nothing.
  2. Of these objects nothing but the selector is kept: a cluster can have 100,000 of them.

Not here: which of them concern a pod (`core.pod_selector_objects`).

Source: pkg/scheduler/framework/plugins/helper/spread.go v1.36.3 (DefaultSelector).
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.model.keys import ObjectKey
from scheduler.model.objects import LabelSelector, NodeSelectorRequirement, Pod
from scheduler.model.owners import controller_of

SERVICE: Final = "Service"
REPLICATION_CONTROLLER: Final = "ReplicationController"
REPLICA_SET: Final = "ReplicaSet"
STATEFUL_SET: Final = "StatefulSet"
SELECTOR_KINDS: Final = (SERVICE, REPLICATION_CONTROLLER, REPLICA_SET, STATEFUL_SET)
_OWNERS: Final = {
    ("v1", REPLICATION_CONTROLLER): REPLICATION_CONTROLLER,
    ("apps/v1", REPLICA_SET): REPLICA_SET,
    ("apps/v1", STATEFUL_SET): STATEFUL_SET,
}


class PodSelector(msgspec.Struct, frozen=True, gc=False):
    """One object that selects pods of its namespace.

    Args:
        labels: A map of labels (Service, ReplicationController) or a selector's `matchLabels`, sorted.
        expressions: A selector's `matchExpressions`.
    """

    kind: str
    key: ObjectKey
    labels: tuple[tuple[str, str], ...] = ()
    expressions: tuple[NodeSelectorRequirement, ...] = ()


def owner_of(pod: Pod) -> tuple[str, ObjectKey] | None:
    """Kind and key of the controller of `pod`, if it is one whose selector counts."""
    controller = controller_of(pod)
    kind = _OWNERS.get((controller.api_version, controller.kind)) if controller is not None else None
    return (kind, ObjectKey(pod.metadata.namespace, controller.name)) if controller is not None and kind else None


def merged(selectors: list[PodSelector]) -> LabelSelector | None:
    """One selector that demands what all of `selectors` do; None when that is nothing."""
    labels: dict[str, str] = {}
    expressions: list[NodeSelectorRequirement] = []
    for one in selectors:
        for key, value in one.labels:
            if labels.setdefault(key, value) == value:
                continue
            if one.kind == REPLICATION_CONTROLLER:
                labels[key] = value  # upstream merges two maps here, and the later value stands
            else:
                expressions.append(NodeSelectorRequirement(key, "In", (value,)))
        expressions += one.expressions
    if not labels and not expressions:
        return None
    return LabelSelector(dict(sorted(labels.items())) or None, tuple(expressions) or None)
