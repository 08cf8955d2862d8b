"""One pod asked of every node: what each plugin says, each node's score, and the message a person would read.

The live scheduler stops looking when it knows enough nodes, and remembers what it learnt. Here the same plugins are
called through the same runner, afresh, for all nodes.

Rules of this module
  1. Nothing changes: no devices are held, nothing is written.
  2. The pod's nominated node is asked whatever PreFilter's node names say, as it is in a scheduling cycle.
  3. When its steps are used up, it says of each node that is left that it was not looked at.

Not here: where objects come from (`one_pod`, `verdicts`), how answers are printed.

Cost: each Filter plugin once a node, each Score plugin once for every node that passes. A selector that costs much
takes some milliseconds for each device, so whoever lets others ask sets a bound.

Source: `schedulePod`, `findNodesThatFitPod`, `prioritizeNodes` of pkg/scheduler/schedule_one.go v1.36.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from scheduler.answering import go_on
from scheduler.core.machine import Machine
from scheduler.core.trying.dry_run import DryRuns, beside_nominated
from scheduler.core.trying.dry_run_memory import DryRunMemories
from scheduler.framework.api import PostFilterResult
from scheduler.framework.cycle import UNLIMITED_STEPS, Cycle
from scheduler.framework.evaluations import Row
from scheduler.framework.fit_error import NO_NODES, count_reasons, fit_error, not_named
from scheduler.framework.plan import Facts, Plan, PreFiltered
from scheduler.framework.preemption import Preemption
from scheduler.framework.runner import Runner
from scheduler.framework.status import SUCCESS, Code, Status
from scheduler.model.keys import NodeName
from scheduler.model.objects import Pod


@dataclass(slots=True)
class PodRuling:
    """What the scheduler says about a pod.

    Attributes:
        pre_enqueue: Why the pod is not queued; None when it is. Then nothing else was asked.
        pre_filtered: None where PreFilter was not run.
        nodes: The verdict of each node, by name; empty unless PreFilter passed.
        scores: For nodes that pass, by name: what each plugin gives, normalized and weighted. A plugin that has nothing
            to do is left out.
        failure: A plugin failed: then the pod is tried again, whatever the others say.
        fit_error: The message as far as the nodes make it; "" when a node passes.
        post_filter: What PostFilter adds to it.
        helped: What PostFilter found; None where it was not asked.
        tried: What preempting would take, or why it does not help, on nodes that preemption looked at.
        refused: The nodes that PostFilter gets: all.
        candidates: Those of them that could fit if pods were gone, as far as their verdicts show.
    """

    pre_enqueue: Status | None = None
    pre_filtered: PreFiltered | None = None
    nodes: dict[NodeName, Status] = field(default_factory=dict)
    scores: dict[NodeName, dict[str, int]] = field(default_factory=dict)
    nominated: NodeName | None = None
    failure: Status | None = None
    fit_error: str = ""
    post_filter: str = ""
    helped: PostFilterResult | None = None
    tried: dict[NodeName, Preemption | Status | None] = field(default_factory=dict)
    refused: frozenset[NodeName] = frozenset()
    candidates: frozenset[NodeName] = frozenset()

    @property
    def message(self) -> str:
        """The text of the FailedScheduling event and of the pod's condition; "" when a node passes."""
        return f"{self.fit_error} {self.post_filter}" if self.post_filter else self.fit_error

    @property
    def totals(self) -> dict[NodeName, int]:
        """Of nodes that pass."""
        return {name: sum(of_plugin.values()) for name, of_plugin in self.scores.items()}

    @property
    def choices(self) -> list[NodeName]:
        """The nodes the pod may go to: its nominated node if that passes, else those of the highest total."""
        if self.nominated in self.scores:
            return [self.nominated]
        totals = self.totals
        return [name for name, total in totals.items() if total == max(totals.values())]


NOT_LOOKED_AT: Final = Status(
    Code.UNFINISHED,
    ("not looked at: the steps for this question are used up; dra-scheduler explain -o wide looks at all nodes",),
)


