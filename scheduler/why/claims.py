"""Reasons and fixes about claims, their templates and classes: one row a kind. docs/reasons.md is made from it."""

from __future__ import annotations

from typing import Final

from scheduler.why.devices import DEVICES, LEFT, USERS
from scheduler.why.rows import FixKind, Kind

_ELSEWHERE: Final = "{kind} {name} is in namespace {other}, and {pod:pod}, which names it, in namespace {namespace}"

ROWS: Final = (
    Kind(
        "claim-missing",
        "The pod names a ResourceClaim that does not exist.",
        "Name one that exists, or make it.",
        {
            "": "{claim:ResourceClaim}, which {pod:pod} names, does not exist; there are: {known}",
            "elsewhere": _ELSEWHERE,
        },
        ("claim", "name"),
    ),
    Kind(
        "claim-not-made",
        "No ResourceClaim has been made from the template that the pod names.",
        "Look at the pod's events: kube-controller-manager says there why it makes none.",
        {
            "": "no ResourceClaim has been made from {template:ResourceClaimTemplate} yet; where it cannot be made, an "
            "event of the pod says why",
            "template": "ResourceClaimTemplate {namespace}/{name}, which {pod:pod} names, does not exist; there are: "
            "{known}",
            "elsewhere": _ELSEWHERE,
            "refused": "its ResourceClaim cannot be made: {problem}",
        },
        ("template", "name"),
    ),
    Kind(
        "claim-full",
        "As many pods use the ResourceClaim as can use one.",
        "Give the pod a claim of its own.",
        {"": "{claim:ResourceClaim} is full: {users} pods use it, and no claim can have more than {most}"},
    ),
    Kind(
        "claim-pinned",
        "The pod's ResourceClaim has devices already, on nodes where the pod cannot run.",
        "Give the pod a claim of its own, or let the claim go.",
        {
            "": "{claim:ResourceClaim} is allocated[ on node {nodes}], so the pod can run nowhere else",
            "operations": "{claim:ResourceClaim} is allocated for a node that declares {operations} "
            "(skipNodeOperations of its devices), and node {node} does not",
            "pin": "{claim:ResourceClaim} has devices on {nodes:node|nodes} {nodes}",
            "and": "{pin}, and {why}",
        },
        ("claim", "pin", "why"),
    ),
    Kind(
        "class-missing",
        "A request names a DeviceClass that does not exist.",
        "Name one that exists, or ask the cluster's operator for it.",
        {"": "{request} names DeviceClass {class}, which does not exist; there are: {known}"},
        ("class",),
    ),
    Kind(
        "claim-deleting",
        "A ResourceClaim is being deleted: the pod's own, or one that still holds the devices.",
        "Wait, or look at who keeps its finalizers; a pod whose claim goes needs another claim.",
        {
            "": "{claim:ResourceClaim}, which {pod:pod} names, is being deleted[ (kept by {keepers})]",
            "reserved": f"{{claim:ResourceClaim}} is being deleted and still reserved for{USERS} it has {DEVICES}",
            "held": f"{{claim:ResourceClaim}} is being deleted and still has its devices; it has {DEVICES}",
        },
        ("claim", "devices"),
    ),
    Kind(
        "admin-access-unlabelled",
        "A claim asks for admin access in a namespace that is not marked for it.",
        "Label the namespace, or drop adminAccess.",
        {"": "Namespace {namespace} has no label {label}, and a claim there asks for admin access"},
        ("namespace",),
    ),
    Kind(
        "extended-resource-unknown",
        "No node has the extended resource that the pod asks for, and no DeviceClass stands behind it.",
        "Write the resource's right name, or give a DeviceClass that extendedResourceName.",
        {
            "": "resource {resource} of {pod:pod}: no node has it, and no DeviceClass has it as extendedResourceName"
            "[; nearest: {meant}][; DeviceClass {unnamed} has none[, and {free} {free:device is|devices are} free]][; there are: {known}]",
            "class": "resource {resource} of {pod:pod} names DeviceClass {class}, which does not exist"
            "[; nearest: {meant}][; there are: {known}]",
        },
        ("resource",),
    ),
    Kind(
        "field-unread",
        "A device, claim, class or group has a field that this scheduler does not know, or a value it cannot read.",
        "Look at support-matrix.md for its feature; drop the field, or let a scheduler that knows it place the pod.",
        {
            "claim": "{claim:ResourceClaim} cannot be read: {problem}",
            "class": "DeviceClass {class}, which {request} names, has the field {field}, which this scheduler does not "
            "know",
            "pool": "pool {pool}: {fault}[; so {more:is|are} {more} more]",
            "group": "PodGroup {group} has the field {field}, which this scheduler does not know",
            "pod": "pod {pod} has the field {field}, which this scheduler does not know: it is 1.35's",
            "devices": f"{DEVICES} {{devices:has|have}} the field {{path}}, which this scheduler does not know"
            f"[ (and others have {{more}} more)]{LEFT}",
        },
        ("claim", "class", "pool", "request", "group", "pod", "field", "of", "path"),
    ),
)

FIXES: Final[tuple[FixKind, ...]] = (
    FixKind("claim-name", 1, "in {edited} write {key}: {meant} instead of {name}", ("edited", "name")),
    FixKind("claim-here", 1, "make {kind} {name} in namespace {namespace}", ("kind", "name")),
    FixKind("class-name", 1, "write deviceClassName: {meant} instead of {class} in {request}", ("class", "request")),
    FixKind("resource-name", 1, "write {meant} instead of {name} in the resources of {edited}", ("name", "edited")),
    FixKind(
        "claim-anew",
        2,
        "once it is gone, [{maker} makes it anew][make {claim:ResourceClaim} anew]",
        ("claim",),
    ),
    FixKind("namespace-label", 2, "{command}", ("command",)),
    FixKind(
        "claim-user-gone",
        4,
        "give the pod a claim of its own, or wait until one of the {users} pods of {claim} ends",
        ("claim",),
    ),
    FixKind(
        "claim-own",
        2,
        "give [{pod:pod}][each pod of {owner}] a claim of its own, with a ResourceClaimTemplate, instead of "
        "{claim:ResourceClaim}",
        ("claim", "pod", "owner"),
    ),
    FixKind(
        "alternative-dropped",
        4,
        "drop alternative {alternative} of request {request} of {of}, or create DeviceClass {class}",
        ("alternative", "request"),
    ),
    FixKind(
        "claim-released",
        6,
        "release {claim:ResourceClaim} (used by {users})",
        ("claim",),
    ),
    FixKind("class-resource", 8, "{command}", ("command",)),
)
