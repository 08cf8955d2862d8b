"""Pods on all nodes, counted by what questions ask: by selector and topology value, and by the terms they have.

Rules of this module
  1. An answer reads, before it is used, what changed since it was used last (`Store.population`), and recounts these
     nodes. Answers equal a recount of all nodes (`invariants`).
  2. Pods that look alike to selectors are asked about once (`model.label_set`).
  3. Answers are remembered as far as the ledger allows; those to a pod's own questions are of its own turn.
  4. Counting for a pod pauses between two nodes, and within one between two likenesses where selectors are long. What
     was counted stays, and nobody is given an answer of which a part is missing.
  5. Nodes can be supposed to be others for a while (`as_if`): with pods more or less.

Not here: what counts mean for a pod (the plugins).

Cost: a known question O(nodes that changed * likenesses on them); a new one O(nodes * likenesses on them).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from typing import Final
from weakref import WeakValueDictionary

from allocator.values.remembered import Cache, MemoryLedger
from scheduler.core.counting.matching_namespaces import MatchingNamespaces
from scheduler.core.counting.question_counts import PodCount
from scheduler.core.counting.term_counts import MatchingTerms, TermCount, TermKind, TermsSummedUp, kinds_of, sums_of_one
from scheduler.core.ground.change_log import ChangeLog
from scheduler.core.ground.newest_objects import NewestObjects
from scheduler.framework.cycle import UNLIMITED_STEPS
from scheduler.framework.pod_counts_view import NODES_PER_STEP, PodQuestion, TermSums, values_of
from scheduler.framework.pod_counts_view import MatchingTerms as Terms
from scheduler.model.keys import NodeName
from scheduler.model.label_selectors import Selector
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Namespace
from scheduler.model.pod_terms import PodTerm

_NO_LABELS: Final[Mapping[str, str]] = {}
_MANY_TERMS: Final = 5_000
_FEW_TERMS: Final = 4
_FEW_NODES: Final = 4
_SUMMED_PER_STEP: Final = 3
"""Terms of a value that are summed up in the time in which a node is counted."""


class _Meant:
    """Which terms mean pods of some labels, as far as the terms have been read."""

    __slots__ = ("_key_size", "era", "found", "kinds", "read", "terms", "went")

    def __init__(self, terms: MatchingTerms, key_size: int) -> None:
        """`key_size`: labels."""
        self._key_size: Final = key_size
        self.era = self.went = -1
        self.read = 0
        self.found: list[PodTerm] = []
        self.kinds: set[TermKind] = set()  # of those found
        self.terms = terms

    @property
    def kept(self) -> int:
        """Bytes."""
        return 1_200 + 150 * self._key_size + 16 * len(self.found)


_CAUGHT_UP: Final = 8_000
"""Nodes that all questions of a pod together may be behind, and still be answered at once: about 10 ms."""
_PART: Final = 500
"""Nodes that are counted whatever has been done in a turn: else answers that keep changing would leave no time for the
next one."""
_LOOKUPS_PER_NODE: Final = 3
"""Requirements that are looked at in the time in which a node is counted."""
_MANY_LOOKUPS: Final = 500
"""Of one node: what takes less is not done in parts."""


class PodCounts:
    """All answers; satisfies `framework.pod_counts_view.PodCountsView`."""

    def __init__(
        self,
        node_infos: Mapping[NodeName, NodeInfo],
        population: ChangeLog,
        namespaces: NewestObjects[str, Namespace],
        ledger: MemoryLedger,
    ) -> None:
        self._node_infos: Final = node_infos
        self._population: Final = population
        self._namespaces: Final = namespaces
        self._versions: Final = itertools.count()
        # Without it a pod takes 17 times as long (benchmarks.deciding --workload spread-zone --placed 2000).
        self._answers: Final[Cache[PodQuestion, PodCount]] = Cache(ledger, "counts")
        self._terms: Final = TermCount(self._versions)
        # Where these pause they go on with what is here. Pods of a few terms gain nothing that can be measured.
        self._sums: Final[Cache[tuple[Terms, tuple[str, ...]], TermsSummedUp]] = Cache(ledger, "sums of terms")
        self._meant: Final[Cache[tuple[object, ...], _Meant]] = Cache(ledger, "terms that mean a pod")
        self._none: Final = MatchingTerms((), frozenset())
        self._sets: Final[WeakValueDictionary[tuple[PodTerm, ...], MatchingTerms]] = WeakValueDictionary()
        self._matching: Final = MatchingNamespaces(namespaces, ledger)
        self._instead: Callable[[], Iterable[NodeInfo]] | None = None
        self._supposed: dict[NodeName, NodeInfo] = {}
        self._supposing: Final[list[tuple[PodCount | TermCount, int]]] = []
        self.steps = 0

    @contextmanager
    def as_if(self, nodes: Callable[[], Iterable[NodeInfo]]) -> Iterator[None]:
        """While it lasts, `nodes` are what all answers count in the place of the nodes of these names.

        Most questions count no pods, and then nobody needs `nodes`.
        """
        self._instead = nodes
        try:
            yield
        finally:
            self._instead = None
            for answer, version in self._supposing:
                for name in self._supposed:
                    answer.recount(name, self._node_infos.get(name))
                answer.version = version  # it is what it was
            self._supposing.clear()
            self._supposed.clear()

    def _suppose(self, answer: PodCount | TermCount) -> None:
        if self._instead is not None and not any(one is answer for one, _ in self._supposing):
            self._supposed = self._supposed or {node.name: node for node in self._instead()}
            self._supposing.append((answer, answer.version))
            for name, node in self._supposed.items():
                answer.recount(name, node)
            self.steps += len(self._supposed)

    def answers(self) -> tuple[PodCount, ...]:
        """For `invariants`: every answer that is not being counted in parts, up to date."""
        return tuple([self.count(question) for question, found in list(self._answers.items()) if not found.pending])

    def count(self, question: PodQuestion) -> PodCount:
        found = self._answers.get(question)
        if found is not None and found.position == self._population.position and not found.pending:
            if self._instead is not None:
                self._suppose(found)
            return found
        found = found or self._answers.put(question, PodCount(question, self._versions))
        before = found.looked_up
        if found.pending:
            self._bring_part(found, UNLIMITED_STEPS)
        else:
            self._bring(found)
        self.steps += (found.looked_up - before) // _LOOKUPS_PER_NODE
        self._suppose(found)
        return found

    def prepare(self, questions: Collection[PodQuestion], steps_left: int) -> bool:
        # What the pauses leave behind must not count as unanswered, or a pod of many questions would never have all.
        little = _CAUGHT_UP // max(1, len(questions))
        at_once, last = self.steps + _CAUGHT_UP, self.steps + NODES_PER_STEP * steps_left
        has_counted = False
        for question in questions:
            found = self._answers.get(question)
            if found is not None and found.position == self._population.position and not found.pending:
                continue
            found = found or self._answers.put(question, PodCount(question, self._versions))
            limit = at_once
            if found.pending or self._behind(found) > little or self.steps >= at_once:
                if has_counted and self.steps >= last:
                    return False
                limit = last if has_counted else max(last, self.steps + _PART)
                has_counted = True
            if limit == at_once and not found.pending and self._behind(found) <= _FEW_NODES:
                self.count(question)  # what is usual takes no detour
            elif not self._count_part(found, limit):
                return False
        return True

    def _count_part(self, found: PodCount, last: int) -> bool:
        """Bring an answer up to date; False: `last` steps came before the end."""
        is_finished = self._bring_part(found, last)
        if is_finished:
            self._suppose(found)
        return is_finished

    def _bring_part(self, found: PodCount, last: int) -> bool:
        """Read what changed, one part of a node at least; False: `last` steps came before the end."""
        found.pending.update(dict.fromkeys(self._changed(found)))
        found.position = self._population.position
        pending, has_counted = found.pending, False
        while pending:
            if has_counted and self.steps >= last:
                return False
            has_counted = True
            (name, _), before = pending.popitem(), found.looked_up
            info = self._node_infos.get(name)
            is_asked = True
            if info is not None and len(info.likenesses) * found.size > _MANY_LOOKUPS:
                is_asked = found.ask_ahead(info, _LOOKUPS_PER_NODE * (last - self.steps))
            if is_asked:
                found.recount(name, info)
                self.steps += 1
            else:
                pending[name] = None
            self.steps += (found.looked_up - before) // _LOOKUPS_PER_NODE
        return True

    def _behind(self, found: PodCount) -> int:
        """How many nodes the answer takes at most; a new one as many for each, as each may have a new likeness."""
        nodes, behind = len(self._node_infos), self._population.behind(found.position)
        if behind is None or found.position < 0:
            return nodes * (1 + found.size // _LOOKUPS_PER_NODE)
        return min(behind, nodes)

    def is_unique(self, key: str) -> bool:
        values = self.count(values_of(key))
        return values.domains == len(values.by_node)

    def sums(self, meaning: Terms, keys: tuple[str, ...]) -> TermSums:
        if len(meaning.terms) == 1:  # pods that keep together or apart: nothing is remembered
            self.steps += 1
            return sums_of_one(meaning.terms[0], keys, self.terms().counts)
        known, _ = self._sum_up(meaning, keys, UNLIMITED_STEPS)
        return known.sums

    def prepare_sums(self, meaning: Terms, keys: tuple[str, ...], steps_left: int) -> bool:
        if len(meaning.terms) <= _FEW_TERMS:
            return True
        _, is_finished = self._sum_up(meaning, keys, max(_PART, NODES_PER_STEP * steps_left))
        return is_finished

    def _sum_up(self, meaning: Terms, keys: tuple[str, ...], most: int) -> tuple[TermsSummedUp, bool]:
        terms = self.terms()
        known = self._sums.get((meaning, keys)) or self._sums.put((meaning, keys), TermsSummedUp(meaning.terms, keys))
        read, is_finished = known.bring(terms, _SUMMED_PER_STEP * most)
        self.steps += read // _SUMMED_PER_STEP
        return known, is_finished

    def terms(self) -> TermCount:
        """All terms, up to date."""
        self._bring_terms(UNLIMITED_STEPS)
        self._suppose(self._terms)
        return self._terms

    def _bring_terms(self, most: int) -> bool:
        """Count the terms, of one node at least; False: `most` steps came before the end."""
        terms, most = self._terms, max(most, _PART)
        if terms.position != self._population.position:
            changed = self._changed(terms)
            terms.position = self._population.position
            infos, by_node = self._node_infos, terms.by_node
            for name in changed:  # most have no terms, and had none
                if name in by_node or ((info := infos.get(name)) is not None and info.pod_terms):
                    terms.pending[name] = None
        if not terms.pending:
            return True
        last, has_counted = self.steps + most, False
        while terms.pending:
            if has_counted and self.steps >= last:
                return False
            has_counted = True
            name, _ = terms.pending.popitem()
            self.steps += 1 + terms.recount(name, self._node_infos.get(name)) // _SUMMED_PER_STEP
        return True

    @property
    def terms_version(self) -> int:
        return self.terms().version

    def terms_meaning(
        self, namespace: str, labels: Mapping[str, str], steps_left: int = UNLIMITED_STEPS
    ) -> MatchingTerms | None:
        terms = self._terms
        if (terms.pending or terms.position != self._population.position) and not self._bring_terms(
            NODES_PER_STEP * steps_left
        ):
            return None
        self._suppose(terms)
        if not terms.counts:
            return self._none
        known = self._namespaces.get(namespace)
        of_namespace = (known.metadata.labels if known is not None else None) or _NO_LABELS
        key = (namespace, frozenset(labels.items()), frozenset(of_namespace.items()))
        meant = self._meant.get(key)
        if meant is None:
            meant = self._meant.put(key, _Meant(self._none, len(labels) + len(of_namespace)))
        if meant.era == terms.era and meant.read == len(terms.came) and meant.went == terms.went:
            return meant.terms
        if meant.era != terms.era:
            meant.era, meant.read, meant.found, meant.kinds = terms.era, 0, [], set()
        new = terms.came[meant.read : meant.read + max(1, NODES_PER_STEP * steps_left)]
        self.steps += len(new)
        meant.read += len(new)
        found = [term for term in new if term.matches(namespace, labels, of_namespace)]
        meant.found += found
        meant.kinds |= kinds_of(found)
        if meant.read < len(terms.came) or (len(meant.found) > _MANY_TERMS and len(new) > _PART):
            return None  # what follows takes about as long
        if len(terms.came) != len(terms.counts):
            meant.found = list(dict.fromkeys([term for term in meant.found if term in terms.counts]))
            meant.kinds = kinds_of(meant.found)
        self.steps += len(meant.found) // _SUMMED_PER_STEP
        meant.went = terms.went
        meant.terms = self._set(tuple(meant.found), meant.kinds)
        return meant.terms

    def _set(self, terms: tuple[PodTerm, ...], kinds: Set[TermKind]) -> MatchingTerms:
        if not terms:
            return self._none
        found = self._sets.get(terms)
        if found is None:
            found = self._sets[terms] = MatchingTerms(terms, kinds)
        return found

    def namespaces_matching(self, selector: Selector, named: frozenset[str] = frozenset()) -> frozenset[str]:
        before = self._matching.asked
        names = self._matching.names(selector, named)
        self.steps += (self._matching.asked - before) // _LOOKUPS_PER_NODE
        return names

    def prepare_namespaces(self, wanted: Collection[tuple[Selector, frozenset[str]]], steps_left: int) -> bool:
        matching = self._matching
        before = matching.asked
        little, at_once = _LOOKUPS_PER_NODE * _CAUGHT_UP // max(1, len(wanted)), before + _LOOKUPS_PER_NODE * _CAUGHT_UP
        last, has_asked, is_found = before + _LOOKUPS_PER_NODE * NODES_PER_STEP * steps_left, False, True
        for selector, named in wanted:
            limit = at_once
            if matching.left(selector, named) > little or matching.asked >= at_once:
                if has_asked and matching.asked >= last:
                    is_found = False
                    break
                limit = last if has_asked else max(last, matching.asked + _LOOKUPS_PER_NODE * _PART)
                has_asked = True
            if not matching.find(selector, named, limit):
                is_found = False
                break
        self.steps += (matching.asked - before) // _LOOKUPS_PER_NODE
        return is_found

    def _bring(self, answer: PodCount) -> None:
        """Read what changed since the answer was used last."""
        names = self._changed(answer)
        answer.position = self._population.position
        for name in names:
            self.steps += 1
            answer.recount(name, self._node_infos.get(name))

    def _changed(self, answer: PodCount | TermCount) -> Iterable[NodeName]:
        """The nodes that changed since the answer was used last; it starts over where that is not known."""
        names = self._population.since(answer.position) if answer.position >= 0 else None
        if names is None:
            answer.start_over()
            names = self._node_infos
        return names
