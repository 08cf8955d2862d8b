"""The command line as a whole: every command helps, wrong use exits with 2."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import takewhile

import click
import pytest
from click.testing import CliRunner

from scheduler.cli.main import cli


def _commands() -> list[str]:
    return cli.list_commands(click.Context(cli))


@pytest.mark.parametrize("command", _commands())
def test_every_command_says_what_it_does_and_what_its_options_mean(command: str) -> None:
    found = cli.get_command(click.Context(cli), command)
    assert found is not None
    result = CliRunner().invoke(cli, [command, "--help"])

    assert result.exit_code == 0, result.output
    assert result.output.startswith("Usage:")
    assert found.help
    for option in found.params:
        is_told = isinstance(option, click.Option) and not option.hidden  # what went says what to write instead
        assert not is_told or option.help, f"{command} {option.name} has no help"


def leaves(group: click.Group = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """All commands, those of groups too."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield (*path, name), command


LEAVES = tuple(leaves())


def examples(command: click.Command) -> list[list[str]]:
    """The words of the lines in a command's help that a shell would run, after `dra-scheduler`."""
    found = []
    as_written = [part for part in (command.help or "").split("\n\n") if part.lstrip(" ").startswith("\b")]
    for line in (line for part in as_written for line in part.splitlines() if "dra-scheduler " in line):
        # A comment, a redirection and what comes before a pipe are the shell's.
        words = shlex.split(line.strip().removeprefix("source <(").removesuffix(")"), comments=True)
        if "dra-scheduler" in words:
            after = words[words.index("dra-scheduler") + 1 :]
            found.append(list(takewhile(lambda word: word not in (">", "|", "<"), after)))
    return found


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=[" ".join(path) for path, _ in LEAVES])
def test_every_command_has_an_example_in_its_help_and_understands_it(
    path: tuple[str, ...], command: click.Command
) -> None:
    own = [words[len(path) :] for words in examples(command) if tuple(words[: len(path)]) == path]
    assert own, f"no line `dra-scheduler {' '.join(path)} …` in its help"
    for words in own:
        with click.Context(command) as context:
            # Raises for an option that the command does not have; files need not exist.
            command.make_parser(context).parse_args(args=list(words))


def test_the_list_of_commands_needs_no_import_of_any_of_them() -> None:
    result = CliRunner().invoke(cli, ["--help"])

    assert result.exit_code == 0
    for command in _commands():
        assert command in result.output


@pytest.mark.parametrize("arguments", [["no-such-command"], ["demo", "--no-such-option"], ["demo", "-o", "xml"]])
def test_wrong_use_exits_with_2(arguments: list[str]) -> None:
    result = CliRunner().invoke(cli, arguments)

    assert result.exit_code == 2
    assert "Usage:" in result.output
