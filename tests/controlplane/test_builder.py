"""Go programs are built by one process beside the tests: what it writes, who waits for it, and what comes last."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.controlplane.build import (
    BETA,
    BETAS,
    PROGRAMS,
    RUN,
    BuildError,
    RegistryUnreachableError,
    build,
    built_or_skip,
    outcome,
)
from tests.controlplane.builder import is_ready, start, stop
from tests.workers import next_unit

BUILDS = 'while test "$1" != -o; do shift; done; touch "$2"'


@pytest.fixture
def go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Sets what `go build` does, as a shell's lines, in a run with an empty cache."""
    monkeypatch.setenv(RUN, str(tmp_path / "run"))
    monkeypatch.setenv("DRA_SCHEDULER_TEST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (tmp_path / "run").mkdir()

    def does(lines: str) -> None:
        program = tmp_path / "go"
        program.write_text(f'#!/bin/sh\ntest "$1" = build || exit 0\n{lines}\n')
        program.chmod(0o755)

    build.cache_clear()
    yield does
    build.cache_clear()


def test_the_builder_says_what_it_builds_and_how_far_it_is(
    go: Callable[[str], None], capfd: pytest.CaptureFixture[str]
) -> None:
    go(BUILDS)
    builder = start(["oracle-1.37", "helm"])
    assert builder is not None

    assert outcome("oracle-1.37") == {}
    assert build("oracle-1.37").is_file()
    assert builder.wait() == 0
    said = capfd.readouterr().out
    assert "Go: builds oracle-1.37 (1 of 2)" in said
    assert "Go: built helm (2 of 2, " in said


def test_what_is_there_needs_no_builder(go: Callable[[str], None]) -> None:
    go(BUILDS)
    build("oracle-1.37")

    assert start(["oracle-1.37"]) is None
    assert is_ready("oracle-1.37")


def test_a_test_waits_until_its_program_is_there(go: Callable[[str], None], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    go(f"read line <{tmp_path}/gate; {BUILDS}")
    builder = start(["oracle-1.37"])
    assert builder is not None
    assert not is_ready("oracle-1.37")

    (tmp_path / "gate").write_text("go on\n")
    assert build("oracle-1.37").is_file()
    assert is_ready("oracle-1.37")
    builder.wait()


def test_a_failed_build_is_said_by_each_test_that_needs_it_and_not_tried_again(
    go: Callable[[str], None], tmp_path: Path
) -> None:
    go(f"echo built >> {tmp_path}/calls; echo undefined: nonsense >&2; exit 1")
    builder = start(["oracle-1.37"])
    assert builder is not None
    for _ in range(2):
        with pytest.raises(BuildError, match="undefined: nonsense"):
            built_or_skip("oracle")
    builder.wait()

    assert (tmp_path / "calls").read_text() == "built\n"


def test_a_silent_registry_leaves_the_tests_out(go: Callable[[str], None]) -> None:
    go("echo dial tcp: no such host >&2; exit 1")
    builder = start(["oracle-1.37"])
    assert builder is not None
    with pytest.raises(RegistryUnreachableError):
        build("oracle")
    with pytest.raises(pytest.skip.Exception, match="LEFT OUT"):
        built_or_skip("oracle")
    builder.wait()


@pytest.mark.parametrize("end", [stop, lambda builder: os.killpg(builder.pid, signal.SIGKILL)], ids=["stop", "kill"])
def test_nobody_waits_for_a_builder_that_has_ended(go: Callable[[str], None], tmp_path: Path, end: Callable) -> None:
    os.mkfifo(tmp_path / "gate")
    go(f"read line <{tmp_path}/gate")
    builder = start(["oracle-1.37", "helm"])
    assert builder is not None
    end(builder)
    builder.wait()

    for program in ("oracle-1.37", "helm"):
        with pytest.raises(BuildError, match=f"the process that builds {program} ended before it was done"):
            build(program)


def test_without_go_a_test_says_how_to_do_without(go: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(BuildError, match="not on PATH; install it, or run the tests that need none"):
        build("oracle")


def test_a_release_is_built_with_the_go_that_its_mod_file_names(go: Callable[[str], None]) -> None:
    go(f'echo "$GOTOOLCHAIN" >"$DRA_SCHEDULER_TEST_CACHE/asked"; {BUILDS}')

    asked = build("oracle-1.38").parents[1] / "asked"
    assert asked.read_text() == "go1.27.4\n"
    build("oracle-1.37")
    assert asked.read_text() == f"{os.environ.get('GOTOOLCHAIN', '')}\n"


@pytest.mark.skipif(bool(os.environ.get(BETA)), reason="this run asks for it")
@pytest.mark.parametrize("minor", BETAS)
def test_tests_of_a_beta_are_left_out_where_nobody_asks_for_it(go: Callable[[str], None], minor: str) -> None:
    go("exit 1")

    assert f"oracle-{minor}" not in PROGRAMS
    with pytest.raises(pytest.skip.Exception, match=f"{BETA}=1 asks for it"):
        built_or_skip(f"oracle-{minor}")


NEEDS = {"plain": [], "oracle": ["oracle-1.37"], "cluster": ["controlplane-1.37"]}


@pytest.mark.parametrize(
    ("built", "may_have_one", "want"),
    [
        ([], True, ["plain", "cluster", "oracle"]),
        (["oracle-1.37"], True, ["oracle", "plain", "cluster"]),
        (["oracle-1.37", "controlplane-1.37"], True, ["cluster", "oracle", "plain"]),
        (["oracle-1.37", "controlplane-1.37"], False, ["oracle", "plain"]),
        ([], False, ["plain", "oracle"]),
    ],
)
def test_what_needs_no_program_comes_first_and_control_planes_go_to_two_workers(
    monkeypatch: pytest.MonkeyPatch, built: list[str], may_have_one: bool, want: list[str]
) -> None:
    monkeypatch.setattr("tests.workers.is_ready", lambda program: program in built)
    waiting = ["oracle", "plain", "cluster"]
    taken = []
    while (unit := next_unit(waiting, NEEDS, may_have_one=may_have_one)) is not None:
        taken.append(unit)
        waiting.remove(unit)

    assert taken == want


@pytest.mark.parametrize(
    ("may_have_one", "want"),
    [
        (True, ["tests/integration/b.py", "tests/kube/d.py", "tests/core/a.py", "tests/cel/c.py"]),
        (False, ["tests/core/a.py", "tests/cel/c.py", "tests/integration/b.py", "tests/kube/d.py"]),
    ],
)
def test_two_workers_begin_with_tests_that_wait_and_the_others_with_those_that_compute(
    may_have_one: bool, want: list[str]
) -> None:
    waiting = ["tests/core/a.py", "tests/integration/b.py", "tests/cel/c.py", "tests/kube/d.py"]
    taken = []
    while (unit := next_unit(waiting, dict.fromkeys(waiting, ()), may_have_one=may_have_one)) is not None:
        taken.append(unit)
        waiting.remove(unit)
    assert taken == want
