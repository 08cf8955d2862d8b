"""Expression nodes: what the parser makes, the checker annotates and the evaluators walk.

Rules of this module
  1. A node is written once, by the parser or a macro, and never changed.
  2. Every node carries `id` (unique within one parsed expression, > 0) and `offset` (code points from
     the start of the source; where an error about this node puts its caret, as cel-go does: the
     operator of a binary expression, the `(` of a call, the `.` of a selection, the `[` of an index).
  3. Operators are calls with cel-go's function names (`_+_`, `_&&_`, `_[_]`, ...), so that the
     overload table, the cost formulas and the evaluators have one vocabulary.
  4. Macros are expanded before anything else sees the tree; what was written is kept by id in
     `Parsed.macro_calls`.

Not here: source text (`frontend`), types (`declarations`), values (`values`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias, TypeVar, cast

from msgspec import Struct, structs

ACCUMULATOR: Final = "@result"
"""The accumulator of every macro but `cel.bind`; no source text can spell it."""

UNUSED_ITER_VAR: Final = "#unused"
"""The iteration variable of the comprehension `cel.bind` expands to."""


class Node(Struct, frozen=True, eq=False):
    """An expression or a part of one."""

    id: int
    offset: int

    def __eq__(self, other: object) -> bool:
        """Structural: ids and offsets are places, not meaning."""
        if not isinstance(other, Node):
            return NotImplemented
        return type(self) is type(other) and _parts(self) == _parts(other)

    __hash__ = object.__hash__


class Literal(Node, frozen=True):
    """A constant: None, bool, int, `UInt`, float, str or bytes."""

    value: bool | int | float | str | bytes | None

    def __eq__(self, other: object) -> bool:
        """1, 1u, 1.0 and true are four different constants, and NaN is itself."""
        if not isinstance(other, Literal):
            return NotImplemented
        return type(self.value) is type(other.value) and repr(self.value) == repr(other.value)

    __hash__ = object.__hash__


class Ident(Node, frozen=True):
    """A name; a leading dot (root lookup) is kept in it."""

    name: str


class Select(Node, frozen=True):
    """`operand.field`, or with `test_only` the body of `has(operand.field)`."""

    operand: Expr
    field: str
    test_only: bool = False


class Call(Node, frozen=True):
    """`function(args)`, or `target.function(args)`; operators included.

    `a.?b` is `_?._(a, "b")` with the field name as a string literal.
    """

    function: str
    target: Expr | None
    args: tuple[Expr, ...]


class ListExpr(Node, frozen=True):
    """`[a, ?b]`; `optional_indices` are the positions written with `?`, ascending."""

    elements: tuple[Expr, ...]
    optional_indices: tuple[int, ...] = ()


class MapEntry(Node, frozen=True):
    """`key: value` of a map, with `optional` for `?key: value`."""

    key: Expr
    value: Expr
    optional: bool = False


class MapExpr(Node, frozen=True):
    """`{k: v}`, entries in source order."""

    entries: tuple[MapEntry, ...]


class StructField(Node, frozen=True):
    """`name: value` of a message literal."""

    name: str
    value: Expr
    optional: bool = False


class StructExpr(Node, frozen=True):
    """`pkg.Type{field: value}`; the name may have a leading dot."""

    type_name: str
    fields: tuple[StructField, ...]


class Comprehension(Node, frozen=True):
    """The fold every iterating macro and `cel.bind` expand to.

    `accu_var = accu_init; for iter_var[, iter_var2] in iter_range: if not loop_condition: break;
    accu_var = loop_step; result`. With `iter_var2`, `iter_var` is the list index or the map key and
    `iter_var2` the element or the map value.
    """

    iter_range: Expr
    iter_var: str
    iter_var2: str | None
    accu_var: str
    accu_init: Expr
    loop_condition: Expr
    loop_step: Expr
    result: Expr


N = TypeVar("N", bound=Node)
Expr: TypeAlias = Literal | Ident | Select | Call | ListExpr | MapExpr | StructExpr | Comprehension


def _parts(node: Node) -> tuple[Any, ...]:
    """All but its id and its place."""
    return structs.astuple(node)[2:]


def children(node: Node) -> Iterator[Expr]:
    """The expressions directly below a node."""
    for part in _parts(node):
        for one in part if type(part) is tuple else (part,):
            if type(one) in _ENTRIES:
                yield from children(one)
            elif isinstance(one, Node):
                yield cast("Expr", one)


_ENTRIES: Final = (MapEntry, StructField)


def made_anew(node: N, id_of: Callable[[int], int], change: Callable[[Expr], Expr]) -> N:
    """The node with other ids, `id_of` the old ones, and `change` of the expressions directly below it."""

    def changed(part: Any) -> Any:
        if type(part) is tuple:
            return tuple(map(changed, part))
        if type(part) in _ENTRIES:
            return made_anew(part, id_of, change)
        return change(cast("Expr", part)) if isinstance(part, Node) else part

    kind: Any = type(node)
    made: N = kind(id_of(node.id), node.offset, *map(changed, _parts(node)))
    return made


def with_replacements(expr: Expr, replacements: Mapping[int, Expr]) -> Expr:
    """The tree with nodes replaced, by their ids; a replacement may have replacements below it."""

    def replaced(node: Expr) -> Expr:
        node = replacements.get(node.id, node)
        return node if type(node) in (Literal, Ident) else made_anew(node, int, replaced)

    return replaced(expr)


def terms_of(node: Call) -> list[Expr]:
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


class Parsed(Struct, frozen=True):
    """What `frontend.parse` gives.

    `macro_calls` holds, by the id of the expansion's root node, the call as it was written
    (`has(a.b)`, `xs.all(x, p)`, `cel.bind(...)`, `e.optMap(...)`); arguments that are macros
    themselves appear in it already expanded.
    """

    expr: Expr
    source: str
    macro_calls: Mapping[int, Call]
