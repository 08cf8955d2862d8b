"""Generated Python: a checked selector as one function of the device.

    device.driver == "d" && device.attributes["d"].model == "A100"

becomes

    def matches(d, ...):
        try:
            return (d._driver == 'd') and ((t1 := d._attributes['d']['model']) == 'A100' or t1.__class__ is S and R())
        except X:
            return E(d)

Rules of this module
  1. Generated code either gives the answer of the exact evaluator or raises; on anything it raises, `E`
     (the exact evaluator) answers. So it may fail early and often, and must never guess.
  2. Only `repr` of literals the parser made (str, int, bool, bytes, None) and names made here reach the
     source; everything else is a parameter. The code runs without builtins.
  3. `Code.kind` says what a value is known to be. The values of attributes are "attribute": bool, int,
     str, Semver or list, and nothing else (see `device`).
  4. There are no loops: generated code counts only the effort of the functions it calls (`values.spend`). With such
     calls it gives up after a quarter of the limit. `NODES_MAX` is so low that all else that the exact evaluator would
     count fits into the other three quarters.

`Unsupported` means: leave it to the exact evaluator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cel import operators
from cel.checker.checker import Checked
from cel.checker.declarations import STRUCT_KIND
from cel.errors import EvaluationError
from cel.evaluator.codegen_parts import (
    COMPARISONS,
    DECIDED_BY_SIGN,
    DEVICE_FIELDS,
    INNER,
    MIRRORED,
    RUNTIME,
    VALUE,
    Code,
    Scope,
    Unsupported,
    kind_of,
    quantifier,
)
from cel.evaluator.constants import constant_of
from cel.library.stdlib import Implementation
from cel.library.values import MISSING, AbortedError
from cel.parser.syntax import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select, terms_of
from cel.semver import Semver

DEPTH_MAX: Final = 40
NODES_MAX: Final = 500
UNROLLED_MAX: Final = 32


def generate(checked: Checked, exact: Callable[[Any], bool]) -> tuple[Callable[[Any], bool], int] | None:
    """A function of the device for a checked selector, and the work of a call that it does not count as effort itself.

    None when only the exact evaluator can answer.
    """
    prepared = _prepared(checked)
    if prepared is None:
        return None
    generator, condition = prepared
    return generator.build(condition, exact), 2 * generator.emitted


def _prepared(checked: Checked) -> tuple[Generator, str] | None:
    try:
        generator = Generator(checked)
        return generator, generator.condition(checked.expr, {}, 0)
    except Unsupported:
        return None


class Generator:
    def __init__(self, checked: Checked) -> None:
        self.checked: Final = checked
        self.types: Final = checked.types
        self.constants: Final[dict[str, Any]] = {}
        self.used: Final[set[str]] = set()
        self.temporaries = 0
        self.emitted = 0
        self.has_calls = False
        """Whether functions are called, which may spend effort."""
        self.reads_device = False

    # --- the function

    def source(self, condition: str) -> str:
        touch = "" if self.reads_device else "        d._driver\n"
        if self.has_calls:
            touch += f"        {self.use('BEGIN')}()\n"
            condition = f"{self.use('END')}({condition})"
        return (
            f"def matches(d{self.parameters()}):\n    try:\n{touch}        return {condition}\n"
            "    except X:\n        return E(d)\n"
        )

    def parameters(self) -> str:
        """Constants and run-time functions as parameters with defaults, which Python reads faster than globals."""
        return "".join(f", {name}={name}" for name in sorted({*self.constants, *self.used} - {"R"}))

    def build(self, condition: str, exact: Callable[[Any], bool]) -> Callable[[Any], bool]:
        namespace: dict[str, Any] = {"__builtins__": {}, **RUNTIME, **self.constants, "E": exact}
        code = compile(self.source(condition), "<cel selector>", "exec", dont_inherit=True)
        exec(code, namespace)  # noqa: S102 - see rule 2
        function: Any = namespace.pop("matches")  # or the function and its globals would be a cycle
        matches: Callable[[Any], bool] = function
        return matches

    def use(self, name: str) -> str:
        self.used.add(name)
        return name

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def temporary(self) -> str:
        self.temporaries += 1
        return f"t{self.temporaries}"

    # --- expressions

    def condition(self, node: Expr, scope: Scope, depth: int) -> str:
        """Source of an expression that is True or False, or raises."""
        code = self.emit(node, scope, depth)
        if code.kind == "bool":
            return code.text
        if code.kind in ("attribute", "any"):
            name = self.temporary()
            return f"(({name} := {code.text}) is True or {name} is not False and {self.use('R')}())"
        raise Unsupported

    def emit(self, node: Expr, scope: Scope, depth: int) -> Code:
        self.emitted += 1
        if depth > DEPTH_MAX or self.emitted > NODES_MAX:
            raise Unsupported
        match node:
            case Literal(value=value):
                return self.literal(value)
            case Ident(name=name):
                return self.ident(node, name, scope)
            case Select():
                return self.select(node, scope, depth)
            case Call():
                return self.call(node, scope, depth)
            case ListExpr() | MapExpr():
                return self.collection(node, scope, depth)
            case Comprehension():
                return self.comprehension(node, scope, depth)
            case _:
                raise Unsupported

    def literal(self, value: Any) -> Code:
        if value.__class__ in (str, int, bool, bytes, type(None)):
            kind = {str: "string", int: "int", bool: "bool", bytes: "bytes", type(None): "null"}[value.__class__]
            text = repr(value)
            return Code(f"({text})" if text[0] == "-" else text, kind, value)
        return Code(self.constant(value), "double" if value.__class__ is float else "uint", value)

    def ident(self, node: Expr, name: str, scope: Scope) -> Code:
        local = scope.get(name)
        if local is not None:
            return local
        if name.removeprefix(".") == "device" and self.types[node.id].kind == STRUCT_KIND:
            self.reads_device = True
            return Code("d.fields", "device")
        raise Unsupported

    def collection(self, node: ListExpr | MapExpr, scope: Scope, depth: int) -> Code:
        value = constant_of(self.checked, node)
        if value is not MISSING:
            return Code(self.constant(value), "list" if type(node) is ListExpr else "map", value)
        if isinstance(node, MapExpr) or node.optional_indices:
            raise Unsupported
        codes = [self.emit(element, scope, depth + 1) for element in node.elements]
        return Code(f"[{', '.join(code.text for code in codes)}]", "list")

    # --- selection

    def select(self, node: Select, scope: Scope, depth: int) -> Code:
        operand = self.emit(node.operand, scope, depth + 1)
        key = Code(repr(node.field), "string", node.field)
        return self.presence(operand, key) if node.test_only else self.lookup(operand, key)

    def lookup(self, operand: Code, key: Code) -> Code:
        if operand.kind == "device":
            return Code(*DEVICE_FIELDS[key.constant])
        if operand.kind in INNER and key.kind == "string":
            return Code(f"{operand.text}[{key.text}]", INNER[operand.kind])
        if operand.kind in VALUE and key.kind == "string":
            return Code(f"{operand.text}[{key.text}]", VALUE[operand.kind])
        if operand.kind == "attribute":
            return Code(f"{self.use('GET')}({operand.text}, {key.text})", "attribute")
        if operand.kind == "optional":
            return Code(f"{self.use('OPT')}({operand.text}, {key.text})", "optional")
        raise Unsupported

    def presence(self, operand: Code, key: Code) -> Code:
        """`has(operand.key)`."""
        if operand.kind in VALUE:
            return Code(f"({key.text} in {operand.text})", "bool")
        raise Unsupported

    # --- calls

    def call(self, node: Call, scope: Scope, depth: int) -> Code:
        special = _SPECIAL.get(node.function)
        if special is not None:
            code = special(self, node, scope, depth + 1)
            if code is not None:
                return code
        return self.function(node, scope, depth + 1)

    def function(self, node: Call, scope: Scope, depth: int) -> Code:
        """Any function, by calling what the exact evaluator calls."""
        operands = node.args if node.target is None else (node.target, *node.args)
        self.has_calls = True
        codes = [self.emit(operand, scope, depth) for operand in operands]
        if any(code.kind in ("device", *INNER) for code in codes):
            raise Unsupported
        name = self.constant(self.implementation(node, len(operands)))
        return Code(f"{name}({', '.join(code.text for code in codes)})", self.result_kind(node))

    def result_kind(self, node: Call) -> str:
        """The kind that the signatures of the possible overloads give.

        A type the checker inferred for a type parameter can be wrong: `[1] + [device.attributes["d"].x]`
        is a list of int to it.
        """
        chosen = self.checked.references.get(node.id, ())
        overloads = self.checked.environment.functions(node.function) or ()
        kinds = {kind_of(overload.result) for overload in overloads if overload.id in chosen}
        return kinds.pop() if len(kinds) == 1 else "any"

    def implementation(self, node: Call, count: int) -> Implementation:
        from cel.evaluator.calls import implementation_of  # noqa: PLC0415 - the usual selectors call nothing

        return implementation_of(self.checked, node, count)

    def logical(self, node: Call, scope: Scope, depth: int) -> Code:
        from_terms = [self.condition(term, scope, depth) for term in terms_of(node)]
        operator = " and " if node.function == operators.LOGICAL_AND else " or "
        return Code(f"({operator.join(from_terms)})", "bool")

    def negation(self, node: Call, scope: Scope, depth: int) -> Code:
        return Code(f"(not {self.condition(node.args[0], scope, depth)})", "bool")

    def conditional(self, node: Call, scope: Scope, depth: int) -> Code:
        condition = self.condition(node.args[0], scope, depth)
        truthy, falsy = (self.emit(branch, scope, depth) for branch in node.args[1:])
        kind = truthy.kind if truthy.kind == falsy.kind else "any"
        if kind == "any" and {truthy.kind, falsy.kind} & {*INNER, *VALUE, "device"}:
            raise Unsupported
        return Code(f"({truthy.text} if {condition} else {falsy.text})", kind)

    def dyn(self, node: Call, scope: Scope, depth: int) -> Code:
        code = self.emit(node.args[0], scope, depth)
        if code.kind in ("device", *INNER, *VALUE):
            raise Unsupported
        return code

    def index(self, node: Call, scope: Scope, depth: int) -> Code:
        operand = self.emit(node.args[0], scope, depth)
        key = self.emit(node.args[1], scope, depth)
        if operand.kind == "device":
            raise Unsupported
        return self.lookup(operand, key)

    def optional_index(self, node: Call, scope: Scope, depth: int) -> Code:
        operand = self.emit(node.args[0], scope, depth)
        key = self.emit(node.args[1], scope, depth)
        if key.kind != "string" or operand.kind not in ("attribute_domain", "capacity_domain", "optional"):
            raise Unsupported
        return Code(f"{self.use('OPT')}({operand.text}, {key.text})", "optional")

    def or_value(self, node: Call, scope: Scope, depth: int) -> Code | None:
        """`m.?k.orValue(c)` is a plain `get` when `m` is a domain and `c` a constant."""
        assert node.target is not None
        default = self.emit(node.args[0], scope, depth)
        target = node.target
        if type(target) is Call and target.function in (operators.OPTIONAL_SELECT, operators.OPTIONAL_INDEX):
            operand = self.emit(target.args[0], scope, depth)
            key = self.emit(target.args[1], scope, depth)
            if operand.kind in VALUE and key.kind == "string":
                kind = VALUE[operand.kind]
                if default.kind not in (kind, "string", "int", "bool") or (kind == "quantity" != default.kind):
                    raise Unsupported
                if default.constant is not MISSING:
                    return Code(f"{operand.text}.get({key.text}, {default.text})", kind)
                name = self.temporary()
                found = f"({name} := {operand.text}.get({key.text}, {self.use('M')})) is not M"
                return Code(f"({name} if {found} else {default.text})", kind)
        optional = self.emit(target, scope, depth)
        if optional.kind != "optional" or default.kind in ("device", *INNER, *VALUE):
            raise Unsupported
        name = self.temporary()
        return Code(f"({name}.value if ({name} := {optional.text}).has_value else {default.text})", "any")

    def has_value(self, node: Call, scope: Scope, depth: int) -> Code | None:
        target = node.target
        if type(target) is Call and target.function in (operators.OPTIONAL_SELECT, operators.OPTIONAL_INDEX):
            operand = self.emit(target.args[0], scope, depth)
            key = self.emit(target.args[1], scope, depth)
            if operand.kind in VALUE and key.kind == "string":
                return self.presence(operand, key)
        return None

    # --- comparison

    def equality(self, node: Call, scope: Scope, depth: int) -> Code:
        left, right = node.args
        signed = self.sign_comparison(node, scope, depth)
        if signed is not None:
            return signed
        first = self.emit(left, scope, depth)
        second = self.emit(right, scope, depth)
        if {first.kind, second.kind} & {"device", *INNER, *VALUE}:
            raise Unsupported
        wanted = node.function == operators.EQUALS
        if first.kind == second.kind and first.kind in ("string", "int", "uint", "double", "bool", "bytes"):
            return Code(f"({first.text} {'==' if wanted else '!='} {second.text})", "bool")
        if second.kind == "attribute" and first.constant.__class__ in (str, int, bool):
            return Code(self.equal_to_constant(second, first.constant, is_left=False, wanted=wanted), "bool")
        if first.kind == "attribute" and second.constant.__class__ in (str, int, bool):
            return Code(self.equal_to_constant(first, second.constant, is_left=True, wanted=wanted), "bool")
        if first.kind == "attribute" and second.kind == "string" and not wanted:
            return Code(f"({first.text} != {second.text})", "bool")
        function = self.use("EQ" if wanted else "NE")
        return Code(f"{function}({first.text}, {second.text})", "bool")

    def equal_to_constant(self, value: Code, constant: Any, *, is_left: bool, wanted: bool) -> str:
        """An attribute against a text, number or bool; a version on the left of == is an error."""
        name = self.temporary()
        if constant.__class__ is bool:
            test = f"({name} := {value.text}) is {constant!r}"
        elif constant.__class__ is int:
            test = f"(({name} := {value.text}) == {constant!r} and {name}.__class__ is not {self.use('BOOL')})"
        elif not wanted:
            return f"({value.text} != {constant!r})"
        elif not is_left:
            return f"({constant!r} == {value.text})"
        else:
            test = f"({name} := {value.text}) == {constant!r}"
        if not wanted:
            return f"(not ({test}))"
        return f"({test} or {name}.__class__ is {self.use('S')} and {self.use('R')}())" if is_left else f"({test})"

    def ordering(self, node: Call, scope: Scope, depth: int) -> Code:
        signed = self.sign_comparison(node, scope, depth)
        if signed is not None:
            return signed
        first = self.emit(node.args[0], scope, depth)
        second = self.emit(node.args[1], scope, depth)
        operator = COMPARISONS[node.function]
        if first.kind == second.kind and first.kind in ("string", "int", "uint"):
            return Code(f"({first.text} {operator} {second.text})", "bool")
        for value, other, sign in ((first, second, operator), (second, first, COMPARISONS[MIRRORED[node.function]])):
            if value.kind == "attribute" and other.constant.__class__ in (str, int):
                name = self.temporary()
                cls = self.use("INT" if other.constant.__class__ is int else "STR")
                test = f"({name} := {value.text}).__class__ is {cls} and {name} {sign} {other.constant!r}"
                return Code(f"({test} or {name}.__class__ is not {cls} and {self.use('R')}())", "bool")
        if {first.kind, second.kind} & {"device", *INNER, *VALUE}:
            raise Unsupported
        name = self.constant(self.implementation(node, 2))
        return Code(f"{name}({first.text}, {second.text})", "bool")

    def sign_comparison(self, node: Call, scope: Scope, depth: int) -> Code | None:
        """`a.compareTo(b) >= 0` with a constant b: one comparison of the numbers or keys behind."""
        function = node.function
        left, right = node.args
        if type(left) is Literal and left.value.__class__ is int and left.value == 0:
            left, right = right, left
            function = MIRRORED[function]
        if not (type(left) is Call and left.function == "compareTo" and left.target is not None):
            return None
        if not (type(right) is Literal and right.value.__class__ is int and right.value == 0):
            return None
        return self.versus(left.target, DECIDED_BY_SIGN[function], left.args[0], scope, depth)

    def greater_or_less(self, node: Call, scope: Scope, depth: int) -> Code | None:
        assert node.target is not None
        return self.versus(node.target, ">" if node.function == "isGreaterThan" else "<", node.args[0], scope, depth)

    def versus(self, receiver: Expr, operator: str, argument: Expr, scope: Scope, depth: int) -> Code | None:
        """A quantity or version compared with a constant one; only these types have `nano` and `key`."""
        constant = self.folded(argument)
        if constant is MISSING:
            return None
        code = self.emit(receiver, scope, depth)
        if code.kind not in ("attribute", "quantity", "semver"):
            return None
        if constant.__class__ is Semver:
            return Code(f"({code.text}.key {operator} {self.constant(constant.key)})", "bool")
        return Code(f"({code.text}.nano {operator} {constant.nano})", "bool")

    def folded(self, node: Expr) -> Any:
        """The value of `quantity("...")` or `semver("...")`, or MISSING."""
        if type(node) is not Call or node.function not in ("quantity", "semver") or node.target is not None:
            return MISSING
        values: list[Any] = [argument.value for argument in node.args if type(argument) is Literal]
        if len(values) != len(node.args):
            return MISSING
        from cel.library.kube_library import quantity, semver  # noqa: PLC0415

        try:
            return quantity(values[0]) if node.function == "quantity" else semver(*values)
        except (EvaluationError, AbortedError):
            return MISSING

    def constant_call(self, node: Call, scope: Scope, depth: int) -> Code | None:
        value = self.folded(node)
        if value is MISSING:
            return None
        return Code(self.constant(value), node.function, value)

    def membership(self, node: Call, scope: Scope, depth: int) -> Code:
        element = self.emit(node.args[0], scope, depth)
        collection = self.emit(node.args[1], scope, depth)
        if element.kind in ("device", *INNER, *VALUE) or collection.kind == "device":
            raise Unsupported
        if collection.kind in (*INNER, *VALUE):
            if element.kind != "string":
                raise Unsupported
            return Code(f"({element.text} in {collection.text})", "bool")
        values = collection.constant
        if values.__class__ is list and element.kind in ("string", "int", "attribute"):
            return Code(self.one_of(element, values), "bool")
        if values is not MISSING:
            raise Unsupported
        return Code(f"{self.use('IN')}({element.text}, {collection.text})", "bool")

    def one_of(self, element: Code, values: list[Any]) -> str:
        """`x in [constants]`: all texts or all ints; numbers of other types are the exact evaluator's."""
        classes = {value.__class__ for value in values}
        if classes not in ({str}, {int}):
            raise Unsupported
        members = self.constant(frozenset(values))
        if element.kind != "attribute":
            return f"({element.text} in {members})"
        name = self.temporary()
        test = f"({name} := {element.text}) in {members}"
        if classes == {int}:
            test = f"({test} and {name}.__class__ is not {self.use('BOOL')})"
        return f"({test} or {name}.__class__ is {self.use('S')} and {self.use('R')}())"

    # --- texts

    def text_method(self, node: Call, scope: Scope, depth: int) -> Code | None:
        """`startsWith`, `endsWith`, `contains` with a constant: only texts have these Python methods."""
        assert node.target is not None
        argument = node.args[0]
        if type(argument) is not Literal or argument.value.__class__ is not str:
            return None
        code = self.emit(node.target, scope, depth)
        if code.kind not in ("string", "attribute"):
            return None
        if node.function == "contains":
            return Code(f"({code.text}.find({argument.value!r}) >= 0)", "bool")
        method = "startswith" if node.function == "startsWith" else "endswith"
        return Code(f"{code.text}.{method}({argument.value!r})", "bool")

    def matches(self, node: Call, scope: Scope, depth: int) -> Code | None:
        operands = node.args if node.target is None else (node.target, *node.args)
        pattern = operands[1]
        if type(pattern) is not Literal or pattern.value.__class__ is not str:
            return None
        code = self.emit(operands[0], scope, depth)
        if code.kind not in ("string", "attribute"):
            return None
        return self.pattern_test(code, pattern.value)

    def pattern_test(self, code: Code, pattern: str) -> Code:
        from cel.library.regex import RegexError, compiled  # noqa: PLC0415 - many selectors have no pattern

        try:
            regex = compiled(self.checked.patterns, pattern)
        except RegexError:
            raise Unsupported from None
        self.has_calls = True
        search = self.constant(regex.search)
        if code.kind == "string":
            return Code(f"{search}({code.text})", "bool")
        name = self.temporary()
        cls = self.use("STR")
        return Code(
            f"(({name} := {code.text}).__class__ is {cls} and {search}({name}) "
            f"or {name}.__class__ is not {cls} and {self.use('R')}())",
            "bool",
        )

    # --- macros

    def comprehension(self, node: Comprehension, scope: Scope, depth: int) -> Code:
        if node.iter_var2 is not None:
            raise Unsupported
        if type(node.iter_range) is ListExpr and not node.iter_range.elements:
            return self.bind(node, scope, depth + 1)
        return self.unrolled(node, scope, depth + 1)

    def bind(self, node: Comprehension, scope: Scope, depth: int) -> Code:
        """`cel.bind`: the value is computed at once; should that fail, the exact evaluator is as lazy as CEL."""
        init = self.emit(node.accu_init, scope, depth)
        if init.constant is not MISSING:
            return self.emit(node.result, {**scope, node.accu_var: init}, depth)
        name = self.temporary()
        body = self.emit(node.result, {**scope, node.accu_var: Code(name, init.kind)}, depth)
        return Code(f"(({name} := {init.text}) is not {self.use('M')} and {body.text})", body.kind)

    def unrolled(self, node: Comprehension, scope: Scope, depth: int) -> Code:
        """`exists` and `all` over a list of a few literals: the predicate once for each element."""
        shape = quantifier(node)
        source = node.iter_range
        if shape is None or type(source) is not ListExpr or source.optional_indices:
            raise Unsupported
        literals = [element for element in source.elements if type(element) is Literal]
        if len(literals) != len(source.elements) or len(literals) > UNROLLED_MAX:
            raise Unsupported
        function, predicate = shape
        terms: list[str] = []
        before = self.emitted
        for element in literals:
            terms.append(self.condition(predicate, {**scope, node.iter_var: self.literal(element.value)}, depth))
            if self.emitted + (self.emitted - before) // len(terms) * (len(literals) - len(terms)) > NODES_MAX:
                raise Unsupported  # now, not after all of them
        return Code(f"({(' or ' if function == operators.LOGICAL_OR else ' and ').join(terms)})", "bool")


