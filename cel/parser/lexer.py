"""Source text to tokens, as cel-go's ANTLR lexer cuts it.

Rules of this module
  1. The longest token wins; white space (tab, space, CR, LF, form feed) and `//` comments vanish.
  2. Offsets are code points from the start of the source.
  3. Text that no rule takes is reported ("token recognition error") and skipped, and lexing goes on, so
     that one typing error does not hide the next.

One regular expression does it all; the kind of an operator token is its text.

Not here: the meaning of literals beyond their escapes (`parser`).
"""

from __future__ import annotations

import re
from typing import Final

from cel.errors import MOST_ISSUES_SHOWN, Issue

EOF: Final = "<EOF>"
IDENT: Final = "IDENTIFIER"
ESCAPED_IDENT: Final = "ESC_IDENTIFIER"
INT: Final = "NUM_INT"
UINT: Final = "NUM_UINT"
FLOAT: Final = "NUM_FLOAT"
STRING: Final = "STRING"
BYTES: Final = "BYTES"

KEYWORDS: Final = frozenset(("in", "true", "false", "null"))

_ESCAPE: Final = r"\\(?:[abfnrtv\"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"
_QUOTED: Final = (
    # Three quotes before one, because an empty string is a prefix of both; the possessive loops keep a
    # long unterminated string linear.
    rf'"""(?:[^"\\]|{_ESCAPE}|"(?!""))*+"""'
    rf"|'''(?:[^'\\]|{_ESCAPE}|'(?!''))*+'''"
    rf'|"(?:[^"\\\n\r]|{_ESCAPE})*+"'
    rf"|'(?:[^'\\\n\r]|{_ESCAPE})*+'"
    r'|[rR]"""(?:[^"]|"(?!""))*+"""'
    r"|[rR]'''(?:[^']|'(?!''))*+'''"
    r'|[rR]"[^"\n\r]*+"'
    r"|[rR]'[^'\n\r]*+'"
)
_TOKEN: Final = re.compile(
    # Commonest first. A name may begin like a prefixed string, and is one only if no string follows.
    r"(?:[ \t\r\n\f]|//[^\n]*+)*+(?:"
    r"((?![bB]?[rR]?[\"'])[A-Za-z_][A-Za-z0-9_]*+)"
    r"|([=!<>]=|&&|\|\||\.(?![0-9])|[<>\[\](){},\-!?:+*/%])"
    rf"|({_QUOTED})"
    r"|([0-9]*+\.[0-9]++(?:[eE][+-]?[0-9]++)?|[0-9]++[eE][+-]?[0-9]++)"
    r"|((?:0x[0-9a-fA-F]++|[0-9]++)[uU])"
    r"|(0x[0-9a-fA-F]++|[0-9]++)"
    rf"|([bB](?:{_QUOTED}))"
    r"|(`[A-Za-z0-9_.\-/ ]++`)"
    r"|([A-Za-z_][A-Za-z0-9_]*+)"
    r"|(\Z)"
    r")"
)
_KINDS: Final = (None, IDENT, None, STRING, FLOAT, UINT, INT, BYTES, ESCAPED_IDENT, IDENT, EOF)
_GROUP_OF_END: Final = 10
_BLANK: Final = re.compile(r"(?:[ \t\r\n\f]|//[^\n]*+)*+")
_PREFIX_OF_STRING: Final = (
    # What the lexer reads of a string that is not one: everything up to the first character that no string
    # can have there.
    r"[bB]?(?:"
    r'[rR]"""(?:[^"]|"(?!""))*+|[rR]\'\'\'(?:[^\']|\'(?!\'\'))*+|[rR]"[^"\n\r]*+|[rR]\'[^\'\n\r]*+'
    rf"|\"\"\"(?:[^\"\\]|{_ESCAPE}|\"(?!\"\"))*+|'''(?:[^'\\]|{_ESCAPE}|'(?!''))*+"
    rf"|\"(?:[^\"\\\n\r]|{_ESCAPE})*+|'(?:[^'\\\n\r]|{_ESCAPE})*+"
    r")(?:\\(?:[xX][0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-3][0-7]?)?)?"
)


