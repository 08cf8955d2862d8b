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

Source: cel-go interpreter (planner.go, interpretable.go, attributes.go, runtimecost.go), k8s.io/apiserver
pkg/cel/library/cost.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from cel.checker import Checked
from cel.declarations import DYN_KIND, LIST_KIND, MAP_KIND, PARAM_KIND, TYPE_KIND, Overload, Type
from cel.errors import EvaluationError
from cel.kube_library import implementations
from cel.recursion import with_room
from cel.runtime_cost import FUNCTION_COSTS, OVERLOAD_COSTS, equality_cost
from cel.stdlib import SINGLETONS, Implementation
from cel.syntax import (
    ADD,
    CONDITIONAL,
    EQUALS,
    IN,
    INDEX,
    LOGICAL_AND,
    LOGICAL_OR,
    NOT_EQUALS,
    NOT_STRICTLY_FALSE,
    OPTIONAL_INDEX,
    OPTIONAL_SELECT,
    Call,
    Comprehension,
    Expr,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
    StructExpr,
)
from cel.values import (
    COST_EXCEEDED,
    COST_LIMIT,
    MAP_CLASSES,
    MISSING,
    NONE,
    AbortedError,
    Map,
    Optional,
    TypeValue,
    UInt,
    equal,
    go_type,
    hashable_key,
    list_index,
    make_map,
    map_find,
    no_such_overload,
    to_text,
    type_name,
)

MAP_INSERT: Final = "cel.@mapInsert"
_CONVERSIONS: Final = frozenset(
    ("bool", "bytes", "double", "dyn", "duration", "int", "string", "timestamp", "type", "uint")
)
_CHAIN: Final = frozenset((INDEX, OPTIONAL_INDEX, OPTIONAL_SELECT))
_KEY_CLASSES: Final = frozenset((str, int, UInt, bool, float))
_BRANCHING: Final = frozenset((LOGICAL_AND, LOGICAL_OR, CONDITIONAL, NOT_STRICTLY_FALSE, "or", "orValue", IN))
"""Calls whose first operand is not simply the value the rest starts from."""


class Frame:
    """One evaluation: the cost so far, the variables, and a slot per variable of a macro."""

    __slots__ = ("cost", "slots", "variables")

    def __init__(self, variables: Mapping[str, Any], slots: int) -> None:
        self.cost = 0
        self.variables: Final = variables
        self.slots: Final[list[Any]] = [None] * slots


Step: TypeAlias = Callable[[Frame], Any]
Continuation: TypeAlias = Callable[[Frame, Any], Any]
Scope: TypeAlias = Mapping[str, Step]

_UNSET: Final = object()


class _Failed:
    """What an accumulator holds after a step that failed."""

    __slots__ = ("error",)

    def __init__(self, error: EvaluationError) -> None:
        self.error: Final = error


class Plan:
    """A planned expression, to be evaluated any number of times."""

    __slots__ = ("_run", "_slots")

    def __init__(self, run: Step, slots: int) -> None:
        self._run: Final = run
        self._slots: Final = slots

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """The value for these variables (`{"device": ...}`).

        Raises:
            EvaluationError: with cel-go's text.
        """
        return self.evaluate_with_cost(variables)[0]

    def evaluate_with_cost(self, variables: Mapping[str, Any]) -> tuple[Any, int]:
        """The value and what it cost, about as cel-go counts."""
        return with_room(self._evaluate, variables)

    def _evaluate(self, variables: Mapping[str, Any]) -> tuple[Any, int]:
        frame = Frame(variables, self._slots)
        return self._run(frame), frame.cost


def plan(checked: Checked) -> Plan:
    """Prepare a checked expression for evaluation."""
    return with_room(_plan, checked)


def _plan(checked: Checked) -> Plan:
    planner = _Planner(checked)
    return Plan(planner.plan(checked.expr, {}), planner.slots)


def implementation_of(checked: Checked, node: Call, count: int) -> Implementation:
    """What a call of a function or operator with `count` operands calls."""
    return _Planner(checked).implementation(node, count)


def _charge(frame: Frame, cost: int) -> None:
    frame.cost += cost
    if frame.cost > COST_LIMIT:
        raise AbortedError(COST_EXCEEDED)


