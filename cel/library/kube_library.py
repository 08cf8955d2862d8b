"""The functions Kubernetes adds: quantities, versions, lists, texts, patterns, URLs, addresses, formats.

`implementations(minor)` gives the whole table of a Kubernetes version, by overload id. Functions that few selectors
use (addresses, URLs, formats, patterns) are imported when they are first called.

Source: k8s.io/apiserver pkg/cel/library at v0.36.3 and v0.37.2, cel-go ext/.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Final

from cel.errors import EvaluationError
from cel.integers import UInt
from cel.library import lists, strings
from cel.library.stdlib import IMPLEMENTATIONS, Implementation
from cel.library.values import ComputedQuantity, Duration, Optional, spend, succeeds
from cel.quantity import Quantity
from cel.semver import Semver

# --- quantities


def quantity(text: str) -> Quantity:
    spend(45 + 4 * len(text) + 60 * ("e" in text or "E" in text))
    try:
        return Quantity.parse(text)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def as_integer(value: Quantity) -> int:
    spend(quantity_effort(value))
    try:
        return value.as_integer()
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def quantity_effort(value: Quantity) -> int:
    """What arithmetic with it takes: large numbers are slow."""
    return 5 + value.nano.bit_length() // 32


def _computed(value: Quantity) -> ComputedQuantity:
    spend(35 + 2 * quantity_effort(value))
    return ComputedQuantity(value._unscaled, value._scale, value._is_big, value.format)


def is_integer(value: Quantity) -> bool:
    spend(quantity_effort(value))
    return value.is_integer()


def as_float(value: Quantity) -> float:
    spend(quantity_effort(value))
    return value.as_approximate_float()


def quantity_add(left: Quantity, right: Quantity) -> ComputedQuantity:
    return _computed(left.add(right))


def quantity_sub(left: Quantity, right: Quantity) -> ComputedQuantity:
    return _computed(left.sub(right))


def quantity_add_int(left: Quantity, right: int) -> ComputedQuantity:
    return _computed(left.add(Quantity.from_int(right, "DecimalExponent")))


def quantity_sub_int(left: Quantity, right: int) -> ComputedQuantity:
    return _computed(left.sub(Quantity.from_int(right, "DecimalExponent")))


# --- versions


def semver(text: str, normalize: bool = False) -> Semver:
    spend(35 + 2 * len(text) + 20 * normalize)
    try:
        return Semver.parse_normalized(text) if normalize else Semver.parse(text)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def compare_versions(left: Semver, right: Semver) -> int:
    spend(2 + min(len(left.key), len(right.key)) // 4)
    return left.compare_to(right)


def _as_int64(number: int) -> int:
    """Go converts the uint64 of a version part to int64 as it is."""
    return number - 2**64 if number >= 2**63 else number


# --- loaded at the first call


def _lazy(module: str, name: str) -> Implementation:
    known: list[Implementation] = []

    def call(*arguments: Any) -> Any:
        if not known:
            known.append(getattr(import_module(module), name))
        return known[0](*arguments)

    return call


def _network(name: str) -> Implementation:
    return _lazy("cel.library.network", name)


_KUBERNETES: Final[dict[str, Implementation]] = {
    "string_to_quantity": quantity,
    "is_quantity_string": succeeds(quantity),
    "quantity_sign": Quantity.sign,
    "quantity_is_greater_than": lambda left, right: left.nano > right.nano,
    "quantity_is_less_than": lambda left, right: left.nano < right.nano,
    "quantity_compare_to": Quantity.compare_to,
    "quantity_get_float": as_float,
    "quantity_get_int": as_integer,
    "quantity_is_integer": is_integer,
    "quantity_add": quantity_add,
    "quantity_add_int": quantity_add_int,
    "quantity_sub": quantity_sub,
    "quantity_sub_int": quantity_sub_int,
    "string_to_semver": semver,
    "string_bool_to_semver": semver,
    "is_semver_string": succeeds(semver),
    "is_semver_string_bool": succeeds(semver),
    "semver_is_greater_than": lambda left, right: compare_versions(left, right) > 0,
    "semver_is_less_than": lambda left, right: compare_versions(left, right) < 0,
    "semver_compare_to": compare_versions,
    "semver_major": lambda version: _as_int64(version.major),
    "semver_minor": lambda version: _as_int64(version.minor),
    "semver_patch": lambda version: _as_int64(version.patch),
    "string_char_at_int": strings.char_at,
    "string_index_of_string": strings.index_of,
    "string_index_of_string_int": strings.index_of,
    "string_last_index_of_string": strings.last_index_of,
    "string_last_index_of_string_int": strings.last_index_of,
    "string_lower_ascii": strings.lower_ascii,
    "string_upper_ascii": strings.upper_ascii,
    "string_replace_string_string": strings.replace,
    "string_replace_string_string_int": strings.replace,
    "string_split_string": strings.split,
    "string_split_string_int": strings.split,
    "string_substring_int": strings.substring,
    "string_substring_int_int": strings.substring,
    "string_trim": strings.trim,
    "strings_quote": strings.quote,
    "string_format": _lazy("cel.library.formatting", "format_string"),
    "list_join": strings.join,
    "list_join_string": strings.join,
    "list_a_index_of_int": lists.index_of,
    "list_a_last_index_of_int": lists.last_index_of,
    "list_includes_dyn_dyn": lists.includes,
    "dra_includes_dyn_dyn": lists.includes_before_137,
    "list_slice": lists.slice_,
    "list_distinct": lists.distinct,
    "list_reverse": lists.reverse,
    "lists_range": lists.range_,
    "list_sets_contains_list": lists.sets_contains,
    "list_sets_equivalent_list": lists.sets_equivalent,
    "list_sets_intersects_list": lists.sets_intersects,
    "string_find_string": _lazy("cel.library.regex", "find"),
    "string_find_all_string": _lazy("cel.library.regex", "find_all"),
    "string_find_all_string_int": _lazy("cel.library.regex", "find_all"),
    "string_to_url": _lazy("cel.library.urls", "url"),
    "is_url_string": _lazy("cel.library.urls", "is_url"),
    "url_get_scheme": lambda url: url.scheme,
    "url_get_host": lambda url: url.host,
    "url_get_hostname": lambda url: url.hostname(),
    "url_get_port": lambda url: url.port(),
    "url_get_escaped_path": _lazy("cel.library.urls", "escaped_path"),
    "url_get_query": _lazy("cel.library.urls", "query"),
    "string_to_ip": _network("ip"),
    "is_ip": _network("is_ip"),
    "ip_is_canonical": _network("ip_is_canonical"),
    "ip_to_string": _network("address_text"),
    "ip_family": lambda ip: ip.family,
    "ip_is_unspecified": lambda ip: ip.is_unspecified(),
    "ip_is_loopback": lambda ip: ip.is_loopback(),
    "ip_is_link_local_multicast": lambda ip: ip.is_link_local_multicast(),
    "ip_is_link_local_unicast": lambda ip: ip.is_link_local_unicast(),
    "ip_is_global_unicast": lambda ip: ip.is_global_unicast(),
    "string_to_cidr": _network("cidr"),
    "is_cidr": _network("is_cidr"),
    "cidr_to_string": _network("address_text"),
    "cidr_contains_ip_ip": lambda cidr, ip: cidr.contains_ip(ip),
    "cidr_contains_ip_string": _network("cidr_contains_ip_text"),
    "cidr_contains_cidr": lambda cidr, other: cidr.contains_cidr(other),
    "cidr_contains_cidr_string": _network("cidr_contains_cidr_text"),
    "cidr_ip": lambda cidr: cidr.ip,
    "cidr_prefix_length": lambda cidr: cidr.bits,
    "cidr_masked": lambda cidr: cidr.masked(),
    "cidr_is_mask": lambda cidr: cidr == cidr.masked(),
    "format-named": _lazy("cel.library.formats", "named"),
    "format-validate": _lazy("cel.library.formats", "validate"),
}

_ZEROS: Final[dict[str, Any]] = {"int": 0, "uint": UInt(0), "double": 0.0, "duration": Duration(0)}


def _format_constant(name: str) -> Implementation:
    named = _lazy("cel.library.formats", "named")

    def constant() -> Any:
        found: Optional = named(name)
        return found.value

    return constant


def _total(zero: Any) -> Implementation:
    return lambda elements: lists.total(elements, zero)


for _name in ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"):
    _KUBERNETES[f"list_{_name}_is_sorted_bool"] = lists.is_sorted
    _KUBERNETES[f"list_{_name}_min_{_name}"] = lists.smallest
    _KUBERNETES[f"list_{_name}_max_{_name}"] = lists.largest
    if _name in _ZEROS:
        _KUBERNETES[f"list_{_name}_sum_{_name}"] = _total(_ZEROS[_name])
for _name in (
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
):
    _KUBERNETES[f"format.{_name}"] = _format_constant(_name)

_BEFORE_137: Final[dict[str, Implementation]] = {
    "string_index_of_string_int": strings.index_of_before_137,
    "string_last_index_of_string_int": strings.last_index_of_before_137,
    "lists_range": lists.range_before_137,
}


@cache
def implementations(minor: int) -> dict[str, Implementation]:
    """Overload id → function of the arguments, for Kubernetes 1.`minor`; read-only."""
    table = {**IMPLEMENTATIONS, **_KUBERNETES}
    if minor < 37:
        table |= _BEFORE_137
    return table
