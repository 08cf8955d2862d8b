"""What ordinary pods have beside them (`benchmarks.hostile`), or a machine alone (`benchmarks.budget`): selectors near
the limit, claims that backtrack, a webhook that never answers, thousands of objects, a flood of the health port.

A load is what stands in the cluster before the scheduler starts, and what begins while it runs. All its namespaced
objects are in a namespace of their own, so that the ordinary pods' watch does not see them. Nothing is random.

Not here: the ordinary pods, what is measured.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from benchmarks.contenders import ROOT
from benchmarks.fleet import CLASS, DRIVER, Object, node_name
from benchmarks.loads import create_all
from benchmarks.pools import packed_devices, packed_shares
from scheduler.model.group import GROUP_LABEL, MIN_COUNT_LABEL
from tests.controlplane.cluster import ControlPlane, die_with_parent
from tests.integration.api import Api, ApiError

HOSTILE: Final = "hostile"
"""Namespace of everything a load creates, and the value of its label that webhooks ask for."""
PACKED: Final = "packed.example.com"
RACK: Final = "hostile.example.com/rack"
DIGITS: Final = ",".join(map(str, range(28)))
UUID: Final = f"device.attributes['{DRIVER}'].uuid"
_EFFECTIVE_SECONDS: Final = 20.0
_ARRIVAL_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class Field:
    """Where a load acts.

    Attributes:
        seconds: how long the ordinary pods will come while it lasts.
        scale: 1, or less for a quick run: `some` counts what a load has many of.
    """

    cluster: ControlPlane
    api: Api
    scheduler_name: str
    health_port: int
    nodes: int
    seconds: float
    scale: float

    def some(self, count: int) -> int:
        return max(int(count * self.scale), 2)


Lasts: TypeAlias = Callable[[Field], AbstractAsyncContextManager[None]]


@dataclass(frozen=True, slots=True)
class HostileLoad:
    """`stage`: objects from the beginning, of that many nodes. `lasts`: it has begun inside of it, and ends with it."""

    name: str
    what: str
    lasts: Lasts
    nodes: int = 500
    stage: Callable[[int], Iterator[tuple[str, Object]]] = lambda nodes: iter(())


# -- what claims ask for --------------------------------------------------------------------------------------------


def expensive(value: str) -> str:
    """242 characters, just below what one evaluation may take here, true of every device but one; no two are equal."""
    return f"[{DIGITS}].all(a,[{DIGITS}].all(b,[0,1,2,3].all(c,a+b+c+1>=0)))&&{UUID}!='{value}'"


def asking(*requests: Object) -> Object:
    """The spec of a claim."""
    return {"devices": {"requests": list(requests)}}


def request(name: str, *expressions: str, class_name: str = CLASS, **more: object) -> Object:
    if expressions:
        more["selectors"] = [{"cel": {"expression": expression}} for expression in expressions]
    return {"name": name, "exactly": {"deviceClassName": class_name, **more}}


def one_selector() -> list[Object]:
    """One device more than a node has, each of which the selector must look at."""
    return [asking(request("gpus", expensive("x1"), count=9))]


def of_alternatives(claim: int, requests: int, ways: Iterable[int]) -> Object:
    """Requests with so many alternatives, each with so many selectors near the limit, each its own."""
    made = []
    for number in range(requests):
        alternatives = []
        for way, count in enumerate(ways):
            texts = (expensive(f"{claim}-{number}-{way}-{part}") for part in range(count))
            alternatives.append({"name": f"way-{way}", **request("", *texts)["exactly"]})
        made.append({"name": f"gpu-{number}", "firstAvailable": alternatives})
    return asking(*made)


def packed(count: int = 20) -> list[Object]:
    """Claims of 20 shares that almost fill a node's six devices, in no way that a search finds soon."""
    return [
        asking(
            *(
                request(f"r{index}", class_name=PACKED, capacity={"requests": {"memory": share}})
                for index, share in enumerate(packed_shares(seed))
            )
        )
        for seed in range(count)
    ]


def ruling_out(*uuids: str) -> Object:
    """A request for each, for a device with another uuid."""
    return asking(*(request(f"r{part}", f"{UUID} != '{uuid}'") for part, uuid in enumerate(uuids)))


def of_a_group(group: int, size: int) -> list[Object]:
    """The claims of one of ten groups, six plain selectors each."""
    return [ruling_out(*(f"x{group}-{number}-{part}" for part in range(6))) for number in range(size)]


# -- objects --------------------------------------------------------------------------------------------------------


def _meta(name: str) -> Object:
    return {"namespace": HOSTILE, "name": name}


