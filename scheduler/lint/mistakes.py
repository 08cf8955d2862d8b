"""Selector expressions as people write them from memory, and what they meant.

Accessors that never existed (`.string()`, `.quantity()`, ...), attributes without their domain, domain and name in
one key, extended resource names instead of drivers, versions compared as text. Each mistake has a place and, where
what was meant is certain, the text that says it.

Rules of this module
  1. Only what can mean nothing else is rewritten; the domain of an attribute comes from the caller, never from here.
  2. Everything is found in the parsed expression, never by searching its text.

Not here: whether an expression compiles (who calls knows that), and traps of those that do (`cel`, `selector_rules`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from cel import operators
from cel.parser.lexer import IDENT, Tokens, tokenize
from cel.parser.syntax import Call, Expr, Literal, MapExpr, Select, children
from cel.quantity import Quantity
from cel.semver import Semver
from scheduler.lint.context import Context, is_id
from scheduler.model.selector_reading import Part, driver_texts, is_device, is_field, parsed, walk

ACCESSORS: Final = ("string", "int", "bool", "version", "quantity", "list", "number", "double", "float")
_ORDERINGS: Final = {
    operators.LESS: operators.GREATER,
    operators.LESS_EQUALS: operators.GREATER_EQUALS,
    operators.GREATER: operators.LESS,
    operators.GREATER_EQUALS: operators.LESS_EQUALS,
}
_COMPARISONS: Final = {**_ORDERINGS, operators.EQUALS: operators.EQUALS, operators.NOT_EQUALS: operators.NOT_EQUALS}
_VERSION_TEXT: Final = re.compile(r"v?(\d+)(?:\.(\d+))(?:\.(\d+))?")
_YAML_TYPES: Final = {
    "attributes": frozenset({"string", "int", "bool", "version", "strings", "ints", "bools", "versions"}),
    "capacity": frozenset({"value"}),
}
"""How a ResourceSlice writes of which type a value is. In expressions there is the value itself."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake. `edits` are empty where what was meant is not certain; a mild one may be what somebody wants."""

    code: str
    offset: int
    message: str
    fix: str
    edits: tuple[Part, ...] = ()
    is_mild: bool = False
    compiles: bool = False


def find_mistakes(
    expression: str, context: Context, drivers: Collection[str], is_valid: Callable[[str], bool] = lambda text: False
) -> list[Mistake]:
    """The mistakes in an expression, by place; none in one that does not parse.

    Args:
        drivers: Of which a device has one.
        is_valid: Whether some release takes an expression, or a part of one.
    """
    root = parsed(expression)
    if root is None:
        return []
    finder = _Finder(expression, context, drivers, is_valid)
    try:
        finder.visit(root, None)
    except RecursionError:
        return []
    return sorted(finder.found, key=lambda mistake: mistake.offset)


def rewrite(expression: str, mistakes: list[Mistake]) -> str:
    """The expression with the edits of the mistakes."""
    # Macros copy what they are given, so a mistake may be found twice in one place.
    edits = {(edit.start, edit.end): edit for mistake in mistakes for edit in mistake.edits}
    for _, edit in sorted(edits.items(), reverse=True):
        expression = expression[: edit.start] + edit.text + expression[edit.end :]
    return expression


def version_of(value: str) -> str | None:
    """ "7.0", "v535.104.05" as a semantic version; None for text that is no version."""
    found = _VERSION_TEXT.fullmatch(value)
    if found is None:
        return None
    # Leading zeros are refused by semver.
    return ".".join(str(int(part or "0")) for part in found.groups())


@dataclass(frozen=True, slots=True)
class _Ref:
    """`device.attributes["a"]["b"]` with 1 or 2 keys, and the accessor called on it, or the type written after it."""

    which: str
    keys: tuple[str, ...]
    accessor: str
    node: Expr
    yaml_type: str = ""


