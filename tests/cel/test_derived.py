"""Expressions of `derivedAttributes` (Kubernetes 1.37): which compile, and what attribute each gives."""

from __future__ import annotations

from typing import Any, Final

import pytest

import cel
from cel.checker import environments
from tests.oracle.client import Oracle
from tests.oracle.fixture import oracle  # noqa: F401

OWN: Final = 'device.attributes["d.example.com"]'
DEVICE: Final[dict[str, Any]] = {
    "driver": "d.example.com",
    "attributes": {
        "model": {"string": "A100"},
        "numa": {"int": 1},
        "links": {"strings": ["a", "b"]},
        "v": {"version": "1.2.3"},
    },
    "capacity": {"memory": "80Gi"},
}
VIEW: Final = cel.device_view(
    "d.example.com",
    {"model": "A100", "numa": 1, "links": ("a", "b"), "v": cel.Semver.parse("1.2.3")},
    {"memory": cel.Quantity.parse("80Gi")},
    allow_multiple_allocations=False,
)
SCALARS: Final = "must evaluate to a primitive scalar (string, integer, boolean, semver)"

GIVES: Final[list[tuple[str, str, object]]] = [
    (f"{OWN}.numa", "int", 1),
    (f'"n" + string({OWN}.numa / 2)', "string", "n0"),
    (f'{OWN}.model.startsWith("A")', "bool", True),
    (f"{OWN}.v", "version", "1.2.3"),
    ('semver("1.2.3")', "version", "1.2.3"),
    (f"{OWN}.links", "strings", ("a", "b")),
    ("[1, 2]", "ints", (1, 2)),
    ("[true]", "bools", (True,)),
    ('[semver("1.2.3")]', "versions", ("1.2.3",)),
    ("[]", "strings", ()),
    ("dyn(type(1))", "string", "int"),
    ("dyn(optional.of(1))", "int", 1),
    ("[dyn(1), dyn(optional.of(1))]", "ints", (1, 1)),
    ("google.protobuf.Int64Value{value: 1}", "int", 1),
]
FAILS: Final[list[tuple[str, str]]] = [
    (f"{OWN}.nothing", "no such key: nothing"),
    ("1 / 0 == 1", "division by zero"),
    ('[dyn(1), dyn("a")]', "expected list element at index 1 to be int, got string"),
    ("dyn([[1]])", "unsupported list element type: []ref.Val"),
    (f'[{OWN}.v, dyn("x")]', "expected list element at index 1 to be semver, got string"),
    ("[dyn(1.5)]", "unsupported list element type: float64"),
    *[
        (f"dyn({one})", f"unsupported CEL return type: {kind}")
        for one, kind in (
            ("1.0", "float64"),
            ("1u", "uint64"),
            ('b"a"', "[]uint8"),
            ("null", "structpb.NullValue"),
            ('{"a": 1}', "map[ref.Val]ref.Val"),
            ("device.attributes", "map[string]interface {}"),
            ("optional.none()", "<nil>"),
            ('duration("1s")', "time.Duration"),
            ('timestamp("2020-01-01T00:00:00Z")', "time.Time"),
            ('device.capacity["d.example.com"].memory', "*resource.Quantity"),
            ('url("http://a")', "*url.URL"),
            ('ip("1.2.3.4")', "netip.Addr"),
            ('cidr("1.2.3.0/24")', "netip.Prefix"),
            ("format.dns1123Label()", "cel.Format"),
        )
    ],
]
REFUSED: Final[list[tuple[str, str]]] = [
    ("1.0", "double"),
    ("1u", "uint"),
    ("[1.0]", "list(double)"),
    ("device", "kubernetes.DRADevice"),
    (OWN, "map(string, dyn)"),
    ("optional.of(1)", "optional_type(int)"),
]


@pytest.mark.parametrize(("expression", "kind", "value"), GIVES)
def test_an_expression_gives_an_attribute(expression: str, kind: str, value: object) -> None:
    assert cel.compile_derived(expression).value(VIEW) == (kind, value)


@pytest.mark.parametrize(("expression", "text"), FAILS)
def test_it_fails_for_a_device(expression: str, text: str) -> None:
    with pytest.raises(cel.EvaluationError) as caught:
        cel.compile_derived(expression).value(VIEW)
    assert str(caught.value) == text


@pytest.mark.parametrize(("expression", "kind"), REFUSED)
def test_an_expression_whose_type_no_attribute_has_does_not_compile(expression: str, kind: str) -> None:
    with pytest.raises(cel.CompileError) as caught:
        cel.compile_derived(expression)
    assert str(caught.value) == f"{SCALARS} or a list of these scalars, not {kind}"


@pytest.mark.parametrize(("lists", "text"), [(False, f"{SCALARS}, not list(int)"), (True, "")])
def test_a_new_expression_gives_a_list_where_the_gate_of_lists_is_on(lists: bool, text: str) -> None:
    environment = environments.get("1.37", kind="new", list_type_attributes=lists)
    if not text:
        assert cel.compile_derived("[1, 2]", environment).value(VIEW) == ("ints", (1, 2))
        return
    with pytest.raises(cel.CompileError) as caught:
        cel.compile_derived("[1, 2]", environment)
    assert str(caught.value) == text


def test_it_reads_what_it_names() -> None:
    reads = cel.compile_derived(f"{OWN}.numa / 2").reads
    assert reads.attributes == {("d.example.com", "numa")}


@pytest.mark.oracle
@pytest.mark.parametrize("env", ["stored", "new"])
def test_the_go_implementation_says_the_same(oracle: Oracle, env: Any) -> None:  # noqa: F811
    expressions = [one[0] for one in (*GIVES, *FAILS, *REFUSED)]
    environment = environments.get("1.37", kind=env)
    asked = [
        {"kind": "cel", "result": "derived", "env": env, "expression": one, "device": DEVICE} for one in expressions
    ]
    for expression, theirs in zip(expressions, oracle.ask_all(asked), strict=True):
        assert _ours(expression, environment) == _theirs(theirs), expression


def _ours(expression: str, environment: environments.Environment) -> dict[str, Any]:
    try:
        kind, value = cel.compile_derived(expression, environment).value(VIEW)
    except cel.CompileError as error:
        return {"compile_error": str(error)}
    except cel.EvaluationError as error:
        return {"runtime_error": str(error)}
    return {"value": {kind: list(value) if isinstance(value, tuple) else value}}


def _theirs(answer: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {key: answer[key] for key in ("value", "compile_error", "runtime_error") if key in answer}
    return {"value": {"strings": []}} if said == {"value": {}} else said  # Go leaves an empty list out
