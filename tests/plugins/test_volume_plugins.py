"""VolumeBinding, VolumeRestrictions, VolumeZone and NodeVolumeLimits: what verdicts share, and what wakes whom.

Their verdicts are compared with kube-scheduler's in the recorded cases.
"""

from __future__ import annotations

import pytest

from scheduler.framework.api import Action, ClusterEvent, Hint, Resource
from scheduler.framework.status import Code
from scheduler.plugins.node_volume_limits import NodeVolumeLimits
from scheduler.plugins.volume_binding import VolumeBinding
from scheduler.plugins.volume_binding.pod_volumes import PodVolumes, volumes_of_pod
from scheduler.plugins.volume_binding.volume_matching import NodeVolumes, find_volumes
from scheduler.plugins.volume_restrictions import VolumeRestrictions
from scheduler.plugins.volume_zone import VolumeZone
from tests import storage_builders as storage
from tests.plugins.cluster import Cluster, cycle_of
from tests.plugins.objects import node, pod

DRIVER = "csi.example.com"
ZONE = "topology.kubernetes.io/zone"
PLUGINS = (VolumeRestrictions(), NodeVolumeLimits(), VolumeBinding(), VolumeZone())


def using(*claims, name="pod", **more):
    """A pod with a volume for each of these claims."""
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": claim}} for i, claim in enumerate(claims)]
    return pod(name, volumes=volumes, **more)


def with_disk(name="pod", *, read_only=False, **more):
    return pod(name, volumes=[{"name": "v", "gcePersistentDisk": {"pdName": "d", "readOnly": read_only}}], **more)


def cluster(*objects, nodes=("a",), pods=()):
    made = Cluster()
    for name in nodes:
        made.store.observe_node(node(name, labels={ZONE: f"zone-{name}"}))
    for one in objects:
        made.store.observe_storage(one)
    made.put_pods(*pods)
    return made


def signatures(made, one):
    """The shape of each plugin, None where it skips."""
    found = []
    for plugin in PLUGINS:
        cycle = cycle_of(one)
        status = plugin.pre_filter(cycle, made).status
        assert status.is_success or status.code is Code.SKIP, status
        signature = plugin.signature(cycle, made) if status.is_success else None
        hash(signature)
        found.append(signature)
    return found


def found_on(made, one, name="a"):
    wanted = volumes_of_pod(one, made)
    assert isinstance(wanted, PodVolumes), wanted
    return find_volumes(wanted, made.node_infos[name].node, made.storage.csi_node(name))


def chosen(made, one, name="a"):
    found = found_on(made, one, name)
    assert isinstance(found, NodeVolumes), found
    return {each.claim.name: each.volume.name for each in found.chosen}, [each.name for each in found.provisioned]


# What verdicts share


def test_pods_with_a_claim_each_share_verdicts_and_volumes_of_others_change_none() -> None:
    first, second = using("c1", name="p1"), using("c2", name="p2")
    made = cluster(
        storage.storage_class(),
        storage.volume_claim("c1"),
        storage.volume_claim("c2"),
        storage.csi_node("a", {DRIVER: 3}),
    )
    made.put_pods(first, second)
    before = signatures(made, second)
    assert before == signatures(made, first)
    made.store.observe_storage(storage.volume("made", claim="default/c1", phase="Available"))
    made.store.observe_storage(storage.volume("made", claim="default/c1", revision=10**6))
    assert signatures(made, second) == before
    made.store.observe_storage(storage.volume("free"))
    assert signatures(made, second) != before


@pytest.mark.parametrize(
    "other",
    [
        {"request": "2Gi"},
        {"spec": {"accessModes": ["ReadWriteMany"]}},
        {"spec": {"volumeMode": "Block"}},
        {"spec": {"selector": {"matchLabels": {"a": "b"}}}},
        {"annotations": {"volume.kubernetes.io/selected-node": "a"}},
        {"class_name": "other"},
    ],
    ids=str,
)
def test_claims_that_ask_for_something_else_do_not(other) -> None:
    made = cluster(
        storage.storage_class(),
        storage.storage_class("other"),
        storage.volume_claim("c1"),
        storage.volume_claim("c2", **other),
    )
    assert signatures(made, using("c1")) != signatures(made, using("c2"))


def test_volumes_of_equal_affinity_are_alike() -> None:
    made = cluster(
        *(storage.volume(f"v{i}", claim=f"default/c{i}", zone="x" if i < 2 else "y") for i in range(3)),
        *(storage.volume_claim(f"c{i}", volume_name=f"v{i}") for i in range(3)),
    )
    binding = [signatures(made, using(f"c{i}"))[2] for i in range(3)]
    assert binding[0] == binding[1] != binding[2]


