"""Counters that follow from writes, and the guide's table of all metrics."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from prometheus_client.metrics import MetricWrapperBase

from allocator import Features
from scheduler.kube.device_families import OF_DEVICES
from scheduler.kube.executor import WriteStats
from scheduler.kube.metrics import OBSERVED, OBSERVED_DISTRIBUTIONS, Metrics, Observed
from tests.core.plugins import Slots
from tests.core.rig import Rig

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"


@pytest.mark.parametrize(
    ("minor", "name", "labels"),
    [
        ("1.36", "scheduler_resourceclaim_creates_total", ""),
        (
            "1.37",
            "dynamic_resource_allocation_resourceclaim_creates_total",
            'admin_access="false",owner_api_group="",owner_api_kind="Pod",',
        ),
    ],
)
def test_claims_made_for_extended_resources_are_counted_by_their_outcome(minor: str, name: str, labels: str):
    metrics = Metrics()
    metrics.follow(Features(kubernetes=minor))
    for outcome in ("Accepted", "Accepted", "Rejected", "Unknown", "Conflicted"):
        metrics.observe_write("CreateClaim", outcome, 0.01)
    metrics.observe_write("BindPod", "Accepted", 0.01)

    text = metrics.text().decode()
    assert [line for line in text.splitlines() if "resourceclaim_creates_total{" in line] == [
        f'{name}{{{labels}status="success"}} 2.0',
        f'{name}{{{labels}status="failure"}} 3.0',
    ]


def rows_of_the_page() -> list[str]:
    return re.findall(r"^\| `.*\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def served(text: str) -> set[str]:
    """Names of the metrics in an exposition; when each counter was born is the client library's addition."""
    return {name for name in re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE) if not name.endswith("_created")}


def declared() -> list[str]:
    """The page's rows as they should be, sorted by name."""
    found: list[tuple[str, str, Sequence[str], str]] = [
        (metric.name, metric.kind, metric.labels, metric.text)
        for metric in (*OBSERVED, *OF_DEVICES, *OBSERVED_DISTRIBUTIONS)
    ]
    counted = [made for made in Metrics().registry._collector_to_names if isinstance(made, MetricWrapperBase)]
    found += [(made._name, made._type, made._labelnames, made._documentation) for made in counted]
    return [
        f"| `{name}{'_total' if kind == 'counter' else ''}` | {kind} | {', '.join(labels)} | {text} |"
        for name, kind, labels, text in sorted(found)
    ]


def test_the_guide_lists_every_metric_with_kind_labels_and_meaning():
    assert rows_of_the_page() == declared()


UPSTREAM_BUCKETS = {  # pkg/scheduler/metrics/metrics.go v1.36.3: first bound, factor, number
    "scheduler_scheduling_attempt_duration_seconds": (0.001, 2, 15),
    "scheduler_scheduling_algorithm_duration_seconds": (0.001, 2, 15),
    "scheduler_pod_scheduling_sli_duration_seconds": (0.01, 2, 20),
    "scheduler_pod_scheduling_attempts": (1, 2, 5),
    "scheduler_preemption_victims": (1, 2, 7),
    "scheduler_framework_extension_point_duration_seconds": (0.0001, 2, 12),
    "scheduler_plugin_execution_duration_seconds": (0.00001, 1.5, 20),
}


def test_histograms_have_upstreams_buckets_and_add_up(monkeypatch):
    monkeypatch.setattr("scheduler.framework.timed_runner.is_measured", lambda cycle: True)
    rig = Rig(Slots(1), clock=itertools.count().__next__)
    rig.add_nodes("a")
    rig.add_pod("p")
    rig.add_pod("q")
    rig.settle()
    rig.machine.queue.tallies.algorithm_s.add(0.003, 2)
    text = Metrics(lambda: observed(rig)).text().decode()
    for name, (start, factor, count) in UPSTREAM_BUCKETS.items():
        bounds = re.findall(rf'^{name}_bucket{{.*?le="([^"]+)".*?}} ', text, re.MULTILINE)
        assert [float(bound) for bound in bounds[: count + 1]] == [
            *(pytest.approx(start * factor**step) for step in range(count)),
            float("inf"),
        ]
    assert 'scheduler_schedule_attempts_total{profile="dra-scheduler",result="scheduled"} 1.0' in text
    assert 'scheduler_schedule_attempts_total{profile="dra-scheduler",result="unschedulable"} 1.0' in text
    assert 'scheduler_scheduling_algorithm_duration_seconds_bucket{le="0.002"} 0.0' in text
    assert 'scheduler_scheduling_algorithm_duration_seconds_bucket{le="0.004"} 2.0' in text
    assert "scheduler_scheduling_algorithm_duration_seconds_sum 0.006" in text
    assert 'scheduler_unschedulable_pods{plugin="Slots",profile="dra-scheduler"} 1.0' in text
    assert 'scheduler_pending_pods{queue="unschedulable"} 1.0' in text
    assert 'scheduler_cache_size{type="pods"} 2.0' in text


def observed(rig: Rig) -> Observed:
    return Observed(
        machine=rig.machine,
        watches={},
        writes=WriteStats(),
        is_leading={},
        slow_renewals={},
        problems_count=0,
        inputs_count=0,
        events_dropped=0,
        longest_handle_s=0.0,
        longest_handle_cpu_s=0.0,
        monotonic_s=0.0,
        now_ms=rig.now_ms,
    )
