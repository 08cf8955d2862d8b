"""Planted causes, told by somebody who did not write what explains them: `ROWS`, and how they are judged.

    shapes          dresses, objects, edits, the row and the table
    constraints     constraints, pairs, counters and partitions
    selectors       selectors, and devices that would match
    pools           pools and holders
    seen_outside    by somebody from outside: workloads, groups
    seen_contended  the same: partitions, preemption, shares, two needs on one node
    seen_around     the same: constraints, chosen nodes, owners
    seen_daily      the same: what operators meet each day
    others          lists, groups, extended resources, volumes, nodes, owners, claims, names
    advice          whom a change harms, and whether it speaks of what its cause speaks of
    following       the objects once a change was made to the letter
    judging         what three channels say, and what is wrong with it

`python -m tests.explain.planted [WORD]` prints what is wrong, with the first two lines as they are.
"""

from __future__ import annotations

from tests.explain.planted import (
    constraints,
    others,
    pools,
    seen_around,
    seen_contended,
    seen_daily,
    seen_outside,
    selectors,
)
from tests.explain.planted.shapes import ROWS, Planted, mended

__all__ = [
    "ROWS",
    "Planted",
    "constraints",
    "mended",
    "others",
    "pools",
    "seen_around",
    "seen_contended",
    "seen_daily",
    "seen_outside",
    "selectors",
]
