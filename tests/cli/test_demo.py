"""The demo as a user runs it: a process of its own, its standard output, its exit code."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

DEMO = [sys.executable, "-m", "scheduler", "demo"]


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*DEMO, *arguments], capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def answer() -> dict[str, Any]:
    done = _run("-o", "json")
    assert done.returncode == 0, done.stderr
    parsed: dict[str, Any] = json.loads(done.stdout)
    return parsed


def _pods(answer: dict[str, Any], namespace: str) -> list[dict[str, Any]]:
    return [pod for pod in answer["pods"] if pod["namespace"] == namespace]


def test_the_training_job_gets_four_large_gpus_on_one_numa_node(answer: dict[str, Any]) -> None:
    (pod,) = _pods(answer, "training")

    assert pod["node"].startswith("gpu-node-")
    indices = [int(device["device"].removeprefix("gpu-")) for device in pod["devices"]]
    assert len(set(indices)) == 4
    assert len({index // 4 for index in indices}) == 1
    assert {device["driver"] for device in pod["devices"]} == {"gpu.example.com"}


def test_each_inference_pod_gets_a_small_gpu_of_its_own(answer: dict[str, Any]) -> None:
    pods = _pods(answer, "inference")

    assert [len(pod["devices"]) for pod in pods] == [1, 1, 1]
    devices = {(device["pool"], device["device"]) for pod in pods for device in pod["devices"]}
    assert len(devices) == 3
    assert {pool for pool, _ in devices} == {"small-gpu-node-0"}


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


def test_the_table_names_every_pod() -> None:
    done = _run()

    assert done.returncode == 0, done.stderr
    for text in ("training/train", "inference/chat", "sharing/two-containers", "greedy/wants-nine", "<none>"):
        assert text in done.stdout


def test_serve_keeps_running_until_it_is_told_to_stop() -> None:
    with subprocess.Popen([*DEMO, "-o", "json", "--serve"], stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            lines = []
            while not (line := running.stdout.readline()).rstrip().endswith("kubeconfig"):
                assert line, "the demo ended before it named its kubeconfig"
                lines.append(line)
            kubeconfig = Path(line.strip())
            assert kubeconfig.is_file()
            assert json.loads("".join(lines))["pods"]
            running.send_signal(signal.SIGINT)
            assert running.wait(timeout=30) == 0
            assert not kubeconfig.exists()
        finally:
            running.kill()


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
    ],
)
def test_a_file_that_cannot_be_applied_is_named_without_a_traceback(tmp_path: Path, text: str, want: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")

    done = _run("--apply", str(path))

    assert done.returncode == 1
    assert want in done.stderr
    assert "Traceback" not in done.stderr
