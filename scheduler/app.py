"""The live scheduler: reflectors feed the machine, its decisions go to the executor, the answers come back.

Everything runs on one event loop.

Rules of this module
  1. Leaving the context stops everything: watches first, then writes in flight are awaited, then the rest.
  2. An exception out of the machine is a defect: it ends the app with that exception, for a wrong state must not go on.
  3. Pods are read last: so what one refers to has been observed before it, and those that wait are tried in the order
     of their revisions, as `simulate` tries them.
  4. With leader election the machine only observes until the lease is held and all that was stored before that has
     come (`Reflector.catch_up`). Losing it ends the app: what the machine knows is then somebody else's to change.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from msgspec import Struct

from allocator import Features
from scheduler import garbage_collector
from scheduler.config import Config
from scheduler.core.ground.inputs import RelistFinished
from scheduler.core.machine import Machine, kinds_read
from scheduler.framework.api import Profile
from scheduler.framework.decisions import Decision, RecordEvent
from scheduler.kube.api_requests import ApiClient, Timeouts
from scheduler.kube.clock import Clock
from scheduler.kube.codec import Codec
from scheduler.kube.credentials import Connection, Credentials
from scheduler.kube.event_records import EventSeries
from scheduler.kube.executor import Executor
from scheduler.kube.feature_gates import dropped_by, features_left, read_gates
from scheduler.kube.freshness import Freshness, because
from scheduler.kube.lease import Election, Lease, LeaseLostError, LeaseTimes
from scheduler.kube.metrics import CONTENT_TYPE, Metrics, Observed
from scheduler.kube.namesakes import Namesakes, QuietReporter
from scheduler.kube.permissions import permissions_for
from scheduler.kube.preflight import Preflight, PreflightError, check
from scheduler.kube.reporting import Reporter
from scheduler.kube.serving import is_secure, serve
from scheduler.kube.watch import Reflector, WatchLimits
from scheduler.machine_turns import MachineTurns
from scheduler.validation.releases import release_of, release_words

if TYPE_CHECKING:
    from scheduler.inventory.device_metrics import CountedDevices
    from scheduler.kube.device_families import DeviceNumbers
    from scheduler.kube.health import Checks, HealthServer

log = logging.getLogger(__name__)

_PREFLIGHT_PAUSE_S_MAX: Final = 10.0
_LEASE_NAMESPACE: Final = "kube-system"
_LAST: Final = "Pod"  # the kind that is read when all others have been
_CATCH_UP_S: Final = 0.25  # for a watch to bring what was stored before the lease was taken; then it is listed anew


class Running(Struct, frozen=True):
    """The parts that exist once the API server has been found usable."""

    machine: Machine
    turns: MachineTurns
    executor: Executor
    reflectors: tuple[Reflector, ...]


class SchedulerApp:
    """The scheduler of one cluster, running while its context is open. Made in a running event loop.

        async with SchedulerApp(Connection(url=...), Config(health_port=None)) as app:
            await app.synced()
            ...

    Raises (on entering):
        CredentialsError, PreflightError: The server cannot be used; the text says what is missing.
        ServingError: Health and metrics cannot be served as the configuration says.
        OSError: The health port is taken.
    """

    def __init__(self, connection: Connection, config: Config | None = None, *, is_patient: bool = False) -> None:
        """Args:
        is_patient: Wait for an API server that does not answer yet, and for missing rights, instead of raising.
        """
        self.config = config or Config()
        self.running: Running | None = None
        self.health: HealthServer | None = None
        self.serves_health = asyncio.Event()
        self.reports = Reporter()
        self._connection = connection
        self._is_patient = is_patient
        self._loop = asyncio.get_running_loop()
        self._clock = Clock(self._loop.time)
        self._clients: list[ApiClient] = []
        self._freshness = self._freshness_of(())
        self._starting = "starting"  # why nothing is watched yet
        self._missing: tuple[str, ...] = ()  # rights that it can do without, when it started
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._election: Election | None = None
        self._namesakes: Namesakes | None = None  # without election
        self._catching_up: dict[str, Reflector] = {}  # by kind
        self._others_listed = asyncio.Event()  # all kinds but pods
        self._filled = asyncio.Event()
        self._synced = asyncio.Event()
        self._ended = asyncio.Event()
        self._failure: BaseException | None = None
        self.metrics = Metrics(self._observed, self._counted)
        self._devices: CountedDevices | None = None
        self._events = EventSeries(
            self.config.scheduler_names,
            os.uname().nodename,
            per_second=self.config.events_per_second,
            burst=self.config.events_burst,
        )

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stop()

    async def _start(self) -> None:
        config = self.config
        credentials = await self._connection.open()
        timeouts = Timeouts(total_s=config.request_timeout)
        client = await self._stack.enter_async_context(
            ApiClient(credentials, timeouts=timeouts, may_write=self._may_write)
        )
        self._clients.append(client)
        if config.health_port is not None:
            # First of all: whoever waits for the API server is alive, and says what it waits for.
            self.health = await self._stack.enter_async_context(
                serve(
                    config,
                    credentials,
                    {
                        "checks_alive": self._checks_alive,
                        "checks_ready": self._checks_ready,
                        "notes_ready": self._notes_ready,
                        "details_ready": self._details_ready,
                        "metrics": lambda: (self.metrics.text(), CONTENT_TYPE),
                    },
                )
            )
            self.serves_health.set()
            # Now, while there is nothing to do: a scrape would hold the pods up for some 20 ms.
            import scheduler.inventory.device_metrics  # noqa: F401, PLC0415 - nobody scrapes without a port
        features = config.features()
        lease_namespace = self._lease_namespace() if config.leader_election.leader_elect else None
        reads = kinds_read(profiles_of(config, Features()))
        if config.preflight:
            preflight = await self._check(client, reads, lease_namespace)
            log.info("connected to %s, Kubernetes %s", credentials.url, preflight.version)
            gates = await read_gates(client)
            self._missing = preflight.warnings
            words = release_words(preflight.minor, config.kubernetes)
            for warning in (*words, *preflight.warnings, *dropped_by(gates)):
                log.warning("%s", warning)
            features = features_left(config.features(release_of(preflight.minor)), gates)
            for missing in config.missing_in(features.kubernetes):
                log.warning("Kubernetes %s does not have it, so it has no effect: %s", features.kubernetes, missing)
        settings = replace(config.core_settings(), takes_notes=log.isEnabledFor(logging.DEBUG))
        machine = Machine(profiles_of(config, features), features=features, new_uid=_new_uid, settings=settings)
        machine.measure(time.perf_counter)
        self.metrics.follow(features)
        turns = MachineTurns(
            machine,
            machine.handle,
            self._submit,
            clock=self._clock,
            metrics=self.metrics,
            on_idle=self._note_sync,
            on_failure=self._fail,
        )
        codec = Codec(config.slice_selector, reads=reads)
        if lease_namespace is not None:
            self._election = await self._elect(credentials, lease_namespace)
        else:
            leases = await self._leases(credentials, self._lease_namespace(), LeaseTimes(), QuietReporter())
            namesakes = Namesakes(leases, on_noticed=self._on_namesake)
            self._namesakes = await self._stack.enter_async_context(namesakes)
        executor = await self._stack.enter_async_context(
            Executor(
                client,
                codec,
                self._clock,
                turns.deliver_answer,
                self.reports,
                events=self._events,
                in_flight_max=config.writes_in_flight,
                on_write=self._note_write,
            )
        )
        limits = WatchLimits(inactivity_s=config.watch_inactivity)
        reflectors = tuple(
            Reflector(client, kind, turns.deliver, self.reports, room=turns.room, limits=limits) for kind in codec.kinds
        )
        self.running = Running(machine, turns, executor, reflectors)
        self._tasks = [asyncio.create_task(self._begin(self.running), name="begin")]
        self._tasks[0].add_done_callback(self._on_task_done)

    def _lease_namespace(self) -> str:
        return self.config.leader_election.resource_namespace or self._connection.own_namespace() or _LEASE_NAMESPACE

    async def _elect(self, credentials: Credentials, namespace: str) -> Election:
        """Begin to hold our leases."""
        settings = self.config.leader_election
        times = LeaseTimes(int(settings.lease_duration), settings.renew_deadline, settings.retry_period)
        leases = [make() for make in await self._leases(credentials, namespace, times, self.reports)]
        # Entered before the executor: on leaving it is kept until what was written is settled.
        return await self._stack.enter_async_context(
            Election(leases, on_lost=self._on_lease_lost, may_release=self._is_drained)
        )

    async def _leases(
        self, credentials: Credentials, namespace: str, times: LeaseTimes, reports: Reporter
    ) -> list[Callable[[], Lease]]:
        """What makes each, over a connection of their own: writes and watches do not delay renewals."""
        client = await self._stack.enter_async_context(
            # `Lease` gives each request less.
            ApiClient(credentials, timeouts=Timeouts(connect_s=times.request_s, total_s=times.renew_deadline_s))
        )
        self._clients.append(client)
        identity = f"{os.uname().nodename}_{uuid.uuid4()}"
        return [
            partial(Lease, client, reports, namespace=namespace, name=name, identity=identity, times=times)
            for name in self.config.lease_names
        ]

    def _on_namesake(self, lease: Lease, text: str) -> None:
        """A second process of our name is at work: an event on the lease that it renews."""
        namespace, _, name = lease.name.partition("/")
        event = RecordEvent("Lease", namespace, name, lease.uid, "Warning", "SecondScheduler", "Scheduling", text)
        if self.running is not None:
            self.running.executor.submit((event,))

    def _is_drained(self) -> bool:
        return self.running is None or self.running.executor.is_drained

    def _may_write(self) -> bool:
        return self._election is None or self._election.may_write()

    def has_lost_lease(self) -> bool:
        """Whether we held our lease and somebody else may hold it by now."""
        return self._election is not None and self._election.has_lost()

    def _on_lease_lost(self, error: LeaseLostError) -> None:
        log.error("%s", error)
        self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """End; the first reason counts."""
        if self._failure is None:
            self._failure = error
            self._end()

    def _end(self) -> None:
        self._ended.set()
        if self.running is not None:
            self.running.turns.stop()

    async def _begin(self, running: Running) -> None:
        """Read the cluster, and decide when it is our turn."""
        reflectors = running.reflectors
        # One that need not wait reads after the lease is held, and has nothing to catch up with.
        must_wait = self._election is not None and not await self._election.tried()
        self._freshness = self._freshness_of(reflectors)
        if self.config.tune_gc:
            # Every collection would walk the growing cache: 3 to 8 times the cost of decoding.
            gc.disable()
        running.turns.begin()
        watches = [asyncio.create_task(self._watch(one), name=f"watch-{one.kind.name}") for one in reflectors]
        for task in watches:
            task.add_done_callback(self._on_task_done)
        self._tasks += [*watches, asyncio.create_task(self._announce_filled(running), name="announce-filled")]
        if self._election is not None and must_wait:
            await self._election.acquired()
            await self._catch_up(reflectors)
        listed = [one for one in reflectors if one.stats.is_synced]
        running.turns.decide(RelistFinished(one.kind.name, is_readable=one.stats.is_readable) for one in listed)

    async def _watch(self, reflector: Reflector) -> None:
        if reflector.kind.name == _LAST:
            await self._others_listed.wait()
        await reflector.run()

    async def _catch_up(self, reflectors: Sequence[Reflector]) -> None:
        """Wait until all has come that was stored before we held the lease: our predecessor's writes are among it."""
        begun_s = self._loop.time()
        self._catching_up = {one.kind.name: one for one in reflectors}

        async def catch_up(one: Reflector) -> None:
            await one.catch_up(_CATCH_UP_S)
            del self._catching_up[one.kind.name]

        async with asyncio.TaskGroup() as group:
            for one in reflectors:
                group.create_task(catch_up(one), name=f"catch-up-{one.kind.name}")
        relisted = [one.kind.name for one in reflectors if (one.stats.last_sync_s or 0.0) >= begun_s]
        also = f"; listed anew: {', '.join(relisted)}" if relisted else ""
        log.info("caught up in %.2f s%s", self._loop.time() - begun_s, also)

    async def _check(self, client: ApiClient, reads: Collection[str], lease_namespace: str | None) -> Preflight:
        """The preflight; a patient one is made again until it is answered."""
        reviews = self.config.health_port is not None and is_secure(self.config)
        permissions = permissions_for(reads, preempts=self.config.preempts, reviews=reviews)
        pause_s = 1.0
        while True:
            try:
                return await check(client, permissions, lease_namespace=lease_namespace, leases=self.config.lease_names)
            except PreflightError as error:
                if not (self._is_patient and error.may_pass):
                    raise
                if self._starting != str(error):
                    log.warning("%s; waiting for it", error)
                self._starting = str(error)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PREFLIGHT_PAUSE_S_MAX)

    def _freshness_of(self, reflectors: Sequence[Reflector]) -> Freshness:
        return Freshness(
            reflectors,
            self._loop.time(),
            ready_s=self.config.ready_silence_s,
            alive_s=self.config.alive_silence_s,
            accepted_s=lambda: max(
                (one.accepted_s for one in self._clients if one.accepted_s is not None), default=None
            ),
        )

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        try:
            await self._stack.aclose()  # awaits writes in flight; their answers still reach the machine
        finally:
            self._end()
            if self.config.tune_gc:
                gc.enable()

    async def filled(self) -> None:
        """Wait until the machine has observed all that exists; raises what ended the machine."""
        await self.run_until(self._filled)

    async def synced(self) -> None:
        """Wait until it decides on that, which is when the lease is held; raises what ended the machine."""
        await self.run_until(self._synced)

    async def run_until(self, stopped: asyncio.Event) -> None:
        """Run until `stopped` is set; raises what ended the machine, if that comes first."""
        waiting = [asyncio.ensure_future(event.wait()) for event in (stopped, self._ended)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if self._failure is not None:
                raise self._failure
        finally:
            for one in waiting:
                one.cancel()

    def problems(self) -> list[str]:
        """Why the scheduler is not ready: caches not filled or stale, permissions, the lease, the machine's problems.

        To wait for the lease is none: so it is for kube-scheduler, and what rolls out or guards replicas counts on it.
        """
        return [text for texts in self._checks_ready().values() for text in texts]

    def _checks_ready(self) -> Checks:
        if (running := self.running) is None:
            return {"start": [self._starting]}
        refused, problems = self.reports.refused_by_subject, running.machine.problems()
        unlisted = [one for one in running.reflectors if not one.stats.is_synced]
        late = [one for one in self._catching_up.values() if one.stats.is_synced]
        return {
            "lease": self._election.problems() if self._election is not None else (),
            "watches": [
                *(f"{one.kind.name}: not listed yet{because(one)}" for one in unlisted),
                *(f"{one.kind.name}: not known yet as it was when the lease was taken{because(one)}" for one in late),
                *self._freshness.problems_ready(self._loop.time()),
            ],
            "permissions": [f"refused by the API server: {subject}: {text}" for subject, text in refused.items()],
            "requests": [text for text in problems if not any(known in text for known in refused.values())],
        }

    def _notes_ready(self) -> Sequence[str]:
        if self.running is None:
            return ()
        waiting = self._election.waiting() if self._election is not None else ()
        others = self._namesakes.texts() if self._namesakes is not None else ()
        missing = [f"{text} (as it started)" for text in self._missing]
        return [*waiting, *others, *missing, *self.running.machine.troubles.texts(is_everywhere=False)]

    def _details_ready(self) -> Sequence[str]:
        return [self.running.machine.store.ledger.text()] if self.running is not None else ()

    def _checks_alive(self) -> Checks:
        machine = self.running.turns.problem() if self.running is not None else None
        if (error := self._failure) is not None:
            machine = str(error) if isinstance(error, LeaseLostError) else f"the machine failed: {error}"
        heard = self._freshness.problems_alive(self._loop.time()) if machine is None else ()
        return {"machine": [machine] if machine is not None else (), "api-server": heard}

    def _submit(self, decisions: Sequence[Decision]) -> None:
        assert self.running is not None
        self.running.executor.submit(decisions)

    def _note_sync(self) -> None:
        running = self.running
        assert running is not None
        if all(one.stats.is_synced for one in running.reflectors if one.kind.name != _LAST):
            self._others_listed.set()
        if not self._synced.is_set() and all(reflector.stats.is_synced for reflector in running.reflectors):
            self._filled.set()
            if running.turns.decides:
                self._synced.set()

    def _note_write(self, decision: str, outcome: str, duration_s: float) -> None:
        self.metrics.observe_write(decision, outcome, duration_s)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None and self._failure is None:
            log.error("%s ended, which is a defect of the scheduler", task.get_name(), exc_info=error)
            self._fail(error)

    async def _announce_filled(self, running: Running) -> None:
        begun_s = self._loop.time()
        await self.filled()
        counts = ", ".join(f"{reflector.stats.objects} {reflector.kind.name}" for reflector in running.reflectors)
        log.info("caches filled in %.2f s: %s", self._loop.time() - begun_s, counts)
        if self.config.tune_gc:
            garbage_collector.settle()

    def _observed(self) -> Observed | None:
        """What `Metrics` reads when it is scraped."""
        running = self.running
        if running is None:
            return None
        leases = self._election.leases if self._election is not None else ()
        return Observed(
            machine=running.machine,
            watches={reflector.kind.name: reflector.stats for reflector in running.reflectors},
            writes=running.executor.stats,
            is_leading={lease.name: lease.may_write() for lease in leases},
            slow_renewals={lease.name: lease.slow_renewals for lease in leases},
            problems_count=len(self.problems()),
            inputs_count=running.turns.inputs_count,
            events_dropped=self._events.dropped,
            longest_handle_s=running.turns.longest_handle_s,
            longest_handle_cpu_s=running.turns.longest_handle_cpu_s,
            monotonic_s=self._loop.time(),
            now_ms=self._clock.now_ms(),
        )

    def _counted(self) -> DeviceNumbers | None:
        """What is counted of devices while somebody scrapes."""
        if self._devices is None and self.running is not None and self._filled.is_set():
            from scheduler.inventory.device_metrics import CountedDevices  # noqa: PLC0415 - loaded with the port

            self._devices = CountedDevices(self.running.machine, self.config.metrics_node_label, self._clock.now_ms)
            self._stack.callback(self._devices.stop)
        return self._devices.newest() if self._devices is not None else None


def _new_uid() -> str:
    return str(uuid.uuid4())


def profiles_of(config: Config, features: Features) -> tuple[Profile, ...]:
    """The profiles of a configuration, ready to run; one that says no percentage of nodes has the configuration's."""
    name = "percentage_of_nodes_to_score"
    default = {name: config.percentage_of_nodes_to_score}
    profiles = (one if name in one.model_fields_set else one.model_copy(update=default) for one in config.profiles)
    selectors = {"nodes": config.node_selector, "slices": config.slice_selector}
    return tuple(one.profile(**selectors, features=features) for one in profiles)
