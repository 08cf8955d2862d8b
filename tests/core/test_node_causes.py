"""What keeps a pod from nodes, as its condition says it: one true fact, the object first; and what lets the pod in."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import pytest

from scheduler.framework.diagnosis import cause_of
from scheduler.model.objects import Pod
from scheduler.plugins import default_plugins
from scheduler.why.reasons import TO_MAKE_IT_FIT
from tests import builders
from tests.core.rig import Rig

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ZONES = {"a-0": {"labels": {"zone": "a"}}, "a-1": {"labels": {"zone": "a"}}, "c-0": {"labels": {"zone": "c"}}}
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}


class Case(NamedTuple):
    """Nodes by name, running pods with theirs, the pod; the cause without its kind, and the change."""

    name: str
    nodes: dict[str, dict[str, Any]]
    pod: dict[str, Any]
    kind: str
    cause: str
    change: str = ""
    running: tuple[dict[str, Any], ...] = ()


def terms(*terms_: list[dict[str, Any]]) -> dict[str, Any]:
    selector = {"nodeSelectorTerms": [{"matchExpressions": one} for one in terms_]}
    return {"affinity": {"nodeAffinity": {REQUIRED: selector}}}


def port(*numbers: int, ip: str = "") -> dict[str, Any]:
    ports = [{"containerPort": one, "hostPort": one, "hostIP": ip} for one in numbers]
    return {"containers": [{"name": "main", "image": "none", "ports": ports}]}


def rule(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)} if values else {"key": key, "operator": operator}


NAMED = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}
LABELS = [
    Case(
        "a value that no node has",
        ZONES,
        {"nodeSelector": {"zone": "b"}},
        "node-affinity-unmet",
        "no node has zone=b, which the nodeSelector of pod default/p asks for; there is a (2 nodes), c (1 node)",
        "write zone: a instead of b in the nodeSelector of pod default/p",
    ),
    Case(
        "a value that is written otherwise",
        {"n": {"labels": {"gpu.example.com/model": "H100"}}, "m": {"labels": {"gpu.example.com/model": "L4"}}},
        terms([rule("gpu.example.com/model", "In", "h100")]),
        "node-affinity-unmet",
        "no node has gpu.example.com/model=h100, which the nodeAffinity of pod default/p asks for; "
        "there is H100 (1 node), L4 (1 node)",
        "write gpu.example.com/model: H100 instead of h100 in the nodeAffinity of pod default/p",
    ),
    Case(
        "a label that is written otherwise",
        ZONES,
        {"nodeSelector": {"zonee": "a"}},
        "node-affinity-unmet",
        "no node has the label zonee, which the nodeSelector of pod default/p asks for (zonee=a); 3 nodes have zone",
        "write zone instead of zonee in the nodeSelector of pod default/p",
    ),
    Case(
        "a label of another domain",
        {"n": {"labels": {"nvidia.com/gpu.present": "true"}}},
        terms([rule("gpu.present", "Exists")]),
        "node-affinity-unmet",
        "no node has the label gpu.present, which the nodeAffinity of pod default/p asks for; "
        "1 node has nvidia.com/gpu.present",
        "write nvidia.com/gpu.present instead of gpu.present in the nodeAffinity of pod default/p",
    ),
    Case(
        "no such label at all",
        {"n": {}},
        {"nodeSelector": {"pool": "gpu"}},
        "node-affinity-unmet",
        "no node has the label pool, which the nodeSelector of pod default/p asks for (pool=gpu)",
        "drop pool: gpu from the nodeSelector of pod default/p",
    ),
    Case(
        "two labels, and each is on some node",
        {"m": {"labels": {"zone": "a", "pool": "cpu"}}, "n": {"labels": {"zone": "b", "pool": "gpu"}}},
        {"nodeSelector": {"zone": "a", "pool": "gpu"}},
        "node-affinity-unmet",
        "node m has pool=cpu; the nodeSelector of pod default/p asks for pool=gpu",
        "write pool: cpu instead of gpu in the nodeSelector of pod default/p",
    ),
    Case(
        "the nearest of several terms",
        {"n": {"labels": {"zone": "a", "gen": "4"}}},
        terms([rule("zone", "In", "b"), rule("gen", "Gt", "9")], [rule("zone", "In", "a"), rule("gen", "Gt", "5")]),
        "node-affinity-unmet",
        "no node has gen > 5, which the nodeAffinity of pod default/p asks for; there is 4 (1 node)",
        "relax the required nodeAffinity of pod default/p",
    ),
    Case(
        "a label that is ruled out",
        {"n": {"labels": {"spot": "yes"}}},
        terms([rule("spot", "DoesNotExist")]),
        "node-affinity-unmet",
        "node n has spot=yes; the nodeAffinity of pod default/p asks for no label spot",
        "relax the required nodeAffinity of pod default/p",
    ),
    Case(
        "a node by its name that is not there",
        {"n": {}},
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [NAMED]}}}},
        "node-affinity-unmet",
        "node gone, which the nodeAffinity of pod default/p names, does not exist",
    ),
    Case(
        "a pod of a job",
        {"n": {}},
        {"nodeSelector": {"pool": "gpu"}, "owner": JOB},
        "node-affinity-unmet",
        "no node has the label pool, which the nodeSelector of pod default/p asks for (pool=gpu)",
        "drop pool: gpu from the nodeSelector of job default/train",
    ),
]


HOT = {"key": "hot", "value": "true", "effect": "NoSchedule"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
OTHERS = [
    Case(
        "a taint",
        {"a": {"taints": (HOT,)}, "b": {"taints": (HOT,)}},
        {},
        "node-tainted",
        "nodes a, b have the taint hot=true:NoSchedule, which pod default/p does not tolerate",
        "add the toleration {key: hot, operator: Equal, effect: NoSchedule, value: true} to pod default/p",
    ),
    Case(
        "a taint that is tolerated with another value",
        {"a": {"taints": (HOT,)}},
        {"tolerations": [{"key": "hot", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}], "owner": JOB},
        "node-tainted",
        "node a has the taint hot=true:NoSchedule, which pod default/p does not tolerate (it tolerates "
        "hot=yes:NoSchedule)",
        "write the toleration {key: hot, operator: Equal, effect: NoSchedule, value: true} instead of "
        "hot=yes:NoSchedule in job default/train",
    ),
    Case(
        "two taints of one node, and one that says how another fares",
        {"a": {"taints": (HOT, {"key": "b", "effect": "NoExecute"})}, "z": {"taints": (NOT_READY,)}},
        {},
        "node-tainted",
        "node a has the taints hot=true:NoSchedule, b:NoExecute, which pod default/p does not tolerate",
        "add the tolerations {key: hot, operator: Equal, effect: NoSchedule, value: true}, "
        "{key: b, operator: Exists, effect: NoExecute} to pod default/p",
    ),
    Case(
        "a node that is not ready",
        {"a": {"taints": (NOT_READY,)}},
        {},
        "node-tainted",
        "node a has the taint node.kubernetes.io/not-ready:NoSchedule, which pod default/p does not tolerate",
        "bring node a back into order: kubectl describe node a says why",
    ),
    Case("a cordon", {"a": {"unschedulable": True}}, {}, "node-cordoned", "node a is cordoned", "kubectl uncordon a"),
    Case(
        "cordons",
        {name: {"unschedulable": True} for name in "abcd"},
        {},
        "node-cordoned",
        "nodes a, b, c and 1 more are cordoned",
        "kubectl uncordon a",
    ),
    Case(
        "a host port",
        {"a": {}},
        port(8080),
        "port-taken",
        "pod default/web (priority 0) has the host port 8080/TCP of node a, which pod default/p asks for",
        "ask for another host port, like 8082 instead of 8080, in pod default/p",
        ({"name": "web", "node": "a", **port(8080, 8081)},),
    ),
    Case(
        "a host port of another namespace's pod, on the node with fewest of them",
        {"a": {}, "b": {}},
        port(53),
        "port-taken",
        "a pod of another namespace (priority 0) has the host port 53/TCP of node b, which pod default/p asks for",
        "ask for another host port, like 54 instead of 53, in pod default/p",
        (
            {"name": "x", "node": "a", **port(53, ip="10.0.0.1")},
            {"name": "y", "node": "a", **port(53, ip="10.0.0.2")},
            {"name": "dns", "namespace": "kube-system", "node": "b", **port(53)},
        ),
    ),
]


ZONE_A = {"labels": {"zone": "a"}}
HOST = "kubernetes.io/hostname"
FULL = {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "1"}}


def pods(kind: str, key: str, **labels: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    return {"affinity": {kind: {REQUIRED: [term]}}}


def spread(key: str, **more: Any) -> dict[str, Any]:
    one = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", **more}
    return {
        "labels": {"app": "w"},
        "topologySpreadConstraints": [{**one, "labelSelector": {"matchLabels": {"app": "w"}}}],
    }


RELAX = "relax the required {} of pod default/p"
WEB = {"name": "web", "node": "a", "labels": {"app": "web"}}
PODS = [
    Case(
        "no pod of the kind at all",
        {"a": ZONE_A},
        pods("podAffinity", "zone", app="db"),
        "pod-affinity-unmet",
        "no pod with app=db in namespace default runs, beside which the podAffinity of pod default/p wants it "
        "(by zone)",
        RELAX.format("podAffinity"),
    ),
    Case(
        "pods of the kind in another zone, where there is no room",
        {"a": ZONE_A, "b": {"labels": {"zone": "b"}, **FULL}},
        pods("podAffinity", "zone", app="web"),
        "pod-affinity-unmet",
        "zone=a has no pod with app=web in namespace default, which the podAffinity of pod default/p asks for; "
        "1 run elsewhere",
        RELAX.format("podAffinity"),
        ({**WEB, "node": "b"},),
    ),
    Case(
        "a node without the label of the rule",
        {"a": {}, "b": {**ZONE_A, **FULL}},
        pods("podAffinity", "zone", app="web"),
        "pod-affinity-unmet",
        "node a has no label zone, by which the podAffinity of pod default/p looks for pods",
        RELAX.format("podAffinity"),
        ({**WEB, "node": "b"},),
    ),
    Case(
        "its own anti-affinity by host",
        {"a": {}},
        pods("podAntiAffinity", HOST, app="web"),
        "pod-affinity-unmet",
        f"{HOST}=a has 1 pod with app=web in namespace default, which the podAntiAffinity of pod default/p rules out",
        RELAX.format("podAntiAffinity"),
        (WEB,),
    ),
    Case(
        "its own anti-affinity by zone",
        {"a": ZONE_A, "b": ZONE_A},
        pods("podAntiAffinity", "zone", app="web"),
        "pod-affinity-unmet",
        "zone=a has 1 pod with app=web in namespace default, which the podAntiAffinity of pod default/p rules out",
        RELAX.format("podAntiAffinity"),
        (WEB,),
    ),
    Case(
        "a pod that wants to be alone",
        {"a": {}},
        {"labels": {"app": "p"}},
        "pod-affinity-unmet",
        "pod default/web (priority 0) on node a keeps pod default/p away by required podAntiAffinity",
        "end pod default/web (priority 0) on node a",
        ({**WEB, **pods("podAntiAffinity", HOST, app="p")},),
    ),
    Case(
        "too many of its kind in a zone",
        {"a": ZONE_A, "b": {"labels": {"zone": "b"}, **FULL}},
        spread("zone"),
        "spread-unmet",
        "zone=a has 1 pod that pod default/p is spread with, and another zone has 0; maxSkew is 1",
        "relax the topologySpreadConstraints of pod default/p",
        ({"name": "w", "node": "a", "labels": {"app": "w"}}, {"name": "x", "node": "b"}),
    ),
    Case(
        "fewer zones than it wants",
        {"a": ZONE_A},
        spread("zone", minDomains=3),
        "spread-unmet",
        "zone=a has 1 pod that pod default/p is spread with; minDomains is 3, and zone has 1 values",
        "relax the topologySpreadConstraints of pod default/p",
        ({"name": "w", "node": "a", "labels": {"app": "w"}},),
    ),
    Case(
        "a node without the label by which it is spread",
        {"a": {}},
        spread("zone"),
        "spread-unmet",
        "node a has no label zone, by which pod default/p is to be spread",
        "relax the topologySpreadConstraints of pod default/p",
    ),
]


def asking(**requests: str) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "none", "resources": {"requests": requests, "limits": requests}}]}


ONE_POD = {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "1"}}
ROOM = [
    Case(
        "too little cpu for the pod of a Job",
        {"a": {}},
        {**asking(cpu="9"), "owner": JOB},
        "resources-short",
        "node a has 8 cpu free, and pod default/p asks for 9",
        "ask for cpu 8 instead of 9 in container main of job default/train",
    ),
    Case(
        "too few of a resource whose limit is its request",
        {"a": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110", "example.com/npu": "4"}}},
        asking(**{"example.com/npu": "6"}),
        "resources-short",
        "node a has 4 example.com/npu free, and pod default/p asks for 6",
        "ask for example.com/npu 4 instead of 6 in container main of pod default/p (requests and limits)",
    ),
    Case(
        "too many pods",
        {"a": ONE_POD},
        {},
        "pods-full",
        "node a has room for 1 pods, and has 1",
        "end pod default/web (priority 0) on node a",
        ({"name": "web", "node": "a"},),
    ),
    Case(
        "no sibling is ended",
        {"a": ONE_POD},
        {"owner": JOB},
        "pods-full",
        "node a has room for 1 pods, and has 1",
        "",
        ({"name": "web", "node": "a", "owner": JOB},),
    ),
    Case(
        "too little cpu and memory",
        {"a": {}},
        asking(cpu="9", memory="64Gi"),
        "resources-short",
        "node a has 8 cpu, 32Gi memory free, and pod default/p asks for 9 cpu, 64Gi memory",
    ),
]
CHOSEN = {"a": {}, "b": ONE_POD}
CHOICES = [
    Case(
        "what is missing on the node that the pod chooses",
        CHOSEN,
        {"nodeSelector": {HOST: "b"}},
        "pods-full",
        "node b has room for 1 pods, and has 1",
        "end pod default/web (priority 0) on node b",
        ({"name": "web", "node": "b"},),
    ),
    Case(
        "the same by nodeAffinity",
        CHOSEN,
        terms([rule(HOST, "In", "b")]),
        "pods-full",
        "node b has room for 1 pods, and has 1",
        "end pod default/web (priority 0) on node b",
        ({"name": "web", "node": "b"},),
    ),
    Case(
        "a label that the chosen node lacks",
        {"a": {"labels": {"zone": "z"}}, "b": {}},
        {"nodeSelector": {HOST: "b", "zone": "z"}},
        "node-affinity-unmet",
        "node b has no label zone; the nodeSelector of pod default/p asks for zone=z",
        "drop zone: z from the nodeSelector of pod default/p",
    ),
    Case(
        "a node that the pod shuns is no choice",
        CHOSEN,
        terms([rule(HOST, "NotIn", "a")]),
        "node-affinity-unmet",
        f"node a has {HOST}=a; the nodeAffinity of pod default/p asks for {HOST} not in (a)",
        "relax the required nodeAffinity of pod default/p",
        ({"name": "web", "node": "b"},),
    ),
]


def owned(made: dict[str, Any], owner: dict[str, Any] | None) -> Pod:
    if owner is not None:
        made["metadata"]["ownerReferences"] = [owner]
    return msgspec.convert(made, Pod)


def told(case: Case) -> str:
    rig = Rig(*default_plugins(), reports_causes=True)
    for name, fields in case.nodes.items():
        rig.server.put_node(builders.node(name, **fields))
    for one in case.running:
        rest = {name: value for name, value in one.items() if name != "owner"}
        rig.server.put_pod(owned(builders.pod_object(**rest), one.get("owner")))
    rest = {name: value for name, value in case.pod.items() if name != "owner"}
    rig.server.put_pod(owned(builders.pod_object("p", **rest), case.pod.get("owner")))
    rig.settle()
    rig.wait(1_000)
    condition = rig.condition_of("p")
    assert condition is not None
    return cause_of(condition[1])


@pytest.mark.parametrize("case", [*LABELS, *OTHERS, *PODS, *ROOM, *CHOICES], ids=lambda case: case.name)
def test_the_cause_and_the_change(case: Case) -> None:
    assert told(case) == f"[{case.kind}] {case.cause}" + (f"{TO_MAKE_IT_FIT}{case.change}" if case.change else "")
    assert len(case.cause) <= 160


@pytest.mark.parametrize(
    ("key", "may"),
    [
        ("pool", True),
        ("kubernetes.io/arch", False),
        ("node.kubernetes.io/instance-type", False),
        ("topology.kubernetes.io/zone", False),
    ],
)
def test_labels_of_the_kubelet_or_the_cloud_are_never_to_be_set(key: str, may: bool) -> None:
    pod = {"nodeSelector": {key: "x"}, **terms([rule(key, "In", "x")])}
    assert ("kubectl label node" in told(Case("", {"n": {}}, pod, "", ""))) == may
