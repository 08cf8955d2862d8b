"""What becomes of a request: the classification table, and the same outcomes from real sockets."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from scheduler.kube.api_requests import ApiClient, Timeouts
from scheduler.kube.credentials import Connection, CredentialsError
from scheduler.kube.outcomes import MERGE_PATCH, Accepted, Conflicted, Rejected, Unknown, classify, decode_status
from tests.kube.misbehaving import (
    Pauses,
    RotatingToken,
    drop,
    hang,
    misbehaving,
    reply,
    status,
    status_object,
)

BINDING_422 = (
    'ResourceClaim.resource.k8s.io "c" is invalid: status.allocation: Forbidden: changing status.allocation or '
    'status.reservedFor requires resource="resourceclaims/binding", verb="patch" permission'
)
RBAC_403 = (
    'pods "a" is forbidden: User "system:serviceaccount:dra:dra" cannot create resource "pods/binding" in API group "" '
    'in the namespace "default"'
)


def body(code: int, reason: str, message: str) -> bytes:
    return json.dumps(status_object(code, reason, message)).encode()


@pytest.mark.parametrize(
    ("code", "reason", "message", "wanted"),
    [
        pytest.param(200, "", "", Accepted, id="ok"),
        pytest.param(201, "", "", Accepted, id="created"),
        pytest.param(409, "Conflict", "the object has been modified", Conflicted, id="conflict"),
        pytest.param(409, "AlreadyExists", "already exists", Conflicted, id="already-exists"),
        pytest.param(404, "NotFound", "not found", Rejected, id="gone"),
        pytest.param(400, "BadRequest", "bad", Rejected, id="bad-request"),
        pytest.param(422, "Invalid", "reservedFor: too many", Rejected, id="invalid"),
        pytest.param(413, "RequestEntityTooLarge", "too large", Rejected, id="too-large"),
        pytest.param(302, "", "", Rejected, id="redirects-are-not-followed"),
        pytest.param(500, "InternalError", "etcdserver: request timed out", Unknown, id="internal-error"),
        pytest.param(503, "ServiceUnavailable", "apiserver is shutting down", Unknown, id="unavailable"),
        pytest.param(504, "Timeout", "request did not complete", Unknown, id="gateway-timeout"),
        pytest.param(408, "RequestTimeout", "timeout", Unknown, id="request-timeout"),
    ],
)
def test_kind_of_outcome_by_code(code, reason, message, wanted):
    assert type(classify(code, body(code, reason, message))) is wanted


@pytest.mark.parametrize(
    ("code", "message", "is_configuration", "is_retriable"),
    [
        pytest.param(403, RBAC_403, True, False, id="rbac"),
        pytest.param(422, BINDING_422, True, False, id="resourceclaims-binding-is-refused-as-422"),
        pytest.param(422, "status.reservedFor: Too many: 257", False, False, id="another-422"),
        pytest.param(
            403,
            "pods is forbidden: unable to create new content: namespace is being terminated",
            False,
            False,
            id="terminating",
        ),
        pytest.param(403, 'pods "a" is forbidden: exceeded quota', False, False, id="admission-refuses"),
        pytest.param(401, "Unauthorized", False, True, id="credentials-may-be-renewed"),
        pytest.param(429, "too many requests", False, True, id="throttled"),
        pytest.param(404, "not found", False, False, id="gone"),
    ],
)
def test_rejections_tell_what_helps(code, message, is_configuration, is_retriable):
    outcome = classify(code, body(code, "Reason", message))

    assert outcome == Rejected(code, "Reason", message, is_configuration, is_retriable)


HANGS = (
    'Internal error occurred: failed calling webhook "claims.example.com": failed to call webhook: '
    'Post "https://127.0.0.1:1/?timeout=10s": context deadline exceeded'
)
DENIES = 'admission webhook "claims.example.com" denied the request: '


@pytest.mark.parametrize(
    ("code", "reason", "message", "wanted"),
    [
        pytest.param(500, "InternalError", HANGS, Rejected(500, "InternalError", HANGS), id="webhook-not-answering"),
        pytest.param(500, "Broken", DENIES + "no", Rejected(403, "Broken", DENIES + "no"), id="denied-as-500"),
        pytest.param(409, "", DENIES + "no", Rejected(403, "Forbidden", DENIES + "no"), id="denied-as-409"),
        pytest.param(404, "", DENIES + "no", Rejected(403, "Forbidden", DENIES + "no"), id="denied-as-404"),
        pytest.param(429, "", DENIES + "no", Rejected(403, "Forbidden", DENIES + "no"), id="denied-as-429"),
        pytest.param(
            403,
            "",
            DENIES + "User x cannot do it",
            Rejected(403, "Forbidden", DENIES + "User x cannot do it"),
            id="a-webhook-is-not-our-permission",
        ),
        pytest.param(504, "Timeout", HANGS, Unknown(f"HTTP 504: {HANGS}"), id="said-by-a-proxy"),
        pytest.param(
            500,
            "InternalError",
            "etcdserver: failed calling webhook",
            Unknown("HTTP 500: etcdserver: failed calling webhook"),
            id="said-elsewhere",
        ),
    ],
)
def test_what_admission_webhooks_stop_was_never_stored(code, reason, message, wanted):
    """They are asked before storage; the code of a denial is the webhook's own choice and means nothing."""
    assert classify(code, body(code, reason, message)) == wanted


