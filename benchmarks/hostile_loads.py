"""What the ordinary pods of `hostile_cluster.py` have beside them: selectors near the limit, drivers and webhooks that
never answer, thousands of objects, a flood of the health port.

A load is what stands in the cluster before the scheduler starts, and what begins while it runs. All its namespaced
objects are in a namespace of their own, so that the ordinary pods' watch does not see them. Nothing is random.

Not here: the ordinary pods, what is measured (`hostile_cluster`).
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Final

from benchmarks import hostile_patterns
from benchmarks.contenders import ROOT
from benchmarks.fleet import CLASS, DRIVER, Object, node_name
from benchmarks.loads import create_all
from benchmarks.pools import packed_devices, packed_shares
from scheduler.model.gang import GROUP_LABEL, MIN_COUNT_LABEL
from tests.controlplane.cluster import ControlPlane, die_with_parent
from tests.integration.api import Api, ApiError

HOSTILE: Final = "hostile"
"""Namespace of everything a load creates, and the value of its label that webhooks ask for."""

DIGITS: Final = ",".join(str(number) for number in range(28))
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


@dataclass(frozen=True, slots=True)
class HostileLoad:
    """`stage`: objects from the beginning, of that many nodes. `lasts`: it has begun inside of it, and ends with it.

    `fits`: all of its pods fit, and must be bound in the end.
    """

    name: str
    what: str
    lasts: Callable[[Field], AbstractAsyncContextManager[None]]
    nodes: int = 500
    stage: Callable[[int], Iterator[tuple[str, Object]]] = lambda nodes: iter(())
    fits: bool = False


def expensive(value: str) -> str:
    """242 characters, just below what one evaluation may take here, true of every device but one; no two are equal."""
    loops = f"[{DIGITS}].all(a,[{DIGITS}].all(b,[0,1,2,3].all(c,a+b+c+1>=0)))"
    return f"{loops}&&device.attributes['{DRIVER}'].uuid!='{value}'"


# -- objects --------------------------------------------------------------------------------------------------------


def _meta(name: str) -> Object:
    return {"namespace": HOSTILE, "name": name}


def _claim(name: str, *requests: Object) -> tuple[str, Object]:
    return "resourceclaims", {"metadata": _meta(name), "spec": {"devices": {"requests": list(requests)}}}


def _request(name: str, class_name: str = CLASS, **more: object) -> Object:
    return {"name": name, "exactly": {"deviceClassName": class_name, **more}}


def _selectors(*expressions: str) -> list[Object]:
    return [{"cel": {"expression": expression}} for expression in expressions]


def _pod(field: Field, name: str, claim: str | None, limits: Object | None = None) -> tuple[str, Object]:
    resources: Object = {"requests": {"cpu": "10m"}}
    if limits:
        resources = {"requests": {**resources["requests"], **limits}, "limits": limits}
    container: Object = {"name": "main", "image": "registry.example.com/work:1", "resources": resources}
    spec: Object = {
        "schedulerName": field.scheduler_name,
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    if claim is not None:
        resources["claims"] = [{"name": "it"}]
        spec["resourceClaims"] = [{"name": "it", "resourceClaimName": claim}]
    return "pods", {"metadata": _meta(name), "spec": spec}


def _class(name: str, driver: str, **more: object) -> tuple[str, Object]:
    spec = {"selectors": _selectors(f"device.driver == '{driver}'"), **more}
    return "deviceclasses", {"metadata": {"name": name}, "spec": spec}


def _slice(driver: str, node: str, devices: list[Object]) -> tuple[str, Object]:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": devices}
    return "resourceslices", {"metadata": {"name": f"{node}-{driver}"}, "spec": spec}


async def _claims_and_pods(field: Field, claims: list[tuple[str, Object]]) -> None:
    """Claims first, then a pod of the same name for each."""
    await create_all(field.api, iter(claims))
    await create_all(field.api, (_pod(field, item["metadata"]["name"], item["metadata"]["name"]) for _, item in claims))


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


# -- selectors and searches -----------------------------------------------------------------------------------------


def _nothing(field: Field) -> AbstractAsyncContextManager[None]:
    return nullcontext()


@asynccontextmanager
async def _one_selector(field: Field) -> AsyncIterator[None]:
    """One pod that asks for one device more than a node has, each of which the selector must look at."""
    request = _request("gpus", count=9, selectors=_selectors(expensive("x1")))
    await _claims_and_pods(field, [_claim("one-selector", request)])
    yield


@asynccontextmanager
async def _patterns(field: Field) -> AsyncIterator[None]:
    """Pods that ask for one device too many, each with a regular expression that is long to match."""
    claims = []
    for number, (pattern, text) in enumerate(hostile_patterns.WITH_TEXTS.values()):
        ruled_out = f"device.attributes['{DRIVER}'].uuid != 'p{number}'"
        searched = f"{ruled_out} && lists.range(300).exists(i, '{text}'.matches('{pattern}')) || true"
        claims.append(_claim(f"pattern-{number}", _request("gpus", count=9, selectors=_selectors(searched))))
    await _claims_and_pods(field, claims)
    yield


@asynccontextmanager
async def _many_selectors(field: Field) -> AsyncIterator[None]:
    """Two claims of 24 requests with 8 alternatives of 9 such selectors, as many as a claim may have and be stored."""
    numbers = range(field.some(24))
    await _chosen_from(field, "many-selectors", [[[9] * 8 for _ in numbers] for _ in range(2)])
    yield


async def _chosen_from(field: Field, name: str, claims: Sequence[Sequence[Sequence[int]]]) -> None:
    """A pod for each claim; by request and alternative, how many selectors near the limit it has, each its own."""
    names = []
    for number, requests in enumerate(claims):
        made: list[Object] = []
        for request, alternatives in enumerate(requests):
            ways = [
                {
                    "name": f"way-{way}",
                    "deviceClassName": CLASS,
                    "selectors": _selectors(*(expensive(f"{number}-{request}-{way}-{part}") for part in range(count))),
                }
                for way, count in enumerate(alternatives)
            ]
            made.append({"name": f"gpu-{request}", "firstAvailable": ways})
        names.append(f"{name}-{number}")
        await _created(field.api, *_claim(names[-1], *made))
    await create_all(field.api, (_pod(field, one, one) for one in names))


async def _created(api: Api, resource: str, item: Object) -> None:
    """One object that an API server with little CPU to itself may take longer to validate than a request may last."""
    while True:
        try:
            await api.create(resource, item)
            return
        except ApiError as error:
            if error.status == 409:
                return  # stored when it was tried before
            if error.status != 504:
                raise


PACKED: Final = "packed.example.com"


def _packed_stage(nodes: int) -> Iterator[tuple[str, Object]]:
    """Six devices a node that several claims may use; as much in all on each node, never in the same parts."""
    yield _class(PACKED, PACKED)
    for number in range(nodes):
        yield _slice(PACKED, node_name(number), packed_devices(number % 40))


@asynccontextmanager
async def _backtracking(field: Field) -> AsyncIterator[None]:
    """Claims of 20 shares that almost fill a node's six devices, in no way that a search finds soon."""
    await _claims_and_pods(field, [_packed_claim(f"backtracks-{number}", number) for number in range(20)])
    yield


