"""Syntax errors in the words of cel-go's ANTLR parser, all of them.

cel-go reports what ANTLR reports, and ANTLR goes on after an error: it deletes or inserts one token
where that helps, and otherwise skips to something that can follow. To say the same, this module runs
CEL's grammar as a network of states the way ANTLR's generated parser does, with its error strategy
(`sync`, `recover_inline`, `recover`) step by step. It builds no tree: `parser` does that, from text that
parses; only text that does not comes here.

Bounded: of sources with more than `LARGEST` tokens only the place of the first error is told.

Source: cel-go parser/gen/CEL.g4 and parser.go (limits); antlr4 Go runtime error_strategy.go,
ll1_analyzer.go, parser_atn_simulator.go at v4.13.0.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from cel.errors import Issue
from cel.parser.grammar import DECISION, EPSILON, LOOP_BACK, NAMED, ORDER, STOP, Element, State, grammar
from cel.parser.lexer import EOF, Tokens
from cel.parser.parser import RECURSION_LIMIT, DepthError, Parser, UnexpectedTokenError

LARGEST: Final = 1500
_RECOVERY_LIMIT: Final = 30
_SKIP_LIMIT: Final = 256
_REPORT_LIMIT: Final = 100
_TOO_MANY: Final = f"Syntax error: More than {_REPORT_LIMIT} syntax errors"
# Decisions remembered by the tokens that made them, as ANTLR's DFA does.
_LOOKAHEAD_KEPT: Final = 3
_PREDICTIONS_KEPT: Final = 2000


class _Mismatch(Exception):  # noqa: N818 - control flow inside a run, ANTLR's name
    """InputMismatchException: the expectations are those of the state where it was found."""

    def __init__(self, expected: frozenset[str]) -> None:
        super().__init__()
        self.expected = expected


class _NoViableAlternative(Exception):  # noqa: N818
    def __init__(self, start: int, offending: int) -> None:
        super().__init__()
        self.start = start
        self.offending = offending


class _Stop(Exception):  # noqa: N818
    """A limit ends the run; what there is to say is said."""


class _Frame:
    """A rule being run."""

    __slots__ = ("after", "precedence", "rule")

    def __init__(self, rule: str, after: State | None, precedence: int) -> None:
        self.rule = rule
        self.after = after
        self.precedence = precedence


# A configuration of the predictor: the state, what is left on its stack, and whether it has left the rule
# of the decision (then anything that can follow the rule anywhere may follow).
_Stack = tuple[State, ...]
_Config = tuple[State, _Stack, bool]


class _Run:
    """One run over one list of tokens."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.kinds = tokens.kinds
        self.grammar = grammar()
        self.position = 0
        self.state = self.grammar.starts["start"]
        self.frames: list[_Frame] = []
        self.depths: dict[str, int] = {}
        self.issues: list[Issue] = []
        self.reported = len(tokens.issues)
        self.attempts = 0
        self.is_recovering = False
        self.last_error_position = -1
        self.last_error_states: set[State] = set()

    # Rules and elements.

    def invoke(self, rule: str, after: State | None, precedence: int) -> None:
        self.frames.append(_Frame(rule, after, precedence))
        entered = self.enter(rule)
        try:
            for element in self.grammar.elements[rule]:
                entered += self.execute(element)
        except _Mismatch as error:
            self.report(error)
            self.recover()
        except _NoViableAlternative as error:
            self.report(error)
            self.recover()
        self.depths[rule] -= entered
        self.frames.pop()

    def enter(self, rule: str) -> int:
        depth = self.depths.get(rule, 0) + 1
        if depth > RECURSION_LIMIT:
            self.issues.append(Issue(-1, f"expression recursion limit exceeded: {RECURSION_LIMIT}"))
            raise _Stop
        self.depths[rule] = depth
        return 1

    def execute(self, element: Element) -> int:
        """Run one element; returns how often it entered its rule anew (left recursion)."""
        state = self.state = element.state
        match element.kind:
            case "token":
                self.match()
            case "rule":
                assert state.rule is not None
                self.invoke(state.rule, state.target, state.rule_precedence)
            case "optional":
                self.sync()
                if self.kinds[self.position] in self.grammar.next_tokens(state.epsilon[0]):
                    self.execute_all(element.body[0])
            case "choice":
                self.sync()
                self.execute_all(element.body[self.choose(element)])
            case "star":
                self.sync()
                while self.wants_more(element, state):
                    self.execute_all(element.body[0])
                    self.state = element.loop_back
                    self.sync()
            case "left":
                return self.execute_left_recursion(element)
            case _:
                self.sync()
                while True:
                    self.execute_all(element.body[0])
                    self.state = element.loop_back
                    self.sync()
                    if not self.wants_more(element, element.loop_back):
                        break
        return 0

    def execute_all(self, elements: Sequence[Element]) -> None:
        for element in elements:
            self.execute(element)

    def execute_left_recursion(self, element: Element) -> int:
        entered = 0
        self.sync()
        frame = self.frames[-1]
        try:
            while self.predict(element.state) == 0:
                (choice,) = element.body[0]
                self.state = choice.state
                self.sync()
                chosen = self.predict(choice.state)
                entered += self.enter(frame.rule)
                self.execute_all(choice.body[chosen])
                self.state = element.loop_back
                self.sync()
        except (_Mismatch, _NoViableAlternative):
            self.depths[frame.rule] -= entered
            raise
        return entered

    def wants_more(self, element: Element, state: State) -> bool:
        if element.decides:
            return self.predict(state) == 0
        return self.kinds[self.position] in self.grammar.next_tokens(state.epsilon[0])

    def choose(self, element: Element) -> int:
        if element.decides:
            return self.predict(element.state)
        kind = self.kinds[self.position]
        for number, first in enumerate(element.state.epsilon):
            if kind in self.grammar.next_tokens(first):
                return number
        raise _NoViableAlternative(self.position, self.position)

    def consume(self) -> None:
        if self.position < len(self.kinds) - 1:
            self.position += 1

    def match(self) -> None:
        assert self.state.tokens is not None
        if self.kinds[self.position] in self.state.tokens:
            self.end_recovery()
            self.consume()
        else:
            self.recover_inline()

    # Prediction.

    def predict(self, decision: State) -> int:
        """The alternative (from 0) the input calls for, as ANTLR's simulator finds it.

        First with any context that can be around the rule (SLL), and when that leaves a conflict, with
        the very context (LL). The two differ only on wrong input, which is what there is here.
        """
        if len(decision.epsilon) == 1:
            return 0
        known = self.grammar.predictions.setdefault((decision, self.frames[-1].precedence), {})
        for count in range(1, _LOOKAHEAD_KEPT + 1):
            found = known.get(tuple(self.kinds[self.position : self.position + count]))
            if found is not None:
                return found
        found, looked_at = self.simulate(decision, ())
        if found is None:
            context = tuple(frame.after for frame in self.frames if frame.after is not None)
            found, _ = self.simulate(decision, context)
            assert found is not None
        elif looked_at <= _LOOKAHEAD_KEPT and len(known) < _PREDICTIONS_KEPT:
            known[tuple(self.kinds[self.position : self.position + looked_at])] = found
        return found

    def simulate(self, decision: State, context: _Stack) -> tuple[int | None, int]:
        """The alternative, or None for a conflict without context; and how many tokens decided."""
        is_full = bool(context)
        precedence = self.frames[-1].precedence
        configs: dict[int, set[_Config]] = {}
        for number, first in enumerate(decision.epsilon):
            closed = self.close({(first, context, False)}, len(context), precedence=precedence)
            if decision.epsilon[0].kind == DECISION and number > 0 and 0 in configs:
                # A left-recursive loop takes an operator itself rather than leave it to the rules around.
                own = {config[:2] for config in configs[0]}
                closed = {config for config in closed if config[:2] not in own}
            if closed:
                configs[number] = closed
        position = self.position
        while len(configs) > 1:
            kind = self.kinds[min(position, len(self.kinds) - 1)]
            reached = {number: self.step(before, kind, len(context)) for number, before in configs.items()}
            reached = {number: after for number, after in reached.items() if after}
            if not reached:
                # What has come to the end of the rule may at least end it; the error is then found later.
                for number in sorted(configs):
                    if any(is_outside or state.kind == STOP for state, _, is_outside in configs[number]):
                        return number, position - self.position + 1
                raise _NoViableAlternative(self.position, min(position, len(self.kinds) - 1))
            if len(reached) > 1 and (is_full or kind == EOF):
                lowest = _resolved(reached)
                if lowest is not None or kind == EOF:
                    return min(reached) if lowest is None else lowest, position - self.position + 1
            elif len(reached) > 1 and _conflicts(reached):
                return None, 0
            configs = reached
            position += 1
        if not configs:
            raise _NoViableAlternative(self.position, self.position)
        return next(iter(configs)), max(position - self.position, 1)

    def step(self, configs: set[_Config], kind: str, depth: int) -> set[_Config]:
        moved: set[_Config] = set()
        for state, stack, is_outside in configs:
            if state.tokens is not None and kind in state.tokens:
                assert state.target is not None
                moved.add((state.target, stack, is_outside))
        return self.close(moved, depth) if moved else moved

    def close(self, configs: set[_Config], depth: int, *, precedence: int | None = None) -> set[_Config]:
        """Everything reachable without a token; only states that wait for one are kept, and ends.

        depth: of the stack in the decision's rule; below it lies the context.
        precedence: of the rule being run, for its own left recursion at the start of a decision.
        """
        pending = list(configs)
        seen = set(configs)
        waiting: set[_Config] = set()
        while pending:
            config = pending.pop()
            state, stack, is_outside = config
            following: list[_Config] = []
            if state.tokens is not None:
                waiting.add(config)
            elif state.rule is not None:
                assert state.target is not None
                following.append((self.grammar.starts[state.rule], (*stack, state.target), is_outside))
            elif state.kind == STOP:
                if stack:
                    following.append((stack[-1], stack[:-1], is_outside or len(stack) <= depth))
                elif self.grammar.followers[state.owner]:
                    following += [(after, (), True) for after in self.grammar.followers[state.owner]]
                else:
                    waiting.add(config)
            elif (
                precedence is not None
                and state.precedence
                and len(stack) == depth
                and not is_outside
                and state.precedence < precedence
            ):
                continue
            else:
                following += [(target, stack, is_outside) for target in state.epsilon]
            for candidate in following:
                if candidate not in seen:
                    seen.add(candidate)
                    pending.append(candidate)
        return waiting

    # ANTLR's error strategy.

    def expected(self) -> frozenset[str]:
        """What may come at the current state, in this very context."""
        following = self.grammar.next_tokens(self.state)
        if EPSILON not in following:
            return following
        expected = set(following)
        for frame in reversed(self.frames):
            if EPSILON not in following or frame.after is None:
                break
            following = self.grammar.next_tokens(frame.after)
            expected |= following
        if EPSILON in following:
            expected.add(EOF)
        return frozenset(expected - {EPSILON})

    def recovery_set(self) -> set[str]:
        tokens: set[str] = set()
        for frame in self.frames:
            if frame.after is not None:
                tokens |= self.grammar.next_tokens(frame.after)
        tokens.discard(EPSILON)
        return tokens

    def end_recovery(self) -> None:
        self.is_recovering = False
        self.last_error_states.clear()
        self.last_error_position = -1

    def sync(self) -> None:
        if self.is_recovering:
            return
        tokens = self.grammar.next_tokens(self.state)
        if EPSILON in tokens or self.kinds[self.position] in tokens:
            return
        if self.state.kind == DECISION:
            if not self.delete_one():
                raise _Mismatch(self.expected())
        elif self.state.kind == LOOP_BACK:
            self.report_unwanted()
            self.skip_to(self.expected() | self.recovery_set(), limit=None)

    def delete_one(self) -> bool:
        """Drop the current token if the next one fits."""
        following = self.kinds[min(self.position + 1, len(self.kinds) - 1)]
        if following not in self.expected():
            return False
        self.report_unwanted()
        self.consume()
        self.end_recovery()
        return True

    def insert_one(self) -> bool:
        """Pretend the expected token is there if the current one fits after it."""
        after = self.state.target
        assert after is not None
        saved, self.state = self.state, after
        fits = self.kinds[self.position] in self.expected()
        self.state = saved
        if fits and not self.is_recovering:
            self.is_recovering = True
            self.notify(self.position, f"missing {_verbose(self.expected())} at {self.shown(self.position)}")
        return fits

    def recover_inline(self) -> None:
        self.count_attempt()
        if self.delete_one():
            self.consume()
        elif not self.insert_one():
            raise _Mismatch(self.expected())

    def recover(self) -> None:
        self.count_attempt()
        skipped = 0
        if self.last_error_position == self.position and self.state in self.last_error_states:
            self.consume()
            skipped = 1
        self.last_error_position = self.position
        self.last_error_states.add(self.state)
        self.skip_to(self.recovery_set(), limit=_SKIP_LIMIT - skipped)

    def skip_to(self, tokens: set[str] | frozenset[str], *, limit: int | None) -> None:
        skipped = 0
        while self.kinds[self.position] != EOF and self.kinds[self.position] not in tokens:
            if limit is not None and skipped >= limit:
                self.issues.append(Issue(-1, f"error recovery token lookahead limit exceeded: {_SKIP_LIMIT}"))
                raise _Stop
            skipped += 1
            self.consume()

    def count_attempt(self) -> None:
        self.attempts += 1
        if self.attempts > _RECOVERY_LIMIT:
            self.notify(self.position, f"error recovery attempt limit exceeded: {_RECOVERY_LIMIT}")
            raise _Stop

    def report(self, error: _Mismatch | _NoViableAlternative) -> None:
        if self.is_recovering:
            return
        self.is_recovering = True
        if isinstance(error, _Mismatch):
            self.notify(
                self.position, f"mismatched input {self.shown(self.position)} expecting {_verbose(error.expected)}"
            )
            return
        is_at_end = self.kinds[error.start] == EOF
        text = EOF if is_at_end else self.tokens.source_between(error.start, error.offending)
        message = f"no viable alternative at input {_escaped(text)}"
        message = _RESERVED_FIELD.sub(r"mismatched input '\1' expecting IDENTIFIER", message)
        self.notify(error.offending, message)

    def report_unwanted(self) -> None:
        if self.is_recovering:
            return
        self.is_recovering = True
        self.notify(
            self.position, f"extraneous input {self.shown(self.position)} expecting {_verbose(self.expected())}"
        )

    def shown(self, position: int) -> str:
        return _escaped(self.tokens.texts[position])

    def notify(self, position: int, message: str) -> None:
        self.reported += 1
        offset = self.tokens.offsets[position]
        if self.reported > _REPORT_LIMIT:
            self.issues.append(Issue(offset, _TOO_MANY))
            raise _Stop
        self.issues.append(Issue(offset, f"Syntax error: {message}"))


