"""How many pods of a workload would get their devices from a cluster as it was dumped.

Pods are placed one after another, each on the first node that has devices for it, with the scheduler's own allocator.
Only devices, nodeSelector, required node affinity, taints and cordons count; CPU and memory do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import msgspec

from allocator import (
    OPTIONAL_NODE_OPERATIONS,
    Allocated,
    AllocationError,
    AllocationRequest,
    BudgetExhausted,
    Claim,
    DecodeError,
    Features,
    Inventory,
    NodeSelectorError,
    NodeView,
    allocate,
    decode_claim_spec,
    explain,
)
from scheduler.lint.context import Context
from scheduler.lint.pod_rules import MANY, PodSpec, claim_spec_of
from scheduler.lint.published import Published, defaulted_claim_spec
from scheduler.lint.taken import classes_of, features_of
from scheduler.lint.view import mapping, mappings, text
from scheduler.model.node_selectors import required_node_affinity
from scheduler.model.objects import Node, Pod
from scheduler.model.taints import find_untolerated
from scheduler.yaml_reading import without_nulls

_REPLICAS_MAX: Final = 256
_BUDGET_STEPS: Final = 50_000


@dataclass(frozen=True, slots=True)
class Fit:
    """How many fit, and why not more (empty when all do); `is_sure` False where the search gave up."""

    pods: int
    reason: str
    is_sure: bool = True


def check_capacity(context: Context, specs: Sequence[PodSpec]) -> None:
    """Report workloads for whose replicas the cluster has not enough devices."""
    published = context.published
    if published is None or not published.slices:
        return
    features = features_of(context)
    inventory = Inventory(published.slices, classes_of(context, published).values())
    nodes = _nodes_of(published)
    for pod in specs:
        claims, placing = _claims_of(pod, context, published), _placing(pod)
        if not claims or placing is None:
            continue
        wanted = pod.replicas
        if wanted == MANY:
            continue  # one on each node is what it is; too few devices show on the nodes that have none
        most = min(max(wanted, 1), _REPLICAS_MAX)
        possible = _possible(placing, nodes) if published.nodes else _nodes_named(published)
        if possible:
            fit = _fit(claims, possible, inventory, published, features=features, wanted=most)
        else:
            fit = Fit(0, f"none of {len(nodes)} nodes passes its nodeSelector, affinity and tolerations")
        if fit.pods >= most:
            continue
        view = pod.replicas_view or pod.view
        many = f"{fit.pods} of {wanted} pods fit" if wanted > 1 else "the pod does not fit"
        view.warning(
            "does-not-fit",
            pod.replicas_path or (*pod.path, "resourceClaims"),
            f"{many} on the devices that are free there"
            + ("" if fit.is_sure else " (the search gave up, there may be room)")
            + (f": {fit.reason}" if fit.reason else ""),
            f"at most {fit.pods} replicas, or more devices" if fit.pods and wanted > 1 else "",
        )


def _possible(placing: Pod, nodes: Sequence[Node]) -> list[NodeView]:
    affinity = required_node_affinity(placing)
    return [
        NodeView(node.name, node.labels, node.status.declared_features or ())
        for node in nodes
        if affinity.matches(node) and find_untolerated(node, placing) is None
    ]


def _nodes_named(published: Published) -> list[NodeView]:
    """Where no Node is known, those that slices name."""
    names = {slice_.node_name for slice_ in published.slices if slice_.node_name} or {"any-node"}
    return [NodeView(name, {}, (OPTIONAL_NODE_OPERATIONS,)) for name in sorted(names)]


def _claims_of(pod: PodSpec, context: Context, published: Published) -> list[Claim]:
    """The claims each pod needs a new allocation for; empty when one is not known, or nothing is asked for.

    Claims that are named count for a single pod only, where none is made for it: one claim serves all replicas, and the
    devices that it may hold already are fine.
    """
    entries = list(mappings(pod.spec.get("resourceClaims")))
    made = [(number, entry) for number, entry in entries if not text(entry.get("resourceClaimName"))]
    claims = []
    for number, entry in made or (entries if pod.replicas <= 1 else ()):
        name = text(entry.get("resourceClaimName"))
        spec = claim_spec_of(pod.view, entry, context)
        if spec is None or (name and (pod.view.namespace, name) in published.allocations):
            return []
        name = name or text(entry.get("name")) or f"claim-{number}"
        try:
            claims.append(Claim(pod.view.namespace, name, decode_claim_spec(defaulted_claim_spec(spec))))
        except (DecodeError, ValueError, TypeError):
            return []
    return claims


def _fit(
    claims: list[Claim],
    nodes: list[NodeView],
    inventory: Inventory,
    published: Published,
    *,
    features: Features,
    wanted: int,
) -> Fit:
    in_use = published.in_use.copy()
    share_ids = (f"share-{number}" for number in count(1))
    is_sure = True
    fitted = 0
    full = 0  # nodes before this one take no more
    try:
        while fitted < wanted and full < len(nodes):
            outcome = allocate(
                AllocationRequest(claims, nodes[full], inventory, in_use, features, _BUDGET_STEPS, share_ids)
            )
            if isinstance(outcome, Allocated):
                for allocation in outcome.allocations:
                    in_use.add(allocation)
                fitted += 1
            else:
                is_sure = is_sure and not isinstance(outcome, BudgetExhausted)
                full += 1
        reason = "" if fitted == wanted else _reason(claims, nodes, inventory, in_use, features)
    except (AllocationError, NodeSelectorError) as error:
        return Fit(fitted, str(error))
    return Fit(fitted, reason, is_sure)


def _reason(claims: list[Claim], nodes: list[NodeView], inventory: Inventory, in_use: Any, features: Features) -> str:
    """For the scarcest request: how many free devices match, and how many of them the best node has."""
    best: dict[str, tuple[int, int, int]] = {}
    for node in nodes:
        explanation = explain(AllocationRequest(claims, node, inventory, in_use, features, _BUDGET_STEPS))
        for request in explanation.requests:
            total, most, _ = best.get(request.request, (0, 0, 0))
            best[request.request] = (total + request.left, max(most, request.left), max(request.wanted, 1))
    if not best:
        return ""
    name, (total, most, wanted) = min(best.items(), key=lambda item: item[1][1] - item[1][2])
    if most >= wanted:
        return f"request {name}: {total} free devices match, but not all that is asked for together"
    return f"request {name} needs {wanted}: {total} free, at most {most} on a node ({len(nodes)} nodes)"


def _nodes_of(published: Published) -> list[Node]:
    """The nodes by name, as schedulers read them; a cordon is a taint. What nobody can read is left out."""
    nodes = []
    for name, node in sorted(published.nodes.items()):
        labels = mapping(mapping(node.get("metadata")).get("labels"))
        spec = mapping(node.get("spec"))
        taints = [taint for _, taint in mappings(spec.get("taints"))]
        if spec.get("unschedulable"):
            taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
        read = {
            "metadata": {
                "name": name,
                "labels": {key: value for key, value in labels.items() if isinstance(value, str)},
            },
            "spec": {"taints": [without_nulls(taint) for taint in taints]},
        }
        with suppress(msgspec.ValidationError):
            nodes.append(msgspec.convert(read, Node))
    return nodes


def _placing(pod: PodSpec) -> Pod | None:
    """What of a pod decides its node, devices aside; None where nobody can read it."""
    spec = {name: pod.spec.get(name) for name in ("nodeSelector", "tolerations")}
    affinity = mapping(pod.spec.get("affinity")).get("nodeAffinity")
    spec["affinity"] = {"nodeAffinity": affinity} if affinity is not None else None
    with suppress(msgspec.ValidationError):
        return msgspec.convert({"metadata": {}, "spec": without_nulls(spec)}, Pod)
    return None
