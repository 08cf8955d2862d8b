"""A reader of the change log looks again at the nodes that are not as they were, however changes were taken back."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.ground.change_log import ChangeLog
from scheduler.model.keys import NodeName

NODES = [NodeName(name) for name in "abcd"]


class Holder:
    """Takes nodes within turns and gives them back between turns, as a gang's search does."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.held: dict[NodeName, int] = {}  # with how often others had changed the node when it was given back
        self.paused = 0

    def turn(self, more: list[NodeName]) -> None:
        log = self.cluster.log
        begun = log.position
        lost = {node for node, version in self.held.items() if self.cluster.versions[node] != version}
        self.held = {node: version for node, version in self.held.items() if node not in lost}
        for node in self.held:
            self.toggle(node)
        log.revert(self.paused, set(self.held))
        for node in more:
            if node not in self.held:
                self.held[node] = 0
                self.toggle(node)
            self.cluster.remember()
        self.paused = log.position
        for node in self.held:
            self.toggle(node)
            self.held[node] = self.cluster.versions[node]
        log.revert(begun)

    def toggle(self, node: NodeName) -> None:
        self.cluster.holders[node] ^= {self}
        self.cluster.log.note(node)


class Cluster:
    """What a plugin sees of each node: how often others changed it, and who holds something there.

    `seen`: what readers saw, and where they were in the log.
    """

    def __init__(self) -> None:
        self.log = ChangeLog()
        self.versions = dict.fromkeys(NODES, 0)
        self.holders: dict[NodeName, set[Holder]] = {node: set() for node in NODES}
        self.seen: list[tuple[int, dict[NodeName, object]]] = []

    def state(self) -> dict[NodeName, object]:
        return {node: (self.versions[node], frozenset(self.holders[node])) for node in NODES}

    def remember(self) -> None:
        self.seen.append((self.log.position, self.state()))

    def check(self) -> None:
        now = self.state()
        for position, then in self.seen:
            named = self.log.since(position)
            assert named is not None
            assert {node for node in NODES if now[node] != then[node]} == set(named)
            for among in (NODES[:2], NODES[1:], []):
                assert set(self.log.since(position, among) or ()) == set(named) & set(among)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("other"), st.sampled_from(NODES)),
        st.tuples(st.sampled_from([0, 1]), st.lists(st.sampled_from(NODES), max_size=3)),
    ),
    max_size=12,
)


@given(steps)
def test_the_nodes_that_are_not_as_they_were_are_named_and_no_others(drawn):
    cluster = Cluster()
    holders = [Holder(cluster), Holder(cluster)]
    for who, what in drawn:
        cluster.remember()
        if who == "other":
            cluster.versions[what] += 1
            cluster.log.note(what)
        else:
            holders[who].turn(what)
        cluster.check()


def test_readers_of_long_ago_are_named_too_many_nodes_and_never_too_few():
    cluster = Cluster()
    holders = [Holder(cluster) for _ in range(40)]
    for turns in range(4):
        for holder in holders:
            cluster.remember()
            holder.turn(NODES[:2] if not turns else [])
    cluster.log.note(NODES[2])
    now = cluster.state()
    for position, then in cluster.seen:
        assert {node for node in NODES if now[node] != then[node]} - {NODES[2]} <= set(cluster.log.since(position))


def test_reading_a_long_log_costs_its_nodes_and_not_its_length():
    log = ChangeLog()
    start = log.position
    for turn in range(20_000):
        begun = log.position
        for node in NODES:
            log.note(node)
        log.revert(begun, NODES if turn % 2 else None)
    assert list(log.since(start)) == NODES
    assert log.behind(start) == len(NODES)
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        log.since(start)
    finally:
        sys.setprofile(None)
    assert calls < 100


def test_what_came_back_within_a_turn_is_named_to_nobody_who_saw_it_before_and_again_after():
    log = ChangeLog()
    log.note(NODES[0])
    before = log.position
    log.note(NODES[1])
    inside = log.position
    log.note(NODES[1])
    log.revert(before)
    assert list(log.since(before)) == []
    assert list(log.since(inside)) == [NODES[1]]
    assert list(log.since(0)) == [NODES[0]]


def test_a_node_that_others_changed_in_a_pause_is_named():
    log = ChangeLog()
    paused = log.position
    for node in (NODES[0], NODES[1], NODES[2], NODES[0]):
        log.note(node)
    log.revert(paused, {NODES[0]})
    assert list(log.since(paused)) == [NODES[1], NODES[2]]


def test_a_reader_starts_over_where_everything_changed_in_a_detour():
    log = ChangeLog()
    log.note(NODES[0])
    log.note_all()
    log.revert(0)
    assert log.since(0) is None
    assert list(log.since(log.position)) == []
