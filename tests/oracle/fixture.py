"""The oracles' fixtures; import them where they are used (README.md)."""

from collections.abc import Iterator

import pytest

from tests.controlplane.build import VERSIONS, built_or_skip
from tests.oracle.client import Oracle


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    built_or_skip("oracle")
    with Oracle() as running:
        yield running


@pytest.fixture(scope="session")
def oracle_136() -> Iterator[Oracle]:
    """The oracle of 1.36, for what is not compared with 1.37 yet."""
    built_or_skip("oracle-1.36")
    with Oracle("1.36") as running:
        yield running


@pytest.fixture(scope="session", params=VERSIONS)
def each_oracle(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    """The oracle of each release in turn; `minor` says which."""
    built_or_skip(f"oracle-{request.param}")
    with Oracle(request.param) as running:
        yield running
