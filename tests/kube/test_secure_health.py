"""The health port with TLS: who gets what, and that a crowd before its handshakes is as limited as one behind them."""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import uvloop

from scheduler.config import Config, Serving
from scheduler.kube.certificates import ServerCertificate
from scheduler.kube.credentials import Connection
from scheduler.kube.health import HealthLimits, HealthServer
from scheduler.kube.outcomes import Rejected
from scheduler.kube.readers import TOKEN_REVIEWS
from scheduler.kube.serving import ServingError, is_secure, serve
from tests.kube.certificates import Authority
from tests.kube.test_health import cut_of, is_cut
from tests.kube.test_readers import ApiServer, readers_of
from tests.patience import PATIENCE_S

CLIENT = ssl.create_default_context()
CLIENT.check_hostname, CLIENT.verify_mode = False, ssl.CERT_NONE
ANSWERS = {
    "checks_alive": dict,
    "checks_ready": dict,
    "notes_ready": list,
    "metrics": lambda: (b"metrics\n", "text/plain"),
}
CONFIGURATION = {"configuration": lambda: b"{}"}


@pytest.fixture(scope="module")
def certificate():
    return ServerCertificate()


@asynccontextmanager
async def serving(certificate, api=None, **given):
    """`given`: limits, and other answers."""
    api = ApiServer(may=[("alice", "/metrics")]) if api is None else api
    answers = {name: given.pop(name, answer) for name, answer in (ANSWERS | CONFIGURATION).items()}
    limits = HealthLimits(**{"handshake_gap_s": 0.0} | given)
    options = {"tls": certificate.context, "readers": readers_of(api), "limits": limits}
    async with HealthServer("127.0.0.1", 0, **answers, **options) as server:
        yield server


async def ask(server, path="/livez", token=None, source=None):
    head = f"Authorization: Bearer {token}\r\n" if token is not None else ""
    async with asyncio.timeout(PATIENCE_S):
        local = (source, 0) if source else None
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=CLIENT, local_addr=local)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: h\r\n{head}Connection: close\r\n\r\n".encode())
            answer = (await reader.read()).decode()
        finally:
            writer.close()
        return int(answer.split()[1]), answer.partition("\r\n\r\n")[2]


async def test_probes_are_for_everybody_and_the_rest_for_those_who_may(certificate):
    async with serving(certificate) as server:
        for path in ("/livez", "/healthz", "/readyz"):
            assert await ask(server, path) == (200, "ok\n")
        assert (await ask(server, "/metrics"))[0] == 401
        assert (await ask(server, "/metrics", "bad"))[0] == 401
        assert await ask(server, "/metrics", "good") == (200, "metrics\n")
        assert (await ask(server, "/configz"))[0] == 401
        assert (await ask(server, "/configz", "good"))[0] == 403
        assert (await ask(server, "/%6detrics"))[0] == 401
        for path in ("/metrics/", "//metrics", "/livez/../metrics", "/debug/pprof"):
            assert (await ask(server, path))[1] != "metrics\n"


TROUBLED = {
    "checks_alive": lambda: {"machine": []},
    "checks_ready": lambda: {"lease": [], "requests": ["binding Pod secret/a fails: quota of 3"]},
    "notes_ready": lambda: ["waiting for the lease kube-system/dra, held by host-7"],
}
NAMES = "[+]ping ok\n[+]machine ok\n[+]lease ok\n[-]requests failed: reason withheld\nreadyz check failed\n"
LINES = "binding Pod secret/a fails: quota of 3\nwaiting for the lease kube-system/dra, held by host-7\n"


async def test_a_verdicts_reasons_are_for_those_who_may_read_metrics(certificate):
    """They name claims, namespaces and who holds the lease, and may quote what the API server said."""
    api = ApiServer(may=[("alice", "/metrics")])
    async with serving(certificate, api, **TROUBLED) as server:
        assert await ask(server, "/readyz") == (503, NAMES)
        assert await ask(server, "/readyz?verbose") == (503, NAMES)
        assert api.asked == []  # a probe is answered without the API server
        assert await ask(server, "/readyz", "bad") == (503, NAMES)
        assert await ask(server, "/readyz", "good") == (503, LINES)
        assert await ask(server, "/livez") == (200, "ok\n")
        assert await ask(server, "/livez?verbose") == (200, "[+]ping ok\n[+]machine ok\nlivez check passed\n")
    async with serving(certificate, ApiServer(may=[("alice", "/readyz")]), **TROUBLED) as server:
        assert await ask(server, "/readyz", "good") == (503, NAMES)
    failed = {"checks_alive": lambda: {"machine": ["the machine failed: claim a/b"], "api-server": []}}
    async with serving(certificate, **failed) as server:
        names = "[+]ping ok\n[-]machine failed: reason withheld\n[+]api-server ok\n"
        assert await ask(server, "/livez") == (503, names + "livez check failed\n")
        assert await ask(server, "/healthz") == (503, names + "healthz check failed\n")
        assert await ask(server, "/readyz") == (503, names + "readyz check failed\n")


