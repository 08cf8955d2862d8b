"""The workload after a restart: learnt from the pods that run, as if they had been seen pending in the order they came.

Rules of this module
  1. Pods of the cycle's scheduler name that are on nodes when the first cycle begins, by start time, then uid.
  2. A claim that several pods share counts with the first of them.
  3. A few pods in each cycle, charged to it; meanwhile ranks use what was learnt so far.
"""

from __future__ import annotations

from typing import Final

from allocator.placement.workload import PodShape
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.model.keys import ClaimUid, PodUid
from scheduler.model.objects import Pod
from scheduler.model.resources import CPU, counted_amounts
from scheduler.plugins.dynamic_resources.resolved_claims import walk_claims

AT_ONCE: Final = 64
_POD_STEPS: Final = 5
_SORTED_A_STEP: Final = 8


class BoundPods:
    """Pods that ran before the first cycle, until they are learnt."""

    def __init__(self) -> None:
        self._left: list[Pod] | None = None
        self._claims: Final[set[ClaimUid]] = set()

    def some(self, cycle: Cycle, view: ClusterView) -> list[tuple[PodUid, PodShape]]:
        """The next pods, in their order, and their shapes; none when all were given."""
        if self._left is None:
            name = cycle.pod.spec.scheduler_name
            pods = [pod for info in view.node_infos.values() for pod in info.pods.values()]
            self._left = [pod for pod in pods if pod.spec.scheduler_name == name]
            self._left.sort(key=_age, reverse=True)
            cycle.steps_left -= len(pods) // _SORTED_A_STEP
        found = [self._left.pop() for _ in range(min(AT_ONCE, len(self._left)))]
        cycle.steps_left -= _POD_STEPS * len(found)
        return [(pod.uid, self._shape(pod, view)) for pod in found]

    def _shape(self, pod: Pod, view: ClusterView) -> PodShape:
        fresh = [claim for claim in walk_claims(pod, view).claims if claim.uid not in self._claims]
        self._claims.update(claim.uid for claim in fresh)
        specs = tuple([claim.spec for claim in fresh if claim.spec is not None])
        return PodShape(counted_amounts(pod).requests.get(CPU, 0), specs)


def _age(pod: Pod) -> tuple[bool, str, PodUid]:
    """Those that have not started come last."""
    return pod.status.start_time is None, pod.status.start_time or "", pod.uid