class EveryNode:
    """Asks about pods of the store of a machine, which need not have been started.

    Args:
        steps_max: Steps of costly searches for all that is asked; a step is about 4 us.

    Attributes:
        steps_left: Of these; whoever asks the machine in another way for the same question takes from them, too.
    """

    def __init__(self, machine: Machine, now_ms: int, steps_max: int = UNLIMITED_STEPS) -> None:
        self._machine: Final = machine
        self._now_ms: Final = now_ms
        self.steps_left = steps_max
        self.view: Final = machine.ground.view

    def answer(self, runner: Runner, pod: Pod, *, has_run: bool = False) -> PodRuling:
        """What the plugins of a profile say of a pod; whether one that `has_run` is queued is no question any more."""
        status = runner.pre_enqueue(pod, self.view)
        if not (status.is_success or has_run):
            return PodRuling(pre_enqueue=status, fit_error=status.message)
        answer, infos = PodRuling(), self._machine.store.node_infos
        if not infos:
            answer.fit_error = NO_NODES
            return answer
        cycle, filtered = self.begin(runner, pod)
        answer.pre_filtered = filtered
        if filtered.status.is_rejection:
            answer.fit_error = fit_error(len(infos), pre_filter=filtered.status.message)
        elif not filtered.status.is_success:
            answer.failure = filtered.status
        else:
            self._ask_nodes(answer, runner, cycle, filtered)
        if answer.failure is not None:
            answer.fit_error = answer.failure.message
        elif answer.fit_error and runner.has_post_filter and not pod.spec.node_name:
            self._post_filter(answer, runner, cycle)
        return answer

    def begin(self, runner: Runner, pod: Pod) -> tuple[Cycle, PreFiltered]:
        """Ask PreFilter; NOT_LOOKED_AT where the steps do not suffice."""
        go_on()
        cycle = Cycle(pod, self._now_ms, self.steps_left)
        filtered = runner.pre_filter(cycle, self.view)
        self.steps_left = max(0, cycle.steps_left)
        if filtered.status.code is Code.UNFINISHED:
            filtered = PreFiltered(NOT_LOOKED_AT)
        return cycle, filtered

    def _post_filter(self, answer: PodRuling, runner: Runner, cycle: Cycle) -> None:
        assert answer.pre_filtered is not None
        ground, refusal = self._machine.ground, answer.pre_filtered.status
        verdicts = answer.nodes or dict.fromkeys(ground.store.node_order, refusal)
        memory = DryRunMemories(ground.store).of(runner, cycle.pod, None)
        dry_run = DryRuns(ground, runner, cycle, verdicts=verdicts, memory=memory)
        helped = answer.helped = runner.post_filter(cycle, verdicts, self.view, dry_run)
        answer.tried = {name: one.outcome for name, one in memory.all().items()}
        answer.refused, answer.candidates = frozenset(verdicts), frozenset(dry_run.candidates())
        answer.post_filter = helped.status.message

    def _ask_nodes(self, answer: PodRuling, runner: Runner, cycle: Cycle, filtered: PreFiltered) -> None:
        plan = runner.plan(cycle, self.view, filtered)
        if isinstance(plan, Status):
            answer.failure = plan
            return
        answer.nominated = NodeName(cycle.pod.status.nominated_node_name)
        answer.nodes = self.verdicts(runner, cycle, filtered, plan)
        failed = [status for status in answer.nodes.values() if status.code is Code.ERROR]
        fit = [name for name, status in answer.nodes.items() if status.is_success]
        if answer.nominated not in fit and failed:
            answer.failure = failed[0]
            return
        if not fit:
            reasons = count_reasons(answer.nodes.values())
            answer.fit_error = fit_error(len(answer.nodes), reasons=reasons)
        scores = self._scores(runner, cycle, plan, fit) if fit else {}
        if isinstance(scores, Status):
            answer.failure = scores
        else:
            answer.scores = scores

    def verdicts(self, runner: Runner, cycle: Cycle, filtered: PreFiltered, plan: Plan) -> dict[NodeName, Status]:
        """Of each node, in the order of names: SUCCESS, the first refusal, or NOT_LOOKED_AT."""
        store = self._machine.store
        elsewhere = not_named(filtered.narrowing)
        verdicts: dict[NodeName, Status] = {}
        for name in store.node_order:
            go_on()
            is_asked = filtered.node_names is None or name in filtered.node_names
            if not is_asked and name != cycle.pod.status.nominated_node_name:
                verdicts[name] = elsewhere
            elif cycle.steps_left <= 0:
                verdicts[name] = NOT_LOOKED_AT
            else:
                info = store.node_infos[name]
                status = beside_nominated(self._machine.ground, runner, cycle, info)
                if status is SUCCESS:
                    status = runner.verdict(plan, cycle, info, self.view)
                verdicts[name] = status if status.code is not Code.UNFINISHED else NOT_LOOKED_AT
        self.steps_left = max(0, cycle.steps_left)
        return verdicts

    def _scores(
        self, runner: Runner, cycle: Cycle, plan: Plan, fit: list[NodeName]
    ) -> dict[NodeName, dict[str, int]] | Status:
        infos = [self._machine.store.node_infos[name] for name in fit]
        asked = runner.pre_score(plan.scorers, cycle, infos, self.view)
        if isinstance(asked, Status):
            return asked
        scores: dict[NodeName, dict[str, int]] = {name: {} for name in fit}
        for place, plugin in enumerate(asked):
            if plugin is None:
                continue
            alone = Plan(None, scorers=Row((plugin,)), plain_scorers=int(place < plan.plain_scorers))
            raw: dict[NodeName, int] = {}
            for info in infos:
                vector = runner.score(alone, (plugin,), cycle, info, self.view)
                if isinstance(vector, Status):
                    return vector
                raw[info.name] = vector[-1]
            of_plugin: Mapping[NodeName, int] | Status = raw
            for normalizing in alone.normalizing:
                of_plugin = runner.normalize_score(normalizing, cycle, raw)
            if isinstance(of_plugin, Status):
                return of_plugin
            for name, score in of_plugin.items():
                scores[name][plugin.name] = score
        failure = self._score_facts(runner, cycle, plan, scores)
        return scores if failure is None else failure

    def _score_facts(
        self, runner: Runner, cycle: Cycle, plan: Plan, scores: dict[NodeName, dict[str, int]]
    ) -> Status | None:
        """Add what the plugins give that score facts."""
        known: dict[NodeName, Facts] = {}
        for name in scores if plan.fact_scorers else ():
            facts = runner.facts(plan, cycle, self._machine.store.node_infos[name], self.view)
            if isinstance(facts, Status):
                return facts
            known[name] = facts
        for column, plugin in plan.fact_scorers:
            of_plugin = runner.score_facts(plugin, cycle, Counter(facts[column] for facts in known.values()), self.view)
            if isinstance(of_plugin, Status):
                return of_plugin
            for name, facts in known.items():
                if of_plugin:
                    scores[name][plugin.name] = of_plugin.get(facts[column], 0)
        return None
