"""The funnel of a request on a node: from the devices that are published to those that it could be given.

Counted with the masks of the search, so it cannot disagree with it: before the constraints are asked, what is left are
the devices that a search could pick first. A device counts at the first stage that refuses it.

Not here: what a constraint leaves (`constraint_room`), requests that are in each other's way (`together`).

Cost: O(devices) for each kind of slot, with a look-up in the answers of its selectors for those that they refuse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from allocator.pools.node_pools import NodePools
from allocator.requests.requests import Slot
from allocator.requests.selectors import Mismatch
from allocator.search.picked import Picked
from allocator.search.problem import Problem
from allocator.search.stages import Stage
from allocator.values.masks import positions_of
from allocator.values.model import Device


class Step(Struct, frozen=True):
    """What one stage takes away, and what is left behind it: masks of positions in the node's row of devices."""

    stage: Stage
    removed: int
    left: int


class Funnel(Struct, frozen=True):
    """One request (or alternative of a request) on one node.

    Attributes:
        claim: The claim's name with its namespace.
        slot: What is asked for; `slot.label` is `req` or `req/sub`.
        needed: How many devices it must be given; at least 1.
        pools: The node's row of devices.
        steps: All stages, in order.
    """

    claim: str
    slot: Slot
    needed: int
    pools: NodePools
    steps: tuple[Step, ...]

    @property
    def request(self) -> str:
        return self.slot.label

    @property
    def wanted(self) -> int:
        """Devices it asks for; 0 means all that match."""
        return 0 if self.slot.is_all else self.slot.count

    @property
    def published(self) -> int:
        """Devices the node can see."""
        return self.pools.size

    @property
    def removed(self) -> Mapping[Stage, int]:
        """How many devices each stage removed; every device counts once."""
        return {step.stage: step.removed.bit_count() for step in self.steps if step.removed}

    @property
    def left(self) -> int:
        """How many devices it could be given, as far as each is asked about by itself."""
        return self.steps[-1].left.bit_count()

    @property
    def lacks(self) -> int:
        return max(0, self.needed - self.left)

    @property
    def end(self) -> Step | None:
        """The step after which too few are left; where too few are published, the last that took any of them for good.

        None where enough is left, and where nothing was taken, as too little is published.
        """
        if not self.lacks:
            return None
        is_lasting = self.step(Stage.UNREAD).left.bit_count() < self.needed
        if not is_lasting:
            return next(step for step in self.steps if step.left.bit_count() < self.needed)
        return next((step for step in reversed(self.steps) if step.removed and step.stage.is_lasting), None)

    @property
    def besides(self) -> Sequence[Step]:
        """Steps after the end without which too few are left as well, whatever else is lifted."""
        if (end := self.end) is None or end.stage.is_lasting:
            return ()
        lasting = self.step(Stage.UNREAD).left.bit_count()
        later = self.steps[end.stage.depth + 1 :]
        return [step for step in later if lasting - step.removed.bit_count() < self.needed]

    def step(self, stage: Stage) -> Step:
        return self.steps[stage.depth]

    def before(self, stage: Stage) -> int:
        """Mask of the devices that come to a stage."""
        step = self.step(stage)
        return step.left | step.removed

    def devices(self, mask: int) -> Iterator[Device]:
        """The devices of a mask, in order."""
        return map(self.pools.device, positions_of(mask))

    def __str__(self) -> str:
        wanted = f"{self.wanted} of" if self.wanted else "all of"
        parts = ", ".join(f"{count} {stage}" for stage, count in self.removed.items())
        text = f"claim {self.claim}, request {self.request} wants {wanted} {self.published} devices"
        return f"{text}{': ' if parts else ''}{parts}; {self.left} left"

    def document(self) -> dict[str, Any]:
        """For programs; a stage by the name of its constant, in lower case with hyphens."""
        return {
            "claim": self.claim,
            "request": self.request,
            "wanted": self.wanted,
            "needed": self.needed,
            "published": self.published,
            "steps": [
                {
                    "stage": step.stage.name.lower().replace("_", "-"),
                    "removed": step.removed.bit_count(),
                    "left": step.left.bit_count(),
                }
                for step in self.steps
            ],
        }


