"""The oracles' fixtures; import them where they are used (README.md)."""

from collections.abc import Iterator

import pytest

from tests.controlplane.build import BETAS, MINOR, VERSIONS, built_or_skip
from tests.oracle.client import Oracle


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    yield from _running(MINOR)


@pytest.fixture(scope="session")
def oracle_136() -> Iterator[Oracle]:
    """The oracle of 1.36, for what is not compared with 1.37 yet."""
    yield from _running("1.36")


@pytest.fixture(scope="session", params=VERSIONS | BETAS)
def each_oracle(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    """The oracle of each release in turn, a beta's where it is asked for; `minor` says which."""
    yield from _running(request.param)


def _running(minor: str) -> Iterator[Oracle]:
    built_or_skip(f"oracle-{minor}")
    with Oracle(minor) as running:
        yield running
