"""What goes from a node, or stays, together: a pod by itself, or what a gang cannot spare of those of its pods there.

Rules of this module
  1. A gang that would keep enough pods gives up the least important of those on the node one by one, as pods do.
  2. Of those that it cannot spare, none goes without all that runs of the gang, on every node: what is left would be of
     no use. So all of it is weighed, and a gang of which any pod may not be preempted keeps them.
  3. Bounded: each gang is looked up once in a cycle, and a gang has 1,000 pods at most.

Not here: what runs of a gang, and what a PodGroup says of its disruption (`core.running_groups`); which parts are
spared (`reprieve`).

Source: getCrossNodesVictims of pkg/scheduler/framework/preemption/types.go v1.37.2, for disruptionMode `all`; none
upstream for the rest, see docs/adr/0026-preemption.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.preemption import RunningGroup
from scheduler.model.group import GroupKey, key_of_group
from scheduler.model.objects import Pod
from scheduler.plugins.default_preemption.importance import by_importance


class Part(NamedTuple):
    """Pods that are spared together.

    Attributes:
        spared: All of them are put back at once.
        victims: Who goes if they cannot be; of a gang also those that it could spare.
    """

    spared: tuple[Pod, ...]
    victims: tuple[Pod, ...]


class _Met(NamedTuple):
    gang: RunningGroup
    may_go: bool


class MetGroups:
    """In a cycle: the gangs of potential victims."""

    def __init__(self, cycle: Cycle, view: ClusterView, may_preempt: Callable[[Pod], bool]) -> None:
        self.view: Final = view
        self._cycle: Final = cycle
        self._may_preempt: Final = may_preempt
        self._met: Final[dict[GroupKey, _Met | None]] = {}

    def parts(self, potential: Iterable[Pod]) -> tuple[list[Part], bool]:
        """The parts of these pods of one node, those of gangs first; and whether there were any gangs."""
        alone: list[Part] = []
        by_gang: dict[GroupKey, list[Pod]] = {}
        meets_groups = False
        for pod in potential:
            met = self._meet(pod)
            meets_groups |= met is not None
            if met is not None and pod.uid in met.gang.pods:
                by_gang.setdefault(met.gang.key, []).append(pod)
            else:
                alone.append(Part((pod,), (pod,)))
        together: list[Part] = []
        for key, members in by_gang.items():
            met = self._met[key]
            assert met is not None
            here = by_importance(members, is_138=self.view.features.has_138_semantics)
            bound = max(0, len(here) - met.gang.spare)
            if bound and met.may_go:
                spares = {one.uid for one in here[bound:]}
                pods = tuple(met.gang.pods.values())
                together.append(Part(tuple([one for one in pods if one.uid not in spares]), pods))
                self._cycle.charge(len(pods))
            alone += [Part((one,), (one,)) for one in here[bound:]]
        return together + alone, meets_groups

    def _meet(self, pod: Pod) -> _Met | None:
        key = key_of_group(pod)
        if key is None:
            return None
        if key not in self._met:
            gang = self.view.running_group(pod)
            met = None
            if gang is not None:
                self._cycle.charge(len(gang.pods))
                met = _Met(gang, all(map(self._may_preempt, gang.pods.values())))
            self._met[key] = met
        return self._met[key]
