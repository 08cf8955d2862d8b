"""The fields of the DRA kinds in v1, with their types and limits.

Not here: walking an object along them (`schema`), rules across fields (`claim_rules`).

Source: k8s.io/api resource/v1/types.go and k8s.io/kubernetes pkg/apis/resource/validation/validation.go v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from allocator.names import (
    LABEL_KEY_LENGTH_MAX,
    LABEL_LENGTH_MAX,
    SUBDOMAIN_LENGTH_MAX,
    NameCheck,
    is_c_identifier,
    is_dns_label,
    is_dns_subdomain,
    is_label_key,
    is_label_value,
)
from cel.quantity import Quantity
from cel.semver import Semver
from scheduler.model.api_rules import (
    ALLOCATION_MODES,
    ATTRIBUTE_VALUE_LENGTH_MAX,
    DRIVER_NAME_LENGTH_MAX,
    ID_LENGTH_MAX,
    LIST_ATTRIBUTES,
    POOL_NAME_LENGTH_MAX,
    SCALAR_ATTRIBUTES,
    TAINT_EFFECTS,
)

_INT64: Final = 2**63

Check: TypeAlias = Callable[[Any], str]
"""What is wrong with a value, as the end of a sentence; empty when nothing is."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value without parts."""

    check: Check


@dataclass(frozen=True, slots=True)
class Anything:
    """What is not looked into."""


@dataclass(frozen=True, slots=True)
class ListOf:
    """How many there may be, and whether two may be alike, say the server's rules (`server_rules`)."""

    item: Shape


@dataclass(frozen=True, slots=True)
class MapOf:
    """Keys are free, but for `key`."""

    value: Shape
    key: Check | None = None


@dataclass(frozen=True, slots=True)
class Object:
    """`one_of`: groups of fields of which exactly one is set (or, in `at_most_one`, at most one)."""

    fields: Mapping[str, Shape]
    required: tuple[str, ...] = ()
    one_of: tuple[tuple[str, ...], ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)


Shape: TypeAlias = Scalar | Anything | ListOf | MapOf | Object


# --- values -------------------------------------------------------------------------------------------------


def type_name(value: Any) -> str:
    """The JSON type of a value, for messages."""
    if value is None:
        return "nothing"
    names = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a text",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(value), type(value).__name__)


def text(value: Any) -> str:
    return "" if isinstance(value, str) else f"must be a text, not {type_name(value)}"


def boolean(value: Any) -> str:
    return "" if isinstance(value, bool) else f"must be true or false, not {type_name(value)}"


