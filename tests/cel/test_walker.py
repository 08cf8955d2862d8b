"""The exact evaluator: which errors count, what is evaluated at all, what it spends."""

import json
from pathlib import Path
from typing import Any

import pytest

import cel
from cel.checker import environments
from cel.evaluator.walker import plan
from cel.library.device import DeviceView
from cel.library.values import EFFORT, EFFORT_LIMIT, LIMIT_EXCEEDED
from cel.program import check_expression

D = "gpu.example.com"
A = f'device.attributes["{D}"]'
DEVICE = cel.device_view(
    D,
    {"model": "A100", "index": 2, "healthy": True, "version": cel.Semver.parse("1.2.3"), "numbers": (1, 2, 3)},
    {"memory": cel.Quantity.parse("80Gi")},
    False,
)


def outcome(expression: str) -> object:
    try:
        return cel.evaluate(expression, environments.get("1.37"), DEVICE)
    except cel.EvaluationError as error:
        return str(error)


FAILS = f"{A}.nope == 1"
OTHER_FAILS = f"{A}.model > 1"


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        (f"{FAILS} || true", True),
        (f"true || {FAILS}", True),
        (f"{FAILS} && false", False),
        (f"{FAILS} || false", "no such key: nope"),
        (f"{FAILS} || {OTHER_FAILS}", "no such key: nope"),
        (f"{OTHER_FAILS} || {FAILS}", "no such overload"),
        (f"{A}.model || true", True),
        (f"{A}.model && true", "no such overload"),
        (f"!({A}.model)", "no such overload"),
        (f"{A}.model ? true : true", "no such overload"),
        (f"{A}.healthy ? 1 : 1 / 0", 1),
        (f"[1, 0].exists(x, 1 / x == 1) && {A}.healthy", True),
        ("[0, 1].exists(x, 1 / x == 1)", True),
        ("[0, 2].exists(x, 1 / x == 1)", "division by zero"),
        ("[0, 2].all(x, 1 / x == 1)", False),
        ("[0, 1].all(x, 1 / x == 1)", "division by zero"),
        ("[0, 1].exists_one(x, 1 / x == 1)", "division by zero"),
        ("[0, 1].map(x, 1 / x)", "division by zero"),
        ("[0, 1].filter(x, 1 / x == 1)", "division by zero"),
        ("[0, {'a': 1}.b].filter(x, x > 0)", "no such key: b"),
        # A filter that fails goes on; the last failure is what it says.
        ("[[0, 1], [0]].filter(x, x[1] / x[0] > 0)", "index out of bounds: 1"),
        ("[].exists(x, 1 / x == 1)", False),
        (f"{A}.numbers.exists(n, n == 2)", True),
        (f"{A}.model.exists(n, n == 2)", "got 'types.String', expected iterable type"),
        ("{'a': 1, 'b': 2}.all(k, v, v > 0 && k != '')", True),
        ("[5, 6].transformList(i, v, i * v)", [0, 6]),
        ("{'a': 1}.transformMap(k, v, v + 1)", {"a": 2}),
    ],
)
def test_errors_are_absorbed_as_in_cel(expression: str, result: object) -> None:
    assert outcome(expression) == result


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        (f"cel.bind(x, {FAILS}, true)", True),
        (f"cel.bind(x, {FAILS}, x || true)", True),
        (f"cel.bind(x, {FAILS}, x)", "no such key: nope"),
        (f"cel.bind(x, {FAILS}, true || x)", True),
        ("cel.bind(x, [1, 2], cel.bind(y, x.map(e, e + 1), x.map(x, y[0] + x)))", [3, 4]),
        ("[1, 2].map(x, cel.bind(y, x * 10, [x, y]))", [[1, 10], [2, 20]]),
        ("[1, 2].map(x, [3, 4].map(x, x * x))", [[9, 16], [9, 16]]),
        (f"{A}.?nope.orValue(1 / 0)", "division by zero"),
        (f"{A}.?index.orValue(1 / 0)", 2),
        (f"optional.of({A}.index).or(optional.of(1 / 0)).value()", 2),
        ("optional.none().optMap(x, 1 / x).hasValue()", False),
        ("optional.of(0).optMap(x, 1 / x)", "division by zero"),
    ],
)
def test_what_is_not_needed_is_not_evaluated(expression: str, result: object) -> None:
    assert outcome(expression) == result


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("device.attributes.nope == {}", True),
        ("has(device.attributes.nope)", True),
        ("'nope' in device.attributes", False),
        (f"has({A}.model.x)", False),
        (f"{A}.model.x == 1", "no such key: x"),
        (f"{A}.numbers[1]", 2),
        (f"{A}.numbers[dyn(1.0)]", 2),
        (f"{A}.numbers[3]", "index out of bounds: 3"),
        (f"{A}.numbers.x", "unsupported index type 'string' in list"),
        (f"{A}[dyn({A}.version)]", "invalid qualifier type: cel.Semver"),
        (f"{A}.?numbers[?7].hasValue()", False),
        (f"{A}.?numbers[1].value()", 2),
        (f"{A}.?nope.x.y.hasValue()", False),
        ("{'a': optional.of({'b': 1})}.a.b.value()", "no such key: b"),
        ("dyn(device).nope", "no such key: nope"),
        ("dyn(device).size()", 4),
        (f"{A}.version in ['1.2.3']", "internal error: runtime error: hash of unhashable type cel.Semver"),
        (f"{A}.version in ['1.2.3'] || true", "internal error: runtime error: hash of unhashable type cel.Semver"),
        (f"{A}.version in [{A}.version]", True),
        ("dyn(9007199254740992.0) in [9007199254740993]", True),
        ("dyn(true) in [1]", False),
    ],
)
def test_selection(expression: str, result: object) -> None:
    assert outcome(expression) == result


