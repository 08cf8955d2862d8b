"""docs/explain.md, docs/first-pods.md, the pages of docs/examples and README.md show what the commands print.

Written by hand but for its blocks; to print them anew: `python -m tests.explain.test_docs`.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from scheduler.cli.main import cli

ROOT: Final = Path(__file__).resolve().parents[2]
TEXT: Final = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")
BLOCK: Final = r"```console\n\$ dra-scheduler (.+?)\n(.*?)```"
BLOCKS: Final = re.findall(BLOCK, TEXT, re.DOTALL)
PAGES: Final = sorted(path for path in (ROOT / "docs/examples").glob("*.md") if path.stem != "README")
SHOWN: Final = [
    block
    for path in (ROOT / "docs" / "first-pods.md", *PAGES)
    for block in re.findall(BLOCK, path.read_text(encoding="utf-8"), re.DOTALL)
]


def without_ages(text: str) -> str:
    """Ages grow from day to day."""
    return re.sub(r"age \d+\w", "age …", text)


@pytest.mark.parametrize(("command", "shown"), [*BLOCKS, *SHOWN], ids=[command for command, _ in [*BLOCKS, *SHOWN]])
def test_commands_print_what_is_shown(command: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    printed = CliRunner().invoke(cli, shlex.split(command))
    assert without_ages((printed.stdout + printed.stderr).rstrip()) == without_ages(shown.rstrip())


def test_the_first_pod_gets_a_device(tmp_path: Path) -> None:
    (text, *_) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "first-pods.md").read_text(), re.DOTALL)
    (tmp_path / "first.yaml").write_text(text)
    cluster = ROOT / "docs/examples/features/cel-selectors-cluster.yaml"
    printed = CliRunner().invoke(cli, ["simulate", "-f", str(cluster), "-f", str(tmp_path / "first.yaml")])
    assert printed.exit_code == 0, printed.output
    assert "default/first\tmixed-0\tgpu.example.com/mixed-0/gpu-0" in printed.stdout


def test_the_readme_shows_how_an_answer_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    ((command, shown),) = re.findall(BLOCK, (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    printed = CliRunner().invoke(cli, shlex.split(command))
    beginning, more = shown.rsplit("…\n", 1)
    assert not more
    assert printed.stdout.startswith(beginning)


def test_there_are_as_many_as_it_says() -> None:
    assert sum(command.startswith("explain ") for command, _ in BLOCKS) == 6


if __name__ == "__main__":
    for command, _ in BLOCKS:
        printed = CliRunner().invoke(cli, shlex.split(command))
        print(f"$ dra-scheduler {command}\n{(printed.stdout + printed.stderr).rstrip()}\n")
