"""The plugins that look at nodes alone: verdicts, scores and hints, one row per rule."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.framework.api import Action, ClusterEvent, Hint, Resource
from scheduler.framework.status import Code
from scheduler.plugins.node_affinity import NodeAffinity
from scheduler.plugins.node_name import NodeNamePlugin
from scheduler.plugins.node_resources_fit import NodeResourcesFit
from scheduler.plugins.node_unschedulable import NodeUnschedulable
from scheduler.plugins.scheduling_gates import SchedulingGates
from scheduler.plugins.taint_toleration import TaintToleration
from tests.plugins.asking import filter_verdict, scores
from tests.plugins.cluster import Cluster, cycle_of
from tests.plugins.objects import node, node_info, pod, requesting

VIEW = Cluster()
CORDON = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
BUSY = {"key": "busy", "effect": "NoSchedule"}
SOFT = {"key": "soft", "effect": "PreferNoSchedule"}
GPU = "example.com/gpu"


def affinity(required=None, preferred=None):
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": required}} if required else {}
    if preferred:
        terms["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return {"nodeAffinity": terms}


def labelled(key, *values):
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


def named(*names):
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]}


UAU = Code.UNSCHEDULABLE_AND_UNRESOLVABLE


@pytest.mark.parametrize(
    ("plugin", "one", "info", "code", "reason"),
    [
        pytest.param(NodeNamePlugin(), pod(), node_info(), Code.SKIP, "", id="a-pod-that-names-no-node-goes-anywhere"),
        pytest.param(NodeNamePlugin(), pod(nodeName="node"), node_info(), Code.SUCCESS, "", id="a-named-node-is-taken"),
        pytest.param(
            NodeNamePlugin(),
            pod(nodeName="other"),
            node_info(),
            UAU,
            "node(s) didn't match the requested node name",
            id="no-other-node-than-the-named",
        ),
        pytest.param(NodeUnschedulable(), pod(), node_info(), Code.SUCCESS, "", id="an-open-node-is-taken"),
        pytest.param(
            NodeUnschedulable(),
            pod(),
            node_info(unschedulable=True),
            UAU,
            "node(s) were unschedulable",
            id="a-cordoned-node-is-refused",
        ),
        pytest.param(
            NodeUnschedulable(),
            pod(tolerations=[CORDON]),
            node_info(unschedulable=True),
            Code.SUCCESS,
            "",
            id="a-pod-that-tolerates-the-cordon-gets-through",
        ),
        pytest.param(
            TaintToleration(),
            pod(),
            node_info(taints=[BUSY]),
            UAU,
            "node(s) had untolerated taint(s)",
            id="an-untolerated-taint-refuses",
        ),
        pytest.param(
            TaintToleration(),
            pod(),
            node_info(taints=[{"key": "dead", "effect": "NoExecute"}]),
            UAU,
            "node(s) had untolerated taint(s)",
            id="no-execute-refuses-too",
        ),
        pytest.param(
            TaintToleration(),
            pod(tolerations=[{"key": "busy", "operator": "Exists"}]),
            node_info(taints=[BUSY]),
            Code.SUCCESS,
            "",
            id="a-tolerated-taint-does-not",
        ),
        pytest.param(TaintToleration(), pod(), node_info(taints=[SOFT]), Code.SUCCESS, "", id="a-soft-taint-does-not"),
        pytest.param(NodeAffinity(), pod(), node_info(), Code.SKIP, "", id="a-pod-without-affinity-is-skipped"),
        pytest.param(
            NodeAffinity(),
            pod(nodeSelector={"gpu": "a100"}),
            node_info(labels={"gpu": "a100"}),
            Code.SUCCESS,
            "",
            id="node-selector-matches",
        ),
        pytest.param(
            NodeAffinity(),
            pod(nodeSelector={"gpu": "a100"}),
            node_info(),
            UAU,
            "node(s) didn't match Pod's node affinity/selector",
            id="node-selector-misses",
        ),
        pytest.param(
            NodeAffinity(),
            pod(affinity=affinity([labelled("gpu", "t4"), labelled("gpu", "a100")])),
            node_info(labels={"gpu": "a100"}),
            Code.SUCCESS,
            "",
            id="one-term-of-the-affinity-is-enough",
        ),
        pytest.param(
            NodeAffinity(),
            pod(affinity=affinity([{"matchExpressions": [{"key": "gpu", "operator": "Near"}]}])),
            node_info(),
            UAU,
            "node(s) didn't match Pod's node affinity/selector",
            id="a-term-that-cannot-be-read-matches-nothing",
        ),
        pytest.param(
            NodeAffinity(),
            pod(affinity=affinity(preferred=[{"weight": 1, "preference": labelled("gpu", "t4")}])),
            node_info(),
            Code.SUCCESS,
            "",
            id="a-preference-refuses-nothing",
        ),
        pytest.param(
            NodeResourcesFit(),
            requesting({"cpu": "2", "memory": "1Gi"}),
            node_info(allocatable={"cpu": "2", "memory": "1Gi"}),
            Code.SUCCESS,
            "",
            id="an-exact-fit-fits",
        ),
        pytest.param(
            NodeResourcesFit(),
            requesting({"cpu": "2"}),
            node_info(allocatable={"cpu": "2"}, pods=[requesting({"cpu": "1m"}, "other")]),
            Code.UNSCHEDULABLE,
            "Insufficient cpu",
            id="what-others-use-is-gone-but-preemption-may-help",
        ),
        pytest.param(
            NodeResourcesFit(),
            requesting({"cpu": "2001m"}),
            node_info(allocatable={"cpu": "2"}),
            UAU,
            "Insufficient cpu",
            id="more-than-the-node-ever-has-cannot-be-helped",
        ),
        pytest.param(
            NodeResourcesFit(),
            pod(),
            node_info(allocatable={"pods": "1"}, pods=[pod("other")]),
            Code.UNSCHEDULABLE,
            "Too many pods",
            id="a-full-node-takes-no-pod-even-without-requests",
        ),
        pytest.param(
            NodeResourcesFit(),
            requesting({GPU: "1", "hugepages-2Mi": "2Mi", "ephemeral-storage": "1", "memory": "1", "cpu": "1"}),
            node_info(allocatable={"pods": "0"}),
            UAU,
            "Too many pods, Insufficient cpu, Insufficient memory, Insufficient ephemeral-storage, "
            "Insufficient example.com/gpu, Insufficient hugepages-2Mi",
            id="all-reasons-in-a-fixed-order",
        ),
        pytest.param(
            NodeResourcesFit(),
            requesting({GPU: "0", "cpu": "0"}),
            node_info(),
            Code.SUCCESS,
            "",
            id="asking-for-nothing-of-a-resource-is-not-asking",
        ),
    ],
)
def test_filter(plugin, one, info, code, reason) -> None:
    verdict = filter_verdict(plugin, one, info)
    assert (verdict.code, verdict.message) == (code, reason)


def test_fit_refuses_a_pod_whose_request_is_no_quantity() -> None:
    status = NodeResourcesFit().pre_filter(cycle_of(requesting({"cpu": "two"})), VIEW).status
    assert status.code is UAU
    assert status.message.startswith('spec.containers[0].resources.requests["cpu"]: "two" is not a quantity')


@pytest.mark.parametrize(
    ("terms", "code", "names"),
    [
        pytest.param([named("a"), named("b")], Code.SUCCESS, {"a", "b"}, id="names-of-all-terms"),
        pytest.param([named("a"), labelled("gpu", "t4")], Code.SUCCESS, None, id="a-term-without-name-opens-all"),
        pytest.param([named("a", "b")], UAU, None, id="terms-that-contradict-themselves"),
    ],
)
def test_node_affinity_names_the_only_nodes(terms, code, names) -> None:
    result = NodeAffinity().pre_filter(cycle_of(pod(affinity=affinity(terms))), VIEW)
    assert (result.status.code, result.node_names) == (code, names)
    assert result.status.message == ("pod affinity terms conflict" if code is UAU else "")


def test_scheduling_gates_name_the_gates() -> None:
    plugin = SchedulingGates()
    status = plugin.pre_enqueue(pod(schedulingGates=[{"name": "a"}, {"name": "b"}]), VIEW)
    assert (status.code, status.message) == (UAU, "waiting for scheduling gates: [a b]")
    assert plugin.pre_enqueue(pod(), VIEW).is_success


@pytest.mark.parametrize(
    ("one", "infos", "want"),
    [
        pytest.param(pod(), [node_info("a"), node_info("b")], [100, 100], id="no-soft-taints-no-difference"),
        pytest.param(
            pod(),
            [node_info("a", taints=[SOFT]), node_info("b"), node_info("c", taints=[SOFT, {**SOFT, "key": "softer"}])],
            [50, 100, 0],
            id="fewer-soft-taints-are-better",
        ),
        pytest.param(
            pod(tolerations=[{"key": "soft", "operator": "Exists"}]),
            [node_info("a", taints=[SOFT]), node_info("b")],
            [100, 100],
            id="a-tolerated-soft-taint-does-not-count",
        ),
        pytest.param(
            pod(tolerations=[{"key": "soft", "operator": "Exists", "effect": "NoSchedule"}]),
            [node_info("a", taints=[SOFT]), node_info("b")],
            [0, 100],
            id="a-toleration-of-another-effect-does-not-help",
        ),
    ],
)
def test_taint_toleration_score(one, infos, want) -> None:
    assert scores(TaintToleration(), one, *infos) == want


def test_node_affinity_score_adds_weights_and_scales_to_the_best() -> None:
    preferred = [
        {"weight": 10, "preference": labelled("gpu", "a100")},
        {"weight": 30, "preference": labelled("zone", "x")},
    ]
    one = pod(affinity=affinity(preferred=preferred))
    infos = [
        node_info("both", labels={"gpu": "a100", "zone": "x"}),
        node_info("zone", labels={"zone": "x"}),
        node_info("gpu", labels={"gpu": "a100"}),
        node_info("none"),
    ]
    assert scores(NodeAffinity(), one, *infos) == [100, 75, 25, 0]


def test_node_affinity_score_fails_on_a_preference_that_cannot_be_read() -> None:
    cycle = cycle_of(pod(affinity=affinity(preferred=[{"weight": 1, "preference": labelled("gpu")}])))
    plugin = NodeAffinity()
    assert plugin.pre_filter(cycle, VIEW).status.is_success
    status = plugin.pre_score(cycle, [node_info()], VIEW)
    assert status.code is Code.ERROR
    assert status.message.startswith("[0].matchExpressions[0].values")


ASSIGNED = pod("other", nodeName="node")


def node_change(old, new, action=Action.UPDATE_NODE_TAINT):
    return ClusterEvent(Resource.NODE, action if old is not None else Action.ADD, old, new)


def grown(before, after):
    return node_change(node(allocatable=before), node(allocatable=after), Action.UPDATE_NODE_ALLOCATABLE)


@pytest.mark.parametrize(
    ("plugin", "one", "change", "want"),
    [
        pytest.param(NodeNamePlugin(), pod(nodeName="node"), node_change(None, node()), Hint.QUEUE, id="its-node-came"),
        pytest.param(NodeNamePlugin(), pod(nodeName="x"), node_change(None, node()), Hint.SKIP, id="another-node-came"),
        pytest.param(NodeUnschedulable(), pod(), node_change(None, node()), Hint.QUEUE, id="an-open-node-came"),
        pytest.param(
            NodeUnschedulable(),
            pod(),
            node_change(None, node(unschedulable=True)),
            Hint.SKIP,
            id="a-cordoned-node-came",
        ),
        pytest.param(
            NodeUnschedulable(), pod(), node_change(node(unschedulable=True), node()), Hint.QUEUE, id="uncordoned"
        ),
        pytest.param(NodeUnschedulable(), pod(), node_change(node(), node()), Hint.SKIP, id="it-was-open-before"),
        pytest.param(
            TaintToleration(), pod(), node_change(node(taints=[BUSY]), node()), Hint.QUEUE, id="the-taint-was-removed"
        ),
        pytest.param(TaintToleration(), pod(), node_change(node(), node()), Hint.SKIP, id="nothing-became-tolerable"),
        pytest.param(
            TaintToleration(), pod(), node_change(None, node(taints=[BUSY])), Hint.SKIP, id="a-tainted-node-came"
        ),
        pytest.param(
            NodeAffinity(),
            pod(nodeSelector={"gpu": "a100"}),
            node_change(node(), node(labels={"gpu": "a100"}), Action.UPDATE_NODE_LABEL),
            Hint.QUEUE,
            id="the-label-came",
        ),
        pytest.param(
            NodeAffinity(),
            pod(nodeSelector={"gpu": "a100"}),
            node_change(node(labels={"gpu": "a100"}), node(labels={"gpu": "a100", "x": "y"}), Action.UPDATE_NODE_LABEL),
            Hint.SKIP,
            id="it-matched-before",
        ),
        pytest.param(
            NodeResourcesFit(),
            requesting({"cpu": "2"}),
            node_change(None, node(allocatable={"cpu": "1"})),
            Hint.SKIP,
            id="a-node-too-small-came",
        ),
        pytest.param(
            NodeResourcesFit(),
            requesting({"cpu": "2"}),
            node_change(None, node(allocatable={"cpu": "2"})),
            Hint.QUEUE,
            id="a-node-large-enough-came",
        ),
        pytest.param(
            NodeResourcesFit(),
            requesting({"cpu": "2"}),
            grown({"cpu": "2"}, {"cpu": "2", "memory": "1Gi"}),
            Hint.SKIP,
            id="only-something-grew-that-it-does-not-want",
        ),
        pytest.param(
            NodeResourcesFit(),
            requesting({"cpu": "2"}),
            grown({"cpu": "2"}, {"cpu": "3"}),
            Hint.QUEUE,
            id="what-it-wants-grew",
        ),
        pytest.param(
            NodeResourcesFit(),
            requesting({"cpu": "1"}),
            ClusterEvent(
                Resource.POD, Action.UPDATE_POD_SCALE_DOWN, requesting({"cpu": "2"}), requesting({"cpu": "1"})
            ),
            Hint.QUEUE,
            id="the-pod-itself-shrank",
        ),
        pytest.param(
            SchedulingGates(),
            pod(),
            ClusterEvent(Resource.POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, pod(), pod()),
            Hint.QUEUE,
            id="the-gates-went",
        ),
        pytest.param(
            SchedulingGates(),
            pod(),
            ClusterEvent(Resource.POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, pod("b"), pod("b")),
            Hint.SKIP,
            id="the-gates-of-another-pod-went",
        ),
        pytest.param(
            TaintToleration(),
            pod(),
            ClusterEvent(Resource.POD, Action.UPDATE_POD_TOLERATION, pod(), pod(tolerations=[CORDON])),
            Hint.QUEUE,
            id="it-tolerates-more",
        ),
        pytest.param(
            NodeUnschedulable(),
            pod(),
            ClusterEvent(Resource.POD, Action.UPDATE_POD_TOLERATION, pod(), pod(tolerations=[{"key": "x"}])),
            Hint.SKIP,
            id="it-tolerates-something-else",
        ),
    ],
)
def test_hint(plugin, one, change, want) -> None:
    assert any(change.resource is resource and change.action & mask for resource, mask in plugin.wakes_on)
    assert plugin.hint(one, change, VIEW) is want


@pytest.mark.parametrize(
    ("nominated", "before", "now", "want"),
    [
        pytest.param("node", "4", "1", Hint.QUEUE, id="its-node-has-become-too-small"),
        pytest.param("other", "4", "1", Hint.SKIP, id="it-waits-for-another"),
        pytest.param("node", "1500m", "1", Hint.SKIP, id="its-node-was-too-small-before"),
    ],
)
def test_3_8_fit_wakes_who_waits_for_a_node_that_shrank(nominated, before, now, want) -> None:
    waiting = pod(
        containers=[{"name": "c", "resources": {"requests": {"cpu": "2"}}}], status={"nominatedNodeName": nominated}
    )
    nodes = node(allocatable={"cpu": before}), node(allocatable={"cpu": now})
    assert NodeResourcesFit().hint(waiting, node_change(*nodes, Action.UPDATE_NODE_ALLOCATABLE), VIEW) is want


@pytest.mark.parametrize(
    ("running", "gone", "want"),
    [
        pytest.param([], ASSIGNED, Hint.QUEUE, id="there-is-room-where-it-went"),
        pytest.param([requesting({"cpu": "1"}, "c")], ASSIGNED, Hint.SKIP, id="there-is-none-where-it-went"),
        pytest.param([ASSIGNED], ASSIGNED, Hint.QUEUE, id="the-sums-do-not-tell-the-change-yet"),
        pytest.param([], pod("other", nodeName="gone"), Hint.QUEUE, id="its-node-is-not-known"),
    ],
)
def test_fit_wakes_on_deletions_that_make_room(running, gone, want) -> None:
    view = Cluster(node_info(allocatable={"cpu": "2"}, pods=running))
    change = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE, gone, None)
    assert NodeResourcesFit().hint(requesting({"cpu": "2"}), change, view) is want


def test_shapes_tell_apart_what_verdicts_read_and_nothing_else() -> None:
    def signature(plugin, **spec):
        cycle = cycle_of(msgspec.structs.replace(pod(**spec)))
        if hasattr(plugin, "pre_filter"):
            plugin.pre_filter(cycle, VIEW)
        return plugin.signature(cycle, VIEW)

    requests = [{"name": "c", "image": "a", "resources": {"requests": {"cpu": "1"}}}]
    same = [{"name": "other", "image": "b", "resources": {"requests": {"cpu": "1000m"}}}]
    more = [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]
    assert signature(NodeResourcesFit(), containers=requests) == signature(NodeResourcesFit(), containers=same)
    assert signature(NodeResourcesFit(), containers=requests) != signature(NodeResourcesFit(), containers=more)
    assert signature(TaintToleration(), tolerations=[CORDON]) != signature(TaintToleration())
    assert signature(NodeUnschedulable(), tolerations=[{"key": "x"}]) == signature(NodeUnschedulable())
    assert signature(NodeAffinity(), nodeSelector={"a": "b"}) != signature(NodeAffinity(), nodeSelector={"a": "c"})
