"""Compiled expressions: selectors, which answer yes or no for a device, derived attributes, and any others.

Two tiers. A selector's `matches` is generated Python (`codegen`) where that is possible; when it raises
anything, or is not possible, the exact evaluator (`walker`) answers. Both give equal answers by test.

Source: k8s.io/dynamic-resource-allocation v0.36.3 cel/compile.go (`CompileCELExpression`, `DeviceMatches`), and
v0.37.2 (`EvaluateDerivedAttribute`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final, TypeVar

from cel.checker import environments
from cel.checker.checker import PART_LENGTH, Checked, check, check_in_parts
from cel.checker.declarations import Type
from cel.checker.environments import Environment
from cel.errors import CompileError, EvaluationError, EvaluationFailure
from cel.evaluator.codegen import generate
from cel.evaluator.constants import instantiation_problem
from cel.evaluator.readset import ReadSet, read_set
from cel.library.device import DeviceView, attribute_of
from cel.library.values import PATTERN_BYTES
from cel.parser.frontend import parse

if TYPE_CHECKING:
    from cel.evaluator.walker import Plan

T = TypeVar("T")
E = TypeVar("E", bound="DeviceExpression")


class DeviceExpression:
    """A compiled expression about a device.

    expression: as written.
    reads: what it can read of a device.
    """

    __slots__ = ("_checked", "_exact", "_reads", "expression")

    def __init__(self, checked: Checked) -> None:
        self.expression: Final = checked.source
        self._checked: Final = checked
        # An object of its own, so that the generated function does not refer back to the selector. Without that
        # cycle a selector is freed at once, and a scheduler's garbage collector has less to look at.
        self._exact: Final = _ExactEvaluator(checked)
        self._reads: ReadSet | None = None

    @property
    def reads(self) -> ReadSet:
        if self._reads is None:
            self._reads = read_set(self._checked)
        return self._reads

    @property
    def kept(self) -> int:
        """The most that its patterns keep, in bytes."""
        return PATTERN_BYTES * len(self._checked.patterns)

    @property
    def checked(self) -> Checked:
        """The expression with its types."""
        return self._checked

    def plan_in_parts(self) -> Generator[None, None, None]:
        """Prepare the exact evaluator, which otherwise is done when it is first needed."""
        return self._exact.plan_in_parts()

    def evaluate(self, device: DeviceView) -> object:
        """The value, whatever type is asked for, from the exact evaluator."""
        return self._exact.evaluate(device)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.expression!r})"


class Selector(DeviceExpression):
    """A compiled selector.

    matches: the answer for a device; raises `EvaluationError` with the text kube-scheduler would show.
    generated_work: work of one answer that generated code does not count as effort; 0 without generated code.
    """

    __slots__ = ("generated_work", "matches")

    def __init__(self, checked: Checked) -> None:
        super().__init__(checked)
        generated = generate(checked, self._exact.matches)
        self.matches: Callable[[DeviceView], bool] = self._exact.matches if generated is None else generated[0]
        self.generated_work: Final = 0 if generated is None else generated[1]

    @property
    def is_generated(self) -> bool:
        """Whether `matches` is generated code (else it is the exact evaluator)."""
        return self.matches != self._exact.matches

    def matches_exactly(self, device: DeviceView) -> bool:
        """The answer of the exact evaluator."""
        return self._exact.matches(device)

    def failure(self, device: DeviceView) -> EvaluationFailure | None:
        """How and where `matches` fails for the device; None where it answers. For people: it evaluates many times."""
        try:
            self.matches_exactly(device)
        except EvaluationError as error:
            offset = self._exact.failing_offset(device)
            return EvaluationFailure(
                self.expression, self._checked.expr.offset if offset is None else offset, str(error)
            )
        return None


class DerivedAttribute(DeviceExpression):
    """A compiled expression of a request's `derivedAttributes`."""

    __slots__ = ()

    def value(self, device: DeviceView) -> tuple[str, object]:
        """The device's value as the API's attributes have it: the field that is set, and what is in it.

        Raises:
            EvaluationError: with the text kube-scheduler would show.
        """
        return attribute_of(self._exact.evaluate(device))


