"""What plugins say of pods and nodes that are as large as somebody can make them: it is counted, and it ends soon."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from allocator.values.meter import STEP
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import COMMAND, EVENT, Limits
from scheduler.plugins import default_plugins
from scheduler.why.reasons import Reason
from scheduler.why.say import EVERYBODY
from tests import builders
from tests.core.rig import Rig
from tests.core.test_node_causes import REQUIRED, pods, port, rule, terms
from tests.observed import observed

CALLS_A_STEP = 100
"""Of Python and C functions: a step is some 4 us."""
BEFORE_ANY = 4_000
FEW = range(20)
MANY = range(400)


class Attack(NamedTuple):
    """Nodes, running pods, and the pod that a plugin refuses everywhere."""

    name: str
    plugin: str
    nodes: Callable[[], list[dict[str, Any]]]
    pod: Callable[[], dict[str, Any]]
    running: Callable[[], list[dict[str, Any]]] = list


def few() -> list[dict[str, Any]]:
    return [{"name": f"n{index}"} for index in FEW]


def labelled() -> list[dict[str, Any]]:
    return [{"name": f"n{index}", "labels": {"zone": f"z{index}", f"key{index}": "x"}} for index in range(1_000)]


def tainted() -> list[dict[str, Any]]:
    taints = tuple({"key": f"k{index}", "effect": "NoSchedule"} for index in MANY)
    return [{"name": f"n{index}", "taints": taints} for index in FEW]


def mounting() -> dict[str, Any]:
    return {"volumes": [{"name": f"v{one}", "persistentVolumeClaim": {"claimName": f"c{one}"}} for one in MANY]}


def listening() -> list[dict[str, Any]]:
    return [{"name": f"r{one}", "node": f"n{one % 20}", **port(80, ip=f"10.0.0.{one % 250}")} for one in MANY]


def lonely() -> list[dict[str, Any]]:
    return [{"name": f"r{one}", "node": f"n{one % 20}", **pods("podAntiAffinity", HOST, app="p")} for one in MANY]


HOST = "kubernetes.io/hostname"
ATTACKS = [
    Attack("values of one label", "NodeAffinity", labelled, lambda: {"nodeSelector": {"zone": "z"}}),
    Attack("labels", "NodeAffinity", labelled, lambda: {"nodeSelector": {"keyy": "x"}}),
    Attack(
        "terms",
        "NodeAffinity",
        few,
        lambda: terms(*[[rule("zone", "In", f"a{one}"), rule("b", "Exists")] for one in MANY]),
    ),
    Attack("requirements", "NodeAffinity", few, lambda: terms([rule(f"k{one}", "In", "a", "b") for one in MANY])),
    Attack("selected labels", "NodeAffinity", few, lambda: {"nodeSelector": {f"k{one}": "v" for one in MANY}}),
    Attack("taints", "TaintToleration", tainted, dict),
    Attack(
        "tolerations",
        "TaintToleration",
        tainted,
        lambda: {"tolerations": [{"key": f"t{one}", "operator": "Exists"} for one in MANY]},
    ),
    Attack("users of a port", "NodePorts", few, lambda: port(80), listening),
    Attack("ports", "NodePorts", few, lambda: port(*range(80, 480)), listening),
    Attack("claims", "VolumeRestrictions", few, mounting),
    Attack("neighbours", "InterPodAffinity", few, lambda: {"labels": {"app": "p"}}, lonely),
    Attack(
        "terms about pods",
        "InterPodAffinity",
        few,
        lambda: {
            "affinity": {
                "podAffinity": {
                    REQUIRED: [
                        {"topologyKey": HOST, "labelSelector": {"matchLabels": {f"k{one}": "v"}}} for one in MANY
                    ]
                }
            }
        },
    ),
    Attack("gates", "SchedulingGates", few, lambda: {"gates": tuple(f"example.com/{one}" for one in MANY)}),
]


def blamed(attack: Attack, limits: Limits) -> tuple[list[Reason], int, int]:
    """What the plugin says, the steps that it has counted, and the calls of functions that it took."""
    rig = Rig(*default_plugins(), is_paranoid=False)
    for fields in attack.nodes():
        rig.server.put_node(builders.node(**fields))
    for fields in attack.running():
        rig.server.put_pod(builders.pod(**fields))
    rig.watch()
    runner, view = rig.machine.runners[builders.SCHEDULER], rig.machine.ground.view
    cycle = Cycle(builders.pod("p", **attack.pod()), 0, 10**9)
    filtered = runner.pre_filter(cycle, view)
    nodes = list(view.node_infos.values()) if filtered.status.is_success else []
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = cycle.steps_left
    sys.setprofile(count)
    try:
        blames = [*runner.diagnose(attack.plugin, cycle, nodes, view, limits)]
    finally:
        sys.setprofile(None)
    return blames, before - cycle.steps_left, calls


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_what_it_takes_is_counted_and_little(attack: Attack) -> None:
    blames, steps, calls = blamed(attack, EVENT)
    assert blames
    assert steps <= EVENT.steps
    assert calls <= BEFORE_ANY + CALLS_A_STEP * steps
    for one in blames:
        assert len(one.text(EVERYBODY)) <= 300, one.text(EVERYBODY)
        assert all(len(fix.text(EVERYBODY)) <= 600 for fix in one.fixes)


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_the_command_looks_closer_and_counts_as_well(attack: Attack) -> None:
    blames, steps, calls = blamed(attack, COMMAND)
    assert blames
    assert calls <= BEFORE_ANY + CALLS_A_STEP * steps


def test_pools_of_other_nodes_are_looked_at_within_the_steps() -> None:
    """A driver publishes all its pools anew, and the next pod that waits has to be told why."""
    rig = Rig(*default_plugins(), is_paranoid=False)
    rig.add_nodes("a")
    rig.server.put_class(builders.device_class())
    rig.server.put_slice(builders.resource_slice("s", node="a", devices=1))
    rig.server.put_claim(builders.claim("taken", allocation=builders.allocation("gpu-0", pool="a")))
    rig.server.put_claim(builders.claim("wanted"))
    elsewhere = builders.resource_slice("s", node="b", devices=64)
    rig.watch()
    for index in range(800):
        rig.tell(observed(replace(elsewhere, name=f"s{index}", node_name=f"b{index}", pool=f"b{index}"), 1))
    runner, view = rig.machine.runners[builders.SCHEDULER], rig.machine.ground.view
    cycle = Cycle(builders.pod("p", claims=("wanted",)), 0, EVENT.steps)
    assert runner.pre_filter(cycle, view).status.is_success
    before = view.inventory.meter.spent
    assert runner.diagnose("DynamicResources", cycle, [view.node_infos["a"]], view, EVENT)
    assert view.inventory.meter.spent - before <= 1.1 * EVENT.steps * STEP
