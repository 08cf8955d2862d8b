"""Prometheus metrics: kube-scheduler's names where it has the metric, `dra_scheduler_*` for ours.

Rules
  1. All metrics are declared here. A value that can be read when somebody scrapes is a row of `OBSERVED`. A value that
     must be counted as it happens is a counter or histogram of `Metrics`, made once, when the app starts. What takes
     too long to count for a scrape is a row of `device_families`.
  2. The guide has a table of all of them, equal to these declarations (`tests/kube/test_metrics.py`).

Not here: the calls that count (`app`, `machine_turns`, `inventory.device_metrics`), serving the text (`health`).
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import accumulate, islice
from typing import Final, Literal, NamedTuple

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from allocator import AllocationError, Features, PausedError
from scheduler.core.machine import Machine
from scheduler.core.queue.queued_pod import Place
from scheduler.framework.decisions import BindingWait, CreateClaim, Decision, RecordEvent
from scheduler.framework.distribution import Distribution
from scheduler.framework.two_stacks import resources_on, stacks_on
from scheduler.kube.device_families import OF_DEVICES, DeviceMetric, DeviceNumbers, Values
from scheduler.kube.executor import WriteStats
from scheduler.kube.watch import WatchStats

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_WRITE_BUCKETS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 15)
_HANDLE_BUCKETS_S: Final = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3)
_TROUBLES_MAX: Final = 100  # time series

_Kind = Literal["counter", "gauge"]


class Observed(Struct, frozen=True):
    """What `OBSERVED` reads: a running app as it is when somebody scrapes."""

    machine: Machine
    watches: Mapping[str, WatchStats]  # by kind
    writes: WriteStats
    is_leading: Mapping[str, bool]  # by lease
    slow_renewals: Mapping[str, int]  # by lease
    problems_count: int
    inputs_count: int
    events_dropped: int
    longest_handle_s: float
    longest_handle_cpu_s: float
    monotonic_s: float
    now_ms: int


class ObservedDistribution(NamedTuple):
    """A histogram that the core counts."""

    name: str
    text: str
    labels: tuple[str, ...]
    read: Callable[[Observed], Mapping[tuple[str, ...], Distribution]]
    kind: str = "histogram"


class ObservedMetric(NamedTuple):
    """A metric that is computed when somebody scrapes."""

    name: str
    text: str
    kind: _Kind
    labels: tuple[str, ...]
    read: Callable[[Observed], Values]


def _alone(name: str, text: str, kind: _Kind, read: Callable[[Observed], float]) -> ObservedMetric:
    """A metric without labels."""
    return ObservedMetric(name, text, kind, (), lambda app: {(): float(read(app))})


def _of_watches(name: str, text: str, read: Callable[[WatchStats], float]) -> ObservedMetric:
    """A counter for each kind that is watched."""
    return ObservedMetric(
        name, text, "counter", ("kind",), lambda app: {(kind,): float(read(one)) for kind, one in app.watches.items()}
    )


def _since(name: str, text: str, read: Callable[[WatchStats], float | None]) -> ObservedMetric:
    """Seconds since what is read of each kind; infinite for never."""

    def ages(app: Observed) -> Values:
        times = {kind: read(stats) for kind, stats in app.watches.items()}
        return {(kind,): app.monotonic_s - at_s if at_s is not None else float("inf") for kind, at_s in times.items()}

    return ObservedMetric(name, text, "gauge", ("kind",), ages)


def _remembered(app: Observed) -> Values:
    return {(what,): float(size) for what, size in app.machine.store.ledger.by_what.items()}


def _pending(app: Observed) -> Values:
    counts = app.machine.queue.counts()
    return {(place.value,): float(counts[place.value]) for place in Place if place is not Place.IN_FLIGHT}


def _rejecting(app: Observed) -> Values:
    waits = (one for one in app.machine.queue.all() if one.place in (Place.UNSCHEDULABLE, Place.GATED))
    return collections.Counter((name, one.runner.scheduler_name) for one in waits for name in one.unschedulable_plugins)


def _cached(app: Observed) -> Values:
    store = app.machine.store
    counts = {"nodes": len(store.node_infos), "pods": len(store.pods), "assumed_pods": len(store.assumed)}
    return {(what,): float(count) for what, count in counts.items()}


def _evaluated(app: Observed) -> Values:
    found: collections.Counter[tuple[str, ...]] = collections.Counter()
    for runner in (*app.machine.runners.values(), *app.machine.measured.runners.values()):
        for point, counts in runner.evaluations.by_point().items():
            for plugin, count in counts.items():
                found[plugin, point, runner.scheduler_name] += count
    return found


def _failing(app: Observed) -> Values:
    return {
        (trouble.request, trouble.namespace): (app.now_ms - trouble.since_ms) / 1000
        for trouble in islice(app.machine.troubles.all(), _TROUBLES_MAX)
    }


def _two_stacks(app: Observed) -> Values:
    """Nodes by resource, of those that can be looked at in a few milliseconds."""
    view, found = app.machine.ground.view, collections.Counter[tuple[str, ...]]()
    view.inventory.meter.allow(1_000)
    with suppress(PausedError, AllocationError):
        for info in islice((one for one in view.node_infos.values() if resources_on(one, view)), 500):
            found.update((one.resource,) for one in stacks_on(info, view))
    view.inventory.meter.allow_all()
    return found


OBSERVED: Final = (
    _of_watches("dra_scheduler_watch_relists", "Times a kind was listed.", lambda stats: stats.relists),
    _of_watches("dra_scheduler_watch_restarts", "Watch requests begun.", lambda stats: stats.restarts),
    _of_watches("dra_scheduler_watch_events", "Changes received by watches.", lambda stats: stats.events),
    _of_watches(
        "dra_scheduler_undecodable_objects", "Objects that could not be decoded.", lambda stats: stats.undecodable
    ),
    _since(
        "dra_scheduler_watch_staleness_seconds",
        "Seconds since anything was heard of a kind, a bookmark at least.",
        lambda stats: stats.last_activity_s,
    ),
    _since(
        "dra_scheduler_watch_last_sync_age_seconds",
        "Seconds since a kind was last listed completely.",
        lambda stats: stats.last_sync_s,
    ),
    _alone(
        "dra_scheduler_longest_handle_seconds",
        "Longest time the machine took for one input.",
        "gauge",
        lambda app: app.longest_handle_s,
    ),
    _alone(
        "dra_scheduler_longest_handle_cpu_seconds",
        "Most CPU time the machine took for one input, at most 5 ms too much.",
        "gauge",
        lambda app: app.longest_handle_cpu_s,
    ),
    ObservedMetric(
        "scheduler_pending_pods",
        "Number of pending pods, by the queue type.",
        "gauge",
        ("queue",),
        _pending,
    ),
    ObservedMetric(
        "scheduler_unschedulable_pods",
        "Waiting pods by a plugin that rejected them; a pod counts for each.",
        "gauge",
        ("plugin", "profile"),
        _rejecting,
    ),
    ObservedMetric(
        "scheduler_queue_incoming_pods",
        "Number of pods added to scheduling queues by event and queue type.",
        "counter",
        ("queue", "event"),
        lambda app: {
            (place.value, cause): float(count) for (place, cause), count in app.machine.queue.tallies.incoming.items()
        },
    ),
    ObservedMetric(
        "scheduler_schedule_attempts",
        "Number of attempts to schedule pods, by the result.",
        "counter",
        ("result", "profile"),
        lambda app: {key: float(one.count) for key, one in app.machine.queue.tallies.attempts_s.items()},
    ),
    ObservedMetric(
        "scheduler_plugin_evaluation",
        "Calls of plugins, in PreFilter, Filter, PreScore and Score; what is remembered is not asked again.",
        "counter",
        ("plugin", "extension_point", "profile"),
        _evaluated,
    ),
    _alone(
        "scheduler_preemption_attempts",
        "Pods for which preemption was looked at.",
        "counter",
        lambda app: app.machine.queue.tallies.preemptions.attempts,
    ),
    ObservedMetric(
        "dra_scheduler_preemptions",
        "Preemptions begun, by what they free: devices, or room on nodes alone.",
        "counter",
        ("frees",),
        lambda app: {(what,): float(count) for what, count in app.machine.queue.tallies.preemptions.decided.items()},
    ),
    ObservedMetric(
        "dra_scheduler_preemption_victims",
        "Pods removed by preemption: deleted, or given up before they were bound.",
        "counter",
        ("how",),
        lambda app: {(how,): float(count) for how, count in app.machine.queue.tallies.preemptions.removed.items()},
    ),
    _alone(
        "dra_scheduler_preemption_held_nominations",
        "Pods for which room is being made, or kept.",
        "gauge",
        lambda app: len(app.machine.preemptions.records),
    ),
    _alone(
        "dra_scheduler_preemption_in_vain",
        "Preemptions after which the pod did not fit, though all the room was made: pods were removed for nothing.",
        "counter",
        lambda app: app.machine.queue.tallies.preemptions.in_vain,
    ),
    _alone(
        "scheduler_pod_scheduled_after_flush",
        "Pods bound after nothing had woken them for 5 minutes: a hint was missed.",
        "counter",
        lambda app: app.machine.queue.tallies.bound_after_flush,
    ),
    ObservedMetric(
        "scheduler_cache_size",
        "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
        "gauge",
        ("type",),
        _cached,
    ),
    _alone(
        "dra_scheduler_pods_in_flight",
        "Pods of ours that are being tried or bound.",
        "gauge",
        lambda app: app.machine.queue.counts()[Place.IN_FLIGHT.value],
    ),
    ObservedMetric(
        "dra_scheduler_remembered_bytes",
        "What is remembered to answer sooner, about so many bytes; bounded in all, what is unused longest goes first.",
        "gauge",
        ("what",),
        _remembered,
    ),
    ObservedMetric(
        "dra_scheduler_device_conflicts",
        "Devices, counters or capacity that two claims were given, by what became of ours.",
        "counter",
        ("kind", "outcome"),
        lambda app: {(kind, fate.value): float(count) for (kind, fate), count in app.machine.conflicts.counts.items()},
    ),
    ObservedMetric(
        "dra_scheduler_two_stacks_nodes",
        "Nodes on which a device plugin serves a resource, and a DRA driver publishes the same devices.",
        "gauge",
        ("resource",),
        _two_stacks,
    ),
    ObservedMetric(
        "leader_election_master_status",
        "1 while this process holds the lease, 0 while it waits for it.",
        "gauge",
        ("name",),
        lambda app: {(name,): float(is_ours) for name, is_ours in app.is_leading.items()},
    ),
    ObservedMetric(
        "leader_election_slowpath",
        "Renewals of the lease that took more than one request.",
        "counter",
        ("name",),
        lambda app: {(name,): float(count) for name, count in app.slow_renewals.items()},
    ),
    _alone("dra_scheduler_writes_in_flight", "Requests under way.", "gauge", lambda app: app.writes.in_flight),
    _alone("dra_scheduler_writes_waiting", "Decisions not sent yet.", "gauge", lambda app: app.writes.waiting),
    _alone("dra_scheduler_inputs", "Inputs handled.", "counter", lambda app: app.inputs_count),
    _alone("dra_scheduler_events_dropped", "Events not recorded.", "counter", lambda app: app.events_dropped),
    ObservedMetric(
        "dra_scheduler_request_failing_seconds",
        "Seconds for which requests of a kind have failed in a namespace, as in /readyz.",
        "gauge",
        ("request", "namespace"),
        _failing,
    ),
    _alone(
        "dra_scheduler_problems", "Reasons why /readyz fails; 0 when ready.", "gauge", lambda app: app.problems_count
    ),
)


OBSERVED_DISTRIBUTIONS: Final = (
    ObservedDistribution(
        "scheduler_scheduling_attempt_duration_seconds",
        "Time from the beginning of an attempt to its end, the binding included.",
        ("result", "profile"),
        lambda app: app.machine.queue.tallies.attempts_s,
    ),
    ObservedDistribution(
        "scheduler_framework_extension_point_duration_seconds",
        "Time of an extension point's plugins in a cycle, for one cycle in a hundred; what is remembered is not asked.",
        ("extension_point", "status", "profile"),
        lambda app: app.machine.measured.durations.points,
    ),
    ObservedDistribution(
        "scheduler_plugin_execution_duration_seconds",
        "Time of a call of a plugin, for one cycle in a hundred.",
        ("plugin", "extension_point", "status"),
        lambda app: app.machine.measured.durations.plugins,
    ),
    ObservedDistribution(
        "scheduler_scheduling_algorithm_duration_seconds",
        "Time of a scheduling cycle, as the mean of those in one turn.",
        (),
        lambda app: {(): app.machine.queue.tallies.algorithm_s},
    ),
    ObservedDistribution(
        "scheduler_pod_scheduling_sli_duration_seconds",
        "Time from when a pod could first be tried until it was bound, by number of attempts.",
        ("attempts",),
        lambda app: {(label,): one for label, one in app.machine.queue.tallies.waits_s.items()},
    ),
    ObservedDistribution(
        "scheduler_pod_scheduling_attempts",
        "Number of attempts to successfully schedule a pod.",
        (),
        lambda app: {(): app.machine.queue.tallies.attempts_of_bound},
    ),
    ObservedDistribution(
        "scheduler_preemption_victims",
        "Number of selected preemption victims.",
        (),
        lambda app: {(): app.machine.queue.tallies.preemptions.victims},
    ),
)


def _cumulative(one: Distribution) -> list[tuple[str, float]]:
    bounds = [*map(floatToGoString, one.bounds), "+Inf"]
    return [(bound, float(count)) for bound, count in zip(bounds, accumulate(one.counts), strict=True)]


def _family(metric: ObservedMetric | DeviceMetric, values: Values) -> Metric:
    made = GaugeMetricFamily if metric.kind == "gauge" else CounterMetricFamily
    family = made(metric.name, metric.text, labels=metric.labels)
    for label_values, value in values.items():
        family.add_metric(label_values, value)
    return family


class _Collector(Collector):
    """`OBSERVED` and `OBSERVED_DISTRIBUTIONS`, of an app that is running, and `OF_DEVICES`."""

    def __init__(self, observe: Callable[[], Observed | None], counted: Callable[[], DeviceNumbers | None]) -> None:
        self._observe = observe
        self._counted = counted

    def collect(self) -> Iterator[Metric]:
        app, numbers = self._observe(), self._counted()
        if app is not None or numbers is not None:
            for one in OF_DEVICES:
                yield _family(one, (numbers or {}).get(one.field, {}))
        if app is None:
            return
        for metric in OBSERVED:
            yield _family(metric, metric.read(app))
        for distribution in OBSERVED_DISTRIBUTIONS:
            histogram = HistogramMetricFamily(distribution.name, distribution.text, labels=distribution.labels)
            for label_values, one_distribution in distribution.read(app).items():
                histogram.add_metric(label_values, _cumulative(one_distribution), one_distribution.total)
            yield histogram

    def describe(self) -> Iterator[Metric]:
        return iter(())


class Metrics:
    """All metrics of one app, in a registry of its own: several apps may live in one process."""

    def __init__(
        self,
        observe: Callable[[], Observed | None] = lambda: None,
        counted: Callable[[], DeviceNumbers | None] = lambda: None,
    ) -> None:
        """`observe` and `counted` are asked when somebody scrapes; None while the app is starting."""
        self.registry = CollectorRegistry()
        self._writes = Histogram(
            "dra_scheduler_write_duration_seconds",
            "Time from sending a write or read to its outcome, by decision and outcome.",
            ["decision", "outcome"],
            buckets=_WRITE_BUCKETS_S,
            registry=self.registry,
        )
        self._creates = Counter(
            "dynamic_resource_allocation_resourceclaim_creates_total",
            "Number of ResourceClaims created for extended resources, by the result; since Kubernetes 1.37.",
            ["status", "admin_access", "owner_api_group", "owner_api_kind"],
            registry=self.registry,
        )
        self._creates_136 = Counter(
            "scheduler_resourceclaim_creates_total",
            "Number of ResourceClaims created for extended resources, by the result; up to Kubernetes 1.36.",
            ["status"],
            registry=self.registry,
        )
        self._is_137 = True
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
        self.registry.register(_Collector(observe, counted))

    def follow(self, features: Features) -> None:
        """Count under the names of the release that is followed."""
        self._is_137 = features.has_137_semantics

    def count_decisions(self, decisions: Iterable[Decision]) -> None:
        """Waits for binding conditions that have ended."""
        for decision in decisions:
            if isinstance(decision, RecordEvent) and decision.measured is not None:
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
            status = "success" if outcome == "Accepted" else "failure"
            creates = (
                self._creates.labels(status, "false", "", "Pod") if self._is_137 else self._creates_136.labels(status)
            )
            creates.inc()

    def text(self) -> bytes:
        """The exposition, in `CONTENT_TYPE`."""
        return generate_latest(self.registry)
