"""What takes long, in parts: a generator yields where it may be left for a while, and returns what it came to."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

from allocator import PausedError

T = TypeVar("T")

Parts: TypeAlias = Generator[None, None, T]


def whole(parts: Parts[T]) -> T:
    """All of it, at once."""
    while True:
        try:
            next(parts)
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]


def unpaused(ask: Callable[[], T]) -> Parts[T]:
    """What `ask` finds, asked again after each pause of the inventory's meter."""
    while True:
        try:
            return ask()
        except PausedError:
            yield
