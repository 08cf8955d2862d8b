"""Why a node does not serve a pod's claims: how many devices each stage removed, per request.

Made from what an observer is told during one more call of `allocate`, so the numbers are those of the real
search. Texts are for people and carry no guarantee.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from allocator.model import Claim, DeviceId
from allocator.observer import Observer, Stage
from allocator.problem import Problem, gather_candidates
from allocator.requests import Slot
from allocator.selectors import Mismatch

_WORDS: Final[Mapping[Stage, str]] = {
    Stage.IN_USE: "in use",
    Stage.CLASS_SELECTOR: "not of the device class",
    Stage.REQUEST_SELECTOR: "not matched by the request's selectors",
    Stage.NODE: "for other nodes",
    Stage.CAPACITY: "without the requested capacity",
    Stage.COUNTERS: "without counters left in their pool",
    Stage.TAINT: "tainted and not tolerated",
    Stage.CONSTRAINT: "refused by a constraint of the claim",
    Stage.FEATURE: "need a feature that is off",
}


@dataclass(frozen=True, slots=True)
class RequestExplanation:
    """One request (or alternative of a request) on one node.

    Attributes:
        request: `req` or `req/sub`.
        wanted: Devices it needs; 0 means all that match.
        published: Devices the node can see.
        removed: Devices removed before anything was picked, by stage; every device counts once.
        refused: Devices refused while others were picked, by stage; a device may count in several.
        left: Candidates before anything was picked.
    """

    claim: str
    request: str
    wanted: int
    published: int
    removed: Mapping[Stage, int]
    refused: Mapping[Stage, int]
    left: int

    def __str__(self) -> str:
        wanted = f"{self.wanted} of" if self.wanted else "all of"
        parts = [f"{count} {_WORDS[stage]}" for stage, count in self.removed.items()]
        text = f"claim {self.claim}, request {self.request} wants {wanted} {self.published} devices"
        if parts:
            text += ": " + ", ".join(parts)
        if self.refused and self.left >= max(self.wanted, 1):
            more = ", ".join(f"{count} {_WORDS[stage]}" for stage, count in self.refused.items())
            return f"{text}; {self.left} left, of which together with other picks {more}"
        return f"{text}; {self.left} left"


@dataclass(frozen=True, slots=True)
class Explanation:
    """A node's answer in numbers. `pools_left_out` says which pools could not be used, and why."""

    node: str
    requests: tuple[RequestExplanation, ...]
    pools_left_out: tuple[str, ...]

    def __str__(self) -> str:
        """One line: the request that is shortest of devices, and pools that were left out."""
        if not self.requests:
            return f"node {self.node}: nothing is requested"
        worst = min(self.requests, key=lambda request: request.left - max(request.wanted, 1))
        text = f"node {self.node}: {worst}"
        if self.pools_left_out:
            text += f" (left out: {', '.join(self.pools_left_out)})"
        return text


class Census:
    """An observer that counts. Make one per call of `allocate`."""

    def __init__(self) -> None:
        self.removed: Final[dict[tuple[int, str], dict[Stage, set[DeviceId]]]] = {}
        self._is_searching = False
        self.refused: Final[dict[tuple[int, str], dict[Stage, set[DeviceId]]]] = {}

    def search_begins(self) -> None:
        """From here on refusals depend on what is picked."""
        self._is_searching = True

    def rejected(self, claim: int, request: str, device: DeviceId, stage: Stage) -> None:
        """Count the device once per stage."""
        counts = self.refused if self._is_searching else self.removed
        counts.setdefault((claim, request), {}).setdefault(stage, set()).add(device)

    def picked(self, claim: int, request: str, device: DeviceId) -> None:
        """Nothing to count."""

    def backtracked(self, claim: int, request: str, device: DeviceId) -> None:
        """Nothing to count."""


def summarize(problem: Problem, claims: Sequence[Claim], node: str, census: Census) -> Explanation:
    """The explanation from what a census saw."""
    requests = []
    for slot in problem.plan.slots:
        key = (slot.claim, slot.label)
        requests.append(
            RequestExplanation(
                claim=str(claims[slot.claim]),
                request=slot.label,
                wanted=0 if slot.is_all else slot.count,
                published=problem.pools.size,
                removed=_counts(census.removed.get(key, {})),
                refused=_counts(census.refused.get(key, {})),
                left=problem.usable[slot.index].bit_count(),
            )
        )
    left_out = tuple(
        f"pool {view.id} {'is incomplete' if view.is_incomplete else 'is invalid: ' + view.invalid_reason}"
        for view in problem.pools.pools
        if not view.is_usable
    )
    return Explanation(node, tuple(requests), left_out)


def _counts(devices: Mapping[Stage, set[DeviceId]]) -> Mapping[Stage, int]:
    return {stage: len(devices[stage]) for stage in Stage if stage in devices}


def report_candidates(problem: Problem, observer: Observer) -> None:
    """Tell the observer which devices are refused before anything is picked, and at which stage."""
    for slot in problem.plan.slots:
        listed = problem.listed.get(slot.index)
        for position in range(problem.pools.size):
            bit = 1 << position
            if problem.usable[slot.index] & bit and (listed is None or position in listed):
                continue
            if problem.doubtful[slot.index] & bit:
                continue
            device = problem.pools.device(position)
            observer.rejected(slot.claim, slot.label, device.id, _stage(problem, slot, position))


def _stage(problem: Problem, slot: Slot, position: int) -> Stage:
    """The first check that refuses the device."""
    mask, view, index = problem.mask_at(slot, position)
    device = view.devices[index]
    bit = 1 << index
    if not slot.is_admin and problem.in_use.is_dedicated(device.id):
        return Stage.IN_USE
    if not mask.selectable & bit:
        answer = slot.matcher.answer(device)
        if isinstance(answer, Mismatch):
            return Stage.CLASS_SELECTOR if answer.is_class else Stage.REQUEST_SELECTOR
        return Stage.FEATURE
    if problem.pools.elsewhere >> position & 1:
        return Stage.NODE
    if not mask.fits & bit or mask.usable & bit:
        # Usable in general, so what other allocations consume is in the way.
        return Stage.CAPACITY
    return Stage.FEATURE if device.consumes_counters and not problem.features.partitionable_devices else Stage.TAINT


def blame(problem: Problem) -> str:
    """One line on why nothing was found, from counts that are known anyway.

    How many devices match is not known where a selector fails on some: the others are looked at when they are reached.
    """
    undecided = None
    for request in problem.plan.requests:
        if any(gather_candidates(slot, problem.pools).failed for slot in request.slots):
            undecided = undecided or request
            continue
        best = None
        for slot in request.slots:
            need = max(problem.count(slot), 1)
            left = problem.usable[slot.index].bit_count()
            if left >= need:
                best = None
                break
            if best is None or need - left < best[0]:
                best = (need - left, need, left)
        if best is not None:
            claim = problem.claims[request.claim]
            return f"claim {claim}, request {request.name}: {best[1]} needed, {best[2]} free devices match"
    if undecided is not None:
        claim = problem.claims[undecided.claim]
        return f"claim {claim}, request {undecided.name}: cannot be decided on some devices, the others do not suffice"
    return "every request could be served alone, but not all together"
