"""Which node is best to preempt on.

Source: pickOneNodeForPreemption of pkg/scheduler/framework/preemption/preemption.go v1.36.3. Differs on purpose: of
equal candidates the first by the name of the node, where upstream leaves it to chance.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scheduler.framework.preemption import Preemption
from scheduler.plugins.default_preemption.importance import earliest_start_ms

_LOWEST: Final = 2**31
"""Added to priorities, so that two victims of negative priority are never better than one."""


def best(candidates: Iterable[Preemption]) -> Preemption:
    """The one with the fewest violated budgets; then the least important victims, whose most recent start is last."""
    return min(candidates, key=lambda one: (_cost(one), one.node))


def _cost(candidate: Preemption) -> tuple[int, ...]:
    victims = candidate.victims
    return (
        candidate.violations,
        victims[0].priority,
        sum(pod.priority + _LOWEST for pod in victims),
        len(victims),
        -earliest_start_ms(victims),
    )
