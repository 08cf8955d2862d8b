"""What a PodGroup's status says: whether its pods were placed for the first time, and why not.

Rules of this module
  1. It says True once the group was placed, and is never written again after that.
  2. It is written when it differs from what is stored, and in more than its numbers.

Not here: what is said of each pod, and how both are written (`pod_conditions`).

Source: updatePodGroupCondition of pkg/scheduler/schedule_one_podgroup.go v1.36.3 and v1.37.2. Differs on purpose: rule
2 (upstream writes each number), and a group that waits for its pods says nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from scheduler.core.reports.pod_conditions import SCHEDULER_ERROR, Refusal, Reporter, without_numbers
from scheduler.core.state.ground import Ground
from scheduler.framework.decisions import PatchPodGroupStatus
from scheduler.model.group import key_of_group
from scheduler.model.keys import PodGroupKey
from scheduler.model.objects import Pod
from scheduler.model.pod_group import GroupCondition, PodGroup

SCHEDULED: Final = Refusal("Scheduled", "")
_STORED_MAX: Final = 4_096
_MESSAGE_MAX: Final = 4_096
"""Characters; the API allows 32,768."""


class GroupConditions(Reporter[PodGroupKey, PatchPodGroupStatus]):
    """Reports on PodGroups."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self._stored: Final[OrderedDict[str, GroupCondition]] = OrderedDict()  # by uid, and not observed yet, perhaps

    def report_disagreement(self, pod: Pod, text: str) -> None:
        """That the pods of the group of this pod contradict it, or each other."""
        self.report(pod, Refusal("PodGroupError" if self._view.features.has_138_semantics else SCHEDULER_ERROR, text))

    def report(self, pod: Pod, why: Refusal) -> None:
        """What became of the group of this pod, if it has one; SCHEDULED, or why it was not placed."""
        key = key_of_group(pod)
        if key is None or not key.is_pod_group:
            return
        group = self._store.pod_groups.get(key.pod_group)
        if group is None:
            return
        why = Refusal(why.reason, why.message[:_MESSAGE_MAX])
        if self._says(group, why):
            self.forget(group.key)
            return
        self._asked[group.key] = why
        self._wait(group.key.namespace, group.key, 1)

    def _due(self, key: PodGroupKey, attempt: int) -> PatchPodGroupStatus | None:
        group, why = self._store.pod_groups.get(key), self._asked.get(key)
        if group is None or why is None or self._says(group, why):
            self.forget(key)
            return None
        is_true, known = why.reason == SCHEDULED.reason, self._known(group)
        return PatchPodGroupStatus(
            group.key,
            group.uid,
            why.reason,
            why.message,
            is_true=is_true,
            is_transition=known is None or known.is_true != is_true,
            is_136=not self._view.features.has_137_semantics,
            generation=group.generation,
        )

    def _accepted(self, key: PodGroupKey, patch: PatchPodGroupStatus) -> None:
        if self._still_holds(key, patch):
            self.forget(key)
        self._stored[patch.uid] = GroupCondition(patch.is_true, patch.reason, patch.message)
        if len(self._stored) > _STORED_MAX:
            self._stored.popitem(last=False)

    def _says(self, group: PodGroup, why: Refusal) -> bool:
        """Whether the group says that already, or was placed before."""
        known = self._known(group)
        if known is None or known.is_true:
            return known is not None
        return known.reason == why.reason and without_numbers(known.message) == without_numbers(why.message)

    def _known(self, group: PodGroup) -> GroupCondition | None:
        return self._stored.get(group.uid) or group.condition
