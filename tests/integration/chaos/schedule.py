"""What breaks, and when: drawn from a seed, so that a run can be repeated.

    for planned in draw(seed=1, seconds=1200, every_s=6): ...

Rules
  1. Every kind comes at least once, however short the run is.
  2. The same arguments give the same plan. What a fault meets is a matter of the moment: who leads, which request is
     next.

Not here: how each is done (`faults`).
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

# On the next requests of any instance. What `fault_proxy` calls them, and how often each is drawn beside the others.
REQUEST_FAULTS: Final = {
    "lose-request": 3,
    "lose-reply": 3,
    "delay": 3,
    "duplicate": 2,
    "late-copy": 2,
    "truncate": 2,
    "answer-429": 2,
    "answer-500": 2,
    "answer-504": 2,
}
OTHER_FAULTS: Final = {
    "cut-watches": 2,
    "hold-watches": 2,
    "truncate-watches": 2,
    "cut-off-leader": 1,
    "kill-leader": 2,
    "stop-leader": 1,
    "kill-apiserver": 1,
    "kill-etcd": 1,
    "compact-etcd": 1,
    "republish-slices": 3,
    "withdraw-slices": 2,
    "kill-other-scheduler": 1,
}
ENDING: Final = ("cut-off-leader", "kill-leader", "stop-leader", "kill-apiserver", "kill-etcd")
"""What ends a process, or may make it lose its lease, which ends it too."""

KINDS: Final = {**REQUEST_FAULTS, **OTHER_FAULTS}

# Requests of the scheduler that a fault can mean: those that every run has many of, and the others.
COMMON: Final = ("claim status", "binding")
TARGETS: Final = (*COMMON, "claim", "event", "lease", "pod status", "volume", "list")


@dataclass(frozen=True, slots=True)
class Planned:
    """One fault.

    Attributes:
        at_s: Since the run's begin.
        kind: Of `KINDS`.
        target: For request faults, of `TARGETS`; else "".
        share: 0 to 1, what the fault's own measures (how long, how many, which) are taken from.
    """

    at_s: float
    kind: str
    target: str
    share: float


def draw(seed: int, seconds: float, every_s: float, without: Collection[str] = ()) -> list[Planned]:
    """Faults of a run of that many seconds, one every `every_s` on average, by time; none of `without`."""
    drawn = random.Random(seed)
    weights = {kind: weight for kind, weight in KINDS.items() if kind not in without}
    kinds = list(weights)
    drawn.shuffle(kinds)
    once = len(kinds)
    more = max(round(seconds / every_s) - once, 0)
    kinds += drawn.choices(list(weights), weights=list(weights.values()), k=more)
    # Those that come once for certain are spread over the whole run, as the others are.
    places = [*range(once), *(drawn.uniform(0, once) for _ in range(more))]
    planned = []
    for index, (kind, place) in enumerate(zip(kinds, places, strict=True)):
        target = ""
        if kind in REQUEST_FAULTS:
            target = drawn.choice(COMMON if index < once else TARGETS)
        at_s = seconds * (place + drawn.random()) / (once + 1)
        planned.append(Planned(at_s, kind, target, drawn.random()))
    return sorted(planned, key=lambda one: one.at_s)
