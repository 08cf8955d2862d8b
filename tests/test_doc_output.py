"""Each block of a page that begins with a `dra-scheduler` command shows what the command prints on a terminal.

A line `…` stands for lines that are left out. `python -m tests.test_doc_output` writes the blocks without such lines
anew.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from pathlib import Path
from typing import Final
from unittest import mock

import pytest
from click.testing import CliRunner

from allocator import Features
from scheduler.cli.main import cli
from scheduler.offline import OfflineCluster, SourceObject, decide
from tests.cli.test_terminal import Terminal
from tests.offline.causes import claim, device_class, gpu, node, pod, slice_

ROOT: Final = Path(__file__).resolve().parents[1]
COLUMNS: Final = "100"
BLOCK: Final = r"```console\n\$ dra-scheduler ([^\n]+)\n(?!\$ )(.+?)```"
PAGES: Final = (
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/examples").glob("*.md")),
)
SHOWN: Final = [
    (str(path.relative_to(ROOT)), command, shown)
    for path in PAGES
    for command, shown in re.findall(BLOCK, path.read_text(encoding="utf-8"), re.DOTALL)
]
CUT: Final = "…"


def printed(command: str) -> list[str]:
    """The lines that a person sees, warnings last; ages grow from day to day, and are left out."""
    out, err = Terminal(), io.StringIO()
    with (
        mock.patch.dict(os.environ, {"COLUMNS": COLUMNS, "NO_COLOR": "1"}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.suppress(SystemExit),
    ):
        cli.main(shlex.split(command))
    return without_ages(out.getvalue().rstrip("\n").split("\n") + err.getvalue().splitlines())


def without_ages(lines: list[str]) -> list[str]:
    return [re.sub(r"age \d+\w", "age 0d", line) for line in lines]


def fits(lines: list[str], shown: list[str]) -> bool:
    """Whether these lines are what is shown, with something in place of each cut."""
    if CUT not in shown:
        return lines == shown
    cut = shown.index(CUT)
    head, rest = shown[:cut], shown[cut + 1 :]
    if lines[:cut] != head:
        return False
    return not rest or any(fits(lines[start:], rest) for start in range(cut, len(lines)))


@pytest.mark.parametrize(("page", "command", "shown"), SHOWN, ids=[" ".join(one[:2]) for one in SHOWN])
def test_commands_print_what_is_shown(page: str, command: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    lines, wanted = printed(command), without_ages(shown.rstrip("\n").split("\n"))
    if not fits(lines, wanted):
        assert lines == wanted, page


def test_a_cut_stands_for_lines_that_are_there() -> None:
    assert fits(["a", "b", "c", "d"], ["a", CUT, "c", CUT])
    assert fits(["a", "b"], [CUT, "b"])
    assert not fits(["a", "b"], ["b", CUT])
    assert not fits(["a", "b", "c"], [CUT, "b"])
    assert not fits(["a", "b"], ["a"])


def test_they_are_found() -> None:
    assert {page for page, _, _ in SHOWN} >= {"README.md", "docs/first-pods.md", "docs/making-room.md"}
    assert sum(page == "docs/explain.md" and command.startswith("explain ") for page, command, _ in SHOWN) == 6


def test_the_first_pod_gets_a_device(tmp_path: Path) -> None:
    (text, *_) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "first-pods.md").read_text(), re.DOTALL)
    (tmp_path / "first.yaml").write_text(text)
    cluster = ROOT / "docs/examples/features/cel-selectors-cluster.yaml"
    found = CliRunner().invoke(cli, ["simulate", "-f", str(cluster), "-f", str(tmp_path / "first.yaml")])
    assert found.exit_code == 0, found.output
    assert "default/first\tmixed-0\tgpu.example.com/mixed-0/gpu-0" in found.stdout


def test_a_condition_reads_as_answers_md_has_it() -> None:
    page = (ROOT / "docs" / "answers.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```\n(0/2 nodes.*?)```", page, re.DOTALL)
    tainted = gpu(taints=[{"key": "example.com/hot", "effect": "NoSchedule"}])
    objects = [
        *(node(name) for name in ("gpu-a", "gpu-b")),
        slice_(tainted, where="gpu-a"),
        device_class(),
        claim(name="train", namespace="team"),
        pod("train", name="train", namespace="team"),
    ]
    cluster = OfflineCluster(0)
    assert not cluster.load([SourceObject("", one) for one in objects]).problems
    (verdict,) = decide(cluster, features=Features(), budget_steps=1_000, reports_causes=True).verdicts

    head, tail = " ".join(shown.split()).split(f" {CUT} ")
    assert verdict.reason.startswith(head)
    assert verdict.reason.endswith(tail)


def _anew(block: re.Match[str]) -> str:
    command, shown = block[1], block[2]
    if CUT in shown.split("\n"):
        return block[0]
    return f"```console\n$ dra-scheduler {command}\n{chr(10).join(printed(command))}\n```"


if __name__ == "__main__":
    os.chdir(ROOT)
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(BLOCK, _anew, text, flags=re.DOTALL), encoding="utf-8")
