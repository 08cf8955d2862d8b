"""Bytes to objects: tables of what is decoded and of what is wrong with what is not."""

from __future__ import annotations

import json

import pytest

from allocator import DeviceTaint
from scheduler.kube.codec import Codec
from scheduler.kube.outcomes import UndecodableError
from scheduler.kube.watched_kind import Bookmark, Broken, ErrorEvent, Gone, Ignored, Seen
from scheduler.model.claim import Consumer, DeviceCondition
from scheduler.model.device_taint_rules import DeviceSelector, DeviceTaintRule
from scheduler.model.keys import ClaimKey, ObjectKey, PodKey
from tests.kube.misbehaving import bookmark, event, pod, status_object
from tests.observed import is_of


def meta(name: str, version: object = 7, namespace: str = "") -> dict:
    return {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": str(version)}


CLAIM_SPEC = {
    "devices": {
        "requests": [
            {
                "name": "gpu",
                "exactly": {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 1},
            }
        ]
    }
}
ALLOCATION = {
    "devices": {"results": [{"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}]},
    "nodeSelector": {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]},
        ]
    },
    "allocationTimestamp": "2026-01-02T03:04:05Z",
}


def claim(name: str, version: int = 7, **status: object) -> dict:
    return {
        "metadata": meta(name, version, "default") | {"finalizers": ["resource.kubernetes.io/delete-protection"]},
        "spec": CLAIM_SPEC,
        "status": status,
    }


SLICE = {
    "metadata": meta("node-1-gpus"),
    "spec": {
        "driver": "gpu.example.com",
        "nodeName": "node-1",
        "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "attributes": {"index": {"int": 0}}, "capacity": {"memory": {"value": "80Gi"}}}],
    },
}


def line(kind: str, obj: dict) -> bytes:
    return event(kind, obj).rstrip("\n").encode()


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED"])
def test_pod_event_carries_the_pod(kind):
    decoded = Codec().pods.decode_event(line(kind, pod("a", 12, node="node-1")))

    assert isinstance(decoded, Seen)
    assert (decoded.name, decoded.uid, decoded.resource_version) == (ObjectKey("default", "a"), "uid-a", "12")
    assert decoded.input.object.node_name == "node-1"


def test_pod_with_pod_affinity_is_decoded():
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}

    decoded = Codec().pods.decode_event(line("ADDED", pod("a", 12, affinity=affinity)))

    assert isinstance(decoded, Seen), decoded


def test_deleted_object_needs_no_more_than_its_name():
    codec = Codec()
    whole = codec.pods.decode_event(line("DELETED", pod("a", 12)))
    partly = codec.pods.decode_event(line("DELETED", pod("a", 12) | {"spec": 7}))

    assert whole == partly == Gone(ObjectKey("default", "a"), "uid-a", "12")


def taint_rule(**selector) -> dict:
    taint = {"key": "example.com/broken", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
    return {"metadata": meta("rule"), "spec": {"taint": taint, **selector}, "status": {"conditions": []}}


@pytest.mark.parametrize(
    ("spec", "selector"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"deviceSelector": {}}, DeviceSelector(), id="any"),
        pytest.param(
            {"deviceSelector": {"driver": "d", "pool": "p", "device": "x"}}, DeviceSelector("d", "p", "x"), id="one"
        ),
    ],
)
def test_taint_rule_is_decoded(spec, selector):
    decoded = Codec().taint_rules.decode_event(line("ADDED", taint_rule(**spec)))

    taint = DeviceTaint("example.com/broken", "", "NoSchedule", "2026-01-01T00:00:00Z")
    assert decoded.input.object == DeviceTaintRule("rule", selector, taint)


@pytest.mark.parametrize("field", [{"deviceClassName": "gpu"}, {"selectors": [{"cel": {"expression": "true"}}]}])
def test_taint_rule_with_a_selector_of_the_past_is_not_taken_for_one_that_selects_all(field):
    decoded = Codec().taint_rules.decode_event(line("ADDED", taint_rule(deviceSelector=field)))

    assert isinstance(decoded, Broken)
    assert f"spec.deviceSelector.{next(iter(field))}" in decoded.reason


