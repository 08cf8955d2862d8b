"""What makes the pod fit: what the plugins propose; else edits of objects that no plugin sees.

Rules of this module
  1. Nothing is said to help that was not asked about: what plugins propose as if it were made (`cause_search`), an edit
     by loading the objects as it leaves them.
  2. The smallest that helps is said; two together where none helps alone.
  3. All that is asked for one answer comes out of one number of steps. A question with edits costs what loading the
     objects and the turns of the scheduler take, and at least `STEPS_LEAST`. When the steps are used up, that is said.

Not here: the candidates (the plugins, `object_edits`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from scheduler.explain.world import Ruling, World
from scheduler.offline.verdicts import TURN_STEPS
from scheduler.why.reasons import Diagnosis, Fix, Whom

Fixes: TypeAlias = tuple[Fix, ...]

STEPS_LEAST: Final = 10_000
"""For a question with edits to a small cluster; a step is about 4 us."""
_STEPS_OF_AN_OBJECT: Final = 25


def steps_of(world: World) -> int:
    """What a question costs at least."""
    return max(STEPS_LEAST, _STEPS_OF_AN_OBJECT * len(world.objects))


@dataclass(slots=True)
class Search:
    """One explanation's questions.

    Attributes:
        steps: What is left of rule 3's.
        asked: How many changes were asked about.
        is_exhausted: Not all was asked: what was found may not be the smallest.
    """

    world: World
    steps: int
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
        why, steps = ruling.why(self.steps) if self.steps > 0 else (None, 0)
        self.steps -= steps
        self.is_exhausted |= self.steps <= 0 or (why is not None and why.is_exhausted)
        self.asked += why.asked if why is not None else 0
        return why

    def _ask(self, edits: Sequence[Fix]) -> Ruling | None:
        """None where the steps are used up."""
        least = steps_of(self.world)
        if self.steps < least:
            self.is_exhausted = True
            return None
        self.asked += 1
        ruling = self.world.ask([one for edit in edits for one in edit.edits])
        self.steps -= max(least, TURN_STEPS * ruling.turns)
        return ruling
