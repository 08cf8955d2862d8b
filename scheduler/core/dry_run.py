"""All filters asked about a node as if it were another: with pods more or less, and their devices.

Not here: what is supposed of the cluster meanwhile (`supposition`); whom to remove (the plugin DefaultPreemption).

Source: RunFilterPluginsWithNominatedPods of pkg/scheduler/framework/runtime/framework.go, SelectVictimsOnNode of
pkg/scheduler/framework/plugins/defaultpreemption v1.36.3. Differs on purpose: PreFilter is run again instead of each
plugin's AddPod and RemovePod, as its answers are kept up to date from what changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from allocator import Allocation
from scheduler.core.ground import Ground
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.held import Held
from scheduler.framework.preemption import Trial
from scheduler.framework.runner import Runner
from scheduler.framework.status import SUCCESS, Code, Status
from scheduler.model.keys import NodeName, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod


def beside_nominated(ground: Ground, runner: Runner, cycle: Cycle, node: NodeInfo, view: ClusterView) -> Status:
    """What the plugins say of `node` as if the pods were there that the cycle's pod must leave room for."""
    ahead = ground.store.nominations.ahead_of(cycle.pod, node.name)
    if not ahead:
        return SUCCESS
    status, _ = _ask(ground, runner, cycle, node, view, added=ahead, taken=_kept(ground, ahead))
    return status


class DryRuns:
    """Satisfies `framework.preemption.DryRun` for one cycle."""

    def __init__(self, ground: Ground, runner: Runner, cycle: Cycle, view: ClusterView) -> None:
        self._ground: Final = ground
        self._runner: Final = runner
        self._cycle: Final = cycle
        self._view: Final = view

    def may_help(self, node: NodeName, status: Status) -> bool:
        if status.code is Code.UNSCHEDULABLE:
            return True
        info = self._ground.store.node_infos.get(node)
        return info is not None and self._runner.may_help(self._cycle, info, status, self._view)

    def without(self, node: NodeName, removed: Collection[PodUid]) -> Trial:
        ground, runner, cycle, view = self._ground, self._runner, self._cycle, self._view
        info = ground.store.node_infos[node]
        released = runner.released(cycle.pod, info, removed, view)
        freed = [one.allocation for one in released]
        ahead = ground.store.nominations.ahead_of(cycle.pod, node)
        if ahead:
            status, _ = _ask(
                ground,
                runner,
                cycle,
                info,
                view,
                added=ahead,
                removed=removed,
                taken=_kept(ground, ahead),
                released=freed,
            )
            if not status.is_success:
                return Trial(status)
        status, given = _ask(ground, runner, cycle, info, view, removed=removed, released=freed)
        return Trial(status, released, given) if status.is_success else Trial(status)


def _kept(ground: Ground, pods: Iterable[Pod]) -> list[Allocation]:
    """The devices that are kept for nominated pods."""
    return []


def _ask(
    ground: Ground,
    runner: Runner,
    cycle: Cycle,
    node: NodeInfo,
    view: ClusterView,
    *,
    added: Sequence[Pod] = (),
    removed: Collection[PodUid] = (),
    taken: Iterable[Allocation] = (),
    released: Iterable[Allocation] = (),
) -> tuple[Status, tuple[Held, ...]]:
    """The filters' answer in a supposed cluster, and on success what the pod's claims would be given."""
    attempt = Cycle(cycle.pod, cycle.now_ms, cycle.steps_left)
    given: tuple[Held, ...] = ()
    with ground.suppositions.suppose(node, added=added, removed=removed, taken=taken, released=released) as supposed:
        filtered = runner.pre_filter(attempt, view)
        status = filtered.status
        if status.is_success:
            plan = runner.plan(attempt, view, filtered)
            status = plan if isinstance(plan, Status) else runner.verdict(plan, attempt, supposed, view)
            if status.is_success:
                given = runner.given(attempt, supposed)
    cycle.steps_left = attempt.steps_left
    return status, given
