"""The oracle itself: does it answer in the documented form, and in order."""

import pytest

from tests.oracle.client import Oracle, OracleError
from tests.oracle.fixture import oracle  # noqa: F401

pytestmark = pytest.mark.oracle

GPU = {"driver": "gpu.example.com", "attributes": {"model": {"string": "A100"}}, "capacity": {"memory": "80Gi"}}


def slice_of(*devices: dict, pool: str = "pool-a") -> dict:
    return {
        "metadata": {"name": pool},
        "spec": {
            "driver": "gpu.example.com",
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
            "nodeName": "worker-1",
            "devices": list(devices),
        },
    }


def allocate(*requests: dict, **fields: object) -> dict:
    return {
        "kind": "allocate",
        "name": "a-case",
        "node": {"metadata": {"name": "worker-1"}},
        "slices": [slice_of({"name": "dev-0"}, {"name": "dev-1"})],
        "classes": [{"metadata": {"name": "gpu"}, "spec": {}}],
        "claims": [
            {"metadata": {"namespace": "default", "name": "claim"}, "spec": {"devices": {"requests": list(requests)}}}
        ],
        **fields,
    }


def request(count: int = 1) -> dict:
    return {"name": "r0", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}}


def test_allocate_picks_the_first_free_device(oracle: Oracle) -> None:  # noqa: F811
    in_use = [{"driver": "gpu.example.com", "pool": "pool-a", "device": "dev-0"}]
    answer = oracle.ask(allocate(request(), allocated=in_use, repeat=3))

    assert answer["name"] == "a-case"
    assert answer["outcome"] == "allocated"
    assert [result["device"] for result in answer["allocations"][0]["devices"]["results"]] == ["dev-1"]
    assert answer["variant"] == "incubating"
    assert 0 < answer["nanos"] <= answer["nanos_median"]


def test_allocate_says_none_and_error_apart(oracle: Oracle) -> None:  # noqa: F811
    none, error = oracle.ask_all([allocate(request(count=3)), allocate(request(), classes=[])])

    assert none["outcome"] == "none"
    assert error["outcome"] == "error"
    assert 'deviceclass.resource.k8s.io "gpu" not found' in error["error"]


def test_share_ids_are_numbered_in_order_of_appearance(oracle: Oracle) -> None:  # noqa: F811
    shared = slice_of({"name": "dev-0", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "8Gi"}}})
    want = request()
    want["exactly"]["capacity"] = {"requests": {"memory": "4Gi"}}
    claims = [
        {"metadata": {"namespace": "default", "name": name}, "spec": {"devices": {"requests": [want]}}}
        for name in ("a", "b")
    ]
    answer = oracle.ask(allocate(slices=[shared], claims=claims))

    assert [claim["devices"]["results"][0]["shareID"] for claim in answer["allocations"]] == ["share-1", "share-2"]


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ('device.attributes["gpu.example.com"].model == "A100"', {"value": {"bool": "true"}}),
        ('device.capacity["gpu.example.com"].memory.isLessThan(quantity("1Gi"))', {"value": {"bool": "false"}}),
        ('device.attributes["gpu.example.com"].other == "x"', {"runtime_error": "no such key: other"}),
        ("device.driver", {"compile_error": "must evaluate to bool or the unknown type, not string"}),
    ],
)
def test_cel_device_selector(oracle: Oracle, expression: str, want: dict) -> None:  # noqa: F811
    answer = oracle.ask({"kind": "cel", "expression": expression, "device": GPU})

    assert {key: answer.get(key) for key in want} == want
    assert ("max_cost" in answer) == ("compile_error" not in answer)


def test_cel_gates_and_environment_are_honoured(oracle: Oracle) -> None:  # noqa: F811
    question = {"kind": "cel", "expression": "device.allowMultipleAllocations", "device": GPU, "env": "new"}
    on, off = oracle.ask_all([question, {**question, "gates": {"consumableCapacity": False}}])

    assert on["value"] == {"bool": "false"}
    assert "undefined field 'allowMultipleAllocations'" in off["compile_error"]


def test_cel_any_expression_keeps_types_apart(oracle: Oracle) -> None:  # noqa: F811
    answer = oracle.ask(
        {"kind": "cel", "expression": "{'a': [dyn(1), dyn(2u), dyn(1.5), dyn(optional.none())]}", "result": "any"}
    )

    items = [{"int": "1"}, {"uint": "2"}, {"double": "1.5"}, "optional.none"]
    assert answer["value"] == {"map": [[{"string": "a"}, {"list": items}]]}


def test_a_question_that_cannot_be_read_is_named_and_the_next_is_answered(oracle: Oracle) -> None:  # noqa: F811
    with pytest.raises(OracleError, match="unknown name"):
        oracle.ask({"kind": "cel", "expression": "true", "gates": {"typo": True}})
    assert oracle.ask({"kind": "cel", "expression": "1 + 1", "result": "any"})["value"] == {"int": "2"}


def test_a_batch_larger_than_the_pipes_is_answered_in_order(oracle: Oracle) -> None:  # noqa: F811
    questions = [{"kind": "cel", "expression": f"{number} + 0", "result": "any"} for number in range(2000)]

    assert [answer["value"] for answer in oracle.ask_all(questions)] == [{"int": str(n)} for n in range(2000)]
