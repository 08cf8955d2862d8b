"""What a pod gets from its PriorityClass, and which classes and PodDisruptionBudgets the API server refuses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded.rest_client import RestClient, pod

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def priority_class(name: str, value: int = 100, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "value": value, **fields}


async def test_a_pod_gets_what_its_class_has(api: RestClient) -> None:
    name = f"{api.namespace}-high"
    await api.created(CLASSES, priority_class(name, 1000, preemptionPolicy="Never"))
    made = await api.created(api.pods, pod("a", priorityClassName=name))
    assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (1000, "Never")
    same = await api.created(api.pods, pod("b", priorityClassName=name, priority=1000, preemptionPolicy="Never"))
    assert same["spec"]["priority"] == 1000
    plain = await api.created(api.pods, pod("c"))
    assert (plain["spec"]["priority"], plain["spec"]["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert "priorityClassName" not in plain["spec"]
    await api.delete(f"{CLASSES}/{name}")


async def test_system_classes_exist(api: RestClient) -> None:
    made = await api.created(api.pods, pod("a", priorityClassName="system-node-critical"))
    assert made["spec"]["priority"] == 2_000_001_000
    assert (await api.get(f"{CLASSES}/system-cluster-critical"))["value"] == 2_000_000_000


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (
            {"priority": 7},
            "the integer value of priority (7) must not be provided in pod spec; priority admission controller "
            "computed 0 from the given PriorityClass name",
        ),
        (
            {"preemptionPolicy": "Never"},
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission "
            "controller computed PreemptLowerPriority from the given PriorityClass name",
        ),
        ({"priorityClassName": "nobody-has-it"}, "no PriorityClass with name nobody-has-it was found"),
    ],
    ids=["priority", "policy", "class"],
)
async def test_a_pod_with_values_of_its_own_is_refused(api: RestClient, spec: dict[str, Any], why: str) -> None:
    answer = await api.post(api.pods, pod("a", **spec))
    assert (answer.status, answer["reason"]) == (403, "Forbidden")
    assert answer["message"] == f'pods "a" is forbidden: {why}'


async def test_pods_that_name_no_class_get_the_default_one_and_there_is_only_one(api: RestClient) -> None:
    first, second = f"{api.namespace}-first", f"{api.namespace}-second"
    await api.created(CLASSES, priority_class(first, 5, globalDefault=True))
    try:
        await api.eventually(f"{CLASSES}/{first}", lambda answer: answer.status == 200)
        answer = await api.post(CLASSES, priority_class(second, 6, globalDefault=True))
        # The real server's admission reads a cache, and may accept the second one for a moment.
        if api.kind == "embedded" or answer.status != 201:
            assert answer["message"] == (
                f'priorityclasses.scheduling.k8s.io "{second}" is forbidden: PriorityClass {first} is already marked '
                "as default. Only one default can exist"
            )
        made = await api.created(api.pods, pod("a"))
        if api.kind == "embedded":
            assert (made["spec"]["priorityClassName"], made["spec"]["priority"]) == (first, 5)
        changed = await api.patch(f"{CLASSES}/{first}", {"description": "the default"})
        assert changed.status == 200
    finally:
        await api.delete(f"{CLASSES}/{first}")
        await api.delete(f"{CLASSES}/{second}")


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        (priority_class("system-mine"), ("FieldValueForbidden", "metadata.name")),
        (priority_class("mine", 1_000_000_001), ("FieldValueForbidden", "value")),
        (priority_class("mine", preemptionPolicy="Sometimes"), ("FieldValueNotSupported", "preemptionPolicy")),
    ],
    ids=["system-name", "too-high", "policy"],
)
async def test_classes_that_are_refused(api: RestClient, fields: dict[str, Any], cause: tuple[str, str]) -> None:
    answer = await api.post(CLASSES, fields)
    assert answer.status == 422
    assert answer.causes == {cause}


async def test_the_value_of_a_class_stays(api: RestClient) -> None:
    name = f"{api.namespace}-fixed"
    await api.created(CLASSES, priority_class(name, 1))
    answer = await api.patch(f"{CLASSES}/{name}", {"value": 2, "preemptionPolicy": "Never"})
    assert (answer.status, answer.causes) == (
        422,
        {("FieldValueForbidden", "value"), ("FieldValueInvalid", "preemptionPolicy")},
    )
    await api.delete(f"{CLASSES}/{name}")


# -- PodDisruptionBudgets --------------------------------------------------------------------------


def budget(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec}}


def budgets(api: RestClient) -> str:
    return f"/apis/policy/v1/namespaces/{api.namespace}/poddisruptionbudgets"


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({"minAvailable": 1, "maxUnavailable": 1}, {("FieldValueInvalid", "spec")}),
        ({"minAvailable": -1}, {("FieldValueInvalid", "spec.minAvailable")}),
        ({"maxUnavailable": "half"}, {("FieldValueInvalid", "spec.maxUnavailable")}),
        ({"maxUnavailable": "101%"}, {("FieldValueInvalid", "spec.maxUnavailable")}),
        (
            {"selector": {"matchExpressions": [{"key": "app", "operator": "In"}]}},
            {("FieldValueRequired", "spec.selector.matchExpressions[0].values")},
        ),
        (
            {"selector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}},
            {("FieldValueInvalid", "spec.selector.matchExpressions[0].operator")},
        ),
        (
            {"selector": {"matchExpressions": [{"key": "app", "operator": "Gt", "values": ["1"]}]}},
            {("FieldValueInvalid", "spec.selector.matchExpressions[0].operator")},
        ),
        ({"unhealthyPodEvictionPolicy": "Perhaps"}, {("FieldValueNotSupported", "spec.unhealthyPodEvictionPolicy")}),
    ],
    ids=["both", "negative", "no-percentage", "too-much", "no-values", "operator", "operator-of-nodes", "policy"],
)
async def test_budgets_that_are_refused(api: RestClient, spec: dict[str, Any], causes: set[tuple[str, str]]) -> None:
    answer = await api.post(budgets(api), budget(**spec))
    assert answer.status == 422, answer
    assert answer.causes == causes


async def test_a_budget_starts_without_a_status_of_its_own(api: RestClient) -> None:
    made = await api.created(budgets(api), {**budget(minAvailable=1), "status": {"disruptionsAllowed": 9}})
    assert made["metadata"]["generation"] == 1
    assert made["status"]["disruptionsAllowed"] == 0
    unconditional = {**budget(minAvailable=2), "apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    assert (await api.put(f"{budgets(api)}/web", unconditional)).status == 422
    changed = await api.patch(f"{budgets(api)}/web", {"spec": {"minAvailable": 2}})
    assert changed["metadata"]["generation"] == 2
