"""What answers and compiling take, counted: for who must bound the work of many and may not look at a clock.

The unit is that of effort (`values.spend`), about 40 ns. What is counted follows from the expression and the values it
meets, never from what is remembered, so equal questions count equally on any machine.

Weights, measured on CPython 3.11: a generated selector takes `ANSWER_WORK` and what its
code and the functions it calls take; the exact evaluator its effort, and `CHARACTER_WORK` for each character,
which costs nothing in CEL but takes time in closures;
compiling `COMPILE_WORK` and so much for each character, which holds for the densest expressions but for a few.
"""

from __future__ import annotations

from typing import Final

import cel.cost.estimate
import cel.evaluator.validators
import cel.evaluator.walker  # noqa: F401 - who counts does not want to pay for loading these with some evaluation
from cel.checker.checker import PART_LENGTH
from cel.errors import EvaluationError
from cel.library.device import DeviceView
from cel.library.values import EFFORT, EFFORT_LIMIT, WORK, begin
from cel.program import Selector

ANSWER_WORK: Final = 15
CHARACTER_WORK: Final = 2
COMPILE_WORK: Final = 1_000
COMPILE_CHARACTER_WORK: Final = 150
ANSWER_WORK_MAX: Final = EFFORT_LIMIT
"""What one evaluation may take; generated code that gives up (at a quarter of the limit) has been running besides."""


def answer_with_work(selector: Selector, device: DeviceView) -> tuple[bool | EvaluationError, int]:
    """What `selector.matches` gives or raises, and what that took."""
    begin()
    before = WORK[0]
    answer: bool | EvaluationError
    try:
        answer = selector.matches(device)
    except EvaluationError as error:
        answer = error.with_traceback(None)
    exact = WORK[0] - before
    # The exact evaluator begins anew, so the effort then is its own, and counted already.
    if exact:
        return answer, ANSWER_WORK + selector.generated_work + exact + CHARACTER_WORK * len(selector.expression)
    return answer, ANSWER_WORK + selector.generated_work + EFFORT[0]


def stage_work(expression: str) -> int:
    """What a stage of compiling it takes: parsing, checking types, generating, planning; two of these in parts."""
    stages = 4 + 2 * (len(expression) // PART_LENGTH)
    return (COMPILE_WORK + COMPILE_CHARACTER_WORK * len(expression)) // stages
