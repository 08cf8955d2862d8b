"""--max-size: how much of a file or a pipe the commands read.

Apart from `manifests` so that a command has its options without importing what reads them.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import click

_KEY: Final = "scheduler.cli.max-size"
_UNITS: Final = {"K": 10**3, "M": 10**6, "G": 10**9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


class Limit(NamedTuple):
    """A size in bytes, and as it was written."""

    size: int
    text: str


# What is read takes about 50 times its size in memory.
DEFAULT: Final = Limit(64 << 20, "64Mi")


def size_limit() -> Limit:
    """What the running command was given, the default where nothing was."""
    context = click.get_current_context(silent=True)
    limit = context.meta.get(_KEY) if context is not None else None
    return limit if isinstance(limit, Limit) else DEFAULT


def _remember(context: click.Context, parameter: click.Parameter, value: str) -> None:
    found = re.fullmatch(r"(\d{1,12})([KMG]i?)?", value)
    size = int(found[1]) * _UNITS.get(found[2], 1) if found else 0
    if size <= 0:
        raise click.BadParameter(f"must be a size like 64Mi or 2Gi, not {value!r}", context, parameter)
    context.meta[_KEY] = Limit(size, value)


size_option: Final = click.option(
    "--max-size",
    default=DEFAULT.text,
    show_default=True,
    expose_value=False,
    callback=_remember,
    help="Refuse larger files, and longer input of pipes.",
)
"""For every command that reads manifests."""
