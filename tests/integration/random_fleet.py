"""A random cluster and its pods, from a seed, whose end does not depend on a scheduler's luck.

kube-scheduler breaks ties between nodes at random, and what one pod gets decides what the next one can get. So the
pods come in groups, each with nodes of its own, and each group says what must be equal whoever schedules:

    one-by-one   one node; the next pod comes when the last one is bound or refused, and what is refused goes.
                 Everything is equal: verdict, reason, and every allocation to the last field.
    by-priority  one node that is too small, all pods at once: as many of each priority win.
    alike        several equal nodes, pods alike, too many: as many run, and the same alternatives are chosen.
    anywhere     several nodes of different kinds, pods of every sort: only rules hold, and what one scheduler
                 leaves pending the other cannot place either.
    led          every plugin's vocabulary on several nodes, one by one, the second scheduler led by the first
                 (`vocabulary`).
    waiting      pods that no scheduler may look at yet: gated, or without their claims.

Devices and claims of `one-by-one` are those of the allocator's random cases (`tests.allocator.generator`), with every
feature; what is known to differ there (docs/differences.md) is not drawn.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tests.allocator.generator import DRIVERS, TAINTS, Generator
from tests.integration.world import SCHEDULER_NAME, node

Object = dict[str, Any]
GroupKind = Literal["one-by-one", "led", "by-priority", "alike", "anywhere", "waiting"]

GROUP: Final = "fleet/group"
PRIORITIES: Final = {f"priority-{value}": value for value in (0, 10, 20, 30)}


@dataclass(slots=True)
class Group:
    """Pods that are judged together; `pods` in the order in which they are created. `name` is also the namespace."""

    name: str
    kind: GroupKind
    pods: list[Object] = field(default_factory=list)


@dataclass(slots=True)
class Fleet:
    """API objects by resource, in the order of creation, and the pods in groups."""

    seed: int
    groups: list[Group] = field(default_factory=list)
    objects: list[tuple[str, Object]] = field(default_factory=list)


def draw(seed: int, *, one_by_one: int = 14, pods_each: int = 10) -> Fleet:
    """The fleet of a seed: that many groups of `one-by-one`, and two of each other kind."""
    fleet = Fleet(seed)
    rnd = random.Random(seed)
    for name, value in PRIORITIES.items():
        # Never: kube-scheduler would evict pods for others, which is another matter.
        priority = {"metadata": {"name": name}, "value": value, "preemptionPolicy": "Never"}
        fleet.objects.append(("priorityclasses", priority))
    for number in range(one_by_one):
        _OneByOne(fleet, f"g{number:02}", rnd.randrange(2**32)).draw(pods_each)
    for number in range(2):
        _by_priority(fleet, f"p{number:02}", random.Random(rnd.randrange(2**32)))
        _alike(fleet, f"a{number:02}", random.Random(rnd.randrange(2**32)))
        _anywhere(fleet, f"x{number:02}", random.Random(rnd.randrange(2**32)))
    _reasons(fleet)
    _waiting(fleet)
    return fleet


def _meta(group: str, name: str) -> Object:
    return {"namespace": group, "name": name}


def make_pod(
    group: str, name: str, claims: dict[str, Object], *, cpu: str = "", extended: str = "", **spec: Any
) -> Object:
    """`claims`: what each entry of spec.resourceClaims refers to; `extended`: a class to ask for by resource name."""
    container: Object = {"name": "main", "image": "registry.example.com/work:1", "resources": {}}
    if claims:
        spec["resourceClaims"] = [{"name": entry, **source} for entry, source in claims.items()]
        container["resources"]["claims"] = [{"name": entry} for entry in claims]
    if cpu:
        container["resources"]["requests"] = {"cpu": cpu}
    if extended:
        amounts = {f"deviceclass.resource.kubernetes.io/{extended}": "1"}
        container["resources"]["requests"] = {**container["resources"].get("requests", {}), **amounts}
        container["resources"]["limits"] = amounts
    return {
        "metadata": _meta(group, name),
        "spec": {
            "schedulerName": SCHEDULER_NAME,
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {GROUP: group},
            "containers": [container],
            **spec,
        },
    }


class _OneByOne(Generator):
    """A group on one node, with the devices, classes and claims of one random case of the allocator."""

    def __init__(self, fleet: Fleet, name: str, seed: int) -> None:
        super().__init__(seed)
        self._fleet = fleet
        self._name = name
        self._node = f"{name}-node"

    def draw(self, pods: int) -> None:
        rnd, name = self._rnd, self._name
        self._p = {  # each group switches features on with its own probabilities
            feature: rnd.choice((0.0, 0.0, 0.15, 0.3, 0.8))
            for feature in (
                *("counters", "shared", "policy", "taints", "tolerations", "binds", "admin", "list", "all"),
                *("constraints", "distinct", "config", "capacity", "selectors", "per_device", "selector"),
                *("old", "split", "foreign", "incomplete", "pcie"),
            )
        }
        # Devices for all nodes would join the groups; binding conditions wait for a driver.
        self._p |= {"all_nodes": 0.0, "binding": 0.0, "lists": 0.0, "broken": 0.0, "derived": 0.0, "odd": 0.0}
        # Upstream looks at counters for every node: an incomplete pool with counters would spoil the other groups.
        self._p["incomplete"] *= 0.0 if self._p["counters"] else 0.1
        # An older generation stays in use for a node that the newer one does not mention (as upstream has it): its
        # devices are right, but no longer published.
        self._p["foreign"] *= 0.0 if self._p["old"] else 0.3
        self._p["capacity"] *= 0.5
        self._p["selectors"] *= 0.6
        self._features: dict[str, bool] = {}
        self._differs: set[str] = set()

        self._node_taint = rnd.random() < 0.3
        taints = {"taints": [{"key": "fleet", "value": name, "effect": "NoSchedule"}]} if self._node_taint else {}
        labels = {GROUP: name, "kind": rnd.choice("ab")}
        self._add("nodes", node(self._node, cpu=rnd.choice(("4", "64")), labels=labels, **taints))
        for item in self._slices():
            item["metadata"]["name"] = f"{name}-{item['metadata']['name']}"
            pool = item["spec"]["pool"]  # one object for all slices of a pool
            item["spec"]["pool"] = {**pool, "name": f"{name}/{pool['name']}"}
            if item["spec"]["pool"]["generation"] >= 0:
                self._add("resourceslices", item)
            if self._has("taints") and rnd.random() < 0.5:
                selector = {"driver": item["spec"]["driver"], "pool": item["spec"]["pool"]["name"]}
                if rnd.random() < 0.7:
                    selector["device"] = f"dev-{rnd.randrange(4)}"
                key, value = rnd.choice(TAINTS)
                taint = {"key": key, "effect": "NoSchedule", **({"value": value} if value else {})}
                rule = {"deviceSelector": selector, "taint": taint}
                self._add("devicetaintrules", {"metadata": {"name": item["metadata"]["name"]}, "spec": rule})
        for item in self._classes():
            item["metadata"]["name"] = self._class_name(item["metadata"]["name"])
            self._add("deviceclasses", item)

        group = Group(name, "one-by-one")
        self._fleet.groups.append(group)
        self._shared = [f"{name}-shared-{number}" for number in range(2)]
        for claim in self._shared:
            self._add("resourceclaims", {"metadata": _meta(name, claim), "spec": self._claim_spec()})
        group.pods = [self._pod_of(f"{name}-{number:02}") for number in range(pods)]

    def _add(self, resource: str, item: Object) -> None:
        self._fleet.objects.append((resource, item))

    def _class_name(self, name: str) -> str:
        return f"{self._name}-{name}"

    def _selection(self) -> Object:
        rnd = self._rnd
        if self._has("selector"):
            requirement = rnd.choice(
                (
                    {"key": GROUP, "operator": "In", "values": [self._name]},
                    {"key": GROUP, "operator": "In", "values": [self._name, f"{self._name}-other"]},
                )
            )
            return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}
        return {"nodeName": f"{self._name}-other" if self._has("foreign") else self._node}

    def _claim_spec(self) -> Object:
        """Of a claim that upstream's allocator and ours answer alike."""
        while True:
            self._differs.clear()
            claim = self._claim(0)
            if not self._differs:
                break
        devices: Object = claim["spec"]["devices"]
        for request in devices["requests"]:
            for details in request.get("firstAvailable") or [request["exactly"]]:
                details["deviceClassName"] = self._class_name(details["deviceClassName"])
                if details["allocationMode"] == "All":
                    details.pop("count", None)
                if self._rnd.random() < 0.02:
                    details["deviceClassName"] = self._class_name("missing")
                if self._rnd.random() < 0.02:
                    late = "device.attributes[device.driver].late"
                    details["selectors"] = [{"cel": {"expression": late}}]
        return {"devices": devices}

    def _pod_of(self, name: str) -> Object:
        rnd = self._rnd
        claims: dict[str, Object] = {}
        for number in range(rnd.choice((0, 1, 1, 1, 1, 1, 2, 2, 3))):
            draw = rnd.random()
            if draw < 0.15:
                source = {"resourceClaimName": rnd.choice(self._shared)}
                if source in claims.values():
                    continue
            elif draw < 0.5:
                source = {"resourceClaimName": f"{name}-{number}"}
                self._add(
                    "resourceclaims", {"metadata": _meta(self._name, f"{name}-{number}"), "spec": self._claim_spec()}
                )
            else:
                source = {"resourceClaimTemplateName": f"{name}-{number}"}
                template = {"metadata": _meta(self._name, f"{name}-{number}"), "spec": {"spec": self._claim_spec()}}
                self._add("resourceclaimtemplates", template)
            claims[f"claim-{number}"] = source
        spec: Object = {}
        if self._node_taint and rnd.random() < 0.85:
            spec["tolerations"] = [{"key": "fleet", "operator": "Exists"}]
        if rnd.random() < 0.15:
            requirement = rnd.choice(
                (
                    {"key": "kind", "operator": "In", "values": ["a"]},
                    {"key": "kind", "operator": "NotIn", "values": ["b"]},
                    {"key": "kind", "operator": "Exists"},
                    {"key": "nobody", "operator": "Exists"},
                )
            )
            terms = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
            spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        if rnd.random() < 0.3:
            spec["priorityClassName"] = rnd.choice(tuple(PRIORITIES))
        extended = self._class_name(rnd.choice(self._class_names)) if rnd.random() < 0.15 else ""
        cpu = rnd.choice(("", "", "100m", "1", "3"))
        return make_pod(self._name, name, claims, cpu=cpu, extended=extended, **spec)


