"""RFC 3339 texts, as the API server writes them and as others may."""

from __future__ import annotations

import pytest

from scheduler.model.timestamps import format_rfc3339, parse_rfc3339, parse_rfc3339_ms


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("2026-01-02T03:04:05Z", 1_767_323_045_000),
        ("2026-01-02T04:04:05+01:00", 1_767_323_045_000),
        ("2026-01-02T03:04:05.250999Z", 1_767_323_045_250),
    ],
)
def test_texts_are_read(text: str, at_ms: int) -> None:
    assert parse_rfc3339_ms(text) == at_ms
    moment = parse_rfc3339(text)
    assert moment is not None
    assert format_rfc3339(moment.timestamp()) == "2026-01-02T03:04:05Z"


@pytest.mark.parametrize("text", ["yesterday", "2026-01-02T03:04:05", "", "2026-13-02T03:04:05Z"])
def test_texts_that_are_no_times(text: str) -> None:
    assert parse_rfc3339(text) is None
    assert parse_rfc3339_ms(text) is None
