"""Reasons and fixes about nodes and other pods: one row a kind. docs/reasons.md is made from it."""

from __future__ import annotations

from typing import Final

from scheduler.why.rows import FixKind, Kind

ROWS: Final = (
    Kind(
        "node-affinity-unmet",
        "No node that would do has the labels that the pod asks for.",
        "Relax nodeSelector or nodeAffinity, or label a node.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "node-cordoned",
        "The nodes that would do are cordoned.",
        "Uncordon one.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "node-tainted",
        "The nodes that would do have taints that the pod does not tolerate.",
        "Add a toleration, or remove the taint.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "port-taken",
        "Other pods have the host port that the pod asks for.",
        "Use another port.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "resources-short",
        "No node that would do has as much cpu, memory or another resource free as the pod asks for.",
        "Ask for less, or make room.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "pods-full",
        "The nodes that would do run as many pods as they may.",
        "Make room, or add a node.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "pod-affinity-unmet",
        "Rules about other pods, of this pod or of others, leave no node.",
        "Relax podAffinity or podAntiAffinity.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "spread-unmet",
        "Each node's domain has too many pods of this kind, or the node lacks the label.",
        "Relax topologySpreadConstraints, or label the nodes.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "node-name-unmet",
        "The pod names the only node that it may run on, which does not exist or is another one.",
        "Make the pod without spec.nodeName.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "node-feature-missing",
        "No node that would do declares a feature of the kubelet that the pod needs.",
        "Upgrade a node, or do without what needs the feature.",
        {"text": "{text}"},
        ("about",),
    ),
)

FIXES: Final[tuple[FixKind, ...]] = ()
