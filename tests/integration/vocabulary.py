"""Groups of pods that draw from every plugin's vocabulary, on several nodes: affinity, spread, ports, volumes, …

The next pod comes when the last one is bound or refused, and what is refused goes, as in `one-by-one`. But nodes that
are equally good are chosen between at random, and what follows depends on it. So the second scheduler is led
(`side_by_side`): a pod that it puts on another node goes, and comes back on the node of the first one. Pods with
something that a node is promised with (devices, volumes that wait) name their node, so that this cannot happen to them.

    led          Everything is equal but the node of a pod that names none: verdict, reason, allocations.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from tests.integration.random_fleet import (
    GROUP,
    PRIORITIES,
    Fleet,
    Group,
    add_class,
    add_template,
    exactly,
    make_pod,
    plain_devices,
)
from tests.integration.world import node

Object = dict[str, Any]

HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
CLOSED: Final = "fleet/closed"
CSI: Final = "volumes.example.com"
COUNTED: Final = "example.com/counted"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"

PLUGIN_CONFIG: Final[list[Object]] = [
    {
        "name": "NodeAffinity",
        "args": {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "NodeAffinityArgs",
            "addedAffinity": {
                _REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": CLOSED, "operator": "DoesNotExist"}]}]}
            },
        },
    }
]
"""Of the profile of both schedulers: nobody goes to closed nodes."""


def add_vocabulary(fleet: Fleet, groups: int, pods_each: int) -> None:
    """So many groups; the seed is the fleet's."""
    rnd = random.Random(f"vocabulary {fleet.seed}")
    for mode, name in (("WaitForFirstConsumer", "later"), ("Immediate", "now")):
        body = {"metadata": {"name": name}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": mode}
        fleet.objects.append(("storageclasses", body))
    for number in range(groups):
        _Vocabulary(fleet, f"v{number:02}", rnd.randrange(2**32)).draw(pods_each)


class _Vocabulary:
    def __init__(self, fleet: Fleet, name: str, seed: int) -> None:
        self._fleet, self._name, self._rnd = fleet, name, random.Random(seed)
        self._nodes: list[str] = []
        self._likely: dict[str, float] = {}

    def draw(self, pods: int) -> None:
        rnd = self._rnd
        for number in range(rnd.choice((3, 4, 6))):
            self._add_node(f"{self._name}-node-{number}")
        self._class = add_class(self._fleet, self._name)
        claims = [f"{self._name}-once", f"{self._name}-shared"]
        for claim, mode in zip(claims, ("ReadWriteOncePod", "ReadWriteMany"), strict=True):
            self._add_bound_volume(claim, mode)
        group = Group(self._name, "led")
        self._fleet.groups.append(group)
        # Each group has some features often and others never, so that they meet.
        self._likely = {feature.__name__: rnd.choice((0.0, 0.1, 0.3, 0.7)) for feature in self._features()}
        group.pods = [self._pod(f"{self._name}-{number:02}") for number in range(pods)]

    def _add(self, resource: str, item: Object) -> None:
        self._fleet.objects.append((resource, item))

    def _add_node(self, name: str) -> None:
        rnd = self._rnd
        labels = {GROUP: self._name, "kind": rnd.choice("ab"), "size": str(rnd.randrange(4))}
        if rnd.random() < 0.9:
            labels[ZONE] = f"zone-{rnd.choice('xyz')}"
        if rnd.random() < 0.1:
            labels[CLOSED] = "yes"
        spec: Object = {}
        if rnd.random() < 0.3:
            effect = rnd.choice(("NoSchedule", "NoSchedule", "PreferNoSchedule", "NoExecute"))
            spec["taints"] = [{"key": rnd.choice(("fleet", "other")), "value": "x", "effect": effect}]
        if rnd.random() < 0.08:
            spec["unschedulable"] = True
        made = node(name, cpu=rnd.choice(("2", "4", "16")), labels=labels, **spec)
        offer = made["status"]["allocatable"] | {
            "pods": rnd.choice(("6", "12", "110")),
            "ephemeral-storage": "20Gi",
            COUNTED: rnd.choice(("0", "2", "8")),
        }
        made["status"] |= {"allocatable": offer, "capacity": offer}
        if rnd.random() < 0.5:
            names = [f"registry.example.com/{rnd.choice('ab')}:1"]
            made["status"]["images"] = [{"names": names, "sizeBytes": rnd.choice((50, 400, 900)) * 2**20}]
        self._add("nodes", made)
        if rnd.random() < 0.6:
            drivers = [{"name": CSI, "nodeID": name, "allocatable": {"count": rnd.choice((1, 2, 5))}}]
            self._add("csinodes", {"metadata": {"name": name}, "spec": {"drivers": drivers}})
        if rnd.random() < 0.6:
            self._add("resourceslices", plain_devices(name, rnd.choice((2, 4))))
        self._nodes.append(name)

    # -- volumes ----------------------------------------------------------------------------------------------

    def _add_claim(self, name: str, mode: str, **spec: Any) -> None:
        want = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}, **spec}
        self._add("persistentvolumeclaims", {"metadata": {"namespace": self._name, "name": name}, "spec": want})

    def _add_volume(self, name: str, mode: str, source: Object, **more: Any) -> None:
        """With labels and all else of `spec` in `more`."""
        labels = more.pop("labels", {})
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": [mode],
            "persistentVolumeReclaimPolicy": "Retain",
            **source,
            **more,
        }
        self._add("persistentvolumes", {"metadata": {"name": name, "labels": labels}, "spec": spec})

    def _add_bound_volume(self, claim: str, mode: str) -> None:
        """A volume and its claim that name each other; some are reached from a zone only, or from some nodes."""
        rnd = self._rnd
        more: Object = {"claimRef": {"kind": "PersistentVolumeClaim", "namespace": self._name, "name": claim}}
        draw = rnd.random()
        if draw < 0.4:
            more["labels"] = {ZONE: f"zone-{rnd.choice('xyz')}"}
        elif draw < 0.7:
            values = rnd.sample(self._nodes, 2)
            terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": values}]}]
            more["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        source = {"csi": {"driver": CSI, "volumeHandle": claim}}
        self._add_volume(claim, mode, source, storageClassName="", **more)
        self._add_claim(claim, mode, storageClassName="", volumeName=claim)

    def _with_volume(self, spec: Object, name: str) -> None:
        rnd = self._rnd
        kind = rnd.choice(
            ("bound", "bound", "once", "shared", "missing", "unbound", "later", "none-left", "disk", "disk")
        )
        claim = name
        match kind:
            case "bound":
                self._add_bound_volume(name, "ReadWriteOnce")
            case "once" | "shared":
                claim = f"{self._name}-{kind}"
            case "unbound":
                self._add_claim(name, "ReadWriteOnce", storageClassName="now")
            case "later" | "none-left":
                place = rnd.choice(self._nodes)
                if kind == "later":
                    terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [place]}]}]
                    affinity = {"required": {"nodeSelectorTerms": terms}}
                    labels = {"for": name}
                    more = {"storageClassName": "later", "nodeAffinity": affinity, "labels": labels}
                    self._add_volume(name, "ReadWriteOnce", {"local": {"path": "/data"}}, **more)
                selector = {"matchLabels": {"for": name}}
                self._add_claim(name, "ReadWriteOnce", storageClassName="later", selector=selector)
                spec["nodeSelector"] = {GROUP: self._name, HOST: place}
            case "disk":
                disk = {"pdName": f"{self._name}-{rnd.choice('ab')}", "readOnly": rnd.random() < 0.4}
                spec["volumes"] = [{"name": "data", "gcePersistentDisk": disk}]
                return
            case _:
                pass  # there is no such claim
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]

    # -- pods -------------------------------------------------------------------------------------------------

    def _features(self) -> tuple[Callable[[Object, str], None], ...]:
        return (
            *(self._with_node_affinity, self._with_toleration, self._with_port, self._with_volume),
            *(self._with_spread, self._with_pods_near, self._with_pods_far, self._with_pod_resources),
            *(self._with_sidecar, self._with_priority),
        )

    def _pod(self, name: str) -> Object:
        rnd = self._rnd
        claims: Object = {}
        spec: Object = {}
        for feature in self._features():
            if rnd.random() < self._likely[feature.__name__]:
                feature(spec, name)
        if rnd.random() < 0.2:
            request = {"name": "gpu", "exactly": exactly(self._class, rnd.choice((1, 1, 2)))}
            claims = add_template(self._fleet, self._name, name, requests=[request])
            spec.setdefault("nodeSelector", {GROUP: self._name, HOST: rnd.choice(self._nodes)})
        pod = make_pod(self._name, name, claims, cpu=rnd.choice(("", "100m", "500m", "1", "3")), **spec)
        container = pod["spec"]["containers"][0]
        container["image"] = f"registry.example.com/{rnd.choice('ab')}:1"
        container["ports"] = pod["spec"].pop("ports", [])
        if rnd.random() < 0.15:
            container["resources"].setdefault("requests", {})[COUNTED] = "1"
            container["resources"].setdefault("limits", {})[COUNTED] = "1"
        pod["metadata"]["labels"] = {"app": rnd.choice("abc"), "version": rnd.choice("12")}
        return pod

    def _with_node_affinity(self, spec: Object, name: str) -> None:
        rnd = self._rnd
        expressions: tuple[Object, ...] = (
            {"key": "kind", "operator": "In", "values": ["a"]},
            {"key": "kind", "operator": "NotIn", "values": ["a"]},
            {"key": "size", "operator": "Gt", "values": ["1"]},
            {"key": "size", "operator": "Lt", "values": ["2"]},
            {"key": ZONE, "operator": "Exists"},
            {"key": "nobody", "operator": "DoesNotExist"},
        )
        terms = [{"matchExpressions": rnd.sample(expressions, rnd.choice((1, 2)))} for _ in range(rnd.choice((1, 2)))]
        if rnd.random() < 0.15:
            field = {"key": "metadata.name", "operator": "In", "values": [rnd.choice(self._nodes)]}
            terms = [{"matchFields": [field]}]
        affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
        if rnd.random() < 0.7:
            affinity[_REQUIRED] = {"nodeSelectorTerms": terms}
        if rnd.random() < 0.5:
            preference = {"matchExpressions": [rnd.choice(expressions)]}
            affinity[_PREFERRED] = [{"weight": rnd.randrange(1, 101), "preference": preference}]

    def _with_toleration(self, spec: Object, name: str) -> None:
        rnd = self._rnd
        spec["tolerations"] = [
            rnd.choice(
                (
                    {"key": "fleet", "operator": "Exists"},
                    {"key": "other", "operator": "Equal", "value": "x", "effect": "NoSchedule"},
                    {"operator": "Exists"},
                    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
                )
            )
        ]

    def _with_port(self, spec: Object, name: str) -> None:
        rnd = self._rnd
        port: Object = {"containerPort": 80, "hostPort": rnd.choice((8080, 8080, 9090))}
        port["protocol"] = rnd.choice(("TCP", "TCP", "UDP"))
        if rnd.random() < 0.3:
            port["hostIP"] = rnd.choice(("127.0.0.1", "10.0.0.1"))
        spec["ports"] = [port]  # of the container

    def _with_spread(self, spec: Object, name: str) -> None:
        rnd = self._rnd
        constraints = []
        for key in rnd.sample((ZONE, HOST, "kind"), rnd.choice((1, 1, 2))):
            one: Object = {
                "maxSkew": rnd.choice((1, 1, 2)),
                "topologyKey": key,
                "whenUnsatisfiable": rnd.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
                "labelSelector": {"matchLabels": {"app": rnd.choice("abc")}},
            }
            if one["whenUnsatisfiable"] == "DoNotSchedule" and rnd.random() < 0.2:
                one["minDomains"] = rnd.choice((2, 4))
            if rnd.random() < 0.2:
                one["nodeTaintsPolicy"] = "Honor"
            if rnd.random() < 0.2:
                one["nodeAffinityPolicy"] = "Ignore"
            if rnd.random() < 0.3:
                one["matchLabelKeys"] = ["version"]
            constraints.append(one)
        spec["topologySpreadConstraints"] = constraints

    def _term(self) -> Object:
        rnd = self._rnd
        term: Object = {
            "topologyKey": rnd.choice((ZONE, ZONE, HOST)),
            "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": [rnd.choice("abc")]}]},
        }
        if rnd.random() < 0.2:
            term["namespaceSelector"] = {"matchLabels": {GROUP: self._name}}
        if rnd.random() < 0.2:
            term[rnd.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["version"]
        return term

    def _with_pods(self, spec: Object, kind: str) -> None:
        rnd = self._rnd
        terms = spec.setdefault("affinity", {}).setdefault(kind, {})
        if rnd.random() < 0.7:
            terms[_REQUIRED] = [self._term()]
        if rnd.random() < 0.5:
            terms[_PREFERRED] = [{"weight": rnd.randrange(1, 101), "podAffinityTerm": self._term()}]

    def _with_pods_near(self, spec: Object, name: str) -> None:
        self._with_pods(spec, "podAffinity")

    def _with_pods_far(self, spec: Object, name: str) -> None:
        self._with_pods(spec, "podAntiAffinity")

    def _with_pod_resources(self, spec: Object, name: str) -> None:
        spec["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}}  # of the pod as a whole
        if self._rnd.random() < 0.3:
            spec["resources"]["requests"] = {"memory": "200Gi"}

    def _with_sidecar(self, spec: Object, name: str) -> None:
        resources = {"requests": {"cpu": self._rnd.choice(("100m", "1", "4"))}}
        helper: Object = {"name": "first", "image": "registry.example.com/a:1", "resources": resources}
        if self._rnd.random() < 0.5:
            helper["restartPolicy"] = "Always"
        spec["initContainers"] = [helper]

    def _with_priority(self, spec: Object, name: str) -> None:
        spec["priorityClassName"] = self._rnd.choice(tuple(PRIORITIES))
