"""The runner: calls the plugins of one profile in order, and signs what they say.

Rules of this module
  1. Plugins are called in profile order; the first rejection or error ends an extension point (PreFilter goes on after
     UNSCHEDULABLE, as upstream does, because preemption may follow).
  2. Every status that leaves here carries the name of the plugin that gave it.
  3. An exception of a plugin is an ERROR status for this pod and never stops the others; `is_strict` (tests) lets it
     out.

Not here: which nodes are asked (`core.feasibility`), when (`core.scheduling_cycle`, `core.binding_cycle`).

Source: pkg/scheduler/framework/runtime/framework.go v1.36.3.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct, structs

from scheduler.framework.api import (
    ON_NODE,
    PERMITTED,
    PRE_BIND_DONE,
    PRE_FILTERED,
    ClusterEvent,
    ClusterView,
    Dependence,
    DependentPlugin,
    FilterPlugin,
    Held,
    Hint,
    PermitPlugin,
    PermitResult,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindDone,
    PreBindFailed,
    PreBindPlugin,
    PreBindStep,
    PreBindWait,
    PreBindWrite,
    PreEnqueuePlugin,
    PreFilterPlugin,
    Profile,
    ReservePlugin,
    ReserveResult,
    Scope,
    ScorePlugin,
    ShapedPlugin,
    TargetedHints,
)
from scheduler.framework.cycle import Cycle
from scheduler.framework.decisions import Decision, RecordEvent
from scheduler.framework.profiles import check_profile
from scheduler.framework.status import SKIP, SUCCESS, Code, Status
from scheduler.model.keys import NodeName, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import NodeAllocatableClaim, Pod

NODE_SCORE_MAX: Final = 100
_SKIPPED: Final = "skipped"  # stands for a plugin that has nothing to do for a pod in the pod's shape
_PLANS_MAX: Final = 4_096
_ON_CLUSTER: Final = Dependence(Scope.CLUSTER)


class PreFiltered(Struct, frozen=True):
    """The merged results of all plugins' PreFilter.

    Args:
        skipped: Names of plugins whose filter and score are not called in this cycle.
        node_names: The only nodes worth filtering, None for all.
        narrowing: Names of the plugins that named nodes.
        possible_nodes: No other node fits; None when that is not known.
    """

    status: Status
    skipped: frozenset[str] = frozenset()
    node_names: frozenset[NodeName] | None = None
    narrowing: tuple[str, ...] = ()
    possible_nodes: frozenset[NodeName] | None = None


class Shape:
    """Everything besides nodes on which the answers about a pod depend. Hashed once, because it is looked up often."""

    __slots__ = ("_hash", "_parts", "scheduler_name")

    def __init__(self, scheduler_name: str, *parts: Hashable) -> None:
        self.scheduler_name: Final = scheduler_name
        self._parts: Final = parts
        self._hash: Final = hash((scheduler_name, parts))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Shape)
            and self._hash == other._hash
            and self.scheduler_name == other.scheduler_name
            and self._parts == other._parts
        )

    def __repr__(self) -> str:
        return f"Shape({self.scheduler_name}, {self._parts})"


class Plan(Struct, frozen=True):
    """Which plugins take part in one cycle, and how long their answers hold.

    Args:
        shape: Key under which verdicts and scores are remembered; None: not at all.
        filters, scorers: Answers that may be remembered (scope NODE or DOMAIN).
        unremembered_filters, unremembered_scorers: Asked anew in every cycle (scope CLUSTER).
        domains: Node labels whose value joins nodes: a change of one is a change of all with that value.
    """

    shape: Shape | None
    filters: tuple[FilterPlugin, ...]
    unremembered_filters: tuple[FilterPlugin, ...]
    scorers: tuple[ScorePlugin, ...]
    unremembered_scorers: tuple[ScorePlugin, ...]
    domains: tuple[str, ...]


class Runner:
    """The plugins of one profile, ready to be called."""

    def __init__(self, profile: Profile, *, is_strict: bool = False) -> None:
        check_profile(profile)
        self.scheduler_name: Final = profile.scheduler_name
        self.plugins: Final = {plugin.name: plugin for plugin in profile.plugins}
        self._is_strict: Final = is_strict
        self._pre_enqueue: Final = tuple(p for p in profile.at("PreEnqueue") if isinstance(p, PreEnqueuePlugin))
        self._pre_filter: Final = tuple(p for p in profile.at("PreFilter") if isinstance(p, PreFilterPlugin))
        self._filter: Final = tuple(p for p in profile.at("Filter") if isinstance(p, FilterPlugin))
        self._post_filter: Final = tuple(p for p in profile.at("PostFilter") if isinstance(p, PostFilterPlugin))
        self._score: Final = tuple(p for p in profile.at("Score") if isinstance(p, ScorePlugin))
        self._reserve: Final = tuple(p for p in profile.at("Reserve") if isinstance(p, ReservePlugin))
        self._permit: Final = tuple(p for p in profile.at("Permit") if isinstance(p, PermitPlugin))
        self._pre_bind: Final = tuple(p for p in profile.at("PreBind") if isinstance(p, PreBindPlugin))
        self._post_bind: Final = tuple(p for p in profile.at("PostBind") if isinstance(p, PostBindPlugin))
        # Protocol checks are slow, so they are made once.
        self._asked: Final = tuple(
            (
                plugin.name,
                plugin if isinstance(plugin, ShapedPlugin) else None,
                plugin if isinstance(plugin, DependentPlugin) else None,
            )
            for plugin in {plugin.name: plugin for plugin in (*self._filter, *self._score)}.values()
        )
        self._filter_names: Final = frozenset(plugin.name for plugin in self._filter)
        self._score_names: Final = frozenset(plugin.name for plugin in self._score)
        self._plans: Final[dict[tuple[object, ...], Plan]] = {}

    def is_helped(self, plugin: Plugin, pod: Pod, change: ClusterEvent, view: ClusterView) -> bool:
        """Whether `plugin`, which rejected `pod`, says QUEUE; one that breaks counts as yes (upstream too)."""
        try:
            return plugin.hint(pod, change, view) is Hint.QUEUE
        except Exception as error:
            self._broken(plugin, "QueueingHint", error)
            return True

    def concerned(self, plugin: TargetedHints, change: ClusterEvent, view: ClusterView) -> Iterable[PodUid] | None:
        """The only pods that `change` could help, None for any; any if the plugin breaks."""
        try:
            return plugin.concerned(change, view)
        except Exception as error:
            self._broken(plugin, "QueueingHint", error)
            return None

    def pre_enqueue(self, pod: Pod, view: ClusterView) -> Status:
        """SUCCESS, or the first rejection: the pod is gated."""
        for plugin in self._pre_enqueue:
            try:
                status = plugin.pre_enqueue(pod, view)
            except Exception as error:
                status = self._broken(plugin, "PreEnqueue", error)
            if status.code is not Code.SUCCESS:
                return status.by(plugin.name)
        return SUCCESS

    def pre_filter(self, cycle: Cycle, view: ClusterView) -> PreFiltered:
        """Run PreFilter and merge the plugins' node names; a rejection carries the plugin's name."""
        skipped: list[str] = []
        narrowing: list[str] = []
        node_names: frozenset[NodeName] | None = None
        possible_nodes: frozenset[NodeName] | None = None
        rejection: Status | None = None
        for plugin in self._pre_filter:
            try:
                result = plugin.pre_filter(cycle, view)
                if result is PRE_FILTERED:
                    continue  # nearly all of them
                status, names, hope = result.status, result.node_names, result.possible_nodes
                if status is not SUCCESS and status.code is Code.ERROR:
                    status = _prefixed(status, f'running PreFilter plugin "{plugin.name}"')
            except Exception as error:
                status, names, hope = self._broken(plugin, "PreFilter", error), None, None
            if status is SKIP:
                skipped.append(plugin.name)
            elif status is SUCCESS or status.code is Code.SUCCESS:
                if hope is not None:
                    possible_nodes = hope if possible_nodes is None else possible_nodes & hope
                if names is not None:
                    narrowing.append(plugin.name)
                    node_names = names if node_names is None else node_names & names
                    if not node_names:
                        return PreFiltered(_no_node_named(narrowing), narrowing=tuple(narrowing))
            elif status.code is Code.SKIP:
                skipped.append(plugin.name)
            elif status.code is Code.UNSCHEDULABLE:
                rejection = rejection or status.by(plugin.name)
            else:
                return PreFiltered(status.by(plugin.name))
        return PreFiltered(rejection or SUCCESS, frozenset(skipped), node_names, tuple(narrowing), possible_nodes)

    def plan(self, cycle: Cycle, view: ClusterView, filtered: PreFiltered) -> Plan | Status:
        """Sort the plugins of this cycle by what their answers depend on. An ERROR status when a plugin fails."""
        dependences: list[Dependence | bool | None] = []
        shapes: list[Hashable] = [filtered.node_names]
        is_remembered = True
        for name, plugin, dependent in self._asked:
            if name in filtered.skipped:
                dependences.append(None)
                shapes.append(_SKIPPED)
                continue
            if plugin is None:
                dependences.append(_ON_CLUSTER)
                continue
            try:
                dependence = dependent.dependence(cycle) if dependent is not None else ON_NODE
                # `True` stands for ON_NODE: almost every plugin returns it, and a bool hashes faster than a dataclass.
                dependences.append(dependence is ON_NODE or dependence)
                if dependence is ON_NODE or dependence.scope is not Scope.CLUSTER:
                    shape = plugin.shape(cycle, view)
                    shapes.append(shape)
                    if shape is None:
                        is_remembered = False
            except Exception as error:
                return self._broken(plugin, "PreFilter", error)
        known = tuple(dependences)
        if not is_remembered:
            return self._sort(known, None)
        parts = (known, tuple(shapes))
        plan = self._plans.get(parts)
        if plan is None:
            if len(self._plans) >= _PLANS_MAX:
                self._plans.clear()
            plan = self._plans[parts] = self._sort(known, Shape(self.scheduler_name, *parts))
        return plan

    def _sort(self, dependences: tuple[Dependence | bool | None, ...], shape: Shape | None) -> Plan:
        filters: tuple[list[FilterPlugin], list[FilterPlugin]] = ([], [])
        scorers: tuple[list[ScorePlugin], list[ScorePlugin]] = ([], [])
        domains: dict[str, None] = {}
        for (name, _, _), declared in zip(self._asked, dependences, strict=True):
            if declared is None:
                continue
            dependence = declared if isinstance(declared, Dependence) else ON_NODE
            plugin = self.plugins[name]
            is_unremembered = dependence.scope is Scope.CLUSTER
            if dependence.scope is Scope.DOMAIN:
                domains[dependence.domain] = None
            if isinstance(plugin, FilterPlugin) and name in self._filter_names:
                filters[is_unremembered].append(plugin)
            if isinstance(plugin, ScorePlugin) and name in self._score_names:
                scorers[is_unremembered].append(plugin)
        return Plan(shape, tuple(filters[0]), tuple(filters[1]), tuple(scorers[0]), tuple(scorers[1]), tuple(domains))

    def filter(self, plugins: Sequence[FilterPlugin], cycle: Cycle, node: NodeInfo, view: ClusterView) -> Status:
        """SUCCESS, or the first verdict against `node`."""
        for plugin in plugins:
            try:
                status = plugin.filter(cycle, node, view)
            except Exception as error:
                return self._broken(plugin, "Filter", error)
            if status is not SUCCESS and status.code is not Code.SUCCESS:
                if status.code is Code.ERROR:
                    status = _prefixed(status, f'running "{plugin.name}" filter plugin')
                return status.by(plugin.name)
        return SUCCESS

    def post_filter(self, cycle: Cycle, verdicts: Mapping[NodeName, Status], view: ClusterView) -> PostFilterResult:
        """The first plugin that helps, or all reasons why none does. Decisions of every plugin asked are kept."""
        reasons: list[str] = []
        decisions: list[Decision] = []
        rejecter = ""
        for plugin in self._post_filter:
            try:
                result = plugin.post_filter(cycle, verdicts, view)
            except Exception as error:
                result = PostFilterResult(self._broken(plugin, "PostFilter", error))
            decisions.extend(result.decisions)
            status = result.status
            if status.is_success or not status.is_rejection or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return PostFilterResult(status.by(plugin.name), result.nominated_node, tuple(decisions))
            reasons.extend(status.reasons)
            rejecter = rejecter or plugin.name
        return PostFilterResult(Status(Code.UNSCHEDULABLE, tuple(reasons), rejecter), None, tuple(decisions))

    def pre_score(
        self, plugins: Sequence[ScorePlugin], cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView
    ) -> list[ScorePlugin | None] | Status:
        """The plugins to ask for scores, None in the place of one that skips; or an ERROR status."""
        asked: list[ScorePlugin | None] = []
        for plugin in plugins:
            try:
                status = plugin.pre_score(cycle, nodes, view)
            except Exception as error:
                status = self._broken(plugin, "PreScore", error)
            if status.code is Code.SKIP:
                asked.append(None)
            elif status.code is Code.SUCCESS:
                asked.append(plugin)
            else:
                return _as_error(status, plugin, "PreScore")
        return asked

    def score(
        self, plugins: Sequence[ScorePlugin | None], cycle: Cycle, node: NodeInfo, view: ClusterView
    ) -> tuple[int, ...] | Status:
        """Raw scores in the order of `plugins`, 0 where one skips; or an ERROR status."""
        scores: list[int] = []
        for plugin in plugins:
            try:
                scores.append(plugin.score(cycle, node, view) if plugin is not None else 0)
            except Exception as error:
                assert plugin is not None
                return self._broken(plugin, "Score", error).by(plugin.name)
        return tuple(scores)

    def normalize_score(
        self, plugin: ScorePlugin, cycle: Cycle, score_by_node: dict[NodeName, int]
    ) -> dict[NodeName, int] | Status:
        """The scores brought to 0..100 and weighted; or an ERROR status."""
        try:
            plugin.normalize_score(cycle, score_by_node)
        except Exception as error:
            return self._broken(plugin, "NormalizeScore", error).by(plugin.name)
        for node, score in score_by_node.items():
            if not 0 <= score <= NODE_SCORE_MAX:
                text = f'plugin "{plugin.name}" returns an invalid score {score} for node {node}, not in 0..100'
                return Status(Code.ERROR, (text,), plugin.name)
            score_by_node[node] = score * plugin.weight
        return score_by_node

    def reserve(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> ReserveResult:
        """Run Reserve; on a failure the plugins that already reserved are the caller's to unreserve."""
        held: tuple[Held, ...] = ()
        of_node: tuple[NodeAllocatableClaim, ...] = ()
        for plugin in self._reserve:
            try:
                result = plugin.reserve(cycle, node, view)
            except Exception as error:
                result = ReserveResult(self._broken(plugin, "Reserve", error))
            if not result.status.is_success:
                return ReserveResult(result.status.by(plugin.name))
            held += result.held
            of_node += result.of_node
        return ReserveResult(SUCCESS, held, of_node)

    def unreserve(self, cycle: Cycle, node: NodeName, view: ClusterView) -> tuple[Decision, ...]:
        """Run Unreserve in reverse order. A plugin that fails is passed over: the others must still undo."""
        decisions: list[Decision] = []
        for plugin in reversed(self._reserve):
            try:
                decisions.extend(plugin.unreserve(cycle, node, view))
            except Exception as error:
                self._broken(plugin, "Unreserve", error)
        return tuple(decisions)

    def permit(self, cycle: Cycle, node: NodeName, view: ClusterView) -> PermitResult:
        """SUCCESS, WAIT with the longest timeout asked for, or the first rejection."""
        waiting: PermitResult | None = None
        for plugin in self._permit:
            try:
                result = plugin.permit(cycle, node, view)
            except Exception as error:
                result = PermitResult(self._broken(plugin, "Permit", error))
            if result.status.code is Code.WAIT:
                if waiting is None or result.timeout_ms > waiting.timeout_ms:
                    waiting = PermitResult(result.status.by(plugin.name), result.timeout_ms)
            elif result.status.code is not Code.SUCCESS:
                return PermitResult(result.status.by(plugin.name))
        return waiting or PERMITTED

    def pre_bind(self, cycle: Cycle, node: NodeName, view: ClusterView) -> PreBindStep:
        """The first step that is not done, so that all are done at the same instant when this says done."""
        events: tuple[RecordEvent, ...] = ()
        for plugin in self._pre_bind:
            try:
                step = plugin.pre_bind(cycle, node, view)
            except Exception as error:
                step = PreBindFailed(self._broken(plugin, "PreBind", error))
            match step:
                case PreBindDone():
                    if step.events:
                        events += step.events
                case PreBindFailed():
                    return PreBindFailed(step.status.by(plugin.name), events + step.events)
                case PreBindWait():
                    return structs.replace(step, events=events + step.events) if events else step
                case PreBindWrite():
                    return PreBindWrite(events + step.decisions, step.is_last) if events else step
        return PreBindDone(events) if events else PRE_BIND_DONE

    def post_bind(self, cycle: Cycle, node: NodeName, view: ClusterView) -> tuple[Decision, ...]:
        """Run PostBind; nothing can fail any more, a plugin that breaks is passed over."""
        decisions: list[Decision] = []
        for plugin in self._post_bind:
            try:
                decisions.extend(plugin.post_bind(cycle, node, view))
            except Exception as error:
                self._broken(plugin, "PostBind", error)
        return tuple(decisions)

    def _broken(self, plugin: Plugin, point: str, error: Exception) -> Status:
        if self._is_strict:
            raise error
        return Status(
            Code.ERROR, (f'running {point} plugin "{plugin.name}": {type(error).__name__}: {error}',), plugin.name
        )


def _prefixed(status: Status, text: str) -> Status:
    """An ERROR in upstream's words (framework/runtime/framework.go)."""
    return Status(Code.ERROR, (f"{text}: {status.message}",), status.plugin)


def _no_node_named(narrowing: Sequence[str]) -> Status:
    names = " ".join(sorted(narrowing))
    several = len(narrowing) > 1
    text = (
        f"node(s) didn't satisfy plugin(s) [{names}] simultaneously"
        if several
        else f"node(s) didn't satisfy plugin {names}"
    )
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,), narrowing[-1])


def _as_error(status: Status, plugin: Plugin, point: str) -> Status:
    if status.code is Code.ERROR:
        return status.by(plugin.name)
    return Status(Code.ERROR, (f'running {point} plugin "{plugin.name}": {status.message}',), plugin.name)
