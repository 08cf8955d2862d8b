"""Who may read /metrics and /configz: the API server is asked who sent a token, and what they may read.

Delegated authentication (TokenReview) and authorization (SubjectAccessReview of a non-resource URL), as kube-scheduler
does: rights are given by RBAC, `nonResourceURLs: [/metrics]`, `verbs: [get]`.

Rules of this module
  1. Nobody reads without an answer that allows it: no token, no answer and an answer that cannot be read all refuse.
  2. An answer is remembered for 10 s, as upstream; of a failure to get one nothing is remembered. What is remembered is
     bounded, and holds a token's digest, never the token.
  3. Whoever asks: there are at most `at_once` reviews under way, each takes its place for `place_s` at least, and one
     address has one of them. Others wait, and hold a connection meanwhile, which are limited too (`connection_limits`).
  4. A token is in no log, no error and no answer, whatever the API server or a proxy before it sends back.

Source: k8s.io/apiserver v0.36.3 pkg/authentication/request/bearertoken, pkg/server/options/authentication.go and
authorization.go (10 s each), pkg/endpoints/filters/authentication.go and authorization.go,
pkg/endpoints/handlers/responsewriters/errors.go.
Differs: who sends no token is refused (401) without asking what `system:anonymous` may do; client certificates are not
read; there is one attempt, no back-off: the client asks again.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar
from weakref import WeakValueDictionary

import msgspec
import orjson

from scheduler.kube.api_requests import ApiClient
from scheduler.kube.outcomes import Accepted, WriteResult, text_of

log = logging.getLogger(__name__)

_T = TypeVar("_T")

TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - no password
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
JSON: Final = "application/json"


class ReviewLimits(msgspec.Struct, frozen=True):
    """Counts and seconds."""

    token_bytes_max: int = 8000
    remembered_max: int = 256
    remembered_s: float = 10.0
    at_once: int = 4
    place_s: float = 0.1


DEFAULT_LIMITS: Final = ReviewLimits()


class User(msgspec.Struct, frozen=True):
    """authentication.k8s.io/v1 UserInfo."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: User = User()


class _TokenReview(msgspec.Struct):
    status: _TokenStatus


class _AccessStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False
    reason: str = ""


class _AccessReview(msgspec.Struct):
    status: _AccessStatus


class Refusal(msgspec.Struct, frozen=True):
    """The answer for somebody who may not read."""

    code: int
    body: bytes
    content_type: str = JSON


class _UnansweredError(Exception):
    """The API server did not answer; the text has no token in it."""


@dataclass(slots=True)
class _Remembered:
    """Answers by key, each until its time; the oldest makes room."""

    max_count: int
    seconds: float
    _answers: OrderedDict[bytes, tuple[float, object]] = field(default_factory=OrderedDict)

    def get(self, key: bytes, kind: type[_T], now_s: float) -> _T | None:
        found = self._answers.get(key)
        if found is None or now_s >= found[0]:
            return None
        assert isinstance(found[1], kind)
        return found[1]

    def put(self, key: bytes, answer: object, now_s: float) -> None:
        self._answers.pop(key, None)
        self._answers[key] = now_s + self.seconds, answer
        while len(self._answers) > self.max_count:
            self._answers.popitem(last=False)


