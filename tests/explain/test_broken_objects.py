"""An object that no API server would hold is named in a note, and stops no explanation of others."""

from __future__ import annotations

import pytest

from allocator import Features
from scheduler.explain import explain_claim, explain_pod
from scheduler.offline import SourceObject
from tests.offline.causes import Obj, claim, device_class, gpu, node, pod, request, slice_

NOW_MS = 1_800_000_000_000
BROKEN: list[Obj] = [
    {**node("broken"), "spec": 7},
    {**node("broken"), "metadata": {"name": "broken", "labels": ["a"]}},
    {**slice_(gpu("gpu-9"), where="broken"), "spec": {"devices": 7}},
    {**pod("gpu", name="broken"), "spec": []},
    {**claim(request(), name="broken"), "spec": "devices"},
]


def world(broken: Obj) -> list[SourceObject]:
    good = [
        device_class(),
        node("node-a"),
        slice_(gpu("gpu-0"), where="node-a"),
        claim(request(count=2, allocationMode="ExactCount")),
        pod("gpu"),
    ]
    objects = [broken, *good]
    for number, obj in enumerate(objects):
        obj["metadata"] |= {"uid": f"uid-{number}", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return [SourceObject(f"dump: items[{number}]", obj) for number, obj in enumerate(objects)]


@pytest.mark.parametrize("broken", BROKEN, ids=["node", "labels", "slice", "pod", "claim"])
@pytest.mark.parametrize("explains", [explain_pod, explain_claim])
def test_a_broken_object_is_named_and_the_rest_is_explained(broken: Obj, explains) -> None:
    name = "asked" if explains is explain_pod else "gpu"
    told = explains(world(broken), ("default", name), now_ms=NOW_MS, features=Features())

    assert "ask for 1 device instead of 2" in told.advice
    assert any(note.startswith("dump: items[0]: ") for note in told.notes)


@pytest.mark.parametrize("explains", [explain_pod, explain_claim])
def test_a_slice_without_a_spec_stops_no_explanation(explains) -> None:
    broken = {key: value for key, value in slice_(gpu("gpu-9"), where="broken").items() if key != "spec"}
    name = "asked" if explains is explain_pod else "gpu"

    told = explains(world(broken), ("default", name), now_ms=NOW_MS, features=Features())

    assert "ask for 1 device instead of 2" in told.advice
