"""Small worlds as values for hypothesis, and as the objects of a cluster: `WORLDS`, `objects`.

One to four nodes of one driver, whose devices have attributes, counters or shares; pods that run there, of several
namespaces, priorities and owners; and the pod that is asked about, by itself, beside replicas, or in a group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st

from tests.explain.planted.shapes import PLAIN, Obj, holder, node, pod, slice_of, taken

ASKED: Final = ("default", "train-0")
DRIVER: Final = PLAIN.driver
NODE_TAINT: Final = "example.com/blue"
DEVICE_TAINT: Final = "example.com/hot"
GATE: Final = "example.com/quota"
OWNER: Final = ("ReplicaSet", "train")
VALUES: Final = ("A100", "H100")
SELECTORS: Final = {
    "": "",
    "value": PLAIN.is_("A100"),
    "other": PLAIN.is_("H100"),
    "value-typo": PLAIN.is_("A10O"),
    "attribute-typo": PLAIN.is_("A100", "modell"),
}
_SHARE: Final = "5a4b1f9c-70a7-4b52-9c5b-6f9f3a0f6f2"
_RUNS: Final[dict[str, dict[str, Any]]] = {
    "mate": {},
    "tenant": {"namespace": "other"},
    "victim": {"priority": -10},
    "boss": {"priority": 100},
    "sibling": {"owner": OWNER},
    "daemon": {"owner": ("DaemonSet", "agent")},
    "gone": {},
}
"""Who runs; of one that is gone only the claim is left."""


@dataclass(frozen=True)
class Gpu:
    model: str
    numa: int | None
    is_tainted: bool
    holder: str
    """A row of `_RUNS`, "" where it is free; one pod of a kind has all of a node's that are so held."""


@dataclass(frozen=True)
class Host:
    cores: int
    used: int
    runs: str
    """Who runs there without devices, on the `used` cores."""
    is_cordoned: bool
    is_tainted: bool
    zone: str
    gpus: tuple[Gpu, ...]


@dataclass(frozen=True)
class Small:
    """A world; the pod asks for `counts` devices, a request each."""

    shape: str
    hosts: tuple[Host, ...]
    counts: tuple[int, ...]
    cores: int = 1
    selector: str = ""
    constraint: str = ""
    share: int = 40
    zone: str = ""
    is_template: bool = False
    is_gated: bool = False
    replicas: int = 0
    """Others of its owner that wait."""
    is_group: bool = False


GPUS: Final = st.builds(
    Gpu,
    st.sampled_from(("A100", "A100", "A100", "H100")),
    st.sampled_from((0, 0, 1, 1, None)),
    st.sampled_from((False, False, False, False, True)),
    st.sampled_from(("", "", "", "", "", *_RUNS)),
)
HOSTS: Final = st.builds(
    Host,
    st.sampled_from((4, 4, 4, 8, 2)),
    st.integers(0, 3),
    st.sampled_from(("mate", "tenant", "victim", "boss", "sibling", "daemon")),
    st.sampled_from((False,) * 7 + (True,)),
    st.sampled_from((False,) * 7 + (True,)),
    st.sampled_from(("a", "b", "")),
    st.sampled_from((2, 2, 2, 1, 3, 4, 0)).flatmap(lambda n: st.lists(GPUS, min_size=n, max_size=n)).map(tuple),
)
WORLDS: Final = st.builds(
    Small,
    st.sampled_from(("plain", "numa", "counters", "shares")),
    st.lists(HOSTS, min_size=1, max_size=4).map(tuple),
    st.sampled_from(((1,), (2,), (2,), (3,), (1, 1), (2, 1))),
    st.sampled_from((1, 1, 1, 2, 3, 6)),
    st.sampled_from(("",) * 6 + (*SELECTORS,)),
    st.sampled_from(("", "matchAttribute", "distinctAttribute")),
    st.sampled_from((20, 40, 90)),
    st.sampled_from(("",) * 8 + ("a", "c")),
    st.booleans(),
    st.sampled_from((False,) * 9 + (True,)),
    st.sampled_from((0, 0, 0, 1, 2)),
    st.sampled_from((False,) * 5 + (True,)),
)


def objects(world: Small) -> list[Obj]:
    """As files have them; the pods that run, and their claims, as a server does."""
    made = [PLAIN.klass()]
    for number, host in enumerate(world.hosts):
        made += _host(world, number, host)
    dress = PLAIN if not world.is_template else _TEMPLATED
    wants = [_want(world, place, count) for place, count in enumerate(world.counts)]
    constraints = [{world.constraint: f"{DRIVER}/numa"}] if world.constraint and world.shape == "numa" else []
    made.append(dress.ask(*wants, constraints=constraints))
    group = {"dra-scheduler/group": "crew", "dra-scheduler/group-min-count": "2"} if world.is_group else {}
    spec: dict[str, Any] = {"requests": {"cpu": str(world.cores)}, "is_template": world.is_template, "labels": group}
    if world.zone:
        spec["nodeSelector"] = {"zone": world.zone}
    spec["owner"] = OWNER
    gates = {"schedulingGates": [{"name": GATE}]} if world.is_gated else {}
    made.append(pod(ASKED[1], ASKED[0], (dress.claim,), **spec, **gates))
    for number in range(1, 2 if world.is_group else 1 + world.replicas):
        made.append(pod(f"train-{number}", ASKED[0], (dress.claim,), **spec))
    return made


