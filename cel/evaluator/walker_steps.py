"""The steps a plan of the exact evaluator consists of: closures over other closures.

Rules of this module are those of `walker`, which decides which step stands where.

Source: cel-go v0.26.0 and v0.29.2, interpreter (interpretable.go, attributes.go).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias

from msgspec import Struct

from cel.errors import EvaluationError
from cel.evaluator.effort import ERROR_EFFORT
from cel.library.stdlib import Implementation
from cel.library.values import EFFORT, MAP_CLASSES, Map, Optional, go_type, no_such_overload


class Frame:
    """One evaluation: the variables, and a cell for each variable of a macro."""

    __slots__ = ("cells", "variables")

    def __init__(self, variables: Mapping[str, Any], cells: int) -> None:
        self.variables: Final = variables
        self.cells: Final[list[Any]] = [None] * cells


Step: TypeAlias = Callable[[Frame], Any]
Continuation: TypeAlias = Callable[[Frame, Any], Any]
Part: TypeAlias = tuple[Continuation, Step | None]
"""What is done with an operand's value; and the second operand, where cel-go evaluates it though the first has failed,
because it may end the whole evaluation."""
Scope: TypeAlias = Mapping[str, Step]

UNSET: Final = object()


class Failed(Struct):
    """The value of an accumulator after a step that failed."""

    error: EvaluationError


class Continued(Struct):
    """An optional that a chain has found, handed to the rest of the chain, which must not unwrap it."""

    value: Optional


def with_operand(right: Step, call: Implementation) -> Continuation:
    """A call of two operands, applied to the first one's value."""
    return lambda frame, left: call(left, right(frame))


def spine(start: Step, parts: list[Part]) -> Step:
    """Run the parts in order."""
    steps = [step for step, _ in parts]
    others = [other for _, other in parts]

    def run(frame: Frame) -> Any:
        begun = 0
        try:
            value = start(frame)
            for step in steps:
                begun += 1
                value = step(frame, value)
        except EvaluationError:
            EFFORT[0] += ERROR_EFFORT
            for other in others[begun:]:
                if other is not None:
                    with suppress(EvaluationError):
                        other(frame)
            raise
        return value

    return run


def constant_step(value: Any) -> Step:
    return lambda frame: value


def cell_reader(index: int) -> Step:
    return lambda frame: frame.cells[index]


def accumulator_reader(index: int, init: Step) -> Step:
    """Reads an accumulator; the first reading computes the start value (that is how `cel.bind` is lazy)."""

    def read(frame: Frame) -> Any:
        value = frame.cells[index]
        if value is UNSET:
            try:
                value = init(frame)
            except EvaluationError as error:
                value = Failed(error)
            if value.__class__ is list and not value:
                value = []  # ours to grow
            elif value.__class__ is dict and not value:
                value = Map()
            frame.cells[index] = value
        if value.__class__ is Failed:
            # Each raise would add to the traceback, which nobody reads and a long fold makes long.
            raise value.error.with_traceback(None)
        return value

    return read


def continues(condition: Step, frame: Frame) -> bool:
    """Only a plain `false` ends a fold early: neither an error nor another type does."""
    try:
        value = condition(frame)
    except EvaluationError:
        EFFORT[0] += ERROR_EFFORT
        return True
    return value is not False


def iterate(collection: Any, *, is_pair: bool) -> Any:
    """What a fold goes through: elements or keys, or with two variables pairs."""
    cls = collection.__class__
    if is_pair:
        if cls is list:
            return enumerate(collection)
        if cls in MAP_CLASSES:
            return iter(collection.items())
        raise EvaluationError(f"unsupported comprehension range type: {go_type(collection)}")
    if cls is list or cls in MAP_CLASSES:
        return iter(collection)
    raise EvaluationError(f"got '{go_type(collection)}', expected iterable type")


def logical(terms: list[Step], *, decisive: bool) -> Step:
    """`||` (decided by true) or `&&` (by false); an error counts only when nothing decides."""

    def run(frame: Frame) -> bool:
        failure: EvaluationError | None = None
        for term in terms:
            try:
                value = term(frame)
            except EvaluationError as error:
                EFFORT[0] += ERROR_EFFORT
                failure = failure or error.with_traceback(None)
                continue
            if value is decisive:
                return value is True
            if value is not (not decisive):
                failure = failure or EvaluationError("no such overload")
        if failure is not None:
            raise failure
        return not decisive

    return run


def conditional(condition: Step, truthy: Step, falsy: Step) -> Step:
    def choose(frame: Frame) -> Any:
        value = condition(frame)
        if value is True:
            return truthy(frame)
        if value is False:
            return falsy(frame)
        no_such_overload()

    return choose


def not_strictly_false(operand: Step) -> Step:
    def test(frame: Frame) -> bool:
        try:
            value = operand(frame)
        except EvaluationError:
            EFFORT[0] += ERROR_EFFORT
            return True
        return value is not False

    return test


def alternative(first: Step, second: Step, *, is_value: bool, is_strict: bool) -> Step:
    """`a.or(b)`, `a.orValue(b)`: b is evaluated only when a has no value.

    is_strict: an `a` that is no optional is an error (cel-go 0.29) and not the answer.
    """

    def choose(frame: Frame) -> Any:
        optional = first(frame)
        if optional.__class__ is not Optional:
            if is_strict:
                no_such_overload()
            return optional
        if not optional.has_value:
            return second(frame)
        return optional.value if is_value else optional

    return choose
