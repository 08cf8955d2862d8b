"""Alerts and dashboard: Prometheus' own parser takes each expression, and it asks for what we serve.

Each metric that an expression names is declared in `scheduler/kube/metrics.py`, with the labels that are asked for.
"""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any, Final

import pytest
from prometheus_client import CollectorRegistry

from scheduler.core.queue.queued_pod import Place
from scheduler.kube.metrics import OBSERVED, OBSERVED_DISTRIBUTIONS, Metrics
from tests.controlplane.build import built_or_skip
from tests.manifests.rendering import MANIFESTS, ROOT, named, objects, overlay_text

pytestmark = [pytest.mark.oracle, pytest.mark.promql]

# What Prometheus adds to each series when it scrapes by the ServiceMonitor.
OPERATIONS: Final = ROOT / "docs" / "operations.md"
SCRAPED: Final = {"job", "namespace", "pod", "instance", "container", "endpoint", "service"}
RATE_INTERVAL: Final = "$__rate_interval"  # Grafana's, replaced before Prometheus sees it


def served() -> dict[str, set[str]]:
    """Labels by the name of each series."""
    labels: dict[str, set[str]] = {}
    for one in OBSERVED:
        labels[f"{one.name}_total" if one.kind == "counter" else one.name] = set(one.labels)
    histograms = {one.name: set(one.labels) for one in OBSERVED_DISTRIBUTIONS}
    made = Metrics()
    for metric in own_metrics(made.registry):
        if metric._type == "histogram":
            histograms[metric._name] = set(metric._labelnames)
        else:
            labels[f"{metric._name}_total"] = set(metric._labelnames)
    for name, of_histogram in histograms.items():
        labels |= {f"{name}_bucket": of_histogram | {"le"}, f"{name}_sum": of_histogram, f"{name}_count": of_histogram}
    return labels


def own_metrics(registry: CollectorRegistry) -> list[Any]:
    return [one for one in set(registry._collector_to_names) if hasattr(one, "_labelnames")]


def rules() -> list[dict[str, Any]]:
    return named(objects(overlay_text("metrics")), "PrometheusRule")["spec"]["groups"][0]["rules"]


def panels() -> list[dict[str, Any]]:
    dashboard = json.loads((MANIFESTS / "dashboards" / "dra-scheduler.json").read_text(encoding="utf-8"))
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def expressions() -> list[tuple[str, str]]:
    """(where, what) of every expression, as Prometheus gets it."""
    found = [(rule["alert"], rule["expr"]) for rule in rules()]
    found += [
        (panel["title"], target["expr"].replace(RATE_INTERVAL, "4m"))
        for panel in panels()
        for target in panel["targets"]
    ]
    return found


def parsed(texts: list[str]) -> list[dict[str, Any]]:
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    done = subprocess.run([built_or_skip("promql")], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def complaints(places: list[tuple[str, str]]) -> list[str]:
    """What is wrong with these expressions."""
    known, wrong = served(), []
    for (where, _), answer in zip(places, parsed([text for _, text in places]), strict=True):
        if "error" in answer:
            wrong.append(f"{where}: {answer['error']}")
            continue
        for selector in answer["selects"]:
            name, labels = selector["metric"], selector["labels"]
            if name not in known:
                wrong.append(f"{where}: {name} is not served")
                continue
            wrong += [f"{where}: {name} has no label {label}" for label in labels.keys() - known[name] - SCRAPED]
            if labels.get("job") != "dra-scheduler":
                wrong.append(f"{where}: {name} of every job")
            if "queue" in labels and labels["queue"] not in {place.value for place in Place}:
                wrong.append(f"{where}: no queue is called {labels['queue']}")
        kept = {label for one in answer["selects"] for label in known.get(one["metric"], set())} | SCRAPED
        wrong += [f"{where}: grouped by {label}, which nothing has" for label in set(answer["groups"]) - kept]
    return wrong


def test_all_expressions_parse_and_ask_for_what_is_served() -> None:
    places = expressions()

    assert len(places) > 30
    assert complaints(places) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param('sum(rate(x{job="dra-scheduler"}))', "expected type range vector", id="type"),
        pytest.param('dra_scheduler_inputs{job="dra-scheduler"}', "dra_scheduler_inputs is not served", id="name"),
        pytest.param('dra_scheduler_problems{job="dra-scheduler",kind="Pod"}', "has no label kind", id="label"),
        pytest.param('sum by (kind) (dra_scheduler_problems{job="dra-scheduler"})', "grouped by kind", id="grouping"),
        pytest.param("dra_scheduler_problems", "of every job", id="kube-schedulers-too"),
        pytest.param('scheduler_pending_pods{job="dra-scheduler",queue="x"}', "no queue is called x", id="value"),
    ],
)
def test_wrong_expressions_are_noticed(text: str, complaint: str) -> None:
    (said,) = complaints([("here", text)])

    assert complaint in said


def test_texts_of_alerts_use_labels_that_their_expressions_keep() -> None:
    found = rules()
    for rule, answer in zip(found, parsed([rule["expr"] for rule in found]), strict=True):
        used = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        assert used <= set(answer["groups"]) | SCRAPED, rule["alert"]
        assert rule["annotations"].keys() == {"summary", "description"}
        assert rule["labels"]["severity"] in ("critical", "warning", "info")


def test_legends_of_the_dashboard_use_labels_that_are_there() -> None:
    for panel in panels():
        answers = parsed([target["expr"].replace(RATE_INTERVAL, "4m") for target in panel["targets"]])
        for target, answer in zip(panel["targets"], answers, strict=True):
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= set(answer["groups"]), panel["title"]


def test_panels_do_not_lie_on_each_other() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in panels():
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]


def test_each_alert_says_what_to_do() -> None:
    text = OPERATIONS.read_text(encoding="utf-8")
    told = re.findall(r"^\| `(DraScheduler\w+)` \| (\w+) \|", text, re.MULTILINE)

    assert told == [(rule["alert"], rule["labels"]["severity"]) for rule in rules()]
