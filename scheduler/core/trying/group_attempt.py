"""One search for places for a whole gang. It pauses when its turn is over, and goes on in a later input.

    in order ── one pod does not fit ──> that pod first ──> the pods of a node together ──> nodes taken back one by one
      └──> none of it: in order, and others would have to go for a pod that does not fit (PostFilter)

Rules of this module
  1. Between two inputs nothing is held (`group_places`). A pod that lost its place in a pause is placed anew, on the
     same node if that still fits.
  2. "Does not fit" is what this search found, in a bounded number of placements (`_PLACEMENTS_MORE`). It is no proof.
  3. A turn takes the steps that it is given and one piece of work more. Searches among the devices that the gang's own
     pods have been given begin anew in each turn; all others go on.
  4. A claim that one pod of the gang is given counts as allocated for those that follow.
  5. Room is looked for when nothing else was found, for as many pods as are needed, or for none. Each pod is asked
     about beside the room that others would leave for those before it, and prefers nodes where nobody more would go.
     With a label that all must share it is the first value, in order of text, where that is found.

Not here: what is held, and pauses (`group_places`); which pods are needed, and what becomes of the answer
(`group_cycles`); devices for several pods (`joint_devices`).

Cost: a turn begins with O(pods that have a place).
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

from msgspec import Struct, structs

from allocator import Allocation
from scheduler.core.queue.queued_pod import QueuedPod
from scheduler.core.state.ground import Ground
from scheduler.core.state.supposition import SupposedDevices
from scheduler.core.trying.attempt import NOWHERE, Attempts, Placed, Refused, Stopped, Unfit
from scheduler.core.trying.feasibility import Feasibility
from scheduler.core.trying.group_places import GroupPlaces, Room
from scheduler.core.trying.group_topology import LabelValues, NodesByValue, why_nowhere
from scheduler.core.trying.joint_devices import choose_jointly
from scheduler.core.trying.post_filters import PostFilters
from scheduler.framework.api import ReserveResult
from scheduler.framework.cycle import Cycle
from scheduler.framework.fit_error import NO_NODES, fit_error
from scheduler.framework.plan import PodSignature
from scheduler.framework.preemption import Preemption
from scheduler.framework.status import SUCCESS, Code
from scheduler.model.group import GANG_SCHEDULING, key_of_group
from scheduler.model.keys import NodeName, PodUid
from scheduler.why.reasons import Reason
from scheduler.why.say import EVERYBODY

_PLACEMENTS_MORE: Final = 128
"""Beside one for each pod."""
_STEPS_OF_PLACEMENT: Final = 40
_STEPS_TO_TAKE_AGAIN: Final = 20
_LABELS_OF_STEP: Final = 5
"""Nodes whose label is read, or pods."""
_SHARES_MAX: Final = 16
_SPEAKERS_MAX: Final = 4


class MakeRoom(Struct, frozen=True):
    """Others would have to go.

    Args:
        unfit: Why there is no place without that.
        rooms: What each of the pods that are needed would have; those that others need not leave for have no victims.
    """

    unfit: Unfit
    rooms: tuple[tuple[QueuedPod, Preemption], ...]


Found: TypeAlias = list[Placed] | Refused | MakeRoom
_Search: TypeAlias = Generator[None, None, list[Placed] | Refused]


class GroupAttempt:
    """The search of one gang.

    Attributes:
        order: The pods to place, all in the queue.
        needed: How many of them must have a place.
        steps, rests: What it has taken so far, and how often it has rested.
        rests_until_ms: It is not to go on before.
        begun_ms: When it began.
        is_reported: Whether its pods' conditions say that it takes long.
        places: Where its pods are.
        trying: The pod that is being placed.
    """

    def __init__(
        self,
        ground: Ground,
        feasibility: Feasibility,
        attempts: Attempts,
        pods: Sequence[QueuedPod],
        needed: int,
        *,
        label_values: LabelValues,
        post_filters: PostFilters | None = None,
        topology_key: str | None = None,
        before: GroupAttempt | None = None,
    ) -> None:
        """Begin.

        Args:
            label_values: Of all nodes.
            post_filters: To be asked where there is no place; None: nobody goes for it.
            topology_key: All of its pods must be on nodes with one value of this label.
            before: A search of the gang that does not go on, as its pods are others now; what it took stays taken.
        """
        self._ground: Final = ground
        self._store: Final = ground.store
        self._view: Final = ground.view
        self._feasibility: Final = feasibility
        self._attempts: Final = attempts
        self._label_values: Final = label_values
        self._post_filters: Final = post_filters
        self.order: Final = tuple(pods)
        self.needed: Final = needed
        self.steps: int = before.steps if before is not None else 0
        self.rests: int = before.rests if before is not None else 0
        self.rests_until_ms: int = before.rests_until_ms if before is not None else 0
        self.begun_ms: Final[int] = before.begun_ms if before is not None else ground.timers.now_ms
        self.is_reported: bool = before is not None and before.is_reported
        self.places: Final = GroupPlaces(ground)
        self.trying = pods[0]
        self._signatures: Final[dict[PodUid, PodSignature | None]] = {}
        self._before: Final[dict[PodUid, NodeName]] = {}  # where pods were that lost their place in a pause
        self._left = _PLACEMENTS_MORE + len(pods)
        self._steps_max = self._steps_end = self._calls_end = 0
        self._topology_key: Final = topology_key
        self._only: frozenset[NodeName] | None = None  # the nodes of the value that is being tried
        self._value = ""
        self._cycle: Cycle | None = None  # the last in which a node was looked for
        self._search: Final = self._run()

    @property
    def shares(self) -> int:
        """It may take as much as so many pods before it rests."""
        return min(len(self.order), _SHARES_MAX)

    def representatives(self, unfit: QueuedPod) -> frozenset[PodUid]:
        """Pods for which a change may help the group: the one that did not fit, and the first of other signatures."""
        found = {self._signatures.get(unfit.uid): unfit.uid}
        for uid, signature in self._signatures.items():
            if len(found) < _SPEAKERS_MAX:
                found.setdefault(signature, uid)
        return frozenset(found.values())

    def is_about(self, needed: int, ready: Iterable[QueuedPod]) -> bool:
        """Whether this is the search for so many pods, and each of its pods can be tried."""
        here = {one.uid: one for one in ready}
        return needed == self.needed and all(here.get(one.uid) is one for one in self.order)

    def go_on(self, calls_max: int, steps_max: int) -> Found | None:
        """Search for one turn; None: it is over, and nothing is held. A list: what is held for each pod.

        Args:
            calls_max: Nodes to look at.
            steps_max: Steps to take.
        """
        for one in self.places.take_again():
            self._before[one.queued.uid] = one.node
            self._left += 1
        self._feasibility.steps += _STEPS_TO_TAKE_AGAIN * len(self.places.by_pod)
        self._steps_max, self._steps_end = steps_max, self._feasibility.steps + steps_max
        self._calls_end = self._feasibility.filter_calls + calls_max
        if self._only is not None:  # labels, and where others of the group are, may have changed
            values = self._values()
            self._only = values.get(self._value, NOWHERE) if not isinstance(values, Reason) else NOWHERE
        try:
            next(self._search)
        except StopIteration as ended:
            found: Found = ended.value
            if not isinstance(found, list):
                self.places.end()
            return found
        self.places.pause()
        return None

    # The search

    def _run(self) -> Generator[None, None, Found]:
        """All pods; else as many as are needed; else room for as many."""
        found = yield from self._find_places()
        if isinstance(found, Unfit) and self._post_filters is not None and self._store.node_infos:
            room = yield from self._find_room(found, self._post_filters)
            if isinstance(room, MakeRoom) and not any(one.victims for _, one in room.rooms):
                return (yield from self._find_places())  # there are places by now
            return room
        return found

    def _find_places(self) -> _Search:
        if not self._store.node_infos:
            return Unfit(self.order[0], NO_NODES)
        while True:
            found = yield from (self._place_group() if self._topology_key is None else self._place_in_one_value())
            if isinstance(found, list) and self.places.has_population_changed:
                self._feasibility.steps += _STEPS_OF_PLACEMENT * len(found)
            one = self.places.contradicted() if isinstance(found, list) else None
            if one is None:
                return found
            self.places.undo((one,) if self._topology_key is None else self.places.by_pod.values())

    def _place_group(self) -> _Search:
        found = yield from self._place_all(list(self.order))
        if isinstance(found, Unfit) and self.needed < len(self.order):
            found = yield from self._place_some()
        return found

    def _place_in_one_value(self) -> _Search:
        """All of them in the first value of the label that they fit into; else as many as are needed."""
        key = self._topology_key or ""
        values = self._values()
        if isinstance(values, Reason):
            message = fit_error(len(self._store.node_infos), pre_filter=values.text(EVERYBODY))
            return Unfit(self.order[0], message, unschedulable_plugins=frozenset({GANG_SCHEDULING}), nowhere=values)
        why: dict[str, Unfit] = {}
        for are_all in (True, False)[: 1 + (self.needed < len(self.order))]:
            for value in values:
                self._value, self._only = value, values[value]
                self._left += len(self.order)
                found = yield from (self._place_all(list(self.order)) if are_all else self._place_some())
                if not isinstance(found, Unfit):
                    return found
                why[value] = found
        furthest = max(why.values(), key=lambda one: one.placed)
        message = f"{furthest.message} {why_nowhere(key, list(why.items()), self.needed)}"
        return structs.replace(furthest, message=message)

    def _values(self) -> NodesByValue | Reason:
        first = key_of_group(self.order[0].pod)
        assert first is not None
        assert self._topology_key is not None
        begun = self._label_values.looked_at
        values = self._label_values.of_group(first, self._topology_key, {one.uid for one in self.order})
        self._feasibility.steps += (self._label_values.looked_at - begun) // _LABELS_OF_STEP
        return values

    def _find_room(self, unfit: Unfit, asked: PostFilters) -> Generator[None, None, Found]:
        """As many as are needed; a pod without a place has others go."""
        values = {self._value: self._only} if self._topology_key is None else self._values()
        said = ""
        for value, only in values.items() if not isinstance(values, Reason) else ():
            self._value, self._only = value, only
            order, moved = list(self.order[: self.needed]), set[PodUid]()
            while True:
                queued, refused, said = yield from self._make_room_in_order(order, asked)
                if refused is None:
                    rooms = self._rooms()
                    self.places.undo_all()
                    return MakeRoom(unfit, rooms)
                is_first = queued is order[0]
                self.places.undo_all()
                if isinstance(refused, Stopped):
                    return refused
                if is_first or queued.uid in moved or self._left < 0:
                    break
                moved.add(queued.uid)  # then with whoever found none first
                order.remove(queued)
                order.insert(0, queued)
        return structs.replace(unfit, message=f"{unfit.message} {said}") if said else unfit

    def _make_room_in_order(
        self, order: Sequence[QueuedPod], asked: PostFilters
    ) -> Generator[None, None, tuple[QueuedPod, Refused | None, str]]:
        """The pod that has neither a place nor room, with why; None: all of them have."""
        while (queued := self._first_without_place(order)) is not None:
            refused, said = yield from self._place_or_make_room(queued, asked)
            if refused is not None:
                return queued, refused, said
        return order[0], None, ""

    def _place_or_make_room(
        self, queued: QueuedPod, asked: PostFilters
    ) -> Generator[None, None, tuple[Refused | None, str]]:
        """Why there is neither, None where there is one; and what PostFilter has said."""
        while True:
            refused = yield from self._place(queued)
            if not isinstance(refused, Unfit) or refused.node is not None:
                return refused, ""
            cycle, beside = self._cycle, [one.preemption for one in self.places.rooms.values()]
            assert cycle is not None
            cycle.steps_left = max(1, self._steps_end - self._feasibility.steps)  # each turn gets on
            with self._ground.suppositions.claims(self._view, tuple(self.places.shared.values())):
                helped = asked.ask(refused, queued.runner, cycle, only=self._only, beside=beside)
            status, room = helped.status, helped.preemption
            if room is not None:
                given = ReserveResult(SUCCESS, room.given)
                self.places.make_room(Room(Placed(queued, cycle, room.node, given), room))
                return None, ""
            if status.code is Code.ERROR:
                return Stopped(queued, status), ""
            if status.code is not Code.UNFINISHED:
                return refused, status.message
            self._left += 1  # the same pod in another turn
            yield

    def _rooms(self) -> tuple[tuple[QueuedPod, Preemption], ...]:
        placed = [
            (one.queued, Preemption(one.node, (), given=one.reserved.held)) for one in self.places.by_pod.values()
        ]
        return (*placed, *((one.place.queued, one.preemption) for one in self.places.rooms.values()))

    def _place_all(self, order: list[QueuedPod]) -> _Search:
        """In this order; then with whoever did not fit first; then by taking back choices of nodes."""
        moved: set[PodUid] = set()
        furthest: Unfit | None = None
        while True:
            found = yield from self._place_in_order(order)
            if not isinstance(found, Unfit) or not order[0].runner.profile.places_jointly:
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
        found = yield from self._place_in_order(order, jointly=True)
        if isinstance(found, Unfit) and self._left >= len(order):
            found = yield from self._backtrack(order)
        return furthest if isinstance(found, Unfit) else found

    def _place_in_order(self, order: Sequence[QueuedPod], *, jointly: bool = False) -> _Search:
        """`jointly`: a pod that does not fit may have others on a node choose their devices anew, with it."""
        while (queued := self._first_without_place(order)) is not None:
            refused = yield from self._place(queued)
            if jointly and isinstance(refused, Unfit) and (yield from self._join(queued)):
                continue
            if refused is not None:
                self.places.undo(self.places.by_pod.values())
                return refused
        return list(self.places.by_pod.values())

    def _first_without_place(self, order: Iterable[QueuedPod]) -> QueuedPod | None:
        places = self.places
        return next((one for one in order if one.uid not in places.by_pod and one.uid not in places.rooms), None)

    def _place_some(self) -> _Search:
        """Whoever fits beside those that came before, as long as enough can."""
        passed: dict[PodUid, None] = {}
        while (queued := self._first_without_place(one for one in self.order if one.uid not in passed)) is not None:
            refused = yield from self._place(queued)
            if isinstance(refused, Unfit):
                passed[queued.uid] = None
                if len(self.order) - len(passed) >= self.needed:
                    continue
            if refused is not None:
                self.places.undo(self.places.by_pod.values())
                return refused
        return list(self.places.by_pod.values())

    def _backtrack(self, order: Sequence[QueuedPod]) -> _Search:
        """Depth first over nodes: a pod that does not fit sends the one before it to another node."""
        tried: dict[PodUid, set[NodeName]] = {}
        while (queued := self._first_without_place(order)) is not None:
            refused = yield from self._place(queued, tried.get(queued.uid, NOWHERE))
            if refused is None:
                continue
            at = order.index(queued)
            if not at or self._left <= 0 or isinstance(refused, Stopped):
                self.places.undo(self.places.by_pod.values())
                return refused
            tried.pop(queued.uid, None)
            before = self.places.by_pod.get(order[at - 1].uid)
            if before is not None:
                tried.setdefault(before.queued.uid, set()).add(before.node)
                self.places.undo(
                    [self.places.by_pod[one.uid] for one in order[at - 1 :] if one.uid in self.places.by_pod]
                )
        return list(self.places.by_pod.values())

    def _join(self, queued: QueuedPod) -> Generator[None, None, bool]:
        """Whether the pod fits on a node with those that have a place there, when all of them choose devices together.

        What that takes must fit into one turn for each node. If not, everything is as it was.
        """
        for node in dict.fromkeys(one.node for one in self.places.by_pod.values()):
            if self._left <= 0:
                break
            if self._is_turn_over(most=self._steps_max // 2):
                yield
            here = self.places.on(node) if self._only is None or node in self._only else []
            if here and self._join_on(node, here, queued):
                return True
        return False

    def _join_on(self, node: NodeName, here: Sequence[Placed], queued: QueuedPod) -> bool:
        if self.places.has_shared(here):
            return False  # others may use it
        self.places.undo(here)
        pods = [*(one.queued for one in here), queued]
        steps = self._steps_end - self._feasibility.steps
        info = self._store.node_infos[node]
        chosen, taken = choose_jointly(self._ground, info, [one.uid for one in pods], self.places.shared, steps)
        self._feasibility.steps += taken
        if chosen is not None and all(
            # Whatever a pod takes, it leaves to those after it what was chosen for them.
            self._place_on(one, node, tuple(itertools.chain(*chosen[index + 1 :]))) is None
            for index, one in enumerate(pods)
        ):
            return True
        self.places.undo(self.places.on(node))
        for one in here:
            self.places.put(one)
        return False

    # One pod

    def _is_turn_over(self, most: int = 0) -> bool:
        """Whether no more than `most` steps are left of it."""
        return self._feasibility.steps >= self._steps_end - most or self._feasibility.filter_calls >= self._calls_end

    def _place(
        self, queued: QueuedPod, without: AbstractSet[NodeName] = NOWHERE
    ) -> Generator[None, None, Refused | None]:
        """Give a pod the best node that is not in `without`, and hold what it takes there; None: done."""
        self._left -= 1
        self.trying = queued
        goes_on = False
        while True:
            if self._is_turn_over():
                yield
            refused = self._try(queued, without, goes_on=goes_on)
            if not isinstance(refused, Stopped) or refused.failure is not None:
                return refused
            goes_on = True
            yield

    def _try(self, queued: QueuedPod, without: AbstractSet[NodeName], *, goes_on: bool) -> Refused | None:
        cycle, preferred = self._begin(queued), self._before.pop(queued.uid, NodeName(""))
        self._cycle = cycle
        calls = max(1, self._calls_end - self._feasibility.filter_calls)
        with self._ground.suppositions.claims(self._view, tuple(self.places.shared.values())):
            tried = self._attempts.place(
                queued,
                queued.runner,
                cycle,
                calls,
                goes_on=goes_on,
                preferred=preferred,
                without=without,
                only=self._only,
            )
        if not isinstance(tried, Stopped) and tried.plan is not None:
            self._signatures[queued.uid] = tried.plan.signature
        return self._take(tried, cycle)

    def _place_on(self, queued: QueuedPod, node: NodeName, leaves: tuple[Allocation, ...]) -> Refused | None:
        """The same for one node, without the devices of `leaves`."""
        self._left -= 1
        suppositions = self._ground.suppositions
        with (
            suppositions.claims(self._view, tuple(self.places.shared.values())),
            suppositions.devices(self._view, SupposedDevices(taken=leaves)),
        ):
            cycle = self._begin(queued)
            return self._take(self._attempts.place_on(queued, cycle, node), cycle)

    def _begin(self, queued: QueuedPod) -> Cycle:
        self._feasibility.steps += _STEPS_OF_PLACEMENT
        return Cycle(queued.pod, self._ground.timers.wall_ms, max(1, self._steps_end - self._feasibility.steps))

    def _take(self, tried: Placed | Refused, cycle: Cycle) -> Refused | None:
        if isinstance(tried, Placed):
            self.places.add(tried)
            return None
        if tried.node is not None:
            self.places.refused(tried.queued, cycle, tried.node)
        goes_on = isinstance(tried, Stopped) and tried.failure is None
        return tried if goes_on else structs.replace(tried, beside=self.places.copied())
