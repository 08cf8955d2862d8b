"""Pools that are superseded, incomplete, contradictory or not there; and who holds a device."""

from __future__ import annotations

from tests.explain.planted.constraints import part
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
    holder,
    node,
    planted,
    pod,
    taken,
)

HARM = (r"relax", r"drop", r"wants \d+ of 0 devices")
CONTRADICTS = r"pool-|slice-superseded"


def pooled(d: Dress, *slices: Obj) -> list[Obj]:
    return [*d.nodes_(), *slices, d.klass(), *d.noise(), d.ask(), d.waiting()]


@planted("pools: superseded generation", PLAIN, FLEET)
def an_older_generation(d: Dress) -> Planted:
    older = [d.slice(d.all(), name) for name in d.nodes]
    newer = [d.slice([], name, f"newer-{name}", {"generation": 2}) for name in d.nodes]
    return Planted(
        pooled(d, *older, *newer),
        d.asked,
        r"slice-superseded|pool-",
        rf"slice-{d.nodes[0][:-1]}",
        [gone(("ResourceSlice", f"newer-{d.at}"))],
        says=[r"generation", r"\b2\b"],
        change=[r"driver|publish"],
        never=HARM,
    )


@planted("pools: missing slice", PLAIN, PAIR)
def a_slice_is_missing(d: Dress) -> Planted:
    return Planted(
        pooled(d, *(d.slice(d.all(), name, pool={"resourceSliceCount": 3}) for name in d.nodes)),
        d.asked,
        r"pool-incomplete",
        rf"pool {d.driver}/{d.nodes[0][:-1]}",
        [edit("ResourceSlice", f"slice-{d.at}", "spec.pool.resourceSliceCount", 1)],
        says=[r"1 of 3", r"incomplete|missing"],
        change=[r"\b2\b", r"driver|publish"],
        never=HARM,
    )


@planted("pools: one pool from two nodes", PLAIN, FLEET)
def two_nodes_publish_one_pool(d: Dress) -> Planted:
    """The node that has published more often makes the other's slice one of an older generation."""
    nodes = [*d.nodes, "second"][:2]
    slices = [
        d.slice(d.all(), name, f"from-{name}", {"name": "shared-pool", "generation": generation})
        for name, generation in zip(nodes, (1, 5), strict=True)
    ]
    others = [] if nodes[1] in d.nodes else [node(nodes[1])]
    busy = holder(d.namespace, "user", d.cls, d.driver, "shared-pool", d.names(), nodes[1])
    return Planted(
        [*pooled(d, *slices), *others, *busy],
        d.asked,
        CONTRADICTS,
        r"shared-pool",
        [edit("ResourceSlice", f"from-{nodes[0]}", "spec.pool.name", nodes[0])],
        says=[nodes[0], nodes[1]],
        change=[r"driver|pool"],
        never=HARM,
    )


@planted("pools: counts that disagree", PLAIN, FLEET)
def counts_disagree(d: Dress) -> Planted:
    slices = [
        d.slice([d.one(f"{d.device}-{part_}")], d.at, f"part-{part_}", {"resourceSliceCount": count})
        for part_, count in enumerate((2, 3))
    ]
    return Planted(
        pooled(d, *slices),
        d.asked,
        CONTRADICTS,
        rf"{d.driver}/{d.at}|part-\d",
        [edit("ResourceSlice", "part-1", "spec.pool.resourceSliceCount", 2)],
        says=[r"\b2\b", r"\b3\b", r"part-0", r"part-1"],
        change=[r"driver"],
        never=HARM,
    )


@planted("pools: a device name twice", PLAIN, FLEET)
def a_device_stands_twice(d: Dress) -> Planted:
    twice = [d.slice([d.one(f"{d.device}-0")], d.at, f"part-{part_}", {"resourceSliceCount": 2}) for part_ in range(2)]
    return Planted(
        pooled(d, *twice),
        d.asked,
        CONTRADICTS,
        rf"{d.device}-0",
        [edit("ResourceSlice", "part-1", "spec.devices.0.name", f"{d.device}-1")],
        says=[r"twice|duplicate|both|two|in slices", r"part-0", r"part-1"],
        change=[r"driver"],
        never=HARM,
    )


@planted("pools: an unknown counter set", PLAIN, FLEET)
def a_counter_set_is_unknown(d: Dress) -> Planted:
    one = part(d, f"{d.device}-0", "40Gi", "half", "set-9")
    sets = [{"name": "set-0", "counters": {"memory": {"value": "80Gi"}}}]
    pool = {"resourceSliceCount": 2}
    return Planted(
        pooled(d, d.slice([one], d.at, "devices", pool), d.slice([], d.at, "sets", pool, sharedCounters=sets)),
        d.asked,
        CONTRADICTS,
        rf"{d.driver}/{d.at}|{d.device}-0|slice devices",
        [edit("ResourceSlice", "sets", "spec.sharedCounters.0.name", "set-9")],
        says=[r"set-9"],
        change=[r"driver"],
        never=HARM,
    )


