"""The real machine, plugins and allocator in worlds of faults: safe at every step, and progress at last."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.mutants import MUTANTS, Mutant, notice
from tests.sim.world import Conditions, World

ROOT = Path(__file__).resolve().parents[2]


def run(seed: int, conditions: Conditions | None = None) -> World:
    world = World(seed, conditions or Conditions())
    try:
        return world.run()
    except BaseException as error:
        error.add_note(f"seed {seed}; the last steps:\n" + "\n".join(world.trace[-120:]))
        raise


def test_no_device_twice_no_pod_lost(seed: int) -> None:
    run(seed)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutants_are_noticed(mutant: Mutant) -> None:
    """The core broken on purpose: some world shows it, or the simulation is worth little."""
    assert any(notice(mutant, seed) for seed in range(mutant.worlds_max))


def test_equal_seeds_give_equal_traces_whatever_the_hash_seed() -> None:
    """Within one process the order of sets is fixed, so this takes several."""
    program = (
        "import hashlib; from tests.sim.world import World\n"
        "traces = [World(seed).run().trace for seed in range(4)]\n"
        "print(hashlib.sha256(repr(traces).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("0", "1", "2")
    }
    assert len(digests) == 1


def test_the_worlds_are_not_idle() -> None:
    """Pods are bound, writes are lost and land late: else the checks would check nothing."""
    worlds = [World(seed).run() for seed in range(30)]
    assert sum(len(world.server.bindings) for world in worlds) > 120
    traces = "\n".join(line for world in worlds for line in world.trace)
    for seen in ("WriteOutcomeUnknown", "~ delayed", "WriteConflicted", "restart", "relist", "FailedScheduling"):
        assert seen in traces
