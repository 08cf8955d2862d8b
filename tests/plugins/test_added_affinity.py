"""NodeAffinity's argument addedAffinity: what all pods require and prefer besides their own."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.framework.api import Action, ClusterEvent, Hint, Resource
from scheduler.framework.status import Code
from scheduler.model.objects import NodeAffinityTerms
from scheduler.plugins.node_affinity import REASON, REASON_ADDED, NodeAffinity, argument_errors
from tests.plugins.asking import VIEW, filter_verdict, scores
from tests.plugins.objects import node, node_info, pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def term(key, *values, operator="In"):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def with_added(*required, preferred=()):
    terms = {REQUIRED: {"nodeSelectorTerms": list(required)}} if required else {}
    weighted = [{"weight": weight, "preference": one} for weight, one in preferred]
    return NodeAffinity(added_affinity=msgspec.convert({**terms, PREFERRED: weighted}, NodeAffinityTerms))


GPU = pod(nodeSelector={"gpu": "a100"})
ON_GPUS = with_added(term("pool", "gpu"))


@pytest.mark.parametrize(
    ("one", "labels", "reason"),
    [
        pytest.param(pod(), {"pool": "gpu"}, "", id="a-pod-without-affinity-on-the-pool"),
        pytest.param(pod(), {}, REASON_ADDED, id="a-pod-without-affinity-elsewhere"),
        pytest.param(GPU, {"pool": "gpu", "gpu": "a100"}, "", id="both-match"),
        pytest.param(GPU, {"pool": "gpu"}, REASON, id="only-the-added-matches"),
        pytest.param(GPU, {"gpu": "a100"}, REASON_ADDED, id="only-its-own-matches"),
        pytest.param(GPU, {}, REASON_ADDED, id="the-added-is-told-first"),
    ],
)
def test_it_is_required_of_every_pod(one, labels, reason) -> None:
    verdict = filter_verdict(ON_GPUS, one, node_info(labels=labels))
    wanted = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if reason else Code.SUCCESS
    assert (verdict.code, verdict.message) == (wanted, reason)


def test_an_empty_list_of_terms_matches_no_node() -> None:
    plugin = NodeAffinity(added_affinity=msgspec.convert({REQUIRED: {"nodeSelectorTerms": []}}, NodeAffinityTerms))
    assert filter_verdict(plugin, pod(), node_info()).message == REASON_ADDED


def test_preferences_of_both_add_up() -> None:
    plugin = with_added(preferred=[(30, term("zone", "x"))])
    own = {"nodeAffinity": {PREFERRED: [{"weight": 10, "preference": term("gpu", "a100")}]}}
    infos = [
        node_info("both", labels={"gpu": "a100", "zone": "x"}),
        node_info("zone", labels={"zone": "x"}),
        node_info("gpu", labels={"gpu": "a100"}),
        node_info("none"),
    ]
    assert scores(plugin, pod(affinity=own), *infos) == [100, 75, 25, 0]
    assert scores(plugin, pod(), *infos) == [100, 100, 0, 0]


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(None, {"pool": "gpu", "gpu": "a100"}, Hint.QUEUE, id="a-node-came"),
        pytest.param(None, {"gpu": "a100"}, Hint.SKIP, id="a-node-of-another-pool-came"),
        pytest.param({"pool": "gpu"}, {"pool": "gpu", "gpu": "a100"}, Hint.QUEUE, id="its-own-came-to-match"),
        pytest.param({"gpu": "a100"}, {"pool": "gpu", "gpu": "a100"}, Hint.QUEUE, id="the-added-came-to-match"),
        pytest.param({"pool": "gpu", "gpu": "a100"}, {"pool": "gpu", "gpu": "a100", "x": ""}, Hint.SKIP, id="matched"),
    ],
)
def test_hint(old, new, want) -> None:
    before = node(labels=old) if old is not None else None
    change = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL, before, node(labels=new))
    assert ON_GPUS.hint(GPU, change, VIEW) is want


@pytest.mark.parametrize(
    ("plugin", "errors"),
    [
        pytest.param(NodeAffinity(), [], id="none"),
        pytest.param(ON_GPUS, [], id="right"),
        pytest.param(
            with_added(term("pool", "gpu"), term("pool"), term("pool", operator="Near")),
            [
                f"addedAffinity.{REQUIRED}.nodeSelectorTerms[1].matchExpressions[0].values: Invalid value: []: "
                "for 'in', 'notin' operators, values set can't be empty",
                f"addedAffinity.{REQUIRED}.nodeSelectorTerms[2].matchExpressions[0].operator: Unsupported value: "
                '"Near": supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"',
            ],
            id="required",
        ),
        pytest.param(
            with_added(preferred=[(0, term("pool")), (1, term("pool", "x", "y", operator="Gt"))]),
            [
                f"addedAffinity.{PREFERRED}[1].matchExpressions[0].values: Invalid value: "
                "[\"x\",\"y\"]: for 'Gt', 'Lt' operators, exactly one value is required"
            ],
            id="preferred",
        ),
    ],
)
def test_wrong_arguments_are_named_in_upstreams_words(plugin, errors) -> None:
    assert [str(error) for error in argument_errors(plugin)] == errors
