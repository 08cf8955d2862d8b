"""The benchmark of deciding alone binds the pods of every row of the scheduler_perf table, as small as can be."""

from __future__ import annotations

import pytest

from benchmarks.deciding_rows import chosen, measure


@pytest.mark.parametrize("change_slices", [False, True], ids=["", "slices-change"])
@pytest.mark.parametrize("entry", list(chosen("scheduler-perf", ())), ids=lambda entry: entry.name.replace(" ", "-"))
def test_all_pods_of_a_row_are_bound(entry, change_slices) -> None:
    found = measure(entry.quick(), 10, change_slices=change_slices, profile=None)
    assert found["pods"] == 10
