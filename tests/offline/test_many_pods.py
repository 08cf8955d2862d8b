"""Workloads of too many pods are refused before the first is made, with field, number and limit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scheduler.cli.main import cli
from scheduler.embedded.controllers.owned import PODS_MAX
from scheduler.offline import OfflineCluster, SourceObject
from tests.offline.causes import node

TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "i"}]},
}


def workload(kind: str, name: str = "x", **spec: Any) -> dict[str, Any]:
    template = TEMPLATE if kind != "Job" else {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
    selector = {} if kind == "Job" else {"selector": {"matchLabels": {"a": "b"}}}
    version = "batch/v1" if kind == "Job" else "apps/v1"
    spec = {"template": template, **selector, **spec}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def loaded(*objects: dict[str, Any], pods_max: int = 5) -> tuple[int, list[str]]:
    """How many pods there are, and what was refused."""
    cluster = OfflineCluster(0, pods_max=pods_max)
    problems = cluster.load([SourceObject(f"file:{number}", one) for number, one in enumerate(objects)]).problems
    return len(cluster.pods()), [str(one) for one in problems]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "Job"])
def test_too_many_are_refused_with_the_field_and_the_others_are_made(kind: str) -> None:
    field = "parallelism" if kind == "Job" else "replicas"
    many = {field: 2**31 - 1} | ({"completions": 2**31 - 1} if kind == "Job" else {})
    made, refused = loaded(workload(kind, "many", **many), workload("Deployment", "few", replicas=2))
    assert made == 2
    assert refused == [
        f"file:0: {kind} many: spec.{field}: 2147483647 pods; at most 5 are made here: write a smaller number"
    ]


def test_they_count_together() -> None:
    made, refused = loaded(*(workload("Deployment", name, replicas=2) for name in "abc"))
    assert made == 4
    assert refused == [
        "file:2: Deployment c: spec.replicas: 2 pods; at most 5 are made here, and others here make 4: "
        "write a smaller number"
    ]


def test_daemon_sets_count_nodes() -> None:
    made, refused = loaded(
        *(node(f"n{number}") for number in range(3)), workload("DaemonSet", "a"), workload("DaemonSet", "b")
    )
    assert made == 3
    assert refused[0].startswith("file:4: DaemonSet b: a pod on each node: 3 pods; at most 5 are made here")


@pytest.mark.parametrize(
    ("spec", "made"),
    [
        ({}, 1),
        ({"replicas": None}, 1),
        ({"replicas": 0}, 0),
        ({"replicas": 5}, 5),
        ({"replicas": -1}, 0),
        ({"replicas": "9"}, 0),
    ],
)
def test_what_is_no_large_number_is_as_before(spec: dict[str, Any], made: int) -> None:
    assert loaded(workload("Deployment", **spec))[0] == made


def test_a_job_has_no_more_pods_than_completions() -> None:
    assert loaded(workload("Job", parallelism=2**31 - 1, completions=3)) == (3, [])


@pytest.mark.parametrize("command", ["simulate", "explain -A", "devices", "explain deployment/x", "make-room FILE"])
def test_commands_say_so_at_once(tmp_path: Path, command: str) -> None:
    path = tmp_path / "world.json"
    path.write_text(json.dumps(workload("Deployment", replicas=2**31 - 1)))
    result = CliRunner().invoke(cli, [*(one.replace("FILE", str(path)) for one in command.split()), "-f", str(path)])
    assert f"spec.replicas: 2147483647 pods; at most {PODS_MAX} are made here" in result.output
    assert result.exit_code in (0, 1, 2)
