"""What the plugins that filter by facts say in one cycle, each asked once for each distinct fact.

Rules of this module
  1. Judging is charged to the cycle, and pauses between two groups of nodes when its steps are used up: where a pod
     has dozens of constraints and there are thousands of facts it takes many times as long as an input may take.
  2. A round that was interrupted goes on in the signature's next cycle: verdicts stay with their groups. Most others
     are never interrupted, and nothing is kept of them.
  3. If pod counts change during a round, its verdicts are provisional: the chosen node's facts are judged again before
     it is used (`hold`), and "no node fits" is reported only after a round without changes.

Cost: O(distinct facts) a cycle, however many nodes there are.
"""

from __future__ import annotations

from collections.abc import Hashable, ItemsView, Iterator, Mapping
from typing import Final

from scheduler.core.trying.signature_record import FactGroup, Judging, SignatureRecord
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import LOOKUPS_PER_STEP, Cycle
from scheduler.framework.plan import Facts, Plan
from scheduler.framework.runner import Runner
from scheduler.framework.status import SUCCESS, Code, Status
from scheduler.model.keys import NodeName

_JUDGING: Final = 8
"""What it takes to ask about a fact at all, in lookups."""
_WORTH_KEEPING: Final = 1_000
"""Lookups; what took less is not kept, so that most cycles need not find out what it depended on."""


class PluginFailedError(Exception):
    """A plugin gave an ERROR status: nothing is known."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status: Final = status


class FactVerdicts:
    """The verdicts of one cycle on facts."""

    def __init__(self, runner: Runner, cycle: Cycle, plan: Plan, view: ClusterView, record: SignatureRecord) -> None:
        self._runner: Final = runner
        self._cycle: Final = cycle
        self._view: Final = view
        self._filters: Final = plan.fact_filters
        self._record: Final = record
        self.is_stale = False
        """Whether some verdicts are of an earlier cycle, and what they depend on has changed since."""
        self._round = 0
        if not plan.fact_filters:
            return
        self._known: Final[dict[Facts, Status]] = {}
        self._by_fact: Final[list[dict[Hashable, Status]]] = [{} for _ in plan.fact_filters]
        self._lookups: Final = [runner.lookups(plugin, cycle) for _, plugin in plan.fact_filters]
        self._asked = self._charged = 0
        self._begun: Hashable = None
        self._round = self._goes_on(cycle, record)

    def _goes_on(self, cycle: Cycle, record: SignatureRecord) -> int:
        """The round that this is part of."""
        kept = record.judging
        if kept is not None:
            if kept.moment == self._moment():
                self._begun = kept.moment
                return kept.round
            size = len(record.groups) * (_JUDGING + sum(self._lookups))
            if not kept.is_complete and size > LOOKUPS_PER_STEP * cycle.steps_left // 2:
                self._begun, self.is_stale = kept.moment, True
                return kept.round
        record.rounds += 1
        return record.rounds

    def _moment(self) -> Hashable:
        return tuple([self._runner.moment(plugin, self._cycle, self._view) for _, plugin in self._filters])

    def judge(self) -> bool:
        """Judge the facts of all groups while there are steps, one at least; False: it goes on in the next cycle."""
        if self._filters:
            most = self._asked + LOOKUPS_PER_STEP * max(0, self._cycle.steps_left)
            has_judged = False
            for group in self._record.groups.values():
                if group.judged != self._round:
                    if has_judged and self._asked >= most:
                        return False
                    self.of_group(group)
                    has_judged = True
        return True

    def charge(self) -> None:
        """Take from the cycle what was judged since the last time."""
        if self._filters:
            self._cycle.charge(self._asked - self._charged)
            self._charged = self._asked

    def keep(self, *, is_complete: bool) -> None:
        """For the signature's next cycle; where all were judged they hold only while nothing changes."""
        if self._filters and (not is_complete or self._asked >= _WORTH_KEEPING or self._begun is not None):
            moment = self._moment() if self._begun is None else self._begun
            self._record.judging = Judging(self._round, moment, is_complete)
        else:
            self._record.judging = None

    def drop(self) -> None:
        """The next cycle begins a round."""
        self._record.judging = None

    def hold(self, facts: Facts) -> bool:
        """Whether facts that pass do so now."""
        if self.is_stale:
            status = self._ask(facts)
            group = self._record.groups.get(facts)
            if group is not None:
                group.status = status
            return status is SUCCESS
        return True

    def of(self, facts: Facts) -> Status:
        """The first verdict against nodes of these facts, or SUCCESS; an ERROR when the plugin fails."""
        if not self._filters:
            return SUCCESS
        group = self._record.groups.get(facts)
        if group is not None:
            return self.of_group(group)
        status = self._known.get(facts)
        if status is None:
            status = self._known[facts] = self._ask(facts)
        return status

    def of_group(self, group: FactGroup) -> Status:
        if group.judged != self._round:
            group.status, group.judged = self._ask(group.facts), self._round
        return group.status

    def _ask(self, facts: Facts) -> Status:
        for known, lookups, (place, plugin) in zip(self._by_fact, self._lookups, self._filters, strict=True):
            fact = facts[place]
            status = known.get(fact)
            if status is None:
                self._asked += _JUDGING + lookups
                status = known[fact] = self._runner.filter_fact(plugin, self._cycle, fact, self._view)
            if status is not SUCCESS:
                return status
        return SUCCESS

    def passing(self) -> list[FactGroup]:
        """Groups of nodes that fit. Raises PluginFailedError."""
        groups = self._record.groups
        if not self._filters:
            return list(groups.values())
        found = []
        for group in groups.values():
            status = self.of_group(group)
            if status is not SUCCESS:
                if status.code is Code.ERROR:
                    raise PluginFailedError(status)
            elif group.fits:
                found.append(group)
        return found

    def reopened(self) -> list[FactGroup]:
        """Groups whose facts pass, with nodes that were set aside when they did not."""
        if not self._filters:
            return []
        return [group for group in self._record.groups.values() if group.aside and self.of_group(group) is SUCCESS]


class NodeVerdicts(Mapping[NodeName, Status]):
    """Why each node does not fit, while none does: nothing is copied, so it holds for this cycle only."""

    def __init__(self, record: SignatureRecord, verdicts: FactVerdicts) -> None:
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
        for group in self._record.groups.values():
            status = self._verdicts.of_group(group)
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

    def unschedulable_plugins(self) -> frozenset[str]:
        """The plugins that rejected a node."""
        names = set(self._record.rejected.unschedulable_plugins)
        names.update(status.plugin for status, _ in self._by_facts())
        for group in self._judged_by_nodes():
            names.update(group.rejected.unschedulable_plugins)
        return frozenset(names)

    def _by_facts(self) -> Iterator[tuple[Status, int]]:
        """Rejected facts with the number of nodes that have them; the facts' plugin comes before the later filters."""
        for group in self._record.groups.values():
            status = self._verdicts.of_group(group)
            if status is not SUCCESS:
                yield status, group.size

    def _judged_by_nodes(self) -> Iterator[FactGroup]:
        return (group for group in self._record.groups.values() if self._verdicts.of_group(group) is SUCCESS)


class _NodesAndVerdicts(ItemsView[NodeName, Status]):
    """Pairs in the order of the mapping's keys."""

    def __init__(self, verdicts: NodeVerdicts) -> None:
        super().__init__(verdicts)
        self._verdicts: Final = verdicts

    def __iter__(self) -> Iterator[tuple[NodeName, Status]]:
        return self._verdicts.each()
