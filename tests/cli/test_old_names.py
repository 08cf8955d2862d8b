"""Old names of commands: they say so, answer as the new ones, and answer recorded cases."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from scheduler.cli.main import cli
from scheduler.cli.old_names import allocate
from tests.allocator.build import case, claim, device, device_class, pool, request
from tests.allocator.cases import recorded
from tests.offline.causes import pod

QUESTION = case(
    [pool(device("a", memory="8Gi"), nodeName="node-1"), pool(device("b"), name="p2", nodeName="node-2")],
    [claim({"name": "r", "exactly": {"deviceClassName": "class-a"}}, name="mine")],
    classes=[device_class()],
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["allocate", "-"], ["simulate", "-"]),
        (
            ["allocate", "-f", "-", "--pod", "asked", "-o", "json"],
            ["simulate", "-f", "-", "--pod", "asked", "-o", "json"],
        ),
    ],
)
def test_an_old_name_answers_as_the_new_one_and_says_so_once(old: list[str], new: list[str]) -> None:
    text = json.dumps(pod(requests={"cpu": "1"}))
    before, now = (CliRunner().invoke(cli, args, input=text) for args in (old, new))

    assert (before.exit_code, before.stdout) == (now.exit_code, now.stdout)
    assert before.stderr == f"note: `allocate` is an old name; it is now `simulate`\n{now.stderr}"


def test_no_list_has_the_old_names() -> None:
    shown = CliRunner().invoke(cli, ["--help"]).output

    assert not {"allocate", "verdicts"} & {line.split()[0] for line in shown.splitlines() if line.strip()}
    assert CliRunner().invoke(cli, ["allocate", "--help"]).exit_code == 0
    assert "Did you mean" not in CliRunner().invoke(cli, ["alocate"]).output


@pytest.mark.parametrize("more", [["x.yaml"], ["-n", "team"], ["--pod", "web"], ["-o", "json"]])
def test_lines_go_with_nothing_else(more: list[str]) -> None:
    result = CliRunner().invoke(allocate, ["--jsonl", *more])

    assert result.exit_code == 2
    assert result.stdout == ""


def test_lines_in_lines_out() -> None:
    cases = recorded()[:60]
    result = CliRunner().invoke(
        allocate, ["--jsonl", "--kubernetes", "1.36"], input="\n".join(json.dumps(case) for case in cases) + "\n"
    )

    replies = [json.loads(line) for line in result.stdout.splitlines()]
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
    result = CliRunner().invoke(allocate, ["--jsonl"], input="\n".join(lines))

    replies = [json.loads(line) for line in result.stdout.splitlines()]
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
    result = CliRunner().invoke(allocate, ["--jsonl", "--budget-steps", "5"], input=json.dumps(question))

    reply = json.loads(result.stdout)
    assert reply["outcome"] == "error"
    assert reply["error"].startswith("no answer within 5 steps: nothing is known")
