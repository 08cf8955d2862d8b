"""Feature gates have the same names in every command and in the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scheduler.cli.gate_options import gate_named, parse_gates
from scheduler.cli.main import cli
from scheduler.model.api_rules import FIELD_BY_GATE
from tests.lint.texts import selecting


def run(*arguments: str | Path, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], input=stdin, catch_exceptions=False)


@pytest.mark.parametrize("written", ["DRADeviceTaints", "DeviceTaints", "devicetaints", " dradevicetaints "])
def test_dra_and_case_do_not_matter(written: str) -> None:
    assert gate_named(written) == "DRADeviceTaints"


def test_a_list_of_gates() -> None:
    assert parse_gates("DRADeviceTaints=false, ListTypeAttributes,") == {
        "DRADeviceTaints": False,
        "DRAListTypeAttributes": True,
    }


COMMANDS = [["lint", "-"], ["convert", "-"], ["simulate", "-"], ["cel", "check", "true"], ["cel", "eval", "true"]]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_knows_every_gate(command: list[str]) -> None:
    result = run(*command, "--feature-gates", ",".join(f"{gate}=true" for gate in FIELD_BY_GATE))

    assert "gate" not in result.output


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("gates", "complaint"),
    [("DRADeviceTaint=true", "did you mean DRADeviceTaints?"), ("DRADeviceTaints=maybe", "true or false, not 'maybe'")],
)
def test_every_command_complains_alike(command: list[str], gates: str, complaint: str) -> None:
    result = run(*command, "--feature-gates", gates)

    assert result.exit_code == 2
    assert complaint in " ".join(result.output.split())


def test_lint_judges_with_the_gates_that_are_given() -> None:
    text = selecting('device.attributes["gpu.example.com"].features.includes("cuda")')
    taints = text.replace("    selectors:\n", "    tolerations: [{operator: Exists}]\n        selectors:\n", 1)

    assert "needs-newer-cluster" in run("lint", "-", stdin=text).stdout
    assert (
        "needs-newer-cluster"
        not in run("lint", "-", "--feature-gates", "DRAListTypeAttributes=true", stdin=text).stdout
    )
    assert "gate-off" not in run("lint", "-", stdin=taints).stdout
    assert (
        "is off as --feature-gates says"
        in run("lint", "-", "--feature-gates", "DeviceTaints=false", stdin=taints).stdout
    )