def test_each_kind_has_its_inputs():
    codec = Codec()
    node = codec.nodes.decode_event(line("ADDED", {"metadata": meta("n"), "spec": {}, "status": {}}))
    namespace = codec.namespaces.decode_event(line("ADDED", {"metadata": meta("ns")}))
    class_ = codec.classes.decode_event(line("ADDED", {"metadata": meta("c"), "spec": {}}))
    slice_ = codec.slices.decode_event(line("ADDED", SLICE))

    inputs = [one.input for one in (node, namespace, class_, slice_)]
    said = [(one.kind, one.key, one.uid, one.revision) for one in inputs]
    assert said == [
        ("Node", ("", "n"), "uid-n", 7),
        ("Namespace", ("", "ns"), "uid-ns", 7),
        ("DeviceClass", ("", "c"), "uid-c", 7),
        ("ResourceSlice", ("", "node-1-gpus"), "uid-node-1-gpus", 7),
    ]
    assert slice_.input.object.devices[0].name == "gpu-0"
    assert [kind.name for kind in codec.kinds] == [
        "Node",
        "ResourceSlice",
        "DeviceClass",
        "DeviceTaintRule",
        "Namespace",
        "PodGroup",
        "ResourceClaim",
        "Pod",
    ]


def test_claim_carries_allocation_reservations_and_conditions():
    decoded = Codec().claims.decode_event(
        line(
            "MODIFIED",
            claim(
                "c",
                allocation=ALLOCATION,
                reservedFor=[{"resource": "pods", "name": "a", "uid": "uid-a"}],
                devices=[
                    {
                        "driver": "gpu.example.com",
                        "pool": "node-1",
                        "device": "gpu-0",
                        "conditions": [{"type": "Ready", "status": "True", "reason": "Attached", "message": "done"}],
                    }
                ],
            ),
        )
    )

    assert isinstance(decoded, Seen)
    assert is_of(decoded.input, "ResourceClaim")
    seen = decoded.input.object
    assert seen.key == ClaimKey("default", "c")
    assert seen.revision == 7
    assert [str(one.device) for one in seen.allocation.results] == ["gpu-0"]
    assert seen.allocation_timestamp == "2026-01-02T03:04:05Z"
    assert seen.reserved_for == (Consumer("pods", "a", "uid-a"),)
    assert seen.is_reserved_for("uid-a")
    assert seen.device_conditions == (
        DeviceCondition("gpu.example.com", "node-1", "gpu-0", "Ready", "True", "Attached", "done"),
    )
    assert seen.finalizers == ("resource.kubernetes.io/delete-protection",)
    assert seen.problem is None


def test_claims_of_one_template_share_their_spec():
    codec = Codec()
    first, second = (codec.claims.decode_event(line("ADDED", claim(name))) for name in ("a", "b"))

    assert first.input.object.spec is second.input.object.spec


@pytest.mark.parametrize("status", [{"allocation": None}, {}, None], ids=["null", "absent", "no-status"])
def test_claim_without_allocation(status):
    obj = claim("c") | ({"status": status} if status is not None else {})

    assert Codec().claims.decode_event(line("ADDED", obj)).input.object.allocation is None


def test_claim_whose_spec_or_allocation_is_broken_is_observed_with_its_problem():
    bad_spec = {"devices": {"requests": [{"name": "x", "exactly": {"deviceClassName": 3}}]}}
    decoded = Codec().claims.decode_event(line("ADDED", claim("c", allocation=5) | {"spec": bad_spec}))

    seen = decoded.input.object
    assert seen.spec is None
    assert seen.allocation is None
    assert "spec.devices.requests[0].exactly.deviceClassName: expected a string, got an integer" in seen.problem
    assert "status.allocation: expected an object" in seen.problem


def test_devices_of_an_allocation_that_cannot_be_read_whole_are_not_free():
    taken = {"request": "r", "driver": "d", "pool": "p", "device": "gpu-0", "consumedCapacity": {"memory": "lots"}}
    watched = {"request": "r", "driver": "d", "pool": "p", "device": "gpu-1", "adminAccess": True}
    allocation = {"devices": {"results": [taken, watched, {"request": "r", "device": 3}, None]}}

    seen = Codec().claims.decode_event(line("ADDED", claim("c", allocation=allocation))).input.object

    assert seen.problem is not None
    assert [tuple(device) for device in seen.allocation.device_ids()] == [("d", "p", "gpu-0")]


@pytest.mark.parametrize(
    ("kind", "obj", "reason"),
    [
        pytest.param(
            "pods",
            pod("x", 1) | {"status": {"phase": 4}},
            "Expected `str`, got `int` - at `$.status.phase`",
            id="pod-with-a-number-as-phase",
        ),
        pytest.param(
            "pods",
            pod("x", 1) | {"metadata": meta("x", "abc", "default")},
            "metadata.resourceVersion: 'abc'",
            id="version",
        ),
        pytest.param(
            "nodes",
            {"metadata": meta("x"), "spec": {"taints": [{"value": "v"}]}},
            "Object missing required field `key` - at `$.spec.taints[0]`",
            id="taint-without-key",
        ),
        pytest.param(
            "slices",
            {"metadata": meta("x"), "spec": SLICE["spec"] | {"devices": [{"name": 5}]}},
            "ResourceSlice x: spec.devices[0].name: expected a string",
            id="device-name-is-a-number",
        ),
        pytest.param(
            "classes",
            {"metadata": meta("x"), "spec": {"selectors": 5}},
            "DeviceClass x: spec.selectors: expected",
            id="class-selectors",
        ),
    ],
)
def test_broken_object_is_named_with_field_and_reason(kind, obj, reason):
    decoded = getattr(Codec(), kind).decode_event(line("ADDED", obj))

    assert isinstance(decoded, Broken)
    assert decoded.name.name == "x"
    assert decoded.reason.startswith(reason)


