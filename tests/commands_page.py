"""docs/commands.md: each command with its options, as its --help says.

python -m tests.commands_page > docs/commands.md
"""

from __future__ import annotations

from collections.abc import Iterator

import click

from scheduler.cli.main import cli

_HEAD = """# Commands

Generated from the commands' own help: `python -m tests.commands_page > docs/commands.md`.

They ask the cluster that kubectl would ask, or with `-f` files ([how](offline.md)). Each is
also `kubectl dra …` where the package's `kubectl-dra` is on the `PATH`. Exit codes: 0 done, 1 it failed, 2 wrong use,
130 interrupted (Ctrl-C).
"""


def page() -> str:
    """The whole text."""
    return "\n".join([_HEAD, *_sections(cli, "dra-scheduler")])


def _sections(group: click.Group, path: str) -> Iterator[str]:
    context = click.Context(group, info_name=path)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        own = f"{path} {name}"
        settings = {**command.context_settings, "max_content_width": 100, "terminal_width": 100}
        inside = click.Context(command, info_name=own, **{**settings, "help_option_names": ["-h", "--help"]})
        yield f"## `{own}`\n\n```text\n{command.get_help(inside)}\n```\n"
        if isinstance(command, click.Group):
            yield from _sections(command, own)


if __name__ == "__main__":
    print(page(), end="")
