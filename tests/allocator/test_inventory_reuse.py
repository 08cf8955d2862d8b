"""One inventory answers for many nodes: what it keeps of one node's question must not leak into another's answer."""

from __future__ import annotations

from typing import Any

import pytest

from allocator import AllocationError, Inventory, NodeView, candidate_nodes, decode_slice
from allocator.requests.requests import Slot
from allocator.requests.slot_masks import judge
from tests.allocator import build
from tests.allocator.build import DRIVER, claim, device, device_class, pool, request
from tests.allocator.cases import claims_of, features_of, inventory_of, node_of, recorded
from tests.nightly import fifth


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


@pytest.mark.slow
@pytest.mark.parametrize("start", range(8))
def test_an_inventory_asked_for_other_nodes_answers_as_a_fresh_one(start: int) -> None:
    for case in fifth(recorded())[start::8]:
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


def _slot(inventory: Inventory, asked: dict[str, Any]) -> Slot:
    return inventory.plan([claim.spec for claim in claims_of(asked)], features_of(asked)).slots[0]


MEMORY = f"device.capacity['{DRIVER}'].memory"


@pytest.mark.parametrize(
    ("amounts", "selector", "found"),
    [
        # As an API server prints them; Go keeps the first of each pair as a big decimal, or in another scale.
        (("100Ti", "109951162777600"), f"{MEMORY}.isInteger()", (False, True)),
        (("100Ti", "109951162777600"), f"{MEMORY}.add(quantity('1')).isInteger()", (False, True)),
        (("1500m", "1.5"), f"{MEMORY}.add(quantity('1500m')).isInteger()", (False, False)),
        (("1k", "1000"), f"{MEMORY}.asInteger() == 1000", (True, True)),
    ],
)
def test_equal_amounts_are_told_apart_as_go_does_whoever_was_asked_first(
    amounts: tuple[str, ...], selector: str, found: tuple[bool, ...]
) -> None:
    slices = [pool(*(device(f"d{index}", memory=amount) for index, amount in enumerate(amounts)))]
    asked = build.case(slices, [claim(request(cel=selector))], classes=[device_class()])
    for order in ((0, 1), (1, 0)):
        inventory = inventory_of(asked)
        slot = _slot(inventory, asked)
        devices = next(iter(inventory.slices.values())).devices
        answers = {index: judge(slot, devices[index]).is_selectable for index in order}
        assert (answers[0], answers[1]) == found


def _published(node: int, **attributes: Any) -> dict[str, Any]:
    return pool(device("d0", **attributes), name=f"n{node}", nodeName=f"n{node}")


def test_a_slice_that_fails_as_often_as_it_is_published_leaves_the_other_nodes_their_bound() -> None:
    asked = build.case(
        [_published(node, model="a" if node else "b") for node in range(4)],
        [claim(request(cel=f"device.attributes['{DRIVER}'].model == 'a'"))],
        classes=[device_class()],
    )
    inventory, claims, features = inventory_of(asked), claims_of(asked), features_of(asked)
    assert candidate_nodes(claims, inventory, features) == {"n1", "n2", "n3"}
    for _ in range(12):
        inventory.put_slice(decode_slice(_published(1)))
        assert candidate_nodes(claims, inventory, features) == {"n1", "n2", "n3"}
    inventory.put_slice(decode_slice(_published(1, model="b")))
    assert candidate_nodes(claims, inventory, features) == {"n2", "n3"}


def test_where_too_many_slices_fail_there_is_a_bound_again_once_they_are_repaired() -> None:
    asked = build.case(
        [_published(node) if node < 12 else _published(node, model="ab"[node % 2]) for node in range(20)],
        [claim(request(cel=f"device.attributes['{DRIVER}'].model == 'a'"))],
        classes=[device_class()],
    )
    inventory, claims, features = inventory_of(asked), claims_of(asked), features_of(asked)
    assert candidate_nodes(claims, inventory, features) is None
    inventory.remove_slice(f"n0-{DRIVER}")
    assert candidate_nodes(claims, inventory, features) is None
    for node in range(1, 10):
        inventory.put_slice(decode_slice(_published(node, model="b")))
    # Two still fail; on such a node anything may happen.
    assert candidate_nodes(claims, inventory, features) == {"n10", "n11", "n12", "n14", "n16", "n18"}
    assert len(inventory.offer(_slot(inventory, asked))._pending) == 0
