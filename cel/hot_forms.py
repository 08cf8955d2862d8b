"""Operations as generated code whose errors are values: what `hot_loops` makes of calls, literals and selections.

Rules of this module are those of `hot_loops`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cel.codegen_parts import Unsupported, terms
from cel.hot_lines import BLOCKS_MAX, UNKNOWN, Lines, Ref, Scope
from cel.hot_parts import is_fixed_key
from cel.syntax import (
    ADD,
    CONDITIONAL,
    EQUALS,
    IN,
    LOGICAL_AND,
    LOGICAL_OR,
    NOT_EQUALS,
    NOT_STRICTLY_FALSE,
    Call,
    Expr,
    Ident,
    ListExpr,
    Select,
)
from cel.values import INT_MAX, INT_MIN, MISSING
from cel.walker_steps import CHAIN, is_attribute, member_set

if TYPE_CHECKING:
    from cel.walker import Planner

_ARITHMETIC: Final = {"_+_": "+", "_-_": "-", "_*_": "*"}
_ORDER: Final = {"_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">="}


class Forms(Lines):
    def __init__(self, planner: Planner) -> None:
        super().__init__()
        self.planner: Final = planner

    def emit(self, node: Expr, scope: Scope) -> Ref:
        """Code for any expression; `hot_loops` says which."""
        raise NotImplementedError

    def operands(self, nodes: tuple[Expr, ...] | list[Expr], scope: Scope, result: str) -> tuple[list[Ref], int]:
        """The operands, left to right; the first that fails is the result and the rest is not evaluated."""
        refs, opened = [], 0
        for node in nodes:
            ref = self.emit(node, scope)
            if ref.fails:
                self.flush()
                self.out(f"if {ref.text}.__class__ is X: {result} = {ref.text}")
                self.out("else:")
                self.enter()
                opened += 1
            refs.append(ref)
        return refs, opened

    def all_of(self, nodes: tuple[Expr, ...], scope: Scope, result: str) -> tuple[list[Ref], int]:
        """One or two operands, as cel-go evaluates them: also the second when the first has failed."""
        refs = [self.emit(node, scope) for node in nodes]
        failing = [ref.text for ref in refs if ref.fails]
        if not failing:
            return refs, 0
        self.flush()
        test = "if"
        for text in failing:
            self.out(f"{test} {text}.__class__ is X: {result} = {text}")
            test = "elif"
        self.out("else:")
        self.enter()
        return refs, 1

    def close(self, opened: int) -> None:
        if opened:
            self.flush()
            self.leave(opened)

    def list_literal(self, node: ListExpr, scope: Scope) -> Ref:
        result = self.name()
        self.pending += 10
        refs, opened = self.operands(node.elements, scope, result)
        self.out(f"{result} = [{', '.join(ref.text for ref in refs)}]")
        self.close(opened)
        return Ref(result, fails=opened > 0)

    def call(self, node: Call, scope: Scope) -> Ref:
        function = node.function
        operands = node.args if node.target is None else (node.target, *node.args)
        if function in CHAIN:
            return self.chain(node, scope)
        if function in (LOGICAL_AND, LOGICAL_OR):
            return self.logical(node, scope)
        if function == CONDITIONAL:
            return self.conditional(node, scope)
        if function == NOT_STRICTLY_FALSE:
            return self.not_strictly_false(node, scope)
        if function == IN:
            return self.membership(node, operands, scope)
        if function in ("or", "orValue") or not operands:
            raise Unsupported
        if self.is_accumulator(operands[0], scope):
            if function == ADD and type(operands[1]) is ListExpr:
                return self.appending(operands[0], operands[1], scope)
            if function == "cel.@mapInsert":
                return self.insertion(operands, scope)
        if function in (EQUALS, NOT_EQUALS):
            return self.equality(function, operands, scope)
        return self.application(node, operands, scope)

    def application(self, node: Call, operands: tuple[Expr, ...], scope: Scope) -> Ref:
        """Default cost 1, whatever comes of it."""
        function = node.function
        result = self.name()
        run = self.planner.run_of(node)
        if run is not None:
            ref = self.emit(run[0], scope)
            cost = self.name("c")
            self.spends += 1
            self.flush()
            self.out(f"{result}, {cost} = {self.constant(run[1])}({ref.text})")
            self.out(f"n += {cost}")
            return Ref(result)
        if function == "dyn":
            ref = self.emit(operands[0], scope)
            self.pending += 1
            return ref._replace(constant=MISSING)
        if function in _ARITHMETIC and len(operands) == 2:
            return self.arithmetic(node, operands, scope, result)
        if function in _ORDER:
            return self.order(node, operands, scope, result)
        if function == "!_":
            return self.negation(operands, scope, result)
        if function in ("_/_", "_%_"):
            return self.division(function, operands, scope, result)
        return self.generic(node, operands, scope, result)

    def arithmetic(self, node: Call, operands: tuple[Expr, ...], scope: Scope, result: str) -> Ref:
        refs, opened = self.all_of(operands, scope, result)
        operation = f"{result} = {refs[0].text} {_ARITHMETIC[node.function]} {refs[1].text}"
        if all(ref.kind == "int" for ref in refs):
            bounds = _bounds(node.function, refs[0].bounds, refs[1].bounds)
            fails = bounds[0] < INT_MIN or bounds[1] > INT_MAX
            self.out(operation)
            if fails:
                self.out(f"if not {INT_MIN} <= {result} <= {INT_MAX}: {result} = OVERFLOW")
            self.close(opened)
            self.pending += 1
            return Ref(result, "int", fails or opened > 0, UNKNOWN if fails else bounds)
        overflow = f"if not {INT_MIN} <= {result} <= {INT_MAX}: {result} = OVERFLOW"
        return self.guarded(node, operands, refs, opened, result, [operation, overflow])

    def order(self, node: Call, operands: tuple[Expr, ...], scope: Scope, result: str) -> Ref:
        refs, opened = self.all_of(operands, scope, result)
        operation = f"{result} = {refs[0].text} {_ORDER[node.function]} {refs[1].text}"
        if all(ref.kind == "int" for ref in refs):
            self.out(operation)
            self.close(opened)
            self.pending += 1
            return Ref(result, "bool", opened > 0)
        return self.guarded(node, operands, refs, opened, result, [operation])

    def guarded(  # noqa: PLR0917 - two callers
        self, node: Call, operands: tuple[Expr, ...], refs: list[Ref], opened: int, result: str, lines: list[str]
    ) -> Ref:
        """An operation on ints, and the function itself for anything else."""
        self.flush()
        if any(ref.kind == "int" for ref in refs) or self.has_number(node):
            checks = [f"{ref.text}.__class__ is int" for ref in refs if ref.kind != "int"]
            self.out(f"if {' and '.join(checks)}:")
            self.enter()
            for line in lines:
                self.out(line)
            self.leave()
            self.out("else:")
            self.enter()
            self.called(node, operands, refs, result)
            self.leave()
        else:
            self.called(node, operands, refs, result)
        self.close(opened)
        self.charged(node, operands, refs, result)
        return Ref(result)

    def negation(self, operands: tuple[Expr, ...], scope: Scope, result: str) -> Ref:
        operand = self.emit(operands[0], scope)
        self.pending += 1
        if operand.kind == "bool" and not operand.fails:
            self.out(f"{result} = not {operand.text}")
            return Ref(result, "bool", False)
        self.flush()
        self.out(f"if {operand.text} is True: {result} = False")
        self.out(f"elif {operand.text} is False: {result} = True")
        self.out(f"else: {result} = {operand.text} if {operand.text}.__class__ is X else NO_OVERLOAD")
        return Ref(result)

    def division(self, function: str, operands: tuple[Expr, ...], scope: Scope, result: str) -> Ref:
        refs, opened = self.all_of(operands, scope, result)
        self.spends += 1
        left, right = (ref.text for ref in refs)
        name, operator = ("DIVIDE", "//") if function == "_/_" else ("MODULO", "%")
        are_ints = "".join(f"{ref.text}.__class__ is int and " for ref in refs if ref.kind != "int")
        self.flush()
        self.out(f"if {are_ints}{right} > 0 <= {left}: {result} = {left} {operator} {right}")
        self.out(f"elif {are_ints}not {right}: {result} = {name}_BY_ZERO")
        self.out(f"else: {result} = {name}({left}, {right})")
        self.close(opened)
        self.pending += 1
        return Ref(result)

    def has_number(self, node: Call) -> bool:
        """Whether the checker chose an overload for ints."""
        return any("int64" in overload for overload in self.planner.references.get(node.id, ()))

    def generic(self, node: Call, operands: tuple[Expr, ...], scope: Scope, result: str) -> Ref:
        """What the exact evaluator calls."""
        if len(operands) == 1 or self.planner.evaluates_all(node, operands):
            refs, opened = self.all_of(operands, scope, result)
            self.flush()
            self.called(node, operands, refs, result)
            self.close(opened)
            self.charged(node, operands, refs, result)
        else:
            refs, opened = self.operands(operands, scope, result)
            self.flush()
            self.called(node, operands, refs, result)
            if refs[-1].fails:  # cel-go charges what has got to its last operand
                self.close(1)
            self.charged(node, operands, refs, result)
            self.close(opened - refs[-1].fails)
        return Ref(result)

    def called(self, node: Call, operands: tuple[Expr, ...], refs: list[Ref], result: str) -> None:
        call, _ = self.planner.applied(node, operands)
        self.spends += 1
        self.attempt(result, f"{self.constant(call)}({', '.join(ref.text for ref in refs)})")

    def charged(self, node: Call, operands: tuple[Expr, ...], refs: list[Ref], result: str) -> None:
        _, cost = self.planner.applied(node, operands)
        if cost is None:
            self.pending += 1
            return
        self.flush()
        self.out(f"n += {self.constant(cost)}([{', '.join(ref.text for ref in refs)}], {result})")

    def logical(self, node: Call, scope: Scope) -> Ref:
        decisive = node.function == LOGICAL_OR
        result, failure = self.name(), self.name("f")
        self.flush()
        self.out(f"{failure} = None")
        self.blocks += 1
        if self.blocks > BLOCKS_MAX:
            raise Unsupported
        self.out("while True:")
        self.enter()
        may_fail = False
        tested = set()
        for term in terms(node):
            ref = self.emit(term, scope)
            self.flush()
            if ref.constant is (not decisive) or ref.text in tested:
                continue
            tested.add(ref.text)
            self.out(f"if {ref.text} is {decisive}:")
            self.out(f" {result} = {decisive}")
            self.out(" break")
            if ref.fails or ref.kind != "bool":
                may_fail = True
                self.out(
                    f"if {ref.text} is not {not decisive} and {failure} is None: "
                    f"{failure} = {ref.text} if {ref.text}.__class__ is X else NO_OVERLOAD"
                )
        self.out(f"{result} = {not decisive} if {failure} is None else {failure}")
        self.out("break")
        self.leave()
        self.blocks -= 1
        return Ref(result, "bool", may_fail)

    def conditional(self, node: Call, scope: Scope) -> Ref:
        condition = self.emit(node.args[0], scope)
        result = self.name()
        self.flush()
        fails = condition.fails or condition.kind != "bool"
        kinds = set()
        for test, branch in zip(("if", "elif"), node.args[1:], strict=True):
            self.out(f"{test} {condition.text} is {test == 'if'}:")
            self.enter()
            ref = self.emit(branch, scope)
            if is_attribute(branch):
                self.pending -= 1
            self.flush()
            self.out(f"{result} = {ref.text}")
            self.leave()
            fails = fails or ref.fails
            kinds.add(ref.kind)
        self.out(f"else: {result} = {condition.text} if {condition.text}.__class__ is X else NO_OVERLOAD")
        return Ref(result, kinds.pop() if len(kinds) == 1 else "any", fails)

    def not_strictly_false(self, node: Call, scope: Scope) -> Ref:
        self.pending += 1
        ref = self.emit(node.args[0], scope)
        result = self.name()
        self.flush()
        self.out(f"{result} = {ref.text} is not False")
        return Ref(result, "bool", False)

    def membership(self, node: Call, operands: tuple[Expr, ...], scope: Scope) -> Ref:
        is_list = self.planner.references.get(node.id, ()) == ("in_list",)
        constant = self.planner.constant(operands[1])
        result = self.name()
        if is_list and constant is not MISSING and (members := member_set(constant)) is not None:
            if not members:
                return self.literal(False)
            refs, opened = self.operands(operands[:1], scope, result)
            text, members_name = refs[0].text, self.constant(members)
            self.out(f"{result} = ({text}.__class__, HASHABLE({text})) in {members_name}")
            self.close(opened)
            return Ref(result, "bool", opened > 0)
        refs = [self.emit(operand, scope) for operand in operands]
        cost = self.name("c")
        self.spends += 1
        self.flush()
        self.out(f"{result}, {cost} = CONTAINS({refs[0].text}, {refs[1].text}, {is_list})")
        self.out(f"n += {cost}")
        return Ref(result)

    def equality(self, function: str, operands: tuple[Expr, ...], scope: Scope) -> Ref:
        result = self.name()
        refs = [self.emit(operand, scope) for operand in operands]
        left, right = (ref.text for ref in refs)
        wanted = function == EQUALS
        operation = f"{result} = {left} {'==' if wanted else '!='} {right}"
        are_ints = [ref.kind == "int" and not ref.fails for ref in refs]
        if all(are_ints):
            self.out(operation)
            self.pending += 1
            return Ref(result, "bool", False)
        self.flush()
        if any(are_ints):
            other = right if are_ints[0] else left
            self.out(f"if {other}.__class__ is int: n += 1; {operation}")
            self.out(f"elif {other}.__class__ is X: n += 1; {result} = {other}")
            self.out("else:")
            self.enter()
        elif refs[0].fails:  # the usual error; for others it is not worth a line
            self.out(f"if {left}.__class__ is X and {right}.__class__ is int: n += 1; {result} = {left}")
            self.out("else:")
            self.enter()
        cost = self.name("c")
        self.spends += 1
        self.out(f"{result}, {cost} = {'EQUAL' if wanted else 'UNEQUAL'}({left}, {right})")
        self.out(f"n += {cost}")
        if any(are_ints) or refs[0].fails:
            self.leave()
        return Ref(result, "bool")

    def chain(self, node: Expr, scope: Scope) -> Ref:
        """Selections and indexings by keys that cost nothing and cannot fail."""
        qualifiers: list[tuple[Expr | str, bool]] = []
        is_test = type(node) is Select and node.test_only
        while True:
            if type(node) is Select:
                qualifiers.append((node.field, False))
                node = node.operand
            elif type(node) is Call and node.function in CHAIN:
                qualifiers.append((node.args[1], node.function != "_[_]"))
                node = node.args[0]
            else:
                break
            if type(node) is Select and node.test_only:
                break
        qualifiers.reverse()
        keys = []
        for key, _ in qualifiers:
            if isinstance(key, str):
                keys.append(self.constant(key))
            elif (constant := self.planner.constant(key)) is not MISSING:
                keys.append(self.literal(constant).text)
            elif is_fixed_key(key) and key.name in scope and not scope[key.name].is_lazy:
                keys.append(scope[key.name].ref.text)
            else:
                raise Unsupported
        result, cost = self.name(), self.name("c")
        start_cost = (0 if type(node) is Ident else 1) - is_test
        if type(node) is Call and node.function == CONDITIONAL:
            raise Unsupported
        if type(node) is Ident and node.name not in scope:
            raise Unsupported  # the device: nothing of it changes, so this is kept
        ref = self.emit(node, scope)
        self.spends += 1
        optionals = self.constant(tuple(optional for _, optional in qualifiers))
        self.flush()
        self.out(f"{result}, {cost} = QUALIFY({ref.text}, ({', '.join(keys)},), {optionals}, {is_test}, {start_cost})")
        self.out(f"n += {cost}")
        return Ref(result)

    def is_accumulator(self, node: Expr, scope: Scope) -> bool:
        return type(node) is Ident and node.name == "@result" and node.name in scope

    def accumulator(self, node: Expr, scope: Scope) -> str:
        assert isinstance(node, Ident)
        variable = scope[node.name]
        if variable.slot is not None:
            raise Unsupported
        self.pending += 1
        self.flush()
        return variable.ref.text

    def appending(self, target: Expr, items: ListExpr, scope: Scope) -> Ref:
        if items.optional_indices:
            raise Unsupported
        accumulator = self.accumulator(target, scope)
        result = self.name()
        # For the list, which is made also when there is nothing to add it to, and for adding it.
        self.pending += 1 if self.planner.constant(items) is not MISSING else 11
        refs, opened = self.operands(items.elements, scope, result)
        self.flush()
        elements = ", ".join(ref.text for ref in refs)
        self.out(f"if {accumulator}.__class__ is list: {accumulator} += [{elements}]; {result} = {accumulator}")
        self.out(f"else: {result} = {accumulator} if {accumulator}.__class__ is X else NO_OVERLOAD")
        self.close(opened)
        if opened:
            self.out(f"if {accumulator}.__class__ is X: {result} = {accumulator}")
        return Ref(result)

    def insertion(self, operands: tuple[Expr, ...], scope: Scope) -> Ref:
        accumulator = self.accumulator(operands[0], scope)
        self.spends += 1
        result = self.name()
        if len(operands) == 2:  # a map: cel-go evaluates both operands
            ref = self.emit(operands[1], scope)
            self.pending += 1
            self.flush()
            self.out(f"if {accumulator}.__class__ is X: {result} = {accumulator}")
            self.out(f"elif {ref.text}.__class__ is X: {result} = {ref.text}")
            self.out(f"else: {result} = INSERT({accumulator}, {ref.text})")
            return Ref(result)
        self.out(f"{result} = {accumulator}")
        self.out(f"if {accumulator}.__class__ is not X:")
        self.enter()
        refs, opened = self.operands(operands[1:], scope, result)
        self.pending += 1
        self.flush()
        self.out(f"{result} = INSERT({accumulator}, {', '.join(ref.text for ref in refs)})")
        self.close(opened)
        self.leave()
        return Ref(result)


def _bounds(function: str, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    if function == "_+_":
        return left[0] + right[0], left[1] + right[1]
    if function == "_-_":
        return left[0] - right[1], left[1] - right[0]
    products = [a * b for a in left for b in right]
    return min(products), max(products)
