"""What DynamicResources blames: the fact that ends the funnel, object first, and a change that lets the pod in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from allocator import Features
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import COMMAND, EVENT, Limits
from scheduler.offline import OfflineCluster, SourceObject, decide
from scheduler.offline.every_node import EveryNode
from scheduler.plugins.dynamic_resources import NAME
from scheduler.why.kinds import KINDS
from scheduler.why.reasons import TO_MAKE_IT_FIT, Reason
from scheduler.why.say import EVERYBODY, Reader
from tests.offline.causes import (
    COUNTERS,
    PARTITIONED,
    SHARED,
    Obj,
    allocated,
    claim,
    counted,
    device_class,
    gpu,
    node,
    pod,
    request,
    slice_,
)

NOW_MS = 1_800_000_000_000
DOMAIN = "device.attributes['gpu.example.com']"
HOT = {"key": "example.com/hot", "effect": "NoSchedule"}
SHARE = {"shareID": "5a4b1f9c-70a7-4b52-9c5b-6f9f3a0f6f21", "consumedCapacity": {"memory": "50Gi"}}


def blamed(objects: Sequence[Obj], limits: Limits = COMMAND, steps: int = 10**9) -> tuple[list[Reason], str, int]:
    """What the plugin blames, what the pod's event says, and the steps that it took."""
    cluster = OfflineCluster(NOW_MS)
    assert not cluster.load([SourceObject("", obj) for obj in objects]).problems
    answers = decide(cluster, features=Features(), budget_steps=10_000, reports_causes=True)
    verdict = next(one for one in answers.verdicts if one.pod[1] == "asked")
    assert verdict.outcome == "unschedulable"
    machine, said = answers.machine, [note for notes in answers.notes.values() for _, note in notes]
    asked = next(one for one in machine.store.pods.values() if one.metadata.name == "asked")
    runner, view = machine.runners[asked.spec.scheduler_name], EveryNode(machine, NOW_MS).view
    cycle = Cycle(asked, NOW_MS, steps)
    assert runner.pre_filter(cycle, view).status.is_success
    plugin: Any = runner.plugins[NAME]
    found = plugin.diagnose(cycle, list(view.node_infos.values()), view, limits)
    assert all(one.kind in KINDS for one in found)
    return list(found), " ".join(said), steps - cycle.steps_left


def numbered(count: int, **more: Any) -> list[Obj]:
    return [gpu(f"gpu-{number}", **more) for number in range(count)]


def with_numa(name: str, value: Any, key: str = "resource.kubernetes.io/numaNode", **more: Any) -> Obj:
    kind = "int" if isinstance(value, int) else "string"
    return gpu(name, attributes={key: {kind: value}, "model": {"string": "A100"}}, **more)


def uses(*claims: str, name: str = "runs") -> Obj:
    """A pod that runs with these claims."""
    made = {**pod(*claims, name=name, nodeName="node-1"), "status": {"phase": "Running"}}
    return {**made, "metadata": {**made["metadata"], "uid": f"uid-{name}", "resourceVersion": "1"}}


def matching(attribute: str, *requests: str, kind: str = "matchAttribute") -> Obj:
    return {kind: attribute, **({"requests": list(requests)} if requests else {})}


def world(*devices: Obj, **fields: Any) -> list[Obj]:
    return [node(), slice_(*devices, **fields), device_class(), pod("gpu")]


def two(*requests: Obj) -> list[Obj]:
    """Requests for gpus (which have a numaNode) and nics."""
    return [request(f"'{kind}' in {DOMAIN}") | {"name": name} for name, kind in requests]


