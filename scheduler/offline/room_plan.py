"""A plan to make room in words, as a document, and as commands that carry it out.

Not here: finding it (`making_room`).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from scheduler.model.device_text import device_text
from scheduler.offline.making_room import Room
from scheduler.offline.moving import Move


def verdict_of(room: Room) -> str:
    """The first line: what came of it."""
    name = "/".join(room.pod)
    most = f"{room.moves_max} {'move' if room.moves_max == 1 else 'moves'}"
    if room.outcome == "fits":
        return f"{name} fits on {room.node} as it is: {given_text(room.devices)}; nothing needs to move"
    if room.outcome == "plan":
        count = len(room.moves)
        least = "; fewer moves off one node do not help" if count > 1 else ""
        moves = "1 move" if count == 1 else f"{count} moves"
        return f"{name} fits on {room.node} after {moves}: {given_text(room.devices)}{least}"
    if room.outcome == "none":
        where = "off any one node, each pod placed where the scheduler places it"
        return f"no plan: {name} does not fit after up to {most} {where}: {room.reason}"
    if room.is_out_of_steps:
        found = "was found before the steps for one question of the page were used up, and there may be one"
        bound = "dra-scheduler make-room has no such bound"
        return f"unknown: no plan for {name} {found} ({bound}): {room.reason}"
    found = f"was found in {room.questions} questions (--questions-max), and there may be one"
    return f"unknown: no plan for {name} {found}: {room.reason}"


def given_text(devices: Sequence[Mapping[str, Any]]) -> str:
    """The devices that a pod has."""
    return ", ".join(map(device_text, devices)) or "no devices"


def warnings_of(room: Room) -> list[str]:
    """What a person should know before pods are evicted."""
    return [
        f"{move.namespace}/{move.name} is a pod of Job {move.controller[1]}: what it has done so far is lost, and "
        "the Job may count it as a failure (spec.backoffLimit)"
        for move in room.moves
        if move.controller[0] == "Job"
    ]


_HEAD: Final = r"""#!/usr/bin/env bash
# For bash. Nothing was done yet. It stops at the first step that fails, and opens the node again in any case.
set -euo pipefail

# owner_of NAMESPACE POD NODE: the uid of the controller that makes the pod again.
owner_of() {
  local found
  found=$(kubectl get pod -n "$1" "$2" -o \
    'jsonpath={.spec.nodeName} {.metadata.ownerReferences[?(@.controller==true)].uid}') || return 1
  if [ "${found% *}" != "$3" ] || [ -z "${found#* }" ]; then
    echo "pod $1/$2 is not on $3 any more, or has no controller: the cluster has changed, ask again" >&2
    return 1
  fi
  echo "${found#* }"
}

# placed NAMESPACE UID: how many pods of this controller have a node.
placed() {
  local owners
  owners=$(kubectl get pods -n "$1" -o \
    'jsonpath={range .items[?(@.spec.nodeName)]}{.metadata.ownerReferences[?(@.controller==true)].uid}{"\n"}{end}') \
    || return 1
  grep -cxF -- "$2" <<< "$owners" || true
}

# wait_until_placed NAMESPACE UID COUNT
wait_until_placed() {
  local count
  for _ in $(seq 300); do
    count=$(placed "$1" "$2") || return 1
    if [ "$count" -ge "$3" ]; then return 0; fi
    sleep 2
  done
  echo "no new pod got a node within 10 minutes" >&2
  return 1
}
"""


def commands(room: Room, file: str | None) -> list[str]:
    """A script that carries the plan out: each step waits until those before it are done."""
    if not room.moves:
        return []
    node = shlex.quote(room.cordoned)
    lines = [
        "",
        *_HEAD.splitlines(),
        "",
        f"trap {shlex.quote(f'kubectl uncordon {node}')} EXIT",
        f"kubectl cordon {node}",
    ]
    lines += [f"echo {shlex.quote(f'warning: {text}')} >&2" for text in warnings_of(room)]
    for number, move in enumerate(room.moves, 1):
        lines += ["", *_move_commands(number, move)]
    lines += ["", "trap - EXIT", f"kubectl uncordon {node}"]
    if file is not None:
        namespace, name = map(shlex.quote, room.pod)
        lines.append(f"kubectl apply -f {shlex.quote(file)}")
        lines.append(f"kubectl wait --for=condition=PodScheduled -n {namespace} pod/{name} --timeout=10m")
    return lines


def _move_commands(number: int, move: Move) -> list[str]:
    namespace, name = shlex.quote(move.namespace), shlex.quote(move.name)
    metadata = {"name": move.name, "namespace": move.namespace}
    body = shlex.quote(json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}))
    path = shlex.quote(f"/api/v1/namespaces/{move.namespace}/pods/{move.name}/eviction")
    lines = [_comment(f"{number}. {move.namespace}/{move.name}: {' '.join(move.controller)} makes it again")]
    if move.named_claims:
        claims = ", ".join(move.named_claims)
        lines.append(_comment(f"Its claim {claims} loses its devices with the pod, and is given those of the new one."))
    return [
        *lines,
        f"owner=$(owner_of {namespace} {name} {shlex.quote(move.source)})",
        f'count=$(placed {namespace} "$owner")',
        f"kubectl create --raw {path} -f - <<< {body}",
        f"kubectl wait --for=delete -n {namespace} pod/{name} --timeout=10m",
        _comment(f"The new pod is placed by the scheduler, as planned on {move.target}."),
        f'wait_until_placed {namespace} "$owner" "$count"',
    ]


def _comment(text: str) -> str:
    """In one line, whatever names there are in it: the next would be a command."""
    return "# " + "".join(one if one.isprintable() else " " for one in text)


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
                "controller": "/".join(move.controller),
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
        "warnings": warnings_of(room),
        "commands": commands(room, file)[1:],
        **({"reason": room.reason} if room.reason else {}),
    }
