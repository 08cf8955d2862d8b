"""Units of the cost estimate: saturating arithmetic, declared sizes of `device`, operands of calls.

Rules of this module
  1. All arithmetic is unsigned, 64 bits, and saturates: `MAXIMUM` means "unknown".
  2. Factors are floats and multiply in double precision, rounding up, because cel-go does.
  3. A `Path` behaves like a Go slice, shared backing array included: in a two-variable comprehension
     cel-go appends "@keys" and "@values" to the same slice, and the second overwrites the first. The
     estimate depends on it.

Source: cel-go v0.26.0 and v0.29.2, checker/cost.go; k8s.io/dynamic-resource-allocation v0.36.3 cel/compile.go
(`sizeEstimator`).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from msgspec import Struct

from cel.checker.declarations import Type
from cel.parser.syntax import Expr

MAXIMUM: Final = (1 << 64) - 1

STRING_FACTOR: Final = 0.1
"""Cost of passing over one character."""
REGEX_FACTOR: Final = 0.25
"""Cost of one character of a pattern, for each unit of text."""
LIST_BASE: Final = 10
MAP_BASE: Final = 30
STRUCT_BASE: Final = 40


class CostEstimate(NamedTuple):
    """Bounds of what an evaluation can cost."""

    min: int
    max: int


class Size(NamedTuple):
    """Bounds of a length: characters, bytes or entries; 1 for scalars."""

    min: int
    max: int


UNKNOWN: Final = Size(0, MAXIMUM)
ZERO: Final = CostEstimate(0, 0)
ONE: Final = CostEstimate(1, 1)


def saturate(number: int) -> int:
    return min(number, MAXIMUM)


def plus(left: CostEstimate, right: CostEstimate) -> CostEstimate:
    return CostEstimate(saturate(left[0] + right[0]), saturate(left[1] + right[1]))


def times(left: tuple[int, int], right: tuple[int, int]) -> CostEstimate:
    return CostEstimate(saturate(left[0] * right[0]), saturate(left[1] * right[1]))


def _scale_one(number: int, factor: float) -> int:
    product = float(number) * factor
    if number > 0 and factor > 0 and float(number) > MAXIMUM / factor:
        return MAXIMUM
    product = math.ceil(product)
    return MAXIMUM if product >= 1 << 64 else int(product)


def scaled(size: tuple[int, int], factor: float) -> CostEstimate:
    return CostEstimate(_scale_one(size[0], factor), _scale_one(size[1], factor))


def sum_sizes(left: Size, right: Size) -> Size:
    return Size(saturate(left.min + right.min), saturate(left.max + right.max))


def union(left: Size, right: Size) -> Size:
    return Size(min(left.min, right.min), max(left.max, right.max))


class _Declared(Struct):
    """Declared largest size of a part of `device`, and of its parts."""

    size: int
    key: _Declared | None = None
    element: _Declared | None = None
    fields: dict[str, _Declared] = {}


# ResourceSliceMaxAttributesAndCapacitiesPerDevice, DeviceMaxDomainLength, DeviceMaxIDLength,
# DeviceAttributeMaxValueLength, DriverNameMaxLength of resource.k8s.io/v1.
_ATTRIBUTE: Final = _Declared(64)
_DOMAIN: Final = _Declared(63)
_ID: Final = _Declared(32)
_DEVICE: Final = _Declared(
    0,
    fields={
        "driver": _Declared(63),
        "allowMultipleAllocations": _Declared(1),
        "attributes": _Declared(32, _DOMAIN, _Declared(32, _ID, _ATTRIBUTE)),
        "capacity": _Declared(32, _DOMAIN, _Declared(32, _ID, _Declared(0))),
    },
)


class Path(Struct, eq=False):
    """Where a value comes from, as names from the variable on: a Go slice of strings, `backing` its capacity."""

    backing: list[str]
    length: int

    def append(self, name: str) -> Path:
        """Go's `append`: writes into spare capacity, which other slices may share, or reallocates."""
        length = self.length
        backing = self.backing
        if length < len(backing):
            backing[length] = name
        else:
            # Capacities 1, 2, 4, 8, ...: doubling, for elements of two words.
            backing = [*backing, name, *[""] * (length - 1)]
        return Path(backing, length + 1)

    def names(self) -> list[str]:
        return self.backing[: self.length]


NO_PATH: Final = Path([], 0)


def declared_size(path: Path) -> Size | None:
    """The size Kubernetes declares for what a path leads to; None when it declares none."""
    names = path.names()
    if not names or names[0] != "device":
        return None
    current = _DEVICE
    for name in names[1:]:
        following: _Declared | None
        if name in ("@items", "@values"):
            following = current.element
        elif name == "@keys":
            following = current.key
        else:
            following = current.fields.get(name)
            # Attributes have one size, whatever their names; capacities have names nobody declared.
            if following is None and current.element is _ATTRIBUTE:
                following = _ATTRIBUTE
        if following is None:
            return None
        current = following
    return Size(0, current.size)


class CallCost(NamedTuple):
    """What a function's formula says: its own cost without that of its arguments, and its result's size."""

    cost: CostEstimate
    size: Size | None = None


class Operand(NamedTuple):
    """A call's receiver or argument."""

    expr: Expr
    type: Type
    path: Path
    size: Size | None

    def known_size(self) -> Size:
        return UNKNOWN if self.size is None else self.size
