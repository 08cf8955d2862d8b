"""Generated code gives the exact evaluator's answers, reads nothing but what it made, and covers what people write."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cel
from cel.checker import environments
from cel.evaluator import codegen
from cel.library.device import UNREADABLE, DeviceView
from cel.program import Selector
from tests.cel.expressions import DEVICES, Generator
from tests.oracle.fixture import oracle  # noqa: F401

D = "gpu.example.com"
A = f'device.attributes["{D}"]'
SELECTORS = {
    "driver": f'device.driver == "{D}"',
    "reference": (
        f'device.driver == "{D}" && {A}.model == "A100" && '
        f'device.capacity["{D}"].memory.compareTo(quantity("40Gi")) >= 0'
    ),
    "version": f'{A}.model == "A100" && {A}.driverVersion.compareTo(semver("535.0.0")) >= 0',
    "membership": f'"{D}" in device.attributes && has({A}.index) && {A}.index in [0, 1, 2, 3]',
    "exists": f'["A100", "H100"].exists(m, {A}.model == m)',
    "patterns": f'{A}.model.matches("^(A|H)100$") || {A}.uuid.startsWith("GPU-")',
    "bind": f'cel.bind(dra, {A}, dra.model.startsWith("A") && dra.index < 4)',
    "optional": f'{A}.?family.orValue("") == "ampere"',
}


def outcome(answer: Any, device: DeviceView) -> tuple[str, object]:
    try:
        return "matches", answer(device)
    except cel.EvaluationError as error:
        return "error", str(error)


def source_of(selector: Selector) -> str | None:
    prepared = codegen._prepared(selector.checked)
    return None if prepared is None else prepared[0].source(prepared[1])


def assert_equal_answers(selector: Selector, device: DeviceView) -> None:
    assert outcome(selector.matches, device) == outcome(selector.matches_exactly, device), source_of(selector)


def recorded_device(fields: dict[str, Any]) -> DeviceView:
    return cel.device_view(
        fields["driver"],
        {name: cel.decode_attribute(value) for name, value in fields["attributes"].items()},
        {name: cel.Quantity.parse(amount) for name, amount in fields["capacity"].items()},
        bool(fields.get("allowMultipleAllocations")),
    )


def test_a_list_with_conversions_is_a_set_to_both_tiers() -> None:
    """Go looks elements up in a set of constants, and cannot hash a version."""
    device = cel.device_view(D, {"version": cel.Semver.parse("1.2.3"), "index": 2}, {}, False)
    for values in ('double("Infinity"), 9007199254740993.0', 'int("2"), 3', "2.0, double(1)"):
        for name in ("version", "index"):
            assert_equal_answers(cel.compile_selector(f"{A}.{name} in [{values}]"), device)
    with pytest.raises(cel.EvaluationError, match="hash of unhashable type"):
        cel.compile_selector(f'{A}.version in [double("Infinity"), 1.0]').matches(device)


@pytest.mark.parametrize("expression", SELECTORS.values(), ids=SELECTORS)
def test_the_selectors_people_write_are_generated(expression: str) -> None:
    assert cel.compile_selector(expression).is_generated


CASES = json.loads((Path(__file__).parent / "data" / "cel-kubernetes-cases.json").read_text())


@pytest.mark.parametrize("device_name", CASES["devices"])
def test_both_tiers_agree_on_every_recorded_selector(device_name: str) -> None:
    environment = environments.get("1.37", list_type_attributes=True)
    device = recorded_device(CASES["devices"][device_name])
    generated = 0
    for case in (*CASES["device_cases"], *CASES["upstream"], *CASES["library_cases"]):
        try:
            selector = cel.compile_selector(case["expression"], environment)
        except cel.CompileError:
            continue
        generated += selector.is_generated
        assert_equal_answers(selector, device)
    assert generated > 300


# --- every operator on an attribute of every type

_VALUES = (
    True, False, 0, 1, 2, -1, "A100", "", "b", "2",
    cel.Semver.parse("1.2.3"), cel.Semver.parse("2.0.0"),
    (), (1, 2), (True,), ("A100", "b"), (cel.Semver.parse("1.2.3"),),
)  # fmt: skip
_LITERALS = (
    '"A100"', '""', "0", "1", "2", "true", "false", "1.0", "2u", "null", "[1, 2]", "[true]", "{}", 'semver("1.2.3")',
    'quantity("1")', 'b"a"', "int", 'optional.of(1)', 'duration("1s")',
)  # fmt: skip
_OPERATORS = ("==", "!=", "<", "<=", ">", ">=")
_FORMS = """\
V
!V
V || true
true || V
V && false
false && V
V || false
V ? true : false
true ? V : 1
V in ["A100", "b"]
V in [0, 1]
V in [1.0, 2.0]
V in [dyn(1), dyn('b')]
V in [W]
V in []
V in W
"A100" in V
1 in V
true in V
V in {'A100': 1}
V in {1: 1}
V.startsWith('A')
V.endsWith('0')
V.contains('1')
V.contains('')
V.startsWith(W)
V.matches('^A[0-9]+$')
V.matches('(a|aa)+$')
V.matches('')
matches(V, 'b')
V.find('[0-9]') == '1'
V.isGreaterThan(semver('1.0.0'))
V.isLessThan(quantity('1'))
V.major() == 1
size(V) == 2
V.size() == 1
V[0] == 1
V[dyn('a')] == 1
V.x == 1
has(V.x)
V.?x.hasValue()
V[?0].orValue(1) == 1
V.exists(e, e == 1)
V.all(e, e != 'b')
V.exists_one(e, e == true)
V.map(e, e) == V
V.filter(e, e == W).size() == 1
V.map(e, [e])[0] == [1]
V.exists(e, e)
V.all(e, e < 2)
[1, 2].exists(e, V == e)
["A100", "b"].all(e, V != e)
cel.bind(v, V, v == 1 || v == 'A100')
cel.bind(v, V, true)
cel.bind(v, V, [v, v])[1] == V
device.attributes[D].?x.orValue('z') == 'z'
device.attributes[D].?v.orValue(7) == 2
device.attributes[D][?'v'].hasValue()
device.attributes[D].?v.orValue(W) == V
device.attributes[D].?v.?x.hasValue()
device.attributes[D].?v == optional.of('b')
optional.of(V).orValue(1) == V
has(device.attributes[D].v)
'v' in device.attributes[D]
'w' in device.attributes['nope']
has(device.attributes['nope'].v)
device.attributes[V].x == 1
device.attributes[D][V] == 1
string(V) == '2'
int(V) == 2
bool(V)
dyn(V) == W
type(V) == string
V + 1 == 2
V + 'x' == 'bx'
-V == -1
[V] == [W]
[V, V] == [1, 1]
{'k': V} == {'k': W}
V == V
(V == 1) == true
V.includes('b')
V.includes(1)
quantity('1') == V
V != quantity('1')
V.add(1) == V
device == device
device.driver in ['a', D]
device.driver.startsWith('gpu') == V
device.driver == V
V == device.driver
V < device.driver
"""
_TEMPLATES = (
    *(f"V {operator} {literal}" for operator in _OPERATORS for literal in _LITERALS),
    *(f"{literal} {operator} V" for operator in _OPERATORS for literal in _LITERALS),
    *(f"dyn({literal}) {operator} V" for operator in ("==", "!=", "<") for literal in _LITERALS),
    *(f"V {operator} W" for operator in _OPERATORS),
    *(f"V.compareTo(semver('1.2.3')) {operator} 0" for operator in _OPERATORS),
    *(f"0 {operator} V.compareTo(semver('1.2.3'))" for operator in _OPERATORS),
    *_FORMS.splitlines(),
)


def _filled_in(template: str) -> str:
    expression = template.replace("V", f"{A}.v").replace("W", f"{A}.w")
    return expression.replace("[D]", f'["{D}"]').replace(", D]", f', "{D}"]')


@pytest.mark.slow
def test_both_tiers_agree_on_every_operator_and_type_of_attribute() -> None:
    devices = [
        cel.device_view(D, {"v": left, "w": right}, {}, False)
        for left in _VALUES
        for right in (True, 1, "b", cel.Semver.parse("1.2.3"), ("A100", "b"))
    ]
    generated = 0
    for template in _TEMPLATES:
        try:
            selector = cel.compile_selector(_filled_in(template), environments.get("1.37"))
        except cel.CompileError:
            continue
        generated += selector.is_generated
        for device in devices:
            assert_equal_answers(selector, device)
    assert generated > 150


# --- selectors over attributes of every type, present and missing

_NAMES = ("model", "index", "healthy", "version", "texts", "numbers", "nope")
_CONSTANTS = ('"A100"', '""', "0", "1", "2", "-1", "true", "false", 'semver("1.2.3")', "1.0", "2u", "null", "[1, 2]")


def _attribute(draw: Any) -> str:
    domain = draw(st.sampled_from((f'"{D}"', f'"{D}"', "device.driver", '"other.example.com"')))
    name = draw(st.sampled_from((*_NAMES[:-1], *_NAMES)))
    forms = (".{0}", ".{0}", ".{0}", '["{0}"]', '.?{0}.orValue("z")', '[?"{0}"].orValue(1)', ".{0}[0]", ".{0}.x")
    form = draw(st.sampled_from(forms))
    return f"device.attributes[{domain}]" + form.format(name)


@st.composite
def _conditions(draw: Any, depth: int = 3) -> str:
    if depth and draw(st.booleans()):
        left, right = draw(_conditions(depth - 1)), draw(_conditions(depth - 1))
        return draw(
            st.sampled_from(
                (
                    f"({left} && {right})",
                    f"({left} || {right})",
                    f"!({left})",
                    f"({left} ? {right} : {left})",
                    f"cel.bind(v, {left}, v || {right})",
                    f'["A100", "b"].exists(m, {_attribute(draw)} == m || {right})',
                    f"[1, 2].all(m, {_attribute(draw)} != m && {left})",
                    f"{_attribute(draw)}.exists(e, e == {draw(st.sampled_from(_CONSTANTS))})",
                    f"{_attribute(draw)}.map(e, e).exists_one(e, e == 1)",
                )
            )
        )
    value, other, constant = _attribute(draw), _attribute(draw), draw(st.sampled_from(_CONSTANTS))
    operator = draw(st.sampled_from(("==", "!=", "<", "<=", ">", ">=")))
    return draw(
        st.sampled_from(
            (
                f"dyn({value}) {operator} {constant}",
                f"{value} {operator} {constant}",
                f"{constant} {operator} {value}",
                f"{value} {operator} {other}",
                f"{value} in [0, 1, 2]",
                f'{value} in ["A100", "b"]',
                f"{value} in [{other}]",
                f"1 in {value}",
                f"{value}.startsWith('A')",
                f"{value}.contains('1')",
                f"{value}.matches('^A(1|2)0*$')",
                f"{value}.matches('(a|aa)+$')",
                f"{value}.compareTo(semver('1.2.3')) {operator} 0",
                f"0 {operator} {value}.compareTo(semver('1.2.3'))",
                f"{value}.isLessThan(semver('2.0.0'))",
                f"device.capacity['{D}'].memory.compareTo(quantity('40Gi')) {operator} 0",
                f"device.capacity['{D}'].memory == quantity('80Gi')",
                f"device.capacity['{D}'].?memory.orValue(quantity('1')).isGreaterThan(quantity('2'))",
                f"has({value.partition('.?')[0].partition('[?')[0]}.q)",
                f"'model' in device.attributes['{D}']",
                f"'{D}' in device.attributes",
                f"size({value}) {operator} 2",
                f"{value}",
                "device.allowMultipleAllocations",
                f"cel.bind(d, device.attributes['{D}'], d.model == 'A100' && d.index > 1)",
                f"device.attributes['{D}'].?model.hasValue()",
                f"string({value}) == '2'",
                f"{value} + 1 > 2",
            )
        )
    )


_values = st.one_of(
    st.booleans(),
    st.sampled_from((0, 1, 2, -1, 2**63 - 1)),
    st.sampled_from(("A100", "", "b", "2", "aaaaaaaaaaaaaaaaaaaaaaa!")),
    st.sampled_from(tuple(map(cel.Semver.parse, ("1.2.3", "2.0.0", "1.2.3-rc.1")))),
    st.lists(st.sampled_from((0, 1, 2)), max_size=3).map(tuple),
    st.lists(st.sampled_from(("A100", "b")), max_size=3).map(tuple),
    st.lists(st.booleans(), max_size=3).map(tuple),
)
_devices = st.builds(
    cel.device_view,
    st.sampled_from((D, "other.example.com")),
    st.one_of(
        st.fixed_dictionaries(dict.fromkeys((*_NAMES[:-1], f"{D}/model"), _values)),
        st.dictionaries(st.sampled_from((*_NAMES[:-1], f"{D}/model", f"{D}/index")), _values),
    ),
    st.dictionaries(st.sampled_from(("memory", f"{D}/memory")), st.sampled_from(("80Gi", "1")).map(cel.Quantity.parse)),
    st.booleans(),
)


@pytest.mark.slow
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_conditions(), st.lists(_devices, min_size=2, max_size=5))
def test_both_tiers_agree_on_generated_selectors(expression: str, devices: list[DeviceView]) -> None:
    try:
        selector = cel.compile_selector(expression, environments.get("1.37"))
    except cel.CompileError:
        return
    for device in devices:
        assert_equal_answers(selector, device)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.sampled_from(DEVICES))
def test_both_tiers_agree_on_expressions_from_the_overload_table(data: st.DataObject, fields: dict[str, Any]) -> None:
    from cel.checker.declarations import BOOL

    generator = Generator(lambda bound: data.draw(st.integers(0, bound - 1)), has_device=True)
    try:
        selector = cel.compile_selector(generator.expression(BOOL, 3), environments.get("1.37"))
    except cel.CompileError:
        return
    assert_equal_answers(selector, recorded_device(fields))


# --- what the source is made of


@pytest.mark.parametrize(
    "text",
    ['"); import os; (', "'''", "\\", "{d}", "%s", "\n", "__class__", "\ud7ff", "é", "d.fields", "'+E(d)+'"],
)
def test_texts_of_the_expression_reach_the_source_only_as_literals(text: str) -> None:
    literal = json.dumps(text)
    device = cel.device_view(D, {"model": text}, {}, False)
    for expression in (
        f"{A}.model == {literal}",
        f"{A}.model.startsWith({literal})",
        f"{A}.model in [{literal}, 'x']",
        f"!has({A}.x) && device.driver != {literal}",
        f"{A}[{json.dumps('model')}] == {literal} && !({literal} in {A})",
    ):
        selector = cel.compile_selector(expression)
        assert selector.is_generated
        assert selector.matches(device) is True


def test_generated_code_has_no_builtins() -> None:
    matches = cel.compile_selector(SELECTORS["reference"]).matches
    assert matches.__globals__["__builtins__"] == {}


@pytest.mark.parametrize("name", ["bad", f"{D}/bad"])
def test_a_value_that_nobody_can_read_fails_what_asks_for_it(name: str) -> None:
    device = cel.device_view(D, {"model": "A100", name: UNREADABLE, f"{D}/mended": 1, "other/bad": 2}, {}, False)
    for expression in ("true", f'{A}.model == "A100"', f'!("bad" in {A})', 'device.attributes["other"].bad == 2'):
        selector = cel.compile_selector(expression)
        assert selector.matches(device)
        assert selector.matches_exactly(device)
    text = "attribute bad: value is invalid or its type is not supported by this version"
    for expression in (f"{A}.bad == 1", f"has({A}.bad)", f"!has({A}.bad)", f'{A}[?"bad"].orValue("x") == "x"'):
        with pytest.raises(cel.EvaluationError) as error:
            cel.compile_selector(expression).matches(device)
        assert str(error.value) == text
    guarded = cel.compile_selector(f'{A}.model == "A100" || {A}.bad == 1')
    assert guarded.matches(device) is guarded.matches_exactly(device) is True


# --- loops: written out over a few literals, else the exact evaluator's

DIGITS = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"


def nested_loops(body: str, names: str, macro: str) -> str:
    for name in names:
        body = f"{DIGITS}.{macro}({name}, {body})"
    return body


@pytest.mark.parametrize("names", ["ab", "abc", "abcdef"])
@pytest.mark.parametrize(
    ("macro", "body"),
    [
        ("all", "true"),
        ("all", "a + b >= 0"),
        ("all", "a < 9"),
        ("all", "a > 5 || b < 20"),
        ("all", f"{A}.index == 2"),
        ("all", 'device.driver != "x" && a != 77'),
        ("exists", "false"),
        ("exists", "a == 9 && b == 9"),
        ("exists", "!(a in [0, 1, 2, 3])"),
        ("exists", "a > 3 ? b == 9 : false"),
    ],
)
def test_loops_over_literals_agree_with_the_exact_evaluator(names: str, macro: str, body: str) -> None:
    expression = nested_loops(body, names, macro)
    device = cel.device_view(D, {"index": 2}, {}, False)
    for text in (expression, f"({expression}) || true", f"!({expression})"):
        assert_equal_answers(cel.compile_selector(text, environments.get("1.37")), device)


@pytest.mark.parametrize(("macro", "body"), [("all", "10 / (a - 7) < 100"), ("exists", f"{A}.nope == a")])
def test_errors_in_loops_over_literals_are_the_exact_evaluators(macro: str, body: str) -> None:
    selector = cel.compile_selector(nested_loops(body, "abc", macro), environments.get("1.37"))
    assert_equal_answers(selector, cel.device_view(D, {"index": 2}, {}, False))


@pytest.mark.parametrize(
    "expression",
    [
        f"{A}.texts.exists(t, t == 'a')",
        f"{A}.all(name, name != 'x')",
        f"[1, 2].map(x, x + {A}.index).size() == 2",
        nested_loops("[a]", "abcdefg", "map") + ".size() == 10",
    ],
)
def test_other_loops_and_what_grows_are_left_to_the_exact_evaluator(expression: str) -> None:
    assert not cel.compile_selector(expression, environments.get("1.37")).is_generated


# --- the same table, asked of the Go implementation


def _as_published(value: object) -> dict[str, object]:
    match value:
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
        case str():
            return {"string": value}
        case cel.Semver():
            return {"version": str(value)}
        case tuple():
            fields = [_as_published(element) for element in value] or [{"int": 0}]
            return {f"{next(iter(fields[0]))}s": [next(iter(field.values())) for field in fields[: len(value)]]}
    raise AssertionError(value)


@pytest.mark.oracle
def test_every_operator_and_type_of_attribute_answers_as_go(oracle: Any) -> None:  # noqa: F811
    environment = environments.get("1.36", list_type_attributes=True)
    questions, answers = [], []
    for template in _TEMPLATES:
        expression = _filled_in(template)
        try:
            selector: Selector | cel.CompileError = cel.compile_selector(expression, environment)
        except cel.CompileError as error:
            selector = error
        for value in _VALUES:
            for other in (1, "b"):
                attributes = {"v": _as_published(value), "w": _as_published(other)}
                questions.append(
                    {
                        "kind": "cel",
                        "expression": expression,
                        "device": {"driver": D, "attributes": attributes},
                        "gates": {"listTypeAttributes": True},
                        "cost": False,
                    }
                )
                if isinstance(selector, cel.CompileError):
                    answers.append(("compile", str(selector)))
                else:
                    answers.append(outcome(selector.matches, cel.device_view(D, {"v": value, "w": other}, {}, False)))
    for question, ours, theirs in zip(questions, answers, oracle.ask_all(questions), strict=True):
        assert ours == _go_outcome(theirs), question


def _go_outcome(answer: dict[str, Any]) -> tuple[str, object]:
    if answer.get("compile_error"):
        return "compile", answer["compile_error"]
    if answer.get("runtime_error"):
        return "error", answer["runtime_error"]
    return "matches", answer["value"] == {"bool": "true"}
