"""What a pod's PreFilter asks about pods on all nodes, answered in parts where that takes long.

Rules of this module
  1. A pod that asks more than is kept for it is refused: it would never have all answers at once.
  2. Steps are charged to the cycle; where they do not suffice the pod is UNFINISHED, and asked again it goes on.

Upstream has no such thing: it counts everything anew for each pod, in parallel, however long that takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler.framework.api import PreFilterResult
from scheduler.framework.cycle import Cycle
from scheduler.framework.pod_counts_view import NODES_PER_STEP, QUESTIONS_MAX, PodCountsView, PodQuestion, values_of
from scheduler.framework.status import UNFINISHED, Status


def too_many(keys: int, what: str, questions: int = 0) -> PreFilterResult | None:
    """What PreFilter says of a pod with too many questions, None where they are not.

    Args:
        keys: How many topology keys they are about; there is a question for each at least.
    """
    questions = max(keys, questions)
    if questions + keys <= QUESTIONS_MAX:
        return None
    text = f"pod has {questions} distinct {what} for {keys} topology keys, together more than {QUESTIONS_MAX}"
    return PreFilterResult(Status.unresolvable(text))


def ask_ahead(
    cycle: Cycle, counts: PodCountsView, questions: Sequence[PodQuestion], *, what: str, other_keys: Iterable[str] = ()
) -> PreFilterResult | None:
    """Have these answered, and which labels are unique. None when they are; otherwise what PreFilter says.

    Args:
        what: The questions come from, for a reader.
        other_keys: Labels that other pods ask by; nodes have all of them, so they are few.
    """
    distinct = dict.fromkeys(questions)
    keys = {question.key for question in distinct}
    refusal = too_many(len(keys), what, len(distinct))
    if refusal is not None:
        return refusal
    before = counts.steps
    values = [values_of(key) for key in sorted(keys.union(other_keys))]
    is_answered = counts.prepare((*values, *distinct), cycle.steps_left)
    charge(cycle, counts, before)
    return None if is_answered else PreFilterResult(UNFINISHED)


def charge(cycle: Cycle, counts: PodCountsView, before: int) -> None:
    """Take what was counted since `before` from the cycle's steps."""
    cycle.steps_left -= -(-(counts.steps - before) // NODES_PER_STEP)
