"""Causes that somebody planted who knew neither the engine nor its causes: what a cluster's operators meet each day.

The change that is easily advised does harm here: a toleration for a node that is not ready, a label that lies, the end
of a pod that comes back.
"""

from __future__ import annotations

from tests.explain.planted.others import pvc, storage_class, templated, volume, with_data
from tests.explain.planted.seen_contended import classes, sharing, urgent
from tests.explain.planted.seen_outside import HELD, RELAX, RS, deployment, members, workload
from tests.explain.planted.shapes import (
    FLEET,
    ONE,
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
    stored,
)


def tainted(d: Dress, key: str, *effects: str) -> list[Obj]:
    taints = [{"key": key, "effect": effect} for effect in effects]
    return [{**obj, "spec": {"taints": taints}} if obj["kind"] == "Node" else obj for obj in d.fleet()]


@planted("seen: nodes that are unwell", PLAIN, FLEET)
def nodes_are_not_ready(d: Dress) -> Planted:
    fleet = tainted(d, "node.kubernetes.io/not-ready", "NoSchedule", "NoExecute")
    for obj in fleet:
        if obj["kind"] == "Node":
            unready = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
            obj["status"] = {**obj["status"], "conditions": [unready]}
    return Planted(
        [*fleet, d.ask(), d.waiting()],
        d.asked,
        r"node-tainted",
        d.at,
        [edit("Node", d.at, "spec.taints", [])],
        says=[r"not-ready"],
        never=[*RELAX, r"toleration", r"kubectl taint"],
    )


@planted("seen: nodes that are unwell", PLAIN, FLEET)
def nodes_have_no_disk_left(d: Dress) -> Planted:
    return Planted(
        [*tainted(d, "node.kubernetes.io/disk-pressure", "NoSchedule"), d.ask(), d.waiting()],
        d.asked,
        r"node-tainted",
        d.at,
        [edit("Node", d.at, "spec.taints", [])],
        says=[r"disk-pressure"],
        never=[*RELAX, r"toleration", r"kubectl taint"],
    )


@planted("seen: labels of the kubelet", PLAIN, FLEET)
def nodes_are_of_another_architecture(d: Dress) -> Planted:
    fleet = d.fleet()
    for obj in fleet:
        if obj["kind"] == "Node":
            obj["metadata"]["labels"]["kubernetes.io/arch"] = "amd64"
    return Planted(
        [*fleet, d.ask(), d.waiting(nodeSelector={"kubernetes.io/arch": "arm64"})],
        d.asked,
        r"node-affinity-unmet",
        r"nodeSelector",
        [edit("Pod", d.pod, "spec.nodeSelector", {})],
        says=[r"kubernetes\.io/arch", r"arm64", r"amd64"],
        never=[r"label (the )?nodes?", r"kubectl label"],
    )


@planted("seen: labels of the kubelet", PLAIN, PAIR)
def the_node_that_was_chosen_is_not_there(d: Dress) -> Planted:
    return Planted(
        [*d.fleet(), d.ask(), d.waiting(nodeSelector={"kubernetes.io/hostname": "retired-7"})],
        d.asked,
        r"node-affinity-unmet",
        r"nodeSelector",
        [edit("Pod", d.pod, "spec.nodeSelector", {})],
        says=[r"retired-7"],
        never=[r"label (the )?nodes?", r"kubectl label"],
    )


@planted("seen: pods that come back", PLAIN, FLEET)
def a_daemon_has_the_cpu(d: Dress) -> Planted:
    daemons = [
        pod(f"agent-{name}", "monitoring", node=name, requests={"cpu": "10"}, owner=("DaemonSet", "agent"))
        for name in d.nodes
    ]
    return Planted(
        [*d.fleet(), *daemons, d.ask(), d.waiting(requests={"cpu": "8"})],
        d.asked,
        r"resources-short",
        rf"nodes? {d.nodes[0][:-1]}",
        [edit("Pod", d.pod, "spec.containers.0.resources.requests.cpu", "4")],
        says=[r"cpu", r"\b8\b"],
        never=[*RELAX, r"end pods? \S*agent-"],
    )


@planted("seen: pods that come back", PLAIN, FLEET)
def a_sibling_has_the_volume(d: Dress) -> Planted:
    """A rolling update with a volume for one pod alone."""
    claim = pvc(d, bound="disk-1")
    claim["spec"]["accessModes"] = ["ReadWriteOncePod"]
    disk = volume(d, "disk-1", d.at, bound=True)
    disk["spec"]["accessModes"] = ["ReadWriteOncePod"]
    source = {"name": "data", "persistentVolumeClaim": {"claimName": f"{d.pod}-data"}}
    old = pod("serve-7d9c-old", d.namespace, node=d.at, owner=RS, volumes=[source])
    return Planted(
        [
            *d.fleet(),
            *deployment(d, 2),
            d.ask(),
            storage_class("ssd", "WaitForFirstConsumer"),
            claim,
            disk,
            old,
            with_data(d, owner=RS),
        ],
        d.asked,
        r"volume-in-use",
        rf"{d.pod}-data",
        [gone(("Pod", "serve-7d9c-old"))],
        says=[r"ReadWriteOncePod", r"serve-7d9c-old"],
        never=[*RELAX, r"end pods? \S*serve-"],
    )


