"""How pods come: as a backlog, as a steady stream, in a closed loop, or behind thousands that cannot be placed.

A load sets nothing of the stage up but what it needs itself; it starts the contender and gives back what it measured.
Every run ends with the invariant checker.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from benchmarks.churn import churning, gated_pod
from benchmarks.contenders import Contender, ContenderError, told
from benchmarks.fleet import NAMESPACE, Fleet, Object, Placed
from benchmarks.placed import before, namespaces, volumes
from benchmarks.provisioner import CONTROLLER as VOLUME_CONTROLLER
from benchmarks.provisioner import provisioning
from benchmarks.watching import BoundPods
from tests.controlplane.cluster import CONTROLLERS, ControlPlane
from tests.integration.api import Api, ApiError, connected, path_of
from tests.integration.invariants import State, check

BACKLOG_SECONDS = 900.0
CLAIMS_SECONDS = 600.0
FIRST_SECONDS = 120.0
TAIL_SECONDS = 60.0
CREATING = 48  # requests at once while the stage is set
# Without the garbage collector: nothing is deleted while the clock runs.
UNCOLLECTED = tuple(name for name in CONTROLLERS if name != "garbage-collector-controller")


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of one contender. Times in seconds; `bound` < `pods` says that it did not finish.

    Attributes:
        watch_gaps: How often the harness's own watch was cut for being slow; p50 of such a run is too high.
        wall_s: What the whole run took, with its control plane and its stage.
        rates: Of a search for the highest rate: each rate with its p99 in seconds, and 1.0 when it held.
        samples: Of `stages`: how often our process was seen in each.
    """

    workload: str
    contender: str
    round: int
    pods: int
    bound: int
    pods_per_s: float
    cpu_s: float
    cpu_ms_per_pod: float
    p50_s: float
    p99_s: float
    cluster_cpu_s: float
    resident_mib: float
    violations: int
    watch_gaps: int = 0
    failure: str = ""
    wall_s: float = 0.0
    rates: list[list[float]] = field(default_factory=list)
    samples: dict[str, int] = field(default_factory=dict)


class Load(Protocol):
    """How pods come."""

    @property
    def label(self) -> str:
        """What the table adds to the workload's name, or ""."""
        ...

    async def __call__(self, run: Run) -> Measured: ...


@dataclass(slots=True)
class Run:
    """One run of one contender, and what it and the cluster use between `begin` and `stop`."""

    cluster: ControlPlane
    api: Api
    fleet: Fleet
    one: Contender
    round_number: int
    cpu_s: float = 0.0
    cluster_cpu_s: float = 0.0
    resident_bytes: int = 0

    async def start(self) -> None:
        await self.one.start(self.cluster, self.api, self.fleet)

    def begin(self) -> float:
        """The time."""
        self.cpu_s, self.cluster_cpu_s = -self.one.cpu_seconds(), -cluster_cpu(self.cluster)
        return time.monotonic()

    def stop(self) -> None:
        self.cpu_s += self.one.cpu_seconds()
        self.cluster_cpu_s += cluster_cpu(self.cluster)
        self.resident_bytes = self.one.resident_bytes()

    async def until_all_bound(self, bound: BoundPods, names: Sequence[str], began: float) -> Measured:
        """The result of pods that have come together."""
        failure = ""
        async with sampled(self.one):
            try:
                await bound.wait_names(names, seconds=BACKLOG_SECONDS, check=self.one.check_alive)
            except TimeoutError:
                failure = (
                    f"{sum(name in bound.at for name in names)} of {len(names)} bound after {BACKLOG_SECONDS:.0f} s"
                )
            self.stop()
        took = max([*(bound.at[name] - began for name in names if name in bound.at), 1e-9])
        return await self.result(bound, dict.fromkeys(names, began), took, failure)

    async def result(self, bound: BoundPods, since: Mapping[str, float], took: float, failure: str) -> Measured:
        """Of these pods, each with the time from which it counts; what is not bound counts as long as it has waited."""
        now = time.monotonic()
        ordered = sorted(bound.at.get(name, now) - at for name, at in since.items())
        done = sum(name in bound.at for name in since)
        return Measured(
            workload=self.fleet.workload.name,
            contender=self.one.name,
            round=self.round_number,
            pods=len(since),
            bound=done,
            pods_per_s=done / took,
            cpu_s=self.cpu_s,
            cpu_ms_per_pod=1000 * self.cpu_s / max(done, 1),
            p50_s=quantile(ordered, 0.50),
            p99_s=quantile(ordered, 0.99),
            cluster_cpu_s=self.cluster_cpu_s,
            resident_mib=self.resident_bytes / 2**20,
            violations=await count_violations(self.api, NAMESPACE),
            watch_gaps=bound.interruptions,
            failure=failure,
        )

    def failed(self, text: str) -> Measured:
        nothing = (0.0,) * 7
        names = (self.fleet.workload.name, self.one.name, self.round_number)
        return Measured(*names, self.fleet.size.pods, 0, *nothing, violations=0, failure=text)


