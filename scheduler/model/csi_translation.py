"""In-tree volumes as the CSI drivers that have replaced their plugins see them: driver, handle, node affinity.

Rules of this module
  1. Only what the scheduler asks: which driver, which handle (two volumes of one handle are one attachment), and where.
  2. AzureFile and vSphere are known as migratable, but the scheduler does not count or translate them (upstream too).

Not here: on which nodes a plugin is migrated (its CSINode says so), limits, binding.

Source: k8s.io/csi-translation-lib v0.36.3 (translate.go, plugins/*.go).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct, structs

from scheduler.model.objects import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from scheduler.model.storage import PersistentVolume, PersistentVolumeSpec, VolumeNodeAffinity
from scheduler.model.volume_sources import AwsElasticBlockStore, AzureDisk, GcePersistentDisk, Volume

ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
ZONES_DELIMITER: Final = "__"

_AWS: Final = "kubernetes.io/aws-ebs"
_GCE: Final = "kubernetes.io/gce-pd"
_AZURE: Final = "kubernetes.io/azure-disk"
_CINDER: Final = "kubernetes.io/cinder"
_PORTWORX: Final = "kubernetes.io/portworx-volume"
_DRIVERS: Final = {
    _AWS: "ebs.csi.aws.com",
    _GCE: "pd.csi.storage.gke.io",
    _AZURE: "disk.csi.azure.com",
    _CINDER: "cinder.csi.openstack.org",
    _PORTWORX: "pxd.portworx.com",
}
_UNTRANSLATED: Final = frozenset({"kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"})
_TOPOLOGY_KEYS: Final = {
    _AWS: "topology.ebs.csi.aws.com/zone",
    _GCE: "topology.gke.io/zone",
    _CINDER: "topology.cinder.csi.openstack.org/zone",
}
_EBS_ID: Final = re.compile(r"vol-[^/]*\Z")
_NO_AFFINITY: Final = VolumeNodeAffinity()


class CsiVolume(Struct, frozen=True):
    """One attachment: equal ones are the same."""

    driver: str
    handle: str


class TranslationError(ValueError):
    """The volume cannot be translated; says why, in upstream's words."""


def driver_of_provisioner(provisioner: str) -> str | None:
    """The driver that provisions for a class; None where nothing is counted."""
    if provisioner in _UNTRANSLATED:
        return None
    return _DRIVERS.get(provisioner, provisioner) or None


def is_migratable_inline(volume: Volume) -> bool:
    """Whether a volume in a pod's spec is of a type that CSI drivers have taken over."""
    return _plugin_of(volume) is not None or volume.azure_file is not None or volume.vsphere_volume is not None


def translate_inline(volume: Volume) -> CsiVolume | None:
    """A volume in a pod's spec; None for one that no driver has taken over. Raises TranslationError."""
    plugin = _plugin_of(volume)
    if plugin is None:
        return None
    if volume.gce_persistent_disk is not None:
        handle = _zonal_handle("UNSPECIFIED", volume.gce_persistent_disk)
    else:
        handle = _plain_handle(volume)
    return CsiVolume(_DRIVERS[plugin], handle)


def translate_volume(volume: PersistentVolume) -> CsiVolume | None:
    """A PersistentVolume: its own CSI source, or that of an in-tree source; None where nothing is attached by a
    driver. Raises TranslationError."""
    csi = volume.spec.csi
    if csi is not None:
        return CsiVolume(csi.driver, csi.volume_handle)
    plugin = _plugin_of(volume.spec)
    if plugin is None:
        return None
    disk = volume.spec.gce_persistent_disk
    handle = _gce_handle(volume, disk) if disk is not None else _plain_handle(volume.spec)
    return CsiVolume(_DRIVERS[plugin], handle)


def in_tree_plugin(volume: PersistentVolume) -> str | None:
    """The in-tree plugin of a PersistentVolume that may be migrated on a node; None for all others."""
    return _plugin_of(volume.spec)


def translated_affinity(volume: PersistentVolume) -> NodeSelector | None:
    """The required node affinity of an in-tree volume where its plugin is migrated. Raises TranslationError."""
    translate_volume(volume)  # what has no handle has no place either
    affinity = (volume.spec.node_affinity or _NO_AFFINITY).required
    key = _TOPOLOGY_KEYS.get(_plugin_of(volume.spec) or "")
    return affinity if key is None else _with_topology(volume, affinity, key)


