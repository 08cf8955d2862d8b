"""Who is to blame that a pod fits no node, and what would make it fit: what plugins say for the short explanation.

A pod's event and condition say kube-scheduler's sentence, then `SEPARATOR`, then the cause (docs/adr/0030-explain.md).

Rules of this module
  1. A cause is a fact about the cluster as it is. A change is said only when the plugins, asked again as if it were
     made, let the pod in.
  2. What stands before the separator is kube-scheduler's sentence, byte for byte.
  3. Pods and claims of other namespaces are not named (`told`): not by causes, nor by any other event or condition.
     `dra-scheduler explain` names them, to who may read them.

Not here: when a pod is explained, and asking as if a change were made (`core.reports.cause_search`).
"""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Sequence
from typing import Final, Protocol, runtime_checkable

from msgspec import Struct, structs

from allocator import DeviceClass, ResourceSlice
from allocator.requests.device_taints import TaintLike
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.held import Held
from scheduler.model.api_rules import ADMIN_ACCESS_LABEL
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import ClaimKey, NodeName, PodKey, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Node, Pod

SEPARATOR: Final = " Cause: "
TO_MAKE_IT_FIT: Final = "; to make it fit: "
"""Between a cause and a change that helps."""
LENGTH_MAX: Final = 1_024
"""Bytes of a message with its cause: no event's note may be longer."""
NODES_NAMED: Final = 3
_BLAMES_SAID: Final = 3
_LEAST: Final = 200
"""Bytes of the cause that are there even where the sentence before it is long; an event is cut, the condition not."""
_CUT: Final = "…"


class Limits(Struct, frozen=True):
    """How closely plugins look.

    Args:
        nodes: Nodes that are looked at closely, and on which a change is tried.
        devices: Devices of these nodes together.
        counts: Smaller amounts that are tried, the largest first.
        holders: Pods and claims that are tried without, the least important first.
        changes: Changes that are tried in all.
        names_others: Pods and claims of other namespaces are named.
        firsts: Changes for which a second one is searched, each on one node.
        also: Further single changes to report beside the first that helps.
        steps: For one question, about 4 us each; a plugin that takes more does not answer.
        all_steps: For all questions about a pod together; then the search ends.
    """

    nodes: int
    devices: int
    counts: int
    holders: int
    changes: int
    names_others: bool
    firsts: int
    also: int
    steps: int
    all_steps: int


EVENT: Final = Limits(
    nodes=8,
    devices=512,
    counts=4,
    holders=4,
    changes=24,
    names_others=False,
    firsts=6,
    also=0,
    steps=5_000,
    all_steps=500_000,
)
"""Found beside scheduling, and shown to whoever may read the pod's events."""
COMMAND: Final = Limits(
    nodes=64,
    devices=50_000,
    counts=16,
    holders=256,
    changes=1_000,
    names_others=True,
    firsts=256,
    also=3,
    steps=10**7,
    all_steps=10**7,
)
"""`dra-scheduler explain`: a process of its own, for somebody who has read all the objects."""


