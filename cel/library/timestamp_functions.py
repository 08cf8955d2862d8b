"""Timestamps and durations: reading, printing, calendar fields and time zones.

Source: Go 1.26, package time (`Parse(RFC3339)`, `ParseDuration`, `Format(RFC3339Nano)`), cel-go common/types
timestamp.go and duration.go, and common/stdlib (`timestampGet*`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from cel.errors import EvaluationError
from cel.gotext import quote, shortest_decimal
from cel.integers import INT_MAX
from cel.library.values import MAX_UNIX_SECONDS, MIN_UNIX_SECONDS, Duration, Timestamp, spend

_SECOND: Final = 10**9
_UNIT_NANOS: Final = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_DIGITS: Final = frozenset("0123456789")


def parse_duration(text: str) -> Duration:
    """Read `1h30m`, `-1.5s`, `0` as Go's `time.ParseDuration`.

    Raises:
        ValueError: with Go's text.
    """
    rest = text
    is_negative = rest[:1] == "-"
    if rest[:1] in ("+", "-"):
        rest = rest[1:]
    if rest == "0":
        return Duration(0)
    if not rest:
        raise ValueError(f"time: invalid duration {quote(text)}")
    total = 0
    while rest:
        nanos, rest = _duration_part(rest, text)
        total += nanos
        if total > 2**63:
            raise ValueError(f"time: invalid duration {quote(text)}")
    if is_negative:
        return Duration(-total)
    if total > INT_MAX:
        raise ValueError(f"time: invalid duration {quote(text)}")
    return Duration(total)


def _duration_part(rest: str, text: str) -> tuple[int, str]:
    """The nanoseconds of the leading number with unit, and what follows it."""
    whole, rest = _leading_digits(rest)
    fraction = ""
    if rest[:1] == ".":
        fraction, rest = _leading_digits(rest[1:])
    if (not whole and not fraction) or len(whole.lstrip("0")) > 19:
        raise ValueError(f"time: invalid duration {quote(text)}")
    end = 0
    while end < len(rest) and rest[end] != "." and rest[end] not in _DIGITS:
        end += 1
    if end == 0:
        raise ValueError(f"time: missing unit in duration {quote(text)}")
    unit = _UNIT_NANOS.get(rest[:end])
    if unit is None:
        raise ValueError(f"time: unknown unit {quote(rest[:end])} in duration {quote(text)}")
    nanos = int(whole or "0") * unit
    if fraction:
        # Go keeps the digits that fit int64 and multiplies as a double.
        digits = fraction[:18]
        nanos += int(int(digits) * (unit / 10 ** len(digits)))
    return nanos, rest[end:]


def _leading_digits(text: str) -> tuple[str, str]:
    end = 0
    while end < len(text) and text[end] in _DIGITS:
        end += 1
    return text[:end], text[end:]


def parse_timestamp(text: str) -> Timestamp:
    """Read RFC 3339 as Go's `time.Parse` (one digit for the hour and a decimal comma pass, too).

    Raises:
        ValueError: when it is none, or outside of years 1..9999 (then "timestamp overflow").
    """
    match = re.fullmatch(
        r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))",
        text,
    )
    if match is None:
        raise ValueError(f"parsing time {quote(text)}: not RFC 3339")
    year, month, day, hour, minute, second = map(int, match.group(1, 2, 3, 4, 5, 6))
    offset = 0
    if match[8]:
        hours, minutes = int(match[9]), int(match[10])
        if hours > 24 or minutes > 60:
            raise ValueError(f"parsing time {quote(text)}: time zone offset out of range")
        offset = (hours * 3600 + minutes * 60) * (-1 if match[8] == "-" else 1)
    try:
        time(hour, minute, second)
        days = _days_from_1970(year, month, day)
    except ValueError:
        raise ValueError(f"parsing time {quote(text)}: out of range") from None
    seconds = days * 86400 + hour * 3600 + minute * 60 + second - offset
    if not MIN_UNIX_SECONDS <= seconds <= MAX_UNIX_SECONDS:
        raise ValueError("timestamp overflow")
    return Timestamp(seconds * _SECOND + int((match[7] or "")[:9].ljust(9, "0")), offset)


def format_timestamp(moment: Timestamp) -> str:
    """RFC 3339 with the fraction it needs, in the zone it was written with."""
    seconds, nanos = divmod(moment.nanos, _SECOND)
    days, clock = divmod(seconds + moment.offset, 86400)
    year, month, day = _date(days)
    text = f"{year:04d}-{month:02d}-{day:02d}T{clock // 3600:02d}:{clock // 60 % 60:02d}:{clock % 60:02d}"
    if nanos:
        text += "." + f"{nanos:09d}".rstrip("0")
    if moment.offset == 0:
        return text + "Z"
    minutes = abs(moment.offset) // 60
    return f"{text}{'-' if moment.offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def format_duration(span: Duration) -> str:
    """Seconds as the shortest decimal, and `s`: `90s`, `0.000000001s`."""
    return f"{shortest_decimal(seconds_of(span))}s"


def go_duration(span: Duration) -> str:
    """Go's own text of a duration: `1h30m0s`, `1.5ms`."""
    nanos = abs(span.nanos)
    sign = "-" if span.nanos < 0 else ""
    if nanos == 0:
        return "0s"
    if nanos < _SECOND:
        unit, name = next((u, n) for u, n in ((10**6, "ms"), (1000, "µs"), (1, "ns")) if nanos >= u)
        return f"{sign}{_decimal(nanos, unit)}{name}"
    minutes_, rest = divmod(nanos, 60 * _SECOND)
    hours_, minutes_ = divmod(minutes_, 60)
    text = f"{_decimal(rest, _SECOND)}s"
    if hours_:
        text = f"{hours_}h{minutes_}m{text}"
    elif minutes_:
        text = f"{minutes_}m{text}"
    return sign + text


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    fraction = str(unit + rest)[1:].rstrip("0")
    return f"{whole}.{fraction}" if fraction else str(whole)


