"""A claim sent back as the API server has it, byte for byte, with a finalizer or other consumers.

A patch makes the API server write the whole object as JSON and read it again. Opaque parameters are stored as the text
that their author sent. A text with blanks between its tokens, or with `<`, `>` or `&`, is changed on that way, and the
server refuses the patch: `spec` (or `status.allocation`) is immutable. Python's `json.dumps` writes such texts, so this
concerns every claim with parameters that a Python client created. Protobuf carries the text unchanged, and only the
fields that we set must be understood.

Rules of this module
  1. All other fields are copied as bytes, also unknown fields.

Not here: the wire format (`model.protobuf_wire`).

Source: k8s.io/api v0.36.3 resource/v1 and k8s.io/apimachinery v0.36.3 generated.proto (field
numbers); pkg/registry/resource/resourceclaim/strategy.go (what is immutable).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from scheduler.model.claim import Consumer
from scheduler.model.protobuf_wire import (
    ENVELOPE_RAW,
    MAGIC,
    MalformedError,
    WireField,
    encode_field,
    fields_of,
    fields_of_envelope,
)

# Field numbers
_CLAIM_METADATA, _CLAIM_STATUS = 1, 3
_META_UID, _META_VERSION, _META_FINALIZERS = 5, 6, 14
_STATUS_RESERVED_FOR: Final = 2
_CONSUMER_GROUP, _CONSUMER_RESOURCE, _CONSUMER_NAME, _CONSUMER_UID = 1, 3, 4, 5


class ExactClaim:
    """A ResourceClaim in protobuf, as a GET answered it.

    Raises:
        MalformedError: `body` is something else.
    """

    def __init__(self, body: bytes) -> None:
        self._envelope = tuple(fields_of_envelope(body))
        self._claim = tuple(fields_of(_only(self._envelope, ENVELOPE_RAW)))
        self._metadata = tuple(fields_of(_only(self._claim, _CLAIM_METADATA)))

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
        status = tuple(fields_of(_only(self._claim, _CLAIM_STATUS)))
        return self._with(_CLAIM_STATUS, _replaced(status, _STATUS_RESERVED_FOR, map(_encode_consumer, consumers)))

    def _with(self, number: int, value: bytes) -> bytes:
        claim = _replaced(self._claim, number, (value,))
        return MAGIC + _replaced(self._envelope, ENVELOPE_RAW, (claim,))


def _encode_consumer(one: Consumer) -> bytes:
    texts = (
        (_CONSUMER_GROUP, one.api_group),
        (_CONSUMER_RESOURCE, one.resource),
        (_CONSUMER_NAME, one.name),
        (_CONSUMER_UID, one.uid),
    )
    return b"".join(encode_field(number, (text or "").encode()) for number, text in texts)


def _only(fields: Sequence[WireField], number: int) -> bytes:
    values = [field.value for field in fields if field.number == number and isinstance(field.value, bytes)]
    if len(values) != 1:
        raise MalformedError(f"field {number} is there {len(values)} times")
    return values[0]


def _replaced(fields: Iterable[WireField], number: int, values: Iterable[bytes]) -> bytes:
    """The message with these values of one field; all others as they came."""
    kept = b"".join(field.raw for field in fields if field.number != number)
    return kept + b"".join(encode_field(number, value) for value in values)
