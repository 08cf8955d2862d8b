"""Each planted cause: the live scheduler's event, `explain` asked of the API server, and `explain -f` on lists name it.

Each run takes every fifth cause; `test_explaining` and `offline` judge all of them from files. The cluster is the
embedded one, the scheduler the whole app, the lists are as `kubectl get -o yaml` prints them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
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
from scheduler.framework.diagnosis import cause_of
from scheduler.kube.credentials import Connection
from scheduler.why.reasons import TO_MAKE_IT_FIT
from tests.explain.test_explaining import OTHERWISE, PLANTED
from tests.nightly import fifth
from tests.offline.causes import CAUSES, store

SMALL = {cause.name: cause for cause in CAUSES}
IN_USE = "device node-1/gpu-0 is in use by ResourceClaim default/theirs (pod default/runs (priority 0))"
ENDS = "end pod default/runs (priority 0), whose ResourceClaim is default/theirs"
# Of the clusters of `tests.offline.causes`: words of the first line and of the second.
WORDS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "node-selector": (["no node has the label zone", "nodeSelector of pod default/asked"], ["drop zone: a"]),
    "node-affinity": (["nodeAffinity of pod default/asked asks for"], ["relax the required nodeAffinity"]),
    "memory": (["node node-1 has 16Gi memory free", "asks for 17Gi"], ["memory 16Gi instead of 17Gi"]),
    "cpu-of-running-pods": (["node node-1 has 50m cpu free", "asks for 100m"], ["cpu 50m instead of 100m"]),
    "limits-count-as-requests": (["node node-1 has 8 cpu free", "asks for 9"], ["cpu 8 instead of 9"]),
    "too-many-pods": (["node node-1 has room for 1 pods, and has 1"], ["end pod default/runs"]),
    "resource-nobody-has": (["resource example.com/tpu", "no node has it"], ["no change"]),
    "node-without-devices": (
        ["ResourceSlice slice-node-1", "no Node has that name"],
        ["the driver publish these devices"],
    ),
    "each-node-for-another-reason": (["node node-1 has 8 cpu free", "asks for 9"], ["cpu 8 instead of 9"]),
    "claim-full": (["ResourceClaim default/gpu is full: 256 pods"], ["a claim of its own"]),
    "claim-pinned-to-a-cordoned-node": (["node node-1 is cordoned"], ["kubectl uncordon node-1"]),
    "claim-pinned-elsewhere": (
        ["kubernetes.io/hostname=node-2"],
        ["write kubernetes.io/hostname: node-1 instead of node-2"],
    ),
    "second-claim-does-not-fit": (["ResourceClaim default/other", "no device", "satisfies `false`"], ["no change"]),
    "two-claims-one-device": (["device node-1/gpu-0 is the only one on node node-1"], ["no change"]),
    "class-missing": (["names DeviceClass gpu.example.com, which does not exist"], ["no change is known"]),
    "class-selector-false": (["no device has the driver x"], ["install the driver x"]),
    "selector-false": (["equal to the string 'H100'; 1 have 'A100'"], ["write 'A100'"]),
    "cel-error": (
        ["request gpu: no device of its class has attributes gpu.example.com/nothing"],
        ["drop or relax", "request gpu of ResourceClaim default/gpu"],
    ),
    "cel-error-in-the-class": (
        ["DeviceClass gpu.example.com: no device has attributes gpu.example.com/nothing"],
        ["no change"],
    ),
    "all-mode-with-one-in-use": ([IN_USE, "request gpu asks for all 2"], [ENDS]),
    "capacity-too-small": (["no device", "gpu.example.com/memory is 80Gi"], ["drop or relax"]),
    "shared-capacity-too-small": (["device node-1/gpu-0 has memory 80Gi", "81Gi"], ["memory 80Gi instead of 81Gi"]),
    "shared-capacity-consumed": (
        ["device node-1/gpu-0 has memory 30Gi left of 80Gi, request gpu takes 40Gi", "pod default/runs (priority 0)"],
        ["memory 30Gi instead of 40Gi"],
    ),
    "counters": (
        ["counter set all has no room for device node-1/part-1 (memory 60Gi needed, 20Gi left)", "node-1/part-0"],
        [ENDS],
    ),
    "match-attribute": (["2 devices with the same gpu.example.com/index are needed"], ["ask for 1 device"]),
    "distinct-attribute": (["2 devices with different gpu.example.com/model are needed"], ["ask for 1 device"]),
    "incomplete-pool": (["pool gpu.example.com/node-1 is incomplete", "1 of 2 ResourceSlices"], ["the 1 missing"]),
    "older-generation": (["ResourceSlice slice-node-1", "older generation"], ["again in generation 2"]),
    "pool-with-a-name-twice": (
        ["pool gpu.example.com/node-1 has a device twice"],
        ["must publish pool gpu.example.com/node-1 anew"],
    ),
    "slice-for-other-nodes": (["node node-1 has no devices"], ["no change"]),
    "device-taint": (["device node-1/gpu-0 has the taint example.com/hot:NoSchedule"], ["key: example.com/hot"]),
    "device-taint-rule": (["DeviceTaintRule rule", "example.com/broken:NoSchedule"], ["key: example.com/broken"]),
    "extended-resource-in-use": ([IN_USE], [ENDS]),
    "pod-anti-affinity": (
        ["the podAntiAffinity of pod default/asked rules out"],
        ["relax the required podAntiAffinity"],
    ),
    "binding-conditions": (["waits for example.com/ready to be set"], ["must set example.com/ready"]),
}
ROWS = {name: (objects, first, second) for name, objects, first, second in (*PLANTED, *OTHERWISE)}
ROWS |= {f"small: {name}": (SMALL[name].objects, *words) for name, words in WORDS.items()}
REFUSED = ("admin-label",)
"""No API server stores such a claim, so only files can hold it."""
UNHEARD = ("gate-and-selector", "two-gates", "scheduler-typo", "scheduler-typo-of-another")
"""No scheduler looks at these pods: there is no event."""

# Where the event's words differ from those of `explain`: it names the claim and not the template that it was made from,
# and sees no other namespace and no template; a change is in words alone, without its command. Words of the cause,
# words of the change.
IN_EVENTS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "class-typo-in-template": (["(made from template gpu)", "does not exist"], ["deviceClassName: gpu.example.com"]),
    "template-typo": (["no ResourceClaim has been made from ResourceClaimTemplate default/gpuu"], []),
    "attribute-typo-in-class": (
        ["DeviceClass gpu.example.com: no device has attributes gpu.example.com/modell"],
        ["write model in the selector of DeviceClass gpu.example.com"],
    ),
    "claim-of-another-namespace": (["ResourceClaim default/gpu", "does not exist"], []),
    "small: binding-conditions": (
        ["ResourceClaim default/gpu waits for example.com/ready to be set: device gpu-0 of pool node-1"],
        ["the driver must set example.com/ready"],
    ),
    "small: device-taint-rule": (
        ["device node-1/gpu-0 has the taint example.com/broken:NoSchedule"],
        ["example.com/broken"],
    ),
    "template-of-another-namespace": (["no ResourceClaim has been made from ResourceClaimTemplate default/gpu"], []),
    "count-in-template": (["node node-1 has 2 devices"], ["2 devices instead of 4", "(made from template gpu)"]),
    "device-taint-no-execute": (
        ["device node-1/gpu-0 has the taint"],
        ["key: example.com/hot", "(made from template gpu)"],
    ),
}


async def notes(cluster: EmbeddedCluster) -> list[str]:
    """Of the events of the pod `asked`, oldest first."""
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    async with aiohttp.ClientSession() as session, session.get(cluster.url + path) as response:
        events = (await response.json())["items"]
    return [event["note"] for event in events if event["regarding"]["name"] == "asked"]


async def heard(cluster: EmbeddedCluster, words: Sequence[str], *, wants_cause: bool) -> str:
    """The cause in an event of the pod `asked` that has these words, else the newest; "" where none is wanted.

    Before its claim is made a pod is told that it is not.
    """
    said: list[str] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(30):
            while True:
                said = await notes(cluster)
                if said and not wants_cause:
                    return ""
                for cause in map(cause_of, said):
                    if cause and not lacking(words, cause):
                        return cause
                await asyncio.sleep(0.05)
    return next(filter(None, map(cause_of, reversed(said))), "")


async def listed(cluster: EmbeddedCluster, path: Path) -> None:
    """All that is stored, in one list as kubectl prints it."""
    registry = cluster.api.registry
    items: list[dict[str, Any]] = []
    for kind in registry.kinds:
        if kind.kind not in ("Event", "Lease"):
            head = {"apiVersion": kind.api_version, "kind": kind.kind}
            items += [{**head, **obj} for obj in cluster.api.listed(kind.kind_id)]
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))


def asked(*arguments: str) -> list[str]:
    """Cause, which is whole here, and advice."""
    result = CliRunner().invoke(explain, ["pod/asked", *arguments, "-o", "json"])
    assert result.exit_code == 1, result.output
    told = json.loads(result.stdout)
    return [f"{told['cause']} {told['verdict']}", told["advice"]]


def lacking(words: Sequence[str], text: str) -> list[str]:
    return [word for word in words if word not in text]


@pytest.mark.parametrize("name", fifth([name for name in ROWS if name not in REFUSED]))
async def test_the_cause_is_named_in_the_event_and_by_explain_online_and_on_lists(name: str, tmp_path: Path) -> None:
    objects, first, second = ROWS[name]
    has_event = name not in UNHEARD
    helps = [] if second[0].startswith("no change") else second
    in_cause, in_change = IN_EVENTS.get(name, (first, helps))
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
            event = await heard(cluster, in_cause, wants_cause=has_event) if name not in UNHEARD else ""
        source = "--kubeconfig", str(cluster.kubeconfig_path)
        online = await asyncio.to_thread(asked, *source)
        await listed(cluster, tmp_path / "lists.yaml")

    cause, _, change = event.partition(TO_MAKE_IT_FIT)
    if has_event:
        assert (lacking(in_cause, cause), lacking(in_change, change)) == ([], []), event
        assert bool(change) == bool(in_change), event
    assert (lacking(first, online[0]), lacking(second, online[1])) == ([], []), online
    assert asked("-f", str(tmp_path / "lists.yaml")) == online
