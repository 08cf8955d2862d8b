"""How important pods are beside each other, as far as preemption is concerned.

Source: MoreImportantPod and GetEarliestPodStartTime of pkg/scheduler/util/utils.go v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from scheduler.model.objects import Pod
from scheduler.model.timestamps import parse_rfc3339_ms

_NOT_STARTED_MS: Final = 2**62
"""Upstream says now, which is later than all that has started."""


def by_importance(pods: Iterable[Pod], *, is_138: bool) -> list[Pod]:
    """The most important first: by priority, then those that have run longest; of equal ones by UID since 1.38."""
    return sorted(pods, key=lambda pod: (-pod.priority, started_ms(pod), pod.uid if is_138 else ""))


def earliest_start_ms(victims: Sequence[Pod]) -> int:
    """When the first of the most important victims started; `victims` as `by_importance` gives them."""
    return min(started_ms(pod) for pod in victims if pod.priority == victims[0].priority)


def started_ms(pod: Pod) -> int:
    started = parse_rfc3339_ms(pod.status.start_time) if pod.status.start_time else None
    return _NOT_STARTED_MS if started is None else started
