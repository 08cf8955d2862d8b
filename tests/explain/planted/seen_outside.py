"""Causes that somebody planted who knew neither the engine nor its causes: workloads and groups.

Each has something beside it that is easily blamed: a sibling replica, a member of the group, a rack that is smaller.
"""

from __future__ import annotations

from typing import Any

from tests.explain.planted.others import pvc, storage_class, templated, volume, with_data
from tests.explain.planted.shapes import (
    FLEET,
    PAIR,
    PLAIN,
    Dress,
    Obj,
    Planted,
    added,
    edit,
    ended,
    gone,
    node,
    planted,
    pod,
    slice_of,
    stored,
    taken,
)

HELD = r"devices?-in-use|holder-|partition-blocked"
RELAX = (r"relax the selector", r"drop or relax", r"DeviceClass \S+: drop")
RS = ("ReplicaSet", "serve-7d9c")
GANG: Obj = {"schedulingGroup": {"podGroupName": "crew"}}
NO_SIBLING = (r"end pods? \S*(serve-7d9c|solve)-", r"delete pod \S*(serve-7d9c|solve)-")


# --- workloads ----------------------------------------------------------------------------------------------------


def workload(d: Dress, kind: str, name: str, count: int, owner: str = "") -> Obj:
    """A Deployment, ReplicaSet, StatefulSet or Job as a server holds it."""
    labels = {"app": "serve"}
    spec: Obj = {"template": {"metadata": {"labels": labels}, "spec": d.plain()["spec"]}}
    spec |= {"parallelism": count} if kind == "Job" else {"replicas": count, "selector": {"matchLabels": labels}}
    metadata: Obj = {"name": name, "namespace": d.namespace, "uid": f"uid-{name}"}
    version = "batch/v1" if kind == "Job" else "apps/v1"
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": owner, "uid": f"uid-{owner}"}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    return stored({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})


def deployment(d: Dress, count: int) -> list[Obj]:
    return [workload(d, "Deployment", "serve", count), workload(d, *RS, count, "serve")]


def siblings(d: Dress, *devices: str, at: str = "", **more: object) -> list[Obj]:
    """Replicas of the Deployment that run, each with one of these devices of a node."""
    where = at or d.at
    return [
        obj
        for device in devices
        for obj in d.held(f"serve-7d9c-{where}-{device}", device, node=where, owner=RS, labels={"app": "serve"}, **more)
    ]


@planted("workloads: siblings have the devices", PLAIN, FLEET)
def siblings_have_all_devices(d: Dress) -> Planted:
    running = [obj for name in d.nodes for obj in siblings(d, *d.names(), at=name)]
    return Planted(
        [*d.fleet(), *deployment(d, len(d.nodes) * d.count + 1), *running, d.ask(), d.waiting(owner=RS)],
        d.asked,
        HELD,
        rf"{d.device}-\d|serve",
        [added(node("more"), d.slice(d.all(), "more"))],
        says=[r"in use"],
        never=[*RELAX, *NO_SIBLING],
    )


@planted("workloads: siblings have the devices", PLAIN, PAIR)
def a_stranger_has_one_and_siblings_the_rest(d: Dress) -> Planted:
    running = [obj for name in d.nodes for obj in siblings(d, *d.names()[1:], at=name)]
    strangers = [obj for name in d.nodes for obj in d.held(f"zz-notebook-{name}", d.names()[0], node=name)]
    return Planted(
        [*d.fleet(), *deployment(d, d.count), *running, *strangers, d.ask(), d.waiting(owner=RS)],
        d.asked,
        HELD,
        r"zz-notebook-",
        [ended(f"zz-notebook-{d.at}")],
        says=[r"in use"],
        change=[r"zz-notebook-"],
        never=[*RELAX, *NO_SIBLING],
    )


