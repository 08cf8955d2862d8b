"""No order of sets and dicts reaches an answer: the same answers under several hash seeds.

Within one process that order is fixed, so this takes several; one for each seed answers for all.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.allocator.cases import ask
from tests.allocator.generator import Generator
from tests.plugins.test_placement_answers import digest
from tests.sim.world import World

ROOT = Path(__file__).parents[2]


def answers() -> dict[str, str]:
    """Digests of allocations with their steps, of pods placed by rank, and of the traces of simulated worlds."""
    generator = Generator(5)
    asked = [ask(generator.case(), budget_steps=20_000) for _ in range(150)]
    traces = [World(seed).run().trace for seed in range(4)]
    said = {"allocations": repr(asked), "traces": repr(traces), "placements": digest(3)}
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in said.items()}


@pytest.mark.slow
def test_answers_steps_and_traces_do_not_depend_on_the_hash_seed() -> None:
    printed = [
        subprocess.run(
            [sys.executable, "-m", __name__],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    ]
    assert "placements" in printed[0]
    assert set(printed) == {printed[0]}


if __name__ == "__main__":
    print(answers())
