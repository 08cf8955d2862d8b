"""Prometheus metrics: kube-scheduler's names where it has the metric, `dra_scheduler_*` for ours.

Counters on the hot path are bound once, when the app starts; what can be read when scraped is read then (`_Observed`).

Not here: what is measured (`app`), how it is served (`kube.health`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from scheduler.framework.decisions import BindingWait, BindPod, CreateClaim, Decision, PatchPodStatus, RecordEvent

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_WRITE_BUCKETS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 15)
_HANDLE_BUCKETS_S: Final = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3)
_RESULT_BY_REASON: Final = {"Unschedulable": "unschedulable", "SchedulerError": "error"}

# Of one sample: metric name, help, kind ("gauge" or "counter"), label names, and values by label values.
Family = tuple[str, str, str, tuple[str, ...], Mapping[tuple[str, ...], float]]


class _Observed(Collector):
    """Families that are computed when somebody looks."""

    def __init__(self, read: Callable[[], Iterable[Family]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        for name, text, kind, labels, values in self._read():
            family = (GaugeMetricFamily if kind == "gauge" else CounterMetricFamily)(name, text, labels=labels)
            for label_values, value in values.items():
                family.add_metric(label_values, value)
            yield family

    def describe(self) -> Iterator[Metric]:
        return iter(())


class Metrics:
    """All metrics of one app, in a registry of its own: several apps may live in one process."""

    def __init__(self, observed: Callable[[], Iterable[Family]] = lambda: ()) -> None:
        self.registry = CollectorRegistry()
        self._attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Number of attempts to schedule pods, by the result.",
            ["result"],
            registry=self.registry,
        )
        self._attempt_children = {
            result: self._attempts.labels(result) for result in ("scheduled", "unschedulable", "error")
        }
        self._writes = Histogram(
            "dra_scheduler_write_duration_seconds",
            "Time from sending a write or read to its outcome, by decision and outcome.",
            ["decision", "outcome"],
            buckets=_WRITE_BUCKETS_S,
            registry=self.registry,
        )
        self._creates = Counter(
            "scheduler_resourceclaim_creates_total",
            "Number of ResourceClaims created for extended resources, by the result.",
            ["status"],
            registry=self.registry,
        )
        labels = ["profile", "driver", "status"]
        self._binding_allocations = Counter(
            "scheduler_dra_bindingconditions_allocations_total",
            "Number of allocations using devices with BindingConditions, counted per driver per scheduling attempt.",
            labels,
            registry=self.registry,
        )
        self._binding_waits = Histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "Time in seconds spent waiting for BindingConditions to be satisfied during PreBind.",
            labels,
            buckets=[0.1 * 2**step for step in range(14)],
            registry=self.registry,
        )
        self._write_children: dict[tuple[str, str], Histogram] = {}
        self.turn = Histogram(
            "dra_scheduler_turn_duration_seconds",
            "Time the machine held the event loop at a stretch (several inputs).",
            buckets=_HANDLE_BUCKETS_S,
            registry=self.registry,
        )
        self.registry.register(_Observed(observed))

    def count_decisions(self, decisions: Iterable[Decision]) -> None:
        """Attempts by their visible result."""
        for decision in decisions:
            if isinstance(decision, BindPod):
                self._attempt_children["scheduled"].inc()
            elif isinstance(decision, PatchPodStatus) and decision.reason in _RESULT_BY_REASON:
                self._attempt_children[_RESULT_BY_REASON[decision.reason]].inc()
            elif isinstance(decision, RecordEvent) and decision.measured is not None:
                self._count_binding_wait(decision.measured)

    def _count_binding_wait(self, wait: BindingWait) -> None:
        """As upstream: once for each device that had to be waited for."""
        for driver in wait.drivers:
            self._binding_allocations.labels(wait.profile, driver, wait.status).inc()
            self._binding_waits.labels(wait.profile, driver, wait.status).observe(wait.waited_ms / 1000)

    def observe_write(self, decision: str, outcome: str, duration_s: float) -> None:
        child = self._write_children.get((decision, outcome))
        if child is None:
            child = self._write_children[decision, outcome] = self._writes.labels(decision, outcome)
        child.observe(duration_s)
        if decision == CreateClaim.__name__:
            self._creates.labels("success" if outcome == "Accepted" else "failure").inc()

    def text(self) -> bytes:
        """The exposition, in `CONTENT_TYPE`."""
        return generate_latest(self.registry)
