"""Pods with claims and volumes that come at a steady rate, run for a while once they are bound, and go.

Shapes: a device of its own, two on one node, one with a selector, a device and a volume, one that three pods share,
none at all. Some are deleted before they are bound. Another scheduler's pods come beside them, for the same devices.

Not here: who sees that a pod is bound (`run`), what breaks meanwhile (`faults`).
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from tests.integration.api import Api, Object
from tests.integration.chaos.judging import NUMA_SELECTOR
from tests.integration.chaos.patience import patiently
from tests.integration.world import SCHEDULER_NAME

SHAPES: Final = {"one": 9, "two": 3, "numa": 2, "volume": 3, "shared": 2, "plain": 2}
DEVICES_A_POD: Final = (9 + 6 + 2 + 3 + 2 / 3) / sum(SHAPES.values())
SHARING: Final = 3
UNBOUND_SHARE: Final = 0.05  # of pods that are deleted before they are bound, or soon after
THEIRS_EVERY: Final = 8  # one pod of the other scheduler for so many of ours
OTHER_NAME: Final = "other-scheduler"
_SENDERS: Final = 8


@dataclass(slots=True)
class Pod:
    """What is known of one of ours; times are time.monotonic's."""

    name: str
    shape: str
    lives_s: float
    is_dropped: bool
    claim: str = ""
    created_s: float = 0.0
    bound_s: float | None = None
    is_deleted: bool = False


