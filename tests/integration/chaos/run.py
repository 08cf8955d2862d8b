"""One chaos run: a control plane, instances behind proxies, the pods, the faults, and what is checked all the while.

    report = await run(Settings(minutes=20, pods=10_000, seed=1), folder, print)

The order: pods come and go while faults happen; then nothing is done to anybody any more, more pods come than there are
free devices, and whoever waits then must be one for whom there is no room; then everybody goes, so everybody is bound.

Not here: what is done (`faults`, `workload`), what is judged (`judging`, `ledger`, `tests.integration.invariants`).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from tests.controlplane.audit import AuditLog, token_id
from tests.controlplane.cluster import CONTROLLERS, ControlPlane
from tests.controlplane.fault_proxy import FaultProxy
from tests.integration.api import Api, connected
from tests.integration.chaos.faults import Faults
from tests.integration.chaos.instances import Instance
from tests.integration.chaos.judging import Quarters, Stock, could_run, free_devices, growing, quarters
from tests.integration.chaos.ledger import AUDITED, Ledger, Writes
from tests.integration.chaos.patience import changes, same_moment
from tests.integration.chaos.schedule import KINDS, Planned, draw
from tests.integration.chaos.workload import DEVICES_A_POD, OTHER_NAME, THEIRS_EVERY, Workload
from tests.integration.conftest import real_world, with_manifests
from tests.integration.invariants import State, check
from tests.integration.world import SCHEDULER_NAME, World

VOLUME_CONTROLLERS: Final = (
    *("persistentvolume-binder-controller", "persistentvolume-protection-controller"),
    "persistentvolumeclaim-protection-controller",
)
INSTANCES: Final = 3
DEVICES_A_NODE: Final = 8
DEMAND: Final = 0.6  # of all devices, when everybody is bound at once; with more, pods that wait grow in number
MORE_THAN_FREE: Final = 10
JUDGED_S: Final = 120.0  # a process that has lived less is still filling its caches
_LOOK_S: Final = 0.25
_OVER_S: Final = 120.0  # for what is under way when its time is over


@dataclass(frozen=True, slots=True)
class Settings:
    """Attributes:
    fault_every_s: On average; each kind comes at least once whatever this says.
    lease_s: The lease's duration; renewed until two thirds of it, tried every 2/15.
    patience_s: How long a pod that could run may wait when all is well again.
    without: Kinds of faults that do not happen.
    """

    minutes: float = 20.0
    pods: int = 10_000
    seed: int = 1
    nodes: int = 40
    fault_every_s: float = 6.0
    check_every_s: float = 5.0
    lease_s: float = 15.0
    patience_s: float = 90.0
    without: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        return 60 * self.minutes

    @property
    def life_s(self) -> float:
        """Of a pod, so that all of them together want the devices there are, nearly."""
        rate = self.pods / self.seconds * (DEVICES_A_POD + 1 / THEIRS_EVERY)
        return DEMAND * self.nodes * DEVICES_A_NODE / rate


@dataclass(slots=True)
class Report:
    """What a run did and found; `problems` is empty when all is well."""

    settings: Settings
    faults: Counter[str] = field(default_factory=Counter)
    pods: Counter[str] = field(default_factory=Counter)
    waits_s: list[float] = field(default_factory=list)
    memory: list[Quarters] = field(default_factory=list)
    exits: Counter[int] = field(default_factory=Counter)
    beside: Counter[str] = field(default_factory=Counter)
    checks: int = 0
    waiting: int = 0
    problems: list[str] = field(default_factory=list)

    def wait_s(self, share: float) -> float:
        """A quantile of seconds from a pod's creation to its binding."""
        ordered = sorted(self.waits_s)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0

    def lines(self) -> list[str]:
        pods = ", ".join(f"{count} {what}" for what, count in self.pods.items())
        return [
            f"seed {self.settings.seed}, {self.settings.minutes:g} min",
            "faults: " + ", ".join(f"{kind} {self.faults[kind]}" for kind in KINDS),
            f"pods: {pods}; {self.waiting} waited at the end, for all of whom there was no room",
            f"seconds until bound: p50 {self.wait_s(0.5):.2f}, p99 {self.wait_s(0.99):.2f}, most {self.wait_s(1):.2f}",
            f"processes that ended, by exit code: {dict(self.exits)}",
            *(f"memory: {one}" for one in self.memory),
            *(f"{what}: {count}" for what, count in self.beside.items()),
            f"{self.checks} checks of the whole state",
            *self.problems,
            f"{len(self.problems)} problems",
        ]


