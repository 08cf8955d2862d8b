"""Pods on all nodes, counted by what questions ask: by selector and topology value, and by the terms they have.

Rules of this module
  1. An answer reads, before it is used, what changed since it was used last (`Store.population`), and recounts these
     nodes. Answers equal a recount of all nodes (`invariants`).
  2. Pods that look alike to selectors are asked about once (`model.likeness`).
  3. What is kept is bounded: answers unused longest are forgotten. A pod's own questions are always kept, or it would
     never have all of them answered.
  4. Counting for a pod pauses between two nodes, and within one between two likenesses where selectors are long. What
     was counted stays, and nobody is given an answer of which a part is missing.
  5. Nodes can be supposed to be others for a while (`as_if`): with pods more or less.

Not here: what counts mean for a pod (the plugins).

Cost: a known question O(nodes that changed * likenesses on them); a new one O(nodes * likenesses on them). Memory:
about 200 bytes for each node of a question, 300 where it is asked which nodes are near.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from typing import Final
from weakref import WeakValueDictionary

from scheduler.core.counting.matching_namespaces import MatchingNamespaces
from scheduler.core.counting.question_counts import PodCount
from scheduler.core.counting.term_counts import MatchingTerms, TermCount, TermKind, TermsSummedUp, kinds_of, sums_of_one
from scheduler.core.ground.change_log import ChangeLog
from scheduler.core.ground.newest_objects import NewestObjects
from scheduler.framework.cycle import UNLIMITED_STEPS
from scheduler.framework.pod_counts_view import NODES_PER_STEP, QUESTIONS_MAX, PodQuestion, TermSums, values_of
from scheduler.framework.pod_counts_view import MatchingTerms as Terms
from scheduler.model.keys import NodeName
from scheduler.model.label_selectors import Selector
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Namespace
from scheduler.model.pod_terms import PodTerm

_NODES_KEPT_MAX: Final = 1_000_000
_REQUIREMENTS_KEPT_MAX: Final = 50_000
"""Of all questions together; one takes up to 400 bytes, and a question of one pod may have thousands."""
_ANSWERS_KEPT: Final = 4 * QUESTIONS_MAX  # so that no pod's own questions push each other out
_LARGE_ANSWERS_KEPT: Final = 2 * QUESTIONS_MAX  # a pod's terms and its constraints
_MEANT_MAX: Final = 20_000
_NO_LABELS: Final[Mapping[str, str]] = {}
_SUMS_KEPT: Final = 64
_MANY_TERMS: Final = 5_000
_FEW_TERMS: Final = 4
_FEW_NODES: Final = 4
_LARGE_SUMS_KEPT: Final = 16
_SUMMED_TERMS_MAX: Final = 500_000
_SUMMED_PER_STEP: Final = 3
"""Terms of a value that are summed up in the time in which a node is counted."""


class _Meant:
    """Which terms mean pods of some labels, as far as the terms have been read."""

    __slots__ = ("era", "found", "kinds", "read", "terms", "went")

    def __init__(self, terms: MatchingTerms) -> None:
        self.era = self.went = -1
        self.read = 0
        self.found: list[PodTerm] = []
        self.kinds: set[TermKind] = set()  # of those found
        self.terms = terms


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
    ) -> None:
        self._node_infos: Final = node_infos
        self._population: Final = population
        self._namespaces: Final = namespaces
        self._versions: Final = itertools.count()
        self._answers: Final[OrderedDict[PodQuestion, PodCount]] = OrderedDict()
        self._kept = 0
        self._requirements = 0
        self._terms: Final = TermCount(self._versions)
        self._sums: Final[OrderedDict[tuple[Terms, tuple[str, ...]], TermsSummedUp]] = OrderedDict()
        self._meant: Final[OrderedDict[tuple[object, ...], _Meant]] = OrderedDict()
        self._none: Final = MatchingTerms((), frozenset())
        self._sets: Final[WeakValueDictionary[tuple[PodTerm, ...], MatchingTerms]] = WeakValueDictionary()
        self._matching: Final = MatchingNamespaces(namespaces)
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
        found = found or self._new(question)
        self._answers.move_to_end(question)
        kept, before = len(found.by_node), found.looked_up
        if found.pending:
            self._bring_part(found, UNLIMITED_STEPS)
        else:
            self._bring(found)
        self.steps += (found.looked_up - before) // _LOOKUPS_PER_NODE
        self._bound(len(found.by_node) - kept)
        self._suppose(found)
        return found

    def _new(self, question: PodQuestion) -> PodCount:
        found = self._answers[question] = PodCount(question, self._versions)
        self._requirements += found.size
        self._bound(0)
        return found

    def _bound(self, more: int) -> None:
        self._kept += more
        while (self._kept > _NODES_KEPT_MAX and len(self._answers) > _ANSWERS_KEPT) or (
            self._requirements > _REQUIREMENTS_KEPT_MAX and len(self._answers) > _LARGE_ANSWERS_KEPT
        ):
            _, dropped = self._answers.popitem(last=False)
            self._kept -= len(dropped.by_node)
            self._requirements -= dropped.size

    def prepare(self, questions: Collection[PodQuestion], steps_left: int) -> bool:
        # What the pauses leave behind must not count as unanswered, or a pod of many questions would never have all.
        little = _CAUGHT_UP // max(1, len(questions))
        at_once, last = self.steps + _CAUGHT_UP, self.steps + NODES_PER_STEP * steps_left
        has_counted = False
        for question in questions:
            found = self._answers.get(question)
            if found is not None and found.position == self._population.position and not found.pending:
                continue
            found = found or self._new(question)
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
        self._answers.move_to_end(found.question)
        kept = len(found.by_node)
        is_finished = self._bring_part(found, last)
        self._bound(len(found.by_node) - kept)
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
            name, before = next(reversed(pending)), found.looked_up
            info = self._node_infos.get(name)
            is_asked = True
            if info is not None and len(info.likenesses) * found.size > _MANY_LOOKUPS:
                is_asked = found.ask_ahead(info, _LOOKUPS_PER_NODE * (last - self.steps))
            if is_asked:
                del pending[name]
                found.recount(name, info)
                self.steps += 1
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
        known = self._sums.get((meaning, keys))
        if known is None:
            known = self._sums[meaning, keys] = TermsSummedUp(meaning.terms, keys)
            self._bound_sums()
        else:
            self._sums.move_to_end((meaning, keys))
        read, is_finished = known.bring(terms, _SUMMED_PER_STEP * most)
        self.steps += read // _SUMMED_PER_STEP
        return known, is_finished

    def _bound_sums(self) -> None:
        kept = sum(one.size for one in self._sums.values())
        while len(self._sums) > _SUMS_KEPT or (kept > _SUMMED_TERMS_MAX and len(self._sums) > _LARGE_SUMS_KEPT):
            kept -= self._sums.popitem(last=False)[1].size

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
            while len(self._meant) >= _MEANT_MAX:
                self._meant.popitem(last=False)
            meant = self._meant[key] = _Meant(self._none)
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
