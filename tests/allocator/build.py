"""Builders for cases written by hand: the shortest form that still shows what the case is about."""

from __future__ import annotations

from typing import Any

from allocator import Features, Shortcuts
from tests.allocator.cases import ask

Json = dict[str, Any]
DRIVER = "driver-a"
NODE = {"metadata": {"name": "node-1", "labels": {"region": "region-1", "planet": "earth"}}}


def value(content: Any) -> Json:
    """An attribute value of the kind its Python type tells; `v1.2.3`-like texts are versions."""
    if isinstance(content, bool):
        return {"bool": content}
    if isinstance(content, int):
        return {"int": content}
    if isinstance(content, list):
        return {"strings" if isinstance(content[0], str) else "ints": content}
    if isinstance(content, dict):
        return content
    return {"version": content[1:]} if content[:1] == "v" and content[1:2].isdigit() else {"string": content}


def device(name: str, *, memory: str | Json | None = None, counters: Json | None = None, **more: Any) -> Json:
    """A device; keyword arguments that are no fields of the API are attributes."""
    fields = {
        key: more.pop(key)
        for key in (
            "taints",
            "allowMultipleAllocations",
            "bindingConditions",
            "bindingFailureConditions",
            "bindsToNode",
            "nodeName",
            "nodeSelector",
            "allNodes",
            "consumesCounters",
            "capacity",
        )
        if key in more
    }
    obj: Json = {"name": name, **fields}
    if more:
        obj["attributes"] = {key.replace("__", "/").replace("_", "."): value(content) for key, content in more.items()}
    if memory is not None:
        obj["capacity"] = {"memory": memory if isinstance(memory, dict) else {"value": memory}}
    if counters is not None:
        amounts = {name: {"value": str(amount)} for name, amount in counters.items()}
        obj["consumesCounters"] = [{"counterSet": "set", "counters": amounts}]
    return obj


def pool(
    *devices: Json,
    name: str = "pool-1",
    driver: str = DRIVER,
    slice_name: str = "",
    size: int = 1,
    generation: int = 1,
    counters: Json | None = None,
    **selection: Any,
) -> Json:
    """One slice. `size` is the pool's resourceSliceCount; without a selection it is for node-1."""
    spec: Json = {
        "driver": driver,
        "pool": {"name": name, "generation": generation, "resourceSliceCount": size},
        **(selection or {"nodeName": "node-1"}),
    }
    if counters is not None:
        amounts = {key: {"value": str(amount)} for key, amount in counters.items()}
        spec["sharedCounters"] = [{"name": "set", "counters": amounts}]
    else:
        spec["devices"] = list(devices)
    return {"metadata": {"name": slice_name or f"{name}-{driver}"}, "spec": spec}


def asks(count: int | None = 1, *, cls: str = "class-a", cel: str = "", memory: str = "", **more: Any) -> Json:
    """What a request asks for; count None means all devices."""
    details: Json = {"deviceClassName": cls, **more}
    if count is None:
        details["allocationMode"] = "All"
    else:
        details |= {"allocationMode": "ExactCount", "count": count}
    if cel:
        details["selectors"] = [{"cel": {"expression": cel}}]
    if memory:
        details["capacity"] = {"requests": {"memory": memory}}
    return details


def request(name: str = "req-0", count: int | None = 1, **more: Any) -> Json:
    return {"name": name, "exactly": asks(count, **more)}


def first_of(name: str, *alternatives: Json) -> Json:
    subs = [{"name": f"sub-{number}", **details} for number, details in enumerate(alternatives)]
    return {"name": name, "firstAvailable": subs}


def claim(*requests: Json, name: str = "claim-0", **devices: Any) -> Json:
    spec = {"devices": {"requests": list(requests), **devices}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def device_class(name: str = "class-a", driver: str = DRIVER, **spec: Any) -> Json:
    return {
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}], **spec},
    }


def case(slices: list[Json], claims: list[Json], **more: Any) -> Json:
    classes = more.pop("classes", [device_class(), device_class("class-b", "driver-b")])
    held = [dict(zip(("driver", "pool", "device"), id_.split("/"), strict=True)) for id_ in more.pop("held", ())]
    return {
        "name": "by-hand",
        "node": NODE,
        "slices": slices,
        "classes": classes,
        "claims": claims,
        "allocated": held,
        **more,
    }


def answer(
    slices: list[Json],
    claims: list[Json],
    *,
    features: Features | None = None,
    shortcuts: Shortcuts | None = None,
    **more: Any,
) -> Json:
    options: Json = {} if shortcuts is None else {"shortcuts": shortcuts}
    return ask(case(slices, claims, **more), features=features, **options)


def picked(reply: Json) -> list[str]:
    """`request=device` of every result, in order; the outcome or error instead when there is none."""
    if reply["outcome"] != "allocated":
        return [reply.get("error", reply["outcome"])]
    return [
        f"{result['request']}={result['device']}"
        for allocation in reply["allocations"]
        for result in allocation["devices"].get("results", [])
    ]
