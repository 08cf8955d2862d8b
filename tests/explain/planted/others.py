"""Prioritized lists, groups, extended resources, volumes, nodes, owners, claims, names."""

from __future__ import annotations

from tests.explain.planted.pools import everywhere
from tests.explain.planted.shapes import (
    FLEET,
    ONE,
    PAIR,
    PLAIN,
    REMOVED,
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
    taken,
)

RELAX = (r"relax", r"drop or")


def option(d: Dress, name: str, expression: str = "", cls: str = "", **more: object) -> Obj:
    selectors = {"selectors": [{"cel": {"expression": expression}}]} if expression else {}
    return {"name": name, "deviceClassName": cls or d.cls, **selectors, **more}


# --- prioritized lists --------------------------------------------------------------------------------------------


@planted("prioritized list: each for another reason", PLAIN, FLEET)
def each_alternative_fails_otherwise(d: Dress) -> Planted:
    _, have, other = d.attribute
    wants = {
        "name": d.request,
        "firstAvailable": [
            option(d, "best", d.is_(other)),
            option(d, "many", count=d.count + 1),
            option(d, "any", d.is_(have)),
        ],
    }
    return Planted(
        [*d.fleet(), *everywhere(d), d.ask(wants), d.waiting()],
        d.asked,
        r"alternatives-",
        rf"request {d.request}",
        [ended(f"user-{d.at}")],
        says=[r"\bbest\b", r"\bmany\b", r"\bany\b", r"user-|in use"],
        change=[r"user-"],
        never=RELAX,
    )


@planted("prioritized list: each for another reason", ONE, PAIR)
def one_alternative_lacks_its_class_and_one_its_attribute(d: Dress) -> Planted:
    wants = {
        "name": d.request,
        "firstAvailable": [
            option(d, "large", d.is_(d.attribute[2])),
            option(d, "small", f"device.attributes['{d.driver}'].slices == 2"),
        ],
    }
    return Planted(
        [*d.fleet(), d.ask(wants), d.waiting()],
        d.asked,
        r"alternatives-|selector-",
        rf"request {d.request}",
        [d.asks("requests.0.firstAvailable.0.selectors", REMOVED)],
        says=[r"\blarge\b", r"\bsmall\b", d.attribute[2], r"slices"],
    )


@planted("prioritized list: all taken", PLAIN, FLEET)
def all_alternatives_are_taken(d: Dress) -> Planted:
    key, have, other = d.attribute
    devices = d.all(5)
    for one in devices[3:]:
        one["attributes"][key] = {"string": other}
    busy = [
        obj
        for name in d.nodes
        for index in range(5)
        for obj in d.held(f"user-{name}-{index}", f"{d.device}-{index}", node=name, priority=index)
    ]
    wants = {"name": d.request, "firstAvailable": [option(d, "new", d.is_(other)), option(d, "old", d.is_(have))]}
    return Planted(
        [*d.fleet(devices), *busy, d.ask(wants), d.waiting()],
        d.asked,
        r"alternatives-|devices?-(held|in-use)|devices-taken|holder",
        rf"request {d.request}",
        [ended(f"user-{d.at}-0")],
        says=[rf"\b{5 * len(d.nodes)}\b|\b5\b|all", r"in use|taken|held", r"user-\S+-0"],
        change=[r"user-\S+-0"],
        never=RELAX,
    )


# --- groups -------------------------------------------------------------------------------------------------------


def member(d: Dress, index: int, needed: int, **more: object) -> Obj:
    labels = {"dra-scheduler/group": "crew", "dra-scheduler/group-min-count": str(needed)}
    name = d.pod if not index else f"member-{index}"
    made = pod(name, d.namespace, (d.claim,), is_template=True, labels=labels, **more)
    return made


def templated(d: Dress) -> Dress:
    return Dress(**{**{key: getattr(d, key) for key in d.__dataclass_fields__}, "is_template": True})


@planted("groups: it fits", PLAIN, FLEET)
def a_group_that_fits(d: Dress) -> Planted:
    return Planted(
        [*d.fleet(), templated(d).ask(), *(member(d, index, 3) for index in range(3))],
        d.asked,
        r"",
        r"fits",
        [],
        never=[r"does not fit", r"waiting for", r"more pod"],
        fits=True,
    )


