"""Hostile expressions: a clean error or an answer, never another exception, and bounded work.

Work is counted in calls (`sys.setprofile`), which is the same on a slow machine; 50 ms are far more calls
than `CALLS_MAX` on any machine of this decade.
"""

import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import cel
from cel.checker import environments
from cel.library.values import LIMIT_EXCEEDED

D = "gpu.example.com"
A = f'device.attributes["{D}"]'
TEXT = "a" * 64
DEVICE = cel.device_view(
    D,
    {"model": TEXT, "index": 2, "healthy": True, "version": cel.Semver.parse("1.2.3"), "texts": ("a", "b") * 24},
    {"memory": cel.Quantity.parse("80Gi")},
    False,
)
CALLS_MAX = 400_000
LENGTH_MAX = 10_240


def answer(expression: str, version: str = "1.37") -> object:
    """True, False or the text of the error; any other exception fails the test."""
    environment = environments.get(version, list_type_attributes=True)
    try:
        selector = cel.compile_selector(expression, environment)
        assert selector.reads is not None
        return selector.matches(DEVICE)
    except (cel.CompileError, cel.EvaluationError) as error:
        text = str(error)
        assert text
        return text


def value(expression: str) -> object:
    """The same for an expression of any type; the value must be encodable."""
    try:
        return cel.encode_value(cel.evaluate(expression, environments.get("1.37"), DEVICE))
    except (cel.CompileError, cel.EvaluationError) as error:
        return str(error)


def count_calls(function: Callable[[], object]) -> int:
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        if event in ("call", "c_call"):
            calls += 1

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls


def nested(left: str, core: str, right: str, times: int) -> str:
    return left * times + core + right * times


PATTERNS = (
    "(a+)+$", "(a|a)*b", "(a|aa)+$", "(x+x+)+y", "(a*)*b", "([a-z]+)*1", "(a?){64}a{64}", "(.*)(.*)(.*)(.*)(.*)[^a]",
    "(a{0,100}){0,10}b", "(a?){1000}b", "(.?){1000}x", "a{1000}b", "(.*a){20}b", "^(([a-z])+.)+[A-Z]([a-z])+$",
    r"(\\w*\\d*)*!", "a?" * 800 + "b", "a*" * 400 + "b", "(a|b|ab)*c", "(?i)(a+)+$", "((a{1,30}){1,30})b",
    "[^b]*" * 200 + "b",
    "(" * 300 + "a" + ")" * 300, "a{1,1000}" * 1000, "[" * 5000, "(?:" * 3000, "a|" * 3000, "\\\\x{110000}",
    "(?P<" + "a" * 3000,
)  # fmt: skip

