"""Types, overloads and refusals of the checker, and what the environments know."""

from __future__ import annotations

from typing import Any

import pytest

from cel.checker import environments
from cel.checker.checker import Checked
from cel.checker.declarations import OVERLOADS, parse_overload
from cel.checker.environments import Environment
from cel.errors import CompileError
from cel.evaluator.constants import instantiation_problem
from cel.parser.syntax import Call, Comprehension, Ident
from cel.program import check_expression

A = 'device.attributes["d"]'
C = 'device.capacity["d"]'
STORED = environments.get("1.37", list_type_attributes=True)
NEW_136 = environments.get("1.36", kind="new")


def checked(source: str, environment: Environment = STORED) -> Checked:
    return check_expression(source, environment)


def refusal(source: str, environment: Environment = STORED) -> list[str]:
    with pytest.raises(CompileError) as caught:
        checked(source, environment)
    text = str(caught.value).removeprefix("compilation failed: ")
    return [line.removeprefix("ERROR: <input>:") for line in text.splitlines() if line.startswith("ERROR: ")]


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("1", "int"),
        ("1u", "uint"),
        ("1.0", "double"),
        ('"a"', "string"),
        ('b"a"', "bytes"),
        ("null", "null_type"),
        ("[]", "list(dyn)"),
        ("[1, 2]", "list(int)"),
        ("[[], [1]]", "list(list(int))"),
        ('{"a": []}', "map(string, list(dyn))"),
        ("{}", "map(dyn, dyn)"),
        ("device", "kubernetes.DRADevice"),
        ("device.driver", "string"),
        ("device.attributes", "map(string, map(string, dyn))"),
        (f"{A}.x", "dyn"),
        (f"{C}.x", "kubernetes.Quantity"),
        (f"{A}.x + 1", "int"),
        (f"{A}.x + {A}.y", "dyn"),
        (f"{A}.x[0]", "dyn"),
        (f"{A}.?x", "optional_type(dyn)"),
        (f"{A}[?{A}.x]", "optional_type(dyn)"),
        (f"{A}.?x.y.z", "optional_type(dyn)"),
        (f'{C}.?x.orValue(quantity("1"))', "kubernetes.Quantity"),
        ("optional.none()", "optional_type(dyn)"),
        ("optional.of(1).optMap(x, string(x))", "optional_type(string)"),
        ("[1].first()", "optional_type(int)"),
        ("[1].map(x, [x])", "list(list(int))"),
        ("[1].transformMap(i, v, string(v))", "map(int, string)"),
        ('{"a": 1}.transformList(k, v, k)', "list(string)"),
        ("[].map(x, x)", "list(dyn)"),
        ("cel.bind(x, 1, [x])", "list(int)"),
        ("true ? 1 : dyn(2)", "dyn"),
        ("true ? dyn(1) : 2", "dyn"),
        ("true ? [] : [1]", "list(int)"),
        ("type(1)", "type(int)"),
        ("int", "type(int)"),
        ("google.protobuf.Timestamp", "type(google.protobuf.Timestamp)"),
        ("net.IP", "type(net.IP)"),
        ("optional_type", "type(optional_type)"),
        ("google.protobuf.Int32Value{value: 1}", "wrapper(int)"),
        ("[1, 2].sortBy(x, -x)", "list(int)"),
        ('"a,b".split(",")', "list(string)"),
        ("[[1]].flatten()", "list(int)"),
        ('timestamp("2024-01-01T00:00:00Z") - timestamp(0)', "google.protobuf.Duration"),
        ("1 < 2.0", "bool"),
        ('quantity("1") == null', "bool"),
        ('{"a": 1}.a', "int"),
        ("has({}.a)", "bool"),
        ("dyn([1])", "dyn"),
        ('format.named("uuid")', "optional_type(kubernetes.NamedFormat)"),
    ],
)
def test_types(source: str, want: str) -> None:
    assert str(checked(source).output_type) == want


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("driver", "1:1: undeclared reference to 'driver' (in container '')"),
        (".x", "1:2: undeclared reference to '.x' (in container '')"),
        ("f(1)", "1:2: undeclared reference to 'f' (in container '')"),
        ("(1).f()", "1:6: undeclared reference to 'f' (in container '')"),
        ("device.foo", "1:7: undefined field 'foo'"),
        ("device.?foo", "1:7: undefined field 'foo'"),
        (f"{C}.x.y", "1:23: unexpected failed resolution of 'kubernetes.Quantity'"),
        ('"a".b', "1:4: type 'string' does not support field selection"),
        ("1 + 1u", "1:3: found no matching overload for '_+_' applied to '(int, uint)'"),
        ("1 == 1.0", "1:3: found no matching overload for '_==_' applied to '(int, double)'"),
        ("null == 1", "1:6: found no matching overload for '_==_' applied to '(null, int)'"),
        ('"a".size(1)', "1:9: found no matching overload for 'size' applied to 'string.(int)'"),
        ("dyn()", "1:4: found no matching overload for 'dyn' applied to '()'"),
        ("[1][1.0]", "1:4: found no matching overload for '_[_]' applied to '(list(int), double)'"),
        ('"a" || true', "1:1: expected type 'bool' but found 'string'"),
        ("true && 1", "1:9: expected type 'bool' but found 'int'"),
        ("[1].all(x, x)", "1:12: expected type 'bool' but found 'int'"),
        (
            '"abc".exists(c, true)',
            "1:1: expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ('["a", 1]', "1:7: expected type 'string' but found 'int'"),
        ('{"a": 1, 2: 2}', "1:10: expected type 'string' but found 'int'"),
        ('{"a": 1, "b": 2u}', "1:15: expected type 'int' but found 'uint'"),
        (f'[{A}.x, "a"]', "1:28: expected type 'dyn' but found 'string'"),
        ("[?1]", "1:3: expected type 'optional_type(int)' but found 'int'"),
        ("Foo{}", "1:4: undeclared reference to 'Foo' (in container '')"),
        ("int{}", "1:4: 'int' is not a message type"),
        (
            'google.protobuf.Int32Value{value: "a"}',
            "1:33: expected type of field 'value' is 'int' but provided type is 'string'",
        ),
        ("google.protobuf.Int32Value{x: 1}", "1:29: undefined field 'x'"),
        ('"a".matches("[")', "1:13: invalid matches argument"),
        ('duration("x")', "1:10: invalid duration argument"),
        ('timestamp("x")', "1:11: invalid timestamp argument"),
        (
            '"%d".format(["a"])',
            "1:14: error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ('"%s".format([1, 2])', "1:12: too many arguments supplied to string.format (expected 1, got 2)"),
        ('"%s%s".format([1])', "1:14: index 1 out of range"),
        ('"%".format([1])', "1:11: unexpected end of string"),
        ('"%z".format([1])', '1:12: could not parse formatting clause: unrecognized formatting clause "z"'),
        (
            '"%s".format([quantity("1")])',
            "1:22: error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, "
            "maps, lists, types, durations, and timestamps, was given kubernetes.Quantity",
        ),
    ],
)
def test_refusals(source: str, want: str) -> None:
    assert refusal(source) == [want]


