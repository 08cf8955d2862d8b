"""InterPodAffinity: hints and facts. Verdicts and scores: the recorded family `interpod`."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.framework.api import Action, ClusterEvent, Hint, Resource
from scheduler.framework.status import Code
from scheduler.model.objects import Affinity
from scheduler.plugins.inter_pod_affinity import InterPodAffinity
from tests import builders
from tests.plugins.cluster import Cluster, cycle_of

PLUGIN = InterPodAffinity()
HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def term(app="web", key="zone", **fields):
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **fields}


def near(*terms):
    return {"podAffinity": {REQUIRED: terms}}


def far(*terms):
    return {"podAntiAffinity": {REQUIRED: terms}}


def pod(name="new", app="web", affinity=None, **fields):
    made = builders.pod(name, labels={"app": app}, **fields)
    given = msgspec.convert(affinity or {}, Affinity)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, affinity=given))


def cluster(*pods, **zone_by_node) -> Cluster:
    made = Cluster()
    for name, zone in zone_by_node.items():
        made.store.observe_node(builders.node(name, labels={"zone": zone} if zone else {}))
    for name, labels in (("default", {}), ("team-a", {"team": "a"})):
        made.store.namespaces.observe(name, 1, builders.namespace(name, labels=labels))
    made.put_pods(*pods)
    return made


def facts(made: Cluster, one):
    cycle = cycle_of(one)
    assert PLUGIN.pre_filter(cycle, made).status.is_success
    return cycle, {name: PLUGIN.fact(cycle, info, made) for name, info in made.node_infos.items()}


def test_with_the_hosts_name_nodes_have_few_facts():
    made = cluster(pod("p", node="a"), pod("q", node="a"), pod("r", node="b"), a="x", b="x", c="y", d="y")
    cycle, found = facts(made, pod(affinity=far(term(key=HOST))))
    assert len(set(found.values())) == 2
    verdicts = {name: PLUGIN.filter_fact(cycle, fact, made).code for name, fact in found.items()}
    assert [name for name, code in verdicts.items() if code is Code.SUCCESS] == ["c", "d"]


def test_a_pod_elsewhere_changes_the_verdict_on_the_same_fact():
    made = cluster(a="x", b="x", c="y")
    cycle, found = facts(made, pod(app="db", affinity=near(term())))
    assert {PLUGIN.filter_fact(cycle, fact, made).code for fact in found.values()} == {
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    }
    made.put_pods(pod("p", node="b"))
    cycle, again = facts(made, pod(app="db", affinity=near(term())))
    assert again == found
    assert PLUGIN.filter_fact(cycle, found["a"], made).is_success
    assert not PLUGIN.filter_fact(cycle, found["c"], made).is_success


def test_only_pods_that_terms_are_about_are_looked_at():
    made = cluster(pod("p", app="db", node="a", affinity=far(term("web"))), a="x")
    assert PLUGIN.pre_filter(cycle_of(pod(app="cache")), made).status.code is Code.SKIP
    assert PLUGIN.pre_filter(cycle_of(pod(app="web")), made).status.is_success


def test_pods_of_other_labels_share_a_shape_while_the_same_terms_mean_them():
    made = cluster(pod("p", app="db", node="a", affinity=far(term("web"))), a="x")
    shapes = []
    for labels in ({"app": "web", "n": "1"}, {"app": "web", "n": "2"}):
        one = builders.pod("new", labels=labels)
        cycle = cycle_of(one)
        PLUGIN.pre_filter(cycle, made)
        shapes.append(PLUGIN.shape(cycle, made))
    assert shapes[0] == shapes[1]


ASSIGNED, OWN, NODE = Resource.ASSIGNED_POD, Resource.POD, Resource.NODE
TWO_FAR = far(term("web"), term("db"))
IN_TEAM_A = {"namespaceSelector": {"matchLabels": {"team": "a"}}}


def node(**labels):
    return builders.node("n", labels=labels)


@pytest.mark.parametrize(
    ("waiting", "resource", "old", "new", "wakes"),
    [
        pytest.param(near(term()), ASSIGNED, None, pod("p", node="a"), True, id="a-wanted-pod-came"),
        pytest.param(near(term()), ASSIGNED, None, pod("p", "db", node="a"), False, id="another-pod-came"),
        pytest.param(
            near(term()), ASSIGNED, pod("p", "db", node="a"), pod("p", node="a"), True, id="a-pod-came-to-be-wanted"
        ),
        pytest.param(TWO_FAR, ASSIGNED, pod("p", node="a"), None, True, id="139161-one-anti-affinity-term-suffices"),
        pytest.param(
            TWO_FAR, ASSIGNED, pod("p", node="a"), pod("p", "x", node="a"), True, id="139161-also-for-new-labels"
        ),
        pytest.param(near(term()), ASSIGNED, pod("p", node="a"), None, True, id="141354-it-may-be-the-first-now"),
        pytest.param(
            near(term()), ASSIGNED, pod("p", node="a"), pod("p", "x", node="a"), True, id="141354-also-for-new-labels"
        ),
        pytest.param(near(term("db")), ASSIGNED, pod("p", "db", node="a"), None, False, id="it-is-not-one-of-them"),
        pytest.param(
            None, ASSIGNED, pod("p", "db", node="a", affinity=TWO_FAR), None, True, id="a-pod-that-kept-it-away-went"
        ),
        pytest.param(
            far(term(**IN_TEAM_A)),
            ASSIGNED,
            pod("p", node="a", namespace="team-a"),
            None,
            True,
            id="namespace-selectors-are-looked-at",
        ),
        pytest.param(far(term()), ASSIGNED, pod("p", "x", node="a"), None, False, id="a-stranger-went"),
        pytest.param(far(term()), OWN, pod(app="x"), pod(), True, id="its-own-labels-changed"),
        pytest.param(near(term()), NODE, None, node(zone="x"), True, id="a-node-with-the-label-came"),
        pytest.param(near(term()), NODE, None, node(), False, id="a-node-without-the-label-came"),
        pytest.param(far(term()), NODE, None, node(), True, id="a-node-where-nobody-is-came"),
        pytest.param(None, NODE, None, node(), True, id="the-same-for-a-pod-that-others-keep-away"),
        pytest.param(near(term()), NODE, node(), node(zone="x"), True, id="a-node-got-the-label"),
        pytest.param(near(term()), NODE, node(zone="x"), node(), False, id="a-node-lost-the-label"),
        pytest.param(far(term()), NODE, node(zone="x"), node(), True, id="a-node-left-a-domain"),
        pytest.param(far(term()), NODE, node(), node(zone="x"), False, id="a-node-came-into-a-domain"),
    ],
)
def test_what_wakes_a_rejected_pod(waiting, resource, old, new, wakes):
    change = ClusterEvent(resource, Action.ADD, old, new)
    assert PLUGIN.hint(pod(affinity=waiting), change, cluster()) is (Hint.QUEUE if wakes else Hint.SKIP)


def test_a_relabelled_node_wakes_a_pod_that_pods_on_it_kept_away():
    made = cluster(pod("p", app="db", node="a", affinity=far(term("web"))), a="x")
    old = made.node_infos["a"].node
    made.store.observe_node(builders.node("a"))
    change = ClusterEvent(NODE, Action.UPDATE_NODE_LABEL, old, made.node_infos["a"].node)
    assert PLUGIN.hint(pod(), change, made) is Hint.QUEUE
    assert PLUGIN.hint(pod(app="cache"), change, made) is Hint.SKIP
