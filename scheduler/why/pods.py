"""Reasons and fixes about pods and groups: one row a kind. docs/reasons.md is made from it."""

from __future__ import annotations

from typing import Final

from scheduler.why.rows import FixKind, Kind

ROWS: Final = (
    Kind(
        "scheduler-unknown",
        "No pod that has a node names the scheduler that this pod names.",
        "Write the name of a scheduler that runs, or start that one.",
        {"": "no pod that has a node names the scheduler {scheduler}; {meant} is one that is known"},
    ),
    Kind(
        "priority-class-missing",
        "The PriorityClass that the pod names does not exist.",
        "Write the name of one that is there.",
        {"": "pod {pod} names PriorityClass {priority_class}, which does not exist; {there}"},
        ("priority_class",),
    ),
    Kind(
        "pod-refused",
        "The API server would not take the pod.",
        "Correct what its message names.",
        {"": "{message}"},
    ),
    Kind(
        "unexplained",
        "The scheduler's message is all that is known.",
        "Read the reasons of the nodes below it.",
        {"": "{message}"},
    ),
    Kind(
        "making-room",
        "The scheduler preempts less important pods for the pod, and they have not ended yet.",
        "Nothing: it starts when they have ended. One that stays has a finalizer, or its kubelet does not answer.",
        {
            "": "{nodes:node|nodes} {nodes} {nodes:is|are} being freed for it[ and its group {group}]: it starts there "
            "when the scheduler has preempted {victims}[; {kept:pod} {kept:is|are} kept by {finalizers:finalizer|finalizers} "
            "{finalizers}]"
        },
        ("nodes", "victims"),
    ),
    Kind(
        "group-unmet",
        "Pods of a group are placed together, and one of them has no place beside the others.",
        "Help that pod, whose own cause follows; or let the group need fewer pods.",
        {
            "": "{pod} of group {group} ({fit} of {needed} fit[ with one value of {topology}]): {why}",
            "label-nowhere": "group {group} must be on nodes with one value of label {topology}, which no node has",
            "label-lacks": "pod {pod} of group {group} is on node {node}, which has no value of label {topology}",
            "label-values": "pods of group {group} are on nodes with more than one value of label {topology}: {values}",
        },
        ("group", "pod"),
    ),
    Kind(
        "group-incomplete",
        "Pods of a group are placed together, and fewer exist than are needed.",
        "Make the other pods, or let the group need fewer.",
        {"": "group {group} has {living} of the {needed} pods that are needed"},
    ),
    Kind(
        "group-unlike",
        "The pods of a PodGroup name several schedulers, or have another priority or preemptionPolicy than it.",
        "Make pods and PodGroup with one priorityClassName, schedulerName and preemptionPolicy.",
        {"": "PodGroup {group}: {unlike}"},
    ),
    Kind(
        "group-missing",
        "The PodGroup that the pod names does not exist.",
        "Make it, or name one that exists.",
        {"": "PodGroup {group}, which pod {pod} names, does not exist"},
    ),
    Kind(
        "scheduling-gate",
        "The pod has scheduling gates, and is not tried while it has one.",
        "Whoever set the gate must remove it.",
        {"": "pod {pod} has the scheduling {gates:gate|gates} {gates}"},
    ),
)

FIXES: Final = (
    FixKind("gate-removed", 2, "whoever set {gates} must remove {gates:it|them} from pod {pod}", ("gates",)),
    FixKind(
        "finalizer-removed", 2, "whoever set {finalizers} must remove {finalizers:it|them} from {kept:pod}", ("kept",)
    ),
    FixKind(
        "scheduler-name", 1, "write schedulerName: {meant} instead of {scheduler}, or start a scheduler of that name"
    ),
    FixKind("dropped", 1, "drop {dropped} in {edited}", ("dropped", "edited")),
)
