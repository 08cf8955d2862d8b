"""Tokens to expression nodes: precedence climbing over cel-go's grammar, macros expanded on the way.

Rules of this module
  1. It accepts exactly what cel-go accepts, its depth limits included: no grammar rule may be entered
     more than 250 times at once (ANTLR counts each operator of a chain and each `.`/`[`/`(` after a
     value as one more entry of its rule), and no node may lie more than 250 counted nodes deep.
  2. It stops at the first token that does not fit (`UnexpectedTokenError`); saying what would have fitted is
     `syntax_errors`'s.
  3. Two Python frames per level of parentheses, so that 249 levels fit in the interpreter's limit.
  4. Chains of `&&` and `||` become balanced trees, as in cel-go.

Grammar: cel-go parser/gen/CEL.g4; the middle of `?:` is an or-expression, `!!` and `--` cancel in
pairs, trailing commas are fine in lists, maps and messages but not in calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

from cel import operators
from cel.errors import Issue
from cel.integers import UINT_MAX, UInt
from cel.parser.lexer import (
    BYTES,
    EOF,
    ESCAPED_IDENT,
    FLOAT,
    IDENT,
    INT,
    STRING,
    UINT,
    Tokens,
    bytes_value,
    string_value,
)
from cel.parser.macros import MOST_COPIES, Expander, MacroError, MacroKey
from cel.parser.syntax import Call, Expr, Ident, ListExpr, Literal, MapEntry, MapExpr, Select, StructExpr, StructField

RECURSION_LIMIT: Final = 250

RESERVED: Final = frozenset(
    (
        "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let",
        "loop", "package", "namespace", "null", "return", "true", "var", "void", "while",
    )
)  # fmt: skip

_OR, _AND, _RELATION, _SUM, _PRODUCT = 1, 2, 3, 4, 5
_PRECEDENCE: Final = {
    "||": _OR,
    "&&": _AND,
    "<": _RELATION,
    "<=": _RELATION,
    ">=": _RELATION,
    ">": _RELATION,
    "==": _RELATION,
    "!=": _RELATION,
    "in": _RELATION,
    "+": _SUM,
    "-": _SUM,
    "*": _PRODUCT,
    "/": _PRODUCT,
    "%": _PRODUCT,
}
_FUNCTION: Final = {text: f"_{text}_" for text in _PRECEDENCE} | {"in": operators.IN}


class UnexpectedTokenError(Exception):
    """The token at the parser's position does not fit; `wanted` would, or if None the beginning of an expression."""

    def __init__(self, wanted: str | None) -> None:
        super().__init__(wanted)
        self.wanted: Final = wanted


class DepthError(Exception):
    """One of cel-go's nesting limits is exceeded (the message is cel-go's), or the limit on expansions.

    cel-go has no limit on expansions: there, 30 `.optMap(x, x)` in a row take a gigabyte.
    """


