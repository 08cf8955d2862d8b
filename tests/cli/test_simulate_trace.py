"""A trace from the command line gives each pod the node and devices that the bare core gives it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks import openb
from benchmarks.placement import Shell
from scheduler.cli.main import cli
from scheduler.model.keys import ClaimKey, PodKey
from tests import builders
from tests.offline import causes

PODS = 60
"""More than the 50 that are placed before a workload is in use."""
NODES = [openb.TraceNode(f"n{number}", 16_000 + 8_000 * (number % 3), 65_536, 4, "T4") for number in range(8)]


def trace() -> list[openb.TracePod]:
    draw = random.Random(19)
    kinds = [(1, 160), (1, 470), (1, 530), (1, 810), (1, 1000), (2, 1000), (4, 1000), (0, 0)]
    return [
        openb.TracePod(f"pod-{number:02}", draw.choice([500, 2_000, 4_000]), 1_024, *draw.choice(kinds), "")
        for number in range(PODS)
    ]


def by_the_core(placement: str) -> dict[str, tuple[str, list[str]]]:
    shell = Shell(placement)
    shell.see(openb.node_objects(NODES, [node.name for node in NODES]))
    found = {}
    for pod in trace():
        node, devices = "", []
        if shell.offer(pod.name, openb.claim_spec(pod), openb.requests(pod)):
            node = str(shell.bound[PodKey("default", pod.name)])
            claim = shell.claims.get(ClaimKey("default", f"{pod.name}-gpu"))
            devices = sorted(str(one.device) for one in claim.allocation.device_ids()) if claim is not None else []
        found[pod.name] = node, devices
    return found


def line_of(number: int, pod: openb.TracePod) -> dict[str, Any]:
    spec, requests = openb.claim_spec(pod), openb.requests(pod)
    made = causes.pod(*(["template:" + pod.name] if spec else []), name=pod.name, requests=requests, priority=0)
    objects = [made]
    if spec:
        meta = {"name": pod.name, "namespace": "default"}
        template = {"apiVersion": causes.DRA, "kind": "ResourceClaimTemplate", "metadata": meta, "spec": {"spec": spec}}
        objects.insert(0, template)
    return {"at": number, "for": None, "objects": objects}


def by_the_command(placement: str, folder: Path) -> dict[str, tuple[str, list[str]]]:
    world, arrivals = folder / "world.json", folder / "arrivals.jsonl"
    device_class = builders.class_object(openb.DRIVER, driver=openb.DRIVER)
    items: list[Any] = [{"apiVersion": causes.DRA, "kind": "DeviceClass", **device_class}]
    for node in NODES:
        made, slice_ = openb.raw_objects(node, node.name)
        items.append({"apiVersion": "v1", "kind": "Node", **made})
        items.append({"apiVersion": causes.DRA, "kind": "ResourceSlice", **slice_})
    world.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    arrivals.write_text("".join(json.dumps(line_of(number, pod)) + "\n" for number, pod in enumerate(trace())))
    files = ("-f", str(world), "--arrivals", str(arrivals))
    given = ("simulate", *files, "--once", "--placement", placement, "-o", "json")
    result = CliRunner().invoke(cli, given)
    assert result.exit_code in (0, 1), result.output
    return {
        one["name"]: (one["node"] or "", sorted(device["device"] for device in one["devices"]))
        for one in json.loads(result.stdout)["pods"]
    }


@pytest.mark.parametrize("placement", ["firstFit", "fragmentation"])
def test_the_command_and_the_core_give_the_same_pods_the_same_devices(placement: str, tmp_path: Path) -> None:
    of_the_core = by_the_core(placement)
    assert {node == "" for node, _ in of_the_core.values()} == {True, False}, "some are placed, some are not"
    assert by_the_command(placement, tmp_path) == of_the_core