class _Finder:
    def __init__(
        self, expression: str, context: Context, drivers: Collection[str], is_valid: Callable[[str], bool]
    ) -> None:
        self.context = context
        self.domain_of = context.domain_finder(drivers)
        self.is_valid = is_valid
        self.source = expression
        self.tokens: Tokens = tokenize(expression)
        self.index_by_offset = {offset: index for index, offset in enumerate(self.tokens.offsets)}
        self.found: list[Mistake] = []

    def say(
        self, code: str, offset: int, message: str, fix: str, edits: tuple[Part, ...] = (), *, is_valid: bool = False
    ) -> None:
        """An expression that is valid may be meant as it is."""
        self.found.append(Mistake(code, offset, message, fix, edits, is_mild=is_valid, compiles=is_valid))

    # What was written.

    def visit(self, node: Expr, parent: Expr | None) -> None:
        for literal in driver_texts(node):
            self.driver(literal)
        if isinstance(node, Call) and node.function in _COMPARISONS and self.comparison(node):
            return
        if isinstance(node, Call) and node.function == "contains" and node.target is not None:
            ref = _ref(node.target)
            if ref is not None and ref.accessor == "list":
                self.reference(ref, extra=self.method(node)._replace(text="includes"))
                for arg in node.args:
                    self.visit(arg, node)
                return
        ref = _ref(node)
        if ref is not None and (ref.accessor or ref.yaml_type or len(ref.keys) == 2 or _is_value(node, parent)):
            self.reference(ref)
            return
        for child in children(node):
            self.visit(child, node)

    def driver(self, literal: Literal) -> None:
        name = str(literal.value)
        meant, start = self.context.driver_meant(name), literal.offset + 1
        if meant is None and "/" not in name:
            return
        # Only where the text is written without escapes and prefixes is its place known.
        is_plain = self.source[start : start + len(name)] == name
        edits = (Part(start, start + len(name), meant),) if meant is not None and is_plain else ()
        if "/" not in name:
            message, fix = f'the driver "{name}" is called {meant} now', f'device.driver == "{meant}"'
        else:
            domain, _, resource = name.partition("/")
            message = f'"{name}" is an extended resource\'s name; no driver is called so, and this is never equal'
            fix = (
                f'device.driver == "{meant}"'
                if meant is not None
                else f'device.driver == "..." with the driver\'s name, perhaps "{resource}.{domain}"; '
                f"kubectl get resourceslices shows the names; convert --driver-map {name}={resource}.{domain} writes it"
            )
        code = "driver-with-slash" if "/" in name else "driver-renamed"
        self.found.append(Mistake(code, literal.offset, message, fix, edits, compiles=True))

    def comparison(self, node: Call) -> bool:
        """Whether the comparison as a whole was dealt with."""
        left, right = node.args
        for ref, other, function in (
            (_ref(left), right, node.function),
            (_ref(right), left, _COMPARISONS[node.function]),
        ):
            if ref is not None and self.compare(node, ref, other, function):
                return True
        return False

    def compare(self, node: Call, ref: _Ref, other: Expr, function: str) -> bool:
        amount = self.quantity(ref, other)
        if amount is not None:
            return self.by_method(node, ref, "capacity", amount, function)
        version = self.version(ref, other, function)
        if version is not None:
            return self.by_method(node, ref, "attributes", version, function)
        literal = other.value if isinstance(other, Literal) else None
        if (
            isinstance(literal, str)
            and function in _ORDERINGS
            and len(ref.keys) == 2
            and not ref.accessor
            and not ref.yaml_type
            and ref.which == "attributes"
            and (meant := version_of(literal)) is not None
        ):
            message = f'text is ordered letter by letter: "10.0" is less than "{literal}"; and a version is no text'
            fix = f'{_written(ref.which, *ref.keys)}.compareTo(semver("{meant}")) {_sign(function)} 0'
            fix += ", where the driver publishes a version"
            self.say("version-ordered-as-text", node.offset, message, fix, is_valid=True)
            return True
        return False

    def quantity(self, ref: _Ref, other: Expr) -> str | None:
        """The quantity a reference is compared with, as an expression; None when this is no such comparison."""
        if _calls(other, "quantity"):
            return self.text(other) if not _has_refs(other) else None
        literal = other.value if isinstance(other, Literal) else None
        if isinstance(literal, bool) or not isinstance(literal, str | int):
            return None
        if ref.accessor != "quantity" and not (ref.which == "capacity" and not ref.accessor):
            return None
        try:
            Quantity.parse(str(literal))
        except ValueError:
            return None
        return f'quantity("{literal}")'

    def version(self, ref: _Ref, other: Expr, function: str) -> str | None:
        """The version a reference is compared with, as an expression; None when this is no such comparison."""
        if _calls(other, "semver") and not _has_refs(other):
            is_valid = not ref.accessor and function == operators.EQUALS
            return None if is_valid else self.text(other)
        literal = other.value if isinstance(other, Literal) else None
        is_meant = ref.accessor == "version" or (ref.accessor == "string" and function in _ORDERINGS)
        meant = version_of(literal) if is_meant and isinstance(literal, str) else None
        if meant is None and ref.accessor == "version" and isinstance(literal, str):
            try:
                meant = str(Semver.parse(literal)) and literal
            except ValueError:
                return None
        return None if meant is None else f'semver("{meant}")'

    def by_method(self, node: Call, ref: _Ref, which: str, other: str, function: str) -> bool:
        """`ref op other` becomes `ref.compareTo(other) op 0`; not what is valid and asks for what can be."""
        extent = self.extent(node)
        # A part with variables of a macro means something only where it stands.
        is_valid = not ref.accessor and (self.is_valid(self.text(node)) or self.is_valid(self.source))
        if is_valid and ref.which == which:
            return False
        domain, name, problem = self.resolve(ref, which)
        meant = f"{_written(which, domain or '<domain>', name)}.compareTo({other}) {_sign(function)} 0"
        noun = "quantities" if which == "capacity" else "versions"
        said = f".{ref.accessor}() does not exist: " if ref.accessor else ""
        if which == "capacity" and ref.which == "attributes":
            said += "quantities are capacities, not attributes, and "
        place, message = self.accessor_place(ref), f"{said}{noun} are compared by compareTo{problem}"
        fix = meant + (" (where the driver publishes it as a version)" if which == "attributes" else "")
        edits = () if domain is None else (Part(*extent, meant),)
        self.say("accessor" if ref.accessor else "compared-by-operator", place, message, fix, edits, is_valid=is_valid)
        return True

    def reference(self, ref: _Ref, extra: Part | None = None) -> None:
        """A reference that stands for a value: its accessor and its keys."""
        which = "capacity" if ref.accessor == "quantity" else ref.which
        is_whole = len(ref.keys) == 2 and "/" not in ref.keys[0]
        if is_whole and not ref.accessor and not ref.yaml_type:
            if which == "attributes" and not is_id(ref.keys[1]):
                self.illegal_id(ref)
            return
        domain, name, problem = self.resolve(ref, which)
        meant = _written(which, domain or "<domain>", name)
        start, end = self.extent(ref.node)
        edits = () if domain is None else tuple(filter(None, (Part(start, end, meant), extra)))
        if ref.accessor:
            message = f".{ref.accessor}() does not exist: attributes are values with types already{problem}"
            if ref.accessor == "list":
                meant += ", .includes(...)"
                message += "; lists need Kubernetes 1.36 with the feature gate DRAListTypeAttributes"
            self.say("accessor", self.accessor_place(ref), message, meant, edits)
            return
        if ref.yaml_type:
            problem += f"; .{ref.yaml_type} is how YAML writes the type: an expression has the value itself"
        if is_whole:
            message = "an attribute's value has no fields"
            self.say("accessor", start, message + problem, meant, edits)
            return
        written = ref.keys[0]
        message = (
            f'"{written}" joins domain and name, which are two keys'
            if "/" in written
            else f'"{written}" is looked up as a domain; an attribute\'s name is the second key'
        )
        self.say("attribute-without-domain", start, message + problem, meant, edits)

    def illegal_id(self, ref: _Ref) -> None:
        domain, name, _ = self.resolve(ref, ref.which)
        meant = _written(ref.which, domain or ref.keys[0], name)
        extent = self.extent(ref.node)
        message = f'no attribute can be called "{ref.keys[1]}": names are C identifiers of at most 32 characters'
        fix = f"the nearest legal name is {name}; see what the driver publishes"
        edits = (Part(*extent, meant),) if domain is not None else ()
        self.say("illegal-attribute-name", extent[0], message, fix, edits, is_valid=True)

    # What was meant.

    def resolve(self, ref: _Ref, which: str) -> tuple[str | None, str, str]:
        """Domain, name, and what was not as it should be with them (to follow a message); None: it is not certain."""
        if len(ref.keys) == 2:
            domain, written = ref.keys
        else:
            domain, _, written = ref.keys[0].rpartition("/")
        name = self.context.name_meant(which, written)
        said = (
            "" if name == written else f'; "{written}" is no legal name, the nearest is {name}: see what is published'
        )
        if not domain:
            known = self.domain_of(which, name)
            return known, name, said + ("" if known else f"; which domain publishes {name} is not known here")
        if "/" in domain:
            meant = self.context.driver_meant(domain)
            if meant is None:
                return None, name, f'{said}; a domain has no slash, "{domain}" cannot exist'
            domain = meant
        return (domain if name == written or self.context.is_name_certain(which, domain, name) else None), name, said

    # Places.

    def accessor_place(self, ref: _Ref) -> int:
        """The accessor's name, or where the reference begins when it has none."""
        return self.method(ref.node).start if ref.accessor else self.extent(ref.node)[0]

    def method(self, node: Expr) -> Part:
        """The name of a method that is called: it stands before its bracket."""
        index = self.index_by_offset[node.offset] - 1
        start, name = self.tokens.offsets[index], self.tokens.texts[index]
        return Part(start, start + len(name), name)

    def text(self, node: Expr) -> str:
        return self.source[slice(*self.extent(node))]

    def extent(self, node: Expr) -> tuple[int, int]:
        """From where to where a node's text goes, in balanced brackets."""
        places = [self.index_by_offset.get(part.offset, 0) for part in walk(node)]
        begin, end, kinds = min(places), max(places), self.tokens.kinds
        if kinds[end] == "." and end + 1 < len(kinds):
            end += 1  # the place of a field is its dot
        if kinds[begin] == "(" and begin > 0 and kinds[begin - 1] == IDENT:
            begin -= 1  # the place of a function's call is its bracket
        while True:
            depths = [*accumulate((kind in "([{") - (kind in ")]}") for kind in kinds[begin : end + 1])]
            if min(depths) < 0 and begin > 0:
                begin -= 1  # an opening bracket before the first name
            elif depths[-1] > 0 and end + 2 < len(kinds):
                end += 1
            else:
                return self.tokens.offsets[begin], self.tokens.offsets[end] + len(self.tokens.texts[end])


