"""Compiling in parts: the same outcome, and no part that takes long."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cel import compile_in_stages, compile_selector, device_view
from cel.checker import checker, environments
from cel.checker.checker import Checked, check, check_in_parts
from cel.errors import CompileError, EvaluationError
from cel.evaluator import walker
from cel.library.device import DeviceView
from cel.parser.frontend import parse
from tests.cel.expressions import Generator as Expressions
from tests.cel.test_hostile import count_calls

DENSE = {
    "macros": "&&".join(["[].map(x,x)==[]"] * 600),
    "macros-in-macros": "||".join(["[1].exists(x,[x].exists(y,x==y))"] * 300),
    "sorted": "&&".join(["[].sortBy(x,x)==[]"] * 500),
    "lists": "[" + ",".join(["[]"] * 3000) + "]==[]",
    "maps": "[" + ",".join(["{'a':[]}"] * 1000) + "]==[]",
    "nested-lists": "&&".join(["[" * 50 + "]" * 50 + "==" + "[" * 50 + "]" * 50] * 45),
    "deep": "[]" + ".map(x,[x])" * 200 + "==[]",
    "namespaces": "&&".join(["optional.none().orValue([])==[]&&sets.contains([1],[1])"] * 100),
    "names": "&&".join(["device.driver.lowerAscii().size() in [1, 2]&&type(1)==int"] * 100),
    "selections": "&&".join(["{'a':{'b':1}}.a.b==1&&device.attributes['d'].?x.orValue(1)==1"] * 100),
    "errors": "&&".join(["nope(1)==[]", "size(1, nope)", "[1, 'a'].map(x, y)", "'a' + 1 == {}.x"] * 60),
    "unknown-types": "&&".join(["[].map(x, [x]) == [1, 'a']"] * 200),
}


def all_of(generator: Generator[None, None, Checked]) -> tuple[Checked, int]:
    parts = 1
    while True:
        try:
            next(generator)
            parts += 1
        except StopIteration as end:
            return end.value, parts


def outcome(run: Callable[[], Checked]) -> object:
    """All that checking finds out, or the refusal."""
    try:
        found = run()
    except CompileError as error:
        return str(error)
    types = {key: str(type_) for key, type_ in found.types.items()}
    return repr(found.expr), types, dict(found.references), found.has_constants, str(found.output_type)


@pytest.mark.parametrize("expression", DENSE.values(), ids=DENSE)
def test_what_is_checked_in_parts_comes_out_the_same(expression: str) -> None:
    environment = environments.get("1.37")
    parsed = parse(expression, options=environment.parse_options)
    parts = 0

    def in_parts() -> Checked:
        nonlocal parts
        found, parts = all_of(check_in_parts(parsed, environment))
        return found

    assert outcome(in_parts) == outcome(lambda: check(parsed, environment))
    assert parts != 1, "in one part"


@settings(deadline=None)
@given(data=st.data())
def test_any_expression_is_checked_in_parts_the_same(data: st.DataObject) -> None:
    environment = environments.get("1.37", list_type_attributes=True)
    generator = Expressions(lambda count: data.draw(st.integers(0, count - 1)), has_device=True)
    expression = generator.expression(generator.any_type(), 3)
    parsed = parse(expression, options=environment.parse_options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checker, "PART_LENGTH", 0)
        in_parts = outcome(lambda: all_of(check_in_parts(parsed, environment))[0])
    assert in_parts == outcome(lambda: check(parsed, environment)), expression


def answer_of(plan: walker.Plan, device: DeviceView) -> object:
    try:
        return plan.evaluate({"device": device.fields})
    except EvaluationError as error:
        return str(error)


@pytest.mark.parametrize("operator", ["&&", "||"])
def test_what_is_planned_in_parts_answers_the_same(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terms = ["1 == 2", "1 / 0 == 1", "device.driver == 'd'", "[1].exists(x, x == 2)", "cel.bind(y, 3, y > 2)"]
    device = device_view("d", {}, {}, False)
    environment = environments.get("1.37")
    for count in range(2, 6):
        expression = operator.join(terms[:count])
        checked_ = check(parse(expression, options=environment.parse_options), environment)
        whole = answer_of(walker.plan(checked_), device)
        monkeypatch.setattr(walker, "PART_LENGTH", 0)
        parts = walker.plan_in_parts(checked_)
        breaks = 0
        while True:
            try:
                next(parts)
                breaks += 1
            except StopIteration as end:
                plan = end.value
                break
        monkeypatch.undo()
        assert breaks > 0
        assert answer_of(plan, device) == whole


CALLS_OF_A_STAGE = 250_000
"""About 10 ms."""


@pytest.mark.slow
@pytest.mark.parametrize("expression", DENSE.values(), ids=DENSE)
def test_no_stage_of_compiling_does_much(expression: str) -> None:
    environment = environments.get("1.37")
    with contextlib.suppress(CompileError):
        compile_selector(expression, environment)  # what is imported and made once is no stage's work
    stages = compile_in_stages(expression, environment)
    ended = False

    def step() -> None:
        nonlocal ended
        try:
            next(stages)
        except (StopIteration, CompileError):
            ended = True

    while not ended:
        assert count_calls(step) < CALLS_OF_A_STAGE
