"""`dra-scheduler simulate` about pods that wait: which node and devices, or why not, node by node."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from scheduler.cli.simulate import simulate
from scheduler.embedded.cluster import EmbeddedCluster
from tests.offline.causes import (
    allocated,
    claim,
    device_class,
    gpu,
    node,
    pod,
    request,
    rule,
    running,
    slice_,
    template,
)


def run(tmp_path: Path, objects: list[dict[str, Any]], *args: str) -> Result:
    file = tmp_path / "objects.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    return CliRunner().invoke(simulate, [str(file), *args])


CLUSTER = [node(), slice_(gpu("gpu-0"), gpu("gpu-1")), device_class()]


def rows_of(result: Result) -> dict[str, dict[str, Any]]:
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return {row["name"]: row for row in json.loads(result.stdout)["pods"]}


def devices(row: dict[str, Any]) -> list[str]:
    return [device["device"] for device in row["devices"]]


def test_every_pod_has_claims_of_its_own_from_a_template(tmp_path: Path) -> None:
    pods = [pod("template:gpu", name=f"pod-{number}") for number in range(3)]
    result = run(tmp_path, [*CLUSTER, template(), *pods])

    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert [line.split("\t") for line in lines[:3]] == [
        ["POD", "NODE", "DEVICES"],
        ["default/pod-0", "node-1", "gpu.example.com/node-1/gpu-0"],
        ["default/pod-1", "node-1", "gpu.example.com/node-1/gpu-1"],
    ]
    assert lines[3].startswith("default/pod-2: 0/1 nodes are available: 1 cannot allocate all claims. preemption: ")
    assert lines[4].startswith("  node-1: claim default/pod-2-gpu-")
    assert lines[4].endswith("request gpu wants 1 of 2 devices: 2 in use; 0 left")


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
    objects = [*nodes, *CLUSTER[1:], claim(request(count=3)), pod("gpu")]
    result = run(tmp_path, objects)

    assert result.stdout.splitlines()[:-1] == [
        "default/asked: 0/7 nodes are available: 1 cannot allocate all claims, 6 node(s) were unschedulable. "
        "preemption: 0/7 nodes are available: 7 Preemption is not helpful for scheduling.",
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
        template(request(count=2)),
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


def test_pods_without_nodes_wait(tmp_path: Path) -> None:
    result = run(tmp_path, [*CLUSTER[1:], claim(), pod("gpu")])

    assert result.exit_code == 1
    assert "default/asked: no nodes available to schedule pods" in result.stdout


def test_pods_of_the_default_scheduler_are_answered(tmp_path: Path) -> None:
    result = run(tmp_path, [*CLUSTER, claim(), pod("gpu", schedulerName="default-scheduler")])

    assert result.exit_code == 0, result.output
    assert result.stderr == ""


def test_what_the_api_server_would_refuse_is_told_with_its_place(tmp_path: Path) -> None:
    wrong = pod("gpu", nodeSelectors={"a": "b"})
    no_label = template(request(adminAccess=True), name="admin")
    result = run(tmp_path, [*CLUSTER, claim(), wrong, no_label, pod("template:admin", name="monitor")])

    assert result.exit_code == 2
    assert 'the API server refuses the pod: Pod in version "v1" cannot be handled as a Pod' in result.stdout
    assert 'unknown field "spec.nodeSelectors" (did you mean nodeSelector?)' in result.stdout
    why = "ResourceClaimTemplate admin: spec.devices.requests[0].adminAccess: Forbidden: admin access to devices"
    assert f"ResourceClaim not created yet. ({why}" in result.stdout
    assert "ResourceClaimTemplate admin" in result.stderr
    assert "admin access to devices requires" in result.stderr


def test_a_pod_that_waits_for_its_driver_has_its_node_and_devices(tmp_path: Path) -> None:
    binding = gpu(
        bindsToNode=True, bindingConditions=["example.com/ready"], bindingFailureConditions=["example.com/no"]
    )
    objects = [node(), slice_(binding), device_class(), claim(), pod("gpu")]
    result = run(tmp_path, objects)

    assert result.exit_code == 0, result.output
    assert "default/asked\tnode-1\tgpu.example.com/node-1/gpu-0" in result.stdout
    assert "default/asked: waiting for binding conditions for device on node node-1" in result.stdout


def test_equal_objects_give_equal_answers_in_any_order_of_kinds(tmp_path: Path) -> None:
    objects = [*CLUSTER, template(), pod("template:gpu", name="a"), pod("template:gpu", name="b")]
    shuffled = [*objects[3:], *reversed(objects[:3])]

    answers = [run(tmp_path, each, "-o", "json").stdout for each in (objects, objects, shuffled)]
    assert answers[0] == answers[1] == answers[2]


def test_old_versions_are_sent_to_convert(tmp_path: Path) -> None:
    old = {**claim(), "apiVersion": "resource.k8s.io/v1beta1"}
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
                allocated(claim(name="held"), "gpu-0"),
                claim(),
                pod("gpu", name="waits"),
            ]
        )
        command = ["--kubeconfig", str(cluster.kubeconfig_path), "-o", "json"]
        theirs = await asyncio.to_thread(CliRunner().invoke, simulate, command)
        ours = await asyncio.to_thread(CliRunner().invoke, simulate, [*command, str(mine)])
        left = [stored.obj["spec"].get("nodeName") for stored in cluster.api.store.listed("pods")]

    assert {name: row["outcome"] for name, row in rows_of(theirs).items()} == {"waits": "unschedulable"}
    assert rows_of(theirs)["waits"]["refusals"][0]["devices"] == [
        "claim default/gpu, request gpu wants 1 of 2 devices: 1 tainted and not tolerated, 1 in use; 0 left"
    ]
    assert list(rows_of(ours)) == ["mine"]
    assert left == ["node-1", None]  # nothing was written


# -- claims without a pod -------------------------------------------------------------------------------------------


def test_a_claim_or_template_is_asked_about_by_a_pod_that_has_nothing_else(tmp_path: Path) -> None:
    objects = [*CLUSTER, claim(name="a"), claim(name="b"), template(request(count=3), name="three"), pod("a")]
    asked = rows_of(run(tmp_path, objects, "-o", "json", "--claim", "b", "--claim", "three"))

    assert {name: row["outcome"] for name, row in asked.items()} == {"only-b": "fits", "only-three": "unschedulable"}
    assert asked["only-three"]["refusals"][0]["devices"][0].endswith("wants 3 of 2 devices: 1 in use; 1 left")
    assert "no claim is named c; known: default/a, default/b" in run(tmp_path, objects, "--claim", "c").output


def test_a_claim_alone_is_subject_to_taint_rules_deletion_and_the_admin_label(tmp_path: Path) -> None:
    going = claim(name="going")
    going["metadata"] = {**going["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    admin = claim(request(adminAccess=True), name="admin")
    world = [node(), slice_(gpu("gpu-0")), device_class(), rule("gpu-0"), claim(), going, admin]

    def said(name: str) -> str:
        return run(tmp_path, world, "--claim", name, "-o", "json").output

    assert "tainted and not tolerated" in said("gpu")
    assert '"outcome": "unschedulable"' in said("going")
    assert "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label" in said("admin")