@planted("groups: one pod is not there", PLAIN, FLEET)
def a_group_lacks_a_pod(d: Dress) -> Planted:
    return Planted(
        [*d.fleet(), templated(d).ask(), *(member(d, index, 3) for index in range(2))],
        d.asked,
        r"group-",
        r"group \S*crew",
        [added(member(d, 2, 3))],
        says=[r"\b2\b|1 more", r"\b3\b"],
        never=[*RELAX, r"end pod"],
    )


@planted("groups: one of its pods does not fit", PLAIN, FLEET)
def one_pod_of_the_group_does_not_fit(d: Dress) -> Planted:
    odd = member(d, 2, 3, requests={"memory": "900Gi"})
    return Planted(
        [*d.fleet(), templated(d).ask(), member(d, 0, 3), member(d, 1, 3), odd],
        d.asked,
        r"group-",
        r"member-2",
        [edit("Pod", "member-2", "spec.containers.0.resources.requests.memory", "1Gi")],
        says=[r"crew", r"memory"],
        never=[r"waiting for 1 more", *RELAX],
    )


@planted("groups: fewer fit than are needed", PLAIN, ONE)
def fewer_of_the_group_fit_than_are_needed(d: Dress) -> Planted:
    room = d.count * len(d.nodes)
    return Planted(
        [*d.fleet(), templated(d).ask(), *(member(d, index, room + 1) for index in range(room + 1))],
        d.asked,
        r"group-",
        r"crew",
        [added(node("more"), d.slice(d.all(1), "more"))],
        says=[rf"\b{room}\b", rf"\b{room + 1}\b"],
        never=[r"waiting for 1 more", *RELAX],
    )


# --- extended resources -------------------------------------------------------------------------------------------


@planted("extended resource: nobody knows it", PLAIN, FLEET)
def an_extended_resource_that_nobody_knows(d: Dress) -> Planted:
    fleet = [obj for obj in d.fleet() if obj["metadata"]["name"] != d.cls]
    typo = f"{d.driver}/acclerator"
    return Planted(
        [*fleet, d.klass(extendedResourceName=f"{d.driver}/accelerator"), d.plain(requests={typo: "1"})],
        d.asked,
        r"extended-resource-unknown|resources-short",
        typo,
        [edit("DeviceClass", d.cls, "spec.extendedResourceName", typo)],
        says=[r"no (node|DeviceClass|class)|unknown|nobody", rf"{d.driver}/accelerator"],
        never=[r"more than 0 free"],
    )


@planted("extended resource: the class lacks the name", PLAIN, FLEET)
def the_class_does_not_name_the_resource(d: Dress) -> Planted:
    resource = f"{d.driver}/{d.device}"
    return Planted(
        [*d.fleet(), d.plain(requests={resource: "1"})],
        d.asked,
        r"extended-resource-",
        resource,
        [edit("DeviceClass", d.cls, "spec.extendedResourceName", resource)],
        says=[rf"{d.cls}", r"extendedResourceName|no (DeviceClass|class)"],
        change=[r"extendedResourceName"],
    )


@planted("extended resource: in use", PLAIN, FLEET)
def an_extended_resource_in_use(d: Dress) -> Planted:
    resource = f"{d.driver}/{d.device}"
    fleet = [obj for obj in d.fleet() if obj["metadata"]["name"] != d.cls]
    return Planted(
        [*fleet, d.klass(extendedResourceName=resource), *everywhere(d), d.plain(requests={resource: "1"})],
        d.asked,
        r"devices?-(held|in-use)|holder-|devices-taken|extended-resource",
        rf"{d.device}-\d",
        [ended(f"user-{d.at}")],
        says=[r"in use|has it|held", r"user-"],
        change=[r"user-"],
    )


@planted("extended resource: its class", ONE, PAIR)
def an_extended_resource_whose_class_matches_nothing(d: Dress) -> Planted:
    resource = f"{d.driver}/{d.device}"
    fleet = [obj for obj in d.fleet() if obj["metadata"]["name"] != d.cls]
    typo = d.driver.replace(".", "s.", 1)
    return Planted(
        [
            *fleet,
            d.klass(f"device.driver == '{typo}'", extendedResourceName=resource),
            d.plain(requests={resource: "1"}),
        ],
        d.asked,
        r"class-unmatched|selector-|extended-resource",
        rf"DeviceClass {d.cls}",
        [edit("DeviceClass", d.cls, "spec.selectors.0.cel.expression", f"device.driver == '{d.driver}'")],
        says=[typo, rf"\b{d.driver}"],
    )