def plain_devices(node_name: str, count: int, **more: Any) -> Object:
    """A slice of equal devices, of the first driver."""
    devices = [
        {
            "name": f"dev-{number}",
            "attributes": {"model": {"string": "a100" if number % 2 else "h100"}, "numa": {"int": number // 2}},
            "capacity": {"memory": {"value": "40Gi"}},
            **more,
        }
        for number in range(count)
    ]
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": f"{node_name}-devices"},
        "spec": {"driver": DRIVERS[0], "nodeName": node_name, "pool": pool, "devices": devices},
    }


def add_class(fleet: Fleet, group: str) -> str:
    spec = {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVERS[0]}'"}}]}
    fleet.objects.append(("deviceclasses", {"metadata": {"name": f"{group}-any"}, "spec": spec}))
    return f"{group}-any"


def exactly(class_name: str, count: int = 1, *selectors: str, **more: Any) -> Object:
    details: Object = {"deviceClassName": class_name, "count": count, **more}
    if selectors:
        details["selectors"] = [{"cel": {"expression": selector}} for selector in selectors]
    return details


def add_template(fleet: Fleet, group: str, name: str, **devices: Any) -> dict[str, Object]:
    """A ResourceClaimTemplate; returns what `make_pod` takes."""
    template = {"metadata": _meta(group, name), "spec": {"spec": {"devices": devices}}}
    fleet.objects.append(("resourceclaimtemplates", template))
    return {"gpu": {"resourceClaimTemplateName": name}}


def _model(name: str) -> str:
    return f"device.attributes['{DRIVERS[0]}'].model == '{name}'"


def _by_priority(fleet: Fleet, name: str, rnd: random.Random) -> None:
    class_name = add_class(fleet, name)
    fleet.objects.append(("nodes", node(f"{name}-node", labels={GROUP: name})))
    fleet.objects.append(("resourceslices", plain_devices(f"{name}-node", 8)))
    request = {"name": "gpu", "exactly": exactly(class_name, rnd.choice((1, 2)))}
    claims = add_template(fleet, name, name, requests=[request])
    group = Group(name, "by-priority")
    priorities = [priority for priority in PRIORITIES for _ in range(5)]
    rnd.shuffle(priorities)
    for number, priority in enumerate(priorities):
        group.pods.append(make_pod(name, f"{name}-{number:02}", claims, priorityClassName=priority))
    fleet.groups.append(group)


def _alike(fleet: Fleet, name: str, rnd: random.Random) -> None:
    """Equal pods fill each node in the same way, whatever the order in which nodes are taken."""
    class_name = add_class(fleet, name)
    nodes, devices = rnd.choice((2, 3, 4)), rnd.choice((4, 6, 8))
    for number in range(nodes):
        fleet.objects.append(("nodes", node(f"{name}-node-{number}", labels={GROUP: name})))
        fleet.objects.append(("resourceslices", plain_devices(f"{name}-node-{number}", devices)))
    pair = {"name": "pair", **exactly(class_name, 2, _model("a100"))}
    three = {"name": "three", **exactly(class_name, 3)}
    one = {"name": "one", **exactly(class_name, 1, _model("h100"))}
    match = {"matchAttribute": f"{DRIVERS[0]}/numa"}
    shape: Object = rnd.choice(
        (
            {"requests": [{"name": "gpu", "firstAvailable": [pair, one]}]},
            {"requests": [{"name": "gpu", "firstAvailable": [three, pair, one]}]},
            {"requests": [{"name": "gpu", "exactly": exactly(class_name, 2)}], "constraints": [match]},
            {"requests": [{"name": "gpu", "firstAvailable": [{"name": "same", **exactly(class_name, 2)}, one]}]},
        )
    )
    claims = add_template(fleet, name, name, **shape)
    pods = [make_pod(name, f"{name}-{number:02}", claims) for number in range(nodes * devices + 2)]
    fleet.groups.append(Group(name, "alike", pods))


def _anywhere(fleet: Fleet, name: str, rnd: random.Random) -> None:
    class_name = add_class(fleet, name)
    for number in range(6):
        node_name = f"{name}-node-{number}"
        taints = [{"key": "fleet", "value": "x", "effect": "NoSchedule"}] if rnd.random() < 0.3 else []
        labels = {GROUP: name, "kind": rnd.choice("ab")}
        fleet.objects.append(("nodes", node(node_name, cpu=rnd.choice(("4", "16")), labels=labels, taints=taints)))
        kind = rnd.choice(("plain", "plain", "shared", "partitions", "none"))
        if kind == "shared":
            item = plain_devices(node_name, 2, allowMultipleAllocations=True)
            fleet.objects.append(("resourceslices", item))
        elif kind == "partitions":
            for part in _partitions(node_name, rnd.choice((1, 2))):
                fleet.objects.append(("resourceslices", part))
        elif kind == "plain":
            fleet.objects.append(("resourceslices", plain_devices(node_name, rnd.choice((2, 4)))))
    shared = [f"{name}-shared-{number}" for number in range(2)]
    for claim in shared:
        spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly(class_name)}]}}
        fleet.objects.append(("resourceclaims", {"metadata": _meta(name, claim), "spec": spec}))
    group = Group(name, "anywhere")
    for number in range(36):
        group.pods.append(_pod_anywhere(fleet, name, number, class_name, shared, rnd))
    fleet.groups.append(group)


