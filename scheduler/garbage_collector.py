"""Python's garbage collector in short turns: everything waits while it looks.

Cost: a collection takes 0.2 us for each new object, and more for those that hold thousands of others: a pod whose
selector nobody else has makes tables of 5,000 nodes. Collections then took 40 ms at most with a threshold of 5,000
new objects, 15 with 2,000 (CPU, `python -m benchmarks.memory --pods 3000`).
"""

from __future__ import annotations

import gc


def settle(*, collects: bool = True) -> None:
    """What was just read stays: out of the collector's sight. The rest is looked at often, and all of it rarely.

    Args:
        collects: Look for garbage before that; a command that ends soon need not (0.1 s for 40,000 devices).
    """
    if collects:
        gc.collect()
    gc.freeze()
    gc.set_threshold(2_000, 4, 12_500)
    gc.enable()