# --- volumes ------------------------------------------------------------------------------------------------------


def pvc(d: Dress, storage: str | None = "ssd", bound: str = "") -> Obj:
    spec: Obj = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec |= {} if storage is None else {"storageClassName": storage}
    claim: Obj = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"{d.pod}-data", "namespace": d.namespace},
        "spec": spec,
    }
    if bound:
        spec["volumeName"] = bound
        claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        claim["status"] = {"phase": "Bound"}
        claim = stored(claim)
    return claim


def storage_class(name: str, mode: str, provisioner: str = "csi.example.net") -> Obj:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }


def volume(d: Dress, name: str, where: str, bound: bool, storage: str = "ssd") -> Obj:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [where]}]}
    spec: Obj = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage,
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    if bound:
        uid = f"uid-{d.namespace}-{d.pod}-data"
        spec["claimRef"] = {"namespace": d.namespace, "name": f"{d.pod}-data", "uid": uid}
    made = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
    return stored({**made, "status": {"phase": "Bound" if bound else "Available"}})


def with_data(d: Dress, **more: object) -> Obj:
    source = {"name": "data", "persistentVolumeClaim": {"claimName": f"{d.pod}-data"}}
    return d.waiting(volumes=[source], **more)


@planted("volumes: StorageClass missing", PLAIN, FLEET)
def the_storage_class_is_missing(d: Dress) -> Planted:
    return Planted(
        [*d.fleet(), d.ask(), pvc(d, "fast-ssd"), with_data(d)],
        d.asked,
        r"volume-|storage-class",
        rf"{d.pod}-data",
        [added(storage_class("fast-ssd", "WaitForFirstConsumer"))],
        says=[r"StorageClass", r"fast-ssd", r"does not exist|not exist|missing|no such|not found"],
    )


@planted("volumes: the claim is missing", PLAIN, FLEET)
def the_volume_claim_is_missing(d: Dress) -> Planted:
    return Planted(
        [*d.fleet(), d.ask(), storage_class("ssd", "WaitForFirstConsumer"), with_data(d)],
        d.asked,
        r"volume-",
        rf"{d.pod}-data",
        [added(pvc(d))],
        says=[r"PersistentVolumeClaim|persistentvolumeclaim", r"does not exist|not exist|not found|missing"],
    )


@planted("volumes: unbound", PLAIN, FLEET)
def the_volume_claim_is_unbound(d: Dress) -> Planted:
    return Planted(
        [*d.fleet(), d.ask(), storage_class("ssd", "Immediate", "kubernetes.io/no-provisioner"), pvc(d), with_data(d)],
        d.asked,
        r"volume-",
        rf"{d.pod}-data",
        [added(volume(d, "disk-1", d.at, bound=False))],
        says=[r"ssd", r"unbound|not bound|bound to no|no volume"],
    )


@planted("volumes: WaitForFirstConsumer", PLAIN, FLEET)
def no_volume_for_the_first_consumer(d: Dress) -> Planted:
    provisioner = "kubernetes.io/no-provisioner"
    return Planted(
        [*d.fleet(), d.ask(), storage_class("ssd", "WaitForFirstConsumer", provisioner), pvc(d), with_data(d)],
        d.asked,
        r"volume-",
        rf"{d.pod}-data",
        [added(volume(d, "disk-1", d.at, bound=False))],
        says=[r"ssd", r"no (free |available )?(persistent ?)?volume"],
    )


@planted("volumes: on another node", PLAIN, FLEET)
def the_volume_is_on_another_node(d: Dress) -> Planted:
    return Planted(
        [
            *d.fleet(),
            node("storage-1"),
            d.ask(),
            storage_class("ssd", "WaitForFirstConsumer"),
            pvc(d, bound="disk-1"),
            volume(d, "disk-1", "storage-1", bound=True),
            with_data(d),
        ],
        d.asked,
        r"volume-|devices-short",
        rf"disk-1|{d.pod}-data",
        [added(d.slice(d.all(), "storage-1"))],
        says=[r"storage-1"],
        never=RELAX,
    )


# --- nodes --------------------------------------------------------------------------------------------------------


