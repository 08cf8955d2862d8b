"""What kube-scheduler 1.36.3 said about 2,432 pods, and what we say: equal, part by part, or listed with the reason.

Which rows differ, and how: `python -m tests.plugins.recorded_cases [FAMILY [PART]]`.
"""

from __future__ import annotations

import pytest

from tests.plugins.recorded_cases import PARTS, differences, recorded

UNEQUAL: dict[str, tuple[str, str]] = {}
"""Families that are not equal in all rows: in which parts, and which plugins are missing. Exact both ways: whoever
makes a part equal in all rows strikes it here."""


@pytest.mark.parametrize("family", sorted(recorded()))
def test_answers_are_equal_or_listed(family: str) -> None:
    rows: dict[str, list[str]] = {}
    for name, part, _, _ in differences(family):
        rows.setdefault(part, []).append(name)
    listed, why = UNEQUAL.get(family, ("", ""))

    news = sorted(rows.keys() - set(listed.split()))
    assert news == [], (
        f"{len(rows[news[0]])} rows differ, see: python -m tests.plugins.recorded_cases {family} {news[0]}"
    )
    gone = sorted(set(listed.split()) - rows.keys())
    assert gone == [], f"{family} ({why}): equal in all rows now, strike {' '.join(gone)} from UNEQUAL"


def test_nothing_was_dropped() -> None:
    assert sum(map(len, recorded().values())) == 2432
    assert set(UNEQUAL) <= set(recorded())
    assert all(set(parts.split()) <= set(PARTS) for parts, _ in UNEQUAL.values())
