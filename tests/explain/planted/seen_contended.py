"""Causes that somebody planted who knew neither the engine nor its causes: partitions, preemption, shares, two needs.

Each has something beside it that is easily blamed: a counter that suffices, a victim that frees nothing.
"""

from __future__ import annotations

from tests.explain.planted.constraints import carved, parted
from tests.explain.planted.seen_outside import HELD, NO_SIBLING, RELAX, RS, deployment, siblings
from tests.explain.planted.shapes import (
    FLEET,
    ONE,
    PAIR,
    PLAIN,
    Dress,
    Obj,
    Planted,
    edit,
    ended,
    gone,
    node,
    planted,
    pod,
    stored,
    taken,
)

# --- partitions ---------------------------------------------------------------------------------------------------


def mig(d: Dress, name: str, profile: str, **takes: int) -> Obj:
    counters = {key: {"value": str(value)} for key, value in takes.items()}
    return d.one(
        name,
        {"profile": {"string": profile}},
        f"{takes['memory']}0Gi" if takes.get("memory") else "10Gi",
        consumesCounters=[{"counterSet": "die", "counters": counters}],
    )


def die(d: Dress, where: str, devices: list[Obj], **total: int) -> list[Obj]:
    """A node with one accelerator, cut into these."""
    pool = {"resourceSliceCount": 2}
    sets_ = [{"name": "die", "counters": {key: {"value": str(value)} for key, value in total.items()}}]
    return [
        node(where),
        d.slice(devices, where, f"{where}-devices", pool),
        d.slice([], where, f"{where}-counters", pool, sharedCounters=sets_),
    ]


@planted("partitions: one of two counters", PLAIN, FLEET)
def memory_is_left_and_compute_is_not(d: Dress) -> Planted:
    small = [mig(d, f"small-{index}", "2g", memory=2, compute=2) for index in range(2)]
    return Planted(
        [
            *die(d, d.at, [*small, mig(d, "large", "4g", memory=4, compute=4)], memory=8, compute=7),
            d.klass(),
            *d.held("user-0", "small-0"),
            *d.held("user-1", "small-1"),
            d.ask(d.want(d.is_("4g", "profile"))),
            d.waiting(),
        ],
        d.asked,
        r"partition-blocked|counters-short",
        r"\blarge\b",
        [ended("user-0")],
        says=[r"compute", r"\b3\b", r"\b4\b", r"user-\d|small-\d"],
        change=[r"user-"],
        never=[*RELAX, r"memory \d+ left", r"large is in use"],
    )


@planted("partitions: places", PLAIN, FLEET)
def small_ones_stand_in_both_large_places(d: Dress) -> Planted:
    slots = {f"slot{index}": 1 for index in range(4)}
    small = [mig(d, f"small-{index}", "1g", **{f"slot{index}": 1}) for index in range(4)]
    large = [mig(d, f"large-{at}", "2g", **{f"slot{at}": 1, f"slot{at + 1}": 1}) for at in (0, 2)]
    return Planted(
        [
            *die(d, d.at, [*small, *large], **slots),
            d.klass(),
            *d.held("user-0", "small-0"),
            *d.held("user-2", "small-2"),
            d.ask(d.want(d.is_("2g", "profile"))),
            d.waiting(),
        ],
        d.asked,
        r"partition-blocked|counters-short",
        r"large-\d",
        [ended("user-0")],
        says=[r"slot[02]", r"user-[02]|small-[02]"],
        change=[r"user-[02]|'1g' instead of '2g'"],
        never=[*RELAX, r"slot[13]\b", r"end pods .*user-0.*user-2"],
    )


@planted("partitions: holders of both halves", PLAIN, FLEET)
def both_halves_have_to_go(d: Dress) -> Planted:
    busy = [
        obj
        for half in range(2)
        for obj in d.held(f"user-{half}", f"{d.device}-0-half-{half}", namespace=d.namespace if half else "vault")
    ]
    return Planted(
        [node(d.at), *carved(d, d.at), d.klass(), *busy, d.ask(d.want(d.is_("whole", "profile"))), d.waiting()],
        d.asked,
        r"partition-blocked|counters-short",
        rf"{d.device}-0\b",
        [ended("user-0", "user-1")],
        says=[r"set-0"],
        change=[r"user-1", r"user-0|'half' instead of 'whole'"],
        hidden=[r"vault", r"user-0"],
        never=RELAX,
    )


