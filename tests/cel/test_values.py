"""CEL values: equality, order, arithmetic with overflow, maps, times."""

import datetime
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cel.errors import EvaluationError
from cel.integers import UInt
from cel.library import arithmetic, timestamp_functions, values
from cel.library.values import NONE, ComputedQuantity, Duration, Map, Optional, Timestamp, TypeValue, equal
from cel.quantity import Quantity
from cel.semver import Semver

INT_MAX, INT_MIN, UINT_MAX = 2**63 - 1, -(2**63), 2**64 - 1


@pytest.mark.parametrize(
    ("left", "right", "is_equal"),
    [
        (1, 1.0, True),
        (1, UInt(1), True),
        (UInt(1), 1.0, True),
        (True, 1, False),
        (1, True, False),
        (False, 0.0, False),
        ("1", 1, False),
        (None, None, True),
        (None, 0, False),
        (math.nan, math.nan, False),
        (2**53 + 1, float(2**53), True),  # cel-go compares as doubles
        (b"a", "a", False),
        ([1, 2.0], [UInt(1), 2], True),
        ([True], [1], False),
        ([1], [1, 2], False),
        ([], {}, False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"b": 1}, False),
        ({}, Map(), True),
        (Map([(1, "x")]), Map([(UInt(1), "x")]), True),
        (Map([(True, "x")]), Map([(1, "x")]), False),
        (Optional(1), Optional(1.0), True),
        (Optional(None), NONE, False),
        (NONE, NONE, True),
        (TypeValue("int"), TypeValue("int"), True),
        (Duration(1), Duration(1), True),
        (Duration(0), 0, False),
        (Timestamp(0, 3600), Timestamp(0), True),
        (Quantity.parse("1"), Quantity.parse("1000m"), True),
        ("1", Quantity.parse("1"), False),
        (None, Quantity.parse("1"), False),
        (Quantity.parse("1"), None, False),
        (ComputedQuantity(1, 0, False, "DecimalSI"), Quantity.parse("1"), True),
        (Semver.parse("1.0.0+a"), Semver.parse("1.0.0+b"), True),
        # An error inside of a list or map is no "false" to cel-go.
        ([Quantity.parse("1")], ["1"], True),
    ],
)
def test_equality(left: Any, right: Any, is_equal: bool) -> None:
    assert equal(left, right) is is_equal


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (Quantity.parse("1"), "1"),
        (Semver.parse("1.0.0"), "1.0.0"),
        (Semver.parse("1.0.0"), Quantity.parse("1")),
        (Quantity.parse("1"), ComputedQuantity(1, 0, False, "DecimalSI")),
    ],
)
def test_equality_of_an_opaque_type_on_the_left_is_an_error(left: Any, right: Any) -> None:
    with pytest.raises(EvaluationError, match=r"^no such overload$"):
        equal(left, right)


_numbers = st.one_of(
    st.integers(INT_MIN, INT_MAX), st.integers(0, UINT_MAX).map(UInt), st.floats(allow_nan=False), st.booleans()
)


@given(_numbers, _numbers)
def test_equality_and_order_of_numbers_are_consistent(left: Any, right: Any) -> None:
    assert equal(left, right) is equal(right, left)
    if bool in (left.__class__, right.__class__):
        assert equal(left, right) is (left is right)
        return
    order = values.compare(left, right)
    assert order == -values.compare(right, left)
    assert (order == 0) is equal(left, right)
    assert values.less(left, right) is (order < 0)
    assert values.greater_equals(left, right) is (order >= 0)


