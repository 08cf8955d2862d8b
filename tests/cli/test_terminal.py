"""Colours and signs of life: on a terminal, nowhere else."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from scheduler.cli import terminal
from scheduler.cli.main import cli
from scheduler.cli.terminal import working
from tests.cli.test_simulate import WORLD, written
from tests.offline.causes import pod

ESCAPE = "\x1b["


@pytest.fixture
def question(tmp_path: Path) -> list[str]:
    return ["explain", "pod/asked", "-f", written(tmp_path / "world.json", *WORLD, pod("template:gpu"))]


@pytest.mark.parametrize(
    ("is_terminal", "environment", "options", "is_coloured"),
    [
        (True, {}, [], True),
        (False, {}, [], False),
        (True, {"NO_COLOR": "1"}, [], False),
        (True, {"NO_COLOR": ""}, [], True),
        (True, {"NO_COLOR": "1"}, ["--color", "always"], True),
        (True, {}, ["--color", "never"], False),
        (False, {}, ["--color", "always"], True),
    ],
)
def test_colours_are_for_terminals_and_can_be_refused(
    question: list[str], is_terminal: bool, environment: dict[str, str], options: list[str], is_coloured: bool
) -> None:
    result = CliRunner().invoke(cli, [*options, *question], color=is_terminal, env={"NO_COLOR": None, **environment})
    assert result.exit_code == 0
    assert (ESCAPE in result.stdout) == is_coloured


def test_colours_change_no_word(question: list[str]) -> None:
    plain, coloured = (CliRunner().invoke(cli, ["--color", when, *question]).stdout for when in ("never", "always"))
    assert click.unstyle(coloured) == plain
    assert plain.startswith("pod default/asked fits")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Shown:
    """In the place of the sign of life."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.stopped = 0
        self.began = threading.Event()

    def of(self, what: str) -> Shown:
        self.texts.append(what)
        self.began.set()
        return self

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    made = Shown()
    monkeypatch.setattr(terminal, "_status", made.of)
    return made


def test_what_takes_long_is_shown_until_it_ends(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setattr(terminal, "_PATIENCE_S", 0.001)

    def work() -> None:
        with working("reading"):
            assert shown.began.wait(30)
            assert shown.stopped == 0
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        work()
    assert (shown.texts, shown.stopped) == (["reading"], 1)


def test_what_is_short_shows_nothing(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setattr(terminal, "_PATIENCE_S", 3_600)
    with working("reading"):
        pass
    assert (shown.texts, threading.active_count()) == ([], 1)


def test_without_a_terminal_nothing_is_shown(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "_PATIENCE_S", 0)
    with working("reading"):
        assert threading.active_count() == 1
    assert shown.texts == []


def test_the_sign_of_life_leaves_its_line_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    terminal._status("reading").stop()
    text = screen.getvalue()
    assert "reading …" in text
    assert text.rpartition("reading …")[2].count("\x1b[2K") >= 1
