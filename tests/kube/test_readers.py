"""Who may read metrics: what the API server is asked, how often, and what is answered when it does not answer."""

from __future__ import annotations

import asyncio
import gc
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.kube.outcomes import Accepted, Rejected, Unknown
from scheduler.kube.readers import ACCESS_REVIEWS, TOKEN_REVIEWS, UNAUTHORIZED, Readers, ReviewLimits, _bearer_token
from tests.patience import PATIENCE_S

ALICE = {"username": "alice", "uid": "7", "groups": ["a", "b"], "extra": {"k": ["v"]}}


class ApiServer:
    """Answers reviews; counts them."""

    def __init__(self, users=None, may=(), *, fails=()):
        self.users = {"good": ALICE} if users is None else users
        self.may = set(may)
        self.fails = dict(fails)
        self.asked: list[tuple[str, dict]] = []
        self.under_way = self.most_under_way = 0

    async def send(self, method, path, body):
        assert method == "POST"
        spec = json.loads(body)["spec"]
        self.asked.append((path, spec))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        if path in self.fails:
            failing = self.fails[path]
            return failing(body) if callable(failing) else failing
        if path == TOKEN_REVIEWS:
            user = self.users.get(spec["token"])
            status = {"authenticated": True, "user": user} if user else {"error": "invalid bearer token"}
        else:
            assert path == ACCESS_REVIEWS
            status = {"allowed": (spec["user"], spec["nonResourceAttributes"]["path"]) in self.may}
        return Accepted(201, json.dumps({"kind": "x", "status": status}).encode())

    def count(self, path):
        return sum(one == path for one, _ in self.asked)


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


def readers_of(server, clock=None, **limits):
    return Readers(server, server, limits=ReviewLimits(**{"place_s": 0.0} | limits), clock=clock or Clock())


async def ask(readers, token="good", path="/metrics", verb="get", address="10.0.0.1"):
    refused = await readers.refusal(f"Bearer {token}", verb, path, address)
    return None if refused is None else refused.code


async def test_the_api_server_is_told_who_asks_for_what():
    server = ApiServer(may=[("alice", "/metrics")])

    assert await ask(readers_of(server)) is None
    assert server.asked == [
        (TOKEN_REVIEWS, {"token": "good"}),
        (
            ACCESS_REVIEWS,
            {
                "user": "alice",
                "uid": "7",
                "groups": ["a", "b"],
                "extra": {"k": ["v"]},
                "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
            },
        ),
    ]


async def test_a_denial_wins_over_what_is_allowed():
    denied = Accepted(201, b'{"status": {"allowed": true, "denied": true}}')

    assert await ask(readers_of(ApiServer(fails={ACCESS_REVIEWS: denied}))) == 403


async def test_refusals_are_in_upstreams_words():
    readers = readers_of(ApiServer(users={"good": {"username": 'a<b"c'}}))
    unknown = await readers.refusal("Bearer bad", "get", "/metrics", "a")
    refused = await readers.refusal("Bearer good", "get", "/metrics", "a")

    assert json.loads(unknown.body) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }
    assert json.loads(refused.body) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'forbidden: User "a&lt;b\\"c" cannot get path "/metrics"',
        "reason": "Forbidden",
        "details": {},
        "code": 403,
    }


@pytest.mark.parametrize(
    ("header", "token"),
    [
        (None, None),
        ("", None),
        ("Bearer", None),
        ("Bearer ", None),
        ("Bearer  good", None),  # two spaces: upstream ignores it
        ("Basic Z29vZA==", None),
        ("bEARER good", "good"),
        ("  Bearer good  ", "good"),
        ("Bearer good more", "good"),
    ],
)
def test_bearer_tokens_are_read_as_upstream_reads_them(header, token):
    assert _bearer_token(header) == token


@pytest.mark.parametrize("header", [None, "Basic Z29vZA==", "Bearer ", "Bearer " + "x" * 8001])
async def test_without_a_token_or_with_a_huge_one_nobody_is_asked(header):
    server = ApiServer()

    assert await readers_of(server).refusal(header, "get", "/metrics", "a") is UNAUTHORIZED
    assert server.asked == []


@given(st.text(max_size=30) | st.text("Bearer \udcff\x00é", max_size=30).map(lambda text: f"Bearer {text}"))
def test_no_header_gets_in(header):
    async def asked():
        return await Readers(server, server, clock=Clock()).refusal(header, "get", "/metrics", "a")

    server = ApiServer(users={})
    assert asyncio.run(asked()) is not None


async def test_answers_are_remembered_for_ten_seconds():
    server, clock = ApiServer(may=[("alice", "/metrics")]), Clock()
    readers = readers_of(server, clock)

    for token, code in (("good", None), ("bad", 401)):
        clock.now_s, server.asked[:] = 0.0, []
        for clock.now_s in (0.0, 5.0, 9.9):
            assert await ask(readers, token) == code
        assert server.count(TOKEN_REVIEWS) == 1
        clock.now_s = 10.0
        assert await ask(readers, token) == code
        assert server.count(TOKEN_REVIEWS) == 2


async def test_a_right_that_is_taken_away_is_gone_within_ten_seconds():
    server, clock = ApiServer(may=[("alice", "/metrics")]), Clock()
    readers = readers_of(server, clock)
    assert await ask(readers) is None
    server.may.clear()
    clock.now_s = 10.0

    assert await ask(readers) == 403