_Special = Callable[[Generator, Call, Scope, int], Code | None]

_SPECIAL: Final[dict[str, _Special]] = {
    operators.LOGICAL_AND: Generator.logical,
    operators.LOGICAL_OR: Generator.logical,
    operators.LOGICAL_NOT: Generator.negation,
    operators.CONDITIONAL: Generator.conditional,
    "dyn": Generator.dyn,
    operators.INDEX: Generator.index,
    operators.OPTIONAL_INDEX: Generator.optional_index,
    operators.OPTIONAL_SELECT: Generator.optional_index,
    "orValue": Generator.or_value,
    "hasValue": Generator.has_value,
    operators.EQUALS: Generator.equality,
    operators.NOT_EQUALS: Generator.equality,
    operators.LESS: Generator.ordering,
    operators.LESS_EQUALS: Generator.ordering,
    operators.GREATER: Generator.ordering,
    operators.GREATER_EQUALS: Generator.ordering,
    "isGreaterThan": Generator.greater_or_less,
    "isLessThan": Generator.greater_or_less,
    "quantity": Generator.constant_call,
    "semver": Generator.constant_call,
    operators.IN: Generator.membership,
    "startsWith": Generator.text_method,
    "endsWith": Generator.text_method,
    "contains": Generator.text_method,
    "matches": Generator.matches,
}