HOSTILE = {
    **{f"pattern {pattern[:24]} {len(pattern)}": f'{A}.model.matches("{pattern}")' for pattern in PATTERNS},
    **{f"find {pattern[:24]} {len(pattern)}": f'{A}.model.findAll("{pattern}").size() > 3' for pattern in PATTERNS},
    "parentheses-240": nested("(", "true", ")", 240),
    "parentheses-3000": nested("(", "true", ")", 3000),
    "lists-240": nested("[", "1", "]", 240) + " == " + nested("[", "1", "]", 240),
    "lists-5000": nested("[", "", "]", 5000),
    "maps-2000": nested("{1: ", "1", "}", 2000),
    "not-10000": "!" * 10_000 + "true",
    "minus-10000": "-" * 10_000 + "1 == 1",
    "or-2000": " || ".join(["false"] * 1400),
    "or-of-errors": " || ".join([f"{A}.nope == 1"] * 200),
    "and-of-errors": " && ".join([f"{A}.nope == 1"] * 200),
    "sum-2500": "+".join(["1"] * 2500) + " == 2500",
    "texts-added": "+".join(['"a"'] * 2000) + ' == ""',
    "lists-added": "+".join(["[1]"] * 2000) + " == []",
    "calls-chained": '"a"' + ".trim()" * 1400 + ' == "a"',
    "fields-chained": A + ".a" * 4000,
    "indices-chained": A + "[0]" * 3000 + " == 1",
    "optionals-chained": A + ".?a" * 3000 + ".hasValue()",
    "conditionals-chained": "true ? " * 200 + "true" + " : false" * 200,
    "binds-doubling": "".join(f"cel.bind(v{i}, v{i - 1} + v{i - 1}, " for i in range(1, 60)).replace("v0", "[1]")
    + "v59.size() > 0" + ")" * 59,
    "binds-doubling-text": "".join(f"cel.bind(v{i}, v{i - 1} + v{i - 1}, " for i in range(1, 60)).replace("v0", '"ab"')
    + "v59.size() > 0" + ")" * 59,
    "binds-shared": "".join(f"cel.bind(v{i}, v{i - 1} && v{i - 1}, " for i in range(1, 60)).replace("v0",
    f"{A}.healthy")
    + "v59" + ")" * 59,
    "replace-growing": '"a"' + '.replace("a", "aaaaaaaaaa")' * 30 + ".size() > 0",
    "replace-empty": '"a"' + '.replace("", "bbbbbbbbbb")' * 30 + ".size() > 0",
    "join-growing": f'[{A}.model, {A}.model].join("{"x" * 5000}").size() > 0',
    "format-growing": '"%s%s".format(["%s", "%s"])' + ".size() > 0",
    "format-precision": '"%.999999999f".format([1.0]).size() > 0',
    "format-clauses": f'"{"%s" * 3000}".format([{A}.model]).size() > 0',
    "format-tricks": '"%n %c %p %*d %1$s %!".format([1, 2, 3]) == ""',
    "range-huge": "lists.range(9223372036854775807).size() > 0",
    "range-million": "lists.range(1000000).all(x, x >= 0)",
    "range-distinct": "lists.range(5000).distinct().size() > 0",
    "range-sort": "lists.range(100000).sort().size() > 0",
    "sets-square": "sets.contains(lists.range(10000), lists.range(10000))",
    "flatten-deep": nested("[", "1", "]", 200) + ".flatten(1000000).size() == 1",
    "integer-huge": "9" * 10_000 + " == 1",
    "double-huge": "9" * 9_000 + ".0 > 1.0",
    "double-exponent": "1e999999999 > 1.0",
    "hexadecimal-huge": "0x" + "f" * 9_000 + " == 1",
    "conversion-huge": f'int("{"9" * 9000}") == 1',
    "conversion-dynamic": f'int("{"9" * 4000}" + {A}.model) == 1',
    "double-conversion-dynamic": f'double("{"9" * 4000}" + {A}.model) > 1.0',
    "quantity-digits": f'quantity("{"9" * 9000}").isGreaterThan(quantity("1"))',
    "quantity-exponent": 'quantity("1e2147483647").isGreaterThan(quantity("1"))',
    "quantity-negative-exponent": 'quantity("1e-2147483647").isGreaterThan(quantity("1"))',
    "quantity-added": 'quantity("1e1000").add(quantity("1e-9")).compareTo(quantity("1")) == 1',
    "semver-long": f'semver("1.0.0-{"a." * 4000}a").major() == 1',
    "semver-digits": f'semver("{"9" * 9000}.0.0").major() == 1',
    "duration-long": f'duration("{"1h" * 4000}") > duration("0s")',
    "duration-digits": f'duration("0.{"1" * 9000}s" + "") > duration("0s")',
    "timestamp-digits": f'timestamp("2024-01-01T00:00:00.{"1" * 9000}Z") > timestamp(0)',
    "time-zone-path": 'timestamp(0).getHours("../../../../etc/passwd") == 0',
    "time-zone-long": f'timestamp(0).getHours("{"A" * 5000}") == 0',
    "time-zone-offset": 'timestamp(0).getHours("999999999999999999999:00") == 0',
    "url-long": f'url("https://{"a" * 9000}").getHost() == ""',
    "url-query": f'url("https://a?{"&" * 9000}").getQuery().size() == 0',
    "ip-long": f'isIP("{":" * 9000}")',
    "attribute-of-class": "device.__class__",
    "attribute-of-dict": f"{A}.__class__.__mro__",
    "index-of-class": f'{A}["__class__"] == 1',
    "receiver-tricks": '"".__class__.__base__.__subclasses__()',
    "import": '__import__("os").system("true")',
    "names-of-generated-code": "E(d) || R() || c0 || t1",
    "builtins": "open == exec",
    "lambda": "(lambda: true)()",
    "walrus": "(t1 := device)",
    "f-string": '"{device}".format([device])',
    "null-byte": '"\\x00" == "\x00"',
    "control-characters": "\x00\x01\x02",
    "surrogates": '"\ud800" == "\udfff"',
    "bidirectional": '"\u202e" == "\u202e" // \u202e',
    "unterminated": '"' + "a" * 10_000,
    "unterminated-bytes": "b'''" + "\\" * 10_001,
    "comment": "//" * 5000,
    "spaces": " " * 10_000,
    "dots": "." * 10_000,
    "commas": "[" + "," * 5_000 + "]",
    "question-marks": "?" * 5_000,
    "identifier-long": "a" * 10_000,
    "identifiers-many": " + ".join(f"a{i}" for i in range(1400)),
    "literal-list": f"{A}.index in [{', '.join(map(str, range(2000)))}]",
    "exists-over-literals": f"[{', '.join(map(str, range(2000)))}].exists(x, x == {A}.index && false)",
    "struct": "google.protobuf.Int32Value{value: 99999999999} == 1",
    "struct-nested": nested("google.protobuf.Value{value: ", "1", "}", 200),
}  # fmt: skip


