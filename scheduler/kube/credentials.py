"""Where the API server is and how we prove who we are.

`Connection` describes it (an address, a kubeconfig, or the pod we run in). `Credentials` is the opened form that the
request layer uses. It is read again when one of its files has changed (checked every `RECHECK_S`), when an exec
plugin's answer is about to expire, when the server refuses the token (401), and when a certificate is not trusted and
the files have changed. So a rotated authority, token or client certificate costs at most one refused request.

Not here: kubeconfig files and their errors (`kubeconfig`), plugins (`exec_plugin`), sending anything (`api_requests`).
kubernetes-asyncio is used for `auth-provider` (OIDC) only, and imported only then: it costs 0.3 s and 70 MiB.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import ssl
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from scheduler.kube.exec_plugin import run_plugin
from scheduler.kube.kubeconfig import Access, CredentialsError, Reader, read_kubeconfig

__all__ = ["IN_CLUSTER_TOKEN", "Connection", "Credentials", "CredentialsError"]

log = logging.getLogger(__name__)

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
IN_CLUSTER_TOKEN: Final = SERVICE_ACCOUNT / "token"
IN_CLUSTER_NAMESPACE: Final = SERVICE_ACCOUNT / "namespace"
RECHECK_S: Final = 10.0  # kubelets renew tokens at 80 % of their hour or more
PLUGIN_S_MAX: Final = 60.0  # somebody may be typing a password
_EXPIRES_EARLY_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach an API server. One of: `url` (with token and CA), a kubeconfig, or the cluster this pod runs in.

    Args:
        url: `https://host:port`, or `http://…` for a server on loopback.
        token: A bearer token, sent as it is.
        ca: Path of a PEM file, or the PEM text itself; None: the system's authorities.
        kubeconfig: A kubeconfig file, or several joined by the path separator as in $KUBECONFIG.
        context: The kubeconfig's context; None: its current one.
        in_cluster: Use the pod's service account.
        plugin_s_max: How long a plugin of the kubeconfig may take.
    """

    url: str = ""
    token: str | None = field(default=None, repr=False)
    ca: str | Path | None = None
    kubeconfig: str | Path | None = None
    context: str | None = None
    in_cluster: bool = False
    plugin_s_max: float = PLUGIN_S_MAX

    @classmethod
    def find(cls, kubeconfig: str | Path | None = None, context: str | None = None) -> Connection:
        """kubectl's order: the given file, $KUBECONFIG, ~/.kube/config, the service account of the pod we run in.

        Raises:
            CredentialsError: None of them exists.
        """
        if kubeconfig or (kubeconfig := os.environ.get("KUBECONFIG")):
            return cls(kubeconfig=kubeconfig, context=context)
        default = Path.home() / ".kube" / "config"
        if default.is_file():
            return cls(kubeconfig=default, context=context)
        if context is None and IN_CLUSTER_TOKEN.is_file():
            return cls(in_cluster=True)
        pod = "" if IN_CLUSTER_TOKEN.is_file() else ", and this is no pod with a service account"
        raise CredentialsError(
            f"no cluster to connect to: $KUBECONFIG is not set, there is no {default}{pod}; give --kubeconfig FILE, or "
            "set KUBECONFIG"
        )

    def own_namespace(self) -> str | None:
        """The namespace of the pod that we run in; None when we do not connect with its service account."""
        if not self.in_cluster:
            return None
        try:
            return IN_CLUSTER_NAMESPACE.read_text().strip() or None
        except OSError:
            return None

    async def open(self) -> Credentials:
        """Read files and run exec plugins, once.

        Raises:
            CredentialsError: A file is missing or malformed, a plugin failed, or nothing was described.
        """
        if not (self.in_cluster or self.kubeconfig is not None or self.url):
            raise CredentialsError("no API server given: a URL, a kubeconfig or a pod's service account is needed")
        credentials = Credentials(self)
        await credentials.read()
        return credentials