# Which volume


def test_the_smallest_volume_that_fits_is_chosen_and_of_equal_ones_the_first_by_name() -> None:
    made = cluster(
        storage.storage_class(),
        *(
            storage.volume(name, capacity=size)
            for name, size in (("z", "2Gi"), ("y", "2Gi"), ("x", "3Gi"), ("w", "1Gi"))
        ),
        storage.volume_claim("large", request="2Gi"),
        storage.volume_claim("small", request="1Gi"),
    )
    assert chosen(made, using("large", "small")) == ({"small": "w", "large": "y"}, [])


def test_a_promised_volume_is_taken_first_and_if_it_is_elsewhere_no_other_is() -> None:
    made = cluster(
        storage.storage_class(provisioner="kubernetes.io/no-provisioner"),
        storage.volume("free"),
        storage.volume("promised", claim="default/c", phase="Available", zone="zone-a", capacity="5Gi"),
        storage.volume_claim("c"),
        nodes=("a", "b"),
    )
    assert chosen(made, using("c")) == ({"c": "promised"}, [])
    assert found_on(made, using("c"), "b").reasons == ("node(s) didn't find available persistent volumes to bind",)


def test_one_claim_in_two_volumes_takes_one_volume() -> None:
    made = cluster(storage.storage_class(), storage.volume("a"), storage.volume("b"), storage.volume_claim("c"))
    assert chosen(made, using("c", "c")) == ({"c": "a"}, [])


def test_a_claim_without_a_volume_is_provisioned_where_there_is_room() -> None:
    made = cluster(
        storage.storage_class(),
        storage.csi_driver(DRIVER),
        storage.capacity("here", "10Gi", nodeTopology={"matchLabels": {ZONE: "zone-a"}}),
        storage.volume_claim("c", request="10Gi"),
        nodes=("a", "b"),
    )
    assert chosen(made, using("c")) == ({}, ["c"])
    assert found_on(made, using("c"), "b").reasons == ("node(s) did not have enough free storage",)


# Limits


def limit_verdict(made, one):
    plugin, cycle = NodeVolumeLimits(), cycle_of(one)
    plugin.pre_filter(cycle, made)
    return plugin.filter(cycle, made.node_infos["a"], made).code


def test_a_claim_without_a_volume_counts_once_for_all_its_users() -> None:
    running, sharing, other = (
        using("c", name="running", nodeName="a"),
        using("c", name="sharing"),
        using("d", name="other"),
    )
    made = cluster(
        storage.storage_class(),
        storage.volume_claim("c"),
        storage.volume_claim("d"),
        storage.csi_node("a", {DRIVER: 1}),
    )
    made.put_pods(running, sharing, other)
    assert limit_verdict(made, sharing) is Code.SUCCESS
    assert limit_verdict(made, other) is Code.UNSCHEDULABLE
    assert signatures(made, sharing)[1] != signatures(made, other)[1]


# Hints

CLAIM, FOREIGN = storage.volume_claim("c"), storage.volume_claim("c", namespace="other")
BINDING, ZONES, LIMITS, RESTRICTIONS = VolumeBinding(), VolumeZone(), NodeVolumeLimits(), VolumeRestrictions()
TOPOLOGY = [{"matchLabelExpressions": [{"key": ZONE, "values": ["x"]}]}]
LABELLED = storage.volume("v", labels={ZONE: "x"})
PVC, PV, SC = Resource.PERSISTENT_VOLUME_CLAIM, Resource.PERSISTENT_VOLUME, Resource.STORAGE_CLASS
CSI, DRIVERS, CAPACITY = Resource.CSI_NODE, Resource.CSI_DRIVER, Resource.CSI_STORAGE_CAPACITY
LEFT, ATTACHED = Resource.ASSIGNED_POD, Resource.VOLUME_ATTACHMENT


def attachment():
    return storage.attachment("x", "a", "v")


