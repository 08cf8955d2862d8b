"""Reasons and fixes about claims, their templates and classes: one row a kind. docs/reasons.md is made from it."""

from __future__ import annotations

from typing import Final

from scheduler.why.devices import DEVICES, LEFT, USERS
from scheduler.why.rows import FixKind, Kind

ROWS: Final = (
    Kind(
        "claim-missing",
        "The pod names a ResourceClaim that does not exist.",
        "Name one that exists, or make it.",
        {
            "text": "{text}",
            "elsewhere": "{what} {name} is in namespace {other}, and pod {pod}, which names it, in namespace {namespace}",
        },
        ("about", "name"),
    ),
    Kind(
        "claim-not-made",
        "No ResourceClaim has been made from the template that the pod names.",
        "Look at the pod's events: kube-controller-manager says there why it makes none.",
        {
            "text": "{text}",
            "elsewhere": "{what} {name} is in namespace {other}, and pod {pod}, which names it, in namespace {namespace}",
            "template": "ResourceClaimTemplate {namespace}/{name}, which pod {pod} names, does not exist; {there}",
        },
        ("about", "name"),
    ),
    Kind(
        "claim-full",
        "As many pods use the ResourceClaim as can use one.",
        "Give the pod a claim of its own.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "claim-pinned",
        "The pod's ResourceClaim has devices already, on nodes where the pod cannot run.",
        "Give the pod a claim of its own, or let the claim go.",
        {"text": "{text}", "and": "{pin}, and {why}"},
        ("about",),
    ),
    Kind(
        "class-missing",
        "A request names a DeviceClass that does not exist.",
        "Name one that exists, or ask the cluster's operator for it.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "claim-deleting",
        "A ResourceClaim is being deleted: the pod's own, or one that still holds the devices.",
        "Wait, or look at who keeps its finalizers; a pod whose claim goes needs another claim.",
        {
            "text": "{text}",
            "reserved": f"{{claim:ResourceClaim}} is being deleted and still reserved for{USERS} it has {DEVICES}",
            "held": f"{{claim:ResourceClaim}} is being deleted and still has its devices; it has {DEVICES}",
        },
        ("about", "claim", "devices"),
    ),
    Kind(
        "admin-access-unlabelled",
        "A claim asks for admin access in a namespace that is not marked for it.",
        "Label the namespace, or drop adminAccess.",
        {
            "text": "{text}",
            "namespace": "{fact}",
        },
        ("about", "fact"),
    ),
    Kind(
        "extended-resource-unknown",
        "No node has the extended resource that the pod asks for, and no DeviceClass stands behind it.",
        "Write the resource's right name, or give a DeviceClass that extendedResourceName.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "field-unread",
        "A device, claim, class or group has a field that this scheduler does not know, or a value it cannot read.",
        "Look at support-matrix.md for its feature; drop the field, or let a scheduler that knows it place the pod.",
        {
            "text": "{text}",
            "group": "PodGroup {group} has the field {field}, which this scheduler does not know",
            "pod": "pod {pod} has the field {field}, which this scheduler does not know: it is 1.35's",
            "devices": f"{DEVICES} {{devices:has|have}} the field {{path}}, which this scheduler does not know"
            f"[ (and others have {{more}} more)]{LEFT}",
        },
        ("about", "group", "pod", "field", "of", "path"),
    ),
)

FIXES: Final[tuple[FixKind, ...]] = ()
