"""A cluster in one process: the API server on a loopback port, its controllers, its kubeconfig.

    async with EmbeddedCluster() as cluster:
        await cluster.apply(objects)
        ...  # kubectl --kubeconfig cluster.kubeconfig_path get pods

The API server lives in the caller's event loop. The claim controllers run in a process of their own
(`claim_process`), as they would in a real cluster; the small controllers that stand in for kubelets, the
workload controllers and the garbage collector run beside the server (`reactors`).

The server listens on loopback only, and answers no page of a browser (`guard`). With `token` it is as a real one: it
speaks TLS, with a certificate of its own, without which kubectl sends no token, and a client that knows the token is
admin. Without one, as tests want it, there is no TLS, and every program of this machine is admin.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import shutil
import ssl
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import yaml
from aiohttp import web

from scheduler.embedded.controllers.claim_process import ClaimProcess
from scheduler.embedded.controllers.disruption import Disruption
from scheduler.embedded.controllers.kubelet import Kubelet
from scheduler.embedded.controllers.ownership import GarbageCollector, NamespaceEnd
from scheduler.embedded.controllers.reactors import Reactors
from scheduler.embedded.controllers.volumes import Volumes
from scheduler.embedded.controllers.workloads import Workloads
from scheduler.embedded.kinds.catalog import default_registry
from scheduler.embedded.loading import apply_object, restore_object
from scheduler.embedded.seed import seed_objects
from scheduler.embedded.server.guard import Guard
from scheduler.embedded.server.http_server import REQUEST_SIZE_MAX, HttpServer
from scheduler.embedded.server.object_store import ObjectStore
from scheduler.embedded.server.rest import Api
from scheduler.embedded.server.served_kinds import Registry
from scheduler.own_certificate import make_certificate
from scheduler.validation.api_fields import NEWEST
from scheduler.validation.field_errors import Json

_HOST: Final = "127.0.0.1"
DEFAULT_WATCH_WINDOW: Final = 10_000
"""Changes of each kind that a watch can be resumed over."""
DEFAULT_BOOKMARK_INTERVAL_S: Final = 60.0

_WAITING_CONNECTIONS_MAX: Final = 512


class EmbeddedCluster:
    """The cluster; an async context manager.

    Args:
        port: Port to listen on; 0 takes a free one and keeps it over `restart`.
        token: The secret that clients must send; the kubeconfig holds it. None: no secret is asked for.
        controllers: Run the controllers; without them objects stay as clients write them.
        watch_window: Changes of each kind that are kept for watches.
        bookmark_interval_s: Seconds between the bookmarks of an idle watch.
        registry: The kinds to serve.
        grace_s_max: The longest that a deleted pod goes on running, whatever grace period it has; by default it ends
            at once, as a program does that obeys its first signal.
        minor: The release of Kubernetes that it is.

    Attributes:
        api: The operations without HTTP, for tests that set a scene.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        token: str | None = None,
        controllers: bool = True,
        watch_window: int = DEFAULT_WATCH_WINDOW,
        bookmark_interval_s: float = DEFAULT_BOOKMARK_INTERVAL_S,
        registry: Registry | None = None,
        grace_s_max: float = 0.0,
        minor: int = NEWEST,
    ) -> None:
        self._port = port
        self._token = token
        self._tls: ssl.SSLContext | None = None
        self._has_controllers = controllers
        self._registry = registry or default_registry()
        self._store = ObjectStore(watch_window=watch_window)
        self.api = Api(self._registry, self._store, minor=minor)
        self._server = HttpServer(self.api, bookmark_interval_s=bookmark_interval_s, guard=Guard(token, _HOST))
        self._runner: web.ServerRunner | None = None
        self._protocol_server: web.Server | None = None
        self._folder: Path | None = None
        self._kubelet = Kubelet(self.api, grace_s_max=grace_s_max)
        self._reactors: Reactors | None = None
        self._claim_process: ClaimProcess | None = None

    # -- life --------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        seed_objects(self.api)
        self._folder = Path(tempfile.mkdtemp(prefix="dra-scheduler-embedded-"))
        try:
            if self._token is not None:
                self._tls = self._server_context()
            await self._listen()
            self.kubeconfig_path.touch(mode=0o600)
            self.kubeconfig_path.write_text(yaml.safe_dump(self._kubeconfig(), sort_keys=False))
            if self._has_controllers:
                await self._start_controllers()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop everything and remove the kubeconfig; may be called more than once."""
        if self._claim_process is not None:
            await self._claim_process.close()
            self._claim_process = None
        if self._reactors is not None:
            await self._reactors.close()
            self._kubelet.close()
        await self._hang_up()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    async def _start_controllers(self) -> None:
        workloads, volumes = Workloads(self.api), Volumes(self.api)
        reactors = (
            *(self._kubelet, workloads, volumes, Disruption(self.api)),
            *(GarbageCollector(self.api), NamespaceEnd(self.api)),
        )
        self._reactors = Reactors(self.api, reactors)
        self._reactors.start()
        assert self._folder is not None
        log = self._folder / "claim-controllers.log"
        self._claim_process = ClaimProcess(self.url, log, token=self._token, authority=self.authority)
        await self._claim_process.start()

    def _server_context(self) -> ssl.SSLContext:
        """With a certificate that signs itself; clients find it in `authority`."""
        assert self.authority is not None
        certificate, key = make_certificate()
        pair = self.authority.with_suffix(".pem")
        for path, content in ((self.authority, certificate), (pair, certificate + key)):
            path.touch(mode=0o600)
            path.write_bytes(content)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(pair)
        return context

    async def _listen(self) -> None:
        server = web.Server(self._server.handle, request_factory=_request, access_log=None, handler_cancellation=True)
        runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await runner.setup()
        backlog, tls = _WAITING_CONNECTIONS_MAX, self._tls
        site = web.TCPSite(runner, _HOST, self._port, backlog=backlog, reuse_address=True, ssl_context=tls)
        await site.start()
        self._port = runner.addresses[0][1]
        self._protocol_server, self._runner = server, runner

    async def _hang_up(self) -> None:
        runner, server = self._runner, self._protocol_server
        self._runner = self._protocol_server = None
        if runner is None:
            return
        if server is not None:
            for connection in server.connections:
                if connection.transport is not None:
                    connection.transport.abort()
        with contextlib.suppress(asyncio.TimeoutError):
            await runner.cleanup()

    # -- what a client needs -----------------------------------------------------------------------

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`, with a token `https://…`."""
        if not self._port:
            raise RuntimeError("the embedded cluster has not been started: use `async with EmbeddedCluster()`")
        return f"{'http' if self._token is None else 'https'}://{_HOST}:{self._port}"

    @property
    def authority(self) -> Path | None:
        """The certificate that the server has, PEM, for clients to trust; None without TLS."""
        return None if self._token is None else self.kubeconfig_path.with_name("ca.crt")

    @cached_property
    def tls(self) -> ssl.SSLContext | bool:
        """What a client in Python connects with, as aiohttp's `ssl`."""
        return True if self.authority is None else ssl.create_default_context(cafile=self.authority)

    @property
    def headers(self) -> dict[str, str]:
        """What a client must send with each request."""
        return {"Authorization": f"Bearer {self._token}"} if self._token is not None else {}

    @property
    def kubeconfig_path(self) -> Path:
        """A kubeconfig for kubectl and client libraries, in a private folder that is removed at the end."""
        if self._folder is None:
            raise RuntimeError("the embedded cluster is not running: use `async with EmbeddedCluster()`")
        return self._folder / "kubeconfig"

    def _kubeconfig(self) -> dict[str, Json]:
        name = "dra-scheduler-embedded"
        cluster = {"server": self.url}
        if self.authority is not None:
            cluster["certificate-authority-data"] = base64.b64encode(self.authority.read_bytes()).decode()
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"token": self._token or "embedded"}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
            "current-context": name,
        }

    async def controllers_ready(self) -> None:
        """Wait until the claim controllers watch. Waiting is rarely needed: they catch up on what was there before."""
        if self._claim_process is not None:
            await self._claim_process.ready()

    # -- what a test or the demo does to it --------------------------------------------------------

    async def apply(self, objects: Iterable[Mapping[str, Json]]) -> list[dict[str, Json]]:
        """Create or update objects, in order, like `kubectl apply --server-side --force-conflicts`.

        An object that carries a status has it applied too, through the sub-resource. Lists are taken apart.

        Returns:
            The objects as they are stored now, in the same order.

        Raises:
            ApiError: the first object that is refused; the objects before it stay.
        """
        applied = [self.apply_one(obj) for obj in _flatten(objects)]
        # Give watchers and controllers a turn.
        await asyncio.sleep(0)
        return applied

    def apply_one(self, obj: Mapping[str, Json]) -> dict[str, Json]:
        """`apply` of one object that is no List, at once: nothing else gets a turn. Raises ApiError: it is refused."""
        kind, stored = apply_object(self.api, obj)
        return {"kind": kind.kind, "apiVersion": kind.api_version, **stored.copy()}

    def restore(self, objects: Sequence[Mapping[str, Json]]) -> None:
        """Store objects of a dump with their uids. References to owners outside the dump are left out.

        Raises:
            ApiError: the first object that is refused; the objects before it stay.
        """
        uids = {obj["metadata"].get("uid") for obj in objects}
        for obj in objects:
            metadata = dict(obj["metadata"])
            owners = [owner for owner in metadata.pop("ownerReferences", None) or () if owner.get("uid") in uids]
            if owners:
                metadata["ownerReferences"] = owners
            restore_object(self.api, {**obj, "metadata": metadata})

    async def restart(self) -> None:
        """Restart the API server: data and port stay, connections, watch history and list pages go."""
        await self._hang_up()
        self._store.forget_history()
        self._server.routes.lists.forget()
        await self._listen()


def _flatten(objects: Iterable[Mapping[str, Json]]) -> Iterable[Mapping[str, Json]]:
    for obj in objects:
        if obj.get("kind") == "List" and "items" in obj:
            yield from _flatten(obj["items"])
        else:
            yield obj


def _request(message, payload, protocol, writer, task):  # type: ignore[no-untyped-def]
    # aiohttp's own limit is 1 MiB, and it is an argument of the request, not of the server.
    return web.BaseRequest(message, payload, protocol, writer, task, protocol._loop, client_max_size=REQUEST_SIZE_MAX)
