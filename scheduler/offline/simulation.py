"""What becomes of pods that come and go: the offline cluster and its machine, played through time.

Pods that wait are there from the beginning; arrivals bring more, with the objects they need, and take them away again
when they have run for as long as they were to. Time passes only in between: what the scheduler does takes none.

Rules of this module
  1. Deterministic: equal objects, arrivals and options give equal answers.
  2. A pod runs from its binding on. One that never gets a node waits to the end, or is taken away at once where pods
     are offered once.
  3. A pod that is gone gives back what it had, as the claim controller and the kubelet would have done by then.

Not here: objects at the beginning (`offline_cluster`), deciding (`verdicts`), files and tables (the command).

Cost: that of the scheduler's decisions, and about 1 ms for what they write.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from functools import partial
from typing import Any, Final, NamedTuple

from scheduler.embedded.kinds.catalog import CLAIM, POD
from scheduler.embedded.server.object_store import Change, ChangeType, Stored
from scheduler.offline.alike import Maker, maker_of
from scheduler.offline.leaving import leave
from scheduler.offline.offline_cluster import OfflineCluster, SourceObject
from scheduler.offline.reasons import NodeGroup
from scheduler.offline.utilization import Utilization, utilization
from scheduler.offline.verdicts import Answers, PodResult, Run, devices_of

_SETTLE_MS: Final = 12_000
"""After the last event: the longest back-off of a pod is 10 s."""


class Arrival(NamedTuple):
    """Objects that come together: pods, and what only they need.

    Attributes:
        at_s: When, in seconds from the beginning.
        for_s: How long each pod runs once it is bound; None: to the end.
    """

    at_s: Fraction
    for_s: Fraction | None
    objects: tuple[SourceObject, ...]


@dataclass(slots=True)
class Played:
    """One pod's way through the simulation; times in seconds from the beginning.

    Attributes:
        outcome: At the end; FITS for every pod that was bound, also when it has ended since.
        reason: Why it has no node, or no devices on the node that it was put on.
        refusals: Why nodes refuse it at the end, where that was asked.
        is_of_daemon_set: It belongs to a node, and comes and goes with it.
    """

    namespace: str
    name: str
    uid: str
    at_s: Fraction
    bound_s: Fraction | None = None
    ended_s: Fraction | None = None
    node: str = ""
    devices: list[dict[str, Any]] = field(default_factory=list)
    outcome: PodResult = PodResult.UNKNOWN
    reason: str = ""
    refusals: Sequence[NodeGroup] = ()
    is_of_daemon_set: bool = False

    @property
    def has_place(self) -> bool:
        """Whether it got a node, though its driver may not be done."""
        return self.bound_s is not None or self.outcome is PodResult.WAITS


class Sample(NamedTuple):
    """A moment: how many pods waited, and what was given out of each device class."""

    at_s: Fraction
    waiting: int
    allocated: Mapping[str, Utilization]


@dataclass(slots=True)
class Simulated:
    """The result.

    Attributes:
        answers: The machine at the end, and what it said.
        pods: All that waited or came, in that order.
        allocated: Of each device class, at the end.
        end_s: When nothing was left to happen.
        is_whole: Whether it was played to the end, and not only until its turns were used up.
        over_time: The moments that were asked for, the first and the last among them.
        notes: What is worth knowing about the question.
    """

    answers: Answers
    pods: list[Played]
    allocated: dict[str, Utilization]
    end_s: Fraction
    problems: list[str]
    is_whole: bool
    over_time: list[Sample] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def placed(self) -> int:
        return sum(pod.has_place for pod in self.pods)

    @property
    def refused(self) -> int:
        return len(self.pods) - self.placed

    def alike(self) -> list[tuple[Maker, list[Played]]]:
        """Pods that were not bound: those of one owner and one reason together."""
        found: dict[tuple[str, str], tuple[Maker, list[Played]]] = {}
        for pod in self.pods:
            if pod.bound_s is None:
                maker = maker_of((pod.namespace, pod.name), pod.uid, self.answers.machine)
                like = maker.edited, maker.without_names(pod.reason or pod.outcome)
                found.setdefault(like, (maker, []))[1].append(pod)
        return [*found.values()]


class Simulation:
    """One cluster, played once.

    Args:
        run: Of the cluster; nothing was observed yet.
        only: Namespace and name of the pods to play of those that wait at the beginning; None: all.
        is_offered_once: Pods that arrive and do not fit at once are taken away.
    """

    def __init__(
        self,
        cluster: OfflineCluster,
        run: Run,
        *,
        only: Collection[tuple[str, str]] | None = None,
        is_offered_once: bool = False,
    ) -> None:
        self._cluster: Final = cluster
        self._run: Final = run
        self._only: Final = only
        self._is_offered_once: Final = is_offered_once
        self._begin_ms: Final = cluster.now_ms
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers: Final = itertools.count()
        self._pods: Final[dict[str, Played]] = {}
        self._for_s: Final[dict[str, Fraction]] = {}
        self._brought: Final[dict[str, list[tuple[str, str]]]] = {}  # claims that came with a pod, by its uid
        self._new: list[Stored] = []
        self._samples: Final[list[Sample]] = []
        self._is_sampled = False

    def play(
        self, arrivals: Sequence[Arrival], *, samples: int = 0, on_arrival: Callable[[], None] = lambda: None
    ) -> Simulated:
        """Play it to the end.

        Args:
            samples: About how many moments to keep.
            on_arrival: Called after each arrival, for a progress bar.
        """
        for pod in self._cluster.stored_pods():
            if not pod.obj["spec"].get("nodeName") and (self._only is None or (pod.namespace, pod.name) in self._only):
                self._expect(pod, Fraction(0))
        self._cluster.api.store.listen(self._notice)
        self._run.start()
        for arrival in arrivals:
            at_ms = self._begin_ms + round(arrival.at_s * 1000)
            self._at(at_ms, partial(self._arrive, arrival, on_arrival))
        self._is_sampled = bool(samples)
        # A pod comes; one that runs for a time is deleted, and then gone.
        events = sum(1 if arrival.for_s is None else 3 for arrival in arrivals)
        self._pass(sample_every=-(-events // samples) if samples else 0)
        return self._result()

    def _at(self, at_ms: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (at_ms, next(self._numbers), action))

    def _pass(self, *, sample_every: int) -> None:
        """Let time pass until nothing is left to happen."""
        machine, cluster = self._run.answers.machine, self._cluster
        happened = itertools.count(1)
        self._run.until(cluster.now_ms)
        end_ms = cluster.now_ms + _SETTLE_MS
        while self._run.turns_left:
            event_ms = self._events[0][0] if self._events else None
            end_ms = end_ms if event_ms is None else event_ms + _SETTLE_MS
            deadline_ms = machine.next_deadline_ms()
            if deadline_ms is not None and deadline_ms <= (end_ms if event_ms is None else event_ms):
                self._run.until(deadline_ms)
            elif event_ms is None:
                return
            else:
                cluster.now_ms = max(cluster.now_ms, event_ms)
                heapq.heappop(self._events)[2]()
                self._run.until(cluster.now_ms)
                if sample_every and (not self._samples or next(happened) % sample_every == 0):
                    self._sample()

    def _sample(self) -> None:
        waiting = sum(pod.bound_s is None and pod.ended_s is None for pod in self._pods.values())
        self._samples.append(Sample(self._time_s(), waiting, utilization(self._run.answers.machine)))

    def _time_s(self) -> Fraction:
        return Fraction(self._cluster.now_ms - self._begin_ms, 1000)

    # -- what happens ------------------------------------------------------------------------------

    def _notice(self, kind_id: str, change: Change) -> None:
        """A pod was bound, or is being deleted, or has come."""
        if kind_id != POD.kind_id:
            return
        pod, played = change.current, self._pods.get(change.current.uid)
        if change.type is ChangeType.ADDED:
            self._new.append(pod)
        if played is None:
            return
        if change.type is ChangeType.DELETED:
            played.ended_s = self._time_s() if played.ended_s is None else played.ended_s
            return
        node, deleted = str(pod.obj["spec"].get("nodeName") or ""), pod.obj["metadata"].get("deletionTimestamp")
        if node and played.bound_s is None:
            played.node, played.bound_s = node, self._time_s()
            if (for_s := self._for_s.get(pod.uid)) is not None:
                self._at(self._cluster.now_ms + round(for_s * 1000), lambda: self._end(pod.uid))
        if deleted and played.ended_s is None:
            played.ended_s = self._time_s()
            gone_ms = round(datetime.fromisoformat(str(deleted)).timestamp() * 1000)
            self._at(max(gone_ms, self._cluster.now_ms), lambda: self._end(pod.uid))

    def _expect(self, pod: Stored, at_s: Fraction) -> None:
        owners = pod.obj["metadata"].get("ownerReferences") or ()
        is_daemon = any(owner.get("controller") and owner["kind"] == "DaemonSet" for owner in owners)
        self._pods[pod.uid] = Played(pod.namespace, pod.name, pod.uid, at_s, is_of_daemon_set=is_daemon)

    def _arrive(self, arrival: Arrival, on_arrival: Callable[[], None]) -> None:
        self._new = []
        self._cluster.add(arrival.objects)
        claims = [
            (str(one.obj["metadata"].get("namespace") or "default"), str(one.obj["metadata"]["name"]))
            for one in arrival.objects
            if one.obj.get("kind") == CLAIM.kind
        ]
        new, self._new = self._new, []
        for pod in new:
            self._expect(pod, arrival.at_s)
            self._brought[pod.uid] = claims
            if arrival.for_s is not None:
                self._for_s[pod.uid] = arrival.for_s
        self._run.observe_changes()
        if self._is_offered_once:
            self._run.until(self._cluster.now_ms)
            for pod in new:
                played = self._pods[pod.uid]
                if played.bound_s is None:
                    self._judge(played)
                    if played.outcome is not PodResult.WAITS:
                        self._end(pod.uid)
        on_arrival()

    def _end(self, uid: str) -> None:
        """The pod is gone, and what it had is given back."""
        played = self._pods[uid]
        stored = self._cluster.api.store.get(POD.kind_id, played.namespace, played.name)
        if stored is None or stored.uid != uid:
            return
        if played.bound_s is not None:
            self._judge(played)
        leave(self._cluster, stored, self._brought.pop(uid, []))
        self._run.observe_changes()

    # -- the result --------------------------------------------------------------------------------

    def _judge(self, played: Played) -> None:
        """What the scheduler says of a pod that is there."""
        pod = self._cluster.api.find(POD.kind_id, played.namespace, played.name)
        if pod is None or pod["metadata"]["uid"] != played.uid:
            return
        verdict = self._run.verdict(pod)
        played.outcome, played.reason = verdict.outcome, verdict.reason
        played.devices = devices_of(self._run.answers, verdict)
        played.node = played.node or verdict.node

    def _result(self) -> Simulated:
        for played in self._pods.values():
            if played.ended_s is None:
                self._judge(played)
            if played.bound_s is not None:
                played.outcome, played.reason = PodResult.FITS, ""
        self._add_stranded()
        for problem in self._cluster.loaded.problems:
            if problem.pod is not None and (self._only is None or problem.pod in self._only):
                reason = f"the API server refuses the pod: {problem.text}"
                refused = Played(*problem.pod, "", Fraction(0), outcome=PodResult.REFUSED, reason=reason)
                self._pods[f"refused {len(self._pods)}"] = refused
        problems = [*map(str, self._cluster.loaded.problems), *self._run.answers.left_out.texts]
        if self._is_sampled:
            self._sample()
        allocated = utilization(self._run.answers.machine)
        pods = list(self._pods.values())
        is_whole = bool(self._run.turns_left)
        notes = list(self._cluster.loaded.notes)
        return Simulated(self._run.answers, pods, allocated, self._time_s(), problems, is_whole, self._samples, notes)

    def _add_stranded(self) -> None:
        """Pods that somebody put on a node without their devices: they wait for ever."""
        for pod in self._cluster.stored_pods() if self._only is None else ():
            if pod.uid not in self._pods and self._run.verdict(pod.obj).outcome is PodResult.UNSCHEDULABLE:
                self._expect(pod, Fraction(0))
                self._judge(self._pods[pod.uid])
