"""Claims without a pod: where each could be allocated, node by node. Only devices are looked at.

That is: slices, classes, DeviceTaintRules, what allocated claims hold, labels of nodes where slices select by them; and
that a claim that is being deleted, or asks for admin access where that is not allowed, is allocated nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.tables import device_text, print_document, print_table
from scheduler.model.api_rules import ADMIN_ACCESS_LABEL

if TYPE_CHECKING:
    from allocator import Claim, Features, InUse, Inventory, NodeView
    from scheduler.offline import Given

_KINDS: Final = (
    *("ResourceSlice", "DeviceClass", "DeviceTaintRule", "Namespace", "Node"),
    *("ResourceClaim", "ResourceClaimTemplate"),
)
NOT_LOOKED_AT: Final = (
    "asked without a pod, so only devices are looked at: not whether nodes are cordoned, tainted, full or selected. "
    "Give the Pod as well to have the scheduler's answer"
)


@dataclass(slots=True)
class _Asked:
    """A claim, and why it would be allocated nowhere ("" when that must be found out)."""

    claim: Claim
    refusal: str = ""


@dataclass(slots=True)
class _World:
    """What there is. `broken` counts objects that could not be read; `problems` says which, and why."""

    slices: list[Any] = field(default_factory=list)
    classes: list[Any] = field(default_factory=list)
    rules: list[Any] = field(default_factory=list)
    claims: list[_Asked] = field(default_factory=list)
    nodes: dict[str, Mapping[str, str]] = field(default_factory=dict)
    namespaces: dict[str, Mapping[str, str]] = field(default_factory=dict)
    in_use: Any = None
    problems: list[str] = field(default_factory=list)
    broken: int = 0


def ask_about_claims(
    given: Sequence[Given],
    *,
    nodes: Sequence[str],
    claims: Sequence[str],
    features: Features,
    budget_steps: int,
    output: str,
) -> int:
    """Ask about each claim on each node, print the answers, and return the exit code."""
    world = _gather(given)
    asked = [one for one in world.claims if not claims or {str(one.claim), one.claim.name} & set(claims)]
    if not asked:
        raise click.ClickException(
            "there is no pod that waits, and no claim without an allocation"
            if not claims
            else f"no unallocated claim is named {' or '.join(claims)}"
        )
    verdicts = _verdicts(world, asked, nodes=nodes, features=features, budget_steps=budget_steps)
    if output == "table":
        _print_table(verdicts)
    else:
        print_document({"nodes": verdicts}, output)
    for problem in world.problems:
        click.echo(f"warning: {problem}", err=True)
    if len(asked) > 1:
        click.echo(
            f"note: each of the {len(asked)} claims is asked about alone, with all free devices to itself", err=True
        )
    click.echo(f"note: {NOT_LOOKED_AT}", err=True)
    return 0 if any(verdict["outcome"] == "allocated" for verdict in verdicts) and not world.broken else 1


def _gather(given: Sequence[Given]) -> _World:
    from allocator import AllocationError, DecodeError, InUse

    world = _World(in_use=InUse())
    unused: dict[str, int] = {}
    for place, obj in given:
        kind = str(obj.get("kind", ""))
        if kind not in _KINDS:
            unused[kind] = unused.get(kind, 0) + 1
            continue
        try:
            _take(world, kind, obj)
        except (DecodeError, AllocationError, _ObjectError) as error:
            world.broken += 1
            world.problems.append(f"{place}: {error}; left out")
    for asked in world.claims:
        _refuse_admin_access(world, asked)
    if unused:
        counted = ", ".join(f"{count} {kind}" for kind, count in sorted(unused.items()))
        world.problems.append(f"not looked at: {counted}")
    return world


class _ObjectError(ValueError):
    """An object that cannot be used."""


def _take(world: _World, kind: str, obj: Mapping[str, Any]) -> None:
    from allocator import decode_class, decode_slice

    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(metadata, Mapping) or not isinstance(name, str):
        raise _ObjectError(f"{kind} without metadata.name")
    if kind == "ResourceSlice":
        world.slices.append(decode_slice(obj))
    elif kind == "DeviceClass":
        world.classes.append(decode_class(obj))
    elif kind == "DeviceTaintRule":
        world.rules.append(_rule(obj))
    elif kind == "Node":
        world.nodes[name] = metadata.get("labels") or {}
    elif kind == "Namespace":
        world.namespaces[name] = metadata.get("labels") or {}
    else:
        _take_claim(world, kind, obj)


def _rule(obj: Mapping[str, Any]) -> Any:
    from scheduler.core.inputs import TaintRuleObserved
    from scheduler.kube.codec import Codec
    from scheduler.kube.watched_kind import Broken

    metadata = {**obj["metadata"], "resourceVersion": "1"}
    decoded = Codec().taint_rules.decode_object(json.dumps({**obj, "metadata": metadata}, default=str).encode())
    if isinstance(decoded, Broken):
        raise _ObjectError(f"DeviceTaintRule {metadata['name']}: {decoded.reason}")
    assert isinstance(decoded.input, TaintRuleObserved)
    return decoded.input.rule


def _take_claim(world: _World, kind: str, obj: Mapping[str, Any]) -> None:
    from allocator import Claim, decode_allocation, decode_claim_spec
    from scheduler.lint.published import defaulted_claim_spec

    metadata = obj["metadata"]
    spec = _part(obj, "spec")
    if kind == "ResourceClaimTemplate":
        spec = _part(spec, "spec")
    allocation = _part(obj, "status").get("allocation")
    name = f"{metadata.get('namespace') or 'default'}/{metadata['name']}"
    if allocation is not None:
        for device in world.in_use.add(decode_allocation(allocation)):
            world.problems.append(f"ResourceClaim {name}: device {device} is allocated to another claim, too")
        return
    namespace, _, short = name.partition("/")
    claim = Claim(namespace, short, decode_claim_spec(defaulted_claim_spec(spec)))
    for request in claim.spec.requests:
        for one in (request.exactly, *request.first_available):
            if one is not None and one.allocation_mode != "All" and one.count < 1:
                raise _ObjectError(f"{kind} {name}: request {request.name}: count must be at least 1")
    refusal = "it is being deleted" if metadata.get("deletionTimestamp") else ""
    world.claims.append(_Asked(claim, refusal))


def _part(obj: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    """A part of an object that is an object, or missing."""
    part = obj.get(field) or {}
    if not isinstance(part, Mapping):
        raise _ObjectError(f"{field}: expected an object")
    return part


def _refuse_admin_access(world: _World, asked: _Asked) -> None:
    """Admin access is for namespaces with the label; one that is not described is taken as one without."""
    claim = asked.claim
    if asked.refusal or not any(request.exactly and request.exactly.admin_access for request in claim.spec.requests):
        return
    labels = world.namespaces.get(claim.namespace)
    if (labels or {}).get(ADMIN_ACCESS_LABEL) != "true":
        known = "has not" if labels is not None else "is not among the objects, and is taken as one that has not"
        asked.refusal = (
            f"admin access needs the label {ADMIN_ACCESS_LABEL}: true of its namespace; {claim.namespace} {known}"
        )


def _verdicts(
    world: _World, asked: Sequence[_Asked], *, nodes: Sequence[str], features: Features, budget_steps: int
) -> list[dict[str, Any]]:
    from allocator import Inventory, NodeView
    from scheduler.model.device_taint_rules import with_rule_taints

    names = world.nodes or {slice_.node_name: {} for slice_ in world.slices if slice_.node_name} or {"any-node": {}}
    wanted = [name for name in sorted(names) if not nodes or name in nodes]
    if not wanted:
        raise click.ClickException(f"no node is named {' or '.join(nodes)}; known: {', '.join(sorted(names))}")
    inventory = Inventory([with_rule_taints(slice_, world.rules) for slice_ in world.slices], world.classes)
    verdicts = []
    for one in asked:
        for name in wanted:
            verdict: dict[str, Any] = {"node": name, "claim": str(one.claim)}
            if one.refusal:
                verdict |= {"outcome": "none", "reason": f"claim {one.claim}: {one.refusal}", "steps": 0}
            else:
                verdict |= _verdict(
                    one.claim,
                    NodeView(name, names[name]),
                    inventory=inventory,
                    in_use=world.in_use,
                    features=features,
                    budget_steps=budget_steps,
                )
            verdicts.append(verdict)
    return verdicts


def _verdict(
    claim: Claim, node: NodeView, *, inventory: Inventory, in_use: InUse, features: Features, budget_steps: int
) -> dict[str, Any]:
    from allocator import Allocated, AllocationError, BudgetExhausted, Question, encode_allocation, explain
    from allocator import allocate as allocate_devices
    from scheduler.cli.allocate_cases import share_ids

    question = Question([claim], node, inventory, in_use, features, budget_steps, share_ids())
    try:
        outcome = allocate_devices(question)
    except AllocationError as error:
        return {"outcome": "error", "reason": str(error), "steps": error.steps}
    verdict: dict[str, Any] = {"steps": outcome.steps}
    if isinstance(outcome, Allocated):
        verdict["outcome"] = "allocated"
        verdict["claims"] = [
            {"namespace": claim.namespace, "name": claim.name, "allocation": encode_allocation(allocation)}
            for allocation in outcome.allocations
        ]
    elif isinstance(outcome, BudgetExhausted):
        verdict["outcome"] = "exhausted"
        verdict["reason"] = f"no answer within {budget_steps} steps: nothing is known; allow more with --budget-steps"
    else:
        explanation = explain(question)
        verdict["outcome"] = "none"
        verdict["reason"] = "; ".join(str(request) for request in explanation.requests)
        if explanation.pools_left_out:
            verdict["reason"] += f" (left out: {', '.join(explanation.pools_left_out)})"
    return verdict


def _print_table(verdicts: Sequence[Mapping[str, Any]]) -> None:
    rows = [
        (
            verdict["node"],
            f"{claim['namespace']}/{claim['name']}",
            result["request"],
            device_text(result),
        )
        for verdict in verdicts
        for claim in verdict.get("claims", ())
        for result in claim["allocation"]["devices"].get("results", ())
    ]
    if rows:
        print_table(("NODE", "CLAIM", "REQUEST", "DEVICE"), rows)
    for verdict in verdicts:
        if verdict["outcome"] != "allocated":
            click.echo(f"{verdict['node']}: {verdict['reason']}")
