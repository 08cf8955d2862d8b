"""CEL values: equality, order and the types Python lacks.

    CEL      Python                       CEL                Python
    null     None                         timestamp          Timestamp (nanoseconds, zone offset)
    bool     bool                         duration           Duration (nanoseconds)
    int      int (not bool, not UInt)     optional           Optional, NONE
    uint     UInt                         type               TypeValue
    double   float                        Quantity, Semver   cel.quantity, cel.semver
    string   str                          IP, CIDR, URL      `network`, `urls`
    bytes    bytes                        format             cel.formats
    list     list                         map                dict (all keys str) or Map

Rules of this module
  1. Values are distinguished by class, never by `isinstance` or truth: in Python `True == 1` and `UInt`
     is an int; in CEL a bool is no number and 1, 1u, 1.0 are equal but three types.
  2. An operation gives a value or raises `EvaluationError` with cel-go's text.
  3. Nobody changes a list or a map after it was made.

Source: cel-go v0.26.0 and v0.29.2, common/types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn

from msgspec import Struct

from cel import operators
from cel.errors import EvaluationError
from cel.gotext import format_double
from cel.integers import INT_MAX, INT_MIN, UINT_MAX, UInt
from cel.quantity import Quantity
from cel.semver import Semver

EFFORT_LIMIT: Final = 375_000
"""What one evaluation may take, in units of about 40 ns: 15 ms; see `spend`."""
COST_EXCEEDED: Final = "operation cancelled: actual cost limit exceeded"
"""kube-scheduler's text at its limit."""
LIMIT_EXCEEDED: Final = f"{COST_EXCEEDED} (this scheduler's, which is lower than kube-scheduler's)"
PATTERN_BYTES: Final = 65_536
"""What a compiled pattern holds at most, with all that it remembers of texts."""
LENGTH_MAX: Final = 5_000_000
"""Characters of a text, or five times the elements of a list; more ends the evaluation as the cost limit does."""

MIN_UNIX_SECONDS: Final = -62135596800
MAX_UNIX_SECONDS: Final = 253402300799


class AbortedError(Exception):
    """Ends the whole evaluation: the cost limit, and what makes cel-go panic.

    It is no `EvaluationError`, which `||`, `&&`, `exists` and `all` absorb; it becomes one when the evaluation ends.
    """


def check_length(length: int) -> None:
    """End the evaluation before a text of this length is built."""
    if length > LENGTH_MAX:
        raise AbortedError(LIMIT_EXCEEDED)


EFFORT: Final = [0]
"""The effort of this evaluation so far (one entry); see `spend`."""


def spend(effort: int) -> None:
    """Count work in an evaluation: parsing, printing, copying, comparing, patterns, by sizes.

    A unit is about 40 ns. More than `EFFORT_LIMIT`, together with what the steps of the evaluator take
    (`evaluator.effort`), ends the evaluation as the cost limit does. What is spent depends on calls and sizes alone,
    never on what is remembered or which evaluator runs. An evaluation begins with nothing spent (`begin`); generated
    code that runs into the limit leaves the answer to the exact evaluator, as always.

    No function spends less than 3/8 of what it costs in CEL, so what exceeds kube-scheduler's limit exceeds ours.
    """
    EFFORT[0] += effort
    if EFFORT[0] > EFFORT_LIMIT:
        raise AbortedError(LIMIT_EXCEEDED)


WORK: Final = [0]
"""Effort of all exact evaluations there were (one entry); see `work`."""


def begin() -> None:
    """Begin an evaluation."""
    EFFORT[0] = 0


class Optional(Struct, frozen=True, eq=False):
    """`optional.of(value)`; the one without a value is `NONE`."""

    value: Any
    has_value: bool = True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Optional):
            return NotImplemented
        return self.has_value == other.has_value and (not self.has_value or equal(self.value, other.value))

    __hash__ = object.__hash__


NONE: Final = Optional(None, has_value=False)


class TypeValue(Struct, frozen=True):
    """A type as a value: what `type(x)` gives and what `int`, `list`, ... stand for."""

    name: str


class Duration(Struct, frozen=True):
    """A signed span of `nanos` nanoseconds, int64."""

    nanos: int


