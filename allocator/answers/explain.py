"""Why a node does not serve a pod's claims: how many devices each stage removed, per request.

Counted during one more search, so the numbers are those of the real one. Texts are for people and carry no guarantee.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from allocator.requests.requests import Slot
from allocator.requests.selectors import Mismatch
from allocator.search.census import Census, Stage
from allocator.search.problem import Problem
from allocator.values.masks import mask_of, positions_of


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
        parts = [f"{count} {stage}" for stage, count in self.removed.items()]
        text = f"claim {self.claim}, request {self.request} wants {wanted} {self.published} devices"
        if parts:
            text += ": " + ", ".join(parts)
        if self.refused and self.left >= max(self.wanted, 1):
            more = ", ".join(f"{count} {stage}" for stage, count in self.refused.items())
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


def summarize(problem: Problem, node: str, removed: Census, refused: Census) -> Explanation:
    """The explanation from what was refused before anything was picked, and while others were."""
    requests = tuple(
        RequestExplanation(
            claim=str(problem.claims[slot.claim]),
            request=slot.label,
            wanted=0 if slot.is_all else slot.count,
            published=problem.pools.size,
            removed=removed.counts(slot),
            refused=refused.counts(slot),
            left=problem.usable[slot.index].bit_count(),
        )
        for slot in problem.plan.slots
    )
    left_out = tuple(
        f"pool {view.id} {'is incomplete' if view.is_incomplete else 'is invalid: ' + view.invalid_reason}"
        for view in problem.pools.pools
        if not view.is_usable
    )
    return Explanation(node, requests, left_out)


def count_removed(problem: Problem) -> Census:
    """The devices that are refused before anything is picked, each at the first check that refuses it."""
    removed = Census()
    for slot in problem.plan.slots:
        left = problem.usable[slot.index]
        if slot.index in problem.listed:
            left &= mask_of(problem.listed[slot.index])
        for position in positions_of(((1 << problem.pools.size) - 1) & ~left & ~problem.doubtful[slot.index]):
            removed.refuse(slot, 1 << position, _stage(problem, slot, position))
    return removed


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
