"""What planted causes are made of: a dress (names, namespace, driver, how many of everything, noise), edits, the row.

A scenario is a function from a dress to a `Planted`; each is told in two dresses at least, so an explanation that
knows one example by heart fails the other.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

Obj: TypeAlias = dict[str, Any]
Edit: TypeAlias = Callable[[list[Obj]], list[Obj]]

DRA: Final = "resource.k8s.io/v1"
BORN: Final = "2026-11-20T08:00:00Z"
NIC: Final = "nic.fabric.example"


@dataclass(frozen=True)
class Planted:
    """One cause.

    Args:
        bullet: Which bullet of the issue it belongs to.
        asked: Namespace and name of the pod.
        kind: A pattern for the name in brackets.
        object: A pattern for the object that makes it so: it stands in the first two lines.
        says: Patterns of the fact, all of which stand in the first two lines.
        change: Patterns of the second line.
        never: Patterns of false advice or false facts.
        mend: Takes the cause away: once it is done the pod fits.
        hidden: What an event may not name, for it is of another namespace; `object` is not asked of the event then.
        unheard: No scheduler looks at the pod: there is no event.
        fits: Nothing is wrong: it is false to say so.
        asks: What `explain` is asked about instead of the pod: its workload.
        unserved: The embedded server has no such objects: files alone are asked about.
    """

    objects: Sequence[Obj]
    asked: tuple[str, str]
    kind: str
    object: str
    mend: Sequence[Edit]
    says: Sequence[str] = ()
    change: Sequence[str] = ()
    never: Sequence[str] = ()
    hidden: Sequence[str] = ()
    unheard: bool = False
    fits: bool = False
    asks: str = ""
    unserved: bool = False
    name: str = ""
    bullet: str = ""


@dataclass(frozen=True)
class Dress:
    """How the same thing looks in somebody's cluster.

    Args:
        count: Devices of each node.
        attribute: Its name, and two values of it: the first is what devices have.
        is_template: The pod's claims come from a template.
        is_noisy: Other drivers' devices, other waiting pods and other namespaces are there.
    """

    name: str
    driver: str
    cls: str
    namespace: str
    nodes: tuple[str, ...]
    count: int
    device: str
    request: str
    claim: str
    pod: str
    attribute: tuple[str, str, str]
    is_template: bool = False
    is_noisy: bool = False

    # Nodes and devices

    @property
    def at(self) -> str:
        return self.nodes[0]

    @property
    def asked(self) -> tuple[str, str]:
        return self.namespace, self.pod

    def names(self, count: int | None = None) -> list[str]:
        return [f"{self.device}-{index}" for index in range(self.count if count is None else count)]

    def one(self, name: str, attributes: Obj | None = None, memory: str = "80Gi", **more: Any) -> Obj:
        """A device with the dress's attribute and these others."""
        key, value, _ = self.attribute
        return {
            "name": name,
            "attributes": {key: {"string": value}, **(attributes or {})},
            "capacity": {"memory": {"value": memory}},
            **more,
        }

    def all(self, count: int | None = None, **more: Any) -> list[Obj]:
        return [self.one(name, **more) for name in self.names(count)]

    def slice(
        self, devices: Sequence[Obj], node: str = "", name: str = "", pool: Obj | None = None, **spec: Any
    ) -> Obj:
        return slice_of(self.driver, devices, node or self.at, name, pool, **spec)

    def klass(self, expression: str = "", **spec: Any) -> Obj:
        return class_of(self.cls, expression or f"device.driver == '{self.driver}'", **spec)

    def nodes_(self, **more: Any) -> list[Obj]:
        return [node(name, **more) for name in self.nodes]

    def fleet(self, devices: Sequence[Obj] | None = None, **spec: Any) -> list[Obj]:
        """Every node with these devices (all that the dress has), the class, and the noise."""
        own = self.all() if devices is None else devices
        slices = [self.slice(copy.deepcopy(own), name, **spec) for name in self.nodes]
        return [*self.nodes_(), *slices, self.klass(), *self.noise()]

    def noise(self) -> list[Obj]:
        if not self.is_noisy:
            return []
        nics = [{"name": f"nic-{index}", "attributes": {"rdma": {"bool": True}}} for index in range(2)]
        other = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}},
            class_of("nics", f"device.driver == '{NIC}'"),
        ]
        waits = pod("waits", "other", nodeSelector={"disk": "fast"})
        busy = [
            *holder("other", "net", "nics", NIC, f"{self.at}-nics", [("nic-1")], self.at, request="n"),
            waits,
            pod("web", "other", node=self.at),
        ]
        return [
            *other,
            *(slice_of(NIC, nics, name, f"nics-{name}", {"name": f"{name}-nics"}) for name in self.nodes),
            *busy,
        ]

    # What the pod asks for

    def ask(self, *requests: Obj, name: str = "", constraints: Sequence[Obj] = ()) -> Obj:
        """The claim, or the template."""
        devices: Obj = {"requests": list(requests) or [self.want()]}
        if constraints:
            devices["constraints"] = list(constraints)
        kind = "ResourceClaimTemplate" if self.is_template else "ResourceClaim"
        metadata = {"name": name or self.claim, "namespace": self.namespace}
        spec = {"spec": {"devices": devices}} if self.is_template else {"devices": devices}
        return {"apiVersion": DRA, "kind": kind, "metadata": metadata, "spec": spec}

    def want(self, expression: str = "", cls: str = "", name: str = "", **more: Any) -> Obj:
        selectors = {"selectors": [{"cel": {"expression": expression}}]} if expression else {}
        return {"name": name or self.request, "exactly": {"deviceClassName": cls or self.cls, **selectors, **more}}

    def is_(self, value: str, key: str = "", domain: str = "") -> str:
        """A selector."""
        return f"device.attributes['{domain or self.driver}'].{key or self.attribute[0]} == '{value}'"

    def waiting(self, *claims: str, **more: Any) -> Obj:
        """The pod that is asked about, with the dress's claim or these."""
        return pod(self.pod, self.namespace, claims or (self.claim,), is_template=self.is_template, **more)

    def plain(self, **more: Any) -> Obj:
        """The pod that is asked about, without claims."""
        return pod(self.pod, self.namespace, (), **more)

    def held(self, who: str, *devices: str, node: str = "", namespace: str = "", **more: Any) -> list[Obj]:
        """A claim with devices, and the pod that runs with it."""
        where = node or self.at
        return holder(namespace or self.namespace, who, self.cls, self.driver, where, devices, where, **more)

    # Where what it asks for is, for edits

    @property
    def ask_kind(self) -> str:
        return "ResourceClaimTemplate" if self.is_template else "ResourceClaim"

    def asks(self, path: str, value: Any) -> Edit:
        """An edit of what is asked for, from `devices` on."""
        return edit(self.ask_kind, self.claim, f"spec.{'spec.' if self.is_template else ''}devices.{path}", value)

    def claim_at(self) -> str:
        """A pattern: the claim or template by name, or the claim that is made of it."""
        return (
            rf"{self.namespace}/({self.claim}|{self.pod}-\S+)|template {self.claim}" if self.is_template else self.claim
        )


