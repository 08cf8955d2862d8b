"""The runner: calls the plugins of one profile in order, and signs what they say.

Rules of this module
  1. Plugins are called in profile order; the first rejection or error ends an extension point (PreFilter goes on after
     UNSCHEDULABLE, as upstream does, because preemption may follow).
  2. Every status that leaves here carries the name of the plugin that gave it.
  3. An exception of a plugin is an ERROR status for this pod and never stops the others; `is_strict` (tests) lets it
     out.

Not here: which plugins take part in a cycle (`plans`), which nodes are asked (`core.feasibility`), when
(`core.scheduling_cycle`, `core.binding_cycle`).

Source: pkg/scheduler/framework/runtime/framework.go v1.36.3.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence, Set
from typing import Final

from msgspec import structs

from scheduler.framework.api import (
    PRE_BIND_DONE,
    PRE_FILTER_SKIPPED,
    PRE_FILTERED,
    ClusterEvent,
    FactFilterPlugin,
    FactScorePlugin,
    FilterPlugin,
    Hint,
    NormalizeScorePlugin,
    Plugin,
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
    ReleasingPlugin,
    ReservePlugin,
    ReserveResult,
    ScorePlugin,
    TargetedHints,
)
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.decisions import Decision, RecordEvent
from scheduler.framework.diagnosis import DiagnosingPlugin, Limits, Pin, PinningPlugin
from scheduler.framework.evaluations import Evaluations, Row
from scheduler.framework.fit_error import not_named
from scheduler.framework.plan import Facts, Plan, PreFiltered
from scheduler.framework.plans import NoSignatureError, Plans
from scheduler.framework.preemption import DryRun
from scheduler.framework.profiles import check_profile
from scheduler.framework.status import SKIP, SUCCESS, Code, Status
from scheduler.model.held import Held
from scheduler.model.keys import NodeName, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import NodeAllocatableClaim, Pod
from scheduler.model.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.why.reasons import Reason

NODE_SCORE_MAX: Final = 100


class Runner:
    """The plugins of one profile, ready to be called."""

    def __init__(self, profile: Profile, *, is_strict: bool = False) -> None:
        check_profile(profile)
        self.profile: Final = profile
        self.scheduler_name: Final = profile.scheduler_name
        self.plugins: Final = {plugin.name: plugin for plugin in profile.plugins}
        self.is_strict: Final = is_strict
        self._pre_enqueue: Final = tuple(p for p in profile.at("PreEnqueue") if isinstance(p, PreEnqueuePlugin))
        self._pre_filter: Final = Row(p for p in profile.at("PreFilter") if isinstance(p, PreFilterPlugin))
        self._releasing: Final = tuple(p for p in profile.plugins if isinstance(p, ReleasingPlugin) and p.releases)
        self.releasing: Final = frozenset(plugin.name for plugin in self._releasing)
        """Plugins that may change a refusal for good when pods are gone."""
        self._post_filter: Final = tuple(p for p in profile.at("PostFilter") if isinstance(p, PostFilterPlugin))
        self._reserve: Final = tuple(p for p in profile.at("Reserve") if isinstance(p, ReservePlugin))
        # Backwards: what DynamicResources writes can be taken back, a volume that is made for a node cannot.
        self._pre_bind: Final = tuple(p for p in reversed(profile.at("PreBind")) if isinstance(p, PreBindPlugin))
        self.evaluations: Final = Evaluations(self._pre_filter)
        self._filter: Final = tuple(p for p in profile.at("Filter") if isinstance(p, FilterPlugin | FactFilterPlugin))
        self._score: Final = tuple(p for p in profile.at("Score") if isinstance(p, ScorePlugin | FactScorePlugin))
        self._plans: Final = Plans(profile.scheduler_name, self._filter, self._score, self.evaluations)
        self._passed: Final[dict[tuple[str, ...], PreFiltered]] = {}

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
        possible_nodes: Set[NodeName] | None = None
        rejection: Status | None = None
        for plugin in self._pre_filter:
            try:
                result = plugin.pre_filter(cycle, view)
                if result is PRE_FILTER_SKIPPED:
                    skipped.append(plugin.name)
                    continue  # most of them
                if result is PRE_FILTERED:
                    continue
                status, names, hope = result.status, result.node_names, result.possible_nodes
                if status is not SUCCESS and status.code is Code.ERROR:
                    status = _prefixed(status, f'running PreFilter plugin "{plugin.name}"')
            except Exception as error:
                status, names, hope = self._broken(plugin, "PreFilter", error), None, None
            if status is SKIP or status.code is Code.SKIP:
                skipped.append(plugin.name)
            elif status is SUCCESS or status.code is Code.SUCCESS:
                if hope is not None:
                    possible_nodes = hope if possible_nodes is None else possible_nodes & hope
                if names is not None:
                    narrowing.append(plugin.name)
                    node_names = names if node_names is None else node_names & names
                    if not node_names:
                        self.evaluations.pre_filter_ended(plugin.name, skipped)
                        return PreFiltered(_no_node_named(narrowing), narrowing=tuple(narrowing))
            elif status.code is Code.UNSCHEDULABLE:
                rejection = rejection or status.by(plugin.name)
            else:
                self.evaluations.pre_filter_ended(plugin.name, skipped)
                return PreFiltered(status.by(plugin.name))
        self._pre_filter.whole += 1
        names_skipped = tuple(skipped)
        passed = self._passed.get(names_skipped)
        if passed is None:  # few: the plugins that can skip, in profile order
            passed = self._passed[names_skipped] = PreFiltered(SUCCESS, frozenset(skipped))
        self.evaluations.left_out(passed.skipped)
        if rejection is None and node_names is None and possible_nodes is None:
            return passed
        return PreFiltered(rejection or SUCCESS, passed.skipped, node_names, tuple(narrowing), possible_nodes)

    def plan(self, cycle: Cycle, view: ClusterView, filtered: PreFiltered) -> Plan | Status:
        """Sort the plugins of this cycle by what their answers depend on. An ERROR status when a plugin fails."""
        try:
            return self._plans.of(cycle, view, filtered)
        except NoSignatureError as failed:
            return self._broken(failed.plugin, "PreFilter", failed.error)

    def filter(self, plugins: Row[FilterPlugin], cycle: Cycle, node: NodeInfo, view: ClusterView) -> Status:
        """SUCCESS, or the first verdict against `node`."""
        for plugin in plugins:
            try:
                status = plugin.filter(cycle, node, view)
            except Exception as error:
                plugins.ended[plugin.name] += 1
                return self._broken(plugin, "Filter", error)
            if status is not SUCCESS and status.code is not Code.SUCCESS:
                plugins.ended[plugin.name] += 1
                if status.code is Code.ERROR:
                    status = _prefixed(status, f'running "{plugin.name}" filter plugin')
                return status.by(plugin.name)
        plugins.whole += 1
        return SUCCESS

    def facts(self, plan: Plan, cycle: Cycle, node: NodeInfo, view: ClusterView) -> Facts | Status:
        """What the plan's fact plugins read of `node`; or an ERROR status."""
        facts: list[Hashable] = []
        for plugin in plan.fact_plugins:
            try:
                facts.append(plugin.fact(cycle, node, view))
            except Exception as error:
                return self._broken(plugin, "Filter", error)
        return tuple(facts)

    def filter_fact(self, plugin: FactFilterPlugin, cycle: Cycle, fact: Hashable, view: ClusterView) -> Status:
        """The plugin's verdict on nodes of `fact`."""
        self.evaluations.judged[plugin.name] += 1
        try:
            status = plugin.filter_fact(cycle, fact, view)
        except Exception as error:
            return self._broken(plugin, "Filter", error)
        if status is SUCCESS or status.code is Code.SUCCESS:
            return SUCCESS
        if status.code is Code.ERROR:
            status = _prefixed(status, f'running "{plugin.name}" filter plugin')
        return status.by(plugin.name)

    def lookups(self, plugin: FactFilterPlugin | FactScorePlugin, cycle: Cycle) -> int:
        """What the plugin takes for a fact; 0 where it breaks, as it then does for facts, too."""
        try:
            return plugin.lookups(cycle)
        except Exception as error:
            self._broken(plugin, "Filter", error)
            return 0

    def moment(self, plugin: FactFilterPlugin, cycle: Cycle, view: ClusterView) -> Hashable:
        """What the plugin's verdicts on facts depend on; another each time where it breaks."""
        try:
            return plugin.moment(cycle, view)
        except Exception as error:
            self._broken(plugin, "Filter", error)
            return object()

    def verdict(self, plan: Plan, cycle: Cycle, node: NodeInfo, view: ClusterView) -> Status:
        """What the first in order of the plan's plugins that filter says against `node` now; nothing is remembered."""
        status = self.filter(plan.filters, cycle, node, view)
        if status is not SUCCESS or not plan.fact_plugins:
            return status
        facts = self.facts(plan, cycle, node, view)
        if isinstance(facts, Status):
            return facts
        for (place, plugin), after in zip(plan.fact_filters, plan.late_parts, strict=True):
            status = self.filter_fact(plugin, cycle, facts[place], view)
            if status is SUCCESS and after:
                status = self.filter(after, cycle, node, view)
            if status is not SUCCESS:
                return status
        return SUCCESS

    def ask(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> tuple[PreFiltered, Status]:
        """What all plugins that filter say about `node`, from PreFilter on."""
        filtered = self.pre_filter(cycle, view)
        if not filtered.status.is_success:
            return filtered, filtered.status
        if not filtered.allows(node.name):
            return filtered, not_named(filtered.narrowing)
        plan = self.plan(cycle, view, filtered)
        return filtered, plan if isinstance(plan, Status) else self.verdict(plan, cycle, node, view)

    def diagnose(
        self, name: str, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits
    ) -> Sequence[Reason]:
        """What a plugin says of nodes that it refused, no nodes where PreFilter did; nothing when it cannot say."""
        plugin: object = self.plugins.get(name)
        if not isinstance(plugin, DiagnosingPlugin):
            return ()
        try:
            return plugin.diagnose(cycle, nodes, view, limits)
        except Exception:
            if self.is_strict:
                raise
            return ()

    def pin(self, cycle: Cycle) -> tuple[str, Pin] | None:
        """What pins the pod to few nodes, and the plugin that says so; an object rather than the pod's own choice."""
        pinning = [one for one in self.plugins.values() if isinstance(one, PinningPlugin)]
        found = [(one.name, pin) for one in pinning if (pin := one.pin(cycle)) is not None]
        return max(found, key=lambda one: bool(one[1].cause), default=None)

    def post_filter(
        self, cycle: Cycle, verdicts: Mapping[NodeName, Status], view: ClusterView, dry_run: DryRun
    ) -> PostFilterResult:
        """The first plugin that helps, or all reasons why none does. Decisions of every plugin asked are kept."""
        reasons: list[str] = []
        decisions: list[Decision] = []
        rejecter = ""
        nominated: NodeName | None = None
        for plugin in self._post_filter:
            try:
                result = plugin.post_filter(cycle, verdicts, view, dry_run)
            except Exception as error:
                result = PostFilterResult(self._broken(plugin, "PostFilter", error))
            decisions.extend(result.decisions)
            status = result.status
            if status.is_success or not status.is_rejection or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return PostFilterResult(
                    status.by(plugin.name), result.nominated_node, tuple(decisions), result.preemption
                )
            reasons.extend(status.reasons)
            rejecter = rejecter or plugin.name
            nominated = nominated if result.nominated_node is None else result.nominated_node
        return PostFilterResult(Status(Code.UNSCHEDULABLE, tuple(reasons), rejecter), nominated, tuple(decisions))

    @property
    def has_post_filter(self) -> bool:
        return bool(self._post_filter)

    def may_help(self, cycle: Cycle, node: NodeInfo, status: Status, view: ClusterView) -> bool:
        """Whether a node that was refused for good might fit if pods were gone from it."""
        return any(one.may_help(cycle, node, status, view) for one in self._releasing if one.name == status.plugin)

    def released(self, pod: Pod, node: NodeInfo, removed: Collection[PodUid], view: ClusterView) -> tuple[Held, ...]:
        """Claims that nobody would use any more if `removed` were gone."""
        return tuple(held for one in self._releasing for held in one.released(pod, node, removed, view))

    def given(self, cycle: Cycle, node: NodeInfo) -> tuple[Held, ...]:
        """What the pod's claims would be given on a node that Filter has just passed."""
        return tuple(held for one in self._releasing for held in one.given(cycle, node))

    def pre_score(
        self, plugins: Row[ScorePlugin], cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView
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
                plugins.left_out(plugin.name, len(nodes))
            elif status.code is Code.SUCCESS:
                asked.append(plugin)
            else:
                return _as_error(status, plugin, "PreScore")
        plugins.whole += 1
        plugins.nodes += len(nodes)
        return asked

    def score(
        self, plan: Plan, scorers: Sequence[ScorePlugin | None], cycle: Cycle, node: NodeInfo, view: ClusterView
    ) -> tuple[int, ...] | Status:
        """The weighted sum of the scores that are not normalized, the other raw ones, the rank; or an ERROR status.

        Args:
            scorers: What `pre_score` said about the plan's; one that skips scores 0.
        """
        total = 0
        raws: list[int] = []
        for place, plugin in enumerate(scorers):
            try:
                score = plugin.score(cycle, node, view) if plugin is not None else 0
            except Exception as error:
                assert plugin is not None
                return self._broken(plugin, "Score", error)
            if place >= plan.plain_scorers:
                raws.append(score)
            elif plugin is not None:
                if not 0 <= score <= NODE_SCORE_MAX:
                    return _invalid_score(plugin.name, score, f" for node {node.name}")
                total += score * plugin.weight
        if plan.ranker is None:
            return (total, *raws)
        try:
            return (total, *raws, *plan.ranker.rank(cycle, node, view))
        except Exception as error:
            return self._broken(plan.ranker, "Score", error)

    def normalize_score(
        self, plugin: NormalizeScorePlugin, cycle: Cycle, score_by_node: dict[NodeName, int]
    ) -> dict[NodeName, int] | Status:
        """The scores brought to 0..100 and weighted; or an ERROR status."""
        try:
            plugin.normalize_score(cycle, score_by_node)
        except Exception as error:
            return self._broken(plugin, "NormalizeScore", error)
        for node, score in score_by_node.items():
            if not 0 <= score <= NODE_SCORE_MAX:
                return _invalid_score(plugin.name, score, f" for node {node}")
            score_by_node[node] = score * plugin.weight
        return score_by_node

    def score_facts(
        self, plugin: FactScorePlugin, cycle: Cycle, facts: Mapping[Hashable, int], view: ClusterView
    ) -> dict[Hashable, int] | Status:
        """The weighted scores by fact, without those that are 0 for all; or an ERROR status."""
        self.evaluations.scored[plugin.name] += 1
        try:
            scores = plugin.score_facts(cycle, facts, view)
        except Exception as error:
            return self._broken(plugin, "Score", error)
        for score in scores.values():
            if not 0 <= score <= NODE_SCORE_MAX:
                return _invalid_score(plugin.name, score, "")
        return {fact: score * plugin.weight for fact, score in scores.items()}

    def reserve(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> ReserveResult:
        """Run Reserve; on a failure the plugins that already reserved are the caller's to unreserve."""
        held: tuple[Held, ...] = ()
        of_node: tuple[NodeAllocatableClaim, ...] = ()
        volumes: tuple[PersistentVolume | PersistentVolumeClaim, ...] = ()
        for plugin in self._reserve:
            try:
                result = plugin.reserve(cycle, node, view)
            except Exception as error:
                result = ReserveResult(self._broken(plugin, "Reserve", error))
            if not result.status.is_success:
                return ReserveResult(result.status.by(plugin.name))
            held += result.held
            of_node += result.of_node
            volumes += result.volumes
        return ReserveResult(SUCCESS, held, of_node, volumes)

    def unreserve(self, cycle: Cycle, node: NodeName, view: ClusterView) -> tuple[Decision, ...]:
        """Run Unreserve in reverse order. A plugin that fails is passed over: the others must still undo."""
        decisions: list[Decision] = []
        for plugin in reversed(self._reserve):
            try:
                decisions.extend(plugin.unreserve(cycle, node, view))
            except Exception as error:
                self._broken(plugin, "Unreserve", error)
        return tuple(decisions)

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

    def _broken(self, plugin: Plugin, point: str, error: Exception) -> Status:
        if self.is_strict:
            raise error
        return Status(
            Code.ERROR, (f'running {point} plugin "{plugin.name}": {type(error).__name__}: {error}',), plugin.name
        )


def _prefixed(status: Status, text: str) -> Status:
    """An ERROR in upstream's words (framework/runtime/framework.go)."""
    return Status(Code.ERROR, (f"{text}: {status.message}",), status.plugin)


def _invalid_score(plugin: str, score: int, where: str) -> Status:
    return Status(Code.ERROR, (f'plugin "{plugin}" returns an invalid score {score}{where}, not in 0..100',), plugin)


def _no_node_named(narrowing: Sequence[str]) -> Status:
    names = " ".join(sorted(narrowing))
    text = f"node(s) didn't satisfy plugin {names}"
    if len(narrowing) > 1:
        text = f"node(s) didn't satisfy plugin(s) [{names}] simultaneously"
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,), narrowing[-1])


def _as_error(status: Status, plugin: Plugin, point: str) -> Status:
    if status.code is Code.ERROR:
        return status.by(plugin.name)
    return Status(Code.ERROR, (f'running {point} plugin "{plugin.name}": {status.message}',), plugin.name)