class _Planner:
    """Makes the closures of one expression."""

    def __init__(self, checked: Checked) -> None:
        self.types: Final = checked.types
        self.references: Final = checked.references
        self.environment: Final = checked.environment
        self.implementations: Final = implementations(checked.environment.minor)
        self.slots = 0

    def plan(self, node: Expr, scope: Scope) -> Step:
        """A closure for the node: the innermost left operand, then one step after the other."""
        steps: list[Continuation] = []
        start: Step | None = None
        while start is None:
            constant = self.constant(node)
            if constant is not MISSING:
                start = _constant_step(constant)
                break
            rest, continuation = self.split(node, scope)
            if rest is None or continuation is None:
                start = self.leaf(node, scope)
            else:
                steps.append(continuation)
                node = rest
        if not steps:
            return start
        return _spine(start, steps[::-1])

    def split(self, node: Expr, scope: Scope) -> tuple[Expr | None, Continuation | None]:
        """The left operand and what is done with it; (None, None) when the node has no such form."""
        if type(node) is Select or (type(node) is Call and node.function in _CHAIN):
            return self.chain(node, scope)
        if type(node) is not Call or node.function in _BRANCHING:
            return None, None
        operands = node.args if node.target is None else (node.target, *node.args)
        if not operands:
            return None, None
        if node.function == MAP_INSERT and self.is_accumulator(operands[0], scope):
            return operands[0], self.insertion(operands[1:], scope)
        if node.function == ADD and self.is_accumulator(operands[0], scope) and type(operands[1]) is ListExpr:
            return operands[0], self.appending(operands[1], scope)
        if node.function in (EQUALS, NOT_EQUALS):
            return operands[0], self.equality(node.function, operands[1], scope)
        return operands[0], self.application(node, operands, scope)

    def leaf(self, node: Expr, scope: Scope) -> Step:
        match node:
            case Ident(name):
                return self.ident(node, name, scope)
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

    def constant(self, node: Expr) -> Any:
        """The value of what cel-go folds when it plans, or MISSING."""
        if type(node) is Literal:
            return node.value
        if type(node) is ListExpr and not node.optional_indices:
            values = [self.constant(element) for element in node.elements]
            return MISSING if any(value is MISSING for value in values) else values
        if type(node) is MapExpr and not any(entry.optional for entry in node.entries):
            pairs = [(self.constant(entry.key), self.constant(entry.value)) for entry in node.entries]
            if any(key is MISSING or value is MISSING for key, value in pairs):
                return MISSING
            try:
                return make_map(pairs)
            except EvaluationError:
                return MISSING
        if type(node) is Call and node.function in _CONVERSIONS and len(node.args) == 1 and node.target is None:
            value = self.constant(node.args[0])
            if value is not MISSING:
                try:
                    return self.implementation(node, 1)(value)
                except EvaluationError:
                    return MISSING
        return MISSING

    def ident(self, node: Expr, name: str, scope: Scope) -> Step:
        local = scope.get(name)
        if local is not None:
            return local
        name = name.removeprefix(".")
        if self.types[node.id].kind == TYPE_KIND:
            value = TypeValue(name)
            return lambda frame: value

        def variable(frame: Frame) -> Any:
            frame.cost += 1
            try:
                return frame.variables[name]
            except KeyError:
                raise EvaluationError(f"no such attribute(s): {name}") from None

        return variable

    # --- selection and indexing

    def chain(self, node: Expr, scope: Scope) -> tuple[Expr, Continuation]:
        """All selections and indexings down to something else: an optional met first makes the rest optional."""
        qualifiers: list[tuple[Any, Step | None, bool]] = []
        is_test = type(node) is Select and node.test_only
        while True:
            if type(node) is Select:
                qualifiers.append((node.field, None, False))
                node = node.operand
            elif type(node) is Call and node.function in _CHAIN:
                index = node.args[1]
                key = self.constant(index)
                step = None if key is not MISSING else self.plan(index, scope)
                if step is not None and _is_attribute(index):
                    step = _uncharged(step)
                qualifiers.append((key, step, node.function != INDEX))
                node = node.args[0]
            else:
                break
            if type(node) is Select and node.test_only:
                break
        qualifiers.reverse()
        # A name is charged where it is read; any other start is an attribute of its own.
        start_cost = (0 if type(node) is Ident else 1) - is_test

        def qualify(frame: Frame, value: Any) -> Any:
            is_optional = value.__class__ is Optional
            if is_optional:
                if not value.has_value:
                    return False if is_test else NONE
                value = value.value
            _charge(frame, start_cost)
            left = len(qualifiers)
            for key, step, optional in qualifiers:
                left -= 1
                if step is not None:
                    key = step(frame)  # noqa: PLW2901 - a key computed by the expression
                is_optional = is_optional or optional
                tests = is_optional or (is_test and not left)
                frame.cost += 1
                value = qualified(value, key, tests=tests)
                if value is MISSING:
                    frame.cost -= is_optional
                    return False if is_test else NONE
            if is_test:
                return True
            return Optional(value) if is_optional else value

        return node, qualify

    # --- calls

    def overloads(self, node: Call, count: int) -> list[tuple[tuple[Type, ...], Implementation]]:
        chosen = self.references.get(node.id, ())
        found: tuple[Overload, ...] = self.environment.functions(node.function) or ()
        return [
            (overload.arguments, self.implementations[overload.id])
            for overload in found
            if len(overload.arguments) == count
            and overload.id in self.implementations
            and (len(chosen) != 1 or overload.id in chosen)
        ]

    def implementation(self, node: Call, count: int) -> Implementation:
        """What to call: one function for all types, or the first overload the arguments fit."""
        singleton = SINGLETONS.get(node.function)
        if singleton is not None:
            return singleton
        function = node.function
        candidates = self.overloads(node, count)

        def dispatch(*values: Any) -> Any:
            for types, implementation in candidates:
                if all(map(_matches, types, values)):
                    return implementation(*values)
            no_such_overload(function, values)

        return dispatch

    def application(self, node: Call, operands: tuple[Expr, ...], scope: Scope) -> Continuation:
        """An ordinary function or operator, applied to its first operand's value."""
        call = self.implementation(node, len(operands))
        rest = [self.plan(operand, scope) for operand in operands[1:]]
        if len(operands) > 1 and node.function in ("matches", "find", "findAll"):
            call = self.with_constant_pattern(node, operands, call)
        chosen = self.references.get(node.id, ())
        cost = OVERLOAD_COSTS.get(chosen[0]) if len(chosen) == 1 else None
        cost = FUNCTION_COSTS.get(node.function, cost)
        if not rest and cost is None:

            def apply_one(frame: Frame, first: Any) -> Any:
                _charge(frame, 1)
                return call(first)

            return apply_one

        def apply(frame: Frame, first: Any) -> Any:
            values = [first, *(step(frame) for step in rest)]
            result = call(*values)
            _charge(frame, 1 if cost is None else cost(values, result))
            return result

        return apply

    def with_constant_pattern(self, node: Call, operands: tuple[Expr, ...], call: Implementation) -> Implementation:
        """cel-go compiles literal patterns beforehand and then only asks whether the subject is a text."""
        if type(operands[1]) is not Literal or type(operands[1].value) is not str:
            return call
        if node.function != "matches":
            call = self.implementations["string_find_string" if node.function == "find" else "string_find_all_string"]

        def checked_call(subject: Any, *arguments: Any) -> Any:
            if subject.__class__ is not str or any(limit.__class__ is not int for limit in arguments[1:]):
                no_such_overload()
            return call(subject, *arguments)

        return checked_call

    def equality(self, function: str, right: Expr, scope: Scope) -> Continuation:
        step = self.plan(right, scope)
        wanted = function == EQUALS

        def compare(frame: Frame, left: Any) -> bool:
            other = step(frame)
            _charge(frame, equality_cost(left, other))
            if wanted:
                return equal(left, other)
            try:
                return not equal(left, other)
            except AbortedError:
                raise
            except EvaluationError:
                return True

        return compare

    def branching(self, node: Call, scope: Scope) -> Step:
        operands = node.args if node.target is None else (node.target, *node.args)
        match node.function:
            case "_&&_":
                return _logical([self.plan(term, scope) for term in _terms(node)], decisive=False)
            case "_||_":
                return _logical([self.plan(term, scope) for term in _terms(node)], decisive=True)
            case "_?_:_":
                condition, *branches = (self.plan(operand, scope) for operand in operands)
                truthy, falsy = (
                    _uncharged(step) if _is_attribute(branch) else step
                    for branch, step in zip(operands[1:], branches, strict=True)
                )
                return _conditional(condition, truthy, falsy)
            case "@not_strictly_false":
                return _not_strictly_false(self.plan(operands[0], scope))
            case "or" | "orValue" if len(operands) == 2:
                is_value = node.function == "orValue"
                first, second = (self.plan(operand, scope) for operand in operands)
                return _alternative(first, second, is_value=is_value, is_strict=self.environment.minor >= 37)
            case "@in":
                return self.membership(node, operands, scope)
            case _:
                return _constant_call(self.implementation(node, len(operands)))

    def membership(self, node: Call, operands: tuple[Expr, ...], scope: Scope) -> Step:
        element, collection = (self.plan(operand, scope) for operand in operands)
        chosen = self.references.get(node.id, ())
        constant = self.constant(operands[1])
        if chosen == ("in_list",) and constant is not MISSING:
            members = _member_set(constant)
            if members is not None:
                if not members:
                    return _constant_step(False)  # cel-go does not even look at the element

                def is_member(frame: Frame) -> bool:
                    value = element(frame)
                    return (value.__class__, hashable_key(value)) in members

                return is_member
        contains = SINGLETONS[IN]
        is_list = chosen == ("in_list",)

        def is_in(frame: Frame) -> Any:
            value = element(frame)
            values = collection(frame)
            _charge(frame, len(values) if is_list else 1)
            return contains(value, values)

        return is_in

    # --- literals

    def list_literal(self, node: ListExpr, scope: Scope) -> Step:
        elements = [
            (self.plan(element, scope), position in node.optional_indices)
            for position, element in enumerate(node.elements)
        ]

        def build(frame: Frame) -> list[Any]:
            values: list[Any] = []
            for step, optional in elements:
                value = step(frame)
                if optional:
                    if value.__class__ is not Optional:
                        raise EvaluationError(
                            f"cannot initialize optional list element from non-optional value {to_text(value)}"
                        )
                    if not value.has_value:
                        continue
                    value = value.value
                values.append(value)
            _charge(frame, 10)
            return values

        return build

    def map_literal(self, node: MapExpr, scope: Scope) -> Step:
        entries = [
            (self.plan(entry.key, scope), self.plan(entry.value, scope), entry.optional) for entry in node.entries
        ]

        def build(frame: Frame) -> Any:
            pairs: dict[Any, tuple[Any, Any]] = {}
            for key_step, value_step, optional in entries:
                key = key_step(frame)
                value = value_step(frame)
                place = (key.__class__, hashable_key(key))
                if optional:
                    if value.__class__ is not Optional:
                        raise EvaluationError(
                            f"cannot initialize optional entry '{to_text(key)}' "
                            f"from non-optional value {to_text(value)}"
                        )
                    if not value.has_value:
                        pairs.pop(place, None)
                        continue
                    value = value.value
                pairs[place] = (key, value)
            _charge(frame, 30)
            return make_map(pairs.values())

        return build

    def struct(self, node: StructExpr, scope: Scope) -> Step:
        """A protobuf wrapper is the value in it; no other message exists here."""
        name = node.type_name.removeprefix(".")
        fields = [(self.plan(field.value, scope), field.optional) for field in node.fields]
        default = self.types[node.id].name

        def build(frame: Frame) -> Any:
            result = _DEFAULTS.get(default)
            for step, optional in fields:
                value = step(frame)
                if optional:
                    if value.__class__ is not Optional:
                        raise EvaluationError(
                            f"cannot initialize optional entry 'value' from non-optional value {to_text(value)}"
                        )
                    if not value.has_value:
                        continue
                    value = value.value
                low, high = _NARROW.get(name, (None, None))
                if low is not None and high is not None and not low <= value <= high:
                    raise EvaluationError("integer overflow" if low else "unsigned integer overflow")
                if value is not None:
                    result = value
            _charge(frame, 40)
            return result

        return build

    # --- folds

    def is_accumulator(self, node: Expr, scope: Scope) -> bool:
        return type(node) is Ident and node.name == "@result" and node.name in scope

    def appending(self, items: ListExpr, scope: Scope) -> Continuation:
        """`@result + [x]`: the list under construction is ours alone, so it grows in place, as in cel-go."""
        build = self.list_literal(items, scope)

        def append(frame: Frame, elements: Any) -> Any:
            added = build(frame)
            _charge(frame, 1)
            if elements.__class__ is not list:
                no_such_overload()
            elements += added
            return elements

        return append

    def insertion(self, operands: tuple[Expr, ...], scope: Scope) -> Continuation:
        """`cel.@mapInsert(@result, ...)`: the map under construction grows in place, too."""
        steps = [self.plan(operand, scope) for operand in operands]

        def insert(frame: Frame, mapping: Any) -> Any:
            values = [step(frame) for step in steps]
            _charge(frame, 1)
            for key, value in values[0].items() if len(values) == 1 else (values,):
                if map_find(mapping, key) is not MISSING:
                    raise EvaluationError(f"insert failed: key {to_text(key)} already exists")
                mapping.put(key, value)
            return mapping

        return insert

    def comprehension(self, node: Comprehension, scope: Scope) -> Step:
        iter_range = self.plan(node.iter_range, scope)
        accu_init = self.plan(node.accu_init, scope)
        accu_slot, first_slot, second_slot = range(self.slots, self.slots + 3)
        self.slots += 3
        outer = {**scope, node.accu_var: _accumulator(accu_slot, accu_init)}
        inner = {**outer, node.iter_var: _slot(first_slot)}
        if node.iter_var2 is not None:
            inner[node.iter_var2] = _slot(second_slot)
        if node.accu_var in (node.iter_var, node.iter_var2):
            inner[node.accu_var] = outer[node.accu_var]
        condition = self.plan(node.loop_condition, inner)
        step = self.plan(node.loop_step, inner)
        result = self.plan(node.result, outer)
        is_pair = node.iter_var2 is not None
        goes_on = type(node.loop_condition) is Literal and node.loop_condition.value is True

        def fold(frame: Frame) -> Any:
            collection = iter_range(frame)
            slots = frame.slots
            slots[accu_slot] = _UNSET
            for first, second in _pairs(collection, is_pair=is_pair):
                slots[first_slot] = first
                slots[second_slot] = second
                if not goes_on and not _continues(condition, frame):
                    break
                try:
                    slots[accu_slot] = step(frame)
                except AbortedError:
                    raise
                except EvaluationError as error:
                    slots[accu_slot] = _Failed(error.with_traceback(None))
                if frame.cost > COST_LIMIT:
                    raise AbortedError(COST_EXCEEDED)
            value = result(frame)
            slots[accu_slot] = slots[first_slot] = slots[second_slot] = None
            return make_map(value.items()) if value.__class__ is Map else value

        return fold


