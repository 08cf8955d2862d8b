"""No `handle` searches for long: a hostile claim is searched for in parts, and others have their turn in between."""

from __future__ import annotations

from scheduler.model.keys import PodKey
from scheduler.plugins import default_plugins
from tests import builders
from tests.allocator.test_paused import hostile
from tests.core.rig import Rig

STEPS = 500


def world(nodes: int = 2, **settings) -> Rig:
    """Nodes on which a search for the hostile claim does not end, and for an ordinary one at once."""
    rig = Rig(*default_plugins(budget_steps=5_000), steps_per_tick=STEPS, is_paranoid=False, **settings)
    case = hostile()
    rig.server.put_class(builders.device_class("class-a", driver="driver-a"))
    devices = case["slices"][0]["spec"]["devices"]
    for index in range(nodes):
        name = f"n{index}"
        rig.add_nodes(name)
        rig.server.put_slice(builders.resource_slice(f"s{index}", node=name, driver="driver-a", devices=tuple(devices)))
    rig.server.put_claim(builders.claim("hostile", spec=case["claims"][0]["spec"]))
    return rig


def spent_by_tick(rig: Rig) -> list[int]:
    spent = []
    for _ in range(200):
        before = rig.machine.feasibility.steps
        rig.tick()
        spent.append(rig.machine.feasibility.steps - before)
        rig.execute()
        deadline = rig.machine.next_deadline_ms()
        if deadline is None or deadline > rig.now_ms:
            return spent
    raise AssertionError("no end")


def test_a_tick_takes_few_steps_and_the_verdict_comes_all_the_same():
    rig = world()
    rig.add_pod("p", claims=("hostile",))
    rig.watch()
    spent = spent_by_tick(rig)
    assert max(spent) <= 2 * STEPS
    assert sum(spent) > STEPS * 5
    assert rig.condition_of("p")[1].startswith(
        "0/2 nodes are available: 2 timed out trying to allocate devices (search budget of 5000 steps)."
    )
    assert rig.machine.queue.find(rig.server.pods[PodKey("default", "p")].uid).attempts == 1


def test_other_pods_are_bound_in_between():
    rig = world(nodes=8)
    spec = builders.claim_spec_object(builders.request_object(device_class="class-a"))
    rig.server.put_claim(builders.claim("easy", spec=spec))
    rig.add_pod("hostile", claims=("hostile",))
    rig.add_pod("easy", claims=("easy",))
    rig.watch()
    for _ in range(6):
        rig.tick(1)
        rig.execute()
    assert rig.node_of("easy") is not None
    assert rig.condition_of("hostile") is None, "still being searched for"


def test_equal_inputs_give_equal_decisions_in_parts_too():
    decided = []
    for _ in range(2):
        rig = world()
        rig.add_pod("p", claims=("hostile",))
        rig.watch()
        spent_by_tick(rig)
        decided.append([repr(one).replace("uid", "") for one in rig.decided])
    assert decided[0] == decided[1]


def test_nodes_whose_facts_have_come_to_pass_are_looked_at_however_many_ticks_that_takes():
    """The tick's only look went to the node that had changed; those that were set aside were taken for unfit."""
    rig = Rig(*default_plugins(), filter_calls_per_tick=1)
    zone = "topology.kubernetes.io/zone"
    rig.add_nodes("cordoned-1", unschedulable=True, labels={zone: "1"})
    rig.add_nodes("open-1", labels={zone: "1"})
    rig.add_nodes("cordoned-2", unschedulable=True, labels={zone: "2"})
    rig.add_pod("other", node="cordoned-1", labels={"app": "a"})
    constraint = {
        "maxSkew": 1,
        "topologyKey": zone,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    rig.add_pod("p", labels={"app": "a"}, topologySpreadConstraints=[constraint])
    rig.settle()
    assert rig.node_of("p") is None
    rig.server.delete_pod(PodKey("default", "other"))
    rig.settle()
    assert rig.node_of("p") == "open-1"
