"""In small worlds each cause that is told is a true statement about the objects, and removing it changes what is told.

The worlds have constraints, counters, shared capacity, taints, older generations and groups, one or more of them at a
time; who judges the text is `cause_checks`, which knows nothing of the scheduler.
"""

from __future__ import annotations

import copy
import random
import re
from collections import Counter
from typing import Any, Final

import pytest

from allocator import Features
from scheduler.framework.diagnosis import cause_of
from scheduler.offline import OfflineCluster, SourceObject, decide
from scheduler.why.reasons import TO_MAKE_IT_FIT
from tests.explain.cause_checks import CHECKERS, Facts, amount, first_of, named_devices, named_nodes, untrue
from tests.explain.planted.judging import NOW_MS, as_stored
from tests.explain.planted.shapes import PLAIN, Obj, holder, node, pod, slice_of

ASKED: Final = ("default", "train")
SEEDS: Final = range(60)
MANY: Final = range(60, 2_060)
DRIVER: Final = PLAIN.driver
HOT: Final = {"key": "example.com/hot", "effect": "NoSchedule"}
KIND: Final = re.compile(r"\[([a-z][a-z-]+)\] ")


def world(seed: int) -> list[Obj]:
    """One to three nodes, each with something that may keep the pod out, and a pod with a claim."""
    dice = random.Random(seed)
    kinds = ["plain", "numa", "counters", "shares"]
    shape = dice.choice(kinds)
    is_group = dice.random() < 0.15
    objects: list[Obj] = [PLAIN.klass()]
    for number in range(dice.randint(1, 3)):
        objects += _host(dice, f"node-{number}", shape)
    count = dice.randint(2, 3) if shape == "numa" else dice.randint(1, 4)
    wants = PLAIN.want(count=count, allocationMode="ExactCount")
    constraints = []
    if shape == "numa":
        which = dice.choice(("matchAttribute", "distinctAttribute"))
        constraints = [{which: f"{DRIVER}/{dice.choice(('numa', 'numa', 'numa', 'island'))}"}]
    if shape == "shares":
        wants["exactly"]["capacity"] = {"requests": {"memory": f"{dice.choice((20, 40, 60, 90))}Gi"}}
    if shape == "counters" and dice.random() < 0.6:
        profile = dice.choice(("whole", "half"))
        wants["exactly"]["selectors"] = [{"cel": {"expression": PLAIN.is_(profile, "profile")}}]
    labels = {"dra-scheduler/group": "crew", "dra-scheduler/group-min-count": "2"} if is_group else {}
    cpu = {"cpu": str(dice.randint(1, 4))}
    objects += [
        PLAIN.ask(wants, constraints=constraints),
        pod("train", "default", ("gpus",), requests=cpu, labels=labels),
    ]
    if is_group:
        objects += [PLAIN.ask(wants, name="more"), pod("mate", "default", ("more",), requests=cpu, labels=labels)]
    return objects


def _host(dice: random.Random, name: str, shape: str) -> list[Obj]:
    taints = {"taints": [{"key": "example.com/blue", "effect": "NoSchedule"}]} if dice.random() < 0.15 else {}
    cordon = {"unschedulable": True} if dice.random() < 0.15 else {}
    objects = [node(name, cpu=str(dice.randint(3, 6)), **taints, **cordon)]
    names = [f"gpu-{place}" for place in range(dice.randint(2, 6) if shape == "numa" else dice.randint(0, 4))]
    devices, sets = [], []
    for place, one in enumerate(names):
        made: Obj = PLAIN.one(one)
        if shape == "numa" and dice.random() < 0.9:
            made["attributes"]["numa"] = {"int": dice.randint(0, 2)}
        if shape == "shares":
            made |= {"allowMultipleAllocations": True}
            made["capacity"]["memory"]["requestPolicy"] = {"default": "1Gi"}
        if dice.random() < 0.15:
            made["taints"] = [HOT]
        devices.append(made)
        if shape == "counters":
            sets.append(
                {"name": f"set-{place}", "counters": {"memory": {"value": dice.choice(("80Gi", "80Gi", "64Gi"))}}}
            )
            devices.pop()
            for suffix, profile, memory in (
                ("", "whole", "80Gi"),
                ("-half-0", "half", "40Gi"),
                ("-half-1", "half", "40Gi"),
            ):
                uses = [{"counterSet": f"set-{place}", "counters": {"memory": {"value": memory}}}]
                devices.append(PLAIN.one(one + suffix, {"profile": {"string": profile}}, consumesCounters=uses))
    if not names:
        return objects
    pool = {"resourceSliceCount": 2 if sets else 1}
    objects.append(slice_of(DRIVER, devices, name, pool=pool))
    if sets:
        objects.append(slice_of(DRIVER, [], name, f"sets-{name}", pool, sharedCounters=sets))
    elif dice.random() < 0.1:
        objects.append(slice_of(DRIVER, [], name, f"newer-{name}", {"generation": 2}))
    for place, one in enumerate(names):
        if dice.random() < 0.3:
            device = one + ("-half-0" if shape == "counters" else "")
            share: Any = {}
            if shape == "shares":
                share = {
                    "shareID": f"5a4b1f9c-70a7-4b52-9c5b-6f9f3a0f6f2{place}",
                    "consumedCapacity": {"memory": "50Gi"},
                }
            number = f"{name[-1]}{place}"
            held = holder("default", f"user-{number}", PLAIN.cls, DRIVER, name, [device], name, result=share)
            objects += held[:1] if dice.random() < 0.2 else held  # a claim whose pod is not there
    return objects


