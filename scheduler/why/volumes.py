"""Reasons and fixes about volumes: one row a kind. docs/reasons.md is made from it."""

from __future__ import annotations

from typing import Final

from scheduler.why.rows import FixKind, Kind

ROWS: Final = (
    Kind(
        "volume-missing",
        "A PersistentVolume that a claim names does not exist.",
        "Restore the volume.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "volume-claim-missing",
        "The pod names a PersistentVolumeClaim that does not exist.",
        "Name one that exists, or make it.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "volume-claim-not-made",
        "No PersistentVolumeClaim has been made yet for an ephemeral volume of the pod.",
        "Look at the pod's events: kube-controller-manager says there why it makes none.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "volume-claim-foreign",
        "A PersistentVolumeClaim has the name of the one for an ephemeral volume of the pod, and is not the pod's.",
        "Rename the pod or its volume, or delete that claim.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "volume-claim-deleting",
        "A PersistentVolumeClaim of the pod is being deleted.",
        "Wait until it is gone, then make it anew.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "storage-class-missing",
        "A PersistentVolumeClaim of the pod names a StorageClass that does not exist.",
        "Make the claim anew with a class that exists, or make the class.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "volume-not-bound",
        "A PersistentVolumeClaim of the pod has no volume yet, and does not wait for the pod to get one.",
        "Look at the claim's events: its provisioner says there why it makes none.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "volume-in-use",
        "Another pod has a volume of the pod, and only one may.",
        "Wait for that pod to end, or use another volume.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "volume-limit",
        "The node has as many volumes of a CSI driver as it may.",
        "Let pods with such volumes end, or use another node.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "volume-unreachable",
        "No node that would do reaches a volume of the pod.",
        "Let the pod run where the volume is.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "volume-not-provided",
        "No free volume fits a PersistentVolumeClaim of the pod, and none is made.",
        "Look at the claim's events and its StorageClass.",
        {"text": "{text}"},
        ("about",),
    ),
)

FIXES: Final[tuple[FixKind, ...]] = ()
