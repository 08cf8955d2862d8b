"""Events that say why pods wait: one a pod and cause, no more than so many in a minute, of all namespaces alike."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from scheduler.explain.waiting import Waiting
from scheduler.kube.outcomes import Accepted, Rejected, Unknown, WriteResult
from scheduler.offline.alike import Maker
from scheduler.ui.cause_events import A_MINUTE, REASON, CauseEvents


class Server:
    """Takes events, and has them when it is asked; or says `answer` to each, or to those of namespaces named so."""

    def __init__(self, answer: WriteResult | None = None, of_namespaces: str = "") -> None:
        self.answer = answer
        self.of_namespaces = of_namespaces
        self.events: list[dict[str, Any]] = []

    async def send(self, method: str, path: str, body: bytes | None = None, content_type: str = "") -> WriteResult:
        if method == "GET":
            items = [{"involvedObject": one["regarding"], "message": one["note"]} for one in self.events]
            return Accepted(200, json.dumps({"items": items}).encode())
        assert method == "POST", "a right to patch would be needed"
        event = json.loads(body or b"")
        assert path == f"/apis/events.k8s.io/v1/namespaces/{event['regarding']['namespace']}/events"
        if self.answer is not None and event["regarding"]["namespace"].startswith(self.of_namespaces):
            return self.answer
        self.events.append(event)
        return Accepted(201, body or b"")

    def notes(self) -> list[tuple[str, str]]:
        return [(one["regarding"]["name"], one["note"]) for one in self.events]


class Time:
    now_ms = 1_800_000_000_000

    def __call__(self) -> int:
        return self.now_ms


def waits(name: str, told: str, namespace: str = "team", *, kind: str = "devices-in-use", **more: Any) -> Waiting:
    maker = Maker(f"pod {namespace}/{name}", name, f"Pod/{namespace}/{name}")
    return Waiting((namespace, name), more.pop("outcome", "unschedulable"), maker, kind, "secret", told=told, **more)


def uids(pods: Sequence[Waiting]) -> dict[tuple[str, str], str]:
    return {one.key: f"uid-{'-'.join(one.key)}" for one in pods}


async def tell(events: CauseEvents, time: Time, *pods: Waiting) -> str:
    """A round, a minute after the one before."""
    time.now_ms += 60_000
    return await events.tell(pods, uids(pods))


async def test_a_cause_is_said_once_and_again_when_it_is_another() -> None:
    server, time = Server(), Time()
    events = CauseEvents(server, time)
    for told in ("20G left", "40G left", "20G left"):
        await tell(events, time, waits("a", told))
    assert server.notes() == [("a", "[devices-in-use] 20G left")]
    await tell(events, time, waits("a", "no node has a GPU", kind="no-devices"), waits("b", "20G left"))
    await tell(events, time, waits("a", "20G left"))  # said already
    assert server.notes()[1:] == [("a", "[no-devices] no node has a GPU"), ("b", "[devices-in-use] 20G left")]
    (first, *_) = server.events
    assert (first["type"], first["reason"], first["regarding"]["uid"]) == ("Warning", REASON, "uid-team-a")
    assert first["reportingController"] == "dra-scheduler-observe"
    assert "secret" not in json.dumps(server.events)


async def test_a_pod_of_the_same_name_is_another_one() -> None:
    server, time = Server(), Time()
    events = CauseEvents(server, time)
    pod = waits("a", "x")
    for uid in ("1", "2", "2"):
        time.now_ms += 60_000
        await events.tell([pod], {pod.key: uid})
    assert [one["regarding"]["uid"] for one in server.events] == ["1", "2"]


async def test_what_was_said_before_a_restart_is_not_said_again() -> None:
    server, time = Server(), Time()
    long = waits("long", "x" * 2_000)
    for _ in range(2):
        events = CauseEvents(server, time)
        await events.read_said()
        await tell(events, time, waits("a", "1 left"), long)
    assert [name for name, _ in server.notes()] == ["a", "long"]


async def test_in_any_minute_there_are_no_more_than_so_many_and_every_namespace_has_its_turn() -> None:
    server, time = Server(), Time()
    events = CauseEvents(server, time)
    pods = [waits(f"p-{number}", "x", f"team-{number // 100}") for number in range(300)]
    at_ms: list[int] = []
    for _ in range(600):  # rounds may come as often as they like
        time.now_ms += 1_000
        await events.tell(pods, uids(pods))
        at_ms += [time.now_ms] * (len(server.events) - len(at_ms))
    assert len(at_ms) > 5 * A_MINUTE // 2
    assert max(sum(begin <= one < begin + 60_000 for one in at_ms) for begin in at_ms) <= A_MINUTE
    spaces = [one["regarding"]["namespace"] for one in server.events]
    assert all(one != other for one, other in pairwise(spaces[:12]))


@pytest.mark.parametrize(
    "pod",
    [
        waits("a", "x", is_first_look=True),
        waits("a", "x", outcome="gated"),
        waits("a", "", outcome="fits"),
        waits("a", "", outcome="unknown"),
    ],
    ids=lambda one: one.outcome,
)
async def test_of_others_nothing_is_said(pod: Waiting) -> None:
    server, time = Server(), Time()
    assert await tell(CauseEvents(server, time), time, pod) == ""
    assert server.events == []


async def test_a_server_that_takes_none_is_asked_once_a_round_and_again_later() -> None:
    server, time = Server(Rejected(403, "Forbidden", "events is forbidden", is_configuration=True)), Time()
    events = CauseEvents(server, time)
    assert "events is forbidden" in await tell(events, time, waits("a", "x"), waits("b", "x"))
    server.answer = None
    assert await tell(events, time, waits("a", "x"), waits("b", "x")) == ""
    assert [name for name, _ in server.notes()] == ["a", "b"]


@pytest.mark.parametrize(
    "answer",
    [
        Rejected(403, "Forbidden", "events is forbidden", is_configuration=True),
        Rejected(429, "TooManyRequests", "limit reached on type Namespace for key evil-0", is_retriable=True),
    ],
    ids=lambda one: one.reason,
)
async def test_namespaces_that_take_none_keep_no_other_waiting(answer: Rejected) -> None:
    server, time = Server(answer, "evil"), Time()
    events = CauseEvents(server, time)
    hostile = [waits(f"p-{number}", "x", f"evil-{number % 20}") for number in range(60)]  # more than go in a round
    pods = [*hostile, waits("a", "x"), waits("b", "x")]
    for _ in range(2):
        assert answer.message in await tell(events, time, *pods)
    assert [name for name, _ in server.notes()] == ["a", "b"]


async def test_an_event_whose_outcome_nobody_knows_is_not_sent_again() -> None:
    server, time = Server(Unknown("the connection ended")), Time()
    events = CauseEvents(server, time)
    assert await tell(events, time, waits("a", "x")) == ""
    server.answer = None
    assert await tell(events, time, waits("a", "x")) == ""
    assert server.events == []
