"""What a user expects of every command, in a walk over all of them: the one that lacks something is named."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from scheduler.cli.completion import complete_for_kubectl
from scheduler.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
CONTEXT = click.Context(cli)
COMMANDS = cli.list_commands(CONTEXT)
# Without rows to print, or with a form of their own (lint: text, json, sarif and the like; cel: its commands).
WITHOUT_YAML = {"run", "demo", "config", "lint", "convert", "cel", "completion", "ui", "observe", "mcp"}
OF_FILES = {"lint", "convert"}
"""They read files, and a cluster only where it is named: what they are about is written in files."""
OF_OBJECTS = {
    "explain": ["pod/p"],
    "devices": [],
    "drain-device": ["gpu-a/gpu-0"],
    "dump": [],
    "simulate": [],
    "ui": [],
}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "deep"}, "status": {"allocatable": {"cpu": "1"}}}


def options_of(command: str) -> dict[str, click.Option]:
    found = cli.get_command(CONTEXT, command)
    assert found is not None
    return {name: one for one in found.params if isinstance(one, click.Option) for name in one.opts}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_no_colour(command: str) -> None:
    text = CliRunner().invoke(cli, [command, "--help"]).output

    assert f"  dra-scheduler {command}" in text or f"(dra-scheduler {command}" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - WITHOUT_YAML))
def test_what_prints_rows_prints_json_and_yaml_too(command: str) -> None:
    form = options_of(command)["--output"].type

    assert isinstance(form, click.Choice)
    assert {"json", "yaml"} <= set(form.choices)


def test_commands_that_read_objects_are_those_with_recursive() -> None:
    assert {name for name in COMMANDS if "--recursive" in options_of(name)} == {
        *OF_OBJECTS,
        *OF_FILES,
        "make-room",  # asks about a file of its own
        "mcp",  # reads when it is asked
        "observe",  # says that it reads no files
    }
    alike = {"-f", "-R", "--kubeconfig", "--context", "--max-size", "--feature-gates", "--kubernetes"}
    for name in {*OF_OBJECTS, *OF_FILES}:
        assert alike <= set(options_of(name)), name
    for name in OF_OBJECTS:
        assert {"-n", "--namespace", "-A", "--all-namespaces", "--config"} <= set(options_of(name)), name


@pytest.mark.parametrize("command", OF_OBJECTS)
def test_a_broken_file_is_named_with_its_line(command: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text("apiVersion: v1\nkind: [\n")
    result = CliRunner().invoke(cli, [command, *OF_OBJECTS[command], "-f", str(path)])

    assert result.exit_code in (1, 2)
    assert f"{path}:" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_mistyped_command_is_answered_with_the_one_that_was_meant(command: str) -> None:
    result = CliRunner().invoke(cli, [f"{command}x"])

    assert result.exit_code == 2
    assert f"Did you mean '{command}'?" in result.output


@pytest.mark.parametrize("command", OF_OBJECTS)
def test_a_mistyped_option_is_answered_with_the_one_that_was_meant(command: str) -> None:
    result = CliRunner().invoke(cli, [command, "--kubeconfi", "x"])

    assert result.exit_code == 2
    assert "--kubeconfig" in result.output


def test_folders_inside_are_read_with_recursive_only(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "node.json").write_text(json.dumps(NODE))
    (tmp_path / "top.json").write_text(json.dumps({**NODE, "metadata": {"name": "top"}}))
    names = ["dump", "-f", str(tmp_path), "-o", "name"]

    assert CliRunner().invoke(cli, names).stdout == "Node/top\n"
    assert CliRunner().invoke(cli, [*names, "-R"]).stdout == "Node/deep\nNode/top\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_ask_the_program(shell: str) -> None:
    result = CliRunner().invoke(cli, ["completion", shell])

    assert result.exit_code == 0
    assert f"_DRA_SCHEDULER_COMPLETE={shell}_complete" in result.stdout


def test_bash_takes_the_script(tmp_path: Path) -> None:
    script = tmp_path / "complete.bash"
    script.write_text(CliRunner().invoke(cli, ["completion", "bash"]).stdout)

    subprocess.run(["bash", "-n", str(script)], check=True)


@pytest.mark.parametrize(
    ("words", "value", "directive"),
    [
        ((), "devices", ":4"),
        (("dev",), "devices", ":4"),
        (("devices", "--no"), "--node", ":4"),
        (("devices", "-o", ""), "wide", ":4"),
        (("cel", ""), "check", ":4"),
    ],
)
def test_kubectl_is_given_values_and_a_directive(words: tuple[str, ...], value: str, directive: str) -> None:
    *lines, last = complete_for_kubectl(words)

    assert value in {line.partition("\t")[0] for line in lines}
    assert last == directive


def test_kubectl_completes_files_itself() -> None:
    assert complete_for_kubectl(("devices", "-f", "")) == [":0"]


def test_a_wheel_says_which_commit_it_was_built_from(tmp_path: Path) -> None:
    """pip records none where it installs from a folder."""
    built = [sys.executable, "-m", "uv", "build", "--quiet", "--wheel", "--no-build-isolation", "--python"]
    subprocess.run([*built, sys.executable, "--out-dir", str(tmp_path), str(ROOT)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    head = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    assert zipfile.ZipFile(wheel).read("scheduler/commit").decode() == head.stdout


def test_version_says_which_kubernetes() -> None:
    answer = json.loads(CliRunner().invoke(cli, ["version", "-o", "json"]).stdout)

    assert set(answer) == {"version", "commit", "kubernetes", "python"}
    assert answer["kubernetes"][0] == "1.34"
    assert answer["python"] == ".".join(map(str, sys.version_info[:3]))
    assert answer["commit"] is None or len(answer["commit"]) == 40
