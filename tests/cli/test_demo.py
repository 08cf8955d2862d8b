"""The demo as a user runs it: its standard output and its exit code; what signals do to it, in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scheduler.cli.demo_objects import DemoObjects
from scheduler.cli.main import cli
from scheduler.cli.pod_devices import OURS
from scheduler.embedded.cluster import EmbeddedCluster
from scheduler.embedded.kinds.catalog import CLAIM, POD
from scheduler.model.pod_claims import claim_names
from tests.cli.answers import DemoAnswer
from tests.patience import PATIENCE_S

DEMO = [sys.executable, "-m", "scheduler", "demo"]


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["demo", *arguments])


@pytest.fixture(scope="module")
def answer() -> dict[str, Any]:
    done = _run("-o", "json")
    assert done.exit_code == 0, done.stderr
    DemoAnswer.model_validate_json(done.stdout)
    parsed: dict[str, Any] = json.loads(done.stdout)
    return parsed


def _pods(answer: dict[str, Any], namespace: str) -> list[dict[str, Any]]:
    return [pod for pod in answer["pods"] if pod["namespace"] == namespace]


@pytest.mark.slow
def test_the_training_job_gets_four_large_gpus_on_one_numa_node(answer: dict[str, Any]) -> None:
    (pod,) = _pods(answer, "training")

    assert pod["node"].startswith("gpu-node-")
    indices = [int(device["device"].removeprefix("gpu-")) for device in pod["devices"]]
    assert len(set(indices)) == 4
    assert len({index // 4 for index in indices}) == 1
    assert {device["driver"] for device in pod["devices"]} == {"gpu.example.com"}


def test_each_inference_pod_gets_a_gpu_of_its_own_one_of_them_small(
    answer: dict[str, Any],
) -> None:
    pods = _pods(answer, "inference")

    assert [len(pod["devices"]) for pod in pods] == [1, 1, 1]
    devices = {(device["pool"], device["device"]) for pod in pods for device in pod["devices"]}
    assert len(devices) == 3
    assert "small-gpu-node-0" in {pool for pool, _ in devices}


def test_a_pod_gets_a_gpu_and_its_volume(answer: dict[str, Any]) -> None:
    (pod,) = _pods(answer, "finetuning")

    assert pod["node"] is not None
    assert len(pod["devices"]) == 1


def test_two_containers_share_one_device_and_cel_picks_the_one_asked_for(answer: dict[str, Any]) -> None:
    (shared,) = _pods(answer, "sharing")
    (picky,) = _pods(answer, "picky")

    assert len(shared["devices"]) == 1
    assert [device["device"] for device in picky["devices"]] == ["gpu-7"]


def test_the_pod_that_cannot_fit_is_told_why(answer: dict[str, Any]) -> None:
    (pod,) = _pods(answer, "greedy")

    assert pod["node"] is None
    assert pod["devices"] == []
    assert pod["reason"].startswith("0/3 nodes are available: ")
    assert "cannot allocate all claims" in pod["reason"]


def test_no_device_is_given_twice(answer: dict[str, Any]) -> None:
    taken = Counter((d["driver"], d["pool"], d["device"]) for pod in answer["pods"] for d in pod["devices"])

    assert taken.most_common(1)[0][1] == 1


@pytest.mark.slow
def test_the_table_names_every_pod() -> None:
    done = _run()

    assert done.exit_code == 0, done.stderr
    for text in ("training/train", "inference/chat", "sharing/two-containers", "greedy/wants-nine", "<none>"):
        assert text in done.stdout
    # As things are at the end: of each node's 8 some have been given to others by then.
    cells = _table(done)
    used = Counter(node for node, devices in cells.values() for one in devices.split(", ") if one.startswith("gpu-"))
    left = 8 - min(used[f"gpu-node-{number}"] for number in range(2))
    assert cells["greedy/wants-nine"][1].startswith("[devices-short] node gpu-node-")
    assert f"; to make it fit: ask for {left} devices instead of 9" in cells["greedy/wants-nine"][1]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0), (signal.SIGHUP, 129)])
def test_serve_keeps_running_until_it_is_told_to_stop_and_prints_one_json_document(
    number: signal.Signals, code: int
) -> None:
    with subprocess.Popen([*DEMO, "-o", "json", "--serve"], stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            lines = []
            while (line := running.stdout.readline()) != "}\n":
                assert line, "the demo ended before its answer did"
                lines.append(line)
            answer = json.loads("".join([*lines, "}"]))
            kubeconfig = Path(answer["kubeconfig"])
            assert kubeconfig.is_file()
            assert answer["pods"]
            running.send_signal(number)
            assert running.wait(timeout=PATIENCE_S) == code
            assert running.stdout.read() == ""
            assert not kubeconfig.parent.exists()
        finally:
            running.kill()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("kind: [", "no valid YAML", id="broken-yaml"),
        pytest.param("apiVersion: v1\nkind: Nonsense\nmetadata: {name: a}\n", "Nonsense", id="unknown-kind"),
        pytest.param(
            "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: a, namespace: default}\n"
            "spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c, count: -1}}]}}\n",
            "count",
            id="invalid-claim",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
            "spec: {containers: [{name: a, image: i}], resourceClaimTemplates: []}\n",
            'mine.yaml:1:1: Pod a: Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
            'unknown field "spec.resourceClaimTemplates"',
            id="unknown-field",
        ),
        pytest.param("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: text\n", "spec", id="spec-is-text"),
        pytest.param(
            "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\n", "makes no pods for it", id="cron-job"
        ),
    ],
)
def test_a_file_that_cannot_be_applied_is_named_without_a_traceback(tmp_path: Path, text: str, want: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")

    done = _run("--apply", str(path))

    assert done.exit_code == 2
    assert want in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_what_is_refused_is_named_and_the_rest_is_applied(tmp_path: Path) -> None:
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "team"}, "spec": spec}
        for name, spec in (
            ("wrong", {"schedulerName": OURS, "containers": []}),
            ("right", {"schedulerName": OURS, "containers": [{"name": "c", "image": "i"}]}),
        )
    ]
    (tmp_path / "a-pods.yaml").write_text("\n---\n".join(map(json.dumps, pods)), encoding="utf-8")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    (tmp_path / "b-namespace.yaml").write_text(json.dumps(namespace), encoding="utf-8")

    done = _run("--apply", str(tmp_path))

    assert done.exit_code == 2
    refused = f'{tmp_path}/a-pods.yaml:1:1: Pod team/wrong: Pod "wrong" is invalid: spec.containers: Required value'
    assert f"refused: {refused}\n" in done.stderr
    assert f"not all was applied: {refused}\n" in done.stderr
    assert _table(done)["team/right"][0].startswith("gpu-node")


GATED = """
apiVersion: v1
kind: Node
metadata: {name: gpu-node-0}
---
apiVersion: v1
kind: Pod
metadata: {name: gated}
spec: {schedulerName: dra-scheduler, schedulingGates: [{name: x/y}], containers: [{name: a, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: misspelt}
spec: {schedulerName: dra-schedular, containers: [{name: a, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: somebody-elses}
spec: {containers: [{name: a, image: i}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: wrong}
spec:
  devices:
    requests:
      - name: gpu
        exactly:
          deviceClassName: gpu.example.com
          selectors: [{cel: {expression: "device.attributes['gpu.example.com'].nothing == 'x'"}}]
---
apiVersion: v1
kind: Pod
metadata: {name: cel-error}
spec:
  schedulerName: dra-scheduler
  containers: [{name: a, image: i, resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimName: wrong}]
---
apiVersion: v1
kind: Pod
metadata: {name: no-template}
spec:
  schedulerName: dra-scheduler
  containers: [{name: a, image: i, resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: nowhere}]
"""


def _table(done: Result) -> dict[str, list[str]]:
    """The table's cells by pod."""
    assert "Traceback" not in done.stderr
    return {line.split("\t")[0]: line.split("\t")[1:] for line in done.stdout.splitlines()[1:]}


@pytest.mark.slow
def test_each_pod_has_its_word_and_nobody_is_waited_for_in_vain(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GATED, encoding="utf-8")

    done = _run("--apply", str(path))

    assert done.exit_code == 0, done.stderr
    rows = _table(done)
    assert rows["default/gated"][1].startswith(
        "[scheduling-gate] pod default/gated has the scheduling gate x/y; to make it fit: "
    )
    assert rows["default/cel-error"][1].startswith("[selector-error] request gpu: no device of its class has")
    assert rows["default/misspelt"][1].startswith("[scheduler-unknown] no pod that has a node names the scheduler")
    assert "write schedulerName: dra-scheduler instead of dra-schedular" in rows["default/misspelt"][1]
    assert "set it to dra-scheduler" in rows["default/somebody-elses"][1]
    assert 'resource claim template "nowhere": not found' in rows["default/no-template"][1]


SETS = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu.example.com}}]}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: ordered}
spec:
  replicas: 3
  selector: {matchLabels: {app: ordered}}
  template:
    metadata: {labels: {app: ordered}}
    spec:
      schedulerName: dra-scheduler
      containers: [{name: a, image: i, resources: {claims: [{name: gpu}]}}]
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: everywhere}
spec:
  selector: {matchLabels: {app: everywhere}}
  template:
    metadata: {labels: {app: everywhere}}
    spec:
      schedulerName: dra-scheduler
      containers: [{name: a, image: i, resources: {claims: [{name: gpu}]}}]
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
"""


@pytest.mark.slow
def test_stateful_sets_and_daemon_sets_have_their_pods(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(SETS, encoding="utf-8")

    done = _run("--apply", str(path))

    assert done.exit_code == 0, done.stderr
    rows = {name: cells for name, cells in _table(done).items() if name.startswith("default/")}
    assert all(cells[1].startswith("gpu-") for cells in rows.values()), rows
    assert {name for name in rows if "ordered" in name} == {f"default/ordered-{number}" for number in range(3)}
    # The third node has a taint that the daemons do not tolerate.
    assert sorted(cells[0] for name, cells in rows.items() if "everywhere" in name) == ["gpu-node-0", "gpu-node-1"]


@pytest.mark.slow
def test_a_kind_that_is_of_no_use_here_is_left_out_with_a_word() -> None:
    folder = Path(__file__).resolve().parents[2] / "docs" / "examples" / "shapes"
    files = [str(folder / "inference-partitions-cluster.yaml"), str(folder / "inference-partitions.yaml")]

    done = _run("--cluster", files[0], "--apply", files[1])

    assert done.exit_code == 0, done.stderr
    assert "HorizontalPodAutoscaler answers: left out: the embedded cluster does not serve its kind" in done.stderr
    assert all(cells[0] != "<none>" for cells in _table(done).values())


@pytest.mark.slow
def test_an_example_with_its_own_cluster_is_alone_in_it() -> None:
    folder = Path(__file__).resolve().parents[2] / "docs" / "examples" / "features"
    files = [str(folder / "binding-conditions-cluster.yaml"), str(folder / "binding-conditions.yaml")]

    with_cluster = _run("--cluster", files[0], "--apply", files[1])
    empty = _run("--empty", "--apply", files[0], "--apply", files[1])

    for done in (with_cluster, empty):
        assert done.exit_code == 0, done.stderr
        rows = _table(done)
        assert list(rows) == ["default/waits-for-its-gpu"]
        assert rows["default/waits-for-its-gpu"][1].startswith("[binding-condition-unset] ")


@pytest.mark.slow
def test_who_made_room_is_said_when_it_happens_and_has_a_row() -> None:
    folder = Path(__file__).resolve().parents[2] / "docs" / "examples" / "features"

    done = _run("--cluster", str(folder / "preemption-cluster.yaml"), "--apply", str(folder / "preemption.yaml"))

    assert done.exit_code == 0, done.stderr
    rows = _table(done)
    node, device = rows.pop("default/training")
    assert node == "busy-0"
    words = f"preempted: made room for default/training, which needs its devices gpu.example.com/busy-0/{device}"
    assert sorted(cells[0] for cells in rows.values()) == ["<none>", "<none>", "busy-0"]
    (victim,) = [name for name, cells in rows.items() if cells[1] == words]
    assert f"{victim}: {words}" in done.stderr


async def test_pods_have_their_claims_in_the_order_of_the_file() -> None:
    """Else the controller's four workers decide who comes into the queue first, and who gets the last devices."""
    folder = Path(__file__).resolve().parents[2] / "docs" / "examples" / "features"
    files = [str(folder / f"shared-partitions{part}.yaml") for part in ("-cluster", "")]
    objects = DemoObjects.read(files[:1], files[1:], nodes=0, is_empty=False)

    async with EmbeddedCluster() as cluster:
        await objects.build(cluster)
        await objects.apply(cluster)

        claims = cluster.api.store.listed(CLAIM.kind_id)
        names = [name for pod in cluster.api.store.listed(POD.kind_id) for name in claim_names(pod.obj)]

    made = sorted(claims, key=lambda claim: int(claim.obj["metadata"]["resourceVersion"]))
    assert [claim.obj["metadata"]["ownerReferences"][0]["name"] for claim in made] == [
        "large-0",
        "large-1",
        "small",
        "whole",
    ]
    assert sorted(names) == sorted(claim.name for claim in claims)


