"""Slices of files that make no pool together with each other and the cluster's: counters, counts, nodes."""

from __future__ import annotations

import pytest

from tests.lint.test_against import cluster
from tests.lint.texts import dump, find

COUNTERS = (
    "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: counters}\nspec:\n  driver: d.example\n"
    "  nodeName: n\n  pool: {name: p, generation: 1, resourceSliceCount: 2}\n"
    "  sharedCounters: [{name: c, counters: {memory: {value: 80Gi}}}]\n"
)


def partitions(*uses: tuple[str, str, str], node: str = "n", count: int = 2) -> str:
    devices = "".join(
        f"  - name: d{index}\n    consumesCounters:\n"
        f"    - {{counterSet: {counter_set}, counters: {{{counter}: {{value: {amount}}}}}}}\n"
        for index, (counter_set, counter, amount) in enumerate(uses)
    )
    return (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: parts}\nspec:\n  driver: d.example\n"
        f"  nodeName: {node}\n  pool: {{name: p, generation: 1, resourceSliceCount: {count}}}\n  devices:\n{devices}"
    )


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (partitions(("c", "memory", "40Gi")), "", ""),
        (
            partitions(("d", "memory", "40Gi")),
            "unknown-counter",
            "pool p: device d0 consumes counter set d, which no slice of the pool has",
        ),
        (
            partitions(("c", "memroy", "40Gi"), ("c", "cores", "1")),
            "unknown-counter",
            "pool p: device d0 consumes counter memroy, which counter set c has not (and 1 more)",
        ),
        (
            partitions(("c", "memory", "96Gi")),
            "counter-too-small",
            "pool p: device d0 takes 96Gi of counter c.memory, which has 80Gi",
        ),
        (
            partitions(("c", "memory", "1Gi"), count=3),
            "contradicting-slices",
            "pool p: its slices disagree about how many there are: 2 in counters; 3 in parts",
        ),
    ],
)
@pytest.mark.parametrize("is_published", [False, True])
def test_slices_that_contradict_each_other(text: str, code: str, message: str, is_published: bool) -> None:
    """Counters are in the files, or in the cluster already."""
    found = find(text, published=dump(COUNTERS)) if is_published else find(COUNTERS, text)

    expected = [(code, message)] if code else []
    assert [(each.code, each.message) for each in found if each.code != "incomplete-pool"] == expected


def test_a_node_that_is_not_there() -> None:
    found = find(COUNTERS, partitions(("c", "memory", "1Gi"), node="m"), published=cluster({"n": 1}))

    assert [(each.code, each.message) for each in found] == [
        ("unknown-node", "pool p: slice parts names node m, and no Node is called so")
    ]
