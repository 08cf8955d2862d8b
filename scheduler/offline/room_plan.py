"""A plan to make room in words, as a document, and as commands that carry it out.

Here too: what plans say of moves, whatever they are for. Not here: finding the plan (`making_room`).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from scheduler.model.device_text import device_text
from scheduler.offline.making_room import Room
from scheduler.offline.moving import Move, MovePlan


def verdict_of(room: Room) -> str:
    """The first line: what came of it."""
    name = "/".join(room.pod)
    most = f"{room.moves_max} {'move' if room.moves_max == 1 else 'moves'}"
    if room.outcome == "fits":
        return f"{name} fits on {room.node} as it is: {_given_text(room.devices)}; nothing needs to move"
    if room.outcome == "plan":
        count = len(room.steps)
        least = "; fewer moves off one node do not help" if count > 1 else ""
        moves = "1 move" if count == 1 else f"{count} moves"
        return f"{name} fits on {room.node} after {moves}: {_given_text(room.devices)}{least}"
    if room.outcome == "none":
        where = "off any one node, each pod placed where the scheduler places it"
        return f"no plan: {name} does not fit after up to {most} {where}: {room.reason}"
    if room.is_out_of_steps:
        found = "was found before the steps for one question of the page were used up, and there may be one"
        bound = "dra-scheduler make-room has no such bound"
        return f"unknown: no plan for {name} {found} ({bound}): {room.reason}"
    found = f"was found in {room.questions} questions (--questions-max), and there may be one"
    return f"unknown: no plan for {name} {found}: {room.reason}"


def _given_text(devices: Sequence[Mapping[str, Any]]) -> str:
    """The devices that a pod has."""
    return ", ".join(map(device_text, devices)) or "no devices"


def _warnings_of(plan: MovePlan) -> list[str]:
    """What a person should know before pods are evicted."""
    return [
        f"{move.namespace}/{move.name} is a pod of Job {move.controller[1]}: what it has done so far is lost, and "
        "the Job may count it as a failure (spec.backoffLimit)"
        for step in plan.steps
        for move in step
        if move.controller[0] == "Job"
    ]


_FUNCTIONS: Final = r"""set -euo pipefail

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

# evict PATH EVICTION: it waits for a PodDisruptionBudget that forbids it.
evict() {
  local said
  for _ in $(seq 300); do
    if said=$(kubectl create --raw "$1" -f - <<< "$2" 2>&1); then return 0; fi
    if [[ "$said" != *"disruption budget"* ]]; then break; fi
    sleep 2
  done
  echo "$said" >&2
  return 1
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


def script_head(told: str) -> list[str]:
    """The begin of a script, and what its steps call."""
    return ["", "#!/usr/bin/env bash", f"# For bash. Nothing was done yet. {told}", *_FUNCTIONS.splitlines(), ""]


def commands(room: Room, file: str | None) -> list[str]:
    """A script that carries the plan out: each step waits until those before it are done."""
    if not room.steps:
        return []
    node = shlex.quote(room.cordoned)
    lines = [
        *script_head("It stops at the first step that fails, and opens the node again in any case."),
        f"trap {shlex.quote(f'kubectl uncordon {node}')} EXIT",
        f"kubectl cordon {node}",
        *step_commands(room),
    ]
    lines += ["", "trap - EXIT", f"kubectl uncordon {node}"]
    if file is not None:
        namespace, name = map(shlex.quote, room.pod)
        lines.append(f"kubectl apply -f {shlex.quote(file)}")
        lines.append(f"kubectl wait --for=condition=PodScheduled -n {namespace} pod/{name} --timeout=10m")
    return lines


def step_commands(plan: MovePlan) -> list[str]:
    """Commands that move pods, those of a step at once, each step when the new pods of the one before have nodes."""
    lines = [f"echo {shlex.quote(f'warning: {text}')} >&2" for text in _warnings_of(plan)]
    for number, step in enumerate(plan.steps, 1):
        quoted = [(shlex.quote(move.namespace), shlex.quote(move.name), shlex.quote(move.source)) for move in step]
        owns = [str(index) if len(step) > 1 else "" for index in range(1, len(step) + 1)]
        lines.append("")
        for move in step:
            lines += _told(number, move)
        for own, (namespace, name, source) in zip(owns, quoted, strict=True):
            lines.append(f"owner{own}=$(owner_of {namespace} {name} {source})")
            lines.append(f'count{own}=$(placed {namespace} "$owner{own}")')
        lines += map(_eviction, step)
        lines += (f"kubectl wait --for=delete -n {space} pod/{name} --timeout=10m" for space, name, _ in quoted)
        for own, move, (namespace, _, _) in zip(owns, step, quoted, strict=True):
            lines.append(comment(f"The new pod is placed by the scheduler, as planned on {move.target}."))
            lines.append(f'wait_until_placed {namespace} "$owner{own}" "$count{own}"')
    return lines


def _told(number: int, move: Move) -> list[str]:
    lines = [comment(f"{number}. {move.namespace}/{move.name}: {' '.join(move.controller)} makes it again")]
    if move.named_claims:
        claims = ", ".join(move.named_claims)
        lines.append(comment(f"Its claim {claims} loses its devices with the pod, and is given those of the new one."))
    return lines


def _eviction(move: Move) -> str:
    path = f"/api/v1/namespaces/{move.namespace}/pods/{move.name}/eviction"
    metadata = {"name": move.name, "namespace": move.namespace}
    body = json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata})
    return f"evict {shlex.quote(path)} {shlex.quote(body)}"


def comment(text: str) -> str:
    """In one line, whatever names there are in it: the next would be a command."""
    return "# " + "".join(one if one.isprintable() else " " for one in text)


def moves_of(plan: MovePlan) -> list[dict[str, Any]]:
    """The moves for programs."""
    return [
        {
            "namespace": move.namespace,
            "name": move.name,
            "from": move.source,
            "to": move.target,
            "devices": move.devices,
            "given": move.given,
            "controller": "/".join(move.controller),
            "namedClaims": list(move.named_claims),
            "step": number,
        }
        for number, step in enumerate(plan.steps, 1)
        for move in step
    ]


def plan_document(plan: MovePlan, commands: list[str]) -> dict[str, Any]:
    """What programs are told of every plan."""
    return {
        "budgets": [_budget(*one) for one in sorted(plan.budgets.items())],
        "questions": plan.questions,
        "warnings": _warnings_of(plan),
        "commands": commands,
    }


def _budget(key: tuple[str, str], taken: tuple[int, int]) -> dict[str, Any]:
    (namespace, name), (used, allowed) = key, taken
    waits = ": the script waits for it" if used > allowed else ""
    text = f"PodDisruptionBudget {namespace}/{name} allows {allowed} of its pods to go now, and {used} would{waits}"
    return {"namespace": namespace, "name": name, "used": used, "allowed": allowed, "text": text}


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
        "moves": moves_of(room),
        "movesMax": room.moves_max,
        "nodes": room.nodes,
        "cannotMove": dict(sorted(room.stays.items())),
        **plan_document(room, commands(room, file)[1:]),
        **({"reason": room.reason} if room.reason else {}),
    }
