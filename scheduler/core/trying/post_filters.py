"""PostFilter, for a pod that fits on no node.

Not here: what becomes of the answer (`scheduling_cycle`, `group_attempt`), what a dry run says of a node (`dry_run`).
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from typing import Final

from scheduler.core.state.ground import Ground, Part
from scheduler.core.trying.attempt import Unfit
from scheduler.core.trying.dry_run import DryRuns
from scheduler.core.trying.dry_run_memory import DryRunMemories
from scheduler.core.trying.feasibility import Feasibility
from scheduler.framework.api import PostFilterResult
from scheduler.framework.cycle import Cycle
from scheduler.framework.preemption import Preemption
from scheduler.framework.runner import Runner
from scheduler.framework.status import Code
from scheduler.model.keys import NodeName


class PostFilters(Part):
    """Asks them, and keeps what they have found out for the next cycle."""

    def __init__(self, ground: Ground, feasibility: Feasibility) -> None:
        super().__init__(ground)
        self._feasibility: Final = feasibility
        self._memories: Final = DryRunMemories(ground.store)

    def ask(
        self,
        unfit: Unfit,
        runner: Runner,
        cycle: Cycle,
        *,
        only: AbstractSet[NodeName] | None = None,
        beside: Collection[Preemption] = (),
    ) -> PostFilterResult:
        """What could help the pod. UNFINISHED: ask again in another cycle, and it goes on.

        Args:
            only: The only nodes that its group may be on, None for all.
            beside: What is done for others of its group anyway.
        """
        queued, verdicts = unfit.queued, unfit.verdicts
        if unfit.refusal is not None:
            verdicts = dict.fromkeys(self._store.node_infos if only is None else only, unfit.refusal)
        memory = self._memories.of(queued.runner, queued.pod, unfit.plan)
        dry_run = DryRuns(self._ground, queued.runner, cycle, verdicts=verdicts, memory=memory, beside=beside)
        allowed = cycle.steps_left
        helped = runner.post_filter(cycle, verdicts, self._view, dry_run)
        self._feasibility.steps += max(0, allowed - cycle.steps_left) + dry_run.steps
        if helped.status.code is Code.UNFINISHED:
            self._memories.interrupted(queued.uid, memory)
        return helped
