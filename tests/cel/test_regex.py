"""Patterns: what is accepted, what is found, in how many steps; google-re2 is the reference where it is installed."""

import random
import re
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cel.library import regex as module
from cel.library.regex import Regex, RegexError, compiled, find_all, remembered_words
from cel.library.values import EFFORT, EFFORT_LIMIT, REMEMBERED, AbortedError, begin
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
        ("(?<!a)b", "invalid named capture: `(?<!a)b`"),
        ("(?i-)", "invalid or unsupported Perl syntax: `(?i-)`"),
        ("(?P<1a b>c)", "invalid named capture: `(?P<1a b>`"),
        (r"\pX", r"invalid character class range: `\pX`"),
        (r"\p{Klingon}", r"invalid character class range: `\p{Klingon}`"),
        ("a++", "invalid nested repetition operator: `++`"),
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
    ],
)
def test_finds_leftmost_first_matches(pattern: str, text: str, found: list[str]) -> None:
    assert find_all(text, pattern) == found
    assert Regex(pattern).search(text) is bool(found)


@pytest.mark.parametrize(("limit", "found"), [(-1, ["1", "2", "3"]), (2, ["1", "2"]), (0, [])])
def test_find_all_stops_at_the_limit(limit: int, found: list[str]) -> None:
    assert find_all("1 2 3", r"\d", limit) == found


# --- the automata and the set of texts agree with each other, with Python's engine and with RE2

_ATOMS = (
    "a", "b", "c", ".", "[ab]", "[^a]", r"\d", r"\w", r"\W", "x", "(a)", "(?:b)", "^", "$", r"\b", r"\B", "é", r"\n",
    "[[:alpha:]]", r"\.", "(?i:A)", "1", "_", "-", " ", r"\s", "k", r"[\d-z]", "[a-c]", "(?i:k)",
)  # fmt: skip
_TEXTS = st.text(alphabet="aabbck1_- \nxéAKſ", max_size=10)


@st.composite
def _patterns(draw: st.DrawFn, depth: int = 3) -> str:
    shape = draw(st.integers(0, 9)) if depth else 0
    if shape < 3:
        return draw(st.sampled_from(_ATOMS))
    inner = draw(_patterns(depth - 1))
    if shape < 6:
        return inner + draw(_patterns(depth - 1))
    if shape == 6:
        return f"({inner}|{draw(_patterns(depth - 1))})"
    if shape == 7:
        return f"^{inner}$"
    return f"({inner})" + draw(st.sampled_from(("*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{0,2}?", "{2,}")))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_patterns(), st.lists(_TEXTS, min_size=1, max_size=4))
def test_engines_agree(pattern: str, texts: list[str]) -> None:
    regex = Regex(pattern)
    automaton = regex.automaton()
    members = regex.members()
    for text in texts:
        span = automaton.find(text, 0)
        assert regex.find(text) == span
        assert regex.search(text) is automaton.search(text) is (span is not None)
        assert members is None or (text in members) is (span is not None)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_patterns(), st.sampled_from(("", "(", "[", ")", "*", "\\", "{2}", "?", "+", "|")), st.integers(0, 20), _TEXTS)
def test_agrees_with_re2(pattern: str, damage: str, place: int, text: str) -> None:
    re2 = pytest.importorskip("re2", reason="google-re2 is not installed")
    options = re2.Options()
    options.log_errors = False
    pattern = pattern[:place] + damage + pattern[place:]
    try:
        theirs = re2.compile(pattern, options)
    except re2.error:
        theirs = None
    try:
        ours = Regex(pattern)
    except RegexError:
        ours = None
    assert (ours is None) is (theirs is None)
    if ours is not None and theirs is not None:
        match = theirs.search(text)
        assert ours.search(text) is (match is not None)
        # Which match an empty loop prefers, Go and RE2 do not agree on in every case.
        if match is not None and match.span()[0] != match.span()[1]:
            found = ours.find(text)
            assert found is not None
            assert found[0] == match.span()[0]


