"""Which gang a pod belongs to: pods of which at least `min_count` are placed together, or none.

Labels say it, so that it works on every cluster: `dra-scheduler/group` names the gang within its namespace, and
`dra-scheduler/group-min-count` says how many of its pods are needed. Labels and not annotations: a scheduler need not
read what a pod's annotations hold, and `kubectl get pods -l dra-scheduler/group=NAME` shows the gang.

Not here: which pods there are (`core.gang_members`), placing them (`core.gang_cycles`); PodGroups and their claims
(`pod_group`).

Source: none upstream for the labels; docs/adr/0034-groups-of-pods.md.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from scheduler.model.objects import Pod

GROUP_LABEL: Final = "dra-scheduler/group"
MIN_COUNT_LABEL: Final = "dra-scheduler/group-min-count"


class GangKey(NamedTuple):
    """Of a gang: pods of one namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def gang_key(pod: Pod) -> GangKey | None:
    """The gang of a pod, None for a pod of its own."""
    labels = pod.metadata.labels
    name = labels.get(GROUP_LABEL) if labels else None
    return GangKey(pod.metadata.namespace, name) if name else None


def min_count_of(pod: Pod) -> int | None:
    """How many pods of its gang a pod says are needed, >= 1; None when it does not say, or nothing that can be read."""
    text = (pod.metadata.labels or {}).get(MIN_COUNT_LABEL, "")
    return int(text) if text.isascii() and text.isdigit() and int(text) else None
