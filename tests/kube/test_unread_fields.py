"""PodGroups and taint rules with fields that nobody here acts on: their pods wait, the rule taints nothing."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from allocator.values.json_fields import UNREAD_MAX
from scheduler.kube.codec import Codec
from scheduler.kube.unread_fields import Harmless, decode_read
from scheduler.kube.watched_kind import Broken, Seen
from scheduler.model.objects import Record
from scheduler.model.pod_group import Disrupted
from tests.kube.test_codec import meta

POLICY = {"gang": {"minCount": 2}}


def group(**spec: Any) -> bytes:
    return json.dumps({"kind": "PodGroup", "metadata": meta("g", 7, "default"), "spec": spec, "status": {}}).encode()


@pytest.mark.parametrize(
    ("spec", "unread"),
    [
        ({}, ()),
        ({"priority": 5, "priorityClassName": "x", "preemptionPolicy": "Never", "disruptionMode": {"single": {}}}, ()),
        ({"workloadRef": {"workloadName": "w"}, "podGroupTemplateRef": {"workload": {}}}, ()),
        ({"disruptionMode": "Pod"}, ()),
        ({"disruptionMode": "PodGroup"}, ()),
        ({"disruptionMode": "Pods"}, ("spec.disruptionMode",)),
        ({"disruptionMode": {"all": {}}}, ()),
        ({"disruptionMode": {"most": {}}}, ("spec.disruptionMode.most",)),
        ({"schedulingConstraints": {}}, ()),
        ({"schedulingConstraints": {"topology": []}}, ()),
        ({"schedulingConstraints": {"topology": [{"key": "rack"}]}}, ()),
        (
            {"schedulingConstraints": {"topology": [{"key": "rack"}, {"key": "zone"}]}},
            ("spec.schedulingConstraints.topology[1]",),
        ),
        (
            {"schedulingConstraints": {"topology": [{"key": "rack", "newer": 1}]}},
            ("spec.schedulingConstraints.topology[0].newer",),
        ),
        ({"parentCompositePodGroupName": "p"}, ("spec.parentCompositePodGroupName",)),
        ({"newer": 0, "newest": None}, ("spec.newer",)),
        ({"schedulingPolicy": {"gang": {"minCount": 2, "newer": 1}}}, ("spec.schedulingPolicy.gang.newer",)),
        ({"schedulingPolicy": {"newer": {}}}, ("spec.schedulingPolicy.newer",)),
    ],
)
def test_a_pod_group_names_its_unread_fields(spec: dict[str, Any], unread: tuple[str, ...]) -> None:
    seen = Codec().pod_groups.decode_object(group(**{"schedulingPolicy": POLICY, **spec}))

    assert isinstance(seen, Seen)
    made = seen.input.object
    assert made.unread == unread
    assert made.min_count == (None if "newer" in spec.get("schedulingPolicy", {}) else 2), "the rest is read"


@pytest.mark.parametrize(
    ("spec", "read"),
    [
        ({}, (0, None, None, None)),
        ({"priority": 5, "preemptionPolicy": "Never"}, (5, "Never", None, None)),
        ({"disruptionMode": {"single": {}, "all": None}}, (0, None, Disrupted.ALONE, None)),
        ({"disruptionMode": {"all": {}}}, (0, None, Disrupted.TOGETHER, None)),
        ({"disruptionMode": "Pod"}, (0, None, None, None)),
        ({"disruptionMode": "PodGroup"}, (0, None, Disrupted.TOGETHER, None)),
        ({"schedulingConstraints": {"topology": [{"key": "rack"}]}}, (0, None, None, "rack")),
    ],
)
def test_what_a_pod_group_says_is_read(spec: dict[str, Any], read: tuple[Any, ...]) -> None:
    seen = Codec().pod_groups.decode_object(group(**spec))

    assert isinstance(seen, Seen)
    made = seen.input.object
    assert (made.priority, made.preemption_policy, made.disrupted, made.topology_key) == read


def test_what_is_wrong_otherwise_is_still_said() -> None:
    seen = Codec().pod_groups.decode_object(group(schedulingPolicy={"gang": {"minCount": "two"}}))
    assert isinstance(seen, Broken)
    assert "minCount" in seen.reason


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"newer": 1}, "spec.newer"),
        ({"deviceSelector": {"driver": "d", "newer": "x"}}, "spec.deviceSelector.newer"),
        ({"taint": {"key": "k", "effect": "NoSchedule", "newer": 1}}, "spec.taint.newer"),
    ],
)
def test_a_taint_rule_that_is_not_understood_is_left_out_with_the_fields_name(spec: dict[str, Any], path: str) -> None:
    rule = {"metadata": meta("r"), "spec": {"taint": {"key": "k", "effect": "NoSchedule"}, **spec}}
    seen = Codec().taint_rules.decode_object(json.dumps(rule).encode())
    assert isinstance(seen, Broken)
    assert seen.reason.startswith(f"{path}: ")


class Inner(Record, frozen=True, forbid_unknown_fields=True):
    known: int = 0
    ignored: Harmless = None


class Outer(Record, frozen=True):
    items: tuple[Inner, ...] | None = None
    one: Inner | str | None = None


@pytest.mark.parametrize(
    ("given", "unread"),
    [
        ({"anything": 1, "one": {"known": 1, "ignored": {"x": 1}}}, ()),
        ({"one": {"x": 1}, "items": [{}, {"known": 2, "y": 1, "z": None}]}, ("one.x", "items[1].y")),
    ],
)
def test_unread_fields_of_structs_are_named_and_the_rest_is_read(given: Any, unread: tuple[str, ...]) -> None:
    found, paths = decode_read(msgspec.json.Decoder(Outer), json.dumps(given).encode())
    assert paths == unread
    assert found.items is None or [one.known for one in found.items] == [0, 2]


def test_of_many_fields_the_first_are_named_so_that_no_name_can_be_taken_for_the_message() -> None:
    found, paths = decode_read(
        msgspec.json.Decoder(Outer),
        json.dumps({"one": {"a\nb": 1, **{f"x{number}": {} for number in range(10_000)}}}).encode(),
    )
    assert found.one == Inner()
    assert paths == ("one.a?b", *[f"one.x{number}" for number in range(UNREAD_MAX - 1)])
