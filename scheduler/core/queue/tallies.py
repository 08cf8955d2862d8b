"""Tallies: what the queue has done so far, counted where it happens and read when somebody scrapes.

Durations are by the machine's clock, which stands still within one input: a decision that took less counts as 0.

Not here: names and texts of the metrics (`kube.metrics`); what can be read off the queue as it is.

Cost: one look-up for each move of a pod, and one search in 15 bounds or so for each attempt.

Source: pkg/scheduler/metrics/metrics.go v1.36.3 (buckets).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from scheduler.core.queue.queued_pod import Place
from scheduler.framework.distribution import Distribution, exponential

SCHEDULED: Final = "scheduled"
UNSCHEDULABLE: Final = "unschedulable"
ERROR: Final = "error"

_ATTEMPTS_NAMED: Final = 15


class PreemptionTallies:
    """What is counted of preemption.

    Attributes:
        attempts: Pods for which the plugin DefaultPreemption was asked.
        victims: Pods to remove, by preemption.
        decided: Preemptions by what they free: "devices", or "nodes" where no claim is released.
        removed: Victims, by how: "deleted", or "given up" before they were bound.
        in_vain: Preemptions after which the pod did not fit, though all the room was made.
    """

    def __init__(self) -> None:
        self.attempts = 0
        self.victims: Final = Distribution(exponential(1, 2, 7))
        self.decided: Final[Counter[str]] = Counter()
        self.removed: Final[Counter[str]] = Counter()
        self.in_vain = 0

    def begun(self, victims: int, *, has_devices: bool) -> None:
        self.victims.add(victims)
        self.decided["devices" if has_devices else "nodes"] += 1


class Tallies:
    """All that is counted.

    Attributes:
        attempts_s: By result and profile, from the beginning of an attempt to its end, the binding included.
        cycles: Scheduling cycles begun.
        algorithm_s: What one scheduling cycle took; the shell measures it.
        waits_s: By number of attempts ("15+" from 15 on), from when a pod could first be tried until it was bound.
        attempts_of_bound: Attempts that bound pods have needed.
        bound_after_flush: Pods that were bound in the first attempt after nothing had woken them for long.
        incoming: Moves by place and by what caused them, in upstream's words.
    """

    def __init__(self) -> None:
        self.attempts_s: Final[dict[tuple[str, ...], Distribution]] = {}
        self.cycles = 0
        self.algorithm_s: Final = Distribution(exponential(0.001, 2, 15))
        self.waits_s: Final[dict[str, Distribution]] = {}
        self.attempts_of_bound: Final = Distribution(exponential(1, 2, 5))
        self.bound_after_flush = 0
        self.incoming: Final[Counter[tuple[Place, str]]] = Counter()
        self.preemptions: Final = PreemptionTallies()

    def attempt_ended(self, result: str, profile: str, duration_ms: int) -> None:
        durations = self.attempts_s.get((result, profile))
        if durations is None:
            durations = self.attempts_s[result, profile] = Distribution(exponential(0.001, 2, 15))
        durations.add(duration_ms / 1000)

    def pod_bound(self, attempts: int, waited_ms: int, *, is_flushed: bool) -> None:
        label = str(attempts) if attempts < _ATTEMPTS_NAMED else f"{_ATTEMPTS_NAMED}+"
        waits = self.waits_s.get(label)
        if waits is None:
            waits = self.waits_s[label] = Distribution(exponential(0.01, 2, 20))
        waits.add(waited_ms / 1000)
        self.attempts_of_bound.add(attempts)
        self.bound_after_flush += is_flushed
