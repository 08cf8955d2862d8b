"""Kinds that are watched for plugins: what is read of them, and what their absence costs."""

from __future__ import annotations

import json
import logging

import pytest

from scheduler.core.ground.inputs import Observed, RelistFinished
from scheduler.core.observation import ALWAYS_WATCHED, KINDS
from scheduler.core.state.storage_objects import STORAGE_KINDS
from scheduler.kube.codec import Codec
from scheduler.kube.outcomes import UndecodableError
from scheduler.kube.plugin_kinds import PLUGIN_KINDS
from scheduler.model.disruption_budget import DISRUPTION_BUDGET, DisruptionBudget
from scheduler.model.keys import ObjectKey
from scheduler.model.label_selectors import NOTHING, compile_label_selector
from scheduler.model.objects import LabelSelector, NodeSelectorRequirement
from scheduler.model.pod_selectors import SELECTOR_KINDS, PodSelector
from scheduler.model.storage import PersistentVolume, PersistentVolumeClaim
from tests import storage_builders as made
from tests.kube.misbehaving import added, bookmark, misbehaving, reply, status, watch
from tests.kube.test_watch import reflecting
from tests.observed import observed

SERVED = reply({"resources": [{"name": "csinodes"}, {"name": "persistentvolumes"}]})
FORBIDDEN = status(403, "Forbidden", 'csinodes.storage.k8s.io is forbidden: User "u" cannot list resource "csinodes"')
LISTED = watch(added(made.csi_node_object("a", {"d": 1}, revision=3)), bookmark(9, ends_initial=True), then="hang")


def event(obj: dict) -> bytes:
    return json.dumps({"type": "ADDED", "object": obj}).encode()


def test_the_table_has_exactly_the_kinds_of_the_core():
    names = [kind.name for kind in PLUGIN_KINDS]
    assert sorted(names) == sorted({*STORAGE_KINDS, *SELECTOR_KINDS, DISRUPTION_BUDGET})
    assert set(names) <= KINDS.keys()
    assert all(kind.cost for kind in PLUGIN_KINDS)


def test_every_kind_that_is_watched_has_a_row_in_the_core_and_every_row_is_watched():
    assert {kind.name for kind in Codec(reads=KINDS).kinds} == KINDS.keys()
    assert {kind.name for kind in Codec().kinds} == ALWAYS_WATCHED.keys()


def test_only_what_plugins_read_is_watched():
    always = [kind.name for kind in Codec().kinds]
    some = [kind.name for kind in Codec(reads={"CSINode", "Pod"}).kinds]
    assert some == [*always[:-1], "CSINode", always[-1]]


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (made.volume_object("pv", claim="d/c", zone="z"), made.volume),
        (made.volume_claim_object("data", volume_name="pv"), made.volume_claim),
        (made.csi_node_object("n", {"csi.example.com": 3}), made.csi_node),
        (made.storage_class_object(), made.storage_class),
    ],
    ids=["volume", "claim", "csi-node", "class"],
)
def test_storage_objects_are_decoded(obj, expected):
    seen = Codec().for_plugins[obj["kind"]].decode_event(event(obj))
    assert type(seen.input.object).__name__ == obj["kind"]
    assert seen.input == observed(seen.input.object, int(obj["metadata"]["resourceVersion"]))


def selecting(kind: str, selector: object) -> dict:
    metadata = {"name": "web", "namespace": "team", "uid": "u", "resourceVersion": "5", "annotations": {"long": "x"}}
    return {"kind": kind, "metadata": metadata, "spec": {"selector": selector, "template": {"spec": {"any": 1}}}}


EXPRESSIONS = [{"key": "tier", "operator": "Exists"}]


