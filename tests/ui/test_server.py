"""The page's answers, and who gets them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from msgspec import structs

from allocator import Features
from scheduler.core.machine import Machine
from scheduler.explain import explain_pod
from scheduler.inventory import DeviceList, Filter, devices_observed
from scheduler.offline import SourceObject
from scheduler.ui import data_source
from scheduler.ui import server as server_
from scheduler.ui.answers import Devices
from scheduler.ui.data_source import Events, Objects, Reading, Source, StillCluster, _Shared
from scheduler.ui.responses import Shape, devices_picture
from scheduler.ui.server import UiServer, static_files
from tests.offline.causes import gpu, pod, slice_
from tests.patience import PATIENCE_S
from tests.ui.test_what_if import POD
from tests.ui.worlds import fleet, many_claims, objects, partitioned, shared, source, workload


@pytest.fixture
async def server() -> AsyncIterator[UiServer]:
    async with UiServer(source()) as opened:
        yield opened


async def get(server: UiServer, path: str, method: str = "GET", **headers: str) -> tuple[int, Any, dict[str, str]]:
    url = f"{server.url}{path}"
    async with aiohttp.ClientSession() as session, session.request(method, url, headers=headers) as reply:
        text = await reply.text()
        is_json = reply.content_type == "application/json"
        return reply.status, json.loads(text) if is_json else text, dict(reply.headers)


def listed(found: Any) -> list[str]:
    return [f"{found['texts'][pool]}/{found['texts'][name]}" for pool, name in _names(found)]


def _names(found: Any) -> list[tuple[int, int]]:
    return list(zip(found["columns"]["pool"], found["columns"]["device"], strict=True))


def device(found: Any, number: int) -> dict[str, str]:
    return {name: found["texts"][column[number]] for name, column in found["columns"].items()}


async def test_devices_are_those_of_the_command_as_columns(server: UiServer) -> None:
    _, found, _ = await get(server, "api/devices")
    listed = await server._source._cluster.look(lambda machine: devices_observed(machine, Filter()))
    assert [device(found, number)["device"] for number in range(found["count"])] == [
        one.device for one in listed.devices
    ]
    assert [device(found, number)["state"] for number in range(6)] == [
        "used",
        "free",
        "free",
        "free",
        "free",
        "tainted",
    ]
    assert found["states"] == structs.asdict(listed.states)
    assert sum(found["states"].values()) == found["count"] == 6
    assert found["classes"][0]["largest"] == [structs.asdict(one) for one in listed.classes[0].largest]


async def test_devices_are_grouped_by_an_attribute(server: UiServer) -> None:
    _, found, _ = await get(server, "api/devices?by=gpu.example.com/index")
    assert [device(found, number)["group"] for number in range(6)] == ["0", "1", "2", "0", "1", "2"]
    assert found["attributes"] == ["gpu.example.com/index", "gpu.example.com/model"]


async def test_a_device_says_who_has_it_and_what_it_is(server: UiServer) -> None:
    _, found, _ = await get(server, "api/device?driver=gpu.example.com&pool=node-1&name=gpu-0")
    assert (found["state"], found["users"][0]["claim"], found["users"][0]["pods"]) == (
        "used",
        "default/held",
        ["default/runs"],
    )
    assert found["attributes"]["model"] == {"string": "A100"}
    assert found["users"][0]["owners"] == []
    assert found["name"] == "node-1/gpu-0"
    _, tainted, _ = await get(server, "api/device?driver=gpu.example.com&pool=node-2&name=gpu-2")
    assert [one["kind"] for one in tainted["blocked_by"]] == ["taint"]
    assert tainted["taints"] == [*tainted["tainted"]] == ["example.com/hot:NoSchedule"]


async def test_partitions_lie_in_their_devices_in_columns_of_numa_nodes_and_in_racks() -> None:
    async with UiServer(source(*partitioned())) as server:
        _, found, _ = await get(server, "api/devices?rack=example.com/rack")
        _, without, _ = await get(server, "api/devices?near=none")
        _, by_attribute, _ = await get(server, "api/devices?by=gpu.example.com/numaNode&rack=example.com/rack")
        _, one, _ = await get(server, "api/device?driver=gpu.example.com&pool=mig-0&name=gpu-0-one-2")
        _, whole, _ = await get(server, "api/device?driver=gpu.example.com&pool=mig-0&name=gpu-1")
    names = listed(found)
    frame = found["frames"][0]
    columns = zip(frame["devices"], frame["places"], frame["widths"], strict=True)
    lies = {names[each]: (place, width) for each, place, width in columns}

    assert [(names[each["whole"]], each["units"]) for each in found["frames"]] == [
        (f"mig-{node}/gpu-{number}", 7) for node in range(3) for number in range(2)
    ]
    assert (lies["mig-0/gpu-0-one-2"], lies["mig-0/gpu-0-three-3"]) == ((2, 1), (3, 3))
    near = {names[index]: found["texts"][text] for index, text in enumerate(found["columns"]["near"])}
    assert (near["mig-0/gpu-1"], near["mig-0/gpu-1-one-0"], near["node-1/gpu-0"]) == ("1", "", "")
    assert (found["near"], found["nears"], without["near"], without["nears"]) == ("numa", ["numa"], "", ["numa"])
    assert (found["labels"], found["rack"]) == (["example.com/rack"], "example.com/rack")
    assert found["racks"] == {"mig-0": "r1", "mig-1": "r1", "mig-2": "r2"}
    assert [by_attribute[name] for name in ("near", "rack", "racks", "frames")] == ["", "", {}, []]
    assert one["users"][0]["since"] == "2026-01-01T00:00:06Z"
    assert (whole["users"][0]["pods"], whole["users"][0]["owners"]) == (["default/trains-0"], ["job default/trains"])


async def test_labels_that_put_no_nodes_together_are_not_offered() -> None:
    """As many values as nodes, one value for all, more values than a person reads."""
    many = fleet(450)
    for number, each in enumerate(one for one in many if one["kind"] == "Node"):
        each["metadata"]["labels"] |= {"one": "x", "pairs": f"{number // 2}", "halves": f"{number // 225}"}
    given = [SourceObject(f"object {number}", one) for number, one in enumerate(many)]
    found = await Source.of_files("world", Objects(given, Features()), None).devices()
    assert found["labels"] == ["example.com/rack", "halves"]


async def test_a_device_whose_pool_and_name_another_driver_has_too_is_called_with_its_driver() -> None:
    other = slice_(gpu(), where="node-1", name="other", driver="other.example.com")
    asked = (("other.example.com", "gpu-0"), ("gpu.example.com", "gpu-0"), ("gpu.example.com", "gpu-1"))
    async with UiServer(source(other)) as server:
        paths = [f"api/device?driver={driver}&pool=node-1&name={name}" for driver, name in asked]
        names = [(await get(server, path))[1]["name"] for path in paths]
    assert names == ["other.example.com/node-1/gpu-0", "gpu.example.com/node-1/gpu-0", "node-1/gpu-1"]


async def test_pods_that_wait_have_their_cause_and_what_helps(server: UiServer) -> None:
    _, found, _ = await get(server, "api/pending")
    (row,) = found["pods"]
    assert (found["waiting"], row["names"][0], found["kinds"]) == (1, "waits", {row["kind"]: 1})
    assert row["cause"]
    assert row["change"]


async def test_rows_say_whose_they_are_and_since_when_and_a_pod_how_many_beside_it_fit() -> None:
    async with UiServer(source(*workload(3))) as server:
        _, found, _ = await get(server, "api/pending")
        _, pod_, _ = await get(server, "api/pod?namespace=team-a&name=web-abc-2")

    rows = {row["owner"]: (len(row["names"]), row["created"]) for row in found["pods"]}
    assert rows == {"Deployment/team-a/web": (3, "2026-01-01T00:00:48Z"), "Pod/default/waits": (1, "")}
    assert (pod_["created"], pod_["siblings"], pod_["siblings_fit"]) == ("2026-01-01T00:00:48Z", 2, 0)
    assert found["running"] == {}


async def test_a_list_says_how_many_pods_of_an_owner_run_beside_those_that_wait() -> None:
    given = workload(5)
    for one in given[1:]:
        one["spec"]["nodeName"] = "node-1"
    given[3]["status"] = {"phase": "Succeeded"}
    given[4]["metadata"] |= {"deletionTimestamp": "2026-01-02T00:00:00Z", "deletionGracePeriodSeconds": 30}
    async with UiServer(source(*given, *workload(1, "api"))) as server:
        _, found, _ = await get(server, "api/pending")

    assert found["running"] == {"Deployment/team-a/web": 2}


async def test_a_pod_has_its_funnel_and_its_nodes(server: UiServer) -> None:
    _, found, _ = await get(server, "api/pod?namespace=default&name=waits")
    (funnel,) = found["funnels"]
    assert (funnel["wanted"], funnel["published"], funnel["nodes"]) == (3, 6, 2)
    left = funnel["published"]
    for step in funnel["steps"]:
        left -= step["removed"]
        assert step["left"] == left
    assert [step["stage"] for step in funnel["steps"]] == ["taint", "in-use"]
    assert [step["stage"] for step in funnel["steps"] if step["ends"]] != []
    assert {node for group in found["nodes"] for node in group["nodes"]} == {"node-1", "node-2"}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("api/pod?namespace=default&name=nobody", "no pod is named default/nobody"),
        ("api/device?driver=x&pool=y&name=z", "there is no device x/y/z"),
        ("api/nothing", "there are about, overview, devices, device, pending, pod, whatif, events"),
        ("nothing.js", "there is no '/nothing.js'"),
        ("../server.py", "there is no '/server.py'"),
    ],
)
async def test_what_is_not_there_is_said(server: UiServer, path: str, text: str) -> None:
    status, said, _ = await get(server, path)
    assert status == 404
    assert text in said


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:1"}, 200),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": ""}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
async def test_other_sites_and_other_names_get_nothing(server: UiServer, headers: dict[str, str], status: int) -> None:
    for path in ("api/devices", "api/events" if status != 200 else "api/about", ""):
        assert (await get(server, path, **headers))[0] == status


async def test_another_name_can_be_allowed() -> None:
    async with UiServer(source(), hosts=["page.example.com"]) as opened:
        assert (await get(opened, "api/about", Host="page.example.com"))[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_nothing_can_be_written(server: UiServer, method: str) -> None:
    status, _, headers = await get(server, "api/devices", method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


async def test_the_page_may_load_and_run_nothing_but_its_own_files(server: UiServer) -> None:
    for path in ("", "js/main.js", "api/pending", "nothing"):
        _, _, headers = await get(server, path)
        policy = headers["Content-Security-Policy"] if path != "nothing" else "default-src 'self'"
        assert policy.startswith("default-src 'self'")
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"


def test_all_files_of_the_page_are_served_and_the_page_names_no_other_host() -> None:
    files = static_files()
    assert {"/", "/style.css", "/js/main.js", "/vendor/preact.mjs"} <= files.keys()
    own = {path: body for path, body in files.items() if not path.startswith("/vendor/")}
    assert [path for path, body in own.items() if b"://" in body.replace(b"http://www.w3.org/2000/svg", b"")] == []


async def test_whoever_listens_gets_the_version_at_once_and_so_many_listen(server: UiServer) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        replies = [await session.get(f"{server.url}api/events") for _ in range(32)]
        try:
            lines = [await replies[-1].content.readline() for _ in range(2)]
            assert lines == [b"event: version\n", b'data: {"version": 1, "problems": []}\n']
            assert (await get(server, "api/events"))[0] == 503
        finally:
            for reply in replies:
                reply.close()
        async with asyncio.timeout(PATIENCE_S):
            while server._listeners:  # noqa: ASYNC110 - the server notices when it writes, or when the socket closes
                await asyncio.sleep(0)
        assert (await get(server, "api/about"))[0] == 200


class Changing(Source):
    """A source whose version is what the test says."""

    def __init__(self) -> None:
        self.now = 1
        given = [SourceObject(f"object {number}", one) for number, one in enumerate(objects())]
        read = Objects(given, Features())
        super().__init__("world", StillCluster(read), Reading(lambda: read, lambda _: Events(())), None)

    @property
    def version(self) -> int:
        return self.now


async def test_a_source_that_rests_longer_than_a_beat_goes_on_resting_and_then_tells(
    server: UiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[int] = []
    may_tell = asyncio.Event()

    async def rest(version: int) -> int:
        rests.append(version)
        await may_tell.wait()
        may_tell.clear()
        return version + 1

    monkeypatch.setattr(server_, "_BEAT_S", 0.001)
    monkeypatch.setattr(server._source, "changed_since", rest)
    async with aiohttp.ClientSession() as session, session.get(f"{server.url}api/events") as reply:
        while await reply.content.readline() != b": still here\n":
            pass
        for _ in range(8):
            await reply.content.readline()
        assert rests == [1]  # each time anew it would rest as long as before: other people's questions keep it resting
        may_tell.set()
        while not (line := await reply.content.readline()).startswith(b"data: "):
            pass
        assert json.loads(line[6:])["version"] == 2


async def test_an_answer_is_made_once_for_all_who_wait(server: UiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Shape] = []

    def counted(machine: Machine, found: DeviceList, shape: Shape) -> Devices:
        calls.append(shape)
        return devices_picture(machine, found, shape)

    monkeypatch.setattr(data_source, "devices_picture", counted)
    await asyncio.gather(*(get(server, "api/devices") for _ in range(8)))
    assert len(calls) == 1


async def test_whoever_asks_for_a_newer_version_gets_no_older_answer_that_was_on_its_way() -> None:
    shared, begun, may_end = _Shared[str](), asyncio.Event(), asyncio.Event()

    async def slow(version: int) -> str:
        begun.set()
        await may_end.wait()
        return "old"

    async def quick(version: int) -> str:
        return "new"

    first = asyncio.ensure_future(shared.of(1, lambda: 1, slow))
    await begun.wait()
    second = asyncio.ensure_future(shared.of(2, lambda: 2, quick))
    third = asyncio.ensure_future(shared.of(1, lambda: 2, quick))
    await asyncio.sleep(0)
    third.cancel()  # who goes away ends nothing
    may_end.set()
    assert await asyncio.gather(first, second) in (["old", "new"], ["new", "new"])


async def test_whoever_has_no_answer_yet_gets_the_last_one_at_once_and_a_newer_one_when_it_asks_for_it() -> None:
    changing = Changing()
    first = await changing.devices()
    changing.now = 2

    assert (first["version"], await changing.devices()) == (1, first)
    assert (await changing.devices(after=1))["version"] == 2
    assert (await changing.devices(after=7))["version"] == 2  # of a process that was there before this one
    changing.now = 3
    one = ("gpu.example.com", "node-1", "gpu-0")
    assert (await changing.device(one))["version"] == 2
    assert (await changing.device(one, after=2))["version"] == 3


async def test_the_answers_that_were_asked_for_last_are_kept() -> None:
    changing = Changing()
    first = await changing.devices()
    changing.now = 2
    for number in range(100):
        await changing.devices(Shape(f"attribute-{number}"))
        assert await changing.devices() == first
    assert len(changing._answers) == 16


async def test_shares_and_room_that_is_made() -> None:
    async with UiServer(source(*shared())) as server:
        _, found, _ = await get(server, "api/devices")
        index = next(number for number in range(found["count"]) if device(found, number)["device"] == "gpu-7")
        _, one, _ = await get(server, "api/device?driver=gpu.example.com&pool=node-s&name=gpu-7")

    assert device(found, index)["state"] == "shared"
    assert found["shares"] == [[index, 25]]
    assert found["nominated"] == {"node-s": ["default/important"]}
    assert one["nominated"] == ["default/important"]


async def test_a_pod_with_ten_thousand_claims_is_one_row() -> None:
    async with UiServer(source(*many_claims(10_000))) as server, asyncio.timeout(PATIENCE_S):
        status, found, _ = await get(server, "api/pending")
        assert status == 200
        assert len(found["pods"]) == 2
        assert max(len(json.dumps(one)) for one in found["pods"]) < 3_000
        status, found, _ = await get(server, "api/pod?namespace=default&name=greedy")
        assert status == 200
        assert len(json.dumps(found)) < 100_000


async def test_a_look_at_the_pods_that_wait_is_bounded_and_says_who_was_not_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The waiting pods of a hostile user take turns of the scheduler, which are counted."""
    monkeypatch.setattr(data_source, "TURNS_MAX", 1)
    more = [pod("three", name=f"more-{number}") for number in range(300)]
    async with UiServer(source(*more)) as server:
        _, found, _ = await get(server, "api/pending")

    untried = sum(one["outcome"] == "unknown" for one in found["pods"])
    assert 0 < untried < len(found["pods"]) == 301
    assert found["problems"] == [f"{untried} pods were not tried: 1 turns of the scheduler went to others"]


