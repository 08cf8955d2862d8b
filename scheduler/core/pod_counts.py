"""Pods on all nodes, counted by what questions ask: by selector and topology value, and by the terms they have.

Rules of this module
  1. An answer reads, before it is used, what changed since it was used last (`Store.population`), and recounts these
     nodes. Answers equal a recount of all nodes (`invariants`).
  2. Pods that look alike to selectors are asked about once (`model.likeness`).
  3. What is kept is bounded: answers unused longest are forgotten. A pod's own questions are always kept, or it would
     never have all of them answered.
  4. A node can be supposed to be another for a while (`as_if`): with pods more or less.

Not here: what counts mean for a pod (the plugins).

Cost: a known question O(nodes that changed * likenesses on them); a new one O(nodes * likenesses on them). Memory:
about 200 bytes for each node of a question, 300 where it is asked which nodes are near.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from typing import Any, Final
from weakref import WeakValueDictionary

from scheduler.core.change_log import ChangeLog
from scheduler.core.matching_namespaces import MatchingNamespaces
from scheduler.core.newest_objects import NewestObjects
from scheduler.core.term_counts import MatchingTerms, TermCount, TermsSummedUp
from scheduler.framework.cycle import UNLIMITED_STEPS
from scheduler.framework.pod_counts_view import NODES_PER_STEP, QUESTIONS_MAX, PodQuestion, TermSums, values_of
from scheduler.framework.pod_counts_view import MatchingTerms as Terms
from scheduler.model.keys import NodeName
from scheduler.model.label_selectors import Selector
from scheduler.model.likeness import Likeness
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Namespace
from scheduler.model.pod_terms import PodTerm

_NODES_KEPT_MAX: Final = 1_000_000
_ANSWERS_KEPT: Final = 4 * QUESTIONS_MAX  # so that no pod's own questions push each other out
_LIKENESSES_MAX: Final = 50_000
_MEANT_MAX: Final = 20_000
_NO_LABELS: Final[Mapping[str, str]] = {}
_SUMS_KEPT: Final = 64
_SUMMED_PER_STEP: Final = 8
"""Terms of a value that are summed up in the time in which a node is counted."""


class PodCount:
    """The answer to one question; satisfies `framework.pod_counts_view.PodCount`."""

    def __init__(self, question: PodQuestion, versions: Iterator[int]) -> None:
        self.question: Final = question
        self._versions: Final = versions
        self.version = next(versions)
        self.position = -1
        self.total = 0
        self.by_node: dict[NodeName, tuple[str, int]] = {}
        self._pods: dict[str, int] = {}
        self._nodes: dict[str, int] = {}
        self._values: dict[int, int] = {}  # by number of pods, so that the smallest is found among few
        self._inhabited: dict[str, None] = {}
        self._names: dict[str, dict[NodeName, None]] | None = None
        self._is_meant: Final[dict[Likeness, bool]] = {}

    @property
    def domains(self) -> int:
        return len(self._pods)

    @property
    def minimum(self) -> int | None:
        return min(self._values, default=None)

    @property
    def counted(self) -> object:
        """All that was counted, for `invariants`."""
        return self.total, self._pods, self._nodes, self._values

    def of_value(self, value: str) -> int:
        return self._pods.get(value, 0)

    def near(self) -> Set[NodeName]:
        if self._names is None:
            self._names = {}
            for name, (value, _) in self.by_node.items():
                self._names.setdefault(value, {})[name] = None
        return _NearNodes(self.by_node, self._inhabited, self._names)

    def on_node(self, info: NodeInfo) -> int:
        number, known = 0, self._is_meant
        for likeness, pods in info.likenesses.items():
            is_meant = known.get(likeness)
            if is_meant is None:
                if len(known) >= _LIKENESSES_MAX:
                    known.clear()
                is_meant = known[likeness] = self.question.matches(likeness)
            if is_meant:
                number += pods
        return number

    def start_over(self) -> None:
        self.version = next(self._versions)
        self.total = 0
        self.by_node, self._pods, self._nodes, self._values = {}, {}, {}, {}
        self._inhabited, self._names = {}, None

    def recount(self, name: NodeName, info: NodeInfo | None) -> None:
        """Count a node as it is now; None: it is gone."""
        old = self.by_node.pop(name, None)
        value = self.question.value_on(info.node) if info is not None else None
        new = (value, self.on_node(info)) if info is not None and value is not None else None
        if new is not None:
            self.by_node[name] = new
        if old == new:
            return
        self.version = next(self._versions)
        if old is not None:
            self._add(old[0], -old[1], -1)
        if new is not None:
            self._add(*new, 1)
        if self._names is not None and (old and old[0]) != (new and new[0]):
            self._move(name, old and old[0], new and new[0])

    def _move(self, name: NodeName, old: str | None, new: str | None) -> None:
        assert self._names is not None
        if old is not None:
            names = self._names[old]
            del names[name]
            if not names:
                del self._names[old]
        if new is not None:
            self._names.setdefault(new, {})[name] = None

    def _add(self, value: str, pods: int, nodes: int) -> None:
        self.total += pods
        before = self._pods.get(value)
        if before is not None:
            self._note(before, -1)
        left = self._nodes.get(value, 0) + nodes
        if not left:
            del self._nodes[value], self._pods[value]
            self._inhabited.pop(value, None)
            return
        self._nodes[value] = left
        now = self._pods[value] = (before or 0) + pods
        self._note(now, 1)
        if now:
            self._inhabited[value] = None
        else:
            self._inhabited.pop(value, None)

    def _note(self, pods: int, values: int) -> None:
        left = self._values.get(pods, 0) + values
        if left:
            self._values[pods] = left
        else:
            del self._values[pods]


class _NearNodes(Set[NodeName]):
    """Nodes of values that have a pod, until the count starts over."""

    __slots__ = ("_by_node", "_inhabited", "_names")

    def __init__(
        self,
        by_node: Mapping[NodeName, tuple[str, int]],
        inhabited: Mapping[str, None],
        names: Mapping[str, Mapping[NodeName, None]],
    ) -> None:
        self._by_node: Final = by_node
        self._inhabited: Final = inhabited
        self._names: Final = names

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> Any:
        return frozenset(it)

    def __contains__(self, name: object) -> bool:
        found = self._by_node.get(name)  # type: ignore[call-overload]
        return found is not None and found[0] in self._inhabited

    def __iter__(self) -> Iterator[NodeName]:
        for value in self._inhabited:
            yield from self._names[value]

    def __len__(self) -> int:
        return sum(len(self._names[value]) for value in self._inhabited)


class _Meant:
    """Which terms mean pods of some labels, as far as the terms have been read."""

    __slots__ = ("era", "found", "read", "terms", "went")

    def __init__(self, terms: MatchingTerms) -> None:
        self.era = self.went = -1
        self.read = 0
        self.found: list[PodTerm] = []
        self.terms = terms


_CAUGHT_UP: Final = 8_000
"""Nodes that all questions of a pod together may be behind, and still be answered at once: about 10 ms."""


class PodCounts:
    """All answers; satisfies `framework.pod_counts_view.PodCountsView`."""

    def __init__(
        self,
        node_infos: Mapping[NodeName, NodeInfo],
        population: ChangeLog,
        namespaces: NewestObjects[str, Namespace],
    ) -> None:
        self._node_infos: Final = node_infos
        self._population: Final = population
        self._namespaces: Final = namespaces
        self._versions: Final = itertools.count()
        self._answers: Final[OrderedDict[PodQuestion, PodCount]] = OrderedDict()
        self._kept = 0
        self._terms: Final = TermCount(self._versions)
        self._sums: Final[OrderedDict[tuple[Terms, tuple[str, ...]], TermsSummedUp]] = OrderedDict()
        self._meant: Final[OrderedDict[tuple[object, ...], _Meant]] = OrderedDict()
        self._none: Final = MatchingTerms(())
        self._sets: Final[WeakValueDictionary[tuple[PodTerm, ...], MatchingTerms]] = WeakValueDictionary()
        self._matching: Final = MatchingNamespaces(namespaces)
        self._instead: NodeInfo | None = None
        self._supposing: Final[list[tuple[PodCount | TermCount, int]]] = []
        self.steps = 0

    @contextmanager
    def as_if(self, node: NodeInfo) -> Iterator[None]:
        """While it lasts, `node` is what all answers count in the place of the node of that name."""
        self._instead = node
        try:
            yield
        finally:
            self._instead = None
            for answer, version in self._supposing:
                answer.recount(node.name, self._node_infos.get(node.name))
                answer.version = version  # it is what it was
            self._supposing.clear()

    def _suppose(self, answer: PodCount | TermCount) -> None:
        if self._instead is not None and not any(one is answer for one, _ in self._supposing):
            self._supposing.append((answer, answer.version))
            answer.recount(self._instead.name, self._instead)
            self.steps += 1

    def answers(self) -> tuple[PodCount, ...]:
        """For `invariants`: every answer, up to date."""
        return tuple(self.count(question) for question in list(self._answers))

    def count(self, question: PodQuestion) -> PodCount:
        found = self._answers.get(question)
        if found is None:
            found = self._answers[question] = PodCount(question, self._versions)
        elif found.position == self._population.position:
            if self._instead is not None:
                self._suppose(found)
            return found
        self._answers.move_to_end(question)
        kept = len(found.by_node)
        self._bring(found)
        self._kept += len(found.by_node) - kept
        while self._kept > _NODES_KEPT_MAX and len(self._answers) > _ANSWERS_KEPT:
            _, dropped = self._answers.popitem(last=False)
            self._kept -= len(dropped.by_node)
        self._suppose(found)
        return found

    def prepare(self, questions: Collection[PodQuestion], steps_left: int) -> bool:
        # What the pauses leave behind must not count as unanswered, or a pod of many questions would never have all.
        little = _CAUGHT_UP // max(1, len(questions))
        last, has_counted = self.steps + NODES_PER_STEP * steps_left, False
        for question in questions:
            found = self._answers.get(question)
            if found is not None and found.position == self._population.position:
                continue
            if self._behind(found) > little:
                if has_counted and self.steps >= last:
                    return False
                has_counted = True
            self.count(question)
        return True

    def _behind(self, found: PodCount | None) -> int:
        """How many nodes the answer takes at most."""
        nodes = len(self._node_infos)
        behind = self._population.behind(found.position) if found is not None else None
        return nodes if behind is None else min(behind, nodes)

    def is_unique(self, key: str) -> bool:
        values = self.count(values_of(key))
        return values.domains == len(values.by_node)

    def sums(self, meaning: Terms, keys: tuple[str, ...]) -> TermSums:
        counts, version = self.terms().counts, self._terms.version
        known = self._sums.get((meaning, keys))
        if known is None:
            while len(self._sums) >= _SUMS_KEPT:
                self._sums.popitem(last=False)
            wanted = tuple([term for term in meaning.terms if term.topology_key in keys])
            self.steps += len(meaning.terms) // _SUMMED_PER_STEP
            known = self._sums[meaning, keys] = TermsSummedUp(wanted)
        else:
            self._sums.move_to_end((meaning, keys))
        if known.version != version:
            self.steps += known.sum_up(counts) // _SUMMED_PER_STEP
            known.version = version
        return known.sums

    def terms(self) -> TermCount:
        """All terms, up to date."""
        if self._terms.position != self._population.position:
            self._bring(self._terms)
        self._suppose(self._terms)
        return self._terms

    @property
    def terms_version(self) -> int:
        return self.terms().version

    def terms_meaning(
        self, namespace: str, labels: Mapping[str, str], steps_left: int = UNLIMITED_STEPS
    ) -> MatchingTerms | None:
        terms = self.terms()
        if not terms.counts:
            return self._none
        known = self._namespaces.get(namespace)
        of_namespace = (known.metadata.labels if known is not None else None) or _NO_LABELS
        key = (namespace, frozenset(labels.items()), frozenset(of_namespace.items()))
        meant = self._meant.get(key)
        if meant is None:
            while len(self._meant) >= _MEANT_MAX:
                self._meant.popitem(last=False)
            meant = self._meant[key] = _Meant(self._none)
        if meant.era == terms.era and meant.read == len(terms.came) and meant.went == terms.went:
            return meant.terms
        if meant.era != terms.era:
            meant.era, meant.read, meant.found = terms.era, 0, []
        new = terms.came[meant.read : meant.read + max(1, NODES_PER_STEP * steps_left)]
        self.steps += len(new)
        meant.read += len(new)
        meant.found += [term for term in new if term.matches(namespace, labels, of_namespace)]
        if meant.read < len(terms.came):
            return None
        meant.found = list(dict.fromkeys(term for term in meant.found if term in terms.counts))
        self.steps += len(meant.found) // _SUMMED_PER_STEP
        meant.went = terms.went
        meant.terms = self._set(tuple(meant.found))
        return meant.terms

    def _set(self, terms: tuple[PodTerm, ...]) -> MatchingTerms:
        if not terms:
            return self._none
        found = self._sets.get(terms)
        if found is None:
            found = self._sets[terms] = MatchingTerms(terms)
        return found

    def namespaces_matching(self, selector: Selector, named: frozenset[str] = frozenset()) -> frozenset[str]:
        before = self._matching.asked
        names = self._matching.names(selector, named)
        self.steps += self._matching.asked - before
        return names

    def knows_namespaces(self, selector: Selector, named: frozenset[str]) -> bool:
        return self._matching.is_known(selector, named)

    def _bring(self, answer: PodCount | TermCount) -> None:
        """Read what changed since the answer was used last."""
        names = self._population.since(answer.position) if answer.position >= 0 else None
        if names is None:
            answer.start_over()
            names = self._node_infos
        answer.position = self._population.position
        for name in names:
            self.steps += 1
            answer.recount(name, self._node_infos.get(name))
