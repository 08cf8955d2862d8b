"""Punctuation that pages, chats and word processors put in the place of YAML's: dashes, quotes, colons, blanks.

Rules of this module
  1. Only structure is touched: separators, list dashes, the colon after a field's name, quotes around a whole value,
     flow brackets and commas. What stands inside of a value, in a block of text or after a # stays.
  2. A line stays a line.

Not here: when this is tried (`documents`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

DASHES: Final = "‐‑‒–—―−－"
FULL_WIDTH: Final = {
    "：": ":",
    "，": ",",
    "“": '"',
    "”": '"',
    "„": '"',
    "‘": "'",
    "’": "'",
    "｛": "{",
    "｝": "}",
    "［": "[",
    "］": "]",
}
_BLANKS: Final = {"\u00a0": " ", "\u2007": " ", "\u202f": " ", "\u3000": "  ", "\t": "  "}
_SEPARATOR: Final = re.compile(rf"[-{DASHES}]{{1,4}}(?=\s*(?:#.*)?$)")
_ENTRY: Final = re.compile(rf"^(\s*)((?:[-{DASHES}]\s+)*)(.*)$", re.DOTALL)
_FIELD: Final = re.compile(r"""^(["'“‘„]?)([A-Za-z0-9_./-]+)(["'”’“]?)(\s*)[:：](?:\s*)(.*)$""")
_BLOCK: Final = re.compile(r"^.*[:：]\s*[|>][-+0-9]*\s*(?:#.*)?$")
_QUOTED: Final = re.compile(r"^[“„”]([^“”\"]*)[”“](\s*(?:#.*)?)$")
_SINGLE_QUOTED: Final = re.compile(r"^[‘’]([^‘’']*)[’‘](\s*(?:#.*)?)$")


@dataclass(frozen=True, slots=True)
class Change:
    """A line, counted from 0, that reads otherwise: what was wrong with it, and its text now."""

    code: str
    line: int
    column: int
    problem: str
    converted: str


def separators(lines: Sequence[str]) -> tuple[list[str], list[Change]]:
    """Lines of dashes that are no `---`."""
    result = list(lines)
    changes = []
    for number, line in enumerate(lines):
        found = _SEPARATOR.match(line) if line[:1] in f"-{DASHES}" else None
        if found is None or found[0] in ("-", "---"):
            continue
        result[number] = "---" + line[found.end() :]
        changes.append(Change("lost-separator", number, 0, f"{found[0]!r} is no separator of documents", "---"))
    return result, changes


def structure(lines: Sequence[str]) -> tuple[list[str], list[Change]]:
    """Everything else, outside of blocks of text."""
    result = list(lines)
    changes = []
    block: int | None = None
    for number, line in enumerate(lines):
        width = len(line) - len(line.lstrip())
        if block is not None and (not line.strip() or width > block):
            continue
        block = width if _BLOCK.match(line) else None
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        mended = _mended(line)
        if mended != line:
            at = next(
                index for index, (a, b) in enumerate(zip(line, mended + "\0" * len(line), strict=False)) if a != b
            )
            char = line[at]
            changes.append(
                Change(
                    "full-width-punctuation",
                    number,
                    at,
                    f"{_name(char)} in the place of YAML's own",
                    f"the line is now: {mended.strip()}",
                )
            )
            result[number] = mended
    return result, changes


def _name(char: str) -> str:
    return {"\t": "a tab", "\u00a0": "a no-break space", "\u3000": "a full-width blank"}.get(char, repr(char))


def _mended(line: str) -> str:
    entry = _ENTRY.match(line)
    assert entry is not None
    indent, dashes, rest = entry.groups()
    indent = "".join(_BLANKS.get(char, char) for char in indent)
    dashes = "".join("-" if char in DASHES else _BLANKS.get(char, char)[:1] for char in dashes)
    field = _FIELD.match(rest)
    if field is None:
        return indent + dashes + _value(rest)
    opened, name, closed, _, value = field.groups()
    if (opened in "“„" and closed in "”“" and opened) or (opened == "‘" and closed == "’"):
        name = f'"{name}"'
    elif opened or closed:
        name = f"{opened}{name}{closed}"
    if (
        name == rest[: len(name)]
        and rest[len(name) : len(name) + 1] == ":"
        and rest[len(name) + 1 : len(name) + 2].strip()
    ):
        return indent + dashes + _value(rest)  # 12:30 and http://a are texts, no fields
    colon = rest[: len(rest) - len(value)][len(opened + field[2] + closed) :]
    colon = colon if "：" not in colon else ": " if value else ":"
    return indent + dashes + name + "".join(_BLANKS.get(char, char) for char in colon) + _value(value)


def _value(value: str) -> str:
    if value[:1] in ("{", "[", "｛", "［"):
        return _flow(value)
    if found := _QUOTED.match(value):
        return f'"{found[1]}"{found[2]}'
    if found := _SINGLE_QUOTED.match(value):
        return f"'{found[1]}'{found[2]}"
    return value


def _flow(value: str) -> str:
    result = []
    quote = ""
    for at, char in enumerate(value):
        if quote:
            quote = "" if char == quote else quote
            result.append(char)
            continue
        if char in "\"'":
            quote = char
        elif char == "#" and value[at - 1 : at].isspace():
            return "".join(result) + value[at:]
        plain = FULL_WIDTH.get(char, char)
        needs_blank = plain in ":," and char != plain and not value[at + 1 : at + 2].isspace()
        result.append(plain + (" " if needs_blank else ""))
    return "".join(result)
