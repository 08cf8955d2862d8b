"""What the chart shares with the Kustomize manifests is the same, and no link: helm warns of each, every time."""

from __future__ import annotations

from pathlib import Path

import pytest

from manifests.chart_files import COPIES
from tests.manifests.rendering import CHART


@pytest.mark.parametrize("copy", COPIES, ids=lambda path: path.name)
def test_a_shared_file_is_the_same_in_the_chart(copy: Path) -> None:
    assert copy.read_bytes() == COPIES[copy].read_bytes(), "python -m manifests.chart_files"


def test_every_shared_file_is_one_of_them_and_nothing_is_a_link() -> None:
    assert {*(CHART / "files").iterdir()} == {*COPIES}
    assert [path for path in CHART.rglob("*") if path.is_symlink()] == []
