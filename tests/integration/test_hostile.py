"""The harness for hostile loads: its loads are what they say, its sums are right, and a small run runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import cel
from benchmarks.contenders import ContenderError, told
from benchmarks.fleet import DRIVER
from benchmarks.hostile import HEAD, Livez, Row, Stream, cells_of, main, table
from benchmarks.hostile_loads import DIGITS, expensive
from cel.checker import environments
from tests.controlplane.build import built_or_skip


def test_a_selector_near_the_limit_is_taken_and_true_of_every_device_but_one() -> None:
    text = expensive("x1")
    selector = cel.compile_selector(text, environments.get("1.36"))
    matches = [
        selector.matches(cel.device_view(DRIVER, {"uuid": uuid}, {}, allow_multiple_allocations=False))
        for uuid in ("x1", "x2")
    ]

    assert len(text) == 242
    assert matches == [False, True]


def test_no_device_may_take_longer_than_such_a_selector() -> None:
    selector = cel.compile_selector(expensive("x1"), environments.get("1.36"))
    device = cel.device_view(DRIVER, {"uuid": "x2"}, {}, allow_multiple_allocations=False)
    answer, work = cel.answer_with_work(selector, device)

    assert answer is True
    assert work > 0.8 * cel.ANSWER_WORK_MAX


def test_with_longer_loops_it_ends_with_an_error() -> None:
    longer = expensive("x1").replace("[0,1,2,3]", f"[{DIGITS}]")
    selector = cel.compile_selector(longer, environments.get("1.36"))

    with pytest.raises(cel.EvaluationError, match="actual cost limit exceeded"):
        selector.matches(cel.device_view(DRIVER, {"uuid": "x2"}, {}, allow_multiple_allocations=False))


def cells(row: Row) -> dict[str, str]:
    return dict(zip(HEAD, cells_of(row), strict=True))


def row(beside: Stream, **more: object) -> Row:
    alone = Stream(bound=(10.0,) * 99 + (20.0,))
    values = {"longest_ms": 12.0, "resident_mib": 100.0, "livez": Livez(50, 0, 9.0), **more}
    return Row("nothing", 500, alone, beside, **values)


def test_a_row_that_keeps_the_goals_misses_nothing() -> None:
    found = cells(row(Stream(bound=(15.0,) * 99 + (40.0,))))

    assert (found["bound"], found["p50 ms"], found["p99 ms"], found["x alone"]) == ("100/100", "15", "40", "2.0")
    assert (found["longest input ms"], found["failed"], found["missed"]) == ("12", "0/50", "")


def test_the_goal_is_about_what_the_input_itself_took() -> None:
    pods = Stream(bound=(15.0,))
    shared, long = cells(row(pods, longest_ms=60.0, longest_cpu_ms=13.0)), cells(row(pods, longest_cpu_ms=21.0))
    older = cells(row(pods, longest_ms=21.0))

    assert (shared["longest input ms"], shared["input CPU ms"], shared["missed"]) == ("60", "13", "")
    assert (long["input CPU ms"], long["missed"]) == ("21", "input")
    assert (older["input CPU ms"], older["missed"]) == ("", "input")


def test_pods_that_were_not_bound_count_with_what_they_waited_and_are_marked() -> None:
    found = cells(row(Stream(bound=(15.0,) * 98, late=(900.0, 1000.0))))

    assert (found["bound"], found["p50 ms"], found["p99 ms"], found["missed"]) == ("98/100", "15", ">1000", "p99")


def test_a_scheduler_that_never_answered_is_no_fast_one() -> None:
    found = cells(row(Stream(late=(35_000.0,)), longest_ms=None, livez=Livez(7, 7, 5000.0)))

    assert (found["bound"], found["p99 ms"], found["longest input ms"]) == ("0/1", ">35000", "no answer")
    assert (found["failed"], found["missed"]) == ("7/7", "p99, input, livez")


def test_what_went_wrong_is_below_the_table() -> None:
    lines = table([row(Stream(bound=(15.0,)), failure="it ended", violations=2, stop_s=10.0)]).splitlines()

    assert lines[0].startswith("| load ")
    assert [line for line in lines[3:] if line] == [
        "nothing: it ended",
        "nothing: 2 INVARIANT VIOLATIONS",
        "nothing: SIGTERM was not obeyed within 9 s",
    ]


def test_what_went_wrong_together_is_told_once_and_by_its_own_words() -> None:
    inner = ExceptionGroup("inner", [ContenderError("it ended"), TimeoutError()])

    assert told(ExceptionGroup("outer", [inner, ContenderError("it ended")])) == "it ended; took too long"


@pytest.mark.controlplane
def test_a_small_run_measures_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """Groups of which not all fit, and a webhook that is down: the ordinary ones are bound, and no rule is broken."""
    built_or_skip("controlplane")
    out = tmp_path / "table"
    assert main(["--quick", "--loads", "groups-10x100", "webhook-down", "--out", str(out)]) == 0

    rows = json.loads(out.with_suffix(".json").read_text())["rows"]
    assert [(one["load"], one["nodes"], one["violations"], one["failure"]) for one in rows] == [
        ("groups-10x100", 20, 0, ""),
        ("webhook-down", 20, 0, ""),
    ]
    assert all(one["beside"]["bound"] and one["alone"]["bound"] and one["livez"]["asked"] for one in rows)
    assert all(one["longest_ms"] > 0 and one["resident_mib"] > 0 for one in rows)
    assert out.with_suffix(".md").read_text().count("\n") == 4
