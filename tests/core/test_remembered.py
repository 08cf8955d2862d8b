"""What is remembered for pods and claims is bounded by its weight: a pod's selector is often its own."""

from __future__ import annotations

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


def add(rig: Rig, number: int, count: int = 1, namespace: str = "default") -> None:
    selector = f"device.attributes['gpu.example.com'].uuid != 'job-{number}'"
    spec = builders.claim_spec_object(builders.request_object(selector=selector, count=count))
    rig.server.put_claim(builders.claim(f"c{number}", namespace=namespace, spec=spec))
    rig.add_pod(f"p{number}", namespace=namespace, claims=(f"c{number}",))
    rig.watch()


def run(rig: Rig) -> None:
    for _ in range(8):
        rig.tick(1)
        rig.execute()
        rig.watch()


LIMIT = 300_000


def test_all_that_is_remembered_of_pods_that_came_and_went_stays_within_the_limit():
    rig = world(remembered_bytes_max=LIMIT)
    ledger, sizes = rig.machine.store.ledger, []
    for number in range(80):
        add(rig, number, count=1 if number % 2 else 101)
        run(rig)
        rig.server.delete_pod(PodKey("default", f"p{number}"))
        rig.server.delete_claim(ClaimKey("default", f"c{number}"))
        rig.watch()
        sizes.append(ledger.size)
    assert max(sizes) <= LIMIT
    assert min(sizes[40:]) > LIMIT // 2
    assert set(ledger.by_what) > {"devices", "verdicts", "counts"}
    assert sum(ledger.by_what.values()) == ledger.size
    assert 0 < len(rig.machine.store.inventory.plans) < 40


def test_a_namespace_of_many_shapes_pushes_out_its_own_and_not_those_of_others():
    rig = world(remembered_bytes_max=LIMIT)
    add(rig, 999, count=101, namespace="quiet")
    run(rig)
    (signature, _), *_ = rig.machine.feasibility.records()
    for number in range(60):
        add(rig, number, count=101, namespace="loud")
        run(rig)
    kept = [one for one, _ in rig.machine.feasibility.records()]
    assert signature in kept
    assert len(kept) < 30


def test_pods_are_decided_where_next_to_nothing_may_be_remembered():
    rig = world(remembered_bytes_max=1)
    for number in range(10):
        add(rig, number)
        run(rig)
    assert all(rig.node_of(f"p{number}") for number in range(10))


def refusing() -> Rig:
    """Two nodes of eight devices, so that each refuses whoever asks for nine."""
    rig = Rig(*default_plugins(), is_paranoid=False, checks_invariants=False)
    rig.server.put_class(builders.device_class())
    rig.add_nodes("m", "n")
    for node in ("m", "n"):
        gpus = tuple(builders.device_object(f"gpu-{index}", uuid=f"{node}-{index}") for index in range(8))
        rig.server.put_slice(builders.resource_slice(f"s-{node}", node=node, devices=gpus))
    return rig


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
