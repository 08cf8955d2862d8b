"""InterPodAffinity: near which pods a pod must or would rather be, and which it or they keep away.

Extension points: PreFilter, Filter, Score, NormalizeScore, RequeueHints.
Reads: affinity of the pod and of pods on nodes, labels of pods, nodes and namespaces.  Writes: nothing.
Upstream: pkg/scheduler/framework/plugins/interpodaffinity (same verdicts, scores, reasons; hints see more, below).

A node's fact is its values of the labels that terms name. Of a label whose values no two nodes share it is what pods on
the node itself answer: so with the host's name there are few facts, and not one for each node.

Hints differ on purpose, where upstream 1.36.3 leaves pods waiting: one anti-affinity term suffices, not all (#139161);
a deletion, or another label, may make the pod the first of its kind (#141354); `namespaceSelector` is looked at, also
when a namespace's labels change; and running pods' terms are asked about a new or relabelled node.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec import Struct

from scheduler.framework.api import (
    PRE_FILTER_SKIPPED,
    PRE_FILTERED,
    Action,
    ClusterEvent,
    Hint,
    PreFilterResult,
    Resource,
)
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import Limits
from scheduler.framework.pod_counts_view import (
    MatchingTerms,
    PodClause,
    PodCount,
    PodCountsView,
    PodQuestion,
)
from scheduler.framework.status import SUCCESS, UNFINISHED, Status
from scheduler.model.keys import NodeName
from scheduler.model.label_selectors import Selector
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Namespace, Node, Pod
from scheduler.model.pod_terms import PodTerm, Role, are_prepared, pod_terms, prepare, terms_of
from scheduler.plugins.affinity_hints import namespace_helps, node_helps, pod_helps
from scheduler.plugins.affinity_reasons import Rules, diagnose_pods
from scheduler.plugins.normalize import NODE_SCORE_MAX
from scheduler.plugins.pod_questions import ask_ahead, charge, too_many
from scheduler.validation.field_errors import FieldError, invalid
from scheduler.why.reasons import Reason

NAME: Final = "InterPodAffinity"
REASON_AFFINITY: Final = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING: Final = "node(s) didn't satisfy existing pods anti-affinity rules"
TERMS: Final = "pod affinity and anti-affinity terms"
_NO_LABELS: Final[Mapping[str, str]] = {}


class OwnTerm(Struct, frozen=True):
    """A term of the pod: its weight, 0 for required ones, and the question that counts the pods it means."""

    weight: int
    question: PodQuestion


class OwnTerms(NamedTuple):
    """A pod's terms by role; the questions of required affinity count pods that all of these mean."""

    affinity: tuple[OwnTerm, ...]
    anti: tuple[OwnTerm, ...]
    preferred: tuple[OwnTerm, ...]


class AffinitySlot(Struct, frozen=True):
    """Everything that decides about the pod.

    Attributes:
        affinity: Required; each question counts pods that all of these terms mean.
        is_first: Whether the pod matches all of `affinity` itself.
        anti, preferred: The pod's other terms.
        existing: Terms of pods on nodes that mean this pod.
        is_scored_by_them: Whether those of them that are not required anti-affinity give a score.
        unique: Those of all their labels of which no two nodes share a value.
        shared: The other labels.
    """

    affinity: tuple[OwnTerm, ...]
    is_first: bool
    anti: tuple[OwnTerm, ...]
    preferred: tuple[OwnTerm, ...]
    existing: MatchingTerms
    is_scored_by_them: bool
    unique: frozenset[str]
    shared: tuple[str, ...]


class AffinityQuery(NamedTuple):
    """What one cycle asks of facts: places are those of labels in `Fact.values`.

    Args:
        near: Counts of required affinity, by place; `is_let_in`: there is none of them anywhere, and it is the first.
        far, preferred: Counts of the pod's other terms; those with their weight.
        refusing: By place the values where pods keep the pod away.
        adding: By place and value what pods there add to the score.
        others: Further counts that this depends on.
    """

    near: Sequence[tuple[int, int, PodCount]]
    is_let_in: bool
    far: Sequence[tuple[int, int, PodCount]]
    preferred: Sequence[tuple[int, int, PodCount]]
    refusing: Sequence[tuple[int, Mapping[str, int]]]
    adding: Sequence[tuple[int, int, Mapping[str, int]]]
    others: Sequence[PodCount]


