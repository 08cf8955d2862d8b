"""The plugin interface: extension points under their Kubernetes names.

A plugin is data in, verdict out: a frozen dataclass of its arguments that satisfies one or more of these protocols
structurally. It sees no client, no clock and no other plugin; effects are decisions it returns.

How often each is called
  pre_enqueue    once when a pod enters the queue, and again whenever a hint wakes it
  pre_filter     once per attempt
  filter         at most once per pod signature and node generation (the framework remembers verdicts, see `signature`)
  fact           the same; filter_fact, score_facts once per attempt and distinct fact (see `FactPlugin`)
  post_filter    once per attempt for which no node fits; the first plugin that helps wins
  pre_score, score   like filter, for nodes that fit: scores are remembered like verdicts
  normalize_score    once for each set of raw scores
  reserve        once, for the chosen node; unreserve once for each successful reserve whose pod is not bound in the end
  pre_bind       again and again until it says done: level-triggered (see `PreBindPlugin`)

Source: k8s.io/kube-scheduler v0.36.3 framework/interface.go; differs on purpose: pre_bind is a state comparison
instead of a blocking call, what depends on more than the pod and one node is said of facts, and Bind itself is the
core's (one BindPod decision). There is no Permit (docs/adr/0034: groups are placed in one step) and no PostBind.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum, Flag, auto
from typing import Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.decisions import Decision, RecordEvent
from scheduler.framework.preemption import DryRun, Preemption
from scheduler.framework.status import SKIP, SUCCESS, Status
from scheduler.model.held import Held
from scheduler.model.keys import ClaimKey, NodeName, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import NodeAllocatableClaim, Pod
from scheduler.model.stacks import REFUSING, Stacks
from scheduler.model.storage import PersistentVolume, PersistentVolumeClaim


class Resource(Enum):
    """Kinds of objects whose changes can make a waiting pod schedulable.

    ASSIGNED_POD: anybody's pod that counts on a node; added when it gets there, deleted when it ends, goes, gives its
    place up, or is no longer nominated. POD: the waiting pod itself. Upstream's `Pod` is both. POD_GROUP: a `GroupKey`.
    """

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    NODE = "Node"
    NAMESPACE = "Namespace"
    CLAIM = "ResourceClaim"
    SLICE = "ResourceSlice"
    CLASS = "DeviceClass"
    POD_GROUP = "PodGroup"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    STORAGE_CLASS = "StorageClass"
    CSI_NODE = "CSINode"
    CSI_DRIVER = "CSIDriver"
    CSI_STORAGE_CAPACITY = "CSIStorageCapacity"
    VOLUME_ATTACHMENT = "VolumeAttachment"

    __hash__ = object.__hash__  # members are compared by identity, and looked up with every change


class Action(Flag):
    """What happened to the object, as in upstream's ClusterEvent; one change may be several of these.

    UPDATE is any change of another kind of object, and any change of a pod's spec beside what it is in particular.
    """

    ADD = auto()
    DELETE = auto()
    UPDATE_NODE_ALLOCATABLE = auto()
    UPDATE_NODE_LABEL = auto()
    UPDATE_NODE_TAINT = auto()
    UPDATE_NODE_DECLARED_FEATURE = auto()
    UPDATE_POD_LABEL = auto()
    UPDATE_POD_SCALE_DOWN = auto()
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = auto()
    UPDATE_POD_TOLERATION = auto()
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = auto()
    UPDATE = auto()

    __hash__ = object.__hash__


class ClusterEvent(Struct, frozen=True):
    """One change that may wake pods: `old` is None for ADD, `new` for DELETE. Of the resource's model type."""

    resource: Resource
    action: Action
    old: object | None
    new: object | None


class Hint(Enum):
    QUEUE = "Queue"
    SKIP = "Skip"


class PreFilterResult(Struct, frozen=True):
    """Verdict of PreFilter and, if it knows them, the only nodes worth filtering (None: all).

    Args:
        possible_nodes: All nodes that the plugin could pass in this cycle, None when it does not know. It is asked
            what is in it; nothing is copied. Nodes outside are still filtered when none of these fits, so that the
            message counts them. Nodes outside `node_names` never are.
    """

    status: Status
    node_names: frozenset[NodeName] | None = None
    possible_nodes: Set[NodeName] | None = None


