"""Expression nodes: what the parser makes, the checker annotates and the evaluators walk.

Rules of this module
  1. A node is written once, by the parser or a macro, and never changed (every attribute is `Final`).
  2. Every node carries `id` (unique within one parsed expression, > 0) and `offset` (code points from
     the start of the source; where an error about this node puts its caret, as cel-go does: the
     operator of a binary expression, the `(` of a call, the `.` of a selection, the `[` of an index).
  3. Operators are calls with cel-go's function names (`_+_`, `_&&_`, `_[_]`, ...), so that the
     overload table, the cost formulas and the evaluators have one vocabulary.
  4. Macros are expanded before anything else sees the tree; what was written is kept by id in
     `Parsed.macro_calls`.

Plain slotted classes rather than dataclasses: creating a dataclass costs 0.3 ms at import and a frozen
one sets each attribute through `object.__setattr__`, which would double the time of a parse.

Not here: source text (`frontend`), types (`declarations`), values (`values`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

ACCUMULATOR: Final = "@result"
"""The accumulator of every macro but `cel.bind`; no source text can spell it."""

UNUSED_ITER_VAR: Final = "#unused"
"""The iteration variable of the comprehension `cel.bind` expands to."""


class Node:
    """An expression or a part of one."""

    __slots__ = ("id", "offset")

    id: int
    offset: int

    def _fields(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        """Structural: ids and offsets are places, not meaning."""
        if not isinstance(other, Node):
            return NotImplemented
        return type(self) is type(other) and self._fields() == other._fields()

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"


class Literal(Node):
    """A constant: None, bool, int, `UInt`, float, str or bytes."""

    __slots__ = ("value",)
    __match_args__ = ("value",)

    def __init__(self, id: int, offset: int, value: bool | int | float | str | bytes | None) -> None:
        self.id = id
        self.offset = offset
        self.value: Final = value

    def __eq__(self, other: object) -> bool:
        """1, 1u, 1.0 and true are four different constants, and NaN is itself."""
        if not isinstance(other, Literal):
            return NotImplemented
        return type(self.value) is type(other.value) and repr(self.value) == repr(other.value)

    __hash__ = object.__hash__


class Ident(Node):
    """A name; a leading dot (root lookup) is kept in it."""

    __slots__ = ("name",)
    __match_args__ = ("name",)

    def __init__(self, id: int, offset: int, name: str) -> None:
        self.id = id
        self.offset = offset
        self.name: Final = name


class Select(Node):
    """`operand.field`, or with `test_only` the body of `has(operand.field)`."""

    __slots__ = ("field", "operand", "test_only")
    __match_args__ = ("operand", "field", "test_only")

    def __init__(self, id: int, offset: int, operand: Expr, field: str, test_only: bool = False) -> None:
        self.id = id
        self.offset = offset
        self.operand: Final = operand
        self.field: Final = field
        self.test_only: Final = test_only


class Call(Node):
    """`function(args)`, or `target.function(args)`; operators included.

    `a.?b` is `_?._(a, "b")` with the field name as a string literal.
    """

    __slots__ = ("args", "function", "target")
    __match_args__ = ("function", "target", "args")

    def __init__(self, id: int, offset: int, function: str, target: Expr | None, args: tuple[Expr, ...]) -> None:
        self.id = id
        self.offset = offset
        self.function: Final = function
        self.target: Final = target
        self.args: Final = args


class ListExpr(Node):
    """`[a, ?b]`; `optional_indices` are the positions written with `?`, ascending."""

    __slots__ = ("elements", "optional_indices")
    __match_args__ = ("elements", "optional_indices")

    def __init__(
        self, id: int, offset: int, elements: tuple[Expr, ...], optional_indices: tuple[int, ...] = ()
    ) -> None:
        self.id = id
        self.offset = offset
        self.elements: Final = elements
        self.optional_indices: Final = optional_indices


class MapEntry(Node):
    """`key: value` of a map, with `optional` for `?key: value`."""

    __slots__ = ("key", "optional", "value")
    __match_args__ = ("key", "value", "optional")

    def __init__(self, id: int, offset: int, key: Expr, value: Expr, optional: bool = False) -> None:
        self.id = id
        self.offset = offset
        self.key: Final = key
        self.value: Final = value
        self.optional: Final = optional


class MapExpr(Node):
    """`{k: v}`, entries in source order."""

    __slots__ = ("entries",)
    __match_args__ = ("entries",)

    def __init__(self, id: int, offset: int, entries: tuple[MapEntry, ...]) -> None:
        self.id = id
        self.offset = offset
        self.entries: Final = entries


class StructField(Node):
    """`name: value` of a message literal."""

    __slots__ = ("name", "optional", "value")
    __match_args__ = ("name", "value", "optional")

    def __init__(self, id: int, offset: int, name: str, value: Expr, optional: bool = False) -> None:
        self.id = id
        self.offset = offset
        self.name: Final = name
        self.value: Final = value
        self.optional: Final = optional


class StructExpr(Node):
    """`pkg.Type{field: value}`; the name may have a leading dot."""

    __slots__ = ("fields", "type_name")
    __match_args__ = ("type_name", "fields")

    def __init__(self, id: int, offset: int, type_name: str, fields: tuple[StructField, ...]) -> None:
        self.id = id
        self.offset = offset
        self.type_name: Final = type_name
        self.fields: Final = fields


class Comprehension(Node):
    """The fold every iterating macro and `cel.bind` expand to.

    `accu_var = accu_init; for iter_var[, iter_var2] in iter_range: if not loop_condition: break;
    accu_var = loop_step; result`. With `iter_var2`, `iter_var` is the list index or the map key and
    `iter_var2` the element or the map value.
    """

    __slots__ = (
        "accu_init",
        "accu_var",
        "iter_range",
        "iter_var",
        "iter_var2",
        "loop_condition",
        "loop_step",
        "result",
    )
    __match_args__ = (
        "iter_range",
        "iter_var",
        "iter_var2",
        "accu_var",
        "accu_init",
        "loop_condition",
        "loop_step",
        "result",
    )

    def __init__(  # noqa: PLR0917 - one call site per macro, and keywords would cost a third of its time
        self,
        id: int,
        offset: int,
        iter_range: Expr,
        iter_var: str,
        iter_var2: str | None,
        accu_var: str,
        accu_init: Expr,
        loop_condition: Expr,
        loop_step: Expr,
        result: Expr,
    ) -> None:
        self.id = id
        self.offset = offset
        self.iter_range: Final = iter_range
        self.iter_var: Final = iter_var
        self.iter_var2: Final = iter_var2
        self.accu_var: Final = accu_var
        self.accu_init: Final = accu_init
        self.loop_condition: Final = loop_condition
        self.loop_step: Final = loop_step
        self.result: Final = result


Expr: TypeAlias = Literal | Ident | Select | Call | ListExpr | MapExpr | StructExpr | Comprehension


def children(node: Expr) -> Iterator[Expr]:
    """The expressions directly below a node."""
    match node:
        case Select():
            yield node.operand
        case Call():
            if node.target is not None:
                yield node.target
            yield from node.args
        case ListExpr():
            yield from node.elements
        case MapExpr():
            for entry in node.entries:
                yield entry.key
                yield entry.value
        case StructExpr():
            for field in node.fields:
                yield field.value
        case Comprehension():
            yield from (
                node.iter_range,
                node.accu_init,
                node.loop_condition,
                node.loop_step,
                node.result,
            )
        case _:
            return


def made_anew(node: Expr, id_of: Callable[[int], int], change: Callable[[Expr], Expr]) -> Expr:
    """The node with other ids, `id_of` the old ones, and `change` of the expressions directly below it."""
    new_id, offset = id_of(node.id), node.offset
    match node:
        case Literal():
            return Literal(new_id, offset, node.value)
        case Ident():
            return Ident(new_id, offset, node.name)
        case Select():
            return Select(new_id, offset, change(node.operand), node.field, node.test_only)
        case Call():
            target = None if node.target is None else change(node.target)
            return Call(new_id, offset, node.function, target, tuple(map(change, node.args)))
        case ListExpr():
            return ListExpr(new_id, offset, tuple(map(change, node.elements)), node.optional_indices)
        case MapExpr():
            entries = (
                MapEntry(id_of(entry.id), entry.offset, change(entry.key), change(entry.value), entry.optional)
                for entry in node.entries
            )
            return MapExpr(new_id, offset, tuple(entries))
        case StructExpr():
            fields = (
                StructField(id_of(field.id), field.offset, field.name, change(field.value), field.optional)
                for field in node.fields
            )
            return StructExpr(new_id, offset, node.type_name, tuple(fields))
        case Comprehension():
            return Comprehension(
                new_id,
                offset,
                change(node.iter_range),
                node.iter_var,
                node.iter_var2,
                node.accu_var,
                change(node.accu_init),
                change(node.loop_condition),
                change(node.loop_step),
                change(node.result),
            )


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


class Parsed:
    """What `frontend.parse` gives.

    `macro_calls` holds, by the id of the expansion's root node, the call as it was written
    (`has(a.b)`, `xs.all(x, p)`, `cel.bind(...)`, `e.optMap(...)`); arguments that are macros
    themselves appear in it already expanded.
    """

    __slots__ = ("expr", "macro_calls", "source")

    def __init__(self, expr: Expr, source: str, macro_calls: Mapping[int, Call]) -> None:
        self.expr: Final = expr
        self.source: Final = source
        self.macro_calls: Final = macro_calls
