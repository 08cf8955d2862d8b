"""Causes that somebody planted who knew neither the engine nor its causes: constraints, chosen nodes, owners.

Each has something beside it that is easily blamed: a node that was not chosen, another driver, a slice that no longer
counts.
"""

from __future__ import annotations

from tests.explain.planted.others import option, pvc, storage_class, volume, with_data
from tests.explain.planted.pools import everywhere
from tests.explain.planted.seen_outside import HELD, RELAX
from tests.explain.planted.shapes import (
    FLEET,
    PAIR,
    PLAIN,
    REMOVED,
    Dress,
    Planted,
    added,
    class_of,
    edit,
    ended,
    gone,
    node,
    planted,
    pod,
    slice_of,
    taken,
)

TAINT = {"key": "team.example.net/only", "value": "vision", "effect": "NoSchedule"}


# --- lists and constraints ----------------------------------------------------------------------------------------


@planted("seen: prioritized list", PLAIN, FLEET)
def one_alternative_s_class_is_missing_and_another_is_in_use(d: Dress) -> Planted:
    wants = {
        "name": d.request,
        "firstAvailable": [option(d, "best", cls=f"{d.cls}-ultra"), option(d, "good")],
    }
    return Planted(
        [*d.fleet(), *everywhere(d), d.ask(wants), d.waiting()],
        d.asked,
        r"alternatives-unmet|class-missing",
        rf"request {d.request}|{d.cls}-ultra",
        [
            edit(
                d.ask_kind,
                d.claim,
                f"spec.{'spec.' * d.is_template}devices.requests.0.firstAvailable",
                [option(d, "good")],
            ),
            ended(f"user-{d.at}"),
        ],
        says=[rf"{d.cls}-ultra", r"not exist|missing|no such"],
        change=[r"user-"],
        never=RELAX,
    )


@planted("seen: constraint", PLAIN, FLEET)
def what_is_free_of_two_requests_is_on_two_sides(d: Dress) -> Planted:
    side = [{"side": {"int": index % 2}} for index in range(4)]
    devices = [d.one(f"{d.device}-{index}", side[index]) for index in range(4)]
    devices = [
        {**one, "attributes": {**one["attributes"], "big": {"bool": index < 2}}} for index, one in enumerate(devices)
    ]
    big = f"device.attributes['{d.driver}'].big"
    return Planted(
        [
            node(d.at),
            d.slice(devices),
            d.klass(),
            *d.held("user-big", f"{d.device}-0"),
            *d.held("user-small", f"{d.device}-3"),
            d.ask(
                d.want(big, name="large"),
                d.want(f"!{big}", name="little"),
                constraints=[{"matchAttribute": f"{d.driver}/side"}],
            ),
            d.waiting(),
        ],
        d.asked,
        rf"constraint-unmet|{HELD}",
        r"\blarge\b.*\blittle\b|\blittle\b.*\blarge\b|user-(big|small)",
        [ended("user-big")],
        says=[rf"{d.driver}/side"],
        change=[r"user-(big|small)|constraint"],
        never=[*RELAX, r"DeviceClass"],
    )


@planted("seen: constraint", PLAIN, FLEET)
def two_requests_want_more_together_than_there_is(d: Dress) -> Planted:
    half = d.count // 2 + 1
    return Planted(
        [*d.fleet(), d.ask(d.want(name="left", count=half), d.want(name="right", count=half)), d.waiting()],
        d.asked,
        r"devices-short|own-claims-compete",
        r"\bleft\b|\bright\b",
        [d.asks("requests.1.exactly.count", d.count - half)],
        says=[rf"\b{d.count}\b|\b{d.count - half}\b"],
        change=[r"\bleft\b|\bright\b"],
        never=[*RELAX, r"end pods?", r"in use by"],
    )


