"""A pool goes from whole devices to partitions while a whole one is in use: both can be given out, and that is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.reports.repartitioned_pools import REASON
from scheduler.plugins import default_plugins
from tests import builders
from tests.core.rig import Rig

COUNTERS = {"sharedCounters": [{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}]}
CONSUMES = [{"counterSet": "gpu-0", "counters": {"memory": {"value": "40Gi"}}}]
PARTS = tuple({"name": f"gpu-0-half-{number}", "consumesCounters": CONSUMES} for number in range(2))


def whole(rig: Rig, **more) -> None:
    rig.server.put_slice(builders.resource_slice("whole", node="a", devices=({"name": "gpu-0"},), **more))


def partitions(rig: Rig, *, devices=PARTS, counters=True, slices=2, generation=2) -> None:
    """The same hardware as two halves, in a new generation."""
    fields = {"node": "a", "generation": generation, "slices": slices}
    rig.server.put_slice(builders.resource_slice("parts", devices=tuple(devices), **fields))
    if counters:
        rig.server.put_slice(builders.resource_slice("counters", devices=(), **fields, **COUNTERS))
    rig.server.delete_slice("whole")


def rig_with_pod(scheduler=builders.SCHEDULER) -> Rig:
    """A pod on node a with the whole device."""
    rig = Rig(*default_plugins())
    rig.add_nodes("a")
    whole(rig)
    rig.server.put_class(builders.device_class())
    if scheduler == builders.SCHEDULER:
        claimed(rig, "w")
        assert rig.node_of("w") == "a"
    else:
        theirs(rig, "w", "gpu-0")
    return rig


def claimed(rig: Rig, name: str) -> None:
    rig.server.put_claim(builders.claim(f"c-{name}"))
    rig.add_pod(name, claims=(f"c-{name}",))
    rig.settle()


def theirs(rig: Rig, name: str, device: str) -> None:
    """Another scheduler's pod with a device."""
    allocation = builders.allocation(device, pool="a")
    rig.server.put_claim(builders.claim(f"c-{name}", allocation=allocation))
    rig.add_pod(name, claims=(f"c-{name}",), node="a", scheduler="other")
    rig.settle()


def told(rig: Rig) -> list[str]:
    return [event.removeprefix(f"{REASON}: ") for event in rig.events if event.startswith(REASON)]


def test_the_claim_with_the_whole_device_is_told_when_the_partitions_come():
    rig = rig_with_pod()
    partitions(rig)
    rig.settle()
    (note,) = told(rig)
    assert note.startswith("device gpu.example.com/a/gpu-0, which this claim has, is not published any more")


def test_no_claim_of_another_namespace_is_named():
    rig = rig_with_pod()
    partitions(rig)
    rig.settle()
    rig.server.put_claim(builders.claim("c-p", namespace="secret"))
    rig.add_pod("p", claims=("c-p",), namespace="secret")
    rig.settle()
    assert "and a claim of another namespace still has gpu-0" in told(rig)[1]


def test_a_claim_with_a_partition_is_told_when_it_is_given_one():
    """Upstream gives it out too: nothing that is published says that the halves are gpu-0."""
    rig = rig_with_pod()
    partitions(rig)
    rig.settle()
    claimed(rig, "p")
    assert rig.node_of("p") == "a"
    assert len(told(rig)) == 2
    assert told(rig)[1].startswith(
        "this claim has gpu.example.com/a/gpu-0-half-0, and claim default/c-w still has gpu-0"
    )


def test_each_claim_is_told_once():
    rig = rig_with_pod()
    partitions(rig)
    rig.settle()
    claimed(rig, "p")
    partitions(rig, generation=3)
    rig.settle()
    claimed(rig, "q")
    assert len(told(rig)) == 3


def test_it_is_told_after_a_restart():
    rig = rig_with_pod()
    partitions(rig)
    rig.settle()
    claimed(rig, "p")
    again = Rig(*default_plugins(), is_listed=False)
    for given in rig.server.list_all():
        again.tell(given)
    assert len(told(again)) == 2


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda rig: rig.server.delete_slice("whole"), id="withdrawn"),
        pytest.param(lambda rig: partitions(rig, counters=False, slices=1), id="other-whole-devices"),
        pytest.param(lambda rig: partitions(rig, counters=True, slices=3), id="incomplete"),
        pytest.param(lambda rig: partitions(rig, devices=({"name": "gpu-0"}, *PARTS)), id="still-published"),
    ],
)
def test_nothing_is_told_where_the_hardware_is_not_given_out_again(change):
    rig = rig_with_pod()
    change(rig)
    rig.settle()
    assert told(rig) == []


def test_it_is_told_when_the_last_slice_has_come():
    rig = rig_with_pod()
    partitions(rig, counters=True, slices=3)
    rig.settle()
    rig.server.put_slice(builders.resource_slice("third", node="a", devices=(), generation=2, slices=3))
    rig.settle()
    assert len(told(rig)) == 1


def test_claims_of_others_are_not_ours_to_tell_about_until_one_of_ours_is_concerned():
    rig = rig_with_pod("other")
    partitions(rig)
    rig.settle()
    theirs(rig, "p", "gpu-0-half-0")
    assert told(rig) == []
    claimed(rig, "q")
    assert rig.node_of("q") == "a"
    assert len(told(rig)) == 3


def test_a_claim_that_gives_the_device_back_ends_it():
    rig = rig_with_pod()
    partitions(rig)
    rig.settle()
    (claim,) = rig.server.claims.values()
    rig.server.put_claim(replace(claim, allocation=None, reserved_for=()))
    rig.settle()
    claimed(rig, "p")
    assert len(told(rig)) == 1
    assert not rig.machine.repartitioned.reported


def test_a_claim_that_is_gone_is_told_of_no_more():
    rig = rig_with_pod()
    partitions(rig)
    rig.settle()
    assert len(rig.machine.repartitioned.reported) == 1
    (claim,) = rig.server.claims.values()
    rig.server.put_claim(replace(claim, finalizers=()))
    rig.server.delete_claim(claim.key)
    rig.settle()
    assert not rig.machine.repartitioned.reported
