"""Quantities: parsing, canonical text, representation and arithmetic, as Go's resource.Quantity answers."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cel.quantity import EXPONENT_MAX, FORMAT_ERROR, LENGTH_MAX, NUMERIC_ERROR, SUFFIX_ERROR, Quantity

_UNIT = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", 1)},
    **{suffix + "i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", 1)},
}


@pytest.mark.parametrize(
    ("text", "canonical", "is_integer"),
    [
        ("80Gi", "80Gi", True),
        ("1.5Gi", "1536Mi", False),
        ("1000m", "1", False),
        ("10.0", "10", False),
        ("1023Ki", "1023Ki", True),
        ("2048Mi", "2Gi", True),
        ("-0.5Ki", "-512", False),
        ("16Ei", "9223372036854775807", False),
        ("99Ti", "99Ti", True),
        ("999Ti", "999Ti", False),
        ("1Pi", "1Pi", False),
        ("1P", "1P", True),
        ("1.5k", "1500", True),
        ("1e3", "1e3", True),
        ("15e-1", "1500e-3", False),
        ("0.5m", "500u", False),
        ("0.0000000001", "1n", False),
        ("-0.0000000001", "-1n", False),
        ("0.5n", "1n", False),
        ("1e-400", "1e-9", False),
        ("0.0", "0", False),
        ("-0", "0", True),
        ("-", "0", True),
        (".", "0", True),
        ("5.", "5.", True),
        ("+5", "+5", True),
        ("1.G", "1.G", True),
        ("100E", "100E", False),
        ("1000E", "1", False),  # Go knows no suffix for 10^21 and prints none
    ],
)
def test_parse_prints_and_classifies_as_go(text: str, canonical: str, is_integer: bool) -> None:
    quantity = Quantity.parse(text)
    assert (str(quantity), quantity.is_integer()) == (canonical, is_integer)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", FORMAT_ERROR),
        (" 1", FORMAT_ERROR),
        ("1 ", FORMAT_ERROR),
        ("1_0", FORMAT_ERROR),
        ("0x10", FORMAT_ERROR),
        ("1e+-3", FORMAT_ERROR),
        ("١", FORMAT_ERROR),
        ("1e", SUFFIX_ERROR),
        ("1K", SUFFIX_ERROR),
        ("1Kii", SUFFIX_ERROR),
        ("1ee3", SUFFIX_ERROR),
        ("1e99999999999999999999", SUFFIX_ERROR),
        (f"1e{EXPONENT_MAX + 1}", SUFFIX_ERROR),
        (".Pi", NUMERIC_ERROR),
    ],
)
def test_parse_refuses_with_upstream_text(text: str, error: str) -> None:
    with pytest.raises(ValueError, match="quantit") as caught:
        Quantity.parse(text)
    assert str(caught.value) == error


@given(
    st.integers(-(10**25), 10**25),
    st.integers(0, 12),
    st.sampled_from(sorted(_UNIT)),
)
def test_value_is_exact_and_rounds_away_from_zero_below_one_nano(digits: int, places: int, suffix: str) -> None:
    sign = "-" if digits < 0 else ""
    padded = str(abs(digits)).rjust(places + 1, "0")
    text = sign + padded[: len(padded) - places] + ("." + padded[len(padded) - places :] if places else "") + suffix
    exact = abs(Fraction(digits, 10**places) * _UNIT[suffix] * 10**9)
    want = -(-exact.numerator // exact.denominator)
    if suffix.endswith("i"):
        want = min(want, (2**63 - 1) * 10**9)
    assert Quantity.parse(text).nano == (-want if digits < 0 else want)


_quantities = st.builds(
    lambda number, suffix: Quantity.parse(f"{number}{suffix}"),
    st.one_of(st.integers(-(10**20), 10**20), st.decimals(-1000, 1000, places=3)),
    st.sampled_from(sorted(_UNIT)),
)


@given(_quantities, _quantities)
def test_arithmetic_and_order_agree_with_the_exact_value(a: Quantity, b: Quantity) -> None:
    assert a.add(b).nano == a.nano + b.nano
    assert a.sub(b).nano == a.nano - b.nano
    assert a.compare_to(b) == (a.nano > b.nano) - (a.nano < b.nano)
    assert ((a == b), (a < b), (a >= b)) == (a.nano == b.nano, a.nano < b.nano, a.nano >= b.nano)
    assert a != b or hash(a) == hash(b)


@given(_quantities)
def test_canonical_text_reads_back_as_the_same_value(quantity: Quantity) -> None:
    if abs(quantity.nano) < 10**30:  # above, Go prints no suffix
        assert Quantity.parse(str(quantity.add(Quantity.from_int(0)))).nano == quantity.nano


@pytest.mark.parametrize(
    ("text", "value"),
    [("1500m", 2), ("1Gi", 2**30), ("-1500m", -2), ("0", 0), ("1n", 1), ("7.0", 7), ("-1.5", -2), ("100E", 0)],
)
def test_ceil_int_is_go_value(text: str, value: int) -> None:
    assert Quantity.parse(text).ceil_int() == value


def test_format_follows_the_first_operand_that_is_not_zero() -> None:
    zero, binary, decimal = (Quantity.parse(text) for text in ("0", "1Gi", "1G"))
    assert str(zero.add(binary)) == "1Gi"
    assert str(binary.add(binary)) == "2Gi"
    assert str(decimal.add(Quantity.from_int(1, "DecimalExponent"))) == "1000000001"
    assert str(Quantity.from_int(1024 * 1024, "BinarySI")) == "1Mi"


def test_is_integer_stays_false_after_arithmetic_with_a_fraction() -> None:
    assert not Quantity.parse("500m").add(Quantity.parse("500m")).is_integer()
    assert Quantity.parse("1").add(Quantity.parse("1k")).as_integer() == 1001


def test_long_texts_are_read_up_to_a_length() -> None:
    digits = "9" * LENGTH_MAX
    assert str(Quantity.parse(digits)) == digits
    assert Quantity.parse(digits).as_approximate_float() == float("inf")
    assert Quantity.parse("0." + "0" * (LENGTH_MAX - 3) + "1").nano == 1
    largest = Quantity.parse(f"{digits[:-5]}e{EXPONENT_MAX}")
    assert str(largest.add(largest)).startswith("1999")
    with pytest.raises(ValueError, match=NUMERIC_ERROR):
        Quantity.parse(digits + "9")


def test_a_quantity_equals_no_other_type() -> None:
    assert Quantity.parse("1") != 1
    assert Quantity.parse("1") != "1"
    with pytest.raises(TypeError):
        Quantity.parse("1") < 1  # noqa: B015
