"""The kinds of causes for which a pod waits: their names, and what each means; docs/reasons.md is made from this table.

Rules of this module
  1. A name is stable: alerts, scripts and links use it. It says the fact, not the change that would help.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class CauseKind(Struct, frozen=True):
    """One kind.

    Args:
        means: What is so, in one sentence.
        do: What helps, the usual thing first.
        seen: A cause of this kind as a person reads it, for who looks for the kind by its text.
    """

    name: str
    means: str
    do: str
    seen: str = ""


_ALL: Final = (
    # Claims
    CauseKind(
        "claim-missing",
        "The pod names a ResourceClaim that does not exist.",
        "Name one that exists, or make it.",
        "ResourceClaim team/gpu, which pod team/train names, does not exist; there are: gpus, shared",
    ),
    CauseKind(
        "claim-not-made",
        "No ResourceClaim has been made from the template that the pod names.",
        "Look at the pod's events: kube-controller-manager says there why it makes none.",
        "no ResourceClaim has been made from ResourceClaimTemplate team/gpu yet; where it cannot "
        "be made, an event of the pod says why",
    ),
    CauseKind(
        "claim-full",
        "As many pods use the ResourceClaim as can use one.",
        "Give the pod a claim of its own.",
        "ResourceClaim team/shared is full: 256 pods use it, and no claim can have more than 256",
    ),
    CauseKind(
        "claim-pinned",
        "The pod's ResourceClaim has devices already, on nodes where the pod cannot run.",
        "Give the pod a claim of its own, or let the claim go.",
        "ResourceClaim team/gpu is allocated on node gpu-1, so the pod can run nowhere else",
    ),
    CauseKind(
        "class-missing",
        "A request names a DeviceClass that does not exist.",
        "Name one that exists, or ask the cluster's operator for it.",
        "request gpu of ResourceClaim team/train names DeviceClass gpu.example.con, which does not "
        "exist; there are: gpu.example.com",
    ),
    # Devices
    CauseKind(
        "devices-short",
        "No node has as many devices as the pod asks for, by all that it asks of them together.",
        "Ask for less, or free devices.",
        "request gpu of ResourceClaim team/train asks for 4 devices; on node gpu-1 there are at "
        "most 2 that it could have together",
    ),
    CauseKind(
        "selector-error",
        "A CEL selector fails for a device instead of answering.",
        "Correct the expression.",
        "request gpu of ResourceClaim team/train: device gpu.example.com/gpu-1/gpu-0 has no attribute model",
    ),
    # Nodes
    CauseKind(
        "node-affinity-unmet",
        "No node that would do has the labels that the pod asks for.",
        "Relax nodeSelector or nodeAffinity, or label a node.",
        "nodes gpu-1, gpu-2 do not have the label zone=b, which the nodeSelector of pod team/train asks for",
    ),
    CauseKind(
        "node-cordoned",
        "The nodes that would do are cordoned.",
        "Uncordon one.",
        "nodes gpu-1, gpu-2 are cordoned",
    ),
    CauseKind(
        "node-tainted",
        "The nodes that would do have taints that the pod does not tolerate.",
        "Add a toleration, or remove the taint.",
        "node gpu-1 has the taint gpu=only:NoSchedule, which pod team/train does not tolerate",
    ),
    CauseKind(
        "port-taken",
        "Other pods have the host port that the pod asks for.",
        "Use another port.",
        "pod team/web-0 (priority 0) has the host port 8080/TCP of node gpu-1",
    ),
    CauseKind(
        "resources-short",
        "No node that would do has as much cpu, memory or another resource free as the pod asks for.",
        "Ask for less, or make room.",
        "node gpu-1 has 2 cpu free, and pod team/train asks for 4",
    ),
    CauseKind(
        "pods-full",
        "The nodes that would do run as many pods as they may.",
        "Make room, or add a node.",
        "node gpu-1 has room for 110 pods, and has 110",
    ),
    CauseKind(
        "pod-affinity-unmet",
        "Rules about other pods, of this pod or of others, leave no node.",
        "Relax podAffinity or podAntiAffinity.",
        "no node that would do satisfies the required podAffinity of pod team/web (by kubernetes.io/hostname)",
    ),
    CauseKind(
        "spread-unmet",
        "Each node's domain has too many pods of this kind, or the node lacks the label.",
        "Relax topologySpreadConstraints, or label the nodes.",
        "zone=a (node gpu-1) has 3 such pods, more than maxSkew 1 allows: the "
        "topologySpreadConstraints of pod team/web",
    ),
    CauseKind(
        "volume-missing",
        "A PersistentVolume that a claim names does not exist.",
        "Restore the volume.",
        "PersistentVolume pv-7 of PersistentVolumeClaim team/data does not exist",
    ),
    CauseKind(
        "volume-unreachable",
        "No node that would do reaches a volume of the pod.",
        "Let the pod run where the volume is.",
        "PersistentVolume pv-7 of PersistentVolumeClaim team/data cannot be reached from node gpu-1",
    ),
    CauseKind(
        "volume-not-provided",
        "No free volume fits a PersistentVolumeClaim of the pod, and none is made.",
        "Look at the claim's events and its StorageClass.",
        "no free PersistentVolume fits PersistentVolumeClaim team/data on node gpu-1, and its provisioner makes none",
    ),
)
CAUSE_KINDS: Final = {one.name: one for one in _ALL}
