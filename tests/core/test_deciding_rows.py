"""The benchmark of deciding alone binds the pods of every row of the scheduler_perf table, as small as can be."""

from __future__ import annotations

import pytest

from benchmarks.deciding_rows import chosen, measure

ROWS = list(chosen("scheduler-perf", ()))
# All of them take half a minute: others than every sixth are for the nightly run.
SOME = [
    pytest.param(row, id=row.name.replace(" ", "-"), marks=[pytest.mark.nightly] if number % 6 else [])
    for number, row in enumerate(ROWS)
]


@pytest.mark.slow
@pytest.mark.parametrize("change_slices", [False, True], ids=["", "slices-change"])
@pytest.mark.parametrize("entry", SOME)
def test_all_pods_of_a_row_are_bound(entry, change_slices) -> None:
    found = measure(entry.quick(), 10, change_slices=change_slices, profile=None)
    assert found["pods"] == 10
