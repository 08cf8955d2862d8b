"""Files with objects that the API server refuses: who needs one reads why first, the others only in a note."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scheduler.cli.main import cli
from tests.inventory.test_listing import GPU_CLASS, gpu, slice_of
from tests.offline.test_unknown_fields import CLAIM, POD, ROOMY

NEGATIVE = "spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero"


def ask(tmp_path: Path, command: str, *objects: Any) -> Result:
    file = tmp_path / "objects.json"
    items = [ROOMY, GPU_CLASS, slice_of("n1", gpu("a")), CLAIM, POD, *objects]
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    return CliRunner().invoke(cli, [*command.split(), "-f", str(file)])


def named(obj: dict[str, Any], name: str) -> dict[str, Any]:
    return {**copy.deepcopy(obj), "metadata": {"name": name, "namespace": "default"}}


def negative(kind: str) -> dict[str, Any]:
    claim = named(CLAIM, "bad")
    claim["spec"]["devices"]["requests"][0]["exactly"]["count"] = -1
    return claim if kind == "ResourceClaim" else {**claim, "kind": kind, "spec": {"spec": claim["spec"]}}


@pytest.mark.parametrize(
    ("kind", "entry"),
    [("ResourceClaim", "resourceClaimName"), ("ResourceClaimTemplate", "resourceClaimTemplateName")],
)
def test_a_pod_whose_claim_is_refused_reads_which_field(tmp_path: Path, kind: str, entry: str) -> None:
    waiting = named(POD, "waits")
    waiting["spec"]["resourceClaims"] = [{"name": "g", entry: "bad"}]
    first, *_ = ask(tmp_path, "explain pod/waits", waiting, negative(kind)).stdout.splitlines()
    assert first.startswith("pod default/waits does not fit [claim-not-made]: its ResourceClaim cannot be made: ")
    where = NEGATIVE if kind == "ResourceClaim" else f"spec.{NEGATIVE}"
    assert f"{kind} bad: {where.partition(' must')[0]}" in first


def test_a_pod_that_is_refused_reads_which_field(tmp_path: Path) -> None:
    wrong = named(POD, "wrong")
    wrong["spec"]["containers"][0]["resources"]["claims"][0]["name"] = "other"
    first, second, *_ = ask(tmp_path, "explain pod/wrong", wrong).stdout.splitlines()
    assert first.startswith("pod default/wrong does not fit [pod-refused]: ")
    assert 'spec.containers[0].resources.claims[0]: Not found: "other"' in first
    assert second == "correct what the API server refuses; the scheduler cannot help"


def test_what_is_refused_of_another_pod_is_a_note(tmp_path: Path) -> None:
    found = ask(tmp_path, "explain pod/p", negative("ResourceClaim"), named(POD, "Wrong_Name"))
    assert found.stdout.startswith("pod default/p fits")
    assert NEGATIVE in found.stderr
    assert '"Wrong_Name"' in found.stderr


def test_a_slice_that_is_refused_concerns_every_pod_and_its_text_is_cut(tmp_path: Path) -> None:
    found = ask(tmp_path, "explain pod/p", slice_of("n2", gpu("a" * 400)))
    first, second, *_ = found.stdout.splitlines()
    assert first.startswith("not all is considered: ")
    assert len(first) < 300
    assert second.startswith("pod default/p fits")
