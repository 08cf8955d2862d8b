"""Recordings as files, and what `dra-scheduler replay` says of them."""

from __future__ import annotations

import errno
import itertools
import json
import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from allocator import Features
from scheduler.cli.main import cli
from scheduler.core.ground.inputs import Input, RelistFinished, TimerFired
from scheduler.core.ground.settings import CoreSettings
from scheduler.core.observation import KINDS
from scheduler.recorder import VERSION, LineError, ProfileRecipe, Recipe, Recorder, encode_head
from tests import builders
from tests.observed import observed

START_MS = 1_800_000_000_000
ARGS = {"searchSteps": 1_000, "bindingTimeout": "5s"}
PROFILE = {"schedulerName": builders.SCHEDULER, "pluginConfig": [{"name": "DynamicResources", "args": ARGS}]}
RECIPE = Recipe((ProfileRecipe(PROFILE),))


def record(path: Path, recipe: Recipe = RECIPE, *, pods: int = 2, handle: Callable[..., object] | None = None) -> None:
    """Append the life of a scheduler with one node and some pods."""
    uids = itertools.count(1)
    recorder = Recorder(path)
    recording = recorder.begin(recipe, lambda: f"uid-{next(uids)}")
    told = recording.of(handle or recipe.machine(recording.new_uid).handle)
    given: list[Input] = [observed(builders.node("n"))]
    given += [observed(builders.pod(f"p{number}")) for number in range(pods)]
    given += [*(RelistFinished(kind) for kind in sorted(KINDS)), TimerFired()]
    try:
        for number, one in enumerate(given):
            told(one, now_ms=START_MS + number)
    finally:
        recorder.close()


def replayed(path: Path) -> Result:
    return CliRunner().invoke(cli, ["replay", str(path)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def test_the_same_decisions_are_exit_code_0(path: Path) -> None:
    record(path)
    done = replayed(path)
    assert done.exit_code == 0
    assert done.output == f"{path}: 24 inputs led to the same 2 decisions\n"


def test_recordings_md_shows_what_is_printed(path: Path) -> None:
    record(path)
    page = (Path(__file__).parents[2] / "docs" / "recordings.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^\$ dra-scheduler replay run\.jsonl\n(.*?)\n", page, re.MULTILINE)
    assert re.sub(r"[\d,]+", "N", shown) == re.sub(r"\b\d+", "N", replayed(path).output.strip().split("/")[-1])


def test_a_process_that_starts_again_goes_on_in_the_same_file(path: Path) -> None:
    record(path)
    record(path, pods=1)
    assert replayed(path).output == f"{path}: 47 inputs of 2 processes led to the same 3 decisions\n"


def test_only_its_owner_may_read_it(path: Path) -> None:
    record(path)
    assert path.stat().st_mode & 0o077 == 0


def test_the_settings_are_those_that_were_recorded(path: Path) -> None:
    """One pod in a tick: with the defaults both would be bound in it."""
    recipe = Recipe(
        (ProfileRecipe(PROFILE, "pool=gpu", "driver=gpu.example.com"),),
        Features(admin_access=False, kubernetes="1.37"),
        CoreSettings(cycles_per_tick=1, takes_notes=True),
    )
    record(path, recipe)
    assert replayed(path).exit_code == 0
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([encode_head(RECIPE) + b"\n", *lines[1:]]))
    assert replayed(path).exit_code == 1


def test_the_first_other_decision_is_told_with_its_input(path: Path) -> None:
    record(path)
    path.write_bytes(path.read_bytes().replace(b'"node":"n"', b'"node":"elsewhere"'))
    done = replayed(path)
    assert done.exit_code == 1
    lines = done.output.splitlines()
    assert lines[0] == f"Error: {path}:25: other decisions than recorded, after 23 inputs with the same"
    assert lines[1] == "  input at 2027-01-15T08:00:00.023Z: TimerFired"
    assert [line.split()[0] for line in lines[2:]] == ["recorded:"] * 2 + ["now:"] * 2
    assert any("BindPod" in line and "elsewhere" in line for line in lines[2:4])
    assert not any("elsewhere" in line for line in lines[4:])


def test_a_difference_that_no_word_shows_is_told_exactly(path: Path) -> None:
    record(path)
    *lines, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, last.replace(b'"uid":"uid-default-p0"', b'"uid":"uid-of-another"')]))
    text = replayed(path).output
    assert "uid-of-another" in text
    assert "uid-default-p0" in text


