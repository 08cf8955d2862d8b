"""The special claim: the one ResourceClaim that the scheduler itself makes, for extended resources served by devices.

Rules of this module
  1. Its name follows from the pod (name and uid). So a create that is sent twice, or lands late, cannot make a second
     claim, and a scheduler that was started since finds the claim without searching.
  2. Until the API server has given it a uid, its devices are held under a provisional uid. This follows from the pod's
     uid, too, and no real claim can have it.

Not here: what it asks for (`plugins.dynamic_resources.extended_resources`), the writes (plugins, core).

Differs from upstream on purpose: upstream lets the API server generate a name; see docs/adr/0014-hold-before-uid.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Final

from msgspec import Struct

from scheduler.model.api_rules import EXTENDED_RESOURCE_ANNOTATION
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import ClaimKey, ClaimUid, PodUid
from scheduler.model.objects import Pod, PodSpec
from scheduler.model.resources import is_served_resource, pod_amounts

_SUFFIX: Final = "-extended-resources"
_NAME_LENGTH_MAX: Final = 63  # what the API server's generateName keeps to
_DIGEST_BYTES: Final = 5


class DeviceCount(Struct, frozen=True):
    """One request of the special claim: `count` > 0 devices of a class."""

    name: str
    device_class: str
    count: int


def special_claim_spec(requests: Iterable[DeviceCount]) -> dict[str, Any]:
    """The special claim's spec, as JSON."""
    return {
        "devices": {
            "requests": [
                {
                    "name": request.name,
                    "exactly": {
                        "deviceClassName": request.device_class,
                        "allocationMode": "ExactCount",
                        "count": request.count,
                    },
                }
                for request in requests
            ]
        }
    }


def asks_extended_resources(pod: Pod) -> bool:
    """Whether the pod asks for anything that a DeviceClass could stand behind."""
    # Called several times for each pod. Most pods name no such resource, which is seen without a sum.
    return _mentions_domain(pod.spec) and any(is_served_resource(name) for name, _ in pod_amounts(pod).needed)


def _mentions_domain(spec: PodSpec) -> bool:
    """Whether any resource of the pod has a domain in its name, as all resources have that devices serve."""
    for containers in (spec.containers, spec.init_containers):
        for container in containers or ():
            resources = container.resources
            if resources is not None and resources.requests:
                for name in resources.requests:
                    if "/" in name:
                        return True
    if spec.resources is None and spec.overhead is None:
        return False
    pod_level = spec.resources.requests if spec.resources is not None else None
    return any("/" in name for names in (pod_level, spec.overhead) if names for name in names)


def special_claim_key(pod: Pod) -> ClaimKey:
    """Where the pod's special claim is, if it has one: `<pod>-extended-resources-<digest of the uid>`."""
    digest = blake2b(pod.uid.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    base = f"{pod.metadata.name}{_SUFFIX}"[: _NAME_LENGTH_MAX - len(digest) - 1].rstrip("-.")
    return ClaimKey(pod.metadata.namespace, f"{base}-{digest}")


def provisional_uid(pod: PodUid) -> ClaimUid:
    """The uid of the pod's special claim until the API server has given it one."""
    return ClaimUid(f"special claim of {pod}")


def is_provisional(claim: ClaimUid) -> bool:
    return claim.startswith("special claim of ")


def stands_for(claim: ResourceClaim) -> ClaimUid | None:
    """The provisional uid that this claim's own uid replaces; None for claims that are not special."""
    if (EXTENDED_RESOURCE_ANNOTATION, "true") not in claim.annotations:
        return None
    owner = claim.controller
    if owner is None or owner.kind != "Pod":
        return None
    return provisional_uid(PodUid(owner.uid))


def is_special_claim_of(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether the claim was made for the extended resources of this pod, not of an earlier pod of its name."""
    return stands_for(claim) == provisional_uid(pod.uid)
