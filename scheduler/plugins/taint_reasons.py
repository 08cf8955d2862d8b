"""Which taints keep a pod from nodes: what TaintToleration says of nodes that it refused.

A taint under `node.kubernetes.io/` says how the node fares (not ready, under pressure): no toleration is proposed then.

Not here: the verdict (`taint_toleration`); asking as if a change were made (`core.reports.cause_search`).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from msgspec import structs

from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import Limits, likeliest, taint_text, toleration_text, with_spec
from scheduler.model.nearest import near
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Node, Pod, Taint, Toleration
from scheduler.model.taints import REPELLING_EFFECTS
from scheduler.why.reasons import Fix, Reason
from scheduler.why.say import names

_NODES_BLAMED: Final = 64
_TAINTS_MAX: Final = 16
"""Of one node; and tolerations of the pod that are compared."""
_LOOKUPS_A_TAINT: Final = 16
_REMOVED_MAX: Final = 3
_CONDITION: Final = "node.kubernetes.io/"

_Taints: TypeAlias = tuple[Taint, ...]


def diagnose_taints(
    cycle: Cycle,
    nodes: Sequence[NodeInfo],
    view: ClusterView,
    limits: Limits,
    *,
    tolerates: Callable[[Taint], bool],
) -> Sequence[Reason]:
    """What the nodes have that the pod does not tolerate: the nodes with fewest such taints first, then most nodes.

    Args:
        tolerates: Whether the pod does, for a taint that repels pods.
    """
    by_taints: dict[_Taints, list[NodeInfo]] = {}
    for one in nodes[: max(_NODES_BLAMED, limits.nodes)]:
        taints = (one.node.spec.taints or ())[:_TAINTS_MAX]
        lacking = tuple([each for each in taints if each.effect in REPELLING_EFFECTS and not tolerates(each)])
        cycle.charge(_LOOKUPS_A_TAINT * (1 + len(taints)))
        if lacking:
            by_taints.setdefault(lacking, []).append(one)
    ranked = sorted(by_taints.items(), key=lambda one: (_is_condition(one[0]), len(one[0]), -len(one[1])))
    return [_reason(cycle.pod, *one, view, limits) for one in ranked[: limits.nodes]]


def _is_condition(taints: _Taints) -> bool:
    return any(one.key.startswith(_CONDITION) for one in taints)


def _reason(pod: Pod, taints: _Taints, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Reason:
    meant = _meant(pod, taints[0]) if len(taints) == 1 else None
    fields = {
        "nodes": names(node.name for node in nodes),
        "taints": tuple(map(taint_text, taints)),
        "pod": pod.key,
        "meant": _toleration(meant) if meant is not None else "",
    }
    return Reason("node-tainted", fields, fixes=tuple(_fixes(pod, taints, meant, likeliest(nodes, view, limits))))


def _meant(pod: Pod, taint: Taint) -> Toleration | None:
    """The pod's toleration that was probably meant for the taint: of its key, or of one like it."""
    own = {one.key: one for one in reversed((pod.spec.tolerations or ())[:_TAINTS_MAX]) if one.key}
    return own.get(taint.key) or own.get(near(taint.key, own))


def _toleration(one: Toleration) -> str:
    value = f"={one.value}" if one.value else ""
    return f"{one.key}{value}{':' + one.effect if one.effect else ''}"


def _fixes(pod: Pod, taints: _Taints, meant: Toleration | None, nodes: Sequence[NodeInfo]) -> Iterator[Fix]:
    on = tuple([one.name for one in nodes])
    if not (is_condition := _is_condition(taints)):
        own, tolerations = pod.spec.tolerations or (), tuple(map(toleration_text, taints))
        if meant is not None:
            rest = [one for one in own if one is not meant]
            fields = {"written": f"the toleration {tolerations[0]}", "wrong": _toleration(meant)}
            yield Fix("written", fields, on, pod=_tolerating(pod, rest, taints))
        yield Fix("toleration-added", {"tolerations": tolerations}, on, pod=_tolerating(pod, own, taints))
    for one in nodes if len(taints) <= _REMOVED_MAX else ():
        node = _without(one.node, taints)
        if is_condition:
            yield Fix("node-repaired", {"node": one.name}, (one.name,), node=node)
            continue
        taint_node = ("kubectl", "taint", "node", one.name)
        command = " && ".join(shlex.join((*taint_node, f"{taint_text(taint)}-")) for taint in taints)
        yield Fix("taint-removed", {}, (one.name,), command, node=node)


def _tolerating(pod: Pod, own: Iterable[Toleration], taints: _Taints) -> Pod:
    more = [Toleration(one.key, "Equal" if one.value else "Exists", one.value, one.effect) for one in taints]
    return with_spec(pod, tolerations=(*own, *more))


def _without(node: Node, taints: _Taints) -> Node:
    left = tuple([one for one in node.spec.taints or () if one not in taints])
    return structs.replace(node, spec=structs.replace(node.spec, taints=left))
