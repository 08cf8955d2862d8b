"""Namespaces by selector: what is kept up to date from changes equals what is found out anew."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core import matching_namespaces
from scheduler.core.matching_namespaces import MatchingNamespaces
from scheduler.core.newest_objects import NewestObjects
from scheduler.model.label_selectors import compile_label_selector
from scheduler.model.objects import LabelSelector
from tests import builders

SELECTORS = [compile_label_selector(LabelSelector(match_labels={"team": team})) for team in "ab"]
NAMED = frozenset({"n1"})
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(["n0", "n1", "n2", "n3"]), st.sampled_from(["a", "b", ""])),
        st.tuples(st.just("delete"), st.sampled_from(["n0", "n1", "n2", "n3"]), st.just("")),
        st.tuples(st.just("ask"), st.sampled_from(["0", "1"]), st.just("")),
    ),
    max_size=40,
)


@settings(deadline=None, max_examples=200)
@given(steps)
def test_names_equal_what_a_fresh_look_finds(given_steps):
    namespaces = NewestObjects(may_return=True)
    kept = MatchingNamespaces(namespaces)
    for revision, (what, name, team) in enumerate(given_steps, start=1):
        if what == "put":
            namespaces.observe(name, revision, builders.namespace(name, labels={"team": team}))
        elif what == "delete" and name in namespaces:
            namespaces.delete(name, revision)
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
    kept = MatchingNamespaces(namespaces)
    assert len(kept.names(SELECTORS[0], frozenset())) == kept.asked == 30
    namespaces.observe("n3", 2, builders.namespace("n3", labels={"team": "b"}))
    assert len(kept.names(SELECTORS[0], frozenset())) == 29
    assert kept.asked == 31
    for revision in range(3, 60):  # more than is kept of what changed
        namespaces.observe("n4", revision, builders.namespace("n4", labels={"team": "ab"[revision % 2]}))
        assert len(kept.names(SELECTORS[0], frozenset())) == 29 - revision % 2
