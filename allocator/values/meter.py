"""What answering takes, counted, and where it pauses: evaluations, compiling, looking at devices, trials of a search.

Everything that can take long asks `check` before a piece of work, and adds what the piece took. A caller that cannot
wait sets a limit (`allow`). The first piece behind the limit does not begin: `PausedError` unwinds to
`allocate_in_parts` or `candidate_nodes`. Finished work is kept where it is kept anyway (answers, masks, compiled
selectors), so the same question asked again goes on from there, and ends as it would have ended in one go.

Rules of this module
  1. Work is counted in units of `cel.work`, about 40 ns; `STEP` of them are a step, what others budget in.
  2. A piece of work is bounded: one evaluation, one stage of a compilation, one trial of a search.
  3. The first piece behind `allow` always begins, whatever it takes, so that asking again and again comes to an end.
  4. What is remembered costs nothing. Whether a question pauses, and how often, depends on what was asked before; its
     answer does not.

Not here: the budget of a search (`search`), which counts trials whatever they take, and ends in an answer.

See docs/adr/0016-one-budget-for-all-work.md.
"""

from __future__ import annotations

from typing import Final

STEP: Final = 100
"""Units of a step: about 4 us."""
NEVER: Final = 2**62


class PausedError(Exception):
    """No more work is allowed now."""


class Meter:
    """Counts the work of one inventory's readers.

    Attributes:
        spent: Work so far; grows only.
        stop_at: Where it pauses.
        is_fresh: Whether no piece of work was done since the limit was set; whoever does one clears it.
    """

    def __init__(self) -> None:
        self.spent = 0
        self.stop_at = NEVER
        self.is_fresh = True

    def allow(self, steps: int) -> int:
        """Let so many steps be spent from here on, > 0, and at least one piece of work be done. Gives `spent`."""
        self.is_fresh = True
        self.stop_at = self.spent + steps * STEP
        return self.spent

    def allow_all(self, before: int = 0) -> int:
        """No limit any more. Gives the steps since `spent` was `before`, rounded up."""
        self.stop_at = NEVER
        return -((before - self.spent) // STEP)

    def check(self, expected: int = 0) -> None:
        """Before a piece of work that may take so much.

        Raises:
            PausedError: not now.
        """
        if self.spent + expected >= self.stop_at and not self.is_fresh:
            raise PausedError
