"""What is remembered for pods' claims goes when they are allocated or gone: a pod's selector is often its own."""

from __future__ import annotations

from allocator.answers import remembered_plans
from scheduler.core.trying import feasibility
from scheduler.model.keys import ClaimKey, PodKey
from scheduler.plugins import default_plugins
from tests import builders
from tests.core.rig import Rig


def world(**settings: object) -> Rig:
    rig = Rig(*default_plugins(), is_paranoid=False, checks_invariants=False, **settings)
    rig.server.put_class(builders.device_class())
    rig.add_nodes("n")
    gpus = tuple(builders.device_object(f"gpu-{index}", uuid=f"u-{index}") for index in range(100))
    rig.server.put_slice(builders.resource_slice("s", node="n", devices=gpus))
    return rig


def add(rig: Rig, number: int, count: int = 1) -> None:
    selector = f"device.attributes['gpu.example.com'].uuid != 'job-{number}'"
    spec = builders.claim_spec_object(builders.request_object(selector=selector, count=count))
    rig.server.put_claim(builders.claim(f"c{number}", spec=spec))
    rig.add_pod(f"p{number}", claims=(f"c{number}",))
    rig.watch()


def run(rig: Rig) -> None:
    for _ in range(8):
        rig.tick(1)
        rig.execute()
        rig.watch()


def test_plans_of_allocated_claims_are_forgotten():
    rig = world()
    for number in range(80):
        add(rig, number)
        run(rig)
    assert all(rig.node_of(f"p{number}") for number in range(80))
    assert len(rig.machine.store.inventory.plans) <= remembered_plans._IDLE_MAX


def test_so_are_those_of_claims_that_were_deleted():
    rig = world()
    for number in range(80):
        add(rig, number, count=101)
        run(rig)
        rig.server.delete_pod(PodKey("default", f"p{number}"))
        rig.server.delete_claim(ClaimKey("default", f"c{number}"))
        rig.watch()
    assert len(rig.machine.store.inventory.plans) <= remembered_plans._IDLE_MAX


def test_claims_that_wait_keep_theirs():
    rig = world()
    for number in range(60):
        add(rig, number, count=101)
    for _ in range(10):
        run(rig)
    assert len(rig.machine.store.inventory.plans) == 60


def test_shapes_are_bounded_in_number():
    rig = world(remembered_shapes_max=5)
    for number in range(20):
        add(rig, number)
        run(rig)
    assert len(list(rig.machine.feasibility.records())) <= 5
    assert rig.machine.feasibility.verdicts <= 5


def refusing() -> Rig:
    """Two nodes of eight devices, so that each refuses whoever asks for nine."""
    rig = Rig(*default_plugins(), is_paranoid=False, checks_invariants=False)
    rig.server.put_class(builders.device_class())
    rig.add_nodes("m", "n")
    for node in ("m", "n"):
        gpus = tuple(builders.device_object(f"gpu-{index}", uuid=f"{node}-{index}") for index in range(8))
        rig.server.put_slice(builders.resource_slice(f"s-{node}", node=node, devices=gpus))
    return rig


def test_verdicts_for_pods_that_are_gone_go_before_those_for_pods_that_wait(monkeypatch):
    monkeypatch.setattr(feasibility, "_IDLE_VERDICTS_MAX", 10)
    rig = refusing()
    for number in range(60):
        add(rig, number, count=9)
        run(rig)
    found = rig.machine.feasibility
    assert found.verdicts == 2 * len(list(found.records())) == 120
    for number in range(55):
        if number % 4:
            rig.server.delete_pod(PodKey("default", f"p{number}"))
    rig.watch()
    waiting = {group.shape for group in rig.machine.queue.waiting.groups()}
    assert len(waiting) == 19
    kept = {shape for shape, _ in found.records()}
    assert waiting <= kept
    assert found.verdicts == 2 * len(kept) < 60


def test_thousands_of_selectors_that_read_the_same_share_what_devices_show():
    rig = refusing()
    for number in range(2):
        add(rig, number, count=9)
        run(rig)
    matchers = rig.machine.store.inventory.plans._planner._answering.values()
    first, second = [{id(key) for key in matcher._answers} for matcher in matchers]
    assert len(first) == 16
    assert first == second


def test_nodes_that_are_refused_alike_share_one_status():
    rig = refusing()
    add(rig, 0, count=9)
    run(rig)
    ((_, record),) = rig.machine.feasibility.records()
    statuses = record.rejected.statuses.values()
    assert len(statuses) == 2
    assert len({id(status) for status in statuses}) == 1
