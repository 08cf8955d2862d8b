"""How objects of one kind come off the wire: lines and watch events, list pages and single replies.

Rules of this module
  1. BOOKMARK and ERROR events are decoded apart: a bookmark carries its kind with nulls in required lists.
  2. One object that cannot be decoded is reported with its name, the field and the reason; the others go on.

Not here: which kinds there are, and what is read of each (`codec`); HTTP and resuming (`watch`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from typing import Any, Final, TypeAlias

import msgspec

from scheduler.core.ground.inputs import Deleted, Input, Observed
from scheduler.kube.api_versions import ServedAs
from scheduler.kube.outcomes import StatusReply, UndecodableError
from scheduler.model.keys import ObjectKey
from scheduler.model.objects import ObjectMeta, PodMeta, Record

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


class Seen(msgspec.Struct, frozen=True):
    """An object that exists, ADDED or MODIFIED."""

    name: ObjectKey
    uid: str
    resource_version: str
    input: Input


class Gone(msgspec.Struct, frozen=True):
    """An object that was DELETED."""

    name: ObjectKey
    uid: str
    resource_version: str


class Broken(msgspec.Struct, frozen=True):
    """An object that exists and cannot be decoded; `reason` names the field. `name` is empty where it is unreadable."""

    name: ObjectKey
    uid: str
    resource_version: str
    reason: str


class Bookmark(msgspec.Struct, frozen=True):
    """Everything up to this version has been sent; `ends_initial_events` closes the first part of a WatchList."""

    resource_version: str
    ends_initial_events: bool


class ErrorEvent(msgspec.Struct, frozen=True):
    """The server ends the watch: 410 Expired, 429, 5xx."""

    code: int
    reason: str
    message: str
    retry_after_s: float | None


class Ignored(msgspec.Struct, frozen=True):
    """An event type this program does not know, or a line that is no event; `reason` says which."""

    reason: str


Event: TypeAlias = Seen | Gone | Broken | Bookmark | ErrorEvent | Ignored


class LineSplitter:
    """Chunks in, complete lines out. Looks at each byte once, whatever the lines' length."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, without their line ends; empty ones left out."""
        if b"\n" not in chunk:
            self._parts.append(chunk)
            return []
        lines = chunk.split(b"\n")
        if self._parts:
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts.clear()
        if rest := lines.pop():
            self._parts.append(rest)
        return [line for line in lines if line]


@dataclass(slots=True)
class Replacement:
    """The objects of a list, as far as they have come; `next_page` is the token for what follows."""

    seen: dict[ObjectKey, Seen] = field(default_factory=dict)
    broken: dict[ObjectKey, Broken] = field(default_factory=dict)
    next_page: str = ""

    def take(self, event: Seen | Gone | Broken) -> None:
        """One object of a page, or one event of a stream."""
        self.seen.pop(event.name, None)
        self.broken.pop(event.name, None)
        if isinstance(event, Seen):
            self.seen[event.name] = event
        elif isinstance(event, Broken):
            self.broken[event.name] = event