@planted("partitions: holders of both halves", PLAIN, FLEET)
def a_sibling_blocks_one_and_a_stranger_another(d: Dress) -> Planted:
    return Planted(
        [
            node(d.at),
            *carved(d, d.at, 2),
            d.klass(),
            *deployment(d, 2),
            *siblings(d, f"{d.device}-0-half-0"),
            *d.held("zz-notebook", f"{d.device}-1-half-0"),
            d.ask(d.want(d.is_("whole", "profile"))),
            d.waiting(owner=RS),
        ],
        d.asked,
        r"partition-blocked|counters-short",
        r"zz-notebook",
        [ended("zz-notebook")],
        says=[r"set-1|80Gi|40Gi"],
        change=[r"zz-notebook|'half' instead of 'whole'"],
        never=[*RELAX, *NO_SIBLING],
    )


@planted("partitions: own requests", PLAIN, PAIR)
def a_whole_and_a_half_of_one_device(d: Dress) -> Planted:
    both = (d.want(d.is_("whole", "profile"), name="big"), d.want(d.is_("half", "profile"), name="tiny"))
    return Planted(
        [*parted(d), d.ask(*both), d.waiting()],
        d.asked,
        r"counters-short|own-claims-compete",
        r"\b(big|tiny)\b",
        [d.asks("requests", [both[0]])],
        says=[r"set-0|counter", r"80Gi"],
        change=[r"\b(big|tiny)\b"],
        never=[r"end pods?", r"in use by", r"DeviceClass"],
    )


# --- preemption ---------------------------------------------------------------------------------------------------


def classes(**values: int) -> list[Obj]:
    return [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in values.items()
    ]


def urgent(d: Dress, **more: object) -> Obj:
    return d.waiting(priority=1000, priorityClassName="urgent", **more)


@planted("preemption: it helps", PLAIN, FLEET)
def the_scheduler_makes_the_room_itself(d: Dress) -> Planted:
    busy = [obj for name in d.nodes for obj in d.held(f"batch-{name}", *d.names(), node=name, priority=0)]
    return Planted(
        [*classes(urgent=1000), *d.fleet(), *busy, d.ask(), urgent(d)],
        d.asked,
        r"making-room",
        r"batch-",
        [ended(f"batch-{d.at}")],
        says=[r"nothing (needs|has) to be done"],
        never=[*RELAX, r"being deleted", r"no change found"],
    )


@planted("preemption: it helps", PLAIN, FLEET)
def the_pod_may_preempt_nobody(d: Dress) -> Planted:
    busy = [obj for name in d.nodes for obj in d.held(f"batch-{name}", *d.names(), node=name, priority=0)]
    return Planted(
        [{**classes(urgent=1000)[0], "preemptionPolicy": "Never"}, *d.fleet(), *busy, d.ask(), urgent(d)],
        d.asked,
        HELD,
        rf"{d.device}-\d|batch-",
        [ended(f"batch-{d.at}")],
        says=[r"in use", r"batch-"],
        change=[r"batch-|preemptionPolicy"],
        never=[*RELAX, r"nothing (needs|has) to be done"],
    )


@planted("preemption: it does not help", PLAIN, FLEET)
def victims_share_the_claim_with_a_boss(d: Dress) -> Planted:
    names, objects = ("menial", "boss"), []
    for at in d.nodes:
        users = [(f"{one}-{at}", f"uid-{d.namespace}-{one}-{at}") for one in names]
        objects.append(taken(d.namespace, f"shared-{at}", d.cls, d.driver, at, d.names(), at, users))
        objects += [
            pod(f"{one}-{at}", d.namespace, (f"shared-{at}",), node=at, priority=level)
            for one, level in (("menial", 0), ("boss", 2000))
        ]
    return Planted(
        [*classes(urgent=1000), *d.fleet(), *objects, d.ask(), urgent(d)],
        d.asked,
        HELD,
        r"shared-|boss-",
        [gone(("Pod", f"menial-{d.at}"), ("Pod", f"boss-{d.at}"), ("ResourceClaim", f"shared-{d.at}"))],
        says=[r"boss-"],
        change=[r"boss-", r"menial-"],
        never=[*RELAX, r"nothing (needs|has) to be done"],
    )


@planted("preemption: it does not help", PLAIN, FLEET)
def the_victim_is_a_static_pod(d: Dress) -> Planted:
    """The kubelet makes it anew from its file, whoever ends it."""
    static = [pod(f"static-{name}", "kube-system", node=name, requests={"cpu": "12"}, priority=0) for name in d.nodes]
    for obj in static:
        name = obj["spec"]["nodeName"]
        of = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": f"uid--{name}", "controller": True}
        marks = {"kubernetes.io/config.mirror": "f00d", "kubernetes.io/config.source": "file"}
        obj["metadata"] |= {"annotations": marks, "ownerReferences": [of]}
    fleet = [stored(obj) if obj["kind"] == "Node" else obj for obj in d.fleet()]
    return Planted(
        [*classes(urgent=1000), *fleet, *static, d.ask(), urgent(d, requests={"cpu": "6"})],
        d.asked,
        r"resources-short",
        rf"nodes? {d.nodes[0][:-1]}|pod {d.namespace}/{d.pod}",
        [edit("Pod", d.pod, "spec.containers.0.resources.requests.cpu", "3")],
        says=[r"cpu", r"\b6\b"],
        never=[*RELAX, r"nothing (needs|has) to be done", r"end pods? \S*static-"],
    )


