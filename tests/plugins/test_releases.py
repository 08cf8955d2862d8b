"""What is said in another way since Kubernetes 1.37: PostFilter's sentences, and which plugin refuses a node first.

tests/oracle asks both releases of kube-scheduler about the same cases.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from allocator import Features
from scheduler.config.profile_config import ProfileConfig
from scheduler.plugins import DEFAULT_PROFILE, default_plugins
from tests.answers.verdicts import Cases
from tests.plugins.recorded_cases import PARTS, Case, ours

Obj = dict[str, Any]
BEHIND: Final = "0/1 nodes are available: 1 Insufficient cpu."
UNHELPFUL: Final = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."


def node(name: str, **spec: Any) -> Obj:
    return {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": {"cpu": "2", "pods": "9"}}}


def pod(name: str, cpu: str = "1", **spec: Any) -> Obj:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
    spec = {"schedulerName": "default-scheduler", "containers": containers, **spec}
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}, "spec": spec}


def case(name: str, nodes: list[Obj], pods: list[Obj], asked: Obj) -> Case:
    namespaces = [{"metadata": {"name": "default", "uid": "uid-default"}}]
    return {"name": name, "cluster": {"nodes": nodes, "namespaces": namespaces, "pods": pods}, "pod": asked}


SMALL: Final = [pod("low-0", nodeName="a", priority=1), pod("low-1", nodeName="a", priority=2)]
CASES: Final[dict[str, tuple[Case, str, str]]] = {
    one[0]["name"]: one
    for one in (
        (
            case("nobody can be removed", [node("a")], [pod("same", nodeName="a")], pod("p", "2")),
            f"{BEHIND} no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found "
            "for incoming pod.",
            f"{BEHIND} preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
        ),
        (
            case("one has to go", [node("a")], SMALL, pod("p", "1", priority=9)),
            BEHIND,
            f"{BEHIND} preemption: found a potential placement for pod on node a, preempting 1 victims",
        ),
        (
            case("two have to go", [node("a")], SMALL, pod("p", "2", priority=9)),
            BEHIND,
            f"{BEHIND} preemption: found a potential placement for pod on node a, preempting 2 victims",
        ),
        (
            case("two plugins refuse", [node("a", unschedulable=True), node("b")], [], pod("p", nodeName="c")),
            "0/2 nodes are available: 1 node(s) didn't match the requested node name, 1 node(s) were unschedulable.",
            "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [NodeName].",
        ),
        (
            case("nowhere", [node("a", unschedulable=True), node("b", unschedulable=True)], [], pod("p")),
            "0/2 nodes are available: 2 node(s) were unschedulable. no new claims to deallocate, " + UNHELPFUL,
            "0/2 nodes are available: 2 node(s) were unschedulable. " + UNHELPFUL,
        ),
    )
}


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
@pytest.mark.parametrize("name", CASES)
def test_each_release_has_its_words(name: str, minor: str) -> None:
    asked, *texts = CASES[name]

    found = ours(Cases(Features(kubernetes=minor)), asked)

    assert found["message"] == texts[minor == "1.37"]
    assert set(found) == set(PARTS)


def test_the_named_node_is_asked_first_since_137() -> None:
    orders = [
        [plugin.name for plugin in default_plugins(features=Features(kubernetes=minor))] for minor in ("1.36", "1.37")
    ]
    assert [order[1:3] for order in orders] == [["NodeUnschedulable", "NodeName"], ["NodeName", "NodeUnschedulable"]]
    assert orders[0][3:] == orders[1][3:]
    assert {row.name for row in DEFAULT_PROFILE} >= {*orders[1]} - {"GangScheduling"}


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
def test_what_a_file_orders_itself_stays_so(minor: str) -> None:
    written = {"filter": {"enabled": [{"name": "TaintToleration"}, {"name": "NodeUnschedulable"}]}}
    features = Features(kubernetes=minor)

    ordered = ProfileConfig.model_validate({"plugins": written}).profile(features=features).order["Filter"]

    assert ordered[:2] == ("TaintToleration", "NodeUnschedulable")
    first = ["NodeUnschedulable", "NodeName"] if minor == "1.36" else ["NodeName", "NodeUnschedulable"]
    plain = ProfileConfig.model_validate({}).profile(features=features).order["Filter"]
    assert [name for name in plain if name in first] == first
