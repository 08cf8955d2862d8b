"""`dump` writes what the other commands read, and names what it may not list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from scheduler.cli.main import cli
from tests.cli.test_cluster_objects import said

SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "cHJpdmF0ZQ=="}}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1"}}}


async def test_a_kind_that_may_not_be_listed_is_named_in_the_file_and_left_out(tmp_path: Path) -> None:
    result = await said(tmp_path, "dump", missing=("replicasets",))

    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("# cannot list ReplicaSet objects: /apis/apps/v1/replicasets is forbidden; ")
    assert {one["kind"] for one in yaml.safe_load_all(result.stdout) if one} == {"Node", "Pod", "ResourceSlice"}
    assert "warning: cannot list ReplicaSet objects" in result.stderr


async def test_without_claims_the_file_shows_no_device_as_free(tmp_path: Path) -> None:
    result = await said(tmp_path, "dump", "-o", "json", missing=("resourceclaims",))

    assert {one["kind"] for one in json.loads(result.stdout)["items"]} == {"Node", "Pod"}


def test_files_are_taken_too_and_secrets_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [SECRET, NODE]}))

    result = CliRunner().invoke(cli, ["dump", "-f", str(path), "-o", "name"])

    assert (result.exit_code, result.stdout) == (0, "Node/n\n")
    assert result.stderr == "note: left out 1 of kind Secret\n"


def test_wrong_use_is_2() -> None:
    assert CliRunner().invoke(cli, ["dump", "-o", "nothing"]).exit_code == 2


@pytest.mark.parametrize(
    ("kind", "rest", "said"),
    [
        ("Pod", {"spec": 5}, "Pod x: "),
        ("Pod", {"spec": {"containers": 5}}, "spec.containers"),
        ("Pod", {"spec": {"volumes": [{"csi": 5}]}}, "spec.volumes[0].csi"),
        (
            "Pod",
            {"spec": {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": "x"}}]}},
            "volumeClaimTemplate",
        ),
        ("Node", {"status": 5}, "Node x: "),
        ("ReplicaSet", {"spec": 5}, "ReplicaSet x: "),
        ("PodGroup", {"metadata": {"annotations": 5}}, "its fields cannot be read"),
    ],
)
def test_what_cannot_be_read_is_left_out_and_the_others_are_shown(
    tmp_path: Path, kind: str, rest: dict[str, Any], said: str
) -> None:
    metadata = {"name": "x", "uid": "u", "resourceVersion": "1", **rest.pop("metadata", {})}
    version = {"ReplicaSet": "apps/v1", "PodGroup": "scheduling.k8s.io/v1alpha2"}.get(kind, "v1")
    path = tmp_path / "world.yaml"
    path.write_text(yaml.dump_all([{"apiVersion": version, "kind": kind, "metadata": metadata, **rest}, NODE]))
    result = CliRunner().invoke(cli, ["dump", "-f", str(path), "-o", "name"])
    assert (result.exit_code, result.stdout) == (0, "Node/n\n")
    assert "warning: left out " in result.stderr
    assert said in result.stderr
