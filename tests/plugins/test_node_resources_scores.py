"""NodeResourcesFit's and NodeResourcesBalancedAllocation's scores and arguments."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.framework.api import Action, ClusterEvent, Hint, Resource
from scheduler.framework.status import Code
from scheduler.plugins import node_resources_balanced_allocation, node_resources_fit
from scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from scheduler.plugins.node_resources_fit import NodeResourcesFit
from scheduler.plugins.scoring_strategies import (
    RequestedToCapacityRatio,
    ResourceSpec,
    ScoringStrategy,
    ShapePoint,
    strategy_score,
)
from tests.plugins.asking import VIEW, filter_verdict, scores
from tests.plugins.cluster import cycle_of
from tests.plugins.objects import node, node_info, pod, requesting

GPU, FPGA = "example.com/gpu", "example.com/fpga"
FULL, EMPTY = [(0, 0), (100, 10)], [(0, 10), (100, 0)]


def scored(kind="LeastAllocated", *resources, shape=None):
    """The plugin with a strategy over (name, weight) of resources."""
    listed = [{"name": name, "weight": weight} for name, weight in resources or [("cpu", 1), ("memory", 1)]]
    points = {"shape": [{"utilization": at, "score": score} for at, score in shape]} if shape is not None else None
    given = {"type": kind, "resources": listed, "requestedToCapacityRatio": points}
    return NodeResourcesFit(scoring_strategy=msgspec.convert(given, ScoringStrategy))


def ratio(shape, *resources):
    return scored("RequestedToCapacityRatio", *resources, shape=shape)


LEAST, MOST = scored(), scored("MostAllocated")


@pytest.mark.parametrize(
    ("plugin", "one", "allocatable", "running", "want"),
    [
        pytest.param(LEAST, {"cpu": "1", "memory": "1Gi"}, {"cpu": "4", "memory": "4Gi"}, {}, 75, id="a-quarter-used"),
        pytest.param(LEAST, {"cpu": "1", "memory": "1Gi"}, {"cpu": "4", "memory": "2Gi"}, {}, 62, id="rounded-down"),
        pytest.param(
            LEAST, {"cpu": "1", "memory": "1Gi"}, {"cpu": "4", "memory": "4Gi"}, {"cpu": "1"}, 60, id="others-count"
        ),
        pytest.param(LEAST, {}, {"cpu": "1", "memory": "400Mi"}, {}, 70, id="no-requests-count-as-100m-and-200Mi"),
        pytest.param(LEAST, {"cpu": "1"}, {"cpu": "4"}, {}, 75, id="a-resource-the-node-lacks-is-left-out"),
        pytest.param(LEAST, {"cpu": "4"}, {"cpu": "4", "memory": "200Mi"}, {"cpu": "1"}, 0, id="overcommitted-is-0"),
        pytest.param(LEAST, {"cpu": "1"}, {}, {}, 0, id="nothing-known-is-0"),
        pytest.param(MOST, {"cpu": "1", "memory": "1Gi"}, {"cpu": "4", "memory": "2Gi"}, {}, 37, id="most-down"),
        pytest.param(MOST, {"cpu": "4"}, {"cpu": "2"}, {}, 100, id="most-overcommitted-is-full"),
        pytest.param(scored("MostAllocated", ("cpu", 3), ("memory", 1)), {"cpu": "1", "memory": "2Gi"},
                     {"cpu": "4", "memory": "2Gi"}, {}, 43, id="most-by-weight"),
        pytest.param(ratio(FULL, ("cpu", 1)), {"cpu": "1"}, {"cpu": "4"}, {}, 25, id="ratio-fuller-is-better"),
        pytest.param(ratio(EMPTY, ("cpu", 1)), {"cpu": "1"}, {"cpu": "4"}, {}, 75, id="ratio-emptier-is-better"),
        pytest.param(ratio([(0, 0), (30, 10), (60, 3)], ("cpu", 1)), {"cpu": "45"}, {"cpu": "100"}, {}, 65,
                     id="ratio-between-points"),
        pytest.param(ratio([(0, 10), (30, 0)], ("cpu", 1)), {"cpu": "1"}, {"cpu": "100"}, {}, 97,
                     id="ratio-falls-rounded-towards-zero"),
        pytest.param(ratio([(20, 4), (60, 8)], ("cpu", 1)), {"cpu": "1"}, {"cpu": "10"}, {}, 40, id="ratio-before-all"),
        pytest.param(ratio([(20, 4), (60, 8)], ("cpu", 1)), {"cpu": "9"}, {"cpu": "10"}, {}, 80, id="ratio-after-all"),
        pytest.param(ratio(FULL), {"cpu": "4"}, {"cpu": "2", "memory": "100Gi"}, {}, 100,
                     id="ratio-a-resource-that-scores-0-does-not-count"),
        pytest.param(ratio(EMPTY), {"cpu": "4", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}, {}, 0,
                     id="ratio-nothing-that-scores"),
        pytest.param(ratio(FULL), {"cpu": "1", "memory": "2Mi"}, {"cpu": "100", "memory": "100Mi"}, {}, 2,
                     id="ratio-half-is-rounded-up"),
        pytest.param(scored("LeastAllocated", ("cpu", 1), (GPU, 3)), {"cpu": "1"}, {"cpu": "4", GPU: "4"}, {}, 75,
                     id="an-extended-resource-that-is-not-asked-for-does-not-count"),
        pytest.param(scored("LeastAllocated", ("cpu", 1), (GPU, 3)), {"cpu": "1", GPU: "4"}, {"cpu": "4", GPU: "4"}, {},
                     18, id="one-that-is-asked-for-does"),
        pytest.param(scored("LeastAllocated", ("pods", 1), ("ephemeral-storage", 1)), {}, {"ephemeral-storage": "4Gi"},
                     {"ephemeral-storage": "1Gi"}, 75, id="ephemeral-storage-counts-always-and-pods-never"),
    ],
)  # fmt: skip
def test_fit_scores(plugin, one, allocatable, running, want) -> None:
    pods = [requesting(running, "other")] if running else []
    assert scores(plugin, requesting(one), node_info(allocatable=allocatable, pods=pods)) == [want]


def test_pod_level_requests_of_the_pod_itself_do_not_count_and_those_of_others_do() -> None:
    level = {"resources": {"requests": {"cpu": "2", "memory": "400Mi"}}, "containers": [{"name": "c"}]}
    room = {"cpu": "4", "memory": "800Mi"}
    assert scores(LEAST, pod(**level), node_info(allocatable=room)) == [(97 + 75) // 2]
    assert scores(LEAST, pod(), node_info(allocatable=room, pods=[pod("other", **level)])) == [50]


points = st.lists(st.integers(0, 100), min_size=1, max_size=5, unique=True).map(sorted)
shapes = points.flatmap(
    lambda at: st.tuples(*[st.tuples(st.just(one), st.integers(0, 10)) for one in at]),
)
usages = st.lists(st.tuples(st.integers(0, 300), st.integers(1, 200), st.integers(1, 100)), max_size=4)


@given(shapes, usages)
def test_scores_are_in_range_and_a_ratio_lies_between_its_points(shape, used) -> None:
    ratio_ = RequestedToCapacityRatio(tuple(ShapePoint(at, score) for at, score in shape))
    for kind in ("LeastAllocated", "MostAllocated"):
        assert 0 <= strategy_score(ScoringStrategy(kind), used) <= 100
    score = strategy_score(ScoringStrategy("RequestedToCapacityRatio", requested_to_capacity_ratio=ratio_), used)
    levels = [10 * one for _, one in shape]
    assert score == 0 or min(levels) <= score <= max(levels)


@given(usages)
def test_least_and_most_are_opposites(used) -> None:
    fitting = [one for one in used if one[0] <= one[1]]
    if fitting:
        least, most = (strategy_score(ScoringStrategy(f"{kind}Allocated"), fitting) for kind in ("Least", "Most"))
        exact = sum(Fraction(used * weight, total) for used, total, weight in fitting) / sum(one[2] for one in fitting)
        assert 98 <= least + most <= 100
        assert abs(100 * exact - most) < 2


# --- balance ----------------------------------------------------------------------------------------------------------


def balanced(*resources):
    return NodeResourcesBalancedAllocation(resources=tuple(ResourceSpec(name) for name in resources))


ROOM = {"cpu": "10", "memory": "10Gi", GPU: "4", FPGA: "4"}


@pytest.mark.parametrize(
    ("plugin", "one", "running", "want"),
    [
        pytest.param(balanced("cpu", "memory"), {}, {"cpu": "5"}, 0, id="a-pod-without-requests-is-not-scored"),
        pytest.param(balanced("cpu", "memory"), {GPU: "1"}, {}, 0, id="nor-one-that-asks-for-something-else-alone"),
        pytest.param(balanced("cpu", "memory"), {"cpu": "2", "memory": "2Gi"}, {}, 75, id="as-even-as-before"),
        pytest.param(balanced("cpu", "memory"), {"memory": "5Gi"}, {"cpu": "5"}, 87, id="more-even"),
        pytest.param(balanced("cpu", "memory"), {"cpu": "5"}, {"cpu": "5"}, 62, id="less-even"),
        pytest.param(balanced("cpu", "memory"), {"cpu": "9"}, {"cpu": "9", "memory": "10Gi"}, 77, id="at-most-all"),
        pytest.param(balanced("cpu"), {"cpu": "5"}, {}, 75, id="one-resource-is-always-even"),
        pytest.param(balanced("cpu", "memory", GPU), {"cpu": "5"}, {GPU: "4"}, 62, id="not-asked-for-does-not-count"),
        pytest.param(balanced("cpu", "memory", GPU), {"cpu": "5", "memory": "5Gi", GPU: "4"}, {}, 63, id="three"),
        pytest.param(balanced("cpu", "memory", GPU, FPGA), {FPGA: "1", GPU: "3"}, {}, 59, id="four"),
        pytest.param(balanced("cpu", "memory"), {"cpu": "0"}, {}, 0, id="zero-is-nothing"),
    ],
)
def test_balance(plugin, one, running, want) -> None:
    pods = [requesting(running, "other")] if running else []
    assert scores(plugin, requesting(one), node_info(allocatable=ROOM, pods=pods)) == [want]


amounts = st.fixed_dictionaries({}, optional={name: st.integers(0, 12).map(str) for name in ("cpu", "memory", GPU)})


@given(amounts, amounts)
def test_balance_lies_between_50_and_100_and_follows_from_the_shape(one, running) -> None:
    plugin = balanced("cpu", "memory", GPU)
    info = node_info(allocatable={"cpu": "10", "memory": "10", GPU: "10"}, pods=[requesting(running, "other")])
    (score,) = scores(plugin, requesting(one), info)
    assert 50 <= score <= 100 or (score == 0 and not any(map(int, one.values())))
    shape = plugin.signature(cycle_of(requesting(one)), VIEW)
    asked = [("cpu", 1000 * int(one.get("cpu", 0))), *((n, int(one.get(n, 0))) for n in ("memory", GPU))]
    assert shape == (tuple(item for item in asked if item[1] or item[0] != GPU) if score else ())


# --- arguments --------------------------------------------------------------------------------------------------------

IGNORING = NodeResourcesFit(ignored_resources=(GPU, "hugepages-2Mi"), ignored_resource_groups=("other.example.com",))


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({GPU: "1"}, ""),
        ({"other.example.com/nic": "1"}, ""),
        ({FPGA: "1", GPU: "1"}, f"Insufficient {FPGA}"),
        ({"hugepages-2Mi": "2Mi"}, "Insufficient hugepages-2Mi"),
    ],
)
def test_ignored_resources_reject_no_node_and_keep_nobody_asleep(asked, reason) -> None:
    one = requesting(asked)
    verdict = filter_verdict(IGNORING, one, node_info())
    came = ClusterEvent(Resource.NODE, Action.ADD, None, node())

    assert (verdict.code, verdict.message) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE if reason else Code.SUCCESS, reason)
    assert IGNORING.hint(one, came, VIEW) is (Hint.SKIP if reason else Hint.QUEUE)


@pytest.mark.parametrize(
    ("plugin", "errors"),
    [
        pytest.param(NodeResourcesFit(), [], id="defaults"),
        pytest.param(ratio(FULL), [], id="ratio"),
        pytest.param(
            NodeResourcesFit(ignored_resources=("a b",), ignored_resource_groups=("a/b", "ok")),
            ['ignoredResources[0]: Invalid value: "a b"', 'ignoredResourceGroups[0]: Invalid value: "a/b": '
             "resource group name can't contain '/'"],
            id="names",
        ),
        pytest.param(
            scored("Most", ("cpu", 0), ("memory", 101), ("x", 100)),
            ['scoringStrategy.type: Unsupported value: "Most": supported values: "LeastAllocated", "MostAllocated", '
             '"RequestedToCapacityRatio"',
             "scoringStrategy.resources[0].weight: Invalid value: 0: resource weight of cpu not in valid range "
             "(0, 100]",
             "scoringStrategy.resources[1].weight: Invalid value: 101: resource weight of memory not in valid range "
             "(0, 100]"],
            id="type-and-weights",
        ),
        pytest.param(
            scored("RequestedToCapacityRatio"),
            ["scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is "
             "RequestedToCapacityRatio"],
            id="no-ratio",
        ),
        pytest.param(
            scored("MostAllocated", shape=FULL),
            ["scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not "
             "RequestedToCapacityRatio"],
            id="a-ratio-too-many",
        ),
        pytest.param(
            ratio([]),
            ["scoringStrategy.requestedToCapacityRatio.shape: Required value: at least one point must be specified"],
            id="no-points",
        ),
        pytest.param(
            ratio([(-1, 0), (50, 11), (50, 1), (101, -1)]),
            ["scoringStrategy.requestedToCapacityRatio.shape[2].utilization: Invalid value: 50: values must be sorted "
             "in increasing order",
             "scoringStrategy.requestedToCapacityRatio.shape[0].utilization: Invalid value: -1: not in valid range "
             "[0, 100]",
             "scoringStrategy.requestedToCapacityRatio.shape[1].score: Invalid value: 11: not in valid range [0, 10]",
             "scoringStrategy.requestedToCapacityRatio.shape[3].utilization: Invalid value: 101: not in valid range "
             "[0, 100]",
             "scoringStrategy.requestedToCapacityRatio.shape[3].score: Invalid value: -1: not in valid range [0, 10]"],
            id="points",
        ),
    ],
)  # fmt: skip
def test_wrong_arguments_of_fit_are_named_in_upstreams_words(plugin, errors) -> None:
    found = [str(error) for error in node_resources_fit.argument_errors(plugin)]
    assert len(found) == len(errors) or errors[0].startswith("ignored")
    for want in errors:
        assert any(error.startswith(want) for error in found), found


def test_wrong_arguments_of_balance_are_named_in_upstreams_words() -> None:
    wrong = (ResourceSpec("cpu"), ResourceSpec("cpu"), ResourceSpec("memory", 2))
    found = node_resources_balanced_allocation.argument_errors(NodeResourcesBalancedAllocation(resources=wrong))
    assert [str(error) for error in found] == [
        'resources[1].name: Duplicate value: "cpu"',
        "resources[2].weight: Invalid value: 2: must be 1",
    ]
    assert node_resources_balanced_allocation.argument_errors(NodeResourcesBalancedAllocation()) == []
