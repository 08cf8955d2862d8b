"""Reasons and fixes about devices and who has them: one row a kind. docs/reasons.md is made from it."""

from __future__ import annotations

from typing import Final

from scheduler.why.rows import FixKind, Kind

_DEVICE: Final = "device {device}"
DEVICES: Final = "{devices:device|devices} {devices}"
LEFT: Final = (
    "[; {request} asks for all {all}][; {request} asks for {needed}[, {tainted} more {tainted:is|are} tainted]"
    "[, {in_use} more {in_use:is|are} in use][, {blocked} more {blocked:is|are} blocked], and {left} {left:is|are} "
    "left]"
)
"""What is left of a request's devices beside those that a sentence has named."""
_TOOK: Final = "[, {tainted} {tainted:is|are} tainted][, {in_use} in use][, {blocked} blocked]"
_REST: Final = "[; {pods} {pods:has|have} the rest]"
_FIT: Final = "[; {fit} of {would} {fit:fits|fit} together]"
_BLOCKED: Final = "counter set {set} has no room for device {device} ({counter} {takes} needed, {free} left)"
_COMPETE: Final = (
    "{devices:device|devices} {devices} {devices:is the only|are all} [{free} ]{devices:one|ones} on node {node} for "
    "{requests}, which need {needed}"
)
USERS: Final = (
    "[ {runs:pod};][ {earlier:pod}, {earlier:an older pod so named|older pods so named};]"
    "[ {missing:pod}, which {missing:does|do} not exist;][ {ended:pod}, which {ended:has|have} ended;]"
    "[ {going:pod}, which {going:is|are} being deleted and {going:has|have} not ended;]"
)
"""Pods that a claim is reserved for, by what became of them."""

