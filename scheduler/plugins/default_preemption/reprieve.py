"""The pods that must go for one node: all of lower priority at first, then as many as possible are spared.

Rules of this module
  1. Each pod is put back alone and stays where the preemptor still fits: first those that no budget allows to go, then
     the others, the most important first. So no victim could be spared beside the other victims; fewer, other victims
     might have done.
  2. Pods that stay or go together (`parts`) are put back at once, before single pods that are as important.
  3. It can be left when the steps of a cycle are used up, and taken up again while the node is the same.

Source: SelectVictimsOnNode of pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go v1.36.3.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.preemption import DryRun, Preemption, Trial
from scheduler.framework.status import Code, Status
from scheduler.model.keys import NodeName, PodUid
from scheduler.model.objects import Pod
from scheduler.plugins.default_preemption.budgets import violating_pods
from scheduler.plugins.default_preemption.importance import by_importance
from scheduler.plugins.default_preemption.parts import Part


class Reprieve:
    """One node's victims, being found.

    Attributes:
        outcome: What was found; None while it is not known.
        meets_gangs: Whether it depends on gangs.
        confirms: Whether it looks at victims once more that were found before.
    """

    __slots__ = (
        "_is_138",
        "_node",
        "_removed",
        "_trial",
        "_victims",
        "_violating",
        "_waiting",
        "confirms",
        "meets_groups",
        "outcome",
    )

    def __init__(
        self,
        node: NodeName,
        parts: Sequence[Part],
        view: ClusterView,
        *,
        meets_groups: bool,
        confirms: bool = False,
    ) -> None:
        """`parts` are those of lower priority, at least one; those of gangs come first."""
        is_138 = view.features.has_138_semantics
        ordered = by_importance({pod.uid: pod for part in parts for pod in part.victims}.values(), is_138=is_138)
        place = {pod.uid: index for index, pod in enumerate(ordered)}
        violating = violating_pods(ordered, view.disruption_budgets, is_138=is_138)

        def rank(part: Part) -> tuple[bool, int, bool, int]:
            first = min(place[pod.uid] for pod in part.victims)
            is_free = violating.isdisjoint(pod.uid for pod in part.victims)
            return is_free, -ordered[first].priority, len(part.victims) == 1, first

        self._node: Final = node
        self._is_138: Final = is_138
        self._removed: Final = {pod.uid: None for pod in ordered}
        self._violating: Final = violating
        self._waiting: Final = deque(sorted(parts, key=rank))
        self._victims: Final[dict[PodUid, Pod]] = {}
        self.meets_groups: Final = meets_groups
        self._trial: Trial | None = None
        self.outcome: Preemption | Status | None = None
        self.confirms: Final = confirms

    @property
    def size(self) -> int:
        """How many pods are looked at."""
        return len(self._removed)

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
            part = self._waiting[0]
            # A pod that its gang could have spared goes with it.
            if part.spared[0].uid not in self._victims and not self._put_back(part, dry_run):
                return
            self._waiting.popleft()
        self.outcome = self._conclude(self._trial)

    def _put_back(self, part: Part, dry_run: DryRun) -> bool:
        """Whether it is known if the part can be spared."""
        for pod in part.spared:
            del self._removed[pod.uid]
        trial = dry_run.without(self._node, self._removed)
        if trial.status.is_success:
            self._trial = trial
            return True
        self._removed.update({pod.uid: None for pod in part.spared})
        if trial.status.code is Code.UNFINISHED:
            return False
        self._victims.update({pod.uid: pod for pod in part.victims})
        return True

    def _conclude(self, trial: Trial) -> Preemption | Status:
        if not self._victims and self._is_138:
            return Status.unresolvable("No preemption victims found for incoming pod")
        if not self._victims:
            return Status.error(f'expected at least one victim pod on node "{self._node}"')
        violations = len(self._violating.intersection(self._victims))
        victims = tuple(by_importance(self._victims.values(), is_138=self._is_138))
        return Preemption(self._node, victims, violations, trial.released, trial.given)
