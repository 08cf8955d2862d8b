"""DefaultPreemption: pods of lower priority are removed from a node, so that the pod fits there.

Extension points: PostFilter.
Reads: verdicts on all nodes, pods, PodDisruptionBudgets.  Writes: nothing; the core removes whom this names.
Upstream: pkg/scheduler/framework/plugins/defaultpreemption, pkg/scheduler/framework/preemption (same candidates,
victims and texts; differences below). See docs/adr/0026-preemption.md.

Differs on purpose
  * A node that lacks nothing but devices is a candidate, too, where pods of lower priority hold some.
  * A pod is not eligible while anything of the room that is being made for it is not there yet, devices among it.
  * Nobody is preempted while PodDisruptionBudgets cannot be read; upstream waits for them before it schedules at all.
  * Of a group that makes room, pods are asked one after another, each beside what is found for those before it (the
    core's `group_attempt`); upstream removes all that is less important and puts back what fits (PodGroupPostFilter).
  * Of a gang either as many pods go as it can spare, or all that run, wherever they are (`parts`).
  * Mirror pods are never victims: the kubelet makes them again.
  * Nodes are tried in the order of names, where upstream begins anywhere; of equal candidates the first is taken.
  * The dry run takes as many cycles as it needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import is_
from typing import Final

import msgspec

from scheduler.framework.api import Action, ClusterEvent, Hint, PostFilterResult, Resource
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.fit_error import count_reasons, fit_error
from scheduler.framework.preemption import DryRun, NodeTried, Preemption
from scheduler.framework.status import SUCCESS, UNFINISHED, Code, Status
from scheduler.model.disruption_budget import DISRUPTION_BUDGET
from scheduler.model.keys import NodeName
from scheduler.model.objects import DISRUPTION_TARGET, PREEMPTED_BY_SCHEDULER, Pod
from scheduler.plugins.default_preemption.candidates import best
from scheduler.plugins.default_preemption.parts import MetGroups
from scheduler.plugins.default_preemption.reprieve import Reprieve
from scheduler.validation.field_errors import FieldError, invalid

NAME: Final = "DefaultPreemption"
NEVER: Final = "not eligible due to preemptionPolicy=Never."
VICTIMS_TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
DEVICES_NOT_RELEASED: Final = "not eligible due to devices of preempted pods that are not released yet."
BUDGETS_UNKNOWN: Final = (
    "not eligible due to PodDisruptionBudgets that the scheduler has no right to read (list and watch)."
)
NO_VICTIMS: Final = Status.unresolvable("No preemption victims found for incoming pod")
NOT_HELPFUL: Final = Status.unresolvable("Preemption is not helpful for scheduling")
BEGUN_LEAST: Final = 200
"""Nodes that are looked at for the first time in a cycle, whatever steps it has."""
_AS_MANY_AS_A_NODE: Final = 16
"""Pods that take as long to put in order as a first look at a node."""
_BEGINNING: Final = 12
_POD: Final = 2
"""What a first look at a node takes, and at each pod there, in lookups (`Cycle.charge`)."""


class Hopeless(msgspec.Struct, frozen=True):
    """A node on which nobody needs to be tried."""

    outcome: Status
    meets_groups: bool = False


@dataclass(frozen=True, slots=True)
class DefaultPreemption:
    """Preempt on the node where it costs least.

    Args:
        min_candidate_nodes_percentage, min_candidate_nodes_absolute: How many candidates are found before the best of
            them is taken: so many of a hundred nodes that could be one, or so many nodes, whichever is more.
        preempt_pods_of_other_schedulers: Whether pods that another scheduler placed may be victims.
    """

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100
    preempt_pods_of_other_schedulers: bool = True
    name: str = NAME
    wakes_on: tuple[tuple[Resource, Action], ...] = ((Resource.ASSIGNED_POD, Action.DELETE),)
    reads: frozenset[str] = frozenset({DISRUPTION_BUDGET})

    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        return Hint.SKIP  # the plugins that refused the nodes know what helps

    def post_filter(
        self, cycle: Cycle, verdicts: Mapping[NodeName, Status], view: ClusterView, dry_run: DryRun
    ) -> PostFilterResult:
        pod = cycle.pod
        refusal = self._refuse(pod, verdicts, view)
        if refusal is not None:
            return _ended(Status.unschedulable(refusal))
        hopeless = dry_run.recall_hopeless()
        if hopeless is not None:
            return _ended(hopeless, NodeName(""))
        names = dry_run.candidates()
        if not dry_run.has_less_important():
            hopeless = _none_found({name: _why_none(verdicts[name]) for name in names}, len(view.node_infos))
            dry_run.remember_hopeless(hopeless)
            return _ended(hopeless, NodeName(""))
        if not view.knows_disruption_budgets():
            return _ended(Status.unschedulable(BUDGETS_UNKNOWN))
        return self._search(cycle, names, verdicts, view, dry_run)

    def _search(
        self,
        cycle: Cycle,
        names: Sequence[NodeName],
        verdicts: Mapping[NodeName, Status],
        view: ClusterView,
        dry_run: DryRun,
    ) -> PostFilterResult:
        pod = cycle.pod
        found: list[Preemption] = []
        tried: dict[NodeName, Status] = {}
        gangs = MetGroups(cycle, view, partial(self._may_preempt, pod))
        begun = 0
        for name in names:
            known = dry_run.recall(name)
            if known is None:
                if begun >= BEGUN_LEAST and cycle.steps_left <= 0:
                    return PostFilterResult(UNFINISHED)
                begun += 1
                cycle.charge(_BEGINNING + _POD * len(view.node_infos[name].pods))
                known = self._begin(pod, name, verdicts[name], dry_run, gangs)
                if isinstance(known, Reprieve):
                    begun += known.size // _AS_MANY_AS_A_NODE
                dry_run.remember(name, known)
            outcome = _go_on(known, dry_run)
            if outcome is None:
                return PostFilterResult(UNFINISHED)
            if isinstance(outcome, Status):
                tried[name] = outcome
                continue
            found.append(_as_they_are(outcome, view))
            if all(one.uid in dry_run.going for one in outcome.victims):
                break  # nobody goes for this pod
            if len(found) >= self._enough(len(names)) and any(not one.violations for one in found):
                break
        if found:
            chosen = self._choose(found, view, dry_run, gangs)
            if chosen is not None:
                return chosen
        failed = [status for status in tried.values() if status.code is Code.ERROR]
        if failed:
            return _ended(failed[0])
        hopeless = _none_found(tried, len(view.node_infos))
        if len(tried) == len(names):
            dry_run.remember_hopeless(hopeless)
        return _ended(hopeless, NodeName(""))

    def _choose(
        self, found: list[Preemption], view: ClusterView, dry_run: DryRun, gangs: MetGroups
    ) -> PostFilterResult | None:
        """The best of the candidates that still holds; None when none does."""
        while found:
            chosen = best(found, dry_run.going)
            found.remove(chosen)
            if not dry_run.is_current(chosen.node):
                search = dry_run.recall(chosen.node)
                if not isinstance(search, Reprieve) or not search.confirms:
                    there = view.node_infos[chosen.node].pods
                    parts, meets_groups = gangs.parts(one for one in chosen.victims if one.uid in there)
                    if not parts:
                        continue
                    search = Reprieve(chosen.node, parts, view, meets_groups=meets_groups, confirms=True)
                    dry_run.remember(chosen.node, search)
                search.go_on(dry_run)
                if search.outcome is None:
                    return PostFilterResult(UNFINISHED)
                if isinstance(search.outcome, Status):
                    continue
                chosen = search.outcome
            return PostFilterResult(_success(chosen, view), chosen.node, preemption=chosen)
        return None

    def _refuse(self, pod: Pod, verdicts: Mapping[NodeName, Status], view: ClusterView) -> str | None:
        """Why the pod may not preempt now."""
        if pod.spec.preemption_policy == "Never":
            return NEVER
        outstanding = view.preemption_of(pod.uid)
        if outstanding is not None and outstanding.victims:
            return VICTIMS_TERMINATING
        if outstanding is not None and outstanding.released:
            return DEVICES_NOT_RELEASED
        node = NodeName(pod.status.nominated_node_name)
        verdict, info = verdicts.get(node), view.node_infos.get(node)
        if info is None or verdict is None or verdict.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return None
        if any(_is_preempted(one) and self._may_preempt(pod, one) for one in info.pods.values()):
            return VICTIMS_TERMINATING
        return None

    def _enough(self, count: int) -> int:
        """How many candidates are wanted where `count` nodes could be one."""
        wanted = max(count * self.min_candidate_nodes_percentage // 100, self.min_candidate_nodes_absolute)
        return min(wanted, count)

    def _begin(self, pod: Pod, name: NodeName, verdict: Status, dry_run: DryRun, gangs: MetGroups) -> NodeTried:
        view = gangs.view
        potential = [one for one in view.node_infos[name].pods.values() if self._may_preempt(pod, one)]
        if not potential:
            return Hopeless(_why_none(verdict))
        if not dry_run.may_help(name, verdict):
            return Hopeless(NOT_HELPFUL)
        parts, meets_groups = gangs.parts(potential)
        if not parts:
            return Hopeless(_why_none(verdict), meets_groups=True)
        return Reprieve(name, parts, view, meets_groups=meets_groups)

    def _may_preempt(self, pod: Pod, other: Pod) -> bool:
        if other.priority >= pod.priority:
            return False
        is_mirror = any(owner.controller and owner.kind == "Node" for owner in other.metadata.owner_references or ())
        return not is_mirror and (
            self.preempt_pods_of_other_schedulers or other.spec.scheduler_name == pod.spec.scheduler_name
        )


def argument_errors(plugin: DefaultPreemption) -> list[FieldError]:
    """What is wrong with the plugin's arguments, by paths within them, in upstream's words."""
    percentage, absolute = plugin.min_candidate_nodes_percentage, plugin.min_candidate_nodes_absolute
    errors = []
    if not 0 <= percentage <= 100:
        errors.append(invalid("minCandidateNodesPercentage", percentage, "not in valid range [0, 100]"))
    if absolute < 0:
        errors.append(invalid("minCandidateNodesAbsolute", absolute, "not in valid range [0, inf)"))
    if percentage == absolute == 0:
        text = "cannot be zero at the same time as"
        errors.append(invalid("minCandidateNodesPercentage", 0, f"{text} minCandidateNodesAbsolute"))
        errors.append(invalid("minCandidateNodesAbsolute", 0, f"{text} minCandidateNodesPercentage"))
    return errors


def _why_none(verdict: Status) -> Status:
    """Of a node without pods that may be preempted."""
    return NO_VICTIMS if verdict.code is Code.UNSCHEDULABLE else NOT_HELPFUL


def _go_on(tried: NodeTried, dry_run: DryRun) -> Preemption | Status | None:
    """What preempting on a node would take, or why it does not help; None when steps are used up."""
    if isinstance(tried, Reprieve) and tried.outcome is None:
        tried.go_on(dry_run)
    return tried.outcome


def _none_found(tried: Mapping[NodeName, Status], nodes: int) -> Status:
    """No node is a candidate: why."""
    reasons = count_reasons(tried.values())
    if len(tried) < nodes:
        (text,) = NOT_HELPFUL.reasons
        reasons[text] = reasons.get(text, 0) + nodes - len(tried)
    return Status.unschedulable(fit_error(nodes, reasons=reasons))


def _as_they_are(found: Preemption, view: ClusterView) -> Preemption:
    """With the victims as they are now: a remembered one may have started since, which changes nothing of its node."""
    there = view.node_infos[found.node].pods
    victims = tuple([there.get(one.uid, one) for one in found.victims])
    if all(map(is_, victims, found.victims)):
        return found
    return msgspec.structs.replace(found, victims=victims)


def _ended(status: Status, nominated: NodeName | None = None) -> PostFilterResult:
    return PostFilterResult(Status(status.code, (f"preemption: {status.message}",)), nominated)


def _is_preempted(pod: Pod) -> bool:
    """Whether a scheduler has removed the pod to make room, and it is not gone yet."""
    if not pod.is_deleting:
        return False
    for condition in pod.status.conditions or ():
        if condition.type == DISRUPTION_TARGET:
            return condition.status == "True" and condition.reason == PREEMPTED_BY_SCHEDULER
    return False


def _success(chosen: Preemption, view: ClusterView) -> Status:
    """With the sentence that kube-scheduler says to people since 1.37."""
    if not view.features.has_137_semantics:
        return SUCCESS
    victims = f"preempting {len(chosen.victims)} victims"
    return Status(Code.SUCCESS, (f"preemption: found a potential placement for pod on node {chosen.node}, {victims}",))
