"""Which claims a pod in JSON has: names, owners, and what a claim from a template is called.

Not here: making claims (`embedded.controllers.claim_work`); the claims of a pod as the scheduler reads it
(`core.store`, `plugins.dynamic_resources.resolved_claims`).

Source: k8s.io/kubernetes v1.36.3 pkg/controller/resourceclaim/controller.go.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

Obj: TypeAlias = Mapping[str, Any]

GENERATE_NAME_LENGTH_MAX: Final = 57


def generate_name(pod_name: str, claim_name: str) -> str:
    """The generateName of a pod's claim: `POD-CLAIM-`, both cut in proportion when that is too long."""
    base = f"{pod_name}-{claim_name}-"
    length = len(base)
    if length <= GENERATE_NAME_LENGTH_MAX:
        return base
    pod_part = pod_name[: len(pod_name) * GENERATE_NAME_LENGTH_MAX // length]
    return f"{pod_part}-{claim_name[: len(claim_name) * GENERATE_NAME_LENGTH_MAX // length]}"


def is_pod_done(pod: Obj) -> bool:
    """Whether a pod will not run (any more): finished, or deleted before it was scheduled."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return True
    return bool(pod["metadata"].get("deletionTimestamp")) and not pod["spec"].get("nodeName")


def uses_claims(pod: Obj) -> bool:
    """Whether the controller has anything to do with a pod."""
    status = pod.get("status") or {}
    return bool((pod.get("spec") or {}).get("resourceClaims") or status.get("extendedResourceClaimStatus"))


def claim_names(pod: Obj) -> Iterator[str]:
    """The names of all claims a pod uses, as far as they are known, in the order of its spec; the special one last."""
    for name, _ in claim_names_of_references(pod):
        yield name
    status = pod.get("status") or {}
    extended = (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    if extended:
        yield extended


def claim_names_of_references(pod: Obj) -> Iterator[tuple[str, bool]]:
    """The names of the claims in `spec.resourceClaims`, as far as they are known, and whether each is generated."""
    status = pod.get("status") or {}
    generated = {entry["name"]: entry.get("resourceClaimName") for entry in status.get("resourceClaimStatuses") or ()}
    for reference in pod["spec"].get("resourceClaims") or ():
        given = reference.get("resourceClaimName")
        name = given or generated.get(reference["name"])
        if name:
            yield name, not given


def is_owned_by(claim: Obj, pod: Obj) -> bool:
    """Whether a pod is the controller of a claim."""
    return any(
        owner.get("controller") and owner.get("uid") == pod["metadata"]["uid"]
        for owner in claim["metadata"].get("ownerReferences") or ()
    )


def owning_pod(claim: Obj) -> tuple[str, str]:
    """Name and UID of the pod that controls a claim; empty when there is none."""
    for owner in claim["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Pod"):
            return owner["name"], owner["uid"]
    return "", ""
