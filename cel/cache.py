"""Compiled selectors by expression and environment, compile errors included; least recently used go first.

Upstream keeps ten. A selector is some kilobytes, and a cluster has few distinct ones.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from cel.checker import environments
from cel.checker.environments import Environment
from cel.errors import CompileError
from cel.program import Selector, compile_selector

SIZE_DEFAULT: Final = 1024


class SelectorCache:
    """At most `size` entries; not safe for use by several threads at once."""

    def __init__(self, size: int = SIZE_DEFAULT) -> None:
        if size < 1:
            raise ValueError(f"a selector cache holds at least 1 entry, not {size}")
        self._size: Final = size
        self._entries: OrderedDict[tuple[str, Environment], Selector | CompileError] = OrderedDict()

    def compile(self, expression: str, environment: Environment | None = None) -> Selector | CompileError:
        """The selector, or the error (returned, not raised) that compiling it gave."""
        if environment is None:
            environment = environments.get()
        key = (expression, environment)
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
            return found
        try:
            compiled: Selector | CompileError = compile_selector(expression, environment)
        except CompileError as error:
            compiled = error.with_traceback(None)
        self._entries[key] = compiled
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)
        return compiled

    def __len__(self) -> int:
        return len(self._entries)


_SHARED: Final = SelectorCache()


def compile_cached(expression: str, environment: Environment | None = None) -> Selector | CompileError:
    """`SelectorCache.compile` of the cache of this process."""
    return _SHARED.compile(expression, environment)
