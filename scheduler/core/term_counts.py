"""The terms of pods on nodes, counted by value; sets of them; and what the pods that have them are, summed up by value.

Not here: which terms mean a pod (`pod_counts`).

Cost: a node O(distinct terms on it); summing up O(terms of the set * their values).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from scheduler.framework.pod_counts_view import TermSums
from scheduler.model.keys import NodeName
from scheduler.model.node_info import NodeInfo
from scheduler.model.pod_terms import PodTerm, Role


class TermCount:
    """How many pods have each term, by value of its topology key."""

    def __init__(self, versions: Iterator[int]) -> None:
        self._versions: Final = versions
        self.version = next(versions)
        self.position = -1
        self.by_node: dict[NodeName, tuple[tuple[PodTerm, str, int], ...]] = {}
        self.counts: dict[PodTerm, dict[str, int]] = {}
        self.came: list[PodTerm] = []
        """Terms in the order in which they came; those of `counts`, and some that have gone."""
        self.era = 0
        self.went = 0
        """Grows when a term goes."""

    @property
    def counted(self) -> object:
        """All that was counted, for `invariants`."""
        return self.counts

    def start_over(self) -> None:
        self.version = next(self._versions)
        self.by_node, self.counts, self.came = {}, {}, []
        self.era += 1

    def recount(self, name: NodeName, info: NodeInfo | None) -> None:
        old = self.by_node.pop(name, ())
        new: tuple[tuple[PodTerm, str, int], ...] = ()
        if info is not None and info.pod_terms:
            labels = info.node.labels
            new = tuple(
                (term, value, pods)
                for term, pods in info.pod_terms.items()
                if (value := labels.get(term.topology_key)) is not None
            )
            if new:
                self.by_node[name] = new
        if old == new:
            return
        self.version = next(self._versions)
        for term, value, pods in new:
            values = self.counts.get(term)
            if values is None:
                values = self.counts[term] = {}
                self.came.append(term)
            values[value] = values.get(value, 0) + pods
        for term, value, pods in old:
            values = self.counts[term]
            if values[value] > pods:
                values[value] -= pods
            elif len(values) > 1:
                del values[value]
            else:
                # What was summed up before may be this very dictionary, and is asked for again if the term was only
                # supposed to have gone.
                del self.counts[term]
                self.went += 1
        if len(self.came) > 2 * len(self.counts) + 1_000:
            self.came = list(self.counts)
            self.era += 1


class MatchingTerms:
    """Terms that mean a pod; one object for equal sets, so that what follows from a set is found out once."""

    __slots__ = ("__weakref__", "_as_set", "keys", "terms")

    def __init__(self, terms: tuple[PodTerm, ...]) -> None:
        self.terms: Final = terms
        self._as_set: Final = frozenset(terms)
        keys: dict[Role, set[str]] = {}
        for term in terms:
            keys.setdefault(term.role, set()).add(term.topology_key)
        self.keys: Final = {role: frozenset(of_role) for role, of_role in keys.items()}

    def __contains__(self, term: PodTerm) -> bool:
        return term in self._as_set


class TermsSummedUp:
    """Of some terms, as of a version of their counts."""

    __slots__ = ("sums", "terms", "version")

    def __init__(self, terms: tuple[PodTerm, ...]) -> None:
        self.version = -1
        self.terms: Final = terms
        self.sums = TermSums({}, {}, {})

    def sum_up(self, counts: Mapping[PodTerm, dict[str, int]]) -> int:
        """Returns how many numbers there were."""
        self.sums = found = TermSums({}, {}, {})
        own: set[int] = set()  # a single term's counts are not copied
        read = 0
        for term in self.terms:
            values = counts.get(term)
            if values is None:
                continue
            read += 1 + len(values)
            role, key, weight = term.role, term.topology_key, 1
            if role is Role.REQUIRED_ANTI_AFFINITY:
                by_key = found.refusing
            elif role is Role.REQUIRED_AFFINITY:
                by_key = found.drawing
            else:
                by_key, weight = found.preferred, term.weight
            sums = by_key.get(key)
            if sums is None and weight == 1:
                by_key[key] = values
                continue
            if sums is None or id(sums) not in own:
                sums = by_key[key] = dict(sums or ())
                own.add(id(sums))
            for value, pods in values.items():
                sums[value] = sums.get(value, 0) + weight * pods
        return read
