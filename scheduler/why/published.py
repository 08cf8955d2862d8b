"""Reasons and fixes about what drivers publish, and what classes and selectors take of it: one row a kind."""

from __future__ import annotations

from typing import Final

from scheduler.why.rows import FixKind, Kind

ROWS: Final = (
    Kind(
        "no-devices",
        "No driver publishes any device.",
        "Install the driver, or look at its log.",
        {
            "": "no driver publishes any device ([{slices} {slices:ResourceSlice|ResourceSlices} without devices]"
            "[{none}]), and {request} waits for one"
        },
    ),
    Kind(
        "selector-unmet",
        "A selector of the request leaves none of the devices of its class.",
        "Correct or relax the term that is named.",
        {"": "{owner}: {fact}"},
        ("owner", "fact"),
    ),
    Kind(
        "slice-superseded",
        "Devices that would do are in ResourceSlices of an older generation of their pool, which do not count.",
        "The driver must publish them in the newest generation; look at its log.",
        {
            "": "ResourceSlice {slices} of pool {pool} is of an older generation ({old}): {generation} counts"
            "[; so {more:is|are} {more} more]"
        },
        ("pool", "request"),
    ),
    Kind(
        "pool-incomplete",
        "Devices that would do are in a pool of which ResourceSlices are missing.",
        "The driver must publish the rest; look at its log.",
        {
            "": "pool {pool} is incomplete: of generation {generation} there are {there} of {wanted} ResourceSlices "
            "({slices})[; so {more:is|are} {more} more]"
        },
        ("pool", "request"),
    ),
    Kind(
        "pool-contradictory",
        "Devices that would do are in a pool whose ResourceSlices contradict each other.",
        "The driver must publish the pool anew; look at its log.",
        {
            "": "pool {pool} contradicts itself: {fault}[; so {more:is|are} {more} more]",
            "counts-disagree": "pool {pool} has slices that disagree on their count: {fault}"
            "[; so {more:is|are} {more} more]",
            "device-twice": "pool {pool} has a device twice: {fault}[; so {more:is|are} {more} more]",
            "counter-set-twice": "pool {pool} has a counter set twice: {fault}[; so {more:is|are} {more} more]",
            "two-nodes": "pool {pool} is published by nodes {nodes}, and device {device} is in use on one of them",
        },
        ("pool", "request"),
    ),
    Kind(
        "slice-node-missing",
        "Devices that would do are published for a node that does not exist.",
        "Look at why the node has not registered, or at the driver.",
        {
            "": "ResourceSlice {slices} is for node {node}, and no Node has that name (pool {pool}"
            "[; {more} more such nodes])"
        },
        ("node", "request"),
    ),
    Kind(
        "selector-error",
        "A CEL selector, or the expression of a derived attribute, fails for a device instead of answering; since 1.38 "
        "also a constraint on a value that cannot be compared.",
        "Correct the expression, or the driver.",
        {
            "": "{owner}: {fact}",
            "fails": "{owner}: the selector fails for device {device}: {error}",
            "derived": "{owner}: the expression of {attribute} fails for device {device}: {error}",
            "incomparable": "{owner}: a constraint compares {attribute}, and the value that device {device} has of it "
            "cannot be compared",
        },
        ("owner", "fact", "error"),
    ),
    Kind(
        "binding-condition-unset",
        "The driver has not set a condition for which devices wait before a pod is bound, or has set that it failed.",
        "Look at the driver's log.",
        {
            "": "{claim:ResourceClaim} waits for {condition} to be set: {device}",
            "driver": "driver {driver} has not set the binding condition {condition}, for which its devices wait",
            "failed": "driver {driver} has set the failure condition {failed}[ ({why})], so its device is given up",
        },
        ("claim", "driver", "condition"),
    ),
    Kind(
        "class-unmatched",
        "A DeviceClass selects none of the devices that drivers publish.",
        "Look at the class's selectors, and at whether its driver runs.",
        {"": "DeviceClass {class}: {fact}[; drivers: {drivers}]"},
        ("class", "fact"),
    ),
)

FIXES: Final[tuple[FixKind, ...]] = (
    FixKind("expression-mended", 1, "write {instead} in the {part} of {owner}: {whole}", ("part", "owner", "whole")),
    FixKind(
        "condition-set",
        2,
        "the driver[ {driver}] must set {condition}[, and unset {failed},] in the claim's status.devices; look at its "
        "log",
        ("driver", "condition"),
    ),
    FixKind(
        "slices-again",
        5,
        "the driver must publish the devices of {slices} again in generation {generation} of pool {pool}; look at its "
        "log",
        ("pool",),
    ),
    FixKind(
        "slices-missing",
        5,
        "the driver must publish the {missing} missing {missing:ResourceSlice|ResourceSlices} of generation "
        "{generation} of pool {pool}; look at its log",
        ("pool",),
    ),
    FixKind(
        "pool-anew",
        5,
        "the driver must publish pool {pool} anew, in one generation that agrees with itself; look at its log",
        ("pool",),
    ),
    FixKind(
        "node-registered",
        5,
        "the kubelet of {node} must register its Node, or the driver publish these devices for the node that has them",
        ("node",),
    ),
    FixKind("selector-dropped", 7, "drop or relax the {part} `{term}` of {request}", ("request", "term")),
    FixKind(
        "constraints-dropped", 7, "drop {attribute} of {request}, and the constraints on it", ("request", "attribute")
    ),
    FixKind(
        "driver-installed",
        7,
        "install the driver[ {driver}][ of DeviceClass {class}], or look at its log: it publishes no ResourceSlice",
        ("driver", "class"),
    ),
    FixKind("class-made", 8, "create DeviceClass {class}, or install the driver that brings it", ("class",)),
)
