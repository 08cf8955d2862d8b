"""What an expression may use, by Kubernetes version.

An API server of 1.x accepts a *new* expression only when the release before understood it too, plus what
a feature gate adds; a scheduler of 1.x evaluates *stored* expressions with everything its binary knows,
whatever the gates say. Both environments of each supported version are built here, on demand.

| since | what |
|---|---|
| 1.34 | lists library (`slice`, `flatten`, `distinct`, `sort`, `lists.range`, ...), `device.allowMultipleAllocations` |
| 1.36 | `includes`, attributes that are lists (gate ListTypeAttributes) |
| 1.37 | cel-go 0.29: back-quoted fields, `.name` looks past local variables; no `duration(int)` |
| 1.38 | `isMask` of CIDR blocks; names that are not there are told without their container |

Everything older is in all of them.

Source: k8s.io/apiserver pkg/cel/environment/base.go, k8s.io/dynamic-resource-allocation cel/compile.go at
v0.36.3 and v0.37.2.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal

from cel.checker.declarations import (
    ANY,
    BOOL,
    DEVICE,
    DYN,
    INT,
    LIST_KIND,
    OVERLOADS,
    QUANTITY,
    SEMVER,
    STRING,
    TYPE_IDENTIFIERS,
    VALUELESS_TYPES,
    Overload,
    Type,
    map_of,
    parse_overload,
    type_of,
)
from cel.parser import macros
from cel.parser.frontend import ParseOptions

Kind = Literal["stored", "new"]

OLDEST_MINOR: Final = 34
NEWEST_MINOR: Final = 37
_BETA_MINOR: Final = NEWEST_MINOR + 1
DEFAULT_VERSION: Final = f"1.{NEWEST_MINOR}"

_LISTS_FUNCTIONS: Final = frozenset(
    ("distinct", "flatten", "lists.range", "reverse", "slice", "sort", macros.SORT_BY_KEYS)
)
"""What cel-go's lists library adds (Kubernetes 1.34)."""

DEVICE_VARIABLE: Final = "device"
_CAPACITY: Final = map_of(STRING, map_of(STRING, QUANTITY))