def _pod(field: Field, name: str, *, claim: str | None = None, limits: Object | None = None) -> tuple[str, Object]:
    resources: Object = {"requests": {"cpu": "10m", **(limits or {})}, "limits": limits or {}}
    spec: Object = {
        "schedulerName": field.scheduler_name,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "registry.example.com/work:1", "resources": resources}],
    }
    if claim is not None:
        resources["claims"] = [{"name": "it"}]
        spec["resourceClaims"] = [{"name": "it", "resourceClaimName": claim}]
    return "pods", {"metadata": _meta(name), "spec": spec}


def _class(name: str, driver: str, **more: object) -> tuple[str, Object]:
    selectors = [{"cel": {"expression": f"device.driver == '{driver}'"}}]
    return "deviceclasses", {"metadata": {"name": name}, "spec": {"selectors": selectors, **more}}


def _packed_stage(nodes: int) -> Iterator[tuple[str, Object]]:
    """Six devices a node that several claims may use; as much in all on each node, never in the same parts."""
    yield _class(PACKED, PACKED)
    for number in range(nodes):
        name = node_name(number)
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": PACKED, "nodeName": name, "pool": pool, "devices": packed_devices(number % 40)}
        yield "resourceslices", {"metadata": {"name": f"{name}-{PACKED}"}, "spec": spec}


async def _claims_and_pods(field: Field, name: str, specs: Iterable[Object], labels: Object | None = None) -> None:
    """Claims first, then a pod of the same name for each."""
    claims = {f"{name}-{number}": spec for number, spec in enumerate(specs)}
    async with asyncio.TaskGroup() as group:
        for one, spec in claims.items():
            group.create_task(_created(field.api, {"metadata": _meta(one), "spec": spec}))
    pods = [_pod(field, one, claim=one) for one in claims]
    for _, pod in pods:
        pod["metadata"]["labels"] = labels or {}
    await create_all(field.api, iter(pods))


async def _created(api: Api, claim: Object) -> None:
    """A claim that an API server with little CPU to itself may take longer to validate than a request may last."""
    while True:
        try:
            await api.create("resourceclaims", claim)
            return
        except ApiError as error:
            if error.status == 409:
                return  # stored when it was tried before
            if error.status != 504:
                raise


