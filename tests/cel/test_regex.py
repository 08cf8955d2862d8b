"""Patterns: what is accepted, what is found, what is charged."""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import re2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cel.library.regex import Regex, RegexError, compiled, find, find_all, regex_at_run_time
from cel.library.values import EFFORT, EFFORT_LIMIT, AbortedError, begin
from tests.cel import hostile_patterns


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        ("(", "missing closing ): `(`"),
        (")", "unexpected ): `)`"),
        ("[", "missing closing ]: `[`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{2,1}", "invalid repeat count: `{2,1}`"),
        ("((a{100}){100}){100}", "invalid repeat count: `{100}`"),
        (r"\1", r"invalid escape sequence: `\1`"),
        (r"\Z", r"invalid escape sequence: `\Z`"),
        (r"\q", r"invalid escape sequence: `\q`"),
        (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
        ("\\", "trailing backslash at end of expression: ``"),
        ("a(?=b)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?<!a)b", "invalid or unsupported Perl syntax: `(?<!`"),
        ("(?i-)", "invalid or unsupported Perl syntax: `(?i-)`"),
        ("(?P<1a b>c)", "invalid named capture: `(?P<1a b>`"),
        (r"\pX", r"invalid character class range: `\pX`"),
        (r"\p{Klingon}", r"invalid character class range: `\p{Klingon}`"),
        ("a++", "invalid nested repetition operator: `++`"),
        (r"[\C](?<a>\C", r"invalid escape sequence: `\C`"),
        (r"a\C", r"invalid escape sequence: `\C`"),
        ("(?P<é>a)", "invalid named capture: `(?P<é>`"),
    ],
)
def test_refuses_what_re2_refuses_in_go_words(pattern: str, error: str) -> None:
    with pytest.raises(RegexError) as caught:
        Regex(pattern)
    assert str(caught.value) == f"error parsing regexp: {error}"


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("", "", [""]),
        ("b+", "abbcb", ["bb", "b"]),
        ("a|ab", "ab", ["a"]),
        ("ab|a", "ab", ["ab"]),
        ("a*?", "aa", ["", "", ""]),
        ("(?U)a+", "aa", ["a", "a"]),
        (r"\bfoo\b", "foo food foo", ["foo", "foo"]),
        ("(?i)straße", "STRAßE", ["STRAßE"]),
        ("(?i)k", "kKK", ["k", "K", "K"]),
        ("^a", "a\na", ["a"]),
        ("(?m)^a$", "a\na", ["a", "a"]),
        ("a$", "a\n", []),
        (".", "\n", []),
        ("(?s).", "\n", ["\n"]),
        (r"\d", "1٣", ["1"]),
        (r"\pN", "1٣", ["1", "٣"]),
        (r"\p{Greek}+", "aβγ", ["βγ"]),
        (r"\Qa.b\E+", "a.bb", ["a.bb"]),
        ("[^a-y]", "az", ["z"]),
        ("[]a]", "]", ["]"]),
        (r"[\d\-x]+", "1-x", ["1-x"]),
        ("x{2,3}", "xxxxx", ["xxx", "xx"]),
        ("{", "{", ["{"]),
        ("a{,2}", "a{,2}", ["a{,2}"]),
        ("(a*)*", "b", ["", ""]),
        ("日.", "x日本", ["日本"]),
        ("", "日", ["", ""]),
        (r"\B", "aéb", []),
        (r"\\C", r"\C", [r"\C"]),
        (r"\Q\C\E", r"\C", [r"\C"]),
        ("[(?<é>[:alpha:]]+", "(é)b", ["(é", "b"]),
        ("[]\\]]+", "]", ["]"]),
        ("(?<n>a)(?P<m>b)", "ab", ["ab"]),
    ],
)
def test_finds_leftmost_first_matches(pattern: str, text: str, found: list[str]) -> None:
    assert find_all(text, pattern) == found
    assert find(text, pattern) == next(iter(found), "")
    assert Regex(pattern).search(text) is bool(found)