async def test_each_path_and_verb_is_a_question_of_its_own():
    server = ApiServer(may=[("alice", "/metrics")])
    readers = readers_of(server)

    assert await ask(readers) is None
    assert await ask(readers, path="/configz") == 403
    assert await ask(readers, verb="head") is None
    assert (server.count(TOKEN_REVIEWS), server.count(ACCESS_REVIEWS)) == (1, 3)


async def test_who_asks_at_once_with_one_token_shares_a_review():
    server = ApiServer(may=[("alice", "/metrics")])
    readers = readers_of(server)

    assert await asyncio.gather(*(ask(readers) for _ in range(50))) == [None] * 50
    assert (server.count(TOKEN_REVIEWS), server.count(ACCESS_REVIEWS)) == (1, 1)


async def test_one_address_has_one_review_under_way_and_all_together_a_few():
    server = ApiServer()
    readers = readers_of(server, at_once=3)

    await asyncio.gather(*(ask(readers, f"bad-{n}") for n in range(20)))
    assert server.most_under_way == 1
    await asyncio.gather(*(ask(readers, f"bad-{n}", address=f"10.0.1.{n}") for n in range(20, 40)))
    assert server.most_under_way == 3
    assert server.count(TOKEN_REVIEWS) == 40
    assert dict(readers._addresses) == {}


async def test_made_up_tokens_are_asked_about_at_a_bounded_rate():
    """Each review takes its place for a while, however quickly it is answered: 2 places of 50 ms are 40 a second."""
    server = ApiServer()
    readers = readers_of(server, at_once=2, place_s=0.05)
    loop = asyncio.get_running_loop()
    begun_s = loop.time()

    await asyncio.gather(*(ask(readers, f"bad-{n}", address=f"10.0.1.{n}") for n in range(12)))
    # Six rounds, of which the last does not wait for its end: it cannot be quicker, only slower.
    assert loop.time() - begun_s >= 0.05 * 5 * 0.9


async def test_a_crowd_of_one_address_does_not_keep_another_one_waiting():
    server = ApiServer(may=[("alice", "/metrics")])
    readers = readers_of(server, at_once=2, place_s=0.02)
    crowd = [asyncio.create_task(ask(readers, f"bad-{n}")) for n in range(50)]
    await asyncio.sleep(0)

    assert await ask(readers, address="10.0.0.2") is None
    assert server.count(TOKEN_REVIEWS) <= 5
    while crowd:
        gone = crowd.pop()
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
    del gone  # its traceback refers to the lock
    gc.collect()
    assert dict(readers._addresses) == {}


async def test_who_goes_away_gives_the_place_back():
    server = ApiServer(may=[("alice", "/metrics")])
    readers = readers_of(server, at_once=1)
    for n in range(5):
        gone = asyncio.create_task(ask(readers, f"bad-{n}"))
        for _ in range(n):
            await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)

    async with asyncio.timeout(PATIENCE_S):
        assert await ask(readers) is None


async def test_what_is_remembered_is_bounded_and_holds_no_token():
    server = ApiServer()
    readers = readers_of(server, remembered_max=10)

    for n in range(100):
        await ask(readers, f"secret-{n}")
    assert len(readers._users._answers) == 10
    assert "secret" not in repr(readers._users)


@pytest.mark.parametrize(
    ("path", "answer", "code"),
    [
        pytest.param(TOKEN_REVIEWS, Rejected(0, "NoConnection", "cannot connect"), 401, id="who-down"),
        pytest.param(TOKEN_REVIEWS, Unknown("TimeoutError"), 401, id="who-slow"),
        pytest.param(TOKEN_REVIEWS, Rejected(403, "Forbidden", "no"), 401, id="who-forbidden"),
        pytest.param(TOKEN_REVIEWS, Accepted(200, b"<html>"), 401, id="who-a-page"),
        pytest.param(TOKEN_REVIEWS, Accepted(200, b'{"status":{"authenticated":"yes"}}'), 401, id="who-a-text"),
        pytest.param(TOKEN_REVIEWS, Accepted(200, b'{"status":{}}'), 401, id="who-nothing"),
        pytest.param(ACCESS_REVIEWS, Rejected(0, "NoConnection", "cannot connect"), 500, id="may-down"),
        pytest.param(ACCESS_REVIEWS, Accepted(200, b"{}"), 500, id="may-nothing"),
        pytest.param(ACCESS_REVIEWS, Accepted(200, b'{"status":{}}'), 403, id="may-empty"),
    ],
)
async def test_without_an_answer_nobody_reads_and_nothing_is_remembered(path, answer, code, caplog):
    server = ApiServer(may=[("alice", "/metrics")], fails={path: answer})
    readers = readers_of(server)

    assert await ask(readers) == code
    assert await ask(readers) == code
    assert len([one for one in caplog.records if one.levelno >= logging.WARNING]) <= 1  # said once
    if b'"status":' not in getattr(answer, "body", b""):
        server.fails.clear()
        assert await ask(readers) is None


@pytest.mark.parametrize("path", [TOKEN_REVIEWS, ACCESS_REVIEWS])
async def test_a_proxy_that_sends_the_request_back_puts_no_token_into_log_or_answer(path, caplog):
    """The message of an unknown reply is its text, and that text may be what was sent."""
    caplog.set_level(logging.DEBUG)
    echo = {path: lambda body: Rejected(400, "BadRequest", f"{body.decode()} Authorization: Bearer marked-token")}
    server = ApiServer(users={"marked-token": ALICE}, fails=echo)
    refused = await readers_of(server).refusal("Bearer marked-token", "get", "/metrics", "a")

    assert refused is not None
    assert b"marked-token" not in refused.body
    assert "cannot find out" in caplog.text
    assert "marked-token" not in caplog.text
