"""Macros: the calls that are rewritten before type checking, exactly as cel-go rewrites them.

The shape of an expansion is part of the behaviour: cost formulas count its nodes, and `exists`/`all`
absorb errors because their step is `||`/`&&`. So each expander here builds cel-go's tree node by node.

Rules of this module
  1. An expander gets target and arguments already parsed, and returns the replacement, or None when the
     call is no macro after all (`x.bind(...)` with an `x` other than `cel`).
  2. All new nodes stand where the call's `(` stands.
  3. Badly formed arguments raise `MacroError` at the argument.

Not here: which macros an environment has (`environments`).

Source: cel-go v0.26.0 and v0.29.2, parser/macro.go, ext/bindings.go, ext/comprehensions.go, ext/lists.go,
cel/library.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

from cel import operators
from cel.parser.syntax import (
    ACCUMULATOR,
    UNUSED_ITER_VAR,
    Call,
    Comprehension,
    Expr,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
    made_anew,
)

SORT_BY_KEYS: Final = "@sortByAssociatedKeys"
_SORT_BY_INPUT: Final = "@__sortBy_input__"
_LEGACY_ACCUMULATOR: Final = "__result__"

MOST_COPIES: Final = 10_000
"""Nodes that expansions may copy: each `optMap` of a chain doubles what stands before it."""


class MacroError(Exception):
    """Arguments a macro cannot take; `offset` is the argument's place."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.message = message


class Builder(Protocol):
    """What an expander needs of the parser."""

    def new_id(self) -> int: ...

    def copied(self, old_id: int, new_id: int) -> None:
        """Note a copy; fails when there are more than `MOST_COPIES`."""


Expander: TypeAlias = Callable[[Builder, int, Expr | None, tuple[Expr, ...]], Expr | None]
MacroKey: TypeAlias = tuple[str, int, bool]
"""(function, number of arguments, written with a receiver)."""


class _At(Struct):
    """Makes nodes at one place."""

    builder: Builder
    offset: int

    def literal(self, value: bool | int) -> Literal:
        return Literal(self.builder.new_id(), self.offset, value)

    def ident(self, name: str) -> Ident:
        return Ident(self.builder.new_id(), self.offset, name)

    def accumulator(self) -> Ident:
        return self.ident(ACCUMULATOR)

    def call(self, function: str, *args: Expr) -> Call:
        return Call(self.builder.new_id(), self.offset, function, None, args)

    def member_call(self, function: str, target: Expr, *args: Expr) -> Call:
        return Call(self.builder.new_id(), self.offset, function, target, args)

    def list(self, *elements: Expr) -> ListExpr:
        return ListExpr(self.builder.new_id(), self.offset, elements)

    def fold(
        self,
        iter_range: Expr,
        iter_vars: tuple[str, str | None],
        init: Expr,
        condition: Expr,
        step: Expr,
        *,
        result: Expr,
    ) -> Comprehension:
        return Comprehension(
            self.builder.new_id(),
            self.offset,
            iter_range,
            iter_vars[0],
            iter_vars[1],
            ACCUMULATOR,
            init,
            condition,
            step,
            result,
        )

    def bind(self, name: str, init: Expr, body: Expr) -> Comprehension:
        return Comprehension(
            self.builder.new_id(),
            self.offset,
            self.list(),
            UNUSED_ITER_VAR,
            None,
            name,
            init,
            self.literal(False),
            self.ident(name),
            body,
        )


def _variable(arg: Expr, complaint: str) -> str:
    if type(arg) is not Ident:
        raise MacroError(arg.offset, complaint)
    if arg.name in (ACCUMULATOR, _LEGACY_ACCUMULATOR):
        raise MacroError(arg.offset, "iteration variable overwrites accumulator variable")
    return arg.name


def _one_variable(args: tuple[Expr, ...], complaint: str) -> tuple[str, None]:
    return _variable(args[0], complaint), None


