"""The chaos run, in short: each kind of fault once. And what judges it: a planted violation is found, all else is not.

The long form is `python -m tests.integration.chaos`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.controlplane.audit import Write
from tests.controlplane.build import built_or_skip
from tests.integration.api import Object
from tests.integration.chaos.judging import Stock, could_run, free_devices, growing, quarters
from tests.integration.chaos.ledger import Ledger, Writes
from tests.integration.chaos.run import Settings, run
from tests.integration.chaos.schedule import ENDING, KINDS, REQUEST_FAULTS, TARGETS, draw
from tests.integration.world import UNDER_TEST, gpu, node
from tests.patience import PATIENCE_S

OURS: Final = "ours"
DRIVER: Final = "gpu.example.com"
NOBODY: Final = Writes([], {})


@pytest.mark.controlplane
@pytest.mark.skipif(UNDER_TEST != "ours", reason="this is about ours")
async def test_every_fault_once(tmp_path: Path) -> None:
    built_or_skip("controlplane")
    settings = Settings(minutes=0.3, pods=90, nodes=6, lease_s=3.0, patience_s=PATIENCE_S)
    report = await run(settings, tmp_path, lambda text: None)

    assert report.problems == [], "\n".join(report.lines())
    assert report.faults.keys() == KINDS.keys()
    assert report.pods["bound"] >= 0.8 * report.pods["created"]
    assert report.pods["deleted"] == report.pods["created"] > settings.pods
    assert report.waiting > 0
    assert report.checks >= 4


# -- the schedule ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [10.0, 1200.0])
def test_a_seed_draws_each_kind_and_the_same_plan_again(seconds: float) -> None:
    plan = draw(7, seconds, every_s=6)

    assert plan == draw(7, seconds, every_s=6) != draw(8, seconds, every_s=6)
    assert len(plan) == max(len(KINDS), seconds / 6)
    assert {one.kind for one in plan} == KINDS.keys()
    assert all(0 <= one.at_s <= seconds and 0 <= one.share < 1 for one in plan)
    assert all((one.target in TARGETS) == (one.kind in REQUEST_FAULTS) for one in plan)
    assert sum(one.at_s < seconds / 2 for one in plan) == pytest.approx(len(plan) / 2, rel=0.25)


def test_what_is_left_out_does_not_happen() -> None:
    assert {one.kind for one in draw(7, 1200, every_s=6, without=ENDING)} == KINDS.keys() - set(ENDING)


# -- the ledger -----------------------------------------------------------------------------------------------------


def claim(name: str, revision: int, *devices: str, namespace: str = OURS, pod: str = "", **more: Any) -> Object:
    results = [{"request": "gpu", "driver": DRIVER, "pool": "node-1", "device": device} for device in devices]
    status: Object = {"allocation": {"devices": {"results": results}}} if devices else {}
    if pod:
        status["reservedFor"] = [{"resource": "pods", "name": pod, "uid": pod}]
    metadata = {"namespace": namespace, "name": name, "uid": name, "resourceVersion": str(revision)}
    return {"metadata": metadata, "status": status, **more}


def bound(name: str, revision: int) -> Object:
    metadata = {"namespace": OURS, "name": name, "uid": name, "resourceVersion": str(revision)}
    return {"metadata": metadata, "spec": {"nodeName": "node-1"}}


def test_a_device_that_two_of_our_claims_have_for_a_moment_is_found() -> None:
    ledger = Ledger(OURS)
    for seen in (claim("a", 1, "gpu-0"), claim("b", 2, "gpu-1"), claim("b", 3), claim("b", 4, "gpu-0")):
        ledger.observe_claim(seen, is_gone=False)
    ledger.observe_claim(claim("b", 5), is_gone=True)

    assert ledger.problems(NOBODY) == [
        "gpu.example.com/node-1/gpu-0 was given to ours/b at revision 4, which ours/a has had since 1; revision 1 was"
        " written by nobody of ours; revision 4 was written by nobody of ours; no pods bound on it"
    ]


def lease(who: str, at_s: float) -> Write:
    return Write(who, at_s, at_s, "update", "leases", "kube-system", "dra-scheduler", 200)


def allocates(who: str, at_s: float, revision: int) -> Write:
    return Write(who, at_s, at_s, "patch", "resourceclaims/status", OURS, "", 200, revision)


@pytest.mark.parametrize(
    ("came_s", "bound_at", "is_wrong"),
    [
        pytest.param(5.0, (), True, id="who wrote it had the lease"),
        pytest.param(7.0, (), False, id="it came when another had the lease"),
        pytest.param(7.0, (5,), False, id="only the pod of the one is bound"),
        pytest.param(7.0, (5, 6), True, id="it came late, and both pods are bound on it"),
        pytest.param(7.0, (5, 9), False, id="it was given back before the second pod was bound"),
    ],
)
def test_a_device_that_a_late_write_gave_is_judged_by_who_is_bound_on_it(
    came_s: float, bound_at: tuple[int, ...], is_wrong: bool
) -> None:
    ledger = Ledger(OURS)
    told = (claim("a", 3, "gpu-0", pod="first"), claim("b", 4, "gpu-0", pod="second"), claim("b", 8))
    for one in told:
        ledger.observe_claim(one, is_gone=False)
    for name, at in zip(("first", "second"), bound_at, strict=False):
        ledger.observe_pod(bound(name, at), is_gone=False)
    log = [lease("old", 4.0), lease("new", 6.0), allocates("new", 6.5, 3), allocates("old", came_s, 4)]
    writes = Writes(log, {"old": "instance 0", "new": "instance 1"})

    assert bool(ledger.problems(writes)) == is_wrong
    assert ledger.late(writes) == (came_s > 6)


def test_a_device_that_is_given_on_after_it_was_given_back_is_nothing() -> None:
    ledger = Ledger(OURS)
    ledger.observe_claim(claim("a", 1, "gpu-0"), is_gone=False)
    ledger.observe_claim(claim("a", 2), is_gone=False)
    ledger.observe_claim(claim("b", 3, "gpu-0"), is_gone=False)
    ledger.observe_claim(claim("b", 4, "gpu-0"), is_gone=True)
    ledger.observe_listed([claim("c", 6, "gpu-0")])
    ledger.observe_listed([claim("d", 8, "gpu-0")])

    assert ledger.problems(NOBODY) == []


@pytest.mark.parametrize(
    ("theirs", "yielded", "bound_at", "is_wrong"),
    [
        pytest.param(1, None, 9, True, id="ours is bound on what they had before"),
        pytest.param(1, 7, 9, False, id="they gave it back before the binding"),
        pytest.param(5, None, 9, False, id="they came later"),
        pytest.param(1, None, None, False, id="ours is not bound"),
    ],
)
def test_what_another_scheduler_had_before_is_found_when_ours_is_bound_on_it(
    theirs: int, yielded: int | None, bound_at: int | None, is_wrong: bool
) -> None:
    ledger = Ledger(OURS)
    told = [claim("b", theirs, "gpu-0", namespace="theirs"), claim("a", 3, "gpu-0", pod="pod")]
    if yielded:
        told.append(claim("b", yielded, namespace="theirs"))
    if bound_at:
        ledger.observe_pod(bound("pod", bound_at), is_gone=False)
    for one in sorted(told, key=lambda one: int(one["metadata"]["resourceVersion"])):
        ledger.observe_claim(one, is_gone=False)

    assert bool(ledger.problems(NOBODY)) == is_wrong
    assert sum(ledger.counts.values()) == 1


# -- who could run --------------------------------------------------------------------------------------------------


def stock(*claims: Object, pod: Object | None = None, devices: int = 2, **more: Any) -> Stock:
    spec = {"driver": DRIVER, "nodeName": "node-1", "pool": {"name": "node-1"}}
    published = {"spec": {**spec, "devices": [gpu(4 * number) for number in range(devices)]}}
    waiting = pod if pod is not None else waits("pod")
    return Stock([waiting], claims, [published], [node("node-1"), node("node-2")], **more)


def waits(claim_name: str, **spec: Any) -> Object:
    reference = {"name": "gpu", "resourceClaimName": claim_name}
    return {"metadata": {"namespace": OURS, "name": "pod"}, "spec": {"resourceClaims": [reference], **spec}}


def wants(name: str = "pod", *devices: str, **request: Any) -> Object:
    return claim(name, 1, *devices, spec={"devices": {"requests": [{"name": "gpu", "exactly": request}]}})


NEAR: Final = {"selectors": [{"cel": {"expression": f"device.attributes['{DRIVER}'].numa == 0"}}]}


@pytest.mark.parametrize(
    ("given", "where"),
    [
        pytest.param(stock(wants()), "node-1", id="a free device"),
        pytest.param(stock(wants(), wants("other", "gpu-0")), "node-1", id="one of two is free"),
        pytest.param(stock(wants(), wants("other", "gpu-0", "gpu-4")), "", id="none is free"),
        pytest.param(stock(wants(count=2)), "node-1", id="two that are free"),
        pytest.param(stock(wants(count=2), wants("other", "gpu-4")), "", id="two, and one is free"),
        pytest.param(stock(wants(**NEAR), wants("other", "gpu-4")), "node-1", id="the one with the attribute is free"),
        pytest.param(stock(wants(**NEAR), wants("other", "gpu-0")), "", id="the one with the attribute is not free"),
        pytest.param(stock(wants("pod", "gpu-0")), "node-1", id="its claim has one already"),
        pytest.param(stock(), "", id="its claim is not there"),
        pytest.param(stock(pod=waits("", resourceClaims=[])), "node-1", id="it wants none"),
        pytest.param(stock(wants(), pod=waits("pod", nodeName="node-1")), "", id="it is bound"),
    ],
)
def test_who_waits_though_there_is_room_is_found(given: Stock, where: str) -> None:
    assert could_run(given, OURS) == ({"pod": where} if where else {})
    assert could_run(given, "another") == {}


def volume(name: str, on: str, **spec: Any) -> Object:
    expressions = [{"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}]
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    return {"metadata": {"name": name}, "spec": {"storageClassName": "local", "nodeAffinity": affinity, **spec}}


@pytest.mark.parametrize(
    ("volumes", "claimed", "where"),
    [
        pytest.param([volume("a", "node-1")], {}, "node-1", id="a free volume where the device is"),
        pytest.param([volume("a", "node-2")], {}, "", id="a free volume elsewhere"),
        pytest.param([volume("a", "node-1", claimRef={"uid": "other"})], {}, "", id="somebody else's volume"),
        pytest.param([volume("a", "node-1", claimRef={"uid": "data"})], {}, "node-1", id="promised to it"),
        pytest.param(
            [volume("a", "node-2"), volume("b", "node-1")], {"volumeName": "a"}, "", id="its own is elsewhere"
        ),
    ],
)
def test_a_pod_with_a_volume_runs_only_where_that_is(volumes: list[Object], claimed: Object, where: str) -> None:
    pod = waits("pod", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    metadata = {"namespace": OURS, "name": "data", "uid": "data"}
    volume_claim = {"metadata": metadata, "spec": {"storageClassName": "local", **claimed}}

    found = could_run(stock(wants(), pod=pod, volumes=volumes, volume_claims=[volume_claim]), OURS)
    assert found == ({"pod": where} if where else {})


def test_devices_that_nobody_has_are_counted() -> None:
    assert free_devices(stock(wants("other", "gpu-0"), devices=3)) == 2


# -- memory ---------------------------------------------------------------------------------------------------------


def test_memory_that_grows_is_found_and_what_is_flat_is_not() -> None:
    mib = 2**20
    flat = quarters("flat", [(second, (90 + second % 3 + (20 if second > 20 else 0)) * mib) for second in range(100)])
    grows = quarters("grows", [(second, (100 + 0.2 * second) * mib) for second in range(100)])
    assert flat is not None
    assert grows is not None

    (problem,) = growing([flat, grows])
    assert problem == "memory grows: grows, 99 s: 102.4, 107.4, 112.4, 117.4 MiB by quarter, +9.3 %"
    assert quarters("short", [(0.0, 1.0), (1.0, 1.0)]) is None
