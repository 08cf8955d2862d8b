"""Opens the health server as the configuration says: plain on loopback, or with TLS and delegated access.

Rules of this module
  1. Without TLS and without a look at who asks only this machine is served: "plain" is for loopback addresses.
  2. Reviews have connections of their own, and are sent by a process that may not write, too: they change nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from ssl import SSLContext
from typing import TYPE_CHECKING, Final, NamedTuple, NotRequired, TypedDict

import orjson

from scheduler.config.settings import Config
from scheduler.kube.api_requests import ApiClient, Timeouts
from scheduler.kube.certificates import CertificateError, ServerCertificate
from scheduler.kube.credentials import IN_CLUSTER_TOKEN, Connection, Credentials
from scheduler.kube.readers import Readers

if TYPE_CHECKING:
    from scheduler.kube.health import Checks, HealthServer

_REVIEW_TIMEOUTS: Final = Timeouts(connect_s=3.0, total_s=10.0)  # upstream's for webhooks: 10 s


class ServingError(ValueError):
    """It cannot be served as the configuration says; the text names the setting."""


class HealthSources(TypedDict):
    """What `HealthServer` is asked for."""

    checks_alive: Callable[[], Checks]
    checks_ready: Callable[[], Checks]
    notes_ready: Callable[[], Sequence[str]]
    details_ready: NotRequired[Callable[[], Sequence[str]]]
    metrics: Callable[[], tuple[bytes, str]]


def address_of(config: Config) -> str:
    """Where to listen."""
    return config.health_address or ("::" if IN_CLUSTER_TOKEN.is_file() else "127.0.0.1")


def is_secure(config: Config) -> bool:
    """Whether with TLS, and to those only who may read.

    Raises:
        ServingError: Without is asked for on an address that others can reach.
    """
    address = address_of(config)
    if config.serving.security is None:
        return not is_loopback(address) or config.serving.names_certificate
    if config.serving.security == "plain" and not is_loopback(address):
        raise ServingError(
            f"serving.security: plain is for loopback addresses only, and {address!r} can be reached from elsewhere; "
            "leave it out, or give --bind-address=127.0.0.1"
        )
    return config.serving.security == "secure"


@asynccontextmanager
async def serve(config: Config, credentials: Credentials, answers: HealthSources) -> AsyncIterator[HealthServer]:
    """Serve while it is open.

    Raises:
        ServingError: A certificate cannot be used, or serving plainly is not for this address.
        CredentialsError: A kubeconfig for reviews cannot be used.
        OSError: The port is taken.
    """
    from scheduler.kube.health import HealthServer  # noqa: PLC0415 - aiohttp's server, only where a port is asked for

    assert config.health_port is not None
    async with guarded(config, credentials) as guard:
        server = HealthServer(
            address_of(config),
            config.health_port,
            **answers,
            # With its defaults, under kube-scheduler's key.
            configuration=lambda: orjson.dumps({"componentconfig": config.model_dump(by_alias=True, mode="json")}),
            tls=guard.tls,
            readers=guard.readers,
            always_allowed=config.serving.authorization_always_allow_paths,
        )
        async with server:
            yield server


class Guard(NamedTuple):
    """What to serve a new connection with, and who may read; None: without TLS, everybody."""

    tls: Callable[[], SSLContext] | None = None
    readers: Readers | None = None


@asynccontextmanager
async def guarded(config: Config, credentials: Credentials) -> AsyncIterator[Guard]:
    """Certificate and reviews as the configuration says, while it is open.

    Raises:
        ServingError: A certificate cannot be used, or serving plainly is not for this address.
        CredentialsError: A kubeconfig for reviews cannot be used.
    """
    serving = config.serving
    if not is_secure(config):
        yield Guard()
        return
    paths = [Path(text) if text else None for text in (serving.tls_cert_file, serving.tls_private_key_file)]
    try:
        certificate = ServerCertificate(*paths, directory=Path(serving.cert_dir) if serving.cert_dir else None)
    except CertificateError as error:
        raise ServingError(str(error)) from error
    async with AsyncExitStack() as stack:
        asked = [
            await stack.enter_async_context(
                ApiClient(await Connection(kubeconfig=path).open() if path else credentials, timeouts=_REVIEW_TIMEOUTS)
            )
            for path in (serving.authentication_kubeconfig, serving.authorization_kubeconfig)
        ]
        looking = asyncio.create_task(certificate.keep_current(), name="certificate")
        stack.push_async_callback(_end, looking)
        yield Guard(certificate.context, Readers(*asked))


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def is_loopback(address: str) -> bool:
    """Whether only this machine can connect to the address."""
    if address == "localhost":
        return True
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
