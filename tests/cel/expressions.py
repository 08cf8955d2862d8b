"""Generates CEL expressions from the grammar and the table of overloads, for comparing implementations.

`Generator` asks a callable for every choice, so that hypothesis (which can shrink what it chose) and a
plain random number generator drive the same code. Expressions are meant to type-check most of the time:
values are made for the type a place wants, now and then with `dyn` around them or of another type.

What no two implementations can agree on is left out: what depends on the order of a map (ranges are maps
of one entry at most), and sizes without bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from cel.checker.declarations import (
    BOOL,
    BYTES,
    CIDR,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    IP,
    LIST_KIND,
    MAP_KIND,
    NAMED_FORMAT,
    NULL,
    OVERLOADS,
    PARAM_KIND,
    QUANTITY,
    SEMVER,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    URL,
    Overload,
    Type,
    is_optional,
    list_of,
    map_of,
    optional_of,
    parse_overload,
)

Choose = Callable[[int], int]
"""A number below its argument."""

_T = TypeVar("_T")

DEVICES: Final[Sequence[dict[str, Any]]] = (
    {
        "driver": "gpu.example.com",
        "attributes": {
            "model": {"string": "A100"},
            "version": {"version": "1.2.3-rc.1+b7"},
            "index": {"int": 2},
            "healthy": {"bool": True},
            "other.example.com/name": {"string": "fish"},
        },
        "capacity": {"memory": "80Gi", "milli": "1500m", "other.example.com/slots": "7"},
    },
    {
        "driver": "nic.example.com",
        "attributes": {"index": {"int": -1}},
        "capacity": {},
        "allowMultipleAllocations": True,
    },
    {"driver": "", "attributes": {}, "capacity": {}},
    {
        "driver": "gpu.example.com",
        "attributes": {
            "model": {"strings": ["A100", "H100"]},
            "ints": {"ints": [3, 1, 2]},
            "texts": {"strings": ["b", "a", "a"]},
            "version": {"versions": ["1.2.3", "2.0.0"]},
            "index": {"ints": []},
            "healthy": {"bools": [True, False]},
        },
        "capacity": {"memory": "1.5Gi"},
    },
)

_SCALARS: Final = (BOOL, INT, UINT, DOUBLE, STRING, BYTES, TIMESTAMP, DURATION)
_KEYS: Final = (BOOL, INT, UINT, STRING)
_OBJECTS: Final = (QUANTITY, SEMVER, URL, IP, CIDR, NAMED_FORMAT)
_LITERALS: Final[dict[Type, tuple[str, ...]]] = {
    BOOL: ("true", "false"),
    INT: ("0", "1", "2", "-1", "3", "7", "64", "1000", "9223372036854775807", "-9223372036854775808", "0x1F"),
    UINT: ("0u", "1u", "2u", "64u", "18446744073709551615u", "0xffu"),
    DOUBLE: (
        "0.0", "1.0", "-1.5", "2.5", "1e30", "1e-7", "9007199254740993.0", "-0.0", 'double("NaN")',
        'double("Infinity")',
    ),
    STRING: (
        '""', '"a"', '"abc"', '"A100"', '"fish"', '"1"', '"-7"', '"1.5"', '"true"', '"1.2.3"', '"v1.2"', '"80Gi"',
        '"1500m"',
        '"10.0.0.1"', '"::1"', '"10.0.0.0/8"', '"fe80::/10"', '"https://user@a.example:81/p/q?x=1&y=2#f"', '"/path"',
        '"2024-02-29T12:30:45Z"', '"2009-02-13T23:31:30.5+01:00"', '"1h30m"', '"-1.5s"', '"a.*b"', '"[a-c]+"',
        '"(a)|b"',
        '"héllo"', '"日本"', '"😀x"', '"a,b,,c"', '" pad "', r'"\n\t\"\\"', "'single'", 'r"\\d+"', '"""multi\nline"""',
    ),
    BYTES: ('b""', 'b"abc"', r'b"\xff\x00"', 'b"é"'),
    TIMESTAMP: (
        'timestamp("2024-02-29T12:30:45Z")', 'timestamp("0001-01-01T00:00:00Z")', "timestamp(0)",
        'timestamp("2009-02-13T23:31:30.123456789Z")',
    ),
    DURATION: ('duration("1h30m")', 'duration("0s")', 'duration("-1.5s")', 'duration("1ns")'),
    QUANTITY: (
        'quantity("80Gi")', 'quantity("1500m")', 'quantity("0")', 'quantity("-1")', 'quantity("1e3")',
        'quantity("16Ei")', 'quantity("0.5")',
    ),
    SEMVER: ('semver("1.2.3")', 'semver("1.2.3-rc.1")', 'semver("0.0.0")', 'semver("v1.2", true)'),
    URL: ('url("https://user@a.example:81/p/q?x=1&y=2#f")', 'url("/path")'),
    IP: ('ip("10.0.0.1")', 'ip("::1")', 'ip("fe80::1")', 'ip("224.0.0.1")'),
    CIDR: ('cidr("10.0.0.0/8")', 'cidr("fe80::/10")', 'cidr("192.168.0.1/24")'),
    NAMED_FORMAT: ("format.dns1123Label()", "format.uuid()", "format.date()", "format.labelValue()"),
    NULL: ("null",),
    TYPE: ("int", "string", "type(1)", "bool", "list", "google.protobuf.Timestamp", "null_type"),
}  # fmt: skip
_DYNAMIC: Final = (
    'device.attributes["gpu.example.com"].model', 'device.attributes["gpu.example.com"].index',
    'device.attributes["gpu.example.com"].version', 'device.attributes["gpu.example.com"]["healthy"]',
    'device.attributes["other.example.com"].name', 'device.attributes["gpu.example.com"].nope',
    'device.attributes[device.driver].index', 'device.attributes["nowhere"].x',
    'device.attributes["gpu.example.com"].ints', 'device.attributes["gpu.example.com"].texts',
    'device.attributes["gpu.example.com"].?model.orValue("x")', 'device.attributes["gpu.example.com"]',
)  # fmt: skip
_INFIX: Final = frozenset(
    ("_+_", "_-_", "_*_", "_/_", "_%_", "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "_&&_", "_||_")
)
_LEFT_OUT: Final = frozenset(
    (
        "cel.@mapInsert", "@not_strictly_false", "__not_strictly_false__", "_in_", "@sortByAssociatedKeys", "check",
        "path", "group", "serviceAccount", "resource", "subresource", "namespace", "name", "errored", "error",
        "allowed", "reason", "fieldSelector", "labelSelector", "lists.range", "includes", "format",
        # Depends on the version: left to the recorded cases.
        "duration",
    )
)  # fmt: skip


def _table() -> list[tuple[str, Overload]]:
    return [
        (name, parse_overload(line))
        for name, lines in OVERLOADS.items()
        if name not in _LEFT_OUT
        for line in lines.splitlines()
    ]


_TABLE: Final = _table()


class Generator:
    """Makes one expression after the other.

    choose: asked for every choice.
    has_device: whether `device` may be used.
    """

    def __init__(self, choose: Choose, *, has_device: bool) -> None:
        self._choose = choose
        self._has_device = has_device
        self._names = 0
        self._scope: list[tuple[str, Type]] = []

    def pick(self, items: Sequence[_T]) -> _T:
        return items[self._choose(len(items))]

    def chance(self, one_in: int) -> bool:
        return self._choose(one_in) == 0

    def any_type(self, depth: int = 2) -> Type:
        choice = self._choose(10 if depth else 6)
        if choice < 6:
            return self.pick(_SCALARS)
        if choice == 6:
            return self.pick(_OBJECTS)
        if choice == 7:
            return list_of(self.any_type(depth - 1))
        if choice == 8:
            return map_of(self.pick(_KEYS), self.any_type(depth - 1))
        return optional_of(self.any_type(depth - 1))

    def expression(self, wanted: Type, depth: int) -> str:
        """Text of an expression of (mostly) this type."""
        if self.chance(24):
            wanted = self.any_type()
        if self._has_device and self.chance(6):
            return self.pick(_DYNAMIC)
        if self.chance(12) and wanted is not DYN and depth > 0:
            return f"dyn({self.expression(wanted, depth - 1)})"
        if wanted is DYN:
            return self.dynamic(depth)
        names = [name for name, type_ in self._scope if type_.is_exact(wanted)]
        if names and self.chance(2):
            return self.pick(names)
        if depth <= 0 or self.chance(5):
            return self.literal(wanted)
        choice = self._choose(8)
        if choice == 0:
            return (
                f"({self.expression(BOOL, depth - 1)} ? {self.expression(wanted, depth - 1)}"
                f" : {self.expression(wanted, depth - 1)})"
            )
        if choice == 1:
            return self.binding(wanted, depth)
        if choice == 2:
            made = self.macro(wanted, depth)
            if made is not None:
                return made
        return self.call(wanted, depth)

    def dynamic(self, depth: int) -> str:
        if self._has_device and self.chance(2):
            return self.pick(_DYNAMIC)
        return f"dyn({self.expression(self.any_type(1), depth - 1)})"

    def literal(self, wanted: Type) -> str:
        known = _LITERALS.get(wanted)
        if known is not None:
            if self._has_device and wanted is QUANTITY and self.chance(3):
                return 'device.capacity["gpu.example.com"].memory'
            if self._has_device and wanted is STRING and self.chance(5):
                return "device.driver"
            return self.pick(known)
        if wanted.kind == LIST_KIND:
            (element,) = wanted.parameters
            return f"[{', '.join(self.expression(element, 0) for _ in range(self._choose(4)))}]"
        if wanted.kind == MAP_KIND:
            key, value = wanted.parameters
            if self.chance(5):
                return "{}"
            return f"{{{self.expression(key, 0)}: {self.expression(value, 0)}}}"
        if is_optional(wanted):
            if self.chance(4):
                return "optional.none()"
            function = self.pick(("optional.of", "optional.of", "optional.ofNonZeroValue"))
            return f"{function}({self.expression(wanted.parameters[0], 0)})"
        return self.dynamic(0)

    def call(self, wanted: Type, depth: int) -> str:
        """A call of an overload whose result can be of this type."""
        fitting = [(name, overload) for name, overload in _TABLE if _fit(overload.result, wanted, {})]
        if (wanted.kind in (LIST_KIND, MAP_KIND) and self.chance(3)) or not fitting:
            return self.literal(wanted)
        name, overload = self.pick(fitting)
        variables: dict[str, Type] = {}
        _fit(overload.result, wanted, variables)
        for parameter in overload.parameters:
            if parameter not in variables:
                variables[parameter] = self.pick(_SCALARS)
        types = [_substitute(argument, variables) for argument in overload.arguments]
        arguments = [self.expression(type_, depth - 1) for type_ in types]
        return self.written(name, overload, arguments)

    def written(self, name: str, overload: Overload, arguments: list[str]) -> str:
        if name in _INFIX:
            return f"({arguments[0]} {name.strip('_')} {arguments[1]})"
        match name:
            case "!_" | "-_":
                return f"{name[0]}({arguments[0]})"
            case "@in":
                return f"({arguments[0]} in {arguments[1]})"
            case "_?_:_":
                return f"({arguments[0]} ? {arguments[1]} : {arguments[2]})"
            case "_[_]":
                return f"{_as_operand(arguments[0])}[{arguments[1]}]"
            case "_[?_]":
                return f"{_as_operand(arguments[0])}[?{arguments[1]}]"
        if overload.is_member:
            return f"{_as_operand(arguments[0])}.{name}({', '.join(arguments[1:])})"
        return f"{name}({', '.join(arguments)})"

    # Macros.

    def name(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def scoped(self, names: Sequence[tuple[str, Type]], wanted: Type, depth: int) -> str:
        self._scope.extend(names)
        text = self.expression(wanted, depth)
        del self._scope[-len(names) :]
        return text

    def binding(self, wanted: Type, depth: int) -> str:
        name, type_ = self.name(), self.any_type(1)
        init = self.expression(type_, depth - 1)
        return f"cel.bind({name}, {init}, {self.scoped([(name, type_)], wanted, depth - 1)})"

    def macro(self, wanted: Type, depth: int) -> str | None:
        if wanted is BOOL:
            return self.quantifier(depth)
        if wanted.kind == LIST_KIND:
            return self.list_macro(wanted, depth)
        if wanted.kind == MAP_KIND:
            return self.map_macro(wanted, depth)
        if is_optional(wanted):
            return self.optional_macro(wanted, depth)
        return None

    def range(self, depth: int) -> tuple[str, Type, Type]:
        """A range with the types of its two variables."""
        value = self.pick(_SCALARS)
        if self.chance(4):
            key = self.pick(_KEYS)
            return f"{{{self.expression(key, 0)}: {self.expression(value, 0)}}}", key, value
        return _as_operand(self.expression(list_of(value), depth - 1)), INT, value

    def quantifier(self, depth: int) -> str:
        if self._has_device and self.chance(4):
            return self.pick(
                (
                    'has(device.attributes["gpu.example.com"].model)',
                    "has(device.attributes.nope)",
                    '"model" in device.attributes["gpu.example.com"]',
                    'device.attributes["gpu.example.com"].?index.hasValue()',
                    'device.capacity["gpu.example.com"][?"memory"].hasValue()',
                    'device.attributes["gpu.example.com"].all(k, k != "")',
                    "device.allowMultipleAllocations",
                )
            )
        text, key, value = self.range(depth)
        function = self.pick(("all", "exists", "exists_one"))
        first, second = self.name(), self.name()
        if self.chance(3):
            body = self.scoped([(first, key), (second, value)], BOOL, depth - 1)
            return f"{text}.{function}({first}, {second}, {body})"
        single = key if text.startswith("{") else value
        return f"{text}.{function}({first}, {self.scoped([(first, single)], BOOL, depth - 1)})"

    def list_macro(self, wanted: Type, depth: int) -> str:
        (element,) = wanted.parameters
        first, second = self.name(), self.name()
        match self._choose(5):
            case 0:
                text = _as_operand(self.expression(wanted, depth - 1))
                return f"{text}.filter({first}, {self.scoped([(first, element)], BOOL, depth - 1)})"
            case 1:
                text = _as_operand(self.expression(wanted, depth - 1))
                key = self.scoped([(first, element)], self.pick((INT, STRING, BOOL, DOUBLE)), depth - 1)
                return f"{text}.sortBy({first}, {key})"
            case 2:
                text, key_type, value = self.range(depth)
                names = [(first, key_type), (second, value)]
                middle = f"{self.scoped(names, BOOL, 0)}, " if self.chance(3) else ""
                return f"{text}.transformList({first}, {second}, {middle}{self.scoped(names, element, depth - 1)})"
            case _:
                text, key_type, value = self.range(depth)
                single = key_type if text.startswith("{") else value
                names = [(first, single)]
                middle = f"{self.scoped(names, BOOL, 0)}, " if self.chance(3) else ""
                return f"{text}.map({first}, {middle}{self.scoped(names, element, depth - 1)})"

    def map_macro(self, wanted: Type, depth: int) -> str:
        key, value = wanted.parameters
        first, second = self.name(), self.name()
        text = f"{{{self.expression(key, 0)}: {self.expression(value, 0)}}}"
        names = [(first, key), (second, value)]
        if self.chance(2):
            return f"{text}.transformMap({first}, {second}, {self.scoped(names, value, depth - 1)})"
        entry = f"{{{self.scoped(names, key, 0)}: {self.scoped(names, value, depth - 1)}}}"
        return f"{text}.transformMapEntry({first}, {second}, {entry})"

    def optional_macro(self, wanted: Type, depth: int) -> str:
        (inner,) = wanted.parameters
        source = self.pick(_SCALARS)
        text = self.literal(optional_of(source))
        name = self.name()
        if self.chance(2):
            return f"{text}.optMap({name}, {self.scoped([(name, source)], inner, depth - 1)})"
        return f"{text}.optFlatMap({name}, {self.scoped([(name, source)], wanted, depth - 1)})"


def _as_operand(text: str) -> str:
    """In parentheses where a `.` or `[` after it would take only the end of it."""
    return f"({text})" if text[:1] in "-!" or text[:1].isdigit() else text


def _fit(pattern: Type, wanted: Type, variables: dict[str, Type]) -> bool:
    """Whether a result type can be the wanted type, with what its parameters then stand for."""
    if pattern.kind == PARAM_KIND:
        known = variables.setdefault(pattern.name, wanted)
        return known.is_exact(wanted)
    if pattern.kind != wanted.kind or pattern.name != wanted.name:
        return False
    if len(pattern.parameters) != len(wanted.parameters):
        return not wanted.parameters or wanted is TYPE
    return all(_fit(part, other, variables) for part, other in zip(pattern.parameters, wanted.parameters, strict=True))


def _substitute(type_: Type, variables: dict[str, Type]) -> Type:
    if type_.kind == PARAM_KIND:
        return variables[type_.name]
    if type_.is_ground:
        return type_
    return Type(type_.kind, type_.name, tuple(_substitute(parameter, variables) for parameter in type_.parameters))