ROWS: Final = (
    Kind(
        "holder-gone",
        "A ResourceClaim holds the devices for pods that have ended or never existed, or for nobody.",
        "kube-controller-manager must release the claim; where it does not, delete the claim.",
        {
            "": f"{{claim:ResourceClaim}} is reserved for{USERS} it has {DEVICES}",
            "nobody": f"{{claim:ResourceClaim}} is reserved for nobody; it has {DEVICES}",
        },
        ("claim", "devices"),
    ),
    Kind(
        "holder-terminating",
        "The devices are held for a pod that is being deleted and has not ended.",
        "Wait, or look at the kubelet of its node and at the pod's finalizers.",
        {"": f"{{claim:ResourceClaim}} is reserved for{USERS} it has {DEVICES}"},
        ("claim", "devices"),
    ),
    Kind(
        "two-stacks",
        "A device plugin and a DRA driver serve the same devices of the node, and neither knows what the other gives.",
        "Leave the node to one of them, or set `twoStacks` ([extended resources](extended-resources.md)).",
        {
            "": "a device plugin serves [{total} ]{resource} on node {node}[, of which pods have {held}], and a driver "
            f"publishes the same devices, so claims get none of {DEVICES}{LEFT}",
            "leave": "pods have {held} {resource} of the device plugin of node {node}, and a driver publishes the same "
            f"devices, so claims do not get {DEVICES}{LEFT}",
            "pods": "claims have {used} of the devices that the device plugin of node {node} serves as {resource} and "
            "leave {room} of {total}; pod {pod} asks for {asked}",
        },
        ("resource", "node", "of"),
    ),
    Kind(
        "devices-short",
        "No node has as many devices that would do as the pod asks for.",
        "Ask for fewer, or for other devices.",
        {
            "": "node {node} has {would} {would:device|devices} that would do for {request}, which asks for {wants}",
            "left": f"node {{node}} has {{left}} {{left:device|devices}} left for {{request}} ({{would}} would "
            f"do{_TOOK}); it asks for {{wants}}",
            "nothing": "node {node} has no devices; {request} asks for {wants}",
            "counts": "node {node}: {counts}",
            "elsewhere": "node {node} has no devices for {request}; {nodes:node|nodes} {nodes} {nodes:has|have}"
            "[, and none for {other}]",
            "operations": f"{DEVICES} {{devices:needs|need}} a node that declares {{feature}} "
            f"(spec.skipNodeOperations of the ResourceSlice), and node {{node}} does not{LEFT}",
            "gate": f"{DEVICES} {{devices:needs|need}} the feature gate {{gate}}, which is off{LEFT}",
            "groups": "{request}: at most {possible} of {needed} devices fit together on node {node}, as the devices "
            "of a counter set must have a compatibility group in common",
            "fewer": "node {node} can give {request} {fit} {fit:device|devices}; it asks for {needed}",
            "together": "node {node}: {fit} of the {would} devices left for {request} {fit:fits|fit} together; it "
            "asks for {needed}",
            "unsolved": "node {node} has {would} devices that would do for {requests}, and no {needed} were found "
            "that fit together",
            "unsolved-all": "node {node} has enough devices for each of {requests}, and not for all together",
        },
        ("of", "request", "requests"),
    ),
    Kind(
        "devices-in-use",
        "Devices that would do are there, and pods have them.",
        "Wait, ask for fewer, or end a pod that has them.",
        {
            "": f"{DEVICES} {{devices:is|are}} in use by {{pods}}{LEFT}",
            "claim": f"{DEVICES} {{devices:is|are}} in use by ResourceClaim {{claim}} ({{pods}}){LEFT}",
            "siblings": f"{DEVICES} {{devices:is|are}} in use by {{pods}} of the same {{owner}}{LEFT}",
            "rollout": f"a rollout of {{owner}} needs a spare device, or maxSurge 0: {DEVICES} {{devices:is|are}} in "
            f"use by {{pods}} of another revision{LEFT}",
            "planned": "{count} {count:device|devices} ({devices}) {count:is|are} planned for the others of the group"
            f"{LEFT}",
            "compete": f"{_COMPETE}; {{pods}} {{used:has|have}} {{used}} more",
        },
        ("of", "devices"),
    ),
    Kind(
        "device-tainted",
        "Devices that would do have a taint that the request does not tolerate.",
        "Add a toleration to the request, or have the taint removed.",
        {
            "": f"{DEVICES} {{devices:has|have}} the taint {{taint}}[ of DeviceTaintRule {{rule}}][ (and {{more}} "
            f"more {{more:taint|taints}})], which {{request}} does not tolerate{LEFT}"
        },
        ("of", "taint"),
    ),
    Kind(
        "capacity-short",
        "Devices have less of a capacity than the request asks for, or others consume too much of it.",
        "Ask for less, or end a pod that consumes it.",
        {
            "consumed": f"{_DEVICE} has {{capacity}} {{free}} left of {{whole}}, {{request}} takes {{takes}}{_REST}",
            "not-asked-for": f"{_DEVICE} has {{capacity}} {{free}} left of {{whole}}, {{request}} asks for no "
            f"{{capacity}} and so takes {{takes}}{_REST}",
            "shares-of-others": f"{DEVICES}: others' shares leave too little for {{request}}",
            "missing": "no device of {request} has the capacity {capacity}; {count} have {other}",
            "small": f"{_DEVICE} has {{capacity}} {{whole}}, and {{request}} asks for {{takes}}",
            "largest": f"{_DEVICE} has {{capacity}} {{whole}}, the most of {{count}} devices; {{request}} asks for "
            f"{{takes}}",
            "policy": f"{DEVICES}: the driver's request policy does not allow {{asked}} for {{request}}"
            "[; it allows {allowed}][; it allows {least} to {most}]",
            "together": "devices of node {node} have too little capacity left for {shares} together",
        },
        ("of", "request", "capacity", "shares"),
    ),
    Kind(
        "partition-blocked",
        "Partitions that would do are free, and partitions in use take what they need of a shared counter, or are of "
        "other compatibility groups.",
        "Take a smaller partition that is free, or end a pod that has one of the others.",
        {
            "": f"{_BLOCKED}: {DEVICES} of {{pods}} {{devices:is|are}} in its place{LEFT}",
            "unused": f"{_BLOCKED}: {DEVICES} of {{claim:ResourceClaim}}, which nobody uses, {{devices:is|are}} in "
            f"its place{LEFT}",
            "free": f"{_BLOCKED}{LEFT}",
            "overdrawn": f"{DEVICES}: the counters of the pool are overdrawn",
            "groups": f"counter set {{set}} has no room for {_DEVICE} of {{group}}: {DEVICES} of {{groups}}[, which "
            f"{{pods}} {{pods:has|have}},] {{devices:is|are}} in its place{LEFT}",
        },
        ("of", "set", "counter"),
    ),
    Kind(
        "counters-short",
        "A counter set does not hold what the pod's own devices take of it together.",
        "Ask for fewer or smaller partitions.",
        {
            "": "{requests}: at most {possible} of {needed} devices fit together on node {node}; counter set {set} "
            "has {counter} {free} left[, and {more} more {more:is|are} short, too]",
            "whole": f"{_DEVICE} takes {{takes}} of counter {{counter}}, and counter set {{set}} has {{whole}}",
            "least": "{requests} need {counter} {takes} of counter set {set} on node {node}, which has {free} left",
            "all": f"{{requests}}: {DEVICES} of node {{node}} take {{counter}} {{takes}} together, and counter set "
            f"{{set}} has {{free}} left{_FIT}",
        },
        ("of", "requests", "set", "counter"),
    ),
    Kind(
        "constraint-unmet",
        "Not as many devices as are asked for have one value of an attribute in common, or differ in it.",
        "Ask for fewer devices, or drop the constraint.",
        {
            "": "{requests}: {needed} devices with the same {attribute} are needed; the most [that are {free} ]on "
            "node {node} is {most}[ (value {value})]",
            "distinct": "{requests}: {needed} devices with different {attribute} are needed; node {node} has {count} "
            "{count:value|values} ({values})",
            "groups": f"{{attribute}}: at most {{possible}} of {{asked}} [{{pairs}}][groups of {{size}} devices] with "
            f"the same value on node {{node}}[; {_DEVICE} ({{value}}) has[ no device of {{none}}][ {{has}} of "
            f"{{wanted}} of {{other}}]]",
            "taken": f"{DEVICES} {{devices:is|are}} in use by {{pods}}; without {{devices:it|them}} {{requests}} have "
            f"no {{attribute}} in common",
            "types": "{attribute} is of type {type} for {request} and {other_type} for {other}: no values are equal",
            "apart": "{requests}: no {attribute} on node {node} has enough devices of each; {value} has {has} of "
            "{wanted} for {request}",
            "lists": f"feature gate DRAListTypeAttributes is off, so the list that {DEVICES} {{devices:has|have}} as "
            "{attribute} does not count",
            "several": "{request}: no {needed} devices on node {node} satisfy its constraints on {attributes}",
            "unsolved": f"{{requests}}: {{needed}} devices with {{how}} {{attribute}} do not fit together on node "
            f"{{node}}[; the most with one value is {{most}} ({{value}})]{_FIT}",
        },
        ("of", "attribute"),
    ),
    Kind(
        "constraint-attribute-missing",
        "No device of a request has the attribute that a constraint names.",
        "Name the attribute that they have, or drop the constraint.",
        {"": "no [{free} ]device of {request} on node {node} has {attribute}[; {count} {count:has|have} {other}]"},
        ("of", "attribute"),
    ),
    Kind(
        "alternatives-unmet",
        "Each alternative of a prioritized list fails, for reasons of its own.",
        "Free devices for one of them, or add an alternative.",
        {
            "": "request {request}: no alternative fits on node {node}: {first}[; {second}][; {third}][; {rest}: for "
            "other reasons]",
            "taken": "request {request}: {every}{count} devices of its {alternatives} alternatives are in use by "
            "{pods}",
            "way": "{names}: {why}",
            "class": "no device of class {class}",
            "selectors": "no device matches its selectors",
            "undecided": "its selector fails: {failure}",
            "capacity": "too little {capacity}",
            "unread": "{gone} of {all} with a field that this scheduler does not know",
            "taint": "{gone} of {all} tainted",
            "in-use": "{gone} of {all} in use by {pods}",
            "groups": "{gone} of {all} of no compatibility group of the partitions in use",
            "counters": "{gone} of {all} blocked by partitions in use",
            "constraint": "its constraints leave no device",
            "short": "{there} of {needed} devices are there",
        },
        ("of",),
    ),
    Kind(
        "own-claims-compete",
        "Requests of the pod, or claims that it uses, need the same device.",
        "Let them ask for different devices, or share one claim.",
        {
            "": _COMPETE,
            "allocated": f"{DEVICES}: {{claim:ResourceClaim}}, which the pod uses too, has what {{request}} asks for",
        },
        ("of", "devices"),
    ),
)

