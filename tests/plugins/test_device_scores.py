"""DynamicResources' scoringStrategy: how full nodes of devices are, and what comes first."""

from __future__ import annotations

import msgspec
import pytest

from allocator import class_usage
from scheduler.config.profile_config import ProfileConfig
from scheduler.framework.status import Code
from scheduler.plugins.dynamic_resources import DynamicResources, argument_errors
from scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from scheduler.plugins.node_resources_fit import NodeResourcesFit
from scheduler.plugins.scoring_strategies import ResourceSpec, ScoringStrategy
from tests.plugins.cluster import (
    Cluster,
    allocation,
    cel,
    claim,
    cycle_of,
    exactly,
    first_available,
    gpu,
    info_of,
    node_slice,
    pod_with,
)
from tests.plugins.objects import node_info, requesting

LARGE = {"metadata": {"name": "large"}, "spec": cel("device.attributes['gpu.example.com'].size == 'large'")}


def device(name, size="small", memory="10Gi", **fields):
    return gpu(name, attributes={"size": {"string": size}}, capacity={"memory": {"value": memory}}, **fields)


def strategy(kind="MostAllocated", *resources, shape=None):
    ratio = {"shape": shape} if shape is not None else None
    listed = [{"name": name, "weight": weight} for name, weight in resources]
    return msgspec.convert({"type": kind, "resources": listed, "requestedToCapacityRatio": ratio}, ScoringStrategy)


def cluster(*claims):
    """Three nodes of four small devices and a large one; on `half` two small ones are held, on `full` all of these."""
    devices = [*(device(f"gpu-{index}") for index in range(4)), device("big", "large", "40Gi")]
    held = [
        claim("half", allocation=allocation("half", "gpu-0", "gpu-1")),
        claim("full", allocation=allocation("full", "gpu-0", "gpu-1", "gpu-2", "gpu-3")),
    ]
    nodes = ("empty", "half", "full")
    slices = [node_slice(name, *devices) for name in nodes]
    return Cluster(*map(node_info, nodes), slices=slices, classes=("gpu", LARGE), claims=[*held, *claims])


def scores(plugin, view, one, *nodes):
    """The scores of the nodes, normalized."""
    cycle = cycle_of(one)
    assert plugin.pre_filter(cycle, view).status.is_success
    infos = [info_of(view, name) for name in nodes]
    for info in infos:
        assert plugin.filter(cycle, info, view).is_success
    if plugin.pre_score(cycle, infos, view).code is Code.SKIP:
        return None
    raw = {info.name: plugin.score(cycle, info, view) for info in infos}
    plugin.normalize_score(cycle, raw)
    return list(raw.values())


@pytest.mark.parametrize(
    ("given", "request_", "want"),
    [
        pytest.param(strategy("MostAllocated", ("gpu", 1)), exactly(), [20, 60, 100], id="fuller-is-better"),
        pytest.param(strategy("LeastAllocated", ("gpu", 1)), exactly(), [80, 40, 0], id="emptier-is-better"),
        pytest.param(
            strategy(
                "RequestedToCapacityRatio", ("gpu", 1), shape=[{"utilization": 0}, {"utilization": 100, "score": 5}]
            ),
            exactly(),
            [10, 30, 50],
            id="a-shape",
        ),
        pytest.param(
            strategy("MostAllocated", ("large", 1)), exactly(device_class="large"), [100, 100, 100], id="class"
        ),
        pytest.param(
            strategy("MostAllocated", ("gpu/memory", 1)), exactly(device_class="large"), [50, 75, 100], id="capacity"
        ),
        pytest.param(
            strategy("MostAllocated", ("gpu", 1), ("gpu/memory", 3)),
            exactly(device_class="large"),
            [42, 71, 100],
            id="weights",
        ),
        pytest.param(strategy("MostAllocated", ("other", 1)), exactly(), [0, 0, 0], id="a-class-that-is-not-there"),
        pytest.param(strategy("MostAllocated", ("gpu/cores", 1)), exactly(), [0, 0, 0], id="no-such-capacity"),
    ],
)
def test_scores_follow_the_devices(given, request_, want) -> None:
    view = cluster(claim("claim", request_))
    assert scores(DynamicResources(scoring_strategy=given), view, pod_with("claim"), "empty", "half", "full") == want


def test_only_what_the_pod_takes_counts() -> None:
    view = cluster(claim("claim", exactly()))
    plugin = DynamicResources(scoring_strategy=strategy("MostAllocated", ("large", 1), ("gpu", 1)))
    assert scores(plugin, view, pod_with("claim"), "empty", "half") == [20, 60]


def test_the_users_alternatives_come_first() -> None:
    wanted = first_available("req", ("first", {"deviceClassName": "gpu", "count": 3}), ("second", {"count": 1}))
    view = cluster(claim("claim", wanted))
    most = DynamicResources(scoring_strategy=strategy("MostAllocated", ("gpu", 1)))

    empty, half, full = scores(most, view, pod_with("claim"), "empty", "half", "full")
    assert full < empty < half == 100
    assert scores(DynamicResources(), view, pod_with("claim"), "empty", "half", "full") == [100, 100, 87]


def test_off_unless_configured() -> None:
    assert scores(DynamicResources(), cluster(claim("claim")), pod_with("claim"), "empty") is None


