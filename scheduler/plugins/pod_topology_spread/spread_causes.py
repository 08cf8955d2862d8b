"""Where a pod would be too many: what PodTopologySpread says of nodes that it refused.

Not here: the verdict (`plugin`); asking as if a change were made (`core.reports.cause_search`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.diagnosis import Limits, likeliest, with_spec
from scheduler.framework.pod_counts_view import PodCount
from scheduler.model.keys import NodeName
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.plugins.ended_reasons import is_one_of_a_group
from scheduler.plugins.pod_topology_spread.spread_constraints import DO_NOT_SCHEDULE, Constraint
from scheduler.why.reasons import Fix, Reason
from scheduler.why.say import Fields


def diagnose_spread(
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
    broken = [facts for node in near if (facts := [*_broken(node, most)])]
    if not broken:
        return ()
    form, fields = min(broken, key=len)[0]
    fixes = tuple(_relaxed(pod, tuple([node.name for node in near])))
    return (Reason("spread-unmet", {**fields, "pod": pod.key}, form, fixes),)


def _broken(node: NodeInfo, limits: Sequence[tuple[Constraint, PodCount, int]]) -> Iterator[tuple[str, Fields]]:
    for one, count, most in limits:
        value = node.node.labels.get(one.key)
        if value is None:
            yield "lacks", {"node": node.name, "key": one.key}
        elif (pods := count.of_value(value)) > most:
            fields = {"key": one.key, "value": value, "pods": pods, "least": count.minimum or 0, "skew": one.max_skew}
            domains = {"needed": one.min_domains, "domains": count.domains}
            yield "few" if count.domains < one.min_domains else "", fields | domains


def _relaxed(pod: Pod, on: tuple[NodeName, ...]) -> Iterator[Fix]:
    own = pod.spec.topology_spread_constraints or ()
    soft = tuple([one for one in own if one.when_unsatisfiable != DO_NOT_SCHEDULE])
    if len(soft) < len(own) and not is_one_of_a_group(pod):
        relaxed = with_spec(pod, topology_spread_constraints=soft)
        yield Fix("rule-relaxed", {"rule": "topologySpreadConstraints"}, on, pod=relaxed)
