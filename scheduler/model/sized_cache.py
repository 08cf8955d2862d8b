"""What was worked out lately, bounded by its size: a number of entries bounds nothing where one may be of any size.

Cost: a look-up is one in a dict, so what came first goes first, whether it was asked for since or not.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class SizedCache(Generic[Key, Value]):
    """Values by key. The oldest go when there is too much; the newest stays, whatever its size."""

    def __init__(self, size_max: int) -> None:
        self._size_max: Final = size_max
        self._values: Final[dict[Key, Value]] = {}
        self._sizes: Final[dict[Key, int]] = {}
        self.size = 0
        self.get: Final = self._values.get

    def put(self, key: Key, value: Value, size: int) -> Value:
        """Keep a value that is not here yet."""
        self._values[key], self._sizes[key] = value, size
        self.size += size
        while self.size > self._size_max and len(self._values) > 1:
            oldest = next(iter(self._values))
            del self._values[oldest]
            self.size -= self._sizes.pop(oldest)
        return value
