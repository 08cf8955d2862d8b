"""What CEL selectors name: drivers, attributes, capacities, and the texts that they compare these with.

The only reader of selectors. It looks at the parsed expression, so that `.a` and `["a"]`, `has()`, `in [...]`,
brackets, blanks and all forms of texts are read alike.

Rules of this module
  1. An expression that does not parse names nothing.
  2. What a macro copies is read once.

Not here: what of it is a mistake (`selector_mistakes`, `scheduler.lint.mistakes`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from allocator.values.names import is_c_identifier
from cel import operators
from cel.errors import CompileError
from cel.parser.frontend import parse
from cel.parser.lexer import IDENT, tokenize
from cel.parser.syntax import Call, Expr, Ident, ListExpr, Literal, Select, children

_WHICH: Final = ("attributes", "capacity")
_EQUAL: Final = (operators.EQUALS, operators.IN)
_ORDERED: Final = ("compareTo", "isGreaterThan")
_QUOTES: Final = ("'", '"')
_NO_FIELDS: Final = ("in", "true", "false", "null")


class Part(NamedTuple):
    """A name or text: from where to where it is written, and what it says."""

    start: int
    end: int
    text: str


class Reference(NamedTuple):
    """`device.attributes["domain"].name`, in any form.

    Attributes:
        which: `attributes` or `capacity`.
        is_question: Whether it asks if the device has it, and does without: `has()`, `in`, `.?`.
    """

    which: str
    domain: Part
    name: Part
    offset: int
    is_question: bool

    @property
    def key(self) -> tuple[str, str, str]:
        """`which`, domain and name."""
        return self.which, self.domain.text, self.name.text


class Selector:
    """An expression, read.

    Attributes:
        drivers: Names of which `device.driver` must have one (`==`, `in`).
        references: Attributes and capacities that are named in full.
        comparisons: References, each with the texts of which it must equal one.
        amounts: Capacities, each with the quantity that it is compared with.
    """

    def __init__(self, expression: str) -> None:
        self.expression: Final = expression
        root = parsed(expression)
        nodes = [*walk(root)] if root is not None else []
        self._tokens: Final = tokenize(expression)
        self._indexes: Final = {offset: index for index, offset in enumerate(self._tokens.offsets)}
        must_equal = [one for one in nodes if isinstance(one, Call) and one.function in _EQUAL]
        self.drivers: Final = sorted({self._literal(one) for node in must_equal for one in driver_texts(node)})
        found = {one for node in nodes if (one := self._reference(node))}
        self.references: Final = sorted(found, key=lambda one: one.offset)
        self.comparisons: Final = sorted({one for node in must_equal for one in self._comparisons(node)})
        self.amounts: Final = sorted({one for node in nodes for one in self._amounts(node)})

    def put(self, part: Part, text: str) -> str:
        """The expression with another name or text in the place of one."""
        written = self.written(part)
        if written[-1] in _QUOTES:
            is_plain = text.isprintable() and not set(text) & {*_QUOTES, "\\"}
            return self.put_raw(part, f"{written[-1]}{text}{written[-1]}" if is_plain else json.dumps(text))
        if is_field(text):
            return self.put_raw(part, text)
        return self.put_raw(part._replace(start=self.expression.rindex(".", 0, part.start)), f"[{json.dumps(text)}]")

    def put_raw(self, part: Part, text: str) -> str:
        """The same with what is no name or text: a number, a call."""
        return self.expression[: part.start] + text + self.expression[part.end :]

    def written(self, part: Part) -> str:
        """As it stands there, a text with its quotes."""
        return self.expression[part.start : part.end]

    def _literal(self, node: Literal) -> Part:
        return Part(node.offset, node.offset + len(self._tokens.texts[self._indexes[node.offset]]), str(node.value))

    def _field(self, name: str, after: int) -> Part:
        """The name after the dot that follows a place."""
        index = self._tokens.kinds.index(IDENT, self._indexes[after] + 1)
        start = self._tokens.offsets[index]
        return Part(start, start + len(self._tokens.texts[index]), name)

    def _reference(self, node: Expr) -> Reference | None:
        match node:
            case Call(function=operators.IN, target=None, args=(Literal(value=str()) as key, holder)):
                is_question = True
            case Call(function=name, target=None, args=(holder, Literal(value=str()) as key)) if (
                name in operators.CHAIN
            ):
                is_question = name != operators.INDEX
            case Select(operand=holder, field=str(key), test_only=is_question):
                pass
            case _:
                return None
        match holder:
            case Call(function=operators.INDEX, target=None, args=(Select() as outer, Literal(value=str()) as literal)):
                domain = self._literal(literal)
            case Select(operand=Select() as outer, field=str(name), test_only=False):
                domain = self._field(name, holder.offset)
            case _:
                return None
        if outer.field not in _WHICH or not isinstance(outer.operand, Ident) or outer.operand.name != "device":
            return None
        named = self._literal(key) if isinstance(key, Literal) else self._field(key, domain.start)
        return Reference(outer.field, domain, named, node.offset, is_question)

    def _comparisons(self, node: Call) -> Iterator[tuple[Reference, tuple[Part, ...]]]:
        for side, other in (node.args, node.args[::-1])[: 1 if node.function == operators.IN else 2]:
            asked = side.target if isinstance(side, Call) and side.function == "orValue" else side
            reference = self._reference(asked) if asked is not None else None
            literals = other.elements if isinstance(other, ListExpr) else (other,)
            texts = [one for one in literals if isinstance(one, Literal) and isinstance(one.value, str)]
            if reference is not None and texts:
                yield reference, tuple([self._literal(one) for one in texts])

    def _amounts(self, node: Expr) -> Iterator[tuple[Reference, Part]]:
        if not isinstance(node, Call) or node.function not in _ORDERED or node.target is None:
            return
        reference = self._reference(node.target)
        amounts = [arg for arg in node.args if isinstance(arg, Call) and arg.function == "quantity"]
        for one in [one for amount in amounts for one in amount.args]:
            if reference is not None and isinstance(one, Literal) and isinstance(one.value, str):
                yield reference, self._literal(one)


def is_field(name: str) -> bool:
    """Whether a name can follow a dot."""
    return is_c_identifier(name) and name not in _NO_FIELDS


@lru_cache(maxsize=4)  # lint asks five times of each, and takes 15 % longer without
def parsed(expression: str) -> Expr | None:
    """None for an expression that is none."""
    try:
        return parse(expression).expr
    except (CompileError, RecursionError):
        return None


def walk(node: Expr) -> Iterator[Expr]:
    """A node and all below it."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending += children(current)