@planted("preemption: it does not help", PLAIN, FLEET)
def the_victims_node_is_tainted_too(d: Dress) -> Planted:
    taint = {"key": "team.example.net/only", "value": "vision", "effect": "NoSchedule"}
    fleet = [{**obj, "spec": {"taints": [taint]}} if obj["kind"] == "Node" else obj for obj in d.fleet()]
    busy = [obj for name in d.nodes for obj in d.held(f"boss-{name}", *d.names(), node=name, priority=2000)]
    return Planted(
        [*classes(urgent=1000), *fleet, *busy, d.ask(), urgent(d)],
        d.asked,
        rf"node-tainted|{HELD}",
        r"team\.example\.net/only",
        [edit("Pod", d.pod, "spec.tolerations", [{"operator": "Exists"}]), ended(f"boss-{d.at}")],
        says=[r"boss-"],
        change=[r"toleration|taint", r"boss-"],
        never=RELAX,
    )


@planted("preemption: under way", PLAIN, FLEET)
def its_victim_takes_long_to_go(d: Dress) -> Planted:
    going = {"deletionTimestamp": "2026-11-24T10:00:00Z", "deletionGracePeriodSeconds": 30}
    busy = [obj for name in d.nodes for obj in d.held(f"batch-{name}", *d.names(), node=name, priority=0)]
    for obj in busy:
        if obj["kind"] == "Pod" and obj["metadata"]["name"] == f"batch-{d.at}":
            obj["metadata"] |= {**going, "finalizers": ["example.net/drain"]}
    asked = urgent(d, status={"phase": "Pending", "nominatedNodeName": d.at})
    return Planted(
        [*classes(urgent=1000), *d.fleet(), *busy, d.ask(), asked],
        d.asked,
        r"holder-terminating|making-room",
        rf"batch-{d.at}\b",
        [ended(f"batch-{d.at}")],
        says=[r"being deleted|terminating"],
        change=[r"finalizer|wait|kubelet"],
        never=[*RELAX, r"end pods? "],
    )


@planted("preemption: it helps", PLAIN, FLEET)
def room_is_kept_for_a_more_important_pod(d: Dress) -> Planted:
    """It is nominated to the only node, and nobody is there yet."""
    boss = pod("boss", d.namespace, requests={"cpu": "14"}, priority=2000)
    boss["status"] = {"phase": "Pending", "nominatedNodeName": d.at}
    return Planted(
        [node(d.at), d.slice(d.all()), d.klass(), stored(boss), d.ask(), d.waiting(requests={"cpu": "8"})],
        d.asked,
        r"resources-short",
        rf"boss|nodes? {d.at}\b",
        [gone(("Pod", "boss"))],
        says=[r"cpu", r"\b8\b"],
        change=[r"boss|cpu"],
        never=RELAX,
    )


@planted("preemption: it does not help", PLAIN, FLEET)
def one_claim_is_pinned_away_from_the_other_s_devices(d: Dress) -> Planted:
    """The first claim has a device of the first node; what the second asks for is on another."""
    special = d.one("special-0", {d.attribute[0]: {"string": d.attribute[2]}})
    users = [("peer", f"uid-{d.namespace}-peer")]
    mine = taken(d.namespace, "first", d.cls, d.driver, d.at, d.names(1), d.at, users)
    second = {**d.ask(d.want(d.is_(d.attribute[2])), name="second"), "kind": "ResourceClaim"}
    second["spec"] = second["spec"].get("spec", second["spec"])
    return Planted(
        [
            node(d.at),
            node("zz-node"),
            d.slice(d.all()),
            d.slice([special, d.one("other-0")], "zz-node"),
            d.klass(),
            mine,
            pod("peer", d.namespace, ("first",), node=d.at),
            second,
            pod(d.pod, d.namespace, ("first", "second")),
        ],
        d.asked,
        r"claim-pinned|devices-short|selector-unmet",
        r"\bfirst\b",
        [gone(("Pod", "peer")), edit("ResourceClaim", "first", "status", {})],
        says=[rf"\b{d.at}\b"],
        change=[r"\bfirst\b|second"],
        never=[r"DeviceClass", r"end pods?"],
    )


# --- capacity -----------------------------------------------------------------------------------------------------


