"""Constraints: the request, the attribute, how many share a value; pairs of devices; counter sets and partitions."""

from __future__ import annotations

from collections.abc import Sequence

from tests.explain.planted.shapes import (
    FLEET,
    ONE,
    PAIR,
    PLAIN,
    REMOVED,
    Dress,
    Obj,
    Planted,
    class_of,
    edit,
    ended,
    holder,
    planted,
    slice_of,
)

PCIE = "resource.kubernetes.io/pcieRoot"
UNMET = r"constraint-"
NO_RELAXING = (r"drop or relax the selector", r"relax DeviceClass", r"DeviceClass \S+: drop")


def numas(d: Dress, count: int, kinds: int) -> list[Obj]:
    return [d.one(name, {"numa": {"int": place // (count // kinds)}}) for place, name in enumerate(d.names(count))]


@planted("constraint: by NUMA", PLAIN, FLEET, PAIR)
def fewer_share_a_value(d: Dress) -> Planted:
    count, kinds = d.count, d.count // 2
    return Planted(
        [
            *d.fleet(numas(d, count, kinds)),
            d.ask(d.want(count=3), constraints=[{"requests": [d.request], "matchAttribute": f"{d.driver}/numa"}]),
            d.waiting(),
        ],
        d.asked,
        UNMET,
        rf"request {d.request}",
        [d.asks("requests.0.exactly.count", 2)],
        says=[rf"{d.driver}/numa", r"\b2\b", r"\b3\b"],
        never=[r"at most 1\b", *NO_RELAXING],
    )


def derives(d: Dress, expression: str) -> Obj:
    attribute = {"name": "derived/side", "expression": expression}
    return d.want(count=3, derivedAttributes=[attribute])


@planted("constraint: by NUMA", PLAIN, FLEET)
def fewer_share_what_a_request_derives(d: Dress) -> Planted:
    side = f"device.attributes['{d.driver}'].numa / 2"
    return Planted(
        [
            *d.fleet(numas(d, 4, 4)),
            d.ask(derives(d, side), constraints=[{"requests": [d.request], "matchAttribute": "derived/side"}]),
            d.waiting(),
        ],
        d.asked,
        UNMET,
        rf"request {d.request}",
        [d.asks("requests.0.exactly.count", 2)],
        says=[r"derived/side", r"\b2\b", r"\b3\b"],
        never=NO_RELAXING,
    )


@planted("constraint: attribute missing", PLAIN, FLEET)
def an_expression_of_a_derived_attribute_fails(d: Dress) -> Planted:
    guarded = f"device.attributes['{d.driver}'].?numa.orValue(0)"
    devices = [*numas(d, 3, 3)[:2], *d.all(4)[2:]]
    return Planted(
        [
            *d.fleet(devices),
            d.ask(
                derives(d, f"device.attributes['{d.driver}'].numa"), constraints=[{"distinctAttribute": "derived/side"}]
            ),
            d.waiting(),
        ],
        d.asked,
        r"selector-error",
        rf"request {d.request}",
        [
            d.asks("requests.0.exactly.derivedAttributes.0.expression", guarded),
            d.asks("requests.0.exactly.count", 2),
        ],
        says=[r"numa"],
        change=[r"derived/side"],
    )


@planted("constraint: by NUMA", PLAIN, FLEET)
def free_ones_share_no_value(d: Dress) -> Planted:
    nodes = d.nodes[:1]
    held = [f"busy-{index}" for index in range(2)]
    at = d.nodes[0]
    fleet = [obj for obj in d.fleet(numas(d, 4, 2)) if obj["kind"] != "Node" or obj["metadata"]["name"] in nodes]
    slices = [obj for obj in fleet if obj["kind"] != "ResourceSlice" or obj["spec"].get("nodeName") in nodes]
    return Planted(
        [
            *slices,
            *d.held("busy-0", d.names(4)[0], node=at),
            *d.held("busy-1", d.names(4)[2], node=at),
            d.ask(d.want(count=2), constraints=[{"matchAttribute": f"{d.driver}/numa"}]),
            d.waiting(),
        ],
        d.asked,
        rf"{UNMET}|devices?-(held|in-use)|holder",
        rf"request {d.request}|busy-\d",
        [ended(*held)],
        says=[r"numa", r"\b1\b"],
        never=NO_RELAXING,
    )


@planted("constraint: attribute missing", PLAIN, FLEET)
def nobody_has_the_attribute(d: Dress) -> Planted:
    return Planted(
        [*d.fleet(), d.ask(d.want(count=2), constraints=[{"matchAttribute": f"{d.driver}/island"}]), d.waiting()],
        d.asked,
        UNMET,
        rf"request {d.request}",
        [d.asks("constraints", REMOVED)],
        says=[r"island", r"no device|none of|have no|has no|has not|not have|lack"],
        never=[r"not enough free", r"at most 1\b", *NO_RELAXING],
    )


@planted("constraint: attribute of another name", PLAIN, FLEET)
def attribute_is_written_otherwise(d: Dress) -> Planted:
    devices = [d.one(name, {"pciRoot": {"string": "00"}}) for name in d.names()]
    return Planted(
        [*d.fleet(devices), d.ask(d.want(count=2), constraints=[{"matchAttribute": PCIE}]), d.waiting()],
        d.asked,
        UNMET,
        rf"request {d.request}",
        [d.asks("constraints.0.matchAttribute", f"{d.driver}/pciRoot")],
        says=[r"resource\.kubernetes\.io/pcieRoot", rf"{d.driver}/pciRoot"],
        never=[r"not enough free", *NO_RELAXING],
    )


@planted("constraint: attribute of another type", PLAIN, PAIR)
def attribute_has_two_types(d: Dress) -> Planted:
    nics = [{"name": "port-0", "attributes": {PCIE: {"int": 0}}}]
    return Planted(
        [
            *d.fleet([d.one(name, {PCIE: {"string": "0"}}) for name in d.names()]),
            *(slice_of("dpu.example.org", nics, name, f"dpu-{name}", {"name": f"{name}-dpu"}) for name in d.nodes),
            class_of("dpu", "device.driver == 'dpu.example.org'"),
            d.ask(d.want(), d.want(cls="dpu", name="port"), constraints=[{"matchAttribute": PCIE}]),
            d.waiting(),
        ],
        d.asked,
        UNMET,
        rf"request(s)? .*({d.request}|port)",
        [
            edit("ResourceSlice", f"dpu-{name}", f"spec|devices|0|attributes|{PCIE}", {"string": "0"})
            for name in d.nodes
        ],
        says=[r"pcieRoot", r"\bint\b|integer|number", r"string|text"],
        never=NO_RELAXING,
    )


@planted("constraint: attribute of another domain", PLAIN, FLEET)
def attribute_is_of_another_domain(d: Dress) -> Planted:
    devices = [d.one(name, {"topology.example.net/island": {"int": 1}}) for name in d.names()]
    return Planted(
        [
            *d.fleet(devices),
            d.ask(d.want(count=2), constraints=[{"matchAttribute": f"{d.driver}/island"}]),
            d.waiting(),
        ],
        d.asked,
        UNMET,
        rf"request {d.request}",
        [d.asks("constraints.0.matchAttribute", "topology.example.net/island")],
        says=[rf"{d.driver}/island", r"topology\.example\.net/island"],
        never=[r"not enough free", *NO_RELAXING],
    )


@planted("constraint: attribute missing", PLAIN, PAIR)
def one_alone_has_the_attribute(d: Dress) -> Planted:
    devices = [d.one(name, {"island": {"int": 1}} if not place else {}) for place, name in enumerate(d.names())]
    return Planted(
        [
            *d.fleet(devices),
            d.ask(d.want(count=2), constraints=[{"matchAttribute": f"{d.driver}/island"}]),
            d.waiting(),
        ],
        d.asked,
        UNMET,
        rf"request {d.request}",
        [d.asks("constraints", REMOVED)],
        says=[rf"{d.driver}/island", r"\b1\b|only one|one of|\b3\b"],
        never=NO_RELAXING,
    )


@planted("constraint: distinct", PLAIN, FLEET)
def all_have_one_value(d: Dress) -> Planted:
    key = f"{d.driver}/{d.attribute[0]}"
    return Planted(
        [*d.fleet(), d.ask(d.want(count=2), constraints=[{"distinctAttribute": key}]), d.waiting()],
        d.asked,
        UNMET,
        rf"request {d.request}",
        [d.asks("constraints", REMOVED)],
        says=[rf"{key}", r"distinct|different|one value|same", r"\b1\b|one|all"],
        never=[*NO_RELAXING, r"have the same \S+/\w+; not enough"],
    )


def nics(names: dict[str, str], node: str) -> Obj:
    devices = [{"name": name, "attributes": {PCIE: {"string": root}}} for name, root in names.items()]
    return slice_of("ib.example.org", devices, node, f"ib-{node}", {"name": f"{node}-ib"})


IB = class_of("ib", "device.driver == 'ib.example.org'")


@planted("pairs GPU-NIC", PLAIN, FLEET)
def no_pair_under_a_root(d: Dress) -> Planted:
    devices = [d.one(name, {PCIE: {"string": f"pci0000:0{place}"}}) for place, name in enumerate(d.names())]
    fabric = [nics({"ib-0": "pci00ff:00", "ib-1": "pci00fe:00"}, name) for name in d.nodes]
    return Planted(
        [
            *d.fleet(devices),
            *fabric,
            IB,
            d.ask(d.want(), d.want(cls="ib", name="rdma"), constraints=[{"matchAttribute": PCIE}]),
            d.waiting(),
        ],
        d.asked,
        UNMET,
        rf"{d.request}\b.*\brdma|\brdma\b.*{d.request}",
        [edit("ResourceSlice", f"ib-{d.at}", f"spec|devices|0|attributes|{PCIE}", {"string": "pci0000:00"})],
        says=[r"pcieRoot", r"no |none|0 "],
        never=[r"at most 1 that", *NO_RELAXING],
    )


@planted("pairs GPU-NIC", PLAIN, FLEET)
def one_pair_too_few(d: Dress) -> Planted:
    roots = [f"pci000{place}:00" for place in range(4)]
    devices = [d.one(f"{d.device}-{place}", {PCIE: {"string": root}}) for place, root in enumerate(roots)]
    cabled = {f"ib-{place}": root for place, root in enumerate(roots) if place != 1} | {"ib-1": "pciff01:00"}
    requests = [
        part
        for place in range(4)
        for part in (d.want(name=f"{d.request}-{place}"), d.want(cls="ib", name=f"rdma-{place}"))
    ]
    matching = [{"matchAttribute": PCIE, "requests": [f"{d.request}-{place}", f"rdma-{place}"]} for place in range(4)]
    return Planted(
        [
            *d.fleet(devices),
            *(nics(cabled, name) for name in d.nodes),
            IB,
            d.ask(*requests, constraints=matching),
            d.waiting(),
        ],
        d.asked,
        UNMET,
        rf"pcieRoot|{d.request}-\d",
        [edit("ResourceSlice", f"ib-{d.at}", f"spec|devices|3|attributes|{PCIE}", {"string": roots[1]})],
        says=[r"at most 3|3 of 4|only 3|pci0001:00|pciff01:00"],
        never=NO_RELAXING,
    )


@planted("pairs GPU-NIC", PLAIN, PAIR)
def the_pair_s_nic_is_held(d: Dress) -> Planted:
    devices = [d.one(f"{d.device}-0", {PCIE: {"string": "pci0000:00"}})]
    busy = [
        obj
        for name in d.nodes
        for obj in holder(d.namespace, f"net-{name}", "ib", "ib.example.org", f"{name}-ib", ["ib-0"], name)
    ]
    return Planted(
        [
            *d.fleet(devices),
            *(nics({"ib-0": "pci0000:00", "ib-1": "pci00ff:00"}, name) for name in d.nodes),
            IB,
            *busy,
            d.ask(d.want(), d.want(cls="ib", name="rdma"), constraints=[{"matchAttribute": PCIE}]),
            d.waiting(),
        ],
        d.asked,
        rf"{UNMET}|devices?-(held|in-use)|holder",
        r"net-\S+|ib-0",
        [ended(f"net-{d.at}")],
        says=[r"in use|held|has it"],
        change=[r"net-"],
        never=NO_RELAXING,
    )


# --- counters and partitions --------------------------------------------------------------------------------------


def part(d: Dress, name: str, memory: str, profile: str, counters: str) -> Obj:
    counted = [{"counterSet": counters, "counters": {"memory": {"value": memory}}}]
    return d.one(name, {"profile": {"string": profile}}, memory, consumesCounters=counted)


def carved(d: Dress, node: str, sets: int = 1, total: str = "80Gi") -> list[Obj]:
    """The slices of a node whose devices are whole, or two halves, of each counter set."""
    devices = [
        one
        for index in range(sets)
        for one in (
            part(d, f"{d.device}-{index}", "80Gi", "whole", f"set-{index}"),
            part(d, f"{d.device}-{index}-half-0", "40Gi", "half", f"set-{index}"),
            part(d, f"{d.device}-{index}-half-1", "40Gi", "half", f"set-{index}"),
        )
    ]
    sets_ = [{"name": f"set-{index}", "counters": {"memory": {"value": total}}} for index in range(sets)]
    pool = {"resourceSliceCount": 2}
    return [
        d.slice(devices, node, f"{node}-devices", pool),
        d.slice([], node, f"{node}-counters", pool, sharedCounters=sets_),
    ]


def parted(d: Dress, sets: int = 1, total: str = "80Gi") -> list[Obj]:
    return [*d.nodes_(), *(obj for name in d.nodes for obj in carved(d, name, sets, total)), d.klass(), *d.noise()]


@planted("partitions: counters", PLAIN, FLEET, PAIR)
def the_whole_is_blocked_by_a_half(d: Dress) -> Planted:
    sets = 2 if d.is_noisy else 1
    busy = [
        obj
        for name in d.nodes
        for index in range(sets)
        for obj in d.held(f"user-{name}-{index}", f"{d.device}-{index}-half-0", node=name)
    ]
    return Planted(
        [*parted(d, sets), *busy, d.ask(d.want(d.is_("whole", "profile"))), d.waiting()],
        d.asked,
        r"counters-|partition|blocked",
        rf"{d.device}-\d\b",
        [ended(f"user-{d.at}-0")],
        says=[r"set-\d", rf"{d.device}-\d-half-0|user-{d.nodes[0][:-1]}"],
        change=[r"user-|half"],
        never=[r"relax", r"devices? .*-\d is in use"],
    )


@planted("partitions: counters", PLAIN, FLEET)
def a_half_is_blocked_by_the_whole(d: Dress) -> Planted:
    busy = [obj for name in d.nodes for obj in d.held(f"user-{name}", f"{d.device}-0", node=name)]
    return Planted(
        [*parted(d), *busy, d.ask(d.want(d.is_("half", "profile"))), d.waiting()],
        d.asked,
        r"counters-|partition|blocked",
        rf"{d.device}-0",
        [ended(f"user-{d.at}")],
        says=[r"set-0", r"user-"],
        change=[r"user-"],
        never=[r"relax", rf"{d.device}-0-half-\d is in use"],
    )


@planted("partitions: all taken", PLAIN, FLEET)
def all_partitions_of_a_profile_are_taken(d: Dress) -> Planted:
    nodes = d.nodes[:2]
    busy = [
        obj
        for name in nodes
        for half in range(2)
        for obj in d.held(f"user-{name}-{half}", f"{d.device}-0-half-{half}", node=name)
    ]
    all_ = len(nodes) * 2
    objects = [obj for obj in parted(d) if obj["metadata"]["name"].removesuffix("-devices") not in d.nodes[2:]]
    objects = [obj for obj in objects if obj["metadata"]["name"] != f"{d.nodes[-1]}-counters" or len(d.nodes) < 3]
    return Planted(
        [*objects, *busy, d.ask(d.want(d.is_("half", "profile"))), d.waiting()],
        d.asked,
        r"devices?-(held|in-use)|holder|counters-|partition|devices-taken",
        r"user-|half-\d",
        [ended(f"user-{d.at}-0")],
        says=[rf"\b{all_}\b|all|in use"],
        change=[r"user-"],
        never=[r"relax"],
    )


@planted("partitions: counters", PLAIN, ONE)
def more_partitions_than_the_counters_give(d: Dress) -> Planted:
    return Planted(
        [*parted(d), d.ask(d.want(count=3)), d.waiting()],
        d.asked,
        r"counters-|partition|devices-short",
        rf"request {d.request}|set-0",
        [d.asks("requests.0.exactly.count", 2)],
        says=[r"set-0|counter", r"\b2\b"],
        never=[r"relax", r"drop"],
    )


@planted("partitions: counters", PLAIN, ONE)
def the_set_is_smaller_than_the_device(d: Dress) -> Planted:
    return Planted(
        [*parted(d, total="64Gi"), d.ask(d.want(d.is_("whole", "profile"))), d.waiting()],
        d.asked,
        r"counters-|partition",
        rf"set-0|{d.device}-0",
        [edit("ResourceSlice", f"{d.at}-counters", "spec.sharedCounters.0.counters.memory.value", "80Gi")],
        says=[r"64Gi", r"80Gi"],
        never=[r"in use", r"end pod"],
    )


def grouped(d: Dress, groups: Sequence[str]) -> list[Obj]:
    """A node with a device of each of these compatibility groups; their counters suffice for all of them."""
    devices = [part(d, f"{d.device}-{index}", "10Gi", "part", "set-0") for index in range(len(groups))]
    for device, group in zip(devices, groups, strict=True):
        device["consumesCounters"][0]["compatibilityGroups"] = [group]
    pool, sets_ = {"resourceSliceCount": 2}, [{"name": "set-0", "counters": {"memory": {"value": "80Gi"}}}]
    counters = d.slice([], d.at, f"{d.at}-counters", pool, sharedCounters=sets_)
    return [*d.nodes_(), d.slice(devices, d.at, f"{d.at}-devices", pool), counters, d.klass(), *d.noise()]


@planted("partitions: groups", PLAIN, ONE)
def the_free_device_is_of_another_group(d: Dress) -> Planted:
    return Planted(
        [*grouped(d, ("mig", "vgpu")), *d.held(f"user-{d.at}", f"{d.device}-0", node=d.at), d.ask(), d.waiting()],
        d.asked,
        r"partition-blocked",
        rf"{d.device}-1\b",
        [ended(f"user-{d.at}")],
        says=[r"compatibility group vgpu", r"compatibility group mig", r"set-0", r"user-"],
        change=[r"user-"],
        never=[r"relax"],
    )


@planted("partitions: groups", PLAIN, ONE)
def two_devices_of_different_groups_are_asked_for(d: Dress) -> Planted:
    return Planted(
        [*grouped(d, ("mig", "vgpu")), d.ask(d.want(count=2)), d.waiting()],
        d.asked,
        r"devices-short",
        rf"request {d.request}",
        [d.asks("requests.0.exactly.count", 1)],
        says=[r"compatibility group", r"\b1 of 2\b"],
        never=[r"in use", r"drop"],
    )
