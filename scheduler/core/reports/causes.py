"""Why a pod fits no node: the cause, and the change that would let it in, after kube-scheduler's sentence.

A refused pod is reported at the end of its tick. Where no pod waits to be tried, its cause is found first, and one
report says both. Else the sentence is reported at once, and the cause when there is time.

Rules of this module
  1. Pods that could be tried come first: causes are looked for in ticks that leave no pod active, at most
     `search_steps_per_turn` at a time, then not for `_PAUSE_MS`. Who was tried again meanwhile is asked about anew.
  2. Namespaces take turns. At most `_WAITING_MAX` pods wait for their cause; others go without one till tried again.
  3. A pod's events say a cause once: while its sentence gives the same reasons and the cause is about the same things,
     they say the same, for `_AGAIN_MS`. Its condition follows what is true now. Whether it still is the cause is looked
     for after each refusal; of a namespace for `_REPEATS_AT_ONCE` of them, and then once in `_REPEAT_EVERY_MS`.
  4. With `CoreSettings.reports_causes` off this module reports sentences, in the order of the refusals, and no more.

Not here: looking for a cause (`cause_search`).

Cost: O(1) for a refusal.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from typing import Final

from msgspec import Struct, structs

from scheduler.core.queue.queued_pod import Place, QueuedPod
from scheduler.core.queue.scheduling_queue import SchedulingQueue
from scheduler.core.reports.allowances import Allowances
from scheduler.core.reports.cause_search import CauseSearch
from scheduler.core.reports.group_causes import UnplacedGroup
from scheduler.core.reports.pod_conditions import UNSCHEDULABLE, PodConditions, Refusal, condition_of, without_numbers
from scheduler.core.reports.room_causes import why_room
from scheduler.core.state.ground import Ground, Part
from scheduler.core.trying.attempt import Beside
from scheduler.core.trying.feasibility import Feasibility
from scheduler.framework.diagnosis import EVENT, Limits, cause_of, with_cause, without_cause
from scheduler.framework.preemption import Preemption
from scheduler.model.group import key_of_group
from scheduler.model.keys import NodeName, PodUid
from scheduler.model.objects import Pod
from scheduler.why.reasons import Diagnosis
from scheduler.why.say import Reader

_PAUSE_MS: Final = 10
_WAITING_MAX: Final = 20_000
_SAID_MAX: Final = 20_000
_AGAIN_MS: Final = 300_000
_GROUPS_MAX: Final = 16
"""Groups refused last, of which somebody may ask."""
_REPEATS_AT_ONCE: Final = 100
_REPEAT_EVERY_MS: Final = 500


class _Asked(Struct, eq=False):
    """A pod that was refused, or could not be decided; `ticket` is the queue's, another one when the pod has moved.

    Args:
        refusal: What is reported of it without a cause.
        said: What was reported, "" while nothing was.
        group, mates: Of a group it is the pod that has no place; the others get its cause too.
    """

    queued: QueuedPod
    ticket: int
    refusal: Refusal
    nominated_node: NodeName | None = None
    said: str = ""
    group: UnplacedGroup | None = None
    mates: tuple[_Asked, ...] = ()


class _Said(Struct, frozen=True):
    """What was said of a pod: for which reasons, about what, in which words, and when; and what is so by now."""

    reasons: str
    about: Hashable
    text: str
    at_ms: int
    now: str


class Causes(Part):
    """Reports on pods that fit no node."""

    def __init__(
        self, ground: Ground, *, queue: SchedulingQueue, feasibility: Feasibility, conditions: PodConditions
    ) -> None:
        super().__init__(ground)
        self._is_on: Final = ground.settings.reports_causes
        self._limits: Final = EVENT
        self._steps_per_turn: Final = ground.settings.search_steps_per_turn
        self._search: Final = CauseSearch(ground, feasibility)
        self._queue: Final = queue
        self._conditions: Final = conditions
        self._said: Final[OrderedDict[PodUid, _Said]] = OrderedDict()
        self._waiting: Final[OrderedDict[str, OrderedDict[PodUid, _Asked]]] = OrderedDict()
        self._may_repeat: Final = Allowances(_REPEATS_AT_ONCE, _REPEAT_EVERY_MS)
        self._groups: Final[OrderedDict[PodUid, _Asked]] = OrderedDict()
        self._count = 0
        self._fresh: list[_Asked] = []
        self._current: tuple[_Asked, Iterator[Diagnosis | None]] | None = None
        self._not_before_ms = 0
        self.dropped = 0
        """Pods that too many others kept from being asked about."""

    # Reporting

    def report(self, queued: QueuedPod, refusal: Refusal, nominated_node: NodeName | None = None) -> None:
        """The pod has no node, for this reason: reported when this tick ends."""
        if not self._is_on:
            self._conditions.report(queued.pod, refusal, nominated_node)
            return
        self._ask_about(_Asked(queued, queued.ticket, refusal, nominated_node))

    def report_group(
        self, queued: QueuedPod, refusal: Refusal, group: UnplacedGroup, mates: Iterable[tuple[QueuedPod, Refusal]]
    ) -> None:
        """A group has no room, as this pod has no place beside the others: all of them get its cause."""
        others = tuple([_Asked(one, one.ticket, why) for one, why in mates])
        asked = _Asked(queued, queued.ticket, refusal, group=group, mates=others)
        self._groups[queued.uid] = asked
        if len(self._groups) > _GROUPS_MAX:
            self._groups.popitem(last=False)
        if self._is_on:
            for one in others:
                self._begin(one)
            self._ask_about(asked)
        else:
            for one in (asked, *others):
                self._conditions.report(one.queued.pod, one.refusal)

    def of_room(self, pod: Pod, rooms: Iterable[Preemption], why: Refusal) -> Refusal:
        """What is said of a pod, or of a group, for which others go."""
        found = why_room(rooms, self._store, str(key_of_group(pod) or "")) if self._is_on else None
        if found is None:
            return why
        return Refusal(why.reason, with_cause(why.message, found.text(Reader(pod.key.namespace))))

    def _begin(self, asked: _Asked) -> None:
        """It is reported when this tick ends."""
        queued = asked.queued
        self._fresh.append(asked)
        if queued.uid not in self._said and (found := condition_of(queued.pod)) and cause_of(found.message):
            # Another process, or this one before it was restarted, has said it.
            reasons, text = without_numbers(without_cause(found.message)), cause_of(found.message)
            self._keep(queued.uid, _Said(reasons, None, text, self._timers.now_ms, text))

    def _ask_about(self, asked: _Asked) -> None:
        queued = asked.queued
        self._begin(asked)
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
        self._said.pop(uid, None)
        self._groups.pop(uid, None)

    @property
    def remembered(self) -> int:
        """How many pods it remembers."""
        return len(self._said) + self._count

    def end_tick(self, *, has_time: bool = True) -> None:
        """Look for causes if there is time, then report what the tick has refused and not reported."""
        if not self._is_on:
            return
        now_ms = self._timers.now_ms
        has_work = bool(self._waiting) or self._current is not None
        if has_time and has_work and now_ms >= self._not_before_ms and not self._is_busy():
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

    def _known(self, asked: _Asked) -> _Said | None:
        """What was said of the pod for the same reasons."""
        said = self._said.get(asked.queued.uid)
        return said if said is not None and said.reasons == without_numbers(asked.refusal.message) else None

    def _say(self, asked: _Asked, said: _Said | None) -> None:
        """The event repeats what was said of the pod, the condition what is so now."""
        sentence, pod = asked.refusal.message, asked.queued.pod
        event = with_cause(sentence, said.text) if said is not None else sentence
        condition = Refusal(asked.refusal.reason, with_cause(sentence, said.now) if said is not None else sentence)
        if event != asked.said:
            nominated = asked.nominated_node if not asked.said else None
            asked.said = event
            self._conditions.report(pod, condition, nominated, event)
        else:
            self._conditions.amend(pod, condition)

    def _keep(self, uid: PodUid, said: _Said) -> None:
        self._said.pop(uid, None)
        self._said[uid] = said
        if len(self._said) > _SAID_MAX:
            self._said.popitem(last=False)

    def _conclude(self, asked: _Asked, why: Diagnosis) -> None:
        uid, now_ms, reasons = asked.queued.uid, self._timers.now_ms, without_numbers(asked.refusal.message)
        said, text = self._said.get(uid), why.text(Reader(asked.queued.namespace))
        if said is None or (said.reasons, said.about) != (reasons, why.about) or now_ms - said.at_ms >= _AGAIN_MS:
            said = _Said(reasons, why.about, text, now_ms, text)
        else:
            said = structs.replace(said, now=text)
        self._keep(uid, said)
        self._say(asked, said)
        for mate in asked.mates:
            self._conclude(mate, why)

    # Who is next

    def _still_waits(self, asked: _Asked) -> bool:
        queued = asked.queued
        is_same = self._queue.find(queued.uid) is queued and queued.ticket == asked.ticket
        waits = is_same and queued.place in (Place.UNSCHEDULABLE, Place.BACKOFF, Place.GATED)
        return waits and all(map(self._still_waits, asked.mates))

    def _look(self, now_ms: int) -> None:
        self._search.steps = 0
        while self._search.steps < self._steps_per_turn:
            if self._current is None:
                asked = self._next()
                if asked is None:
                    break
                self._current = asked, self._found(asked)
            asked, finding = self._current
            for why in finding:
                if why is not None:
                    self._conclude(asked, why)
                    break
                if self._search.steps >= self._steps_per_turn:
                    self._not_before_ms = now_ms + _PAUSE_MS
                    return
            self._current = None
        if self._search.steps >= self._steps_per_turn:
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
            self._search.steps += 1
            if self._still_waits(asked):
                return asked
            if self._search.steps >= self._steps_per_turn:
                return None
        return None

    # The cause

    def why(self, uid: PodUid, limits: Limits) -> tuple[Diagnosis | None, int]:
        """Why a pod that waits fits no node, at once, and the steps that it took; None where no plugin can say.

        For somebody who has the machine alone: `dra-scheduler explain`.
        """
        self._search.steps = 0
        return self._why(uid, limits), self._search.steps

    def _why(self, uid: PodUid, limits: Limits) -> Diagnosis | None:
        queued = self._queue.find(uid)
        if queued is None:
            return None
        refusal = condition_of(queued.pod)
        reason = UNSCHEDULABLE if refusal is None else refusal.reason
        asked = self._of_group(uid)
        of, group = (asked.queued, asked.group) if asked is not None else (queued, None)
        return next(filter(None, self._search.find(of.runner, of.pod, reason, limits, group)), None)

    def unplaced(self, uid: PodUid) -> tuple[Pod, Beside] | None:
        """Of a pod's group the one that has no place, and the places that others of it had; None where none had."""
        asked = self._of_group(uid)
        beside = asked.group.beside if asked is not None and asked.group is not None else None
        return (asked.queued.pod, beside) if asked is not None and beside is not None else None

    def _of_group(self, uid: PodUid) -> _Asked | None:
        """What was refused last of the group of a pod that waits."""
        for asked in self._groups.values():
            if uid in (asked.queued.uid, *[one.queued.uid for one in asked.mates]) and self._still_waits(asked):
                return asked
        return None

    def _found(self, asked: _Asked) -> Iterator[Diagnosis | None]:
        """As `CauseSearch.find`, until the pod is tried again."""
        queued = asked.queued
        for why in self._search.find(queued.runner, queued.pod, asked.refusal.reason, self._limits, asked.group):
            if not self._still_waits(asked):
                return
            yield why
