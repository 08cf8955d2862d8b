"""The slices as published, the rules that taint their devices, and the inventory that holds the result.

Rules of this module
  1. The inventory's slices are always `with_rule_taints(published, rules)`, whatever came first.
  2. A change of one rule puts exactly those slices anew whose devices it taints differently. All other slices stay the
     same objects, with everything that was computed from them.

Not here: revisions and which nodes are touched (`store`), what a rule matches (`model.device_taint_rules`).

Cost: a slice O(rules that name its pool or no pool); a rule O(slices of its pool, or all when it names none).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from allocator import Inventory, PoolId, ResourceSlice
from scheduler.model.device_taint_rules import DeviceTaintRule, with_rule_taints


class Put(NamedTuple):
    """One slice that was put anew: before, after, and the nodes it concerns (None: any)."""

    old: ResourceSlice
    new: ResourceSlice
    nodes: frozenset[str] | None


class TaintedSlices:
    """Keeps an inventory's slices tainted as the rules say. Nobody else puts or removes slices there."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory: Final = inventory
        self._published: Final[dict[str, ResourceSlice]] = {}  # only of slices that some rule taints
        self._rules: Final[dict[str, DeviceTaintRule]] = {}

    @property
    def rules(self) -> Mapping[str, DeviceTaintRule]:
        """Rules by name."""
        return self._rules

    def published(self, name: str) -> ResourceSlice:
        """The slice without the taints of rules; KeyError when there is none."""
        return self._published.get(name) or self._inventory.slices[name]

    def put_slice(self, published: ResourceSlice) -> frozenset[str] | None:
        """What `Inventory.put_slice` does."""
        return self._put(published, with_rule_taints(published, self._rules.values()))

    def remove_slice(self, name: str) -> frozenset[str] | None:
        """What `Inventory.remove_slice` does."""
        self._published.pop(name, None)
        return self._inventory.remove_slice(name)

    def put_rule(self, rule: DeviceTaintRule) -> list[Put]:
        """Add a rule, or replace the one of the same name; returns the slices that this changed, in order of names."""
        old = self._rules.get(rule.name)
        self._rules[rule.name] = rule
        return self._apply((rule,) if old is None else (old, rule))

    def remove_rule(self, name: str) -> list[Put]:
        """Remove a rule, if it is there; returns what `put_rule` does."""
        old = self._rules.pop(name, None)
        return self._apply((old,)) if old is not None else []

    def _put(self, published: ResourceSlice, tainted: ResourceSlice) -> frozenset[str] | None:
        if tainted is published:
            self._published.pop(published.name, None)
        else:
            self._published[published.name] = published
        return self._inventory.put_slice(tainted)

    def _apply(self, changed: Iterable[DeviceTaintRule]) -> list[Put]:
        names = {name for rule in changed for name in self._names_of(rule)}
        puts = []
        for name in sorted(names):
            published, old = self.published(name), self._inventory.slices[name]
            new = with_rule_taints(published, self._rules.values())
            if any(one.taints != other.taints for one, other in zip(old.devices, new.devices, strict=True)):
                puts.append(Put(old, new, self._put(published, new)))
        return puts

    def _names_of(self, rule: DeviceTaintRule) -> Iterable[str]:
        """Slices that may hold devices which the rule selects."""
        selector = rule.selector
        if selector is None:
            return ()
        if selector.driver is not None and selector.pool is not None:
            return tuple(self._inventory.slices_of_pool(PoolId(selector.driver, selector.pool)))
        return tuple(
            name
            for name, published in self._inventory.slices.items()
            if selector.driver in (None, published.driver) and selector.pool in (None, published.pool)
        )
