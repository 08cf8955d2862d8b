"""Why a pod fits no node, and what would make it fit: what plugins are asked, and the words around their answer.

A pod's event and condition say kube-scheduler's sentence, then `SEPARATOR`, then the cause (docs/adr/0030-explain.md).

Rules of this module
  1. A cause is a fact about the cluster as it is. A change is said only when the plugins, asked again as if it were
     made, let the pod in.
  2. What stands before the separator is kube-scheduler's sentence, byte for byte.
  3. Events and conditions name no pods or claims of other namespaces (`why.say.Reader`). `dra-scheduler explain` names
     them, to who may read them.

Not here: when a pod is explained, and asking as if a change were made (`core.reports.cause_search`).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

from msgspec import Struct, structs

from allocator.requests.device_taints import TaintLike
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.model.api_rules import ADMIN_ACCESS_LABEL
from scheduler.model.keys import NodeName
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Node, Pod
from scheduler.why.reasons import Fix, Reason
from scheduler.why.say import Sentence

SEPARATOR: Final = " Cause: "
LENGTH_MAX: Final = 1_024
"""Bytes of a message with its cause: no event's note may be longer."""
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
        firsts: Changes for which a second one is searched, each on one node.
        also: Further single changes to report beside the first that helps.
        steps: For one question, about 4 us each; a plugin that takes more does not answer.
        all_steps: For all questions about a pod together; then the search ends, and the answer is a first look.
    """

    nodes: int
    devices: int
    counts: int
    holders: int
    changes: int
    firsts: int
    also: int
    steps: int
    all_steps: int


COMMAND: Final = Limits(
    nodes=64,
    devices=50_000,
    counts=16,
    holders=256,
    changes=1_000,
    firsts=256,
    also=3,
    steps=10**7,
    all_steps=10**7,
)
"""`dra-scheduler explain`: a process of its own, for somebody who has read all the objects."""
EVENT: Final = structs.replace(COMMAND, devices=512, changes=24, also=0, steps=5_000, all_steps=500_000)
"""Found beside scheduling, and shown to whoever may read the pod's events: the same questions with fewer steps."""


@runtime_checkable
class DiagnosingPlugin(Protocol):
    """Optional: a plugin that can say more about its refusals than their reason."""

    @property
    def name(self) -> str: ...
    def diagnose(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Reason]:
        """What keeps the cycle's pod from `nodes`, all of which this plugin refused: the nearest miss first.

        Called after PreFilter; none where the plugin cannot say. `nodes` may be thousands: it looks closely at
        `limits.nodes` of them. Its steps are the cycle's.
        """
        ...


class Pin(Struct, frozen=True):
    """An object that lets the pod run on few nodes only, whatever else is so.

    Args:
        kind, cause: As of a `Reason`; the sentence goes on with what keeps the pod from these nodes. None where the
            pod itself names its nodes: then that alone is the cause.
        nodes: Those few; perhaps none of them exists.
    """

    kind: str
    cause: Sentence | None
    nodes: frozenset[NodeName]


@runtime_checkable
class PinningPlugin(Protocol):
    """Optional: a plugin that knows of such objects."""

    @property
    def name(self) -> str: ...
    def pin(self, cycle: Cycle) -> Pin | None:
        """What pins the cycle's pod, None where nothing does. Called after PreFilter."""
        ...


def with_spec(pod: Pod, **fields: object) -> Pod:
    """The pod as somebody would have edited it."""
    return structs.replace(pod, spec=structs.replace(pod.spec, **fields))


def admin_access_unlabelled(namespace: str) -> Reason:
    """Of claims for admin access where the API server takes none."""
    command = shlex.join(("kubectl", "label", "namespace", namespace, f"{ADMIN_ACCESS_LABEL}=true"))
    fix = Fix("namespace-label", {}, (), command)
    return Reason("admin-access-unlabelled", {"namespace": namespace, "label": ADMIN_ACCESS_LABEL}, fixes=(fix,))


def labelling(node: Node, labels: Mapping[str, str]) -> Fix:
    """The node with these labels beside its own, or in their place."""
    shown = [f"{key}={value}" for key, value in labels.items()]
    overwrite = ["--overwrite"] if not labels.keys().isdisjoint(node.labels) else []
    command = shlex.join(("kubectl", "label", "node", node.name, *shown, *overwrite))
    labelled = structs.replace(node, metadata=structs.replace(node.metadata, labels={**node.labels, **labels}))
    return Fix("node-labelled", {}, (node.name,), command, node=labelled)


def likeliest(nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits = EVENT) -> list[NodeInfo]:
    """Those of many nodes that are worth a closer look: the ones with devices of their own, where there are any."""
    own = view.inventory.nodes_with_own_slices
    return ([node for node in nodes if node.name in own] or list(nodes))[: limits.nodes]


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
