"""Which taints keep a pod from nodes: what TaintToleration says of nodes that it refused.

A taint under `node.kubernetes.io/` says how the node fares (not ready, under pressure): no toleration is proposed then.

Not here: the verdict (`taint_toleration`); asking as if a change were made (`core.reports.cause_search`).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from msgspec import structs

from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import Limits, edited_object, likeliest, named, taint_text, toleration_text
from scheduler.model.nearest import near
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Node, Pod, Taint, Toleration
from scheduler.model.taints import REPELLING_EFFECTS
from scheduler.why.reasons import Fix, Reason, plain_fix, plain_reason

_NODES_BLAMED: Final = 64
_TAINTS_MAX: Final = 16
"""Of one node; and tolerations of the pod that are compared."""
_LOOKUPS_A_TAINT: Final = 16
_SAID_MAX: Final = 3
_CONDITION: Final = "node.kubernetes.io/"

_Taints: TypeAlias = tuple[Taint, ...]


def blame_for_taints(
    plugin: str,
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
    return [
        plain_reason("node-tainted", _fact(cycle.pod, taints, having), (plugin, taints), tuple(changes))
        for taints, having in ranked[: limits.nodes]
        for changes in (_changes(cycle.pod, taints, likeliest(having, view, limits)),)
    ]


def _is_condition(taints: _Taints) -> bool:
    return any(one.key.startswith(_CONDITION) for one in taints)


def _fact(pod: Pod, taints: _Taints, nodes: Sequence[NodeInfo]) -> str:
    shown = ", ".join(map(taint_text, taints[:_SAID_MAX]))
    more = f" and {len(taints) - _SAID_MAX} more" if len(taints) > _SAID_MAX else ""
    word = "taints" if len(taints) > 1 else "taint"
    meant = _meant(pod, taints[0]) if len(taints) == 1 else None
    other = f" (it tolerates {_toleration(meant)})" if meant is not None else ""
    return f"{named(nodes, 'has', 'have')} the {word} {shown}{more}, which pod {pod.key} does not tolerate{other}"


def _meant(pod: Pod, taint: Taint) -> Toleration | None:
    """The pod's toleration that was probably meant for the taint: of its key, or of one like it."""
    own = {one.key: one for one in reversed((pod.spec.tolerations or ())[:_TAINTS_MAX]) if one.key}
    return own.get(taint.key) or own.get(near(taint.key, own))


def _toleration(one: Toleration) -> str:
    value = f"={one.value}" if one.value else ""
    return f"{one.key}{value}{':' + one.effect if one.effect else ''}"


def _changes(pod: Pod, taints: _Taints, nodes: Sequence[NodeInfo]) -> Iterator[Fix]:
    on, edited = tuple([one.name for one in nodes]), edited_object(pod)
    if not _is_condition(taints):
        own = pod.spec.tolerations or ()
        meant = _meant(pod, taints[0]) if len(taints) == 1 else None
        if meant is not None:
            rest = tuple([one for one in own if one is not meant])
            text = f"write the toleration {toleration_text(taints[0])} instead of {_toleration(meant)} in {edited}"
            yield plain_fix(1, text, on, pod=_tolerating(pod, (*rest, _for(taints[0]))))
        what = " and ".join(map(toleration_text, taints[:_SAID_MAX]))
        what += f" and {len(taints) - _SAID_MAX} more" if len(taints) > _SAID_MAX else ""
        text = f"add the toleration{'s' if len(taints) > 1 else ''} {what} to {edited}"
        yield plain_fix(2, text, on, pod=_tolerating(pod, (*own, *map(_for, taints))))
    for one in nodes if len(taints) <= _SAID_MAX else ():
        taint_node = ("kubectl", "taint", "node", one.name)
        command = " && ".join(shlex.join((*taint_node, f"{taint_text(taint)}-")) for taint in taints)
        text = command
        if _is_condition(taints):
            describe = shlex.join(("kubectl", "describe", "node", one.name))
            text, command = f"bring node {one.name} back into order: {describe} says why", ""
        yield plain_fix(5, text, (one.name,), command=command, node=_without(one.node, taints))


def _for(taint: Taint) -> Toleration:
    return Toleration(taint.key, "Equal" if taint.value else "Exists", taint.value, taint.effect)


def _tolerating(pod: Pod, tolerations: tuple[Toleration, ...]) -> Pod:
    return structs.replace(pod, spec=structs.replace(pod.spec, tolerations=tolerations))


def _without(node: Node, taints: _Taints) -> Node:
    left = tuple([one for one in node.spec.taints or () if one not in taints])
    return structs.replace(node, spec=structs.replace(node.spec, taints=left))
