"""The time of a running scheduler: CPU by stage, and the waits of its pods. `dra-scheduler run --profile`.

    stages = Stages()
    SchedulerApp(connection, config, stages=stages)
    stages.table()                                   # text, at any time

CPU is the thread's, so other programs on the machine do not count. When a stage runs within another stage (decoding a
reply, within a request), only the inner stage is charged: the stages add up to the whole.

Cost: two readings of the thread's clock for each input, event and step of a request; nothing when not profiled.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator
from types import coroutine
from typing import Any, Final, ParamSpec, Protocol, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

DECIDING: Final = "deciding"
DECODING: Final = "decoding watch events"
REPLIES: Final = "decoding replies"
WRITING: Final = "writing"
_REST: Final = "event loop, TLS, HTTP"

_MEANINGS: Final = {
    DECIDING: "the machine: observations, scheduling cycles, binding cycles",
    DECODING: "bytes of watches to objects",
    REPLIES: "bytes of replies to claims",
    WRITING: "handing requests to the HTTP client and taking its replies",
    _REST: "the loop, encryption, parsing HTTP, encoding requests, handing out decisions, metrics, all else",
}


class Observe(Protocol):
    """Counts the calls of a function: given a stage and the function, the function to call instead."""

    def __call__(self, stage: str, function: Callable[_P, _T], /) -> Callable[_P, _T]: ...


def unobserved(_stage: str, function: Callable[_P, _T], /) -> Callable[_P, _T]:
    """The function itself: nothing is counted."""
    return function


class Stages:
    """Counts from its making on."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self.cpu_s: Final = dict.fromkeys(_MEANINGS, 0.0)
        self.calls: Final = dict.fromkeys(_MEANINGS, 0)
        self._clock: Final = clock
        self._writes: Final[dict[str, tuple[int, float]]] = {}
        self._stack: Final = [_REST]
        self._since_s = clock()
        self._longest_s = 0.0

    def _switch(self) -> None:
        now_s = self._clock()
        self.cpu_s[self._stack[-1]] += now_s - self._since_s
        self._since_s = now_s

    def _enter(self, stage: str) -> None:
        self._switch()
        self._stack.append(stage)

    def _leave(self) -> None:
        self._switch()
        self._stack.pop()

    def timed(self, stage: str, function: Callable[_P, _T], /) -> Callable[_P, _T]:
        """`function`, charged to `stage`."""

        def run(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            self.calls[stage] += 1
            self._enter(stage)
            begun_s = self._since_s
            try:
                return function(*args, **kwargs)
            finally:
                self._leave()
                if stage == DECIDING:
                    self._longest_s = max(self._longest_s, self._since_s - begun_s)

        return run

    def timed_writing(self, request: Awaitable[_T]) -> Awaitable[_T]:
        """`request`, whose steps between its waits are charged to `WRITING`."""
        self.calls[WRITING] += 1
        return _steps(self, WRITING, request.__await__())

    def wrote(self, decision: str, outcome: str, duration_s: float) -> None:
        """A request was answered after `duration_s`."""
        count, total_s = self._writes.get(decision, (0, 0.0))
        self._writes[decision] = (count + 1, total_s + duration_s)

    def table(self) -> str:
        """The measurements so far, as Markdown, divided by the number of pods bound."""
        self._switch()
        pods = self._writes.get("BindPod", (0, 0.0))[0]
        total_s = sum(self.cpu_s.values())
        lines = [
            f"{pods} pods bound, {total_s:.2f} s of CPU. Milliseconds are for each pod bound.",
            "",
            "| stage | CPU ms | share | calls | what it is |",
            "| ----- | -----: | ----: | ----: | ---------- |",
        ]
        for stage, spent_s in self.cpu_s.items():
            share = spent_s / total_s if total_s else 0.0
            lines.append(
                f"| {stage} | {_per(spent_s, pods)} | {share:.0%} | {self.calls[stage] or ''} | {_MEANINGS[stage]} |"
            )
        lines += [
            f"| all | {_per(total_s, pods)} | | | |",
            "",
            f"Longest time the machine took for one input: {1000 * self._longest_s:.2f} ms of CPU.",
            "",
            "| waiting for the API server | requests | mean ms | ms for each pod |",
            "| -------------------------- | -------: | ------: | --------------: |",
        ]
        for decision, (count, waited_s) in self._writes.items():
            lines.append(f"| {decision} | {count} | {1000 * waited_s / count:.2f} | {_per(waited_s, pods)} |")
        return "\n".join(lines) + "\n"


def _per(seconds: float, pods: int) -> str:
    return f"{1000 * seconds / pods:.3f}" if pods else "-"


@coroutine
def _steps(stages: Stages, stage: str, steps: Generator[Any, Any, _T]) -> Generator[Any, Any, _T]:
    """Run a coroutine to its end, step by step, each charged to `stage`."""
    given: Any = None
    error: BaseException | None = None
    while True:
        stages._enter(stage)
        try:
            waits_for = steps.throw(error) if error is not None else steps.send(given)
        except StopIteration as end:
            value: _T = end.value
            return value
        finally:
            stages._leave()
        given, error = None, None
        try:
            given = yield waits_for
        except BaseException as thrown:
            error = thrown