async def test_pods_that_take_long_to_explain_leave_threads_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six open pages of pods with costly selectors kept a device's answer waiting for 27 s."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(3))
    may_end = threading.Event()

    def slow(*arguments: Any, **options: Any) -> Any:
        may_end.wait()
        return explain_pod(*arguments, **options)

    monkeypatch.setattr(data_source, "explain_pod", slow)
    names = [f"pod-{number}" for number in range(6)]
    asked = source(*(pod("three", name=name) for name in names))
    pages = [asyncio.ensure_future(asked.pod(("default", name))) for name in names]
    for _ in range(50):  # each page comes as far as it may
        await asyncio.sleep(0)
    try:
        async with asyncio.timeout(PATIENCE_S):
            found = await asked.device(("gpu.example.com", "node-1", "gpu-0"))
    finally:
        may_end.set()
    assert found["version"] == 1
    assert [page["subject"] for page in await asyncio.gather(*pages)] == [f"pod/default/{name}" for name in names]


@pytest.mark.parametrize("spec", [None, 7, {"resourceClaims": 7}, {"resourceClaims": [{}], "containers": []}], ids=str)
async def test_a_pod_that_no_server_takes_is_explained_and_not_copied(spec: Any) -> None:
    """What a file has may be anything."""
    bad = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bad"}} | ({} if spec is None else {"spec": spec})
    async with UiServer(source(bad)) as server:
        status, found, _ = await get(server, "api/pod?namespace=default&name=bad")
        assert (status, found["outcome"], found["history"]) == (200, "refused", [])
        status, found, _ = await get(server, "api/whatif?pod=default/bad")
        is_refused = status == 400 and "bad" in found
        assert is_refused or found["pods"][0]["outcome"] == "refused"