def _two_variables(args: tuple[Expr, ...]) -> tuple[str, str]:
    for arg in args[:2]:
        if type(arg) is not Ident:
            raise MacroError(arg.offset, "argument must be a simple name")
    first, second = args[:2]
    assert isinstance(first, Ident)
    assert isinstance(second, Ident)
    if first.name == second.name:
        raise MacroError(second.offset, f"duplicate variable name: {first.name}")
    return (
        _variable(first, "argument must be a simple name"),
        _variable(second, "argument must be a simple name"),
    )


def _fold_all(at: _At, target: Expr, names: tuple[str, str | None], predicate: Expr) -> Expr:
    return at.fold(
        target,
        names,
        at.literal(True),
        at.call(operators.NOT_STRICTLY_FALSE, at.accumulator()),
        at.call(operators.LOGICAL_AND, at.accumulator(), predicate),
        result=at.accumulator(),
    )


def _fold_exists(at: _At, target: Expr, names: tuple[str, str | None], predicate: Expr) -> Expr:
    return at.fold(
        target,
        names,
        at.literal(False),
        at.call(operators.NOT_STRICTLY_FALSE, at.call(operators.LOGICAL_NOT, at.accumulator())),
        at.call(operators.LOGICAL_OR, at.accumulator(), predicate),
        result=at.accumulator(),
    )


def _fold_exists_one(at: _At, target: Expr, names: tuple[str, str | None], predicate: Expr) -> Expr:
    return at.fold(
        target,
        names,
        at.literal(0),
        at.literal(True),
        at.call(
            operators.CONDITIONAL, predicate, at.call(operators.ADD, at.accumulator(), at.literal(1)), at.accumulator()
        ),
        result=at.call(operators.EQUALS, at.accumulator(), at.literal(1)),
    )


def _fold_to_list(
    at: _At, target: Expr, names: tuple[str, str | None], predicate: Expr | None, transform: Expr
) -> Expr:
    step: Expr = at.call(operators.ADD, at.accumulator(), at.list(transform))
    if predicate is not None:
        step = at.call(operators.CONDITIONAL, predicate, step, at.accumulator())
    return at.fold(target, names, at.list(), at.literal(True), step, result=at.accumulator())


