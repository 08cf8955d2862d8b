"""Where the API server is and how we prove who we are.

`Connection` describes it (an address, a kubeconfig, or the pod we run in); `Credentials` is the opened form that the
request layer uses and can ask to refresh. kubernetes-asyncio reads kubeconfigs, exec plugins and the pod's service
account; it is imported only when one of these is used, for it costs 0.3 s and 70 MiB.

Not here: sending anything (`requests`).
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kubernetes_asyncio.client import Configuration

IN_CLUSTER_TOKEN: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
IN_CLUSTER_NAMESPACE: Final = IN_CLUSTER_TOKEN.with_name("namespace")


class CredentialsError(Exception):
    """The connection cannot be set up; the text says what to change."""


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
    """

    url: str = ""
    token: str | None = field(default=None, repr=False)
    ca: str | Path | None = None
    kubeconfig: str | Path | None = None
    context: str | None = None
    in_cluster: bool = False

    @classmethod
    def from_kubeconfig(cls, path: str | Path, context: str | None = None) -> Connection:
        return cls(kubeconfig=path, context=context)

    @classmethod
    def from_pod(cls) -> Connection:
        return cls(in_cluster=True)

    @classmethod
    def find(cls, kubeconfig: str | Path | None = None, context: str | None = None) -> Connection:
        """kubectl's order: the given file, $KUBECONFIG, the pod's service account, ~/.kube/config.

        Raises:
            CredentialsError: None of them exists.
        """
        if kubeconfig or (kubeconfig := os.environ.get("KUBECONFIG")):
            return cls(kubeconfig=kubeconfig, context=context)
        if context is None and IN_CLUSTER_TOKEN.is_file():
            return cls.from_pod()
        default = Path.home() / ".kube" / "config"
        if default.is_file():
            return cls(kubeconfig=default, context=context)
        raise CredentialsError(
            "no cluster to connect to: give --kubeconfig FILE, set KUBECONFIG, create ~/.kube/config, or run in a pod"
        )

    def own_namespace(self) -> str | None:
        """The namespace of the pod that we run in; None when it is not by its service account that we connect."""
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
        if self.in_cluster or self.kubeconfig is not None:
            return await _KubernetesCredentials.load(self)
        if not self.url:
            raise CredentialsError("no API server given: a URL, a kubeconfig or a pod's service account is needed")
        return _StaticCredentials(self)


class Credentials:
    """What one request needs: base address, TLS, proxy and the Authorization header.

    `generation` grows with each refresh; a request that was refused with 401 passes the generation it was sent with,
    so many of them refused at once lead to one refresh.
    """

    url: str
    tls: ssl.SSLContext | bool = True
    server_hostname: str | None = None
    proxy: str | None = None
    generation: int = 0

    def authorization(self) -> str | None:
        """The header's value now; cheap, called for each request."""
        raise NotImplementedError

    async def refresh(self, seen_generation: int) -> bool:
        """Get fresh credentials unless that has happened since `seen_generation`. False: there are no fresher ones."""
        raise NotImplementedError


class _StaticCredentials(Credentials):
    def __init__(self, connection: Connection) -> None:
        self.url = connection.url.rstrip("/")
        self._authorization = f"Bearer {connection.token}" if connection.token else None
        if self.url.startswith("https:"):
            self.tls = _tls_context(connection.ca)

    def authorization(self) -> str | None:
        return self._authorization

    async def refresh(self, seen_generation: int) -> bool:
        return False


def _tls_context(ca: str | Path | None) -> ssl.SSLContext:
    try:
        if isinstance(ca, str) and "-----BEGIN" in ca:
            return ssl.create_default_context(cadata=ca)
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise CredentialsError(f"certificate authority {ca}: {error}") from error


class _KubernetesCredentials(Credentials):
    """A kubeconfig or the pod's service account, as kubernetes-asyncio reads it.

    A refresh reads everything anew: the token file, the exec plugin's answer, client certificates.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._configuration: Any = None
        self._authorization: str | None = None
        self._lock = asyncio.Lock()

    @classmethod
    async def load(cls, connection: Connection) -> _KubernetesCredentials:
        credentials = cls(connection)
        await credentials._read()
        return credentials

    def authorization(self) -> str | None:
        configuration = self._configuration
        if configuration.refresh_api_key_hook is not None:
            # In a pod: reads the token file again when a minute has passed.
            configuration.refresh_api_key_hook(configuration)
            return _authorization_of(configuration)
        return self._authorization

    async def refresh(self, seen_generation: int) -> bool:
        async with self._lock:
            if self.generation == seen_generation:
                await self._read()
                self.generation += 1
        return True

    async def _read(self) -> None:
        # Imported here: see the module's docstring.
        from kubernetes_asyncio import config as kubernetes_config  # noqa: PLC0415
        from kubernetes_asyncio.client import Configuration  # noqa: PLC0415

        configuration = Configuration()
        try:
            if self._connection.in_cluster:
                kubernetes_config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            else:
                await kubernetes_config.load_kube_config(
                    config_file=_existing(self._connection.kubeconfig),
                    context=self._connection.context,
                    client_configuration=configuration,
                    persist_config=False,
                )
            self._configuration = configuration
            self.url = str(configuration.host).rstrip("/")
            self.proxy = configuration.proxy
            self.server_hostname = configuration.tls_server_name
            self._authorization = _authorization_of(configuration)
            if self.url.startswith("https:"):
                self.tls = _tls_context_of(configuration)
        except CredentialsError:
            raise
        except Exception as error:
            # The loader raises its own error, KeyError, TypeError, yaml and OS errors for malformed files alike.
            where = "the pod's service account" if self._connection.in_cluster else f"{self._connection.kubeconfig}"
            raise CredentialsError(f"{where}: {error}") from error


def _existing(kubeconfig: str | Path | None) -> str:
    paths = [part for part in str(kubeconfig).split(os.pathsep) if part]
    if not any(Path(path).expanduser().is_file() for path in paths):
        raise CredentialsError(f"{kubeconfig}: no such kubeconfig file")
    return os.pathsep.join(str(Path(path).expanduser()) for path in paths)


def _authorization_of(configuration: Configuration) -> str | None:
    api_keys: dict[str, Any] = configuration.api_key
    if token := api_keys.get("BearerToken"):
        return str(token).strip()
    if configuration.username:
        pair = f"{configuration.username}:{configuration.password or ''}"
        return "Basic " + base64.b64encode(pair.encode()).decode()
    return None


def _tls_context_of(configuration: Configuration) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        # The kubeconfig says insecure-skip-tls-verify.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
