"""Credentials over their life: rotated authorities, tokens and client certificates, plugins, impersonation, proxies."""

from __future__ import annotations

import base64
import json
import os
import select
import ssl
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from scheduler.kube import credentials as module
from scheduler.kube.api_requests import ApiClient
from scheduler.kube.credentials import Connection, CredentialsError
from scheduler.kube.outcomes import Accepted, Rejected
from tests.kube.certificates import Authority, openssl
from tests.kube.misbehaving import bookmark, misbehaving, reply, status, watch

CREDENTIAL = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}


def kubeconfig(folder: Path, *, user: dict[str, Any] | None = None, name: str = "config", **cluster: Any) -> Path:
    path = folder / name
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": user or {}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return path


async def asked(connection: Connection, *, times: int = 1) -> list[Any]:
    async with ApiClient(await connection.open()) as client:
        return [await client.send("GET", "/version") for _ in range(times)]


@pytest.fixture
def looks_each_time(monkeypatch):
    """Files are compared before each request."""
    monkeypatch.setattr(module, "RECHECK_S", 0.0)


@pytest.fixture
def looks_never(monkeypatch):
    """Only what happens to a request leads to another look."""
    monkeypatch.setattr(module, "RECHECK_S", 1e9)


class Rotating:
    """A server's certificate and the authority that clients are told of, each replaced on its own."""

    def __init__(self, folder: Path) -> None:
        self._authorities = [Authority(folder / name) for name in ("first", "second")]
        self.context = self._authorities[0].server().server_context()
        self.told = folder / "ca.crt"
        self.told.write_bytes(self._authorities[0].certificate.read_bytes())

    def rotate_server(self) -> None:
        signed = self._authorities[1].server()
        self.context.load_cert_chain(signed.certificate, signed.key)

    def tell(self) -> None:
        # As kubelets do: another file under the same name.
        new = self.told.with_name("new")
        new.write_bytes(self._authorities[1].certificate.read_bytes())
        new.replace(self.told)


@pytest.mark.parametrize("source", ["url", "kubeconfig", "kubeconfig-data", "pod"])
@pytest.mark.usefixtures("looks_never")
async def test_a_rotated_authority_is_read_again_when_the_certificate_is_not_trusted(tmp_path, monkeypatch, source):
    rotating = Rotating(tmp_path)
    async with misbehaving(*[reply({}, headers={"Connection": "close"})] * 9, tls=rotating.context) as server:

        def write_kubeconfig() -> Path:
            if source == "kubeconfig":
                return kubeconfig(tmp_path, **{"server": server.url, "certificate-authority": "ca.crt"})
            data = base64.b64encode(rotating.told.read_bytes()).decode()
            return kubeconfig(tmp_path, **{"server": server.url, "certificate-authority-data": data})

        match source:
            case "url":
                connection = Connection(url=server.url, ca=rotating.told)
            case "pod":
                monkeypatch.setattr(module, "SERVICE_ACCOUNT", tmp_path)
                (tmp_path / "token").write_text("t\n")
                monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
                monkeypatch.setenv("KUBERNETES_SERVICE_PORT", server.url.rsplit(":", 1)[1])
                connection = Connection(in_cluster=True)
            case _:
                connection = Connection(kubeconfig=write_kubeconfig())
        async with ApiClient(await connection.open()) as client:
            assert isinstance(await client.send("POST", "/api", b"{}"), Accepted)
            rotating.rotate_server()
            refused = await client.send("POST", "/api", b"{}")
            rotating.tell()
            write_kubeconfig()
            outcomes = [await client.send("POST", "/api", b"{}") for _ in range(2)]
            async with client.stream("/api/v1/pods?watch=true", inactivity_s=5) as response:
                assert response.status == 200

        assert isinstance(refused, Rejected)  # certain: nothing has been sent
        assert (refused.code, refused.is_retriable, refused.is_configuration) == (0, True, False)
        assert "certificate of 127.0.0.1" in refused.message
        assert "is not trusted: " in refused.message
        assert [type(one) for one in outcomes] == [Accepted] * 2
        assert len(server.asked) == 4


async def test_an_authority_that_kubectl_trusts_is_trusted_whatever_python_asks_of_one(tmp_path, monkeypatch):
    """It has no key usage, as that of many clusters. Python 3.13 made this the default, here all have it."""
    default = ssl.create_default_context

    def strict(*arguments, **named):
        context = default(*arguments, **named)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    rotating = Rotating(tmp_path)
    async with misbehaving(reply({}), tls=rotating.context) as server:
        monkeypatch.setattr(ssl, "create_default_context", strict)
        connection = Connection(url=server.url, ca=rotating.told)
        async with ApiClient(await connection.open()) as client:
            assert isinstance(await client.send("POST", "/api", b"{}"), Accepted)


