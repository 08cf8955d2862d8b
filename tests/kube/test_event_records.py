"""Which requests events become: series, limits, names."""

from __future__ import annotations

import json
import re

import msgspec
import pytest

from scheduler.framework.decisions import RecordEvent
from scheduler.kube.event_records import SERIES_WINDOW_MS, EventSeries
from scheduler.model.api_rules import NOTE_LENGTH_MAX

EVENT = RecordEvent("Pod", "default", "a", "uid-a", "Warning", "FailedScheduling", "Scheduling", "no node fits")
NOW = 1_767_225_600_123


def sent(series: EventSeries, now_ms: int):
    requests = []
    while (request := series.next_request(now_ms)) is not None:
        requests.append((request.method, request.path, json.loads(request.body)))
    return requests


def test_first_event_is_created_with_everything_kubectl_shows():
    series = EventSeries(["dra-scheduler"], "host")
    series.add(EVENT, NOW)

    ((method, path, body),) = sent(series, NOW)
    assert (method, path) == ("POST", "/apis/events.k8s.io/v1/namespaces/default/events")
    name = body["metadata"].pop("name")
    assert re.fullmatch(r"a\.[0-9a-f]+", name)
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.123000Z",
        "reportingController": "dra-scheduler",
        "reportingInstance": "dra-scheduler-host",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "type": "Warning",
        "note": "no node fits",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "a", "uid": "uid-a"},
    }


def test_an_event_names_the_pod_that_it_is_about_besides():
    series = EventSeries(["r"], "i")
    series.add(msgspec.structs.replace(EVENT, related=("default", "b", "uid-b")), NOW)
    ((_, _, body),) = sent(series, NOW)
    assert body["related"] == {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "b", "uid": "uid-b"}


def test_an_event_is_reported_by_the_profile_of_its_pod():
    series = EventSeries(["first", "second"], "host" + 200 * "x")
    for name, reporter in (("a", "second"), ("b", ""), ("c", "somebody else's")):
        series.add(RecordEvent("Pod", "d", name, "u", "Normal", "Scheduled", "Binding", "n", reporter=reporter), NOW)
    bodies = [body for _, _, body in sent(series, NOW)]
    assert [body["reportingController"] for body in bodies] == ["second", "first", "first"]
    assert [body["reportingInstance"][:12] for body in bodies] == ["second-hostx", "first-hostxx", "first-hostxx"]
    assert {len(body["reportingInstance"]) for body in bodies} == {128}


def test_repeats_become_one_patch_per_pause_with_the_count_so_far():
    series = EventSeries(["r"], "i", series_pause_s=30)
    series.add(EVENT, NOW)
    sent(series, NOW)
    for second in (1, 2, 29):
        series.add(EVENT, NOW + second * 1000)
        assert sent(series, NOW + second * 1000) == []
    series.add(EVENT, NOW + 31_000)

    ((method, path, body),) = sent(series, NOW + 31_000)
    assert method == "PATCH"
    assert path.startswith("/apis/events.k8s.io/v1/namespaces/default/events/a.")
    assert body == {"series": {"count": 5, "lastObservedTime": "2026-01-01T00:00:31.123000Z"}}


def test_repeats_before_the_first_was_sent_are_in_it():
    series = EventSeries(["r"], "i")
    for _ in range(3):
        series.add(EVENT, NOW)

    ((method, _, body),) = sent(series, NOW)
    assert (method, body["series"]["count"]) == ("POST", 3)


def test_another_note_or_a_long_silence_makes_a_new_event():
    series = EventSeries(["r"], "i")
    other = RecordEvent("Pod", "default", "a", "uid-a", "Warning", "FailedScheduling", "Scheduling", "another reason")
    series.add(EVENT, NOW)
    series.add(other, NOW)
    first = sent(series, NOW)
    late = NOW + SERIES_WINDOW_MS + 1
    series.add(EVENT, late)

    requests = first + sent(series, late)
    assert [method for method, _, _ in requests] == ["POST"] * 3
    assert len({body["metadata"]["name"] for _, _, body in requests}) == 3


def test_burst_then_rate():
    series = EventSeries(["r"], "i", per_second=10, burst=2)
    for number in range(5):
        series.add(RecordEvent("Pod", "d", f"p{number}", "u", "Normal", "Scheduled", "Binding", "n"), NOW)

    assert len(sent(series, NOW)) == 2
    assert series.wait_s(NOW) == pytest.approx(0.1)
    assert len(sent(series, NOW + 50)) == 0
    assert len(sent(series, NOW + 100)) == 1
    assert len(sent(series, NOW + 10_000)) == 2


def test_too_many_are_dropped_and_counted():
    series = EventSeries(["r"], "i", waiting_max=2)
    events = [RecordEvent("Pod", "d", f"p{number}", "u", "Normal", "Scheduled", "Binding", "n") for number in range(4)]
    for event in events:
        series.add(event, NOW)

    assert series.dropped == 2
    assert len(sent(series, NOW)) == 2
    series.add(events[3], NOW)  # was dropped, so it is created, not patched
    assert [method for method, _, _ in sent(series, NOW)] == ["POST"]


def test_memory_of_series_is_bounded():
    series = EventSeries(["r"], "i", series_max=2)
    for number in range(4):
        series.add(RecordEvent("Pod", "d", f"p{number}", "u", "Normal", "Scheduled", "Binding", "n"), NOW)

    assert len(sent(series, NOW)) == 2
    assert series.dropped == 2


def test_long_notes_are_cut_to_what_the_api_takes():
    series = EventSeries(["r"], "i")
    series.add(RecordEvent("ResourceClaim", "d", "c", "u", "Warning", "R", "A", "é" * 2000), NOW)

    ((_, _, body),) = sent(series, NOW)
    assert len(body["note"].encode()) <= NOTE_LENGTH_MAX
    assert body["note"].endswith("é ...")
    assert body["regarding"]["apiVersion"] == "resource.k8s.io/v1"


def test_forgotten_event_is_created_anew():
    series = EventSeries(["r"], "i", series_pause_s=0)
    series.add(EVENT, NOW)
    sent(series, NOW)
    series.forget(EVENT)
    series.add(EVENT, NOW + 1)

    assert [method for method, _, _ in sent(series, NOW + 1)] == ["POST"]


def test_that_a_pod_was_bound_is_not_remembered_once_it_is_sent() -> None:
    """A hundred pods a second are bound; of each, a kilobyte would stay until 5,000 others have come."""
    series = EventSeries(["r"], "i", burst=1_000)
    waits = msgspec.structs.replace(EVENT, reason="FailedScheduling")
    series.add(waits, NOW)
    for number in range(500):
        series.add(RecordEvent("Pod", "d", f"pod-{number}", "u", "Normal", "Scheduled", "Binding", "n"), NOW)
    sent(series, NOW)
    series.add(waits, NOW + 60_000)

    ((method, _, body),) = sent(series, NOW + 60_000)
    assert (method, body["series"]["count"]) == ("PATCH", 2)
    assert len(series._series_by_event) == 1