CASES = json.loads((Path(__file__).parent / "data" / "cel-kubernetes-cases.json").read_text())


def test_what_exceeds_the_limit_of_kube_scheduler_exceeds_ours() -> None:
    """What an evaluation spends is as large a part of our limit as its cost is of kube-scheduler's, or larger."""
    environment = environments.get("1.37", list_type_attributes=True)
    compared = 0
    for case in (*CASES["device_cases"], *CASES["library_cases"]):
        recorded = case["observed"].get("actual_cost")
        if recorded is None:
            continue
        variables = {"device": recorded_device(case["device"]).fields} if "device" in case else {}
        try:
            plan(check_expression(case["expression"], environment)).evaluate(variables)
        except cel.CelError:
            continue
        assert EFFORT[0] / EFFORT_LIMIT >= recorded / 1_000_000, case["expression"]
        compared += 1
    assert compared > 860


def recorded_device(name: str) -> DeviceView:
    fields = CASES["devices"][name]
    return cel.device_view(
        fields["driver"],
        {name: cel.decode_attribute(value) for name, value in fields["attributes"].items()},
        {name: cel.Quantity.parse(amount) for name, amount in fields["capacity"].items()},
        bool(fields["allowMultipleAllocations"]),
    )


def test_the_limit_ends_what_would_run_long_and_is_not_absorbed() -> None:
    digits = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
    expression = "true"
    for name in "abcdef":
        expression = f"{digits}.all({name}, {expression})"
    assert outcome(expression) == LIMIT_EXCEEDED
    assert outcome(f"({expression}) || true") == LIMIT_EXCEEDED


def test_a_plan_can_be_used_again_after_an_error() -> None:
    planned = plan(check_expression(f"cel.bind(x, {A}.model, [1, 2].map(i, x + string(i)))"))
    other = cel.device_view(D, {"model": 1}, {}, False)
    for _ in range(2):
        assert planned.evaluate({"device": DEVICE.fields}) == ["A1001", "A1002"]
        with pytest.raises(cel.EvaluationError, match="no such overload"):
            planned.evaluate({"device": other.fields})


# --- what a selector reads


@pytest.mark.parametrize(
    ("expression", "attributes", "capacities", "driver"),
    [
        (f"{A}.model == 'x'", {(D, "model")}, set(), False),
        (f"has({A}.model) && 'index' in {A}", {(D, "model"), (D, "index")}, set(), False),
        (f"cel.bind(a, {A}, a.model == 'x' && a.?index.orValue(1) == 1)", {(D, "model"), (D, "index")}, set(), False),
        (f"cel.bind(a, {A}, true)", set(), set(), False),
        (f"device.capacity['{D}'].memory.isLessThan(quantity('1'))", set(), {(D, "memory")}, False),
        ("device.driver == 'x'", set(), set(), True),
        ("device.attributes[device.driver].model == 'x'", None, set(), True),
        ("'d' in device.attributes", None, set(), False),
        (f"{A}.exists(k, k == 'x')", None, set(), False),
        (f"{A} == {{}}", None, set(), False),
        (f"{A}.numbers.exists(n, n == {A}.index)", {(D, "numbers"), (D, "index")}, set(), False),
        (f"[1].exists(x, {A}[x == 1 ? 'a' : 'b'] == 1)", None, set(), False),
        ("dyn(device) == device", None, None, True),
        (f"(true ? {A} : {A}).model == 'x'", None, set(), False),
        (f"cel.bind(device, {{'driver': 'x'}}, device.driver == 'x') || {A}.m == 'y'", {(D, "m")}, set(), False),
    ],
)  # fmt: skip
def test_read_sets(expression: str, attributes: set[Any] | None, capacities: set[Any] | None, driver: bool) -> None:
    reads = cel.compile_selector(expression, environments.get("1.37")).reads
    assert (reads.attributes, reads.capacities, reads.driver) == (attributes, capacities, driver)


def test_a_read_set_of_shared_bindings_is_found_in_linear_time() -> None:
    expression = f"{A}.healthy"
    text = "".join(f"cel.bind(v{i}, v{i - 1} && v{i - 1}, " for i in range(1, 100)).replace("v0", expression)
    reads = cel.compile_selector(f"{text}v99{')' * 99}").reads
    assert reads.attributes == {(D, "healthy")}
