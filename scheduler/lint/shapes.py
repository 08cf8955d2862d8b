"""The fields of the DRA kinds in v1, with their types and limits.

Not here: walking an object along them (`schema`), rules across fields (`claim_rules`).

Source: k8s.io/api resource/v1/types.go and k8s.io/kubernetes pkg/apis/resource/validation/validation.go v1.36.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from cel.quantity import Quantity
from cel.semver import Semver

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED: Final = re.compile(r"(?:(?P<prefix>[^/]+)/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
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
    """`limit` None for none; `unique` names the field (empty: the entry itself) that no two entries may share."""

    item: Shape
    limit: int | None = None
    unique: str | None = None


@dataclass(frozen=True, slots=True)
class MapOf:
    """Keys are free, but for `key`."""

    value: Shape
    key: Check | None = None
    limit: int | None = None


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


def _matching(pattern: re.Pattern[str], limit: int, what: str) -> Check:
    def check(value: Any) -> str:
        if problem := text(value):
            return problem
        if len(value) > limit:
            return f"must not be longer than {limit} characters"
        return "" if pattern.fullmatch(value) else f"must be {what}"

    return check


dns_label: Final = _matching(_LABEL, 63, "a DNS label: lower case letters, digits and '-'")
class_name: Final = _matching(_SUBDOMAIN, 253, "a DNS subdomain: lower case letters, digits, '-' and '.'")
label_value: Final = _matching(_LABEL_VALUE, 63, "a label value: letters, digits, '-', '_' and '.'")
label_key: Final = _matching(_QUALIFIED, 317, "a label key: [domain/]name")
identifier: Final = _matching(_IDENTIFIER, 32, "a C identifier: letters, digits and '_', no digit first")


def driver(value: Any) -> str:
    if problem := text(value):
        return problem
    if len(value) > 63:
        return "must not be longer than 63 characters"
    if _SUBDOMAIN.fullmatch(value.lower()):
        return ""
    if "/" in value:
        domain, _, resource = value.partition("/")
        usual = f"{resource}.{domain}"
        return (
            "must be a driver's name, not an extended resource's"
            f"; perhaps {usual}: convert --driver-map {value}={usual} writes it"
        )
    return "must be a DNS subdomain: lower case letters, digits, '-' and '.'"


def pool(value: Any) -> str:
    if problem := text(value):
        return problem
    if len(value) > 253:
        return "must not be longer than 253 characters"
    return (
        "" if all(_SUBDOMAIN.fullmatch(part) for part in value.split("/")) else "must be DNS subdomains joined by '/'"
    )


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
    return "" if len(value) <= 64 else "must not be longer than 64 characters"


def short_text(value: Any) -> str:
    return text(value) or ("" if len(value) <= 64 else "must not be longer than 64 characters")


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
_EFFECT: Final = Scalar(one_of("NoSchedule", "NoExecute", "None"))

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
    Object({"cel": Object({"expression": Scalar(some)}, required=("expression",))}, required=("cel",)), 32
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
    "allocationMode": Scalar(one_of("ExactCount", "All")),
    "count": Scalar(integer),
    "tolerations": ListOf(_TOLERATION, 16),
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
                                8,
                                "name",
                            ),
                        },
                        ("name",),
                        (("exactly", "firstAvailable"),),
                        aliases={"firstOf": "firstAvailable", "oneOf": "firstAvailable", "exact": "exactly"},
                    ),
                    32,
                    "name",
                ),
                "constraints": ListOf(
                    Object(
                        {
                            "requests": ListOf(_TEXT, 32, ""),
                            "matchAttribute": Scalar(full_name),
                            "distinctAttribute": Scalar(full_name),
                        },
                        one_of=(("matchAttribute", "distinctAttribute"),),
                    ),
                    32,
                ),
                "config": ListOf(Object({"requests": ListOf(_TEXT, 32, ""), "opaque": _OPAQUE}, ("opaque",)), 32),
            }
        )
    }
)
_CLASS_SPEC: Final = Object(
    {
        "selectors": _SELECTORS,
        "config": ListOf(Object({"opaque": _OPAQUE}, ("opaque",)), 32),
        "extendedResourceName": Scalar(label_key),
    },
    aliases={"selector": "selectors"},
)

_COUNTERS: Final = MapOf(Object({"value": _QUANTITY}, ("value",)), dns_label, 32)
_CONDITIONS: Final = ListOf(Scalar(label_key), 4, "")
_ATTRIBUTE_KINDS: Final = ("string", "int", "bool", "version", "strings", "ints", "bools", "versions")
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
                one_of=(_ATTRIBUTE_KINDS,),
            ),
            qualified_name,
            32,
        ),
        "capacity": MapOf(
            Object(
                {
                    "value": _QUANTITY,
                    "requestPolicy": Object(
                        {
                            "default": _QUANTITY,
                            "validValues": ListOf(_QUANTITY, 10),
                            "validRange": Object({"min": _QUANTITY, "max": _QUANTITY, "step": _QUANTITY}, ("min",)),
                        }
                    ),
                },
                ("value",),
            ),
            qualified_name,
            32,
        ),
        "consumesCounters": ListOf(
            Object(
                {"counterSet": Scalar(dns_label), "counters": _COUNTERS, "compatibilityGroups": ListOf(_TEXT)},
                ("counterSet", "counters"),
            ),
            2,
            "counterSet",
        ),
        "nodeName": _TEXT,
        "nodeSelector": Anything(),
        "allNodes": Scalar(only_true),
        "taints": ListOf(
            Object(
                {"key": Scalar(label_key), "value": Scalar(label_value), "effect": _EFFECT, "timeAdded": _TEXT},
                ("key", "effect"),
            ),
            16,
        ),
        "bindsToNode": Scalar(boolean),
        "bindingConditions": _CONDITIONS,
        "bindingFailureConditions": _CONDITIONS,
        "allowMultipleAllocations": Scalar(boolean),
        "nodeAllocatableResourceMappings": Anything(),
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
        "nodeSelector": Anything(),
        "allNodes": Scalar(only_true),
        "perDeviceNodeSelection": Scalar(only_true),
        "devices": ListOf(_DEVICE, 128, "name"),
        "sharedCounters": ListOf(
            Object({"name": Scalar(dns_label), "counters": _COUNTERS}, ("name", "counters")), 8, "name"
        ),
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
