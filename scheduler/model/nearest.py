"""The name that was meant, among those there are; and the first of many names.

Cost: O(names), and each comparison is slow; with more than `_NAMES_MAX` nobody compares (a file of thousands of claims
against a cluster of thousands of classes would take minutes).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Final

_NAMES_MAX: Final = 200
_LISTED_MAX: Final = 10
_COMPARED: Final = 3
_ALIKE: Final = 0.6
_PART: Final = re.compile(r"[./]")
_TOP_LEVEL: Final = re.compile(r"\.[^./]*(?=/|$)")


def near(name: str, known: Collection[str], alike: float = _ALIKE) -> str:
    """The existing name that was probably meant, or nothing.

    Of names with as many parts (`gpu.vendor.example`, `vendor.example/gpu`) each but the top-level domain must be like
    the other's: what shares nothing but a vendor's domain is another thing. Else the only name of which it is a part.
    """
    if len(known) > _NAMES_MAX:
        return ""
    close = [one for one in get_close_matches(name, known, _COMPARED, alike) if _is_like(name, one)]
    parts = set(_PART.split(name))
    within = [one for one in known if parts < set(_PART.split(one))] if not close else []
    found = close[:1] or (within if len(within) == 1 else [])
    return next((one for one in found if one != name), "")


def _is_like(name: str, other: str) -> bool:
    mine, theirs = (_PART.split(_TOP_LEVEL.sub("", one)) for one in (name, other))
    return len(mine) != len(theirs) or all(get_close_matches(*pair) for pair in zip(mine, zip(theirs), strict=True))


def nearest(name: str, known: Collection[str]) -> str:
    """`did you mean NAME?`, or nothing."""
    found = near(name, known)
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
