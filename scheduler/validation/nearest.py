"""The name that was meant, among those there are; and the first of many names.

Cost: O(names), and each comparison is slow; with more than `_NAMES_MAX` nobody compares (a file of thousands of claims
against a cluster of thousands of classes would take minutes).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Final

_NAMES_MAX: Final = 200
_LISTED_MAX: Final = 10


def closest(name: str, known: Collection[str]) -> str:
    """The name that was probably meant, or nothing."""
    close = get_close_matches(name, known, 1) if len(known) <= _NAMES_MAX else []
    return close[0] if close else ""


def nearest(name: str, known: Collection[str]) -> str:
    """`did you mean NAME?`, or nothing."""
    found = closest(name, known)
    return f"did you mean {found}?" if found else ""


def listed(known: Collection[str]) -> str:
    """`there are: A, B and 3 more`."""
    if not known:
        return "there are: none"
    if len(known) > _NAMES_MAX:
        return f"there are {len(known)}, {', '.join(islice(known, 3))} among them"
    return f"there are: {some(sorted(known), _LISTED_MAX)}"


def some(names: Sequence[str], shown: int | None) -> str:
    """`A, B and 3 more`: the first names, None for all of them, and how many are left."""
    more = len(names) - len(names[:shown])
    return ", ".join(names[:shown]) + (f" and {more} more" if more else "")
