"""One scheduling cycle for a whole gang: all of its pods that are needed get a node and devices, or none does.

    count ── too few pods ──> the pod waits for more
      │
      └─> place the pods one after another ── all placed ──> all are assumed, and bound as any pod
                    │  one does not fit
                    └─> undo all; once more with that pod first; then choose the devices of a node for its pods
                        together; then take back the choices of nodes one by one

Rules of this module
  1. Everything happens within one input: between two inputs a gang holds all it needs, or nothing. So no gang waits for
     devices that another half-placed gang holds.
  2. A gang of which `min_count` pods have a node already is no matter of this module: its other pods are placed alone.
  3. All pods that wait are placed if that is found; else as many as are needed, the most important first.
  4. A claim that one pod of the gang is given in this cycle counts as allocated for those that follow.
  5. "Does not fit" is what this search found, in a bounded number of placements (`_PLACEMENTS_MORE`). It is no proof.
     Nobody else is served meanwhile, so a gang that needs more than `GANG_PODS_MAX` pods is told that it cannot be one.
  6. Nobody is removed for a gang (PostFilter is not asked): half of the room would help nobody.

Not here: which pods there are (`gang_members`), devices for several pods (`joint_devices`), how one pod is placed when
it is alone (`scheduling_cycle`).

Source: none upstream; kubernetes/kubernetes#138765 and docs/adr/0034-groups-of-pods.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

import msgspec
from msgspec import Struct

from allocator import Allocation
from scheduler.core.binding_cycle import BindingCycles
from scheduler.core.dry_run import reserve
from scheduler.core.feasibility import Chosen, Feasibility, NoneFits, Question, Unfinished
from scheduler.core.gang_members import GANG_SCHEDULING
from scheduler.core.ground import Ground
from scheduler.core.joint_devices import choose_jointly
from scheduler.core.pod_conditions import UNSCHEDULABLE, PodConditions, Reason
from scheduler.core.preemptions import Preemptions
from scheduler.core.queued_pod import Place, QueuedPod
from scheduler.core.scheduling_queue import SchedulingQueue
from scheduler.core.supposition import SupposedDevices
from scheduler.framework.api import PermitResult, ReserveResult
from scheduler.framework.cycle import Cycle
from scheduler.framework.fit_error import NO_NODES, fit_error, not_named
from scheduler.framework.runner import Runner
from scheduler.framework.status import SUCCESS, Code, Status
from scheduler.model.claim import ResourceClaim
from scheduler.model.gang import GangKey, gang_key, min_count_of
from scheduler.model.keys import ClaimKey, NodeName, PodGroupKey, PodUid

FAILED: Final = "Failed"
GANG_PODS_MAX: Final = 128
"""Pods that one turn places: about 40 ms where all of them fit."""
GANG_MEMBERS_MAX: Final = 1_000
"""Pods of one gang, those that run too: they are counted whenever one of them is tried."""
_PLACEMENTS_MORE: Final = 128
"""Beside one for each pod."""
_STEPS_OF_PLACEMENT: Final = 25
_TRIED: Final = (Place.ACTIVE, Place.BACKOFF, Place.UNSCHEDULABLE)


class Quorum(Struct, frozen=True):
    """What there is of a gang.

    Args:
        min_count: What its PodGroup says, or the largest that its pods say; where none says one, all pods that exist.
        placed: Pods that have a node, or finished well.
        ready: Those that can be tried, the most important first.
    """

    key: GangKey
    min_count: int
    placed: int
    ready: tuple[QueuedPod, ...]

    @property
    def needed(self) -> int:
        """How many more must be placed."""
        return self.min_count - self.placed

    @property
    def missing(self) -> int:
        """How many more pods must come before the gang can be tried."""
        return self.needed - len(self.ready)


class _Placed(Struct, frozen=True):
    """A pod of the gang with its node, as long as the cycle lasts."""

    queued: QueuedPod
    cycle: Cycle
    node: NodeName
    reserved: ReserveResult
    permit: PermitResult


class _Stopped(Struct, frozen=True):
    """The search has ended without an answer: a plugin failed, or it is not finished."""

    queued: QueuedPod
    failure: Status | None


class _Unfit(Struct, frozen=True):
    """A pod found no node when `placed` others had one."""

    queued: QueuedPod
    message: str
    placed: int


class GangCycles:
    """Tries gangs."""

    def __init__(
        self,
        ground: Ground,
        *,
        queue: SchedulingQueue,
        feasibility: Feasibility,
        bindings: BindingCycles,
        conditions: PodConditions,
        preemptions: Preemptions,
        undo: Callable[[QueuedPod, Runner, Cycle, NodeName], None],
        fail: Callable[[QueuedPod, Status], None],
    ) -> None:
        """`undo` takes back what is stored for a pod that had a node, `fail` ends an attempt that a plugin failed."""
        self._ground: Final = ground
        self._store: Final = ground.store
        self._queue: Final = queue
        self._feasibility: Final = feasibility
        self._bindings: Final = bindings
        self._conditions: Final = conditions
        self._preemptions: Final = preemptions
        self._undo: Final = undo
        self._fail: Final = fail

    def run(self, queued: QueuedPod, calls_max: int, steps_max: int) -> bool:
        """Try the gang of a pod that the queue has given out; False when the pod is to be tried alone.

        Args:
            calls_max, steps_max: As for one pod; each pod of the gang may take that much.
        """
        key = gang_key(queued.pod)
        if key is None:
            return False
        declared = 0
        if key.is_pod_group:
            group = self._store.pod_groups.get(PodGroupKey(key.namespace, key.name))
            if group is None or group.min_count is None:
                return False
            declared = group.min_count
        if (count := self._store.gangs.count(key)) > GANG_MEMBERS_MAX:
            self._wait(queued, f"group {key} has {count} pods; {GANG_MEMBERS_MAX} may be one group")
            return True
        quorum = self._count(key, queued, declared)
        if quorum.needed <= 0:
            return False
        if quorum.needed > GANG_PODS_MAX:
            self._wait(queued, f"group {key} needs {quorum.needed} pods; {GANG_PODS_MAX} are placed together at most")
            return True
        if quorum.missing > 0:
            text = f"waiting for {quorum.missing} more pods of group {key}, {quorum.min_count} are needed"
            self._wait(queued, text)
            return True
        now_ms = self._ground.timers.now_ms
        begun = self._feasibility.steps
        # What was placed is undone when the search is not finished, so the next one needs more than this one had.
        calls_max += len(quorum.ready) + queued.steps
        attempt = _Attempt(self._ground, self._feasibility, calls_max, steps_max + 2 * queued.steps)
        found = attempt.search(quorum)
        steps = self._feasibility.steps - begun
        if isinstance(found, list):
            self._commit(found, quorum, queued, steps)
        elif isinstance(found, _Unfit):
            for one in attempt.undone.values():
                self._undo(one.queued, one.queued.runner, one.cycle, one.node)
            self._reject(quorum, queued, found, steps)
        elif found.failure is None:
            self._queue.postponed(queued, now_ms, steps=steps)
        else:
            if found.queued is not queued:
                self._queue.fly(found.queued, now_ms)
                self._queue.rejected(queued, frozenset(queued.runner.plugins), None, now_ms, steps=steps)
            self._fail(found.queued, found.failure)
        return True

    def _wait(self, queued: QueuedPod, text: str) -> None:
        """It is not tried now."""
        self._queue.rejected(queued, frozenset({GANG_SCHEDULING}), None, self._ground.timers.now_ms)
        self._conditions.report(queued.pod, Reason(UNSCHEDULABLE, self._message(text)))

    def _message(self, text: str) -> str:
        return fit_error(len(self._store.node_infos), pre_filter=text, reasons={})

    def _count(self, key: GangKey, tried: QueuedPod, declared: int) -> Quorum:
        placed = living = 0
        ready: list[QueuedPod] = []
        for uid in self._store.gangs.of(key):
            pod = self._store.pods[uid]
            if pod.status.phase == FAILED:
                continue
            is_placed = pod.node_name is not None or self._store.node_of(uid) is not None
            if pod.is_deleting and not is_placed:
                continue
            if not key.is_pod_group:
                declared = max(declared, min_count_of(pod) or 0)
            living += 1
            placed += is_placed
            queued = self._queue.find(uid)
            if not is_placed and queued is not None and (queued is tried or queued.place in _TRIED):
                ready.append(queued)
        ready.sort(key=lambda one: (-one.priority, one.first_active_ms, one.pod.key))
        return Quorum(key, declared or living, placed, tuple(ready))

    def _commit(self, found: list[_Placed], quorum: Quorum, tried: QueuedPod, steps: int) -> None:
        """All that are needed have a node: bind them. Pods left over are tried alone, later."""
        now_ms = self._ground.timers.now_ms
        taken = {one.queued.uid for one in found}
        for one in found:
            if one.queued is not tried:
                self._queue.fly(one.queued, now_ms)
        if tried.uid not in taken:
            self._queue.failed(
                tried, now_ms, 0, steps=0, is_rejection=True
            )  # it has its turn when the others have gone
        for one in found:
            self._preemptions.placed(one.queued.pod, one.node, one.reserved.held)
            self._queue.assumed(one.queued, now_ms, steps=steps if one.queued is tried else 0)
        for left_over in quorum.ready:
            if left_over.place is Place.UNSCHEDULABLE:
                self._queue.activate(left_over.uid, now_ms)
        for one in found:
            self._bindings.start(one.queued.pod, one.node, one.cycle, one.queued.runner, one.permit)
        self._bindings.reconsider_permits()

    def _reject(self, quorum: Quorum, tried: QueuedPod, unfit: _Unfit, steps: int) -> None:
        """Not enough of them fit: all wait for a change that could help any of them."""
        now_ms = self._ground.timers.now_ms
        count = f"{unfit.placed} of the {quorum.needed} pods of group {quorum.key} that are needed fit together"
        for queued in quorum.ready:
            if queued is not tried:
                self._queue.fly(queued, now_ms)
            self._preemptions.not_placed(queued.uid)
            rejecters = frozenset(queued.runner.plugins)
            self._queue.rejected(queued, rejecters, None, now_ms, steps=steps if queued is tried else 0)
            text = unfit.message if queued is unfit.queued else f"{unfit.message} (pod {unfit.queued.pod.key.name})"
            self._conditions.report(queued.pod, Reason(UNSCHEDULABLE, f"{text} {count}."))


class _Attempt:
    """One search for places, within one input.

    Attributes:
        undone: Pods that had a place and lost it again, each as it was last.
        placements: How often a pod was given a node, or refused.
    """

    def __init__(self, ground: Ground, feasibility: Feasibility, calls_max: int, steps_max: int) -> None:
        self._ground: Final = ground
        self._store: Final = ground.store
        self._view: Final = ground.view
        self._feasibility: Final = feasibility
        self._calls_max: Final = calls_max
        self._steps_max: Final = steps_max
        self._placed: Final[list[_Placed]] = []
        self._shared: Final[dict[ClaimKey, ResourceClaim]] = {}
        self._left = 0
        self.placements = 0
        self.undone: Final[dict[PodUid, _Placed]] = {}

    def search(self, quorum: Quorum) -> list[_Placed] | _Unfit | _Stopped:
        """All that are ready; else as many as are needed."""
        if not self._store.node_infos:
            return _Unfit(quorum.ready[0], NO_NODES, 0)
        order = list(quorum.ready[:GANG_PODS_MAX])
        self._left = _PLACEMENTS_MORE + len(order)
        found = self._place_all(list(order))
        if not isinstance(found, _Unfit) or quorum.needed == len(order):
            return found
        return self._place_some(order, quorum.needed)

    def _place_all(self, order: list[QueuedPod]) -> list[_Placed] | _Unfit | _Stopped:
        """In this order; then with whoever did not fit first; then by taking back choices of nodes."""
        moved: set[PodUid] = set()
        furthest: _Unfit | None = None
        while True:
            found = self._place_in_order(order)
            if not isinstance(found, _Unfit):
                return found
            if furthest is None or found.placed > furthest.placed:
                furthest = found
            if not found.placed:  # it does not fit even alone
                return furthest if furthest.queued is found.queued else found
            if found.queued.uid in moved or self._left < len(order):
                break
            moved.add(found.queued.uid)
            order.remove(found.queued)
            order.insert(0, found.queued)
        if self._left < len(order):
            return furthest
        found = self._place_in_order(order, jointly=True)
        if isinstance(found, _Unfit) and self._left >= len(order):
            found = self._backtrack(order)
        return furthest if isinstance(found, _Unfit) else found

    def _place_in_order(
        self, order: Sequence[QueuedPod], *, jointly: bool = False
    ) -> list[_Placed] | _Unfit | _Stopped:
        """`jointly`: a pod that does not fit may have others on a node choose their devices anew, with it."""
        for queued in order:
            refused = self._place(queued)
            if jointly and isinstance(refused, _Unfit) and self._join(queued):
                continue
            if refused is not None:
                self._undo_to(0)
                return refused
        return list(self._placed)

    def _join(self, queued: QueuedPod) -> bool:
        """Whether the pod fits on a node with those that were placed there, when all of them choose devices together.

        The pods on other nodes stay there. If not, no pod is placed.
        """
        before = list(self._placed)
        for node in dict.fromkeys(one.node for one in before):
            self._undo_to(0)
            elsewhere = frozenset(self._store.node_infos) - {node}
            here = [*(one.queued for one in before if one.node == node), queued]
            stay = [one for one in before if one.node != node]
            if self._left < len(before) + 1 or any(
                self._place(one.queued, frozenset(self._store.node_infos) - {one.node}) is not None for one in stay
            ):
                break
            info = self._store.node_infos[node]
            chosen = choose_jointly(self._ground, info, [one.uid for one in here], self._shared)
            if chosen is not None and all(
                # Whatever a pod takes, it leaves to those after it what was chosen for them.
                self._place(one, elsewhere, tuple(itertools.chain(*chosen[index + 1 :]))) is None
                for index, one in enumerate(here)
            ):
                return True
        self._undo_to(0)
        return False

    def _place_some(self, order: Sequence[QueuedPod], needed: int) -> list[_Placed] | _Unfit | _Stopped:
        """Whoever fits beside those that came before, as long as enough can."""
        last: _Unfit | None = None
        for index, queued in enumerate(order):
            refused = self._place(queued)
            if isinstance(refused, _Unfit):
                last = refused
                if len(self._placed) + len(order) - index - 1 >= needed:
                    continue
            if refused is not None:
                self._undo_to(0)
                return refused
        assert len(self._placed) >= needed, last
        return list(self._placed)

    def _backtrack(self, order: Sequence[QueuedPod]) -> list[_Placed] | _Unfit | _Stopped:
        """Depth first over nodes: a pod that does not fit sends the one before it to another node."""
        tried: list[set[NodeName]] = [set()]
        while len(self._placed) < len(order):
            at = len(self._placed)
            refused = self._place(order[at], tried[at])
            if refused is None:
                tried.append(set())
            elif not at or self._left <= 0 or isinstance(refused, _Stopped):
                self._undo_to(0)
                return refused
            else:
                tried.pop()
                tried[-1].add(self._placed[-1].node)
                self._undo_to(at - 1)
        return list(self._placed)

    def _place(
        self, queued: QueuedPod, without: AbstractSet[NodeName] = frozenset(), leaves: tuple[Allocation, ...] = ()
    ) -> _Unfit | _Stopped | None:
        """Give a pod the best node that is not in `without`, and hold what it takes there; None: done.

        `leaves`: devices that it must not take.
        """
        self._left -= 1
        self.placements += 1
        self._feasibility.steps += _STEPS_OF_PLACEMENT
        cycle = Cycle(queued.pod, self._ground.timers.wall_ms, self._steps_max)
        suppositions = self._ground.suppositions
        with (
            suppositions.claims(self._view, tuple(self._shared.values())),
            suppositions.devices(self._view, SupposedDevices(taken=leaves)),
        ):
            node = self._find(queued, cycle, without)
            if not isinstance(node, str):
                return node
            allowed = cycle.steps_left
            reserved = reserve(self._ground, queued.runner, cycle, self._store.node_infos[node], self._view)
            self._feasibility.steps += allowed - cycle.steps_left
        if not reserved.status.is_success:
            return self._refused(queued, reserved.status)
        self._hold(queued, node, reserved)
        permit = queued.runner.permit(cycle, node, self._view)
        self._placed.append(_Placed(queued, cycle, node, reserved, permit))
        if permit.status is not SUCCESS and permit.status.code not in (Code.SUCCESS, Code.WAIT):
            self._undo_to(len(self._placed) - 1)
            return self._refused(queued, permit.status)
        return None

    def _find(self, queued: QueuedPod, cycle: Cycle, without: AbstractSet[NodeName]) -> NodeName | _Unfit | _Stopped:
        runner = queued.runner
        allowed = cycle.steps_left
        filtered = runner.pre_filter(cycle, self._view)
        self._feasibility.steps += allowed - cycle.steps_left
        cycle.steps_left = max(cycle.steps_left, allowed // 2)
        if filtered.status is not SUCCESS:
            return self._refused(queued, filtered.status)
        plan = runner.plan(cycle, self._view, filtered)
        if isinstance(plan, Status):
            return _Stopped(queued, plan)
        names = filtered.node_names
        if without:
            # What is found out about fewer nodes is not what the shape stands for.
            plan = msgspec.structs.replace(plan, shape=None)
            names = (names if names is not None else frozenset(self._store.node_infos)) - without
            if not names:
                return self._refused(queued, Status.unschedulable("no other node is left"))
        preferred = self._store.nominations.node_of(queued.uid) or NodeName("")
        found = self._feasibility.find(
            Question(
                runner,
                cycle,
                plan,
                names,
                filtered.possible_nodes,
                preferred if preferred not in without else NodeName(""),
                self._calls_max,
            )
        )
        match found:
            case Chosen(node):
                return node
            case NoneFits() as none:
                reasons = dict(none.reasons)
                absent = len(self._store.node_infos) - len(none.verdicts)
                if absent and not without:
                    (text,) = not_named(filtered.narrowing).reasons
                    reasons[text] = reasons.get(text, 0) + absent
                message = fit_error(len(self._store.node_infos), pre_filter="", reasons=reasons)
                return _Unfit(queued, message, len(self._placed))
            case Unfinished():
                return _Stopped(queued, None)
            case Status() as failure:
                return _Stopped(queued, failure)

    def _refused(self, queued: QueuedPod, status: Status) -> _Unfit | _Stopped:
        if status.code is Code.UNFINISHED:
            return _Stopped(queued, None)
        if not status.is_rejection:
            return _Stopped(queued, status)
        text = fit_error(len(self._store.node_infos), pre_filter=status.message, reasons={})
        return _Unfit(queued, text, len(self._placed))

    def _hold(self, queued: QueuedPod, node: NodeName, reserved: ReserveResult) -> None:
        uid = queued.uid
        self._ground.overlay.hold(uid, reserved.held)
        self._store.assume(uid, node, reserved.of_node)
        if reserved.volumes:
            self._ground.volumes.hold(uid, reserved.volumes)
        for one in reserved.held:
            claim = self._store.claim(one.claim)
            if claim is not None and len(self._store.users_of(one.claim)) > 1:
                self._shared[one.claim] = replace(claim, allocation=one.allocation)

    def _undo_to(self, count: int) -> None:
        """Take back all but the first `count` places, last first."""
        while len(self._placed) > count:
            one = self._placed.pop()
            uid = one.queued.uid
            for held in one.reserved.held:
                self._shared.pop(held.claim, None)
            self._ground.overlay.release(uid)
            self._store.forget_assumed(uid)
            self._ground.volumes.release(uid)
            self.undone[uid] = one
