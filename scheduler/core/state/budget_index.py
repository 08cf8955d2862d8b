"""PodDisruptionBudgets as observed, by namespace: preemption reads them.

Rules of this module
  1. Where the kind is not served there are none. Where they are not ours to read, nobody knows which pods they guard
     (`is_readable`).

Cost: an observation O(1), a question O(budgets of the namespace).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler.core.ground.indexes import drop
from scheduler.core.ground.newest_objects import NewestObjects
from scheduler.model.disruption_budget import DisruptionBudget
from scheduler.model.keys import ObjectKey


class DisruptionBudgets(NewestObjects[ObjectKey, DisruptionBudget]):
    """All of them. `changes` also counts how often they became readable, or ceased to be."""

    def __init__(self) -> None:
        super().__init__(may_return=True)
        self._by_namespace: Final[dict[str, dict[str, DisruptionBudget]]] = {}
        self.is_readable = True

    def tell_readable(self, is_readable: bool) -> bool:
        """Whether that is another answer than before."""
        if is_readable == self.is_readable:
            return False
        self.is_readable = is_readable
        self.changes += 1
        return True

    def of(self, namespace: str) -> Sequence[DisruptionBudget]:
        """The budgets of a namespace, by name."""
        budgets = self._by_namespace.get(namespace)
        return [budgets[name] for name in sorted(budgets)] if budgets else ()

    def _replaced(self, old: DisruptionBudget | None, new: DisruptionBudget | None) -> None:
        if new is not None:
            self._by_namespace.setdefault(new.key.namespace, {})[new.key.name] = new
        elif old is not None:
            drop(self._by_namespace, old.key.namespace, old.key.name)