PLAIN = Dress(
    *("plain", "gpu.example.com", "gpu.example.com", "default", ("node-1",), 4, "gpu", "gpu", "gpus", "train"),
    ("model", "A100", "H100"),
)
ONE = Dress(
    *("one", "accel.lab.example", "accelerator", "lab", ("box",), 1, "card", "card", "card-claim", "notebook"),
    ("family", "mk2", "mk3"),
    is_template=True,
)
FLEET = Dress(
    *("fleet", "chips.vendor.io", "fast", "ml-team", ("worker-a", "worker-b", "worker-c"), 8, "chip", "acc"),
    *("chips-tmpl", "job-x7k2p", ("productName", "X9-Pro", "X9-Lite")),
    is_template=True,
    is_noisy=True,
)
PAIR = Dress(
    *("pair", "npu.silicon.dev", "npu", "research", ("rack1-n1", "rack1-n2"), 4, "npu", "main", "npu-claim", "eval-0"),
    ("sku", "N300", "N150"),
    is_noisy=True,
)


# --- objects ------------------------------------------------------------------------------------------------------


def node(
    name: str, cpu: str = "16", memory: str = "64Gi", pods: str = "110", labels: Obj | None = None, **spec: Any
) -> Obj:
    resources = {"cpu": cpu, "memory": memory, "pods": pods}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def slice_of(
    driver: str, devices: Sequence[Obj], node: str, name: str = "", pool: Obj | None = None, **spec: Any
) -> Obj:
    spec = {
        "driver": driver,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1, **(pool or {})},
        **({} if {"nodeSelector", "allNodes", "perDeviceNodeSelection"} & set(spec) else {"nodeName": node}),
        **({"devices": list(devices)} if devices else {}),
        **spec,
    }
    return {"apiVersion": DRA, "kind": "ResourceSlice", "metadata": {"name": name or f"slice-{node}"}, "spec": spec}


