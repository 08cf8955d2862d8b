"""RE2 regular expressions, matched in bounded time whatever pattern and text.

`compile_regex` reads what Go's regexp/syntax reads and refuses what it refuses, with its texts. Matching
is done in one of two ways:

- by Python's `re`, for patterns whose backtracking is bounded by their shape (`_is_tame`), on texts
  short enough for that bound;
- by a lazily built automaton for all others: one step per character, whatever the pattern.

Differs on purpose from Go: a pattern that would need more than `PROGRAM_MAX` instructions is "expression
too large" (Go: 3.3 million), groups nest 200 deep (Go: 1000), and a search for positions in a long text
ends like the cost limit after `STEPS_MAX` steps. Scripts other than those in `unicode_classes` are unknown.

Source: Go's regexp/syntax (parse.go, perl_groups.go) and regexp (leftmost-first matching), 1.26.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from cel.errors import EvaluationError
from cel.library.regex_syntax import (
    ASSERT,
    CHARS,
    CONCAT,
    EMPTY,
    REPEAT,
    CharSet,
    Node,
    RegexError,
    parse_regex,
)
from cel.library.values import LIMIT_EXCEEDED, AbortedError, spend

__all__ = ["Regex", "RegexError", "compile_regex", "find", "find_all"]

PROGRAM_MAX: Final = 3500
STEPS_MAX: Final = 1_000_000
_SEEDS_MAX: Final = 100_000
_SHORT_TEXT: Final = 256
_MEMBERS_MAX: Final = 64

_CHAR, _SPLIT, _CHECK, _MATCH = range(4)

_WORD: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_PYTHON_ASSERTION: Final = {
    "begin_text": r"\A",
    "end_text": r"\Z",
    "begin_line": r"(?:\A|(?<=\n))",
    "end_line": r"(?=\n|\Z)",
    "word_boundary": r"\b",
}


class Regex:
    """A compiled pattern."""

    __slots__ = ("_automaton", "_python", "_short_automaton", "_tree", "is_bounded", "is_tame", "pattern")

    def __init__(self, pattern: str) -> None:
        """Read the pattern.

        Raises:
            RegexError: with Go's text.
        """
        self.pattern: Final = pattern
        self._tree: Final = parse_regex(pattern)
        if _length(self._tree) > PROGRAM_MAX:
            raise RegexError("expression too large", pattern)
        degree = _degree(self._tree)
        self.is_tame: Final = degree is not None
        self.is_bounded: Final = degree is not None and degree <= 1
        self._python: re.Pattern[str] | None = None
        self._automaton: _Automaton | None = None
        self._short_automaton: _Automaton | None = None

    def effort(self, text: str) -> int:
        """The effort of a search, the same whatever states the automaton remembers."""
        if self.is_bounded or (self.is_tame and len(text) <= _SHORT_TEXT):
            return 5 + len(text) * (1 if self.is_bounded else 16) // 32
        return 20 + len(text) * (4 + len(self.pattern) // 8)

    def search(self, text: str) -> bool:
        """Whether the pattern matches anywhere in `text`."""
        spend(self.effort(text))
        if self.is_bounded or (self.is_tame and len(text) <= _SHORT_TEXT):
            return self.python().search(text) is not None
        if len(text) > _SHORT_TEXT:
            return self.automaton().search(text)
        if self._short_automaton is None:
            self._short_automaton = _Automaton(_for_short_texts(self._tree))
        return self._short_automaton.search(text)

    def members(self) -> frozenset[str] | None:
        """The texts the pattern matches if they are few and it says how they begin and end, as `^(A|H)100$`."""
        parts = self._tree.parts
        if self._tree.kind != CONCAT or len(parts) < 2:
            return None
        first, last = parts[0], parts[-1]
        if (first.kind, first.assertion, last.kind, last.assertion) != (ASSERT, "begin_text", ASSERT, "end_text"):
            return None
        return _texts(Node(CONCAT, parts[1:-1]))

    def find(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """Leftmost-first match at or after `start`: its begin and end."""
        spend(45 + len(text) // 64)
        if self.is_bounded or (self.is_tame and len(text) <= _SHORT_TEXT):
            found = self.python().search(text, start)
            return None if found is None else found.span()
        if start == 0 and not self.search(text):
            return None
        return self.automaton().find(text, start)

    def python(self) -> re.Pattern[str]:
        """The pattern for Python's engine; only for tame ones."""
        if self._python is None:
            self._python = re.compile(_to_python(self._tree), re.ASCII)
        return self._python

    def automaton(self) -> _Automaton:
        """The automaton of the pattern; works for every pattern."""
        if self._automaton is None:
            self._automaton = _Automaton(self._tree)
        return self._automaton


