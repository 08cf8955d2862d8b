"""Of all tests of CEL: each begins with nothing spent, as each evaluation does."""

from __future__ import annotations

import pytest

from cel.library.values import begin


@pytest.fixture(autouse=True)
def nothing_spent() -> None:
    begin()
