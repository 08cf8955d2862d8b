"""One mistake, one finding; what is right is no error; and what people met in the wild, as they wrote it.

Each folder of `bug_cases` has an input and what a command is to print about it: all of `expect` and one of `any_of`,
nothing of `refuse`.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scheduler.cli.main import cli
from tests.lint.texts import claim, find, indented, pod, selecting

CASES = sorted((Path(__file__).parent / "bug_cases").iterdir())
PLAIN = "- name: gpu\n  exactly:\n    deviceClassName: gpu\n"


@pytest.mark.parametrize(
    ("folder", "check"),
    [
        pytest.param(folder, check, id=f"{folder.name}: {check['command'][:12]}")
        for folder in CASES
        for check in json.loads((folder / "expected.json").read_text())["checks"]
    ],
)
def test_cases_of_the_wild(folder: Path, check: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)

    result = CliRunner().invoke(cli, shlex.split(check["command"]))

    text = "\n".join(result.stdout.splitlines()[:2]) if check["where"] == "first two lines" else result.output
    assert [one for one in check.get("expect", ()) if one not in text] == []
    assert not check.get("any_of") or any(one in text for one in check["any_of"])
    assert [one for one in check.get("refuse", ()) if one in text] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            pod("[{name: gpu, resourceClaimTemplate: x}]"),
            [("unknown-field", "spec.resourceClaims[0].resourceClaimTemplate")],
            id="pod-claim-misspelt",
        ),
        pytest.param(
            pod("[{name: gpu, resourceClaimName: a}, {resourceClaimName: b, extra: 1}]"),
            [("missing-field", "spec.resourceClaims[1]"), ("unknown-field", "spec.resourceClaims[1].extra")],
            id="pod-claim-nameless",
        ),
        pytest.param(pod("7", "[]"), [("invalid-value", "spec.resourceClaims")], id="no-list"),
        pytest.param(
            pod("[{name: gpu}]", kind="Deployment"),
            [("one-of", "spec.template.spec.resourceClaims[0]")],
            id="names-none",
        ),
        pytest.param(
            pod("[{nam: gpu, resourceClaimName: a}]", "[]").replace("v1\nkind: Pod", "example.com/v1\nkind: Robot"),
            [("missing-field", "spec.resourceClaims[0]"), ("unknown-field", "spec.resourceClaims[0].nam")],
            id="a-kind-that-is-not-known",
        ),
        pytest.param(
            claim("- name: gpu\n  exactly:\n    deviceClassNam: gpu\n"),
            [("unknown-field", "spec.devices.requests[0].exactly.deviceClassNam")],
            id="required-field-misspelt",
        ),
        pytest.param(
            claim(PLAIN, devices="constraints:\n- requests: [gpu]\n  pool: same\n"),
            [("unknown-field", "spec.devices.constraints[0].pool")],
            id="constraint-of-a-pool",
        ),
        pytest.param(
            "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: s}\nspec:\n  driver: d.example.com\n"
            "  nodeName: n\n  pool: {name: n, generation: 1, resourceSliceCount: 1}\n"
            "  devices:\n  - name: a\n    attributes:\n      x: {boolean: true}\n",
            [("unknown-field", "spec.devices[0].attributes.x.boolean")],
            id="attribute-of-an-unknown-type",
        ),
    ],
)
def test_one_mistake_is_one_finding(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(each.code, each.field) for each in find(text)] == expected


def test_containers_and_volumes_of_one_name_are_found_in_whatever_list_they_are() -> None:
    spec = (
        "initContainers: [{name: a, image: x}]\ncontainers: [{name: a, image: x}, {name: b, image: x}]\n"
        "volumes: [{name: a, emptyDir: {}}, {name: a, emptyDir: {}}]\n"
    )
    found = find(f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n{indented(spec, 2)}")

    assert {(each.code, each.field) for each in found} == {
        ("duplicate", "spec.containers[0].name"),
        ("duplicate", "spec.volumes[1].name"),
    }


@pytest.mark.parametrize(
    ("texts", "empty", "code"),
    [
        ([""], 1, 2),
        (["# nothing\n", "---\n---\n"], 2, 2),
        (["", claim(PLAIN)], 1, 0),
        (["", "kind: ["], 1, 1),
    ],
)
def test_a_file_without_an_object_is_said(texts: list[str], empty: int, code: int, tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.yaml" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)

    result = CliRunner().invoke(cli, ["lint", *map(str, paths)])

    assert result.output.count("warning: there is no object in it: nothing was looked at [empty]") == empty
    assert result.exit_code == code


@pytest.mark.parametrize(
    ("toleration", "words"),
    [
        ("{effect: NoSchedule}", "only those without a value"),
        ("{effect: NoSchedule, operator: Equal, value: x}", "only those whose value is x"),
    ],
)
def test_a_toleration_without_a_key_is_a_warning(toleration: str, words: str) -> None:
    (found,) = find(claim(f"- name: gpu\n  exactly:\n    deviceClassName: gpu\n    tolerations: [{toleration}]\n"))

    assert (found.code, found.is_error) == ("toleration", False)
    assert words in found.message


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('device.attributes["a.example/x"].string == "y"', 'device.attributes["a.example"].x == "y"'),
        ('device.attributes["a.example"].x.bool', 'device.attributes["a.example"].x'),
        ('device.attributes["a.example"]["x"].int > 1', 'device.attributes["a.example"].x > 1'),
        (
            'device.capacity["a.example"].mem.value.isGreaterThan(quantity("1Gi"))',
            'device.capacity["a.example"].mem.isGreaterThan(quantity("1Gi"))',
        ),
    ],
)
def test_types_as_yaml_writes_them_are_taken_out_of_expressions(written: str, meant: str) -> None:
    (found,) = [each for each in find(selecting(written)) if each.code in ("accessor", "attribute-without-domain")]

    assert found.converted == f"the expression is now: {meant}"


def test_a_domain_may_be_called_as_a_type_is() -> None:
    assert find(selecting('device.attributes["rdma"].bool == true', before='device.driver == "rdma"')) == []