@planted("host port", PLAIN, FLEET)
def the_host_port_is_taken(d: Dress) -> Planted:
    ports = [{"containerPort": 9400, "hostPort": 9400}]
    busy = [stored(pod(f"exporter-{name}", d.namespace, node=name, ports=ports)) for name in d.nodes]
    return Planted(
        [*d.fleet(), *busy, d.ask(), d.waiting(ports=ports)],
        d.asked,
        r"port-taken",
        r"exporter-",
        [gone(("Pod", f"exporter-{d.at}"))],
        says=[r"9400"],
        change=[r"9400|port|exporter-"],
    )


@planted("label value", PLAIN, FLEET)
def the_label_has_another_value(d: Dress) -> Planted:
    fleet = d.fleet()
    for obj in fleet:
        if obj["kind"] == "Node":
            obj["metadata"]["labels"]["tier"] = "gold-1"
    return Planted(
        [*fleet, d.ask(), d.waiting(nodeSelector={"tier": "gold"})],
        d.asked,
        r"node-affinity-unmet|node-label|label",
        rf"nodeSelector|{d.nodes[0][:-1]}",
        [edit("Pod", d.pod, "spec.nodeSelector.tier", "gold-1")],
        says=[r"tier", r"\bgold\b(?!-)", r"gold-1"],
    )


@planted("label value", ONE, PAIR)
def no_node_has_the_label(d: Dress) -> Planted:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["east"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    return Planted(
        [*d.fleet(), d.ask(), d.waiting(affinity=affinity)],
        d.asked,
        r"node-affinity-unmet|node-label|label",
        rf"nodeAffinity|{d.pod}",
        [edit("Node", "*", "metadata.labels.zone", "east")],
        says=[r"zone", r"east"],
    )


@planted("taint: node", PLAIN, FLEET)
def the_nodes_are_tainted(d: Dress) -> Planted:
    taint = {"key": "team.example.net/only", "value": "vision", "effect": "NoSchedule"}
    fleet = [{**obj, "spec": {"taints": [taint]}} if obj["kind"] == "Node" else obj for obj in d.fleet()]
    return Planted(
        [*fleet, d.ask(), d.waiting()],
        d.asked,
        r"node-tainted",
        d.at,
        [edit("Node", d.at, "spec.taints", [])],
        says=[r"team\.example\.net/only", r"vision"],
        change=[r"toleration|kubectl taint"],
        never=RELAX,
    )


@planted("taint: device", PLAIN, FLEET)
def the_devices_are_tainted(d: Dress) -> Planted:
    taint = {"key": "health.example.net/hot", "effect": "NoExecute"}
    return Planted(
        [*d.fleet([d.one(name, taints=[taint]) for name in d.names()]), d.ask(), d.waiting()],
        d.asked,
        r"device-tainted",
        rf"{d.device}-\d",
        [edit("ResourceSlice", f"slice-{d.at}", "spec.devices.0.taints", [])],
        says=[r"health\.example\.net/hot"],
        change=[r"toleration|taint"],
        never=RELAX,
    )


@planted("unread: device", PLAIN, FLEET)
def the_devices_have_a_field_of_the_future(d: Dress) -> Planted:
    field = {"rationing": {"perPod": "1"}}
    return Planted(
        [*d.fleet([d.one(name, **field) for name in d.names()]), d.ask(), d.waiting()],
        d.asked,
        r"field-unread",
        rf"{d.device}-\d",
        [edit("ResourceSlice", f"slice-{d.at}", f"spec.devices.{at}.rationing", None) for at in range(len(d.names()))],
        says=[r"field rationing"],
        never=RELAX,
    )


@planted("taint: device", ONE, PAIR)
def a_rule_taints_the_devices(d: Dress) -> Planted:
    rule = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "recall"},
        "spec": {
            "deviceSelector": {"driver": d.driver},
            "taint": {"key": "maker.example.net/batch", "value": "7", "effect": "NoSchedule"},
        },
    }
    return Planted(
        [*d.fleet(), rule, d.ask(), d.waiting()],
        d.asked,
        r"device-tainted",
        r"[Rr]ule recall",
        [gone(("DeviceTaintRule", "recall"))],
        says=[r"maker\.example\.net/batch"],
        change=[r"toleration|taint|rule"],
        never=RELAX,
    )


