"""What a pod's volumes are made of, as far as it decides where the pod can run, or better runs."""

from __future__ import annotations

import msgspec

from scheduler.model.record import Record


class Present(Record, frozen=True):
    """An object of which nobody reads a field, only that it exists."""


class ClaimVolume(Record, frozen=True):
    claim_name: str = ""


class AwsElasticBlockStore(Record, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")


class AzureDisk(Record, frozen=True):
    disk_name: str = ""
    disk_uri: str = msgspec.field(default="", name="diskURI")
    kind: str | None = None


class CinderVolume(Record, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")


class GcePersistentDisk(Record, frozen=True):
    pd_name: str = ""
    read_only: bool = False


class IscsiVolume(Record, frozen=True):
    iqn: str = ""
    read_only: bool = False


class PortworxVolume(Record, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")


class RbdVolume(Record, frozen=True):
    monitors: tuple[str, ...] | None = None
    image: str = ""
    pool: str = ""
    read_only: bool = False


class ImageVolume(Record, frozen=True):
    reference: str = ""


class PodCertificate(Record, frozen=True):
    key_type: str = ""


class VolumeProjection(Record, frozen=True):
    pod_certificate: PodCertificate | None = None


class ProjectedVolume(Record, frozen=True):
    sources: tuple[VolumeProjection, ...] | None = None


class Volume(Record, frozen=True):
    """Only the sources that decide where a pod can run, or better runs."""

    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: Present | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    azure_file: Present | None = None
    cinder: CinderVolume | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    image: ImageVolume | None = None
    iscsi: IscsiVolume | None = None
    portworx_volume: PortworxVolume | None = None
    projected: ProjectedVolume | None = None
    rbd: RbdVolume | None = None
    vsphere_volume: Present | None = None
