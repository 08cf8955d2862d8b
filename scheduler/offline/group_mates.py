"""The pods that a pod is placed together with, among a cluster's objects.

Not here: which of them are needed, and placing them (`core.group_cycles`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from scheduler.model.group import GROUP_LABEL
from scheduler.offline.offline_cluster import Obj

_Group: TypeAlias = tuple[str, str, bool]


def with_mates(asked: Sequence[Obj], all_pods: Iterable[Obj]) -> Sequence[Obj]:
    """Pods that are asked about, and those of their groups: whether a group fits is asked of all of it."""
    groups = {group for pod in asked if (group := group_of(pod)) is not None}
    if not groups:
        return asked
    uids = {pod["metadata"]["uid"] for pod in asked}
    mates = [pod for pod in all_pods if group_of(pod) in groups and pod["metadata"]["uid"] not in uids]
    return [*asked, *mates]


def group_of(pod: Obj) -> _Group | None:
    """Namespace, name, and whether it is a PodGroup (`model.group.key_of_group`)."""
    metadata, named = pod["metadata"], pod["spec"].get("schedulingGroup") or {}
    namespace = metadata.get("namespace") or "default"
    if name := named.get("podGroupName"):
        return namespace, name, True
    label = (metadata.get("labels") or {}).get(GROUP_LABEL)
    return (namespace, label, False) if label else None