class Environment:
    """Names, signatures and syntax one Kubernetes version knows; immutable, obtained from `get`.

    minor: the `x` of Kubernetes 1.x.
    kind: "stored" (what a scheduler evaluates) or "new" (what an API server accepts).
    attribute_type: the type of attribute values, `any` or `dyn`.
    device_fields: fields of `device` with their types.
    is_list_attributes_enabled: the gate, which 1.36 schedulers ask also when they read devices.
    """

    __slots__ = (
        "_functions",
        "attribute_type",
        "device_fields",
        "has_consumable_capacity",
        "is_list_attributes_enabled",
        "kind",
        "minor",
        "parse_options",
        "resolutions",
    )

    def __init__(self, minor: int, kind: Kind, *, consumable_capacity: bool, list_type_attributes: bool) -> None:
        self.minor: Final = minor
        self.kind: Final[Kind] = kind
        # The gate came in 1.36; older binaries do not know it.
        self.is_list_attributes_enabled: Final = list_type_attributes and minor >= 36
        self.has_consumable_capacity: Final = consumable_capacity or kind == "stored"
        is_dynamic = self.is_list_attributes_enabled or (kind == "stored" and minor >= 37)
        self.attribute_type: Final = DYN if is_dynamic else ANY
        fields = {
            "driver": STRING,
            "attributes": map_of(STRING, map_of(STRING, self.attribute_type)),
            "capacity": _CAPACITY,
        }
        if self.has_consumable_capacity:
            fields["allowMultipleAllocations"] = BOOL
        self.device_fields: Final = fields
        expanders = {**macros.STANDARD, **macros.OPTIONAL, **macros.BINDINGS, **macros.TWO_VARIABLES}
        if self.has_lists_library:
            expanders |= macros.LISTS
        self.parse_options: Final = ParseOptions(expanders, escaped_identifiers=minor >= 37)
        # The checker's memory: (function, is member, argument types) -> (overloads, result type, variables
        # used), for arguments of simple types. Bounded by the function table.
        self.resolutions: Final[dict[tuple[object, ...], tuple[tuple[str, ...], Type, int]]] = {}
        self._functions: Final[dict[str, tuple[Overload, ...] | None]] = {}

    @property
    def has_lists_library(self) -> bool:
        """Whether cel-go's lists library is there."""
        return self.kind == "stored" or self.minor > 34

    @property
    def has_root_lookup(self) -> bool:
        """Whether `.name` means the global `name` where a local variable has the same name (cel-go 0.29)."""
        return self.minor >= 37

    @property
    def version(self) -> str:
        """The Kubernetes version, "1.36"."""
        return f"1.{self.minor}"

    def functions(self, name: str) -> tuple[Overload, ...] | None:
        """The overloads of a function, or None when this environment has no such function."""
        try:
            return self._functions[name]
        except KeyError:
            lines = OVERLOADS.get(name, "").splitlines()
            overloads = [parse_overload(line) for line in lines if self._is_available(name, line.partition(" ")[0])]
            found = tuple(overloads) or None
            if lines:  # unknown names are not remembered: users can spell any number of them
                self._functions[name] = found
            return found

    def _is_available(self, function: str, overload_id: str) -> bool:
        if function in _LISTS_FUNCTIONS:
            return self.has_lists_library
        if function == "includes":
            since_37 = overload_id == "list_includes_dyn_dyn"
            is_released = self.minor >= 37 if since_37 else self.minor == 36
            return is_released and (self.kind == "stored" or self.is_list_attributes_enabled)
        if function == "isMask":
            return self.minor >= 38 and self.kind == "stored"
        return self.minor <= 36 or overload_id != "int64_to_duration"

    def identifier_type(self, name: str) -> Type | None:
        """The type of a global name: the variable `device`, or the name of a type."""
        if name == DEVICE_VARIABLE:
            return DEVICE
        denoted = TYPE_IDENTIFIERS.get(name) or VALUELESS_TYPES.get(name)
        return None if denoted is None else type_of(denoted)

    def result_problem(self, result: Type) -> str | None:
        """Why a selector may not have this static type, in Kubernetes' words."""
        if result is BOOL or result is self.attribute_type:
            return None
        if self.minor < 37:
            if result is ANY:  # whatever type attributes have
                return None
        elif result.is_exact(BOOL):  # a protobuf wrapper, too
            return None
        return f"must evaluate to bool or the unknown type, not {result}"

    def derived_problem(self, result: Type) -> str | None:
        """Why an expression of `derivedAttributes` may not have this static type, in Kubernetes' words."""
        may_be_list = self.kind == "stored" or self.is_list_attributes_enabled
        if _is_scalar(result) or (may_be_list and result.kind == LIST_KIND and _is_scalar(result.parameters[0])):
            return None
        lists = " or a list of these scalars" if may_be_list else ""
        return f"must evaluate to a primitive scalar (string, integer, boolean, semver){lists}, not {result}"

    def __repr__(self) -> str:
        return f"<Environment Kubernetes {self.version} {self.kind}>"


def _is_scalar(result: Type) -> bool:
    """Whether an attribute can have the type; what is known at run time only passes."""
    return any(result.is_exact(type_) for type_ in (BOOL, INT, STRING, ANY, DYN, SEMVER))


def minor_of(version: str) -> int:
    """The minor number of "1.36" (or "v1.36.3"); ValueError says which versions there are."""
    parts = version.strip().removeprefix("v").split(".")
    if len(parts) >= 2 and parts[0] == "1" and parts[1].isascii() and parts[1].isdigit():
        minor = int(parts[1])
        if OLDEST_MINOR <= minor <= _BETA_MINOR:
            return minor
    raise ValueError(
        f"Kubernetes version {version!r} is not supported: use 1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}, like 1.36, or "
        f"1.{_BETA_MINOR} (beta)"
    )


def get(
    version: str = DEFAULT_VERSION,
    *,
    kind: Kind = "stored",
    consumable_capacity: bool = True,
    list_type_attributes: bool = False,
) -> Environment:
    """The environment of a Kubernetes version; equal arguments give the same object.

    Args:
        version: "1.34" to "1.38"; a patch level is ignored.
        kind: "stored" for what a scheduler evaluates, "new" for what an API server accepts in a changed
            object.
        consumable_capacity: Gate DRAConsumableCapacity (on by default since 1.36).
        list_type_attributes: Gate DRAListTypeAttributes (1.36, off by default).

    Raises:
        ValueError: The version is none of these, or the kind neither.
    """
    if kind not in ("stored", "new"):
        raise ValueError(f"environment {kind!r} is neither 'stored' nor 'new'")
    return _environment(minor_of(version), kind, consumable_capacity, list_type_attributes)


@lru_cache(maxsize=40)
def _environment(minor: int, kind: Kind, consumable_capacity: bool, list_type_attributes: bool) -> Environment:
    return Environment(minor, kind, consumable_capacity=consumable_capacity, list_type_attributes=list_type_attributes)
