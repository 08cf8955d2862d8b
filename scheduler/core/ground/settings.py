"""The core's settings: plain numbers, all with upstream's defaults where upstream has the setting."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """What can be set about the core. Times are milliseconds; numbers are at least 1.

    Attributes:
        backoff_ms_initial, backoff_ms_max: Wait after a failed attempt; doubles with each (upstream 1 s, 10 s).
        unschedulable_ms_max: A pod that nothing has woken for so long is tried again anyway (upstream 5 min).
        flush_interval_ms: How often the above is looked for (upstream 30 s).
        gated_ms_silent: When it is reported why PreEnqueue keeps a pod out (upstream never says). Not at once, because
            generated claims need a moment.
        unallocated_ms_silent, unallocated_ms_again: How long a claim of a pod that is on a node may stay unallocated
            before that is reported, and when it is checked again while another pod may still get it.
        cycles_per_tick: Scheduling cycles in one TimerFired, so that one `handle` stays short.
        filter_calls_per_tick: Nodes looked at in one TimerFired; a pod that needs more goes on in the next.
        steps_per_tick: Steps of Filter and Reserve in one TimerFired, about 4 us each; the rest goes on in another.
        search_steps_first: Steps a pod may take before it goes to its namespace's lane and other pods have their turn.
        search_steps_per_turn: The same for a turn of the searches, each of which every other pod may have to wait for.
        search_steps_before_rest: Steps after which a pod rests, when they led to nothing.
        search_rest_ms_max: The longest rest.
        places: Requests of pods under way at once, shared by namespaces (`fair_places`); pods of a namespace that has
            its share are not tried. What waits, or is in doubt and not being sent, holds no place.
        feasible_nodes_enough: Nodes of a shape that must be known to fit before looking for more of them stops
            (upstream minFeasibleNodesToFind). Smaller clusters are always searched whole.
        remembered_verdicts_max: Bound on verdicts kept, over all pod shapes; the shapes unused longest are forgotten.
        remembered_shapes_max: Bound on the shapes they are kept for.
        remembered_ms_max: How long a shape is kept that no pod has; longer than a pod waits until it is tried again.
        write_retry_ms_initial, write_retry_ms_max: Wait before a write without a known outcome is sent again.
        reserved_ms_patience: How long another process of our name may take to bind a pod from which devices were taken
            back before, and for which it has reserved other devices.
        conflicts_max: Conflicts and refusals one binding cycle survives before it gives up.
        configuration_retry_ms: Wait before a pod that failed for lack of permissions is tried again.
        trouble_ms_silent, trouble_ms_again, trouble_ms_forgotten: When a request that keeps failing is reported; when
            it is reported on its pods again; when it is over if no further failure came.
        waiting_ms_silent: A pod that waits for something in PreBind says so in its condition when it lasts so long.
        reports_causes: After kube-scheduler's sentence say why a pod fits no node, and what would let it in (`causes`).
        takes_notes: Note what became of each attempt, for a log (`Outbox.notes`); whoever sets it empties them.
        is_paranoid: Compare remembered verdicts and scores with fresh ones in every cycle (slow).
        checks_invariants: Check everything after every input (very slow).
        is_strict: Let exceptions of plugins out instead of failing the pod (tests).
    """

    backoff_ms_initial: int = 1_000
    backoff_ms_max: int = 10_000
    unschedulable_ms_max: int = 300_000
    flush_interval_ms: int = 30_000
    gated_ms_silent: int = 5_000
    unallocated_ms_silent: int = 5_000
    unallocated_ms_again: int = 60_000
    cycles_per_tick: int = 16
    filter_calls_per_tick: int = 400
    steps_per_tick: int = 2_000
    search_steps_first: int = 500
    search_steps_per_turn: int = 500
    search_steps_before_rest: int = 250_000
    search_rest_ms_max: int = 300_000
    places: int = 256
    feasible_nodes_enough: int = 100
    remembered_verdicts_max: int = 1_000_000
    remembered_shapes_max: int = 4_096
    remembered_ms_max: int = 360_000
    write_retry_ms_initial: int = 100
    write_retry_ms_max: int = 10_000
    reserved_ms_patience: int = 5_000
    conflicts_max: int = 8
    configuration_retry_ms: int = 60_000
    trouble_ms_silent: int = 5_000
    trouble_ms_again: int = 30_000
    trouble_ms_forgotten: int = 150_000
    waiting_ms_silent: int = 1_000
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

    def write_retry_ms(self, attempts: int, *, is_hopeless: bool = False) -> int:
        """Wait before a write, or the read that shows what became of it, is sent again after so many attempts.

        Args:
            is_hopeless: Refused for a reason that somebody has to mend first.
        """
        if is_hopeless:
            return self.configuration_retry_ms
        return _backoff_ms(self.write_retry_ms_initial, self.write_retry_ms_max, attempts)


def _backoff_ms(initial: int, largest: int, attempt: int) -> int:
    """`initial` after the first attempt, doubled after each further one, at most `largest`."""
    return min(largest, initial << min(max(attempt - 1, 0), 30))
