"""Folds in code of their own against the closures of the exact evaluator: same value, same error, same cost."""

import contextlib
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, target
from hypothesis import strategies as st

import cel
from cel import environments, values, walker
from cel.declarations import BOOL
from cel.program import check_expression
from tests.cel.expressions import Generator
from tests.cel.test_hostile import count_calls

D = "gpu.example.com"
A = f'device.attributes["{D}"]'
DEVICE = cel.device_view(
    D,
    {"model": "A100", "index": 2, "healthy": True, "version": cel.Semver.parse("1.2.3"), "ints": (3, 1, 2)},
    {"memory": cel.Quantity.parse("80Gi")},
    False,
)
ENVIRONMENT = environments.get("1.37", list_type_attributes=True)
AT_ONCE, NEVER = -1, 10**9


def outcome(expression: str, heat_max: int, monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """Value and cost and effort, or the error, of two evaluations by one plan."""
    monkeypatch.setattr(walker, "HEAT_MAX", heat_max)
    plan = walker.plan(check_expression(expression, ENVIRONMENT))
    found: list[tuple[object, ...]] = []
    for _ in range(2):
        try:
            value, cost = plan.evaluate_with_cost({"device": DEVICE.fields})
            found.append((repr(value), cost, values.EFFORT[0]))
        except cel.EvaluationError as error:
            spent = None if isinstance(error, values.AbortedError) else values.EFFORT[0]
            found.append((type(error).__name__, str(error), spent))
    return found


class Loops:
    """Bool expressions full of loops, errors, bindings and parts that do not depend on the innermost variable."""

    def __init__(self, choose: Callable[[int], int]) -> None:
        self.choose = choose
        self.names = 0

    def pick(self, *texts: str) -> str:
        return texts[self.choose(len(texts))]

    def name(self) -> str:
        self.names += 1
        return self.pick(f"v{self.names}", "x", "y")

    def number(self, scope: tuple[str, ...], depth: int) -> str:
        if depth <= 0 or self.choose(4) == 0:
            return self.pick(
                "0", "1", "2", "-7", "9223372036854775807", f"{A}.index", f"{A}.nope", "dyn('t')", *scope, *scope
            )
        left, right = self.number(scope, depth - 1), self.number(scope, depth - 1)
        if not self.choose(8):
            return f"dyn({self.test(scope, depth - 1)} ? {left} : {right})"
        if not self.choose(8):
            name = self.name()
            return f"cel.bind({name}, dyn({left}), {self.number((*scope, name), depth - 1)})"
        if not self.choose(10):
            return f"{self.values(scope, depth - 1)}.size()"
        if not self.choose(10):
            return f"dyn({self.values(scope, depth - 1)})[{left}]"
        return f"(dyn({left}) {self.pick('+', '-', '*', '/', '%')} {right})"

    def values(self, scope: tuple[str, ...], depth: int) -> str:
        if depth <= 0 or self.choose(3) == 0:
            one, other = self.number(scope, 0), self.number(scope, 0)
            return self.pick(
                "[1, 2, 3]", "[0, 5]", "lists.range(4)", f"{A}.ints", "[dyn('a'), dyn(1), dyn(2.0)]", f"{A}.nope", "[]",
                f"[dyn({one}), dyn({other})]", "[[1], [2, 3]]", "{'a': 1}.map(k, k)",
            )  # fmt: skip
        name = self.name()
        inner = (*scope, name)
        values = self.values(scope, depth - 1)
        match self.choose(5):
            case 0:
                return f"{values}.map({name}, {self.number(inner, depth - 1)})"
            case 1:
                return f"{values}.filter({name}, {self.test(inner, depth - 1)})"
            case 2:
                other = self.name() + "i"
                return f"{values}.transformList({other}, {name}, {self.number((*inner, other), depth - 1)})"
            case 3:
                return f"{values}.map({name}, {self.test(inner, depth - 1)}, {self.number(inner, depth - 1)})"
            case _:
                return f"({values} + [{self.number(scope, depth - 1)}])"

    def test(self, scope: tuple[str, ...], depth: int) -> str:
        if depth <= 0:
            return f"{self.number(scope, 0)} {self.pick('==', '!=', '<', '>=')} {self.number(scope, 0)}"
        name = self.name()
        inner = (*scope, name)
        less = depth - 1
        match self.choose(13):
            case 0:
                return f"({self.test(scope, less)} || {self.test(scope, less)} || {self.test(scope, less)})"
            case 1:
                return f"({self.test(scope, less)} && {self.test(scope, less)})"
            case 2:
                return f"!({self.test(scope, less)})"
            case 3 | 4:
                return f"{self.values(scope, less)}.{self.pick('all', 'exists')}({name}, {self.test(inner, less)})"
            case 5:
                return f"{self.values(scope, less)}.exists_one({name}, {self.test(inner, less)})"
            case 6:
                return f"cel.bind({name}, dyn({self.number(scope, less)}), {self.test(inner, less)})"
            case 7:
                return f"{self.number(scope, less)} in {self.values(scope, less)}"
            case 8:
                return f"{self.values(scope, less)} == {self.values(scope, less)}"
            case 9:
                other = self.name() + "i"
                body = self.test((*inner, other), less)
                return f"{self.values(scope, less)}.{self.pick('all', 'exists')}({other}, {name}, {body})"
            case 10:
                return f"({self.test(scope, less)} ? {self.test(scope, less)} : {self.test(scope, less)})"
            case 11:
                other = self.name() + "i"
                mapped = (
                    f"{self.values(scope, less)}.transformMap({other}, {name}, {self.number((*inner, other), less)})"
                )
                return f"dyn({mapped}).size() == {self.number(scope, 0)}"
            case _:
                operator = self.pick("==", "!=", "<", "<=", ">", ">=")
                return f"{self.number(scope, depth)} {operator} {self.number(scope, depth)}"


def check_same(expression: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    try:
        expected = outcome(expression, NEVER, monkeypatch)
    except cel.CompileError:
        return False
    assert outcome(expression, AT_ONCE, monkeypatch) == expected, expression
    return True


def test_generated_loops_cost_and_answer_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = 20261121
    choices = random.Random(seed)
    print(f"seed {seed}")
    compared = sum(check_same(Loops(choices.randrange).test((), 2 + i % 4), monkeypatch) for i in range(1_500))
    assert compared > 700


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_loops_cost_and_answer_the_same(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(count: int) -> int:
        drawn: int = data.draw(st.integers(0, count - 1))
        return drawn

    check_same(Loops(choose).test((), 3), monkeypatch)


def test_any_function_in_a_loop_costs_and_answers_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = 20261122
    choices = random.Random(seed)
    print(f"seed {seed}")
    compared = 0
    for _ in range(700):
        generator = Generator(choices.randrange, has_device=True)
        body = generator.expression(BOOL, 1 + choices.randrange(3))
        if len(body) < 1_000:
            compared += check_same(f"[1, 2, 3].exists(one, ({body}) && one == 2)", monkeypatch)
    assert compared > 350


# --- how much is done until the cost limit ends it

DIGITS = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
LIMIT_TEXT = "operation cancelled: actual cost limit exceeded"


def nest(body: str, macro: str = "all") -> str:
    for name in "fedcba":
        body = f"{DIGITS}.{macro}({name}, {body})"
    return body


SLOW = {
    "division": nest("1 / (a - a) == f || true"),
    "division-by-each": nest("f / (a - a) == b + c + d + e || true"),
    "attribute": nest(f"{A}.nope == f || true"),
    "exists": nest("1 / (f - f) == 1", "exists"),
    "exists-one": nest("f == 11 || 1 / (f - f) == 1", "exists_one"),
    "range": "lists.range(100000).all(x, 1 / (x - x) == 1 || true)",
    "two-variables": "lists.range(60000).all(i, v, 1 / (i - v) == 1 || true)",
    "conditional": "lists.range(100000).all(x, (x > 5 ? 1 / (x - x) : x) == 1 || true)",
    "many-terms": f"lists.range(1000).all(x, {' || '.join(['1 / (x - x) == 1'] * 550)} || true)",
    "map-of-errors": "lists.range(900000).map(x, 1 / 0).size() > 0",
    "calls-for-nothing": "lists.range(3000).all(x, string(x).find('')" + ".trim()" * 240 + " == 'x' || true)",
    "distinct": "lists.range(700).distinct().size() == 700",
    "sets": "sets.equivalent(lists.range(600), lists.range(600))",
    "membership": "lists.range(900).all(x, !((x + 1000) in lists.range(900)))",
}  # fmt: skip
CALLS_MAX = 200_000
CALLS_OF_CLOSURES = 1_000_000


@pytest.mark.parametrize("expression", SLOW.values(), ids=SLOW)
def test_what_runs_until_the_limit_does_little_for_its_cost(expression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    selector = cel.compile_selector(expression, ENVIRONMENT)
    answers: list[object] = []

    def answer() -> None:
        try:
            answers.append(selector.matches_exactly(DEVICE))
        except cel.EvaluationError as error:
            answers.append(str(error))

    assert count_calls(answer) < CALLS_MAX
    monkeypatch.setattr(walker, "HEAT_MAX", NEVER)
    selector = cel.compile_selector(expression, ENVIRONMENT)
    answer()
    assert answers[0] == answers[1]


def test_closures_do_much_for_the_same_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """That the test above can fail."""
    monkeypatch.setattr(walker, "HEAT_MAX", NEVER)
    selector = cel.compile_selector(SLOW["division"], ENVIRONMENT)

    def answer() -> None:
        with pytest.raises(cel.EvaluationError, match=LIMIT_TEXT):
            selector.matches(DEVICE)

    assert count_calls(answer) > CALLS_OF_CLOSURES


@pytest.mark.parametrize(
    "expression",
    [
        # 2**39 comparisons of a list with itself; a list of 131,072 joined 40,000 times; as many patterns.
        "".join(f"cel.bind(v{i}, [v{i - 1}, v{i - 1}], " for i in range(1, 40)).replace("v0", "[1]") + "v39 == v39"
        + ")" * 39,
        "".join(f"cel.bind(v{i}, v{i - 1} + v{i - 1}, " for i in range(1, 18)).replace("v0", "[1]")
        + "lists.range(40000).all(x, (v17 + [x]).size() > 0)" + ")" * 17,
        "lists.range(100000).all(x, string(x).matches('(a+)+' + string(x)) || true)",
    ],
)  # fmt: skip
def test_work_that_costs_nothing_is_bounded_too(expression: str) -> None:
    selector = cel.compile_selector(expression, ENVIRONMENT)

    def answer() -> None:
        with pytest.raises(cel.EvaluationError, match=LIMIT_TEXT):
            selector.matches(DEVICE)

    answer()
    assert count_calls(answer) < 3_000_000
    assert cel.compile_selector("[[1], [2]] == [[1], [2]]", ENVIRONMENT).matches_exactly(DEVICE) is True


@settings(deadline=None, max_examples=25, suppress_health_check=[*HealthCheck])
@given(data=st.data())
def test_hunt_for_expressions_that_do_much(data: Any) -> None:
    """Hypothesis drives towards expressions with many calls; none does more than closures would for 300,000."""

    def choose(count: int) -> int:
        drawn: int = data.draw(st.integers(0, count - 1))
        return drawn

    body = Loops(choose).test(("a", "b", "c", "d"), 2)
    for name in "dcba":
        body = f"lists.range(14).{('all', 'exists')[choose(2)]}({name}, {body} || {('true', 'false')[choose(2)]})"
    try:
        selector = cel.compile_selector(body, ENVIRONMENT)
    except cel.CompileError:
        return

    def answer() -> None:
        with contextlib.suppress(cel.EvaluationError):
            selector.matches(DEVICE)

    calls = count_calls(answer)
    target(float(calls))
    assert calls < 900_000, body


@pytest.mark.parametrize(
    "expression",
    [
        # A binding that is first read by a part that is kept.
        "[1, 2, 3].all(a, cel.bind(v, a + 1, [1, 2, 3].all(b, v + a > 0)))",
        "cel.bind(v, 1 + dyn(1), [1, 2, 3].all(a, a == 1 || [1, 2, 3].all(b, b > 5 || v * 2 > 0)))",
        f"cel.bind(v, {A}.nope, [1, 2, 3].all(a, a == 1 || [1, 2, 3].all(b, v + 1 > 0 || true)))",
        # One part twice, where the first is not always evaluated.
        "[1, 2, 3, 4].all(a, (a > 2 ? a * a > 1 : true) && a * a > 0)",
        "[1, 2, 3, 4].all(a, (a > 2 || 1 / (a - 1) == 5) || 1 / (a - 1) == 7 || true)",
        # Deeper than Python lets blocks nest.
        "".join(f"[1].all(a{i}, " for i in range(24)) + "a0 == a23" + ")" * 24,
        "[1, 2].all(x, " + "(x > 0 ? " * 60 + "true" + " : false)" * 60 + ")",
        "[1, 2].all(x, " + "(x > 0 && (x < 0 || " * 40 + "true" + "))" * 40 + ")",
        "[1, 2, 3].all(x, [" + ", ".join(["1 / (x - 4)"] * 90) + "].size() == 90)",
    ],
)
def test_directed_loops_cost_and_answer_the_same(expression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_same(expression, monkeypatch)
