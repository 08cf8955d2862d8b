"""What if: objects altered and played, as `simulate` does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from allocator import Features
from scheduler.offline import SourceObject
from scheduler.ui import what_if
from scheduler.ui.data_source import Objects
from scheduler.ui.server import UiServer
from scheduler.ui.what_if import BusyError, WhatIf, WhatIfRequest, WrongQuestionError, answer
from tests.offline.causes import Obj, allocated, claim, pod, request
from tests.offline.test_draining import drained
from tests.offline.test_draining import shared as sharing
from tests.offline.test_making_room import budget, fleet, runs
from tests.offline.test_many_pods import workload
from tests.ui.worlds import objects, source

POD = """
apiVersion: v1
kind: Pod
metadata: {name: mine}
spec:
  containers: [{name: main, image: none}]
  resourceClaims: [{name: gpu, resourceClaimName: mine}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: mine}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}
"""


def world(*more: Obj) -> Objects:
    given = [SourceObject(f"object {number}", one) for number, one in enumerate([*objects(), *more])]
    return Objects(given, Features())


def places(found: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["node"] or one["outcome"] for one in found["pods"]}


def test_objects_more_are_played_on_what_is_there() -> None:
    found = answer(world(), WhatIfRequest(manifest=POD))

    assert found["text"] == "1 of 1 would run, 0 would wait."
    assert places(found) == {"mine": "node-2"}
    assert [one["device"] for one in found["pods"][0]["devices"]] == ["gpu-0"]
    assert found["evicted"] == []


def test_copies_of_a_pod_have_copies_of_its_claims() -> None:
    two = claim(request(count=2), name="two")
    found = answer(world(two, pod("two", name="wants")), WhatIfRequest(pod=("default", "wants"), copies=3))

    assert sorted(places(found).values()) == ["node-1", "node-2", "unschedulable"]
    assert found["text"] == "2 of 3 would run, 1 would wait."
    assert all(one["name"].startswith("what-if-wants-") for one in found["pods"])
    assert found["pods"][2]["refusals"]


def test_without_a_node_only_its_pods_are_asked_about_that_somebody_makes_again() -> None:
    owned = {**pod("held", name="owned", nodeName="node-1"), "status": {"phase": "Running"}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "set", "controller": True}
    owned["metadata"] |= {"uid": "uid-owned", "resourceVersion": "2", "ownerReferences": [owner]}
    bare = {**pod(name="bare", nodeName="node-1"), "status": {"phase": "Running"}}
    bare["metadata"] |= {"uid": "uid-bare", "resourceVersion": "3"}
    found = answer(world(owned, bare), WhatIfRequest(without="node-1"))

    assert places(found) == {"owned": "node-2"}
    assert found["text"].startswith("Without node-1, 1 of its 1 pods would run elsewhere. ")
    assert "default/bare) would not be made again, as no controller makes them." in found["text"]
    assert "No pod would need another node" in answer(world(), WhatIfRequest(without="node-2"))["text"]


def test_room_is_looked_for() -> None:
    found = answer(world(), WhatIfRequest(room=("default", "waits")))

    assert found["outcome"] == "none"
    assert found["text"].startswith("no plan: default/waits does not fit after up to 3 moves")


def test_where_the_steps_are_used_up_there_may_be_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never "no plan" of what was not looked at: costly selectors of one pod on 50 nodes took 100 s, others waited."""
    monkeypatch.setattr(what_if, "STEPS_MAX", 1)
    found = answer(world(), WhatIfRequest(room=("default", "waits")))

    assert found["outcome"] == "unknown"
    assert "make-room has no such bound" in found["text"]


SHARED: Final = sharing(runs("a", "node-1", 0), runs("b", "node-1", 0))


def drain(given: Sequence[Obj]) -> dict[str, Any]:
    objects = [SourceObject(f"object {number}", one) for number, one in enumerate(given)]
    return answer(Objects(objects, Features()), WhatIfRequest(drain="node-1/gpu-0"))


