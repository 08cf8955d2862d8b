"""Where a pod would be too many: what PodTopologySpread says of nodes that it refused.

Not here: the verdict (`plugin`); asking as if a change were made (`core.causes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import structs

from scheduler.framework.blame import Blame, Change, Limits, likeliest
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.pod_counts_view import PodCount
from scheduler.model.keys import NodeName
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.plugins.pod_topology_spread.constraints import DO_NOT_SCHEDULE, Constraint


def blame_for_spread(  # noqa: PLR0917
    plugin: str,
    pod: Pod,
    nodes: Sequence[NodeInfo],
    most: Sequence[tuple[Constraint, PodCount, int]],
    view: ClusterView,
    limits: Limits,
) -> Sequence[Blame]:
    """What the likeliest node's domains lack or have too much of.

    Args:
        most: The hard constraints, each with its counts and the most pods that a domain may have before this one.
    """
    near = likeliest(nodes, view, limits)
    if not near:
        return ()
    broken = next(filter(None, ([*_broken(node, most)] for node in near)), None)
    if not broken:
        return ()
    cause = f"{', and '.join(broken)}: the topologySpreadConstraints of pod {pod.key}"
    return (Blame("spread-unmet", cause, plugin, tuple(_changes(pod, tuple([node.name for node in near])))),)


def _broken(node: NodeInfo, limits: Sequence[tuple[Constraint, PodCount, int]]) -> Iterator[str]:
    for one, count, most in limits:
        value = node.node.labels.get(one.key)
        if value is None:
            yield f"node {node.name} has no label {one.key}"
        elif (pods := count.of_value(value)) > most:
            yield f"{one.key}={value} (node {node.name}) has {pods} such pods, more than maxSkew {one.max_skew} allows"


def _changes(pod: Pod, on: tuple[NodeName, ...]) -> Iterator[Change]:
    own = pod.spec.topology_spread_constraints or ()
    soft = tuple([one for one in own if one.when_unsatisfiable != DO_NOT_SCHEDULE])
    if len(soft) < len(own):
        spec = structs.replace(pod.spec, topology_spread_constraints=soft)
        text = f"relax the topologySpreadConstraints of pod {pod.key}"
        yield Change(5, text, on, pod=structs.replace(pod, spec=spec))