@pytest.mark.parametrize(
    ("left", "right", "error"),
    [
        (math.nan, 1, "NaN values cannot be ordered"),
        (1, math.nan, "NaN values cannot be ordered"),
        (1, "a", "no such overload"),
        ("a", 1, "no such overload"),
        ([1], [2], "no such overload: _<_"),
        (Quantity.parse("1"), Quantity.parse("2"), "no such overload: _<_"),
        (None, 1, "no such overload: _<_"),
    ],
)
def test_what_has_no_order(left: Any, right: Any, error: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        values.less(left, right)
    assert str(caught.value) == error


@pytest.mark.parametrize(
    ("operation", "left", "right", "result"),
    [
        (arithmetic.add, INT_MAX, 1, "integer overflow"),
        (arithmetic.subtract, INT_MIN, 1, "integer overflow"),
        (arithmetic.multiply, INT_MIN, -1, "integer overflow"),
        (arithmetic.divide, INT_MIN, -1, "integer overflow"),
        (arithmetic.divide, 7, 0, "division by zero"),
        (arithmetic.divide, 7, -2, -3),
        (arithmetic.divide, -7, 2, -3),
        (arithmetic.modulo, -7, 2, -1),
        (arithmetic.modulo, 7, -2, 1),
        (arithmetic.modulo, 7, 0, "modulus by zero"),
        (arithmetic.modulo, INT_MIN, -1, "integer overflow"),
        (arithmetic.add, UInt(UINT_MAX), UInt(1), "unsigned integer overflow"),
        (arithmetic.subtract, UInt(1), UInt(2), "unsigned integer overflow"),
        (arithmetic.divide, 1.0, 0.0, math.inf),
        (arithmetic.divide, -1.0, 0.0, -math.inf),
        (arithmetic.divide, 1.0, -0.0, -math.inf),
        (arithmetic.add, "a", "b", "ab"),
        (arithmetic.add, b"a", b"b", b"ab"),
        (arithmetic.add, [1], [2], [1, 2]),
        (arithmetic.add, 1, 1.0, "no such overload"),
        (arithmetic.add, None, 1, "no such overload: _+_"),
        (arithmetic.subtract, "a", "b", "no such overload"),
        (arithmetic.multiply, "a", 2, "no such overload"),
        (arithmetic.multiply, [1], 2, "no such overload: _*_"),
        (arithmetic.modulo, 1.0, 2.0, "no such overload: _%_"),
        (arithmetic.add, Timestamp(0), Duration(1), Timestamp(1)),
        (arithmetic.subtract, Timestamp(5), Timestamp(3), Duration(2)),
        (arithmetic.add, Duration(INT_MAX), Duration(1), "integer overflow"),
        (arithmetic.add, Timestamp(values.MAX_UNIX_SECONDS * 10**9), Duration(10**9), "timestamp overflow"),
    ],
)
def test_arithmetic(operation: Any, left: Any, right: Any, result: Any) -> None:
    try:
        outcome = operation(left, right)
    except EvaluationError as error:
        outcome = str(error)
    assert outcome == result
    assert isinstance(outcome, str) or outcome.__class__ is result.__class__


@given(st.integers(INT_MIN, INT_MAX), st.integers(INT_MIN, INT_MAX))
def test_division_and_modulo_fit_together(left: int, right: int) -> None:
    if right and (left, right) != (INT_MIN, -1):
        quotient, remainder = arithmetic.divide(left, right), arithmetic.modulo(left, right)
        assert quotient * right + remainder == left
        assert abs(remainder) < abs(right)


def test_negation() -> None:
    assert arithmetic.negate(Duration(5)) == Duration(-5)
    for value, error in ((INT_MIN, "integer overflow"), (True, "no such overload"), (UInt(1), "no such overload: -_")):
        with pytest.raises(EvaluationError, match=f"^{error}$"):
            arithmetic.negate(value)


# --- collections


def test_keys_of_maps_find_each_other_by_value_but_stay_apart_by_type() -> None:
    mapping = values.make_map([(1, "int"), (UInt(2), "uint"), (True, "bool"), ("1", "text"), (1.5, "double")])
    assert isinstance(mapping, Map)
    assert len(mapping) == 5
    found = {key: values.map_find(mapping, key) for key in (1.0, 2, "1", 1.5)}
    assert found == {1.0: "int", 2: "uint", "1": "text", 1.5: "double"}
    assert values.map_find(mapping, UInt(1)) == "int"
    assert values.map_find(mapping, True) == "bool"
    assert values.map_find(mapping, False) is values.MISSING
    assert values.map_find(mapping, math.nan) is values.MISSING


def test_a_map_keeps_what_both_kinds_of_integer_say() -> None:
    mapping = Map([(1, "int"), (UInt(1), "uint")])
    assert values.map_find(mapping, 1) == "int"
    assert values.map_find(mapping, UInt(1)) == "uint"
    assert values.map_find(mapping, 1.0) == "int"


def test_what_go_cannot_hash_ends_the_evaluation() -> None:
    with pytest.raises(values.AbortedError, match=r"hash of unhashable type cel\.Semver"):
        values.map_find(Map([(1, 1)]), Semver.parse("1.0.0"))


def test_membership_counts_errors_as_not_equal() -> None:
    versions = [Semver.parse("1.0.0"), Semver.parse("2.0.0")]
    assert values.contains(Semver.parse("2.0.0"), versions)
    assert not values.contains("2.0.0", versions)
    assert not values.contains(Quantity.parse("1"), versions)
    assert values.contains(1.0, [UInt(1)])
    assert not values.contains(True, [1])
    with pytest.raises(EvaluationError, match=r"^no such overload$"):
        values.contains("a", "abc")


def test_unknown_domains_read_as_empty_maps() -> None:
    domains = values.DefaultMap({"a": {"x": 1}})
    assert values.map_find(domains, "b") == {}
    assert values.map_find(domains, 0) == {}
    assert not values.contains("b", domains)


# --- times


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("2009-02-13T23:31:30Z", "2009-02-13T23:31:30Z"),
        ("2009-02-13T23:31:30.120+01:00", "2009-02-13T23:31:30.12+01:00"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999999Z"),
        ("2000-02-29T01:02:03-00:00", "2000-02-29T01:02:03Z"),
    ],
)
def test_timestamps_print_as_they_were_written(text: str, printed: str) -> None:
    assert timestamp_functions.format_timestamp(timestamp_functions.parse_timestamp(text)) == printed


