"""What the code of `hot_loops` calls: operations whose errors are values.

Rules of this module are those of `hot_loops`.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn, TypeGuard

from cel.arithmetic import divide, modulo
from cel.errors import EvaluationError
from cel.runtime_cost import actual_size, equality_cost, tenth
from cel.syntax import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select, StructExpr
from cel.values import (
    COST_EXCEEDED,
    COST_LIMIT,
    EFFORT,
    MAP_CLASSES,
    MISSING,
    NONE,
    AbortedError,
    Map,
    Optional,
    UInt,
    check_cost,
    contains,
    equal,
    go_type,
    hashable_key,
    make_map,
    map_find,
    to_text,
)
from cel.walker_steps import UNSET, Failed, qualified

NO_OVERLOAD: Final = EvaluationError("no such overload")
OVERFLOW: Final = EvaluationError("integer overflow")
DIVISION: Final = EvaluationError("division by zero")
MODULUS: Final = EvaluationError("modulus by zero")


def _stop() -> NoReturn:
    raise AbortedError(COST_EXCEEDED)


def _divide(left: Any, right: Any) -> Any:
    try:
        return divide(left, right)
    except EvaluationError as error:
        return error.with_traceback(None)


def _modulo(left: Any, right: Any) -> Any:
    try:
        return modulo(left, right)
    except EvaluationError as error:
        return error.with_traceback(None)


def _equal(left: Any, right: Any) -> tuple[Any, int]:
    """`left == right` and its cost."""
    cls = left.__class__
    if cls is right.__class__ and cls in _FAST:
        return left == right, 1 if cls in _SCALARS else tenth(min(len(left), len(right)))
    if cls is str and right.__class__ in _SCALARS:
        return False, 1 if left else 0
    if right.__class__ is str and cls in _SCALARS:
        return False, 1 if right else 0
    cost = equality_cost(left, right)
    if cls is EvaluationError:
        return left, cost
    if right.__class__ is EvaluationError:
        return right, cost
    check_cost(cost)
    try:
        return equal(left, right), cost
    except AbortedError:
        raise
    except EvaluationError as error:
        return error.with_traceback(None), cost


_SCALARS: Final = frozenset((int, UInt, float, bool))
_FAST: Final = _SCALARS | {str, bytes}


def _unequal(left: Any, right: Any) -> tuple[Any, int]:
    if left.__class__ is EvaluationError or right.__class__ is EvaluationError:
        return _equal(left, right)
    equality, cost = _equal(left, right)
    return equality is not True, cost


def _contains(element: Any, collection: Any, is_list: bool) -> tuple[Any, int]:
    """`element in collection` and its cost."""
    cost = actual_size(collection) if is_list else 1
    if element.__class__ is EvaluationError:
        return element, cost
    if collection.__class__ is EvaluationError:
        return collection, cost
    check_cost(cost)
    try:
        return contains(element, collection), cost
    except AbortedError:
        raise
    except EvaluationError as error:
        return error.with_traceback(None), cost


def _not_iterable(value: Any, is_pair: bool) -> EvaluationError | None:
    cls = value.__class__
    if cls is list or cls in MAP_CLASSES:
        return None
    if is_pair:
        return EvaluationError(f"unsupported comprehension range type: {go_type(value)}")
    return EvaluationError(f"got '{go_type(value)}', expected iterable type")


def _pairs(collection: Any) -> Any:
    return enumerate(collection) if collection.__class__ is list else collection.items()


def _insert(mapping: Any, *values: Any) -> Any:
    EFFORT[0] += 15 + 55 * (len(values[0]) if len(values) == 1 else 1)
    for key, value in values[0].items() if len(values) == 1 else (values,):
        if map_find(mapping, key) is not MISSING:
            return EvaluationError(f"insert failed: key {to_text(key)} already exists")
        mapping.put(key, value)
    return mapping


def _finished(value: Any) -> Any:
    return make_map(value.items()) if value.__class__ is Map else value


def _qualify(
    value: Any, keys: tuple[Any, ...], optionals: tuple[bool, ...], is_test: bool, start_cost: int
) -> tuple[Any, int]:
    """`value[key]...` and its cost, as `walker.Planner.chain` counts it."""
    if value.__class__ is EvaluationError:
        return value, start_cost
    is_optional = value.__class__ is Optional
    if is_optional:
        if not value.has_value:
            return (False if is_test else NONE), 0
        value = value.value
    cost = start_cost
    EFFORT[0] += 4 + 4 * len(keys)
    left = len(keys)
    try:
        for key, optional in zip(keys, optionals, strict=True):
            left -= 1
            is_optional = is_optional or optional
            cost += 1
            value = qualified(value, key, tests=is_optional or (is_test and not left))
            if value is MISSING:
                return (False if is_test else NONE), cost - is_optional
    except AbortedError:
        raise
    except EvaluationError as error:
        return error.with_traceback(None), cost
    if is_test:
        return True, cost
    return (Optional(value) if is_optional else value), cost


RUNTIME: Final[dict[str, Any]] = {
    "X": EvaluationError,
    "int": int,
    "list": list,
    "ABORT": AbortedError,
    "U": UNSET,
    "FAILED": Failed,
    "LIMIT": COST_LIMIT,
    "W": EFFORT,
    "STOP": _stop,
    "NO_OVERLOAD": NO_OVERLOAD,
    "OVERFLOW": OVERFLOW,
    "DIVIDE": _divide,
    "DIVIDE_BY_ZERO": DIVISION,
    "MODULO": _modulo,
    "MODULO_BY_ZERO": MODULUS,
    "EQUAL": _equal,
    "UNEQUAL": _unequal,
    "CONTAINS": _contains,
    "HASHABLE": hashable_key,
    "SIZE": len,
    "MAP": Map,
    "NOT_ITERABLE": _not_iterable,
    "PAIRS": _pairs,
    "INSERT": _insert,
    "FINISHED": _finished,
    "QUALIFY": _qualify,
}


class Shapes:
    """Which parts of an expression are written more than once."""

    __slots__ = ("_counts", "_known", "_of")

    def __init__(self) -> None:
        self._of: Final[dict[int, int]] = {}
        self._known: Final[dict[Any, int]] = {}
        self._counts: Final[dict[int, int]] = {}

    def count(self, node: Expr) -> int:
        """The shape of a node (equal for equal text, places aside), after those of all its parts."""
        match node:
            case Literal(value):
                key: Any = (value.__class__, repr(value))
            case Ident(name):
                key = (Ident, name)
            case Comprehension():
                names = (node.iter_var, node.iter_var2, node.accu_var)
                inner = (node.iter_range, node.accu_init, node.loop_condition, node.loop_step, node.result)
                key = (Comprehension, names, *[self.count(part) for part in inner])
            case MapExpr():
                key = (MapExpr, *[(self.count(e.key), self.count(e.value), e.optional) for e in node.entries])
            case StructExpr():
                key = (StructExpr, node.type_name, *[(f.name, self.count(f.value), f.optional) for f in node.fields])
            case ListExpr():
                key = (ListExpr, node.optional_indices, *[self.count(element) for element in node.elements])
            case Select():
                key = (Select, node.field, node.test_only, self.count(node.operand))
            case Call():
                target = None if node.target is None else self.count(node.target)
                key = (Call, node.function, target, *[self.count(argument) for argument in node.args])
            case _:
                raise AssertionError(f"{type(node).__name__} is no expression")
        shape = self._known.setdefault(key, len(self._known))
        self._of[id(node)] = shape
        self._counts[shape] = self._counts.get(shape, 0) + 1
        return shape

    def of(self, node: Expr) -> int:
        return self._of[id(node)]

    def is_repeated(self, node: Expr) -> bool:
        return self._counts.get(self._of.get(id(node), -1), 0) > 1


def is_fixed_key(node: Expr) -> TypeGuard[Ident]:
    """A name as a key is an attribute of its own in cel-go, which costs nothing more."""
    return type(node) is Ident


def iteration_kind(values: Any, node: Comprehension) -> str:
    """What the elements of a fold's range are: "int:low,high" for constant ints and `lists.range(n)`."""
    if values.__class__ is list:
        if values and {value.__class__ for value in values} == {int}:
            return f"int:{min(values)},{max(values)}"
    elif type(node.iter_range) is Call and node.iter_range.function == "lists.range":
        return "int:0,1000000"
    return "any"


def free_names(node: Expr, known: dict[int, frozenset[str]]) -> frozenset[str]:
    """The names a node reads that are not its own; `known` is by node id."""
    found = known.get(id(node))
    if found is not None:
        return found
    match node:
        case Literal():
            names: frozenset[str] = frozenset()
        case Ident(name):
            names = frozenset((name,))
        case Comprehension():
            own = {node.accu_var, node.iter_var, node.iter_var2}
            inside = free_names(node.loop_condition, known) | free_names(node.loop_step, known)
            names = free_names(node.iter_range, known) | free_names(node.accu_init, known) | (inside - own)
            names |= free_names(node.result, known) - {node.accu_var}
        case _:
            names = frozenset().union(*(free_names(part, known) for part in _parts(node)))
    known[id(node)] = names
    return names


def _parts(node: Expr) -> list[Expr]:
    match node:
        case Select():
            return [node.operand]
        case Call():
            return [*node.args] if node.target is None else [node.target, *node.args]
        case ListExpr():
            return [*node.elements]
        case MapExpr():
            return [part for entry in node.entries for part in (entry.key, entry.value)]
        case StructExpr():
            return [field.value for field in node.fields]
        case _:
            return []