def told(objects: list[Obj]) -> tuple[str, str]:
    """Kind and cause that the pod is told, "" for none; the first of several."""
    cluster = OfflineCluster(NOW_MS)
    cluster.load([SourceObject("", obj) for obj in objects])
    answers = decide(cluster, features=Features(), budget_steps=200_000, asked={ASKED}, reports_causes=True)
    verdict = next(one for one in answers.verdicts if one.pod == ASKED)
    cause = cause_of(verdict.reason).partition(TO_MAKE_IT_FIT)[0]
    found = KIND.match(cause)
    first = KIND.sub("", cause, count=1).partition("; and then ")[0]
    return (found[1], first) if found else ("", first)


def without(objects: list[Obj], kind: str, cause: str) -> list[Obj] | None:
    """The objects if the cause were not so; None where nobody could say which they would be."""
    left = copy.deepcopy(objects)
    nodes, devices = named_nodes(first_of(cause)), named_devices(cause)
    by_name = {(obj["kind"], obj["metadata"]["name"]): obj for obj in left}
    match kind:
        case "node-cordoned":
            for name in nodes:
                by_name["Node", name]["spec"].pop("unschedulable", None)
        case "node-tainted":
            for name in nodes:
                by_name["Node", name]["spec"].pop("taints", None)
        case "device-tainted":
            for obj in left:
                for one in obj["spec"].get("devices", ()) if obj["kind"] == "ResourceSlice" else ():
                    if (obj["spec"]["pool"]["name"], one["name"]) in devices:
                        one.pop("taints", None)
        case "devices-in-use" | "partition-blocked":
            facts = Facts(left, ASKED)
            users = {user for key in devices for user in _users(facts, key)}
            return [obj for obj in left if obj["metadata"]["name"].removesuffix("-claim") not in users]
        case "resources-short":
            for name in nodes:
                by_name["Node", name]["status"]["allocatable"]["cpu"] = "64"
        case "constraint-unmet" | "constraint-attribute-missing":
            by_name["ResourceClaim", "gpus"]["spec"]["devices"].pop("constraints")
        case _:
            return None
    return left


def _users(facts: Facts, key: tuple[str, str]) -> list[str]:
    claims = facts.devices[key].holders if key in facts.devices else []
    return [user["name"] for claim in claims for user in claim["status"].get("reservedFor", ())]


def judged(seed: int) -> str:
    """The kind that was told; what is told is true, and no longer told once it is not so."""
    objects = as_stored(world(seed))
    kind, cause = told(objects)
    if not cause:
        return ""
    wrong = untrue(objects, ASKED, kind, cause)
    assert wrong == [], f"world {seed}: [{kind}] {cause}: {wrong}"
    changed = without(objects, kind, cause)
    if changed is not None:
        assert told(changed) != (kind, cause), f"world {seed}: still told after it is not so: [{kind}] {cause}"
    return kind


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_told_is_true_of_a_small_world(seed: int) -> None:
    judged(seed)


@pytest.mark.slow
@pytest.mark.nightly
def test_what_is_told_is_true_of_thousands_of_small_worlds() -> None:
    kinds = Counter(map(judged, MANY))

    assert len(set(kinds) & set(CHECKERS)) >= 9, kinds


# --- the checkers themselves ----------------------------------------------------------------------------------------

CORDONED: Final = [
    PLAIN.klass(),
    node("node-1", unschedulable=True),
    PLAIN.slice(PLAIN.all()),
    PLAIN.ask(),
    PLAIN.waiting(),
]
HELD: Final = [node("node-1"), PLAIN.slice(PLAIN.all()), *PLAIN.held("user-1", "gpu-0"), PLAIN.ask(), PLAIN.waiting()]
NUMA: Final = [
    node("node-1"),
    PLAIN.slice([PLAIN.one(f"gpu-{place}", {"numa": {"int": place // 2}}) for place in range(4)]),
    PLAIN.ask(PLAIN.want(count=3), constraints=[{"matchAttribute": f"{DRIVER}/numa"}]),
    PLAIN.waiting(),
]
LIES: Final = [
    (CORDONED, "node-cordoned", "node node-1 is cordoned", 0),
    (CORDONED, "node-cordoned", "node node-2 is cordoned", 1),
    (HELD, "node-cordoned", "node node-1 is cordoned", 1),
    (HELD, "devices-in-use", "device node-1/gpu-0 is in use by pod default/user-1 (priority 0)", 0),
    (HELD, "devices-in-use", "device node-1/gpu-1 is in use by pod default/user-1 (priority 0)", 1),
    (HELD, "devices-in-use", "device node-1/gpu-0 is in use by pod default/other-1 (priority 0)", 2),
    (HELD, "resources-short", "node node-1 has 15900m cpu free, and pod default/train asks for 100m", 1),
    (HELD, "resources-short", "node node-1 has 5 cpu free, and pod default/train asks for 6", 3),
    (NUMA, "constraint-unmet", f"request gpu: 3 devices with the same {DRIVER}/numa; the most on node node-1 is 2", 0),
    (NUMA, "constraint-unmet", f"request gpu: 3 devices with the same {DRIVER}/numa; the most on node node-1 is 1", 1),
    (NUMA, "constraint-attribute-missing", f"no device of request gpu on node node-1 has {DRIVER}/numa", 1),
    (NUMA, "devices-short", "node node-1 has 4 devices that would do for request gpu, which asks for 3", 1),
]


@pytest.mark.parametrize(("objects", "kind", "cause", "count"), LIES)
def test_a_checker_finds_what_is_false(objects: list[Obj], kind: str, cause: str, count: int) -> None:
    assert len(untrue(objects, ASKED, kind, cause)) == count, untrue(objects, ASKED, kind, cause)


def test_amounts_are_exact() -> None:
    assert (amount("100m") * 10, amount("1Gi")) == (amount("1"), 2**30)
