"""PodDisruptionBudgets as observed, by namespace: preemption reads them.

Rules of this module
  1. The newest revision wins (`versions`); where the kind is not served there are none.
  2. Where they are not ours to read, nobody knows which pods they guard (`is_readable`).

Cost: an observation O(1), a question O(budgets of the namespace).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler.core.ground.versions import Versions
from scheduler.model.disruption_budget import DisruptionBudget
from scheduler.model.keys import ObjectKey


class DisruptionBudgets:
    """All of them."""

    def __init__(self) -> None:
        self._versions: Final[Versions[ObjectKey]] = Versions(may_return=True)
        self._by_namespace: Final[dict[str, dict[str, DisruptionBudget]]] = {}
        self.changes = 0
        """How often any has changed, or whether they can be read."""
        self.is_readable = True

    def tell_readable(self, is_readable: bool) -> bool:
        """Whether that is another answer than before."""
        if is_readable == self.is_readable:
            return False
        self.is_readable = is_readable
        self.changes += 1
        return True

    def observe(self, new: DisruptionBudget, revision: int) -> None:
        if self._versions.observe(new.key, revision):
            self.changes += 1
            self._by_namespace.setdefault(new.key.namespace, {})[new.key.name] = new

    def delete(self, key: ObjectKey, revision: int) -> None:
        if self._versions.delete(key, revision):
            self.changes += 1
            budgets = self._by_namespace[key.namespace]
            del budgets[key.name]
            if not budgets:
                del self._by_namespace[key.namespace]

    def of(self, namespace: str) -> Sequence[DisruptionBudget]:
        """The budgets of a namespace, by name."""
        budgets = self._by_namespace.get(namespace)
        return [budgets[name] for name in sorted(budgets)] if budgets else ()
