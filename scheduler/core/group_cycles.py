"""One scheduling cycle for a whole group: all of its pods that are needed get a node and devices, or none does.

    count ── some cannot be tried yet ──> the pod waits
      │
      └─> search (`group_attempt`) ── all that are needed have a place ──> they are assumed, and bound as any pod
             │       ├─ others must go ──> room is made for all of them (`preemptions`), and then they are tried again
             │       └─ no ──> all wait for a change that could help one of them
             └─ the turn is over ──> nothing is held; the search goes on in the namespace's lane

Rules of this module
  1. A group holds all it needs when an input ends, or nothing. So no group waits for devices that another half-placed
     group holds.
  2. A group of which `min_count` pods have a node already is no matter of this module: its other pods are placed alone.
  3. All pods that wait are placed if that is found; else as many as are needed, the most important first.
  4. A group is scheduled as one queue entry: popping any of its pods continues the group's search. The step limit is
     that of all its pods together; beyond it all of them back off. Each pod's condition shows the progress. For its
     lane, and when it does not fit, all that it took counts as for one pod.
  5. A group that needs more than `GANG_PODS_MAX` pods gets the reason that it cannot be one, but for kube-scheduler's
     groups, of which each pod is tried once.
  6. Others are removed for all that are needed, or nobody is: half of the room would help nobody. Nobody more is while
     room is being made.

Not here: which pods there are (`gang_members`), pods of a group that is not complete (the plugin GangScheduling), how
one pod is placed when it is alone (`scheduling_cycle`), and what becomes of the answer (there too).

Source: none upstream; kubernetes/kubernetes#138765 and docs/adr/0034-groups-of-pods.md.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import Final

from msgspec import Struct, structs

from scheduler.core.preempting.preemption_texts import making_room_for_group
from scheduler.core.queue.queued_pod import Place, QueuedPod
from scheduler.core.reports.group_causes import UnplacedGroup
from scheduler.core.reports.pod_conditions import UNSCHEDULABLE, Refusal
from scheduler.core.scheduling_cycle import SchedulingCycles, Tried
from scheduler.core.state.ground import Ground, Part
from scheduler.core.trying.attempt import Stopped, Unfit
from scheduler.core.trying.group_attempt import GroupAttempt, MakeRoom
from scheduler.core.trying.group_topology import LabelValues
from scheduler.model.group import (
    GANG_MEMBERS_MAX,
    GANG_PODS_MAX,
    GANG_SCHEDULING,
    GroupKey,
    counts,
    declared_count,
    disagreement,
    key_of_group,
    waiting_text,
)
from scheduler.model.objects import Pod
from scheduler.model.pod_group import PodGroup

_ATTEMPTS_MAX: Final = 64
"""Searches that go on. One that has not gone on for longest begins anew."""
_TURN_STEPS: Final = 1_000
"""About 4 ms. Less would mostly take places again that the turn before had given back."""
_MEMBERS_OF_STEP: Final = 3
"""Pods that are counted (`_count`)."""
_SILENT_MS: Final = 1_000
"""How long a search may last before the pods get a reason."""
NEVER: Final = "Never"
"""The preemptionPolicy of who removes nobody."""
_TRIED: Final = (Place.ACTIVE, Place.BACKOFF, Place.UNSCHEDULABLE)
GOES_ON: Final = (
    "Group {} is being placed together: {} of the {} pods that are needed have a place so far, pod {} is looked at. "
    "That takes long (selectors or constraints that cost much to decide, devices that hardly suffice) and goes on {}."
)


class Quorum(Struct, frozen=True):
    """What there is of a gang.

    Args:
        min_count: What its PodGroup says, or the largest that its pods say; where none says one, all pods that exist.
        placed: Pods that have a node, or finished well.
        ready: Those that can be tried, the most important first.
        others: Those that count and have no node, but cannot be tried now.
    """

    key: GroupKey
    min_count: int
    placed: int
    ready: tuple[QueuedPod, ...]
    others: tuple[Pod, ...]

    @property
    def needed(self) -> int:
        """How many more must be placed."""
        return self.min_count - self.placed

    @property
    def missing(self) -> int:
        """How many more pods must come before the gang can be tried."""
        return self.needed - len(self.ready)


class GroupCycles(Part):
    """Tries gangs."""

    def __init__(self, ground: Ground, cycles: SchedulingCycles) -> None:
        super().__init__(ground)
        self._queue: Final = cycles.queue
        self._feasibility: Final = cycles.feasibility
        self._label_values: Final = LabelValues(ground)
        self._cycles: Final = cycles
        self._conditions: Final = cycles.conditions
        self._group_conditions: Final = cycles.group_conditions
        self._searches: Final[OrderedDict[GroupKey, GroupAttempt]] = OrderedDict()

    def run(self, queued: QueuedPod, calls_max: int, steps_max: int) -> bool:
        """Try the gang of a pod that the queue has given out; False when the pod is to be tried alone.

        Args:
            calls_max, steps_max: As for one pod; steps are `_TURN_STEPS` at least.
        """
        key = key_of_group(queued.pod)
        if key is None:
            return False
        group = self._store.pod_groups.get(key.pod_group) if key.is_pod_group else None
        if group is None and key.is_pod_group:  # it is gone since PreEnqueue saw it
            self._queue.returned(queued, self._ground.timers.now_ms)
            return True
        size = self._store.gangs.size(key)
        if group is not None and (text := disagreement(size, group, self._ground.view.features)):
            self._group_conditions.report_disagreement(queued.pod, text)  # pods came since PreEnqueue
            self._wait(queued, text)
            return True
        declared = declared_count(key, size, group)
        topology_key = group.topology_key if group is not None else None
        if declared is None and topology_key is not None:
            declared = 1  # its pods need not come together, but to the same place
        if declared is None:
            return False
        if size.members > GANG_MEMBERS_MAX:
            self._wait(
                queued, f"group {key} has {size.members} pods; dra-scheduler looks at {GANG_MEMBERS_MAX} of one group"
            )
            return True
        quorum = self._count(key, queued, declared)
        if quorum.needed <= 0 and topology_key is not None:
            quorum = structs.replace(quorum, min_count=quorum.placed + 1)
        if quorum.needed <= 0:
            return False
        if quorum.needed > (most := _most_together(queued)):
            self._wait(queued, f"group {key} needs {quorum.needed} pods; {most} are placed together at most")
        elif quorum.missing > 0:
            self._wait_for_others(queued, key, declared)
        else:
            self._go_on(queued, quorum, group, calls_max, max(steps_max, _TURN_STEPS))
        return True

    def _go_on(self, queued: QueuedPod, quorum: Quorum, group: PodGroup | None, calls_max: int, steps_max: int) -> None:
        """One turn of the gang's search."""
        now_ms = self._ground.timers.now_ms
        attempt = self._searches.pop(quorum.key, None)
        if attempt is None or not attempt.is_about(quorum.needed, quorum.ready):
            pods = quorum.ready[: _most_together(queued)]
            attempt = GroupAttempt(
                *(self._ground, self._feasibility, self._cycles.attempts, pods, quorum.needed),
                label_values=self._label_values,
                post_filters=self._cycles.post_filters if self._may_make_room(quorum, group) else None,
                topology_key=group.topology_key if group is not None else None,
                before=attempt,
            )
        if attempt.rests_until_ms > now_ms:
            self._searches[quorum.key] = attempt
            queued.attempts -= 1
            self._queue.rest(queued, attempt.rests_until_ms, now_ms)
            return
        begun = self._feasibility.steps
        self._feasibility.steps += (len(quorum.ready) + len(quorum.others)) // _MEMBERS_OF_STEP
        found = attempt.go_on(calls_max, steps_max)
        queued.steps, queued.rests, queued.shares = attempt.steps, attempt.rests, attempt.shares  # it is all of theirs
        steps = self._feasibility.steps - begun
        attempt.steps += steps
        if found is None:
            self._postpone(queued, quorum, attempt, steps)
            return
        self._queue.lanes.charge(queued.namespace, steps, now_ms)
        placed = frozenset([one.queued.uid for one in found]) if isinstance(found, list) else frozenset()
        for uid, one in attempt.places.undone.items():
            if uid not in placed:
                self._cycles.undo(one.queued, one.queued.runner, one.cycle, one.node)
        tried = Tried(queued, quorum.ready, steps, attempt.steps)
        if isinstance(found, list):
            self._cycles.commit(tried, found)
            return
        speaks = found.unfit.queued if isinstance(found, MakeRoom) else found.queued
        tried = structs.replace(tried, representatives=attempt.representatives(speaks))
        if isinstance(found, Unfit):
            self._reject(quorum, tried, found, group)
        elif isinstance(found, MakeRoom):
            self._make_room(quorum, tried, found)
        else:
            assert found.failure is not None
            self._cycles.fail(tried, found.queued, found.failure, _unplaced(quorum, found, group))

    def _may_make_room(self, quorum: Quorum, group: PodGroup | None) -> bool:
        """Whether others may be removed for it. What a PodGroup says counts before what its pods say."""
        if any(self._cycles.preemptions.records.get(one.uid) is not None for one in quorum.ready):
            return False
        said = group.preemption_policy if group is not None else None
        return NEVER not in ([said] if said else [one.pod.spec.preemption_policy for one in quorum.ready])

    def _postpone(self, queued: QueuedPod, quorum: Quorum, attempt: GroupAttempt, steps: int) -> None:
        """The search goes on in a later turn; where it takes long, say so."""
        now_ms = self._ground.timers.now_ms
        rest_ms = self._queue.postponed(queued, now_ms, steps=steps)
        attempt.rests = queued.rests
        self._searches[quorum.key] = attempt
        if len(self._searches) > _ATTEMPTS_MAX:
            self._searches.popitem(last=False)
        if rest_ms:
            attempt.rests_until_ms = now_ms + rest_ms
        elif attempt.is_reported or now_ms - attempt.begun_ms < _SILENT_MS:
            return
        attempt.is_reported = True
        when = f"in {-(-rest_ms // 1000)}s, then less and less often" if rest_ms else "now"
        name = attempt.trying.pod.key.name
        text = (
            self._cycles.message("")
            + " "
            + GOES_ON.format(quorum.key, len(attempt.places.by_pod), quorum.needed, name, when)
        )
        for one in quorum.ready:
            self._conditions.report(one.pod, Refusal(UNSCHEDULABLE, text))

    def _wait(self, queued: QueuedPod, text: str) -> None:
        """It is not tried now."""
        self._queue.rejected(queued, frozenset({GANG_SCHEDULING}), None, self._ground.timers.now_ms)
        self._conditions.report(queued.pod, Refusal(UNSCHEDULABLE, self._cycles.message(text)))

    def _wait_for_others(self, queued: QueuedPod, key: GroupKey, declared: int) -> None:
        """Pods of its gang exist that cannot be tried yet; the last of them that can tries all. Said if that lasts."""
        self._queue.rejected(queued, frozenset({GANG_SCHEDULING}), None, self._ground.timers.now_ms)
        self._cycles.say_later(queued, partial(self._say_what_lacks, queued, key, declared))

    def _say_what_lacks(self, queued: QueuedPod, key: GroupKey, declared: int) -> None:
        quorum = self._count(key, queued, declared)  # others may have come meanwhile
        if quorum.missing > 0:
            self._conditions.report(queued.pod, Refusal(UNSCHEDULABLE, self._cycles.message(self._lacks(quorum))))

    def _lacks(self, quorum: Quorum) -> str:
        """What keeps a group from being tried: pods that do not exist, or the first that does, and why it waits."""
        absent = quorum.missing - len(quorum.others)
        if absent > 0:
            return waiting_text(absent, quorum.key, quorum.min_count)
        pod = min(quorum.others, key=lambda one: one.key)
        more = f" and {len(quorum.others) - 1} more" if len(quorum.others) > 1 else ""
        return f"pod {pod.key.name}{more} of group {quorum.key} cannot be tried yet: {self._keeps_out(pod)}"

    def _keeps_out(self, pod: Pod) -> str:
        queued = self._queue.find(pod.uid)
        if queued is None:
            return f"it is for the scheduler {pod.spec.scheduler_name}"
        status = queued.runner.pre_enqueue(pod, self._ground.view)
        return status.message if status.is_rejection else "its last attempt has not ended"

    def _count(self, key: GroupKey, tried: QueuedPod, declared: int) -> Quorum:
        placed = living = 0
        ready: list[QueuedPod] = []
        others: list[Pod] = []
        for uid in self._store.gangs.of(key):
            pod = self._store.pods[uid]
            is_placed = pod.node_name is not None or self._store.node_of(uid) is not None
            if not counts(pod, is_placed=is_placed):
                continue
            living += 1
            placed += is_placed
            queued = self._queue.find(uid)
            if not is_placed and queued is not None and (queued is tried or queued.place in _TRIED):
                ready.append(queued)
            elif not is_placed:
                others.append(pod)
        ready.sort(key=lambda one: (-one.priority, one.first_active_ms, one.pod.key))
        return Quorum(key, declared or living, placed, tuple(ready), tuple(others))

    def _reject(self, quorum: Quorum, tried: Tried, unfit: Unfit, group: PodGroup | None) -> None:
        """Not enough of them fit."""
        count, plugins = _count_text(quorum, unfit), frozenset(tried.given.runner.plugins)
        if self._cycles.is_in_vain(tried, f"{unfit.message} {count}") or self._cycles.reject(tried, plugins) is None:
            return
        reason = Refusal(UNSCHEDULABLE, f"{unfit.message} (pod {unfit.queued.pod.key.name}) {count}")
        self._group_conditions.report(tried.given.pod, reason)
        mates = [(one, reason) for one in quorum.ready if one is not unfit.queued]
        sentence = Refusal(UNSCHEDULABLE, f"{unfit.message} {count}")
        unplaced = structs.replace(_unplaced(quorum, unfit, group), nowhere=unfit.nowhere)
        self._cycles.causes.report_group(unfit.queued, sentence, unplaced, mates)

    def _make_room(self, quorum: Quorum, tried: Tried, found: MakeRoom) -> None:
        """Others are removed for them; all of them wait for that."""
        rooms, to = [one for _, one in found.rooms], tried.given.pod.key.namespace
        going = making_room_for_group(rooms, to=to, is_137=self._ground.view.features.has_137_semantics)
        why = Refusal(UNSCHEDULABLE, f"{found.unfit.message} {_count_text(quorum, found.unfit)} {going}")
        self._queue.tallies.preemptions.attempts += 1
        self._cycles.make_room(tried, found.rooms, frozenset(tried.given.runner.plugins), why)


def _most_together(queued: QueuedPod) -> int:
    """kube-scheduler has no such limit: it tries each pod once, so that a search takes no longer with more of them."""
    return GANG_PODS_MAX if queued.runner.profile.places_jointly else GANG_MEMBERS_MAX


def _unplaced(quorum: Quorum, refused: Unfit | Stopped, group: PodGroup | None) -> UnplacedGroup:
    placed = refused.beside.by_pod if refused.beside is not None else {}
    others = tuple([one.pod for one in quorum.ready if one is not refused.queued and one.uid not in placed])
    topology_key = group.topology_key or "" if group is not None else ""
    fit = quorum.placed + len(placed)
    return UnplacedGroup(str(quorum.key), fit, quorum.min_count, topology_key, refused.beside, others)


def _count_text(quorum: Quorum, unfit: Unfit) -> str:
    fit = quorum.placed + unfit.placed
    return f"{fit} of the {quorum.min_count} pods of group {quorum.key} that are needed fit together."