class Timestamp(Struct, frozen=True, eq=False):
    """An instant, `nanos` since 1970, and the offset (seconds east of UTC) it was written with.

    The offset shows only in `string(t)`; years 1..9999.
    """

    nanos: int
    offset: int = 0

    def __eq__(self, other: object) -> bool:
        return self.nanos == other.nanos if isinstance(other, Timestamp) else NotImplemented

    def __hash__(self) -> int:
        return hash(("timestamp", self.nanos))


class ComputedQuantity(Quantity):
    """What `add` and `sub` give: equal to nothing when it stands on the right of `==`.

    cel-go gets a pointer here where its comparison expects the value, in every released version.
    """

    __slots__ = ()


class DefaultMap(dict[str, Any]):
    """`device.attributes` and `device.capacity`: an unknown domain is an empty map, yet not `in` it."""

    __slots__ = ()

    def __missing__(self, key: str) -> dict[str, Any]:
        return EMPTY_MAP


EMPTY_MAP: Final[dict[str, Any]] = {}


class PartlyRead(dict[str, Any]):
    """A domain's attributes without those in `hidden`, whose values nobody can read: to ask for one is an error."""

    __slots__ = ("hidden",)

    def __init__(self, read: Mapping[str, Any]) -> None:
        super().__init__(read)
        self.hidden: Final[set[str]] = set()

    def __missing__(self, key: str) -> Any:
        self._check(key)
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:  # `has(...)`; what `in` says does not come here
        self._check(key)
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._check(key)
        return super().get(key, default)

    def _check(self, key: object) -> None:
        if key in self.hidden:
            raise EvaluationError(f"attribute {key}: value is invalid or its type is not supported by this version")


class Map:
    """A map whose keys are not all strings; 1, 1u, 1.0 and true are four keys, as in cel-go."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[tuple[Any, Any]] = ()) -> None:
        self._entries: Final[dict[tuple[type, Any], tuple[Any, Any]]] = {}
        for key, value in entries:
            self._entries[key.__class__, hashable_key(key)] = (key, value)

    def get(self, key: Any, default: Any = None) -> Any:
        """The value under exactly this key (same type)."""
        return self._entries.get((key.__class__, hashable_key(key)), (None, default))[1]

    def put(self, key: Any, value: Any) -> None:
        """Add an entry, while the map is being built."""
        self._entries[key.__class__, hashable_key(key)] = (key, value)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self._entries.values())

    def items(self) -> Iterable[tuple[Any, Any]]:
        return self._entries.values()

    def __repr__(self) -> str:
        return "Map({" + ", ".join(f"{key!r}: {value!r}" for key, value in self.items()) + "})"


MISSING: Final = object()

_NAMES: Final[dict[type, tuple[str, str]]] = {
    bool: ("bool", "types.Bool"),
    int: ("int", "types.Int"),
    UInt: ("uint", "types.Uint"),
    float: ("double", "types.Double"),
    str: ("string", "types.String"),
    bytes: ("bytes", "types.Bytes"),
    list: ("list", "*types.baseList"),
    dict: ("map", "*types.baseMap"),
    DefaultMap: ("map", "cel.mapper"),
    PartlyRead: ("map", "cel.mapper"),
    Map: ("map", "*types.baseMap"),
    type(None): ("null_type", "types.Null"),
    TypeValue: ("type", "*types.Type"),
    Optional: ("optional_type", "*types.Optional"),
    Timestamp: ("google.protobuf.Timestamp", "types.Timestamp"),
    Duration: ("google.protobuf.Duration", "types.Duration"),
    Quantity: ("kubernetes.Quantity", "cel.Quantity"),
    ComputedQuantity: ("kubernetes.Quantity", "*cel.Quantity"),
    Semver: ("kubernetes.Semver", "cel.Semver"),
}
"""The run-time type's name, and the Go type cel-go keeps the value in; other classes say both themselves."""

MAP_CLASSES: Final[frozenset[Any]] = frozenset({dict, DefaultMap, Map, PartlyRead})
_UNHASHABLE: Final = frozenset({bytes, Semver})


def type_name(value: Any) -> str:
    """The run-time type's name, without parameters: `list`, `kubernetes.Quantity`."""
    names = _NAMES.get(value.__class__)
    return names[0] if names is not None else value.CEL_TYPE


