"""Planted causes, told by somebody who did not write what explains them: `ROWS`, and how they are judged.

    shapes          dresses, objects, edits, the row and the table
    constraints     constraints, pairs, counters and partitions
    selectors       selectors, and devices that would match
    pools           pools and holders
    others          lists, groups, extended resources, volumes, nodes, owners, claims, names
    judging         what three channels say, and what is wrong with it

`python -m tests.explain.planted [WORD]` prints what is wrong, with the first two lines as they are.
"""

from __future__ import annotations

from tests.explain.planted import constraints, others, pools, selectors
from tests.explain.planted.shapes import ROWS, Planted, mended

__all__ = ["ROWS", "Planted", "constraints", "mended", "others", "pools", "selectors"]
