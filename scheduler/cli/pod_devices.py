"""Which pod got which devices, or why not: rows made from API objects, for tables and for programs.

Reads plain API dicts, decides nothing. The JSON form is a promise to users:
`{"pods": [{"namespace", "name", "node" (or null), "devices": [{"claim", "request", "driver", "pool", "device"}],
"reason" (when pending)}]}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from scheduler.model.nearest import near
from scheduler.model.pod_claims import claim_names
from scheduler.validation.claim_refusals import results_of

ApiObject: TypeAlias = Mapping[str, Any]
Notes: TypeAlias = Sequence[tuple[str, str]]
"""What a pod's events say: reason and note, oldest first."""

OURS: Final = "dra-scheduler"

_WAITING: Final = "BindingConditionsPending"
_WAIT_ENDS: Final = ("BindingConditionsMet", "BindingConditionsFailed", "BindingConditionsTimeout")
_NO_CLAIM: Final = "FailedResourceClaimCreation"
_PREEMPTED: Final = "Preempted"


def pod_rows(
    pods: Iterable[ApiObject],
    claims: Iterable[ApiObject],
    notes_by_uid: Mapping[str, Notes] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """One row a pod, sorted by namespace and name.

    Args:
        pods, claims: API objects; claims of other pods may be among them.
        notes_by_uid: What events say of the pods, for those that have no condition.
    """
    claim_by_key = {(c["metadata"].get("namespace", ""), c["metadata"]["name"]): c for c in claims}
    rows = [_pod_row(pod, claim_by_key, notes_by_uid.get(pod["metadata"].get("uid", ""), ())) for pod in pods]
    return sorted(rows, key=lambda row: (row["namespace"], row["name"]))


def preempted_rows(events: Iterable[ApiObject], pods: Iterable[ApiObject]) -> list[dict[str, Any]]:
    """A row for each pod that made room for another one, and is not among `pods`.

    Args:
        events: Of core/v1, any.
    """
    known = {pod["metadata"].get("uid") for pod in pods}
    rows = []
    for event in events:
        about, related = event.get("involvedObject", {}), event.get("related") or {}
        if event.get("reason") != _PREEMPTED or about.get("uid") in known:
            continue
        other = f"{related.get('namespace', '')}/{related.get('name', '')}"
        _, _, wants = str(event.get("message", "")).partition(other)
        reason = f"preempted: made room for {other}{wants}"
        row = {"namespace": about.get("namespace", ""), "name": about.get("name", ""), "node": None, "devices": []}
        rows.append({**row, "reason": reason})
    return sorted(rows, key=lambda row: (row["namespace"], row["name"]))


def is_shown(pod: ApiObject) -> bool:
    """Whether a pod is worth a row: it is ours, or nobody has a node for it."""
    spec = pod.get("spec", {})
    return spec.get("schedulerName") == OURS or not (spec.get("nodeName") or _is_done(pod))


def verdict_of(pod: ApiObject, notes: Notes = ()) -> str:
    """What became of a pod in a few words, "" when that is not known yet.

    Known for a pod that is bound, has a reason why not, waits for its driver, or names a scheduler that does not run
    here.
    """
    if pod.get("spec", {}).get("nodeName"):
        return f"bound to {pod['spec']['nodeName']}"
    if _is_done(pod):
        return "is done"
    if _stranger(pod):
        return "nobody schedules it"
    if _wait(notes):
        return "waits for its driver"
    scheduled = _pod_scheduled(pod)
    if scheduled is None or scheduled.get("status") != "False":
        return ""
    if pod.get("status", {}).get("nominatedNodeName"):
        return ""  # room is being made for it
    words = {"SchedulingGated": "is gated", "SchedulerError": "failed"}
    return words.get(scheduled.get("reason", ""), "does not fit now")


def _is_done(pod: ApiObject) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _stranger(pod: ApiObject) -> str:
    """Why no scheduler here looks at a pod, "" when ours does."""
    name = pod.get("spec", {}).get("schedulerName", OURS)
    if name == OURS:
        return ""
    if name == "default-scheduler":
        return f"nobody schedules it: spec.schedulerName is not set, which means {name}; set it to {OURS}"
    hint = f"did you mean {OURS}?" if near(name, [OURS], 0.5) else f"here it is {OURS}"
    return f"nobody schedules it: spec.schedulerName is {name}; {hint}"


def _wait(notes: Notes) -> str:
    """What the pod waits for, when the last that its events say of binding conditions is that it waits for them."""
    about = [(reason, note) for reason, note in notes if reason == _WAITING or reason in _WAIT_ENDS]
    return about[-1][1] if about and about[-1][0] == _WAITING else ""


def _pod_row(pod: ApiObject, claim_by_key: Mapping[tuple[str, str], ApiObject], notes: Notes) -> dict[str, Any]:
    namespace = pod["metadata"].get("namespace", "")
    row: dict[str, Any] = {
        "namespace": namespace,
        "name": pod["metadata"]["name"],
        "node": pod.get("spec", {}).get("nodeName") or None,
        "devices": [
            {
                "claim": name,
                "request": result["request"],
                "driver": result["driver"],
                "pool": result["pool"],
                "device": result["device"],
            }
            for name in claim_names(pod)
            for result in results_of(claim_by_key.get((namespace, name), {}).get("status") or {})
        ],
    }
    if row["node"] is None:
        row["reason"] = _reason(pod, notes)
    return row


def _reason(pod: ApiObject, notes: Notes) -> str:
    """Why a pod is not bound."""
    if text := _stranger(pod) or _wait(notes):
        return text
    scheduled = _pod_scheduled(pod)
    text = (scheduled or {}).get("message") or "not yet seen by the scheduler"
    failed = [note for reason, note in notes if reason == _NO_CLAIM]
    return f"{text} ({failed[-1]})" if failed and "not created yet" in text else text


def _pod_scheduled(pod: ApiObject) -> ApiObject | None:
    conditions = pod.get("status", {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == "PodScheduled"), None)
