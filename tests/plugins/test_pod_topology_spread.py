"""PodTopologySpread: hints, and what a node's fact is. Verdicts and scores: the recorded family `spread`."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.framework.api import Action, ClusterEvent, Hint, Resource
from scheduler.framework.status import Code
from scheduler.model.objects import TopologySpreadConstraint
from scheduler.plugins.pod_topology_spread.plugin import Fact, PodTopologySpread, SpreadSlot
from tests import builders
from tests.plugins.cluster import Cluster, cycle_of

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
HOST, ZONE = "kubernetes.io/hostname", "zone"
SPREAD = PodTopologySpread()


def constraint(key=ZONE, when=HARD, **fields):
    selector = {"matchLabels": {"app": "web"}}
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector, **fields}


def web(name="web", *constraints, labels=None, **fields):
    pod = builders.pod(name, labels={"app": "web"} if labels is None else labels, **fields)
    given = msgspec.convert(list(constraints), tuple[TopologySpreadConstraint, ...])
    return msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(pod.spec, topology_spread_constraints=given or None)
    )


def cluster(**zone_by_node) -> Cluster:
    made = Cluster()
    for name, zone in zone_by_node.items():
        made.store.observe_node(builders.node(name, labels={ZONE: zone} if zone else {}))
    return made


def facts(made: Cluster, pod):
    cycle = cycle_of(pod)
    assert SPREAD.pre_filter(cycle, made).status.is_success
    return cycle, {name: SPREAD.fact(cycle, info, made) for name, info in made.node_infos.items()}


def test_nodes_of_a_zone_have_one_fact_and_hosts_have_the_number_of_pods():
    made = cluster(a="x", b="x", c="y")
    made.put_pods(web("p", node="a"), web("q", node="a"), web("r", node="b", labels={}))
    _, found = facts(made, web("new", constraint(), constraint(HOST), constraint(HOST, SOFT)))
    assert found == {"a": Fact(("x", 2), (2,)), "b": Fact(("x", 0), (0,)), "c": Fact(("y", 0), (0,))}


def test_zones_of_one_node_each_are_told_by_their_pods_alone():
    made = cluster(a="x", b="y", c="z")
    made.put_pods(web("p", node="a"))
    _, found = facts(made, web("new", constraint()))
    assert len(set(found.values())) == 2
    made.store.observe_node(builders.node("d", labels={ZONE: "x"}))
    cycle, _ = facts(made, web("new", constraint()))
    assert cycle.get(SpreadSlot).are_unique == (False,)


def test_a_count_that_changed_elsewhere_changes_the_verdict_on_the_same_fact():
    made = cluster(a="x", b="x", c="y")
    _, found = facts(made, web("new", constraint()))

    def verdict():
        return SPREAD.filter_fact(facts(made, web("new", constraint()))[0], found["a"], made)

    assert verdict().is_success
    made.put_pods(web("p", node="b"))
    assert verdict().code is Code.UNSCHEDULABLE
    made.put_pods(web("q", node="c"))
    assert verdict().is_success


def test_pods_without_constraints_and_without_a_selector_for_the_defaults_are_not_looked_at():
    made = cluster(a="x")
    assert SPREAD.pre_filter(cycle_of(web("new")), made).status.code is Code.SKIP


def node(**labels):
    return builders.node("n", labels=labels)


TAINTED = builders.node("n", labels={ZONE: "x"}, taints=({"key": "k", "effect": "NoSchedule"},))
ASSIGNED, OWN, NODE = Resource.ASSIGNED_POD, Resource.POD, Resource.NODE


@pytest.mark.parametrize(
    ("resource", "old", "new", "wakes"),
    [
        (ASSIGNED, None, web("p", node="a"), True),
        (ASSIGNED, None, web("p", node="a", labels={}), False),
        (ASSIGNED, None, web("p", node="a", namespace="other"), False),
        (ASSIGNED, web("p", node="a"), None, True),
        (ASSIGNED, web("p", node="a"), web("p", node="a", labels={}), True),
        (ASSIGNED, web("p", node="a"), web("p", node="a", labels={"app": "web", "x": "y"}), False),
        (OWN, web("new", labels={}), web("new"), True),
        (NODE, None, node(zone="x"), True),
        (NODE, None, node(), False),
        (NODE, node(zone="x"), None, True),
        (NODE, node(zone="x"), node(zone="y"), True),
        (NODE, node(zone="x"), node(zone="x", other="y"), False),
        (NODE, node(zone="x"), TAINTED, True),
        (NODE, node(), node(other="y"), False),
    ],
)
def test_what_wakes_a_rejected_pod(resource, old, new, wakes):
    change = ClusterEvent(resource, Action.ADD, old, new)
    assert SPREAD.hint(web("new", constraint()), change, cluster()) is (Hint.QUEUE if wakes else Hint.SKIP)


def test_new_tolerations_wake_a_pod_whose_constraints_honor_taints():
    old = web("new", constraint(nodeTaintsPolicy="Honor"))
    new = web("new", constraint(nodeTaintsPolicy="Honor"), tolerations=[{"operator": "Exists"}])
    change = ClusterEvent(Resource.POD, Action.UPDATE_POD_TOLERATION, old, new)
    assert SPREAD.hint(new, change, cluster()) is Hint.QUEUE
    assert SPREAD.hint(web("new", constraint()), change, cluster()) is Hint.SKIP