@planted("seen: pods that come back", PLAIN, FLEET)
def replicas_are_spread_and_the_other_zone_is_full(d: Dress) -> Planted:
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "serve"}},
    }
    labels = {"app": "serve"}
    replica = pod("serve-7d9c-a", d.namespace, node=d.at, owner=RS, labels=labels)
    asked = d.waiting(owner=RS, labels=labels, topologySpreadConstraints=[spread])
    return Planted(
        [
            node(d.at, labels={"zone": "a"}),
            node("zz-node", labels={"zone": "b"}),
            d.slice(d.all()),
            d.slice(d.all(1), "zz-node"),
            d.klass(),
            *deployment(d, 2),
            replica,
            *d.held("user", f"{d.device}-0", node="zz-node"),
            d.ask(),
            asked,
        ],
        d.asked,
        rf"spread-unmet|{HELD}",
        r"zone=a|\buser\b",
        [ended("user")],
        says=[r"maxSkew|in use"],
        change=[r"\buser\b|topologySpreadConstraints|spread"],
        never=[*RELAX, r"end pods? \S*serve-"],
    )


@planted("seen: several holders", PLAIN, ONE)
def two_consumers_have_to_go(d: Dress) -> Planted:
    used = {"user-a": "30Gi", "user-b": "30Gi"}
    return Planted(
        [
            *sharing(d, used),
            d.ask(d.want(capacity={"requests": {"memory": "60Gi"}})),
            d.waiting(),
        ],
        d.asked,
        r"capacity-short",
        rf"{d.device}-0",
        [ended("user-a", "user-b")],
        says=[r"60Gi", r"20Gi"],
        change=[r"20Gi|user-a.*user-b"],
        never=RELAX,
    )


@planted("seen: several holders", PLAIN, FLEET)
def one_holder_is_preempted_and_the_other_is_more_important(d: Dress) -> Planted:
    """The end of the boss is enough: the scheduler preempts the other by itself."""
    half = d.count // 2
    busy = [
        *d.held("menial", *d.names()[:half], priority=0),
        *d.held("boss", *d.names()[half:], priority=2000),
    ]
    return Planted(
        [
            *classes(urgent=1000),
            node(d.at),
            d.slice(d.all()),
            d.klass(),
            *busy,
            d.ask(d.want(count=d.count)),
            urgent(d),
        ],
        d.asked,
        HELD,
        r"\bboss\b",
        [ended("boss", "menial")],
        says=[r"in use"],
        change=[r"\bboss\b|instead of"],
        never=[*RELAX, r"nothing (needs|has) to be done"],
    )


@planted("seen: several holders", PLAIN, FLEET)
def a_group_s_sibling_group_is_let_be(d: Dress) -> Planted:
    """Another crew of the same Job runs with the devices; a stranger has enough of them, too."""
    job = ("Job", "solve")
    other = d.held("solve-0", *d.names()[:2], owner=job)
    stranger = d.held("zz-stranger", *d.names()[2:4])
    labels = {"dra-scheduler/group": "crew", "dra-scheduler/group-min-count": "2"}
    return Planted(
        [
            node(d.at),
            d.slice(d.all(4)),
            d.klass(),
            workload(d, *job, 3),
            *other,
            *stranger,
            templated(d).ask(),
            *members(d, 2, owner=job, labels=labels),
        ],
        d.asked,
        rf"group-unmet|{HELD}",
        r"zz-stranger",
        [ended("zz-stranger")],
        change=[r"zz-stranger"],
        never=[*RELAX, r"end pods? \S*solve-0"],
    )


@planted("seen: amounts in selectors", PLAIN, PAIR)
def more_memory_is_selected_than_any_device_has(d: Dress) -> Planted:
    wants = f"device.capacity['{d.driver}'].memory.compareTo(quantity('100Gi')) >= 0"
    return Planted(
        [*d.fleet(), d.ask(d.want(wants)), d.waiting()],
        d.asked,
        r"selector-unmet",
        rf"request {d.request}",
        [d.asks("requests.0.exactly.selectors.0.cel.expression", wants.replace("100Gi", "80Gi"))],
        says=[r"memory", r"80Gi", r"100Gi"],
        never=[r"DeviceClass", r"in use"],
    )


