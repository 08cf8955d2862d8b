"""`dra-scheduler simulate --make-room-for`: the plan, as a table, as a document, and as commands.

Not here: finding it (`scheduler.offline.making_room`).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.tables import device_text, print_document, print_table
from scheduler.offline.cluster import Given

if TYPE_CHECKING:
    from scheduler.offline.making_room import Room
    from scheduler.offline.moving import Move

_DRA: Final = "resource.k8s.io/v1"
_FREE: Final = re.compile(r"\s*([1-9][0-9]{0,3})\s+(\S+)(\s+on\s+one\s+node)?\s*")
_NAME: Final = "room"
"""Of the pod, claim and class that `--free` asks with."""


def free_devices(written: str) -> list[Given]:
    """A pod that needs what `--free` says: `4 gpu.example.com on one node`."""
    found = _FREE.fullmatch(written)
    if found is None:
        raise click.UsageError(
            f'--free {written}: write a number and a DeviceClass, as "4 gpu.example.com on one node"'
        )
    return _pod_with(
        f"--free {written}", {"deviceClassName": found[2], "allocationMode": "ExactCount", "count": int(found[1])}
    )


def free_profile(profile: str, given: Iterable[Given]) -> list[Given]:
    """A pod that needs a device whose attribute `profile` is this."""
    by_profile: dict[str, set[tuple[str, str]]] = {}
    for one in given:
        if one.obj.get("kind") == "ResourceSlice":
            for driver, attribute, value in _profiles(one.obj.get("spec") or {}):
                by_profile.setdefault(value, set()).add((driver, attribute))
    if profile not in by_profile:
        known = ", ".join(sorted(by_profile)) or "none"
        raise click.UsageError(
            f"--free-profile {profile}: no device publishes this attribute `profile`; there are: {known}"
        )
    place = f"--free-profile {profile}"
    terms = []
    for driver, attribute in sorted(by_profile[profile]):
        domain, _, name = attribute.rpartition("/")
        of_domain = f"device.attributes[{json.dumps(domain or driver)}]"
        terms.append(
            f"(device.driver == {json.dumps(driver)} && {of_domain}.?{name}.orValue('') == {json.dumps(profile)})"
        )
    selectors = [{"cel": {"expression": " || ".join(terms)}}]
    every_device = {
        "apiVersion": _DRA,
        "kind": "DeviceClass",
        "metadata": {"name": _NAME},
        "spec": {"selectors": selectors},
    }
    request = {"deviceClassName": _NAME, "allocationMode": "ExactCount", "count": 1}
    return [Given(place, every_device), *_pod_with(place, request)]


def _profiles(spec: Mapping[str, Any]) -> Iterable[tuple[str, str, str]]:
    """Driver, attribute and value of each device's profile."""
    for device in spec.get("devices") or ():
        for name, value in (device.get("attributes") or {}).items():
            if name.rpartition("/")[2] == "profile" and "string" in value:
                yield str(spec.get("driver")), name, str(value["string"])


