"""PreBind of volumes: what is stored compared with what the pod needs, the next writes, and the wait for the rest.

Rules of this module
  1. A volume is promised to its claim, and a claim's node selected, by one conditional write each. The volume
     controller and the provisioners do the rest; the pod waits until all its claims are bound.
  2. Nothing is remembered of writes: what is held and not stored is to be written; what is neither has been taken back.
  3. What is stored is never taken back by us: a volume made for a node is there, and the next attempt takes it.

Source: pkg/scheduler/framework/plugins/volumebinding/binder.go (bindAPIUpdate, checkBindings) v1.36.3. Differs on
purpose: no poll; a volume that somebody else's claim has got ends the wait, instead of its timeout, and so does a claim
that has got another volume, with which upstream binds the pod.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from msgspec import Struct, structs

from scheduler.framework.api import PRE_BIND_DONE, PreBindFailed, PreBindStep, PreBindWait, PreBindWrite
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.decisions import BindPersistentVolume, SelectNode, VolumeWrite
from scheduler.framework.status import Status
from scheduler.model.csi_translation import TranslationError
from scheduler.model.keys import NodeName, VolumeClaimKey
from scheduler.model.node_info import NodeInfo
from scheduler.model.storage import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    ClaimReference,
    PersistentVolume,
    PersistentVolumeClaim,
)
from scheduler.plugins.volume_binding.pod_volumes import is_claimed_by
from scheduler.plugins.volume_binding.volume_matching import NodeVolumes, is_reachable

PENDING: Final = "VolumeBindingPending"
_TIMED_OUT: Final = "context deadline exceeded"
_NAMED_MAX: Final = 4


class VolumeGoal(Struct, frozen=True):
    """A volume for a claim.

    Args:
        is_chosen: The scheduler chose it, and notes that on the volume; else somebody has promised it to the claim.
    """

    volume: str
    claim: VolumeClaimKey
    claim_uid: str
    is_chosen: bool


class ClaimGoal(Struct, frozen=True):
    """A volume to be made for a claim."""

    claim: VolumeClaimKey
    uid: str


class VolumeGoals(Struct):
    """What Reserve has decided for the pod.

    Attributes:
        since_ms: When the wait began, None before.
    """

    volumes: tuple[VolumeGoal, ...]
    claims: tuple[ClaimGoal, ...]
    since_ms: int | None = None


class Missing(Struct, frozen=True):
    """What a claim still waits for."""

    claim: str
    text: str


Finding: TypeAlias = VolumeWrite | Missing | str | None
"""The next write; what is waited for; why the pod is given up; None: nothing is missing."""


def goals_of(found: NodeVolumes) -> VolumeGoals:
    """What is to be done for the volumes that a node has for a pod's claims."""
    return VolumeGoals(
        tuple(
            VolumeGoal(
                one.volume.name,
                VolumeClaimKey(*one.claim.key),
                one.claim.metadata.uid,
                not is_claimed_by(one.volume, one.claim),
            )
            for one in found.chosen
        ),
        tuple(ClaimGoal(VolumeClaimKey(*claim.key), claim.metadata.uid) for claim in found.provisioned),
    )


def assumed_for(found: NodeVolumes, node: NodeName) -> tuple[PersistentVolume | PersistentVolumeClaim, ...]:
    """The volumes and claims as they will be written, but for those that are stored, or held, so already."""
    volumes = [
        structs.replace(one.volume, spec=structs.replace(one.volume.spec, claim_ref=_reference(one.claim)))
        for one in found.chosen
        if one.volume.spec.claim_ref is None or not one.volume.spec.claim_ref.uid
    ]
    claims = [
        structs.replace(
            claim, metadata=structs.replace(claim.metadata, annotations=claim.annotations | {SELECTED_NODE: node})
        )
        for claim in found.provisioned
        if SELECTED_NODE not in claim.annotations
    ]
    return (*volumes, *claims)


def _reference(claim: PersistentVolumeClaim) -> ClaimReference:
    return ClaimReference(*claim.key, claim.metadata.uid)


def next_step(goals: VolumeGoals, cycle: Cycle, node: NodeName, view: ClusterView, *, timeout_ms: int) -> PreBindStep:
    """Go on writing, go on waiting, give up, or done."""
    info = view.node_infos.get(node)
    if info is None:
        return _failed(f'failed to get node "{node}": node "{node}" not found')
    findings: list[Finding] = [_of_volume(goal, info, view) for goal in goals.volumes]
    findings += [_of_claim(goal, info, view) for goal in goals.claims]
    failure = next((one for one in findings if isinstance(one, str)), None)
    if failure is not None:
        return _failed(failure)
    writes = tuple([one for one in findings if isinstance(one, BindPersistentVolume | SelectNode)])
    if writes:
        return PreBindWrite(writes)
    missing = [one for one in findings if isinstance(one, Missing)]
    if not missing:
        return PRE_BIND_DONE
    # Where the clock was set back the wait begins anew, or it would be longer by as much.
    goals.since_ms = cycle.now_ms if goals.since_ms is None else min(goals.since_ms, cycle.now_ms)
    deadline_ms = goals.since_ms + timeout_ms
    if deadline_ms <= cycle.now_ms:
        return _failed(_TIMED_OUT)
    return PreBindWait(deadline_ms, reason=PENDING, message=_message(missing, node))