@planted("workloads: siblings have a node's cpu", PLAIN, FLEET)
def siblings_of_a_job_have_the_cpu(d: Dress) -> Planted:
    job = ("Job", "solve")
    running = [
        pod(f"solve-{name}-{index}", d.namespace, node=name, requests={"cpu": "5"}, owner=job)
        for name in d.nodes
        for index in range(2)
    ]
    site = [pod(f"site-{name}", d.namespace, node=name, requests={"cpu": "5"}) for name in d.nodes]
    wants = d.waiting(requests={"cpu": "4"}, owner=job)
    return Planted(
        [*d.fleet(), workload(d, *job, 9), *running, *site, d.ask(), wants],
        d.asked,
        r"resources-short",
        rf"nodes? {d.nodes[0][:-1]}",
        [gone(("Pod", f"site-{d.at}"))],
        says=[r"cpu", r"\b4\b"],
        never=[*RELAX, *NO_SIBLING],
    )


@planted("workloads: siblings have the ports and the places", PLAIN, FLEET)
def siblings_have_the_host_port(d: Dress) -> Planted:
    ports = [{"containerPort": 8080, "hostPort": 8080}]
    running = [pod(f"serve-7d9c-{name}", d.namespace, node=name, owner=RS, ports=ports) for name in d.nodes]
    return Planted(
        [*d.fleet(), *deployment(d, len(d.nodes) + 1), *running, d.ask(), d.waiting(owner=RS, ports=ports)],
        d.asked,
        r"port-taken",
        r"serve-7d9c-",
        [added(node("more"), d.slice(d.all(), "more"))],
        says=[r"8080"],
        change=[r"(?i)deployment \S*serve\b"],
        never=[*RELAX, *NO_SIBLING, r"another host port"],
    )


