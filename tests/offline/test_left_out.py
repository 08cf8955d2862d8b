"""What a dump shows of objects: all that is decided by, and nothing that is private."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from scheduler.cli.cluster_objects import _LINTED, _OTHERS
from scheduler.kube.codec import Codec
from scheduler.offline.left_out import shown

PRIVATE = "do-not-show-this"
ENV = {"name": "TOKEN", "value": PRIVATE}
PROBE = {"httpGet": {"port": 1, "httpHeaders": [{"name": "Authorization", "value": PRIVATE}]}}
CONTAINER = {
    "name": "c",
    "image": "example.com/app:1",
    "env": [ENV],
    "envFrom": [{"secretRef": {"name": PRIVATE}}],
    "args": [PRIVATE],
    "command": ["sh", "-c", PRIVATE],
    "livenessProbe": PROBE,
    "lifecycle": {"preStop": {"exec": {"command": [PRIVATE]}}},
    "resources": {"requests": {"cpu": "1"}, "claims": [{"name": "gpu"}]},
    "ports": [{"containerPort": 1, "hostPort": 80}],
}
METADATA = {
    "name": "x",
    "namespace": "team",
    "uid": "u",
    "resourceVersion": "7",
    "labels": {"app": "x"},
    "managedFields": [{"fieldsV1": {PRIVATE: {}}}],
    "annotations": {"kubectl.kubernetes.io/last-applied-configuration": PRIVATE, "notes": PRIVATE},
}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [CONTAINER]}}
CSI = {
    "driver": "d",
    "volumeHandle": "h",
    "volumeAttributes": {"k": PRIVATE},
    "nodePublishSecretRef": {"name": PRIVATE},
}

OBJECTS: list[tuple[str, dict[str, Any]]] = [
    ("Pod", {"spec": {"nodeName": "n", "containers": [CONTAINER], "initContainers": [CONTAINER]}}),
    ("Pod", {"spec": {"ephemeralContainers": [CONTAINER], "imagePullSecrets": [{"name": PRIVATE}]}}),
    ("Pod", {"spec": {"volumes": [{"name": "v", "secret": {"secretName": PRIVATE}}]}}),
    ("Pod", {"spec": {"volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": PRIVATE}}]}}]}}),
    ("Pod", {"spec": {"volumes": [{"name": "v", "csi": CSI}]}}),
    (
        "Pod",
        {
            "spec": {},
            "status": {
                "message": PRIVATE,
                "containerStatuses": [{"name": "c", "lastState": {"terminated": {"message": PRIVATE}}}],
            },
        },
    ),
    ("ReplicaSet", {"spec": {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}}),
    ("StatefulSet", {"spec": {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}}),
    ("ReplicationController", {"spec": {"selector": {"app": "x"}, "template": TEMPLATE}}),
    ("Service", {"spec": {"selector": {"app": "x"}, "externalName": PRIVATE}}),
    ("Node", {"status": {"addresses": [{"type": "ExternalIP", "address": PRIVATE}], "allocatable": {"cpu": "1"}}}),
    ("PersistentVolume", {"spec": {"csi": CSI}}),
    ("StorageClass", {"provisioner": "p", "parameters": {"secret": PRIVATE}}),
    ("VolumeAttachment", {"spec": {}, "status": {"attached": True, "attachmentMetadata": {"k": PRIVATE}}}),
    (
        "ResourceClaimTemplate",
        {"spec": {"metadata": {"annotations": {"notes": PRIVATE}}, "spec": {"devices": {"requests": []}}}},
    ),
]


@pytest.mark.parametrize(("kind", "rest"), OBJECTS)
def test_nothing_private_is_shown(kind: str, rest: dict[str, Any]) -> None:
    whole = {"apiVersion": "v1", "kind": kind, "metadata": METADATA, **rest}
    before = yaml.safe_dump(whole)
    part = shown(whole)

    assert part is not None
    assert PRIVATE not in yaml.safe_dump(part)
    assert PRIVATE in yaml.safe_dump(whole)
    assert yaml.safe_dump(whole) == before
    assert part["metadata"]["labels"] == {"app": "x"}


def test_what_decides_stays() -> None:
    pod = shown({"apiVersion": "v1", "kind": "Pod", "metadata": METADATA, "spec": {"containers": [CONTAINER]}})
    claim_pod = "resource.kubernetes.io/pod-claim-name"
    claim = shown({"kind": "ResourceClaim", "metadata": {"name": "c", "annotations": {claim_pod: "gpu"}}, "spec": {}})

    assert pod is not None
    kept = pod["spec"]["containers"][0]
    assert {key: kept[key] for key in ("resources", "ports")} == {key: CONTAINER[key] for key in ("resources", "ports")}
    assert claim is not None
    assert claim["metadata"]["annotations"] == {claim_pod: "gpu"}


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap", "ServiceAccount", "Event", "Deployment", ""])
def test_other_kinds_are_left_out_whole(kind: str) -> None:
    assert shown({"apiVersion": "v1", "kind": kind, "metadata": METADATA, "data": {"k": PRIVATE}}) is None


def test_every_kind_that_is_read_is_shown() -> None:
    codec = Codec()
    kinds = {*_LINTED, *_OTHERS, codec.taint_rules.name, codec.pod_groups.name}

    assert {kind for kind in kinds if shown({"kind": kind, "metadata": METADATA}) is None} == set()
