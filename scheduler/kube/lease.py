"""A coordination.k8s.io/v1 Lease in client-go's shape: its holder may write, all other processes wait.

The record and the rules are those of client-go's LeaderElector with a LeaseLock, so Go programs and this one exclude
each other. One PUT that is conditional on the revision takes or renews the lease. Somebody else's lease has run out
when its record has not *changed* for `leaseDurationSeconds`, by our clock and from when we saw it; the times written in
it do not matter. A holder that ends in order writes an empty holder, so that the next one need not wait.

Rules of this module
  1. `may_write` is true only while less than the renew deadline has passed since the last renewal that the server is
     known to have stored, counted from when that request was *sent*, by the clock on which most time has passed.
     The next holder counts a longer time from a later moment, so it begins after we have ended.
  2. A lost lease stays lost: the same process does not take it back. It is lost, too, when the object is gone or has
     another holder: somebody may have held it meanwhile.
  3. A renewal is never in doubt: a request without a known outcome renews nothing, and reading shows its effect.
  4. Each request has a third of the renew deadline, so a request that hangs does not cost the lease.

Not here: holding writes back without the lease (`api_requests`), the consequences of its loss (`scheduler.app`).

Cost, measured: 0.04 s of CPU a minute with a renewal each 2 s; 3 µs for `may_write`.

Source: k8s.io/client-go v0.36.3 tools/leaderelection (`tryAcquireOrRenew`, `release`) and resourcelock/leaselock.go.
Differs on purpose: a holder that reads another name knows at once that it has lost, not only at its deadline. A waiting
process looks again when the lease runs out and at least each half `retry_period_s`, so it counts from that much after
the last renewal at most; client-go waits up to 2.2 of them. After the deadline nothing is tried any more. See
docs/adr/0019-lease.md.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Final, Self

import orjson
from msgspec import Struct

from scheduler.kube.api_requests import ApiClient
from scheduler.kube.clock import Moment, encode_micro_time, most_elapsed_s, read_clocks
from scheduler.kube.outcomes import Accepted, Rejected, Unknown, WriteResult, text_of
from scheduler.kube.reporting import Reporter

log = logging.getLogger(__name__)

LEASE_API: Final = "/apis/coordination.k8s.io/v1"
REQUESTS_IN_DEADLINE: Final = 3
_HAIR_S: Final = 0.01  # timers may fire a hair early

_Object = dict[str, Any]


class LeaseLostError(Exception):
    """Another process may be scheduling by now; the text names the lost lease and the reason."""


class LeaseTimes(Struct, frozen=True):
    """client-go's three times, with the defaults of Kubernetes' own components.

    Attributes:
        duration_s: How long others wait after the last change that they saw; whole seconds, as the record has them.
        renew_deadline_s: How long the holder may write after its last renewal; less than `duration_s`.
        retry_period_s: Between two attempts; less than `renew_deadline_s` / 1.2.
    """

    duration_s: int = 15
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0

    @property
    def request_s(self) -> float:
        """What one request may take."""
        return self.renew_deadline_s / REQUESTS_IN_DEADLINE


class Lease:
    """One Lease object, and what we know of it.

    Args:
        identity: Names this process and no other, not even the same program started again.
        clocks: What `may_write` is measured with.
        jitter: 0..1, drawn before each wait for somebody else's lease.
    """

    def __init__(
        self,
        client: ApiClient,
        reporter: Reporter,
        *,
        namespace: str,
        name: str,
        identity: str,
        times: LeaseTimes,
        clocks: Callable[[], Moment] = read_clocks,
        wall_s: Callable[[], float] = time.time,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = f"{namespace}/{name}"
        self.failure: str | None = None  # why the last attempt failed; None when somebody else holds the lease
        self.slow_renewals = 0  # that could not be made in one request; as client-go counts them
        self.has_tried = asyncio.Event()  # to take it
        self._client = client
        self._reporter = reporter
        self._namespace = namespace
        self._object_name = name
        self._path = f"{LEASE_API}/namespaces/{namespace}/leases"
        self._identity = identity
        self._times = times
        self._clocks = clocks
        self._wall_s = wall_s
        self._jitter = jitter
        self._stored: _Object | None = None  # the object as the server last answered; what a PUT is based on
        self._record: _Object | None = None  # its spec when it last changed
        self.changes_seen = 0  # of that, the first reading included
        self._changed_s = 0.0  # when we saw that, by the loop's clock
        self._renewed_at: Moment | None = None  # when the last renewal that was stored was sent; None: never held
        self._lost: str | None = None

    @property
    def holder(self) -> str:
        """Who holds it as far as we have seen; empty when nobody does."""
        return _text(self._record or {}, "holderIdentity")

    @property
    def uid(self) -> str:
        """Of the object; empty before it was read."""
        return _text((self._stored or {}).get("metadata") or {}, "uid")

    @property
    def lost(self) -> str | None:
        """Why it was lost; None while it is held, or was never held."""
        self.may_write()
        return self._lost

    def may_write(self) -> bool:
        """Rule 1. Costs some microseconds: asked before each request."""
        if self._renewed_at is None or self._lost is not None:
            return False
        elapsed_s = most_elapsed_s(self._renewed_at, self._clocks())
        if elapsed_s < self._times.renew_deadline_s:
            return True
        self._lost = f"not renewed for {elapsed_s:.1f} s"
        if self.failure:
            self._lost += f" ({self.failure})"
        return False

    @property
    def is_waiting(self) -> bool:
        """Whether somebody else holds it, as far as we know, and we wait for our turn."""
        return self._renewed_at is None and self.failure is None

    def problem(self) -> str | None:
        """Why we do not hold it; None when we do."""
        if self.may_write():
            return None
        if self._lost is not None:
            return f"the lease {self.name} was lost: {self._lost}"
        if self.failure is not None:
            return f"waiting for the lease {self.name}: {self.failure}"
        return f"waiting for the lease {self.name}" + (f", held by {self.holder}" if self.holder else "")

    async def acquire(self, on_refused: Callable[[Lease], None] | None = None) -> None:
        """Wait until it is ours.

        Args:
            on_refused: Called after each attempt that failed, in place of the log.
        """
        said: str | None = None
        while not await self._hold():
            self.has_tried.set()
            if on_refused is not None:
                on_refused(self)
            elif (problem := self.problem()) != said:
                said = problem
                log.log(logging.WARNING if self.failure else logging.INFO, "%s", problem)
            await asyncio.sleep(self._wait_s())
        self.has_tried.set()
        if on_refused is None:
            log.info("holding the lease %s as %s", self.name, self._identity)

    async def keep(self) -> None:
        """Renew it for as long as it is ours; only to be called after `acquire`.

        Raises:
            LeaseLostError: Always, in the end.
        """
        assert self._renewed_at is not None
        while True:
            await asyncio.sleep(min(self._times.retry_period_s, self._left_s() + _HAIR_S))
            if not self.may_write():
                raise LeaseLostError(self.problem())
            try:
                async with asyncio.timeout(self._left_s()):
                    await self._hold()
            except TimeoutError:
                self.failure = self.failure or "no answer"
            if not self.may_write():
                raise LeaseLostError(self.problem())

    async def release(self) -> None:
        """Give it up, so that the next holder need not wait; nothing while we do not hold it."""
        if not self.may_write():
            return
        why: str | None = "no answer"
        try:
            async with asyncio.timeout(self._left_s()):
                why = await self._give_up()
        except TimeoutError:
            pass
        finally:
            self._lost = "released"
        if why is None:
            log.info("released the lease %s", self.name)
        else:
            log.warning("the lease %s could not be released: %s", self.name, why)

    async def _give_up(self) -> str | None:
        """Write an empty holder over our record; why that cannot be done, None when it was."""
        if not self._take(await self._send("get", "GET", f"{self._path}/{self._object_name}")):
            return self.failure
        if self.holder != self._identity:
            return f"held by {self.holder or 'nobody'}"
        if not self.may_write():
            return self._lost
        now = self._now()
        outcome = await self._put(_spec("", 1, now, now, _number(self._record or {}, "leaseTransitions")))
        return None if isinstance(outcome, Accepted) else text_of(outcome)

    # -- one attempt --

    async def _hold(self) -> bool:
        """Take or renew it, if that is possible; whether that was stored."""
        was_held = self._renewed_at is not None
        if was_held:
            if await self._write():
                return True
            self.slow_renewals += 1
        read = await self._send("get", "GET", f"{self._path}/{self._object_name}")
        is_missing = isinstance(read, Rejected) and read.code == HTTPStatus.NOT_FOUND
        if is_missing and not was_held:
            return await self._create()
        if not is_missing and not self._take(read):
            return False
        self.failure = None
        if self.holder == self._identity and not is_missing:
            return await self._write()
        if was_held:
            self._lost = self._lost or ("deleted" if is_missing else f"held by {self.holder or 'nobody'}")
            return False
        return await self._write() if not self.holder or self._expires_in_s() <= 0 else False

    async def _write(self) -> bool:
        """PUT our record over the one we have seen."""
        record = self._record or {}
        is_ours = self.holder == self._identity
        sent_at, now = self._clocks(), self._now()
        transitions = _number(record, "leaseTransitions") + (not is_ours)
        acquired = (_text(record, "acquireTime") if is_ours else "") or now
        outcome = await self._put(_spec(self._identity, self._times.duration_s, acquired, now, transitions))
        return self._note(outcome, sent_at)

    async def _create(self) -> bool:
        sent_at, now = self._clocks(), self._now()
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": self._namespace, "name": self._object_name},
            "spec": _spec(self._identity, self._times.duration_s, now, now, 0),
        }
        return self._note(await self._send("create", "POST", self._path, orjson.dumps(body)), sent_at)

    async def _put(self, spec: _Object) -> WriteResult:
        assert self._stored is not None, "only what was read can be written over"
        body = orjson.dumps({**self._stored, "spec": spec})
        return await self._send("update", "PUT", f"{self._path}/{self._object_name}", body)

    def _note(self, outcome: WriteResult, sent_at: Moment) -> bool:
        if not self._take(outcome):
            return False
        self.failure = None
        if self._lost is None:
            self._renewed_at = sent_at
        return True

    def _take(self, outcome: WriteResult) -> bool:
        """Remember the Lease in an answer; False when there was none."""
        if not isinstance(outcome, Accepted):
            self.failure = text_of(outcome)
            return False
        try:
            stored = orjson.loads(outcome.body)
            spec = stored.get("spec") or {}
            if not stored["metadata"]["resourceVersion"] or not isinstance(spec, dict):
                raise ValueError("no Lease")
        except (orjson.JSONDecodeError, ValueError, KeyError, TypeError, AttributeError):
            self.failure = f"the answer is no Lease: {outcome.body[:100]!r}"
            return False
        self._stored = stored
        if spec != self._record:
            self._record, self._changed_s = spec, asyncio.get_running_loop().time()
            self.changes_seen += 1
        return True

    async def _send(self, verb: str, method: str, path: str, body: bytes | None = None) -> WriteResult:
        subject = f"{verb} leases.coordination.k8s.io in namespace {self._namespace}"
        try:
            async with asyncio.timeout(self._times.request_s):
                outcome = await self._client.send(method, path, body)
        except TimeoutError:
            return Unknown(f"no answer within {self._times.request_s:.1f} s")
        if isinstance(outcome, Rejected) and outcome.is_configuration:
            self._reporter.refused(subject, outcome.message)
        elif isinstance(outcome, Accepted):
            self._reporter.granted(subject)
        return outcome

    # -- time --

    def _now(self) -> str:
        return encode_micro_time(int(self._wall_s() * 1000))

    def _expires_in_s(self) -> float:
        """Until the record has run out since we saw it change; by the loop's clock, on which least time passes."""
        duration_s = _number(self._record or {}, "leaseDurationSeconds")
        return self._changed_s + duration_s - asyncio.get_running_loop().time()

    def _wait_s(self) -> float:
        """Before the next attempt to take the lease."""
        wait_s = self._times.retry_period_s * (1 + self._jitter()) / 4
        return min(wait_s, max(self._expires_in_s(), 0.0) + _HAIR_S) if self.holder and self.failure is None else wait_s

    def _left_s(self) -> float:
        assert self._renewed_at is not None
        return max(0.0, self._times.renew_deadline_s - most_elapsed_s(self._renewed_at, self._clocks()))


