"""The reflector against a server that misbehaves."""

from __future__ import annotations

import asyncio
import gc
import random
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest

from scheduler.core.ground.inputs import Deleted, Observed, RelistFinished
from scheduler.kube.api_requests import ApiClient, Reply
from scheduler.kube.codec import Codec
from scheduler.kube.credentials import Connection
from scheduler.kube.watch import Reflector, WatchLimits
from scheduler.kube.watched_kind import LineSplitter
from tests.core.rig import Rig
from tests.kube.misbehaving import (
    Answer,
    Pauses,
    Reports,
    RotatingToken,
    Told,
    added,
    bookmark,
    drop,
    event,
    misbehaving,
    page,
    pod,
    reply,
    status,
    status_object,
    watch,
)

NEVER_HEALTHY = WatchLimits(healthy_s=1e9)  # only changes end a run of failures, whatever the machine's speed


class Running:
    def __init__(self, told, reports, pauses, reflector) -> None:
        self.told, self.reports, self.pauses, self.reflector = told, reports, pauses, reflector

    def names(self) -> list[str]:
        """The inputs as short texts."""
        return [short(one) for one in self.told.inputs]


def short(one) -> str:
    match one:
        case Observed("Pod", object=seen):
            return f"{seen.metadata.name}@{seen.metadata.resource_version}"
        case Deleted("Pod", key=key, uid=uid):
            return f"-{key.name}({uid})"
        case RelistFinished(kind=kind):
            return f"={kind}"
    raise AssertionError(one)


@asynccontextmanager
async def reflecting(server, *, credentials=None, limits=NEVER_HEALTHY, kind=None):
    told, reports, pauses = Told(), Reports(), Pauses()
    credentials = credentials or await Connection(url=server.url).open()
    async with ApiClient(credentials, pause=pauses) as client:
        kind = kind or Codec().pods
        reflector = Reflector(client, kind, told, reports, limits=limits, pause=pauses, rng=random.Random(7))
        task = asyncio.create_task(reflector.run())
        try:
            yield Running(told, reports, pauses, reflector)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_streamed_list_is_one_batch_that_ends_with_relist_finished():
    async with (
        misbehaving(watch(added(pod("a", 3), pod("b", 5)), bookmark(9, ends_initial=True), then="hang")) as server,
        reflecting(server) as running,
    ):
        await running.told.relisted()

        assert [[short(one) for one in batch] for batch in running.told.batches] == [["a@3", "b@5", "=Pod"]]
        assert server.asked[0].query["sendInitialEvents"] == "true"
        assert server.asked[0].query["resourceVersionMatch"] == "NotOlderThan"
        assert 300 <= int(server.asked[0].query["timeoutSeconds"]) <= 600
        assert server.asked[0].headers["Accept-Encoding"] == "identity"
        assert running.reflector.stats.is_synced
        assert running.reflector.stats.objects == 2


async def test_changes_after_the_list_are_told_as_they_come_and_unknown_types_ignored():
    async with (
        misbehaving(
            watch(
                added(pod("a", 3)),
                bookmark(9, ends_initial=True),
                event("ADDED", pod("b", 10)),
                event("MODIFIED", pod("a", 11)),
                event("SOMETHING_NEW", pod("a", 12)),
                event("DELETED", pod("b", 13)),
                then="hang",
            )
        ) as server,
        reflecting(server) as running,
    ):
        await running.told.until(lambda inputs: len(inputs) == 5)

        assert running.names() == ["a@3", "=Pod", "b@10", "a@11", "-b(uid-b)"]


async def test_stream_that_ends_resumes_at_the_bookmark_without_a_pause():
    async with (
        misbehaving(
            watch(added(pod("a", 3)), bookmark(9, ends_initial=True), bookmark(40)),
            watch(event("ADDED", pod("b", 41)), then="hang"),
        ) as server,
        reflecting(server) as running,
    ):
        await running.told.until(lambda inputs: len(inputs) == 3)

        assert running.names() == ["a@3", "=Pod", "b@41"]
        assert server.asked[1].query["resourceVersion"] == "40"
        assert "sendInitialEvents" not in server.asked[1].query
        assert running.pauses.seconds == []


