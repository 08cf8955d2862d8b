"""`dra-scheduler completion`: what a shell needs to complete commands, options and names (`known_names`).

kubectl has a way of its own: for `kubectl dra …` it runs `kubectl_complete-dra` with the words so far, and reads lines
of its format. That program is installed beside `kubectl-dra`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

import click
from click.shell_completion import ShellComplete, get_completion_class

from scheduler.cli.terminal import echo

_PROGRAM: Final = "dra-scheduler"
_VARIABLE: Final = "_DRA_SCHEDULER_COMPLETE"
_NO_FILES, _FILES, _FOLDERS = 4, 0, 16
"""What kubectl completes itself beside the lines: cobra's ShellCompDirective."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands, options and names of objects in a shell.

    `kubectl dra` is completed by kubectl's own script, with the program kubectl_complete-dra on your PATH.

    \b
    source <(dra-scheduler completion bash)
    source <(dra-scheduler completion zsh)
    dra-scheduler completion fish > ~/.config/fish/completions/dra-scheduler.fish
    """
    from scheduler.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None
    echo(*found(cli, {}, _PROGRAM, _VARIABLE).source().split("\n"))


def complete_for_kubectl(words: Sequence[str]) -> list[str]:
    """The lines that kubectl reads: a value, a tab and its help each, at last what kubectl should add.

    Args:
        words: Those after `kubectl dra`; the last is the one that is being written.
    """
    from scheduler.cli.main import cli

    *before, incomplete = words or ("",)
    items = ShellComplete(cli, {}, _PROGRAM, _VARIABLE).get_completions(list(before), incomplete)
    kinds = {item.type for item in items}
    lines = [f"{item.value}\t{item.help}" if item.help else str(item.value) for item in items if item.type == "plain"]
    directive = _FILES if "file" in kinds else _FOLDERS if "dir" in kinds else _NO_FILES
    return [*lines, f":{directive}"]


def main() -> None:
    """The program `kubectl_complete-dra`."""
    for line in complete_for_kubectl(sys.argv[1:]):
        echo(line)
