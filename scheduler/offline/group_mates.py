"""The pods that a pod is tried with, among a cluster's objects: those of its group, and those that keep their room.

Not here: which of a group are needed, and placing them (`core.group_cycles`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from scheduler.model.group import GROUP_LABEL
from scheduler.offline.offline_cluster import Obj

_Group: TypeAlias = tuple[str, str, bool]


def with_mates(asked: Sequence[Obj], all_pods: Iterable[Obj]) -> Sequence[Obj]:
    """Pods that are asked about, and those of their groups: whether a group fits is asked of all of it."""
    groups = {group_of(pod) for pod in asked} - {None}
    uids, least = {pod["metadata"]["uid"] for pod in asked}, min(map(_priority, asked), default=0)
    others = [pod for pod in all_pods if pod["metadata"]["uid"] not in uids]
    return [*asked, *(pod for pod in others if group_of(pod) in groups or _keeps_room(pod, least))]


def nominated(pod: Obj) -> str:
    """The node that is kept for a pod that waits, "" for none."""
    return (
        "" if (pod.get("spec") or {}).get("nodeName") else str((pod.get("status") or {}).get("nominatedNodeName") or "")
    )


def _keeps_room(pod: Obj, priority: int) -> bool:
    """Whether pods of that priority must leave room for this one."""
    return bool(nominated(pod)) and _priority(pod) >= priority


def _priority(pod: Obj) -> int:
    return int(pod["spec"].get("priority") or 0)


def group_of(pod: Obj) -> _Group | None:
    """Namespace, name, and whether it is a PodGroup (`model.group.key_of_group`)."""
    metadata, named = pod["metadata"], pod["spec"].get("schedulingGroup") or {}
    namespace = metadata.get("namespace") or "default"
    if name := named.get("podGroupName"):
        return namespace, name, True
    label = (metadata.get("labels") or {}).get(GROUP_LABEL)
    return (namespace, label, False) if label else None
