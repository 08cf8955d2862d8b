"""CEL's grammar as a network of states, shaped as ANTLR shapes it.

`parser` is what parses; this network exists for `recovery`, which says what ANTLR would say about text
that does not parse, and for that has to be in the states ANTLR would be in.

Source: cel-go v0.26.0 and v0.29.2, parser/gen/CEL.g4; antlr4 v4.13.0, runtime ll1_analyzer.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from cel.parser.lexer import BYTES, EOF, ESCAPED_IDENT, FLOAT, IDENT, INT, STRING, UINT

EPSILON: Final = "<epsilon>"
# In the order of ANTLR's token types, which is the order of "expecting {...}".
TOKENS: Final = (
    EOF, "==", "!=", "in", "<", "<=", ">=", ">", "&&", "||", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?",
    ":", "+", "*", "/", "%", "true", "false", "null", FLOAT, INT, UINT, STRING, BYTES, IDENT, ESCAPED_IDENT,
)  # fmt: skip
ORDER: Final = {token: position for position, token in enumerate(TOKENS)}
NAMED: Final = frozenset((EOF, FLOAT, INT, UINT, STRING, BYTES, IDENT, ESCAPED_IDENT))

# How ANTLR's `sync` treats a state.
PLAIN, DECISION, LOOP_BACK, STOP = range(4)


class State:
    """A point in a rule. Exactly one of `tokens`, `rule`, `epsilon` says how to leave it (none at a stop)."""

    __slots__ = ("epsilon", "kind", "owner", "precedence", "rule", "rule_precedence", "target", "tokens")

    def __init__(self, owner: str, kind: int = PLAIN) -> None:
        self.owner = owner
        self.kind = kind
        self.tokens: frozenset[str] | None = None
        self.rule: str | None = None
        self.rule_precedence = 0
        self.target: State | None = None
        self.epsilon: list[State] = []
        # Entering needs at least this precedence to be left over (left-recursive rules).
        self.precedence = 0


class Element:
    """A piece of a rule with its first state; `run` by `_Run.execute`."""

    __slots__ = ("body", "decides", "kind", "loop_back", "state")

    def __init__(
        self, kind: str, state: State, body: Sequence[Sequence[Element]] = (), *, decides: bool = False
    ) -> None:
        self.kind = kind
        self.state = state
        self.body = body
        # Whether generated code asks the predictor here; otherwise the next token alone decides.
        self.decides = decides
        self.loop_back = state


# The grammar. A string is a token, an upper-case word in _SETS a choice of tokens, "<name>" a rule,
# "<name:n>" a rule with a precedence; a tuple is (operator, ...) with operators ?, *, +, | as in CEL.g4;
# "p*" and "p+" ask the predictor, "left" is the loop of a left-recursive rule: (precedence, elements).
_SETS: Final = {
    "RELATION": frozenset(("<", "<=", ">=", ">", "==", "!=", "in")),
    "PRODUCT": frozenset(("*", "/", "%")),
    "SUM": frozenset(("+", "-")),
}
_NAME: Final = (("?", "."), IDENT)
_RULES: Final[dict[str, Sequence[object]]] = {
    "start": ("<expr>", EOF),
    "expr": ("<conditionalOr>", ("?", "?", "<conditionalOr>", ":", "<expr>")),
    "conditionalOr": ("<conditionalAnd>", ("*", "||", "<conditionalAnd>")),
    "conditionalAnd": ("<relation>", ("*", "&&", "<relation>")),
    "relation": ("<calc>", ("left", (1, "RELATION", "<relation:2>"))),
    "calc": ("<unary>", ("left", (2, "PRODUCT", "<calc:3>"), (1, "SUM", "<calc:2>"))),
    "unary": (("|", ("<member>",), (("+", "!"), "<member>"), (("p+", "-"), "<member>")),),
    "member": (
        "<primary>",
        (
            "left",
            (3, ".", ("?", "?"), "<escapeIdent>"),
            (2, ".", IDENT, "(", ("?", "<exprList>"), ")"),
            (1, "[", ("?", "?"), "<expr>", "]"),
        ),
    ),
    "primary": (
        (
            "|",
            _NAME,
            (*_NAME, "(", ("?", "<exprList>"), ")"),
            ("(", "<expr>", ")"),
            ("[", ("?", "<listInit>"), ("?", ","), "]"),
            ("{", ("?", "<mapInitializerList>"), ("?", ","), "}"),
            (*_NAME, ("*", ".", IDENT), "{", ("?", "<fieldInitializerList>"), ("?", ","), "}"),
            ("<literal>",),
        ),
    ),
    "exprList": ("<expr>", ("*", ",", "<expr>")),
    "listInit": ("<optExpr>", ("p*", ",", "<optExpr>")),
    "fieldInitializerList": ("<optField>", ":", "<expr>", ("p*", ",", "<optField>", ":", "<expr>")),
    "optField": (("?", "?"), "<escapeIdent>"),
    "mapInitializerList": ("<optExpr>", ":", "<expr>", ("p*", ",", "<optExpr>", ":", "<expr>")),
    "escapeIdent": (("1|", (IDENT,), (ESCAPED_IDENT,)),),
    "optExpr": (("?", "?"), "<expr>"),
    "literal": (
        (
            "|",
            (("?", "-"), INT),
            (UINT,),
            (("?", "-"), FLOAT),
            (STRING,),
            (BYTES,),
            ("true",),
            ("false",),
            ("null",),
        ),
    ),
}


class Grammar:
    """The network: first states and elements by rule, the states after each rule, sets of next tokens."""

    def __init__(self) -> None:
        self.starts: dict[str, State] = {}
        self.elements: dict[str, list[Element]] = {}
        self.followers: dict[str, list[State]] = {name: [] for name in _RULES}
        self.next_cache: dict[State, frozenset[str]] = {}
        self.predictions: dict[tuple[State, int], dict[tuple[str, ...], int]] = {}
        for name, items in _RULES.items():
            stop = State(name, STOP)
            self.elements[name], self.starts[name] = self.sequence(name, items, stop)

    def sequence(self, owner: str, items: Sequence[object], after: State) -> tuple[list[Element], State]:
        """Elements for `items`, and the state before the first."""
        elements: list[Element] = []
        for item in reversed(items):
            element = self.element(owner, item, after)
            elements.append(element)
            after = element.state
        elements.reverse()
        return elements, after

    def element(self, owner: str, item: object, after: State) -> Element:
        if isinstance(item, str):
            state = State(owner)
            state.target = after
            if len(item) > 2 and item[0] == "<" and item != EOF:
                name, _, precedence = item[1:-1].partition(":")
                state.rule = name
                state.rule_precedence = int(precedence or 0)
                self.followers[name].append(after)
                return Element("rule", state)
            state.tokens = _SETS.get(item) or frozenset((item,))
            return Element("token", state)
        assert isinstance(item, tuple)
        operator, *rest = item
        if operator in ("|", "1|"):
            return self.choice(owner, rest, after, decides=operator == "|")
        if operator == "?":
            block = State(owner, DECISION)
            body, first = self.sequence(owner, rest, after)
            block.epsilon = [first, after]
            return Element("optional", block, [body])
        if operator in ("*", "p*"):
            return self.star(owner, rest, after, decides=operator == "p*")
        if operator == "left":
            return self.left_recursion(owner, rest, after)
        return self.plus(owner, rest, after, decides=operator == "p+")

    def choice(self, owner: str, alternatives: Sequence[object], after: State, *, decides: bool) -> Element:
        block = State(owner, DECISION)
        bodies = []
        for alternative in alternatives:
            assert isinstance(alternative, tuple)
            body, first = self.sequence(owner, alternative, after)
            bodies.append(body)
            block.epsilon.append(first)
        return Element("choice", block, bodies, decides=decides)

    def star(self, owner: str, items: Sequence[object], after: State, *, decides: bool) -> Element:
        entry = State(owner, DECISION)
        loop_back = State(owner, LOOP_BACK)
        loop_back.epsilon = [entry]
        body, first = self.sequence(owner, items, loop_back)
        entry.epsilon = [first, after]
        element = Element("star", entry, [body], decides=decides)
        element.loop_back = loop_back
        return element

    def plus(self, owner: str, items: Sequence[object], after: State, *, decides: bool) -> Element:
        entry = State(owner, DECISION)
        loop_back = State(owner, LOOP_BACK)
        body, first = self.sequence(owner, items, loop_back)
        entry.epsilon = [first]
        loop_back.epsilon = [entry, after]
        element = Element("plus", entry, [body], decides=decides)
        element.loop_back = loop_back
        return element

    def left_recursion(self, owner: str, alternatives: Sequence[object], after: State) -> Element:
        """A loop whose body is a choice; each alternative needs its precedence to be left over."""
        entry = State(owner, DECISION)
        loop_back = State(owner, LOOP_BACK)
        loop_back.epsilon = [entry]
        block = State(owner, DECISION)
        bodies = []
        for alternative in alternatives:
            assert isinstance(alternative, tuple)
            precedence, *items = alternative
            body, first = self.sequence(owner, items, loop_back)
            guard = State(owner)
            guard.precedence = precedence
            guard.epsilon = [first]
            bodies.append(body)
            block.epsilon.append(guard)
        entry.epsilon = [block, after]
        inner = Element("choice", block, bodies, decides=True)
        element = Element("left", entry, [[inner]], decides=True)
        element.loop_back = loop_back
        return element

    def next_tokens(self, state: State) -> frozenset[str]:
        """Tokens that can come at a state, and `EPSILON` when its rule can end there."""
        known = self.next_cache.get(state)
        if known is None:
            known = self.next_cache[state] = frozenset(self.look(state, set()))
        return known

    def look(self, state: State, seen: set[State]) -> Iterator[str]:
        if state in seen:
            return
        seen.add(state)
        if state.kind == STOP:
            yield EPSILON
        elif state.tokens is not None:
            yield from state.tokens
        elif state.rule is not None:
            # No rule of CEL can be empty.
            yield from (token for token in self.look(self.starts[state.rule], seen) if token != EPSILON)
        for following in state.epsilon:
            yield from self.look(following, seen)


@cache
def grammar() -> Grammar:
    return Grammar()
