"""A standby's caches when it takes over: all that was stored before must have come, however late the watches are."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.kube.codec import Codec
from scheduler.kube.names_and_versions import Stored
from scheduler.model.keys import ObjectKey
from tests.kube.misbehaving import SERVER, added, bookmark, event, misbehaving, page, pod, status, watch
from tests.kube.test_watch import reflecting
from tests.patience import PATIENCE_S

SOON_S = 0.05
ETCD_FAILS = status(500, "InternalError", "etcd")
SILENT = watch(added(pod("a", 3)), bookmark(9, ends_initial=True), then="hang")


async def stay_open(request, response):
    await request.app[SERVER].closing.wait()
    return response


async def test_who_has_seen_the_newest_version_reads_nothing_anew():
    async with (
        misbehaving(watch(added(pod("a", 3)), bookmark(9, ends_initial=True), then="hang"), page(version=9)) as server,
        reflecting(server) as running,
    ):
        await running.told.relisted()
        await running.reflector.catch_up(PATIENCE_S)

        assert running.names() == ["a@3", "=Pod"]
        assert [one.query.get("limit") for one in server.asked] == [None, "1"]


@pytest.mark.parametrize("last", [event("MODIFIED", pod("a", 12)), bookmark(12)], ids=["event", "bookmark"])
async def test_a_watch_that_is_late_is_waited_for(last):
    """The answer about the newest version overtakes what was stored before."""
    comes = asyncio.Event()

    async def late(request):
        response = await watch(added(pod("a", 3)), bookmark(9, ends_initial=True), then="open")(request)
        await comes.wait()
        await response.write(event("ADDED", pod("b", 10)).encode() + last.encode())
        return await stay_open(request, response)

    async with misbehaving(late, page(version=12)) as server, reflecting(server) as running:
        await running.told.relisted()
        catching_up = asyncio.create_task(running.reflector.catch_up(PATIENCE_S))
        await server.asked_for(2)
        await asyncio.sleep(0)
        assert not catching_up.done()
        comes.set()
        await catching_up

        assert "b@10" in running.names()
        assert running.reflector.stats.relists == 1


async def test_what_a_silent_watch_does_not_bring_is_listed_anew_at_once():
    """Where it was cut is no failure, so it is not paused for."""
    newer = watch(added(pod("a", 3), pod("b", 11)), bookmark(12, ends_initial=True), then="hang")
    stored = page(pod("a", 3), pod("b", 11), version=12)
    async with misbehaving(SILENT, page(version=12), stored, newer) as server, reflecting(server) as running:
        await running.told.relisted()
        await running.reflector.catch_up(SOON_S)

        assert running.names() == ["a@3", "=Pod", "b@11", "=Pod"]
        assert server.asked[-1].query["sendInitialEvents"] == "true"
        assert running.pauses.seconds == []
        assert running.reflector.stats.failure is None


async def test_a_silent_watch_that_missed_nothing_is_not_listed_anew():
    """By names and revisions alone, in pages; a claim that nobody changes has no newer version to show."""
    two = watch(added(pod("a", 3), pod("b", 5)), bookmark(9, ends_initial=True), then="hang")
    pages = page(pod("a", 3), version=12, token="more"), page(pod("b", 5), version=12)
    async with misbehaving(two, page(version=12), *pages) as server, reflecting(server) as running:
        await running.told.relisted()
        await running.reflector.catch_up(SOON_S)

        assert running.names() == ["a@3", "b@5", "=Pod"]
        assert [one.query.get("continue") for one in server.asked] == [None, None, None, "more"]
        assert all("as=PartialObjectMetadataList" in one.headers["Accept"] for one in server.asked[1:])


A, B, C = (ObjectKey("default", name) for name in "abc")


@pytest.mark.parametrize(
    ("known", "is_known"),
    [
        pytest.param({A: ("1", "3"), B: ("2", "5")}, True, id="the-same"),
        pytest.param({A: ("1", "11"), B: ("2", "5")}, True, id="changed-later"),
        pytest.param({A: ("1", "3"), B: ("2", "5"), C: ("3", "11")}, True, id="created-later"),
        pytest.param({A: ("9", "12"), B: ("2", "5")}, True, id="replaced-later"),
        pytest.param({A: ("1", "2"), B: ("2", "5")}, False, id="a-change-missed"),
        pytest.param({A: ("9", "3"), B: ("2", "5")}, False, id="another-object"),
        pytest.param({A: ("1", "3")}, False, id="one-missed"),
        pytest.param({A: ("1", "3"), B: ("2", "5"), C: ("3", "10")}, False, id="a-deletion-missed"),
    ],
)
def test_what_is_stored_is_known(known: dict[ObjectKey, tuple[str, str]], is_known: bool) -> None:
    assert Stored(10, {A: ("1", "3"), B: ("2", "5")}).is_known(known) is is_known


async def test_a_read_of_the_version_that_fails_leads_to_a_list():
    newer = watch(added(pod("b", 11)), bookmark(12, ends_initial=True), then="hang")
    async with (
        misbehaving(SILENT, ETCD_FAILS, ETCD_FAILS, newer) as server,
        reflecting(server) as running,
    ):
        await running.told.relisted()
        await running.reflector.catch_up(SOON_S)

        assert running.names() == ["a@3", "=Pod", "-a(uid-a)", "b@11", "=Pod"]


async def test_a_pause_after_failures_ends_when_it_is_our_turn():
    """It may be half a minute; the server is there again, for it has given us the lease."""
    ends, paused = asyncio.Event(), asyncio.Event()

    async def for_ever(_seconds: float) -> None:
        paused.set()
        await asyncio.Event().wait()

    async def first(request):
        response = await watch(added(pod("a", 3)), bookmark(9, ends_initial=True), then="open")(request)
        await ends.wait()
        return response

    newer = watch(added(pod("b", 11)), bookmark(12, ends_initial=True), then="hang")
    async with (
        misbehaving(first, status(503, "ServiceUnavailable", "not now"), page(version=12), ETCD_FAILS, newer) as server,
        reflecting(server) as running,
    ):
        await running.told.relisted()
        running.reflector._pause = for_ever
        ends.set()
        async with asyncio.timeout(PATIENCE_S):
            await paused.wait()
        await running.reflector.catch_up(SOON_S)

        assert running.names() == ["a@3", "=Pod", "-a(uid-a)", "b@11", "=Pod"]


async def test_a_list_that_began_before_does_not_count():
    """It is under way when the lease is taken, and is of before."""
    goes_on = asyncio.Event()

    async def slow(request):
        response = await watch(added(pod("a", 3)), then="open")(request)
        await goes_on.wait()
        await response.write(bookmark(9, ends_initial=True).encode())
        return await stay_open(request, response)

    newer = watch(added(pod("a", 3), pod("b", 8)), bookmark(12, ends_initial=True), then="hang")
    stored = page(pod("a", 3), pod("b", 8), version=12)
    async with misbehaving(slow, page(version=12), stored, newer) as server, reflecting(server) as running:
        await server.asked_for(1)
        catching_up = asyncio.create_task(running.reflector.catch_up(SOON_S))
        await asyncio.sleep(0)
        goes_on.set()
        await catching_up

        assert running.names() == ["a@3", "=Pod", "b@8", "=Pod"]


async def test_a_kind_that_the_server_does_not_have_is_not_waited_for():
    none = status(404, "NotFound", "the server could not find the requested resource")
    async with (
        misbehaving(none, none, none) as server,
        reflecting(server, kind=Codec().taint_rules) as running,
    ):
        await running.told.relisted()
        async with asyncio.timeout(PATIENCE_S):
            await running.reflector.catch_up(PATIENCE_S)
