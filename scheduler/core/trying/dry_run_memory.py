"""What dry runs found out about nodes, so that a long one goes on, and that pods of one signature share it.

Rules of this module
  1. What was found holds while the node has not changed, or came back to what it was, nor any PodDisruptionBudget;
     where plugins read other nodes, too, while no pod or label anywhere has; where a gang was met, while nothing at all
     has.
  2. A pod that goes on where it was interrupted keeps what it found of nodes that have not changed: in a busy cluster
     it would never come to an end. What it decides for is looked at once more (`is_current`). What others of its
     signature cannot go on with is kept for it alone, so that pods that take turns do not begin anew in each.
  3. Pods share what is found where all that it depends on is their signature and priority: not beside devices that are
     kept on every node, nor beside nominated pods where they are nominated themselves. With claims they share what is
     found when it is finished, and look once more at what they decide for: what they would be given is for claims of
     their own.
  4. That no node helps holds for all of them until anything at all changes: it is said again without a look at nodes.

Not here: what is found (the plugin DefaultPreemption).

Memory: `_NODE_BYTES` for each node of a pod or signature, in the ledger of what is remembered.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

from msgspec import Struct

from allocator.values.remembered import Cache
from scheduler.core.state.store import Store
from scheduler.framework.plan import Plan
from scheduler.framework.preemption import NodeTried
from scheduler.framework.runner import Runner
from scheduler.framework.status import Status
from scheduler.model.keys import NodeName, PodUid
from scheduler.model.objects import Pod

_NODE_BYTES: Final = 1_024


class _Moment(Struct, frozen=True):
    """`population`: the position in the log of pods and labels, -1 where only the node matters."""

    population: int
    budgets: int


class _Found(Struct, frozen=True):
    """`position`: in the log of all changes."""

    position: int
    moment: _Moment
    by: PodUid
    is_shared: bool
    tried: NodeTried


class _Known:
    """Of pods with one key.

    Attributes:
        by_node: What was found.
        hopeless, hopeless_at: Why no node helps, and when that was found; None, where it was not.
    """

    __slots__ = ("by_node", "hopeless", "hopeless_at")

    def __init__(self) -> None:
        self.by_node: Final[dict[NodeName, _Found]] = {}
        self.hopeless: Status | None = None
        self.hopeless_at: tuple[int, _Moment] | None = None


class DryRunMemories:
    """All of them, used longest ago first."""

    def __init__(self, store: Store) -> None:
        self._store: Final = store
        # A dry run that pauses goes on with what is here.
        self._by_key: Final[Cache[Hashable, _Known]] = Cache(store.ledger, "dry runs", lambda one: _size(one.by_node))
        self._interrupted: Final[Cache[PodUid, dict[NodeName, _Found]]] = Cache(store.ledger, "dry runs", _size)

    def of(self, runner: Runner, pod: Pod, plan: Plan | None) -> DryRunMemory:
        """The memory for a pod whose cycle has this plan."""
        key: Hashable = pod.uid
        if plan is not None and plan.signature is not None:
            key = runner.profile.scheduler_name, plan.signature, pod.priority
        reads_others = plan is None or bool(plan.fact_filters)
        moment = _Moment(
            self._store.population.position if reads_others else -1, self._store.disruption_budgets.changes
        )
        known = self._by_key.get(key) or self._by_key.put(key, _Known())
        own = self._interrupted.forget(pod.uid)
        return DryRunMemory(self._store, known, pod.uid, moment, own=own, is_shared=key != pod.uid)

    def interrupted(self, uid: PodUid, memory: DryRunMemory) -> None:
        """The pod's search goes on in a later cycle."""
        self._interrupted.put(uid, memory.alone())


def _size(found: Mapping[NodeName, _Found]) -> int:
    return _NODE_BYTES * (1 + len(found))


class DryRunMemory:
    """Of one pod in one cycle."""

    def __init__(
        self,
        store: Store,
        known: _Known,
        pod: PodUid,
        moment: _Moment,
        *,
        own: dict[NodeName, _Found] | None,
        is_shared: bool,
    ) -> None:
        """`own` is what was kept for this pod alone when it was interrupted, None if it was not."""
        self._store: Final = store
        self._known: Final = known
        self._found: Final = known.by_node
        self._pod: Final = pod
        self._moment: Final = moment
        self._goes_on: Final = own is not None
        self._own: Final = own or {}
        self._has_claims: Final = bool(store.claims_of(pod))
        # A pod that is nominated does not make room for itself, so others may find less than it.
        self._shares_hopeless: Final = is_shared and not store.nominations.concerns(pod)

    @property
    def hopeless(self) -> Status | None:
        """Why no node helps, if that is known."""
        known = self._known
        return known.hopeless if self._shares_hopeless and known.hopeless_at == self._now() else None

    def put_hopeless(self, status: Status) -> None:
        if self._shares_hopeless:
            self._known.hopeless, self._known.hopeless_at = status, self._now()

    def _now(self) -> tuple[int, _Moment]:
        return self._store.changes.position, self._moment

    def put(self, node: NodeName, tried: NodeTried, *, is_alone: bool) -> None:
        """`is_alone`: nothing is kept for others beside what they are nominated for."""
        is_shared = is_alone and self._is_as_for_others(node)
        found = _Found(self._store.changes.position, self._moment, self._pod, is_shared, tried)
        self._own[node] = self._found[node] = found

    def alone(self) -> dict[NodeName, _Found]:
        """What others of the signature do not go on with."""
        return {name: one for name, one in self._own.items() if not one.is_shared or one.tried.outcome is None}

    def get(self, node: NodeName) -> NodeTried | None:
        own = self._own.pop(node, None)
        if own is not None and self._store.changes.is_as_at(node, own.position):
            self._own[node] = self._found[node] = own
            return own.tried
        found = self._found.get(node)
        if found is None:
            return None
        is_own = found.by == self._pod
        if self._has_claims and not is_own and found.tried.outcome is None:
            return None
        is_for_it = is_own or (found.is_shared and self._is_as_for_others(node))
        holds = (self._goes_on and is_own) or (is_for_it and self._is_of_now(found))
        if holds and self._store.changes.is_as_at(node, found.position):
            return found.tried
        del self._found[node]
        return None

    def _is_as_for_others(self, node: NodeName) -> bool:
        """Whether another pod of the signature finds the same: it leaves room for the same pods, not for itself."""
        nominations = self._store.nominations
        return not nominations.at(node) or not nominations.concerns(self._pod)

    def all(self) -> Mapping[NodeName, NodeTried]:
        return {name: found.tried for name, found in self._found.items()}

    def is_current(self, node: NodeName) -> bool:
        """Whether nothing at all has changed since that was found, and all of it is for this pod."""
        found = self._found.get(node)
        return found is not None and self._is_of_now(found) and (found.by == self._pod or not self._has_claims)

    def _is_of_now(self, found: _Found) -> bool:
        is_latest = not found.tried.meets_groups or found.position == self._store.changes.position
        return found.moment == self._moment and is_latest
