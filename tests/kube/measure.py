"""Costs of the shell, printed: `python -m tests.kube.measure [decode|write]`. Not a test: figures depend on machines.

decode: microseconds per watch event, from the line's bytes to the input, best of five rounds.
write: CPU of this process per write, 48 in flight, against a server in another process that answers at once.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable

import orjson
import uvloop
from aiohttp import web

from scheduler.framework.decisions import BindPod, Decision, PatchPodStatus, RecordEvent, WriteClaimStatus, WriteId
from scheduler.kube.api_requests import ApiClient
from scheduler.kube.clock import Clock
from scheduler.kube.codec import Codec
from scheduler.kube.credentials import Connection
from scheduler.kube.event_records import EventSeries
from scheduler.kube.executor import Executor
from scheduler.kube.watched_kind import Seen
from scheduler.model.keys import ClaimKey, PodKey
from tests.kube.misbehaving import Reports
from tests.kube.test_executor import ALLOCATE

WRITES = 3000
_FIELDS = {"f:spec": {f"f:field{index}": {} for index in range(40)}}
META = {
    "namespace": "default",
    "uid": "0f9b6a3e-7f64-4b7e-9d3c-0a2a5d1b6c11",
    "resourceVersion": "123456",
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "labels": {"app": "x", "pod-template-hash": "12345"},
    "managedFields": [{"manager": "kubectl", "operation": "Update", "apiVersion": "v1", "fieldsV1": _FIELDS}],
}
POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": META | {"name": "pod-1"},
    "spec": {
        "schedulerName": "dra-scheduler",
        "containers": [
            {
                "name": "c",
                "image": "registry.example.com/x:latest",
                "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}, "claims": [{"name": "gpu"}]},
                "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets"}],
            }
        ],
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
        "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
    },
    "status": {"phase": "Pending", "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "pod-1-gpu-x"}]},
}
CLAIM = {
    "kind": "ResourceClaim",
    "apiVersion": "resource.k8s.io/v1",
    "metadata": META | {"name": "claim-1", "finalizers": ["resource.kubernetes.io/delete-protection"]},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 1}}]}},
    "status": {
        "allocation": {
            "devices": {"results": [{"request": "gpu", "driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In"}]}]},
        },
        "reservedFor": [{"resource": "pods", "name": "pod-1", "uid": "0f9b6a3e-7f64-4b7e-9d3c-0a2a5d1b6c11"}],
    },
}


def slice_of(devices: int) -> dict:
    attributes = {"model": {"string": "LATEST-GPU-MODEL"}, "driverVersion": {"version": "1.0.0"}}
    return {
        "metadata": META | {"name": "node-1-gpus", "namespace": ""},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "node-1",
            "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": f"gpu-{index}",
                    "attributes": attributes | {"index": {"int": index}, "uuid": {"string": f"gpu-{index:032}"}},
                    "capacity": {"memory": {"value": "80Gi"}},
                }
                for index in range(devices)
            ],
        },
    }


def best_us(work: Callable[[], object], calls: int) -> float:
    """Microseconds of one call, the best of five rounds."""
    rounds = []
    for _ in range(5):
        begun = time.perf_counter()
        for _ in range(calls):
            work()
        rounds.append((time.perf_counter() - begun) / calls)
    return min(rounds) * 1e6


def measure_decoding() -> None:
    codec = Codec()
    # An allocation differs from claim to claim: "new" decodes another one each time.
    numbers = iter(range(10**9))

    def new_claim() -> object:
        number = str(next(numbers)).encode()
        return codec.claims.decode_event(claim_line.replace(b'"gpu-0"', b'"gpu-' + number + b'"'))

    claim_line = line_of(CLAIM)
    pod_line, small, large = line_of(POD), line_of(slice_of(8)), line_of(slice_of(128))
    for name, line, work, calls in (
        ("pod", pod_line, lambda: codec.pods.decode_event(pod_line), 5000),
        ("claim, seen before", claim_line, lambda: codec.claims.decode_event(claim_line), 5000),
        ("claim, new allocation", claim_line, new_claim, 3000),
        ("slice of 8 devices", small, lambda: codec.slices.decode_event(small), 500),
        ("slice of 128 devices", large, lambda: codec.slices.decode_event(large), 50),
    ):
        assert isinstance(work(), Seen)
        print(f"{name:24} {len(line):6} bytes {best_us(work, calls):8.1f} us")


def line_of(obj: dict) -> bytes:
    return b'{"type":"MODIFIED","object":' + orjson.dumps(obj) + b"}"


def serve(port_sender) -> None:
    async def main() -> None:
        claim, pod = orjson.dumps(CLAIM), orjson.dumps(POD)

        async def handle(request: web.BaseRequest) -> web.Response:
            await request.read()
            body = claim if "resourceclaims" in request.path else pod if request.method == "PATCH" else b"{}"
            return web.Response(body=body, content_type="application/json")

        runner = web.ServerRunner(web.Server(handle, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port_sender.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    uvloop.run(main())


async def measure_writes(url: str) -> None:
    kinds: dict[str, Callable[[int], Decision]] = {
        "bind": lambda n: BindPod(PodKey("default", f"p{n}"), "u", "node-1", id=WriteId(n + 1)),
        "claim status": lambda n: WriteClaimStatus(
            ClaimKey("default", f"c{n}"), "u", 1, allocation=ALLOCATE.allocation, id=WriteId(n + 1)
        ),
        "pod condition": lambda n: PatchPodStatus(PodKey("default", f"p{n}"), "u", "X", "no", id=WriteId(n + 1)),
    }
    for name, decision in kinds.items():
        answered, done = [0], asyncio.Event()

        def count(_: object, answered=answered, done=done) -> None:
            answered[0] += 1
            if answered[0] == WRITES:
                done.set()

        async with ApiClient(await Connection(url=url, token="t").open()) as client:
            clock = Clock(asyncio.get_running_loop().time)
            events = EventSeries(["r"], "i")
            async with Executor(client, Codec(), clock, count, Reports(), events=events) as executor:
                cpu, begun = cpu_s(), time.perf_counter()
                executor.submit([decision(number) for number in range(WRITES)])
                await done.wait()
                cpu, wall = cpu_s() - cpu, time.perf_counter() - begun
        print(f"{name:24} {cpu / WRITES * 1e6:8.0f} us CPU a write, {WRITES / wall:6.0f} writes/s")
    events = EventSeries(["r"], "i", waiting_max=WRITES, series_max=WRITES, burst=WRITES)
    cpu = cpu_s()
    for number in range(WRITES):
        events.add(RecordEvent("Pod", "d", f"p{number}", "u", "Normal", "Scheduled", "Binding", "assigned"), 1)
        events.next_request(1)
    print(f"{'event, without sending':24} {(cpu_s() - cpu) / WRITES * 1e6:8.0f} us CPU an event")


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    wanted = sys.argv[1:] or ["decode", "write"]
    if "decode" in wanted:
        measure_decoding()
    if "write" in wanted:
        receiver, sender = multiprocessing.Pipe()
        server = multiprocessing.Process(target=serve, args=(sender,), daemon=True)
        server.start()
        try:
            uvloop.run(measure_writes(f"http://127.0.0.1:{receiver.recv()}"))
        finally:
            server.terminate()
            server.join()


if __name__ == "__main__":
    main()
