"""Effort: hostile expressions end within the limit on effort, the same whoever evaluates them.

Nothing here is measured in time: effort is counted, and calls are where the count itself is to be trusted.
"""

import contextlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cel
from cel.evaluator import codegen, walker
from cel.evaluator.codegen import UNROLLED_MAX
from cel.library import values
from cel.library.kube_library import implementations
from cel.program import check_expression
from tests.cel.expressions import Generator
from tests.cel.hostile_expressions import DEVICE, ENVIRONMENT, FAMILIES, LENGTH_MAX, A
from tests.cel.test_hostile import count_calls

LIMIT_TEXT = values.LIMIT_EXCEEDED
CALLS_MAX = 350_000
"""What counts as a call costs about 40 ns, as a unit of effort."""
SINGLE_MAX = 100_000
"""How far one step may go beyond the limit before anybody looks."""

LOOPS = {name: text for name, text in FAMILIES.items() if not name.startswith(("large", "medium", "more"))}
LARGE = {name: text for name, text in FAMILIES.items() if name.startswith(("large", "medium"))}


def outcome(matches: Any) -> object:
    try:
        return matches(DEVICE)
    except cel.EvaluationError as error:
        return str(error)


def compiled(expression: str) -> cel.Selector | None:
    try:
        return cel.compile_selector(expression, ENVIRONMENT)
    except cel.CompileError:
        return None


@pytest.mark.slow
def test_families_are_ones_an_api_server_takes() -> None:
    assert all(len(expression.encode()) <= LENGTH_MAX for expression in FAMILIES.values())
    refused = [name for name, expression in FAMILIES.items() if compiled(expression) is None]
    assert len(refused) < 20
    assert all(name.startswith("large") for name in refused), refused


@pytest.mark.parametrize("name", FAMILIES)
def test_hostile_families_end_within_the_limit_whoever_evaluates_them(name: str) -> None:
    """By the exact evaluator, which counts its effort; by generated code, whose calls are counted; and once more."""
    selector = compiled(FAMILIES[name])
    if selector is None:
        assert name.startswith("large")
        return
    answer = outcome(selector.matches_exactly)  # first: imports are not the expression's work
    if answer != LIMIT_TEXT:
        assert values.EFFORT[0] <= values.EFFORT_LIMIT
        assert answer in (True, False) or name.startswith(("large", "medium")), answer
    twin: list[object] = []
    if name in LOOPS:
        assert count_calls(lambda: twin.append(outcome(selector.matches))) < CALLS_MAX
    else:
        twin.append(outcome(selector.matches))
    assert twin == [answer]
    if selector.is_generated:
        # With everything remembered: patterns, empty texts. What is not generated was just asked for again.
        assert outcome(selector.matches_exactly) == answer
    elif name in LARGE:
        assert generated_answer(FAMILIES[name]) == answer


