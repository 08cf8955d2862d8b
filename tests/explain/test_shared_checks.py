"""Questions share what was checked of the objects, and nothing else: no answer changes what the next one sees."""

from __future__ import annotations

import copy
from dataclasses import replace

from allocator import Features
from scheduler.explain.world import World
from scheduler.offline import SourceObject
from tests.offline.causes import Obj, claim, device_class, gpu, node, pod, request, slice_

NOW_MS = 1_800_000_000_000


def world() -> World:
    objects: list[Obj] = [device_class(), node("node-a"), slice_(gpu("gpu-0"), where="node-a")]
    objects += [claim(request(count=2, allocationMode="ExactCount")), pod("gpu")]
    for number, obj in enumerate(objects):
        obj["metadata"] |= {"uid": f"uid-{number}", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    given = [SourceObject(f"dump: items[{number}]", obj) for number, obj in enumerate(objects)]
    return World(given, ("default", "asked"), NOW_MS, Features())


def fewer(obj: Obj) -> None:
    obj["spec"]["devices"]["requests"][0]["exactly"]["count"] = 1


def test_a_change_is_seen_by_its_own_question_only() -> None:
    asked = world()
    before = copy.deepcopy([one.obj for one in asked.objects])
    change = ((3, fewer),)

    assert not asked.ask().fits
    assert asked.ask(change).fits
    assert not asked.ask().fits
    assert asked.ask(change).fits
    assert [one.obj for one in asked.objects] == before


def test_the_answers_are_those_without_sharing() -> None:
    asked = world()
    asked.ask()
    again, alone = asked.ask(), replace(asked, checked={}, decoded={}).ask()

    assert len(asked.checked) == len(asked.objects)
    assert sorted(kind for kind, _ in asked.decoded) == ["Node", "ResourceSlice"]
    assert again.verdict == alone.verdict
    stores = [one.answers.cluster.api.store for one in (again, alone)]
    for kind in ("pods", "nodes", "resourceslices.resource.k8s.io", "resourceclaims.resource.k8s.io"):
        first, second = ([stored.body for stored in store.listed(kind)] for store in stores)
        assert first == second


def tainted(obj: Obj) -> None:
    obj["spec"]["devices"][0]["taints"] = [{"key": "broken", "effect": "NoSchedule"}]


def test_a_slice_that_a_change_edits_is_decoded_anew() -> None:
    asked = world()
    asked.objects[3].obj["spec"]["devices"]["requests"][0]["exactly"]["count"] = 1
    change = ((2, tainted),)

    assert asked.ask().fits
    assert not asked.ask(change).fits
    assert asked.ask().fits
    assert len(asked.decoded) == 2
