"""Generated code for quantifiers that may exceed the cost limit: it counts what the exact evaluator would.

    [0, 1, ...].all(a, [0, 1, ...].all(b, a + b >= 0))

Admission refuses what is estimated above the limit, so this is for hostile expressions: the exact evaluator
would answer the same, after a second. Every finished loop adds the least and the most its iterations can
have cost. Above the limit in the least case, the answer is the error; within it in the most case, the
answer counts; in between, the exact evaluator decides.

Not here: other macros than `exists` and `all` (the exact evaluator has them), expressions within the
limit (`codegen`).
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import length_hint
from typing import Any, Final

from cel.checker import Checked
from cel.codegen import Generator
from cel.codegen_parts import Code, Scope, Unsupported, fail, quantifier, terms
from cel.declarations import BOOL_KIND, DOUBLE_KIND, INT_KIND, UINT_KIND
from cel.syntax import ADD, EQUALS, IN, INDEX, NOT_EQUALS, Call, Comprehension, Expr, Ident, ListExpr, Literal, Select
from cel.values import COST_EXCEEDED, COST_LIMIT, AbortedError

RANGE_MAX: Final = 10_000
_NUMBERS: Final = frozenset((BOOL_KIND, INT_KIND, UINT_KIND, DOUBLE_KIND))
_NUMERIC: Final = frozenset(("_<_", "_<=_", "_>_", "_>=_", ADD, "_-_", "_*_", "_/_", "_%_"))


class LimitError(AbortedError):
    """Raised by a counting loop; the generated function lets it through."""


_Costs = tuple[int, int]
"""The least and the most a step of a loop costs."""


def _count(size: int, rest: Iterator[Any], costs: _Costs, counts: list[int]) -> None:
    steps = size - length_hint(rest)
    counts[0] += steps * costs[0]
    counts[1] += steps * costs[1] + 3
    if counts[0] > COST_LIMIT:
        raise LimitError(COST_EXCEEDED)


def _all(values: list[Any], rest: Iterator[Any], costs: _Costs, counts: list[int], answers: Iterator[bool]) -> bool:
    answer = all(answers)
    _count(len(values), rest, costs, counts)
    return answer


def _any(values: list[Any], rest: Iterator[Any], costs: _Costs, counts: list[int], answers: Iterator[bool]) -> bool:
    answer = any(answers)
    _count(len(values), rest, costs, counts)
    return answer


def _finish(counts: list[int], fixed: int, answer: bool) -> bool:
    return answer if counts[1] + fixed <= COST_LIMIT else fail()


_LOOPS: Final = {"ALLN": _all, "ANYN": _any, "FIN": _finish, "ITERATE": iter, "A": LimitError}


def prepare_counting(checked: Checked) -> tuple[Generator, str] | None:
    """A generator and the condition for its source, or None when only the exact evaluator can count this."""
    generator = CountingGenerator(checked)
    try:
        condition = generator.condition(checked.expr, {}, 0)
        fixed = generator.interval(checked.expr)[1]
    except Unsupported:
        return None
    if not generator.is_costly:
        return None
    return generator, f"FIN(n, {fixed}, {condition})"


class CountingGenerator(Generator):
    """As `Generator`, with `n` as the counts of one evaluation."""

    def source(self, condition: str) -> str:
        touch = "" if self.reads_device else "        d._driver\n"
        return (
            f"def matches(d{self.parameters()}):\n    n = [0, 0]\n    try:\n{touch}        return {condition}\n"
            "    except A:\n        raise\n    except X:\n        return E(d)\n"
        )

    def runtime(self) -> dict[str, Any]:
        return {**super().runtime(), **_LOOPS}

    def comprehension(self, node: Comprehension, scope: Scope, depth: int) -> Code:
        shape = quantifier(node)
        if node.iter_var2 is not None or shape is None:
            raise Unsupported
        operator, predicate = shape
        values = self.constant_values(node.iter_range, scope, depth)
        self.is_costly = True
        element, rest = self.temporary(), self.temporary()
        kind = "int" if {value.__class__ for value in values} == {int} else "any"
        low, high = self.interval(predicate)
        # The condition and the accumulator cost 3 a step, and 1 more for the `!` of exists.
        fixed = 3 if operator == "_&&_" else 4
        name = self.constant(values)
        answer = self.condition(predicate, {**scope, node.iter_var: Code(element, kind)}, depth + 1)
        function = self.use("ALLN" if operator == "_&&_" else "ANYN")
        return Code(
            f"{function}({name}, ({rest} := {self.use('ITERATE')}({name})), ({fixed + low}, {fixed + high}), n, "
            f"({answer} for {element} in {rest}))",
            "bool",
        )

    def constant_values(self, node: Expr, scope: Scope, depth: int) -> list[Any]:
        if (count := _range_size(node)) is not None:
            return [*range(count)]
        values = self.emit(node, scope, depth).constant
        if not isinstance(values, list):
            raise Unsupported
        return values

    def interval(self, node: Expr) -> _Costs:
        """The least and the most a part costs, loops within it not counted."""
        match node:
            case Literal():
                return 0, 0
            case Ident():
                return 1, 1
            case ListExpr() if all(type(element) is Literal for element in node.elements):
                return 0, 0
            case Comprehension():
                low, high = self.interval(node.iter_range)
                return low + 1, high + 1
            case Select() if _is_path(node):
                low, high = self.interval(node.operand)
                return low + 1 - node.test_only, high + 1 - node.test_only
            case Call():
                return self.call_interval(node)
            case _:
                raise Unsupported

    def call_interval(self, node: Call) -> _Costs:
        if (count := _range_size(node)) is not None:
            return 11 + count, 11 + count
        if node.function in ("_&&_", "_||_"):
            parts = [self.interval(term) for term in terms(node)]
            return parts[0][0], sum(high for _, high in parts)
        operands = [self.interval(argument) for argument in node.args]
        low, high = sum(part[0] for part in operands), sum(part[1] for part in operands)
        if node.target is not None:
            raise Unsupported
        if node.function == "!_" or (node.function in _NUMERIC and self.are_numbers(node)):
            return low + 1, high + 1
        if node.function == INDEX and _is_path(node):
            return low + 1, high + 1
        if node.function in (EQUALS, NOT_EQUALS):
            return low + self.are_numbers(node), high + self.equality_cost(node)
        if node.function == IN and type(node.args[1]) is ListExpr:
            # cel-go makes a set of such a list, and looking into it costs nothing.
            return low, high
        raise Unsupported

    def are_numbers(self, node: Call) -> bool:
        return all(self.types[argument.id].kind in _NUMBERS for argument in node.args)

    def equality_cost(self, node: Call) -> int:
        """A number costs 1 to compare with anything, a text at most a tenth of its length."""
        sizes = []
        for argument in node.args:
            if self.types[argument.id].kind in _NUMBERS:
                sizes.append(1)
            elif type(argument) is Literal and argument.value.__class__ is str:
                sizes.append(-(-len(argument.value) // 10))
        if not sizes:
            raise Unsupported
        return min(sizes)


def _is_path(node: Expr) -> bool:
    """A name with selections by constants."""
    while True:
        if type(node) is Select:
            node = node.operand
        elif type(node) is Call and node.function == INDEX and type(node.args[1]) is Literal:
            node = node.args[0]
        else:
            return type(node) is Ident


def _range_size(node: Expr) -> int | None:
    """The n of `lists.range(n)`."""
    if type(node) is Call and node.function == "lists.range" and type(node.args[0]) is Literal:
        count = node.args[0].value
        if isinstance(count, int) and 0 <= count <= RANGE_MAX:
            return count
    return None