class Fact(NamedTuple):
    """Of a node.

    Args:
        values: Of the shared labels, in their order.
        has_labels: Whether it has all labels of required affinity.
        has_near: Whether a pod on it satisfies required affinity as far as labels are unique; None: there is no such.
        has_far, has_refusing: Whether a pod on it is one that the pod keeps away from, or that keeps the pod away, by
            unique labels.
        score: What pods on it add by unique labels.
    """

    values: tuple[str | None, ...]
    has_labels: bool
    has_near: bool | None
    has_far: bool
    has_refusing: bool
    score: int


@dataclass(frozen=True, slots=True)
class InterPodAffinity:
    """Reject nodes by required terms of the pod and of pods on nodes; score by all others.

    Args:
        hard_pod_affinity_weight: What a running pod's required affinity to the pod adds to its domain's score, 0..100.
        ignore_preferred_terms_of_existing_pods: Pods without preferred terms of their own are not scored.
    """

    weight: int = 2
    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False
    name: str = NAME
    wakes_on: tuple[tuple[Resource, Action], ...] = (
        (Resource.ASSIGNED_POD, Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE),
        (Resource.POD, Action.UPDATE_POD_LABEL),
        (Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
        (Resource.NAMESPACE, Action.ADD | Action.UPDATE | Action.DELETE),
    )

    def pre_filter(self, cycle: Cycle, view: ClusterView) -> PreFilterResult:
        counts, pod = view.pod_counts, cycle.pod
        before = counts.steps
        meta = pod.metadata
        meaning = counts.terms_meaning(meta.namespace, meta.labels or _NO_LABELS, cycle.steps_left)
        if meaning is None:
            charge(cycle, counts, before)
            return PreFilterResult(UNFINISHED)
        is_prepared, steps = prepare(pod, cycle.steps_left)
        cycle.steps_left -= steps
        if not is_prepared:
            return PreFilterResult(UNFINISHED)
        own = pod_terms(pod)
        if not own and not meaning.terms:
            return PRE_FILTER_SKIPPED
        selected = _selecting(own)
        if selected and not counts.prepare_namespaces(selected, cycle.steps_left):
            charge(cycle, counts, before)
            return PreFilterResult(UNFINISHED)
        refusal = too_many(len({one.topology_key for one in terms_of(own, Role.REQUIRED_AFFINITY)}), TERMS)
        if refusal is not None:
            return refusal
        terms = _own_terms(own, view)
        charge(cycle, counts, before)
        questions = [one.question for one in (*terms.affinity, *terms.anti, *terms.preferred)]
        others = frozenset[str]().union(*meaning.keys.values()) if meaning.terms else ()
        unanswered = ask_ahead(cycle, counts, questions, what=TERMS, other_keys=others)
        if unanswered is not None:
            return unanswered
        slot = self._slot(pod, terms, meaning, view)
        if not (own or slot.is_scored_by_them or Role.REQUIRED_ANTI_AFFINITY in meaning.keys):
            return PRE_FILTER_SKIPPED
        cycle.put(slot)
        before = counts.steps
        if slot.shared and meaning.terms and not counts.prepare_sums(meaning, slot.shared, cycle.steps_left):
            charge(cycle, counts, before)
            return PreFilterResult(UNFINISHED)
        cycle.put(self._asked(slot, counts))
        if counts.steps != before:
            charge(cycle, counts, before)
        possible = _possible_nodes(slot, counts)
        return PRE_FILTERED if possible is None else PreFilterResult(SUCCESS, possible_nodes=possible)

    def signature(self, cycle: Cycle, view: ClusterView) -> Hashable | None:
        slot, pod = cycle.get(AffinitySlot), cycle.pod
        packed = pod.packed_affinity
        if packed is None:
            return slot
        # A signature is kept while pods of it wait. What their terms mean follows from their text, which is kept
        # anyway.
        selected = [view.pod_counts.namespaces_matching(*one) for one in _selecting(pod_terms(pod))]
        found = slot.is_first, slot.existing, slot.is_scored_by_them, slot.unique, slot.shared
        return pod.metadata.namespace, packed.pods, tuple(selected), *found

    def fact(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> Hashable:
        slot, labels, counts = cycle.get(AffinitySlot), node.node.labels, view.pod_counts
        unique = slot.unique
        if not unique:  # the commonest: terms by zone; the rest follows from the values
            has_labels = all(one.question.key in labels for one in slot.affinity)
            return Fact(tuple([labels.get(key) for key in slot.shared]), has_labels, None, False, False, 0)

        def here(term: OwnTerm) -> int:
            """Pods on this node, where they stand for all with its value of a unique label."""
            key = term.question.key
            return counts.count(term.question).on_node(node) if key in unique and key in labels else 0

        def is_alone(term: PodTerm) -> bool:
            return term.topology_key in unique and term.topology_key in labels

        near = [here(one) > 0 for one in slot.affinity if one.question.key in unique]
        there = node.pod_terms
        with_terms = [(one, there[one]) for one in there if one in slot.existing and is_alone(one)] if there else []
        cycle.charge(len(there) + len(slot.affinity) + len(slot.anti) + len(slot.preferred))
        return Fact(
            tuple(labels.get(key) for key in slot.shared),
            all(one.question.key in labels for one in slot.affinity),
            all(near) if near else None,
            any(here(one) for one in slot.anti),
            any(one.role is Role.REQUIRED_ANTI_AFFINITY for one, _ in with_terms),
            sum(one.weight * here(one) for one in slot.preferred)
            + (sum(self._weight(one) * pods for one, pods in with_terms) if slot.is_scored_by_them else 0),
        )

    def filter_fact(self, cycle: Cycle, fact: Hashable, view: ClusterView) -> Status:
        assert isinstance(fact, Fact)
        slot, asked, values = cycle.get(AffinitySlot), cycle.get(AffinityQuery), fact.values
        if slot.affinity:
            if not fact.has_labels:
                return Status.unresolvable(REASON_AFFINITY)
            if not asked.is_let_in and not (fact.has_near is not False and _are_all_there(asked.near, values)):
                return Status.unresolvable(REASON_AFFINITY)
        if fact.has_far or (asked.far and _is_one_there(asked.far, values)):
            return Status.unschedulable(REASON_ANTI_AFFINITY)
        if fact.has_refusing or any(values[place] in there for place, there in asked.refusing):
            return Status.unschedulable(REASON_EXISTING)
        return SUCCESS

    def diagnose(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Reason]:
        slot = cycle.find(AffinitySlot)
        if slot is None:
            return ()
        near, far = ([one.question for one in terms] for terms in (slot.affinity, slot.anti))
        rules = Rules(near, far, slot.unique, slot.existing.__contains__)
        return diagnose_pods(cycle, nodes, view, limits, rules=rules)

    def moment(self, cycle: Cycle, view: ClusterView) -> Hashable:
        asked = cycle.get(AffinityQuery)
        counted = [count.version for _, _, count in (*asked.near, *asked.far)]
        return max([*counted, *(count.version for count in asked.others), view.pod_counts.terms_version])

    def lookups(self, cycle: Cycle) -> int:
        asked = cycle.get(AffinityQuery)
        filtering = len(asked.near) + len(asked.far) + len(asked.refusing)
        return max(filtering, len(asked.preferred) + len(asked.adding))

    def score_facts(self, cycle: Cycle, facts: Mapping[Hashable, int], view: ClusterView) -> Mapping[Hashable, int]:
        slot = cycle.get(AffinitySlot)
        if not slot.preferred and not slot.is_scored_by_them:
            return {}
        asked = cycle.get(AffinityQuery)
        raw = {fact: fact.score + _shared_score(asked, fact) for fact in facts if isinstance(fact, Fact)}
        smallest, largest = min(raw.values()), max(raw.values())
        if smallest == largest:
            return {}
        # In floating point, as upstream divides.
        return {
            fact: int(float(NODE_SCORE_MAX) * (float(score - smallest) / float(largest - smallest)))
            for fact, score in raw.items()
        }

    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        """Wake `pod` when a pod came that it must be near, one went that keeps away, a node came or moved, or a term
        may mean another namespace than before."""
        if not are_prepared(pod):
            return Hint.QUEUE  # it takes long to say, and PreFilter does it in parts
        own = pod_terms(pod)
        required = terms_of(own, Role.REQUIRED_AFFINITY), terms_of(own, Role.REQUIRED_ANTI_AFFINITY)
        if isinstance(change.old or change.new, Node):
            is_helped = node_helps(pod, *required, change, view)
        elif isinstance(change.old or change.new, Namespace):
            is_helped = namespace_helps(pod, *required, change)
        else:
            is_helped = pod_helps(pod, *required, change, view)
        return Hint.QUEUE if is_helped else Hint.SKIP

    def _slot(self, pod: Pod, own: OwnTerms, existing: MatchingTerms, view: ClusterView) -> AffinitySlot:
        is_scored = bool(own.preferred) or not self.ignore_preferred_terms_of_existing_pods
        scored = [Role.PREFERRED, *([Role.REQUIRED_AFFINITY] if self.hard_pod_affinity_weight else ())]
        roles = [Role.REQUIRED_ANTI_AFFINITY, *(scored if is_scored else ())]
        keys = {one.question.key for one in (*own.affinity, *own.anti, *own.preferred)}
        keys.update(*(existing.keys.get(role, ()) for role in roles))
        unique = frozenset(key for key in keys if view.pod_counts.is_unique(key))
        labels = pod.metadata.labels or _NO_LABELS
        return AffinitySlot(
            affinity=own.affinity,
            # Each of these questions has the clauses of all.
            is_first=bool(own.affinity)
            and all(_means(clause, pod.metadata.namespace, labels) for clause in own.affinity[0].question.clauses),
            anti=own.anti,
            preferred=own.preferred,
            existing=existing,
            is_scored_by_them=is_scored and any(role in existing.keys for role in scored),
            unique=unique,
            shared=tuple(sorted(keys - unique)),
        )

    def _asked(self, slot: AffinitySlot, counts: PodCountsView) -> AffinityQuery:
        places = {key: place for place, key in enumerate(slot.shared)}

        def of_shared(terms: Sequence[OwnTerm]) -> Sequence[tuple[int, int, PodCount]]:
            if not terms or not places:
                return ()
            shared = [one for one in terms if one.question.key in places]
            return [(places[one.question.key], one.weight, counts.count(one.question)) for one in shared]

        affinity = [counts.count(one.question) for one in slot.affinity] if slot.is_first else ()
        refusing: list[tuple[int, Mapping[str, int]]] = []
        adding: list[tuple[int, int, Mapping[str, int]]] = []
        if places and slot.existing.terms:
            sums = counts.sums(slot.existing, slot.shared)
            refusing = [(places[key], of_key) for key, of_key in sums.refusing.items()]
            if slot.is_scored_by_them:
                adding = [(places[key], 1, of_key) for key, of_key in sums.preferred.items()]
                if self.hard_pod_affinity_weight:
                    weight = self.hard_pod_affinity_weight
                    adding += [(places[key], weight, of_key) for key, of_key in sums.drawing.items()]
        return AffinityQuery(
            near=of_shared(slot.affinity),
            # The first of a series that wants to be together is let in where there is none of them anywhere.
            is_let_in=slot.is_first and not any(count.total for count in affinity),
            far=of_shared(slot.anti),
            preferred=of_shared(slot.preferred),
            refusing=refusing,
            adding=adding,
            others=affinity,
        )

    def _weight(self, term: PodTerm) -> int:
        """What a pod with this term, which means the pod, adds to its domain."""
        return self.hard_pod_affinity_weight if term.role is Role.REQUIRED_AFFINITY else term.weight


def _possible_nodes(slot: AffinitySlot, counts: PodCountsView) -> Set[NodeName] | None:
    """Nodes near pods of one term of required affinity, or more than that; None where the pod may be the first."""
    if not slot.affinity or (slot.is_first and not any(counts.count(one.question).total for one in slot.affinity)):
        return None
    # Where a value stands for a node there are fewest of them.
    narrowest = min(slot.affinity, key=lambda one: one.question.key not in slot.unique)
    return counts.count(narrowest.question).near()


class _Together(tuple[PodClause, ...]):
    """All clauses of required affinity: of each label a question has them, so they are hashed once."""

    _hash: int

    def __new__(cls, clauses: Iterable[PodClause]) -> _Together:
        made = super().__new__(cls, clauses)
        made._hash = tuple(made).__hash__()
        return made

    def __hash__(self) -> int:
        return self._hash


def _selecting(own: Sequence[PodTerm]) -> dict[tuple[Selector, frozenset[str]], None]:
    """What has to be found out of namespaces."""
    return dict.fromkeys(
        [(one.namespace_selector, one.namespaces) for one in own if one.namespace_selector.requirements]
    )


def _own_terms(own: Sequence[PodTerm], view: ClusterView) -> OwnTerms:
    near = terms_of(own, Role.REQUIRED_AFFINITY)
    together = _Together(dict.fromkeys([_clause(term, view) for term in near]))
    questions = {key: PodQuestion(together, key) for key in dict.fromkeys([term.topology_key for term in near])}
    anti, preferred = (
        tuple(OwnTerm(one.weight, PodQuestion((_clause(one, view),), one.topology_key)) for one in terms_of(own, role))
        for role in (Role.REQUIRED_ANTI_AFFINITY, Role.PREFERRED)
    )
    return OwnTerms(tuple([OwnTerm(0, question) for question in questions.values()]), anti, preferred)


def _clause(term: PodTerm, view: ClusterView) -> PodClause:
    """The pods that a term of the pod itself means, with namespaces by name.

    `namespaceSelector: {}` matches every namespace. Before 1.37 one that matches no labels at all does, too: upstream
    resolves the selector to names in a copy, and asks it again without labels (`NotIn` and `DoesNotExist` alone).
    """
    selector = term.namespace_selector
    if selector.requirements is None:
        return term.namespaces, term.selector
    if not selector.requirements or (not view.features.has_137_semantics and selector.matches(_NO_LABELS)):
        return None, term.selector
    return view.pod_counts.namespaces_matching(selector, term.namespaces), term.selector


def _means(clause: PodClause, namespace: str, labels: Mapping[str, str]) -> bool:
    namespaces, selector = clause
    return (namespaces is None or namespace in namespaces) and selector.matches(labels)


def _are_all_there(counts: Sequence[tuple[int, int, PodCount]], values: Sequence[str | None]) -> bool:
    for place, _, count in counts:
        value = values[place]
        if value is None or not count.of_value(value):
            return False
    return True


def _is_one_there(counts: Sequence[tuple[int, int, PodCount]], values: Sequence[str | None]) -> bool:
    for place, _, count in counts:
        value = values[place]
        if value is not None and count.of_value(value):
            return True
    return False


def _shared_score(asked: AffinityQuery, fact: Fact) -> int:
    values, score = fact.values, 0
    for place, weight, count in asked.preferred:
        value = values[place]
        if value is not None:
            score += weight * count.of_value(value)
    for place, weight, sums in asked.adding:
        value = values[place]
        if value is not None:
            score += weight * sums.get(value, 0)
    return score


def argument_errors(plugin: InterPodAffinity) -> list[FieldError]:
    """What is wrong with the plugin's arguments, by paths within them, in upstream's words."""
    if 0 <= plugin.hard_pod_affinity_weight <= 100:
        return []
    return [invalid("hardPodAffinityWeight", plugin.hard_pod_affinity_weight, "not in valid range [0, 100]")]
