"""A cluster observed while it changes, and `devices --watch`."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import struct
import sys
import termios
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import click
import pytest

from scheduler.core.ground.inputs import Deleted
from scheduler.core.machine import Machine
from scheduler.embedded.cluster import EmbeddedCluster
from scheduler.embedded.kinds.catalog import POD
from scheduler.inventory import DeviceList, Filter, devices_observed
from scheduler.kube.codec import Codec
from scheduler.kube.credentials import Connection
from scheduler.model.keys import PodKey, PodUid
from scheduler.observer import ClusterObserver, Unreadable
from tests.builders import pod
from tests.inventory.test_listing import GPU_CLASS, gpu, node, slice_of
from tests.observed import deleted, observed
from tests.patience import PATIENCE_S

WAITS = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "waits", "namespace": "default"},
    "spec": {"schedulerName": "dra-scheduler", "containers": [{"name": "c", "image": "i"}]},
}


def names(found: DeviceList) -> list[str]:
    return [one.device for one in found.devices]


def read(machine: Machine) -> DeviceList:
    return devices_observed(machine, Filter())


async def until(observer: ClusterObserver, device_names: list[str]) -> DeviceList:
    """The devices, when they are these."""
    while True:
        version = observer.version
        found = await observer.look(read)
        if names(found) == device_names:
            return found
        await observer.changed_since(version)


async def test_what_changes_is_observed() -> None:
    async with EmbeddedCluster() as cluster:
        await cluster.apply([GPU_CLASS, node(), slice_of("n", gpu("a"))])
        async with ClusterObserver(Connection(url=cluster.url)) as observer:
            await observer.filled()
            assert names(await observer.look(read)) == ["a"]
            await cluster.apply([slice_of("n", gpu("a"), gpu("b"))])
            found = await until(observer, ["a", "b"])
            assert [(one.name, one.free) for one in found.classes] == [("gpu", 2)]
            await cluster.restart()
            await cluster.apply([slice_of("n", gpu("c"))])
            await until(observer, ["c"])


async def test_pods_that_wait_are_observed_and_not_tried() -> None:
    async with EmbeddedCluster() as cluster:
        await cluster.apply([GPU_CLASS, node(), slice_of("n", gpu("a")), WAITS])
        async with ClusterObserver(Connection(url=cluster.url)) as observer:
            await observer.filled()
            assert [str(one.key) for one in observer.machine.store.pods.values()] == ["default/waits"]
            await cluster.apply([slice_of("n", gpu("a"), gpu("b"))])
            await until(observer, ["a", "b"])
        stored = cluster.api.find(POD.kind_id, "default", "waits")
        assert stored is not None
        assert not stored["spec"].get("nodeName")


async def test_nothing_changes_while_somebody_looks_who_has_left() -> None:
    """A look ends when its thread does; what changes before that would be read half."""
    async with EmbeddedCluster() as cluster, ClusterObserver(Connection(url=cluster.url)) as observer:
        begun, may_end = threading.Event(), threading.Event()

        def look(_: Machine) -> None:
            begun.set()
            may_end.wait()

        looking = asyncio.ensure_future(observer.look(look))
        await asyncio.to_thread(begun.wait)
        looking.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert observer._turns._is_paused
        may_end.set()
        await asyncio.wait([looking])
        assert looking.cancelled()
        assert not observer._turns._is_paused


async def test_nothing_changes_while_somebody_looks() -> None:
    """Inputs wait until the look is over, and are taken then."""
    async with EmbeddedCluster() as cluster:
        await cluster.apply([GPU_CLASS, node(), slice_of("n", gpu("a"))])
        async with ClusterObserver(Connection(url=cluster.url)) as observer:
            await observer.filled()
            loop, begun, may_end = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

            def look(machine: Machine) -> list[list[str]]:
                before = names(read(machine))
                loop.call_soon_threadsafe(begun.set)
                asyncio.run_coroutine_threadsafe(may_end.wait(), loop).result()
                return [before, names(read(machine))]

            looking = asyncio.create_task(observer.look(look))
            await begun.wait()
            await cluster.apply([slice_of("n", gpu("b"))])
            slices = next(one for one in observer.reflectors if one.kind.name == "ResourceSlice")
            await slices.catch_up(0.1)
            may_end.set()
            assert await looking == [["a"], ["a"]]
            await until(observer, ["b"])


def test_what_cannot_be_read_is_named_until_it_can() -> None:
    codec = Codec()
    unreadable = Unreadable()
    unreadable.undecodable("Pod", "team/p", "spec.priority: Expected `int`")
    unreadable.undecodable("ResourceSlice", "s", "spec.devices: too many")
    assert list(unreadable.reasons) == [("Pod", "team/p"), ("ResourceSlice", "s")]
    # What the reflector delivers for a slice that cannot be read any more: that does not mend it.
    unreadable.forget_readable(codec.slices, [deleted("ResourceSlice", "s")])
    unreadable.forget_readable(codec.pods, [Deleted("Pod", PodKey("other", "p"), PodUid("u"))])
    assert len(unreadable.reasons) == 2
    unreadable.forget_readable(codec.pods, [observed(pod("p", namespace="team"))])
    assert list(unreadable.reasons) == [("ResourceSlice", "s")]


async def read_document(stream: asyncio.StreamReader) -> Any:
    """The next JSON document of a stream of them, each ended by a line of its own."""
    text = ""
    while True:
        text += (await stream.readline()).decode()
        with suppress(ValueError):
            return json.loads(text)


@asynccontextmanager
async def watched(*more: str, **streams: Any) -> AsyncIterator[tuple[EmbeddedCluster, Any]]:
    """A cluster of one device, and `devices --watch` of it as a process; neither it nor its test stays for ever."""
    async with EmbeddedCluster() as cluster:
        await cluster.apply([GPU_CLASS, node(), slice_of("n", gpu("a"))])
        command = (sys.executable, "-m", "scheduler", "devices", "--watch", f"--kubeconfig={cluster.kubeconfig_path}")
        process = await asyncio.create_subprocess_exec(*command, *more, **streams)
        try:
            async with asyncio.timeout(PATIENCE_S):
                yield cluster, process
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def test_watch_prints_again_what_has_changed_and_ends_with_ctrl_c() -> None:
    async with watched("-o", "json", stdout=asyncio.subprocess.PIPE) as (cluster, process):
        assert process.stdout is not None
        assert [one["device"] for one in (await read_document(process.stdout))["devices"]] == ["a"]
        await cluster.apply([slice_of("n", gpu("a"), gpu("b"))])
        assert [one["device"] for one in (await read_document(process.stdout))["devices"]] == ["a", "b"]
        await cluster.restart()
        await cluster.apply([slice_of("n", gpu("b"))])
        assert [one["device"] for one in (await read_document(process.stdout))["devices"]] == ["b"]
        process.send_signal(signal.SIGINT)
        assert await process.stdout.read() == b""
        assert await process.wait() == 0


async def test_tables_of_a_watch_are_separated() -> None:
    async with watched("-o", "name", stdout=asyncio.subprocess.PIPE) as (cluster, process):
        assert process.stdout is not None
        assert await process.stdout.readline() == b"gpu.example.com/n/a\n"
        await cluster.apply([slice_of("n", gpu("b"))])
        assert await process.stdout.readline() == b"---\n"
        assert await process.stdout.readline() == b"gpu.example.com/n/b\n"
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0


class Screen:
    """A terminal of 60 columns and 6 lines: what a process writes to it."""

    def __init__(self) -> None:
        self.master, self.process_end = os.openpty()
        fcntl.ioctl(self.process_end, termios.TIOCSWINSZ, struct.pack("HHHH", 6, 60, 0, 0))
        self.text = ""

    async def until(self, *words: str) -> str:
        """What is written until all of these words are there; and from then on, what comes after.

        A thread that reads could not be ended, and the test's worker would wait for it when this comes to nothing.
        """
        loop, has_more = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self.master, has_more.set)
        try:
            while not all(word in self.text for word in words):
                has_more.clear()
                await has_more.wait()
                self.text += os.read(self.master, 65_536).decode()
        finally:
            loop.remove_reader(self.master)
        text, self.text = self.text, ""
        return text


async def test_a_terminal_that_stays_silent_keeps_nobody() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await Screen().until("never")


async def test_a_terminal_is_drawn_anew_in_place_and_given_back() -> None:
    screen = Screen()
    sizes = {"LINES": "", "COLUMNS": ""}
    async with watched(stdout=screen.process_end, env={**os.environ, **sizes}) as (cluster, process):
        first = await screen.until("1 of 1 free", "\x1b[J")
        assert first.startswith("\x1b[?1049h\x1b[?25l\x1b[H")
        tainted = [gpu(f"d{number}", taints=[{"key": "k", "effect": "NoSchedule"}]) for number in range(20)]
        await cluster.apply([slice_of("n", *tainted)])
        second = await screen.until("0 of 20 free", "\x1b[J")
        lines = second.partition("\x1b[H")[2].partition("\x1b[J")[0].splitlines()
        assert len(lines) == 6
        assert lines[-1].startswith("... and 21 more lines")
        assert all(len(click.unstyle(line.replace("\x1b[K", ""))) <= 60 for line in lines)
        process.send_signal(signal.SIGINT)
        last = await screen.until("\x1b[?1049l", "d19")
        assert await process.wait() == 0
        assert "0 of 20 free, 20 tainted" in last.partition("\x1b[?1049l")[2]
        assert "Traceback" not in first + second + last


@pytest.mark.parametrize(
    ("more", "complaint"),
    [(("--node", "m"), "no node is named m; there are: n"), (("--context", "none"), "none")],
)
async def test_what_is_not_there_is_named_before_watching(more: tuple[str, ...], complaint: str) -> None:
    async with EmbeddedCluster() as cluster:
        await cluster.apply([GPU_CLASS, node()])
        command = (sys.executable, "-m", "scheduler", "devices", "--watch", f"--kubeconfig={cluster.kubeconfig_path}")
        process = await asyncio.create_subprocess_exec(*command, *more, stderr=asyncio.subprocess.PIPE)
        _, text = await process.communicate()
        assert process.returncode == 2
        assert complaint in text.decode()
