"""What `dra-scheduler explain` takes in a new process, on a dump: seconds of CPU, and memory.

    python -m benchmarks.explaining                  # 5,000 nodes of 8 devices: more than a minute
    python -m benchmarks.explaining --nodes 50       # does it work

The pod asks for one device more than a node has. The goal (issue 18) is 3 s and 1 GiB. Python's compiled files are
there, as they are for whoever uses it twice.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.offline.causes import Obj, claim, device_class, gpu, node, pod, request, slice_

DEVICES: Final = 8


def objects(nodes: int) -> Iterator[Obj]:
    yield device_class()
    for number in range(nodes):
        name = f"node-{number:05}"
        yield node(name)
        yield slice_(*(gpu(f"gpu-{index}") for index in range(DEVICES)), where=name)
    # A server fills the mode in.
    yield claim(request(count=DEVICES + 1, allocationMode="ExactCount"))
    yield pod("gpu")


def dump(nodes: int) -> str:
    """As `kubectl get … -o json` prints it."""
    items = []
    for number, obj in enumerate(objects(nodes), 1):
        metadata = {"uid": f"uid-{number}", "resourceVersion": str(number), "creationTimestamp": "2026-01-01T00:00:00Z"}
        items.append({**obj, "metadata": {**obj["metadata"], **metadata}})
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def explain(path: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "scheduler", "explain", "pod/asked", "-f", os.fspath(path)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=environment)


def cpu_seconds() -> float:
    """Of children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dump.json"
        path.write_text(dump(args.nodes), encoding="utf-8")
        small = Path(folder) / "small.json"
        small.write_text(dump(1), encoding="utf-8")
        explain(small)
        before, started = cpu_seconds(), time.monotonic()
        told = explain(path)
        cpu, seconds = cpu_seconds() - before, time.monotonic() - started
    print("\n".join(told.stdout.splitlines()[:2]))
    mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    print(f"{args.nodes} nodes, {args.nodes * DEVICES} devices: {cpu:.1f} s of CPU, {seconds:.1f} s, {mib} MiB")
    return 0 if told.returncode == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
