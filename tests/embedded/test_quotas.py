"""What a ResourceQuota lets in: objects, devices by class, extended resources, as kube-apiserver counts them."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.embedded.kinds.catalog import CLAIM, POD, default_registry
from scheduler.embedded.seed import seed_objects
from scheduler.embedded.server.object_store import ObjectStore
from scheduler.embedded.server.quotas import uncounted
from scheduler.embedded.server.rest import Api
from scheduler.embedded.server.statuses import ApiError
from scheduler.model.api_rules import EXTENDED_RESOURCE_ANNOTATION

GPU = "gpu.example.com"
DEVICES = f"{GPU}.deviceclass.resource.k8s.io/devices"
IMPLICIT = f"requests.deviceclass.resource.kubernetes.io/{GPU}"
EXTENDED = "requests.example.com/gpu"


class Team:
    """Namespace default with a quota."""

    def __init__(self, hard: dict[str, Any], **spec: Any) -> None:
        self.api = Api(default_registry(), ObjectStore(watch_window=1), seed=0)
        seed_objects(self.api)
        self.made = 0
        gpus = {"selectors": [], "extendedResourceName": "example.com/gpu"}
        self.api.create(self.kind("resource.k8s.io/v1", "DeviceClass"), "", {"metadata": {"name": GPU}, "spec": gpus})
        quota = {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}}
        self.api.create(self.kind("v1", "ResourceQuota"), "default", quota)

    def kind(self, version: str, name: str) -> Any:
        found = self.api.registry.by_kind(version, name)
        assert found is not None
        return found

    def claim(self, *requests: dict[str, Any], **annotations: str) -> str:
        self.made += 1
        named = [{"name": f"r{number}", **one} for number, one in enumerate(requests)]
        metadata = {"name": f"c{self.made}", "annotations": annotations}
        return self.create(CLAIM, {"metadata": metadata, "spec": {"devices": {"requests": named}}})

    def pod(self, gpus: int = 0, **spec: Any) -> str:
        self.made += 1
        amounts = {"limits": {"example.com/gpu": str(gpus)}} if gpus else {}
        container = {"name": "c", "image": "x", "resources": amounts}
        return self.create(POD, {"metadata": {"name": f"p{self.made}"}, "spec": {"containers": [container], **spec}})

    def create(self, kind: Any, obj: dict[str, Any]) -> str:
        """What the server says against it."""
        try:
            self.api.create(kind, "default", obj)
        except ApiError as error:
            return f"{error.reason} {error.message}"
        return ""


def exactly(count: int = 1, **more: Any) -> dict[str, Any]:
    return {"exactly": {"deviceClassName": GPU, "count": count, **more}}


def test_devices_are_counted_by_class_and_the_refusal_is_the_servers() -> None:
    team = Team({DEVICES: "3"})
    assert team.claim(exactly(2)) == ""
    assert team.claim(exactly(), exactly()) == (
        f'Forbidden resourceclaims.resource.k8s.io "c2" is forbidden: exceeded quota: q, requested: {DEVICES}=2, '
        f"used: {DEVICES}=2, limited: {DEVICES}=3"
    )
    assert team.claim(exactly()) == ""


def test_of_alternatives_the_most_counts_and_all_is_as_many_as_a_claim_can_have() -> None:
    team = Team({DEVICES: 33})
    one, four = ({"name": name, "deviceClassName": GPU, "count": count} for name, count in (("a", 1), ("b", 4)))
    assert team.claim({"exactly": {"deviceClassName": GPU, "allocationMode": "All"}}) == ""
    assert f"requested: {DEVICES}=4" in team.claim({"firstAvailable": [one, four]})
    assert team.claim(exactly()) == ""


@pytest.mark.parametrize("hard", ["count/resourceclaims.resource.k8s.io", "count/pods", "pods"])
def test_objects_are_counted(hard: str) -> None:
    team = Team({hard: "1"})
    ask = team.claim if "claims" in hard else team.pod
    assert ask(*([exactly()] if "claims" in hard else [])) == ""
    assert f"used: {hard}=1, limited: {hard}=1" in ask(*([exactly()] if "claims" in hard else []))


def test_what_has_gone_or_ended_is_counted_no_more() -> None:
    team = Team({"pods": "1", "count/resourceclaims.resource.k8s.io": "1"})
    assert team.claim(exactly()) == team.pod() == ""
    assert team.claim(exactly()) != ""
    assert team.pod() != ""
    team.api.delete(CLAIM, "default", "c1")
    team.api.update(POD, "default", "p2", lambda obj: {**obj, "status": {"phase": "Succeeded"}}, sub_resource="status")
    assert team.claim(exactly()) == team.pod() == ""


@pytest.mark.parametrize("hard", [EXTENDED, IMPLICIT])
def test_a_claim_of_the_class_counts_as_its_extended_resource(hard: str) -> None:
    team = Team({hard: "2"})
    assert team.claim(exactly(2)) == ""
    assert f"used: {hard}=2" in team.claim(exactly())
    assert team.claim(exactly(), **{EXTENDED_RESOURCE_ANNOTATION: "true"}) == ""  # the pod's amounts have counted


def test_pods_are_counted_by_what_they_ask_at_once() -> None:
    team = Team({EXTENDED: "2"})
    init = {"name": "i", "image": "x", "resources": {"limits": {"example.com/gpu": "2"}}}
    assert f"requested: {EXTENDED}=3" in team.pod(3, initContainers=[init])
    assert team.pod(1, initContainers=[init]) == ""
    assert f"used: {EXTENDED}=2" in team.pod(1)
    assert team.pod() == ""


def test_a_quota_that_nobody_counts_refuses_nothing_and_is_named() -> None:
    team = Team({"pods": "0", "cpu": "1"}, scopes=["BestEffort"])
    assert team.pod() == ""
    (scoped,) = team.api.listed("resourcequotas")
    assert uncounted(scoped) == ["scopes"]
    assert uncounted({"spec": {"hard": {"limits.cpu": 1, "cpu": 1, "pods": 1, DEVICES: 1}}}) == ["cpu", "limits.cpu"]