PRE_FILTERED = PreFilterResult(SUCCESS)
PRE_FILTER_SKIPPED = PreFilterResult(SKIP)


class PostFilterResult(Struct, frozen=True):
    """SUCCESS with a nominated node, or UNSCHEDULABLE; decisions (de-allocation) either way.

    UNFINISHED: the steps of this cycle are used up; asked again, it goes on.

    Args:
        nominated_node: "" to nominate none, None to leave it as it is.
        preemption: Whom to remove so that the pod fits on the nominated node.
    """

    status: Status
    nominated_node: NodeName | None = None
    decisions: tuple[Decision, ...] = ()
    preemption: Preemption | None = None


class ReserveResult(Struct, frozen=True):
    """What Reserve wants counted: devices, and what the pod's claims take of its node's own resources.

    Args:
        volumes: Volumes and claims for them as PreBind will write them. They stand for what was observed until
            that says so itself, or the pod is given up and no write of its own can land any more.
    """

    status: Status
    held: tuple[Held, ...] = ()
    of_node: tuple[NodeAllocatableClaim, ...] = ()
    volumes: tuple[PersistentVolume | PersistentVolumeClaim, ...] = ()


class PreBindDone(Struct, frozen=True):
    """Everything this plugin owes before the binding is stored on the API server."""

    events: tuple[RecordEvent, ...] = ()


PRE_BIND_DONE = PreBindDone()


class PreBindWrite(Struct, frozen=True):
    """Send these decisions (usually one); pre_bind is called again when all are answered.

    Args:
        is_last: When all are accepted, nothing is left to write: the next call may come later, once the watch of claims
            has observed them too.
    """

    decisions: tuple[Decision, ...]
    is_last: bool = False


class PreBindWait(Struct, frozen=True):
    """Nothing to send; call again when one of `claims` is observed anew, at the latest at `deadline_ms`.

    It is also called again when a PersistentVolumeClaim of the pod, or a volume that is promised to one, has changed.

    Args:
        reason, message: What is waited for; a wait that lasts is reported in the pod's PodScheduled condition.
    """

    deadline_ms: int
    claims: tuple[ClaimKey, ...] = ()
    events: tuple[RecordEvent, ...] = ()
    reason: str = ""
    message: str = ""


class PreBindFailed(Struct, frozen=True):
    """Give up: unreserve, and queue the pod again according to the status."""

    status: Status
    events: tuple[RecordEvent, ...] = ()


PreBindStep: TypeAlias = PreBindDone | PreBindWrite | PreBindWait | PreBindFailed


class Plugin(Protocol):
    """Common to all: upstream's name, and what wakes the pods it rejected.

    `wakes_on` must not be empty for a plugin that can reject a pod: such pods would be stranded.
    """

    @property
    def name(self) -> str: ...
    @property
    def wakes_on(self) -> tuple[tuple[Resource, Action], ...]: ...
    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        """Could `change` make `pod`, which this plugin rejected, schedulable? Called only for `wakes_on` matches.

        Changes of Resource.POD concern only the pod that changed: no other pod is asked about them.
        """
        ...


@runtime_checkable
class ReadingPlugin(Plugin, Protocol):
    """Optional: a plugin that reads kinds of objects which are watched only for plugins that do."""

    @property
    def reads(self) -> frozenset[str]:
        """Kinds of `model.storage`, `model.pod_selectors` and `model.disruption_budget`, as "PersistentVolume"."""
        ...


@runtime_checkable
class TargetedHints(Plugin, Protocol):
    """Optional: a plugin that knows which pods a change concerns, so that thousands of waiting pods cost nothing."""

    def concerned(self, change: ClusterEvent, view: ClusterView) -> Iterable[PodUid] | None:
        """The only waiting pods that `change` could help; None: any. `hint` is then put to each of them alone.

        For None, `hint` is put to one pod of each signature and the answer holds for all of that signature.
        """
        ...


@runtime_checkable
class PreEnqueuePlugin(Plugin, Protocol):
    def pre_enqueue(self, pod: Pod, view: ClusterView) -> Status: ...


@runtime_checkable
class PreFilterPlugin(Plugin, Protocol):
    def pre_filter(self, cycle: Cycle, view: ClusterView) -> PreFilterResult:
        """SKIP: this plugin's filter (and score) need not be called for this pod.

        UNFINISHED: no steps are left. What was done is remembered, and each call gets on, even one with few steps.
        """
        ...