async def run(settings: Settings, folder: Path, say: Callable[[str], None]) -> Report:
    """Everything; a run that cannot go on is a problem of the report too."""
    report = Report(settings)
    async with _stage(settings, folder) as chaos:
        try:
            await chaos.play(say)
        except (TimeoutError, ExceptionGroup) as error:
            report.problems.append(f"the run could not go on: {error!r}")
        chaos.fill_in(report)
    return report


@dataclass(slots=True)
class Chaos:
    """Everybody who takes part."""

    settings: Settings
    plane: ControlPlane
    api: Api
    namespace: str
    workload: Workload
    faults: Faults
    instances: list[Instance]
    ledger: Ledger
    checks: int = 0
    waiting: int = 0
    _problems: dict[str, None] = field(default_factory=dict)

    async def play(self, say: Callable[[str], None]) -> None:
        background = [
            asyncio.create_task(self._watch_pods()),
            asyncio.create_task(self._watch_claims()),
            asyncio.create_task(self._look()),
            asyncio.create_task(self.workload.go()),
            *(asyncio.create_task(one.keep()) for one in self.instances),
        ]
        try:
            playing = asyncio.create_task(self._acts(say))
            await asyncio.wait([playing, *background], return_when=asyncio.FIRST_COMPLETED)
            for one in background:
                if one.done():
                    one.result()  # none of them ends but by an error
            await playing
        finally:
            for task in [playing, *background]:
                task.cancel()
            await asyncio.gather(playing, *background, return_exceptions=True)

    async def _acts(self, say: Callable[[str], None]) -> None:
        settings = self.settings
        checking = asyncio.create_task(self._check_on())
        happening = asyncio.create_task(self._break(say))
        async with asyncio.timeout(settings.seconds + 3 * _OVER_S):
            await self.workload.come(settings.pods, settings.seconds)
        async with asyncio.timeout(_OVER_S):
            await happening
        await self._meet_all()
        await self.faults.heal()
        say("all faults are over")
        self.workload.stay()
        # Pods that were to go already go, and claims of those that have gone are given back.
        await self._settled()
        await self.workload.fill(free_devices(await self._stock()) + MORE_THAN_FREE)
        self.waiting = await self._settled()
        say(f"{self.waiting} pods wait, and there is no room for them")
        checking.cancel()
        await self._check(is_over=True)
        self.workload.leave()
        await self._all_gone()
        await self._check(is_over=True)

    async def _break(self, say: Callable[[str], None]) -> None:
        begin = time.monotonic()
        async with asyncio.TaskGroup() as happening:
            for planned in self._planned():
                await asyncio.sleep(max(begin + planned.at_s - time.monotonic(), 0))
                say(f"{planned.at_s:7.1f} s: {planned.kind} {planned.target}")
                happening.create_task(self.faults.happen(planned))

    def _planned(self) -> list[Planned]:
        settings = self.settings
        return draw(settings.seed, settings.seconds, settings.fault_every_s, settings.without)

    async def _meet_all(self) -> None:
        """Some pods more, until each request fault has met a request: in a short run they may all be bound before."""
        deadline = time.monotonic() + _OVER_S / 4
        while not self.faults.has_met_all and time.monotonic() < deadline:
            await self.workload.come(2, seconds=1)

    # -- seeing -----------------------------------------------------------------------------------------------

    async def _watch_pods(self) -> None:
        async for what, found in changes(self.api, "pods"):
            for pod in found if what == "listed" else [found]:
                self.workload.observe(pod, is_gone=what == "gone")
                self.ledger.observe_pod(pod, is_gone=what == "gone")

    async def _watch_claims(self) -> None:
        async for what, found in changes(self.api, "resourceclaims"):
            if what == "listed":
                self.ledger.observe_listed(found)
            else:
                self.ledger.observe_claim(found, is_gone=what == "gone")

    async def _look(self) -> None:
        every = max(round(self.settings.seconds / 400 / _LOOK_S), 1)
        turn = 0
        while True:
            for one in self.instances:
                one.look()
                if turn % every == 0:
                    one.sample()
            turn += 1
            await asyncio.sleep(_LOOK_S)

    # -- judging ----------------------------------------------------------------------------------------------

    async def _stock(self) -> Stock:
        kinds = ("pods", "resourceclaims", "resourceslices", "nodes", "persistentvolumes", "persistentvolumeclaims")
        return Stock(*await same_moment(self.api, *kinds))

    async def _check_on(self) -> None:
        while True:
            await asyncio.sleep(self.settings.check_every_s)
            await self._check()

    async def _check(self, *, is_over: bool = False) -> None:
        """The invariants, of our pods and claims; what of the other scheduler's meets them is the ledger's matter.

        So are two claims with one device, until the faults are over.
        """
        withdrawn = dict(self.faults.withdrawn)
        stock = await self._stock()
        withdrawn |= self.faults.withdrawn
        # A driver that is away for a moment takes nothing from pods that have its devices.
        there = {one["metadata"]["name"] for one in stock.slices}
        slices = [*stock.slices, *(one for name, one in withdrawn.items() if name not in there)]
        pods, claims = (
            [one for one in kind if one["metadata"]["namespace"] == self.namespace]
            for kind in (stock.pods, stock.claims)
        )
        self.checks += 1
        for violation in check(State(pods, claims, slices, stock.nodes)):
            if violation.kind == "device-in-two-claims" and not is_over:
                continue
            self._problems.setdefault(str(violation))

    async def _settled(self) -> int:
        """Wait until nobody waits for whom there is room; how many wait then."""
        deadline = time.monotonic() + self.settings.patience_s
        while True:
            stock = await self._stock()
            waiting = [
                pod
                for pod in stock.pods
                if pod["metadata"]["namespace"] == self.namespace and not pod["spec"].get("nodeName")
            ]
            left = could_run(stock, self.namespace)
            if not left:
                return len(waiting)
            if time.monotonic() > deadline:
                for name, node in sorted(left.items()):
                    text = f"waits {self.settings.patience_s:g} s after the last fault, and there is room on {node}"
                    self._problems.setdefault(f"pod {name} {text}")
                return len(waiting)
            await asyncio.sleep(0.5)

    async def _all_gone(self) -> None:
        """Wait until every pod of ours was bound, or dropped, and is deleted."""
        deadline = time.monotonic() + self.settings.patience_s
        while left := [pod for pod in self.workload.pods.values() if not pod.is_deleted]:
            if time.monotonic() > deadline:
                names = ", ".join(pod.name for pod in left[:20])
                self._problems.setdefault(f"{len(left)} pods were not bound though everybody goes: {names}")
                return
            await asyncio.sleep(0.2)

    def fill_in(self, report: Report) -> None:
        for one in self.instances:
            lives = [quarters(process, samples) for process, samples in one.samples.items()]
            shortest_s = max(self.settings.seconds / 4, JUDGED_S)
            report.memory += [life for life in lives if life is not None and life.lived_s >= shortest_s]
            report.exits += one.exits
        bound = [pod for pod in self.workload.pods.values() if pod.bound_s is not None]
        report.waits_s = [pod.bound_s - pod.created_s for pod in bound if pod.bound_s is not None]
        report.pods["created"] = len(self.workload.pods)
        report.pods["bound"] = len(bound)
        report.pods["deleted"] = self.workload.counts.pop("deleted", 0)
        names = {one.token: one.name for one in self.instances}
        writes = Writes(AuditLog(self.plane.audit_log).read(), names)
        report.beside = self.workload.counts + self.ledger.counts
        report.beside["ours gave twice, by a write that came after another had the lease"] = self.ledger.late(writes)
        report.faults = self.faults.done
        report.checks, report.waiting = self.checks, self.waiting
        report.problems += [
            *self._problems,
            *self.ledger.problems(writes),
            *(problem for one in self.instances for problem in one.problems()),
            *growing(report.memory),
            *(
                f"no {kind} has happened"
                for kind in KINDS
                if not (self.faults.done[kind] or kind in self.settings.without)
            ),
        ]