async def test_chunk_cut_in_the_middle_of_a_line_loses_nothing():
    line = event("MODIFIED", pod("a", 12))
    async with (
        misbehaving(
            watch(
                added(pod("a", 3)), bookmark(9, ends_initial=True), event("ADDED", pod("b", 10)), line[:50], then="cut"
            ),
            watch(line, then="hang"),
        ) as server,
        reflecting(server) as running,
    ):
        await running.told.until(lambda inputs: len(inputs) == 4)

        assert running.names() == ["a@3", "=Pod", "b@10", "a@12"]
        assert server.asked[1].query["resourceVersion"] == "10"
        assert running.reflector.stats.relists == 1


async def test_a_lost_connection_is_let_go_without_the_garbage_collector():
    """It looks at what is as old as a watch after hours only, and each connection has buffers."""
    cut = [watch(event("MODIFIED", pod("a", 10 + number)), "{", then="cut") for number in range(8)]
    refused = [drop() for _ in range(8)]
    async with (
        misbehaving(
            watch(added(pod("a", 3)), bookmark(9, ends_initial=True), "{", then="cut"),
            *cut,
            *refused,
            watch(event("MODIFIED", pod("a", 30)), then="hang"),
        ) as server,
        reflecting(server) as running,
    ):
        gc.collect()
        gc.disable()
        kept = Reply, aiohttp.ClientError
        # Other tests' errors are there as long as somebody has them: a parametrization, a report, a module of aiohttp.
        before = [sum(isinstance(one, kind) for one in gc.get_objects()) for kind in kept]
        try:
            await running.told.until(lambda inputs: len(inputs) == 11)

            assert len(running.pauses.seconds) >= 10
            now = [sum(isinstance(one, kind) for one in gc.get_objects()) for kind in kept]
            assert all(count <= others + 2 for count, others in zip(now, before, strict=True)), (now, before)
        finally:
            gc.enable()


async def test_line_of_any_length_in_any_number_of_chunks():
    line = event("ADDED", pod("huge", 10, padding="x" * 5_000_000)).encode()
    chunks = [line[start : start + 65_521] for start in range(0, len(line), 65_521)]
    async with (
        misbehaving(
            watch(bookmark(9, ends_initial=True), *chunks, event("ADDED", pod("b", 11)), then="hang")
        ) as server,
        reflecting(server) as running,
    ):
        await running.told.until(lambda inputs: len(inputs) == 3)

        assert running.names() == ["=Pod", "huge@10", "b@11"]


@pytest.mark.parametrize(
    "expired",
    [
        pytest.param(watch(event("ERROR", status_object(410, "Expired", "too old resource version"))), id="error-line"),
        pytest.param(status(410, "Expired", "too old resource version"), id="http-410"),
    ],
)
async def test_expired_version_relists_and_tells_what_vanished_changed_and_was_replaced(expired):
    async with (
        misbehaving(
            watch(
                added(pod("gone", 3), pod("same", 4), pod("new", 5), pod("reborn", 6)), bookmark(9, ends_initial=True)
            ),
            expired,
            watch(
                added(pod("same", 4), pod("new", 15), pod("reborn", 16, uid="second")),
                bookmark(20, ends_initial=True),
                then="hang",
            ),
        ) as server,
        reflecting(server) as running,
    ):
        await running.told.relisted(2)

        assert [short(one) for one in running.told.batches[-1]] == [
            "-gone(uid-gone)",
            "new@15",
            "-reborn(uid-reborn)",
            "reborn@16",
            "=Pod",
        ]
        assert [one.query.get("sendInitialEvents") for one in server.asked] == ["true", None, "true"]


