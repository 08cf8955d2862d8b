"""Random cases are made of recorded ones, which stay as they are."""

from __future__ import annotations

import orjson

from tests.plugins.random_cases import Generator
from tests.plugins.recorded_cases import recorded


def test_the_recorded_cases_are_not_written_to() -> None:
    generator = Generator()
    before = orjson.dumps(recorded())
    first = [orjson.dumps(generator.case(number)) for number in range(400)]
    assert orjson.dumps(recorded()) == before
    assert [orjson.dumps(generator.case(number)) for number in range(400)] == first