@asynccontextmanager
async def _stage(settings: Settings, folder: Path) -> AsyncIterator[Chaos]:
    """A control plane with the shipped manifests, nodes with devices, the other scheduler; ours are not started."""
    with ControlPlane(controllers=(*CONTROLLERS, *VOLUME_CONTROLLERS), audits=AUDITED) as plane:
        async with AsyncExitStack() as stack:
            world = await stack.enter_async_context(real_world(with_manifests(plane), folder))
            context = plane.ssl_context()
            api = await stack.enter_async_context(connected(plane.url, plane.admin_token, context, limit=64))
            nodes = await _furnish(world, settings.nodes)
            theirs = f"{world.namespace}-theirs"
            await api.create("namespaces", {"metadata": {"name": theirs}})
            workload = Workload(
                *(api, world.namespace, theirs, world.class_name, f"{world.tag}-volumes", world.driver, nodes),
                *(settings.life_s, random.Random(settings.seed)),
            )
            await workload.prepare()
            instances = [await _instance(stack, world, plane, settings, number) for number in range(INSTANCES)]
            slices = [f"{name}-1-first" for name in nodes]
            faults = Faults(plane, api, instances, slices, settings.lease_s, OTHER_NAME)
            plane.start_kube_scheduler(OTHER_NAME)
            yield Chaos(
                *(settings, plane, api, world.namespace, workload, faults, instances, Ledger(world.namespace)),
            )


