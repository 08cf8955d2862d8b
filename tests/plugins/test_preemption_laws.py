"""What must hold of every preemption, on random small clusters, beside a reference that knows no greedy step."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.framework.status import Code
from tests.plugins.preempting import ask, budget, chosen, node, pod


class Runs(NamedTuple):
    """A pod that runs."""

    name: str
    on: str
    cpu: int
    priority: int
    started: int
    is_covered: bool
    port: int


class World(NamedTuple):
    nodes: dict[str, int]
    running: tuple[Runs, ...]
    cpu: int
    priority: int
    port: int
    allowed: int | None


Victims = tuple[list[Runs], int]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Nodes that are full for the pod, with at most five pods each; starts differ, so importance does."""
    nodes = {f"n{index}": draw(st.integers(1, 6)) for index in range(draw(st.integers(1, 3)))}
    starts = draw(st.permutations(range(15)))
    running = []
    for on in nodes:
        for index in range(draw(st.integers(0, 5))):
            number = len(running)
            cpu, priority = draw(st.integers(0, 2)), draw(st.integers(-1, 3))
            port = draw(st.sampled_from((0, 0, 80 + index)))
            running.append(Runs(f"p{number}", on, cpu, priority, starts[number], draw(st.booleans()), port))
    port = draw(st.sampled_from((0, 80, 81)))
    allowed = draw(st.sampled_from((None, 0, 1, 2)))
    return World(nodes, tuple(running), draw(st.integers(1, 5)), draw(st.integers(0, 3)), port, allowed)


def fits(world: World, on: str, kept: Iterable[Runs]) -> bool:
    kept = list(kept)
    has_room = sum(one.cpu for one in kept) + world.cpu <= world.nodes[on]
    return has_room and not (world.port and any(one.port == world.port for one in kept))


def by_importance(pods: Iterable[Runs]) -> list[Runs]:
    return sorted(pods, key=lambda one: (-one.priority, one.started))


def covered_too_many(world: World, lower: Sequence[Runs]) -> list[Runs]:
    covered = [one for one in lower if one.is_covered] if world.allowed is not None else []
    return covered[world.allowed :]


def victims_on(world: World, on: str) -> Victims | None:
    """Of all sets that may stay, the one that spares the first pod if any does, and of those the second, and so on."""
    here = [one for one in world.running if one.on == on]
    lower = by_importance(one for one in here if one.priority < world.priority)
    always = [one for one in here if one.priority >= world.priority]
    violating = covered_too_many(world, lower)
    order = [*violating, *(one for one in lower if one not in violating)]
    for stays in itertools.product((True, False), repeat=len(order)):
        spared = [one for one, stay in zip(order, stays, strict=True) if stay]
        if order and fits(world, on, [*always, *spared]):
            gone = [one for one in lower if one not in spared]
            return (gone, sum(one in violating for one in gone)) if gone else None
    return None


def best(candidates: dict[str, Victims]) -> str:
    """Criterion by criterion, as upstream tells them."""
    criteria: list[Any] = [
        lambda gone, violations: violations,
        lambda gone, violations: max(one.priority for one in gone),
        lambda gone, violations: sum(one.priority + 2**31 for one in gone),
        lambda gone, violations: len(gone),
        lambda gone, violations: -min(one.started for one in gone if one.priority == gone[0].priority),
    ]
    left = dict(candidates)
    for criterion in criteria:
        least = min(criterion(*one) for one in left.values())
        left = {name: one for name, one in left.items() if criterion(*one) == least}
    return min(left)


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(worlds())
def test_preemption_agrees_with_the_reference(world: World) -> None:
    answer = ask(
        pod("high", cpu=world.cpu, priority=world.priority, ports=[world.port] if world.port else ()),
        [node(name, cpu=cpu) for name, cpu in world.nodes.items()],
        [
            pod(
                one.name,
                on=one.on,
                cpu=one.cpu,
                priority=one.priority,
                started=one.started,
                labels={"app": "web"} if one.is_covered else {},
                ports=[one.port] if one.port else (),
            )
            for one in world.running
        ],
        budgets=[budget("b", allowed=world.allowed)] if world.allowed is not None else [],
    )
    free = [on for on in world.nodes if fits(world, on, [one for one in world.running if one.on == on])]
    if free:
        assert answer.helped is None
        return
    possible = [on for on, cpu in world.nodes.items() if world.cpu <= cpu]  # for the others nothing helps
    found = {on: victims for on in possible if (victims := victims_on(world, on)) is not None}
    assert answer.helped is not None
    if not found:
        assert answer.helped.status.code is Code.UNSCHEDULABLE
        assert (answer.helped.nominated_node, answer.helped.preemption) == ("", None)
        return
    on = best(found)
    gone, violations = found[on]
    assert chosen(answer) == (on, [one.name for one in gone], violations)
    # The laws, said once more without the reference.
    assert all(one.priority < world.priority and one.on == on for one in gone)
    stay = [one for one in world.running if one.on == on and one not in gone]
    assert fits(world, on, stay)
    assert not any(fits(world, on, [*stay, one]) for one in gone)
