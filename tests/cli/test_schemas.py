"""What commands print for programs has the schemas that docs/schemas publishes, and exit codes mean what is said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
from click.testing import CliRunner
from msgspec import structs
from pydantic import BaseModel

from scheduler.cli.main import cli
from scheduler.explain import pod_explanation as explain_answer
from scheduler.inventory import device_answer as inventory_answer
from scheduler.offline import reasons
from tests.cli.answers import (
    MODELS,
    CelCheckAnswer,
    CelEvalAnswer,
    EvaluatedAlone,
    EvaluatedDevices,
    LintAnswer,
    RoomAnswer,
    SimulateAnswer,
    VersionAnswer,
    WhatNodeAnswer,
)
from tests.explain import answer_schema as explain_schema
from tests.inventory import answer_schema as inventory_schema
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


def test_answers_have_their_schema_and_exit_codes(tmp_path: Path) -> None:
    command = ["simulate", "-f"]
    code, text = printed(command, tmp_path, pod("fits", "one"))
    (asked,) = SimulateAnswer.model_validate_json(text).model_dump()["pods"]
    assert (code, asked["outcome"], asked["node"]) == (0, "fits", "n")
    assert [(one["driver"], one["claim"][:8]) for one in asked["devices"]] == [(DRIVER, "fits-gpu")]

    code, text = printed(command, tmp_path, pod("fits", "one"), pod("waits", "five"))
    _, waits = SimulateAnswer.model_validate_json(text).model_dump()["pods"]
    assert (code, waits["outcome"], waits["node"]) == (1, "unschedulable", None)
    assert "cannot allocate all claims" in waits["reason"]
    assert [one["nodes"] for one in waits["refusals"]] == [("n",)]

    assert CliRunner().invoke(cli, [*command, "--no-such-option"]).exit_code == 2


@pytest.mark.parametrize(("name", "model"), MODELS.items(), ids=MODELS)
def test_published_schemas_are_those_of_the_models(name: str, model: type[BaseModel]) -> None:
    """Written by: json.dumps(model.model_json_schema(), indent=2)."""
    assert json.loads((SCHEMAS / f"{name}.json").read_text()) == model.model_json_schema()


@pytest.mark.parametrize(
    ("answers", "models"), [([reasons, explain_answer], explain_schema), ([inventory_answer], inventory_schema)]
)
def test_what_explain_and_devices_print_has_the_fields_of_the_models(
    answers: list[ModuleType], models: ModuleType
) -> None:
    """In their order; `Struct`s print all of their fields."""
    printed = {name: kind for one in answers for name, kind in vars(one).items()}
    described = {
        name: [*kind.model_fields]
        for name, kind in vars(models).items()
        if isinstance(kind, type) and issubclass(kind, BaseModel) and kind.model_fields
    }
    assert described
    assert described == {name: [one.name for one in structs.fields(printed[name])] for name in described}


def test_each_command_that_prints_json_has_a_schema() -> None:
    """Of `dump` the answer is a List of Kubernetes' objects."""
    with_json = {
        path.replace(" ", "-")
        for path, command in commands(cli)
        for option in command.params
        if isinstance(option.type, click.Choice) and "json" in option.type.choices and "--output" in option.opts
    }
    published = {path.stem for path in SCHEMAS.glob("*.json")}
    assert with_json - published == {"dump"}
    assert published - with_json == {"explain-all", "what-node"}
    named = (SCHEMAS / "README.md").read_text()
    assert [path.name for path in SCHEMAS.glob("*.json") if f"[{path.name}]" not in named] == []


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            if isinstance(command, click.Group):
                yield from commands(command, f"{path}{name} ")
            else:
                yield f"{path}{name}", command


# -- what is printed ------------------------------------------------------------------------------


def test_room(tmp_path: Path) -> None:
    (tmp_path / "pod.json").write_text(json.dumps(pod("big", "one")))
    code, text = printed(["make-room", str(tmp_path / "pod.json"), "-f"], tmp_path)
    found = RoomAnswer.model_validate_json(text)
    assert (code, found.outcome, found.pod.node) == (0, "fits", "n")
    (tmp_path / "pod.json").write_text(json.dumps(pod("big", "five")))
    code, text = printed(["make-room", str(tmp_path / "pod.json"), "-f"], tmp_path)
    assert (code, RoomAnswer.model_validate_json(text).outcome) == (1, "none")


def test_shapes_of_nodes(tmp_path: Path) -> None:
    shape = [NODE | {"metadata": {"name": "shape"}}, slice_of("shape", gpu("a"), gpu("b"), name="of-shape")]
    path = tmp_path / "shape.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": shape}))
    pods = [pod(f"p{number}", "one") for number in range(3)]
    code, text = printed(["simulate", "--what-node", str(path), "-f"], tmp_path, *pods, pod("never", "five"))
    (found,) = WhatNodeAnswer.model_validate_json(text).shapes
    assert (code, len(found.run), [one.name for one in found.wait]) == (1, found.count, ["never"])


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (json.dumps(NODE), []),
        ("kind: [", ["broken-yaml"]),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: 7\n", ["invalid-value"]),
    ],
)
def test_lint(text: str, codes: list[str]) -> None:
    result = CliRunner().invoke(cli, ["lint", "-o", "json", "-"], input=text)
    found = LintAnswer.model_validate_json(result.stdout)
    assert [one.code for one in found.items] == codes
    assert result.exit_code == bool(codes)


@pytest.mark.parametrize("expression", ["device.driver == 'd'", "device.x", "[1, 2].exists(x, x > 1)", "1 +"])
def test_cel_check(expression: str) -> None:
    result = CliRunner().invoke(cli, ["cel", "check", "-o", "json", expression])
    (found,) = CelCheckAnswer.model_validate_json(result.stdout).items
    assert (found.valid, found.error is None) == (result.exit_code == 0, result.exit_code == 0)


@pytest.mark.parametrize("expression", ["1 + 1", "1 +", "1 / 0"])
def test_cel_eval_alone(expression: str) -> None:
    result = CliRunner().invoke(cli, ["cel", "eval", "-o", "json", expression])
    found = CelEvalAnswer.model_validate_json(result.stdout).root
    assert isinstance(found, EvaluatedAlone)
    assert (found.value is not None) == (result.exit_code == 0)


def test_cel_eval_on_devices(tmp_path: Path) -> None:
    path = tmp_path / "slices.json"
    path.write_text(json.dumps(slice_of("n", gpu("a"), gpu("b"))))
    expression = f"device.attributes['{DRIVER}'].numaNode == 0"
    result = CliRunner().invoke(cli, ["cel", "eval", "-o", "json", expression, "-f", str(path)])
    found = CelEvalAnswer.model_validate_json(result.stdout).root
    assert isinstance(found, EvaluatedDevices)
    assert [(one.device, one.value) for one in found.items] == [("a", True), ("b", True)]


def test_version() -> None:
    found = VersionAnswer.model_validate_json(CliRunner().invoke(cli, ["version", "-o", "json"]).stdout)
    assert found.kubernetes[0] == "1.34"