def class_of(name: str, expression: str, **spec: Any) -> Obj:
    selectors = [{"cel": {"expression": expression}}]
    metadata = {"name": name}
    return {"apiVersion": DRA, "kind": "DeviceClass", "metadata": metadata, "spec": {"selectors": selectors, **spec}}


def pod(
    name: str,
    namespace: str,
    claims: Sequence[str] = (),
    *,
    is_template: bool = False,
    node: str = "",
    requests: Obj | None = None,
    owner: tuple[str, str] = ("", ""),
    labels: Obj | None = None,
    status: Obj | None = None,
    ports: Sequence[Obj] = (),
    **spec: Any,
) -> Obj:
    """A pod; one with a node runs there, as an API server holds it. A Deployment's has the label that these have."""
    if owner[0] == "ReplicaSet" and "-" in owner[1]:
        labels = {**(labels or {}), "pod-template-hash": owner[1].rpartition("-")[2]}
    kind = "resourceClaimTemplateName" if is_template else "resourceClaimName"
    entries = [{"name": f"dev{index}", kind: claim} for index, claim in enumerate(claims)]
    resources: Obj = {"requests": {"cpu": "100m", "memory": "64Mi", **(requests or {})}}
    limits = {key: value for key, value in (requests or {}).items() if "/" in key}
    resources |= {"limits": limits} if limits else {}
    resources |= {"claims": [{"name": entry["name"]} for entry in entries]} if entries else {}
    container = {"name": "main", "image": "registry.example/work:1", "resources": resources}
    made: Obj = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **({"labels": labels} if labels else {})},
        "spec": {
            "schedulerName": "dra-scheduler",
            "containers": [container | ({"ports": list(ports)} if ports else {})],
            **({"resourceClaims": entries} if entries else {}),
            **spec,
        },
    }
    if owner[0]:
        version = "batch/v1" if owner[0] == "Job" else "apps/v1"
        reference = {"apiVersion": version, "kind": owner[0], "name": owner[1], "uid": f"uid-{owner[1]}"}
        made["metadata"]["ownerReferences"] = [{**reference, "controller": True, "blockOwnerDeletion": True}]
    if node:
        made = stored(made)
        made["spec"]["nodeName"] = node
        made["status"] = {"phase": "Running"}
    if status:
        made["status"] = status
    return made


def stored(obj: Obj) -> Obj:
    """As an API server prints it."""
    metadata = obj["metadata"]
    uid = f"uid-{metadata.get('namespace', '')}-{metadata['name']}"
    return {**obj, "metadata": {"uid": uid, "resourceVersion": "7", "creationTimestamp": BORN, **metadata}}


