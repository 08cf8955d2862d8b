"""The terms of pods on nodes, counted by value; sets of them; and what the pods that have them are, summed up by value.

Rules of this module
  1. Summing up pauses between two terms (`TermsSummedUp.bring`), and goes on whatever has changed meanwhile: changes of
     terms that are in the sums are added to them, the others are read when it is their turn.
  2. Sums of several terms that were given to somebody are never changed: what changed later is in copies.

Not here: which terms mean a pod (`pod_counts`).

Cost: a node O(distinct terms on it); summing up O(terms of the set * their values), then O(what changed, and the values
of the topology keys it is about).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Final, TypeAlias

from scheduler.framework.pod_counts_view import TermSums
from scheduler.model.keys import NodeName
from scheduler.model.node_info import NodeInfo
from scheduler.model.pod_terms import PodTerm, Role

_CHANGES_MAX: Final = 20_000
TermKind: TypeAlias = tuple[Role, str]
"""What a term does, and its topology key."""


def kinds_of(terms: Iterable[PodTerm]) -> set[TermKind]:
    return {(term.role, term.topology_key) for term in terms}


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
        self.pending: Final[dict[NodeName, None]] = {}
        """Nodes that changed before `position`, and have not been counted since."""
        self._changes: list[tuple[PodTerm, str, int]] = []
        self._base = 0

    @property
    def counted(self) -> object:
        """All that was counted, for `invariants`."""
        return self.counts

    @property
    def changed_to(self) -> int:
        """Where the next change of a term's pods on a value will be noted."""
        return self._base + len(self._changes)

    def changes_since(self, changed_to: int) -> list[tuple[PodTerm, str, int]] | None:
        """By how many pods terms have changed on values; None: that is not kept any more."""
        return self._changes[changed_to - self._base :] if changed_to >= self._base else None

    def start_over(self) -> None:
        self.version = next(self._versions)
        self._forget_changes()
        self.pending.clear()
        self.by_node, self.counts, self.came = {}, {}, []
        self.era += 1

    def recount(self, name: NodeName, info: NodeInfo | None) -> int:
        """Returns how many terms were looked at."""
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
        looked_at = len(old) + len(new)
        if old == new:
            return looked_at
        self.version = next(self._versions)
        if len(self._changes) > _CHANGES_MAX:
            self._forget_changes()
        self._changes += new
        self._changes += [(term, value, -pods) for term, value, pods in old]
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
        return looked_at

    def _forget_changes(self) -> None:
        self._base = self.changed_to + 1
        self._changes = []


class MatchingTerms:
    """Terms that mean a pod; one object for equal sets, so that what follows from a set is found out once."""

    __slots__ = ("__weakref__", "_as_set", "keys", "terms")

    def __init__(self, terms: tuple[PodTerm, ...], kinds: Set[TermKind]) -> None:
        self.terms: Final = terms
        self._as_set: frozenset[PodTerm] | None = None
        keys: dict[Role, set[str]] = {}
        for role, key in kinds:
            keys.setdefault(role, set()).add(key)
        self.keys: Final = {role: frozenset(keys[role]) for role in Role if role in keys}

    def __contains__(self, term: PodTerm) -> bool:
        if self._as_set is None:
            self._as_set = frozenset(self.terms)
        return term in self._as_set


def sums_of_one(term: PodTerm, keys: tuple[str, ...], counts: Mapping[PodTerm, dict[str, int]]) -> TermSums:
    """Of a single term, whose counts are not copied: they are as they are whenever they are asked."""
    sums = TermSums({}, {}, {})
    values, key = counts.get(term), term.topology_key
    if values is not None and key in keys:
        if term.role is Role.REQUIRED_ANTI_AFFINITY:
            sums.refusing[key] = values
        elif term.role is Role.REQUIRED_AFFINITY:
            sums.drawing[key] = values
        else:
            sums.preferred[key] = {value: term.weight * pods for value, pods in values.items()}
    return sums


class TermsSummedUp:
    """Of some terms, kept up to date.

    Attributes:
        sums: Of those that were read; of all of them once `bring` has said so.
    """

    __slots__ = ("_changed_to", "_done", "_keys", "_own", "_read", "_terms", "sums")

    def __init__(self, terms: Sequence[PodTerm], keys: tuple[str, ...]) -> None:
        """Those of `terms` that have one of these topology keys."""
        self._terms: Final = terms
        self._keys: Final = keys
        self._read = 0
        self._done: Final[set[PodTerm]] = set()
        self._changed_to = -1
        self.sums = TermSums({}, {}, {})
        self._own: set[int] = set()
        """Dictionaries that nobody has been given yet."""

    @property
    def kept(self) -> int:
        """Bytes."""
        return 1_000 + 200 * len(self._terms)

    def bring(self, counts: TermCount, most: int) -> tuple[int, bool]:
        """Read on, one term at least; how many numbers there were, and False when `most` came before the end."""
        if self._changed_to == counts.changed_to and self._read == len(self._terms):
            return 0, True
        changes = counts.changes_since(self._changed_to)
        if changes is None:
            self._read, changes = 0, []
            self._done.clear()
            self.sums = TermSums({}, {}, {})
            self._own.clear()
        self._changed_to = counts.changed_to
        number = len(changes)
        if not self._own:
            self.sums = TermSums(*map(dict, self.sums))
        for term, value, pods in changes:
            if term in self._done:
                self._add(term, {value: pods})
        has_read = False
        while self._read < len(self._terms):
            if has_read and number >= most:
                return number, False
            has_read = True
            term = self._terms[self._read]
            self._read += 1
            if term.topology_key not in self._keys:
                number += 1
                continue
            self._done.add(term)
            values = counts.counts.get(term, {})
            number += 1 + len(values)
            self._add(term, values)
        self._own.clear()
        return number, True

    def _add(self, term: PodTerm, values: Mapping[str, int]) -> None:
        role, key, weight = term.role, term.topology_key, 1
        if role is Role.REQUIRED_ANTI_AFFINITY:
            by_key = self.sums.refusing
        elif role is Role.REQUIRED_AFFINITY:
            by_key = self.sums.drawing
        else:
            by_key, weight = self.sums.preferred, term.weight
        sums = by_key.get(key)
        if sums is None or id(sums) not in self._own:
            sums = dict(sums or ())
            by_key[key] = sums
            self._own.add(id(sums))
        for value, pods in values.items():
            now = sums.get(value, 0) + weight * pods
            if now:
                sums[value] = now
            else:
                sums.pop(value, None)
