"""Reasons and fixes about volumes: one row a kind. docs/reasons.md is made from it."""

from __future__ import annotations

from typing import Final

from scheduler.why.rows import FixKind, Kind

ROWS: Final = (
    Kind(
        "volume-missing",
        "A PersistentVolume that a claim names does not exist.",
        "Restore the volume.",
        {
            "": "PersistentVolumeClaim {claim} has lost its PersistentVolume {volume}, which does not exist any more",
            "named": "PersistentVolumeClaim {claim} names PersistentVolume {volume}, which does not exist",
        },
        ("claim",),
    ),
    Kind(
        "volume-claim-missing",
        "The pod names a PersistentVolumeClaim that does not exist.",
        "Name one that exists, or make it.",
        {"": "PersistentVolumeClaim {claim}, which pod {pod} names, does not exist[; {meant} does]"},
        ("claim",),
    ),
    Kind(
        "volume-claim-not-made",
        "No PersistentVolumeClaim has been made yet for an ephemeral volume of the pod.",
        "Look at the pod's events: kube-controller-manager says there why it makes none.",
        {"": "PersistentVolumeClaim {claim}, for the ephemeral volume {volume} of pod {pod}, has not been made yet"},
        ("claim",),
    ),
    Kind(
        "volume-claim-foreign",
        "A PersistentVolumeClaim has the name of the one for an ephemeral volume of the pod, and is not the pod's.",
        "Rename the pod or its volume, or delete that claim.",
        {
            "": "PersistentVolumeClaim {claim} exists and was not made for pod {pod}, whose ephemeral volume {volume} has that name"
        },
        ("claim",),
    ),
    Kind(
        "volume-claim-deleting",
        "A PersistentVolumeClaim of the pod is being deleted.",
        "Wait until it is gone, then make it anew.",
        {"": "PersistentVolumeClaim {claim} of pod {pod} is being deleted"},
        ("claim",),
    ),
    Kind(
        "storage-class-missing",
        "A PersistentVolumeClaim of the pod names a StorageClass that does not exist.",
        "Make the claim anew with a class that exists, or make the class.",
        {"": "PersistentVolumeClaim {claim} names StorageClass {storage_class}, which does not exist[; {meant} does]"},
        ("claim",),
    ),
    Kind(
        "volume-not-bound",
        "A PersistentVolumeClaim of the pod has no volume yet, and does not wait for the pod to get one.",
        "Look at the claim's events: its provisioner says there why it makes none.",
        {
            "": "PersistentVolumeClaim {claim} is not bound to a volume yet; its StorageClass is {storage_class}, whose provisioner is {provisioner}",
            "static": "PersistentVolumeClaim {claim} is not bound to a volume yet; its StorageClass is {storage_class}, which makes no volumes (no provisioner)",
            "named": "PersistentVolumeClaim {claim} names PersistentVolume {volume}, and is not bound to it yet",
            "classless": "PersistentVolumeClaim {claim} names no StorageClass, so no volume is made for it; no PersistentVolume is bound to it",
        },
        ("claim",),
    ),
    Kind(
        "volume-in-use",
        "Another pod has a volume of the pod, and only one may.",
        "Wait for that pod to end, or use another volume.",
        {
            "": "PersistentVolumeClaim {claim} is for one pod alone (ReadWriteOncePod), and {pods} on {nodes:node|nodes} {nodes} {pods:has|have} it",
            "somebody": "PersistentVolumeClaim {claim} is for one pod alone (ReadWriteOncePod), and another pod has it",
            "disk": "{pods} on node {node} {pods:has|have} a disk that pod {pod} mounts, too ({disk})",
        },
        ("claim",),
    ),
    Kind(
        "volume-limit",
        "The node has as many volumes of a CSI driver as it may.",
        "Let pods with such volumes end, or use another node.",
        {"": "node {node} has {attached} of {limit} volumes of driver {driver}, and pod {pod} brings {new} more"},
        ("driver",),
    ),
    Kind(
        "volume-unreachable",
        "No node that would do reaches a volume of the pod.",
        "Let the pod run where the volume is.",
        {
            "": "PersistentVolume {volume} of PersistentVolumeClaim {claim} cannot be reached from node {node}; {nodes:node|nodes} {nodes} {nodes:does|do}",
            "nowhere": "PersistentVolume {volume} of PersistentVolumeClaim {claim} cannot be reached from node {node}; no node reaches it",
            "zone": "PersistentVolume {volume} of PersistentVolumeClaim {claim} is in {key}={values}; node {node} is in {has}",
        },
        ("volume",),
    ),
    Kind(
        "volume-not-provided",
        "No free volume fits a PersistentVolumeClaim of the pod, and none is made.",
        "Look at the claim's events and its StorageClass.",
        {
            "": "PersistentVolumeClaim {claim}: no volume of StorageClass {storage_class} is there for node {node}, and {provisioner} makes none there now",
            "static": "PersistentVolumeClaim {claim}: no free volume of StorageClass {storage_class} fits on node {node}, and it makes none (no provisioner)",
            "selected": "PersistentVolumeClaim {claim}: its volume is being made for node {selected}",
            "topology": "PersistentVolumeClaim {claim}: StorageClass {storage_class} makes no volumes for node {node} ({topology}: not in allowedTopologies)",
            "full": "PersistentVolumeClaim {claim}: the driver {provisioner} of StorageClass {storage_class} has too little storage left for it on node {node}",
        },
        ("claim",),
    ),
)

FIXES: Final[tuple[FixKind, ...]] = ()
