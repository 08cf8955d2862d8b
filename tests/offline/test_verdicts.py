"""`simulate` says what the scheduler of a cluster does: the same objects, asked of both, for every cause we know."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from click.testing import CliRunner

from scheduler.app import SchedulerApp
from scheduler.cli.pod_devices import verdict_of
from scheduler.cli.simulate import simulate
from scheduler.config import Config
from scheduler.embedded.cluster import EmbeddedCluster
from scheduler.embedded.server.statuses import ApiError
from scheduler.framework.diagnosis import SEPARATOR
from scheduler.kube.credentials import Connection
from scheduler.model.pod_claims import claim_names
from tests.offline.causes import CAUSES, Cause
from tests.patience import PATIENCE_S

Said = Mapping[str, Any]
_AT_ONCE = 8  # clusters, on a machine with few processors


def _key(cause: Cause) -> tuple[str, str]:
    asked = next(obj for obj in cause.objects if obj["kind"] == "Pod" and obj["metadata"]["name"] == "asked")
    return asked["metadata"]["namespace"], "asked"


def _dump(cluster: EmbeddedCluster) -> str:
    """Everything, as `kubectl get -o json` prints it."""
    items = []
    for kind in cluster.api.registry.kinds:
        if not kind.storage:
            stored = cluster.api.store.listed(kind.kind_id)
            items += [{"apiVersion": kind.api_version, "kind": kind.kind, **one.copy()} for one in stored]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


async def _cluster_says(cause: Cause) -> tuple[Said, str]:
    """The verdict of the scheduler in an embedded cluster, and the dump from before it started."""
    async with EmbeddedCluster(controllers=cause.needs_controllers) as cluster:
        await cluster.controllers_ready()
        try:
            await cause.build(cluster)
        except ApiError as error:
            return {"outcome": "refused", "node": None, "devices": [], "reason": error.message}, ""
        if cause.needs_controllers:
            await _claims_are_made(cluster, cause)
        dump = _dump(cluster)
        config = Config(health_port=None, feature_gates=dict(cause.gates))
        async with SchedulerApp(Connection(url=cluster.url), config):
            return await _verdict(cluster, cause), dump


async def _changes(cluster: EmbeddedCluster) -> asyncio.Event:
    event = asyncio.Event()
    for kind in ("pods", "events"):
        cluster.api.store.wake_on_change(kind, event.set)
    return event


async def _claims_are_made(cluster: EmbeddedCluster, cause: Cause) -> None:
    """Until the controller has told the pod its claims, or the user why there are none."""
    changed = await _changes(cluster)
    async with asyncio.timeout(PATIENCE_S):
        while True:
            changed.clear()
            pod = cluster.api.find("pods", *_key(cause)) or {}
            events = [one.obj for one in cluster.api.store.listed("events")]
            if (pod.get("status") or {}).get("resourceClaimStatuses") or any(
                event.get("reason") == "FailedResourceClaimCreation" for event in events
            ):
                return
            await changed.wait()


async def _verdict(cluster: EmbeddedCluster, cause: Cause) -> Said:
    changed = await _changes(cluster)
    has_own_node = any(obj["kind"] == "Pod" and obj["spec"].get("nodeName") for obj in cause.objects[-1:])
    async with asyncio.timeout(PATIENCE_S):
        while True:
            changed.clear()
            pod = cluster.api.find("pods", *_key(cause))
            assert pod is not None
            notes = [
                (event["reason"], event["message"])
                for event in (one.obj for one in cluster.api.store.listed("events"))
                if event["involvedObject"].get("uid") == pod["metadata"]["uid"]
            ]
            if has_own_node:  # the cluster says nothing about it
                return {"outcome": "unschedulable", "node": pod["spec"]["nodeName"], "reason": ""}
            verdict = verdict_of(pod, notes)
            if verdict:
                return _said(cluster, pod, verdict, notes)
            await changed.wait()


def _said(cluster: EmbeddedCluster, pod: Mapping[str, Any], verdict: str, notes: list[tuple[str, str]]) -> Said:
    outcomes = {
        "does not fit now": "unschedulable",
        "failed": "error",
        "is gated": "gated",
        "waits for its driver": "waits",
    }
    conditions = {one["type"]: one for one in (pod.get("status") or {}).get("conditions") or ()}
    text = conditions.get("PodScheduled", {}).get("message")
    if verdict == "waits for its driver":
        text = next(note for reason, note in notes if reason == "BindingConditionsPending")
    devices = []
    for name in claim_names(pod):
        claim = cluster.api.find("resourceclaims.resource.k8s.io", pod["metadata"]["namespace"], name) or {}
        allocation = (claim.get("status") or {}).get("allocation") or {"devices": {}}
        devices += [(one["pool"], one["device"]) for one in allocation["devices"].get("results", ())]
    return {
        "outcome": outcomes.get(verdict, "fits"),
        "node": pod["spec"].get("nodeName"),
        "devices": devices,
        "reason": text,
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def said_by_cluster() -> dict[str, tuple[Said, str]]:
    """All causes in clusters of their own, several at once: some verdicts take the scheduler five seconds."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(cause: Cause) -> tuple[Said, str]:
        async with turns:
            return await _cluster_says(cause)

    verdicts = await asyncio.gather(*map(one, CAUSES))
    return dict(zip((cause.name for cause in CAUSES), verdicts, strict=True))


