"""Types and function signatures: the vocabulary of the checker.

A `Type` is immutable and compared with `is_exact`; types without parameters are single objects.
`OVERLOADS` is the whole function table of Kubernetes' CEL, one line per overload, in cel-go's order
(the order decides which overload gives the result type). Which of them an environment has is
`environments`' to say.

Not here: what the functions do (`stdlib`, `kube_library`), what they cost (`cost`).

Source: cel-go common/stdlib, ext/ and cel/library.go at v0.26.0 and v0.29.2; k8s.io/apiserver
pkg/cel/library at v0.36.3 and v0.37.2; printed from the built environments for comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cel import operators

# Kinds, in an order that `checker` and `validators` use: types up to STRUCT_KIND have no parameters.
DYN_KIND, ANY_KIND, ERROR_KIND, NULL_KIND = 0, 1, 2, 3
BOOL_KIND, INT_KIND, UINT_KIND, DOUBLE_KIND, STRING_KIND, BYTES_KIND = 4, 5, 6, 7, 8, 9
TIMESTAMP_KIND, DURATION_KIND, STRUCT_KIND = 10, 11, 12
TYPE_KIND, OPAQUE_KIND, LIST_KIND, MAP_KIND = 13, 14, 15, 16
PARAM_KIND = 17


class Type:
    """A CEL type.

    name: the run-time name (`int`, `list`, `google.protobuf.Timestamp`, `kubernetes.Quantity`, ...), or
        of a type parameter its own.
    parameters: element type of a list, key and value type of a map, the wrapped type of `optional_type`,
        the denoted type of a `type`.
    is_ground: no type parameter anywhere in it.
    nullable: a protobuf wrapper (`google.protobuf.Int64Value`), which null is assignable to.
    """

    __slots__ = ("is_ground", "kind", "name", "nullable", "parameters")

    def __init__(self, kind: int, name: str, parameters: tuple[Type, ...] = (), *, nullable: bool = False) -> None:
        self.kind: Final = kind
        self.name: Final = name
        self.parameters: Final = parameters
        self.nullable: Final = nullable
        self.is_ground: Final[bool] = kind != PARAM_KIND and all(parameter.is_ground for parameter in parameters)

    def is_exact(self, other: Type) -> bool:
        """Same kind, name and parameters (cel-go's IsExactType)."""
        if self is other:
            return True
        if self.kind != other.kind or self.name != other.name or len(self.parameters) != len(other.parameters):
            return False
        return all(map(Type.is_exact, self.parameters, other.parameters))

    def __str__(self) -> str:
        """As cel-go's Type.String, which the messages about result types use."""
        return self._written(_as_string)

    def __repr__(self) -> str:
        return f"<Type {self}>"

    def display(self) -> str:
        """As cel-go's checker writes it into its messages (FormatCELType)."""
        return self._written(_as_displayed)

    def _written(self, name_of: Callable[[Type], str]) -> str:
        # A loop down the last parameter: lists can be nested 249 deep.
        text, closing, type_ = "", "", self
        while type_.parameters:
            text += f"{name_of(type_)}("
            closing += ")"
            *others, last = type_.parameters
            for other in others:
                text += f"{other._written(name_of)}, "
            type_ = last
        return text + name_of(type_) + closing


def _as_string(type_: Type) -> str:
    if type_.kind == PARAM_KIND:
        return f"<{type_.name}>"
    return f"wrapper({type_.name})" if type_.nullable else type_.name


def _as_displayed(type_: Type) -> str:
    return _DISPLAYED.get(type_.kind) or (f"wrapper({type_.name})" if type_.nullable else type_.name)


_DISPLAYED: Final = {
    ANY_KIND: "any",
    DURATION_KIND: "duration",
    ERROR_KIND: "!error!",
    NULL_KIND: "null",
    TIMESTAMP_KIND: "timestamp",
}

DYN: Final = Type(DYN_KIND, "dyn")
ANY: Final = Type(ANY_KIND, "google.protobuf.Any")
ERROR: Final = Type(ERROR_KIND, "error")
NULL: Final = Type(NULL_KIND, "null_type")
BOOL: Final = Type(BOOL_KIND, "bool")
INT: Final = Type(INT_KIND, "int")
UINT: Final = Type(UINT_KIND, "uint")
DOUBLE: Final = Type(DOUBLE_KIND, "double")
STRING: Final = Type(STRING_KIND, "string")
BYTES: Final = Type(BYTES_KIND, "bytes")
TIMESTAMP: Final = Type(TIMESTAMP_KIND, "google.protobuf.Timestamp")
DURATION: Final = Type(DURATION_KIND, "google.protobuf.Duration")
TYPE: Final = Type(TYPE_KIND, "type")
QUANTITY: Final = Type(STRUCT_KIND, "kubernetes.Quantity")
SEMVER: Final = Type(STRUCT_KIND, "kubernetes.Semver")
URL: Final = Type(STRUCT_KIND, "kubernetes.URL")
IP: Final = Type(OPAQUE_KIND, "net.IP")
CIDR: Final = Type(OPAQUE_KIND, "net.CIDR")
NAMED_FORMAT: Final = Type(STRUCT_KIND, "kubernetes.NamedFormat")
DEVICE: Final = Type(STRUCT_KIND, "kubernetes.DRADevice")

OPTIONAL_NAME: Final = "optional_type"


def list_of(element: Type) -> Type:
    return Type(LIST_KIND, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type(MAP_KIND, "map", (key, value))


def optional_of(wrapped: Type) -> Type:
    return Type(OPAQUE_KIND, OPTIONAL_NAME, (wrapped,))


def type_of(denoted: Type) -> Type:
    return Type(TYPE_KIND, "type", (denoted,))


def is_optional(candidate: Type) -> bool:
    return candidate.kind == OPAQUE_KIND and candidate.name == OPTIONAL_NAME


_NAMED: Final = {
    type_.name: type_
    for type_ in (
        DYN, NULL, BOOL, INT, UINT, DOUBLE, STRING, BYTES, TYPE, QUANTITY, SEMVER, URL, IP, CIDR, NAMED_FORMAT,
    )
} | {
    "timestamp": TIMESTAMP,
    "duration": DURATION,
    "authorizer": Type(STRUCT_KIND, "kubernetes.authorization.Authorizer"),
    "path_check": Type(STRUCT_KIND, "kubernetes.authorization.PathCheck"),
    "group_check": Type(STRUCT_KIND, "kubernetes.authorization.GroupCheck"),
    "resource_check": Type(STRUCT_KIND, "kubernetes.authorization.ResourceCheck"),
    "decision": Type(STRUCT_KIND, "kubernetes.authorization.Decision"),
}  # fmt: skip

TYPE_IDENTIFIERS: Final = {
    "bool": BOOL,
    "bytes": BYTES,
    "double": DOUBLE,
    "int": INT,
    "list": list_of(DYN),
    "map": map_of(DYN, DYN),
    "null_type": NULL,
    "string": STRING,
    "type": TYPE,
    "uint": UINT,
    "google.protobuf.Duration": DURATION,
    "google.protobuf.Timestamp": TIMESTAMP,
    "net.CIDR": CIDR,
    "net.IP": IP,
    OPTIONAL_NAME: Type(OPAQUE_KIND, OPTIONAL_NAME),
}
"""Names that denote types in every environment."""

WRAPPERS: Final = {
    "google.protobuf.BoolValue": Type(BOOL_KIND, "bool", nullable=True),
    "google.protobuf.BytesValue": Type(BYTES_KIND, "bytes", nullable=True),
    "google.protobuf.DoubleValue": Type(DOUBLE_KIND, "double", nullable=True),
    "google.protobuf.FloatValue": Type(DOUBLE_KIND, "double", nullable=True),
    "google.protobuf.Int32Value": Type(INT_KIND, "int", nullable=True),
    "google.protobuf.Int64Value": Type(INT_KIND, "int", nullable=True),
    "google.protobuf.UInt32Value": Type(UINT_KIND, "uint", nullable=True),
    "google.protobuf.UInt64Value": Type(UINT_KIND, "uint", nullable=True),
    "google.protobuf.StringValue": Type(STRING_KIND, "string", nullable=True),
}
"""Messages that may be built, `google.protobuf.Int64Value{value: 1}`; all have one field, `value`."""

VALUELESS_TYPES: Final = {
    **WRAPPERS,
    DEVICE.name: DEVICE,
    "google.protobuf.Any": ANY,
    "google.protobuf.ListValue": list_of(DYN),
    "google.protobuf.Struct": map_of(STRING, DYN),
    "google.protobuf.Value": DYN,
}
"""Names that pass the check as types and then have no value ("reference to undefined type")."""


class Overload:
    """One signature: `arguments` include the receiver of a member function."""

    __slots__ = ("arguments", "id", "is_member", "parameters", "result")

    def __init__(self, overload_id: str, arguments: tuple[Type, ...], result: Type, *, is_member: bool) -> None:
        self.id: Final = overload_id
        self.arguments: Final = arguments
        self.result: Final = result
        self.is_member: Final = is_member
        names: dict[str, None] = {}
        for type_ in (*arguments, result):
            _collect_parameters(type_, names)
        self.parameters: Final = tuple(names)


def _collect_parameters(type_: Type, names: dict[str, None]) -> None:
    if type_.kind == PARAM_KIND:
        names[type_.name] = None
    elif not type_.is_ground:
        for parameter in type_.parameters:
            _collect_parameters(parameter, names)


def parse_overload(line: str) -> Overload:
    """Read a line of `OVERLOADS`: `overload_id [member] (arguments) -> result`."""
    head, _, rest = line.partition("(")
    words = head.split()
    arguments, _, result = rest.rpartition(") -> ")
    return Overload(words[0], tuple(_parse_types(arguments)), _parse_types(result)[0], is_member=words[-1] == "member")


def _parse_types(text: str) -> list[Type]:
    """Comma-separated types; one upper-case letter is a type parameter."""
    types: list[Type] = []
    depth = start = 0
    for position, character in enumerate(text + ","):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        elif character == "," and depth == 0:
            if part := text[start:position].strip():
                types.append(_parse_type(part))
            start = position + 1
    return types


def _parse_type(text: str) -> Type:
    if (named := _NAMED.get(text)) is not None:
        return named
    name, _, inner = text.partition("(")
    if not inner:
        return Type(PARAM_KIND, name)
    parameters = tuple(_parse_types(inner[:-1]))
    kind = {"list": LIST_KIND, "map": MAP_KIND, "type": TYPE_KIND, OPTIONAL_NAME: OPAQUE_KIND}[name]
    return Type(kind, name, parameters)


_ORDERED: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
"""Types with an order, in the order of the list functions' overloads."""


def _comparison(name: str) -> str:
    """Overloads of an ordering operator: each type with itself, numbers with each other."""
    numbers = ("int64", "uint64", "double")
    lines = []
    for left in ("bool", *numbers, "string", "bytes", "timestamp", "duration"):
        type_ = left.removesuffix("64")
        lines.append(f"{name}_{left} ({type_}, {type_}) -> bool")
        others = [other for other in ("int64", "double", "uint64") if left in numbers and other != left]
        if left == "uint64":
            others.reverse()
        lines += [f"{name}_{left}_{right} ({type_}, {right.removesuffix('64')}) -> bool" for right in others]
    return "\n".join(lines)


def _per_ordered_type(pattern: str, types: tuple[str, ...] = _ORDERED) -> str:
    return "\n".join(pattern.format(type=type_, name=_RUNTIME_NAMES.get(type_, type_)) for type_ in types)


_RUNTIME_NAMES: Final = {"duration": "google.protobuf.Duration", "timestamp": "google.protobuf.Timestamp"}


def _time_getter(name: str, *, duration: bool = False, with_tz: str = "_with_tz") -> str:
    lines = [
        f"timestamp_to_{name} member (timestamp) -> int",
        f"timestamp_to_{name}{with_tz} member (timestamp, string) -> int",
    ]
    if duration:
        lines.append(f"duration_to_{name} member (duration) -> int")
    return "\n".join(lines)


_FORMATS: Final = (
    "byte", "date", "datetime", "dns1035Label", "dns1035LabelPrefix", "dns1123Label", "dns1123LabelPrefix",
    "dns1123Subdomain", "dns1123SubdomainPrefix", "labelValue", "qualifiedName", "uri", "uuid",
)  # fmt: skip

OVERLOADS: Final[dict[str, str]] = {
    # Operators.
    operators.LOGICAL_NOT: "logical_not (bool) -> bool",
    operators.NEGATE: "negate_double (double) -> double\nnegate_int64 (int) -> int",
    operators.IN: "in_list (A, list(A)) -> bool\nin_map (A, map(A, B)) -> bool",
    "_in_": "in_list (A, list(A)) -> bool\nin_map (A, map(A, B)) -> bool",  # an identifier, so callable
    operators.NOT_STRICTLY_FALSE: "not_strictly_false (bool) -> bool",
    "__not_strictly_false__": "__not_strictly_false__ (bool) -> bool",
    operators.EQUALS: "equals (A, A) -> bool",
    operators.NOT_EQUALS: "not_equals (A, A) -> bool",
    operators.LOGICAL_AND: "logical_and (bool, bool) -> bool",
    operators.LOGICAL_OR: "logical_or (bool, bool) -> bool",
    operators.CONDITIONAL: "conditional (bool, A, A) -> A",
    operators.LESS: _comparison("less"),
    operators.LESS_EQUALS: _comparison("less_equals"),
    operators.GREATER: _comparison("greater"),
    operators.GREATER_EQUALS: _comparison("greater_equals"),
    operators.ADD: """\
add_bytes (bytes, bytes) -> bytes
add_double (double, double) -> double
add_duration_duration (duration, duration) -> duration
add_duration_timestamp (duration, timestamp) -> timestamp
add_timestamp_duration (timestamp, duration) -> timestamp
add_int64 (int, int) -> int
add_list (list(A), list(A)) -> list(A)
add_string (string, string) -> string
add_uint64 (uint, uint) -> uint""",
    operators.SUBTRACT: """\
subtract_double (double, double) -> double
subtract_duration_duration (duration, duration) -> duration
subtract_int64 (int, int) -> int
subtract_timestamp_duration (timestamp, duration) -> timestamp
subtract_timestamp_timestamp (timestamp, timestamp) -> duration
subtract_uint64 (uint, uint) -> uint""",
    operators.MULTIPLY: """\
multiply_double (double, double) -> double
multiply_int64 (int, int) -> int
multiply_uint64 (uint, uint) -> uint""",
    operators.DIVIDE: """\
divide_double (double, double) -> double
divide_int64 (int, int) -> int
divide_uint64 (uint, uint) -> uint""",
    operators.MODULO: "modulo_int64 (int, int) -> int\nmodulo_uint64 (uint, uint) -> uint",
    operators.INDEX: """\
index_list (list(A), int) -> A
index_map (map(A, B), A) -> B
optional_list_index_int (optional_type(list(V)), int) -> optional_type(V)
optional_map_index_value (optional_type(map(K, V)), K) -> optional_type(V)""",
    operators.OPTIONAL_INDEX: """\
list_optindex_optional_int (list(V), int) -> optional_type(V)
optional_list_optindex_optional_int (optional_type(list(V)), int) -> optional_type(V)
map_optindex_optional_value (map(K, V), K) -> optional_type(V)
optional_map_optindex_optional_value (optional_type(map(K, V)), K) -> optional_type(V)""",
    # Standard functions.
    "size": """\
bytes_size member (bytes) -> int
size_bytes (bytes) -> int
list_size member (list(A)) -> int
size_list (list(A)) -> int
map_size member (map(A, B)) -> int
size_map (map(A, B)) -> int
string_size member (string) -> int
size_string (string) -> int""",
    "contains": "contains_string member (string, string) -> bool",
    "startsWith": "starts_with_string member (string, string) -> bool",
    "endsWith": "ends_with_string member (string, string) -> bool",
    "matches": "matches (string, string) -> bool\nmatches_string member (string, string) -> bool",
    "type": "type (A) -> type(A)",
    "dyn": "to_dyn (A) -> dyn",
    "bool": "bool_to_bool (bool) -> bool\nstring_to_bool (string) -> bool",
    "bytes": "bytes_to_bytes (bytes) -> bytes\nstring_to_bytes (string) -> bytes",
    "double": """\
double_to_double (double) -> double
int64_to_double (int) -> double
string_to_double (string) -> double
uint64_to_double (uint) -> double""",
    "duration": """\
duration_to_duration (duration) -> duration
int64_to_duration (int) -> duration
string_to_duration (string) -> duration""",
    "int": """\
int64_to_int64 (int) -> int
double_to_int64 (double) -> int
duration_to_int64 (duration) -> int
string_to_int64 (string) -> int
timestamp_to_int64 (timestamp) -> int
uint64_to_int64 (uint) -> int""",
    "string": """\
string_to_string (string) -> string
bool_to_string (bool) -> string
bytes_to_string (bytes) -> string
double_to_string (double) -> string
duration_to_string (duration) -> string
int64_to_string (int) -> string
timestamp_to_string (timestamp) -> string
uint64_to_string (uint) -> string
ip_to_string (net.IP) -> string
cidr_to_string (net.CIDR) -> string""",
    "timestamp": """\
timestamp_to_timestamp (timestamp) -> timestamp
int64_to_timestamp (int) -> timestamp
string_to_timestamp (string) -> timestamp""",
    "uint": """\
uint64_to_uint64 (uint) -> uint
double_to_uint64 (double) -> uint
int64_to_uint64 (int) -> uint
string_to_uint64 (string) -> uint""",
    "getFullYear": _time_getter("year"),
    "getMonth": _time_getter("month"),
    "getDayOfYear": _time_getter("day_of_year"),
    "getDayOfMonth": _time_getter("day_of_month"),
    "getDate": _time_getter("day_of_month_1_based"),
    "getDayOfWeek": _time_getter("day_of_week"),
    "getHours": _time_getter("hours", duration=True),
    "getMinutes": _time_getter("minutes", duration=True),
    "getSeconds": _time_getter("seconds", duration=True, with_tz="_tz"),
    "getMilliseconds": _time_getter("milliseconds", duration=True),
    # Optional values.
    "optional.of": "optional_of (V) -> optional_type(V)",
    "optional.ofNonZeroValue": "optional_ofNonZeroValue (V) -> optional_type(V)",
    "optional.none": "optional_none () -> optional_type(V)",
    "optional.unwrap": "optional_unwrap (list(optional_type(V))) -> list(V)",
    "unwrapOpt": "optional_unwrapOpt member (list(optional_type(V))) -> list(V)",
    "value": "optional_value member (optional_type(V)) -> V",
    "hasValue": "optional_hasValue member (optional_type(V)) -> bool",
    "or": "optional_or_optional member (optional_type(V), optional_type(V)) -> optional_type(V)",
    "orValue": "optional_orValue_value member (optional_type(V), V) -> V",
    "first": "list_first member (list(V)) -> optional_type(V)",
    "last": "list_last member (list(V)) -> optional_type(V)",
    # Two-variable comprehensions.
    operators.MAP_INSERT: """\
@mapInsert_map_key_value (map(K, V), K, V) -> map(K, V)
@mapInsert_map_map (map(K, V), map(K, V)) -> map(K, V)""",
    # Kubernetes and cel-go lists.
    "includes": """\
dra_includes_dyn_dyn member (dyn, dyn) -> bool
list_includes_dyn_dyn member (dyn, dyn) -> bool""",
    "isSorted": _per_ordered_type("list_{type}_is_sorted_bool member (list({type})) -> bool"),
    "max": _per_ordered_type("list_{type}_max_{type} member (list({type})) -> {type}"),
    "min": _per_ordered_type("list_{type}_min_{type} member (list({type})) -> {type}"),
    "sum": _per_ordered_type(
        "list_{type}_sum_{type} member (list({type})) -> {type}", ("int", "uint", "double", "duration")
    ),
    "indexOf": """\
list_a_index_of_int member (list(A), A) -> int
string_index_of_string member (string, string) -> int
string_index_of_string_int member (string, string, int) -> int""",
    "lastIndexOf": """\
list_a_last_index_of_int member (list(A), A) -> int
string_last_index_of_string member (string, string) -> int
string_last_index_of_string_int member (string, string, int) -> int""",
    "distinct": "list_distinct member (list(T)) -> list(T)",
    "flatten": "list_flatten member (list(list(T))) -> list(T)\nlist_flatten_int member (list(dyn), int) -> list(dyn)",
    "lists.range": "lists_range (int) -> list(int)",
    "reverse": "list_reverse member (list(T)) -> list(T)",
    "slice": "list_slice member (list(T), int, int) -> list(T)",
    "sort": _per_ordered_type("list_{name}_sort member (list({type})) -> list({type})"),
    "@sortByAssociatedKeys": _per_ordered_type(
        "list_{name}_sortByAssociatedKeys member (list(T), list({type})) -> list(T)"
    ),
    "sets.contains": "list_sets_contains_list (list(T), list(T)) -> bool",
    "sets.equivalent": "list_sets_equivalent_list (list(T), list(T)) -> bool",
    "sets.intersects": "list_sets_intersects_list (list(T), list(T)) -> bool",
    # Strings and regular expressions.
    "charAt": "string_char_at_int member (string, int) -> string",
    "format": "string_format member (string, list(dyn)) -> string",
    "join": "list_join member (list(string)) -> string\nlist_join_string member (list(string), string) -> string",
    "lowerAscii": "string_lower_ascii member (string) -> string",
    "upperAscii": "string_upper_ascii member (string) -> string",
    "replace": """\
string_replace_string_string member (string, string, string) -> string
string_replace_string_string_int member (string, string, string, int) -> string""",
    "split": """\
string_split_string member (string, string) -> list(string)
string_split_string_int member (string, string, int) -> list(string)""",
    "substring": """\
string_substring_int member (string, int) -> string
string_substring_int_int member (string, int, int) -> string""",
    "trim": "string_trim member (string) -> string",
    "strings.quote": "strings_quote (string) -> string",
    "find": "string_find_string member (string, string) -> string",
    "findAll": """\
string_find_all_string member (string, string) -> list(string)
string_find_all_string_int member (string, string, int) -> list(string)""",
    # Quantity and Semver.
    "quantity": "string_to_quantity (string) -> kubernetes.Quantity",
    "isQuantity": "is_quantity_string (string) -> bool",
    "sign": "quantity_sign (kubernetes.Quantity) -> int",
    "isGreaterThan": """\
quantity_is_greater_than member (kubernetes.Quantity, kubernetes.Quantity) -> bool
semver_is_greater_than member (kubernetes.Semver, kubernetes.Semver) -> bool""",
    "isLessThan": """\
quantity_is_less_than member (kubernetes.Quantity, kubernetes.Quantity) -> bool
semver_is_less_than member (kubernetes.Semver, kubernetes.Semver) -> bool""",
    "compareTo": """\
quantity_compare_to member (kubernetes.Quantity, kubernetes.Quantity) -> int
semver_compare_to member (kubernetes.Semver, kubernetes.Semver) -> int""",
    "asInteger": "quantity_get_int member (kubernetes.Quantity) -> int",
    "asApproximateFloat": "quantity_get_float member (kubernetes.Quantity) -> double",
    "isInteger": "quantity_is_integer member (kubernetes.Quantity) -> bool",
    "add": """\
quantity_add member (kubernetes.Quantity, kubernetes.Quantity) -> kubernetes.Quantity
quantity_add_int member (kubernetes.Quantity, int) -> kubernetes.Quantity""",
    "sub": """\
quantity_sub member (kubernetes.Quantity, kubernetes.Quantity) -> kubernetes.Quantity
quantity_sub_int member (kubernetes.Quantity, int) -> kubernetes.Quantity""",
    "semver": """\
string_to_semver (string) -> kubernetes.Semver
string_bool_to_semver (string, bool) -> kubernetes.Semver""",
    "isSemver": "is_semver_string (string) -> bool\nis_semver_string_bool (string, bool) -> bool",
    "major": "semver_major member (kubernetes.Semver) -> int",
    "minor": "semver_minor member (kubernetes.Semver) -> int",
    "patch": "semver_patch member (kubernetes.Semver) -> int",
    # URL, IP, CIDR.
    "url": "string_to_url (string) -> kubernetes.URL",
    "isURL": "is_url_string (string) -> bool",
    "getScheme": "url_get_scheme member (kubernetes.URL) -> string",
    "getHost": "url_get_host member (kubernetes.URL) -> string",
    "getHostname": "url_get_hostname member (kubernetes.URL) -> string",
    "getPort": "url_get_port member (kubernetes.URL) -> string",
    "getEscapedPath": "url_get_escaped_path member (kubernetes.URL) -> string",
    "getQuery": "url_get_query member (kubernetes.URL) -> map(string, list(string))",
    "ip": "string_to_ip (string) -> net.IP\ncidr_ip member (net.CIDR) -> net.IP",
    "isIP": "is_ip (string) -> bool",
    "ip.isCanonical": "ip_is_canonical (string) -> bool",
    "family": "ip_family member (net.IP) -> int",
    "isUnspecified": "ip_is_unspecified member (net.IP) -> bool",
    "isLoopback": "ip_is_loopback member (net.IP) -> bool",
    "isLinkLocalMulticast": "ip_is_link_local_multicast member (net.IP) -> bool",
    "isLinkLocalUnicast": "ip_is_link_local_unicast member (net.IP) -> bool",
    "isGlobalUnicast": "ip_is_global_unicast member (net.IP) -> bool",
    "cidr": "string_to_cidr (string) -> net.CIDR",
    "isCIDR": "is_cidr (string) -> bool",
    "containsIP": """\
cidr_contains_ip_string member (net.CIDR, string) -> bool
cidr_contains_ip_ip member (net.CIDR, net.IP) -> bool""",
    "containsCIDR": """\
cidr_contains_cidr_string member (net.CIDR, string) -> bool
cidr_contains_cidr member (net.CIDR, net.CIDR) -> bool""",
    "prefixLength": "cidr_prefix_length member (net.CIDR) -> int",
    "isMask": "cidr_is_mask member (net.CIDR) -> bool",
    "masked": "cidr_masked member (net.CIDR) -> net.CIDR",
    # Named formats.
    **{f"format.{name}": f"format.{name} () -> kubernetes.NamedFormat" for name in _FORMATS},
    "format.named": "format-named (string) -> optional_type(kubernetes.NamedFormat)",
    "validate": "format-validate member (kubernetes.NamedFormat, string) -> optional_type(list(string))",
    # Authorizer functions: no variable of their types exists here, but a dynamic receiver passes the check.
    "path": "authorizer_path member (authorizer, string) -> path_check",
    "group": "authorizer_group member (authorizer, string) -> group_check",
    "serviceAccount": "authorizer_serviceaccount member (authorizer, string, string) -> authorizer",
    "resource": "groupcheck_resource member (group_check, string) -> resource_check",
    "subresource": "resourcecheck_subresource member (resource_check, string) -> resource_check",
    "namespace": "resourcecheck_namespace member (resource_check, string) -> resource_check",
    "name": "resourcecheck_name member (resource_check, string) -> resource_check",
    "check": """\
pathcheck_check member (path_check, string) -> decision
resourcecheck_check member (resource_check, string) -> decision""",
    "errored": "decision_errored member (decision) -> bool",
    "error": "decision_error member (decision) -> string",
    "allowed": "decision_allowed member (decision) -> bool",
    "reason": "decision_reason member (decision) -> string",
    "fieldSelector": "authorizer_fieldselector member (resource_check, string) -> resource_check",
    "labelSelector": "authorizer_labelselector member (resource_check, string) -> resource_check",
}  # fmt: skip
"""Overloads by function name, one per line."""