class Fix(Struct, frozen=True):
    """One thing that a person could do, with all that is different once it is done.

    Args:
        size: How much it asks of people; the smallest that helps is said (docs/adr/0030-explain.md).
        text: What to do.
        on: The nodes that the pod may fit on then.
        command: A line for a shell that does it, "" where there is none.
        cause, kind: What is in the way where that is another fact than its blame's, "" where it is the same.
        harms: Somebody else has to give way to it: it is never said first where another helps. That pods of a higher
            priority end is seen without it.
        pod, node, claims, slices, classes: Objects as they would be.
        removed, released: Pods that would be gone from the node, and what claims count that would give it back.
    """

    size: int
    text: str
    on: tuple[NodeName, ...]
    command: str = ""
    cause: str = ""
    pod: Pod | None = None
    node: Node | None = None
    claims: tuple[ResourceClaim, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    classes: tuple[DeviceClass, ...] = ()
    removed: tuple[PodUid, ...] = ()
    released: tuple[Held, ...] = ()
    kind: str = ""
    harms: bool = False


class Cause(Struct, frozen=True):
    """A fact that keeps the pod from nodes which one plugin refused.

    Args:
        kind: Its entry in `framework.cause_kinds`.
        cause: The fact; the object that makes it so stands first.
        about: Equal for facts about the same things: a pod's events name each once.
        changes: Worth asking about.
    """

    kind: str
    cause: str
    about: Hashable
    changes: tuple[Fix, ...] = ()


class Diagnosis(Struct, frozen=True):
    """Why a pod fits no node.

    Args:
        blames: What plugins say, the nearest miss first.
        changes: What lets the pod in, together and in this order: one, or two where no single one does, or none.
        also: Other single changes that do.
        asked: How many changes were tried.
        is_exhausted: The limits ended the search, so there may be a change that nobody tried.
    """

    blames: tuple[Cause, ...]
    changes: tuple[Fix, ...] = ()
    also: tuple[Fix, ...] = ()
    asked: int = 0
    is_exhausted: bool = False

    @property
    def kind(self) -> str:
        """That of the fact that is to be mended, of the nearest miss where nothing helps."""
        return self.changes[0].kind if self.changes else self.blames[0].kind

    @property
    def cause(self) -> str:
        """The facts alone."""
        if self.changes:
            return "; and then ".join(one.cause for one in self.changes)
        return "; ".join(one.cause for one in self.blames[:_BLAMES_SAID])

    @property
    def advice(self) -> str:
        """What to do, "" where nothing helps."""
        return "; then ".join(one.text for one in self.changes)

    @property
    def text(self) -> str:
        """All of it, as events have it."""
        return f"[{self.kind}] {self.cause}{TO_MAKE_IT_FIT if self.changes else ''}{self.advice}"

    @property
    def about(self) -> Hashable:
        """Equal for the same things."""
        size = sum(one.size for one in self.changes)
        return ("change", size, self.blames[0].about) if size else tuple([one.about for one in self.blames])


@runtime_checkable
class BlamingPlugin(Protocol):
    """Optional: a plugin that can say more about its refusals than their reason."""

    @property
    def name(self) -> str: ...
    def blame(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Cause]:
        """What keeps the cycle's pod from `nodes`, all of which this plugin refused: the nearest miss first.

        Called after PreFilter; none where the plugin cannot say. `nodes` may be thousands: it looks closely at
        `limits.nodes` of them. Its steps are the cycle's.
        """
        ...


class Pin(Struct, frozen=True):
    """An object that lets the pod run on few nodes only, whatever else is so.

    Args:
        kind, cause: As of a `Cause`; the cause goes on with what keeps the pod from these nodes.
        nodes: Those few; maybe none that is there.
    """

    kind: str
    cause: str
    nodes: frozenset[NodeName]


@runtime_checkable
class PinningPlugin(Protocol):
    """Optional: a plugin that knows of such objects."""

    @property
    def name(self) -> str: ...
    def pin(self, cycle: Cycle) -> Pin | None:
        """What pins the cycle's pod, None where nothing does. Called after PreFilter."""
        ...


def may_name(key: PodKey | ClaimKey, *, to: str, limits: Limits = EVENT) -> bool:
    """Whether an event or condition of namespace `to` may name this pod or claim.

    Who may read a pod's events may not read what other namespaces run.
    """
    return limits.names_others or key.namespace == to


def told(kind: str, key: PodKey | ClaimKey, *, to: str, limits: Limits = EVENT) -> str:
    """A pod or claim in what namespace `to` is told."""
    return f"{kind} {key}" if may_name(key, to=to, limits=limits) else f"a {kind} of another namespace"


def told_pods(pods: Sequence[PodKey], most: int, *, to: str, limits: Limits = EVENT) -> str:
    """Several pods likewise, at most so many of them by name: `team/a and 2 more of other namespaces`."""
    names = [str(key) for key in pods if may_name(key, to=to, limits=limits)]
    named, others = names[:most], len(pods) - min(len(names), most)
    whose = "" if len(names) == len(pods) else " of other namespaces"
    more = [f"{others}{' more' * (bool(named) or not whose)}{whose}"] if others else []
    return " and ".join([", ".join(named)] * bool(named) + more)


def pod_text(other: Pod, *, to: Pod, limits: Limits = EVENT) -> str:
    """A pod in what is said of another one."""
    return f"{told('pod', other.key, to=to.metadata.namespace, limits=limits)} (priority {other.spec.priority or 0})"


def with_fact(change: Fix, blame: Cause) -> Fix:
    """The change with the fact that it removes, where it has none of its own."""
    return structs.replace(change, cause=change.cause or blame.cause, kind=change.kind or blame.kind)


def edited_object(pod: Pod) -> str:
    """What a person edits to change the pod: itself, or what makes such pods; `deployment default/web`.

    A Deployment's ReplicaSet has its name, and the hash of the template that the pod has as a label.
    """
    owner = next((one for one in pod.metadata.owner_references or () if one.controller), None)
    if owner is None:
        return f"pod {pod.key}"
    kind, name = owner.kind.lower(), owner.name
    suffix = f"-{(pod.metadata.labels or {}).get('pod-template-hash', '')}"
    if owner.kind == "ReplicaSet" and len(suffix) > 1 and name.endswith(suffix):
        kind, name = "deployment", name.removesuffix(suffix)
    return f"{kind} {pod.metadata.namespace}/{name}"


def admin_access_unlabelled(namespace: str) -> tuple[str, str]:
    """The fact and the command, of claims for admin access where the API server takes none."""
    cause = f"Namespace {namespace} has no label {ADMIN_ACCESS_LABEL}, and a claim there asks for admin access"
    return cause, shlex.join(("kubectl", "label", "namespace", namespace, f"{ADMIN_ACCESS_LABEL}=true"))


def likeliest(nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits = EVENT) -> list[NodeInfo]:
    """Those of many nodes that are worth a closer look: the ones with devices of their own, where there are any."""
    own = view.inventory.nodes_with_own_slices
    return ([node for node in nodes if node.name in own] or list(nodes))[: limits.nodes]


def named(nodes: Sequence[NodeInfo], one: str, many: str) -> str:
    """`node a is`, `nodes a, b, c and 4 more are`."""
    names = ", ".join(node.name for node in nodes[:NODES_NAMED])
    more = f" and {len(nodes) - NODES_NAMED} more" if len(nodes) > NODES_NAMED else ""
    return f"node {names} {one}" if len(nodes) == 1 else f"nodes {names}{more} {many}"


def taint_text(taint: TaintLike) -> str:
    """As kubectl writes it."""
    return f"{taint.key}{'=' + taint.value if taint.value else ''}:{taint.effect}"


def toleration_text(taint: TaintLike) -> str:
    """The toleration for a taint, as YAML in one line."""
    value = f", value: {taint.value}" if taint.value else ""
    operator = "Equal" if taint.value else "Exists"
    return f"{{key: {taint.key}, operator: {operator}, effect: {taint.effect}{value}}}"


def with_cause(message: str, cause: str) -> str:
    """Kube-scheduler's sentence and the cause, which is cut so that both have `LENGTH_MAX` bytes together."""
    if not cause:
        return message
    room = max(LENGTH_MAX - len((message + SEPARATOR).encode()), _LEAST)
    encoded = cause.encode()
    if len(encoded) > room:
        cause = encoded[: room - len(_CUT.encode())].decode("utf-8", "ignore") + _CUT
    return f"{message}{SEPARATOR}{cause}"


def without_cause(message: str) -> str:
    """Kube-scheduler's sentence alone."""
    return message.partition(SEPARATOR)[0]


def cause_of(message: str) -> str:
    """The cause alone, "" where none is said."""
    return message.partition(SEPARATOR)[2]
