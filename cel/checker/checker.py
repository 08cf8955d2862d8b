"""Type checker: every node gets a type and every call its overloads, or the expression is refused.

cel-go's algorithm, step by step, because users see its verdicts: Hindley-Milner-like unification with
`dyn` assignable both ways, type variables for empty literals and polymorphic functions, the first
matching overload's result unless a later one differs (then `dyn`).

Rules of this module
  1. `Checked.expr` is the parsed tree with names resolved: namespaced functions (`optional.of`) are plain
     calls, qualified type names plain identifiers, leading dots gone. Nodes keep their ids.
  2. `Checked.types` has a type without type variables for every node of `Checked.expr`.
  3. Findings are collected, not raised one by one: a user sees them all, as from cel-go.

Not here: findings about literals (`validators`), which need values.

Source: cel-go checker/checker.go, checker/types.go at v0.29.2 (v0.26.0 where `Environment.minor` < 37).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from cel import operators
from cel.checker.declarations import (
    ANY_KIND,
    BOOL,
    BYTES,
    DEVICE,
    DOUBLE,
    DYN,
    DYN_KIND,
    ERROR,
    ERROR_KIND,
    INT,
    LIST_KIND,
    MAP_KIND,
    NULL,
    NULL_KIND,
    OPAQUE_KIND,
    PARAM_KIND,
    STRING,
    STRUCT_KIND,
    TYPE_IDENTIFIERS,
    TYPE_KIND,
    UINT,
    VALUELESS_TYPES,
    WRAPPERS,
    Overload,
    Type,
    is_optional,
    list_of,
    map_of,
    optional_of,
)
from cel.checker.environments import Environment
from cel.checker.unification import Unifier, instantiate, most_general
from cel.errors import Issue, compilation_failed
from cel.parser.syntax import (
    Call,
    Comprehension,
    Expr,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Parsed,
    Select,
    StructExpr,
    with_replacements,
)
from cel.recursion import with_room


class Checked(Struct, frozen=True, eq=False):
    """A type-checked expression.

    expr: the tree with names resolved.
    types: by node id.
    references: overload ids by the id of a call, in cel-go's order; more than one when the arguments are
        dynamic and several overloads fit. Of the name of a type, none.
    has_constants: whether there are calls that cel-go might evaluate before it knows any device
        (`constants.instantiation_problem` finds out).
    suspects: nodes that `validators` has to look at: lists and maps that might mix types, calls of functions
        whose literal arguments are checked.
    constants: what is known before any evaluation, by node id; kept by `constants.constant_of`.
    patterns: constant patterns that were compiled, by what they say; kept by `regex.compiled`.
    """

    source: str
    macro_calls: Mapping[int, Call]
    expr: Expr
    environment: Environment
    types: Mapping[int, Type]
    references: Mapping[int, tuple[str, ...]]
    has_constants: bool = False
    suspects: Sequence[Expr] = ()
    constants: dict[int, Any] = {}
    patterns: dict[str, Any] = {}

    @property
    def output_type(self) -> Type:
        """Of the whole."""
        return self.types[self.expr.id]


def check(parsed: Parsed, environment: Environment) -> Checked:
    """Check a parsed expression against an environment.

    Raises:
        CompileError: `compilation failed: ERROR: <input>:L:C: ...`, one such block per finding.
    """
    return with_room(_check, parsed, environment)


def check_in_parts(parsed: Parsed, environment: Environment) -> Generator[None, None, Checked]:
    """As `check`, with breaks where it takes long.

    Nodes are checked in the order of `check`, so the result is the same.
    """
    if len(parsed.source) > PART_LENGTH:
        try:
            checker = _CheckerInParts(environment)
            start = loops = 0
            for node in _apart(parsed.expr):
                checker.check(node)
                checker.done.add(node.id)
                loops += type(node) is Comprehension
                if node.offset > start + PART_LENGTH or loops == PART_LOOPS:
                    start, loops = max(start, node.offset), 0
                    yield
            return _finished(checker, parsed)
        except RecursionError:
            pass
    return check(parsed, environment)


PART_LENGTH: Final = 2_000
"""About how many characters are checked, or planned, without a break."""
PART_LOOPS: Final = 50
"""How many loops are checked without a break: in a chain of them, types can be as deep as the chain is long."""


def _apart(expr: Expr) -> Iterator[Expr]:
    """The nodes outside of loops, each before the node that it is part of; so they can be checked one by one.

    Names are left out: what a name means may depend on how it goes on (`google.protobuf.Timestamp`).
    """
    pending = [(expr, False)]
    while pending:
        node, is_opened = pending.pop()
        if is_opened:
            yield node
            continue
        parts: tuple[Expr, ...] = ()
        if type(node) is Call:
            parts = node.args if node.target is None else (*node.args, node.target)
        elif type(node) is ListExpr:
            parts = node.elements
        elif type(node) is MapExpr:
            parts = tuple(part for entry in node.entries for part in (entry.key, entry.value))
        elif type(node) is Comprehension:
            parts = (node.iter_range,)
        elif node is not expr:
            continue
        pending.append((node, True))
        pending += [(part, False) for part in reversed(parts)]


def _check(parsed: Parsed, environment: Environment) -> Checked:
    checker = _Checker(environment)
    checker.check(parsed.expr)
    return _finished(checker, parsed)


def _finished(checker: _Checker, parsed: Parsed) -> Checked:
    """What was found out about the tree, of which all is checked."""
    if checker.issues:
        raise compilation_failed(parsed.source, checker.issues)
    types = checker.types
    if checker.has_variables:
        known: dict[Type, Type] = {}
        for node_id, type_ in types.items():
            if not type_.is_ground:
                types[node_id] = checker.without_variables(type_, known)
    expr = parsed.expr
    if checker.replacements:
        expr = with_replacements(expr, checker.replacements)
    return Checked(
        parsed.source,
        parsed.macro_calls,
        expr,
        checker.environment,
        types,
        checker.references,
        has_constants=checker.has_constants,
        suspects=checker.suspects,
    )


_LITERAL_TYPES: Final[dict[type, Type]] = {
    str: STRING,
    int: INT,
    bool: BOOL,
    float: DOUBLE,
    bytes: BYTES,
    type(None): NULL,
}


class _Checker(Unifier):
    __slots__ = (
        "environment",
        "has_constants",
        "issues",
        "references",
        "replacements",
        "scopes",
        "suspects",
        "types",
    )

    def __init__(self, environment: Environment) -> None:
        super().__init__()
        self.environment = environment
        self.types: dict[int, Type] = {}
        self.references: dict[int, tuple[str, ...]] = {}
        self.replacements: dict[int, Expr] = {}
        self.issues: list[Issue] = []
        self.scopes: list[dict[str, Type]] = []
        self.suspects: list[Expr] = []
        self.has_constants = False

    def check(self, node: Expr) -> Type:
        type_ = _CHECKS[type(node)](self, node)
        self.types[node.id] = type_
        return type_

    def problem(self, offset: int, message: str) -> None:
        self.issues.append(Issue(offset, message))

    def mismatch(self, offset: int, expected: Type, found: Type) -> None:
        self.problem(offset, f"expected type '{expected.display()}' but found '{found.display()}'")

    def undeclared(self, offset: int, name: str) -> Type:
        container = "" if self.environment.minor >= 38 else " (in container '')"
        self.problem(offset, f"undeclared reference to '{name}'{container}")
        return ERROR

    # Names.

    def local(self, name: str) -> Type | None:
        for scope in reversed(self.scopes):
            if (found := scope.get(name)) is not None:
                return found
        return None

    def literal(self, node: Literal) -> Type:
        return _LITERAL_TYPES.get(type(node.value), UINT)

    def ident(self, node: Ident) -> Type:
        name = node.name
        plain = name[1:] if name[0] == "." else name
        if self.scopes:
            is_root = plain is not name and self.environment.has_root_lookup
            local = None if is_root else self.local(plain)
            if local is not None:
                if plain is not name:
                    self.replacements[node.id] = Ident(node.id, node.offset, plain)
                return local
        type_ = self.environment.identifier_type(plain)
        if type_ is None:
            return self.undeclared(node.offset, name)
        if type_.kind == TYPE_KIND:
            self.has_constants = True
            self.references[node.id] = ()
        if plain is not name and self.local(plain) is None:
            self.replacements[node.id] = Ident(node.id, node.offset, plain)
        return type_

    def qualified_type(self, node: Select) -> Type | None:
        """The type a dotted name denotes, `google.protobuf.Timestamp`."""
        parts = [node.field]
        operand = node.operand
        while type(operand) is Select and not operand.test_only:
            parts.append(operand.field)
            operand = operand.operand
        if type(operand) is not Ident:
            return None
        root = operand.name
        if self.environment.has_root_lookup and root[0] != "." and self.scopes and self.local(root) is not None:
            return None
        name = ".".join([root.removeprefix("."), *reversed(parts)])
        type_ = self.environment.identifier_type(name)
        if type_ is not None:
            self.has_constants = True
            self.references[node.id] = ()
            self.replacements[node.id] = Ident(node.id, node.offset, name)
        return type_

    # Selections.

    def select(self, node: Select) -> Type:
        operand = node.operand
        if not node.test_only and type(operand) is not Call:
            # Only names with a namespace that exists can be qualified; most selections are not.
            root = operand
            while type(root) is Select and not root.test_only:
                root = root.operand
            if type(root) is Ident and root.name.removeprefix(".") in _TYPE_NAMESPACES:
                type_ = self.qualified_type(node)
                if type_ is not None:
                    return type_
        result = self.field(node, operand, node.field, optional=False)
        return BOOL if node.test_only else result

    def field(self, node: Expr, operand: Expr, field: str, *, optional: bool) -> Type:
        operand_type = self.check(operand)
        if not operand_type.is_ground:
            operand_type = self.substitute(operand_type)
        target = operand_type
        if target.kind == OPAQUE_KIND and is_optional(target):
            optional = True
            target = target.parameters[0]
        kind = target.kind
        if kind == MAP_KIND:
            result = target.parameters[1]
        elif kind == STRUCT_KIND:
            result = self.field_type(node, target, field)
        elif kind == PARAM_KIND:
            self.unify(DYN, target)
            result = DYN
        else:
            if kind not in (DYN_KIND, ANY_KIND, ERROR_KIND):
                self.problem(node.offset, f"type '{target.display()}' does not support field selection")
            result = DYN
        if optional:
            result = optional_of(result)
        return result if result.is_ground else self.substitute(result)

    def field_type(self, node: Expr, struct: Type, field: str) -> Type:
        if struct is not DEVICE:
            self.problem(node.offset, f"unexpected failed resolution of '{struct.name}'")
            return ERROR
        type_ = self.environment.device_fields.get(field)
        if type_ is None:
            self.problem(node.offset, f"undefined field '{field}'")
            return ERROR
        return type_

    # Calls.

    def call(self, node: Call) -> Type:
        function = node.function
        args = node.args
        target = node.target
        if function == operators.OPTIONAL_SELECT:
            field = args[1]
            assert isinstance(field, Literal)
            assert isinstance(field.value, str)
            self.types[field.id] = STRING
            self.references[node.id] = ("select_optional_field",)
            return self.field(node, args[0], field.value, optional=True)
        if function in _WITH_CONSTANTS:
            self.has_constants = True
            if function in _LITERAL_CHECKED:
                self.suspects.append(node)
        elif function in _INDEXING and not (type(args[1]) is Literal and isinstance(args[1].value, str | int)):
            self.has_constants = True  # a key that is none, perhaps
        arg_types = [self.check(arg) for arg in args]
        lookup = self.environment.functions
        if target is not None:
            if type(target) is Ident:
                # A namespace wins over a variable of the same name.
                name = f"{target.name}.{function}".removeprefix(".")
                overloads = lookup(name)
                if overloads is not None:
                    self.replacements[node.id] = Call(node.id, node.offset, name, None, args)
                    return self.resolve(node, name, overloads, arg_types, is_member=False)
            arg_types.insert(0, self.check(target))
        elif function[0] == ".":
            function = function[1:]
            self.replacements[node.id] = Call(node.id, node.offset, function, None, args)
        overloads = lookup(function)
        if overloads is None:
            return self.undeclared(node.offset, node.function)
        return self.resolve(node, function, overloads, arg_types, is_member=target is not None)

    def resolve(
        self, node: Call, function: str, overloads: tuple[Overload, ...], arg_types: list[Type], *, is_member: bool
    ) -> Type:
        """The result type, noting the overloads; or an error."""
        shortcut = _SHORTCUTS.get(function)
        if shortcut is not None:
            result = shortcut(self, node, arg_types)
            if result is not None:
                return result
        # With types that have no parts, the answer depends on nothing else.
        key = (function, is_member, *arg_types)
        known = self.environment.resolutions.get(key)
        if known is not None:
            self.references[node.id], result, made = known
            self.variables_made += made
            return result
        made = self.variables_made
        matched, result = self.matching(overloads, arg_types, is_member=is_member)
        if result is None:
            return self.no_overload(node, function, arg_types, is_member=is_member)
        self.references[node.id] = matched
        if result.is_ground and all(type_.kind in _ATOMIC_KINDS for type_ in arg_types):
            self.environment.resolutions[key] = (matched, result, self.variables_made - made)
        return result

    def matching(
        self, overloads: tuple[Overload, ...], arg_types: list[Type], *, is_member: bool
    ) -> tuple[tuple[str, ...], Type | None]:
        """The overloads that fit, and the type of the call; None when none fits."""
        count = len(arg_types)
        matched: list[str] = []
        result: Type | None = None
        for overload in overloads:
            if overload.is_member is not is_member:
                continue
            if len(overload.arguments) != count:
                # cel-go makes its variables before it counts; messages show their numbers.
                self.variables_made += len(overload.parameters)
                continue
            parameters: tuple[Type, ...] | list[Type] = overload.arguments
            overload_result = overload.result
            if overload.parameters:
                fresh = {name: self.fresh_variable() for name in overload.parameters}
                parameters = [instantiate(parameter, fresh) for parameter in parameters]
                overload_result = instantiate(overload_result, fresh)
            before = len(self.changes)
            for arg_type, parameter in zip(arg_types, parameters, strict=True):
                if arg_type is not parameter and not self.assignable(arg_type, parameter):
                    self.undo_to(before)
                    break
            else:
                matched.append(overload.id)
                if not overload_result.is_ground:
                    overload_result = self.substitute(overload_result)
                if result is None:
                    result = overload_result
                elif result.kind not in (DYN_KIND, ANY_KIND) and not overload_result.is_exact(result):
                    result = DYN
        return tuple(matched), result

    def no_overload(self, node: Call, function: str, arg_types: list[Type], *, is_member: bool) -> Type:
        shown = [self.without_variables(type_, {}).display() for type_ in arg_types]
        receiver = f"{shown.pop(0)}." if is_member else ""
        self.problem(
            node.offset,
            f"found no matching overload for '{function}' applied to '{receiver}({', '.join(shown)})'",
        )
        return ERROR

    # Shortcuts: what `resolve` would find, without instantiating signatures. None: not their case.

    def logical(self, node: Call, arg_types: list[Type]) -> Type:
        is_wrong = False
        for arg, arg_type in zip(node.args, arg_types, strict=True):
            if arg_type is not BOOL and not self.unify(arg_type, BOOL):
                self.mismatch(arg.offset, BOOL, arg_type)
                is_wrong = True
        if is_wrong:
            return ERROR
        self.references[node.id] = _LOGICAL[node.function]
        return BOOL

    def equality(self, node: Call, arg_types: list[Type]) -> Type | None:
        left, right = arg_types
        if not (left.is_ground and right.is_ground):
            return None
        if left is not right and not self.assignable(right, left) and not left.is_exact(right):
            return None
        self.references[node.id] = _EQUALITY[node.function]
        self.variables_made += 1  # as many as `resolve` would make
        return BOOL

    def index(self, node: Call, arg_types: list[Type]) -> Type | None:
        operand, index = arg_types
        if operand.kind != MAP_KIND or not (operand.is_ground and index.is_ground):
            return None
        key, value = operand.parameters
        if index is not key and not self.assignable(index, key):
            return None
        self.references[node.id] = _INDEX_MAP
        self.variables_made += 6
        return value

    def membership(self, node: Call, arg_types: list[Type]) -> Type | None:
        element, collection = arg_types
        if collection.kind not in (LIST_KIND, MAP_KIND) or not (element.is_ground and collection.is_ground):
            return None
        key = collection.parameters[0]
        if key is not element and not self.assignable(key, element) and not key.is_exact(element):
            return None
        self.references[node.id] = _IN_LIST if collection.kind == LIST_KIND else _IN_MAP
        self.variables_made += 3
        return BOOL

    # Literals of lists and maps.

    def list_literal(self, node: ListExpr) -> Type:
        element_type: Type | None = None
        for position, element in enumerate(node.elements):
            type_ = self.check(element)
            if position in node.optional_indices:
                type_ = self.unwrap_optional(element, type_)
            element_type = self.join(element_type, type_)
        if len(node.elements) > 1:
            self.suspects.append(node)
        return list_of(self.fresh_variable() if element_type is None else element_type)

    def map_literal(self, node: MapExpr) -> Type:
        key_type: Type | None = None
        value_type: Type | None = None
        for entry in node.entries:
            key_type = self.join(key_type, self.check(entry.key))
            type_ = self.check(entry.value)
            if entry.optional:
                type_ = self.unwrap_optional(entry.value, type_)
            value_type = self.join(value_type, type_)
        if len(node.entries) > 1:
            self.suspects.append(node)
        if key_type is None or value_type is None:
            return map_of(self.fresh_variable(), self.fresh_variable())
        return map_of(key_type, value_type)

    def unwrap_optional(self, element: Expr, type_: Type) -> Type:
        if is_optional(type_):
            return type_.parameters[0]
        if type_.kind not in (DYN_KIND, ANY_KIND):
            self.mismatch(element.offset, optional_of(type_), type_)
        return type_

    def join(self, previous: Type | None, current: Type) -> Type:
        if previous is None or previous is current:
            return current
        if self.unify(previous, current):
            return most_general(previous, current)
        return DYN  # for `validators` to refuse, outside format() arguments

    def struct(self, node: StructExpr) -> Type:
        name = node.type_name.removeprefix(".")
        if name != node.type_name:
            self.replacements[node.id] = StructExpr(node.id, node.offset, name, node.fields)
        wrapper = WRAPPERS.get(name)
        if wrapper is None:
            if name in TYPE_IDENTIFIERS or name in VALUELESS_TYPES:
                for field in node.fields:
                    self.check(field.value)
                is_message = name.startswith("google.")  # cel-go builds these; nobody does in a selector
                problem = "cannot be built here" if is_message else "is not a message type"
                self.problem(node.offset, f"'{name}' {problem}")
                return ERROR
            return self.undeclared(node.offset, node.type_name)
        for field in node.fields:
            type_ = self.check(field.value)
            if field.name != "value":
                self.problem(field.offset, f"undefined field '{field.name}'")
                continue
            if field.optional:
                type_ = self.unwrap_optional(field.value, type_)
            if not self.unify(_PLAIN[wrapper.kind], type_):
                self.problem(
                    field.offset,
                    f"expected type of field '{field.name}' is '{_PLAIN[wrapper.kind].display()}' "
                    f"but provided type is '{type_.display()}'",
                )
        return wrapper

    # Comprehensions.

    def comprehension(self, node: Comprehension) -> Type:
        range_type = self.check(node.iter_range)
        accu_type = self.check(node.accu_init)
        if not range_type.is_ground:
            range_type = self.substitute(range_type)
        first, second = self.iteration_types(node, range_type)
        accu_scope = {node.accu_var: accu_type}
        loop_scope = {node.iter_var: first}
        if node.iter_var2 is not None:
            loop_scope[node.iter_var2] = second
        self.scopes.append(accu_scope)
        self.scopes.append(loop_scope)
        self.expect_type(node.loop_condition, BOOL, self.check(node.loop_condition))
        self.expect_type(node.loop_step, accu_type, self.check(node.loop_step))
        self.scopes.pop()
        result = self.check(node.result)
        self.scopes.pop()
        return result if result.is_ground else self.substitute(result)

    def iteration_types(self, node: Comprehension, range_type: Type) -> tuple[Type, Type]:
        """Types of the one or two variables; the second is meaningless for one."""
        kind = range_type.kind
        if kind == LIST_KIND:
            element = range_type.parameters[0]
            return (INT, element) if node.iter_var2 is not None else (element, element)
        if kind == MAP_KIND:
            return range_type.parameters[0], range_type.parameters[1]
        if kind in (DYN_KIND, ERROR_KIND, PARAM_KIND):
            self.unify(DYN, range_type)
            return DYN, DYN
        self.problem(
            node.iter_range.offset,
            f"expression of type '{range_type.display()}' cannot be range of a comprehension "
            "(must be list, map, or dynamic)",
        )
        return ERROR, ERROR

    def expect_type(self, node: Expr, expected: Type, found: Type) -> None:
        if found is not expected and not self.unify(expected, found):
            self.mismatch(node.offset, expected, found)


class _CheckerInParts(_Checker):
    """With parts that are checked already, by their ids."""

    __slots__ = ("done",)

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.done: set[int] = set()

    def check(self, node: Expr) -> Type:
        return self.types[node.id] if node.id in self.done else super().check(node)


_TYPE_NAMESPACES: Final = frozenset(name.partition(".")[0] for name in (*TYPE_IDENTIFIERS, *VALUELESS_TYPES))
_LITERAL_CHECKED: Final = frozenset(("duration", "timestamp", "matches", "format"))
_INDEXING: Final = frozenset((operators.INDEX, operators.OPTIONAL_INDEX))
_WITH_CONSTANTS: Final = _LITERAL_CHECKED | frozenset(
    ("bool", "bytes", "double", "dyn", "find", "findAll", "int", "string", "type", "uint")
)
_PLAIN: Final = {type_.kind: type_ for type_ in (BOOL, INT, UINT, DOUBLE, STRING, BYTES)}
_LOGICAL: Final = {operators.LOGICAL_AND: ("logical_and",), operators.LOGICAL_OR: ("logical_or",)}
_EQUALITY: Final = {operators.EQUALS: ("equals",), operators.NOT_EQUALS: ("not_equals",)}
_INDEX_MAP: Final = ("index_map",)
_IN_LIST: Final = ("in_list",)
_IN_MAP: Final = ("in_map",)
_ATOMIC_KINDS: Final = frozenset(range(STRUCT_KIND + 1)) - {ERROR_KIND, NULL_KIND}
_SHORTCUTS: Final[dict[str, Callable[[_Checker, Call, list[Type]], Type | None]]] = {
    operators.LOGICAL_AND: _Checker.logical,
    operators.LOGICAL_OR: _Checker.logical,
    operators.EQUALS: _Checker.equality,
    operators.NOT_EQUALS: _Checker.equality,
    operators.INDEX: _Checker.index,
    operators.IN: _Checker.membership,
}
_CHECKS: Final[dict[type, Callable[[_Checker, Any], Type]]] = {
    Literal: _Checker.literal,
    Ident: _Checker.ident,
    Select: _Checker.select,
    Call: _Checker.call,
    ListExpr: _Checker.list_literal,
    MapExpr: _Checker.map_literal,
    StructExpr: _Checker.struct,
    Comprehension: _Checker.comprehension,
}