@planted("workloads: siblings have the ports and the places", PLAIN, FLEET)
def replicas_keep_apart(d: Dress) -> Planted:
    term = {"labelSelector": {"matchLabels": {"app": "serve"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    owner, labels = ("StatefulSet", "serve"), {"app": "serve"}
    running = [
        obj
        for index, name in enumerate(d.nodes)
        for obj in d.held(f"serve-{index}", d.names()[0], node=name, owner=owner, labels=labels, affinity=apart)
    ]
    return Planted(
        [
            *d.fleet(),
            workload(d, *owner, len(d.nodes) + 1),
            *running,
            d.ask(),
            d.waiting(owner=owner, labels=labels, affinity=apart),
        ],
        d.asked,
        r"pod-affinity-unmet",
        r"podAntiAffinity|serve-\d",
        [added(node("more"), d.slice(d.all(), "more"))],
        says=[r"app=serve|serve-\d", r"kubernetes\.io/hostname|node"],
        never=[*RELAX, r"end pods? \S*serve-\d", r"in use"],
    )


@planted("workloads: a claim for all replicas", PLAIN, PAIR)
def replicas_share_a_claim_on_a_full_node(d: Dress) -> Planted:
    shared = taken(
        *(d.namespace, "shared", d.cls, d.driver, d.at, d.names()[:1], d.at),
        [("serve-7d9c-a", f"uid-{d.namespace}-serve-7d9c-a")],
    )
    running = pod("serve-7d9c-a", d.namespace, ("shared",), node=d.at, owner=RS, requests={"cpu": "14"})
    asked = pod(d.pod, d.namespace, ("shared",), owner=RS, requests={"cpu": "14"})
    return Planted(
        [*d.fleet(), node("spare"), *deployment(d, 2), shared, running, asked],
        d.asked,
        r"claim-pinned|resources-short",
        r"ResourceClaim \S*shared",
        [edit("ResourceClaim", "shared", "status", {}), gone(("Pod", "serve-7d9c-a"))],
        says=[rf"\b{d.at}\b", r"cpu"],
        change=[r"(?i)deployment \S*serve\b|claim of its own"],
        never=[*RELAX, *NO_SIBLING],
    )


@planted("workloads: siblings have the devices", PLAIN, FLEET)
def the_last_replica_of_many_that_wait(d: Dress) -> Planted:
    """Each alone would fit; of all of them one does not, and the workload is asked about. An event is of one pod."""
    count = len(d.nodes) * d.count
    waits = [
        pod(f"serve-7d9c-{index:02}", d.namespace, (d.claim,), is_template=True, owner=RS) for index in range(count)
    ]
    last = pod("serve-7d9c-zz", d.namespace, (d.claim,), is_template=True, owner=RS)
    return Planted(
        [*d.fleet(), *deployment(d, count + 1), templated(d).ask(), *waits, last],
        (d.namespace, "serve-7d9c-zz"),
        HELD,
        r"serve-7d9c-\d\d|1 of|\b1 pod",
        [added(node("more"), slice_of(d.driver, d.all(), "more"))],
        says=[r"in use by"],
        never=[*RELAX, *NO_SIBLING],
        asks="deploy/serve",
    )


@planted("workloads: a rollout", PLAIN, FLEET)
def the_older_pods_of_its_deployment_have_the_devices(d: Dress) -> Planted:
    """A rolling update of a Deployment that first makes the new pod: the old ones keep all devices until it runs."""
    old = ("ReplicaSet", "serve-5c4f")
    running = [
        obj
        for name in d.nodes
        for index, device in enumerate(d.names())
        for obj in d.held(f"serve-5c4f-{name}-{index}", device, node=name, owner=old, labels={"app": "serve"})
    ]
    count = len(d.nodes) * d.count
    sets = [workload(d, "ReplicaSet", "serve-5c4f", count, "serve"), *deployment(d, count)]
    return Planted(
        [*d.fleet(), *sets, *running, d.ask(), d.waiting(owner=RS)],
        d.asked,
        HELD,
        rf"{d.device}-\d|serve",
        [added(node("more"), d.slice(d.all(), "more"))],
        says=[r"in use"],
        never=[*RELAX, r"end pods? \S*serve-"],
    )


@planted("workloads: a claim for all replicas", PLAIN, FLEET)
def a_replica_s_volume_is_where_a_stranger_has_the_devices(d: Dress) -> Planted:
    """Another node has free devices; the volume of this replica cannot be reached from there."""
    owner = ("StatefulSet", "serve")
    return Planted(
        [
            *d.fleet(),
            node("spare"),
            d.slice(d.all(), "spare"),
            workload(d, *owner, 1),
            *d.held("zz-notebook", *d.names()),
            d.ask(),
            storage_class("ssd", "WaitForFirstConsumer"),
            pvc(d, bound="disk-1"),
            volume(d, "disk-1", d.at, bound=True),
            with_data(d, owner=owner),
        ],
        d.asked,
        rf"{HELD}|volume-unreachable",
        r"zz-notebook|disk-1",
        [ended("zz-notebook")],
        says=[rf"\b{d.at}\b"],
        change=[r"zz-notebook"],
        never=RELAX,
    )


@planted("workloads: a rollout", PLAIN, PAIR)
def some_pods_of_a_job_are_gated_and_some_do_not_fit(d: Dress) -> Planted:
    job = ("Job", "solve")
    gated = [
        pod(
            f"solve-{index}",
            d.namespace,
            (d.claim,),
            is_template=True,
            owner=job,
            schedulingGates=[{"name": "quota.example.net/admitted"}],
        )
        for index in range(2)
    ]
    last = pod("solve-9", d.namespace, (d.claim,), is_template=True, owner=job)
    users = [obj for name in d.nodes for obj in d.held(f"user-{name}", *d.names(), node=name)]
    return Planted(
        [*d.fleet(), workload(d, *job, 3), *users, templated(d).ask(), *gated, last],
        (d.namespace, "solve-9"),
        rf"scheduling-gate|{HELD}",
        r"quota\.example\.net/admitted|user-",
        [ended(f"user-{d.at}")],
        change=[r"user-|gate"],
        never=[*RELAX, r"end pods? \S*solve-"],
        asks="job/solve",
    )


# --- groups -------------------------------------------------------------------------------------------------------


def podgroup(d: Dress, needed: int, topology: str) -> Obj:
    spec: Obj = {
        "schedulingPolicy": {"gang": {"minCount": needed}},
        "schedulingConstraints": {"topology": [{"key": topology}]},
    }
    metadata = {"name": "crew", "namespace": d.namespace}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def crew(needed: int) -> Obj:
    return {"labels": {"dra-scheduler/group": "crew", "dra-scheduler/group-min-count": str(needed)}}


def members(d: Dress, count: int, **more: Any) -> list[Obj]:
    """The pod that is asked about and others, which wait."""
    names = [d.pod, *(f"member-{index}" for index in range(1, count))]
    return [pod(one, d.namespace, (d.claim,), is_template=True, **more) for one in names]


def racked(d: Dress, racks: dict[str, str], count: int) -> list[Obj]:
    """A node for each of these, in a rack, with so many devices."""
    nodes = [node(name, labels={"rack": rack} if rack else {}) for name, rack in racks.items()]
    return [*nodes, *(d.slice(d.all(count), name) for name in racks), d.klass(), *d.noise()]


@planted("gangs: topology", PLAIN, FLEET)
def no_rack_has_room_for_the_gang(d: Dress) -> Planted:
    return Planted(
        [
            *racked(d, {d.at: "east", "far-1": "west"}, 2),
            podgroup(d, 3, "rack"),
            templated(d).ask(),
            *members(d, 3, **GANG),
        ],
        d.asked,
        r"group-unmet",
        r"group \S*crew",
        [edit("Node", "*", "metadata.labels.rack", "east")],
        says=[r"\brack\b", r"\b2\b", r"\b3\b"],
        never=[*RELAX, r"end pods?", r"waiting for", r"in use by pods?"],
        unserved=True,
    )


@planted("gangs: topology", PLAIN, FLEET)
def no_node_has_the_gang_s_label(d: Dress) -> Planted:
    return Planted(
        [*racked(d, {d.at: "", "far-1": ""}, 2), podgroup(d, 2, "rack"), templated(d).ask(), *members(d, 2, **GANG)],
        d.asked,
        r"group-unmet|node-affinity-unmet",
        r"group \S*crew",
        [edit("Node", "*", "metadata.labels.rack", "east")],
        says=[r"\brack\b", r"no node|none|label"],
        change=[r"\brack\b"],
        never=[*RELAX, r"end pods?", r"waiting for"],
        unserved=True,
    )


@planted("gangs: devices in use", PLAIN, FLEET)
def a_stranger_has_what_the_gang_lacks(d: Dress) -> Planted:
    only = racked(d, {d.at: "east"}, 3)
    return Planted(
        [*only, *d.held("stranger", *d.names()[:2]), templated(d).ask(), *members(d, 2, **crew(2))],
        d.asked,
        r"group-unmet",
        r"crew",
        [ended("stranger")],
        says=[r"stranger", r"\b2\b"],
        change=[r"stranger"],
        never=[*RELAX, r"end pods? \S*member"],
    )


@planted("gangs: devices in use", PLAIN, FLEET)
def its_own_members_and_a_stranger_have_the_devices(d: Dress) -> Planted:
    own = [obj for index in range(2) for obj in d.held(f"member-{index}", d.names()[index], **crew(3))]
    return Planted(
        [
            *racked(d, {d.at: "east"}, 3),
            *own,
            *d.held("zz-stranger", d.names()[2]),
            templated(d).ask(),
            *members(d, 1, **crew(3)),
        ],
        d.asked,
        rf"group-unmet|{HELD}",
        r"zz-stranger",
        [ended("zz-stranger")],
        change=[r"zz-stranger"],
        never=[*RELAX, r"end pods? \S*member-\d"],
    )


@planted("gangs: one names what is not there", PLAIN, PAIR)
def the_gang_s_leader_names_a_class_that_is_not_there(d: Dress) -> Planted:
    odd = templated(d).ask(d.want(cls=f"{d.cls}s"), name="leader-claim")
    leader = pod("leader", d.namespace, ("leader-claim",), is_template=True, **crew(3))
    return Planted(
        [*d.fleet(), templated(d).ask(), odd, *members(d, 2, **crew(3)), leader],
        d.asked,
        r"group-unmet|class-missing",
        r"leader",
        [edit("ResourceClaimTemplate", "leader-claim", "spec.spec.devices.requests.0.exactly.deviceClassName", d.cls)],
        says=[rf"DeviceClass {d.cls}s\b", r"does not exist"],
        change=[r"leader", rf"\b{d.cls}\b(?!s)"],
        never=[*RELAX, r"waiting for"],
    )
