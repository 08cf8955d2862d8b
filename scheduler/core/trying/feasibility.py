"""Remembered verdicts and scores: each question about a pod signature and a node is answered once.

For every signature there is a record (`signature_record`) of the nodes that fit, ordered so that the best is found
without a pass over them, of those that do not and why, and of how far the change log has been read. A pod of a known
signature asks the plugins only about nodes that changed since.

Rules of this module
  1. A verdict of filters and a score hold until the node changes. So do a node's facts (`framework.api.FactPlugin`),
     while what plugins say of facts is found out anew in every cycle, once for each distinct fact.
  2. A node whose facts are rejected is set aside before the later filters are asked; when its facts pass again, they
     are asked then. Reasons stay those of the first plugin in order that rejects now.
  3. Looking for nodes that fit stops when enough are known (`CoreSettings.feasible_nodes_enough`). Changed nodes come
     first, then unknown ones round robin; where a plugin knows the only nodes that can fit (`possible_nodes`), those
     come before them, and when one of them fits the others are left alone. "No node fits" is said only when all were
     looked at, which may take several ticks: verdicts are remembered, and the queue gives the pod out again.
  4. Where pods are nominated for a node, a pod must fit with those that are at least as important, and without them.
     That verdict is for pods of the same priority, and where plugins filter by facts for one attempt.
  5. Which node is chosen follows from the inputs and their times alone: best score, then the one whose last change is
     longest ago, then the order in which it was looked at. No hash order, no randomness.
  6. Where nodes are ranked, one of several alike nodes is asked about in a look (`alike_nodes`).
  7. With `is_paranoid` every remembered answer is compared with a fresh one, each cycle.

Cost: a cycle of a known signature O(changed nodes + distinct facts + distinct score vectors); of a new one O(nodes
looked at).
Memory: `SignatureRecord.kept`, in the ledger of what is remembered.

Source: percentageOfNodesToScore and selectHost of pkg/scheduler/schedule_one.go v1.36.3. Differs on purpose: ties are
spread by age instead of at random, and normalized scores are over the nodes that are known to fit.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Set
from typing import Final

from msgspec import Struct

from allocator.values.remembered import Cache
from scheduler.core.state.ground import Ground, Part
from scheduler.core.trying.alike_nodes import NONE_ALIKE, AlikeNodes, NodeEquivalence
from scheduler.core.trying.dry_run import beside_nominated
from scheduler.core.trying.fact_verdicts import FactVerdicts, NodeVerdicts, PluginFailedError
from scheduler.core.trying.ranking import Best, RememberedVerdictError, best_node
from scheduler.core.trying.signature_record import NO_FACTS, FactGroup, SignatureRecord
from scheduler.framework.cycle import UNLIMITED_STEPS, Cycle
from scheduler.framework.plan import Facts, Plan, PodSignature
from scheduler.framework.runner import Runner
from scheduler.framework.status import SUCCESS, Code, Status
from scheduler.model.keys import NodeName
from scheduler.model.node_info import NodeInfo

NODE_STEPS: Final = 2
"""Looking at a node at all."""
_NAMES_A_STEP: Final = 50
"""Names of nodes that are gone through in the time of a step."""
_ENDS_LOOKING: Final = (Code.ERROR, Code.UNFINISHED)
_REFUSED: Final = Status.unschedulable("node(s) were tried before")


class FeasibilityQuery(Struct):
    """Which node is best for the cycle's pod?

    Args:
        node_names: The only nodes worth looking at, None for all; part of the signature.
        possible_nodes: No other node fits. They come first; all other nodes only when none fits. None: not known.
        are_possible_known: Whether all of them have been looked at.
        preferred: A node to take if it fits at all (the nominated one), or "".
        filter_calls_max: Nodes to look at now, at least 1. A pod whose verdicts are not remembered looks at all it
            needs.
        goes_on: The pod has been looking, and was not finished.
        without: Nodes that are refused for this question alone.
    """

    runner: Runner
    cycle: Cycle
    plan: Plan
    node_names: frozenset[NodeName] | None
    possible_nodes: Set[NodeName] | None
    preferred: NodeName
    filter_calls_max: int
    goes_on: bool = False
    without: Set[NodeName] = frozenset()
    are_possible_known: bool = False
    likeness: NodeEquivalence = NONE_ALIKE

    def is_asked_about(self, name: NodeName) -> bool:
        return self.node_names is None or name in self.node_names


class Chosen(Struct, frozen=True):
    """A node fits, and this is the best known."""

    node: NodeName
    score: int


class NoneFits(Struct, frozen=True):
    """All nodes were looked at, none fits.

    Args:
        verdicts: Why, for each node looked at.
        reasons: How many nodes gave each reason.
        rejecters: Plugins that rejected a node.
    """

    verdicts: Mapping[NodeName, Status]
    reasons: Mapping[str, int]
    unschedulable_plugins: frozenset[str]


class Unfinished(Struct, frozen=True):
    """More nodes must be looked at than fit into this tick; their verdicts so far are remembered.

    Args:
        reasons: How many nodes gave each reason so far.
    """

    reasons: Mapping[str, int]


class Feasibility(Part):
    """Records of all signatures."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self._alike: Final = AlikeNodes(ground.view)
        # Without it a pod of a known signature takes five times as long (benchmarks.deciding --workload device).
        self._records: Final[Cache[PodSignature, SignatureRecord]] = Cache(ground.store.ledger, "verdicts")
        self._stamp = 0
        self._start = 0
        self.filter_calls = 0
        """How often Filter plugins were asked about a node, over all cycles."""
        self.steps = 0
        """Steps that looking at nodes and reserving took, over all cycles."""

    def records(self) -> Iterator[tuple[PodSignature, SignatureRecord]]:
        return self._records.items()

    def refused(self, signature: PodSignature) -> Iterator[tuple[NodeName, Status]]:
        """Nodes that a filter refuses to pods of a signature, as far as remembered; not those of refused facts."""
        record = self._records.get(signature)
        if record is not None:
            yield from record.rejected.statuses.items()
            for group in record.groups.values():
                yield from group.rejected.statuses.items()

    def find(self, asked: FeasibilityQuery) -> Chosen | NoneFits | Unfinished | Status:
        """The best node. A status only when a plugin failed: then nothing is known."""
        signature = asked.plan.signature
        record = self._records.get(signature) if signature is not None else None
        if record is None:
            record = SignatureRecord(asked.plan)
            if signature is not None:
                self._records.put(signature, record)
        found = self._find(asked, record)
        for name in asked.without:
            record.forget(name)
            record.changed[name] = None
        return found

    def _find(self, asked: FeasibilityQuery, record: SignatureRecord) -> Chosen | NoneFits | Unfinished | Status:
        cycle, plan = asked.cycle, asked.plan
        allowed = cycle.steps_left
        if plan.signature is None:  # what is found out is not remembered, so it is found out in one go
            cycle.steps_left = UNLIMITED_STEPS
            asked.filter_calls_max = len(self._store.node_infos)
        steps_left = cycle.steps_left
        try:
            self._read_changes(asked, record)
            for name in asked.without:
                record.forget(name)
                record.changed.pop(name, None)
                record.reject(name, _REFUSED)
            verdicts = FactVerdicts(asked.runner, cycle, plan, self._view, record)
            record.nominated_for = cycle.pod.priority
            if asked.possible_nodes is not None and asked.node_names is not None:
                asked.possible_nodes = asked.node_names & asked.possible_nodes
            is_judged = verdicts.judge()
            verdicts.charge()
            if not is_judged:
                verdicts.keep(is_complete=False)
                return Unfinished(dict(record.rejected.reasons))
            self._look(asked, record, verdicts)
            passing = verdicts.passing()
            verdicts.charge()
        except PluginFailedError as failed:
            record.judging = None
            return failed.status
        finally:
            taken = steps_left - cycle.steps_left
            self.steps += taken
            cycle.steps_left = max(1, allowed - taken)
        allowed = cycle.steps_left
        found = self._conclude(asked, record, verdicts, passing)
        taken = allowed - cycle.steps_left
        self.steps += taken
        cycle.steps_left = max(1, cycle.steps_left)
        return found

    def _conclude(
        self, asked: FeasibilityQuery, record: SignatureRecord, verdicts: FactVerdicts, passing: list[FactGroup]
    ) -> Chosen | NoneFits | Unfinished | Status:
        plan, preferred = asked.plan, asked.preferred
        fit = record.fits.get(preferred) if preferred else None
        takes_preferred = fit is not None and verdicts.of(fit.facts) is SUCCESS and verdicts.hold(fit.facts)
        fits = sum([group.fits for group in passing])
        if not takes_preferred and not self._is_enough(asked, record, verdicts, fits):
            verdicts.keep(is_complete=False)
            return Unfinished(NodeVerdicts(record, verdicts).reasons())
        if self._settings.is_paranoid and not asked.without:
            self._compare(asked, record)
        if takes_preferred:
            verdicts.drop()
            return Chosen(preferred, 0)
        if not passing:
            why = NodeVerdicts(record, verdicts)
            if verdicts.is_stale:
                verdicts.drop()
                return Unfinished(why.reasons())
            verdicts.keep(is_complete=True)
            return NoneFits(why, why.reasons(), why.unschedulable_plugins())
        is_paranoid = self._settings.is_paranoid
        best = best_node(asked.runner, asked.cycle, plan, record, passing, view=self._view, is_paranoid=is_paranoid)
        if not isinstance(best, Best):
            return best
        if not verdicts.hold(record.fits[best.node].facts):
            verdicts.keep(is_complete=False)
            return Unfinished(NodeVerdicts(record, verdicts).reasons())
        verdicts.drop()
        return Chosen(best.node, best.score)

    # Keeping a record current

    def _read_changes(self, asked: FeasibilityQuery, record: SignatureRecord) -> None:
        changes = self._store.changes
        names = changes.since(record.position, asked.node_names) if record.position >= 0 else None
        if record.has_other_beside(self._ground.kept.everywhere(asked.cycle)):
            names = None
        if names is None:
            order = self._store.node_order
            if asked.node_names is not None:
                order = tuple(sorted(asked.node_names & self._store.node_infos.keys()))
            record.start_over(order, self._start % len(order) if order else 0, changes.position)
            # One further than where this one ends: where names and zones alternate alike, the nodes that are enough
            # for one signature after the other might all begin in the same zone.
            self._start += 1
            return
        record.position = changes.position
        if record.nominated:
            names = [*names, *self._for_others(asked, record)]
        for name in names:
            record.nominated.pop(name, None)
            if asked.is_asked_about(name):
                record.forget(name)
                if name in self._store.node_infos:
                    record.changed[name] = None
                else:
                    record.changed.pop(name, None)

    def _for_others(self, asked: FeasibilityQuery, record: SignatureRecord) -> list[NodeName]:
        """Nodes whose verdict beside nominated pods does not hold for this pod, or perhaps no longer does."""
        pod = asked.cycle.pod
        if record.nominated_for != pod.priority or (asked.plan.fact_filters and not asked.goes_on):
            return list(record.nominated)
        own = self._store.nominations.node_of(pod.uid)
        return [name for name, by in record.nominated.items() if by != (pod.uid if name == own else None)]

    def _enough(self, asked: FeasibilityQuery) -> int:
        profile = asked.runner.profile
        if asked.plan.ranker is not None:
            return len(self._store.node_infos)
        return profile.enough_nodes(len(self._store.node_infos), least=self._settings.feasible_nodes_enough)

    def _is_enough(self, asked: FeasibilityQuery, record: SignatureRecord, verdicts: FactVerdicts, fits: int) -> bool:
        """Whether no more nodes must be looked at, when `fits` are known to fit."""
        if fits >= self._enough(asked):
            return True
        if not record.has_unknown:
            return not verdicts.reopened()
        return fits > 0 and not self._may_fit(asked, record) and not verdicts.reopened()

    def _may_fit(self, asked: FeasibilityQuery, record: SignatureRecord, found: Container[NodeName] = ()) -> bool:
        """Whether an unknown node may fit, other than those found now; where it is known which, one of them is next."""
        possible = asked.possible_nodes
        if possible is None or record.comes_next(possible):
            return True
        if not asked.are_possible_known:
            names, node_infos = list(possible), self._store.node_infos
            asked.cycle.steps_left -= len(names) // _NAMES_A_STEP
            first = [n for n in names if n in node_infos and n not in found and not record.is_known(n)]
            record.look_first(sorted(first))
            asked.are_possible_known = not first
        return not asked.are_possible_known

    def _look(self, asked: FeasibilityQuery, record: SignatureRecord, verdicts: FactVerdicts) -> None:
        """Ask the plugins about unknown nodes until enough are known to fit. Raises PluginFailedError."""
        cycle, node_infos = asked.cycle, self._store.node_infos
        if asked.preferred and asked.preferred in record.order:
            fit = record.fits.get(asked.preferred)
            if fit is not None and verdicts.of(fit.facts) is SUCCESS:
                return
            if not record.is_known(asked.preferred):
                record.look_first((asked.preferred,))
        alike = self._alike.plugins_of(asked.plan, cycle)
        if alike:
            asked.likeness = NodeEquivalence(alike)
        enough, last = self._enough(asked), self.filter_calls + asked.filter_calls_max
        known = sum([group.fits for group in verdicts.passing()])
        found: dict[NodeName, tuple[NodeInfo, Facts]] = {}
        unknown = record.unknown(verdicts.reopened())
        status = SUCCESS
        while self.filter_calls < last and cycle.steps_left > 0 and status.code not in _ENDS_LOOKING:
            fits = known + len(found)
            if fits >= enough or (not self._may_fit(asked, record, found) and fits and not verdicts.reopened()):
                break
            name = next(unknown, None)
            if name is None:
                break
            info = node_infos.get(name)
            if info is None or name in found:
                continue
            self._start += 1
            self.filter_calls += 1
            cycle.steps_left -= NODE_STEPS
            status = self._ask(asked, record, verdicts, info, found)
            if name == asked.preferred and name in found:
                break
        self._score(asked, record, found)
        if status.code is Code.ERROR:
            raise PluginFailedError(status)

    def _ask(
        self,
        asked: FeasibilityQuery,
        record: SignatureRecord,
        verdicts: FactVerdicts,
        info: NodeInfo,
        found: dict[NodeName, tuple[NodeInfo, Facts]],
    ) -> Status:
        """Ask the filters about a node, and file what they say; one that fits goes to `found` to be scored."""
        runner, cycle, plan, view, name = asked.runner, asked.cycle, asked.plan, self._view, info.name
        facts: Facts | Status | None = record.reopen(name) if plan.fact_filters else None
        status = SUCCESS
        if record.beside or self._store.nominations.at(name):
            if not record.beside:
                pod = cycle.pod
                record.nominated[name] = pod.uid if self._store.nominations.node_of(pod.uid) == name else None
            status = beside_nominated(self._ground, runner, cycle, info)
            if status is not SUCCESS:
                facts = status
        if facts is None:
            number = self._alike.number(asked.likeness.plugins, cycle, info) if asked.likeness.plugins else None
            known = asked.likeness.statuses.get(number) if number is not None else None
            status = known if known is not None else runner.filter(plan.filters, cycle, info, view)
            if known is None and number is not None and status.code not in _ENDS_LOOKING:
                asked.likeness.statuses[number] = status
            if status is SUCCESS:
                facts = runner.facts(plan, cycle, info, view) if plan.fact_plugins else NO_FACTS
                if isinstance(facts, Status):
                    status = facts
                elif plan.fact_filters and (judged := verdicts.of(facts)) is not SUCCESS:
                    if judged.code is not Code.ERROR:
                        record.set_aside(name, facts)
                        return SUCCESS
                    status = judged
        if status is SUCCESS and plan.late_filters:
            status = runner.filter(plan.late_filters, cycle, info, view)
        if status.code in _ENDS_LOOKING:
            # Next, so that one search a signature is under way.
            record.changed = {name: None, **record.changed}
        elif facts is None or isinstance(facts, Status):
            record.reject(name, status)
        elif status is SUCCESS:
            found[name] = info, facts
        else:
            record.reject_late(name, facts, status)
        return status

    def _score(
        self, asked: FeasibilityQuery, record: SignatureRecord, found: dict[NodeName, tuple[NodeInfo, Facts]]
    ) -> None:
        if not found:
            return
        runner, cycle, plan = asked.runner, asked.cycle, asked.plan
        scorers = (
            runner.pre_score(plan.scorers, cycle, [info for info, _ in found.values()], self._view)
            if plan.scorers
            else []
        )
        failure = scorers if isinstance(scorers, Status) else None
        like = asked.likeness
        for info, facts in found.values():
            if failure is None:
                assert not isinstance(scorers, Status)
                number = self._alike.number(like.plugins, cycle, info) if like.plugins else None
                known = like.vectors.get(number) if number is not None else None
                vector = known if known is not None else runner.score(plan, scorers, cycle, info, self._view)
                if not isinstance(vector, Status):
                    if number is not None:
                        like.vectors[number] = vector
                    self._stamp += 1
                    record.accept(info.name, facts, vector, self._stamp)
                    continue
                failure = vector
            record.changed[info.name] = None
        if failure is not None:
            raise PluginFailedError(failure)

    # Distrust

    def _compare(self, asked: FeasibilityQuery, record: SignatureRecord) -> None:
        """Raise RememberedVerdictError where a remembered answer differs from a fresh one, or a node is missing."""
        allowed, asked.cycle.steps_left = asked.cycle.steps_left, UNLIMITED_STEPS
        try:
            for info in self._store.node_infos.values():
                if asked.is_asked_about(info.name):
                    self._compare_node(asked, record, info)
        finally:
            asked.cycle.steps_left = allowed

    def _compare_node(self, asked: FeasibilityQuery, record: SignatureRecord, info: NodeInfo) -> None:
        runner, cycle, plan, name = asked.runner, asked.cycle, asked.plan, info.name
        about = f"node {name}, pod {cycle.pod.key}"
        if name in record.nominated or record.beside:
            return
        if not record.is_known(name):
            if name not in record.changed and name not in record.waiting():
                raise RememberedVerdictError(f"{about}: the node was forgotten")
            return
        early = runner.filter(plan.filters, cycle, info, self._view)
        remembered = record.rejected.statuses.get(name, SUCCESS)
        if early != remembered:
            raise RememberedVerdictError(f"{about}: remembered {remembered}, but now {early}")
        if early is not SUCCESS:
            return
        fit = record.fits.get(name)
        known = fit.facts if fit is not None else record.behind[name]
        facts = runner.facts(plan, cycle, info, self._view)
        if facts != known:
            raise RememberedVerdictError(f"{about}: remembered facts {known}, but now {facts}")
        group = record.groups[known]
        if name in group.aside:
            return
        late = runner.filter(plan.late_filters, cycle, info, self._view)
        remembered = group.rejected.statuses.get(name, SUCCESS)
        if late != remembered:
            raise RememberedVerdictError(f"{about}: remembered {remembered}, but now {late}")
        if fit is not None:
            scorers = runner.pre_score(plan.scorers, cycle, [info], self._view)
            vector = (
                runner.score(plan, scorers, cycle, info, self._view) if not isinstance(scorers, Status) else scorers
            )
            if vector != fit.vector:
                raise RememberedVerdictError(f"{about}: remembered scores {fit.vector}, but now {vector}")