@planted("seen: selector", PLAIN, PAIR)
def no_device_meets_both_terms(d: Dress) -> Planted:
    key, have, other = d.attribute
    devices = [
        d.one(name, {key: {"string": (have, other)[place % 2]}, "ecc": {"bool": bool(place % 2)}})
        for place, name in enumerate(d.names())
    ]
    return Planted(
        [*d.fleet(devices), d.ask(d.want(f"{d.is_(have)} && device.attributes['{d.driver}'].ecc")), d.waiting()],
        d.asked,
        r"selector-unmet",
        rf"request {d.request}",
        [d.asks("requests.0.exactly.selectors.0.cel.expression", d.is_(have))],
        says=[r"ecc"],
        never=[r"no device of its class has \S+ equal to the string '\w[\w-]*'(;|$)", r"DeviceClass"],
    )


# --- nodes that were chosen ---------------------------------------------------------------------------------------


@planted("seen: the chosen node", PLAIN, PAIR)
def the_node_that_was_chosen_by_name_is_full(d: Dress) -> Planted:
    others = [node(f"other-{index}", taints=[TAINT]) for index in range(3)]
    return Planted(
        [
            *d.fleet(),
            *others,
            *(d.slice(d.all(), one["metadata"]["name"]) for one in others),
            *d.held("user", *d.names()),
            d.ask(),
            d.waiting(nodeSelector={"kubernetes.io/hostname": d.at}),
        ],
        d.asked,
        HELD,
        rf"{d.at}/{d.device}-\d",
        [ended("user")],
        says=[r"\buser\b", r"in use"],
        change=[r"\buser\b|nodeSelector"],
        never=[*RELAX, r"team\.example\.net/only", r"other-\d"],
    )


@planted("seen: the chosen node", PLAIN, FLEET)
def a_daemon_s_node_has_an_incomplete_pool(d: Dress) -> Planted:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [d.at]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    return Planted(
        [
            *d.fleet(pool={"resourceSliceCount": 2}),
            node("zz-full"),
            d.slice(d.all(1), "zz-full"),
            *d.held("user", f"{d.device}-0", node="zz-full"),
            d.ask(),
            d.waiting(affinity=affinity, owner=("DaemonSet", "agent")),
        ],
        d.asked,
        r"pool-incomplete",
        rf"{d.driver}/{d.at}",
        [edit("ResourceSlice", f"slice-{d.at}", "spec.pool.resourceSliceCount", 1)],
        says=[r"1 of 2"],
        change=[r"driver|publish"],
        never=[*RELAX, r"\buser\b", r"nodeAffinity"],
    )


@planted("seen: the chosen node", PLAIN, FLEET)
def the_fabric_s_nodes_are_others(d: Dress) -> Planted:
    """The devices are reached over a network, from nodes with a label that the one with room lacks."""
    term = {"matchExpressions": [{"key": "fabric", "operator": "In", "values": ["blue"]}]}
    attached = d.slice(d.all(), name="fabric", pool={"name": "fabric"}, nodeSelector={"nodeSelectorTerms": [term]})
    return Planted(
        [
            node(d.at, labels={"fabric": "red"}),
            node("blue-1", cpu="1", labels={"fabric": "blue"}),
            attached,
            d.klass(),
            d.ask(),
            d.waiting(requests={"cpu": "4"}),
        ],
        d.asked,
        r"resources-short|devices-short|node-affinity-unmet",
        r"blue-1|fabric",
        [edit("Node", "blue-1", "status.allocatable.cpu", "16")],
        says=[r"cpu", r"\b4\b", r"\b1\b"],
        change=[r"cpu"],
        never=[*RELAX, r"in use"],
    )


# --- whose is it --------------------------------------------------------------------------------------------------


