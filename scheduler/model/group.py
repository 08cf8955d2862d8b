"""Which gang a pod belongs to: pods of which at least `min_count` are placed together, or none.

Where the API server has PodGroups, `spec.schedulingGroup` names one, whose policy says the number. Labels say it on
every cluster: `dra-scheduler/group` names the gang within its namespace, and `dra-scheduler/group-min-count` says how
many of its pods are needed. Labels and not annotations: a scheduler need not read what a pod's annotations hold, and
`kubectl get pods -l dra-scheduler/group=NAME` shows the gang.

Not here: which pods there are (`core.gang_members`), keeping them out of the queue until enough exist (the plugin
GangScheduling), placing them (`core.group_cycles`); PodGroups and their claims (`pod_group`).

Source: none upstream for the labels; docs/adr/0034-groups-of-pods.md.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from allocator import Features
from scheduler.model.keys import PodGroupKey
from scheduler.model.objects import Pod
from scheduler.model.pod_group import PodGroup, group_key

GROUP_LABEL: Final = "dra-scheduler/group"
MIN_COUNT_LABEL: Final = "dra-scheduler/group-min-count"
GANG_SCHEDULING: Final = "GangScheduling"
"""The plugin that keeps a pod waiting for its gang."""
GANG_PODS_MAX: Final = 128
"""Pods that are placed together."""
GANG_MEMBERS_MAX: Final = 1_000
"""Pods of one gang, those that run too: they are counted whenever one of them is tried."""
_FAILED: Final = "Failed"
_EVERY: Final = "all pods in a single pod group should have the same"
_EVERY_138: Final = "all pods in a pod group hierarchy should have the same"


class GroupKey(NamedTuple):
    """Of a gang: pods of one namespace. A PodGroup and a label of the same name are two gangs."""

    namespace: str
    name: str
    is_pod_group: bool = False

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def pod_group(self) -> PodGroupKey:
        """The key of its PodGroup, where it is one."""
        return PodGroupKey(self.namespace, self.name)


class Alike(NamedTuple):
    """What all pods of a PodGroup have to say alike."""

    scheduler_name: str
    priority: int
    preemption_policy: str


class GroupSize(NamedTuple):
    """How many pods a group has.

    Attributes:
        members: That name it.
        living: That count: not those that failed, nor those that are deleted before they have a node.
        said: The largest number that their labels say are needed, 0 where none says one.
        alike: Of a PodGroup, each thing that those that count say; one where they agree.
    """

    members: int
    living: int
    said: int
    alike: tuple[Alike, ...] = ()


def key_of_group(pod: Pod) -> GroupKey | None:
    """The gang of a pod, None for a pod of its own. Where both are set the PodGroup counts, and not the label."""
    group = group_key(pod) if pod.spec.scheduling_group is not None else None
    if group is not None:
        return GroupKey(group.namespace, group.name, is_pod_group=True)
    labels = pod.metadata.labels
    name = labels.get(GROUP_LABEL) if labels else None
    return GroupKey(pod.metadata.namespace, name) if name else None


def min_count_of(pod: Pod) -> int | None:
    """How many pods of its gang a pod's label says are needed, >= 1; None when it says nothing that can be read."""
    text = (pod.metadata.labels or {}).get(MIN_COUNT_LABEL, "")
    return int(text) if text.isascii() and text.isdigit() and int(text) else None


def declared_count(key: GroupKey, size: GroupSize, group: PodGroup | None) -> int | None:
    """How many pods of a gang are placed together or not at all.

    Returns:
        What its PodGroup says, None where there is none or each pod is placed by itself; without PodGroup the largest
        number that its pods say, 0 for all that exist where none says one.
    """
    if key.is_pod_group:
        return group.min_count if group is not None else None
    return size.said


def disagreement(size: GroupSize, group: PodGroup, features: Features) -> str:
    """Why the pods of a PodGroup cannot be placed together, in upstream's words; "" where they agree.

    Source: validatePodGroup of pkg/scheduler/schedule_one_podgroup.go; up to 1.36 of the scheduler's name alone, in
    1.38 validatePodGroupHierarchy, whose text names a pod and the group as well.
    """
    is_138 = features.has_138_semantics
    every, root = (_EVERY_138, "root ") if is_138 else (_EVERY, "")
    names = sorted({one.scheduler_name for one in size.alike})
    if len(names) > 1:
        return f'{every} .spec.schedulerName set, got: "{names[1]}" and "{names[0]}"'
    if not features.has_137_semantics:
        return ""
    other = min((one.priority for one in size.alike if one.priority != group.priority), default=None)
    if other is not None:
        return f"{every} priority as the {root}pod group's priority, got {other} and {group.priority}"
    policies = sorted({one.preemption_policy for one in size.alike} - {group.preemption_policy})
    if group.preemption_policy and policies:
        of_group = "" if is_138 else " as the pod group's preemption policy"
        return f"{every} preemption policy{of_group}, got {policies[0]} and {group.preemption_policy}"
    if len(policies) > 1:
        return f"{every} preemption policy, got {policies[1]} and {policies[0]}"
    return ""


def is_disagreement(message: str) -> bool:
    """Whether a pod waits as its PodGroup's pods do not agree."""
    return message.startswith((_EVERY, _EVERY_138))


def alike_of(pod: Pod) -> Alike:
    """What the pod says of that. An API server fills in the policy; who does not say it preempts."""
    spec = pod.spec
    return Alike(spec.scheduler_name, spec.priority or 0, spec.preemption_policy or "PreemptLowerPriority")


def counts(pod: Pod, *, is_placed: bool) -> bool:
    """Whether a pod is one of its gang's number: one that failed is not, nor one deleted before it had a node."""
    return pod.status.phase != _FAILED and (is_placed or not pod.is_deleting)


def waiting_text(missing: int, key: GroupKey, needed: int) -> str:
    """What is said of a pod while pods of its group are missing."""
    return f"waiting for {missing} more {'pod' if missing == 1 else 'pods'} of group {key}, {needed} are needed"