def _pod_with(place: str, request: Mapping[str, Any]) -> list[Given]:
    claim = {
        "apiVersion": _DRA,
        "kind": "ResourceClaim",
        "metadata": {"name": _NAME},
        "spec": {"devices": {"requests": [{"name": "free", "exactly": dict(request)}]}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": _NAME},
        "spec": {
            "containers": [{"name": "main", "image": "none"}],
            "schedulerName": "dra-scheduler",
            "resourceClaims": [{"name": "free", "resourceClaimName": _NAME}],
        },
    }
    return [Given(place, claim), Given(place, pod)]


# -- the answer -----------------------------------------------------------------------------------


def print_room(room: Room, output: str, file: str | None) -> None:
    """Print the answer.

    Args:
        file: Where the pod is written; None for `--free`, which only asks.
    """
    if output in ("json", "yaml"):
        print_document(document_of(room, file), output)
        return
    click.echo(verdict_of(room))
    if room.moves:
        rows = [
            (str(number), f"{move.namespace}/{move.name}", move.source, move.target, _devices(move))
            for number, move in enumerate(room.moves, 1)
        ]
        print_table(("STEP", "POD", "FROM", "TO", "DEVICES"), rows)
    for (namespace, name), (used, allowed) in sorted(room.budgets.items()):
        rest = "and uses it up" if used == allowed else f"{allowed - used} are left"
        click.echo(
            f"PodDisruptionBudget {namespace}/{name} allows {allowed} of its pods to go: the plan takes {used}, {rest}"
        )
    for line in commands(room, file):
        click.echo(line)
    if not room.moves:
        for why, count in sorted(room.stays.items(), key=lambda one: (-one[1], one[0])):
            click.echo(f"cannot move: {count} {'pod' if count == 1 else 'pods'}: {why}")


def verdict_of(room: Room) -> str:
    """The first line: what came of it."""
    name = "/".join(room.pod)
    most = f"{room.moves_max} {'move' if room.moves_max == 1 else 'moves'}"
    if room.outcome == "fits":
        return f"{name} fits on {room.node} as it is: {_given(room.devices)}; nothing needs to move"
    if room.outcome == "plan":
        count = len(room.moves)
        least = "; fewer moves off one node do not help" if count > 1 else ""
        moves = "1 move" if count == 1 else f"{count} moves"
        return f"{name} fits on {room.node} after {moves}: {_given(room.devices)}{least}"
    if room.outcome == "none":
        where = "off any one node, each pod placed where the scheduler places it"
        return f"no plan: {name} does not fit after up to {most} {where}: {room.reason}"
    found = f"was found in {room.questions} questions (--questions-max), and there may be one"
    return f"unknown: no plan for {name} {found}: {room.reason}"


def _given(devices: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(map(device_text, devices)) or "no devices"


def _devices(move: Move) -> str:
    return f"{_given(move.devices)} -> {_given(move.given)}" if move.devices or move.given else "<none>"


def commands(room: Room, file: str | None) -> list[str]:
    """What carries the plan out: each line is safe once those before it are done."""
    if not room.moves:
        return []
    lines = ["", "# Each step waits for the one before. Evictions respect PodDisruptionBudgets; nothing was done yet."]
    lines.append(f"kubectl cordon {shlex.quote(room.cordoned)}")
    for move in room.moves:
        namespace, name = shlex.quote(move.namespace), shlex.quote(move.name)
        metadata = {"name": move.name, "namespace": move.namespace}
        body = json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata})
        path = f"/api/v1/namespaces/{move.namespace}/pods/{move.name}/eviction"
        lines.append(f"kubectl create --raw {path} -f - <<< {shlex.quote(body)}")
        lines.append(f"kubectl wait --for=delete -n {namespace} pod/{name} --timeout=10m")
        if move.named_claims:
            claims = ", ".join(move.named_claims)
            lines.append(f"# Its claim {claims} loses its devices with the pod, and is given those of the new one.")
        lines.append(f"# Its controller makes it again: go on when the new pod is on {move.target}.")
    lines.append(f"kubectl uncordon {shlex.quote(room.cordoned)}")
    if file is not None:
        lines.append(f"kubectl apply -f {shlex.quote(file)}")
    return lines


def document_of(room: Room, file: str | None) -> dict[str, Any]:
    """The answer for programs."""
    return {
        "outcome": str(room.outcome),
        "text": verdict_of(room),
        "pod": {
            "namespace": room.pod[0],
            "name": room.pod[1],
            "node": room.node or None,
            "devices": room.devices,
        },
        "cordoned": room.cordoned or None,
        "moves": [
            {
                "namespace": move.namespace,
                "name": move.name,
                "from": move.source,
                "to": move.target,
                "devices": move.devices,
                "given": move.given,
                "namedClaims": list(move.named_claims),
            }
            for move in room.moves
        ],
        "budgets": [
            {"namespace": namespace, "name": name, "used": used, "allowed": allowed}
            for (namespace, name), (used, allowed) in sorted(room.budgets.items())
        ],
        "movesMax": room.moves_max,
        "questions": room.questions,
        "nodes": room.nodes,
        "cannotMove": dict(sorted(room.stays.items())),
        "commands": [line for line in commands(room, file) if line],
        **({"reason": room.reason} if room.reason else {}),
    }