async def test_changes_before_an_error_line_in_the_same_chunk_are_told():
    async with (
        misbehaving(
            watch(
                bookmark(9, ends_initial=True)
                + event("ADDED", pod("a", 10))
                + event("ERROR", status_object(500, "InternalError", "etcd"))
            ),
            watch(then="hang"),
        ) as server,
        reflecting(server) as running,
    ):
        await server.asked_for(2)

        assert running.names() == ["=Pod", "a@10"]
        assert server.asked[1].query["resourceVersion"] == "10"


async def test_a_stale_relist_takes_nothing_newer_away():
    """The list is of revision 8: it neither ends pod b, seen at 12, nor brings the first life of pod c back."""
    async with (
        misbehaving(
            watch(
                added(pod("a", 3), pod("c", 4)),
                bookmark(9, ends_initial=True),
                event("ADDED", pod("b", 12)),
                event("DELETED", pod("c", 13)),
                event("ADDED", pod("c", 14, uid="second")),
            ),
            status(410, "Expired", "too old resource version"),
            watch(added(pod("a", 3), pod("c", 4)), bookmark(8, ends_initial=True), then="hang"),
        ) as server,
        reflecting(server) as running,
    ):
        await running.told.relisted(2)

        deletions = [(one.key.name, one.uid, one.revision) for one in running.told.inputs if isinstance(one, Deleted)]
        assert deletions == [("c", "uid-c", 13)]
        rig = Rig(is_listed=False)
        for given in running.told.inputs:
            rig.tell(given)
        assert {one.uid for one in rig.machine.store.pods.values()} == {"uid-a", "uid-b", "second"}


async def test_what_a_stale_relist_did_not_know_is_not_forgotten():
    """Pods b and c end while the watch is lost a second time: only who remembers them can tell (sim, seed 7310044)."""
    async with (
        misbehaving(
            watch(
                added(pod("a", 3), pod("c", 4), pod("d", 5)),
                bookmark(9, ends_initial=True),
                event("ADDED", pod("b", 12)),
                event("DELETED", pod("c", 13)),
                event("ADDED", pod("c", 14, uid="second")),
                event("DELETED", pod("d", 15)),
                event("ADDED", pod("d", 16, uid="second-d")),
            ),
            status(410, "Expired", "too old resource version"),
            watch(
                added(pod("a", 3), pod("c", 4), pod("d", 5)),
                bookmark(8, ends_initial=True),
                event("DELETED", pod("d", 15)),
            ),
            status(410, "Expired", "too old resource version"),
            watch(added(pod("a", 3)), bookmark(20, ends_initial=True), then="hang"),
        ) as server,
        reflecting(server) as running,
    ):
        await running.told.relisted(3)

        rig = Rig(is_listed=False)
        for given in running.told.inputs:
            rig.tell(given)
        assert {one.uid for one in rig.machine.store.pods.values()} == {"uid-a"}
        assert running.reflector.stats.objects == 1


async def test_old_objects_stay_until_a_broken_relist_is_complete():
    async with (
        misbehaving(
            watch(added(pod("a", 3)), bookmark(9, ends_initial=True)),
            status(410, "Expired", "too old"),
            watch(added(pod("b", 12)), then="cut"),
            watch(added(pod("a", 3), pod("b", 12)), bookmark(20, ends_initial=True), then="hang"),
        ) as server,
        reflecting(server) as running,
    ):
        await running.told.relisted(2)

        assert running.names() == ["a@3", "=Pod", "b@12", "=Pod"]


async def test_server_without_streamed_lists_is_listed_in_pages():
    async with (
        misbehaving(
            status(
                422, "Invalid", "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
            ),
            page(pod("a", 3), version=9, token="next/+="),
            page(pod("b", 5), version=9),
            watch(event("ADDED", pod("c", 10)), then="hang"),
        ) as server,
        reflecting(server) as running,
    ):
        await running.told.until(lambda inputs: len(inputs) == 4)

        assert running.names() == ["a@3", "b@5", "=Pod", "c@10"]
        assert server.asked[1].query == {"limit": "500"}
        assert server.asked[2].query == {"limit": "500", "continue": "next/+="}
        assert server.asked[3].query["resourceVersion"] == "9"


