"""Worlds of pods that stand in each other's way: host ports, labels, spread, affinity, requests and nodes that change.

What `World` asks of claims is asked here of these: nothing that could run stays pending, and no two pods that we bound
hold one host port, or are where a required anti-affinity forbids it.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from scheduler.model.objects import Pod
from tests import builders
from tests.sim.world import World

APPS = ("a", "b")
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
CHANGES = ("relabel_pod", "resize_pod", "finish_pod", "delete_pod", "relabel_node", "taint_node", "change_node")
ROUNDS = 8


class UnsafePlacementError(AssertionError):
    """Two of our pods are where one of them forbids it."""


def _affinity(kind: str, app: str, key: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _spread(app: str, key: str) -> dict[str, Any]:
    selector = {"matchLabels": {"app": app}}
    constraint = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }
    return {"topologySpreadConstraints": [constraint]}


class PlacementWorld(World):
    """Three nodes in two zones, and pods that differ by what they want of other pods and of nodes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.pods_max = 16
        self.weights |= {"relabel_pod": 4, "relabel_node": 2, "taint_node": 1, "resize_pod": 2, "finish_pod": 6}
        self.relabelled: set[str] = set()  # uids
        self.are_zones_as_ever = True
        self.add_node("node-2", self.devices)
        for index, name in enumerate(sorted(self.server.nodes)):
            self._label_node(name, {ZONE: f"zone-{index % 2}", "disk": self.rnd.choice(["ssd", "hdd"])})

    def create_pod(self) -> None:
        alive = [pod for pod in self.server.pods.values() if not pod.is_terminal]
        if len(alive) >= self.pods_max:
            return
        if self.chance(0.2):
            super().create_pod()
            return
        name = f"pod-{next(self.names)}"
        fields = self._wishes()
        self.trace.append(f"create {name} {fields}")
        self.server.put_pod(builders.pod(name, **fields))

    def _wishes(self) -> dict[str, Any]:
        rnd = self.rnd
        app, key = rnd.choice(APPS), rnd.choice([ZONE, HOSTNAME])
        fields: dict[str, Any] = {
            "labels": {"app": rnd.choice(APPS)},
            "priority": rnd.choice([None, 0, 10]),
            "requests": {"cpu": rnd.choice(["1m", "1m", "3"])},
        }
        match rnd.randrange(6):
            case 0:
                port = {"hostPort": rnd.choice([80, 81]), "containerPort": 80, "protocol": "TCP"}
                resources = {"requests": fields.pop("requests")}
                fields["containers"] = [{"name": "main", "ports": [port], "resources": resources}]
            case 1:
                fields |= _spread(app, key)
            case 2:
                fields |= _affinity("podAntiAffinity", app, key)
            case 3:
                fields |= _affinity("podAffinity", app, key)
            case 4:
                fields["nodeSelector"] = {"disk": rnd.choice(["ssd", "hdd", "none"])}
            case _:
                fields["requests"] = {"cpu": "5"}
        return fields

    # What users do

    def relabel_pod(self) -> None:
        pod = self.any_pod()
        if pod is not None:
            self.relabelled.add(pod.uid)
            meta = replace(pod.metadata, labels={"app": self.rnd.choice([*APPS, "c"])})
            self.server.put_pod(replace(pod, metadata=meta))

    def resize_pod(self) -> None:
        """A running pod asks for less."""
        pod = self.any_pod()
        if pod is None or pod.node_name is None or not pod.spec.containers or pod.spec.resource_claims:
            return
        small = replace(
            pod.spec.containers[0], resources=builders.pod(requests={"cpu": "1m"}).spec.containers[0].resources
        )
        if "example.com/gpu" not in (pod.spec.containers[0].resources.requests or {}):
            self.server.put_pod(replace(pod, spec=replace(pod.spec, containers=(small,))))

    def relabel_node(self) -> None:
        name = self.rnd.choice(sorted(self.server.nodes))
        labels = {"disk": self.rnd.choice(["ssd", "hdd"])}
        if self.chance(0.3):
            labels[ZONE] = self.rnd.choice(["zone-0", "zone-1"])
            self.are_zones_as_ever &= labels[ZONE] == self._zone_of(name)
        self._label_node(name, labels)

    def _zone_of(self, node: str) -> str:
        return self.server.nodes[node].labels[ZONE]

    def _label_node(self, name: str, labels: dict[str, str]) -> None:
        node = self.server.nodes[name]
        self.server.put_node(replace(node, metadata=replace(node.metadata, labels={**node.labels, **labels})))

    def taint_node(self) -> None:
        node = self.server.nodes[self.rnd.choice(sorted(self.server.nodes))]
        taint = builders.node(taints=({"key": "t", "effect": "NoSchedule"},)).spec.taints
        self.server.put_node(replace(node, spec=replace(node.spec, taints=None if node.spec.taints else taint)))

    # What must hold

    def heal(self) -> None:
        """One change after the other, and after each nothing may be missed. No room is enough for all of these pods."""
        for _ in range(ROUNDS):
            for _ in range(3):
                self.create_pod()
            while self.owed_claims:
                self.generate_claim()
            self.settle()
            for name in self.rnd.sample(CHANGES, 2):
                getattr(self, name)()
                for pod in list(self.server.pods.values()):
                    if pod.is_deleting:  # spread counts it no more, but as upstream's it wakes pods when it is gone
                        self.server.delete_pod(pod.key)
                self.settle()
                self.check_nothing_missed()
        self.check_safety()

    def check_safety(self) -> None:
        super().check_safety()
        ours = [pod for pod in self.server.pods.values() if pod.uid in self.promised and not pod.is_terminal]
        for index, pod in enumerate(ours):
            for other in ours[:index]:
                if pod.node_name == other.node_name and _ports(pod) & _ports(other):
                    raise UnsafePlacementError(f"{pod.key} and {other.key} hold one port of {pod.node_name}")
                if not {pod.uid, other.uid} & self.relabelled:
                    for one, two in ((pod, other), (other, pod)):
                        if any(_forbids(one, two, key) for key in self._shared_domains(one.node_name, two.node_name)):
                            raise UnsafePlacementError(f"{two.key} is on {two.node_name}, which {one.key} forbids")

    def _shared_domains(self, node: str, other: str) -> list[str]:
        """Keys of what the two nodes have in common, as far as that has never changed."""
        if node == other:
            return [HOSTNAME, ZONE] if self.are_zones_as_ever else [HOSTNAME]
        return [ZONE] if self.are_zones_as_ever and self._zone_of(node) == self._zone_of(other) else []


def _ports(pod: Pod) -> set[int]:
    return {port.host_port for one in pod.spec.containers or () for port in one.ports or () if port.host_port}


def _forbids(pod: Pod, other: Pod, key: str) -> bool:
    affinity = pod.spec.affinity
    terms = affinity.pod_anti_affinity.required if affinity is not None and affinity.pod_anti_affinity else None
    return any(
        term.topology_key == key
        and (term.label_selector.match_labels or {}).get("app") == (other.metadata.labels or {}).get("app")
        for term in terms or ()
    )
