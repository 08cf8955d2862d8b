"""Where a pod would be too many: what PodTopologySpread says of nodes that it refused.

Not here: the verdict (`plugin`); asking as if a change were made (`core.reports.cause_search`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import structs

from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.diagnosis import Limits, edited_object, likeliest
from scheduler.framework.pod_counts_view import PodCount
from scheduler.model.keys import NodeName
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.plugins.pod_topology_spread.spread_constraints import DO_NOT_SCHEDULE, Constraint
from scheduler.why.reasons import Fix, Reason, plain_fix, plain_reason


def blame_for_spread(  # noqa: PLR0917
    plugin: str,
    pod: Pod,
    nodes: Sequence[NodeInfo],
    most: Sequence[tuple[Constraint, PodCount, int]],
    view: ClusterView,
    limits: Limits,
) -> Sequence[Reason]:
    """The constraint that the likeliest node breaks which breaks fewest.

    Args:
        most: The hard constraints, each with its counts and the most pods that a domain may have before this one.
    """
    near = likeliest(nodes, view, limits)
    broken = [facts for node in near if (facts := [*_broken(pod, node, most)])]
    if not broken:
        return ()
    cause = min(broken, key=len)[0]
    return (plain_reason("spread-unmet", cause, plugin, tuple(_changes(pod, tuple([node.name for node in near])))),)


def _broken(pod: Pod, node: NodeInfo, limits: Sequence[tuple[Constraint, PodCount, int]]) -> Iterator[str]:
    for one, count, most in limits:
        value = node.node.labels.get(one.key)
        if value is None:
            yield f"node {node.name} has no label {one.key}, by which pod {pod.key} is to be spread"
        elif (pods := count.of_value(value)) > most:
            there = f"{one.key}={value} has {pods} {'pod' if pods == 1 else 'pods'} that pod {pod.key} is spread with"
            if count.domains < one.min_domains:
                yield f"{there}; minDomains is {one.min_domains}, and {one.key} has {count.domains} values"
            else:
                yield f"{there}, and another {one.key} has {count.minimum or 0}; maxSkew is {one.max_skew}"


def _changes(pod: Pod, on: tuple[NodeName, ...]) -> Iterator[Fix]:
    own = pod.spec.topology_spread_constraints or ()
    soft = tuple([one for one in own if one.when_unsatisfiable != DO_NOT_SCHEDULE])
    if len(soft) < len(own):
        spec = structs.replace(pod.spec, topology_spread_constraints=soft)
        text = f"relax the topologySpreadConstraints of {edited_object(pod)}"
        yield plain_fix(5, text, on, pod=structs.replace(pod, spec=spec))
