"""API timestamps (RFC 3339), as a moment and as Unix time in milliseconds.

Source: k8s.io/apimachinery v0.36.3 meta/v1 Time and MicroTime; the API server prints UTC with a trailing Z.
"""

from __future__ import annotations

from datetime import UTC, datetime


def parse_rfc3339(text: str) -> datetime | None:
    """The moment in UTC, or None when `text` is no timestamp with a time zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if moment.tzinfo is None else moment.astimezone(UTC)


def parse_rfc3339_ms(text: str) -> int | None:
    """Unix time in ms, or None when `text` is no timestamp with a time zone. Anything finer than 1 ms is cut off."""
    moment = parse_rfc3339(text)
    return None if moment is None else int(moment.timestamp()) * 1000 + moment.microsecond // 1000


def format_rfc3339(seconds: float) -> str:
    """Unix time as the API server prints it: whole seconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