class Election:
    """Holds one lease or several while it is open. An async context manager; leaving it releases them.

    Several leases are taken one after the other, in the order of their names, so two processes that need the same
    leases never wait for each other.

    Args:
        on_lost: Called once, from the event loop, when the leases were all held and one is lost.
        may_release: Whether all writes are settled, asked on leaving.
    """

    def __init__(
        self,
        leases: Sequence[Lease],
        *,
        on_lost: Callable[[LeaseLostError], None],
        may_release: Callable[[], bool] = lambda: True,
    ) -> None:
        self.leases = tuple(sorted(leases, key=lambda lease: lease.name))
        self._on_lost = on_lost
        self._may_release = may_release
        self._has_all = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="election")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._may_release():
            await asyncio.gather(*(lease.release() for lease in self.leases))
        elif held := [lease.name for lease in self.leases if lease.may_write()]:
            why = "what became of a write is not known"
            log.warning("not released, since %s: the lease %s", why, ", ".join(held))

    async def tried(self) -> bool:
        """Wait until it is clear whether all can be held at once; whether they are."""
        for lease in self.leases:
            await lease.has_tried.wait()
            if not lease.may_write():
                return False
        await self.acquired()
        return True

    async def acquired(self) -> None:
        """Wait until all are held."""
        await self._has_all.wait()

    def may_write(self) -> bool:
        """Whether all are held; see `Lease.may_write`."""
        return all(lease.may_write() for lease in self.leases)

    def has_lost(self) -> bool:
        """Whether one was held and is no longer."""
        return any(lease.lost is not None for lease in self.leases)

    def problems(self) -> list[str]:
        """Why we may not write, and not get there by waiting for our turn."""
        return [text for lease in self.leases if not lease.is_waiting and (text := lease.problem()) is not None]

    def waiting(self) -> list[str]:
        """Whose turn it is."""
        return [text for lease in self.leases if lease.is_waiting and (text := lease.problem()) is not None]

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as keeping:
                for lease in self.leases:
                    await lease.acquire()
                    keeping.create_task(lease.keep(), name=f"lease-{lease.name}")
                self._has_all.set()
        except* LeaseLostError as group:
            error = group.exceptions[0]
            assert isinstance(error, LeaseLostError), "each task raises it by itself"
            self._on_lost(error)
        except* Exception as group:
            log.exception("the election failed; this is a defect of the scheduler", exc_info=group)
            self._on_lost(LeaseLostError(f"the election failed: {group.exceptions[0]!r}"))


def _spec(holder: str, duration_s: int, acquired: str, renewed: str, transitions: int) -> _Object:
    """LeaseSpec as client-go's LeaderElectionRecordToLeaseSpec writes it."""
    return {
        "holderIdentity": holder,
        "leaseDurationSeconds": duration_s,
        "acquireTime": acquired,
        "renewTime": renewed,
        "leaseTransitions": transitions,
    }


def _text(record: _Object, field: str) -> str:
    value = record.get(field)
    return value if isinstance(value, str) else ""


def _number(record: _Object, field: str) -> int:
    value = record.get(field)
    return value if isinstance(value, int) else 0
