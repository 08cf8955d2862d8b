"""Patterns, by google-re2: matched in bounded time whatever pattern and text, refused in Go's words.

Rules of this module
  1. What compiling and searching take is charged by sizes, as the most that was measured (`spend`): of the pattern, of
     the program that it becomes, of the text. Nothing depends on what RE2 remembers.
  2. A pattern holds at most `PATTERN_BYTES`. A program of more than about 5,000 instructions does not fit: compiling
     one takes at most 8 ms, and cannot be paused.
  3. The constant patterns of one expression together may take as long to compile as one evaluation may last.

Differs from Go: what does not fit is "expression too large" (Go: 3.3 million instructions; `\\pL` is 1,200 of them,
`.` is 8); groups may nest deeper than 1,000; `\\p` knows no long names (`\\p{Letter}`, new in Go 1.25).

Source: Go's regexp/syntax (texts of errors) and regexp, 1.26.
"""

from __future__ import annotations

import re
from typing import Final

import re2

from cel.errors import EvaluationError
from cel.library.values import EFFORT_LIMIT, PATTERN_BYTES, spend

# Efforts, measured: see `spend`.
_SEARCH: Final = 20
_COMPILE: Final = 250
_CHARACTER: Final = 15
_CLASS: Final = 1_700
"""Of reading `\\pL`."""
_FOLDED_CLASS: Final = 5_000
_COUNT: Final = 6
"""For each one that `{n,m}` counts."""
_TOO_LARGE: Final = 200_000
"""Of a program that does not fit."""

_GO_TEXTS: Final = {
    "invalid character class": "invalid character class range",
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
_CLASSES: Final = re.compile(r"\\[pP]")
_COUNTS: Final = re.compile(r"[{,](\d{1,4})(?=[,}])")
_FOLDS: Final = re.compile(r"\(\?[a-zA-Z]*i")
_REFUSED_BY_GO: Final = re.compile(
    r"\\Q.*?(?:\\E|\Z)|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|(\\C)|\\.|(\(\?P?<\w*[^\x00-\x7f]\w*>)", re.DOTALL
)
"""Of what RE2 takes; also what is skipped: quoted texts, classes, other escapes."""


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = PATTERN_BYTES
    return options


_OPTIONS: Final = _options()


class RegexError(ValueError):
    """A pattern that is none; the text is Go's."""

    def __init__(self, code: str, expression: str) -> None:
        super().__init__(f"error parsing regexp: {code}: `{expression}`")
        self.effort = 0
        """What it took to find out."""


class Regex:
    """A compiled pattern; `effort` is what compiling took."""

    __slots__ = ("_compiled", "_weight", "effort")

    def __init__(self, pattern: str) -> None:
        """Compile the pattern.

        Raises:
            RegexError: with Go's text.
        """
        try:
            self._compiled: Final = re2.compile(pattern.encode(errors="replace"), _OPTIONS)
        except re2.error as error:
            raise _in_go_words(error.args[0].decode(errors="replace"), pattern) from None
        for refused in _REFUSED_BY_GO.finditer(pattern):
            if refused[1] or refused[2]:
                raise RegexError("invalid escape sequence" if refused[1] else "invalid named capture", refused[0])
        re2.purge()  # RE2 would keep it by its text, beyond the life of the expression.
        size = self._compiled.programsize
        self.effort = 2 * size + size * size // 128
        self._weight: Final = size + len(pattern) // 2

    def search(self, text: str) -> bool:
        """Whether the pattern matches anywhere in `text`."""
        return self.find(text.encode(errors="replace")) is not None

    def find(self, text: bytes, start: int = 0) -> tuple[int, int] | None:
        """Leftmost-first match at or after `start`: its begin and end, in bytes."""
        while True:
            left = len(text) - start
            spend(_SEARCH + 2 * left + (left + 1) * self._weight // 4)
            match = self._compiled.search(text, start)
            if match is None:
                return None
            span: tuple[int, int] = match.span()
            # RE2 finds the empty text between the bytes of a character too.
            if span[0] == len(text) or text[span[0]] & 0xC0 != 0x80:
                return span
            start = span[0] + 1


def reading_effort(pattern: str) -> int:
    """The most that it takes to read a pattern and to expand what it counts."""
    each = _FOLDED_CLASS if _FOLDS.search(pattern) else _CLASS
    counted = sum(map(int, _COUNTS.findall(pattern)))
    return _COMPILE + _CHARACTER * len(pattern) + each * len(_CLASSES.findall(pattern)) + _COUNT * counted


def compiled(patterns: dict[str, Regex | RegexError], pattern: str) -> Regex:
    """A constant pattern of an expression that has these: compiled once, whoever asks.

    Raises:
        RegexError: with Go's text.
    """
    regex = patterns.get(pattern)
    if regex is None:
        effort = reading_effort(pattern)
        if effort + sum(one.effort for one in patterns.values()) > EFFORT_LIMIT:
            regex = RegexError("expression too large", pattern)
        else:
            try:
                regex = Regex(pattern)
            except RegexError as error:
                regex = error
            regex.effort += effort
        patterns[pattern] = regex
    if isinstance(regex, RegexError):
        raise regex.with_traceback(None)
    return regex


def regex_at_run_time(pattern: str) -> Regex:
    """A pattern computed by an evaluation.

    Raises:
        RegexError: with Go's text.
        AbortedError: after too many in one evaluation.
    """
    spend(reading_effort(pattern))
    try:
        regex = Regex(pattern)
    except RegexError as error:
        spend(error.effort)
        raise
    spend(regex.effort)
    return regex


def find(text: str, pattern: str | Regex) -> str:
    """`text.find(pattern)`: the leftmost match or the empty text."""
    return next(iter(find_all(text, pattern, 1)), "")


def find_all(text: str, pattern: str | Regex, limit: int = -1) -> list[str]:
    """`text.findAll(pattern[, limit])`: successive matches that do not overlap, all if `limit` < 0."""
    regex = _compiled(pattern)
    encoded = text.encode(errors="replace")
    matches: list[str] = []
    position = 0
    previous_end = -1
    while (limit < 0 or len(matches) < limit) and position <= len(encoded):
        span = regex.find(encoded, position)
        if span is None:
            break
        begin, end = span
        # Go drops an empty match that touches the one before it.
        if end > begin or begin != previous_end:
            matches.append(encoded[begin:end].decode())
        position = end if end > begin else end + 1
        previous_end = end
    return matches


def _compiled(pattern: str | Regex) -> Regex:
    if isinstance(pattern, Regex):
        return pattern
    try:
        return regex_at_run_time(pattern)
    except RegexError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def _in_go_words(text: str, pattern: str) -> RegexError:
    """The error for RE2's text, `what: where`."""
    what, _, where = text.partition(": ")
    if what.startswith("pattern too large"):
        error = RegexError("expression too large", pattern)
        error.effort = _TOO_LARGE
        return error
    return RegexError(_GO_TEXTS.get(what, what), where)
