"""Why nodes refuse: together where they say the same, and counted for a bounded number of nodes."""

from __future__ import annotations

import pytest

from allocator import Features
from scheduler.framework.cycle import UNLIMITED_STEPS
from scheduler.offline import OfflineCluster, Reasons, SourceObject, decide
from scheduler.offline.reasons import FUNNELS_OF_A_POD
from tests.offline.causes import claim, device_class, gpu, node, pod, request, slice_

NOW_MS = 1_800_000_000_000
NODES = 25


def test_devices_are_counted_on_the_first_nodes_only() -> None:
    cluster = OfflineCluster(NOW_MS)
    names = [f"node-{number:02}" for number in range(NODES)]
    objects = [node(name) for name in names] + [slice_(gpu(), where=name) for name in names]
    objects += [device_class(), claim(request("false")), pod("gpu"), pod("gpu", name="other")]
    assert not cluster.load([SourceObject("", obj) for obj in objects]).problems

    question = decide(cluster, features=Features(), budget_steps=1_000)
    reasons = Reasons(question, budget_steps=1_000)
    first, other = map(reasons.of, question.verdicts)

    assert [(len(one.nodes), bool(one.devices)) for one in first] == [
        (FUNNELS_OF_A_POD, True),
        (NODES - FUNNELS_OF_A_POD, False),
    ]
    assert first == other
    assert {one.reason for one in first} == {"cannot allocate all claims"}


COSTLY = (
    "[0, 1, 2, 3, 4, 5, 6, 7].all(a, [0, 1, 2, 3].all(b, a + b >= 0 && device.attributes['gpu.example.com'].n >= 0))"
)


@pytest.mark.parametrize("steps_max", [1, UNLIMITED_STEPS], ids=str)
def test_nodes_that_the_steps_do_not_suffice_for_are_told_as_not_looked_at(steps_max: int) -> None:
    """As many nodes as before, each of them once; and all that is said of those that were looked at stays the same."""
    cluster = OfflineCluster(NOW_MS)
    names = [f"node-{number:02}" for number in range(NODES)]
    slices = [slice_(gpu(attributes={"n": {"int": number}}), where=name) for number, name in enumerate(names)]
    wanted = claim(request(COSTLY, allocationMode="ExactCount", count=2))
    objects = [*map(node, names), *slices, device_class(), wanted, pod("gpu")]
    assert not cluster.load([SourceObject("", obj) for obj in objects]).problems
    question = decide(cluster, features=Features(), budget_steps=1_000)

    found = Reasons(question, budget_steps=1_000, steps_max=steps_max)
    told, counted = found.of(question.verdicts[0]), found.funnels(question.verdicts[0])

    unknown = {name for one in told if "not looked at" in one.reason for name in one.nodes}
    known = {name for one in told if one.reason == "cannot allocate all claims" for name in one.nodes}
    assert sorted([*unknown, *known]) == names
    assert bool(unknown) == (steps_max < UNLIMITED_STEPS)
    assert known
    assert sum(one.nodes for one in counted) == (NODES if steps_max == UNLIMITED_STEPS else 0)


def test_devices_on_nodes_that_other_plugins_refuse_are_no_help() -> None:
    """The tainted node has the most devices; the funnel ends with what the two others leave, and names the nearer."""
    cluster = OfflineCluster(NOW_MS)
    tainted = node("big", taints=[{"key": "example.com/closed", "effect": "NoSchedule"}])
    sizes = {"big": 8, "mid": 3, "small": 2}
    slices = [slice_(*(gpu(f"gpu-{at}") for at in range(size)), where=where) for where, size in sizes.items()]
    odd = gpu("gpu-9", attributes={"model": {"string": "T4"}})
    slices[0]["spec"]["devices"].append(odd)
    wanted = claim(request("device.attributes['gpu.example.com'].model == 'A100'", count=4))
    objects = [tainted, node("mid"), node("small"), *slices, device_class(), wanted, pod("gpu")]
    assert not cluster.load([SourceObject("", obj) for obj in objects]).problems
    question = decide(cluster, features=Features(), budget_steps=1_000)

    (funnel,) = Reasons(question, budget_steps=1_000).funnels(question.verdicts[0])

    assert [(step.stage, step.removed, step.left, step.ends) for step in funnel.steps] == [
        ("request-selector", 1, 13, False),
        ("closed-node", 8, 5, False),
    ]
    assert (funnel.published, funnel.nodes) == (14, 3)
    assert (funnel.node, funnel.node_published, funnel.node_left) == ("mid", 3, 3)


def test_where_every_node_is_closed_that_is_where_too_few_are_left() -> None:
    cluster = OfflineCluster(NOW_MS)
    tainted = node(taints=[{"key": "example.com/closed", "effect": "NoSchedule"}])
    assert not cluster.load(
        [SourceObject("", obj) for obj in (tainted, slice_(gpu()), device_class(), claim(request()), pod("gpu"))]
    ).problems
    question = decide(cluster, features=Features(), budget_steps=1_000)

    (funnel,) = Reasons(question, budget_steps=1_000).funnels(question.verdicts[0])

    assert [(step.stage, step.left, step.ends) for step in funnel.steps] == [("closed-node", 0, True)]


def test_nothing_is_told_of_nodes_where_none_was_asked() -> None:
    cluster = OfflineCluster(NOW_MS)
    cluster.load([SourceObject("", obj) for obj in (node(), device_class(), pod("missing"))])

    question = decide(cluster, features=Features(), budget_steps=1_000)

    assert 'could not find ResourceClaim "default/missing"' in question.verdicts[0].reason
    assert Reasons(question, budget_steps=1_000).of(question.verdicts[0]) == []


def test_objects_of_a_dump_with_values_of_a_wrong_type_are_told_and_break_nothing() -> None:
    broken = [
        {**pod("gpu", name="text"), "spec": "text"},
        {**claim(name="list"), "status": []},
        {**node("null"), "spec": {"taints": [None]}},
        {**claim(name="null"), "spec": {"devices": {"requests": [None]}}},
    ]
    given = [SourceObject("dump.yaml:1:1", obj) for obj in (node(), slice_(gpu()), device_class(), claim(), pod("gpu"))]
    for number, obj in enumerate(broken):
        metadata = {**obj["metadata"], "uid": f"uid-{number}", "resourceVersion": str(number + 1)}
        given.append(SourceObject(f"dump.yaml:{number + 2}:1", {**obj, "metadata": metadata}))
    cluster = OfflineCluster(NOW_MS)

    problems = cluster.load(given).problems
    question = decide(cluster, features=Features(), budget_steps=1_000)

    assert len(problems) == len(broken)
    assert {problem.place for problem in problems} == {f"dump.yaml:{number + 2}:1" for number in range(len(broken))}
    assert {verdict.pod[1]: verdict.outcome for verdict in question.verdicts} == {"asked": "fits", "text": "refused"}


def test_what_the_clusters_scheduler_said_is_not_taken_for_an_answer() -> None:
    old = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "old words"}
    ready = {"type": "PodReadyToStartContainers", "status": "False"}
    dumped = pod("gpu")
    dumped["metadata"] = {**dumped["metadata"], "uid": "uid-1", "resourceVersion": "7"}
    dumped["status"] = {"phase": "Pending", "conditions": [old, ready]}
    cluster = OfflineCluster(NOW_MS)

    assert not cluster.load([SourceObject("", dumped)]).problems

    assert [one["type"] for one in cluster.pods()[0]["status"]["conditions"]] == ["PodReadyToStartContainers"]