def test_a_device_is_drained_as_by_the_command(tmp_path: Path) -> None:
    world = [*SHARED, budget(1, app="b")]
    found, printed = drain(world), drained(tmp_path, world)

    assert printed["outcome"] == "plan"
    assert {name: found[name] for name in printed} == printed
    assert (found["more"], found["problems"]) == (0, [])


GROUP: Final = {"schedulingGroup": {"podGroupName": "workers"}}


@pytest.mark.parametrize(
    ("given", "questions"),
    [(SHARED, 10), ([*fleet("node-1"), *runs("a", "node-1", 0, **GROUP), *runs("b", "node-1", 1, **GROUP)], 20)],
    ids=["between two pods", "in the midst of two that go at once"],
)
def test_where_the_steps_are_used_up_the_device_may_be_drained(
    given: list[Obj], questions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod with costly selectors on many nodes takes thousands of turns: it is left in the midst of them."""
    monkeypatch.setattr(what_if, "STEPS_MAX", 2500)
    found = drain(given)

    assert (found["outcome"], found["questions"]) == ("unknown", questions)
    assert "in the steps for one question, and there may be one" in found["text"]
    assert "was not asked about: the questions or steps were used up" in {one.get("why") for one in found["holders"]}


def test_few_of_many_holders_are_named() -> None:
    many = sharing(*(runs(f"pod-{number}", "node-1", 0, kind="") for number in range(250)))
    found = drain(many)

    assert found["text"].startswith("no plan: 250 of the 250 that hold node-1/gpu-0")
    assert (len(found["holders"]), found["more"]) == (200, 50)


def test_how_many_notes_of_a_drain_are_left_out_is_said() -> None:
    unused = [allocated(claim(name=f"left-{number:03}"), "gpu-0", users=[]) for number in range(203)]
    found = drain([*SHARED, *unused])

    assert len(found["notes"]) == 201
    assert found["notes"][199].startswith("claim default/left-199 has it")
    assert found["notes"][200] == "3 more notes are left out"


def test_nodes_that_were_not_looked_at_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(what_if, "STEPS_MAX", 1)
    found = answer(world(), WhatIfRequest(pod=("default", "waits"), copies=2))

    refusals = [one for pod in found["pods"] for one in pod.get("refusals", ())]
    assert any("not looked at" in one["reason"] for one in refusals)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        pytest.param(WhatIfRequest(), "there is nothing in the manifest", id="nothing"),
        pytest.param(WhatIfRequest(manifest="a: ["), "manifest", id="no YAML"),
        pytest.param(WhatIfRequest(manifest="kind: Pod\napiVersion: v1\nmetadata: 7\n"), "metadata", id="no object"),
        pytest.param(WhatIfRequest(manifest="#" * 300_000), "larger than 256 KiB", id="too large"),
        pytest.param(WhatIfRequest(pod=("default", "nobody")), "no pod is named default/nobody", id="no such pod"),
        pytest.param(WhatIfRequest(pod=("default", "waits"), copies=501), "from 1 to 500", id="too many copies"),
        pytest.param(WhatIfRequest(without="node-7"), "there is no such object", id="no such node"),
        pytest.param(WhatIfRequest(without="node-7/x"), "there is no such object", id="no name"),
        pytest.param(WhatIfRequest(drain="node-1/gpu-7"), "did you mean node-1/gpu-", id="no such device"),
        pytest.param(WhatIfRequest(room=("default", "runs")), "no pod that waits is named default/runs", id="it runs"),
    ],
)
def test_a_wrong_question_is_refused_with_what_is_wrong(question: WhatIfRequest, text: str) -> None:
    with pytest.raises(WrongQuestionError, match=text):
        answer(world(), question)


def test_a_workload_that_makes_many_pods_is_refused() -> None:
    job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: big}\nspec:\n  parallelism: 600\n  completions: 600\n"
    job += "  template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}\n"
    with pytest.raises(WrongQuestionError, match=r"spec\.parallelism: 600 pods; at most 500 are made here"):
        answer(world(), WhatIfRequest(manifest=job))


async def test_one_question_is_played_at_a_time_and_few_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    playing = 0

    def slow(*_: object) -> dict[str, Any]:
        nonlocal playing
        playing += 1
        assert playing == 1
        playing -= 1
        return {}

    monkeypatch.setattr(what_if, "answer", slow)
    asked = WhatIf(source())
    waiting = [asyncio.ensure_future(asked.answer(WhatIfRequest())) for _ in range(6)]
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)

    assert [type(one) for one in outcomes] == [dict] * 4 + [BusyError] * 2
    assert await asked.answer(WhatIfRequest()) == {}


@pytest.fixture
async def server() -> AsyncIterator[UiServer]:
    async with UiServer(source()) as opened:
        yield opened


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"Origin": "{page}"}, 200, id="the page"),
        pytest.param({}, 403, id="nobody says who asks"),
        pytest.param({"Origin": "http://elsewhere.example"}, 403, id="another site"),
        pytest.param({"Origin": "null"}, 403, id="a sandboxed one"),
        pytest.param({"Origin": "{page}", "Host": "elsewhere.example"}, 421, id="another name"),
    ],
)
async def test_only_the_page_asks(server: UiServer, headers: dict[str, str], status: int) -> None:
    told = {name: value.format(page=server.url.rstrip("/")) for name, value in headers.items()}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{server.url}api/whatif", data=POD, headers=told) as reply,
    ):
        assert reply.status == status
        if status == 200:
            found = json.loads(await reply.text())
            assert (found["now"], places(found)) == ({"gpu.example.com": 1 / 6}, {"mine": "node-2"})


@pytest.mark.parametrize("path", ["api/devices", "api/whatif?without=node-1", "api/whatif?drain=node-1/gpu-0"])
async def test_what_another_site_embeds_is_refused(server: UiServer, path: str) -> None:
    async with aiohttp.ClientSession() as session:
        for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
            async with session.get(f"{server.url}{path}", headers={"Sec-Fetch-Site": site}) as reply:
                assert reply.status == status
        async with session.get(server.url, headers={"Sec-Fetch-Site": "cross-site"}) as reply:
            assert reply.status == 200  # a link in a chat leads to the page


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("pod=default/nobody", 400, "no pod is named default/nobody"),
        ("pod=default/waits&copies=x", 400, "the number of copies must be from 1 to 500"),
        ("room=waits", 400, "no pod that waits is named waits/"),
        ("", 400, "there is nothing in the manifest"),
    ],
)
async def test_a_wrong_question_in_an_address(server: UiServer, query: str, status: int, text: str) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"{server.url}api/whatif?{query}") as reply:
        assert reply.status == status
        assert text in await reply.text()


def test_a_costly_question_ends_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others wait for its end: ten pods with such selectors of their own on 50 nodes took 200 s."""
    loops = "[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, a + b + c >= 0)))"
    costly = POD.replace(
        "deviceClassName: gpu.example.com",
        f"deviceClassName: gpu.example.com, selectors: [{{cel: {{expression: '{loops} && false'}}}}]",
    )
    monkeypatch.setattr(what_if, "TURNS_MAX", 1)
    cut = answer(world(), WhatIfRequest(manifest=costly))
    assert cut["problems"] == ["not played to the end: 1 turns of the scheduler were used up; simulate has no bound"]
    assert places(cut)["mine"] == "unknown"
    assert cut["text"].endswith("0 would wait, 1 were not tried to the end.")

    monkeypatch.undo()
    whole = answer(world(), WhatIfRequest(manifest=costly))
    assert whole["problems"] == []
    assert places(whole)["mine"] == "unschedulable"


@pytest.mark.parametrize(
    ("kind", "field"), [("Deployment", "replicas"), ("StatefulSet", "replicas"), ("Job", "parallelism")]
)
def test_pods_are_counted_before_they_are_made(monkeypatch: pytest.MonkeyPatch, kind: str, field: str) -> None:
    monkeypatch.setattr(what_if, "play", None)  # nothing is played
    question = json.dumps(workload(kind, **{field: 2**31 - 1}))
    with pytest.raises(WrongQuestionError) as refused:
        answer(world(), WhatIfRequest(manifest=question))
    assert str(refused.value) == (
        f"manifest:1:1: {kind} x: spec.{field}: 2147483647 pods; at most 500 are made here: write a smaller number"
    )
