"""Writes on claims, each driven from its sending to a known outcome (`pending_writes`).

Rules of this module
  1. While a write on a claim is not settled, nobody else may conclude from the observed claim that nothing is under
     way (`is_unsettled`): a late write could take back a reservation on which a binding relies.
  2. A create has no revision to expect; its name stands for it. It has been overtaken when a claim of that name is
     observed. While its outcome is not known it is sent again: the name makes sure that only one can land at a time.
  3. Reservations of several pods that are decided together leave as one write: a pod may join a write that only adds
     reservations and has not left yet. Each pod is notified of the outcome, and looks at the claim again.

Not here: what to write (plugins) and what follows from the outcome (`binding_cycle`).

See docs/adr/0005-held-and-doubtful-writes.md, docs/adr/0014-hold-before-uid.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeGuard

import msgspec

from scheduler.core.ground.inputs import WriteAccepted, WriteRejected
from scheduler.core.ground.outbox import WriteAnswer
from scheduler.core.reports.troubles import Troubles
from scheduler.core.state.ground import Ground
from scheduler.core.writes.pending_writes import PendingWrite, PendingWrites, Settled, WriteOutcome
from scheduler.framework.decisions import ClaimWrite, CreateClaim, DeleteClaim, ReadClaim, WriteClaimStatus
from scheduler.model.api_rules import RESERVED_FOR_MAX
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import ClaimKey, PodUid


class ClaimWrites(PendingWrites[ClaimWrite]):
    """All writes on claims that are not settled yet."""

    def __init__(self, ground: Ground, troubles: Troubles, *, freed: Callable[[ClaimKey], None]) -> None:
        """`freed` is called with the claim after one of its writes was settled."""
        super().__init__(ground, troubles)
        self._freed: Final = freed

    def may_join(self, claim: ResourceClaim) -> bool:
        """Whether one more reservation of `claim`, as it is stored, may go with the write that is about to leave."""
        return self._joinable(claim) is not None

    def join(self, decision: ClaimWrite, settled: Settled, owner: PodUid) -> bool:
        """Let the write that is about to leave carry one more reservation; False when `decision` must go alone."""
        claim = self._store.claim(decision.claim)
        if claim is None or not _only_reserves(decision, claim):
            return False
        write = self._joinable(claim)
        if write is None:
            return False
        assert isinstance(write.decision, WriteClaimStatus)
        known, wanted = write.decision.reserved_for or (), decision.reserved_for or ()
        added = tuple(consumer for consumer in wanted if consumer not in known)
        write.decision = msgspec.structs.replace(write.decision, reserved_for=known + added)
        write.senders += ((owner, settled),)
        self._outbox.amend(write.sent_as, write.decision)
        return True

    def _joinable(self, claim: ResourceClaim) -> PendingWrite[ClaimWrite] | None:
        """The only write on the claim, if it has not left, only reserves, and has room for more."""
        writes = self._by_object.get(claim.key, ())
        if len(writes) != 1:
            return None
        (write,) = writes
        is_owned, is_leaving = write.senders[0][0] is not None, not self._outbox.has_left(write.sent_as)
        if not is_owned or not is_leaving or write.attempts > 1 or not _only_reserves(write.decision, claim):
            return None
        return write if len(write.decision.reserved_for or ()) < RESERVED_FOR_MAX else None

    def is_unsettled(self, claim: ClaimKey, *, except_owner: PodUid) -> bool:
        """Whether a write on `claim` by anyone but `except_owner` may still land."""
        writes = self._by_object.get(claim)
        return writes is not None and any(owner != except_owner for write in writes for owner, _ in write.senders)

    def _object(self, decision: ClaimWrite) -> ClaimKey:
        return decision.claim

    def _is_overtaken(self, decision: ClaimWrite) -> bool:
        if isinstance(decision, CreateClaim):
            return self._store.claim(decision.claim) is not None
        claim = self._store.claims.get(decision.uid)
        return claim is None or claim.revision > decision.expect_revision

    def _accepted(self, write: PendingWrite[ClaimWrite], answer: WriteAccepted) -> None:
        if not isinstance(write.decision, DeleteClaim):
            self._settle(write, answer)
        elif not self._is_over(write):
            self._look(write, answer)  # accepted is not gone yet: somebody else's finalizer may keep it

    def _look(self, write: PendingWrite[ClaimWrite], answer: WriteAnswer) -> None:
        if isinstance(write.decision, CreateClaim) and isinstance(answer, WriteRejected):
            self._overtaken(write)  # its namespace is gone: nothing can land there
        else:
            self._read(write, ReadClaim(write.decision.claim, write.decision.uid))

    def _settle(self, write: PendingWrite[ClaimWrite], outcome: WriteOutcome) -> None:
        super()._settle(write, outcome)
        self._freed(write.decision.claim)


def _only_reserves(decision: ClaimWrite, claim: ResourceClaim) -> TypeGuard[WriteClaimStatus]:
    """Whether all that the write does is to add reservations to the claim as it is stored."""
    if not isinstance(decision, WriteClaimStatus):
        return False
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