def _pod_anywhere(
    fleet: Fleet, group: str, number: int, class_name: str, shared: list[str], rnd: random.Random
) -> Object:
    name = f"{group}-{number:02}"
    pair = {"name": "pair", **exactly(class_name, 2)}
    one = {"name": "one", **exactly(class_name, 1)}
    memory = {"capacity": {"requests": {"memory": "10Gi"}}}
    shape: Object | None = rnd.choice(
        (
            None,
            {"requests": [{"name": "gpu", "exactly": exactly(class_name, 1)}]},
            {"requests": [{"name": "gpu", "exactly": exactly(class_name, 1, **memory)}]},
            {"requests": [{"name": "gpu", "exactly": exactly(class_name, 2)}]},
            {"requests": [{"name": "gpu", "firstAvailable": [pair, one]}]},
            {"requests": [{"name": "gpu", "exactly": exactly(class_name, 1, _model("h100"))}]},
            {"requests": [{"name": "gpu", "exactly": exactly(class_name, 1, adminAccess=True)}]},
        )
    )
    claims = add_template(fleet, group, name, **shape) if shape else {}
    if rnd.random() < 0.15:
        claims["shared"] = {"resourceClaimName": rnd.choice(shared)}
    spec: Object = {"priorityClassName": rnd.choice(tuple(PRIORITIES))}
    if rnd.random() < 0.5:
        spec["tolerations"] = [{"key": "fleet", "operator": "Exists"}]
    if rnd.random() < 0.2:
        spec["nodeSelector"] = {GROUP: group, "kind": rnd.choice("ab")}
    return make_pod(group, name, claims, cpu=rnd.choice(("", "100m", "1", "3", "20")), **spec)