_DEFAULTS: Final[dict[str, Any]] = {"bool": False, "int": 0, "uint": UInt(0), "double": 0.0, "string": "", "bytes": b""}
_NARROW: Final = {
    "google.protobuf.Int32Value": (-(2**31), 2**31 - 1),
    "google.protobuf.UInt32Value": (0, 2**32 - 1),
}


def _spine(start: Step, steps: list[Continuation]) -> Step:
    if len(steps) == 1:
        only = steps[0]
        return lambda frame: only(frame, start(frame))

    def run(frame: Frame) -> Any:
        value = start(frame)
        for step in steps:
            value = step(frame, value)
        return value

    return run


def _is_attribute(node: Expr) -> bool:
    """A name with selections: what cel-go does not charge once more inside of an index or a conditional."""
    return type(node) in (Ident, Select) or (type(node) is Call and node.function in _CHAIN)


def _uncharged(step: Step) -> Step:
    def run(frame: Frame) -> Any:
        value = step(frame)
        frame.cost -= 1
        return value

    return run


def _constant_step(value: Any) -> Step:
    return lambda frame: value


def _slot(index: int) -> Step:
    def read(frame: Frame) -> Any:
        frame.cost += 1
        return frame.slots[index]

    return read


def _accumulator(index: int, init: Step) -> Step:
    """Reads an accumulator; the first reading computes the start value (that is how `cel.bind` is lazy)."""

    def read(frame: Frame) -> Any:
        frame.cost += 1
        value = frame.slots[index]
        if value is _UNSET:
            try:
                value = init(frame)
            except AbortedError:
                raise
            except EvaluationError as error:
                value = _Failed(error)
            if value.__class__ is list and not value:
                value = []  # ours to grow
            elif value.__class__ is dict and not value:
                value = Map()
            frame.slots[index] = value
        if value.__class__ is _Failed:
            # Each raise would add to the traceback, which nobody reads and a long fold makes long.
            raise value.error.with_traceback(None)
        return value

    return read