def test_an_exception_is_replayed_too(path: Path) -> None:
    def fail(given: Input, *, now_ms: int) -> None:
        raise RuntimeError("out of order")

    with pytest.raises(RuntimeError):
        record(path, handle=fail)
    done = replayed(path)
    assert done.exit_code == 1
    assert "recorded: failed with RuntimeError: out of order" in done.output
    assert "now:      nothing" in done.output
    assert "Observed Node n at revision" in done.output


def test_a_recording_that_was_cut_says_what_to_do(path: Path) -> None:
    record(path)
    path.write_bytes(path.read_bytes()[:-30])
    done = replayed(path)
    assert done.exit_code == 2
    assert f"Error: {path}:25: ends in its middle: the scheduler was killed, the disk was full" in done.output
    assert "the 23 inputs before it led to the same decisions. Delete the line to replay the rest" in done.output

    record(path)  # it is started again
    done = replayed(path)
    assert done.exit_code == 2
    assert f"{path}:25: is no JSON" in done.output
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:24] + lines[25:]))
    assert "47 inputs of 2 processes" in replayed(path).output


def test_a_recording_of_another_format_names_the_program_for_it(path: Path) -> None:
    record(path)
    head = json.loads(path.read_bytes().splitlines()[0])
    path.write_text(json.dumps(head | {"version": VERSION + 1, "program": "0.9.0"}) + "\n")
    done = replayed(path)
    assert done.exit_code == 2
    assert f"{path}:1: is a recording of format {VERSION + 1}, and dra-scheduler" in done.output
    assert f"reads format {VERSION}: use dra-scheduler 0.9.0, which wrote it" in done.output


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("", "run.jsonl: is empty; a recording is made by `dra-scheduler run --record FILE`", id="empty"),
        pytest.param("apiVersion: v1\n", "run.jsonl:1: is no recording; one is made by", id="yaml"),
        pytest.param('{"kind": "List"}\n', "run.jsonl:1: is no recording; one is made by", id="json"),
        pytest.param("\x00\x01\n", "run.jsonl:1: is no recording; one is made by", id="binary"),
    ],
)
def test_what_is_no_recording_is_refused(path: Path, text: str, complaint: str) -> None:
    path.write_text(text)
    done = replayed(path)
    assert done.exit_code == 2
    assert complaint in done.output
    if text:
        with pytest.raises(LineError, match="is no recording"):
            Recorder(path)
        assert path.read_text() == text


@pytest.mark.parametrize("part", ["settings", "features", "profiles"])
def test_settings_that_are_not_known_name_the_program_that_wrote_them(path: Path, part: str) -> None:
    head = json.loads(encode_head(RECIPE))
    target = head[part][0] if part == "profiles" else head[part]
    target["from_the_future"] = 1
    path.write_text(json.dumps(head | {"program": "0.9.0"}) + "\n")
    text = replayed(path).output
    assert f"{path}:1: has settings that dra-scheduler" in text
    assert "from_the_future" in text
    assert "use dra-scheduler 0.9.0, which wrote it" in text


def test_a_line_that_is_no_entry_is_named(path: Path) -> None:
    record(path)
    path.write_bytes(path.read_bytes().replace(b'"$":"inputs.TimerFired"', b'"$":"os.system"'))
    done = replayed(path)
    assert done.exit_code == 2
    assert f"{path}:25: is no entry of a recording: ValueError: unknown type os.system" in done.output


def test_what_cannot_be_encoded_is_admitted(path: Path) -> None:
    record(path, handle=lambda given, *, now_ms: (object(),))
    assert "run.jsonl:2: is an input that could not be written (TypeError" in replayed(path).output


def test_a_full_disk_ends_the_recording_and_not_the_scheduler(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Full:
        def write(self, line: bytes) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    recorder = Recorder(path)
    handle = recorder.begin(RECIPE, lambda: "uid").of(lambda given, *, now_ms: ())
    recorder.close()
    recorder._file = Full()
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            assert handle(TimerFired(), now_ms=1) == ()
            recorder.flush()
    recorder.close()
    assert [one.getMessage() for one in caplog.records] == [
        f"{path} cannot be written, nothing more is recorded: No space left on device"
    ]