async def measure(fleet: Fleet, one: Contender, round_number: int, load: Load, name: str = "") -> Measured:
    """A fresh control plane, the stage, the run, the check. `name` is what the table calls it."""
    began = time.monotonic()
    name = name or f"{fleet.workload.name}{load.label}"
    controllers = [*(CONTROLLERS if fleet.workload.collected else UNCOLLECTED)]
    if fleet.workload.volume:
        controllers.append(VOLUME_CONTROLLER)
    with ControlPlane(controllers=controllers, feature_gates=dict.fromkeys(fleet.workload.gates, True)) as cluster:
        context = cluster.ssl_context()
        async with connected(cluster.url, cluster.admin_token, context, limit=CREATING + 4) as api:
            await set_stage(api, fleet)
            run = Run(cluster, api, fleet, one, round_number)
            try:
                result = await load(run)
            except (ContenderError, TimeoutError, ApiError, ExceptionGroup) as error:
                result = run.failed(told(error))
            finally:
                await asyncio.to_thread(one.stop)
    return replace(result, workload=name, wall_s=time.monotonic() - began)


async def set_stage(api: Api, fleet: Fleet) -> None:
    """Nodes, slices, classes, namespace, templates, shared claims, and what is taken before."""
    await create_all(api, (("namespaces", item) for item in namespaces(fleet)))
    await create_all(api, (("nodes", node) for node in fleet.nodes()))
    await create_all(api, (("resourceslices", item) for item in fleet.slices()))
    await create_all(api, (("deviceclasses", item) for item in fleet.device_classes()))
    await create_all(api, (("storageclasses", item) for item in fleet.storage_classes()))
    await create_all(api, (("resourceclaimtemplates", item) for item in fleet.templates()))
    await create_all(api, (("resourceclaims", item) for item in fleet.shared_claims()))
    await create_all(api, (("priorityclasses", item) for item in fleet.priority_classes()))
    await place_all(api, fleet.taken())
    await create_all(api, before(fleet))
    await place_all(api, fleet.victims())


async def create_all(api: Api, objects: Iterable[tuple[str, Object]]) -> None:
    waiting = iter(objects)

    async def creator() -> None:
        for resource, item in waiting:
            await api.create(resource, item)

    async with asyncio.TaskGroup() as group:
        for _ in range(CREATING):
            group.create_task(creator())


async def place_all(api: Api, placed: Iterable[Placed]) -> None:
    """Pods on their nodes, with claims that are allocated and reserved for them."""
    waiting = iter(placed)

    async def placer() -> None:
        for pod, claim, status in waiting:
            if claim is not None:
                await api.create("resourceclaims", claim)
            made = await api.create("pods", pod) if pod is not None else None
            if claim is None:
                continue
            name, more = claim["metadata"]["name"], {}
            if made is not None:
                more = {"reservedFor": [{"resource": "pods", "name": name, "uid": made["metadata"]["uid"]}]}
            await api.merge_patch("resourceclaims", name, {"status": {**status, **more}}, NAMESPACE, "status")

    async with asyncio.TaskGroup() as group:
        for _ in range(CREATING):
            group.create_task(placer())


