"""`dra-scheduler verdicts`: cases in, answers out, and what is said of a broken case."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner

from scheduler.cli.main import cli
from tests.plugins.recorded_cases import expected, recorded


def answers(*lines: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(cli, ["verdicts", "--jsonl"], input="\n".join(lines) + "\n")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def case(**fields: Any) -> str:
    node = {"metadata": {"name": "node-1"}, "status": {"allocatable": {"cpu": "1", "pods": "10"}}}
    container = {"name": "c", "resources": {"requests": {"cpu": "4"}}}
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [container]}}
    return json.dumps({"name": "a", "cluster": {"nodes": [node]}, "pod": pod, "config": None, **fields})


def test_a_case_is_answered_in_the_form_of_the_recorded_ones() -> None:
    (answer,) = answers(case())

    assert answer.pop("message").startswith("0/1 nodes are available: 1 Insufficient cpu.")
    refused = {"code": "UnschedulableAndUnresolvable", "plugin": "NodeResourcesFit", "reasons": ["Insufficient cpu"]}
    assert answer == {
        "name": "a",
        "preEnqueue": None,
        "prefilter": {"code": "Success", "plugin": "", "reasons": [], "nodeNames": None},
        "nodes": {"node-1": refused},
        "scores": {},
        "choices": [],
        "preemption": None,
    }
    recording = recorded()["small"][0]["answer"]
    assert answer.keys() - {"name"} | {"message", "detail"} == recording.keys()
    assert expected(recording).keys() <= recording.keys()


def test_a_case_that_cannot_be_read_is_named_and_the_next_is_answered() -> None:
    nameless = {"spec": {"containers": []}}
    broken, unknown, no_pod, no_json, good = answers(
        case(name="broken", cluster={"nodes": [{"metadata": {"name": "n"}, "spec": {"taints": "x"}}]}),
        case(name="unknown", cluster={"node": []}),
        case(name="no pod", pod=nameless),
        "{",
        case(),
    )

    assert broken["name"] == "broken"
    assert "cluster.nodes[0]: Node /n cannot be read" in broken["error"]
    assert "cluster.node: not a kind of object here" in unknown["error"]
    assert no_pod["error"] == "pod: expected an object with metadata"
    assert no_json == {"name": "", "error": no_json["error"]}
    assert "error" not in good
