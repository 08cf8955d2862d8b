"""What literals show before any device is looked at.

Two steps of cel-go refuse an expression for its constants. The validators of `env.Compile` find mixed
lists and maps, impossible durations, timestamps and regular expressions, and format strings that do not
fit their arguments. Then `env.Program` folds conversions of constants (`int("x")`) and compiles constant
patterns, and reports the first that fails as `program instantiation failed: ...`.

Source: cel-go cel/validator.go, ext/formatting.go, interpreter/decorators.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cel.declarations import Type
from cel.errors import Issue
from cel.syntax import Call, Comprehension, Expr, ListExpr, Literal, MapExpr, Select, StructExpr


def literal_issues(suspects: Sequence[Expr], types: Mapping[int, Type]) -> list[Issue]:
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
                issues += _mixed_list(node, types)
        elif type(node) is MapExpr and node.id not in exempt:
            issues += _mixed_map(node, types)
    return issues


def children(node: Expr) -> Iterator[Expr]:
    """The expressions directly below a node."""
    match node:
        case Select():
            yield node.operand
        case Call():
            if node.target is not None:
                yield node.target
            yield from node.args
        case ListExpr():
            yield from node.elements
        case MapExpr():
            for entry in node.entries:
                yield entry.key
                yield entry.value
        case StructExpr():
            for field in node.fields:
                yield field.value
        case Comprehension():
            yield from (
                node.iter_range,
                node.accu_init,
                node.loop_condition,
                node.loop_step,
                node.result,
            )
        case _:
            return


def descendants(node: Expr) -> Iterator[Expr]:
    """Every expression below a node, parents first, without recursion."""
    pending = list(children(node))
    while pending:
        current = pending.pop()
        yield current
        if type(current) is not Literal:
            pending.extend(children(current))


def _equivalent(left: Type, right: Type) -> bool:
    return left.is_exact(right)


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
        elif not _equivalent(expected, found):
            yield _mismatch(element, expected, found)
            return


def _mixed_map(node: MapExpr, types: Mapping[int, Type]) -> Iterator[Issue]:
    first = node.entries[0]
    key_type = types[first.key.id]
    value_type = _unwrapped(types[first.value.id], optional=first.optional)
    for entry in node.entries[1:]:
        found_key = types[entry.key.id]
        found_value = _unwrapped(types[entry.value.id], optional=entry.optional)
        if not _equivalent(key_type, found_key):
            yield _mismatch(entry.key, key_type, found_key)
        if not _equivalent(value_type, found_value):
            yield _mismatch(entry.value, value_type, found_value)