def test_all_findings_are_told_in_order() -> None:
    assert refusal("b + a") == [
        "1:1: undeclared reference to 'b' (in container '')",
        "1:5: undeclared reference to 'a' (in container '')",
    ]


def test_arguments_of_format_may_be_mixed() -> None:
    assert str(checked('"%s %d".format(["a", 1])').output_type) == "string"
    assert str(checked('"%s".format([["a", [1, "b"]]])').output_type) == "string"


def test_a_dynamic_call_refers_to_every_overload_that_fits() -> None:
    result = checked(f"{A}.x < 1")
    assert result.references[result.expr.id] == ("less_int64", "less_uint64_int64", "less_double_int64")


def test_names_are_resolved_in_the_tree() -> None:
    result = checked("optional.of(google.protobuf.Duration)")
    assert isinstance(result.expr, Call)
    assert (result.expr.function, result.expr.target) == ("optional.of", None)
    (argument,) = result.expr.args
    assert isinstance(argument, Ident)
    assert argument.name == "google.protobuf.Duration"


def test_every_node_of_the_tree_has_a_type() -> None:
    result = checked('[1].map(x, optional.of({"y": x}).?y).exists(i, e, {"a": e}[?"a"] == optional.none())')
    pending: list[Any] = [result.expr]
    count = 0
    while pending:
        node = pending.pop()
        if isinstance(node, tuple):
            pending.extend(node)
        elif hasattr(node, "offset"):
            count += 1
            if not hasattr(node, "key"):
                assert result.types[node.id].is_ground
            pending.extend(getattr(node, name) for name in node.__slots__)
    assert count > 30


