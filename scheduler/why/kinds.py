"""The tables of reasons and fixes, by name: a row each of `reasons.txt` and `fixes.txt`, which say what a row is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from scheduler.why.say import fields_of

_PART: Final = re.compile(r"\{([A-Z]+)\}")
"""A part of several sentences, by its name."""
_DEFINED: Final = re.compile(r"([A-Z]+) = (.*)")


class Kind(Struct, frozen=True):
    """One kind of reason for which a pod waits.

    Args:
        means: What is so, in one sentence.
        do: What helps, the usual thing first.
        says: Its sentences by form.
        same: Fields that are equal for reasons about the same things.
    """

    name: str
    means: str
    do: str
    says: Mapping[str, str]
    same: tuple[str, ...]


class FixKind(Struct, frozen=True):
    """One kind of fix.

    Args:
        size: How much it asks of people.
        says: What to do.
        same: Fields that are equal where the first that helps is enough.
    """

    name: str
    size: int
    says: str
    same: tuple[str, ...]


def _lines(file: str) -> Iterator[str]:
    parts: dict[str, str] = {}
    for written in Path(__file__).with_name(file).read_text(encoding="utf-8").splitlines():
        line = _PART.sub(lambda one: parts[one[1]], written)
        if (defined := _DEFINED.fullmatch(line)) is not None:
            parts[defined[1]] = defined[2]
        elif line and not line.startswith("#"):
            yield line


def _kinds() -> Iterator[Kind]:
    rows: list[tuple[str, list[str]]] = []
    for line in _lines("reasons.txt"):
        if line.startswith(" "):
            rows[-1][1].append(line.strip())
        else:
            rows.append((line, []))
    for head, (means, do, *sentences) in rows:
        name, *same = head.split()
        says = {form: text for form, _, text in (one.partition("> ") for one in sentences)}
        yield Kind(name, means, do, says, tuple(same))


def _fixes() -> Iterator[FixKind]:
    for line in _lines("fixes.txt"):
        head, _, says = line.partition("> ")
        name, size, *same = head.split()
        yield FixKind(name, int(size), says, tuple(same) or fields_of(says))


KINDS: Final[dict[str, Kind]] = {row.name: row for row in _kinds()}
FIXES: Final[dict[str, FixKind]] = {row.name: row for row in _fixes()}
