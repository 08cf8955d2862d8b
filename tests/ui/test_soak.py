"""A page, or `devices --watch`, that stays open while thousands of objects come and go keeps none of them.

No two of these objects are alike. The cluster is the embedded one, in this process; it remembers few changes.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import Final

import pytest

from allocator import Features
from scheduler.embedded.cluster import EmbeddedCluster
from scheduler.inventory import Filter, devices_observed
from scheduler.kube.credentials import Connection
from scheduler.model.keys import PodKey
from scheduler.observer import ClusterObserver
from scheduler.offline import SourceObject
from scheduler.ui.data_source import Events, Objects, Reading, Source
from tests.growth import check_stays, kept, traced
from tests.integration.api import Api, connected
from tests.offline.causes import Obj, allocated, claim, device_class, gpu, node, pod, request, slice_

DEVICES: Final = 4
ALIVE: Final = 5
ASK_EVERY: Final = 6
SLICE_EVERY: Final = 10
BYTES_MORE: Final = 1 << 21  # 500 waiting pods that are gone (`growth.SWEPT`), and verdicts on 1,000 selectors


class Churn:
    """Pods that run and pods that wait, with their claims: a batch is nine changes, and goes when `ALIVE` more came."""

    def __init__(self, cluster: EmbeddedCluster, api: Api, observer: ClusterObserver, first: int) -> None:
        self.cluster = cluster
        self.api = api
        self.observer = observer
        self.numbers = itertools.count(first)
        self.stage: list[Obj] = [device_class(), node(), self.slice_of("none")]
        self.batches: deque[list[Obj]] = deque()
        reading = Reading(self.objects, lambda _: Events(()))
        self.source = Source("cluster", observer, reading, None)

    def slice_of(self, text: str) -> Obj:
        more = {f"only_{text}": {"string": text}}
        devices = [gpu(f"gpu-{index}") for index in range(DEVICES)]
        return slice_(*({**one, "attributes": {**one["attributes"], **more}} for one in devices))

    def objects(self) -> Objects:
        found = [*self.stage, *itertools.chain.from_iterable(self.batches)]
        return Objects([SourceObject(f"object {number}", one) for number, one in enumerate(found)], Features())

    async def run(self, batches: int, *, is_page: bool) -> None:
        for _ in range(batches):
            number = next(self.numbers)
            batch = self.batch_of(number)
            await self.cluster.apply(batch)
            self.batches.append(batch)
            if number % SLICE_EVERY == 0:
                self.stage[-1] = self.slice_of(str(number))
                await self.cluster.apply(self.stage[-1:])
            if len(self.batches) > ALIVE:
                for obj in reversed(self.batches.popleft()):
                    resource = "pods" if obj["kind"] == "Pod" else "resourceclaims"
                    await self.api.delete(resource, obj["metadata"]["name"], "default")
            key = PodKey("default", batch[-1]["metadata"]["name"])
            await self.observed(key)
            if is_page:
                await self.source.pod(key if number % ASK_EVERY == 0 else PodKey("default", f"job-{number}-runs"))
            if number % ASK_EVERY == 0:
                await (self.ask_page() if is_page else self.observer.look(lambda it: devices_observed(it, Filter())))

    async def observed(self, key: PodKey) -> None:
        """Until the observer has seen the pod."""
        while all(one.key != key for one in self.observer.machine.store.pods.values()):
            await self.observer.changed_since(self.observer.version)

    async def ask_page(self) -> None:
        """All that a page asks for, but a pod. An answer is only made anew for whoever has the one before."""
        after = self.source.version - 1
        found = await self.source.devices(after=after)
        assert found["version"] >= after
        await self.source.device(("gpu.example.com", "node-1", "gpu-0"), after)
        assert (await self.source.pending(after))["version"] >= after
        await self.source.given_out()

    def batch_of(self, number: int) -> list[Obj]:
        name = f"job-{number}"
        runs, waits = f"{name}-runs", f"{name}-waits"
        own = request(f"device.attributes['gpu.example.com'].model != '{name}'")
        many = request(f"device.attributes['gpu.example.com'].model != '{name}'", count=9)
        pods = [pod(runs, name=runs, nodeName="node-1"), pod(waits, name=waits, schedulerName="dra-scheduler")]
        for one in pods:
            one["metadata"]["labels"] = {"app": name, f"only-{name}": "yes"}
        claims = [allocated(claim(own, name=runs), f"gpu-{number % DEVICES}", users=(runs,)), claim(many, name=waits)]
        return [*claims, *pods]


@pytest.mark.slow
@pytest.mark.parametrize("is_page", [False, True], ids=["devices", "page"])
@pytest.mark.parametrize("batches", [120, pytest.param(5_000, marks=[pytest.mark.nightly, pytest.mark.timeout(3_600)])])
async def test_who_only_looks_keeps_nothing_of_what_has_gone(batches: int, is_page: bool) -> None:
    with traced():
        async with (
            EmbeddedCluster(controllers=False, watch_window=20) as cluster,
            connected(cluster.url) as api,
            ClusterObserver(Connection(url=cluster.url)) as observer,
        ):
            churn = Churn(cluster, api, observer, batches * (1 + is_page))  # no name that another test had
            await cluster.apply(churn.stage)
            await churn.source.filled()
            await churn.run(batches // 4, is_page=is_page)
            before = kept()
            await churn.run(batches - batches // 4, is_page=is_page)
            check_stays(before, kept(), objects_more=40, bytes_more=BYTES_MORE)
