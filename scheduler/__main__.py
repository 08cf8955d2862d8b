"""Entry points: `dra-scheduler` and, as a kubectl plugin, `kubectl dra`."""

from __future__ import annotations

import gc
import sys

from scheduler.descriptors import open_standard_descriptors


def main() -> None:
    """Run `dra-scheduler`. Exit codes: 0 done, 1 it failed, 2 wrong use, 130 interrupted (Ctrl-C)."""
    _run("dra-scheduler")


def main_kubectl() -> None:
    """Run as `kubectl dra …` (the executable `kubectl-dra` on PATH)."""
    _run("kubectl dra")


def _run(name: str) -> None:
    open_standard_descriptors()
    # Imports and what a command reads stay: to look for garbage among them takes a tenth of the time to start.
    gc.set_threshold(100_000)
    try:
        # Not before the descriptors are open: whatever an import opens would take their numbers.
        from scheduler.cli.main import cli  # noqa: PLC0415

        cli(prog_name=name)
    except KeyboardInterrupt:
        sys.exit(130)  # while it was being imported; after that, `cli` answers
    finally:
        gc.freeze()  # it goes with the process: nobody looks for garbage in a cluster's objects first


if __name__ == "__main__":
    main()
