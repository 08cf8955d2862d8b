"""What the nearest node lacks of cpu, memory and other resources: what NodeResourcesFit says of nodes that it refused.

Not here: the verdict (`node_resources_fit`); asking as if a change were made (`core.reports.cause_search`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import structs

from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import Limits, with_spec
from scheduler.framework.two_stacks import stacks_seen
from scheduler.model.keys import NodeName
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.model.resources import CPU, PODS, counted_amounts, is_served_resource, parse_nano
from scheduler.plugins.ended_reasons import ending, importance
from scheduler.why.reasons import Fix, Reason, removing

_NANO: Final = 10**9
_UNITS: Final = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


def diagnose_room(pod: Pod, nodes: Sequence[NodeInfo], needed: Mapping[str, int], limits: Limits) -> Sequence[Reason]:
    """The node that lacks fewest resources, and of these least.

    Args:
        needed: What the pod asks for, cpu in milli, others in units.
    """
    lacking = sorted([(node, short) for node in nodes if (short := _lacking(node, needed))], key=_rank)
    if not lacking:
        return ()
    found: list[Reason] = []
    left = limits.changes + 1  # so that the search sees that there are more
    for node, short in lacking[: limits.nodes]:
        found.append(_reason(pod, node, short, min(left, limits.holders)))
        left = max(0, left - len(found[-1].fixes))
    nearest, *farther = found
    others = [removing(fix, reason) for reason in farther for fix in reason.fixes]
    return (structs.replace(nearest, fixes=(*nearest.fixes, *others)),)


def diagnose_taken(
    cycle: Cycle, nodes: Sequence[NodeInfo], needed: Mapping[str, int], view: ClusterView
) -> Iterator[Reason]:
    """Nodes whose device plugin serves enough, but for what claims have of that."""
    for node in nodes:
        for one in stacks_seen(node, view, cycle) or ():
            asked, free = needed.get(one.resource, 0), one.total - node.requested.get(one.resource, 0)
            if one.room < asked <= free:
                fields = {"node": node.name, "resource": one.resource, "total": one.total, "pod": cycle.pod.key}
                fields |= {"used": one.used.bit_count() + one.gone, "room": max(0, one.room) or "none", "asked": asked}
                yield Reason("two-stacks", fields, "pods")


def _reason(pod: Pod, node: NodeInfo, short: Mapping[str, tuple[int, int]], ends_max: int) -> Reason:
    amounts = [(name, *one) for name, one in short.items() if name != PODS]
    fields = {
        "node": node.name,
        "pod": pod.key,
        "resources": tuple(short),
        "free": tuple([f"{_amount(name, free)} {name}" for name, _, free in amounts]),
        "asked": tuple([_amount(name, asked) + f" {name}" * (len(amounts) > 1) for name, asked, _ in amounts]),
        "most": node.allocatable.get(PODS, 0),
        "count": len(node.pods),
    }
    kind = "pods-full" if PODS in short else "resources-short"
    return Reason(kind, fields, fixes=tuple(_fixes(pod, node, short, ends_max)))


def _rank(lacking: tuple[NodeInfo, Mapping[str, tuple[int, int]]]) -> tuple[int, float, str]:
    node, short = lacking
    return len(short), sum(1 - free / asked for asked, free in short.values()), node.name


def _lacking(node: NodeInfo, needed: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Of each resource that the node lacks: asked, free."""
    free = {name: node.allocatable.get(name, 0) - node.requested.get(name, 0) for name in needed}
    lacking = {name: (asked, max(0, free[name])) for name, asked in needed.items() if asked > free[name]}
    if len(node.pods) + 1 > node.allocatable.get(PODS, 0):
        lacking[PODS] = 1, 0
    return lacking


def _fixes(pod: Pod, node: NodeInfo, short: Mapping[str, tuple[int, int]], ends_max: int) -> Iterator[Fix]:
    if len(short) == 1 and PODS not in short:
        ((name, (asked, free)),) = short.items()
        if free and (less := less_in_container(pod, name, asked - free, node.name)) is not None:
            yield less
    if not ends_max:
        return
    takers = [one for one in node.pods.values() if any(counted_amounts(one).requests.get(name) for name in short)]
    ends = sorted(takers if PODS not in short else node.pods.values(), key=importance)
    yield from [ending(pod, [one], [node.name]) for one in ends[:ends_max]]


def less_in_container(pod: Pod, name: str, excess: int, node: NodeName) -> Fix | None:
    """The container that asks for most asks for so much less; None where it cannot."""
    containers = pod.spec.containers or ()
    asked = [
        (parse_nano((one.resources.requests or {}).get(name, 0)) or 0 if one.resources is not None else 0)
        for one in containers
    ]
    if not asked:
        return None
    unit = _NANO // 1_000 if name == CPU else _NANO
    place = asked.index(max(asked))
    left = asked[place] // unit - excess
    container = containers[place]
    if left <= 0 or container.resources is None:
        return None
    requests = container.resources.requests or {}
    amount = _amount(name, left)
    resources = structs.replace(container.resources, requests={**requests, name: amount})
    changed = (*containers[:place], structs.replace(container, resources=resources), *containers[place + 1 :])
    fields = {
        "resource": name,
        "amount": amount,
        "asked": requests[name],
        "container": container.name,
        # The API server wants both equal of what cannot be shared.
        "both": "requests and limits" if is_served_resource(name) else "",
    }
    return Fix("amount-lowered", fields, (node,), pod=with_spec(pod, containers=changed))


def _amount(name: str, amount: int) -> str:
    """As a manifest has it."""
    if name == CPU:
        return f"{amount}m" if amount % 1_000 else str(amount // 1_000)
    for suffix, size in _UNITS:
        if amount and not amount % size:
            return f"{amount // size}{suffix}"
    return str(amount)
