"""`dra-scheduler allocate`: files in, allocations or reasons out; cases in JSON lines."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from scheduler.cli.allocate import allocate
from scheduler.embedded.cluster import EmbeddedCluster
from tests.allocator.build import case, claim, device, device_class, pool, request
from tests.allocator.cases import recorded
from tests.offline.causes import allocated, gpu, node, pod, rule, running, slice_, template
from tests.offline.causes import claim as claim_of_pods
from tests.offline.causes import device_class as device_class_of_pods
from tests.offline.causes import request as request_of_pods

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

    assert result.exit_code == 2
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
    assert run(tmp_path, objects, "--claim", "nobody").exit_code == 2


def test_wrong_use_is_told(tmp_path: Path) -> None:
    nowhere = {"HOME": str(tmp_path), "KUBECONFIG": None}
    assert CliRunner(env=nowhere).invoke(allocate, []).exit_code == 2
    assert CliRunner().invoke(allocate, ["x.yaml", "--jsonl"]).exit_code == 2
    wrong = run(tmp_path, kinds(QUESTION), "--feature-gates", "DeviceTaint=false")
    assert wrong.exit_code == 2
    assert "did you mean DRADeviceTaints?" in wrong.output
    assert "no node is named node-7; known: node-1, node-2" in run(tmp_path, kinds(QUESTION), "--node", "node-7").output
    assert CliRunner().invoke(allocate, [str(tmp_path / "missing.yaml")]).exit_code == 2


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


# --- pods -----------------------------------------------------------------------------------------------------

CLUSTER = [node(), slice_(gpu("gpu-0"), gpu("gpu-1")), device_class_of_pods()]


def rows_of(result: Result) -> dict[str, dict[str, Any]]:
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return {row["name"]: row for row in json.loads(result.stdout)["pods"]}


def devices(row: dict[str, Any]) -> list[str]:
    return [device["device"] for device in row["devices"]]


def test_every_pod_has_claims_of_its_own_from_a_template(tmp_path: Path) -> None:
    pods = [pod("template:gpu", name=f"pod-{number}") for number in range(3)]
    result = run(tmp_path, [*CLUSTER, template(), *pods])

    assert result.exit_code == 1
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert [(line[0], line[1], line[4]) for line in lines[:3]] == [
        ("POD", "NODE", "DEVICE"),
        ("default/pod-0", "node-1", "gpu.example.com/node-1/gpu-0"),
        ("default/pod-1", "node-1", "gpu.example.com/node-1/gpu-1"),
    ]
    assert lines[3][0].startswith(
        "default/pod-2: 0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: "
    )
    assert lines[4][0].startswith("  node-1: claim default/pod-2-gpu-")
    assert lines[4][0].endswith("request gpu wants 1 of 2 devices: 2 in use; 0 left")


def test_workloads_make_their_pods_and_what_nobody_runs_is_told(tmp_path: Path) -> None:
    spec = pod("template:gpu")["spec"]
    labels = {"labels": {"app": "a"}}
    workload = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "two"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels["labels"]},
            "template": {"metadata": labels, "spec": spec},
        },
    }
    both = run(tmp_path, [*CLUSTER, template(), workload], "-o", "json")
    other = run(
        tmp_path,
        [*CLUSTER, template(), workload, {**workload, "kind": "CronJob", "apiVersion": "batch/v1"}],
        "-o",
        "json",
    )

    assert both.exit_code == 0, both.output
    assert sorted(device for row in rows_of(both).values() for device in devices(row)) == ["gpu-0", "gpu-1"]
    assert other.exit_code == 2
    assert "CronJob two: no pods are made for it here" in other.stderr


def test_reasons_are_given_node_by_node_and_equal_ones_together(tmp_path: Path) -> None:
    nodes = [node(f"node-{number}", unschedulable=number > 1) for number in range(1, 8)]
    objects = [*nodes, *CLUSTER[1:], claim_of_pods(request_of_pods(count=3)), pod("gpu")]
    result = run(tmp_path, objects)

    assert result.stdout.splitlines() == [
        "default/asked: 0/7 nodes are available: 1 cannot allocate all claims, 6 node(s) were unschedulable. "
        "still not schedulable, preemption: 0/7 nodes are available: 7 Preemption is not helpful for scheduling.",
        "  node-1: claim default/gpu, request gpu wants 3 of 2 devices; 2 left",
        "  node-2, node-3, node-4 and 3 more: node(s) were unschedulable",
    ]
    row = rows_of(run(tmp_path, objects, "-o", "json"))["asked"]
    assert [(one["nodes"], one["count"], one["plugin"]) for one in row["refusals"]] == [
        (["node-1"], 1, "DynamicResources"),
        ([f"node-{number}" for number in range(2, 8)], 6, "NodeUnschedulable"),
    ]


def test_only_the_pods_and_nodes_asked_about(tmp_path: Path) -> None:
    objects = [
        *CLUSTER,
        node("node-2"),
        slice_(gpu("gpu-0"), where="node-2"),
        template(request_of_pods(count=2)),
        pod("template:gpu", name="first"),
        pod("template:gpu", name="second"),
    ]
    everything = rows_of(run(tmp_path, objects, "-o", "json"))
    second = rows_of(run(tmp_path, objects, "-o", "json", "--pod", "default/second"))
    elsewhere = run(tmp_path, objects, "-o", "json", "--node", "node-2", "--pod", "second")

    assert [everything[name]["outcome"] for name in ("first", "second")] == ["fits", "unschedulable"]
    assert {name: row["outcome"] for name, row in second.items()} == {"second": "fits"}
    assert elsewhere.exit_code == 1
    assert "0/1 nodes are available" in rows_of(elsewhere)["second"]["reason"]
    assert "no pod is named third" in run(tmp_path, objects, "--pod", "third").output
    assert "no node is named node-9; known: node-1, node-2" in run(tmp_path, objects, "--node", "node-9").output


def test_pods_without_nodes_are_not_answered(tmp_path: Path) -> None:
    result = run(tmp_path, [*CLUSTER[1:], claim_of_pods(), pod("gpu")])

    assert result.exit_code == 2
    assert "there are pods but no Nodes" in result.output


def test_pods_of_other_schedulers_are_answered_and_that_is_told(tmp_path: Path) -> None:
    result = run(tmp_path, [*CLUSTER, claim_of_pods(), pod("gpu", schedulerName="default-scheduler")])

    assert result.exit_code == 0, result.output
    assert "note: 1 pod names the scheduler default-scheduler: answered as if that were dra-scheduler" in result.stderr


def test_what_the_api_server_would_refuse_is_told_with_its_place(tmp_path: Path) -> None:
    wrong = pod("gpu", nodeSelectors={"a": "b"})
    no_label = template(request_of_pods(adminAccess=True), name="admin")
    result = run(tmp_path, [*CLUSTER, claim_of_pods(), wrong, no_label, pod("template:admin", name="monitor")])

    assert result.exit_code == 2
    assert 'the API server refuses the pod: Pod in version "v1" cannot be handled as a Pod' in result.stdout
    assert 'unknown field "spec.nodeSelectors" (did you mean nodeSelector?)' in result.stdout
    assert 'ResourceClaim not created yet. (resource claim template "admin": not found)' in result.stdout
    assert "ResourceClaimTemplate admin" in result.stderr
    assert "admin access to devices requires" in result.stderr


def test_a_pod_that_waits_for_its_driver_has_its_node_and_devices(tmp_path: Path) -> None:
    binding = gpu(
        bindsToNode=True, bindingConditions=["example.com/ready"], bindingFailureConditions=["example.com/no"]
    )
    objects = [node(), slice_(binding), device_class_of_pods(), claim_of_pods(), pod("gpu")]
    result = run(tmp_path, objects)

    assert result.exit_code == 0, result.output
    assert "default/asked\tnode-1\tgpu\tgpu\tgpu.example.com/node-1/gpu-0" in result.stdout
    assert "default/asked: waiting for binding conditions for device on node node-1" in result.stdout


def test_equal_objects_give_equal_answers_in_any_order_of_kinds(tmp_path: Path) -> None:
    objects = [*CLUSTER, template(), pod("template:gpu", name="a"), pod("template:gpu", name="b")]
    shuffled = [*objects[3:], *reversed(objects[:3])]

    answers = [run(tmp_path, each, "-o", "json").stdout for each in (objects, objects, shuffled)]
    assert answers[0] == answers[1] == answers[2]


def test_old_versions_are_sent_to_convert(tmp_path: Path) -> None:
    old = {**claim_of_pods(), "apiVersion": "resource.k8s.io/v1beta1"}
    result = run(tmp_path, [*CLUSTER, old, pod("gpu")])

    assert result.exit_code == 2
    assert "`dra-scheduler convert` writes resource.k8s.io/v1" in result.stderr


async def test_a_clusters_objects_and_ones_own(tmp_path: Path) -> None:
    """With pods in the files, these are asked about; without, those that wait in the cluster."""
    mine = tmp_path / "mine.yaml"
    mine.write_text(yaml.safe_dump_all([template(name="mine"), pod("template:mine", name="mine")]))
    async with EmbeddedCluster(controllers=False) as cluster:
        await cluster.apply(
            [
                *CLUSTER,
                rule("gpu-1"),
                running(),
                allocated(claim_of_pods(name="held"), "gpu-0"),
                claim_of_pods(),
                pod("gpu", name="waits"),
            ]
        )
        command = ["--kubeconfig", str(cluster.kubeconfig_path), "-o", "json"]
        theirs = await asyncio.to_thread(CliRunner().invoke, allocate, command)
        ours = await asyncio.to_thread(CliRunner().invoke, allocate, [*command, str(mine)])
        left = [stored.obj["spec"].get("nodeName") for stored in cluster.api.store.listed("pods")]

    assert {name: row["outcome"] for name, row in rows_of(theirs).items()} == {"waits": "unschedulable"}
    assert rows_of(theirs)["waits"]["refusals"][0]["devices"] == [
        "claim default/gpu, request gpu wants 1 of 2 devices: 1 tainted and not tolerated, 1 in use; 0 left"
    ]
    assert list(rows_of(ours)) == ["mine"]
    assert left == ["node-1", None]  # nothing was written


# --- claims without a pod ---------------------------------------------------------------------------------------


def test_claims_are_asked_about_one_by_one_and_what_was_not_looked_at_is_told(tmp_path: Path) -> None:
    claims = [claim_of_pods(name=name) for name in ("a", "b", "c")]
    result = run(tmp_path, [*CLUSTER, *claims, template()])

    assert result.exit_code == 0, result.output
    assert [line.split("\t")[1:] for line in result.stdout.splitlines()[1:]] == [
        [f"default/{name}", "gpu", "gpu.example.com/node-1/gpu-0"] for name in ("a", "b", "c", "gpu")
    ]
    assert "each of the 4 claims is asked about alone" in result.stderr
    assert "asked without a pod, so only devices are looked at: not whether nodes are cordoned" in result.stderr


def test_claims_of_a_dump_with_pods_are_not_taken_for_those_of_one(tmp_path: Path) -> None:
    claims = [claim_of_pods(name=name) for name in ("a", "b", "c")]
    objects = [*CLUSTER, *claims, pod("a")]

    pods = rows_of(run(tmp_path, objects, "-o", "json"))
    alone = json.loads(run(tmp_path, objects, "-o", "json", "--claim", "c").stdout)

    assert {name: row["outcome"] for name, row in pods.items()} == {"asked": "fits"}
    assert [(node["node"], node["claim"], node["outcome"]) for node in alone["nodes"]] == [
        ("node-1", "default/c", "allocated")
    ]


def test_claims_alone_are_subject_to_taint_rules_deletion_and_the_admin_label(tmp_path: Path) -> None:
    going = {**claim_of_pods(name="going")}
    going["metadata"] = {**going["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    admin = claim_of_pods(request_of_pods(adminAccess=True), name="admin")
    label = {"resource.kubernetes.io/admin-access": "true"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": label}}

    def reasons(*objects: dict[str, Any]) -> dict[str, str]:
        answer = json.loads(run(tmp_path, [*CLUSTER, rule("gpu-0"), rule("gpu-1"), *objects], "-o", "json").stdout)
        return {node["claim"]: node.get("reason", "fits") for node in answer["nodes"]}

    told = reasons(going, admin, claim_of_pods())

    assert told["default/going"] == "claim default/going: it is being deleted"
    assert "needs the label resource.kubernetes.io/admin-access: true of its namespace" in told["default/admin"]
    assert "tainted and not tolerated" in told["default/gpu"]
    assert "needs the label" not in reasons(admin, namespace)["default/admin"]
