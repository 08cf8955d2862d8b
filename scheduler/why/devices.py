"""Reasons and fixes about devices and who has them: one row a kind. docs/reasons.md is made from it."""

from __future__ import annotations

from typing import Final

from scheduler.why.rows import FixKind, Kind

ROWS: Final = (
    Kind(
        "holder-gone",
        "A ResourceClaim holds the devices for pods that have ended or never existed, or for nobody.",
        "kube-controller-manager must release the claim; where it does not, delete the claim.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "holder-terminating",
        "The devices are held for a pod that is being deleted and has not ended.",
        "Wait, or look at the kubelet of its node and at the pod's finalizers.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "devices-short",
        "No node has as many devices that would do as the pod asks for.",
        "Ask for fewer, or for other devices.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "devices-in-use",
        "Devices that would do are there, and pods have them.",
        "Wait, ask for fewer, or end a pod that has them.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "device-tainted",
        "Devices that would do have a taint that the request does not tolerate.",
        "Add a toleration to the request, or have the taint removed.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "capacity-short",
        "Devices have less of a capacity than the request asks for, or others consume too much of it.",
        "Ask for less, or end a pod that consumes it.",
        {
            "text": "{text}",
            "rounded": "device {device} has {capacity} {there}, and {request} asks for {amount}",
        },
        ("about", "request", "capacity"),
    ),
    Kind(
        "partition-blocked",
        "Partitions that would do are free, and partitions in use take what they need of a shared counter, or are of "
        "other compatibility groups.",
        "Take a smaller partition that is free, or end a pod that has one of the others.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "counters-short",
        "A counter set does not hold what the pod's own devices take of it together.",
        "Ask for fewer or smaller partitions.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "constraint-unmet",
        "Not as many devices as are asked for have one value of an attribute in common, or differ in it.",
        "Ask for fewer devices, or drop the constraint.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "constraint-attribute-missing",
        "No device of a request has the attribute that a constraint names.",
        "Name the attribute that they have, or drop the constraint.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "alternatives-unmet",
        "Each alternative of a prioritized list fails, for reasons of its own.",
        "Free devices for one of them, or add an alternative.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "own-claims-compete",
        "Requests of the pod, or claims that it uses, need the same device.",
        "Let them ask for different devices, or share one claim.",
        {"text": "{text}"},
        ("about",),
    ),
)

FIXES: Final[tuple[FixKind, ...]] = ()
