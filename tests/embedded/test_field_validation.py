"""Fields that a kind does not have: refused as `kubectl apply` is, by every way in that asks for it."""

from __future__ import annotations

import copy
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.embedded.kinds.catalog import default_registry
from scheduler.embedded.seed import seed_objects
from scheduler.embedded.server.field_validation import check_fields
from scheduler.embedded.server.object_store import ObjectStore
from scheduler.embedded.server.rest import Api
from scheduler.embedded.server.statuses import ApiError
from tests.embedded.rest_client import RestClient
from tests.storage_builders import volume_claim_object, volume_object

ROOT = Path(__file__).resolve().parents[2]
REGISTRY = default_registry()
POD_SPEC: dict[str, Any] = {"containers": [{"name": "a", "image": "i"}]}
REQUESTS: dict[str, Any] = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}
TEMPLATED: dict[str, Any] = {
    "selector": {"matchLabels": {"a": "b"}},
    "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC},
}
SPECS: dict[str, dict[str, Any]] = {
    "PersistentVolume": volume_object("x")["spec"],
    "PersistentVolumeClaim": volume_claim_object("x")["spec"],
    "Pod": POD_SPEC,
    "Deployment": TEMPLATED,
    "ReplicaSet": TEMPLATED,
    "StatefulSet": TEMPLATED,
    "DaemonSet": TEMPLATED,
    "Job": {"template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}},
    "ResourceClaim": REQUESTS,
    "ResourceClaimTemplate": {"spec": REQUESTS},
    "ResourceSlice": {
        "driver": "d",
        "nodeName": "n",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "a"}],
    },
    "DeviceTaintRule": {"taint": {"key": "a", "effect": "NoSchedule"}},
}


def refusal(obj: dict[str, Any], *, suggests: bool = False) -> str:
    kind = REGISTRY.by_kind(obj["apiVersion"], obj["kind"])
    assert kind is not None
    try:
        check_fields(kind, obj, suggests=suggests)
    except ApiError as error:
        return f"{error.message}" if error.code == 400 else f"code {error.code}"
    return ""


def pod(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {**POD_SPEC, **spec}}


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        pytest.param(pod(nodeSelectors={}), 'unknown field "spec.nodeSelectors"', id="pod-spec"),
        pytest.param({**pod(), "specs": {}}, 'unknown field "specs"', id="top"),
        pytest.param(
            pod(containers=[{"name": "a", "image": "i", "resource": {}}]),
            'unknown field "spec.containers[0].resource"',
            id="in-a-list",
        ),
        pytest.param(pod(priority="high"), 'cannot unmarshal string into field "spec.priority" of type int', id="type"),
        pytest.param(
            pod(containers={}), 'cannot unmarshal object into field "spec.containers" of type list', id="list"
        ),
        pytest.param({**pod(), "spec": "text"}, 'cannot unmarshal string into field "spec"', id="spec-is-text"),
        pytest.param(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"a": 1}}},
            'cannot unmarshal number into field "metadata.labels.a" of type string',
            id="label-is-a-number",
        ),
        pytest.param(
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "spec": {**TEMPLATED, "template": {"spec": {**POD_SPEC, "resourceClaimTemplates": []}}},
            },
            'unknown field "spec.template.spec.resourceClaimTemplates"',
            id="template-of-a-workload",
        ),
        pytest.param(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "c"}]}},
            },
            'unknown field "spec.devices.requests[0].deviceClassName"',
            id="claim-in-an-old-shape",
        ),
    ],
)
def test_what_a_kind_does_not_have_is_refused(obj: dict[str, Any], want: str) -> None:
    text = refusal(obj)

    assert text.startswith(f'{obj["kind"]} in version "v1" cannot be handled as a {obj["kind"]}: strict decoding error')
    assert want in text


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        pytest.param(pod(priority=True), 'cannot unmarshal bool into field "spec.priority" of type int', id="bool"),
        pytest.param(
            pod(hostNetwork=1), 'cannot unmarshal number into field "spec.hostNetwork" of type bool', id="no-bool"
        ),
        pytest.param(
            pod(containers=[{"resources": {"limits": {"cpu": True}}}]),
            'cannot unmarshal bool into field "spec.containers[0].resources.limits.cpu" of type string',
            id="amount",
        ),
        pytest.param(pod(containers=[None]), 'null in list "spec.containers"', id="null-in-a-list"),
        pytest.param(
            pod(nodeSelector={1: 2}),
            'cannot unmarshal number into field "spec.nodeSelector.1" of type string',
            id="key-is-a-number",
        ),
        pytest.param(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"ownerReferences": [{"name": "a"}, {"name": ["b"]}]},
            },
            'cannot unmarshal array into field "metadata.ownerReferences[1].name" of type string',
            id="in-the-second",
        ),
    ],
)
def test_only_the_wrong_value_is_told_with_its_place(obj: dict[str, Any], want: str) -> None:
    assert refusal(obj).endswith(f"strict decoding error: {want}")


