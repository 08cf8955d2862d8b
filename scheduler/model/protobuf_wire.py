"""Protobuf as Kubernetes sends it: the fields of a message, as they came.

Not here: what the fields mean (`kube.exact_claims`, `embedded.server.protobuf`).

Source: protobuf wire format; k8s.io/apimachinery v0.36.3 pkg/runtime/serializer/protobuf (the envelope).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
MAGIC: Final = b"k8s\x00"
ENVELOPE_TYPE, ENVELOPE_RAW = 1, 2  # field numbers of runtime.Unknown
LENGTH_DELIMITED: Final = 2  # wire type


class MalformedError(ValueError):
    """It is no protobuf of Kubernetes."""


class WireField(NamedTuple):
    """One field: `raw` with its tag, `value` without; a number for varints, empty for numbers of fixed length."""

    number: int
    raw: bytes
    value: bytes | int


def fields_of_envelope(body: bytes) -> Iterator[WireField]:
    """The fields of the outermost message. Raises MalformedError."""
    if not body.startswith(MAGIC):
        raise MalformedError(f"no Kubernetes protobuf: it begins with {body[:4]!r}")
    return fields_of(body[len(MAGIC) :])


def fields_of(message: bytes) -> Iterator[WireField]:
    """The fields in their order. Raises MalformedError."""
    position = 0
    while position < len(message):
        begin = position
        tag, position = _varint(message, position)
        value: bytes | int = b""
        match tag & 7:
            case 0:
                unsigned, position = _varint(message, position)
                value = unsigned if unsigned < 1 << 63 else unsigned - (1 << 64)
            case 1:
                position += 8
            case 2:  # LENGTH_DELIMITED
                length, position = _varint(message, position)
                value = message[position : position + length]
                position += length
            case 5:
                position += 4
            case wire_type:
                raise MalformedError(f"wire type {wire_type}")
        if position > len(message):
            raise MalformedError("it ends in the middle of a field")
        yield WireField(tag >> 3, message[begin:position], value)


def encode_field(number: int, value: bytes) -> bytes:
    """A text, bytes or message."""
    return _encode_varint(number << 3 | LENGTH_DELIMITED) + _encode_varint(len(value)) + value


def _encode_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(message):
            break
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise MalformedError("it ends in the middle of a number")
