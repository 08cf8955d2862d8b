"""Plans that are remembered, and what goes with one that is forgotten.

Rules of this module
  1. A plan weighs what is kept for its slots, wherever that is. What several plans share is divided among them.
  2. With the last plan that has a slot goes what is kept for it.
  3. A plan that pauses while its selectors are compiled is a draft. It also goes when its claims want nothing any more.

Not here: which plan is forgotten, and when (`allocator.values.remembered`).

Cost: `get` of a known plan O(classes that it names); forgetting a slot O(pools + nodes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from allocator.requests.requests import Draft, Plan, Planner
from allocator.requests.slot_records import SlotKey
from allocator.values.features import Features
from allocator.values.meter import PausedError
from allocator.values.model import ClaimSpec
from allocator.values.remembered import Cache, MemoryLedger

_DRAFT_BYTES: Final = 30_000
"""Of each selector that is compiled, or half compiled."""

PlanKey: TypeAlias = tuple[tuple[ClaimSpec, ...], Features]


class Plans:
    """The plans of one inventory, by the claims' specs."""

    def __init__(self, planner: Planner, forget_slot: Callable[[SlotKey], None], ledger: MemoryLedger) -> None:
        """`forget_slot` drops what is remembered for a slot outside of the planner."""
        self._planner: Final = planner
        self._forget_slot: Final = forget_slot
        self._drafts: Final[Cache[PlanKey, Draft]] = Cache(ledger, "drafts of plans", _draft_size, self._discarded)
        # Without it a pod takes 30 to 40 % longer (benchmarks.deciding --workload device, selector).
        self._plans: Final[Cache[PlanKey, Plan]] = Cache(ledger, "devices", planner.size, self._forgotten)

    def __len__(self) -> int:
        return len(self._plans)

    def get(self, key: PlanKey) -> Plan:
        """The plan. Raises PausedError as `Planner.plan`."""
        plan = self._plans.get(key)
        if plan is None or not self._planner.is_current(plan):
            # Before the last one goes: what devices answered to its slots may hold.
            plan = self._plans.put(key, self._make(key))
        return plan

    def _make(self, key: PlanKey) -> Plan:
        specs, features = key
        draft = self._drafts.get(key) or Draft()
        try:
            plan = self._planner.plan(specs, features, draft)
        except PausedError:
            if key not in self._drafts:
                self._drafts.put(key, draft)
            raise
        for record in plan.records:
            record.users += 1
        if self._drafts.forget(key) is None:
            self._discarded(draft)
        return plan

    def retire(self, spec: ClaimSpec) -> None:
        """No claim with this spec wants anything any more."""
        for key in [key for key in self._drafts if spec in key[0]]:
            self._drafts.forget(key)

    def _discarded(self, draft: Draft) -> None:
        self._forget_slots(self._planner.discard(draft))

    def _forgotten(self, plan: Plan) -> None:
        for record in plan.records:
            record.users -= 1
        self._forget_slots(record.key for record in plan.records if not record.users)

    def _forget_slots(self, keys: Iterable[SlotKey]) -> None:
        for key in keys:
            self._forget_slot(key)
            self._planner.forget_slots(key)


def _draft_size(draft: Draft) -> int:
    return _DRAFT_BYTES * (1 + len(draft.answering))
