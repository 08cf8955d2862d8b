"""Every recorded answer of the Go implementation, row by row: verdict, error text, estimated cost.

`data/cel-kubernetes-cases.json` was answered by k8s.io/dynamic-resource-allocation v0.36.3 and v0.37.2;
`data/cel-kubernetes-answers-1.38.json` has what v0.38.0-beta.0 answers otherwise than v0.37.2. Rows that differ are in
`DIFFERS`, each with its reason, and those of `NOT_FOLLOWED`.

    python -m tests.cel.test_cases_kubernetes       # asks the oracle of 1.38 all of them anew
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from cel import compile_selector, decode_attribute, device_view, encode_value, evaluate
from cel.checker import environments
from cel.checker.environments import Environment
from cel.cost.estimate import estimate
from cel.errors import CompileError, EvaluationError
from cel.library.device import DeviceView
from cel.library.values import COST_EXCEEDED, LIMIT_EXCEEDED
from cel.program import check_expression
from cel.quantity import Quantity

FOLDER: Final = Path(__file__).parent / "data"
CASES: dict[str, Any] = json.loads((FOLDER / "cel-kubernetes-cases.json").read_text())
BETA: Final = "1.38"
ANSWERS: Final = FOLDER / f"cel-kubernetes-answers-{BETA}.json"

DIFFERS = {
    (
        "1.36.3",
        '[quantity("9999999999999999999999999999999999999")].all(x, '
        'x.add(quantity("1")).compareTo(x.add(quantity("2"))) == -1)',
    ): "1.36 changes the receiver when it adds to a quantity beyond 64 bits; fixed in 1.37, not copied here",
}


NOT_FOLLOWED: Final = "cel-go 0.33's estimates, values and similar names are not followed (docs/differences.md)"


def rows_of_beta(kind: str) -> Iterator[tuple[dict[str, Any], dict[str, Any], list[pytest.MarkDecorator]]]:
    """Each row of that kind, what the beta answers, and whether ours is known to differ."""
    others = json.loads(ANSWERS.read_text())[kind]
    for number, row in enumerate(CASES[kind]):
        observed = others.get(str(number), row["observed"])
        is_text = observed.keys() == {"compile_error"} and "did you mean" not in observed["compile_error"]
        lacks = [] if observed == row["observed"] or is_text else [pytest.mark.xfail(reason=NOT_FOLLOWED, strict=True)]
        yield row, observed, lacks


def record() -> None:
    """What differs but for actual costs, which are not compared."""
    from tests.oracle.client import Oracle

    gates = {"listTypeAttributes": True, "consumableCapacity": True}
    found: dict[str, dict[str, Any]] = {}
    for kind in ("device_cases", "library_cases"):
        rows = CASES[kind]
        asked = [
            {"device": CASES["devices"][row["device"]], "gates": gates} if "device" in row else {"result": "any"}
            for row in rows
        ]
        with Oracle(BETA) as oracle:
            replies = oracle.ask_all(
                {"kind": "cel", "expression": row["expression"], **one} for row, one in zip(rows, asked, strict=True)
            )
        answers = map(_as_recorded, rows, replies)
        found[kind] = {
            str(number): answer
            for number, (row, answer) in enumerate(zip(rows, answers, strict=True))
            if answer != {key: value for key, value in row["observed"].items() if key != "actual_cost"}
        }
    ANSWERS.write_text(json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def _as_recorded(row: dict[str, Any], reply: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {
        key: reply[key] for key in ("compile_error", "output_type", "max_cost", "value") if key in reply
    }
    if "device" in row and "value" in kept:
        kept["match"] = kept.pop("value")["bool"] == "true"
    if "runtime_error" in reply:
        kept["match_error" if "device" in row else "error"] = reply["runtime_error"]
    return kept


def minor_version(version: str) -> str:
    return version.rpartition(".")[0]


def view(fields: dict[str, Any], environment: Environment) -> DeviceView:
    is_list_enabled = environment.minor >= 37 or environment.is_list_attributes_enabled
    attributes = fields.get("attributes") or {}
    return device_view(
        fields["driver"],
        {name: decode_attribute(value, is_list_enabled=is_list_enabled) for name, value in attributes.items()},
        {name: Quantity.parse(amount) for name, amount in (fields.get("capacity") or {}).items()},
        bool(fields.get("allowMultipleAllocations")),
    )


def answer_selector(expression: str, environment: Environment, device: dict[str, Any]) -> dict[str, Any]:
    """What the recorded rows have, as far as it is not None."""
    try:
        selector = compile_selector(expression, environment)
    except CompileError as error:
        return {"compile_error": str(error)}
    checked = check_expression(expression, environment)
    answer: dict[str, Any] = {"output_type": str(checked.output_type), "max_cost": estimate(checked).max}
    try:
        answer["match"] = selector.matches(view(device, environment))
    except EvaluationError as error:
        answer["match_error"] = str(error)
    return answer


def compared(observed: dict[str, Any], got: dict[str, Any]) -> dict[str, Any]:
    """The recorded answer without what is not compared: run-time cost varies with Go's map order.

    At the cost limit our text says that it is another one. Of syntax errors Go's parser goes on after the first; ours
    ends there, so what Go reports after `got` is left out.
    """
    found = {key: value for key, value in observed.items() if value is not None and key != "actual_cost"}
    if found.get("match_error") == COST_EXCEEDED:
        found["match_error"] = LIMIT_EXCEEDED
    first = got.get("compile_error", "")
    if "Syntax error: " in first and found.get("compile_error", "").startswith(f"{first}\nERROR: "):
        found["compile_error"] = first
    return found


UNREAD = "value is invalid or its type is not supported by this version"


def device_rows() -> Iterator[Any]:
    for row in CASES["device_cases"]:
        everything = environments.get("1.37", consumable_capacity=True, list_type_attributes=True)
        yield pytest.param(row, everything, row["observed"], id=f"1.37/{row['expression']}")
        for key, observed in row.get("differs", {}).items():
            version, kind, gates = key.split("/")
            environment = environments.get(
                minor_version(version),
                kind=kind,
                consumable_capacity=gates == "all-gates",
                list_type_attributes=gates == "all-gates",
            )
            yield pytest.param(row, environment, observed, id=f"{key}/{row['expression']}")
    of_beta = environments.get(BETA, consumable_capacity=True, list_type_attributes=True)
    for row, observed, marks in rows_of_beta("device_cases"):
        yield pytest.param(row, of_beta, observed, id=f"{BETA}/{row['expression']}", marks=marks)


@pytest.mark.parametrize(("row", "environment", "observed"), list(device_rows()))
def test_device_selector(row: dict[str, Any], environment: Environment, observed: dict[str, Any]) -> None:
    got = answer_selector(row["expression"], environment, CASES["devices"][row["device"]])
    want = compared(observed, got)
    if "<any list attribute>" in want.get("match_error", ""):
        # Go of 1.36 fails whatever looks at the device; here, as in 1.38, what asks for the list.
        name = row["expression"].partition("].")[2][: len("ints")].rstrip(".[ +")
        assert got.pop("match_error") == f"attribute {name}: {UNREAD}"
        del want["match_error"]
    assert got == want


def upstream_rows() -> Iterator[Any]:
    for row in CASES["upstream"]:
        version = minor_version(row["kubernetes"])
        for variant in row["variants"]:
            for when in variant["when"]:
                environment = environments.get(
                    version,
                    kind=when["env"],
                    consumable_capacity=when["consumableCapacity"],
                    list_type_attributes=when["listTypeAttributes"],
                )
                gates = f"cc={when['consumableCapacity']},lt={when['listTypeAttributes']}"
                yield pytest.param(
                    row, environment, variant["observed"], id=f"{version}/{when['env']}/{gates}/{row['name']}"
                )


@pytest.mark.parametrize(("row", "environment", "observed"), list(upstream_rows()))
def test_upstream_table(row: dict[str, Any], environment: Environment, observed: dict[str, Any]) -> None:
    got = answer_selector(row["expression"], environment, row)
    want = compared(observed, got)
    if want.get("match_error", "").endswith(": unsupported attribute value"):  # as above
        del want["match_error"]
        got.pop("match", None)
        got.pop("match_error", None)
    assert got == want


def library_rows() -> Iterator[Any]:
    for row in CASES["library_cases"]:
        for version, key in (("1.37.2", "observed"), ("1.36.3", "observed_1.36.3")):
            if key not in row:
                continue
            reason = DIFFERS.get((version, row["expression"]))
            marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]
            yield pytest.param(row, version, row[key], id=f"{version}/{row['expression']}", marks=marks)
    for row, observed, marks in rows_of_beta("library_cases"):
        yield pytest.param(row, f"{BETA}.0", observed, id=f"{BETA}/{row['expression']}", marks=marks)


@pytest.mark.parametrize(("row", "version", "observed"), list(library_rows()))
def test_library_expression(row: dict[str, Any], version: str, observed: dict[str, Any]) -> None:
    environment = environments.get(minor_version(version), list_type_attributes=True)
    got: dict[str, Any] = {}
    try:
        value = evaluate(row["expression"], environment)
        got["value"] = encode_value(value)
    except CompileError as error:
        text = str(error).removeprefix("compilation failed: ")
        got["compile_error"] = text.replace("program instantiation failed: ", "program: ")
    except EvaluationError as error:
        got["error"] = str(error)
    if "compile_error" not in got:
        checked = check_expression(row["expression"], environment)
        got["output_type"] = str(checked.output_type)
        got["max_cost"] = estimate(checked).max
    assert got == compared(observed, got)


def test_fewer_than_one_percent_of_the_rows_differ_and_none_selects_devices() -> None:
    rows = sum(len(CASES[name]) for name in ("upstream", "device_cases", "library_cases"))
    assert len(DIFFERS) < rows / 100
    assert not any("device" in expression for _, expression in DIFFERS)


if __name__ == "__main__":
    record()