def go_type(value: Any) -> str:
    """The Go type cel-go keeps the value in; some of its error texts show it."""
    names = _NAMES.get(value.__class__)
    return names[1] if names is not None else value.GO_TYPE


def no_such_overload(function: str = "", arguments: Iterable[Any] = ()) -> NoReturn:
    """Raise cel-go's error for arguments that no overload takes."""
    if function:
        raise EvaluationError(f"no such overload: {function}({', '.join(map(type_name, arguments))})")
    raise EvaluationError("no such overload")


def succeeds(function: Callable[..., Any]) -> Callable[..., bool]:
    """Whether `function` has a value for its arguments: `isIP` of `ip`."""

    def has_value(*arguments: Any) -> bool:
        try:
            function(*arguments)
        except EvaluationError:
            return False
        return True

    return has_value


def hashable_key(key: Any) -> Any:
    """The Python key that stands for a CEL key in maps and sets; fails where a Go map would panic."""
    cls = key.__class__
    if cls in _UNHASHABLE or getattr(cls, "GO_TYPE", "") == "cel.Format":
        raise AbortedError(f"internal error: runtime error: hash of unhashable type {go_type(key)}")
    return id(key) if cls is list or cls in MAP_CLASSES else key


# --- equality and order


def equal(left: Any, right: Any) -> bool:
    """`left == right`.

    Raises:
        EvaluationError: "no such overload", when a Quantity, Semver, URL, IP, CIDR or format on the
            left meets another type on the right.
    """
    cls = left.__class__
    if cls is right.__class__ and cls in _PLAIN:
        if (cls is str or cls is bytes) and len(left) >= _LONG:
            spend(min(len(left), len(right)) // 16)
        return left == right  # type: ignore[no-any-return]
    if left is None or right is None:
        return left is right
    compare = _EQUAL.get(cls)
    return compare(left, right) if compare is not None else left.cel_equal(right)  # type: ignore[no-any-return]


def equal_or_false(left: Any, right: Any) -> bool:
    """`left == right` where cel-go counts an error as "not equal": `in`, `includes`, `distinct`, sets."""
    try:
        return equal(left, right)
    except EvaluationError:
        return False


def not_equal(left: Any, right: Any) -> bool:
    """`left != right`, which is true of values that cannot be compared."""
    try:
        return not equal(left, right)
    except EvaluationError:
        return True


def _not_false(left: Any, right: Any) -> bool:
    """Whether elements of lists and maps count as equal: to cel-go all do whose comparison does not give false."""
    try:
        return equal(left, right)
    except EvaluationError:
        return True


def _same_class(left: Any, right: Any) -> bool:
    return left.__class__ is right.__class__ and left == right


def _same_opaque(left: Any, right: Any) -> bool:
    spend(15)
    return left.__class__ is right.__class__ and left == right


def _equal_numbers(left: Any, right: Any) -> bool:
    cls = right.__class__
    if cls is float or left.__class__ is float:
        # cel-go compares as doubles, so a rounded int equals its neighbour.
        return (cls is float or cls is int or cls is UInt) and float(left) == float(right)
    return (cls is int or cls is UInt) and left == right


def _equal_lists(left: list[Any], right: Any) -> bool:
    spend(12)
    if right.__class__ is not list or len(left) != len(right):
        return False
    if len(left) > _FEW:
        cls = common_class(left)
        if cls is not None and cls is common_class(right):
            spend(len(left) + (sum(map(len, left)) // 256 if cls is str or cls is bytes else 0))
            return left == right
    spend(8 + 8 * len(left))
    return all(map(_not_false, left, right))


_FEW: Final = 8
_LONG: Final = 64


def common_class(elements: list[Any]) -> type | None:
    """The class of all elements, if it is one whose values Python compares as CEL does."""
    classes = {*map(type, elements)}
    cls = classes.pop() if len(classes) == 1 else None
    return cls if cls is str or cls is int or cls is bytes or cls is bool else None


def _equal_maps(left: Any, right: Any) -> bool:
    spend(20)
    if right.__class__ not in MAP_CLASSES or len(left) != len(right):
        return False
    spend(12 * len(left) + 30 * len(left) * (left.__class__ is Map))
    for key, value in left.items():
        other = map_find(right, key)
        if other is MISSING or not _not_false(value, other):
            return False
    return True


def _equal_optionals(left: Optional, right: Any) -> bool:
    spend(30)
    return right.__class__ is Optional and left == right


def _equal_quantities(left: Quantity, right: Any) -> bool:
    if right.__class__ is not Quantity:
        no_such_overload()
    spend(15)
    return left.nano == right.nano


def _equal_semvers(left: Semver, right: Any) -> bool:
    if right.__class__ is not Semver:
        no_such_overload()
    spend(15 + min(len(left.key), len(right.key)) // 4)
    return left.key == right.key


_PLAIN: Final = frozenset({bool, int, UInt, float, str, bytes})

_EQUAL: Final[dict[type, Any]] = {
    bool: _same_class,
    str: _same_class,
    bytes: _same_class,
    int: _equal_numbers,
    UInt: _equal_numbers,
    float: _equal_numbers,
    list: _equal_lists,
    dict: _equal_maps,
    DefaultMap: _equal_maps,
    PartlyRead: _equal_maps,
    Map: _equal_maps,
    TypeValue: _same_opaque,
    Optional: _equal_optionals,
    Timestamp: _same_opaque,
    Duration: _same_opaque,
    Quantity: _equal_quantities,
    ComputedQuantity: _equal_quantities,
    Semver: _equal_semvers,
}

NUMBERS: Final[frozenset[Any]] = frozenset({int, UInt, float})
_COMPARABLE: Final[frozenset[Any]] = frozenset({bool, int, UInt, float, str, bytes, Timestamp, Duration})
_RECEIVERS: Final = frozenset({str, Timestamp, Duration})


def compare(left: Any, right: Any) -> int:
    """-1, 0 or 1.

    Raises:
        EvaluationError: "no such overload" or "NaN values cannot be ordered".
    """
    cls = left.__class__
    other = right.__class__
    if cls is not int or other is not int:
        spend(14)
    if cls in NUMBERS and other in NUMBERS:
        if cls is float or other is float:
            left, right = float(left), float(right)
            if left != left or right != right:  # noqa: PLR0124 - NaN is the value unequal to itself
                raise EvaluationError("NaN values cannot be ordered")
        order: int = (left > right) - (left < right)
        return order
    if cls is float and left != left:  # noqa: PLR0124
        raise EvaluationError("NaN values cannot be ordered")
    if cls is not other or cls not in _COMPARABLE:
        no_such_overload()
    if cls is Timestamp or cls is Duration:
        left, right = left.nanos, right.nanos
    elif cls is str or cls is bytes:
        spend(min(len(left), len(right)) // 16)
    # Go orders strings by their UTF-8 bytes, which is the order of code points, as Python's.
    order = (left > right) - (left < right)
    return order


def is_comparable(value: Any) -> bool:
    """Whether the type has an order."""
    return value.__class__ in _COMPARABLE


def operand_error(function: str, value: Any) -> NoReturn:
    """cel-go's error for a first operand whose type lacks the operation."""
    spend(15)
    if value.__class__ in _RECEIVERS:
        no_such_overload()
    raise EvaluationError(f"no such overload: {function}")


def _ordering(function: str, *orders: int) -> Callable[[Any, Any], bool]:
    """The operator that holds for these answers of `compare`."""

    def holds(left: Any, right: Any) -> bool:
        if left.__class__ not in _COMPARABLE:
            operand_error(function, left)
        return compare(left, right) in orders

    return holds


less: Final = _ordering(operators.LESS, -1)
less_equals: Final = _ordering(operators.LESS_EQUALS, -1, 0)
greater: Final = _ordering(operators.GREATER, 1)
greater_equals: Final = _ordering(operators.GREATER_EQUALS, 1, 0)


# --- collections


def size(value: Any) -> int:
    """Code points, bytes, elements or entries."""
    cls = value.__class__
    if cls is str or cls is list or cls is bytes or cls in MAP_CLASSES:
        return len(value)
    operand_error("size", value)


def make_map(entries: Mapping[str, Any] | Iterable[tuple[Any, Any]]) -> dict[str, Any] | Map:
    """A map of these entries; of equal keys the last one stays."""
    pairs = [*entries.items()] if isinstance(entries, Mapping) else [*entries]
    if all(key.__class__ is str for key, _ in pairs):
        return dict(pairs)
    return Map(pairs)


def map_find(mapping: Any, key: Any) -> Any:
    """The value under `key` or MISSING; numbers of different types find each other."""
    cls = key.__class__
    if mapping.__class__ is not Map:
        if cls is str:
            found = mapping.get(key, MISSING)
        else:
            found = MISSING
            if mapping and mapping.__class__ is not DefaultMap:
                hashable_key(key)
        return EMPTY_MAP if found is MISSING and mapping.__class__ is DefaultMap else found
    if not len(mapping):
        return MISSING
    found = mapping.get(key, MISSING)
    if found is not MISSING or cls not in NUMBERS:
        return found
    number = key
    if cls is float:
        if not key.is_integer():
            return MISSING
        number = int(key)
        if INT_MIN < number < 2**63:
            found = mapping.get(number, MISSING)
            if found is not MISSING:
                return found
    if cls is not UInt:
        return mapping.get(UInt(number), MISSING) if 0 <= number <= UINT_MAX else MISSING
    return mapping.get(int(number), MISSING) if number <= INT_MAX else MISSING


def contains(element: Any, collection: Any) -> bool:
    """`element in collection`."""
    cls = collection.__class__
    if cls is list:
        if len(collection) > _FEW and common_class(collection) is element.__class__:
            spend(len(collection) // 4 + (len(element) * len(collection) // 512 if element.__class__ is str else 0))
            return element in collection
        spend(15 + 6 * len(collection))
        if element.__class__ is str:
            return any(other.__class__ is str and other == element for other in collection)
        return any(equal_or_false(element, other) for other in collection)
    if cls is DefaultMap or cls is PartlyRead:
        return element.__class__ is str and dict.__contains__(collection, element)
    if cls in MAP_CLASSES:
        return map_find(collection, element) is not MISSING
    no_such_overload()


def list_index(index: Any) -> int:
    """The position an index value means; negative ones are "out of bounds" to the caller.

    Raises:
        EvaluationError: for anything but an int, uint or integral double.
    """
    cls = index.__class__
    if cls is int:
        return index  # type: ignore[no-any-return]
    if cls is UInt and index <= INT_MAX:
        return int(index)
    if cls is float and index.is_integer() and INT_MIN < index < 2**63:
        return int(index)
    if cls is float or cls is UInt:
        raise EvaluationError(f"unsupported index value {to_text(index)} in list")
    raise EvaluationError(f"unsupported index type '{type_name(index)}' in list")


def is_zero(value: Any) -> bool:
    """What `optional.ofNonZeroValue` counts as zero; types without that notion are never zero."""
    cls = value.__class__
    if cls is list or cls is str or cls is bytes or cls in MAP_CLASSES:
        return not len(value)
    if cls is Duration:
        return value.nanos == 0  # type: ignore[no-any-return]
    if cls is Timestamp:
        # Go's zero time is the first instant of year 1.
        return value.nanos == MIN_UNIX_SECONDS * 10**9  # type: ignore[no-any-return]
    return value is None or value is False or (cls in NUMBERS and value == 0)


def to_text(value: Any) -> str:
    """A key, an index or an element as Go's `%v` prints it in an error."""
    cls = value.__class__
    if cls is str:
        return value  # type: ignore[no-any-return]
    if cls is bool:
        return "true" if value else "false"
    if cls is float:
        return format_double(value)
    if cls is list:
        spend(12 + 6 * len(value))
        return "[" + ", ".join(map(to_text, value)) + "]"
    if cls in MAP_CLASSES:
        spend(5 + 10 * len(value))
        return "{" + ", ".join(f"{to_text(key)}: {to_text(element)}" for key, element in value.items()) + "}"
    if cls is TypeValue:
        return value.name  # type: ignore[no-any-return]
    if cls is Optional:
        return f"optional({to_text(value.value)})" if value.has_value else "optional.none()"
    return "null" if value is None else str(value)