def count_funnels(problem: Problem, room: Mapping[int, int]) -> tuple[Funnel, ...]:
    """The funnel of each slot.

    Args:
        room: By slot index: of the devices that a search could pick first, those that its constraints leave.
    """
    known: dict[tuple[int, bool, bool], Sequence[tuple[Stage, int]]] = {}
    funnels = []
    for slot in problem.plan.slots:
        kind = slot.key, slot.is_admin, slot.is_all
        if kind not in known:
            known[kind] = list(_removed(problem, slot))
        masks: dict[Stage, int] = {}
        for stage, mask in known[kind]:
            masks[stage] = masks.get(stage, 0) | mask
        left, steps = (1 << problem.pools.size) - 1, []
        for stage in Stage:
            removed = left & ~room[slot.index] if stage is Stage.CONSTRAINT else masks.get(stage, 0)
            left &= ~removed
            steps.append(Step(stage, removed, left))
        claim, needed = str(problem.claims[slot.claim]), max(problem.count(slot), 1)
        funnels.append(Funnel(claim, slot, needed, problem.pools, tuple(steps)))
    return tuple(funnels)


def _removed(problem: Problem, slot: Slot) -> Iterator[tuple[Stage, int]]:
    """Masks of devices that are refused before constraints are asked, by stage; no device twice."""
    pools, candidates = problem.pools, problem.pools.candidates_for(slot)
    undecided = problem.doubtful[slot.index]
    unclear = candidates.failed | candidates.unknown
    yield Stage.UNDECIDED, undecided
    # Those in use whose selectors fail are never asked about, so that they are in use is all that matters.
    yield Stage.IN_USE, unclear & ~undecided
    for view, start in pools.usable:
        mask = view.mask_for(slot)
        here = (1 << len(view.devices)) - 1
        clear = here & ~(unclear >> start)
        for index in positions_of(clear & ~mask.selectable):
            answer, stage = slot.matcher.answer(view.devices[index]), Stage.FEATURE
            if isinstance(answer, Mismatch):
                stage = Stage.CLASS_SELECTOR if answer.is_class else Stage.REQUEST_SELECTOR
            yield stage, 1 << (start + index)
        elsewhere = clear & mask.selectable & pools.elsewhere >> start
        yield Stage.NODE, elsewhere << start
        here = clear & mask.selectable & ~elsewhere
        yield Stage.SIZE, (here & ~mask.fits) << start
        yield Stage.OPERATIONS, (here & mask.fits & mask.usable & pools.inoperable >> start) << start
        for index in positions_of(here & mask.fits & ~mask.usable):
            device = view.devices[index]
            stage = Stage.UNREAD if device.unread else Stage.TAINT
            if device.consumes_counters and not problem.features.partitionable_devices:
                stage = Stage.FEATURE
            yield stage, 1 << (start + index)
    in_use = 0 if slot.is_admin else candidates.usable & pools.use_of(problem.in_use).dedicated
    yield Stage.IN_USE, in_use
    yield Stage.CAPACITY, candidates.usable & ~in_use & ~problem.usable[slot.index] & ~undecided
    yield from _unpickable(problem, slot)


def _unpickable(problem: Problem, slot: Slot) -> Iterator[tuple[Stage, int]]:
    """Of the devices that can be picked those whose counters or capacity do not suffice, though nothing is picked."""
    picked = Picked(problem)
    for position in positions_of(problem.usable[slot.index] & picked.special):
        before = picked.before(slot)
        refusal = picked.charge(slot, position)
        picked.restore(slot, before, 0)
        if refusal is not None:
            yield refusal, 1 << position


def pickable(problem: Problem, slot: Slot) -> int:
    """Mask of the devices that a search could pick first."""
    mask = problem.usable[slot.index]
    for _, removed in _unpickable(problem, slot):
        mask &= ~removed
    return mask
