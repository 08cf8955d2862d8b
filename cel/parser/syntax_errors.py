"""What is wrong with the first token that does not fit, in the words of cel-go's ANTLR parser.

cel-go goes on after that token with what ANTLR's error recovery makes of the rest, and reports errors that follow from
the first one. Here parsing ends with the first. Its place is always cel-go's, its text nearly always (ADR 0007).

Source: cel-go parser/gen/CEL.g4; antlr4 Go runtime error_strategy.go at v4.13.0.
"""

from __future__ import annotations

from typing import Final

from cel.errors import Issue
from cel.parser.lexer import BYTES, EOF, ESCAPED_IDENT, FLOAT, IDENT, INT, STRING, UINT, Tokens

_STARTS: Final = frozenset(
    ("[", "{", "(", ".", "-", "!", "true", "false", "null", FLOAT, INT, UINT, STRING, BYTES, IDENT)
)
"""What an expression can begin with."""
# ANTLR lists tokens in the order in which the grammar declares them.
_ORDER: Final = (
    EOF, "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", "true", "false", "null",
    FLOAT, INT, UINT, STRING, BYTES, IDENT, ESCAPED_IDENT,
)  # fmt: skip
_NAMED: Final = frozenset((EOF, FLOAT, INT, UINT, STRING, BYTES, IDENT, ESCAPED_IDENT))
_CLOSERS: Final = {"(": ")", "[": "]", "{": "}"}


def syntax_issue(tokens: Tokens, position: int, wanted: str | None) -> Issue:
    """The issue for the token at `position`, where `parser` needs a `wanted`; None: the beginning of an expression."""
    kinds, texts = tokens.kinds, tokens.texts
    kind = kinds[position]
    start = position
    while start > 0 and kinds[start - 1] in ("-", ".") and (start == position or kinds[start] == kinds[start - 1]):
        start -= 1
    if kinds[start] == "-" and _ends_value(kinds, start):
        start += 1  # the operator, not a sign
    if wanted is None and kind == "-":
        start, position = position, min(position + 1, len(kinds) - 1)
    if start < position and not (wanted == IDENT and kind in ("true", "false", "null")):
        return _issue(
            tokens, position, f"no viable alternative at input {_quoted(tokens.source_between(start, position))}"
        )
    before = kinds[position - 1] if position else ""
    if wanted in (None, IDENT) and before == "," and (inside := _inside(kinds, position)) in ("[", "{"):
        wanted = _CLOSERS[inside]  # a comma may be the last thing in a list or map
    expected = _expected(kinds, position, wanted)
    verb = "mismatched"
    if before == "!" or kinds[min(position + 1, len(kinds) - 1)] in expected:
        verb = "extraneous"
    elif wanted is not None and len(expected) == 1 and _may_follow(kinds, position, wanted):
        return _issue(tokens, position, f"missing {_shown(expected)} at {_quoted(texts[position])}")
    return _issue(tokens, position, f"{verb} input {_quoted(texts[position])} expecting {_shown(expected)}")


def _issue(tokens: Tokens, position: int, message: str) -> Issue:
    return Issue(tokens.offsets[position], f"Syntax error: {message}")


def _expected(kinds: list[str], position: int, wanted: str | None) -> frozenset[str]:
    """All tokens that fit at `position`."""
    opened = _open_brackets(kinds, position)
    before = kinds[position - 1] if position else ""
    is_after_value = len(opened) > 0 and _ends_value(kinds, opened[-1])
    if wanted is not None:
        if wanted == IDENT and before != ".":
            first = frozenset((IDENT, ESCAPED_IDENT))
            return first | {"?", ",", "}"} if before == "{" else first
        is_aggregate = wanted == "}" or (wanted == "]" and not is_after_value)
        return frozenset((wanted, ",") if is_aggregate and before != "," else (wanted,))
    if before == "(" and is_after_value:
        return _STARTS | {")"}
    if before == "[" and is_after_value:
        return _STARTS | {"?"}
    if before in ("[", "{"):
        return _STARTS | {"?", ",", _CLOSERS[before]}
    return _STARTS


def _inside(kinds: list[str], position: int) -> str:
    """The bracket that is open at `position`, if any."""
    opened = _open_brackets(kinds, position)
    return kinds[opened[-1]] if opened else ""


def _may_follow(kinds: list[str], position: int, wanted: str) -> bool:
    """Whether the token at `position` could come after a `wanted` that is missing before it."""
    kind = kinds[position]
    if wanted == ":":
        return kind in _STARTS
    opened = _open_brackets(kinds, position)[:-1]
    if not opened:
        return kind == EOF
    inside = kinds[opened[-1]]
    is_list = inside != "(" or _ends_value(kinds, opened[-1])
    return kind == _CLOSERS[inside] or (
        kind == "," and is_list and not (inside == "[" and _ends_value(kinds, opened[-1]))
    )


def _open_brackets(kinds: list[str], position: int) -> list[int]:
    opened: list[int] = []
    for place in range(position):
        if kinds[place] in _CLOSERS:
            opened.append(place)
        elif kinds[place] in (")", "]", "}"):
            opened.pop()
    return opened


def _ends_value(kinds: list[str], position: int) -> bool:
    """Whether the bracket at `position` stands after a value: of a call, an index, a message."""
    before = kinds[position - 1] if position else ""
    return before in (IDENT, ESCAPED_IDENT, ")", "]", "}", STRING, BYTES, INT, UINT, FLOAT, "true", "false", "null")


def _shown(tokens: frozenset[str]) -> str:
    shown = [token if token in _NAMED else f"'{token}'" for token in _ORDER if token in tokens]
    return shown[0] if len(shown) == 1 else "{" + ", ".join(shown) + "}"


def _quoted(text: str) -> str:
    text = text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{text}'"
