"""`dra-scheduler allocate`: files in, allocations or reasons out; cases in JSON lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from scheduler.cli.allocate import allocate
from tests.allocator.build import case, claim, device, device_class, pool, request
from tests.allocator.cases import recorded

API = {"apiVersion": "resource.k8s.io/v1"}


def kinds(question: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        *({**API, "kind": "ResourceSlice", **obj} for obj in question["slices"]),
        *({**API, "kind": "DeviceClass", **obj} for obj in question["classes"]),
        *({**API, "kind": "ResourceClaim", **obj} for obj in question["claims"]),
    ]


def run(tmp_path: Path, objects: list[dict[str, Any]], *args: str) -> Result:
    file = tmp_path / "objects.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    return CliRunner().invoke(allocate, [str(file), *args])


QUESTION = case(
    [pool(device("a", memory="8Gi"), nodeName="node-1"), pool(device("b"), name="p2", nodeName="node-2")],
    [claim({"name": "r", "exactly": {"deviceClassName": "class-a"}}, name="mine")],
    classes=[device_class()],
)


def test_prints_the_devices_of_every_node(tmp_path: Path) -> None:
    result = run(tmp_path, kinds(QUESTION))

    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines == [
        ["NODE", "CLAIM", "REQUEST", "DEVICE"],
        ["node-1", "default/mine", "r", "driver-a/pool-1/a"],
        ["node-2", "default/mine", "r", "driver-a/p2/b"],
    ]


def test_json_and_yaml_say_the_same(tmp_path: Path) -> None:
    as_json = json.loads(run(tmp_path, kinds(QUESTION), "-o", "json", "--node", "node-1").stdout)
    as_yaml = yaml.safe_load(run(tmp_path, kinds(QUESTION), "-o", "yaml", "--node", "node-1").stdout)

    assert as_json == as_yaml
    (node,) = as_json["nodes"]
    assert node["outcome"] == "allocated"
    assert node["claims"][0]["allocation"]["devices"]["results"] == [
        {"request": "r", "driver": "driver-a", "pool": "pool-1", "device": "a"}
    ]


def test_says_why_a_node_does_not_fit(tmp_path: Path) -> None:
    wanted = {**QUESTION, "claims": [claim(request(memory="4Gi"), name="mine")]}
    result = run(tmp_path, kinds(wanted))

    assert result.exit_code == 0
    assert (
        "node-2: claim default/mine, request req-0 wants 1 of 1 devices: 1 without the requested capacity; 0 left"
        in (result.stdout)
    )


def test_exit_code_1_when_no_node_fits(tmp_path: Path) -> None:
    result = run(tmp_path, kinds({**QUESTION, "claims": [claim(request(count=3))]}))

    assert result.exit_code == 1
    assert "wants 3 of 1 devices" in result.stdout


def test_an_error_is_printed_as_the_scheduler_would_say_it(tmp_path: Path) -> None:
    result = run(tmp_path, kinds({**QUESTION, "claims": [claim(request(cls="missing"))]}))

    assert result.exit_code == 1
    assert 'could not retrieve device class missing: deviceclass.resource.k8s.io "missing" not found' in result.stdout


def test_a_broken_object_is_named_and_the_others_count(tmp_path: Path) -> None:
    broken = {**API, "kind": "ResourceSlice", "metadata": {"name": "bad"}, "spec": {"driver": 3}}
    result = run(tmp_path, [broken, *kinds(QUESTION)])

    assert result.exit_code == 1
    assert "driver-a/pool-1/a" in result.stdout
    assert "objects.yaml:1:1: ResourceSlice bad: spec.driver: expected a string, got an integer (3)" in result.stderr


def test_allocated_claims_hold_their_devices(tmp_path: Path) -> None:
    held = {
        **API,
        "kind": "ResourceClaim",
        "metadata": {"name": "other", "namespace": "x"},
        "spec": {},
        "status": {
            "allocation": {
                "devices": {"results": [{"request": "r", "driver": "driver-a", "pool": "pool-1", "device": "a"}]}
            }
        },
    }
    result = run(tmp_path, [*kinds(QUESTION), held, held])

    assert "node-1: claim default/mine, request r wants 1 of 1 devices: 1 in use; 0 left" in result.stdout
    assert "device driver-a/pool-1/a is allocated to another claim, too" in result.stderr


def test_nodes_templates_features_and_claim_names(tmp_path: Path) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-9", "labels": {"zone": "a"}}}
    selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    tainted = device("t", taints=[{"key": "k", "effect": "NoSchedule"}])
    question = case([pool(tainted, nodeSelector=selector)], [claim(request(count=9), name="big")])
    template = {
        **API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "small"},
        "spec": {"spec": claim(request())["spec"]},
    }
    objects = [*kinds(question), template, node]

    assert run(tmp_path, objects, "--claim", "small").exit_code == 1
    fits = run(tmp_path, objects, "--claim", "small", "--feature-gates", "DeviceTaints=false")
    assert fits.exit_code == 0, fits.output
    assert "default/small" in fits.stdout
    assert run(tmp_path, objects, "--claim", "nobody").exit_code == 1


def test_wrong_use_is_told(tmp_path: Path) -> None:
    assert CliRunner().invoke(allocate, []).exit_code == 2
    assert CliRunner().invoke(allocate, ["x.yaml", "--jsonl"]).exit_code == 2
    wrong = run(tmp_path, kinds(QUESTION), "--feature-gates", "DeviceTaint=false")
    assert wrong.exit_code == 2
    assert "unknown DeviceTaint; known are AdminAccess" in wrong.output
    assert "no node is named node-7; known: node-1, node-2" in run(tmp_path, kinds(QUESTION), "--node", "node-7").output
    assert CliRunner().invoke(allocate, [str(tmp_path / "missing.yaml")]).exit_code == 1


def test_lines_in_lines_out() -> None:
    cases = recorded()[:60]
    result = CliRunner().invoke(allocate, ["--jsonl"], input="\n".join(json.dumps(case) for case in cases) + "\n")

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
            "features: unknown Nope",
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
