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
from scheduler.why.reasons import Reason

_LOOKUPS_A_NODE: Final = 8


def diagnose_volumes(cycle: Cycle, wanted: PodVolumes, node: NodeInfo, view: ClusterView) -> Sequence[Reason]:
    """The claim whose volume the node does not reach, or for which it has none."""
    csi_node = view.storage.csi_node(node.name)
    for bound in wanted.bound:
        claim, volume = str(bound.claim.key), bound.volume
        if volume is None:
            return (Reason("volume-missing", {"claim": claim, "volume": bound.claim.spec.volume_name}),)
        try:
            is_reached = is_reachable(volume, node.node, csi_node)
        except TranslationError:
            continue
        if not is_reached:
            nodes = _reached(cycle, volume, view)
            fields = {"volume": volume.name, "claim": claim, "node": node.name, "nodes": nodes}
            return (Reason("volume-unreachable", fields, "" if nodes else "nowhere"),)
    refused = [one for one in wanted.delayed if not _has(one, node, view)]
    return [_delayed(one, node, view) for one in refused or wanted.delayed[:1]]


def _reached(cycle: Cycle, volume: PersistentVolume, view: ClusterView) -> tuple[NodeName, ...]:
    """From where the volume is reached."""
    cycle.charge(_LOOKUPS_A_NODE * len(view.node_infos))
    found: list[NodeName] = []
    for name, info in view.node_infos.items():
        try:
            if is_reachable(volume, info.node, view.storage.csi_node(name)):
                found.append(name)
        except TranslationError:
            continue
    return tuple(sorted(found))


def _has(one: DelayedClaim, node: NodeInfo, view: ClusterView) -> bool:
    """Whether the node has a volume for this claim alone, or one can be made."""
    found = find_volumes(PodVolumes((), (one,)), node.node, view.storage.csi_node(node.name))
    return not isinstance(found, Status)


def _delayed(one: DelayedClaim, node: NodeInfo, view: ClusterView) -> Reason:
    storage_class, topology, form = one.storage_class, dict[str, None](), ""
    if one.selected_node is not None and one.selected_node != node.name:
        form = "selected"
    elif not one.is_provisioned:
        form = "static"
    elif storage_class.allowed_topologies:
        form = "topology"
        keys = [each.key for term in storage_class.allowed_topologies for each in term.match_label_expressions or ()]
        topology = dict.fromkeys([f"{key}={node.node.labels.get(key, 'none')}" for key in keys])
    else:
        found = find_volumes(PodVolumes((), (one,)), node.node, view.storage.csi_node(node.name))
        form = "full" if isinstance(found, Status) and found.reasons == (REASON_SPACE,) else ""
    fields = {
        "claim": str(one.claim.key),
        "node": node.name,
        "selected": one.selected_node,
        "storage_class": storage_class.name,
        "provisioner": storage_class.provisioner,
        "topology": tuple(topology),
    }
    return Reason("volume-not-provided", fields, form)