def is_asking(obj: Obj) -> bool:
    """Whether it is the pod that is asked about, or waits beside it."""
    return obj["kind"] == "Pod" and "nodeName" not in obj["spec"]


def is_mate(obj: Obj) -> bool:
    """Whether it is a pod of the same owner or group."""
    return obj["kind"] == "Pod" and (is_asking(obj) or obj["metadata"]["name"].startswith("sibling"))


_TEMPLATED: Final = type(PLAIN)(**{**vars(PLAIN), "is_template": True})


def _want(world: Small, place: int, count: int) -> Obj:
    name = PLAIN.request if not place else f"more-{place}"
    wants = PLAIN.want(SELECTORS[world.selector], name=name, count=count, allocationMode="ExactCount")
    if world.shape == "shares":
        wants["exactly"]["capacity"] = {"requests": {"memory": f"{world.share}Gi"}}
    return wants


def _host(world: Small, number: int, host: Host) -> Iterator[Obj]:
    name = f"node-{number}"
    taints = {"taints": [{"key": NODE_TAINT, "effect": "NoSchedule"}]} if host.is_tainted else {}
    cordon = {"unschedulable": True} if host.is_cordoned else {}
    yield node(name, cpu=str(host.cores), labels={"zone": host.zone} if host.zone else {}, **taints, **cordon)
    if host.used:
        yield _running(f"{host.runs}-{number}", host.runs, name, min(host.used, host.cores))
    if not host.gpus:
        return
    sets = [
        {"name": f"set-{place}", "counters": {"memory": {"value": "80Gi"}}}
        for place in range(len(host.gpus) if world.shape == "counters" else 0)
    ]
    pool = {"resourceSliceCount": 2 if sets else 1}
    devices = [made for place, one in enumerate(host.gpus) for made in _devices(world, place, one)]
    yield slice_of(DRIVER, devices, name, pool=pool)
    if sets:
        yield slice_of(DRIVER, [], name, f"sets-{name}", pool, sharedCounters=sets)
    for who in dict.fromkeys(one.holder for one in host.gpus if one.holder):
        suffix = "-half-0" if world.shape == "counters" else ""
        has = [f"gpu-{place}{suffix}" for place, one in enumerate(host.gpus) if one.holder == who]
        yield from _holding(world, f"{who}-{number}{len(has)}", who, name, has)


def _devices(world: Small, place: int, gpu: Gpu) -> Iterator[Obj]:
    name = f"gpu-{place}"
    made = PLAIN.one(name, {"model": {"string": gpu.model}})
    if gpu.numa is not None and world.shape == "numa":
        made["attributes"]["numa"] = {"int": gpu.numa}
    if gpu.is_tainted:
        made["taints"] = [{"key": DEVICE_TAINT, "effect": "NoSchedule"}]
    if world.shape == "shares":
        made["allowMultipleAllocations"] = True
        made["capacity"]["memory"]["requestPolicy"] = {"default": "1Gi"}
    if world.shape != "counters":
        yield made
        return
    for suffix, memory in (("", "80Gi"), ("-half-0", "40Gi"), ("-half-1", "40Gi")):
        uses = [{"counterSet": f"set-{place}", "counters": {"memory": {"value": memory}}}]
        yield {**made, "name": name + suffix, "consumesCounters": uses}


def _holding(world: Small, who: str, kind: str, where: str, devices: list[str]) -> Iterator[Obj]:
    result: Obj = {}
    if world.shape == "shares":
        result = {"shareID": f"{_SHARE}{where[-1]}", "consumedCapacity": {"memory": "50Gi"}}
    row = {"namespace": "default", **_RUNS[kind]}
    namespace = row.pop("namespace")
    if kind == "gone":
        users = [(who, f"uid-{who}")]
        yield taken(namespace, f"{who}-claim", PLAIN.cls, DRIVER, where, devices, where, users, **result)
        return
    yield from holder(namespace, who, PLAIN.cls, DRIVER, where, devices, where, result=result, requests=_LITTLE, **row)


_LITTLE: Final = {"cpu": "0"}


def _running(name: str, kind: str, where: str, cores: int) -> Obj:
    row = {"namespace": "default", **_RUNS[kind]}
    return pod(name, row.pop("namespace"), node=where, requests={"cpu": str(cores)}, **row)