def sharing(d: Dress, used: dict[str, str], **policy: object) -> list[Obj]:
    """The first node with one device of 80Gi that is shared, and pods that consume so much of it."""
    memory = {"memory": {"value": "80Gi", "requestPolicy": {"default": "10Gi", **policy}}}
    device = {**d.one(f"{d.device}-0"), "allowMultipleAllocations": True, "capacity": memory}
    busy = []
    for index, (who, amount) in enumerate(used.items()):
        share = {"shareID": f"5a4b1f9c-70a7-4b52-9c5b-6f9f3a0f6f2{index}", "consumedCapacity": {"memory": amount}}
        busy += d.held(who, f"{d.device}-0", result=share)
    return [node(d.at), d.slice([device]), d.klass(), *busy]


@planted("seen: capacity", PLAIN, ONE)
def the_amount_is_rounded_up_beyond_what_is_left(d: Dress) -> Planted:
    step = {"min": "10Gi", "max": "80Gi", "step": "10Gi"}
    return Planted(
        [
            *sharing(d, {"user": "40Gi"}, validRange=step),
            d.ask(d.want(capacity={"requests": {"memory": "41Gi"}})),
            d.waiting(),
        ],
        d.asked,
        r"capacity-short",
        rf"{d.device}-0",
        [d.asks("requests.0.exactly.capacity.requests.memory", "40Gi")],
        says=[r"50Gi", r"40Gi"],
        change=[r"40Gi|user"],
        never=RELAX,
    )


@planted("seen: capacity", PLAIN, ONE)
def an_amount_that_is_never_given(d: Dress) -> Planted:
    return Planted(
        [
            *sharing(d, {"user": "10Gi"}, default="20Gi", validValues=["20Gi", "40Gi"]),
            d.ask(d.want(capacity={"requests": {"memory": "60Gi"}})),
            d.waiting(),
        ],
        d.asked,
        r"capacity-short",
        rf"{d.device}-0|request {d.request}",
        [d.asks("requests.0.exactly.capacity.requests.memory", "40Gi")],
        says=[r"60Gi", r"40Gi"],
        change=[r"40Gi"],
        never=[*RELAX, r"end pods?", r"70Gi left"],
    )


# --- two needs on one node ----------------------------------------------------------------------------------------


@planted("seen: two needs", PLAIN, FLEET)
def one_device_is_tainted_and_the_other_in_use(d: Dress) -> Planted:
    hot = {"key": "health.example.net/hot", "effect": "NoSchedule"}
    devices = [d.one(f"{d.device}-0", taints=[hot]), d.one(f"{d.device}-1")]
    return Planted(
        [
            node(d.at),
            d.slice(devices),
            d.klass(),
            *d.held("user", f"{d.device}-1"),
            d.ask(d.want(count=2)),
            d.waiting(),
        ],
        d.asked,
        rf"device-tainted|{HELD}",
        rf"{d.device}-[01]",
        [edit("ResourceSlice", f"slice-{d.at}", "spec.devices.0.taints", []), ended("user")],
        says=[r"health\.example\.net/hot"],
        change=[r"toleration|taint", r"end pod \S*user|ask for 1 device"],
        never=RELAX,
    )


@planted("seen: two needs", PLAIN, FLEET)
def a_port_is_taken_and_the_device_in_use(d: Dress) -> Planted:
    ports = [{"containerPort": 9400, "hostPort": 9400}]
    return Planted(
        [
            node(d.at),
            d.slice(d.all(1)),
            d.klass(),
            stored(pod("exporter", d.namespace, node=d.at, ports=ports)),
            *d.held("user", f"{d.device}-0"),
            d.ask(),
            d.waiting(ports=ports),
        ],
        d.asked,
        rf"port-taken|{HELD}",
        r"exporter|user",
        [gone(("Pod", "exporter")), ended("user")],
        says=[r"9400", r"\buser\b"],
        change=[r"port|exporter", r"end pod \S*user"],
        never=RELAX,
    )


@planted("seen: two needs", PLAIN, FLEET)
def each_of_two_nodes_lacks_another_thing(d: Dress) -> Planted:
    """The one's devices are in use, the other's port is taken: either is enough."""
    ports = [{"containerPort": 9400, "hostPort": 9400}]
    return Planted(
        [
            node(d.at),
            node("zz-node"),
            d.slice(d.all(1)),
            d.slice(d.all(1), "zz-node"),
            d.klass(),
            pod("exporter", d.namespace, node="zz-node", ports=ports),
            *d.held("user", f"{d.device}-0"),
            d.ask(),
            d.waiting(ports=ports),
        ],
        d.asked,
        rf"port-taken|{HELD}",
        r"exporter|user",
        [ended("user")],
        says=[r"9400|in use"],
        change=[r"port|exporter|user"],
        never=[*RELAX, r"and then"],
    )
