"""The effort of the evaluator itself: calls, errors and loops, whatever function is called.

`values.spend` says what effort is. Functions spend their own, by the sizes of their arguments.
"""

from __future__ import annotations

from typing import Any, Final

from cel.library.stdlib import Implementation
from cel.library.values import EFFORT
from cel.parser.syntax import Comprehension, Expr, children

CALL_EFFORT: Final = 20
OPERAND_EFFORT: Final = 25
"""For each operand beyond two: the overload is then looked for by the operands' types."""
ERROR_EFFORT: Final = 25
"""Of an error, for each step that it passes and for the one that absorbs it."""
FREE_EFFORT: Final = 25
"""Of an operator that costs nothing, as comparing empty texts does."""
LOOP_EFFORT: Final = 20
"""Of a loop beside its iterations; of a `cel.bind`, which is one without any."""
ITERATION_EFFORT: Final = 5
NODE_EFFORT: Final = 3
"""For each node of a loop's body in each iteration, because many nodes cost nothing in CEL."""


def iteration_effort(node: Comprehension) -> int:
    """What an iteration of a loop spends beside its cost; a loop inside of it spends its own."""
    nodes = 0
    pending: list[Expr] = [node.loop_condition, node.loop_step]
    while pending:
        current = pending.pop()
        nodes += 1
        if type(current) is Comprehension:
            pending += (current.iter_range, current.accu_init, current.result)
        else:
            pending += children(current)
    return ITERATION_EFFORT + NODE_EFFORT * nodes


def counted(call: Implementation, count: int) -> Implementation:
    """A call of `count` operands with what calling takes."""
    effort = CALL_EFFORT + OPERAND_EFFORT * max(count - 2, 0)

    def run(*values: Any) -> Any:
        EFFORT[0] += effort
        return call(*values)

    return run
