"""Counters that follow from writes, and the guide's table of all metrics."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from prometheus_client.metrics import MetricWrapperBase

from scheduler.kube.metrics import OBSERVED, Metrics

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide.md"


def test_claims_made_for_extended_resources_are_counted_by_their_outcome():
    metrics = Metrics()
    for outcome in ("Accepted", "Accepted", "Rejected", "Unknown", "Conflicted"):
        metrics.observe_write("CreateClaim", outcome, 0.01)
    metrics.observe_write("BindPod", "Accepted", 0.01)

    text = metrics.text().decode()
    assert 'scheduler_resourceclaim_creates_total{status="success"} 2.0' in text
    assert 'scheduler_resourceclaim_creates_total{status="failure"} 3.0' in text


def rows_of_the_guide() -> list[str]:
    _, _, section = GUIDE.read_text(encoding="utf-8").partition("\n### Metrics\n")
    return re.findall(r"^\| `.*\|$", section.partition("\n## ")[0], re.MULTILINE)


def served(text: str) -> set[str]:
    """Names of the metrics in an exposition; when each counter was born is the client library's addition."""
    return {name for name in re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE) if not name.endswith("_created")}


def declared() -> list[str]:
    """The guide's rows as they should be, sorted by name."""
    found: list[tuple[str, str, Sequence[str], str]] = [
        (metric.name, metric.kind, metric.labels, metric.text) for metric in OBSERVED
    ]
    counted = [made for made in Metrics().registry._collector_to_names if isinstance(made, MetricWrapperBase)]
    found += [(made._name, made._type, made._labelnames, made._documentation) for made in counted]
    return [
        f"| `{name}{'_total' if kind == 'counter' else ''}` | {kind} | {', '.join(labels)} | {text} |"
        for name, kind, labels, text in sorted(found)
    ]


def test_the_guide_lists_every_metric_with_kind_labels_and_meaning():
    assert rows_of_the_guide() == declared()
