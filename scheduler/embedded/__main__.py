"""`python -m scheduler.embedded`: run an embedded cluster until interrupted."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from scheduler.descriptors import open_standard_descriptors
from scheduler.embedded.cluster import EmbeddedCluster
from scheduler.embedded.server.statuses import ApiError
from scheduler.yaml_reading import Mapping, read_nodes


def main() -> int:
    open_standard_descriptors()
    parser = argparse.ArgumentParser(
        prog="python -m scheduler.embedded",
        description="Run a cluster in one process: an API server on loopback with its controllers. "
        "Prints the kubeconfig's path. Ends on Ctrl-C.",
    )
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: a free one)")
    parser.add_argument("--no-controllers", action="store_true", help="the API server only, nothing acts on objects")
    parser.add_argument("files", nargs="*", help="manifests to apply at the start (YAML)")
    options = parser.parse_args()
    return asyncio.run(_serve(port=options.port, controllers=not options.no_controllers, manifests=options.files))


async def _serve(*, port: int, controllers: bool, manifests: Sequence[str]) -> int:
    """Serve until SIGINT, SIGTERM or SIGHUP (of a terminal that is closed).

    Returns:
        The exit code: 0; 1 when a manifest cannot be read or is refused.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            loop.add_signal_handler(number, stop.set)
    async with EmbeddedCluster(port=port, token=secrets.token_urlsafe(32), controllers=controllers) as cluster:
        for manifest in manifests:
            try:
                text = Path(manifest).read_text(encoding="utf-8")  # noqa: ASYNC240
                await cluster.apply([node.data for node, _ in read_nodes(text) if isinstance(node, Mapping)])
            except (OSError, yaml.YAMLError, ApiError) as error:
                sys.stderr.write(f"{manifest}: {error}\n")
                return 1
            except UnicodeDecodeError as error:
                sys.stderr.write(f"{manifest}: not UTF-8 text (byte {error.start}): is this a manifest?\n")
                return 1
        # A program that started us through a pipe waits for these lines.
        print(f"API server: {cluster.url}\nexport KUBECONFIG={cluster.kubeconfig_path}", flush=True)
        await stop.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