@pytest.mark.slow
def test_a_dump_is_a_cluster_too(tmp_path: Path) -> None:
    """What runs there keeps its devices, and what owns it there need not be in the dump."""
    path, mine = tmp_path / "dump.yaml", tmp_path / "mine.yaml"
    path.write_text(json.dumps(DUMP), encoding="utf-8")
    mine.write_text(WANTS_ONE, encoding="utf-8")

    done = _run("--cluster", str(path), "--apply", str(mine), "-o", "json")

    assert done.exit_code == 0, done.stderr
    (pod,) = [pod for pod in json.loads(done.stdout)["pods"] if pod["name"] == "mine"]
    assert pod["node"] == "big"
    assert [device["device"] for device in pod["devices"]] == ["gpu-1"]


def _meta(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "uid": f"uid-{name}", "resourceVersion": "77", "managedFields": [{"manager": "x"}], **more}


def _owned(kind: str, name: str) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}
    return {"ownerReferences": [owner]}


RESOURCES = {"cpu": "8", "memory": "8Gi", "pods": "10"}
DUMP: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": _meta("big"),
            "spec": {},
            "status": {"allocatable": RESOURCES, "capacity": RESOURCES},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": _meta("gpu.example.com"),
            "spec": {},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": _meta("slice", **_owned("Node", "gone")),
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": "big",
                "pool": {"name": "big", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}],
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": _meta("runs", namespace="default", **_owned("Job", "gone")),
            "spec": {
                "nodeName": "big",
                "containers": [{"name": "a", "image": "i"}],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": "held"}],
            },
            "status": {"phase": "Running"},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": _meta("held", namespace="default"),
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}]}},
            "status": {
                "allocation": {
                    "devices": {
                        "results": [{"request": "r", "driver": "gpu.example.com", "pool": "big", "device": "gpu-0"}]
                    }
                },
                "reservedFor": [{"resource": "pods", "name": "runs", "uid": "uid-runs"}],
            },
        },
    ],
}
WANTS_ONE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: mine}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu.example.com}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: mine}
spec:
  schedulerName: dra-scheduler
  containers: [{name: a, image: i, resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimName: mine}]
"""
