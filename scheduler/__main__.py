"""Entry points: `dra-scheduler` and, as a kubectl plugin, `kubectl dra`."""

from __future__ import annotations

from scheduler.cli.main import cli


def main() -> None:
    """Run `dra-scheduler`. Exit codes: 0 done, 1 it failed, 2 wrong use."""
    cli(prog_name="dra-scheduler")


def main_kubectl() -> None:
    """Run as `kubectl dra …` (the executable `kubectl-dra` on PATH)."""
    cli(prog_name="kubectl dra")


if __name__ == "__main__":
    main()
