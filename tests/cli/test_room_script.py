"""The script that carries out a plan to make room: it is one, it stops where a step fails, and opens the node again.

With a kubectl that only says what it was told, and with the real one on a cluster like that of `demo --serve`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scheduler.app import SchedulerApp
from scheduler.config import Config, LeaderElection
from scheduler.embedded.cluster import EmbeddedCluster
from scheduler.kube.credentials import Connection
from scheduler.offline.making_room import Room
from scheduler.offline.moving import Move, Outcome
from scheduler.offline.room_plan import commands
from tests.offline.causes import pod, template
from tests.offline.test_making_room import NODES, Obj, big, count_of, fleet, plan, run, runs
from tests.patience import PATIENCE_S

KUBECTL = r"""#!/usr/bin/env bash
printf '%s\n' "kubectl $*" >> "$LOG"
case "$*" in *"$FAILS"*) [ -n "$FAILS" ] && exit 1 ;; esac
case "$*" in
  "get pod -n"*) printf '%s' "$POD" ;;
  "get pods -n"*) printf '%s\n' uid uid other ;;
esac
"""


def world(**of_pod: Any) -> list[Obj]:
    return [*fleet(*NODES), *runs("a", "node-1", 0, **of_pod), *runs("b", "node-2", 0, 1)]


def script(folder: Path, objects: list[Obj]) -> list[str]:
    lines: list[str] = plan(folder, objects, big(4))["commands"]
    assert lines[0] == "#!/usr/bin/env bash"
    return lines


def carried_out(folder: Path, lines: list[str], *, fails: str = "", pod: str = "node-1 uid") -> tuple[int, list[str]]:
    """Exit code, and the first words of what kubectl was told, that only asked left out."""
    kubectl, log = folder / "kubectl", folder / "log"
    kubectl.write_text(KUBECTL)
    kubectl.chmod(0o755)
    log.write_text("")
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "LOG": str(log), "FAILS": fails, "POD": pod}
    done = subprocess.run(
        ["bash"], input="\n".join(lines), env=environment, text=True, capture_output=True, check=False
    )
    told = [line.removeprefix("kubectl ") for line in log.read_text().splitlines()]
    return done.returncode, [" ".join(line.split()[:2]) for line in told if not line.startswith("get")]


def test_each_step_is_done_when_the_one_before_is(tmp_path: Path) -> None:
    lines = script(tmp_path, world())
    code, told = carried_out(tmp_path, lines)
    moved = ["cordon node-1", "create --raw", "wait --for=delete", "uncordon node-1"]
    assert (code, told) == (0, [*moved, "apply -f", "wait --for=condition=PodScheduled"])
    printed = run(tmp_path, world(), big(4)).output
    assert "\n".join(lines) in printed


@pytest.mark.parametrize(
    ("fails", "told"),
    [
        ("cordon node-1", ["cordon node-1", "uncordon node-1"]),
        ("get pod -n", ["cordon node-1", "uncordon node-1"]),
        ("get pods -n", ["cordon node-1", "uncordon node-1"]),
        ("create --raw", ["cordon node-1", "create --raw", "uncordon node-1"]),
        ("--for=delete", ["cordon node-1", "create --raw", "wait --for=delete", "uncordon node-1"]),
    ],
)
def test_a_step_that_fails_is_the_last_and_the_node_is_opened(tmp_path: Path, fails: str, told: list[str]) -> None:
    code, found = carried_out(tmp_path, script(tmp_path, world()), fails=fails)
    assert (code, found) == (1, told)


@pytest.mark.parametrize("pod", ["node-2 uid", "node-1 ", " uid"])
def test_a_pod_that_moved_meanwhile_or_that_nobody_makes_again_is_not_evicted(tmp_path: Path, pod: str) -> None:
    code, found = carried_out(tmp_path, script(tmp_path, world()), pod=pod)
    assert (code, found) == (1, ["cordon node-1", "uncordon node-1"])


def test_a_warning_comes_before_a_jobs_pod_is_evicted(tmp_path: Path) -> None:
    objects = world(kind="Job")
    (warning,) = plan(tmp_path, objects, big(4))["warnings"]
    assert warning.startswith("default/a is a pod of Job owner: what it has done so far is lost")
    lines = script(tmp_path, objects)
    assert next(i for i, one in enumerate(lines) if warning in one) < next(
        i for i, one in enumerate(lines) if "eviction" in one
    )
    assert f"warning: {warning}\n" in run(tmp_path, objects, big(4)).output
    assert plan(tmp_path, world(), big(4))["warnings"] == []


def test_a_name_is_never_a_command(tmp_path: Path) -> None:
    """A dump is somebody's file: its names are not those that an API server would take."""
    name = 'a\'; touch "$LOG.owned" #\ntouch $LOG.owned\n`touch $LOG.owned`'
    move = Move(name, name, name, name, [], [], ("Job", name), (name,))
    room = Room(outcome=Outcome.PLAN, pod=(name, name), moves_max=3, steps=[[move]], cordoned=name)
    code, told = carried_out(tmp_path, commands(room, name), pod=f"{name} uid")
    assert code == 0
    assert "create --raw" in told
    assert not (tmp_path / "log.owned").exists()