@planted("pools: a nodeName that no Node has", PLAIN, FLEET)
def the_slice_s_node_is_not_there(d: Dress) -> Planted:
    return Planted(
        pooled(d, d.slice(d.all(), "node-1.cluster.local", "slice-lost")),
        d.asked,
        r"slice-node-missing|node-missing",
        r"slice-lost|node-1\.cluster\.local",
        [edit("ResourceSlice", "slice-lost", "spec.nodeName", d.at)],
        says=[r"no (such )?Node|does not exist|not there|is missing|not exist|no node", r"node-1\.cluster\.local"],
        never=HARM,
    )


@planted("pools: no driver publishes anything", PLAIN, ONE)
def no_driver_at_all(d: Dress) -> Planted:
    return Planted(
        pooled(d),
        d.asked,
        r"no-devices",
        r"ResourceSlice|driver",
        [added(d.slice(d.all()))],
        says=[r"no (driver|ResourceSlice|device)", r"publish"],
        never=HARM,
    )


@planted("pools: only other drivers", FLEET, PAIR)
def only_other_drivers(d: Dress) -> Planted:
    return Planted(
        pooled(d),
        d.asked,
        r"no-devices|class-unmatched",
        rf"{d.driver}|DeviceClass {d.cls}",
        [added(d.slice(d.all()))],
        says=[d.driver, r"nic\.fabric\.example|no (driver|ResourceSlice|device)"],
        change=[r"driver"],
        never=[r"wants \d+ of 0 devices", r"write nic\.fabric", rf"(drop|relax).*DeviceClass {d.cls}"],
    )


# --- holders ------------------------------------------------------------------------------------------------------


def everywhere(d: Dress, who: str = "user", **more: object) -> list[Obj]:
    """All devices of all nodes, one claim and one pod for each node."""
    return [obj for name in d.nodes for obj in d.held(f"{who}-{name}", *d.names(), node=name, **more)]


def left(d: Dress, users: list[tuple[str, str]], **metadata: object) -> list[Obj]:
    """The same without pods: claims that are reserved for these."""
    claims = []
    for name in d.nodes:
        one = taken(d.namespace, f"kept-{name}", d.cls, d.driver, name, d.names(), name, users)
        claims.append({**one, "metadata": {**one["metadata"], **metadata}})
    return claims


def freed(d: Dress) -> tuple[str, str]:
    return "ResourceClaim", f"kept-{d.at}"


@planted("holders: a pod that runs", PLAIN, FLEET, ONE)
def a_running_pod_has_it(d: Dress) -> Planted:
    return Planted(
        [*d.fleet(), *everywhere(d), d.ask(), d.waiting()],
        d.asked,
        r"devices?-(held|in-use)|holder-|devices-taken",
        rf"{d.device}-\d",
        [ended(f"user-{d.at}")],
        says=[r"in use|has it|held", r"user-"],
        change=[r"user-"],
        never=[r"relax", r"drop"],
    )


@planted("holders: a pod of another namespace", PLAIN, FLEET)
def a_pod_of_another_namespace_has_it(d: Dress) -> Planted:
    return Planted(
        [*d.fleet(), *everywhere(d, "secret", namespace="vault"), d.ask(), d.waiting()],
        d.asked,
        r"devices?-(held|in-use)|holder-|devices-taken",
        r"vault/secret-|secret-\S+",
        [ended(f"secret-{d.at}")],
        says=[r"in use|has it|held"],
        hidden=[r"secret-", r"vault"],
        never=[r"relax", r"drop"],
    )


@planted("holders: the pod has ended", PLAIN, FLEET)
def the_holder_has_ended(d: Dress) -> Planted:
    ended_ = [
        {**obj, "status": {"phase": "Succeeded"}} if obj["kind"] == "Pod" else obj for obj in everywhere(d, "done")
    ]
    return Planted(
        [*d.fleet(), *ended_, d.ask(), d.waiting()],
        d.asked,
        r"holder-",
        r"done-",
        [ended(f"done-{d.at}")],
        says=[r"ended|finished|Succeeded|completed|over"],
        never=[r"end pod", r"relax"],
    )


