"""Live: random clusters and pods in the vocabulary of all plugins, asked here and at the released kube-scheduler."""

from __future__ import annotations

import pytest

from tests.oracle.client import Oracle
from tests.oracle.fixture import oracle  # noqa: F401 - a fixture
from tests.plugins.differential import run
from tests.plugins.recorded_cases import expected, recorded, without_post_filter

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(1800)]  # the first to run builds


def differing(oracle: Oracle, seed: int, cases: int) -> list[tuple[str, str, object, object]]:  # noqa: F811
    """Name, part, theirs and ours of each case that is not equal."""
    return [
        (case["name"], verdict, theirs.get(verdict, theirs), ours.get(verdict))
        for verdict, case, theirs, ours in run(oracle, seed, cases)
        if verdict != "equal"
    ]


def test_random_pods_get_kube_schedulers_answers(oracle: Oracle) -> None:  # noqa: F811
    assert differing(oracle, 1_000_000, 1_000) == []


def test_the_oracle_says_what_was_recorded(oracle: Oracle) -> None:  # noqa: F811
    """Every family's first cases: the recordings are this program's answers, too."""
    cases = [case for rows in recorded().values() for case in rows[:5]]
    answers = oracle.ask({"kind": "scheduler-verdicts", "cases": cases})["answers"]

    assert [expected(answer) for answer in answers] == [without_post_filter(expected(case["answer"])) for case in cases]


@pytest.mark.nightly
def test_fifty_thousand_random_pods(oracle: Oracle) -> None:  # noqa: F811
    assert differing(oracle, 2_000_000, 50_000) == []