def test_ten_things_that_are_wrong_are_told() -> None:
    text = refusal(pod(**{f"no{number}": 1 for number in range(1_000)}))

    assert text.endswith('unknown field "spec.no9", …')
    assert text.count("unknown field") == 10


def test_the_nearest_field_is_named_where_asked_for() -> None:
    assert "(did you mean nodeSelector?)" in refusal(pod(nodeSelectors={}), suggests=True)


def test_quantities_may_be_numbers_and_parameters_are_the_drivers() -> None:
    resources = {"requests": {"cpu": 2, "memory": "1Gi"}, "limits": {"cpu": 2.5}}
    assert refusal(pod(containers=[{"name": "a", "image": "i", "resources": resources}])) == ""
    config = [{"opaque": {"driver": "d", "parameters": {"anything": [{"goes": None}]}}}]
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "spec": {"devices": {**REQUESTS["devices"], "config": config}},
    }
    assert refusal(claim) == ""


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "examples").rglob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_have_no_unknown_fields(path: Path) -> None:
    for obj in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        if REGISTRY.by_kind(obj["apiVersion"], obj["kind"]) is not None:
            assert refusal(obj) == ""


@pytest.mark.parametrize("kind", REGISTRY.kinds, ids=lambda kind: f"{kind.kind}-{kind.version}")
def test_every_kind_that_is_served_is_known(kind: Any) -> None:
    with pytest.raises(ApiError, match="unknown field"):
        check_fields(kind, {"metadata": {"name": "x"}, "nothingLikeThis": {}})


@pytest.mark.parametrize("kind", REGISTRY.kinds, ids=lambda kind: f"{kind.kind}-{kind.version}")
def test_an_object_that_loses_its_spec_is_refused_or_stored_and_breaks_nothing(kind: Any) -> None:
    api = Api(REGISTRY, ObjectStore(watch_window=100))
    seed_objects(api)
    namespace = "default" if kind.is_namespaced else ""
    obj: dict[str, Any] = {"metadata": {"name": "x"}}
    if kind.kind in SPECS:
        obj["spec"] = copy.deepcopy(SPECS[kind.kind])
    if kind.kind == "Event":
        obj |= {"type": "Normal", "involvedObject": {}}
    if kind.kind == "StorageClass":
        obj |= {"provisioner": "csi.example.com"}
    if kind.storage:
        return  # a view of another kind
    api.create(kind, namespace, obj)

    # Any other exception than a refusal fails the test.
    with suppress(ApiError):
        assert api.update(kind, namespace, "x", lambda _: {"metadata": {"name": "x"}}).name == "x"


async def test_strict_validation_is_asked_for_by_the_client(api: RestClient) -> None:
    path = f"/api/v1/namespaces/{api.namespace}/pods"
    wrong = {"metadata": {"name": "strict"}, "spec": {**POD_SPEC, "nodeSelectors": {"a": "b"}}}

    refused = await api.post(f"{path}?fieldValidation=Strict", wrong)
    accepted = await api.post(f"{path}?fieldValidation=Ignore", wrong)

    assert refused.status == 400
    assert 'strict decoding error: unknown field "spec.nodeSelectors"' in refused.body["message"]
    assert accepted.status == 201
