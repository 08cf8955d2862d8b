"""In-tree volumes as CSI drivers see them, after the tables of csi-translation-lib."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.model.csi_translation import (
    CsiVolume,
    TranslationError,
    driver_of_provisioner,
    is_migratable_inline,
    translate_inline,
    translate_volume,
    translated_affinity,
)
from scheduler.model.storage import PersistentVolume
from scheduler.model.volume_sources import Volume

ZONE, BETA_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION, BETA_REGION = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"
EBS_ZONE = "topology.ebs.csi.aws.com/zone"
EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}


def volume(source, *, labels=None, terms=None):
    spec = dict(source)
    if terms is not None:
        expressions = [{"key": key, "operator": "In", "values": list(values)} for key, values in terms]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    return msgspec.convert({"metadata": {"name": "pv", "labels": labels or {}}, "spec": spec}, PersistentVolume)


@pytest.mark.parametrize(
    ("source", "labels", "driver", "handle"),
    [
        ({"csi": {"driver": "d", "volumeHandle": "h"}}, {}, "d", "h"),
        (EBS, {}, "ebs.csi.aws.com", "vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1"}}, {}, "ebs.csi.aws.com", "vol-1"),
        ({"azureDisk": {"diskURI": "/a/b", "kind": "Managed"}}, {}, "disk.csi.azure.com", "/a/b"),
        ({"cinder": {"volumeID": "c"}}, {}, "cinder.csi.openstack.org", "c"),
        ({"portworxVolume": {"volumeID": "p"}}, {}, "pxd.portworx.com", "p"),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            {},
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
        ),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            {ZONE: "us-a1-b"},
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/us-a1-b/disks/d",
        ),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            {BETA_ZONE: "us-a1-b__us-a1-c"},
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/regions/us-a1/disks/d",
        ),
    ],
)
def test_volumes(source, labels, driver, handle) -> None:
    assert translate_volume(volume(source, labels=labels)) == CsiVolume(driver, handle)


@pytest.mark.parametrize(
    ("source", "labels"),
    [
        ({"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/disk-1"}}, {}),
        ({"azureDisk": {"diskURI": "/a", "kind": "Dedicated"}}, {}),
        ({"gcePersistentDisk": {"pdName": "d"}}, {ZONE: "us-a1-b__us-b2-c"}),
        ({"gcePersistentDisk": {"pdName": "d"}}, {ZONE: "somewhere__else"}),
    ],
)
def test_what_cannot_be_translated_is_said(source, labels) -> None:
    with pytest.raises(TranslationError):
        translate_volume(volume(source, labels=labels))
    with pytest.raises(TranslationError):
        translated_affinity(volume(source, labels=labels))


def test_other_sources_are_nobodys() -> None:
    assert translate_volume(volume({"local": {"path": "/x"}})) is None


@pytest.mark.parametrize(
    ("labels", "terms", "translated"),
    [
        ({}, None, None),
        ({}, [(ZONE, ["a"])], [(EBS_ZONE, ["a"])]),
        ({}, [(BETA_ZONE, ["a"]), (BETA_REGION, ["r"])], [(EBS_ZONE, ["a"]), (REGION, ["r"])]),
        ({ZONE: "b"}, [(ZONE, ["a"])], [(EBS_ZONE, ["a"])]),
        ({ZONE: "b__a"}, None, [(EBS_ZONE, ["a", "b"])]),
        ({BETA_ZONE: "a"}, [("x", ["y"])], [("x", ["y"]), (EBS_ZONE, ["a"])]),
        ({}, [("x", ["y"])], [("x", ["y"])]),
    ],
)
def test_affinity(labels, terms, translated) -> None:
    wanted = volume(EBS, terms=translated).spec.node_affinity
    assert translated_affinity(volume(EBS, labels=labels, terms=terms)) == (wanted and wanted.required)


@pytest.mark.parametrize(
    ("source", "is_migratable", "driver"),
    [
        (EBS, True, "ebs.csi.aws.com"),
        ({"azureFile": {}}, True, None),
        ({"vsphereVolume": {}}, True, None),
        ({"iscsi": {"iqn": "x"}}, False, None),
        ({"emptyDir": {}}, False, None),
    ],
)
def test_inline_volumes(source, is_migratable, driver) -> None:
    one = msgspec.convert({"name": "v", **source}, Volume)
    found = translate_inline(one)
    assert (is_migratable_inline(one), found and found.driver) == (is_migratable, driver)


def test_provisioners() -> None:
    given = ("csi.example.com", "kubernetes.io/gce-pd", "kubernetes.io/azure-file", "")
    assert [driver_of_provisioner(one) for one in given] == ["csi.example.com", "pd.csi.storage.gke.io", None, None]
