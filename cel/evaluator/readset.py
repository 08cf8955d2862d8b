"""What a selector can read of a device, found without running it.

The allocator evaluates a selector once per distinct reading, so a set may be too large but never too
small. Anything the analysis does not recognise makes it "all".

Source: none upstream; the shapes are those of `device.attributes[domain].id` and its relatives.
"""

from __future__ import annotations

from msgspec import Struct

from cel import operators
from cel.checker.checker import Checked
from cel.parser.syntax import Call, Comprehension, Expr, Ident, ListExpr, Literal, Select, children


class ReadSet(Struct, frozen=True):
    """What can be read.

    attributes, capacities: (domain, id) pairs, or None for all of them. A selector that asks for a whole
        domain (`"x" in device.attributes`, iteration, comparison) reads all.
    driver, allow_multiple_allocations: whether these are read.

    Not covered: a device with a `problem` fails every selector, whatever it reads.
    """

    attributes: frozenset[tuple[str, str]] | None
    capacities: frozenset[tuple[str, str]] | None
    driver: bool
    allow_multiple_allocations: bool


class _Scope(Struct, eq=False):
    """Local variables: an expression that was bound, with its scope, or None for anything else."""

    names: dict[str, tuple[Expr, _Scope] | None]


_Place = tuple[Expr, _Scope]


class _Reader:
    __slots__ = ("all_attributes", "all_capacities", "attributes", "capacities", "driver", "multiple")

    def __init__(self) -> None:
        self.attributes: set[tuple[str, str]] = set()
        self.capacities: set[tuple[str, str]] = set()
        self.all_attributes = self.all_capacities = False
        self.driver = self.multiple = False

    def visit(self, root: Expr) -> None:
        """Record what an expression reads, every part of it taken as evaluated."""
        scope = _Scope({})
        pending: list[_Place] = [(root, scope)]
        seen: set[tuple[int, int]] = set()
        scopes = [scope]  # kept alive, so that their ids stay theirs
        while pending:
            node, scope = place = pending.pop()
            if (node.id, id(scope)) in seen:
                continue
            seen.add((node.id, id(scope)))
            scopes.append(scope)
            keys, base, computed = _path(node, scope)
            pending += computed
            if base is None:
                self.record(keys)
            elif base != place:
                pending.append(base)
            elif type(node) is Comprehension:
                pending += _comprehension(node, scope)
            elif type(node) is Call and node.function == operators.IN and (pair := _membership(node, scope)):
                self.record(pair)
            else:
                pending += ((child, scope) for child in children(node))

    def record(self, keys: list[str | None]) -> None:
        match keys:
            case ["driver", *_]:
                self.driver = True
            case ["allowMultipleAllocations", *_]:
                self.multiple = True
            case ["attributes", str() as domain, str() as name, *_]:
                self.attributes.add((domain, name))
            case ["capacity", str() as domain, str() as name, *_]:
                self.capacities.add((domain, name))
            case ["attributes", *_]:
                self.all_attributes = True
            case ["capacity", *_]:
                self.all_capacities = True
            case _:
                self.driver = self.multiple = self.all_attributes = self.all_capacities = True


def _comprehension(node: Comprehension, scope: _Scope) -> list[_Place]:
    if type(node.iter_range) is ListExpr and not node.iter_range.elements:
        # cel.bind: what is read is decided where the variable is used.
        return [(node.result, _Scope({**scope.names, node.accu_var: (node.accu_init, scope)}))]
    outer = _Scope({**scope.names, node.accu_var: None})
    local: dict[str, _Place | None] = {**outer.names, node.iter_var: None}
    if node.iter_var2 is not None:
        local[node.iter_var2] = None
    inner = _Scope(local)
    return [
        (node.iter_range, scope),
        (node.accu_init, scope),
        (node.loop_condition, inner),
        (node.loop_step, inner),
        (node.result, outer),
    ]


def _membership(node: Call, scope: _Scope) -> list[str | None] | None:
    """The path `"id" in device.attributes["domain"]` asks for."""
    element, collection = node.args
    if type(element) is not Literal or type(element.value) is not str:
        return None
    keys, base, computed = _path(collection, scope)
    return [*keys, element.value] if base is None and not computed and len(keys) == 2 else None


def _path(node: Expr, scope: _Scope) -> tuple[list[str | None], _Place | None, list[_Place]]:
    """The keys from `device` down to a node (None for a computed one), what stands instead of `device` at
    its start (None when it is `device`), and the expressions that compute keys."""
    keys: list[str | None] = []
    computed: list[_Place] = []
    while True:
        if type(node) is Select:
            keys.append(node.field)
            node = node.operand
        elif type(node) is Call and node.function in operators.CHAIN:
            key = node.args[1]
            if type(key) is Literal and type(key.value) is str:
                keys.append(key.value)
            else:
                keys.append(None)
                computed.append((key, scope))
            node = node.args[0]
        elif type(node) is Ident and (bound := scope.names.get(node.name)) is not None:
            node, scope = bound
        elif type(node) is Ident and node.name not in scope.names and node.name.removeprefix(".") == "device":
            return keys[::-1], None, computed
        else:
            return keys[::-1], (node, scope), computed


def read_set(checked: Checked) -> ReadSet:
    """What an expression can read of `device`."""
    reader = _Reader()
    reader.visit(checked.expr)
    return ReadSet(
        None if reader.all_attributes else frozenset(reader.attributes),
        None if reader.all_capacities else frozenset(reader.capacities),
        reader.driver,
        reader.multiple,
    )
