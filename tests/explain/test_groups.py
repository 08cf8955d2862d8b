"""A pod of a group is asked about with all of its group, as the scheduler places it."""

from __future__ import annotations

import pytest

from allocator import Features
from scheduler.explain import Explanation, explain_pod
from scheduler.offline import OfflineCluster, Reasons, SourceObject, decide
from tests.explain.law_worlds import Gpu, Host, Small, objects
from tests.offline.causes import Obj, device_class, gpu, node, pod, slice_, template

NOW_MS = 1_800_000_000_000
POD_GROUP = {
    "apiVersion": "scheduling.k8s.io/v1alpha2",
    "kind": "PodGroup",
    "metadata": {"name": "g", "namespace": "default"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
}
WORLD = [node(), slice_(gpu("gpu-0"), gpu("gpu-1")), device_class()]
DRESSINGS = ("labels", "PodGroup")


def told(name: str, *objects: Obj) -> Explanation:
    given = [SourceObject("file.yaml:1:1", obj) for obj in objects]
    return explain_pod(given, ("default", name), now_ms=NOW_MS, features=Features())


def group(dressing: str, *names: str, needed: int = 2, claims: bool = True, **more: Obj) -> list[Obj]:
    """Pods of one group, each with a claim of its own; of some other fields of the spec."""
    found: list[Obj] = [template()]
    if dressing == "PodGroup":
        policy = {"schedulingPolicy": {"gang": {"minCount": needed}}}
        found.append({**POD_GROUP, "spec": policy})
    for name in names:
        named = {"schedulingGroup": {"podGroupName": "g"}} if dressing == "PodGroup" else {}
        one = pod(*["template:gpu"] * claims, name=name, **named, **more.get(name, {}))
        if dressing == "labels":
            one["metadata"]["labels"] = {"dra-scheduler/group": "g", "dra-scheduler/group-min-count": str(needed)}
        found.append(one)
    return found


@pytest.mark.parametrize("dressing", DRESSINGS)
@pytest.mark.parametrize("asked", ["p0", "p1"])
def test_a_group_that_fits_is_said_to_fit(dressing: str, asked: str) -> None:
    answer = told(asked, *WORLD, *group(dressing, "p0", "p1"))
    assert answer.fits, answer.verdict
    assert not [note for note in answer.notes if "left out" in note]


@pytest.mark.parametrize("dressing", DRESSINGS)
def test_pods_that_are_not_there_are_waited_for_and_others_that_wait_are_left_out(dressing: str) -> None:
    stranger = pod("template:gpu", name="stranger")
    answer = told("p0", *WORLD, *group(dressing, "p0", "p1", needed=3), stranger)
    assert not answer.fits
    assert "waiting for 1 more pod of group default/g, 3 are needed" in answer.message
    assert [note for note in answer.notes if note.startswith("1 other pods wait")]


@pytest.mark.parametrize("dressing", DRESSINGS)
def test_a_bound_pod_of_a_group_waits_for_nobody(dressing: str) -> None:
    """Other nodes are asked about it without it: its group is there all the same."""
    nodes = {"p0": {"nodeName": "node-1"}, "p1": {"nodeName": "node-1"}}
    answer = told("p0", node(), *group(dressing, "p0", "p1", claims=False, **nodes))
    assert (answer.outcome, answer.node) == ("bound", "node-1")
    assert answer.advice == "it has no devices; it is the only node"


@pytest.mark.parametrize("dressing", DRESSINGS)
@pytest.mark.parametrize("asked", ["p0", "p1", "p2"])
def test_the_table_of_nodes_has_the_one_where_it_is_decided(dressing: str, asked: str) -> None:
    """Each of the three would fit on node-1 alone; `other` has no devices whoever asks."""
    answer = told(asked, *WORLD, node("other"), *group(dressing, "p0", "p1", "p2", needed=3))

    assert answer.kind == "group-unmet"
    devices = {name: text for one in answer.nodes for name in one.nodes for text in one.devices}
    assert sorted(name for one in answer.nodes for name in one.nodes) == ["node-1", "other"]
    assert "wants 1 of 2 devices: 2 in use; 0 left" in devices["node-1"]
    assert answer.funnels[0].node == "node-1"


def test_no_node_is_blamed_for_what_a_gate_decides() -> None:
    """`other` would refuse the pod, and node-1 would take it."""
    held = pod("template:gpu", name="held", schedulingGates=[{"name": "example.com/wait"}])
    cluster = OfflineCluster(NOW_MS)
    cluster.load([SourceObject("file.yaml:1:1", obj) for obj in (*WORLD, node("other"), template(), held)])
    answers = decide(cluster, features=Features(), budget_steps=200_000)

    assert Reasons(answers, budget_steps=200_000).of(answers.verdicts[0]) == []


ONE = (Gpu("A100", 0, False, ""),)
TWO = ONE * 2


@pytest.mark.parametrize(
    ("hosts", "change"),
    [
        ([("b", 0, TWO)], "write zone: b instead of a in"),
        ([("b", 0, TWO), ("a", 3, TWO)], "write zone: b instead of a in"),
        ([("b", 0, ONE), ("a", 3, TWO)], "drop zone: a from"),
    ],
    ids=["all-lack-a-place", "the-first-moves", "the-first-would-have-none"],
)
def test_a_template_is_edited_for_all_pods_of_the_group_that_it_makes(
    hosts: list[tuple[str, int, tuple[Gpu, ...]]], change: str
) -> None:
    made = tuple(Host(4, used, "mate", False, False, zone, gpus) for zone, used, gpus in hosts)
    answer = told("train-0", *objects(Small("plain", made, (1,), zone="a", is_template=True, is_group=True)))
    assert answer.advice.startswith(f"to make it fit: {change} the nodeSelector of replicaset default/train")
