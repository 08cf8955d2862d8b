"""Semantic versions: strict and normalizing parsers, order, texts of errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cel.semver import Semver

_ASCENDING = [
    "0.0.0",
    "1.0.0-0",
    "1.0.0-1",
    "1.0.0-2",
    "1.0.0-11",
    "1.0.0-A",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0",
    "1.0.1",
    "1.9.0",
    "1.10.0",
    "2.0.0",
    "18446744073709551615.0.0",
]


def test_order_is_that_of_semver_org() -> None:
    versions = [Semver.parse(text) for text in _ASCENDING]
    assert sorted(versions) == versions
    for i, left in enumerate(versions):
        for j, right in enumerate(versions):
            assert left.compare_to(right) == (i > j) - (i < j)


def test_build_metadata_is_printed_but_not_compared() -> None:
    left, right = Semver.parse("1.0.0+a"), Semver.parse("1.0.0+b.1")
    assert left == right
    assert hash(left) == hash(right)
    assert str(right) == "1.0.0+b.1"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "Version string empty"),
        ("1.2", "No Major.Minor.Patch elements found"),
        ("v1.2.3", 'Invalid character(s) found in major number "v1"'),
        ("1.2.3 ", 'Invalid character(s) found in patch number "3 "'),
        ("1.02.3", 'Minor number must not contain leading zeroes "02"'),
        ("1..3", 'strconv.ParseUint: parsing "": invalid syntax'),
        (
            "18446744073709551616.0.0",
            'strconv.ParseUint: parsing "18446744073709551616": value out of range',
        ),
        ("1.2.3-", "Prerelease is empty"),
        ("1.2.3-01", 'Numeric PreRelease version must not contain leading zeroes "01"'),
        ("1.2.3-ä", 'Invalid character(s) found in prerelease "ä"'),
        ("1.2.3+", "Build meta data is empty"),
        ("1.2.3+a_b", 'Invalid character(s) found in build meta data "a_b"'),
    ],
)
def test_strict_parser_refuses(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        Semver.parse(text)
    assert str(caught.value) == error


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("v1", "1.0.0"),
        ("1.2", "1.2.0"),
        ("01.002.03", "1.2.3"),
        ("1.2.000-rc.1", "1.2.0-rc.1"),
        ("000.0.0", "0.0.0"),
    ],
)
def test_normalizing_parser_fills_in(text: str, want: str) -> None:
    assert str(Semver.parse_normalized(text)) == want


@pytest.mark.parametrize("text", ["V1.0.0", "vv1", " 1.0.0", "1.2+b", "1.2-rc", "1.x", "1.2.3.4", ""])
def test_normalizing_parser_refuses(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Semver.parse_normalized(text)


@given(st.text(alphabet="0123456789.v-+a ", max_size=12))
def test_parsers_give_a_version_or_a_value_error(text: str) -> None:
    for parse in (Semver.parse, Semver.parse_normalized):
        try:
            version = parse(text)
        except ValueError:
            continue
        assert Semver.parse(str(version)) == version


def test_a_version_equals_no_other_type() -> None:
    assert Semver.parse("1.0.0") != "1.0.0"
