"""Sound objects of the DRA kinds with nearly every field, each spoiled in one place at a time: some 2,900 objects.

For tests that compare two opinions on what is wrong with an object: the embedded server's and the real one's, lint's
and the embedded server's.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from tests.nightly import IS_NIGHT

Json = Any

KINDS: Final = {
    "resourceclaims": "ResourceClaim",
    "resourceclaimtemplates": "ResourceClaimTemplate",
    "deviceclasses": "DeviceClass",
    "resourceslices": "ResourceSlice",
    "devicetaintrules": "DeviceTaintRule",
}
API_VERSIONS: Final = {"devicetaintrules": "resource.k8s.io/v1"}
"""Of those that are not in v1."""


class Case(NamedTuple):
    """An object's spec, and what was done to it."""

    name: str
    resource: str
    spec: Json


EXPRESSION = 'device.driver == "gpu.example.com"'
EXACT: Final[Json] = {
    "deviceClassName": "gpu.example.com",
    "selectors": [{"cel": {"expression": EXPRESSION}}],
    "allocationMode": "ExactCount",
    "count": 2,
    "tolerations": [
        {"key": "example.com/a", "operator": "Equal", "value": "v", "effect": "NoSchedule"},
        {"key": "b", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
    ],
    "capacity": {"requests": {"memory": "10Gi", "gpu.example.com/cores": "5"}},
}
SPEC: Final[Json] = {
    "devices": {
        "requests": [
            {"name": "one", "exactly": EXACT},
            {"name": "two", "firstAvailable": [{"name": "big", **EXACT}, {"name": "small", "deviceClassName": "x"}]},
        ],
        "constraints": [
            {"requests": ["one", "two/big"], "matchAttribute": "gpu.example.com/numa"},
            {"distinctAttribute": "a.com/b"},
        ],
        "config": [
            {"requests": ["one", "two"], "opaque": {"driver": "gpu.example.com", "parameters": {"kind": "x", "a": 1}}}
        ],
    }
}
SELECTOR: Final[Json] = {
    "nodeSelectorTerms": [
        {
            "matchExpressions": [
                {"key": "example.com/zone", "operator": "In", "values": ["a"]},
                {"key": "n", "operator": "Gt", "values": ["1"]},
            ],
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
        }
    ]
}
DEVICE: Final[Json] = {
    "name": "d0",
    "attributes": {
        "model": {"string": "a"},
        "gpu.example.com/idx": {"int": 1},
        "ok": {"bool": True},
        "driverVersion": {"version": "1.2.3"},
    },
    "capacity": {
        "memory": {
            "value": "80Gi",
            "requestPolicy": {"default": "10Gi", "validRange": {"min": "1Gi", "max": "80Gi", "step": "1Gi"}},
        },
        "cores": {"value": "8", "requestPolicy": {"default": "2", "validValues": ["1", "2", "4"]}},
    },
    "allowMultipleAllocations": True,
    "consumesCounters": [{"counterSet": "set", "counters": {"mem": {"value": "1Gi"}}}],
    "taints": [{"key": "example.com/a", "value": "v", "effect": "NoExecute"}],
    "bindsToNode": True,
    "bindingConditions": ["a.com/ready"],
    "bindingFailureConditions": ["a.com/failed"],
}
SLICE: Final[Json] = {
    "driver": "gpu.example.com",
    "pool": {"name": "n1/a", "generation": 1, "resourceSliceCount": 2},
    "nodeName": "n1",
    "devices": [
        DEVICE,
        {"name": "d1", "attributes": {"model": {"string": "a"}}, "capacity": {"memory": {"value": "1Gi"}}},
    ],
}
PER_DEVICE: Final[Json] = {
    "driver": "gpu.example.com",
    "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
    "perDeviceNodeSelection": True,
    "devices": [
        {"name": "a", "nodeName": "n1"},
        {"name": "b", "allNodes": True},
        {"name": "c", "nodeSelector": SELECTOR},
    ],
}
COUNTERS: Final[Json] = {
    "driver": "gpu.example.com",
    "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
    "nodeSelector": SELECTOR,
    "sharedCounters": [
        {"name": "set", "counters": {"mem": {"value": "1Gi"}}},
        {"name": "set2", "counters": {"mem": {"value": "1Gi"}}},
    ],
}
ALL: Final[Json] = {
    "driver": "gpu.example.com",
    "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
    "allNodes": True,
    "devices": [{"name": "a"}],
}
CLASS: Final[Json] = {
    "selectors": [{"cel": {"expression": EXPRESSION}}],
    "config": [{"opaque": {"driver": "gpu.example.com", "parameters": {"a": 1}}}],
    "extendedResourceName": "example.com/gpu",
}
RULE: Final[Json] = {
    "deviceSelector": {"driver": "gpu.example.com", "pool": "p/a", "device": "d0"},
    "taint": {"key": "a.com/b", "value": "v", "effect": "NoExecute"},
}
META = {"labels": {"a.com/b": "c"}, "annotations": {"x/y": "z"}}
OBJECTS = {
    "claim": ("resourceclaims", SPEC),
    "template": ("resourceclaimtemplates", {"metadata": META, "spec": SPEC}),
    "class": ("deviceclasses", CLASS),
    "slice": ("resourceslices", SLICE),
    "per-device": ("resourceslices", PER_DEVICE),
    "counters": ("resourceslices", COUNTERS),
    "all-nodes": ("resourceslices", ALL),
    "rule": ("devicetaintrules", RULE),
}
TEXTS = [
    "",
    "Bad_",
    "a.b",
    "x" * 64,
    "x" * 254,
    "a/b",
    "a/b/c",
    "/b",
    "a/",
    "a..b",
    "é",
    "-1",
    "Odd",
    "All",
    "Exists",
    "NoExecute",
    "gpu.example.com/" + "y" * 40,
    "2",
    "100Gi",
    "1.5Gi",
]
NUMBERS = [0, -1, 33]


def spoiled(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The value, changed in one place: (what was done, new value)."""
    if isinstance(value, dict):
        for key in value:
            rest = {k: v for k, v in value.items() if k != key}
            yield f"{path}.{key} gone", rest
            for what, new in spoiled(value[key], f"{path}.{key}"):
                yield what, {**value, key: new}
        if path.endswith(("attributes", "capacity", "counters", "requests", "labels", "annotations")) and value:
            first = next(iter(value.values()))
            for name in [
                "",
                "Bad-",
                "x" * 33,
                "/a",
                "a/",
                "A_/b",
                "a/b/c",
                "x" * 64 + "/b",
                "e.com/" + "x" * 33,
                "e.com/1",
                "x" * 300,
            ]:
                yield f"{path} key {name[:20]}", {name: first, **value}
            yield f"{path} many", {f"k{i}": first for i in range(33)}
        if path:
            yield f"{path} empty", {}
    elif isinstance(value, list):
        for index, item in enumerate(value):
            for what, new in spoiled(item, f"{path}[{index}]"):
                yield what, [*value[:index], new, *value[index + 1 :]]
        yield f"{path} none", []
        yield f"{path} twice", [*value, copy.deepcopy(value[0])]
        for count in (5, 9, 17, 33, 65, 129):
            yield (
                f"{path} x{count}",
                [
                    ({**value[0], "name": f"i{i}"} if isinstance(value[0], dict) and "name" in value[0] else value[0])
                    for i in range(count)
                ],
            )
    elif isinstance(value, bool):
        yield f"{path} flipped", not value
    elif isinstance(value, int):
        for number in NUMBERS:
            yield f"{path}={number}", number
    elif isinstance(value, str):
        for text in TEXTS:
            yield f"{path}={text[:30]!r}({len(text)})", text


def _device(**more: Json) -> Json:
    return {**ALL, "devices": [{"name": "a", **more}]}


def _shared(value: str, policy: Json) -> Json:
    return _device(allowMultipleAllocations=True, capacity={"m": {"value": value, "requestPolicy": policy}})


def _claim(*requests: Json, **more: Json) -> Json:
    return {"devices": {"requests": list(requests), **more}}


def _exact(**more: Json) -> Json:
    return _claim({"name": "r", "exactly": {**EXACT, **more}})


def _opaque(**more: Json) -> Json:
    return _claim(config=[{"opaque": {"driver": "a.com", **more}}])


SLICES: Final[dict[str, Json]] = {
    "nothing": {},
    "a driver only": {"driver": "a.com"},
    "devices and counters": {**SLICE, "sharedCounters": COUNTERS["sharedCounters"]},
    "two places": {**SLICE, "allNodes": True},
    "three places": {**SLICE, "allNodes": True, "nodeSelector": SELECTOR},
    "perDeviceNodeSelection false": {**SLICE, "perDeviceNodeSelection": False},
    "allNodes false": {**SLICE, "allNodes": False},
    "a device on a node": _device(nodeName="n"),
    "a device on selected nodes": _device(nodeSelector=SELECTOR),
    "a device on all nodes": _device(allNodes=True),
    "a device not on all nodes": _device(allNodes=False),
    "a device in two places": {**PER_DEVICE, "devices": [{"name": "a", "nodeName": "n1", "allNodes": True}]},
    "a driver in capitals": {**ALL, "driver": "GPU.Example.com"},
    "no value of an attribute": _device(attributes={"a": {}}),
    "two values of an attribute": _device(attributes={"a": {"int": 1, "string": "x"}}),
    "33 attributes and capacities": _device(
        attributes={f"a{i}": {"int": 1} for i in range(20)}, capacity={f"c{i}": {"value": "1"} for i in range(13)}
    ),
    "lists": _device(
        attributes={
            "a": {"strings": ["x", "y" * 65]},
            "b": {"versions": ["1.2.3", "1"]},
            "c": {"ints": []},
            "d": {"bools": [True]},
        }
    ),
    "48 values": _device(attributes={"a": {"ints": list(range(48))}}),
    "49 values": _device(attributes={"a": {"ints": list(range(49))}}),
    "65 tainted devices": {
        **ALL,
        "devices": [{"name": f"d{i}", "taints": [{"key": "a", "effect": "None"}]} for i in range(65)],
    },
    "a policy of a dedicated device": _device(capacity={"m": {"value": "1", "requestPolicy": {"default": "1"}}}),
    "both policies": _shared("4", {"default": "1", "validValues": ["1"], "validRange": {"min": "1"}}),
    "a policy without default": _shared("4", {"validValues": ["1"]}),
    "a default only": _shared("4", {"default": "5"}),
    "11 valid values": _shared("40", {"default": "1", "validValues": [str(i) for i in range(1, 12)]}),
    "values up to the capacity": _shared("4", {"default": "4", "validValues": ["2", "4"]}),
    "a range up to the capacity": _shared("4", {"default": "4", "validRange": {"min": "1", "max": "4", "step": "3"}}),
    "unsorted values": _shared("40", {"default": "1", "validValues": ["3", "1", "1"]}),
    "overlapping conditions": _device(bindingConditions=["a"], bindingFailureConditions=["a"]),
    "binding conditions only": _device(bindingConditions=["a"]),
    "failure conditions only": _device(bindingFailureConditions=["a"]),
    "conditions twice": _device(bindingConditions=["a", "a"], bindingFailureConditions=["b", "b"]),
    **{
        f"version {text[:24]}": _device(attributes={"a": {"version": text}})
        for text in ("1.2.3-" + "x" * 70, "99999999999999999999.2.3", "v1.2.3", "1.02.3", "1.2.3-01", "1.2.3+01")
    },
    "a long text": _device(attributes={"a": {"string": "é" * 33}}),
    "allocatable resources": _device(
        capacity={"c": {"value": "4"}},
        nodeAllocatableResourceMappings={
            "cpu": {"capacityKey": "c"},
            "odd": {"capacityKey": "x", "allocationMultiplier": "0"},
        },
    ),
}
CLAIMS: Final[dict[str, Json]] = {
    "nothing": {},
    "no requests": {"devices": {}},
    "both kinds of a request": _claim(
        {"name": "r", "exactly": EXACT, "firstAvailable": [{"name": "a", "deviceClassName": "x"}]}
    ),
    "no kind of a request": _claim({"name": "r"}),
    "two bad requests": _claim(
        {"name": "Bad_", "exactly": {"deviceClassName": "Bad_", "count": -1}}, {"name": "", "exactly": {}}
    ),
    "admin access": _exact(adminAccess=True),
    "a count of all": _exact(allocationMode="All"),
    "a long expression": _exact(selectors=[{"cel": {"expression": "x" * 10241}}]),
    "an empty selector": _exact(selectors=[{}]),
    "no expression": _exact(selectors=[{"cel": {}}]),
    "bare tolerations": _exact(tolerations=[{"operator": "Equal", "value": "v"}, {}]),
    "a constraint of both kinds": _claim(constraints=[{"matchAttribute": "a.com/b", "distinctAttribute": "a.com/b"}]),
    "a constraint of no kind": _claim(constraints=[{}]),
    "a list of parameters": _opaque(parameters=[1]),
    "no parameters": _opaque(),
    "long parameters": _opaque(parameters={"a": "x" * 10240}),
    "no opaque parameters": _claim(config=[{}]),
}


def some_cases(every: int) -> list[Case]:
    """All that were thought of, and each `every`th of the others; all with NIGHTLY=1."""
    return [case for index, case in enumerate(cases()) if IS_NIGHT or " with " in case.name or index % every == 0]


def cases() -> Iterator[Case]:
    """All of them, always in the same order."""
    for name, (resource, spec) in OBJECTS.items():
        yield Case(f"{name} as it is", resource, spec)
        for what, new in spoiled(spec):
            if not (name == "template" and what.startswith(".spec")):
                yield Case(f"{name} {what}", resource, new)
    for kind, resource, specs in (("slice", "resourceslices", SLICES), ("claim", "resourceclaims", CLAIMS)):
        for name, spec in specs.items():
            yield Case(f"{kind} with {name}", resource, spec)
