"""How many worlds are simulated: `SIM_SEEDS=5000 pytest tests/sim`, and from which seed on: `SIM_FIRST=1000`."""

from __future__ import annotations

import os


def pytest_generate_tests(metafunc):
    if "seed" in metafunc.fixturenames:
        first, count = int(os.environ.get("SIM_FIRST", "0")), int(os.environ.get("SIM_SEEDS", "200"))
        metafunc.parametrize("seed", range(first, first + count))
