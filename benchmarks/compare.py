"""kube-scheduler, ours, and bare API writes on the same pods, on a real control plane of its own each time.

    python -m benchmarks.compare                           # backlogs: 500 nodes x 8 devices, 1000 pods, 3 rounds
    python -m benchmarks.compare --quick                   # 20 nodes, 40 pods, 1 round: does it work
    python -m benchmarks.compare --workload one-device --rounds 5 -o json
    python -m benchmarks.compare --steady 20 --full 0.5    # pods arrive at 20/s: time from creation to binding
    python -m benchmarks.compare --table goals --out results/goals        # a whole table (tables.yaml)
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
    With --steady pods arrive at a fixed rate and go when they are bound; in a closed loop (tables only) a new pod
    comes for each that was bound; p50 and p99 are from creation to binding.

With --out FILE each run is added to FILE.json and FILE.md as it ends; --resume takes up what is there already.
Every run ends with the invariant checker; a violation is printed and makes the exit code 1.
Needs Go (tests/controlplane/build.py) and Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import os
import platform
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__" and not __package__:  # also as `python benchmarks/compare.py`
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import uvloop

from benchmarks.contenders import contender
from benchmarks.fleet import Fleet, Size, workloads
from benchmarks.loads import Backlog, Load, Steady, measure
from benchmarks.report import Record, markdown, summarize
from benchmarks.tables import Entry, runs, table, table_names

_NAMES = {"kube": "kube-scheduler", "ours": "dra-scheduler", "bare": "bare writes"}


def entries_of(arguments: argparse.Namespace) -> list[Entry]:
    """What to run: a table's entries, or the workloads named."""
    if arguments.table is not None:
        found = [
            entry
            for entry in table(arguments.table)
            if (not arguments.workload or entry.fleet.workload.name in arguments.workload)
            and (not arguments.rows or entry.name in arguments.rows)
        ]
        return [entry.quick() for entry in found] if arguments.quick else found
    known = workloads()
    names = arguments.workload or [name for name, workload in known.items() if workload.is_plain_backlog]
    taken = int(arguments.nodes * arguments.devices * arguments.full)
    size = Size(arguments.nodes, arguments.devices, arguments.pods, taken)
    load: Load = Steady(arguments.steady, arguments.seconds) if arguments.steady else Backlog()
    label = load.label + (f", {arguments.full:.0%} full" if arguments.full else "")
    shorts = [short for short in arguments.contenders.split(",") if short != "bare" or not arguments.steady]
    return [Entry(f"{name}{label}", Fleet(known[name], size), load, tuple(shorts)) for name in names]


async def run(arguments: argparse.Namespace, record: Record) -> None:
    task = asyncio.current_task()
    assert task is not None
    # Unwind when told to stop, so that nothing is left behind.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    ends = time.monotonic() + 60 * arguments.minutes if arguments.minutes else None
    for round_number, entry, short in planned(arguments):
        if record.has(entry.name, _NAMES[short], round_number):
            continue
        if ends is not None and time.monotonic() + entry.seconds(short) > ends:
            _say(
                f"{entry.name} round {round_number} {_NAMES[short]}: left out, --minutes {arguments.minutes:g} are over"
            )
            continue
        one = contender(short, tuple(arguments.ours_option))
        result = await measure(entry.fleet, one, round_number, entry.load, entry.name)
        record.add(result)
        _say(
            f"{result.workload} round {round_number} {result.contender}: {result.pods_per_s:.0f} pods/s, "
            f"{result.cpu_s:.1f} CPU s, p50 {result.p50_s:.3f} s, p99 {result.p99_s:.3f} s, "
            f"{result.wall_s:.0f} s in all (estimate {entry.seconds(short):.0f}) {result.failure}"
        )


def planned(arguments: argparse.Namespace) -> list[tuple[int, Entry, str]]:
    """All runs in order."""
    rounds = arguments.rounds
    kube_rounds = rounds if arguments.kube_rounds is None else arguments.kube_rounds
    chosen = arguments.contenders.split(",")
    every = runs(entries_of(arguments), rounds=rounds, kube_rounds=kube_rounds, kube_pods=arguments.kube_pods)
    return [one for one in every if one[2] in chosen]


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
    parser.add_argument("--table", choices=table_names(), help="a whole table, with its own sizes and loads")
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--devices", type=int, default=8, help="a node")
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kube-rounds", type=int, metavar="N", help="kube-scheduler takes part in the first N only")
    parser.add_argument("--kube-pods", type=int, metavar="N", help="kube-scheduler gets at most N pods")
    parser.add_argument("--minutes", type=float, help="begin no run that would end later than that")
    parser.add_argument("--workload", action="append", choices=list(workloads()), help="repeatable; default: all")
    parser.add_argument(
        "--rows",
        metavar="NAMES",
        action="append",
        default=[],
        help="of the table, only these rows, separated by commas (repeatable); --estimate prints their names",
    )
    parser.add_argument("--contenders", default="kube,ours,bare", help="of kube, ours, bare; default: %(default)s")
    parser.add_argument("--steady", type=float, metavar="RATE", help="pods/s that arrive, instead of a backlog")
    parser.add_argument("--seconds", type=float, default=30, help="how long they arrive, with --steady")
    parser.add_argument("--full", type=float, default=0.0, help="share of devices taken before")
    parser.add_argument("--quick", action="store_true", help="20 nodes, 40 pods, 1 round; tables as small as can be")
    parser.add_argument("--estimate", action="store_true", help="say how long it would take, and run nothing")
    parser.add_argument("--out", type=Path, metavar="FILE", help="add each run to FILE.json and FILE.md as it ends")
    parser.add_argument("--resume", action="store_true", help="with --out: runs that FILE.json has are not repeated")
    parser.add_argument(
        "--ours-option",
        action="append",
        default=[],
        metavar="OPTION",
        help="of `dra-scheduler run`, as --paranoid",
    )
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    arguments = parser.parse_args(given)
    if arguments.quick:
        arguments.nodes, arguments.pods, arguments.rounds = 20, 40, 1
    if arguments.rows and arguments.table is None:
        parser.error("--rows are those of a --table")
    try:
        arguments.rows = row_names(arguments.table, arguments.rows) if arguments.rows else []
    except ValueError as error:
        parser.error(str(error))
    for short in arguments.contenders.split(","):
        if short not in _NAMES:
            parser.error(f"contender {short!r}: want kube, ours or bare")
    return arguments


def main(given: Sequence[str] | None = None) -> int:
    arguments = parse(given)
    if arguments.estimate:
        print(estimate(arguments))
        return 0
    about: dict[str, Any] = {"cores": os.cpu_count(), "python": platform.python_version(), "table": arguments.table}
    if arguments.table is None:
        about |= {"nodes": arguments.nodes, "devices": arguments.devices, "pods": arguments.pods}
    record = Record(arguments.out, about)
    if arguments.resume:
        record.resume()
    is_stopped = False
    try:
        uvloop.run(run(arguments, record))
    except (asyncio.CancelledError, KeyboardInterrupt):
        is_stopped = True
        _say("stopped; what was measured follows")
    rows = summarize(record.runs)
    if arguments.output == "json":
        print(record.json())
    else:
        print(", ".join(f"{key} {value}" for key, value in about.items() if value is not None))
        print(markdown(rows))
    return 1 if is_stopped or any(row.violations or row.failures for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
