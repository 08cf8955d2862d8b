"""Objects and one pod of them: what the scheduler says about it, also after a change.

Rules of this module
  1. Each question is asked of a new cluster: nothing that one answer did is seen by the next.
  2. Objects that were given are never changed; a change is made to a copy.

Not here: which changes are worth asking about (`claim_changes`, `device_changes`, `pod_changes`), who asks (`search`).

Cost: O(objects) for each question.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from allocator import Features
from scheduler.config.settings import Config
from scheduler.embedded.loading import Restorable
from scheduler.framework.blame import TO_MAKE_IT_FIT, cause_of
from scheduler.offline import Answers, Given, Loaded, OfflineCluster, Outcome, Verdict, decide
from scheduler.offline.cluster import Decoded

Obj: TypeAlias = dict[str, Any]
Edit: TypeAlias = Callable[[Obj], None]

BUDGET_STEPS: Final = 200_000
"""For each node's search, as `simulate` has it."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that a person could do.

    Attributes:
        kind: For programs: which kind of change.
        size: How much it asks of people; the smallest that helps is said (docs/adr/0030).
        cause: What is in the way, as a fact about the objects.
        text: What to do.
        edits: Indexes of the objects, and what is done to each.
        amount_of: What is asked for less of, "" where it is no such change. Where less helps, still less does too, and
            nobody needs to be told.
    """

    kind: str
    size: int
    cause: str
    text: str
    edits: tuple[tuple[int, Edit], ...]
    amount_of: str = ""


@dataclass(frozen=True, slots=True)
class World:
    """Objects as they were given, and the pod that is asked about."""

    objects: Sequence[Given]
    pod: tuple[str, str]
    now_ms: int
    features: Features
    config: Config | None = None
    """The scheduler's; None: the default."""
    checked: dict[int, Restorable] = field(default_factory=dict, repr=False, compare=False)
    """Objects that one question has checked, for the others."""
    decoded: Decoded = field(default_factory=dict, repr=False, compare=False)
    """What one question has decoded, for the others."""

    def cause(self) -> tuple[str, str]:
        """What the live scheduler's event would say: the cause, and a change that would help; "" for none."""
        ruling = self.ask(reports_causes=True)
        if ruling.verdict is None or ruling.verdict.outcome not in (Outcome.UNSCHEDULABLE, Outcome.ERROR):
            return "", ""
        if ruling.verdict.uid in ruling.loaded.claim_problems:
            return "", ""  # its reason says why no claim is made: where controllers run, an event does
        cause, _, change = cause_of(ruling.verdict.reason).partition(TO_MAKE_IT_FIT)
        return cause, change

    def ask(self, changes: Iterable[Change] = (), *, reports_causes: bool = False) -> Ruling:
        """What the scheduler says about the pod once these changes are made; it alone waits."""
        objects = list(self.objects)
        copied: set[int] = set()
        for change in changes:
            for index, edit in change.edits:
                given = objects[index]
                obj = given.obj if index in copied else copy.deepcopy(dict(given.obj))
                copied.add(index)
                edit(obj)  # type: ignore[arg-type]
                objects[index] = Given(given.place, obj)
        # What is edited lives for this question only, so it may not stay there under its id.
        shared = (dict(self.checked), dict(self.decoded)) if copied else (self.checked, self.decoded)
        cluster = OfflineCluster(self.now_ms, *shared)
        loaded = cluster.load(objects)
        answers = decide(
            cluster,
            features=self.features,
            budget_steps=BUDGET_STEPS,
            config=self.config,
            asked={self.pod},
            reports_causes=reports_causes,
        )
        verdict = next((one for one in answers.verdicts if one.pod == self.pod), None)
        return Ruling(answers, loaded, verdict)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What became of the question; no verdict where the pod is not there."""

    answers: Answers
    loaded: Loaded
    verdict: Verdict | None

    @property
    def fits(self) -> bool:
        """Whether the pod gets its node and devices without anybody's help."""
        return self.verdict is not None and self.verdict.outcome is Outcome.FITS
