"""Events: one stored object, two shapes. core/v1 is stored; events.k8s.io/v1 is a view of it.

A scheduler records through events.k8s.io/v1, `kubectl describe` reads through v1: both must see the same
objects, as they do in a real cluster. The newer group is strict: an event of it may gain a series, nothing else.

Source: k8s.io/kubernetes v1.36.3 pkg/apis/events/v1/conversion.go, pkg/apis/core/validation/events.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.embedded.server.strategy import Object, Strategy, StrategyView
from scheduler.model.api_rules import NOTE_LENGTH_MAX
from scheduler.validation.field_errors import FieldError, Json, invalid, required
from scheduler.validation.name_rules import check_text, label_key

_LENGTH_MAX: Final = 128
"""Bytes of an event's instance, action and reason."""

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
_IMMUTABLE: Final = (
    *("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type", "eventTime"),
    *("action", "related", "reportingComponent", "reportingInstance"),
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


class CoreEventStrategy(Strategy):
    """core/v1 Event."""

    allows_create_on_update = True
    controller_field = "reportingComponent"

    def prepare_create(self, obj: Object, cluster: StrategyView) -> None:
        obj.setdefault("involvedObject", {})
        obj.setdefault("source", {})
        obj.setdefault("firstTimestamp", None)
        obj.setdefault("lastTimestamp", None)

    def validate_create(self, obj: Object, cluster: StrategyView) -> list[FieldError]:
        return self._check_both_groups(obj)

    def _check_both_groups(self, event: Mapping[str, Json]) -> list[FieldError]:
        namespace = event["metadata"].get("namespace", "")
        about = (event.get("involvedObject") or {}).get("namespace") or ""
        if not event.get("eventTime"):
            is_fitting = namespace == about or (not about and namespace == "default")
            return [] if is_fitting else [_wrong_namespace(about)]
        errors = [] if about or namespace in ("default", "kube-system") else [_wrong_namespace(about)]
        controller = event.get("reportingComponent") or ""
        if not controller:
            errors.append(required(self.controller_field))
        errors += check_text(label_key, controller, self.controller_field)
        for field in ("reportingInstance", "action", "reason"):
            value = event.get(field) or ""
            if not value:
                errors.append(required(field))
            elif len(value.encode()) > _LENGTH_MAX:
                errors.append(invalid(field, "", f"can have at most {_LENGTH_MAX} characters"))
        if len((event.get("message") or "").encode()) > NOTE_LENGTH_MAX:
            errors.append(invalid("message", "", f"can have at most {NOTE_LENGTH_MAX} characters"))
        return errors


class EventStrategy(CoreEventStrategy):
    """events.k8s.io/v1 Event."""

    controller_field = "reportingController"

    def validate_create(self, obj: Object, cluster: StrategyView) -> list[FieldError]:
        errors = self._check_both_groups(obj) + _check_series(obj)
        if not obj.get("eventTime"):
            errors.append(required("eventTime"))
        if obj.get("type") not in ("Normal", "Warning"):
            errors.append(invalid("type", "", f"has invalid value: {obj.get('type') or ''}"))
        errors += [
            invalid(field, "", "needs to be unset")
            for field in ("firstTimestamp", "lastTimestamp", "count", "source")
            if obj.get(field)
        ]
        return errors

    def validate_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> list[FieldError]:
        errors = self._check_both_groups(new)
        if new.get("series") != old.get("series"):
            errors += _check_series(new)
        errors += [
            invalid(field.replace("Component", "Controller"), new.get(field), "field is immutable")
            for field in _IMMUTABLE
            if (new.get(field) or None) != (old.get(field) or None)
        ]
        return errors


def _wrong_namespace(about: str) -> FieldError:
    return invalid("involvedObject.namespace", about, "does not match event.namespace")


def _check_series(event: Mapping[str, Json]) -> list[FieldError]:
    series = event.get("series")
    if not series:
        return []
    errors: list[FieldError] = []
    if (series.get("count") or 0) < 2:
        errors.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(required("series.lastObservedTime"))
    return errors


def pod_event(
    pod: Mapping[str, Json], type_: str, reason: str, message: str, *, now: str, component: str, host: str = ""
) -> Object:
    """A core/v1 Event about a pod, given by its metadata."""
    return event_about("Pod", pod, type_, reason, message, now=now, component=component, host=host)


def event_about(
    kind: str,
    metadata: Mapping[str, Json],
    type_: str,
    reason: str,
    message: str,
    *,
    now: str,
    component: str,
    host: str = "",
) -> Object:
    """A core/v1 Event about a namespaced object of core/v1, given by its metadata."""
    about = {"apiVersion": "v1", "kind": kind, **{field: metadata[field] for field in ("namespace", "name", "uid")}}
    where = {"host": host} if host else {}
    return {
        "metadata": {"generateName": f"{metadata['name']}."},
        "involvedObject": about,
        **{"type": type_, "reason": reason, "message": message},
        "source": {"component": component, **where},
        "reportingComponent": component,
        **({"reportingInstance": host} if host else {}),
        **{"firstTimestamp": now, "lastTimestamp": now, "count": 1},
    }


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
    return event
