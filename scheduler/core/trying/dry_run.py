"""All filters asked about a node as if it were another: with pods more or less, and their devices.

Not here: what is supposed of the cluster meanwhile (`supposition`), which devices are kept (`kept_devices`); whom to
remove (the plugin DefaultPreemption).

Source: RunFilterPluginsWithNominatedPods of pkg/scheduler/framework/runtime/framework.go, SelectVictimsOnNode of
pkg/scheduler/framework/plugins/defaultpreemption v1.36.3. Differs on purpose: PreFilter is run again instead of each
plugin's AddPod and RemovePod, as its answers are kept up to date from what changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from scheduler.core.state.core_view import CoreView
from scheduler.core.state.ground import Ground
from scheduler.core.state.supposition import AS_THEY_ARE, SupposedDevices
from scheduler.core.trying.dry_run_memory import DryRunMemory
from scheduler.framework.api import ReserveResult
from scheduler.framework.cycle import Cycle
from scheduler.framework.preemption import NodeTried, Preemption, Trial
from scheduler.framework.runner import Runner
from scheduler.framework.status import SUCCESS, UNFINISHED, Code, Status
from scheduler.model.held import Held
from scheduler.model.keys import NodeName, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod

DRY_RUN_STEPS: Final = 50
"""Asking all filters about a node that must be simulated first, what searches take beside it not counted."""
_STEPS_ELSEWHERE: Final = 3
"""Supposing that a pod is gone from another node."""
NODES_PER_STEP: Final = 2
"""Nodes of which is known what they are to preemption."""


def beside_nominated(ground: Ground, runner: Runner, cycle: Cycle, node: NodeInfo, view: CoreView) -> Status:
    """What the plugins say of `node` as if the pods were there that the cycle's pod must leave room for."""
    ahead = ground.store.nominations.ahead_of(cycle.pod, node.name)
    if not ahead and not ground.kept.everywhere(cycle):
        return SUCCESS
    return _ask(ground, runner, cycle, node, view, added=ahead, devices=ground.kept.from_pod(cycle, node.name, ahead))[
        0
    ]


def reserve(ground: Ground, runner: Runner, cycle: Cycle, node: NodeInfo, view: CoreView) -> ReserveResult:
    """Reserve, without the devices that the cycle's pod must leave to others."""
    ahead = ground.store.nominations.ahead_of(cycle.pod, node.name)
    kept = ground.kept.from_pod(cycle, node.name, ahead)
    if kept is AS_THEY_ARE:
        return runner.reserve(cycle, node, view)
    with ground.suppositions.devices(view, kept):
        return runner.reserve(cycle, node, view)


class DryRuns:
    """Satisfies `framework.preemption.DryRun` for one cycle."""

    def __init__(
        self,
        ground: Ground,
        runner: Runner,
        cycle: Cycle,
        *,
        verdicts: Mapping[NodeName, Status],
        memory: DryRunMemory,
        beside: Collection[Preemption] = (),
    ) -> None:
        """`beside` is what is done for others of the pod's group anyway."""
        self._ground: Final = ground
        self._runner: Final = runner
        self._cycle: Final = cycle
        self._verdicts: Final = verdicts
        self._memory: Final = memory
        self.going: Final = frozenset([one.uid for preemption in beside for one in preemption.victims])
        self._nodes_beside: Final = frozenset([preemption.node for preemption in beside])
        self.looked_at = 0
        """How many nodes were looked at without asking plugins; `steps` says what that took."""

    @property
    def steps(self) -> int:
        return self.looked_at // NODES_PER_STEP

    def candidates(self) -> Sequence[NodeName]:
        self.looked_at += len(self._verdicts)
        releasing = self._runner.releasing
        found = [
            name
            for name, status in self._verdicts.items()
            if status.code is Code.UNSCHEDULABLE or status.plugin in releasing
        ]
        return sorted(found, key=lambda name: (name not in self._nodes_beside, name))

    def has_less_important(self) -> bool:
        lowest = self._ground.store.priorities.lowest
        return lowest is not None and lowest < self._cycle.pod.priority

    def may_help(self, node: NodeName, status: Status) -> bool:
        if status.code is Code.UNSCHEDULABLE:
            return True
        info = self._ground.store.node_infos.get(node)
        return info is not None and self._runner.may_help(self._cycle, info, status, self._ground.view)

    def remember(self, node: NodeName, tried: NodeTried) -> None:
        self._memory.put(node, tried, is_alone=not self._ground.kept.everywhere(self._cycle))

    def recall(self, node: NodeName) -> NodeTried | None:
        return self._memory.get(node)

    def remember_hopeless(self, status: Status) -> None:
        self._memory.put_hopeless(status)

    def recall_hopeless(self) -> Status | None:
        return self._memory.hopeless

    def is_current(self, node: NodeName) -> bool:
        return self._memory.is_current(node)

    def without(self, node: NodeName, removed: Collection[PodUid]) -> Trial:
        if self._cycle.steps_left <= 0:
            return Trial(UNFINISHED)
        return without(self._ground, self._runner, self._cycle, self._ground.store.node_infos[node], removed)


def without(ground: Ground, runner: Runner, cycle: Cycle, node: NodeInfo, removed: Collection[PodUid]) -> Trial:
    """What all filters say of `node` as if `removed` were gone, beside nominated pods and without them."""
    view = ground.view
    released = runner.released(cycle.pod, node, removed, view)
    ahead = ground.store.nominations.ahead_of(cycle.pod, node.name)
    given: tuple[Held, ...] = ()
    if ahead or ground.kept.everywhere(cycle):
        kept = ground.kept.from_pod(cycle, node.name, ahead, released)
        status, given = _ask(ground, runner, cycle, node, view, added=ahead, removed=removed, devices=kept)
        if not status.is_success:
            return Trial(status)
    devices = SupposedDevices(released=tuple([one.allocation for one in released]))
    status, found = _ask(ground, runner, cycle, node, view, removed=removed, devices=devices)
    # Beside nominated pods, so that what is kept for them is not given to this one, too.
    return Trial(status, released, given or found) if status.is_success else Trial(status)


def _ask(
    ground: Ground,
    runner: Runner,
    cycle: Cycle,
    node: NodeInfo,
    view: CoreView,
    *,
    added: Sequence[Pod] = (),
    removed: Collection[PodUid] = (),
    devices: SupposedDevices,
) -> tuple[Status, tuple[Held, ...]]:
    """The filters' answer in a supposed cluster, and on success what the pod's claims would be given."""
    elsewhere = sum([uid not in node.pods for uid in removed])
    left = cycle.steps_left - DRY_RUN_STEPS - _STEPS_ELSEWHERE * elsewhere
    allowed = max(1, left)
    attempt = Cycle(cycle.pod, cycle.now_ms, allowed)
    given: tuple[Held, ...] = ()
    with ground.suppositions.suppose(node, view, added=added, removed=removed, devices=devices) as supposed:
        _, status = runner.ask(attempt, supposed, view)
        if status.is_success:
            given = runner.given(attempt, supposed)
    cycle.steps_left = left - (allowed - attempt.steps_left)
    return status, given
