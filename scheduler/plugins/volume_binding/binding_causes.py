"""Which volume keeps a pod from a node: what VolumeBinding says of nodes that it refused.

Not here: the verdict (`volume_matching`). No change is proposed: where a volume can be reached is its driver's affair.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.status import Status
from scheduler.model.csi_translation import TranslationError
from scheduler.model.keys import NodeName
from scheduler.model.node_info import NodeInfo
from scheduler.model.storage import PersistentVolume
from scheduler.plugins.volume_binding.pod_volumes import DelayedClaim, PodVolumes
from scheduler.plugins.volume_binding.volume_matching import REASON_SPACE, find_volumes, is_reachable
from scheduler.plugins.volume_blame import claim_text
from scheduler.why.reasons import Reason, plain_reason

_LOOKUPS_A_NODE: Final = 8
_NODES_SAID: Final = 3


def blame_for_volumes(
    plugin: str, cycle: Cycle, wanted: PodVolumes, node: NodeInfo, view: ClusterView
) -> Sequence[Reason]:
    """The claim whose volume the node does not reach, or for which it has none."""
    csi_node = view.storage.csi_node(node.name)
    for bound in wanted.bound:
        claim, volume = claim_text(bound.claim.key), bound.volume
        if volume is None:
            cause = f"{claim} has lost its PersistentVolume {bound.claim.spec.volume_name}, which does not exist"
            return (plain_reason("volume-missing", cause, (plugin, claim)),)
        try:
            is_reached = is_reachable(volume, node.node, csi_node)
        except TranslationError:
            continue
        if not is_reached:
            where = _reached(cycle, volume, view)
            cause = f"PersistentVolume {volume.name} of {claim} cannot be reached from node {node.name}; {where}"
            return (plain_reason("volume-unreachable", cause, (plugin, claim)),)
    refused = [one for one in wanted.delayed if not _has(one, node, view)]
    return [
        plain_reason("volume-not-provided", _delayed(one, node, view), (plugin, claim_text(one.claim.key)))
        for one in refused or wanted.delayed[:1]
    ]


def _reached(cycle: Cycle, volume: PersistentVolume, view: ClusterView) -> str:
    """From where the volume is reached."""
    cycle.charge(_LOOKUPS_A_NODE * len(view.node_infos))
    names: list[NodeName] = []
    for name, info in view.node_infos.items():
        try:
            if is_reachable(volume, info.node, view.storage.csi_node(name)):
                names.append(name)
        except TranslationError:
            continue
    if not names:
        return "no node reaches it"
    more = f" and {len(names) - _NODES_SAID} more do" if len(names) > _NODES_SAID else ""
    verb = "" if more else " does" if len(names) == 1 else " do"
    return f"{'node' if len(names) == 1 else 'nodes'} {', '.join(sorted(names)[:_NODES_SAID])}{more}{verb}"


def _has(one: DelayedClaim, node: NodeInfo, view: ClusterView) -> bool:
    """Whether the node has a volume for this claim alone, or one can be made."""
    found = find_volumes(PodVolumes((), (one,)), node.node, view.storage.csi_node(node.name))
    return not isinstance(found, Status)


def _delayed(one: DelayedClaim, node: NodeInfo, view: ClusterView) -> str:
    claim, storage_class = claim_text(one.claim.key), one.storage_class
    if one.selected_node is not None and one.selected_node != node.name:
        return f"{claim}: its volume is being made for node {one.selected_node}"
    which = f"StorageClass {storage_class.name}"
    if not one.is_provisioned:
        return f"{claim}: no free volume of {which} fits on node {node.name}, and it makes none (no provisioner)"
    who = storage_class.provisioner
    if storage_class.allowed_topologies:
        keys = [each.key for term in storage_class.allowed_topologies for each in term.match_label_expressions or ()]
        values = {f"{key}={node.node.labels.get(key, 'none')}": None for key in keys[:_NODES_SAID]}
        return f"{claim}: {which} makes no volumes for node {node.name} ({', '.join(values)}: not in allowedTopologies)"
    found = find_volumes(PodVolumes((), (one,)), node.node, view.storage.csi_node(node.name))
    if isinstance(found, Status) and found.reasons == (REASON_SPACE,):
        return f"{claim}: the driver {who} of {which} has too little storage left for it on node {node.name}"
    return f"{claim}: no volume of {which} is there for node {node.name}, and {who} makes none there now"