def _continues(condition: Step, frame: Frame) -> bool:
    """Only a plain `false` ends a fold early: neither an error nor another type does."""
    try:
        value = condition(frame)
    except AbortedError:
        raise
    except EvaluationError:
        return True
    return value is not False


def _pairs(collection: Any, *, is_pair: bool) -> Any:
    cls = collection.__class__
    if is_pair:
        if cls is list:
            return enumerate(collection)
        if cls in MAP_CLASSES:
            return collection.items()
        raise EvaluationError(f"unsupported comprehension range type: {go_type(collection)}")
    if cls is list or cls in MAP_CLASSES:
        return ((element, None) for element in collection)
    raise EvaluationError(f"got '{go_type(collection)}', expected iterable type")


def _terms(node: Call) -> list[Expr]:
    """The operands of a chain of one logical operator, left to right."""
    terms: list[Expr] = []
    pending: list[Expr] = [node]
    while pending:
        current = pending.pop()
        if type(current) is Call and current.function == node.function:
            pending += reversed(current.args)
        else:
            terms.append(current)
    return terms


def _logical(terms: list[Step], *, decisive: bool) -> Step:
    """`||` (decided by true) or `&&` (by false); an error counts only when nothing decides."""

    def run(frame: Frame) -> bool:
        failure: EvaluationError | None = None
        for term in terms:
            try:
                value = term(frame)
            except AbortedError:
                raise
            except EvaluationError as error:
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


