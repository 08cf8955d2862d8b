"""Volumes of the embedded cluster: which claim gets which, when one is made, what is left, and how they print."""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduler.embedded.controllers.reactors import ObjectKey
from scheduler.embedded.controllers.volumes import FAILS_ON, ZONE, Volumes
from scheduler.embedded.kinds.catalog import EVENT, POD, VOLUME, VOLUME_CLAIM, default_registry
from scheduler.embedded.loading import apply_object
from scheduler.embedded.seed import seed_objects
from scheduler.embedded.server.columns import columns_of
from scheduler.embedded.server.object_store import Change, ObjectStore
from scheduler.embedded.server.rest import Api
from scheduler.embedded.server.statuses import ApiError
from scheduler.model.storage import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE
from tests.storage_builders import storage_class_object, volume_claim_object, volume_object


class World:
    """An API server and the controllers of volumes; they look when `settle` is called."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.api = Api(default_registry(), ObjectStore(watch_window=1), clock=lambda: self.now)
        seed_objects(self.api)
        self._volumes = Volumes(self.api)
        self._due: OrderedDict[ObjectKey, None] = OrderedDict()
        self.api.store.listen(self._notice)

    def _notice(self, kind_id: str, change: Change) -> None:
        self._due.update(dict.fromkeys(self._volumes.notice(kind_id, change)))

    def put(self, *objects: dict[str, Any]) -> None:
        for obj in objects:
            kept = {key: value for key, value in obj["metadata"].items() if key not in ("uid", "resourceVersion")}
            rest = {key: value for key, value in obj.items() if key != "status"}
            apply_object(self.api, {**rest, "metadata": kept})
        self.settle()

    def settle(self) -> None:
        for _ in range(200):
            if not self._due:
                return
            key, _ = self._due.popitem(last=False)
            self._volumes.look(key)
        raise AssertionError("the controllers do not come to rest")

    def volume(self, name: str) -> Any:
        return self.api.find(VOLUME.kind_id, "", name)

    def volumes(self) -> list[Any]:
        return [stored.obj for stored in self.api.store.listed(VOLUME.kind_id)]

    def claim(self, name: str = "data") -> Any:
        return self.api.find(VOLUME_CLAIM.kind_id, "default", name)

    def select(self, node: str) -> None:
        def change(obj: dict[str, Any]) -> dict[str, Any]:
            obj["metadata"].setdefault("annotations", {})[SELECTED_NODE] = node
            return obj

        self.api.update(VOLUME_CLAIM, "default", "data", change)
        self.settle()


@pytest.fixture
def world() -> World:
    return World()


def is_bound(world: World, volume: str) -> bool:
    claim, found = world.claim(), world.volume(volume)
    return (
        claim["spec"].get("volumeName") == volume
        and claim["status"]["phase"] == found["status"]["phase"] == "Bound"
        and claim["metadata"]["annotations"][BIND_COMPLETED] == "yes"
        and found["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
    )


def test_a_claim_gets_the_smallest_volume_that_is_large_enough(world):
    world.put(storage_class_object(mode="Immediate", provisioner="kubernetes.io/no-provisioner"))
    world.put(*(volume_object(name, capacity=size) for name, size in (("s", "1Gi"), ("m", "3Gi"), ("l", "9Gi"))))
    assert {one["status"]["phase"] for one in world.volumes()} == {"Available"}
    world.put(volume_claim_object("data", request="2Gi"))
    assert is_bound(world, "m")
    assert world.volume("m")["metadata"]["annotations"][BOUND_BY_CONTROLLER] == "yes"
    assert world.claim()["status"]["capacity"] == {"storage": "3Gi"}


def test_a_claim_waits_for_a_volume_of_its_class_and_modes(world):
    world.put(volume_claim_object("data", class_name="", spec={"accessModes": ["ReadWriteMany"]}))
    world.put(volume_object("a"), volume_object("b", class_name=""))
    assert world.claim()["status"]["phase"] == "Pending"
    world.put(volume_object("c", class_name="", spec={"accessModes": ["ReadWriteMany", "ReadWriteOnce"]}))
    assert is_bound(world, "c")


def test_a_claim_that_waits_for_its_first_pod_is_left_alone_until_a_node_is_selected(world):
    labels = {ZONE: "z"}
    world.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "labels": labels}})
    world.put(storage_class_object(), volume_claim_object("data"))
    assert world.claim()["status"]["phase"] == "Pending"
    assert world.volumes() == []
    world.select("a")
    (made,) = world.volumes()
    assert is_bound(world, made["metadata"]["name"])
    (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": ZONE, "operator": "In", "values": ["z"]}]
    assert made["spec"]["persistentVolumeReclaimPolicy"] == "Delete"


def test_nobody_makes_a_volume_without_a_provisioner(world):
    world.put(storage_class_object(provisioner="kubernetes.io/no-provisioner"), volume_claim_object("data"))
    world.select("a")
    assert world.volumes() == []


def failures(world):
    return [
        stored.obj
        for stored in world.api.store.listed(EVENT.kind_id)
        if stored.obj["reason"] == "ProvisioningFailed" and stored.obj["involvedObject"]["name"] == "data"
    ]


def failing(nodes: str) -> dict[str, Any]:
    made = storage_class_object()
    return {**made, "metadata": {**made["metadata"], "annotations": {FAILS_ON: nodes}}}


@pytest.mark.parametrize("nodes", ["a", "b, a", "*"])
def test_a_provisioner_that_fails_says_so_and_asks_for_another_node(world, nodes):
    world.put(*({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in ("a", "c")))
    world.put(failing(nodes), volume_claim_object("data"))
    assert failures(world) == []
    world.select("a")
    (event,) = failures(world)
    assert (event["type"], event["involvedObject"]["uid"]) == ("Warning", world.claim()["metadata"]["uid"])
    assert event["message"].startswith(
        'failed to provision volume with StorageClass "local": rpc error: code = Resource'
    )
    assert SELECTED_NODE not in world.claim()["metadata"]["annotations"]
    assert world.volumes() == []
    world.select("c")
    if nodes == "*":
        assert len(failures(world)) == 2
        world.put(failing(""))
        world.select("c")
    (made,) = world.volumes()
    assert is_bound(world, made["metadata"]["name"])


def test_a_claim_that_waits_for_no_pod_is_tried_again_when_its_class_changes(world):
    immediate = {**failing("*"), "volumeBindingMode": "Immediate"}
    world.put(immediate, volume_claim_object("data"))
    assert failures(world)
    assert world.volumes() == []
    world.put({**failing(""), "volumeBindingMode": "Immediate"})
    assert len(world.volumes()) == 1


def default_class(name: str, annotation: str = "storageclass.kubernetes.io/is-default-class") -> dict[str, Any]:
    made = storage_class_object(name)
    return {**made, "metadata": {**made["metadata"], "annotations": {annotation: "true"}}}


@pytest.mark.parametrize(
    ("classes", "asked", "expected"),
    [
        ([], None, None),
        ([storage_class_object("a")], None, None),
        ([storage_class_object("a"), default_class("b")], None, "b"),
        ([default_class("b", "storageclass.beta.kubernetes.io/is-default-class")], None, "b"),
        ([default_class("b"), default_class("a")], None, "a"),
        ([default_class("b")], "", ""),
        ([default_class("b")], "a", "a"),
    ],
)
def test_a_claim_that_names_no_class_gets_the_default_one(world, classes, asked, expected):
    world.put(*classes, volume_claim_object("data", class_name=asked))
    assert world.claim()["spec"].get("storageClassName") == expected


def test_of_several_default_classes_the_newest_counts(world):
    world.put(default_class("a"))
    world.now += timedelta(seconds=1)
    world.put(default_class("b"), volume_claim_object("data", class_name=None))
    assert world.claim()["spec"]["storageClassName"] == "b"


def test_a_claim_with_the_annotation_of_old_gets_no_default_class(world):
    annotations = {"volume.beta.kubernetes.io/storage-class": "a"}
    claim = volume_claim_object("data", class_name=None, annotations=annotations)
    world.put(default_class("b"), claim)
    assert world.claim()["spec"].get("storageClassName") is None


def test_a_volume_that_the_scheduler_has_promised_is_bound(world):
    world.put(storage_class_object(provisioner="kubernetes.io/no-provisioner"))
    world.put(volume_object("a"), volume_object("b"), volume_claim_object("data"))
    uid = world.claim()["metadata"]["uid"]

    def promise(obj: dict[str, Any]) -> dict[str, Any]:
        obj["spec"]["claimRef"] = {"namespace": "default", "name": "data", "uid": uid}
        return obj

    world.api.update(VOLUME, "", "b", promise)
    world.settle()
    assert is_bound(world, "b")
    assert world.volume("a")["status"]["phase"] == "Available"


def test_a_claim_that_names_its_volume_gets_it_and_no_other(world):
    world.put(volume_object("a"), volume_object("b", claim="default/other", claim_uid="u"))
    world.put(volume_claim_object("data", spec={"volumeName": "late"}, annotations={}))
    assert world.claim()["status"]["phase"] == "Pending"
    world.put(volume_object("late", claim="default/data"))
    assert is_bound(world, "late")


@pytest.mark.parametrize(("policy", "left"), [("Retain", ["Released"]), ("Delete", [])])
def test_what_a_claim_leaves_behind(world, policy, left):
    world.put(volume_object("pv", class_name="", spec={"persistentVolumeReclaimPolicy": policy}))
    world.put(volume_claim_object("data", class_name=""))
    assert is_bound(world, "pv")
    world.api.delete(VOLUME_CLAIM, "default", "data")
    world.settle()
    assert [one["status"]["phase"] for one in world.volumes()] == left


def test_a_claim_whose_volume_is_gone_is_lost(world):
    world.put(volume_object("pv", class_name=""), volume_claim_object("data", class_name=""))
    world.api.delete(VOLUME, "", "pv")
    world.api.update(
        VOLUME_CLAIM, "default", "data", lambda obj: {**obj, "metadata": {**obj["metadata"], "labels": {}}}
    )
    world.settle()
    assert world.claim()["status"]["phase"] == "Lost"


def test_pods_get_the_claims_of_their_ephemeral_volumes(world):
    template = {"metadata": {"labels": {"x": "y"}}, "spec": volume_claim_object("x")["spec"]}
    spec = {
        "containers": [{"name": "main", "image": "i"}],
        "volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}],
    }
    world.put({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    claim = world.claim("p-scratch")
    (owner,) = claim["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Pod", world.api.find(POD.kind_id, "default", "p")["metadata"]["uid"])
    assert claim["metadata"]["labels"] == {"x": "y"}


@pytest.mark.parametrize(
    ("obj", "complaint"),
    [
        (volume_claim_object("c", spec={"accessModes": []}), "spec.accessModes: Required value"),
        (volume_claim_object("c", spec={"accessModes": ["Some"]}), 'spec.accessModes: Unsupported value: "Some"'),
        (volume_claim_object("c", spec={"resources": {}}), "spec.resources[storage]: Required value"),
        (volume_claim_object("c", request="0"), "spec.resources[storage]: Invalid value"),
        (volume_object("v", spec={"capacity": {}}), "spec.capacity[storage]: Required value"),
        (storage_class_object(provisioner=""), "provisioner: Required value"),
        (storage_class_object(mode="Later"), 'volumeBindingMode: Unsupported value: "Later"'),
    ],
)
def test_what_is_refused(world, obj, complaint):
    with pytest.raises(ApiError) as raised:
        world.put(obj)
    assert raised.value.code == 422
    assert complaint in raised.value.message


def test_a_claim_keeps_what_it_asked_for(world):
    world.put(volume_claim_object("data"))
    with pytest.raises(ApiError, match="spec is immutable after creation"):
        world.put(volume_claim_object("data", class_name="other"))
    world.put(volume_claim_object("data", request="2Gi"))
    assert world.claim()["spec"]["resources"]["requests"] == {"storage": "2Gi"}


def test_columns(world):
    world.put(volume_object("pv", class_name=""), volume_claim_object("data", class_name=""))

    def row(kind: str, obj: Any) -> list[Any]:
        columns = [one for one in columns_of(kind) if one.priority == 0 and one.name != "Age"]
        return [one.cell(obj, datetime(2026, 1, 1, tzinfo=UTC)) for one in columns]

    volume, claim = world.volume("pv"), world.claim()
    assert row("PersistentVolume", volume) == [
        *("pv", "1Gi", "RWO", "Retain", "Bound", "default/data", "", "<unset>", "")
    ]
    assert row("PersistentVolumeClaim", claim) == ["data", "Bound", "pv", "1Gi", "RWO", "", "<unset>"]
