"""Whether something keeps more than it did: bytes that Python has allocated, and objects of each of our own types.

    with traced():
        ...                     # until all that may be remembered is
        before = kept()
        ...                     # as much again, several times
        check_stays(before, kept())

Neither what a process holds nor time is asked about: both depend on the machine.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

OURS: Final = ("allocator", "cel", "scheduler")
GROWTH: Final = 1.3
SWEPT: Final = {
    "allocator.values.model.PoolId": 4_096,  # the log of changed pools (`in_use`)
    "scheduler.validation.selector_check._Found": 1_024,
    # A queue's void entries are swept when there are 500 (`queued_pod`), or twice what is waiting.
    "scheduler.core.queue.queued_pod.Entry": 1_000,
    "scheduler.core.queue.queued_pod.QueuedPod": 1_000,
    "scheduler.model.objects.Pod": 1_000,
}
"""Of what is cleared at a number, however small the cluster."""


@contextmanager
def traced() -> Iterator[None]:
    """What is there already is left out: a worker that has run thousands of tests takes seconds to walk it."""
    gc.collect()
    gc.freeze()
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()
        gc.unfreeze()


class Kept(NamedTuple):
    """At one moment. `objects`: how many there are of each of our types."""

    objects: Counter[str]
    bytes: int


def kept() -> Kept:
    """What is kept now of what was made since `traced`, also objects that the garbage collector does not follow."""
    gc.collect()
    allocated, _ = tracemalloc.get_traced_memory()
    found: Counter[str] = Counter()
    waiting = gc.get_objects()
    seen = {id(one) for one in waiting}
    while waiting:
        one = waiting.pop()
        kind = type(one)
        if str(kind.__module__).partition(".")[0] in OURS:  # a class may have anything there
            found[f"{kind.__module__}.{kind.__qualname__}"] += 1
        for other in gc.get_referents(one):
            # What it follows is among `waiting` already, or was there before.
            if not gc.is_tracked(other) and id(other) not in seen and not isinstance(other, (str, bytes, int, float)):
                seen.add(id(other))
                waiting.append(other)
    return Kept(found, allocated)


def check_stays(before: Kept, after: Kept, *, objects_more: int = 100, bytes_more: int = 1 << 18) -> None:
    """Raises AssertionError, which names the types of which there are more than there may be.

    Args:
        objects_more: Of each type, beside `GROWTH`, for what happens to be under way.
    """
    lines = [
        f"{name}: {before.objects[name]}, then {count}"
        for name, count in after.objects.most_common()
        if count > GROWTH * before.objects[name] + SWEPT.get(name, objects_more)
    ]
    if after.bytes > GROWTH * before.bytes + bytes_more:
        lines.append(f"bytes: {before.bytes:,}, then {after.bytes:,}")
    print("\n".join(lines))  # for those that may fail
    assert not lines, "there is more than before:\n" + "\n".join(lines)
