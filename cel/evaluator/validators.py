"""Errors of constants, found before any device is looked at.

Two steps of cel-go refuse an expression for its constants. The validators of `env.Compile` find mixed
lists and maps, impossible durations, timestamps and regular expressions, and format strings that do not
fit their arguments. Then `env.Program` computes constants (`constants`).

Source: cel-go v0.26.0 and v0.29.2, cel/validator.go, ext/formatting.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

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
    UINT_KIND,
    Type,
)
from cel.errors import Issue, compilation_failed
from cel.evaluator.constants import constant_of, pattern_problem
from cel.library.formatting import Clause, FormatError, interpolate
from cel.library.values import MISSING, AbortedError
from cel.parser.syntax import Call, Expr, ListExpr, Literal, MapExpr, children
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
        is_valid = pattern_problem(checked, argument.value) is None
    else:
        is_valid = constant_of(checked, node) is not MISSING
    if not is_valid:
        yield Issue(argument.offset, f"invalid {node.function} argument")


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
