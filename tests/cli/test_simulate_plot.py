"""`dra-scheduler simulate --plot`: moments of a simulation, as numbers and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from scheduler.cli.plot import SAMPLES
from tests.cli.test_simulate import WORLD, answer, arriving, lines, run, written
from tests.offline.causes import CLASS

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def trace(tmp_path: Path) -> list[str]:
    """Six pods for four devices on two nodes: two of them wait until others have ended."""
    pods = [arriving(60 * number, f"p{number}", lasts=300 if number % 2 else 900) for number in range(6)]
    return ["-f", written(tmp_path / "world.json", *WORLD), "--arrivals", lines(tmp_path / "trace.jsonl", *pods)]


def at(found: dict[str, Any], moment: float) -> tuple[int, int, int]:
    """By the pods' own times: how many wait, how many have a device, how many devices are free beside one in use."""
    there = [one for one in found["pods"] if one["at"] <= moment and (one["ended"] is None or one["ended"] > moment)]
    nodes = [one["node"] for one in there if one["bound"] is not None and one["bound"] <= moment]
    return len(there) - len(nodes), len(nodes), sum(nodes.count(node) == 1 for node in ("node-1", "node-2"))


def test_the_moments_are_those_of_the_pods(trace: list[str], tmp_path: Path) -> None:
    found = answer(*trace, "--plot", str(tmp_path / "a.png"))
    moments = [(one["at"], one["waiting"], one["allocated"][CLASS]) for one in found["overTime"]]
    assert len(moments) == 3 * 6 + 1  # each pod comes, is deleted and gone; and the end
    last_of = {moment: (waiting, given) for moment, waiting, given in moments}  # two things may happen at once
    for moment, (waiting, given) in last_of.items():
        assert (waiting, 4 * given["share"], 4 * given["fragmentation"]) == at(found, moment), moment
    assert max(waiting for _, waiting, _ in moments) == 2
    assert {given["fragmentation"] for *_, given in moments} >= {0, 0.25}


@pytest.mark.slow
def test_a_long_trace_has_as_many_moments_as_a_picture_shows(tmp_path: Path) -> None:
    pods = [arriving(number, f"p{number}", lasts=1) for number in range(450)]
    world, file = written(tmp_path / "world.json", *WORLD), lines(tmp_path / "trace.jsonl", *pods)
    found = answer("-f", world, "--arrivals", file, "--plot", str(tmp_path / "a.svg"))
    assert 0.9 * SAMPLES <= len(found["overTime"]) <= 1.1 * SAMPLES
    assert (found["overTime"][0]["at"], found["overTime"][-1]["at"]) == (0, found["end"])


@pytest.mark.parametrize("name", ["over-time.png", "over-time.svg"])
def test_equal_input_gives_an_equal_picture(trace: list[str], tmp_path: Path, name: str) -> None:
    pictures = []
    for _ in range(2):
        assert run(*trace, "--plot", str(tmp_path / name)).exit_code == 0
        pictures.append((tmp_path / name).read_bytes())
    assert pictures[0] == pictures[1]
    if name.endswith(".png"):
        assert pictures[0].startswith(b"\x89PNG\r\n")
    else:
        assert ElementTree.fromstring(pictures[0]).tag == f"{SVG}svg"


@pytest.mark.parametrize(
    ("file", "text"),
    [("a.gif", "must end in .png or .svg"), ("a", "must end in .png or .svg"), ("none/a.svg", "there is no folder")],
)
def test_what_cannot_be_written_is_said_before_any_work(
    trace: list[str], tmp_path: Path, file: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.offline.playing.play", lambda *_, **__: pytest.fail("it was played"))
    result = run(*trace, "--plot", str(tmp_path / file))
    assert result.exit_code == 2
    assert text in result.stderr


def test_without_matplotlib_it_is_said_what_to_install(
    trace: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    result = run(*trace, "--plot", str(tmp_path / "a.svg"))
    assert result.exit_code == 2
    assert "pip install 'dra-scheduler[plot]'" in result.stderr


def test_it_is_about_arrivals(trace: list[str]) -> None:
    assert "--plot needs --arrivals" in run(*trace[:2], "--plot", "a.svg").stderr
