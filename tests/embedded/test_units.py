"""The small parts of the embedded cluster that the contract tests do not reach."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from scheduler.embedded.cluster import EmbeddedCluster
from scheduler.embedded.loading import restorable
from scheduler.embedded.server.columns import human_duration
from scheduler.embedded.server.incoming import drop_nulls
from scheduler.embedded.server.list_rules import rules_of_apply, rules_of_patch
from scheduler.embedded.server.object_store import ExpiredError, ObjectStore
from scheduler.embedded.server.patches import apply_merge_patch, apply_strategic_merge_patch
from scheduler.embedded.server.protobuf import decode_object
from scheduler.embedded.server.statuses import ApiError


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (10_800, "3h"),
        (10_860, "3h1m"),
        (28_800, "8h"),
        (172_800, "2d"),
        (180_000, "2d2h"),
        (691_200, "8d"),
        (63_072_000, "2y"),
        (63_158_400, "2y1d"),
        (315_360_000, "10y"),
    ],
)
def test_ages_read_as_in_kubectl(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text


# -- objects of dumps ------------------------------------------------------------------------------


def _slice(**device: Any) -> dict[str, Any]:
    devices = [{"name": "one"}, {"name": "two", **device}]
    metadata = {"name": "slice", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": metadata,
        "spec": {"driver": "d", "pool": {"name": "p"}, "devices": devices},
    }


@pytest.mark.parametrize(
    ("device", "stored"),
    [
        ({"taints": [{"key": "k", "timeAdded": "2026-01-01T00:00:00Z"}]}, None),
        ({"nodeAllocatableResourceMappings": {"cpu": {"allocationMultiplier": "2"}}}, None),
        ({"capacity": {"memory": {"value": "1Gi"}}}, None),
        ({"bindsToNode": None}, {}),
        (
            {"nodeAllocatableResourceMappings": {"cpu": {"capacityKey": "memory"}}},
            {"nodeAllocatableResourceMappings": {"cpu": {"capacityKey": "memory", "allocationMultiplier": "1"}}},
        ),
    ],
)
def test_a_slice_of_a_dump_stays_as_it_was_given(device: dict[str, Any], stored: dict[str, Any] | None) -> None:
    """It is stored without a copy where it is complete, and else in one."""
    given = _slice(**device)
    before = copy.deepcopy(given)
    spec = restorable(EmbeddedCluster(controllers=False).api, given).obj["spec"]

    assert given == before
    assert (spec is given["spec"]) == (stored is None)
    assert spec == (_slice(**device) if stored is None else _slice(**stored))["spec"]


@pytest.mark.parametrize("value", ["1Gi", 2, None, "much"])
def test_of_amounts_written_alike_none_is_overlooked(value: Any) -> None:
    api = EmbeddedCluster(controllers=False).api
    given = _slice(capacity={"a": {"value": "1"}, "b": {"value": "1"}, "c": {"value": value}})
    if value != "much":
        restorable(api, given)
        return
    with pytest.raises(ApiError, match="cannot be handled as a ResourceSlice: quantities must match"):
        restorable(api, given)


# -- store -----------------------------------------------------------------------------------------


def _put(store: ObjectStore, name: str) -> int:
    return store.put("things", "ns", name, {"metadata": {"name": name}}).revision


def test_store_lists_in_the_order_of_etcds_keys() -> None:
    store = ObjectStore(watch_window=10)
    for namespace, name in (("a-b", "x"), ("a", "y"), ("a", "b"), ("a", "b-c")):
        store.put("things", namespace, name, {"metadata": {"name": name}})
    assert [stored.key for stored in store.listed("things")] == ["a-b/x", "a/b", "a/b-c", "a/y"]
    assert [stored.name for stored in store.listed("things", "a")] == ["b", "b-c", "y"]


@pytest.mark.parametrize("window", [1, 2, 5])
def test_store_history_reaches_back_exactly_its_window(window: int) -> None:
    store = ObjectStore(watch_window=window)
    revisions = [_put(store, "a") for _ in range(20)]
    assert [change.revision for change in store.since("things", revisions[-window - 1])] == revisions[-window:]
    with pytest.raises(ExpiredError):
        store.since("things", revisions[-window - 2])


def test_store_forgets_the_history_of_kinds_it_has_not_seen() -> None:
    store = ObjectStore(watch_window=10)
    first = _put(store, "a")
    store.forget_history()
    assert not store.is_reachable("others", first - 1)
    assert store.since("others", first) == []


def test_store_needs_a_window() -> None:
    with pytest.raises(ValueError, match="watch_window must be at least 1"):
        ObjectStore(watch_window=0)


# -- patches ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "patch", "wanted"),
    [
        # The examples of RFC 7386, appendix A.
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_as_the_rfc_says(target: object, patch: object, wanted: object) -> None:
    assert apply_merge_patch(target, patch) == wanted


def _containers(*containers: dict[str, object]) -> dict[str, object]:
    return {"spec": {"containers": list(containers)}}


def test_strategic_merge_reaches_into_keyed_lists() -> None:
    pod = _containers({"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "b", "image": "1"})
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
            "containers": [
                {"name": "a", "image": "2", "env": [{"name": "Y", "value": "2"}, {"name": "X", "$patch": "delete"}]}
            ],
        }
    }
    merged = apply_strategic_merge_patch(pod, patch, rules_of_patch("Pod"))
    assert merged == _containers(
        {"name": "b", "image": "1"}, {"name": "a", "image": "2", "env": [{"name": "Y", "value": "2"}]}
    )


def test_strategic_merge_retains_keys() -> None:
    deployment = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    merged = apply_strategic_merge_patch(deployment, patch, rules_of_patch("Deployment"))
    assert merged == {"spec": {"strategy": {"type": "Recreate"}}}


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ({"spec": {"containers": [{"image": "2"}]}}, "does not contain declared merge key: name"),
        ({"spec": {"containers": ["x"]}}, "expected an object in field spec.containers"),
        ({"spec": {"$patch": "explode"}}, 'Unknown patch type "explode" in field "spec"'),
    ],
)
def test_strategic_merge_refuses_what_it_cannot_place(patch: dict[str, object], text: str) -> None:
    with pytest.raises(ApiError, match=text):
        apply_strategic_merge_patch(_containers({"name": "a"}), patch, rules_of_patch("Pod"))


def test_apply_tells_entries_apart_by_all_their_keys() -> None:
    """Strategic merge takes both ports for one, as in a real cluster."""
    tcp, udp = {"containerPort": 53, "name": "t"}, {"containerPort": 53, "protocol": "UDP", "name": "u"}
    pod = {"spec": {"containers": [{"name": "a", "ports": [tcp, udp]}], "nodeSelector": {"zone": "a"}}}
    changed = {
        "spec": {
            "containers": [{"name": "a", "ports": [{**udp, "name": "v"}, {**tcp, "protocol": "TCP"}]}],
            "nodeSelector": {"disk": "fast"},
        }
    }

    merged = apply_strategic_merge_patch(pod, changed, rules_of_apply("Pod"))

    assert merged == {
        "spec": {
            "containers": [{"name": "a", "ports": [{**tcp, "protocol": "TCP"}, {**udp, "name": "v"}]}],
            "nodeSelector": {"disk": "fast"},
        }
    }


def test_devices_of_a_status_are_one_by_driver_pool_device_and_share() -> None:
    def device(name: str, **more: object) -> dict[str, object]:
        return {"driver": "d", "pool": "p", "device": name, **more}

    claim = {"status": {"devices": [device("a"), device("a", shareID="1")]}}
    patch = {"status": {"devices": [device("a", data={"x": 1}), device("b")]}}

    merged = apply_strategic_merge_patch(claim, patch, rules_of_apply("ResourceClaim"))

    assert merged["status"]["devices"] == [device("a", data={"x": 1}), device("a", shareID="1"), device("b")]


# -- bodies ----------------------------------------------------------------------------------------


def test_nulls_go_but_for_those_of_drivers() -> None:
    body = {"a": None, "b": [{"c": None, "d": 0}], "config": [{"opaque": {"parameters": {"keep": None}}}]}
    drop_nulls(body)
    assert body == {"b": [{"d": 0}], "config": [{"opaque": {"parameters": {"keep": None}}}]}


def _message(*fields: tuple[int, bytes]) -> bytes:
    return b"".join(bytes([number << 3 | 2, len(value)]) + value for number, value in fields)


def _envelope(kind: bytes, raw: bytes) -> bytes:
    return b"k8s\x00" + _message((1, _message((1, b"v1"), (2, kind))), (2, raw))


def test_protobuf_of_a_namespace() -> None:
    metadata = _message((1, b"team"), (2, b""), (11, _message((1, b"k"), (2, b"v"))))
    body = _envelope(b"Namespace", _message((1, metadata), (2, b""), (3, _message((1, b"")))))
    assert decode_object(body) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team", "labels": {"k": "v"}},
    }


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        (b"{}", 400, "no Kubernetes protobuf: it begins with"),
        (_envelope(b"Secret", b""), 415, "kind Secret"),
        (_envelope(b"ConfigMap", _message((3, _message((1, b"k"), (2, b"v"))))), 415, "field 3 of ConfigMap"),
        (_envelope(b"Namespace", b"\x0a\x7f"), 400, "ends in the middle"),
        (_envelope(b"Namespace", b"\x80"), 400, "in the middle of a number"),
    ],
)
def test_protobuf_that_is_not_understood_is_refused(body: bytes, code: int, text: str) -> None:
    with pytest.raises(ApiError, match=text) as refused:
        decode_object(body)
    assert refused.value.code == code
