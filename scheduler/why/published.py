"""Reasons and fixes about what drivers publish, and what classes and selectors take of it: one row a kind."""

from __future__ import annotations

from typing import Final

from scheduler.why.rows import FixKind, Kind

ROWS: Final = (
    Kind(
        "no-devices",
        "No driver publishes any device.",
        "Install the driver, or look at its log.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "selector-unmet",
        "A selector of the request leaves none of the devices of its class.",
        "Correct or relax the term that is named.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "slice-superseded",
        "Devices that would do are in ResourceSlices of an older generation of their pool, which do not count.",
        "The driver must publish them in the newest generation; look at its log.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "pool-incomplete",
        "Devices that would do are in a pool of which ResourceSlices are missing.",
        "The driver must publish the rest; look at its log.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "pool-contradictory",
        "Devices that would do are in a pool whose ResourceSlices contradict each other.",
        "The driver must publish the pool anew; look at its log.",
        {
            "text": "{text}",
            "two-nodes": "pool {pool} is published by nodes {nodes}, and device {device} is in use on one of them",
        },
        ("about", "pool"),
    ),
    Kind(
        "slice-node-missing",
        "Devices that would do are published for a node that does not exist.",
        "Look at why the node has not registered, or at the driver.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "selector-error",
        "A CEL selector, or the expression of a derived attribute, fails for a device instead of answering.",
        "Correct the expression.",
        {"text": "{text}"},
        ("about",),
    ),
    Kind(
        "class-unmatched",
        "A DeviceClass selects none of the devices that drivers publish.",
        "Look at the class's selectors, and at whether its driver runs.",
        {"text": "{text}"},
        ("about",),
    ),
)

FIXES: Final[tuple[FixKind, ...]] = ()
