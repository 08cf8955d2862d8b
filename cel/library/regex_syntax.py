"""The syntax of RE2 as Go reads it: text to a tree, or the error Go gives.

Groups leave no trace (nothing here asks for submatches), a literal is a sequence of characters.

Source: Go's regexp/syntax parse.go and perl_groups.go, 1.26 (flags as `syntax.Perl`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

CONCAT: Final = "concat"
ALTERNATE: Final = "alternate"
REPEAT: Final = "repeat"
CHARS: Final = "chars"
ASSERT: Final = "assert"
EMPTY: Final = "empty"

REPEAT_MAX: Final = 1000
NESTING_MAX: Final = 200
_CODE_MAX: Final = 0x10FFFF

_Ranges = tuple[tuple[int, int], ...]

_DIGIT: Final[_Ranges] = ((0x30, 0x39),)
_SPACE: Final[_Ranges] = ((0x9, 0xA), (0xC, 0xD), (0x20, 0x20))
_WORD: Final[_Ranges] = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_PERL: Final = {"d": _DIGIT, "s": _SPACE, "w": _WORD}
_POSIX: Final[dict[str, _Ranges]] = {
    "alnum": ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    "alpha": ((0x41, 0x5A), (0x61, 0x7A)),
    "ascii": ((0x0, 0x7F),),
    "blank": ((0x9, 0x9), (0x20, 0x20)),
    "cntrl": ((0x0, 0x1F), (0x7F, 0x7F)),
    "digit": _DIGIT,
    "graph": ((0x21, 0x7E),),
    "lower": ((0x61, 0x7A),),
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ((0x9, 0xD), (0x20, 0x20)),
    "upper": ((0x41, 0x5A),),
    "word": _WORD,
    "xdigit": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
}
_ESCAPES: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}

# Characters one case folding away from each other that str.lower and str.upper do not connect.
_FOLDS: Final = {
    "K": "k",
    "Å": "å",
    "Ω": "ω",
    "ſ": "s",
    "ς": "σ",
    "ϐ": "β",
    "ϑ": "θ",
    "ϕ": "φ",
    "ϖ": "π",
    "ϰ": "κ",
    "ϱ": "ρ",
    "ϵ": "ε",
    "µ": "μ",
    "ẛ": "ṡ",
    "ι": "ι",
    "\u0345": "ι",
    "ϴ": "θ",
    "ẞ": "ß",
}
_UNFOLDS: Final[dict[str, list[str]]] = {}
for _variant, _base in _FOLDS.items():
    _UNFOLDS.setdefault(_base, []).append(_variant)


class RegexError(ValueError):
    """A pattern that is none; the text is Go's."""

    def __init__(self, code: str, expression: str) -> None:
        super().__init__(f"error parsing regexp: {code}: `{expression}`")


def fold_orbit(character: str) -> frozenset[str]:
    """The characters that are the same without regard to case."""
    orbit = {character}
    pending = [character]
    while pending:
        current = pending.pop()
        for variant in (current.lower(), current.upper(), _FOLDS.get(current, ""), *_UNFOLDS.get(current, ())):
            # İ and ı fold to nothing in Go, though Python connects them with i and I.
            if len(variant) == 1 and variant not in orbit and current not in "İı" and variant not in "İı":
                orbit.add(variant)
                pending.append(variant)
    return frozenset(orbit)


class CharSet(NamedTuple):
    """A set of characters: ranges and Unicode classes, possibly negated, possibly without regard to case."""

    ranges: _Ranges
    classes: tuple[Callable[[str], bool], ...] = ()
    is_negated: bool = False
    is_folded: bool = False

    @property
    def weight(self) -> int:
        """The effort of `contains`."""
        once = 6 + 2 * len(self.ranges) + 40 * len(self.classes)
        return 100 + 4 * once if self.is_folded else once

    def contains(self, character: str) -> bool:
        if not self.is_folded and not self.classes:
            code = ord(character)
            for low, high in self.ranges:
                if low <= code <= high:
                    return not self.is_negated
            return self.is_negated
        variants = fold_orbit(character) if self.is_folded else (character,)
        return any(map(self._has, variants)) != self.is_negated

    def _has(self, character: str) -> bool:
        code = ord(character)
        return any(low <= code <= high for low, high in self.ranges) or any(test(character) for test in self.classes)

    def members(self, limit: int) -> frozenset[str] | None:
        """All characters of the set, or None when there are more than `limit`."""
        if self.is_negated or self.classes or sum(high - low + 1 for low, high in self.ranges) > limit:
            return None
        characters = [chr(code) for low, high in self.ranges for code in range(low, high + 1)]
        if self.is_folded:
            characters = [variant for character in characters for variant in fold_orbit(character)]
        return frozenset(characters)


