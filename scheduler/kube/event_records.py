"""Events for people: created, counted when they repeat, and dropped before they can hurt.

The first of equal events (same object, type, reason, action, note) is created. Repeats within six minutes raise its
`series.count`, which is sent at most once per `series_pause_s`. A token bucket bounds all requests.

Rules of this module
  1. Best effort: an event is never answered, never retried, and never holds up a write.
  2. Memory is bounded: at most `waiting_max` events wait, at most `series_max` are remembered.
     A pod is bound once: that event is forgotten as it is sent.
  3. Namespaces take turns: many events of one namespace, or its requests that hang, do not delay other namespaces long.

Not here: HTTP (`executor` sends the requests).

Source: client-go v0.36.3 tools/events event_broadcaster.go; differs on purpose: the note is part of what makes events
equal, so `kubectl describe` shows the reason of now, not of six minutes ago.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import orjson

from scheduler.framework.decisions import RecordEvent
from scheduler.kube.clock import encode_micro_time
from scheduler.kube.outcomes import JSON, MERGE_PATCH
from scheduler.model.api_rules import cut_note

SERIES_WINDOW_MS: Final = 6 * 60_000
_ONCE: Final = frozenset({"Scheduled"})
_INSTANCE_LENGTH_MAX: Final = 128
_API_VERSION_BY_KIND: Final = {"Pod": "v1", "ResourceClaim": "resource.k8s.io/v1", "Lease": "coordination.k8s.io/v1"}


class EventRequest(NamedTuple):
    """What to send, and for which event."""

    event: RecordEvent
    method: str
    path: str
    body: bytes
    content_type: str


@dataclass(slots=True)
class _Series:
    name: str
    count: int
    first_ms: int
    last_ms: int
    sent_ms: int
    is_waiting: bool = False  # in the queue: the next request will carry the current count
    is_created: bool = False


class EventSeries:
    """Decides which requests the events become. Not thread-safe; all times are the caller's `now_ms`.

    Args:
        reporters: The scheduler names of this process: an event is reported by the one it names, else by the first.
        host: Ends `reportingInstance`.
    """

    def __init__(
        self,
        reporters: Sequence[str],
        host: str,
        *,
        per_second: float = 200.0,
        burst: int = 500,
        waiting_max: int = 5000,
        series_max: int = 5000,
        series_pause_s: float = 30.0,
    ) -> None:
        self.dropped = 0
        self._reporters = tuple(reporters)
        self._host = host
        self._per_ms = per_second / 1000
        self._burst = float(burst)
        self._tokens = float(burst)
        self._tokens_ms: int | None = None
        self._waiting: OrderedDict[str, deque[RecordEvent]] = OrderedDict()  # by namespace
        self._waiting_count = 0
        self._waiting_max = waiting_max
        self._series_by_event: OrderedDict[RecordEvent, _Series] = OrderedDict()
        self._series_max = series_max
        self._series_pause_ms = int(series_pause_s * 1000)
        self._serial = 0

    def add(self, event: RecordEvent, now_ms: int) -> None:
        """Take one event."""
        series = self._series_by_event.get(event)
        if series is not None and now_ms - series.last_ms <= SERIES_WINDOW_MS:
            series.count += 1
            series.last_ms = now_ms
            if series.is_waiting or now_ms - series.sent_ms < self._series_pause_ms:
                return
        else:
            self._serial += 1
            # As client-go names them: the object's name and something unique; a name may have 253 characters.
            name = f"{event.name[:220]}.{now_ms * 1000 + self._serial % 1000:x}"
            series = _Series(name, 1, now_ms, now_ms, now_ms)
            self._series_by_event[event] = series
            if len(self._series_by_event) > self._series_max:
                self._series_by_event.popitem(last=False)
        if self._waiting_count >= self._waiting_max:
            self.dropped += 1
            if not series.is_created:
                self._series_by_event.pop(event, None)
            return
        series.is_waiting = True
        self._waiting.setdefault(event.namespace, deque()).append(event)
        self._waiting_count += 1

    def __len__(self) -> int:
        return self._waiting_count

    def wait_s(self, now_ms: int) -> float:
        """Seconds until the next request may be sent; 0 when now."""
        self._refill(now_ms)
        return 0.0 if self._tokens >= 1 else (1 - self._tokens) / self._per_ms / 1000

    def next_request(self, now_ms: int, may_send: Callable[[str], bool] = lambda _: True) -> EventRequest | None:
        """The next request; None when no event waits, when it is too early (`wait_s`), or when no namespace `may_send`.

        Args:
            may_send: Whether a namespace may have one more request under way.
        """
        self._refill(now_ms)
        while self._tokens >= 1 and (event := self._next(may_send)) is not None:
            series = self._series_by_event.get(event)
            if series is None:  # forgotten meanwhile: more than `series_max` different events
                self.dropped += 1
                continue
            self._tokens -= 1
            series.is_waiting = False
            series.sent_ms = now_ms
            collection = f"/apis/events.k8s.io/v1/namespaces/{event.namespace or 'default'}/events"
            if not series.is_created:
                series.is_created = True
                if event.reason in _ONCE:
                    del self._series_by_event[event]
                return EventRequest(event, "POST", collection, self._created(event, series), JSON)
            patch = {"series": _series(series)}
            return EventRequest(event, "PATCH", f"{collection}/{series.name}", orjson.dumps(patch), MERGE_PATCH)
        return None

    def _next(self, may_send: Callable[[str], bool]) -> RecordEvent | None:
        waiting = self._waiting
        namespace = next((name for name in waiting if may_send(name)), None)
        if namespace is None:
            return None
        events = waiting[namespace]
        event = events.popleft()
        self._waiting_count -= 1
        if events:
            waiting.move_to_end(namespace)
        else:
            del waiting[namespace]
        return event

    def forget(self, event: RecordEvent) -> None:
        """The event does not exist on the server: the next equal event is created."""
        self._series_by_event.pop(event, None)

    def _created(self, event: RecordEvent, series: _Series) -> bytes:
        reporter = event.reporter if event.reporter in self._reporters else self._reporters[0]
        return orjson.dumps(
            {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"name": series.name, "namespace": event.namespace or "default"},
                "eventTime": encode_micro_time(series.first_ms),
                "reportingController": reporter,
                "reportingInstance": f"{reporter}-{self._host}"[:_INSTANCE_LENGTH_MAX],
                "action": event.action,
                "reason": event.reason,
                "type": event.type,
                "note": cut_note(event.note),
                "regarding": {
                    "apiVersion": _API_VERSION_BY_KIND.get(event.kind, "v1"),
                    "kind": event.kind,
                    "namespace": event.namespace,
                    "name": event.name,
                    "uid": event.uid,
                },
            }
            | ({"related": _related(event.related)} if event.related is not None else {})
            | ({"series": _series(series)} if series.count > 1 else {})
        )

    def _refill(self, now_ms: int) -> None:
        if self._tokens_ms is not None:
            self._tokens = min(self._burst, self._tokens + (now_ms - self._tokens_ms) * self._per_ms)
        self._tokens_ms = now_ms


def _series(series: _Series) -> dict[str, object]:
    return {"count": series.count, "lastObservedTime": encode_micro_time(series.last_ms)}


def _related(pod: tuple[str, str, str]) -> dict[str, str]:
    namespace, name, uid = pod
    return {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": uid}
