"""The pods that must go from one node: all of lower priority at first, then as many as possible are spared.

Rules of this module
  1. Each pod is put back alone and stays where the preemptor still fits: first those that no budget allows to go, then
     the others, the most important first. So no victim could be spared beside the other victims; fewer, other victims
     might have done.
  2. It can be left when the steps of a cycle are used up, and taken up again while the node is the same.

Source: SelectVictimsOnNode of pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go v1.36.3.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.preemption import DryRun, Preemption, Trial
from scheduler.framework.status import Code, Status
from scheduler.model.keys import NodeName
from scheduler.model.objects import Pod
from scheduler.plugins.default_preemption.budgets import violating_pods
from scheduler.plugins.default_preemption.importance import by_importance


class Reprieve:
    """One node's victims, being found.

    Attributes:
        outcome: What was found; None while it is not known.
        confirms: Whether it looks at victims once more that were found before.
    """

    __slots__ = ("_node", "_removed", "_trial", "_victims", "_violating", "_waiting", "confirms", "outcome")

    def __init__(self, node: NodeName, potential: Sequence[Pod], view: ClusterView, *, confirms: bool = False) -> None:
        """`potential` victims are those of lower priority, at least one."""
        ordered = by_importance(potential)
        self._node: Final = node
        self._removed: Final = {pod.uid: None for pod in ordered}
        self._violating: Final = violating_pods(ordered, view.disruption_budgets)
        self._waiting: Final = deque(sorted(ordered, key=lambda pod: pod.uid not in self._violating))
        self._victims: Final[list[Pod]] = []
        self._trial: Trial | None = None
        self.outcome: Preemption | Status | None = None
        self.confirms: Final = confirms

    def go_on(self, dry_run: DryRun) -> None:
        """Look until the outcome is known or the steps are used up."""
        if self._trial is None:
            trial = dry_run.without(self._node, self._removed)
            if trial.status.code is Code.UNFINISHED:
                return
            if not trial.status.is_success:
                self.outcome = trial.status
                return
            self._trial = trial
        while self._waiting:
            if not self._put_back(self._waiting[0], dry_run):
                return
            self._waiting.popleft()
        self.outcome = self._conclude(self._trial)

    def _put_back(self, pod: Pod, dry_run: DryRun) -> bool:
        """Whether it is known if the pod can be spared."""
        del self._removed[pod.uid]
        trial = dry_run.without(self._node, self._removed)
        if trial.status.is_success:
            self._trial = trial
            return True
        self._removed[pod.uid] = None
        if trial.status.code is Code.UNFINISHED:
            return False
        self._victims.append(pod)
        return True

    def _conclude(self, trial: Trial) -> Preemption | Status:
        if not self._victims:
            return Status.error(f'expected at least one victim pod on node "{self._node}"')
        violations = sum(pod.uid in self._violating for pod in self._victims)
        victims = tuple(by_importance(self._victims))
        return Preemption(self._node, victims, violations, trial.released, trial.given)
