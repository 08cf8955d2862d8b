"""What `explain` says of each node of a pod among files, and with `-o wide` who would be removed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scheduler.cli.main import cli
from scheduler.framework.cycle import UNLIMITED_STEPS
from scheduler.offline import Reasons
from scheduler.offline.verdicts import Answers

NODES = """
apiVersion: v1
kind: Node
metadata: {name: small}
status: {allocatable: {cpu: "1", memory: 8Gi, pods: "110"}}
---
apiVersion: v1
kind: Node
metadata: {name: tainted}
spec: {taints: [{key: a, effect: NoSchedule}]}
status: {allocatable: {cpu: "8", memory: 8Gi, pods: "110"}}
---
apiVersion: v1
kind: Node
metadata: {name: large}
status: {allocatable: {cpu: "8", memory: 8Gi, pods: "110"}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: NAMESPACE}
spec:
  nodeName: NODE
  containers: [{name: c, image: nginx, resources: {requests: {cpu: CPU}}}]
"""


def asked(folder: Path, *args: str, **fields: str) -> Result:
    (folder / "nodes.yaml").write_text(NODES)
    text = POD
    for key, value in {"NAMESPACE": "team", "NODE": '""', "CPU": '"2"', **fields}.items():
        text = text.replace(key, value)
    (folder / "pod.yml").write_text(text)
    (folder / "README.md").write_text("no manifest")
    return CliRunner().invoke(cli, ["explain", "-f", str(folder), *args])


def test_a_person_reads_nodes_plugins_reasons_and_scores_once(tmp_path: Path) -> None:
    result = asked(tmp_path, "web", "-o", "wide")

    assert result.exit_code == 0, result.output
    lines = [line.split("\t") for line in result.stdout.splitlines() if "\t" in line]
    assert [line[:2] for line in lines[:4]] == [
        ["NODES", "PLUGIN"],
        ["small", "NodeResourcesFit"],
        ["tainted", "TaintToleration"],
        ["NODES THAT FIT", "SCORE"],
    ]
    assert lines[1][2] == "Insufficient cpu"
    ((node, total, scores),) = lines[4:]
    assert node == "large"
    assert int(total) == sum(int(score.rpartition(" ")[2]) for score in scores.split(", "))


def test_all_nodes_are_looked_at_however_long_that_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bounds: list[int] = []

    def reasons(answers: Answers, *, budget_steps: int, steps_max: int) -> Reasons:
        bounds.append(steps_max)
        return Reasons(answers, budget_steps=budget_steps, steps_max=steps_max)

    monkeypatch.setattr("scheduler.explain.explaining.Reasons", reasons)
    asked(tmp_path, "web", "-o", "wide", CPU='"64"')

    assert bounds == [UNLIMITED_STEPS]


def test_a_pod_that_runs_is_asked_about_as_if_it_waited(tmp_path: Path) -> None:
    """All CPUs that are taken there are its own."""
    result = asked(tmp_path, "web", "-o", "json", NODE="large", CPU='"8"')

    (score,) = json.loads(result.stdout)["scores"]
    assert score["node"] == "large"


def bound(name: str, node: str, cpu: str, *, priority: int, **metadata: Any) -> dict[str, Any]:
    """A pod of a dump that runs."""
    resources = {"requests": {"cpu": cpu}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": "5", **metadata},
        "spec": {
            "nodeName": node,
            "priority": priority,
            "containers": [{"name": "c", "image": "x", "resources": resources}],
        },
        "status": {"phase": "Running"},
    }


def dump(path: Path, *objects: dict[str, Any]) -> None:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))


def test_who_would_be_removed_is_told_for_each_node(tmp_path: Path) -> None:
    """`large` holds a pod that may go; `small` is too small whoever goes, and a taint is not changed by that."""
    dump(tmp_path / "dump.json", bound("low", "large", "7", priority=-5), bound("tiny", "small", "500m", priority=-5))

    result = asked(tmp_path, "web", "-o", "wide", CPU='"4"')

    assert result.exit_code == 1, result.output
    lines = result.stdout.splitlines()
    assert [line.split("\t") for line in lines[lines.index("NODE\tPREEMPTION\tWHY, OR WHO WOULD BE REMOVED") :]] == [
        ["NODE", "PREEMPTION", "WHY, OR WHO WOULD BE REMOVED"],
        ["large", "chosen", "team/low (priority -5)"],
        ["small", "no", "Preemption is not helpful for scheduling"],
        ["tainted", "no", "Preemption is not helpful for scheduling"],
    ]


def test_devices_that_would_be_released_are_named(tmp_path: Path) -> None:
    """The GPU of a dump is allocated to a pod of lower priority, and guarded by a PodDisruptionBudget."""
    gpu = {"request": "gpu", "driver": "gpu.example.com", "pool": "large", "device": "gpu-0"}
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    spec = {"devices": {"requests": [request]}}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": spec}
    low = bound("low", "large", "1", priority=-5, labels={"app": "low"})
    low["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "low"}]
    meta = {"namespace": "team", "resourceVersion": "5"}
    user = {"resource": "pods", "name": "low", "uid": "uid-low"}
    dump(
        tmp_path / "dump.json",
        low,
        {**claim, "metadata": {"name": "low", "uid": "uid-claim", **meta}}
        | {"status": {"allocation": {"devices": {"results": [gpu]}}, "reservedFor": [user]}},
        {**claim, "metadata": {"name": "wanted", "uid": "uid-wanted", **meta}},
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": "large"},
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": "large",
                "pool": {"name": "large", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0"}],
            },
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "guard", "uid": "uid-guard", **meta},
            "spec": {"selector": {"matchLabels": {"app": "low"}}},
            "status": {"disruptionsAllowed": 0},
        },
    )
    wants = '"1"}}}]\n  schedulerName: dra-scheduler\n  resourceClaims: [{name: gpu, resourceClaimName: wanted}]\n#'

    result = asked(tmp_path, "web", "-o", "wide", CPU=wants)

    assert "large\tchosen\t" in result.stdout, result.output
    (row,) = [line for line in result.stdout.splitlines() if line.startswith("large\tchosen")]
    assert row.split("\t")[2] == (
        "team/low (priority -5); PodDisruptionBudgets do not allow 1 of them; releases gpu.example.com/large/gpu-0"
    )


CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}, {name: DefaultPreemption}]}}
"""
TWO = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: a}, {schedulerName: b}]
"""


def test_the_configuration_says_which_plugins_are_asked(tmp_path: Path) -> None:
    config = tmp_path / "scheduler.conf"
    config.write_text(CONFIGURATION)

    result = asked(tmp_path, "web", "--config", str(config), CPU='"64"')

    assert result.exit_code == 0, result.output
    assert "NodeResourcesFit" not in result.stdout


def test_of_a_pod_of_no_profile_it_is_said_which_answers(tmp_path: Path) -> None:
    config = tmp_path / "scheduler.conf"
    config.write_text(TWO)

    result = asked(tmp_path, "web", "--config", str(config), CPU='"1"}}}]\n  schedulerName: other\n#')

    assert result.exit_code == 0, result.output
    said = "schedulerName is other; the file's profiles are a, b: answered with the first"
    assert said in result.stderr.replace("\n", " ")

    config.write_text("kind: Other")
    assert asked(tmp_path, "web", "--config", str(config)).exit_code == 2


@pytest.mark.parametrize(
    ("kind", "version", "selector"),
    [
        ("ReplicaSet", "apps/v1", {"matchLabels": {"app": "web"}}),
        ("StatefulSet", "apps/v1", {"matchLabels": {"app": "web"}}),
        ("ReplicationController", "v1", {"app": "web"}),
        ("Service", "v1", {"app": "web"}),
    ],
)
def test_owners_of_a_dump_spread_their_pods_and_make_none(
    tmp_path: Path, kind: str, version: str, selector: dict[str, Any]
) -> None:
    """The default constraints spread by the owner's selector: of equal nodes the one without such a pod is better."""
    owner = {"apiVersion": version, "kind": kind, "name": "web", "uid": "uid-owner", "controller": True}
    meta: dict[str, Any] = {"labels": {"app": "web"}}
    if kind != "Service":
        meta["ownerReferences"] = [owner]
    waiting = bound("waits", "", "1", priority=0, **meta)
    waiting["status"] = {"phase": "Pending"}
    hosts = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": f"uid-{name}", "labels": {"kubernetes.io/hostname": name}},
            "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"}},
        }
        for name in ("one", "two")
    ]
    spec = {"selector": selector, "replicas": 3}
    selecting = {"apiVersion": version, "kind": kind, "metadata": {"name": "web", "namespace": "team"}, "spec": spec}
    selecting["metadata"] |= {"uid": "uid-owner", "resourceVersion": "3"}

    def scores(*more: dict[str, Any]) -> dict[str, int]:
        dump(tmp_path / "dump.json", *hosts, bound("first", "one", "1", priority=0, **meta), waiting, *more)
        result = CliRunner().invoke(cli, ["explain", "waits", "-f", str(tmp_path / "dump.json"), "-o", "json"])
        assert result.exit_code == 0, result.output
        nodes = json.loads(result.stdout)["scores"]
        return {one["node"]: one["plugins"].get("PodTopologySpread", 0) for one in nodes}

    assert scores() == {"one": 0, "two": 0}
    with_owner = scores(selecting)
    assert with_owner["two"] > with_owner["one"]