def pinned_drivers(expression: str, meant: Callable[[str], str | None] = lambda name: None) -> frozenset[str]:
    """Drivers of which one a matching device must have: those of `device.driver == "..."` that is a term of `&&`.

    `meant` gives the name that a driver has today, None for an unchanged one.
    """
    root, found = parsed(expression), set[str]()
    pending = [root] if root is not None else []
    while pending:
        node = pending.pop()
        if isinstance(node, Call) and node.function == operators.LOGICAL_AND:
            pending += node.args
        elif isinstance(node, Call) and node.function == operators.EQUALS:
            found |= {meant(str(one.value)) or str(one.value) for one in driver_texts(node)}
    return frozenset(name for name in found if "/" not in name)


def driver_texts(node: Expr) -> Iterator[Literal]:
    """The texts that a part of an expression compares `device.driver` with."""
    if not isinstance(node, Call) or node.target is not None or len(node.args) != 2:
        return
    left, right = node.args
    if node.function in (operators.EQUALS, operators.NOT_EQUALS):
        for side, other in ((left, right), (right, left)):
            if _is_driver(side) and isinstance(other, Literal) and isinstance(other.value, str):
                yield other
    elif node.function == operators.IN and _is_driver(left) and isinstance(right, ListExpr):
        yield from (each for each in right.elements if isinstance(each, Literal) and isinstance(each.value, str))


def _is_driver(node: Expr) -> bool:
    return isinstance(node, Select) and node.field == "driver" and not node.test_only and is_device(node.operand)


def is_device(node: Expr) -> bool:
    """Whether it is the variable `device`."""
    return isinstance(node, Ident) and node.name == "device"
