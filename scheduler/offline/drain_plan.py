"""A device's drain in words, as a document, and as commands that carry it out.

Not here: finding out where its holders go (`draining`).
"""

from __future__ import annotations

import json
import shlex
from typing import Any, Final

from scheduler.offline.draining import Drain
from scheduler.offline.moving import Outcome
from scheduler.offline.room_plan import comment, moves_of, plan_document, script_head, step_commands

_BETA: Final = "Kubernetes 1.36 serves DeviceTaintRules only with --runtime-config and the gate DRADeviceTaintRules."


def verdict_of(drain: Drain) -> str:
    """The first line: what came of it."""
    name = "/".join(drain.devices[0][1:])
    name += f" (with {len(drain.devices) - 1} partitions)" if len(drain.devices) > 1 else ""
    going, staying = sum(map(len, drain.steps)), len(drain.stays)
    match drain.outcome:
        case Outcome.PLAN:
            return f"{name} is free after {'1 pod has' if going == 1 else f'{going} pods have'} moved"
        case Outcome.NONE:
            return f"no plan: {staying} of the {going + staying} that hold {name} would not get away from it"
        case Outcome.UNKNOWN:
            used = "the steps for one question" if drain.is_out_of_steps else f"{drain.questions} questions"
            return f"unknown: no order in which all that hold {name} can move was found in {used}, and there may be one"
        case _:
            return f"nobody holds {name}: the taint alone keeps it free"


def commands(drain: Drain) -> list[str]:
    """The taint, and with a plan a script that moves the holders after it."""
    names = " ".join(str(rule["metadata"]["name"]) for rule in drain.rules)
    applied = [f"kubectl apply -f - <<< {shlex.quote(json.dumps(rule))}" for rule in drain.rules]
    if drain.rules[0]["apiVersion"].endswith("v1beta2"):
        applied.insert(0, comment(_BETA))
    evicting = json.dumps({"spec": {"taint": {"effect": "NoExecute"}}})
    if drain.outcome is Outcome.PLAN:
        head = script_head("It stops at the first step that fails; the taint stays.")
        applied = [*head[1:], *applied, *step_commands(drain)]
    return [
        *applied,
        "",
        comment("Instead of evictions: all holders are deleted at once, and no PodDisruptionBudget is asked:"),
        comment(f"kubectl patch devicetaintrule {names} --type=merge -p {shlex.quote(evicting)}"),
        comment(f"To use the device again: kubectl delete devicetaintrule {names}"),
    ]


def document_of(drain: Drain) -> dict[str, Any]:
    """The answer for programs."""
    stays = [
        {"namespace": one.namespace, "name": one.name, "from": one.node, "devices": one.devices, "why": one.why}
        for one in drain.stays
    ]
    return {
        "outcome": str(drain.outcome),
        "text": verdict_of(drain),
        "devices": [one._asdict() for one in drain.devices],
        "holders": [*moves_of(drain), *stays],
        "notes": drain.notes,
        "rules": drain.rules,
        **plan_document(drain, commands(drain)),
    }