def test_shares_count_with_what_they_consume() -> None:
    shared = {"allowMultipleAllocations": True}
    one = claim("claim", exactly(capacity={"requests": {"memory": "2Gi"}}))
    share = {"shareID": "5a1f4d0c-3b0e-4a57-9d6f-0c2f6d6b7e11", "consumedCapacity": {"memory": "4Gi"}}
    other = claim("other", allocation=allocation("node", "gpu-0", **share))
    devices = (device("gpu-0", **shared), device("gpu-1", **shared))
    view = Cluster(node_info(), slices=[node_slice("node", *devices)], claims=[one, other])
    plugin = DynamicResources(scoring_strategy=strategy("MostAllocated", ("gpu/memory", 1)))

    assert scores(plugin, view, pod_with("claim"), "node") == [30]
    asked = {"inventory": view.inventory, "in_use": view.in_use, "features": view.features, "taken": {}}
    assert class_usage("gpu", info_of(view).host, **asked) == (2, 1, 0)
    assert class_usage("gpu/memory", info_of(view).host, **asked) == (20 * 2**30 * 10**9, 4 * 2**30 * 10**9, 0)


@pytest.mark.parametrize(
    ("given", "errors"),
    [
        pytest.param(None, [], id="none"),
        pytest.param(strategy("MostAllocated", ("gpu.example.com", 1), ("gpu/memory", 2)), [], id="right"),
        pytest.param(
            strategy(),
            ["scoringStrategy.resources: Required value: names of device classes, or CLASS/CAPACITY"],
            id="none",
        ),
        pytest.param(
            strategy("Most", ("gpu/", 101)),
            [
                'scoringStrategy.type: Unsupported value: "Most": supported values: "LeastAllocated", "MostAllocated", '
                '"RequestedToCapacityRatio"',
                "scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of gpu/ not in valid range "
                "(0, 100]",
                'scoringStrategy.resources[0].name: Invalid value: "gpu/": the name of a capacity must follow the '
                "slash",
            ],
            id="wrong",
        ),
    ],
)
def test_wrong_arguments_are_named(given, errors) -> None:
    assert [str(one) for one in argument_errors(DynamicResources(scoring_strategy=given))] == errors


def test_a_profile_gives_it_to_the_plugin() -> None:
    given = {"type": "MostAllocated", "resources": [{"name": "gpu"}, {"name": "gpu/memory", "weight": 2}]}
    written = [{"name": "DynamicResources", "args": {"scoringStrategy": given}}]
    profile = ProfileConfig.model_validate({"pluginConfig": written}).profile()
    (plugin,) = [one for one in profile.plugins if isinstance(one, DynamicResources)]

    assert plugin.scoring_strategy == strategy("MostAllocated", ("gpu", 1), ("gpu/memory", 2))


def extended_cluster(**fields):
    """As `cluster`, with a class behind an extended resource, which the kubelet of `plugin` serves itself."""
    nodes = ("empty", "half", "full")
    held = [
        claim("half", allocation=allocation("half", "gpu-0", "gpu-1")),
        claim("full", allocation=allocation("full", "gpu-0", "gpu-1", "gpu-2", "gpu-3")),
    ]
    slices = [node_slice(name, *(device(f"gpu-{index}") for index in range(5))) for name in nodes]
    classes = ({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": GPU, **fields}},)
    infos = [node_info(name, allocatable={"cpu": "4"}) for name in nodes]
    return Cluster(
        *infos, node_info("plugin", allocatable={"cpu": "4", GPU: "10"}), slices=slices, classes=classes, claims=held
    )


GPU = "example.com/gpu"
SCORED_BY = (ResourceSpec("cpu"), ResourceSpec(GPU))


@pytest.mark.parametrize(
    ("plugin", "want"),
    [
        (NodeResourcesFit(scoring_strategy=strategy("LeastAllocated", (GPU, 1))), [80, 40, 0, 90]),
        (NodeResourcesFit(scoring_strategy=strategy("MostAllocated", (GPU, 1))), [20, 60, 100, 10]),
        (NodeResourcesFit(scoring_strategy=strategy("LeastAllocated", ("cpu", 1), (GPU, 1))), [77, 57, 37, 82]),
        # By cpu and devices of 4 and 5, before and after: evenness 100 to 97, 80 to 82, 60 to 62; 100 to 92.
        (NodeResourcesBalancedAllocation(resources=SCORED_BY), [73, 76, 76, 71]),
    ],
)
def test_extended_resources_that_devices_serve_are_scored_by_the_devices(plugin, want):
    view = extended_cluster()
    nodes = ("empty", "half", "full", "plugin")
    cycle = cycle_of(requesting({"cpu": "1", GPU: "1"}))
    if isinstance(plugin, NodeResourcesFit):
        assert plugin.pre_filter(cycle, view).status.is_success
    assert [plugin.score(cycle, info_of(view, name), view) for name in nodes] == want


def test_without_a_class_behind_it_the_resource_is_left_out():
    plugin = NodeResourcesFit(scoring_strategy=strategy("LeastAllocated", ("cpu", 1), (GPU, 1)))
    view = extended_cluster(extendedResourceName="example.com/other")
    cycle = cycle_of(requesting({"cpu": "1", GPU: "1"}))
    assert plugin.pre_filter(cycle, view).status.is_success
    assert plugin.score(cycle, info_of(view, "full"), view) == 75