@lru_cache(maxsize=256)
def compile_regex(pattern: str) -> Regex:
    """`Regex(pattern)`, remembered.

    Raises:
        RegexError: with Go's text.
    """
    return Regex(pattern)


def regex_at_run_time(pattern: str) -> Regex:
    """`compile_regex` for a pattern computed by an evaluation. Every call is counted, since a loop can compute many.

    Raises:
        RegexError: with Go's text.
        AbortedError: after too many in one evaluation.
    """
    spend(2_500 + 110 * len(pattern))
    return compile_regex(pattern)


def find(text: str, pattern: str | Regex) -> str:
    """`text.find(pattern)`: the leftmost match or the empty text."""
    span = _compiled(pattern).find(text)
    return "" if span is None else text[span[0] : span[1]]


def find_all(text: str, pattern: str | Regex, limit: int = -1) -> list[str]:
    """`text.findAll(pattern[, limit])`: successive matches that do not overlap, all if `limit` < 0."""
    regex = _compiled(pattern)
    matches: list[str] = []
    position = 0
    previous_end = -1
    while (limit < 0 or len(matches) < limit) and position <= len(text):
        span = regex.find(text, position)
        if span is None:
            break
        begin, end = span
        # Go drops an empty match that touches the one before it.
        if end > begin or begin != previous_end:
            matches.append(text[begin:end])
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


def _texts(node: Node) -> frozenset[str] | None:
    """All texts a part matches, or None when they are more than `_MEMBERS_MAX` or depend on what is around."""
    match node.kind:
        case "empty":
            return frozenset(("",))
        case "chars":
            return None if node.chars is None else node.chars.members(_MEMBERS_MAX)
        case "assert":
            return None
        case "alternate":
            texts = frozenset[str]()
            for part in node.parts:
                more = _texts(part)
                if more is None:
                    return None
                texts |= more
        case "concat":
            texts = frozenset(("",))
            for part in node.parts:
                more = _texts(part)
                if more is None or len(texts) * len(more) > _MEMBERS_MAX:
                    return None
                texts = frozenset(head + tail for head in texts for tail in more)
        case _:
            inner = _texts(node.parts[0]) if 0 <= node.largest <= 4 else None
            if inner is None or len(inner) > 4:
                return None
            texts = power = frozenset(("",))
            powers = [power]
            for _ in range(node.largest):
                power = frozenset(head + tail for head in power for tail in inner)
                powers.append(power)
            texts = frozenset[str]().union(*powers[node.smallest :])
    return texts if len(texts) <= _MEMBERS_MAX else None


# --- what Python's engine may be trusted with


def _length(node: Node) -> int:
    """Instructions the automaton needs, at least."""
    match node.kind:
        case "concat" | "alternate":
            return sum(map(_length, node.parts)) + len(node.parts)
        case "repeat":
            times = node.largest if node.largest >= 0 else max(node.smallest, 1)
            return max(1, times) * (_length(node.parts[0]) + 1)
        case _:
            return 1


def _degree(node: Node) -> int | None:
    """The exponent of the text's length in the worst case of a backtracking search, or None: not known.

    One for the place to start unless the pattern is anchored, one for each unbounded repetition; choices
    multiply and are limited to a small factor.
    """
    cost = _backtracking(node)
    if cost is None:
        return None
    repetitions, factor, length = cost
    degree = repetitions + (0 if _is_anchored(node) else 1)
    if factor > (64 if degree <= 1 else 4) or degree > 2 or length > 100:
        return None
    return degree


