"""What the nearest node lacks of cpu, memory and other resources: what NodeResourcesFit says of nodes that it refused.

Not here: the verdict (`node_resources_fit`); asking as if a change were made (`core.causes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import structs

from scheduler.framework.blame import Blame, Change, Limits, pod_text
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.model.resources import CPU, PODS, counted_amounts, parse_nano

_NANO: Final = 10**9
_UNITS: Final = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


def blame_for_room(
    plugin: str, pod: Pod, nodes: Sequence[NodeInfo], needed: Mapping[str, int], limits: Limits
) -> Sequence[Blame]:
    """The node that lacks fewest resources, and of these least.

    Args:
        needed: What the pod asks for, cpu in milli, others in units.
    """
    lacking = [(node, short) for node in nodes if (short := _lacking(node, needed))]
    if not lacking:
        return ()
    found, short = min(lacking, key=lambda one: _rank(*one))
    parts = [
        f"{_amount(name, free)} {name} free, and pod {pod.key} asks for {_amount(name, asked)}"
        if name != PODS
        else f"room for {found.allocatable.get(PODS, 0)} pods, and has {len(found.pods)}"
        for name, (asked, free) in short.items()
    ]
    cause = f"node {found.name} has {', and '.join(parts)}"
    kind = "pods-full" if PODS in short else "resources-short"
    return (Blame(kind, cause, (plugin, *short), tuple(_changes(cause, pod, found, short, limits))),)


def _rank(node: NodeInfo, short: Mapping[str, tuple[int, int]]) -> tuple[int, float, str]:
    return len(short), sum(1 - free / asked for asked, free in short.values()), node.name


def _lacking(node: NodeInfo, needed: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Of each resource that the node lacks: asked, free."""
    free = {name: node.allocatable.get(name, 0) - node.requested.get(name, 0) for name in needed}
    lacking = {name: (asked, max(0, free[name])) for name, asked in needed.items() if asked > free[name]}
    if len(node.pods) + 1 > node.allocatable.get(PODS, 0):
        lacking[PODS] = 1, 0
    return lacking


def _changes(
    lacking: str, pod: Pod, node: NodeInfo, short: Mapping[str, tuple[int, int]], limits: Limits
) -> Iterator[Change]:
    if len(short) == 1 and PODS not in short:
        ((name, (asked, free)),) = short.items()
        if free and (found := less_in_container(pod, name, asked - free)) is not None:
            container, before, amount, smaller = found
            yield Change(
                3,
                f"ask for {name} {amount} instead of {before} in container {container} of pod {pod.key}",
                (node.name,),
                pod=smaller,
            )
    takers = [one for one in node.pods.values() if any(counted_amounts(one).requests.get(name) for name in short)]
    for one in sorted(takers if PODS not in short else node.pods.values(), key=_importance)[: limits.holders]:
        text = pod_text(one, to=pod, limits=limits)
        yield Change(
            6,
            f"end {text} on node {node.name}",
            (node.name,),
            cause=f"{lacking}: {text} is in its way",
            removed=(one.uid,),
        )


def _importance(pod: Pod) -> tuple[int, str]:
    return pod.spec.priority or 0, str(pod.key)


def less_in_container(pod: Pod, name: str, excess: int) -> tuple[str, str, str, Pod] | None:
    """The pod with less in the container that asks for most: its name, what it asks for, and would."""
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
    smaller = structs.replace(pod, spec=structs.replace(pod.spec, containers=changed))
    return container.name, str(requests[name]), amount, smaller


def _amount(name: str, amount: int) -> str:
    """As a manifest has it."""
    if name == CPU:
        return f"{amount}m" if amount % 1_000 else str(amount // 1_000)
    for suffix, size in _UNITS:
        if amount and not amount % size:
            return f"{amount // size}{suffix}"
    return str(amount)
