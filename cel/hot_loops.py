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
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cel.codegen_parts import Unsupported
from cel.declarations import TYPE_KIND
from cel.effort import LOOP_EFFORT
from cel.hot_forms import Forms
from cel.hot_lines import BLOCKS_MAX, UNKNOWN, Marker, Ref, Scope, Variable
from cel.hot_parts import RUNTIME, Shapes, free_names, iteration_kind
from cel.syntax import Call, Comprehension, Expr, Ident, ListExpr, Literal, Select
from cel.values import MISSING, TypeValue
from cel.walker_steps import Frame, Step, slot_reader

if TYPE_CHECKING:
    from cel.walker import Planner

EMITTED_MAX: Final = 900
Loop: TypeAlias = Callable[[Frame, Iterator[Any], Any], Any]


def compile_loop(planner: Planner, node: Comprehension, scope: Mapping[str, Step], slots: int) -> Loop | None:
    """The rest of a fold, from an iterator and the accumulator so far to the accumulator; None when it has no form.

    Args:
        scope: The names around the fold.
        slots: The first of the fold's three places in a frame (accumulator, variables).
    """
    compiler = _Compiler(planner, scope)
    planner.loops += 1
    try:
        return compiler.compile(node, slots)
    except (Unsupported, RecursionError):
        return None
    finally:
        planner.loops -= 1