def _is_anchored(node: Node) -> bool:
    if node.kind == CONCAT:
        return bool(node.parts) and _is_anchored(node.parts[0])
    return node.kind == ASSERT and node.assertion == "begin_text"


def _backtracking(node: Node) -> tuple[int, int, int] | None:
    """(unbounded repetitions, ways to match the rest, characters) of a part, or None for "do not trust"."""
    match node.kind:
        case "empty":
            return 0, 1, 1
        case "assert":
            # Python finds no \\B in the empty text.
            return None if node.assertion == "no_word_boundary" else (0, 1, 1)
        case "chars":
            return None if node.chars is None or node.chars.to_python() is None else (0, 1, 1)
        case "concat":
            return _combined(node.parts)
        case "alternate":
            return _alternatives(node.parts)
        case _:
            return _repetition(node)


def _combined(parts: tuple[Node, ...]) -> tuple[int, int, int] | None:
    repetitions, factor, length = 0, 1, 0
    for part in parts:
        cost = _backtracking(part)
        if cost is None:
            return None
        repetitions += cost[0]
        factor *= cost[1]
        length += cost[2]
    return repetitions, factor, length


def _alternatives(parts: tuple[Node, ...]) -> tuple[int, int, int] | None:
    costs = [_backtracking(part) for part in parts]
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(costs):
        return None
    firsts = [_first_chars(part) for part in parts]
    total = sum(len(chars) for chars in firsts if chars is not None)
    union = frozenset[str]().union(*(chars for chars in firsts if chars is not None))
    is_decided = None not in firsts and len(union) == total
    factor = max(cost[1] for cost in known) if is_decided else sum(cost[1] for cost in known)
    return max(cost[0] for cost in known), factor, sum(cost[2] for cost in known)


def _repetition(node: Node) -> tuple[int, int, int] | None:
    inner = node.parts[0]
    if inner.kind == CHARS:
        if _backtracking(inner) is None:
            return None
        if node.largest < 0:
            return 1, 1, node.smallest + 1
        return 0, node.largest - node.smallest + 1, node.largest
    if (node.smallest, node.largest) == (0, 1):
        cost = _backtracking(inner)
        return None if cost is None else (cost[0], cost[1] + 1, cost[2])
    return None


def _first_chars(node: Node) -> frozenset[str] | None:
    """The characters a match of the part can begin with, if they are few and it cannot be empty."""
    if node.kind == CHARS and node.chars is not None:
        return node.chars.members(limit=64)
    if node.kind == CONCAT and node.parts:
        return _first_chars(node.parts[0])
    if node.kind == REPEAT and node.smallest > 0:
        return _first_chars(node.parts[0])
    return None


def _to_python(node: Node) -> str:
    match node.kind:
        case "empty":
            return ""
        case "assert":
            return _PYTHON_ASSERTION[node.assertion]
        case "chars":
            text = node.chars.to_python() if node.chars is not None else None
            assert text is not None
            return text
        case "concat":
            return "".join(map(_to_python, node.parts))
        case "alternate":
            return f"(?:{'|'.join(map(_to_python, node.parts))})"
        case _:
            upper = "" if node.largest < 0 else str(node.largest)
            lazy = "?" if node.is_lazy else ""
            return f"(?:{_to_python(node.parts[0])}){{{node.smallest},{upper}}}{lazy}"


def _for_short_texts(node: Node) -> Node:
    """A pattern that finds a match in a text of at most `_SHORT_TEXT` characters exactly when `node` does.

    A count above that length is no limit, and a part that may be empty needs no least count.
    """
    if not node.parts:
        return node
    parts = tuple(map(_for_short_texts, node.parts))
    smallest, largest = node.smallest, node.largest
    if node.kind == REPEAT:
        smallest = 0 if _is_optional(parts[0]) else smallest
        largest = -1 if largest > _SHORT_TEXT else largest
        if (smallest, largest) == (0, -1) and (parts[0].smallest, parts[0].largest) == (0, 1):
            parts = parts[0].parts
    return Node(node.kind, parts, smallest=smallest, largest=largest, is_lazy=node.is_lazy)


