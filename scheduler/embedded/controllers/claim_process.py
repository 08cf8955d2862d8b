"""The claim controllers as a process of their own.

kopf wants a process of its own: it cancels every other task of its event loop, and it would compete with the
server for the GIL. This process ends when its standard input ends, so it never outlives the cluster that started it.

`ClaimProcess` is the other side: it starts, watches and stops the process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import sys
import threading
from pathlib import Path
from typing import Final

_LOG: Final = logging.getLogger(__name__)
_READY: Final = b"ready\n"
_TOKEN: Final = "DRA_SCHEDULER_EMBEDDED_TOKEN"  # noqa: S105 - the variable's name; arguments are for all to see
_RESTART_PAUSE_S: Final = 0.5
_STOP_TIMEOUT_S: Final = 5.0


def main(arguments: list[str] | None = None) -> int:
    """Run the controllers until standard input ends."""
    parser = argparse.ArgumentParser(prog="claim_process", description="Controllers of an embedded cluster's claims.")
    parser.add_argument("--server", required=True, help="base URL of the API server")
    parser.add_argument("--authority", help="the certificate to trust, PEM")
    options = parser.parse_args(arguments)
    token = os.environ.pop(_TOKEN, None)
    # kopf imports every model of kubernetes_asyncio when it finds it, for type checks that never apply
    # here: 0.3 s and 40 MiB.
    sys.modules.setdefault("kubernetes_asyncio", None)  # type: ignore[arg-type]
    import kopf  # noqa: PLC0415

    from scheduler.embedded.controllers.claim_controllers import ClaimController, settings  # noqa: PLC0415
    from scheduler.embedded.controllers.taint_eviction import TaintEvictionController  # noqa: PLC0415

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    ready = threading.Event()
    threading.Thread(target=_end_with_input, daemon=True).start()
    threading.Thread(target=_say_ready, args=(ready,), daemon=True).start()
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def login(**_: object) -> kopf.ConnectionInfo:
        scheme = "Bearer" if token else None
        return kopf.ConnectionInfo(server=options.server, scheme=scheme, token=token, ca_path=options.authority)

    for controller in (ClaimController, TaintEvictionController):
        controller(options.server, token, options.authority).register(registry)
    asyncio.run(
        kopf.operator(
            registry=registry,
            settings=settings(),
            clusterwide=True,
            standalone=True,
            ready_flag=ready,
        )
    )
    return 0


def _end_with_input() -> None:
    while os.read(0, 4096):
        pass
    # kopf takes seconds to stop in order. There is nothing to put in order: all that these controllers know is
    # in the API, and each of their writes may be the last one.
    os._exit(0)


def _say_ready(ready: threading.Event) -> None:
    ready.wait()
    with contextlib.suppress(OSError):
        os.write(1, _READY)


class ClaimProcess:
    """The process, seen from the cluster that runs it.

    Args:
        server: Base URL of the API server.
        log_path: File that gets what the process logs.
        token: The secret that the API server asks for.
        authority: The certificate that it has; None without TLS.
    """

    def __init__(self, server: str, log_path: Path, *, token: str | None = None, authority: Path | None = None) -> None:
        self._server = server
        self._log_path = log_path
        self._authority = ("--authority", str(authority)) if authority is not None else ()
        self._environment = {**os.environ, _TOKEN: token} if token is not None else None
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._is_ready = asyncio.Event()

    async def start(self) -> None:
        """Start the process; it becomes ready later."""
        await self._spawn()
        self._keeper = asyncio.get_running_loop().create_task(self._keep(), name="claim-process")

    async def ready(self) -> None:
        """Wait until the controllers watch."""
        await self._is_ready.wait()

    async def close(self) -> None:
        """Stop the process and wait for its end."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(_STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _spawn(self) -> None:
        with self._log_path.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                "import sys; from scheduler.embedded.controllers.claim_process import main; sys.exit(main())",
                "--server",
                self._server,
                *self._authority,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=self._environment,
                start_new_session=True,  # A Ctrl-C is for the cluster's owner, who stops us in order.
            )

    async def _keep(self) -> None:
        while True:
            process = self._process
            assert process is not None
            assert process.stdout is not None
            if await process.stdout.readline() == _READY:
                self._is_ready.set()
            code = await process.wait()
            self._is_ready.clear()
            _LOG.warning("the claim controllers ended with code %d, starting them again; see %s", code, self._log_path)
            await asyncio.sleep(_RESTART_PAUSE_S)
            await self._spawn()
