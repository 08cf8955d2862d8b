"""The answer to one question about pods on all nodes: how many are on the nodes of each value of a label.

Rules of this module
  1. Pods that look alike to selectors are asked about once (`model.label_set`).
  2. Requirements that were looked at are counted (`looked_up`), and what is new on a node can be asked about in parts.

Not here: which nodes have changed, and when counting pauses (`pod_counts`).

Cost: a node O(likenesses on it), and for new ones the requirements of the question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, Final

from scheduler.core.ground.indexes import drop
from scheduler.framework.pod_counts_view import PodQuestion
from scheduler.model.keys import NodeName
from scheduler.model.label_set import LabelSet, likenesses_count
from scheduler.model.node_info import NodeInfo

_LIKENESSES_MIN: Final = 1_000
"""So many are remembered by each question, gone or not."""


class PodCount:
    """The answer to one question; satisfies `framework.pod_counts_view.PodCount`."""

    def __init__(self, question: PodQuestion, versions: Iterator[int]) -> None:
        self.question: Final = question
        self.size: Final = question.size
        self._node_size: Final = question.node_size
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
        self._is_meant: Final[dict[int, bool]] = {}  # by the likeness's number, so that nothing is kept of pods gone
        self.pending: Final[dict[NodeName, None]] = {}
        """Nodes that changed before `position`, and have not been counted since."""
        self.looked_up = 0
        """Requirements of the question that were looked at so far."""

    @property
    def kept(self) -> int:
        """Bytes."""
        return 1_500 + 200 * len(self.by_node) + 60 * len(self._is_meant) + 400 * self.size

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
            is_meant = known.get(likeness.number)
            if is_meant is None:
                is_meant = self._ask(likeness)
            if is_meant:
                number += pods
        if len(known) > _LIKENESSES_MIN and len(known) > 2 * likenesses_count():
            known.clear()
        return number

    def _ask(self, likeness: LabelSet) -> bool:
        is_meant, asked = self.question.ask(likeness)
        self._is_meant[likeness.number] = is_meant
        self.looked_up += asked
        return is_meant

    def ask_ahead(self, info: NodeInfo, lookups: int) -> bool:
        """Ask about what is new on a node, one likeness at least; False: so many `lookups` came before the end."""
        last, known = self.looked_up + lookups, self._is_meant
        has_asked = False
        for likeness in info.likenesses:
            if likeness.number not in known:
                if has_asked and self.looked_up >= last:
                    return False
                self._ask(likeness)
                has_asked = True
        return True

    def start_over(self) -> None:
        self.version = next(self._versions)
        self.total = 0
        self.by_node, self._pods, self._nodes, self._values = {}, {}, {}, {}
        self._inhabited, self._names = {}, None
        self.pending.clear()

    def recount(self, name: NodeName, info: NodeInfo | None) -> None:
        """Count a node as it is now; None: it is gone."""
        old = self.by_node.pop(name, None)
        self.looked_up += self._node_size
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
            drop(self._names, old, name)
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