def integer(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        return f"must be a whole number, not {type_name(value)}"
    return "" if -_INT64 <= value < _INT64 else "must fit into 64 bits"


def number(value: Any) -> str:
    return (
        ""
        if isinstance(value, int | float) and not isinstance(value, bool)
        else f"must be a number, not {type_name(value)}"
    )


def number_or_text(value: Any) -> str:
    return "" if isinstance(value, str) else integer(value)


def natural(value: Any) -> str:
    return integer(value) or ("" if value >= 0 else "must not be negative")


def positive(value: Any) -> str:
    return integer(value) or ("" if value > 0 else "must be greater than 0")


def only_true(value: Any) -> str:
    return boolean(value) or ("" if value else "must be true or left out")


def _named(is_name: NameCheck, limit: int, what: str) -> Check:
    def check(value: Any) -> str:
        if problem := text(value):
            return problem
        if len(value) > limit:
            return f"must not be longer than {limit} characters"
        return "" if is_name(value) else f"must be {what}"

    return check


_SUBDOMAIN: Final = "a DNS subdomain: lower case letters, digits, '-' and '.'"
dns_label: Final = _named(is_dns_label, LABEL_LENGTH_MAX, "a DNS label: lower case letters, digits and '-'")
class_name: Final = _named(is_dns_subdomain, SUBDOMAIN_LENGTH_MAX, _SUBDOMAIN)
label_value: Final = _named(is_label_value, LABEL_LENGTH_MAX, "a label value: letters, digits, '-', '_' and '.'")
label_key: Final = _named(is_label_key, LABEL_KEY_LENGTH_MAX, "a label key: [domain/]name")
identifier: Final = _named(is_c_identifier, ID_LENGTH_MAX, "a C identifier: letters, digits and '_', no digit first")


def driver(value: Any) -> str:
    if problem := text(value):
        return problem
    if len(value) > DRIVER_NAME_LENGTH_MAX:
        return f"must not be longer than {DRIVER_NAME_LENGTH_MAX} characters"
    if is_dns_subdomain(value.lower()):
        return ""
    if "/" in value:
        domain, _, resource = value.partition("/")
        usual = f"{resource}.{domain}"
        return (
            "must be a driver's name, not an extended resource's"
            f"; perhaps {usual}: convert --driver-map {value}={usual} writes it"
        )
    return f"must be {_SUBDOMAIN}"


def pool(value: Any) -> str:
    if problem := text(value):
        return problem
    if len(value) > POOL_NAME_LENGTH_MAX:
        return f"must not be longer than {POOL_NAME_LENGTH_MAX} characters"
    return "" if all(map(is_dns_subdomain, value.split("/"))) else "must be DNS subdomains joined by '/'"


def qualified_name(value: Any) -> str:
    domain, slash, name = str(value).rpartition("/")
    problem = identifier(name)
    if not problem and slash:
        problem = driver(domain)
    return f"{problem} in the name {value}" if problem else ""


def full_name(value: Any) -> str:
    if problem := text(value):
        return problem
    return qualified_name(value) or ("" if "/" in value else "must have its domain: <domain>/<name>")


def quantity(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return f"must be a quantity like 80Gi, not {type_name(value)}"
    try:
        Quantity.parse(str(value))
    except ValueError:
        return f"must be a quantity like 80Gi or 500m, not {value!r}"
    return ""


def semantic_version(value: Any) -> str:
    if problem := text(value):
        return problem
    try:
        Semver.parse(value)
    except ValueError:
        return f"must be a semantic version like 1.2.3, not {value!r}"
    return short_text(value)


def short_text(value: Any) -> str:
    return text(value) or (
        ""
        if len(value) <= ATTRIBUTE_VALUE_LENGTH_MAX
        else f"must not be longer than {ATTRIBUTE_VALUE_LENGTH_MAX} characters"
    )


def one_of(*choices: str) -> Check:
    def check(value: Any) -> str:
        return "" if value in choices and isinstance(value, str) else f"must be {' or '.join(choices)}, not {value!r}"

    return check


def some(value: Any) -> str:
    return text(value) or ("" if value else "must not be empty")


# --- objects ------------------------------------------------------------------------------------------------

_TEXT: Final = Scalar(text)
_TEXTS: Final = MapOf(_TEXT)
_QUANTITY: Final = Scalar(quantity)
_EFFECT: Final = Scalar(one_of(*TAINT_EFFECTS))

METADATA: Final = Object(
    {
        "name": _TEXT,
        "generateName": _TEXT,
        "namespace": _TEXT,
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "finalizers": ListOf(_TEXT),
        "ownerReferences": Anything(),
        "uid": Anything(),
        "resourceVersion": Anything(),
        "generation": Anything(),
        "creationTimestamp": Anything(),
        "deletionTimestamp": Anything(),
        "deletionGracePeriodSeconds": Anything(),
        "managedFields": Anything(),
        "selfLink": Anything(),
    }
)
_SELECTORS: Final = ListOf(
    Object({"cel": Object({"expression": Scalar(some)}, required=("expression",))}, required=("cel",))
)
_OPAQUE: Final = Object({"driver": Scalar(driver), "parameters": Anything()}, required=("driver", "parameters"))
_TOLERATION: Final = Object(
    {
        "key": Scalar(label_key),
        "operator": Scalar(one_of("Exists", "Equal")),
        "value": Scalar(label_value),
        "effect": _EFFECT,
        "tolerationSeconds": Scalar(integer),
    }
)
_EXACT: Final[Mapping[str, Shape]] = {
    "deviceClassName": Scalar(class_name),
    "selectors": _SELECTORS,
    "allocationMode": Scalar(one_of(*ALLOCATION_MODES)),
    "count": Scalar(integer),
    "tolerations": ListOf(_TOLERATION),
    "capacity": Object({"requests": MapOf(_QUANTITY, qualified_name)}),
}
_ALIASES: Final = {
    "deviceClass": "deviceClassName",
    "class": "deviceClassName",
    "className": "deviceClassName",
    "resourceClassName": "deviceClassName",
    "selector": "selectors",
    "toleration": "tolerations",
    "mode": "allocationMode",
    "quantity": "count",
    "amount": "count",
}
CLAIM_SPEC: Final = Object(
    {
        "devices": Object(
            {
                "requests": ListOf(
                    Object(
                        {
                            "name": Scalar(dns_label),
                            "exactly": Object(
                                {**_EXACT, "adminAccess": Scalar(boolean)}, ("deviceClassName",), aliases=_ALIASES
                            ),
                            "firstAvailable": ListOf(
                                Object(
                                    {"name": Scalar(dns_label), **_EXACT}, ("name", "deviceClassName"), aliases=_ALIASES
                                ),
                            ),
                        },
                        ("name",),
                        (("exactly", "firstAvailable"),),
                        aliases={"firstOf": "firstAvailable", "oneOf": "firstAvailable", "exact": "exactly"},
                    ),
                ),
                "constraints": ListOf(
                    Object(
                        {
                            "requests": ListOf(_TEXT),
                            "matchAttribute": Scalar(full_name),
                            "distinctAttribute": Scalar(full_name),
                        },
                        one_of=(("matchAttribute", "distinctAttribute"),),
                    ),
                ),
                "config": ListOf(Object({"requests": ListOf(_TEXT), "opaque": _OPAQUE}, ("opaque",))),
            }
        )
    }
)
_REQUIREMENT: Final = Object({"key": _TEXT, "operator": _TEXT, "values": ListOf(_TEXT)}, ("key", "operator"))
_NODE_SELECTOR: Final = Object(
    {
        "nodeSelectorTerms": ListOf(
            Object({"matchExpressions": ListOf(_REQUIREMENT), "matchFields": ListOf(_REQUIREMENT)})
        )
    },
    ("nodeSelectorTerms",),
)
_CLASS_SPEC: Final = Object(
    {
        "selectors": _SELECTORS,
        "config": ListOf(Object({"opaque": _OPAQUE}, ("opaque",))),
        "extendedResourceName": Scalar(label_key),
    },
    aliases={"selector": "selectors"},
)

_COUNTERS: Final = MapOf(Object({"value": _QUANTITY}, ("value",)), dns_label)
_CONDITIONS: Final = ListOf(Scalar(label_key))
_DEVICE: Final = Object(
    {
        "name": Scalar(dns_label),
        "attributes": MapOf(
            Object(
                {
                    "string": Scalar(short_text),
                    "int": Scalar(integer),
                    "bool": Scalar(boolean),
                    "version": Scalar(semantic_version),
                    "strings": ListOf(Scalar(short_text)),
                    "ints": ListOf(Scalar(integer)),
                    "bools": ListOf(Scalar(boolean)),
                    "versions": ListOf(Scalar(semantic_version)),
                },
                one_of=((*SCALAR_ATTRIBUTES, *LIST_ATTRIBUTES),),
            ),
            qualified_name,
        ),
        "capacity": MapOf(
            Object(
                {
                    "value": _QUANTITY,
                    "requestPolicy": Object(
                        {
                            "default": _QUANTITY,
                            "validValues": ListOf(_QUANTITY),
                            "validRange": Object({"min": _QUANTITY, "max": _QUANTITY, "step": _QUANTITY}, ("min",)),
                        }
                    ),
                },
                ("value",),
            ),
            qualified_name,
        ),
        "consumesCounters": ListOf(
            Object(
                {"counterSet": Scalar(dns_label), "counters": _COUNTERS, "compatibilityGroups": ListOf(_TEXT)},
                ("counterSet", "counters"),
            ),
        ),
        "nodeName": _TEXT,
        "nodeSelector": _NODE_SELECTOR,
        "allNodes": Scalar(only_true),
        "taints": ListOf(
            Object(
                {"key": Scalar(label_key), "value": Scalar(label_value), "effect": _EFFECT, "timeAdded": _TEXT},
                ("key", "effect"),
            ),
        ),
        "bindsToNode": Scalar(boolean),
        "bindingConditions": _CONDITIONS,
        "bindingFailureConditions": _CONDITIONS,
        "allowMultipleAllocations": Scalar(boolean),
        "nodeAllocatableResourceMappings": MapOf(Object({"capacityKey": _TEXT, "allocationMultiplier": _QUANTITY})),
        "nodeAllocatableResources": Anything(),
    },
    ("name",),
)
_SLICE_SPEC: Final = Object(
    {
        "driver": Scalar(driver),
        "pool": Object(
            {"name": Scalar(pool), "generation": Scalar(natural), "resourceSliceCount": Scalar(positive)},
            ("name", "resourceSliceCount"),
        ),
        "nodeName": Scalar(some),
        "nodeSelector": _NODE_SELECTOR,
        "allNodes": Scalar(only_true),
        "perDeviceNodeSelection": Scalar(only_true),
        "devices": ListOf(_DEVICE),
        "sharedCounters": ListOf(Object({"name": Scalar(dns_label), "counters": _COUNTERS}, ("name", "counters"))),
        "skipNodeOperations": Scalar(boolean),
        "partitionTypeAttribute": _TEXT,
    },
    ("driver", "pool"),
    (("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"),),
)


def _kind(spec: Shape, *more: str) -> Object:
    fields: dict[str, Shape] = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": METADATA, "spec": spec}
    return Object({**fields, **dict.fromkeys(more, Anything())}, ("metadata", "spec"))


KINDS: Final[Mapping[str, Object]] = {
    "ResourceClaim": _kind(CLAIM_SPEC, "status"),
    "ResourceClaimTemplate": _kind(Object({"metadata": METADATA, "spec": CLAIM_SPEC}, ("spec",))),
    "DeviceClass": _kind(_CLASS_SPEC),
    "ResourceSlice": _kind(_SLICE_SPEC),
    "DeviceTaintRule": _kind(
        Object(
            {
                "deviceSelector": Object({"driver": Scalar(driver), "pool": Scalar(pool), "device": Scalar(dns_label)}),
                "taint": Object(
                    {
                        "key": Scalar(label_key),
                        "value": Scalar(label_value),
                        "effect": _EFFECT,
                        "timeAdded": _TEXT,
                    },
                    ("key", "effect"),
                ),
            },
            ("taint",),
        ),
        "status",
    ),
}