@pytest.mark.parametrize(
    "text",
    [
        "2023-02-29T00:00:00Z",
        "2024-01-01 00:00:00Z",
        "2024-01-01T24:00:00Z",
        "2024-13-01T00:00:00Z",
        "2024-01-01T00:00:00",
        "",
    ],
)
def test_impossible_timestamps(text: str) -> None:
    with pytest.raises(ValueError, match="parsing time"):
        timestamp_functions.parse_timestamp(text)


def of_time(getter: str, moment: Timestamp, zone: str = "") -> int:
    return timestamp_functions.GETTERS[getter][0](moment, zone)


@given(st.datetimes(timezones=st.just(datetime.UTC)))
def test_calendar_agrees_with_datetime(moment: datetime.datetime) -> None:
    delta = moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    seconds = delta.days * 86400 + delta.seconds
    stamp = Timestamp(seconds * 10**9 + delta.microseconds * 1000)
    fields = (
        of_time("year", stamp),
        of_time("month", stamp) + 1,
        of_time("day_of_month_1_based", stamp),
        of_time("hours", stamp),
        of_time("minutes", stamp),
        of_time("seconds", stamp),
    )
    assert fields == (moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second)
    assert of_time("day_of_year", stamp) + 1 == moment.timetuple().tm_yday
    assert of_time("day_of_week", stamp) == moment.isoweekday() % 7
    assert timestamp_functions.parse_timestamp(timestamp_functions.format_timestamp(stamp)) == stamp


@pytest.mark.parametrize(
    ("text", "nanos", "printed"),
    [
        ("1h30m", 5400 * 10**9, "5400s"),
        ("-1.5s", -1_500_000_000, "-1.5s"),
        ("0", 0, "0s"),
        ("1ns", 1, "0.000000001s"),
        (".5s", 500_000_000, "0.5s"),
        ("1µs", 1000, "0.000001s"),
        ("-2562047h47m16.854775808s", INT_MIN, "-9223372036.854776s"),
    ],
)
def test_durations(text: str, nanos: int, printed: str) -> None:
    span = timestamp_functions.parse_duration(text)
    assert (span.nanos, timestamp_functions.format_duration(span)) == (nanos, printed)


@pytest.mark.parametrize("text", ["", "1", "1x", "s", ".s", "1h-1m", "2562047h47m16.854775808s", "1 s", "+", "1d"])
def test_impossible_durations(text: str) -> None:
    with pytest.raises(ValueError, match="time: "):
        timestamp_functions.parse_duration(text)


@pytest.mark.parametrize(
    ("zone", "hour"),
    [("", 0), ("UTC", 0), ("+05:30", 5), ("-02:30", 21), ("Asia/Kolkata", 5), ("America/New_York", 19)],
)
def test_time_zones(zone: str, hour: int) -> None:
    assert of_time("hours", Timestamp(0), zone) == hour


@pytest.mark.parametrize("zone", ["Nowhere/City", "../etc/passwd", "a:b", ":", "+1"])
def test_unknown_time_zones_are_errors(zone: str) -> None:
    with pytest.raises(EvaluationError):
        of_time("hours", Timestamp(0), zone)