_CONTROLLER: Final = "kube-controller-manager's resource claim controller"

FIXES: Final[tuple[FixKind, ...]] = (
    FixKind(
        "plugin-removed",
        5,
        "take the device plugin of {resource} from node {node}[, and end {pods}]",
        ("resource", "node"),
    ),
    FixKind(
        "write-attribute",
        1,
        "write {attribute} instead of {instead} in the constraint of {claim}",
        ("instead", "claim"),
    ),
    FixKind(
        "tolerate-device-taint",
        2,
        "add the {tolerations:toleration|tolerations} {tolerations} to {request}, or have the taint removed",
        ("tolerations", "request"),
    ),
    FixKind(
        "end-terminating",
        2,
        f"the kubelet[ of node {{nodes}}] must end the pod (a finalizer may keep it); then {_CONTROLLER} releases "
        "{claims:ResourceClaim}",
        ("claims",),
    ),
    FixKind(
        "release-deleting",
        2,
        f"{_CONTROLLER} must release {{claims:ResourceClaim}} and take its finalizer away; look at its log",
        ("claims",),
    ),
    FixKind("release-claim", 2, f"{_CONTROLLER} must release {{claims:ResourceClaim}}; look at its log", ("claims",)),
    FixKind(
        "delete-claim",
        2,
        f"{_CONTROLLER} must release {{claims:ResourceClaim}}; where it does not: {{command}}",
        ("claims",),
    ),
    FixKind(
        "rename-pool",
        2,
        "the driver must give each node's pool a name of its own, such as the node's, instead of {pool}",
        ("pool",),
    ),
    FixKind(
        "ask-for-fewer",
        3,
        "ask for {count} {count:device|devices} instead of {instead} in {request}",
        ("instead", "request"),
    ),
    FixKind(
        "ask-for-less",
        3,
        "ask for {capacity} {less} instead of {instead} in {request}",
        ("capacity", "instead", "request"),
    ),
    FixKind(
        "write-value", 4, "write '{value}' instead of '{instead}' in the selector of {request}", ("instead", "request")
    ),
    FixKind("drop-constraint", 5, "drop the constraint {what}: {attribute} of {claim}", ("what", "attribute", "claim")),
    FixKind(
        "end-holders",
        6,
        "free {devices:device|devices} {devices}: end {pods}[, whose ResourceClaim is {claim}]",
        ("devices", "pods"),
    ),
    FixKind("drop-selector", 7, "drop or relax the selector `{selector}` of {request}", ("selector", "request")),
)
