"""What the scheduling queue knows of a pod, and of the group with which it waits.

      ┌───────────── PreEnqueue says no ─────────────┐
      v                                              │
    gated ─────> active ──> in flight ──rejected──> unschedulable
     ^            ^ ^  ^        │ │                   │
    add ──────────┘ │  └────────┘ └─failed─> backoff <┘ (woken before its time)
                    └─────────────────────────┘

    place          call                                              to             when
    -              add                                               active         PreEnqueue lets it in
    -              add                                               gated          PreEnqueue says no
    -              add                                               backoff        PreEnqueue fails
    gated          change, update, activate                          active         PreEnqueue lets it in by now
    active         pop, pop_searching, fly                           in flight      it is tried, alone or with its group
    in flight      postponed, returned                               active         its search goes on; it was not tried
    in flight      returned                                          gated          PreEnqueue says no by now
    in flight      rejected                                          unschedulable  it waits for a change
    in flight      failed, postponed, rest                           backoff        an error; its search rests
    in flight      remove                                            -              bound, or gone
    backoff        pop, tick, activate                               active         its time has come
    backoff        pop, fly                                          in flight      at once: nothing else is active
    backoff        pop, tick, activate                               gated          PreEnqueue says no by now
    unschedulable  change, update, activate, tick                    active         what has changed could help it
    unschedulable  change, update, activate, tick                    backoff        the same, before its time
    unschedulable  assumed, rejected, failed, remove                 active         the pod that led the others is done
    unschedulable  assumed, rejected, failed, remove                 backoff        the same, before its time
    unschedulable  pop, has_active                                   active         no place for who led: it leads
    unschedulable  pop                                               in flight      the same, and it is tried at once
    unschedulable  change, update, activate, tick                    gated          PreEnqueue says no by now
    unschedulable  fly                                               in flight      its group is tried
    active         remove                                            -              gone, or bound by somebody
    backoff        remove                                            -              the same
    gated          remove                                            -              the same
    unschedulable  remove                                            -              the same

Not here: what moves them (`scheduling_queue`).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from msgspec import Struct

from scheduler.framework.plan import PodSignature
from scheduler.framework.runner import Runner
from scheduler.model.keys import PodUid
from scheduler.model.objects import Pod

_ENTRIES_MIN: Final = 500


class Place(Enum):
    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in flight"  # popped: being tried or bound

    __hash__ = object.__hash__  # members are compared by identity, and each move is counted


class QueuedPod(Struct, eq=False):
    """One pod of ours that is not bound yet.

    Args:
        attempts: Scheduling cycles so far.
        unschedulable_count, consecutive_errors: Verdicts "unschedulable" so far, and errors since the last of them; its
            backoff follows from them.
        waits_out: Its backoff is not cut short.
        is_flushed: It is tried because nothing has woken it for long.
        first_active_ms, begun_ms: When it could first be tried, and when its last attempt began.
        cycle: The number of its last scheduling cycle, among those of all pods.
        rejecters: Names of the plugins that rejected the last attempt (or gate the pod).
        ready_ms: It is not tried before; meaningful in backoff and for a pod that is woken.
        since_ms: When it came to its place.
        ticket: Grows with every move; heap entries with an older one are void.
        group: The pods of the same signature it waits with, or leads.
        steps: What its present attempt has taken so far; 0 before the first look.
        shares: Its present attempt may take as much as that of so many pods before it rests: it is for a gang.
        cost: What the last attempt that ended took.
        rests: How often it has rested in its present attempt.
        turn: When an active pod is tried, among the pods of its priority.
        is_searching: Active, but in a lane.
        active_ticket: Grows with each pod that becomes active, and stays for the attempt, however often it pauses.
        search_signature: Its signature in its present attempt, None before it is known.
    """

    uid: PodUid
    pod: Pod
    runner: Runner
    place: Place = Place.ACTIVE
    attempts: int = 0
    unschedulable_plugins: frozenset[str] = frozenset()
    ready_ms: int = 0
    since_ms: int = 0
    ticket: int = 0
    unschedulable_count: int = 0
    consecutive_errors: int = 0
    waits_out: bool = False
    is_flushed: bool = False
    first_active_ms: int = 0
    begun_ms: int = 0
    cycle: int = 0
    group: SignatureGroup | None = None
    steps: int = 0
    shares: int = 1
    cost: int = 0
    rests: int = 0
    is_searching: bool = False
    turn: int = 0
    active_ticket: int = 0
    search_signature: PodSignature | None = None

    @property
    def namespace(self) -> str:
        return self.pod.metadata.namespace

    @property
    def priority(self) -> int:
        return self.pod.spec.priority or 0

    @property
    def all_unschedulable_plugins(self) -> frozenset[str]:
        """The plugins that rejected it, or its group since: a verdict on the leader holds for all members."""
        return (
            self.unschedulable_plugins
            if self.group is None
            else self.unschedulable_plugins | self.group.unschedulable_plugins
        )


@dataclass(slots=True, eq=False)
class SignatureGroup:
    """Unschedulable pods of one signature, rejected by Filter.

    Args:
        members: The pods that wait.
        order: Heap of the members by priority and waiting time; entries with an old ticket are void.
        leader: The member that has been woken; its attempt decides about all.
        checked_ms: When the signature was last found not to fit anywhere.
        namespaces: How many members are in each.
        sweep_at: With how many entries `order` is rid of void ones.
    """

    signature: PodSignature
    unschedulable_plugins: frozenset[str]
    members: dict[PodUid, QueuedPod] = field(default_factory=dict)
    order: list[Entry] = field(default_factory=list)
    leader: QueuedPod | None = None
    checked_ms: int = 0
    namespaces: Counter[str] = field(default_factory=Counter)
    sweep_at: int = _ENTRIES_MIN

    def push(self, queued: QueuedPod) -> None:
        """A member that waits since `queued.since_ms`."""
        heapq.heappush(self.order, Entry(-queued.priority, queued.since_ms, queued.ticket, queued))
        if len(self.order) > self.sweep_at:
            self.order = still_in(self.order)
            heapq.heapify(self.order)
            self.sweep_at = sweep_at(len(self.order))

    def first(self) -> QueuedPod | None:
        """The member to wake first."""
        return first_of(self.order)


class Entry(NamedTuple):
    """A place in a heap."""

    rank: int  # minus priority, the time to be ready, or how much it took
    order: int  # its turn, or since when it waits
    ticket: int  # grows with every move, so among equals the one that came first
    queued: QueuedPod


def still_in(entries: Iterable[Entry]) -> list[Entry]:
    """Those that are not void.

    Who only observes, as a standby, takes nothing out of a heap, and so would keep all pods it has ever seen: whoever
    puts entries in sweeps when there are more than `sweep_at` says.
    """
    return [entry for entry in entries if entry.ticket == entry.queued.ticket]


def sweep_at(size: int) -> int:
    """With how many entries to sweep again, after a sweep that left so many: so a sweep costs O(1) for each entry."""
    return max(_ENTRIES_MIN, 2 * size)


def first_of(heap: list[Entry]) -> QueuedPod | None:
    """The first pod of `heap` that is still in it."""
    while heap:
        entry = heap[0]
        if entry.ticket == entry.queued.ticket:
            return entry.queued
        heapq.heappop(heap)
    return None
