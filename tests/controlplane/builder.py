"""One process builds the Go programs of a run of pytest, while tests run that need none.

pytest's controller (or its only process) starts it when it knows what the collected tests need. Each program has a file
in the folder of the run: the builder holds a lock on it until it has written there what became of the program. So
whoever needs the program waits for the lock (`build.outcome`), also when the builder dies.

    python -m tests.controlplane.builder PROGRAM=DESCRIPTOR...        # as `start` does
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.controlplane.build import RUN, BuildError, RegistryUnreachableError, build, outcome, target_of

ROOT: Final = Path(__file__).resolve().parents[2]


def start(programs: Iterable[str]) -> subprocess.Popen[bytes] | None:
    """Start to build those of `programs` (of build.PROGRAMS) that are not there; None when all are."""
    missing = [program for program in programs if not _is_there(program)]
    if not missing:
        return None
    locks = {}
    for program in missing:
        locks[program] = os.open(Path(os.environ[RUN], program), os.O_RDWR | os.O_CREAT)
        fcntl.flock(locks[program], fcntl.LOCK_EX)
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, *(f"{program}={lock}" for program, lock in locks.items())],
        cwd=ROOT,
        pass_fds=[*locks.values()],
        env={name: value for name, value in os.environ.items() if name != RUN},
        start_new_session=True,
    )
    for lock in locks.values():  # the child has them
        os.close(lock)
    return process


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the builder and the build that it has begun, if it has not ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    process.wait()


def is_ready(program: str) -> bool:
    """Whether a program is built, or cannot be: nobody has to wait for it."""
    return not Path(os.environ.get(RUN, os.devnull), program).exists() or outcome(program, waits=False) is not None


def _is_there(program: str) -> bool:
    try:
        return target_of(program).exists()
    except BuildError:
        return False


def main() -> None:
    """Build one after the other, say so, and write what became of each."""
    asked = [one.partition("=") for one in sys.argv[1:]]
    names = ", ".join(program for program, _, _ in asked)
    _say(f"builds {names} while other tests run: minutes, the first time")
    for number, (program, _, lock) in enumerate(asked, 1):
        begin = time.monotonic()
        _say(f"builds {program} ({number} of {len(asked)})")
        became = {}
        try:
            build(program)
        except RegistryUnreachableError as error:
            became = {"unreachable": str(error)}
        except BuildError as error:
            became = {"failed": str(error)}
        failed = "".join(f"could not build {program}: {text.splitlines()[0]}" for text in became.values())
        _say(f"{failed or f'built {program}'} ({number} of {len(asked)}, {time.monotonic() - begin:.0f} s)")
        with os.fdopen(int(lock), "w") as file:  # closing it gives the lock back
            json.dump(became, file)


def _say(text: str) -> None:
    print(f"\nGo: {text}", flush=True)


if __name__ == "__main__":
    main()
