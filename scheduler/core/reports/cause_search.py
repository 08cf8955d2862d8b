"""Why a pod fits no node, and which change would let it in: asked of the plugins, and of all of them anew.

Rules of this module
  1. A change is said to help only after all plugins, asked as if it were made, let the pod onto a node.
  2. The smallest that helps is said; one that harms others never before one that does not. Where none helps alone, two
     are tried: the plugin that refuses a node once the first is made says what the second may be.
  3. Pods that would end give back the claims that only they use.
  4. A group's pod is diagnosed with the other pods assumed on their nodes, in one go. Deleting those pods is never
     proposed. If more than one pod is unplaced, a fix helps when all that are needed fit on its node; where no node was
     asked, when they fit on those of the fix. Pods that it edits with this one lose their places, and must fit, too.

Not here: causes and changes themselves (`framework.diagnosis` and the plugins), when a pod gets its cause (`causes`).

Cost: O(nodes that refuse) look-ups, a close look at few nodes, `Limits.changes` dry runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Final, NamedTuple

from msgspec import Struct, field, structs

from scheduler.core.reports.equal_answers import EqualAnswers
from scheduler.core.reports.group_causes import UnplacedGroup, as_edited, labelled, of_group, values_of, whole_group
from scheduler.core.reports.pod_conditions import UNSCHEDULABLE
from scheduler.core.reports.room_causes import why_room
from scheduler.core.reports.two_changes import both, by_turns, few_of_a_kind
from scheduler.core.state.ground import Ground, Part
from scheduler.core.state.supposition import Otherwise, SupposedDevices
from scheduler.core.trying.attempt import Beside
from scheduler.core.trying.dry_run import DRY_RUN_STEPS, Asked, as_if
from scheduler.core.trying.feasibility import Feasibility
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import Limits, Pin
from scheduler.framework.plan import Plan, PreFiltered
from scheduler.framework.runner import Runner
from scheduler.framework.status import Code, Status
from scheduler.model.group import key_of_group
from scheduler.model.held import Held
from scheduler.model.keys import NodeName, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.model.owners import ends_in_vain
from scheduler.why.reasons import Diagnosis, Fix, Reason, Whom, removing

_NODES_ASKED: Final = 16
"""Nodes asked anew where no verdicts are remembered."""
_OTHER_NODES: Final = 10
"""Added to the size of a fix on other nodes than those that the pod names."""
_NAMES_A_STEP: Final = 10


class _Case(Struct):
    """One pod, and what has been found out so far."""

    runner: Runner
    pod: Pod
    limits: Limits
    group: UnplacedGroup | None = None
    values: frozenset[str | None] | None = None
    """Of the label that the group's nodes have in common; None where they need none."""
    equal: Hashable = None
    """Equal for pods with the same answer."""
    known: Diagnosis | None = None
    """That of an equal pod."""
    is_anywhere: bool = False
    """No node was asked: it is refused everywhere."""
    reasons: list[Reason] = field(default_factory=list)
    left: int = 0
    steps_left: int = 0
    asked: int = 0
    is_exhausted: bool = False

    def __post_init__(self) -> None:
        self.steps_left = self.limits.all_steps

    @property
    def beside(self) -> Beside | None:
        """The places of the others of its group."""
        return self.group.beside if self.group is not None else None

    def may_ask(self) -> bool:
        """Whether another change may be tried; then it is counted."""
        if self.left <= 0 or not self.has_steps:
            self.is_exhausted = True
            return False
        self.left -= 1
        self.asked += 1
        return True

    @property
    def has_steps(self) -> bool:
        """Whether another question may be asked; the last one may have cost more than was left."""
        return self.steps_left > 0

    def cycle(self, pod: Pod, wall_ms: int) -> Cycle:
        """A cycle with the steps of one question."""
        return Cycle(pod, wall_ms, max(0, min(self.limits.steps, self.steps_left)))

    def why(self, changes: Sequence[Fix] = (), also: Sequence[Fix] = ()) -> Diagnosis:
        is_exhausted = self.is_exhausted or not self.has_steps
        return Diagnosis(tuple(self.reasons), tuple(changes), tuple(also), self.asked, is_exhausted)


