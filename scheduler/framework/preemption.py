"""Preemption: what it would take and give on a node, and the question behind it. Words that plugins and the core share.

Not here: whom to preempt (the plugin DefaultPreemption), how the question is answered (`core.dry_run`), what is done
about it and remembered (`core.preemptions`).

Source: pkg/scheduler/framework/preemption/preemption.go v1.36.3. Differs on purpose: claims for devices belong to what
is taken and given.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from typing import Protocol

from msgspec import Struct

from scheduler.framework.status import Status
from scheduler.model.group import GroupKey
from scheduler.model.held import Held
from scheduler.model.keys import NodeName, PodUid
from scheduler.model.objects import Pod


class Trial(Struct, frozen=True):
    """What all filters say of a node as if some of its pods were gone.

    Args:
        status: UNFINISHED when the steps of this cycle are used up: asked again, it goes on.
        released: Claims that nobody would use any more, with the devices that would be free.
        given: On success, what the pod's unallocated claims would be given.
    """

    status: Status
    released: tuple[Held, ...] = ()
    given: tuple[Held, ...] = ()


class RunningGroup(Struct, frozen=True):
    """What runs of a gang: pods that are of use together only.

    Args:
        pods: On any node, by uid; neither finished nor leaving, nor is room being made of them.
        spare: How many of them can go, and enough are left.
    """

    key: GroupKey
    pods: Mapping[PodUid, Pod]
    spare: int


class NodeTried(Protocol):
    """What was found out about preempting on a node."""

    @property
    def meets_groups(self) -> bool:
        """Whether it depends on gangs, and so on pods of other nodes."""
        ...

    @property
    def outcome(self) -> Preemption | Status | None:
        """What it would take, or why it does not help; None while that is not known."""
        ...


class DryRun(Protocol):
    """Asked by PostFilter plugins. Nothing is written."""

    @property
    def going(self) -> Set[PodUid]:
        """Pods that are removed anyway, for others of the pod's group."""
        ...

    def candidates(self) -> Sequence[NodeName]:
        """The nodes that could fit if pods were gone from them, as far as their verdicts show.

        First those on which room is made for others of the pod's group, then the rest, each by name.
        """
        ...

    def has_less_important(self) -> bool:
        """Whether any pod on any node is of lower priority than the cycle's."""
        ...

    def may_help(self, node: NodeName, status: Status) -> bool:
        """Whether a node that got `status` could fit if pods were gone from it."""
        ...

    def without(self, node: NodeName, removed: Collection[PodUid]) -> Trial:
        """What all filters say of the cycle's pod as if `removed` were gone, beside nominated pods and without them.

        Of `removed` some may be on other nodes.
        """
        ...

    def remember(self, node: NodeName, tried: NodeTried) -> None:
        """Keep what was found out about the node, also in parts, for the next cycle."""
        ...

    def recall(self, node: NodeName) -> NodeTried | None:
        """What was kept for a pod like this one, if it would be found out again but for changes of other nodes."""
        ...

    def remember_hopeless(self, status: Status) -> None:
        """Keep why no node is a candidate."""
        ...

    def recall_hopeless(self) -> Status | None:
        """What was kept of that, if all nodes would be found out again to be none."""
        ...

    def is_current(self, node: NodeName) -> bool:
        """Whether what was kept of the node would be found out again, for certain."""
        ...


class Preemption(Struct, frozen=True):
    """Pods to remove so that another one fits on a node.

    Args:
        victims: The most important first; at least one, but for a pod that waits for the others of its group. Some may
            be terminating already, and some on other nodes, where they belong to the gang of one on this node. While it
            is carried out: those that are left (`ClusterView.preemption_of`).
        violations: How many of them no PodDisruptionBudget allows to be disrupted.
        released: Claims of the victims that nobody will use any more.
        given: What the preemptor's claims would be given there; kept for it meanwhile.
    """

    node: NodeName
    victims: tuple[Pod, ...]
    violations: int = 0
    released: tuple[Held, ...] = ()
    given: tuple[Held, ...] = ()