@planted("seen: amounts in selectors", PLAIN, PAIR)
def a_newer_firmware_is_selected_than_any_device_has(d: Dress) -> Planted:
    devices = [d.one(name, {"firmware": {"version": "1.9.0"}}) for name in d.names()]
    wants = f"device.attributes['{d.driver}'].firmware.compareTo(semver('1.10.0')) >= 0"
    return Planted(
        [*d.fleet(devices), d.ask(d.want(wants)), d.waiting()],
        d.asked,
        r"selector-unmet",
        rf"request {d.request}",
        [d.asks("requests.0.exactly.selectors.0.cel.expression", wants.replace("1.10.0", "1.9.0"))],
        says=[r"firmware", r"1\.9\.0", r"1\.10\.0"],
        never=[r"DeviceClass", r"in use"],
    )


@planted("seen: pods that are not let near", PLAIN, FLEET)
def a_running_pod_keeps_others_away(d: Dress) -> Planted:
    term = {"labelSelector": {"matchLabels": {"noisy": "yes"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    quiet = [stored(pod(f"quiet-{name}", d.namespace, node=name, affinity=apart)) for name in d.nodes]
    return Planted(
        [*d.fleet(), *quiet, d.ask(), d.waiting(labels={"noisy": "yes"})],
        d.asked,
        r"pod-affinity-unmet",
        r"quiet-",
        [gone(("Pod", f"quiet-{d.at}"))],
        says=[r"podAntiAffinity"],
        change=[r"quiet-|noisy"],
        never=[*RELAX, r"in use"],
    )


@planted("seen: pods that are not let near", PLAIN, FLEET)
def the_partner_that_is_wanted_near_is_on_a_node_without_devices(d: Dress) -> Planted:
    term = {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": "kubernetes.io/hostname"}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cache = stored(pod("cache-0", d.namespace, node="plain-1", labels={"app": "cache"}))
    return Planted(
        [*d.fleet(), node("plain-1"), cache, d.ask(), d.waiting(affinity=near)],
        d.asked,
        r"pod-affinity-unmet|devices-short",
        r"cache|plain-1",
        [added(d.slice(d.all(), "plain-1"))],
        says=[r"app=cache|plain-1"],
        change=[r"podAffinity|app=cache|cache"],
        never=[*RELAX, r"in use"],
    )


# --- what has to be together --------------------------------------------------------------------------------------


@planted("seen: together", PLAIN, FLEET)
def all_devices_are_asked_for_and_one_is_in_use(d: Dress) -> Planted:
    return Planted(
        [
            node(d.at),
            d.slice(d.all()),
            d.klass(),
            *d.held("user", f"{d.device}-0"),
            d.ask(d.want(allocationMode="All")),
            d.waiting(),
        ],
        d.asked,
        HELD,
        rf"{d.device}-0\b",
        [ended("user")],
        says=[r"\buser\b", r"in use"],
        change=[r"\buser\b|ExactCount|count"],
        never=RELAX,
    )


@planted("seen: together", PLAIN, FLEET)
def what_two_requests_want_is_on_two_nodes(d: Dress) -> Planted:
    key, have, other = d.attribute
    rare = [d.one(f"rare-{index}", {key: {"string": other}}) for index in range(2)]
    return Planted(
        [
            node(d.at),
            node("zz-node"),
            d.slice(d.all()),
            d.slice(rare, "zz-node"),
            d.klass(),
            d.ask(d.want(d.is_(have), name="common"), d.want(d.is_(other), name="rare")),
            d.waiting(),
        ],
        d.asked,
        r"devices-short|selector-unmet",
        r"\b(common|rare)\b",
        [d.asks("requests.1.exactly.selectors.0.cel.expression", d.is_(have))],
        says=[rf"\b{d.at}\b", r"zz-node"],
        never=[r"no device of its class", r"DeviceClass", r"in use"],
    )


@planted("seen: together", PLAIN, PAIR)
def the_claim_itself_is_asked_about(d: Dress) -> Planted:
    busy = [obj for name in d.nodes for obj in d.held(f"user-{name}", *d.names(), node=name)]
    return Planted(
        [*d.fleet(), *busy, d.ask(), d.waiting()],
        d.asked,
        HELD,
        rf"{d.device}-\d",
        [ended(f"user-{d.at}")],
        says=[r"in use", r"user-"],
        change=[r"user-"],
        never=RELAX,
        asks=f"claim/{d.claim}",
    )


@planted("seen: together", PLAIN, FLEET)
def the_device_plugin_s_node_gives_no_more(d: Dress) -> Planted:
    """The resource is served by a device plugin on one node, and nowhere by a class."""
    resource = f"{d.driver}/{d.device}"
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110", resource: "2"}
    served = node(d.at)
    served["status"] |= {"capacity": amounts, "allocatable": amounts}
    busy = pod("user", d.namespace, node=d.at, requests={resource: "2"})
    return Planted(
        [served, node("zz-node"), busy, d.plain(requests={resource: "1"})],
        d.asked,
        r"resources-short",
        rf"\buser\b|nodes? {d.at}\b",
        [gone(("Pod", "user"))],
        says=[resource],
        change=[r"\buser\b"],
        never=[r"extendedResourceName", r"no node has it", r"zz-node"],
    )
