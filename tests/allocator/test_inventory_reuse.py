"""One inventory answers for many nodes: what it keeps of one node's question must not leak into another's answer."""

from __future__ import annotations

from typing import Any

import pytest

from allocator import AllocationError, Inventory, NodeView
from tests.allocator.cases import features_of, inventory_of, node_of, recorded


def _seen(inventory: Inventory, node: NodeView, case: dict[str, Any]) -> Any:
    """What `node` sees: each pool with its state, devices and counters."""
    try:
        pools = inventory.node_pools(node, features_of(case))
    except AllocationError as error:
        return str(error)
    return [
        (view.id, view.is_incomplete, view.invalid_reason, [device.name for device in view.devices], view.counters)
        for view in pools.pools
    ]


def _nodes(case: dict[str, Any]) -> list[NodeView]:
    """The case's node, every node its slices name, and one that nothing names."""
    named = {slice_["spec"].get("nodeName") for slice_ in case["slices"]} - {None, ""}
    return [node_of(case), *(NodeView(name, {}) for name in sorted(named)), NodeView("unheard-of", {})]


@pytest.mark.parametrize("start", range(8))
def test_an_inventory_asked_for_other_nodes_answers_as_a_fresh_one(start: int) -> None:
    for case in recorded()[start::8]:
        for nodes in (_nodes(case), _nodes(case)[::-1]):
            asked = inventory_of(case)
            for node in nodes:
                assert _seen(asked, node, case) == _seen(inventory_of(case), node, case), (case["name"], node.name)


def test_a_nodes_partitions_are_not_another_nodes() -> None:
    """Counters in one slice, partitions in another, both naming the node: 1.36 takes counters for every node."""
    slices = []
    for name in ("a", "b"):
        spec = {"driver": "d", "nodeName": name, "pool": {"name": name, "generation": 1, "resourceSliceCount": 2}}
        counters = [{"name": "gpu", "counters": {"memory": {"value": "80Gi"}}}]
        consumed = [{"counterSet": "gpu", "counters": {"memory": {"value": "40Gi"}}}]
        slices += [
            {"metadata": {"name": f"{name}-counters"}, "spec": {**spec, "sharedCounters": counters}},
            {
                "metadata": {"name": f"{name}-parts"},
                "spec": {**spec, "devices": [{"name": "half", "consumesCounters": consumed}]},
            },
        ]
    case = {"slices": slices, "classes": []}
    inventory = inventory_of(case)

    for name in ("a", "b"):
        devices = {
            view.id.pool: len(view.devices)
            for view in inventory.node_pools(NodeView(name, {}), features_of(case)).pools
        }
        assert {pool for pool, count in devices.items() if count} == {name}
