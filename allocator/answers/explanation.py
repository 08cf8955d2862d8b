"""Why a node does not serve a pod's claims: the funnel of each request, and what is in the way behind the funnels.

Everything is counted with the masks of the search. Texts are for people and carry no guarantee.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from allocator.answers.constraint_room import ConstraintRoom, Unmet
from allocator.answers.funnel import Funnel, count_funnels, pickable
from allocator.answers.question import AllocationRequest
from allocator.answers.together import Conflict, conflict
from allocator.requests.capacity import Consumption
from allocator.requests.requests import Slot
from allocator.search.problem import Problem
from allocator.search.stages import Stage
from allocator.values.masks import positions_of


class Explanation(Struct, frozen=True):
    """A node's answer in numbers.

    Attributes:
        requests: A funnel for each request, or each alternative of a request.
        unmet: Constraints that cannot be satisfied.
        together: What requests are short of together that have enough each by itself; None where it is not known.
        pools_left_out: Which pools could not be used, and why.
        problem: The question, for a closer look.
    """

    node: str
    requests: tuple[Funnel, ...]
    unmet: tuple[Unmet, ...]
    together: Conflict | None
    pools_left_out: tuple[str, ...]
    problem: Problem

    def by_request(self) -> list[list[Funnel]]:
        """The funnels of the alternatives of each request, in order."""
        funnels = iter(self.requests)
        return [[next(funnels) for _ in request.slots] for request in self.problem.plan.requests]

    @property
    def failure(self) -> str:
        """How an expression fails for a device that could be asked for, "" where none does: upstream's text."""
        return next(filter(None, map(self.failure_of, self.requests)), "")

    def failure_of(self, row: Funnel) -> str:
        """The same of one request."""
        failing = self.problem.pools.candidates_for(row.slot).failed | self.problem.incomparable(row.slot)
        failed = row.step(Stage.UNDECIDED).removed & failing
        return str(self.problem.failure(row.slot, next(positions_of(failed)))) if failed else ""

    def consumption(self, slot: Slot, position: int) -> Consumption:
        """What a share for the slot consumes of a device that fits it."""
        return self.problem.consumption(slot, position)

    def __str__(self) -> str:
        """One line: the request that is shortest of devices, and pools that were left out."""
        if not self.requests:
            return f"node {self.node}: nothing is requested"
        worst = min(self.requests, key=lambda request: request.left - request.needed)
        text = f"node {self.node}: {worst}"
        if self.pools_left_out:
            text += f" (left out: {', '.join(self.pools_left_out)})"
        return text

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "node": self.node,
            "requests": [request.document() for request in self.requests],
            "poolsLeftOut": list(self.pools_left_out),
        }


def explain(question: AllocationRequest) -> Explanation:
    """Count, per request, what each stage leaves of a node's devices.

    Worth it after `allocate` found nothing. Slower than `allocate`: devices are looked at one by one.

    Raises:
        AllocationError: as `allocate`.
        PausedError: as `allocate`.
    """
    inventory, features = question.inventory, question.features
    plan = inventory.plan([claim.spec for claim in question.claims], features)
    problem = Problem(question.claims, plan, inventory.node_pools(question.node, features), question.in_use)
    constraints = ConstraintRoom(problem, [pickable(problem, slot) for slot in plan.slots])
    room = constraints.room
    is_enough = not constraints.unmet and all(
        any(room[slot.index].bit_count() >= max(1, problem.count(slot)) for slot in request.slots)
        for request in plan.requests
    )
    left_out = tuple(
        f"pool {view.id} {'is incomplete' if view.is_incomplete else 'is invalid: ' + view.invalid_reason}"
        for view in problem.pools.pools
        if not view.is_usable
    )
    return Explanation(
        question.node.name,
        count_funnels(problem, dict(enumerate(room))),
        constraints.unmet,
        conflict(problem, room) if is_enough else None,
        left_out,
        problem,
    )
