"""What is done about the fields of objects that decide which no decoder reads: `api_handling.txt`.

Nothing of the program asks this; the decoders do it. Tests hold it against them, docs/support-matrix.md shows it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple


class Handling(NamedTuple):
    """What is done about a field: `how` is harmless or refused; `why` says more."""

    how: str
    why: str


@cache
def handling() -> dict[str, Handling]:
    """By `Type.field`."""
    text = Path(__file__).with_name("api_handling.txt").read_text(encoding="utf-8").replace("\n  ", " ")
    rows = [line.partition(" = ") for line in text.splitlines() if not line.startswith("#")]
    return {field: Handling(*left.split(" | ")) for left, _, fields in rows for field in fields.split()}