def _constant_call(call: Implementation) -> Step:
    """A function without arguments."""

    def run(frame: Frame) -> Any:
        frame.cost += 1
        return call()

    return run


def _conditional(condition: Step, truthy: Step, falsy: Step) -> Step:
    def choose(frame: Frame) -> Any:
        value = condition(frame)
        if value is True:
            return truthy(frame)
        if value is False:
            return falsy(frame)
        no_such_overload()

    return choose


def _not_strictly_false(operand: Step) -> Step:
    def test(frame: Frame) -> bool:
        _charge(frame, 1)
        try:
            value = operand(frame)
        except AbortedError:
            raise
        except EvaluationError:
            return True
        return value is not False

    return test


def _alternative(first: Step, second: Step, *, is_value: bool, is_strict: bool) -> Step:
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


def qualified(value: Any, key: Any, *, tests: bool) -> Any:
    """`value[key]`; when nothing is there, MISSING if that was the question and an error otherwise."""
    if key.__class__ not in _KEY_CLASSES:
        raise EvaluationError(f"invalid qualifier type: {go_type(key)}")
    cls = value.__class__
    if cls in MAP_CLASSES:
        found = map_find(value, key)
        if found is not MISSING or tests:
            return found
    elif cls is list:
        index = list_index(key)
        if 0 <= index < len(value):
            return value[index]
        if not tests:
            raise EvaluationError(f"index out of bounds: {to_text(key)}")
        return MISSING
    elif tests:
        return MISSING
    raise EvaluationError(f"no such key: {to_text(key)}")


