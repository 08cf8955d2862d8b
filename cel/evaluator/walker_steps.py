"""The steps a plan of the exact evaluator consists of: closures over other closures.

Rules of this module are those of `walker`, which decides which step stands where.

Source: cel-go v0.26.0 and v0.29.2, interpreter (interpretable.go, attributes.go).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from cel.errors import EvaluationError
from cel.evaluator.effort import CALL_EFFORT, ERROR_EFFORT, FREE_EFFORT, counted
from cel.library.runtime_cost import CallCost, actual_size, equality_cost
from cel.library.stdlib import Implementation
from cel.library.values import (
    COST_LIMIT,
    EFFORT,
    LIMIT_EXCEEDED,
    MAP_CLASSES,
    AbortedError,
    Map,
    Optional,
    check_cost,
    go_type,
    no_such_overload,
)


class Frame:
    """One evaluation: the cost so far, the variables, and a cell for each variable of a macro.

    spent: the part of the cost that is counted as effort already.
    """

    __slots__ = ("cells", "cost", "spent", "variables")

    def __init__(self, variables: Mapping[str, Any], cells: int) -> None:
        self.cost = 0
        self.spent = 0
        self.variables: Final = variables
        self.cells: Final[list[Any]] = [None] * cells


Step: TypeAlias = Callable[[Frame], Any]
Continuation: TypeAlias = Callable[[Frame, Any], Any]
Part: TypeAlias = tuple[Continuation, Callable[[Frame], None]]
"""What is done with an operand's value, and what is charged when there is none."""
Scope: TypeAlias = Mapping[str, Step]

UNSET: Final = object()


class Failed:
    """The value of an accumulator after a step that failed."""

    __slots__ = ("error",)

    def __init__(self, error: EvaluationError) -> None:
        self.error: Final = error


def charge(frame: Frame, cost: int) -> None:
    frame.cost += cost
    if frame.cost > COST_LIMIT:
        raise AbortedError(LIMIT_EXCEEDED)


class Continued:
    """An optional that a chain has found, handed to the rest of the chain, which must not unwrap it."""

    __slots__ = ("value",)

    def __init__(self, value: Optional) -> None:
        self.value: Final = value


FAILURE: Final = EvaluationError("")
"""Stands for an operand or a result that is an error, where its size is asked: 1."""


def charge_one(frame: Frame) -> None:
    charge(frame, 1)


def charge_nothing(frame: Frame) -> None:
    """For a step that cel-go does not reach."""


def one(values: list[Any], result: Any) -> int:
    return 1


def compared_cost(values: list[Any], result: Any) -> int:
    return equality_cost(values[0], values[1])


def contained_cost(values: list[Any], result: Any) -> int:
    return actual_size(values[1])


def pair_steps(right: Step, call: Implementation, cost: CallCost, *, is_charged_before: bool = False) -> Part:
    """A call of two operands: cel-go evaluates both, and charges the call whether or not one of them fails."""

    def apply(frame: Frame, left: Any) -> Any:
        other: Any = FAILURE
        result: Any = FAILURE
        try:
            other = right(frame)
            if is_charged_before:
                cost_now = cost([left, other], result)
                if frame.cost + cost_now > COST_LIMIT:
                    raise AbortedError(LIMIT_EXCEEDED)
            result = call(left, other)
        finally:
            charged = cost([left, other], result)
            charge(frame, charged)
            if not charged:
                EFFORT[0] += FREE_EFFORT
        return result

    def failed(frame: Frame) -> None:
        other: Any = FAILURE
        try:
            other = right(frame)
        except EvaluationError:
            EFFORT[0] += ERROR_EFFORT
        charge(frame, cost([FAILURE, other], FAILURE))

    return apply, failed