async def test_operations_md_shows_what_is_answered(certificate):
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    for_all, for_readers = re.findall(r"^\$ curl -sk .*?/readyz.*?\n(.*?)(?=\$ |```)", page, re.MULTILINE | re.DOTALL)
    checks = {
        "checks_alive": lambda: {"machine": [], "api-server": []},
        "checks_ready": lambda: {"lease": [], "watches": [for_readers.rstrip()], "permissions": [], "requests": []},
    }
    async with serving(certificate, **checks) as server:
        assert await ask(server, "/readyz?verbose") == (503, for_all)
        assert await ask(server, "/readyz", "good") == (503, for_readers)


async def test_notes_of_one_that_is_ready_are_withheld_too(certificate):
    async with serving(certificate, **TROUBLED | {"checks_ready": dict}) as server:
        assert await ask(server, "/readyz") == (200, "ok\n")
        assert (await ask(server, "/readyz", "good"))[1] == "ok\n" + LINES.partition("\n")[2]


async def test_reasons_are_withheld_while_the_api_server_does_not_say_who_asks(certificate):
    api = ApiServer(fails={TOKEN_REVIEWS: Rejected(0, "NoConnection", "cannot connect")})
    async with serving(certificate, api, **TROUBLED) as server:
        assert await ask(server, "/readyz", "good") == (503, NAMES)


async def test_without_the_api_server_probes_answer_and_metrics_do_not(certificate):
    api = ApiServer(fails={TOKEN_REVIEWS: Rejected(0, "NoConnection", "cannot connect")})
    async with serving(certificate, api) as server:
        assert await ask(server) == (200, "ok\n")
        assert (await ask(server, "/metrics", "good"))[0] == 401


async def test_what_may_be_read_by_all_can_be_set(certificate):
    options = {"tls": certificate.context, "readers": readers_of(ApiServer())}
    async with HealthServer("127.0.0.1", 0, **ANSWERS, **CONFIGURATION, **options, always_allowed=["/met*"]) as server:
        assert (await ask(server, "/metrics"))[0] == 200
        assert (await ask(server, "/configz"))[0] == 401
        assert (await ask(server, "/livez"))[0] == 401
    options["always_allowed"] = ["/*"]
    async with HealthServer("127.0.0.1", 0, **ANSWERS | CONFIGURATION | TROUBLED, **options) as server:
        assert await ask(server, "/readyz") == (503, LINES)


@pytest.mark.parametrize(
    ("text", "stay"),
    [
        pytest.param(b"", 5, id="silent"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01", 5, id="half-a-hello"),
        pytest.param(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n", 0, id="no-tls"),
    ],
)
async def test_connections_without_a_handshake_count(certificate, text, stay):
    """Python's servers count a connection when its handshake is over, and wait a minute for it."""
    async with serving(certificate, connections_max=8, of_one_address_max=5, head_s=1000.0) as server:
        taken = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(50)]
        for _, writer in taken:
            writer.write(text)
        assert sum(await cut_of(taken, 50 - stay)) == 50 - stay
        assert await ask(server, source="127.0.0.2") == (200, "ok\n")
        for _, writer in taken:
            writer.transport.abort()


async def test_a_handshake_that_does_not_come_in_time_is_cut_and_gives_its_place_back(certificate):
    async with serving(certificate, connections_max=1, head_s=0.5) as server:
        for tls in (None, CLIENT):  # before its handshake, and behind it
            silent, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=tls)
            assert await is_cut(silent)
            writer.close()
        assert await ask(server) == (200, "ok\n")


