"""Devices that another claim was given too: conflicts are found, counted and reported, and our claim yields if it can.

Rules of this module
  1. Every allocation that we did not decide is checked as soon as it is observed. A conflict is reported once: an event
     on both claims, and a count. A conflict between two claims of other schedulers is only counted, until a pod of ours
     uses one of them; a conflict with a claim of ours that is not stored yet is reported once that is stored.
  2. Ours yields (`withdrawals`): the binding cycle is given up and the allocation withdrawn. Between two claims of ours
     one yields.
  3. What a bound pod uses stays as it is and is only reported.
  4. Nothing is concluded before everything has been listed: what decides it may not be known yet. What was allocated
     before is reviewed then, `_REVIEWED_MAX` claims in a tick, before any pod is tried.

Not here: which claims were given the same (`double_allocations`), who relies on a claim (`withdrawals`).

See docs/adr/0010-several-schedulers.md.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from itertools import islice
from typing import Final

from scheduler.core.binding.binding_cycle import BindingCycles
from scheduler.core.binding.withdrawals import Use, Withdrawals
from scheduler.core.ground.indexes import drop
from scheduler.core.state.double_allocations import Rival
from scheduler.core.state.ground import Ground, Part
from scheduler.core.state.store import claims_of
from scheduler.framework.status import Status
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import ClaimKey, ClaimUid
from scheduler.model.objects import Pod
from scheduler.why.say import Reader, told

REASON: Final = "DeviceConflict"
_REVIEWED_MAX: Final = 1_000


class Fate(Enum):
    """What became of a conflict, for metrics."""

    WITHDRAWN = "withdrawn"  # ours was withdrawn
    BOUND = "bound"  # ours is used by a bound pod, or by one whose binding is under way
    FOREIGN = "foreign"  # neither claim is used by a pod of ours


class DeviceConflicts(Part):
    """Finds conflicts, reports them, and makes ours yield."""

    def __init__(self, ground: Ground, withdrawals: Withdrawals, binding_cycles: BindingCycles) -> None:
        super().__init__(ground)
        self._withdrawals: Final = withdrawals
        self._binding_cycles: Final = binding_cycles
        self._unreviewed: Final[dict[ClaimUid, None]] = {}
        # Conflicts between other schedulers' claims: counted, not reported. Maps each claim to its rivals.
        self._unreported: Final[dict[ClaimUid, dict[ClaimUid, None]]] = {}
        # Reserved for pods that are not known, so nothing was withdrawn; checked again when the claim changes.
        self._left: Final[dict[ClaimUid, None]] = {}
        self._is_listed = False
        self.counts: Final[Counter[tuple[str, Fate]]] = Counter()
        """Conflicts seen so far, by what was given twice ("device", "counter", "capacity") and what became of ours.

        A conflict between other schedulers' claims counts again when a pod of ours comes to use one of them.
        """

    def all_listed(self) -> None:
        """Everything that exists has been observed."""
        self._is_listed = True
        self.review()

    @property
    def is_under_way(self) -> bool:
        """Whether some of what was listed has not been reviewed."""
        return self._is_listed and bool(self._unreviewed)

    def allocation_observed(self, claim: ClaimUid) -> None:
        """Somebody, perhaps an earlier life of ours, has allocated `claim`."""
        self._unreviewed[claim] = None
        if self._is_listed:
            self.review()

    def claim_observed(self, claim: ResourceClaim) -> None:
        """A claim has changed, and nobody but us has allocated it."""
        uid = claim.uid
        if uid in self._withdrawals.unstored and claim.allocation is not None:
            del self._withdrawals.unstored[uid]
            self._report_stored(claim)
        if uid in self._left and self._withdrawals.use_of(claim, except_pod=None) is not Use.UNSEEN:
            del self._left[uid]
            self._withdrawals.withdraw_unused((claim.key,))

    def _report_stored(self, ours: ResourceClaim) -> None:
        """What we decided is stored although its pod was given up."""
        for rival in self._overlay.double_allocations.rivals(ours.uid):
            theirs = self._store.claims.get(rival.claim)
            if theirs is not None and theirs.allocation is not None:
                self._report(ours, theirs, rival.what, Fate.WITHDRAWN)
                self._report(theirs, ours, rival.what, None)

    def claim_gone(self, claim: ClaimUid) -> None:
        """Nothing is in conflict with `claim` any more."""
        self._unreviewed.pop(claim, None)
        self._withdrawals.unstored.pop(claim, None)
        self._left.pop(claim, None)
        for other in tuple(self._unreported.get(claim, ())):
            self._forget_unreported(claim, other)

    def pod_observed(self, pod: Pod) -> None:
        """A pod of ours, perhaps a new one: conflicts of claims that it uses concern us from now on."""
        if not self._unreported or not self._is_listed:
            return
        for key in claims_of(pod):
            claim = self._store.claim(key)
            if claim is None or claim.uid not in self._unreported or not self._withdrawals.is_ours(claim):
                continue
            unreported = tuple(self._unreported[claim.uid])
            for rival in self._overlay.double_allocations.rivals(claim.uid):
                if rival.claim in unreported:
                    self._settle(claim, rival)
            self.claim_gone(claim.uid)  # the rest is over; a conflict that comes back begins with an observation

    def review(self) -> None:
        """The next claims, last come first; a conflict is settled when the other claim has been reviewed before."""
        fresh = tuple(islice(reversed(self._unreviewed), _REVIEWED_MAX))
        self._overlay.double_allocations.review(fresh)
        for uid in fresh:
            self._unreviewed.pop(uid, None)
            claim = self._store.claims.get(uid)
            for rival in self._overlay.double_allocations.rivals(uid):
                if claim is None or rival.claim in self._unreviewed:
                    continue
                if rival.claim in self._store.claims:
                    self._settle(claim, rival)
                elif (hold := self._overlay.holds.get(rival.claim)) is not None:
                    # Ours is a claim that is not created yet, or not known to be: nothing is stored for it.
                    text = self._withdrawals.text(hold.held.claim, uid, rival.what)
                    self._binding_cycles.give_up_if_unsent(hold.pod, Status.error(text))
                    self.counts[rival.kind, Fate.WITHDRAWN] += 1

    def _settle(self, seen: ResourceClaim, rival: Rival) -> None:
        other = self._store.claims[rival.claim]
        fates: dict[ClaimKey, Fate] = {}
        for claim, against in ((seen, other), (other, seen)):
            if Fate.WITHDRAWN not in fates.values() and self._withdrawals.is_ours(claim):
                fates[claim.key] = self._yield(claim, self._withdrawals.text(claim.key, against.uid, rival.what))
        fate = Fate.FOREIGN
        if fates:
            fate = Fate.WITHDRAWN if Fate.WITHDRAWN in fates.values() else Fate.BOUND
        self.counts[rival.kind, fate] += 1
        if not fates:
            self._unreported.setdefault(seen.uid, {})[other.uid] = None
            self._unreported.setdefault(other.uid, {})[seen.uid] = None
            return
        self._forget_unreported(seen.uid, other.uid)
        if other.allocation is None:
            self._withdrawals.unstored[other.uid] = None
            return
        self._report(seen, other, rival.what, fates.get(seen.key))
        self._report(other, seen, rival.what, fates.get(other.key))

    def _forget_unreported(self, one: ClaimUid, other: ClaimUid) -> None:
        drop(self._unreported, one, other)
        drop(self._unreported, other, one)

    def _yield(self, claim: ResourceClaim, text: str) -> Fate:
        use = self._withdrawals.use_of(claim, except_pod=None)
        if use is Use.UNSEEN:
            self._left[claim.uid] = None
        if use in (Use.UNSEEN, Use.CERTAIN):
            return Fate.BOUND
        pods = [pod.uid for pod in self._store.pods_using(claim.key)]
        hold = self._overlay.holds.get(claim.uid)
        if hold is not None:  # of a pod that may be gone: its writes are awaited already
            pods.append(hold.pod)
        is_given_up = False
        for uid in pods:
            is_given_up |= self._binding_cycles.give_up_if_unsent(uid, Status.error(text))
        is_withdrawn = self._withdrawals.withdraw_unused((claim.key,))
        return Fate.WITHDRAWN if is_given_up or is_withdrawn else Fate.BOUND

    def _report(self, claim: ResourceClaim, other: ResourceClaim, what: str, fate: Fate | None) -> None:
        follows = {
            Fate.WITHDRAWN: "; this claim's allocation is withdrawn, and its pod scheduled again",
            Fate.BOUND: "; its pod is bound already: delete one of the two pods, and keep schedulers apart (--nodes)",
            None: "",
        }
        who = told(other.key, "ResourceClaim", Reader(claim.key.namespace))
        note = f"{what} is given to {who} too{follows[fate]}"
        self._outbox.report_on_claim(claim, REASON, "Allocating", note)