@planted("cordon", PLAIN, FLEET)
def the_nodes_are_cordoned(d: Dress) -> Planted:
    fleet = [{**obj, "spec": {"unschedulable": True}} if obj["kind"] == "Node" else obj for obj in d.fleet()]
    return Planted(
        [*fleet, d.ask(), d.waiting()],
        d.asked,
        r"node-cordoned",
        rf"nodes? {d.nodes[0][:-1]}",
        [edit("Node", d.at, "spec.unschedulable", False)],
        says=[r"cordoned"],
        change=[r"kubectl uncordon"],
        never=RELAX,
    )


@planted("node's amounts: cpu", PLAIN, FLEET)
def too_little_cpu(d: Dress) -> Planted:
    busy = [stored(pod(f"busy-{name}", d.namespace, node=name, requests={"cpu": "12"})) for name in d.nodes]
    return Planted(
        [*d.fleet(), *busy, d.ask(), d.waiting(requests={"cpu": "6"})],
        d.asked,
        r"resources-short",
        rf"nodes? {d.nodes[0][:-1]}|busy-|pod {d.namespace}/{d.pod}",
        [gone(("Pod", f"busy-{d.at}"))],
        says=[r"cpu", r"\b6\b", r"\b4\b|3900m|3\.9|3800m"],
        never=[r"Node(s)? .*has? 0"],
    )


@planted("node's amounts: memory", PLAIN, FLEET)
def too_little_memory(d: Dress) -> Planted:
    return Planted(
        [*d.fleet(), d.ask(), d.waiting(requests={"memory": "100Gi"})],
        d.asked,
        r"resources-short",
        rf"nodes? {d.nodes[0][:-1]}|pod {d.namespace}/{d.pod}",
        [edit("Pod", d.pod, "spec.containers.0.resources.requests.memory", "10Gi")],
        says=[r"memory", r"100Gi", r"6[34]"],
        change=[r"memory"],
    )


@planted("node's amounts: pods", PLAIN, FLEET)
def too_many_pods(d: Dress) -> Planted:
    fleet = [
        {**obj, "status": {**obj["status"], "allocatable": {**obj["status"]["allocatable"], "pods": "1"}}}
        if obj["kind"] == "Node"
        else obj
        for obj in Dress(**{**{key: getattr(d, key) for key in d.__dataclass_fields__}, "is_noisy": False}).fleet()
    ]
    busy = [stored(pod(f"web-{name}", d.namespace, node=name)) for name in d.nodes]
    return Planted(
        [*fleet, *busy, d.ask(), d.waiting()],
        d.asked,
        r"pods-full",
        rf"nodes? {d.nodes[0][:-1]}",
        [gone(("Pod", f"web-{d.at}"))],
        says=[r"\b1\b", r"pods?"],
    )


# --- owners -------------------------------------------------------------------------------------------------------


def owned(d: Dress, kind: str, name: str) -> Planted:
    return Planted(
        [
            *d.fleet(),
            d.ask(),
            d.waiting(nodeSelector={"accelerated": "yes"}, owner=(kind, name)),
        ],
        d.asked,
        r"node-affinity-unmet|node-label|label",
        rf"{d.pod}",
        [edit("Pod", d.pod, "spec.nodeSelector", REMOVED)],
        says=[r"accelerated"],
        change=[rf"(?i){kind}[ /]\S*{name}"],
        never=[r"(delete|make) the pod anew"],
    )


@planted("owners: the owner has to be edited", PLAIN, FLEET)
def the_pod_of_a_job(d: Dress) -> Planted:
    return owned(d, "Job", "nightly")


@planted("owners: the owner has to be edited", PLAIN, ONE)
def the_pod_of_a_replica_set(d: Dress) -> Planted:
    return owned(d, "ReplicaSet", "serve")


@planted("owners: the owner has to be edited", PLAIN, FLEET)
def the_pod_of_a_daemon_set(d: Dress) -> Planted:
    row = owned(d, "DaemonSet", "agent")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [d.at]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    daemon = d.waiting(affinity=affinity, requests={"memory": "900Gi"}, owner=("DaemonSet", "agent"))
    return Planted(
        [*row.objects[:-1], daemon],
        d.asked,
        r"resources-short",
        rf"{d.at}",
        [edit("Pod", d.pod, "spec.containers.0.resources.requests.memory", "1Gi")],
        says=[r"memory"],
        change=[r"(?i)daemonset[ /]\S*agent"],
        never=[r"relax the required nodeAffinity", r"in vain"],
    )


# --- claims -------------------------------------------------------------------------------------------------------