def _written(which: str, domain: str, name: str) -> str:
    tail = f".{name}" if is_field(name) else f'["{name}"]'
    return f'device.{which}["{domain}"]{tail}'


def _sign(function: str) -> str:
    return function.strip("_")


def _ref(node: Expr) -> _Ref | None:
    """The reference a node is, with its accessor."""
    named, accessor, yaml_type = _keys(node), "", ""
    if isinstance(node, Call) and node.target is not None and node.function in ACCESSORS and not node.args:
        named, accessor = _keys(node.target), node.function
    elif isinstance(node, Select) and not node.test_only and (of := _keys(node.operand)) is not None:
        # What is published under a name has no fields; a domain has no slash, so this one has its name with it.
        is_named_in_full = len(of[1]) == 2 or (len(of[1]) == 1 and "/" in of[1][0])
        if is_named_in_full and node.field in _YAML_TYPES[of[0]]:
            named, yaml_type = of, node.field
    return _Ref(*named, accessor, node, yaml_type) if named is not None and named[1] else None


def _calls(node: Expr, function: str) -> bool:
    return isinstance(node, Call) and node.function == function and node.target is None


def _has_refs(node: Expr) -> bool:
    return any(_ref(part) is not None for part in walk(node))


def _keys(node: Expr) -> tuple[str, tuple[str, ...]] | None:
    """(`attributes` or `capacity`, keys) of `device.attributes["a"].b` with 0 to 2 keys."""
    if isinstance(node, Select) and not node.test_only:
        if node.field in ("attributes", "capacity") and is_device(node.operand):
            return node.field, ()
        operand, key = node.operand, node.field
    elif isinstance(node, Call) and node.function == operators.INDEX:
        operand, index = node.args
        if not isinstance(index, Literal) or not isinstance(index.value, str):
            return None
        key = index.value
    else:
        return None
    below = _keys(operand)
    return (below[0], (*below[1], key)) if below is not None and len(below[1]) < 2 else None


def _is_value(node: Expr, parent: Expr | None) -> bool:
    """Whether `device.attributes["x"]` stands where only a value makes sense, so that "x" is no domain."""
    if parent is None:
        return True
    if not isinstance(parent, Call):
        return False
    if parent.function in (operators.INDEX, operators.OPTIONAL_INDEX, operators.OPTIONAL_SELECT, "size", "dyn"):
        return False
    if parent.function == operators.IN:
        return parent.args[0] is node
    if parent.function in (operators.EQUALS, operators.NOT_EQUALS):
        return not any(isinstance(side, MapExpr) or (side is not node and _ref(side)) for side in parent.args)
    return parent.target is node or parent.target is None
