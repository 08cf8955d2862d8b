"""Which pod got which devices, or why not: rows made from API objects, for tables and for programs.

Reads plain API dicts, decides nothing. The JSON form is a promise to users:
`{"pods": [{"namespace", "name", "node" (or null), "devices": [{"claim", "request", "driver", "pool", "device"}],
"reason" (when pending)}]}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

ApiObject: TypeAlias = Mapping[str, Any]


def pod_rows(pods: Iterable[ApiObject], claims: Iterable[ApiObject]) -> list[dict[str, Any]]:
    """One row a pod, sorted by namespace and name.

    Args:
        pods, claims: API objects; claims of other pods may be among them.
    """
    claim_by_key = {(c["metadata"].get("namespace", ""), c["metadata"]["name"]): c for c in claims}
    rows = [_pod_row(pod, claim_by_key) for pod in pods]
    return sorted(rows, key=lambda row: (row["namespace"], row["name"]))


def is_settled(pod: ApiObject) -> bool:
    """Whether the scheduler has had its say: the pod is bound, or it was told why not."""
    if pod.get("spec", {}).get("nodeName"):
        return True
    scheduled = _pod_scheduled(pod)
    return scheduled is not None and scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"


def claim_names(pod: ApiObject) -> list[str]:
    """Names of the ResourceClaims a pod uses, in the order of its spec; entries not generated yet are left out.

    Last the claim behind its extended resources.
    """
    generated = {
        s["name"]: s.get("resourceClaimName") for s in pod.get("status", {}).get("resourceClaimStatuses") or ()
    }
    names = [
        entry.get("resourceClaimName") or generated.get(entry["name"])
        for entry in pod.get("spec", {}).get("resourceClaims") or ()
    ]
    names.append((pod.get("status", {}).get("extendedResourceClaimStatus") or {}).get("resourceClaimName"))
    return [name for name in names if name]


def _pod_row(pod: ApiObject, claim_by_key: Mapping[tuple[str, str], ApiObject]) -> dict[str, Any]:
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
            for result in _results(claim_by_key.get((namespace, name)))
        ],
    }
    if row["node"] is None:
        scheduled = _pod_scheduled(pod)
        row["reason"] = (scheduled or {}).get("message") or "not yet seen by the scheduler"
    return row


def _results(claim: ApiObject | None) -> Iterable[ApiObject]:
    allocation = ((claim or {}).get("status") or {}).get("allocation") or {}
    return allocation.get("devices", {}).get("results") or ()


def _pod_scheduled(pod: ApiObject) -> ApiObject | None:
    conditions = pod.get("status", {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == "PodScheduled"), None)
