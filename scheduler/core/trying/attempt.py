"""One attempt to place one pod: PreFilter, which node is best, Reserve, and what is set aside there.

Not here: what becomes of the answer, for one pod (`scheduling_cycle`) or several (`group_attempt`).
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

from msgspec import Struct, structs

from scheduler.core.queue.queued_pod import QueuedPod
from scheduler.core.queue.slow_queue import SlowQueue
from scheduler.core.state.ground import Ground, Part
from scheduler.core.trying.dry_run import beside_nominated, reserve
from scheduler.core.trying.feasibility import Chosen, Feasibility, FeasibilityQuery, NoneFits, Unfinished
from scheduler.framework.api import ReserveResult
from scheduler.framework.cycle import Cycle
from scheduler.framework.fit_error import fit_error, not_named
from scheduler.framework.plan import Plan, PreFiltered
from scheduler.framework.runner import Runner
from scheduler.framework.status import SUCCESS, Code, Status
from scheduler.model.group import GANG_SCHEDULING
from scheduler.model.keys import NodeName, PodUid
from scheduler.why.reasons import Reason

NOWHERE: Final[frozenset[NodeName]] = frozenset()
_NO_NODE: Final = NodeName("")
_NONE: Final[Mapping[str, int]] = MappingProxyType({})


class Placed(Struct, frozen=True):
    """The pod has a node, and what Reserve found there is set aside for it (`stakes`)."""

    queued: QueuedPod
    cycle: Cycle
    node: NodeName
    reserved: ReserveResult
    plan: Plan | None = None


class Beside(Protocol):
    """Places of the others of a gang (`group_places`)."""

    @property
    def by_pod(self) -> Mapping[PodUid, Placed]: ...
    def held(self) -> AbstractContextManager[bool]:
        """For a question: meanwhile they have these places; False: not all, as the cluster has changed."""
        ...


class Unfit(Struct, frozen=True):
    """No node fits.

    Args:
        message: In kube-scheduler's words.
        refusal: What PreFilter said against the pod, or Reserve on `node`; None: filters refused all nodes.
        verdicts: Of filters, on the nodes that were looked at.
        reasons: How many nodes gave each reason.
        rejecters: Plugins that refused.
        beside: Of a gang, the others that had a node.
        nowhere: Of a gang, why it may be on no node at all.
    """

    queued: QueuedPod
    message: str
    refusal: Status | None = None
    node: NodeName | None = None
    plan: Plan | None = None
    verdicts: Mapping[NodeName, Status] = MappingProxyType({})
    reasons: Mapping[str, int] = _NONE
    unschedulable_plugins: frozenset[str] = frozenset()
    beside: Beside | None = None
    nowhere: Reason | None = None

    @property
    def placed(self) -> int:
        """How many others of its gang had a node."""
        return len(self.beside.by_pod) if self.beside is not None else 0


class Stopped(Struct, frozen=True):
    """No answer: a plugin failed; without `failure` the steps are used up, and the same attempt goes on from there.

    Args:
        beside: As of `Unfit`, where a plugin failed.
    """

    queued: QueuedPod
    failure: Status | None = None
    node: NodeName | None = None
    reasons: Mapping[str, int] = _NONE
    beside: Beside | None = None


Refused: TypeAlias = Unfit | Stopped


class Attempts(Part):
    """Finds a node for one pod, and sets aside what the pod gets there."""

    def __init__(self, ground: Ground, feasibility: Feasibility) -> None:
        super().__init__(ground)
        self._feasibility: Final = feasibility

    def place(
        self,
        queued: QueuedPod,
        runner: Runner,
        cycle: Cycle,
        calls_max: int,
        *,
        goes_on: bool,
        preferred: NodeName = _NO_NODE,
        without: AbstractSet[NodeName] = NOWHERE,
        only: frozenset[NodeName] | None = None,
        lanes: SlowQueue | None = None,
    ) -> Placed | Refused:
        """Give the pod the best node.

        Args:
            calls_max: Nodes to look at.
            goes_on: An earlier call paused, and this one continues its search.
            preferred: A node to take if it fits at all, where none is nominated.
            without: Nodes that are not considered.
            only: The only nodes that its group may be on, None for all.
            lanes: Where its search waits while another pod of its signature goes first.
        """
        allowed = cycle.steps_left
        filtered = runner.pre_filter(cycle, self._view)
        self._feasibility.steps += allowed - cycle.steps_left
        # What is looked at is remembered like answers, so each part of the attempt gets on with both.
        cycle.steps_left = max(cycle.steps_left, allowed // 2)
        if filtered.status is not SUCCESS:
            return self._refused(queued, filtered.status)
        if only is not None:
            narrowing, names = (*filtered.narrowing, GANG_SCHEDULING), filtered.node_names
            named = only if names is None else names & only
            filtered = structs.replace(filtered, node_names=named, narrowing=narrowing)
        plan = runner.plan(cycle, self._view, filtered)
        if isinstance(plan, Status):
            return Stopped(queued, plan)
        if lanes is not None and lanes.stands_behind(queued, plan.signature):
            return Stopped(queued)
        preferred = self._store.nominations.node_of(queued.uid) or preferred
        names, possible = filtered.node_names, filtered.possible_nodes
        found = self._feasibility.find(
            FeasibilityQuery(
                runner, cycle, plan, names, possible, preferred, calls_max, goes_on=goes_on, without=without
            )
        )
        match found:
            case Chosen(node):
                return self._reserve(queued, runner, cycle, node, plan)
            case NoneFits() as none:
                return self._unfit(queued, filtered, plan, none)
            case Unfinished(reasons):
                return Stopped(queued, reasons=reasons)
            case Status() as failure:
                return Stopped(queued, failure)

    def place_on(self, queued: QueuedPod, cycle: Cycle, node: NodeName) -> Placed | Refused:
        """Give the pod this node. What is not finished begins anew in another attempt."""
        runner, info = queued.runner, self._store.node_infos[node]
        allowed = cycle.steps_left
        _, status = runner.ask(cycle, info, self._view)
        if status is SUCCESS:
            status = beside_nominated(self._ground, runner, cycle, info)
        self._feasibility.steps += allowed - cycle.steps_left
        return self._reserve(queued, runner, cycle, node) if status is SUCCESS else self._refused(queued, status)

    def _unfit(self, queued: QueuedPod, filtered: PreFiltered, plan: Plan, none: NoneFits) -> Unfit:
        reasons, unschedulable_plugins = dict(none.reasons), none.unschedulable_plugins
        absent = len(self._store.node_infos) - len(none.verdicts)
        if absent:
            (text,) = not_named(filtered.narrowing).reasons
            reasons[text] = reasons.get(text, 0) + absent
            unschedulable_plugins |= frozenset(filtered.narrowing)
        message = fit_error(len(self._store.node_infos), reasons=reasons)
        return Unfit(
            queued,
            message,
            plan=plan,
            verdicts=none.verdicts,
            reasons=reasons,
            unschedulable_plugins=unschedulable_plugins,
        )

    def _reserve(
        self, queued: QueuedPod, runner: Runner, cycle: Cycle, node: NodeName, plan: Plan | None = None
    ) -> Placed | Refused:
        allowed = cycle.steps_left
        reserved = reserve(self._ground, runner, cycle, self._store.node_infos[node])
        self._feasibility.steps += allowed - cycle.steps_left
        if not reserved.status.is_success:
            return self._refused(queued, reserved.status, node)
        self._ground.stakes.put(queued.uid, node, reserved)
        return Placed(queued, cycle, node, reserved, plan)

    def _refused(self, queued: QueuedPod, status: Status, node: NodeName | None = None) -> Refused:
        """The refusal, or the failure, that PreFilter or Reserve (on `node`) gave."""
        if not status.is_rejection:
            return Stopped(queued, status if status.code is not Code.UNFINISHED else None, node)
        count = len(self._store.node_infos)
        if node is None:
            message = fit_error(count, pre_filter=status.message)
        else:
            message = fit_error(count, reasons=dict.fromkeys(status.reasons, 1))
        return Unfit(queued, message, status, node, unschedulable_plugins=frozenset({status.plugin}))
