"""Objects and one pod of them: what the scheduler says about it, why, and what it says once a change is made.

Rules of this module
  1. Each cluster is loaded once and asked once; what plugins propose is then carried out on it, which ends its use.
  2. Objects that were given are never changed; an edit is made to a copy.

Not here: which changes are worth asking about (the plugins, `object_edits`), in which order (`fix_search`).

Cost: O(objects) for each question; O(changed objects) for carrying out what plugins propose.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from msgspec import structs

from allocator import DeviceClass, Features, ResourceSlice
from scheduler.config.settings import Config
from scheduler.embedded.loading import Restorable
from scheduler.framework.diagnosis import COMMAND
from scheduler.model.claim import ResourceClaim
from scheduler.model.objects import Node, Pod
from scheduler.offline import Answers, Loaded, OfflineCluster, PodResult, SourceObject, Verdict, decide
from scheduler.offline.offline_cluster import Decoded
from scheduler.offline.verdicts import BUDGET_STEPS, TURNS_MAX
from scheduler.why.reasons import Diagnosis, Fix

Obj: TypeAlias = dict[str, Any]
Edits: TypeAlias = Sequence[tuple[int, Callable[[Obj], None]]]
"""Indexes of objects, and what is done to each."""

_Shown: TypeAlias = Node | Pod | ResourceClaim | ResourceSlice | DeviceClass

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

    def ask(self, edits: Edits = ()) -> Ruling:
        """What the scheduler says about the pod once these edits are made; it alone waits."""
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
        answers = decide(
            cluster, features=self.features, budget_steps=BUDGET_STEPS, config=self.config, asked={self.pod}
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
        return self.verdict is not None and self.verdict.outcome is PodResult.FITS

    @property
    def turns(self) -> int:
        """How many turns of the scheduler this question has taken so far."""
        assert self.answers.run is not None
        return TURNS_MAX - self.answers.run.turns_left

    def why(self, steps_max: int) -> tuple[Diagnosis | None, int]:
        """What the plugins say, and which changes would help, within so many steps; and how many it took.

        None where they cannot say.
        """
        if self.verdict is None or self.verdict.outcome not in _EXPLAINED:
            return None, 0
        limits = structs.replace(COMMAND, all_steps=steps_max)
        return self.answers.machine.causes.why(self.verdict.uid, limits)  # type: ignore[arg-type]

    def fits_with(self, changes: Iterable[Fix]) -> bool:
        """Whether the scheduler, shown the objects as these changes leave them, places the pod; asked once only.

        That it decides so is enough: the API server does not know the objects that the scheduler has seen.
        """
        assert self.verdict is not None
        run = self.answers.run
        assert run is not None
        for change in changes:
            for kind, obj in _changed(change, self.answers):
                run.show(kind, obj)
        return run.places(self.verdict.uid)


def _changed(change: Fix, answers: Answers) -> Iterator[tuple[str, _Shown]]:
    """The objects that a change leaves otherwise; the pod last, so that it is not tried before all is as it will be."""
    store, view = answers.machine.store, answers.machine.ground.view
    claims: dict[Any, ResourceClaim] = {one.key: one for one in change.claims}
    for held in change.released:
        claim = claims.get(held.claim) or view.claim(held.claim)
        if claim is not None:
            claims[held.claim] = replace(claim, allocation=None, reserved_for=())
    for uid in change.removed:
        pod = store.pods[uid]
        yield "Pod", structs.replace(pod, status=structs.replace(pod.status, phase="Succeeded"))
    if change.node is not None:
        yield "Node", change.node
    yield from (("ResourceSlice", one) for one in change.slices)
    yield from (("DeviceClass", one) for one in change.classes)
    yield from (("ResourceClaim", one) for one in claims.values())
    if change.pod is not None:
        yield "Pod", change.pod
