"""What a PodGroup's status says: whether its pods were placed for the first time, and why not.

Rules of this module
  1. It says True once the group was placed, and is never written again after that.
  2. It is written when it differs from what is stored, and in more than its numbers.
  3. Of one namespace one is under way; the others wait, and what is written is what holds by then. They are for people.
  4. One that a broken server did not store is written again while it still holds; what the server refuses is not.

Not here: what is said of each pod (`pod_conditions`).

Source: updatePodGroupCondition of pkg/scheduler/schedule_one_podgroup.go v1.36.3 and v1.37.2. Differs on purpose: rule
2 (upstream writes each number), and a group that waits for its pods says nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import Final

from scheduler.core.ground.inputs import WriteAccepted, WriteOutcomeUnknown, WriteRejected
from scheduler.core.ground.outbox import Answer
from scheduler.core.reports.pod_conditions import BROKEN, Reason, without_numbers
from scheduler.core.state.ground import Ground, Part
from scheduler.framework.decisions import PatchPodGroupStatus
from scheduler.model.gang import gang_key
from scheduler.model.keys import PodGroupKey
from scheduler.model.objects import Pod
from scheduler.model.pod_group import GroupCondition, PodGroup

SCHEDULED: Final = Reason("Scheduled", "")
_STORED_MAX: Final = 4_096
_MESSAGE_MAX: Final = 4_096
"""Characters; the API allows 32,768."""


class GroupConditions(Part):
    """Reports on PodGroups."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self._wanted: Final[dict[PodGroupKey, Reason]] = {}  # not stored yet
        self._stored: Final[OrderedDict[str, GroupCondition]] = OrderedDict()  # by uid, and not observed yet, perhaps
        self._under_way: Final[dict[str, PodGroupKey]] = {}  # by namespace

    def report(self, pod: Pod, why: Reason) -> None:
        """What became of the group of this pod, if it has one; SCHEDULED, or why it was not placed."""
        key = gang_key(pod)
        if key is None or not key.is_pod_group:
            return
        group = self._store.pod_groups.get(key.pod_group)
        if group is None:
            return
        why = Reason(why.reason, why.message[:_MESSAGE_MAX])
        if self._says(group, why):
            self._wanted.pop(group.key, None)
            return
        self._wanted[group.key] = why
        self._send_next(group.key.namespace)

    def _send_next(self, namespace: str) -> None:
        if namespace in self._under_way:
            return
        for key in [key for key in self._wanted if key.namespace == namespace]:
            group, why = self._store.pod_groups.get(key), self._wanted[key]
            if group is None or self._says(group, why):
                del self._wanted[key]
                continue
            self._under_way[namespace] = key
            patch = self._patch_of(group, why)
            self._outbox.ask(patch, partial(self._patched, patch, why, 1))
            return

    def _patch_of(self, group: PodGroup, why: Reason) -> PatchPodGroupStatus:
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

    def _patched(self, patch: PatchPodGroupStatus, why: Reason, attempt: int, answer: Answer) -> None:
        del self._under_way[patch.group.namespace]
        if self._wanted.get(patch.group) == why:
            if isinstance(answer, WriteOutcomeUnknown) or (isinstance(answer, WriteRejected) and answer.code >= BROKEN):
                wait_ms = self._settings.backoff_ms(attempt)
                self._timers.at(self._timers.now_ms + wait_ms, partial(self._patch_again, patch, why, attempt + 1))
            else:
                del self._wanted[patch.group]
                if isinstance(answer, WriteAccepted):
                    self._stored[patch.uid] = GroupCondition(patch.is_true, why.reason, why.message)
                    if len(self._stored) > _STORED_MAX:
                        self._stored.popitem(last=False)
        self._send_next(patch.group.namespace)

    def _patch_again(self, patch: PatchPodGroupStatus, why: Reason, attempt: int) -> None:
        if self._wanted.get(patch.group) == why and patch.group.namespace not in self._under_way:
            self._under_way[patch.group.namespace] = patch.group
            self._outbox.ask(patch, partial(self._patched, patch, why, attempt))

    def _says(self, group: PodGroup, why: Reason) -> bool:
        """Whether the group says that already, or was placed before."""
        known = self._known(group)
        if known is None or known.is_true:
            return known is not None
        return known.reason == why.reason and without_numbers(known.message) == without_numbers(why.message)

    def _known(self, group: PodGroup) -> GroupCondition | None:
        return self._stored.get(group.uid) or group.condition