@pytest.mark.parametrize(
    "text",
    [
        b'{"type":"ADDED","object":{"spec":{}}}',
        b'{"type":"ADDED","object":{"metadata":7}}',
        b'{"type":"ADDED","object":null}',
        b'{"type":"DELETED","object":[]}',
    ],
)
def test_object_without_a_name_is_broken_too(text):
    decoded = Codec().pods.decode_event(text)

    assert isinstance(decoded, Broken)
    assert decoded.name == ObjectKey("", "")


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"null", b'{"type":3}', b'{"kind":"x"}', b'{"type":"NEW","object":{}}', b"\xff\xfe"]
)
def test_line_that_is_no_event_is_ignored(text):
    assert isinstance(Codec().pods.decode_event(text), Ignored)


def test_bookmarks_with_nulls_in_required_lists():
    codec = Codec()

    assert codec.pods.decode_event(bookmark(12).encode()) == Bookmark("12", ends_initial_events=False)
    assert codec.pods.decode_event(bookmark(13, ends_initial=True).encode()) == Bookmark("13", ends_initial_events=True)
    claim_bookmark = {"metadata": {"resourceVersion": "14"}, "spec": {"devices": {"requests": None}}, "status": {}}
    assert codec.claims.decode_event(line("BOOKMARK", claim_bookmark)) == Bookmark("14", ends_initial_events=False)


def test_error_event_carries_the_status():
    codec = Codec()
    throttled = status_object(429, "TooManyRequests", "slow down", retryAfterSeconds=3)

    assert codec.pods.decode_event(line("ERROR", throttled)) == ErrorEvent(429, "TooManyRequests", "slow down", 3.0)
    assert codec.pods.decode_event(b'{"type":"ERROR","object":null}').code == 0


def test_event_with_its_fields_in_another_order():
    text = json.dumps({"object": pod("a", 12), "type": "ADDED"}).encode()

    assert isinstance(Codec().pods.decode_event(text), Seen)


def test_page_holds_what_can_be_decoded_and_says_what_cannot():
    bad = pod("bad", 2) | {"spec": {"containers": 7}}
    body = json.dumps({"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [pod("a", 1), bad]}).encode()

    page = Codec().pods.decode_page(body)

    assert (page.resource_version, page.continue_token) == ("9", "more")
    assert [type(one) for one in page.objects] == [Seen, Broken]
    assert [one.name.name for one in page.objects] == ["a", "bad"]


def test_page_of_nothing():
    assert Codec().pods.decode_page(b'{"metadata":{"resourceVersion":"9"},"items":null}').objects == ()


def test_reply_that_is_no_list_names_what_was_listed():
    with pytest.raises(UndecodableError, match="LIST /api/v1/pods"):
        Codec().pods.decode_page(b"<html>")


def test_single_replies():
    codec = Codec()

    assert codec.decode_pod(json.dumps(pod("a", 3)).encode()).key == PodKey("default", "a")
    assert codec.decode_claim(json.dumps(claim("c")).encode()).uid == "uid-c"
    with pytest.raises(UndecodableError, match=r"ResourceClaim default/c: .*status.reservedFor"):
        codec.decode_claim(json.dumps(claim("c", reservedFor=7)).encode())
    with pytest.raises(UndecodableError, match="Pod"):
        codec.decode_pod(b"{}")


def test_decoded_once_is_bounded():
    codec = Codec()
    for number in range(5000):
        allocation = ALLOCATION | {"allocationTimestamp": f"2026-01-01T00:00:{number}Z"}
        codec.claims.decode_event(line("ADDED", claim("c", number, allocation=allocation)))
    first = codec.claims.decode_event(line("ADDED", claim("c", allocation=ALLOCATION))).input.object

    assert first.allocation_timestamp == "2026-01-02T03:04:05Z"


def test_defect_of_a_decoder_harms_one_object_only(monkeypatch):
    def defective(obj):
        raise KeyError("oops")

    monkeypatch.setattr("scheduler.kube.codec.decode_slice", defective)
    decoded = Codec().slices.decode_event(line("ADDED", SLICE))

    assert decoded == Broken(ObjectKey("", "node-1-gpus"), "uid-node-1-gpus", "7", "KeyError: 'oops'")
