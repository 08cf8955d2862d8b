"""Small random questions with answers by enumeration: every rule once, no search, nothing clever.

The world is one node and complete pools of one generation; what makes pools special is tested elsewhere. A
selector is written twice, as CEL and as a Python function, so that nothing of the code under test judges.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

DRIVERS = ("a.example.com", "b.example.com")
SELECTORS: tuple[tuple[str, Callable[[dict[str, Any]], bool]], ...] = (
    ("true", lambda _: True),
    ("device.attributes[device.driver].color == 1", lambda device: device["color"] == 1),
    ("device.attributes[device.driver].shape < 2", lambda device: device["shape"] < 2),
    ("!device.allowMultipleAllocations", lambda device: not device["shareable"]),
    (
        "device.attributes[device.driver].color != device.attributes[device.driver].shape",
        lambda device: device["color"] != device["shape"],
    ),
)


@dataclass
class World:
    """Devices are plain dicts; positions in `devices` are the order in which they are tried."""

    devices: list[dict[str, Any]] = field(default_factory=list)
    counters: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    claims: list[dict[str, Any]] = field(default_factory=list)


class WorldMaker:
    """Draws all features at once."""

    def __init__(self, rnd: random.Random) -> None:
        self._rnd = rnd

    def make(self) -> World:
        rnd = self._rnd
        world = World()
        self._p = {
            name: rnd.choice((0.0, 0.3, 0.7))
            for name in (
                "counters",
                "groups",
                "shareable",
                "taint",
                "tolerate",
                "used",
                "match",
                "distinct",
                "admin",
                "list",
                "all",
            )
        }
        for driver in DRIVERS[: rnd.choice((1, 1, 2))]:
            for pool in ("p", "q")[: rnd.choice((1, 1, 2))]:
                if self._has("counters"):
                    world.counters[driver, pool] = {"mem": rnd.randrange(2, 7), "cpu": rnd.randrange(2, 7)}
                for index in range(rnd.choice((1, 2, 3, 4)) if not world.devices else rnd.choice((1, 2))):
                    world.devices.append(self._device(world, driver, pool, index))
        for index in range(rnd.choice((1, 1, 2))):
            world.claims.append(self._claim(index))
        return world

    def _has(self, name: str) -> bool:
        return self._rnd.random() < self._p[name]

    def _device(self, world: World, driver: str, pool: str, index: int) -> dict[str, Any]:
        rnd = self._rnd
        shareable = self._has("shareable")
        device: dict[str, Any] = {
            "id": (driver, pool, f"d{index}"),
            "color": rnd.randrange(3),
            "shape": rnd.randrange(3),
            "shareable": shareable,
            "memory": rnd.choice((2, 4, 6)),
            "minimum": rnd.choice((0, 1, 2)) if shareable else 0,
            "taint": self._has("taint"),
            "consumes": {},
            "groups": (),
            "used": "",
            "used_memory": 0,
        }
        if (driver, pool) in world.counters:
            device["consumes"] = {name: rnd.randrange(0, 4) for name in ("mem", "cpu") if rnd.random() < 0.7}
            if device["consumes"] and self._has("groups"):
                device["groups"] = tuple(rnd.sample(("mig", "vgpu", "raw"), rnd.choice((1, 1, 2))))
        if self._has("used"):
            device["used"] = rnd.choice(("share", "whole")) if shareable else "whole"
            device["used_memory"] = rnd.randrange(1, 3) if device["used"] == "share" else 0
        return device

    def _claim(self, index: int) -> dict[str, Any]:
        rnd = self._rnd
        requests = []
        for number in range(rnd.choice((1, 2, 2, 3))):
            if self._has("list"):
                alternatives = [self._alternative(sub=True) for _ in range(rnd.choice((1, 2)))]
                requests.append({"name": f"r{number}", "list": True, "alternatives": alternatives})
            else:
                requests.append({"name": f"r{number}", "list": False, "alternatives": [self._alternative(sub=False)]})
        constraints = []
        for kind in ("match", "distinct"):
            if self._has(kind):
                names = [request["name"] for request in requests]
                scope = rnd.sample(names, rnd.randrange(1, len(names) + 1))
                constraints.append({"kind": kind, "attribute": rnd.choice(("color", "shape")), "scope": scope})
        return {"name": f"c{index}", "requests": requests, "constraints": constraints}

    def _alternative(self, *, sub: bool) -> dict[str, Any]:
        rnd = self._rnd
        return {
            "selector": rnd.randrange(len(SELECTORS)),
            "count": None if self._has("all") and rnd.random() < 0.4 else rnd.choice((1, 1, 2)),
            "tolerates": self._has("tolerate"),
            "admin": not sub and self._has("admin"),
            "memory": rnd.choice((None, None, 1, 2, 3)),
        }


def consumed(device: dict[str, Any], alternative: dict[str, Any]) -> int:
    """Memory a share takes: what is asked for, rounded up to the device's minimum; its default, or all of it."""
    asked = alternative["memory"]
    if device["minimum"]:
        return max(asked, device["minimum"]) if asked is not None else int(device["minimum"])
    return int(device["memory"]) if asked is None else int(asked)