async def test_page_token_that_expired_starts_the_list_over():
    async with (
        misbehaving(
            status(400, "BadRequest", "unknown parameter"),
            page(pod("a", 3), version=9, token="next"),
            status(410, "Expired", "the provided continue parameter is too old"),
            page(pod("b", 15), version=19),
            watch(then="hang"),
        ) as server,
        reflecting(server) as running,
    ):
        await server.asked_for(5)

        assert running.names() == ["b@15", "=Pod"]


async def test_page_token_that_expired_is_followed_by_one_list_without_a_limit():
    """As client-go does: pages that take longer than the server remembers would expire again and again."""
    expired = status(410, "Expired", "the provided continue parameter is too old")
    async with (
        misbehaving(
            status(400, "BadRequest", "unknown parameter"),
            *(page(pod("a", 3), version=9, token="next"), expired),
            status(500, "InternalError", "that is too much at once"),
            *(page(pod("b", 15), version=19, token="more"), expired),
            page(pod("b", 15), pod("c", 16), version=29),
            watch(then="hang"),
        ) as server,
        reflecting(server) as running,
    ):
        await server.asked_for(8)

        assert running.names() == ["b@15", "c@16", "=Pod"]
        limited = {"limit": "500"}
        assert [one.query for one in server.asked[1:7]] == [
            *(limited, limited | {"continue": "next"}, {}),
            *(limited, limited | {"continue": "more"}, {}),
        ]
        assert server.asked[7].query["resourceVersion"] == "29"


def broken_off(*names: str) -> Answer:
    return watch(added(*(pod(name, 3) for name in names)), then="cut")


async def test_streamed_lists_that_break_off_are_followed_by_pages_and_by_a_watch():
    async with (
        misbehaving(
            *(broken_off("a", "b"), broken_off("a")),
            *(page(pod("a", 3), version=9, token="next"), page(pod("b", 5), version=9)),
            watch(event("ADDED", pod("c", 10)), then="hang"),
        ) as server,
        reflecting(server) as running,
    ):
        await running.told.until(lambda inputs: len(inputs) == 4)

        assert running.names() == ["a@3", "b@5", "=Pod", "c@10"]
        assert [one.query.get("sendInitialEvents") for one in server.asked] == ["true", "true", None, None, None]
        assert [one.query.get("continue") for one in server.asked] == [None, None, None, "next", None]
        assert server.asked[4].query["resourceVersion"] == "9"
        assert len(running.pauses.seconds) == 2


async def test_streamed_lists_that_break_off_are_tried_again_later():
    """Within `paged_s` the next list goes in pages at once, after it it is streamed."""
    limits = WatchLimits(healthy_s=1e9, paged_s=600)
    expired = status(410, "Expired", "too old resource version")
    async with (
        misbehaving(
            *(broken_off("a"), broken_off("a"), page(pod("a", 3), version=9)),
            *(expired, page(pod("a", 3), version=19)),
        ) as server,
        reflecting(server, limits=limits) as running,
    ):
        await running.told.relisted(2)
        await server.asked_for(6)
        assert [one.query.get("limit") for one in server.asked] == [None, None, "500", None, "500", None]

        running.reflector._streams_from_s -= 600  # so much later
        server.answer(watch(bookmark(29, ends_initial=True), then="hang"))
        running.reflector._must_list = True
        running.reflector._interruption.reschedule(0)
        await running.told.relisted(3)
        assert server.asked[6].query["sendInitialEvents"] == "true"


