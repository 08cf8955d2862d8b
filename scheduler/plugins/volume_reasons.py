"""What is wrong with a pod's PersistentVolumeClaims wherever it would run: what plugins say whose PreFilter refused it.

Not here: what keeps it from one node or another (each plugin); asking as if a change were made
(`core.reports.cause_search`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import structs

from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import Limits, edited_object
from scheduler.model.keys import ObjectKey
from scheduler.model.nearest import near
from scheduler.model.objects import Pod
from scheduler.model.storage import (
    NO_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolumeClaim,
    claim_of_volume,
    why_not_owned,
)
from scheduler.model.volume_sources import ClaimVolume, Volume
from scheduler.why.reasons import Fix, Reason
from scheduler.why.say import Fields

_NAMES_COMPARED: Final = 200
_VOLUMES_MAX: Final = 64
_LOOKUPS_A_CLAIM: Final = 32
_LOOKUPS_A_NAME: Final = 100


def diagnose_claims(cycle: Cycle, view: ClusterView, limits: Limits) -> Sequence[Reason]:
    """The first claims that cannot be used yet."""
    found: list[Reason] = []
    for volume in (cycle.pod.spec.volumes or ())[:_VOLUMES_MAX]:
        name = claim_of_volume(cycle.pod, volume)
        if name and len(found) < limits.counts:
            cycle.charge(_LOOKUPS_A_CLAIM)
            reason = _of_claim(cycle, volume, name, view)
            found += [reason] if reason is not None else []
    return found


def _of_claim(cycle: Cycle, volume: Volume, name: str, view: ClusterView) -> Reason | None:
    pod, key = cycle.pod, ObjectKey(cycle.pod.metadata.namespace, name)
    claim = view.storage.persistent_volume_claim(*key)
    fields: dict[str, object] = {"claim": str(key), "pod": pod.key, "volume": volume.name}
    if claim is None and volume.ephemeral is not None:
        return Reason("volume-claim-not-made", fields)
    if claim is None:
        meant = _near(cycle, name, view.storage.claim_names(key.namespace))
        return Reason("volume-claim-missing", {**fields, "meant": meant}, fixes=_renamed(pod, volume, meant, view))
    if claim.metadata.deletion_timestamp is not None:
        return Reason("volume-claim-deleting", fields)
    if volume.ephemeral is not None and why_not_owned(pod, claim) is not None:
        return Reason("volume-claim-foreign", fields)
    return _unbound(cycle, claim, {**fields, "volume": claim.spec.volume_name}, view)


def _unbound(cycle: Cycle, claim: PersistentVolumeClaim, fields: Fields, view: ClusterView) -> Reason | None:
    if claim.status.phase == "Lost":
        return Reason("volume-missing", fields)
    if claim.is_bound:
        return None
    if claim.spec.volume_name:
        is_there = view.storage.persistent_volume(claim.spec.volume_name) is not None
        return Reason("volume-not-bound" if is_there else "volume-missing", fields, "named")
    name = claim.class_name
    if not name:
        return Reason("volume-not-bound", fields, "classless")
    storage_class = view.storage.storage_class(name)
    if storage_class is None:
        meant = _near(cycle, name, view.storage.class_names())
        return Reason("storage-class-missing", {**fields, "storage_class": name, "meant": meant})
    if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
        return None
    who = storage_class.provisioner
    form = "static" if who in ("", NO_PROVISIONER) else ""
    return Reason("volume-not-bound", {**fields, "storage_class": name, "provisioner": who}, form)


def _near(cycle: Cycle, name: str, known: Sequence[str]) -> str:
    cycle.charge(len(known) + _LOOKUPS_A_NAME * min(len(known), _NAMES_COMPARED))
    return near(name, known[:_NAMES_COMPARED])


def _renamed(pod: Pod, volume: Volume, name: str, view: ClusterView) -> tuple[Fix, ...]:
    old = volume.persistent_volume_claim
    if not name or old is None:
        return ()
    volumes = [
        structs.replace(one, persistent_volume_claim=ClaimVolume(name)) if one is volume else one
        for one in pod.spec.volumes or ()
    ]
    fields = {"written": f"claimName: {name}", "wrong": old.claim_name, "edited": edited_object(pod)}
    changed = structs.replace(pod, spec=structs.replace(pod.spec, volumes=tuple(volumes)))
    return (Fix("written", fields, tuple(view.node_infos)[:_VOLUMES_MAX], pod=changed),)
