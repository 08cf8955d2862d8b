"""The command line as a whole: every command helps, wrong use exits with 2."""

from __future__ import annotations

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
        assert not isinstance(option, click.Option) or option.help, f"{command} {option.name} has no help"


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
