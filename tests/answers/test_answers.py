"""Recorded cases: the three forms, lines that cannot be answered, releases, and that no package of tests is needed."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest

from tests.allocator.build import case, claim, device, device_class, pool, request
from tests.allocator.cases import recorded as allocator_cases
from tests.answers.__main__ import main
from tests.answers.cel import answer, answer_line
from tests.plugins.recorded_cases import expected
from tests.plugins.recorded_cases import recorded as scheduler_cases
from tests.plugins.test_releases import CASES

ALLOCATE: Final = ("allocate",)
VERDICTS: Final = ("verdicts",)


def answered(args: tuple[str, ...], *lines: str, code: int = 0) -> list[dict[str, Any]]:
    """The answer to each line."""
    given = io.TextIOWrapper(io.BytesIO("\n".join(lines).encode()))
    with (
        patch.object(sys, "argv", ["answers", *args]),
        patch.object(sys, "stdin", given),
        redirect_stdout(io.StringIO()) as printed,
        pytest.raises(SystemExit) as ended,
    ):
        main()
    assert ended.value.code == code
    return [json.loads(line) for line in printed.getvalue().splitlines()]


QUESTION = case(
    [pool(device("a", memory="8Gi"), nodeName="node-1"), pool(device("b"), name="p2", nodeName="node-2")],
    [claim({"name": "r", "exactly": {"deviceClassName": "class-a"}}, name="mine")],
    classes=[device_class()],
)


def test_lines_in_lines_out() -> None:
    cases = allocator_cases()[:60]
    replies = answered((*ALLOCATE, "--kubernetes", "1.36"), *map(json.dumps, cases))

    assert [reply["name"] for reply in replies] == [case["name"] for case in cases]
    for reply, asked in zip(replies, cases, strict=True):
        want = asked.get("expectWithoutDefect") or asked["expect"]
        if not asked.get("upstreamDefects"):
            assert {key: reply.get(key) for key in ("outcome", "allocations", "error")} == {
                key: want.get(key) for key in ("outcome", "allocations", "error")
            }
        assert isinstance(reply["steps"], int)


def test_lines_that_cannot_be_asked_get_an_answer_and_the_rest_goes_on() -> None:
    good = {"name": "good", **QUESTION}
    lines = [
        "{broken",
        "[]",
        json.dumps({"name": "no-node"}),
        json.dumps({**good, "name": "gates", "features": {"Nope": True}}),
        json.dumps({**good, "name": "slice", "slices": [{"metadata": {"name": "s"}, "spec": {"driver": 1}}]}),
        json.dumps(
            {
                **good,
                "name": "amount",
                "allocatedShared": [
                    {"driver": "d", "pool": "p", "device": "x", "consumedCapacity": {"memory": "much"}}
                ],
            }
        ),
        json.dumps({**good, "claims": [claim(request(), name="mine")]}),
    ]
    replies = answered(ALLOCATE, *lines)

    assert [reply["outcome"] for reply in replies] == ["error"] * 6 + ["allocated"]
    errors = [reply.get("error", "") for reply in replies]
    for error, part in zip(
        errors,
        [
            "not a JSON object",
            "a case is a JSON object",
            "node: expected a Node",
            "features: 'Nope' is not known here; known are DRAAdminAccess",
            "ResourceSlice s: spec.driver",
            "allocatedShared[0].consumedCapacity[memory]: 'much' is not a quantity",
            "",
        ],
        strict=True,
    ):
        assert part in error


def test_a_budget_that_ends_is_an_error_that_says_so() -> None:
    devices = [device(f"d{n}", memory="10Gi", allowMultipleAllocations=True) for n in range(4)]
    question = case([pool(*devices)], [claim(*(request(f"r{n}", memory="6Gi") for n in range(5)))])
    (reply,) = answered((*ALLOCATE, "--budget-steps", "5"), json.dumps(question))

    assert reply["outcome"] == "error"
    assert reply["error"].startswith("no answer within 5 steps: nothing is known")


def of_pod(**fields: Any) -> str:
    node = {"metadata": {"name": "node-1"}, "status": {"allocatable": {"cpu": "1", "pods": "10"}}}
    container = {"name": "c", "resources": {"requests": {"cpu": "4"}}}
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [container]}}
    return json.dumps({"name": "a", "cluster": {"nodes": [node]}, "pod": pod, "config": None, **fields})


PREEMPTION = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


def test_a_case_is_answered_in_the_form_of_the_recorded_ones() -> None:
    (answer,) = answered(VERDICTS, of_pod())

    assert answer.pop("message") == f"0/1 nodes are available: 1 Insufficient cpu. {PREEMPTION}"
    refused = {"code": "UnschedulableAndUnresolvable", "plugin": "NodeResourcesFit", "reasons": ["Insufficient cpu"]}
    assert answer == {
        "name": "a",
        "preEnqueue": None,
        "prefilter": {"code": "Success", "plugin": "", "reasons": [], "nodeNames": None},
        "nodes": {"node-1": refused},
        "scores": {},
        "choices": [],
        "preemption": {
            "code": "Unschedulable",
            "message": PREEMPTION,
            "nominatedNode": "",
            "victims": [],
            "anyOf": [],
            "candidates": {},
            "rejected": {},
        },
    }
    recording = scheduler_cases()["small"][0]["answer"]
    assert answer.keys() - {"name"} | {"message", "detail"} == recording.keys()
    assert expected(recording).keys() <= recording.keys()


def test_a_case_that_cannot_be_read_is_named_and_the_next_is_answered() -> None:
    nameless = {"spec": {"containers": []}}
    broken, unknown, no_pod, no_json, good = answered(
        VERDICTS,
        of_pod(name="broken", cluster={"nodes": [{"metadata": {"name": "n"}, "spec": {"taints": "x"}}]}),
        of_pod(name="unknown", cluster={"node": []}),
        of_pod(name="no pod", pod=nameless),
        "{",
        of_pod(),
    )

    assert broken["name"] == "broken"
    assert "cluster.nodes[0]: Node /n cannot be read" in broken["error"]
    assert "cluster.node: not a kind of object here" in unknown["error"]
    assert no_pod["error"] == "pod: expected an object with metadata"
    assert no_json == {"name": "", "error": no_json["error"]}
    assert "error" not in good


@pytest.mark.parametrize("name", CASES)
def test_verdicts_are_those_of_the_asked_release(name: str) -> None:
    asked, of_136, of_137 = CASES[name]
    for args, message in (((), of_137), (("--kubernetes", "1.36"), of_136), (("--kubernetes", "1.37"), of_137)):
        (found,) = answered((*VERDICTS, *args), json.dumps({"config": None, **asked}))
        assert found["message"] == message


@pytest.mark.parametrize("form", ["allocate", "verdicts", "cel"])
def test_no_package_of_tests_is_needed(form: str) -> None:
    without = "import runpy, sys; sys.modules |= dict.fromkeys(('pytest', 'hypothesis', '_pytest')); "
    command = without + "runpy.run_module('tests.answers', run_name='__main__', alter_sys=True)"
    done = subprocess.run(
        [sys.executable, "-c", command, form],
        cwd=Path(__file__).parents[2],
        input=b'{"expression": "1", "result": "any"}',
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert ("value" if form == "cel" else "error") in json.loads(done.stdout)


@pytest.mark.parametrize(
    ("question", "want"),
    [
        ({"expression": 'device.driver == "d"', "device": {"driver": "d"}}, {"value": True}),
        (
            {"expression": 'device.attributes["d"].x', "device": {"driver": "d", "attributes": {"x": {"bool": False}}}},
            {"value": False},
        ),
        (
            {"expression": 'device.attributes["d"].x', "device": {"driver": "d"}},
            {"runtime_error": "no such key: x"},
        ),
        (
            {"expression": "1", "device": {}},
            {"compile_error": "must evaluate to bool or the unknown type, not int"},
        ),
        ({"expression": "1 + 1", "result": "any"}, {"value": {"int": "2"}}),
        (
            {"expression": "1 + 1", "result": "any", "device": None, "cost": True},
            {"value": {"int": "2"}, "max_cost": 1},
        ),
        ({"expression": "1 / 0", "result": "any"}, {"runtime_error": "division by zero"}),
        (
            {"expression": 'int("x")', "result": "any"},
            {"compile_error": "program: type conversion error from 'string' to 'int'"},
        ),
        (
            {
                "expression": "device.allowMultipleAllocations",
                "device": {"allowMultipleAllocations": True},
                "env": "new",
            },
            {"value": True},
        ),
        (
            {
                "expression": 'device.attributes["d"].l.includes(2)',
                "device": {"driver": "d", "attributes": {"l": {"ints": [1, 2]}}},
                "kubernetes": "1.37",
                "gates": {"listTypeAttributes": True},
            },
            {"value": True},
        ),
        (
            {
                "expression": "true",
                "device": {"driver": "d", "attributes": {"l": {"ints": [1, 2]}}},
                "kubernetes": "1.36",
            },
            {"value": True},  # who does not ask for the list is not failed by it
        ),
    ],
)
def test_what_an_expression_is(question: dict[str, Any], want: dict[str, Any]) -> None:
    got = answer(question)
    assert got.pop("cost", None) == want.get("max_cost")
    assert got == want


def test_what_does_not_compile_is_told_without_a_device_too() -> None:
    assert "undefined field 'foo'" in answer({"expression": "device.foo"})["compile_error"]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not JSON"),
        ("[]", "a question is an object"),
        ("{}", "expression: must be a text"),
        ('{"expression": "true"}', "device: is missing"),
        ('{"expression": "true", "device": {}, "kubernetes": "1.20"}', "Kubernetes version '1.20' is not supported"),
        ('{"expression": "true", "device": {}, "env": "old"}', "env: must be 'stored'"),
        ('{"expression": "true", "device": {}, "gates": {"x": true}}', "gates: 'x' is not known here"),
        (
            '{"expression": "true", "device": {"attributes": {"a": {"int": "1"}}}}',
            "device.attributes.a.int: must be",
        ),
        ('{"expression": "true", "device": {"attributes": {"a": {"float": 1}}}}', "there is no field float here"),
        (
            '{"expression": "true", "device": {"capacity": {"a": "x"}}}',
            "device.capacity.a.value: must be a quantity like 80Gi",
        ),
        ('{"expression": "true", "devise": {}}', "devise: no such field"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_what_is_wrong_with_a_question_is_said(line: str, complaint: str) -> None:
    assert complaint in answer_line(line)["input_error"]


def test_each_question_is_answered_after_a_broken_one_too() -> None:
    lines = ['{"expression": "true", "device": {}}', "?", "", '{"expression": "2 > 1", "result": "any"}']
    first, second, third = answered(("cel",), *lines, code=1)
    assert (first, third) == ({"value": True}, {"value": {"bool": "true"}})
    assert list(second) == ["input_error"]
