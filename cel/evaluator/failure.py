"""Where in an expression an evaluation failed: the smallest part that fails alike by itself.

The evaluator says what went wrong, as cel-go does, and not where. Here parts are evaluated again, from the outside in.

Rules of this module
  1. A part that reads the variable of a macro is not asked about: the macro's call is the place then.
  2. The place is right, if not always the smallest: after `_WORK_MAX` of work it is the part that was reached.

Cost: up to as many evaluations as the expression has parts. For people who ask, never for a scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cel import operators
from cel.checker.checker import Checked
from cel.errors import EvaluationError
from cel.evaluator.walker import Plan, Planner
from cel.library.values import EFFORT_LIMIT, WORK
from cel.parser.syntax import Call, Comprehension, Expr, Literal, children, terms_of
from cel.recursion import with_room

_WORK_MAX: Final = 4 * EFFORT_LIMIT
_LOGICAL: Final = (operators.LOGICAL_AND, operators.LOGICAL_OR)


def failing_offset(checked: Checked, variables: Mapping[str, Any]) -> int | None:
    """The offset, in code points, of what fails; None where the expression does not fail."""
    message = _failure(checked, checked.expr, variables)
    if message is None:
        return None
    node, until = checked.expr, WORK[0] + _WORK_MAX
    inner: Expr | None = node
    while inner is not None:
        node = inner
        inner = next((part for part in _parts(node) if _fails_so(checked, part, variables, message, until)), None)
    return node.offset


def _parts(node: Expr) -> Iterator[Expr]:
    """What is evaluated on the way, in this order, with no variable of a macro."""
    if isinstance(node, Comprehension):
        yield node.iter_range
    elif isinstance(node, Call) and node.function in _LOGICAL:
        yield from terms_of(node)  # a long chain nests as deeply as it is long
    else:
        yield from (part for part in children(node) if not isinstance(part, Literal))


def _fails_so(checked: Checked, part: Expr, variables: Mapping[str, Any], message: str, until: int) -> bool:
    return WORK[0] <= until and _failure(checked, part, variables) == message


def _failure(checked: Checked, part: Expr, variables: Mapping[str, Any]) -> str | None:
    planner = Planner(checked)
    try:
        Plan(with_room(planner.plan, part, {}), planner).evaluate(variables)
    except EvaluationError as error:
        return str(error)
    return None