@pytest.mark.parametrize(
    ("plugin", "resource", "old", "new", "is_woken"),
    [
        (BINDING, SC, None, storage.storage_class(), True),
        (BINDING, SC, storage.storage_class(), storage.storage_class(allowedTopologies=TOPOLOGY), True),
        (BINDING, SC, storage.storage_class(), storage.storage_class(parameters={"a": "b"}), False),
        (BINDING, PVC, None, CLAIM, True),
        (BINDING, PVC, CLAIM, storage.volume_claim("c", volume_name="v"), True),
        (BINDING, PVC, None, FOREIGN, False),
        (BINDING, PVC, None, storage.volume_claim("d"), False),
        (BINDING, PV, None, storage.volume("v"), True),
        (BINDING, PV, storage.volume("v"), LABELLED, True),
        (BINDING, Resource.NODE, None, node("b"), True),
        (BINDING, CSI, None, storage.csi_node("a", {}), True),
        (BINDING, CSI, storage.csi_node("a", {}), storage.csi_node("a", {DRIVER: 3}), False),
        (BINDING, DRIVERS, storage.csi_driver(DRIVER), storage.csi_driver(DRIVER, storage_capacity=False), True),
        (BINDING, DRIVERS, storage.csi_driver(DRIVER, storage_capacity=False), storage.csi_driver(DRIVER), False),
        (BINDING, CAPACITY, None, storage.capacity("x", "1Gi"), True),
        (BINDING, CAPACITY, storage.capacity("x", "1Gi"), storage.capacity("x", "2Gi"), True),
        (BINDING, CAPACITY, storage.capacity("x", "2Gi"), storage.capacity("x", "1Gi"), False),
        (BINDING, CAPACITY, storage.capacity("x", "9Gi", maximumVolumeSize="1Gi"), storage.capacity("x", "2Gi"), True),
        (ZONES, SC, None, storage.storage_class(), True),
        (ZONES, SC, None, storage.storage_class(mode="Immediate"), False),
        (ZONES, SC, None, storage.storage_class(mode=None), False),
        (ZONES, PVC, None, CLAIM, True),
        (ZONES, PVC, None, FOREIGN, False),
        (ZONES, PV, None, storage.volume("v"), True),
        (ZONES, PV, storage.volume("v"), LABELLED, True),
        (ZONES, PV, storage.volume("v"), storage.volume("v", labels={"other": "x"}), False),
        (ZONES, Resource.NODE, None, node("b"), True),
        (LIMITS, CSI, None, storage.csi_node("a", {}), True),
        (LIMITS, CSI, storage.csi_node("a", {DRIVER: 1}), storage.csi_node("a", {DRIVER: 2}), True),
        (LIMITS, CSI, storage.csi_node("a", {}), storage.csi_node("a", {DRIVER: 1}), True),
        (LIMITS, CSI, storage.csi_node("a", {DRIVER: 2}), storage.csi_node("a", {DRIVER: 1}), False),
        (LIMITS, PVC, None, CLAIM, True),
        (LIMITS, PVC, None, FOREIGN, False),
        (LIMITS, ATTACHED, attachment(), None, True),
        (LIMITS, LEFT, using("d", nodeName="a"), None, True),
        (LIMITS, LEFT, with_disk(nodeName="a"), None, True),
        (LIMITS, LEFT, pod(nodeName="a"), None, False),
        (RESTRICTIONS, PVC, None, CLAIM, True),
        (RESTRICTIONS, PVC, None, FOREIGN, False),
        (RESTRICTIONS, LEFT, using("c", nodeName="a"), None, True),
        (RESTRICTIONS, LEFT, using("c", nodeName="a", namespace="other"), None, False),
        (RESTRICTIONS, LEFT, using("d", nodeName="a"), None, False),
        (RESTRICTIONS, LEFT, with_disk(nodeName="a"), None, False),
        (RESTRICTIONS, Resource.NODE, None, node("b"), True),
    ],
)
def test_hints(plugin, resource, old, new, is_woken) -> None:
    made = cluster(pods=[using("c")])
    action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE
    assert any(resource is known and (resource is Resource.NODE or action in wakes) for known, wakes in plugin.wakes_on)
    change = ClusterEvent(resource, action, old, new)
    concerned = plugin.concerned(change, made)
    woken = plugin.hint(using("c"), change, made) is Hint.QUEUE
    assert woken is is_woken
    if woken and concerned is not None:
        assert using("c").uid in concerned


def test_a_disk_that_is_free_again_wakes_pods_that_want_it() -> None:
    change = ClusterEvent(LEFT, Action.DELETE, with_disk("old", nodeName="a"), None)
    assert RESTRICTIONS.concerned(change, cluster()) is None
    assert RESTRICTIONS.hint(with_disk(), change, cluster()) is Hint.QUEUE
    reading = ClusterEvent(LEFT, Action.DELETE, with_disk("old", nodeName="a", read_only=True), None)
    assert RESTRICTIONS.hint(with_disk(read_only=True), reading, cluster()) is Hint.SKIP