def matches(device: dict[str, Any], alternative: dict[str, Any]) -> bool:
    """What an alternative can be served with as long as nothing is picked, taints and counters aside."""
    return SELECTORS[alternative["selector"]][1](device) and (
        consumed(device, alternative) + device["used_memory"] <= device["memory"]
    )


Pick = tuple[int, str, int, dict[str, Any], tuple[int, ...]]
"""Claim, request, number of the alternative, the alternative, positions of its devices."""


def solutions(world: World) -> Iterator[tuple[Pick, ...]]:
    """Every allowed assignment, in the order in which a search in API order would meet them."""
    options = []
    for index, claim in enumerate(world.claims):
        for request in claim["requests"]:
            choices: list[Pick] = []
            for number, alternative in enumerate(request["alternatives"]):
                fitting = [p for p, device in enumerate(world.devices) if matches(device, alternative)]
                if alternative["count"] is None:
                    combinations: list[tuple[int, ...]] = [tuple(fitting)] if fitting else []
                else:
                    combinations = list(itertools.combinations(fitting, alternative["count"]))
                choices += [(index, request["name"], number, alternative, combination) for combination in combinations]
            options.append(choices)
    return (picks for picks in itertools.product(*options) if is_allowed(world, picks))


def is_allowed(world: World, picks: Sequence[Pick]) -> bool:
    """The rules of the API, one a line."""
    singles = [(pick, position, world.devices[position]) for pick in picks for position in pick[4]]
    return (
        all(device["used"] != "whole" or pick[3]["admin"] for pick, _, device in singles)
        and all(not device["taint"] or pick[3]["tolerates"] for pick, _, device in singles)
        and _given_once(singles)
        and all(_holds(world, claim, index, picks) for index, claim in enumerate(world.claims))
        and _enough_memory(singles)
        and _enough_counters(world, singles)
        and _of_one_group(world, singles)
    )


def _given_once(singles: Sequence[tuple[Pick, int, dict[str, Any]]]) -> bool:
    """Whole devices: once to normal requests, and not to them after admin access; once a claim in any case."""
    taken: dict[int, set[int]] = {}
    for pick, position, device in singles:
        if device["shareable"]:
            continue
        holders = taken.setdefault(position, set())
        if pick[0] in holders or (holders and not pick[3]["admin"]):
            return False
        holders.add(pick[0])
    return True


def _holds(world: World, claim: dict[str, Any], index: int, picks: Sequence[Pick]) -> bool:
    for constraint in claim["constraints"]:
        values = [
            # The attribute is named with a driver's domain: devices of the other driver do not have it.
            world.devices[position][constraint["attribute"]] if world.devices[position]["id"][0] == DRIVERS[0] else None
            for pick in picks
            if pick[0] == index and pick[1] in constraint["scope"]
            for position in pick[4]
        ]
        if None in values:
            return False
        if constraint["kind"] == "match" and len(set(values)) > 1:
            return False
        if constraint["kind"] == "distinct" and len(set(values)) < len(values):
            return False
    return True


def _enough_memory(singles: Sequence[tuple[Pick, int, dict[str, Any]]]) -> bool:
    total: Counter[int] = Counter()
    for pick, position, device in singles:
        if device["shareable"]:
            total[position] += consumed(device, pick[3])
            if total[position] + device["used_memory"] > device["memory"]:
                return False
    return True


def _enough_counters(world: World, singles: Sequence[tuple[Pick, int, dict[str, Any]]]) -> bool:
    """A device is charged once per holder, a shareable one once in all; what is in use is charged already."""
    for (driver, pool), counters in world.counters.items():
        left = dict(counters)
        for device in world.devices:
            if device["used"] and device["id"][:2] == (driver, pool):
                for name, amount in device["consumes"].items():
                    left[name] -= amount
        charged: set[int] = set()
        for _, position, device in singles:
            if device["id"][:2] != (driver, pool) or not device["consumes"]:
                continue
            if device["shareable"] and (position in charged or device["used_memory"]):
                continue
            charged.add(position)
            for name, amount in device["consumes"].items():
                left[name] -= amount
        if charged and any(amount < 0 for amount in left.values()):
            return False
    return True


def _of_one_group(world: World, singles: Sequence[tuple[Pick, int, dict[str, Any]]]) -> bool:
    """Of each counter set: the devices that draw on it, held or picked now, have a group in common, or none has any."""
    for pool in world.counters:
        drawing = [device for device in world.devices if device["id"][:2] == pool and device["consumes"]]
        held = [device for device in drawing if device["used"]]
        new = [
            device
            for _, _, device in singles
            if device in drawing and not (device["shareable"] and device["used_memory"])
        ]
        together = [*held, *new]
        if new and any(device["groups"] for device in together):
            common = set.intersection(*(set(device["groups"]) for device in together))
            if not common:
                return False
    return True


