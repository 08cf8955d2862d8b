"""Errors of constants, found before any device is looked at.

Two steps of cel-go refuse an expression for its constants. The validators of `env.Compile` find mixed
lists and maps, impossible durations, timestamps and regular expressions, and format strings that do not
fit their arguments. Then `env.Program` folds conversions of constants (`int("x")`) and compiles constant
patterns, and reports the first that fails as `program instantiation failed: ...`.

Source: cel-go v0.26.0 and v0.29.2, cel/validator.go, ext/formatting.go, interpreter/decorators.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from cel import operators
from cel.checker.checker import Checked
from cel.checker.declarations import (
    BOOL_KIND,
    BYTES_KIND,
    DOUBLE_KIND,
    DYN,
    INT_KIND,
    MAP_KIND,
    NULL_KIND,
    OPAQUE_KIND,
    STRING_KIND,
    STRUCT_KIND,
    TYPE_IDENTIFIERS,
    TYPE_KIND,
    UINT_KIND,
    VALUELESS_TYPES,
    Type,
)
from cel.errors import EvaluationError, Issue, compilation_failed
from cel.library.formatting import Clause, FormatError, interpolate
from cel.library.values import AbortedError
from cel.parser.syntax import Call, Expr, Ident, ListExpr, Literal, MapExpr, children
from cel.recursion import with_room

_TEXT_KINDS: Final = frozenset(range(NULL_KIND, MAP_KIND + 1)) - {STRUCT_KIND, OPAQUE_KIND}
_CLAUSES: Final = {
    "s": (
        _TEXT_KINDS,
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
        "and timestamps",
    ),
    "d": (frozenset((INT_KIND, UINT_KIND)), "decimal clause can only be used on integers"),
    # STRING_KIND, because "NaN", "Infinity" and "-Infinity" are accepted too.
    "f": (frozenset((DOUBLE_KIND, STRING_KIND)), "fixed-point clause can only be used on doubles"),
    "e": (frozenset((DOUBLE_KIND, STRING_KIND)), "scientific clause can only be used on doubles"),
    "b": (frozenset((INT_KIND, UINT_KIND, BOOL_KIND)), "only integers and bools can be formatted as binary"),
    "x": (
        frozenset((INT_KIND, UINT_KIND, STRING_KIND, BYTES_KIND)),
        "only integers, byte buffers, and strings can be formatted as hex",
    ),
    "o": (frozenset((INT_KIND, UINT_KIND)), "octal clause can only be used on integers"),
}
"""Kinds each verb takes, and what it says to others."""
_CONVERSIONS: Final = frozenset(
    ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
)


def validate(checked: Checked) -> None:
    """Refuse what cel-go's validators refuse, which run after the checker and before anything else.

    Raises:
        CompileError: `compilation failed: ...`, with all findings.
    """
    issues = with_room(literal_issues, checked.suspects, checked)
    if issues:
        raise compilation_failed(checked.source, issues)


def literal_issues(suspects: Sequence[Expr], checked: Checked) -> list[Issue]:
    """Findings of cel-go's validators among the nodes the checker set aside."""
    exempt: set[int] = set()
    for node in suspects:
        # Arguments of format() are mixed by nature, however deep.
        if type(node) is Call and node.function == "format":
            exempt.update(descendant.id for descendant in descendants(node))
    issues: list[Issue] = []
    for node in suspects:
        if type(node) is ListExpr:
            if node.id not in exempt:
                issues += _mixed_list(node, checked.types)
        elif type(node) is MapExpr:
            if node.id not in exempt:
                issues += _mixed_map(node, checked.types)
        elif type(node) is Call:
            issues += _literal_argument(node, checked)
    return issues


def _literal_argument(node: Call, checked: Checked) -> Iterator[Issue]:
    if node.function == "format":
        issue = _format_issue(node, checked.types)
        if issue is not None:
            yield issue
        return
    argument = node.args[0] if node.args else None
    if type(argument) is not Literal:
        return
    if node.function == "matches":
        # Of the function form cel-go looks at the first argument too, though that is the text.
        assert isinstance(argument.value, str)
        is_valid = _regex_problem(argument.value, checked) is None
    else:
        is_valid = not isinstance(_evaluate(node, checked), EvaluationError)
    if not is_valid:
        yield Issue(argument.offset, f"invalid {node.function} argument")


def _regex_problem(pattern: str, checked: Checked) -> str | None:
    from cel.library.regex import compiled  # noqa: PLC0415 - for expressions with literal patterns only
    from cel.library.regex_syntax import RegexError  # noqa: PLC0415

    try:
        compiled(checked.patterns, pattern)
    except RegexError as error:
        return str(error)
    return None


def _evaluate(node: Expr, checked: Checked) -> Any:
    """The value of a part without variables, or the error it fails with."""
    from cel.evaluator.walker import plan  # noqa: PLC0415

    try:
        return plan(checked.part(node)).evaluate({})
    except EvaluationError as error:
        return error


# Format strings.


class _MisfitError(FormatError):
    """An argument its clause cannot print; the second argument is its node."""

    def __str__(self) -> str:
        return str(self.args[0])


