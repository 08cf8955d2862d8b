"""The cost an API server estimates before it accepts an expression, to the unit.

`estimate` walks the checked tree as cel-go's `checker.Cost` does, with the sizes Kubernetes declares for
`device` and the `formulas` of functions. An expression whose estimate exceeds `LIMIT` is refused at admission ("too
complex, exceeds cost limit"). Only API servers estimate. A scheduler counts while it evaluates, here up to
`values.EFFORT_LIMIT`.

Source: cel-go v0.26.0 and v0.29.2, checker/cost.go; k8s.io/dynamic-resource-allocation v0.36.3 cel/compile.go.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from cel.checker.checker import Checked
from cel.checker.declarations import (
    BOOL_KIND,
    DOUBLE_KIND,
    DURATION_KIND,
    INT_KIND,
    LIST_KIND,
    MAP_KIND,
    PARAM_KIND,
    STRUCT_KIND,
    TIMESTAMP_KIND,
    UINT_KIND,
    Type,
    is_optional,
)
from cel.cost.formulas import BY_FUNCTION, BY_OVERLOAD, STANDARD
from cel.cost.units import (
    LIST_BASE,
    MAP_BASE,
    MAXIMUM,
    NO_PATH,
    ONE,
    STRUCT_BASE,
    UNKNOWN,
    ZERO,
    CallCost,
    CostEstimate,
    Operand,
    Path,
    Size,
    declared_size,
    plus,
    times,
    union,
)
from cel.parser import syntax
from cel.parser.syntax import (
    Call,
    Comprehension,
    Expr,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
    StructExpr,
)
from cel.recursion import with_room

LIMIT: Final = 1_000_000
"""CELSelectorExpressionMaxCost of resource.k8s.io/v1: of the estimate, and of an evaluation."""

_MOST_LIST_VALUES: Final = 48
"""Values a list attribute can have, which 1.36 takes as the cost of `includes`."""


class _Entries(NamedTuple):
    """Sizes of the keys and values of a list or map."""

    kind: int
    key: Size
    value: Size


class _Local(NamedTuple):
    path: Path
    size: Size | None
    entries: _Entries | None


def estimate(checked: Checked) -> CostEstimate:
    """The bounds of what evaluating a checked expression can cost, in CEL's cost units.

    Compare `.max` with `LIMIT`; `MAXIMUM` (or a multiple that stays below it) means that some size is
    unknown.
    """
    return with_room(_estimate, checked)


def _estimate(checked: Checked) -> CostEstimate:
    return _Estimator(checked).cost(checked.expr)


class _Estimator:
    __slots__ = ("checked", "entry_sizes", "minor", "paths", "sizes", "types", "variables")

    def __init__(self, checked: Checked) -> None:
        self.checked = checked
        self.minor = checked.environment.minor
        self.types = checked.types
        self.paths: dict[int, Path] = {}
        self.sizes: dict[int, Size] = {}
        self.entry_sizes: dict[int, _Entries] = {}
        self.variables: dict[str, list[_Local]] = {}

    # Sizes.

    def local(self, name: str) -> _Local | None:
        stack = self.variables.get(name)
        return stack[-1] if stack else None

    def path(self, node: Expr) -> Path:
        if type(node) is Ident and (local := self.local(node.name)) is not None:
            return local.path
        return self.paths.get(node.id, NO_PATH)

    def size(self, node: Expr) -> Size | None:
        """cel-go's computeSize: the known bounds of a value's size, or None."""
        if (known := self.sizes.get(node.id)) is not None:
            return known
        if (own := _literal_size(node)) is not None:
            return own
        if (declared := declared_size(self.path(node))) is not None:
            self.sizes[node.id] = declared
            return declared
        if _is_scalar(self.types[node.id]):
            return Size(1, 1)
        if type(node) is Ident and (local := self.local(node.name)) is not None:
            return local.size
        return None

    def size_or_unknown(self, node: Expr) -> Size:
        size = self.size(node)
        return UNKNOWN if size is None else size

    def entries(self, node: Expr) -> _Entries | None:
        if (known := self.entry_sizes.get(node.id)) is not None:
            return known
        if type(node) is Ident and (local := self.local(node.name)) is not None:
            return local.entries
        return None

    def copy_sizes(self, target: Expr, source: Expr) -> None:
        if (size := self.size(source)) is not None:
            self.sizes[target.id] = size
        if (entries := self.entries(source)) is not None:
            self.entry_sizes[target.id] = entries

    # Costs by node.

    def cost(self, node: Expr) -> CostEstimate:
        match node:
            case Literal():
                return ZERO
            case Ident():
                local = self.local(node.name)
                self.paths[node.id] = Path([node.name], 1) if local is None else local.path
                return ONE
            case Select():
                return self.select(node)
            case Call():
                return self.call(node)
            case ListExpr():
                return self.list_literal(node)
            case MapExpr():
                return self.map_literal(node)
            case StructExpr():
                total = CostEstimate(STRUCT_BASE, STRUCT_BASE)
                for field in node.fields:
                    total = plus(total, self.cost(field.value))
                return total
            case Comprehension():
                return self.bind(node) if _is_bind(node) else self.fold(node)

    def select(self, node: Select) -> CostEstimate:
        total = self.cost(node.operand)
        if node.test_only:
            return total
        if self.types[node.operand.id].kind in (MAP_KIND, STRUCT_KIND, PARAM_KIND):
            total = plus(total, ONE)
        self.paths[node.id] = self.path(node.operand).append(node.field)
        return total

    def list_literal(self, node: ListExpr) -> CostEstimate:
        total = CostEstimate(LIST_BASE, LIST_BASE)
        element_size: Size | None = None
        for element in node.elements:
            total = plus(total, self.cost(element))
            size = self.size_or_unknown(element)
            element_size = size if element_size is None else union(element_size, size)
        self.entry_sizes[node.id] = _Entries(LIST_KIND, Size(1, 1), element_size or Size(0, 0))
        return total

    def map_literal(self, node: MapExpr) -> CostEstimate:
        total = CostEstimate(MAP_BASE, MAP_BASE)
        key_size: Size | None = None
        value_size: Size | None = None
        for entry in node.entries:
            total = plus(plus(total, self.cost(entry.key)), self.cost(entry.value))
            size = self.size_or_unknown(entry.key)
            key_size = size if key_size is None else union(key_size, size)
            size = self.size_or_unknown(entry.value)
            value_size = size if value_size is None else union(value_size, size)
        self.entry_sizes[node.id] = _Entries(MAP_KIND, key_size or Size(0, 0), value_size or Size(0, 0))
        return total

    def push(self, name: str, path: Path, size: Size | None, entries: _Entries | None = None) -> None:
        self.variables.setdefault(name, []).append(_Local(path, size, entries))

    def push_iteration(self, name: str, node: Expr, *, is_value: bool | None) -> None:
        """Declare a loop variable: `is_value` is False for the key, True for the value, None for the only variable."""
        entries = self.entries(node)
        kind = self.types[node.id].kind if entries is None else entries.kind
        is_list = kind == LIST_KIND
        if is_value is None:
            is_value = is_list
        part = ("@items" if is_list else "@values") if is_value else "@keys"
        if not is_value and is_list:
            part = "@indices"
        size = None if entries is None else entries.value if is_value else entries.key
        self.push(name, self.path(node).append(part), size)

    def fold(self, node: Comprehension) -> CostEstimate:
        total = plus(self.cost(node.iter_range), self.cost(node.accu_init))
        self.push(node.accu_var, self.path(node.accu_init), self.size(node.accu_init), self.entries(node.accu_init))
        if node.iter_var2 is None:
            self.push_iteration(node.iter_var, node.iter_range, is_value=None)
        else:
            self.push_iteration(node.iter_var, node.iter_range, is_value=False)
            self.push_iteration(node.iter_var2, node.iter_range, is_value=True)
        each = plus(self.cost(node.loop_condition), self.cost(node.loop_step))
        self.variables[node.iter_var].pop()
        if node.iter_var2 is not None:
            self.variables[node.iter_var2].pop()
        total = plus(total, self.cost(node.result))
        self.variables[node.accu_var].pop()
        count = self.size_or_unknown(node.iter_range)
        total = plus(total, times(count, each))
        if type(node.accu_init) is Literal:
            if (size := self.size(node.accu_init)) is not None:
                self.sizes[node.id] = size
        elif isinstance(node.accu_init, ListExpr | MapExpr):
            self.sizes[node.id] = count
            if (entries := self.entries(node.loop_step)) is not None:
                self.entry_sizes[node.id] = entries
        return total

    def bind(self, node: Comprehension) -> CostEstimate:
        total = plus(self.cost(node.iter_range), self.cost(node.accu_init))
        self.push(node.accu_var, self.path(node.accu_init), self.size(node.accu_init), self.entries(node.accu_init))
        total = plus(total, self.cost(node.result))
        self.variables[node.accu_var].pop()
        self.copy_sizes(node, node.result)
        return total

    # Calls.

    def operand(self, node: Expr) -> Operand:
        path = self.path(node)
        if path.length and path.backing[0] == syntax.ACCUMULATOR:
            path = NO_PATH
        return Operand(node, self.types[node.id], path, self.size(node))

    def call(self, node: Call) -> CostEstimate:
        if node.function == "dyn":
            total = plus(ONE, self.cost(node.args[0]))
            self.copy_sizes(node, node.args[0])
            return total
        costs: list[CostEstimate] = []
        args: list[Operand] = []
        for arg in node.args:
            costs.append(self.cost(arg))
            args.append(self.operand(arg))
        total = ZERO
        target: Operand | None = None
        if node.target is not None:
            total = self.cost(node.target)
            target = self.operand(node.target)
        lowest, highest = MAXIMUM, 0
        result_size: Size | None = None
        for overload in self.checked.references[node.id]:
            estimated = self.overload(node, overload, target, args, costs)
            lowest = min(lowest, estimated.cost.min)
            highest = max(highest, estimated.cost.max)
            if estimated.size is not None:
                result_size = estimated.size if result_size is None else union(result_size, estimated.size)
            if overload in ("index_list", "index_map"):
                entries = self.entries(node.args[0])
                result_size = None if entries is None else entries.value
                part = "@items" if overload == "index_list" else "@values"
                self.paths[node.id] = self.path(node.args[0]).append(part)
            if result_size is None:
                result_size = self.size(node)
        if result_size is not None:
            self.sizes[node.id] = result_size
        return plus(total, CostEstimate(lowest, highest))

    def overload(
        self, node: Call, overload: str, target: Operand | None, args: list[Operand], costs: list[CostEstimate]
    ) -> CallCost:
        """Cost of one overload, its arguments included (the receiver is counted by `call`)."""
        if overload in ("logical_or", "logical_and"):
            left, right = costs
            return CallCost(CostEstimate(left.min, plus(left, right).max))
        if overload == "conditional":
            return self.conditional(node, args, costs)
        estimated = self.formula(node, overload, target, args)
        total = ONE if estimated is None else estimated.cost
        for cost in costs:
            total = plus(total, cost)
        return CallCost(total, None if estimated is None else estimated.size)

    def conditional(self, node: Call, args: list[Operand], costs: list[CostEstimate]) -> CallCost:
        size = union(args[1].known_size(), args[2].known_size())
        self.join_entries(node, args[1].expr, args[2].expr)
        branch = CostEstimate(min(costs[1].min, costs[2].min), max(costs[1].max, costs[2].max))
        return CallCost(plus(costs[0], branch), size)

    def join_entries(self, node: Call, left: Expr, right: Expr) -> None:
        first, second = self.entries(left), self.entries(right)
        if first is not None and second is not None:
            self.entry_sizes[node.id] = _Entries(
                first.kind, union(first.key, second.key), union(first.value, second.value)
            )

    def formula(self, node: Call, overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
        """The cost that a library declares for this overload; None for the default, 1."""
        if overload == "dra_includes_dyn_dyn":
            return CallCost(CostEstimate(0, _MOST_LIST_VALUES))
        operands = args if target is None else [target, *args]
        if (by_overload := BY_OVERLOAD.get(overload)) is not None:
            return by_overload(operands)
        if (by_function := BY_FUNCTION.get(node.function)) is not None:
            estimated = by_function(operands)
            if estimated is not None:
                return estimated
        if overload == "matches" and self.minor < 37:
            return None  # cel-go 0.26 forgot the function form
        if overload in ("add_string", "add_bytes", "add_list"):
            self.join_entries(node, args[0].expr, args[1].expr)
        if (standard := STANDARD.get(overload)) is not None:
            return standard(operands)
        return None


def _is_bind(node: Comprehension) -> bool:
    condition = node.loop_condition
    return (
        type(node.iter_range) is ListExpr
        and not node.iter_range.elements
        and type(condition) is Literal
        and condition.value is False
    )


def _literal_size(node: Expr) -> Size | None:
    match node:
        case Literal():
            size = len(node.value) if isinstance(node.value, str | bytes) else 1
        case ListExpr():
            size = len(node.elements)
        case MapExpr():
            size = len(node.entries)
        case _:
            return None
    return Size(size, size)


_SCALAR_KINDS: Final = frozenset((BOOL_KIND, DOUBLE_KIND, DURATION_KIND, INT_KIND, TIMESTAMP_KIND, UINT_KIND))


def _is_scalar(type_: Type) -> bool:
    if is_optional(type_):
        return _is_scalar(type_.parameters[0])
    return type_.kind in _SCALAR_KINDS
