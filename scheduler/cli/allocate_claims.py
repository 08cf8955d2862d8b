"""Claims without a pod: where each could be allocated, node by node. Only devices are looked at.

That is: slices, classes, DeviceTaintRules, what allocated claims hold, labels of nodes where slices select by them; and
that a claim that is being deleted, or asks for admin access where that is not allowed, is allocated nowhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from allocator import (
    Allocated,
    AllocationError,
    BudgetExhausted,
    Claim,
    DecodeError,
    Inventory,
    NodeView,
    Question,
    allocate,
    decode_claim_spec,
    encode_allocation,
    explain,
)
from scheduler.cli.allocate_cases import share_ids
from scheduler.cli.cluster_question import Asked
from scheduler.cli.input_errors import WrongInputError, exit_code
from scheduler.cli.tables import device_text, print_document, print_table
from scheduler.lint.published import Published, defaulted_claim_spec, read_published
from scheduler.lint.view import at, claim_spec_path, mapping, text
from scheduler.model.api_rules import ADMIN_ACCESS_LABEL

if TYPE_CHECKING:
    from allocator import Features
    from scheduler.offline import Given

_KINDS: Final = ("ResourceClaim", "ResourceClaimTemplate")
_LOOKED_AT: Final = (*_KINDS, "ResourceSlice", "DeviceClass", "DeviceTaintRule", "Namespace", "Node")
NOT_LOOKED_AT: Final = (
    "asked without a pod, so only devices are looked at: not whether nodes are cordoned, tainted, full or selected. "
    "Give the Pod as well to have the scheduler's answer"
)


@dataclass(slots=True)
class _Asked:
    """A claim, and why it would be allocated nowhere ("" when that must be found out)."""

    claim: Claim
    refusal: str = ""


def ask_about_claims(
    about: Asked, *, nodes: Sequence[str], claims: Sequence[str], budget_steps: int, output: str
) -> int:
    """Ask about each claim on each node, print the answers, and return the exit code."""
    given = about.given
    published = read_published((one.obj for one in given), (one.place for one in given))
    found = list(_claims(given, published))
    keys = {(one.claim.namespace, one.claim.name) for one in found}
    wanted = {about.find("unallocated claim", one, keys) for one in claims}
    if not claims:
        wanted = {key for key in keys if about.scope in (None, key[0])}
    asked = [one for one in found if (one.claim.namespace, one.claim.name) in wanted]
    if not asked:
        where = f" in the namespace {about.scope}; -A asks about all" if about.scope is not None else ""
        raise WrongInputError(f"there is no pod that waits, and no claim without an allocation{where}")
    verdicts = _verdicts(published, asked, nodes=nodes, features=about.features, budget_steps=budget_steps)
    if output == "table":
        _print_table(verdicts)
    else:
        print_document({"nodes": verdicts}, output)
    for problem in (*published.problems, *published.conflicts, *_unused(given)):
        click.echo(f"warning: {problem}", err=True)
    if len(asked) > 1:
        click.echo(
            f"note: each of the {len(asked)} claims is asked about alone, with all free devices to itself", err=True
        )
    click.echo(f"note: {NOT_LOOKED_AT}", err=True)
    fits = any(verdict["outcome"] == "allocated" for verdict in verdicts)
    return exit_code(fits=fits, is_broken=bool(published.problems))


def _unused(given: Sequence[Given]) -> list[str]:
    counts = Counter(str(one.obj.get("kind", "")) for one in given if one.obj.get("kind") not in _LOOKED_AT)
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    return [f"not looked at: {counted}"] if counted else []


def _claims(given: Sequence[Given], published: Published) -> Iterator[_Asked]:
    """The claims without an allocation, and what templates make; what is broken is added to the problems."""
    for place, obj in given:
        kind, metadata = str(obj.get("kind")), mapping(obj.get("metadata"))
        key = (text(metadata.get("namespace")) or "default", text(metadata.get("name")))
        if kind not in _KINDS or (kind == "ResourceClaim" and key in published.allocations):
            continue
        try:
            spec = at(obj, claim_spec_path(kind) or ())
            claim = Claim(*key, decode_claim_spec(defaulted_claim_spec(mapping(spec))))
            for request in claim.spec.requests:
                for one in (request.exactly, *request.first_available):
                    if one is not None and one.allocation_mode != "All" and one.count < 1:
                        raise ValueError(f"request {request.name}: count must be at least 1")
        except (DecodeError, ValueError) as error:
            published.problems.append(f"{place}: {kind} {'/'.join(key)}: {error}; left out")
            continue
        refusal = "it is being deleted" if metadata.get("deletionTimestamp") else _admin_refusal(published, claim)
        yield _Asked(claim, refusal)


def _admin_refusal(published: Published, claim: Claim) -> str:
    """Admin access is for namespaces with the label; one that is not described is taken as one without."""
    if not any(request.exactly and request.exactly.admin_access for request in claim.spec.requests):
        return ""
    labels = published.namespaces.get(claim.namespace)
    if (labels or {}).get(ADMIN_ACCESS_LABEL) == "true":
        return ""
    known = "has not" if labels is not None else "is not among the objects, and is taken as one that has not"
    return f"admin access needs the label {ADMIN_ACCESS_LABEL}: true of its namespace; {claim.namespace} {known}"


def _verdicts(
    published: Published, asked: Sequence[_Asked], *, nodes: Sequence[str], features: Features, budget_steps: int
) -> list[dict[str, Any]]:
    labels = {name: mapping(mapping(node.get("metadata")).get("labels")) for name, node in published.nodes.items()}
    names = labels or {slice_.node_name: {} for slice_ in published.slices if slice_.node_name} or {"any-node": {}}
    wanted = [name for name in sorted(names) if not nodes or name in nodes]
    if not wanted:
        raise WrongInputError(f"no node is named {' or '.join(nodes)}; known: {', '.join(sorted(names))}")
    inventory = Inventory(published.slices, published.classes.values())
    verdicts = []
    for one in asked:
        for name in wanted:
            verdict: dict[str, Any] = {"node": name, "claim": str(one.claim)}
            if one.refusal:
                verdict |= {"outcome": "none", "reason": f"claim {one.claim}: {one.refusal}", "steps": 0}
            else:
                node = NodeView(name, names[name])
                verdict |= _verdict(
                    Question([one.claim], node, inventory, published.in_use, features, budget_steps, share_ids())
                )
            verdicts.append(verdict)
    return verdicts


def _verdict(question: Question) -> dict[str, Any]:
    try:
        outcome = allocate(question)
    except AllocationError as error:
        return {"outcome": "error", "reason": str(error), "steps": error.steps}
    verdict: dict[str, Any] = {"steps": outcome.steps}
    if isinstance(outcome, Allocated):
        verdict["outcome"] = "allocated"
        verdict["claims"] = [
            {"namespace": claim.namespace, "name": claim.name, "allocation": encode_allocation(allocation)}
            for claim, allocation in zip(question.claims, outcome.allocations, strict=True)
        ]
    elif isinstance(outcome, BudgetExhausted):
        verdict["outcome"] = "exhausted"
        verdict["reason"] = (
            f"no answer within {question.budget_steps} steps: nothing is known; allow more with --budget-steps"
        )
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
