"""The core's settings: plain numbers, all with upstream's defaults where upstream has the setting.

A number that nobody sets is a constant beside the rule that needs it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from scheduler.model.stacks import REFUSING, Stacks

CONFIGURATION_RETRY_MS: Final = 60_000
"""Wait before what failed for lack of permissions is tried again."""
_WRITE_RETRY_MS_INITIAL: Final = 100
_WRITE_RETRY_MS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """What can be set about the core. Times are milliseconds; numbers are at least 1.

    Attributes:
        backoff_ms_initial, backoff_ms_max: Wait after a failed attempt; doubles with each (upstream 1 s, 10 s).
        unschedulable_ms_max: A pod that nothing has woken for so long is tried again anyway (upstream 5 min).
        cycles_per_tick: Scheduling cycles in one TimerFired, so that one `handle` stays short.
        filter_calls_per_tick: Nodes looked at in one TimerFired; a pod that needs more goes on in the next.
        steps_per_tick: Steps of Filter and Reserve in one TimerFired, about 4 us each; the rest goes on in another.
        search_steps_first: Steps a pod may take before it goes to its namespace's lane and other pods have their turn.
        search_steps_per_turn: The same for a turn of the searches, each of which every other pod may have to wait for.
        search_steps_before_rest: Steps after which a pod rests, when they led to nothing.
        places: Requests of pods under way at once, shared by namespaces (`fair_places`); pods of a namespace that has
            its share are not tried. What waits, or is in doubt and not being sent, holds no place.
        feasible_nodes_enough: Nodes of a signature that must be known to fit before looking for more of them stops
            (upstream minFeasibleNodesToFind). Smaller clusters are always searched whole.
        remembered_bytes_max: Bound on what is remembered to answer sooner (`allocator.values.remembered`); None: by how
            many nodes there are.
        stacks: What becomes of nodes where a device plugin and a DRA driver serve the same devices.
        conflicts_max: Conflicts and refusals one binding cycle survives before it gives up.
        reports_causes: After kube-scheduler's sentence say why a pod fits no node, and what would let it in (`causes`).
        takes_notes: Note what became of each attempt, for a log (`Outbox.notes`); whoever sets it empties them.
        is_paranoid: Compare remembered verdicts and scores with fresh ones in every cycle (slow).
        checks_invariants: Check everything after every input (very slow).
        is_strict: Let exceptions of plugins out instead of failing the pod (tests).
    """

    backoff_ms_initial: int = 1_000
    backoff_ms_max: int = 10_000
    unschedulable_ms_max: int = 300_000
    cycles_per_tick: int = 16
    filter_calls_per_tick: int = 400
    steps_per_tick: int = 2_000
    search_steps_first: int = 500
    search_steps_per_turn: int = 500
    search_steps_before_rest: int = 250_000
    places: int = 256
    feasible_nodes_enough: int = 100
    remembered_bytes_max: int | None = None
    stacks: Stacks = REFUSING
    conflicts_max: int = 8
    reports_causes: bool = False
    takes_notes: bool = False
    is_paranoid: bool = False
    checks_invariants: bool = False
    is_strict: bool = False

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if type(value) is int and value < 1:
                raise ValueError(f"CoreSettings.{one.name}: {value} must be at least 1")

    def backoff_ms(self, failures: int) -> int:
        """Wait before a pod, or a report on it, is tried again after so many failures."""
        return _backoff_ms(self.backoff_ms_initial, self.backoff_ms_max, failures)

    @staticmethod
    def write_retry_ms(attempts: int, *, is_hopeless: bool = False) -> int:
        """Wait before a write, or the read that shows what became of it, is sent again after so many attempts.

        Args:
            is_hopeless: Refused for a reason that somebody has to mend first.
        """
        if is_hopeless:
            return CONFIGURATION_RETRY_MS
        return _backoff_ms(_WRITE_RETRY_MS_INITIAL, _WRITE_RETRY_MS_MAX, attempts)


def _backoff_ms(initial: int, largest: int, attempt: int) -> int:
    """`initial` after the first attempt, doubled after each further one, at most `largest`."""
    return min(largest, initial << min(max(attempt - 1, 0), 30))
