"""The machine on the event loop: inputs are handed to it in turns, its decisions to the executor.

A turn takes the inputs that wait, for at most `_TURN_S`, then the timer, hands out the decisions, and lets the network
have its turn. Nothing here decides anything.

Rules of this module
  1. Only `_turn` calls the machine, and never while it is being called.
  2. An exception out of the machine is a defect: no turn comes after it, for a wrong state must not go on.
  3. Until `decide` the machine observes only: it does not learn that anything has been listed whole, and no time passes
     for it. So it has nothing to conclude, and tries no pod.
  4. Between `pause` and `go_on` the machine does not change, and inputs wait.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from scheduler.core.ground.inputs import Input, RelistFinished, TimerFired
from scheduler.core.machine import Machine
from scheduler.debug_log import DebugLog
from scheduler.framework.decisions import Decision
from scheduler.kube.clock import Clock
from scheduler.kube.metrics import Metrics

log = logging.getLogger(__name__)

_TURN_S: Final = 0.005
_ALIVE_S: Final = 30.0
INPUTS_WAITING_MAX: Final = 4_096
"""More that is watched is not read from the network until some of them were taken."""
_TIMER: Final = TimerFired()


class Handle(Protocol):
    """`Machine.handle`."""

    def __call__(self, given: Input, *, now_ms: int) -> tuple[Decision, ...]: ...


class MachineTurns:
    """Made and used in a running event loop.

    Args:
        handle: The machine's, perhaps measured on the way.
        submit: Takes the decisions.
        on_idle: Called after a turn that left no input waiting.
        on_failure: Called with what the machine raised.

    Attributes:
        inputs_count: Inputs and timers handled.
        longest_handle_s: The longest time the machine took for one of them.
        longest_handle_cpu_s: The most CPU time, at most `_TURN_S` too much; the rest of a longest time was other
            processes'.
        room: Set while fewer than `INPUTS_WAITING_MAX` inputs wait: who brings any number of them waits for it.
    """

    def __init__(
        self,
        machine: Machine,
        handle: Handle,
        submit: Callable[[Sequence[Decision]], None],
        *,
        clock: Clock,
        metrics: Metrics,
        on_idle: Callable[[], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.room: Final = asyncio.Event()
        self.room.set()
        self.inputs_count = 0
        self.longest_handle_s = self.longest_handle_cpu_s = 0.0
        self._asked_s = self._asked_cpu_s = 0.0  # the thread's CPU time, when it was asked for last: that takes 4 us
        self._machine = machine
        self._handle = handle
        self._submit = submit
        self._clock = clock
        self._metrics = metrics
        self._on_idle = on_idle
        self._on_failure = on_failure
        self._debug_log = DebugLog() if machine.outbox.takes_notes else None
        self._loop = asyncio.get_running_loop()
        self._inbox: deque[Input] = deque()
        self._next_turn: asyncio.Handle | None = None  # as soon as possible
        self._timer: asyncio.TimerHandle | None = None  # at the machine's deadline
        self._last_turn_s = self._loop.time()
        self._is_stopped = self._is_paused = False
        self._decides = False
        self._troubles_seen = 0  # `Troubles.changes` when they were logged last
        self._logged_troubles: dict[tuple[str, str], str] = {}

    def begin(self) -> None:
        """Inputs come from now on."""
        self._last_turn_s = self._loop.time()

    def decide(self, listed: Iterable[RelistFinished]) -> None:
        """Go on from observing to deciding.

        Args:
            listed: The kinds of which all that exists has been delivered. The others say so themselves.
        """
        self._decides = True
        self._inbox.extend(listed)
        self._schedule_turn()  # the machine may have something to do before any input comes

    @property
    def decides(self) -> bool:
        return self._decides

    def stop(self) -> None:
        """No turn comes after this."""
        self._is_stopped = True
        self.room.set()
        for handle in (self._next_turn, self._timer):
            if handle is not None:
                handle.cancel()

    def pause(self) -> None:
        self._is_paused = True

    def go_on(self) -> None:
        self._is_paused = False
        self._schedule_turn()

    def deliver(self, inputs: Sequence[Input]) -> None:
        self._inbox.extend(inputs if self._decides else (one for one in inputs if type(one) is not RelistFinished))
        if len(self._inbox) >= INPUTS_WAITING_MAX:
            self.room.clear()
        self._schedule_turn()

    @property
    def inputs_waiting(self) -> int:
        return len(self._inbox)

    def deliver_answer(self, answer: Input) -> None:
        if self._debug_log is not None:
            self._debug_log.answer(answer)
        self._inbox.append(answer)
        self._schedule_turn()

    def problem(self) -> str | None:
        """Why the loop does not come to its turns; None while it does."""
        idle_s = self._loop.time() - self._last_turn_s
        return f"inputs have been waiting for {idle_s:.0f} s" if self._inbox and idle_s > _ALIVE_S else None

    def _schedule_turn(self) -> None:
        if self._next_turn is None:
            self._next_turn = self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._next_turn = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_stopped or self._is_paused:
            return
        begun_s = time.perf_counter()
        try:
            self._take_inputs(begun_s)
            if self._machine.troubles.changes != self._troubles_seen:
                self._log_troubles()
            deadline_ms = self._machine.next_deadline_ms() if self._decides else None
        except Exception as error:
            log.exception("the machine failed; this is a defect of the scheduler")
            self.stop()
            self._on_failure(error)
            return
        if len(self._inbox) < INPUTS_WAITING_MAX:
            self.room.set()
        if self._inbox:
            self._schedule_turn()
        else:
            self._on_idle()
            if deadline_ms is not None:
                self._schedule_turn_at(deadline_ms)
        self._last_turn_s = self._loop.time()
        self._metrics.turn.observe(time.perf_counter() - begun_s)

    def _take_inputs(self, begun_s: float) -> None:
        """Inputs, for as long as a turn may last, then the timer when it is due."""
        handle, inbox, now_ms = self._handle, self._inbox, self._clock.now_ms()
        last_s = begun_s
        if begun_s - self._asked_s > _TURN_S:
            self._asked_s, self._asked_cpu_s = begun_s, time.thread_time()
        while inbox and last_s - begun_s < _TURN_S:
            self._execute(handle(inbox.popleft(), now_ms=now_ms))
            last_s = self._note_handle(last_s)
        deadline_ms = self._machine.next_deadline_ms() if self._decides else None
        if deadline_ms is not None and deadline_ms <= now_ms:
            tallies = self._machine.queue.tallies
            cycles = tallies.cycles
            self._execute(handle(_TIMER, now_ms=now_ms))
            spent_s = self._note_handle(last_s) - last_s
            if cycles := tallies.cycles - cycles:
                tallies.algorithm_s.add(spent_s / cycles, cycles)

    def _note_handle(self, begun_s: float) -> float:
        self.inputs_count += 1
        ended_s = time.perf_counter()
        spent_s = ended_s - begun_s
        self.longest_handle_s = max(self.longest_handle_s, spent_s)
        if spent_s > self.longest_handle_cpu_s:
            cpu_s = time.thread_time()
            self.longest_handle_cpu_s = max(self.longest_handle_cpu_s, min(spent_s, cpu_s - self._asked_cpu_s))
            self._asked_s, self._asked_cpu_s = ended_s, cpu_s
        return ended_s

    def _execute(self, decisions: Sequence[Decision]) -> None:
        if self._debug_log is not None:
            self._debug_log.attempts(self._machine.outbox.notes)
            self._debug_log.decisions(decisions)
        if decisions:
            self._metrics.count_decisions(decisions)
            self._submit(decisions)

    def _schedule_turn_at(self, deadline_ms: int) -> None:
        if deadline_ms <= self._clock.now_ms():
            self._schedule_turn()
        else:
            # A millisecond later: a timer that fires a hair early would be asked for again at once.
            self._timer = self._loop.call_at(self._clock.monotonic_s(deadline_ms + 1), self._turn)

    def _log_troubles(self) -> None:
        """Log what has begun to fail for long, and what is done again: once for each kind of request and namespace."""
        self._troubles_seen = self._machine.troubles.changes
        failing = {(trouble.request, trouble.namespace): trouble.text for trouble in self._machine.troubles.all()}
        for key, text in failing.items():
            if key not in self._logged_troubles:
                log.warning("%s", text)
        for key, text in self._logged_troubles.items():
            if key not in failing:
                log.info("done again, or not needed any more: %s", text)
        self._logged_troubles = failing