class Readers:
    """Asks two API servers, which are one in nearly every cluster; for one event loop."""

    def __init__(
        self,
        authentication: ApiClient,
        authorization: ApiClient,
        *,
        limits: ReviewLimits = DEFAULT_LIMITS,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._authentication = authentication
        self._authorization = authorization
        self._limits = limits
        self._now_s = clock or asyncio.get_running_loop().time
        self._users = _Remembered(limits.remembered_max, limits.remembered_s)
        self._accesses = _Remembered(limits.remembered_max, limits.remembered_s)
        self._places = asyncio.Semaphore(limits.at_once)
        self._addresses: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # of those that ask now
        self._complaint = ""

    async def refusal(self, authorization: str | None, verb: str, path: str, address: str) -> Refusal | None:
        """None: this request may be answered.

        Args:
            authorization: The header's value.
            address: Of the client; many addresses do not wait for one.
        """
        token = _bearer_token(authorization)
        if token is None or len(token) > self._limits.token_bytes_max:
            return UNAUTHORIZED
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        key = hashlib.sha256(digest + f"{verb} {path}".encode("utf-8", "surrogateescape")).digest()
        known = self._known(digest, key)
        if known is not None:
            return _refusal(*known, verb, path)
        async with self._turn_of(address):
            # Somebody with the same token may have asked while we waited.
            if (known := self._known(digest, key)) is not None:
                return _refusal(*known, verb, path)
            try:
                status = self._users.get(digest, _TokenStatus, self._now_s()) or await self._who(token, digest)
            except _UnansweredError as error:
                self._complain(f"cannot find out who sent a token: {error}")
                return UNAUTHORIZED
            if not status.authenticated:
                return UNAUTHORIZED
            try:
                access = await self._may(status.user, verb, path, key, token)
            except _UnansweredError as error:
                self._complain(f"cannot find out who may read {path}: {error}")
                text = f'Internal Server Error: "{path}": {error}\n'
                return Refusal(500, text.encode(), "text/plain; charset=utf-8")
            self._complaint = ""
        return _refusal(status, access, verb, path)

    def _known(self, digest: bytes, key: bytes) -> tuple[_TokenStatus, _AccessStatus | None] | None:
        now_s = self._now_s()
        status = self._users.get(digest, _TokenStatus, now_s)
        if status is None:
            return None
        if not status.authenticated:
            return status, None
        access = self._accesses.get(key, _AccessStatus, now_s)
        return None if access is None else (status, access)

    @asynccontextmanager
    async def _turn_of(self, address: str) -> AsyncIterator[None]:
        """One place, when this address has no other (rule 3)."""
        async with self._addresses.setdefault(address, asyncio.Lock()):
            await self._places.acquire()
            loop = asyncio.get_running_loop()
            until_s = loop.time() + self._limits.place_s
            try:
                yield
            finally:
                loop.call_at(until_s, self._places.release)

    async def _who(self, token: str, digest: bytes) -> _TokenStatus:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        outcome = await self._authentication.send("POST", TOKEN_REVIEWS, _json(review))
        status = _decoded(outcome, _TokenReview, token).status
        self._users.put(digest, status, self._now_s())
        return status

    async def _may(self, user: User, verb: str, path: str, key: bytes, token: str) -> _AccessStatus:
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        outcome = await self._authorization.send("POST", ACCESS_REVIEWS, _json(review))
        status = _decoded(outcome, _AccessReview, token).status
        self._accesses.put(key, status, self._now_s())
        return status

    def _complain(self, text: str) -> None:
        if text != self._complaint:
            self._complaint = text
            log.warning("%s", text)


def _bearer_token(authorization: str | None) -> str | None:
    """As upstream reads it: "Bearer", in any case, one space, and what comes up to the next."""
    parts = (authorization or "").strip().split(" ", 2)
    if len(parts) < 2 or parts[0].lower() != "bearer" or not parts[1]:
        return None
    return parts[1]


def _json(review: object) -> bytes:
    try:
        return orjson.dumps(review)
    except orjson.JSONEncodeError as error:  # a header may hold bytes that are no text
        raise _UnansweredError("it is no text") from error


ReviewT = TypeVar("ReviewT", _TokenReview, _AccessReview)


def _decoded(outcome: WriteResult, kind: type[ReviewT], token: str) -> ReviewT:
    if not isinstance(outcome, Accepted):
        # Something between us and the API server may send back what it was sent.
        raise _UnansweredError(text_of(outcome).replace(token, "(token)"))
    try:
        return msgspec.json.decode(outcome.body, type=kind)
    except msgspec.DecodeError as error:
        raise _UnansweredError("the answer is no review") from error


def _status(code: int, reason: str, message: str, **details: object) -> bytes:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    return orjson.dumps({**status, "reason": reason, **details, "code": code}) + b"\n"


UNAUTHORIZED: Final = Refusal(401, _status(401, "Unauthorized", "Unauthorized"))


def _refusal(status: _TokenStatus, access: _AccessStatus | None, verb: str, path: str) -> Refusal | None:
    if access is None:
        return UNAUTHORIZED
    if access.allowed and not access.denied:
        return None
    # Go's %q; a user's name is printable in nearly every cluster.
    name = orjson.dumps(status.user.username).decode()
    why = f": {access.reason}" if access.reason else ""
    message = f'User {name} cannot {verb} path "{path}"'
    for character, written in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        message = message.replace(character, written)
    message = f"forbidden: {message}{why}"
    return Refusal(403, _status(403, "Forbidden", message, details={}))
