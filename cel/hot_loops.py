"""Folds that run long, as generated Python that counts their cost: errors are values, what does not change is kept.

    [0, 1, ...].all(a, [0, 1, ...].all(b, 1 / (a - a) == b || true))

A fold of the exact evaluator that has cost `HEAT_MAX` goes on in a function made here. It does what the
evaluator's closures do, cost by cost, and is several times as fast, which matters to expressions whose
loops run until the cost limit ends them.

Rules of this module
  1. Same value, same error, same cost as the closures of `walker`: by test, with this module switched off.
  2. An error is an `EvaluationError` that stands where the value would; only `AbortedError` is raised.
  3. A part that does not depend on a loop's variables is evaluated once while they keep their values, and
     its cost is added each time it would have been evaluated.
  4. What has no form here is the closure of `walker` (`fallback`), which reads the variables from the frame.
  5. As in `codegen`: nothing of the expression's text reaches the source; every constant is a parameter.

Not here: what an operation costs (`runtime_cost`), when a fold is hot (`walker`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from cel.codegen_parts import Unsupported, terms
from cel.declarations import TYPE_KIND
from cel.hot_parts import RUNTIME, Shapes, free_names, is_fixed_key, iteration_kind
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
    Comprehension,
    Expr,
    Ident,
    ListExpr,
    Literal,
    Select,
)
from cel.values import INT_MAX, INT_MIN, MISSING, TypeValue
from cel.walker_steps import CHAIN, Frame, Step, is_attribute, member_set, slot_reader

if TYPE_CHECKING:
    from cel.walker import Planner

EMITTED_MAX: Final = 900
INDENT_MAX: Final = 70
BLOCKS_MAX: Final = 14
"""Python refuses more than 20 nested blocks and 100 levels of indentation."""

Loop: TypeAlias = Callable[[Frame, Iterator[Any], Any], Any]
_ARITHMETIC: Final = {"_+_": "+", "_-_": "-", "_*_": "*"}
_ORDER: Final = {"_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">="}
_UNKNOWN: Final = (INT_MIN - 1, INT_MAX + 1)


class _Ref(NamedTuple):
    """Where a value is: a name or a literal, to be read any number of times.

    kind: "int", "bool" or "any"; fails: whether it can be an error; bounds: of an int.
    """

    text: str
    kind: str = "any"
    fails: bool = True
    bounds: tuple[int, int] = _UNKNOWN
    constant: Any = MISSING


class _Variable:
    """A name of the expression.

    level: of the loop that sets it; 0 is outside of this function.
    slot: where closures read it, or None for accumulators of this function, which they cannot.
    init: what a binding is computed from at its first reading.
    """

    __slots__ = ("init", "is_lazy", "is_synced", "level", "ref", "scope", "slot")

    def __init__(self, ref: _Ref, level: int, slot: int | None, *, is_lazy: bool = False) -> None:
        self.ref: Final = ref
        self.level: Final = level
        self.slot: Final = slot
        self.is_lazy: Final = is_lazy
        self.is_synced = False
        self.init: Expr | None = None
        self.scope: _Scope = {}


_Scope: TypeAlias = Mapping[str, _Variable]
_Key: TypeAlias = tuple[int, tuple[str, ...]]
"""The shape of a part and where its variables are."""


class _Marker:
    """A line that is known only at the end."""

    __slots__ = ("indent", "make")

    def __init__(self, indent: int, make: Callable[[], list[str]]) -> None:
        self.indent: Final = indent
        self.make: Final = make


def compile_loop(planner: Planner, node: Comprehension, scope: Mapping[str, Step], slots: int) -> Loop | None:
    """The rest of a fold, from an iterator and the accumulator so far to the accumulator; None when it has no form.

    Args:
        scope: The names around the fold.
        slots: The first of the fold's three places in a frame (accumulator, variables).
    """
    compiler = _Compiler(planner, scope)
    try:
        return compiler.compile(node, slots)
    except (Unsupported, RecursionError):
        return None


class _Compiler:
    def __init__(self, planner: Planner, scope: Mapping[str, Step]) -> None:
        self.planner: Final = planner
        self.outer: Final = scope
        self.lines: list[str | _Marker] = []
        self.constants: Final[dict[str, Any]] = {}
        self.resets: Final[dict[int, list[str]]] = {0: []}
        self.names = 0
        self.indent = 1
        self.pending = 0
        self.emitted = 0
        self.level = 0
        self.depth = 0
        self.blocks = 0
        self.free: Final[dict[int, frozenset[str]]] = {}
        self.shapes: Final = Shapes()
        self.available: Final[dict[_Key, tuple[_Ref, str]]] = {}
        """Values of parts that occur again, and the name of their cost."""
        self.shared: Final[list[tuple[int, _Key]]] = []

    # --- lines

    def enter(self) -> None:
        self.indent += 1

    def leave(self, levels: int = 1) -> None:
        """What was computed inside is not known to have been computed after it."""
        self.indent -= levels
        while self.shared and self.shared[-1][0] > self.indent:
            del self.available[self.shared.pop()[1]]

    def out(self, text: str) -> None:
        if self.indent > INDENT_MAX:
            raise Unsupported
        self.lines.append(" " * self.indent + text)

    def flush(self) -> None:
        if self.pending:
            self.out(f"n += {self.pending}")
            self.pending = 0

    def name(self, prefix: str = "t") -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def constant(self, value: Any) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def literal(self, value: Any) -> _Ref:
        cls = value.__class__
        if cls is int:
            return _Ref(self.constant(value), "int", False, (value, value), value)
        if cls is bool or value is None:
            return _Ref(repr(value), "bool" if cls is bool else "any", False, _UNKNOWN, value)
        return _Ref(self.constant(value), "any", False, _UNKNOWN, value)

    # --- the function

    def compile(self, node: Comprehension, slots: int) -> Loop:
        self.shapes.count(node)
        scope = {name: self.outer_variable(step) for name, step in self.outer.items()}
        self.lines.append(_Marker(1, lambda: self.resets[0]))
        self.out("n = frame.cost")
        accumulator = self.name("a")
        self.loop(node, scope, accumulator, "any", "it", slots)
        self.out("frame.cost = n")
        self.out(f"return {accumulator}")
        source = [f"def loop(frame, it, {accumulator}, S, {', '.join([*RUNTIME, *self.constants])}):"]
        for line in self.lines:
            if isinstance(line, str):
                source.append(line)
            else:
                source += [" " * line.indent + text for text in line.make()]
        namespace: dict[str, Any] = {"__builtins__": {}}
        exec(compile("\n".join(source), "<cel loop>", "exec", dont_inherit=True), namespace)  # noqa: S102 - rule 5
        function: Any = namespace.pop("loop")
        values = (*RUNTIME.values(), *self.constants.values())
        function.__defaults__ = values

        def run(frame: Frame, iterator: Iterator[Any], start: Any) -> Any:
            missing = self.planner.slots - len(frame.slots)
            if missing > 0:
                frame.slots.extend([None] * missing)
            return function(frame, iterator, start, frame.slots)

        return run

    def outer_variable(self, step: Step) -> _Variable:
        slot, is_accumulator = self.planner.places[step]
        return _Variable(_Ref(f"S[{slot}]", fails=is_accumulator), 0, slot, is_lazy=is_accumulator)

    def loop(  # noqa: PLR0917 - what differs between the fold that is hot and those in it
        self, node: Comprehension, scope: _Scope, accumulator: str, kind: str, values: str, slots: int
    ) -> None:
        """`for x in values: condition; accumulator = step`."""
        self.blocks += 1
        if self.blocks > BLOCKS_MAX:
            raise Unsupported
        self.depth += 1
        outer_level, self.level = self.level, self.depth
        bounds = _UNKNOWN
        if kind.startswith("int:"):
            low, high = kind[4:].split(",")
            kind, bounds = "int", (int(low), int(high))
        first, second = self.name("x"), self.name("x")
        variables = {node.iter_var: _Variable(_Ref(first, kind, False, bounds), self.level, slots + 1)}
        if node.iter_var2 is not None:
            variables[node.iter_var] = _Variable(_Ref(first, fails=False), self.level, slots + 1)
            variables[node.iter_var2] = _Variable(_Ref(second, fails=False), self.level, slots + 2)
        inner = {**scope, **variables, node.accu_var: _Variable(_Ref(accumulator), self.level, None)}
        if node.accu_var in variables:
            raise Unsupported
        self.flush()
        self.out(f"for {first}{f', {second}' if node.iter_var2 is not None else ''} in {values}:")
        self.enter()
        resets = self.resets[self.level] = []
        self.lines.append(_Marker(self.indent, lambda: resets))
        for variable in variables.values():
            self.lines.append(_Marker(self.indent, lambda v=variable: [f"S[{v.slot}] = {v.ref.text}"] * v.is_synced))  # type: ignore[misc]
        if not (type(node.loop_condition) is Literal and node.loop_condition.value is True):
            condition = self.emit(node.loop_condition, inner)
            self.flush()
            self.out(f"if {condition.text} is False: break")
        step = self.emit(node.loop_step, inner)
        self.flush()
        if step.text != accumulator:
            self.out(f"{accumulator} = {step.text}")
        self.out("if n > LIMIT: STOP()")
        self.leave()
        self.level = outer_level
        self.depth -= 1
        self.blocks -= 1

    # --- expressions

    def emit(self, node: Expr, scope: _Scope) -> _Ref:
        constant = self.planner.constant(node)
        if constant is not MISSING:
            return self.literal(constant)
        if type(node) is Ident:
            return self.ident(node, scope)
        variables = [scope[name] for name in sorted(free_names(node, self.free)) if name in scope]
        key = None
        if self.shapes.is_repeated(node) and all(one.slot is not None and not one.is_lazy for one in variables):
            key = self.shapes.of(node), tuple([one.ref.text for one in variables])
            found = self.available.get(key)
            if found is not None:
                self.out(f"n += {found[1]}")
                return found[0]
        before = self.name("b")
        if key is not None:
            self.flush()
            self.out(f"{before} = n")
        level = max((one.level for one in variables), default=0)
        ref = self.kept(node, scope, level) if level < self.level else self.fresh(node, scope)
        if key is not None:
            cost = self.name("c")
            self.flush()
            self.out(f"{cost} = n - {before}")
            self.available[key] = ref, cost
            self.shared.append((self.indent, key))
        return ref

    def fresh(self, node: Expr, scope: _Scope) -> _Ref:
        self.emitted += 1
        state = len(self.lines), self.pending, self.indent, self.level, self.depth, self.blocks
        shared = len(self.shared)
        if self.emitted < EMITTED_MAX:
            try:
                return self.form(node, scope)
            except Unsupported:
                size, self.pending, self.indent, self.level, self.depth, self.blocks = state
                del self.lines[size:]
                for _, key in self.shared[shared:]:
                    del self.available[key]
                del self.shared[shared:]
        return self.fallback(node, scope)

    def kept(self, node: Expr, scope: _Scope, level: int) -> _Ref:
        """Evaluated at most once per iteration of the loop that sets its variables (rule 3)."""
        kept, cost, before, result = (self.name(prefix) for prefix in ("m", "c", "b", "t"))
        # The first reading of a binding costs more than the others, so that evaluation is not kept.
        lazy = [scope[name].ref.text for name in free_names(node, self.free) if name in scope and scope[name].is_lazy]
        self.resets[level].append(f"{kept} = U")
        self.flush()
        self.out(f"if {kept} is U:")
        self.enter()
        ready = self.name("g")
        if lazy:
            self.out(f"{ready} = {' and '.join(f'{text} is not U' for text in sorted(lazy))}")
        self.out(f"{before} = n")
        outer_level, self.level = self.level, level
        ref = self.fresh(node, scope)
        self.level = outer_level
        self.flush()
        self.out(f"{result} = {ref.text}")
        self.out(f"{cost} = n - {before}")
        self.out(f"if {ready}: {kept} = {result}" if lazy else f"{kept} = {result}")
        self.leave()
        self.out("else:")
        self.out(f" n += {cost}")
        self.out(f" {result} = {kept}")
        return ref._replace(text=result, constant=MISSING)

    def fallback(self, node: Expr, scope: _Scope) -> _Ref:
        """The closure of the exact evaluator."""
        inner: dict[str, Step] = {**self.outer}
        for name, variable in scope.items():
            if name in free_names(node, self.free):
                if variable.slot is None:
                    raise Unsupported
                if variable.level:
                    variable.is_synced = True
                    inner[name] = slot_reader(variable.slot)
                    self.planner.places[inner[name]] = (variable.slot, False)
            elif variable.level:
                inner.pop(name, None)
        step = self.constant(self.planner.plan(node, inner))
        result = self.name()
        self.flush()
        self.out("frame.cost = n")
        self.attempt(result, f"{step}(frame)")
        self.out("n = frame.cost")
        return _Ref(result)

    def attempt(self, result: str, call: str) -> None:
        if self.blocks > BLOCKS_MAX:
            raise Unsupported
        self.out(f"try: {result} = {call}")
        self.out("except ABORT: raise")
        self.out(f"except X as e: {result} = e.with_traceback(None)")

    def ident(self, node: Ident, scope: _Scope) -> _Ref:
        variable = scope.get(node.name)
        if variable is None:
            if self.planner.types[node.id].kind == TYPE_KIND:
                return self.literal(TypeValue(node.name.removeprefix(".")))
            return self.fallback(node, scope)
        self.pending += 1
        if not variable.is_lazy:
            return variable.ref
        self.flush()
        result = self.name()
        self.out(f"{result} = {variable.ref.text}")
        if variable.init is None:  # a binding around the hot fold: its reader knows how to begin
            self.out(f"if {result}.__class__ is FAILED: {result} = {result}.error")
            self.out(f"elif {result} is U:")
            self.enter()
            step = self.constant(self.outer[node.name])
            self.out("frame.cost = n - 1")
            self.attempt(result, f"{step}(frame)")
            self.out("n = frame.cost")
        else:
            self.out(f"if {result} is U:")
            self.enter()
            ref = self.emit(variable.init, variable.scope)
            self.flush()
            self.out(f"{result} = {variable.ref.text} = {ref.text}")
        self.leave()
        return _Ref(result)

    def form(self, node: Expr, scope: _Scope) -> _Ref:
        match node:
            case Comprehension():
                return self.fold(node, scope)
            case ListExpr() if not node.optional_indices:
                return self.list_literal(node, scope)
            case Select():
                return self.chain(node, scope)
            case Call():
                return self.call(node, scope)
            case _:
                raise Unsupported

    def operands(self, nodes: tuple[Expr, ...] | list[Expr], scope: _Scope, result: str) -> tuple[list[_Ref], int]:
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

    def close(self, opened: int) -> None:
        if opened:
            self.flush()
            self.leave(opened)

    def list_literal(self, node: ListExpr, scope: _Scope) -> _Ref:
        result = self.name()
        refs, opened = self.operands(node.elements, scope, result)
        self.pending += 10
        self.out(f"{result} = [{', '.join(ref.text for ref in refs)}]")
        self.close(opened)
        return _Ref(result, fails=opened > 0)

    # --- calls

    def call(self, node: Call, scope: _Scope) -> _Ref:
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

    def application(self, node: Call, operands: tuple[Expr, ...], scope: _Scope) -> _Ref:
        function = node.function
        result = self.name()
        run = self.planner.run_of(node)
        if run is not None:
            refs, opened = self.operands([run[0]], scope, result)
            cost = self.name("c")
            self.flush()
            self.out(f"{result}, {cost} = {self.constant(run[1])}({refs[0].text})")
            self.out(f"n += {cost}")
            self.close(opened)
            return _Ref(result)
        refs, opened = self.operands(operands, scope, result)
        texts = [ref.text for ref in refs]
        are_ints = all(ref.kind == "int" for ref in refs)
        kind, bounds, fails = "any", _UNKNOWN, True
        if function in _ARITHMETIC and len(refs) == 2:
            operation = f"{texts[0]} {_ARITHMETIC[function]} {texts[1]}"
            if are_ints:
                kind, bounds = "int", _bounds(function, refs[0].bounds, refs[1].bounds)
            if are_ints and bounds[0] >= INT_MIN and bounds[1] <= INT_MAX:
                self.out(f"{result} = {operation}")
                self.pending += 1
                self.close(opened)
                return _Ref(result, "int", opened > 0, bounds)
            bounds = _UNKNOWN
            if function != ADD or any(ref.kind == "int" for ref in refs) or self.has_number(node):
                return self.guarded(node, refs, opened, result, f"{result} = {operation}")
        elif function in _ORDER:
            operation = f"{result} = {texts[0]} {_ORDER[function]} {texts[1]}"
            if are_ints:
                self.out(operation)
                self.pending += 1
                self.close(opened)
                return _Ref(result, "bool", opened > 0)
            if any(ref.kind == "int" for ref in refs) or self.has_number(node):
                return self.guarded(node, refs, opened, result, operation)
        elif function == "!_" and refs[0].kind == "bool" and not refs[0].fails:
            self.out(f"{result} = not {texts[0]}")
            self.pending += 1
            return _Ref(result, "bool", False)
        elif function == "!_":
            self.flush()
            self.out(f"if {texts[0]} is True: {result} = False; n += 1")
            self.out(f"elif {texts[0]} is False: {result} = True; n += 1")
            self.out(f"else: {result} = NO_OVERLOAD")
            self.close(opened)
            return _Ref(result)
        elif function in ("_/_", "_%_"):
            self.flush()
            values = ", ".join(texts)
            self.out(f"{result} = {'DIVIDE' if function == '_/_' else 'MODULO'}({values})")
            self.out(f"if {result}.__class__ is not X: n += 1")
            self.close(opened)
            return _Ref(result)
        self.generic(node, operands, texts, result)
        self.close(opened)
        return _Ref(result, kind, fails, bounds)

    def has_number(self, node: Call) -> bool:
        """Whether the checker chose an overload for ints."""
        return any("int64" in overload for overload in self.planner.references.get(node.id, ()))

    def guarded(self, node: Call, refs: list[_Ref], opened: int, result: str, operation: str) -> _Ref:
        """An operation on ints, and the function itself for anything else."""
        checks = [f"{ref.text}.__class__ is int" for ref in refs if ref.kind != "int"]
        self.flush()
        if checks:
            self.out(f"if {' and '.join(checks)}:")
            self.enter()
        self.out(operation)
        if node.function in _ORDER:
            self.out("n += 1")
        else:
            self.out(f"if {INT_MIN} <= {result} <= {INT_MAX}: n += 1")
            self.out(f"else: {result} = OVERFLOW")
        if checks:
            self.leave()
            self.out("else:")
            self.enter()
            operands = node.args if node.target is None else (node.target, *node.args)
            self.generic(node, operands, [ref.text for ref in refs], result)
            self.flush()
            self.leave()
        self.close(opened)
        return _Ref(result, "any" if checks or node.function not in _ORDER else "bool")

    def generic(self, node: Call, operands: tuple[Expr, ...], texts: list[str], result: str) -> None:
        """What the exact evaluator calls, and charges when it has not failed."""
        call, cost = self.planner.applied(node, operands)
        self.flush()
        self.attempt(result, f"{self.constant(call)}({', '.join(texts)})")
        counted = "1" if cost is None else f"{self.constant(cost)}([{', '.join(texts)}], {result})"
        self.out(f"else: n += {counted}")

    def logical(self, node: Call, scope: _Scope) -> _Ref:
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
        return _Ref(result, "bool", may_fail)

    def conditional(self, node: Call, scope: _Scope) -> _Ref:
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
                if ref.fails:
                    self.flush()
                    self.out(f"if {ref.text}.__class__ is not X: n -= 1")
                else:
                    self.pending -= 1
            self.flush()
            self.out(f"{result} = {ref.text}")
            self.leave()
            fails = fails or ref.fails
            kinds.add(ref.kind)
        self.out(f"else: {result} = {condition.text} if {condition.text}.__class__ is X else NO_OVERLOAD")
        return _Ref(result, kinds.pop() if len(kinds) == 1 else "any", fails)

    def not_strictly_false(self, node: Call, scope: _Scope) -> _Ref:
        self.pending += 1
        ref = self.emit(node.args[0], scope)
        result = self.name()
        self.flush()
        self.out(f"{result} = {ref.text} is not False")
        return _Ref(result, "bool", False)

    def membership(self, node: Call, operands: tuple[Expr, ...], scope: _Scope) -> _Ref:
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
            return _Ref(result, "bool", opened > 0)
        refs, opened = self.operands(operands, scope, result)
        element, collection = (ref.text for ref in refs)
        self.flush()
        self.out(f"n += {f'SIZE({collection})' if is_list else '1'}")
        self.out("if n > LIMIT: STOP()")
        self.attempt(result, f"CONTAINS({element}, {collection})")
        self.close(opened)
        return _Ref(result)

    def equality(self, function: str, operands: tuple[Expr, ...], scope: _Scope) -> _Ref:
        result = self.name()
        refs, opened = self.operands(operands, scope, result)
        left, right = (ref.text for ref in refs)
        wanted = function == EQUALS
        checks = [f"{ref.text}.__class__ is int" for ref in refs if ref.kind != "int"]
        operation = f"{result} = {left} {'==' if wanted else '!='} {right}"
        self.flush()
        if checks:
            self.out(f"if {' and '.join(checks)}:")
            self.out(f" n += 1; {operation}")
            self.out("else:")
            self.enter()
            self.out(f"n += EQUALITY_COST({left}, {right})")
            self.out("if n > LIMIT: STOP()")
            self.out(f"{result} = {'EQUAL' if wanted else 'UNEQUAL'}({left}, {right})")
            self.leave()
        else:
            self.out(operation)
            self.pending += 1
        self.close(opened)
        return _Ref(result, "bool", opened > 0 or (bool(checks) and wanted))

    # --- selection

    def chain(self, node: Expr, scope: _Scope) -> _Ref:
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
        if type(node) is Ident and node.name not in scope:
            raise Unsupported  # the device: nothing of it changes, so this is kept
        refs, opened = self.operands([node], scope, result)
        optionals = self.constant(tuple(optional for _, optional in qualifiers))
        self.flush()
        self.out(
            f"{result}, {cost} = QUALIFY({refs[0].text}, ({', '.join(keys)},), {optionals}, {is_test}, {start_cost})"
        )
        self.out(f"n += {cost}")
        self.close(opened)
        return _Ref(result)

    # --- folds

    def is_accumulator(self, node: Expr, scope: _Scope) -> bool:
        return type(node) is Ident and node.name == "@result" and node.name in scope

    def accumulator(self, node: Expr, scope: _Scope) -> str:
        assert isinstance(node, Ident)
        variable = scope[node.name]
        if variable.slot is not None:
            raise Unsupported
        self.pending += 1
        self.flush()
        return variable.ref.text

    def appending(self, target: Expr, items: ListExpr, scope: _Scope) -> _Ref:
        if items.optional_indices:
            raise Unsupported
        accumulator = self.accumulator(target, scope)
        result = self.name()
        self.out(f"{result} = {accumulator}")
        self.out(f"if {accumulator}.__class__ is not X:")
        self.enter()
        refs, opened = self.operands(items.elements, scope, result)
        self.pending += 11  # for the list, even when it is a constant, and for adding it
        self.flush()
        self.out(f"if {accumulator}.__class__ is list: {accumulator} += [{', '.join(ref.text for ref in refs)}]")
        self.out(f"else: {result} = NO_OVERLOAD")
        self.close(opened)
        self.leave()
        return _Ref(result)

    def insertion(self, operands: tuple[Expr, ...], scope: _Scope) -> _Ref:
        accumulator = self.accumulator(operands[0], scope)
        result = self.name()
        self.out(f"{result} = {accumulator}")
        self.out(f"if {accumulator}.__class__ is not X:")
        self.enter()
        refs, opened = self.operands(operands[1:], scope, result)
        self.pending += 1
        self.flush()
        self.out(f"{result} = INSERT({accumulator}, {', '.join(ref.text for ref in refs)})")
        self.close(opened)
        self.leave()
        return _Ref(result)

    def fold(self, node: Comprehension, scope: _Scope) -> _Ref:
        values = self.planner.constant(node.iter_range)
        if values == [] and node.iter_var2 is None:
            return self.binding(node, scope)
        start = self.planner.constant(node.accu_init)
        if start is MISSING:
            raise Unsupported
        slots = self.planner.slots
        self.planner.slots += 3
        result = self.name()
        accumulator = self.name("a")
        refs, opened = self.operands([node.iter_range], scope, result)
        text = refs[0].text
        kind = iteration_kind(values, node)
        if values is MISSING or values.__class__ is not list:
            self.flush()
            self.out(f"{result} = NOT_ITERABLE({text}, {node.iter_var2 is not None})")
            self.out(f"if {result} is None:")
            self.enter()
            opened += 1
        if start.__class__ in (list, dict) and not start:
            first = "[]" if start.__class__ is list else "MAP()"
        else:
            first = self.literal(start).text
        self.out(f"{accumulator} = {first}")
        self.loop(node, scope, accumulator, kind, f"PAIRS({text})" if node.iter_var2 is not None else text, slots)
        inner = {**scope, node.accu_var: _Variable(_Ref(accumulator), self.level, None)}
        ref = self.emit(node.result, inner)
        self.flush()
        if start.__class__ is dict:
            self.out(f"{result} = FINISHED({ref.text})")
        else:
            self.out(f"{result} = {ref.text}")
        self.close(opened)
        return _Ref(result)

    def binding(self, node: Comprehension, scope: _Scope) -> _Ref:
        """`cel.bind`: computed when it is first read."""
        name = self.name("a")
        variable = _Variable(_Ref(name), self.level, None, is_lazy=True)
        variable.init = node.accu_init
        variable.scope = scope
        self.flush()
        self.out(f"{name} = U")
        return self.emit(node.result, {**scope, node.accu_var: variable})


def _bounds(function: str, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    if function == "_+_":
        return left[0] + right[0], left[1] + right[1]
    if function == "_-_":
        return left[0] - right[1], left[1] - right[0]
    products = [a * b for a in left for b in right]
    return min(products), max(products)
