"""Kubernetes `Status` bodies: every refusal of the embedded API server, in the words a real one uses.

Rules of this module
  1. A handler refuses by raising `ApiError`; nothing else leaves the server as an error body.
  2. Code, reason and message text equal those of kube-apiserver, because clients match on them
     (`reason: Conflict`, "the object has been modified", "Too large resource version").

Not here: what is refused (`rest`, the strategies).

Source: k8s.io/apimachinery v0.36.3 pkg/api/errors/errors.go, pkg/util/validation/field/errors.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler.validation.field_errors import FieldError, Json

OPTIMISTIC_LOCK: Final = "the object has been modified; please apply your changes to the latest version and try again"


class ApiError(Exception):
    """A request that is answered with a `Status` of status Failure.

    Attributes:
        code: HTTP status code, 400..599.
        reason: Machine-readable reason, for example `Conflict`; empty for none.
        details: The `details` member of the Status, or None.
        headers: Extra response headers, for example `Retry-After`.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Json] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers or {}

    def status(self) -> dict[str, Json]:
        """The Status object that is sent as the body."""
        body: dict[str, Json] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


def qualified(group: str, name: str) -> str:
    """`name` or `name.group`, as Go's GroupResource and GroupKind print it."""
    return f"{name}.{group}" if group else name


def _details(group: str, resource: str, name: str) -> dict[str, Json]:
    details: dict[str, Json] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if resource:
        details["kind"] = resource
    return details


def not_found(group: str, resource: str, name: str) -> ApiError:
    """404: no object of that name."""
    text = f'{qualified(group, resource)} "{name}" not found'
    return ApiError(404, "NotFound", text, _details(group, resource, name))


def no_such_path() -> ApiError:
    """404: no such resource type or path."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(group: str, resource: str, name: str) -> ApiError:
    """409: an object of that name exists."""
    text = f'{qualified(group, resource)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", text, _details(group, resource, name))


def conflict(group: str, resource: str, name: str, why: str = OPTIMISTIC_LOCK) -> ApiError:
    """409: a precondition (resourceVersion, uid, not yet bound) does not hold."""
    text = f'Operation cannot be fulfilled on {qualified(group, resource)} "{name}": {why}'
    return ApiError(409, "Conflict", text, _details(group, resource, name))


def bad_request(text: str) -> ApiError:
    """400: the request cannot be read."""
    return ApiError(400, "BadRequest", text)


def forbidden_request(group: str, resource: str, name: str, why: str) -> ApiError:
    """403: the caller may not do this."""
    what = qualified(group, resource)
    text = f'{what} "{name}" is forbidden: {why}' if name else f"{what} is forbidden: {why}"
    return ApiError(403, "Forbidden", text, _details(group, resource, name))


def method_not_allowed(group: str, resource: str, action: str) -> ApiError:
    """405: the resource does not know this verb."""
    text = f'{action} is not supported on resources of kind "{qualified(group, resource)}"'
    return ApiError(405, "MethodNotAllowed", text, _details(group, resource, ""))


def unsupported_media_type(got: str, supported: Sequence[str]) -> ApiError:
    """415: the body's content type is not understood."""
    accepted = ", ".join(supported)
    text = f"the body of the request was in an unknown format ({got}) - accepted media types include: {accepted}"
    return ApiError(415, "UnsupportedMediaType", text)


def expired(text: str) -> ApiError:
    """410: the resource version is older than what is kept."""
    return ApiError(410, "Expired", text)


def too_large_resource_version(asked: int, current: int) -> ApiError:
    """504: the client asks for a state that this server has not reached."""
    details: dict[str, Json] = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    text = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiError(504, "Timeout", text, details, {"Retry-After": "1"})


def invalid_object(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> ApiError:
    """422: the object breaks validation; `errors` has at least one entry."""
    details = _details(group, kind, name)
    details["causes"] = [{"reason": e.reason, "message": e.body, "field": e.field} for e in errors]
    texts = list(dict.fromkeys(str(e) for e in errors))
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return ApiError(422, "Invalid", f'{qualified(group, kind)} "{name}" is invalid: {listed}', details)