# -- on a cluster -----------------------------------------------------------------------------------

DUMPED = "nodes,namespaces,resourceslices,deviceclasses,resourceclaims,resourceclaimtemplates,pods"


def deployment(replicas: int) -> Obj:
    """Its pods keep apart where they can, each with a device."""
    labels = {"matchLabels": {"app": "web"}}
    term = {"weight": 100, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": labels}}
    spec = pod(
        "template:gpu", affinity={"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    )
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": labels,
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec["spec"]},
        },
    }


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")
@pytest.mark.parametrize("is_drained", [False, True], ids=["room", "drain"])
async def test_it_does_on_a_cluster_what_the_plan_says(tmp_path: Path, is_drained: bool) -> None:
    from tests.offline.test_draining import drained  # which imports from here

    async with EmbeddedCluster(token="as-in-the-demo") as cluster:
        environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig_path), "HOME": str(tmp_path)}

        async def told(*command: str) -> str:
            pipe = asyncio.subprocess.PIPE
            process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=pipe, stderr=pipe)
            async with asyncio.timeout(PATIENCE_S):
                output, errors = await process.communicate()
            assert process.returncode == 0, (command, output, errors)
            return output.decode()

        connection = Connection(kubeconfig=cluster.kubeconfig_path)
        config = Config(health_port=None, leader_election=LeaderElection(leader_elect=False))
        await cluster.apply([*fleet(*NODES), template(count_of(1)), deployment(2)])
        async with SchedulerApp(connection, config) as app:
            await app.synced()
            available = ("--for=jsonpath={.status.readyReplicas}=2", "deployment/web", f"--timeout={PATIENCE_S:.0f}s")
            await told("kubectl", "wait", *available)
            dump = json.loads(await told("kubectl", "get", DUMPED, "-A", "-o", "json"))
            found = drained(tmp_path, dump["items"]) if is_drained else plan(tmp_path, dump["items"], big(4))
            moves = found["holders"] if is_drained else found["moves"]
            assert [move["controller"].split("/")[0] for move in moves] == ["ReplicaSet"]
            (tmp_path / "asked.json").write_text("\n".join(map(json.dumps, big(4))))
            (tmp_path / "plan.sh").write_text("\n".join(found["commands"]))
            await told("bash", str(tmp_path / "plan.sh"))
            pods = json.loads(await told("kubectl", "get", "pods", "-o", "json"))["items"]
            nodes = sorted((one["metadata"]["name"].split("-")[0], one["spec"]["nodeName"]) for one in pods)
            if is_drained:
                claims = json.loads(await told("kubectl", "get", "resourceclaims", "-o", "json"))["items"]
                given = [one["status"]["allocation"]["devices"]["results"][0] for one in claims]
                assert ("node-1", "gpu-0") not in {(one["pool"], one["device"]) for one in given}
                assert (len(nodes), moves[0]["given"][0]["device"] in {one["device"] for one in given}) == (2, True)
            else:
                assert nodes == [("big", found["pod"]["node"]), ("web", moves[0]["to"]), ("web", moves[0]["to"])]
            assert "SchedulingDisabled" not in await told("kubectl", "get", "nodes")
