"""Writes on volumes and on claims for them, each driven to a known outcome (`pending_writes`).

Nothing reads a volume. So after a conflict its observation is awaited, and who looks at it again decides on what is.
Where no observation comes the write is sent again, which its revision makes safe. A server that answers "conflict" for
another reason than a moved revision goes on doing so: after `_UNSEEN_MAX` of them the write counts as overtaken, unless
an earlier sending may still land.

Not here: what is written (VolumeBinding), what the sender does then (`binding_cycle`).
"""

from __future__ import annotations

from typing import Final

from scheduler.core.ground.outbox import WriteAnswer
from scheduler.core.writes.pending_writes import PendingWrite, PendingWrites
from scheduler.framework.decisions import BindPersistentVolume, VolumeWrite
from scheduler.model.keys import ObjectKey
from scheduler.model.storage import PersistentVolume, PersistentVolumeClaim

_UNSEEN_MAX: Final = 5
"""With the pauses between them these are three seconds: a watch is that late when it has just begun anew."""


class VolumeWrites(PendingWrites[VolumeWrite]):
    """All writes on volumes and on claims for them that are not settled yet."""

    def _object(self, decision: VolumeWrite) -> tuple[type, ObjectKey]:
        if isinstance(decision, BindPersistentVolume):
            return PersistentVolume, ObjectKey("", decision.volume)
        return PersistentVolumeClaim, decision.claim

    def _is_overtaken(self, decision: VolumeWrite) -> bool:
        revision = self._store.storage.newest_revision(*self._object(decision))
        return revision is None or revision > decision.expect_revision

    def _look(self, pursuit: PendingWrite[VolumeWrite], answer: WriteAnswer) -> None:
        if pursuit.is_doubtful or pursuit.attempts < _UNSEEN_MAX:
            self._later(pursuit, self._send_again)
        else:
            self._overtaken(pursuit)
