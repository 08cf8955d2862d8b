"""RE2 regular expressions, matched in bounded time whatever pattern and text.

`Regex` reads what Go's regexp/syntax reads and refuses what it refuses, with its texts. An automaton that is made as
texts need it does the matching, one step for each character, whatever the pattern.

Rules of this module
  1. Making a state takes 100 times as long as passing one. Each is charged as what it is (`spend`), and a search never
     pays less for what is remembered: an evaluation that meets a state first is charged for making it, as if nothing
     had been remembered before. Of that, what was not done is noted in `REMEMBERED`.
  2. The patterns of one expression share a `_Memory`. When it holds too much it is emptied, between two evaluations:
     within one nothing is forgotten, so nothing is charged twice.

Differs on purpose from Go: a pattern that would need more than `PROGRAM_MAX` instructions is "expression
too large" (Go: 3.3 million), groups nest 200 deep (Go: 1000). Scripts other than those in `unicode_classes` are
unknown.

Source: Go's regexp/syntax (parse.go, perl_groups.go) and regexp (leftmost-first matching), 1.26.
"""

from __future__ import annotations

from typing import Any, Final

from cel.errors import EvaluationError
from cel.library.regex_syntax import (
    ASSERT,
    CONCAT,
    EMPTY,
    REPEAT,
    CharSet,
    Node,
    RegexError,
    parse_regex,
)
from cel.library.values import EVALUATION, LIMIT_EXCEEDED, REMEMBERED, AbortedError, spend

__all__ = ["Regex", "RegexError", "compiled", "find", "find_all", "remembered_words"]

PROGRAM_MAX: Final = 3500
WORDS_MAX: Final = 100_000
"""What the automata of an expression may hold when an evaluation begins, in words of 8 bytes."""
_SHORT_TEXT: Final = 256
_MEMBERS_MAX: Final = 64

# Efforts, measured: see `spend`.
_SEARCH: Final = 20
_CHARACTER: Final = 3
_ATTEMPT: Final = 12
"""Of looking for a match that begins at one place."""
_INSTRUCTION: Final = 25
"""Of making an automaton, for each instruction of its program."""
_STEP: Final = 60
_AGAIN: Final = 3
"""What is left of it where it was made before; less than any of it."""
_VISIT: Final = 6
"""For each instruction that a step of the automaton looks at; for each place it leads to."""

# Words of 8 bytes that objects take, about.
_INSTRUCTION_WORDS: Final = 12
_STATE_WORDS: Final = 50
_STEP_WORDS: Final = 25

_CHAR, _SPLIT, _CHECK, _MATCH = range(4)

_WORD: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


class _Memory:
    """The automata of an expression's patterns: those for short texts, those for any, and the words they hold."""

    __slots__ = ("evaluation", "short", "whole", "words")

    def __init__(self) -> None:
        self.evaluation = 0
        self.short: Final[dict[str, _Automaton]] = {}
        self.whole: Final[dict[str, _Automaton]] = {}
        self.words: Final = [0]

    def begin(self) -> None:
        """Something is about to be searched."""
        if self.evaluation != EVALUATION[0]:
            self.evaluation = EVALUATION[0]
            if self.words[0] > WORDS_MAX:
                self.short.clear()
                self.whole.clear()
                self.words[0] = 0