def test_a_local_variable_hides_device_and_a_dot_finds_it_again() -> None:
    source = "[1].all(device, .device.driver == string(device))"
    assert isinstance(checked(source).expr, Comprehension)
    # cel-go 0.26 did not look past the local variable.
    assert refusal(source, environments.get("1.36")) == ["1:24: type 'int' does not support field selection"]


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ('int("x") == 1', "type conversion error from 'string' to 'int'"),
        ("uint(-1) == 1u", "unsigned integer overflow"),
        ("[int(1e30)]", "integer overflow"),
        ('true || bool("yes")', "type conversion error from 'string' to 'bool'"),
        ('"a".find("[")', "error parsing regexp: missing closing ]: `[`"),
        ('"a".matches(dyn("["))', "error parsing regexp: missing closing ]: `[`"),
        ("type(device) == kubernetes.DRADevice", "reference to undefined type: kubernetes.DRADevice"),
        (f"{A}.x[b'x']", "invalid qualifier type: types.Bytes"),
        ('int("1") == 1', None),
        (f"int({A}.x) == 1", None),
        ('quantity("bad") == null', None),
        ("1 / 0 == 1", None),
    ],
)
def test_constants_that_fail_before_any_device(source: str, want: str | None) -> None:
    assert instantiation_problem(checked(source)) == want


@pytest.mark.parametrize(
    ("source", "environment", "problem"),
    [
        ("true", NEW_136, None),
        (f"{A}.x", NEW_136, None),
        ("dyn(true)", NEW_136, "must evaluate to bool or the unknown type, not dyn"),
        ("dyn(true)", STORED, None),
        ("1", STORED, "must evaluate to bool or the unknown type, not int"),
        (
            "device.attributes",
            NEW_136,
            "must evaluate to bool or the unknown type, not map(string, map(string, google.protobuf.Any))",
        ),
        (f"{A}.?x", STORED, "must evaluate to bool or the unknown type, not optional_type(dyn)"),
    ],
)
def test_result_types(source: str, environment: Environment, problem: str | None) -> None:
    assert environment.result_problem(checked(source, environment).output_type) == problem


@pytest.mark.parametrize(
    ("source", "version", "kind", "gates", "is_known"),
    [
        ("[1].slice(0, 1)", "1.34", "new", {}, False),
        ("[1].slice(0, 1)", "1.34", "stored", {}, True),
        ("[1].slice(0, 1)", "1.35", "new", {}, True),
        ("[1].sortBy(x, x)", "1.34", "new", {}, False),
        ("[1].includes(1)", "1.35", "stored", {}, False),
        ("[1].includes(1)", "1.36", "stored", {}, True),
        ("[1].includes(1)", "1.36", "new", {}, False),
        ("[1].includes(1)", "1.36", "new", {"list_type_attributes": True}, True),
        ("[1].includes(1)", "1.37", "new", {}, False),
        ("[1].includes(1)", "1.37", "stored", {}, True),
        ("duration(1)", "1.36", "stored", {}, True),
        ("duration(1)", "1.37", "stored", {}, False),
        ("device.allowMultipleAllocations", "1.36", "new", {"consumable_capacity": False}, False),
        ("device.allowMultipleAllocations", "1.36", "stored", {"consumable_capacity": False}, True),
        (f"{A}.x.exists(i, true)", "1.36", "stored", {}, False),
        (f"{A}.x.exists(i, true)", "1.36", "stored", {"list_type_attributes": True}, True),
        (f"{A}.x.exists(i, true)", "1.37", "stored", {}, True),
        (f"{A}.x.exists(i, true)", "1.37", "new", {}, False),
        (f"{A}.x.exists(i, true)", "1.35", "stored", {"list_type_attributes": True}, False),
    ],
)
def test_environments(source: str, version: str, kind: Any, gates: dict[str, bool], is_known: bool) -> None:
    environment = environments.get(version, kind=kind, **gates)
    if is_known:
        checked(source, environment)
    else:
        assert refusal(source, environment)


def test_environments_are_shared_and_bad_ones_refused() -> None:
    assert environments.get("1.36") is environments.get("v1.36.3")
    with pytest.raises(ValueError, match=r"'1\.30' is not supported: use 1\.34 to 1\.37, .*1\.38 \(beta\)"):
        environments.get("1.30")
    with pytest.raises(ValueError, match="neither 'stored' nor 'new'"):
        environments.get(kind="other")


def test_every_line_of_the_function_table_reads() -> None:
    overloads = [parse_overload(line) for lines in OVERLOADS.values() for line in lines.splitlines()]
    ids = [overload.id for overload in overloads]
    # `_in_` has the overloads of `@in`, as in cel-go.
    assert sorted({name for name in ids if ids.count(name) > 1}) == ["in_list", "in_map"]
    assert len(overloads) > 250


@pytest.mark.parametrize("depth", [100, 249])
def test_deep_expressions_are_checked(depth: int) -> None:
    assert str(checked("!(" * depth + "true" + ")" * depth).output_type) == "bool"
    assert str(checked("[" * depth + "]" * depth).output_type).count("list(") == depth