def test_a_deletion_asks_webhooks_twice_and_the_second_time_something_is_stored():
    assert classify(500, body(500, "InternalError", HANGS), is_deletion=True) == Unknown(f"HTTP 500: {HANGS}")


async def test_a_denial_as_429_is_not_sent_again():
    denial = status(429, "", DENIES + "no")
    async with misbehaving(denial) as server, sending(server) as (client, pauses):
        assert await client.send("PATCH", "/api", b"{}") == Rejected(403, "Forbidden", DENIES + "no")
        assert len(server.asked) == 1
        assert pauses.seconds == []


def test_page_of_a_proxy_is_quoted():
    assert classify(502, b"<html>Bad Gateway</html>") == Unknown("HTTP 502: <html>Bad Gateway</html>")
    assert decode_status(b"\xff").message == "\ufffd"
    assert classify(404, b"") == Rejected(404, "NotFound", "HTTP 404")


@asynccontextmanager
async def sending(server, *, credentials=None, timeouts=None):
    pauses = Pauses()
    credentials = credentials or await Connection(url=server.url, token="secret").open()
    async with ApiClient(credentials, timeouts=timeouts or Timeouts(), pause=pauses) as client:
        yield client, pauses


async def test_request_arrives_as_it_was_meant():
    async with misbehaving(reply({"done": True})) as server, sending(server) as (client, _):
        outcome = await client.send("PATCH", "/api/v1/x?fieldManager=a%2Fb", b'{"a":1}', MERGE_PATCH)

        asked = server.asked[0]
        assert outcome == Accepted(200, b'{"done": true}')
        assert (asked.method, asked.path, asked.query) == ("PATCH", "/api/v1/x", {"fieldManager": "a/b"})
        assert asked.headers["Authorization"] == "Bearer secret"
        assert asked.headers["Content-Type"] == "application/merge-patch+json"
        assert asked.headers["Accept"] == "application/json"
        assert asked.body == {"a": 1}


async def test_a_server_below_a_path_is_asked_there():
    async with misbehaving(reply({})) as server:
        async with ApiClient(await Connection(url=f"{server.url}/k8s/clusters/c-1/").open()) as client:
            assert isinstance(await client.send("DELETE", "/api/v1/x?a=%2F"), Accepted)

        asked = server.asked[0]
        assert (asked.path, asked.query) == ("/k8s/clusters/c-1/api/v1/x", {"a": "/"})
        assert asked.headers["Content-Length"] == "0"


