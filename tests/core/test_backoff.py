"""Pods in backoff: who leaves first, and who never leaves early."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.queue.backoff import Backoff
from scheduler.core.queue.queued_pod import Place, QueuedPod
from scheduler.framework.api import Profile
from scheduler.framework.runner import Runner
from tests import builders

RUNNER = Runner(Profile(builders.SCHEDULER, ()))
NOW_MS = 10_000


def queued(name: str, ready_ms: int, priority: int = 0, *, waits_out: bool = False, ticket: int = 0) -> QueuedPod:
    pod = builders.pod(name, priority=priority)
    return QueuedPod(pod.uid, pod, RUNNER, place=Place.BACKOFF, ready_ms=ready_ms, waits_out=waits_out, ticket=ticket)


def ripe(backoff: Backoff, now_ms: int) -> list[str]:
    names = []
    for pod in backoff.ripe(now_ms):
        pod.ticket = -1  # displaced
        names.append(pod.pod.metadata.name)
    return names


def test_within_one_second_priority_goes_first_and_then_who_came_first():
    backoff = Backoff()
    for ticket, (name, ready_ms, priority) in enumerate(
        [("late", 2_000, 9), ("low", 1_000, 1), ("high", 1_900, 5), ("low too", 1_000, 1)]
    ):
        backoff.push(queued(name, ready_ms, priority, ticket=ticket))
    assert ripe(backoff, NOW_MS) == ["high", "low", "low too", "late"]


def test_nobody_is_ripe_before_the_time():
    backoff = Backoff()
    backoff.push(queued("p", 1_500))
    assert ripe(backoff, 1_499) == []
    assert ripe(backoff, 1_500) == ["p"]


def test_after_an_error_a_pod_waits_its_backoff_out():
    backoff = Backoff()
    backoff.push(queued("broken", 1_000, waits_out=True))
    assert backoff.first_early() is None
    backoff.push(queued("rejected", 9_000))
    early = backoff.first_early()
    assert early is not None
    assert early.pod.metadata.name == "rejected"


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(-2, 2), st.booleans()), max_size=12))
def test_every_pod_leaves_at_most_a_second_after_its_time(pods):
    backoff = Backoff()
    for index, (ready_ms, priority, waits_out) in enumerate(pods):
        backoff.push(queued(str(index), ready_ms, priority, waits_out=waits_out, ticket=index))
    left_ms = {}
    while deadlines := backoff.deadlines():
        now_ms = min(deadlines)
        for name in ripe(backoff, now_ms):
            left_ms[int(name)] = now_ms
    assert len(left_ms) == len(pods)
    assert all(0 <= left_ms[index] - ready_ms < 1_000 for index, (ready_ms, _, _) in enumerate(pods))