class Node(NamedTuple):
    """A part of a pattern: `kind` says which of the fields count."""

    kind: str
    parts: tuple[Node, ...] = ()
    chars: CharSet | None = None
    assertion: str = ""
    smallest: int = 0
    largest: int = 0
    """-1: no limit."""
    is_lazy: bool = False


_NOTHING: Final = Node(EMPTY)


class _Flags(NamedTuple):
    fold: bool = False
    multi_line: bool = False
    dot_all: bool = False
    lazy: bool = False


_FLAGS: Final = {"i": "fold", "m": "multi_line", "s": "dot_all", "U": "lazy"}


class _Group:
    """An open parenthesis: alternatives so far, the current one, and the flags to return to."""

    __slots__ = ("alternatives", "current", "flags")

    def __init__(self, flags: _Flags) -> None:
        self.alternatives: list[Node] = []
        self.current: list[Node] = []
        self.flags: Final = flags

    def bar(self) -> None:
        self.alternatives.append(_sequence(self.current))
        self.current = []

    def node(self) -> Node:
        self.bar()
        return self.alternatives[0] if len(self.alternatives) == 1 else Node(ALTERNATE, tuple(self.alternatives))


def _sequence(parts: list[Node]) -> Node:
    if not parts:
        return _NOTHING
    return parts[0] if len(parts) == 1 else Node(CONCAT, tuple(parts))


def parse_regex(pattern: str) -> Node:
    """Read a pattern.

    Raises:
        RegexError: with Go's text.
    """
    return _Parser(pattern).parse()