async def _furnish(world: World, count: int) -> list[str]:
    await world.add_namespace()
    nodes = await world.add_nodes(count, devices=DEVICES_A_NODE)
    await world.add_class()
    body = {"metadata": {"name": f"{world.tag}-volumes"}, "provisioner": "kubernetes.io/no-provisioner"}
    await world.create("storageclasses", {**body, "volumeBindingMode": "WaitForFirstConsumer"})
    return nodes


async def _instance(
    stack: AsyncExitStack, world: World, plane: ControlPlane, settings: Settings, number: int
) -> Instance:
    tls = (plane.ca_file, plane.key_file)
    proxy = await stack.enter_async_context(FaultProxy(plane.url, plane.ssl_context(), tls))
    times = {"leaseDuration": 1.0, "renewDeadline": 2 / 3, "retryPeriod": 2 / 15}
    election = {name: f"{1000 * share * settings.lease_s:.0f}ms" for name, share in times.items()}
    head = {"apiVersion": "dra-scheduler/v1alpha1", "kind": "DraSchedulerConfiguration"}
    config = world.log.with_name("chaos.yaml")
    where = {"resourceNamespace": world.cluster.lease_namespace}
    config.write_text(yaml.safe_dump({**head, "leaderElection": {**where, **election}}))
    kubeconfig = world.cluster.scheduler_kubeconfig(proxy.url)
    token = token_id(yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"])
    arguments = (
        *("run", f"--kubeconfig={kubeconfig}", f"--config={config}"),
        *(f"--scheduler-name={SCHEDULER_NAME}", "--no-health"),
    )
    return Instance(f"instance {number}", proxy, arguments, world.log.with_name(f"instance-{number}.log"), token)
