"""A pod's way from its creation on, in the order of time: what its objects say, and what events say about it.

Rules of this module
  1. What is said many times is one line, with how often, when it was said first and when last.
  2. What an event says is not said again by the condition that it is about.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import structs

from scheduler.explain.waiting import Key
from scheduler.model.pod_claims import claim_names
from scheduler.offline import SourceObject
from scheduler.offline.offline_cluster import created_at, key_of
from scheduler.ui.answers import HistoryLine

Obj: TypeAlias = Mapping[str, Any]

_LINES_MAX: Final = 200
_TEXT_MAX: Final = 1_000
_SECOND: Final = len("2026-01-02T03:04:05")


def pod_in(given: Iterable[SourceObject], key: Key) -> SourceObject | None:
    """The pod of this name among all objects."""
    return next((one for one in given if one.obj.get("kind") == "Pod" and key_of(one.obj) == key), None)


def history_of(given: Iterable[SourceObject], pod: Obj, events: Iterable[Obj]) -> list[HistoryLine]:
    """In the order of the last times.

    Args:
        given: All objects.
        events: Those about the pod, of v1 or events.k8s.io/v1.
    """
    claims = _claims_of(given, pod)
    said = [*map(_of_event, events)]
    lines = [*_of_pod(pod, {one.text for one in said}), *(line for claim in claims for line in _of_claim(claim)), *said]
    # Only events have fractions of seconds; of one second the object's own words come first.
    known = sorted((line for line in lines if line.at), key=lambda line: line.at[:_SECOND])
    return [structs.replace(line, text=line.text[:_TEXT_MAX]) for line in _together(known)[-_LINES_MAX:]]


def _together(lines: Iterable[HistoryLine]) -> list[HistoryLine]:
    found: dict[tuple[str, str], HistoryLine] = {}
    for line in lines:
        before = found.pop((line.what, line.text), None)  # what was said again stands where it was said last
        if before is not None:
            first = min(filter(None, (before.first, before.at, line.first)))
            line = structs.replace(line, count=before.count + line.count, first=first)  # noqa: PLW2901
        found[line.what, line.text] = line
    return [*found.values()]


def events_in(given: Iterable[SourceObject], key: Key) -> list[Obj]:
    """The events about a pod that are among the objects."""
    return [
        one.obj
        for one in given
        if one.obj.get("kind") == "Event"
        and _named(one.obj.get("regarding") or one.obj.get("involvedObject") or {}) == ("Pod", *key)
    ]


def _named(reference: Obj) -> tuple[str, str, str]:
    return str(reference.get("kind")), str(reference.get("namespace")), str(reference.get("name"))


def _claims_of(given: Iterable[SourceObject], pod: Obj) -> Sequence[Obj]:
    keys = {(key_of(pod)[0], name) for name in claim_names(pod)}
    return [one.obj for one in given if one.obj.get("kind") == "ResourceClaim" and key_of(one.obj) in keys]


def _of_pod(pod: Obj, said: Container[str]) -> Iterator[HistoryLine]:
    metadata, status, spec = pod.get("metadata") or {}, pod.get("status") or {}, pod.get("spec") or {}
    yield HistoryLine(at=created_at(pod), what="created", text=f"for {spec.get('schedulerName', 'a scheduler')}")
    for one in status.get("conditions") or ():
        at = str(one.get("lastTransitionTime") or "")
        if one.get("type") == "PodScheduled" and one.get("status") == "True":
            yield HistoryLine(at=at, what="bound", text=f"to node {spec.get('nodeName', '')}")
        else:
            message = one.get("message")
            reason = " ".join(filter(None, (one.get("reason"), message if message not in said else "")))
            text = f"{one.get('type')} is {one.get('status')}{': ' if reason else ''}{reason}"
            yield HistoryLine(at=at, what="condition", text=text)
    yield HistoryLine(at=str(status.get("startTime") or ""), what="taken", text="by the node's kubelet")
    yield HistoryLine(at=str(metadata.get("deletionTimestamp") or ""), what="deletion", text="to be gone by then")


def _of_claim(claim: Obj) -> Iterator[HistoryLine]:
    name = key_of(claim)[1]
    yield HistoryLine(at=created_at(claim), what="claim", text=f"{name} was created")
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    devices = ", ".join(f"{one.get('driver')}/{one.get('pool')}/{one.get('device')}" for one in results)
    yield HistoryLine(
        at=str(allocation.get("allocationTimestamp") or ""), what="claim", text=f"{name} was given {devices}"
    )


def _of_event(event: Obj) -> HistoryLine:
    series = event.get("series") or {}
    at = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("deprecatedLastTimestamp")
    at = at or event.get("eventTime") or event.get("firstTimestamp") or ""
    count = series.get("count") or event.get("count") or event.get("deprecatedCount") or 1
    first = event.get("firstTimestamp") or event.get("deprecatedFirstTimestamp") or event.get("eventTime")
    return HistoryLine(
        at=str(at),
        what=f"event {event.get('reason', '')}",
        text=str(event.get("note") or event.get("message") or ""),
        count=count,
        first=str(first or "") if count > 1 else "",
    )