async def _arrived(field: Field) -> None:
    """Until each of the load's pods is bound or has been told why not, or some seconds have passed.

    What many pods cost a cluster when they come at once is no part of what they cost others while they wait.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(_ARRIVAL_SECONDS):
            while True:
                pods = await field.api.list("pods", HOSTILE)
                if all(pod["spec"].get("nodeName") or (pod.get("status") or {}).get("conditions") for pod in pods):
                    return
                await asyncio.sleep(1)


@asynccontextmanager
async def _meanwhile(work: object) -> AsyncIterator[None]:
    """`work` runs until the end of the block; what ended it early is raised there."""
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


# -- selectors and searches -----------------------------------------------------------------------------------------


def _waiting(name: str, specs: Callable[[Field], Iterable[Object]]) -> Lasts:
    """Pods with claims of these specs."""

    @asynccontextmanager
    async def lasts(field: Field) -> AsyncIterator[None]:
        await _claims_and_pods(field, name, specs(field))
        yield

    return lasts


@asynccontextmanager
async def _ten_groups(field: Field) -> AsyncIterator[None]:
    """Ten groups of 100 pods with six plain selectors each: not all of them fit."""
    size = field.some(100)
    for group in range(10):
        labels = {GROUP_LABEL: f"group-{group}", MIN_COUNT_LABEL: str(size)}
        await _claims_and_pods(field, f"six-{group}", of_a_group(group, size), labels)
    await _arrived(field)
    yield


@asynccontextmanager
async def _more_pods(field: Field) -> AsyncIterator[None]:
    """300 pods that come while the others do, all of which fit, each with a selector of its own."""
    count = field.some(300)

    async def come() -> None:
        for number in range(count):
            await _claims_and_pods(field, f"job-{number}", [ruling_out(f"job-{number}")])
            await asyncio.sleep(field.seconds / count)

    async with _meanwhile(come()):
        yield


# -- constraints and terms ------------------------------------------------------------------------------------------

_KEYS: Final = (RACK, *(f"{RACK}-{number}" for number in range(1, 30)))
"""An API server takes one constraint of a kind for a label; with the labels a pod may have two more."""
_TERMS: Final = 59
"""With the label they are about."""


async def _racks(field: Field, affinity: Callable[[int], Object]) -> None:
    """Labels of which two nodes each share a value, and a pod on each rack that is there already."""
    async with asyncio.TaskGroup() as group:
        for number in range(field.nodes):
            labels = dict.fromkeys(_KEYS, f"rack-{number // 2}")
            group.create_task(field.api.merge_patch("nodes", node_name(number), {"metadata": {"labels": labels}}))
    more = (
        (number, {"nodeName": node_name(number), "affinity": affinity(number)}) for number in range(0, field.nodes, 2)
    )
    await create_all(field.api, (_last_pod(field, f"there-{number}", spec) for number, spec in more))


def _last_pod(field: Field, name: str, spec: Object) -> tuple[str, Object]:
    """A pod of the app that the last of `_apps` means."""
    resource, pod = _pod(field, name)
    pod["metadata"]["labels"] = {"app": "last"}
    pod["spec"] |= spec
    return resource, pod


def _apps(number: int, count: int) -> Iterator[Object]:
    """Selectors, of which only the last one means a pod."""
    for index in range(count - 1):
        yield {"matchLabels": {"app": f"app-{number}-{index}"}}
    yield {"matchLabels": {"app": "last"}}


@asynccontextmanager
async def _spread(field: Field) -> AsyncIterator[None]:
    """20 pods that fit nowhere by the last of 30 spread constraints, each asked about every rack."""
    await _racks(field, lambda number: {})
    one = {"maxSkew": 1, "minDomains": 1_000_000, "whenUnsatisfiable": "DoNotSchedule"}
    pods = []
    for number in range(20):
        pairs = zip(_KEYS, _apps(number, len(_KEYS)), strict=True)
        constraints = [{**one, "topologyKey": key, "labelSelector": selector} for key, selector in pairs]
        pods.append(_last_pod(field, f"spread-{number}", {"topologySpreadConstraints": constraints}))
    await create_all(field.api, iter(pods))
    await _arrived(field)
    yield


@asynccontextmanager
async def _apart(field: Field) -> AsyncIterator[None]:
    """Running pods with ten distinct terms each that mean every pod there is, and 20 that fit nowhere by 59 terms."""

    def everybody(number: int) -> Object:
        terms = [
            {"matchExpressions": [{"key": f"no-{number}-{part}", "operator": "DoesNotExist"}]} for part in range(10)
        ]
        term = {"topologyKey": RACK, "namespaceSelector": {}}
        preferred = [{"weight": 1, "podAffinityTerm": {**term, "labelSelector": selector}} for selector in terms]
        return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}

    await _racks(field, everybody)
    pods = []
    for number in range(20):
        resource, pod = _pod(field, f"apart-{number}")
        terms = [{"topologyKey": RACK, "labelSelector": selector} for selector in _apps(number, _TERMS)]
        pod["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        pods.append((resource, pod))
    await create_all(field.api, iter(pods))
    await _arrived(field)
    yield


# -- those who never answer -----------------------------------------------------------------------------------------


@asynccontextmanager
async def _webhook_down(field: Field) -> AsyncIterator[None]:
    """300 pods of a namespace whose claim statuses a webhook must allow, at a port where nobody listens."""
    await create_all(field.api, [("resourceclaims", {"metadata": _meta("probe"), "spec": asking(request("gpu"))})])
    authority = base64.b64encode(field.cluster.ca_file.read_bytes()).decode()
    rule = {
        "apiGroups": ["resource.k8s.io"],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": ["resourceclaims/status"],
    }
    hook = {
        "name": "quota.example.com",
        "clientConfig": {"url": "https://127.0.0.1:9/", "caBundle": authority},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"name": HOSTILE}},
        "failurePolicy": "Fail",
        "timeoutSeconds": 10,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    await field.api.request("POST", path, {"metadata": {"name": "quota"}, "webhooks": [hook]})
    await _refused(field.api)
    await _claims_and_pods(field, "quota", [asking(request("gpu"))] * field.some(300))
    await _arrived(field)
    yield


async def _refused(api: Api) -> None:
    """Until the API server asks the webhook: it takes a second to notice that there is one."""
    async with asyncio.timeout(_EFFECTIVE_SECONDS):
        while True:
            nothing: Object = {"status": {}}
            try:
                await asyncio.wait_for(api.merge_patch("resourceclaims", "probe", nothing, HOSTILE, "status"), 1)
            except (ApiError, TimeoutError):
                return  # it could not be asked
            await asyncio.sleep(0.1)


# -- many -----------------------------------------------------------------------------------------------------------


def _classes(many: int) -> Lasts:
    """Classes with an extended resource each, and 100 pods that ask for some of them; no device is of any."""

    @asynccontextmanager
    async def lasts(field: Field) -> AsyncIterator[None]:
        count = field.some(many)
        things = {number: f"example.com/thing-{number}" for number in range(count)}
        classes = (
            _class(f"class-{number}", f"nobody-{number}.example.com", extendedResourceName=name)
            for number, name in things.items()
        )
        await create_all(field.api, classes)
        wanted = range(0, count, max(count // 100, 1))
        await create_all(field.api, (_pod(field, f"thing-{one}", limits={things[one]: "1"}) for one in wanted))
        await _arrived(field)
        yield

    return lasts


@asynccontextmanager
async def _hopeless(field: Field) -> AsyncIterator[None]:
    """2,000 pods that fit nowhere, while slices are published again five times a second: each could help them."""
    spec = asking(request("gpu", f"device.attributes['{DRIVER}'].model == 'NEVER-MADE'"))
    await _claims_and_pods(field, "hopeless", [spec] * field.some(2000))
    await _arrived(field)

    async def publish_again() -> None:
        for number in range(sys.maxsize):
            name = f"{node_name(number % field.nodes)}-devices"
            spec = (await field.api.get("resourceslices", name))["spec"]
            for device in spec["devices"]:
                device["attributes"]["checked"] = {"int": number}
            pool = {**spec["pool"], "generation": spec["pool"]["generation"] + 1}
            await field.api.merge_patch("resourceslices", name, {"spec": {"pool": pool, "devices": spec["devices"]}})
            await asyncio.sleep(0.2)

    async with _meanwhile(publish_again()):
        yield


@asynccontextmanager
async def _strings(field: Field) -> AsyncIterator[None]:
    """Names of 251 characters, and texts that a terminal, a log or a page might take for something else."""
    texts = (
        *("\u202egnp.exe", "\x1b[2J\x1b]0;title\x07", "<script>alert(1)</script>", "a\u0300" * 50),
        *("\r\nlevel=error", "' || true || '"),
    )
    quoted = (json.dumps(text).replace("'", "\\'") for text in texts)
    specs = [asking(request("gpu", f"device.attributes['{DRIVER}'].model == {text}")) for text in quoted]
    await _claims_and_pods(field, "x" * 249, specs)
    await _claims_and_pods(field, "classless", [asking(request("gpu", class_name="y" * 253))] * field.some(50))
    yield


@asynccontextmanager
async def _one_user(field: Field) -> AsyncIterator[None]:
    """All that one namespace can think of, at once; claims are as large as a server stores them.

    32 requests x 8 alternatives x 32 selectors near the limit are more than the 1.5 MiB of an object: one alternative
    of each request has 32 of them here, the other seven have one each.
    """
    async with AsyncExitStack() as stack:
        for load in (_strings, _classes(10_000)):
            await stack.enter_async_context(load(field))
        widest = [of_alternatives(claim, field.some(32), [32, *[1] * 7]) for claim in range(2)]
        await _claims_and_pods(field, "widest", widest)
        await stack.enter_async_context(_hopeless(field))
        yield


@asynccontextmanager
async def _flood(field: Field) -> AsyncIterator[None]:
    """8 clients that ask for /metrics without a pause, and 3,000 connections whose request never ends."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.flood", f"--port={field.health_port}", f"--half-open={field.some(3000)}"),
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        preexec_fn=die_with_parent,
    )
    try:
        assert process.stdout is not None
        await asyncio.wait_for(process.stdout.readline(), 30)  # it has begun
        yield
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _wide(field: Field) -> list[Object]:
    """As many as a claim may have and be stored."""
    return [of_alternatives(claim, field.some(24), [9] * 8) for claim in range(2)]


