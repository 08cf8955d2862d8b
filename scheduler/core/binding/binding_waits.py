"""What binding cycles wait for besides answers: a change of a claim, the watch of claims, a time.

Rules of this module
  1. A cycle that waits is found by each claim that it waits for, by the revision that it awaits, and by its timer;
     `stop_waiting` forgets all three.

Not here: answers (`binding_writes`), what a cycle does when it goes on (`binding_cycle`).

Cost: O(1) for each claim waited for; O(log n) for a revision.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from scheduler.core.binding.binding import BindingCycle, Bindings
from scheduler.core.ground.indexes import drop
from scheduler.core.state.ground import Ground, Part
from scheduler.model.keys import ClaimKey, PodUid


class BindingWaits(Part):
    """Which cycles wait for what."""

    def __init__(self, ground: Ground, bindings: Bindings) -> None:
        super().__init__(ground)
        self._bindings: Final = bindings
        self._by_claim: Final[dict[ClaimKey, dict[PodUid, None]]] = {}
        self._watched_revision = 0
        # A heap by the revision they await; an entry whose cycle awaits something else by now is void.
        self._awaiting_watch: Final[list[tuple[int, PodUid]]] = []

    def by_claim(self) -> Mapping[ClaimKey, Mapping[PodUid, None]]:
        """Which pods wait for which claims (for `invariants`)."""
        return self._by_claim

    def sleep(self, binding: BindingCycle, claims: tuple[ClaimKey, ...]) -> None:
        """Wait until one of these claims changes."""
        binding.awakened_by = claims
        for key in claims:
            self._by_claim.setdefault(key, {})[binding.uid] = None

    def set_timer(self, binding: BindingCycle, deadline_ms: int, action: Callable[[BindingCycle], None]) -> None:
        """Wait until a time, in the place of an earlier one."""
        self._timers.cancel(binding.timer)
        binding.timer = self._timers.at(deadline_ms, partial(action, binding))

    def needs_watch(self, binding: BindingCycle, claims: tuple[ClaimKey, ...]) -> bool:
        """Whether the watch has not reached these claims as they are known; then the cycle waits until it has.

        The watch has not reached our own write yet, whose answer we have. Others may have written before it; the cycle
        waits until that has been observed.
        """
        stored = [self._store.claim(key) for key in claims]
        revision = max([claim.revision for claim in stored if claim is not None], default=0)
        if revision <= self._watched_revision:
            return False
        binding.awaits_revision = revision
        heapq.heappush(self._awaiting_watch, (revision, binding.uid))
        return True

    def stop_waiting(self, binding: BindingCycle) -> None:
        """Forget what the cycle waits for."""
        self._timers.cancel(binding.timer)
        binding.timer = None
        for key in binding.awakened_by:
            drop(self._by_claim, key, binding.uid)
        binding.awakened_by = ()
        binding.awaits_revision = None

    def woken_by_claim(self, key: ClaimKey) -> Iterable[BindingCycle]:
        """The cycles that wait for a change of this claim, each when the ones before it have been woken."""
        waiting = self._by_claim.get(key)
        return self._asleep(key, tuple(waiting)) if waiting is not None else ()

    def _asleep(self, key: ClaimKey, waiting: Iterable[PodUid]) -> Iterator[BindingCycle]:
        for uid in waiting:
            binding = self._bindings.get(uid)
            if binding is not None and key in binding.awakened_by:
                yield binding

    def woken_by_deletion(self, key: ClaimKey) -> Iterator[BindingCycle]:
        """The same, and the cycles that await a revision of the claim: the watch may never come to it."""
        yield from self.woken_by_claim(key)
        for uid in self._store.users_of(key):
            binding = self._bindings.get(uid)
            if binding is not None and binding.awaits_revision is not None:
                yield binding

    def woken_by_watch(self, revision: int) -> Iterable[BindingCycle]:
        """The cycles that awaited what the watch of claims has come to: what was stored before it has been observed."""
        if revision <= self._watched_revision:
            return ()
        self._watched_revision = revision
        return self._awaiting_until(revision) if self._awaiting_watch else ()

    def _awaiting_until(self, revision: int) -> Iterator[BindingCycle]:
        while self._awaiting_watch and self._awaiting_watch[0][0] <= revision:
            awaited, uid = heapq.heappop(self._awaiting_watch)
            binding = self._bindings.get(uid)
            if binding is not None and binding.awaits_revision == awaited:
                yield binding
