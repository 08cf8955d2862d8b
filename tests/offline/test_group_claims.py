"""Claims of PodGroups: one for the group where the entry is the group's, as kube-controller-manager makes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from scheduler.cli.main import cli
from tests.offline.causes import CLASS, device_class, gpu, node, pod, slice_, template

Obj = dict[str, Any]
WORLD = [node(), slice_(gpu("gpu-0"), gpu("gpu-1")), device_class(), template()]


def group(*entries: Obj, **metadata: Any) -> Obj:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "workers", "namespace": "default", **metadata},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": list(entries)},
    }


def members(count: int, *claims: str) -> list[Obj]:
    named = {"podGroupName": "workers"}
    return [pod(*claims or ("template:gpu",), name=f"w{index}", schedulingGroup=named) for index in range(count)]


ENTRY = {"name": "gpu", "resourceClaimTemplateName": "gpu"}


def asked(path: Path, *objects: Obj, exit_code: int = 0) -> dict[str, list[tuple[str, str]]]:
    """By pod: the claim and device that it is given."""
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    result = CliRunner().invoke(cli, ["simulate", "-f", str(path), "-o", "json"])
    assert result.exit_code == exit_code, result.output
    found = json.loads(result.stdout)["pods"]
    return {one["name"]: [(each["claim"], each["device"]) for each in one["devices"]] for one in found}


def test_a_group_has_one_claim_for_an_entry_of_its_own(tmp_path: Path) -> None:
    found = asked(tmp_path / "a.json", *WORLD, group(ENTRY), *members(4))
    claims = {one for given in found.values() for one in given}
    assert len(found) == 4
    assert len(claims) == 1, found
    assert next(iter(claims))[0].startswith("workers-gpu-")


def test_an_entry_that_the_group_has_not_is_each_pods_own(tmp_path: Path) -> None:
    of_others = ({**ENTRY, "name": "another"}, {**ENTRY, "resourceClaimTemplateName": "another"})
    found = asked(tmp_path / "a.json", *WORLD, group(*of_others), *members(2))
    assert {given[0][0].rsplit("-", 1)[0] for given in found.values()} == {"w0-gpu", "w1-gpu"}
    stranger = asked(tmp_path / "b.json", *WORLD, group(ENTRY, namespace="elsewhere"), group(), *members(2))
    assert len({given[0] for given in stranger.values()}) == 2


def test_the_claim_that_a_group_has_is_found(tmp_path: Path) -> None:
    owner = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": "workers", "uid": "group"}
    metadata = {
        "name": "workers-gpu-abcde",
        "namespace": "default",
        "uid": "claim",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
        "ownerReferences": [{**owner, "controller": True}],
    }
    held = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata}
    exactly = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": 1}
    held["spec"] = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    found = asked(tmp_path / "a.json", *WORLD, group(ENTRY, uid="group", resourceVersion="3"), held, *members(2))
    assert {given[0][0] for given in found.values()} == {"workers-gpu-abcde"}


def test_a_group_that_cannot_be_read_is_told_and_stops_nobody(tmp_path: Path) -> None:
    broken = [{**group(ENTRY), "spec": 1}, {**group(ENTRY), "metadata": 1}, group(ENTRY, namespace=["a"])]
    for number, one in enumerate((*broken, group({"name": 1}), group(1, name=None))):
        found = asked(tmp_path / f"{number}.json", *WORLD, one, pod("template:gpu"), exit_code=2)
        assert [given[0][0].rsplit("-", 1)[0] for given in found.values()] == ["asked-gpu"]