@pytest.mark.parametrize(("limit", "found"), [(-1, ["1", "2", "3"]), (2, ["1", "2"]), (0, [])])
def test_find_all_stops_at_the_limit(limit: int, found: list[str]) -> None:
    assert find_all("1 2 3", r"\d", limit) == found


# --- Python's engine is the reference

# Python finds no \B in the empty text before 3.14, so there is none.
_PLAIN = (
    "a",
    "b",
    "[ab]",
    "[^a]",
    ".",
    "x",
    "(a)",
    "a?",
    "b*",
    "(?:b|x)",
    "^",
    "$",
    r"[a-c]+?",
    r"\b",
    r"\B",
    "é",
    "(?:)",
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.sampled_from(_PLAIN), max_size=5),
    st.lists(st.text("abxé日\n", min_size=1, max_size=8), min_size=1, max_size=3),
)
def test_finds_what_an_engine_that_backtracks_finds(parts: list[str], texts: list[str]) -> None:
    pattern = "".join(parts)
    theirs = re.compile(pattern.replace("$", r"\Z"), re.ASCII)
    ours = Regex(pattern)
    for text in texts:
        found = theirs.search(text)
        assert ours.search(text) is (found is not None)
        assert find_all(text, ours, 1) == ([] if found is None else [found[0]])


# --- effort


def effort_of(function: Callable[[], object]) -> int:
    """What it spends; more than the limit is as much as the limit."""
    begin()
    with suppress(AbortedError, RegexError):
        function()
    return min(EFFORT[0], EFFORT_LIMIT)


@pytest.mark.parametrize("name", hostile_patterns.WITH_TEXTS)
def test_effort_depends_on_sizes_and_not_on_what_is_remembered(name: str) -> None:
    pattern, text = (part.replace("\\\\", "\\") for part in hostile_patterns.WITH_TEXTS[name])
    regex = Regex(pattern)
    efforts = [effort_of(lambda: regex.search(text)) for _ in range(3)]
    assert len(set(efforts)) == 1
    assert efforts[0] >= len(text) * len(pattern) // 100
    assert effort_of(lambda: regex.search(text + "z" * 99)) > efforts[0] or efforts[0] == EFFORT_LIMIT


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the patterns that RE2 is asked to compile."""
    lengths = []
    compile_pattern = re2.compile

    def counted(pattern: bytes, options: Any) -> Any:
        lengths.append(len(pattern))
        return compile_pattern(pattern, options)

    monkeypatch.setattr(re2, "compile", counted)
    return lengths


@pytest.mark.parametrize("pattern", [r"\pL" * 3400, "a{1000}" * 1400, "(?i)" + r"[^\PL]" * 1600, "a{0,99}" * 1400])
def test_what_takes_long_to_read_is_refused_before_it_is_read(pattern: str, compilations: list[int]) -> None:
    with pytest.raises(RegexError, match="expression too large"):
        compiled({}, pattern)
    begin()
    with pytest.raises(AbortedError):
        regex_at_run_time(pattern)
    assert not compilations


@pytest.mark.parametrize("pattern", [r"\pL{1000}", "(abcdefghij){1000}", "(a{0,100}b){10}" + ".{1000}"])
def test_a_program_too_large_is_refused_and_charged(pattern: str) -> None:
    with pytest.raises(RegexError, match="expression too large"):
        Regex(pattern)
    assert effort_of(lambda: regex_at_run_time(pattern)) > EFFORT_LIMIT // 2


@pytest.mark.parametrize("each", ["a{{0,500}}{}", r"\pL\pN{}", r"\pL{{900}}{}", "({}"])
def test_patterns_of_one_expression_share_what_compiling_may_take(each: str, compilations: list[int]) -> None:
    patterns: dict[str, Regex | RegexError] = {}
    last = ""
    for _ in range(2):
        for number in range(2000):
            try:
                compiled(patterns, each.format(number))
            except RegexError as error:
                last = str(error)
    assert "expression too large" in last
    assert len(patterns) == 2000
    assert len(compilations) < 1500
    assert sum(one.effort for one in patterns.values()) < 2 * EFFORT_LIMIT