@planted("own other claim", PLAIN, ONE)
def its_own_other_claim_takes_the_device(d: Dress) -> Planted:
    every = d.want(allocationMode="All")
    second = d.ask(name=f"{d.claim}-2")
    first = d.ask(every)
    return Planted(
        [*d.fleet(), first, second, d.waiting(d.claim, f"{d.claim}-2")],
        d.asked,
        r"claims-together|own-claim|devices-short",
        rf"{d.claim}|{d.pod}-\S+",
        [
            d.asks("requests.0.exactly", {"deviceClassName": d.cls, "count": 1}),
            edit("ResourceSlice", f"slice-{d.at}", "spec.devices", d.all(d.count + 1)),
        ],
        says=[r"other claim|own|same pod|both|together|also"],
        never=[r"end pod", r"in use by another"],
    )


@planted("shares: capacity", PLAIN, FLEET)
def too_little_capacity_is_left(d: Dress) -> Planted:
    policy = {"memory": {"value": "80Gi", "requestPolicy": {"default": "1Gi"}}}
    devices = [{**d.one(f"{d.device}-0"), "allowMultipleAllocations": True, "capacity": policy}]
    share = {"shareID": "5a4b1f9c-70a7-4b52-9c5b-6f9f3a0f6f21", "consumedCapacity": {"memory": "50Gi"}}
    busy = [
        obj
        for name in d.nodes
        for obj in (
            taken(
                d.namespace,
                f"user-{name}-claim",
                d.cls,
                d.driver,
                name,
                [f"{d.device}-0"],
                name,
                [(f"user-{name}", f"uid-{d.namespace}-user-{name}")],
                **share,
            ),
            pod(f"user-{name}", d.namespace, (f"user-{name}-claim",), node=name),
        )
    ]
    return Planted(
        [*d.fleet(devices), *busy, d.ask(d.want(capacity={"requests": {"memory": "40Gi"}})), d.waiting()],
        d.asked,
        r"capacity-short|shares",
        rf"{d.device}-0|request {d.request}",
        [d.asks("requests.0.exactly.capacity.requests.memory", "30Gi")],
        says=[r"memory", r"40Gi", r"30Gi"],
        never=[r"relax"],
    )


@planted("shares: capacity", ONE, PAIR)
def more_capacity_than_any_device_has(d: Dress) -> Planted:
    return Planted(
        [*d.fleet(), d.ask(d.want(capacity={"requests": {"memory": "81Gi"}})), d.waiting()],
        d.asked,
        r"capacity-short|shares",
        rf"request {d.request}|{d.device}-\d",
        [d.asks("requests.0.exactly.capacity.requests.memory", "80Gi")],
        says=[r"memory", r"81Gi", r"80Gi"],
        never=[r"relax", r"left"],
    )


