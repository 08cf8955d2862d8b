"""Unification of types: what is assignable to what, and what type variables come to stand for.

cel-go's algorithm: `dyn` is assignable both ways; a variable takes the most general of the types it meets;
failed attempts leave no trace.

Source: cel-go checker/types.go at v0.29.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_
from typing import Final

from cel.checker.declarations import (
    ANY_KIND,
    DURATION_KIND,
    DYN,
    DYN_KIND,
    ERROR_KIND,
    LIST_KIND,
    MAP_KIND,
    NULL_KIND,
    OPAQUE_KIND,
    PARAM_KIND,
    STRUCT_KIND,
    TIMESTAMP_KIND,
    TYPE_KIND,
    Type,
)

_NULLABLE_KINDS: Final = frozenset((OPAQUE_KIND, STRUCT_KIND, ANY_KIND, DURATION_KIND, TIMESTAMP_KIND))
_DYNAMIC_KINDS: Final = frozenset((DYN_KIND, ANY_KIND, ERROR_KIND))


class Unifier:
    """Type variables of one expression.

    bindings: the types that variables stand for, by name.
    changes: the variable and its earlier type of each binding, so that failed attempts can be undone.
    variables_made: how many variables there are; messages show the numbers.
    """

    __slots__ = ("bindings", "changes", "has_variables", "variables_made")

    def __init__(self) -> None:
        self.bindings: dict[str, Type] = {}
        self.changes: list[tuple[str, Type | None]] = []
        self.variables_made = 0
        self.has_variables = False

    def fresh_variable(self) -> Type:
        self.variables_made += 1
        self.has_variables = True
        return Type(PARAM_KIND, f"_var{self.variables_made - 1}")

    def unify(self, left: Type, right: Type) -> bool:
        """Whether `left` is assignable to `right`; bindings change only if so."""
        before = len(self.changes)
        if self.assignable(left, right):
            return True
        self.undo_to(before)
        return False

    def undo_to(self, changes_count: int) -> None:
        """Take back all bindings after the first `changes_count` changes."""
        while len(self.changes) > changes_count:
            name, bound = self.changes.pop()
            if bound is None:
                del self.bindings[name]
            else:
                self.bindings[name] = bound

    def assignable(self, left: Type, right: Type) -> bool:
        """cel-go's internalIsAssignable; may leave bindings behind when it fails."""
        left_kind, right_kind = left.kind, right.kind
        if right_kind == PARAM_KIND:
            is_valid, is_bound = self.bind(left, right)
            if is_valid:
                return True
            if is_bound:
                return False
        if left_kind == PARAM_KIND:
            return self.bind(right, left)[0]
        if left_kind in _DYNAMIC_KINDS or right_kind in _DYNAMIC_KINDS:
            return True
        if left_kind == NULL_KIND:
            return _is_nullable(right)
        if right_kind == NULL_KIND:
            return _is_nullable(left)
        if left_kind != right_kind:
            return False
        if left_kind == TYPE_KIND:
            return True
        if left.name != right.name or len(left.parameters) != len(right.parameters):
            return False
        return all(map(self.assignable, left.parameters, right.parameters))

    def bind(self, type_: Type, variable: Type) -> tuple[bool, bool]:
        """Bind `variable` to `type_` where that fits: (whether it fits, whether the variable was bound already)."""
        if type_.kind == PARAM_KIND and type_.name == variable.name:
            return True, True
        bound = self.bindings.get(variable.name)
        if bound is not None:
            if type_.is_exact(bound):
                return True, True
            if self.assignable(type_, bound):
                general = most_general(type_, bound)
                if self.is_absent(variable, general):
                    self.changes.append((variable.name, bound))
                    self.bindings[variable.name] = general
                return True, True
            return False, True
        if self.is_absent(variable, type_):
            self.changes.append((variable.name, None))
            self.bindings[variable.name] = type_
            return True, False
        return False, False

    def is_absent(self, variable: Type, within: Type) -> bool:
        """The occurs check."""
        if within.is_ground:
            return True
        if within.kind == PARAM_KIND:
            if within.name == variable.name:
                return False
            bound = self.bindings.get(within.name)
            return bound is None or self.is_absent(variable, bound)
        return all(self.is_absent(variable, parameter) for parameter in within.parameters)

    def substitute(self, type_: Type) -> Type:
        """`type_` with variables replaced by what they stand for, as far as that is known."""
        if type_.is_ground:
            return type_
        if type_.kind == PARAM_KIND:
            bound = self.bindings.get(type_.name)
            return type_ if bound is None else self.substitute(bound)
        parameters = tuple(map(self.substitute, type_.parameters))
        if all(map(is_, parameters, type_.parameters)):
            return type_
        return Type(type_.kind, type_.name, parameters, nullable=type_.nullable)

    def without_variables(self, type_: Type, known: dict[Type, Type]) -> Type:
        """`substitute` when all is checked, with `dyn` for unbound variables; `known` remembers the types asked before.

        The types of nodes are parts of each other, and can be nested as deep as there are nodes.
        """
        if type_.is_ground:
            return type_
        found = known.get(type_)
        if found is None:
            if type_.kind == PARAM_KIND:
                found = self.without_variables(self.bindings.get(type_.name, DYN), known)
            else:
                parameters = tuple(self.without_variables(parameter, known) for parameter in type_.parameters)
                found = Type(type_.kind, type_.name, parameters, nullable=type_.nullable)
            known[type_] = found
        return found


def _is_nullable(type_: Type) -> bool:
    return type_.kind in _NULLABLE_KINDS or type_.kind == NULL_KIND or type_.nullable


def instantiate(type_: Type, variables: Mapping[str, Type]) -> Type:
    """A signature's type with its parameters replaced by variables."""
    if type_.is_ground:
        return type_
    if type_.kind == PARAM_KIND:
        return variables[type_.name]
    return Type(type_.kind, type_.name, tuple(instantiate(parameter, variables) for parameter in type_.parameters))


def most_general(left: Type, right: Type) -> Type:
    """Of two types that unify, the one that says less."""
    return left if _says_less(left, right) else right


def _says_less(left: Type, right: Type) -> bool:
    """cel-go's isEqualOrLessSpecific."""
    if left.kind in (DYN_KIND, ANY_KIND, PARAM_KIND):
        return True
    if right.kind in (DYN_KIND, ANY_KIND, PARAM_KIND) or left.kind != right.kind:
        return False
    if left.kind == TYPE_KIND:
        return True
    if left.kind == OPAQUE_KIND and (left.name != right.name or len(left.parameters) != len(right.parameters)):
        return False
    if left.kind in (OPAQUE_KIND, LIST_KIND, MAP_KIND):
        return all(map(_says_less, left.parameters, right.parameters))
    return left.is_exact(right)
