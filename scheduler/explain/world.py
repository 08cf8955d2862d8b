"""Objects and one pod of them: what the scheduler says about it, why, and what it says once a change is made.

Rules of this module
  1. Each cluster is loaded once and asked once. The pods of the pod's owner that wait, too, are tried beside it; other
     pods that wait are not there.
  2. Objects that were given are never changed; an edit is made to a copy.

Not here: what plugins propose, asked as if it were made (`core.reports.cause_search`); which edits are worth asking
about (`object_edits`), in which order (`fix_search`).

Cost: O(objects) for each question.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from msgspec import structs

from allocator import Features
from scheduler.config.settings import Config
from scheduler.embedded.loading import Restorable
from scheduler.framework.diagnosis import COMMAND
from scheduler.model.keys import PodUid
from scheduler.offline import Answers, Loaded, OfflineCluster, PodResult, SourceObject, Verdict, decide
from scheduler.offline.offline_cluster import Decoded
from scheduler.offline.reasons import awaited_by
from scheduler.offline.siblings import siblings_of
from scheduler.offline.verdicts import BUDGET_STEPS, TURNS_MAX
from scheduler.why.reasons import Diagnosis

Obj: TypeAlias = dict[str, Any]
Edits: TypeAlias = Sequence[tuple[int, Callable[[Obj], None]]]
"""Indexes of objects, and what is done to each."""

_TURNS_BESIDE: Final = 2_000
"""Of the scheduler, for a pod and its siblings; if the pod was not tried by then, it is asked about alone."""
_EXPLAINED: Final = (PodResult.UNSCHEDULABLE, PodResult.ERROR, PodResult.GATED)


@dataclass(frozen=True, slots=True)
class World:
    """Objects as they were given, and the pod that is asked about."""

    objects: Sequence[SourceObject]
    pod: tuple[str, str]
    now_ms: int
    features: Features
    config: Config | None = None
    """The scheduler's; None: the default."""
    checked: dict[int, Restorable] = field(default_factory=dict, repr=False, compare=False)
    """Objects that one question has checked, for the others."""
    decoded: Decoded = field(default_factory=dict, repr=False, compare=False)
    """What one question has decoded, for the others."""

    def ask(self, edits: Edits = (), *, is_alone: bool = False) -> Ruling:
        """What the scheduler says about the pod once these edits are made."""
        objects = list(self.objects)
        copied: set[int] = set()
        for index, edit in edits:
            given = objects[index]
            obj = given.obj if index in copied else copy.deepcopy(dict(given.obj))
            copied.add(index)
            edit(obj)  # type: ignore[arg-type]
            objects[index] = SourceObject(given.place, obj)
        # What is edited lives for this question only, so it may not stay there under its id.
        shared = (dict(self.checked), dict(self.decoded)) if copied else (self.checked, self.decoded)
        cluster = OfflineCluster(self.now_ms, *shared)
        loaded = cluster.load(objects)
        siblings = [] if is_alone else siblings_of(self.pod, cluster.pods())
        answers = decide(
            cluster,
            features=self.features,
            budget_steps=BUDGET_STEPS,
            config=self.config,
            asked={self.pod, *siblings},
            turns_max=_TURNS_BESIDE if siblings else TURNS_MAX,
        )
        verdict = next((one for one in answers.verdicts if one.pod == self.pod), None)
        if siblings and verdict is not None and verdict.outcome is PodResult.UNKNOWN:
            return self.ask(edits, is_alone=True)
        fit = sum(one.outcome is PodResult.FITS and one.pod != self.pod for one in answers.verdicts)
        return Ruling(answers, loaded, verdict, len(siblings), fit)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What became of the question; no verdict where the pod is not there.

    Attributes:
        siblings, fit: How many pods of its owner were tried beside it, and how many of them have a place.
    """

    answers: Answers
    loaded: Loaded
    verdict: Verdict | None
    siblings: int = 0
    fit: int = 0

    @property
    def fits(self) -> bool:
        """Whether the pod gets its node and devices without anybody's help."""
        return self.verdict is not None and self.verdict.outcome is PodResult.FITS

    @property
    def turns(self) -> int:
        """How many turns of the scheduler this question has taken so far."""
        assert self.answers.run is not None
        return (_TURNS_BESIDE if self.siblings else TURNS_MAX) - self.answers.run.turns_left

    def why(self, steps_max: int) -> tuple[Diagnosis | None, int]:
        """What the plugins say, and which changes would help, within so many steps; and how many it took.

        None where they cannot say.
        """
        if self.verdict is None:
            return None, 0
        machine, uid = self.answers.machine, PodUid(self.verdict.uid)
        if self.verdict.outcome is PodResult.WAITS:
            return awaited_by(uid, machine), 0
        if self.verdict.outcome not in _EXPLAINED:
            return None, 0
        limits = structs.replace(COMMAND, all_steps=steps_max)
        return machine.causes.why(uid, limits)
