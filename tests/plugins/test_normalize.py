"""Scores brought to 0..100, with upstream's integer arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.plugins.normalize import normalize


@pytest.mark.parametrize(
    ("scores", "reverse", "want"),
    [
        pytest.param([], False, [], id="no-nodes"),
        pytest.param([5], False, [100], id="a-single-score"),
        pytest.param([3, 3], False, [100, 100], id="all-the-same"),
        pytest.param([0, 0], False, [0, 0], id="all-zero"),
        pytest.param([0, 0], True, [100, 100], id="all-zero-reversed"),
        pytest.param([8, 7], False, [100, 87], id="rounded-down"),
        pytest.param([16, 15, 14], False, [100, 93, 87], id="three-scores"),
        pytest.param([10, 5, 0], True, [0, 50, 100], id="reversed"),
        pytest.param([2**62, 1], False, [100, 0], id="a-large-spread-loses-the-small-one"),
    ],
)
def test_normalize(scores, reverse, want) -> None:
    by_node = {f"n{index}": score for index, score in enumerate(scores)}
    normalize(by_node, reverse=reverse)
    assert list(by_node.values()) == want


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**63), min_size=1), st.booleans())
def test_normalized_scores_keep_their_order_and_range(scores, reverse) -> None:
    by_node = {f"n{index}": score for index, score in enumerate(scores)}
    normalize(by_node, reverse=reverse)
    after = list(by_node.values())
    assert all(0 <= score <= 100 for score in after)
    ranked = [scaled for _, scaled in sorted(zip(scores, after, strict=True), key=lambda pair: pair[0])]
    assert ranked == sorted(ranked, reverse=reverse)