def taken(
    namespace: str,
    name: str,
    cls: str,
    driver: str,
    pool: str,
    devices: Sequence[str],
    node: str,
    users: Sequence[tuple[str, str]],
    request: str = "g",
    **result: Any,
) -> Obj:
    """A claim that has these devices, reserved for pods of these names and uids."""
    exactly = {"deviceClassName": cls, "allocationMode": "ExactCount", "count": len(devices)}
    results = [{"request": request, "driver": driver, "pool": pool, "device": one, **result} for one in devices]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    claim: Obj = {
        "apiVersion": DRA,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace, "finalizers": ["resource.kubernetes.io/delete-protection"]},
        "spec": {"devices": {"requests": [{"name": request, "exactly": exactly}]}},
        "status": {"allocation": {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [term]}}},
    }
    if users:
        claim["status"]["reservedFor"] = [{"resource": "pods", "name": who, "uid": uid} for who, uid in users]
    return stored(claim)


def holder(
    namespace: str,
    who: str,
    cls: str,
    driver: str,
    pool: str,
    devices: Sequence[str],
    node: str,
    request: str = "g",
    result: Obj | None = None,
    **more: Any,
) -> list[Obj]:
    """The pod `who` runs on a node with devices, by its claim `who-claim`."""
    runs = pod(who, namespace, (f"{who}-claim",), node=node, **more)
    users = [(who, runs["metadata"]["uid"])]
    return [
        taken(namespace, f"{who}-claim", cls, driver, pool, devices, node, users, request, **(result or {})),
        runs,
    ]


# --- edits --------------------------------------------------------------------------------------------------------


class _Removed:
    pass


REMOVED: Final = _Removed()


def edit(kind: str, name: str, path: str, value: Any) -> Edit:
    """Set what stands at a path of dots and indexes, or remove it; `name` "*" is all of that kind."""

    def change(objects: list[Obj]) -> list[Obj]:
        found = [obj for obj in objects if obj["kind"] == kind and name in ("*", obj["metadata"]["name"])]
        assert found, f"no {kind} {name}"
        for obj in found:
            *steps, last = [int(step) if step.isdigit() else step for step in path.split("|" if "|" in path else ".")]
            at: Any = obj
            for step in steps:
                at = at[step] if isinstance(step, int) else at.setdefault(step, {})
            if value is REMOVED:
                del at[last]
            else:
                at[last] = value
        return objects

    return change


def gone(*names: tuple[str, str]) -> Edit:
    """Without the objects of this kind and name."""

    def change(objects: list[Obj]) -> list[Obj]:
        left = [obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) not in names]
        assert len(left) == len(objects) - len(names), names
        return left

    return change


def ended(*pods: str) -> Edit:
    """The pods are gone, and their claims are let go."""
    return gone(*(("Pod", name) for name in pods), *(("ResourceClaim", f"{name}-claim") for name in pods))


def added(*more: Obj) -> Edit:
    return lambda objects: [*objects, *more]


def mended(row: Planted) -> list[Obj]:
    objects = copy.deepcopy(list(row.objects))
    for change in row.mend:
        objects = change(objects)
    return objects


# --- rows ---------------------------------------------------------------------------------------------------------

Scenario: TypeAlias = Callable[[Dress], Planted]
Rows: TypeAlias = Mapping[str, Planted]
ROWS: Final[dict[str, Planted]] = {}


def planted(bullet: str, *dresses: Dress) -> Callable[[Scenario], Scenario]:
    """Add a scenario in each of the dresses to `ROWS`; its name is the function's."""

    def add(scenario: Scenario) -> Scenario:
        for dress in dresses:
            name = f"{scenario.__name__.replace('_', '-')}@{dress.name}"
            ROWS[name] = replace(scenario(dress), name=name, bullet=bullet)
        return scenario

    return add
