"""A machine and an API server side by side, driven step by step; every invariant is checked after every input."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from allocator import Features
from scheduler.core.ground.core_settings import CoreSettings
from scheduler.core.ground.inputs import Input, RelistFinished, TimerFired, WriteAccepted
from scheduler.core.machine import Machine
from scheduler.core.observation import KINDS
from scheduler.framework.api import Profile
from scheduler.framework.decisions import Decision, RecordEvent
from scheduler.model.keys import NodeName, PodKey
from tests import builders
from tests.sim.api_server import FakeApiServer

START_MS = 1_800_000_000_000


class Rig:
    """Tells the machine what happens on the server, and lets the server execute what the machine decides.

    Attributes:
        pending: Decisions that were not executed yet.
        events: Texts of recorded events, as `reason: note`.
    """

    def __init__(
        self,
        *plugins: Any,
        is_listed: bool = True,
        scheduler_name: str = builders.SCHEDULER,
        features: Features | None = None,
        clock: Callable[[], float] | None = None,
        **settings: Any,
    ) -> None:
        uids = itertools.count(1)
        settings = {"checks_invariants": True, "is_strict": True, "is_paranoid": True, **settings}
        self.machine = Machine(
            [Profile(scheduler_name, plugins)],
            features=features or Features(),
            new_uid=lambda: f"new-uid-{next(uids)}",
            settings=CoreSettings(**settings),
        )
        if clock is not None:
            self.machine.measure(clock)
        self._handle = self.machine.handle
        self.server = FakeApiServer()
        self.now_ms = START_MS
        self.pending: list[Decision] = []
        self.decided: list[Decision] = []
        self.events: list[str] = []
        self._told = 0
        if is_listed:
            for kind in sorted(KINDS):
                self.tell(RelistFinished(kind))

    def tell(self, given: Input) -> tuple[Decision, ...]:
        """One input; its decisions are kept."""
        decisions = self._handle(given, now_ms=self.now_ms)
        for decision in decisions:
            self.decided.append(decision)
            if isinstance(decision, RecordEvent):
                self.events.append(f"{decision.reason}: {decision.note}")
            else:
                self.pending.append(decision)
        return decisions

    def watch(self) -> None:
        """Deliver what happened on the server since the last time."""
        while self._told < len(self.server.log):
            self._told += 1
            self.tell(self.server.log[self._told - 1])

    def skip_watch(self) -> None:
        """Lose what happened on the server since the last time."""
        self._told = len(self.server.log)

    def tick(self, ms: int = 0) -> tuple[Decision, ...]:
        """Let time pass, then the timer fires."""
        self.now_ms += ms
        return self.tell(TimerFired())

    def execute(self, *, watch: bool = True) -> None:
        """Let the server execute what is pending, and answer."""
        pending, self.pending = self.pending, []
        for decision in pending:
            self.tell(self.server.execute(decision))
        if watch:
            self.watch()

    def take(self, kind: type) -> Any:
        """The only pending decision of this kind, which the caller will answer."""
        found = [decision for decision in self.pending if isinstance(decision, kind)]
        assert len(found) == 1, self.pending
        self.pending.remove(found[0])
        return found[0]

    def settle(self, rounds: int = 20_000) -> None:
        """Go on until nothing happens without time passing."""
        for _ in range(rounds):
            self.watch()
            deadline = self.machine.next_deadline_ms()
            if self.pending:
                self.execute()
            elif deadline is not None and deadline <= self.now_ms:
                self.tick()
            elif self._told == len(self.server.log):
                return
        raise AssertionError("the machine does not come to rest")

    def wait(self, ms: int) -> None:
        """Let time pass, firing the timer whenever it is due, and come to rest."""
        until_ms = self.now_ms + ms
        self.settle()
        while (deadline := self.machine.next_deadline_ms()) is not None and deadline <= until_ms:
            self.now_ms = max(self.now_ms, deadline)
            self.tick()
            self.settle()
        self.now_ms = until_ms

    def node_of(self, name: str, namespace: str = "default") -> NodeName | None:
        return self.server.pods[PodKey(namespace, name)].node_name

    def condition_of(self, name: str, namespace: str = "default") -> tuple[str, str] | None:
        """Reason and message of the pod's PodScheduled condition on the server."""
        for condition in self.server.pods[PodKey(namespace, name)].status.conditions or ():
            if condition.type != "PodScheduled":
                continue
            return condition.reason, condition.message
        return None

    def add_nodes(self, *names: str, **fields: Any) -> None:
        for name in names:
            self.server.put_node(builders.node(name, **fields))

    def add_pod(self, name: str, **fields: Any) -> None:
        self.server.put_pod(builders.pod(name, **fields))


def accepted(decision: Any) -> WriteAccepted:
    """An answer that says nothing but yes."""
    return WriteAccepted(decision.id)
