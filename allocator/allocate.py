"""The entry point: claims, a node and what is in use, to devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from allocator.features import ALL_SHORTCUTS, Features, Shortcuts
from allocator.in_use import InUse
from allocator.inventory import Inventory
from allocator.model import Claim, NodeView
from allocator.observer import SILENT, Observer
from allocator.outcome import Outcome


def allocate(
    claims: Sequence[Claim],
    node: NodeView,
    inventory: Inventory,
    in_use: InUse,
    *,
    features: Features,
    budget_steps: int,
    share_ids: Iterator[str],
    observer: Observer = SILENT,
    shortcuts: Shortcuts = ALL_SHORTCUTS,
) -> Outcome:
    """Pick devices for all unallocated claims of one pod on one node."""
    raise NotImplementedError
