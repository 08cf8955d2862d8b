"""The objects of a benchmark: nodes, slices, a class, a claim template, pods, and what bare writes would write.

Everything follows from a workload (workloads.yaml) and three numbers; nothing is random.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from benchmarks.pools import POOLS

Object = dict[str, Any]

NAMESPACE: Final = "bench"
DRIVER: Final = "gpu.example.com"
CLASS: Final = "gpu.example.com"
TEMPLATE: Final = "claim"
HOPELESS: Final = "hopeless"
HIGH: Final = "bench-high"
LOW: Final = "bench-low"
ZONES: Final = 10
VOLUME_CLASS: Final = "local-volumes"
PROVISIONER: Final = "volumes.example.com"
FINALIZER: Final = "resource.kubernetes.io/delete-protection"


@dataclass(frozen=True, slots=True)
class Workload:
    """One entry of workloads.yaml; its text says what the fields mean."""

    name: str
    what: str
    devices: Object
    claim: Object | None = None
    sharing: int = 0
    every: int = 1
    collected: bool = False
    classes: int = 1
    extended: str | None = None
    class_spec: Object | None = None
    pod: Object | None = None
    cpu: str = "100m"
    victims: int = 0
    groups: int = 1
    volume: bool = False
    node: Object | None = None
    requests: Object | None = None
    labels: Object | None = None
    before: tuple[str, ...] = ()
    namespaces: int = 1
    bound_volume: str = ""
    service: bool = False
    apart: bool = False
    bare: Object | None = None
    gates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Size:
    """How large: nodes, devices a node, pods; `taken` devices belong to others from the beginning.

    `placed`: so many pods of each kind of the workload's `before` are on the nodes from the beginning.
    """

    nodes: int
    devices: int
    pods: int
    taken: int = 0
    placed: int = 0

    def __post_init__(self) -> None:
        if min(self.nodes, self.devices, self.pods) < 1:
            raise ValueError(f"nodes, devices and pods must be at least 1, not {self}")
        if not 0 <= self.taken <= self.nodes * self.devices:
            raise ValueError(f"taken must be 0 to nodes x devices, not {self.taken}")


class Placed(NamedTuple):
    """What is there from the beginning: a pod, its claim and that claim's status but for its user; or a claim alone."""

    pod: Any
    claim: Object | None
    status: Object


WORKLOADS: Final = Path(__file__).with_name("workloads.yaml")


@cache
def workloads() -> Mapping[str, Workload]:
    """All workloads by name, in the file's order."""
    entries = yaml.safe_load(WORKLOADS.read_text())
    found = [Workload(**{("class_spec" if key == "class" else key): entry[key] for key in entry}) for entry in entries]
    return {workload.name: workload for workload in found}


