"""For all tests: no event loop left over from one for the next, no deadline for hypothesis, long runs on demand, no
garbage collection while tests are collected.

The Go programs are built when a collected test needs them, and what was left out is said at the end: reasons to skip
that begin with LEFT OUT, in the terminal and in `.cache/left-out`.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import signal
import sys
import typing
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings
from xdist.remote import Producer

from tests.controlplane.build import PROGRAMS, BuildError, RegistryUnreachableError, build
from tests.workers import TwoControlPlanes, needs_control_plane

LEFT_OUT: Final = "LEFT OUT, "
LEFT_OUT_FILE: Final = Path(__file__).resolve().parents[1] / ".cache" / "left-out"

# Workers of pytest-xdist take files in this order: what lasts minutes comes first, so that all of them end together.
# The leases' times pass beside tests that wait too, not beside those that need a whole core.
LONGEST_FIRST: Final = (
    *("tests/integration/test_lease.py", "tests/integration", "tests/sim", "tests/cel/test_effort.py"),
    *("tests/embedded", "tests/allocator/test_differential_oracle.py", "tests/kube", "tests/cli"),
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
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> TwoControlPlanes:
    return TwoControlPlanes(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The order of the files; and leave the long runs (marker `nightly`) out, unless NIGHTLY=1 asks for them."""
    for item in items:
        if needs_control_plane(item.nodeid) != (item.get_closest_marker("controlplane") is not None):
            raise pytest.UsageError(f"tests/workers.py and the marker controlplane disagree about {item.nodeid}")
    items.sort(key=lambda item: next((i for i, path in enumerate(LONGEST_FIRST) if item.nodeid.startswith(path)), 99))
    if os.environ.get("NIGHTLY") == "1":
        return
    long_runs = [item for item in items if item.get_closest_marker("nightly")]
    items[:] = [item for item in items if not item.get_closest_marker("nightly")]
    config.hook.pytest_deselected(items=long_runs)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the Go programs that the collected tests need, if any, before a test's clock runs."""
    if session.config.option.collectonly:
        return
    for program in PROGRAMS:
        if any(item.get_closest_marker(program.partition("-")[0]) for item in session.items):
            try:
                build(program)
            except RegistryUnreachableError:
                continue  # its tests are skipped, and the end says so
            except BuildError as error:
                session.shouldfail = f"{program}: {error}"  # tells pytest-xdist, if this is one of its workers
                pytest.exit(session.shouldfail, returncode=1)


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
