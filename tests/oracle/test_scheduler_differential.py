"""Live: random clusters and pods in the vocabulary of all plugins, asked here and at the released kube-scheduler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from allocator import Features
from tests.answers.verdicts import Cases
from tests.oracle.client import Oracle
from tests.oracle.fixture import each_oracle, oracle, oracle_136  # noqa: F401 - fixtures
from tests.plugins.differential import RESIZED, run
from tests.plugins.recorded_cases import PARTS, expected, is_equal, recorded
from tests.plugins.recorded_cases import ours as answered
from tests.plugins.test_releases import CASES

pytestmark = pytest.mark.oracle


Difference = tuple[str, str, object, object]


def differing(asked: Oracle, seed: int, cases: int, met: Counter[str] | None = None) -> list[Difference]:
    """Name, part, theirs and ours of each case that is not equal; and, in `met`, what preemption did in the others."""
    found: list[Difference] = []
    for verdict, case, theirs, ours in run(asked, seed, cases):
        if verdict not in ("equal", RESIZED):
            found.append((case["name"], verdict, theirs.get(verdict, theirs), ours.get(verdict)))
        elif met is not None:
            met.update(_met(theirs["preemption"]))
    return found


def _met(preemption: tuple[str, str, Any] | None) -> Iterator[str]:
    if preemption is None:
        return
    code, _, nominated = preemption
    if code != "Success":
        yield "nobody can be removed"
        return
    yield "nominated"
    if len(nominated) > 1:
        yield "several nodes would do"
    if any(one["pdbViolations"] for one in nominated.values()):
        yield "a budget is violated"


def test_random_pods_get_the_newest_kube_schedulers_answers(oracle: Oracle) -> None:  # noqa: F811
    assert differing(oracle, 5_000_000, 600) == []


def test_random_pods_get_kube_schedulers_answers(oracle_136: Oracle) -> None:  # noqa: F811
    met: Counter[str] = Counter()
    differ = differing(oracle_136, 1_000_000, 1_000, met)
    assert differ == []
    # They met 142, 5, 14 and 468 when this was written.
    assert met["nominated"] >= 100
    assert met["several nodes would do"] >= 3
    assert met["a budget is violated"] >= 5
    assert met["nobody can be removed"] >= 300


def test_the_oracle_says_what_was_recorded(oracle_136: Oracle) -> None:  # noqa: F811
    """Every family's first cases: the recordings are this program's answers, too."""
    cases = [case for rows in recorded().values() for case in rows[:5]]
    answers = oracle_136.ask({"kind": "scheduler-verdicts", "cases": cases})["answers"]

    assert [expected(answer) for answer in answers] == [expected(case["answer"]) for case in cases]


@pytest.mark.nightly
def test_fifty_thousand_random_pods(oracle_136: Oracle) -> None:  # noqa: F811
    assert differing(oracle_136, 2_000_000, 50_000) == []


def test_each_release_says_what_ours_says_for_it(each_oracle: Oracle) -> None:  # noqa: F811
    cases = [case for case, *_ in CASES.values()]
    answers = each_oracle.ask({"kind": "scheduler-verdicts", "cases": cases})["answers"]

    reader = Cases(Features(kubernetes=each_oracle.minor))
    for case, answer in zip(cases, answers, strict=True):
        theirs, mine = expected(answer), answered(reader, case)
        assert [part for part in PARTS if not is_equal(part, theirs[part], mine[part])] == [], case["name"]