class Regex:
    """A compiled pattern."""

    __slots__ = ("_is_anchored", "_tree", "memory", "pattern")

    def __init__(self, pattern: str, memory: _Memory | None = None) -> None:
        """Read the pattern; `memory` is that of the expression it belongs to.

        Raises:
            RegexError: with Go's text.
        """
        self.pattern: Final = pattern
        self.memory: Final = memory or _Memory()
        self._tree: Final = parse_regex(pattern)
        if _length(self._tree) > PROGRAM_MAX:
            raise RegexError("expression too large", pattern)
        self._is_anchored: Final = _is_anchored(self._tree)

    def search(self, text: str) -> bool:
        """Whether the pattern matches anywhere in `text`."""
        spend(_SEARCH + _CHARACTER * len(text))
        return self.automaton(len(text) <= _SHORT_TEXT).search(text)

    def find(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """Leftmost-first match at or after `start`: its begin and end."""
        spend(_SEARCH)
        if start == 0 and not self.search(text):
            return None
        return self.automaton().find(text, start)

    def automaton(self, is_short: bool = False) -> _Automaton:
        """The automaton of the pattern, for texts of any length or for short ones, to be used in this evaluation."""
        memory = self.memory
        if memory.evaluation != EVALUATION[0]:
            memory.begin()
        automata = memory.short if is_short else memory.whole
        automaton = automata.get(self.pattern)
        if automaton is None:
            tree = _for_short_texts(self._tree) if is_short else self._tree
            automaton = automata[self.pattern] = _Automaton(tree, self._is_anchored, memory.words)
        elif automaton.evaluation != memory.evaluation:
            automaton.begin(memory.evaluation)
        return automaton

    def members(self) -> frozenset[str] | None:
        """The texts the pattern matches if they are few and it says how they begin and end, as `^(A|H)100$`."""
        parts = self._tree.parts
        if self._tree.kind != CONCAT or len(parts) < 2:
            return None
        first, last = parts[0], parts[-1]
        if (first.kind, first.assertion, last.kind, last.assertion) != (ASSERT, "begin_text", ASSERT, "end_text"):
            return None
        return _texts(Node(CONCAT, parts[1:-1]))


def compiled(patterns: dict[str, Regex], pattern: str) -> Regex:
    """A constant pattern of an expression that has these: read once, whoever asks.

    Raises:
        RegexError: with Go's text.
    """
    regex = patterns.get(pattern)
    if regex is None:
        memory = next(iter(patterns.values())).memory if patterns else None
        regex = patterns[pattern] = Regex(pattern, memory)
    return regex


def remembered_words(patterns: dict[str, Regex]) -> int:
    """What is kept for an expression's patterns, in words of 8 bytes."""
    return next(iter(patterns.values())).memory.words[0] if patterns else 0


def regex_at_run_time(pattern: str) -> Regex:
    """A pattern computed by an evaluation. A loop can compute many, so nothing of them is remembered.

    Raises:
        RegexError: with Go's text.
        AbortedError: after too many in one evaluation.
    """
    spend(2_500 + 110 * len(pattern))
    return Regex(pattern)


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


def _is_anchored(node: Node) -> bool:
    """Whether a match can begin at the begin of the text alone."""
    if node.kind == CONCAT:
        return bool(node.parts) and _is_anchored(node.parts[0])
    return node.kind == ASSERT and node.assertion == "begin_text"


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


class _Step:
    """Where a state goes with a character.

    following: the next state, or None when there is no way on.
    is_match: whether a match ends before the character.
    effort: of making it; `evaluation` is the last one that was charged for that.
    """

    __slots__ = ("effort", "evaluation", "following", "is_match")

    def __init__(self, following: _State | None, is_match: bool, effort: int, evaluation: int) -> None:
        self.following: Final = following
        self.is_match: Final = is_match
        self.effort: Final = effort
        self.evaluation = evaluation


class _State:
    """The places where the automaton can be, in order of preference, and the kind of character before them.

    `steps` by the next character, None at the end.
    """

    __slots__ = ("context", "seeds", "steps")

    def __init__(self, seeds: _Seeds, context: int) -> None:
        self.seeds: Final = seeds
        self.context: Final = context
        self.steps: Final[dict[str | None, _Step]] = {}


class _Automaton:
    """A pattern's automaton; states and steps are made when a text needs them."""

    __slots__ = ("_first", "_is_anchored", "_program", "_states", "_words", "evaluation")

    def __init__(self, tree: Node, is_anchored: bool, words: list[int]) -> None:
        """`words` counts what it takes."""
        self._program: Final = _Program(tree)
        self._is_anchored: Final = is_anchored
        self._states: Final[dict[tuple[_Seeds, int, bool], _State]] = {}
        self._words: Final = words
        self.evaluation = EVALUATION[0]
        spend(_INSTRUCTION * len(self._program.kinds))
        words[0] += _INSTRUCTION_WORDS * len(self._program.kinds)
        self._first: Final = self.state((self._program.start,), _BEGIN, not is_anchored)

    def begin(self, evaluation: int) -> None:
        """It is used in another evaluation than before."""
        self.evaluation = evaluation
        _spend_remembered(_INSTRUCTION * len(self._program.kinds))

    def state(self, seeds: _Seeds, context: int, restarts: bool) -> _State:
        key = (seeds, context, restarts)
        found = self._states.get(key)
        if found is None:
            self._words[0] += _STATE_WORDS + len(seeds)
            found = self._states[key] = _State(seeds, context)
        return found

    def search(self, text: str) -> bool:
        """Whether there is a match anywhere: one pass, a new attempt joining at every character."""
        restarts, evaluation = not self._is_anchored, self.evaluation
        state = self._first
        is_match = False
        again = effort = 0
        for character in (*text, None):
            step = state.steps.get(character)
            if step is None:
                step = self.step(state, character, restarts)
            elif step.evaluation != evaluation:
                step.evaluation = evaluation
                effort += step.effort
                again += 1
            if step.following is None or step.is_match:
                is_match = step.is_match
                break
            state = step.following
        if again:
            _spend_remembered(effort, again)
        return is_match

    def find(self, text: str, start: int) -> tuple[int, int] | None:
        """The leftmost match from `start` on, the preferred one among those that begin there."""
        evaluation = self.evaluation
        for begin in range(start, 1 if self._is_anchored else len(text) + 1):
            context = _context(text[begin - 1]) if begin else _BEGIN
            state: _State | None = self.state((self._program.start,), context, False)
            end = -1
            position = begin
            while state is not None:
                character = text[position] if position < len(text) else None
                step = state.steps.get(character)
                if step is None:
                    step = self.step(state, character, False)
                elif step.evaluation != evaluation:
                    step.evaluation = evaluation
                    _spend_remembered(step.effort)
                if step.is_match:
                    end = position
                state = step.following
                position += 1
            spend(_ATTEMPT + _CHARACTER * (position - begin))
            if end >= 0:
                return begin, end
        return None

    def step(self, state: _State, character: str | None, restarts: bool) -> _Step:
        """Work out and remember where a state goes with the next character."""
        tests, is_match, visited = self.closure(state, character)
        following: _State | None = None
        weight = 0
        if character is not None and not (is_match and restarts):
            program = self._program
            first, arguments = program.first, program.arguments
            accepts = {}
            for index in {arguments[place] for place in tests}:
                chars = program.sets[index]
                weight += chars.weight
                accepts[index] = chars.contains(character)
            seeds = dict.fromkeys([first[place] for place in tests if accepts[arguments[place]]])
            if restarts:
                seeds[program.start] = None
            if seeds:
                following = self.state(tuple(seeds), _context(character), restarts)
        self._words[0] += _STEP_WORDS
        effort = _STEP + _VISIT * visited + weight
        step = state.steps[character] = _Step(following, is_match, effort, self.evaluation)
        spend(effort)
        return step

    def closure(self, state: _State, character: str | None) -> tuple[list[int], bool, int]:
        """The character tests reachable without reading, in order, up to a match; whether one is there; the effort."""
        program = self._program
        kinds, first, second, arguments = program.kinds, program.first, program.second, program.arguments
        tests: list[int] = []
        seen = bytearray(len(kinds))
        pending = [*reversed(state.seeds)]
        visited = len(kinds) // 256
        while pending:
            place = pending.pop()
            while not seen[place]:
                seen[place] = 1
                visited += 1
                kind = kinds[place]
                if kind == _SPLIT:
                    pending.append(second[place])
                elif kind == _CHAR:
                    tests.append(place)
                    break
                elif kind == _MATCH:
                    return tests, True, visited
                elif not _holds(arguments[place], state.context, character):
                    break
                place = first[place]
        return tests, False, visited


def _spend_remembered(effort: int, count: int = 1) -> None:
    """That of things, so many, which are met for the first time in an evaluation and were made before it."""
    REMEMBERED[0] += effort - _AGAIN * count
    spend(effort)


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
