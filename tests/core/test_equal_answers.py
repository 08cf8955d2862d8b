"""Equal pods are searched for once, and each is told what it would be told by itself."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from allocator import DeviceId
from scheduler.core.reports.cause_search import CauseSearch
from scheduler.core.reports.equal_answers import EqualAnswers, _renamed, _TheirsError
from scheduler.framework.diagnosis import EVENT
from scheduler.model.keys import ClaimKey, PodKey
from scheduler.model.objects import OwnerReference
from scheduler.plugins import default_plugins
from scheduler.why.say import EVERYBODY, Pods, Sentence
from tests import builders
from tests.core.rig import Rig

REPLICAS = [f"web-5d4f8-x{number}" for number in range(8)]
HOT = ({"key": "example.com/hot", "effect": "NoSchedule"},)
SITUATIONS: dict[str, dict[str, Any]] = {
    "room": {"requests": {"cpu": "12"}},
    "label": {"nodeSelector": {"zone": "b"}},
    "taint": {"taints": HOT},
    "in use": {"count": 1},
    "too many": {"count": 5},
    "selector": {"count": 1, "selector": "device.attributes['gpu.example.com'].indexx == 0"},
}


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pods for which changes were tried."""
    names: list[str] = []
    real = CauseSearch._worth_asking

    def noted(self: CauseSearch, case: Any, *args: Any) -> Any:
        if case.pod.key.name in REPLICAS:
            names.append(case.pod.key.name)
        return real(self, case, *args)

    monkeypatch.setattr(CauseSearch, "_worth_asking", noted)
    return names


def told(
    *, count: int = 0, selector: str = "", taints: tuple[dict[str, str], ...] = (), **spec: Any
) -> dict[str, str | None]:
    """What the condition of each replica says."""
    rig = Rig(*default_plugins(), reports_causes=True)
    rig.server.put_class(builders.device_class())
    rig.add_nodes("a", taints=taints)
    rig.server.put_slice(builders.resource_slice("slice-a", node="a", devices=1))
    rig.server.put_claim(builders.claim("held"))
    rig.add_pod("holder", claims=("held",))
    rig.settle()
    owner = OwnerReference("ReplicaSet", "web-5d4f8", uid="uid-web", controller=True)
    for name in REPLICAS:
        templates = {"gpu": f"{name}-gpu-z"} if count else {}
        pod = builders.pod(name, templates=templates, labels={"pod-template-hash": "5d4f8"}, **spec)
        if count:
            request = builders.claim_spec_object(builders.request_object(count=count, selector=selector))
            rig.server.put_claim(builders.claim(templates["gpu"], spec=request, owner_pod=pod))
        rig.server.put_pod(structs.replace(pod, metadata=structs.replace(pod.metadata, owner_references=(owner,))))
    rig.wait(60_000)
    conditions = {name: rig.condition_of(name) for name in REPLICAS}
    return {name: found and found[1] for name, found in conditions.items()}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_equal_pods_are_searched_for_once_and_told_the_same_as_with_that_off(
    monkeypatch: pytest.MonkeyPatch, searched: list[str], situation: str
) -> None:
    once = told(**SITUATIONS[situation])
    assert all(one is not None and "Cause: [" in one for one in once.values())
    assert len({*searched}) == 1

    searched.clear()
    monkeypatch.setattr(EqualAnswers, "of", lambda *_: None)
    assert told(**SITUATIONS[situation]) == once
    assert len({*searched}) == len(REPLICAS)


def test_what_is_remembered_goes_with_any_change_and_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.core.reports.equal_answers._ANSWERS_MAX", 3)
    rig = Rig(*default_plugins(), reports_causes=True)
    rig.add_nodes("a")
    for number in range(5):
        rig.add_pod(f"p{number}", requests={"cpu": f"{number + 9}"})
    rig.wait(60_000)
    answers = rig.machine.causes._search._answers
    assert len(answers._found) == 3

    rig.add_nodes("b", allocatable={"cpu": "8500m", "memory": "32Gi", "pods": "110"})
    rig.wait(0)
    asked = next(one for one in rig.machine.queue.all() if one.pod.key.name == "p4")
    why, _ = rig.machine.causes.why(asked.uid, EVENT)
    assert "node b has 8500m cpu free" in why.text(EVERYBODY)
    assert len(answers._found) == 3


def test_keys_are_renamed_however_deep_they_stand_and_other_values_stay() -> None:
    keys = [(PodKey("ns", "a-1"), PodKey("ns", "a-2")), (ClaimKey("ns", "a-1"), ClaimKey("ns", "c"))]
    device = DeviceId("driver", "pool", "gpu")
    fields = {
        "pods": Pods(((PodKey("ns", "a-1"), 5), (PodKey("other", "a-1"), 0))),
        "claim": ClaimKey("ns", "a-1"),
        "inner": Sentence("{pod:pod}", {"pod": PodKey("ns", "a-1")}),
        "device": device,
        "count": 3,
    }
    assert _renamed(fields, keys[:1]) == {
        **fields,
        "pods": Pods(((PodKey("ns", "a-2"), 5), (PodKey("other", "a-1"), 0))),
        "inner": Sentence("{pod:pod}", {"pod": PodKey("ns", "a-2")}),
    }
    assert _renamed(fields["claim"], keys) == ClaimKey("ns", "c")
    assert _renamed("pod ns/a-1 asks", keys[:1]) == "pod ns/a-2 asks"
    for text in ("kubectl edit pod a-1", "ns/a-1 and a-1", "ns/a-10"):
        with pytest.raises(_TheirsError):
            _renamed(text, keys[:1])
