"""Each planted cause: the live scheduler's event, `explain` asked of the API server, and `explain -f` on lists name it.

The cluster is the embedded one, the scheduler the whole app, the lists are as `kubectl get -o yaml` prints them.
"""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from click.testing import CliRunner

from scheduler.app import SchedulerApp
from scheduler.cli.explain import explain
from scheduler.config import Config, LeaderElection
from scheduler.embedded.cluster import EmbeddedCluster
from scheduler.embedded.kinds.catalog import POD
from scheduler.framework.blame import TO_MAKE_IT_FIT, cause_of
from scheduler.kube.credentials import Connection
from tests.explain.test_explaining import OTHERWISE, PLANTED
from tests.offline.causes import CAUSES, Obj

SMALL = {cause.name: cause for cause in CAUSES}
# Of the clusters of `tests.offline.causes`: words of the first line and of the second.
WORDS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "node-selector": (["the label zone=a", "nodeSelector of pod default/asked"], ["drop zone: a"]),
    "node-affinity": (["required nodeAffinity of pod default/asked"], ["relax the required nodeAffinity"]),
    "memory": (["memory 17Gi", "more than 16Gi free"], ["memory 16Gi instead of 17Gi in container main"]),
    "cpu-of-running-pods": (["cpu 100m", "more than 50m free"], ["cpu 50m instead of 100m"]),
    "limits-count-as-requests": (["cpu 9", "more than 8 free"], ["cpu 8 instead of 9"]),
    "too-many-pods": (["pod default/runs (priority 0)", "node-1"], ["end pod default/runs"]),
    "resource-nobody-has": (["node node-1 has 0 example.com/tpu free", "asks for 1"], ["no change is known"]),
    "node-without-devices": (["node node-2", "claim default/gpu", "wants 1 of 0 devices"], ["no change is known"]),
    "each-node-for-another-reason": (["cpu 9", "more than 8 free"], ["cpu 8 instead of 9"]),
    "claim-full": (["ResourceClaim default/gpu is full: 256 pods"], ["a claim of its own"]),
    "claim-pinned-to-a-cordoned-node": (["node node-1 is cordoned"], ["kubectl uncordon node-1"]),
    "claim-pinned-elsewhere": (["kubernetes.io/hostname=node-2"], ["drop kubernetes.io/hostname: node-2"]),
    "second-claim-does-not-fit": (
        ["claim default/other, request gpu", "1 not matched by the request's selectors"],
        ["the only change that is known here, and was tried, does not make it fit"],
    ),
    "two-claims-one-device": (["node-1 has enough devices for each request, and not for all"], ["no change is known"]),
    "class-missing": (["names DeviceClass gpu.example.com, which does not exist"], ["no change is known"]),
    "class-selector-false": (["DeviceClass gpu.example.com: the selector `device.driver == 'x'`"], ["drop or relax"]),
    "selector-false": (["equal to the string 'H100'; 1 have 'A100'"], ["write 'A100'"]),
    "cel-error": (["request gpu of ResourceClaim default/gpu", "fails", "no such key: nothing"], ["drop or relax"]),
    "cel-error-in-the-class": (["DeviceClass gpu.example.com", "fails", "no such key: nothing"], ["drop or relax"]),
    "all-mode-with-one-in-use": (["gpu-0 is in use by ResourceClaim default/theirs (pod runs"], ["end pod runs"]),
    "capacity-too-small": (["memory.isGreaterThan(quantity('100Gi'))", "leaves no device"], ["drop or relax"]),
    "shared-capacity-too-small": (["memory 81Gi", "that much left"], ["memory 80Gi instead of 81Gi"]),
    "shared-capacity-consumed": (["memory 40Gi", "that much left"], ["memory 30Gi instead of 40Gi"]),
    "counters": (["part-0 is in use by ResourceClaim default/theirs (pod runs"], ["end pod runs"]),
    "match-attribute": (["asks for 2 devices", "at most 1 that it could have together"], ["ask for 1 device"]),
    "distinct-attribute": (["asks for 2 devices", "at most 1 that it could have together"], ["ask for 1 device"]),
    "incomplete-pool": (["pool gpu.example.com/node-1 is incomplete", "1 of 2 ResourceSlices"], ["the 1 missing"]),
    "older-generation": (["ResourceSlice slice-node-1", "older generation: 2 counts"], ["again in generation 2"]),
    "pool-with-a-name-twice": (["gpu.example.com/node-1 is invalid: duplicate device name"], ["no change is known"]),
    "slice-for-other-nodes": (["node node-1", "wants 1 of 0 devices"], ["no change is known"]),
    "device-taint": (["device node-1/gpu-0 has the taint example.com/hot:NoSchedule"], ["key: example.com/hot"]),
    "device-taint-rule": (["DeviceTaintRule rule", "example.com/broken:NoSchedule"], ["key: example.com/broken"]),
    "extended-resource-in-use": (["gpu-0 is in use by ResourceClaim default/theirs (pod runs"], ["end pod runs"]),
    "pod-anti-affinity": (["required podAntiAffinity of pod default/asked"], ["relax the required podAntiAffinity"]),
    "binding-conditions": (["has not set the binding condition example.com/ready"], ["must set the condition"]),
}
ROWS = {name: (objects, first, second) for name, objects, first, second in (*PLANTED, *OTHERWISE)}
ROWS |= {f"small: {name}": (SMALL[name].objects, *words) for name, words in WORDS.items()}
REFUSED = ("admin-label",)
"""No API server stores such a claim, so only files can hold it."""
UNHEARD = ("gate-and-selector", "two-gates", "scheduler-typo", "scheduler-typo-of-another")
"""No scheduler looks at these pods: there is no event."""
SENTENCE_ONLY = ("small: cel-error", "small: cel-error-in-the-class", "small: binding-conditions")
"""Kube-scheduler's sentence says it: which selector fails and how, for which conditions a pod on its way waits."""
AGE = re.compile(r"age \w+")

