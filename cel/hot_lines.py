"""Lines of generated code and what is known of the values they make: the ground `hot_loops` stands on.

Rules of this module are those of `hot_loops`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from cel.codegen_parts import Unsupported
from cel.syntax import Expr
from cel.values import INT_MAX, INT_MIN, MISSING

INDENT_MAX: Final = 70
BLOCKS_MAX: Final = 14
"""Python refuses more than 20 nested blocks and 100 levels of indentation."""

UNKNOWN: Final = (INT_MIN - 1, INT_MAX + 1)


class Ref(NamedTuple):
    """Where a value is: a name or a literal, to be read any number of times.

    kind: "int", "bool" or "any"; fails: whether it can be an error; bounds: of an int.
    """

    text: str
    kind: str = "any"
    fails: bool = True
    bounds: tuple[int, int] = UNKNOWN
    constant: Any = MISSING


class Variable:
    """A name of the expression.

    level: of the loop that sets it; 0 is outside of this function.
    slot: where closures read it, or None for accumulators of this function, which they cannot.
    init: what a binding is computed from at its first reading.
    """

    __slots__ = ("init", "is_lazy", "is_synced", "level", "ref", "scope", "slot")

    def __init__(self, ref: Ref, level: int, slot: int | None, *, is_lazy: bool = False) -> None:
        self.ref: Final = ref
        self.level: Final = level
        self.slot: Final = slot
        self.is_lazy: Final = is_lazy
        self.is_synced = False
        self.init: Expr | None = None
        self.scope: Scope = {}


Scope: TypeAlias = Mapping[str, Variable]
Key: TypeAlias = tuple[int, tuple[str, ...]]
"""The shape of a part and where its variables are."""


class Marker:
    """A line that is known only at the end."""

    __slots__ = ("indent", "make")

    def __init__(self, indent: int, make: Callable[[], list[str]]) -> None:
        self.indent: Final = indent
        self.make: Final = make


class Lines:
    """The lines so far; pending: cost that is not yet in a line."""

    def __init__(self) -> None:
        self.lines: list[str | Marker] = []
        self.constants: Final[dict[str, Any]] = {}
        self.names = 0
        self.indent = 1
        self.pending = 0
        self.blocks = 0
        self.available: Final[dict[Key, tuple[Ref, str, str]]] = {}
        """Values of parts that occur again, and the names of their cost and their effort ("" for none)."""
        self.spends = 0
        """How many lines can spend effort."""
        self.shared: Final[list[tuple[int, Key]]] = []

    def enter(self) -> None:
        self.indent += 1

    def leave(self, levels: int = 1) -> None:
        """What was computed inside is not known to have been computed after it."""
        self.indent -= levels
        while self.shared and self.shared[-1][0] > self.indent:
            del self.available[self.shared.pop()[1]]

    def out(self, text: str) -> None:
        if self.indent > INDENT_MAX:
            raise Unsupported
        self.lines.append(" " * self.indent + text)

    def flush(self) -> None:
        if self.pending:
            self.out(f"n += {self.pending}")
            self.pending = 0

    def name(self, prefix: str = "t") -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def constant(self, value: Any) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def literal(self, value: Any) -> Ref:
        cls = value.__class__
        if cls is int:
            return Ref(self.constant(value), "int", False, (value, value), value)
        if cls is bool or value is None:
            return Ref(repr(value), "bool" if cls is bool else "any", False, UNKNOWN, value)
        return Ref(self.constant(value), "any", False, UNKNOWN, value)

    def attempt(self, result: str, call: str) -> None:
        if self.blocks > BLOCKS_MAX:
            raise Unsupported
        self.out(f"try: {result} = {call}")
        self.out("except ABORT: raise")
        self.out(f"except X as e: {result} = e.with_traceback(None)")
