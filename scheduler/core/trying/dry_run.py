"""All filters asked about a node as if objects were otherwise: preemption, causes and plans ask what would be here.

Not here: what is supposed of the cluster meanwhile (`supposition`), which devices are kept (`kept_devices`); whom to
remove (the plugin DefaultPreemption), which fixes are worth asking about (`cause_search`).

Source: RunFilterPluginsWithNominatedPods of pkg/scheduler/framework/runtime/framework.go, SelectVictimsOnNode of
pkg/scheduler/framework/plugins/defaultpreemption v1.36.3. Differs on purpose: PreFilter is run again instead of each
plugin's AddPod and RemovePod, as its answers are kept up to date from what changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec import Struct

from scheduler.core.state.ground import Ground
from scheduler.core.state.supposition import AS_THEY_ARE, Otherwise, SupposedDevices
from scheduler.core.trying.dry_run_memory import DryRunMemory
from scheduler.framework.api import ReserveResult
from scheduler.framework.cycle import Cycle
from scheduler.framework.preemption import NodeTried, Preemption, Trial
from scheduler.framework.runner import Runner
from scheduler.framework.status import SUCCESS, UNFINISHED, Code, Status
from scheduler.model.held import Held
from scheduler.model.keys import NodeName, PodUid
from scheduler.model.node_info import NodeInfo

DRY_RUN_STEPS: Final = 50
"""Asking all filters about a node that must be simulated first, what searches take beside it not counted."""
_STEPS_ELSEWHERE: Final = 3
"""Supposing that a pod is gone from another node."""
NODES_PER_STEP: Final = 2
"""Nodes of which is known what they are to preemption."""


def beside_nominated(ground: Ground, runner: Runner, cycle: Cycle, node: NodeInfo) -> Status:
    """What the plugins say of `node` as if the pods were there that the cycle's pod must leave room for."""
    ahead = ground.store.nominations.ahead_of(cycle.pod, node.name)
    if not ahead and not ground.kept.everywhere(cycle):
        return SUCCESS
    otherwise = Otherwise(ahead, devices=ground.kept.from_pod(cycle, node.name, ahead))
    with as_if(ground, runner, cycle, node, otherwise) as asked:
        return asked.status


def reserve(ground: Ground, runner: Runner, cycle: Cycle, node: NodeInfo) -> ReserveResult:
    """Reserve, without the devices that the cycle's pod must leave to others."""
    ahead = ground.store.nominations.ahead_of(cycle.pod, node.name)
    kept = ground.kept.from_pod(cycle, node.name, ahead)
    if kept is AS_THEY_ARE:
        return runner.reserve(cycle, node, ground.view)
    with ground.suppositions.devices(ground.view, kept):
        return runner.reserve(cycle, node, ground.view)


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
    released = runner.released(cycle.pod, node, removed, ground.view)
    ahead = ground.store.nominations.ahead_of(cycle.pod, node.name)
    given: tuple[Held, ...] = ()
    if ahead or ground.kept.everywhere(cycle):
        kept = ground.kept.from_pod(cycle, node.name, ahead, released)
        with as_if(ground, runner, cycle, node, Otherwise(ahead, removed, kept)) as asked:
            if not asked.status.is_success:
                return Trial(asked.status)
            given = asked.given()
    devices = SupposedDevices(released=tuple([one.allocation for one in released]))
    with as_if(ground, runner, cycle, node, Otherwise((), removed, devices)) as asked:
        # Beside nominated pods, so that what is kept for them is not given to this one, too.
        found = given or asked.given()
        return Trial(asked.status, released, found) if asked.status.is_success else Trial(asked.status)


class Asked(Struct, frozen=True):
    """What all filters say of a node in a supposed cluster, while it is supposed.

    Args:
        cycle: In which they were asked.
        node: As it would be; None where PreFilter refuses all nodes.
    """

    runner: Runner
    cycle: Cycle
    node: NodeInfo | None
    status: Status

    def given(self) -> tuple[Held, ...]:
        """What the pod's claims would be given; nothing where it is refused."""
        return self.runner.given(self.cycle, self.node) if self.node is not None and self.status.is_success else ()


@contextmanager
def as_if(ground: Ground, runner: Runner, cycle: Cycle, node: NodeInfo, otherwise: Otherwise) -> Iterator[Asked]:
    """Ask about the cycle's pod, whose steps it takes, with what is asked of the plugins meanwhile."""
    elsewhere = sum([uid not in node.pods for uid in otherwise.removed])
    left = cycle.steps_left - DRY_RUN_STEPS - _STEPS_ELSEWHERE * elsewhere
    allowed = max(1, left)
    attempt = Cycle(cycle.pod, cycle.now_ms, allowed)
    with ground.suppositions.suppose(node, ground.view, otherwise) as supposed:
        filtered, status = runner.ask(attempt, supposed, ground.view)
        yield Asked(runner, attempt, supposed if filtered.status.is_success else None, status)
    cycle.steps_left = left - (allowed - attempt.steps_left)
