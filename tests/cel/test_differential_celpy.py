"""Generated expressions of the subset cel-python understands, answered by us and by it.

Left out is what it cannot parse or gets wrong (see the CEL research): comparisons of different types,
optional syntax, escapes, `string()`, text as a list, dynamic receivers, the smallest integer modulo -1; and empty
lists, whose elements have a type here before they have one there. It needs no Go, so this runs
everywhere; the stronger comparison is `test_differential_oracle`.
"""

from __future__ import annotations

import math
import os
import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from cel import evaluate
from cel.errors import EvaluationError

SEED = int(os.environ.get("DRA_SCHEDULER_CEL_SEED", "20260101"))
BATCH = 1_500
ERROR = object()

Choose = Callable[[int], int]

INTS = ("0", "1", "2", "-1", "7", "1000", "9223372036854775807")
DOUBLES = ("0.0", "1.5", "-2.25", "1e30", "0.1")
TEXTS = ('""', '"a"', '"abc"', '"b"', '"A100"')
BOOLS = ("true", "false")


class Simple:
    """Expressions of bool, int, double, text and lists of these, each operand of the type it must have."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose
        self.scope: list[tuple[str, str]] = []

    def pick(self, items: Any) -> Any:
        return items[self.choose(len(items))]

    def make(self, kind: str, depth: int) -> str:
        names = [name for name, type_ in self.scope if type_ == kind]
        if names and self.choose(3) == 0:
            return str(self.pick(names))
        if depth <= 0:
            return str(self.pick({"int": INTS, "double": DOUBLES, "text": TEXTS, "bool": BOOLS}[kind]))
        return str(getattr(self, f"make_{kind}")(depth - 1))

    def make_int(self, depth: int) -> str:
        match self.choose(4):
            case 0:
                return f"size({self.make_list('int', depth)})"
            case 1:
                return f"size({self.make('text', depth)})"
            case 2:
                return f"({self.make('bool', depth)} ? {self.make('int', depth)} : {self.make('int', depth)})"
            case _:
                operator = self.pick("+-*/%")
                return f"({self.make('int', depth)} {operator} {self.make('int', depth)})"

    def make_double(self, depth: int) -> str:
        return f"({self.make('double', depth)} {self.pick('+-*')} {self.make('double', depth)})"

    def make_text(self, depth: int) -> str:
        return f"({self.make('text', depth)} + {self.make('text', depth)})"

    def make_list(self, kind: str, depth: int) -> str:
        if depth > 0 and self.choose(3) == 0:
            return f"{self.make_list(kind, depth - 1)}.{self.fold('filter', kind, depth - 1)}"
        return f"[{', '.join(self.make(kind, depth - 1) for _ in range(1 + self.choose(3)))}]"

    def fold(self, function: str, kind: str, depth: int) -> str:
        name = f"v{len(self.scope)}"
        self.scope.append((name, kind))
        body = self.make("bool", depth)
        self.scope.pop()
        return f"{function}({name}, {body})"

    def make_bool(self, depth: int) -> str:
        kind = self.pick(("int", "double", "text"))
        match self.choose(6):
            case 0:
                operator = self.pick(("==", "!=", "<", "<=", ">", ">="))
                return f"({self.make(kind, depth)} {operator} {self.make(kind, depth)})"
            case 1:
                return f"({self.make('bool', depth)} {self.pick(('&&', '||'))} {self.make('bool', depth)})"
            case 2:
                return f"!({self.make('bool', depth)})"
            case 3:
                function = self.pick(("contains", "startsWith", "endsWith"))
                # Its concatenations are plain str and have no methods of CEL.
                return f"{self.pick(TEXTS)}.{function}({self.make('text', depth)})"
            case 4:
                # Of an empty list cel-go does not look at the element, cel-python does.
                return f"({self.make(kind, depth)} in [{self.make(kind, 0)}, {self.make(kind, depth)}])"
            case _:
                function = self.pick(("all", "exists", "exists_one"))
                return f"{self.make_list(kind, depth)}.{self.fold(function, kind, depth)}"


def ours(expression: str) -> Any:
    try:
        return evaluate(expression)
    except EvaluationError:
        return ERROR


@pytest.mark.slow
def test_batch_of_generated_expressions_is_answered_as_by_cel_python() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its dependencies deprecate things
        celpy = pytest.importorskip("celpy")
        environment = celpy.Environment()
    print(f"seed {SEED} (set DRA_SCHEDULER_CEL_SEED to change it)")
    choices = random.Random(SEED)
    found = []
    errors = 0
    for _ in range(BATCH):
        expression = Simple(choices.randrange).make(choices.choice(("bool", "int", "double", "text")), 3)
        try:
            theirs: Any = environment.program(environment.compile(expression)).evaluate({})
        except celpy.CELEvalError:
            theirs = ERROR
        mine = ours(expression)
        errors += mine is ERROR
        if mine is ERROR or theirs is ERROR:
            is_equal = mine is theirs
        elif isinstance(mine, float):
            is_equal = float(theirs) == mine or (math.isnan(mine) and math.isnan(theirs))
        else:
            is_equal = type(mine)(theirs) == mine
        if not is_equal:
            found.append(f"{expression}\n  cel-python: {theirs!r}\n  ours:       {mine!r}")
    assert not found, f"seed {SEED}: {len(found)} of {BATCH} differ:\n" + "\n".join(found[:5])
    assert errors < BATCH / 2