class Credentials:
    """What one request needs: base address, TLS, proxy and the headers that say who asks; read again with reason.

    `generation` grows with each refresh; a request that was refused passes the generation it was sent with, so many of
    them refused at once lead to one refresh.
    """

    def __init__(self, connection: Connection) -> None:
        """Empty until `read`."""
        self.url = ""
        self.origin = ""  # where they come from, for errors
        self.namespace = ""  # the context's, or the pod's
        self.tls: ssl.SSLContext | bool = True
        self.server_hostname: str | None = None
        self.proxy: str | None = None
        self.impersonation: tuple[tuple[str, str], ...] = ()
        self.generation = 0
        self._connection = connection
        self._authorization: str | None = None
        self._expires_s: float | None = None  # since the epoch
        self._reader = Reader()
        self._complaint = ""
        self._recheck_at_s = 0.0
        self._lock = asyncio.Lock()

    def authorization(self) -> str | None:
        """The header's value now."""
        return self._authorization

    async def refresh(self, seen_generation: int) -> bool:
        """Get fresh credentials unless that has happened since `seen_generation`. False: there are no fresher ones."""
        if not self._connection.in_cluster and self._connection.kubeconfig is None:
            return False  # a token that was given by value
        async with self._lock:
            if self.generation == seen_generation:
                await self.read()
                self.generation += 1
        return True

    async def refresh_if_changed(self, seen_generation: int) -> bool:
        """Read the files again if they say something else by now; False: they do not."""
        async with self._lock:
            if self.generation == seen_generation:
                if not self._reader.has_changed():
                    return False
                await self.read()
                self.generation += 1
                log.info("%s: credentials were read again", self.origin)
        return True

    async def keep_current(self) -> None:
        """Called before each request: now and then, look whether there is something newer. Never raises."""
        now_s = time.monotonic()
        if now_s < self._recheck_at_s or self._lock.locked():
            return
        self._recheck_at_s = now_s + RECHECK_S
        generation = self.generation
        try:
            if self._expires_s is not None and time.time() >= self._expires_s - _EXPIRES_EARLY_S:
                await self.refresh(generation)
            else:
                await self.refresh_if_changed(generation)
        except CredentialsError as error:
            # The file may be half written. The credentials that we have may still be good; we look again soon.
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.warning("credentials cannot be read again, those read before are used: %s", error)
        else:
            self._complaint = ""

    async def read(self) -> None:
        """Read everything; what was read before stays when that fails."""
        reader = Reader()
        access = self._access(reader)
        expires_s = None
        if (plugin := access.exec_plugin) is not None:
            answer = await run_plugin(plugin, timeout_s=self._connection.plugin_s_max)
            expires_s = answer.expires_s
            access = replace(
                access,
                token=answer.token or access.token,
                certificate=answer.certificate or access.certificate,
                key=answer.key or access.key,
            )
        elif access.auth_provider is not None:
            token = await _ask_provider(access.auth_provider, access.origin, self._connection.plugin_s_max)
            access = replace(access, token=token)
        tls = _tls_context(access) if access.url.lower().startswith("https:") else True
        self._reader, self._recheck_at_s = reader, time.monotonic() + RECHECK_S
        self.url, self.origin, self.tls, self.proxy = access.url, access.origin, tls, access.proxy
        self.server_hostname, self.impersonation = access.server_hostname, access.impersonation
        self.namespace = access.namespace or self._connection.own_namespace() or ""
        self._authorization, self._expires_s = _authorization(access), expires_s

    def _access(self, reader: Reader) -> Access:
        connection = self._connection
        if connection.in_cluster:
            return _read_pod(reader, os.environ)
        if connection.kubeconfig is not None:
            return read_kubeconfig(connection.kubeconfig, connection.context, reader)
        authority: bytes | None = None
        if isinstance(connection.ca, str) and "-----BEGIN" in connection.ca:
            authority = connection.ca.encode()
        elif connection.ca is not None and connection.url.startswith("https:"):
            authority = reader.read(Path(connection.ca), f"certificate authority {connection.ca}")
        origin = f"certificate authority {connection.ca}" if authority and reader.paths else connection.url
        return Access(origin=origin, url=connection.url.rstrip("/"), authority=authority, token=connection.token)