def _simulate_says(text: str, cause: Cause, path: Path) -> Said:
    path.write_text(text, encoding="utf-8")
    gates = ",".join(f"{gate}={str(is_on).lower()}" for gate, is_on in cause.gates.items())
    result = CliRunner().invoke(simulate, [str(path), "-o", "json", "--feature-gates", gates])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    (row,) = [row for row in json.loads(result.stdout)["pods"] if (row["namespace"], row["name"]) == _key(cause)]
    assert (result.exit_code == 0) == (row["outcome"] in ("fits", "waits")) or result.exit_code == 1
    said: Said = row
    return said


def _same(reason: str | None) -> str:
    """The text without what differs between two runs: suffixes of generated names, uids; and the causes, said later."""
    text = (reason or "").partition(SEPARATOR)[0]
    return re.sub(r"(asked-gpu)-[a-z0-9]{5}\b|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", r"\1", text)


def _compare(said: Said, theirs: Said) -> None:
    assert said["outcome"] == theirs["outcome"], (said, theirs)
    if theirs["outcome"] == "fits":
        assert said["node"] == theirs["node"]
    if theirs["outcome"] in ("fits", "waits"):
        assert [(one["pool"], one["device"]) for one in said["devices"]] == theirs["devices"]
    if theirs["outcome"] in ("unschedulable", "error", "waits"):
        # A template's problem is told by an event in the cluster, and beside the condition's text here.
        assert _same(said["reason"]).startswith(_same(theirs["reason"]))
    if theirs["outcome"] == "refused":
        assert theirs["reason"] in said["reason"]


def test_there_are_many_causes() -> None:
    assert len({cause.name for cause in CAUSES}) == len(CAUSES) >= 60
    assert sum(cause.want not in ("fits", "waits") for cause in CAUSES) >= 45


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.name)
async def test_simulate_says_what_the_clusters_scheduler_does(
    cause: Cause, said_by_cluster: dict[str, tuple[Said, str]], tmp_path: Path
) -> None:
    theirs, dump = said_by_cluster[cause.name]
    assert theirs["outcome"] == cause.want, theirs

    if dump:
        _compare(_simulate_says(dump, cause, tmp_path / "dump.json"), theirs)
    if not (cause.deleted or cause.has_history):
        manifests = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(cause.objects)})
        _compare(_simulate_says(manifests, cause, tmp_path / "manifests.json"), theirs)