def to_case(world: World) -> dict[str, Any]:
    """The same question in the format of the case file."""
    slices = []
    pools = dict.fromkeys(device["id"][:2] for device in world.devices)
    for driver, pool in pools:
        counters = world.counters.get((driver, pool))
        size = 2 if counters else 1
        meta = {
            "driver": driver,
            "pool": {"name": f"{driver[0]}-{pool}", "generation": 1, "resourceSliceCount": size},
            "nodeName": "node",
        }
        devices = [_api_device(device) for device in world.devices if device["id"][:2] == (driver, pool)]
        slices.append({"metadata": {"name": f"{driver[0]}-{pool}-devices"}, "spec": {**meta, "devices": devices}})
        if counters:
            sets = [{"name": "set", "counters": {name: {"value": str(value)} for name, value in counters.items()}}]
            slices.append(
                {"metadata": {"name": f"{driver[0]}-{pool}-counters"}, "spec": {**meta, "sharedCounters": sets}}
            )
    allocated, shared = [], []
    for device in world.devices:
        driver, pool, name = device["id"]
        key = {"driver": driver, "pool": f"{driver[0]}-{pool}", "device": name}
        if device["used"] == "whole":
            allocated.append(key)
        elif device["used"] == "share":
            shared.append({**key, "shareID": f"old-{name}", "consumedCapacity": {"memory": str(device["used_memory"])}})
    return {
        "name": "small",
        "node": {"metadata": {"name": "node", "labels": {}}},
        "slices": slices,
        "classes": [{"metadata": {"name": "any"}, "spec": {}}],
        "claims": [_api_claim(claim) for claim in world.claims],
        "allocated": allocated,
        "allocatedShared": shared,
    }


def _api_device(device: dict[str, Any]) -> dict[str, Any]:
    memory: dict[str, Any] = {"value": str(device["memory"])}
    if device["minimum"]:
        minimum = str(device["minimum"])
        memory["requestPolicy"] = {"default": minimum, "validRange": {"min": minimum, "step": "1"}}
    api: dict[str, Any] = {
        "name": device["id"][2],
        "attributes": {"color": {"int": device["color"]}, "shape": {"int": device["shape"]}},
        "capacity": {"memory": memory},
    }
    if device["shareable"]:
        api["allowMultipleAllocations"] = True
    if device["taint"]:
        api["taints"] = [{"key": "bad", "effect": "NoSchedule"}]
    if device["consumes"]:
        counters = {name: {"value": str(value)} for name, value in device["consumes"].items()}
        groups = {"compatibilityGroups": list(device["groups"])} if device["groups"] else {}
        api["consumesCounters"] = [{"counterSet": "set", "counters": counters, **groups}]
    return api


def _api_claim(claim: dict[str, Any]) -> dict[str, Any]:
    requests = []
    for request in claim["requests"]:
        alternatives = [_api_alternative(alternative) for alternative in request["alternatives"]]
        if request["list"]:
            subs = [{"name": f"s{number}", **api} for number, api in enumerate(alternatives)]
            requests.append({"name": request["name"], "firstAvailable": subs})
        else:
            requests.append({"name": request["name"], "exactly": alternatives[0]})
    constraints = [
        {f"{constraint['kind']}Attribute": f"{DRIVERS[0]}/{constraint['attribute']}", "requests": constraint["scope"]}
        for constraint in claim["constraints"]
    ]
    return {
        "metadata": {"name": claim["name"], "namespace": "ns"},
        "spec": {"devices": {"requests": requests, "constraints": constraints}},
    }


def _api_alternative(alternative: dict[str, Any]) -> dict[str, Any]:
    api: dict[str, Any] = {
        "deviceClassName": "any",
        "selectors": [{"cel": {"expression": SELECTORS[alternative["selector"]][0]}}],
        "allocationMode": "All" if alternative["count"] is None else "ExactCount",
    }
    if alternative["count"] is not None:
        api["count"] = alternative["count"]
    if alternative["tolerates"]:
        api["tolerations"] = [{"operator": "Exists"}]
    if alternative["admin"]:
        api["adminAccess"] = True
    if alternative["memory"] is not None:
        api["capacity"] = {"requests": {"memory": str(alternative["memory"])}}
    return api


def expected_devices(world: World, picks: Sequence[Pick]) -> list[list[tuple[str, str]]]:
    """Per claim (label, pool and device) of a solution, in the order of the results."""
    results: list[list[tuple[str, str]]] = [[] for _ in world.claims]
    for claim, request, number, _, positions in picks:
        is_list = next(r for r in world.claims[claim]["requests"] if r["name"] == request)["list"]
        label = f"{request}/s{number}" if is_list else request
        for position in positions:
            driver, pool, name = world.devices[position]["id"]
            results[claim].append((label, f"{driver[0]}-{pool}/{name}"))
    return results
