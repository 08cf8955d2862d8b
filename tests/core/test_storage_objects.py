"""Volumes and their kin in the store: the newest counts, indexes follow, versions and nodes change only when needed."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator import Features
from scheduler.core.ground.newest_objects import UNCHANGED
from scheduler.core.state.storage_objects import STORAGE_KINDS, StorageObjects
from scheduler.core.state.store import Store
from scheduler.model.keys import NodeName, ObjectKey
from scheduler.model.storage import ClaimReference, PersistentVolume, PersistentVolumeClaim, volume_claims
from tests import builders
from tests import storage_builders as made

CLAIM = ObjectKey("default", "data")


@pytest.fixture
def store() -> Store:
    store = Store(Features())
    for name in ("a", "b"):
        store.observe_node(builders.node(name))
    return store


def touched(store: Store, action) -> list[str]:
    position = store.changes.position
    action()
    changed = store.changes.since(position)
    return list(store.node_order if changed is None else changed)


def names(objects) -> list[str]:
    return [one.name for one in objects]


def pod_with_volumes(name: str = "p", **more):
    return builders.pod(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}], **more)


def test_each_kind_is_found_by_its_name(store):
    storage = store.storage
    for one in (
        made.volume("pv"),
        made.volume_claim("data"),
        made.storage_class("fast"),
        made.csi_node("a", {"csi.example.com": 4}),
        made.csi_driver("csi.example.com"),
        made.capacity("c", "5Gi"),
        made.attachment("att", "a", "pv"),
    ):
        assert store.observe_storage(one) is None
        assert store.observe_storage(one) is UNCHANGED
    assert storage.persistent_volume("pv").capacity_nano == made.GI
    assert storage.persistent_volume_claim("default", "data").requested_nano == made.GI
    assert storage.persistent_volume_claim("other", "data") is None
    assert storage.storage_class("fast").volume_binding_mode == "WaitForFirstConsumer"
    assert storage.csi_node("a").spec.drivers[0].allocatable.count == 4
    assert storage.csi_driver("csi.example.com").spec.storage_capacity is True
    assert storage.csi_storage_capacities(made.WAITING).capacities[0].largest_nano == 5 * made.GI
    assert names(storage.volume_attachments(NodeName("a"))) == ["att"]
    assert storage.volume_attachments(NodeName("b")) == ()


def test_a_deletion_ends_what_is_older(store):
    store.observe_storage(made.volume("pv", revision=5))
    assert store.delete_storage("PersistentVolume", ObjectKey("", "pv"), 4) is None
    assert store.delete_storage("PersistentVolume", ObjectKey("", "pv"), 6).name == "pv"
    assert store.observe_storage(made.volume("pv", revision=5)) is UNCHANGED
    assert store.storage.persistent_volume("pv") is None


def test_only_volumes_that_nobody_has_are_candidates_in_order_of_names(store):
    for one in (
        made.volume("c"),
        made.volume("a"),
        made.volume("b", claim="default/data", claim_uid="u"),
        made.volume("promised", claim="default/data", phase="Available"),
        made.volume("pending", phase="Pending"),
        made.volume("failed", phase="Failed"),
        made.volume("leaving", deletionTimestamp="2026-01-01T00:00:00Z"),
        made.volume("other", class_name="other"),
        made.volume("old-style", class_name="", annotations={"volume.beta.kubernetes.io/storage-class": "other"}),
    ):
        store.observe_storage(one)
    storage = store.storage
    assert names(storage.persistent_volumes_of_class(made.WAITING).volumes) == ["a", "c"]
    assert names(storage.persistent_volumes_of_class("other").volumes) == ["old-style", "other"]
    assert names(storage.persistent_volumes_claimed_for(CLAIM)) == ["b", "promised"]
    assert storage.persistent_volumes_of_class("none").volumes == ()


def test_the_version_changes_with_candidates_only(store):
    storage = store.storage

    def version_after(one) -> int:
        store.observe_storage(one)
        return storage.persistent_volumes_of_class(made.WAITING).version

    first = version_after(made.volume("pv"))
    assert version_after(made.volume("used", claim="default/x", claim_uid="u")) == first
    assert version_after(made.volume("used", claim="default/x", claim_uid="u", phase="Released")) == first
    assert version_after(made.volume("other", class_name="other")) == first
    assert version_after(made.volume("pv", annotations={"note": "new"})) == first
    assert storage.persistent_volumes_of_class(made.WAITING).volumes[0].annotations == {"note": "new"}
    larger = version_after(made.volume("pv", capacity="2Gi"))
    assert larger != first
    reached = version_after(made.volume("pv", capacity="2Gi", zone="a"))
    assert reached != larger
    labelled = version_after(made.volume("pv", capacity="2Gi", zone="a", labels={"disk": "ssd"}))
    assert labelled != reached
    assert version_after(made.volume("pv", claim="default/x")) == 0
    assert version_after(made.volume("pv")) not in {0, first, larger, reached, labelled}


def test_the_version_of_capacities_changes_with_what_is_left(store):
    storage = store.storage

    def version_after(one) -> int:
        store.observe_storage(one)
        return storage.csi_storage_capacities(made.WAITING).version

    first = version_after(made.capacity("c", "5Gi"))
    assert version_after(made.capacity("c", "5Gi")) == first
    assert version_after(made.capacity("d", "5Gi", class_name="other")) == first
    assert version_after(made.capacity("c", "6Gi")) != first


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda: made.csi_node("a", {"csi.example.com": 1}), ["a"]),
        (lambda: made.attachment("att", "b", "pv"), ["b"]),
        (lambda: made.volume_claim("data", volume_name="pv"), ["a"]),
        (lambda: made.volume_claim("other", volume_name="pv"), []),
        (lambda: made.volume("pv", claim="default/data"), ["a"]),
        (lambda: made.volume("pv"), []),
        (lambda: made.storage_class("new"), ["a", "b"]),
        (lambda: made.csi_driver("csi.example.com"), []),
        (lambda: made.capacity("c", "1Gi"), []),
    ],
)
def test_nodes_are_touched_when_a_plugin_could_see_a_difference(store, change, expected):
    store.observe_pod(pod_with_volumes(node="a"))
    one = change()
    assert touched(store, lambda: store.observe_storage(one)) == expected
    kind = type(one).__name__
    assert touched(store, lambda: store.delete_storage(kind, one.key, 0)) == expected


def test_a_claim_that_changes_otherwise_touches_no_node(store):
    store.observe_pod(pod_with_volumes(node="a"))
    store.observe_storage(made.volume_claim("data", volume_name="pv"))
    again = made.volume_claim("data", volume_name="pv", request="2Gi")
    assert touched(store, lambda: store.observe_storage(again)) == []


def test_an_attachment_that_moves_touches_both_nodes(store):
    store.observe_storage(made.attachment("att", "a", "pv"))
    assert touched(store, lambda: store.observe_storage(made.attachment("att", "b", "pv"))) == ["a", "b"]
    assert store.storage.volume_attachments(NodeName("a")) == ()


def test_pods_use_claims_from_their_first_state_to_their_end(store):
    pod = pod_with_volumes()
    store.observe_pod(pod)
    assert store.storage.users_of(CLAIM) == (pod.uid,)
    assert not store.storage.is_used_on_a_node(CLAIM)
    store.assume(pod.uid, NodeName("a"))
    assert store.storage.is_used_on_a_node(CLAIM)
    store.forget_assumed(pod.uid)
    assert not store.storage.is_used_on_a_node(CLAIM)
    store.observe_pod(pod_with_volumes(node="gone"))
    assert not store.storage.is_used_on_a_node(CLAIM)
    store.delete_pod(pod.uid, 0)
    assert store.storage.users_of(CLAIM) == ()


def test_a_finished_pod_uses_nothing_on_its_node(store):
    store.observe_pod(pod_with_volumes(node="a", phase="Succeeded"))
    assert not store.storage.is_used_on_a_node(CLAIM)


def test_a_generated_claim_has_the_name_of_its_pod_and_volume():
    volumes = [
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "again", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
        {"name": "token", "projected": {"sources": []}},
    ]
    pod = builders.pod("p", volumes=volumes)
    assert volume_claims(pod) == (ObjectKey("default", "p-scratch"), ObjectKey("default", "data"))


# What is assumed


def promised(volume: PersistentVolume) -> PersistentVolume:
    reference = ClaimReference("default", "data", "uid")
    return msgspec.structs.replace(volume, spec=msgspec.structs.replace(volume.spec, claim_ref=reference))


def test_what_is_assumed_stands_until_it_is_taken_back(store):
    storage = store.storage
    store.observe_storage(made.volume("pv"))
    before = storage.persistent_volumes_of_class(made.WAITING).version
    assumed = promised(storage.persistent_volume("pv"))
    assert storage.assume(assumed)
    assert storage.persistent_volumes_of_class(made.WAITING).volumes == ()
    assert names(storage.persistent_volumes_claimed_for(CLAIM)) == ["pv"]
    storage.forget_assumed(PersistentVolume, assumed.key)
    storage.forget_assumed(PersistentVolume, assumed.key)
    assert names(storage.persistent_volumes_of_class(made.WAITING).volumes) == ["pv"]
    assert storage.persistent_volumes_of_class(made.WAITING).version == before
    assert storage.persistent_volumes_claimed_for(CLAIM) == ()


def test_what_is_observed_later_replaces_what_was_assumed(store):
    storage = store.storage
    store.observe_storage(made.volume("pv"))
    assumed = promised(storage.persistent_volume("pv"))
    assert storage.assume(assumed)
    store.observe_storage(made.volume("pv", capacity="3Gi"))
    assert storage.persistent_volume("pv").capacity_nano == 3 * made.GI
    storage.forget_assumed(PersistentVolume, assumed.key)
    assert names(storage.persistent_volumes_of_class(made.WAITING).volumes) == ["pv"]


def test_nothing_is_assumed_of_another_state(store):
    storage = store.storage
    old = made.volume("pv")
    store.observe_storage(old)
    store.observe_storage(made.volume("pv"))
    assert not storage.assume(promised(old))
    assert not storage.assume(made.volume_claim("never-seen"))
    assert storage.persistent_volume("pv").spec.claim_ref is None
    assert storage.persistent_volume_claim("default", "never-seen") is None


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["observe", "observe", "delete", "assume", "forget"]),
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from([{}, {"class_name": "x"}, {"claim": "default/data"}, {"claim": "default/y"}, {"zone": "z"}]),
        st.integers(1, 8),
    ),
    max_size=25,
)


@given(steps=STEPS)
def test_indexes_are_what_the_objects_say(steps):
    """Against the plainest form: all volumes, looked through at each question."""
    storage = StorageObjects({}, {})
    contents: dict[tuple[str, int], list[object]] = {}  # of each class by its version
    for action, name, fields, revision in steps:
        known = storage.persistent_volume(name)
        key = ObjectKey("", name)
        if action == "observe":
            storage.observe(made.volume(name, revision=revision, **fields))
        elif action == "delete":
            storage.delete("PersistentVolume", key, revision)
        elif action == "assume" and known is not None:
            storage.assume(promised(known))
        elif action == "forget" and known is not None:
            storage.forget_assumed(PersistentVolume, key)
        everything = [one for name in "abc" if (one := storage.persistent_volume(name)) is not None]
        for class_name in (made.WAITING, "x"):
            found = storage.persistent_volumes_of_class(class_name).volumes
            assert list(found) == [one for one in everything if one.is_available and one.class_name == class_name]
            version = storage.persistent_volumes_of_class(class_name).version
            if found:
                content = [(one.name, one.spec, one.labels) for one in found]
                assert contents.setdefault((class_name, version), content) == content
        for claim in ("data", "y"):
            expected = [one for one in everything if one.spec.claim_ref and one.spec.claim_ref.name == claim]
            assert list(storage.persistent_volumes_claimed_for(ObjectKey("default", claim))) == expected


def test_classes_of_claims():
    beta = {"volume.beta.kubernetes.io/storage-class": "old"}
    assert made.volume_claim("c", annotations=beta).class_name == "old"
    assert made.volume_claim("c", class_name=None).class_name == ""
    assert made.volume_claim("c", volume_name="pv").is_bound
    half = made.volume_claim("c", spec={"volumeName": "pv"})
    assert not half.is_bound


def test_the_kinds_have_the_names_of_their_classes():
    assert STORAGE_KINDS["PersistentVolumeClaim"] is PersistentVolumeClaim
    assert len(STORAGE_KINDS) == 7


def test_the_claims_of_a_namespace_are_named_however_many_another_has(store):
    for number in range(5_001):
        store.storage.observe(made.volume_claim(f"c-{number}", namespace="crowd"))
    store.storage.observe(made.volume_claim("data", namespace="team"))
    assert store.storage.claim_names("team") == ["data"]

    store.storage.delete("PersistentVolumeClaim", ObjectKey("team", "data"), builders.next_revision())
    assert store.storage.claim_names("team") == []
