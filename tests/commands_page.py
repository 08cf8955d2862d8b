"""docs/commands.md: each command with its options, as its --help says; those that many share stand there once.

python -m tests.commands_page > docs/commands.md
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import click

from scheduler.cli.main import cli

_HEAD: Final = """# Commands

Generated from the commands' own help: `python -m tests.commands_page > docs/commands.md`.

They ask the cluster that kubectl would ask, or with `-f` files ([how](offline.md)). Each is
also `kubectl dra …` where the package's `kubectl-dra` is on the `PATH`. Exit codes: 0 done, 1 it failed, 2 wrong use,
130 interrupted (Ctrl-C).

## Options of most commands

{shared} have these; below they are left out.

```text
{options}
```
"""
_SHARED_BY: Final = 5  # an option is said once where at least so many commands have it, in the same words
Said = tuple[str, str]


def page() -> str:
    """The whole text."""
    commands = dict(_commands(cli, "dra-scheduler"))
    said = Counter(one for command in commands.values() for one in set(_said(command)))
    shared = {one for one, count in said.items() if count >= _SHARED_BY and not one[0].startswith("-h")}
    having = [path for path, command in commands.items() if shared <= set(_said(command))]
    words = ", ".join(f"`{path.removeprefix('dra-scheduler ')}`" for path in having)
    first = dict.fromkeys(one for one in _said(commands[having[0]]) if one in shared)
    formatter = click.HelpFormatter(width=100)
    formatter.write_dl(list(first))
    head = _HEAD.format(shared=words, options=formatter.getvalue().rstrip())
    sections = [_section(path, command, shared if path in having else set()) for path, command in commands.items()]
    return "\n".join([head, *sections])


def _commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group, info_name=path)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}")


def _context(path: str, command: click.Command) -> click.Context:
    settings = {**command.context_settings, "max_content_width": 100, "terminal_width": 100}
    return click.Context(command, info_name=path, **{**settings, "help_option_names": ["-h", "--help"]})


def _said(command: click.Command) -> list[Said]:
    context = _context("", command)
    return [said for one in command.get_params(context) if (said := one.get_help_record(context)) is not None]


def _section(path: str, command: click.Command, left_out: set[Said]) -> str:
    context = _context(path, command)
    hidden = [
        one
        for one in command.get_params(context)
        if isinstance(one, click.Option) and one.get_help_record(context) in left_out
    ]
    for one in hidden:
        one.hidden = True
    try:
        return f"## `{path}`\n\n```text\n{command.get_help(context)}\n```\n"
    finally:
        for one in hidden:
            one.hidden = False


if __name__ == "__main__":
    print(page(), end="")
