"""Pools as they are published wrong: which slices, and how; and that the allocator takes nothing of just those."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator import (
    INCOMPLETE_FAULTS,
    INVALID_FAULTS,
    Fault,
    Features,
    Inventory,
    NodeView,
    ResourceSlice,
    decode_slice,
    pool_faults,
)

FEATURES = Features()
NODES = frozenset({"n", "m"})


def slice_(name: str, *devices: str | tuple[str, str, str], count: int = 1, generation: int = 1, **more: Any) -> Any:
    """A slice; a device is its name, or name, counter set and what it takes of counter `memory` there."""
    made: list[dict[str, Any]] = []
    for each in devices:
        device, counter_set, amount = (each, "", "") if isinstance(each, str) else each
        uses = [{"counterSet": counter_set, "counters": {"memory": {"value": amount}}}] if counter_set else []
        made.append({"name": device, **({"consumesCounters": uses} if uses else {})})
    placed = {} if {"allNodes", "nodeName"} & set(more) else {"nodeName": "n"}
    return decode_slice(
        {
            "metadata": {"name": name},
            "spec": {
                "driver": "d.example",
                "pool": {"name": "p", "generation": generation, "resourceSliceCount": count},
                "devices": made,
                **placed,
                **more,
            },
        }
    )


def counters(name: str, *sets: str, count: int = 2, **more: Any) -> Any:
    shared = [{"name": each, "counters": {"memory": {"value": "80Gi"}}} for each in sets]
    return slice_(name, count=count, sharedCounters=shared, **more)


def faults(*slices: ResourceSlice) -> list[Fault]:
    return list(pool_faults(slices, NODES, FEATURES))


CASES: dict[str, tuple[list[Any], list[tuple[str, tuple[str, ...], str]]]] = {
    "whole": ([slice_("a", "x")], []),
    "nothing": ([], []),
    "missing": ([slice_("a", "x", count=3)], [("missing-slices", ("a",), "1 of 3 slices are there: a")]),
    "surplus": (
        [slice_("a", "x"), slice_("b", "y")],
        [("surplus-slices", ("a", "b"), "2 slices are there, and 1 should be: a, b")],
    ),
    "counts": (
        [slice_("a", "x", count=2), slice_("b", "y", count=3)],
        [("counts-disagree", ("a", "b"), "its slices disagree about how many there are: 2 in a; 3 in b")],
    ),
    "one device twice": (
        [slice_("a", "x", "y", count=2), slice_("b", "y", "x", count=2)],
        [("device-twice", ("a", "b"), "device y is in slices a and b (and 1 more)")],
    ),
    "one device twice in one slice": (
        [slice_("a", "x", "x")],
        [("device-twice", ("a",), "device x is in slice a, twice")],
    ),
    "unknown counter set": (
        [counters("a", "c"), slice_("b", ("x", "other", "1Gi"), count=2)],
        [("unknown-counter", ("b",), "device x consumes counter set other, which no slice of the pool has")],
    ),
    "a set that a missing slice may have": (
        [slice_("b", ("x", "c", "1Gi"), count=2)],
        [("missing-slices", ("b",), "1 of 2 slices are there: b")],
    ),
    "counter set twice": (
        [counters("a", "c"), counters("b", "c")],
        [("counter-set-twice", ("a", "b"), "counter set c is in slices a and b")],
    ),
    "more than there is": (
        [counters("a", "c"), slice_("b", ("x", "c", "96Gi"), count=2)],
        [("counter-too-small", ("b",), "device x takes 96Gi of counter c.memory, which has 80Gi")],
    ),
    "no such node": (
        [slice_("a", "x", nodeName="gone")],
        [("unknown-node", ("a",), "slice a names node gone, and no Node is called so")],
    ),
    "older": (
        [slice_("a", "x"), slice_("b", "y", generation=2)],
        [("older-generation", ("a",), "a has generation 1; generation 2 counts")],
    ),
    "two nodes, one name": (
        [slice_("a", "x"), slice_("b", "x", nodeName="m")],
        [("two-nodes", ("a", "b"), "2 nodes publish it, each as a whole pool: nodes m, n in slices b, a")],
    ),
    "two nodes, generations of their own": (
        [slice_("a", "x", generation=7), slice_("b", "x", nodeName="m")],
        [("two-nodes", ("a", "b"), "2 nodes publish it, each as a whole pool: nodes m, n in slices b, a")],
    ),
    "one pool over two nodes": ([slice_("a", "x", count=2), slice_("b", "y", count=2, nodeName="m")], []),
    "one pool over two nodes, being updated": (
        [slice_("a", "x", count=2, generation=2), slice_("b", "y", count=2, nodeName="m")],
        [
            ("missing-slices", ("a",), "1 of 2 slices are there: a"),
            ("older-generation", ("b",), "b has generation 1; generation 2 counts"),
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_faults_name_the_slices_and_say_how(case: str) -> None:
    slices, expected = CASES[case]

    assert [(one.kind, tuple(sorted(one.slices)), one.text) for one in faults(*slices)] == expected


def test_nothing_is_said_of_nodes_that_are_not_known() -> None:
    assert pool_faults([slice_("a", "x", nodeName="gone")], None, FEATURES) == ()


def test_long_lists_are_cut() -> None:
    (fault,) = faults(*(slice_(f"s{number:02}", f"d{number}", count=99) for number in range(20)))

    assert fault.text == "20 of 99 slices are there: s00, s01, s02 and 17 more"
    assert len(fault.slices) == 20


SLICES = st.lists(
    st.tuples(
        st.integers(1, 2),
        st.integers(1, 3),
        st.lists(
            st.tuples(st.sampled_from("xyz"), st.sampled_from(["", "c", "d"]), st.sampled_from(["1Gi", "90Gi"])),
            max_size=2,
        ),
        st.sampled_from(["", "c", "d"]),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=200, deadline=None)
@given(SLICES)
def test_a_pool_gives_devices_just_when_no_fault_forbids_it(drawn: list[tuple[int, int, list[Any], str]]) -> None:
    """The allocator, which knows nothing of faults, decides."""
    slices = [
        counters(f"s{number}", shared, count=count, generation=generation, allNodes=True)
        if shared
        else slice_(f"s{number}", *devices, count=count, generation=generation, allNodes=True)
        for number, (generation, count, devices, shared) in enumerate(drawn)
    ]
    (view,) = Inventory(slices).node_pools(NodeView("n", {}), FEATURES).pools
    kinds = {one.kind for one in faults(*slices)}

    assert view.is_incomplete == bool(kinds & INCOMPLETE_FAULTS)
    if not view.is_incomplete:
        assert bool(view.invalid_reason) == bool(kinds & INVALID_FAULTS)
