"""One process of the scheduler in the simulated world: a machine, its watches, and its requests under way.

Two of them under one name are what a node that lost its network, or a machine that slept, leaves behind. They share the
API server and nothing else: each has seen what its own watches told, holds what it decided itself, and has requests on
their way of which the other knows nothing.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from scheduler.core.ground.inputs import Input, Observed
from scheduler.core.machine import Machine
from scheduler.core.observation import KINDS
from scheduler.framework.decisions import Answered


@dataclass(eq=False)
class Process:
    """What one process knows and waits for.

    Attributes:
        queues: Decisions that were not sent yet, by the object they are about.
        replies: Answers on their way to the machine.
        late: Requests that are lost to the machine, and land later.
        unwatched: What happened and was not told yet, by kind; `distributed` of the server's log is in there.
        known: What the reflectors know, by kind.
        unlisted: Kinds that the machine was not told completely yet.
        is_stopped: It does nothing at all (SIGSTOP, a paused machine).
        is_cut: Its requests and watches reach nobody (a partition).
    """

    number: int
    machine: Machine = field(init=False)
    queues: dict[object, deque[Answered]] = field(default_factory=dict)
    replies: list[tuple[object, Input]] = field(default_factory=list)
    late: list[Answered] = field(default_factory=list)
    unwatched: dict[str, deque[Input]] = field(default_factory=lambda: {kind: deque() for kind in KINDS})
    distributed: int = 0
    known: dict[str, dict[object, Observed]] = field(default_factory=dict)
    watched: list[Input] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)
    is_stopped: bool = False
    is_cut: bool = False
