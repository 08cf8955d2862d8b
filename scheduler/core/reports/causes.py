"""Why a pod fits no node: the cause, and the change that would let it in, after kube-scheduler's sentence.

A refused pod is reported at the end of its tick. Where no pod waits to be tried, its cause is found first, and one
report says both. Else the sentence is reported at once, and the cause when there is time.

Rules of this module
  1. Pods that could be tried come first: causes are looked for in ticks that leave no pod active, at most
     `search_steps_per_turn` at a time, then not for `_PAUSE_MS`. Who was tried again meanwhile is asked about anew.
  2. Namespaces take turns. At most `_WAITING_MAX` pods wait for their cause; others go without one till tried again.
  3. A pod is told of a cause once: while its sentence gives the same reasons and the cause is of the same kind, what
     was said stays, for `_AGAIN_MS`. Whether it still is the cause is looked for after each refusal; of a namespace
     for `_REPEATS_AT_ONCE` of them, and then once in `_REPEAT_EVERY_MS`.
  4. A change is said only after all plugins, asked as if it were made, let the pod onto a node. Where none helps alone,
     two are tried: the plugin that refuses a node once the first is made says what the second may be.
  5. With `CoreSettings.reports_causes` off this module reports sentences, in the order of the refusals, and no more.

Not here: causes and changes themselves (`framework.blame` and the plugins).

Cost: O(1) for a refusal. A cause: O(nodes that refuse) look-ups, a close look at few nodes, `Limits.changes` dry runs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from contextlib import nullcontext
from typing import Final

from msgspec import Struct, structs

from scheduler.core.queue.queued_pod import Place, QueuedPod
from scheduler.core.queue.scheduling_queue import SchedulingQueue
from scheduler.core.reports.allowances import Allowances
from scheduler.core.reports.pod_conditions import UNSCHEDULABLE, PodConditions, Reason, condition_of, without_numbers
from scheduler.core.state.ground import Ground, Part
from scheduler.core.state.supposition import SupposedDevices
from scheduler.core.trying.attempt import Beside
from scheduler.core.trying.feasibility import Feasibility
from scheduler.framework.blame import EVENT, TO_MAKE_IT_FIT, Blame, Change, cause_of, with_cause, without_cause
from scheduler.framework.cycle import Cycle
from scheduler.framework.plan import Plan, PreFiltered, Shape
from scheduler.framework.runner import Runner
from scheduler.framework.status import Code, Status
from scheduler.model.keys import NodeName, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod

_PAUSE_MS: Final = 10
_WAITING_MAX: Final = 20_000
_TOLD_MAX: Final = 20_000
_AGAIN_MS: Final = 300_000
_REPEATS_AT_ONCE: Final = 100
_REPEAT_EVERY_MS: Final = 500
_NODES_ASKED: Final = 16
"""Nodes asked anew where no verdicts are remembered."""
_FIRSTS_MAX: Final = 6
"""Changes after which it is asked what else would have to be done."""
_BLAMES_MAX: Final = 3
_STEPS_OF_A_POD: Final = 5_000
"""A pod whose cause takes more is told of none: about 20 ms."""
_DRY_RUN_STEPS: Final = 50
_NAMES_A_STEP: Final = 10


class GroupRefusal(Struct, frozen=True):
    """A group of which one pod has no place beside the others.

    Args:
        count: How many fit, as the beginning of a sentence.
        beside: The places that the others had.
        lacking: How many pods have no place.
        mates: The other pods that wait, and what is reported of each without a cause.
    """

    count: str
    beside: Beside | None
    lacking: int
    mates: tuple[tuple[QueuedPod, Reason], ...]


class _Asked(Struct, eq=False):
    """A pod that was refused, or could not be decided; `ticket` is the queue's, another one when the pod has moved.

    Args:
        refusal: What is reported of it without a cause.
        said: What was reported, "" while nothing was.
        group, mates: Of a group it is the pod that has no place; the others are told with it.
    """

    queued: QueuedPod
    ticket: int
    refusal: Reason
    nominated_node: NodeName | None
    said: str = ""
    group: GroupRefusal | None = None
    mates: tuple[_Asked, ...] = ()


class _Told(Struct, frozen=True):
    """What a pod was told: for which reasons, about what, in which words, and when."""

    reasons: str
    about: Hashable
    text: str
    at_ms: int


class Causes(Part):
    """Reports on pods that fit no node."""

    def __init__(
        self, ground: Ground, *, queue: SchedulingQueue, feasibility: Feasibility, conditions: PodConditions
    ) -> None:
        super().__init__(ground)
        self._is_on: Final = ground.settings.reports_causes
        self._steps_per_turn: Final = ground.settings.search_steps_per_turn
        self._queue: Final = queue
        self._feasibility: Final = feasibility
        self._conditions: Final = conditions
        self._told: Final[OrderedDict[PodUid, _Told]] = OrderedDict()
        self._waiting: Final[OrderedDict[str, OrderedDict[PodUid, _Asked]]] = OrderedDict()
        self._may_repeat: Final = Allowances(_REPEATS_AT_ONCE, _REPEAT_EVERY_MS)
        self._count = 0
        self._fresh: list[_Asked] = []
        self._current: tuple[_Asked, Iterator[Blame | None]] | None = None
        self._refusing: tuple[Shape | None, int, dict[str, list[NodeInfo]]] | None = None
        """What was found last, for pods of one shape while nothing changes."""
        self._not_before_ms = 0
        self._steps_left = 0
        self.dropped = 0
        """Pods that too many others kept from being asked about."""

    # Reporting

    def report(self, queued: QueuedPod, refusal: Reason, nominated_node: NodeName | None = None) -> None:
        """The pod has no node, for this reason: reported when this tick ends."""
        if not self._is_on:
            self._conditions.report(queued.pod, refusal, nominated_node)
            return
        self._ask_about(self._asked(queued, refusal, nominated_node))

    def report_group(self, queued: QueuedPod, refusal: Reason, group: GroupRefusal) -> None:
        """A group has no room, as this pod has no place beside the others: all of them are told of its cause."""
        if not self._is_on:
            for one, why in ((queued, refusal), *group.mates):
                self._conditions.report(one.pod, why)
            return
        asked = self._asked(queued, refusal)
        asked.group, asked.mates = group, tuple([self._asked(one, why) for one, why in group.mates])
        self._ask_about(asked)

    def _asked(self, queued: QueuedPod, refusal: Reason, nominated_node: NodeName | None = None) -> _Asked:
        asked = _Asked(queued, queued.ticket, refusal, nominated_node)
        self._fresh.append(asked)
        if queued.uid not in self._told and (found := condition_of(queued.pod)) and cause_of(found.message):
            # Another process, or this one before it was restarted, has told the pod.
            reasons, text = without_numbers(without_cause(found.message)), cause_of(found.message)
            self._tell(queued.uid, _Told(reasons, None, text, self._timers.now_ms))
        return asked

    def _ask_about(self, asked: _Asked) -> None:
        queued = asked.queued
        if self._known(asked) and not self._may_repeat.take(queued.namespace, self._timers.now_ms):
            return
        of_namespace = self._waiting.setdefault(queued.namespace, OrderedDict())
        if of_namespace.pop(queued.uid, None) is None:
            self._count += 1
        of_namespace[queued.uid] = asked
        if self._count > _WAITING_MAX:
            # Of a namespace that has more the one that waits longest.
            (of_namespace if len(of_namespace) > 1 else next(iter(self._waiting.values()))).popitem(last=False)
            self._count -= 1
            self.dropped += 1

    def forget(self, uid: PodUid) -> None:
        """The pod is bound or gone."""
        self._told.pop(uid, None)

    @property
    def remembered(self) -> int:
        """How many pods it remembers."""
        return len(self._told) + self._count

    def end_tick(self) -> None:
        """Look for causes if there is time, then report what the tick has refused and not reported."""
        if not self._is_on:
            return
        now_ms = self._timers.now_ms
        has_work = bool(self._waiting) or self._current is not None
        if has_work and now_ms >= self._not_before_ms and not self._is_busy():
            self._look(now_ms)
        fresh, self._fresh = self._fresh, []
        for asked in fresh:
            if not asked.said:
                self._say(asked, self._known(asked))

    def next_deadline_ms(self) -> int | None:
        """When `end_tick` has something to do, on the machine's own clock."""
        has_work = self._is_on and (self._current is not None or self._count)
        return max(self._not_before_ms, self._timers.now_ms) if has_work else None

    def _is_busy(self) -> bool:
        return self._queue.has_active() or self._queue.has_searching(self._timers.now_ms)

    def _known(self, asked: _Asked) -> str:
        """What the pod was told for the same reasons."""
        told = self._told.get(asked.queued.uid)
        return told.text if told is not None and told.reasons == without_numbers(asked.refusal.message) else ""

    def _say(self, asked: _Asked, cause: str) -> None:
        text = with_cause(asked.refusal.message, cause)
        if text != asked.said:
            nominated = asked.nominated_node if not asked.said else None
            asked.said = text
            self._conditions.report(asked.queued.pod, Reason(asked.refusal.reason, text), nominated)

    def _tell(self, uid: PodUid, told: _Told) -> None:
        self._told.pop(uid, None)
        self._told[uid] = told
        if len(self._told) > _TOLD_MAX:
            self._told.popitem(last=False)

    def _conclude(self, asked: _Asked, blame: Blame | None) -> None:
        """The cause was found, or none."""
        if blame is None:
            return
        for mate in asked.mates:
            self._conclude(mate, blame)
        if not self._still_waits(asked):
            return
        uid, now_ms, reasons = asked.queued.uid, self._timers.now_ms, without_numbers(asked.refusal.message)
        told = self._told.get(uid)
        is_told = told is not None and (told.reasons, told.about) == (reasons, blame.about)
        if told is None or not is_told or now_ms - told.at_ms >= _AGAIN_MS:
            told = _Told(reasons, blame.about, blame.cause, now_ms)
            self._tell(uid, told)
        self._say(asked, told.text)

    # Who is next

    def _still_waits(self, asked: _Asked) -> bool:
        queued = asked.queued
        is_same = self._queue.find(queued.uid) is queued and queued.ticket == asked.ticket
        return is_same and queued.place in (Place.UNSCHEDULABLE, Place.BACKOFF, Place.GATED)

    def _look(self, now_ms: int) -> None:
        self._steps_left = self._steps_per_turn
        while self._steps_left > 0:
            if self._current is None:
                asked = self._next()
                if asked is None:
                    break
                self._current = asked, self._blamed(asked)
            asked, finding = self._current
            for blame in finding:
                if blame is not None:
                    self._conclude(asked, blame)
                    break
                if self._steps_left <= 0:
                    self._not_before_ms = now_ms + _PAUSE_MS
                    return
            self._current = None
        if self._steps_left <= 0:
            self._not_before_ms = now_ms + _PAUSE_MS

    def _next(self) -> _Asked | None:
        while self._waiting:
            namespace, pods = next(iter(self._waiting.items()))
            asked = pods.popitem(last=False)[1] if pods else None
            if pods:
                self._waiting.move_to_end(namespace)
            else:
                del self._waiting[namespace]
            if asked is None:
                continue
            self._count -= 1
            self._steps_left -= 1
            if self._still_waits(asked):
                return asked
            if self._steps_left <= 0:
                return None
        return None

    # The cause

    def _blamed(self, asked: _Asked) -> Iterator[Blame | None]:
        """The cause, last; before it None wherever this may pause. Nothing where none is found."""
        if asked.group is None:
            yield from self._blamed_alone(asked)
        else:
            yield self._blamed_of(asked, asked.group)

    def _blamed_of(self, asked: _Asked, group: GroupRefusal) -> Blame | None:
        """In one go, as the others have their places meanwhile, which nothing else may see."""
        if not all(map(self._still_waits, (asked, *asked.mates))):
            return None
        with group.beside.held() if group.beside is not None else nullcontext(True) as are_there:
            found = next(filter(None, self._blamed_alone(asked)), None) if are_there else None
        if found is None:
            return None
        cause = f"{group.count}; pod {asked.queued.pod.key.name} does not: {found.cause}"
        return Blame("group-unmet", cause, ("group", found.about))

    def _blamed_alone(self, asked: _Asked) -> Iterator[Blame | None]:
        """Of the pod in the cluster as it is."""
        queued = asked.queued
        runner, cycle = queued.runner, Cycle(queued.pod, self._timers.wall_ms, _STEPS_OF_A_POD)
        filtered = runner.pre_filter(cycle, self._view)
        self._charge(_DRY_RUN_STEPS)
        beside = asked.group.beside if asked.group is not None else None
        if not filtered.status.is_success:
            blames = self._blame(runner, cycle, filtered.status.plugin, [])
        else:
            plan = runner.plan(cycle, self._view, filtered)
            if isinstance(plan, Status):
                return
            blames = []
            is_decided = asked.refusal.reason == UNSCHEDULABLE
            if beside is not None:
                first = [one.node for one in beside.by_pod.values()]
                refused = self._refused_now(runner, cycle, plan, filtered, first, is_decided=is_decided)
            else:
                refused = self._refused(runner, cycle, plan, filtered, is_decided=is_decided)
            for plugin, nodes in refused.items():
                blames += self._blame(runner, cycle, plugin, nodes)
                yield None
        if not blames:
            return
        if asked.group is not None and asked.group.lacking > 1:  # what helps this pod does not help the group
            yield Blame(blames[0].kind, blames[0].cause, blames[0].about)
            return
        offered = [_said(change, blame) for blame in blames for change in blame.changes]
        mates = beside.by_pod.keys() if beside is not None else frozenset[PodUid]()  # none of them runs
        changes = sorted([one for one in offered if mates.isdisjoint(one.removed)], key=lambda change: change.size)
        for change in changes[: EVENT.changes]:
            yield None
            if self._still_waits(asked) and self._helps(runner, cycle.pod, change):
                yield _helped(blames[0], change)
                return
        pairs: list[Change] = []
        for change in changes[:_FIRSTS_MAX]:
            yield None
            pairs += self._pairs(runner, cycle.pod, change) if self._still_waits(asked) else ()
        for pair in sorted(pairs, key=lambda pair: pair.size)[: EVENT.changes]:
            yield None
            if self._still_waits(asked) and self._helps(runner, cycle.pod, pair):
                yield _helped(blames[0], pair)
                return
        cause = "; ".join(blame.cause for blame in blames[:_BLAMES_MAX])
        yield Blame(blames[0].kind, cause, tuple(blame.about for blame in blames))

    def _blame(self, runner: Runner, cycle: Cycle, name: str, nodes: list[NodeInfo]) -> list[Blame]:
        before = cycle.steps_left
        found = [*runner.blame(name, cycle, nodes, self._view, EVENT)]
        self._charge(1 + before - cycle.steps_left)
        return found

    def _refused(
        self, runner: Runner, cycle: Cycle, plan: Plan, filtered: PreFiltered, *, is_decided: bool
    ) -> dict[str, list[NodeInfo]]:
        """The nodes that refuse the pod, by plugin; the plugin asked last comes first, as its nodes lack least.

        Args:
            is_decided: Else a plugin failed, of which nothing is remembered.
        """
        infos, position = self._store.node_infos, self._store.changes.position
        if self._refusing is not None and self._refusing[:2] == (plan.shape, position) and plan.shape is not None:
            return self._refusing[2]
        nodes: dict[str, list[NodeInfo]] = {}
        count = 0
        for name, status in self._feasibility.refused(plan.shape) if plan.shape is not None and is_decided else ():
            count += 1
            if name in infos:
                of_plugin = nodes.get(status.plugin)
                if of_plugin is None:
                    of_plugin = nodes[status.plugin] = []
                of_plugin.append(infos[name])
        self._charge(count // _NAMES_A_STEP)
        if not count:
            return self._refused_now(runner, cycle, plan, filtered, (), is_decided=is_decided)
        found = {plugin: nodes[plugin] for plugin in reversed(list(runner.plugins)) if plugin in nodes}
        self._refusing = plan.shape, position, found
        return found

    def _refused_now(
        self,
        runner: Runner,
        cycle: Cycle,
        plan: Plan,
        filtered: PreFiltered,
        first: Iterable[NodeName],
        *,
        is_decided: bool,
    ) -> dict[str, list[NodeInfo]]:
        """The same of few nodes, asked anew, where nothing is remembered of the cluster as it is (beside a group)."""
        nodes: dict[str, list[NodeInfo]] = {}
        infos = self._store.node_infos
        names = dict.fromkeys([*first, *self._store.node_order])
        for name in [one for one in names if filtered.allows(one) and one in infos][:_NODES_ASKED]:
            status = runner.verdict(plan, cycle, infos[name], self._view)
            self._charge(_DRY_RUN_STEPS)
            if status.is_rejection if is_decided else status.code is Code.ERROR:
                nodes.setdefault(status.plugin, []).append(infos[name])
        return {plugin: nodes[plugin] for plugin in reversed(list(runner.plugins)) if plugin in nodes}

    def _helps(self, runner: Runner, pod: Pod, change: Change) -> bool:
        """Whether all plugins let the pod onto one of the change's nodes, asked as if it were made."""
        return any(
            status.is_success for name in change.on for status, _ in self._asked_again(runner, pod, change, name)
        )

    def _pairs(self, runner: Runner, pod: Pod, first: Change) -> list[Change]:
        """What would have to be done besides, on the first of its nodes: asked of the plugin that refuses it then."""
        return [
            _both(first, second, node)
            for node in first.on[:1]
            for _, blames in self._asked_again(runner, pod, first, node, blames=True)
            for blame in blames
            for second in (_said(change, blame) for change in blame.changes)
        ]

    def _asked_again(
        self, runner: Runner, pod: Pod, change: Change, name: NodeName, *, blames: bool = False
    ) -> Iterator[tuple[Status, list[Blame]]]:
        """What the plugins say about a node as if the change were made, and what the one that refuses it blames."""
        view, ground, info = self._view, self._ground, self._store.node_infos.get(name)
        if any(all(one.allocation is not other for other in view.counted(one.uid)) for one in change.released):
            return  # it was given back meanwhile
        if info is None or ground.store.nominations.at(name):
            return  # beside pods that are to come there, nothing is known for certain
        attempt = Cycle(change.pod or pod, self._timers.wall_ms, _STEPS_OF_A_POD)
        devices = SupposedDevices(released=tuple([one.allocation for one in change.released]))
        found: list[Blame] = []
        with (
            ground.suppositions.claims(view, change.claims),
            ground.suppositions.suppose(info, view, removed=change.removed, devices=devices) as supposed,
        ):
            if change.node is not None:
                supposed.node = change.node
            filtered, status = runner.ask(attempt, supposed, view)
            if blames and status.is_rejection:
                nodes = [supposed] if filtered.status.is_success else []
                found += runner.blame(status.plugin, attempt, nodes, view, EVENT)
        self._charge(_DRY_RUN_STEPS + _STEPS_OF_A_POD - attempt.steps_left)
        yield status, found

    def _charge(self, steps: int) -> None:
        self._steps_left -= max(0, steps)


def _said(change: Change, blame: Blame) -> Change:
    """The change with the cause that it removes."""
    return change if change.cause else structs.replace(change, cause=blame.cause)


def _helped(first: Blame, change: Change) -> Blame:
    """A change let the pod in, so its cause is the one that is told."""
    return Blame(first.kind, f"{change.cause}{TO_MAKE_IT_FIT}{change.text}", ("change", change.size, first.about))


def _both(first: Change, second: Change, node: NodeName) -> Change:
    """Both changes; the second was found as if the first were made, so what it changes has that, too."""
    claims = {one.key: one for one in (*first.claims, *second.claims)}
    return Change(
        first.size + second.size,
        f"{first.text}; then {second.text}",
        (node,),
        cause=f"{first.cause}; and then {second.cause}",
        pod=second.pod or first.pod,
        node=second.node or first.node,
        claims=tuple(claims.values()),
        removed=(*first.removed, *second.removed),
        released=(*first.released, *second.released),
    )
