"""Known traps of device selectors: expressions that a cluster accepts and that do not do what they say.

Each has a code, a place and advice. A trap is reported where it is likely, not where it is certain: what
type an attribute has is known only when a device publishes it.

| code | trap |
|---|---|
| `version-compared-with-text` | a version is never equal to a text: `==` fails the pod, `!=` is always true |
| `has-on-domain` | `has(device.attributes.domain)` is always true: unknown domains read as empty maps |
| `unguarded-read` | reading an attribute the device lacks fails the pod's allocation, not only the match |
| `quantity-not-equals` | `!=` on quantities and versions has no cost estimate and is refused on admission |
| `version-in-text-list` | `version in ["..."]` makes cel-go panic |

Not here: what makes an expression invalid (`checker`), with `hint_for` for the commonest of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from cel import operators
from cel.checker.checker import Checked
from cel.checker.declarations import ANY_KIND, DYN_KIND
from cel.parser import syntax
from cel.parser.syntax import Call, Comprehension, Expr, Ident, ListExpr, Literal, Select

# Names from `device` on; None for a key known only at run time.
_Path: TypeAlias = tuple[str | None, ...]
_Facts: TypeAlias = frozenset[_Path]

_MAPS: Final = ("attributes", "capacity")
_VERSION: Final = re.compile(r"v?[0-9]+\.[0-9]+\.[0-9]+(?:[-+][0-9A-Za-z.+-]*)?")
_DRIVER: Final = "driver"


class Trap(NamedTuple):
    """One trap: `offset` in code points, `message` what happens, `advice` what to write instead."""

    code: str
    offset: int
    message: str
    advice: str


def find_traps(checked: Checked) -> list[Trap]:
    """The traps in a checked expression, by place."""
    linter = _Linter(checked)
    linter.visit(checked.expr, frozenset(), {})
    return sorted(linter.found, key=lambda trap: trap.offset)


def hint_for(error: str) -> str | None:
    """What to do about the commonest compile errors, or None; takes `str(CompileError)`."""
    return next((hint for pattern, hint in _HINTS.items() if re.search(pattern, error)), None)


_HINTS: Final = {
    r"expected type '(?:dyn|any)' but found|expected type '[^']+' but found '(?:dyn|any)'": (
        "all elements of a list or map literal must have one type, and an attribute has none before a device is "
        'known: wrap the others too, [dyn("a"), ...]'
    ),
    r": expected type '[^']+' but found '[^']+'": (
        "all elements of a list or map literal must have one type; wrap them in dyn(...) to mix types"
    ),
    r"no matching overload for '_(?:[<>]=?)_' applied to '\(.*kubernetes\.(?:Quantity|Semver)": (
        "quantities and versions are ordered by methods: a.compareTo(b) >= 0, a.isGreaterThan(b), a.isLessThan(b)"
    ),
    r"no matching overload for '_(?:==|!=)_' applied to '\(.*kubernetes\.Quantity": (
        'compare a quantity with a quantity: a.compareTo(quantity("40Gi")) == 0'
    ),
    r"no matching overload for '_(?:==|!=)_' applied to '\(.*kubernetes\.Semver": (
        'compare a version with a version: a.compareTo(semver("1.2.3")) == 0'
    ),
    r"no matching overload for 'sign' applied to": "sign is a function: sign(q)",
    r"cannot be range of a comprehension": (
        "attributes that are lists need Kubernetes 1.36 with the feature gate DRAListTypeAttributes"
    ),
    r"undefined field 'allowMultipleAllocations'": (
        "device.allowMultipleAllocations needs the feature gate DRAConsumableCapacity"
    ),
    r"undeclared reference to '(?:attributes|capacity|driver|self|object)'": (
        'the one variable is `device`: device.driver, device.attributes["domain"].name, device.capacity["domain"].name'
    ),
    r"token recognition error at: '= '": "equality is written ==",
    r"token recognition error at: '[&|]": "logical operators are written && and ||",
    r"mismatched input '(?:and|or|not)'": "logical operators are written &&, || and !",
    r"must evaluate to bool or the unknown type, not optional_type": "an optional is no answer: append .orValue(false)",
}


class _Linter:
    __slots__ = ("checked", "found", "reported")

    def __init__(self, checked: Checked) -> None:
        self.checked = checked
        self.found: list[Trap] = []
        self.reported: set[_Path] = set()

    def warn(self, code: str, offset: int, message: str, advice: str) -> None:
        self.found.append(Trap(code, offset, message, advice))

    def visit(self, node: Expr, facts: _Facts, bound: Mapping[str, _Path]) -> None:
        """Look at a node where `facts` hold (what is known to be there) and `bound` names stand for paths."""
        match node:
            case Call():
                self.call(node, facts, bound)
            case Select():
                self.select(node, facts, bound)
            case Comprehension():
                self.comprehension(node, facts, bound)
            case _:
                from cel.parser.syntax import children  # noqa: PLC0415 - only the command line lints

                for child in children(node):
                    self.visit(child, facts, bound)

    def comprehension(self, node: Comprehension, facts: _Facts, bound: Mapping[str, _Path]) -> None:
        self.visit(node.iter_range, facts, bound)
        self.visit(node.accu_init, facts, bound)
        inner = {name: path for name, path in bound.items() if name not in (node.iter_var, node.iter_var2)}
        if node.iter_var == syntax.UNUSED_ITER_VAR:
            path = _path(node.accu_init, bound)
            inner = dict(bound)
            inner.pop(node.accu_var, None)
            if path is not None:
                inner[node.accu_var] = path
            self.visit(node.result, facts, inner)
            return
        for part in (node.loop_condition, node.loop_step, node.result):
            self.visit(part, facts, inner)

    def select(self, node: Select, facts: _Facts, bound: Mapping[str, _Path]) -> None:
        path = _path(node, bound)
        if node.test_only:
            target = _path(node.operand, bound)
            if target is not None and len(target) == 1 and target[0] in _MAPS:
                self.domain_test(node, f"{target[0]}", f"has(device.{target[0]}.{node.field})", node.field)
        elif path is not None:
            self.read(node, path, facts)
        self.visit(node.operand, facts, bound)

    def domain_test(self, node: Expr, which: str, written: str, domain: str | None) -> None:
        shown = f'"{domain}"' if domain is not None else "domain"
        self.warn(
            "has-on-domain",
            node.offset,
            f"{written} is always true: an unknown domain reads as an empty map",
            f"write {shown} in device.{which}, or has(...) with the name of an attribute",
        )

    def read(self, node: Expr, path: _Path, facts: _Facts) -> None:
        if len(path) != 3 or path[0] not in _MAPS or None in path or path in self.reported:
            return
        which, domain, name = path
        if domain is not None and "/" in domain:
            return  # there is no such domain, so no device has it: another mistake
        if path in facts or (_DRIVER, domain) in facts:
            return
        self.reported.add(path)
        noun = "attribute" if which == "attributes" else "capacity"
        self.warn(
            "unguarded-read",
            node.offset,
            f"a device without the {noun} {domain}/{name} makes the pod's allocation fail (no such key: {name})",
            f'guard it: has(device.{which}["{domain}"].{name}) && ..., or '
            f'device.{which}["{domain}"].?{name}.orValue(...); or select the driver first: device.driver == "{domain}"',
        )

    def call(self, node: Call, facts: _Facts, bound: Mapping[str, _Path]) -> None:
        operands = node.args if node.target is None else (node.target, *node.args)
        match node.function:
            case operators.LOGICAL_AND | operators.LOGICAL_OR:
                # Either side's error is absorbed when the other decides, so order does not matter.
                positive = node.function == operators.LOGICAL_AND
                terms = syntax.terms_of(node)
                known = [_facts(term, bound, positive=positive) for term in terms]
                for position, term in enumerate(terms):
                    others = (fact for number, found in enumerate(known) if number != position for fact in found)
                    self.visit(term, facts.union(others), bound)
                return
            case operators.CONDITIONAL:
                condition, then, otherwise = operands
                self.visit(condition, facts, bound)
                self.visit(then, facts | _facts(condition, bound, positive=True), bound)
                self.visit(otherwise, facts | _facts(condition, bound, positive=False), bound)
                return
            case operators.INDEX:
                path = _path(node, bound)
                if path is not None:
                    self.read(node, path, facts)
            case operators.EQUALS | operators.NOT_EQUALS:
                self.equality(node, bound)
            case operators.IN:
                self.membership(node, bound)
            case "hasValue":
                self.optional_domain(node, bound)
            case _:
                pass
        for operand in operands:
            self.visit(operand, facts, bound)

    def optional_domain(self, node: Call, bound: Mapping[str, _Path]) -> None:
        target = node.target
        if type(target) is Call and target.function in (operators.OPTIONAL_SELECT, operators.OPTIONAL_INDEX):
            path = _path(target.args[0], bound)
            if path is not None and len(path) == 1 and path[0] in _MAPS:
                self.domain_test(target, f"{path[0]}", "this", _text(target.args[1]))

    def is_attribute(self, node: Expr, bound: Mapping[str, _Path]) -> bool:
        if type(node) is Call and node.function == "orValue" and type(node.target) is Call:
            optional = node.target
            if optional.function in (operators.OPTIONAL_SELECT, operators.OPTIONAL_INDEX):
                path = _path(optional.args[0], bound)
                return path is not None and len(path) == 2 and path[0] == "attributes"
        path = _path(node, bound)
        is_dynamic = self.checked.types[node.id].kind in (DYN_KIND, ANY_KIND)
        return is_dynamic and path is not None and len(path) == 3 and path[0] == "attributes"

    def equality(self, node: Call, bound: Mapping[str, _Path]) -> None:
        left, right = node.args
        names = {self.checked.types[side.id].name for side in (left, right)}
        if node.function == operators.NOT_EQUALS and names & {"kubernetes.Quantity", "kubernetes.Semver"}:
            self.warn(
                "quantity-not-equals",
                node.offset,
                "!= on quantities and versions has no cost estimate, so the API server refuses it as too complex",
                "write a.compareTo(b) != 0, or !(a == b)",
            )
        for attribute, other in ((left, right), (right, left)):
            text = _text(other)
            if text is None or not _VERSION.fullmatch(text) or not self.is_attribute(attribute, bound):
                continue
            if node.function == operators.NOT_EQUALS:
                effect = "is always true where the attribute is a version"
            elif attribute is left:
                effect = "fails the pod's allocation where the attribute is a version (no such overload)"
            else:
                effect = "is always false where the attribute is a version"
            operator = node.function.strip("_")
            self.warn(
                "version-compared-with-text",
                node.offset,
                f'{operator} "{text}" {effect}',
                f'compare versions: .compareTo(semver("{text.removeprefix("v")}")) {operator} 0',
            )

    def membership(self, node: Call, bound: Mapping[str, _Path]) -> None:
        element, collection = node.args
        if type(collection) is not ListExpr or not self.is_attribute(element, bound):
            return
        texts = [text for text in map(_text, collection.elements) if text is not None and _VERSION.fullmatch(text)]
        if texts:
            self.warn(
                "version-in-text-list",
                node.offset,
                "fails the pod's allocation where the attribute is a version: a list of texts has no versions",
                f'compare versions: ["{texts[0]}", ...].exists(v, ... .compareTo(semver(v)) == 0)',
            )


def _text(node: Expr) -> str | None:
    return node.value if type(node) is Literal and isinstance(node.value, str) else None


def _path(node: Expr, bound: Mapping[str, _Path]) -> _Path | None:
    """The path an expression leads along, when it is names from `device` on."""
    match node:
        case Ident(name=name):
            return () if name == "device" and name not in bound else bound.get(name)
        case Select():
            operand = _path(node.operand, bound)
            return None if operand is None or node.test_only else (*operand, node.field)
        case Call() if node.function == operators.INDEX:
            operand = _path(node.args[0], bound)
            return None if operand is None else (*operand, _text(node.args[1]))
        case _:
            return None


def _facts(node: Expr, bound: Mapping[str, _Path], *, positive: bool) -> _Facts:
    """What is known to be there when a condition is true, or with `positive` False, when it is false."""
    if type(node) is Select and node.test_only and positive:
        path = _path(node.operand, bound)
        return frozenset() if path is None else frozenset(((*path, node.field),))
    if type(node) is not Call:
        return frozenset()
    if node.function == operators.LOGICAL_NOT:
        return _facts(node.args[0], bound, positive=not positive)
    if node.function == (operators.LOGICAL_AND if positive else operators.LOGICAL_OR):
        return frozenset(fact for arg in node.args for fact in _facts(arg, bound, positive=positive))
    if not positive:
        return frozenset()
    return _facts_of_call(node, bound)


def _facts_of_call(node: Call, bound: Mapping[str, _Path]) -> _Facts:
    if node.function == operators.IN:
        path = _path(node.args[1], bound)
        name = _text(node.args[0])
        return frozenset() if path is None or name is None else frozenset(((*path, name),))
    if node.function == "hasValue" and type(node.target) is Call:
        if node.target.function in (operators.OPTIONAL_SELECT, operators.OPTIONAL_INDEX):
            path = _path(node.target.args[0], bound)
            name = _text(node.target.args[1])
            return frozenset() if path is None or name is None else frozenset(((*path, name),))
    elif node.function == operators.EQUALS:
        for side, other in (node.args, node.args[::-1]):
            driver = _text(other)
            if driver is not None and _path(side, bound) == (_DRIVER,):
                return frozenset(((_DRIVER, driver),))
    return frozenset()