def go_time(moment: Timestamp) -> str:
    """Go's own text of a time: `2024-02-29 13:30:45 +0000 UTC`."""
    text = format_timestamp(Timestamp(moment.nanos + moment.offset * _SECOND))[:-1].replace("T", " ")
    minutes_ = abs(moment.offset) // 60
    zone = f"{'-' if moment.offset < 0 else '+'}{minutes_ // 60:02d}{minutes_ % 60:02d}"
    return f"{text} {zone} {zone if moment.offset else 'UTC'}"


def seconds_of(span: Duration) -> float:
    """Go's `Duration.Seconds`: whole seconds and the rest, each truncated toward zero, added as doubles."""
    return _in_units(span, _SECOND)


def _in_units(span: Duration, unit: int) -> float:
    whole, rest = divmod(abs(span.nanos), unit)
    value = float(whole) + float(rest) / unit
    return -value if span.nanos < 0 else value


# --- calendar


_ERA_DAYS: Final = 146_097
"""Of 400 years, after which the Gregorian calendar begins anew: `date` knows the years 1 to 9999 alone."""
_DAYS_TO_1970: Final = 719_162
"""From the first of January of year 1."""


def _days_from_1970(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the proleptic Gregorian calendar, any year. Raises ValueError where there is no such."""
    era, year = divmod(year - 1, 400)
    return era * _ERA_DAYS + date(year + 1, month, day).toordinal() - 1 - _DAYS_TO_1970


def _date(days: int) -> tuple[int, int, int]:
    """The inverse of `_days_from_1970`."""
    era, day = divmod(days + _DAYS_TO_1970, _ERA_DAYS)
    found = date.fromordinal(day + 1)
    return found.year + era * 400, found.month, found.day


def _zone_offset(seconds: int, zone: str) -> int:
    """Seconds east of UTC of a zone name or `+hh:mm` at an instant."""
    spend(25 + len(zone) // 8)
    hours_text, colon, minutes_text = zone.partition(":")
    if colon:
        hours, minutes = _atoi(hours_text), _atoi(minutes_text)
        return (hours * 60 - minutes if zone[0] == "-" else hours * 60 + minutes) * 60
    if zone in ("", "UTC"):
        return 0
    if ".." in zone or zone[0] in "/\\":
        raise EvaluationError("time: invalid location name")
    spend(1_000 + len(zone))  # as much as looking for a file takes
    import zoneinfo  # noqa: PLC0415 - only for named zones

    try:
        info = zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise EvaluationError(f"unknown time zone {zone}") from error
    utc = datetime(1970, 1, 1, tzinfo=UTC)
    # datetime cannot add an offset across its ends; a day inside has the same rules.
    bounded = min(max(seconds, MIN_UNIX_SECONDS + 2 * 86400), MAX_UNIX_SECONDS - 2 * 86400)
    offset = (utc + timedelta(seconds=bounded)).astimezone(info).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def _atoi(text: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits or not _DIGITS.issuperset(digits):
        raise EvaluationError(f"strconv.Atoi: parsing {quote(text)}: invalid syntax")
    if len(digits) > 18:
        raise EvaluationError(f"strconv.Atoi: parsing {quote(text)}: value out of range")
    return int(text)


def _local(moment: Timestamp, zone: str) -> tuple[int, int]:
    """Days since 1970 and seconds of the day, in the zone."""
    seconds = moment.nanos // _SECOND
    return divmod(seconds + _zone_offset(seconds, zone), 86400)


def _day_of_year(moment: Timestamp, zone: str = "") -> int:
    days = _local(moment, zone)[0]
    return days - _days_from_1970(_date(days)[0], 1, 1)


def _milliseconds(moment: Timestamp, zone: str = "") -> int:
    _local(moment, zone)  # a bad zone is an error here, too
    return moment.nanos % _SECOND // 10**6


GETTERS: Final[dict[str, tuple[Callable[..., int], Callable[[Any], int] | None]]] = {
    "year": (lambda moment, zone="": _date(_local(moment, zone)[0])[0], None),
    "month": (lambda moment, zone="": _date(_local(moment, zone)[0])[1] - 1, None),
    "day_of_year": (_day_of_year, None),
    "day_of_month": (lambda moment, zone="": _date(_local(moment, zone)[0])[2] - 1, None),
    "day_of_month_1_based": (lambda moment, zone="": _date(_local(moment, zone)[0])[2], None),
    "day_of_week": (lambda moment, zone="": (_local(moment, zone)[0] + 4) % 7, None),
    "hours": (
        lambda moment, zone="": _local(moment, zone)[1] // 3600,
        lambda span: int(_in_units(span, 3600 * _SECOND)),
    ),
    "minutes": (
        lambda moment, zone="": _local(moment, zone)[1] // 60 % 60,
        lambda span: int(_in_units(span, 60 * _SECOND)),
    ),
    "seconds": (
        lambda moment, zone="": _local(moment, zone)[1] % 60,
        lambda span: int(_in_units(span, _SECOND)),
    ),
    "milliseconds": (_milliseconds, lambda span: abs(span.nanos) // 10**6 * (-1 if span.nanos < 0 else 1)),
}
"""By what overloads call it: the getter of a timestamp (with zone), and of a duration where there is one.

Months, days of the month and of the year count from 0 unless it says so; Sunday is 0.
"""