@runtime_checkable
class SigningPlugin(Plugin, Protocol):
    """A plugin whose answers can be remembered: they depend on the signature and one node, and nothing else.

    What depends on other nodes too (their pods, labels, images) is a `FactPlugin`.
    """

    def signature(self, cycle: Cycle, view: ClusterView) -> Hashable | None:
        """Everything of the pod and of its claims that `filter`, `pre_score`, `score`, `normalize_score`, `fact`,
        `filter_fact`, `score_facts` and, for changes that do not name a pod (see `TargetedHints`), `hint` read. None:
        remember nothing for this pod.

        Two pods of equal signature get equal verdicts, scores and hints. Called after pre_filter, not if that skipped.
        """
        ...


@runtime_checkable
class FactPlugin(SigningPlugin, Protocol):
    """A plugin whose answers about a node depend on more than this node, said in two steps.

    The first step, `fact`, is remembered until the node changes. The second is asked in every cycle, but only once for
    each distinct fact: so a plugin that rejects by zone is asked once a zone. Has one half or both: `FactFilterPlugin`,
    `FactScorePlugin`. A cycle costs O(distinct facts), so facts should be as coarse as the answers: "some pod here
    matches", and not how many, where only that decides.
    """

    def fact(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> Hashable:
        """All that the second step reads of `node`: equal facts, equal answers. Of signature and this node only."""
        ...

    def lookups(self, cycle: Cycle) -> int:
        """How many counts the second step looks up for a fact, at most: what it takes, as of `Cycle.charge`."""
        ...


@runtime_checkable
class FactFilterPlugin(FactPlugin, Protocol):
    """Filter by facts. Upstream's order holds: Filter plugins before the first of these are asked before, others after.

    One that stands between two of these is asked after both where verdicts are remembered: the same nodes are refused,
    but the second may be named as the reason.
    """

    def filter_fact(self, cycle: Cycle, fact: Hashable, view: ClusterView) -> Status:
        """The verdict on each node of this fact, as the cluster is now. Not UNFINISHED."""
        ...

    def moment(self, cycle: Cycle, view: ClusterView) -> Hashable:
        """While this is equal, so are the verdicts on all facts; found out without a look at them."""
        ...


@runtime_checkable
class FactScorePlugin(FactPlugin, Protocol):
    """Score by facts."""

    @property
    def weight(self) -> int: ...
    def score_facts(self, cycle: Cycle, facts: Mapping[Hashable, int], view: ClusterView) -> Mapping[Hashable, int]:
        """Scores of 0..100, normalized, by fact; 0 for facts left out, so empty where the plugin has nothing to score.

        Args:
            facts: Those of the nodes that fit, with the number of these nodes, at least 1.
        """
        ...


@runtime_checkable
class FilterPlugin(SigningPlugin, Protocol):
    def filter(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> Status: ...


@runtime_checkable
class PostFilterPlugin(Plugin, Protocol):
    def post_filter(
        self, cycle: Cycle, verdicts: Mapping[NodeName, Status], view: ClusterView, dry_run: DryRun
    ) -> PostFilterResult: ...


@runtime_checkable
class ReleasingPlugin(Plugin, Protocol):
    """A plugin for which more goes with a pod than what the node counts: its claims' devices."""

    @property
    def releases(self) -> bool:
        """Whether it is to; otherwise it is asked nothing of this."""
        ...

    def may_help(self, cycle: Cycle, node: NodeInfo, status: Status, view: ClusterView) -> bool:
        """Whether `status`, this plugin's refusal for good, could change if pods were gone from the node."""
        ...

    def released(self, pod: Pod, node: NodeInfo, removed: Collection[PodUid], view: ClusterView) -> tuple[Held, ...]:
        """The claims that nobody would use any more if `removed` were gone from `node`, and that `pod` does not use."""
        ...

    def given(self, cycle: Cycle, node: NodeInfo) -> tuple[Held, ...]:
        """What the pod's unallocated claims would be given on a node that Filter has just passed in this cycle."""
        ...


@runtime_checkable
class ScorePlugin(SigningPlugin, Protocol):
    """Scores of 0..100 that need no normalization, unless the plugin is a `NormalizeScorePlugin`."""

    @property
    def weight(self) -> int: ...
    def pre_score(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView) -> Status:
        """Called with the nodes that are about to be scored, which are only those whose score is not remembered.

        SKIP: the raw score of each of `nodes` is 0, `score` need not be called.
        """
        ...

    def score(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> int:
        """An integer of 0..100, or any where the plugin normalizes; depends on signature and node only, like filter."""
        ...


@runtime_checkable
class NormalizeScorePlugin(ScorePlugin, Protocol):
    """A Score plugin whose scores mean something beside each other only.

    Each of these makes choosing dearer, as its scores cannot be summed up before: where the result would be what
    `score` said, leave this out.
    """

    def normalize_score(self, cycle: Cycle, scores: dict[NodeName, int]) -> None:
        """Change `scores`, those of nodes that fit, in place into 0..100.

        The framework calls this with one node for each distinct score, so the result for a node may depend on its
        score and on the set of scores, not on which or how many nodes have them.
        """
        ...


@runtime_checkable
class AlikePlugin(Plugin, Protocol):
    """Optional: a plugin that filters or scores and can say which nodes it answers alike for.

    Where a plan ranks nodes, and all its plugins that filter or score can say it, one of several alike nodes is asked
    about, and its verdict, scores and rank are those of the others.
    """

    def knows_likeness(self, cycle: Cycle, view: ClusterView) -> bool:
        """Whether answers for the cycle's pod follow from its signature and a node's likeness."""
        ...

    def likeness(self, node: NodeInfo, view: ClusterView) -> Hashable | None:
        """Equal for nodes that get equal answers; None for a node that is like no other. Holds for its generation."""
        ...


@runtime_checkable
class RankingPlugin(NormalizeScorePlugin, Protocol):
    """A Score plugin that also says which of equally good nodes is best; of a profile's the first counts.

    Where one ranks, all nodes that fit are compared, not a part of them, and nodes of equal rank are taken by name: so
    nodes fill up one by one.
    """

    @property
    def ranks(self) -> bool:
        """Whether it does; otherwise it is asked nothing of this."""
        ...

    def rank(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> tuple[int, ...]:
        """Called after `score`, for the same node; the lowest is best. Depends on signature and node only."""
        ...


@runtime_checkable
class ReservePlugin(Plugin, Protocol):
    def reserve(self, cycle: Cycle, node: NodeInfo, view: ClusterView) -> ReserveResult:
        """Claim what the pod needs on `node`. No effects: the core holds what is returned."""
        ...

    def unreserve(self, cycle: Cycle, node: NodeName, view: ClusterView) -> tuple[Decision, ...]:
        """Undo on the API server what this pod no longer needs (its reservation). Idempotent."""
        ...


@runtime_checkable
class PreBindPlugin(Plugin, Protocol):
    def pre_bind(self, cycle: Cycle, node: NodeName, view: ClusterView) -> PreBindStep:
        """Compare what must be stored before the binding with what is observed, and name the next step.

        Called first after Reserve, then after every answer to its decisions and every observation it waits for. The
        view already contains what the answers showed (the claim as the server returned it; after a conflict or an
        unknown outcome the core has read the claim afresh before it calls again).
        """
        ...


@dataclass(frozen=True, slots=True)
class Profile:
    """The plugins of one scheduler name.

    Args:
        plugins: In configuration order.
        order: By extension point ("PreFilter") the names of the plugins to call there, in order. A point that is not
            named: all that implement it, in the order of `plugins`.
        percentage_of_nodes: How many of all nodes are worth looking for, 0..100; 0: no more than are enough.
        stacks: Where a machine is made of profiles alone, its setting.
        places_jointly: Whether pods of a group get other places where one of them fits nowhere; kube-scheduler takes
            them in order, and none of them a second time.
    """

    scheduler_name: str
    plugins: tuple[Plugin, ...] = field(default=())
    order: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    percentage_of_nodes: int = 0
    stacks: Stacks = REFUSING
    places_jointly: bool = True

    def enough_nodes(self, count: int, *, least: int) -> int:
        """How many of `count` nodes must be known to fit before looking for more stops."""
        return max(least, count * self.percentage_of_nodes // 100)

    def at(self, point: str) -> tuple[Plugin, ...]:
        """The plugins to call at an extension point, in order, if they implement it."""
        names = self.order.get(point)
        if names is None:
            return self.plugins
        by_name = {plugin.name: plugin for plugin in self.plugins}
        return tuple(by_name[name] for name in names if name in by_name)
