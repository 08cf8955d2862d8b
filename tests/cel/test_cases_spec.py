"""The conformance suite of the CEL specification, as Kubernetes answers it.

Another project's data, not part of this repository: the file that DRA_SCHEDULER_CEL_SPEC_CASES names, or else
`../shared/spec/cel-spec-cases.json`, beside the checkout. Where neither is, these tests are left out, and the run says
so. Each row without bindings has the answer of Kubernetes 1.37.2: "pass", or what it answers instead. Rows with
bindings have the suite's.
"""

from __future__ import annotations

import base64
import json
import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cel import encode_value, evaluate
from cel.checker.checker import Checked
from cel.checker.declarations import DYN, Type, parse_overload
from cel.checker.environments import Environment
from cel.errors import CompileError, EvaluationError
from cel.evaluator.walker import plan
from cel.integers import UInt
from cel.library.values import Duration, Timestamp
from cel.parser.frontend import parse
from cel.program import check_constants, check_expression

NAMED = os.environ.get("DRA_SCHEDULER_CEL_SPEC_CASES")
BESIDE = Path(__file__).resolve().parents[3] / "shared" / "spec" / "cel-spec-cases.json"

if not NAMED and not BESIDE.exists():
    pytest.skip("LEFT OUT, CEL's conformance suite is not here (DRA_SCHEDULER_CEL_SPEC_CASES)", allow_module_level=True)
CASES: list[dict[str, Any]] = json.loads(Path(NAMED or BESIDE).read_text())["cases"]

ENVIRONMENT = Environment(37, "stored", consumable_capacity=True, list_type_attributes=True)

NOT_OFFERED = (
    "container",  # Kubernetes has none
    "check_only",  # declares functions of its own
)
_BLOCK = "Kubernetes does not offer cel.block"
DIFFERS = {
    # Rows with bindings, which Kubernetes was not asked.
    ("block_ext", "basic", "macro_shadowed_variable_1"): _BLOCK,
    ("block_ext", "basic", "macro_shadowed_variable_2"): _BLOCK,
    ("namespace", "qualified", "self_eval_qualified_lookup"): "no variable of Kubernetes has a dot in its name",
    (
        "string_ext",
        "format",
        "scientific notation formatting clause in a string variable",
    ): "Kubernetes has the old formatter, which prints ×10⁰³",
    ("timestamps", "duration_converters", "get_milliseconds"): "cel-go gives the whole duration, 123321",
    # Unchecked, which Kubernetes never is.
    ("parse", "receiver_function_names", "namespace"): "cel-go plans an unchecked call of a known name differently",
}


def name_of(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["file"], row["section"], row["name"]


def value_of(encoded: Mapping[str, Any]) -> Any:
    """A value of the suite as ours."""
    kind, raw = encoded["t"], encoded.get("v")
    match kind:
        case "uint":
            return UInt(raw)
        case "double":
            return float(raw)
        case "bytes":
            return base64.b64decode(raw)
        case "list":
            return [value_of(element) for element in raw]
        case "map":
            return {value_of(key): value_of(value) for key, value in raw}
        case "timestamp":
            return Timestamp(raw[0] * 1_000_000_000 + raw[1])
        case "duration":
            return Duration(raw[0] * 1_000_000_000 + raw[1])
        case _:
            return raw


def encoded(value: Mapping[str, Any]) -> Any:
    if value["t"] == "type":
        return {"type": value["v"]}
    if value["t"] == "map":
        return in_order({"map": [[encoded(key), encoded(element)] for key, element in value["v"]]})
    if value["t"] == "list":
        return {"list": [encoded(element) for element in value["v"]]}
    return encode_value(value_of(value))


def in_order(answer: Any) -> Any:
    """Maps have no order."""
    if isinstance(answer, dict) and "map" in answer:
        return {"map": sorted(([in_order(key), in_order(value)] for key, value in answer["map"]), key=json.dumps)}
    if isinstance(answer, dict) and "list" in answer:
        return {"list": [in_order(element) for element in answer["list"]]}
    return answer


class Bound(Environment):
    """The environment with the variables of a row."""

    __slots__ = ("variables",)

    def __init__(self, declarations: list[dict[str, Any]]) -> None:
        super().__init__(37, "stored", consumable_capacity=True, list_type_attributes=True)
        self.variables = {
            declaration["name"]: parse_overload(f"x () -> {declaration['type']}").result for declaration in declarations
        }

    def identifier_type(self, name: str) -> Type | None:
        return self.variables.get(name) or super().identifier_type(name)


def answer(row: Mapping[str, Any]) -> dict[str, Any]:
    try:
        if row.get("disable_check"):
            parsed = parse(row["expr"], options=ENVIRONMENT.parse_options)
            types = defaultdict(lambda: DYN)
            unchecked = Checked(parsed.source, {}, parsed.expr, ENVIRONMENT, types, {}, has_constants=True)
            check_constants(unchecked)
            return {"value": in_order(encode_value(plan(unchecked).evaluate({})))}
        if "bindings" in row:
            environment = Bound(row.get("type_env", []))
            checked = check_expression(row["expr"], environment)
            variables = {name: value_of(value) for name, value in row["bindings"].items()}
            return {"value": in_order(encode_value(plan(checked).evaluate(variables)))}
        return {"value": in_order(encode_value(evaluate(row["expr"], ENVIRONMENT)))}
    except CompileError as error:
        text = str(error).removeprefix("compilation failed: ")
        return {"compile_error": text.replace("program instantiation failed: ", "program: ")}
    except EvaluationError as error:
        return {"error": str(error)}


def rows() -> list[Any]:
    chosen = []
    for row in CASES:
        if any(key in row for key in NOT_OFFERED) or ("bindings" not in row and "k8s_1.37.2" not in row):
            continue
        reason = DIFFERS.get(name_of(row))
        marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]
        chosen.append(pytest.param(row, id="/".join(name_of(row)), marks=marks))
    return chosen


@pytest.mark.parametrize("row", rows())
def test_conformance(row: dict[str, Any]) -> None:
    got = answer(row)
    recorded = row.get("k8s_1.37.2", "pass")
    expected = row["expect"]
    if recorded != "pass":
        kind, _, text = recorded.partition(": ")
        if kind == "value":
            assert got == {"value": in_order(json.loads(text))}
        else:
            key = kind.replace(" ", "_")
            # The record has the first line; the rest of it is the source line and the caret.
            assert got.get(key, "").partition("\n")[0] == text.partition("\n")[0], got
    elif "error" in expected:
        assert "error" in got or "compile_error" in got
    elif "value" in expected:
        assert got == {"value": encoded(expected["value"])}
    else:
        checked = check_expression(row["expr"], ENVIRONMENT)
        assert str(checked.output_type) == expected["type"]


def test_few_rows_differ() -> None:
    assert len(DIFFERS) < len(CASES) / 100
    names = {name_of(row) for row in CASES}
    assert all(name in names for name in DIFFERS)
