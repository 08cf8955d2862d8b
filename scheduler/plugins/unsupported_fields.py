"""UnsupportedFields: keep pods off all nodes that have a requirement which no other plugin looks at.

Extension points: PreFilter, RequeueHints.
Reads: the fields of `model.unsupported_fields`.  Writes: nothing.
Upstream: pkg/scheduler/framework/plugins/ has a plugin for each of these fields; none of this name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from scheduler.framework.api import (
    PRE_FILTERED,
    Action,
    ClusterEvent,
    ClusterView,
    Hint,
    PreFilterResult,
    Resource,
)
from scheduler.framework.cycle import Cycle
from scheduler.framework.status import Status
from scheduler.model.objects import Pod
from scheduler.model.unsupported_fields import FieldUse, unsupported_fields

NAME: Final = "UnsupportedFields"
ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class UnsupportedFields:
    """Reject a pod that has such a field, and name it.

    Args:
        ignored: Names of fields that do not matter to the user, `ALL` for all of them.
    """

    ignored: frozenset[str] = frozenset()
    name: str = NAME
    wakes_on: tuple[tuple[Resource, Action], ...] = ((Resource.POD, Action.UPDATE_POD_LABEL),)

    def pre_filter(self, cycle: Cycle, view: ClusterView) -> PreFilterResult:
        uses = unsupported_fields(cycle.pod)
        if not uses or not (uses := self._refused(uses)):
            return PRE_FILTERED
        return PreFilterResult(Status.unresolvable(_reason(uses)))

    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        """No change of the cluster helps, and these fields of a pod cannot be changed."""
        changed = change.new
        is_helped = (
            isinstance(changed, Pod) and changed.uid == pod.uid and not self._refused(unsupported_fields(changed))
        )
        return Hint.QUEUE if is_helped else Hint.SKIP

    def _refused(self, uses: tuple[FieldUse, ...]) -> tuple[FieldUse, ...]:
        if ALL in self.ignored:
            return ()
        return tuple(use for use in uses if use.name not in self.ignored)


def _reason(uses: tuple[FieldUse, ...]) -> str:
    paths = " and ".join(filter(None, (", ".join(use.path for use in uses[:-1]), uses[-1].path)))
    return (
        f"{paths} {'is' if len(uses) == 1 else 'are'} not looked at by this scheduler; name another schedulerName, or "
        f"have its configuration say ignoredPodFields: [{', '.join(use.name for use in uses)}]"
    )
