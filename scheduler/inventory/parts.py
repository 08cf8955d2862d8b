"""What takes long, in parts: a generator yields where it may be left for a while, and returns what it came to."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Parts: TypeAlias = Generator[None, None, T]


def whole(parts: Parts[T]) -> T:
    """All of it, at once."""
    while True:
        try:
            next(parts)
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]