def spine(start: Step, parts: list[Part]) -> Step:
    """Run the parts in order; when one fails, the remaining parts are still charged."""
    if len(parts) == 1:
        only, only_failed = parts[0]

        def run_one(frame: Frame) -> Any:
            try:
                value = start(frame)
            except EvaluationError:
                EFFORT[0] += ERROR_EFFORT
                only_failed(frame)
                raise
            return only(frame, value)

        return run_one
    steps = [step for step, _ in parts]

    def run(frame: Frame) -> Any:
        begun = 0
        try:
            value = start(frame)
            for step in steps:
                begun += 1
                value = step(frame, value)
        except EvaluationError:
            EFFORT[0] += ERROR_EFFORT
            for _, failed in parts[begun:]:
                failed(frame)
            raise
        return value

    return run


class UnaryRun:
    """Calls one after the other, each with constants as its other arguments.

    Most of these calls cost a tenth of the text's length, so nothing on an empty text, and a loop could make any
    number of them. Therefore the result of the rest of a run for an empty text is remembered.
    """

    __slots__ = ("_calls", "_known", "_left")

    def __init__(self, calls: list[tuple[Implementation, CallCost | None, list[Any], bool]]) -> None:
        self._calls: Final = [(call, cost or one, constants, both) for call, cost, constants, both in calls]
        self._known: Final[dict[tuple[int, bool], tuple[Any, int, int]]] = {}
        self._left: Final = [0]
        """What the calls from each position on charge when their operand is an error."""
        for _, cost, constants, both in reversed(self._calls):
            charged = cost([FAILURE, *constants], FAILURE) if both or not constants else 0
            self._left.append(self._left[-1] + charged)
        self._left.reverse()

    def run(self, frame: Frame, value: Any) -> Any:
        value, cost = self._called(value)
        charge(frame, cost)
        if value.__class__ is EvaluationError:
            raise value.with_traceback(None)
        return value

    def failed(self, frame: Frame) -> None:
        charge(frame, self._left[0])

    def _called(self, value: Any) -> tuple[Any, int]:
        """The value, or the error, and the cost."""
        EFFORT[0] += CALL_EFFORT
        cost = position = 0
        empty_at: list[tuple[tuple[int, bool], int, int]] = []
        for position, (call, cost_of, constants, _) in enumerate(self._calls):
            is_list = value.__class__ is list
            text = value[0] if is_list and len(value) == 1 else value
            if text.__class__ is str and not text:
                found = self._known.get((position, is_list))
                if found is not None:
                    value = found[0]
                    cost += found[1]
                    EFFORT[0] += found[2]
                    break
                empty_at.append(((position, is_list), cost, EFFORT[0]))
            try:
                result = call(value, *constants)
            except EvaluationError as error:
                cost += cost_of([value, *constants], FAILURE) + self._left[position + 1]
                value = error.with_traceback(None)
                break
            cost += cost_of([value, *constants], result)
            value = result
            check_cost(cost)
        for place, before, effort in empty_at:
            self._known[place] = value, cost - before, EFFORT[0] - effort
        return value, cost


def uncharged(step: Step) -> Step:
    def run(frame: Frame) -> Any:
        try:
            return step(frame)
        finally:
            frame.cost -= 1

    return run


def computed_key(step: Step, frame: Frame) -> Any:
    """The value of a computed key; a key that fails is charged like any other."""
    try:
        return step(frame)
    except EvaluationError:
        frame.cost += 1
        raise


def constant_step(value: Any) -> Step:
    return lambda frame: value


def cell_reader(index: int) -> Step:
    def read(frame: Frame) -> Any:
        frame.cost += 1
        return frame.cells[index]

    return read


def accumulator_reader(index: int, init: Step) -> Step:
    """Reads an accumulator; the first reading computes the start value (that is how `cel.bind` is lazy)."""

    def read(frame: Frame) -> Any:
        frame.cost += 1
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


def constant_call(call: Implementation) -> Step:
    """A function without arguments."""
    call = counted(call, 0)

    def run(frame: Frame) -> Any:
        frame.cost += 1
        return call()

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
        charge(frame, 1)
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
        EFFORT[0] += 8
        optional = first(frame)
        if optional.__class__ is not Optional:
            if is_strict:
                no_such_overload()
            return optional
        if not optional.has_value:
            return second(frame)
        return optional.value if is_value else optional

    return choose
