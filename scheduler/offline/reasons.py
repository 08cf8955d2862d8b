"""Why a pod does not fit, node by node.

A node's reason is the verdict of the first plugin that refuses it. Where devices are missing, it also says how many of
them each rule took away.

Not here: the verdict (`verdicts`), the counting (`allocator.answers.funnel`).

Cost: the plugins are asked once for each node and shape of pods. The counting looks at every device, so it is made for
the first `FUNNELS_OF_A_POD` nodes of a pod, and for `FUNNELS_MAX` in all. Whoever lets others ask bounds both by steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from typing import Final, Protocol

from msgspec import Struct, structs

from allocator import AllocationError, AllocationRequest, Explanation, Funnel, PausedError, Stage, explain
from scheduler.core.machine import Machine
from scheduler.framework.cycle import UNLIMITED_STEPS, Cycle
from scheduler.framework.plan import Plan, PodSignature, PreFiltered
from scheduler.framework.runner import Runner
from scheduler.framework.status import Code, Status
from scheduler.framework.two_stacks import beside_plugins, stacks_on
from scheduler.model.keys import NodeName, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.offline.every_node import NOT_LOOKED_AT, EveryNode
from scheduler.offline.verdicts import Answers
from scheduler.plugins.dynamic_resources import NAME as DYNAMIC_RESOURCES
from scheduler.plugins.dynamic_resources.binding_wait import awaited
from scheduler.plugins.dynamic_resources.node_search import NodeSearch
from scheduler.why.reasons import Diagnosis

FUNNELS_OF_A_POD: Final = 20
FUNNELS_MAX: Final = 1_000
NODES_MAX: Final = 100
"""Names beside each reason; all nodes are counted."""
_CLOSED: Final = "on nodes that refuse the pod for another reason"


class NodeGroup(Struct, frozen=True):
    """Nodes that refuse the pod alike; `devices`, where counted: of each request how many each rule took away."""

    plugin: str
    reason: str
    devices: tuple[str, ...]
    count: int
    nodes: tuple[str, ...]

    def cut(self) -> NodeGroup:
        """For programs; with the first nodes."""
        return structs.replace(self, nodes=self.nodes[:NODES_MAX])


class FunnelStep(Struct, frozen=True):
    """One rule: how many devices it takes away, and how many it leaves.

    Attributes:
        ends: On the node that comes nearest, this is where too few are left.
    """

    stage: str
    text: str
    removed: int
    left: int
    ends: bool


class RequestFunnel(Struct, frozen=True):
    """What the rules leave of the devices for one request (or alternative), summed over the nodes that were counted.

    Attributes:
        node: The one that comes nearest, of those that nothing but devices keeps from taking the pod, where there are.
        node_published: Devices that it sees.
        node_left: Of these what the rules leave.
    """

    claim: str
    request: str
    wanted: int
    published: int
    nodes: int
    steps: tuple[FunnelStep, ...]
    node: str
    node_published: int
    node_left: int


_Refusals = tuple[Cycle | None, list[tuple[NodeName, Status]], list[NodeGroup]]
"""The cycle in which they were found, each node with its refusal, and the same with equal refusals together."""


class _HasUid(Protocol):
    """A pod, a verdict on one, or what became of one."""

    @property
    def uid(self) -> str: ...


class Reasons:
    """The reasons of the pods that were asked about together.

    Args:
        budget_steps: For each node's search, as the scheduler has it.
        steps_max: For all nodes of all pods; what is not looked at then says so.
    """

    def __init__(self, answers: Answers, *, budget_steps: int, steps_max: int = UNLIMITED_STEPS) -> None:
        self._budget_steps: Final = budget_steps
        machine = self._machine = answers.machine
        self._nodes: Final = EveryNode(machine, answers.cluster.now_ms, steps_max)
        self._known: Final[dict[PodSignature, tuple[list[tuple[NodeName, Status]], list[NodeGroup]]]] = {}
        self._funnels_left = FUNNELS_MAX

    def of(self, asked: _HasUid) -> list[NodeGroup]:
        """Why nodes refuse a pod, in the order of their names; none where it is refused before nodes are asked."""
        with self._as_decided(asked) as (pod, is_beside):
            cycle, statuses, together = self._refusals(pod, is_beside=is_beside)
            left = min(FUNNELS_OF_A_POD, self._funnels_left)
            counted = [name for name, status in statuses if status.plugin == DYNAMIC_RESOURCES][:left]
            if not counted or cycle is None:
                return together
            self._funnels_left -= len(counted)
            infos = self._machine.store.node_infos
            devices = {name: tuple(self._funnels(cycle, infos[name])) for name in counted}
            return nodes_alike((name, status, devices.get(name, ())) for name, status in statuses)

    def funnels(self, asked: _HasUid) -> tuple[RequestFunnel, ...]:
        """Of each request what the rules leave on the first `FUNNELS_MAX` nodes; none for a pod without claims."""
        with self._as_decided(asked) as (pod, is_beside):
            cycle, statuses, _ = self._refusals(pod, is_beside=is_beside)
            if cycle is None:
                return ()
            closed = {name for name, status in statuses if status.plugin not in ("", DYNAMIC_RESOURCES)}
            infos = list(self._machine.store.node_infos.values())[:FUNNELS_MAX]
            explained = [(one.name, self._explained(cycle, one)) for one in infos]
            found = [(name, one.requests) for name, one in explained if isinstance(one, Explanation)]
            names = [name for name, _ in found]
            return tuple([_sum(names, rows, closed) for rows in zip(*(one for _, one in found), strict=True)])

    @contextmanager
    def _as_decided(self, asked: _HasUid) -> Iterator[tuple[Pod | None, bool]]:
        """The pod that nodes are asked about: of a group the one without a place, beside the others on their nodes."""
        uid, machine = PodUid(asked.uid), self._machine
        if (found := machine.causes.unplaced(uid)) is None:
            yield machine.store.pods.get(uid), False
            return
        with found[1].held() as are_there:
            yield found[0], are_there

    def _refusals(self, pod: Pod | None, *, is_beside: bool) -> _Refusals:
        """The nodes that refuse the pod. No cycle where the pod is not there, or no scheduler answers for it."""
        machine, view = self._machine, self._nodes.view
        runner = machine.runners.get(pod.spec.scheduler_name) if pod is not None else None
        if pod is None or runner is None:
            return None, [], []
        cycle, filtered = self._nodes.begin(runner, pod)
        if filtered.status is NOT_LOOKED_AT:
            return cycle, [], nodes_alike((name, NOT_LOOKED_AT, ()) for name in machine.store.node_order)
        plan = runner.plan(cycle, view, filtered) if filtered.status.is_success else filtered.status
        if isinstance(plan, Status):
            return cycle, [], []
        signature = None if is_beside else plan.signature
        known = self._known.get(signature) if signature is not None else None
        if known is None:
            statuses = list(self._ask(runner, cycle, filtered, plan))
            known = statuses, nodes_alike((name, status, ()) for name, status in statuses)
            if signature is not None:
                self._known[signature] = known
        is_of_nodes = len(known[0]) == len(machine.store.node_order) or not runner.pre_enqueue(pod, view).is_rejection
        return (cycle, *known) if is_of_nodes else (cycle, [], [])  # a gate keeps it out of nodes that would take it

    def _ask(
        self, runner: Runner, cycle: Cycle, filtered: PreFiltered, plan: Plan
    ) -> Iterator[tuple[NodeName, Status]]:
        """Each node that refuses, with the first refusal."""
        narrowing = " ".join(filtered.narrowing)
        for name, status in self._nodes.verdicts(runner, cycle, filtered, plan).items():
            if status.code is not Code.SUCCESS:
                yield name, status.by(narrowing)

    def _explained(self, cycle: Cycle, node: NodeInfo) -> Explanation | str | None:
        """What the rules leave of the node's devices, or why that cannot be said; None for a pod that wants none."""
        view, search = self._nodes.view, cycle.find(NodeSearch)
        if search is None:
            return None
        wanted = search.wanted_on(node)
        if isinstance(wanted, Status):
            wanted = search.claims.wanted
        if not wanted:
            return None
        if not self._nodes.steps_left:
            return NOT_LOOKED_AT.message
        meter = view.inventory.meter
        before = meter.allow(self._nodes.steps_left)
        try:
            in_use = beside_plugins(view, stacks_on(node, view, cycle.pod)).in_use
            return explain(
                AllocationRequest(wanted, node.host, view.inventory, in_use, view.features, self._budget_steps)
            )
        except AllocationError as error:
            return str(error)
        except PausedError:
            return NOT_LOOKED_AT.message
        finally:
            self._nodes.steps_left = max(0, self._nodes.steps_left - meter.allow_all(before))

    def _funnels(self, cycle: Cycle, node: NodeInfo) -> Iterator[str]:
        """How many devices each rule took away, of each request that lacks some on the node; of all where none does."""
        explanation = self._explained(cycle, node)
        if explanation is None:
            return
        if isinstance(explanation, str):
            yield explanation
            return
        if explanation.failure:
            yield explanation.failure
            return
        short = [request for request in explanation.requests if request.lacks]
        yield from map(str, short or explanation.requests)
        if explanation.pools_left_out:
            yield f"left out: {', '.join(explanation.pools_left_out)}"


