"""What commands print for programs has the schemas that docs/schemas publishes, and exit codes mean what is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import BaseModel

from scheduler.cli.answers import AllocateAnswer, SimulateAnswer
from scheduler.cli.main import cli
from tests.inventory.test_listing import DRIVER, GPU_CLASS, HALF, gpu, node, slice_of

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
NODE = {**node(), "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}}}


def pod(name: str, template: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "dra-scheduler",
            "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}],
        },
    }


def template(name: str, count: int) -> dict[str, Any]:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": count}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def printed(command: list[str], folder: Path, *pods: dict[str, Any]) -> tuple[int, str]:
    path = folder / "all.json"
    objects = [
        GPU_CLASS,
        NODE,
        slice_of("n", gpu("a", **HALF), gpu("b")),
        template("one", 1),
        template("five", 5),
        *pods,
    ]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    result = CliRunner().invoke(cli, [*command, str(path), "-o", "json"])
    return result.exit_code, result.stdout


@pytest.mark.parametrize(
    ("command", "model"),
    [(["simulate", "-f"], SimulateAnswer), (["allocate"], AllocateAnswer)],
    ids=["simulate", "allocate"],
)
def test_answers_have_their_schema_and_exit_codes(command: list[str], model: type[BaseModel], tmp_path: Path) -> None:
    code, text = printed(command, tmp_path, pod("fits", "one"))
    (asked,) = model.model_validate_json(text).model_dump()["pods"]
    assert (code, asked["outcome"], asked["node"]) == (0, "fits", "n")
    assert [(one["driver"], one["claim"][:8]) for one in asked["devices"]] == [(DRIVER, "fits-gpu")]

    code, text = printed(command, tmp_path, pod("fits", "one"), pod("waits", "five"))
    _, waits = model.model_validate_json(text).model_dump()["pods"]
    assert (code, waits["outcome"], waits["node"]) == (1, "unschedulable", None)
    assert "cannot allocate all claims" in waits["reason"]

    assert CliRunner().invoke(cli, [*command, "--no-such-option"]).exit_code == 2


@pytest.mark.parametrize(("name", "model"), [("simulate", SimulateAnswer), ("allocate", AllocateAnswer)])
def test_published_schemas_are_those_of_the_models(name: str, model: type[BaseModel]) -> None:
    """Written by: json.dumps(model.model_json_schema(), indent=2)."""
    assert json.loads((SCHEMAS / f"{name}.json").read_text()) == model.model_json_schema()
