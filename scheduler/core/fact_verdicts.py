"""What the plugins that filter by facts say in one cycle, each asked once for each distinct fact.

Cost: O(distinct facts) a cycle, however many nodes there are.
"""

from __future__ import annotations

from collections.abc import Hashable, ItemsView, Iterator, Mapping
from typing import Final

from scheduler.core.shape_record import Group, ShapeRecord
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.plan import Facts, Plan
from scheduler.framework.runner import Runner
from scheduler.framework.status import SUCCESS, Code, Status
from scheduler.model.keys import NodeName


class PluginFailedError(Exception):
    """A plugin gave an ERROR status: nothing is known."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status: Final = status


class FactVerdicts:
    """The verdicts of one cycle on facts."""

    def __init__(self, runner: Runner, cycle: Cycle, plan: Plan, view: ClusterView) -> None:
        self._runner: Final = runner
        self._cycle: Final = cycle
        self._view: Final = view
        self._filters: Final = plan.fact_filters
        self._known: Final[dict[Facts, Status]] = {}
        self._by_fact: Final[list[dict[Hashable, Status]]] = [{} for _ in plan.fact_filters]

    def of(self, facts: Facts) -> Status:
        """The first verdict against nodes of these facts, or SUCCESS; an ERROR when the plugin fails."""
        if not self._filters:
            return SUCCESS
        status = self._known.get(facts)
        if status is None:
            status = self._known[facts] = self._ask(facts)
        return status

    def _ask(self, facts: Facts) -> Status:
        for known, (place, plugin) in zip(self._by_fact, self._filters, strict=True):
            fact = facts[place]
            status = known.get(fact)
            if status is None:
                status = known[fact] = self._runner.filter_fact(plugin, self._cycle, fact, self._view)
            if status is not SUCCESS:
                return status
        return SUCCESS

    def passing(self, record: ShapeRecord) -> list[Group]:
        """Groups of nodes that fit. Raises PluginFailedError."""
        if not self._filters:
            return list(record.groups.values())
        found = []
        for facts, group in record.groups.items():
            status = self.of(facts)
            if status is not SUCCESS:
                if status.code is Code.ERROR:
                    raise PluginFailedError(status)
            elif group.fits:
                found.append(group)
        return found

    def reopened(self, record: ShapeRecord) -> list[Group]:
        """Groups whose facts pass, with nodes that were set aside when they did not."""
        if not self._filters:
            return []
        return [group for facts, group in record.groups.items() if group.aside and self.of(facts) is SUCCESS]


class NodeVerdicts(Mapping[NodeName, Status]):
    """Why each node does not fit, while none does: nothing is copied, so it holds for this cycle only."""

    def __init__(self, record: ShapeRecord, verdicts: FactVerdicts) -> None:
        self._record: Final = record
        self._verdicts: Final = verdicts

    def __len__(self) -> int:
        return self._record.size

    def __iter__(self) -> Iterator[NodeName]:
        yield from self._record.rejected.statuses
        for group in self._record.groups.values():
            yield from group.names()

    def items(self) -> ItemsView[NodeName, Status]:
        return _NodesAndVerdicts(self)

    def each(self) -> Iterator[tuple[NodeName, Status]]:
        """All nodes and verdicts, without a look-up for each."""
        yield from self._record.rejected.statuses.items()
        for facts, group in self._record.groups.items():
            status = self._verdicts.of(facts)
            if status is SUCCESS:
                yield from group.rejected.statuses.items()
            else:
                for name in group.names():
                    yield name, status

    def __getitem__(self, name: NodeName) -> Status:
        status = self._record.rejected.statuses.get(name)
        if status is not None:
            return status
        fit = self._record.fits.get(name)
        facts = fit.facts if fit is not None else self._record.behind[name]
        status = self._verdicts.of(facts)
        return status if status is not SUCCESS else self._record.groups[facts].rejected.statuses[name]

    def reasons(self) -> dict[str, int]:
        """How many nodes gave each reason, of those that do not fit."""
        counts = dict(self._record.rejected.reasons)
        for status, number in self._by_facts():
            for reason in status.reasons:
                counts[reason] = counts.get(reason, 0) + number
        for group in self._judged_by_nodes():
            for reason, number in group.rejected.reasons.items():
                counts[reason] = counts.get(reason, 0) + number
        return counts

    def rejecters(self) -> frozenset[str]:
        """The plugins that rejected a node."""
        names = set(self._record.rejected.rejecters)
        names.update(status.plugin for status, _ in self._by_facts())
        for group in self._judged_by_nodes():
            names.update(group.rejected.rejecters)
        return frozenset(names)

    def _by_facts(self) -> Iterator[tuple[Status, int]]:
        """Rejected facts with the number of nodes that have them; the facts' plugin comes before the later filters."""
        for facts, group in self._record.groups.items():
            status = self._verdicts.of(facts)
            if status is not SUCCESS:
                yield status, group.size

    def _judged_by_nodes(self) -> Iterator[Group]:
        return (group for facts, group in self._record.groups.items() if self._verdicts.of(facts) is SUCCESS)


class _NodesAndVerdicts(ItemsView[NodeName, Status]):
    """Pairs in the order of the mapping's keys."""

    def __init__(self, verdicts: NodeVerdicts) -> None:
        super().__init__(verdicts)
        self._verdicts: Final = verdicts

    def __iter__(self) -> Iterator[tuple[NodeName, Status]]:
        return self._verdicts.each()
