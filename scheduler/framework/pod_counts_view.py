"""What plugins may ask about pods on all nodes: `ClusterView.pod_counts`.

Answers are kept up to date from what changed, so that a question that is known costs what changed since.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, TypeAlias

from scheduler.framework.cycle import UNLIMITED_STEPS
from scheduler.model.keys import NodeName
from scheduler.model.label_selectors import Selector
from scheduler.model.label_set import LabelSet
from scheduler.model.node_info import NodeInfo
from scheduler.model.node_selectors import RequiredNodeAffinity
from scheduler.model.objects import Node, Toleration
from scheduler.model.pod_terms import PodTerm, Role
from scheduler.model.taints import REPELLING_EFFECTS, Tolerance

PodClause: TypeAlias = tuple[frozenset[str] | None, Selector]
"""Namespaces, None for all, and a selector."""


@dataclass(frozen=True, slots=True, eq=False)
class PodQuestion:
    """How many pods that match all `clauses` are on the nodes of each value of the label `key`?

    Args:
        skips_terminating: Pods with a deletionTimestamp do not count.
        needed_keys: Nodes without one of these labels do not count.
        affinity: Nor do nodes that this does not match.
        tolerations: Nor do nodes with a NoSchedule or NoExecute taint that these do not tolerate; None: any taint.
        counts_keyless: Nodes without `key` count under the value "".
    """

    clauses: tuple[PodClause, ...]
    key: str
    skips_terminating: bool = False
    needed_keys: tuple[str, ...] = ()
    affinity: RequiredNodeAffinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    counts_keyless: bool = False
    _parts: tuple[object, ...] = field(init=False)
    _hash: int = field(init=False)
    _tolerance: Tolerance | None = field(init=False)

    def __post_init__(self) -> None:
        parts = (self.clauses, self.key, self.skips_terminating, self.needed_keys, self.affinity, self.tolerations)
        object.__setattr__(self, "_parts", (*parts, self.counts_keyless))
        object.__setattr__(self, "_hash", hash(self._parts))
        object.__setattr__(self, "_tolerance", Tolerance(self.tolerations) if self.tolerations is not None else None)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, PodQuestion) and self._hash == other._hash and self._parts == other._parts
        )

    @property
    def size(self) -> int:
        """Requirements of all clauses: what asking about one likeness takes at most."""
        return sum([len(selector.requirements or ()) for _, selector in self.clauses])

    @property
    def node_size(self) -> int:
        """Requirements on nodes: what `value_on` takes."""
        return self.affinity.size if self.affinity is not None else 0

    def matches(self, likeness: LabelSet) -> bool:
        """Whether pods like this count."""
        return self.ask(likeness)[0]

    def ask(self, likeness: LabelSet) -> tuple[bool, int]:
        """Whether pods like this count, and how many requirements were looked at to know it."""
        if self.skips_terminating and likeness.is_terminating:
            return False, 0
        asked = 0
        for namespaces, selector in self.clauses:
            if namespaces is not None and likeness.namespace not in namespaces:
                return False, asked
            asked += len(selector.requirements or ())
            if not selector.matches(likeness.labels):
                return False, asked
        return True, asked

    def value_on(self, node: Node) -> str | None:
        """The value under which pods on `node` count; None where they do not."""
        labels = node.labels
        value = labels.get(self.key)
        if value is None:
            if not self.counts_keyless:
                return None
            value = ""
        for key in self.needed_keys:
            if key not in labels:
                return None
        if self.affinity is not None and not self.affinity.matches(node):
            return None
        if self._tolerance is not None:
            for taint in node.spec.taints or ():
                if taint.effect in REPELLING_EFFECTS and not self._tolerance.covers(taint):
                    return None
        return value


def values_of(key: str) -> PodQuestion:
    """What `PodCountsView.is_unique` asks."""
    return PodQuestion((), key)


class PodCount(Protocol):
    """The answer to a `PodQuestion`."""

    @property
    def version(self) -> int:
        """Another, and greater than that of all other answers, whenever a count changes."""
        ...

    @property
    def total(self) -> int:
        """On all nodes that count."""
        ...

    @property
    def domains(self) -> int:
        """How many values there are on nodes that count, with pods or without."""
        ...

    @property
    def minimum(self) -> int | None:
        """The smallest number of pods of a value; None without values."""
        ...

    def of_value(self, value: str) -> int: ...
    def near(self) -> Set[NodeName]:
        """The nodes that count whose value has a pod: as they are whenever it is asked, nothing is copied."""
        ...

    def on_node(self, info: NodeInfo) -> int:
        """How many pods on this node match, whether the node counts or not."""
        ...


class MatchingTerms(Protocol):
    """The terms of pods on nodes that mean a pod. One object for equal sets, so it may be part of a signature."""

    @property
    def terms(self) -> Sequence[PodTerm]: ...
    @property
    def keys(self) -> Mapping[Role, frozenset[str]]:
        """The topology keys of the terms that there are of each role."""
        ...

    def __contains__(self, term: PodTerm) -> bool: ...


class TermSums(NamedTuple):
    """Of the terms that mean a pod, by topology key and value; without keys and values that no pod with a term is on.

    Args:
        refusing, drawing: Pods with terms of required anti-affinity, and of required affinity, each term counted.
        preferred: The weights of preferred terms, summed up over pods.
    """

    refusing: dict[str, dict[str, int]]
    drawing: dict[str, dict[str, int]]
    preferred: dict[str, dict[str, int]]


QUESTIONS_MAX: Final = 64
"""Distinct questions that a plugin should ask for one pod of its own: each is kept, and answered in each cycle."""
NODES_PER_STEP: Final = 3
"""A step of `Cycle.steps_left` is about 4 us, and counting a node 1.3."""


class PodCountsView(Protocol):
    """Pods on all nodes, counted."""

    def count(self, question: PodQuestion) -> PodCount: ...
    def prepare(self, questions: Collection[PodQuestion], steps_left: int) -> bool:
        """Answer these ahead of `count`; False: `steps_left` did not suffice, ask again and it goes on.

        Of what takes long a part is answered at least, and then only while there are steps.
        """
        ...

    def terms_meaning(
        self, namespace: str, labels: Mapping[str, str], steps_left: int = UNLIMITED_STEPS
    ) -> MatchingTerms | None:
        """The distinct terms of pods on nodes with the term's topology key that mean pods of these labels.

        None: `steps_left` did not suffice, ask again and it goes on.
        """
        ...

    @property
    def terms_version(self) -> int:
        """As `PodCount.version`, of all terms together."""
        ...

    def sums(self, meaning: MatchingTerms, keys: tuple[str, ...]) -> TermSums:
        """What pods with these terms are on the values of these topology keys; kept while no pod's terms change."""
        ...

    def prepare_sums(self, meaning: MatchingTerms, keys: tuple[str, ...], steps_left: int) -> bool:
        """Sum up ahead of `sums`; False: `steps_left` did not suffice, ask again and it goes on."""
        ...

    def is_unique(self, key: str) -> bool:
        """Whether no two nodes have the same value of the label `key`: then a value stands for a node."""
        ...

    def namespaces_matching(self, selector: Selector, named: frozenset[str] = frozenset()) -> frozenset[str]:
        """Names of the known namespaces whose labels match, and those `named`; one object while they are the same."""
        ...

    def prepare_namespaces(self, wanted: Collection[tuple[Selector, frozenset[str]]], steps_left: int) -> bool:
        """Find out ahead of `namespaces_matching`; as `prepare`."""
        ...

    @property
    def steps(self) -> int:
        """Nodes recounted so far, over all questions, and what long selectors took as so many more."""
        ...
