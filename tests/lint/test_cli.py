"""The commands: what they print where, and what they exit with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from scheduler.cli.main import cli
from scheduler.embedded.cluster import EmbeddedCluster
from tests.lint.texts import claim, pod, selecting

PLAIN = "- name: gpu\n  exactly:\n    deviceClassName: gpu\n"
WARNING = claim(PLAIN, version="v1beta1")
ERROR = pod("[]")


def run(*arguments: str | Path, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], input=stdin, catch_exceptions=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "f.yaml"


@pytest.mark.parametrize(
    ("text", "options", "want"),
    [
        pytest.param(claim(PLAIN), [], 0, id="clean"),
        pytest.param(WARNING, [], 0, id="a-warning"),
        pytest.param(WARNING, ["--strict"], 1, id="a-warning-strictly"),
        pytest.param(ERROR, [], 1, id="an-error"),
        pytest.param("a: [", [], 1, id="broken"),
        pytest.param("", [], 2, id="nothing"),
        pytest.param(claim(PLAIN), ["--kubernetes", "1.2"], 2, id="no-such-version"),
        pytest.param(claim(PLAIN), ["--against", "no-such-file"], 2, id="no-such-dump"),
        pytest.param(claim(PLAIN), ["--context", "x"], 2, id="a-context-without-a-kubeconfig"),
    ],
)
def test_lints_exit_code(file: Path, text: str, options: list[str], want: int) -> None:
    file.write_text(text)

    assert run("lint", file, *options).exit_code == want


def test_a_file_that_is_not_there_is_an_error_of_that_file_only(file: Path) -> None:
    file.write_text(ERROR)

    result = run("lint", file.with_name("none.yaml"), file)

    assert result.exit_code == 1
    assert "none.yaml: error: No such file or directory" in result.stdout.replace("none.yaml:1:1", "none.yaml")
    assert "undeclared-claim" in result.stdout


def test_lint_shows_place_line_caret_and_fix(file: Path) -> None:
    file.write_text(selecting('device.attributes["model"].string() == "A100"'))

    result = run("lint", file)

    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"{file}:16:42: error: ResourceClaim c: spec.devices.requests[0].exactly.selectors[1]")
    assert lines[1] == '  |               device.attributes["model"].string() == "A100"'
    assert lines[2].index("^") == lines[1].index("string")
    assert lines[3:] == [
        "  served: never valid in any release",
        '  fix: device.attributes["gpu.example.com"].model',
    ]
    assert result.stderr.strip() == "1 objects: 1 errors, 0 warnings"


def test_lint_as_json(file: Path) -> None:
    file.write_text(WARNING)

    (item,) = json.loads(run("lint", file, "-o", "json").stdout)["items"]

    assert (item["code"], item["severity"], item["file"], item["line"], item["column"], item["field"]) == (
        "old-api-version",
        "warning",
        str(file),
        1,
        13,
        "apiVersion",
    )
    assert item["converted"] == item["fix"] == "apiVersion: resource.k8s.io/v1"


def test_lint_reads_standard_input() -> None:
    assert "<stdin>:1:13: warning" in run("lint", "-", stdin=WARNING).stdout


def test_convert_prints_objects_and_tells_changes_apart() -> None:
    result = run("convert", "-", stdin=WARNING)

    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout)["apiVersion"] == "resource.k8s.io/v1"
    assert result.stderr.startswith("<stdin>:1:13: ResourceClaim c: apiVersion: ")


def test_convert_refuses_and_goes_on() -> None:
    result = run("convert", "-", stdin=f"{ERROR}---\n{WARNING}")

    assert result.exit_code == 1
    assert yaml.safe_load(result.stdout)["kind"] == "ResourceClaim"
    assert "refused: <stdin>:8:45: error: Pod p" in result.stderr


def test_convert_writes_in_place_only_what_it_can_write_whole(tmp_path: Path) -> None:
    good, mixed, fine = (tmp_path / name for name in ("good.yaml", "mixed.yaml", "fine.yaml"))
    good.write_text(WARNING)
    mixed.write_text(f"{ERROR}---\n{WARNING}")
    fine.write_text(claim(PLAIN))

    result = run("convert", "--write", good, mixed, fine)

    assert result.exit_code == 1
    assert result.stdout == ""
    assert yaml.safe_load(good.read_text())["apiVersion"] == "resource.k8s.io/v1"
    assert mixed.read_text() == f"{ERROR}---\n{WARNING}"
    assert fine.read_text() == claim(PLAIN)
    assert [line for line in result.stderr.splitlines() if "rewritten" in line] == [f"{good}: rewritten"]


def test_convert_cannot_write_standard_input() -> None:
    assert run("convert", "--write", "-", stdin=WARNING).exit_code == 2


CLUSTER = """\
apiVersion: v1
kind: List
items:
- apiVersion: resource.k8s.io/v1
  kind: DeviceClass
  metadata: {name: gpu}
  spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
- apiVersion: v1
  kind: Node
  metadata: {name: n}
- apiVersion: resource.k8s.io/v1
  kind: ResourceSlice
  metadata: {name: s}
  spec:
    driver: gpu.example.com
    nodeName: n
    pool: {name: n, generation: 1, resourceSliceCount: 1}
    devices: [{name: gpu-0, attributes: {model: {string: A100}}}]
"""
TYPO = selecting('device.attributes["gpu.example.com"].modle == "A100"')


def test_a_dump_tells_which_attributes_there_are(file: Path) -> None:
    file.write_text(TYPO)
    dump = file.with_name("dump.yaml")
    dump.write_text(CLUSTER)

    result = run("lint", file, "--against", dump)

    assert "no device here has the attribute gpu.example.com/modle" in result.stdout
    assert "fix: did you mean model?" in result.stdout


async def test_a_cluster_tells_the_same_as_its_dump(file: Path, tmp_path: Path) -> None:
    import asyncio

    file.write_text(TYPO)
    async with EmbeddedCluster() as cluster:
        await cluster.apply(yaml.safe_load(CLUSTER)["items"])
        result = await asyncio.to_thread(run, "lint", file, "--kubeconfig", cluster.kubeconfig_path)

    assert result.exit_code == 0, result.output
    assert "no device here has the attribute gpu.example.com/modle" in result.stdout


def test_a_cluster_that_is_not_there_is_told(file: Path) -> None:
    file.write_text(TYPO)
    kubeconfig = file.with_name("kubeconfig")
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: u, user: {}}]\n"
    )

    result = run("lint", file, "--kubeconfig", kubeconfig)

    assert result.exit_code == 2
    assert "cannot list ResourceSlice objects: cannot connect to 127.0.0.1:1" in result.stderr