NUMA = "resource.kubernetes.io/numaNode"
GPUS = [with_numa(f"gpu-{n}", n // 2) for n in range(6)]
PAIRS = [
    gpu(f"{kind}-{n}", attributes={"root": {"string": f"pci{n}"}, kind: {"bool": True}})
    for kind, present in (("gpu", range(4)), ("nic", (0, 2, 3, 7)))
    for n in present
]
PAIRED = [request(f"'{kind}' in {DOMAIN}") | {"name": f"{kind}-{n}"} for n in range(4) for kind in ("gpu", "nic")]
PAIRING = [matching("gpu.example.com/root", f"gpu-{n}", f"nic-{n}") for n in range(4)]
BIG_SMALL = {
    "name": "gpu",
    "firstAvailable": [
        {"name": "big", "deviceClassName": "gpu.example.com", "count": 2, "allocationMode": "ExactCount"},
        {
            "name": "small",
            "deviceClassName": "gpu.example.com",
            "selectors": [{"cel": {"expression": "false"}}],
            "count": 1,
            "allocationMode": "ExactCount",
        },
    ],
}
PROFILES = [
    gpu(
        name,
        attributes={"profile": {"string": profile}},
        consumesCounters=[{"counterSet": "all", "counters": {"memory": {"value": amount}}}],
    )
    for name, profile, amount in (("part-0", "big", "60Gi"), ("part-1", "big", "60Gi"), ("part-2", "small", "20Gi"))
]
PROFILED = [
    node(),
    slice_(*PROFILES, pool={"resourceSliceCount": 2}),
    slice_(name="counters", pool={"resourceSliceCount": 2}, sharedCounters=COUNTERS),
    device_class(),
    uses("theirs"),
    pod("gpu"),
]

RANGE = {"default": "10Gi", "validRange": {"min": "10Gi", "max": "40Gi"}}
RANGED = gpu("gpu-0", allowMultipleAllocations=True, capacity={"memory": {"value": "80Gi", "requestPolicy": RANGE}})

# Name, objects, kind, the cause, words of the change that the event says ("" for none).
ROWS: list[tuple[str, list[Obj], str, str, str]] = [
    (
        "operations: the node cannot skip them",
        [*world(gpu("gpu-0"), gpu("gpu-1"), skipNodeOperations=["*"]), claim(request())],
        "devices-short",
        "devices node-1/gpu-0, node-1/gpu-1 need a node that declares DRAOptionalNodeOperations "
        "(spec.skipNodeOperations of the ResourceSlice), and node node-1 does not",
        "",
    ),
    (
        "match: too few share a value",
        [*world(*GPUS), claim(request(count=4), constraints=[matching(NUMA)])],
        "constraint-unmet",
        f"request gpu: 4 devices with the same {NUMA} are needed; the most on node node-1 is 2 (value 0)",
        "ask for 2 devices instead of 4",
    ),
    (
        "match: enough share a value, and are in use",
        [
            *world(*GPUS),
            uses("theirs"),
            allocated(claim(request(count=3), name="theirs"), "gpu-0", "gpu-2", "gpu-4"),
            claim(request(count=2), constraints=[matching(NUMA)]),
        ],
        "constraint-unmet",
        f"request gpu: 2 devices with the same {NUMA} are needed; the most that are free on node node-1 is 1 (value 0)",
        "ask for 1 device instead of 2",
    ),
    (
        "match: no device has the attribute, another domain does",
        [
            *world(*[with_numa(f"gpu-{n}", n, "numaNode") for n in range(4)]),
            claim(request(count=2), constraints=[matching(NUMA)]),
        ],
        "constraint-attribute-missing",
        f"no device of request gpu on node node-1 has {NUMA}; 4 have gpu.example.com/numaNode",
        "",
    ),
    (
        "match: another name",
        [
            *world(*[with_numa(f"gpu-{n}", 1, "numa") for n in range(2)]),
            claim(request(count=2), constraints=[matching("gpu.example.com/numaa")]),
        ],
        "constraint-attribute-missing",
        "no device of request gpu on node node-1 has gpu.example.com/numaa; 2 have gpu.example.com/numa",
        "write gpu.example.com/numa instead of gpu.example.com/numaa in the constraint of ResourceClaim default/gpu",
    ),
    (
        "match: no value in common",
        [
            *world(with_numa("gpu-0", 0), gpu("nic-1", attributes={NUMA: {"int": 1}, "nic": {"bool": True}})),
            claim(*two(("a", "model"), ("b", "nic")), constraints=[matching(NUMA)]),
        ],
        "constraint-unmet",
        f"request a and request b: no {NUMA} on node node-1 has enough devices of each; 0 has 0 of 1 for request b",
        f"drop the constraint matchAttribute: {NUMA}",
    ),
    (
        "match: another type",
        [
            *world(with_numa("gpu-0", 1), gpu("nic-1", attributes={NUMA: {"string": "1"}, "nic": {"bool": True}})),
            claim(*two(("a", "model"), ("b", "nic")), constraints=[matching(NUMA)]),
        ],
        "constraint-unmet",
        f"{NUMA} is of type int for request a and string for request b: no values are equal",
        f"drop the constraint matchAttribute: {NUMA}",
    ),
    (
        "match: the device with the value in common is in use",
        [
            *world(
                with_numa("gpu-0", 0),
                *[gpu(f"nic-{n}", attributes={NUMA: {"int": n}, "nic": {"bool": True}}) for n in (0, 1)],
            ),
            uses("theirs"),
            allocated(claim(name="theirs"), "nic-0"),
            claim(*two(("a", "model"), ("b", "nic")), constraints=[matching(NUMA)]),
        ],
        "constraint-unmet",
        "device node-1/nic-0 is in use by pod default/runs (priority 0); without it request a and request b have no "
        f"{NUMA} in common",
        "end pod default/runs (priority 0)",
    ),
    (
        "match: pairs",
        [*world(*PAIRS), claim(*PAIRED, constraints=PAIRING)],
        "constraint-unmet",
        "gpu.example.com/root: at most 3 of 4 pairs with the same value on node node-1; device node-1/gpu-1 (pci1) has "
        "no device of request nic-0",
        "drop the constraint matchAttribute: gpu.example.com/root",
    ),
    (
        "distinct",
        [*world(*GPUS[:4]), claim(request(count=3), constraints=[matching(NUMA, kind="distinctAttribute")])],
        "constraint-unmet",
        f"request gpu: 3 devices with different {NUMA} are needed; node node-1 has 2 values (0, 1)",
        "ask for 2 devices instead of 3",
    ),
    (
        "partition blocked by another's",
        [*PARTITIONED, uses("theirs"), allocated(claim(name="theirs"), "part-0"), claim(), pod("gpu")],
        "partition-blocked",
        "counter set all has no room for device node-1/part-1 (memory 60Gi needed, 20Gi left): device node-1/part-0 of "
        "pod default/runs (priority 0) is in its place",
        "end pod default/runs (priority 0)",
    ),
    (
        "a smaller partition is free",
        [*PROFILED, allocated(claim(name="theirs"), "part-0"), claim(request(f"{DOMAIN}.profile == 'big'"))],
        "partition-blocked",
        "counter set all has no room for device node-1/part-1 (memory 60Gi needed, 20Gi left): device node-1/part-0 of "
        "pod default/runs (priority 0) is in its place",
        "write 'small' instead of 'big' in the selector of request gpu of ResourceClaim default/gpu",
    ),
    (
        "partitions that do not fit together",
        [*PARTITIONED, claim(request(count=2)), pod("gpu")],
        "counters-short",
        "request gpu: at most 1 of 2 devices fit together on node node-1; counter set all has memory 80Gi left",
        "ask for 1 device instead of 2",
    ),
    (
        "a partition larger than its set",
        [
            node(),
            slice_(counted("part-0", "90Gi"), pool={"resourceSliceCount": 2}),
            slice_(name="counters", pool={"resourceSliceCount": 2}, sharedCounters=COUNTERS),
            device_class(),
            claim(),
            pod("gpu"),
        ],
        "counters-short",
        "device node-1/part-0 takes 90Gi of counter memory, and counter set all has 80Gi",
        "",
    ),
    (
        "consumed capacity",
        [
            *world(SHARED),
            uses("theirs"),
            allocated(claim(name="theirs"), "gpu-0", **SHARE),
            claim(request(capacity={"requests": {"memory": "40Gi"}})),
        ],
        "capacity-short",
        "device node-1/gpu-0 has memory 30Gi left of 80Gi, request gpu takes 40Gi; pod default/runs (priority 0) has "
        "the rest",
        "ask for memory 30Gi instead of 40Gi",
    ),
    (
        "capacity that no device has",
        [*world(SHARED), claim(request(capacity={"requests": {"memory": "81Gi"}}))],
        "capacity-short",
        "device node-1/gpu-0 has memory 80Gi, and request gpu asks for 81Gi",
        "ask for memory 80Gi instead of 81Gi",
    ),
    (
        "an amount beyond the range that the driver gives",
        [*world(RANGED), claim(request(capacity={"requests": {"memory": "60Gi"}}))],
        "capacity-short",
        "device node-1/gpu-0: the driver's request policy does not allow memory 60Gi for request gpu; it allows 10Gi "
        "to 40Gi",
        "ask for memory 40Gi instead of 60Gi",
    ),
    (
        "capacity of another name",
        [*world(SHARED), claim(request(capacity={"requests": {"memmory": "8Gi"}}))],
        "capacity-short",
        "no device of request gpu has the capacity memmory; 1 have memory",
        "",
    ),
    (
        "in use, and others that its selector would not take",
        [
            *world(*numbered(3)),
            uses("theirs"),
            allocated(claim(request(count=2), name="theirs"), "gpu-0", "gpu-1"),
            claim(request(f"{DOMAIN}.index < 1")),
        ],
        "devices-in-use",
        "device node-1/gpu-0 is in use by ResourceClaim default/theirs (pod default/runs (priority 0))",
        "end pod default/runs (priority 0)",
    ),
    (
        "several in use",
        [
            *world(*numbered(3)),
            uses("theirs"),
            uses("others", name="also"),
            allocated(claim(name="theirs"), "gpu-0"),
            allocated(claim(name="others"), "gpu-1", users=["also"]),
            claim(request(count=3)),
        ],
        "devices-in-use",
        "devices node-1/gpu-0, node-1/gpu-1 are in use by pods default/also, default/runs (priority 0); request gpu "
        "asks for 3, and 1 is left",
        "ask for 1 device instead of 3",
    ),
    (
        "tainted",
        [*world(*numbered(2, taints=[HOT])), claim()],
        "device-tainted",
        "devices node-1/gpu-0, node-1/gpu-1 have the taint example.com/hot:NoSchedule, which request gpu does not "
        "tolerate",
        "add the toleration {key: example.com/hot, operator: Exists, effect: NoSchedule}",
    ),
    (
        "two taints",
        [*world(gpu(taints=[HOT, {**HOT, "key": "example.com/old"}])), claim()],
        "device-tainted",
        "device node-1/gpu-0 has the taint example.com/hot:NoSchedule (and 1 more taint), which request gpu does not "
        "tolerate",
        "example.com/old, operator: Exists",
    ),
    (
        "an amount of a capacity whose name is in brackets",
        [
            *world(gpu(capacity={"memory": {"value": "80Gi"}})),
            claim(request("device.capacity['gpu.example.com']['memory'].compareTo(quantity('100Gi')) >= 0")),
        ],
        "selector-unmet",
        "request gpu: gpu.example.com/memory is 80Gi, and no device of its class satisfies "
        "`device.capacity['gpu.example.c…pareTo(quantity('100Gi')) >= 0`",
        "quantity('80Gi')) >= 0",
    ),
    (
        "a list of alternatives",
        [*world(*numbered(2)), uses("theirs"), allocated(claim(name="theirs"), "gpu-0"), claim(BIG_SMALL)],
        "alternatives-unmet",
        "request gpu: no alternative fits on node node-1: big: 1 of 2 in use by pod default/runs (priority 0); "
        "small: 2 of 2 not matched by the request's selectors",
        "ask for 1 device instead of 2 in request gpu/big",
    ),
    (
        "a list of which all is taken",
        [
            *world(*numbered(2)),
            uses("theirs"),
            uses("others", name="also"),
            allocated(claim(name="theirs"), "gpu-0"),
            allocated(claim(name="others"), "gpu-1", users=["also"]),
            claim({"name": "gpu", "firstAvailable": [{**one, "selectors": []} for one in BIG_SMALL["firstAvailable"]]}),
        ],
        "alternatives-unmet",
        "request gpu: all 2 devices of its 2 alternatives are in use by pods default/also, default/runs (priority 0)",
        "end pod default/also (priority 0)",
    ),
    (
        "two claims, one device",
        [node(), slice_(gpu()), device_class(), claim(), claim(name="other"), pod("gpu", "other")],
        "own-claims-compete",
        "device node-1/gpu-0 is the only one on node node-1 for request gpu of ResourceClaim default/gpu and request "
        "gpu of ResourceClaim default/other, which need 2",
        "",
    ),
    (
        "two requests, and a device for one of them is in use",
        [
            *world(*numbered(2)),
            uses("theirs"),
            allocated(claim(name="theirs"), "gpu-1"),
            claim(*two(("a", "model"), ("b", "model"))),
        ],
        "devices-in-use",
        "device node-1/gpu-0 is the only free one on node node-1 for request a and request b, which need 2; pod "
        "default/runs (priority 0) has 1 more",
        "end pod default/runs (priority 0)",
    ),
    (
        "shares that do not fit together",
        [
            *world(SHARED),
            claim(*[request(capacity={"requests": {"memory": "50Gi"}}) | {"name": name} for name in "ab"]),
        ],
        "capacity-short",
        "device node-1/gpu-0 of node node-1 has too little capacity left for request a memory 50Gi, request b memory "
        "50Gi together",
        "ask for memory 30Gi instead of 50Gi in request a of ResourceClaim default/gpu",
    ),
    (
        "the pod's own other claim",
        [
            node(),
            slice_(gpu()),
            device_class(),
            allocated(claim(), "gpu-0", users=["asked"]),
            claim(name="other"),
            pod("gpu", "other"),
        ],
        "own-claims-compete",
        "device node-1/gpu-0: ResourceClaim default/gpu, which the pod uses too, has what request gpu asks for",
        "",
    ),
    (
        "all devices of the node, and one is in use",
        [
            *world(*numbered(2)),
            uses("theirs"),
            allocated(claim(name="theirs"), "gpu-0"),
            claim(request(allocationMode="All")),
        ],
        "devices-in-use",
        "device node-1/gpu-0 is in use by ResourceClaim default/theirs (pod default/runs (priority 0)); request gpu "
        "asks for all 2",
        "end pod default/runs (priority 0)",
    ),
    (
        "not as many are there, and of those that are some are tainted or in use",
        [
            *world(*numbered(7), gpu("gpu-7", taints=[HOT])),
            uses("theirs"),
            allocated(claim(name="theirs"), "gpu-0"),
            claim(request(count=9)),
        ],
        "devices-short",
        "node node-1 has 6 devices left for request gpu (8 would do, 1 is tainted, 1 in use); it asks for 9",
        "ask for 6 devices instead of 9",
    ),
    (
        "not as many are there",
        [*world(*numbered(2)), claim(request(count=3))],
        "devices-short",
        "node node-1 has 2 devices that would do for request gpu, which asks for 3",
        "ask for 2 devices instead of 3",
    ),
]


@pytest.mark.parametrize(
    ("objects", "kind", "cause", "change"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_the_cause_is_the_fact_that_ends_the_funnel(objects, kind, cause, change) -> None:
    found, said, _ = blamed(objects)
    assert (found[0].text(EVERYBODY), found[0].kind) == (cause, kind)
    assert len(cause) <= 170
    made = said.partition(TO_MAKE_IT_FIT)[2]
    assert change in made
    assert bool(made) == bool(change) or not change
    assert "relax the class" not in said


HALVES = [
    gpu(
        f"half-{set_}{place}",
        consumesCounters=[{"counterSet": f"set-{set_}", "counters": {"memory": {"value": "40Gi"}}}],
    )
    for set_ in range(3)
    for place in range(2)
]
SETS = [{"name": f"set-{place}", "counters": {"memory": {"value": "64Gi"}}} for place in range(3)]

# Name, objects, what the event says as its first line with its kind.
SAID: list[tuple[str, list[Obj], str]] = [
    (
        "devices of a claim whose pod is gone are not said to be another pod's",
        [
            *world(*numbered(4)),
            uses("theirs"),
            allocated(claim(name="theirs"), "gpu-0"),
            allocated(claim(name="left"), "gpu-1", users=["gone"]),
            claim(request(count=4)),
        ],
        "[devices-in-use] device node-1/gpu-0 is in use by ResourceClaim default/theirs (pod default/runs (priority "
        "0)); request gpu asks for 4, and 2 are left",
    ),
    (
        "a partition that is blocked by a claim that no pod uses",
        [
            node(),
            slice_(*HALVES[:4], pool={"resourceSliceCount": 2}),
            slice_(name="counters", pool={"resourceSliceCount": 2}, sharedCounters=SETS),
            device_class(),
            allocated(claim(name="left"), "half-00", users=["gone"]),
            claim(request(count=4)),
            pod("gpu"),
        ],
        "[devices-short] node node-1 can give request gpu 1 device; it asks for 4",
    ),
    (
        "several counter sets that each suffice for one of their two partitions",
        [
            node(),
            slice_(*HALVES, pool={"resourceSliceCount": 2}),
            slice_(name="counters", pool={"resourceSliceCount": 2}, sharedCounters=SETS),
            device_class(),
            claim(request(count=4)),
            pod("gpu"),
        ],
        "[counters-short] request gpu: at most 3 of 4 devices fit together on node node-1; counter set set-0 has "
        "memory 64Gi left, and 2 more are short, too",
    ),
]


HALF_HOT = [
    *world(*numbered(7), gpu("gpu-7", taints=[HOT])),
    uses("theirs"),
    allocated(claim(request(count=3), name="theirs"), "gpu-0", "gpu-1", "gpu-2"),
]


def test_what_has_to_be_lifted_together_is_all_named() -> None:
    """One of eight has a taint, and three are in use: neither change alone leaves eight."""
    found, said, _ = blamed([*HALF_HOT, claim(request(count=8))])
    assert [one.kind for one in found] == ["device-tainted", "devices-in-use"]
    assert "gpu-7 has the taint example.com/hot:NoSchedule, which request gpu does not tolerate; " in said
    assert "; request gpu asks for 8, 3 more are in use, and 4 are left; to make it fit: " in said
    assert said.endswith("ask for 4 devices instead of 8 in request gpu of ResourceClaim default/gpu")

    _, said, _ = blamed([*HALF_HOT, claim(request(allocationMode="All"))])
    assert "[device-tainted] device node-1/gpu-7 has the taint example.com/hot:NoSchedule" in said
    assert "; and then devices node-1/gpu-0, node-1/gpu-1, node-1/gpu-2 are in use by pod default/runs" in said
    assert "add the toleration" in said
    assert "; then free devices node-1/gpu-0, node-1/gpu-1, node-1/gpu-2: end pod default/runs" in said


def test_the_numbers_of_a_reason_and_of_its_fix_are_the_same() -> None:
    """Also where less fits together than is left; events and the command offer the same."""
    world_ = [*HALF_HOT, claim(request(count=8))]
    for limits in (EVENT, COMMAND):
        for objects in (world_, [*PARTITIONED, claim(request(count=2)), pod("gpu")]):
            fewer = [
                (fix.fields["count"], (fix.reason or reason).text(EVERYBODY))
                for reason in blamed(objects, limits)[0]
                for fix in reason.fixes
                if fix.kind == "ask-for-fewer"
            ]
            assert fewer
            assert all(f"{count} " in text and "node-1" in text for count, text in fewer)
    counts = [
        [fix.fields["count"] for fix in blamed(world_, limits)[0][0].fixes if fix.kind == "ask-for-fewer"]
        for limits in (EVENT, COMMAND)
    ]
    assert counts[0] == [4, 3, 2, 1]
    assert counts[1][: len(counts[0])] == counts[0]


def test_that_none_fit_together_is_said_of_the_constraint_or_the_counter() -> None:
    """A set pays for one of its two halves: any two would do, and two of one parent do not."""
    halves = [{**one, "attributes": {"parent": {"string": one["name"][5]}}} for one in HALVES[:4]]
    objects = [
        node(),
        slice_(*halves, pool={"resourceSliceCount": 2}),
        slice_(name="counters", pool={"resourceSliceCount": 2}, sharedCounters=SETS),
        device_class(),
        pod("gpu"),
    ]
    parent = matching("gpu.example.com/parent")
    (reason,), said, _ = blamed([*objects, claim(request(count=2), constraints=[parent])])
    cause = (
        "request gpu: 2 devices with the same gpu.example.com/parent do not fit together on node node-1; the most with "
        "one value is 2 (0)"
    )
    assert reason.text(EVERYBODY) == cause
    assert f"[constraint-unmet] {cause}; 1 of 4 fits together; to make it fit: ask for 1 device instead of 2" in said
    drops = [fix for fix in reason.fixes if fix.kind == "drop-constraint"]
    assert [fix.reason.text(EVERYBODY) for fix in drops] == [cause]


def owned(pod_: Obj, of: str = "web", revision: str = "5d4f8") -> Obj:
    """A pod of a Deployment."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{of}-{revision}", "uid": f"{of}-{revision}"}
    owner |= {"controller": True}
    labels = {"pod-template-hash": revision}
    return {**pod_, "metadata": {**pod_["metadata"], "ownerReferences": [owner], "labels": labels}}


def test_no_fix_ends_a_pod_of_the_same_controller() -> None:
    """Of replicas that have no room for each other none is to be ended for another."""
    devices = [node(), slice_(*numbered(2)), device_class()]
    taken = [allocated(claim(name="theirs"), "gpu-0"), allocated(claim(name="others"), "gpu-1", users=["also"])]
    replicas = [owned(uses("theirs")), owned(uses("others", name="also"))]
    (reason,), said, _ = blamed([*devices, *taken, *replicas, claim(), owned(pod("gpu"))])
    assert reason.text(EVERYBODY) == (
        "devices node-1/gpu-0 and 1 more are in use by pods default/also, default/runs (priority 0) of the same "
        "deployment default/web"
    )
    assert "end pod" not in said

    _, said, _ = blamed([*devices, *taken, replicas[0], uses("others", name="also"), claim(), owned(pod("gpu"))])
    assert "end pod default/also" in said
    _, said, _ = blamed([*devices, *taken, *replicas, claim(), owned(pod("gpu"), "another")])
    assert "end pod default/also" in said


def test_pods_of_an_older_revision_are_siblings_and_a_rollout_needs_a_spare_device() -> None:
    taken = [allocated(claim(name="theirs"), "gpu-0"), owned(uses("theirs"))]
    asked = owned(pod("gpu"), revision="7c6b9")
    (reason,), said, _ = blamed([node(), slice_(*numbered(1)), device_class(), *taken, claim(), asked])
    assert reason.text(EVERYBODY) == (
        "a rollout of deployment default/web needs a spare device, or maxSurge 0: device node-1/gpu-0 is in use by pod "
        "default/runs (priority 0) of another revision"
    )
    assert "end pod" not in said


@pytest.mark.parametrize(("objects", "line"), [row[1:] for row in SAID], ids=[row[0] for row in SAID])
def test_what_is_said_first_is_true_of_all_that_it_names(objects, line) -> None:
    _, said, _ = blamed(objects)
    assert line == said.partition("Cause: ")[2].partition(TO_MAKE_IT_FIT)[0]


def test_what_others_run_is_named_to_who_reads_all_objects_alone() -> None:
    secret = uses("secret", name="secret")
    secret["metadata"]["namespace"] = "hidden"
    theirs = allocated(claim(name="secret", namespace="hidden"), "part-0", users=["secret"])
    for objects in ([*PARTITIONED, secret, theirs, claim(), pod("gpu")],):
        (event, *_), (command, *_) = blamed(objects, EVENT)[0], blamed(objects)[0]
        texts = " ".join([event.text(Reader("default")), *(fix.text(Reader("default")) for fix in event.fixes)])
        assert "secret" not in texts
        assert "hidden" not in texts
        assert "pod hidden/secret" in command.text(EVERYBODY)


def test_devices_in_the_way_stand_in_the_order_of_their_names() -> None:
    """What a pool's ledger holds is a set of names, whose order differs from process to process."""
    names = [f"part-{number}" for number in range(6)]
    pool = {"resourceSliceCount": 2}
    parts = slice_(*[counted(name, "10Gi") for name in names], counted("whole-9", "80Gi"), pool=pool)
    counters = slice_(name="counters", pool=pool, sharedCounters=COUNTERS)
    theirs = allocated(claim(name="theirs"), *names, users=[])
    wants = claim(request("device.attributes['gpu.example.com'].index == 9"))
    (stale, *_), _, _ = blamed([node(), parts, counters, device_class(), theirs, wants, pod("gpu")])

    assert stale.fields["devices"] == tuple([f"node-1/{name}" for name in names])


def test_steps_are_bounded_by_what_is_looked_at() -> None:
    """10,000 devices, lists of 8 alternatives, 500 partitions: an event has no time for them, a command has."""
    many = [with_numa(f"gpu-{n}", n) for n in range(10_000)]
    slices = [
        slice_(*many[at : at + 100], name=f"s-{at}", pool={"resourceSliceCount": 100}) for at in range(0, 10_000, 100)
    ]
    subs = [{**one, "name": f"sub-{n}"} for n in range(8) for one in BIG_SMALL["firstAvailable"][:1]]
    lists = [{"name": f"r{n}", "firstAvailable": subs} for n in range(4)]
    objects = [node(), *slices, device_class(), claim(*lists, constraints=[matching(NUMA)]), pod("gpu")]
    found, _, steps = blamed(objects, EVENT, steps=5_000)
    assert found == []
    assert steps < 20_000
    found, _, steps = blamed(objects)
    assert found[0].kind in ("alternatives-unmet", "constraint-unmet")
    assert steps < 10_000 * 2 * (32 + 2) + 200_000

    parts = [counted(f"part-{n}", "60Gi") for n in range(400)]
    slices = [slice_(*parts[at : at + 64], name=f"s-{at}", pool={"resourceSliceCount": 8}) for at in range(0, 400, 64)]
    counters = slice_(name="counters", pool={"resourceSliceCount": 8}, sharedCounters=COUNTERS)
    objects = [
        node(),
        *slices,
        counters,
        device_class(),
        uses("theirs"),
        allocated(claim(name="theirs"), "part-0"),
        claim(),
        pod("gpu"),
    ]
    found, said, steps = blamed(objects, EVENT, steps=5_000)
    assert found[0].kind == "partition-blocked"
    assert steps < 5_000
    assert "end pod default/runs" in said