def _matches(type_: Type, value: Any) -> bool:
    """Whether a run-time value passes for a declared type: its name, and the first element's."""
    kind = type_.kind
    if kind in (DYN_KIND, PARAM_KIND):
        return True
    if type_.name != type_name(value):
        return False
    if kind == LIST_KIND:
        return len(value) == 0 or _matches(type_.parameters[0], value[0])
    if kind == MAP_KIND and len(value):
        key, element = next(iter(value.items()))
        return _matches(type_.parameters[0], key) and _matches(type_.parameters[1], element)
    return True


def _member_set(constants: list[Any]) -> frozenset[tuple[type, Any]] | None:
    """What cel-go turns a constant list after `in` into, or None where it does not.

    Numbers stand in the set as every numeric type they convert to; a value of any other type is looked
    up as it is, which ends the evaluation for those Go cannot hash.
    """
    members: set[tuple[type, Any]] = set()
    for constant in constants:
        cls = constant.__class__
        if cls not in _KEY_CLASSES:
            return None
        members.add((cls, constant))
        if cls is int or cls is UInt:
            members.add((float, float(constant)))
            if cls is int and constant >= 0:
                members.add((UInt, UInt(constant)))
            elif cls is UInt and constant < 2**63:
                members.add((int, int(constant)))
        elif cls is float and constant.is_integer():
            if -(2.0**63) < constant < 2.0**63:
                members.add((int, int(constant)))
            if 0 <= constant < 2.0**64:
                members.add((UInt, UInt(int(constant))))
    return frozenset(members)
