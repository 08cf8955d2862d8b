"""What the steps of the exact evaluator take, whatever they compute, in units of effort (`values.spend`).

A step is charged where it stands, whether an evaluation comes to it or not: once for each evaluation, or once for
each iteration of the loop it stands in. So the planner adds up, and the steps themselves count nothing. Errors are
charged where they happen. Functions spend their own, by the sizes of their arguments.
"""

from __future__ import annotations

from typing import Final

STEP_EFFORT: Final = 6
"""Of a name, a selection, an index, an operator, a literal."""
CALL_EFFORT: Final = 20
"""Of a call of a function, beside its step."""
OPERAND_EFFORT: Final = 25
"""For each operand beyond two: the overload is then looked for by the operands' types."""
ENTRY_EFFORT: Final = 25
"""Of an entry of a map literal, beside its key and its value; and of the map, or of a wrapper."""
LOOP_EFFORT: Final = 20
"""Of a loop beside its iterations; of a `cel.bind`, which is one without any."""
ITERATION_EFFORT: Final = 5
ERROR_EFFORT: Final = 25
"""Of an error, for each step that it passes and for the one that absorbs it."""
