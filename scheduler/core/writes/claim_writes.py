"""Writes on claims, each driven from its sending to a known outcome.

A request that is lost may still arrive later, after a read that did not show it. Its own condition fences it:
every write expects a revision, so once the claim is observed at a larger revision, or is gone, it can never land.

Rules of this module
  1. A write without a known outcome is *doubtful*, and is sent again unchanged until its outcome is known.
  2. Its outcome is known when it is accepted; when the claim is observed past the expected revision (then it shows
     whether the write landed), or gone; or when it is refused and no earlier sending is doubtful. A conflict proves
     that some write landed, not which: the claim is read before the write counts as settled.
  3. The sender of a write is notified once, when it is settled. Nobody gives up on a write before that.
  4. While a write on a claim is not settled, nobody else may conclude from the observed claim that nothing is under
     way (`is_unsettled`): a late write could take back a reservation on which a binding relies.
  5. A create has no revision to expect; its name stands for it. It has been overtaken when a claim of that name is
     observed. While its outcome is not known it is sent again: the name makes sure that only one can land at a time.
  6. Reservations of several pods that are decided together leave as one write: a pod may join a write that only adds
     reservations and has not left yet. Each pod is notified of the outcome, and looks at the claim again.

Not here: what to write (plugins) and what follows from the outcome (`binding_cycle`).

See docs/adr/0005-held-and-doubtful-writes.md, docs/adr/0014-hold-before-uid.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from scheduler.core.ground.inputs import WriteAccepted, WriteConflicted, WriteRejected
from scheduler.core.ground.outbox import GONE, Answer
from scheduler.core.ground.timers import TimerId
from scheduler.core.reports.troubles import Troubles
from scheduler.core.state.ground import Ground
from scheduler.framework.decisions import (
    UNSENT,
    ClaimWrite,
    CreateClaim,
    DeleteClaim,
    ReadClaim,
    WriteClaimStatus,
    WriteId,
)
from scheduler.model.api_rules import RESERVED_FOR_MAX
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import ClaimKey, ClaimUid, PodUid


@dataclass(frozen=True, slots=True)
class Overtaken:
    """The claim has moved past the expected revision, or is gone: the write has landed, or never will."""


Settlement: TypeAlias = WriteAccepted | WriteConflicted | WriteRejected | Overtaken
OVERTAKEN: Final = Overtaken()


class PendingWrite(Struct, eq=False):
    """One write under way.

    Args:
        owner: The pod whose binding cycle sent it, None for one of PostFilter.
        settled: Called once with its outcome.
        joined: Other pods whose reservations it carries, and what to call for them.
        sent_as: The number of its last sending.
        is_doubtful: An earlier sending may still land, or may have landed.
        refusal: The conflict or refusal with which it is settled once the claim is observed past that revision.
        timer: Set while it waits to be sent, or the claim to be read, again.
        is_settled: Nothing more to come.
    """

    decision: ClaimWrite
    owner: PodUid | None
    settled: Callable[[Settlement], None]
    is_doubtful: bool = False
    refusal: WriteConflicted | WriteRejected | None = None
    attempts: int = 0
    sent_as: WriteId = UNSENT
    joined: tuple[tuple[PodUid, Callable[[Settlement], None]], ...] = ()
    timer: TimerId | None = None
    is_settled: bool = False


class ClaimWrites:
    """All writes on claims that are not settled yet."""

    def __init__(self, ground: Ground, troubles: Troubles, *, freed: Callable[[ClaimKey], None]) -> None:
        """`freed` is called with the claim after one of its writes was settled."""
        self._outbox: Final = ground.outbox
        self._timers: Final = ground.timers
        self._retry: Final = ground.retry
        self._store: Final = ground.store
        self._troubles: Final = troubles
        self._freed: Final = freed
        self._by_claim: Final[dict[ClaimUid, list[PendingWrite]]] = {}
        self._uids_by_key: Final[dict[ClaimKey, dict[ClaimUid, None]]] = {}

    def send(self, decision: ClaimWrite, owner: PodUid | None, settled: Callable[[Settlement], None]) -> None:
        """Send a write; `settled` is called when its outcome is known."""
        write = PendingWrite(decision, owner, settled)
        self._by_claim.setdefault(decision.uid, []).append(write)
        self._uids_by_key.setdefault(decision.claim, {})[decision.uid] = None
        self._dispatch(write)

    def may_join(self, claim: ResourceClaim) -> bool:
        """Whether one more reservation of `claim`, as it is stored, may go with the write that is about to leave."""
        return self._joinable(claim) is not None

    def join(
        self, claim: ResourceClaim, decision: WriteClaimStatus, owner: PodUid, settled: Callable[[Settlement], None]
    ) -> bool:
        """Let the write that is about to leave carry one more reservation; False when `decision` must go alone.

        Args:
            claim: What is stored, and what `decision` adds a reservation to.
        """
        write = self._joinable(claim)
        if write is None or not _only_reserves(decision, claim):
            return False
        assert isinstance(write.decision, WriteClaimStatus)
        known, wanted = write.decision.reserved_for or (), decision.reserved_for or ()
        added = tuple(consumer for consumer in wanted if consumer not in known)
        write.decision = msgspec.structs.replace(write.decision, reserved_for=known + added)
        write.joined += ((owner, settled),)
        self._outbox.amend(write.sent_as, write.decision)
        return True

    def _joinable(self, claim: ResourceClaim) -> PendingWrite | None:
        """The only write on the claim, if it has not left, only reserves, and has room for more."""
        if len(self._uids_by_key.get(claim.key, ())) != 1:
            return None
        writes = self._by_claim.get(claim.uid, ())
        if len(writes) != 1:
            return None
        (write,) = writes
        decision = write.decision
        if not isinstance(decision, WriteClaimStatus) or not _only_reserves(decision, claim) or write.owner is None:
            return None
        has_room = len(decision.reserved_for or ()) < RESERVED_FOR_MAX
        return write if has_room and write.attempts == 1 and not self._outbox.has_left(write.sent_as) else None

    def is_unsettled(self, claim: ClaimKey, *, except_owner: PodUid) -> bool:
        """Whether a write on `claim` by anyone but `except_owner` may still land."""
        uids = self._uids_by_key.get(claim)
        return uids is not None and any(
            write.owner != except_owner or write.joined for uid in uids for write in self._by_claim[uid]
        )

    def is_doubtful(self, claim: ClaimUid) -> bool:
        return any(write.is_doubtful for write in self._by_claim.get(claim, ()))

    def observed(self, claim: ResourceClaim) -> None:
        """Settle the writes that are overtaken by a claim observed at this revision."""
        for uid in tuple(self._uids_by_key.get(claim.key, ())):
            self._settle_overtaken(uid)

    def deleted(self, claim: ClaimUid) -> None:
        """Settle the writes that wait to be sent to a claim that is gone."""
        self._settle_overtaken(claim)

    def pending(self) -> Iterator[PendingWrite]:
        """All unsettled writes, oldest first for each claim."""
        for writes in self._by_claim.values():
            yield from writes

    def _settle_overtaken(self, claim: ClaimUid) -> None:
        for write in tuple(self._by_claim.get(claim, ())):
            # A write in flight is left alone: its answer is coming and says more.
            if (write.timer is not None or write.refusal is not None) and self._is_overtaken(write):
                self._settle(write, write.refusal or OVERTAKEN)

    def _is_overtaken(self, write: PendingWrite) -> bool:
        """Whether the claim is observed past the expected revision, or gone: the write cannot land any more."""
        decision = write.decision
        if isinstance(decision, CreateClaim):
            return self._store.claim(decision.claim) is not None
        claim = self._store.claims.get(decision.uid)
        return claim is None or claim.revision > decision.expect_revision

    def _dispatch(self, write: PendingWrite) -> None:
        write.timer = None
        write.attempts += 1
        write.sent_as = self._outbox.ask(write.decision, partial(self._answered, write))

    def _answered(self, write: PendingWrite, answer: Answer) -> None:
        match answer:
            case WriteAccepted() if isinstance(write.decision, DeleteClaim):
                # Accepted is not gone yet: somebody else's finalizer may keep it. Look.
                self._await_sight(write, WriteRejected(answer.id, GONE, "NotFound", "deleted"))
            case WriteAccepted():
                self._settle(write, answer)
            case WriteConflicted():
                self._await_sight(write, answer)
            case WriteRejected(code=code) if code == GONE:
                if isinstance(write.decision, CreateClaim):
                    self._settle(write, answer)  # its namespace is gone: nothing can land there
                else:
                    self._await_sight(write, answer)
            case WriteRejected():
                if write.is_doubtful or answer.is_retriable:
                    self._later(write, self._dispatch, is_hopeless=not answer.is_retriable)
                else:
                    self._settle(write, answer)
            case _:
                write.is_doubtful = True
                if self._is_overtaken(write):
                    self._settle(write, OVERTAKEN)
                else:
                    self._later(write, self._dispatch)

    def _await_sight(self, write: PendingWrite, refusal: WriteConflicted | WriteRejected) -> None:
        """The claim has moved or is gone: the write is settled as soon as that is observed."""
        if self._is_overtaken(write):
            self._settle(write, refusal)
        else:
            write.refusal = refusal
            self._read(write)

    def _read(self, write: PendingWrite) -> None:
        write.timer = None
        self._outbox.ask(ReadClaim(write.decision.claim, write.decision.uid), partial(self._claim_read, write))

    def _claim_read(self, write: PendingWrite, answer: Answer) -> None:
        if write.is_settled or write.refusal is None:
            return
        # For a create, a read that finds nothing is an answer too: the name is free.
        is_read = isinstance(answer, WriteAccepted) or (
            isinstance(write.decision, CreateClaim) and isinstance(answer, WriteRejected) and answer.code == GONE
        )
        if is_read and not write.is_doubtful:
            self._settle(write, write.refusal)  # refused for another reason than a moved revision
            return
        write.attempts += 1
        if is_read:
            write.refusal = None
        self._later(write, self._dispatch if is_read else self._read)

    def _later(self, write: PendingWrite, action: Callable[[PendingWrite], None], *, is_hopeless: bool = False) -> None:
        write.timer = self._retry(partial(action, write), write.attempts, is_hopeless=is_hopeless)

    def _settle(self, write: PendingWrite, settlement: Settlement) -> None:
        self._timers.cancel(write.timer)
        write.timer = None
        write.is_settled = True
        decision = write.decision
        writes = self._by_claim[decision.uid]
        writes.remove(write)
        if not writes:
            del self._by_claim[decision.uid]
            uids = self._uids_by_key[decision.claim]
            del uids[decision.uid]
            if not uids:
                del self._uids_by_key[decision.claim]
        if settlement is OVERTAKEN:
            self._troubles.over(decision)
        write.settled(settlement)
        for _, settled in write.joined:
            settled(settlement)
        self._freed(decision.claim)


def _only_reserves(decision: WriteClaimStatus, claim: ResourceClaim) -> bool:
    """Whether all that the write does is to add reservations to the claim as it is stored."""
    reserved, stored = decision.reserved_for, claim.reserved_for
    return (
        decision.uid == claim.uid
        and decision.expect_revision == claim.revision
        and decision.allocation is None
        and not decision.clear_allocation
        and reserved is not None
        and len(reserved) > len(stored)
        and reserved[: len(stored)] == stored
    )
