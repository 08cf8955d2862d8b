"""Folds in code of their own against the closures of the exact evaluator: same value, same error, same cost."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cel
from cel import environments, walker
from cel.declarations import BOOL
from cel.program import check_expression
from tests.cel.expressions import Generator

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
    """Value or error, and cost, of two evaluations by one plan."""
    monkeypatch.setattr(walker, "HEAT_MAX", heat_max)
    plan = walker.plan(check_expression(expression, ENVIRONMENT))
    found: list[tuple[object, ...]] = []
    for _ in range(2):
        try:
            value, cost = plan.evaluate_with_cost({"device": DEVICE.fields})
            found.append((repr(value), cost))
        except cel.EvaluationError as error:
            found.append((type(error).__name__, str(error)))
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