def _of_volume(goal: VolumeGoal, node: NodeInfo, view: ClusterView) -> Finding:
    """How far a volume that exists is."""
    stored = view.storage.stored_volume(goal.volume)
    claim = view.storage.stored_claim(goal.claim)
    if stored is None:
        return f'failed to check binding: persistentvolumes "{goal.volume}" not found'
    if claim is None or claim.metadata.uid != goal.claim_uid:
        return f'failed to check binding: persistentvolumeclaims "{goal.claim}" not found'
    if claim.spec.volume_name not in ("", goal.volume):
        return f'PVC "{goal.claim.name}" was bound to volume "{claim.spec.volume_name}" in the meantime'
    if not is_claimed_by(stored, claim) or (stored.spec.claim_ref is not None and not stored.spec.claim_ref.uid):
        seen = view.storage.persistent_volume(goal.volume)
        if seen is None or not is_claimed_by(seen, claim):
            reference = stored.spec.claim_ref
            if reference is None:
                return f'ClaimRef got reset for pv "{goal.volume}"'
            return f'pv "{goal.volume}" was given to claim "{reference.namespace}/{reference.name}" in the meantime'
        return _promise(goal, stored, claim)
    missing = f"the volume controller to bind it to volume {goal.volume}"
    return _unreachable(stored, node, view) or _unbound(claim, missing)


def _promise(goal: VolumeGoal, stored: PersistentVolume, claim: PersistentVolumeClaim) -> VolumeWrite:
    noted = goal.is_chosen and BOUND_BY_CONTROLLER not in stored.annotations
    return BindPersistentVolume(
        volume=goal.volume,
        uid=stored.metadata.uid,
        expect_revision=stored.revision,
        claim=goal.claim,
        claim_uid=goal.claim_uid,
        claim_revision=claim.revision,
        annotations=((BOUND_BY_CONTROLLER, "yes"),) if noted else (),
    )


def _of_claim(goal: ClaimGoal, node: NodeInfo, view: ClusterView) -> Finding:
    """How far a volume that is made for a claim is."""
    stored = view.storage.stored_claim(goal.claim)
    if stored is None or stored.metadata.uid != goal.uid:
        return f'failed to check provisioning pvc: persistentvolumeclaims "{goal.claim}" not found'
    selected = stored.annotations.get(SELECTED_NODE)
    if selected is None:
        seen = view.storage.persistent_volume_claim(*goal.claim)
        if seen is not None and seen.annotations.get(SELECTED_NODE) == node.name:
            return SelectNode(goal.claim, goal.uid, stored.revision, node.name)
        if not stored.annotations:
            return f'selectedNode annotation reset for PVC "{goal.claim.name}"'
    if selected != node.name:
        return f'provisioning failed for PVC "{goal.claim.name}"'
    if stored.spec.volume_name:
        volume = view.storage.stored_volume(stored.spec.volume_name)
        if volume is None:
            return Missing(goal.claim.name, f"volume {stored.spec.volume_name} to be seen")
        unreachable = _unreachable(volume, node, view)
        if unreachable is not None:
            return unreachable
    return _unbound(stored, "its volume to be made")


def _unreachable(volume: PersistentVolume, node: NodeInfo, view: ClusterView) -> str | None:
    try:
        if is_reachable(volume, node.node, view.storage.csi_node(node.name)):
            return None
    except TranslationError as error:
        return f"failed to translate pv to csi: could not translate pv: {error}"
    return f'pv "{volume.name}" node affinity doesn\'t match node "{node.name}": no matching NodeSelectorTerms'


def _unbound(claim: PersistentVolumeClaim, text: str) -> Missing | None:
    return None if claim.is_bound else Missing(claim.name, text)


def _message(missing: Iterable[Missing], node: NodeName) -> str:
    texts = [f"claim {one.claim} waits for {one.text}" for one in missing]
    more = f"; and {len(texts) - _NAMED_MAX} more" if len(texts) > _NAMED_MAX else ""
    return f"waiting for volumes on node {node}: {'; '.join(texts[:_NAMED_MAX])}{more}"


def _failed(text: str) -> PreBindFailed:
    return PreBindFailed(Status.error(f'running PreBind plugin "VolumeBinding": binding volumes: {text}'))