def _format_issue(node: Call, types: Mapping[int, Type]) -> Issue | None:
    template, arguments = node.target, node.args[0]
    if type(template) is not Literal or type(template.value) is not str or type(arguments) is not ListExpr:
        return None
    elements = arguments.elements

    def render(position: int, clause: Clause) -> str:
        kinds, complaint = _CLAUSES[clause.verb.lower()]
        misfit = _misfit(elements[position], kinds, types, nested=clause.verb == "s")
        if misfit is not None:
            raise _MisfitError(f"{complaint}, was given {types[misfit.id].name}", misfit)
        return ""

    try:
        used = interpolate(template.value, len(elements), render)[1]
    except _MisfitError as error:
        return Issue(error.args[1].offset, error.args[0])
    except FormatError as error:
        message = str(error)
        if message.startswith("index ") and _is_cut_off(template.value, len(elements)):
            message = "unexpected end of string"
        return Issue(node.offset, message)
    except AbortedError:
        return None  # a precision nobody can use; cel-go tries when it runs
    if used < len(elements):
        return Issue(
            node.offset, f"too many arguments supplied to string.format (expected {used}, got {len(elements)})"
        )
    return None


def _is_cut_off(template: str, count: int) -> bool:
    """Whether the last character is a `%` with nothing after it, and all before it is fine."""
    if not template.endswith("%"):
        return False
    try:
        interpolate(template[:-1], count, lambda _position, _clause: "")
    except FormatError:
        return False
    return True


def _misfit(node: Expr, kinds: frozenset[int], types: Mapping[int, Type], *, nested: bool) -> Expr | None:
    type_ = types[node.id]
    if type_ is not DYN and type_.kind not in kinds:
        return node
    if nested and isinstance(node, ListExpr | MapExpr):
        for child in children(node):
            misfit = _misfit(child, kinds, types, nested=True)
            if misfit is not None:
                return misfit
    return None


# Program instantiation.


def instantiation_problem(checked: Checked) -> str | None:
    """Why cel-go could not make a program of a checked expression, or None.

    Kubernetes shows it as `program instantiation failed: ...`.
    """
    return with_room(_Folder(checked).problem)


class _Folder:
    """Finds the first constant that fails, in cel-go's order: operands before what uses them."""

    __slots__ = ("checked", "constants")

    def __init__(self, checked: Checked) -> None:
        self.checked = checked
        # Nodes whose value is known before any evaluation.
        self.constants: set[int] = set()

    def problem(self) -> str | None:
        return self.visit(self.checked.expr)

    def visit(self, node: Expr) -> str | None:
        for child in children(node):
            problem = self.visit(child)
            if problem is not None:
                return problem
        match node:
            case Literal():
                self.constants.add(node.id)
            case Ident():
                return self.name(node)
            case ListExpr() | MapExpr():
                if all(child.id in self.constants for child in children(node)):
                    self.constants.add(node.id)
            case Call():
                return self.call(node)
            case _:
                pass
        return None

    def name(self, node: Ident) -> str | None:
        if self.checked.types[node.id].kind != TYPE_KIND:
            return None
        if node.name in VALUELESS_TYPES:
            return f"reference to undefined type: {node.name}"
        if node.name in TYPE_IDENTIFIERS:
            self.constants.add(node.id)
        return None

    def call(self, node: Call) -> str | None:
        operands = node.args if node.target is None else (node.target, *node.args)
        if node.function in _CONVERSIONS and len(operands) == 1 and operands[0].id in self.constants:
            value = _evaluate(node, self.checked)
            if isinstance(value, EvaluationError):
                return str(value)
            self.constants.add(node.id)
        elif node.function == operators.IN and type(node.args[1]) is ListExpr and not node.args[1].elements:
            self.constants.add(node.id)
        elif node.function in ("matches", "find", "findAll") and len(operands) > 1:
            pattern = self.constant(operands[1])
            if isinstance(pattern, str):
                return _regex_problem(pattern, self.checked)
        elif node.function in (operators.INDEX, operators.OPTIONAL_INDEX):
            return self.qualifier(node.args[1])
        return None

    def constant(self, node: Expr) -> Any:
        """The value of a constant; a node that is none has no value, which is None too."""
        if node.id not in self.constants:
            return None
        return node.value if type(node) is Literal else _evaluate(node, self.checked)

    def qualifier(self, node: Expr) -> str | None:
        """What cannot be a key, as far as that is known."""
        if node.id not in self.constants:
            return None
        from cel.library.values import go_type  # noqa: PLC0415

        value = self.constant(node)
        if isinstance(value, bool | int | float | str):
            return None
        return f"invalid qualifier type: {go_type(value)}"


# The tree.


def descendants(node: Expr) -> Iterator[Expr]:
    """Every expression below a node, parents first, without recursion."""
    pending = list(children(node))
    while pending:
        current = pending.pop()
        yield current
        if type(current) is not Literal:
            pending.extend(children(current))


def _mismatch(node: Expr, expected: Type, found: Type) -> Issue:
    return Issue(node.offset, f"expected type '{expected.display()}' but found '{found.display()}'")


def _unwrapped(type_: Type, *, optional: bool) -> Type:
    return type_.parameters[0] if optional and type_.parameters else type_


def _mixed_list(node: ListExpr, types: Mapping[int, Type]) -> Iterator[Issue]:
    expected: Type | None = None
    for position, element in enumerate(node.elements):
        found = _unwrapped(types[element.id], optional=position in node.optional_indices)
        if expected is None:
            expected = found
        elif not expected.is_exact(found):
            yield _mismatch(element, expected, found)
            return


def _mixed_map(node: MapExpr, types: Mapping[int, Type]) -> Iterator[Issue]:
    first = node.entries[0]
    key_type = types[first.key.id]
    value_type = _unwrapped(types[first.value.id], optional=first.optional)
    for entry in node.entries[1:]:
        found_key = types[entry.key.id]
        found_value = _unwrapped(types[entry.value.id], optional=entry.optional)
        if not key_type.is_exact(found_key):
            yield _mismatch(entry.key, key_type, found_key)
        if not value_type.is_exact(found_value):
            yield _mismatch(entry.value, value_type, found_value)