def _packed_claim(name: str, seed: int) -> tuple[str, Object]:
    requests = [
        _request(f"r{index}", PACKED, capacity={"requests": {"memory": share}})
        for index, share in enumerate(packed_shares(seed))
    ]
    return _claim(name, *requests)


# -- groups ---------------------------------------------------------------------------------------------------------


async def _grouped(field: Field, groups: Sequence[Sequence[tuple[str, Object]]]) -> None:
    """Claims, and a pod for each; the pods of one list are a group that needs all of them."""
    for number, claims in enumerate(groups):
        await create_all(field.api, iter(claims))
        pods = []
        for _, claim in claims:
            name = claim["metadata"]["name"]
            resource, pod = _pod(field, name, name)
            pod["metadata"]["labels"] = {GROUP_LABEL: f"group-{number}", MIN_COUNT_LABEL: str(len(claims))}
            pods.append((resource, pod))
        await create_all(field.api, iter(pods))


def _ruling_out(*uuids: str) -> list[Object]:
    """A request for each, for a device with another uuid."""
    return [
        _request(f"r{part}", selectors=_selectors(f"device.attributes['{DRIVER}'].uuid != '{uuid}'"))
        for part, uuid in enumerate(uuids)
    ]


@asynccontextmanager
async def _group_of_eights(field: Field) -> AsyncIterator[None]:
    """128 pods that need each other, each with all devices of a node and selectors of its own: they fit."""
    count = min(field.some(128), field.nodes // 2)
    claims = [
        _claim(f"eight-{number}", *_ruling_out(*(f"x{number}-{part}" for part in range(8)))) for number in range(count)
    ]
    await _grouped(field, [claims])
    yield


@asynccontextmanager
async def _group_of_costly(field: Field) -> AsyncIterator[None]:
    """100 pods that need each other, each with a selector near the cost limit."""
    claims = [
        _claim(f"costly-{number}", _request("gpu", selectors=_selectors(expensive(f"g{number}"))))
        for number in range(field.some(100))
    ]
    await _grouped(field, [claims])
    yield


@asynccontextmanager
async def _ten_groups(field: Field) -> AsyncIterator[None]:
    """Ten groups of 100 pods with six plain selectors each: not all of them fit."""
    groups = [
        [
            _claim(f"six-{group}-{number}", *_ruling_out(*(f"x{group}-{number}-{part}" for part in range(6))))
            for number in range(field.some(100))
        ]
        for group in range(10)
    ]
    await _grouped(field, groups)
    await _arrived(field)
    yield


@asynccontextmanager
async def _group_that_backtracks(field: Field) -> AsyncIterator[None]:
    """Two pods that need each other, with claims as those of `_backtracking`."""
    await _grouped(field, [[_packed_claim(f"packs-{number}", number) for number in range(2)]])
    yield


def _more_pods(uuid: str) -> Callable[[Field], AbstractAsyncContextManager[None]]:
    """300 pods that come while the others do, all of which fit; `uuid` is what their selectors rule out, by number."""

    @asynccontextmanager
    async def lasts(field: Field) -> AsyncIterator[None]:
        count = field.some(300)

        async def come() -> None:
            for number in range(count):
                name = f"job-{number}"
                expression = f"device.attributes['{DRIVER}'].uuid != '{uuid.format(number)}'"
                await _claims_and_pods(field, [_claim(name, _request("gpu", selectors=_selectors(expression)))])
                await asyncio.sleep(field.seconds / count)

        async with _meanwhile(come()):
            yield

    return lasts


# -- constraints and terms ------------------------------------------------------------------------------------------

RACK: Final = "hostile.example.com/rack"
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
    pods = []
    for number in range(0, field.nodes, 2):
        resource, pod = _pod(field, f"there-{number}", None)
        pod["metadata"]["labels"] = {"app": "last"}
        pod["spec"] |= {"nodeName": node_name(number), "affinity": affinity(number)}
        pods.append((resource, pod))
    await create_all(field.api, iter(pods))


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
        resource, pod = _pod(field, f"spread-{number}", None)
        pod["metadata"]["labels"] = {"app": "last"}
        pod["spec"]["topologySpreadConstraints"] = [
            {**one, "topologyKey": key, "labelSelector": selector}
            for key, selector in zip(_KEYS, _apps(number, len(_KEYS)), strict=True)
        ]
        pods.append((resource, pod))
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
        resource, pod = _pod(field, f"apart-{number}", None)
        terms = [{"topologyKey": RACK, "labelSelector": selector} for selector in _apps(number, _TERMS)]
        pod["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        pods.append((resource, pod))
    await create_all(field.api, iter(pods))
    await _arrived(field)
    yield


@asynccontextmanager
async def _large_pods(field: Field) -> AsyncIterator[None]:
    """200 pods of 200 KB, 600 terms of pod affinity each that nobody satisfies, labelled anew five times a second."""

    def terms(number: int) -> Iterator[Object]:
        for index in range(600):
            value = f"{number:05}-{index:05}"
            both = {"key": f"app-{index}", "operator": "In", "values": [f"{value}-{'x' * 40}", f"{value}-{'y' * 40}"]}
            none = {"key": "tier", "operator": "NotIn", "values": [f"{value}-z"]}
            selector = {"matchExpressions": [both, none]}
            yield {"topologyKey": RACK, "labelSelector": selector, "namespaces": [HOSTILE]}

    count = field.some(200)
    pods = []
    for number in range(count):
        resource, pod = _pod(field, f"large-{number}", None)
        affinity = {"requiredDuringSchedulingIgnoredDuringExecution": list(terms(number))}
        pod["spec"]["affinity"] = {"podAffinity": affinity}
        pods.append((resource, pod))
    await create_all(field.api, iter(pods))
    await _arrived(field)

    async def label_again() -> None:
        for number in range(sys.maxsize):
            patch = {"metadata": {"labels": {"round": str(number)}}}
            await field.api.merge_patch("pods", f"large-{number % count}", patch, namespace=HOSTILE)
            await asyncio.sleep(0.2)

    async with _meanwhile(label_again()):
        yield


# -- those who never answer -----------------------------------------------------------------------------------------

ATTACHED: Final = "attached.example.com"


def _attached_stage(nodes: int) -> Iterator[tuple[str, Object]]:
    """A device a node that its driver must attach before a pod is bound; nobody ever does."""
    yield _class(ATTACHED, ATTACHED)
    conditions = {"bindingConditions": [f"{ATTACHED}/ready"], "bindingFailureConditions": [f"{ATTACHED}/failed"]}
    for number in range(nodes):
        yield _slice(ATTACHED, node_name(number), [{"name": "device", **conditions}])


@asynccontextmanager
async def _waiting_for_drivers(field: Field) -> AsyncIterator[None]:
    claims = [_claim(f"waits-{number}", _request("it", ATTACHED)) for number in range(field.some(300))]
    await _claims_and_pods(field, claims)
    await _arrived(field)
    yield


@asynccontextmanager
async def _webhook(field: Field, url: str) -> AsyncIterator[None]:
    """300 pods of a namespace whose claim statuses a webhook must allow."""
    await create_all(field.api, [_claim("probe", _request("gpu"))])
    authority = base64.b64encode(field.cluster.ca_file.read_bytes()).decode()
    rule = {
        "apiGroups": ["resource.k8s.io"],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": ["resourceclaims/status"],
    }
    hook = {
        "name": "quota.example.com",
        "clientConfig": {"url": url, "caBundle": authority},
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
    claims = [_claim(f"quota-{number}", _request("gpu")) for number in range(field.some(300))]
    await _claims_and_pods(field, claims)
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
                return  # it could not be asked, or does not answer
            await asyncio.sleep(0.1)


@asynccontextmanager
async def _webhook_down(field: Field) -> AsyncIterator[None]:
    async with _webhook(field, "https://127.0.0.1:9/"):  # the port "discard", where nobody listens
        yield


@asynccontextmanager
async def _webhook_hangs(field: Field) -> AsyncIterator[None]:
    """Connections are taken, and nothing is ever said on them."""

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.CancelledError):
            while await reader.read(65536):
                pass
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        async with _webhook(field, f"https://127.0.0.1:{port}/"):
            yield
    finally:
        server.close()


# -- many -----------------------------------------------------------------------------------------------------------


def _classes(many: int) -> Callable[[Field], AbstractAsyncContextManager[None]]:
    """Classes with an extended resource each, and 100 pods that ask for some of them; no device is of any."""

    @asynccontextmanager
    async def lasts(field: Field) -> AsyncIterator[None]:
        count = field.some(many)
        items = (
            _class(
                f"class-{number}", f"nobody-{number}.example.com", extendedResourceName=f"example.com/thing-{number}"
            )
            for number in range(count)
        )
        await create_all(field.api, items)
        wanted = range(0, count, max(count // 100, 1))
        pods = (_pod(field, f"thing-{number}", None, {f"example.com/thing-{number}": "1"}) for number in wanted)
        await create_all(field.api, pods)
        await _arrived(field)
        yield

    return lasts


@asynccontextmanager
async def _hopeless(field: Field) -> AsyncIterator[None]:
    """2,000 pods that fit nowhere, while slices are published again five times a second: each could help them."""
    expression = f"device.attributes['{DRIVER}'].model == 'NEVER-MADE'"
    claims = [
        _claim(f"hopeless-{number}", _request("gpu", selectors=_selectors(expression)))
        for number in range(field.some(2000))
    ]
    await _claims_and_pods(field, claims)
    await _arrived(field)

    async def publish_again() -> None:
        number = 0
        while True:
            name = f"{node_name(number % field.nodes)}-devices"
            spec = (await field.api.get("resourceslices", name))["spec"]
            for device in spec["devices"]:
                device["attributes"]["checked"] = {"int": number}
            pool = {**spec["pool"], "generation": spec["pool"]["generation"] + 1}
            patch = {"spec": {"pool": pool, "devices": spec["devices"]}}
            await field.api.merge_patch("resourceslices", name, patch)
            number += 1
            await asyncio.sleep(0.2)

    async with _meanwhile(publish_again()):
        yield


@asynccontextmanager
async def _strings(field: Field) -> AsyncIterator[None]:
    """Names of 253 characters, and texts that a terminal, a log or a page might take for something else."""
    texts = (
        *("\u202egnp.exe", "\x1b[2J\x1b]0;title\x07", "<script>alert(1)</script>", "a\u0300" * 50),
        *("\r\nlevel=error", "' || true || '"),
    )
    made = []
    for number, text in enumerate(texts):
        name = f"{number}-{'x' * 251}"
        quoted = json.dumps(text).replace("'", "\\'")
        looked_for = f"device.attributes['{DRIVER}'].model == {quoted}"
        resource, claim = _claim(name, _request("gpu", selectors=_selectors(looked_for)))
        claim["metadata"]["annotations"] = {"example.com/said": text}
        made.append((resource, claim))
    await _claims_and_pods(field, made)
    unknown = [_claim(f"classless-{number}", _request("gpu", "y" * 253)) for number in range(field.some(50))]
    await _claims_and_pods(field, unknown)
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
        await _chosen_from(field, "widest", [[[32, *[1] * 7]] * field.some(32) for _ in range(2)])
        await stack.enter_async_context(_hopeless(field))
        yield


@asynccontextmanager
async def _flood(field: Field) -> AsyncIterator[None]:
    """8 clients that ask for /metrics without a pause, and 3,000 connections whose request never ends."""
    async with _flooding(field, field.health_port):
        yield


@asynccontextmanager
async def _flood_elsewhere(field: Field) -> AsyncIterator[None]:
    """The same flood of a port that belongs to no scheduler: what clients and the kernel take of two cores."""
    async with _process("--listen") as port, _flooding(field, int(port)):
        yield


@asynccontextmanager
async def _flooding(field: Field, port: int) -> AsyncIterator[None]:
    async with _process(f"--port={port}", "--clients=8", f"--half-open={field.some(3000)}"):
        yield


@asynccontextmanager
async def _process(*arguments: str) -> AsyncIterator[str]:
    """`benchmarks.flood`, and its first line."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.flood", *arguments),
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        preexec_fn=die_with_parent,
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), 30)  # it has begun
        yield line.decode()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


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


LOADS: Final = {
    load.name: load
    for load in (
        HostileLoad("nothing", "none: what the ratio is worth", _nothing),
        HostileLoad("selector-75", "one selector near the cost limit", _one_selector, 75),
        HostileLoad("selector-500", "one selector near the cost limit", _one_selector),
        HostileLoad("selector-5000", "one selector near the cost limit", _one_selector, 5000),
        HostileLoad("selectors-24x8x9", "24 requests x 8 alternatives x 9 such selectors", _many_selectors),
        HostileLoad("patterns", "20 pods, a regular expression each that is long to match", _patterns),
        HostileLoad("backtracking", "20 claims that backtrack", _backtracking, stage=_packed_stage),
        HostileLoad("group-128", "a group of 128 pods of 8 devices, 1,024 selectors", _group_of_eights, fits=True),
        HostileLoad("group-costly", "a group of 100 pods, a selector near the limit each", _group_of_costly, fits=True),
        HostileLoad("groups-10x100", "ten groups of 100 pods of six devices", _ten_groups),
        HostileLoad("group-packed", "a group of two that backtracks", _group_that_backtracks, 24, stage=_packed_stage),
        HostileLoad("drivers", "300 pods waiting for their drivers", _waiting_for_drivers, stage=_attached_stage),
        HostileLoad("webhook-down", "another namespace's webhook is down, 300 pods", _webhook_down),
        HostileLoad("webhook-hangs", "another namespace's webhook hangs, 300 pods", _webhook_hangs),
        HostileLoad("classes", "5,000 device classes, 100 pods that ask for some", _classes(5000)),
        HostileLoad("hopeless", "2,000 hopeless pods, slices that change", _hopeless),
        HostileLoad("distinct-selectors", "300 more pods, a selector each", _more_pods("job-{}")),
        HostileLoad("same-selector", "300 more pods, one selector: the pods' own cost", _more_pods("none")),
        HostileLoad("constraints", "20 pods of 30 spread constraints, 250 values each", _spread),
        HostileLoad("large-pods", "200 pods of 200 KB: 600 terms of pod affinity each", _large_pods),
        HostileLoad("terms", "anti-affinity: 20 pods of 59 terms, 2,500 terms of running pods", _apart),
        HostileLoad("one-user", "10,000 classes, widest claims, strings, 2,000 hopeless: at once", _one_user),
        HostileLoad("flood", "/metrics by 8 clients, 3,000 half-open connections", _flood),
        HostileLoad("flood-elsewhere", "the same flood of a port of no scheduler's", _flood_elsewhere),
    )
}
"""All loads by name, in the table's order."""