LOADS: Final = {
    load.name: load
    for load in (
        HostileLoad("nothing", "none: what the ratio is worth", lambda field: nullcontext()),
        HostileLoad(
            "selector-5000", "one selector near the cost limit", _waiting("one", lambda field: one_selector()), 5000
        ),
        HostileLoad("selectors-24x8x9", "24 requests x 8 alternatives x 9 such selectors", _waiting("many", _wide)),
        HostileLoad(
            "backtracking", "20 claims that backtrack", _waiting("packs", lambda field: packed()), stage=_packed_stage
        ),
        HostileLoad("groups-10x100", "ten groups of 100 pods of six devices", _ten_groups),
        HostileLoad("webhook-down", "another namespace's webhook is down, 300 pods", _webhook_down),
        HostileLoad("classes", "5,000 device classes, 100 pods that ask for some", _classes(5000)),
        HostileLoad("distinct-selectors", "300 more pods, a selector each", _more_pods),
        HostileLoad("constraints", "20 pods of 30 spread constraints, 250 values each", _spread),
        HostileLoad("terms", "anti-affinity: 20 pods of 59 terms, 2,500 terms of running pods", _apart),
        HostileLoad("one-user", "10,000 classes, widest claims, strings, 2,000 hopeless: at once", _one_user),
        HostileLoad("flood", "/metrics by 8 clients, 3,000 half-open connections", _flood),
    )
}
"""All loads by name, in the table's order."""
