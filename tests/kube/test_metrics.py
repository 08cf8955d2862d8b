"""Counters that follow from writes."""

from __future__ import annotations

from scheduler.metrics import Metrics


def test_claims_made_for_extended_resources_are_counted_by_their_outcome():
    metrics = Metrics()
    for outcome in ("Accepted", "Accepted", "Rejected", "Unknown", "Conflicted"):
        metrics.observe_write("CreateClaim", outcome, 0.01)
    metrics.observe_write("BindPod", "Accepted", 0.01)

    text = metrics.text().decode()
    assert 'scheduler_resourceclaim_creates_total{status="success"} 2.0' in text
    assert 'scheduler_resourceclaim_creates_total{status="failure"} 3.0' in text
