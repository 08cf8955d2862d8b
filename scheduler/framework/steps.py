"""The allocator asked within a cycle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle


@contextmanager
def within_steps(cycle: Cycle, view: ClusterView) -> Iterator[None]:
    """The allocator takes its steps from the cycle meanwhile, and pauses where these do not suffice."""
    meter = view.inventory.meter
    before = meter.allow(max(1, cycle.steps_left))
    try:
        yield
    finally:
        cycle.steps_left -= meter.allow_all(before)
