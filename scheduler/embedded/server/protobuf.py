"""The few request bodies that kubectl sends as protobuf: access reviews, evictions, namespaces and config maps.

Its typed clients (`kubectl auth can-i`, `drain`, `create namespace|configmap`) encode requests so and take JSON
answers. What else kubectl sends is JSON, but for `create` of further kinds: these are refused, with a hint.

Rules of this module
  1. Nothing is dropped: a kind or a field with a value that is not in the table is refused, with a hint.

Source: k8s.io/api v0.36.3 and k8s.io/apimachinery v0.36.3 generated.proto (field numbers).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from scheduler.embedded.server.statuses import ApiError, bad_request, unsupported_media_type
from scheduler.model.protobuf_wire import (
    ENVELOPE_RAW,
    ENVELOPE_TYPE,
    PROTOBUF,
    MalformedError,
    fields_of,
    fields_of_envelope,
)
from scheduler.validation.field_errors import Json

_KINDS: Final = frozenset({"ConfigMap", "DeleteOptions", "Eviction", "Namespace", "SelfSubjectAccessReview"})
_MESSAGES: Final[Mapping[str, str]] = {
    "TypeMeta": "1:apiVersion 2:kind",
    "ObjectMeta": "1:name 2:generateName 3:namespace 5:uid 6:resourceVersion 8:creationTimestamp=- "
    "11:labels={string} 12:annotations={string} 14:finalizers=[string]",
    "Namespace": "1:metadata=ObjectMeta 2:spec=- 3:status=-",
    "ConfigMap": "1:metadata=ObjectMeta 2:data={string} 4:immutable=bool",
    "SelfSubjectAccessReview": "1:metadata=ObjectMeta 2:spec=ReviewSpec 3:status=-",
    "ReviewSpec": "1:resourceAttributes=ResourceAttributes 2:nonResourceAttributes=PathAttributes",
    "ResourceAttributes": "1:namespace 2:verb 3:group 4:version 5:resource 6:subresource 7:name",
    "PathAttributes": "1:path 2:verb",
    "Eviction": "1:metadata=ObjectMeta 2:deleteOptions=DeleteOptions",
    "DeleteOptions": "1:gracePeriodSeconds=int 2:preconditions=Preconditions 3:orphanDependents=bool "
    "4:propagationPolicy 5:dryRun=[string]",
    "Preconditions": "1:uid 2:resourceVersion",
}
"""Fields as `number:name=type`, a string where none is said; `-`: not read."""


@cache
def _fields(message: str) -> Mapping[int, tuple[str, str]]:
    entries = (entry.partition(":") for entry in _MESSAGES[message].split())
    typed = ((int(number), rest.partition("=")) for number, _, rest in entries)
    return {number: (name, kind or "string") for number, (name, _, kind) in typed}


def decode_object(body: bytes) -> dict[str, Json]:
    """The object in a protobuf request body, as its JSON would be.

    Raises:
        ApiError: 400 for what is no protobuf, 415 for a kind that is not in the table.
    """
    try:
        envelope = {field.number: field.value for field in fields_of_envelope(body)}
        type_meta = _decode("TypeMeta", _bytes(envelope.get(ENVELOPE_TYPE, b"")))
        kind = type_meta.get("kind", "")
        if kind not in _KINDS:
            raise _refused(f"kind {kind or 'unknown'}")
        obj = _decode(kind, _bytes(envelope.get(ENVELOPE_RAW, b"")))
    except MalformedError as error:
        raise bad_request(f"malformed protobuf: {error}") from None
    return {"apiVersion": type_meta.get("apiVersion", ""), "kind": kind, **obj}


def _decode(message: str, data: bytes) -> dict[str, Json]:
    fields = _fields(message)
    decoded: dict[str, Json] = {}
    for number, _, value in fields_of(data):
        if number not in fields:
            if not _is_unset(value):
                raise _refused(f"field {number} of {message}")
            continue
        name, kind = fields[number]
        if kind == "-":
            continue
        if kind == "[string]":
            decoded.setdefault(name, []).append(_text(value))
        elif kind == "{string}":
            entry = {field.number: field.value for field in fields_of(_bytes(value))}
            decoded.setdefault(name, {})[_text(entry.get(1, b""))] = _text(entry.get(2, b""))
        elif kind == "string":
            text = _text(value)
            if text:  # Go writes empty strings for what is not set.
                decoded[name] = text
        elif kind.startswith("["):
            decoded.setdefault(name, []).append(_decode(kind[1:-1], _bytes(value)))
        elif kind in ("int", "bool"):
            decoded[name] = bool(value) if kind == "bool" else value
        else:
            decoded[name] = _decode(kind, _bytes(value))
    return decoded


def _is_unset(value: bytes | int) -> bool:
    """Go writes what is not set as well: as a zero, or as a message of unset fields."""
    if isinstance(value, int):
        return value == 0
    try:
        return all(_is_unset(field.value) for field in fields_of(value))
    except MalformedError:
        return False  # A text.


def _refused(what: str) -> ApiError:
    hint = "application/json (the embedded server reads protobuf of few kinds: use kubectl apply or create -f)"
    return unsupported_media_type(f"{PROTOBUF}, {what}", (hint, "application/yaml"))


def _bytes(value: bytes | int) -> bytes:
    if isinstance(value, int):
        raise MalformedError("a number where a message was expected")
    return value


def _text(value: bytes | int) -> str:
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError:
        raise MalformedError("text that is no UTF-8") from None