@pytest.mark.parametrize("trouble", [drop(), status(500, "InternalError", "etcd"), reply(b'{"items": [{"meta')])
async def test_a_page_that_fails_is_asked_for_again_and_not_those_before_it(trouble):
    async with (
        misbehaving(
            *(broken_off("a"), broken_off("a")),
            page(pod("a", 3), version=9, token="second"),
            *[trouble] * 4,
            page(pod("b", 4), version=9, token="third"),
            *[trouble] * 4,
            page(pod("c", 5), version=9),
            watch(then="hang"),
        ) as server,
        reflecting(server) as running,
    ):
        await running.told.relisted()

        assert running.names() == ["a@3", "b@4", "c@5", "=Pod"]
        tokens = [one.query.get("continue") for one in server.asked[2:13]]
        assert tokens == [None, *["second"] * 5, *["third"] * 5]
        first_of_third = running.pauses.seconds[2 + (len(running.pauses.seconds) - 2) // 2]
        assert first_of_third <= 1.2 * 0.8, "a page came: the pauses begin anew"


async def test_a_watch_that_breaks_after_progress_pauses_no_longer_each_time():
    """Whether a change came or a bookmark: the next request goes on from there."""
    async with (
        misbehaving(
            watch(bookmark(9, ends_initial=True), then="cut"),
            *[watch(event("MODIFIED", pod("a", 10 + number)), "{", then="cut") for number in range(8)],
            *[watch(bookmark(20 + number), "{", then="cut") for number in range(8)],
            watch(then="hang"),
        ) as server,
        reflecting(server) as running,
    ):
        await server.asked_for(18)

        assert server.asked[17].query["resourceVersion"] == "27"
        assert len(running.pauses.seconds) == 17
        assert max(running.pauses.seconds) <= 1.2 * 0.8


async def test_silence_before_the_initial_events_end_falls_back_to_a_list():
    limits = WatchLimits(inactivity_s=0.05, healthy_s=1e9)
    async with (
        misbehaving(watch(added(pod("a", 3)), then="hang"), page(pod("a", 3), version=9), watch(then="hang")) as server,
        reflecting(server, limits=limits) as running,
    ):
        await running.told.relisted()

        assert running.names() == ["a@3", "=Pod"]
        assert server.asked[1].query == {"limit": "500"}


async def test_silent_watch_is_cut_and_resumed():
    limits = WatchLimits(inactivity_s=0.05, healthy_s=1e9)
    async with (
        misbehaving(
            watch(bookmark(9, ends_initial=True), then="hang"),
            watch(event("ADDED", pod("a", 10)), then="hang"),
        ) as server,
        reflecting(server, limits=limits) as running,
    ):
        await running.told.until(lambda inputs: len(inputs) == 2)

        assert running.names() == ["=Pod", "a@10"]
        assert server.asked[1].query["resourceVersion"] == "9"


async def test_429_waits_as_long_as_the_server_says():
    async with (
        misbehaving(
            status(429, "TooManyRequests", "slow down", headers={"Retry-After": "17"}),
            watch(bookmark(9, ends_initial=True), then="hang"),
        ) as server,
        reflecting(server) as running,
    ):
        await running.told.relisted()

        assert running.pauses.seconds == [17.0]


async def test_429_while_paging_waits_as_long_as_the_server_says():
    async with (
        misbehaving(
            status(400, "BadRequest", "unknown parameter"),
            status(429, "TooManyRequests", "slow down", retryAfterSeconds=4),
            page(version=9),
            watch(then="hang"),
        ) as server,
        reflecting(server) as running,
    ):
        await running.told.relisted()

        assert running.pauses.seconds == [4.0]


async def test_failures_back_off_doubling_with_jitter_up_to_the_limit_and_start_over_after_success():
    bad = status(500, "InternalError", "etcd leader changed")
    async with (
        misbehaving(*[bad] * 9, watch(bookmark(9, ends_initial=True)), bad, watch(then="hang")) as server,
        reflecting(server) as running,
    ):
        await server.asked_for(12)

        wanted = [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30, 30, 0.8]
        assert len(running.pauses.seconds) == len(wanted)
        for pause, centre in zip(running.pauses.seconds, wanted, strict=True):
            assert 0.8 * centre <= pause <= 1.2 * centre


async def test_streams_that_end_at_once_again_and_again_are_not_hammered():
    async with (
        misbehaving(watch(bookmark(9, ends_initial=True)), watch(), watch(), watch(), watch(then="hang")) as server,
        reflecting(server) as running,
    ):
        await server.asked_for(5)

        assert len(running.pauses.seconds) == 2


async def test_refused_connection_is_survived():
    async with misbehaving() as server:
        url = server.url
    told, pauses = Told(), Pauses()
    async with ApiClient(await Connection(url=url).open()) as client:
        reflector = Reflector(client, Codec().pods, told, Reports(), pause=pauses)
        task = asyncio.create_task(reflector.run())
        await pauses.reached(3)
        assert not task.done()
        assert reflector.stats.failure is not None
        assert "connect" in reflector.stats.failure
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_expired_token_is_refreshed_once_and_the_request_sent_again():
    async with misbehaving(
        status(401, "Unauthorized", "Unauthorized"), watch(bookmark(9, ends_initial=True), then="hang")
    ) as server:
        credentials = RotatingToken(server.url, "old", "new")
        async with reflecting(server, credentials=credentials) as running:
            await running.told.relisted()

            assert [one.headers["Authorization"] for one in server.asked] == ["Bearer old", "Bearer new"]
            assert credentials.refreshes == 1
            assert running.pauses.seconds == []


async def test_missing_permission_is_reported_until_it_is_granted():
    message = 'pods is forbidden: User "dra" cannot watch resource "pods" in API group "" at the cluster scope'
    async with (
        misbehaving(
            status(403, "Forbidden", message),
            status(403, "Forbidden", message),
            watch(bookmark(9, ends_initial=True), then="hang"),
        ) as server,
        reflecting(server) as running,
    ):
        await running.told.relisted()

        assert running.reports.refused_ever == [("Pod", message), ("Pod", message)]
        assert running.reports.refusals == {}
        assert len(running.pauses.seconds) == 2


async def test_undecodable_pod_is_reported_and_the_others_go_on():
    bad = pod("bad", 4) | {"spec": {"containers": [{"name": 7}]}}
    async with (
        misbehaving(watch(added(pod("a", 3), bad, pod("b", 5)), bookmark(9, ends_initial=True), then="hang")) as server,
        reflecting(server) as running,
    ):
        await running.told.relisted()

        assert running.names() == ["a@3", "b@5", "=Pod"]
        assert running.reports.broken == [
            ("Pod", "default/bad", "Expected `str`, got `int` - at `$.spec.containers[0].name`")
        ]
        assert running.reflector.stats.undecodable == 1


async def test_version_the_server_cannot_read_leads_to_a_relist():
    async with (
        misbehaving(
            watch(bookmark(9, ends_initial=True)),
            status(400, "BadRequest", "invalid resource version"),
            watch(bookmark(3, ends_initial=True), then="hang"),
        ) as server,
        reflecting(server) as running,
    ):
        await running.told.relisted(2)

        assert server.asked[2].query["sendInitialEvents"] == "true"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_line_splitter_gives_the_same_lines_whatever_the_chunks(size):
    text = b"one\n\ntwo two\nthree\nunfinished"
    splitter = LineSplitter()
    lines = [line for start in range(0, len(text), size) for line in splitter.feed(text[start : start + size])]
    assert lines == [b"one", b"two two", b"three"]
    assert splitter.feed(b" business\n") == [b"unfinished business"]


# -- a kind that the server may not have -----------------------------------------------------------------------------


def rule(name: str, version: int) -> dict:
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": meta, "spec": {"deviceSelector": {}, "taint": {"key": "k", "effect": "NoSchedule"}}}


def rules_marked(version: int) -> str:
    return bookmark(version, ends_initial=True).replace('"spec": {"containers": null}', '"spec": {"taint": null}')


HAS_RULES = reply({"resources": [{"name": "deviceclasses"}, {"name": "devicetaintrules"}]})
HAS_NO_RULES = reply({"resources": [{"name": "deviceclasses"}]})
HAS_NO_VERSION = status(404, "NotFound", "the server could not find the requested resource")


def paths(server) -> list[str]:
    return [asked.path.removeprefix("/apis/resource.k8s.io/") for asked in server.asked]


def told_of_rules(running) -> list[str]:
    def text(one) -> str:
        match one:
            case Observed("DeviceTaintRule", key=key, revision=revision):
                return f"{key.name}@{revision}"
            case Deleted("DeviceTaintRule", key=key):
                return f"-{key.name}"
        return short(one)

    return [text(one) for one in running.told.inputs]


async def test_a_kind_is_watched_in_the_newest_version_that_is_served():
    async with (
        misbehaving(HAS_NO_RULES, HAS_RULES, watch(added(rule("a", 3)), rules_marked(9), then="hang")) as server,
        reflecting(server, kind=Codec().taint_rules) as running,
    ):
        await running.told.relisted()

        assert paths(server) == ["v1", "v1beta2", "v1beta2/devicetaintrules"]
        assert told_of_rules(running) == ["a@3", "=DeviceTaintRule"]
        assert running.reflector.stats.version == "v1beta2"


async def test_a_kind_that_is_not_served_is_an_empty_list_and_asked_for_again_until_it_appears():
    async with (
        misbehaving(
            *(HAS_NO_RULES, HAS_NO_VERSION, HAS_NO_VERSION),
            *(HAS_NO_RULES, HAS_NO_VERSION, HAS_NO_VERSION),
            *(HAS_RULES, watch(added(rule("a", 3)), rules_marked(9), then="hang")),
        ) as server,
        reflecting(server, kind=Codec().taint_rules) as running,
    ):
        await running.told.relisted(times=2)

        assert paths(server) == [*["v1", "v1beta2", "v1alpha3"] * 2, "v1", "v1/devicetaintrules"]
        assert told_of_rules(running) == ["=DeviceTaintRule", "a@3", "=DeviceTaintRule"]
        assert running.pauses.seconds == [60.0, 60.0]
        assert running.reports.refused_ever == []


async def test_a_version_that_disappears_under_the_watch_is_followed_to_another_or_withdrawn():
    """The first stream breaks, and its path is gone: the other version is found. Then that goes too."""
    async with (
        misbehaving(
            *(HAS_RULES, watch(added(rule("a", 3), rule("b", 4)), rules_marked(9), then="close"), HAS_NO_VERSION),
            *(HAS_NO_RULES, HAS_RULES, watch(added(rule("a", 3)), rules_marked(11), then="close"), HAS_NO_VERSION),
            *[HAS_NO_VERSION] * 3,
        ) as server,
        reflecting(server, kind=Codec().taint_rules) as running,
    ):
        await running.told.relisted(times=3)

        assert told_of_rules(running) == [
            *("a@3", "b@4", "=DeviceTaintRule"),
            *("-b", "=DeviceTaintRule"),
            *("-a", "=DeviceTaintRule"),
        ]
        assert running.reflector.stats.version is None


async def test_a_server_that_does_not_say_what_it_serves_is_asked_again_and_nothing_is_withdrawn():
    async with (
        misbehaving(
            status(503, "ServiceUnavailable", "not yet"),
            reply(b"<html>"),
            *(HAS_RULES, watch(added(rule("a", 3)), rules_marked(9), then="hang")),
        ) as server,
        reflecting(server, kind=Codec().taint_rules) as running,
    ):
        await running.told.relisted()

        assert told_of_rules(running) == ["a@3", "=DeviceTaintRule"]
