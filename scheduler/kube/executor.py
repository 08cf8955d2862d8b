"""The sender: decisions go to the API server, the answers come back as inputs.

Rules of this module
  1. Every decision with an id is answered by exactly one input, also when the program stops.
  2. Decisions about one object are executed in the order given, one at a time. Decisions about different objects
     overlap, `in_flight_max` at once, shared fairly (`fair_lanes`) by the pods of each namespace and the claims of each
     namespace: when writes to claims hang, the pods' conditions that say so are still written. A sharer without a
     request under way may always send one.
  3. Nothing is decided here: no retry of a write, no look at the machine's state.

Not here: the request of a decision, and the answer that a reply is (`decision_requests`); how events are counted
(`event_records`).

Cost, measured with `python -m tests.kube.measure write`: 0.10 ms of CPU a binding, 0.11 ms a claim write without TLS.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, TypeAlias

from scheduler.core.ground.fair_places import FairPlaces
from scheduler.core.ground.inputs import Input, WriteAccepted, WriteOutcomeUnknown
from scheduler.framework.decisions import (
    AddClaimFinalizer,
    Answered,
    BindPod,
    Decision,
    ObjectOf,
    PatchPodStatus,
    ReadClaim,
    ReadPod,
    RecordEvent,
    WriteClaimStatus,
    object_of,
)
from scheduler.kube.api_requests import ApiClient
from scheduler.kube.clock import Clock
from scheduler.kube.codec import Codec
from scheduler.kube.decision_requests import (
    Request,
    RequestAnswer,
    answer_of,
    encode_decision,
    object_path,
)
from scheduler.kube.event_records import EventRequest, EventSeries
from scheduler.kube.exact_claims import ExactClaim
from scheduler.kube.fair_lanes import FairLanes
from scheduler.kube.feature_gates import dropped_fields
from scheduler.kube.outcomes import Accepted, Conflicted, Rejected, UndecodableError, Unknown, WriteResult
from scheduler.kube.reporting import Reporter
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import PodUid
from scheduler.model.protobuf_wire import PROTOBUF, MalformedError

log = logging.getLogger(__name__)

_EVENT_SLOTS: Final = 5  # of which one namespace has four at most
_EVENT_WRITERS: Final = 20
_TRANSITIONS_MAX: Final = 10_000
_MORE_WRITERS: Final = 4  # times `in_flight_max`: the end of what namespaces that have none under way may add


@dataclass(slots=True)
class WriteStats:
    """Requests under way, and decisions not sent yet, for metrics. Durations are given to `on_write`."""

    in_flight: int = 0
    waiting: int = 0


_LaneKey: TypeAlias = "tuple[type[ObjectOf], ObjectOf]"
"""With the type: keys of equal texts are equal."""


class _Lane:
    """The decisions about one object that are not answered yet, in order."""

    __slots__ = ("decisions", "key", "sharer")

    def __init__(self, key: _LaneKey, decision: Answered) -> None:
        self.key = key
        kind, name = key
        self.sharer = f"{kind.__name__} {name.namespace}"  # whose slots it takes
        self.decisions: deque[Answered] = deque((decision,))


class Executor:
    """A bounded pool of writers. `async with` starts them; leaving waits for what is in flight, then stops them.

    Args:
        deliver: Takes each answer; synchronous, must not raise.
        on_write: Called with the decision's class name, the outcome's class name and the duration in seconds.
        drain_s: How long leaving waits for writes in flight.

    Attributes:
        is_drained: Whether all requests were answered when the context was left.
    """

    def __init__(
        self,
        client: ApiClient,
        codec: Codec,
        clock: Clock,
        deliver: Callable[[Input], None],
        reporter: Reporter,
        *,
        events: EventSeries,
        in_flight_max: int = 48,
        on_write: Callable[[str, str, float], None] = lambda *_: None,
        drain_s: float = 5.0,
    ) -> None:
        self.stats = WriteStats()
        self._client = client
        self._codec = codec
        self._clock = clock
        self._deliver = deliver
        self._reporter = reporter
        self._events = events
        self._on_write = on_write
        self._drain_s = drain_s
        self._lanes: dict[_LaneKey, _Lane] = {}
        self._writers_count = _MORE_WRITERS * in_flight_max
        self._ready: FairLanes[_Lane] = FairLanes(in_flight_max, self._writers_count)
        self._event_slots = FairPlaces(_EVENT_SLOTS, _EVENT_WRITERS)
        self._event_tasks: set[asyncio.Task[None]] = set()
        self._events_due: asyncio.Handle | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.is_drained = False
        self._is_stopped = False
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        # Pods whose condition we have set to False before: a new message alone is no transition.
        self._unscheduled: dict[PodUid, None] = {}

    async def __aenter__(self) -> Executor:
        self._tasks = [
            asyncio.create_task(self._write(), name=f"writer-{number}") for number in range(self._writers_count)
        ]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._is_stopped = True
        try:
            await asyncio.wait_for(self._is_idle.wait(), self._drain_s)
            self.is_drained = True
        except TimeoutError:
            log.warning("stopping with %d writes unanswered", len(self._lanes))
        if self._events_due is not None:
            self._events_due.cancel()
        tasks = [*self._tasks, *self._event_tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Rule 1: the outcome of a write that was cut, or never sent, is unknown.
        for lane in self._lanes.values():
            for decision in lane.decisions:
                self._deliver(WriteOutcomeUnknown(decision.id, "the scheduler stopped"))
        self._lanes.clear()

    def submit(self, decisions: Iterable[Decision]) -> None:
        """Take decisions, in order. Returns at once."""
        for decision in decisions:
            if isinstance(decision, RecordEvent):
                self._events.add(decision, self._clock.now_ms())
                self._send_events_in(0.0)
                continue
            if self._is_stopped:
                self._deliver(WriteOutcomeUnknown(decision.id, "the scheduler is stopping"))
                continue
            named = object_of(decision)
            key = (type(named), named)
            lane = self._lanes.get(key)
            self.stats.waiting += 1
            if lane is not None:
                lane.decisions.append(decision)
                continue
            lane = self._lanes[key] = _Lane(key, decision)
            self._is_idle.clear()
            self._ready.put(lane.sharer, lane)

    async def _write(self) -> None:
        while True:
            lane = await self._ready.take()
            decision = lane.decisions[0]
            self.stats.waiting -= 1
            self.stats.in_flight += 1
            try:
                answer = await self._execute(lane, decision)
            finally:
                self.stats.in_flight -= 1
                self._ready.give_back(lane.sharer)
            lane.decisions.popleft()
            if lane.decisions:
                self._ready.put(lane.sharer, lane)
            else:
                del self._lanes[lane.key]
                if not self._lanes:
                    self._is_idle.set()
            self._deliver(answer)

    async def _execute(self, lane: _Lane, decision: Answered) -> Input:
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        outcome: WriteResult
        try:
            request = encode_decision(
                decision, now_ms=self._clock.now_ms(), is_transition=self._is_transition(decision)
            )
            outcome = await self._client.send(request.method, request.path, request.body, request.content_type)
            if isinstance(decision, AddClaimFinalizer | WriteClaimStatus) and _is_text_changed(outcome):
                outcome = await self._update_exactly(decision, request.path, outcome)
            self._note(lane, decision, outcome)
            answer = self._answer(decision, request, outcome)
        except Exception as error:  # a defect of ours: the machine must hear of it, the writer must live
            log.exception("%s could not be executed", type(decision).__name__)
            outcome = Unknown(f"{type(error).__name__}: {error}")
            answer = WriteOutcomeUnknown(decision.id, outcome.message)
        self._on_write(type(decision).__name__, type(outcome).__name__, loop.time() - begun_s)
        return answer

    def _note(self, lane: _Lane, decision: Answered, outcome: WriteResult) -> None:
        """Reads are no sign whether writes fail. Neither is an object that is gone or has changed."""
        if isinstance(decision, ReadClaim | ReadPod):
            return
        match outcome:
            case Accepted():
                self._ready.note_success(lane.sharer, type(decision))
            case Rejected(code=HTTPStatus.NOT_FOUND) | Conflicted():
                pass
            case Rejected() | Unknown():
                self._ready.note_failure(lane.sharer, type(decision))

    async def _update_exactly(
        self, decision: AddClaimFinalizer | WriteClaimStatus, path: str, refusal: WriteResult
    ) -> WriteResult:
        """The same write without touching the text of opaque parameters; see `exact_claims`."""
        read = await self._client.send("GET", object_path(decision.claim), accept=PROTOBUF)
        match read:
            case Accepted():
                try:
                    claim = ExactClaim(read.body)
                except MalformedError as error:  # not by any API server of Kubernetes
                    log.warning("claim %s cannot be read as protobuf: %s", decision.claim, error)
                    return refusal
            case Unknown():
                return Rejected(0, "ReadFailed", read.message, is_retriable=True)  # nothing was written
            case _:
                return read
        if (claim.uid, claim.resource_version) != (decision.uid, str(decision.expect_revision)):
            return Conflicted(f"claim {decision.claim} has changed since revision {decision.expect_revision}")
        if isinstance(decision, AddClaimFinalizer):
            body = claim.with_finalizers(decision.finalizers)
        else:
            body = claim.with_reserved_for(decision.reserved_for or ())
        return await self._client.send("PUT", path, body, PROTOBUF)

    def _is_transition(self, decision: Answered) -> bool:
        if not isinstance(decision, PatchPodStatus) or not decision.reason or decision.uid in self._unscheduled:
            return False
        if len(self._unscheduled) >= _TRANSITIONS_MAX:
            del self._unscheduled[next(iter(self._unscheduled))]
        self._unscheduled[decision.uid] = None
        return True

    def _answer(self, decision: Answered, request: Request, outcome: WriteResult) -> RequestAnswer:
        if isinstance(outcome, Accepted):
            self._reporter.granted(request.right)
            if isinstance(decision, BindPod):
                self._unscheduled.pop(decision.uid, None)
                log.info("pod %s is bound to %s", decision.pod, decision.node)
        elif isinstance(outcome, Rejected) and outcome.is_configuration:
            self._reporter.refused(request.right, outcome.message)
        try:
            answer = answer_of(decision, request, outcome, self._codec)
        except UndecodableError as error:
            # Written for certain; what was stored comes with the watch.
            kind = request.reply.__name__ if request.reply is not None else ""
            self._reporter.undecodable(kind, str(object_of(decision)), str(error))
            return WriteAccepted(decision.id)
        if isinstance(decision, WriteClaimStatus) and isinstance(answer, WriteAccepted) and answer.claim is not None:
            self._compare(decision, answer.claim)
        return answer

    def _compare(self, decision: WriteClaimStatus, stored: ResourceClaim) -> None:
        """Report what a server with a closed feature gate has dropped from an allocation, though it said 200."""
        if decision.allocation is None or not (lost := dropped_fields(decision.allocation, stored.allocation)):
            return
        self._reporter.dropped(str(decision.claim), lost)
        note = f"the API server dropped {', '.join(lost)} from the allocation that was written"
        namespace, name = decision.claim
        event = RecordEvent(
            "ResourceClaim", namespace, name, decision.uid, "Warning", "AllocationFieldsDropped", "Scheduling", note
        )
        self.submit((event,))

    def _send_events_in(self, wait_s: float) -> None:
        if self._events_due is None:
            self._events_due = asyncio.get_running_loop().call_later(wait_s, self._send_events)

    def _send_events(self) -> None:
        """All that may be sent now; the others when a slot comes back, or when the bucket has filled."""
        self._events_due = None
        now_ms = self._clock.now_ms()
        while (request := self._events.next_request(now_ms, self._event_slots.may_take)) is not None:
            self._event_slots.take(request.event.namespace)
            task = asyncio.create_task(self._send_event(request))
            self._event_tasks.add(task)
            task.add_done_callback(self._event_tasks.discard)
        if len(self._events) and (wait_s := self._events.wait_s(now_ms)):
            self._send_events_in(wait_s)

    async def _send_event(self, request: EventRequest) -> None:
        try:
            outcome = await self._client.send(request.method, request.path, request.body, request.content_type)
        finally:
            self._event_slots.give_back(request.event.namespace)
        if len(self._events):
            self._send_events_in(0.0)
        if not isinstance(outcome, Accepted):
            log.debug("event %s about %s not recorded: %s", request.event.reason, request.event.name, outcome)
            if isinstance(outcome, Rejected) and outcome.code == 404 and request.method == "PATCH":
                self._events.forget(request.event)


def _is_text_changed(outcome: WriteResult) -> bool:
    """Whether a patch was refused for changing what it does not name; the message may be cut after the first lines."""
    if not isinstance(outcome, Rejected) or outcome.code != HTTPStatus.UNPROCESSABLE_ENTITY:
        return False
    return " spec: Invalid value: " in outcome.message or " status.allocation: Invalid value: " in outcome.message
