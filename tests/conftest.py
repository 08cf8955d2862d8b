"""For all tests: no event loop left over from one for the next, no deadline for hypothesis, long runs on demand, no
garbage collection while tests are collected.

One process builds the Go programs that collected tests need, while tests run that need none (`tests/workers.py`). What
was left out is said at the end: reasons to skip that begin with LEFT OUT, in the terminal and in `.cache/left-out`.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import signal
import sys
import tempfile
import typing
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings
from xdist.remote import Producer

from tests.controlplane.build import PROGRAMS, RUN, outcome
from tests.controlplane.builder import start, stop
from tests.nightly import IS_NIGHT
from tests.workers import GoWhenReady, note_needs, programs_of

LEFT_OUT: Final = "LEFT OUT, "
LEFT_OUT_FILE: Final = Path(__file__).resolve().parents[1] / ".cache" / "left-out"

# Workers of pytest-xdist take files in this order: what lasts minutes comes first, so that all of them end together.
# The leases' times pass beside tests that wait too, not beside those that need a whole core.
LONGEST_FIRST: Final = (
    *("tests/integration/test_lease.py", "tests/integration", "tests/ui", "tests/sim"),
    *(
        "tests/cel/test_effort.py",
        "tests/embedded",
        "tests/allocator/test_differential_oracle.py",
        "tests/kube",
        "tests/cli",
    ),
    "tests/core/test_deciding_rows.py",
)

# looptime and pytest-asyncio ask the policy for "the current loop"; without this line it makes one that nobody closes,
# which -W error turns into a failure of whatever test runs next.
asyncio.set_event_loop(None)

# Python 3.12 remembers what a protocol has; 3.11 looks at all names of the class each time, which was a quarter of the
# time of simulated worlds: they make a scheduler, with its plugins, for each restart.
if sys.version_info < (3, 12):
    typing._get_protocol_attrs = functools.cache(typing._get_protocol_attrs)  # type: ignore[attr-defined]

# No test may fail because the machine is busy: hypothesis' default allows an example 200 ms.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


# A shell without job control starts what runs in its background with Ctrl-C ignored, nohup with SIGHUP ignored. What is
# ignored stays so in the processes that tests start, and stop with these signals; what is caught does not.
for _number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)

# kube-apiserver and its like collect their garbage less often: there are dozens of them, none lives long.
os.environ.setdefault("GOGC", "400")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Without Python's garbage collector, which would walk over the growing tree of tests again and again.

    That was two thirds of the work to collect, and each worker collects all. Nor does it walk there while tests run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GoWhenReady:
    scheduler = GoWhenReady(config, log)
    config.add_cleanup(lambda: scheduler.builder and stop(scheduler.builder))
    return scheduler


def pytest_configure(config: pytest.Config) -> None:
    """A folder for what became of each Go program in this run; workers learn it by the environment."""
    if not hasattr(config, "workerinput"):
        folder = tempfile.TemporaryDirectory(prefix="dra-scheduler-builds-")
        config.add_cleanup(folder.cleanup)
        os.environ[RUN] = folder.name


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The order of the files; and leave the long runs (marker `nightly`) out, unless NIGHTLY=1 asks for them."""
    items.sort(key=lambda item: next((i for i, path in enumerate(LONGEST_FIRST) if item.nodeid.startswith(path)), 99))
    if IS_NIGHT:
        return
    long_runs = [item for item in items if item.get_closest_marker("nightly")]
    items[:] = [item for item in items if not item.get_closest_marker("nightly")]
    config.hook.pytest_deselected(items=long_runs)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist tells the controller that this worker has collected
def pytest_collection_finish(session: pytest.Session) -> None:
    """Tell the controller what the tests need; without one, begin to build that, and let what needs it come last."""
    config = session.config
    if hasattr(config, "workerinput"):
        note_needs(session.items)
    elif not config.option.collectonly:
        needed = {program for item in session.items for program in programs_of(item)}
        builder = start(program for program in PROGRAMS if program in needed)
        if builder:
            config.add_cleanup(lambda: stop(builder))
            session.items.sort(key=lambda item: programs_of(item) != [])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Wait for the Go programs that a test needs before its clock runs; its fixtures say what went wrong."""
    for program in programs_of(item):
        outcome(program)
    return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out because something is not here; a worker of pytest-xdist has no terminal."""
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", ()):
        _, _, reason = report.longrepr
        _, marker, what = reason.partition(LEFT_OUT)
        if marker:
            reasons[what.splitlines()[0]] += 1
    lines = [f"{count} x {what}" for what, count in sorted(reasons.items())]
    LEFT_OUT_FILE.parent.mkdir(exist_ok=True)
    LEFT_OUT_FILE.write_text("".join(f"{line}\n" for line in lines))
    for line in lines:
        terminalreporter.line(f"LEFT OUT: {line}", yellow=True)
