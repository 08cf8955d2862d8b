"""Alerts and dashboard: Prometheus' own parser takes each expression, and it asks for what we serve.

Each metric that an expression names is declared in `scheduler/kube`, with the labels that are asked for, and a running
scheduler serves it. Prometheus' own engine says when each alert fires, and when it does not.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from typing import Any, Final

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from scheduler.core.queue.queued_pod import Place
from scheduler.inventory import device_metrics
from scheduler.kube.device_families import OF_DEVICES
from scheduler.kube.metrics import OBSERVED, OBSERVED_DISTRIBUTIONS, Metrics
from tests.controlplane.build import built_or_skip
from tests.kube.test_app import bound, cluster_with, reported_pending, resource_slice, running, work
from tests.manifests.rendering import MANIFESTS, ROOT, named, objects, overlay_text
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.oracle, pytest.mark.promql]

# What Prometheus adds to each series when it scrapes by the ServiceMonitor.
OPERATIONS: Final = ROOT / "docs" / "operations.md"
SCRAPED: Final = {"job", "namespace", "pod", "instance", "container", "endpoint", "service"}
RATE_INTERVAL: Final = "$__rate_interval"  # Grafana's, replaced before Prometheus sees it


def served() -> dict[str, set[str]]:
    """Labels by the name of each series."""
    labels: dict[str, set[str]] = {}
    for one in (*OBSERVED, *OF_DEVICES):
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
    groups = named(objects(overlay_text("metrics")), "PrometheusRule")["spec"]["groups"]
    return [rule for group in groups for rule in group["rules"]]


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


def parsed(asked: list[str] | list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the program says of each expression, or of each alert that is tried."""
    lines = "".join(json.dumps(one) + "\n" for one in asked)
    done = subprocess.run([built_or_skip("promql")], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def is_of_cluster(name: str) -> bool:
    """Nobody else has it, and whichever process counts it says the same."""
    return name in {one.name for one in OF_DEVICES}


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
            if labels.get("job") != "dra-scheduler" and not is_of_cluster(name):
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
    told = re.findall(r"^\| `(Dra\w+)` \| (\w+) \|", text, re.MULTILINE)

    assert told == [(rule["alert"], rule["labels"]["severity"]) for rule in rules()]


MINUTES: Final = 45
Trial = tuple[str, list[dict[str, Any]], int | None]


def series(name: str, /, *values: float, **labels: str) -> dict[str, Any]:
    """What was scraped once a minute; the last value stays, or the last difference where there are two values."""
    step = values[-1] - values[-2] if len(values) == 2 else 0.0
    stays = [values[-1] + step * number for number in range(1, 1 + MINUTES - len(values))]
    of_ours = {} if is_of_cluster(name) else {"job": "dra-scheduler"}
    return {"labels": {"__name__": name, **of_ours, **labels}, "values": [*values, *stays]}


def in_pieces(free: float, largest: float, *wanted: float) -> list[dict[str, Any]]:
    """Of two replicas, which say the same; another class has much, and nobody wants it."""
    of_class = {"driver": "d", "node_pool": ""}
    return [
        each
        for pod in ("a", "b")
        for each in (
            series("dra_devices", free - 1, pod=pod, device_class="gpu", state="free", **of_class),
            series("dra_devices", 1, pod=pod, device_class="gpu", state="shared", **of_class),
            series("dra_devices", 50, pod=pod, device_class="gpu", state="used", **of_class),
            series("dra_devices", 99, pod=pod, device_class="nic", state="free", **of_class),
            series("dra_largest_request", largest, pod=pod, device_class="gpu"),
            series("dra_largest_request", 0, pod=pod, device_class="nic"),
            *([series("dra_waiting_pods_smallest_request", *wanted, pod=pod, device_class="gpu")] if wanted else []),
        )
    ]


def turns(within_300_ms: float) -> list[dict[str, Any]]:
    """Ten turns a minute, of which so many took at most 0.3 s."""
    counts = {"0.3": within_300_ms, "1": 10.0, "+Inf": 10.0}
    return [series("dra_scheduler_turn_duration_seconds_bucket", 0, count, le=le) for le, count in counts.items()]


LEADS, REQUESTS = "leader_election_master_status", "dra_scheduler_request_failing_seconds"
ATTEMPTS = "scheduler_schedule_attempts_total"
ACTIVE = series("scheduler_pending_pods", 3, queue="active")
TRIALS: Final[list[Trial]] = [
    ("DraSchedulerNotRunning", [], 5),
    ("DraSchedulerNotRunning", [series("dra_scheduler_inputs_total", 1)], None),
    ("DraSchedulerNobodyLeads", [series(LEADS, 0, name="l", pod="a"), series(LEADS, 0, name="l", pod="b")], 2),
    ("DraSchedulerNobodyLeads", [series(LEADS, 0, name="l", pod="a"), series(LEADS, 1, name="l", pod="b")], None),
    ("DraSchedulerTwoLead", [series(LEADS, 1, name="l", pod="a"), series(LEADS, 1, name="l", pod="b")], 2),
    ("DraSchedulerTwoLead", [series(LEADS, 1, name="l", pod="a"), series(LEADS, 1, name="k", pod="b")], None),
    ("DraSchedulerNotReady", [series("dra_scheduler_problems", 2)], 10),
    ("DraSchedulerNotReady", [series("dra_scheduler_problems", *[2] * 10, 0, *[2] * 10, 0)], None),
    ("DraSchedulerStuck", [ACTIVE, series(ATTEMPTS, 7)], 10),
    ("DraSchedulerStuck", [ACTIVE, series(ATTEMPTS, 7, 8)], None),
    ("DraSchedulerRequestsFail", [series(REQUESTS, *[299] * 3, 301, request="BindPod", namespace="n")], 3),
    ("DraSchedulerRequestsFail", [series(REQUESTS, 300, request="BindPod", namespace="n")], None),
    ("DraSchedulerDeviceConflict", [series("dra_scheduler_device_conflicts_total", 5, 5, 6)], 2),
    ("DraSchedulerDeviceConflict", [series("dra_scheduler_device_conflicts_total", 5)], None),
    ("DraSchedulerTwoStacks", [series("dra_scheduler_two_stacks_nodes", 1, resource="r")], 15),
    ("DraSchedulerTwoStacks", [series("dra_scheduler_two_stacks_nodes", *[1] * 15, 0, resource="r")], None),
    ("DraDevicesInPieces", in_pieces(4, 2, 4), 30),
    ("DraDevicesInPieces", in_pieces(4, 2, *[2] * 5, 3), 35),
    ("DraDevicesInPieces", in_pieces(4, 2, 2), None),  # some pod could be served
    ("DraDevicesInPieces", in_pieces(4, 2, 5), None),  # so many are not free
    ("DraDevicesInPieces", in_pieces(4, 2), None),  # nobody waits
    ("DraDevicesInPieces", in_pieces(4, 2, *[4] * 30, 2), None),  # for 29 minutes
    ("DraTaintedDeviceHeld", [series("dra_tainted_device_held_seconds", 3540, 3600, device="d")], 2),
    ("DraTaintedDeviceHeld", [series("dra_tainted_device_held_seconds", 3600, device="d")], None),
    ("DraSchedulerUndecodable", [series("dra_scheduler_undecodable_objects_total", 0, 0, 1, kind="Pod")], 2),
    ("DraSchedulerUndecodable", [series("dra_scheduler_undecodable_objects_total", 1, kind="Pod")], None),
    ("DraSchedulerLongTurns", turns(9), 16),
    ("DraSchedulerLongTurns", turns(10), None),
    ("DraSchedulerHintMissed", [series("scheduler_pod_scheduled_after_flush_total", 0, 0, 1)], 2),
    ("DraSchedulerHintMissed", [series("scheduler_pod_scheduled_after_flush_total", 1)], None),
    ("DraSchedulerPreemptedInVain", [series("dra_scheduler_preemption_in_vain_total", 0, 0, 1)], 2),
    ("DraSchedulerPreemptedInVain", [series("dra_scheduler_preemption_in_vain_total", 1)], None),
]


def test_alerts_fire_when_they_should_and_only_then() -> None:
    by_name = {rule["alert"]: rule for rule in rules()}
    asked = [
        {"expr": by_name[name]["expr"], "for": by_name[name].get("for", ""), "series": given, "minutes": MINUTES}
        for name, given, _ in TRIALS
    ]
    found = [
        (name, next((minute for minute, firing in enumerate(answer["firing"]) if firing), None))
        for (name, _, _), answer in zip(TRIALS, parsed(asked), strict=True)
    ]

    assert found == [(name, minute) for name, _, minute in TRIALS]


def test_each_alert_is_tried_both_ways() -> None:
    fire = {name for name, _, minute in TRIALS if minute is not None}
    silent = {name for name, _, minute in TRIALS if minute is None}

    assert fire == silent == {rule["alert"] for rule in rules()}


def test_an_alert_says_which_device_it_is_about() -> None:
    rule = next(one for one in rules() if one["alert"] == "DraTaintedDeviceHeld")
    of_device = {"driver": "gpu.example.com", "pool": "n", "device": "gpu-3"}
    given = [series("dra_tainted_device_held_seconds", 7200, pod=pod, **of_device) for pod in ("a", "b")]
    (answer,) = parsed([{"expr": rule["expr"], "series": given, "minutes": 1}])

    assert answer["firing"] == [[of_device]]


async def test_a_running_scheduler_serves_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """All names; and of devices a value of each: one is tainted and held, one is a partition, and a pod waits."""
    asked = {
        selector["metric"] for answer in parsed([text for _, text in expressions()]) for selector in answer["selects"]
    }
    monkeypatch.setattr(device_metrics, "_GAP_S", 0.0)
    monkeypatch.setattr(device_metrics, "_LONG_RUN", 0)
    async with cluster_with(devices=1) as cluster, running(cluster, health_port=0) as app:
        await cluster.apply(work("a"))
        await bound(cluster, 1)
        await cluster.apply([*work("b"), *tainted_and_in_parts()])
        await reported_pending(cluster, "b")
        async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession() as session:
            while True:
                async with session.get(f"http://127.0.0.1:{app.health.port}/metrics") as response:
                    families = list(text_string_to_metric_families(await response.text()))
                if {one.name for one in OF_DEVICES} <= {sample.name for one in families for sample in one.samples}:
                    break
    names = {name for one in families for name in (one.name, *(f"{one.name}_{end}" for end in ENDS))}

    assert asked - names == set()
    assert {one.name for one in OF_DEVICES} - asked == {"dra_counted_age_seconds"}


ENDS: Final = ("total", "bucket", "sum", "count")


def tainted_and_in_parts() -> list[dict[str, Any]]:
    """The slice of `cluster_with`, its device tainted; and a pool with a partition."""
    (device,) = (slice_ := resource_slice("node-1", 1))["spec"]["devices"]
    device["taints"] = [{"key": "broken", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}]
    whole, part = resource_slice("node-1", 1), resource_slice("node-1", 1)
    for one, name in ((whole, "whole"), (part, "part")):
        one["metadata"]["name"] = name
        one["spec"]["pool"] = {"name": "parts", "generation": 1, "resourceSliceCount": 2}
    del whole["spec"]["devices"]
    counters = {"memory": {"value": "80Gi"}}
    whole["spec"]["sharedCounters"] = [{"name": "c", "counters": counters}]
    part["spec"]["devices"][0]["consumesCounters"] = [{"counterSet": "c", "counters": counters}]
    part["spec"]["devices"][0]["taints"] = device["taints"]
    return [slice_, whole, part]