def _is_optional(node: Node) -> bool:
    """Whether it matches the empty text everywhere."""
    match node.kind:
        case "concat":
            return all(map(_is_optional, node.parts))
        case "alternate":
            return any(map(_is_optional, node.parts))
        case "repeat":
            return node.smallest == 0 or _is_optional(node.parts[0])
        case _:
            return node.kind == EMPTY


def _is_nullable(node: Node) -> bool:
    """Whether it matches the empty text somewhere."""
    match node.kind:
        case "chars":
            return False
        case "concat":
            return all(map(_is_nullable, node.parts))
        case "alternate":
            return any(map(_is_nullable, node.parts))
        case "repeat":
            return node.smallest == 0 or _is_nullable(node.parts[0])
        case _:
            return True


# --- the automaton

_Seeds = tuple[int, ...]


class _Program:
    """A pattern as instructions, one list per field; alternatives are in order of preference.

    kinds: what each instruction does.
    first, second: where it goes on; only a split has a second.
    arguments: of a character test the index of its set in `sets`, of a check the assertion.
    """

    __slots__ = ("_set_index", "arguments", "first", "kinds", "second", "sets", "start")

    def __init__(self, tree: Node) -> None:
        self.kinds: Final = [_MATCH]
        self.first: Final = [0]
        self.second: Final = [0]
        self.arguments: Final[list[Any]] = [None]
        self.sets: Final[list[CharSet]] = []
        self._set_index: Final[dict[int, int]] = {}
        self.start: Final = self.add(tree, 0)

    def emit(self, kind: int, argument: Any, first: int, second: int = 0) -> int:
        if len(self.kinds) > 3 * PROGRAM_MAX:
            raise AbortedError(LIMIT_EXCEEDED)
        self.kinds.append(kind)
        self.arguments.append(argument)
        self.first.append(first)
        self.second.append(second)
        return len(self.kinds) - 1

    def split(self, preferred: int, other: int, *, is_lazy: bool) -> int:
        return self.emit(_SPLIT, None, *((other, preferred) if is_lazy else (preferred, other)))

    def add(self, node: Node, then: int) -> int:
        """The place where matching `node` and going on at `then` begins."""
        match node.kind:
            case "empty":
                return then
            case "chars":
                assert node.chars is not None
                index = self._set_index.setdefault(id(node.chars), len(self.sets))
                if index == len(self.sets):
                    self.sets.append(node.chars)
                return self.emit(_CHAR, index, then)
            case "assert":
                return self.emit(_CHECK, node.assertion, then)
            case "concat":
                for part in reversed(node.parts):
                    then = self.add(part, then)
                return then
            case "alternate":
                places = [self.add(part, then) for part in node.parts]
                place = places.pop()
                while places:
                    place = self.split(places.pop(), place, is_lazy=False)
                return place
            case _:
                return self.repetition(node, then)

    def repetition(self, node: Node, then: int) -> int:
        inner = node.parts[0]
        place = then
        copies = node.smallest
        if node.largest < 0:
            loop = self.emit(_SPLIT, None, 0, 0)
            body = self.add(inner, loop)
            self.first[loop], self.second[loop] = (then, body) if node.is_lazy else (body, then)
            if copies:
                place = body
                copies -= 1
            elif _is_nullable(inner):
                # x* is (x+)? when x can be empty: that keeps the order of preference.
                place = self.split(body, then, is_lazy=node.is_lazy)
            else:
                place = loop
        else:
            for _ in range(node.largest - node.smallest):
                place = self.split(self.add(inner, place), then, is_lazy=node.is_lazy)
        for _ in range(copies):
            place = self.add(inner, place)
        return place


_BEGIN, _AFTER_NEWLINE, _AFTER_WORD, _AFTER_OTHER = range(4)


def _context(character: str) -> int:
    if character == "\n":
        return _AFTER_NEWLINE
    return _AFTER_WORD if character in _WORD else _AFTER_OTHER


class _State:
    """The places where the automaton can be, in order of preference, and the kind of character before them.

    `steps` maps the next character (or None at the end) to (next state or None when there is no way on,
    whether a match ends before that character).
    """

    __slots__ = ("context", "seeds", "steps")

    def __init__(self, seeds: _Seeds, context: int) -> None:
        self.seeds: Final = seeds
        self.context: Final = context
        self.steps: dict[str | None, tuple[_State | None, bool]] = {}