@dataclass(slots=True)
class Workload:
    """Attributes:
    namespace, theirs: Of our pods, and of the other scheduler's.
    nodes: For volumes, which are reached from one node each.
    life_s: How long a pod runs, on average.
    """

    api: Api
    namespace: str
    theirs: str
    class_name: str
    storage_class: str
    driver: str
    nodes: list[str]
    life_s: float
    random: random.Random
    pods: dict[str, Pod] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    _due: list[tuple[float, int, str, str]] = field(default_factory=list)  # when, a number, namespace and name
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _pod_numbers: itertools.count[int] = field(default_factory=itertools.count)
    _sharing: dict[str, int] = field(default_factory=dict)
    _their_lives: dict[str, float] = field(default_factory=dict)
    _keeps: bool = False

    async def prepare(self) -> None:
        """The templates that pods name."""
        for namespace in (self.namespace, self.theirs):
            for name, request in self._requests().items():
                spec = {"spec": {"devices": {"requests": [request]}}}
                body = {"metadata": {"namespace": namespace, "name": name}, "spec": spec}
                await self.api.create("resourceclaimtemplates", body)

    async def come(self, count: int, seconds: float) -> None:
        """So many pods, evenly spread over that time; later when the server is away."""
        begin = time.monotonic()
        slots = asyncio.Semaphore(_SENDERS)
        shapes = list(SHAPES)
        shared, left = "", 0
        async with asyncio.TaskGroup() as sending:
            for index in range(count):
                await asyncio.sleep(max(begin + seconds * index / count - time.monotonic(), 0))
                number = next(self._pod_numbers)
                (shape,) = self.random.choices(shapes, weights=list(SHAPES.values()))
                lives_s = self.life_s * self.random.uniform(0.5, 1.5)
                pod = Pod(f"pod-{number:05}", shape, lives_s, self.random.random() < UNBOUND_SHARE)
                if shape == "shared":
                    if not left:
                        shared, left = f"shared-{number:05}", SHARING
                    pod.claim, left = shared, left - 1
                await slots.acquire()
                sending.create_task(self._create(pod)).add_done_callback(lambda _: slots.release())
                if number % THEIRS_EVERY == 0:
                    sending.create_task(self._create_theirs(f"other-{number:05}", lives_s))

    async def fill(self, count: int) -> None:
        """So many more, of one device each, that stay."""
        self._keeps = True
        for number in range(count):
            await self._create(Pod(f"last-{number:04}", "one", 0.0, False))

    async def go(self) -> None:
        """Delete whoever has run for long enough, for ever."""
        slots = asyncio.Semaphore(_SENDERS)

        async def delete(namespace: str, name: str) -> None:
            async with slots:
                await self._delete(namespace, name)

        async with asyncio.TaskGroup() as deleting:
            while True:
                while self._due and self._due[0][0] <= time.monotonic():
                    _, _, namespace, name = heapq.heappop(self._due)
                    deleting.create_task(delete(namespace, name))
                await asyncio.sleep(0.05)

    def stay(self) -> None:
        """From now on nobody goes, until `leave`."""
        self._keeps = True
        self._due.clear()

    def leave(self) -> None:
        """Whoever is bound goes at once, and all others as soon as they are."""
        self._keeps = False
        self.life_s = 0.0
        for pod in self.pods.values():
            pod.lives_s = 0.0
            if pod.bound_s is not None and not pod.is_deleted:
                self._goes(self.namespace, pod.name, time.monotonic())

    def observe(self, pod: Object, *, is_gone: bool) -> None:
        """What a watch of pods says."""
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        is_bound = bool(pod["spec"].get("nodeName"))
        if namespace == self.theirs:
            if is_bound and not is_gone and name in self._their_lives:
                self.counts["bound by the other scheduler"] += 1
                self._goes(namespace, name, time.monotonic() + self._their_lives.pop(name))
        elif is_bound and (known := self.pods.get(name)) is not None and known.bound_s is None:
            known.bound_s = time.monotonic()
            self._goes(namespace, name, known.bound_s + known.lives_s)

    # -- objects ----------------------------------------------------------------------------------------------

    def _requests(self) -> dict[str, Object]:
        device = {"deviceClassName": self.class_name}
        near = [{"cel": {"expression": f"device.attributes['{self.driver}']{NUMA_SELECTOR}"}}]
        return {
            "one": {"name": "gpu", "exactly": device},
            "two": {"name": "gpu", "exactly": {**device, "count": 2}},
            "numa": {"name": "gpu", "exactly": {**device, "selectors": near}},
        }

    async def _create(self, pod: Pod) -> None:
        spec: Object = {}
        if pod.shape == "shared":
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": pod.claim}]
            if pod.claim not in self._sharing:
                self._sharing[pod.claim] = SHARING
                body = {"metadata": self._meta(pod.claim), "spec": {"devices": {"requests": [self._requests()["one"]]}}}
                await patiently(self.api.create, "resourceclaims", body)
        elif pod.shape != "plain":
            template = "one" if pod.shape == "volume" else pod.shape
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": template}]
        if pod.shape == "volume":
            await self._create_volume(pod.name)
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": pod.name}}]
        self.pods[pod.name] = pod
        pod.created_s = time.monotonic()
        await patiently(self.api.create, "pods", _pod(self._meta(pod.name), SCHEDULER_NAME, spec))
        if pod.is_dropped and not self._keeps:
            self._goes(self.namespace, pod.name, time.monotonic() + self.random.uniform(0, 0.5))

    async def _create_theirs(self, name: str, lives_s: float) -> None:
        self._their_lives[name] = lives_s
        spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}
        await patiently(self.api.create, "pods", _pod({"namespace": self.theirs, "name": name}, OTHER_NAME, spec))
        self.counts["created for the other scheduler"] += 1

    async def _create_volume(self, name: str) -> None:
        node = self.random.choice(self.nodes)
        expressions = [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]
        common = {"accessModes": ["ReadWriteOnce"], "storageClassName": self.storage_class}
        volume = {
            **common,
            "capacity": {"storage": "1Gi"},
            "persistentVolumeReclaimPolicy": "Retain",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}},
            "local": {"path": "/data"},
        }
        claim = {**common, "resources": {"requests": {"storage": "1Gi"}}}
        await patiently(self.api.create, "persistentvolumes", {"metadata": {"name": name}, "spec": volume})
        await patiently(self.api.create, "persistentvolumeclaims", {"metadata": self._meta(name), "spec": claim})
        self.counts["volumes"] += 1

    def _goes(self, namespace: str, name: str, at_s: float) -> None:
        if not self._keeps:
            heapq.heappush(self._due, (at_s, next(self._numbers), namespace, name))

    async def _delete(self, namespace: str, name: str) -> None:
        await patiently(self.api.delete, "pods", name, namespace)
        pod = self.pods.get(name)
        if namespace != self.namespace or pod is None or pod.is_deleted:
            return
        pod.is_deleted = True
        self.counts["deleted"] += 1
        if pod.shape == "volume":
            await self._delete_volume(name)
        if pod.shape == "shared":
            self._sharing[pod.claim] -= 1
            if not self._sharing[pod.claim]:
                await patiently(self.api.delete, "resourceclaims", pod.claim, namespace)

    async def _delete_volume(self, name: str) -> None:
        """The claim, and the volume that it had, which nobody can have any more: who knows what is on it?"""
        claim = await patiently(self.api.get, "persistentvolumeclaims", name, self.namespace)
        await patiently(self.api.delete, "persistentvolumeclaims", name, self.namespace)
        volume = (claim or {"spec": {}})["spec"].get("volumeName")
        if volume:
            await patiently(self.api.delete, "persistentvolumes", volume)

    def _meta(self, name: str) -> Object:
        return {"namespace": self.namespace, "name": name}


def _pod(metadata: Object, scheduler: str, spec: Object) -> Object:
    container: Object = {"name": "main", "image": "registry.example.com/work:1"}
    if "resourceClaims" in spec:
        container["resources"] = {"claims": [{"name": "gpu"}]}
    more = {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"metadata": metadata, "spec": {**more, **spec}}
