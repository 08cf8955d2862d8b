"""Reasons and fixes about nodes and other pods: one row a kind. docs/reasons.md is made from it."""

from __future__ import annotations

from typing import Final

from scheduler.why.rows import FixKind, Kind

ROWS: Final = (
    Kind(
        "node-affinity-unmet",
        "No node that would do has the labels that the pod asks for.",
        "Relax nodeSelector or nodeAffinity, or label a node.",
        {
            "": "node {node} has {key}={has}; the {where} of pod {pod} asks for {asked}",
            "lacks": "node {node} has no label {key}; the {where} of pod {pod} asks for {asked}",
            "nowhere": "no node has the label {key}, which the {where} of pod {pod} asks for[ ({asked})][; {count} {count:node has|nodes have} {meant}]",
            "value": "no node has {asked}, which the {where} of pod {pod} asks for; there is {values}[ and {more} more]",
            "chosen": "the {where} of pod {pod} chooses {nodes:node|nodes} {nodes}",
            "gone": "node {node}, which the nodeAffinity of pod {pod} names, does not exist",
            "several": "the nodeAffinity of pod {pod} names several nodes in one term ({nodes})",
            "added": "node {node} does not match the addedAffinity of the scheduler's configuration",
        },
        ("where", "key"),
    ),
    Kind(
        "node-cordoned",
        "The nodes that would do are cordoned.",
        "Uncordon one.",
        {"": "{nodes:node|nodes} {nodes} {nodes:is|are} cordoned"},
    ),
    Kind(
        "node-tainted",
        "The nodes that would do have taints that the pod does not tolerate.",
        "Add a toleration, or remove the taint.",
        {
            "": "{nodes:node|nodes} {nodes} {nodes:has|have} the {taints:taint|taints} {taints}, which pod {pod} does not tolerate[ (it tolerates {meant})]"
        },
        ("taints",),
    ),
    Kind(
        "port-taken",
        "Other pods have the host port that the pod asks for.",
        "Use another port.",
        {
            "": "{pods} {pods:has|have} the host {ports:port|ports} {ports} of node {node}, which pod {pod} asks for",
            "replicas": "{pods} of the same {edited} {pods:has|have} the host {ports:port|ports} {ports} of node {node}: a node has room for one",
        },
    ),
    Kind(
        "resources-short",
        "No node that would do has as much cpu, memory or another resource free as the pod asks for.",
        "Ask for less, or make room.",
        {"": "node {node} has {free} free, and pod {pod} asks for {asked}"},
        ("resources",),
    ),
    Kind(
        "pods-full",
        "The nodes that would do run as many pods as they may.",
        "Make room, or add a node.",
        {
            "": "node {node} has room for {most} pods, and has {count}[; it has {free} free, and pod {pod} asks for {asked}]"
        },
        ("resources",),
    ),
    Kind(
        "pod-affinity-unmet",
        "Rules about other pods, of this pod or of others, leave no node.",
        "Relax podAffinity or podAntiAffinity.",
        {
            "": "{key}={value} has no pod {which}, which the podAffinity of pod {pod} asks for; {total} run elsewhere",
            "nowhere": "no pod {which} runs, beside which the podAffinity of pod {pod} wants it (by {key})",
            "lacks": "node {node} has no label {key}, by which the podAffinity of pod {pod} looks for pods",
            "ruled-out": "{key}={value} has {count} {count:pod|pods} {which}, which the podAntiAffinity of pod {pod} rules out",
            "kept-away": "{pods} on node {node} {pods:keeps|keep} pod {pod} away by required podAntiAffinity",
        },
        ("key", "value", "which", "node", "pods"),
    ),
    Kind(
        "spread-unmet",
        "Each node's domain has too many pods of this kind, or the node lacks the label.",
        "Relax topologySpreadConstraints, or label the nodes.",
        {
            "": "{key}={value} has {pods} {pods:pod|pods} that pod {pod} is spread with, and another {key} has {least}; maxSkew is {skew}",
            "few": "{key}={value} has {pods} {pods:pod|pods} that pod {pod} is spread with; minDomains is {needed}, and {key} has {domains} values",
            "lacks": "node {node} has no label {key}, by which pod {pod} is to be spread",
        },
    ),
    Kind(
        "node-name-unmet",
        "The pod names the only node that it may run on, which does not exist or is another one.",
        "Make the pod without spec.nodeName.",
        {"": "node {node}, which pod {pod} names (spec.nodeName), does not exist"},
    ),
    Kind(
        "node-feature-missing",
        "No node that would do declares a feature of the kubelet that the pod needs.",
        "Upgrade a node, or do without what needs the feature.",
        {"": "node {node} does not declare the kubelet {features:feature|features} {features}, which pod {pod} needs"},
        ("features",),
    ),
)

FIXES: Final = (
    FixKind(
        "written", 1, "write {written} instead of {wrong} in [the {where} of ]{edited}", ("wrong", "where", "edited")
    ),
    FixKind("toleration-added", 2, "add the {tolerations:toleration|tolerations} {tolerations} to {edited}"),
    FixKind("taint-removed", 5, "{command}"),
    FixKind("node-repaired", 5, "bring node {node} back into order: kubectl describe node {node} says why"),
    FixKind("node-uncordoned", 2, "{command}"),
    FixKind("node-labelled", 6, "{command}"),
    FixKind("label-dropped", 4, "drop {label} from the nodeSelector of {edited}"),
    FixKind("rule-relaxed", 5, "relax the {rule} of {edited}"),
    FixKind(
        "port-changed", 4, "ask for another host port, like {free} instead of {port}, in {edited}", ("port", "edited")
    ),
    FixKind(
        "ports-dropped", 4, "run at most one replica a node, or drop the host {ports:port|ports} {ports} of {edited}"
    ),
    FixKind(
        "amount-lowered",
        3,
        "ask for {resource} {amount} instead of {asked} in container {container} of {edited}[ ({both})]",
        ("resource", "asked", "container", "edited"),
    ),
    FixKind("pods-ended", 6, "end {pods} on {nodes:node|nodes} {nodes}"),
)
