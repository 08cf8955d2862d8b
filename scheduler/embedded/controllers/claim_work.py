"""What the resource claim controller makes of objects: claims from templates, reservations, claims that nobody uses.

Pure functions from objects to what is written. The claim process does it in an embedded cluster (`claim_controllers`),
`scheduler.offline` without a server; so both mean the same.

Not here: finding the objects, sending the writes.

Source: k8s.io/kubernetes v1.36.3 pkg/controller/resourceclaim/controller.go (syncPod, handleClaim, syncClaim).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from scheduler.model.api_rules import FINALIZER, POD_CLAIM_NAME_ANNOTATION, RESERVED_FOR_MAX
from scheduler.model.pod_claims import generate_name, is_pod_done, owning_pod

Obj = Mapping[str, Any]


def entries_of_templates(pod: Obj) -> Iterator[tuple[str, str]]:
    """The pod's entries that want a claim from a template, and its name."""
    for entry in pod["spec"].get("resourceClaims") or ():
        if template := entry.get("resourceClaimTemplateName"):
            yield entry["name"], template


def names_in_status(pod: Obj) -> dict[str, str]:
    """By entry the claim that the pod's status names; "" where it says that none is needed."""
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    return {one["name"]: one.get("resourceClaimName") or "" for one in statuses}


def owner_of_claims(pod: Obj) -> dict[str, Any]:
    """The owner reference of claims that are made for the pod."""
    metadata = pod["metadata"]
    return {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"], "controller": True}


def claim_from(template: Obj, owner: Obj, entry: str) -> dict[str, Any]:
    """A claim as it is created for an owner's entry."""
    copied = template["spec"].get("metadata") or {}
    metadata: dict[str, Any] = {
        "generateName": generate_name(owner["name"], entry),
        "annotations": {**(copied.get("annotations") or {}), POD_CLAIM_NAME_ANNOTATION: entry},
        "ownerReferences": [dict(owner)],
    }
    if copied.get("labels"):
        metadata["labels"] = dict(copied["labels"])
    return {"metadata": metadata, "spec": orjson.loads(orjson.dumps(template["spec"]["spec"]))}


def made_for(claim: Obj) -> Iterator[tuple[str, str]]:
    """Owners' uids and the entry that a claim was made for."""
    metadata = claim["metadata"]
    if entry := (metadata.get("annotations") or {}).get(POD_CLAIM_NAME_ANNOTATION):
        for owner in metadata.get("ownerReferences") or ():
            if owner.get("controller"):
                yield owner["uid"], entry


def find_made(pod: Obj, entry: str, claims: Iterable[Obj]) -> Obj | None:
    """The claim that was made for the pod's entry."""
    wanted = pod["metadata"]["uid"], entry
    return next((claim for claim in claims if wanted in made_for(claim)), None)


def reserved_status(claim: Obj, pod: Obj) -> dict[str, Any] | None:
    """The claim's status with a reservation for a bound pod; None where it has one, or can have none."""
    status = claim.get("status") or {}
    reserved, uid = status.get("reservedFor") or [], pod["metadata"]["uid"]
    if status.get("allocation") is None or any(one.get("uid") == uid for one in reserved):
        return None
    if len(reserved) >= RESERVED_FOR_MAX:
        return None
    return {**status, "reservedFor": [*reserved, {"resource": "pods", "name": pod["metadata"]["name"], "uid": uid}]}


class Release(NamedTuple):
    """What is written, in this order; nothing where it is None and False.

    Attributes:
        status: The claim's status.
        drops_finalizer: Whether the finalizer goes, as nothing is allocated any more.
    """

    status: dict[str, Any] | None
    drops_finalizer: bool


def is_protected(claim: Obj) -> bool:
    """Whether a claim has the finalizer that a scheduler sets before it allocates."""
    return FINALIZER in (claim["metadata"].get("finalizers") or ())


def release(claim: Obj, remaining: Sequence[Obj], *, protected: bool) -> Release:
    """Take back all but the remaining reservations, and the allocation with the last one, or when the claim is deleted.

    Args:
        protected: Whether the allocation is the scheduler's, and may be taken back.
    """
    status = claim.get("status") or {}
    is_deleted = bool(claim["metadata"].get("deletionTimestamp")) and not remaining and protected
    if len(remaining) == len(status.get("reservedFor") or ()) and not is_deleted:
        return Release(None, drops_finalizer=False)
    frees = protected and not remaining
    gone = {"reservedFor", *(("allocation",) if frees else ())}
    changed = {key: value for key, value in status.items() if key not in gone}
    if remaining:
        changed["reservedFor"] = list(remaining)
    return Release(changed if changed != status else None, protected and changed.get("allocation") is None)


def without_finalizer(claim: Obj) -> dict[str, Any]:
    kept = [name for name in claim["metadata"].get("finalizers") or () if name != FINALIZER]
    return {**claim, "metadata": {**claim["metadata"], "finalizers": kept}}


def is_unused(claim: Obj, pod: Obj) -> bool:
    """Whether a claim was made for a pod of this name that is another one, or done."""
    _, uid = owning_pod(claim)
    return bool(uid) and (pod["metadata"]["uid"] != uid or is_pod_done(pod))
