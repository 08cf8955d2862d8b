"""Which volume keeps a pod waiting, as its condition says it: the claim by name, and what is so."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from scheduler.framework.diagnosis import cause_of
from scheduler.plugins import default_plugins
from scheduler.why.reasons import TO_MAKE_IT_FIT
from tests import builders
from tests.core.rig import Rig
from tests.storage_builders import csi_node, storage_class, volume, volume_claim

CLAIM = "PersistentVolumeClaim default/data"
ZONE = "topology.kubernetes.io/zone"
ONE_POD = {"accessModes": ["ReadWriteOncePod"]}


class Case(NamedTuple):
    """Storage objects, the pod's volumes, and what is said."""

    name: str
    objects: tuple[Any, ...]
    kind: str
    cause: str
    change: str = ""
    pod: dict[str, Any] = {}  # noqa: RUF012
    running: tuple[dict[str, Any], ...] = ()


def mounts(*claims: str, **fields: Any) -> dict[str, Any]:
    return {"volumes": [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims], **fields}


def disk(name: str, **fields: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "d", "gcePersistentDisk": {"pdName": name}}], **fields}


CASES = [
    Case(
        "a claim that is written otherwise",
        (storage_class(), volume_claim("dta")),
        "volume-claim-missing",
        f"{CLAIM}, which pod default/p names, does not exist; dta does",
        "write claimName: dta instead of data in pod default/p",
    ),
    Case(
        "a claim that nobody made",
        (),
        "volume-claim-missing",
        f"{CLAIM}, which pod default/p names, does not exist",
    ),
    Case(
        "an ephemeral volume's claim that has not been made",
        (),
        "volume-claim-not-made",
        "PersistentVolumeClaim default/p-data, for the ephemeral volume data of pod default/p, has not been made yet",
        pod={"volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {}}}]},
    ),
    Case(
        "a class that is written otherwise",
        (storage_class("fast"), volume_claim("data", class_name="fsat")),
        "storage-class-missing",
        f"{CLAIM} names StorageClass fsat, which does not exist; fast does",
    ),
    Case(
        "no class",
        (volume_claim("data", class_name=""),),
        "volume-not-bound",
        f"{CLAIM} names no StorageClass, so no volume is made for it; no PersistentVolume is bound to it",
    ),
    Case(
        "a class that makes volumes at once, and has not",
        (storage_class("fast", mode="Immediate"), volume_claim("data", class_name="fast")),
        "volume-not-bound",
        f"{CLAIM} is not bound to a volume yet; its StorageClass is fast, whose provisioner is csi.example.com",
    ),
    Case(
        "a class that makes none",
        (
            storage_class("static", mode="Immediate", provisioner="kubernetes.io/no-provisioner"),
            volume_claim("data", class_name="static"),
        ),
        "volume-not-bound",
        f"{CLAIM} is not bound to a volume yet; its StorageClass is static, which makes no volumes (no provisioner)",
    ),
    Case(
        "a claim that is deleted",
        (storage_class(), volume_claim("data", deletionTimestamp="2026-01-01T00:00:00Z")),
        "volume-claim-deleting",
        f"{CLAIM} of pod default/p is being deleted",
    ),
    Case(
        "a claim whose volume is lost",
        (storage_class(), volume_claim("data", volume_name="pv", phase="Lost")),
        "volume-missing",
        f"{CLAIM} has lost its PersistentVolume pv, which does not exist any more",
    ),
    Case(
        "a volume in another zone",
        (storage_class(), volume("pv", zone="z", claim="default/data"), volume_claim("data", volume_name="pv")),
        "volume-unreachable",
        f"PersistentVolume pv of {CLAIM} cannot be reached from node a; no node reaches it",
    ),
    Case(
        "a volume whose labels name another zone",
        (
            storage_class(),
            volume("pv", claim="default/data", labels={ZONE: "eu-b"}),
            volume_claim("data", volume_name="pv"),
        ),
        "volume-unreachable",
        f"PersistentVolume pv of {CLAIM} is in {ZONE}=eu-b; node a is in eu-a",
    ),
    Case(
        "local volumes that are none",
        (storage_class("local", provisioner="kubernetes.io/no-provisioner"), volume_claim("data")),
        "volume-not-provided",
        f"{CLAIM}: no free volume of StorageClass local fits on node a, and it makes none (no provisioner)",
    ),
    Case(
        "a topology that the class does not allow",
        (
            storage_class(
                allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["eu-b"]}]}],
            ),
            volume_claim("data"),
        ),
        "volume-not-provided",
        f"{CLAIM}: StorageClass local makes no volumes for node a ({ZONE}=eu-a: not in allowedTopologies)",
    ),
    Case(
        "as many volumes as the driver may have",
        (
            storage_class(),
            csi_node("a", {"csi.example.com": 1}),
            volume("one", claim="default/one"),
            volume_claim("one", volume_name="one"),
            volume("two", claim="default/data"),
            volume_claim("data", volume_name="two"),
        ),
        "volume-limit",
        "node a has 1 of 1 volumes of driver csi.example.com, and pod default/p brings 1 more",
        "end pod default/other (priority 0) on node a",
        running=({"name": "other", "node": "a", **mounts("one")},),
    ),
    Case(
        "a claim that one pod has for itself",
        (
            storage_class(),
            volume("pv", claim="default/data"),
            volume_claim("data", volume_name="pv", spec=ONE_POD),
        ),
        "volume-in-use",
        f"{CLAIM} is for one pod alone (ReadWriteOncePod), and pod default/other (priority 0) on node a has it",
        "end pod default/other (priority 0) on node a",
        running=({"name": "other", "node": "a", **mounts("data")},),
    ),
    Case(
        "a disk that another pod has",
        (),
        "volume-in-use",
        "pod default/other (priority 0) on node a has a disk that pod default/p mounts, too (gcePersistentDisk d-1)",
        "end pod default/other (priority 0) on node a",
        pod=disk("d-1"),
        running=({"name": "other", "node": "a", **disk("d-1")},),
    ),
]


def told(case: Case) -> str:
    rig = Rig(*default_plugins(), reports_causes=True)
    rig.server.put_node(builders.node("a", labels={ZONE: "eu-a"}))
    for one in case.objects:
        rig.server.put_storage(one)
    for fields in case.running:
        rig.server.put_pod(builders.pod(**fields))
    rig.add_pod("p", **(case.pod or mounts("data")))
    rig.settle()
    rig.wait(1_000)
    condition = rig.condition_of("p")
    assert condition is not None
    return cause_of(condition[1])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_cause_and_the_change(case: Case) -> None:
    assert told(case) == f"[{case.kind}] {case.cause}" + (f"{TO_MAKE_IT_FIT}{case.change}" if case.change else "")
    assert len(case.cause) <= 160