def _alternatives_by_place(configs: dict[int, set[_Config]]) -> dict[tuple[State, _Stack], set[int]]:
    places: dict[tuple[State, _Stack], set[int]] = {}
    for number, reached in configs.items():
        for state, stack, _ in reached:
            places.setdefault((state, stack), set()).add(number)
    return places


def _resolved(configs: dict[int, set[_Config]]) -> int | None:
    """The one lowest alternative of every place, if there is just one."""
    lowest = {min(numbers) for numbers in _alternatives_by_place(configs).values()}
    return lowest.pop() if len(lowest) == 1 else None


def _conflicts(configs: dict[int, set[_Config]]) -> bool:
    """ANTLR's hasSLLConflictTerminatingPrediction."""
    places = _alternatives_by_place(configs)
    if all(len(numbers) == 1 for numbers in places.values()):
        return False
    by_state: dict[State, set[int]] = {}
    for (state, _), numbers in places.items():
        by_state.setdefault(state, set()).update(numbers)
    return all(len(numbers) > 1 for numbers in by_state.values())


_RESERVED_FIELD: Final = re.compile(r"no viable alternative at input '.(true|false|null)'")


def _escaped(text: str) -> str:
    text = text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{text}'"


def _verbose(tokens: frozenset[str]) -> str:
    shown = [token if token in NAMED else f"'{token}'" for token in sorted(tokens, key=ORDER.__getitem__)]
    return shown[0] if len(shown) == 1 else "{" + ", ".join(shown) + "}"


def syntax_issues(tokens: Tokens) -> list[Issue]:
    """What is wrong with tokens that do not parse; never empty."""
    if len(tokens.issues) > _REPORT_LIMIT:
        last = Issue(tokens.issues[-1].offset, _TOO_MANY)
        return [*tokens.issues[:_REPORT_LIMIT], last]
    if len(tokens.kinds) > LARGEST:
        return tokens.issues or [_first_problem(tokens)]
    run = _Run(tokens)
    with suppress(_Stop):
        run.invoke("start", None, 0)
    return tokens.issues + run.issues


def _first_problem(tokens: Tokens) -> Issue:
    """Where `parser` stopped, for sources too long to go on after it."""
    parser = Parser(tokens, {}, escaped_identifiers=True)
    try:
        parser.parse()
    except UnexpectedTokenError:
        pass
    except DepthError as error:
        return Issue(-1, str(error))
    position = parser.position
    return Issue(tokens.offsets[position], f"Syntax error: mismatched input {_escaped(tokens.texts[position])}")