class _Automaton:
    """A pattern's automaton; states are made when a text needs them and forgotten when they get too large."""

    __slots__ = ("_program", "_seeds_count", "_states")

    def __init__(self, tree: Node) -> None:
        self._program: Final = _Program(tree)
        self._states: dict[tuple[_Seeds, int, bool], _State] = {}
        self._seeds_count = 0

    def state(self, seeds: _Seeds, context: int, restarts: bool) -> _State:
        key = (seeds, context, restarts)
        found = self._states.get(key)
        if found is None:
            self._seeds_count += len(seeds)
            if self._seeds_count > _SEEDS_MAX:
                self._states.clear()
                self._seeds_count = len(seeds)
            found = self._states[key] = _State(seeds, context)
        return found

    def search(self, text: str) -> bool:
        """Whether there is a match anywhere: one pass, a new attempt joining at every character."""
        state: _State | None = self.state((self._program.start,), _BEGIN, restarts=True)
        for character in text:
            assert state is not None
            step = state.steps.get(character)
            if step is None:
                step = self.step(state, character, restarts=True)
            state, is_match = step
            if is_match:
                return True
        assert state is not None
        step = state.steps.get(None) or self.step(state, None, restarts=True)
        return step[1]

    def find(self, text: str, start: int) -> tuple[int, int] | None:
        """The leftmost match from `start` on, the preferred one among those that begin there."""
        budget = STEPS_MAX
        for begin in range(start, len(text) + 1):
            context = _context(text[begin - 1]) if begin else _BEGIN
            state: _State | None = self.state((self._program.start,), context, restarts=False)
            end = -1
            position = begin
            while state is not None:
                character = text[position] if position < len(text) else None
                step = state.steps.get(character)
                if step is None:
                    budget -= len(state.seeds)
                    step = self.step(state, character, restarts=False)
                state, is_match = step
                if is_match:
                    end = position
                position += 1
            budget -= position - begin
            spend(4 + 3 * (position - begin))
            if end >= 0:
                return begin, end
            if budget < 0:
                raise AbortedError(LIMIT_EXCEEDED)
        return None

    def step(self, state: _State, character: str | None, *, restarts: bool) -> tuple[_State | None, bool]:
        """Work out and remember where a state goes with the next character."""
        tests, is_match = self.closure(state, character)
        following: _State | None = None
        if character is not None:
            program = self._program
            first, arguments = program.first, program.arguments
            accepts = [chars.contains(character) for chars in program.sets]
            seeds = dict.fromkeys([first[place] for place in tests if accepts[arguments[place]]])
            if restarts:
                seeds[program.start] = None
            if seeds:
                following = self.state(tuple(seeds), _context(character), restarts)
        step = (following, is_match)
        state.steps[character] = step
        return step

    def closure(self, state: _State, character: str | None) -> tuple[list[int], bool]:
        """The character tests reachable without reading, in order, up to a match; and whether one is there."""
        program = self._program
        kinds, first, second, arguments = program.kinds, program.first, program.second, program.arguments
        tests: list[int] = []
        seen = bytearray(len(kinds))
        pending = [*reversed(state.seeds)]
        while pending:
            place = pending.pop()
            while not seen[place]:
                seen[place] = 1
                kind = kinds[place]
                if kind == _SPLIT:
                    pending.append(second[place])
                elif kind == _CHAR:
                    tests.append(place)
                    break
                elif kind == _MATCH:
                    return tests, True
                elif not _holds(arguments[place], state.context, character):
                    break
                place = first[place]
        return tests, False


def _holds(assertion: str, before: int, after: str | None) -> bool:
    match assertion:
        case "begin_text":
            return before == _BEGIN
        case "end_text":
            return after is None
        case "begin_line":
            return before in (_BEGIN, _AFTER_NEWLINE)
        case "end_line":
            return after is None or after == "\n"
        case _:
            is_boundary = (before == _AFTER_WORD) != (after is not None and after in _WORD)
            return is_boundary == (assertion == "word_boundary")