# -- a backlog ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Backlog:
    """All pods wait, with their claims; the contender is started; until the last is bound.

    Less important pods that have their places end at once when they are deleted, as no kubelet runs; the first write is
    then about one of these.
    """

    label: str = ""

    async def __call__(self, run: Run) -> Measured:
        api, fleet, one = run.api, run.fleet, run.one
        names = [pod_name(number) for number in range(fleet.size.pods)]
        if fleet.workload.volume:
            await create_all(api, (("persistentvolumeclaims", fleet.volume_claim(name)) for name in names))
        if fleet.workload.bound_volume:
            await create_all(api, volumes(fleet, names, NAMESPACE))
        await create_all(api, (("pods", fleet.pod(name, one.scheduler_name)) for name in names))
        if fleet.has_generated_claims:
            await claims_generated(api, -(-len(names) // fleet.workload.every))
        async with (
            BoundPods(api) as bound,
            provisioning(api, bound.first_write) if fleet.workload.volume else nullcontext(),
        ):
            await run.start()
            try:
                began = await bound.wait_begin(seconds=FIRST_SECONDS, check=one.check_alive)
            except TimeoutError:
                raise ContenderError(f"nothing written within {FIRST_SECONDS:.0f} s of its start") from None
            run.begin()
            return await run.until_all_bound(bound, names, began)


async def claims_generated(api: Api, count: int) -> None:
    """Until kube-controller-manager has made all claims and named them in the pods."""
    async with asyncio.timeout(CLAIMS_SECONDS):
        while True:
            pods = await api.list("pods", NAMESPACE)
            ready = sum(1 for pod in pods if (pod.get("status") or {}).get("resourceClaimStatuses"))
            if ready >= count:
                return
            await asyncio.sleep(min(0.2 + (count - ready) / 1000, 2))


# -- a steady stream ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Steady:
    """Pods arrive at `rate` a second for `seconds`; each goes when it is bound, or stays.

    To delete a pod and its claim costs the cluster about as much as to schedule it.
    """

    rate: float
    seconds: float
    stay: bool = False

    @property
    def label(self) -> str:
        return f" at {self.rate:g}/s" + (", pods stay" if self.stay else "")

    async def __call__(self, run: Run) -> Measured:
        moments = [number / self.rate for number in range(round(self.rate * self.seconds))]
        async with BoundPods(run.api) as bound:
            await run.start()
            await warm_up(run.api, run.fleet, run.one, bound)
            return await stream(run, bound, moments, lives_s=None if self.stay else 0.0)


async def stream(
    run: Run,
    bound: BoundPods,
    moments: Sequence[float],
    *,
    lives_s: float | None,
    lead_s: float = 0.0,
    tail_s: float = TAIL_SECONDS,
) -> Measured:
    """A pod at each of these moments, in seconds from now, to a running contender; what comes after `lead_s` counts.

    Each is deleted `lives_s` after its binding (None: it stays). The last ones are waited for so long as `tail_s`.
    """
    begin = time.monotonic() + lead_s
    asyncio.get_running_loop().call_later(lead_s, run.begin)
    async with asyncio.TaskGroup() as group:
        remover = None if lives_s is None else group.create_task(remove_bound(run.api, bound, lives_s))
        due = ((pod_name(number), at) for number, at in enumerate(moments))
        since = await arrive(run.api, run.fleet, run.one, bound, due, tail_s)
        if remover is not None:
            remover.cancel()
    took = time.monotonic() - begin
    run.stop()
    since = {name: at for name, at in since.items() if at >= begin}
    missing = sum(name not in bound.at for name in since)
    failure = f"{missing} of {len(since)} not bound {tail_s:.0f} s after the last came" if missing else ""
    return await run.result(bound, since, took, failure)


async def arrive(
    api: Api, fleet: Fleet, one: Contender, bound: BoundPods, due: Iterable[tuple[str, float]], tail_s: float
) -> dict[str, float]:
    """Create pods, each so many seconds from now; until all are bound, or `tail_s` after the last came.

    Returns when each was due: what holds up the harness counts, too.
    """
    since: dict[str, float] = {}
    begin = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for name, at in due:
            since[name] = begin + at
            await asyncio.sleep(max(since[name] - time.monotonic(), 0))
            group.create_task(api.create("pods", fleet.pod(name, one.scheduler_name)))
    with suppress(TimeoutError):
        await bound.wait_names(since, seconds=tail_s, check=one.check_alive)
    return since


async def warm_up(api: Api, fleet: Fleet, one: Contender, bound: BoundPods) -> None:
    for number in range(5):
        name = f"warm-up-{number}"
        await api.create("pods", fleet.pod(name, one.scheduler_name))
        await bound.wait_names([name], seconds=FIRST_SECONDS, check=one.check_alive)
        await api.delete("pods", name, NAMESPACE)


async def remove_bound(api: Api, bound: BoundPods, lives_s: float = 0.0) -> None:
    """Delete each pod of the stream so long after it is bound: the cluster stays as full as it was."""

    async def remove(name: str) -> None:
        await asyncio.sleep(lives_s)
        await api.delete("pods", name, NAMESPACE)

    async with asyncio.TaskGroup() as group:
        async for name in bound.names():
            if name.startswith("pod-"):
                group.create_task(remove(name))


# -- a closed loop --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Loop:
    """`pods` at a time for `seconds`: each is deleted when it is bound, and another comes.

    As scheduler_perf's `steadyState`.
    """

    pods: int
    seconds: float

    @property
    def label(self) -> str:
        return f", {self.pods} at a time"

    async def __call__(self, run: Run) -> Measured:
        api, fleet, one = run.api, run.fleet, run.one
        created: dict[str, float] = {}
        async with BoundPods(api) as bound:
            await run.start()
            await warm_up(api, fleet, one, bound)
            begin = run.begin()

            async def worker() -> None:
                while time.monotonic() - begin < self.seconds:
                    name = pod_name(len(created))
                    created[name] = time.monotonic()
                    await api.create("pods", fleet.pod(name, one.scheduler_name))
                    await bound.wait_names([name], seconds=TAIL_SECONDS, check=one.check_alive)
                    await api.delete("pods", name, NAMESPACE)

            failure = ""
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(self.pods):
                        group.create_task(worker())
            except* TimeoutError:
                failure = f"a pod was not bound within {TAIL_SECONDS:.0f} s"
            took = time.monotonic() - begin
            run.stop()
            return await run.result(bound, created, took, failure)


# -- behind pods that cannot be placed -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Arriving:
    """All pods are created at once in front of a running contender, behind `waiting` that no node fits.

    Compare it with itself at `waiting` 0: the creation is part of the time. With `foreign` those pods name another
    scheduler: what they cost then they cost the cluster, whoever schedules. With `gated` they are gated instead.

    Args:
        churn: What comes, and goes, all the time meanwhile (`churn.KINDS`), or "".
    """

    waiting: int = 0
    foreign: bool = False
    gated: bool = False
    churn: str = ""

    @property
    def label(self) -> str:
        if self.churn or self.gated:
            return " arriving" + (f", {self.waiting} gated" if self.gated else "")
        return f" arriving, {self.waiting} " + ("of another scheduler" if self.foreign else "waiting")

    async def __call__(self, run: Run) -> Measured:
        api, fleet, one = run.api, run.fleet, run.one
        names = [f"hopeless-{number:05}" for number in range(self.waiting)]
        scheduler_name = "nobody" if self.foreign else one.scheduler_name
        made = gated_pod if self.gated else fleet.hopeless_pod
        await create_all(api, (("pods", made(name, scheduler_name)) for name in names))
        if self.waiting and not self.gated:
            await claims_generated(api, self.waiting)
        async with BoundPods(api) as bound, churning(api, self.churn, one.scheduler_name):
            await run.start()
            await warm_up(api, fleet, one, bound)
            await _all_refused(api, one, 0 if self.foreign or self.gated else self.waiting)
            began = run.begin()
            wanted = [pod_name(number) for number in range(fleet.size.pods)]
            await create_all(api, (("pods", fleet.pod(name, one.scheduler_name)) for name in wanted))
            return await run.until_all_bound(bound, wanted, began)


async def _all_refused(api: Api, one: Contender, count: int) -> None:
    """Until the contender has said of `count` pods that no node fits them."""
    async with asyncio.timeout(BACKLOG_SECONDS):
        while count:
            one.check_alive()
            pods = await api.list("pods", NAMESPACE)
            told = sum(1 for pod in pods if (pod.get("status") or {}).get("conditions"))
            if told >= count:
                return
            await asyncio.sleep(2)


# -- results --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def sampled(one: Contender) -> AsyncIterator[None]:
    """Bare writes end with their work; their CPU time must be read while they run."""

    async def sample() -> None:
        while True:
            one.cpu_seconds()
            await asyncio.sleep(0.02)

    task = asyncio.create_task(sample())
    try:
        yield
    finally:
        task.cancel()


def cluster_cpu(cluster: ControlPlane) -> float:
    """What API server, etcd and controllers have used."""
    return sum(cluster.component(name).cpu_seconds() for name in ("etcd", "kube-apiserver", "kube-controller-manager"))


async def count_violations(api: Api, *namespaces: str) -> int:
    """What the invariant checker says of the pods and claims of these namespaces together."""
    pods: list[Object] = []
    claims: list[Object] = []
    revisions: dict[str, int] = {}
    for namespace in namespaces:
        listed = await api.request("GET", path_of("pods", namespace))
        revisions[namespace] = int(listed["metadata"]["resourceVersion"])
        pods += listed.get("items") or []
        claims += await api.list("resourceclaims", namespace)
    slices, nodes = await api.list("resourceslices"), await api.list("nodes")
    state = State(pods=pods, claims=claims, slices=slices, nodes=nodes)
    found = check(state)
    if found:
        stored = [await _as_of(api, claim, revisions[claim["metadata"]["namespace"]]) for claim in claims]
        found = check(replace(state, claims=stored))
        print(f"{len(found)} violations are left when claims are read one by one", file=sys.stderr)
    for violation in found[:5]:
        print(f"VIOLATION {violation}", file=sys.stderr)
    return len(found)


async def _as_of(api: Api, claim: Object, revision: int) -> Object:
    """The claim when pods were listed, read from etcd.

    Right after thousands of writes the API server has been seen to answer a list of claims from a cache that was half a
    second behind. Reading one object goes past the cache; what changed after the revision stays as it was listed.
    """
    metadata = claim["metadata"]
    read = await api.get("resourceclaims", metadata["name"], metadata["namespace"])
    return read if int(read["metadata"]["resourceVersion"]) <= revision else claim


def quantile(times: Sequence[float], share: float) -> float:
    """Of sorted times; 0 of none."""
    return times[min(int(len(times) * share), len(times) - 1)] if times else 0.0


def pod_name(number: int) -> str:
    return f"pod-{number:05}"
