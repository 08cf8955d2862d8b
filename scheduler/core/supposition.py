"""The cluster as if pods were on a node, or gone from it, with their devices: for a question, and never for longer.

Rules of this module
  1. Plugins read the supposed cluster through their ordinary view; when the question ends, all is as it was.
  2. What was remembered of the node is neither read nor changed: ask with a new cycle, beginning at PreFilter.

Not here: which pods and devices to suppose (`dry_run`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from allocator import Allocation
from scheduler.core.claim_overlay import ClaimOverlay
from scheduler.core.store import Store
from scheduler.model.keys import PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod


class Suppositions:
    """Makes one at a time."""

    def __init__(self, store: Store, overlay: ClaimOverlay) -> None:
        self._store: Final = store
        self._overlay: Final = overlay

    @contextmanager
    def suppose(
        self,
        node: NodeInfo,
        *,
        added: Iterable[Pod] = (),
        removed: Collection[PodUid] = (),
        taken: Iterable[Allocation] = (),
        released: Iterable[Allocation] = (),
    ) -> Iterator[NodeInfo]:
        """The node with pods more and less.

        Args:
            taken: Devices that count as in use, too.
            released: Devices that count as free; each is in use by exactly this allocation.
        """
        supposed = node.simulated(added=added, removed=removed)
        with self._store.pod_counts.as_if(supposed), self._overlay.as_if(taken=taken, released=released):
            yield supposed