class _Compiler(Forms):
    def __init__(self, planner: Planner, scope: Mapping[str, Step]) -> None:
        super().__init__(planner)
        self.outer: Final = scope
        self.resets: Final[dict[int, list[str]]] = {0: []}
        self.emitted = 0
        self.level = 0
        self.depth = 0
        self.free: Final[dict[int, frozenset[str]]] = {}
        self.shapes: Final = Shapes()

    def compile(self, node: Comprehension, slots: int) -> Loop:
        self.shapes.count(node)
        scope = {name: self.outer_variable(step) for name, step in self.outer.items()}
        self.lines.append(Marker(1, lambda: self.resets[0]))
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

    def outer_variable(self, step: Step) -> Variable:
        slot, is_accumulator = self.planner.places[step]
        return Variable(Ref(f"S[{slot}]", fails=is_accumulator), 0, slot, is_lazy=is_accumulator)

    def loop(  # noqa: PLR0917 - what differs between the fold that is hot and those in it
        self, node: Comprehension, scope: Scope, accumulator: str, kind: str, values: str, slots: int
    ) -> None:
        """`for x in values: condition; accumulator = step`."""
        self.blocks += 1
        if self.blocks > BLOCKS_MAX:
            raise Unsupported
        self.depth += 1
        outer_level, self.level = self.level, self.depth
        bounds = UNKNOWN
        if kind.startswith("int:"):
            low, high = kind[4:].split(",")
            kind, bounds = "int", (int(low), int(high))
        first, second = self.name("x"), self.name("x")
        variables = {node.iter_var: Variable(Ref(first, kind, False, bounds), self.level, slots + 1)}
        if node.iter_var2 is not None:
            variables[node.iter_var] = Variable(Ref(first, fails=False), self.level, slots + 1)
            variables[node.iter_var2] = Variable(Ref(second, fails=False), self.level, slots + 2)
        inner = {**scope, **variables, node.accu_var: Variable(Ref(accumulator), self.level, None)}
        if node.accu_var in variables:
            raise Unsupported
        self.flush()
        self.out(f"for {first}{f', {second}' if node.iter_var2 is not None else ''} in {values}:")
        self.enter()
        resets = self.resets[self.level] = []
        self.lines.append(Marker(self.indent, lambda: resets))
        for variable in variables.values():
            self.lines.append(Marker(self.indent, lambda v=variable: [f"S[{v.slot}] = {v.ref.text}"] * v.is_synced))  # type: ignore[misc]
        if not (type(node.loop_condition) is Literal and node.loop_condition.value is True):
            condition = self.emit(node.loop_condition, inner)
            self.flush()
            self.out(f"if {condition.text} is False: break")
        step = self.emit(node.loop_step, inner)
        self.flush()
        if step.text != accumulator:
            self.out(f"{accumulator} = {step.text}")
        self.out("if n + W[0] > LIMIT: STOP()")
        self.leave()
        self.level = outer_level
        self.depth -= 1
        self.blocks -= 1

    def emit(self, node: Expr, scope: Scope) -> Ref:
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
                if found[2]:
                    self.out(f"W[0] += {found[2]}")
                    self.spends += 1
                return found[0]
        before = self.name("b")
        measure = None
        if key is not None:
            self.flush()
            self.out(f"{before} = n")
            measure = self.measured()
        level = max((one.level for one in variables), default=0)
        ref = self.kept(node, scope, level) if level < self.level else self.fresh(node, scope)
        if key is not None:
            cost = self.name("c")
            self.flush()
            self.out(f"{cost} = n - {before}")
            self.available[key] = ref, cost, self.effort_of(measure)
            self.shared.append((self.indent, key))
        return ref

    def fresh(self, node: Expr, scope: Scope) -> Ref:
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

    def measured(self) -> tuple[str, int, list[str]]:
        """Begin to measure the effort of a part: where it is kept, what has spent so far, the line if it is needed."""
        name = self.name("w")
        lines: list[str] = []
        self.lines.append(Marker(self.indent, lambda: lines))
        return name, self.spends, lines

    def effort_of(self, measure: tuple[str, int, list[str]] | None) -> str:
        """The name of the effort since then, or "" where nothing can have spent any."""
        assert measure is not None
        name, spends, lines = measure
        if self.spends == spends:
            return ""
        lines.append(f"{name} = W[0]")
        self.out(f"{name} = W[0] - {name}")
        return name

    def kept(self, node: Expr, scope: Scope, level: int) -> Ref:
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
        measure = self.measured()
        outer_level, self.level = self.level, level
        ref = self.fresh(node, scope)
        self.level = outer_level
        self.flush()
        self.out(f"{result} = {ref.text}")
        self.out(f"{cost} = n - {before}")
        effort = self.effort_of(measure)
        self.out(f"if {ready}: {kept} = {result}" if lazy else f"{kept} = {result}")
        self.leave()
        self.out("else:")
        self.out(f" n += {cost}")
        if effort:
            self.out(f" W[0] += {effort}")
        self.out(f" {result} = {kept}")
        return ref._replace(text=result, constant=MISSING)

    def fallback(self, node: Expr, scope: Scope) -> Ref:
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
        self.spends += 1
        result = self.name()
        self.flush()
        self.out("frame.cost = n")
        self.attempt(result, f"{step}(frame)")
        self.out("n = frame.cost")
        return Ref(result)

    def ident(self, node: Ident, scope: Scope) -> Ref:
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
            self.spends += 1
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
        return Ref(result)

    def form(self, node: Expr, scope: Scope) -> Ref:
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

    def fold(self, node: Comprehension, scope: Scope) -> Ref:
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
        self.out(f"W[0] += {LOOP_EFFORT}")
        self.spends += 1
        self.loop(node, scope, accumulator, kind, f"PAIRS({text})" if node.iter_var2 is not None else text, slots)
        inner = {**scope, node.accu_var: Variable(Ref(accumulator), self.level, None)}
        ref = self.emit(node.result, inner)
        self.flush()
        if start.__class__ is dict:
            self.out(f"{result} = FINISHED({ref.text})")
        else:
            self.out(f"{result} = {ref.text}")
        self.close(opened)
        return Ref(result)

    def binding(self, node: Comprehension, scope: Scope) -> Ref:
        """`cel.bind`: computed when it is first read."""
        name = self.name("a")
        variable = Variable(Ref(name), self.level, None, is_lazy=True)
        variable.init = node.accu_init
        variable.scope = scope
        self.flush()
        self.out(f"{name} = U")
        return self.emit(node.result, {**scope, node.accu_var: variable})