class _Supposed(NamedTuple):
    """Another pod of the group, where it would be, and with what."""

    pod: Pod
    node: NodeName
    given: Sequence[Held]


class CauseSearch(Part):
    """Looks for the cause of one pod at a time.

    Attributes:
        steps: What has been spent since its caller last set it to 0.
    """

    def __init__(self, ground: Ground, feasibility: Feasibility) -> None:
        super().__init__(ground)
        self._feasibility: Final = feasibility
        self._answers: Final = EqualAnswers(self._store)
        self.steps = 0

    def find(
        self, runner: Runner, pod: Pod, reason: str, limits: Limits, group: UnplacedGroup | None = None
    ) -> Iterator[Diagnosis | None]:
        """Why, last; before it None wherever this may pause. Nothing where no plugin can say.

        Args:
            reason: That of its condition; when it is not "Unschedulable", a plugin failed.
        """
        if group is None:
            case = _Case(runner, pod, limits)
            for why in self._find(case, reason):
                if why is not None and case.equal is not None:
                    self._answers.put(case.equal, pod, why)
                yield why
            return
        with group.beside.held() if group.beside is not None else nullcontext(True) as are_there:
            finding = self._find(_Case(runner, pod, limits, group, values_of(pod, group, self._store)), reason)
            why = next(filter(None, finding), None) if are_there else None
        if why is not None:
            yield why if group.nowhere is not None else of_group(why, group, pod)

    def _find(self, case: _Case, reason: str) -> Iterator[Diagnosis | None]:
        if (room := self._room(case.pod)) is not None:
            yield room
            return
        if case.group is not None and case.group.nowhere is not None:
            case.reasons.append(labelled(case.group.nowhere, self._store, case.limits))
        else:
            for _ in self._reasons_of(case, is_decided=reason == UNSCHEDULABLE):
                yield None
        if case.known is not None:
            yield case.known
        elif case.reasons:
            offered = [removing(fix, one) for one in case.reasons for fix in one.fixes]
            offered = self._worth_asking(case, offered)
            singles: list[Fix] = []
            yield from self._singles(case, offered, singles)
            if singles and self._weight(case.pod, singles[0])[0] < Whom.OTHERS:
                yield case.why(singles[:1], singles[1:])
            else:
                yield from self._pairs(case, offered, singles)

    def _room(self, pod: Pod) -> Diagnosis | None:
        """Why it waits, where others go for it, or for its group."""
        if self._view.preemption_of(pod.uid) is None:
            return None
        key = key_of_group(pod)
        pods = self._store.gangs.of(key) if key is not None else (pod.uid,)
        rooms = [one for uid in pods if (one := self._view.preemption_of(uid)) is not None]
        return why_room(rooms, self._store, str(key or ""))

    def _worth_asking(self, case: _Case, fixes: Iterable[Fix]) -> list[Fix]:
        """Those that are not in vain, in the order in which they are asked."""
        others = case.beside.by_pod.keys() if case.beside is not None else frozenset[PodUid]()
        useful = [one for one in fixes if others.isdisjoint(one.removed) and not self._is_vain(case.pod, one)]
        return sorted(useful, key=lambda fix: self._weight(case.pod, fix))

    def _singles(self, case: _Case, offered: Sequence[Fix], found: list[Fix]) -> Iterator[None]:
        """Those that help alone."""
        case.left = case.limits.changes
        for fix in offered:
            if any(one.same == fix.same for one in found):
                continue
            if not case.may_ask():
                return
            yield None
            if helping := self._helped(case, fix):
                found.append(helping)
                if len(found) > case.limits.also:
                    return

    def _pairs(self, case: _Case, offered: Sequence[Fix], singles: Sequence[Fix]) -> Iterator[Diagnosis | None]:
        """The first two that help together; last what was found without any.

        Args:
            singles: Those that help alone, and concern others, unlike any two that are tried then.
        """
        pairs: list[tuple[Fix, Fix]] = []
        if singles:
            offered = [one for one in offered if self._weight(case.pod, one)[0] < Whom.OTHERS]
        firsts, most = few_of_a_kind(offered), case.limits.firsts
        for first, name in by_turns(firsts, most):
            yield None
            pairs += self._seconds(case, first, name)
        case.is_exhausted |= len(firsts) < len(offered) or sum(len(one.on) for one in firsts) > most

        def weight(pair: tuple[Fix, Fix]) -> tuple[Whom, int]:
            (whom, size), (other_whom, other_size) = (self._weight(case.pod, one) for one in pair)
            return max(whom, other_whom), size + other_size

        if singles:
            pairs = [one for one in pairs if weight(one)[0] < Whom.OTHERS]
        case.left = case.limits.changes
        for first, second in sorted(pairs, key=weight):
            if not case.may_ask():
                break
            yield None
            if found := self._helped(case, both(first, second)):
                yield case.why((first, structs.replace(second, released=found.released)), singles[: case.limits.also])
                return
        yield case.why(singles[:1], singles[1:])

    def _is_vain(self, pod: Pod, fix: Fix) -> bool:
        return any(not one.is_deleting and ends_in_vain(one, pod) for one in self._ending(fix))

    def _weight(self, pod: Pod, fix: Fix) -> tuple[Whom, int]:
        """Whom it concerns, and how much it asks: the least first."""
        least, namespace = pod.spec.priority or 0, pod.metadata.namespace
        whose = [
            Whom.OTHERS if one.metadata.namespace != namespace else Whom.ABOVE
            for one in self._ending(fix)
            if one.metadata.namespace != namespace or (one.spec.priority or 0) > least
        ]
        return max([fix.whom, *whose]), fix.size

    def _ending(self, fix: Fix) -> list[Pod]:
        return [pod for uid in fix.removed if (pod := self._store.pods.get(uid)) is not None]

    # Reasons

    def _reasons_of(self, case: _Case, *, is_decided: bool) -> Iterator[None]:
        runner, cycle = case.runner, case.cycle(case.pod, self._timers.wall_ms)
        kept_out = runner.pre_enqueue(case.pod, self._view)
        if kept_out.is_rejection and (found := self._diagnose(case, cycle, kept_out.plugin, [])):
            case.reasons += found
            return
        filtered = self._pre_filter(case, cycle)
        while filtered.status.code is Code.UNFINISHED and case.has_steps:
            yield  # what it has counted is remembered
            cycle = case.cycle(case.pod, self._timers.wall_ms)
            filtered = self._pre_filter(case, cycle)
        yield
        if not filtered.status.is_success:
            case.reasons += self._diagnose(case, cycle, filtered.status.plugin, [])
            case.is_anywhere = True
            return
        plan = runner.plan(cycle, self._view, filtered)
        if isinstance(plan, Status):
            return
        if case.group is None:
            case.equal = self._answers.key(case.pod, plan.signature, case.limits, is_decided=is_decided)
            case.known = self._answers.of(case.equal, case.pod)
            if case.known is not None:
                return
        refused = self._refused(case, cycle, plan, filtered, is_decided=is_decided)
        yield
        if not refused:  # the only nodes that may be are not there
            refused = {plugin: [] for plugin in filtered.narrowing}
        pinning, pin = runner.pin(cycle) or ("", None)
        elsewhere: list[Reason] = []
        # The plugin asked last comes first: its nodes lack least.
        for plugin in [one for one in reversed(list(runner.plugins)) if one in refused]:
            nodes = refused[plugin]
            few = [one for one in nodes if one.name in pin.nodes] if pin is not None else nodes
            rest = [one for one in nodes if pin is not None and pin.cause and one.name not in pin.nodes]
            if few:
                found = self._diagnose(case, cycle, plugin, few)
                has_object = pin is not None and pin.cause
                case.reasons += [_pinned(one, pin) for one in found] if pin is not None and has_object else found
            if not few or (rest and plugin == pinning):
                elsewhere += self._diagnose(case, cycle, plugin, rest or nodes)
            yield
        if pin is None or not case.reasons:
            case.reasons += [one for one in elsewhere if pin is not None and one.kind == pin.kind] or elsewhere
            return
        # What other nodes lack is no cause where a pod is pinned to some; to unpin it may help, and that the pod itself
        # chose them is what to give up last.
        fixes = [fix for one in elsewhere if not pin.cause or one.kind == pin.kind for fix in one.fixes]
        more = 0 if pin.cause else _OTHER_NODES
        others = [structs.replace(fix, reason=None, more=fix.more + more) for fix in fixes]
        case.reasons[0] = structs.replace(case.reasons[0], fixes=(*case.reasons[0].fixes, *others))

    def _pre_filter(self, case: _Case, cycle: Cycle) -> PreFiltered:
        """In the steps of a turn; UNFINISHED: asked again, it goes on."""
        allowed, cycle.steps_left = cycle.steps_left, min(cycle.steps_left, self._settings.search_steps_per_turn)
        before = cycle.steps_left
        filtered = case.runner.pre_filter(cycle, self._view)
        spent = before - cycle.steps_left
        cycle.steps_left = max(0, allowed - spent)
        self._charge(case, DRY_RUN_STEPS + spent)
        return filtered

    def _diagnose(self, case: _Case, cycle: Cycle, name: str, nodes: list[NodeInfo]) -> list[Reason]:
        before = cycle.steps_left
        found = [*case.runner.diagnose(name, cycle, nodes, self._view, case.limits)]
        self._charge(case, 1 + before - cycle.steps_left)
        return found

    def _refused(
        self, case: _Case, cycle: Cycle, plan: Plan, filtered: PreFiltered, *, is_decided: bool
    ) -> dict[str, list[NodeInfo]]:
        """The nodes that refuse the pod, by plugin.

        Args:
            is_decided: Else a plugin failed, of which nothing is remembered.
        """
        if case.beside is not None:  # nothing is remembered of that
            first = [one.node for one in case.beside.by_pod.values()]
            names = dict.fromkeys([*first, *self._store.node_order])
            return self._refused_now(case, cycle, plan, filtered, names, is_decided=is_decided)
        infos = self._store.node_infos
        nodes: dict[str, list[NodeInfo]] = {}
        known: set[NodeName] = set()
        if plan.signature is not None and is_decided:
            for name, status in self._feasibility.refused(plan.signature):
                known.add(name)
                if name in infos:
                    nodes.setdefault(status.plugin, []).append(infos[name])
        self._charge(case, len(known) // _NAMES_A_STEP)
        # What pods elsewhere decide is remembered of no single node.
        others = (name for name in self._store.node_order if name not in known)
        for plugin, more in self._refused_now(case, cycle, plan, filtered, others, is_decided=is_decided).items():
            nodes.setdefault(plugin, []).extend(more)
        return nodes

    def _refused_now(
        self,
        case: _Case,
        cycle: Cycle,
        plan: Plan,
        filtered: PreFiltered,
        names: Iterable[NodeName],
        *,
        is_decided: bool,
    ) -> dict[str, list[NodeInfo]]:
        """The same of the first of these nodes, asked anew."""
        nodes: dict[str, list[NodeInfo]] = {}
        infos = self._store.node_infos
        for name in itertools.islice((one for one in names if filtered.allows(one) and one in infos), _NODES_ASKED):
            before = cycle.steps_left
            status = case.runner.verdict(plan, cycle, infos[name], self._view)
            self._charge(case, DRY_RUN_STEPS + before - cycle.steps_left)
            if status.is_rejection if is_decided else status.code is Code.ERROR:
                nodes.setdefault(status.plugin, []).append(infos[name])
        return nodes

    # Changes

    def _helped(self, case: _Case, change: Fix) -> Fix | None:
        """The change with all that goes with it, if all plugins let the pod onto one of its nodes then."""
        for name in change.on:
            asked = self._asked_again(case, change, name)
            if asked is not None and asked[0].is_success and self._all_fit(case, asked[1], name):
                return asked[1]
        return None

    def _all_fit(self, case: _Case, change: Fix, name: NodeName) -> bool:
        """Whether the other pods that the group needs fit then, too (rule 4), and all of it may be there."""
        group = case.group or whole_group(case.pod, self._store, self._view)
        if group is None:
            return True
        node, more = change.node or self._store.node_infos[name].node, group.needed - group.fit - 1
        value = (node.metadata.labels or {}).get(group.topology_key)
        if (case.values is not None and {*case.values, value} != {value}) or len(group.others) < more:
            return False
        beside: list[_Supposed] = []
        nodes = change.on if case.is_anywhere or case.group is None else (name,)
        with as_edited(case.pod, change, group, more, self._stakes) as (others, places):
            pods = (change.pod or case.pod, *others) if others else ()
            if any(case.runner.pre_enqueue(pod, self._view).is_rejection for pod in pods):
                return False
            return all(self._has_place(case, pod, change, (*nodes, *places), beside) for pod in pods)

    def _has_place(
        self, case: _Case, pod: Pod, change: Fix, nodes: Iterable[NodeName], beside: list[_Supposed]
    ) -> bool:
        """Whether the pod fits on one of these nodes, too; then it is there for the next."""
        for name in nodes:
            if not case.has_steps:
                return False
            with self._as_if(case, pod, change, self._store.node_infos[name], beside) as asked:
                given = asked.given()
            if asked.status.is_success:
                beside.append(_Supposed(pod, name, given))
                return True
        return False

    @contextmanager
    def _as_if(
        self, case: _Case, pod: Pod, change: Fix, info: NodeInfo, beside: Iterable[_Supposed] = ()
    ) -> Iterator[Asked]:
        """What all plugins say of a pod as if the change were made, and others had places and devices."""
        cycle = case.cycle(pod, self._timers.wall_ms)
        steps = cycle.steps_left
        held = [one for each in beside for one in each.given]
        claims = {one.key: one for one in change.claims}
        for one in held:  # whoever shares the claim gets the same devices
            if (claim := claims.get(one.claim) or self._view.claim(one.claim)) is not None:
                claims[one.claim] = replace(claim, allocation=one.allocation)
        released = tuple([one.allocation for one in change.released])
        otherwise = Otherwise(
            added=[one.pod for one in beside if one.node == info.name],
            removed=change.removed,
            devices=SupposedDevices(tuple([one.allocation for one in held]), released),
            node=change.node,
            claims=tuple(claims.values()),
            slices=change.slices,
            classes=change.classes,
        )
        with as_if(self._ground, case.runner, cycle, info, otherwise) as asked:
            yield asked
        copied = len(self._view.inventory.classes) if change.classes else 0
        self._charge(case, steps - cycle.steps_left + copied)

    def _seconds(self, case: _Case, first: Fix, name: NodeName) -> Iterator[tuple[Fix, Fix]]:
        """With what would have to be done besides, on a node: asked of the plugin that refuses it then."""
        if (asked := self._asked_again(case, first, name, reasons=True)) is not None:
            _, made, reasons = asked
            for reason in reasons:
                for second in self._worth_asking(case, [removing(fix, reason) for fix in reason.fixes]):
                    yield structs.replace(made, on=(name,)), second

    def _asked_again(
        self, case: _Case, change: Fix, name: NodeName, *, reasons: bool = False
    ) -> tuple[Status, Fix, list[Reason]] | None:
        """What the plugins say about a node as if the change were made, and the reasons of the one that refuses it.

        None where nothing is known for certain: what was released was given back meanwhile, or pods are to come there.
        """
        view, ground, info, runner = self._view, self._ground, self._store.node_infos.get(name), case.runner
        if not case.has_steps or info is None or ground.store.nominations.at(name, but=case.pod.uid):
            return None
        if any(all(one.allocation is not other for other in view.counted(one.uid)) for one in change.released):
            return None
        if change.removed:
            given_back = (*change.released, *runner.released(case.pod, info, change.removed, view))
            change = structs.replace(change, released=tuple({id(one.allocation): one for one in given_back}.values()))
        found: list[Reason] = []
        with self._as_if(case, change.pod or case.pod, change, info) as asked:
            if reasons and not asked.status.is_success:
                nodes = [asked.node] if asked.node is not None else []
                found += runner.diagnose(asked.status.plugin, asked.cycle, nodes, view, case.limits)
        return asked.status, change, found

    def _charge(self, case: _Case, steps: int) -> None:
        self.steps += max(0, steps)
        case.steps_left -= max(0, steps)


def _pinned(reason: Reason, pin: Pin) -> Reason:
    """What keeps the pod from the nodes to which it is pinned, with what pins it."""
    if reason.kind == pin.kind:
        return reason

    def with_pin(inner: Reason) -> Reason:
        return Reason(pin.kind, {"pin": pin.cause, "why": inner.sentence}, "and")

    fixes = [structs.replace(one, reason=with_pin(one.reason or reason)) for one in reason.fixes]
    return structs.replace(with_pin(reason), fixes=tuple(fixes))
