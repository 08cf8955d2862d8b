"""kube-scheduler, ours, and bare API writes on the same pods, on a real control plane of its own each time.

    python -m benchmarks.compare                                          # table goals, 3 rounds
    python -m benchmarks.compare --quick                                  # a few nodes and pods, 1 round: does it work
    python -m benchmarks.compare --table steady --out results/steady      # a whole table (tables.yaml)
    python -m benchmarks.compare --table scheduler-perf --estimate        # how long it would take, row by row
    python -m benchmarks.compare --table plugins --rows plain,affinity-zone --out results/plugins --resume

What is measured
    The pods and their claims exist before the contender starts; its start-up and cache filling are not counted.
    Watches see its first write (a claim's finalizer, or a binding) and every binding; the clock runs from the first
    write to the last binding. pods/s is what was bound in that time, p50 and p99 are over the pods' times since
    its beginning, CPU seconds are the contender's process in that time. Contenders alternate within each round,
    each on a fresh control plane.
    `bare writes` sends the writes of a scheduler (finalizer, status, binding, event) and decides nothing: the
    limit that API server and etcd set on this machine.
    Where pods arrive at a fixed rate they go when they are bound; in a closed loop a new pod comes for each that was
    bound. There p50 and p99 are from creation to binding.

With --out FILE each run is added to FILE.json and FILE.md as it ends; --resume takes up what is there already.
Every run ends with the invariant checker; a violation is printed and makes the exit code 1.
Needs Go (tests/controlplane/build.py) and Linux.
"""

from __future__ import annotations

import argparse
import difflib
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.contenders import contender
from benchmarks.loads import measure
from benchmarks.report import Record, markdown, summarize, until_stopped
from benchmarks.tables import Entry, runs, table, table_names

_NAMES = {short: contender(short).name for short in ("kube", "ours", "bare", "sampled")}


def entries_of(arguments: argparse.Namespace) -> list[Entry]:
    """The rows of the table that were chosen."""
    found = [one for one in table(arguments.table) if not arguments.rows or one.name in arguments.rows]
    return [one.quick() for one in found] if arguments.quick else found


async def run(arguments: argparse.Namespace, record: Record) -> None:
    ends = time.monotonic() + 60 * arguments.minutes if arguments.minutes else None
    for round_number, entry, short in planned(arguments):
        if record.has(entry.name, _NAMES[short], round_number):
            continue
        if ends is not None and time.monotonic() + entry.seconds(short) > ends:
            _say(
                f"{entry.name} round {round_number} {_NAMES[short]}: left out, --minutes {arguments.minutes:g} are over"
            )
            continue
        result = await measure(entry.fleet, contender(short), round_number, entry.load, entry.name)
        record.add(result)
        _say(
            f"{result.workload} round {round_number} {result.contender}: {result.pods_per_s:.0f} pods/s, "
            f"{result.cpu_s:.1f} CPU s, p50 {result.p50_s:.3f} s, p99 {result.p99_s:.3f} s, "
            f"{result.wall_s:.0f} s in all (estimate {entry.seconds(short):.0f}) {result.failure}"
        )


def planned(arguments: argparse.Namespace) -> list[tuple[int, Entry, str]]:
    """All runs in order."""
    chosen = arguments.contenders.split(",")
    return [one for one in runs(entries_of(arguments), arguments.rounds) if one[2] in chosen]


def row_names(name: str, given: Sequence[str]) -> list[str]:
    """The rows of a table that are meant; names may have commas of their own. Raises ValueError for one it has not."""
    known = [entry.name for entry in table(name)]
    found: list[str] = []
    for text in given:
        for one in [text] if text in known else [part.strip() for part in text.split(",")]:
            if one not in known:
                near = difflib.get_close_matches(one, known, 1)
                meant = f", did you mean {near[0]!r}?" if near else ""
                raise ValueError(f"--rows: table {name} has no row {one!r}{meant} (--estimate prints their names)")
            found.append(one)
    return found


def _say(text: str) -> None:
    print(text.rstrip(), file=sys.stderr, flush=True)


def estimate(arguments: argparse.Namespace) -> str:
    """Minutes by entry and contender, and in all."""
    seconds: dict[tuple[str, str], float] = {}
    for _, entry, short in planned(arguments):
        key = (entry.name, _NAMES[short])
        seconds[key] = seconds.get(key, 0) + entry.seconds(short)
    lines = [f"{spent / 60:6.1f} min  {name}, {one}" for (name, one), spent in seconds.items()]
    return "\n".join([*lines, f"{sum(seconds.values()) / 60:6.1f} min  in all, {arguments.rounds} round(s)"])


def parse(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", choices=table_names(), default="goals", help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, help="begin no run that would end later than that")
    parser.add_argument(
        "--rows",
        metavar="NAMES",
        action="append",
        default=[],
        help="of the table, only these rows, separated by commas (repeatable); --estimate prints their names",
    )
    parser.add_argument("--contenders", default=",".join(_NAMES), help="default: %(default)s")
    parser.add_argument("--quick", action="store_true", help="rows as small as can be, 1 round")
    parser.add_argument("--estimate", action="store_true", help="say how long it would take, and run nothing")
    parser.add_argument("--out", type=Path, metavar="FILE", help="add each run to FILE.json and FILE.md as it ends")
    parser.add_argument("--resume", action="store_true", help="with --out: runs that FILE.json has are not repeated")
    arguments = parser.parse_args(given)
    if arguments.quick:
        arguments.rounds = 1
    try:
        arguments.rows = row_names(arguments.table, arguments.rows) if arguments.rows else []
    except ValueError as error:
        parser.error(str(error))
    for short in arguments.contenders.split(","):
        if short not in _NAMES:
            parser.error(f"contender {short!r}: want {', '.join(_NAMES)}")
    return arguments


def main(given: Sequence[str] | None = None) -> int:
    arguments = parse(given)
    if arguments.estimate:
        print(estimate(arguments))
        return 0
    about: dict[str, Any] = {"cores": os.cpu_count(), "python": platform.python_version(), "table": arguments.table}
    record = Record(arguments.out, about)
    if arguments.resume:
        record.resume()
    is_whole = until_stopped(run(arguments, record))
    rows = summarize(record.runs)
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    print(markdown(rows))
    return 1 if not is_whole or any(row.violations or row.failures for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
