"""How a command ends when what it was given is wrong: exit code 2 in all of them, as with wrong use."""

from __future__ import annotations

import click

from scheduler.cli.terminal import escaped


class WrongInputError(click.ClickException):
    """A file, an object or a name that was given is wrong or not there; the text says which, and what to do.

    Args:
        lines: As of `echo`.
    """

    exit_code = 2

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(map(escaped, lines)))


def exit_code(*, fits: bool, is_broken: bool) -> int:
    """Of a command that says whether pods fit: 0 they do, 1 they do not, 2 an object was wrong and was left out."""
    return 2 if is_broken else 0 if fits else 1