def _plugin_of(source: Volume | PersistentVolumeSpec) -> str | None:
    if source.gce_persistent_disk is not None:
        return _GCE
    if source.aws_elastic_block_store is not None:
        return _AWS
    if source.cinder is not None:
        return _CINDER
    if source.azure_disk is not None:
        return _AZURE
    return _PORTWORX if source.portworx_volume is not None else None


def _plain_handle(source: Volume | PersistentVolumeSpec) -> str:
    if source.aws_elastic_block_store is not None:
        return _ebs_handle(source.aws_elastic_block_store)
    if source.azure_disk is not None:
        return _azure_handle(source.azure_disk)
    if source.cinder is not None:
        return source.cinder.volume_id
    assert source.portworx_volume is not None
    return source.portworx_volume.volume_id


def _ebs_handle(disk: AwsElasticBlockStore) -> str:
    given = disk.volume_id
    if not given.startswith("aws://"):
        return given
    handle = urlsplit(given).path.strip("/")
    if not _EBS_ID.match(handle):
        raise TranslationError(
            f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({given})"
        )
    return handle


def _azure_handle(disk: AzureDisk) -> str:
    if disk.kind is not None and disk.kind.lower() != "managed":
        raise TranslationError(f"kind({disk.kind}) is not supported in csi migration")
    return disk.disk_uri


def _gce_handle(volume: PersistentVolume, disk: GcePersistentDisk) -> str:
    zones = (volume.labels.get(BETA_ZONE) or volume.labels.get(ZONE) or "").split(ZONES_DELIMITER)
    if len(zones) == 1:
        return _zonal_handle(zones[0] or "UNSPECIFIED", disk)
    return f"projects/UNSPECIFIED/regions/{_gce_region(zones)}/disks/{disk.pd_name}"


def _zonal_handle(zone: str, disk: GcePersistentDisk) -> str:
    return f"projects/UNSPECIFIED/zones/{zone}/disks/{disk.pd_name}"


def _gce_region(zones: Iterable[str]) -> str:
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise TranslationError(
                "failed to get region from zones: zone in unexpected format, expected: {locale}-{region}-{zone}, "
                f"got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        raise TranslationError(
            f"failed to get region from zones: multiple or no regions gotten from zones, got: {sorted(regions)}"
        )
    return regions.pop()


def _with_topology(volume: PersistentVolume, affinity: NodeSelector | None, csi_key: str) -> NodeSelector | None:
    """The zones of the affinity under the driver's key; where it names none, those of the volume's labels."""
    zone, region = _topology_labels(volume, affinity)
    terms = affinity.node_selector_terms if affinity is not None else None
    if _values(terms, zone):
        terms = _renamed(terms, zone, csi_key)
    elif zone in volume.labels:
        zones = sorted({one.strip() for one in volume.labels[zone].split(ZONES_DELIMITER)} - {""})
        if zones:
            added = NodeSelectorRequirement(csi_key, "In", tuple(zones))
            terms = tuple(
                structs.replace(term, match_expressions=(*(term.match_expressions or ()), added))
                for term in terms or (NodeSelectorTerm(),)
            )
    if region == BETA_REGION and _values(terms, region):
        terms = _renamed(terms, region, REGION)
    return NodeSelector(terms) if terms is not None else affinity


def _topology_labels(volume: PersistentVolume, affinity: NodeSelector | None) -> tuple[str, str]:
    terms = affinity.node_selector_terms if affinity is not None else None
    if _has_key(terms, ZONE):
        return ZONE, REGION
    if _has_key(terms, BETA_ZONE) or (ZONE not in volume.labels and BETA_ZONE in volume.labels):
        return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _has_key(terms: tuple[NodeSelectorTerm, ...] | None, key: str) -> bool:
    return any(one.key == key for term in terms or () for one in term.match_expressions or ())


def _values(terms: tuple[NodeSelectorTerm, ...] | None, key: str) -> bool:
    """Whether some expression of `key` names a value."""
    return any(one.key == key and one.values for term in terms or () for one in term.match_expressions or ())


def _renamed(terms: tuple[NodeSelectorTerm, ...] | None, key: str, to: str) -> tuple[NodeSelectorTerm, ...]:
    return tuple(
        structs.replace(
            term,
            match_expressions=tuple(
                structs.replace(one, key=to) if one.key == key else one for one in term.match_expressions or ()
            ),
        )
        for term in terms or ()
    )