class Tokens:
    """Parallel lists, the last entry of each being the end of the source.

    issues: lexical errors; skipped: (start, end) of each text that is no token.
    """

    __slots__ = ("issues", "kinds", "offsets", "skipped", "source", "texts")

    def __init__(self, source: str) -> None:
        self.source = source
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self.offsets: list[int] = []
        self.issues: list[Issue] = []
        self.skipped: list[tuple[int, int]] = []

    def source_between(self, first: int, last: int) -> str:
        """The source from one token through another, with blanks, without what was skipped."""
        start, end = self.offsets[first], self.offsets[last]
        if self.kinds[last] != EOF:
            end += len(self.texts[last])
        pieces = []
        for skipped_from, skipped_to in self.skipped:
            if start <= skipped_from < end:
                pieces.append(self.source[start:skipped_from])
                start = skipped_to
        return "".join([*pieces, self.source[start:end]])


def tokenize(source: str) -> Tokens:
    """Cut `source`; never fails, see `Tokens.issues`."""
    tokens = Tokens(source)
    kinds, texts, offsets = tokens.kinds, tokens.texts, tokens.offsets
    position = 0
    while True:
        for found in iter(_TOKEN.scanner(source, position).match, None):  # type: ignore[attr-defined] # typeshed lacks it
            group = found.lastindex
            assert group is not None
            text = found[group]
            kind = _KINDS[group]
            if kind is None or text in KEYWORDS:
                kind = text
            position = found.end()
            if group == _GROUP_OF_END:
                kinds.append(EOF)
                texts.append(EOF)
                offsets.append(len(source))
                return tokens
            kinds.append(kind)
            texts.append(text)
            offsets.append(position - len(text))
        position = _skip_unknown(tokens, position)
        if len(tokens.issues) > MOST_ISSUES_SHOWN:
            position = len(source)  # cel-go stops reading, too


def _skip_unknown(tokens: Tokens, position: int) -> int:
    """Report a text that begins no token; returns where to go on, after the character at which the lexer stopped."""
    source = tokens.source
    blank = _BLANK.match(source, position)
    assert blank is not None
    start = blank.end()
    stop = start  # the character the lexer cannot go past
    if source[start] in "&|=":
        stop = start + 1
    elif source[start] == "`":
        stop = start + 1
        while stop < len(source) and (source[stop].isascii() and (source[stop].isalnum() or source[stop] in "_.-/ ")):
            stop += 1
    elif (string := re.compile(_PREFIX_OF_STRING).match(source, start)) is not None:
        stop = string.end()
    text = source[start : stop + 1]
    tokens.issues.append(Issue(start, f"Syntax error: token recognition error at: '{text}'"))
    end = min(stop + 1, len(source))
    tokens.skipped.append((start, end))
    return end


_SIMPLE_ESCAPES: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_ESCAPED: Final = re.compile(r"\\(?:[xX]([0-9a-fA-F]{2})|[uU]([0-9a-fA-F]{4,8})|([0-3][0-7]{2})|(.))", re.DOTALL)


def _body(token: str) -> tuple[str, bool]:
    """The text between the quotes with line ends normalized, and whether it is raw."""
    raw = token[0] in "rR"
    if raw:
        token = token[1:]
    body = token[3:-3] if token[:3] in ('"""', "'''") and len(token) >= 6 else token[1:-1]
    if "\r" in body:
        body = body.replace("\r\n", "\n").replace("\r", "\n")
    return body, raw


def string_value(token: str) -> str:
    """The value of a STRING token. Raises ValueError with cel-go's text for a surrogate or a too large code point."""
    body, raw = _body(token)
    if raw or "\\" not in body:
        return body
    return _ESCAPED.sub(_unescape, body)


def _unescape(found: re.Match[str]) -> str:
    hexadecimal, unicode_digits, octal, character = found.groups()
    if character is not None:
        return _SIMPLE_ESCAPES.get(character, character)
    code_point = int(octal, 8) if octal is not None else int(hexadecimal or unicode_digits, 16)
    if code_point > 0x10FFFF or 0xD800 <= code_point <= 0xDFFF:
        raise ValueError("invalid unicode code point")
    return chr(code_point)


def bytes_value(token: str) -> bytes:
    """The value of a BYTES token. Raises ValueError with cel-go's text for a `\\u` escape."""
    body, raw = _body(token[1:])
    if raw or "\\" not in body:
        return body.encode()
    pieces: list[bytes] = []
    position = 0
    for found in _ESCAPED.finditer(body):
        pieces.append(body[position : found.start()].encode())
        hexadecimal, unicode_digits, octal, character = found.groups()
        if unicode_digits is not None:
            raise ValueError("unable to unescape string")
        if character is not None:
            pieces.append(_SIMPLE_ESCAPES.get(character, character).encode())
        else:
            pieces.append(bytes((int(octal, 8) if octal is not None else int(hexadecimal, 16),)))
        position = found.end()
    pieces.append(body[position:].encode())
    return b"".join(pieces)
