"""InterPodAffinity: hints and facts. Verdicts and scores: the recorded family `interpod`."""

from __future__ import annotations

import msgspec
import pytest

from allocator import Features
from scheduler.framework.api import Action, ClusterEvent, Hint, Resource
from scheduler.framework.status import Code
from scheduler.model.objects import Affinity
from scheduler.plugins import default_plugins
from scheduler.plugins.inter_pod_affinity import InterPodAffinity
from tests import builders
from tests.core.rig import Rig
from tests.observed import observed
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


def cluster(*pods, release="1.37", **zone_by_node) -> Cluster:
    made = Cluster(features=Features(kubernetes=release))
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


@pytest.mark.parametrize("operator", ["NotIn", "DoesNotExist"])
@pytest.mark.parametrize(("release", "is_refused"), [("1.36", True), ("1.37", False)])
def test_what_a_namespace_selector_excludes_is_excluded_from_1_37_on(operator, release, is_refused):
    excluding = {"key": "team", "operator": operator, **({"values": ["a"]} if operator == "NotIn" else {})}
    one = pod(affinity=far(term(namespaceSelector={"matchExpressions": [excluding]})))
    made = cluster(pod("p", node="a", namespace="team-a"), a="x", release=release)
    cycle, found = facts(made, one)
    assert PLUGIN.filter_fact(cycle, found["a"], made).is_success is not is_refused

    made.put_pods(pod("q", node="a"))  # in a namespace without the label, which both mean
    cycle, found = facts(made, one)
    assert not PLUGIN.filter_fact(cycle, found["a"], made).is_success


def test_only_pods_that_terms_are_about_are_looked_at():
    made = cluster(pod("p", app="db", node="a", affinity=far(term("web"))), a="x")
    assert PLUGIN.pre_filter(cycle_of(pod(app="cache")), made).status.code is Code.SKIP
    assert PLUGIN.pre_filter(cycle_of(pod(app="web")), made).status.is_success


def test_pods_of_other_labels_share_a_shape_while_the_same_terms_mean_them():
    made = cluster(pod("p", app="db", node="a", affinity=far(term("web"))), a="x")
    signatures = []
    for labels in ({"app": "web", "n": "1"}, {"app": "web", "n": "2"}):
        one = builders.pod("new", labels=labels)
        cycle = cycle_of(one)
        PLUGIN.pre_filter(cycle, made)
        signatures.append(PLUGIN.signature(cycle, made))
    assert signatures[0] == signatures[1]


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


def team(name, team=""):
    return builders.namespace(name, labels={"team": team} if team else {})


A_NEAR, A_FAR = near(term(**IN_TEAM_A)), far(term(**IN_TEAM_A))


@pytest.mark.parametrize(
    ("waiting", "old", "new", "wakes"),
    [
        pytest.param(A_NEAR, team("x"), team("x", "a"), True, id="a-namespace-came-to-be-meant"),
        pytest.param(A_NEAR, None, team("x", "a"), True, id="one-that-is-meant-was-observed-after-its-pods"),
        pytest.param(A_NEAR, team("x", "a"), team("x"), True, id="it-may-be-the-first-now"),
        pytest.param(A_NEAR, team("x", "b"), team("x", "c"), False, id="one-that-is-not-meant"),
        pytest.param(A_FAR, team("x", "a"), team("x"), True, id="those-to-keep-away-from-are-meant-no-more"),
        pytest.param(A_FAR, team("x", "a"), None, True, id="their-namespace-is-gone"),
        pytest.param(A_FAR, team("x"), team("x", "a"), False, id="more-to-keep-away-from"),
        pytest.param(far(term(namespaces=["x"])), team("x", "a"), team("x"), False, id="by-name-labels-do-not-matter"),
        pytest.param(None, team("default", "a"), team("default"), True, id="its-own-namespace-may-be-meant-no-more"),
        pytest.param(None, team("x", "a"), team("x"), False, id="another-namespace"),
    ],
)
def test_what_change_of_a_namespace_wakes_a_rejected_pod(waiting, old, new, wakes):
    change = ClusterEvent(Resource.NAMESPACE, Action.UPDATE, old, new)
    assert PLUGIN.hint(pod(affinity=waiting), change, cluster()) is (Hint.QUEUE if wakes else Hint.SKIP)


def refused(running, waiting, **labels) -> Rig:
    """Of two pods, one runs on the only node; the other one waits in namespace default."""
    rig = Rig(*default_plugins())
    rig.add_nodes("a", labels={"zone": "x"})
    for name, team_of in (("default", labels.get("own", "")), ("x", labels["other"])):
        rig.tell(observed(team(name, team_of)))
    rig.server.put_pod(pod("running", node="a", namespace="x", affinity=running))
    rig.server.put_pod(pod("p", affinity=waiting))
    rig.settle()
    assert rig.node_of("p") is None
    rig.wait(30_000)
    return rig


@pytest.mark.parametrize(
    ("running", "waiting", "before", "change"),
    [
        pytest.param(None, near(term(key="zone", **IN_TEAM_A)), {"other": ""}, ("x", "a"), id="near"),
        pytest.param(None, far(term(key="zone", **IN_TEAM_A)), {"other": "a"}, ("x", ""), id="far"),
        pytest.param(
            far(term(key="zone", **IN_TEAM_A)), None, {"other": "", "own": "a"}, ("default", ""), id="of-a-running-pod"
        ),
    ],
)
def test_a_pod_that_a_namespace_selector_refused_is_tried_when_the_labels_change(running, waiting, before, change):
    rig = refused(running, waiting, **before)
    name, label = change
    rig.tell(observed(builders.namespace(name, labels={"team": label})))
    rig.wait(1_000)
    assert rig.node_of("p") == "a"


def test_a_change_of_a_namespace_but_of_its_labels_wakes_nobody():
    rig = refused(None, near(term(key="zone", **IN_TEAM_A)), other="")
    attempts = rig.machine.queue.find(builders.pod("p").uid).attempts
    rig.tell(observed(builders.namespace("x", annotations={"note": "a"})))
    rig.wait(1_000)
    assert rig.machine.queue.find(builders.pod("p").uid).attempts == attempts


def test_a_relabelled_node_wakes_a_pod_that_pods_on_it_kept_away():
    made = cluster(pod("p", app="db", node="a", affinity=far(term("web"))), a="x")
    old = made.node_infos["a"].node
    made.store.observe_node(builders.node("a"))
    change = ClusterEvent(NODE, Action.UPDATE_NODE_LABEL, old, made.node_infos["a"].node)
    assert PLUGIN.hint(pod(), change, made) is Hint.QUEUE
    assert PLUGIN.hint(pod(app="cache"), change, made) is Hint.SKIP
