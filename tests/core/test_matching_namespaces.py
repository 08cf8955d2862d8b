"""Namespaces by selector: what is kept up to date from changes equals what is found out anew."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from allocator import Features
from allocator.values.remembered import MemoryLedger
from scheduler.core.counting import matching_namespaces
from scheduler.core.counting.matching_namespaces import MatchingNamespaces
from scheduler.core.ground.newest_objects import NewestObjects
from scheduler.core.state.store import Store
from scheduler.model.label_selectors import compile_label_selector
from scheduler.model.objects import LabelSelector, NodeSelectorRequirement
from tests import builders

SELECTORS = [compile_label_selector(LabelSelector(match_labels={"team": team})) for team in "ab"]
NAMED = frozenset({"n1"})
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(["n0", "n1", "n2", "n3"]), st.sampled_from(["a", "b", ""])),
        st.tuples(st.just("delete"), st.sampled_from(["n0", "n1", "n2", "n3"]), st.just("")),
        st.tuples(st.just("part"), st.sampled_from(["0", "1"]), st.just("")),
        st.tuples(st.just("ask"), st.sampled_from(["0", "1"]), st.just("")),
    ),
    max_size=40,
)


@settings(deadline=None, max_examples=200)
@given(steps)
def test_names_equal_what_a_fresh_look_finds(given_steps):
    namespaces = NewestObjects(may_return=True)
    kept = MatchingNamespaces(namespaces, MemoryLedger())
    for revision, (what, name, team) in enumerate(given_steps, start=1):
        if what == "put":
            namespaces.observe(name, revision, builders.namespace(name, labels={"team": team}))
        elif what == "delete" and name in namespaces:
            namespaces.delete(name, revision)
        elif what == "part":
            kept.find(SELECTORS[int(name)], NAMED, 0)
        elif what == "ask":
            selector = SELECTORS[int(name)]
            fresh = {one for one, found in namespaces.items() if selector.matches(found.metadata.labels or {})}
            assert kept.names(selector, frozenset()) == fresh
            assert kept.names(selector, NAMED) == fresh | NAMED
            assert kept.names(selector, NAMED) is kept.names(selector, NAMED)


def test_a_selector_that_is_known_is_asked_about_changed_namespaces_only(monkeypatch):
    monkeypatch.setattr(matching_namespaces, "_CHANGES_MAX", 50)
    namespaces = NewestObjects()
    for index in range(30):
        namespaces.observe(f"n{index}", 1, builders.namespace(f"n{index}", labels={"team": "a"}))
    kept = MatchingNamespaces(namespaces, MemoryLedger())
    assert len(kept.names(SELECTORS[0], frozenset())) == 30
    assert kept.asked == 2 * 30
    namespaces.observe("n3", 2, builders.namespace("n3", labels={"team": "b"}))
    assert len(kept.names(SELECTORS[0], frozenset())) == 29
    assert kept.asked == 2 * 31
    for revision in range(3, 60):  # more than is kept of what changed
        namespaces.observe("n4", revision, builders.namespace("n4", labels={"team": "ab"[revision % 2]}))
        assert len(kept.names(SELECTORS[0], frozenset())) == 29 - revision % 2


def test_namespaces_are_asked_about_in_parts():
    """50 selectors took 94 ms in one piece when 10,000 namespaces had changed."""
    store = Store(Features())
    wanted = [(compile_label_selector(LabelSelector(match_labels={"team": str(team)})), NAMED) for team in range(50)]
    taken = []
    for revision in (1, 2):
        for number in range(1_000):
            team = {"team": str((number + revision) % 100)}
            store.namespaces.observe(f"n{number}", revision, builders.namespace(f"n{number}", labels=team))
        has_all = False
        while not has_all:
            before = store.pod_counts.steps
            has_all = store.pod_counts.prepare_namespaces(wanted, 100)
            taken.append(store.pod_counts.steps - before)
    assert max(taken) <= 500 + 160 + 1  # and what was all but known
    # Two lookups each, and three are a node's time; parts of it are dropped in each turn.
    assert 2 * 50 * 1_000 * 2 // 3 - len(taken) <= sum(taken) <= 2 * 50 * 1_000 * 2 // 3
    for team, (selector, named) in enumerate(wanted):
        names = {f"n{number}" for number in range(1_000) if (number + 2) % 100 == team}
        assert store.pod_counts.namespaces_matching(selector, named) == names | NAMED


def test_what_little_changed_is_caught_up_with_at_once():
    """Or a pod with many selectors would never have all of them while namespaces come and go."""
    store = Store(Features())
    for number in range(1_000):
        store.namespaces.observe(f"n{number}", 1, builders.namespace(f"n{number}", labels={"team": "0"}))
    wanted = [(compile_label_selector(LabelSelector(match_labels={"team": str(team)})), NAMED) for team in range(50)]
    for turn in range(200):
        store.namespaces.observe("n0", 2 + turn, builders.namespace("n0", labels={"team": str(turn)}))
        if store.pod_counts.prepare_namespaces(wanted, 1):
            break
    assert 50 < turn < 150


def test_a_long_selector_is_asked_about_fewer_namespaces_at_once():
    long = tuple(NodeSelectorRequirement(f"no-{index}", "DoesNotExist") for index in range(300))
    namespaces = NewestObjects()
    for number in range(10):
        namespaces.observe(f"n{number}", 1, builders.namespace(f"n{number}"))
    kept = MatchingNamespaces(namespaces, MemoryLedger())
    selector = compile_label_selector(LabelSelector(match_expressions=long))
    assert not kept.find(selector, NAMED, 2 * 301)
    assert kept.asked == 2 * 301
    assert kept.left(selector, NAMED) == 8 * 301
