"""`dra-scheduler allocate`: what the scheduler would allocate, offline, from files.

Not here: reading files (`manifests`), cases in JSON lines (`allocate_cases`), deciding (`allocator`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from scheduler.cli.input_size import size_option

_BUDGET_STEPS: Final = 200_000
_ALLOCATED_KINDS: Final = ("ResourceSlice", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "Node")


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=str), metavar="FILE…")
@click.option("--jsonl", is_flag=True, help="Read cases from standard input, one a line; answer each with a line.")
@click.option("--node", "nodes", multiple=True, help="Only this node (repeatable).")
@click.option("--claim", "claims", multiple=True, help="Only this claim, NAME or NAMESPACE/NAME (repeatable).")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="json is for programs.",
)
@click.option(
    "--kubernetes",
    type=click.Choice(["1.36", "1.37"]),
    default="1.36",
    show_default=True,
    help="Whose verdicts to give where releases differ.",
)
@click.option("--feature-gates", "gates", default="", help="What differs from the defaults: DeviceTaints=false,…")
@click.option(
    "--budget-steps",
    default=_BUDGET_STEPS,
    show_default=True,
    type=click.IntRange(1),
    help="Give up a node's search after so many steps.",
)
@size_option
@click.pass_context
def allocate(
    ctx: click.Context,
    files: tuple[str, ...],
    *,
    jsonl: bool,
    nodes: tuple[str, ...],
    claims: tuple[str, ...],
    output: str,
    kubernetes: str,
    gates: str,
    budget_steps: int,
) -> None:
    """Print what would be allocated on each node, or why not.

    FILEs hold ResourceSlices, DeviceClasses, ResourceClaims or ResourceClaimTemplates, and Nodes, as YAML or JSON
    ("-" reads standard input). Claims that are allocated already hold their devices; all others are taken as the
    claims of one pod, in the order of the files. Without Nodes, the nodes that slices name are asked.

    Exit codes: 0 some node fits, 1 none does or an object is broken, 2 wrong use.
    """
    if jsonl:
        if files:
            raise click.UsageError("--jsonl reads standard input; leave the files out")
        _answer_lines(budget_steps, kubernetes)
        return
    if not files:
        raise click.UsageError('name at least one file, or "-" for standard input')
    world = _read(files)
    verdicts = _ask(world, _Options(nodes, claims, kubernetes, gates, budget_steps))
    _print(verdicts, world, output)
    for problem in world.problems:
        click.echo(f"warning: {problem}", err=True)
    ctx.exit(0 if any(verdict["outcome"] == "allocated" for verdict in verdicts) and not world.broken else 1)


def _answer_lines(budget_steps: int, kubernetes: str) -> None:
    import orjson

    from scheduler.cli.allocate_cases import answer

    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        try:
            case = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            reply: dict[str, Any] = {"name": "", "outcome": "error", "error": f"not a JSON object: {error}", "steps": 0}
        else:
            reply = answer(case, budget_steps=budget_steps, kubernetes=kubernetes)
        sys.stdout.buffer.write(orjson.dumps(reply) + b"\n")
        sys.stdout.buffer.flush()


@dataclass(frozen=True, slots=True)
class _Options:
    nodes: Sequence[str]
    claims: Sequence[str]
    kubernetes: str
    gates: str
    budget_steps: int


@dataclass(slots=True)
class _World:
    """What the files hold. `broken` counts objects that could not be read; `problems` says which, and why."""

    slices: list[Any] = field(default_factory=list)
    classes: list[Any] = field(default_factory=list)
    claims: list[Any] = field(default_factory=list)
    nodes: dict[str, Mapping[str, str]] = field(default_factory=dict)
    in_use: Any = None
    problems: list[str] = field(default_factory=list)
    broken: int = 0


def _read(files: Iterable[str]) -> _World:
    from allocator import AllocationError, DecodeError, InUse
    from scheduler.cli.manifests import ManifestError, read_manifests

    world = _World(in_use=InUse())
    try:
        documents = read_manifests([Path(file) if file != "-" else file for file in files])
    except ManifestError as error:
        raise click.ClickException(str(error)) from error
    unused = []
    for document in documents:
        try:
            _take(world, document.kind, document.obj)
        except (DecodeError, AllocationError, _ObjectError) as error:
            world.broken += 1
            world.problems.append(f"{document.place()}: {error}; left out")
        else:
            if document.kind not in _ALLOCATED_KINDS:
                unused.append(document.name)
    if unused:
        world.problems.append(f"not looked at: {', '.join(unused)}")
    return world


class _ObjectError(ValueError):
    """An object whose metadata cannot be used."""


def _take(world: _World, kind: str, obj: dict[str, Any]) -> None:
    from allocator import decode_class, decode_slice

    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if kind in _ALLOCATED_KINDS and not isinstance(name, str):
        raise _ObjectError(f"{kind} without metadata.name")
    if kind == "ResourceSlice":
        world.slices.append(decode_slice(obj))
    elif kind == "DeviceClass":
        world.classes.append(decode_class(obj))
    elif kind == "Node":
        assert isinstance(metadata, Mapping)
        world.nodes[str(name)] = metadata.get("labels") or {}
    elif kind in ("ResourceClaim", "ResourceClaimTemplate"):
        _take_claim(world, kind, obj)


def _take_claim(world: _World, kind: str, obj: dict[str, Any]) -> None:
    from allocator import Claim, decode_allocation, decode_claim_spec

    spec = obj.get("spec") or {}
    if kind == "ResourceClaimTemplate":
        spec = spec.get("spec") or {}
    allocation = (obj.get("status") or {}).get("allocation")
    name = f"{obj['metadata'].get('namespace') or 'default'}/{obj['metadata']['name']}"
    if allocation is not None:
        for device in world.in_use.add(decode_allocation(allocation)):
            world.problems.append(f"ResourceClaim {name}: device {device} is allocated to another claim, too")
        return
    namespace, _, short = name.partition("/")
    world.claims.append(Claim(namespace, short, decode_claim_spec(_with_defaults(spec))))


def _with_defaults(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec as the API server would store it: allocation mode and count filled in."""
    filled: dict[str, Any] = json.loads(json.dumps(spec, default=str))
    devices = filled.get("devices")
    requests = devices.get("requests") if isinstance(devices, dict) else None
    for request in requests if isinstance(requests, list) else ():
        if not isinstance(request, dict):
            continue
        for details in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if isinstance(details, dict):
                details.setdefault("allocationMode", "ExactCount")
                if details["allocationMode"] == "ExactCount":
                    details.setdefault("count", 1)
    return filled