_PLAIN = ("a", "b", "[ab]", "[^a]", ".", "x", "(a)", "a?", "b*", "(?:b|x)", "^", "$", r"[a-c]+?", r"\b")


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(_PLAIN), max_size=5), st.lists(st.text("abx\n", max_size=8), min_size=1, max_size=3))
def test_finds_what_an_engine_that_backtracks_finds(parts: list[str], texts: list[str]) -> None:
    pattern = "".join(parts)
    theirs = re.compile(pattern.replace("$", r"\Z"), re.ASCII)
    ours = Regex(pattern)
    for text in texts:
        found = theirs.search(text)
        assert ours.search(text) is (found is not None)
        assert ours.find(text) == (None if found is None else found.span())


# --- effort


def lines_run(function: Callable[[], object]) -> int:
    """How many lines of the module ran, which is work that no count of calls sees."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != module.__file__:
            return None
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return lines


def searched(regex: Regex, texts: list[str], *, finds: bool) -> bool:
    """Whether all could be searched within the limit."""
    try:
        for text in texts:
            find_all(text, regex) if finds else regex.search(text)
    except AbortedError:
        return False
    return True


def _note(answers: list[bool], regex: Regex, texts: list[str], finds: bool) -> None:
    answers.append(searched(regex, texts, finds=finds))


LINES_FOR_EFFORT = 3
"""A unit is about 40 ns; a line of a loop over characters takes 12 to 40."""
BEYOND = 300_000
"""Effort of the largest program and of a step in it, which are counted when they are made."""
_SEEDS = st.integers(0, 10**6).map(lambda seed: hostile_patterns.generated(random.Random(seed)))


@pytest.mark.slow
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(_SEEDS, st.lists(st.text("abcA\n", max_size=120), min_size=1, max_size=3), st.booleans())
@example("a*(a{24}b|a{24}c|a{23}d|a{23}e)", ["a" * 256] * 2, False)
@example("(a|b|ab){0,300}c", ["abbabaab" * 32], False)
@example("a{1000}b", ["a" * 1500], False)
@example("(a{1,30}){1,30}b", ["a" * 64], True)
@example("(?i)" + "[a-zA-Z]?" * 100 + "9", ["AbC" * 20], True)
def test_effort_is_what_is_done_whatever_is_remembered(pattern: str, texts: list[str], finds: bool) -> None:
    try:
        regex = Regex(pattern)
    except RegexError:
        return
    spent = set()
    for _ in range(3):
        begin()
        answers: list[bool] = []
        lines = lines_run(partial(_note, answers, regex, texts, finds))
        assert lines <= 100 + LINES_FOR_EFFORT * (EFFORT[0] - REMEMBERED[0])
        assert EFFORT[0] - REMEMBERED[0] <= EFFORT_LIMIT + BEYOND
        spent.add((answers[0], EFFORT[0] if answers[0] else None))
    assert len(spent) == 1


def test_automata_are_forgotten_between_evaluations_before_they_grow_large() -> None:
    rnd = random.Random(1)
    patterns: dict[str, Regex] = {}
    most = 0
    for _ in range(200):
        begin()
        for pattern in ("(a|b|ab|ba|aab)*(c|d)x", "[ab]*a[ab]{30}c"):
            searched(compiled(patterns, pattern), ["".join(rnd.choices("ab", k=60))], finds=False)
        most = max(most, remembered_words(patterns))
    assert module.WORDS_MAX / 2 < most < 2 * module.WORDS_MAX


def test_texts_of_ever_new_characters_are_forgotten_too() -> None:
    patterns: dict[str, Regex] = {}
    regex = compiled(patterns, "(.x)*y")
    for start in range(0, 60_000, 60):
        begin()
        regex.search("".join(map(chr, range(start + 256, start + 316))))
        assert remembered_words(patterns) < module.WORDS_MAX + 10_000


def test_a_pattern_too_large_is_refused() -> None:
    with pytest.raises(RegexError, match="expression too large"):
        Regex("(abcdefghij){500}")
