"""What Services and owners demand together of the pods beside a pod."""

from __future__ import annotations

import msgspec
import pytest

from allocator import Features
from scheduler.core.state.pod_selector_objects import selector_of
from scheduler.core.state.store import Store
from scheduler.model.keys import ObjectKey
from scheduler.model.label_selectors import compile_label_selector
from scheduler.model.objects import LabelSelector, NodeSelectorRequirement, Pod
from scheduler.model.pod_selectors import PodSelector
from tests import builders


def selector(kind: str, name: str, *labels: tuple[str, str], namespace: str = "default", expressions=()) -> PodSelector:
    return PodSelector(kind, ObjectKey(namespace, name), labels, expressions)


def pod(labels=None, *, owner: tuple[str, str, str] | None = None, is_controller: bool = True):
    made = builders.pod_object("p", labels=labels or {"app": "web", "tier": "front"})
    if owner is not None:
        reference = {
            "apiVersion": owner[0],
            "kind": owner[1],
            "name": owner[2],
            "uid": "u",
            "controller": is_controller,
        }
        made["metadata"]["ownerReferences"] = [reference]
    return msgspec.convert(made, Pod)


@pytest.fixture
def store() -> Store:
    return Store(Features())


def keep(store: Store, new: PodSelector, revision: int) -> None:
    store.kept[new.kind].observe(new.key, revision, new)


def selected(store: Store, pod: Pod) -> LabelSelector | None:
    return selector_of(pod, store.services, store.kept)


def test_nothing_selects_a_pod_without_services_and_owner(store):
    keep(store, selector("Service", "db", ("app", "db")), 1)
    keep(store, selector("Service", "elsewhere", ("app", "web"), namespace="other"), 2)
    keep(store, selector("Service", "headless"), 3)
    assert selected(store, pod()) is None


def test_services_that_select_the_pod_are_merged(store):
    keep(store, selector("Service", "web", ("app", "web")), 1)
    keep(store, selector("Service", "front", ("app", "web"), ("tier", "front")), 2)
    keep(store, selector("Service", "back", ("app", "web"), ("tier", "back")), 3)
    assert selected(store, pod()) == LabelSelector({"app": "web", "tier": "front"})


@pytest.mark.parametrize(
    ("api_version", "kind"), [("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("v1", "ReplicationController")]
)
def test_the_owner_counts(store, api_version, kind):
    keep(store, selector("Service", "web", ("app", "web")), 1)
    keep(store, selector(kind, "owner", ("pod-template-hash", "1"), ("tier", "front")), 2)
    expected = LabelSelector({"app": "web", "pod-template-hash": "1", "tier": "front"})
    assert selected(store, pod(owner=(api_version, kind, "owner"))) == expected
    assert selected(store, pod(owner=(api_version, kind, "another"))) == LabelSelector({"app": "web"})
    assert selected(store, pod(owner=("example.com/v1", kind, "owner"))) == LabelSelector({"app": "web"})
    assert selected(store, pod(owner=(api_version, kind, "owner"), is_controller=False)) == LabelSelector(
        {"app": "web"}
    )


def test_a_job_does_not_count(store):
    keep(store, selector("ReplicaSet", "owner", ("app", "web")), 1)
    assert selected(store, pod(owner=("batch/v1", "Job", "owner"))) is None


def test_what_contradicts_a_service_is_demanded_too(store):
    keep(store, selector("Service", "web", ("app", "web")), 1)
    exists = NodeSelectorRequirement("zone", "Exists")
    keep(store, selector("ReplicaSet", "rs", ("app", "old"), expressions=(exists,)), 2)
    keep(store, selector("ReplicationController", "rc", ("app", "old")), 3)
    both = selected(store, pod(owner=("apps/v1", "ReplicaSet", "rs")))
    assert both == LabelSelector({"app": "web"}, (NodeSelectorRequirement("app", "In", ("old",)), exists))
    assert not compile_label_selector(both).matches({"app": "web", "zone": "a"})
    assert selected(store, pod(owner=("v1", "ReplicationController", "rc"))) == LabelSelector({"app": "old"})


def test_the_newest_counts_and_what_is_deleted_does_not(store):
    keep(store, selector("Service", "web", ("app", "web")), 2)
    keep(store, selector("Service", "web", ("app", "db")), 1)
    assert selected(store, pod()) == LabelSelector({"app": "web"})
    keep(store, selector("Service", "web", ("tier", "front")), 3)
    assert selected(store, pod()) == LabelSelector({"tier": "front"})
    store.services.delete(ObjectKey("default", "web"), 2)
    assert selected(store, pod()) is not None
    store.services.delete(ObjectKey("default", "web"), 4)
    assert selected(store, pod()) is None
