"""A claim sent back as the API server has it, byte for byte, with a finalizer or other consumers.

A patch makes the API server write the whole object as JSON and read it again. Opaque parameters are stored as the text
in which their author sent them; a text with blanks between its tokens, or with `<`, `>` or `&`, comes out of that as
another one, and the server refuses: `spec` (or `status.allocation`) is immutable. Python's `json.dumps` writes such
texts, so every claim with parameters that was created with a Python client is one. Protobuf carries the text as it is,
and in between nothing needs to be understood but the fields that change.

Rules of this module
  1. Fields that are not changed are copied as bytes, known or not.

Source: protobuf wire format; k8s.io/api v0.36.3 resource/v1 and k8s.io/apimachinery v0.36.3 generated.proto (field
numbers); pkg/registry/resource/resourceclaim/strategy.go (what is immutable).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from scheduler.model.claim import Consumer

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"

_MAGIC: Final = b"k8s\x00"
# Field numbers
_ENVELOPE_RAW: Final = 2
_CLAIM_METADATA, _CLAIM_STATUS = 1, 3
_META_UID, _META_VERSION, _META_FINALIZERS = 5, 6, 14
_STATUS_RESERVED_FOR: Final = 2
_CONSUMER_GROUP, _CONSUMER_RESOURCE, _CONSUMER_NAME, _CONSUMER_UID = 1, 3, 4, 5

_BYTES: Final = 2  # wire type


class MalformedError(ValueError):
    """What the server sent is no claim in protobuf."""


class _Field(NamedTuple):
    """One field as it came: `raw` with its tag, `value` without; empty for numbers."""

    number: int
    raw: bytes
    value: bytes


class ExactClaim:
    """A ResourceClaim in protobuf, as a GET answered it.

    Raises:
        MalformedError: `body` is something else.
    """

    def __init__(self, body: bytes) -> None:
        if not body.startswith(_MAGIC):
            raise MalformedError(f"no Kubernetes protobuf: it begins with {body[:4]!r}")
        self._envelope = tuple(_fields(body[len(_MAGIC) :]))
        self._claim = tuple(_fields(_only(self._envelope, _ENVELOPE_RAW)))
        self._metadata = tuple(_fields(_only(self._claim, _CLAIM_METADATA)))

    @property
    def uid(self) -> str:
        return _only(self._metadata, _META_UID).decode()

    @property
    def resource_version(self) -> str:
        return _only(self._metadata, _META_VERSION).decode()

    def with_finalizers(self, finalizers: Sequence[str]) -> bytes:
        """The body of an update that sets `metadata.finalizers` and nothing else."""
        values = (name.encode() for name in finalizers)
        return self._with(_CLAIM_METADATA, _replaced(self._metadata, _META_FINALIZERS, values))

    def with_reserved_for(self, consumers: Iterable[Consumer]) -> bytes:
        """The body of an update that sets `status.reservedFor` and nothing else."""
        status = tuple(_fields(_only(self._claim, _CLAIM_STATUS)))
        return self._with(_CLAIM_STATUS, _replaced(status, _STATUS_RESERVED_FOR, map(_encode_consumer, consumers)))

    def _with(self, number: int, value: bytes) -> bytes:
        claim = _replaced(self._claim, number, (value,))
        return _MAGIC + _replaced(self._envelope, _ENVELOPE_RAW, (claim,))


def _encode_consumer(one: Consumer) -> bytes:
    texts = (
        (_CONSUMER_GROUP, one.api_group),
        (_CONSUMER_RESOURCE, one.resource),
        (_CONSUMER_NAME, one.name),
        (_CONSUMER_UID, one.uid),
    )
    return b"".join(_encode(number, (text or "").encode()) for number, text in texts)


def _only(fields: Sequence[_Field], number: int) -> bytes:
    values = [field.value for field in fields if field.number == number]
    if len(values) != 1:
        raise MalformedError(f"field {number} is there {len(values)} times")
    return values[0]


def _replaced(fields: Iterable[_Field], number: int, values: Iterable[bytes]) -> bytes:
    """The message with these values of one field; all others as they came."""
    kept = b"".join(field.raw for field in fields if field.number != number)
    return kept + b"".join(_encode(number, value) for value in values)


def _encode(number: int, value: bytes) -> bytes:
    return _encode_varint(number << 3 | _BYTES) + _encode_varint(len(value)) + value


def _encode_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _fields(message: bytes) -> Iterator[_Field]:
    position = 0
    while position < len(message):
        begin = position
        tag, position = _varint(message, position)
        value = b""
        match tag & 7:
            case 0:
                _, position = _varint(message, position)
            case 1:
                position += 8
            case 2:  # _BYTES
                length, position = _varint(message, position)
                value = message[position : position + length]
                position += length
            case 5:
                position += 4
            case wire_type:
                raise MalformedError(f"wire type {wire_type}")
        if position > len(message):
            raise MalformedError("it ends in the middle of a field")
        yield _Field(tag >> 3, message[begin:position], value)


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