# Where the event's words differ from those of `explain`: it looks at a few nodes, sees claims instead of templates, no
# other namespace and no class as it would be. Words of the cause, words of the change.
IN_EVENTS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "class-typo-in-template": (["(made from template gpu)", "does not exist"], ["deviceClassName: gpu.example.com"]),
    "template-typo": (["no ResourceClaim has been made from ResourceClaimTemplate default/gpuu"], []),
    "attribute-typo": (["no device of node node-1 has attributes gpu.example.com/modle", "1 have"], ["write model"]),
    "attribute-typo-in-class": (["DeviceClass gpu.example.com", "modell", "1 have gpu.example.com/model"], []),
    "driver-typo": (["has the driver gpu.exmaple.com", "gpu.example.com publishes 1"], ["write gpu.example.com"]),
    "cpu": (["node node-1 has 8 cpu free", "asks for 9"], ["cpu 8 instead of 9 in container main"]),
    "held": (
        ["gpu-0 is in use by ResourceClaim default/theirs", "default/runs (priority 0)"],
        ["end pod default/runs"],
    ),
    "taint-and-count": (["example.com/only", "and then", "at most 2"], ["toleration", "; then ask for 2 devices"]),
    "class-and-cordon": (["gpu.exmaple.com", "and then", "cordoned"], ["; then kubectl uncordon node-1"]),
    "memory-of-two-containers": (["node node-1 has 16Gi memory free", "asks for 20Gi"], ["6Gi instead of 10Gi"]),
    "count-in-template": (["(made from template gpu) asks for 4 devices", "at most 2"], ["2 devices instead of 4"]),
    "held-by-somebody-more-important": (
        ["in use by ResourceClaim default/theirs", "priority 1000"],
        ["end pod default/runs (priority 1000)"],
    ),
    "device-taint-no-execute": (
        ["device node-1/gpu-0 has the taint example.com/hot=yes:NoExecute", "(made from template gpu)"],
        ["key: example.com/hot"],
    ),
    "string-for-version-in-class": (["DeviceClass gpu.example.com", "is a version", "with a string"], []),
    "node-selector-of-a-node-without-devices": (
        ["no node that would do has the label kubernetes.io/hostname=node-1"],
        ["drop kubernetes.io/hostname: node-1"],
    ),
    "host-port": (["pod default/runs (priority 0) has the host port 80/TCP of node node-1"], ["end pod default/runs"]),
    "driver-of-class": (["has the driver gpu.example.com", "gpu.other.com publishes 1"], []),
    "claim-of-another-namespace": (["ResourceClaim default/gpu", "does not exist"], []),
    "small: too-many-pods": (["room for 1 pods, and has 1: pod default/runs (priority 0)"], ["end pod default/runs"]),
    "small: memory": (["node node-1 has 16Gi memory free", "asks for 17Gi"], ["memory 16Gi instead of 17Gi"]),
    "small: cpu-of-running-pods": (["node node-1 has 50m cpu free", "asks for 100m"], ["cpu 50m instead of 100m"]),
    "small: limits-count-as-requests": (["node node-1 has 8 cpu free", "asks for 9"], ["cpu 8 instead of 9"]),
    "small: each-node-for-another-reason": (["node node-1 has 8 cpu free", "asks for 9"], ["cpu 8 instead of 9"]),
    "small: class-selector-false": (["node-1: claim default/gpu, request gpu", "1 not of the device class"], []),
    "small: all-mode-with-one-in-use": (["claim default/gpu, request gpu wants all of 2 devices: 1 in use"], []),
    "small: counters": (["1 in use", "1 without counters left in their pool"], []),
    "small: incomplete-pool": (["pool gpu.example.com/node-1 is incomplete"], []),
    "small: older-generation": (["node node-1", "wants 1 of 0 devices"], []),
    "small: device-taint-rule": (
        ["device node-1/gpu-0 has the taint example.com/broken:NoSchedule"],
        ["example.com/broken"],
    ),
    "small: extended-resource-in-use": (["wants 1 of 1 devices: 1 in use"], []),
    "template-of-another-namespace": (["no ResourceClaim has been made from ResourceClaimTemplate default/gpu"], []),
}


