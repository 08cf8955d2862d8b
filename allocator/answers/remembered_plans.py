"""Plans that are remembered, and which of them are forgotten when there is too much.

Rules of this module
  1. At most `_PLANS_MAX` plans are kept, and fewer when more than `ENTRIES_MAX` entries are kept for their slots. The
     plan that was used longest ago is dropped first.
  2. Before that, plans whose claims want nothing any more are dropped (`retire`), all but the last `_IDLE_MAX`: claims
     of the same template come again soon.
  3. Entries are forgotten slot by slot: one with each question, and as many as take little time when a plan is retired.
  4. A plan that pauses while its selectors are compiled is a draft. What it has made goes when its claims want nothing
     any more, and when there are more than `_DRAFTS_MAX`.

Cost: `get` of a known plan O(1).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeAlias

from allocator.requests.requests import Draft, Plan, Planner
from allocator.requests.slot_records import ENTRIES_MAX, SlotKey
from allocator.values.features import Features
from allocator.values.meter import PausedError
from allocator.values.model import ClaimSpec

_PLANS_MAX: Final = 1024
_IDLE_MAX: Final = 32
_UNUSED_MAX: Final = 64
"""Slots that no plan has any more, and for which entries are still kept."""
_IDLE_ENTRIES_MAX: Final = 20_000
"""What is kept for plans and slots that nobody wants: 6 MB."""
_DRAFTS_MAX: Final = 256
_FORGET_MAX: Final = 20_000
"""Places that are looked at to forget slots when a plan is retired: about a millisecond."""

PlanKey: TypeAlias = tuple[tuple[ClaimSpec, ...], Features]


class Plans:
    """The plans of one inventory, by the claims' specs, least recently used first."""

    def __init__(self, planner: Planner, forget_slot: Callable[[SlotKey], int]) -> None:
        """`forget_slot` drops what is remembered for a slot outside of the planner; how many places it looked at."""
        self._planner: Final = planner
        self._forget_slot: Final = forget_slot
        self._drafts: Final[OrderedDict[PlanKey, Draft]] = OrderedDict()
        self._plans: Final[OrderedDict[PlanKey, Plan]] = OrderedDict()
        self._keys_of: Final[dict[ClaimSpec, dict[PlanKey, None]]] = {}
        self._idle: Final[dict[PlanKey, None]] = {}
        self._unused: Final[dict[SlotKey, None]] = {}

    def __len__(self) -> int:
        return len(self._plans)

    @property
    def entries(self) -> int:
        """How much is remembered for slots (see `slot_records`)."""
        return self._planner.total.entries

    def get(self, key: PlanKey) -> Plan:
        """The plan. Raises PausedError as `Planner.plan`."""
        plan = self._plans.get(key)
        if plan is None:
            plan = self._make(key)
        else:
            self._plans.move_to_end(key)
            if self._idle:
                self._idle.pop(key, None)
        if self._planner.total.entries > ENTRIES_MAX or len(self._unused) > _UNUSED_MAX:
            self._forget_some()
        return plan

    def _make(self, key: PlanKey) -> Plan:
        specs, features = key
        draft = self._drafts.pop(key, None) or Draft()
        try:
            plan = self._planner.plan(specs, features, draft)
        except PausedError:
            self._drafts[key] = draft
            if len(self._drafts) > _DRAFTS_MAX:
                self._discard(next(iter(self._drafts)))
            raise
        self._plans[key] = plan
        for spec in specs:
            self._keys_of.setdefault(spec, {})[key] = None
        for record in plan.records:
            record.users += 1
            self._unused.pop(record.key, None)
        self._unused.update(dict.fromkeys(self._planner.discard(draft)))
        if len(self._plans) > _PLANS_MAX:
            self._drop(next(iter(self._plans)))
        return plan

    def _discard(self, key: PlanKey) -> None:
        self._unused.update(dict.fromkeys(self._planner.discard(self._drafts.pop(key))))

    def retire(self, spec: ClaimSpec) -> None:
        """No claim with this spec wants anything any more."""
        for key in [key for key in self._drafts if spec in key[0]]:
            self._discard(key)
        for key in self._keys_of.get(spec, ()):
            self._idle.pop(key, None)
            self._idle[key] = None
        while len(self._idle) > _IDLE_MAX:
            self._drop(next(iter(self._idle)))
        self._forget_idle()

    def _forget_idle(self) -> None:
        """Of what nobody wants, what is too much, as far as that takes little time."""
        entries = 0
        if self._planner.total.entries > _IDLE_ENTRIES_MAX:
            idle = {record.key for key in self._idle for record in self._plans[key].records}
            entries = sum(map(self._planner.entries_of, idle | self._unused.keys()))
        looked_at = 0
        while looked_at < _FORGET_MAX and (len(self._unused) > _UNUSED_MAX or entries > _IDLE_ENTRIES_MAX):
            if not self._unused:
                if len(self._idle) < 2:
                    return
                self._drop(next(iter(self._idle)))
                continue
            entries -= self._planner.entries_of(next(iter(self._unused)))
            looked_at += self._forget_unused()

    def drop_all(self) -> None:
        """A class changed. What is remembered for slots holds, for new plans that have the same."""
        for key in tuple(self._plans):
            self._drop(key)

    def _drop(self, key: PlanKey) -> None:
        plan = self._plans.pop(key)
        self._idle.pop(key, None)
        for spec in dict.fromkeys(key[0]):
            keys = self._keys_of[spec]
            del keys[key]
            if not keys:
                del self._keys_of[spec]
        for record in plan.records:
            record.users -= 1
            if not record.users:
                self._unused[record.key] = None

    def _forget_some(self) -> None:
        """One slot."""
        if not self._unused:
            if len(self._plans) < 2:
                return
            self._drop(next(iter(self._idle or self._plans)))
        if self._unused:
            self._forget_unused()

    def _forget_unused(self) -> int:
        key = next(iter(self._unused))
        del self._unused[key]
        if self._planner.is_used(key):  # by a draft, which says so when it is given up
            return 0
        looked_at = self._forget_slot(key)
        self._planner.forget_slots(key)
        return looked_at
