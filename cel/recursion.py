"""Room for deep expressions.

Kubernetes accepts 250 levels of nesting, and a recursive walk takes a few Python frames for each, which
can be more than the interpreter's limit (1,000 by default) leaves. Ordinary expressions never come near
it, so the limit is raised only for a call that ran into it, and only for the time of that call.

Python frames do not use the C stack (CPython 3.11 and later), so this costs memory, not safety; the depth
itself is bounded by the parser.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

FRAMES: Final = 12_000
"""More than the deepest expression the parser lets through can need."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


def with_room(function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Call `function`, which must be repeatable, again with a higher limit if it recurses too deep."""
    try:
        return function(*args, **kwargs)
    except RecursionError:
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(limit + FRAMES)
        try:
            return function(*args, **kwargs)
        finally:
            sys.setrecursionlimit(limit)
