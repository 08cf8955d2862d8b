"""What the live scheduler's event, `explain` of a server and `explain` of files say about a planted cause, and what a
person who has to act would find wrong with it.

The server is the embedded one, with all objects as a server holds them: claims of templates are made. The first two
lines of an event are its cause and its change.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import aiohttp
from click.testing import CliRunner

from allocator import Features
from scheduler.app import SchedulerApp
from scheduler.cli.explain import explain
from scheduler.config import Config, LeaderElection
from scheduler.embedded.cluster import EmbeddedCluster
from scheduler.embedded.loading import restore_object
from scheduler.framework.diagnosis import cause_of
from scheduler.kube.credentials import Connection
from scheduler.offline import OfflineCluster, PodResult, SourceObject, decide
from scheduler.why.reasons import TO_MAKE_IT_FIT
from tests.explain.planted.shapes import Obj, Planted

NOW_MS: Final = 1_795_600_000_000
CAUSE_LENGTH_MAX: Final = 160
EVENT_BYTES_MAX: Final = 1_024
_CLUSTERS_AT_ONCE: Final = 6
_WAIT_S: Final = 60
_NO_CAUSE_S: Final = 7.0
"""An event that has no cause by then gets none: what a scheduler leaves alone it reports after 5 s."""
_ONE_AT_A_TIME: Final = threading.Lock()
"""Click's runner takes the process's stdout."""
SETTINGS: Final = Config(health_port=None, leader_election=LeaderElection(leader_elect=False))


class Told(NamedTuple):
    """Two lines, and all that was said."""

    lines: tuple[str, str]
    all: str


# --- three channels -----------------------------------------------------------------------------------------------


def as_stored(objects: Sequence[Obj]) -> list[Obj]:
    """As a server holds them once its controllers have looked."""
    cluster = OfflineCluster(NOW_MS)
    loaded = cluster.load([SourceObject("", obj) for obj in objects])
    assert loaded.problems == [], loaded.problems
    kinds = [kind for kind in cluster.api.registry.kinds if kind.kind not in ("Event", "Lease")]
    return [
        {"apiVersion": kind.api_version, "kind": kind.kind, **obj}
        for kind in kinds
        for obj in cluster.api.listed(kind.kind_id)
    ]


def fits(row: Planted, objects: Sequence[Obj]) -> bool:
    """Whether the asked pod gets its node among all pods that wait."""
    cluster = OfflineCluster(NOW_MS)
    cluster.load([SourceObject("", obj) for obj in objects])
    verdicts = decide(cluster, features=Features(), budget_steps=200_000).verdicts
    return next(one for one in verdicts if one.pod == row.asked).outcome is PodResult.FITS


def of_files(row: Planted, path: Path) -> Told:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(row.objects)}))
    return _explained(row, "-f", str(path))


def _explained(row: Planted, *source: str) -> Told:
    namespace, name = row.asked
    with _ONE_AT_A_TIME:
        result = CliRunner().invoke(explain, [f"pod/{name}", "-n", namespace, *source])
    if result.exception and not isinstance(result.exception, SystemExit):
        return Told((f"TRACEBACK {result.exception!r}", ""), "")
    first, second, *_ = [*result.stdout.splitlines(), "", ""]
    return Told((first, second), result.stdout)


async def live(row: Planted, *, asks_explain: bool = True) -> tuple[Told, Told]:
    """The event's two lines, and `explain` of the server afterwards."""
    async with EmbeddedCluster(controllers=False) as cluster:
        for obj in as_stored(row.objects):
            restore_object(cluster.api, obj)
        event = Told(("", ""), "")
        async with SchedulerApp(Connection(url=cluster.url), SETTINGS):
            if not row.unheard:
                event = await _heard(cluster, row)
            online = Told(("", ""), "")
            if asks_explain:
                online = await asyncio.to_thread(_explained, row, "--kubeconfig", str(cluster.kubeconfig_path))
        return event, online


async def live_all(rows: Sequence[Planted], *, asks_explain: bool = True) -> dict[str, tuple[Told, Told]]:
    """The same for many, several clusters at once."""
    slots = asyncio.Semaphore(_CLUSTERS_AT_ONCE)

    async def one(row: Planted) -> tuple[Told, Told]:
        async with slots:
            return await live(row, asks_explain=asks_explain)

    told = await asyncio.gather(*map(one, rows))
    return {row.name: one for row, one in zip(rows, told, strict=True)}


async def _heard(cluster: EmbeddedCluster, row: Planted) -> Told:
    """The newest event of the pod with a cause, or the newest where none comes."""
    loop = asyncio.get_running_loop()
    begun, said = loop.time(), [""]
    async with aiohttp.ClientSession() as session:
        while loop.time() - begun < _WAIT_S:
            said = [""] + await _notes(session, cluster, row)
            causes = [note for note in said if cause_of(note)]
            if causes:
                cause, _, change = cause_of(causes[-1]).partition(TO_MAKE_IT_FIT)
                return Told((cause, change), causes[-1])
            if (row.fits and said[-1]) or (said[-1] and loop.time() - begun > _NO_CAUSE_S):
                break
            await asyncio.sleep(0.1)
    return Told((said[-1], ""), said[-1])


async def _notes(session: aiohttp.ClientSession, cluster: EmbeddedCluster, row: Planted) -> list[str]:
    namespace, name = row.asked
    url = f"{cluster.url}/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    async with session.get(url) as response:
        events = (await response.json())["items"]
    return [event["note"] for event in events if event["regarding"]["name"] == name]


# --- what is wrong with it ----------------------------------------------------------------------------------------


def faults(row: Planted, told: Told, channel: str) -> Iterator[str]:
    """Words for what a person would find wrong; none where all is well."""
    text = "\n".join(told.lines)
    if row.fits:
        # On a server the group is bound by the time it is asked about.
        if (channel != "event" and not re.search("fits|is bound", told.lines[0])) or _any(row.never, text):
            yield "fits"
        return
    if told.lines[0].startswith("TRACEBACK"):
        yield "traceback"
        return
    if not re.search(rf"\[({row.kind})[\w-]*\]", text):
        yield "kind"
    # An event's sentence stands before its cause, and says what the cause then need not.
    seen = told.all if channel == "event" else text
    if not (channel == "event" and row.hidden) and not re.search(row.object, seen):
        yield "object"
    if not all(re.search(one, seen, re.IGNORECASE) for one in _public(row, channel)):
        yield "says"
    if not all(
        re.search(one, told.lines[1]) for one in (row.change if not (row.hidden and channel == "event") else ())
    ):
        yield "change"
    if _any(row.never, text):
        yield "harm"
    if channel == "event":
        if _any(row.hidden, told.all):
            yield "leak"
        if len(told.all.encode()) > EVENT_BYTES_MAX:
            yield "length"
    elif len(told.lines[0].partition("]: ")[2]) > CAUSE_LENGTH_MAX:
        yield "length"


def _public(row: Planted, channel: str) -> list[str]:
    """What has to be said, less what an event may not say."""
    return [one for one in row.says if channel != "event" or one not in row.hidden]


def _any(patterns: Sequence[str], text: str) -> bool:
    return any(re.search(one, text, re.MULTILINE) for one in patterns)
