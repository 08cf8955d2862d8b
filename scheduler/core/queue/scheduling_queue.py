"""The scheduling queue: which pod is next, and what wakes the pods that wait.

A pod is *active* (to be tried, highest priority first, namespaces in turns, then longest waiting), in *backoff* (not
before a time), *unschedulable* (waits for a change that could help) or *gated* (PreEnqueue keeps it out).

Rules of this module
  1. A change wakes a pod only through a plugin that rejected it, if `wakes_on` matches and `hint` says QUEUE.
  2. Pods of the same signature that Filter rejected have the same chance: a change that could help them wakes one of
     them, the *leader*, by priority. When it fits, the next pod leads; when it fails with the same signature, none of
     the rest fits. So a freed device costs two attempts, not ten thousand. A pod whose claims or spec change leaves.
  3. A pod in backoff after a rejection is tried early when nothing is active (`backoff`).
  4. A pod that nothing has woken for five minutes is tried again; of a signature only its leader. A gated pod is not.
  5. An active pod whose namespace has no place for its requests lets other pods pass (`active_pods`).
  6. A pod whose search takes long goes on in its namespace's *lane* (`slow_queue`), whatever its priority: all other
     active pods go first. Pods that took long the last time go there too, and new pods of a namespace that has such
     pods: they do not pass it before it rests.
  7. A pod that keeps costing much is tried less and less often: it rests when it has taken `search_steps_before_rest`,
     twice as many, and so on, each time four times as long as it has taken; after a rejection at least as long.
  8. Among active pods of one priority namespaces take turns (`turns`).
  9. No change is missed while a pod is tried: nothing changes within one input, a search that pauses asks again about
     all that changed, and a pod that was given up while it was being bound goes to backoff, whoever gave it up.

Not here: what a pod needs (plugins), attempts (`scheduling_cycle`).

Cost: `add`, `pop` O(log n); `change` O(waiting signatures and single pods of the plugins that it concerns).

Source: pkg/scheduler/backend/queue v1.36.3; differs on purpose: rules 2, 5 to 8, and 9 (upstream records the events of
pods in flight, and leaves a pod that PreBind rejected until one of them helps).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from scheduler.core.queue.active_pods import ActivePods
from scheduler.core.queue.backoff import Backoff
from scheduler.core.queue.gated_pods import GatedPods
from scheduler.core.queue.helpful_changes import label_of, pod_changes
from scheduler.core.queue.queued_pod import Place, QueuedPod, SignatureGroup
from scheduler.core.queue.slow_queue import SlowQueue
from scheduler.core.queue.tallies import ERROR, SCHEDULED, UNSCHEDULABLE, Tallies
from scheduler.core.queue.waiting_pods import WaitingPods, Waker
from scheduler.core.state.ground import Ground
from scheduler.framework.api import Action, ClusterEvent, Resource
from scheduler.framework.plan import PodSignature
from scheduler.framework.runner import Runner
from scheduler.model.keys import PodUid
from scheduler.model.objects import Pod

_STEPS_PER_REST_MS: Final = 62  # a step takes about 4 us; the rest is four times as long
_REST_MS_MAX: Final = 300_000
_FLUSH_INTERVAL_MS: Final = 30_000  # as upstream

# Looked up several times for each pod, and through the class that is slow.
_ACTIVE, _BACKOFF, _UNSCHEDULABLE, _GATED, _IN_FLIGHT = Place


class SchedulingQueue:
    """Pods of ours that are not bound yet."""

    def __init__(self, ground: Ground, runners: Mapping[str, Runner], has_place: Callable[[str], bool]) -> None:
        """Begin empty. `has_place` says whether a namespace may have one more request under way."""
        self._settings: Final = ground.settings
        self._view: Final = ground.view
        self._has_place: Final = has_place
        self._pods: Final[dict[PodUid, QueuedPod]] = {}
        self.waiting: Final = WaitingPods(runners, ground.view)
        self._active: Final = ActivePods(has_place, self._hand_over)
        self._backoff: Final = Backoff()
        self.lanes: Final = SlowQueue(has_place)
        self.tallies: Final = Tallies()
        self._cause = ""  # of the moves that follow
        self._tickets: Final = itertools.count(1)
        self._flush_ms = self._now_ms = 0  # of the last flush and the last tick
        self.gated: Final = GatedPods()

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: PodUid) -> bool:
        return uid in self._pods

    def find(self, uid: PodUid) -> QueuedPod | None:
        return self._pods.get(uid)

    def all(self) -> Iterable[QueuedPod]:
        return self._pods.values()

    def counts(self) -> dict[str, int]:
        """Pods by place, for metrics."""
        counts = Counter(queued.place for queued in self._pods.values())
        return {place.value: counts[place] for place in Place}

    # Coming and going

    def add(self, pod: Pod, runner: Runner, now_ms: int) -> None:
        """A pod that is new to us: gated or active."""
        uid = pod.uid
        queued = self._pods[uid] = QueuedPod(uid, pod, runner)
        self._cause = "UnschedulablePodAdd"
        self._enqueue(queued, now_ms)

    def update(self, old: Pod, pod: Pod, now_ms: int) -> None:
        """A newer state of a pod that is in the queue; wakes it when what changed could help it."""
        queued = self._pods[pod.uid]
        queued.pod = pod
        action = pod_changes(old, pod)
        if queued.place not in (_UNSCHEDULABLE, _GATED):
            return
        self._cause = label_of("UnschedulablePod", action)
        if action is not None:
            event = ClusterEvent(Resource.POD, action, old, pod)
            for waker in self.waiting.wakers(Resource.POD, action):
                if self.waiting.is_helped(queued, waker, event):
                    self._wake(queued, now_ms)
                    return
        if action is not None or old.spec != pod.spec:
            self._leave_group(queued, now_ms)

    def remove(self, uid: PodUid, now_ms: int) -> None:
        """The pod is bound, gone or finished."""
        queued = self._pods.pop(uid, None)
        if queued is not None:
            self._displace(queued)
            self._follow(queued, now_ms)

    def pop(self, now_ms: int) -> QueuedPod | None:
        """The pod to try now, in flight from here on; its caller must say what became of it."""
        self._ripen(now_ms)
        if self.lanes.by_namespace:
            self._set_apart(now_ms)
        queued = self._active.first()
        while queued is None and (early := self._first_early()) is not None:
            self._cause = "PopFromBackoffQ"
            self._displace(early)
            self._enqueue(early, now_ms)
            self._set_apart(now_ms)
            queued = self._active.first()
        if queued is not None:
            self.fly(queued, now_ms)
            self._active.begin(queued)
            if self.lanes.by_namespace:
                self.lanes.note_tried(queued.namespace, now_ms)
        return queued

    def pop_searching(self, now_ms: int) -> QueuedPod | None:
        """The pod whose search goes on now, in flight from here on; as `pop`."""
        queued = self.lanes.first(now_ms)
        if queued is not None:
            self.fly(queued, now_ms)
        return queued

    def fly(self, queued: QueuedPod, now_ms: int) -> None:
        """The pod is tried now, by itself or with its gang."""
        self._displace(queued)
        queued.attempts += 1
        queued.cycle = self.tallies.cycles = self.tallies.cycles + 1
        if not queued.steps:
            queued.begun_ms = now_ms

    def has_active(self) -> bool:
        """Whether `pop` would give out a pod, or has to pass by more of them to find out."""
        return self._active.first() is not None or self._first_early() is not None or bool(self._active)

    def has_searching(self, now_ms: int) -> bool:
        """Whether `pop_searching` has one."""
        return bool(self.lanes.by_namespace) and self.lanes.first(now_ms) is not None

    def _set_apart(self, now_ms: int) -> None:
        """While the namespace of the first active pod has pods in a lane, the pod goes there too (it pays)."""
        while (queued := self._active.first()) is not None and self.lanes.has(queued.namespace):
            self._displace(queued)
            self._push_lane(queued, now_ms)

    # What became of an attempt

    def rejected(
        self, queued: QueuedPod, by: frozenset[str], signature: PodSignature | None, now_ms: int, *, steps: int = 0
    ) -> int:
        """No node fits, or a plugin said no: wait for a change that concerns one of these plugins.

        Args:
            signature: Set when nothing but Filter verdicts of that signature decided.
            steps: What the cycle took.

        Returns:
            How long it is not tried again whatever changes, 0 when that is no longer than for any other.
        """
        assert by, f"pod {queued.pod.key} was rejected by nobody, nothing would wake it"
        rest_ms = self._end(queued, steps, now_ms)
        self._tally(queued, UNSCHEDULABLE, now_ms)
        queued.unschedulable_count += 1
        queued.consecutive_errors = 0
        queued.waits_out = queued.cost >= self._settings.search_steps_before_rest
        queued.ready_ms = now_ms + max(self._settings.backoff_ms(queued.unschedulable_count), rest_ms)
        queued.unschedulable_plugins = by
        led = queued.group
        if led is not None and led.signature != signature:
            self._follow(queued, now_ms)
            led = None
        queued.group = None
        self._place(queued, _UNSCHEDULABLE, now_ms)
        rest_ms = rest_ms if rest_ms > self._settings.backoff_ms_max else 0
        if signature is None:
            self.waiting.add(queued)
        else:
            self.waiting.add_to_group(queued, signature, now_ms)
        return rest_ms

    def failed(
        self,
        queued: QueuedPod,
        now_ms: int,
        delay_ms: int | None = None,
        *,
        steps: int | None = None,
        is_rejection: bool = False,
    ) -> None:
        """An error, or a failure while binding: try again after a while.

        Args:
            steps: What the cycle took, None when it had ended well and its cost is known (`assumed`).
            is_rejection: A plugin said no while the pod was being bound.
        """
        self._follow(queued, now_ms)
        rest_ms = self._end(queued, steps, now_ms) if steps is not None else 0
        self._tally(queued, UNSCHEDULABLE if is_rejection else ERROR, now_ms)
        self._back_off(queued, now_ms, delay_ms, rest_ms, is_rejection=is_rejection)

    def _back_off(
        self,
        queued: QueuedPod,
        now_ms: int,
        delay_ms: int | None = None,
        rest_ms: int = 0,
        *,
        is_rejection: bool = False,
    ) -> None:
        if is_rejection:
            queued.unschedulable_count, queued.consecutive_errors = queued.unschedulable_count + 1, 0
        else:
            queued.consecutive_errors += 1
        queued.unschedulable_plugins = frozenset()
        if delay_ms is None:
            delay_ms = self._settings.backoff_ms(queued.consecutive_errors or queued.unschedulable_count)
        self.rest(queued, now_ms + max(rest_ms, delay_ms), now_ms)

    def postponed(self, queued: QueuedPod, now_ms: int, *, steps: int = 0) -> int:
        """The attempt is not finished: it goes on when other pods had their turn.

        Args:
            steps: What this part of the attempt took.

        Returns:
            How long it rests, 0 when it goes on at once.
        """
        queued.attempts -= 1
        self.lanes.charge(queued.namespace, steps, now_ms)
        queued.steps += max(steps, 1)
        if queued.steps < self._settings.search_steps_before_rest * queued.shares << queued.rests:
            self._push_lane(queued, now_ms)
            return 0
        queued.rests += 1
        rest_ms = self._rest_ms(queued.steps // queued.shares)
        self.rest(queued, now_ms + rest_ms, now_ms)
        return rest_ms

    def bound(self, queued: QueuedPod, now_ms: int) -> None:
        """The attempt ended well; the pod leaves the queue."""
        self.tallies.pod_bound(queued.attempts, now_ms - queued.first_active_ms, is_flushed=queued.is_flushed)
        self._tally(queued, SCHEDULED, now_ms)

    def rest(self, queued: QueuedPod, until_ms: int, now_ms: int) -> None:
        """It is not tried before then."""
        queued.waits_out, queued.ready_ms = True, until_ms
        self._push_backoff(queued, now_ms)

    def returned(self, queued: QueuedPod, now_ms: int) -> None:
        """Nothing was found out about it: it is as if it had not been tried."""
        queued.attempts, queued.is_searching = queued.attempts - 1, False
        queued.steps, queued.rests, queued.shares = 0, 0, 1
        self._enqueue(queued, now_ms)

    def _tally(self, queued: QueuedPod, result: str, now_ms: int) -> None:
        self._cause = "ScheduleAttemptFailure"
        queued.is_flushed = False
        self.tallies.attempt_ended(result, queued.runner.scheduler_name, now_ms - queued.begun_ms)

    def assumed(self, queued: QueuedPod, now_ms: int, *, steps: int = 0) -> None:
        """The pod fits and is being bound; other pods of its signature may fit too."""
        self._end(queued, steps, now_ms)
        self._follow(queued, now_ms)

    def _end(self, queued: QueuedPod, steps: int, now_ms: int) -> int:
        """The attempt has ended, so its cost is known: how long to leave the pod alone for it."""
        if queued.is_searching:
            self.lanes.charge(queued.namespace, steps, now_ms)
            queued.is_searching = False
        queued.cost = queued.steps + steps
        queued.steps, queued.rests, queued.shares, queued.search_signature = 0, 0, 1, None
        return self._rest_ms(queued.cost) if queued.cost >= self._settings.search_steps_before_rest else 0

    def _rest_ms(self, steps: int) -> int:
        """Four times what the steps take, in powers of two, so that the reported text stays the same for a while."""
        return min(_REST_MS_MAX, 1 << (steps // _STEPS_PER_REST_MS).bit_length())

    # Changes

    def change(self, resource: Resource, action: Action, old: object | None, new: object | None, now_ms: int) -> None:
        """Wake the pods that this change could help."""
        waiting = self.waiting
        if not waiting or not (wakers := waiting.awaiting(resource, action)):
            return
        self._cause = label_of(resource.value, action)
        event = ClusterEvent(resource, action, old, new)
        for waker in wakers:
            concerned = waiting.concerned(waker, event)
            if concerned is not None:
                for uid in concerned:
                    self._change_for(uid, waker, event, now_ms)
                continue
            for queued in waiting.rejected_by(waker):
                if waker.runner.is_helped(waker.plugin, queued.pod, event, self._view):
                    self._wake(queued, now_ms)
            for group in waiting.groups_rejected_by(waker):
                first = group.first() if group.leader is None else None
                if first is not None and waker.runner.is_helped(waker.plugin, first.pod, event, self._view):
                    self._lead(group, first, now_ms)

    def _change_for(self, uid: PodUid, waker: Waker, event: ClusterEvent, now_ms: int) -> None:
        """A change that concerns this very pod."""
        queued = self._pods.get(uid)
        if queued is None or not (queued.place is _UNSCHEDULABLE or queued.place is _GATED):
            return
        if waker.key[0] != queued.runner.scheduler_name:
            return
        if self.waiting.is_helped(queued, waker, event):
            self._wake(queued, now_ms)
        else:
            self._leave_group(queued, now_ms)

    def _leave_group(self, queued: QueuedPod, now_ms: int) -> None:
        """The pod may have another signature now, so what a leader finds out holds for it no more."""
        group = queued.group
        if group is None or queued.uid not in group.members:
            return
        if group.leader is not None:
            self._wake(queued, now_ms)  # the change that woke the leader was for this one too
            return
        queued.unschedulable_plugins = queued.all_unschedulable_plugins
        self._displace(queued)
        self._place(queued, _UNSCHEDULABLE, now_ms)
        self.waiting.add(queued)

    def activate(self, uid: PodUid, now_ms: int, *, delay_ms: int = 0) -> None:
        """Have the pod tried now, or after this time, whatever its backoff."""
        queued = self._pods.get(uid)
        if queued is not None and queued.place in (_UNSCHEDULABLE, _GATED, _BACKOFF):
            self._cause = "ForceActivate"
            queued.waits_out, queued.ready_ms = delay_ms > 0, now_ms + delay_ms
            self._wake(queued, now_ms)

    # Time

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """When a search may go on, a pod's backoff ends or the next flush is due, None while nothing waits."""
        deadlines = self._backoff.deadlines()
        if self.lanes.by_namespace and (searching_ms := self.lanes.next_ready_ms(now_ms)) is not None:
            deadlines.append(searching_ms)
        if (gated_ms := self.gated.next_deadline_ms()) is not None:
            deadlines.append(gated_ms)
        if self.waiting:
            deadlines.append(self._flush_ms + _FLUSH_INTERVAL_MS)
        return min(deadlines, default=None)

    def tick(self, now_ms: int) -> None:
        """Let time pass: end backoffs, and flush what has waited too long."""
        self._now_ms = now_ms
        self._ripen(now_ms)
        if now_ms < self._flush_ms + _FLUSH_INTERVAL_MS:
            return
        self._flush_ms = now_ms
        self._cause = "UnschedulableTimeout"
        latest = now_ms - self._settings.unschedulable_ms_max
        for queued in self.waiting.alone():
            if queued.since_ms <= latest and queued.place is not _GATED:
                queued.is_flushed = True
                self._wake(queued, now_ms)
        for group in tuple(self.waiting.groups()):
            first = group.first() if group.leader is None and group.checked_ms <= latest else None
            if first is not None:
                first.is_flushed = True
                self._lead(group, first, now_ms)

    # Places

    def _enqueue(self, queued: QueuedPod, now_ms: int) -> None:
        """Active unless PreEnqueue says no."""
        status = queued.runner.pre_enqueue(queued.pod, self._view)
        if status.is_success:
            queued.unschedulable_plugins = frozenset()
            queued.first_active_ms = queued.first_active_ms or now_ms
            if not queued.steps:
                queued.active_ticket = next(self._tickets)
            if queued.steps or queued.cost > self._settings.search_steps_first:
                self._push_lane(queued, now_ms)
            else:
                self._push_active(queued, now_ms)
            return
        self._follow(queued, now_ms)  # a leader must be tried soon, and this pod will not be
        if status.is_rejection:
            queued.unschedulable_plugins = frozenset({status.plugin})
            self._place(queued, _GATED, now_ms)
            self.waiting.add(queued)
            self.gated.add(queued, now_ms)
        else:
            self._back_off(queued, now_ms)

    def _wake(self, queued: QueuedPod, now_ms: int) -> None:
        """Out of unschedulable or gated, by itself."""
        was_gated = queued.place is _GATED
        self._displace(queued)
        self._follow(queued, now_ms)
        if was_gated or queued.ready_ms <= now_ms:
            self._enqueue(queued, now_ms)
        else:
            self._push_backoff(queued, now_ms)

    def _lead(self, group: SignatureGroup, queued: QueuedPod, now_ms: int) -> None:
        """Wake a pod for its whole group."""
        group.leader = queued
        self._displace(queued)
        queued.group = group
        if queued.ready_ms <= now_ms:
            self._enqueue(queued, now_ms)
        else:
            self._push_backoff(queued, now_ms)

    def _follow(self, queued: QueuedPod, now_ms: int) -> None:
        """`queued` stops leading. Its attempt proved nothing about the group, so wake the next member."""
        group, queued.group = queued.group, None
        if group is None or group.leader is not queued:
            return
        group.leader = None
        following = group.first()
        if following is not None:
            self._lead(group, following, now_ms)
        else:
            self.waiting.forget(group)

    def _displace(self, queued: QueuedPod) -> None:
        """Take the pod out of the place it is in. A leader still leads."""
        queued.ticket = next(self._tickets)
        place = queued.place
        if place is _UNSCHEDULABLE or place is _GATED:
            self.waiting.remove(queued)
        queued.place = _IN_FLIGHT

    def _place(self, queued: QueuedPod, place: Place, now_ms: int) -> None:
        queued.place = place
        self.tallies.incoming[place, self._cause] += 1
        queued.since_ms = now_ms
        queued.ticket = next(self._tickets)

    def _push_active(self, queued: QueuedPod, now_ms: int) -> None:
        self._place(queued, _ACTIVE, now_ms)
        queued.is_searching = False
        self._active.push(queued)

    def _push_lane(self, queued: QueuedPod, now_ms: int) -> None:
        self._place(queued, _ACTIVE, now_ms)
        queued.is_searching = True
        self.lanes.push(queued, now_ms)

    def _push_backoff(self, queued: QueuedPod, now_ms: int) -> None:
        self._place(queued, _BACKOFF, now_ms)
        self._backoff.push(queued)

    def _ripen(self, now_ms: int) -> None:
        """Move the pods whose backoff has ended."""
        for queued in self._backoff.ripe(now_ms):
            self._cause = "BackoffComplete"
            self._displace(queued)
            self._enqueue(queued, now_ms)

    def _hand_over(self, queued: QueuedPod, first: QueuedPod) -> None:
        """`first` leads the pods of its signature in the stead of `queued`."""
        group, queued.group = queued.group, None
        if group is not None:
            self._lead(group, first, self._now_ms)

    def _first_early(self) -> QueuedPod | None:
        """The pod in backoff that is tried early when no active one can be."""
        queued = self._backoff.first_early()
        return queued if queued is not None and self._has_place(queued.namespace) else None
