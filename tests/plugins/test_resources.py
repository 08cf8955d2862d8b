"""Requests of pods: upstream's rules as a table, and laws against a slow implementation in fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.node_info import NodeInfo
from scheduler.model.resources import (
    counted_amounts,
    is_extended_resource,
    node_allocatable,
    pod_amounts,
)
from tests.plugins.objects import node, node_info, pod, requesting

GPU = "example.com/gpu"


def container(restart=None, **amounts):
    requests = {name.replace("_", "-"): amount for name, amount in amounts.items()}
    return {"name": "c", "resources": {"requests": requests}} | ({"restartPolicy": restart} if restart else {})


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, {}, id="no-containers-need-nothing"),
        pytest.param(
            {"containers": [container(cpu="250m", memory="1Gi"), container(cpu="1", memory="512Mi")]},
            {"cpu": 1250, "memory": 1536 * 2**20},
            id="regular-containers-add-up",
        ),
        pytest.param(
            {"containers": [container(cpu="0.4m"), container(cpu="0.4m")]},
            {"cpu": 1},
            id="rounded-up-once-and-not-per-container",
        ),
        pytest.param(
            {"containers": [container(cpu="1", memory="3G")], "initContainers": [container(cpu="2", memory="1G")]},
            {"cpu": 2000, "memory": 3 * 10**9},
            id="an-init-container-counts-only-where-it-is-larger",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [container("Always", cpu="2"), container(cpu="2500m")],
            },
            {"cpu": 4500},
            id="an-init-container-runs-beside-the-sidecars-started-before-it",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [container(cpu="2500m"), container("Always", cpu="2")],
            },
            {"cpu": 3000},
            id="a-sidecar-started-later-does-not-count-with-it",
        ),
        pytest.param(
            {"containers": [container(cpu="1", memory="1Gi")], "overhead": {"cpu": "250m"}},
            {"cpu": 1250, "memory": 2**30},
            id="overhead-is-added",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1", memory="1Gi")],
                "resources": {"requests": {"cpu": "3", GPU: "7"}},
                "overhead": {"cpu": "1"},
            },
            {"cpu": 4000, "memory": 2**30},
            id="pod-level-requests-replace-cpu-and-overhead-comes-on-top",
        ),
        pytest.param(
            {"containers": [{"name": "c", "resources": {"requests": {GPU: "2", "hugepages-2Mi": "4Mi", "foo": "1"}}}]},
            {GPU: 2, "hugepages-2Mi": 4 * 2**20},
            id="scalar-resources-count-and-unknown-names-do-not",
        ),
        pytest.param({"containers": [container(cpu=2)]}, {"cpu": 2000}, id="a-bare-json-number-is-a-quantity"),
        pytest.param({"containers": [container(cpu="0")]}, {"cpu": 0}, id="a-request-of-zero-is-kept"),
        pytest.param(
            {"containers": [container(cpu="two", memory="1Gi")]},
            {"memory": 2**30},
            id="an-unreadable-amount-is-left-out",
        ),
    ],
)
def test_pod_requests(spec, want) -> None:
    assert pod_amounts(pod(**spec)).requests == want


def test_scoring_assumes_amounts_for_containers_that_ask_for_none() -> None:
    both = pod(containers=[container(), container(cpu="1")], initContainers=[container()])
    assert pod_amounts(both).scoring == {"cpu": 1100, "memory": 2 * 200 * 2**20}


def test_problems_name_the_field() -> None:
    broken = pod(initContainers=[container(cpu="1")], containers=[container(memory="1 GB")], overhead={"cpu": "?"})
    assert pod_amounts(broken).problems == (
        'spec.containers[0].resources.requests["memory"]: "1 GB" is not a quantity (use forms like 500m, 2 or 1Gi)',
        'spec.overhead["cpu"]: "?" is not a quantity (use forms like 500m, 2 or 1Gi)',
    )
    assert pod_amounts(requesting({"cpu": "1"})).problems == ()


def test_node_allocatable_counts_pods_too() -> None:
    found = node_allocatable(node(allocatable={"cpu": "3900m", "memory": "16Gi", GPU: "8", "storage": "1"}))
    assert found == {"pods": 110, "cpu": 3900, "memory": 16 * 2**30, GPU: 8}


@pytest.mark.parametrize(
    ("name", "want"),
    [
        (GPU, True),
        ("cpu", False),
        ("hugepages-2Mi", False),
        ("kubernetes.io/batteries", False),
        ("deviceclass.resource.kubernetes.io/gpu", False),
        ("requests.example.com/gpu", False),
    ],
)
def test_is_extended_resource(name, want) -> None:
    assert is_extended_resource(name) is want


# --- laws -------------------------------------------------------------------------------------------------------------

SUFFIXES = {"": 1, "m": Fraction(1, 1000), "u": Fraction(1, 10**6), "k": 1000, "Ki": 1024, "Mi": 2**20, "Gi": 2**30}
quantities = st.tuples(st.integers(0, 5000), st.sampled_from(sorted(SUFFIXES)))
resource_lists = st.dictionaries(st.sampled_from(["cpu", "memory", "ephemeral-storage", GPU]), quantities, max_size=3)
sidecar_flags = st.sampled_from([None, "Always"])


@st.composite
def pods(draw):
    def containers(most, restarts):
        count = draw(st.integers(0, most))
        return [(draw(restarts), draw(resource_lists)) for _ in range(count)]

    return {
        "containers": containers(3, st.none()),
        "initContainers": containers(3, sidecar_flags),
        "overhead": draw(resource_lists),
    }


def as_json(model, name="p"):
    def text(amounts):
        return {resource: f"{number}{suffix}" for resource, (number, suffix) in amounts.items()}

    def listed(field):
        return [
            {"name": "c", "resources": {"requests": text(amounts)}} | ({"restartPolicy": restart} if restart else {})
            for restart, amounts in model[field]
        ]

    return pod(
        name,
        containers=listed("containers"),
        initContainers=listed("initContainers"),
        overhead=text(model["overhead"]),
    )


def slow_requests(model):
    """The rule in one sentence per line, resource by resource, in fractions."""

    def value(amounts, resource):
        number, suffix = amounts.get(resource, (0, ""))
        return number * Fraction(SUFFIXES[suffix])

    lists = [amounts for field in ("containers", "initContainers") for _, amounts in model[field]] + [model["overhead"]]
    want = {}
    for resource in {name for amounts in lists for name in amounts}:
        running = sum((value(amounts, resource) for _, amounts in model["containers"]), Fraction(0))
        sidecars, peak = Fraction(0), Fraction(0)
        for restart, amounts in model["initContainers"]:
            peak = max(peak, sidecars + value(amounts, resource))
            if restart == "Always":
                sidecars += value(amounts, resource)
        total = max(running + sidecars, peak) + value(model["overhead"], resource)
        want[resource] = math.ceil(total * 1000 if resource == "cpu" else total)
    return want


@settings(deadline=None)
@given(pods())
def test_agrees_with_the_slow_rule(model) -> None:
    assert pod_amounts(as_json(model)).requests == slow_requests(model)


@settings(deadline=None)
@given(pods())
def test_scoring_never_counts_less_than_is_requested(model) -> None:
    amounts = pod_amounts(as_json(model))
    wanted, scored = amounts.requests, amounts.scoring
    assert all(scored[name] >= amount for name, amount in wanted.items())


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(pods(), max_size=5), st.randoms(use_true_random=False))
def test_node_sums_do_not_remember_who_came_and_went(models, rnd) -> None:
    stay = [as_json(model, f"p{index}") for index, model in enumerate(models)]
    info = node_info(pods=stay)
    for leaving in rnd.sample(stay, len(stay) // 2):
        assert info.remove_pod(leaving.uid) is leaving
        assert info.remove_pod(leaving.uid) is None
    fresh = NodeInfo(node())
    for running in stay:
        if running.uid in info.pods:
            fresh.add_pod(running)
            fresh.add_pod(running)  # the same pod again counts once
    assert (info.requested, info.scoring_requested) == (fresh.requested, fresh.scoring_requested)
    assert info.requested.get("pods", 0) == len(info.pods)


# --- resizing in place ------------------------------------------------------------------------------------------------


def reported(running=None, admitted=None, name="c"):
    """What the kubelet says of a container."""
    resources = {"requests": running} if running is not None else None
    return {"name": name, "resources": resources, "allocatedResources": admitted}


INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
DEFERRED = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]
TWO = {"containers": [container(cpu="2")]}


@pytest.mark.parametrize(
    ("spec", "status", "want"),
    [
        pytest.param(TWO, {"containerStatuses": [reported({"cpu": "1"})]}, 2000, id="growing"),
        pytest.param(TWO, {"containerStatuses": [reported({"cpu": "3"}, {"cpu": "2"})]}, 3000, id="shrinking"),
        pytest.param(TWO, {"containerStatuses": [reported({"cpu": "1"}, {"cpu": "2500m"})]}, 2500, id="admitted"),
        pytest.param(TWO, {"containerStatuses": [reported(None, {"cpu": "3"})]}, 3000, id="nothing-runs-yet"),
        pytest.param(TWO, {"containerStatuses": [reported({"cpu": "3"}, name="d")]}, 2000, id="another-container"),
        pytest.param(TWO, {"containerStatuses": [reported({"cpu": "?"})]}, 2000, id="unreadable-is-nothing"),
        pytest.param(
            TWO, {"containerStatuses": [reported({"cpu": "1"}, {"cpu": "1"})], "conditions": DEFERRED}, 2000, id="later"
        ),
        pytest.param(
            TWO,
            {"containerStatuses": [reported({"cpu": "1"}, {"cpu": "1"})], "conditions": INFEASIBLE},
            1000,
            id="never",
        ),
        pytest.param(
            {"initContainers": [container("Always", cpu="2")]},
            {"initContainerStatuses": [reported({"cpu": "3"})]},
            3000,
            id="a-sidecar-is-resized",
        ),
        pytest.param(
            {"initContainers": [container(cpu="2")]},
            {"initContainerStatuses": [reported({"cpu": "3"})]},
            3000,
            id="an-init-container-that-ends-too",
        ),
        pytest.param(
            {**TWO, "resources": {"requests": {"cpu": "4"}}},
            {"resources": {"requests": {"cpu": "5"}}, "allocatedResources": {"cpu": "6"}},
            6000,
            id="the-pod-as-a-whole",
        ),
        pytest.param(
            {**TWO, "resources": {"requests": {"cpu": "4"}}},
            {"resources": {"requests": {"cpu": "3"}}, "conditions": INFEASIBLE},
            3000,
            id="the-pod-as-a-whole-never",
        ),
        pytest.param(
            TWO,
            {"resources": {"requests": {"cpu": "5"}}},
            2000,
            id="a-status-of-the-pod-without-admitted-is-nothing",
        ),
        pytest.param(
            {**TWO, "overhead": {"cpu": "1"}},
            {"resources": {"requests": {"cpu": "5"}}, "allocatedResources": {"cpu": "3"}},
            6000,
            id="a-status-of-the-pod-as-1-37-writes-it",
        ),
    ],
)
def test_a_pod_that_is_resized_counts_with_the_largest(spec, status, want) -> None:
    one = pod(**spec, status=status)
    assert counted_amounts(one).requests == {"cpu": want}
    assert pod_amounts(one).requests == pod_amounts(pod(**spec)).requests


@pytest.mark.parametrize(
    ("level", "containers", "scoring"),
    [
        pytest.param({}, [container(), container(cpu="1")], {"cpu": 1100, "memory": 400 * 2**20}, id="none"),
        pytest.param({"cpu": "2"}, [container(), container(cpu="1")], {"cpu": 2000, "memory": 400 * 2**20}, id="cpu"),
        pytest.param(
            {"memory": "1Gi"}, [container(), container(cpu="1")], {"cpu": 1000, "memory": 2**30}, id="asked-somewhere"
        ),
        pytest.param({"hugepages-2Mi": "2Mi"}, [container()],
                     {"cpu": 100, "memory": 200 * 2**20, "hugepages-2Mi": 2**21}, id="hugepages"),
        pytest.param({GPU: "1"}, [container()], {"cpu": 100, "memory": 200 * 2**20}, id="not-a-pod-level-resource"),
    ],
)  # fmt: skip
def test_what_is_assumed_beside_pod_level_requests(level, containers, scoring) -> None:
    amounts = pod_amounts(pod(resources={"requests": level}, containers=containers))
    assert amounts.scoring == scoring
    assert amounts.scoring_itself == pod_amounts(pod(containers=containers)).scoring
