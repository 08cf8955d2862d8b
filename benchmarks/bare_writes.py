"""The limit: the writes of a scheduler, by a loop that decides nothing.

Reads one JSON line a pod on standard input (`node`, `pod`, `uid`, and `claim` with its name and the status to
write), then sends finalizer, claim status, binding and event for each, with `--in-flight` pods at a time, over uvloop
and aiohttp. The event follows its binding and holds nobody up. What the API server takes from this loop, it would take
from a perfect scheduler.

    python -m benchmarks.bare_writes --kubeconfig FILE < plan.jsonl
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import ssl
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import uvloop
import yaml

Object = dict[str, Any]

MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}
JSON = {"Content-Type": "application/json"}
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/bench/resourceclaims"
PODS = "/api/v1/namespaces/bench/pods"
EVENTS = "/apis/events.k8s.io/v1/namespaces/bench/events"
FINALIZERS = orjson.dumps({"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}})


async def bind_pod(session: aiohttp.ClientSession, plan: Object) -> None:
    """The writes that a pod's start waits for, one after the other, as any scheduler must."""
    claim = plan.get("claim")
    if claim is not None:
        path = f"{CLAIMS}/{claim['name']}"
        await _send(session, "PATCH", path, FINALIZERS, MERGE_PATCH)
        await _send(session, "PATCH", f"{path}/status", orjson.dumps({"status": claim["status"]}), MERGE_PATCH)
    name, uid = plan["pod"], plan["uid"]
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": "bench", "uid": uid},
        "target": {"kind": "Node", "name": plan["node"]},
    }
    await _send(session, "POST", f"{PODS}/{name}/binding", orjson.dumps(binding), JSON)


async def tell(session: aiohttp.ClientSession, plan: Object) -> None:
    name, uid = plan["pod"], plan["uid"]
    event = {
        "metadata": {"name": f"{name}.{uid[:8]}", "namespace": "bench"},
        "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": "bare-writes",
        "reportingInstance": "bare-writes-0",
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "note": f"Successfully assigned bench/{name} to {plan['node']}",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "bench", "name": name, "uid": uid},
    }
    await _send(session, "POST", EVENTS, orjson.dumps(event), JSON)


async def _send(session: aiohttp.ClientSession, method: str, path: str, body: bytes, headers: dict[str, str]) -> None:
    async with session.request(method, path, data=body, headers=headers) as answer:
        text = await answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:500]!r}")


async def write_all(url: str, token: str, context: ssl.SSLContext, plans: Iterable[Object], in_flight: int) -> None:
    waiting = iter(plans)
    async with aiohttp.ClientSession(
        url, connector=aiohttp.TCPConnector(limit=0, ssl=context), headers={"Authorization": f"Bearer {token}"}
    ) as session:

        async def writer(group: asyncio.TaskGroup) -> None:
            for plan in waiting:
                await bind_pod(session, plan)
                group.create_task(tell(session, plan))

        async with asyncio.TaskGroup() as group:
            for _ in range(in_flight):
                group.create_task(writer(group))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--in-flight", type=int, default=32)
    arguments = parser.parse_args()
    config = yaml.safe_load(arguments.kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    plans = [orjson.loads(line) for line in sys.stdin.buffer]
    token = config["users"][0]["user"]["token"]
    context = ssl.create_default_context(cadata=authority)
    uvloop.run(write_all(cluster["server"], token, context, plans, arguments.in_flight))


if __name__ == "__main__":
    main()