class Fleet:
    """The cluster's objects for one workload and size."""

    def __init__(self, workload: Workload, size: Size) -> None:
        self.workload = workload
        self.size = size

    def nodes(self) -> Iterator[Object]:
        given = self.workload.node or {}
        for number in range(self.size.nodes):
            offer = {"cpu": "64", "memory": "512Gi", "pods": "250", **given.get("offer", {})}
            zones = given.get("zones", ZONES)
            zone = {"topology.kubernetes.io/zone": f"zone-{number % zones}"} if zones else {}
            # The last ones, so that pods that are there before are on others.
            is_tainted = number >= self.size.nodes * (1 - given.get("tainted", 0))
            yield {
                "metadata": {
                    "name": node_name(number),
                    "labels": {"kubernetes.io/hostname": node_name(number), **zone},
                },
                "spec": {"taints": [{"key": "foo", "effect": "NoSchedule"}]} if is_tainted else {},
                "status": {
                    "capacity": offer,
                    "allocatable": offer,
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            }

    def slices(self) -> Iterator[Object]:
        if self.workload.devices["kind"] == "none":
            return
        contents = POOLS.get(self.workload.devices["kind"])
        for number in range(self.size.nodes):
            if contents is not None:
                name, parts = node_name(number), contents()
                for part in parts:
                    yield _slice(name, name, part, len(parts), "devices" if "devices" in part else "counters")
            elif self.workload.devices["kind"] == "partition":
                yield from self._partitionable(number)
            else:
                devices = [self._device(number, index) for index in range(self.size.devices)]
                yield _slice(node_name(number), node_name(number), {"devices": devices})

    def _device(self, node: int, index: int) -> Object:
        attributes: Object = {
            "index": {"int": index},
            "uuid": {"string": f"gpu-{node}-{index}"},
            "model": {"string": "A100" if self.matches(node * self.size.devices + index) else "T4"},
            "driverVersion": {"version": "1.0.0"},
            "numa": {"int": index // 4},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci{node:04x}:{index // 2:02x}"},
        }
        device: Object = {"name": f"gpu-{index}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}
        if self.workload.devices["kind"] == "shared":
            device["allowMultipleAllocations"] = True
        return device

    def _partitionable(self, node: int) -> Iterator[Object]:
        """One pool a node: a slice with a counter set a GPU, and one with halves and quarters that draw on them."""
        name = node_name(node)
        counters = {"memory": {"value": "80Gi"}, **{f"slice-{part}": {"value": "1"} for part in range(4)}}
        sets = [{"name": f"gpu-{index}", "counters": counters} for index in range(self.size.devices)]
        yield _slice(name, name, {"sharedCounters": sets}, 2, "counters")
        profiles = (("half", (0, 1)), ("half", (2, 3)), *(("quarter", (part,)) for part in range(4)))
        devices = [
            _part(index, number, profile, taken)
            for index in range(self.size.devices)
            for number, (profile, taken) in enumerate(profiles)
        ]
        yield _slice(name, name, {"devices": devices}, 2)

    def matches(self, index: int) -> bool:
        """Does the index-th device of the cluster have the model that is selected?"""
        if self.workload.devices.get("matching") != "pods":
            return True
        every = max(self.size.nodes * self.size.devices // self.size.pods, 1)
        return index % every == 0

    def device_classes(self) -> Iterator[Object]:
        """One, or as many as the workload says, each with an extended resource of its own."""
        workload = self.workload
        for number in range(workload.classes):
            spec: Object = {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}
            spec |= workload.class_spec or {}
            if workload.extended is not None:
                spec["extendedResourceName"] = self._extended(number)
            yield {"metadata": {"name": CLASS if workload.classes == 1 else f"{CLASS}-{number}"}, "spec": spec}

    def _extended(self, number: int) -> str:
        """The extended resource of the class (or pod) of that number."""
        assert self.workload.extended is not None
        classes = self.workload.classes
        return self.workload.extended if classes == 1 else f"{self.workload.extended}-{number % classes}"

    @property
    def has_generated_claims(self) -> bool:
        """Whether kube-controller-manager makes a claim for each pod, or for every so manieth."""
        return self.workload.claim is not None and not self.workload.sharing

    def templates(self) -> Iterator[Object]:
        """Of the pods' claims, and of claims that no device serves."""
        if self.has_generated_claims:
            assert self.workload.claim is not None
            yield _template(TEMPLATE, self.workload.claim)
        nobody = {"selectors": [{"cel": {"expression": "device.driver == 'nobody.example.com'"}}]}
        exactly = {"deviceClassName": CLASS, **nobody}
        yield _template(HOPELESS, {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}})

    def shared_claims(self) -> Iterator[Object]:
        """Claims that several pods use, when the workload has such."""
        if self.workload.sharing:
            for number in range(-(-self.size.pods // self.workload.sharing) + 1):
                yield {
                    "metadata": {"namespace": NAMESPACE, "name": f"shared-{number:05}"},
                    "spec": self.workload.claim,
                }

    def storage_classes(self) -> Iterator[Object]:
        """The class of the pods' volumes, when they have any."""
        if self.workload.volume:
            yield {
                "metadata": {"name": VOLUME_CLASS},
                "provisioner": PROVISIONER,
                "volumeBindingMode": "WaitForFirstConsumer",
            }

    def volume_claim(self, pod: str) -> Object:
        """The claim for a volume of the pod of that name."""
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": VOLUME_CLASS,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        return {"metadata": {"namespace": NAMESPACE, "name": pod}, "spec": spec}

    def pod(self, name: str, scheduler_name: str) -> Object:
        container: Object = {"name": "main", "image": "registry.example.com/work:1"}
        own = self.workload.requests
        amounts = {"cpu": self.workload.cpu, "memory": "64Mi"} if own is None else own
        resources: Object = {"requests": dict(amounts)}
        spec: Object = {
            "schedulerName": scheduler_name,
            "terminationGracePeriodSeconds": 0,
            "containers": [{**container, "resources": resources}],
            **(self.workload.pod or {}),
        }
        number = int(name.rpartition("-")[2])
        if self.workload.claim is not None and number % self.workload.every == 0:
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": TEMPLATE}]
            resources["claims"] = [{"name": "gpu"}]
        if self.workload.sharing:
            claim = f"shared-{number // self.workload.sharing:05}"
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
        if self.workload.extended is not None:
            resource = self._extended(number)
            resources["limits"] = {resource: "1"}
            resources["requests"][resource] = "1"
        if self.workload.volume:
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        if self.workload.bound_volume:
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name, "readOnly": True}}]
        labels = {"app": "bench", **(self.workload.labels or {})}
        if self.workload.groups > 1:
            labels["group"] = str(number % self.workload.groups)
        return {"metadata": {"namespace": NAMESPACE, "name": name, "labels": labels}, "spec": spec}

    def hopeless_pod(self, name: str, scheduler_name: str) -> Object:
        """A pod whose claim no device serves."""
        pod = self.pod(name, scheduler_name)
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": HOPELESS}]
        pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
        return pod

    def taken(self) -> Iterator[Placed]:
        """Claims that nobody's pods hold: `taken` devices from the front."""
        if self.workload.claim is not None and self.size.taken:
            count = self.size.taken // max((self.workload.bare or {}).get("take", 1), 1)
            for number, (node, results) in zip(range(count), self.bare_places(), strict=False):
                yield Placed(None, *self._allocated(f"filler-{number:05}", node, results))

    def running(self, scheduler_name: str) -> Iterator[Placed]:
        """As many pods as there are to come, each on its node with a claim of its own."""
        for number, (node, results) in zip(range(self.size.pods), self.bare_places(), strict=False):
            yield self._placed(f"running-{number:05}", scheduler_name, node, results)

    def _placed(self, name: str, scheduler_name: str, node: str, results: list[Object]) -> Placed:
        pod = self.pod(name, scheduler_name)
        pod["spec"]["nodeName"] = node
        if self.workload.claim is None:
            return Placed(pod, None, {})
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
        return Placed(pod, *self._allocated(name, node, results))

    def _allocated(self, name: str, node: str, results: list[Object]) -> tuple[Object, Object]:
        """A claim, and its status."""
        meta = {"namespace": NAMESPACE, "name": name, "finalizers": [FINALIZER]}
        return {"metadata": meta, "spec": self.workload.claim}, {"allocation": allocation(node, results)}

    # -- pods that others preempt ---------------------------------------------------------------------------------

    def priority_classes(self) -> Iterator[Object]:
        """Of the pods, and of their victims."""
        if self.workload.victims:
            for name, value in ((HIGH, 1000), (LOW, 10)):
                yield {"metadata": {"name": name}, "value": value}

    def victims(self) -> Iterator[Placed]:
        """Pods that run from the beginning."""
        places = self.bare_places()
        for number in range(self.size.nodes * self.workload.victims):
            node, results = node_name(number // self.workload.victims), []
            if self.workload.claim is not None:
                node, results = next(places)
            found = self._placed(f"victim-{number:05}", "nobody", node, results)
            found.pod["spec"]["priorityClassName"] = LOW
            yield found

    # -- what a loop that decides nothing writes --------------------------------------------------------------

    def can_write_bare(self) -> bool:
        return self.workload.bare is not None and not self.workload.sharing and self.workload.every == 1

    def free_places(self) -> Iterator[tuple[str, list[Object]]]:
        """`bare_places` without those that are taken from the beginning."""
        take = max((self.workload.bare or {}).get("take", 1), 1)
        return islice(self.bare_places(), self.size.taken // take, None)

    def bare_places(self) -> Iterator[tuple[str, list[Object]]]:
        """A node and allocation results, pod after pod, without looking at anything."""
        bare = self.workload.bare or {}
        take = bare.get("take", 0)
        if not take:
            number = 0
            while True:
                yield node_name(number % self.size.nodes), []
                number += 1
        batch: list[Object] = []
        for node, pool, device in self._places(bare):
            result: Object = {"request": bare["request"], "driver": DRIVER, "pool": pool, "device": device}
            if "share" in bare:
                result |= {"shareID": str(uuid.uuid4()), "consumedCapacity": {"memory": bare["share"]}}
            batch.append(result)
            if len(batch) == take:
                yield node, batch
                batch = []

    def _places(self, bare: Object) -> Iterator[tuple[str, str, str]]:
        for node in range(self.size.nodes):
            name = node_name(node)
            if "devices" in bare:
                yield from ((name, name, device) for device in bare["devices"])
                continue
            for index in range(self.size.devices):
                if self.workload.devices["kind"] == "partition":
                    yield from ((name, name, f"gpu-{index}-part-{number}") for number in range(2))
                elif self.matches(node * self.size.devices + index):
                    times = 4 if "share" in bare else 1
                    yield from [(name, name, f"gpu-{index}")] * times


def _part(gpu: int, number: int, profile: str, taken: tuple[int, ...]) -> Object:
    memory = {"value": f"{20 * len(taken)}Gi"}
    consumed = {"memory": memory, **{f"slice-{part}": {"value": "1"} for part in taken}}
    return {
        "name": f"gpu-{gpu}-part-{number}",
        "attributes": {"profile": {"string": profile}, "parent": {"string": f"gpu-{gpu}"}},
        "capacity": {"memory": memory},
        "consumesCounters": [{"counterSet": f"gpu-{gpu}", "counters": consumed}],
    }


def _template(name: str, spec: Object) -> Object:
    return {"metadata": {"namespace": NAMESPACE, "name": name}, "spec": {"spec": spec}}


def allocation(node: str, results: list[Object]) -> Object:
    """That of a claim for devices of one node."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [term]}}


def node_name(number: int) -> str:
    return f"node-{number:04}"


def _slice(pool: str, node: str, content: Object, slices: int = 1, suffix: str = "devices") -> Object:
    return {
        "metadata": {"name": f"{pool}-{suffix}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": slices},
            **content,
        },
    }