async def test_handshakes_are_begun_at_a_bounded_rate(certificate, monkeypatch):
    begun_s = []
    async with serving(certificate, handshake_gap_s=0.05) as server:
        loop = asyncio.get_running_loop()
        real = loop.connect_accepted_socket

        def connect(protocol, accepted, **options):
            begun_s.append(loop.time())
            return real(protocol, accepted, **options)

        monkeypatch.setattr(loop, "connect_accepted_socket", connect, raising=False)
        await asyncio.gather(*(ask(server) for _ in range(6)))
    # It cannot be quicker, only slower.
    assert begun_s[-1] - begun_s[0] >= 0.05 * 5 * 0.9


def test_it_works_on_the_loop_that_the_scheduler_runs_on(certificate):
    async def main():
        async with serving(certificate) as server, aiohttp.ClientSession() as session:
            url = f"https://127.0.0.1:{server.port}"
            for _ in range(3):  # one connection, used again
                async with session.get(f"{url}/livez", ssl=CLIENT) as answer:
                    assert (answer.status, await answer.text()) == (200, "ok\n")
            headers = {"Authorization": "Bearer good"}
            async with session.get(f"{url}/metrics", ssl=CLIENT, headers=headers) as answer:
                assert answer.status == 200
            silent = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(200)]
            assert (await ask(server, source="127.0.0.2"))[0] == 200
            for _, writer in silent:
                writer.transport.abort()

    uvloop.run(main())


async def test_a_client_that_goes_away_stops_waiting_for_its_review(certificate):
    asking, gone = asyncio.Event(), asyncio.Event()

    class Slow(ApiServer):
        async def send(self, method, path, body):
            asking.set()
            try:
                await asyncio.Event().wait()
            finally:
                gone.set()

    async with asyncio.timeout(PATIENCE_S), serving(certificate, Slow()) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=CLIENT)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer t\r\n\r\n")
        await asking.wait()
        writer.transport.abort()
        await gone.wait()


@pytest.mark.parametrize(
    ("settings", "secure"),
    [
        ({}, False),
        ({"health_address": "127.0.0.1"}, False),
        ({"health_address": "::1"}, False),
        ({"health_address": "localhost"}, False),
        ({"health_address": "0.0.0.0"}, True),
        ({"health_address": "::"}, True),
        ({"health_address": "10.0.0.1"}, True),
        ({"health_address": "example.com"}, True),
        ({"serving": Serving(security="secure")}, True),
        ({"serving": Serving(cert_dir="/d")}, True),
        ({"serving": Serving(security="plain")}, False),
    ],
)
def test_only_loopback_is_served_plainly(settings, secure):
    assert is_secure(Config(**settings)) is secure


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.0.0.1", "::ffff:10.0.0.1", "localhost.example.com"])
async def test_plain_for_others_is_refused(address):
    config = Config(health_address=address, health_port=0, serving=Serving(security="plain"))
    with pytest.raises(ServingError, match="is for loopback addresses only"):
        async with serve(config, None, ANSWERS):
            raise AssertionError("not reached")


async def test_serving_with_a_given_certificate(tmp_path):
    signed = Authority(tmp_path / "a").server()
    given = Serving(tls_cert_file=str(signed.certificate), tls_private_key_file=str(signed.key))
    credentials = await Connection(url="http://127.0.0.1:1").open()
    trusting = ssl.create_default_context(cafile=str(tmp_path / "a" / "ca.crt"))
    async with (
        serve(Config(health_port=0, serving=given), credentials, ANSWERS) as server,
        aiohttp.ClientSession() as session,
    ):
        async with session.get(f"https://127.0.0.1:{server.port}/livez", ssl=trusting) as answer:
            assert answer.status == 200
        # Nobody answers at port 1: closed.
        headers = {"Authorization": "Bearer t"}
        async with session.get(f"https://127.0.0.1:{server.port}/metrics", ssl=trusting, headers=headers) as answer:
            assert answer.status == 401


async def test_a_certificate_that_cannot_be_used_is_named():
    given = Serving(tls_cert_file="/missing.crt", tls_private_key_file="/missing.key")
    with pytest.raises(ServingError, match=r"/missing\.crt: No such file"):
        async with serve(Config(health_port=0, serving=given), None, ANSWERS):
            raise AssertionError("not reached")


async def test_nothing_is_logged_of_who_speaks_no_tls(certificate, caplog):
    caplog.set_level(logging.INFO)
    async with serving(certificate) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /livez HTTP/1.1\r\nAuthorization: Bearer marked\r\n\r\n")
        await is_cut(reader)
        writer.close()
    assert caplog.records == []
