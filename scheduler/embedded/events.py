"""Events: one stored object, two shapes. core/v1 is stored; events.k8s.io/v1 is a view of it.

A scheduler records through events.k8s.io/v1, `kubectl describe` reads through v1: both must see the same
objects, as they do in a real cluster.

Source: k8s.io/kubernetes v1.36.3 pkg/apis/events/v1/conversion.go, pkg/registry/core/event/strategy.go.
"""

from typing import Final

from scheduler.embedded.strategy import Object, Strategy

_RENAMED: Final = (
    # stored (core/v1), shown in events.k8s.io/v1
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
)

SELECTABLE: Final = {
    **{
        f"involvedObject.{name}": f"involvedObject.{name}"
        for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    },
    "reason": "reason",
    "reportingComponent": "reportingComponent",
    "source": "source.component",
    "type": "type",
}


class EventStrategy(Strategy):
    """Event of either group."""

    allows_create_on_update = True
    resets_status_on_create = False


def to_events_v1(stored: Object) -> Object:
    """The events.k8s.io/v1 shape of a stored event."""
    for old, new in _RENAMED:
        if old in stored:
            stored[new] = stored.pop(old)
    return stored


def to_core_v1(event: Object) -> Object:
    """The stored shape of an events.k8s.io/v1 event."""
    for old, new in _RENAMED:
        if new in event:
            event[old] = event.pop(new)
    event.setdefault("involvedObject", {})
    event.setdefault("source", {})
    event.setdefault("firstTimestamp", None)
    event.setdefault("lastTimestamp", None)
    return event
