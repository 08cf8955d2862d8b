"""Faults on purpose: make chosen requests fail, hang, or lose their answer.

A test plans a fault; the next request that matches consumes it. Nothing is random here.

    cluster.faults.conflict(method="PATCH", path="/resourceclaims/", times=1)
    cluster.faults.drop_reply(method="POST", path="/binding")      # applied, but nobody is told
    cluster.faults.drop_request(path="/binding", land_after_s=0.2) # lost now, applied later all the same

Rules of this module
  1. A planned fault that was not consumed is listed by `pending`, so a test can see that it hit nothing.
"""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

from scheduler.embedded.server.statuses import OPTIMISTIC_LOCK, ApiError


class Effect(Enum):
    """What happens to a matching request."""

    REFUSE = "refuse"
    DROP_REQUEST = "drop request"
    DROP_REPLY = "drop reply"
    DELAY = "delay"


@dataclass(slots=True)
class Fault:
    """One planned fault.

    Attributes:
        times: How many more requests it hits; it is forgotten at 0.
        hits: How many it has hit.
    """

    effect: Effect
    method: str
    path: re.Pattern[str]
    times: int
    error: ApiError | None = None
    delay_s: float = 0.0
    land_after_s: float | None = None
    hits: int = 0
    hit: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by the first hit, so that a test can wait for it."""

    def matches(self, method: str, path: str) -> bool:
        """Whether this fault is for such a request."""
        return (not self.method or self.method == method) and self.path.search(path) is not None


@dataclass(frozen=True, slots=True)
class Denial:
    """A permission that is refused, as RBAC would."""

    verb: str
    group: str
    resource: str
    sub_resource: str


class Faults:
    """The faults planned for one server. `path` is a regular expression searched in path and query."""

    def __init__(self) -> None:
        self._planned: list[Fault] = []
        self._denials: set[Denial] = set()

    @property
    def pending(self) -> tuple[Fault, ...]:
        """Faults that can still hit."""
        return tuple(self._planned)

    def clear(self) -> None:
        """Forget all faults and denials."""
        self._planned.clear()
        self._denials.clear()

    def fail(
        self,
        status: int = 500,
        *,
        reason: str = "InternalError",
        message: str = "injected fault",
        method: str = "",
        path: str = "",
        times: int = 1,
        retry_after_s: int | None = None,
    ) -> Fault:
        """Refuse requests with a Status, without applying them."""
        headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
        details = {} if retry_after_s is None else {"retryAfterSeconds": retry_after_s}
        error = ApiError(status, reason, message, details or None, headers)
        return self._plan(Effect.REFUSE, method, path, times, error=error)

    def conflict(self, *, method: str = "", path: str = "", times: int = 1) -> Fault:
        """Refuse writes with 409 Conflict, as if someone else had written in between."""
        text = f"Operation cannot be fulfilled: {OPTIMISTIC_LOCK}"
        return self.fail(409, reason="Conflict", message=text, method=method, path=path, times=times)

    def throttle(self, retry_after_s: int = 1, *, method: str = "", path: str = "", times: int = 1) -> Fault:
        """Refuse requests with 429 and Retry-After."""
        return self.fail(
            429,
            reason="TooManyRequests",
            message="the server has received too many requests and has asked us to try again later",
            method=method,
            path=path,
            times=times,
            retry_after_s=retry_after_s,
        )

    def drop_request(
        self, *, method: str = "", path: str = "", times: int = 1, land_after_s: float | None = None
    ) -> Fault:
        """Close the connection without applying the request, or applying it only `land_after_s` later."""
        return self._plan(Effect.DROP_REQUEST, method, path, times, land_after_s=land_after_s)

    def drop_reply(self, *, method: str = "", path: str = "", times: int = 1) -> Fault:
        """Apply the request, then close the connection without an answer."""
        return self._plan(Effect.DROP_REPLY, method, path, times)

    def delay(self, seconds: float, *, method: str = "", path: str = "", times: int = 1) -> Fault:
        """Wait before the request is applied."""
        return self._plan(Effect.DELAY, method, path, times, delay_s=seconds)

    def deny(self, verb: str, resource: str, *, group: str = "", sub_resource: str = "") -> Denial:
        """Refuse a permission: SelfSubjectAccessReview says no, and requests that need it fail.

        For `resourceclaims/binding` (verb patch or update) the refusal is the 422 of Kubernetes 1.36.
        """
        denial = Denial(verb, group, resource, sub_resource)
        self._denials.add(denial)
        return denial

    def allow(self, denial: Denial) -> None:
        """Take a denial back."""
        self._denials.discard(denial)

    def is_denied(self, verb: str, group: str, resource: str, sub_resource: str) -> bool:
        """Whether a permission is refused; `*` as a denied verb means every verb."""
        return bool(self._denials) and any(
            Denial(denied, group, resource, sub_resource) in self._denials for denied in (verb, "*")
        )

    @contextmanager
    def planned(self, fault: Fault) -> Iterator[Fault]:
        """Take the fault back at the end of a block, whether it hit or not."""
        try:
            yield fault
        finally:
            if fault in self._planned:
                self._planned.remove(fault)

    def take(self, method: str, path: str) -> Fault | None:
        """The fault that hits a request now; consumes it."""
        for fault in self._planned:
            if fault.matches(method, path):
                fault.hits += 1
                fault.times -= 1
                fault.hit.set()
                if fault.times <= 0:
                    self._planned.remove(fault)
                return fault
        return None

    def _plan(
        self,
        effect: Effect,
        method: str,
        path: str,
        times: int,
        *,
        error: ApiError | None = None,
        delay_s: float = 0.0,
        land_after_s: float | None = None,
    ) -> Fault:
        if times < 1:
            raise ValueError(f"times must be at least 1, not {times}")
        fault = Fault(effect, method, re.compile(path), times, error, delay_s, land_after_s)
        self._planned.append(fault)
        return fault
