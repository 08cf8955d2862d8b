"""`dra-scheduler verdicts`: cases in, answers out, and what is said of a broken case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

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


PREEMPTION = (
    "no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
)


def test_a_case_is_answered_in_the_form_of_the_recorded_ones() -> None:
    (answer,) = answers(case())

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


NODES = """
apiVersion: v1
kind: Node
metadata: {name: small}
status: {allocatable: {cpu: "1", memory: 8Gi, pods: "110"}}
---
apiVersion: v1
kind: Node
metadata: {name: tainted}
spec: {taints: [{key: a, effect: NoSchedule}]}
status: {allocatable: {cpu: "8", memory: 8Gi, pods: "110"}}
---
apiVersion: v1
kind: Node
metadata: {name: large}
status: {allocatable: {cpu: "8", memory: 8Gi, pods: "110"}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: NAMESPACE}
spec:
  nodeName: NODE
  containers: [{name: c, image: nginx, resources: {requests: {cpu: CPU}}}]
"""


def asked(folder: Path, *args: str, **fields: str) -> Result:
    (folder / "nodes.yaml").write_text(NODES)
    text = POD
    for key, value in {"NAMESPACE": "team", "NODE": '""', "CPU": '"2"', **fields}.items():
        text = text.replace(key, value)
    (folder / "pod.yml").write_text(text)
    (folder / "README.md").write_text("no manifest")
    return CliRunner().invoke(cli, ["verdicts", "-f", str(folder), *args])


def test_a_person_reads_nodes_plugins_reasons_and_scores(tmp_path: Path) -> None:
    result = asked(tmp_path, "--pod", "web")

    assert result.exit_code == 0, result.output
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert [line[:3] for line in lines] == [
        ["NODE", "VERDICT", "PLUGIN"],
        ["large", "best", ""],
        ["small", "UnschedulableAndUnresolvable", "NodeResourcesFit"],
        ["tainted", "UnschedulableAndUnresolvable", "TaintToleration"],
    ]
    assert int(lines[1][3]) == sum(int(score.rpartition(" ")[2]) for score in lines[1][4].split(", "))
    assert lines[2][4] == "Insufficient cpu"


def test_when_no_node_fits_the_message_follows_and_the_exit_code_is_one(tmp_path: Path) -> None:
    result = asked(tmp_path, "--pod", "team/web", CPU='"64"')

    assert result.exit_code == 1
    message = result.stdout.splitlines()[-1]
    assert message.startswith("0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu.")


def test_a_pod_that_runs_is_asked_about_as_if_it_waited(tmp_path: Path) -> None:
    """All CPUs that are taken there are its own."""
    result = asked(tmp_path, "--pod", "web", "-o", "json", NODE="large", CPU='"8"')

    assert "note: the pod has a node, large" in result.stderr
    assert json.loads(result.stdout)["choices"] == ["large"]


def test_wrong_use_says_what_to_do(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    wrong = [
        (["verdicts"], 2, "--pod NAME"),
        (["verdicts", "--pod", "web"], 2, "-f"),
        (["verdicts", "--jsonl", "--pod", "web"], 2, "standard input"),
        (["verdicts", "-f", str(empty), "--pod", "web"], 1, "no file in it ends in .yaml"),
        (["verdicts", "-f", str(tmp_path / "nodes.yaml"), "--pod", "x"], 1, "no pod is named x; known: none"),
    ]
    asked(tmp_path, "--pod", "web")
    for args, code, words in wrong:
        result = CliRunner().invoke(cli, args)
        assert (result.exit_code, words in result.output) == (code, True), result.output