class _Parser:
    __slots__ = ("flags", "groups", "last_repeat", "pattern", "position")

    def __init__(self, pattern: str) -> None:
        self.pattern: Final = pattern
        self.position = 0
        self.flags = _Flags()
        self.groups = [_Group(self.flags)]
        self.last_repeat = -1

    def parse(self) -> Node:
        pattern = self.pattern
        while self.position < len(pattern):
            start = self.position
            is_repeat = False
            match pattern[start]:
                case "(":
                    self.open_group()
                case "|":
                    self.groups[-1].bar()
                    self.position += 1
                case ")":
                    self.close_group()
                case "^":
                    self.assertion("begin_line" if self.flags.multi_line else "begin_text", 1)
                case "$":
                    self.assertion("end_line" if self.flags.multi_line else "end_text", 1)
                case ".":
                    newline = () if self.flags.dot_all else ((10, 10),)
                    self.push(Node(CHARS, chars=CharSet(newline, is_negated=True)))
                    self.position += 1
                case "[":
                    self.push(Node(CHARS, chars=self.char_class()))
                case "*" | "+" | "?":
                    smallest, largest = {"*": (0, -1), "+": (1, -1), "?": (0, 1)}[pattern[start]]
                    self.position += 1
                    self.repeat(start, smallest, largest)
                    is_repeat = True
                case "{":
                    is_repeat = self.counted(start)
                case "\\":
                    self.escape()
                case character:
                    self.literal(character)
                    self.position += 1
            self.last_repeat = start if is_repeat else -1
        if len(self.groups) > 1:
            raise RegexError("missing closing )", pattern)
        return self.groups[0].node()

    def push(self, node: Node) -> None:
        self.groups[-1].current.append(node)

    def literal(self, character: str) -> None:
        code = ord(character)
        self.push(Node(CHARS, chars=CharSet(((code, code),), is_folded=self.flags.fold)))

    def assertion(self, name: str, length: int) -> None:
        self.push(Node(ASSERT, assertion=name))
        self.position += length

    # --- repetition

    def repeat(self, start: int, smallest: int, largest: int) -> None:
        """Repeat the last part; the operator began at `start`, the position is after it."""
        is_lazy = self.flags.lazy
        if self.pattern[self.position : self.position + 1] == "?":
            self.position += 1
            is_lazy = not is_lazy
        if self.last_repeat >= 0:
            raise RegexError("invalid nested repetition operator", self.pattern[self.last_repeat : self.position])
        current = self.groups[-1].current
        if not current:
            raise RegexError("missing argument to repetition operator", self.pattern[start : self.position])
        inner = current[-1]
        if inner.kind == EMPTY:
            return
        node = Node(REPEAT, (inner,), smallest=smallest, largest=largest, is_lazy=is_lazy)
        if self.pattern[start] == "{" and (smallest >= 2 or largest >= 2) and not _is_repeat_valid(node, REPEAT_MAX):
            raise RegexError("invalid repeat count", self.pattern[start : self.position])
        current[-1] = node

    def counted(self, start: int) -> bool:
        """`{n}`, `{n,}`, `{n,m}`; a brace that is none of these is a brace."""
        end = self.pattern.find("}", start)
        low_text, comma, high_text = self.pattern[start + 1 : end].partition(",") if end > 0 else ("", "", "")
        if not _is_count(low_text) or (comma and high_text and not _is_count(high_text)):
            self.literal("{")
            self.position += 1
            return False
        low = int(low_text) if len(low_text) <= 8 else -2
        high = (low if not comma else -1) if not high_text else int(high_text) if len(high_text) <= 8 else -2
        self.position = end + 1
        if low == -2 or high == -2 or low > REPEAT_MAX or high > REPEAT_MAX or 0 <= high < low:
            raise RegexError("invalid repeat count", self.pattern[start : self.position])
        self.repeat(start, low, high)
        return True

    # --- groups

    def open_group(self) -> None:
        if len(self.groups) > NESTING_MAX:
            raise RegexError("expression nests too deeply", self.pattern)
        if self.pattern.startswith("(?", self.position):
            self.perl_group()
            return
        self.groups.append(_Group(self.flags))
        self.position += 1

    def close_group(self) -> None:
        if len(self.groups) == 1:
            raise RegexError("unexpected )", self.pattern)
        group = self.groups.pop()
        self.flags = group.flags
        self.push(group.node())
        self.position += 1

    def perl_group(self) -> None:
        """`(?:`, `(?i)`, `(?i:`, `(?P<name>`, `(?<name>`."""
        rest = self.pattern[self.position :]
        name_at = 4 if len(rest) > 4 and rest.startswith("(?P<") else 3 if len(rest) > 3 and rest[2] == "<" else 0
        if name_at:
            end = rest.find(">")
            if end < 0:
                raise RegexError("invalid named capture", rest)
            name = rest[name_at:end]
            if not name or not name.replace("_", "a").isalnum() or not name.isascii():
                raise RegexError("invalid named capture", rest[: end + 1])
            self.groups.append(_Group(self.flags))
            self.position += end + 1
            return
        flags = self.flags
        value = True
        has_flag = False
        for length, character in enumerate(rest[2:], 3):
            if character in _FLAGS:
                flags = flags._replace(**{_FLAGS[character]: value})
                has_flag = True
            elif character == "-" and value:
                value = has_flag = False
            elif character in ":)" and (value or has_flag):
                if character == ":":
                    self.groups.append(_Group(self.flags))
                self.flags = flags
                self.position += length
                return
            else:
                raise RegexError("invalid or unsupported Perl syntax", rest[:length])
        raise RegexError("invalid or unsupported Perl syntax", rest)

    # --- escapes and classes

    def escape(self) -> None:
        following = self.pattern[self.position + 1 : self.position + 2]
        match following:
            case "A":
                self.assertion("begin_text", 2)
            case "z":
                self.assertion("end_text", 2)
            case "b":
                self.assertion("word_boundary", 2)
            case "B":
                self.assertion("no_word_boundary", 2)
            case "C":
                raise RegexError("invalid escape sequence", "\\C")
            case "Q":
                text, _, rest = self.pattern[self.position + 2 :].partition("\\E")
                for character in text:
                    self.literal(character)
                self.position = len(self.pattern) - len(rest)
            case _:
                chars = self.class_escape()
                if chars is not None:
                    self.push(Node(CHARS, chars=chars))
                else:
                    self.literal(chr(self.char_escape()))

    def class_escape(self) -> CharSet | None:
        """`\\d`, `\\W`, `\\pL`, `\\P{Greek}` at the position, or None."""
        following = self.pattern[self.position + 1 : self.position + 2]
        if following and following in "pP":
            return self.unicode_class()
        ranges = _PERL.get(following.lower()) if following else None
        if ranges is None:
            return None
        self.position += 2
        return CharSet(ranges, is_negated=following.isupper(), is_folded=self.flags.fold)

    def unicode_class(self) -> CharSet:
        start = self.position
        is_negated = self.pattern[start + 1] == "P"
        first = self.pattern[start + 2 : start + 3]
        if not first:
            raise RegexError("invalid character class range", self.pattern[start:])
        if first == "{":
            end = self.pattern.find("}", start)
            if end < 0:
                raise RegexError("invalid character class range", self.pattern[start:])
            name = self.pattern[start + 3 : end]
            self.position = end + 1
        else:
            name = first
            self.position += 3
        if name.startswith("^"):
            is_negated = not is_negated
            name = name[1:]
        from cel.library.unicode_classes import unicode_test  # noqa: PLC0415 - few patterns have one

        test = unicode_test(name)
        if test is None:
            raise RegexError("invalid character class range", self.pattern[start : self.position])
        return CharSet((), (test,), is_negated=is_negated, is_folded=self.flags.fold)

    def char_escape(self) -> int:
        """The code point of `\\n`, `\\x41`, `\\x{1F600}`, `\\012`, `\\.` at the position."""
        start = self.position
        self.position += 1
        if self.position == len(self.pattern):
            raise RegexError("trailing backslash at end of expression", "")
        character = self.pattern[self.position]
        self.position += 1
        if character in _ESCAPES:
            return _ESCAPES[character]
        if character == "x":
            code = self.hexadecimal()
            if code is not None:
                return code
        elif character in "01234567":
            digits = character
            while len(digits) < 3 and self.pattern[self.position : self.position + 1] in tuple("01234567"):
                digits += self.pattern[self.position]
                self.position += 1
            # A single digit but 0 would be a reference to a group.
            if character == "0" or len(digits) > 1:
                return int(digits, 8)
        elif character.isascii() and not character.isalnum():
            return ord(character)
        raise RegexError("invalid escape sequence", self.pattern[start : self.position])

    def hexadecimal(self) -> int | None:
        """After `\\x`: two digits, or any number in braces; None (position where Go stopped) when it is neither."""
        if self.position == len(self.pattern):
            return None
        if self.pattern[self.position] != "{":
            digits = self.pattern[self.position : self.position + 2]
            self.position += len(digits)
            return int(digits, 16) if len(digits) == 2 and _is_hex(digits) else None
        self.position += 1
        code = count = 0
        while self.position < len(self.pattern):
            character = self.pattern[self.position]
            self.position += 1
            if character == "}":
                return code if count else None
            if not _is_hex(character):
                return None
            code = code * 16 + int(character, 16)
            count += 1
            if code > _CODE_MAX:
                return None
        return None

    def char_class(self) -> CharSet:
        """`[...]` at the position."""
        start = self.position
        self.position += 1
        is_negated = self.pattern[self.position : self.position + 1] == "^"
        self.position += is_negated
        ranges: list[tuple[int, int]] = []
        tests: list[Callable[[str], bool]] = []
        is_first = True
        while is_first or self.pattern[self.position : self.position + 1] != "]":
            is_first = False
            if self.posix_class(ranges):
                continue
            if self.pattern[self.position : self.position + 1] == "\\":
                chars = self.class_escape()
                if chars is not None:
                    tests.append(chars.contains)
                    continue
            ranges.append(self.char_range(start))
        self.position += 1
        return CharSet(tuple(ranges), tuple(tests), is_negated=is_negated, is_folded=self.flags.fold)

    def posix_class(self, ranges: list[tuple[int, int]]) -> bool:
        """`[:alpha:]`, `[:^alpha:]` inside of a class."""
        if not self.pattern.startswith("[:", self.position):
            return False
        end = self.pattern.find(":]", self.position + 2)
        if end < 0:
            return False
        name = self.pattern[self.position + 2 : end]
        known = _POSIX.get(name.removeprefix("^"))
        if known is None:
            raise RegexError("invalid character class range", self.pattern[self.position : end + 2])
        ranges += _complement(known) if name.startswith("^") else known
        self.position = end + 2
        return True

    def char_range(self, class_start: int) -> tuple[int, int]:
        start = self.position
        low = self.class_char(class_start)
        rest = self.pattern[self.position : self.position + 2]
        if len(rest) < 2 or rest[0] != "-" or rest[1] == "]":
            return low, low
        self.position += 1
        high = self.class_char(class_start)
        if high < low:
            raise RegexError("invalid character class range", self.pattern[start : self.position])
        return low, high

    def class_char(self, class_start: int) -> int:
        if self.position >= len(self.pattern):
            raise RegexError("missing closing ]", self.pattern[class_start:])
        character = self.pattern[self.position]
        if character == "\\":
            return self.char_escape()
        self.position += 1
        return ord(character)


def _complement(ranges: _Ranges) -> list[tuple[int, int]]:
    gaps: list[tuple[int, int]] = []
    start = 0
    for low, high in ranges:
        if low > start:
            gaps.append((start, low - 1))
        start = high + 1
    return [*gaps, (start, _CODE_MAX)]


def _is_hex(text: str) -> bool:
    return all(character in "0123456789abcdefABCDEF" for character in text)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and (len(text) == 1 or text[0] != "0")


def _is_repeat_valid(node: Node, budget: int) -> bool:
    """Whether no path of nested counted repetitions multiplies to more than the budget."""
    if node.kind == REPEAT:
        is_counted = not (node.largest == -1 and node.smallest <= 1) and (node.smallest, node.largest) != (0, 1)
        if is_counted:
            times = node.largest if node.largest >= 0 else node.smallest
            if times == 0:
                return True
            if times > budget:
                return False
            budget //= times
    return all(_is_repeat_valid(part, budget) for part in node.parts)
