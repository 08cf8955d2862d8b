"""What an evaluation spends beside its cost, where it is the evaluator that takes the time and not a function.

`values.spend` says what effort is. Functions spend their own, by the sizes they meet; here is what calls, errors
and loops take whatever is called: it must not matter whether closures (`walker`) or code (`hot_loops`) ran.
"""

from __future__ import annotations

from typing import Any, Final

from cel.errors import EvaluationError
from cel.stdlib import Implementation
from cel.syntax import Comprehension, Expr, ListExpr, children
from cel.values import EFFORT, AbortedError

CALL_EFFORT: Final = 20
ERROR_EFFORT: Final = 40
LOOP_EFFORT: Final = 20
"""Of beginning a loop inside of another."""
SLOWNESS: Final = 15
"""What a unit of cost takes more in closures than in the code of `hot_loops`."""
LARGE_SLOWNESS: Final = 55
"""The same for a body that stays closures, be they closures that fail."""
FIRST_COST: Final = 3_000
"""Cost of a loop that counts as spent in closures."""
BODY_MAX: Final = 150
DEPTH_MAX: Final = 30
NODE_EFFORT: Final = 1_500
"""Per node of a body: making code for it."""


class Extent:
    """How large the body of an outermost loop is, and so what running it takes beside its cost.

    A loop begins as closures, which are slow, and goes on in code made for it, which takes a while to make.
    This counts both by the cost of the loop alone: which of the two ran must not matter. Bodies that are
    larger stay closures.
    """

    __slots__ = ("is_large", "nodes")

    def __init__(self, node: Comprehension) -> None:
        self.nodes = 0
        depth = 0
        level: list[Expr] = [node.loop_condition, node.loop_step]
        while level and depth <= DEPTH_MAX and self.nodes <= BODY_MAX:
            self.nodes += len(level)
            depth += 1
            level = [child for one_ in level for child in children(one_)]
        self.is_large: Final = bool(level)

    def effort(self, cost: int) -> int:
        """Of a run with this cost."""
        if self.is_large:
            return LARGE_SLOWNESS * cost
        if cost <= FIRST_COST:
            return SLOWNESS * cost
        return SLOWNESS * FIRST_COST + NODE_EFFORT * self.nodes


def is_binding(node: Comprehension) -> bool:
    """`cel.bind`, a fold over nothing."""
    return node.iter_var2 is None and type(node.iter_range) is ListExpr and not node.iter_range.elements


def counted(call: Implementation) -> Implementation:
    """A call with what calling takes in effort, and more when it fails."""

    def run(*values: Any) -> Any:
        EFFORT[0] += CALL_EFFORT
        try:
            return call(*values)
        except AbortedError:
            raise
        except EvaluationError:
            EFFORT[0] += ERROR_EFFORT
            raise

    return run