@planted("holders: the pod is terminating", PLAIN, FLEET)
def the_holder_is_terminating(d: Dress) -> Planted:
    going = {"deletionTimestamp": "2026-11-24T10:00:00Z", "deletionGracePeriodSeconds": 30}
    ending = [
        {**obj, "metadata": {**obj["metadata"], **going, "finalizers": ["example.net/drain"]}}
        if obj["kind"] == "Pod"
        else obj
        for obj in everywhere(d, "going")
    ]
    return Planted(
        [*d.fleet(), *ending, d.ask(), d.waiting()],
        d.asked,
        r"holder-",
        r"going-",
        [ended(f"going-{d.at}")],
        says=[r"terminating|being deleted|deletion"],
        never=[r"end pod", r"relax"],
    )


@planted("holders: the pod never existed", PLAIN, FLEET)
def the_holder_does_not_exist(d: Dress) -> Planted:
    return Planted(
        [*d.fleet(), *left(d, [("ghost", "uid-ghost")]), d.ask(), d.waiting()],
        d.asked,
        r"holder-",
        r"kept-",
        [gone(freed(d))],
        says=[r"ghost", r"does not exist|not exist|no such|not there|gone"],
        never=[r"end pod ghost", r"relax"],
    )


@planted("holders: an earlier pod of that name", PLAIN, PAIR)
def the_holder_is_an_earlier_pod_of_that_name(d: Dress) -> Planted:
    now = pod("worker-0", d.namespace, node=d.at)
    now["metadata"]["uid"] = "uid-of-now"
    return Planted(
        [*d.fleet(), now, *left(d, [("worker-0", "uid-of-then")]), d.ask(), d.waiting()],
        d.asked,
        r"holder-",
        r"kept-",
        [gone(freed(d))],
        says=[r"worker-0", r"earlier|uid|another pod of|former|older|previous|gone"],
        never=[r"end pod \S*worker-0", r"relax"],
    )


@planted("holders: the claim is being deleted", PLAIN, FLEET)
def the_claim_is_being_deleted(d: Dress) -> Planted:
    going = {"deletionTimestamp": "2026-11-24T10:00:00Z", "deletionGracePeriodSeconds": 0}
    return Planted(
        [*d.fleet(), *left(d, [("ghost", "uid-ghost")], **going), d.ask(), d.waiting()],
        d.asked,
        r"claim-deleting|holder-",
        r"kept-",
        [gone(freed(d))],
        says=[r"being deleted|deletion|deleted since"],
        never=[r"end pod ghost", r"relax"],
    )


@planted("holders: reserved for nobody", PLAIN, FLEET)
def reserved_for_nobody(d: Dress) -> Planted:
    return Planted(
        [*d.fleet(), *left(d, []), d.ask(), d.waiting()],
        d.asked,
        r"holder-|claim-",
        r"kept-",
        [gone(freed(d))],
        says=[r"nobody|no pod"],
        never=[r"end no pod", r"end pod", r"relax"],
    )


@planted("harm: the more important pod is not first", PLAIN, PAIR)
def of_two_holders_the_less_important_is_named(d: Dress) -> Planted:
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    ]
    half = d.count // 2
    busy = [
        obj
        for name in d.nodes
        for obj in (
            *d.held(f"boss-{name}", *d.names()[:half], node=name, priority=1000, priorityClassName="high"),
            *d.held(f"menial-{name}", *d.names()[half:], node=name, priority=0),
        )
    ]
    return Planted(
        [*classes, *d.fleet(), *busy, d.ask(), d.waiting()],
        d.asked,
        r"devices?-(held|in-use)|holder-|devices-taken",
        rf"{d.device}-\d|menial-",
        [ended(f"menial-{d.at}")],
        says=[r"in use|has it|held"],
        change=[r"menial-"],
        never=[r"end pod \S*boss", r"relax"],
    )


@planted("holders: too few are free", PLAIN, FLEET)
def some_are_in_use_and_too_few_are_left(d: Dress) -> Planted:
    busy = [obj for name in d.nodes for obj in d.held(f"user-{name}", *d.names()[:2], node=name)]
    return Planted(
        [*d.fleet(), *busy, d.ask(d.want(count=d.count - 1)), d.waiting()],
        d.asked,
        r"devices?-(held|in-use)|holder-|devices-taken|devices-short",
        rf"request {d.request}|{d.device}-\d",
        [ended(f"user-{d.at}")],
        says=[rf"\b{d.count - 1}\b", rf"\b{d.count - 2}\b"],
        never=[r"relax", r"drop"],
    )


@planted("devices: more than there are", PLAIN, FLEET)
def more_than_any_node_has(d: Dress) -> Planted:
    return Planted(
        [*d.fleet(), d.ask(d.want(count=d.count + 1)), d.waiting()],
        d.asked,
        r"devices-short",
        rf"request {d.request}",
        [d.asks("requests.0.exactly.count", d.count)],
        says=[rf"\b{d.count + 1}\b", rf"\b{d.count}\b"],
        change=[rf"\b{d.count} devices? instead of {d.count + 1}"],
        never=[r"relax", r"in use", r"together"],
    )
