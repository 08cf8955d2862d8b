"""Random cases that draw all features together, in the format of the case file.

What makes upstream's answer wrong or random is left out, or marked in `differs` so that a comparison can
look closer: see docs/differences.md.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tests.allocator.cases import LOCKED_138
from tests.allocator.derived import BROKEN, LISTS, SCALARS

NODE = {"metadata": {"name": "node-a", "labels": {"zone": "z1", "rack": "r7", "gpus": "8"}}}
DRIVERS = ("gpu.example.com", "nic.example.com", "fpga.vendor.io")
MODELS = ("a100", "h100", "t4")
CEL = (
    "true",
    'device.attributes[device.driver].model == "a100"',
    'device.attributes[device.driver].model in ["a100", "t4"]',
    "device.attributes[device.driver].numa == 0",
    "device.attributes[device.driver].index > 0",
    "device.attributes[device.driver].index % 2 == 0",
    "device.allowMultipleAllocations",
    "!device.allowMultipleAllocations",
    "device.attributes[device.driver].?ecc.orValue(false)",
    'has(device.attributes["resource.kubernetes.io"].pcieRoot)',
    'device.attributes["resource.kubernetes.io"].?pcieRoot.orValue("none").endsWith("0")',
    'device.capacity[device.driver].?memory.orValue(quantity("8Gi")).compareTo(quantity("8Gi")) >= 0',
    "device.attributes[device.driver].index < 5",
    'device.attributes[device.driver].version.isGreaterThan(semver("1.0.0"))',
)
BROKEN_CEL = (
    "device.attributes[device.driver].late",
    "device.attributes[device.driver].numa / device.attributes[device.driver].index > 0",
    'device.capacity[device.driver].cores.isGreaterThan(quantity("1"))',
    "nope(device)",
    "device.driver ==",
    "1",
)
ODD_VERSIONS = ("1.2.3+a", "1.2.3+b", "1.2.3-rc.1+a")
TOO_LARGE = "1.0.99999999999999999999"
KEPT = ("name", "nodeName", "nodeSelector", "allNodes", "consumesCounters")
TAINTS = (("broken", "yes"), ("broken", "maybe"), ("maintenance", ""), ("vendor.io/unhealthy", "xid"))


class Generator:
    """Makes cases from a seed; `case()` gives the next one."""

    def __init__(self, seed: int, release: str = "1.36") -> None:
        self.seed = seed
        self.release = release
        self._rnd = random.Random(seed)
        self._number = 0
        self._home = "node-a"

    def case(self) -> dict[str, Any]:
        rnd = self._rnd
        self._number += 1
        self._draw_probabilities()
        slices = self._slices()
        classes = self._classes()
        claims = [self._claim(index) for index in range(rnd.choice((1, 1, 1, 2, 2, 3)))]
        allocated, shared = self._allocated(slices)
        rnd.shuffle(slices)
        case: dict[str, Any] = {
            "name": f"random-{self.seed}-{self._number}",
            "node": self._declaring(NODE),
            "slices": slices,
            "classes": classes,
            "claims": claims,
        }
        if self._features:
            case["features"] = self._features
        if allocated:
            case["allocated"] = allocated
        if shared:
            case["allocatedShared"] = shared
        if self._differs:
            case["differs"] = sorted(self._differs)
        return case

    def _declaring(self, node: dict[str, Any]) -> dict[str, Any]:
        """A node whose kubelet may say that drivers need not be there."""
        if self._p["operations"] and self._rnd.random() < 0.6:
            return {**node, "status": {"declaredFeatures": ["DRAOptionalNodeOperations"]}}
        return node

    def world(self, nodes: Sequence[str]) -> dict[str, Any]:
        """`features`, `slices` and `classes` of a cluster of several nodes; `question` asks about it."""
        self._draw_probabilities()
        drivers = self._rnd.sample(DRIVERS, self._rnd.choice((1, 1, 2, 3)))
        slices: list[dict[str, Any]] = []
        for number, node in enumerate(nodes):
            self._home = node
            # A driver's pool names are its own; some, of slices for all nodes, are drawn for one node only.
            slices += self._slices(drivers, prefix=f"{node}-" if number else "")
        return {"features": self._features, "slices": slices, "classes": self._classes()}

    def question(self) -> tuple[list[dict[str, Any]], list[str]]:
        """(Claims of one pod, the listed differences that they can show)."""
        self._differs.clear()
        claims = [self._claim(index) for index in range(self._rnd.choice((1, 1, 1, 2, 2, 3)))]
        return claims, sorted(self._differs)

    def changed(self, slice_: dict[str, Any]) -> dict[str, Any]:
        """The slice as its driver might publish it next: other devices under the same names."""
        spec = slice_["spec"]
        counter_sets: list[dict[str, Any]] = []
        devices = [
            {**self._device(index, counter_sets), **{key: device[key] for key in KEPT if key in device}}
            if self._rnd.random() < 0.4
            else device
            for index, device in enumerate(spec.get("devices", ()))
            if self._rnd.random() < 0.9
        ]
        return {**slice_, "spec": {**spec, **({"devices": devices} if "devices" in spec else {})}}

    def _draw_probabilities(self) -> None:
        rnd = self._rnd
        self._p = {  # swarm: each case switches features on with its own probabilities
            name: rnd.choice((0.0, 0.0, 0.15, 0.3, 0.8))
            for name in (
                *("counters", "shared", "policy", "taints", "tolerations", "binding", "binds", "admin", "list"),
                *("all", "constraints", "distinct", "config", "capacity", "selectors", "per_device", "selector"),
                *("all_nodes", "old", "split", "foreign", "incomplete", "allocated", "pcie", "lists"),
            )
        }
        own = self.release != "1.36"
        self._p["groups"] = rnd.choice((0.0, 0.3, 0.6, 0.9)) if own else 0.0
        self._p["operations"] = rnd.choice((0.0, 0.0, 0.3, 0.7)) if own else 0.0
        self._p["derived"] = rnd.choice((0.0, 0.0, 0.0, 0.5, 0.8)) if own else 0.0
        self._p["fractions"] = rnd.choice((0.0, 1.0)) if own else 0.0
        # What 1.38 answers otherwise, and what is not asked of those before: names with and without their driver,
        # versions with a build or too large, shares of a device that is shared no more.
        self._p["odd"] = rnd.choice((0.0, 0.1, 0.5)) if self.release not in ("1.36", "1.37") else 0.0
        self._p["constraints"] = max(self._p["constraints"], self._p["derived"])
        self._p["incomplete"] *= 0.06
        self._p["foreign"] *= 0.5
        self._p["capacity"] *= 0.5
        self._p["selectors"] *= 0.6
        self._p["broken"] = rnd.choice((0.0, 0.0, 0.0, 0.1))
        self._differs: set[str] = set()
        self._features = self._draw_features()

    def _has(self, name: str) -> bool:
        return self._rnd.random() < self._p[name]

    def _is_odd(self) -> bool:
        """Without a draw where nothing is: the cases of the releases before stay as they are."""
        return self._p["odd"] > 0 and self._has("odd")

    def _spelled(self, driver: str, amounts: dict[str, Any]) -> dict[str, Any]:
        """Some names with their driver."""
        return {
            f"{driver}/{name}" if "/" not in name and self._is_odd() else name: amount
            for name, amount in amounts.items()
        }

    def _draw_features(self) -> dict[str, bool]:
        rnd = self._rnd
        own = {"CompatibilityGroups": True} if self._p["groups"] else {}
        own |= {"OptionalNodeOperations": True} if self._p["operations"] else {}
        own |= {"DerivedAttributes": rnd.random() < 0.97} if self._p["derived"] else {}
        own |= {"FractionalCapacityRange": True} if self._p["fractions"] else {}
        if rnd.random() < 0.75:
            return own
        names = ("AdminAccess", "DeviceTaints", "PartitionableDevices", "PrioritizedList", "ConsumableCapacity")
        features = {name: False for name in names if rnd.random() < 0.12}
        if "ConsumableCapacity" not in features and rnd.random() < 0.15:
            features["DeviceBindingAndStatus"] = False
        if rnd.random() < 0.3:
            features["ListTypeAttributes"] = True
        if self.release not in ("1.36", "1.37"):
            features = {name: on for name, on in features.items() if name not in LOCKED_138}
        return features | own

    # --- slices -----------------------------------------------------------------------------------------

    def _slices(self, drivers: Sequence[str] = (), prefix: str = "") -> list[dict[str, Any]]:
        rnd = self._rnd
        slices: list[dict[str, Any]] = []
        self._pool_names: dict[str, str] = {}
        self._drivers = list(drivers) or rnd.sample(DRIVERS, rnd.choice((1, 1, 2, 3)))
        for driver in self._drivers:
            for number in range(rnd.choice((1, 1, 2, 3))):
                # Upstream mixes counters of equal pool names up, so names with counters belong to one driver.
                name = prefix + rnd.choice((f"pool-{number}", f"node-a/{driver.partition('.')[0]}-{number}"))
                has_counters = self._has("counters") and name not in self._pool_names
                if self._pool_names.get(name) == "counters":
                    name = f"{prefix}{driver.partition('.')[0]}-{number}-x"
                self._pool_names[name] = "counters" if has_counters else "plain"
                slices += self._pool(driver, name, has_counters)
        return slices

    def _selection(self) -> dict[str, Any]:
        rnd = self._rnd
        if self._has("selector"):
            key, operator, values = rnd.choice(
                (
                    ("zone", "In", ["z1", "z2"]),
                    ("rack", "Exists", []),
                    ("gpus", "Gt", ["4"]),
                    ("zone", "NotIn", ["z2"]),
                    ("zone", "NotIn", ["z1"]),
                )
            )
            requirement = {"key": key, "operator": operator, **({"values": values} if values else {})}
            return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}
        if self._has("all_nodes"):
            return {"allNodes": True}
        if rnd.random() < 0.03:
            return {"nodeName": "node-b"}
        return {"nodeName": "node-b" if self._has("foreign") and rnd.random() < 0.5 else self._home}

    def _pool(self, driver: str, name: str, has_counters: bool) -> list[dict[str, Any]]:
        rnd = self._rnd
        generation = rnd.choice((1, 2, 7))
        specs: list[dict[str, Any]] = []
        counter_sets: list[dict[str, Any]] = []
        if has_counters:
            for index in range(rnd.choice((1, 1, 2))):
                counters = {
                    counter: {"value": rnd.choice(("4", "8", "10Gi", "8Gi", "3500m", "16"))}
                    for counter in rnd.sample(("memory", "slices", "cores"), rnd.choice((1, 2, 3)))
                }
                counter_sets.append({"name": f"set-{index}", "counters": counters})
            specs.append({**self._selection(), "sharedCounters": counter_sets})
        count = rnd.choice((1, 3, 4, 6, 8, 8, 10))
        devices = [self._device(index, counter_sets) for index in range(count)]
        for device in devices:
            if "capacity" in device:
                device["capacity"] |= self._spelled(driver, device["capacity"]) if self._is_odd() else {}
                device["capacity"] = self._spelled(driver, device["capacity"])
        parts = [devices]
        if count > 1 and self._has("split"):
            cut = rnd.randrange(1, count)
            parts = [devices[:cut], devices[cut:]]
        for part in parts:
            if self._has("per_device"):
                for device in part:
                    device.update(self._selection())
                specs.append({"perDeviceNodeSelection": True, "devices": part})
            else:
                specs.append({**self._selection(), "devices": part})
        size = len(specs) + (1 if self._has("incomplete") else 0)
        if self._has("incomplete") and len(devices) > 1:
            specs[-1]["devices"] = [*specs[-1]["devices"], dict(specs[-1]["devices"][0])]
        pool = {"name": name, "generation": generation, "resourceSliceCount": size}
        slices = [
            {
                "metadata": {"name": f"{name.replace('/', '-')}-{driver[:3]}-{rnd.randrange(10**6):06d}"},
                "spec": {"driver": driver, "pool": pool, **spec, **self._operations(spec)},
            }
            for spec in specs
        ]
        if self._has("old") and rnd.random() < 0.4:
            old = {"name": name, "generation": generation - rnd.choice((1, 1, -1)), "resourceSliceCount": 1}
            slices.append(
                {
                    "metadata": {"name": f"{name.replace('/', '-')}-{driver[:3]}-old"},
                    "spec": {"driver": driver, "pool": old, **self._selection(), "devices": [self._device(0, [])]},
                }
            )
        return slices

    def _operations(self, spec: dict[str, Any]) -> dict[str, Any]:
        skipped = self._features.get("OptionalNodeOperations") and "devices" in spec and self._has("operations")
        return {"skipNodeOperations": self._rnd.choice((["*"], ["NodeUnprepareResources"], []))} if skipped else {}

    def _device(self, index: int, counter_sets: list[dict[str, Any]]) -> dict[str, Any]:
        rnd = self._rnd
        attributes: dict[str, Any] = {
            "model": {"string": rnd.choice(MODELS)},
            "index": {"int": index},
            "numa": {"int": rnd.choice((0, 0, 1))},
            "version": {"version": rnd.choice(("0.9.1", "1.2.3", "2.0.0-rc.1"))},
        }
        if self._is_odd():
            attributes["version"] = {"version": rnd.choice(ODD_VERSIONS) if rnd.random() < 0.95 else TOO_LARGE}
        if rnd.random() < 0.4:
            attributes["ecc"] = {"bool": rnd.random() < 0.5}
        if self._has("pcie"):
            attributes["resource.kubernetes.io/pcieRoot"] = {"string": f"pci0000:0{rnd.randrange(3)}"}
        if self._features.get("ListTypeAttributes") and self._has("lists"):
            attributes["links"] = rnd.choice(
                (
                    {"strings": rnd.sample(["w", "x", "y", "z"], rnd.choice((1, 2, 3)))},
                    {"string": rnd.choice("wxyz")},
                    {"ints": rnd.sample([1, 2, 3], 2)},
                )
            )
        device: dict[str, Any] = {"name": f"dev-{index}", "attributes": attributes}
        is_shared = self._has("shared")
        if is_shared:
            device["allowMultipleAllocations"] = True
        capacity = {}
        if rnd.random() < 0.85:
            capacity["memory"] = {"value": rnd.choice(("8Gi", "16Gi", "40Gi", "4Gi"))}
        if rnd.random() < 0.3:
            capacity["cores"] = {"value": rnd.choice(("2", "4", "1500m"))}
        if is_shared:
            for name, entry in capacity.items():
                if self._has("policy"):
                    entry["requestPolicy"] = self._policy(name, entry["value"])
        if capacity:
            device["capacity"] = capacity
        if counter_sets and rnd.random() < 0.85:
            device["consumesCounters"] = [
                {
                    "counterSet": counter_set["name"],
                    **self._groups(),
                    "counters": {
                        name: {"value": self._part(counter["value"])}
                        for name, counter in counter_set["counters"].items()
                        if rnd.random() < 0.8
                    }
                    or {next(iter(counter_set["counters"])): {"value": "1"}},
                }
                for counter_set in counter_sets
                if rnd.random() < 0.7
            ] or None
            if device["consumesCounters"] is None:
                del device["consumesCounters"]
        if self._has("taints"):
            device["taints"] = [
                {
                    "key": key,
                    "effect": rnd.choice(("NoSchedule", "NoExecute", "None")),
                    **({"value": value} if value else {}),
                }
                for key, value in rnd.sample(TAINTS, rnd.choice((1, 1, 2)))
            ]
        if self._has("binding"):
            device["bindingConditions"] = ["ready"]
            device["bindingFailureConditions"] = ["failed"]
        if self._has("binds"):
            device["bindsToNode"] = True
        return device

    def _groups(self) -> dict[str, Any]:
        """What 1.37 has for a device's part in a counter set."""
        if not self._features.get("CompatibilityGroups") or not self._has("groups"):
            return {}
        return {"compatibilityGroups": self._rnd.sample(("mig", "vgpu", "raw"), self._rnd.choice((1, 1, 2)))}

    def _part(self, value: str) -> str:
        rnd = self._rnd
        if value.endswith("Gi"):
            return rnd.choice(("1Gi", "2Gi", "3Gi", "4Gi"))
        return rnd.choice(("1", "2", "3", "500m"))

    def _policy(self, name: str, value: str) -> dict[str, Any]:
        rnd = self._rnd
        if name == "memory":
            kind = rnd.randrange(4)
            if kind == 0:
                return {"default": rnd.choice(("1Gi", "2Gi"))}
            if kind == 1:
                return {"default": "2Gi", "validValues": ["1Gi", "2Gi", "4Gi"]}
            if kind == 2:
                return {"default": "2Gi", "validRange": {"min": "1Gi", "max": "4Gi", "step": "1Gi"}}
            return {"default": "3Gi", "validRange": {"min": "1Gi", "step": "2Gi"}}
        if value == "1500m":
            return {"default": "500m", "validRange": {"min": "500m", "max": "1500m"}}
        return rnd.choice(({"default": "1"}, {"default": "1", "validValues": ["1", "2"]}, {"default": "500m"}))

    # --- classes and claims -----------------------------------------------------------------------------

    def _classes(self) -> list[dict[str, Any]]:
        rnd = self._rnd
        classes = []
        self._class_names = []
        for driver in self._drivers:
            name = driver.partition(".")[0]
            self._class_names.append(name)
            spec: dict[str, Any] = {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]}
            if self._has("selectors") and rnd.random() < 0.3:
                spec["selectors"].append({"cel": {"expression": self._expression()}})
            if self._has("config"):
                spec["config"] = [{"opaque": {"driver": driver, "parameters": {"from": name}}}]
            classes.append({"metadata": {"name": name}, "spec": spec})
        classes.append({"metadata": {"name": "any"}, "spec": {}})
        self._class_names += ["any"] if rnd.random() < 0.5 else []
        if self._has("broken"):
            self._class_names.append("missing")
        return classes

    def _expression(self) -> str:
        return self._rnd.choice(BROKEN_CEL if self._has("broken") else CEL)

    def _details(self, *, is_sub: bool) -> dict[str, Any]:
        rnd = self._rnd
        details: dict[str, Any] = {"deviceClassName": rnd.choice(self._class_names)}
        if self._has("all") and rnd.random() < 0.4:
            details["allocationMode"] = "All"
        else:
            details["allocationMode"] = "ExactCount"
            details["count"] = rnd.choice((1, 1, 1, 1, 2, 2, 3, 4))
        if self._has("selectors"):
            details["selectors"] = [{"cel": {"expression": self._expression()}} for _ in range(rnd.choice((1, 1, 2)))]
        if not is_sub and self._has("admin") and rnd.random() < 0.5:
            details["adminAccess"] = True
        if self._has("tolerations"):
            details["tolerations"] = [
                rnd.choice(
                    (
                        {"operator": "Exists"},
                        {"key": "broken", "operator": "Exists"},
                        {"key": "broken", "operator": "Equal", "value": "yes"},
                        {"key": "maintenance", "operator": "Exists", "effect": "NoSchedule"},
                    )
                )
            ]
        if self._has("capacity"):
            amounts = {
                name: rnd.choice(("1Gi", "2Gi", "3Gi", "5Gi") if name == "memory" else ("1", "500m", "2"))
                for name in rnd.choice((("memory",), ("memory",), ("memory",), ("cores",), ("memory", "cores")))
            }
            details["capacity"] = {"requests": self._spelled(self._drivers[0], amounts)}
        if self._has("derived"):
            names = (*(f"{driver}/numa" for driver in self._drivers), "derived/key", "resource.kubernetes.io/pcieRoot")
            details["derivedAttributes"] = [
                {"name": name, "expression": self._derived()} for name in rnd.sample(names, rnd.choice((1, 2, 3)))
            ]
        return details

    def _derived(self) -> str:
        lists = LISTS if self._features.get("ListTypeAttributes") or self._rnd.random() < 0.1 else {}
        expressions = [*SCALARS, *lists, *(BROKEN if self._has("broken") else ())]
        return self._rnd.choice(expressions)

    def _claim(self, index: int) -> dict[str, Any]:
        rnd = self._rnd
        requests: list[dict[str, Any]] = []
        for number in range(rnd.choice((1, 1, 2, 2, 3))):
            name = f"r{number}"
            if self._has("list"):
                subs = [{"name": f"s{sub}", **self._details(is_sub=True)} for sub in range(rnd.choice((1, 2, 2, 3)))]
                requests.append({"name": name, "firstAvailable": subs})
            else:
                requests.append({"name": name, "exactly": self._details(is_sub=False)})
        devices: dict[str, Any] = {"requests": requests}
        references = [request["name"] for request in requests]
        references += [
            f"{request['name']}/{sub['name']}" for request in requests for sub in request.get("firstAvailable", ())
        ]
        if self._has("constraints"):
            devices["constraints"] = [self._constraint(requests, references) for _ in range(rnd.choice((1, 1, 2)))]
        if self._has("config"):
            devices["config"] = [
                {
                    "opaque": {"driver": rnd.choice(self._drivers), "parameters": {"from": f"claim-{number}"}},
                    **({"requests": rnd.sample(references, 1)} if rnd.random() < 0.6 else {}),
                }
                for number in range(rnd.choice((1, 2)))
            ]
        return {"metadata": {"name": f"claim-{index}", "namespace": "default"}, "spec": {"devices": devices}}

    def _constraint(self, requests: list[dict[str, Any]], references: list[str]) -> dict[str, Any]:
        rnd = self._rnd
        driver = rnd.choice(self._drivers)
        names = [f"{driver}/numa", f"{driver}/model", "resource.kubernetes.io/pcieRoot", f"{driver}/index"]
        if self._features.get("ListTypeAttributes"):
            names += [f"{driver}/links"] * 2
        names += [f"{driver}/version"] * 4 if self._p["odd"] else []
        names += ["derived/key", f"{driver}/numa"] * 3 if self._p["derived"] else []
        constraint: dict[str, Any] = {}
        if rnd.random() < 0.6:
            constraint["requests"] = rnd.sample(references, rnd.randrange(1, len(references) + 1))
        attribute = rnd.choice(names)
        if self._has("distinct"):
            constraint["distinctAttribute"] = attribute
            if any(
                alternative["allocationMode"] == "All" or alternative["count"] > 1
                for request in requests
                for alternative in request.get("firstAvailable") or [request["exactly"]]
            ):
                self._differs.add("distinct-forgets")
        else:
            constraint["matchAttribute"] = attribute
            if attribute.endswith("/links"):
                self._differs.add("intersection-not-restored")
        return constraint

    # --- what is in use ---------------------------------------------------------------------------------

    def _allocated(self, slices: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        rnd = self._rnd
        allocated: list[dict[str, Any]] = []
        shared: list[dict[str, Any]] = []
        seen = set()
        for slice_ in slices:
            spec = slice_["spec"]
            for device in spec.get("devices", ()):
                key = {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
                if tuple(key.values()) in seen or not self._has("allocated") or rnd.random() < 0.5:
                    continue
                seen.add(tuple(key.values()))
                is_shared = device.get("allowMultipleAllocations") and rnd.random() < 0.8
                # With the gate off a scheduler holds the devices of shares whole.
                can_share = self._features.get("ConsumableCapacity", True) or self.release in ("1.36", "1.37")
                if can_share and (is_shared or self._is_odd()):
                    for number in range(rnd.choice((1, 1, 2))):
                        consumed = {
                            name: rnd.choice(("1Gi", "2Gi") if name == "memory" else ("1", "500m"))
                            for name in {name.rpartition("/")[2]: None for name in device.get("capacity", ())}
                        }
                        consumed = self._spelled(spec["driver"], consumed)
                        share: dict[str, Any] = {**key, "shareID": f"old-{len(shared)}-{number}"}
                        if consumed:
                            share["consumedCapacity"] = consumed
                        shared.append(share)
                else:
                    allocated.append(key)
        return allocated, shared
