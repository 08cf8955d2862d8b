"""Each plugin sees the supposed cluster: with the victim gone it passes, and asked again it refuses as before."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from scheduler.core.trying.dry_run import without
from scheduler.framework.cycle import Cycle
from scheduler.framework.preemption import Trial
from scheduler.model.keys import NodeName, PodKey
from scheduler.plugins import default_plugins
from tests import builders, storage_builders
from tests.core.rig import Rig

ZONE = "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
APART = {"podAntiAffinity": {REQUIRED: [{"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "victim"}}}]}}
REFUSING = {"podAntiAffinity": {REQUIRED: [{"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "pod"}}}]}}
SPREAD = [
    {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["victim", "pod"]}]},
    }
]


def named(claim: str) -> dict[str, Any]:
    return {"name": claim, "persistentVolumeClaim": {"claimName": claim}}


def with_port(number: int) -> dict[str, Any]:
    return {
        "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": number, "hostPort": number}]}],
    }


DISK = {"name": "disk", "awsElasticBlockStore": {"volumeID": "v"}}


class Case(NamedTuple):
    """What the victim on node `a` has, what the pod wants, and which plugin refuses."""

    victim: dict[str, Any]
    pod: dict[str, Any]
    plugin: str


CASES = {
    "cpu": Case({"requests": {"cpu": "2"}}, {"requests": {"cpu": "2"}}, "NodeResourcesFit"),
    "host port": Case(with_port(80), with_port(80), "NodePorts"),
    "disk": Case({"volumes": [DISK]}, {"volumes": [DISK]}, "VolumeRestrictions"),
    "claim for one pod": Case({"volumes": [named("one")]}, {"volumes": [named("one")]}, "VolumeRestrictions"),
    "volume limit": Case({"volumes": [named("c1")]}, {"volumes": [named("c2")]}, "NodeVolumeLimits"),
    "the pod keeps away": Case({}, {"affinity": APART}, "InterPodAffinity"),
    "the victim keeps away": Case({"affinity": REFUSING}, {}, "InterPodAffinity"),
    "spread": Case({}, {"topologySpreadConstraints": SPREAD}, "PodTopologySpread"),
}


def world(**victim: Any) -> Rig:
    rig = Rig(*default_plugins())
    for name in "ab":
        rig.add_nodes(name, labels={ZONE: f"zone-{name}"}, allocatable={"cpu": "2", "memory": "8Gi", "pods": "9"})
    rig.server.put_storage(storage_builders.storage_class())
    for name, mode in (("one", "ReadWriteOncePod"), ("c1", "ReadWriteOnce"), ("c2", "ReadWriteOnce")):
        volume = f"volume-{name}"
        claim = storage_builders.volume_claim(name, volume_name=volume, spec={"accessModes": [mode]})
        rig.server.put_storage(claim)
        rig.server.put_storage(storage_builders.volume(volume, claim=f"default/{name}", claim_uid=claim.metadata.uid))
    rig.server.put_storage(storage_builders.csi_node("a", {"csi.example.com": 1}))
    rig.add_pod("victim", node="a", labels={"app": "victim"}, **victim)
    rig.settle()
    return rig


def dry_run(rig: Rig, *removed: str, **pod: Any) -> Trial:
    machine = rig.machine
    asking = builders.pod("pod", labels={"app": "pod"}, **pod)
    cycle = Cycle(asking, rig.now_ms)
    uids = [rig.server.pods[PodKey("default", name)].uid for name in removed]
    info = machine.store.node_infos[NodeName("a")]
    return without(machine.ground, machine.runners[builders.SCHEDULER], cycle, info, uids)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_pod_that_is_supposed_to_be_gone_is_gone_for_the_plugin(case):
    rig = world(**case.victim)
    refused = dry_run(rig, **case.pod)
    assert (refused.status.plugin, refused.status.is_rejection) == (case.plugin, True)
    assert dry_run(rig, "victim", **case.pod).status.is_success
    assert dry_run(rig, **case.pod) == refused, "nothing of it is left"
    rig.machine.check_invariants()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_nominated_pod_is_there_for_the_plugin(case):
    rig = world()
    rig.server.delete_pod(PodKey("default", "victim"))
    rig.add_pod("first", nominated="a", priority=9, labels={"app": "victim"}, scheduler="another", **case.victim)
    rig.settle()
    refused = dry_run(rig, **case.pod).status
    if case.plugin == "VolumeRestrictions" and case.victim["volumes"] != [DISK]:
        assert refused.is_success, "upstream's PreFilter skips the plugin while nobody on a node has the claim"
    else:
        assert refused.plugin == case.plugin


def test_a_claim_for_one_pod_is_one_use_whoever_has_it():
    """As upstream counts: one of two users gone frees it, and two gone from one claim free another one as well."""
    rig = world(volumes=[named("one")])
    rig.add_pod("second", node="a", volumes=[named("one")])
    rig.add_pod("elsewhere", node="b", volumes=[named("one")])
    rig.settle()
    assert dry_run(rig, volumes=[named("one")]).status.plugin == "VolumeRestrictions"
    assert dry_run(rig, "second", volumes=[named("one")]).status.is_success
    claim = storage_builders.volume_claim("two", volume_name="volume-2", spec={"accessModes": ["ReadWriteOncePod"]})
    rig.server.put_storage(claim)
    rig.server.put_storage(storage_builders.volume("volume-2", claim="default/two", claim_uid=claim.metadata.uid))
    rig.add_pod("other", node="b", volumes=[named("two")])
    rig.settle()
    both = [named("one"), named("two")]
    assert dry_run(rig, "second", volumes=both).status.plugin == "VolumeRestrictions"
    assert dry_run(rig, "second", "victim", volumes=both).status.plugin != "VolumeRestrictions"


def test_a_claim_of_that_name_in_another_namespace_is_another():
    rig = world(volumes=[named("one")])
    rig.server.put_pod(builders.pod("stranger", namespace="other", node="a", volumes=[named("one")]))
    rig.settle()
    machine = rig.machine
    cycle = Cycle(builders.pod("pod", volumes=[named("one")]), rig.now_ms)
    stranger = rig.server.pods[PodKey("other", "stranger")].uid
    info = machine.store.node_infos[NodeName("a")]
    trial = without(machine.ground, machine.runners[builders.SCHEDULER], cycle, info, [stranger])
    assert trial.status.plugin == "VolumeRestrictions"
