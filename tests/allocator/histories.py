"""Random histories: one inventory and one record of what is in use, asked again and again while both change.

Go answers each question afresh, from a snapshot; ours keeps what it derived from earlier questions, for other nodes
and other claims. So a wrong answer here means something that should have been forgotten, or shown to nobody else.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from allocator import (
    ALL_SHORTCUTS,
    AllocationError,
    AllocationRequest,
    DeviceId,
    InUse,
    Shortcuts,
    allocate,
    candidate_nodes,
    decode_class,
    decode_slice,
)
from cel.quantity import Quantity
from tests.allocator.cases import answer_of, claims_of, features_of, inventory_of, node_of, share_ids
from tests.allocator.generator import NODE, Generator

LENGTH = 20
BUDGET = 200_000
NODES: Sequence[dict[str, Any]] = (
    NODE,
    {"metadata": {"name": "node-b", "labels": {"zone": "z2", "rack": "r1", "gpus": "2"}}},
    {"metadata": {"name": "node-c", "labels": {"zone": "z1"}}},
)

Answer = dict[str, Any]


class History:
    """Questions to one inventory. `steps` gives (the snapshot as a case, our answer)."""

    def __init__(self, seed: int, shortcuts: Shortcuts = ALL_SHORTCUTS, release: str = "1.36") -> None:
        self._name = f"history-{seed}"
        self._rnd = random.Random(f"history {seed}")
        self._shortcuts = shortcuts
        self._generator = Generator(seed, release)
        world = self._generator.world([node["metadata"]["name"] for node in NODES])
        self._features = world["features"]
        self._slices = {slice_["metadata"]["name"]: slice_ for slice_ in world["slices"]}
        self._classes = {class_["metadata"]["name"]: class_ for class_ in world["classes"]}
        self._withdrawn: list[dict[str, Any]] = []
        self._held: list[dict[str, Any]] = []
        self._inventory = inventory_of({"slices": self._slices.values(), "classes": self._classes.values()})
        self._in_use = InUse()
        self._share = 0

    def steps(self, length: int = LENGTH) -> Iterator[tuple[dict[str, Any], Answer]]:
        asked: list[tuple[list[dict[str, Any]], list[str]]] = []
        for number in range(length):
            for _ in range(self._rnd.choice((0, 0, 0, 1, 2))):
                self._change()
            if not asked or self._rnd.random() < 0.4:
                asked.append(self._generator.question())
            claims, differs = self._rnd.choice(asked)
            case = {
                "name": f"{self._name}-{number}",
                "node": self._rnd.choice(NODES),
                "slices": list(self._slices.values()),
                "classes": list(self._classes.values()),
                "claims": claims,
                "features": self._features,
                "allocated": [held for held in self._held if "shareID" not in held],
                "allocatedShared": [held for held in self._held if "shareID" in held],
                "differs": differs,
            }
            ours = self._ask(case)
            yield case, ours
            if ours["outcome"] == "allocated" and self._rnd.random() < 0.5:
                self._hold(ours["allocations"])

    def _ask(self, case: dict[str, Any]) -> Answer:
        claims, features, node = claims_of(case), features_of(case, kubernetes=self._generator.release), node_of(case)
        try:
            candidates = candidate_nodes(claims, self._inventory, features)
            outcome = allocate(
                AllocationRequest(
                    claims,
                    node,
                    self._inventory,
                    self._in_use,
                    features=features,
                    budget_steps=BUDGET,
                    share_ids=share_ids(),
                ),
                shortcuts=self._shortcuts,
            )
        except AllocationError as error:
            of_node = {"nodeOnly": True} if error.is_of_node else {}
            return {"outcome": "error", "error": str(error), "is_candidate": True, **of_node}
        return {**answer_of(outcome), "is_candidate": candidates is None or node.name in candidates}

    # --- changes ----------------------------------------------------------------------------------------

    def _change(self) -> None:
        rnd = self._rnd
        change = rnd.choice((self._publish, self._publish, self._withdraw, self._renew, self._classify, self._release))
        change()

    def _put(self, slice_: dict[str, Any]) -> None:
        self._slices[slice_["metadata"]["name"]] = slice_
        self._inventory.put_slice(decode_slice(slice_))

    def _publish(self) -> None:
        if self._withdrawn and self._rnd.random() < 0.5:
            self._put(self._withdrawn.pop())
        elif self._slices:
            self._put(self._generator.changed(self._rnd.choice(list(self._slices.values()))))

    def _withdraw(self) -> None:
        if self._slices:
            slice_ = self._slices.pop(self._rnd.choice(list(self._slices)))
            self._inventory.remove_slice(slice_["metadata"]["name"])
            self._withdrawn.append(slice_)

    def _renew(self) -> None:
        """A pool's next generation, one slice at a time; sometimes only a part of it."""
        if not self._slices:
            return
        of = self._rnd.choice(list(self._slices.values()))["spec"]
        members = [
            slice_
            for slice_ in self._slices.values()
            if slice_["spec"]["driver"] == of["driver"] and slice_["spec"]["pool"]["name"] == of["pool"]["name"]
        ]
        newest = max(slice_["spec"]["pool"]["generation"] for slice_ in members)
        # Upstream's answer depends on the order of slices that disagree about their number: these agree.
        pool = {**of["pool"], "generation": newest + 1, "resourceSliceCount": len(members)}
        for slice_ in members:
            self._put({**slice_, "spec": {**slice_["spec"], "pool": pool}})
            if self._rnd.random() < 0.1:
                return

    def _classify(self) -> None:
        name = self._rnd.choice(list(self._classes))
        selectors = [{"cel": {"expression": self._rnd.choice(("true", "device.allowMultipleAllocations"))}}]
        class_ = self._classes[name]
        if len(class_["spec"].get("selectors", ())) > 1:
            selectors = class_["spec"]["selectors"][:1]
        else:
            selectors = [*class_["spec"].get("selectors", ()), *selectors]
        self._classes[name] = {**class_, "spec": {**class_["spec"], "selectors": selectors}}
        self._inventory.put_class(decode_class(self._classes[name]))

    def _hold(self, allocations: Sequence[dict[str, Any]]) -> None:
        for allocation in allocations:
            for result in allocation["devices"].get("results", ()):
                if result.get("adminAccess"):
                    continue
                held = {key: result[key] for key in ("driver", "pool", "device")}
                if "shareID" in result:
                    self._share += 1
                    held["shareID"] = f"held-{self._share}"
                    if result.get("consumedCapacity"):
                        held["consumedCapacity"] = result["consumedCapacity"]
                self._held.append(held)
                device, share, consumed = self._record(held)
                if share is None:
                    self._in_use.add_device(device)
                else:
                    self._in_use.add_share(device, share, consumed)

    def _release(self) -> None:
        if self._held:
            held = self._held.pop(self._rnd.randrange(len(self._held)))
            device, share, consumed = self._record(held)
            if share is None:
                self._in_use.remove_device(device)
            else:
                self._in_use.remove_share(device, share, consumed)

    @staticmethod
    def _record(held: dict[str, Any]) -> tuple[DeviceId, str | None, list[tuple[str, Quantity]]]:
        consumed = [(name, Quantity.parse(value)) for name, value in held.get("consumedCapacity", {}).items()]
        return DeviceId(held["driver"], held["pool"], held["device"]), held.get("shareID"), consumed