@pytest.mark.parametrize("expression", HOSTILE.values(), ids=HOSTILE)
def test_hostile_expression_is_answered_with_bounded_work(expression: str) -> None:
    # Imports and first-use tables are not the expression's work.
    results: list[object] = []
    answer(expression)
    for ask in (answer, value):
        assert count_calls(lambda ask=ask: results.append(ask(expression))) < CALLS_MAX
    assert len(results) == 2


@pytest.mark.parametrize("version", ["1.34", "1.36", "1.37"])
def test_generated_names_are_not_visible_to_expressions(version: str) -> None:
    for name in ("d", "E", "R", "S", "M", "X", "t1", "c0", "ANY", "EQ"):
        assert "undeclared reference" in str(answer(f"{name} == {name}", version))


def test_the_cost_limit_ends_what_would_run_long() -> None:
    digits = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
    expression = "x == 0"
    for name in ("x", "y", "z", "u", "v", "w"):
        expression = f"{digits}.all({name}, {expression} || true)"
    assert answer(expression) == LIMIT_EXCEEDED


def test_the_cost_limit_is_not_absorbed() -> None:
    assert answer("lists.range(1000000).map(x, x).size() > 0 || true") == LIMIT_EXCEEDED


# --- fuzzing

_FRAGMENTS = st.sampled_from(
    (
        *"()[]{}.,?:!-+*/%<>=&|\"'`\\@#$;~^ \n\t\0", "&&", "||", "==", "!=", "<=", ">=", " in ", "true", "false",
        "null",
        "device", ".driver", ".attributes", ".capacity", A, f'{A}.model', f"{A}.index", "1", "0x", "1u", "1.5", "1e9",
        "9223372036854775808", '"a"', "b'x'", "r'\\d'", '"""', "cel.bind(", "has(", ".exists(x, ", ".all(x, ",
        ".map(x, ",
        "x", ".?", "[?", ".orValue(", "quantity(", "semver(", ".compareTo(", "matches(", "optional.none()", "duration(",
        "__class__", "{}", "%s", "${x}", "é", "日", "😀", "\ud800", "\u202e", "int", "dyn(", "size(", ".size()",
    )
)  # fmt: skip


@pytest.mark.slow
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.text(max_size=60), st.lists(_FRAGMENTS, max_size=25).map("".join)))
@example("\ud800")
@example('"\\ud800" == ""')
@example("")
def test_any_text_gives_an_answer_or_a_clean_error(text: str) -> None:
    answer(text)
    value(text)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=40), st.sampled_from((".matches({})", ".findAll({}).size() > 0", ".find({}) == 'a'")))
def test_any_pattern_gives_an_answer_or_a_clean_error(pattern: str, call: str) -> None:
    answer(f"{A}.model" + call.format(json.dumps(pattern)))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.text(max_size=30),
    st.sampled_from(
        (
            "int({})", "uint({})", "double({})", "bool({})", "string({})", "bytes({})", "duration({})", "timestamp({})",
            "quantity({})", "isQuantity({})", "semver({})", "semver({}, true)", "isSemver({}, true)", "url({})",
            "isURL({})", "ip({})",
            "cidr({})", "isIP({})", "isCIDR({})", "ip.isCanonical({})", "{}.format([1, 'a', 2.5])", "{}.format([])",
            "format.uri().validate({})", "format.uuid().validate({})", "format.datetime().validate({})",
            "strings.quote({})",
            "format.date().validate({})", "format.byte().validate({})", "format.qualifiedName().validate({})",
            "{}.split({})",
            "{}.replace({}, {})", "{}.substring(1)", "timestamp(0).getHours({})", "url('https://' + {})",
            "url({}).getQuery()",
            "{}.lowerAscii().upperAscii().trim()", "{}.indexOf({})", "{}.charAt(3)", "[{}].join({})",
            "cidr('10.0.0.0/8').containsIP({})",
            "format.named({})", "format.labelValue().validate({})", "format.dns1123Subdomain().validate({})",
            "type({})", "{} < {}",
        )
    ),
)  # fmt: skip
def test_any_text_argument_gives_a_value_or_a_clean_error(text: str, call: str) -> None:
    literal = json.dumps(text)
    value(call.replace("{}", literal))
    value(call.replace("{}", f"dyn({literal} + '')"))
