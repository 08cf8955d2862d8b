"""skipNodeOperations (KEP-5945): the allocation has a copy, and only nodes that declare the feature get the devices."""

from dataclasses import replace
from typing import Any

import pytest

from allocator import Features, Inventory, NodeView, decode_slice, explain
from allocator.values.decode_claims import decode_allocation
from allocator.values.encode import encode_allocation
from tests.allocator.build import NODE, answer, case, claim, device, picked, pool, request
from tests.allocator.cases import claims_of, in_use_of, inventory_of, question_of
from tests.controlplane.build import built_or_skip
from tests.oracle.client import Oracle

FEATURES = Features(kubernetes="1.37")
FEATURE = "DRAOptionalNodeOperations"
CAN = {**NODE, "status": {"declaredFeatures": ["Other", FEATURE]}}
CANNOT = {**NODE, "status": {"declaredFeatures": ["Other"]}}
PAIR = NodeView("node-1", {}, (FEATURE,)), NodeView("node-1", {})


def skipping(*devices: Any, skip: Any = ("*",), **more: Any) -> Any:
    made = pool(*devices, **more)
    made["spec"]["skipNodeOperations"] = list(skip) if skip is not None else None
    return made


def plain(**more: Any) -> Any:
    return pool(device("z"), name="pool-2", **more)


@pytest.mark.parametrize(
    ("node", "slices", "asked", "expected"),
    [
        (CAN, [skipping(device("a"))], request(), ["req-0=a"]),
        (CANNOT, [skipping(device("a"))], request(), ["none"]),
        (NODE, [skipping(device("a"))], request(), ["none"]),
        (CANNOT, [skipping(device("a"), skip=())], request(), ["req-0=a"]),
        (CANNOT, [skipping(device("a"), skip=None)], request(), ["req-0=a"]),
        (CANNOT, [skipping(device("a"), skip=["NodeUnprepareResources"])], request(), ["none"]),
        (CANNOT, [skipping(device("a"), skip=["FromTheFuture"])], request(), ["none"]),
        (CAN, [skipping(device("a"), skip=["FromTheFuture"])], request(), ["req-0=a"]),
        (CANNOT, [skipping(device("a")), plain()], request(), ["req-0=z"]),
        (CANNOT, [skipping(device("a")), plain()], request(count=2), ["none"]),
        # All devices that match are needed, and one of them cannot be given.
        (CANNOT, [skipping(device("a")), plain()], request(count=None), ["none"]),
        (CAN, [skipping(device("a")), plain()], request(count=None), ["req-0=a", "req-0=z"]),
        (CANNOT, [skipping(device("a"), allNodes=True), plain()], request(), ["req-0=z"]),
        (CANNOT, [skipping(device("a"))], request(adminAccess=True), ["none"]),
        # A selector that fails is told all the same.
        (CANNOT, [skipping(device("a"))], request(cel="device.attributes['none'].x == 1"), None),
    ],
)
def test_where_devices_are_given(node: Any, slices: Any, asked: Any, expected: list[str] | None) -> None:
    given = picked(answer(slices, [claim(asked)], features=FEATURES, node=node))
    assert given == expected if expected is not None else "CEL runtime error" in given[0]


@pytest.mark.oracle
@pytest.mark.parametrize("node", [CAN, CANNOT])
@pytest.mark.parametrize("count", [1, 2, None])
def test_as_upstream_with_the_gate_off(node: Any, count: int | None) -> None:
    """The oracle cannot turn the gate on. Upstream's experimental allocator, which lists bring in, refuses the devices.

    Its incubating one does not know the field: it gives the devices out, without a copy (docs/differences.md).
    """
    built_or_skip("oracle-1.37")
    off = replace(FEATURES, optional_node_operations=False, list_type_attributes=True)
    slices, claims = [skipping(device("a"), device("b")), plain()], [claim(request(count=count))]
    asked = {"kind": "allocate", **case(slices, claims, node=node), "features": {"ListTypeAttributes": True}}
    with Oracle("1.37") as oracle:
        assert picked(answer(slices, claims, features=off, node=node)) == picked(oracle.ask(asked))


def test_the_allocation_has_a_copy_of_each_slices_operations() -> None:
    some = ["NodePrepareResources", "NodeUnprepareResources"]
    reply = answer([skipping(device("a"), skip=some), plain()], [claim(request(count=2))], features=FEATURES, node=CAN)
    (allocation,) = reply["allocations"]
    assert [one.get("skipNodeOperations") for one in allocation["devices"]["results"]] == [some, None]
    decoded = decode_allocation(allocation)
    assert decoded.skips_operations
    assert encode_allocation(decoded) == allocation
    assert not decode_allocation({"devices": {"results": allocation["devices"]["results"][1:]}}).skips_operations


def test_the_funnel_says_it() -> None:
    asked = case([skipping(device("a")), plain()], [claim(request(count=2))], node=CANNOT)
    question = question_of(
        asked, claims_of(asked), inventory_of(asked), in_use_of(asked), budget_steps=10_000, features=FEATURES
    )
    (funnel,) = explain(question).requests
    assert {str(stage): count for stage, count in funnel.removed.items()} == {
        "need the node to declare DRAOptionalNodeOperations": 1
    }


@pytest.mark.parametrize("selection", [{}, {"allNodes": True}])
def test_what_is_kept_for_a_node_is_not_used_when_it_declares_otherwise(selection: Any) -> None:
    inventory = Inventory([decode_slice(skipping(device("a"), **selection))], ())
    masks = [inventory.node_pools(node, FEATURES).inoperable for node in (*PAIR, *PAIR)]
    assert masks == [0, 1, 0, 1]
