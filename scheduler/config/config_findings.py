"""All findings of a file at once: what is wrong is taken out, and the rest is read again.

A rule across fields is asked only when each field is right by itself, so a misspelt field would hide it until the next
try.

Rules of this module
  1. What was taken out has its default while the rest is read. A finding that may come of that is left out: it would
     send people to a place where nothing is wrong.
  2. Entries of lists are not taken out: others would get their places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str | int, ...]


def without(values: Mapping[str, Any], paths: Iterable[Path]) -> tuple[dict[str, Any], set[Path]]:
    """A copy of `values` without the fields at `paths`; and those of them that were there."""
    gone = set()
    copy = _copied(values)
    for path in paths:
        here: Any = copy
        for part in path[:-1]:
            here = _at(here, part)
        if path and isinstance(here, dict) and path[-1] in here:
            del here[path[-1]]
            gone.add(path)
    return copy, gone


def may_follow(path: Path, removed: Set[Path]) -> bool:
    """Whether a rule is broken at `path` perhaps only because something was `removed`.

    That is so beside it, in it, and in the same field of another entry of a list.
    """
    names = _names(path)
    return any(path[:-1] == one[:-1] or names[: len(_names(one))] == _names(one) for one in removed)


def _names(path: Path) -> Path:
    return tuple(part for part in path if isinstance(part, str))


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    return [_copied(one) for one in value] if isinstance(value, list) else value


def _at(here: Any, part: str | int) -> Any:
    if isinstance(here, dict):
        return here.get(part)
    if isinstance(here, list) and isinstance(part, int) and part < len(here):
        return here[part]
    return None