@planted("seen: another driver nearby", PLAIN, FLEET)
def another_driver_s_devices_are_free_where_there_is_cpu(d: Dress) -> Planted:
    return Planted(
        [
            node(d.at),
            d.slice(d.all()),
            d.klass(),
            pod("hog", d.namespace, node=d.at, requests={"cpu": "14"}),
            node("zz-other"),
            slice_of("rival.example.org", [{"name": "rival-0"}], "zz-other"),
            class_of("rival", "device.driver == 'rival.example.org'"),
            d.ask(),
            d.waiting(requests={"cpu": "4"}),
        ],
        d.asked,
        r"resources-short",
        rf"nodes? {d.at}\b",
        [gone(("Pod", "hog"))],
        says=[r"cpu", r"\b4\b", r"\b2\b"],
        change=[r"cpu|hog"],
        never=[*RELAX, r"rival", r"devices-short"],
    )


@planted("seen: several namespaces", PLAIN, FLEET)
def one_holder_is_a_neighbour_and_one_is_of_the_house(d: Dress) -> Planted:
    busy = [
        *d.held("aa-neighbour", *d.names()[: d.count // 2], namespace="vault"),
        *d.held("zz-own", *d.names()[d.count // 2 :]),
    ]
    return Planted(
        [node(d.at), d.slice(d.all()), d.klass(), *busy, d.ask(), d.waiting()],
        d.asked,
        HELD,
        r"zz-own",
        [ended("zz-own")],
        says=[r"in use"],
        change=[r"zz-own"],
        never=[*RELAX, r"^to make it fit: .*vault/"],
    )


@planted("seen: several namespaces", PLAIN, PAIR)
def the_claim_is_in_another_namespace(d: Dress) -> Planted:
    there = {**d.ask(name="shared"), "metadata": {"name": "shared", "namespace": "platform"}}
    return Planted(
        [*d.fleet(), there, d.ask(), d.waiting("shared")],
        d.asked,
        r"claim-missing",
        rf"{d.namespace}/shared\b",
        [edit("Pod", d.pod, "spec.resourceClaims.0.resourceClaimName", d.claim)],
        says=[r"not exist"],
        change=[rf"\b{d.claim}\b"],
        never=[*RELAX, r"end pods?"],
    )


@planted("seen: holders", PLAIN, FLEET)
def of_a_claim_s_two_pods_one_is_gone(d: Dress) -> Planted:
    users = [("ghost", "uid-ghost"), ("peer", f"uid-{d.namespace}-peer")]
    shared = taken(d.namespace, "kept", d.cls, d.driver, d.at, d.names(), d.at, users)
    return Planted(
        [
            node(d.at),
            d.slice(d.all()),
            d.klass(),
            shared,
            pod("peer", d.namespace, ("kept",), node=d.at),
            d.ask(),
            d.waiting(),
        ],
        d.asked,
        HELD,
        r"\bpeer\b",
        [gone(("Pod", "peer"), ("ResourceClaim", "kept"))],
        says=[r"in use|reserved", r"\bpeer\b"],
        change=[r"\bpeer\b"],
        never=[*RELAX, r"kube-controller-manager must release", r"delete (the )?(ResourceC|c)laim"],
    )


@planted("seen: holders", PLAIN, FLEET)
def leftovers_of_an_old_generation_lie_beside_a_full_pool(d: Dress) -> Planted:
    newer = d.slice(d.all(1), name="newer", pool={"generation": 2})
    return Planted(
        [node(d.at), d.slice(d.all()), newer, d.klass(), *d.held("user", f"{d.device}-0"), d.ask(), d.waiting()],
        d.asked,
        HELD,
        r"\buser\b",
        [ended("user")],
        says=[r"in use", r"\buser\b"],
        change=[r"\buser\b"],
        never=[*RELAX, r"driver must"],
    )


@planted("seen: holders", PLAIN, FLEET)
def a_sibling_has_the_extended_resource(d: Dress) -> Planted:
    resource, owner = f"deviceclass.resource.kubernetes.io/{d.cls}", ("ReplicaSet", "serve-7d9c")
    busy = d.held("serve-7d9c-a", f"{d.device}-0", owner=owner)
    return Planted(
        [node(d.at), d.slice(d.all(1)), d.klass(), *busy, d.plain(requests={resource: "1"}, owner=owner)],
        d.asked,
        HELD,
        rf"{d.device}-0",
        [added(node("more"), d.slice(d.all(1), "more"))],
        says=[r"in use"],
        never=[*RELAX, r"end pods? \S*serve-"],
    )


# --- admin access, volumes, conditions, slices --------------------------------------------------------------------


@planted("seen: admin access", PLAIN, FLEET)
def admin_access_to_what_no_device_is(d: Dress) -> Planted:
    space = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": d.namespace, "labels": {"resource.kubernetes.io/admin-access": "true"}},
    }
    other = d.attribute[2]
    return Planted(
        [space, *d.fleet(), *everywhere(d), d.ask(d.want(d.is_(other), adminAccess=True)), d.waiting()],
        d.asked,
        r"selector-unmet",
        rf"request {d.request}",
        [d.asks("requests.0.exactly.selectors", REMOVED)],
        says=[other],
        never=[r"in use", r"end pods?", r"admin.*label", r"DeviceClass"],
    )


@planted("seen: volumes", PLAIN, FLEET)
def the_volume_is_in_another_zone(d: Dress) -> Planted:
    fleet = d.fleet()
    for obj in fleet:
        if obj["kind"] == "Node":
            obj["metadata"]["labels"]["topology.kubernetes.io/zone"] = "east"
    disk = volume(d, "disk-1", d.at, bound=True)
    term = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["west"]}]}
    disk["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    west = node("west-1", labels={"topology.kubernetes.io/zone": "west"})
    return Planted(
        [
            *fleet,
            west,
            d.ask(),
            storage_class("ssd", "WaitForFirstConsumer"),
            pvc(d, bound="disk-1"),
            disk,
            with_data(d),
        ],
        d.asked,
        r"volume-unreachable|devices-short",
        rf"disk-1|{d.pod}-data",
        [added(d.slice(d.all(), "west-1"))],
        says=[r"west"],
        never=[*RELAX, r"end pods?"],
    )


@planted("seen: tolerations", PLAIN, FLEET)
def the_toleration_has_another_value(d: Dress) -> Planted:
    taint = {"key": "health.example.net/state", "value": "warm", "effect": "NoSchedule"}
    tolerates = [{"key": "health.example.net/state", "operator": "Equal", "value": "hot", "effect": "NoSchedule"}]
    return Planted(
        [
            *d.fleet([d.one(name, taints=[taint]) for name in d.names()]),
            d.ask(d.want(tolerations=tolerates)),
            d.waiting(),
        ],
        d.asked,
        r"device-tainted",
        rf"{d.device}-\d",
        [d.asks("requests.0.exactly.tolerations.0.value", "warm")],
        says=[r"health\.example\.net/state", r"warm"],
        change=[r"warm|Exists"],
        never=RELAX,
    )


@planted("seen: binding conditions", PLAIN, PAIR)
def what_needs_no_attaching_is_in_use(d: Dress) -> Planted:
    """The free device is of another model and has to be attached; that is not why the pod waits."""
    slow = d.one(
        f"{d.device}-slow",
        {d.attribute[0]: {"string": d.attribute[2]}},
        bindsToNode=True,
        bindingConditions=["fabric.example.net/attached"],
        bindingFailureConditions=["fabric.example.net/failed"],
    )
    return Planted(
        [
            node(d.at),
            d.slice([slow, *d.all(1)]),
            d.klass(),
            *d.held("user", f"{d.device}-0"),
            d.ask(d.want(d.is_(d.attribute[1]))),
            d.waiting(),
        ],
        d.asked,
        HELD,
        r"\buser\b",
        [ended("user")],
        says=[r"in use"],
        never=[r"fabric\.example\.net", r"DeviceClass"],
    )