@pytest.mark.parametrize(
    ("kind", "selector", "labels", "expressions"),
    [
        ("Service", {"b": "2", "a": "1"}, (("a", "1"), ("b", "2")), ()),
        ("Service", None, (), ()),
        ("ReplicationController", {"a": "1"}, (("a", "1"),), ()),
        ("ReplicaSet", {"matchLabels": {"a": "1"}}, (("a", "1"),), ()),
        ("StatefulSet", {"matchExpressions": EXPRESSIONS}, (), (NodeSelectorRequirement("tier", "Exists"),)),
        ("StatefulSet", None, (), ()),
    ],
)
def test_of_what_selects_pods_only_the_selector_is_kept(kind, selector, labels, expressions):
    seen = Codec().for_plugins[kind].decode_event(event(selecting(kind, selector)))
    key = ObjectKey("team", "web")
    assert seen.input == Observed(kind, key, "u", 5, PodSelector(kind, key, labels, expressions))


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        (
            {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
            {"disruptionsAllowed": 2, "disruptedPods": {"web-1": "2026-01-01T00:00:00Z"}, "currentHealthy": 4},
            (compile_label_selector(LabelSelector({"app": "web"})), 2, frozenset({"web-1"})),
        ),
        ({"selector": {}}, {"disruptedPods": None}, (compile_label_selector(LabelSelector()), 0, frozenset())),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}, {}, (NOTHING, 0, frozenset())),
        ({}, {}, (NOTHING, 0, frozenset())),
    ],
    ids=["counted", "all-pods", "unreadable-selector", "no-selector"],
)
def test_of_a_budget_its_selector_and_what_it_allows_are_kept(spec, status, expected):
    metadata = {"name": "web", "namespace": "team", "uid": "u", "resourceVersion": "5"}
    kind, key = Codec().for_plugins[DISRUPTION_BUDGET], ObjectKey("team", "web")
    seen = kind.decode_event(event({"kind": DISRUPTION_BUDGET, "metadata": metadata, "spec": spec, "status": status}))
    assert seen.input == Observed(DISRUPTION_BUDGET, key, "u", 5, DisruptionBudget(key, *expected))


def test_the_reply_to_a_write_is_the_volume_or_the_claim():
    codec = Codec()
    volume = json.dumps(made.volume_object("pv", revision=8)).encode()
    claim = json.dumps(made.volume_claim_object("data", revision=9)).encode()
    assert codec.decode_volume(volume, PersistentVolume).revision == 8
    assert codec.decode_volume(claim, PersistentVolumeClaim).revision == 9
    with pytest.raises(UndecodableError, match="PersistentVolume"):
        codec.decode_volume(b"<html>", PersistentVolume)


def told(running) -> list[str]:
    return [
        one.object.name
        if isinstance(one, Observed)
        else f"{'=' if one.is_readable else '!'}{one.kind}"
        if isinstance(one, RelistFinished)
        else ""
        for one in running.told.inputs
    ]


@pytest.mark.parametrize(
    ("answers", "told_as"),
    [
        ([reply({"resources": []})], "=CSINode"),
        ([status(404, "NotFound", "the server could not find the requested resource")], "=CSINode"),
        ([SERVED, FORBIDDEN], "!CSINode"),
    ],
    ids=["kind-not-served", "group-not-served", "forbidden"],
)
async def test_a_kind_that_cannot_be_read_counts_as_empty_is_named_once_and_asked_for_again(answers, told_as, caplog):
    caplog.set_level(logging.INFO, "scheduler.kube.watch")
    kind = Codec().for_plugins["CSINode"]
    async with (
        misbehaving(*answers, *answers, SERVED, LISTED) as server,
        reflecting(server, kind=kind) as running,
    ):
        await running.told.relisted(times=2)

        assert told(running) == [told_as, "a", "=CSINode"]
        assert running.pauses.seconds == [60.0, 60.0]
        assert running.reports.refused_ever == []
        assert not running.reflector.stats.is_absent
    warnings = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert kind.cost in warnings[0]


async def test_what_is_known_is_kept_when_it_is_forbidden_later():
    first = watch(added(made.csi_node_object("a", {"d": 1}, revision=3)), bookmark(9, ends_initial=True), then="close")
    async with (
        misbehaving(SERVED, first, FORBIDDEN, SERVED, FORBIDDEN, SERVED, LISTED) as server,
        reflecting(server, kind=Codec().for_plugins["CSINode"]) as running,
    ):
        await running.pauses.reached(2)
        assert told(running) == ["a", "=CSINode", "!CSINode"]
        assert not running.reflector.stats.is_absent
        await running.told.relisted(times=3)
        assert told(running)[-1] == "=CSINode"


async def test_kinds_of_the_core_group_are_found_too():
    async with (
        misbehaving(SERVED, watch(bookmark(9, ends_initial=True), then="hang")) as server,
        reflecting(server, kind=Codec().for_plugins["PersistentVolume"]) as running,
    ):
        await running.told.relisted()
        assert [asked.path for asked in server.asked] == ["/api/v1", "/api/v1/persistentvolumes"]
