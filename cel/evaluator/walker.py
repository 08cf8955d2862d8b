"""The exact evaluator: error absorption, lazy bindings, one bound.

`plan(checked)` turns the tree into Python closures once; the plan is then called per device. It is what
answers whenever generated code (`codegen`) raised anything, and for expressions codegen does not take.

Rules of this module
  1. A closure gives a value or raises `EvaluationError`; `&&`, `||` and folds catch it as cel-go does,
     `AbortedError` passes through everything.
  2. The planner adds up what its steps take (`effort`), outside of loops and for an iteration of each; functions
     spend by sizes. Together they are bounded by `EFFORT_LIMIT`, and what exceeds kube-scheduler's limit exceeds ours.
  3. The left spine of a tree (`a + b + c`, `a.b[c].f()`) is a loop, not recursion: its length is bounded
     only by the length of the expression.

Not here: what functions do (`stdlib`, `kube_library`), types (`checker`).

Source: cel-go v0.26.0 and v0.29.2, interpreter (planner.go, interpretable.go, attributes.go).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final

from cel import operators
from cel.checker.checker import PART_LENGTH, Checked
from cel.errors import EvaluationError
from cel.evaluator.calls import implementation_of
from cel.evaluator.constants import MATCHING, constant_of
from cel.evaluator.effort import (
    CALL_EFFORT,
    ENTRY_EFFORT,
    ERROR_EFFORT,
    ITERATION_EFFORT,
    LOOP_EFFORT,
    OPERAND_EFFORT,
    STEP_EFFORT,
)
from cel.evaluator.lookup import member_set, qualified
from cel.evaluator.walker_literals import append, list_builder, map_builder, put, wrapper_builder
from cel.evaluator.walker_steps import (
    UNSET,
    Continued,
    Failed,
    Frame,
    Part,
    Scope,
    Step,
    accumulator_reader,
    alternative,
    cell_reader,
    conditional,
    constant_step,
    continues,
    iterate,
    logical,
    not_strictly_false,
    spine,
    with_operand,
)
from cel.library.stdlib import SINGLETONS, Implementation
from cel.library.values import (
    EFFORT,
    EFFORT_LIMIT,
    LIMIT_EXCEEDED,
    MISSING,
    NONE,
    WORK,
    AbortedError,
    Map,
    Optional,
    begin,
    contains,
    equal,
    hashable_key,
    make_map,
    no_such_overload,
    not_equal,
)
from cel.parser.syntax import (
    ACCUMULATOR,
    Call,
    Comprehension,
    Expr,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
    StructExpr,
    terms_of,
)
from cel.recursion import with_room

_BRANCHING: Final = frozenset(
    (
        operators.LOGICAL_AND,
        operators.LOGICAL_OR,
        operators.CONDITIONAL,
        operators.NOT_STRICTLY_FALSE,
        "or",
        "orValue",
        operators.IN,
    )
)
"""Calls whose first operand is not simply the value the rest starts from."""
_IN_PLACE: Final = frozenset(
    (
        *(operators.ADD, operators.SUBTRACT, operators.MULTIPLY, operators.DIVIDE, operators.MODULO),
        *(operators.LESS, operators.LESS_EQUALS, operators.GREATER, operators.GREATER_EQUALS),
        *(operators.LOGICAL_NOT, "dyn"),
    )
)
"""Operators: what is slow of them spends itself."""


class Plan:
    """A planned expression, to be evaluated any number of times."""

    __slots__ = ("_cells", "_effort", "_run")

    def __init__(self, run: Step, planner: Planner) -> None:
        self._run: Final = run
        self._cells: Final = planner.cells
        self._effort: Final = planner.effort

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """The value for these variables (`{"device": ...}`).

        Raises:
            EvaluationError: with cel-go's text.
        """
        return with_room(self._evaluate, variables)

    def _evaluate(self, variables: Mapping[str, Any]) -> Any:
        begin()
        EFFORT[0] = self._effort
        try:
            value = self._run(Frame(variables, self._cells))
        except AbortedError as error:
            WORK[0] += EFFORT_LIMIT
            raise EvaluationError(str(error)) from None
        except EvaluationError:
            _end()
            raise
        _end()
        return value


def _end() -> None:
    """End an evaluation, with an error if it took too much."""
    WORK[0] += EFFORT[0]
    if EFFORT[0] > EFFORT_LIMIT:
        raise EvaluationError(LIMIT_EXCEEDED)


def plan(checked: Checked) -> Plan:
    """Prepare a checked expression for evaluation."""
    return with_room(_plan, checked)


def plan_in_parts(checked: Checked) -> Generator[None, None, Plan]:
    """As `plan`, with breaks where it takes long: between the terms of a long `&&` or `||`."""
    expr = checked.expr
    if (
        len(checked.source) > PART_LENGTH
        and type(expr) is Call
        and expr.function in (operators.LOGICAL_AND, operators.LOGICAL_OR)
    ):
        planner = Planner(checked)
        steps: list[Step] = []
        start = 0
        for term in terms_of(expr):
            steps.append(with_room(planner.plan, term, {}))
            if term.offset > start + PART_LENGTH:
                start = term.offset
                yield
        return Plan(logical(steps, decisive=expr.function == operators.LOGICAL_OR), planner)
    return plan(checked)


def _plan(checked: Checked) -> Plan:
    planner = Planner(checked)
    return Plan(planner.plan(checked.expr, {}), planner)


class Planner:
    """Makes the closures of one expression."""

    def __init__(self, checked: Checked) -> None:
        self.checked: Final = checked
        self.types: Final = checked.types
        self.references: Final = checked.references
        self.environment: Final = checked.environment
        self.cells = 0
        self.effort = 0
        """What the steps made so far take, of the loop's body in the making or else of all that is outside of loops."""
        self.continued: Final[set[int]] = set()
        """Branches of a conditional after which a chain goes on, as one chain with theirs."""

    def plan(self, node: Expr, scope: Scope) -> Step:
        """A closure for the node: the innermost left operand, then one step after the other."""
        steps: list[Part] = []
        start: Step | None = None
        while start is None:
            constant = constant_of(self.checked, node)
            if constant is not MISSING:
                start = constant_step(constant)
                break
            rest, continuation = self.split(node, scope)
            if rest is None or continuation is None:
                start = self.leaf(node, scope)
            else:
                steps.append(continuation)
                node = rest
        self.effort += STEP_EFFORT * (1 + len(steps))
        return spine(start, steps[::-1]) if steps else start

    def split(self, node: Expr, scope: Scope) -> tuple[Expr | None, Part | None]:
        """The left operand and what is done with it; (None, None) when the node has no such form."""
        if type(node) is Select or (type(node) is Call and node.function in operators.CHAIN):
            return self.chain(node, scope)
        if type(node) is not Call or node.function in _BRANCHING:
            return None, None
        operands = node.args if node.target is None else (node.target, *node.args)
        if not operands:
            return None, None
        if node.function == operators.MAP_INSERT and self.is_accumulator(operands[0], scope):
            return operands[0], self.insertion(operands[1:], scope)
        if node.function == operators.ADD and self.is_accumulator(operands[0], scope) and type(operands[1]) is ListExpr:
            return operands[0], self.appending(operands[1], scope)
        if node.function in (operators.EQUALS, operators.NOT_EQUALS):
            other = self.plan(operands[1], scope)
            return operands[0], (with_operand(other, equal if node.function == operators.EQUALS else not_equal), other)
        return operands[0], self.application(node, operands, scope)

    def leaf(self, node: Expr, scope: Scope) -> Step:
        match node:
            case Ident(name=name):
                return self.ident(name, scope)
            case Call():
                return self.branching(node, scope)
            case ListExpr():
                return self.list_literal(node, scope)
            case MapExpr():
                return self.map_literal(node, scope)
            case StructExpr():
                return self.struct(node, scope)
            case Comprehension():
                return self.comprehension(node, scope)
            case _:
                raise AssertionError(f"{type(node).__name__} is a constant or has a left operand")

    # --- constants and names

    def ident(self, name: str, scope: Scope) -> Step:
        local = scope.get(name)
        if local is not None:
            return local
        name = name.removeprefix(".")

        def variable(frame: Frame) -> Any:
            try:
                return frame.variables[name]
            except KeyError:
                raise EvaluationError(f"no such attribute(s): {name}") from None

        return variable

    # --- selection and indexing

    def qualifiers(self, node: Expr, scope: Scope) -> tuple[Expr, list[tuple[Any, Step | None, bool]]]:
        """The operand that a chain starts from, and per key: (constant or MISSING, its step, whether it has a `?`)."""
        found: list[tuple[Any, Step | None, bool]] = []
        while True:
            if type(node) is Select:
                found.append((node.field, None, False))
                node = node.operand
            elif type(node) is Call and node.function in operators.CHAIN:
                index = node.args[1]
                key = constant_of(self.checked, index)
                step = None if key is not MISSING else self.plan(index, scope)
                found.append((key, step, node.function != operators.INDEX))
                node = node.args[0]
            else:
                break
            if type(node) is Select and node.test_only:
                break
        return node, found[::-1]

    def chain(self, node: Expr, scope: Scope) -> tuple[Expr, Part]:
        """All selections and indexings down to something else: an optional met first makes the rest optional."""
        is_continued = node.id in self.continued
        is_test = type(node) is Select and node.test_only
        node, qualifiers = self.qualifiers(node, scope)
        self.effort += STEP_EFFORT * len(qualifiers)
        if type(node) is Call and node.function == operators.CONDITIONAL:
            self.continued.add(node.id)

        def qualify(frame: Frame, value: Any) -> Any:
            is_optional = value.__class__ is Optional
            if value.__class__ is Continued:
                value = value.value
            elif is_optional:
                if not value.has_value:
                    return False if is_test else NONE
                value = value.value
            left = len(qualifiers)
            for key, step, optional in qualifiers:
                left -= 1
                if step is not None:
                    key = step(frame)  # noqa: PLW2901 - a key computed by the expression
                is_optional = is_optional or optional
                tests = is_optional or (is_test and not left)
                value = qualified(value, key, tests=tests)
                if value is MISSING:
                    return False if is_test else NONE
            if is_test:
                return True
            if is_optional:
                return Optional(value)
            return Continued(value) if is_continued and value.__class__ is Optional else value

        return node, (qualify, None)

    # --- calls

    def application(self, node: Call, operands: tuple[Expr, ...], scope: Scope) -> Part:
        """An ordinary function or operator, applied to its first operand's value."""
        call = self.applied(node, operands)
        rest = [self.plan(operand, scope) for operand in operands[1:]]
        if not rest:
            return (lambda frame, first: call(first)), None
        if len(rest) == 1:
            return with_operand(rest[0], call), rest[0] if self.evaluates_all(node, operands) else None
        return (lambda frame, first: call(first, *[step(frame) for step in rest])), None

    def evaluates_all(self, node: Call, operands: tuple[Expr, ...]) -> bool:
        """Whether the second operand is evaluated even when the first one fails.

        cel-go does that for calls that it plans with two operands. Calls with patterns compiled beforehand, and calls
        whose overload is chosen at run time, are planned with any number of operands.
        """
        if len(operands) != 2 or (node.function not in SINGLETONS and len(self.references.get(node.id, ())) != 1):
            return False
        is_text = type(operands[1]) is Literal and type(operands[1].value) is str
        return not (is_text and node.function in MATCHING)

    def applied(self, node: Call, operands: tuple[Expr, ...]) -> Implementation:
        """The implementation of an ordinary function or operator."""
        call = implementation_of(self.checked, node, len(operands))
        if node.function not in _IN_PLACE:
            self.effort += CALL_EFFORT + OPERAND_EFFORT * max(len(operands) - 2, 0)
        if len(operands) > 1 and node.function in MATCHING:
            return self.with_constant_pattern(node, operands, call)
        return call

    def with_constant_pattern(self, node: Call, operands: tuple[Expr, ...], call: Implementation) -> Implementation:
        """cel-go compiles literal patterns beforehand and then only asks whether the subject is a text."""
        pattern = operands[1]
        if type(pattern) is not Literal or type(pattern.value) is not str:
            return call
        from cel.library.regex import RegexError, compiled, find, find_all  # noqa: PLC0415 - many selectors have none

        try:
            regex = compiled(self.checked.patterns, pattern.value)
        except RegexError:
            return call
        function: Any = {"find": find, "findAll": find_all}.get(node.function)

        def search(subject: Any, _pattern: Any, *limits: Any) -> Any:
            if subject.__class__ is not str or any(limit.__class__ is not int for limit in limits):
                no_such_overload()
            return regex.search(subject) if function is None else function(subject, regex, *limits)

        return search

    def branching(self, node: Call, scope: Scope) -> Step:
        operands = node.args if node.target is None else (node.target, *node.args)
        match node.function:
            case operators.LOGICAL_AND:
                return logical([self.plan(term, scope) for term in terms_of(node)], decisive=False)
            case operators.LOGICAL_OR:
                return logical([self.plan(term, scope) for term in terms_of(node)], decisive=True)
            case operators.CONDITIONAL:
                if node.id in self.continued:
                    self.continued.update(branch.id for branch in operands[1:])
                return conditional(*(self.plan(operand, scope) for operand in operands))
            case operators.NOT_STRICTLY_FALSE:
                return not_strictly_false(self.plan(operands[0], scope))
            case "or" | "orValue" if len(operands) == 2:
                is_value = node.function == "orValue"
                first, second = (self.plan(operand, scope) for operand in operands)
                return alternative(first, second, is_value=is_value, is_strict=self.environment.minor >= 37)
            case operators.IN:
                return self.membership(node, operands, scope)
            case _:
                call = self.applied(node, ())
                return lambda frame: call()

    def membership(self, node: Call, operands: tuple[Expr, ...], scope: Scope) -> Step:
        element, collection = (self.plan(operand, scope) for operand in operands)
        chosen = self.references.get(node.id, ())
        constant = constant_of(self.checked, operands[1])
        if chosen == ("in_list",) and constant is not MISSING:
            members = member_set(constant)
            if members is not None:

                def is_member(frame: Frame) -> bool:
                    value = element(frame)
                    return (value.__class__, hashable_key(value)) in members

                return is_member
        return spine(element, [(with_operand(collection, contains), collection)])

    # --- literals

    def list_literal(self, node: ListExpr, scope: Scope) -> Step:
        return list_builder(
            [
                (self.plan(element, scope), position in node.optional_indices)
                for position, element in enumerate(node.elements)
            ]
        )

    def map_literal(self, node: MapExpr, scope: Scope) -> Step:
        self.effort += ENTRY_EFFORT * (1 + len(node.entries))
        return map_builder(
            [(self.plan(entry.key, scope), self.plan(entry.value, scope), entry.optional) for entry in node.entries]
        )

    def struct(self, node: StructExpr, scope: Scope) -> Step:
        self.effort += ENTRY_EFFORT
        fields = [(self.plan(field.value, scope), field.optional) for field in node.fields]
        return wrapper_builder(node.type_name.removeprefix("."), self.types[node.id].name, fields)

    # --- folds

    def is_accumulator(self, node: Expr, scope: Scope) -> bool:
        return type(node) is Ident and node.name == ACCUMULATOR and node.name in scope

    def appending(self, items: ListExpr, scope: Scope) -> Part:
        """`@result + [x]`: the list under construction is ours alone, so it grows in place, as in cel-go."""
        build = self.plan(items, scope)
        return with_operand(build, append), build

    def insertion(self, operands: tuple[Expr, ...], scope: Scope) -> Part:
        """`cel.@mapInsert(@result, ...)`: the map under construction grows in place, too."""
        steps = [self.plan(operand, scope) for operand in operands]
        only = steps[0] if len(steps) == 1 else None
        return (lambda frame, mapping: put(mapping, *[step(frame) for step in steps])), only

    def comprehension(self, node: Comprehension, scope: Scope) -> Step:
        iter_range = self.plan(node.iter_range, scope)
        accu_init = self.plan(node.accu_init, scope)
        accu_cell, first_cell, second_cell = range(self.cells, self.cells + 3)
        self.cells += 3
        outer = {**scope, node.accu_var: accumulator_reader(accu_cell, accu_init)}
        inner = {**outer, node.iter_var: cell_reader(first_cell)}
        if node.iter_var2 is not None:
            inner[node.iter_var2] = cell_reader(second_cell)
        if node.accu_var in (node.iter_var, node.iter_var2):
            inner[node.accu_var] = outer[node.accu_var]
        effort, self.effort = self.effort, ITERATION_EFFORT
        condition = self.plan(node.loop_condition, inner)
        step = self.plan(node.loop_step, inner)
        iteration, self.effort = self.effort, effort + LOOP_EFFORT
        result = self.plan(node.result, outer)
        is_pair = node.iter_var2 is not None
        goes_on = type(node.loop_condition) is Literal and node.loop_condition.value is True

        def fold(frame: Frame) -> Any:
            collection = iter_range(frame)
            cells = frame.cells
            cells[accu_cell] = UNSET
            for first in iterate(collection, is_pair=is_pair):
                EFFORT[0] += iteration
                if EFFORT[0] > EFFORT_LIMIT:
                    raise AbortedError(LIMIT_EXCEEDED)
                if is_pair:
                    cells[first_cell], cells[second_cell] = first
                else:
                    cells[first_cell] = first
                if not goes_on and not continues(condition, frame):
                    break
                try:
                    cells[accu_cell] = step(frame)
                except EvaluationError as error:
                    EFFORT[0] += ERROR_EFFORT
                    cells[accu_cell] = Failed(error.with_traceback(None))
            value = result(frame)
            cells[accu_cell] = cells[first_cell] = cells[second_cell] = None
            return make_map(value.items()) if value.__class__ is Map else value

        return fold
