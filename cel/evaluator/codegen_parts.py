"""What generated code is made of and runs with: `Code`, operators, the run-time functions, shapes of macros.

Not here: how expressions become code (`codegen`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, NoReturn

from cel import operators
from cel.checker.declarations import (
    BOOL_KIND,
    BYTES_KIND,
    DOUBLE_KIND,
    INT_KIND,
    LIST_KIND,
    MAP_KIND,
    NULL_KIND,
    OPAQUE_KIND,
    STRING_KIND,
    STRUCT_KIND,
    UINT_KIND,
    Type,
    is_optional,
)
from cel.evaluator.lookup import qualified
from cel.library.values import (
    EFFORT,
    EFFORT_LIMIT,
    MISSING,
    NONE,
    Optional,
    begin,
    contains,
    equal,
    not_equal,
)
from cel.parser.syntax import Call, Comprehension, Expr, Ident, Literal
from cel.semver import Semver

_SCALARS: Final = {
    BOOL_KIND: "bool",
    INT_KIND: "int",
    UINT_KIND: "uint",
    DOUBLE_KIND: "double",
    STRING_KIND: "string",
    BYTES_KIND: "bytes",
    NULL_KIND: "null",
    LIST_KIND: "list",
    MAP_KIND: "map",
}


COMPARISONS: Final = {
    operators.LESS: "<",
    operators.LESS_EQUALS: "<=",
    operators.GREATER: ">",
    operators.GREATER_EQUALS: ">=",
}
MIRRORED: Final = {
    operators.LESS: operators.GREATER,
    operators.LESS_EQUALS: operators.GREATER_EQUALS,
    operators.GREATER: operators.LESS,
    operators.GREATER_EQUALS: operators.LESS_EQUALS,
    operators.EQUALS: operators.EQUALS,
    operators.NOT_EQUALS: operators.NOT_EQUALS,
}
DECIDED_BY_SIGN: Final = {**COMPARISONS, operators.EQUALS: "==", operators.NOT_EQUALS: "!="}
DEVICE_FIELDS: Final = {
    "driver": ("d._driver", "string"),
    "attributes": ("d._attributes", "attributes"),
    "capacity": ("d._capacity", "capacity"),
    "allowMultipleAllocations": ("d._multiple", "bool"),
}
INNER: Final = {"attributes": "attribute_domain", "capacity": "capacity_domain"}
VALUE: Final = {"attribute_domain": "attribute", "capacity_domain": "quantity"}


class Unsupported(Exception):  # noqa: N818 - control flow inside of this module, not an error
    """The expression is left to the exact evaluator."""


class Code(NamedTuple):
    """Source of a Python expression and what is known of its value.

    kind: "bool", "int", "string", ... for a static type; "attribute", "attributes", "attribute_domain",
        "capacity", "capacity_domain", "quantity", "device", "optional"; "any" when nothing is known.
    constant: the value when it is one, else MISSING.
    """

    text: str
    kind: str
    constant: Any = MISSING


Scope = Mapping[str, Code]


def fail() -> NoReturn:
    """Give up: the exact evaluator answers."""
    raise Unsupported


def _optional_get(value: Any, key: Any) -> Optional:
    """`value.?key`, and `optional.key`."""
    if value.__class__ is Optional:
        if not value.has_value:
            return NONE
        value = value.value
    found = qualified(value, key, tests=True)
    return NONE if found is MISSING else Optional(found)


def _get(value: Any, key: Any) -> Any:
    """`value[key]` of anything but an optional."""
    return qualified(value, key, tests=False)


_RESERVED: Final = EFFORT_LIMIT // 4 * 3
"""The part of the limit that is kept for the exact evaluator, which starts the evaluation again."""


def _begin() -> None:
    """Let the called functions spend a quarter of the limit."""
    begin()
    EFFORT[0] = _RESERVED


def _end(answer: Any) -> Any:
    EFFORT[0] -= _RESERVED
    return answer


RUNTIME: Final[dict[str, Any]] = {
    "BEGIN": _begin,
    "END": _end,
    "R": fail,  # raises: the exact evaluator answers
    "S": Semver,
    "M": MISSING,
    "IN": contains,
    "EQ": equal,
    "NE": not_equal,
    "GET": _get,
    "OPT": _optional_get,  # m.?key
    "INT": int,
    "STR": str,
    "BOOL": bool,
    "X": Exception,
}
"""The names of generated code, short as they stand in the source of every selector. Further ones are `d`, the device;
`E`, the exact evaluator; `t1`, `t2`, ..., values in use; and `c0`, `c1`, ..., constants and called functions.
"""


def kind_of(type_: Type) -> str:
    if type_.kind == STRUCT_KIND:
        return {"kubernetes.Quantity": "quantity", "kubernetes.Semver": "semver"}.get(type_.name, "any")
    if type_.kind == OPAQUE_KIND and is_optional(type_):
        return "optional"
    return _SCALARS.get(type_.kind, "any")


def quantifier(node: Comprehension) -> tuple[str, Expr] | None:
    """The operator and the predicate of `exists` (`||`) or `all` (`&&`)."""
    step = node.loop_step
    if type(node.accu_init) is not Literal or node.accu_init.value.__class__ is not bool:
        return None
    if (
        type(step) is Call
        and step.function in (operators.LOGICAL_OR, operators.LOGICAL_AND)
        and type(step.args[0]) is Ident
    ):
        return step.function, step.args[1]
    return None