@planted("admin access", PLAIN, FLEET)
def the_namespace_lacks_the_admin_label(d: Dress) -> Planted:
    wants = taken(d.namespace, "watch-all", d.cls, d.driver, d.at, [], d.at, [])
    exactly = {"deviceClassName": d.cls, "allocationMode": "All", "adminAccess": True}
    wants = {**wants, "spec": {"devices": {"requests": [{"name": d.request, "exactly": exactly}]}}, "status": {}}
    space = stored({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": d.namespace}})
    asked = pod(d.pod, d.namespace, ("watch-all",))
    return Planted(
        [space, *d.fleet(), wants, asked],
        d.asked,
        r"admin-access",
        rf"[Nn]amespace {d.namespace}",
        [edit("Namespace", d.namespace, "metadata|labels", {"resource.kubernetes.io/admin-access": "true"})],
        says=[r"admin", r"label"],
        change=[rf"kubectl label namespace {d.namespace}"],
    )


@planted("gate", PLAIN, FLEET)
def a_gate_is_left(d: Dress) -> Planted:
    return Planted(
        [*d.fleet(), d.ask(), d.waiting(schedulingGates=[{"name": "quota.example.net/admitted"}])],
        d.asked,
        r"scheduling-gate|gate",
        r"quota\.example\.net/admitted",
        [edit("Pod", d.pod, "spec.schedulingGates", [])],
        says=[r"gate"],
        unheard=True,
    )


@planted("claim full", PLAIN, PAIR)
def the_claim_is_full(d: Dress) -> Planted:
    users = [(f"peer-{index}", f"uid-peer-{index}") for index in range(256)]
    shared = taken(d.namespace, "shared", d.cls, d.driver, d.at, d.names(1), d.at, users)
    return Planted(
        [*d.fleet(), shared, pod(d.pod, d.namespace, ("shared",))],
        d.asked,
        r"claim-full",
        r"shared",
        [edit("ResourceClaim", "shared", "status.reservedFor", [])],
        says=[r"256"],
        change=[r"claim of its own"],
    )


@planted("claim pinned", PLAIN, FLEET)
def the_claim_is_pinned_to_another_node(d: Dress) -> Planted:
    fleet = [
        *d.fleet(),
        node("other-node"),
        d.slice(d.all(), "other-node"),
        pod("peer", d.namespace, ("shared",), node=d.at),
    ]
    shared = taken(
        d.namespace, "shared", d.cls, d.driver, d.at, d.names(1), d.at, [("peer", f"uid-{d.namespace}-peer")]
    )
    asked = pod(d.pod, d.namespace, ("shared",), nodeSelector={"kubernetes.io/hostname": "other-node"})
    return Planted(
        [*fleet, shared, asked],
        d.asked,
        r"claim-pinned",
        r"shared",
        [edit("Pod", d.pod, "spec.nodeSelector", REMOVED)],
        says=[d.at],
        never=[r"relax"],
    )


@planted("binding conditions", PLAIN, PAIR)
def a_binding_condition_is_not_set(d: Dress) -> Planted:
    devices = [
        d.one(
            name,
            bindsToNode=True,
            bindingConditions=["fabric.example.net/attached"],
            bindingFailureConditions=["fabric.example.net/failed"],
        )
        for name in d.names()
    ]
    plain = [d.slice(d.all(), name) for name in d.nodes]
    return Planted(
        [*d.fleet(devices), d.ask(), d.waiting()],
        d.asked,
        r"binding-condition",
        r"fabric\.example\.net/attached",
        [edit("ResourceSlice", one["metadata"]["name"], "spec.devices", one["spec"]["devices"]) for one in plain],
        says=[r"condition"],
        change=[r"fabric\.example\.net/attached|driver"],
    )


# --- names --------------------------------------------------------------------------------------------------------


@planted("misspelt: claim", PLAIN, PAIR)
def the_claim_is_misspelt(d: Dress) -> Planted:
    typo = d.claim[:-1]
    return Planted(
        [*d.fleet(), d.ask(), d.waiting(typo)],
        d.asked,
        r"claim-missing",
        rf"{d.namespace}/{typo}\b(?!s)",
        [edit("Pod", d.pod, "spec.resourceClaims.0.resourceClaimName", d.claim)],
        says=[r"does not exist"],
        change=[rf"\b{d.claim}\b"],
    )


@planted("misspelt: template", ONE, FLEET)
def the_template_is_misspelt(d: Dress) -> Planted:
    typo = f"{d.claim}s"
    return Planted(
        [*d.fleet(), d.ask(), d.waiting(typo)],
        d.asked,
        r"claim-not-made|template-missing",
        typo,
        [edit("Pod", d.pod, "spec.resourceClaims.0.resourceClaimTemplateName", d.claim)],
        says=[r"ResourceClaimTemplate", r"does not exist|no ResourceClaim has been made"],
    )


@planted("misspelt: class", PLAIN, FLEET, PAIR)
def the_class_is_misspelt(d: Dress) -> Planted:
    typo = f"{d.cls[:-1]}{d.cls[-1] * 2}"
    return Planted(
        [*d.fleet(), d.ask(d.want(cls=typo)), d.waiting()],
        d.asked,
        r"class-missing",
        rf"DeviceClass {typo}",
        [d.asks("requests.0.exactly.deviceClassName", d.cls)],
        says=[r"does not exist"],
        change=[rf"\b{d.cls}\b(?!{d.cls[-1]})"],
    )


@planted("misspelt: scheduler", PLAIN, FLEET)
def the_scheduler_is_misspelt(d: Dress) -> Planted:
    return Planted(
        [*d.fleet(), d.ask(), d.waiting(schedulerName="dra-schduler")],
        d.asked,
        r"scheduler-",
        r"dra-schduler",
        [edit("Pod", d.pod, "spec.schedulerName", "dra-scheduler")],
        says=[r"scheduler"],
        change=[r"dra-scheduler"],
        unheard=True,
    )