def generated_answer(expression: str) -> object:
    """What generated code would say of an expression that is too large for it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(codegen, "NODES_MAX", 10**6)
        patched.setattr(codegen, "DEPTH_MAX", 60)
        forced = compiled(expression)
    assert forced is not None
    return outcome(forced.matches)


def test_without_effort_they_do_much_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """That the test above can fail."""

    class Nothing(list[int]):
        def __setitem__(self, index: Any, value: Any) -> None:
            pass

    monkeypatch.setattr("cel.library.kube_library.spend", lambda effort: None)
    monkeypatch.setattr("cel.library.network.spend", lambda effort: None)
    monkeypatch.setattr("cel.evaluator.walker.EFFORT", Nothing([0]))
    selector = cel.compile_selector(LOOPS["calls: ip"], ENVIRONMENT)
    outcome(selector.matches_exactly)
    assert count_calls(lambda: outcome(selector.matches_exactly)) > 1.5 * CALLS_MAX


LONG = 3_000
CALLED: dict[str, tuple[str, list[Any]]] = {
    "quantity": ("string_to_quantity", ["10Gi"]),
    "quantity-long": ("string_to_quantity", ["9" * LONG]),
    "quantity-fraction": ("string_to_quantity", ["0." + "9" * LONG]),
    "quantity-wrong": ("is_quantity_string", ["9" * LONG + "x"]),
    "semver-long": ("string_to_semver", ["1.0.0-" + "a." * LONG + "a"]),
    "semver-wrong": ("is_semver_string", ["1.0.0-" + "a." * LONG]),
    "duration-long": ("string_to_duration", ["1h" * LONG]),
    "duration-digits": ("string_to_duration", ["1" * LONG + "h"]),
    "timestamp": ("string_to_timestamp", ["2024-02-29T13:30:45.5+01:00"]),
    "time-zone": ("timestamp_to_hours_with_tz", [values.Timestamp(10**18), "America/New_York"]),
    "ip-long": ("is_ip", ["a" * LONG]),
    "ip": ("string_to_ip", ["2001:db8:1:2:3:4:5:6"]),
    "ip-printed": ("ip_is_canonical", ["2001:db8::68"]),
    "cidr": ("string_to_cidr", ["2001:db8:1:2:3:4:5:6/64"]),
    "url-long": ("string_to_url", ["https://a/" + "%41" * LONG]),
    "url-wrong": ("is_url_string", ["https://" + "a" * LONG + "{"]),
    "format-printed": ("string_format", ["%s" * LONG, [5] * LONG]),
    "format-doubles": ("string_format", ["%e" * LONG, [5.5] * LONG]),
    "format-percent": ("string_format", ["%%" * LONG, []]),
    "format-list": ("string_format", ["%s", [[["a", 1, 2.5]] * LONG]]),
    "format-map": ("string_format", ["%s", [{str(i): i for i in range(LONG)}]]),
    "sum": ("list_int_sum_int", [list(range(LONG))]),
    "min": ("list_double_min_double", [[float(i) for i in range(LONG)]]),
    "is-sorted": ("list_int_is_sorted_bool", [list(range(LONG))]),
    "index-of": ("list_a_index_of_int", [[float(i) for i in range(LONG)], -1.0]),
    "includes": ("list_includes_dyn_dyn", [[float(i) for i in range(LONG)], -1.0]),
    "sets": ("list_sets_contains_list", [[float(i) for i in range(90)]] * 2),
    "distinct": ("list_distinct", [[[i] for i in range(90)]]),
    "unwrap": ("optional_unwrap", [[values.Optional(1)] * LONG]),
    "find-all": ("string_find_all_string", ["ab" * LONG, "(a|ab)+?c?b"]),
}


@pytest.mark.parametrize(("overload", "arguments"), CALLED.values(), ids=CALLED)
def test_what_a_function_spends_is_what_it_does(overload: str, arguments: list[Any]) -> None:
    function = implementations(37)[overload]

    def call() -> None:
        with contextlib.suppress(cel.EvaluationError, values.AbortedError):
            function(*arguments)

    call()
    values.begin()
    calls = count_calls(call)
    assert calls <= 60 + values.EFFORT[0]


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(100000) == [] || true",
        "!(lists.range(100000) == [] && false)",
        "[1].exists(x, lists.range(100000) == []) || true",
        "[1, 2].exists(x, x == 2 || lists.range(100000) == [])",
        "cel.bind(x, lists.range(100000), x == []) || true",
    ],
)
def test_nothing_absorbs_what_ends_an_evaluation(expression: str) -> None:
    planned = walker.plan(check_expression(expression, ENVIRONMENT))
    assert outcome(lambda device: planned.evaluate({"device": device.fields})) == LIMIT_TEXT


def test_the_limit_is_on_all_effort_together() -> None:
    """Without any loop around what spends; neither is above the limit alone."""
    spending = f'duration("{"1h" * 3000}" + "") > duration("0s")'
    costly = "lists.range({}).size() > 0"
    assert outcome(cel.compile_selector(f"{spending} && {costly.format(70_000)}", ENVIRONMENT).matches) is True
    assert outcome(cel.compile_selector(costly.format(90_000), ENVIRONMENT).matches) is True
    for expression in (
        f"{costly.format(90_000)} && {spending}",
        f"{costly.format(90_000)} && {spending} || true",
        f"{costly.format(90_000)} && {spending} && 1 / (device.driver.size() - device.driver.size()) == 1",
    ):
        assert outcome(cel.compile_selector(expression, ENVIRONMENT).matches) == LIMIT_TEXT


def test_generated_code_gives_up_at_a_quarter_of_the_limit() -> None:
    seen = set()
    for count in (10, 25, 28, 31, 34, 37, 40, 60, 100, 110, 120):
        patterns = [f"'a{{500}}{i}'" for i in range(1000, 1000 + count)]
        lists = (", ".join(patterns[i : i + UNROLLED_MAX]) for i in range(0, count, UNROLLED_MAX))
        expression = " || ".join(f"[{each}].exists(p, device.driver.matches(p))" for each in lists)
        selector = cel.compile_selector(expression, ENVIRONMENT)
        assert selector.is_generated
        answer = outcome(selector.matches)
        did_give_up = walker_ran(selector)
        assert answer == outcome(selector.matches_exactly)
        seen.add((answer, did_give_up))
    assert seen == {(False, False), (False, True), (LIMIT_TEXT, True)}


def walker_ran(selector: cel.Selector) -> bool:
    before = values.WORK[0]
    outcome(selector.matches)
    return values.WORK[0] > before


@pytest.mark.parametrize("terms", range(1, 12))
@pytest.mark.parametrize(
    "term",
    [
        'device.driver.matches(t + "x{#}")',
        'timestamp(0).getHours(t + "#") == 25',
        'url("https://" + t + "/#" + device.driver).getHost() == "x"',
        't.matches("(a|b)+x#")',
        'semver("1.2.#").isLessThan(semver("1.0.0"))',
    ],
)
def test_both_evaluators_agree_also_near_the_limit(term: str, terms: int) -> None:
    body = " || ".join(term.replace("#", str(i)) for i in range(1, terms + 1))
    for expression in (f"{A}.texts.exists(t, {body})", f"!{A}.texts.all(t, {A}.texts.all(u, u != 'x' && !({body})))"):
        selector = cel.compile_selector(expression, ENVIRONMENT)
        assert outcome(selector.matches) == outcome(selector.matches_exactly)
        assert outcome(selector.matches) == outcome(selector.matches_exactly)


@pytest.mark.slow
def test_large_expressions_can_be_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    """That `generated_answer` compares something."""
    before = sum(selector.is_generated for selector in map(compiled, LARGE.values()) if selector is not None)
    monkeypatch.setattr(codegen, "NODES_MAX", 10**6)
    after = sum(selector.is_generated for selector in map(compiled, LARGE.values()) if selector is not None)
    assert after > before + 10


@pytest.mark.parametrize(
    "expression",
    [
        f"{LOOPS['calls: ip']} || true",
        f"true || {LOOPS['calls: ip']}",
        f"!({LOOPS['calls: ip']}) && false",
        f"[1].exists(x, {LOOPS['calls: ip']}) || true",
        f"({LOOPS['calls: ip']}) == ({LOOPS['calls: ip']}) || true",
        f"[{LOOPS['calls: ip']}].size() == 1 || true",
        "cel.bind(a, lists.range(100000).map(x, isIP(string(x))), a.size() > 0 || true) || true",
        f"!lists.range(100000).exists(x, {A}.nope == isIP(string(x) + ':') && false) || true",
    ],
)
def test_the_limit_on_effort_is_not_absorbed(expression: str) -> None:
    if expression.startswith("true"):
        assert outcome(cel.compile_selector(expression, ENVIRONMENT).matches_exactly) is True  # nothing was spent
        return
    assert outcome(cel.compile_selector(expression, ENVIRONMENT).matches_exactly) == LIMIT_TEXT
    assert outcome(cel.compile_selector(expression, ENVIRONMENT).matches) == LIMIT_TEXT


@pytest.mark.parametrize(
    ("expression", "most"),
    [
        (f'{A}.model == "A100" || device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0', 300),
        (f'{A}.version.compareTo(semver("1.0.0")) >= 0 && {A}.model.startsWith("a")', 300),
        (f'{A}.model.matches("^(A|H)100$") || {A}.healthy', 1_000),
        (f'{A}.texts.exists(t, t == "b")', 500),
        (f"cel.bind(d, {A}, d.index < 4 && [1, 2, 3].exists(i, i == d.index))", 1_000),
        ('semver("1.2.3").major() == 1 && quantity("1Gi").isGreaterThan(quantity("1Mi"))', 600),
    ],
)
def test_real_selectors_spend_a_three_hundredth_of_the_limit(expression: str, most: int) -> None:
    assert spent(expression)[0] is True
    assert 0 < spent(expression)[1] <= most <= values.EFFORT_LIMIT // 300


def spent(expression: str, plan: walker.Plan | None = None) -> tuple[object, int]:
    plan = plan or walker.plan(check_expression(expression, ENVIRONMENT))
    return plan.evaluate({"device": DEVICE.fields}), values.EFFORT[0]


@pytest.mark.parametrize(
    "body",
    [
        f"{A}.model.matches(string(x) + 'a+')",
        f"{A}.model.find('(a|aa)+b') == ''",
        "string(x).trim().trim().trim().trim().trim() == 'x'",
        "''.trim().trim().trim().trim().trim() == 'x'",
        "quantity(string(x)).isInteger()",
        "timestamp(x).getHours('America/New_York') == 25",
        "optional.none().orValue(x) == -1",
        "{'a': x}.transformMap(k, v, v + 1) == {}",
        "[].exists(y, y == x)",
        "cel.bind(y, x, y == 1)",
    ],
)
def test_what_is_remembered_does_not_matter(body: str) -> None:
    expression = f"lists.range(20).exists(x, {body} && false)"
    plan = walker.plan(check_expression(expression, ENVIRONMENT))
    first = spent(expression, plan)
    assert spent(expression, plan) == first
    assert spent(expression) == first
    assert spent(expression, plan) == first
    assert first[1] > 0


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_effort_is_the_same_for_any_expression_evaluated_again(data: Any) -> None:
    def choose(count: int) -> int:
        drawn: int = data.draw(st.integers(0, count - 1))
        return drawn

    generator = Generator(choose, has_device=True)
    body = generator.expression(generator.any_type(), 1 + choose(3))
    expression = f"[1, 2, 3].map(one, [dyn({body}), dyn(one)].size()).size()"
    found = set()
    try:
        plan = walker.plan(check_expression(expression, ENVIRONMENT))
    except cel.CompileError:
        return
    for _ in range(3):
        try:
            value: object = plan.evaluate({"device": DEVICE.fields})
        except cel.EvaluationError as error:
            if str(error) == values.LIMIT_EXCEEDED:
                return
            value = str(error)
        found.add((repr(value), values.EFFORT[0]))
    assert len(found) == 1, expression


NAMES = ",".join(f"'n{i}'" for i in range(32))
TEXTS = ",".join(f"'v{i}'" for i in range(48))


@pytest.mark.parametrize(
    "expression",
    [
        # What a device may have at most: 32 attributes, 48 values in lists; each against each, and once more.
        f"[{NAMES}].all(n, [{TEXTS}].all(t, n != t))",
        f"[{NAMES}].all(n, [{TEXTS}].exists(t, t.endsWith('47') && n.startsWith('n')))",
        f"[{TEXTS}].all(t, [{TEXTS}].exists(u, u == t) && t in {A}.texts + [{TEXTS}])",
        f"[{TEXTS}].all(t, sets.contains([{TEXTS}], [t]))",
        f"[{TEXTS}].map(t, t + 'x').distinct().size() == 48",
        "!lists.range(3000).exists(x, x * x < 0)",
    ],
)
def test_loops_over_all_that_a_device_may_have_are_answered(expression: str) -> None:
    assert outcome(cel.compile_selector(expression, ENVIRONMENT).matches) is True


DIGITS_28 = f"[{','.join(map(str, range(28)))}]"


def test_loops_of_28_by_28_by_28_are_not_answered() -> None:
    """cel-go answers, at a cost of about 500,000."""
    expression = f"{DIGITS_28}.all(a, {DIGITS_28}.all(b, {DIGITS_28}.all(c, a + b + c + 1 >= 0)))"
    assert outcome(cel.compile_selector(expression, ENVIRONMENT).matches) == LIMIT_TEXT
    # Two of the three are.
    assert outcome(cel.compile_selector(expression.replace(DIGITS_28, "[1]", 1), ENVIRONMENT).matches) is True


@pytest.mark.parametrize(
    "expression",
    [
        # 2**39 comparisons of a list with itself; a list of 131,072 joined 40,000 times; as many patterns.
        "".join(f"cel.bind(v{i}, [v{i - 1}, v{i - 1}], " for i in range(1, 40)).replace("v0", "[1]") + "v39 == v39"
        + ")" * 39,
        "".join(f"cel.bind(v{i}, v{i - 1} + v{i - 1}, " for i in range(1, 18)).replace("v0", "[1]")
        + "lists.range(40000).all(x, (v17 + [x]).size() > 0)" + ")" * 17,
        "lists.range(10000).all(x, string(x).matches('(a+)+' + string(x)) || true)",
        "lists.range(3000).all(x, string(x).find('')" + ".trim()" * 240 + " == 'x' || true)",
    ],
)  # fmt: skip
def test_work_that_costs_nothing_is_bounded_too(expression: str) -> None:
    selector = cel.compile_selector(expression, ENVIRONMENT)
    answers = []
    assert count_calls(lambda: answers.append(outcome(selector.matches_exactly))) < CALLS_MAX
    assert answers == [LIMIT_TEXT]
