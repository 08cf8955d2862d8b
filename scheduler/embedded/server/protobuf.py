"""The few request bodies that kubectl sends as protobuf: access reviews, evictions, and what `create KIND` makes.

Its typed clients (`kubectl auth can-i`, `drain`, `create namespace|configmap|deployment|job`) encode requests so and
take JSON answers. Everything else kubectl sends is JSON.

Rules of this module
  1. Nothing is dropped: a kind or a field with a value that is not in the table is refused, with a hint.

Source: protobuf wire format; k8s.io/api v0.36.3 and k8s.io/apimachinery v0.36.3 generated.proto (field numbers).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from scheduler.embedded.server.statuses import ApiError, bad_request, unsupported_media_type
from scheduler.validation.field_errors import Json

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"

_MAGIC: Final = b"k8s\x00"

Fields = Mapping[int, tuple[str, str]]
"""Field number -> (JSON name, type): a scalar, another message, `[one of these]`, `{string}`, or `-`: not read."""

_KINDS: Final = frozenset(
    {
        "ConfigMap",
        "DeleteOptions",
        "Deployment",
        "Eviction",
        "Job",
        "Namespace",
        "PriorityClass",
        "SelfSubjectAccessReview",
        "ServiceAccount",
    }
)

_MESSAGES: Final[dict[str, Fields]] = {
    "Unknown": {1: ("typeMeta", "TypeMeta"), 2: ("raw", "bytes")},
    "TypeMeta": {1: ("apiVersion", "string"), 2: ("kind", "string")},
    "ObjectMeta": {
        1: ("name", "string"),
        2: ("generateName", "string"),
        3: ("namespace", "string"),
        5: ("uid", "string"),
        6: ("resourceVersion", "string"),
        8: ("creationTimestamp", "-"),
        11: ("labels", "{string}"),
        12: ("annotations", "{string}"),
        14: ("finalizers", "[string]"),
    },
    "Namespace": {1: ("metadata", "ObjectMeta"), 2: ("spec", "-"), 3: ("status", "-")},
    "ServiceAccount": {1: ("metadata", "ObjectMeta")},
    "ConfigMap": {1: ("metadata", "ObjectMeta"), 2: ("data", "{string}"), 4: ("immutable", "bool")},
    "PriorityClass": {
        1: ("metadata", "ObjectMeta"),
        2: ("value", "int"),
        3: ("globalDefault", "bool"),
        4: ("description", "string"),
        5: ("preemptionPolicy", "string"),
    },
    "Deployment": {1: ("metadata", "ObjectMeta"), 2: ("spec", "DeploymentSpec"), 3: ("status", "-")},
    "DeploymentSpec": {1: ("replicas", "int"), 2: ("selector", "LabelSelector"), 3: ("template", "PodTemplate")},
    "Job": {1: ("metadata", "ObjectMeta"), 2: ("spec", "JobSpec"), 3: ("status", "-")},
    "JobSpec": {6: ("template", "PodTemplate")},
    "LabelSelector": {1: ("matchLabels", "{string}")},
    "PodTemplate": {1: ("metadata", "ObjectMeta"), 2: ("spec", "PodSpec")},
    "PodSpec": {2: ("containers", "[Container]"), 3: ("restartPolicy", "string"), 10: ("nodeName", "string")},
    "Container": {
        1: ("name", "string"),
        2: ("image", "string"),
        3: ("command", "[string]"),
        4: ("args", "[string]"),
        6: ("ports", "[ContainerPort]"),
    },
    "ContainerPort": {3: ("containerPort", "int"), 4: ("protocol", "string")},
    "SelfSubjectAccessReview": {1: ("metadata", "ObjectMeta"), 2: ("spec", "ReviewSpec"), 3: ("status", "-")},
    "ReviewSpec": {1: ("resourceAttributes", "ResourceAttributes"), 2: ("nonResourceAttributes", "PathAttributes")},
    "ResourceAttributes": {
        1: ("namespace", "string"),
        2: ("verb", "string"),
        3: ("group", "string"),
        4: ("version", "string"),
        5: ("resource", "string"),
        6: ("subresource", "string"),
        7: ("name", "string"),
    },
    "PathAttributes": {1: ("path", "string"), 2: ("verb", "string")},
    "Eviction": {1: ("metadata", "ObjectMeta"), 2: ("deleteOptions", "DeleteOptions")},
    "DeleteOptions": {
        1: ("gracePeriodSeconds", "int"),
        2: ("preconditions", "Preconditions"),
        3: ("orphanDependents", "bool"),
        4: ("propagationPolicy", "string"),
        5: ("dryRun", "[string]"),
    },
    "Preconditions": {1: ("uid", "string"), 2: ("resourceVersion", "string")},
}


def decode_object(body: bytes) -> dict[str, Json]:
    """The object in a protobuf request body, as its JSON would be.

    Raises:
        ApiError: 400 for what is no protobuf, 415 for a kind that is not in the table.
    """
    if not body.startswith(_MAGIC):
        raise bad_request("the body is not a Kubernetes protobuf message: it does not begin with k8s")
    envelope = _decode("Unknown", body[len(_MAGIC) :])
    said = envelope.get("typeMeta") or {}
    kind = said.get("kind", "")
    if kind not in _KINDS:
        raise _refused(f"kind {kind or 'unknown'}")
    return {"apiVersion": said.get("apiVersion", ""), "kind": kind, **_decode(kind, envelope.get("raw") or b"")}


def _decode(message: str, data: bytes) -> dict[str, Json]:
    fields = _MESSAGES[message]
    decoded: dict[str, Json] = {}
    for number, value in _wire(data):
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
            entry = dict(_wire(_bytes(value)))
            decoded.setdefault(name, {})[_text(entry.get(1, b""))] = _text(entry.get(2, b""))
        elif kind == "string":
            text = _text(value)
            if text:  # Go writes empty strings for what is not set.
                decoded[name] = text
        elif kind == "bytes":
            decoded[name] = value
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
        return all(_is_unset(below) for _, below in _wire(value))
    except ApiError:
        return False  # A text.


def _refused(what: str) -> ApiError:
    hint = "application/json (the embedded server reads protobuf of few kinds: use kubectl apply or create -f)"
    return unsupported_media_type(f"{PROTOBUF}, {what}", (hint, "application/yaml"))


def _bytes(value: bytes | int) -> bytes:
    if isinstance(value, int):
        raise bad_request("malformed protobuf: a number where a message was expected")
    return value


def _text(value: bytes | int) -> str:
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError:
        raise bad_request("malformed protobuf: text that is no UTF-8") from None


def _wire(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """The fields of a message: number and value, a number for varints, bytes for the length-delimited."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        wire_type = tag & 7
        if wire_type == 0:
            number, position = _varint(data, position)
            yield tag >> 3, number if number < 1 << 63 else number - (1 << 64)
        elif wire_type == 2:
            length, position = _varint(data, position)
            if position + length > len(data):
                raise bad_request("malformed protobuf: it ends in the middle of a field")
            yield tag >> 3, data[position : position + length]
            position += length
        elif wire_type in (1, 5):
            position += 8 if wire_type == 1 else 4
        else:
            raise bad_request(f"malformed protobuf: wire type {wire_type}")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, position
    raise bad_request("malformed protobuf: a number that does not end")