@pytest.mark.usefixtures("looks_never")
async def test_a_certificate_that_stays_untrusted_is_not_asked_again_while_the_files_stay(tmp_path, monkeypatch):
    rotating = Rotating(tmp_path)
    ran = tmp_path / "ran"
    plugin = _plugin(tmp_path, f"echo >> {ran}; echo '{json.dumps(CREDENTIAL | {'status': {'token': 't'}})}'")
    async with misbehaving(tls=rotating.context) as server:
        rotating.rotate_server()
        path = kubeconfig(tmp_path, user={"exec": plugin}, server=server.url, **{"certificate-authority": "ca.crt"})
        outcomes = await asked(Connection(kubeconfig=path), times=5)

    assert [type(one) for one in outcomes] == [Rejected] * 5
    assert ran.read_text() == "\n"  # the plugin is nobody to ask about that


@pytest.mark.usefixtures("looks_each_time")
@pytest.mark.parametrize("source", ["kubeconfig", "token-file", "pod"])
async def test_a_token_in_a_file_is_read_again_before_it_is_refused(tmp_path, monkeypatch, source):
    authority = Authority(tmp_path / "ca")
    (tmp_path / "ca.crt").write_bytes(authority.certificate.read_bytes())
    token = tmp_path / "token"
    token.write_text("first\n")
    async with misbehaving(reply({}), reply({}), tls=authority.server().server_context()) as server:
        if source == "pod":
            monkeypatch.setattr(module, "SERVICE_ACCOUNT", tmp_path)
            monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
            monkeypatch.setenv("KUBERNETES_SERVICE_PORT", server.url.rsplit(":", 1)[1])
            connection = Connection(in_cluster=True)
        else:
            given = {"tokenFile": "token", "token": "less"} if source == "token-file" else {"token": "first"}
            cluster = {"server": server.url, "certificate-authority": "ca.crt"}
            path = kubeconfig(tmp_path, user=given, **cluster)
            connection = Connection(kubeconfig=path)
        async with ApiClient(await connection.open()) as client:
            await client.send("GET", "/version")
            token.write_text("second\n")
            if source == "kubeconfig":
                path.write_text(path.read_text().replace("first", "second"))
            await client.send("GET", "/version")

        assert [one.headers["Authorization"] for one in server.asked] == ["Bearer first", "Bearer second"]


