"""What a pod is told for which others are preempted: which node is being freed, and who keeps those that should go."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from scheduler.framework.diagnosis import cause_of
from scheduler.model.group import GROUP_LABEL, MIN_COUNT_LABEL
from scheduler.model.keys import PodKey
from scheduler.plugins import default_plugins
from tests import builders
from tests.core.rig import Rig
from tests.core.test_preemptions import restarted

FREED = (
    "[making-room] node a is being freed for it: it starts there when the scheduler has preempted pod {} (priority 0)"
)


def full(*finalizers: str, namespace: str = "default", **fields: Any) -> Rig:
    """A node that a pod fills, and a more important one that wants it."""
    rig = Rig(*default_plugins(), reports_causes=True)
    rig.add_nodes("a")
    low = builders.pod("low", namespace=namespace, node="a", priority=0, requests={"cpu": "8"})
    rig.server.put_pod(structs.replace(low, metadata=structs.replace(low.metadata, finalizers=finalizers)))
    rig.add_pod("high", priority=10, requests={"cpu": "8"}, **fields)
    rig.settle()
    return rig


def cause(rig: Rig, name: str = "high") -> str:
    condition = rig.condition_of(name)
    return cause_of(condition[1]) if condition is not None else ""


def test_who_is_preempted_for_it_is_the_cause() -> None:
    rig = full()

    assert cause(rig) == f"{FREED.format('default/low')}; nothing needs to be done"
    assert sum(cause(rig) in event for event in rig.events) == 1


def test_a_pod_of_another_namespace_is_not_named() -> None:
    assert cause(full(namespace="secret")).startswith(FREED.replace("pod {}", "a pod of another namespace"))


def test_a_group_is_told_of_all_its_nodes() -> None:
    rig = Rig(*default_plugins(), reports_causes=True)
    for node in "ab":
        rig.add_nodes(node)
        rig.server.put_pod(builders.pod(f"low-{node}", node=node, priority=0, requests={"cpu": "8"}))
    mark = {"labels": {GROUP_LABEL: "g", MIN_COUNT_LABEL: "2"}}
    for name in "xy":
        rig.add_pod(name, priority=10, requests={"cpu": "8"}, **mark)
    rig.wait(5_000)

    assert cause(rig, "x") == cause(rig, "y")
    assert cause(rig, "x") == (
        "[making-room] nodes a, b are being freed for it and its group default/g: it starts there when the scheduler "
        "has preempted pods default/low-a, default/low-b (priority 0); nothing needs to be done"
    )


@pytest.mark.parametrize("finalizers", [("example.net/drain",), ("example.net/drain", "example.net/two")])
def test_after_a_restart_a_pod_that_says_nothing_is_told_what_keeps_its_victim(finalizers: tuple[str, ...]) -> None:
    rig = full(*finalizers)
    high = rig.server.pods[PodKey("default", "high")]
    assert high.status.nominated_node_name == "a"
    rig.server.put_pod(structs.replace(high, status=structs.replace(high.status, conditions=())))
    twin = restarted(rig, *default_plugins(), reports_causes=True)
    twin.wait(5_000)

    are, them = ("finalizers", "them") if len(finalizers) > 1 else ("finalizer", "it")
    listed = ", ".join(finalizers)
    assert cause(twin) == (
        f"{FREED.format('default/low')}; pod default/low is kept by {are} {listed}"
        f"; to make it fit: whoever set {listed} must remove {them} from pod default/low"
    )
    told = [event for event in twin.events if event.startswith("FailedScheduling")]
    assert [cause(twin) in event for event in told][-1:] == [True]
    twin.wait(60_000)
    assert [event for event in twin.events if event.startswith("FailedScheduling")] == told
