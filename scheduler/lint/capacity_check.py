"""How many pods of a workload would get their devices from a cluster as it was dumped.

Pods are placed one after another, each on the first node that has devices for it, with the scheduler's own allocator.
Only devices, nodeSelector, required node affinity, taints and cordons count; CPU and memory do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from allocator import (
    Allocated,
    AllocationError,
    BudgetExhausted,
    Claim,
    DecodeError,
    DeviceClass,
    Features,
    Inventory,
    NodeSelectorError,
    NodeView,
    Question,
    allocate,
    decode_claim_spec,
    decode_class,
    decode_node_selector,
    explain,
    match_node_selector,
)
from scheduler.lint.context import Context
from scheduler.lint.pods import MANY, PodSpec, claim_spec_of
from scheduler.lint.published import Published, defaulted_claim_spec
from scheduler.lint.view import mapping, mappings, sequence, text

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
    features = Features(kubernetes="1.37" if context.settings.minor >= 37 else "1.36")
    for pod in specs:
        claims = _claims_of(pod, context, published)
        if not claims:
            continue
        wanted = pod.replicas
        if wanted == MANY:
            continue  # one on each node is what it is; too few devices show on the nodes that have none
        most = min(max(wanted, 1), _REPLICAS_MAX)
        fit = _fit(pod, claims, context, published, features=features, wanted=most)
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
    pod: PodSpec, claims: list[Claim], context: Context, published: Published, *, features: Features, wanted: int
) -> Fit:
    nodes = [
        NodeView(name, _labels(node)) for name, node in sorted(published.nodes.items()) if _is_feasible(pod, name, node)
    ]
    if not published.nodes:
        names = {slice_.node_name for slice_ in published.slices if slice_.node_name} or {"any-node"}
        nodes = [NodeView(name, {}) for name in sorted(names)]
    if not nodes:
        return Fit(0, f"none of {len(published.nodes)} nodes passes its nodeSelector, affinity and tolerations")
    inventory = Inventory(published.slices, {**published.classes, **_file_classes(context)}.values())
    in_use = published.in_use.copy()
    share_ids = (f"share-{number}" for number in count(1))
    is_sure = True
    fitted = 0
    full = 0  # nodes before this one take no more
    try:
        while fitted < wanted and full < len(nodes):
            outcome = allocate(Question(claims, nodes[full], inventory, in_use, features, _BUDGET_STEPS, share_ids))
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
        explanation = explain(Question(claims, node, inventory, in_use, features, _BUDGET_STEPS))
        for request in explanation.requests:
            total, most, _ = best.get(request.request, (0, 0, 0))
            best[request.request] = (total + request.left, max(most, request.left), max(request.wanted, 1))
    if not best:
        return ""
    name, (total, most, wanted) = min(best.items(), key=lambda item: item[1][1] - item[1][2])
    if most >= wanted:
        return f"request {name}: {total} free devices match, but not all that is asked for together"
    return f"request {name} needs {wanted}: {total} free, at most {most} on a node ({len(nodes)} nodes)"


def _file_classes(context: Context) -> dict[str, DeviceClass]:
    classes = {}
    for name, view in context.classes.items():
        try:
            classes[name] = decode_class(view.obj)
        except DecodeError:
            continue
    return classes


# --- nodes --------------------------------------------------------------------------------------------------


def _labels(node: Mapping[str, Any]) -> dict[str, str]:
    labels = mapping(mapping(node.get("metadata")).get("labels"))
    return {key: value for key, value in labels.items() if isinstance(value, str)}


def _is_feasible(pod: PodSpec, name: str, node: Mapping[str, Any]) -> bool:
    labels = _labels(node)
    wanted = mapping(pod.spec.get("nodeSelector"))
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    affinity = mapping(mapping(pod.spec.get("affinity")).get("nodeAffinity"))
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if isinstance(required, dict):
        try:
            if not match_node_selector(decode_node_selector(required), NodeView(name, labels)):
                return False
        except (DecodeError, NodeSelectorError):
            return False
    spec = mapping(node.get("spec"))
    taints = [taint for _, taint in mappings(spec.get("taints"))]
    if spec.get("unschedulable"):
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    tolerations = [entry for entry in sequence(pod.spec.get("tolerations")) if isinstance(entry, dict)]
    return all(
        taint.get("effect") == "PreferNoSchedule" or any(_tolerates(each, taint) for each in tolerations)
        for taint in taints
    )


def _tolerates(toleration: dict[str, Any], taint: dict[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")