def awaited_by(uid: PodUid, machine: Machine) -> Diagnosis | None:
    """For what a pod waits that has its node and devices."""
    store = machine.store
    return awaited(claim for key in store.claims_of(uid) if (claim := store.claim(key)) is not None)


def nodes_alike(refusals: Iterable[tuple[NodeName, Status, tuple[str, ...]]]) -> list[NodeGroup]:
    """Nodes of equal reasons together."""
    nodes: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for name, status, devices in refusals:
        nodes.setdefault((status.plugin, status.message, devices), []).append(name)
    return [NodeGroup(*key, len(names), tuple(names)) for key, names in nodes.items()]


def _sum(names: Sequence[NodeName], rows: Sequence[Funnel], closed: Set[NodeName]) -> RequestFunnel:
    """The same request on several nodes. What the selectors leave on nodes that are `closed` to the pod is a step."""
    nearest = min(range(len(rows)), key=lambda at: (names[at] in closed, rows[at].lacks))
    near, counted = rows[nearest], rows
    end = near.end if names[nearest] not in closed else None
    published = left = sum(one.published for one in rows)
    steps = []
    for stage in Stage:
        if stage is Stage.NODE:
            counted = [one for name, one in zip(names, rows, strict=True) if name not in closed]
            lost = left - sum(one.before(stage).bit_count() for one in counted)
            left -= lost
            if lost:
                steps.append(FunnelStep("closed-node", _CLOSED, lost, left, not counted))
        removed = sum(one.step(stage).removed.bit_count() for one in counted)
        left -= removed
        ends = end is not None and end.stage is stage
        if removed or ends:
            steps.append(FunnelStep(stage.name.lower().replace("_", "-"), str(stage), removed, left, ends))
    return RequestFunnel(
        *(near.claim, near.request, near.wanted, published, len(rows), tuple(steps)),
        *(names[nearest], near.published, near.left),
    )
