"""Run an embedded cluster until a signal ends it."""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml

from scheduler.embedded.cluster import EmbeddedCluster
from scheduler.embedded.server.statuses import ApiError
from scheduler.yaml_reading import Mapping, read_nodes


def _print(line: str) -> None:
    # Whoever started us through a pipe waits for these lines.
    print(line, flush=True)


async def serve(
    *,
    port: int = 0,
    controllers: bool = True,
    manifests: Sequence[str] = (),
    say: Callable[[str], None] = _print,
) -> int:
    """Serve until SIGINT or SIGTERM.

    Args:
        manifests: Files with objects to apply at the start.
        say: Told the address and the kubeconfig's path, one line each.

    Returns:
        Exit code: 0 after a signal, 1 when a manifest cannot be read or is refused.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with EmbeddedCluster(port=port, token=secrets.token_urlsafe(32), controllers=controllers) as cluster:
        for manifest in manifests:
            try:
                text = Path(manifest).read_text(encoding="utf-8")  # noqa: ASYNC240
                objects = [node.data for node, _ in read_nodes(text) if isinstance(node, Mapping)]
                await cluster.apply(objects)
            except (OSError, yaml.YAMLError, ApiError) as error:
                sys.stderr.write(f"{manifest}: {error}\n")
                return 1
        say(f"API server: {cluster.url}")
        say(f"export KUBECONFIG={cluster.kubeconfig_path}")
        await stop.wait()
    return 0