def _read_pod(reader: Reader, environment: Mapping[str, str]) -> Access:
    """The service account that kubelets mount into every pod.

    Source: client-go v0.36.3 rest/config.go (InClusterConfig).
    """
    origin = "the pod's service account"
    host, port = (environment.get(f"KUBERNETES_SERVICE_{name}") for name in ("HOST", "PORT"))
    if not host or not port:
        raise CredentialsError(f"{origin}: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    token = reader.read(SERVICE_ACCOUNT / "token", f"{origin}: {SERVICE_ACCOUNT / 'token'}").decode("ascii", "replace")
    if not token.strip():
        raise CredentialsError(f"{origin}: {SERVICE_ACCOUNT / 'token'}: it is empty")
    return Access(
        origin=origin,
        url=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        authority=reader.read(SERVICE_ACCOUNT / "ca.crt", f"{origin}: {SERVICE_ACCOUNT / 'ca.crt'}"),
        token=token.strip(),
    )


def _authorization(access: Access) -> str | None:
    if access.token:
        return f"Bearer {access.token}"
    if access.username:
        pair = f"{access.username}:{access.password or ''}"
        return "Basic " + base64.b64encode(pair.encode()).decode()
    return None


def _tls_context(access: Access) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=_text(access.authority) if access.authority is not None else None)
    except (ssl.SSLError, ValueError) as error:
        raise CredentialsError(f"{access.origin}: the certificate authority is no PEM certificate: {error}") from error
    # Python 3.13 began to ask authorities for extensions that many clusters' have not; kubectl does not ask for them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if access.certificate is not None and access.key is not None:
        try:
            load_chain(context, access.certificate + b"\n" + access.key)
        except (ssl.SSLError, OSError) as error:
            raise CredentialsError(f"{access.origin}: client certificate and key cannot be used: {error}") from error
    if not access.is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def load_chain(context: ssl.SSLContext, pem: bytes) -> None:
    """OpenSSL reads a chain from files only: here from a file in memory, or from a temporary file."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("client-certificate"), "wb") as memory:
            memory.write(pem)
            memory.flush()
            context.load_cert_chain(f"/proc/self/fd/{memory.fileno()}", password="")
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name, password="")


def _text(pem: bytes) -> str:
    # A bundle may have comments in any language; only the text between the lines of dashes counts.
    return pem.decode("ascii", "ignore")


async def _ask_provider(config: Mapping[str, Any], origin: str, timeout_s: float) -> str:
    """The token that a kubeconfig's `auth-provider` gives, as kubernetes-asyncio asks it."""
    # Imported here: see the module's docstring.
    from kubernetes_asyncio import config as kubernetes_config  # noqa: PLC0415
    from kubernetes_asyncio.client import Configuration  # noqa: PLC0415

    configuration = Configuration()
    try:
        async with asyncio.timeout(timeout_s):
            await kubernetes_config.load_kube_config_from_dict(dict(config), client_configuration=configuration)
    except TimeoutError as error:
        raise CredentialsError(f"{origin}: auth-provider: no answer within {timeout_s:g} s") from error
    except Exception as error:
        # The library raises its own error, KeyError, TypeError and OS errors alike.
        raise CredentialsError(f"{origin}: auth-provider: {type(error).__name__}: {error}") from error
    token: str | None = configuration.api_key.get("BearerToken")
    if not token:
        raise CredentialsError(f"{origin}: auth-provider: it gave no token")
    return token.removeprefix("Bearer ").strip()
