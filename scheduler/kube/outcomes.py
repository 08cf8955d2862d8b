"""A name for every way in which a request can end, and what a reply means.

Not here: sending (`api_requests`); nothing in here needs a connection, so commands about files load no HTTP.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, TypeAlias

import msgspec

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
JSON: Final = "application/json"

_MESSAGE_CHARS_MAX: Final = 500
_UNANSWERED_WEBHOOK: Final = 'Internal error occurred: failed calling webhook "'


class Accepted(msgspec.Struct, frozen=True):
    """2xx: executed."""

    code: int
    body: bytes


class Conflicted(msgspec.Struct, frozen=True):
    """409: nothing was changed, the object is not what the request supposed."""

    message: str


class Rejected(msgspec.Struct, frozen=True):
    """Nothing was changed. `code` is the HTTP status, 0 when no connection could be made."""

    code: int
    reason: str
    message: str
    is_configuration: bool = False
    is_retriable: bool = False


class Unknown(msgspec.Struct, frozen=True):
    """The request may have been executed, or may still be."""

    message: str


WriteResult: TypeAlias = Accepted | Conflicted | Rejected | Unknown


def text_of(outcome: WriteResult) -> str:
    """What became of a request, for people."""
    match outcome:
        case Rejected():
            return f"{outcome.message} (HTTP {outcome.code})" if outcome.code else outcome.message
        case Conflicted() | Unknown():
            return outcome.message
        case Accepted():
            return f"HTTP {outcome.code}"


class UndecodableError(ValueError):
    """A reply is not what it should be; the text names kind, field and reason."""


class _StatusDetails(msgspec.Struct, rename="camel"):
    retry_after_seconds: int | None = None


class StatusReply(msgspec.Struct, rename="camel"):
    """metav1.Status, as far as it is read."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: _StatusDetails | None = None

    @property
    def retry_after_s(self) -> float | None:
        return float(self.details.retry_after_seconds) if self.details and self.details.retry_after_seconds else None


_status_decoder = msgspec.json.Decoder(StatusReply)


def decode_status(body: bytes) -> StatusReply:
    """The Status in `body`; for anything else (a proxy's page) a Status with the text as its message."""
    try:
        return _status_decoder.decode(body)
    except msgspec.DecodeError:
        return StatusReply(message=body[:_MESSAGE_CHARS_MAX].decode("utf-8", "replace").strip())


def classify(code: int, body: bytes, *, is_deletion: bool = False) -> WriteResult:
    """What a complete reply means for the write that it answers."""
    if 200 <= code < 300:
        return Accepted(code, body)
    status = decode_status(body)
    message = status.message[:_MESSAGE_CHARS_MAX] or f"HTTP {code}"
    if not is_deletion and (stopped := _stopped_by_webhook(code, status.reason, message)) is not None:
        return stopped
    if code == HTTPStatus.CONFLICT:
        return Conflicted(message)
    if code >= 500 or code == HTTPStatus.REQUEST_TIMEOUT:
        # The server, or something before it, gave up somewhere on the way: etcd may have stored it.
        return Unknown(f"HTTP {code}: {message}")
    return Rejected(
        code=code,
        reason=status.reason or _phrase(code),
        message=message,
        is_configuration=_lacks_permission(code, message),
        # 401: the credentials may be renewed by the next attempt; 429: the server asks to come again.
        is_retriable=code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS},
    )


def _stopped_by_webhook(code: int, reason: str, message: str) -> Rejected | None:
    """A refusal by admission webhooks, or for want of their answer: certain, whatever the code.

    Webhooks are asked before an object is stored, and again only after a conflict
    (pkg/registry/generic/registry/store.go, Create and Update; pkg/registry/core/pod/storage, BindingREST.Create). Only
    they begin a message like this (pkg/admission/plugin/webhook). The code of a denial is the webhook's own choice: it
    could be 404 or 429. A deletion asks them a second time, perhaps after its timestamp was stored: it is not certain.
    """
    if message.startswith('admission webhook "') and '" denied the request' in message:
        return Rejected(HTTPStatus.FORBIDDEN, reason or "Forbidden", message)
    if code == HTTPStatus.INTERNAL_SERVER_ERROR and message.startswith(_UNANSWERED_WEBHOOK):
        return Rejected(code, reason, message)
    return None


def _lacks_permission(code: int, message: str) -> bool:
    """Whether RBAC said no, as opposed to an admission plugin or a namespace that is going away.

    Kubernetes 1.36 refuses changes of a claim's allocation without `resourceclaims/binding` as 422, not 403:
    "status.allocation: Forbidden: changing status.allocation or status.reservedFor requires
    resource="resourceclaims/binding", verb="patch" permission" (pkg/registry/resource/utils.go).
    """
    if code == HTTPStatus.FORBIDDEN:
        return "cannot " in message and ("User " in message or "user " in message)
    return code == HTTPStatus.UNPROCESSABLE_ENTITY and "requires resource=" in message and "permission" in message


def _phrase(code: int) -> str:
    try:
        return HTTPStatus(code).phrase.replace(" ", "")
    except ValueError:
        return "Unknown"


def retry_after_s(header: str | None, status: StatusReply) -> float:
    """Seconds to wait before the next attempt: the Retry-After header's, the Status', or one."""
    return float(header) if header is not None and header.isdecimal() else status.retry_after_s or 1.0
