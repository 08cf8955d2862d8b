"""What Services and owners demand together of the pods beside a pod."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.core.state.pod_selector_objects import PodSelectorObjects
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


def keep(objects, new, revision):
    objects.observe((new.kind, new.key), revision, new)


@pytest.fixture
def objects() -> PodSelectorObjects:
    return PodSelectorObjects()


def test_nothing_selects_a_pod_without_services_and_owner(objects):
    keep(objects, selector("Service", "db", ("app", "db")), 1)
    keep(objects, selector("Service", "elsewhere", ("app", "web"), namespace="other"), 2)
    keep(objects, selector("Service", "headless"), 3)
    assert objects.of(pod()) is None


def test_services_that_select_the_pod_are_merged(objects):
    keep(objects, selector("Service", "web", ("app", "web")), 1)
    keep(objects, selector("Service", "front", ("app", "web"), ("tier", "front")), 2)
    keep(objects, selector("Service", "back", ("app", "web"), ("tier", "back")), 3)
    assert objects.of(pod()) == LabelSelector({"app": "web", "tier": "front"})


@pytest.mark.parametrize(
    ("api_version", "kind"), [("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("v1", "ReplicationController")]
)
def test_the_owner_counts(objects, api_version, kind):
    keep(objects, selector("Service", "web", ("app", "web")), 1)
    keep(objects, selector(kind, "owner", ("pod-template-hash", "1"), ("tier", "front")), 2)
    expected = LabelSelector({"app": "web", "pod-template-hash": "1", "tier": "front"})
    assert objects.of(pod(owner=(api_version, kind, "owner"))) == expected
    assert objects.of(pod(owner=(api_version, kind, "another"))) == LabelSelector({"app": "web"})
    assert objects.of(pod(owner=("example.com/v1", kind, "owner"))) == LabelSelector({"app": "web"})
    assert objects.of(pod(owner=(api_version, kind, "owner"), is_controller=False)) == LabelSelector({"app": "web"})


def test_a_job_does_not_count(objects):
    keep(objects, selector("ReplicaSet", "owner", ("app", "web")), 1)
    assert objects.of(pod(owner=("batch/v1", "Job", "owner"))) is None


def test_what_contradicts_a_service_is_demanded_too(objects):
    keep(objects, selector("Service", "web", ("app", "web")), 1)
    exists = NodeSelectorRequirement("zone", "Exists")
    keep(objects, selector("ReplicaSet", "rs", ("app", "old"), expressions=(exists,)), 2)
    keep(objects, selector("ReplicationController", "rc", ("app", "old")), 3)
    both = objects.of(pod(owner=("apps/v1", "ReplicaSet", "rs")))
    assert both == LabelSelector({"app": "web"}, (NodeSelectorRequirement("app", "In", ("old",)), exists))
    assert not compile_label_selector(both).matches({"app": "web", "zone": "a"})
    assert objects.of(pod(owner=("v1", "ReplicationController", "rc"))) == LabelSelector({"app": "old"})


def test_the_newest_counts_and_what_is_deleted_does_not(objects):
    keep(objects, selector("Service", "web", ("app", "web")), 2)
    keep(objects, selector("Service", "web", ("app", "db")), 1)
    assert objects.of(pod()) == LabelSelector({"app": "web"})
    keep(objects, selector("Service", "web", ("tier", "front")), 3)
    assert objects.of(pod()) == LabelSelector({"tier": "front"})
    objects.delete(("Service", ObjectKey("default", "web")), 2)
    assert objects.of(pod()) is not None
    objects.delete(("Service", ObjectKey("default", "web")), 4)
    assert objects.of(pod()) is None
