"""The exact evaluator: error absorption, lazy bindings, run-time cost.

`plan(checked)` turns the tree into Python closures once; the plan is then called per device. It is what
answers whenever generated code (`codegen`) raised anything, and for expressions codegen does not take.

Rules of this module
  1. A closure gives a value or raises `EvaluationError`; `&&`, `||` and folds catch it as cel-go does,
     `AbortedError` passes through everything.
  2. Whatever cel-go charges is charged here before it is used, so that work stays bounded by
     `COST_LIMIT`. The sum itself may differ a little from cel-go's.
  3. The left spine of a tree (`a + b + c`, `a.b[c].f()`) is a loop, not recursion: its length is bounded
     only by the length of the expression.

Not here: what functions do (`stdlib`, `kube_library`), types (`checker`).

Source: cel-go v0.26.0 and v0.29.2, interpreter (planner.go, interpretable.go, attributes.go, runtimecost.go),
k8s.io/apiserver v0.36.3 and v0.37.2 pkg/cel/library/cost.go.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import suppress
from typing import Any, Final

from cel import operators
from cel.checker.checker import PART_LENGTH, Checked
from cel.errors import EvaluationError
from cel.evaluator.calls import implementation_of
from cel.evaluator.constants import MATCHING, constant_of
from cel.evaluator.effort import ERROR_EFFORT, LOOP_EFFORT, counted, iteration_effort
from cel.evaluator.lookup import member_set, qualified
from cel.evaluator.walker_literals import list_builder, map_builder, wrapper_builder
from cel.evaluator.walker_steps import (
    FAILURE,
    UNSET,
    Continued,
    Failed,
    Frame,
    Part,
    Scope,
    Step,
    UnaryRun,
    accumulator_reader,
    alternative,
    cell_reader,
    charge,
    charge_nothing,
    charge_one,
    compared_cost,
    computed_key,
    conditional,
    constant_call,
    constant_step,
    contained_cost,
    continues,
    iterate,
    logical,
    not_strictly_false,
    one,
    pair_steps,
    spine,
    uncharged,
)
from cel.library.kube_library import implementations
from cel.library.runtime_cost import FUNCTION_COSTS, OVERLOAD_COSTS, CallCost
from cel.library.stdlib import SINGLETONS, Implementation
from cel.library.values import (
    COST_EFFORT,
    EFFORT,
    EFFORT_LIMIT,
    LIMIT_EXCEEDED,
    MISSING,
    NONE,
    REMEMBERED,
    WORK,
    AbortedError,
    Map,
    Optional,
    begin,
    equal,
    hashable_key,
    make_map,
    map_find,
    no_such_overload,
    not_equal,
    to_text,
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
    is_attribute,
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
_NOT_IN_RUNS: Final = (
    operators.CHAIN | MATCHING | {operators.EQUALS, operators.NOT_EQUALS, operators.ADD, operators.MAP_INSERT}
)
_IN_PLACE: Final = frozenset(
    (
        *(operators.ADD, operators.SUBTRACT, operators.MULTIPLY, operators.DIVIDE, operators.MODULO),
        *(operators.LESS, operators.LESS_EQUALS, operators.GREATER, operators.GREATER_EQUALS),
        *(operators.LOGICAL_NOT, "dyn"),
    )
)
"""Operators: what is slow of them spends itself."""
RUN_MIN: Final = 4


class Plan:
    """A planned expression, to be evaluated any number of times."""

    __slots__ = ("_planner", "_run")

    def __init__(self, run: Step, planner: Planner) -> None:
        self._run: Final = run
        self._planner: Final = planner

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """The value for these variables (`{"device": ...}`).

        Raises:
            EvaluationError: with cel-go's text.
        """
        return self.evaluate_with_cost(variables)[0]

    def evaluate_with_cost(self, variables: Mapping[str, Any]) -> tuple[Any, int]:
        """The value and what it cost, about as cel-go counts."""
        return with_room(self._evaluate, variables)

    def cost(self, variables: Mapping[str, Any]) -> int:
        """What an evaluation costs, also one that fails."""
        begin()
        frame = Frame(variables, self._planner.cells)
        with suppress(EvaluationError, AbortedError):
            self._run(frame)
        return frame.cost

    def _evaluate(self, variables: Mapping[str, Any]) -> tuple[Any, int]:
        begin()
        frame = Frame(variables, self._planner.cells)
        try:
            value = self._run(frame)
        except AbortedError as error:
            WORK[0] += EFFORT_LIMIT
            raise EvaluationError(str(error)) from None
        except EvaluationError:
            self._end(frame)
            raise
        self._end(frame)
        return value, frame.cost

    @staticmethod
    def _end(frame: Frame) -> None:
        """Spend the cost that no loop has spent, and end an evaluation that took too much."""
        effort = EFFORT[0] = EFFORT[0] + COST_EFFORT * (frame.cost - frame.spent)
        WORK[0] += effort - REMEMBERED[0]
        if effort > EFFORT_LIMIT:
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
        self.patterns: Final = checked.patterns
        self.implementations: Final = implementations(checked.environment.minor)
        self.cells = 0
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
        if not steps:
            return start
        return spine(start, steps[::-1])

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
            return operands[0], self.equality(node.function, operands[1], scope)
        run = self.run_of(node)
        if run is not None:
            return run[0], (run[1].run, run[1].failed)
        return operands[0], self.application(node, operands, scope)

    def run_of(self, node: Expr) -> tuple[Expr, UnaryRun] | None:
        """A chain of calls with constant arguments (`x.trim().lowerAscii()...`) and what it starts from."""
        calls = []
        while (
            type(node) is Call
            and node.function not in _BRANCHING
            and node.function not in _NOT_IN_RUNS
            and (node.target is not None or node.args)
        ):
            operands = node.args if node.target is None else (node.target, *node.args)
            constants = [constant_of(self.checked, operand) for operand in operands[1:]]
            if any(constant is MISSING for constant in constants):
                break
            calls.append((*self.applied(node, operands), constants, self.evaluates_all(node, operands)))
            node = operands[0]
        if len(calls) < RUN_MIN or constant_of(self.checked, node) is not MISSING:
            return None
        return node, UnaryRun(calls[::-1])

    def leaf(self, node: Expr, scope: Scope) -> Step:
        match node:
            case Ident(name):
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
            frame.cost += 1
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
                if step is not None and is_attribute(index):
                    step = uncharged(step)
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
        # A name is charged where it is read, a conditional nowhere; any other start is an attribute of its own.
        is_conditional = type(node) is Call and node.function == operators.CONDITIONAL
        start_cost = (0 if type(node) is Ident or is_conditional else 1) - is_test
        if is_conditional:
            self.continued.add(node.id)

        def qualify(frame: Frame, value: Any) -> Any:
            is_optional = value.__class__ is Optional
            if value.__class__ is Continued:
                value = value.value
            elif is_optional:
                if not value.has_value:
                    return False if is_test else NONE
                value = value.value
            charge(frame, start_cost)
            EFFORT[0] += 4 + 4 * len(qualifiers)
            left = len(qualifiers)
            for key, step, optional in qualifiers:
                left -= 1
                if step is not None:
                    key = computed_key(step, frame)  # noqa: PLW2901 - a key computed by the expression
                is_optional = is_optional or optional
                tests = is_optional or (is_test and not left)
                frame.cost += 1
                value = qualified(value, key, tests=tests)
                if value is MISSING:
                    frame.cost -= is_optional
                    return False if is_test else NONE
            if is_test:
                return True
            if is_optional:
                return Optional(value)
            return Continued(value) if is_continued and value.__class__ is Optional else value

        def failed(frame: Frame) -> None:
            frame.cost += start_cost

        return node, (qualify, failed)

    # --- calls

    def application(self, node: Call, operands: tuple[Expr, ...], scope: Scope) -> Part:
        """An ordinary function or operator, applied to its first operand's value."""
        call, cost = self.applied(node, operands)
        rest = [self.plan(operand, scope) for operand in operands[1:]]
        if not rest and cost is None:

            def apply_one(frame: Frame, first: Any) -> Any:
                charge(frame, 1)
                return call(first)

            return apply_one, charge_one
        if len(rest) == 1 and self.evaluates_all(node, operands):
            return pair_steps(rest[0], call, cost or one)

        def apply(frame: Frame, first: Any) -> Any:
            values = [first]
            result: Any = FAILURE
            try:
                for step in rest:
                    values.append(FAILURE)
                    values[-1] = step(frame)
                result = call(*values)
            finally:
                # cel-go charges a call once it has come to its last operand.
                if len(values) > len(rest):
                    charge(frame, 1 if cost is None else cost(values, result))
            return result

        if rest:
            return apply, charge_nothing
        return apply, lambda frame: charge(frame, 1 if cost is None else cost([FAILURE], FAILURE))

    def evaluates_all(self, node: Call, operands: tuple[Expr, ...]) -> bool:
        """Whether the second operand is evaluated even when the first one fails.

        cel-go does that for calls that it plans with two operands. Calls with patterns compiled beforehand, and calls
        whose overload is chosen at run time, are planned with any number of operands.
        """
        if len(operands) != 2 or (node.function not in SINGLETONS and len(self.references.get(node.id, ())) != 1):
            return False
        is_text = type(operands[1]) is Literal and type(operands[1].value) is str
        return not (is_text and node.function in MATCHING)

    def applied(self, node: Call, operands: tuple[Expr, ...]) -> tuple[Implementation, CallCost | None]:
        """The implementation of an ordinary function or operator, and its cost (None: 1)."""
        call = implementation_of(self.checked, node, len(operands))
        if len(operands) > 1 and node.function in MATCHING:
            call = self.with_constant_pattern(node, operands, call)
        if node.function not in _IN_PLACE:
            call = counted(call, len(operands))
        chosen = self.references.get(node.id, ())
        cost = OVERLOAD_COSTS.get(chosen[0]) if len(chosen) == 1 else None
        if self.environment.minor < 37 and node.function in ("startsWith", "endsWith") and cost is not None:
            cost = OVERLOAD_COSTS["string_to_bytes"]  # cel-go 0.26 counts the text, 0.29 what it may start with
        return call, FUNCTION_COSTS.get(node.function, cost)

    def with_constant_pattern(self, node: Call, operands: tuple[Expr, ...], call: Implementation) -> Implementation:
        """cel-go compiles literal patterns beforehand and then only asks whether the subject is a text."""
        if type(operands[1]) is not Literal or type(operands[1].value) is not str:
            return call
        if node.function != "matches":
            call = self.implementations["string_find_string" if node.function == "find" else "string_find_all_string"]

        pattern = operands[1].value
        is_search = node.function == "matches"
        patterns = self.patterns

        def checked_call(subject: Any, *arguments: Any) -> Any:
            if subject.__class__ is not str or any(limit.__class__ is not int for limit in arguments[1:]):
                no_such_overload()
            regex = patterns.get(pattern)
            if regex is None:
                from cel.library.regex import RegexError, compiled  # noqa: PLC0415 - not before a text is to be searched

                try:
                    regex = compiled(patterns, pattern)
                except RegexError:
                    return call(subject, *arguments)
            return regex.search(subject) if is_search else call(subject, regex, *arguments[1:])

        return checked_call

    def equality(self, function: str, right: Expr, scope: Scope) -> Part:
        compare = equal if function == operators.EQUALS else not_equal
        return pair_steps(self.plan(right, scope), compare, compared_cost, is_charged_before=True)

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
                condition, *branches = (self.plan(operand, scope) for operand in operands)
                truthy, falsy = (
                    uncharged(step) if is_attribute(branch) else step
                    for branch, step in zip(operands[1:], branches, strict=True)
                )
                return conditional(condition, truthy, falsy)
            case operators.NOT_STRICTLY_FALSE:
                return not_strictly_false(self.plan(operands[0], scope))
            case "or" | "orValue" if len(operands) == 2:
                is_value = node.function == "orValue"
                first, second = (self.plan(operand, scope) for operand in operands)
                return alternative(first, second, is_value=is_value, is_strict=self.environment.minor >= 37)
            case operators.IN:
                return self.membership(node, operands, scope)
            case _:
                return constant_call(implementation_of(self.checked, node, len(operands)))

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
        cost = contained_cost if chosen == ("in_list",) else one
        part = pair_steps(collection, SINGLETONS[operators.IN], cost, is_charged_before=True)
        return spine(element, [part])

    # --- literals

    def list_literal(self, node: ListExpr, scope: Scope) -> Step:
        return list_builder(
            [
                (self.plan(element, scope), position in node.optional_indices)
                for position, element in enumerate(node.elements)
            ]
        )

    def map_literal(self, node: MapExpr, scope: Scope) -> Step:
        return map_builder(
            [(self.plan(entry.key, scope), self.plan(entry.value, scope), entry.optional) for entry in node.entries]
        )

    def struct(self, node: StructExpr, scope: Scope) -> Step:
        fields = [(self.plan(field.value, scope), field.optional) for field in node.fields]
        return wrapper_builder(node.type_name.removeprefix("."), self.types[node.id].name, fields)

    # --- folds

    def is_accumulator(self, node: Expr, scope: Scope) -> bool:
        return type(node) is Ident and node.name == ACCUMULATOR and node.name in scope

    def appending(self, items: ListExpr, scope: Scope) -> Part:
        """`@result + [x]`: the list under construction is ours alone, so it grows in place, as in cel-go."""
        constant = constant_of(self.checked, items)
        build = self.list_literal(items, scope) if constant is MISSING else constant_step(constant)

        def append(elements: Any, added: Any) -> Any:
            if elements.__class__ is not list:
                no_such_overload()
            elements += added
            return elements

        return pair_steps(build, append, one)

    def insertion(self, operands: tuple[Expr, ...], scope: Scope) -> Part:
        """`cel.@mapInsert(@result, ...)`: the map under construction grows in place, too."""
        steps = [self.plan(operand, scope) for operand in operands]

        def put(mapping: Any, *values: Any) -> Any:
            EFFORT[0] += 15 + 55 * (len(values[0]) if len(values) == 1 else 1)
            for key, value in values[0].items() if len(values) == 1 else (values,):
                if map_find(mapping, key) is not MISSING:
                    raise EvaluationError(f"insert failed: key {to_text(key)} already exists")
                mapping.put(key, value)
            return mapping

        if len(steps) == 1:
            return pair_steps(steps[0], put, one)

        def insert(frame: Frame, mapping: Any) -> Any:
            values = [step(frame) for step in steps]
            charge(frame, 1)
            return put(mapping, *values)

        return insert, charge_nothing

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
        condition = self.plan(node.loop_condition, inner)
        step = self.plan(node.loop_step, inner)
        result = self.plan(node.result, outer)
        is_pair = node.iter_var2 is not None
        effort = iteration_effort(node)
        goes_on = type(node.loop_condition) is Literal and node.loop_condition.value is True

        def fold(frame: Frame) -> Any:
            collection = iter_range(frame)
            cells = frame.cells
            cells[accu_cell] = UNSET
            EFFORT[0] += LOOP_EFFORT
            for first in iterate(collection, is_pair=is_pair):
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
                EFFORT[0] += effort + COST_EFFORT * (frame.cost - frame.spent)
                frame.spent = frame.cost
                if EFFORT[0] > EFFORT_LIMIT:
                    raise AbortedError(LIMIT_EXCEEDED)
            value = result(frame)
            cells[accu_cell] = cells[first_cell] = cells[second_cell] = None
            return make_map(value.items()) if value.__class__ is Map else value

        return fold
