"""Making room: the smallest set of pods that would have to move so that one that waits gets its node and devices.

A plan takes pods off one node: it is cordoned, they are evicted one after the other and placed elsewhere by the
scheduler, and once the node is open again the pod that waits fits. Plans of one move are tried before those of two,
and so on; of equally many moves the one with the fewest devices, then priorities, then the youngest pods comes first.

Rules of this module
  1. Nothing is promised that was not played on a cluster as it is: where a set of moves makes room on the cluster on
     which many were tried, it is played on a new one, and this is the plan.
  2. Three outcomes, never confused: a plan; none exists (of so many moves off one node, each pod placed where the
     scheduler places it); unknown, as the questions or the steps were used up.
  3. All moves that one PodDisruptionBudget covers together are at most what it allows now.
  4. Deterministic: equal objects give equal plans.

Not here: which pods may move, and what a move is (`moving`).

Why it is done like this: docs/adr/0033-making-room.md.

Cost: a question for each set of pods that is looked at, about 1 ms, and `PLAY` for each move that is played.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import orjson
from msgspec.structs import replace

from allocator import Features
from scheduler.config.settings import Config
from scheduler.core.trying.dry_run import DryRuns, without
from scheduler.core.trying.dry_run_memory import DryRunMemories
from scheduler.embedded.controllers.owned import controller_of
from scheduler.embedded.server.object_store import Stored
from scheduler.embedded.server.statuses import ApiError
from scheduler.framework.cycle import UNLIMITED_STEPS, Cycle
from scheduler.framework.plan import Plan
from scheduler.framework.status import UNFINISHED
from scheduler.kube.codec import Codec
from scheduler.kube.outcomes import UndecodableError
from scheduler.model.keys import NodeName, PodUid
from scheduler.model.objects import Pod
from scheduler.offline.altered import NoSuchObjectError
from scheduler.offline.every_node import EveryNode
from scheduler.offline.moving import (
    PLAY,
    Board,
    Move,
    MovePlan,
    Outcome,
    budgets_used,
    why_it_stays,
)
from scheduler.offline.offline_cluster import OfflineCluster, SourceObject, key_of
from scheduler.offline.playing import BEGIN_MS
from scheduler.offline.verdicts import TURN_STEPS, scheduler_name_of

MOVES_MAX: Final = 3
_SETS_MAX: Final = 1_000_000
"""Sets of pods that are compared before the first is looked at."""
_PRIORITY_MAX: Final = 2**31 - 1
_GATE: Final = "dra-scheduler/room-is-being-made"


@dataclass(slots=True, kw_only=True)
class Room(MovePlan):
    """The answer; each step is one pod's move.

    Attributes:
        cordoned: The node that the pods leave; "" without a plan.
        node, devices: What the pod that waits is given.
        stays: Why pods may not move, and how many of them, on nodes where the pod would fit without its pods.
        nodes: How many nodes those are.
        reason: Without a plan: what the scheduler says of the pod.
    """

    pod: tuple[str, str]
    moves_max: int
    cordoned: str = ""
    node: str = ""
    devices: list[dict[str, Any]] = field(default_factory=list)
    stays: Counter[str] = field(default_factory=Counter)
    nodes: int = 0
    reason: str = ""


class _Set(NamedTuple):
    """Pods of one node, in the order in which sets are tried."""

    devices: int
    priorities: int
    ages: tuple[float, ...]
    names: tuple[tuple[str, str], ...]
    node: str
    uids: tuple[str, ...]


_Cost: TypeAlias = tuple[int, int, float]
_Played: TypeAlias = tuple[list[list[Move]], str, list[dict[str, Any]]]
"""The steps, and the node and devices of the pod that waited."""


def make_room(
    objects: Sequence[SourceObject],
    asked: Sequence[SourceObject],
    config: Config | None,
    features: Features,
    *,
    questions_max: int,
    moves_max: int = MOVES_MAX,
    steps_max: int = UNLIMITED_STEPS,
) -> Room:
    """Find the smallest plan after which a pod fits.

    Args:
        asked: One pod, and what only it needs.
        config: Says which plugins answer; None: the default ones.
        steps_max: Steps of costly searches, about 4 us each, for all questions.

    Raises:
        NoSuchObjectError: `asked` has no pod or several, one that cannot be asked about, or the objects no plan can be
            played with.
    """
    try:
        return _Search(partial(_Table, objects, asked, config, features), moves_max, questions_max, steps_max).find()
    except ApiError as error:  # of a dump that no API server wrote
        raise NoSuchObjectError(
            f"no plan can be played, as an API server refuses a part of it: {error.message}"
        ) from error


class _Table(Board):
    """The cluster, the pod that waits behind a gate, and the pods that run."""

    def __init__(
        self,
        objects: Sequence[SourceObject],
        asked: Sequence[SourceObject],
        config: Config | None,
        features: Features,
    ) -> None:
        cluster = OfflineCluster(BEGIN_MS)
        named = {_name(given) for given in asked}
        cluster.load([given for given in objects if _name(given) not in named])  # the pod may wait there already
        known = {pod.uid for pod in cluster.stored_pods()}
        cluster.add([_gated(given) for given in asked])
        new = [pod for pod in cluster.stored_pods() if pod.uid not in known]
        if len(new) != 1:
            raise NoSuchObjectError(_not_one_pod(new, asked, cluster))
        self.pod: Final = new[0]
        super().__init__(cluster, config, features, {self.pod.uid})

    def play(self, node: str, pods: Iterable[tuple[str, str]]) -> _Played | None:
        """Cordon the node, move the pods, open it and place the pod that waits; None where one stays pending."""
        self.cordon(node)
        steps: list[list[Move]] = []
        for pod in self.stored(pods):
            moved = self.move([pod])
            if not isinstance(moved, list):
                return None
            steps.append(moved)
        self.cordon(node, on=False)
        placed = self.place(self.pod)
        return (steps, *placed) if placed is not None else None


def _name(given: SourceObject) -> tuple[str, str, str]:
    return str(given.obj.get("kind")), *key_of(given.obj)


def _gated(given: SourceObject) -> SourceObject:
    """A pod waits behind a gate until room is made; preempting is no way to make it."""
    obj = given.obj
    if obj.get("kind") != "Pod" or not isinstance(obj.get("spec"), dict):
        return given
    if obj["spec"].get("schedulingGates"):
        raise NoSuchObjectError(f"{given.place}: the pod has schedulingGates; take them away to ask about it")
    return SourceObject(given.place, {**obj, "spec": {**obj["spec"], "schedulingGates": [{"name": _GATE}]}})


def _not_one_pod(new: Sequence[Stored], asked: Sequence[SourceObject], cluster: OfflineCluster) -> str:
    places = {given.place for given in asked}
    refused = [str(problem) for problem in cluster.loaded.problems if problem.place in places]
    if refused:
        return "; ".join(refused)
    if not new:
        return "no pod to make room for: name a file with a Pod that is not in the cluster yet"
    return f"room is made for one pod; there are {len(new)}: {', '.join(pod.name for pod in new[:3])}"


def _set_of(node: str, chosen: Iterable[tuple[_Cost, Stored]]) -> _Set:
    ordered = sorted(chosen, key=lambda one: (-one[0][0], one[0]))  # the largest moves first
    return _Set(
        sum(cost[0] for cost, _ in ordered),
        sum(cost[1] for cost, _ in ordered),
        tuple(sorted(cost[2] for cost, _ in ordered)),
        tuple(sorted((pod.namespace, pod.name) for _, pod in ordered)),
        node,
        tuple(pod.uid for _, pod in ordered),
    )


class _Search:
    """One search.

    Args:
        new_table: Gives the cluster as it is.
    """

    def __init__(self, new_table: Callable[[], _Table], moves_max: int, questions_max: int, steps_max: int) -> None:
        self._new_table: Final = new_table
        table = self._table = new_table()
        self._questions_max, self._steps_max = questions_max, steps_max
        self._room: Final = Room(pod=(table.pod.namespace, table.pod.name), moves_max=moves_max)
        self._movable: Final[dict[str, tuple[str, str]]] = {}
        machine = table.machine
        self._nodes: Final = EveryNode(machine, table.cluster.now_ms, steps_max)  # it has the steps of all questions
        self._runner: Final = machine.runners[scheduler_name_of(table.pod.obj)]
        pod = self._decoded()
        self._priority: Final = pod.priority
        # Asked with the highest priority, so that no pod is beyond it: who may move is a question of its own.
        self._pod: Final = replace(pod, spec=replace(pod.spec, priority=_PRIORITY_MAX))
        shared = (one.reserved_for for one in table.store.claims.values() if len(one.reserved_for) > 1)
        self._shared: Final = {user.uid for users in shared for user in users}

    def _decoded(self) -> Pod:
        """The pod as the scheduler reads it."""
        body = orjson.dumps({"apiVersion": "v1", "kind": "Pod", **self._table.pod.obj})
        try:
            return Codec().decode_pod(body)
        except UndecodableError as error:
            raise NoSuchObjectError(f"pod {self._room.pod[1]} cannot be read by the scheduler") from error

    @property
    def _is_over(self) -> bool:
        return self._room.questions >= self._questions_max or self._nodes.steps_left <= 0

    def find(self) -> Room:
        room, table = self._room, self._table
        potential = self._potential_nodes()
        if potential is None:
            placed = table.place(table.pod)
            if placed is not None:
                room.outcome, (room.node, room.devices) = Outcome.FITS, placed
            return self._ended()
        costs = {node: [(self._cost(pod), pod) for pod in pods] for node, pods in potential.items()}
        for size in range(1, room.moves_max + 1):
            chosen = ((node, some) for node, pods in costs.items() for some in itertools.combinations(pods, size))
            compared = [_set_of(*one) for one in itertools.islice(chosen, _SETS_MAX + 1)]
            if len(compared) > _SETS_MAX:
                return self._ended()
            for one in sorted(compared):
                if self._is_over:
                    return self._ended()
                if self._try(one):
                    return self._ended()
        if not self._is_over:
            room.outcome = Outcome.NONE
        return self._ended()

    def _ended(self) -> Room:
        room, table = self._room, self._table
        room.is_out_of_steps = self._nodes.steps_left <= 0
        room.problems = table.problems
        if room.outcome in (Outcome.NONE, Outcome.UNKNOWN):
            table.run.turns_left = self._steps_max // TURN_STEPS
            table.place(table.pod)
            room.reason = table.run.verdict(table.pod.obj).reason
        return room

    # -- nodes -------------------------------------------------------------------------------------

    def _potential_nodes(self) -> dict[str, list[Stored]] | None:
        """The nodes on which the pod would fit without their movable pods, and these; None where it fits already."""
        machine, pod, nodes = self._table.machine, self._pod, self._nodes
        cycle, filtered = nodes.begin(self._runner, pod)
        if not filtered.status.is_success:
            return {}
        plan = self._runner.plan(cycle, nodes.view, filtered)
        if not isinstance(plan, Plan):
            return {}
        verdicts = nodes.verdicts(self._runner, cycle, filtered, plan)
        if any(status.is_success for status in verdicts.values()):
            return None
        memory = DryRunMemories(machine.ground.store).of(self._runner, pod, None)
        dry_run = DryRuns(machine.ground, self._runner, cycle, verdicts=verdicts, memory=memory)
        helped = [name for name in dry_run.candidates() if dry_run.may_help(name, verdicts[name])]
        return {name: pods for name in helped if (pods := self._movable_on(name))}

    def _movable_on(self, name: NodeName) -> list[Stored]:
        """The node's movable pods, where the pod fits without them."""
        machine, cluster, room = self._table.machine, self._table.cluster, self._room
        on_node = machine.ground.store.node_infos[name].pods
        if self._is_over or not on_node or not self._would_fit(name, tuple(on_node)):
            return []
        room.nodes += 1
        pods: list[Stored] = []
        for uid, pod in on_node.items():
            (stored,) = self._table.stored([(pod.metadata.namespace, pod.metadata.name)])
            if why := why_it_stays(cluster, stored) or self._why_not_for_this(stored, pod.priority):
                room.stays[why] += 1
            else:
                pods.append(stored)
                self._movable[uid] = stored.namespace, stored.name
        if len(pods) < len(on_node) and not self._would_fit(name, tuple(PodUid(pod.uid) for pod in pods)):
            return []
        return pods

    def _why_not_for_this(self, pod: Stored, priority: int) -> str:
        """Why the node has no room without a pod, or the one that waits is not worth its move."""
        owner, spec = controller_of(pod.obj) or {}, pod.obj["spec"]
        if owner.get("kind") == "DaemonSet":
            return "is a DaemonSet's, and stays on its node"
        if priority > self._priority:
            return "has a higher priority"
        if spec.get("schedulingGroup") or spec.get("workloadRef"):
            return "belongs to a group of pods"
        return "shares a claim with other pods" if pod.uid in self._shared else ""

    def _would_fit(self, node: str, removed: Iterable[str]) -> bool:
        """Whether all filters pass the node as if these pods were gone."""
        self._room.questions += 1
        machine = self._table.machine
        info = machine.ground.store.node_infos[NodeName(node)]
        cycle = Cycle(self._pod, self._table.cluster.now_ms, self._nodes.steps_left)
        trial = without(machine.ground, self._runner, cycle, info, frozenset(map(PodUid, removed)))
        # Where it is not finished, nothing is proven any more.
        self._nodes.steps_left = cycle.steps_left if trial.status is not UNFINISHED else 0
        return trial.status.is_success

    # -- sets of pods ------------------------------------------------------------------------------

    def _cost(self, pod: Stored) -> _Cost:
        """Devices, priority, and how long ago it was made, the oldest last."""
        created = str(pod.obj["metadata"].get("creationTimestamp") or "1970-01-01T00:00:00Z")
        priority = self._table.machine.ground.store.pods[PodUid(pod.uid)].priority
        return len(self._table.devices(pod)), priority, -datetime.fromisoformat(created).timestamp()

    def _try(self, one: _Set) -> bool:
        """Whether moving these pods makes room; then the room has the plan."""
        budgets = budgets_used(self._table.machine.ground.store, one.uids)
        if any(used > allowed for used, allowed in budgets.values()):
            return False
        if not self._would_fit(one.node, one.uids):
            return False
        table, room = self._table, self._room
        for uids in itertools.permutations(one.uids):
            if self._is_over:
                return False
            room.questions += PLAY * len(uids)
            table.run.turns_left = self._nodes.steps_left // TURN_STEPS
            pods = [self._movable[uid] for uid in uids]
            saved = table.snapshot(table.stored([*pods, room.pod]))
            # On a new cluster no earlier move has left a trace: no name, no time, no memory of the scheduler's.
            played = table.play(one.node, pods) and self._new_table().play(one.node, pods)
            self._nodes.steps_left = TURN_STEPS * table.run.turns_left
            if played is not None:
                room.outcome, room.cordoned, room.budgets = Outcome.PLAN, one.node, budgets
                room.steps, room.node, room.devices = played
                return True
            table.cordon(one.node, on=False)
            table.restore(saved)
        return False
