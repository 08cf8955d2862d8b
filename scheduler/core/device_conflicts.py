"""What follows when somebody else was given what we give out: it is reported, and ours is taken back while it can be.

Rules of this module
  1. A contest is looked for as soon as somebody's allocation is seen, and reported once: an event on both claims, and
     a count. One between two claims of others is only counted, until a pod of ours uses one of them; one with a claim
     of ours that is not stored, until it is.
  2. Ours yields whenever it can: other schedulers do not. It can while no pod that uses the claim is bound or about to
     be: then the binding cycle is given up, and the allocation removed, provided the claim has not changed meanwhile.
  3. What is in use by a bound pod stays as it is and is only reported. Between two claims of ours one yields. What is
     reserved for a pod that is not being bound here may be what another process of our name is binding it with: that
     is taken back behind a fence (`taking_back`), and not joined.
  4. Before everything has been listed nothing is concluded: what is needed to tell may not be known yet.

Not here: who was given the same (`double_allocations`), how a write becomes certain (`claim_writes`; until then its
devices stay held).

See docs/adr/0010-several-schedulers.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from enum import Enum
from functools import partial
from typing import Final

from scheduler.core.binding import Stage
from scheduler.core.binding_cycle import BindingCycles
from scheduler.core.claim_overlay import ClaimOverlay, Hold
from scheduler.core.claim_writes import ClaimWrites, Overtaken, Settlement
from scheduler.core.double_allocations import Rival
from scheduler.core.inputs import WriteConflicted
from scheduler.core.outbox import Outbox
from scheduler.core.store import Store, claims_of
from scheduler.core.taking_back import TakingBack, reason_of
from scheduler.framework.decisions import Decision, WriteClaimStatus
from scheduler.framework.status import Status
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import ClaimKey, ClaimUid, PodUid
from scheduler.model.objects import Pod

REASON: Final = "DeviceConflict"


class Fate(Enum):
    """What became of a conflict, for metrics."""

    WITHDRAWN = "withdrawn"  # ours was taken back
    BOUND = "bound"  # ours is used by a bound pod, or by one whose binding is under way
    FOREIGN = "foreign"  # neither claim is used by a pod of ours


class _Use(Enum):
    NONE = 0
    RESERVED = 1  # for a pod of ours that is not being bound here: by another process of our name, perhaps
    SOON = 2  # by a pod of ours that is being bound and can still be held back
    UNSEEN = 3  # reserved for a pod that is gone or not told yet: not to be taken away, and not to be joined
    CERTAIN = 4


class DeviceConflicts:
    """Looks for contests, reports them, and makes ours yield."""

    bindings: BindingCycles
    writes: ClaimWrites
    taking_back: TakingBack

    def __init__(self, store: Store, overlay: ClaimOverlay, outbox: Outbox, scheduler_names: Container[str]) -> None:
        self._store: Final = store
        self._overlay: Final = overlay
        self._outbox: Final = outbox
        self._scheduler_names: Final = scheduler_names
        self._unreviewed: Final[dict[ClaimUid, None]] = {}
        # DoubleAllocations that are counted and told to nobody: for each claim the others.
        self._untold: Final[dict[ClaimUid, dict[ClaimUid, None]]] = {}
        self._unstored: Final[dict[ClaimUid, None]] = {}  # of ours that yield and are not stored, or not yet
        self._left: Final[dict[ClaimUid, None]] = {}  # reserved for pods that are not known: looked at when they change
        self._is_listed = False
        self.counts: Final[Counter[tuple[str, Fate]]] = Counter()
        """Conflicts seen so far, by what is contested ("device", "counter", "capacity") and what became of ours.

        One between claims of others counts again when a pod of ours comes to use one of them.
        """

    def connect(self, *, writes: ClaimWrites, bindings: BindingCycles, taking_back: TakingBack) -> None:
        """Set those that contests concern."""
        self.writes, self.bindings, self.taking_back = writes, bindings, taking_back

    def all_listed(self) -> None:
        """Everything that exists has been told."""
        self._is_listed = True
        self._review()

    def allocation_seen(self, claim: ClaimUid) -> None:
        """Somebody, perhaps an earlier life of ours, has allocated `claim`."""
        self._unreviewed[claim] = None
        if self._is_listed:
            self._review()

    def claim_observed(self, claim: ResourceClaim) -> None:
        """A claim has changed, and nobody but us has allocated it."""
        uid = claim.uid
        if uid in self._unstored and claim.allocation is not None:
            del self._unstored[uid]
            self._tell_all(claim)
        if uid in self._left and self._use(claim, except_pod=None) is not _Use.UNSEEN:
            del self._left[uid]
            self.withdraw_idle((claim.key,))

    def _tell_all(self, ours: ResourceClaim) -> None:
        """What we decided is stored although its pod was given up."""
        for rival in self._overlay.double_allocations.rivals(ours.uid):
            theirs = self._store.claims.get(rival.claim)
            if theirs is not None and theirs.allocation is not None:
                self._tell(ours, theirs, rival.what, Fate.WITHDRAWN)
                self._tell(theirs, ours, rival.what, None)

    def given_up(self, claims: Iterable[ClaimKey]) -> None:
        """A pod that uses `claims` is not being bound any more, and nothing that was sent for it can land."""
        for key in claims:
            claim = self._store.claim(key)
            if claim is not None:
                self._unstored.pop(claim.uid, None)
        self.withdraw_idle(claims)

    def claim_gone(self, claim: ClaimUid) -> None:
        """Whatever was given to `claim` is contested no more."""
        self._unstored.pop(claim, None)
        self._left.pop(claim, None)
        for other in tuple(self._untold.get(claim, ())):
            self._forget_untold(claim, other)

    def pod_seen(self, pod: Pod) -> None:
        """A pod of ours is there, perhaps new: contests of claims that it uses are ours from now on."""
        if not self._untold or not self._is_listed:
            return
        for key in claims_of(pod):
            claim = self._store.claim(key)
            if claim is None or claim.uid not in self._untold or not self._is_ours(claim):
                continue
            untold = tuple(self._untold[claim.uid])
            for rival in self._overlay.double_allocations.rivals(claim.uid):
                if rival.claim in untold:
                    self._settle(claim, rival)
            self.claim_gone(claim.uid)  # the rest is over; should it come back, its allocation is seen anew

    def is_barred(self, pod: Pod, claims: Iterable[ClaimKey]) -> Status | None:
        """Why `pod` must not be bound now although its claims are stored: a contest in which it can still yield."""
        for key in claims:
            claim = self._store.claim(key)
            if claim is None or claim.allocation is None:
                continue
            rivals = self._overlay.double_allocations.rivals(claim.uid)
            if rivals and self._use(claim, except_pod=pod.uid) is not _Use.CERTAIN:
                return Status.error(self._text(claim.key, rivals[0]))
        return None

    def withdrawals(self, pod: PodUid, claims: Iterable[ClaimKey]) -> tuple[WriteClaimStatus, ...]:
        """The writes that remove contested allocations of claims that only `pod`, which is given up, would use."""
        found = (self._withdrawal(key, except_pod=pod) for key in claims)
        return tuple(write for write in found if write is not None)

    def withdraw_idle(self, claims: Iterable[ClaimKey]) -> bool:
        """Remove contested allocations of claims that no pod is bound or being bound with; whether there was one."""
        found = False
        for key in claims:
            if self._withdrawal(key, except_pod=None) is not None:
                found = True
                claim = self._store.claim(key)
                assert claim is not None
                failure = Status.error(self._text(key, self._overlay.double_allocations.rivals(claim.uid)[0]))
                derive = partial(self._withdrawal_of_idle, key)
                self.taking_back.prepare((key,), derive, reason_of(failure), partial(self._withdraw, key))
        return found

    def _withdrawal_of_idle(self, key: ClaimKey) -> tuple[WriteClaimStatus, ...]:
        write = self._withdrawal(key, except_pod=None)
        return (write,) if write is not None else ()

    def _withdraw(self, key: ClaimKey, decisions: tuple[Decision, ...] | None) -> None:
        for write in decisions or ():
            assert isinstance(write, WriteClaimStatus)
            self.writes.send(write, None, partial(self._withdrawn, key))

    def _withdrawn(self, key: ClaimKey, settlement: Settlement) -> None:
        # Somebody was faster with another change: look again. What was refused is left to the next attempt of its pod.
        if isinstance(settlement, WriteConflicted | Overtaken):
            self.withdraw_idle((key,))

    def _review(self) -> None:
        fresh = tuple(claim for claim in self._unreviewed if claim in self._store.claims)
        self._unreviewed.clear()
        contests = self._overlay.double_allocations
        contests.review(fresh)
        told: set[ClaimUid] = set()
        for claim in fresh:
            told.add(claim)
            for rival in contests.rivals(claim):
                if rival.claim in told:
                    continue
                if rival.claim in self._store.claims:
                    self._settle(self._store.claims[claim], rival)
                elif (hold := self._overlay.holds.get(rival.claim)) is not None:
                    self._yield_unborn(self._store.claims[claim], rival, hold)

    def _settle(self, seen: ResourceClaim, rival: Rival) -> None:
        other = self._store.claims[rival.claim]
        fates: dict[ClaimKey, Fate] = {}
        for claim, against in ((seen, other), (other, seen)):
            if Fate.WITHDRAWN not in fates.values() and self._is_ours(claim):
                fates[claim.key] = self._yield(claim, self._text(claim.key, Rival(against.uid, rival.kind, rival.what)))
        fate = Fate.FOREIGN
        if fates:
            fate = Fate.WITHDRAWN if Fate.WITHDRAWN in fates.values() else Fate.BOUND
        self.counts[rival.kind, fate] += 1
        if not fates:
            self._untold.setdefault(seen.uid, {})[other.uid] = None
            self._untold.setdefault(other.uid, {})[seen.uid] = None
        else:
            self._forget_untold(seen.uid, other.uid)
            if other.allocation is None:
                self._unstored[other.uid] = None
                return
            self._tell(seen, other, rival.what, fates.get(seen.key))
            self._tell(other, seen, rival.what, fates.get(other.key))

    def _forget_untold(self, one: ClaimUid, other: ClaimUid) -> None:
        for claim, against in ((one, other), (other, one)):
            others = self._untold.get(claim, {})
            others.pop(against, None)
            if not others:
                self._untold.pop(claim, None)

    def _yield_unborn(self, seen: ResourceClaim, rival: Rival, hold: Hold) -> None:
        """Ours is a claim that is not created yet, or of which that is not known: nothing is stored for it."""
        ours = hold.held
        against = Rival(seen.uid, rival.kind, rival.what)
        self.bindings.give_up_if_unsent(hold.pod, Status.error(self._text(ours.claim, against)))
        self.counts[rival.kind, Fate.WITHDRAWN] += 1

    def _is_ours(self, claim: ResourceClaim) -> bool:
        return self._overlay.is_held(claim.uid) or any(
            pod.spec.scheduler_name in self._scheduler_names for pod in self._store.pods_using(claim.key)
        )

    def _yield(self, claim: ResourceClaim, text: str) -> Fate:
        use = self._use(claim, except_pod=None)
        if use is _Use.UNSEEN:
            self._left[claim.uid] = None
        if use in (_Use.UNSEEN, _Use.CERTAIN):
            return Fate.BOUND
        is_given_up = False
        for pod in self._store.pods_using(claim.key):
            is_given_up |= self.bindings.give_up_if_unsent(pod.uid, Status.error(text))
        hold = self._overlay.holds.get(claim.uid)
        if hold is not None:  # of a pod that is gone: its writes are awaited already
            is_given_up |= self.bindings.give_up_if_unsent(hold.pod, Status.error(text))
        is_withdrawn = self.withdraw_idle((claim.key,))
        return Fate.WITHDRAWN if is_given_up or is_withdrawn else Fate.BOUND

    def _withdrawal(self, key: ClaimKey, *, except_pod: PodUid | None) -> WriteClaimStatus | None:
        claim = self._store.claim(key)
        if claim is None or claim.allocation is None or not self._overlay.double_allocations.rivals(claim.uid):
            return None
        if self._use(claim, except_pod=except_pod) not in (_Use.NONE, _Use.RESERVED):
            return None
        if self.writes.is_unsettled(key, except_owner=PodUid("")) or (except_pod is None and not self._is_ours(claim)):
            return None
        return WriteClaimStatus(key, claim.uid, claim.revision, clear_allocation=True)

    def _use(self, claim: ResourceClaim, *, except_pod: PodUid | None) -> _Use:
        """Who relies on the claim's allocation, `except_pod` left out."""
        found = 0
        users = {pod.uid: pod for pod in self._store.pods_using(claim.key)}
        for consumer in claim.reserved_for:
            if consumer.pod_uid is None:
                return _Use.CERTAIN  # of another kind
            if consumer.pod_uid not in users and consumer.pod_uid != except_pod:
                found = _Use.UNSEEN.value
        reserved = {consumer.pod_uid for consumer in claim.reserved_for}
        for uid, pod in users.items():
            if uid == except_pod:
                continue
            stage = self.bindings.stage_of(uid)
            if (pod.is_terminal or pod.node_name is not None) and uid not in reserved:
                continue  # bound past us, no kubelet gives it the devices; a reservation that comes is a new revision
            if pod.node_name is not None and not pod.is_terminal and not self.taking_back.runs_with(pod, claim):
                continue  # bound to another node than the devices': no kubelet gives it those either
            is_told_bound = uid in self._store.assumed and uid not in self.bindings
            if pod.node_name is not None or stage is Stage.BIND or is_told_bound:
                return _Use.CERTAIN
            if uid in reserved and pod.spec.scheduler_name not in self._scheduler_names:
                return _Use.CERTAIN  # its scheduler is about to bind it
            if stage is not None:
                found = max(found, _Use.SOON.value)
            elif uid in reserved:
                found = max(found, _Use.RESERVED.value)
        return _Use(found)

    def _text(self, claim: ClaimKey, rival: Rival) -> str:
        other = self._store.claims.get(rival.claim)
        return (
            f"claim {claim}: {rival.what} was given to ResourceClaim {other.key if other else rival.claim} by another "
            "scheduler at the same time"
        )

    def _tell(self, claim: ResourceClaim, other: ResourceClaim, what: str, fate: Fate | None) -> None:
        follows = {
            Fate.WITHDRAWN: "; this claim's allocation is withdrawn, and its pod scheduled again",
            Fate.BOUND: "; its pod is bound already: delete one of the two pods, and keep schedulers apart (--nodes)",
            None: "",
        }
        note = f"{what} is given to ResourceClaim {other.key} too{follows[fate]}"
        self._outbox.tell_about_claim(claim, REASON, "Allocating", note)
