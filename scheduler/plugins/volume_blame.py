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
from scheduler.model.objects import ClaimVolume, Pod, Volume
from scheduler.model.storage import (
    NO_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolumeClaim,
    claim_of_volume,
    why_not_owned,
)
from scheduler.why.reasons import Fix, Reason, plain_fix, plain_reason

_NAMES_COMPARED: Final = 200
_VOLUMES_MAX: Final = 64
_LOOKUPS_A_CLAIM: Final = 32
_LOOKUPS_A_NAME: Final = 100


def blame_for_claims(plugin: str, cycle: Cycle, view: ClusterView, limits: Limits) -> Sequence[Reason]:
    """The first claims that cannot be used yet."""
    found: list[Reason] = []
    for volume in (cycle.pod.spec.volumes or ())[:_VOLUMES_MAX]:
        name = claim_of_volume(cycle.pod, volume)
        if name and len(found) < limits.counts:
            cycle.charge(_LOOKUPS_A_CLAIM)
            found += _of_claim(plugin, cycle, volume, name, view)
    return found


def claim_text(claim: ObjectKey) -> str:
    return f"PersistentVolumeClaim {claim}"


def _of_claim(plugin: str, cycle: Cycle, volume: Volume, name: str, view: ClusterView) -> Sequence[Reason]:
    pod = cycle.pod
    key = ObjectKey(pod.metadata.namespace, name)
    claim, what, about = view.storage.persistent_volume_claim(*key), claim_text(key), (plugin, name)
    if claim is None:
        if volume.ephemeral is not None:
            cause = f"{what}, for the ephemeral volume {volume.name} of pod {pod.key}, has not been made yet"
            return (plain_reason("volume-claim-not-made", cause, about),)
        meant = _near(cycle, name, view.storage.claim_names(key.namespace))
        cause = f"{what}, which pod {pod.key} names, does not exist" + (f"; {meant} does" if meant else "")
        return (
            plain_reason("volume-claim-missing", cause, about, _renamed(pod, volume, meant, view) if meant else ()),
        )
    if claim.metadata.deletion_timestamp is not None:
        return (plain_reason("volume-claim-deleting", f"{what} of pod {pod.key} is being deleted", about),)
    if volume.ephemeral is not None and why_not_owned(pod, claim) is not None:
        cause = f"{what} exists and was not made for pod {pod.key}, whose ephemeral volume {volume.name} has that name"
        return (plain_reason("volume-claim-foreign", cause, about),)
    if claim.status.phase == "Lost":
        cause = f"{what} has lost its PersistentVolume {claim.spec.volume_name}, which does not exist any more"
        return (plain_reason("volume-missing", cause, about),)
    return _unbound(cycle, claim, what, about, view)


def _unbound(
    cycle: Cycle, claim: PersistentVolumeClaim, what: str, about: tuple[str, str], view: ClusterView
) -> Sequence[Reason]:
    if claim.is_bound:
        return ()
    if claim.spec.volume_name:
        is_there = view.storage.persistent_volume(claim.spec.volume_name) is not None
        cause = f"{what} names PersistentVolume {claim.spec.volume_name}, " + (
            "and is not bound to it yet" if is_there else "which does not exist"
        )
        return (plain_reason("volume-not-bound" if is_there else "volume-missing", cause, about),)
    name = claim.class_name
    if not name:
        cause = f"{what} names no StorageClass, so no volume is made for it; no PersistentVolume is bound to it"
        return (plain_reason("volume-not-bound", cause, about),)
    storage_class = view.storage.storage_class(name)
    if storage_class is None:
        meant = _near(cycle, name, view.storage.class_names())
        more = f"; {meant} does" if meant else ""
        return (
            plain_reason(
                "storage-class-missing", f"{what} names StorageClass {name}, which does not exist{more}", about
            ),
        )
    if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
        return ()
    who = storage_class.provisioner
    made = "which makes no volumes (no provisioner)" if who in ("", NO_PROVISIONER) else f"whose provisioner is {who}"
    cause = f"{what} is not bound to a volume yet; its StorageClass is {name}, {made}"
    return (plain_reason("volume-not-bound", cause, about),)


def _near(cycle: Cycle, name: str, known: Sequence[str]) -> str:
    cycle.charge(len(known) + _LOOKUPS_A_NAME * min(len(known), _NAMES_COMPARED))
    return near(name, known[:_NAMES_COMPARED])


def _renamed(pod: Pod, volume: Volume, name: str, view: ClusterView) -> tuple[Fix, ...]:
    old = volume.persistent_volume_claim
    assert old is not None
    volumes = [
        structs.replace(one, persistent_volume_claim=ClaimVolume(name)) if one is volume else one
        for one in pod.spec.volumes or ()
    ]
    text = f"write claimName: {name} instead of {old.claim_name} in {edited_object(pod)}"
    changed = structs.replace(pod, spec=structs.replace(pod.spec, volumes=tuple(volumes)))
    return (plain_fix(1, text, tuple(view.node_infos)[:_VOLUMES_MAX], pod=changed),)