class Parser:
    """One parse of one token list; use once."""

    __slots__ = (
        "calc_depth",
        "copies",
        "escaped_identifiers",
        "expr_depth",
        "has_braces",
        "height",
        "issues",
        "kinds",
        "last_id",
        "macro_calls",
        "macros",
        "member_depth",
        "offsets",
        "position",
        "relation_depth",
        "texts",
    )

    def __init__(self, tokens: Tokens, macros: Mapping[MacroKey, Expander], *, escaped_identifiers: bool) -> None:
        self.kinds = tokens.kinds
        self.texts = tokens.texts
        self.offsets = tokens.offsets
        # Only with a brace somewhere can a name begin a message literal.
        self.has_braces = "{" in tokens.kinds
        self.macros = macros
        self.escaped_identifiers = escaped_identifiers
        self.issues: list[Issue] = []
        self.macro_calls: dict[int, Call] = {}
        self.position = 0
        self.last_id = 0
        self.copies = 0
        # Counted nodes above the deepest leaf of the expression parsed last (cel-go's visitor depth).
        self.height = 0
        self.expr_depth = self.relation_depth = self.calc_depth = self.member_depth = 0

    def parse(self) -> Expr:
        """The whole source. Raises UnexpectedTokenError or DepthError; other findings are in `issues`."""
        expr = self.binary(0)
        if self.position != len(self.kinds) - 1:
            raise UnexpectedTokenError(EOF)
        if self.height > RECURSION_LIMIT:
            raise DepthError("max recursion depth exceeded")
        return expr

    # The macros' view of the parser (macros.Builder).

    def new_id(self) -> int:
        """An id no other node of this parse has."""
        self.last_id += 1
        return self.last_id

    def copied(self, old_id: int, new_id: int) -> None:
        """Note that an expansion was copied, so that the copy knows what was written, too."""
        self.copies += 1
        if self.copies > MOST_COPIES:
            raise DepthError(f"macro expansion exceeds limit: {MOST_COPIES} copied nodes")
        if (call := self.macro_calls.get(old_id)) is not None:
            self.macro_calls[new_id] = call

    # Expressions.

    def binary(self, limit: int) -> Expr:
        """Operators of at least precedence `limit`; 0 is a whole `expr` with its `?:`."""
        relation_depth = self.relation_depth
        calc_depth = self.calc_depth
        if limit <= _SUM:  # the rule `relation` is entered, or re-entered for its right side
            if limit == 0:
                self.expr_depth += 1
                if self.expr_depth > RECURSION_LIMIT:
                    _too_deep()
            self.relation_depth += 1
            if self.relation_depth > RECURSION_LIMIT:
                _too_deep()
        self.calc_depth += 1
        if self.calc_depth > RECURSION_LIMIT:
            _too_deep()
        left = self.operand()
        kinds = self.kinds
        while True:
            kind = kinds[self.position]
            precedence = _PRECEDENCE.get(kind, 0)
            if precedence < limit or precedence == 0:
                break
            if precedence <= _AND:
                self.relation_depth = relation_depth
                self.calc_depth = calc_depth
                left = self.logical(left, kind, precedence)
                continue
            height = self.height
            offset = self.offsets[self.position]
            self.position += 1
            if precedence == _RELATION:
                self.calc_depth = calc_depth
                self.relation_depth += 1
                if self.relation_depth > RECURSION_LIMIT:
                    _too_deep()
            else:
                self.calc_depth += 1
                if self.calc_depth > RECURSION_LIMIT:
                    _too_deep()
            right = self.binary(precedence + 1)
            self.height = max(height, self.height) + 1
            self.last_id = node_id = self.last_id + 1
            left = Call(node_id, offset, _FUNCTION[kind], None, (left, right))
        self.relation_depth = relation_depth
        self.calc_depth = calc_depth
        if limit == 0:
            if kind == "?":
                left = self.conditional(left)
            self.expr_depth -= 1
        return left

    def conditional(self, condition: Expr) -> Expr:
        """`? or-expression : expr`, after the condition."""
        height = self.height
        offset = self.offsets[self.position]
        self.position += 1
        then = self.binary(_OR)
        height = max(height, self.height)
        self.expect(":")
        otherwise = self.binary(0)
        self.height = max(height, self.height) + 1
        return Call(self.new_id(), offset, operators.CONDITIONAL, None, (condition, then, otherwise))

    def logical(self, first: Expr, kind: str, precedence: int) -> Expr:
        """The rest of a chain of one of `&&`, `||`, balanced."""
        terms = [first]
        offsets = []
        height = self.height
        while self.kinds[self.position] == kind:
            offsets.append(self.offsets[self.position])
            self.position += 1
            terms.append(self.binary(precedence + 1))
            height = max(height, self.height)
        self.height = height
        return self.balanced(_FUNCTION[kind], terms, offsets, 0, len(offsets) - 1)

    def balanced(self, function: str, terms: list[Expr], offsets: list[int], low: int, high: int) -> Expr:
        """cel-go's `logicManager.balancedTree`."""
        middle = (low + high + 1) // 2
        left = terms[middle] if middle == low else self.balanced(function, terms, offsets, low, middle - 1)
        right = terms[middle + 1] if middle == high else self.balanced(function, terms, offsets, middle + 1, high)
        self.last_id = node_id = self.last_id + 1
        return Call(node_id, offsets[middle], function, None, (left, right))

    def operand(self) -> Expr:
        """`unary`: signs, then a value, then its selections, calls and indices."""
        kind = self.kinds[self.position]
        if kind not in ("!", "-"):
            return self.postfix(self.primary())
        offset = self.offsets[self.position]
        start = self.position
        while self.kinds[self.position] == kind:
            self.position += 1
        count = self.position - start
        if self.kinds[self.position] == "-" and self.kinds[self.position + 1] in (INT, FLOAT):
            self.position += 1
            value = self.postfix(self.number(signed_from=self.position - 1))
        elif count == 1 and kind == "-" and self.kinds[self.position] in (INT, FLOAT):
            return self.postfix(self.number(signed_from=start))
        else:
            value = self.postfix(self.primary())
        if count % 2 == 0:
            return value
        return Call(self.new_id(), offset, operators.LOGICAL_NOT if kind == "!" else operators.NEGATE, None, (value,))

    def primary(self) -> Expr:
        """A name, call, literal, aggregate or parenthesized expression."""
        self.member_depth += 1
        if self.member_depth > RECURSION_LIMIT:
            _too_deep()
        position = self.position
        kind = self.kinds[position]
        self.height = 0
        if kind in (IDENT, "."):
            return self.name()
        if kind == STRING:
            self.position += 1
            try:
                text = string_value(self.texts[position])
            except ValueError as error:
                return self.problem(self.offsets[position], str(error))
            return Literal(self.new_id(), self.offsets[position], text)
        if kind == "(":
            self.position += 1
            inner = self.binary(0)
            self.expect(")")
            return inner
        if kind == "[":
            return self.list_literal()
        if kind == "{":
            return self.map_literal()
        return self.literal(kind)

    def postfix(self, node: Expr) -> Expr:
        """`.field`, `.?field`, `.call(...)`, `[index]`, `[?index]` after a value."""
        depth = self.member_depth
        kinds = self.kinds
        while True:
            position = self.position
            kind = kinds[position]
            if kind == ".":
                self.enter_member()
                if kinds[position + 1] == IDENT:
                    if kinds[position + 2] == "(":
                        node = self.member_call(node)
                        continue
                    self.position = position + 2
                    self.height += 1
                    self.last_id = node_id = self.last_id + 1
                    node = Select(node_id, self.offsets[position], node, self.texts[position + 1])
                    continue
                self.position = position + 1
                node = self.unusual_select(node, self.offsets[position])
            elif kind == "[":
                self.enter_member()
                self.position = position + 1
                node = self.index(node, self.offsets[position])
            else:
                self.member_depth = depth - 1
                return node

    def enter_member(self) -> None:
        self.member_depth += 1
        if self.member_depth > RECURSION_LIMIT:
            _too_deep()

    def unusual_select(self, operand: Expr, offset: int) -> Expr:
        """After the dot: `?field`, or a field in back-quotes."""
        optional = self.kinds[self.position] == "?"
        if optional:
            self.position += 1
        name_offset = self.offsets[self.position]
        field = self.field_name()
        self.height += 1
        if optional:
            name = Literal(self.new_id(), name_offset, field)
            return Call(self.new_id(), offset, operators.OPTIONAL_SELECT, None, (operand, name))
        return Select(self.new_id(), offset, operand, field)

    def field_name(self) -> str:
        position = self.position
        kind = self.kinds[position]
        if kind == ESCAPED_IDENT:
            self.position += 1
            if not self.escaped_identifiers:
                self.issues.append(Issue(self.offsets[position], "unsupported syntax: '`'"))
                return ""
            return self.texts[position][1:-1]
        self.expect(IDENT)
        return self.texts[position]

    def member_call(self, target: Expr) -> Expr:
        """`.name(` after a value."""
        height = self.height
        name = self.texts[self.position + 1]
        offset = self.offsets[self.position + 2]
        self.position += 3
        args = self.arguments()
        self.height = max(height, self.height) + 1
        expander = self.macros.get((name, len(args), True))
        if expander is not None and (expanded := self.expand(expander, offset, name, target, args)) is not None:
            return expanded
        self.last_id = node_id = self.last_id + 1
        return Call(node_id, offset, name, target, args)

    def index(self, operand: Expr, offset: int) -> Expr:
        height = self.height
        function = operators.INDEX
        if self.kinds[self.position] == "?":
            self.position += 1
            function = operators.OPTIONAL_INDEX
        index = self.binary(0)
        self.expect("]")
        self.height = max(height, self.height) + 1
        self.last_id = node_id = self.last_id + 1
        return Call(node_id, offset, function, None, (operand, index))

    def arguments(self) -> tuple[Expr, ...]:
        """After `(`, through `)`."""
        self.height = 0
        if self.kinds[self.position] == ")":
            self.position += 1
            return ()
        args = [self.binary(0)]
        height = self.height
        while self.kinds[self.position] == ",":
            self.position += 1
            args.append(self.binary(0))
            height = max(height, self.height)
        self.height = height
        self.expect(")")
        return tuple(args)

    def name(self) -> Expr:
        """A name with an optional leading dot: variable, call or message literal."""
        dot = ""
        if self.kinds[self.position] == ".":
            dot = "."
            self.position += 1
        position = self.position
        text = self.texts[position]
        self.expect(IDENT)
        if self.has_braces:
            end = self.position
            while self.kinds[end] == "." and self.kinds[end + 1] == IDENT:
                end += 2
            if self.kinds[end] == "{":
                return self.message_literal(dot + "".join(self.texts[position:end]), end)
        if text in RESERVED:
            start = position - len(dot)
            if self.kinds[self.position] == "(":
                found = len(self.issues)
                self.position += 1
                self.arguments()
                del self.issues[found:]  # cel-go does not look at them
            return self.problem(self.offsets[start], f"reserved identifier: {text}")
        if self.kinds[self.position] != "(":
            self.last_id = node_id = self.last_id + 1
            return Ident(node_id, self.offsets[position], dot + text)
        offset = self.offsets[self.position]
        self.position += 1
        args = self.arguments()
        expander = self.macros.get((dot + text, len(args), False))
        if expander is not None and (expanded := self.expand(expander, offset, text, None, args)) is not None:
            return expanded
        self.last_id = node_id = self.last_id + 1
        return Call(node_id, offset, dot + text, None, args)

    def expand(
        self, expander: Expander, offset: int, name: str, target: Expr | None, args: tuple[Expr, ...]
    ) -> Expr | None:
        try:
            expanded = expander(self, offset, target, args)
        except MacroError as error:
            return self.problem(error.offset, error.message)
        if expanded is not None:
            self.macro_calls[expanded.id] = Call(self.new_id(), offset, name, target, args)
        return expanded

    def message_literal(self, type_name: str, brace: int) -> Expr:
        """`pkg.Type{field: value, ?field: optional}`, from the brace."""
        offset = self.offsets[brace]
        self.position = brace + 1
        fields: list[StructField] = []
        height = 0
        while self.kinds[self.position] not in ("}", ","):
            optional = self.optional_mark()
            name = self.field_name()
            colon = self.offsets[self.position]
            self.expect(":")
            fields.append(StructField(self.new_id(), colon, name, self.binary(0), optional))
            height = max(height, self.height)
            if not self.another_entry("}"):
                break
        self.close_aggregate("}")
        self.height = height
        return StructExpr(self.new_id(), offset, type_name, tuple(fields))

    def optional_mark(self) -> bool:
        if self.kinds[self.position] != "?":
            return False
        self.position += 1
        return True

    def another_entry(self, end: str) -> bool:
        """Step over a comma that has an entry after it; a trailing one is left for `close_aggregate`."""
        if self.kinds[self.position] == "," and self.kinds[self.position + 1] not in (end, ","):
            self.position += 1
            return True
        return False

    def close_aggregate(self, end: str) -> None:
        if self.kinds[self.position] == ",":
            self.position += 1
        self.expect(end)

    def list_literal(self) -> Expr:
        offset = self.offsets[self.position]
        self.position += 1
        elements: list[Expr] = []
        optional: list[int] = []
        height = 0
        while self.kinds[self.position] not in ("]", ","):
            if self.optional_mark():
                optional.append(len(elements))
            elements.append(self.binary(0))
            height = max(height, self.height)
            if not self.another_entry("]"):
                break
        self.close_aggregate("]")
        self.height = height
        return ListExpr(self.new_id(), offset, tuple(elements), tuple(optional))

    def map_literal(self) -> Expr:
        offset = self.offsets[self.position]
        self.position += 1
        entries: list[MapEntry] = []
        height = 0
        while self.kinds[self.position] not in ("}", ","):
            optional = self.optional_mark()
            key = self.binary(0)
            height = max(height, self.height)
            colon = self.offsets[self.position]
            self.expect(":")
            entries.append(MapEntry(self.new_id(), colon, key, self.binary(0), optional))
            height = max(height, self.height)
            if not self.another_entry("}"):
                break
        self.close_aggregate("}")
        self.height = height
        return MapExpr(self.new_id(), offset, tuple(entries))

    def literal(self, kind: str) -> Expr:
        """Literals but strings."""
        position = self.position
        offset = self.offsets[position]
        if kind in (INT, FLOAT):
            self.member_depth -= 1
            return self.number(signed_from=position)
        if kind == "-" and self.kinds[position + 1] in (INT, FLOAT):
            self.member_depth -= 1
            self.position += 1
            return self.number(signed_from=position)
        value: bool | int | bytes | None
        if kind == "true":
            value = True
        elif kind == "false":
            value = False
        elif kind == "null":
            value = None
        elif kind == UINT:
            number = int(self.texts[position][:-1], 16 if self.texts[position][:2] == "0x" else 10)
            if number > UINT_MAX:
                self.position += 1
                return self.problem(offset, "invalid uint literal")
            value = UInt(number)
        elif kind == BYTES:
            try:
                value = bytes_value(self.texts[position])
            except ValueError as error:
                self.position += 1
                return self.problem(offset, str(error))
        else:
            raise UnexpectedTokenError(None)
        self.position += 1
        return Literal(self.new_id(), offset, value)

    def number(self, *, signed_from: int) -> Expr:
        """An int or double literal whose sign, if any, is the token at `signed_from`."""
        self.member_depth += 1
        if self.member_depth > RECURSION_LIMIT:
            _too_deep()
        self.height = 0
        position = self.position
        self.position += 1
        offset = self.offsets[signed_from]
        text = self.texts[position]
        negative = signed_from != position
        if self.kinds[position] == FLOAT:
            value = float(text)
            if value == float("inf"):
                return self.problem(offset, "invalid double literal")
            return Literal(self.new_id(), offset, -value if negative else value)
        digits = text[2:] if text[:2] == "0x" else text
        # Longer than any 64-bit number even in decimal, unless it is zeros; int() of a huge text is slow.
        number = int(digits.lstrip("0")[:25] or "0", 16 if digits is not text else 10)
        if negative:
            number = -number
        if not -(1 << 63) <= number < 1 << 63:
            return self.problem(offset, "invalid int literal")
        return Literal(self.new_id(), offset, number)

    def expect(self, kind: str) -> None:
        if self.kinds[self.position] != kind:
            raise UnexpectedTokenError(kind)
        self.position += 1

    def problem(self, offset: int, message: str) -> Expr:
        """Report something that parses but is not allowed; the placeholder lets the parse go on."""
        self.issues.append(Issue(offset, message))
        return Literal(self.new_id(), offset, None)


def _too_deep() -> NoReturn:
    raise DepthError(f"expression recursion limit exceeded: {RECURSION_LIMIT}")
