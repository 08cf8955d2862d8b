"""`python -m scheduler.embedded`: run an embedded cluster until interrupted."""

from __future__ import annotations

import argparse
import asyncio
import sys

from scheduler.descriptors import open_standard_descriptors
from scheduler.embedded.serve import serve


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and serve."""
    open_standard_descriptors()
    parser = argparse.ArgumentParser(
        prog="python -m scheduler.embedded",
        description="Run a cluster in one process: an API server on loopback with its controllers. "
        "Prints the kubeconfig's path. Ends on Ctrl-C.",
    )
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: a free one)")
    parser.add_argument("--no-controllers", action="store_true", help="the API server only, nothing acts on objects")
    parser.add_argument("files", nargs="*", help="manifests to apply at the start (YAML)")
    options = parser.parse_args(arguments)
    return asyncio.run(serve(port=options.port, controllers=not options.no_controllers, manifests=options.files))


if __name__ == "__main__":
    sys.exit(main())
