"""`dra-scheduler observe`: the page, metrics and JSON of a cluster, beside whichever schedulers it has.

Rules of this module
  1. It needs rights to get, list and watch. Who listens on other addresses than this machine's lets the server say who
     may read (TokenReview, SubjectAccessReview), and `--events` creates events; else nothing is written.
  2. Who waits and why is looked for once a minute, or less often where that takes long, whether somebody has the page
     open or not.

Not here: the page (`ui`), what is asked about (`cluster_question`), events (`ui.cause_events`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.cluster_question import ClusterQuestion, cluster_question
from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.serving_options import serving_options
from scheduler.cli.terminal import echo
from scheduler.cli.ui import LivePage, Where, live_page, page_options, run_until_ended, until_ended

if TYPE_CHECKING:
    from scheduler.core.machine import Machine
    from scheduler.explain.waiting import Key, Waiting
    from scheduler.inventory.device_metrics import Counted
    from scheduler.kube.health import Checks
    from scheduler.kube.serving import HealthSources
    from scheduler.ui.cause_events import CauseEvents

log = logging.getLogger(__name__)

_PORT: Final = 10261
_ASK_EVERY_S: Final = 60.0
_REST: Final = 9
"""So an answer takes at most a tenth of the time."""


@click.command()
@cluster_question
@page_options(_PORT)
@click.option("--events", is_flag=True, help="Say why a pod waits in an event of it; takes the right to create them.")
@click.option("--no-health", is_flag=True, help="Serve neither health nor metrics.")
@serving_options
def observe(
    question: ClusterQuestion,
    *,
    address: str,
    port: int,
    hosts: tuple[str, ...],
    events: bool,
    no_health: bool,
    health_port: int | None,
    health_address: str | None,
    **serving: str | None,
) -> None:
    """Show devices, and who waits and why, for pods of every scheduler: as a page, as metrics and as JSON.

    It runs until a signal ends it, changes nothing, and needs rights to get, list and watch. Pods of kube-scheduler are
    answered as the kube-scheduler of this cluster's release would.

    \b
    dra-scheduler observe
    dra-scheduler observe --kube-scheduler-config kube-scheduler.yaml --events

    Exit codes: 0 ended, 1 the cluster can no longer be observed, 2 wrong use or input.
    """
    given: dict[str, Any] = {"health_port": health_port, "health_address": health_address}
    health = {name: value for name, value in given.items() if value is not None}
    if no_health:
        health["health_port"] = None
    listening = f"{address} port {port}, or the port of metrics"
    run_until_ended(_serve(question, Where(address, port, hosts, serving), health, says_events=events), listening)


async def _serve(question: ClusterQuestion, where: Where, health: Mapping[str, Any], *, says_events: bool) -> None:
    from scheduler.inventory.device_metrics import Counted
    from scheduler.kube.api_requests import ApiClient
    from scheduler.kube.clock import Clock
    from scheduler.kube.serving import is_secure, serve
    from scheduler.ui.cause_events import CauseEvents

    connection = question.connection()
    if connection is None:
        raise WrongInputError("a cluster is observed; dra-scheduler ui shows files")
    async with AsyncExitStack() as stack:
        page = await stack.enter_async_context(live_page(question, connection, where))
        credentials, clock = page.observer.credentials, Clock(asyncio.get_running_loop().time)
        counted = Counted(clock.now_ms)
        settings = page.settings.model_copy(update=dict(health))
        if settings.health_port is not None:
            server = await stack.enter_async_context(serve(settings, credentials, _sources(page, counted)))
            echo(f"metrics are at port {server.port}{', over TLS' if is_secure(settings) else ''}", is_error=True)
        events = None
        if says_events:
            events = CauseEvents(await stack.enter_async_context(ApiClient(credentials)), clock.now_ms)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        asking = tasks.create_task(_ask(page, counted, events))
        await until_ended(page.url)
        asking.cancel()


async def _ask(page: LivePage, counted: Counted, events: CauseEvents | None) -> None:
    """Keep an answer about who waits, and numbers (rule 2); say what is new in it."""
    from scheduler.ui.data_source import UnreadableError

    loop, refused = asyncio.get_running_loop(), ""
    await page.source.filled()
    if events is not None:
        await events.read_said()
    while True:
        begun_s = loop.time()
        pods: Sequence[Waiting] = ()
        try:
            pods = (await page.source.waiting(page.source.version - 1)).pods
        except (UnreadableError, MemoryError) as error:
            log.warning("why pods wait cannot be said: %s", str(error) or "it needs more memory than there is")
        uids = await page.observer.look(
            partial(_count, counted, page.settings.metrics_node_label, {one.key: one.kind for one in pods})
        )
        if events is not None:
            before, refused = refused, await events.tell(pods, uids)
            if refused not in ("", before):
                log.warning("the API server takes no events: %s", refused)
        await asyncio.sleep(max(_ASK_EVERY_S, _REST * (loop.time() - begun_s)))


def _count(counted: Counted, node_label: str | None, kinds: Mapping[Key, str], machine: Machine) -> dict[Key, str]:
    """Count devices and the pods that wait, each by the kind of its cause; the uids of these pods."""
    from scheduler.inventory.device_metrics import UNKNOWN, count_devices
    from scheduler.inventory.parts import whole

    pods = [one for one in machine.store.pods.values() if one.node_name is None and not one.is_terminal]
    by_key = {(one.key.namespace, one.key.name): one for one in pods}
    waiting = [(one, kinds.get(key) or UNKNOWN) for key, one in by_key.items()]
    now_ms = counted.now_ms()
    counted.keep(whole(count_devices(machine, node_label, now_ms, waiting)), now_ms)
    return {key: one.uid for key, one in by_key.items()}


def _sources(page: LivePage, counted: Counted) -> HealthSources:
    from prometheus_client import ProcessCollector

    from scheduler.kube.metrics import CONTENT_TYPE, Metrics

    metrics = Metrics(counted=counted.newest)
    ProcessCollector(registry=metrics.registry)

    def unlisted() -> Checks:
        behind = [one for one in page.observer.reflectors if not one.stats.is_synced]
        return {"watches": [f"{one.kind.name}: {one.stats.failure or 'not listed yet'}" for one in behind]}

    return {
        "checks_alive": dict,  # what ends a watch ends the process
        "checks_ready": unlisted,
        "notes_ready": page.observer.problems,
        "metrics": lambda: (metrics.text(), CONTENT_TYPE),
    }
