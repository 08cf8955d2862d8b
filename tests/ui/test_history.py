"""A pod's way in time."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.offline import SourceObject
from scheduler.ui.pod_timeline import events_in, history_of, pod_in
from tests.offline.causes import Obj, allocated, claim, pod

KEY = ("default", "mine")
ABOUT = {"kind": "Pod", "namespace": "default", "name": "mine"}


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}Z"


def given(*objects: Obj) -> list[SourceObject]:
    return [SourceObject("here", one) for one in objects]


def mine(**status: Any) -> Obj:
    made = pod("held", name="mine", nodeName="node-1")
    made["metadata"]["creationTimestamp"] = at(1)
    return {**made, "status": status}


def test_what_the_objects_say_and_what_events_say_in_the_order_of_time() -> None:
    held = allocated(claim(name="held"), "gpu-0")
    held["metadata"]["creationTimestamp"] = at(2)
    held["status"]["allocation"]["allocationTimestamp"] = at(3)
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(4)},
        {"type": "Ready", "status": "False", "lastTransitionTime": at(6), "reason": "Slow", "message": "not yet"},
    ]
    events = [
        {"eventTime": "2026-01-01T00:00:01.500000Z", "reason": "Failed", "note": "no room", "regarding": ABOUT},
        {"lastTimestamp": at(5), "count": 3, "reason": "Pulled", "message": "image", "involvedObject": ABOUT},
    ]
    pod_ = mine(conditions=conditions)
    found = history_of(given(pod_, held), pod_, events)

    assert [(one.at[17:19], one.what, one.text) for one in found] == [
        ("01", "created", "for dra-scheduler"),
        ("01", "event Failed", "no room"),
        ("02", "claim", "held was created"),
        ("03", "claim", "held was given gpu.example.com/node-1/gpu-0"),
        ("04", "bound", "to node node-1"),
        ("05", "event Pulled", "image"),
        ("06", "condition", "Ready is False: Slow not yet"),
    ]
    assert [one.count for one in found] == [1, 1, 1, 1, 1, 3, 1]


def test_what_is_said_many_times_is_one_line_with_how_often_and_since_when() -> None:
    again = {"reason": "Failed", "note": "no room", "regarding": ABOUT}
    events: list[Obj] = [
        {**again, "eventTime": at(2), "series": {"count": 4, "lastObservedTime": at(30)}},
        {**again, "eventTime": at(40)},
        {**again, "eventTime": at(20), "note": "no room yet"},
        {"firstTimestamp": at(3), "lastTimestamp": at(5), "count": 3, "reason": "Pulled", "message": "image"},
    ]
    found = history_of([], mine(), events)

    assert [(one.what, one.text, one.first[17:19], one.at[17:19], one.count) for one in found[1:]] == [
        ("event Pulled", "image", "03", "05", 3),
        ("event Failed", "no room yet", "", "20", 1),
        ("event Failed", "no room", "02", "40", 5),
    ]


def test_a_condition_does_not_repeat_what_the_event_about_it_says() -> None:
    events = [{"eventTime": at(2), "reason": "FailedScheduling", "note": "0/5 nodes are available"}]
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": at(2)}
    texts = [
        [one.text for one in history_of([], mine(conditions=[{**refused, "message": message}]), events)[1:]]
        for message in ("0/5 nodes are available", "another")
    ]
    assert texts == [
        ["PodScheduled is False: Unschedulable", "0/5 nodes are available"],
        ["PodScheduled is False: Unschedulable another", "0/5 nodes are available"],
    ]


def test_events_of_a_file_are_those_about_the_pod() -> None:
    other = {**ABOUT, "name": "other"}
    events = [{"kind": "Event", "regarding": ABOUT}, {"kind": "Event", "involvedObject": other}, {"kind": "Event"}]
    assert events_in(given(*events), KEY) == events[:1]


@pytest.mark.parametrize("key", [KEY, ("default", "nobody"), ("other", "mine")])
def test_who_is_not_there_has_none(key: tuple[str, str]) -> None:
    assert (pod_in(given(mine()), key) is not None) == (key == KEY)


def test_it_is_bounded() -> None:
    events = [{"eventTime": at(number % 60), "note": f"{number} {'x' * 5_000}"} for number in range(1_000)]
    found = history_of([], mine(), events)
    assert (len(found), max(len(one.text) for one in found)) == (200, 1_000)
