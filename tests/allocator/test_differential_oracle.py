"""Live: random cases that draw all features together, asked here and at the released Go allocator."""

from __future__ import annotations

from collections import Counter

import pytest

from allocator import ALL_SHORTCUTS, Shortcuts
from tests.allocator.differential import run, run_histories
from tests.oracle.client import Oracle
from tests.oracle.fixture import each_oracle  # noqa: F401 - a fixture

pytestmark = pytest.mark.oracle
ALLOWED = {
    "equal",
    "go-late",
    "budget",
    "distinct-forgets",
    "groups-contradict",
    "intersection-not-restored",
    "shared-no-more",
    "empty-list",
}


def test_random_cases_get_the_go_allocators_answers(each_oracle: Oracle) -> None:  # noqa: F811
    verdicts = Counter[str]()
    wrong = []
    for verdict, case, ours, go in run(each_oracle, 2_000_000, 2_000, ALL_SHORTCUTS):
        verdicts[verdict] += 1
        if verdict not in ALLOWED:
            wrong.append((case["name"], ours, go))

    assert wrong == []
    assert verdicts["equal"] > 1_800


def test_the_plain_search_gets_them_too(each_oracle: Oracle) -> None:  # noqa: F811
    """Without shortcuts the same; where Go needs many steps the budget may end first, which is no answer."""
    wrong = [
        (case["name"], ours, go)
        for verdict, case, ours, go in run(each_oracle, 3_000_000, 1_000, Shortcuts.none())
        if verdict not in ALLOWED and ours["outcome"] != "exhausted"
    ]

    assert wrong == []


def test_an_inventory_that_answers_while_it_changes_gets_them_too(each_oracle: Oracle) -> None:  # noqa: F811
    """Several nodes, one inventory, one record of what is in use; Go sees a fresh snapshot for each question."""
    verdicts = Counter[str]()
    wrong = []
    for verdict, case, ours, go in run_histories(each_oracle, 5_000_000, 1_600, ALL_SHORTCUTS):
        verdicts[verdict] += 1
        if verdict not in ALLOWED:
            wrong.append((verdict, case["name"], ours, go))

    assert wrong == []
    assert verdicts["equal"] > 1_500


@pytest.mark.nightly
def test_two_hundred_thousand_random_cases(each_oracle: Oracle) -> None:  # noqa: F811
    wrong = [
        (case["name"], ours, go)
        for verdict, case, ours, go in run(each_oracle, 4_000_000, 200_000, ALL_SHORTCUTS)
        if verdict not in ALLOWED
    ]

    assert wrong == []
