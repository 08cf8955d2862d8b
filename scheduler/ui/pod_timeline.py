"""A pod's way from its creation on, in the order of time: what its objects say, and what events say about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from scheduler.explain.waiting import Key
from scheduler.model.pod_claims import claim_names
from scheduler.offline import SourceObject
from scheduler.offline.offline_cluster import key_of

Obj: TypeAlias = Mapping[str, Any]

_LINES_MAX: Final = 200
_TEXT_MAX: Final = 1_000
_SECOND: Final = len("2026-01-02T03:04:05")


def history_of(given: Iterable[SourceObject], key: Key, events: Iterable[Obj]) -> list[dict[str, str]]:
    """Each with `at` (as the server writes times), `what` and `text`; the oldest first.

    Args:
        given: All objects.
        events: Those about the pod, of v1 or events.k8s.io/v1.
    """
    pod = next((one.obj for one in given if one.obj.get("kind") == "Pod" and key_of(one.obj) == key), None)
    if pod is None:
        return []
    claims = _claims_of(given, pod)
    lines = [*_of_pod(pod), *(line for claim in claims for line in _of_claim(claim)), *map(_of_event, events)]
    # Only events have fractions of seconds; of one second the object's own words come first.
    known = sorted((line for line in lines if line[0]), key=lambda line: line[0][:_SECOND])
    return [{"at": at, "what": what, "text": text[:_TEXT_MAX]} for at, what, text in known[-_LINES_MAX:]]


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


_Line: TypeAlias = tuple[str, str, str]


def _of_pod(pod: Obj) -> Iterator[_Line]:
    metadata, status, spec = pod.get("metadata") or {}, pod.get("status") or {}, pod.get("spec") or {}
    yield str(metadata.get("creationTimestamp") or ""), "created", f"for {spec.get('schedulerName', 'a scheduler')}"
    for one in status.get("conditions") or ():
        at = str(one.get("lastTransitionTime") or "")
        if one.get("type") == "PodScheduled" and one.get("status") == "True":
            yield at, "bound", f"to node {spec.get('nodeName', '')}"
        else:
            reason = " ".join(filter(None, (one.get("reason"), one.get("message"))))
            yield at, "condition", f"{one.get('type')} is {one.get('status')}{': ' if reason else ''}{reason}"
    yield str(status.get("startTime") or ""), "taken", "by the node's kubelet"
    yield str(metadata.get("deletionTimestamp") or ""), "deletion", "to be gone by then"


def _of_claim(claim: Obj) -> Iterator[_Line]:
    name = key_of(claim)[1]
    yield str((claim.get("metadata") or {}).get("creationTimestamp") or ""), "claim", f"{name} was created"
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    devices = ", ".join(f"{one.get('driver')}/{one.get('pool')}/{one.get('device')}" for one in results)
    yield str(allocation.get("allocationTimestamp") or ""), "claim", f"{name} was given {devices}"


def _of_event(event: Obj) -> _Line:
    series = event.get("series") or {}
    at = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("deprecatedLastTimestamp")
    at = at or event.get("eventTime") or event.get("firstTimestamp") or ""
    count = series.get("count") or event.get("count") or event.get("deprecatedCount") or 1
    often = f" ({count} times until then)" if count > 1 else ""
    return str(at), f"event {event.get('reason', '')}", f"{event.get('note') or event.get('message') or ''}{often}"