class _ExactEvaluator:
    __slots__ = ("_checked", "_plan")

    def __init__(self, checked: Checked) -> None:
        self._checked: Final = checked
        self._plan: Plan | None = None

    def matches(self, device: DeviceView) -> bool:
        value = self.evaluate(device)
        if value is True or value is False:
            return value is True
        raise _not_a_bool(value)

    def evaluate(self, device: DeviceView) -> object:
        if self._plan is None:
            from cel.evaluator.walker import plan  # noqa: PLC0415 - most selectors never need it

            self._plan = plan(self._checked)
        return self._plan.evaluate({"device": device.fields})

    def failing_offset(self, device: DeviceView) -> int | None:
        from cel.evaluator.failure import failing_offset  # noqa: PLC0415 - only people ask

        return failing_offset(self._checked, {"device": device.fields})

    def plan_in_parts(self) -> Generator[None, None, None]:
        from cel.evaluator.walker import plan_in_parts  # noqa: PLC0415 - most selectors never need it

        self._plan = yield from plan_in_parts(self._checked)


def _not_a_bool(value: Any) -> EvaluationError:
    from cel.library.strings import conversion_error  # noqa: PLC0415
    from cel.library.values import type_name  # noqa: PLC0415

    return EvaluationError(
        f"CEL result of type {type_name(value)} could not be converted to bool: {conversion_error(value, 'bool')}"
    )


def check_expression(expression: str, environment: Environment | None = None) -> Checked:
    """Parse and check; the result may have any type.

    Raises:
        CompileError: with Go's text.
    """
    if environment is None:
        environment = environments.get()
    checked = check(parse(expression, options=environment.parse_options), environment)
    _validate(checked)
    return checked


def _validate(checked: Checked) -> None:
    if checked.suspects:
        from cel.evaluator.validators import validate  # noqa: PLC0415 - most selectors have nothing it looks at

        validate(checked)


def check_constants(checked: Checked) -> None:
    """Refuse what fails before any device is known (`int("x")`, a constant pattern that is none).

    Raises:
        CompileError: `program instantiation failed: ...`.
    """
    if checked.has_constants:
        problem = instantiation_problem(checked)
        if problem is not None:
            raise CompileError(f"program instantiation failed: {problem}")


def compile_selector(expression: str, environment: Environment | None = None) -> Selector:
    """Compile a device selector.

    Args:
        expression: CEL, at most 10,240 bytes where it comes from an API server.
        environment: What it may use; the stored expressions of the default Kubernetes version when None.

    Raises:
        CompileError: with Go's text, `compilation failed: ERROR: <input>:1:7: ...` or
            `must evaluate to bool ...`.
    """
    stages = compile_in_stages(expression, environment)
    return _run(stages)


def compile_derived(expression: str, environment: Environment | None = None) -> DerivedAttribute:
    """Compile an expression of `derivedAttributes`; as `compile_selector`."""
    return _run(compile_derived_in_stages(expression, environment))


def _run(stages: Generator[None, None, T]) -> T:
    while True:
        try:
            next(stages)
        except StopIteration as end:
            compiled: T = end.value
            return compiled


def compile_in_stages(expression: str, environment: Environment | None = None) -> Generator[None, None, Selector]:
    """As `compile_selector`, which can take milliseconds, with breaks."""
    environment = environment or environments.get()
    return _compile(expression, environment, environment.result_problem, Selector)


def compile_derived_in_stages(
    expression: str, environment: Environment | None = None
) -> Generator[None, None, DerivedAttribute]:
    """As `compile_derived`, with breaks."""
    environment = environment or environments.get()
    return _compile(expression, environment, environment.derived_problem, DerivedAttribute)


def _compile(
    expression: str,
    environment: Environment,
    problem_of: Callable[[Type], str | None],
    make: Callable[[Checked], E],
) -> Generator[None, None, E]:
    try:
        parsed = parse(expression, options=environment.parse_options)
        yield
        if len(expression) > PART_LENGTH:
            checked = yield from check_in_parts(parsed, environment)
        else:
            checked = check(parsed, environment)
        yield
        _validate(checked)
        problem = problem_of(checked.output_type)
        if problem is not None:
            raise CompileError(problem)
        check_constants(checked)
        made = make(checked)
        if not (isinstance(made, Selector) and made.is_generated):
            yield
            yield from made.plan_in_parts()
        return made
    except RecursionError:
        raise CompileError("compilation failed: expression nests too deeply to be compiled") from None


def evaluate(expression: str, environment: Environment | None = None, device: DeviceView | None = None) -> object:
    """The value of an expression of any type, by the exact evaluator.

    Raises:
        CompileError: It does not compile.
        EvaluationError: It fails.
    """
    from cel.evaluator.walker import plan  # noqa: PLC0415

    try:
        checked = check_expression(expression, environment)
        check_constants(checked)
        planned = plan(checked)
    except RecursionError:
        raise CompileError("compilation failed: expression nests too deeply to be compiled") from None
    return planned.evaluate({} if device is None else {"device": device.fields})
