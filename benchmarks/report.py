"""Runs to rows: medians, spread, ratios, and the files that hold them while a table is being made."""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.loads import Measured

BASELINE, LIMIT = "kube-scheduler", "bare writes"


@dataclass(frozen=True, slots=True)
class Row:
    """All rounds of one contender on one workload: medians, and the spread of pods/s. `pods`: of one run.

    Attributes:
        cluster_ms_per_pod: CPU of API server, etcd and kube-controller-manager, which share the machine.
    """

    workload: str
    contender: str
    rounds: int
    pods: int
    pods_per_s: float
    pods_per_s_min: float
    pods_per_s_max: float
    cpu_s: float
    cpu_ms_per_pod: float
    cluster_ms_per_pod: float
    p50_s: float
    p99_s: float
    times_baseline: float | None
    share_of_limit: float | None
    violations: int
    failures: tuple[str, ...]


_MEDIANS = ("pods_per_s", "cpu_s", "cpu_ms_per_pod", "p50_s", "p99_s")


def summarize(measured: Sequence[Measured]) -> list[Row]:
    """One row a workload and contender, with the ratios to kube-scheduler and to bare writes."""
    runs: dict[tuple[str, str], list[Measured]] = {}
    for workload in dict.fromkeys(one.workload for one in measured):
        for one in measured:
            if one.workload == workload:
                runs.setdefault((workload, one.contender), []).append(one)
    whole = {key: [one for one in found if one.bound] or found for key, found in runs.items()}
    speeds = {key: statistics.median(one.pods_per_s for one in found) for key, found in whole.items()}
    rows = []
    for key, found in runs.items():
        done, (workload, contender) = whole[key], key
        row = Row(
            workload=workload,
            contender=contender,
            rounds=len(found),
            pods=done[0].pods,
            pods_per_s_min=min(one.pods_per_s for one in done),
            pods_per_s_max=max(one.pods_per_s for one in done),
            cluster_ms_per_pod=statistics.median(1000 * one.cluster_cpu_s / max(one.bound, 1) for one in done),
            times_baseline=ratio(speeds[key], speeds.get((workload, BASELINE))),
            share_of_limit=ratio(speeds[key], speeds.get((workload, LIMIT))),
            violations=sum(one.violations for one in found),
            failures=tuple(one.failure for one in found if one.failure),
            **{name: statistics.median(getattr(one, name) for one in done) for name in _MEDIANS},
        )
        rows.append(row)
    return rows


def ratio(value: float, of: float | None) -> float | None:
    return value / of if of else None


def markdown(rows: Sequence[Row]) -> str:
    """The table, and below it what went wrong."""
    head = (
        *("workload", "contender", "runs", "pods", "pods/s", "(min-max)", "CPU s", "CPU ms/pod", "cluster ms/pod"),
        *("p50 s", "p99 s", "x kube", "of bare"),
    )
    text = aligned([head, *(cells_of(row) for row in rows)], left=(0, 1))
    for row in rows:
        text += [f"{row.workload}, {row.contender}: {failure}" for failure in row.failures]
        if row.violations:
            text.append(f"{row.workload}, {row.contender}: {row.violations} INVARIANT VIOLATIONS")
    return "\n".join(text)


def aligned(lines: Sequence[Sequence[str]], *, left: Collection[int]) -> list[str]:
    """A Markdown table of a head and rows; the columns in `left` are text, all others numbers."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    rule = ["-" * width if column in left else "-" * (width - 1) + ":" for column, width in enumerate(widths)]
    text: list[str] = []
    for line in (lines[0], rule, *lines[1:]):
        cells = [
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        text.append("| " + " | ".join(cells) + " |")
    return text


def cells_of(row: Row) -> tuple[str, ...]:
    return (
        row.workload,
        row.contender,
        str(row.rounds),
        str(row.pods),
        _speed(row.pods_per_s),
        f"({_speed(row.pods_per_s_min)}-{_speed(row.pods_per_s_max)})",
        f"{row.cpu_s:.1f}",
        f"{row.cpu_ms_per_pod:.2f}",
        f"{row.cluster_ms_per_pod:.1f}",
        f"{row.p50_s:.3f}",
        f"{row.p99_s:.3f}",
        "" if row.times_baseline is None else f"{row.times_baseline:.1f}",
        "" if row.share_of_limit is None else f"{row.share_of_limit:.0%}",
    )


def _speed(pods_per_s: float) -> str:
    return f"{pods_per_s:.0f}" if pods_per_s >= 10 else f"{pods_per_s:.2g}"


class Record:
    """All runs so far, written to `PATH.json` and `PATH.md` after each: what was interrupted keeps its rows."""

    def __init__(self, path: Path | None, about: Mapping[str, Any]) -> None:
        self.runs: list[Measured] = []
        self._path = path
        self._about = dict(about)

    def resume(self) -> None:
        """Take over the runs that the file has, if there is one."""
        if self._path is not None and (file := self._path.with_suffix(".json")).exists():
            self.runs = [Measured(**run) for run in json.loads(file.read_text())["runs"]]

    def has(self, workload: str, contender: str, round_number: int) -> bool:
        return any((run.workload, run.contender, run.round) == (workload, contender, round_number) for run in self.runs)

    def add(self, run: Measured) -> None:
        self.runs.append(run)
        if self._path is not None:
            replace_file(self._path.with_suffix(".json"), self.json())
            replace_file(self._path.with_suffix(".md"), markdown(summarize(self.runs)) + "\n")

    def json(self) -> str:
        rows = [asdict(row) for row in summarize(self.runs)]
        return json.dumps({"about": self._about, "rows": rows, "runs": [asdict(run) for run in self.runs]})


def replace_file(path: Path, text: str) -> None:
    """The whole new text or the whole old one, whenever it is interrupted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    beside.write_text(text)
    os.replace(beside, path)


def until_stopped(work: Coroutine[Any, Any, object]) -> bool:
    """Run it to its end. False: SIGTERM or Ctrl-C came, and it has unwound, so that nothing is left behind."""
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        uvloop.run(work)
    except KeyboardInterrupt:
        print("stopped; what was measured follows", file=sys.stderr)
        return False
    finally:
        signal.signal(signal.SIGTERM, before)
    return True
