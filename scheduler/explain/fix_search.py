"""What makes the pod fit: what the plugins propose; else edits of objects that no plugin sees.

Rules of this module
  1. Nothing is said to help that was not asked about: what plugins propose as if it were made (`cause_search`), an edit
     by loading the objects as it leaves them.
  2. The smallest that helps is said; two together where none helps alone.
  3. A question with edits costs a step for each object, and at least `STEPS_LEAST`. When the steps are used up, that
     is said. Where others wait for the answer, a question costs `_STEPS_OF_A_TURN` for each turn of the scheduler if
     that is more.
  4. Plugins look for what would help within one number of steps, however often they are asked.

Not here: the candidates (the plugins, `object_edits`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from scheduler.explain.world import Ruling, World
from scheduler.why.reasons import Diagnosis, Fix, Whom

Fixes: TypeAlias = tuple[Fix, ...]

BUDGET: Final = 40_000
"""Steps for one explanation: 100 questions with edits to a small cluster, 4 to one of 10,000 objects."""
STEPS_LEAST: Final = 400
_STEPS_OF_A_TURN: Final = 50
"""A step is about 0.1 ms, and a turn takes up to 10. A question takes a turn or two of a small cluster, 130 with 2,000
nodes, 300 and more where selectors cost much."""


@dataclass(slots=True)
class Search:
    """One explanation's questions.

    Attributes:
        left: Steps for questions.
        others_wait: For the answer: the process is not one's own.
        looking_steps: What is left of rule 4's, about 4 us each.
        asked: How many changes were asked about.
        is_exhausted: Not all was asked: what was found may not be the smallest.
    """

    world: World
    left: int
    others_wait: bool
    looking_steps: int
    asked: int = 0
    is_exhausted: bool = False

    def smallest(self, ruling: Ruling, edits: Sequence[Fix]) -> Diagnosis:
        """What the plugins say, with the smallest single change that helps, else two; maybe no reason at all."""
        why = self._why(ruling) or Diagnosis(())
        fixes, also = self._found(why, edits)
        return Diagnosis(why.reasons, fixes, also, self.asked, self.is_exhausted)

    def _found(self, why: Diagnosis, edits: Sequence[Fix]) -> tuple[Fixes, Fixes]:
        """What makes the pod fit together, and what else does alone."""
        fixes, also = why.fixes, why.also
        is_single = len(fixes) == 1
        both: Fixes = ()
        for edit in edits:
            if is_single and (edit.whom, edit.size) >= (Whom.OWN, fixes[0].size):
                break
            if (made := self._ask((edit,))) is None:
                return fixes, also
            if made.fits:
                return (edit,), (*fixes, *also) if is_single else ()
            second = self._why(made) if not fixes else None
            if second is not None and len(second.fixes) == 1:
                both = both or (edit, *second.fixes)
        if fixes or both:
            return fixes or both, also
        for pair in itertools.combinations(edits, 2):
            if (made := self._ask(pair)) is None:
                break
            if made.fits:
                return pair, ()
        return (), ()

    def _why(self, ruling: Ruling) -> Diagnosis | None:
        why, steps = ruling.why(self.looking_steps) if self.looking_steps > 0 else (None, 0)
        self.looking_steps -= steps
        self.is_exhausted |= self.looking_steps <= 0 or (why is not None and why.is_exhausted)
        self.asked += why.asked if why is not None else 0
        return why

    def _ask(self, edits: Sequence[Fix]) -> Ruling | None:
        """None where the budget is used up."""
        least = max(STEPS_LEAST, len(self.world.objects))
        self.left -= least
        if self.left < 0:
            self.is_exhausted = True
            return None
        self.asked += 1
        ruling = self.world.ask([one for edit in edits for one in edit.edits])
        if self.others_wait:
            self.left -= max(0, _STEPS_OF_A_TURN * ruling.turns - least)
        return ruling