def _has(builder: Builder, offset: int, _target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    (arg,) = args
    if type(arg) is not Select:
        raise MacroError(arg.offset, "invalid argument to has() macro")
    return Select(builder.new_id(), offset, arg.operand, arg.field, True)


_QuantifierFold: TypeAlias = Callable[[_At, Expr, tuple[str, str | None], Expr], Expr]


def _quantifier(fold: _QuantifierFold) -> Expander:
    def expand(builder: Builder, offset: int, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
        assert target is not None
        names = _two_variables(args) if len(args) == 3 else _one_variable(args, "argument must be a simple name")
        return fold(_At(builder, offset), target, names, args[-1])

    return expand


def _map(builder: Builder, offset: int, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    assert target is not None
    names = _one_variable(args, "argument is not an identifier")
    return _fold_to_list(_At(builder, offset), target, names, args[1] if len(args) == 3 else None, args[-1])


def _filter(builder: Builder, offset: int, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    assert target is not None
    names = _one_variable(args, "argument is not an identifier")
    return _fold_to_list(_At(builder, offset), target, names, args[1], args[0])


def _transform_list(builder: Builder, offset: int, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    assert target is not None
    names = _two_variables(args)
    return _fold_to_list(_At(builder, offset), target, names, args[2] if len(args) == 4 else None, args[-1])


def _fold_to_map(
    at: _At, target: Expr, names: tuple[str, str], predicate: Expr | None, entry: tuple[Expr, ...]
) -> Expr:
    step: Expr = at.call(operators.MAP_INSERT, at.accumulator(), *entry)
    if predicate is not None:
        step = at.call(operators.CONDITIONAL, predicate, step, at.accumulator())
    empty = MapExpr(at.builder.new_id(), at.offset, ())
    return at.fold(target, names, empty, at.literal(True), step, result=at.accumulator())


def _transform_map(builder: Builder, offset: int, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    assert target is not None
    names = _two_variables(args)
    at = _At(builder, offset)
    return _fold_to_map(at, target, names, args[2] if len(args) == 4 else None, (at.ident(names[0]), args[-1]))


def _transform_map_entry(builder: Builder, offset: int, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    assert target is not None
    names = _two_variables(args)
    at = _At(builder, offset)
    return _fold_to_map(at, target, names, args[2] if len(args) == 4 else None, (args[-1],))


def _optional_map(function: str, *, flat: bool) -> Expander:
    def expand(builder: Builder, offset: int, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
        assert target is not None
        name = args[0]
        if type(name) is not Ident:
            raise MacroError(name.offset, f"{function}() variable name must be a simple identifier")
        at = _At(builder, offset)
        value = at.bind(name.name, at.member_call("value", copy(builder, target)), args[1])
        return at.call(
            operators.CONDITIONAL,
            at.member_call("hasValue", target),
            value if flat else at.call("optional.of", value),
            at.call("optional.none"),
        )

    return expand


def _bind(builder: Builder, offset: int, target: Expr | None, args: tuple[Expr, ...]) -> Expr | None:
    if type(target) is not Ident or target.name != "cel":
        return None
    name, init, body = args
    if type(name) is not Ident:
        raise MacroError(name.offset, "cel.bind() variable names must be simple identifiers")
    return _At(builder, offset).bind(name.name, init, body)


def _sort_by(builder: Builder, offset: int, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    assert target is not None
    if not isinstance(target, ListExpr | Select | Ident | Comprehension | Call):
        raise MacroError(
            target.offset,
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        )
    names = _one_variable(args, "argument is not an identifier")
    at = _At(builder, offset)
    keys = _fold_to_list(at, at.ident(_SORT_BY_INPUT), names, None, args[1])
    return at.bind(_SORT_BY_INPUT, target, at.member_call(SORT_BY_KEYS, at.ident(_SORT_BY_INPUT), keys))


def copy(builder: Builder, expr: Expr) -> Expr:
    """`expr` with new ids and the same places."""

    def new_id(old_id: int) -> int:
        found = builder.new_id()
        builder.copied(old_id, found)
        return found

    return made_anew(expr, new_id, partial(copy, builder))


STANDARD: Final[Mapping[MacroKey, Expander]] = {
    ("has", 1, False): _has,
    ("all", 2, True): _quantifier(_fold_all),
    ("exists", 2, True): _quantifier(_fold_exists),
    ("exists_one", 2, True): _quantifier(_fold_exists_one),
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
}
"""Macros of the language itself."""

OPTIONAL: Final[Mapping[MacroKey, Expander]] = {
    ("optMap", 2, True): _optional_map("optMap", flat=False),
    ("optFlatMap", 2, True): _optional_map("optFlatMap", flat=True),
}
"""Macros of the optional types library (Kubernetes 1.28)."""

BINDINGS: Final[Mapping[MacroKey, Expander]] = {("bind", 3, True): _bind}
"""`cel.bind` (DRA since 1.31)."""

TWO_VARIABLES: Final[Mapping[MacroKey, Expander]] = {
    ("all", 3, True): _quantifier(_fold_all),
    ("exists", 3, True): _quantifier(_fold_exists),
    ("existsOne", 3, True): _quantifier(_fold_exists_one),
    ("exists_one", 3, True): _quantifier(_fold_exists_one),
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
}
"""Two-variable comprehensions (Kubernetes 1.32)."""

LISTS: Final[Mapping[MacroKey, Expander]] = {("sortBy", 2, True): _sort_by}
"""Macro of cel-go's lists library (Kubernetes 1.34)."""
