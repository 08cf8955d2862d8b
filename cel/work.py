"""The work of answering and of compiling, counted, for callers that must bound it for many selectors without a clock.

The unit is that of effort (`values.spend`), about 40 ns. Counts follow from the expression and the values it has
met, on any machine alike. Of patterns the most is counted that a search may take.

Weights, measured on CPython 3.11: an answer takes `ANSWER_WORK`, and of generated code 2 for each node and what its
functions spend, of the exact evaluator its effort; compiling takes `COMPILE_WORK`, and `COMPILE_CHARACTER_WORK` for
each character, which is enough for all but a few of the densest expressions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import cel.evaluator.validators
import cel.evaluator.walker  # noqa: F401 - loaded now, so that no evaluation pays for it
from cel.checker.checker import PART_LENGTH
from cel.errors import EvaluationError
from cel.library.device import DeviceView
from cel.library.values import EFFORT, EFFORT_LIMIT, WORK, begin
from cel.program import DerivedAttribute, Selector

T = TypeVar("T")

ANSWER_WORK: Final = 15
COMPILE_WORK: Final = 1_000
COMPILE_CHARACTER_WORK: Final = 150
ANSWER_WORK_MAX: Final = EFFORT_LIMIT
"""The most that one evaluation takes, besides generated code that gave up (at a quarter of the limit)."""


def answer_with_work(selector: Selector, device: DeviceView) -> tuple[bool | EvaluationError, int]:
    """What `selector.matches` returns or raises, and its work."""
    answer, work = _ask(selector.matches, device)
    return answer, work + selector.generated_work


def value_with_work(derived: DerivedAttribute, device: DeviceView) -> tuple[tuple[str, object] | EvaluationError, int]:
    """What `derived.value` returns or raises, and its work."""
    return _ask(derived.value, device)


def _ask(question: Callable[[DeviceView], T], device: DeviceView) -> tuple[T | EvaluationError, int]:
    begin()
    before = WORK[0]
    answer: T | EvaluationError
    try:
        answer = question(device)
    except EvaluationError as error:
        answer = error.with_traceback(None)
    # The exact evaluator begins anew, so the effort then is its own, and counted already.
    return answer, ANSWER_WORK + (WORK[0] - before or EFFORT[0])


def stage_work(expression: str) -> int:
    """Work of one stage of compiling: parsing, checking, generating, planning; checking and planning come in parts."""
    stages = 4 + 2 * (len(expression) // PART_LENGTH)
    return (COMPILE_WORK + COMPILE_CHARACTER_WORK * len(expression)) // stages