FROM_TEMPLATES = {
    "class-typo-in-template": ["(made from template gpu) names DeviceClass gpu, which does not exist"],
    "count-in-template": ["(made from template gpu) asks for 4 devices", "at most 2"],
    "device-taint-no-execute": ["device node-1/gpu-0 has the taint", "(made from template gpu) does not tolerate"],
}
"""First lines once the claim is made: in a file there is only the template."""


async def store(cluster: EmbeddedCluster, objects: Sequence[Obj]) -> None:
    """Create them; the server gives pods their uids, and claims are reserved for these."""
    uids: dict[str, str] = {}
    for given in objects:
        obj = copy.deepcopy(given)
        obj["metadata"].pop("resourceVersion", None)
        uid = obj["metadata"].pop("uid", "")
        for user in obj.get("status", {}).get("reservedFor") or ():
            user["uid"] = uids.get(user["uid"], user["uid"])
        await cluster.apply([obj])
        if uid and obj["kind"] == "Pod":
            stored = cluster.api.find(POD.kind_id, obj["metadata"]["namespace"], obj["metadata"]["name"])
            uids[uid] = stored["metadata"]["uid"]


async def notes(cluster: EmbeddedCluster) -> list[str]:
    """Of the events of the pod `asked`, oldest first."""
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    async with aiohttp.ClientSession() as session, session.get(cluster.url + path) as response:
        events = (await response.json())["items"]
    return [event["note"] for event in events if event["regarding"]["name"] == "asked"]


async def heard(cluster: EmbeddedCluster, *, wants_cause: bool) -> str:
    """The cause in the newest event of the pod `asked` that has one; "" once it has any, where none is wanted."""
    async with asyncio.timeout(30):
        while True:
            said = await notes(cluster)
            causes = [cause for cause in map(cause_of, said) if cause]
            if causes if wants_cause else said:
                return causes[-1] if wants_cause else ""
            await asyncio.sleep(0.05)


async def listed(cluster: EmbeddedCluster, path: Path) -> None:
    """All that is stored, in one list as kubectl prints it."""
    registry = cluster.api.registry
    items: list[dict[str, Any]] = []
    for kind in registry.kinds:
        if kind.kind not in ("Event", "Lease"):
            head = {"apiVersion": kind.api_version, "kind": kind.kind}
            items += [{**head, **obj} for obj in cluster.api.listed(kind.kind_id)]
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))


def two_lines(*arguments: str) -> list[str]:
    """The first two lines, without ages: a moment passes between two questions."""
    result = CliRunner().invoke(explain, ["pod/asked", *arguments])
    assert result.exit_code == 1, result.output
    return AGE.sub("age", result.stdout).splitlines()[:2]


def lacking(words: Sequence[str], text: str) -> list[str]:
    return [word for word in words if word not in text]


@pytest.mark.parametrize("name", [name for name in ROWS if name not in REFUSED])
async def test_the_cause_is_named_in_the_event_and_by_explain_online_and_on_lists(name: str, tmp_path: Path) -> None:
    objects, first, second = ROWS[name]
    has_event = name not in (*UNHEARD, *SENTENCE_ONLY)
    has_templates = any(obj["kind"] == "ResourceClaimTemplate" for obj in objects)
    settings = Config(health_port=None, leader_election=LeaderElection(leader_elect=False))
    namespaces = {obj["metadata"].get("namespace", "default") for obj in objects} - {"default"}
    async with EmbeddedCluster(controllers=has_templates) as cluster:
        await cluster.apply(
            [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": one}} for one in namespaces]
        )
        await store(cluster, [obj for obj in objects if obj["metadata"]["name"] != "asked"])
        async with SchedulerApp(Connection(url=cluster.url), settings):
            await cluster.apply([obj for obj in objects if obj["metadata"]["name"] == "asked"])
            event = await heard(cluster, wants_cause=has_event) if name not in UNHEARD else ""
        source = "--kubeconfig", str(cluster.kubeconfig_path)
        online = await asyncio.to_thread(two_lines, *source)
        await listed(cluster, tmp_path / "lists.yaml")

    cause, _, change = event.partition(TO_MAKE_IT_FIT)
    helps = [] if second[0].startswith(("no change is known", "the only change")) else second
    in_cause, in_change = IN_EVENTS.get(name, (first, helps))
    if has_event:
        assert (lacking(in_cause, cause), lacking(in_change, change)) == ([], []), event
        assert bool(change) == bool(in_change), event
    first = FROM_TEMPLATES.get(name, first)
    assert (lacking(first, online[0]), lacking(second, online[1])) == ([], []), online
    assert two_lines("-f", str(tmp_path / "lists.yaml")) == online
