"""The `oracle` fixture; import it where it is used (README.md)."""

from collections.abc import Iterator

import pytest

from tests.controlplane.build import built_or_skip
from tests.oracle.client import Oracle


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    built_or_skip("oracle")
    with Oracle() as running:
        yield running