def _partitions(node_name: str, gpus: int) -> list[Object]:
    """Each GPU as one whole or as two halves."""
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 2}
    common = {"driver": DRIVERS[0], "nodeName": node_name, "pool": pool}
    sets, devices = [], []
    for number in range(gpus):
        sets.append({"name": f"gpu-{number}", "counters": {"memory": {"value": "40Gi"}}})
        for part, memory in (("whole", "40Gi"), ("left", "20Gi"), ("right", "20Gi")):
            use = {"counterSet": f"gpu-{number}", "counters": {"memory": {"value": memory}}}
            devices.append(
                {
                    "name": f"gpu-{number}-{part}",
                    "attributes": {"model": {"string": "h100"}, "numa": {"int": number}},
                    "capacity": {"memory": {"value": memory}},
                    "consumesCounters": [use],
                }
            )
    return [
        {"metadata": {"name": f"{node_name}-counters"}, "spec": {**common, "sharedCounters": sets}},
        {"metadata": {"name": f"{node_name}-devices"}, "spec": {**common, "devices": devices}},
    ]


def _waiting(fleet: Fleet) -> None:
    group = "waiting"
    fleet.objects.append(("nodes", node(f"{group}-node", labels={GROUP: group})))
    pods = [
        make_pod(group, "gated", {}, schedulingGates=[{"name": "example.com/gate"}]),
        make_pod(group, "no-claim", {"gpu": {"resourceClaimName": "nobody"}}),
        make_pod(group, "no-template", {"gpu": {"resourceClaimTemplateName": "nobody"}}),
    ]
    fleet.groups.append(Group(group, "waiting", pods))