@pytest.mark.usefixtures("looks_each_time")
async def test_a_file_that_is_half_written_changes_nothing_until_it_is_whole(tmp_path, caplog):
    async with misbehaving(*[reply({})] * 4) as server:
        path = kubeconfig(tmp_path, user={"token": "first"}, server=server.url)
        whole = path.read_text()
        async with ApiClient(await Connection(kubeconfig=path).open()) as client:
            path.write_text(whole[: len(whole) // 2])
            await client.send("GET", "/version")
            path.unlink()
            await client.send("GET", "/version")
            path.write_text(whole.replace("first", "second"))
            await client.send("GET", "/version")

        assert [one.headers["Authorization"] for one in server.asked] == [
            "Bearer first",
            "Bearer first",
            "Bearer second",
        ]
        assert "cannot be read again" in caplog.text


async def test_a_client_certificate_from_files_and_from_data(tmp_path):
    authority = Authority(tmp_path / "ca")
    client = authority.client()
    tls = authority.server().server_context(clients=authority.certificate)
    data = {
        "client-certificate-data": base64.b64encode(client.certificate.read_bytes()).decode(),
        "client-key-data": base64.b64encode(client.key.read_bytes()).decode(),
    }
    files = {"client-certificate": "ca/client.crt", "client-key": "ca/client.key"}
    cluster = {"certificate-authority": "ca/ca.crt"}
    async with misbehaving(reply({}), reply({}), tls=tls) as server:
        for user in (files, data):
            path = kubeconfig(tmp_path, user=user, server=server.url, **cluster)
            assert isinstance((await asked(Connection(kubeconfig=path)))[0], Accepted)


@pytest.mark.usefixtures("looks_each_time")
async def test_a_client_certificate_that_was_renewed_is_used(tmp_path):
    authority, other = Authority(tmp_path / "ca"), Authority(tmp_path / "other")
    old, new = other.client(), authority.client()
    tls = authority.server().server_context(clients=authority.certificate)
    names = {"client-certificate": "my.crt", "client-key": "my.key"}
    async with misbehaving(reply({}), tls=tls) as server:
        path = kubeconfig(tmp_path, user=names, server=server.url, **{"certificate-authority": "ca/ca.crt"})
        for signed in (old, new):
            (tmp_path / "my.crt").write_bytes(signed.certificate.read_bytes())
            (tmp_path / "my.key").write_bytes(signed.key.read_bytes())
            if signed is old:
                opened = await Connection(kubeconfig=path).open()
        async with ApiClient(opened) as client:
            assert isinstance(await client.send("GET", "/version"), Accepted)


async def test_an_encrypted_key_is_an_error_and_no_question(tmp_path):
    """OpenSSL would ask for its passphrase at the terminal, and wait."""
    client = Authority(tmp_path / "ca").client()
    encrypted = tmp_path / "encrypted.key"
    openssl("ec", "-aes256", "-passout", "pass:secret", "-in", client.key, "-out", encrypted)
    user = {"client-certificate": str(client.certificate), "client-key": str(encrypted)}
    with pytest.raises(CredentialsError, match='user "u": client certificate and key cannot be used'):
        await Connection(kubeconfig=kubeconfig(tmp_path, user=user, server="https://127.0.0.1:1")).open()


@pytest.mark.parametrize("cluster", [{"insecure-skip-tls-verify": True}, {"tls-server-name": "localhost"}])
async def test_what_a_cluster_says_about_its_certificate_is_done(tmp_path, cluster):
    authority = Authority(tmp_path / "ca")
    ca = {} if "insecure-skip-tls-verify" in cluster else {"certificate-authority": "ca/ca.crt"}
    async with misbehaving(reply({}), tls=authority.server().server_context()) as server:
        assert authority.certificate.exists()
        path = kubeconfig(tmp_path, server=server.url, **cluster, **ca)
        assert isinstance((await asked(Connection(kubeconfig=path)))[0], Accepted)


# -- exec plugins --


def _plugin(folder: Path, script: str, **more: Any) -> dict[str, Any]:
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return {"apiVersion": CREDENTIAL["apiVersion"], "command": "./plugin", "interactiveMode": "Never"} | more


def _answer(**given: Any) -> str:
    return f"echo '{json.dumps(CREDENTIAL | {'status': given})}'"


@pytest.mark.usefixtures("looks_each_time")
async def test_a_plugin_is_asked_again_before_its_answer_expires(tmp_path):
    soon = _answer(token="'$(wc -l < ran)'", expirationTimestamp="2000-01-01T00:00:00Z")
    plugin = _plugin(tmp_path, f"cd {tmp_path}; echo >> ran; {soon}")
    async with misbehaving(*[reply({})] * 3) as server:
        await asked(Connection(kubeconfig=kubeconfig(tmp_path, user={"exec": plugin}, server=server.url)), times=3)

        assert [one.headers["Authorization"] for one in server.asked] == ["Bearer 2", "Bearer 3", "Bearer 4"]


async def test_a_plugin_may_give_a_client_certificate_and_is_told_of_the_cluster(tmp_path):
    authority = Authority(tmp_path / "ca")
    client = authority.client()
    pem = {
        "clientCertificateData": client.certificate.read_text(),
        "clientKeyData": client.key.read_text(),
    }
    (tmp_path / "answer").write_text(json.dumps(CREDENTIAL | {"status": pem}))
    plugin = _plugin(
        tmp_path,
        f'cd {tmp_path}; echo "$KUBERNETES_EXEC_INFO$MINE$1" > told; cat answer',
        provideClusterInfo=True,
        env=[{"name": "MINE", "value": "|mine"}],
        args=["|first"],
    )
    tls = authority.server().server_context(clients=authority.certificate)
    async with misbehaving(reply({}), tls=tls) as server:
        cluster = {"server": server.url, "certificate-authority": "ca/ca.crt"}
        path = kubeconfig(tmp_path, user={"exec": plugin}, **cluster)
        assert isinstance((await asked(Connection(kubeconfig=path)))[0], Accepted)

        told, mine, first = (tmp_path / "told").read_text().strip().split("|")
        assert (mine, first) == ("mine", "first")
        assert json.loads(told)["spec"] == {
            "interactive": False,
            "cluster": {
                "server": server.url,
                "certificate-authority-data": base64.b64encode(authority.certificate.read_bytes()).decode(),
            },
        }


async def test_a_plugin_that_hangs_is_ended_with_all_that_it_started(tmp_path):
    child = tmp_path / "child"
    os.mkfifo(child)
    plugin = _plugin(tmp_path, f"sleep 1000 & echo $! > {child}; wait")
    path = kubeconfig(tmp_path, user={"exec": plugin}, server="http://127.0.0.1:1")
    reading = os.open(child, os.O_RDONLY | os.O_NONBLOCK)
    connection = Connection(kubeconfig=path, plugin_s_max=1.0)
    with pytest.raises(CredentialsError, match=r'user "u": exec: .*/plugin: the plugin did not answer within 1 s$'):
        await connection.open()
    pid = int(os.read(reading, 100))
    os.close(reading)

    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    # Killed, but on a busy machine it may not have noticed yet.
    assert select.select([watched], [], [], 30)[0], "it is still running"
    os.close(watched)


@pytest.mark.parametrize(
    ("plugin", "complaint"),
    [
        pytest.param(
            {"command": "no-such-plugin", "installHint": "get it from your cloud"},
            r"no-such-plugin: the plugin is not installed, or not on PATH\nget it from your cloud$",
            id="missing",
        ),
        pytest.param({"command": "./config"}, r"/config: Permission denied$", id="not-executable"),
        pytest.param("echo no login >&2; exit 3", "the plugin ended with 3: no login$", id="failed"),
        pytest.param("echo hello", "the plugin printed no ExecCredential: ", id="prints-text"),
        pytest.param(
            r"printf '\177\377\376'", "the plugin printed no ExecCredential, but binary data$", id="prints-binary"
        ),
        pytest.param(
            "head -c 100000 /dev/zero | tr '\\0' '['",
            "the plugin printed no ExecCredential: nested too deeply$",
            id="prints-depth",
        ),
        pytest.param("echo '[]'", "the plugin printed no ExecCredential with a status$", id="prints-a-list"),
        pytest.param(_answer(), "gave neither a token nor a client certificate$", id="gives-nothing"),
        pytest.param(_answer(token=3), "a token or certificate that is no text$", id="token-is-a-number"),
        pytest.param(
            _answer(clientCertificateData="x"),
            "one of clientCertificateData and clientKeyData without the other$",
            id="certificate-without-key",
        ),
        pytest.param(
            _answer(clientCertificateData="x", clientKeyData="y"),
            "client certificate and key cannot be used: ",
            id="certificate-that-is-none",
        ),
        pytest.param(
            _answer(token="t", expirationTimestamp="soon"), "expirationTimestamp that is no time", id="no-time"
        ),
        pytest.param(
            _answer(token="t").replace("/v1", "/v1beta1"),
            "answered in .*v1beta1, the kubeconfig says .*v1$",
            id="version",
        ),
    ],
)
async def test_a_plugin_that_cannot_be_used_is_named_with_what_it_said(tmp_path, plugin, complaint):
    given = (
        _plugin(tmp_path, plugin)
        if isinstance(plugin, str)
        else {"apiVersion": CREDENTIAL["apiVersion"], "interactiveMode": "Never"} | plugin
    )
    path = kubeconfig(tmp_path, user={"exec": given}, server="https://127.0.0.1:1")
    with pytest.raises(CredentialsError, match=complaint) as raised:
        await Connection(kubeconfig=path).open()
    assert 'user "u"' in str(raised.value)
    assert str(path) in str(raised.value)


async def test_a_plugin_that_must_ask_is_refused_without_a_terminal(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    plugin = _plugin(tmp_path, "exit 0", interactiveMode="Always")
    with pytest.raises(CredentialsError, match="interactiveMode: Always"):
        await Connection(kubeconfig=kubeconfig(tmp_path, user={"exec": plugin}, server="http://a")).open()


# kubernetes-asyncio 36.1 uses what Python 3.12 advises against.
@pytest.mark.filterwarnings(r"ignore:datetime\.datetime\.utc(fromtimestamp|now):DeprecationWarning")
async def test_an_auth_provider_is_asked_by_the_library_and_its_errors_name_it(tmp_path):
    def provider(**config: str) -> dict[str, Any]:
        return {"auth-provider": {"name": "oidc", "config": config}}

    claims = base64.urlsafe_b64encode(b'{"exp": 4102444800}').decode().rstrip("=")
    token = f"head.{claims}.signature"
    async with misbehaving(reply({})) as server:
        path = kubeconfig(tmp_path, user=provider(**{"id-token": token}), server=server.url)
        await asked(Connection(kubeconfig=path))
        assert server.asked[0].headers["Authorization"] == f"Bearer {token}"
    path = kubeconfig(tmp_path, user=provider(), server="http://127.0.0.1:1")
    with pytest.raises(CredentialsError, match='user "u": auth-provider: ConfigException: oidc: No valid id-token'):
        await Connection(kubeconfig=path).open()


# -- for whom, and which way --


async def test_impersonation_is_sent_with_every_request_and_watch(tmp_path):
    user = {
        "token": "t",
        "as": "system:serviceaccount:team:reader",
        "as-uid": "06f6ce97",
        "as-groups": ["system:serviceaccounts", "readers"],
        "as-user-extra": {"acme.com/project": ["one", "two"], "Reason (why)": ["test"]},
    }
    async with misbehaving(reply({}), watch(bookmark(1))) as server:
        path = kubeconfig(tmp_path, user=user, server=server.url)
        async with ApiClient(await Connection(kubeconfig=path).open()) as client:
            await client.send("POST", "/api", b"{}")
            async with client.stream("/api/v1/pods?watch=true", inactivity_s=5) as response:
                await response.content.read()

        for one in server.asked:
            assert one.all_headers("Impersonate-User") == ["system:serviceaccount:team:reader"]
            assert one.all_headers("Impersonate-Uid") == ["06f6ce97"]
            assert one.all_headers("Impersonate-Group") == ["system:serviceaccounts", "readers"]
            assert one.all_headers("Impersonate-Extra-acme.com%2Fproject") == ["one", "two"]
            assert one.all_headers("Impersonate-Extra-Reason%20%28why%29") == ["test"]


async def test_what_would_begin_another_header_is_not_sent():
    async with misbehaving() as server:
        for token, path in (("t", "/api HTTP/1.1\r\nX: y"), ("t\nX: y", "/api")):
            async with ApiClient(await Connection(url=server.url, token=token).open()) as client:
                outcome = await client.send("POST", path, b"{}")
                assert isinstance(outcome, Rejected)
                assert outcome.is_configuration

        assert server.asked == []


async def test_an_http_proxy_is_used(tmp_path):
    async with misbehaving(reply({})) as proxy:
        path = kubeconfig(tmp_path, server="http://apiserver.test:8080", **{"proxy-url": proxy.url})
        assert isinstance((await asked(Connection(kubeconfig=path)))[0], Accepted)
        assert proxy.asked[0].headers["Host"] == "apiserver.test:8080"
    outcome = (await asked(Connection(kubeconfig=path)))[0]
    assert isinstance(outcome, Rejected)
    assert outcome.message.startswith("cannot connect to the proxy 127.0.0.1:")


async def test_an_unknown_host_is_said_in_words():
    (outcome,) = await asked(Connection(url="https://no-such-host.invalid:6443"))

    assert isinstance(outcome, Rejected)
    assert outcome.message.startswith("cannot find host no-such-host.invalid: ")
    assert "Unknown error" not in outcome.message


async def test_a_server_that_speaks_no_tls_is_said_in_words():
    async with misbehaving() as server:
        (outcome,) = await asked(Connection(url=server.url.replace("http", "https")))

    assert isinstance(outcome, Rejected)
    assert "with TLS: wrong version number" in outcome.message


async def test_the_first_file_wins_and_paths_are_relative_to_their_file(tmp_path):
    async with misbehaving(status(200, "", "")) as server:
        (tmp_path / "one").mkdir()
        (tmp_path / "two").mkdir()
        (tmp_path / "two" / "token").write_text("of two")
        first = kubeconfig(tmp_path / "one", server=server.url)
        first.write_text(json.dumps(json.loads(first.read_text()) | {"users": []}))
        second = kubeconfig(tmp_path / "two", user={"tokenFile": "token"}, server="http://nowhere.invalid")
        second.write_text(second.read_text().replace('"current-context": "x"', '"current-context": "y"'))
        joined = os.pathsep.join([str(tmp_path / "missing"), str(first), str(second)])
        await asked(Connection(kubeconfig=joined))

        assert server.asked[0].headers["Authorization"] == "Bearer of two"


async def test_a_usual_kubeconfig_needs_no_client_library(tmp_path):
    """It costs 70 MiB, in every pod of the Deployment."""
    import asyncio

    path = kubeconfig(tmp_path, user={"token": "t"}, server="https://127.0.0.1:1")
    code = (
        "import asyncio, sys; from scheduler.kube.credentials import Connection;"
        f"asyncio.run(Connection(kubeconfig={str(path)!r}).open()); sys.exit('kubernetes_asyncio' in sys.modules)"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    assert await process.wait() == 0
