"""Files with fields that this scheduler does not know: the smallest part is left out, and the first line says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scheduler.cli.main import cli
from scheduler.offline.left_out_parts import TEXTS_MAX
from tests.inventory.test_listing import DRIVER, GPU_CLASS, node, slice_of

CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "c", "namespace": "default"},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1}}]}},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {
        "schedulerName": "dra-scheduler",
        "containers": [{"name": "c", "image": "x", "resources": {"claims": [{"name": "g"}]}}],
        "resourceClaims": [{"name": "g", "resourceClaimName": "c"}],
    },
}
ROOMY = {**node("n1"), "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10"}}}
PREFIX = "not all is considered: "


def published(*devices: dict[str, Any], **more: Any) -> dict[str, Any]:
    made = slice_of("n1", *devices)
    made["spec"] |= more
    return made


def answer(tmp_path: Path, command: str, *objects: Any, output: str = "table") -> str:
    file = tmp_path / "objects.json"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [ROOMY, GPU_CLASS, CLAIM, POD, *objects]}))
    result = CliRunner().invoke(cli, [*command.split(), "-f", str(file), "-o", output])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.stdout


@pytest.mark.parametrize(
    "command", ["simulate", "explain p", "explain -A", "devices", "explain claim/c", "make-room p"]
)
def test_every_answer_begins_with_what_is_left_out(tmp_path: Path, command: str) -> None:
    out = answer(tmp_path, command, published({"name": "a", "newer": 1}, {"name": "b", "newer": 1}))
    assert out.splitlines()[0] == (
        f"{PREFIX}device a of ResourceSlice n1-1 is left out: this scheduler does not know the field newer (and 1 more)"
    )


@pytest.mark.parametrize(
    ("device", "more", "fits"),
    [({"newer": {"x": 1}}, {}, True), ({}, {"newer": ["x"]}, False)],
)
def test_the_smallest_part_is_left_out(
    tmp_path: Path, device: dict[str, Any], more: dict[str, Any], *, fits: bool
) -> None:
    out = answer(tmp_path, "explain p", published({"name": "a", **device}, {"name": "b"}, **more)).splitlines()
    assert out[0].startswith(PREFIX)
    assert ("fits" in out[1] and "does not fit" not in out[1]) == fits
    assert fits or "[field-unread]" in out[1]


def test_a_field_of_a_device_that_is_misspelt_is_still_told(tmp_path: Path) -> None:
    first, *_ = answer(tmp_path, "devices", published({"name": "a", "atributes": {}})).splitlines()
    assert first.endswith("the field atributes (did you mean attributes?)")


def test_a_group_whose_field_is_not_known_keeps_its_pods_waiting(tmp_path: Path) -> None:
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 1}},
            "disruptionMode": {"most": {}},
        },
    }
    member = json.loads(json.dumps(POD))
    member["metadata"]["name"] = "member"
    member["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    out = answer(tmp_path, "explain member", published({"name": "a"}), group, member).splitlines()
    path = "spec.disruptionMode.most"
    assert (
        out[0]
        == f"{PREFIX}PodGroup default/g is left out, its pods wait: this scheduler does not know the field {path}"
    )
    assert out[1].startswith(
        f"pod default/member does not fit [field-unread]: PodGroup default/g has the field {path}, which this scheduler"
    )


def test_a_class_whose_field_is_not_known_serves_nobody(tmp_path: Path) -> None:
    odd = {**GPU_CLASS, "spec": {**GPU_CLASS["spec"], "newer": 1}, "metadata": {**GPU_CLASS["metadata"], "uid": "u"}}
    out = answer(tmp_path, "explain p", published({"name": "a"}), odd).splitlines()
    assert out[0] == f"{PREFIX}DeviceClass gpu is left out: this scheduler does not know the field spec.newer"
    assert "[field-unread]: DeviceClass gpu, which request r of ResourceClaim default/c names" in out[1]


def test_programs_find_it_too(tmp_path: Path) -> None:
    found = json.loads(answer(tmp_path, "devices", published({"name": "a", "newer": 1}), output="json"))
    assert len(found["left_out"]) == 1
    (device,) = found["devices"]
    assert (device["device"], device["state"]) == ("a", "blocked")
    assert device["blocked_by"] == [
        {"kind": "field", "name": "newer", "text": "field newer is not known to this scheduler"}
    ]
    assert device["driver"] == DRIVER


def test_a_pod_of_a_workload_of_1_35_waits(tmp_path: Path) -> None:
    """Its gang's rules are in an object that nobody here reads: placed by itself it might break the gang."""
    member = json.loads(json.dumps(POD))
    member["metadata"]["name"] = "member"
    member["spec"]["workloadRef"] = {"name": "w", "podGroup": "g"}
    first, *_ = answer(tmp_path, "explain member", published({"name": "a"}), member).splitlines()
    assert first.startswith(
        "pod default/member does not fit [field-unread]: pod default/member has the field spec.workloadRef, which this"
    )


def test_a_bad_slice_silences_no_other(tmp_path: Path) -> None:
    bad = published({"name": "a", **{f"newer{number}": 1 for number in range(10_000)}}, newer={"x": [1]})
    other = slice_of("n1", {"name": "b"})
    other["metadata"]["name"], other["spec"]["pool"]["name"], other["spec"]["driver"] = "other", "q", DRIVER
    out = answer(tmp_path, "explain p", bad, other).splitlines()
    assert out[0] == f"{PREFIX}ResourceSlice n1-1 is left out: this scheduler does not know the field spec.newer"
    assert "fits" in out[1]
    assert "does not fit" not in out[1]


def test_texts_are_bounded(tmp_path: Path) -> None:
    devices = [{"name": f"d{number}", f"newer-{number}\x1b[2J": 1} for number in range(100)]
    found = json.loads(answer(tmp_path, "devices", published(*devices), output="json"))
    assert len(found["left_out"]) == TEXTS_MAX + 1
    assert found["left_out"][-1] == f"{100 - TEXTS_MAX} more are left out, for other reasons"
    out = answer(tmp_path, "devices", published(*devices))
    assert "\x1b" not in out
    assert out.splitlines()[0].endswith(f"the field newer-0??2J (and {TEXTS_MAX} more)")


def test_a_group_has_the_priority_of_its_class_as_on_a_server(tmp_path: Path) -> None:
    """Its pods have theirs by then, and would be told that they differ from their group."""
    named = {"priorityClassName": "five"}
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}, **named},
    }
    member = json.loads(json.dumps(POD))
    member["metadata"]["name"] = "member"
    member["spec"] |= {"schedulingGroup": {"podGroupName": "g"}, **named}
    five = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "five"},
        "value": 5,
    }
    out = answer(tmp_path, "explain member", published({"name": "a"}), group, member, five)
    assert "all pods in a single pod group" not in out
    group["spec"] = {"schedulingPolicy": {"gang": {"minCount": 1}}}
    out = answer(tmp_path, "explain member", published({"name": "a"}), group, member, five)
    assert "[group-unlike]: PodGroup default/g: all pods in a single pod group should have the same priority" in out