async def test_what_is_no_http_is_an_unknown_outcome():
    async def talk(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, ApiClient(await Connection(url=f"http://127.0.0.1:{port}").open()) as client:
        assert isinstance(await client.send("POST", "/api", b"{}"), Unknown)


async def test_connections_are_kept():
    async with misbehaving(*[reply({})] * 3) as server, sending(server) as (client, _):
        for _ in range(3):
            await client.send("GET", "/version")
        connector = client._connector  # the only witness of what is kept

        assert sum(map(len, connector._conns.values())) == 1


async def test_connection_refused_was_not_executed():
    async with misbehaving() as server:
        url = server.url
    async with ApiClient(await Connection(url=url).open()) as client:
        outcome = await client.send("POST", "/api", b"{}")

    assert isinstance(outcome, Rejected)
    assert (outcome.code, outcome.is_retriable, outcome.is_configuration) == (0, True, False)


@pytest.mark.parametrize("method", ["PATCH", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize("is_kept", [False, True], ids=["new", "kept"])
async def test_connection_lost_after_sending_is_unknown_and_not_repeated(method, is_kept):
    """aiohttp by itself repeats PUT and DELETE, and the second one is refused because of the first."""
    again = status(404, "NotFound", "gone")
    async with misbehaving(*[reply({})] * is_kept, drop(), again) as server, sending(server) as (client, _):
        if is_kept:
            await client.send("GET", "/version")
        outcome = await client.send(method, "/api", b"{}")

        assert isinstance(outcome, Unknown)
        assert "disconnected" in outcome.message
        assert len(server.asked) == 1 + is_kept


async def test_a_read_whose_connection_is_lost_is_repeated_once():
    async with misbehaving(drop(), reply({}), drop(), drop(), reply({})) as server, sending(server) as (client, _):
        assert isinstance(await client.send("GET", "/api"), Accepted)
        assert isinstance(await client.send("GET", "/api"), Unknown)
        assert len(server.asked) == 4


async def test_no_answer_in_time_is_unknown():
    async with misbehaving(hang()) as server, sending(server, timeouts=Timeouts(total_s=0.05)) as (client, _):
        outcome = await client.send("PATCH", "/api", b"{}")

        assert isinstance(outcome, Unknown)
        assert "Timeout" in outcome.message


async def test_throttled_request_waits_as_told_and_is_sent_again():
    throttled = status(429, "TooManyRequests", "slow down", headers={"Retry-After": "2"})
    async with misbehaving(throttled, throttled, reply({})) as server, sending(server) as (client, pauses):
        outcome = await client.send("POST", "/api", b"{}")

        assert isinstance(outcome, Accepted)
        assert pauses.seconds == [2.0, 2.0]


async def test_throttled_for_ever_is_a_retriable_rejection():
    throttled = status(429, "TooManyRequests", "slow down", headers={"Retry-After": "3600"})
    async with misbehaving(*[throttled] * 4) as server, sending(server) as (client, pauses):
        outcome = await client.send("POST", "/api", b"{}")

        assert isinstance(outcome, Rejected)
        assert outcome.is_retriable
        assert pauses.seconds == [10.0, 10.0, 10.0]


@asynccontextmanager
async def fenced(server, *, writes: int, credentials=None):
    """A client that may be asked for leave so many times before the lease is gone."""
    leave = iter([True] * writes)
    opened = credentials or await Connection(url=server.url).open()
    async with ApiClient(opened, pause=Pauses(), may_write=lambda: next(leave, False)) as client:
        yield client


NOT_SENT = Rejected(0, "NotLeading", "not sent: this scheduler does not hold its lease", is_retriable=True)


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
@pytest.mark.parametrize("writes", [pytest.param(0, id="before"), pytest.param(1, id="while-connecting")])
async def test_nothing_is_written_without_the_lease(method, writes):
    async with misbehaving(reply({})) as server, fenced(server, writes=writes) as client:
        assert await client.send(method, "/x", b"{}") == NOT_SENT

        assert server.asked == []
        assert isinstance(await client.send("GET", "/x"), Accepted)


async def test_a_lease_that_is_lost_while_a_connection_is_kept_is_noticed():
    async with misbehaving(reply({}), reply({})) as server, fenced(server, writes=3) as client:
        assert isinstance(await client.send("PATCH", "/x", b"{}"), Accepted)
        assert await client.send("PATCH", "/x", b"{}") == NOT_SENT

        assert len(server.asked) == 1


async def test_a_throttled_write_is_not_sent_again_without_the_lease():
    throttled = status(429, "TooManyRequests", "later", headers={"Retry-After": "1"})
    async with misbehaving(throttled, reply({})) as server, fenced(server, writes=2) as client:
        assert await client.send("PATCH", "/x", b"{}") == NOT_SENT

        assert len(server.asked) == 1


async def test_a_write_refused_with_401_is_not_sent_again_without_the_lease():
    unauthorized = status(401, "Unauthorized", "Unauthorized")
    async with misbehaving(unauthorized, reply({})) as server:
        credentials = RotatingToken(server.url, "old", "new")
        async with fenced(server, writes=2, credentials=credentials) as client:
            assert await client.send("PATCH", "/x", b"{}") == NOT_SENT

        assert len(server.asked) == 1


async def test_many_requests_refused_with_401_refresh_once():
    unauthorized = status(401, "Unauthorized", "Unauthorized")
    arrived = asyncio.Event()

    async def wait_for_all(request):
        server = request.app[next(iter(request.app))]
        if len(server.asked) == 3:
            arrived.set()
        await arrived.wait()
        return await unauthorized(request)

    async with misbehaving(*[wait_for_all] * 3, *[reply({})] * 3) as server:
        credentials = RotatingToken(server.url, "old", "new")
        async with sending(server, credentials=credentials) as (client, _):
            outcomes = await asyncio.gather(*(client.send("POST", "/api", b"{}") for _ in range(3)))

            assert [type(one) for one in outcomes] == [Accepted] * 3
            assert credentials.refreshes == 1


async def test_token_that_stays_refused_is_not_refreshed_for_ever():
    unauthorized = status(401, "Unauthorized", "Unauthorized")
    async with misbehaving(unauthorized, unauthorized) as server:
        credentials = RotatingToken(server.url, "old", "also old")
        async with sending(server, credentials=credentials) as (client, _):
            outcome = await client.send("POST", "/api", b"{}")

            assert outcome == Rejected(401, "Unauthorized", "Unauthorized", is_retriable=True)
            assert len(server.asked) == 2


async def test_static_token_that_is_refused_is_not_sent_twice():
    async with misbehaving(status(401, "Unauthorized", "Unauthorized")) as server, sending(server) as (client, _):
        outcome = await client.send("POST", "/api", b"{}")

        assert isinstance(outcome, Rejected)
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("connection", "message"),
    [
        (Connection(), "no API server given"),
        (Connection(kubeconfig="/nowhere/config"), "/nowhere/config: no such kubeconfig file"),
        (Connection(url="https://localhost", ca="/nowhere/ca.crt"), "certificate authority /nowhere/ca.crt"),
    ],
)
async def test_connection_that_cannot_be_set_up_says_why(connection, message):
    with pytest.raises(CredentialsError, match=message):
        await connection.open()


async def test_kubeconfig_gives_server_and_token(tmp_path):
    path = tmp_path / "config"
    path.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1/"}}],
                "users": [{"name": "u", "user": {"token": "first"}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    credentials = await Connection(kubeconfig=path).open()
    assert (credentials.url, credentials.authorization()) == ("http://127.0.0.1:1", "Bearer first")

    path.write_text(path.read_text().replace("first", "second"))
    assert await credentials.refresh(0)
    assert await credentials.refresh(0)
    assert (credentials.authorization(), credentials.generation) == ("Bearer second", 1)


async def test_kubeconfig_that_is_malformed_names_the_file(tmp_path):
    path = tmp_path / "config"
    path.write_text("clusters: []\nusers: []\ncontexts: []\ncurrent-context: missing\n")
    with pytest.raises(CredentialsError, match=f"{path}: .*missing"):
        await Connection(kubeconfig=path).open()


async def test_basic_authentication(tmp_path):
    path = tmp_path / "config"
    path.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
                "users": [{"name": "u", "user": {"username": "me", "password": "pw"}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    credentials = await Connection(kubeconfig=path).open()
    assert credentials.authorization() == "Basic bWU6cHc="


async def test_exec_plugin_is_asked_again_when_its_token_is_refused(tmp_path):
    answer = tmp_path / "answer.json"
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    answer.write_text(json.dumps(credential | {"status": {"token": "first"}}))
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "cat",
        "args": [str(answer)],
        "interactiveMode": "Never",
    }
    async with misbehaving(status(401, "Unauthorized", "Unauthorized"), reply({})) as server:
        path = tmp_path / "config"
        path.write_text(
            json.dumps(
                {
                    "clusters": [{"name": "c", "cluster": {"server": server.url}}],
                    "users": [{"name": "u", "user": {"exec": plugin}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )
        credentials = await Connection(kubeconfig=path).open()
        answer.write_text(json.dumps(credential | {"status": {"token": "second"}}))
        async with sending(server, credentials=credentials) as (client, _):
            outcome = await client.send("GET", "/version")

            assert isinstance(outcome, Accepted)
            assert [one.headers["Authorization"] for one in server.asked] == ["Bearer first", "Bearer second"]


async def test_credentials_that_cannot_be_refreshed_are_tried_again_later(tmp_path):
    async with misbehaving(status(401, "Unauthorized", "Unauthorized")) as server:
        path = tmp_path / "config"
        path.write_text(
            json.dumps(
                {
                    "clusters": [{"name": "c", "cluster": {"server": server.url}}],
                    "users": [{"name": "u", "user": {"token": "old"}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )
        credentials = await Connection(kubeconfig=path).open()
        path.unlink()
        async with sending(server, credentials=credentials) as (client, _):
            outcome = await client.send("POST", "/api", b"{}")

            assert isinstance(outcome, Rejected)
            assert (outcome.reason, outcome.is_retriable) == ("NoCredentials", True)


def test_token_is_not_shown():
    assert "secret" not in repr(Connection(url="https://localhost", token="secret"))


def test_find_prefers_the_given_file_then_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", "/from/environment")
    assert Connection.find("/given", "ctx") == Connection(kubeconfig="/given", context="ctx")
    assert Connection.find() == Connection(kubeconfig="/from/environment")

    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(CredentialsError, match="--kubeconfig"):
        Connection.find()
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text("{}")
    assert Connection.find() == Connection(kubeconfig=tmp_path / ".kube" / "config")