def _ask(world: _World, options: _Options) -> list[dict[str, Any]]:
    from allocator import Inventory, NodeView
    from scheduler.cli.allocate_cases import CaseError, read_features

    try:
        features = read_features(_parse_gates(options.gates), options.kubernetes)
    except CaseError as error:
        raise click.UsageError(f"--feature-gates: {error}") from error
    claims = [claim for claim in world.claims if not options.claims or {str(claim), claim.name} & set(options.claims)]
    if not claims:
        raise click.ClickException(
            "the files hold no claim without an allocation"
            if not options.claims
            else f"no unallocated claim is named {' or '.join(options.claims)}"
        )
    names = world.nodes or {slice_.node_name: {} for slice_ in world.slices if slice_.node_name} or {"any-node": {}}
    wanted = [name for name in sorted(names) if not options.nodes or name in options.nodes]
    if not wanted:
        raise click.ClickException(f"no node is named {' or '.join(options.nodes)}; known: {', '.join(sorted(names))}")
    inventory = Inventory(world.slices, world.classes)
    return [
        _verdict(
            claims,
            NodeView(name, names[name]),
            inventory=inventory,
            in_use=world.in_use,
            features=features,
            budget_steps=options.budget_steps,
        )
        for name in wanted
    ]


def _parse_gates(text: str) -> dict[str, Any]:
    gates: dict[str, Any] = {}
    for entry in filter(None, text.split(",")):
        name, _, value = entry.partition("=")
        gates[name.strip()] = {"true": True, "false": False}.get(value.strip().lower(), value)
    return gates


def _verdict(
    claims: Any, node: Any, *, inventory: Any, in_use: Any, features: Any, budget_steps: int
) -> dict[str, Any]:
    from allocator import Allocated, AllocationError, BudgetExhausted, encode_allocation, explain
    from allocator import allocate as allocate_devices
    from scheduler.cli.allocate_cases import share_ids

    verdict: dict[str, Any] = {"node": node.name}
    try:
        outcome = allocate_devices(
            claims, node, inventory, in_use, features=features, budget_steps=budget_steps, share_ids=share_ids()
        )
    except AllocationError as error:
        return {**verdict, "outcome": "error", "reason": str(error), "steps": error.steps}
    verdict["steps"] = outcome.steps
    if isinstance(outcome, Allocated):
        verdict["outcome"] = "allocated"
        verdict["claims"] = [
            {"namespace": claim.namespace, "name": claim.name, "allocation": encode_allocation(allocation)}
            for claim, allocation in zip(claims, outcome.allocations, strict=True)
        ]
    elif isinstance(outcome, BudgetExhausted):
        verdict["outcome"] = "exhausted"
        verdict["reason"] = f"no answer within {budget_steps} steps: nothing is known; allow more with --budget-steps"
    else:
        explanation = explain(claims, node, inventory, in_use, features=features, budget_steps=budget_steps)
        verdict["outcome"] = "none"
        verdict["reason"] = "; ".join(str(request) for request in explanation.requests) or outcome.blame
        if explanation.pools_left_out:
            verdict["reason"] += f" (left out: {', '.join(explanation.pools_left_out)})"
    return verdict


def _print(verdicts: Sequence[Mapping[str, Any]], world: _World, output: str) -> None:
    if output == "json":
        click.echo(json.dumps({"nodes": verdicts}, indent=2))
    elif output == "yaml":
        import yaml

        click.echo(yaml.safe_dump({"nodes": list(verdicts)}, sort_keys=False), nl=False)
    else:
        _print_table(verdicts)


def _print_table(verdicts: Sequence[Mapping[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    rows = [
        (verdict["node"], f"{claim['namespace']}/{claim['name']}", result)
        for verdict in verdicts
        for claim in verdict.get("claims", ())
        for result in claim["allocation"]["devices"].get("results", ())
    ]
    if rows:
        table = Table(box=None, pad_edge=False)
        for title in ("NODE", "CLAIM", "REQUEST", "DEVICE"):
            table.add_column(title, no_wrap=not sys.stdout.isatty(), overflow="fold")
        for node, claim, result in rows:
            device = f"{result['driver']}/{result['pool']}/{result['device']}"
            table.add_row(node, claim, result["request"], device + _details(result))
        Console(width=None if sys.stdout.isatty() else 500).print(table)
    for verdict in verdicts:
        if verdict["outcome"] != "allocated":
            click.echo(f"{verdict['node']}: {verdict['reason']}")


def _details(result: Mapping[str, Any]) -> str:
    parts = [f"{name}={amount}" for name, amount in result.get("consumedCapacity", {}).items()]
    if result.get("adminAccess"):
        parts.append("admin access")
    return f" ({', '.join(parts)})" if parts else ""