def _reasons(fleet: Fleet) -> None:
    """A pod for each reason that the random ones seldom meet; nothing here is drawn."""
    group = "reasons"
    class_name = add_class(fleet, group)
    with_devices, empty, updating = f"{group}-devices", f"{group}-empty", f"{group}-updating"
    for name in (with_devices, empty, updating):
        labels = {GROUP: group, "kubernetes.io/hostname": name}
        fleet.objects.append(("nodes", node(name, cpu="4", labels=labels)))
    fleet.objects.append(("nodes", node(f"{group}-cordoned", labels={GROUP: group}, unschedulable=True)))
    fleet.objects.append(("resourceslices", plain_devices(with_devices, 2)))
    # A pool with one device in two of its slices is invalid, and one of which a slice is missing incomplete.
    for driver, place, slices in (("invalid.example.com", with_devices, 2), ("incomplete.example.com", updating, 1)):
        name = f"{group}-{driver.partition('.')[0]}"
        selector = [{"cel": {"expression": f"device.driver == '{driver}'"}}]
        fleet.objects.append(("deviceclasses", {"metadata": {"name": name}, "spec": {"selectors": selector}}))
        for number in range(slices):
            pool = {"name": name, "generation": 1, "resourceSliceCount": 2}
            spec = {"driver": driver, "nodeName": place, "pool": pool, "devices": [{"name": "dev-0"}]}
            fleet.objects.append(("resourceslices", {"metadata": {"name": f"{name}-{number}"}, "spec": spec}))
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly(class_name)}]}}
    fleet.objects.append(("resourceclaims", {"metadata": _meta(group, "shared"), "spec": spec}))

    pods: list[Object] = []

    def add(name: str, *requests: Object, **more: Any) -> None:
        claims = add_template(fleet, group, name, requests=list(requests)) if requests else {}
        pods.append(make_pod(group, name, claims, **more))

    def one(class_name: str, **more: Any) -> Object:
        return {"name": "gpu", "exactly": {"deviceClassName": class_name, **more}}

    shared = {"gpu": {"resourceClaimName": "shared"}}
    on_empty, on_updating, on_devices = (
        {"nodeSelector": {GROUP: group, "kubernetes.io/hostname": name}} for name in (empty, updating, with_devices)
    )
    pods.append(make_pod(group, "shared-first", shared))
    pods.append(make_pod(group, "allocated-elsewhere", shared, **on_empty))
    add("no-device-there", one(class_name), **on_empty)
    add("more-than-there-are", one(class_name, count=3))
    add("invalid-pool", one(f"{group}-invalid"))
    add("all-of-an-invalid-pool", one(f"{group}-invalid", allocationMode="All"), **on_devices)
    add("incomplete-pool", one(f"{group}-incomplete"), **on_updating)
    add("all-of-an-incomplete-pool", one(f"{group}-incomplete", allocationMode="All"), **on_updating)
    add("over-the-limit", *({**one(class_name, count=20), "name": f"gpu-{number}"} for number in range(2)))
    add("no-class", one("nobody"))
    late = {"selectors": [{"cel": {"expression": f"device.attributes['{DRIVERS[0]}'].late"}}]}
    add("runtime-error", one(class_name, **late))
    add("no-class-for-the-resource", extended="nobody")
    add("no-device-for-the-resource", extended=class_name, **on_empty)
    add("too-much-cpu", one(class_name), cpu="5")
    add("untolerated", nodeSelector={GROUP: f"{group}-nowhere"})
    fleet.groups.append(Group(group, "one-by-one", pods))