class ListMeta(Record, frozen=True):
    """Of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(Record, frozen=True):
    metadata: ListMeta = ListMeta()
    items: tuple[msgspec.Raw, ...] | None = None


class Page(msgspec.Struct, frozen=True):
    """One page of a LIST; `continue_token` is empty on the last."""

    objects: tuple[Seen | Broken, ...]
    resource_version: str
    continue_token: str


class _Envelope(Record, frozen=True):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"null")


class _HasMeta(Record, frozen=True):
    metadata: ObjectMeta


_envelope_decoder = msgspec.json.Decoder(_Envelope)
meta_decoder = msgspec.json.Decoder(_HasMeta)
_page_decoder = msgspec.json.Decoder(_Page)


def _raw_metadata(raw: msgspec.Raw) -> PodMeta:
    return meta_decoder.decode(raw).metadata


def _as_it_is(wire: object) -> object:
    return wire


@cache
def _event_types(name: str, wire: Any) -> tuple[type, type, type]:
    """The three events that matter; made once for a process, `explain` builds a codec for each question."""
    added, modified, deleted = (
        msgspec.defstruct(f"{name}{tag.title()}", [("object", wire)], frozen=True, gc=False, tag=tag, tag_field="type")
        for tag in ("ADDED", "MODIFIED", "DELETED")
    )
    return added, modified, deleted


class WatchedKind:
    """How objects of one kind are listed, decoded and given to the machine.

    Args:
        name: "Pod", …, as in `RelistFinished.kind`.
        path: The collection over all namespaces; empty where it must be found out (`served_as`).
        wire: What msgspec decodes an object to; `msgspec.Raw` leaves it to `read`.
        read: The object of the model that it stands for, None for one that is not to be observed: it counts as deleted.
            ValueError (with the field in its text) when it cannot be decoded.
        withdraws_broken: Whether an object that becomes undecodable counts as deleted (its devices or its class must
            not be used any more) or stays as last seen (a pod still uses its node).
        served_as: For a kind that a server may not have, or in one of several versions.
        cost: What is lost where the server does not have the kind, or does not let us read it; "" where nothing can be
            scheduled without it.
    """

    def __init__(
        self,
        name: str,
        path: str,
        wire: Any,
        read: Callable[[Any], object] = _as_it_is,
        *,
        withdraws_broken: bool = False,
        served_as: ServedAs | None = None,
        cost: str = "",
    ) -> None:
        self.name = name
        self.path = path
        self.withdraws_broken = withdraws_broken
        self.served_as = served_as
        self.cost = cost
        self._read = read
        self._metadata: Callable[[Any], PodMeta] = _raw_metadata if wire is msgspec.Raw else attrgetter("metadata")
        self._object_decoder = msgspec.json.Decoder(wire)
        events = _event_types(name, wire)
        self._deleted_event: type = events[2]
        # One step for the three events that matter; anything else fails here and goes to `_decode_other`.
        self._event_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(events[0] | events[1] | events[2])

    def decode_event(self, line: bytes) -> Event:
        """One line of a watch. Never raises: what is wrong with an object is in `Broken`."""
        try:
            event = self._event_decoder.decode(line)
        except msgspec.DecodeError:
            return self._decode_other(line)
        try:
            seen = self._seen(event.object)
        except Exception:  # looked at again, and reported, in decode_object
            return self._decode_other(line)
        return Gone(seen.name, seen.uid, seen.resource_version) if type(event) is self._deleted_event else seen

    def _seen(self, wire: Any) -> Seen:
        """Raises ValueError."""
        meta, of = self._metadata(wire), self._read(wire)
        name, uid, version = ObjectKey(meta.namespace, meta.name), meta.uid, meta.resource_version
        if not version.isdecimal():  # the machine compares them as numbers
            raise ValueError(f"metadata.resourceVersion: {version!r} is not a number")
        if of is None:
            return Seen(name, uid, version, Deleted(self.name, name, uid, int(version)))
        return Seen(name, uid, version, Observed(self.name, name, uid, int(version), of))

    def _decode_other(self, line: bytes) -> Event:
        """Bookmarks, errors, unknown event types and objects that do not decode."""
        try:
            envelope = _envelope_decoder.decode(line)
        except msgspec.DecodeError as error:
            return Ignored(f"a line of {len(line)} bytes is no watch event: {error}")
        raw = envelope.object
        match envelope.type:
            case "BOOKMARK":
                return _decode_bookmark(raw)
            case "ERROR":
                return _decode_error(raw)
            case "ADDED" | "MODIFIED":
                return self.decode_object(raw)
            case "DELETED":
                # Of a deleted object only the name must be readable.
                broken = self.decode_object(raw)
                return Gone(broken.name, broken.uid, broken.resource_version) if broken.name.name else broken
            case other:
                return Ignored(f"unknown event type {other!r}")

    def decode_object(self, raw: bytes | msgspec.Raw) -> Seen | Broken:
        """One object, of a list page, a reply or an event."""
        try:
            return self._seen(self._object_decoder.decode(raw))
        except ValueError as error:  # msgspec.DecodeError is one
            return _broken(raw, str(error))
        except Exception as error:  # a decoder's defect, or an object nested too deeply, harms this object only
            return _broken(raw, f"{type(error).__name__}: {error}")

    def decode_reply(self, body: bytes) -> Any:
        """The object of the model in the reply to a GET or PATCH. Raises UndecodableError."""
        decoded = self.decode_object(body)
        if isinstance(decoded, Seen) and isinstance(decoded.input, Observed):
            return decoded.input.object
        raise UndecodableError(f"{self.name} {decoded.name}: {getattr(decoded, 'reason', 'not to be observed')}")

    def decode_page(self, body: bytes) -> Page:
        """A LIST reply.

        Raises:
            UndecodableError: The reply as a whole is no list.
        """
        try:
            page = _page_decoder.decode(body)
        except msgspec.DecodeError as error:
            raise UndecodableError(f"LIST {self.path}: {error}") from error
        objects = tuple([self.decode_object(item) for item in page.items or ()])
        return Page(objects, page.metadata.resource_version, page.metadata.continue_)


def _decode_bookmark(raw: msgspec.Raw) -> Bookmark | Ignored:
    try:
        meta = meta_decoder.decode(raw).metadata
    except msgspec.DecodeError as error:
        return Ignored(f"a bookmark without metadata: {error}")
    return Bookmark(meta.resource_version, (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true")


def _decode_error(raw: msgspec.Raw) -> ErrorEvent:
    try:
        status = msgspec.json.decode(raw, type=StatusReply)
    except msgspec.DecodeError as error:
        return ErrorEvent(0, "", f"an ERROR event without a Status: {error}", None)
    return ErrorEvent(status.code, status.reason, status.message, status.retry_after_s)


def _broken(raw: bytes | msgspec.Raw, reason: str) -> Broken:
    try:
        meta = meta_decoder.decode(raw).metadata
    except msgspec.DecodeError:
        return Broken(ObjectKey("", ""), "", "", reason)
    return Broken(ObjectKey(meta.namespace, meta.name), meta.uid, meta.resource_version, reason)
