"""What the live scheduler says of planted causes: a machine that reports them, on the embedded cluster's code."""

from __future__ import annotations

import itertools
import uuid
from functools import cache

import pytest

from allocator import Features
from scheduler.core.ground.core_settings import CoreSettings
from scheduler.core.machine import Machine
from scheduler.framework.api import Profile
from scheduler.framework.diagnosis import LENGTH_MAX, cause_of, without_cause
from scheduler.offline import OfflineCluster, SourceObject
from scheduler.offline.verdicts import Answers, Run
from scheduler.plugins import default_plugins
from tests.offline.causes import CAUSES

NOW_MS = 1_800_000_000_000
HORIZON_MS = 12_000
LIVE = {cause.name: cause for cause in CAUSES if not (cause.gates or cause.deleted or cause.has_history)}


@cache
def said(name: str, *, reports_causes: bool) -> dict[str, str]:
    """What each pod that waits is told."""
    cluster = OfflineCluster(NOW_MS)
    cluster.load([SourceObject("file.yaml:1:1", obj) for obj in LIVE[name].objects])
    uids = itertools.count(1)
    machine = Machine(
        [Profile("dra-scheduler", default_plugins(budget_steps=20_000))],
        features=Features(),
        new_uid=lambda: str(uuid.UUID(int=next(uids))),
        settings=CoreSettings(reports_causes=reports_causes, is_strict=True),
    )
    pods = [pod for pod in cluster.pods() if not pod["spec"].get("nodeName")]
    run = Run(cluster, Answers(machine, cluster, {pod["metadata"]["uid"] for pod in pods}))
    run.start()
    run.until(NOW_MS + HORIZON_MS)
    return {pod["metadata"]["name"]: run.verdict(pod).reason for pod in pods}


@pytest.mark.parametrize("name", LIVE)
def test_the_sentence_before_the_cause_is_that_of_a_machine_that_says_none(name: str) -> None:
    told, plain = said(name, reports_causes=True), said(name, reports_causes=False)
    assert {pod: without_cause(message) for pod, message in told.items()} == plain
    assert all(len(message.encode()) <= LENGTH_MAX for message in told.values())


IN_USE = "device node-1/gpu-0 is in use by ResourceClaim default/theirs (pod default/runs (priority 0))"
ENDS = "end pod default/runs (priority 0), whose ResourceClaim is default/theirs"
SAYS = [
    # cause, words of the cause, words of the change
    ("node-taint", "node node-1 has the taint example.com/only=others:NoSchedule", "add the toleration {key: example"),
    ("cordon", "node node-1 is cordoned", "kubectl uncordon node-1"),
    ("claim-pinned-to-a-cordoned-node", "node node-1 is cordoned", "kubectl uncordon node-1"),
    (
        "node-selector",
        "no node has the label zone, which the nodeSelector of pod default/asked asks for",
        "drop zone: a",
    ),
    (
        "node-affinity",
        "no node has the label zone, which the nodeAffinity of pod default/asked",
        "relax the required node",
    ),
    ("cpu", "node node-1 has 8 cpu free, and pod default/asked asks for 9", "ask for cpu 8 instead of 9 in container"),
    ("memory", "node node-1 has 16Gi memory free, and pod default/asked asks for 17Gi", "ask for memory 16Gi instead"),
    ("cpu-of-running-pods", "node node-1 has 50m cpu free", "ask for cpu 50m instead of 100m in container main"),
    ("too-many-pods", "node node-1 has room for 1 pods, and has 1", "end pod default/runs (priority 0)"),
    ("resource-nobody-has", "resource example.com/tpu of pod default/asked: no node has it, and no DeviceClass", ""),
    ("each-node-for-another-reason", "node node-1 has 8 cpu free", "ask for cpu 8 instead of 9"),
    (
        "claim-pinned-elsewhere",
        "and the nodeSelector of pod default/asked chooses node node-2",
        "hostname: node-1 instead",
    ),
    (
        "class-missing",
        "names DeviceClass gpu.example.com, which does not exist; there are: none",
        "create DeviceClass gpu.example.com",
    ),
    (
        "another-pod-is-first",
        "gpu-0 is in use by ResourceClaim default/theirs (pod default/first",
        "end pod default/fi",
    ),
    (
        "node-without-devices",
        "slice-node-1 is for node node-1, and no Node has that name",
        "the kubelet of node-1 must register",
    ),
    ("second-claim-does-not-fit", "of ResourceClaim default/other: no device of its class satisfies `false`", ""),
    (
        "two-claims-one-device",
        "gpu-0 is the only one on node node-1 for request gpu of ResourceClaim default/gpu and",
        "",
    ),
    (
        "class-selector-false",
        "DeviceClass gpu.example.com: no device has the driver x; drivers: gpu",
        "install the driver x",
    ),
    ("selector-false", "model equal to the string 'H100'; 1 have 'A100'", "write 'A100' in the selector of"),
    (
        "count-too-large",
        "node node-1 has 2 devices that would do for request gpu, which asks for 3",
        "ask for 2 devices",
    ),
    ("all-devices-in-use", IN_USE, ENDS),
    ("all-mode-with-one-in-use", f"{IN_USE}; request gpu asks for all 2", ENDS),
    (
        "shared-capacity-too-small",
        "gpu-0 has memory 80Gi, and request gpu asks for 81Gi",
        "memory 80Gi instead of 81Gi",
    ),
    (
        "shared-capacity-consumed",
        "gpu-0 has memory 30Gi left of 80Gi, request gpu takes 40Gi; pod default/runs",
        "30Gi instead",
    ),
    (
        "counters",
        "counter set all has no room for device node-1/part-1 (memory 60Gi needed, 20Gi left): device node-1/part-0",
        ENDS,
    ),
    (
        "match-attribute",
        "2 devices with the same gpu.example.com/index are needed; the most on node",
        "1 device instead of 2",
    ),
    (
        "incomplete-pool",
        "of generation 1 there are 1 of 2 ResourceSlices (slice-node-1)",
        "publish the 1 missing ResourceSlice",
    ),
    (
        "pool-with-a-name-twice",
        "device gpu-0 is in slices again and slice-node-1",
        "publish pool gpu.example.com/node-1 anew",
    ),
    ("device-taint", "device node-1/gpu-0 has the taint example.com/hot:NoSchedule", "add the toleration"),
    ("device-taint-rule", "has the taint example.com/broken:NoSchedule", "add the toleration"),
    ("extended-resource-in-use", IN_USE, ENDS),
    ("cel-error", "no device of its class has attributes gpu.example.com/nothing", "drop or relax the selector"),
    ("cel-error-in-the-class", "DeviceClass gpu.example.com: no device has attributes gpu.example.com/nothing", ""),
    (
        "binding-conditions",
        "ResourceClaim default/gpu waits for example.com/ready to be set: device gpu-0",
        "the driver must set",
    ),
]


@pytest.mark.parametrize(("name", "cause", "change"), SAYS, ids=lambda one: one if one in LIVE else "")
def test_the_cause_is_said_and_a_change_where_one_helps(name: str, cause: str, change: str) -> None:
    found, _, advice = cause_of(said(name, reports_causes=True)["asked"]).partition("; to make it fit: ")
    assert cause in found
    assert bool(advice) == bool(change)
    assert change in advice


def test_what_fits_is_told_nothing() -> None:
    for name, cause in LIVE.items():
        if cause.want == "fits":
            assert said(name, reports_causes=True)["asked"] == ""
