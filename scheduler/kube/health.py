"""/livez, /readyz and /metrics over HTTP, answered on the scheduler's own event loop.

Live: the loop answers and the machine's last turn was not too long ago a failure. Ready: all caches are filled and no
permission is missing. The bodies list what is wrong, one line each, as kube-scheduler's `?verbose` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aiohttp import web


class HealthServer:
    """An async context manager that serves while it is open.

    Args:
        problems_alive, problems_ready: What is wrong now; empty when all is well.
        metrics: The exposition and its content type.
    """

    def __init__(
        self,
        address: str,
        port: int,
        *,
        problems_alive: Callable[[], Sequence[str]],
        problems_ready: Callable[[], Sequence[str]],
        metrics: Callable[[], tuple[bytes, str]],
    ) -> None:
        self.port = port
        self._address = address
        self._problems_alive = problems_alive
        self._problems_ready = problems_ready
        self._metrics = metrics
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> HealthServer:
        application = web.Application()
        application.router.add_get("/livez", self._livez)
        application.router.add_get("/healthz", self._livez)
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/metrics", self._show_metrics)
        self._runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await self._runner.setup()
        try:
            site = web.TCPSite(self._runner, self._address, self.port)
            await site.start()
        except OSError:
            await self._runner.cleanup()
            raise
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _livez(self, _: web.Request) -> web.Response:
        return _verdict(self._problems_alive())

    async def _readyz(self, _: web.Request) -> web.Response:
        return _verdict([*self._problems_alive(), *self._problems_ready()])

    async def _show_metrics(self, _: web.Request) -> web.Response:
        body, content_type = self._metrics()
        return web.Response(body=body, headers={"Content-Type": content_type})


def _verdict(problems: Sequence[str]) -> web.Response:
    if problems:
        return web.Response(status=503, text="\n".join(problems) + "\n")
    return web.Response(text="ok\n")