async def test_head_of_events_is_a_head_and_listens_to_nothing(server: UiServer) -> None:
    async with asyncio.timeout(PATIENCE_S):
        status, text, headers = await get(server, "api/events", "HEAD")
    assert (status, text, headers["Content-Type"]) == (200, "", "text/event-stream")
    assert server._listeners == 0


async def test_a_question_that_needs_too_much_memory_is_told_so(
    server: UiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def greedy(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(data_source, "explain_pod", greedy)
    status, text, _ = await get(server, "api/pod?namespace=default&name=waits")
    assert (status, text) == (503, "this question needs more memory than the page has\n")
    monkeypatch.undo()
    assert (await get(server, "api/pod?namespace=default&name=waits"))[0] == 200


async def post(server: UiServer, fields: str, *parts: bytes) -> bytes:
    """The answer to a question in parts, each sent when the one before has been read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    host = f"127.0.0.1:{server.port}"
    writer.write(f"POST /api/whatif HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n{fields}\r\n\r\n".encode())
    for part in parts:
        await writer.drain()
        for _ in range(20):
            await asyncio.sleep(0)
        writer.write(part)
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await reader.read()
    finally:
        writer.close()


async def test_half_a_manifest_does_not_keep_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 of them kept everybody else out for an hour."""
    monkeypatch.setattr(server_, "LIMITS", replace(server_.LIMITS, head_s=0.05, of_one_address_max=1))
    async with UiServer(source()) as server:
        answer = await post(server, "Content-Length: 200000", b"kind: ")
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert (await get(server, "api/about"))[0] == 200


async def test_a_manifest_may_come_in_parts(server: UiServer) -> None:
    """Only the first was read: a large one over a slow network was cut off."""
    manifest = POD.encode()
    fields = f"Content-Length: {len(manifest)}\r\nConnection: close"
    answer = await post(server, fields, manifest[:100], manifest[100:200], manifest[200:])
    assert answer.startswith(b"HTTP/1.1 200 "), answer


async def test_of_a_body_that_is_no_http_nothing_is_written(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_, "LIMITS", replace(server_.LIMITS, head_s=0.05))
    async with UiServer(source()) as server:
        answer = await post(server, "Transfer-Encoding: chunked", b"s3cret\r\n")
        assert answer.split()[1] in (b"400", b"408")
        assert b"s3cret" not in answer
        assert [one for one in caplog.records if one.exc_info or "s3cret" in one.getMessage()] == []
        assert (await get(server, "api/about"))[0] == 200
