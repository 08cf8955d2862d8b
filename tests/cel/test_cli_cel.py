"""The commands `cel check` and `cel eval`: what they print, and what they exit with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scheduler.cli.cel import cel

SLICES = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: node-1-gpus}
spec:
  driver: gpu.example.com
  pool: {name: node-1, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    attributes: {model: {string: A100}, driverVersion: {version: 550.54.15}}
    capacity: {memory: {value: 80Gi}}
  - name: gpu-1
    attributes: {model: {string: H100}}
    capacity: {memory: {value: 40Gi}}
  - name: gpu-2
"""

CLAIMS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec:
  selectors:
  - cel: {expression: "device.driver == 'gpu.example.com'"}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: big, namespace: team}
spec:
  spec:
    devices:
      requests:
      - name: a
        exactly:
          deviceClassName: gpu
          selectors:
          - cel:
              expression: device.capacity["gpu.example.com"].memory >= quantity("40Gi")
      - name: b
        firstAvailable:
        - name: c
          deviceClassName: gpu
          selectors:
          - cel: {expression: "true"}
"""

MODEL = 'device.attributes["gpu.example.com"].model'


def run(*args: str, stdin: str = "") -> Result:
    return CliRunner().invoke(cel, list(args), input=stdin, catch_exceptions=False)


@pytest.fixture
def slices(tmp_path: Path) -> str:
    path = tmp_path / "slices.yaml"
    path.write_text(SLICES)
    return str(path)


def test_check_says_type_and_cost_of_a_valid_selector() -> None:
    result = run("check", 'device.driver == "gpu.example.com"')
    assert result.exit_code == 0
    assert result.output.startswith("valid: type bool, cost at most 4 of 1000000")


def test_check_puts_a_caret_under_the_place() -> None:
    result = run("check", 'device.drivr == "x"')
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert lines[1] == "compilation failed: ERROR: <input>:1:7: undefined field 'drivr'"
    assert lines[2:4] == [' | device.drivr == "x"', " | ......^"]


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        (f'{MODEL} == "A100"', "unguarded-read"),
        ("has(device.attributes.x)", "has-on-domain"),
        ('device.attributes[?"x"].hasValue()', "has-on-domain"),
        ('device.driver == "d" && device.attributes["d"].v == "1.2.3"', "version-compared-with-text"),
        ('device.attributes["d"].?v.orValue("") != "1.2.3"', "version-compared-with-text"),
        ('device.driver == "d" && device.attributes["d"].v in ["1.2.3"]', "version-in-text-list"),
    ],
)
def test_check_warns_of_traps(expression: str, code: str) -> None:
    result = run("check", expression, "-o", "json")
    assert result.exit_code == 0
    (verdict,) = json.loads(result.output)["items"]
    assert [warning["code"] for warning in verdict["warnings"]] == [code]
    assert "^" in verdict["warnings"][0]["snippet"]


@pytest.mark.parametrize(
    "expression",
    [
        f'has({MODEL}) && {MODEL} == "A100"',
        f'{MODEL} == "A100" && has({MODEL})',
        f'!has({MODEL}) || {MODEL} == "A100"',
        f'has({MODEL}) ? {MODEL} == "A100" : true',
        f'"model" in device.attributes["gpu.example.com"] && {MODEL} == "A100"',
        f'device.driver == "gpu.example.com" && {MODEL} == "A100"',
        'device.attributes["gpu.example.com"].?model.orValue("") == "A100"',
        'cel.bind(a, device.attributes["gpu.example.com"], has(a.model) && a.model == "A100")',
        'has(device.attributes["d"].v) && device.attributes["d"].v.compareTo(semver("1.2.3")) == 0',
    ],
)
def test_check_does_not_warn_where_the_read_is_guarded(expression: str) -> None:
    (verdict,) = json.loads(run("check", expression, "-o", "json").output)["items"]
    assert verdict["valid"] is True
    assert verdict["warnings"] == []


def test_check_refuses_what_costs_too_much_and_warns_of_quantity_inequality() -> None:
    result = run("check", 'quantity(device.driver) != quantity("1")', "-o", "json")
    assert result.exit_code == 1
    (verdict,) = json.loads(result.output)["items"]
    assert verdict["error"].startswith("too complex, exceeds cost limit")
    assert [warning["code"] for warning in verdict["warnings"]] == ["quantity-not-equals"]


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        (f'{MODEL} in [{MODEL}, "x"]', "dyn("),
        ('device.capacity["d"].m > quantity("1")', "isGreaterThan"),
        ('device.driver = "x"', "=="),
        ('device.driver == "x" and true', "&&"),
        ('driver == "x"', "device.driver"),
    ],
)
def test_check_hints_at_the_commonest_mistakes(expression: str, hint: str) -> None:
    (verdict,) = json.loads(run("check", expression, "-o", "json").output)["items"]
    assert verdict["valid"] is False
    assert hint in verdict["hint"]


def test_check_knows_versions_environments_and_gates() -> None:
    lists = 'device.attributes["d"].ints.exists(i, i == 1)'
    assert run("check", lists, "--kubernetes", "1.36").exit_code == 1
    assert run("check", lists, "--feature-gates", "DRAListTypeAttributes=true").exit_code == 0
    assert run("check", lists, "--kubernetes", "1.37", "--env", "stored").exit_code == 0
    assert run("check", "device.allowMultipleAllocations", "--kubernetes", "1.34").exit_code == 1
    assert run("check", "true", "--kubernetes", "1.12").exit_code == 2


def test_check_reads_selectors_of_api_objects(tmp_path: Path) -> None:
    path = tmp_path / "claims.yaml"
    path.write_text(CLAIMS)
    result = run("check", "-f", str(path), "-o", "json")
    assert result.exit_code == 1
    items = json.loads(result.output)["items"]
    assert [(item["field"], item["valid"]) for item in items] == [
        ("spec.selectors[0].cel.expression", True),
        ("spec.spec.devices.requests[0].exactly.selectors[0].cel.expression", False),
        ("spec.spec.devices.requests[1].firstAvailable[0].selectors[0].cel.expression", True),
    ]
    assert items[1]["source"] == f"{path}:21:27: ResourceClaimTemplate team/big"


def test_check_wants_an_expression_or_files() -> None:
    assert run("check").exit_code == 2


def test_check_refuses_expressions_the_api_server_finds_too_long() -> None:
    result = run("check", "true || " + '"' + "a" * 10_240 + '" == ""')
    assert result.exit_code == 1
    assert "Too long: may not be more than 10240 bytes" in result.output


def test_eval_prints_a_table_of_devices(slices: str) -> None:
    result = run("eval", f'{MODEL} == "A100"', "-f", slices)
    assert result.exit_code == 1  # gpu-2 has no model
    assert result.stdout.splitlines() == [
        "DRIVER\tPOOL\tDEVICE\tANSWER",
        "gpu.example.com\tnode-1\tgpu-0\ttrue",
        "gpu.example.com\tnode-1\tgpu-1\tfalse",
        "gpu.example.com\tnode-1\tgpu-2\terror: no such key: model",
    ]
    first, line, caret = result.stderr.splitlines()
    assert first.startswith("it fails for gpu.example.com/node-1/gpu-2: ERROR: <input>:1:")
    assert line[caret.index("^") :].startswith(".model")


def test_eval_gives_json_for_programs(slices: str) -> None:
    expression = 'device.capacity["gpu.example.com"].?memory.orValue(quantity("0")).isGreaterThan(quantity("50Gi"))'
    result = run("eval", expression, "-f", slices, "-o", "json")
    assert result.exit_code == 0
    items = json.loads(result.output)["items"]
    assert [(item["device"], item["value"]) for item in items] == [("gpu-0", True), ("gpu-1", False), ("gpu-2", False)]


def test_eval_reads_one_device(tmp_path: Path) -> None:
    path = tmp_path / "device.json"
    path.write_text(json.dumps({"driver": "d", "attributes": {"x": {"int": 2}}}))
    result = run("eval", 'device.attributes["d"].x == 2', "--device", str(path))
    assert result.exit_code == 0
    assert result.output.splitlines()[1].endswith("true")


def test_eval_without_devices_prints_the_value() -> None:
    assert run("eval", "[1, 2].map(x, x * 2)").output == '{"list": [{"int": "2"}, {"int": "4"}]}\n'


def test_eval_names_the_field_of_a_broken_slice(tmp_path: Path) -> None:
    path = tmp_path / "slices.yaml"
    path.write_text(SLICES.replace("80Gi", "80 GB"))
    result = run("eval", "true", "-f", str(path))
    assert result.exit_code == 2
    assert (
        "slices.yaml:9:5: ResourceSlice node-1-gpus: device.capacity.memory.value: must be a quantity like 80Gi"
        in result.output
    )


def test_eval_asks_cel_python_for_a_second_opinion(slices: str) -> None:
    pytest.importorskip("celpy", exc_type=ImportError)
    result = run("eval", 'device.driver == "gpu.example.com"', "-f", slices, "--engine", "celpy")
    assert result.exit_code == 0
    assert [line.split()[-2:] for line in result.output.splitlines()] == [["ANSWER", "CELPY"], *[["true", "true"]] * 3]


@pytest.mark.parametrize("output", ["table", "json"])
@pytest.mark.parametrize("expression", ["1 +", "1 / 0"])
def test_an_expression_without_a_value_is_an_answer_and_no_wrong_input(expression: str, output: str) -> None:
    assert run("eval", expression, "-o", output).exit_code == 1
