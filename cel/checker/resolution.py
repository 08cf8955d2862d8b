"""Puts resolved names into a checked tree.

Nodes are never changed, so a tree with a namespaced call or a qualified type name in it is made anew along
the way to it; ids and places stay.

Not here: what a name resolves to (`checker`).
"""

from __future__ import annotations

from collections.abc import Mapping

from cel.parser.syntax import Call, Comprehension, Expr, ListExpr, MapEntry, MapExpr, Select, StructExpr, StructField


def with_replacements(expr: Expr, replacements: Mapping[int, Expr]) -> Expr:
    """The tree with nodes replaced, by their ids; a replacement may have replacements below it."""
    return _Rewriter(replacements).rewrite(expr)


class _Rewriter:
    """Makes the tree anew where it has to."""

    __slots__ = ("replacements",)

    def __init__(self, replacements: Mapping[int, Expr]) -> None:
        self.replacements = replacements

    def rewrite(self, node: Expr) -> Expr:
        node = self.replacements.get(node.id, node)
        match node:
            case Select():
                operand = self.rewrite(node.operand)
                if operand is node.operand:
                    return node
                return Select(node.id, node.offset, operand, node.field, node.test_only)
            case Call():
                target = None if node.target is None else self.rewrite(node.target)
                args = tuple(map(self.rewrite, node.args))
                return Call(node.id, node.offset, node.function, target, args)
            case ListExpr():
                elements = tuple(map(self.rewrite, node.elements))
                return ListExpr(node.id, node.offset, elements, node.optional_indices)
            case MapExpr():
                entries = (
                    MapEntry(entry.id, entry.offset, self.rewrite(entry.key), self.rewrite(entry.value), entry.optional)
                    for entry in node.entries
                )
                return MapExpr(node.id, node.offset, tuple(entries))
            case StructExpr():
                fields = (
                    StructField(field.id, field.offset, field.name, self.rewrite(field.value), field.optional)
                    for field in node.fields
                )
                return StructExpr(node.id, node.offset, node.type_name, tuple(fields))
            case Comprehension():
                return Comprehension(
                    node.id,
                    node.offset,
                    self.rewrite(node.iter_range),
                    node.iter_var,
                    node.iter_var2,
                    node.accu_var,
                    self.rewrite(node.accu_init),
                    self.rewrite(node.loop_condition),
                    self.rewrite(node.loop_step),
                    self.rewrite(node.result),
                )
            case _:
                return node
