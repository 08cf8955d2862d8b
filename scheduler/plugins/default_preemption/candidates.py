"""Which node is best to preempt on.

Source: pickOneNodeForPreemption of pkg/scheduler/framework/preemption/preemption.go v1.36.3. Differs on purpose: of
equal candidates the first by the name of the node, where upstream leaves it to chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

from scheduler.framework.preemption import Preemption
from scheduler.model.keys import PodUid
from scheduler.plugins.default_preemption.importance import earliest_start_ms

_LOWEST: Final = 2**31
"""Added to priorities, so that two victims of negative priority are never better than one."""


def best(candidates: Iterable[Preemption], going: Set[PodUid]) -> Preemption:
    """The one with the fewest violated budgets; then the least important victims, whose most recent start is last.

    Victims that are `going` anyway count for nothing.
    """
    return min(candidates, key=lambda one: (_cost(one, going), one.node))


def _cost(candidate: Preemption, going: Set[PodUid]) -> tuple[int, ...]:
    victims = [one for one in candidate.victims if one.uid not in going]
    if not victims:
        return ()
    return (
        candidate.violations,
        victims[0].priority,
        sum(pod.priority + _LOWEST for pod in victims),
        len(victims),
        -earliest_start_ms(victims),
    )
